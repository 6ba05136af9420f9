/* launcher.h - what mpirun, mpiexec and srun tell a process through its environment, before MPI is up. */
#ifndef BB_BOOTSTRAP_START_LAUNCHER_H
#define BB_BOOTSTRAP_START_LAUNCHER_H

/* bb_launcher_rank - the rank that a launcher's environment gives this process; 0 without one. */
int bb_launcher_rank(void);

#endif
