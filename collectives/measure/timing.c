/*
 * timing.c - the timing modes, see timing.h.
 *
 * Stream mode: a sample is the time between two events that enclose `iterations` operations back to back on one stream,
 * divided by the number of operations. One untimed operation precedes the first event and synchronizes the ranks, so
 * that a late rank does not lengthen the sample. If some ranks may complete this operation before the last rank
 * arrives, a small all_reduce follows the operation. The start barrier holds all of these operations until every rank
 * has enqueued them.
 *
 * The start barrier is not used
 * - for the first operation of a measurement, which may have to establish connections,
 * - if ranks share a GPU,
 * - if kernel launches are blocking (CUDA_LAUNCH_BLOCKING),
 * - after the barrier has timed out once.
 *
 * With --clock host a sample is defined as in nccl-tests: the time from before the first call to after the final wait,
 * without start barrier and CUDA events, but with the first launch of a graph. One untimed operation, which the host
 * waits for, precedes the samples. --clock both adds one such sample at the end of a measurement.
 */
#include "collectives/measure/timing.h"

#include "bootstrap/base/clock.h"
#include "collectives/measure/start_barrier_capacity.h"
#include "cuda/compute/busy.h"
#include "cuda/device/check.h"
#include "cuda/device/stream.h"

#include <math.h>

static const struct bb_mode *const modes[] = {&bb_mode_stream, &bb_mode_sync, &bb_mode_graph};

const struct bb_mode *bb_mode_at(size_t i)
{
    return i < sizeof modes / sizeof *modes ? modes[i] : NULL;
}

size_t bb_mode_batch(const struct bb_bench_context *ctx, const struct bb_mode *mode)
{
    return (size_t)ctx->repeats * (mode->single ? (size_t)ctx->iterations : 1);
}

size_t bb_mode_operations(const struct bb_bench_context *ctx, const struct bb_mode *mode)
{
    return mode->single ? 1 : (size_t)ctx->iterations;
}

/* ---- time of consecutive iterations ---- */

/* Total times of the iterations between a start and an end event, in microseconds: host time to enqueue them, host
 * time until their completion, GPU time between the two CUDA events. */
struct span {
    double host_us, wall_us, gpu_us;
};

static double now_us(void)
{
    return 1e6 * bb_now_s();
}

/* With the host clock, events would lengthen the time, so they are recorded only for the results that are computed
 * from them, and on emulated GPUs with virtual time, where they replace the host clock. */
static bool records_events(const struct bb_bench_context *ctx)
{
    return !ctx->host_clock || ctx->mode->single || ctx->iteration_events || ctx->device->virtual_time;
}

static int begin_span(struct bb_bench_context *ctx, struct span *span)
{
    int rc = records_events(ctx) ? BB_CUDA(cudaEventRecord(ctx->start, ctx->stream)) : 0;

    span->wall_us -= now_us();
    return rc;
}

/* Enqueues n iterations, beginning with iteration `first` of the sample, and adds the host time to enqueue them to
 * span->host_us. */
static int enqueue_timed(struct bb_bench_context *ctx, const struct bb_case *c, size_t first, size_t n, bool ends_row,
                         struct span *span)
{
    int rc;

    span->host_us -= now_us();
    rc = bb_issue(ctx, c, first, n, ends_row);
    span->host_us += now_us();
    return rc;
}

static int mark_end(struct bb_bench_context *ctx)
{
    return records_events(ctx) ? BB_CUDA(cudaEventRecord(ctx->stop, ctx->stream)) : 0;
}

static int end_span(struct bb_bench_context *ctx, struct span *span)
{
    double us = 0;
    int rc;

    TRY(bb_bench_context_wait(ctx, "timed operations"));
    span->wall_us += now_us();
    if (records_events(ctx))
        TRY(bb_event_us(ctx->start, ctx->stop, &us));
    span->gpu_us += us;
out:
    return rc;
}

/* Returns the time by the host clock. The virtual time of emulated GPUs cannot be combined with the host clock. The stream is
 * idle when the start event is recorded, so the time between the events equals the time from the first call to the end of the
 * wait. */
static double wall_us(const struct bb_bench_context *ctx, const struct span *span)
{
    return ctx->device->virtual_time ? span->gpu_us : span->wall_us;
}

static struct bb_sample sample_of(const struct bb_bench_context *ctx, const struct span *span, double iterations)
{
    double operations = iterations * (double)bb_bench_context_aggregate(ctx);

