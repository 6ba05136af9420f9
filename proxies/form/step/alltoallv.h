/*
 * alltoallv.h - an all-to-all with variable counts (MPI_Alltoallv) as one operation. Each rank of a communicator sends
 * a number of rows to every other rank. A row is a fixed number of consecutive elements (bb_op.count), for example the
 * activations of one token. Rows that a rank addresses to itself are not sent.
 *
 * A table, owned by the step (step.h), contains the number of rows for each pair of ranks. All ranks, micro-batches,
 * and forward and backward passes of a layer share one table; the combine (return of tokens from the experts) uses the
 * table of the dispatch in reverse. With n ranks, a program thus needs 1 operation instead of 2 (n - 1) sends and
 * receives. Send and receive buffers store the rows in rank order, including the rank's own rows.
 *
 * bb_step_expand replaces each alltoallv operation by its sends and receives, for code that executes, draws or exports
 * individual messages. Validation, prediction and traffic counts read the table directly.
 */
#ifndef BB_PROXIES_FORM_STEP_ALLTOALLV_H
#define BB_PROXIES_FORM_STEP_ALLTOALLV_H

#include "proxies/form/step/program.h"

struct bb_alltoallv {
    int n;     /* number of ranks of the communicator */
    int *rows; /* [n][n] rows[source * n + destination]: number of rows that rank `source` sends to rank
                  `destination` */
};

/* bb_alltoallv_elements - return the number of elements that rank `from` of the communicator sends to rank `to`; if
 * from == to, the number of elements that the rank keeps. The result does not depend on op->peer. */
static inline size_t bb_alltoallv_elements(const struct bb_op *op, int from, int to)
{
    const size_t row = (size_t)(op->reversed ? to : from), column = (size_t)(op->reversed ? from : to);

    return (size_t)op->table->rows[row * (size_t)op->table->n + column] * op->count;
}

/* bb_alltoallv_sends - return the number of elements that rank op->peer sends to rank `to`. bb_alltoallv_receives -
 * return the number of elements that rank op->peer receives from rank `from`. Both return 0 if the argument is
 * op->peer itself. */
static inline size_t bb_alltoallv_sends(const struct bb_op *op, int to)
{
    return to == op->peer ? 0 : bb_alltoallv_elements(op, op->peer, to);
}

static inline size_t bb_alltoallv_receives(const struct bb_op *op, int from)
{
    return from == op->peer ? 0 : bb_alltoallv_elements(op, from, op->peer);
}

/* bb_alltoallv_sent, bb_alltoallv_received - return the number of elements that rank op->peer sends to, or receives
 * from, all other ranks together. */
size_t bb_alltoallv_sent(const struct bb_op *op);
size_t bb_alltoallv_received(const struct bb_op *op);

/*
 * bb_alltoallv_exchanges_with  - return whether rank op->peer sends to or receives from rank `place` of the
 *                              communicator.
 * bb_alltoallv_peers           - return the number of ranks with which rank op->peer exchanges messages.
 */
static inline bool bb_alltoallv_exchanges_with(const struct bb_op *op, int place)
{
    return bb_alltoallv_sends(op, place) > 0 || bb_alltoallv_receives(op, place) > 0;
}
int bb_alltoallv_peers(const struct bb_op *op);

/*
 * bb_alltoallv_messages - list the sends and receives of rank op->peer in the order in which the host issues them.
 *   messages [2 n] out: the operations, for a communicator of n ranks. The caller sets their NCCL group call number
 *            (bb_op.call)
 *   Returns  the number of operations in the list
 */
int bb_alltoallv_messages(const struct bb_op *op, struct bb_op *messages);

/*
 * bb_program_expand - copy a program and replace each alltoallv by its sends and receives in one NCCL group call.
 *   out      out: the copy; the caller releases it
 *            out->rc is set, after printing an error line, if the copy has more operations than a program can store
 */
void bb_program_expand(const struct bb_program *p, struct bb_program *out);

#endif
