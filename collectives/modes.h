/* modes.h - the table of bench commands that are not collectives: `busbar bench compute` and its like. */
#ifndef BB_COLLECTIVES_MODES_H
#define BB_COLLECTIVES_MODES_H

#include "bootstrap/cli/opts.h"

#include <stddef.h>

/* argv as bb_bench_main's: argv[1] is the name of the mode. */
struct bb_bench_mode {
    const char *name, *help;
    int (*check)(int argc, char **argv); /* the words alone: 0, BB_OPTS_HELP or -BB_EUSAGE (said)  */
    const char *run;                     /* its function in the GPU half: results go to stdout     */
    const struct bb_opts *options;
};

/* bb_bench_mode_find - the row of that name, NULL without one. bb_bench_mode_at - the i-th row, NULL past the end. */
const struct bb_bench_mode *bb_bench_mode_find(const char *name);
const struct bb_bench_mode *bb_bench_mode_at(size_t i);

#endif
