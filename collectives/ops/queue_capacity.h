/*
 * queue_capacity.h - how much may be enqueued behind a closed gate: the queues that keep the host inside a call when they
 * are full, for then the gate would open by its limit only.
 */
#ifndef BB_COLLECTIVES_OPS_QUEUE_CAPACITY_H
#define BB_COLLECTIVES_OPS_QUEUE_CAPACITY_H

/*
 * The launch queue of a stream: CUDA documents no depth; about 1000 entries are what people meet, and half of that is
 * used. A kernel, the record of an event and a wait are one each, an NCCL operation is three (NCCL 2.30, enqueue.cc:
 * ncclLaunchPrepare and ncclLaunchFinish).
 */
enum { BB_QUEUE_ENTRIES = 512, BB_NCCL_ENTRIES = 3 };

/*
 * NCCL's work FIFO of a communicator: 1 MiB (init.cc: NCCL_WORK_FIFO_BYTES), which kernels give back as they end, an
 * eighth of it at a time (enqueue.cc). Work is 48 bytes for a peer (device.h: ncclDevWorkP2p), 128 for a collective
 * (ncclDevWorkColl). Little work travels in the kernel's arguments instead; that is left out.
 */
enum { BB_FIFO_BYTES = 7 << 17, BB_FIFO_PEER_BYTES = 48, BB_FIFO_COLLECTIVE_BYTES = 128 };

#endif
