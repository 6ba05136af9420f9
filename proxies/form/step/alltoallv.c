/* alltoallv.c - computes the element counts of an alltoallv, and lists its sends and receives (see alltoallv.h). */
#include "proxies/form/step/alltoallv.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>

/* ---- element counts and peers of one rank ---- */

size_t bb_alltoallv_sent(const struct bb_op *op)
{
    size_t sum = 0;

    for (int place = 0; place < op->table->n; place++)
        sum += bb_alltoallv_sends(op, place);
    return sum;
}

size_t bb_alltoallv_received(const struct bb_op *op)
{
    size_t sum = 0;

    for (int place = 0; place < op->table->n; place++)
        sum += bb_alltoallv_receives(op, place);
    return sum;
}

int bb_alltoallv_peers(const struct bb_op *op)
{
    int n = 0;

    for (int place = 0; place < op->table->n; place++)
        n += bb_alltoallv_exchanges_with(op, place);
    return n;
}

/* ---- list of sends and receives ---- */

int bb_alltoallv_messages(const struct bb_op *op, struct bb_op *messages)
{
    size_t offset[2] = {0, 0}; /* [send or receive] offset in op->src or op->dst of the elements for this rank */
    int n = 0;

    for (int i = 0; i < 2 * op->table->n; i++) {
        const int place = i / 2, receives = i % 2;
        const size_t count =
            receives ? bb_alltoallv_elements(op, place, op->peer) : bb_alltoallv_elements(op, op->peer, place);
        struct bb_op *message = &messages[n];

        if (count && place != op->peer) {
            *message = *op;
            message->kind = receives ? BB_OP_RECV : BB_OP_SEND;
            message->table = NULL;
            message->reversed = false;
            message->peer = place;
            message->peer_kind = BB_PEER_ABSOLUTE;
            message->count = count;
            *(receives ? &message->src : &message->dst) = BB_NONE;
            message->src_offset = receives ? 0 : offset[0];
            message->dst_offset = receives ? offset[1] : 0;
            n++;
        }
        offset[receives] += count;
    }
    return n;
}

/* ---- copy of a program with all alltoallvs expanded ---- */

struct expansion {
    const struct bb_program *from;
    struct bb_program *to;
    int *last; /* [from->n_ops] for each operation of `from`: index in `to` of its copy, or of the last message that
                  replaces it; BB_NONE: an alltoallv without messages */
    int call;  /* number of the current NCCL group call in `to` */
    struct bb_op *messages; /* scratch memory for the copy of one operation: the messages of an alltoallv */
    int *waits;             /* indices, in `to`, of the operations for which the operation that is being added waits */
    int n_waits;
};

/* Make the operation that is being added to `to` wait for the replacement of operation `op` of `from`. An alltoallv
 * without messages has no replacement: wait for the dependencies of `op` and for the previous operation on its
 * stream instead. */
static void wait_for(struct expansion *e, int op)
{
    const struct bb_op *o;

    if (op < 0)
        return;
    o = &e->from->ops[op];
    if (e->last[op] != BB_NONE) {
        BB_GROW(e->waits, e->n_waits);
        e->waits[e->n_waits++] = e->last[op];
        return;
    }
    for (int w = 0; w < o->waits; w++)
        wait_for(e, e->from->wait_list[o->first_wait + w]);
    wait_for(e, e->from->previous_op[op]);
}

/* Copy operation i of `from` to `to`, an alltoallv as its messages in one NCCL group call. Operations of one group call
 * stay adjacent. Their new call number is the index in `to` of the first operation of the group call. */
static void expand_op(struct expansion *e, int i)
{
    const struct bb_op *op = &e->from->ops[i];
    int n = 1;

    e->messages[0] = *op;
    if (op->kind == BB_OP_ALLTOALLV)
        n = bb_alltoallv_messages(op, e->messages);
    if (op->kind == BB_OP_ALLTOALLV || (op->call != BB_NONE && (i == 0 || op[-1].call != op->call)))
        e->call = (int)e->to->n_ops;
    for (int m = 0; m < n; m++) {
        e->messages[m].call = op->kind == BB_OP_ALLTOALLV || op->call != BB_NONE ? e->call : BB_NONE;
        e->last[i] = bb_program_add(e->to, &e->messages[m], e->waits, e->n_waits);
    }
}

void bb_program_expand(const struct bb_program *p, struct bb_program *out)
{
    struct expansion e = {.from = p, .to = out};
    int most = 1; /* maximum number of messages of one operation */

    BB_NEW(e.last, p->n_ops);
    for (size_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == BB_OP_ALLTOALLV && 2 * p->ops[i].table->n > most)
            most = 2 * p->ops[i].table->n;
    BB_NEW(e.messages, most);
    bb_program_init_like(out, p);
    for (int i = 0; i < (int)p->n_ops && !out->rc; i++) {
        e.last[i] = BB_NONE;
        e.n_waits = 0;
        for (int w = 0; w < p->ops[i].waits; w++)
            wait_for(&e, p->wait_list[p->ops[i].first_wait + w]);
        expand_op(&e, i);
    }
    free(e.last);
    free(e.messages);
    free(e.waits);
}
