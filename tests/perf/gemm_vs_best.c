/*
 * gemm_vs_best.c - compares the GEMMs of `--compute gemm` with the best cuBLASLt algorithm for each shape:
 *
 *   first   the first candidate of the heuristic, which max programs use
 *   ours    the fastest of the first 8 candidates, which busbar uses
 *   best    the fastest of the first 64 candidates
 *
 * Usage: gemm_vs_best [--quick]. Exit status 0: each GEMM reaches 95 % of the best; 5: a GEMM does not; 77: no real GPU
 * (emulated GPUs have one algorithm).
 */
#include "collectives/compute/compute_measure.h"
#include "cuda/data/buffers.h"
#include "cuda/device/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ITERATIONS = 10, REPEATS = 6, WARMUP = 3, OURS = 8 };
static const double MIN_RATIO = 0.95;
static const enum bb_dtype_id types[] = {BB_FLOAT, BB_HALF, BB_BFLOAT16};
enum { TYPES = sizeof types / sizeof *types };

struct totals {
    int gemms, below;
    double worst, log_sum;
};

/* Chooses GPU 0. Returns NULL, or the reason why nothing can be measured. */
static const char *reason_to_skip(struct bb_device_info *device)
{
    int count = 0;

    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
        return "no GPU found";
    if (bb_device_use(0, device) != 0)
        return "the GPU cannot be used";
    return device->emulated ? "emulated GPUs have only one algorithm" : NULL;
}

static int tflops_of(struct bb_compute_context *ctx, const struct bb_gemm_shape *s, int candidates, double *tflops)
{
    struct bb_computed c;
    int rc;

    ctx->candidates = candidates;
    rc = bb_measure_gemm(ctx, s, &c);
    *tflops = rc == 0 ? bb_gemm_flops(s) / c.time_us.p50 / 1e6 : NAN;
    return rc;
}

static int compare(struct bb_compute_context *ctx, const struct bb_gemm_case *g, struct totals *t)
{
    double first, ours, best, ratio;
    int rc;

    TRY(tflops_of(ctx, &g->shape, 1, &first));
    TRY(tflops_of(ctx, &g->shape, OURS, &ours));
    TRY(tflops_of(ctx, &g->shape, BB_GEMM_CANDIDATES, &best));
    ratio = ours / fmax(best, fmax(first, ours));
    printf("%20s %8s %7lld %6lld %6lld %5lld %9.2f %9.2f %9.2f %7.3f%s\n", g->name, bb_dtypes[g->shape.dtype].name,
           (long long)g->shape.m, (long long)g->shape.n, (long long)g->shape.k, (long long)g->shape.batch, first, ours,
           best, ratio, ratio < MIN_RATIO ? "  below" : "");
    t->gemms++;
    t->below += ratio < MIN_RATIO;
    t->worst = fmin(t->worst, ratio);
    t->log_sum += log(ratio);
out:
    return rc;
}

static size_t arena_bytes(bool quick)
{
    struct bb_gemm_case cases[BB_COMPUTE_GEMMS];
    size_t max = 0;

    for (int t = 0; t < TYPES; t++)
        for (int i = 0, n = bb_compute_gemms(types[t], quick, cases); i < n; i++)
            max = bb_gemm_layout_of(&cases[i].shape).bytes > max ? bb_gemm_layout_of(&cases[i].shape).bytes : max;
    return max;
}

static int compare_all(struct bb_compute_context *ctx, bool quick, struct totals *totals)
{
    struct bb_gemm_case cases[BB_COMPUTE_GEMMS];
    int rc = 0;

    printf("%20s %8s %7s %6s %6s %5s %9s %9s %9s %7s\n", "name", "type", "m", "n", "k", "batch", "first", "ours",
           "best", "ratio");
    printf("%20s %8s %7s %6s %6s %5s %9s %9s %9s\n", "", "", "", "", "", "", "(TFLOP/s)", "(TFLOP/s)", "(TFLOP/s)");
    for (int t = 0; t < TYPES; t++)
        for (int i = 0, n = bb_compute_gemms(types[t], quick, cases); i < n; i++)
            TRY(compare(ctx, &cases[i], totals));
out:
    return rc;
}

int main(int argc, char **argv)
{
    const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    struct totals totals = {.worst = INFINITY};
    struct bb_compute_context ctx = {0};
    struct bb_device_info device;
    struct bb_world world = {0};
    const char *skip = reason_to_skip(&device);
    int rc;

    if (skip) {
        printf("gemm_vs_best: SKIPPED: %s\n", skip);
        return 77;
    }
    printf("# %s, %d SMs; median of %d samples of %d GEMMs\n", device.name, device.sm_count, REPEATS, ITERATIONS);
    TRY(bb_world_alone(&world, 300));
    TRY(bb_compute_context_init(&ctx, &world, &device, arena_bytes(quick), ITERATIONS, REPEATS, WARMUP));
    TRY(compare_all(&ctx, quick, &totals));
    printf("# %d GEMMs, %d below %.0f %% of the best; worst %.3f, geometric mean %.3f\n", totals.gemms, totals.below,
           100 * MIN_RATIO, totals.worst, exp(totals.log_sum / totals.gemms));
    rc = totals.below ? -BB_EBELOW : 0;
out:
    bb_compute_context_release(&ctx);
    rc = bb_world_release(&world, rc);
    return bb_exit_code(rc);
}
