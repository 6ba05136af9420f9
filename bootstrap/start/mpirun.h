/*
 * mpirun.h - starting ranks from inside (sweep): which launcher, and what it is told. Needs no
 * MPI.
 */
#ifndef BB_BOOTSTRAP_START_MPIRUN_H
#define BB_BOOTSTRAP_START_MPIRUN_H

#include <stdbool.h>

/*
 * bb_mpirun - the launcher of the MPI that busbar was built with: "mpirun" where that was the one on the path, else its
 * own path ("/usr/bin/mpiexec.mpich" beside Open MPI), and "mpirun" again where nothing is there any more.
 */
const char *bb_mpirun(void);

/* bb_mpirun_hosts - its option for a list of hosts. */
const char *bb_mpirun_hosts(void);

/* bb_mpirun_export - its option that gives a variable to all ranks; NULL: they get the whole environment anyway. */
const char *bb_mpirun_export(void);

/* bb_mpirun_allow_ranks - as many ranks as asked for, whatever the number of cores and whoever starts them. */
void bb_mpirun_allow_ranks(void);

/* bb_mpirun_started_us - this process is a rank under an mpirun. */
bool bb_mpirun_started_us(void);

#endif
