/*
 * overlap_measure.c - the samples of `busbar bench overlap`.
 *
 * An untimed collective synchronizes the ranks. Then a timed kernel (a kernel of given duration, cuda/compute/busy.h)
 * delays the common start until the host has enqueued all work, so no time contains launch overhead or a late rank.
 * Each repeat takes the three samples (compute alone, communication alone, both) one after another, so clock drift
 * affects all of them equally.
 */
#include "collectives/overlap/overlap_measure.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "cuda/compute/busy.h"
#include "cuda/device/check.h"
#include "cuda/device/stream.h"
#include "cuda/work/memory_kernel.h"

#include <math.h>
#include <stdlib.h>

enum { ALIGN = 512, CANARY = 0x5a, BLOCK_BYTES = 1 << 20 };
/* Delay in us between the arrival of all ranks and the common start of a sample: START_DELAY_US plus
 * START_DELAY_US_PER_CALL, an upper bound of the host's time to enqueue one call, for each call. */
enum { START_DELAY_US = 50, START_DELAY_US_PER_CALL = 10 };

/* ---- init and release ---- */

static size_t matrix_bytes(const struct bb_gemm_shape *s)
{
    return bb_round_up(bb_gemm_a_bytes(s), ALIGN) + bb_round_up(bb_gemm_b_bytes(s), ALIGN) +
           bb_round_up(bb_gemm_c_bytes(s), ALIGN);
}

size_t bb_overlap_context_bytes(const struct bb_gemm_shape *gemm_shape, size_t slot_bytes,
                                const struct bb_allocator *from)
{
    return bb_guarded_bytes(matrix_bytes(gemm_shape)) + bb_guarded_device_bytes(2 * slot_bytes, from) +
           BB_GEMM_WORKSPACE;
}

static int make_streams(struct bb_overlap_context *ctx)
{
    int least, greatest, rc;

    TRY(BB_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest)));
    TRY(BB_CUDA(cudaStreamCreateWithPriority(&ctx->compute, cudaStreamNonBlocking, least)));
    TRY(BB_CUDA(cudaStreamCreateWithPriority(&ctx->comm, cudaStreamNonBlocking, greatest)));
    TRY(BB_CUDA(cudaStreamCreateWithPriority(&ctx->start, cudaStreamNonBlocking, greatest)));
    TRY(BB_CUDA(cudaEventCreate(&ctx->ranks_ready)));
    TRY(BB_CUDA(cudaEventCreate(&ctx->begin)));
    TRY(BB_CUDA(cudaEventCreate(&ctx->compute_end)));
    TRY(BB_CUDA(cudaEventCreate(&ctx->comm_end)));
    bb_nvtx_name_stream(&ctx->nvtx, ctx->compute, "compute");
    bb_nvtx_name_stream(&ctx->nvtx, ctx->comm, "collectives");
    bb_nvtx_name_stream(&ctx->nvtx, ctx->start, "start");
out:
    return rc;
}

/* Generates random numbers in [-1, 1), because GEMMs on zeros run faster than on real data. */
static void make_block(void *block, size_t n, enum bb_dtype_id dtype)
{
    for (size_t i = 0; i < n; i++)
        bb_element_set(block, dtype, i, (double)(int64_t)bb_mix(i) * 0x1p-63);
}

/* Fills the GEMM's matrices: copies one random block from the host, then repeatedly copies the filled part on the
 * device, which doubles its length. */
static int fill_matrices(struct bb_overlap_context *ctx, enum bb_dtype_id dtype)
{
    size_t total = ctx->matrices.bytes, done = total < BLOCK_BYTES ? total : BLOCK_BYTES;
    unsigned char *area = ctx->matrices.area;
    char *block;
    int rc;

    BB_NEW(block, BLOCK_BYTES);
    make_block(block, done / bb_dtypes[dtype].bytes, dtype);
    TRY(BB_CUDA(cudaMemcpy(area, block, done, cudaMemcpyHostToDevice)));
    while (done < total) {
        size_t more = total - done < done ? total - done : done;
        TRY(BB_CUDA(cudaMemcpyAsync(area + done, area, more, cudaMemcpyDeviceToDevice, ctx->compute)));
        done += more;
    }
    TRY(bb_stream_wait(ctx->world, ctx->compute, "data of the GEMM", NULL, NULL));
out:
    free(block);
    return rc;
}

