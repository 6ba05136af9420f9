/* launcher.h - rank and size of the job before MPI_Init, from the environment variables that launchers set; ending the
 * job, and writing to the launcher's stderr. */
#ifndef BB_BOOTSTRAP_START_LAUNCHER_H
#define BB_BOOTSTRAP_START_LAUNCHER_H

#include <stdbool.h>
#include <sys/types.h>

/* bb_launcher_rank - returns the rank of this process as set by the launcher; 0 without a launcher. */
int bb_launcher_rank(void);

/* bb_launcher_local_size - returns the number of ranks that the launcher started on this host; 0 if unknown. */
int bb_launcher_local_size(void);

/*
 * bb_launched_alone - returns whether this process is certainly the only rank of its job, because there is no launcher
 * or because the launcher's variables give the size 1. The shell of an interactive Slurm job (salloc, srun --pty) is a
 * job step with one task, so the size is 1 there. Returns false if the size is unknown, or if a variable seems to be
 * the rank variable of an unknown launcher (X_RANK=0); MPI then determines the size.
 */
bool bb_launched_alone(void);

/*
 * bb_launcher_claim - returns a variable, for example "X_SIZE=8", in which a launcher stores a number of ranks greater
 * than 1. For an unknown launcher the matching rank variable (X_RANK) must also be set. Returns NULL if there is none.
 */
const char *bb_launcher_claim(void);

/*
 * bb_launcher_abort - end the job through the PMI connection (PMI_FD) of Hydra (MPICH, MVAPICH, Intel MPI) or of
 * Slurm's PMI-2; without such a connection, do nothing.
 *   code         exit code of the job
 *   initialized  the rank has called MPI_Init
 * When a rank exits with a non-zero code, Hydra does not end a job on several nodes, and Slurm's PMI-2 plugin never
 * ends the other ranks. The command "abort" of the PMI 1.1 wire protocol ends the job, and its code becomes the exit
 * status of mpiexec. The launcher kills all processes of the job at once, so this must be the last call of the process.
 */
void bb_launcher_abort(int code, bool initialized);

/* bb_launcher_ends_with_rank - return whether the launcher kills the job if a rank dies between MPI_Init and MPI_Finalize,
 * although its supervisor runs: srun --mpi=pmix does so one second after the end of the rank. */
bool bb_launcher_ends_with_rank(void);

/* bb_launcher_ends_with_process - return whether the launcher kills the job at once if both a rank and its supervisor die:
 * those with a PMI connection do. */
bool bb_launcher_ends_with_process(void);

/* bb_process_read - read /proc/PID/NAME into text[size], with a '\0' at its end. Returns the number of bytes; 0: the process has
 * ended, or another user has it. */
size_t bb_process_read(pid_t pid, const char *name, char *text, size_t size);

/* bb_launcher_is_prterun - return whether process `pid` is prterun, the mpirun of Open MPI 5. */
bool bb_launcher_is_prterun(pid_t pid);

/*
 * bb_launcher_take_stderr - redirect stderr to the launcher's own stderr, if the launcher no longer reads the output of
 * its ranks.
 *   sender   process that sent the signal that ends this process
 * Applies only if `sender` is prterun (the mpirun of Open MPI 5) on this host and stderr is a pipe that prterun reads;
 * otherwise nothing changes. prterun stops reading the pipes when it ends the ranks.
 */
void bb_launcher_take_stderr(pid_t sender);

#endif
