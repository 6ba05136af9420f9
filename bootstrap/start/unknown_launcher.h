/*
 * unknown_launcher.h - launchers of which launcher.c knows no variable, by how such variables are named: the number of a
 * process (RANK, MPI_RANKID) and that of all (WORLD_SIZE, HOROVOD_SIZE), behind a prefix of the launcher's own.
 */
#ifndef BB_BOOTSTRAP_START_UNKNOWN_LAUNCHER_H
#define BB_BOOTSTRAP_START_UNKNOWN_LAUNCHER_H

#include <stdbool.h>

/* bb_unknown_launcher - whether a variable looks like the number of this process (X_RANK=0), and is none of a launcher
 * that launcher.c knows. */
bool bb_unknown_launcher(void);

/*
 * bb_launcher_claim - the variable, as "X_SIZE=8", by which a launcher, known or not, says that it started several
 * processes, and beside which the number of this one stands (X_RANK); NULL: none says so.
 */
const char *bb_launcher_claim(void);

#endif
