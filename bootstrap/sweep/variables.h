/* variables.h - slips in the names of NCCL's variables. */
#ifndef BB_BOOTSTRAP_SWEEP_VARIABLES_H
#define BB_BOOTSTRAP_SWEEP_VARIABLES_H

#include <stdbool.h>

/* bb_variable_meant - whether a name is none of NCCL's variables but near one, which is then `meant`. A newer NCCL may
 * have it all the same, so this is for a warning. */
#define BB_VARIABLE_NAME 48
bool bb_variable_meant(const char *name, char meant[BB_VARIABLE_NAME]);

#endif
