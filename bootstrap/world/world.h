/*
 * world.h - the ranks of a run: who they are, the little data they exchange at start, and what happens when one of them
 * does not come. MPI is used for this and for nothing else; measured traffic goes through NCCL.
 *
 * No wait is without an end, whatever library it is in: from bb_world_init to the end of bb_world_release each call of
 * this header is a sign of life, and the run's timeout is all that may lie between two of them (before and after,
 * bootstrap/start/deadline.h has the same). Then rank 0 prints one line that names the wait, and the ranks that did not
 * arrive with the step at which they were last seen, and every rank ends with exit 4. The same happens at once when a
 * rank is lost (killed, crashed, its host gone). A rank that fails ends all others with its own exit code. A second,
 * TCP, channel between rank 0 and the others and one thread per rank do this (watchdog.h), so it also works while the
 * main thread is stuck in a call. Where rank 0 itself is lost or silent, the lowest rank that is left prints the line.
 *
 * Order of a life: bb_world_init ... bb_world_release(w, rc) ... return bb_exit_code(rc). All calls come from the
 * thread that called bb_world_init, except bb_world_ending.
 *
 * What the launcher adds. Open MPI's mpirun: when a rank dies it sends the others SIGTERM and, about a second later,
 * SIGKILL, and its own exit status is that of the rank that died first (137 for SIGKILL). The ranks use that second:
 * the lost rank is named and they end with 4. That of Open MPI 5 (prterun) leaves a quarter of a second after SIGTERM,
 * less once a rank has ended, and no longer reads what the ranks say: they count from the SIGCONT that it sends first,
 * and say the line where its own lines go (bb_launcher_take_stderr). Hydra (MPICH, MVAPICH, Intel MPI) kills all at
 * once, unless it does not notice (hydra.h); rank 0 then ends the job by MPI_Abort, whose code is mpiexec's: 3, 4, ...;
 * a rank that was killed by a signal makes it the signal's number (9). It says so on stdout, after the results. A
 * signal from elsewhere (bootstrap/start/signals.h) is named in one line with where it came, saves the results as
 * interrupted and ends with 1; so does the end of the launcher itself. srun leaves the others alone; the watchdog then
 * ends the job by itself.
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
    int node, nodes;            /* nodes are machines, numbered by their first rank              */
    int local_rank, local_size; /* among the ranks of this host                                  */
    char host[BB_HOST_TEXT];
    char (*hosts)[BB_HOST_TEXT]; /* [size] host of each rank; owned by the world                 */
    int *node_of;                /* [size] node of each rank; owned by the world                 */
    double timeout_s;
    struct bb_watchdog *watchdog; /* NULL in a world made by bb_world_alone                         */
    bool prompt;                  /* waits spin at first: see bb_world_prompt                       */
    struct bb_siblings *siblings; /* of this process, which has several ranks; NULL: it is one of them alone */
    bool mpi;                     /* MPI is up and ours to end                                      */
    int crowd;                    /* 0, or how many times too many ranks this host has: waits sleep longer */
    int out_of_step;              /* 0, or with what an exchange failed on this rank: it takes part in no other */
    bool agreed;                  /* all ranks know that the run ends: bb_world_agree has told them */
};

/*
 * bb_world_init - start MPI and the watchdog. Where a process started further ranks (bootstrap/start/siblings.h), each
 * of them calls it, and all are ranks alike. Works as a single process without mpirun, but one process under a
 * launcher that started more (another MPI's mpirun, srun without the matching plugin) is refused with -BB_EUSAGE.
 * timeout_s > 0 holds for every wait. SIGTERM, SIGINT and others (bootstrap/start/signals.h) are taken by the watchdog's
 * thread from here on.
 * On failure w can and must still be given to bb_world_release.
 */
int bb_world_init(struct bb_world *w, double timeout_s) BB_MUST_CHECK;

/* bb_world_alone - a world of one rank without MPI, thread or socket: for plan, for tests. */
int bb_world_alone(struct bb_world *w, double timeout_s) BB_MUST_CHECK;

/*
 * bb_world_release - the orderly end (rc >= 0: a barrier, goodbye, MPI_Finalize), or the end of everybody (rc < 0:
 * results are saved, the other ranks are told, and all end with the exit code of the first that failed; MPI_Abort for
 * those that cannot be told; does not return when there are other ranks). Returns rc, or the error met while ending.
 * Fine on a world that is zeroed or half made.
 */
int bb_world_release(struct bb_world *w, int rc);

