/*
 * bench_main.h - `busbar bench` and what `busbar list` says about collectives.
 */
#ifndef BB_COLLECTIVES_BENCH_MAIN_H
#define BB_COLLECTIVES_BENCH_MAIN_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stdio.h>

/* bb_bench_main - argv[0] is "bench". Called by every rank. Returns 0, BB_OPTS_HELP or -BB_E...; MPI is ended.
 * bb_bench_run - the same in the GPU library, of words that name no mode and are known to be right. */
int bb_bench_main(int argc, char **argv);
int bb_bench_run(int argc, char **argv);

/* bb_bench_is_subcommand - a word that may follow bench: a mode or a collective. */
bool bb_bench_is_subcommand(const char *word);

/* bb_bench_check - whether bb_bench_main would take these words; needs neither MPI nor a GPU. Returns 0 or -BB_EUSAGE
 * (said). */
int bb_bench_check(int argc, char **argv) BB_MUST_CHECK;

/*
 * bb_bench_execute - the run itself, of options and a sweep that are settled; argv is for the results. The sweep is
 * released. Returns as bb_bench_main.
 */
struct bb_bench_options;
struct bb_sweep;
struct bb_report_style;
int bb_bench_execute(const struct bb_bench_options *o, const struct bb_sweep *sweep,
                     const struct bb_report_style *style, int argc, char **argv) BB_MUST_CHECK;

/* One line per row of the table: name and what it is. Return 0 or -BB_EFAIL (a full disk). */
int bb_list_collectives(FILE *out);
int bb_list_dtypes(FILE *out);
int bb_list_ops(FILE *out);

#endif