    return (struct bb_sample){{[BB_SAMPLE_GPU] = span->gpu_us / operations,
                               [BB_SAMPLE_HOST] = span->host_us / operations,
                               [BB_SAMPLE_WALL] = ctx->host_clock ? wall_us(ctx, span) / operations : NAN}};
}

/* ---- stream mode ---- */

static void enable_iteration_events(struct bb_bench_context *ctx, bool on)
{
    if (ctx->iteration_events)
        ctx->iteration_events->on = on;
}

/* Returns the number of iterations to enqueue while the start barrier (a kernel that holds the stream until all
 * ranks have enqueued) is closed; 0: no start barrier. The operation that synchronizes the ranks is not included.
 * The number is equal on all ranks. */
static size_t held_iterations(const struct bb_bench_context *ctx, const struct bb_case *c)
{
    size_t capacity = bb_start_barrier_capacity(c->kind, ctx->world->size, bb_bench_context_aggregate(ctx),
                                                ctx->fifo_bytes, ctx->copy_engines);
    size_t n = (size_t)ctx->iterations;

    if (!ctx->uses_start_barrier || !ctx->connected || ctx->blocking != BB_BLOCK_NONE || capacity < 2)
        return 0;
    return n < capacity - 1 ? n : capacity - 1;
}

/* Enqueues a small all_reduce, which all ranks complete simultaneously. */
static int enqueue_sync(struct bb_bench_context *ctx)
{
    return BB_GUARDED(
        ctx->world, "synchronizing the ranks",
        BB_NCCL(ncclAllReduce(ctx->sync_byte, ctx->sync_byte, 1, ncclInt8, ncclMax, ctx->comm->nccl, ctx->stream)));
}

static bool needs_sync(const struct bb_case *c)
{
    return c->ranks > 1 && !bb_case_synchronizes_ranks(c);
}

int bb_connect_sync(struct bb_bench_context *ctx, const struct bb_case *c)
{
    int rc = 0;

    if (needs_sync(c)) {
        TRY(enqueue_sync(ctx));
        TRY(bb_bench_context_wait(ctx, "synchronizing the ranks"));
    }
out:
    return rc;
}

int bb_synchronize_ranks(struct bb_bench_context *ctx, const struct bb_case *c)
{
    int rc = 0;

    if (!needs_sync(c) || !ctx->connected)
        TRY(bb_issue(ctx, c, 0, 1, false));
    if (needs_sync(c))
        TRY(enqueue_sync(ctx));
out:
    return rc;
}

/* Waits until all ranks have enqueued the operations that the start barrier delays, then opens the barrier. A rank whose
 * barrier once reached its time limit no longer closes its barrier, but still waits for the other ranks. */
static int open_start_barrier(struct bb_bench_context *ctx)
{
    int rc;

    TRY(bb_world_barrier(ctx->world, "opening the start barrier"));
    bb_start_barrier_open(&ctx->start_barrier);
out:
    return rc;
}

/* Takes a sample. With the start barrier, `held` iterations are enqueued while the barrier is closed, and the others
 * while the GPU runs these; otherwise all at once. */
static int take_sample(struct bb_bench_context *ctx, const struct bb_case *c, bool ends_row, struct bb_sample *sample)
{
    size_t n = (size_t)ctx->iterations, held = held_iterations(ctx, c), first = held > 0 ? held : n;
    struct span span = {0};
    int rc;

    TRY(bb_world_barrier(ctx->world, "start of a sample"));
    if (held > 0 && !ctx->start_barrier_expired)
        TRY(bb_start_barrier_close(&ctx->start_barrier, ctx->stream));
    if (!ctx->host_clock)
        TRY(bb_synchronize_ranks(ctx, c));
    enable_iteration_events(ctx, ends_row);
    TRY(begin_span(ctx, &span));
    TRY(enqueue_timed(ctx, c, 0, first, ends_row && first == n, &span));
    if (first == n)
        TRY(mark_end(ctx));
    if (held > 0)
        TRY(open_start_barrier(ctx));
    if (first < n) {
        TRY(enqueue_timed(ctx, c, first, n - first, ends_row, &span));
        TRY(mark_end(ctx));
    }
    TRY(end_span(ctx, &span));
    if (held > 0 && bb_start_barrier_expired(&ctx->start_barrier))
        ctx->start_barrier_expired = true;
    if (ctx->iteration_events && ends_row)
        TRY(bb_iteration_events_read(ctx->iteration_events, c->in_place));
    enable_iteration_events(ctx, false);
    *sample = sample_of(ctx, &span, ctx->iterations);
    ctx->connected = true;
out:
    return rc;
}

