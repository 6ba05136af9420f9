/*
 * result_row.h - what results of bench have in common, whatever their mode. A field of all results is a row of the
 * table `common_fields` in result_row.c.
 */
#ifndef BB_COLLECTIVES_SESSION_RESULT_ROW_H
#define BB_COLLECTIVES_SESSION_RESULT_ROW_H

#include "bootstrap/results/table.h"
#include "collectives/session/session.h"

struct bb_result_common {
    const struct bb_telemetry_row *seen; /* NULL: the mode has its own fields for it */
    json_t *flags;                       /* taken over; NULL: the mode has none      */
};

/* bb_result_save - complete a result with the common fields and append it to the results; it is taken over. */
int bb_result_save(struct bb_results *results, json_t *result, const struct bb_result_common *common) BB_MUST_CHECK;

/* bb_result_flags - new array with the flags that are those of the run. */
json_t *bb_result_flags(bool emulated, bool shared_gpu);

/* bb_result_warn_gpu_flags - the first time that a doubt (bit of enum bb_nvml_flag) comes up it is said with what helps;
 * `what` names the row. */
void bb_result_warn_gpu_flags(unsigned *said, unsigned gpu_flags, const char *what);

/* bb_result_put - on rank 0: a result with the fields of its mode and the common ones; doubts are said and flags. */
int bb_result_put(struct bb_session *s, const struct bb_field *fields, const void *row,
                  const struct bb_telemetry_row *seen, unsigned gpu_flags, const char *what) BB_MUST_CHECK;

#endif
