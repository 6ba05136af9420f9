/*
 * watchdog.h - detects lost and hanging ranks. One thread per rank and a TCP star around rank 0, independent of MPI and
 * NCCL, so it works while both hang. Used by world.c (world.h describes what users see) and results.c.
 *
 * Protocol: fixed-size messages (watchdog_internal.h), each with an authentication tag.
 *
 *   CHALLENGE  first message of the side that accepted the connection (watchdog_internal.h)
 *   HELLO      a rank joins
 *   STATE      number and text of the rank's last step, and what it waits for; sent after a change, at most every 100
 *              ms. Rank 0 sends its own STATE too.
 *   HANG       a wait of this rank exceeded the timeout
 *   ASK        rank 0 requests STATE from all ranks, after the first HANG
 *   FAIL       this rank ends with an error
 *   BYE        this rank has finished; from rank 0: all ranks have finished
 *   GONE       MPI_Finalize has returned on this rank; from rank 0: on all ranks
 *   END        rank 0: the job ends early with this exit code
 *   SPEAK      request to a backup reporter (rank 0 is lost or silent): report the error
 *
 * A connection that closes without FAIL or GONE is a lost rank. If rank 0 is lost, the other ranks send SPEAK to the
 * backup reporters (deputies) of lower rank, and the lowest one that answers prints the line.
 *
 * States of a rank:
 *
 *    alone --serve, join--> in the run --leave: BYE--> leaving --rank 0: BYE from all; others: BYE from rank 0--> left
 *      |                      |     |                     |
 *      | a wait timed out     |     | a wait timed out    |
 *      |                      |     v                     |
 *      |                      |   hung: HANG to rank 0    |
 *      |                      |     |                     |
 *      |   END, rank 0 lost,  |     | the same, or no     | END, rank 0 lost
 *      |   error (FAIL),      |     | answer in 2 s       |
 *      |   signal             |     |                     |
 *      v                      v     v                     v
 *    ending: one line on stderr names the rank and its step; hooks; _exit
 *
 * A rank in state "alone" under a launcher checks whether another rank of its host has reported an error, and whether
 * the next rank of the host still exists (bootstrap/start/neighbours.h).
 *
 * Rank 0 decides for all ranks, with one line and END: 0.3 s after the first HANG (1 s if some ranks did not answer
 * ASK), 0.05 s after it lost a rank, 0.15 s after a signal (mpirun sends one when a rank dies), at once after a FAIL. A
 * signal to another rank is sent to rank 0; if no END arrives within another 0.2 s, the lowest remaining rank decides.
 *
 * After the start of the end, the hooks for BB_WATCHDOG_AT_ONCE run at once, those for BB_WATCHDOG_STUCK after 0.3 s,
 * and the process exits by _exit after 0.8 s, unless the main thread exits earlier. All of this fits into the second
 * that mpirun leaves between SIGTERM and SIGKILL.
 *
 * Cases in which the number of lines is not one:
 *
 * - Two live hosts that cannot reach each other: each reports the other as lost. A host cannot distinguish an
 *   unreachable host, which reports the error too, from one without power; if it printed nothing, the job would end
 *   without a message in the second case. On one host the ranks agree through an abstract socket
 *   (bootstrap/start/speaker.h), whatever happens to their connections.
 * - A launcher that has exited: stderr of the ranks is a pipe to it that nothing reads. Example: mpirun of Open MPI 4,
 *   interrupted twice within a second, exits before the ranks receive the first signal. The results contain the cause.
 */
#ifndef BB_BOOTSTRAP_WATCHDOG_WATCHDOG_H
#define BB_BOOTSTRAP_WATCHDOG_WATCHDOG_H

#include "bootstrap/base/siphash.h"
#include "bootstrap/world/world.h"

#include <stdint.h>
#include <sys/socket.h>

struct bb_watchdog;

/* Addresses of a listening rank (rank 0 or a backup reporter), and the run's secret token. Plain data, so that it
 * can be broadcast. */
#define BB_WATCHDOG_ADDRESSES 8
struct bb_watchdog_endpoint {
    struct bb_siphash_key token;
    int n;
    struct sockaddr_storage at[BB_WATCHDOG_ADDRESSES];
};

/*
 * Backup reporters (deputies), for a rank 0 that is lost or does not answer: ranks 1 and 2, and the first ranks of two
 * more nodes, in rank order. The lowest that answers reports; if none answers, the ranks of each host agree on one of
 * them (speaker.h).
 */
#define BB_WATCHDOG_DEPUTIES 4
struct bb_watchdog_deputies {
    int n, rank[BB_WATCHDOG_DEPUTIES];
    struct bb_watchdog_endpoint at[BB_WATCHDOG_DEPUTIES];
};

/* bb_watchdog_start - start this rank's thread in state "alone": timeout, signals and hooks work. Blocks SIGTERM,
 * SIGINT and the other signals of bootstrap/start/signals.h, unless they are ignored (nohup). */
int bb_watchdog_start(struct bb_watchdog **watchdog, double timeout_s) BB_MUST_CHECK;

/* bb_watchdog_see_neighbours - for a process that is one rank: until the ranks are connected, the ranks of this host
 * monitor each other and end with the exit code of the first that reports an error. */
void bb_watchdog_see_neighbours(struct bb_watchdog *watchdog);

