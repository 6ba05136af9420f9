/*
 * copy_measure.h - measures copies between each GPU and its host, and between the GPUs of a node. All functions are collective
 * over all ranks. The nodes measure at the same time.
 */
#ifndef BB_COLLECTIVES_COPY_COPY_MEASURE_H
#define BB_COLLECTIVES_COPY_COPY_MEASURE_H

#include "bootstrap/base/stats.h"
#include "collectives/session/session.h"

#include <cuda_runtime_api.h>

enum bb_copy_id {
    BB_COPY_TO_GPU,
    BB_COPY_FROM_GPU,
    BB_COPY_BOTH,
    BB_COPY_PAGEABLE_TO_GPU,
    BB_COPY_PAGEABLE_FROM_GPU,
    BB_COPY_KERNEL_TO_GPU,
    BB_COPY_KERNEL_FROM_GPU,
    BB_COPY_ALL_TO_GPU,
    BB_COPY_ALL_FROM_GPU,
    BB_COPY_PEER_WRITE,
    BB_COPY_PEER_READ,
    BB_COPY_PEER_KERNEL_WRITE,
    BB_COPY_PEER_KERNEL_READ,
    BB_COPY_PEER_BOTH,
    BB_COPIES
};

/* [enum bb_copy_id] what a copy is. */
extern const struct bb_copy_case {
    const char *name;
    const char *link, *direction, *engine,
        *memory;     /* in the JSON: host, peer; to_gpu, from_gpu, both, write, read; copy
                                                       (engine), kernel; pinned, pageable, device */
    bool into, out;  /* data move into this rank's GPU (memory), out of it, or both at once */
    bool concurrent; /* all GPUs of a node at once; peers: both GPUs of a pair */
    bool unjudged;   /* slow GPUs are not looked for: the rate depends on the CPU, or on the other GPUs */
} bb_copy_cases[BB_COPIES];

/* bb_copy_has_peer - return whether a copy is between two GPUs. */
bool bb_copy_has_peer(const struct bb_copy_case *k);

/* State of one rank. An all-zero struct may be released. */
struct bb_copies {
    struct bb_session *session;
    size_t bytes;
    int iterations, repeats, warmup;
    int gpus;     /* number of ranks of the largest node */
    int wrong;    /* out: the first rank with wrong data, after -BB_EDATA */
    int *index;   /* [size] of each rank on its node */
    int *rank_at; /* [nodes][gpus] the rank with this index; -1: none */
    cudaStream_t stream, second;
    cudaEvent_t start, stop, joined;
    char *exported; /* device memory that the other GPUs of the node write and read */
    char *device, *pinned;
    char *pageable; /* NULL before its first use */
    char **peer;    /* [world.local_size] `exported` of the other GPUs of the node; NULL: this GPU cannot access it */
    double *samples;
    struct bb_verdict *verdict; /* device memory */
    uint64_t measured;          /* number of measurements of this rank */
};

/* bb_copies_bytes - return the bytes of device memory that bb_copies_init allocates. */
size_t bb_copies_bytes(size_t bytes);

/*
 * bb_copies_init - allocate buffers, and map the memory of the other GPUs of the node.
 *   bytes, iterations, repeats, warmup  of each copy, copies per sample, samples, untimed copies
 *   Returns  0, or a negative error code after printing an error
 *   Owner    the caller calls bb_copies_release, also after an error
 */
int bb_copies_init(struct bb_copies *c, struct bb_session *s, size_t bytes, int iterations, int repeats,
                   int warmup) BB_MUST_CHECK;
/* bb_copies_release - collective over all ranks; not to be called after an error of one rank. Returns 0 or a negative error
 * code. */
int bb_copies_release(struct bb_copies *c) BB_MUST_CHECK;

/*
 * bb_copies_measure - measure one kind of copy on all GPUs.
 *   gbps     out: [size][c->gpus] of each rank, with the GPU of that index on its node; copies with the host: at index 0. 1e9
 *            bytes/s, both directions together (peers: of the rank's own copies). NaN: not measured, or not possible
 *   time_us  out: likewise, the time of one copy, or of one in each direction; NULL: not needed
 *   Returns  0; -BB_EDATA on all ranks if a copy has wrong data, or another negative error code; all after printing an error
 * The data are not verified on emulated GPUs that move none (EMU_DATA=off).
 */
int bb_copies_measure(struct bb_copies *c, enum bb_copy_id id, double *gbps, struct bb_stats *time_us) BB_MUST_CHECK;

#endif
