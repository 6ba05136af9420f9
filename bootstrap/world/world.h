/*
 * world.h - the ranks of a run (the "world"): their numbers and hosts, small exchanges of data, and the handling of
 * lost and hanging ranks. busbar uses MPI only for these purposes; measured communication uses NCCL.
 *
 * Every wait has a timeout, whichever library it is in: each call of this header is a sign of life and restarts the
 * timeout. If a rank gives no sign of life for that long, the supervisors (bootstrap/supervise) print one error line
 * with the wait, the ranks that did not arrive and the last step of each of them, and every process exits with status
 * 4. The same happens without a timeout if a rank is lost: in less than a second if the rank was killed or crashed, in
 * about 30 seconds if its host failed, unless the command goes on (bb_world_restart_after_loss). A rank that fails ends
 * all others with its own exit code. If a signal (bootstrap/start/signals.h) ends the run, or the launcher itself ends,
 * the line names the interrupted step, the status in the results is "interrupted", and the exit status is 1.
 *
 * Order of calls: bb_world_init ... bb_world_release(w, rc) ... return bb_exit_code(rc). All calls are made by the
 * thread that called bb_world_init, except bb_world_ending.
 */
#ifndef BB_BOOTSTRAP_WORLD_WORLD_H
#define BB_BOOTSTRAP_WORLD_WORLD_H

#include "bootstrap/base/err.h"
#include "bootstrap/rank/rank.h"

#include <stdbool.h>
#include <stddef.h>

struct bb_siblings;

struct bb_world {
    int rank, size;              /* rank of this process, number of ranks of the run */
    int node, nodes;             /* node: index of this rank's machine; nodes: number of machines, numbered in the order
                                   of their lowest ranks */
    int local_rank, local_size;  /* index of this rank among the ranks of its node, and their number */
    char host[BB_HOST_TEXT];     /* host name of this rank */
    char (*hosts)[BB_HOST_TEXT]; /* [size] host name of each rank; owned by the world */
    int *node_of;                /* [size] node index of each rank; owned by the world */
    double timeout_s;            /* time limit of every wait in seconds */
    struct bb_supervised supervised; /* connection to the supervisor of this rank; page NULL: no supervisor */
    bool prompt;                     /* waits poll for a second without sleeping, see bb_world_prompt */
    struct bb_siblings *siblings;    /* the ranks of this rank's supervisor if it has several ranks, else NULL */
    bool mpi;                        /* MPI is initialized and bb_world_release must finalize it */
    bool restarted;                  /* nodes were lost, and the others were started again */
    bool relayed;                    /* exchanges use the supervisors instead of MPI */
    int crowd;       /* ranks on this host / (16 x processors), rounded down; waits sleep up to (1 + crowd) ms between
                        polls */
    int out_of_step; /* 0, or the error of a failed exchange, after which this rank takes part in no further exchange */
    bool agreed;     /* true after bb_world_agree returned an error on all ranks, so all ranks end the run */
};

/*
 * bb_world_init - start MPI and connect the supervisors of all ranks.
 *   w          out; must be released with bb_world_release, also after a failure
 *   timeout_s  time limit of every wait in seconds, > 0
 *   Returns    0 or a negative error
 * The ranks of one supervisor (siblings.h) call bb_world_init like all other ranks. Without a launcher the run has one
 * rank. If the launcher started several processes but MPI has only one, the function returns -BB_EUSAGE; the launcher
 * then belongs to another MPI, or is an srun without the matching plugin.
 */
int bb_world_init(struct bb_world *w, double timeout_s) BB_MUST_CHECK;

/*
 * bb_world_restart_after_loss - from now on, a lost node does not end the run: all other ranks are started again, with
 * w->restarted, and go on from their records (journal.h). The node of rank 0 must not be lost, and the launcher must not
 * end the job. Under srun --mpi=pmix, which ends a job with MPI, ends MPI in jobs of up to 1024 ranks. Collective.
 */
int bb_world_restart_after_loss(struct bb_world *w) BB_MUST_CHECK;

/*
 * bb_world_can_leave - return whether nodes without rank 0 can leave the run after bb_world_restart_after_loss.
 * bb_world_leave - all ranks: restart the run without the nodes of the ranks that have a reason, one on each node. Returns only after an
 *                  error.
 *   why  reason of this rank's node, which a warning prints; NULL: this rank stays
 */
bool bb_world_can_leave(const struct bb_world *w);
int bb_world_leave(struct bb_world *w, const char *why) BB_MUST_CHECK;

/* bb_world_alone - create a world of one rank without MPI and without a supervisor, for `busbar plan` and for tests. */
int bb_world_alone(struct bb_world *w, double timeout_s) BB_MUST_CHECK;

/*
 * bb_world_release - end the run.
 *   rc       result of the run. >= 0: orderly end: barrier, then MPI_Finalize. < 0: early end: send the exit code to
 *            the supervisor, which ends the job, and exit; without a supervisor, end all ranks by MPI_Abort. An early
 *            end returns only if there are no other ranks.
 *   Returns  rc, or an error that occurred during the orderly end
 * A zero-initialized or partly initialized world is allowed.
 */
