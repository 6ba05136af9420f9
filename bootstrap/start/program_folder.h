/* program_folder.h - where the program lies; what was built or installed with it is found from there. */
#ifndef BB_BOOTSTRAP_START_PROGRAM_FOLDER_H
#define BB_BOOTSTRAP_START_PROGRAM_FOLDER_H

#include "bootstrap/base/err.h"

#include <limits.h>

/* bb_program_folder - the folder of the program's file, without a slash at the end. -BB_EFAIL: not known (said). */
int bb_program_folder(char folder[PATH_MAX]) BB_MUST_CHECK;

#endif
