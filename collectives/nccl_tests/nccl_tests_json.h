/*
 * nccl_tests_json.h - writes the results in nccl-tests' own JSON format (version 3): one result per row with both
 * placements, booleans and the root as strings, and the values of the footer at the end. Differences from nccl-tests:
 * - The keys "emulated", "shared_gpu" and "process_per_gpu" exist and are true if they apply.
 * - Only environment variables on busbar's allow list are written.
 * - Every rank has an entry in "devices".
 * - Completed rows are in the file even if the run is killed.
 */
#ifndef BB_COLLECTIVES_NCCL_TESTS_NCCL_TESTS_JSON_H
#define BB_COLLECTIVES_NCCL_TESTS_NCCL_TESTS_JSON_H

#include "collectives/sweep/bench_report.h"

/* bb_nccl_tests_json_root - return the document with an empty array "results". The caller owns the document. */
json_t *bb_nccl_tests_json_root(const struct bb_report *r, int argc, char **argv);

/* bb_nccl_tests_json_row - return one element of the array "results". The caller owns the element. */
json_t *bb_nccl_tests_json_row(const struct bb_report *r, const struct bb_row *row);

/* bb_nccl_tests_json_end - write the values of the last table's footer to the document. */
int bb_nccl_tests_json_end(const struct bb_report *r) BB_MUST_CHECK;

#endif
