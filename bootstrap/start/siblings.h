/*
 * siblings.h - several ranks per started process, like -g and -t of nccl-tests: a process becomes the first of `count`
 * ranks and forks the others. The forks happen before the first thread, MPI and CUDA. Each forked rank communicates
 * only with the first rank of its process, through a socket; only the first rank uses MPI (world/exchange.h).
 *
 * This works with one process per node under the mpirun of any MPI, under srun, and without a launcher. The launcher
 * needs neither slots nor options for the additional ranks. MPI_Comm_spawn, which srun and many queues reject, and
 * nested mpirun calls are not needed. The kernel kills a forked rank when its parent process ends.
 */
#ifndef BB_BOOTSTRAP_START_SIBLINGS_H
#define BB_BOOTSTRAP_START_SIBLINGS_H

#include "bootstrap/base/err.h"

#include <sys/types.h>

/* Maximum number of ranks per process; no host has more GPUs. Larger counts are rejected before any rank starts. */
enum { BB_SIBLINGS_MAX = 1024 };

/* The ranks of one process. Index (place) 0 is the started process, which has a socket and a process id for each
 * forked rank. */
struct bb_siblings {
    int place, count;
    int *fds;    /* place 0: [count], fds[0] is -1; other places: [1], the socket to place 0 */
    pid_t *pids; /* place 0: [count]; other places: NULL */
};

/*
 * bb_siblings_start - fork the other ranks of this process; returns in each of the `count` ranks.
 *   Returns  0, or -BB_EFAIL after an error message
 *
 * A CPU binding to fewer cores than ranks is removed. The sockets and process ids are stored in the environment
 * variable BUSBAR_SIBLINGS, because the GPU library is entered with command line arguments only.
 */
int bb_siblings_start(int count) BB_MUST_CHECK;

/* bb_siblings_take - the result of bb_siblings_start; may be called once. *siblings is owned by the caller; NULL if
 * there are no forked ranks. Returns 0, or -BB_EFAIL after an error message. */
int bb_siblings_take(struct bb_siblings **siblings) BB_MUST_CHECK;

/* bb_siblings_end - place 0: wait until the forked ranks have exited. Returns 0, or the error of the first that
 * failed. */
int bb_siblings_end(struct bb_siblings *siblings);

/* bb_siblings_release - close the sockets and free. NULL is allowed. */
void bb_siblings_release(struct bb_siblings *siblings);

#endif
