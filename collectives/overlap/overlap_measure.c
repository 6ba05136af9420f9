/*
 * overlap_measure.c - the samples of `busbar bench overlap`.
 *
 * A timed kernel (a kernel of given duration, cuda/compute/busy.h) runs until the host has enqueued all work. Then an
 * untimed collective synchronizes the ranks, so no time contains launch overhead or a late rank.
 * Each repeat takes the three samples (compute alone, communication alone, both) one after another, so clock drift
 * affects all of them equally.
 */
#include "collectives/overlap/overlap_measure.h"

#include "bootstrap/base/alloc.h"
#include "collectives/measure/timing.h"
#include "cuda/compute/busy.h"
#include "cuda/device/check.h"
#include "cuda/device/stream.h"
#include "cuda/work/memory_kernel.h"

#include <math.h>
#include <stdlib.h>

enum { BLOCK_BYTES = 1 << 20 };
/* Delay in us before the operation that synchronizes the ranks at the start of a sample: START_DELAY_US plus
 * START_DELAY_US_PER_CALL, an upper bound of the host's time to enqueue one call, for each call. */
enum { START_DELAY_US = 50, START_DELAY_US_PER_CALL = 10 };

/* ---- init and release ---- */

size_t bb_overlap_context_bytes(const struct bb_gemm_shape *gemm_shape, size_t slot_bytes,
                                const struct bb_allocator *from)
{
    return bb_guarded_bytes(bb_gemm_layout_of(gemm_shape).bytes) + bb_guarded_device_bytes(2 * slot_bytes, from) +
           BB_GEMM_WORKSPACE;
}

static int make_stream(struct bb_overlap_context *ctx, cudaStream_t *stream, int priority, const char *name)
{
    int rc;

    TRY(BB_CUDA(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, priority)));
    bb_nvtx_name_stream(&ctx->coll.nvtx, *stream, name);
out:
    return rc;
}

static int make_streams(struct bb_overlap_context *ctx)
{
    int least, greatest, rc;

    TRY(BB_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest)));
    TRY(make_stream(ctx, &ctx->compute, least, "compute"));
    TRY(make_stream(ctx, &ctx->coll.stream, greatest, "collectives"));
    for (int e = 0; e < BB_OVERLAP_EVENTS; e++)
        TRY(BB_CUDA(cudaEventCreate(&ctx->events[e])));
out:
    return rc;
}

/* Generates random numbers in [-1, 1), because GEMMs on zeros run faster than on real data. */
static void make_block(void *block, size_t n, enum bb_dtype_id dtype)
{
    for (size_t i = 0; i < n; i++)
        bb_element_set(block, dtype, i, (double)(int64_t)bb_mix(i) * 0x1p-63);
}

/* Fills the GEMM's matrices with copies of one random block. */
static int fill_matrices(struct bb_overlap_context *ctx, enum bb_dtype_id dtype)
{
    char *block;
    int rc;

    BB_NEW(block, BLOCK_BYTES);
    make_block(block, BLOCK_BYTES / bb_dtypes[dtype].bytes, dtype);
    TRY(bb_fill_repeated(ctx->matrices.area, ctx->matrices.bytes, block, BLOCK_BYTES, ctx->compute));
    TRY(bb_stream_wait(ctx->coll.world, ctx->compute, "data of the GEMM", NULL, NULL));
out:
    free(block);
    return rc;
}

/* Plans the GEMM as steps do: with the fastest algorithm, the same on all ranks. */
static int plan_gemm(struct bb_overlap_context *ctx, const struct bb_gemm_shape *shape)
{
    const struct bb_gemm_layout l = bb_gemm_layout_of(shape);
    unsigned char *area = ctx->matrices.area;
    int rc;

    TRY(bb_gemm_init(&ctx->gemm, &ctx->lib, shape));
    TRY(bb_gemm_tune(&ctx->gemm, BB_GEMM_TUNED, 2, area, area + l.b, area + l.c, ctx->compute, NULL));
    TRY(bb_gemms_agree(ctx->coll.world, &ctx->gemm, 1));
out:
    return rc;
}

int bb_overlap_context_init(struct bb_overlap_context *ctx, struct bb_session *s,
                            const struct bb_bench_overlap_options *options, size_t slot_bytes)
{
    int rc;

    *ctx = (struct bb_overlap_context){.options = options, .delay_start = !s->shared_gpu, .native = bb_native_find()};
    ctx->coll = (struct bb_bench_context){
        .world = &s->world, .native = &ctx->native, .device = &s->device, .observer = &s->observer};
    bb_nvtx_init(&ctx->coll.nvtx);
    BB_NEW(ctx->samples, BB_OVERLAP_TIMES * options->repeats);
    TRY(make_streams(ctx));
    TRY(BB_CUDA(cudaMalloc((void **)&ctx->coll.verdicts, 2 * sizeof *ctx->coll.verdicts)));
    TRY(BB_CUDA(cudaMalloc(&ctx->coll.sync_byte, 1)));
    TRY(bb_guarded_init(&ctx->matrices, bb_gemm_layout_of(&options->gemm_shape).bytes, &bb_cuda_allocator,
                        ctx->compute));
    TRY(bb_guarded_init(&ctx->slots, 2 * slot_bytes, s->memory, ctx->coll.stream));
    TRY(bb_stream_wait(&s->world, ctx->coll.stream, "initialization of the buffers", NULL, NULL));
    TRY(fill_matrices(ctx, options->gemm_shape.dtype));
    TRY(bb_gemm_lib_init(&ctx->lib, BB_GEMM_WORKSPACE));
    ctx->lib.sms = options->gemm_sms;
    TRY(plan_gemm(ctx, &options->gemm_shape));
out:
    return rc;
}

