/*
 * siblings.h - several ranks per started process, as nccl-tests' -g and -t have them: a process becomes the first of
 * `count` ranks and starts the others itself. They are copies of it made by fork before there is a thread, MPI or
 * CUDA, and talk to it alone, through a socket each; only the first of a process takes part in MPI (world/siblings.h).
 *
 * So it works with one process per node under any MPI's mpirun and under srun, with neither slots nor options for the
 * further ranks, and with no launcher at all: neither MPI_Comm_spawn, which srun and many queues refuse, nor an mpirun
 * inside of a job is needed. A sibling is killed when the process that started it ends.
 */
#ifndef BB_BOOTSTRAP_START_SIBLINGS_H
#define BB_BOOTSTRAP_START_SIBLINGS_H

#include "bootstrap/base/err.h"

#include <sys/types.h>

/* Ranks of one process: no host has more GPUs, so more are refused before any has started. */
enum { BB_SIBLINGS_MAX = 1024 };

/* Of one process: place 0 is the one that was started, and has a socket and a process for each of the others. */
struct bb_siblings {
    int place, count;
    int *fds;    /* place 0: [count], fds[0] is -1; others: [1], to place 0 */
    pid_t *pids; /* place 0: [count], else NULL                             */
};

/*
 * bb_siblings_start - this process becomes `count` ranks; returns in each of them. Where ranks are bound to fewer cores
 * than that, they may use all. Returns 0, or -BB_EFAIL (said). What it made is kept in the environment, since the GPU
 * half of the program is entered by its words alone.
 */
int bb_siblings_start(int count) BB_MUST_CHECK;

/* bb_siblings_take - what bb_siblings_start made, once: *siblings is NULL without it, else the caller's to release. */
int bb_siblings_take(struct bb_siblings **siblings) BB_MUST_CHECK;

/* bb_siblings_end - place 0: wait until the others have ended; returns 0, or the error of the first that failed. */
int bb_siblings_end(struct bb_siblings *siblings);

/* bb_siblings_release - close the sockets. NULL is fine. */
void bb_siblings_release(struct bb_siblings *siblings);

#endif
