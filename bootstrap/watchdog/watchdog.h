/*
 * watchdog.h - detects lost and hanging ranks. The watchdog consists of one thread per rank and a TCP connection from
 * every rank to rank 0. It is independent of MPI and NCCL, so it works while both hang. It is used by world.c and
 * results.c; world.h describes the behavior that users see.
 *
 * Protocol: the ranks exchange fixed-size messages (watchdog_internal.h), each with an authentication tag.
 *
 *   CHALLENGE  the first message of the side that accepted the connection; contains a nonce (watchdog_internal.h)
 *   HELLO      a rank joins: the first message of a rank to rank 0, and the answer of rank 0
 *   STATE      number and text of the sender's last step, and what the sender waits for; sent after a change, at most
 *              every 100 ms. Rank 0 sends its own STATE to all ranks.
 *   HANG       a wait of the sender exceeded the timeout
 *   ASK        rank 0 requests STATE from all ranks, after the first HANG
 *   FAIL       the sender ends with an error, or because of a signal
 *   BYE        the sender has finished; from rank 0: all ranks have finished
 *   GONE       MPI_Finalize has returned on the sender; from rank 0: MPI_Finalize has returned on all ranks
 *   END        from rank 0: the job ends early with this exit code
 *   SPEAK      request to a backup reporter to print the error line, because rank 0 is lost or does not answer
 *
 * A rank is lost if its connection closes before it sent FAIL or GONE. If rank 0 is lost, each other rank sends SPEAK
 * to the backup reporters (deputies) with a lower rank number, in rank order; the first one that answers prints the
 * line.
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
 *    ending: print one error line with the rank and its step; run the hooks; _exit
 *
 * A rank in state "alone" under a launcher checks whether another rank of its host has reported an error, and whether
 * the next rank of the host still exists (bootstrap/start/neighbours.h).
 *
 * Rank 0 decides when the job ends. It prints one error line and sends END to all ranks:
 *   - 0.3 s after the first HANG, or 1 s after it if some ranks did not answer ASK
 *   - 0.05 s after it detected a lost rank
 *   - 0.15 s after a signal, because mpirun also sends a signal when a rank dies
 *   - at once after FAIL
 * A rank other than 0 that receives a signal informs rank 0 (FAIL). If no END arrives within another 0.2 s, the lowest
 * remaining rank decides instead.
 *
 * When the job starts to end, the hooks registered for BB_WATCHDOG_AT_ONCE run at once and the hooks registered for
 * BB_WATCHDOG_STUCK run after 0.3 s. The process calls _exit after 0.8 s, unless the main thread exits earlier. All of
 * this fits into the second that mpirun leaves between SIGTERM and SIGKILL.
 *
 * Normally exactly one error line is printed for the whole job. Exceptions:
 *
 * - Two lines: if two running hosts cannot reach each other, each host reports the other as lost. A host cannot
 *   determine whether the other host reports the error too or has lost power. If it printed nothing and the other host
 *   had lost power, the job would end without a message. The ranks of one host agree on a reporter through an abstract
 *   socket (bootstrap/start/speaker.h), which works even if all TCP connections are lost.
 * - No line: if the launcher has exited, stderr of the ranks is a pipe without a reader. For example, mpirun of Open
 *   MPI 4 exits before the ranks receive the first signal if it is interrupted twice within a second. The results
 *   contain the cause.
 */
#ifndef BB_BOOTSTRAP_WATCHDOG_WATCHDOG_H
#define BB_BOOTSTRAP_WATCHDOG_WATCHDOG_H

#include "bootstrap/base/siphash.h"
#include "bootstrap/world/world.h"

#include <stdint.h>
#include <sys/socket.h>

struct bb_watchdog;

/* Addresses of a rank that listens (rank 0 or a backup reporter), and the secret token of the run. Plain data, so
 * that MPI can broadcast it. */
#define BB_WATCHDOG_ADDRESSES 8
struct bb_watchdog_endpoint {
    struct bb_siphash_key token;
    int n;
    struct sockaddr_storage at[BB_WATCHDOG_ADDRESSES];
};

