/* variables.h - slips in the names of NCCL's variables. */
#ifndef BB_BOOTSTRAP_SWEEP_VARIABLES_H
#define BB_BOOTSTRAP_SWEEP_VARIABLES_H

/* bb_variable_meant - the variable of NCCL that was meant by a name that is none but near one; NULL: nothing to say. A
 * newer NCCL may have it all the same, so this is for a warning. */
const char *bb_variable_meant(const char *name);

#endif
