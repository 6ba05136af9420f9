/*
 * p2p_measure.h - point-to-point latency and bandwidth of a pair of ranks, timed with CUDA events on both ranks:
 * one-way messages, ping-pong, and both directions at once. Pairs that share no rank are measured concurrently.
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
    BB_P2P_LATENCY_ONE,    /* ping-pong; time is half a round trip */
    BB_P2P_LATENCY_BOTH,   /* both ranks send and receive in one NCCL group; time of the group */
    BB_P2P_BANDWIDTH_ONE,  /* one-way messages back to back; time per message */
    BB_P2P_BANDWIDTH_BOTH, /* as LATENCY_BOTH; the bytes of both directions count */
    BB_P2P_KINDS
};

struct bb_p2p_metric {
    const char *metric, *direction; /* "latency" or "bandwidth"; "one" or "both" */
    const char *title, *unit;
    bool is_bandwidth;
    bool is_directed; /* a to b and b to a are measured separately */
    int messages;     /* consecutive messages in one operation; the time per message is the operation's time divided by
                     this number */
    int bytes_factor; /* messages whose bytes count for the bandwidth of one operation */
};
extern const struct bb_p2p_metric bb_p2p_metrics[BB_P2P_KINDS];

/* One measurement of a pair. The lower rank sends first; the higher rank when `reversed`. */
struct bb_p2p_run {
    enum bb_p2p_kind kind;
    size_t bytes;
    bool reversed;
};

/* The measurement state of one rank. */
struct bb_p2p_context {
    struct bb_world *world;
    struct bb_comm *comm; /* communicator of all ranks */
    const struct bb_device_info *device;
    const struct bb_allocator *memory;   /* allocator of the buffers */
    const struct bb_telemetry *observer; /* NULL: no telemetry */
    struct bb_nvtx nvtx;
    cudaStream_t stream;
    cudaEvent_t start, stop;
    struct bb_guarded send, recv, last; /* last: receives only the last timed message, which is verified */
    struct bb_verdict *verdict;         /* device memory */
    int iterations, repeats, warmup;
    bool check;
    uint64_t runs;                   /* measurements so far; seeds different data for each measurement */
    double *samples;                 /* [repeats] samples of this rank, us per message */
    double *gathered;                /* [size][repeats] samples of all ranks */
    struct bb_p2p_finding *findings; /* [size] findings of all ranks */
};

/* Verification result and telemetry of one rank in one measurement. */
struct bb_p2p_finding {
    unsigned long long wrong;
    bool checked;
    struct bb_telemetry_row seen; /* telemetry of this rank only */
};

/*
 * bb_p2p_context_init - allocate stream, events, and buffers for messages of up to `bytes`.
 *   ctx      the fields world, comm, device, memory, observer, iterations, repeats, warmup and check are set by the
 *            caller
 *   Returns  0, or a negative error after printing one line
 *   Owner    the caller calls bb_p2p_context_release, also after a failed init
 */
int bb_p2p_context_init(struct bb_p2p_context *ctx, size_t bytes) BB_MUST_CHECK;
void bb_p2p_context_release(struct bb_p2p_context *ctx);

/* bb_p2p_context_bytes - device memory that bb_p2p_context_init allocates from that allocator. */
size_t bb_p2p_context_bytes(size_t bytes, const struct bb_allocator *from);

/*
 * bb_p2p_measure - measure one round. Collective over all ranks.
 *   partner  rank to measure with; -1: this rank pauses in this round
 *   Afterwards ctx->gathered and ctx->findings hold the results of all ranks, on every rank.
 *   Returns  0, or a negative error after printing one line
 */
int bb_p2p_measure(struct bb_p2p_context *ctx, const struct bb_p2p_run *run, int partner) BB_MUST_CHECK;

/* bb_p2p_pair_samples - samples of a pair: samples[repeats], each the larger time of the two ranks. */
void bb_p2p_pair_samples(const struct bb_p2p_context *ctx, int a, int b, double *samples);

#endif
