/*
 * rank.h - the rank's side of the connection to its supervisor (rank_page.h). A rank that was started without a
 * supervisor (--no-supervisor, for debuggers) has no connection.
 */
#ifndef BB_BOOTSTRAP_RANK_RANK_H
#define BB_BOOTSTRAP_RANK_RANK_H

#include "bootstrap/rank/endpoint.h"
#include "bootstrap/rank/rank_page.h"

struct bb_supervised {
    struct bb_rank_page *page; /* NULL: no supervisor */
    struct bb_rank_receiver socket;
    int results_fd; /* socket to the process that writes the results; -1: none */
};

/* bb_supervised_begin - called by main() of busbar-rank: report that the program is loaded, and restore stderr, which
 * the supervisor reads until then. */
void bb_supervised_begin(void);

/* bb_supervised_end - called by main() of busbar-rank: report that the rank ends in order with this exit code. */
void bb_supervised_end(int code);

/* bb_supervised_exit - report that this rank has printed its error, and end the process with this exit code. Works at
 * any time, also before bb_supervised_open. */
void bb_supervised_exit(int code);

/* bb_supervised_open - connect to the supervisor. Returns whether there is one. timeout_s: time limit of every wait. */
bool bb_supervised_open(struct bb_supervised *r, double timeout_s);
void bb_supervised_close(struct bb_supervised *r);

/*
 * Signs of life; each restarts the timeout. They do nothing if the rank has no supervisor.
 * bb_supervised_moved - only restart the timeout; costs one addition.
 * bb_supervised_reached - the rank starts `step`, a section of the run that messages name.
 * bb_supervised_waiting - the rank waits for `what`; NULL: the wait is over.
 */
void bb_supervised_moved(struct bb_supervised *r);
void bb_supervised_reached(struct bb_supervised *r, const char *step);
void bb_supervised_waiting(struct bb_supervised *r, const char *what);

/* bb_supervised_ending - return 0, or the negative code with which the job is already ending. Returns 0 without a
 * supervisor. */
int bb_supervised_ending(const struct bb_supervised *r);

/* bb_supervised_expired - report that the wait `what` timed out, and wait for the decision. Returns the negative code
 * with which the job ends. */
int bb_supervised_expired(struct bb_supervised *r, const char *what) BB_MUST_CHECK;

/* bb_supervised_fail - report that this rank has printed its error and ends with this exit code; ends the process. */
_Noreturn void bb_supervised_fail(struct bb_supervised *r, int code);

/* bb_supervised_world - send the ranks of the job to the supervisor. hosts: [size], node_of: [size]. */
int bb_supervised_world(struct bb_supervised *r, int rank, int size, int nodes, const int *node_of, const void *hosts,
                        size_t hosts_bytes) BB_MUST_CHECK;

/* bb_supervised_join - send the addresses of the servers, [BB_STAR_SERVERS], to the supervisor. */
int bb_supervised_join(struct bb_supervised *r, const struct bb_star_endpoint *endpoints) BB_MUST_CHECK;

/* bb_supervised_answer - receive the supervisor's answer to the last message without blocking. endpoint: out; NULL: the
 * answer has none. Returns 1, 0 if the answer has not arrived, or a negative error. */
int bb_supervised_answer(struct bb_supervised *r, struct bb_star_endpoint *endpoint);

#endif
