/*
 * what_if.h - compares several result files with the first one: a table with one line per file, which shows what
 * differs (options and other conditions), and what follows from it. For steps (plans and runs of proxies) these are the
 * step time, throughput, memory and exposed time by cause; for other files the ratios over their common rows. Steps with
 * different work are compared by the time per token or sample, steps with different numbers of ranks by GPU time. The
 * verdict on predictions whose difference is below the model's error is "inconclusive", unless a threshold is given.
 */
#ifndef BB_COLLECTIVES_COMPARE_WHAT_IF_H
#define BB_COLLECTIVES_COMPARE_WHAT_IF_H

#include "collectives/compare/compare.h"

/*
 * bb_what_if - compare files[1] to files[n - 1] with files[0].
 *   full     print all files and conditions; false: at most 25 lines
 *   out      prints the table to this stream; NULL: print nothing
 *   results  receives one row per file; NULL: none
 *   Returns  as bb_compare; -BB_EBELOW if one of the comparisons returns it
 */
int bb_what_if(const struct bb_result_file *files, int n, const struct bb_regression_threshold *threshold, bool full,
               FILE *out, struct bb_results *results) BB_MUST_CHECK;

#endif
