/*
 * p2p_measure.c - measures one pair of ranks.
 *
 * A sample is the time of `iterations` operations (a ping-pong, a one-way message, or one message in each direction)
 * back to back on one stream between two CUDA events; the larger time of the two ranks counts. A start barrier (a kernel
 * that blocks the stream) holds the operations until the host has enqueued all, because a small message takes no longer
 * than its launch. An untimed ping-pong after it synchronizes the two ranks. The last timed message is received into a separate buffer, so that
 * data of an earlier message cannot pass the verification.
 */
#include "collectives/p2p/p2p_measure.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "collectives/ops/queue_capacity.h"
#include "cuda/device/check.h"
#include "cuda/device/stream.h"

#include <math.h>
#include <stdlib.h>

/* Number and value of the guard bytes after a message, which must not change. */
enum { GUARD = 512, CANARY = 0x5a };

/* Operations that the launch queue holds while the start barrier is closed: an operation has up to two messages, and
 * three precede them. */
enum { HELD_OPERATIONS = BB_QUEUE_ENTRIES / (2 * BB_NCCL_ENTRIES) - 3 };

static const int64_t START_BARRIER_LIMIT_NS = 1000000000;

const struct bb_p2p_metric bb_p2p_metrics[BB_P2P_KINDS] = {
    [BB_P2P_LATENCY_ONE] =
        {.metric = "latency", .direction = "one", .title = "latency, half a round trip", .unit = "us", .messages = 2},
    [BB_P2P_LATENCY_BOTH] = {.metric = "latency",
                             .direction = "both",
                             .title = "latency, both directions at once",
                             .unit = "us",
                             .messages = 1},
    [BB_P2P_BANDWIDTH_ONE] = {.metric = "bandwidth",
                              .direction = "one",
                              .title = "bandwidth, one direction, from row rank to column rank",
                              .unit = "GB/s",
                              .is_bandwidth = true,
                              .is_directed = true,
                              .messages = 1,
                              .bytes_factor = 1},
    [BB_P2P_BANDWIDTH_BOTH] = {.metric = "bandwidth",
                               .direction = "both",
                               .title = "bandwidth, both directions at once, sum",
                               .unit = "GB/s",
                               .is_bandwidth = true,
                               .messages = 1,
                               .bytes_factor = 2},
};

/* ---- init and release ---- */

size_t bb_p2p_context_bytes(size_t bytes, const struct bb_allocator *from)
{
    return 3 * bb_guarded_device_bytes(bytes + GUARD, from);
}

static int wait_for_stream(struct bb_p2p_context *ctx, const char *what)
{
    return bb_stream_wait(&ctx->session->world, ctx->stream, what, NULL, NULL);
}

int bb_p2p_context_init(struct bb_p2p_context *ctx, struct bb_session *s, const struct bb_bench_p2p_options *options,
                        struct bb_comm *comm, size_t bytes)
{
    size_t size = (size_t)s->world.size, repeats = (size_t)options->repeats;
    struct bb_guarded *const buffers[] = {&ctx->send, &ctx->recv, &ctx->last};
    int rc;

    *ctx = (struct bb_p2p_context){.session = s, .options = options, .comm = comm};
    bb_nvtx_init(&ctx->nvtx);
    BB_NEW(ctx->samples, repeats);
    BB_NEW(ctx->gathered, size * repeats);
    BB_NEW(ctx->findings, size);
    TRY(BB_CUDA(cudaStreamCreateWithFlags(&ctx->stream, cudaStreamNonBlocking)));
    TRY(BB_CUDA(cudaEventCreate(&ctx->start)));
    TRY(BB_CUDA(cudaEventCreate(&ctx->stop)));
    TRY(bb_start_barrier_init(&ctx->start_barrier, START_BARRIER_LIMIT_NS));
    TRY(BB_CUDA(cudaMalloc((void **)&ctx->verdict, sizeof *ctx->verdict)));
    for (int i = 0; i < 3; i++)
        TRY(bb_guarded_init(buffers[i], bytes + GUARD, s->memory, ctx->stream));
    bb_nvtx_name_stream(&ctx->nvtx, ctx->stream, "p2p");
    TRY(wait_for_stream(ctx, "initialization of the buffers"));
out:
    return rc;
}

void bb_p2p_context_release(struct bb_p2p_context *ctx)
{
    bb_guarded_release(&ctx->last);
    bb_guarded_release(&ctx->recv);
    bb_guarded_release(&ctx->send);
    if (ctx->verdict)
        (void)cudaFree(ctx->verdict);
    bb_start_barrier_release(&ctx->start_barrier);
    bb_event_destroy(ctx->stop);
    bb_event_destroy(ctx->start);
    bb_stream_destroy(ctx->stream);
    bb_nvtx_release(&ctx->nvtx);
    free(ctx->findings);
    free(ctx->gathered);
    free(ctx->samples);
    *ctx = (struct bb_p2p_context){0};
}

/* ---- enqueueing and timing messages ---- */

