/*
 * late_environment.h - set environment variables for NCCL while other threads may read the environment. setenv() may
 * move the array `environ` while another thread reads it. Therefore slots in the array are reserved before the first
 * thread starts, and a variable that is set later is written in place into a slot.
 */
#ifndef BB_BOOTSTRAP_WORLD_LATE_ENVIRONMENT_H
#define BB_BOOTSTRAP_WORLD_LATE_ENVIRONMENT_H

#include "bootstrap/base/err.h"

enum { BB_LATE_VARIABLES = 20, BB_LATE_VARIABLE_BYTES = 64 };

/* bb_late_environment_reserve - reserve the slots. Call it before the first thread is created; further calls do
 * nothing. */
int bb_late_environment_reserve(void) BB_MUST_CHECK;

/* bb_late_environment_set - set a variable unless it is already set. Uses a reserved slot, or setenv() if no slot is
 * free or the text is too long. */
int bb_late_environment_set(const char *name, const char *value) BB_MUST_CHECK;

#endif
