/* p2p_options.c - see p2p_options.h. */
#include "collectives/p2p/p2p_options.h"

static const char *const metric_names[] = {"all", "latency", "bandwidth", NULL};
static const char *const direction_choices[] = {"all", "one", "both", NULL};
static const char *const schedule_choices[] = {"rounds", "one", NULL};

#define FIELD(name) offsetof(struct bb_bench_p2p_options, name)
static const struct bb_opt option_rows[] = {
    OPT_CHOICE(0, "metrics", FIELD(metrics), "all", "WORD", metric_names, "measure latency, bandwidth or all"),
    OPT_CHOICE(0, "direction", FIELD(direction), "all", "WORD", direction_choices,
               "one direction at a time, both at once, or all"),
    OPT_CHOICE(0, "schedule", FIELD(schedule), "rounds", "WORD", schedule_choices,
               "rounds: pairs without a common rank run concurrently; one: one pair at a time"),
    OPT_STRING(0, "latency-sizes", FIELD(small_list), "8", "LIST", "message sizes for latency, one matrix per size"),
    OPT_STRING(0, "bandwidth-sizes", FIELD(large_list), "32M", "LIST",
               "message sizes for bandwidth, one matrix per size"),
    OPT_ITERS(FIELD(iterations)),
    OPT_INT(0, "repeats", FIELD(repeats), "6", "N", 1, 1e5, "samples per link; the median is reported"),
    OPT_INT('w', "warmup_iters", FIELD(warmup), "2", "N", 0, 1e6,
            "operations before the first sample; the first one makes NCCL connect"),
    OPT_INT('c', "check", FIELD(check), "1", "0|1", 0, 1, "verify the last timed message of each link"),
    OPT_BUFFERS(FIELD(common.buffers)),
    OPT_DOUBLE(0, "slow", FIELD(slow), "0.8", "FACTOR", 0.01, 1,
               "a link is slow below FACTOR x the median bandwidth of its class, or above median latency / FACTOR"),
    OPT_INT(0, "max-slow", FIELD(max_slow), "-1", "N", -1, 1e9,
            "exit 5 when a matrix has more than N slow links (links of the slower mode of a bimodal class count); -1: "
            "never"),
    {0},
};
static const struct bb_opt_table tables[] = {
    {.title = "Measurement", .opts = option_rows},
    {.title = "Common options", .opts = bb_common_options, .base = FIELD(common)},
    {0},
};

static int resolve_options(void *options, const struct bb_positionals *positionals)
{
    struct bb_bench_p2p_options *o = options;
    int rc;

    if (positionals->n > 0)
        return bb_err(BB_EUSAGE, "unexpected word '%s'; bench p2p takes only options", positionals->word[0]);
    TRY(bb_sizes_parse(&o->small, "--latency-sizes", o->small_list, 1));
    TRY(bb_sizes_parse(&o->large, "--bandwidth-sizes", o->large_list, 1));
out:
    return rc;
}

const struct bb_opts bb_bench_p2p_set = {
    .usage = "busbar bench p2p [OPTION...]",
    .doc = "Latency and bandwidth between every two ranks, one direction and both, as matrices. Links that are slow\n"
           "compared with the median of their class (inside a node, between nodes) are reported by pair, rank and\n"
           "node. Bimodal classes are reported, and the slowest links are ranked.",
    .tables = tables,
    .size = sizeof(struct bb_bench_p2p_options),
    .resolve = resolve_options};
