/*
 * queue_capacity.h - capacity of a stream's launch queue and of NCCL's work FIFO. If the queue or the FIFO is full, the
 * next call blocks the host. While a start barrier (a kernel that holds the stream) is closed, the call blocks until
 * the barrier reaches its time limit.
 */
#ifndef BB_COLLECTIVES_OPS_QUEUE_CAPACITY_H
#define BB_COLLECTIVES_OPS_QUEUE_CAPACITY_H

/*
 * Capacity of a stream's launch queue. CUDA documents none. About 1000 entries are commonly observed; busbar uses half
 * of that number. A kernel, an event record and an event wait take one entry each. An NCCL operation takes three (NCCL
 * 2.30, enqueue.cc: ncclLaunchPrepare and ncclLaunchFinish), and two more with NCCL_LAUNCH_ORDER_IMPLICIT=1, which runs of
 * steps with several communicators set.
 */
enum { BB_QUEUE_ENTRIES = 512, BB_NCCL_ENTRIES = 3, BB_LAUNCH_ORDER_ENTRIES = 2 };

/*
 * Size of the work FIFO of an NCCL communicator, unless NCCL_WORK_FIFO_BYTES is set (init.cc). A work element has 48
 * bytes per peer (device.h: ncclDevWorkP2p) or 128 bytes per collective (ncclDevWorkColl). The capacity ignores that
 * NCCL passes small work elements in the kernel arguments instead of the FIFO.
 */
enum { BB_FIFO_BYTES = 1 << 20, BB_FIFO_PEER_BYTES = 48, BB_FIFO_COLLECTIVE_BYTES = 128 };

#endif