void bb_overlap_context_release(struct bb_overlap_context *ctx)
{
    bb_gemm_release(&ctx->gemm);
    bb_gemm_lib_release(&ctx->lib);
    bb_guarded_release(&ctx->slots);
    bb_guarded_release(&ctx->matrices);
    if (ctx->coll.verdicts)
        (void)cudaFree(ctx->coll.verdicts);
    if (ctx->coll.sync_byte)
        (void)cudaFree(ctx->coll.sync_byte);
    for (int e = 0; e < BB_OVERLAP_EVENTS; e++)
        bb_event_destroy(ctx->events[e]);
    bb_stream_destroy(ctx->coll.stream);
    bb_stream_destroy(ctx->compute);
    bb_nvtx_release(&ctx->coll.nvtx);
    free(ctx->samples);
    *ctx = (struct bb_overlap_context){0};
}

/* ---- enqueueing GEMMs and collectives ---- */

static int launch_gemms(struct bb_overlap_context *ctx, int n)
{
    const struct bb_gemm_layout l = bb_gemm_layout_of(&ctx->gemm.shape);
    unsigned char *area = ctx->matrices.area;
    int rc = 0;

    for (int i = 0; i < n && rc == 0; i++)
        rc = bb_gemm_run(&ctx->gemm, area, area + l.b, area + l.c, ctx->compute);
    return rc;
}

static int wait_all(struct bb_overlap_context *ctx)
{
    int rc;

    TRY(bb_bench_context_wait(&ctx->coll, "collectives concurrent with GEMMs"));
    TRY(bb_stream_wait(ctx->coll.world, ctx->compute, "GEMMs concurrent with collectives", NULL, NULL));
out:
    return rc;
}

/* Records the CUDA event BB_EVENT_BEGIN, from which all times count, after the host has had time to enqueue `calls` calls
 * and all ranks have arrived. */
static int enqueue_start(struct bb_overlap_context *ctx, const struct bb_overlap_work *work, int calls)
{
    const struct bb_busy delay = {.ns = (int64_t)(START_DELAY_US + START_DELAY_US_PER_CALL * calls) * 1000};
    int rc;

    TRY(bb_world_barrier(ctx->coll.world, "start of a sample"));
    if (ctx->delay_start)
        TRY(bb_busy_run(&delay, ctx->coll.stream));
    TRY(bb_synchronize_ranks(&ctx->coll, &work->c));
    TRY(BB_CUDA(cudaEventRecord(ctx->events[BB_EVENT_BEGIN], ctx->coll.stream)));
    TRY(BB_CUDA(cudaStreamWaitEvent(ctx->compute, ctx->events[BB_EVENT_BEGIN], 0)));
out:
    return rc;
}

/* Takes one sample with `gemms` GEMMs and `collectives` collectives. The collectives are enqueued before the GEMMs,
 * because their kernels need a few free SMs to start. ends_row: this is the last sample of a result row, so its last
 * collective uses the second slot, which is verified. */
static int take_sample(struct bb_overlap_context *ctx, const struct bb_overlap_work *work, int gemms, int collectives,
                       bool ends_row, double *compute_us, double *comm_us)
{
    int rc;

    TRY(enqueue_start(ctx, work, gemms + collectives));
    if (ctx->graph && collectives > 0)
        TRY(BB_CUDA(cudaGraphLaunch(ctx->graph, ctx->coll.stream)));
    else
        TRY(bb_issue(&ctx->coll, &work->c, 0, (size_t)collectives, ends_row));
    TRY(BB_CUDA(cudaEventRecord(ctx->events[BB_EVENT_COMM_END], ctx->coll.stream)));
    TRY(launch_gemms(ctx, gemms));
    TRY(BB_CUDA(cudaEventRecord(ctx->events[BB_EVENT_COMPUTE_END], ctx->compute)));
    TRY(wait_all(ctx));
    TRY(bb_event_us(ctx->events[BB_EVENT_BEGIN], ctx->events[BB_EVENT_COMPUTE_END], compute_us));
    TRY(bb_event_us(ctx->events[BB_EVENT_BEGIN], ctx->events[BB_EVENT_COMM_END], comm_us));
out:
    return rc;
}

