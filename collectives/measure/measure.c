/*
 * measure.c - measures one case (a collective with its size, data type, root, ...): warm-up, samples until the stopping
 * rule is met, aggregation over the ranks, verification.
 *
 * By default a sample is the maximum over the ranks, because a collective is complete when all ranks have completed it.
 * Rank 0 decides whether to continue sampling, because every rank must run the same number of operations.
 */
#include "collectives/measure/bench_context.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/clock.h"
#include "bootstrap/base/units.h"
#include "collectives/measure/start_barrier_capacity.h"
#include "collectives/measure/timing.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --warmup auto: after every WINDOW warm-up operations, the times of these operations are checked. Warm-up ends when
 * they neither rise nor fall steadily, or after WINDOWS_MAX checks. */
enum { WINDOW = 10, WINDOWS_MAX = 20 };
/* If less than LATE_US microseconds pass between the arrivals of the first and the last rank at an operation, no rank
 * is counted as the last, because the resolution of CUDA events is about 1 us. */
static const double LATE_US = 1;

const char *bb_bench_context_mode(const struct bb_bench_context *ctx)
{
    return ctx->host_time ? "host" : ctx->mode->name;
}

const char *bb_bench_context_method(const struct bb_bench_context *ctx)
{
    if (ctx->host_time)
        return "operations, host time to enqueue them";
    return ctx->host_clock ? "operations, by the host clock from the first call to the end of the wait"
                           : ctx->mode->help;
}

/* ---- memory for samples ---- */

static size_t max_batch(const struct bb_bench_context *ctx)
{
    size_t most = WINDOW;

    for (int i = 0; i < ctx->n_modes; i++) {
        size_t n = bb_mode_batch(ctx, ctx->modes[i]);
        most = n > most ? n : most;
    }
    return most;
}

void bb_measure_mode(struct bb_bench_context *ctx, const struct bb_mode *mode)
{
    ctx->mode = mode;
    ctx->policy.max_samples = ctx->max_iterations / bb_mode_operations(ctx, mode);
}

int bb_measure_init(struct bb_bench_context *ctx)
{
    size_t batch = max_batch(ctx), ranks = (size_t)ctx->world->size, samples = ctx->max_iterations + batch;
    double fifo = -(double)bb_fifo_capacity();
    int rc;

    BB_NEW(ctx->batch, batch);
    BB_NEW(ctx->all_batches, batch * ranks);
    BB_NEW(ctx->times_last, ranks);
    for (int s = 0; s < BB_SERIES_COUNT; s++)
        BB_NEW(ctx->series[s], samples);
    TRY(bb_world_max(ctx->world, &fifo, 1));
    ctx->fifo_bytes = (size_t)-fifo;
    if (ctx->uses_start_barrier)
        rc = bb_start_barrier_init(&ctx->start_barrier, ctx->start_barrier_limit_ns);
out:
    return rc;
}

void bb_measure_release(struct bb_bench_context *ctx)
{
    bb_start_barrier_release(&ctx->start_barrier);
    free(ctx->batch);
    free(ctx->all_batches);
    free(ctx->times_last);
    for (int s = 0; s < BB_SERIES_COUNT; s++)
        free(ctx->series[s]);
}

/* ---- aggregation over ranks ---- */

static double accumulate(enum bb_rank_aggregation rank_aggregation, double total, double one)
{
    switch (rank_aggregation) {
    case BB_AGGREGATE_MEAN:
        return total + one;
    case BB_AGGREGATE_MIN:
        return fmin(total, one);
    case BB_AGGREGATE_MAX:
        return fmax(total, one);
    default:
        return total;
    }
}

static bool same_group(const struct bb_bench_context *ctx, size_t r)
{
    return !ctx->groups || ctx->groups[r] == ctx->groups[ctx->world->rank];
}

static double sample_of_rank(const struct bb_bench_context *ctx, size_t batch, size_t r, size_t i,
                             enum bb_sample_field field)
{
    return ctx->all_batches[r * batch + i].us[field];
}

