/* overlap_options.c - see overlap_options.h. */
#include "collectives/overlap/overlap_options.h"

#include "collectives/ops/foreign_options.h"

#include <stdlib.h>

static const char *const type_choices[] = {"bfloat16", "half", "float", NULL};

/* Returns the name of the i-th collective that is one NCCL call with equal counts on all ranks; NULL if there are at
 * most i of them. */
static const char *collective_at(size_t i)
{
    for (size_t kind = 0; kind < BB_COLL_KIND_COUNT; kind++)
        if (!(bb_colls[kind].flags & (BB_COLL_VARIABLE_COUNTS | BB_COLL_ROUNDS)) && i-- == 0)
            return bb_colls[kind].name;
    return NULL;
}

#define ALL_CTAS    "default,1,2,4,8,16,32"
#define FIELD(name) offsetof(struct bb_bench_overlap_options, name)
static const struct bb_opt option_rows[] = {
    OPT_CHOICE_AT(0, "collective", FIELD(collective), "all_reduce", "NAME", collective_at,
                  "collective that runs concurrently with the GEMMs; reductions use sum, the root is rank 0"),
    OPT_STRING(0, "sizes", FIELD(size_list), "1M,8M,64M", "LIST",
               "message sizes of the collective, counted as in bench"),
    OPT_STRING(0, "ctas", FIELD(cta_list), NULL, "LIST",
               "limits on the CTAs of the communicator: default (NCCL's own), MAX or MIN:MAX; default: " ALL_CTAS
               ", or only NCCL's own where NCCL_MAX_CTAS or NCCL_MIN_CTAS overrides the limits"),
    OPT_STRING(0, "gemm", FIELD(mnk), "4096", "MxNxK", "dimensions of the GEMM; N means NxNxN"),
    OPT_CHOICE('d', "datatype", FIELD(dtype), "bfloat16", "TYPE", type_choices,
               "element type of GEMMs and collectives; GEMMs of type float do not use TF32"),
    OPT_INT('n', "iters", FIELD(collectives), "10", "N", 1, BB_OVERLAP_CALLS,
            "collectives per sample; raised if one GEMM takes longer than N collectives"),
    OPT_INT(0, "gemms", FIELD(gemms), "0", "N", 0, BB_OVERLAP_CALLS,
            "GEMMs per sample; 0: chosen so that GEMMs and collectives take about the same time"),
    OPT_INT(0, "gemm-sms", FIELD(gemm_sms), "0", "N", 0, 1024,
            "SMs that cuBLASLt chooses the GEMM's algorithm for, so that the others are left to NCCL; 0: all"),
    OPT_INT(0, "repeats", FIELD(repeats), "7", "N", 1, 1e5, "samples per row; the medians are reported"),
    OPT_BUFFERS(FIELD(common.buffers)),
    OPT_INT('w', "warmup_iters", FIELD(warmup), "3", "N", 0, 1e6,
            "untimed GEMMs and collectives before the first sample of a row"),
    {0},
};
static const struct bb_opt_table tables[] = {
    {.title = "Measurement", .opts = option_rows},
    {.title = "Common options", .opts = bb_common_options, .base = FIELD(common)},
    {0},
};

/* Parses --ctas. Variables of NCCL override the limits of communicators, so that all limits would be the same. */
static int parse_ctas(struct bb_bench_overlap_options *o)
{
    const char *variable = getenv("NCCL_MAX_CTAS") ? "NCCL_MAX_CTAS" : getenv("NCCL_MIN_CTAS") ? "NCCL_MIN_CTAS" : NULL;
    int rc;

    if (!o->cta_list)
        o->cta_list = variable ? "default" : ALL_CTAS;
    TRY(bb_cta_limits_parse(o->cta_list, o->limits, &o->n_limits));
    for (int i = 0; i < o->n_limits && variable; i++)
        if (o->limits[i].max > 0)
            return bb_err(BB_EUSAGE, "--ctas %s: %s=%s overrides all limits; unset it, or leave out --ctas",
                          o->cta_list, variable, getenv(variable));
out:
    return rc;
}

static int resolve_options(void *options, const struct bb_positionals *positionals)
{
    struct bb_bench_overlap_options *o = options;
    int64_t mnk[3];
    int rc;

    if (positionals->n > 0)
        return bb_err(BB_EUSAGE, "unexpected argument '%s'; bench overlap accepts only options; try: --collective NAME",
                      positionals->word[0]);
    TRY(bb_sizes_parse(&o->sizes, "--sizes", o->size_list, 1));
    TRY(parse_ctas(o));
    TRY(bb_gemm_dimensions_parse(o->mnk, mnk));
    o->kind = (enum bb_coll_kind)bb_coll_find(o->collective);
    o->gemm_shape =
        (struct bb_gemm_shape){mnk[0], mnk[1], mnk[2], 1, false, false, (enum bb_dtype_id)bb_dtype_find(o->dtype)};
out:
    return rc;
}

const struct bb_opts bb_bench_overlap_set = {
    .usage = "busbar bench overlap [OPTION...]",
    .doc = "Contention between a GEMM and a collective: each runs alone, then both run concurrently on separate\n"
           "streams from a common start, for several message sizes and limits on NCCL's CTAs. Names GPUs whose\n"
           "GEMMs take more than 1.1 times as long as those of the typical GPU.",
    .foreign = bb_bench_foreign_options,
    .exits = {BB_EXITS_RANKS},
    .examples = "An all-reduce concurrent with GEMMs, for three limits of NCCL's CTAs:\n"
                "  mpirun -n 8 busbar bench overlap --sizes 64M --ctas default,4,16\n",
    .tables = tables,
    .size = sizeof(struct bb_bench_overlap_options),
    .resolve = resolve_options};
