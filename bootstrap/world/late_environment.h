/*
 * late_environment.h - variables for NCCL that are known only when other threads run, which may read the environment:
 * setenv moves its table then. So places are kept in it while there is one thread, and a variable is written over one.
 */
#ifndef BB_BOOTSTRAP_WORLD_LATE_ENVIRONMENT_H
#define BB_BOOTSTRAP_WORLD_LATE_ENVIRONMENT_H

#include "bootstrap/base/err.h"

enum { BB_LATE_VARIABLES = 20, BB_LATE_VARIABLE_BYTES = 64 };

/* bb_late_environment_reserve - keep the places, once, while there is one thread. */
int bb_late_environment_reserve(void) BB_MUST_CHECK;

/* bb_late_environment_set - a variable that the user has not set; in a place, or by setenv when there is none left. */
int bb_late_environment_set(const char *name, const char *value) BB_MUST_CHECK;

#endif
