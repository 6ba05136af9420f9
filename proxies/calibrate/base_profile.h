/* base_profile.h - selects the profile that a calibration starts from: the given one, or the shipped profile of the
 * measured GPUs. */
#ifndef BB_PROXIES_CALIBRATE_BASE_PROFILE_H
#define BB_PROXIES_CALIBRATE_BASE_PROFILE_H

#include "bootstrap/base/err.h"

/*
 * bb_base_profile - select the starting profile.
 *   from     name or path that the user gave, or NULL
 *   device   name of the measured GPUs; used without `from`
 *   name     out: valid as long as `from`
 *   Returns  0, or -BB_EUSAGE after printing one line if no shipped profile has these GPUs
 */
int bb_base_profile(const char *from, const char *device, const char **name) BB_MUST_CHECK;

#endif
