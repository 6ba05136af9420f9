/*
 * watchdog.h - who is there, and where are they? One thread per rank and a TCP star around rank 0, beside MPI and NCCL,
 * so that it works while both hang. Used by world.c (whose header says what users see) and results.c.
 *
 * Protocol: fixed-size messages (watchdog_internal.h), each with a keyed tag. A rank joins with HELLO, sends its STATE
 * (number and text of the last step, what it waits for) at most every 100 ms and only when it changed, HANG when a wait
 * ran out (rank 0 then says ASK to all, which is answered with STATE), FAIL when it ends with an error, BYE when it
 * leaves in order, GONE when MPI has ended too. Rank 0 sends its own STATE, END with an exit code when the job is over
 * early, BYE when all have left, GONE when all are. A connection that closes without FAIL or GONE is a lost rank. When rank 0 is the one,
 * the others ask the deputies below them (SPEAK), and whoever is asked says the line.
 *
 * States of a rank:
 *
 *    alone --serve, join--> in the run --leave: BYE--> leaving --rank 0: all said BYE; others: rank 0 did--> left
 *      |                      |     |                     |
 *      | a wait ran out       |     | a wait ran out      |
 *      |                      |     v                     |
 *      |                      |   hung: HANG to rank 0    |
 *      |                      |     |                     |
 *      |   END came, rank 0   |     | the same, or no     | END came, rank 0 is lost
 *      |   is lost, an error  |     | answer in 2 s       |
 *      |   (FAIL), a signal   |     |                     |
 *      v                      v     v                     v
 *    ending: one line on stderr names who and where; hooks; _exit
 *
 * A rank that is alone under a launcher asks whether another one of its host has spoken, and looks whether the next one
 * is still there (bootstrap/start/neighbours.h).
 *
 * Rank 0 decides for all, with one line and END: 0.3 s after the first HANG (1 s when some did not answer ASK), 0.05 s
 * after it lost a rank, 0.15 s after a signal (mpirun sends one when a rank dies), at once after a FAIL. A signal to
 * another rank is told to rank 0; when no END comes within 0.2 s more, the lowest rank that is left decides.
 *
 * From the moment the job is ending: hooks for "at once" run, after 0.3 s those for "stuck", after 0.8 s the process
 * ends by _exit, unless the main thread was quicker. All within the second that mpirun leaves between SIGTERM and
 * SIGKILL.
 *
 * Where it cannot be one line:
 *
 * - Two hosts that live and do not reach each other: each says that the other is lost. Neither can know whether the other
 *   is there, and speaks, or is without power; a host that kept silent for the other's sake would end the job without a
 *   word in the second case. On one host the ranks agree by a name of the kernel's
 *   (bootstrap/start/speaker.h), whatever becomes of their connections.
 * - A launcher that is gone: the ranks' stderr is a pipe to it, and nobody reads it. So mpirun of Open MPI 4, interrupted
 *   twice within a second: it leaves before the ranks hear of the first. The results tell what it was.
 */
#ifndef BB_BOOTSTRAP_WATCHDOG_WATCHDOG_H
#define BB_BOOTSTRAP_WATCHDOG_WATCHDOG_H

#include "bootstrap/base/siphash.h"
#include "bootstrap/world/world.h"

#include <stdint.h>
#include <sys/socket.h>

struct bb_watchdog;

/* Where rank 0 is reached; plain data, to be broadcast. */
#define BB_WATCHDOG_ADDRESSES 8
struct bb_watchdog_endpoint {
    struct bb_siphash_key token;
    int n;
    struct sockaddr_storage at[BB_WATCHDOG_ADDRESSES];
};

/*
 * Who speaks for all when rank 0 is lost or does not answer: ranks 1 and 2, and the first of two more nodes, in rank
 * order. The lowest of them that answers does; without any, the ranks of a host agree on one of theirs.
 */
#define BB_WATCHDOG_DEPUTIES 4
struct bb_watchdog_deputies {
    int n, rank[BB_WATCHDOG_DEPUTIES];
    struct bb_watchdog_endpoint at[BB_WATCHDOG_DEPUTIES];
};

/* bb_watchdog_start - the thread of this rank, alone at first: the deadline, signals and hooks work. Blocks SIGTERM,
 * SIGINT and the others of bootstrap/start/signals.h, unless they are ignored (nohup). */
int bb_watchdog_start(struct bb_watchdog **watchdog, double timeout_s) BB_MUST_CHECK;

/* bb_watchdog_see_neighbours - a process that is one rank: it and the others of this host see each other until all are
 * met, and end with the exit code of the first that speaks. */
void bb_watchdog_see_neighbours(struct bb_watchdog *watchdog);

/* bb_watchdog_met - the ranks know each other, or there is one. */
void bb_watchdog_met(struct bb_watchdog *watchdog);