/* Combines sample i of all ranks in this rank's --split group into one value, for example their maximum. All ranks
 * of the group combine in the same order (by world rank), so their results are equal. batch: number of samples per
 * rank. */
static double aggregate_ranks(const struct bb_bench_context *ctx, size_t batch, size_t i, enum bb_sample_field field)
{
    double value = 0;
    int seen = 0;

    for (size_t r = 0; r < (size_t)ctx->world->size; r++) {
        double one = sample_of_rank(ctx, batch, r, i, field);
        if (same_group(ctx, r))
            value = seen++ ? accumulate(ctx->rank_aggregation, value, one) : one;
    }
    return ctx->rank_aggregation == BB_AGGREGATE_MEAN ? value / seen : value;
}

/* Determines for sample i of a batch (samples between two evaluations of the stopping rule) which rank arrived last,
 * the time between the first and the last arrival, and the transfer time. Stores them as sample n of the
 * measurement. */
static void record_arrivals(struct bb_bench_context *ctx, size_t batch, size_t i, size_t n)
{
    double shortest = INFINITY, longest = 0;
    size_t last = 0;

    for (size_t r = 0; r < (size_t)ctx->world->size; r++) {
        double one = sample_of_rank(ctx, batch, r, i, BB_SAMPLE_TO_SYNC);
        if (!same_group(ctx, r))
            continue;
        if (one < shortest)
            last = r;
        shortest = fmin(shortest, one);
        longest = fmax(longest, one);
    }
    ctx->series[BB_SERIES_ARRIVAL_SPREAD][n] = longest - shortest;
    ctx->series[BB_SERIES_TRANSFER][n] = sample_of_rank(ctx, batch, last, i, BB_SAMPLE_GPU);
    if (longest - shortest >= LATE_US)
        ctx->times_last[last]++;
}

/* Gathers the newest `batch` samples of every rank and combines each sample over the ranks. Stores the results as
 * samples n, n + 1, ... of the measurement. */
static int combine_ranks(struct bb_bench_context *ctx, size_t batch, size_t n)
{
    enum bb_sample_field shown = ctx->host_time ? BB_SAMPLE_HOST : ctx->host_clock ? BB_SAMPLE_WALL : BB_SAMPLE_GPU;
    int rc = bb_world_allgather(ctx->world, ctx->batch, ctx->all_batches, batch * sizeof *ctx->batch);

    for (size_t i = 0; rc == 0 && i < batch; i++) {
        ctx->series[BB_SERIES_TIME][n + i] = aggregate_ranks(ctx, batch, i, shown);
        ctx->series[BB_SERIES_GPU][n + i] = aggregate_ranks(ctx, batch, i, BB_SAMPLE_GPU);
        ctx->series[BB_SERIES_HOST][n + i] = aggregate_ranks(ctx, batch, i, BB_SAMPLE_HOST);
        ctx->series[BB_SERIES_WALL][n + i] = aggregate_ranks(ctx, batch, i, BB_SAMPLE_WALL);
        record_arrivals(ctx, batch, i, n + i);
    }
    return rc;
}

/* ---- warm-up ---- */

/* Measures the first operation by the host clock, from call to completion. NCCL establishes the connections here. */
static int first_operation(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_metrics *f)
{
    double begin_s;
    int rc;

    TRY(bb_world_barrier(ctx->world, "first operation"));
    bb_world_prompt(ctx->world, true);
    begin_s = bb_now_s();
    TRY(bb_issue(ctx, c, 0, 1, false));
    TRY(bb_bench_context_wait(ctx, "first operation"));
    f->first_us = 1e6 * (bb_now_s() - begin_s);
    ctx->connected = true;
out:
    bb_world_prompt(ctx->world, false);
    return rc;
}

/* Runs WINDOW warm-up operations. Sets *has_trend on all ranks to whether the times of these operations on rank 0 rise
 * or fall steadily. */
