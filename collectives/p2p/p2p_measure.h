/*
 * p2p_measure.h - what runs between two ranks, timed on the streams of both: messages one way, ping-pong, and both
 * ways at once. Several pairs that share no rank measure at the same time.
 */
#ifndef BB_COLLECTIVES_P2P_P2P_MEASURE_H
#define BB_COLLECTIVES_P2P_P2P_MEASURE_H

#include "bootstrap/world/comms.h"
#include "collectives/session/telemetry.h"
#include "cuda/data/buffers.h"
#include "cuda/device/device.h"
#include "cuda/device/nvtx.h"

#include <stdint.h>

enum bb_p2p_kind {
    BB_P2P_LATENCY_ONE,    /* ping-pong: time is half a round trip                           */
    BB_P2P_LATENCY_BOTH,   /* both send and receive in one group: time is that of the group  */
    BB_P2P_BANDWIDTH_ONE,  /* messages one way, back to back: time per message               */
    BB_P2P_BANDWIDTH_BOTH, /* as LATENCY_BOTH, bytes of both directions count                */
    BB_P2P_KINDS
};

struct bb_p2p_metric {
    const char *metric, *direction; /* "latency" | "bandwidth", "one" | "both" */
    const char *title, *unit;
    bool is_bandwidth;
    bool is_directed; /* from a to b and from b to a are two measurements */
    int messages;     /* of one operation that share its time                */
    int bytes_factor; /* messages whose bytes count for bandwidth            */
};
extern const struct bb_p2p_metric bb_p2p_metrics[BB_P2P_KINDS];

/* One measurement of a pair; the lower rank begins (sends), the higher one with `reversed`. */
struct bb_p2p_run {
    enum bb_p2p_kind kind;
    size_t bytes;
    bool reversed;
};

/* What a rank measures with. */
struct bb_p2p_context {
    struct bb_world *world;
    struct bb_comm *comm; /* of the whole world */
    const struct bb_device_info *device;
    const struct bb_allocator *memory;   /* of the buffers */
    const struct bb_telemetry *observer; /* NULL: none */
    struct bb_nvtx nvtx;
    cudaStream_t stream;
    cudaEvent_t start, stop;
    struct bb_guarded send, recv, last; /* last: receives the very last timed message, which is verified */
    struct bb_verdict *verdict;         /* device memory */
    int iterations, repeats, warmup;
    bool check;
    uint64_t runs;                 /* runs so far: each has its own data */
    double *samples;                 /* [repeats] this rank's, microseconds per message */
    double *gathered;                /* [size][repeats] everybody's  */
    struct bb_p2p_finding *findings; /* [size] */
};

/* What one rank found in its last message. */
struct bb_p2p_finding {
    unsigned long long wrong;
    bool checked;
    struct bb_telemetry_row seen; /* of this rank alone */
};

/* Buffers for messages of up to `bytes`. Release works on a half-made one. */
int bb_p2p_context_init(struct bb_p2p_context *ctx, size_t bytes) BB_MUST_CHECK;
void bb_p2p_context_release(struct bb_p2p_context *ctx);

/* bb_p2p_context_bytes - device memory that init takes, from that allocator. */
size_t bb_p2p_context_bytes(size_t bytes, const struct bb_allocator *from);

/*
 * bb_p2p_measure - all ranks together, each with its partner (-1: none). Afterwards gathered and findings hold
 * everybody's metrics on every rank.
 */
int bb_p2p_measure(struct bb_p2p_context *ctx, const struct bb_p2p_run *run, int partner) BB_MUST_CHECK;

/* bb_p2p_pair_samples - samples[repeats] of the pair: the slower of the two. */
void bb_p2p_pair_samples(const struct bb_p2p_context *ctx, int a, int b, double *samples);

#endif
