/*
 * unknown_launcher.h - detect launchers that launcher.c does not know, by the usual names of their variables: a prefix
 * followed by a name for the rank (RANK, MPI_RANKID) or for the number of ranks (WORLD_SIZE, HOROVOD_SIZE).
 */
#ifndef BB_BOOTSTRAP_START_UNKNOWN_LAUNCHER_H
#define BB_BOOTSTRAP_START_UNKNOWN_LAUNCHER_H

#include <stdbool.h>

/* bb_unknown_launcher - returns whether a variable seems to be the rank of this process (X_RANK=0) and belongs to no
 * launcher that launcher.c knows. */
bool bb_unknown_launcher(void);

/*
 * bb_launcher_claim - a variable such as "X_SIZE=8" by which a known or unknown launcher gives a number of ranks above
 * 1, if the matching rank variable (X_RANK) is also set; NULL: there is none.
 */
const char *bb_launcher_claim(void);

#endif
