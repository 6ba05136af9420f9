/* compute_measure.c - see compute_measure.h. */
#include "collectives/compute/compute_measure.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "collectives/ops/queue_capacity.h"
#include "cuda/compute/layer_memory_kernels.h"
#include "cuda/device/check.h"
#include "cuda/device/stream.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t ALIGN = 256;

/* Kernels and memory operations that a GEMM launches at most (split along k: clearing, product, sum), and the GEMMs
 * that the launch queue holds while the start barrier is closed. */
enum { GEMM_ENTRIES = 4, HELD_LAUNCHES = BB_QUEUE_ENTRIES / GEMM_ENTRIES };

static const int64_t START_BARRIER_LIMIT_NS = 1000000000;

/* ---- init and release ---- */

int bb_compute_context_init(struct bb_compute_context *ctx, struct bb_world *world, const struct bb_device_info *device,
                            size_t arena_bytes, int iterations, int repeats, int warmup)
{
    int rc;

    *ctx = (struct bb_compute_context){.world = world,
                                       .device = device,
                                       .arena_bytes = arena_bytes,
                                       .iterations = iterations,
                                       .repeats = repeats,
                                       .warmup = warmup,
                                       .candidates = 1};
    bb_nvtx_init(&ctx->nvtx);
    BB_NEW(ctx->samples, repeats);
    BB_NEW(ctx->rank_stats, world->size);
    BB_NEW(ctx->sorted, world->size);
    BB_NEW(ctx->slow, world->size);
    TRY(BB_CUDA(cudaStreamCreateWithFlags(&ctx->stream, cudaStreamNonBlocking)));
    TRY(BB_CUDA(cudaEventCreate(&ctx->start)));
    TRY(BB_CUDA(cudaEventCreate(&ctx->stop)));
    TRY(bb_gemm_lib_init(&ctx->lib, BB_GEMM_WORKSPACE));
    TRY(bb_start_barrier_init(&ctx->start_barrier, START_BARRIER_LIMIT_NS));
    TRY(BB_CUDA(cudaMallocHost((void **)&ctx->report, sizeof *ctx->report)));
    TRY(BB_CUDA(cudaMalloc((void **)&ctx->arena, arena_bytes)));
out:
    return rc;
}

void bb_compute_context_release(struct bb_compute_context *ctx)
{
    if (ctx->arena)
        (void)cudaFree(ctx->arena);
    if (ctx->report)
        (void)cudaFreeHost(ctx->report);
    bb_start_barrier_release(&ctx->start_barrier);
    bb_gemm_lib_release(&ctx->lib);
    bb_event_destroy(ctx->stop);
    bb_event_destroy(ctx->start);
    bb_stream_destroy(ctx->stream);
    bb_nvtx_release(&ctx->nvtx);
    free(ctx->slow);
    free(ctx->sorted);
    free(ctx->rank_stats);
    free(ctx->samples);
    *ctx = (struct bb_compute_context){0};
}

/* ---- operand data (random, because GEMMs on zeros run faster than on real data) ---- */

/* Size in bytes of the random data that the host generates. The rest of an array is filled with copies of these
 * data. */
enum { BLOCK_BYTES = 1 << 20 };

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static void make_block(void *block, size_t n, const struct bb_memory_kernel *p, enum bb_memory_kernel_content content)
{
    uint64_t seed = 1;

    for (size_t i = 0; i < n; i++) {
        double x = (double)next_random(&seed) * 0x1p-31;
        if (content == BB_HOLDS_INDICES)
            ((int32_t *)block)[i] = (int32_t)(x * (double)p->in_rows);
        else
            bb_element_set(block, content == BB_HOLDS_ELEMENTS ? p->dtype : BB_FLOAT, i,
                           content == BB_HOLDS_SQUARES ? x : 2 * x - 1);
    }
}

/* Fills array `a` (an operand of kernel `p`), at device address `to`, with copies of
 * one block of random data. */
static int fill_array(struct bb_compute_context *ctx, void *to, const struct bb_memory_kernel *p,
                      const struct bb_memory_kernel_array *a)
{
    size_t each = a->bytes / a->count, n = a->bytes < BLOCK_BYTES ? a->count : BLOCK_BYTES / each;
    char *block;
    int rc;

    BB_NEW(block, BLOCK_BYTES);
    make_block(block, n, p, a->content);
    TRY(bb_fill_repeated(to, a->bytes, block, n * each, ctx->stream));
    TRY(bb_stream_wait(ctx->world, ctx->stream, "initialization of a case's data", NULL, NULL));
out:
    free(block);
    return rc;
}

/* ---- timing any kernel ---- */

typedef int launcher(void *arg, cudaStream_t stream);

static int launch_many(struct bb_compute_context *ctx, launcher *launch, void *arg, int n)
{
    int rc = 0;

    for (int i = 0; i < n && rc == 0; i++)
        rc = launch(arg, ctx->stream);
    return rc;
}

/* Times n launches, which a start barrier holds until all are enqueued: kernels that are shorter than their launch would
 * otherwise be timed by the host. */
