/*
 * serve.h - the process that writes the results of the ranks. The supervisor of rank 0 starts this process. Rank 0
 * sends the head, rows and fields, and each request is answered when the results are in the file. The supervisor sends
 * the final status. So neither the death of the rank nor a hanging disk affects the supervisor, and the death of the
 * rank loses no row.
 *
 * A message has the format of rank_page.h: the header contains the request (writer.h), the payload is JSON text. Each
 * request is answered by ANSWER with code 0 or a negative error; FINISH contains the members of struct bb_results_end as an object, and the
 * final status of the run as its code.
 */
#ifndef BB_BOOTSTRAP_RESULTS_SERVE_H
#define BB_BOOTSTRAP_RESULTS_SERVE_H

#include "bootstrap/rank/rank_page.h"
#include "bootstrap/results/writer.h"

/*
 * bb_results_serve - write the results that the rank sends until the supervisor sends FINISH or has ended. Requests of
 * the rank that have arrived by then are executed before. If the supervisor has ended, the status is "interrupted".
 *   rank_fd     socket to the rank; the rank may close it at any time
 *   control_fd  socket to the supervisor
 *   Returns     0, or a negative error after an error message if the final results could not be written
 * The caller owns both descriptors, and handles signals.
 */
int bb_results_serve(int rank_fd, int control_fd) BB_MUST_CHECK;

/*
 * Functions of the supervisor. Neither of them blocks: the buffer of the socket has space for FINISH, its only message.
 * bb_results_finish_send - send FINISH.
 *   rc       final status of the run: 0 or a negative error code
 *   Returns  0 or errno
 * bb_results_finish_poll - receive the answer to FINISH, or an error that ends the connection to the rank.
 *   path     in and out: path of the JSON file, once the writer has sent it; owned by the caller
 *   code     out: 0, or a negative error if the results of a run with status 0 could not be written
 *   Returns  1; 0 if the answer has not arrived yet; -1 if the writer process has ended
 */
int bb_results_finish_send(int control_fd, int rc, const struct bb_results_end *end) BB_MUST_CHECK;
int bb_results_finish_poll(struct bb_rank_receiver *control, char **path, int *code) BB_MUST_CHECK;

#endif
