/* compute_options.c - see compute_options.h. */
#include "collectives/compute/compute_options.h"

#include "collectives/ops/foreign_options.h"
#include "cuda/work/layer_shape.h"

#include <string.h>

const char *const bb_compute_section_names[BB_COMPUTE_SECTIONS] = {"gemm", "memory_kernels", "timed"};
const struct bb_compute_type bb_compute_types[BB_COMPUTE_TYPES] = {
    {"float", BB_FLOAT, false}, {"half", BB_HALF, false}, {"bfloat16", BB_BFLOAT16, false}, {"tf32", BB_FLOAT, true}};

enum { QUICK_BYTES = 64 << 10 };

static const char *type_or_all(size_t i)
{
    return i == 0 ? "all" : i <= BB_COMPUTE_TYPES ? bb_compute_types[i - 1].name : NULL;
}

#define FIELD(name) offsetof(struct bb_bench_compute_options, name)
static const struct bb_opt option_rows[] = {
    OPT_CHOICE_AT('d', "datatype", FIELD(dtype), "all", "TYPE", type_or_all,
                  "element type of GEMMs and memory-bound kernels; tf32: float, but GEMMs round the operands to TF32 "
                  "(not part of all)"),
    OPT_SIZE(0, "size", FIELD(bytes), "256M", "BYTES", 1024, 1ull << 40,
             "approximate bytes moved by a memory-bound kernel; use several times the L2 size to measure memory, not "
             "the cache"),
    OPT_ITERS(FIELD(iterations)),
    OPT_REPEATS(FIELD(repeats)),
    OPT_WARMUP(FIELD(warmup)),
    OPT_INT(0, "candidates", FIELD(candidates), "8", "N", 1, BB_GEMM_CANDIDATES,
            "cuBLASLt algorithms to try for each GEMM; 1: only its first choice"),
    OPT_DOUBLE(
        0, "max-error", FIELD(max_error), NULL, "PERCENT", 0, 1e6,
        "exit with status 5 if a timed kernel of 100 us or more deviates by more than PERCENT plus 5 us; 0: no check"),
    OPT_DOUBLE(
        0, "slow", FIELD(slow), "1.1", "FACTOR", 1.001, 100,
        "a rank is slow above FACTOR x the typical time (the median of the ranks; if the times have a gap: of the "
        "ranks below it) in at least half of the results of a section and type"),
    OPT_INT(0, "max-slow", FIELD(max_slow), "-1", "N", -1, 1e9,
            "exit with status 5 if more than N ranks are slow; -1: never"),
    OPT_FLAG(0, "quick", FIELD(quick), "few cases of at most 64 KiB, as a smoke test; they do not show slow GPUs"),
    {0},
};
static const struct bb_opt_table tables[] = {
    {.title = "Measurement", .opts = option_rows},
    {.title = "Common options", .opts = bb_common_options, .base = FIELD(common)},
    {0},
};

static int parse_sections(const struct bb_positionals *positionals, bool wanted[BB_COMPUTE_SECTIONS])
{
    for (int s = 0; s < BB_COMPUTE_SECTIONS; s++)
        wanted[s] = positionals->n == 0;
    for (int i = 0; i < positionals->n; i++) {
        int s = 0;
        while (s < BB_COMPUTE_SECTIONS && strcmp(positionals->word[i], bb_compute_section_names[s]) != 0)
            s++;
        if (s == BB_COMPUTE_SECTIONS)
            return bb_reject_unknown("section of compute", positionals->word[i], bb_compute_section_names,
                                     BB_COMPUTE_SECTIONS);
        wanted[s] = true;
    }
    return 0;
}

bool bb_compute_hides_slow_gpus(const struct bb_bench_compute_options *o)
{
    return o->quick && (o->wanted[BB_COMPUTE_GEMM] || o->wanted[BB_COMPUTE_MEMORY_KERNELS]);
}

static int resolve_options(void *options, const struct bb_positionals *positionals)
{
    struct bb_bench_compute_options *o = options;
    int rc;

    if (o->quick && o->bytes > QUICK_BYTES)
        o->bytes = QUICK_BYTES;
    TRY(parse_sections(positionals, o->wanted));
    if (o->max_slow >= 0 && bb_compute_hides_slow_gpus(o))
        return bb_err(BB_EUSAGE,
                      "--max-slow cannot judge the GEMMs and memory-bound kernels of --quick, which are too "
                      "short to show a slow GPU; leave out --quick, or try: compute timed --quick --max-slow %d",
                      o->max_slow);
out:
    return rc;
}

const struct bb_opts bb_bench_compute_set = {
    .usage = "busbar bench compute [gemm] [memory_kernels] [timed] [OPTION...]",
    .doc = "Kernel performance, compared with the measured limits of the GPU, in three sections (default: all):\n"
           "gemm (GEMMs of real layers, TFLOP/s), memory_kernels (memory-bound kernels of a layer, GB/s) and timed\n"
           "(accuracy of the kernel that runs for a given time in place of compute).",
    .foreign = bb_bench_foreign_options,
    .exits =
        {BB_EXITS_RANKS, [5] = "more slow ranks than --max-slow, or a timed kernel deviates by more than --max-error"},
    .examples = "  mpirun -n 8 busbar bench compute gemm -d bfloat16\n",
    .tables = tables,
    .size = sizeof(struct bb_bench_compute_options),
    .resolve = resolve_options};
