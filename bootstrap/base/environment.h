/*
 * environment.h - selects the environment variables that result files record. A fixed table lists variables whose
 * values contain no secrets; the files record their values. All other variables of the families NCCL_*, CUDA_*,
 * BUSBAR_* and EMU_* are recorded only as "set", so that misspelt variables and variables of newer NCCL versions are
 * visible, too.
 */
#ifndef BB_BOOTSTRAP_BASE_ENVIRONMENT_H
#define BB_BOOTSTRAP_BASE_ENVIRONMENT_H

#include <stdbool.h>

/* bb_environment_is_recorded - true if the name is in the table or begins with NCCL_, CUDA_, BUSBAR_ or EMU_. */
bool bb_environment_is_recorded(const char *name);

/* bb_environment_value - the text to record: `value` if the name is in the table, else "set". */
const char *bb_environment_value(const char *name, const char *value);

#endif
