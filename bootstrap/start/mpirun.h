/*
 * mpirun.h - the MPI launcher and its options, for commands that start ranks (sweep). Needs no MPI library.
 */
#ifndef BB_BOOTSTRAP_START_MPIRUN_H
#define BB_BOOTSTRAP_START_MPIRUN_H

#include <stdbool.h>

/*
 * bb_mpirun - the launcher of the MPI that busbar was built with: "mpirun" if that was the one in PATH, else its
 * absolute path (for example "/usr/bin/mpiexec.mpich" on a system with Open MPI in PATH). "mpirun" if that file no
 * longer exists.
 */
const char *bb_mpirun(void);

/* bb_mpirun_hosts - the launcher's option for a list of hosts. */
const char *bb_mpirun_hosts(void);

/* bb_mpirun_export - the launcher's option that exports a variable to all ranks; NULL: the launcher exports the
 * whole environment. */
const char *bb_mpirun_export(void);

/* bb_mpirun_allow_ranks - allow oversubscription and running as root, by environment variables of Open MPI. */
void bb_mpirun_allow_ranks(void);

/* bb_mpirun_started_us - returns whether this process is a rank started by mpirun. */
bool bb_mpirun_started_us(void);

#endif