static int time_window(struct bb_bench_context *ctx, const struct bb_case *c, bool *has_trend)
{
    int rc;

    TRY(bb_time_single(ctx, c, WINDOW, ctx->batch));
    TRY(combine_ranks(ctx, WINDOW, 0));
    *has_trend = bb_has_trend(ctx->series[BB_SERIES_TIME], WINDOW);
    TRY(bb_world_bcast(ctx->world, has_trend, sizeof *has_trend, 0));
out:
    return rc;
}

static int warm_up(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_metrics *f)
{
    bool has_trend = ctx->auto_warmup;
    int rc = 0;

    ctx->connected = false;
    f->first_us = NAN;
    f->warmed = ctx->warmup;
    if (ctx->warmup > 0)
        TRY(first_operation(ctx, c, f));
    if (ctx->warmup > 1)
        TRY(bb_issue(ctx, c, 1, (size_t)ctx->warmup - 1, false));
    TRY(bb_bench_context_wait(ctx, "warm-up"));
    for (int i = 0; i < WINDOWS_MAX && has_trend; i++, f->warmed += WINDOW)
        TRY(time_window(ctx, c, &has_trend));
out:
    return rc;
}

/* ---- sampling ---- */

/* Decides whether to stop. With --split, sampling continues until the confidence interval of every group is narrow
 * enough. Rank 0 broadcasts the decision, because only rank 0's clock decides whether the time limit is reached. */
static int decide_stop(struct bb_bench_context *ctx, const struct bb_stats *stats, double begin_s, enum bb_stop *stop)
{
    unsigned wide = !bb_stopping_is_confident(&ctx->policy, stats);
    int rc = 0;

    if (ctx->groups && ctx->policy.confidence > 0)
        TRY(bb_world_any(ctx->world, &wide));
    *stop = bb_stopping_decide(&ctx->policy, !wide, stats->n, bb_now_s() - begin_s);
    if (ctx->policy.confidence > 0)
        TRY(bb_world_bcast(ctx->world, stop, sizeof *stop, 0));
out:
    return rc;
}

/* Takes one batch of samples. As in nccl-tests, samples timed by the host clock follow a complete operation, so that
 * their first operation does not pay for connections, cold code or the idle GPU. */
static int time_batch(struct bb_bench_context *ctx, const struct bb_case *c)
{
    int rc = 0;

    bb_world_prompt(ctx->world, ctx->mode->single || ctx->host_clock);
    if (ctx->host_clock) {
        TRY(bb_issue(ctx, c, 0, 1, false));
        TRY(bb_bench_context_wait(ctx, "the untimed operation before the first sample"));
    }
    TRY(ctx->mode->time(ctx, c, ctx->batch));
out:
    bb_world_prompt(ctx->world, false);
    return rc;
}

/* Takes the samples before the next evaluation of the stopping rule (one batch). The first of them becomes sample n
 * of the measurement. Verification reads the data of the last operation of the measurement. The measurement may end
 * after any batch, so test data are written before each batch. */
static int take_batch(struct bb_bench_context *ctx, const struct bb_case *c, size_t n)
{
    int rc;

    if (ctx->checks > 0) {
        TRY(bb_verify_prepare(ctx, c));
        TRY(bb_bench_context_wait(ctx, "writing the test data"));
    }
    TRY(time_batch(ctx, c));
    TRY(combine_ranks(ctx, bb_mode_batch(ctx, ctx->mode), n));
out:
    return rc;
}

static int take_samples(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_metrics *f)
{
    double begin_s = bb_now_s();
    size_t n = 0;
    int rc;

    memset(ctx->times_last, 0, (size_t)ctx->world->size * sizeof *ctx->times_last);
    do {
        TRY(take_batch(ctx, c, n));
        n += bb_mode_batch(ctx, ctx->mode);
        bb_stats_compute(ctx->series[BB_SERIES_TIME], n, &f->time_us);
        TRY(decide_stop(ctx, &f->time_us, begin_s, &f->stop));
    } while (f->stop == BB_STOP_NOT_YET);
out:
    return rc;
}

/* ---- metrics ---- */