int bb_overlap_context_init(struct bb_overlap_context *ctx, const struct bb_gemm_shape *gemm_shape, size_t slot_bytes)
{
    int rc;

    bb_nvtx_init(&ctx->nvtx);
    ctx->native = bb_native_find();
    BB_NEW(ctx->samples, BB_OVERLAP_TIMES * ctx->repeats);
    TRY(make_streams(ctx));
    TRY(BB_CUDA(cudaMalloc((void **)&ctx->verdict, 2 * sizeof *ctx->verdict)));
    TRY(bb_guarded_init(&ctx->matrices, matrix_bytes(gemm_shape), &bb_cuda_allocator, ctx->compute));
    TRY(bb_guarded_init(&ctx->slots, 2 * slot_bytes, ctx->memory, ctx->comm));
    TRY(bb_stream_wait(ctx->world, ctx->comm, "initialization of the buffers", NULL, NULL));
    TRY(fill_matrices(ctx, gemm_shape->dtype));
    TRY(bb_gemm_lib_init(&ctx->lib, BB_GEMM_WORKSPACE));
    TRY(bb_gemm_init(&ctx->gemm, &ctx->lib, gemm_shape));
out:
    return rc;
}

void bb_overlap_context_release(struct bb_overlap_context *ctx)
{
    bb_gemm_release(&ctx->gemm);
    bb_gemm_lib_release(&ctx->lib);
    bb_guarded_release(&ctx->slots);
    bb_guarded_release(&ctx->matrices);
    if (ctx->verdict)
        (void)cudaFree(ctx->verdict);
    bb_event_destroy(ctx->comm_end);
    bb_event_destroy(ctx->compute_end);
    bb_event_destroy(ctx->begin);
    bb_event_destroy(ctx->ranks_ready);
    bb_stream_destroy(ctx->start);
    bb_stream_destroy(ctx->comm);
    bb_stream_destroy(ctx->compute);
    bb_nvtx_release(&ctx->nvtx);
    free(ctx->samples);
    *ctx = (struct bb_overlap_context){0};
}

/* ---- enqueueing GEMMs and collectives ---- */

static int launch_collective(struct bb_overlap_context *ctx, const struct bb_overlap_work *work, bool last)
{
    const struct bb_buffer_layout l = bb_buffer_layout_of(&work->c, work->comm->rank);
    unsigned char *slot = ctx->slots.area + (last ? l.slot_bytes : 0);
    const struct bb_call call = {.kind = work->c.kind,
                                 .send = slot + l.send_offset,
                                 .recv = slot + l.recv_offset,
                                 .count = work->c.count,
                                 .dtype = work->c.dtype,
                                 .redop = work->c.redop,
                                 .root = work->c.root,
                                 .comm = work->comm,
                                 .stream = ctx->comm,
                                 .native = &ctx->native};

    return bb_launch(&call);
}

static int launch_collectives(struct bb_overlap_context *ctx, const struct bb_overlap_work *work, int n, bool ends_row)
{
    int rc = 0;

    bb_world_guard(ctx->world, "collectives concurrent with GEMMs");
    for (int i = 0; i < n && rc == 0; i++)
        rc = launch_collective(ctx, work, ends_row && i == n - 1);
    bb_world_unguard(ctx->world);
    return rc;
}

static int launch_gemms(struct bb_overlap_context *ctx, int n)
{
    const struct bb_gemm_shape *s = &ctx->gemm.shape;
    unsigned char *a = ctx->matrices.area, *b = a + bb_round_up(bb_gemm_a_bytes(s), ALIGN),
                  *c = b + bb_round_up(bb_gemm_b_bytes(s), ALIGN);
    int rc = 0;

    for (int i = 0; i < n && rc == 0; i++)
        rc = bb_gemm_run(&ctx->gemm, a, b, c, ctx->compute);
    return rc;
}

static int wait_all(struct bb_overlap_context *ctx, const struct bb_overlap_work *work)
{
    int rc;

    TRY(bb_comm_wait(work->comm, ctx->comm, "collectives concurrent with GEMMs"));
    TRY(bb_stream_wait(ctx->world, ctx->compute, "GEMMs concurrent with collectives", NULL, NULL));
out:
    return rc;
}

/* Records the CUDA event `begin`, from which all times count, after all ranks have arrived and the host has had time
 * to enqueue `calls` calls. */
