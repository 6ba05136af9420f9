/* options.c - letters and long names are those of nccl-tests where nccl-tests has the option. */
#include "collectives/options.h"

#include "bootstrap/units.h"

#include <string.h>

static const char *dtype_or_all(size_t i)
{
    return i == BB_DTYPE_COUNT ? "all" : bb_dtype_name_at(i);
}

static const char *redop_or_all(size_t i)
{
    return i == BB_REDOP_COUNT ? "all" : bb_redop_name_at(i);
}

static const char *const placements[] = {"both", "out_of_place", "in_place", NULL};

enum { LARGEST_LOG2 = 50 }; /* sizes up to 1 PiB: sums of buffers cannot overflow */

#define FIELD(name) .offset = offsetof(struct bb_bench_options, name)
static const struct bb_opt options[] = {
    {.letter = 'b',
     .name = "minbytes",
     .kind = BB_OPT_SIZE,
     FIELD(min_bytes),
     .def = "8",
     .arg = "BYTES",
     .help = "first size (K M G are 1024-based)",
     .max = (double)(1ull << LARGEST_LOG2)},
    {.letter = 'e',
     .name = "maxbytes",
     .kind = BB_OPT_SIZE,
     FIELD(max_bytes),
     .def = "32M",
     .arg = "BYTES",
     .help = "last size",
     .max = (double)(1ull << LARGEST_LOG2)},
    {.letter = 'f',
     .name = "stepfactor",
     .kind = BB_OPT_DOUBLE,
     FIELD(factor),
     .arg = "FACTOR",
     .help = "factor between sizes, when above 1; 2 when neither -f nor -i is given",
     .max = 1e6},
    {.letter = 'i',
     .name = "stepbytes",
     .kind = BB_OPT_SIZE,
     FIELD(step_bytes),
     .arg = "BYTES",
     .help = "distance between sizes, when -f is not above 1",
     .max = (double)(1ull << LARGEST_LOG2)},
    {.letter = 'n',
     .name = "iters",
     .kind = BB_OPT_INT,
     FIELD(iterations),
     .def = "20",
     .arg = "N",
     .help = "timed operations per sample, back to back",
     .min = 1,
     .max = 1e6},
    {.name = "repeats",
     .kind = BB_OPT_INT,
     FIELD(repeats),
     .def = "6",
     .arg = "N",
     .help = "samples per row: the row's time is their median",
     .min = 1,
     .max = 1e5},
    {.letter = 'w',
     .name = "warmup_iters",
     .kind = BB_OPT_INT,
     FIELD(warmup),
     .def = "5",
     .arg = "N",
     .help = "operations before the first sample of a row",
     .max = 1e6},
    {.letter = 'c',
     .name = "check",
     .kind = BB_OPT_INT,
     FIELD(checks),
     .def = "1",
     .arg = "N",
     .help = "verified passes per row, the last timed operation first; 0: none",
     .max = 1e4},
    {.letter = 'd',
     .name = "datatype",
     .kind = BB_OPT_WORD,
     FIELD(dtype),
     .def = "float",
     .arg = "TYPE",
     .help = "element type",
     .word_at = dtype_or_all},
    {.letter = 'o',
     .name = "op",
     .kind = BB_OPT_WORD,
     FIELD(redop),
     .def = "sum",
     .arg = "OP",
     .help = "reduction operation",
     .word_at = redop_or_all},
    {.letter = 'r',
     .name = "root",
     .kind = BB_OPT_INT,
     FIELD(root),
     .def = "0",
     .arg = "RANK",
     .help = "root rank of operations that have one",
     .max = 1e9},
    {.name = "placement",
     .kind = BB_OPT_WORD,
     FIELD(placement),
     .def = "both",
     .arg = "WHERE",
     .help = "which columns are measured",
     .words = placements},
    {0},
};

static const struct bb_opt_table tables[] = {
    {.title = "Measurement", .opts = options},
    {.title = "Common options", .opts = bb_common_options, .base = offsetof(struct bb_bench_options, common)},
    {0},
};

