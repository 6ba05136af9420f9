/*
 * unknown_launcher.h - detects launchers that launcher.c does not handle, by the usual names of their variables: a
 * prefix that is specific to the launcher, followed by a suffix for the rank (RANK, MPI_RANKID) or for the number of
 * ranks (WORLD_SIZE, HOROVOD_SIZE).
 */
#ifndef BB_BOOTSTRAP_START_UNKNOWN_LAUNCHER_H
#define BB_BOOTSTRAP_START_UNKNOWN_LAUNCHER_H

#include <stdbool.h>

/* bb_unknown_launcher - returns whether the environment contains a variable that looks like the rank of this process
 * (for example X_RANK=0) and is not set by a launcher that launcher.c handles. */
bool bb_unknown_launcher(void);

/*
 * bb_launcher_claim - returns a variable, for example "X_SIZE=8", in which a launcher (known or unknown) stores a
 * number of ranks greater than 1. The matching rank variable (X_RANK) must also be set. Returns NULL if there is none.
 */
const char *bb_launcher_claim(void);

#endif
