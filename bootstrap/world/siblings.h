/*
 * siblings.h - several ranks per launched process, for the options -g and -t: the supervisor starts several ranks
 * (bootstrap/supervise/child.h). Only the first of them uses MPI; the ranks of one supervisor exchange data through
 * shared memory (exchange.h).
 *
 * This works with one launched process per node under the mpirun of any MPI, under srun, and without a launcher. The
 * launcher needs neither slots nor options for the other ranks. The alternatives are MPI_Comm_spawn, which srun and
 * many job queues reject, and nested mpirun calls.
 */
#ifndef BB_BOOTSTRAP_WORLD_SIBLINGS_H
#define BB_BOOTSTRAP_WORLD_SIBLINGS_H

#include "bootstrap/rank/rank_page.h"

/* This rank among the ranks of its supervisor. */
struct bb_siblings {
    int place, count;                  /* index of this rank among the ranks of its supervisor, and their number */
    unsigned done;                     /* number of exchanges that this rank has completed */
    struct bb_siblings_memory *shared; /* memory shared by these ranks */
};

/* bb_siblings_count - return the number of ranks of this rank's supervisor; 1 without a supervisor. */
int bb_siblings_count(void);

/* bb_siblings_take - map the shared memory whose descriptor the supervisor stored in an environment variable.
 * *siblings: out, released by the caller with bb_siblings_release; NULL if the supervisor has only one rank. Returns 0,
 * or -BB_EFAIL after printing one error line. */
int bb_siblings_take(struct bb_siblings **siblings) BB_MUST_CHECK;

/* bb_siblings_release - unmap the memory and free the structure. NULL is allowed. */
void bb_siblings_release(struct bb_siblings *siblings);

#endif
