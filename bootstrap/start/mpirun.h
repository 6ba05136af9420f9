/*
 * mpirun.h - path and options of the MPI launcher, for commands that start ranks (sweep). Needs no MPI library.
 */
#ifndef BB_BOOTSTRAP_START_MPIRUN_H
#define BB_BOOTSTRAP_START_MPIRUN_H

#include <stdbool.h>

/*
 * bb_mpirun - returns the launcher of the MPI library that busbar was built with: "mpirun" if that launcher was the
 * first mpirun in PATH at build time, else its absolute path (for example "/usr/bin/mpiexec.mpich" on a system with
 * Open MPI in PATH). Returns "mpirun" if the file at the absolute path no longer exists.
 */
const char *bb_mpirun(void);

/* bb_mpirun_hosts - returns the launcher's option for a list of hosts ("--host"). */
const char *bb_mpirun_hosts(void);

/* bb_mpirun_export - returns the launcher's option that exports a variable to all ranks ("-x"), or NULL if the
 * launcher exports the whole environment. */
const char *bb_mpirun_export(void);

/* bb_mpirun_started_us - returns whether this process is a rank started by mpirun. */
bool bb_mpirun_started_us(void);

#endif
