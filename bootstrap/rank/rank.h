/*
 * rank.h - a rank's connection to its supervisor, which is its parent process (rank_page.h). Without a supervisor
 * (--no-supervisor, for debuggers) there is no connection.
 */
#ifndef BB_BOOTSTRAP_RANK_RANK_H
#define BB_BOOTSTRAP_RANK_RANK_H

#include "bootstrap/rank/endpoint.h"
#include "bootstrap/rank/rank_page.h"

struct bb_supervised {
    struct bb_rank_page *page; /* NULL: no supervisor */
    struct bb_rank_receiver socket;
    int results_fd; /* socket to the process that writes the results; -1: none */
    int journal;    /* memory file of the rank's records (journal.h); -1: none */
};

/* bb_supervised_begin - report to the supervisor that main() runs, so all libraries are loaded, and restore stderr:
 * while the libraries are loaded, stderr is a pipe to the supervisor. Called first by main() of busbar-rank. */
void bb_supervised_begin(void);

/* bb_supervised_end - report that the rank ends in order with this exit code. Called last by main() of busbar-rank. */
void bb_supervised_end(int code);

/* bb_supervised_exit - report that this rank has printed its error, and end the process with this exit code. May be
 * called at any time, also before bb_supervised_open. Ends the process also without a supervisor. */
void bb_supervised_exit(int code);

/* bb_supervised_open - open the connection to the supervisor. r: out; must be released with bb_supervised_close.
 * timeout_s: time limit of every wait in seconds. Returns whether there is a supervisor. */
bool bb_supervised_open(struct bb_supervised *r, double timeout_s);
void bb_supervised_close(struct bb_supervised *r);

/*
 * Signs of life of the rank. Each restarts the timeout that the supervisor checks. Without a supervisor, these
 * functions do nothing.
 * bb_supervised_moved - only restart the timeout; costs one addition.
 * bb_supervised_reached - the rank starts `step`, a section of the run that error messages name.
 * bb_supervised_waiting - the rank waits for `what`; NULL: the wait has ended. called: `what` is a blocking call.
 * bb_supervised_exchanges - the rank begins or has ended an exchange of all ranks.
 */
void bb_supervised_moved(struct bb_supervised *r);
void bb_supervised_exchanges(struct bb_supervised *r);
void bb_supervised_reached(struct bb_supervised *r, const char *step);
void bb_supervised_waiting(struct bb_supervised *r, const char *what, bool called);

/* bb_supervised_ending - return the negative code with which the job is already ending; 0: the job is not ending early,
 * or there is no supervisor. */
int bb_supervised_ending(const struct bb_supervised *r);

/* bb_supervised_expired - report that the wait `what` timed out, and wait until the supervisors end the job. Returns
 * the negative code with which the job ends. Requires a supervisor. */
int bb_supervised_expired(struct bb_supervised *r, const char *what) BB_MUST_CHECK;

/* bb_supervised_fail - report that this rank has printed its error, and end the process with this exit code. Requires a
 * supervisor. */
_Noreturn void bb_supervised_fail(struct bb_supervised *r, int code);

/* bb_supervised_world - send the ranks of the job to the supervisor, which answers with the addresses at which it
 * listens (bb_supervised_answer). node_of: [size] node of each rank; hosts: [size] host name of each rank as
 * char[BB_HOST_TEXT], hosts_bytes in total. Returns 0 or -BB_EFAIL. */
int bb_supervised_world(struct bb_supervised *r, int rank, int size, int nodes, const int *node_of, const void *hosts,
                        size_t hosts_bytes) BB_MUST_CHECK;

/* bb_supervised_join - send the addresses of the servers, [BB_STAR_SERVERS], to the supervisor, which answers when it
 * is connected to them or cannot reach them. Returns 0 or -BB_EFAIL. */
int bb_supervised_join(struct bb_supervised *r, const struct bb_star_endpoint *endpoints) BB_MUST_CHECK;

/* bb_supervised_gather - send the data of the ranks of this supervisor to all supervisors; the answer has the data of all
 * ranks in the order of the ranks. Returns 0 or -BB_EFAIL. */
int bb_supervised_gather(struct bb_supervised *r, const void *data, size_t bytes) BB_MUST_CHECK;

/* bb_supervised_answer - receive the supervisor's answer to one of these requests without blocking. content: out, of the
 * answer, `bytes` bytes; for bb_supervised_world: struct bb_star_endpoint. Returns 1, 0 if the answer has not arrived, or
 * a negative error. */
int bb_supervised_answer(struct bb_supervised *r, void *content, size_t bytes);

/* bb_supervised_restarts - select whether the run is restarted without the node if a node is lost; otherwise, and without
 * a supervisor, the run ends.
 * bb_supervised_world_left - return whether the run was restarted. rank, size: out, the first rank of this supervisor and
 * the number of ranks in the world that is left; unchanged if it was not. */
void bb_supervised_restarts(struct bb_supervised *r, bool restarts);
bool bb_supervised_world_left(const struct bb_supervised *r, int *rank, int *size);

#endif
