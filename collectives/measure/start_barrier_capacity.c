/* start_barrier_capacity.c - see start_barrier_capacity.h. */
#include "collectives/measure/start_barrier_capacity.h"

#include "collectives/ops/queue_capacity.h"

#include <stdlib.h>

/* entries of the stream's launch queue per operation: BB_NCCL_ENTRIES for the NCCL call, and one for the CUDA event
 * that option -I records after the operation */
enum { OPERATION_ENTRIES = BB_NCCL_ENTRIES + 1 };

static size_t launches_of(enum bb_coll_kind kind, int ranks, size_t aggregate)
{
    size_t rounds = 0;

    if (!(bb_colls[kind].flags & BB_COLL_ROUNDS))
        return 1;
    for (int n = 1; n < ranks; n *= 2)
        rounds++;
    return aggregate * (rounds + 1);
}

static size_t work_bytes(enum bb_coll_kind kind, int ranks, size_t aggregate)
{
    bool messages = !(bb_colls[kind].flags & BB_COLL_ESTIMATED);

    return aggregate * (messages ? (size_t)ranks * BB_FIFO_PEER_BYTES : BB_FIFO_COLLECTIVE_BYTES);
}

size_t bb_fifo_capacity(void)
{
    const char *text = getenv("NCCL_WORK_FIFO_BYTES");
    char *end = NULL;
    long long bytes = text ? strtoll(text, &end, 0) : BB_FIFO_BYTES;

    if (end == text || bytes < 0 || (bytes & (bytes - 1)) != 0) /* NCCL ignores such a value */
        bytes = BB_FIFO_BYTES;
    return (size_t)(bytes < 1 << 30 ? bytes : 1 << 30) / 8 * 7;
}

/* Entries of a collective by copy engines: without multicast two synchronizations of n - 1 copies, a write and a batch
 * of waits each, and n copies (NCCL 2.30, ce_coll.cc), together 3n + 2, and the event of -I. */
static size_t entries_of(int ranks, bool copy_engines)
{
    return copy_engines ? 4 * (size_t)ranks + 8 : OPERATION_ENTRIES;
}

size_t bb_start_barrier_capacity(enum bb_coll_kind kind, int ranks, size_t aggregate, size_t fifo_bytes,
                                 bool copy_engines)
{
    size_t queue = BB_QUEUE_ENTRIES / (entries_of(ranks, copy_engines) * launches_of(kind, ranks, aggregate));
    size_t fifo = fifo_bytes / work_bytes(kind, ranks, aggregate);

    return queue < fifo ? queue : fifo;
}
