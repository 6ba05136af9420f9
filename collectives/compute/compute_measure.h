/*
 * compute_measure.h - time what a GPU computes, on every rank at once: each rank measures its own GPU, the slowest
 * rank's figures count.
 */
#ifndef BB_COLLECTIVES_COMPUTE_COMPUTE_MEASURE_H
#define BB_COLLECTIVES_COMPUTE_COMPUTE_MEASURE_H

#include "bootstrap/base/stats.h"
#include "bootstrap/world/world.h"
#include "collectives/compute/compute_cases.h"
#include "cuda/compute/busy.h"
#include "cuda/compute/gemm.h"
#include "cuda/device/device.h"

#include <cuda_runtime_api.h>

/* What a rank measures with. */
struct bb_compute_context {
    struct bb_world *world;
    const struct bb_device_info *device;
    cudaStream_t stream;
    cudaEvent_t start, stop;
    struct bb_gemm_lib lib;
    char *arena; /* device memory that all cases share */
    size_t arena_bytes;
    struct bb_busy_report *report; /* pinned host memory, which the GPU writes */
    int iterations, repeats, warmup, candidates;
    double *samples;         /* [repeats] microseconds */
    struct bb_stats *rank_stats; /* [size] one per rank    */
};

int bb_compute_context_init(struct bb_compute_context *ctx, struct bb_world *world, const struct bb_device_info *device,
                            size_t arena_bytes, int iterations, int repeats, int warmup) BB_MUST_CHECK;
void bb_compute_context_release(struct bb_compute_context *ctx);

/* Arena bytes that a case needs. */
size_t bb_gemm_case_bytes(const struct bb_gemm_shape *s);
size_t bb_memory_kernel_case_bytes(const struct bb_memory_kernel *p);

struct bb_computed {
    struct bb_stats time_us; /* per operation, back to back on one stream */
    int rank;                /* whose: the slowest                        */
};

/* The best of ctx->candidates algorithms, then timed. */
int bb_measure_gemm(struct bb_compute_context *ctx, const struct bb_gemm_shape *s, struct bb_computed *c) BB_MUST_CHECK;
int bb_measure_memory_kernel(struct bb_compute_context *ctx, const struct bb_memory_kernel *p, struct bb_computed *c) BB_MUST_CHECK;
/* cudaMemcpyAsync from one half of `bytes` to the other. */
int bb_measure_memcpy(struct bb_compute_context *ctx, size_t bytes, struct bb_computed *c) BB_MUST_CHECK;

struct bb_timed {
    struct bb_computed stream; /* per launch, back to back                         */
    struct bb_computed clock;  /* first block in to last block out, the GPU's clock */
    double gbps;               /* moved meanwhile by the slowest rank's last launch */
};

/* busy: sms, ns and gbps are read. */
int bb_measure_busy(struct bb_compute_context *ctx, const struct bb_busy *busy, struct bb_timed *t) BB_MUST_CHECK;

#endif
