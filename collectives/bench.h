/*
 * bench.h - `busbar bench` and what `busbar list` says about collectives.
 */
#ifndef BB_COLLECTIVES_BENCH_H
#define BB_COLLECTIVES_BENCH_H

#include "bootstrap/err.h"

#include <stdio.h>

/* bb_bench_main - argv[0] is "bench". Called by every rank. Returns 0, BB_OPTS_HELP or -BB_E...; MPI is ended. */
int bb_bench_main(int argc, char **argv);

/* One line per row of the table: name and what it is. Return 0 or -BB_EFAIL (a full disk). */
int bb_list_collectives(FILE *out);
int bb_list_dtypes(FILE *out);
int bb_list_ops(FILE *out);

#endif
