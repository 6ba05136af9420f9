/*
 * environment.h - what files may tell of the environment. Values only of names that are known to carry no secret, a
 * table; of every other variable that is told at all, that it is set. A name with a typing error, or of a newer NCCL,
 * is seen all the same.
 */
#ifndef BB_BOOTSTRAP_BASE_ENVIRONMENT_H
#define BB_BOOTSTRAP_BASE_ENVIRONMENT_H

#include <stdbool.h>

/* bb_environment_is_recorded - a name of the table, or of the families NCCL_*, CUDA_*, BUSBAR_*, EMU_*. */
bool bb_environment_is_recorded(const char *name);

/* bb_environment_value - value, of a name in the table; "set" of any other. */
const char *bb_environment_value(const char *name, const char *value);

#endif