static int time_stream(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_sample *batch)
{
    int rc = 0;

    for (int r = 0; r < ctx->repeats && rc == 0; r++)
        rc = take_sample(ctx, c, r == ctx->repeats - 1, &batch[r]);
    return rc;
}

const struct bb_mode bb_mode_stream = {
    .name = "stream", .help = "operations back to back on one stream between CUDA events", .time = time_stream};

/* ---- sync mode ---- */

/* Launches the delay kernel of --delay. Ranks without delay launch the kernel too, so that the ranks differ only in
 * the duration of the delay. */
static int impose_delay(struct bb_bench_context *ctx)
{
    struct bb_busy delay = {0};

    if (!ctx->delays_us)
        return 0;
    delay.ns = llround(1e3 * ctx->delays_us[ctx->world->rank]);
    return bb_busy_run(&delay, ctx->stream);
}

/* Times one iteration. The start event is enqueued after the delay kernel, so the event marks the arrival of this
 * rank. */
static int time_one(struct bb_bench_context *ctx, const struct bb_case *c, size_t i, bool ends_row,
                    struct bb_sample *sample)
{
    struct span span = {0};
    int rc;

    TRY(impose_delay(ctx));
    TRY(begin_span(ctx, &span));
    TRY(enqueue_timed(ctx, c, i, 1, ends_row, &span));
    TRY(mark_end(ctx));
    TRY(end_span(ctx, &span));
    *sample = sample_of(ctx, &span, 1);
    sample->us[BB_SAMPLE_WALL] = wall_us(ctx, &span) / (double)bb_bench_context_aggregate(ctx);
    sample->us[BB_SAMPLE_TO_SYNC] = span.gpu_us;
out:
    return rc;
}

/* Enqueues the all_reduce that synchronizes the ranks, after the timed operation, and measures the time from this
 * rank's arrival to the end of the all_reduce. */
static int time_to_sync(struct bb_bench_context *ctx, struct bb_sample *sample)
{
    int rc;

    TRY(enqueue_sync(ctx));
    TRY(mark_end(ctx));
    TRY(bb_bench_context_wait(ctx, "synchronizing the ranks"));
    TRY(bb_event_us(ctx->start, ctx->stop, &sample->us[BB_SAMPLE_TO_SYNC]));
out:
    return rc;
}

static int time_sync(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_sample *batch)
{
    bool with_sync = needs_sync(c);
    size_t n = bb_mode_batch(ctx, &bb_mode_sync);
    int rc;

    TRY(bb_synchronize_ranks(ctx, c));
    TRY(bb_bench_context_wait(ctx, "the untimed operation before the first sample"));
    for (size_t i = 0; i < n; i++) {
        TRY(bb_world_barrier(ctx->world, "start of an operation"));
        TRY(time_one(ctx, c, i, i == n - 1, &batch[i]));
        if (with_sync)
            TRY(time_to_sync(ctx, &batch[i]));
    }
    ctx->connected = true;
out:
    return rc;
}

int bb_time_single(struct bb_bench_context *ctx, const struct bb_case *c, size_t n, struct bb_sample *samples)
{
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = time_one(ctx, c, i, false, &samples[i]);
    return rc;
}

const struct bb_mode bb_mode_sync = {.name = "sync",
                                     .help = "operations, one at a time after a barrier, between CUDA events",
                                     .time = time_sync,
                                     .single = true};

/* ---- blocked mode (-z) ---- */

/* Takes a sample with -z 3: each iteration is timed separately, so the barriers between the iterations are not
 * timed. */
static int take_blocked_sample(struct bb_bench_context *ctx, const struct bb_case *c, bool ends_row,
                               struct bb_sample *sample)
{
    struct span span = {0};
    double before;
    int rc = 0;

    for (int i = 0; i < ctx->iterations; i++) {
        before = span.gpu_us;
        TRY(bb_world_barrier(ctx->world, "start of an iteration"));
        TRY(begin_span(ctx, &span));
        TRY(enqueue_timed(ctx, c, (size_t)i, 1, ends_row && i == ctx->iterations - 1, &span));
        TRY(mark_end(ctx));
        TRY(end_span(ctx, &span));
        if (ctx->iteration_events)
            ctx->iteration_events->us[c->in_place][i] = span.gpu_us - before;
    }
    *sample = sample_of(ctx, &span, ctx->iterations);
out:
    return rc;
}