/*
 * Backup reporters (deputies): the ranks that print the error line if rank 0 is lost or does not answer. They are ranks
 * 1 and 2 and the first ranks of two more nodes, in rank order. The lowest backup reporter that answers prints the
 * line. If no backup reporter answers, the ranks of each host choose a reporter among themselves (speaker.h).
 */
#define BB_WATCHDOG_DEPUTIES 4
struct bb_watchdog_deputies {
    int n, rank[BB_WATCHDOG_DEPUTIES];
    struct bb_watchdog_endpoint at[BB_WATCHDOG_DEPUTIES];
};

/* bb_watchdog_start - start the watchdog's thread in state "alone" (not connected to other ranks), in which the
 * timeout, signals and hooks already work. timeout_s: time limit in seconds between two signs of life of the main
 * thread. Blocks SIGTERM, SIGINT and the other signals listed in bootstrap/start/signals.h, except those that are
 * ignored (nohup). */
int bb_watchdog_start(struct bb_watchdog **watchdog, double timeout_s) BB_MUST_CHECK;

/* bb_watchdog_see_neighbours - start to monitor the next rank of this host, until all ranks are connected. If a rank
 * of this host reports an error, the other ranks of the host end with the same exit code. Not for forked ranks
 * (bootstrap/start/siblings.h). */
void bb_watchdog_see_neighbours(struct bb_watchdog *watchdog);

/* bb_watchdog_met - record that the ranks have connected to rank 0 (a rank that cannot connect prints a warning), or
 * that the run has only one rank. */
void bb_watchdog_met(struct bb_watchdog *watchdog);

/* bb_watchdog_end_neighbours - under srun, which waits for all ranks: end the ranks of this host that do not exit on
 * their own. No effect under other launchers. */
void bb_watchdog_end_neighbours(struct bb_watchdog *watchdog);

/*
 * bb_watchdog_serve - rank 0: listen for the other ranks.
 *   hosts     [size] host of each rank; must outlive the watchdog
 *   one_host  true: all ranks are on one host, so listen on the loopback interface
 *   ticket    out: the addresses and the token that the other ranks need for bb_watchdog_join
 */
int bb_watchdog_serve(struct bb_watchdog *watchdog, int size, char (*hosts)[BB_HOST_TEXT], bool one_host,
                      struct bb_watchdog_endpoint *ticket) BB_MUST_CHECK;

/* bb_watchdog_join - all ranks except 0: connect to rank 0. If rank 0 cannot be reached at any address, print a
 * warning and stay in state "alone" (not connected to other ranks). */
void bb_watchdog_join(struct bb_watchdog *watchdog, int rank, int size, char (*hosts)[BB_HOST_TEXT],
                      const struct bb_watchdog_endpoint *ticket);

/* bb_watchdog_choose_deputies - choose the backup reporters. node_of: [size] node of each rank. The choice depends
 * only on node_of, so every rank chooses the same backup reporters. The caller fills in their endpoints. */
void bb_watchdog_choose_deputies(struct bb_watchdog_deputies *deputies, int size, const int *node_of);

/* bb_watchdog_deputise - start listening as a backup reporter. at: out, the endpoint of this rank, which the caller
 * sends to all ranks; at->n is 0 if listening failed. */
void bb_watchdog_deputise(struct bb_watchdog *watchdog, bool one_host, const struct bb_siphash_key *token,
                          struct bb_watchdog_endpoint *at);

/* bb_watchdog_know_deputies - store the endpoints of all backup reporters. */
void bb_watchdog_know_deputies(struct bb_watchdog *watchdog, const struct bb_watchdog_deputies *deputies);

