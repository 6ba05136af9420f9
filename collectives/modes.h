/* modes.h - the table of bench commands that are not collectives: `busbar bench compute` and its like. */
#ifndef BB_COLLECTIVES_MODES_H
#define BB_COLLECTIVES_MODES_H

#include "bootstrap/cli/opts.h"

/* argv as bb_bench_main's: argv[1] is the name of the mode. */
struct bb_bench_mode {
    const char *name;
    const char *run; /* its function in the GPU half: results go to stdout     */
    const struct bb_opts *options;
};

/* bb_bench_mode_find - the row of that name, NULL without one. */
const struct bb_bench_mode *bb_bench_mode_find(const char *name);

#endif
