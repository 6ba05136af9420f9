/* p2p_options.c - see p2p_options.h. */
#include "collectives/p2p/p2p_options.h"

#include "collectives/ops/foreign_options.h"

#include <string.h>

static const char *const metric_names[] = {"all", "latency", "bandwidth", NULL};
static const char *const direction_choices[] = {"all", "one", "both", NULL};
static const char *const schedule_choices[] = {"rounds", "one", NULL};

#define FIELD(name) offsetof(struct bb_bench_p2p_options, name)
static const struct bb_opt option_rows[] = {
    OPT_CHOICE(0, "metrics", FIELD(metrics), "all", "WORD", metric_names, "measure latency, bandwidth or all"),
    OPT_CHOICE(0, "direction", FIELD(direction), "all", "WORD", direction_choices,
               "one: one direction at a time; both: both directions at once; all: one and both"),
    OPT_CHOICE(0, "schedule", FIELD(schedule), "rounds", "WORD", schedule_choices,
               "rounds: pairs without a common rank run concurrently; one: one pair at a time"),
    OPT_STRING(0, "latency-sizes", FIELD(small_list), "8", "LIST", "message sizes for latency, one matrix per size"),
    OPT_STRING(0, "bandwidth-sizes", FIELD(large_list), "32M", "LIST",
               "message sizes for bandwidth, one matrix per size"),
    OPT_ITERS(FIELD(iterations)),
    OPT_INT(0, "repeats", FIELD(repeats), "6", "N", 1, 1e5, "samples per link; the median is reported"),
    OPT_INT('w', "warmup_iters", FIELD(warmup), "2", "N", 0, 1e6,
            "untimed operations before the first sample; NCCL sets up the connection in the first operation"),
    OPT_INT('c', "check", FIELD(check), "1", "0|1", 0, 1, "verify the last timed message of each link"),
    OPT_BUFFERS(FIELD(common.buffers)),
    OPT_DOUBLE(
        0, "slow", FIELD(slow), "0.8", "FACTOR", 0.01, 1,
        "a link is slow if its bandwidth is below FACTOR x the median of its class (bimodal class: of the faster "
        "group), or its latency above the median / FACTOR"),
    OPT_INT(0, "max-slow", FIELD(max_slow), "-1", "N", -1, 1e9,
            "exit with status 5 if a matrix has more than N slow links; -1: never"),
    OPT_DOUBLE(0, "min-gbps", FIELD(min_gbps), "0", "GBPS", 0, 1e9,
               "exit with status 5 if the bandwidth of a link is below GBPS (both: the sum of its directions below 2 x "
               "GBPS); such a link is slow, too; 0: no limit"),
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
        return bb_err(BB_EUSAGE, "unexpected argument '%s'; bench p2p accepts only options", positionals->word[0]);
    if (o->min_gbps > 0 && strcmp(o->metrics, "latency") == 0)
        return bb_err(BB_EUSAGE,
                      "--min-gbps %g is a limit of the bandwidth, which --metrics latency does not measure; try: "
                      "--metrics all",
                      o->min_gbps);
    TRY(bb_sizes_parse(&o->small, "--latency-sizes", o->small_list, 1));
    TRY(bb_sizes_parse(&o->large, "--bandwidth-sizes", o->large_list, 1));
out:
    return rc;
}

const struct bb_opts bb_bench_p2p_set = {
    .usage = "busbar bench p2p [OPTION...]",
    .doc = "Latency and bandwidth between every two ranks, in one and in both directions, as matrices. Reports pairs,\n"
           "ranks and nodes whose links are slow compared with the median of the class (links inside a node, links\n"
           "between nodes). Also reports bimodal classes and ranks the slowest links.",
    .foreign = bb_bench_foreign_options,
    .exits = {BB_EXITS_RANKS, [5] = "more slow links than --max-slow, or a link below --min-gbps"},
    .examples = "Pairs of nodes with all their GPUs (options: busbar bench p2p --nodes --help):\n"
                "  mpirun -n 16 busbar bench p2p --nodes\n"
                "Exit with status 5 if a link of the job is slow:\n"
                "  mpirun -n 16 busbar bench p2p --max-slow 0\n"
                "Also if all links are slow:\n"
                "  mpirun -n 16 busbar bench p2p --metrics bandwidth --max-slow 0 --min-gbps 45\n",
    .tables = tables,
    .size = sizeof(struct bb_bench_p2p_options),
    .resolve = resolve_options};
