/* bench_overlap.h - `busbar bench overlap`: a product and a collective alone and together, by size and CTA limit. */
#ifndef BB_COLLECTIVES_BENCH_OVERLAP_H
#define BB_COLLECTIVES_BENCH_OVERLAP_H

#include "bootstrap/opts.h"

/* argv as bb_bench_main's: argv[1] is "overlap". Results on stdout. Returns 0 or above, or a negative error. */
int bb_bench_overlap_main(int argc, char **argv);
extern const struct bb_opts bb_bench_overlap_options;

#endif
