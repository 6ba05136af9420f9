/* launcher.h - what mpirun, mpiexec and srun tell a process through its environment, before MPI is up. */
#ifndef BB_BOOTSTRAP_START_LAUNCHER_H
#define BB_BOOTSTRAP_START_LAUNCHER_H

#include <stdbool.h>

/* bb_launcher_rank - the rank that a launcher's environment gives this process; 0 without one. */
int bb_launcher_rank(void);

/* bb_launcher_local_size - the number of ranks that it started on this host; 0 where it does not tell. */
int bb_launcher_local_size(void);

/*
 * bb_launched_alone - whether this process is for sure the only one of its job: no launcher started it, or one says
 * that there is one. The shell of an interactive Slurm job (salloc, srun --pty) is such a step of one task. Where a
 * launcher does not tell the number, false: MPI has to be asked.
 */
bool bb_launched_alone(void);

#endif