static int enqueue_start(struct bb_overlap_context *ctx, const struct bb_overlap_work *work, int calls)
{
    int rc;

    TRY(bb_world_barrier(ctx->world, "start of a sample"));
    TRY(launch_collectives(ctx, work, 1, false));
    TRY(BB_CUDA(cudaEventRecord(ctx->ranks_ready, ctx->comm)));
    TRY(BB_CUDA(cudaStreamWaitEvent(ctx->start, ctx->ranks_ready, 0)));
    if (ctx->delay_start)
        TRY(bb_busy_run(&(struct bb_busy){.ns = (int64_t)(START_DELAY_US + START_DELAY_US_PER_CALL * calls) * 1000},
                        ctx->start));
    TRY(BB_CUDA(cudaEventRecord(ctx->begin, ctx->start)));
    TRY(BB_CUDA(cudaStreamWaitEvent(ctx->comm, ctx->begin, 0)));
    TRY(BB_CUDA(cudaStreamWaitEvent(ctx->compute, ctx->begin, 0)));
out:
    return rc;
}

/* Takes one sample with `gemms` GEMMs and `collectives` collectives. The collectives are enqueued before the GEMMs,
 * because their kernels need a few free SMs to start. ends_row: this is the last sample of a result row, so its last
 * collective uses the second set of buffers, which is verified. */
static int take_sample(struct bb_overlap_context *ctx, const struct bb_overlap_work *work, int gemms, int collectives,
                       bool ends_row, double *compute_us, double *comm_us)
{
    int rc;

    TRY(enqueue_start(ctx, work, gemms + collectives));
    TRY(launch_collectives(ctx, work, collectives, ends_row));
    TRY(BB_CUDA(cudaEventRecord(ctx->comm_end, ctx->comm)));
    TRY(launch_gemms(ctx, gemms));
    TRY(BB_CUDA(cudaEventRecord(ctx->compute_end, ctx->compute)));
    TRY(wait_all(ctx, work));
    TRY(bb_event_us(ctx->begin, ctx->compute_end, compute_us));
    TRY(bb_event_us(ctx->begin, ctx->comm_end, comm_us));
out:
    return rc;
}

/* Takes the three samples of repetition i: compute alone, communication alone, and both concurrently. */
static int measure_repeat(struct bb_overlap_context *ctx, const struct bb_overlap_work *work, int i)
{
    double *at[BB_OVERLAP_TIMES], unused;
    bool ends_row = i == ctx->repeats - 1;
    int rc;

    for (int t = 0; t < BB_OVERLAP_TIMES; t++)
        at[t] = &ctx->samples[(size_t)t * (size_t)ctx->repeats + (size_t)i];
    TRY(take_sample(ctx, work, work->gemms, 0, false, at[BB_COMPUTE_ALONE], &unused));
    TRY(take_sample(ctx, work, 0, work->collectives, false, &unused, at[BB_COMM_ALONE]));
    TRY(take_sample(ctx, work, work->gemms, work->collectives, ends_row, at[BB_COMPUTE_IN_BOTH], at[BB_COMM_IN_BOTH]));
    *at[BB_BOTH] = fmax(*at[BB_COMPUTE_IN_BOTH], *at[BB_COMM_IN_BOTH]);
out:
    return rc;
}

/* ---- maximum over the ranks ---- */

static int combine_ranks(struct bb_overlap_context *ctx, struct bb_overlap_result *result)
{
    const size_t n = (size_t)BB_OVERLAP_TIMES * (size_t)ctx->repeats;
    int rc = bb_world_max(ctx->world, ctx->samples, n);

    for (int t = 0; t < BB_OVERLAP_TIMES && rc == 0; t++)
        bb_stats_compute(ctx->samples + (size_t)t * (size_t)ctx->repeats, (size_t)ctx->repeats, &result->us[t]);
    return rc;
}

/* ---- test data and verification ---- */

static struct bb_pattern pattern_of(const struct bb_overlap_context *ctx, const struct bb_case *c)
{
    return bb_pattern_of(&bb_dtypes[c->dtype], c->redop, c->ranks, bb_mix(ctx->runs));
}

static int prepare_data(struct bb_overlap_context *ctx, const struct bb_overlap_work *work)
{
    const struct bb_buffer_layout l = bb_buffer_layout_of(&work->c, work->comm->rank);
    struct bb_pattern pattern;
    int rc = 0;

    ctx->runs++;
    pattern = pattern_of(ctx, &work->c);
    for (int slot = 0; slot < 2; slot++) {
        unsigned char *at = ctx->slots.area + (slot ? l.slot_bytes : 0);
        TRY(BB_CUDA(cudaMemsetAsync(at, CANARY, l.slot_bytes, ctx->comm)));
        TRY(bb_fill(at + l.send_offset, l.send_bytes / bb_dtypes[work->c.dtype].bytes, &pattern, work->comm->rank, 0,
                    ctx->comm));
    }
out:
    return rc;
}

