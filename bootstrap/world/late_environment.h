/*
 * late_environment.h - set environment variables for NCCL while other threads may read the environment. setenv() may
 * move the table of variables, so slots are reserved in the table before the first thread starts, and a variable is
 * later written in place into a slot.
 */
#ifndef BB_BOOTSTRAP_WORLD_LATE_ENVIRONMENT_H
#define BB_BOOTSTRAP_WORLD_LATE_ENVIRONMENT_H

#include "bootstrap/base/err.h"

enum { BB_LATE_VARIABLES = 20, BB_LATE_VARIABLE_BYTES = 64 };

/* bb_late_environment_reserve - reserve the slots; call once, before the first thread. */
int bb_late_environment_reserve(void) BB_MUST_CHECK;

/* bb_late_environment_set - set a variable unless the user has set it. Uses a reserved slot, or setenv() if none is
 * left. */
int bb_late_environment_set(const char *name, const char *value) BB_MUST_CHECK;

#endif
