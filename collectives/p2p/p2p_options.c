/* p2p_options.c - see p2p_options.h. */
#include "collectives/p2p/p2p_options.h"

static const char *const figure_words[] = {"all", "latency", "bandwidth", NULL};
static const char *const direction_words[] = {"all", "one", "both", NULL};
static const char *const schedule_words[] = {"rounds", "one", NULL};

#define FIELD(name) .offset = offsetof(struct bb_bench_p2p_options, name)
static const struct bb_opt option_rows[] = {
    {.name = "figures",
     .kind = BB_OPT_WORD,
     FIELD(figures),
     .def = "all",
     .arg = "WORD",
     .help = "what to measure: latency, bandwidth or all",
     .words = figure_words},
    {.name = "direction",
     .kind = BB_OPT_WORD,
     FIELD(direction),
     .def = "all",
     .arg = "WORD",
     .help = "one at a time, both at once, or all",
     .words = direction_words},
    {.name = "schedule",
     .kind = BB_OPT_WORD,
     FIELD(schedule),
     .def = "rounds",
     .arg = "WORD",
     .help = "rounds: pairs that share no rank at the same time; one: one pair at a time",
     .words = schedule_words},
    {.name = "latency-sizes",
     .kind = BB_OPT_STRING,
     FIELD(small_list),
     .def = "8",
     .arg = "LIST",
     .help = "bytes of a message for latency, a matrix each"},
    {.name = "bandwidth-sizes",
     .kind = BB_OPT_STRING,
     FIELD(large_list),
     .def = "32M",
     .arg = "LIST",
     .help = "bytes of a message for bandwidth, a matrix each"},
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
     .help = "samples per link: its figure is their median",
     .min = 1,
     .max = 1e5},
    {.letter = 'w',
     .name = "warmup_iters",
     .kind = BB_OPT_INT,
     FIELD(warmup),
     .def = "2",
     .arg = "N",
     .help = "operations before the first sample; the first one connects",
     .max = 1e6},
    {.letter = 'c',
     .name = "check",
     .kind = BB_OPT_INT,
     FIELD(check),
     .def = "1",
     .arg = "0|1",
     .help = "verify the last timed message of each link",
     .max = 1},
    {.name = "slow",
     .kind = BB_OPT_DOUBLE,
     FIELD(slow),
     .def = "0.8",
     .arg = "FACTOR",
     .help = "a link is slow below FACTOR x the median bandwidth of its class, or above median latency / FACTOR",
     .min = 0.01,
     .max = 1},
    {0},
};
static const struct bb_opt_table tables[] = {
    {.title = "Measurement", .opts = option_rows},
    {.title = "Common options", .opts = bb_common_options, .base = offsetof(struct bb_bench_p2p_options, common)},
    {0},
};
const struct bb_opts bb_bench_p2p_set = {
    .usage = "busbar bench p2p [OPTION...]",
    .doc = "Latency and bandwidth between every two ranks, one direction and both, as matrices. Links that are slow\n"
           "next to the median of their class (inside a node, between nodes) are named by pair, rank and node.",
    .tables = tables};

int bb_bench_p2p_parse(struct bb_bench_p2p_options *o, int argc, char **argv)
{
    struct bb_words words;
    int rc;

    TRY(bb_opts_parse(&bb_bench_p2p_set, o, argc - 1, argv + 1, &words, stdout));
    if (words.n > 0)
        return bb_err(BB_EUSAGE, "unexpected word '%s'; bench p2p takes options alone", words.word[0]);
    TRY(bb_sizes_parse(&o->small, "--latency-sizes", o->small_list));
    TRY(bb_sizes_parse(&o->large, "--bandwidth-sizes", o->large_list));
out:
    return rc;
}

int bb_bench_p2p_check(int argc, char **argv)
{
    struct bb_bench_p2p_options o = {0};

    return bb_bench_p2p_parse(&o, argc, argv);
}