static const struct bb_opts set = {
    .usage = "busbar bench COLLECTIVE... [OPTION...]",
    .doc = "Times NCCL operations: one row per size. COLLECTIVE is a name of `busbar list collectives`, or all.\n"
           "Start it with one rank per GPU: mpirun -n 8 busbar bench all_reduce -b 8 -e 1G\n"
           "`busbar bench compute` times what the GPUs compute instead; it has options of its own (--help).",
    .after =
        "time: N operations back to back on one stream between CUDA events, divided by N; per sample the slowest\n"
        "rank, per row the median of the samples. algbw = size / time. busbw = algbw times a factor per collective\n"
        "(`busbar list collectives`): what one direction of one GPU's link carries in a flat, bus-bound algorithm.\n"
        "1 GB/s = 1e9 bytes/s. Sizes of sliced collectives are rounded down to slices of 16 bytes.\n"
        "Exit status: 0 ok, 1 the run failed, 2 usage, 3 wrong data, 4 timeout or lost rank.",
    .tables = tables,
};

static int add_collective(struct bb_sweep *s, const char *word)
{
    const char *words[BB_COLL_KIND_COUNT + 1];
    int kind = bb_coll_find(word);

    if (kind >= 0) {
        for (int i = 0; i < s->n_colls; i++)
            if (s->colls[i] == kind)
                return bb_err(BB_EUSAGE, "collective %s is named twice", word);
        s->colls[s->n_colls++] = kind;
        return 0;
    }
    if (strcmp(word, "all") == 0)
        return bb_err(BB_EUSAGE, "all collectives are named by 'all' alone, without others beside it");
    for (int i = 0; i < BB_COLL_KIND_COUNT; i++)
        words[i] = bb_colls[i].name;
    words[BB_COLL_KIND_COUNT] = "all";
    return bb_refuse_word("collective", word, words, BB_COLL_KIND_COUNT + 1);
}

static int add_collectives(struct bb_sweep *s, const struct bb_words *words)
{
    int rc = 0;

    if (words->n == 0)
        return bb_err(BB_EUSAGE, "no collective given: name one of `busbar list collectives`, or all");
    if (words->n == 1 && strcmp(words->word[0], "all") == 0) {
        for (int i = 0; i < BB_COLL_KIND_COUNT; i++)
            s->colls[s->n_colls++] = i;
        return 0;
    }
    for (int i = 0; i < words->n && rc == 0; i++)
        rc = add_collective(s, words->word[i]);
    return rc;
}

/* Either the one that was named, or all `count` of them in table order. */
static int selection(int *list, int named, int count)
{
    if (named >= 0) {
        list[0] = named;
        return 1;
    }
    for (int i = 0; i < count; i++)
        list[i] = i;
    return count;
}

static int check_sizes(const struct bb_bench_options *o)
{
    char low[BB_BYTES_TEXT], high[BB_BYTES_TEXT];

    if (o->min_bytes > o->max_bytes)
        return bb_err(BB_EUSAGE, "first size %zu (-b, %s) is above the last size %zu (-e, %s)", o->min_bytes,
                      bb_format_bytes(o->min_bytes, low), o->max_bytes, bb_format_bytes(o->max_bytes, high));
    if (o->factor != 0 && o->factor <= 1 && o->step_bytes == 0 && o->min_bytes != o->max_bytes)
        return bb_err(BB_EUSAGE, "step factor %g (-f) does not grow the size: give one above 1, or a step with -i",
                      o->factor);
    return 0;
}

int bb_bench_parse(struct bb_bench_options *o, struct bb_sweep *sweep, int argc, char **argv, FILE *out)
{
    struct bb_words words;
    int rc;

    *sweep = (struct bb_sweep){0};
    TRY(bb_opts_parse(&set, o, argc, argv, &words, out));
    TRY(add_collectives(sweep, &words));
    TRY(check_sizes(o));
    sweep->n_dtypes = selection(sweep->dtypes, bb_dtype_find(o->dtype), BB_DTYPE_COUNT);
    sweep->n_redops = selection(sweep->redops, bb_redop_find(o->redop), BB_REDOP_COUNT);
    sweep->root = o->root;
    sweep->min_bytes = o->min_bytes;
    sweep->max_bytes = o->max_bytes;
    sweep->step_bytes = o->step_bytes;
    sweep->factor = o->factor > 1 ? o->factor : o->step_bytes == 0 ? 2 : 0;
    sweep->out_of_place = strcmp(o->placement, "in_place") != 0;
    sweep->in_place = strcmp(o->placement, "out_of_place") != 0;
out:
    return rc;
}
