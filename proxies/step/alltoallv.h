/*
 * alltoallv.h - an uneven exchange as one operation: every place of a communicator sends a number of rows of its own to
 * every other place, and receives as many as those send. What stays on a rank is not sent.
 *
 * The numbers stand in a table that the step owns: one for each layer, shared by all places, micro-batches and passes,
 * and by both ways, since what is combined goes back as it was dispatched. So a step of n places holds one operation
 * where it would hold 2 (n - 1) messages. Rows lie in the buffers in the order of their places, the own ones among them.
 *
 * What the operation means is its messages: bb_step_expand writes them in its place for all that issues, draws or
 * exports single messages; the checks, the prediction and the traffic read the table.
 */
#ifndef BB_PROXIES_STEP_ALLTOALLV_H
#define BB_PROXIES_STEP_ALLTOALLV_H

#include "proxies/step/program.h"

struct bb_alltoallv {
    int n;     /* places      */
    int *rows; /* [n][n] from, to */
};

/* bb_alltoallv_elements - from one place to another, whoever has the operation; also of what stays. */
static inline size_t bb_alltoallv_elements(const struct bb_op *op, int from, int to)
{
    const size_t row = (size_t)(op->reversed ? to : from), column = (size_t)(op->reversed ? from : to);

    return (size_t)op->table->rows[row * (size_t)op->table->n + column] * op->count;
}

/* Elements that the place op->peer sends to another one, and gets from it; 0 of itself. */
static inline size_t bb_alltoallv_sends(const struct bb_op *op, int to)
{
    return to == op->peer ? 0 : bb_alltoallv_elements(op, op->peer, to);
}

static inline size_t bb_alltoallv_receives(const struct bb_op *op, int from)
{
    return from == op->peer ? 0 : bb_alltoallv_elements(op, from, op->peer);
}

/* To and from all others. */
size_t bb_alltoallv_sent(const struct bb_op *op);
size_t bb_alltoallv_received(const struct bb_op *op);

/* bb_alltoallv_exchanges_with - whether it sends to that place or receives from it; bb_alltoallv_peers - how many it does with. */
static inline bool bb_alltoallv_exchanges_with(const struct bb_op *op, int place)
{
    return bb_alltoallv_sends(op, place) > 0 || bb_alltoallv_receives(op, place) > 0;
}
int bb_alltoallv_peers(const struct bb_op *op);

/* bb_alltoallv_messages - its sends and receives, in the order in which they are issued, into messages[2 n], alone (call
 * BB_NONE). Returns how many there are. */
int bb_alltoallv_messages(const struct bb_op *op, struct bb_op *messages);

/* bb_program_expand - *out = p with the messages of each alltoallv, as one group call, in its place; an own program, to
 * be released. -BB_EUSAGE, said, if it would be full. */
int bb_program_expand(const struct bb_program *p, struct bb_program *out) BB_MUST_CHECK;

#endif
