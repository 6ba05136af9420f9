/* gate_room.c - see gate_room.h. */
#include "collectives/measure/gate_room.h"

/*
 * The launch queue of a stream: CUDA documents no depth; about 1000 entries are what people meet, and half of that is
 * used. An NCCL operation is three of them, a kernel, the record of an event and a wait (NCCL 2.30, enqueue.cc:
 * ncclLaunchPrepare and ncclLaunchFinish), and -I adds the record of a mark.
 */
enum { QUEUE_ENTRIES = 512, OPERATION_ENTRIES = 4 };

/*
 * NCCL's work FIFO of a communicator: 1 MiB (init.cc: NCCL_WORK_FIFO_BYTES), which kernels give back as they end, an
 * eighth of it at a time (enqueue.cc). Work is 48 bytes for a peer (device.h: ncclDevWorkP2p), 128 for a collective
 * (ncclDevWorkColl). Little work travels in the kernel's arguments instead; that is left out.
 */
enum { FIFO_BYTES = 7 << 17, PEER_BYTES = 48, COLLECTIVE_BYTES = 128 };

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

    return aggregate * (messages ? (size_t)ranks * PEER_BYTES : COLLECTIVE_BYTES);
}

size_t bb_gate_room(enum bb_coll_kind kind, int ranks, size_t aggregate)
{
    size_t queue = QUEUE_ENTRIES / (OPERATION_ENTRIES * launches_of(kind, ranks, aggregate));
    size_t fifo = FIFO_BYTES / work_bytes(kind, ranks, aggregate);

    return queue < fifo ? queue : fifo;
}
