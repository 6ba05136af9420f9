/* step_start_barrier.c - counts the launch queue entries and the NCCL work FIFO bytes of a step (see
 * step_start_barrier.h). */
#include "proxies/form/step/step_start_barrier.h"

#include "collectives/ops/queue_capacity.h"

/* Launch queue entries and streams that a run needs in addition to those of its program. ENDS_OF_A_STREAM: entries
 * per stream, one event wait at the start of the step and one event record at its end. EVERYONE_COMMS: number of
 * communicators over all ranks, with which all ranks start the step together. STREAMS_OF_A_COMM: number of internal
 * streams assumed for each NCCL communicator. */
enum { ENDS_OF_A_STREAM = 2, EVERYONE_COMMS = 1, STREAMS_OF_A_COMM = 2 };

static bool opens_launch(const struct bb_program *p, size_t i)
{
    const struct bb_op *op = &p->ops[i];

    for (size_t before = i; op->call != BB_NONE && before > 0 && p->ops[before - 1].call == op->call; before--)
        if (p->ops[before - 1].stream == op->stream)
            return false;
    return true;
}

long bb_step_queue_entries(const struct bb_program *p, const struct bb_layout *l, int queues)
{
    int streams = p->n_streams + 1 + STREAMS_OF_A_COMM * (l->n_comms + EVERYONE_COMMS);
    long most = p->n_streams; /* maximum number of launch queue entries of one stream. Initial value: the event waits
                                 of the stream that waits for all other streams at the end of the step */

    for (int s = 0; s < p->n_streams; s++) {
        long entries = ENDS_OF_A_STREAM;

        for (size_t i = 0; i < p->n_ops; i++)
            if (p->ops[i].stream == s) {
                const struct bb_op *op = &p->ops[i];

                /* + 1: the event record after the operation, for operations of other streams that may wait for it */
                entries += op->waits + 1;
                if (op->work)
                    entries += (long)op->work->n * op->work_times;
                else if (op->kind == BB_OP_COMPUTE)
                    entries += op->compute_us > 0;
                else if (opens_launch(p, i))
                    entries += BB_NCCL_ENTRIES + (l->n_comms > 1 ? BB_LAUNCH_ORDER_ENTRIES : 0);
            }
        most = entries > most ? entries : most;
    }
    return most * ((streams + queues - 1) / queues);
}

long bb_step_fifo_bytes(const struct bb_program *p, const struct bb_layout *l)
{
    long bytes[BB_MAX_COMMS] = {0}, most = 0;

    for (size_t i = 0; i < p->n_ops; i++) {
        const struct bb_op *op = &p->ops[i];

        if (op->kind == BB_OP_COLLECTIVE && bb_colls[op->coll].flags & BB_COLL_ESTIMATED)
            bytes[op->comm] += BB_FIFO_COLLECTIVE_BYTES;
        else if (op->kind == BB_OP_COLLECTIVE)
            bytes[op->comm] += (long)l->groups[l->comms[op->comm].group].size * BB_FIFO_PEER_BYTES;
        else if (bb_op_is_comm(op))
            bytes[op->comm] += BB_FIFO_PEER_BYTES;
    }
    for (int c = 0; c < l->n_comms; c++)
        most = bytes[c] > most ? bytes[c] : most;
    return most;
}

int bb_step_start_barrier_check(const struct bb_step *step, int queues, size_t fifo_bytes)
{
    static const char instead[] = "try: a smaller step, or --graph, which excludes launch overhead as well";

    for (int i = 0; i < step->n_roles; i++) {
        const struct bb_program *p = &step->roles[i].program;
        long entries = bb_step_queue_entries(p, &step->layout, queues), bytes = bb_step_fifo_bytes(p, &step->layout);

        if (entries > BB_QUEUE_ENTRIES)
            return bb_err(BB_EUSAGE,
                          "--start-barrier: the step needs %ld launch queue entries, at most %d are available; %s",
                          entries, BB_QUEUE_ENTRIES, instead);
        if ((size_t)bytes > fifo_bytes)
            return bb_err(BB_EUSAGE,
                          "--start-barrier: the step needs %ld bytes of NCCL's work FIFO, at most %zu fit; %s", bytes,
                          fifo_bytes, instead);
    }
    return 0;
}
