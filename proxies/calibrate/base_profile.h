/* base_profile.h - the profile that a calibration starts from: by its name, or the shipped one of the measured GPUs. */
#ifndef BB_PROXIES_CALIBRATE_BASE_PROFILE_H
#define BB_PROXIES_CALIBRATE_BASE_PROFILE_H

#include "bootstrap/base/err.h"

/* bb_base_profile - `from`, or what is shipped for GPUs of that name; *name lives as long as `from`. -BB_EUSAGE (said):
 * nothing is. */
int bb_base_profile(const char *from, const char *device, const char **name) BB_MUST_CHECK;

#endif