/* One rank's side of a measurement. begins: true if this rank sends the first message; its partner then receives
 * first. what: name of a wait in messages about a hang, for example "messages with rank 6". */
struct side {
    struct bb_p2p_context *ctx;
    const struct bb_p2p_run *run;
    int partner;
    bool begins;
    const char *what;
};

/* Sends a message to the partner, or receives one from the partner to the address `to`. */
static int move_message(const struct side *s, bool sends, void *to)
{
    struct bb_p2p_context *ctx = s->ctx;

    if (sends)
        return BB_NCCL(ncclSend(ctx->send.area, s->run->bytes, ncclInt8, s->partner, ctx->comm->nccl, ctx->stream));
    return BB_NCCL(ncclRecv(to, s->run->bytes, ncclInt8, s->partner, ctx->comm->nccl, ctx->stream));
}

/* Enqueues one operation: messages in both directions at once, a message, or a message and its answer (ping-pong). */
static int enqueue_operation(const struct side *s, enum bb_p2p_kind kind, void *to)
{
    struct bb_p2p_context *ctx = s->ctx;
    int rc;

    if (kind == BB_P2P_LATENCY_BOTH || kind == BB_P2P_BANDWIDTH_BOTH)
        return bb_comm_sendrecv(ctx->comm, ctx->send.area, s->partner, to, s->partner, s->run->bytes, ncclInt8,
                                ctx->stream);
    TRY(move_message(s, s->begins, to));
    if (kind == BB_P2P_LATENCY_ONE) {
        TRY(bb_comm_poll(ctx->comm, s->what));
        TRY(move_message(s, !s->begins, to));
    }
out:
    return rc;
}

/* Enqueues n operations, while the supervisor monitors NCCL calls that block. ends_run: the last operation receives
 * into the separate buffer ctx->last, which is verified. */
static int issue_messages(const struct side *s, enum bb_p2p_kind kind, int n, bool ends_run)
{
    struct bb_p2p_context *ctx = s->ctx;
    int rc = 0;

    bb_world_guard(&ctx->session->world, s->what);
    for (int i = 0; i < n && rc == 0; i++) {
        rc = enqueue_operation(s, kind, ends_run && i == n - 1 ? ctx->last.area : ctx->recv.area);
        if (rc == 0)
            rc = bb_comm_poll(ctx->comm, s->what);
    }
    bb_world_unguard(&ctx->session->world);
    return rc;
}

/* Times n operations. The ping-pong ends after both ranks have opened their start barriers. */
static int time_operations(const struct side *s, int n, bool ends_run, double *us)
{
    struct bb_p2p_context *ctx = s->ctx;
    int rc;

    if (!ctx->session->shared_gpu)
        TRY(bb_start_barrier_close(&ctx->start_barrier, ctx->stream));
    TRY(issue_messages(s, BB_P2P_LATENCY_ONE, 1, false));
    TRY(BB_CUDA(cudaEventRecord(ctx->start, ctx->stream)));
    TRY(issue_messages(s, s->run->kind, n, ends_run));
    TRY(BB_CUDA(cudaEventRecord(ctx->stop, ctx->stream)));
    bb_start_barrier_open(&ctx->start_barrier);
    TRY(bb_comm_wait(ctx->comm, ctx->stream, s->what));
    TRY(bb_event_us(ctx->start, ctx->stop, us));
out:
    return rc;
}

static int take_sample(const struct side *s, bool ends_run, double *us)
{
    const int n = s->ctx->options->iterations;
    double part;
    int rc = 0;

    *us = 0;
    for (int left = n; left > 0; left -= HELD_OPERATIONS) {
        const bool is_last = left <= HELD_OPERATIONS;
        TRY(time_operations(s, is_last ? left : HELD_OPERATIONS, ends_run && is_last, &part));
        *us += part / (n * bb_p2p_metrics[s->run->kind].messages);
    }
out:
    return rc;
}

/* ---- test data and verification ---- */

/* Returns the element type of the test data: 64-bit elements if the message size is a multiple of 8 bytes, otherwise
 * bytes. */
static const struct bb_dtype *element_of(size_t bytes)
{
    return &bb_dtypes[bytes % 8 == 0 ? BB_UINT64 : BB_UINT8];
}

static struct bb_pattern pattern_of(const struct side *s)
{
    return bb_pattern_of(element_of(s->run->bytes), BB_COPY, s->ctx->session->world.size, bb_mix(s->ctx->runs + 1));
}

static int prepare_data(const struct side *s)
{
    struct bb_p2p_context *ctx = s->ctx;
    const size_t count = s->run->bytes / element_of(s->run->bytes)->bytes;
    const struct bb_pattern pattern = pattern_of(s);
    int rc;

    TRY(bb_fill(ctx->send.area, count, &pattern, ctx->session->world.rank, 0, ctx->stream));
    TRY(BB_CUDA(cudaMemsetAsync(ctx->last.area, CANARY, s->run->bytes + GUARD, ctx->stream)));
out:
    return rc;
}

