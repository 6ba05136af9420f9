/* program_folder.h - folder of the running executable. Files that are built or installed together with the
 * executable are found relative to this folder. */
#ifndef BB_BOOTSTRAP_START_PROGRAM_FOLDER_H
#define BB_BOOTSTRAP_START_PROGRAM_FOLDER_H

#include "bootstrap/base/err.h"

#include <limits.h>

/* bb_program_folder - store the folder of the executable, without a trailing slash. Returns 0, or -BB_EFAIL after
 * printing one error line. */
int bb_program_folder(char folder[PATH_MAX]) BB_MUST_CHECK;

/* bb_program_file - return the path of a file or folder of busbar, such as "report/report.py", in a build folder or in an
 * installation, owned by the caller; NULL: it is in neither. */
char *bb_program_file(const char *name);

#endif
