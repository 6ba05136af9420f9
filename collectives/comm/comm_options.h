/* comm_options.h - options of `busbar bench comm`: the cost of communicators, from init to destroy. */
#ifndef BB_COLLECTIVES_COMM_COMM_OPTIONS_H
#define BB_COLLECTIVES_COMM_COMM_OPTIONS_H

#include "bootstrap/cli/opts.h"

enum { BB_COMM_COUNTS = 32 };

struct bb_bench_comm_options {
    struct bb_common common;
    const char *ranks;
    size_t bytes;
    int repeats, warmup, parts;
    bool nonblocking;
    int counts[BB_COMM_COUNTS], n_counts; /* sizes (numbers of ranks) of the communicators to measure, parsed from
                                             `ranks`; n_counts is 0 for "doubling" */
};

/* bb_bench_comm_set - the options of `busbar bench comm`, for bb_opts_read with argv[0] = "comm". */
extern const struct bb_opts bb_bench_comm_set;

/* bb_bench_comm_run - run the benchmark; defined in busbar-rank. Returns 0, a positive value if help was
 * printed, or a negative error code. */
int bb_bench_comm_run(int argc, char **argv);

#endif
