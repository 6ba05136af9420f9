/*
 * alltoallv.h - an all-to-all with variable counts (MPI_Alltoallv) as one operation. Each rank of a communicator sends
 * a number of rows to every other rank and receives the rows that the others send to it. Rows that a rank keeps are not
 * sent.
 *
 * The counts are in a table that the step owns. All ranks, micro-batches, and forward and backward passes of a layer
 * share one table; the combine uses the table of the dispatch in reverse. A step of n ranks thus holds 1 operation in
 * place of 2 (n - 1) messages. Buffers hold the rows in rank order, including the rank's own rows.
 *
 * bb_step_expand replaces the operation by its messages for consumers that execute, draw or export single messages. The
 * checks, the prediction and the traffic count read the table directly.
 */
#ifndef BB_PROXIES_STEP_ALLTOALLV_H
#define BB_PROXIES_STEP_ALLTOALLV_H

#include "proxies/step/program.h"

struct bb_alltoallv {
    int n;     /* ranks */
    int *rows; /* [n][n] rows from, to */
};

/* bb_alltoallv_elements - return the elements from one rank to another, independent of the rank that executes the
 * operation; from == to gives the rows that are kept. */
static inline size_t bb_alltoallv_elements(const struct bb_op *op, int from, int to)
{
    const size_t row = (size_t)(op->reversed ? to : from), column = (size_t)(op->reversed ? from : to);

    return (size_t)op->table->rows[row * (size_t)op->table->n + column] * op->count;
}

/* Elements that rank op->peer sends to another rank, or receives from it; 0 for the rank itself. */
static inline size_t bb_alltoallv_sends(const struct bb_op *op, int to)
{
    return to == op->peer ? 0 : bb_alltoallv_elements(op, op->peer, to);
}

static inline size_t bb_alltoallv_receives(const struct bb_op *op, int from)
{
    return from == op->peer ? 0 : bb_alltoallv_elements(op, from, op->peer);
}

/* Elements sent to all other ranks, or received from them. */
size_t bb_alltoallv_sent(const struct bb_op *op);
size_t bb_alltoallv_received(const struct bb_op *op);

/* bb_alltoallv_exchanges_with - return whether op->peer sends to or receives from that rank. bb_alltoallv_peers
 * returns the number of such ranks. */
static inline bool bb_alltoallv_exchanges_with(const struct bb_op *op, int place)
{
    return bb_alltoallv_sends(op, place) > 0 || bb_alltoallv_receives(op, place) > 0;
}
int bb_alltoallv_peers(const struct bb_op *op);

/*
 * bb_alltoallv_messages - list the sends and receives of an alltoallv in issue order.
 *   messages [2 n] out: each with call BB_NONE
 *   Returns  their number
 */
int bb_alltoallv_messages(const struct bb_op *op, struct bb_op *messages);

/*
 * bb_program_expand - copy a program with each alltoallv replaced by its messages, as one group call.
 *   out      out: the copy; the caller releases it
 *   Returns  0, -BB_EFAIL, or -BB_EUSAGE, after an error line, when the program would be full
 */
int bb_program_expand(const struct bb_program *p, struct bb_program *out) BB_MUST_CHECK;

#endif
