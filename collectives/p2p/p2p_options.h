/* p2p_options.h - options of `busbar bench p2p`, which measures latency and bandwidth between all pairs of ranks. */
#ifndef BB_COLLECTIVES_P2P_P2P_OPTIONS_H
#define BB_COLLECTIVES_P2P_P2P_OPTIONS_H

#include "bootstrap/cli/opts.h"
#include "bootstrap/cli/size_list.h"

struct bb_bench_p2p_options {
    struct bb_common common;
    const char *metrics, *direction, *schedule, *small_list, *large_list;
    int iterations, repeats, warmup, check;
    int max_slow; /* exit with status 5 if a matrix has more slow links than this; -1: no limit */
    double slow;
    double min_gbps;              /* exit with status 5 if the bandwidth of a link is lower, 1e9 bytes/s; 0: no limit */
    struct bb_sizes small, large; /* message sizes for latency (small) and bandwidth (large), parsed from small_list
                                     and large_list */
};

/* bb_bench_p2p_set - the options of `busbar bench p2p`, for bb_opts_read with argv[0] = "p2p". */
extern const struct bb_opts bb_bench_p2p_set;

/* bb_bench_p2p_run - run the benchmark; defined in busbar-rank. Returns 0, a positive value if help was printed,
 * or a negative error code. */
int bb_bench_p2p_run(int argc, char **argv);

#endif