static int time_held(struct bb_compute_context *ctx, launcher *launch, void *arg, int n, double *us)
{
    int rc;

    if (ctx->holds)
        TRY(bb_start_barrier_close(&ctx->start_barrier, ctx->stream));
    TRY(BB_CUDA(cudaEventRecord(ctx->start, ctx->stream)));
    TRY(launch_many(ctx, launch, arg, n));
    TRY(BB_CUDA(cudaEventRecord(ctx->stop, ctx->stream)));
    bb_start_barrier_open(&ctx->start_barrier);
    TRY(bb_event_wait(ctx->world, ctx->stop, "timed operations", NULL, NULL));
    TRY(bb_event_us(ctx->start, ctx->stop, us));
out:
    return rc;
}

static int take_sample(struct bb_compute_context *ctx, launcher *launch, void *arg, double *us)
{
    const int most = ctx->holds ? HELD_LAUNCHES : ctx->iterations;
    double part;
    int rc = 0;

    *us = 0;
    for (int left = ctx->iterations; left > 0; left -= most) {
        TRY(time_held(ctx, launch, arg, left < most ? left : most, &part));
        *us += part / ctx->iterations;
    }
out:
    return rc;
}

/* Appends a rank to a list of slow ranks; a list that is full ends with "..". */
static void append_rank(struct bb_computed *c, int rank)
{
    size_t used = strlen(c->slow_ranks);

    if (used + 14 < sizeof c->slow_ranks)
        snprintf(c->slow_ranks + used, sizeof c->slow_ranks - used, "%s%d", used > 0 ? "," : "", rank);
    else if (c->slow_ranks[used - 1] != '.')
        strcpy(c->slow_ranks + used, "..");
}

/* Computes the slowdown of the slowest rank c->rank, and lists and counts the slow ranks. */
static void find_slow_ranks(struct bb_compute_context *ctx, struct bb_computed *c)
{
    const size_t size = (size_t)ctx->world->size;
    double typical;

    for (size_t r = 0; r < size; r++)
        ctx->sorted[r] = ctx->rank_stats[r].p50;
    bb_sort_doubles(ctx->sorted, size);
    typical = bb_stats_typical(ctx->sorted, size, ctx->slow_factor);
    c->slowdown = typical > 0 ? c->time_us.p50 / typical : 1;
    c->slow_ranks[0] = '\0';
    for (int r = 0; r < ctx->world->size && ctx->find_slow; r++) {
        const double slowdown = typical > 0 ? ctx->rank_stats[r].p50 / typical : 1;

        ctx->slow[r].sum += slowdown;
        ctx->slow[r].judged++;
        if (slowdown <= ctx->slow_factor)
            continue;
        append_rank(c, r);
        ctx->slow[r].results++;
        ctx->slow[r].worst = fmax(ctx->slow[r].worst, slowdown);
    }
}

/* Sets *c to the statistics of the rank with the longest median time. The result is equal on all ranks. */
static int select_slowest_rank(struct bb_compute_context *ctx, struct bb_computed *c)
{
    struct bb_stats own;
    int rc;

    bb_stats_compute(ctx->samples, (size_t)ctx->repeats, &own);
    TRY(bb_world_allgather(ctx->world, &own, ctx->rank_stats, sizeof own));
    c->rank = 0;
    for (int r = 1; r < ctx->world->size; r++)
        if (ctx->rank_stats[r].p50 > ctx->rank_stats[c->rank].p50)
            c->rank = r;
    c->time_us = ctx->rank_stats[c->rank];
out:
    return rc;
}

static int take_samples(struct bb_compute_context *ctx, launcher *launch, void *arg)
{
    int rc;

    TRY(bb_part_begin(&ctx->nvtx, BB_PART_WARM_UP));
    TRY(launch_many(ctx, launch, arg, ctx->warmup));
    TRY(bb_part_end(&ctx->nvtx, BB_PART_WARM_UP));
    TRY(bb_part_begin(&ctx->nvtx, BB_PART_SAMPLES));
    for (int i = 0; i < ctx->repeats; i++)
        TRY(take_sample(ctx, launch, arg, &ctx->samples[i]));
    TRY(bb_part_end(&ctx->nvtx, BB_PART_SAMPLES));
out:
    return rc;
}

static int measure_kernel(struct bb_compute_context *ctx, launcher *launch, void *arg, struct bb_computed *c)
{
    int rc;

    bb_range_push_once(&ctx->nvtx, 0, 0, "%s", ctx->name);
    rc = take_samples(ctx, launch, arg);
    bb_range_pop(&ctx->nvtx);
    TRY(rc);
    TRY(select_slowest_rank(ctx, c));
    find_slow_ranks(ctx, c);
out:
    return rc;
}

/* ---- measuring GEMMs ---- */

struct gemm_call {
    struct bb_gemm gemm;
    char *a, *b, *c;
};

static int launch_gemm(void *arg, cudaStream_t stream)
{
    struct gemm_call *p = arg;

    return bb_gemm_run(&p->gemm, p->a, p->b, p->c, stream);
}

