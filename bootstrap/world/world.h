/*
 * world.h - the ranks of a run: their identity, small exchanges at start, and the handling of lost and hanging ranks.
 * MPI is used only for this; measured traffic uses NCCL.
 *
 * Every wait has a timeout, whatever library it is in. From bb_world_init to the end of bb_world_release each call of
 * this header is a sign of life, and the run's timeout limits the time between two of them (before and after that,
 * bootstrap/start/deadline.h does the same). At the timeout rank 0 prints one line with the wait, the ranks that did
 * not arrive and the step at which they were last seen, and every rank exits with status 4. The same happens at once if
 * a rank is lost (killed, crashed, its host gone). A rank that fails ends all others with its own exit code. A second
 * channel (TCP) between rank 0 and the other ranks and one thread per rank implement this (watchdog.h), so it works
 * while the main thread is stuck in a call. If rank 0 is lost or does not answer, the lowest remaining rank prints the
 * line.
 *
 * Order of calls: bb_world_init ... bb_world_release(w, rc) ... return bb_exit_code(rc). All calls come from the thread
 * that called bb_world_init, except bb_world_ending.
 *
 * Behaviour of the launchers:
 * - mpirun of Open MPI 4: when a rank dies, it sends the others SIGTERM and, about a second later, SIGKILL; its exit
 *   status is that of the rank that died first (137 for SIGKILL). The ranks use that second to report the lost rank and
 *   exit with 4.
 * - mpirun of Open MPI 5 (prterun): leaves a quarter of a second after SIGTERM, earlier once a rank has exited, and
 *   stops reading the output of the ranks. The ranks therefore start their timers at the SIGCONT that it sends first,
 *   and print to its stderr (bb_launcher_take_stderr).
 * - Hydra (MPICH, MVAPICH, Intel MPI): kills all ranks at once, unless it does not notice the death (hydra.h). Rank 0
 *   then ends the job by MPI_Abort, whose code is the exit status of mpiexec: 3, 4, ...; if a rank was killed by a
 *   signal, the status is the signal's number (9). Hydra prints this on stdout, after the results.
 * - srun: does not end the other ranks; the watchdog does.
 * A signal from elsewhere (bootstrap/start/signals.h) prints one line with the step that it interrupted, saves the
 * results as "interrupted" and exits with 1; so does the end of the launcher itself.
 */
#ifndef BB_BOOTSTRAP_WORLD_WORLD_H
#define BB_BOOTSTRAP_WORLD_WORLD_H

#include "bootstrap/base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define BB_HOST_TEXT (HOST_NAME_MAX + 1)

struct bb_siblings;
struct bb_watchdog;

struct bb_world {
    int rank, size;
    int node, nodes;            /* nodes are machines, numbered in the order of their first rank */
    int local_rank, local_size; /* among the ranks of this host */
    char host[BB_HOST_TEXT];
    char (*hosts)[BB_HOST_TEXT]; /* [size] host of each rank; owned by the world */
    int *node_of;                /* [size] node of each rank; owned by the world */
    double timeout_s;
    struct bb_watchdog *watchdog; /* NULL in a world made by bb_world_alone */
    bool prompt;                  /* waits spin first: see bb_world_prompt */
    struct bb_siblings *siblings; /* ranks of this process, if it has several; NULL: one rank */
    bool mpi;                     /* MPI is initialised and busbar finalizes it */
    int crowd;       /* oversubscription of this host's processors, as a factor; 0: none. Waits then sleep longer. */
    int out_of_step; /* error of a failed exchange on this rank, which then takes part in no further exchange; 0:
                        none */
    bool agreed;     /* all ranks agreed in bb_world_agree that the run ends */
};

/*
 * bb_world_init - start MPI and the watchdog.
 *   w          out; must be released with bb_world_release, also after a failure
 *   timeout_s  time limit of every wait, > 0
 *   Returns    0 or a negative error
 * Forked ranks (bootstrap/start/siblings.h) call it like all other ranks. Without mpirun the run has one rank. A single
 * process whose launcher started more (another MPI's mpirun, or srun without the matching plugin) is rejected with
 * -BB_EUSAGE. From here on the watchdog's thread handles SIGTERM, SIGINT and the other signals of
 * bootstrap/start/signals.h.
 */
int bb_world_init(struct bb_world *w, double timeout_s) BB_MUST_CHECK;

/* bb_world_alone - a world of one rank without MPI, thread and socket: for plan and for tests. */
int bb_world_alone(struct bb_world *w, double timeout_s) BB_MUST_CHECK;

/*
 * bb_world_release - end the run.
 *   rc >= 0  orderly: barrier, then MPI_Finalize
 *   rc < 0   end all ranks: save the results, send the exit code to the other ranks, and exit with the code of the
 *   first rank
 *            that failed. MPI_Abort ends ranks that cannot be reached. Does not return if there are other ranks.
 *   Returns  rc, or an error met while ending
 * A zero-initialised or partly initialised world is allowed.
 */
int bb_world_release(struct bb_world *w, int rc);

