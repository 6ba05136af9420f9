/*
 * queue_capacity.h - how many operations fit the launch queue and NCCL's work FIFO. If one of them is full, the next
 * call blocks the host; while a start barrier is closed, this blocks until the barrier's timeout.
 */
#ifndef BB_COLLECTIVES_OPS_QUEUE_CAPACITY_H
#define BB_COLLECTIVES_OPS_QUEUE_CAPACITY_H

/*
 * The launch queue of a stream. CUDA documents no capacity; about 1000 entries are commonly observed, and half of this
 * is used. A kernel, an event record and an event wait take one entry each; an NCCL operation takes three (NCCL 2.30,
 * enqueue.cc: ncclLaunchPrepare and ncclLaunchFinish).
 */
enum { BB_QUEUE_ENTRIES = 512, BB_NCCL_ENTRIES = 3 };

/*
 * NCCL's work FIFO of a communicator has 1 MiB (init.cc: NCCL_WORK_FIFO_BYTES). Kernels release their part when they
 * end, in steps of one eighth of the FIFO (enqueue.cc), so only 7/8 can be relied on. A work element has 48 bytes per
 * peer (device.h: ncclDevWorkP2p) or 128 bytes per collective (ncclDevWorkColl). Small work travels in the kernel
 * arguments instead; this saving is ignored.
 */
enum { BB_FIFO_BYTES = 7 << 17, BB_FIFO_PEER_BYTES = 48, BB_FIFO_COLLECTIVE_BYTES = 128 };

#endif
