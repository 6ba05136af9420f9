/*
 * bench_compute.h - `busbar bench compute`: what the GPUs compute, next to their own measured limits: matrix products
 * in TFLOP/s, memory-bound passes in GB/s, and how exactly the timed stand-in for compute keeps its time.
 */
#ifndef BB_COLLECTIVES_BENCH_COMPUTE_H
#define BB_COLLECTIVES_BENCH_COMPUTE_H

#include "bootstrap/opts.h"

/* argv as bb_bench_main's: argv[1] is "compute". Results on stdout. Returns 0 or above, or a negative error. */
int bb_bench_compute_main(int argc, char **argv);
extern const struct bb_opts bb_bench_compute_options;

#endif