int bb_measure_gemm(struct bb_compute_context *ctx, const struct bb_gemm_shape *s, struct bb_computed *c)
{
    const struct bb_gemm_layout l = bb_gemm_layout_of(s);
    const struct bb_memory_kernel_array a_and_b = {
        .count = l.c / bb_dtypes[s->dtype].bytes, .bytes = l.c, .content = BB_HOLDS_ELEMENTS};
    struct gemm_call p = {.a = ctx->arena, .b = ctx->arena + l.b, .c = ctx->arena + l.c};
    int rc;

    TRY(fill_array(ctx, p.a, &(struct bb_memory_kernel){.dtype = s->dtype}, &a_and_b));
    TRY(bb_gemm_init(&p.gemm, &ctx->lib, s));
    if (ctx->candidates > 1)
        TRY(bb_gemm_tune(&p.gemm, ctx->candidates, 3, p.a, p.b, p.c, ctx->stream, NULL));
    TRY(bb_gemms_agree(ctx->world, &p.gemm, 1));
    TRY(measure_kernel(ctx, launch_gemm, &p, c));
out:
    bb_gemm_release(&p.gemm);
    return rc;
}

/* ---- measuring memory-bound kernels and copies ---- */

size_t bb_memory_kernel_case_bytes(const struct bb_memory_kernel *p)
{
    struct bb_memory_kernel_array arrays[BB_MEMORY_KERNEL_ARRAYS];
    int n = bb_memory_kernel_arrays(p, arrays);
    size_t bytes = 0;

    for (int i = 0; i < n; i++)
        bytes += bb_round_up(arrays[i].bytes, ALIGN);
    return bytes;
}

static int launch_memory_kernel(void *arg, cudaStream_t stream)
{
    return bb_memory_kernel_run(arg, stream);
}

int bb_measure_memory_kernel(struct bb_compute_context *ctx, const struct bb_memory_kernel *memory_kernel,
                             struct bb_computed *c)
{
    struct bb_memory_kernel_array arrays[BB_MEMORY_KERNEL_ARRAYS];
    int n = bb_memory_kernel_arrays(memory_kernel, arrays), rc = 0;
    struct bb_memory_kernel p = *memory_kernel;
    char *at = ctx->arena;

    for (int i = 0; i < n; i++) {
        bb_memory_kernel_set(&p, &arrays[i], at);
        TRY(fill_array(ctx, at, &p, &arrays[i]));
        at += bb_round_up(arrays[i].bytes, ALIGN);
    }
    TRY(measure_kernel(ctx, launch_memory_kernel, &p, c));
out:
    return rc;
}

struct copy {
    char *to, *from;
    size_t bytes;
};

static int launch_copy(void *arg, cudaStream_t stream)
{
    const struct copy *c = arg;

    return BB_CUDA(cudaMemcpyAsync(c->to, c->from, c->bytes, cudaMemcpyDeviceToDevice, stream));
}

int bb_measure_memcpy(struct bb_compute_context *ctx, size_t bytes, struct bb_computed *c)
{
    struct copy copy = {ctx->arena + bb_round_up(bytes / 2, ALIGN), ctx->arena, bytes / 2};

    return measure_kernel(ctx, launch_copy, &copy, c);
}

/* ---- measuring the timed kernel ---- */

static int launch_busy(void *arg, cudaStream_t stream)
{
    return bb_busy_run(arg, stream);
}

/* Measures the duration of one launch of the timed kernel, as the difference of the start and end times that the
 * kernel itself records on the GPU clock. */
static int sample_clock(struct bb_compute_context *ctx, struct bb_busy *busy, double *us, double *gbps)
{
    double ns;
    int rc;

    busy->report = ctx->report;
    TRY(bb_busy_report_clear(ctx->report, ctx->stream));
    TRY(bb_busy_run(busy, ctx->stream));
    TRY(bb_stream_wait(ctx->world, ctx->stream, "the timed kernel", NULL, NULL));
    ns = (double)(ctx->report->end_ns - ctx->report->start_ns);
    *us = ns / 1e3;
    *gbps = ns > 0 ? (double)ctx->report->bytes / ns : 0;
out:
    busy->report = NULL;
    return rc;
}

int bb_measure_busy(struct bb_compute_context *ctx, const struct bb_busy *asked, struct bb_timed *t)
{
    const bool holds = ctx->holds;
    struct bb_busy busy = *asked;
    int rc;

    ctx->holds = false; /* the time of the shortest kernels is that of a launch, which busbar calibrate needs */
    busy.scratch = ctx->arena;
    busy.scratch_bytes = ctx->arena_bytes;
    busy.report = NULL;
    TRY(measure_kernel(ctx, launch_busy, &busy, &t->stream));
    for (int i = 0; i < ctx->repeats; i++)
        TRY(sample_clock(ctx, &busy, &ctx->samples[i], &t->gbps));
    TRY(select_slowest_rank(ctx, &t->clock));
    TRY(bb_world_bcast(ctx->world, &t->gbps, sizeof t->gbps, t->clock.rank));
out:
    ctx->holds = holds;
    return rc;
}
