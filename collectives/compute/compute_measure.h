/*
 * compute_measure.h - times kernels on all ranks at the same time. Each rank measures its own GPU; the results are the
 * times of the slowest rank.
 */
#ifndef BB_COLLECTIVES_COMPUTE_COMPUTE_MEASURE_H
#define BB_COLLECTIVES_COMPUTE_COMPUTE_MEASURE_H

#include "bootstrap/base/stats.h"
#include "bootstrap/world/world.h"
#include "collectives/compute/compute_cases.h"
#include "cuda/compute/busy.h"
#include "cuda/compute/gemm.h"
#include "cuda/compute/start_barrier.h"
#include "cuda/device/device.h"
#include "cuda/device/nvtx.h"

#include <cuda_runtime_api.h>

/* A rank is slow in a result if it takes more than slow_factor x the typical time: the median of the ranks; if the
 * times have a gap wider than this, the median of the ranks below the gap. */
struct bb_slow_rank {
    int results;  /* number of results in which the rank was slow */
    double worst; /* largest slowdown in these results */
    double sum;   /* of its time / the typical time in all `judged` results of the present row */
    int judged;
    int before;   /* value of results before the present row */
    bool is_slow; /* slow in at least half of the results of a row: of a section and element type */
    double mean;  /* largest mean slowdown of a row; 0: none */
    char row[32]; /* this row: "gemm bfloat16" */
};

/* The measurement state of one rank. */
struct bb_compute_context {
    struct bb_world *world;
    const struct bb_device_info *device;
    struct bb_nvtx nvtx;
    char name[BB_COMPUTE_NAME + 24]; /* of the kernel, for profilers; set by the caller */
    cudaStream_t stream;
    cudaEvent_t start, stop;
    struct bb_start_barrier start_barrier;
    bool holds; /* a start barrier holds the kernels of a sample until all are enqueued */
    struct bb_gemm_lib lib;
    char *arena; /* device memory for the operands; the GEMMs and kernels to be measured use it one after another */
    size_t arena_bytes;
    struct bb_busy_report *report; /* pinned host memory, filled by the timed kernel */
    int iterations, repeats, warmup, candidates;
    double *samples;             /* [repeats] times of one operation, in us */
    struct bb_stats *rank_stats; /* [size] statistics of the times of each rank */
    double *sorted;              /* [size] scratch: their medians in ascending order */
    double slow_factor;          /* set by the caller */
    bool find_slow;              /* whether measurements count slow ranks */
    struct bb_slow_rank *slow;   /* [size] how often each rank was slow; equal on all ranks */
};

/*
 * bb_compute_context_init - create stream, events and cuBLASLt handle, and allocate the arena.
 *   iterations  operations (GEMMs or kernels) per sample
 *   repeats     samples per GEMM or kernel
 *   warmup      untimed operations before the first sample
 *   Returns     0, or a negative error code after printing an error
 *   Owner       the caller calls bb_compute_context_release, also after an error
 */
int bb_compute_context_init(struct bb_compute_context *ctx, struct bb_world *world, const struct bb_device_info *device,
                            size_t arena_bytes, int iterations, int repeats, int warmup) BB_MUST_CHECK;
void bb_compute_context_release(struct bb_compute_context *ctx);

/* bb_memory_kernel_case_bytes - return the bytes of ctx->arena that a memory-bound kernel requires. A GEMM requires
 * bb_gemm_layout_of(shape).bytes. */
size_t bb_memory_kernel_case_bytes(const struct bb_memory_kernel *p);

struct bb_computed {
    struct bb_stats time_us; /* time per operation; operations run back to back on one stream */
    int rank;                /* the rank with the longest median; time_us contains the times of this rank */
    double slowdown;         /* its median / the typical time; 1 with one rank */
    char slow_ranks[24];     /* slow ranks: "2,6"; a longer list ends with ".."; "": none */
};

/*
 * bb_measure_gemm, bb_measure_memory_kernel - time a GEMM or a memory-bound kernel. Collective over all ranks.
 * bb_measure_gemm uses, on all ranks, the algorithm that was fastest on rank 0 of the first ctx->candidates of
 * cuBLASLt.
 *   c        out: times of the slowest rank, equal on all ranks
 *   Returns  0, or a negative error code after printing an error
 */
int bb_measure_gemm(struct bb_compute_context *ctx, const struct bb_gemm_shape *s, struct bb_computed *c) BB_MUST_CHECK;
int bb_measure_memory_kernel(struct bb_compute_context *ctx, const struct bb_memory_kernel *p,
                             struct bb_computed *c) BB_MUST_CHECK;
/* bb_measure_memcpy - measure cudaMemcpyAsync of bytes/2 from device to device, which reads and writes `bytes` in
 * total. Collective over all ranks. Returns 0 or a negative error code after printing an error. */
int bb_measure_memcpy(struct bb_compute_context *ctx, size_t bytes, struct bb_computed *c) BB_MUST_CHECK;

struct bb_timed {
    struct bb_computed stream; /* time in us from one launch to the next between CUDA events, with launches back to
                                  back on one stream */
    struct bb_computed clock;  /* duration in us on the GPU clock, from the start of the first thread block to the end
                                 of the last one */
    double gbps; /* memory traffic (read plus written) of the final launch on the slowest rank, 1e9 bytes/s */
};

/* bb_measure_busy - measure the timed kernel, which runs for `ns` nanoseconds on `sms` SMs with a memory traffic of
 * `gbps`. The other fields of `busy` are ignored. */
int bb_measure_busy(struct bb_compute_context *ctx, const struct bb_busy *busy, struct bb_timed *t) BB_MUST_CHECK;

#endif
