/*
 * siblings.h - several ranks per launched process, like the options -g and -t of nccl-tests. The launched process
 * becomes the first of `count` ranks and forks the others. It forks before the first thread is created and before MPI
 * and CUDA are initialized. Each forked rank communicates only with the first rank of its process, through a socket;
 * only the first rank uses MPI (world/exchange.h).
 *
 * This works with one launched process per node under the mpirun of any MPI, under srun, and without a launcher. The
 * launcher needs neither slots nor options for the forked ranks. The alternatives are MPI_Comm_spawn, which srun and
 * many job queues reject, and nested mpirun calls. The kernel kills a forked rank when its parent process exits.
 */
#ifndef BB_BOOTSTRAP_START_SIBLINGS_H
#define BB_BOOTSTRAP_START_SIBLINGS_H

#include "bootstrap/base/err.h"

#include <sys/types.h>

/* Maximum number of ranks per process, far above the number of GPUs of a host. Larger counts are rejected before any
 * rank is forked. */
enum { BB_SIBLINGS_MAX = 1024 };

/* The ranks of one launched process. `place` is the index of this rank in the process, and `count` is the number of
 * ranks. Place 0 is the launched process itself, which has a socket and a process id for each forked rank. */
struct bb_siblings {
    int place, count;
    int *fds;    /* place 0: [count] sockets to the forked ranks, fds[0] is -1; forked ranks: [1] socket to place 0 */
    pid_t *pids; /* place 0: [count] process ids of the forked ranks; forked ranks: unused */
};

/*
 * bb_siblings_start - fork the other ranks of this process. The function returns in each of the `count` ranks.
 *   Returns  0, or -BB_EFAIL after printing one error line
 *
 * If the process is bound to fewer CPUs than it has ranks, the binding is removed. The sockets and process ids are
 * stored in the environment variable BUSBAR_SIBLINGS, because the GPU library receives only command-line arguments.
 */
int bb_siblings_start(int count) BB_MUST_CHECK;

/* bb_siblings_take - read the sockets and process ids that bb_siblings_start stored; call at most once. *siblings:
 * out, owned by the caller, NULL if there are no forked ranks. Returns 0, or -BB_EFAIL after printing one error
 * line. */
int bb_siblings_take(struct bb_siblings **siblings) BB_MUST_CHECK;

/* bb_siblings_end - in the launched process (place 0): wait until all forked ranks have exited. Returns 0, or the
 * error code of the first forked rank that failed. */
int bb_siblings_end(struct bb_siblings *siblings);

/* bb_siblings_release - close the sockets and free the structure. NULL is allowed. */
void bb_siblings_release(struct bb_siblings *siblings);

#endif
