/* overlap_options.c - see overlap_options.h. */
#include "collectives/overlap/overlap_options.h"

static const char *const type_words[] = {"bfloat16", "half", "float", NULL};

/* Collectives of one launch, with the same amount from and to every rank. */
static const char *collective_at(size_t i)
{
    for (size_t kind = 0; kind < BB_COLL_KIND_COUNT; kind++)
        if (!(bb_colls[kind].flags & (BB_COLL_UNEVEN | BB_COLL_ROUNDS)) && i-- == 0)
            return bb_colls[kind].name;
    return NULL;
}

#define FIELD(name) .offset = offsetof(struct bb_bench_overlap_options, name)
static const struct bb_opt option_rows[] = {
    {.name = "collective",
     .kind = BB_OPT_WORD,
     FIELD(collective),
     .def = "all_reduce",
     .arg = "NAME",
     .help = "what runs beside the products; reductions sum, roots are rank 0",
     .word_at = collective_at},
    {.name = "sizes",
     .kind = BB_OPT_STRING,
     FIELD(size_list),
     .def = "1M,8M,64M",
     .arg = "LIST",
     .help = "bytes of the collective, as bench counts them"},
    {.name = "ctas",
     .kind = BB_OPT_STRING,
     FIELD(cta_list),
     .def = "default,1,2,4,8,16,32",
     .arg = "LIST",
     .help = "limits on the CTAs of the communicator: default (NCCL's own), MAX or MIN:MAX"},
    {.name = "gemm",
     .kind = BB_OPT_STRING,
     FIELD(mnk),
     .def = "4096",
     .arg = "MxNxK",
     .help = "the product that computes, or N for NxNxN"},
    {.letter = 'd',
     .name = "datatype",
     .kind = BB_OPT_WORD,
     FIELD(dtype),
     .def = "bfloat16",
     .arg = "TYPE",
     .help = "element type of products and collectives",
     .words = type_words},
    {.letter = 'n',
     .name = "iters",
     .kind = BB_OPT_INT,
     FIELD(collectives),
     .def = "10",
     .arg = "N",
     .help = "collectives per sample; more when a product takes longer than these",
     .min = 1,
     .max = BB_OVERLAP_CALLS},
    {.name = "products",
     .kind = BB_OPT_INT,
     FIELD(products),
     .def = "0",
     .arg = "N",
     .help = "products per sample; 0: about as long as the collectives take alone",
     .max = BB_OVERLAP_CALLS},
    {.name = "repeats",
     .kind = BB_OPT_INT,
     FIELD(repeats),
     .def = "7",
     .arg = "N",
     .help = "samples per row: its times are their medians",
     .min = 1,
     .max = 1e5},
    {.letter = 'w',
     .name = "warmup_iters",
     .kind = BB_OPT_INT,
     FIELD(warmup),
     .def = "3",
     .arg = "N",
     .help = "products and collectives before the first sample of a row",
     .max = 1e6},
    {0},
};
static const struct bb_opt_table tables[] = {
    {.title = "Measurement", .opts = option_rows},
    {.title = "Common options", .opts = bb_common_options, .base = offsetof(struct bb_bench_overlap_options, common)},
    {0},
};
const struct bb_opts bb_bench_overlap_set = {
    .usage = "busbar bench overlap [OPTION...]",
    .doc =
        "What a matrix product and a collective cost each other: each alone, then both at the same time, on streams\n"
        "of their own behind a common start, over message sizes and limits on the CTAs that NCCL may take.",
    .tables = tables};

int bb_bench_overlap_parse(struct bb_bench_overlap_options *o, int argc, char **argv)
{
    struct bb_words words;
    int64_t mnk[3];
    int rc;

    TRY(bb_opts_parse(&bb_bench_overlap_set, o, argc - 1, argv + 1, &words, stdout));
    if (words.n > 0)
        return bb_err(BB_EUSAGE, "unexpected word '%s'; bench overlap takes options alone (--collective NAME)",
                      words.word[0]);
    TRY(bb_sizes_parse(&o->sizes, "--sizes", o->size_list));
    TRY(bb_cta_limits_parse(o->cta_list, o->limits, &o->n_limits));
    TRY(bb_product_parse(o->mnk, mnk));
    o->kind = (enum bb_coll_kind)bb_coll_find(o->collective);
    o->product =
        (struct bb_gemm_shape){mnk[0], mnk[1], mnk[2], 1, false, false, (enum bb_dtype_id)bb_dtype_find(o->dtype)};
out:
    return rc;
}

int bb_bench_overlap_check(int argc, char **argv)
{
    struct bb_bench_overlap_options o = {0};

    return bb_bench_overlap_parse(&o, argc, argv);
}