static void compute_skew(struct bb_bench_context *ctx, const struct bb_case *c, size_t n, struct bb_skew *skew)
{
    struct bb_stats transfer;

    skew->known = true;
    skew->straggler = -1;
    bb_stats_compute(ctx->series[BB_SERIES_ARRIVAL_SPREAD], n, &skew->spread_us);
    bb_stats_compute(ctx->series[BB_SERIES_TRANSFER], n, &transfer);
    skew->transfer_us = bb_case_synchronizes_ranks(c) ? transfer.p50 : NAN;
    for (int r = 0; r < ctx->world->size; r++)
        if (2 * ctx->times_last[r] > n) {
            skew->straggler = r;
            skew->straggler_share = (double)ctx->times_last[r] / (double)n;
        }
}

/* Results of a measurement on one rank, before they are combined with those of the other ranks. */
struct local_result {
    double first_us;
    bool start_barrier_expired;
};

static int gather_local_results(struct bb_bench_context *ctx, struct bb_metrics *f)
{
    const struct local_result own = {f->first_us, ctx->start_barrier_expired};
    int rc;
    struct local_result *all = bb_world_gather(ctx->world, &own, sizeof own, &rc);

    for (size_t r = 0; all && r < (size_t)ctx->world->size; r++) {
        if (!same_group(ctx, r))
            continue;
        f->first_us = fmax(f->first_us, all[r].first_us);
        if (all[r].start_barrier_expired)
            f->warnings |= 1u << BB_WARN_START_BARRIER_EXPIRED;
    }
    free(all);
    return rc;
}

static int summarize(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_metrics *f)
{
    size_t n = f->time_us.n;
    struct bb_stats host;
    int rc;

    f->warnings = bb_warnings_of(&f->time_us, ctx->series[BB_SERIES_TIME], f->stop);
    if (ctx->symmetric && !ctx->device_kernels && f->seen.choice.kind == BB_CHOICE_COLLECTIVE)
        f->warnings |= 1u << BB_WARN_NOT_SYMMETRIC;
    bb_stats_compute(ctx->series[BB_SERIES_HOST], n, &host);
    f->host_us = host.p50;
    if (ctx->mode->single || !ctx->host_clock)
        bb_stats_compute(ctx->series[BB_SERIES_GPU], n, &f->event_us);
    if (ctx->mode->single || ctx->host_clock)
        bb_stats_compute(ctx->series[BB_SERIES_WALL], n, &f->wall_us);
    if (ctx->mode->single) /* each sample is an iteration */
        f->iterations =
            (struct bb_iteration_metrics){f->time_us, bb_coefficient_of_variation(ctx->series[BB_SERIES_TIME], (int)n)};
    if (ctx->mode->single && c->ranks > 1)
        compute_skew(ctx, c, n, &f->skew);
    TRY(gather_local_results(ctx, f));
    f->uses_start_barrier =
        ctx->mode == &bb_mode_stream && ctx->uses_start_barrier && !(f->warnings & 1u << BB_WARN_START_BARRIER_EXPIRED);
out:
    return rc;
}

/* Verifies received data ctx->checks times, and stops after wrong data. The first verification is of the last timed
 * operation, which is complete. Each later one runs one more operation with new test data and verifies its result. */
static int verify_passes(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_metrics *f)
{
    int rc = 0;

    for (int pass = 0; bb_case_possible(c) && pass < ctx->checks && f->wrong == 0; pass++) {
        if (pass > 0) {
            TRY(bb_verify_prepare(ctx, c));
            TRY(bb_bench_context_wait(ctx, "writing the test data"));
            TRY(BB_GUARDED(ctx->world, "an operation to be checked",
                           bb_case_launch(ctx, c, bb_case_slots(ctx, c) - 1)));
        }
        TRY(bb_verify(ctx, c, f));
    }
out:
    return rc;
}

/* Takes one sample timed by the host clock, as nccl-tests does. Runs last, so that this sample affects no other
 * metric. */