/*
 * Exchanges; all ranks call them in the same order. Sizes are in bytes and equal on all ranks.
 * bb_world_bcast - copy buf of rank `root` to all ranks.
 * bb_world_allgather - store send[bytes] of rank r at recv + r * bytes.
 * bb_world_barrier - what names the wait in messages ("the start of the sweep").
 * bb_world_agree - returns 0 if every rank passed rc 0, else the first nonzero rc in rank order, so that all ranks
 * leave together. Each failing rank has printed its own error.
 */
int bb_world_bcast(struct bb_world *w, void *buf, size_t bytes, int root) BB_MUST_CHECK;
int bb_world_allgather(struct bb_world *w, const void *send, void *recv, size_t bytes) BB_MUST_CHECK;
int bb_world_barrier(struct bb_world *w, const char *what) BB_MUST_CHECK;
int bb_world_agree(struct bb_world *w, int rc, const char *what);

/* BB_WORLD_ERR - bb_err() for an error that all ranks detect: rank 0 prints it, all ranks return -code. */
#define BB_WORLD_ERR(w, code, ...) ((w)->rank == 0 ? bb_err_job((code), __VA_ARGS__) : -(int)(code))

/* bb_world_gather - allgather own[bytes] into a new array, which the caller frees. NULL and *rc < 0 on an error. */
void *bb_world_gather(struct bb_world *w, const void *own, size_t bytes, int *rc) BB_MUST_CHECK;

/* Reductions over all ranks, in place: maximum, minimum, sum, bitwise or. */
int bb_world_max(struct bb_world *w, double *values, size_t n) BB_MUST_CHECK;
int bb_world_min(struct bb_world *w, size_t *value) BB_MUST_CHECK;
int bb_world_sum(struct bb_world *w, unsigned long long *value) BB_MUST_CHECK;
int bb_world_any(struct bb_world *w, unsigned *bits) BB_MUST_CHECK;

/*
 * bb_world_reached - this rank starts a step, for example "bench all_reduce 4 MiB". Messages about hangs and lost ranks
 * print it as "last seen". Call it at the same points on every rank: the k-th step of one rank corresponds to the k-th
 * step of the others, and a rank with fewer steps "did not arrive". Cost: a formatted print and, at most ten times per
 * second after the first 32 steps, a wake-up of the watchdog's thread, which sends the step within 100 ms. Not for
 * inner timed loops.
 */
void bb_world_reached(struct bb_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * bb_world_wait - poll until something is ready (an event, a stream, a communicator), with the run's timeout.
 *   what     name of the wait in messages
 *   ready    ready(arg) returns 1: ready, 0: not yet, < 0: error that ends the wait
 *   Returns  0; the error of ready; -BB_ETIMEOUT after the message described above; or, without a message, the code
 *            with which the job is ending because of another rank
 * Polls immediately; yields between polls for the first 200 us, then sleeps for intervals that grow to 1 ms.
 */
typedef int bb_ready(void *arg);
int bb_world_wait(struct bb_world *w, const char *what, bb_ready *ready, void *arg) BB_MUST_CHECK;

/*
 * bb_world_prompt - on: the host's clock times the waits, so a wait spins for its first second instead of sleeping, to
 * notice the end at once. If ranks outnumber the processors, waits sleep nevertheless, because a spinning rank would
 * take the processor from a working one.
 */
void bb_world_prompt(struct bb_world *w, bool on);

/*
 * bb_world_guard / bb_world_unguard - name a blocking call that cannot be polled (cudaDeviceSynchronize, a blocking
 * NCCL call), so that messages contain what this rank waits for. If the call exceeds the timeout, the watchdog's thread
 * prints the message and ends the job; without a name it does so too. `what` is copied. Calls do not nest.
 */
void bb_world_guard(struct bb_world *w, const char *what);
void bb_world_unguard(struct bb_world *w);

/* BB_GUARDED - guard, a call that returns 0 or an error, and unguard. */
#define BB_GUARDED(w, what, call) (bb_world_guard((w), (what)), bb_world_guarded((w), (call)))
int bb_world_guarded(struct bb_world *w, int rc) BB_MUST_CHECK; /* unguard; returns rc */

/* bb_world_ending - returns 0, or the negative code with which the job is already ending. Cheap; callable from any
 * thread. */
int bb_world_ending(const struct bb_world *w);

/*
 * bb_world_at_end - register fn(arg, rc), rc < 0, for an early end of the job: saving results, aborting communicators.
 *   Returns  0, or -BB_EFAIL if 64 are registered
 *   Threads  runs on the watchdog's thread while the main thread may still run
 * Called if the main thread does not reach bb_world_release within half a second, newest first. bb_world_forget removes
 * it.
 */
typedef void bb_at_end(void *arg, int rc);
int bb_world_at_end(struct bb_world *w, bb_at_end *fn, void *arg) BB_MUST_CHECK;
void bb_world_forget(struct bb_world *w, bb_at_end *fn, void *arg);

#endif
