/*
 * result_row.h - fields that all results of bench share. To add such a field, add a row to the table `common_fields` in
 * result_row.c.
 */
#ifndef BB_COLLECTIVES_SESSION_RESULT_ROW_H
#define BB_COLLECTIVES_SESSION_RESULT_ROW_H

#include "bootstrap/results/table.h"
#include "collectives/session/session.h"

struct bb_result_common {
    const struct bb_telemetry_row *seen; /* NULL: the mode writes its own fields for the NCCL selection and the GPU
                                            state */
    json_t *flags; /* array of flag names, ownership passes to bb_result_save; NULL: the mode has no flags */
};

/* bb_result_save - add the common fields to a result and append the result to the file. Ownership of `result` and
 * common->flags passes to this function. */
int bb_result_save(struct bb_results *results, json_t *result, const struct bb_result_common *common) BB_MUST_CHECK;

/* bb_result_flags - return a new array with the flags of the whole run: "emulated", "shared_gpu". The caller owns
 * the array. */
json_t *bb_result_flags(bool emulated, bool shared_gpu);

/*
 * bb_result_warn_gpu_flags - print one warning with advice for each GPU flag that occurs for the first time.
 *   reported   in and out: bits of enum bb_nvml_flag that were already reported
 *   gpu_flags  bits of enum bb_nvml_flag of the current row
 *   what       name of the row for the message
 */
void bb_result_warn_gpu_flags(unsigned *reported, unsigned gpu_flags, const char *what);

/*
 * bb_result_put - on rank 0: build a result from the fields of its mode, add the common fields and flags, append the
 * result to the file and print warnings about new GPU flags.
 *   fields     descriptors of the mode's fields
 *   row        the struct that `fields` describe
 *   seen       NCCL selection and GPU state, NULL: written by `fields`
 *   gpu_flags  bits of enum bb_nvml_flag
 *   what       name of the row for warnings
 */
int bb_result_put(struct bb_session *s, const struct bb_field *fields, const void *row,
                  const struct bb_telemetry_row *seen, unsigned gpu_flags, const char *what) BB_MUST_CHECK;

#endif