static int take_host_clock_sample(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_metrics *f)
{
    struct bb_bench_context host = *ctx;
    int rc;

    if (!ctx->both_clocks || ctx->mode->single || ctx->host_time)
        return 0;
    host.host_clock = true;
    host.uses_start_barrier = false;
    host.repeats = 1;
    host.checks = 0;
    host.iteration_events = NULL;
    TRY(time_batch(&host, c));
    TRY(combine_ranks(ctx, 1, 0));
    bb_stats_compute(ctx->series[BB_SERIES_WALL], 1, &f->wall_us);
out:
    return rc;
}

/* Runs one part of the measurement in its range for profilers. */
static int run_part(struct bb_bench_context *ctx, enum bb_part part, const struct bb_case *c, struct bb_metrics *f,
                    int (*run)(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_metrics *f))
{
    int rc;

    TRY(bb_part_begin(&ctx->nvtx, part));
    TRY(run(ctx, c, f));
    TRY(bb_part_end(&ctx->nvtx, part));
out:
    return rc;
}

/* The kernel of --device in the form of NCCL's choice. */
static struct bb_choice choice_of_device(const struct bb_device *d)
{
    struct bb_choice choice = {
        .kind = BB_CHOICE_COLLECTIVE, .algorithm = "DEVICE", .channels = d->ctas, .warps = BB_DEVICE_THREADS / 32};

    for (int i = 0; bb_device_paths[d->path - 1][i]; i++)
        choice.protocol[i] = (char)toupper((unsigned char)bb_device_paths[d->path - 1][i]);
    return choice;
}

static int measure_row(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_metrics *f)
{
    int rc;

    bb_telemetry_begin_warmup(ctx->observer);
    TRY(run_part(ctx, BB_PART_WARM_UP, c, f, warm_up));
    bb_telemetry_begin_timing(ctx->observer, &f->seen);
    if (ctx->device_kernels)
        f->seen.choice = choice_of_device(ctx->device_kernels);
    if (ctx->connected && !ctx->host_clock)
        TRY(bb_connect_sync(ctx, c)); /* only after NCCL's choice has been recorded, because this all_reduce must not
                                         be recorded as the choice */
    f->model_us = NAN;
    if (ctx->estimates)
        TRY(bb_nccl_estimate(ctx, c, &f->model_us));
    TRY(run_part(ctx, BB_PART_SAMPLES, c, f, take_samples));
    TRY(bb_telemetry_end_timing(ctx->observer, ctx->world, &f->seen));
    if (ctx->iteration_events)
        TRY(bb_iteration_events_metrics(ctx->iteration_events, c->in_place, ctx->world, ctx->groups, &f->iterations));
    TRY(summarize(ctx, c, f));
    f->bytes = bb_case_bytes(c);
    bb_case_bandwidths(c, ctx->host_time ? NAN : f->time_us.p50, &f->algbw_gbps, &f->busbw_gbps);
    TRY(run_part(ctx, BB_PART_CHECK, c, f, verify_passes));
    TRY(take_host_clock_sample(ctx, c, f));
    if (!f->checked)
        f->warnings |= 1u << BB_WARN_NOT_CHECKED;
out:
    return rc;
}

int bb_measure(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_metrics *f)
{
    const char *op = c->redop == BB_COPY ? "" : bb_redops[c->redop].name, *space = c->redop == BB_COPY ? "" : " ";
    const char *where = c->in_place ? "in_place" : "out_of_place";
    char size[BB_BYTES_TEXT], text[96];
    int rc;

    *f = (struct bb_metrics){0};
    snprintf(text, sizeof text, "%s %s %s%s%s %s", bb_colls[c->kind].name, bb_format_bytes(bb_case_bytes(c), size),
             bb_dtypes[c->dtype].name, space, op, where);
    bb_world_reached(ctx->world, "bench %s", text);
    bb_range_push_once(&ctx->nvtx, BB_NVTX_WORLD, bb_case_bytes(c), "%s", text);
    rc = measure_row(ctx, c, f);
    bb_range_pop(&ctx->nvtx);
    return rc;
}