/* Verification result of one rank for the last collective of a result row, which ran concurrently with GEMMs. Counts
 * of elements and guard bytes: wrong; checked: compared; due: to be compared in a complete verification. */
struct finding {
    unsigned long long wrong, checked, due;
};

static int check_rank(struct bb_overlap_context *ctx, const struct bb_overlap_work *work, struct finding *found)
{
    const struct bb_buffer_layout l = bb_buffer_layout_of(&work->c, work->comm->rank);
    const struct bb_expected_part part = bb_case_expected_part(&work->c, work->comm->rank, 0);
    const struct bb_pattern pattern = pattern_of(ctx, &work->c);
    unsigned char *slot = ctx->slots.area + l.slot_bytes;
    struct bb_verdict verdict = {0};
    int rc;

    found->due = part.count + l.before_bytes + l.after_bytes;
    TRY(bb_verdict_clear(ctx->verdict, ctx->comm));
    TRY(bb_check(slot + l.recv_offset, part.count, &pattern, &part.expect, ctx->verdict, ctx->comm));
    TRY(bb_check_bytes(slot + l.before_offset, l.before_bytes, CANARY, ctx->verdict, ctx->comm));
    TRY(bb_check_bytes(slot + l.after_offset, l.after_bytes, CANARY, ctx->verdict, ctx->comm));
    TRY(bb_stream_wait(ctx->world, ctx->comm, "verification", NULL, NULL));
    TRY(BB_CUDA(cudaMemcpy(&verdict, ctx->verdict, sizeof verdict, cudaMemcpyDeviceToHost)));
    found->wrong = verdict.wrong;
    found->checked = verdict.checked;
    /* emulated GPUs with EMU_DATA=off store no data, so no element is compared */
    if (found->checked != found->due && !(ctx->device->emulated && found->checked == 0))
        rc = bb_err(BB_EFAIL, "verification compared only %llu of %llu elements", found->checked, found->due);
out:
    return rc;
}

static int verify_ranks(struct bb_overlap_context *ctx, const struct bb_overlap_work *work,
                        struct bb_overlap_result *result)
{
    struct finding mine = {0};
    unsigned incomplete;
    int rc;

    TRY(check_rank(ctx, work, &mine));
    incomplete = mine.checked != mine.due;
    TRY(bb_world_any(ctx->world, &incomplete));
    TRY(bb_world_sum(ctx->world, &mine.wrong));
    result->checked = !incomplete;
    result->wrong = mine.wrong;
out:
    return rc;
}

/* ---- measuring one result row ---- */

static int measure_row(struct bb_overlap_context *ctx, const struct bb_overlap_work *work,
                       struct bb_overlap_result *result)
{
    int rc;

    TRY(prepare_data(ctx, work));
    bb_telemetry_begin_warmup(ctx->observer);
    TRY(launch_collectives(ctx, work, ctx->warmup, false));
    TRY(launch_gemms(ctx, ctx->warmup));
    TRY(wait_all(ctx, work));
    bb_telemetry_begin_timing(ctx->observer, &result->seen);
    for (int i = 0; i < ctx->repeats; i++)
        TRY(measure_repeat(ctx, work, i));
    TRY(bb_telemetry_end_timing(ctx->observer, ctx->world, &result->seen));
    TRY(combine_ranks(ctx, result));
    TRY(verify_ranks(ctx, work, result));
out:
    return rc;
}

int bb_overlap_measure(struct bb_overlap_context *ctx, const struct bb_overlap_work *work,
                       struct bb_overlap_result *result)
{
    struct bb_range range;
    int rc;

    *result = (struct bb_overlap_result){0};
    bb_range_init(&ctx->nvtx, &range, 0, bb_case_bytes(&work->c), "overlap %s %zu bytes, %d GEMMs, %d collectives",
                  bb_colls[work->c.kind].name, bb_case_bytes(&work->c), work->gemms, work->collectives);
    bb_range_push(&ctx->nvtx, &range);
    rc = measure_row(ctx, work, result);
    bb_range_pop(&ctx->nvtx);
    return rc;
}