/* Takes the three samples of repetition i: compute alone, communication alone, and both concurrently. */
static int measure_repeat(struct bb_overlap_context *ctx, const struct bb_overlap_work *work, int i)
{
    double *at[BB_OVERLAP_TIMES], unused;
    const size_t repeats = (size_t)ctx->options->repeats;
    bool ends_row = (size_t)i == repeats - 1;
    int rc;

    for (int t = 0; t < BB_OVERLAP_TIMES; t++)
        at[t] = &ctx->samples[(size_t)t * repeats + (size_t)i];
    TRY(take_sample(ctx, work, work->gemms, 0, false, at[BB_COMPUTE_ALONE], &unused));
    TRY(take_sample(ctx, work, 0, work->collectives, false, &unused, at[BB_COMM_ALONE]));
    TRY(take_sample(ctx, work, work->gemms, work->collectives, ends_row, at[BB_COMPUTE_IN_BOTH], at[BB_COMM_IN_BOTH]));
    *at[BB_BOTH] = fmax(*at[BB_COMPUTE_IN_BOTH], *at[BB_COMM_IN_BOTH]);
out:
    return rc;
}

/* ---- measuring one result row ---- */

/* Sets each sample to its maximum over the ranks and computes the statistics. */
static int combine_ranks(struct bb_overlap_context *ctx, struct bb_overlap_result *result)
{
    const size_t repeats = (size_t)ctx->options->repeats;
    struct bb_stats own;
    int rc;

    bb_stats_compute(ctx->samples + BB_COMPUTE_ALONE * repeats, repeats, &own);
    ctx->gemm_us += own.p50;
    rc = bb_world_max(ctx->coll.world, ctx->samples, BB_OVERLAP_TIMES * repeats);

    for (size_t t = 0; t < BB_OVERLAP_TIMES && rc == 0; t++)
        bb_stats_compute(ctx->samples + t * repeats, repeats, &result->us[t]);
    return rc;
}

/* Selects the communicator and divides the buffers into two slots (case.h) of the size that the case needs. Writes the
 * test data to the second slot, which is verified, and copies them to the first slot, which all other collectives
 * use. */
static int prepare_slots(struct bb_overlap_context *ctx, const struct bb_overlap_work *work)
{
    const size_t bytes = bb_buffer_layout_of(&work->c, work->comm->rank).slot_bytes;
    unsigned char *area = ctx->slots.area;
    int rc;

    ctx->coll.comm = work->comm;
    ctx->coll.arena = (struct bb_guarded){.area = area, .bytes = 2 * bytes};
    TRY(bb_verify_prepare(&ctx->coll, &work->c));
    TRY(BB_CUDA(cudaMemcpyAsync(area, area + bytes, bytes, cudaMemcpyDeviceToDevice, ctx->coll.stream)));
out:
    return rc;
}

static int measure_row(struct bb_overlap_context *ctx, const struct bb_overlap_work *work,
                       struct bb_overlap_result *result)
{
    const struct bb_telemetry *observer = ctx->coll.observer;
    const struct bb_nvtx *nvtx = &ctx->coll.nvtx;
    struct bb_metrics found = {0};
    int rc;

    TRY(prepare_slots(ctx, work));
    bb_telemetry_begin_warmup(observer);
    TRY(bb_part_begin(nvtx, BB_PART_WARM_UP));
    TRY(bb_issue(&ctx->coll, &work->c, 0, (size_t)ctx->options->warmup, false));
    TRY(launch_gemms(ctx, ctx->options->warmup));
    TRY(wait_all(ctx));
    if (work->graph) { /* the first launch of a graph takes longer */
        TRY(bb_graph_capture(&ctx->coll, &work->c, (size_t)work->collectives, &ctx->graph));
        TRY(BB_CUDA(cudaGraphLaunch(ctx->graph, ctx->coll.stream)));
        TRY(wait_all(ctx));
    }
    TRY(bb_part_end(nvtx, BB_PART_WARM_UP));
    bb_telemetry_begin_timing(observer, &result->seen);
    TRY(bb_part_begin(nvtx, BB_PART_SAMPLES));
    for (int i = 0; i < ctx->options->repeats; i++)
        TRY(measure_repeat(ctx, work, i));
    TRY(bb_part_end(nvtx, BB_PART_SAMPLES));
    TRY(bb_telemetry_end_timing(observer, ctx->coll.world, &result->seen));
    TRY(combine_ranks(ctx, result));
    TRY(bb_part_begin(nvtx, BB_PART_CHECK));
    TRY(bb_verify(&ctx->coll, &work->c, &found));
    TRY(bb_part_end(nvtx, BB_PART_CHECK));
    result->checked = found.checked;
    result->wrong = found.wrong;
    result->first = found.first;
out:
    return rc;
}

int bb_overlap_measure(struct bb_overlap_context *ctx, const struct bb_overlap_work *work,
                       struct bb_overlap_result *result)
{
    int rc;

    *result = (struct bb_overlap_result){0};
    bb_range_push_once(&ctx->coll.nvtx, 0, bb_case_bytes(&work->c), "overlap %s %zu bytes, %d GEMMs, %d collectives",
                       bb_colls[work->c.kind].name, bb_case_bytes(&work->c), work->gemms, work->collectives);
    rc = measure_row(ctx, work, result);
    if (ctx->graph)
        (void)cudaGraphExecDestroy(ctx->graph);
    ctx->graph = NULL;
    bb_range_pop(&ctx->coll.nvtx);
    return rc;
}
