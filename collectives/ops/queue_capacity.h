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
 * 2.30, enqueue.cc: ncclLaunchPrepare and ncclLaunchFinish).
 */
enum { BB_QUEUE_ENTRIES = 512, BB_NCCL_ENTRIES = 3 };

/*
 * The work FIFO of an NCCL communicator has 1 MiB (init.cc: NCCL_WORK_FIFO_BYTES). A kernel frees the bytes that it
 * used in the FIFO when it ends, in units of one eighth of the FIFO (enqueue.cc), so only 7/8 are certain to be free. A
 * work element has 48 bytes per peer (device.h: ncclDevWorkP2p) or 128 bytes per collective (ncclDevWorkColl). The
 * capacity ignores that NCCL passes small work elements in the kernel arguments instead of the FIFO.
 */
enum { BB_FIFO_BYTES = 7 << 17, BB_FIFO_PEER_BYTES = 48, BB_FIFO_COLLECTIVE_BYTES = 128 };

#endif
