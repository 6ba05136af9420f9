/*
 * environment.h - selects the environment variables that result files record. A fixed table (environment.def) lists
 * variables whose values contain no private data; for these variables, the files record the value. Any other variable
 * whose name begins with NCCL_, CUDA_, BUSBAR_ or EMU_ is recorded only as "set". Misspelled variables and variables of
 * newer NCCL versions thus appear in the files, too.
 */
#ifndef BB_BOOTSTRAP_BASE_ENVIRONMENT_H
#define BB_BOOTSTRAP_BASE_ENVIRONMENT_H

#include <stdbool.h>

/* bb_environment_is_recorded - true if the name is in the table or begins with NCCL_, CUDA_, BUSBAR_ or EMU_. */
bool bb_environment_is_recorded(const char *name);

/* bb_environment_value - the text to record: `value` if the table permits the value of this variable, else "set". */
const char *bb_environment_value(const char *name, const char *value);

/*
 * bb_environment_suggest_nccl - detect a misspelled variable of NCCL, which NCCL would silently ignore.
 *   Returns  the variable in the table with the most similar name, if `name` begins with NCCL_ and is not in the table;
 *            else NULL. A newer NCCL may have the variable, so callers only print a warning.
 */
const char *bb_environment_suggest_nccl(const char *name);

#endif
