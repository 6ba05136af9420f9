/* bench_comm.h - `busbar bench comm`: what communicators cost: made, used first, registered with, split, ended. */
#ifndef BB_COLLECTIVES_BENCH_COMM_H
#define BB_COLLECTIVES_BENCH_COMM_H

#include "bootstrap/opts.h"

/* argv as bb_bench_main's: argv[1] is "comm". Results on stdout. Returns 0 or above, or a negative error. */
int bb_bench_comm_main(int argc, char **argv);
extern const struct bb_opts bb_bench_comm_options;

#endif
