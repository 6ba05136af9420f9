/* bench_p2p.h - `busbar bench p2p`: the matrix of latency and bandwidth between ranks, with the slow links named. */
#ifndef BB_COLLECTIVES_BENCH_P2P_H
#define BB_COLLECTIVES_BENCH_P2P_H

#include "bootstrap/opts.h"

/* argv as bb_bench_main's: argv[1] is "p2p". Results on stdout. Returns 0 or above, or a negative error. */
int bb_bench_p2p_main(int argc, char **argv);
extern const struct bb_opts bb_bench_p2p_options;

#endif