/* bb_watchdog_met - the ranks are connected, or there is only one. */
void bb_watchdog_met(struct bb_watchdog *watchdog);

/* bb_watchdog_end_neighbours - under a launcher that waits for all ranks (srun): end the ranks of this host that do
 * not exit by themselves. */
void bb_watchdog_end_neighbours(struct bb_watchdog *watchdog);

/* bb_watchdog_serve - rank 0: listen, on the loopback interface if all ranks are on one host. hosts [size] must
 * outlive the watchdog. ticket: out, the addresses. */
int bb_watchdog_serve(struct bb_watchdog *watchdog, int size, char (*hosts)[BB_HOST_TEXT], bool one_host,
                      struct bb_watchdog_endpoint *ticket) BB_MUST_CHECK;

/* bb_watchdog_join - other ranks: connect to rank 0. If no address answers, print a warning and stay in state
 * "alone". */
void bb_watchdog_join(struct bb_watchdog *watchdog, int rank, int size, char (*hosts)[BB_HOST_TEXT],
                      const struct bb_watchdog_endpoint *ticket);

/* bb_watchdog_choose_deputies - choose the backup reporters from the placement alone, identically on every rank.
 * node_of: [size] node of each rank. The caller fills in their endpoints. */
void bb_watchdog_choose_deputies(struct bb_watchdog_deputies *deputies, int size, const int *node_of);

/* bb_watchdog_deputise - a backup reporter starts to listen. at: out, its endpoint, which the caller sends to all
 * ranks; without a socket it has no address. */
void bb_watchdog_deputise(struct bb_watchdog *watchdog, bool one_host, const struct bb_siphash_key *token,
                          struct bb_watchdog_endpoint *at);

/* bb_watchdog_know_deputies - store the endpoints of all backup reporters. */
void bb_watchdog_know_deputies(struct bb_watchdog *watchdog, const struct bb_watchdog_deputies *deputies);

/*
 * Signs of life of the main thread. Each call, also bb_watchdog_moved, restarts the timeout; when it expires, the
 * watchdog's thread reports the position of the main thread and ends the job. bb_watchdog_moved costs one addition.
 */
void bb_watchdog_moved(struct bb_watchdog *watchdog);
void bb_watchdog_reached(struct bb_watchdog *watchdog, const char *step);
void bb_watchdog_waiting(struct bb_watchdog *watchdog, const char *what); /* NULL: the wait is over */
void bb_watchdog_guard(struct bb_watchdog *watchdog, const char *what);   /* NULL: the call is over */
int bb_watchdog_ending(const struct bb_watchdog *watchdog);

/* bb_watchdog_expired - a wait of this rank timed out: report it and return the code with which the job ends. */
int bb_watchdog_expired(struct bb_watchdog *watchdog, const char *what) BB_MUST_CHECK;

/*
 * bb_watchdog_fail - end this rank after an error; its results are saved.
 *   code     exit code; the code with which the job is already ending takes precedence
 *   Returns  true if all ranks are known to end by themselves, so that MPI_Abort is not needed
 * Ranks other than 0 wait up to half a second for rank 0 to arrive here too, because mpirun kills all ranks soon after
 * the first has exited.
 */
bool bb_watchdog_fail(struct bb_watchdog *watchdog, int code);

/* bb_watchdog_all_ended - rank 0, after bb_watchdog_fail: returns whether all other ranks ended within a moment. */
bool bb_watchdog_all_ended(struct bb_watchdog *watchdog);

/* bb_watchdog_spoken - this rank fails with exit code `code` and has printed why; call before the other ranks can
 * notice, so that they do not report it too. */
void bb_watchdog_spoken(struct bb_watchdog *watchdog, int code);

/* bb_watchdog_told - the run ends in order, and a printed line explains its nonzero exit status. mpirun signals the
 * slower ranks as soon as the first has exited; these signals are then not reported. */
void bb_watchdog_told(struct bb_watchdog *watchdog);

/* bb_watchdog_leave - this rank has finished; returns when all ranks have, or at the timeout. */
void bb_watchdog_leave(struct bb_watchdog *watchdog);

/* bb_watchdog_depart - MPI_Finalize has returned on this rank; returns when it has on all ranks (on rank 0 last), or
 * when the job is ending. A rank that is stuck in MPI_Finalize is reported by the others. */
void bb_watchdog_depart(struct bb_watchdog *watchdog);

/* bb_watchdog_reason - returns the signal that ends the job ("SIGTERM"), or "". phase: out, what this rank was
 * doing. */
#define BB_WATCHDOG_REASON 256
const char *bb_watchdog_reason(struct bb_watchdog *watchdog, char phase[BB_WATCHDOG_REASON]);

/* bb_watchdog_stop - stop the thread and free the watchdog. NULL is allowed. */
void bb_watchdog_stop(struct bb_watchdog *watchdog);

enum bb_watchdog_when { BB_WATCHDOG_AT_ONCE, BB_WATCHDOG_STUCK };
int bb_watchdog_hook(struct bb_watchdog *watchdog, enum bb_watchdog_when when, bb_at_end *fn, void *arg) BB_MUST_CHECK;
void bb_watchdog_forget(struct bb_watchdog *watchdog, bb_at_end *fn, void *arg);

#endif