/*
 * Exchanges; called by all ranks in the same order. Sizes in bytes and equal on all ranks. bcast: buf of `root` goes to
 * all. allgather: send[bytes] of rank r arrives at recv + r * bytes. `what` is the name in messages
 * ("the start of the sweep"). bb_world_agree: 0 when every rank passed 0, else the first rc in rank order that is not
 * 0, so that all ranks leave together (each has printed its own error).
 */
int bb_world_bcast(struct bb_world *w, void *buf, size_t bytes, int root) BB_MUST_CHECK;
int bb_world_allgather(struct bb_world *w, const void *send, void *recv, size_t bytes) BB_MUST_CHECK;
int bb_world_barrier(struct bb_world *w, const char *what) BB_MUST_CHECK;
int bb_world_agree(struct bb_world *w, int rc, const char *what);

/* BB_WORLD_ERR - bb_err() for what all ranks find alike: rank 0 says it, all return -code. */
#define BB_WORLD_ERR(w, code, ...) ((w)->rank == 0 ? bb_err_job((code), __VA_ARGS__) : -(int)(code))

/* bb_world_gather - own[bytes] of all ranks as a new array, to be freed; NULL and *rc < 0 when that fails. */
void *bb_world_gather(struct bb_world *w, const void *own, size_t bytes, int *rc) BB_MUST_CHECK;

/* Each value becomes that of all ranks together: the largest, the smallest, the sum, the bits that any rank has set. */
int bb_world_max(struct bb_world *w, double *values, size_t n) BB_MUST_CHECK;
int bb_world_min(struct bb_world *w, size_t *value) BB_MUST_CHECK;
int bb_world_sum(struct bb_world *w, unsigned long long *value) BB_MUST_CHECK;
int bb_world_any(struct bb_world *w, unsigned *bits) BB_MUST_CHECK;

/*
 * bb_world_reached - this rank begins a step: "bench all_reduce 4 MiB". It is what a hang or loss message shows as
 * "last seen". Call it at the same points on every rank: the k-th step of one rank is held to be the k-th of the
 * others, and a rank that is behind "did not arrive". Costs a formatted print and, after the first 32, at most ten times a
 * second a poke of the thread, which sends it; between two pokes it follows within 100 ms. Not for inside a timed loop.
 */
void bb_world_reached(struct bb_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * bb_world_wait - wait under the deadline for anything that can be asked: an event, a stream, a communicator.
 * ready(arg): 1 yes, 0 not yet, < 0 an error that ends the wait. Asked at once, then again and again; the thread yields
 * for the first 200 us, then sleeps in steps that grow to 1 ms. Returns 0; ready's error; -BB_ETIMEOUT after the
 * message described above; or, silently, the code with which the job is ending because of another rank.
 */
typedef int bb_ready(void *arg);
int bb_world_wait(struct bb_world *w, const char *what, bb_ready *ready, void *arg) BB_MUST_CHECK;

/*
 * bb_world_prompt - on: the host's clock is read around what is waited for, so a wait does not sleep in its first second
 * and ends at once. Where ranks outnumber the processors it sleeps as ever: who spins keeps the one that works from it.
 */
void bb_world_prompt(struct bb_world *w, bool on);

/*
 * bb_world_guard / bb_world_unguard - name a call that blocks and cannot be asked (cudaDeviceSynchronize, a blocking
 * NCCL call), so that the others see what this rank waits for: when it lasts longer than the timeout, the watchdog's
 * thread says so and ends the job, as it does without a name. `what` is copied. They do not nest.
 */
void bb_world_guard(struct bb_world *w, const char *what);
void bb_world_unguard(struct bb_world *w);

/* BB_GUARDED - a call that gives 0 or an error, between the two. */
#define BB_GUARDED(w, what, call) (bb_world_guard((w), (what)), bb_world_guarded((w), (call)))
int bb_world_guarded(struct bb_world *w, int rc) BB_MUST_CHECK; /* unguard; rc */

/* bb_world_ending - 0, or the negative code with which the job is already ending. Cheap; from any thread. */
int bb_world_ending(const struct bb_world *w);

/*
 * bb_world_at_end - call fn(arg, rc) when the job ends early (rc < 0), from the watchdog's thread, if the main thread
 * has not come to bb_world_release by itself within half a second: saving results, aborting communicators. Newest
 * first. At most 64 are kept. fn must be safe against the main thread running. bb_world_forget undoes it. Returns 0 or
 * -BB_EFAIL.
 */
typedef void bb_at_end(void *arg, int rc);
int bb_world_at_end(struct bb_world *w, bb_at_end *fn, void *arg) BB_MUST_CHECK;
void bb_world_forget(struct bb_world *w, bb_at_end *fn, void *arg);

#endif