int bb_world_release(struct bb_world *w, int rc);

/*
 * Exchanges between all ranks. All ranks must call them in the same order. Sizes are in bytes and equal on all ranks.
 * bb_world_bcast - copy buf of rank `root` to buf of all ranks.
 * bb_world_allgather - copy the `bytes` bytes at `send` of each rank r to recv + r * bytes on all ranks.
 * bb_world_barrier - wait for all ranks. what: name of the wait in messages, for example "the start of the sweep".
 * bb_world_agree - exchange the error codes of all ranks, so that either all ranks continue or all end. Returns 0 if
 * every rank passed rc 0, else the rc of the lowest rank whose rc is not 0. Each failing rank must have printed its own
 * error.
 */
int bb_world_bcast(struct bb_world *w, void *buf, size_t bytes, int root) BB_MUST_CHECK;
int bb_world_allgather(struct bb_world *w, const void *send, void *recv, size_t bytes) BB_MUST_CHECK;
int bb_world_barrier(struct bb_world *w, const char *what) BB_MUST_CHECK;
int bb_world_agree(struct bb_world *w, int rc, const char *what);

/* BB_WORLD_ERR - like bb_err(), for an error that all ranks detect: only rank 0 prints the error; all ranks return
 * -code. */
#define BB_WORLD_ERR(w, code, ...) ((w)->rank == 0 ? bb_err_job((code), __VA_ARGS__) : -(int)(code))

/* bb_world_gather - allgather `bytes` bytes from each rank into a new array, which the caller frees. On an error
 * returns NULL and sets *rc to the negative error. */
void *bb_world_gather(struct bb_world *w, const void *own, size_t bytes, int *rc) BB_MUST_CHECK;

/* Reductions over all ranks, in place: element-wise maximum of an array of n doubles; minimum, sum and bitwise or of
 * one value. */
int bb_world_max(struct bb_world *w, double *values, size_t n) BB_MUST_CHECK;
int bb_world_min(struct bb_world *w, size_t *value) BB_MUST_CHECK;
int bb_world_sum(struct bb_world *w, unsigned long long *value) BB_MUST_CHECK;
int bb_world_any(struct bb_world *w, unsigned *bits) BB_MUST_CHECK;

/*
 * bb_world_reached - record that this rank starts a step, for example "bench all_reduce 4 MiB". Messages about hanging
 * and lost ranks print the step as "last seen". Call it at the same points on every rank, because steps are matched by
 * their number: a rank that has recorded fewer steps than the others "did not arrive". Each call formats the text. Do
 * not call it in timed inner loops.
 */
void bb_world_reached(struct bb_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * bb_world_wait - poll until something is ready (an event, a stream, a communicator), with the run's timeout.
 *   what     name of the wait in messages
 *   ready    called as ready(arg); returns 1 if ready, 0 if not yet, < 0 for an error that ends the wait
 *   Returns  0; the error returned by `ready`; after a timeout, once an error line was printed, the negative code with
 *            which the job ends; or, without a message of this rank, the code with which the job is already ending
 * Polls without sleeping for the first 200 us, calling sched_yield between polls; then sleeps between polls for
 * intervals that grow to 1 ms, or to a few ms on a host with at least 16 ranks per processor.
 */
typedef int bb_ready(void *arg);
int bb_world_wait(struct bb_world *w, const char *what, bb_ready *ready, void *arg) BB_MUST_CHECK;

/*
 * bb_world_prompt - select how waits poll.
 *   on  true: waits poll without sleeping for their first second. For measurements with the host's clock, which must
 *       not include the sleep after the operation has completed.
 * No effect if this host has more ranks than processors, because a spinning rank would delay the other ranks.
 */
void bb_world_prompt(struct bb_world *w, bool on);

/*
 * bb_world_guard / bb_world_unguard - begin and end a blocking call that cannot be polled (cudaDeviceSynchronize, a
 * blocking NCCL call). what: name of the call in messages; copied. If the call exceeds the timeout, the supervisor
 * prints an error line that names the call, and ends the job. The timeout also applies to calls without a guard, but
 * the error line does not name them. Guards do not nest.
 */
void bb_world_guard(struct bb_world *w, const char *what);
void bb_world_unguard(struct bb_world *w);

/* BB_GUARDED - evaluate a call that returns 0 or an error, between bb_world_guard and bb_world_unguard. Returns the
 * call's result. */
#define BB_GUARDED(w, what, call) (bb_world_guard((w), (what)), bb_world_guarded((w), (call)))
int bb_world_guarded(struct bb_world *w, int rc) BB_MUST_CHECK; /* calls bb_world_unguard, then returns rc */

/* bb_world_is_supervised - returns whether this rank has a supervisor (bootstrap/rank/rank.h). */
static inline bool bb_world_is_supervised(const struct bb_world *w)
{
    return w->supervised.page != NULL;
}

/* bb_world_ending - return 0, or the negative code with which the job is already ending early. Reads one variable in
 * shared memory; may be called from any thread. */
int bb_world_ending(const struct bb_world *w);

#endif
