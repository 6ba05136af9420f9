/* base_profile.h - selects the starting profile of a calibration: the one that the user names, or the shipped
 * profile of the measured GPUs. */
#ifndef BB_PROXIES_CALIBRATE_BASE_PROFILE_H
#define BB_PROXIES_CALIBRATE_BASE_PROFILE_H

#include "bootstrap/base/err.h"

/*
 * bb_base_profile - selects the starting profile of a calibration.
 *   from     name or path from the command line, or NULL
 *   device   name of the measured GPUs; used if `from` is NULL
 *   name     out: name or path of the profile: a static text, or `from`
 *   Returns  0, or -BB_EUSAGE after printing an error message if no shipped profile is for these GPUs
 */
int bb_base_profile(const char *from, const char *device, const char **name) BB_MUST_CHECK;

#endif
