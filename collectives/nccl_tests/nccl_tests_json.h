/*
 * nccl_tests_json.h - a run in the form of nccl-tests' own JSON file (its version 3), for readers of that: one result
 * per row with both placements, truth values and the root as words, all at the end what the footer says. Unlike the
 * original, emulated and shared GPUs are told ("emulated", "shared_gpu": true), of the environment only the variables
 * on our allow list are kept, every rank has its device, and finished rows are in the file also when the run dies.
 */
#ifndef BB_COLLECTIVES_NCCL_TESTS_NCCL_TESTS_JSON_H
#define BB_COLLECTIVES_NCCL_TESTS_NCCL_TESTS_JSON_H

#include "collectives/sweep/bench_report.h"

/* bb_nccl_tests_json_root - everything above the rows, and an empty results[]. The caller owns it. */
json_t *bb_nccl_tests_json_root(const struct bb_report *r, const struct bb_report_head *head, int argc, char **argv);

json_t *bb_nccl_tests_json_row(const struct bb_report *r, const struct bb_row *row);

/* bb_nccl_tests_json_end - the footer of the last table into the results. */
int bb_nccl_tests_json_end(const struct bb_report *r) BB_MUST_CHECK;

#endif
