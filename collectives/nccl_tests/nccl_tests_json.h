/*
 * nccl_tests_json.h - writes a run in nccl-tests' own JSON format (version 3): one result per row with both placements,
 * booleans and the root as strings, and the footer's values at the end. Differences from nccl-tests: the keys
 * "emulated" and "shared_gpu" are true if they apply; only environment variables on busbar's allow list are written;
 * every rank has its device; and completed rows are in the file even if the run dies.
 */
#ifndef BB_COLLECTIVES_NCCL_TESTS_NCCL_TESTS_JSON_H
#define BB_COLLECTIVES_NCCL_TESTS_NCCL_TESTS_JSON_H

#include "collectives/sweep/bench_report.h"

/* bb_nccl_tests_json_root - return the document with an empty results[]. The caller owns it. */
json_t *bb_nccl_tests_json_root(const struct bb_report *r, const struct bb_report_head *head, int argc, char **argv);

/* bb_nccl_tests_json_row - return one element of results[]. The caller owns it. */
json_t *bb_nccl_tests_json_row(const struct bb_report *r, const struct bb_row *row);

/* bb_nccl_tests_json_end - write the footer of the last table into the document. */
int bb_nccl_tests_json_end(const struct bb_report *r) BB_MUST_CHECK;

#endif