static int time_blocked(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_sample *batch)
{
    int rc = 0;

    if (ctx->blocking != BB_BLOCK_UNTIMED_BARRIER)
        return time_stream(ctx, c, batch);
    for (int r = 0; r < ctx->repeats && rc == 0; r++)
        rc = take_blocked_sample(ctx, c, r == ctx->repeats - 1, &batch[r]);
    return rc;
}

const struct bb_mode bb_mode_blocked = {
    .name = "blocked", .help = "operations, with a wait of the host after each iteration", .time = time_blocked};

/* ---- graph mode: capture the iterations once, then launch the graph ---- */

int bb_graph_capture(struct bb_bench_context *ctx, const struct bb_case *c, size_t iterations, cudaGraphExec_t *exec)
{
    cudaGraph_t graph = NULL;
    int rc, end;

    TRY(BB_CUDA(cudaStreamBeginCapture(ctx->stream, cudaStreamCaptureModeThreadLocal)));
    rc = bb_issue(ctx, c, 0, iterations, true);
    end = BB_CUDA(cudaStreamEndCapture(ctx->stream, &graph));
    TRY(rc ? rc : end);
    TRY(BB_CUDA(cudaGraphInstantiate(exec, graph, 0)));
out:
    if (graph)
        (void)cudaGraphDestroy(graph);
    return rc;
}

static int launch_graph(struct bb_bench_context *ctx, cudaGraphExec_t exec, int times)
{
    int rc = 0;

    for (int i = 0; i < times && rc == 0; i++)
        rc = BB_CUDA(cudaGraphLaunch(exec, ctx->stream));
    return rc;
}

/* Captures the graph and launches it once before the measurement. With the host clock the function only captures,
 * because nccl-tests' time includes the first launch of the graph. */
static int make_graph(struct bb_bench_context *ctx, const struct bb_case *c, cudaGraphExec_t *exec)
{
    int rc;

    TRY(bb_graph_capture(ctx, c, (size_t)ctx->iterations, exec));
    if (ctx->host_clock)
        return 0;
    TRY(launch_graph(ctx, *exec, 1));
    TRY(bb_bench_context_wait(ctx, "first launch of a graph"));
out:
    return rc;
}

static void destroy_graph(cudaGraphExec_t *exec)
{
    if (*exec)
        (void)cudaGraphExecDestroy(*exec);
    *exec = NULL;
}

static int graph_launches(const struct bb_bench_context *ctx)
{
    return ctx->graph_launches > 0 ? ctx->graph_launches : 1;
}

static int take_graph_sample(struct bb_bench_context *ctx, cudaGraphExec_t exec, struct bb_sample *sample)
{
    struct span span = {0};
    int rc;

    TRY(bb_world_barrier(ctx->world, "start of a sample"));
    if (!ctx->host_clock)
        TRY(launch_graph(ctx, exec, 1));
    TRY(begin_span(ctx, &span));
    span.host_us -= now_us();
    TRY(launch_graph(ctx, exec, graph_launches(ctx)));
    span.host_us += now_us();
    TRY(mark_end(ctx));
    TRY(end_span(ctx, &span));
    *sample = sample_of(ctx, &span, (double)ctx->iterations * graph_launches(ctx));
out:
    return rc;
}

/* Takes the samples up to the next evaluation of the stopping rule, each by timed launches of the graph. In-place
 * launches overwrite their input, so the test data are written after the timed launches, and one additional launch
 * processes them. */
static int time_graph(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_sample *batch)
{
    cudaGraphExec_t exec = NULL;
    int rc = 0;

    for (int r = 0; r < ctx->repeats; r++) {
        if (!exec)
            TRY(make_graph(ctx, c, &exec));
        TRY(take_graph_sample(ctx, exec, &batch[r]));
        if (ctx->host_clock && r < ctx->repeats - 1)
            destroy_graph(&exec);
    }
    if (ctx->checks > 0) {
        TRY(bb_verify_prepare(ctx, c));
        TRY(launch_graph(ctx, exec, 1));
        TRY(bb_bench_context_wait(ctx, "last launch of a graph"));
    }
out:
    destroy_graph(&exec);
    return rc;
}

const struct bb_mode bb_mode_graph = {
    .name = "graph",
    .help = "operations in a CUDA graph that has been launched before, between CUDA events",
    .time = time_graph,
    .own_check = true};