/* bb_watchdog_end_neighbours - under a launcher that waits for all, those of this host that do not end by themselves. */
void bb_watchdog_end_neighbours(struct bb_watchdog *watchdog);

/* bb_watchdog_serve - rank 0: listen, on loopback when all ranks are on one host. hosts [size] must outlive it. */
int bb_watchdog_serve(struct bb_watchdog *watchdog, int size, char (*hosts)[BB_HOST_TEXT], bool one_host,
                      struct bb_watchdog_endpoint *ticket) BB_MUST_CHECK;

/* bb_watchdog_join - other ranks: join rank 0. When no address answers: a warning, and this rank is on its own. */
void bb_watchdog_join(struct bb_watchdog *watchdog, int rank, int size, char (*hosts)[BB_HOST_TEXT],
                      const struct bb_watchdog_endpoint *ticket);

/* bb_watchdog_choose_deputies - by rank alone, the same on every rank. Their endpoints are to be filled. */
void bb_watchdog_choose_deputies(struct bb_watchdog_deputies *deputies, int size, const int *node_of);

/* bb_watchdog_deputise - a deputy listens; its endpoint is to be given to all. Without a socket it has no address. */
void bb_watchdog_deputise(struct bb_watchdog *watchdog, bool one_host, const struct bb_siphash_key *token,
                          struct bb_watchdog_endpoint *at);

/* bb_watchdog_know_deputies - all endpoints are here. */
void bb_watchdog_know_deputies(struct bb_watchdog *watchdog, const struct bb_watchdog_deputies *deputies);

/*
 * The main thread's signs of life. Each, bb_watchdog_moved too, gives it another timeout_s until its next one; when
 * none comes, the thread says where it is and ends the job. moved costs one addition.
 */
void bb_watchdog_moved(struct bb_watchdog *watchdog);
void bb_watchdog_reached(struct bb_watchdog *watchdog, const char *step);
void bb_watchdog_waiting(struct bb_watchdog *watchdog, const char *what); /* NULL: no more */
void bb_watchdog_guard(struct bb_watchdog *watchdog, const char *what);   /* NULL: no more */
int bb_watchdog_ending(const struct bb_watchdog *watchdog);

/* bb_watchdog_expired - a wait of this rank ran out: report it and return the code with which the job ends. */
int bb_watchdog_expired(struct bb_watchdog *watchdog, const char *what) BB_MUST_CHECK;

/*
 * bb_watchdog_fail - this rank ends with exit code `code`, or with the one with which the job is ending already, and
 * its results are safe. Ranks but 0 wait for rank 0 to come here as well, half a second at most, since mpirun kills all
 * soon after the first is gone. True when all are known to end by themselves, so that nobody need be aborted.
 */
bool bb_watchdog_fail(struct bb_watchdog *watchdog, int code);

/* bb_watchdog_all_ended - rank 0, after bb_watchdog_fail: whether all others have ended within a moment. */
bool bb_watchdog_all_ended(struct bb_watchdog *watchdog);

/* bb_watchdog_spoken - this rank fails with exit code `code`, and has said why, before the others can hear of it: they
 * need not speak. */
void bb_watchdog_spoken(struct bb_watchdog *watchdog, int code);

/* bb_watchdog_told - the run ends in order and a line has said why its exit status is not 0: mpirun ends the slower ranks
 * by a signal as soon as the first has left, which is no news. */
void bb_watchdog_told(struct bb_watchdog *watchdog);

/* bb_watchdog_leave - this rank is done; returns when all are, or when the timeout is over. */
void bb_watchdog_leave(struct bb_watchdog *watchdog);

/* bb_watchdog_depart - MPI has ended on this rank; returns when it has on all, rank 0 last, or when the job is ending: a
 * rank that is stuck there is missed by those that are not. */
void bb_watchdog_depart(struct bb_watchdog *watchdog);

/* bb_watchdog_reason - the signal that ends the job ("SIGTERM", else "") and where it met this rank. */
#define BB_WATCHDOG_REASON 256
const char *bb_watchdog_reason(struct bb_watchdog *watchdog, char phase[BB_WATCHDOG_REASON]);

/* bb_watchdog_stop - end the thread and free. NULL is fine. */
void bb_watchdog_stop(struct bb_watchdog *watchdog);

enum bb_watchdog_when { BB_WATCHDOG_AT_ONCE, BB_WATCHDOG_STUCK };
int bb_watchdog_hook(struct bb_watchdog *watchdog, enum bb_watchdog_when when, bb_at_end *fn, void *arg) BB_MUST_CHECK;
void bb_watchdog_forget(struct bb_watchdog *watchdog, bb_at_end *fn, void *arg);

#endif