/*
 * Signs of life of the main thread. Each of the first four calls restarts the timeout. If the timeout expires, the
 * watchdog's thread reports the main thread's last step and ends the job.
 * bb_watchdog_moved - only restart the timeout; costs one addition.
 * bb_watchdog_reached - the main thread starts `step`, a section of the run that messages name ("bench all_reduce 4
 * MiB").
 * bb_watchdog_waiting - the main thread waits for `what`; NULL: the wait is over.
 * bb_watchdog_guard - the main thread enters the blocking call `what`; NULL: the call has returned.
 * bb_watchdog_ending - returns 0, or the negative code with which the job is already ending. Not a sign of life.
 */
void bb_watchdog_moved(struct bb_watchdog *watchdog);
void bb_watchdog_reached(struct bb_watchdog *watchdog, const char *step);
void bb_watchdog_waiting(struct bb_watchdog *watchdog, const char *what);
void bb_watchdog_guard(struct bb_watchdog *watchdog, const char *what);
int bb_watchdog_ending(const struct bb_watchdog *watchdog);

/* bb_watchdog_expired - report that the wait `what` of this rank timed out, and wait for the decision of rank 0.
 * Returns the negative code with which the job ends. */
int bb_watchdog_expired(struct bb_watchdog *watchdog, const char *what) BB_MUST_CHECK;

/*
 * bb_watchdog_fail - end this rank after an error, and wait until its results are saved.
 *   code     exit code; if the job is already ending, the code of that end is used instead
 *   Returns  true if all other ranks are known to end on their own, so that MPI_Abort is not needed
 * Ranks other than 0 wait up to half a second for rank 0 to call this function too, because mpirun kills all ranks soon
 * after the first one has exited.
 */
bool bb_watchdog_fail(struct bb_watchdog *watchdog, int code);

/* bb_watchdog_all_ended - rank 0, after bb_watchdog_fail: wait up to one second for the other ranks to end. Returns
 * whether all of them have ended. */
bool bb_watchdog_all_ended(struct bb_watchdog *watchdog);

/* bb_watchdog_spoken - record that this rank fails with exit code `code` and has printed the error. Call before the
 * other ranks can notice the failure, so that they do not report it again. */
void bb_watchdog_spoken(struct bb_watchdog *watchdog, int code);

/* bb_watchdog_told - record that an orderly run ends with a nonzero exit status and that a printed line explains
 * this status. mpirun sends a signal to the slower ranks as soon as the first rank has exited; after this call these
 * signals are not reported. */
void bb_watchdog_told(struct bb_watchdog *watchdog);

/* bb_watchdog_leave - report that this rank has finished, and wait until all ranks have finished or the timeout
 * expires. */
void bb_watchdog_leave(struct bb_watchdog *watchdog);

/* bb_watchdog_depart - report that MPI_Finalize has returned on this rank, and wait until it has returned on all
 * ranks or the job is ending. If a rank is stuck in MPI_Finalize, the other ranks report it. */
void bb_watchdog_depart(struct bb_watchdog *watchdog);

/* bb_watchdog_reason - returns the name of the signal that ends the job ("SIGTERM"), or "". phase: out, last step of
 * this rank and what it waited for. */
#define BB_WATCHDOG_REASON 256
const char *bb_watchdog_reason(struct bb_watchdog *watchdog, char phase[BB_WATCHDOG_REASON]);

/* bb_watchdog_stop - stop the watchdog's thread and free the watchdog. NULL is allowed. */
void bb_watchdog_stop(struct bb_watchdog *watchdog);

/*
 * bb_watchdog_hook - register a function that the watchdog calls as fn(arg, rc), rc < 0, on a separate thread when the
 * job ends early.
 *   when  BB_WATCHDOG_AT_ONCE: at once; BB_WATCHDOG_STUCK: about 0.3 s later, and only if the main thread is stuck
 * bb_watchdog_forget - remove a registered function.
 */
enum bb_watchdog_when { BB_WATCHDOG_AT_ONCE, BB_WATCHDOG_STUCK };
int bb_watchdog_hook(struct bb_watchdog *watchdog, enum bb_watchdog_when when, bb_at_end *fn, void *arg) BB_MUST_CHECK;
void bb_watchdog_forget(struct bb_watchdog *watchdog, bb_at_end *fn, void *arg);

#endif
