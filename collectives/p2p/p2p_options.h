/* p2p_options.h - the words of `busbar bench p2p`: the matrix of latency and bandwidth between ranks. */
#ifndef BB_COLLECTIVES_P2P_P2P_OPTIONS_H
#define BB_COLLECTIVES_P2P_P2P_OPTIONS_H

#include "bootstrap/cli/opts.h"
#include "bootstrap/cli/size_list.h"

struct bb_bench_p2p_options {
    struct bb_common common;
    const char *metrics, *direction, *schedule, *small_list, *large_list;
    int iterations, repeats, warmup, check;
    int max_slow; /* -1: any number */
    double slow;
    struct bb_sizes small, large; /* from here on made when they are read: the lists */
};

/* For bb_opts_read; argv[0] is "p2p". */
extern const struct bb_opts bb_bench_p2p_set;

/* bb_bench_p2p_run - the run itself, in the GPU half. Returns 0 or above, or a negative error. */
int bb_bench_p2p_run(int argc, char **argv);

#endif
