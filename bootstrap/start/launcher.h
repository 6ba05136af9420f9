/* launcher.h - rank and size of the job from the environment variables of mpirun, mpiexec and srun, before MPI_Init. */
#ifndef BB_BOOTSTRAP_START_LAUNCHER_H
#define BB_BOOTSTRAP_START_LAUNCHER_H

#include <stdbool.h>
#include <sys/types.h>

/* bb_launcher_rank - the rank of this process according to the launcher; 0 without a launcher. */
int bb_launcher_rank(void);

/* bb_launcher_local_size - number of ranks that the launcher started on this host; 0 if unknown. */
int bb_launcher_local_size(void);

/*
 * bb_launcher_local_ranks - the ranks that the launcher started on this host.
 *   ranks    out: [capacity] ranks in increasing order
 *   Returns  the count; 0 if unknown or if the array is too small
 */
int bb_launcher_local_ranks(int *ranks, int capacity);

/*
 * bb_launched_alone - returns whether this process is certainly the only one of its job: there is no launcher, or the
 * launcher's variables give the size 1. The shell of an interactive Slurm job (salloc, srun --pty) is such a step of
 * one task. Returns false if the size is unknown, or if a variable seems to be from an unknown launcher (X_RANK=0); MPI
 * then decides.
 */
bool bb_launched_alone(void);

/* bb_launcher_waits_for_all - returns whether the launcher is srun: the job lasts until its last rank exits, also if
 * a rank is suspended or stuck. */
bool bb_launcher_waits_for_all(void);

/*
 * bb_launcher_take_stderr - redirect stderr to that of the launcher, if the launcher no longer reads the output of its
 * ranks.
 *   sender   process that sent the signal that ends this process
 * Applies only if sender is prterun (the mpirun of Open MPI 5, after its first signal) on this host and stderr is a
 * pipe to it; otherwise nothing changes. Async-signal-safe.
 */
void bb_launcher_take_stderr(pid_t sender);

#endif
