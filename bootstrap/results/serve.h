/*
 * serve.h - the process that writes the results of a supervised run. The supervisor of rank 0 starts this process. Rank
 * 0 sends the head, rows and fields; each request is answered when the results are in the file. The supervisor sends
 * the final status. Therefore no row is lost when rank 0 dies, and a hanging disk does not block the supervisor.
 *
 * A message has the format of rank_page.h: the header contains the request (writer.h), and the payload is JSON text.
 * Each request is answered by ANSWER, whose code is 0 or a negative error. The request FINISH contains the final status
 * of the run as its code (0 or a negative error) and the members of struct bb_results_end as a JSON object.
 */
#ifndef BB_BOOTSTRAP_RESULTS_SERVE_H
#define BB_BOOTSTRAP_RESULTS_SERVE_H

#include "bootstrap/rank/rank_page.h"
#include "bootstrap/results/writer.h"

/*
 * bb_results_serve - main loop of this process: execute the requests of the rank until the supervisor sends FINISH or
 * has ended, then write the final results. Requests of the rank that arrived before FINISH are executed before it. If
 * the supervisor has ended without FINISH, the final status is "interrupted".
 *   rank_fd     socket to the rank; the rank may close it at any time
 *   control_fd  socket to the supervisor
 *   opening     value of OPEN (bb_results_opening) for a run that fails before its rank sends OPEN; NULL: none. Not used
 *               after a usage error, which leaves an older file unchanged
 *   Returns     0, or a negative error after an error message if the final results could not be written
 * The caller owns both descriptors and sets the handling of signals.
 */
int bb_results_serve(int rank_fd, int control_fd, json_t *opening, bb_results_at_end *at_end) BB_MUST_CHECK;

/*
 * Functions for the supervisor. None of them blocks: the few messages that the supervisor sends fit into the buffer of the
 * socket.
 * bb_results_pass_rank - pass the socket to the process that takes the place of the rank (SCM_RIGHTS). Returns 0 or errno.
 * bb_results_finish_send - send FINISH.
 *   rc       final status of the run: 0 or a negative error code
 *   Returns  0 or errno
 * bb_results_finish_poll - receive the answer to FINISH, or the report of an error that occurred before FINISH.
 *   path     in and out: NULL or the path of the JSON file, once the writer process has sent the path; owned by the
 *            caller
 *   code     out: 0, or a negative error if the results could not be written
 *   Returns  1; 0 if nothing has arrived yet; -1 if the writer process has ended
 */
int bb_results_pass_rank(int control_fd, int rank_fd) BB_MUST_CHECK;
int bb_results_finish_send(int control_fd, int rc, const struct bb_results_end *end) BB_MUST_CHECK;
int bb_results_finish_poll(struct bb_rank_receiver *control, char **path, int *code) BB_MUST_CHECK;

#endif
