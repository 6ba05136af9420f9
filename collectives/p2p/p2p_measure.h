/*
 * p2p_measure.h - measures point-to-point latency and bandwidth of pairs of ranks: ping-pong, one-way messages, and
 * messages in both directions at once, timed with CUDA events on both ranks. Several pairs are measured concurrently if
 * no rank belongs to two of them.
 */
#ifndef BB_COLLECTIVES_P2P_P2P_MEASURE_H
#define BB_COLLECTIVES_P2P_P2P_MEASURE_H

#include "collectives/p2p/p2p_options.h"
#include "collectives/session/session.h"
#include "cuda/compute/start_barrier.h"
#include "cuda/data/buffers.h"
#include "cuda/device/nvtx.h"

#include <stdint.h>

enum bb_p2p_kind {
    BB_P2P_LATENCY_ONE,   /* ping-pong; the time is half a round trip */
    BB_P2P_LATENCY_BOTH,  /* both ranks send and receive one message in one NCCL group; the time is that of the group */
    BB_P2P_BANDWIDTH_ONE, /* one-way messages back to back; the time is per message */
    BB_P2P_BANDWIDTH_BOTH, /* both ranks send and receive in one NCCL group; the bandwidth is the sum of both
                              directions */
    BB_P2P_KINDS
};

struct bb_p2p_metric {
    const char *metric, *direction; /* "latency" or "bandwidth"; "one" or "both" */
    const char *title, *unit;
    bool is_bandwidth;
    bool is_directed; /* the directions from a to b and from b to a are measured separately */
    int messages;     /* number of messages per operation that are sent one after another: 2 for ping-pong, otherwise 1.
                     Time per message = time of the operation / messages */
    int bytes_factor; /* messages per operation that count for the bandwidth; 2 if both directions are measured at
                         once */
};
extern const struct bb_p2p_metric bb_p2p_metrics[BB_P2P_KINDS];

/* One measurement of a pair of ranks. The lower rank sends the first message; if `reversed`, the higher rank sends
 * it. */
struct bb_p2p_run {
    enum bb_p2p_kind kind;
    size_t bytes;
    bool reversed;
};

/* The measurement state of one rank. */
struct bb_p2p_context {
    struct bb_session *session;
    const struct bb_bench_p2p_options *options;
    struct bb_comm *comm; /* communicator of all ranks */
    struct bb_nvtx nvtx;
    cudaStream_t stream;
    cudaEvent_t start, stop;
    struct bb_start_barrier start_barrier; /* not used if ranks share a GPU */
    struct bb_guarded send, recv, last;    /* send: data to send; recv: received data, except for the last timed
                                           message, which is received into `last` and verified */
    struct bb_verdict *verdict;            /* result of comparing received with expected data; in device memory */
    uint64_t runs;    /* number of measurements so far; seeds the test data, so that each measurement uses different
                      data */
    double *samples;  /* [repeats] times of this rank, us per message */
    double *gathered; /* [size][repeats] times of all ranks, us per message, gathered after each measurement */
    struct bb_p2p_finding *findings; /* [size] verification result and telemetry of each rank */
};

/* Verification result and telemetry of one rank for one measurement. */
struct bb_p2p_finding {
    unsigned long long wrong;
    bool checked;
    struct bb_telemetry_row seen; /* telemetry of the rank that this struct describes: algorithm, protocol and
                                     channels chosen by NCCL, and GPU state */
};

/*
 * bb_p2p_context_init - allocate stream, events, and buffers for messages of up to `bytes`.
 *   s, options, comm  borrowed until bb_p2p_context_release; comm is the communicator of all ranks
 *   Returns           0, or a negative error code after printing an error
 *   Owner             the caller calls bb_p2p_context_release, also after an error
 */
int bb_p2p_context_init(struct bb_p2p_context *ctx, struct bb_session *s, const struct bb_bench_p2p_options *options,
                        struct bb_comm *comm, size_t bytes) BB_MUST_CHECK;
void bb_p2p_context_release(struct bb_p2p_context *ctx);

/* bb_p2p_context_bytes - return the device memory that bb_p2p_context_init allocates from the allocator `from`. */
size_t bb_p2p_context_bytes(size_t bytes, const struct bb_allocator *from);

/*
 * bb_p2p_measure - make one measurement with all pairs of a round (pair_schedule.h). Collective over all ranks.
 *   partner  the rank that this rank is paired with; -1: this rank is idle in this round
 *   ctx      out: gathered and findings contain the results of all ranks, on every rank
 *   Returns  0, or a negative error code after printing an error
 */
int bb_p2p_measure(struct bb_p2p_context *ctx, const struct bb_p2p_run *run, int partner) BB_MUST_CHECK;

/* bb_p2p_pair_samples - get the samples of the pair (a, b). samples: [repeats] out, in us per message; a sample is
 * the larger of the times that the two ranks measured. */
void bb_p2p_pair_samples(const struct bb_p2p_context *ctx, int a, int b, double *samples);

#endif
