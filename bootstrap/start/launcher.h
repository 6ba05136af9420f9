/* launcher.h - what mpirun, mpiexec and srun tell a process through its environment, before MPI is up. */
#ifndef BB_BOOTSTRAP_START_LAUNCHER_H
#define BB_BOOTSTRAP_START_LAUNCHER_H

/* bb_launcher_rank - the rank that a launcher's environment gives this process; 0 without one. */
int bb_launcher_rank(void);

/* bb_launcher_local_size - the number of ranks that it started on this host; 0 where it does not tell. */
int bb_launcher_local_size(void);

#endif
