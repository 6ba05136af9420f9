/*
 * options.h - the command line of `busbar bench`, turned into a sweep. Needs neither MPI nor a GPU.
 */
#ifndef BB_COLLECTIVES_OPTIONS_H
#define BB_COLLECTIVES_OPTIONS_H

#include "bootstrap/opts.h"
#include "collectives/sweep.h"

struct bb_bench_options {
    struct bb_common common;
    size_t min_bytes, max_bytes, step_bytes;
    double factor;
    int iterations; /* timed operations per sample                      */
    int repeats;    /* samples per row                                  */
    int warmup;     /* operations before the first sample               */
    int checks;     /* verified passes per row: the last timed one first */
    int root;
    const char *dtype, *redop, *placement; /* words of their tables, or "all" / "both" */
};

/*
 * bb_bench_parse - options and sweep from argv (argv[0] is not read). Help goes to `out`. Returns 0, BB_OPTS_HELP, or
 * -BB_EUSAGE after one line.
 */
int bb_bench_parse(struct bb_bench_options *o, struct bb_sweep *sweep, int argc, char **argv, FILE *out) BB_MUST_CHECK;

#endif
