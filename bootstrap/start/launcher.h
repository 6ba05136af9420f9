/* launcher.h - what mpirun, mpiexec and srun tell a process through its environment, before MPI is up. */
#ifndef BB_BOOTSTRAP_START_LAUNCHER_H
#define BB_BOOTSTRAP_START_LAUNCHER_H

#include <stdbool.h>
#include <sys/types.h>

/* bb_launcher_rank - the rank that a launcher's environment gives this process; 0 without one. */
int bb_launcher_rank(void);

/* bb_launcher_local_size - the number of ranks that it started on this host; 0 where it does not tell. */
int bb_launcher_local_size(void);

/*
 * bb_launcher_local_ranks - the ranks that it started on this host, in rank order; returns their number, 0 where it does
 * not tell them or there are more than room.
 */
int bb_launcher_local_ranks(int *ranks, int room);

/*
 * bb_launched_alone - whether this process is for sure the only one of its job: no launcher started it, or one says
 * that there is one. The shell of an interactive Slurm job (salloc, srun --pty) is such a step of one task. Where a
 * launcher does not tell the number, or a variable looks like that of one that is not known (X_RANK=0), false: MPI has
 * to be asked.
 */
bool bb_launched_alone(void);

/* bb_launcher_waits_for_all - srun: a rank that is stopped or stuck keeps the job, whatever becomes of the others. */
bool bb_launcher_waits_for_all(void);

/*
 * bb_launcher_take_stderr - `sender` sent a signal that ends this process: lines of ours go where its own go from now
 * on, if it is one that reads no output of its ranks any more (prterun, the mpirun of Open MPI 5, between its signals),
 * on this host, and our standard error is its pipe. Else nothing happens. Safe in a handler.
 */
void bb_launcher_take_stderr(pid_t sender);

#endif