/* Verifies the message from the partner and the guard bytes that follow the message in the buffer. */
static int verify_message(const struct side *s, struct bb_p2p_finding *finding)
{
    struct bb_p2p_context *ctx = s->ctx;
    const size_t count = s->run->bytes / element_of(s->run->bytes)->bytes;
    const struct bb_pattern pattern = pattern_of(s);
    const struct bb_expect expect = {.source = s->partner, .block = count};
    struct bb_verdict verdict = {0};
    int rc;

    TRY(bb_verdict_clear(ctx->verdict, ctx->stream));
    TRY(bb_check(ctx->last.area, count, &pattern, &expect, ctx->verdict, ctx->stream));
    TRY(bb_check_bytes(ctx->last.area + s->run->bytes, GUARD, CANARY, ctx->verdict, ctx->stream));
    TRY(wait_for_stream(ctx, "verification of a message"));
    TRY(BB_CUDA(cudaMemcpy(&verdict, ctx->verdict, sizeof verdict, cudaMemcpyDeviceToHost)));
    finding->wrong = verdict.wrong;
    finding->checked = verdict.checked == count + GUARD;
    /* emulated GPUs with EMU_DATA=off store no data, so verdict.checked, the number of compared elements, is 0 */
    if (!finding->checked && !(ctx->session->device.emulated && verdict.checked == 0))
        rc = bb_err(BB_EFAIL, "verification compared only %llu of %zu elements", verdict.checked, count + GUARD);
out:
    return rc;
}

/* ---- one measurement of one rank ---- */

static int measure_pair(const struct side *s, struct bb_p2p_finding *finding)
{
    struct bb_p2p_context *ctx = s->ctx;
    const struct bb_bench_p2p_options *o = ctx->options;
    const bool receives = s->run->kind != BB_P2P_BANDWIDTH_ONE || !s->begins;
    int rc;

    if (o->check)
        TRY(prepare_data(s));
    bb_telemetry_begin_warmup(&ctx->session->observer);
    TRY(bb_part_begin(&ctx->nvtx, BB_PART_WARM_UP));
    TRY(issue_messages(s, BB_P2P_LATENCY_ONE, 1, false)); /* connects both directions before a start barrier closes */
    TRY(issue_messages(s, s->run->kind, o->warmup, false));
    TRY(bb_comm_wait(ctx->comm, ctx->stream, s->what));
    TRY(bb_part_end(&ctx->nvtx, BB_PART_WARM_UP));
    bb_telemetry_begin_timing(&ctx->session->observer, &finding->seen);
    TRY(bb_part_begin(&ctx->nvtx, BB_PART_SAMPLES));
    for (int i = 0; i < o->repeats; i++)
        TRY(take_sample(s, i == o->repeats - 1, &ctx->samples[i]));
    TRY(bb_part_end(&ctx->nvtx, BB_PART_SAMPLES));
    bb_telemetry_end_timing_local(&ctx->session->observer, &finding->seen);
    if (o->check && receives) {
        TRY(bb_part_begin(&ctx->nvtx, BB_PART_CHECK));
        TRY(verify_message(s, finding));
        TRY(bb_part_end(&ctx->nvtx, BB_PART_CHECK));
    }
out:
    return rc;
}

static int measure_side(const struct side *s, struct bb_p2p_finding *finding)
{
    char size[BB_BYTES_TEXT];
    const struct bb_p2p_metric *f = &bb_p2p_metrics[s->run->kind];
    int rc;

    bb_range_push_once(&s->ctx->nvtx, 0, s->run->bytes, "p2p %s %s %s with %d", f->metric, f->direction,
                       bb_format_bytes(s->run->bytes, size), s->partner);
    rc = measure_pair(s, finding);
    bb_range_pop(&s->ctx->nvtx);
    return rc;
}

int bb_p2p_measure(struct bb_p2p_context *ctx, const struct bb_p2p_run *run, int partner)
{
    struct bb_world *w = &ctx->session->world;
    char what[40];
    const struct side side = {ctx, run, partner, (w->rank < partner) != run->reversed, what};
    const size_t repeats = (size_t)ctx->options->repeats;
    struct bb_p2p_finding finding = {0};
    int rc;

    ctx->runs++;
    snprintf(what, sizeof(what), "messages with rank %d", partner);
    for (size_t i = 0; i < repeats; i++)
        ctx->samples[i] = NAN;
    TRY(bb_world_barrier(w, "start of a round"));
    if (partner >= 0)
        TRY(measure_side(&side, &finding));
    TRY(bb_world_allgather(w, ctx->samples, ctx->gathered, repeats * sizeof *ctx->samples));
    TRY(bb_world_allgather(w, &finding, ctx->findings, sizeof finding));
out:
    return rc;
}

void bb_p2p_pair_samples(const struct bb_p2p_context *ctx, int a, int b, double *samples)
{
    const size_t repeats = (size_t)ctx->options->repeats;

    for (size_t i = 0; i < repeats; i++)
        samples[i] = fmax(ctx->gathered[(size_t)a * repeats + i], ctx->gathered[(size_t)b * repeats + i]);
}
