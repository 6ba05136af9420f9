/*
 * result_row.h - fields that the JSON results of all `bench` commands share. To add such a field, add it to
 * `seen_fields` or to bb_result_save in result_row.c.
 */
#ifndef BB_COLLECTIVES_SESSION_RESULT_ROW_H
#define BB_COLLECTIVES_SESSION_RESULT_ROW_H

#include "bootstrap/results/table.h"
#include "collectives/session/session.h"

/* bb_result_flags - return a new array with the flags that apply to all results of the run: "emulated",
 * "shared_gpu". */
json_t *bb_result_flags(const struct bb_session *s) BB_MUST_CHECK;

/*
 * bb_result_save - add the common fields to a JSON result and append the result to the results file.
 *   result     the command's own fields; consumed
 *   seen       NCCL's algorithm and protocol, and the GPU state; NULL: none, or the command writes these fields itself
 *   flags      array from bb_result_flags, to which the caller may add names; consumed
 *   gpu_flags  bits of enum bb_nvml_flag, whose names are added to the flags
 */
int bb_result_save(struct bb_session *s, json_t *result, const struct bb_telemetry_row *seen, json_t *flags,
                   unsigned gpu_flags) BB_MUST_CHECK;

/*
 * bb_result_warn_gpu_flags - print a warning with advice for each GPU flag (such as throttling) that this run has not
 * reported before.
 *   gpu_flags  bits of enum bb_nvml_flag of the current result
 *   what       name of the current result, for the message
 */
void bb_result_warn_gpu_flags(struct bb_session *s, unsigned gpu_flags, const char *what);

/*
 * bb_result_put - build a JSON result from a command's own fields and the common fields, append it to the results file,
 * and print warnings about new GPU flags (such as throttling). Call on rank 0.
 *   fields     descriptions of the command's own fields
 *   row        the struct whose members `fields` describe
 *   seen       telemetry: NCCL's choice and GPU state; NULL: `fields` contain the telemetry
 *   gpu_flags  bits of enum bb_nvml_flag
 *   what       name of the result, for warnings
 */
int bb_result_put(struct bb_session *s, const struct bb_field *fields, const void *row,
                  const struct bb_telemetry_row *seen, unsigned gpu_flags, const char *what) BB_MUST_CHECK;

#endif
