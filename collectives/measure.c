/*
 * measure.c - the timed loop.
 *
 * stream: a sample is `iterations` operations back to back on one stream between two events, divided by their number.
 * One operation runs before the first event: it gathers the ranks, so that a late rank costs no sample its time, and
 * fills the launch queue. Per sample the slowest rank counts, unless another choice is made: a collective is done
 * when all are.
 */
#include "collectives/measure.h"

#include "bootstrap/clock.h"
#include "bootstrap/units.h"
#include "collectives/issue.h"
#include "collectives/verify.h"
#include "cuda/check.h"

#include <math.h>
#include <stdio.h>

/* ---- samples ------------------------------------------------------------------------------------------------------
 */

const char *bb_rig_mode(const struct bb_rig *rig)
{
    return rig->host_time ? "host" : rig->mode->name;
}

const char *bb_rig_method(const struct bb_rig *rig)
{
    return rig->host_time ? "operations, the host's time to enqueue them" : rig->mode->help;
}

size_t bb_rig_aggregate(const struct bb_rig *rig)
{
    return rig->aggregate > 1 ? (size_t)rig->aggregate : 1;
}

/* From the first to the last enqueue of a sample, by the host's clock, and from event to event on the GPU. */
struct span {
    double host_us, gpu_us;
};

static int begin_span(struct bb_rig *rig, struct span *span)
{
    int rc = BB_CUDA(cudaEventRecord(rig->start, rig->stream));

    span->host_us -= 1e6 * bb_now_s();
    return rc;
}

static int end_span(struct bb_rig *rig, struct span *span)
{
    float ms;
    int rc;

    span->host_us += 1e6 * bb_now_s();
    TRY(BB_CUDA(cudaEventRecord(rig->stop, rig->stream)));
    TRY(bb_rig_wait(rig, "timed operations"));
    TRY(BB_CUDA(cudaEventElapsedTime(&ms, rig->start, rig->stop)));
    span->gpu_us += ms * 1e3;
out:
    return rc;
}

static double per_operation(const struct bb_rig *rig, const struct span *span, double iterations)
{
    return (rig->host_time ? span->host_us : span->gpu_us) / (iterations * (double)bb_rig_aggregate(rig));
}

static void mark(struct bb_rig *rig, bool on)
{
    if (rig->marks)
        rig->marks->on = on;
}

static int one_sample(struct bb_rig *rig, const struct bb_case *c, bool ends_row, double *sample)
{
    struct span span = {0};
    int rc;

    TRY(bb_world_barrier(rig->world, "start of a sample"));
    TRY(bb_issue(rig, c, 1, false));
    mark(rig, ends_row);
    TRY(begin_span(rig, &span));
    TRY(bb_issue(rig, c, (size_t)rig->iterations, ends_row));
    TRY(end_span(rig, &span));
    if (rig->marks && ends_row)
        TRY(bb_marks_read(rig->marks));
    mark(rig, false);
    *sample = per_operation(rig, &span, rig->iterations);
out:
    return rc;
}

static int time_stream(struct bb_rig *rig, const struct bb_case *c, double *samples)
{
    int rc = 0;

    for (int r = 0; r < rig->repeats && rc == 0; r++)
        rc = one_sample(rig, c, r == rig->repeats - 1, &samples[r]);
    return rc;
}

const struct bb_mode bb_mode_stream = {
    .name = "stream", .help = "operations back to back on one stream between CUDA events", .time = time_stream};

/* The wait between two iterations is part of the time or, with the barrier kept out of it, not. */
static int one_blocked_sample(struct bb_rig *rig, const struct bb_case *c, bool ends_row, double *sample)
{
    struct span span = {0};
    double before;
    int rc = 0;

    for (int i = 0; i < rig->iterations; i++) {
        before = span.gpu_us;
        TRY(bb_world_barrier(rig->world, "start of an iteration"));
        TRY(begin_span(rig, &span));
        TRY(bb_issue(rig, c, 1, ends_row && i == rig->iterations - 1));
        TRY(end_span(rig, &span));
        if (rig->marks)
            rig->marks->us[i] = span.gpu_us - before;
    }
    *sample = per_operation(rig, &span, rig->iterations);
out:
    return rc;
}

static int time_blocked(struct bb_rig *rig, const struct bb_case *c, double *samples)
{
    int rc = 0;

    if (rig->blocking != BB_BLOCK_APART)
        return time_stream(rig, c, samples);
    for (int r = 0; r < rig->repeats && rc == 0; r++)
        rc = one_blocked_sample(rig, c, r == rig->repeats - 1, &samples[r]);
    return rc;
}

const struct bb_mode bb_mode_blocked = {
    .name = "blocked", .help = "operations, each iteration waited for by the host", .time = time_blocked};

/* ---- graph: the iterations captured once, then launched; no figure contains a first launch ----------------------- */

static int capture(struct bb_rig *rig, const struct bb_case *c, cudaGraphExec_t *exec)
{
    cudaGraph_t graph = NULL;
    int rc, end;

    TRY(BB_CUDA(cudaStreamBeginCapture(rig->stream, cudaStreamCaptureModeThreadLocal)));
    rc = bb_issue(rig, c, (size_t)rig->iterations, true);
    end = BB_CUDA(cudaStreamEndCapture(rig->stream, &graph));
    TRY(rc ? rc : end);
    TRY(BB_CUDA(cudaGraphInstantiate(exec, graph, 0)));
out:
    if (graph)
        (void)cudaGraphDestroy(graph);
    return rc;
}

static int launch_graph(struct bb_rig *rig, cudaGraphExec_t exec, int times)
{
    int rc = 0;

    for (int i = 0; i < times && rc == 0; i++)
        rc = BB_CUDA(cudaGraphLaunch(exec, rig->stream));
    return rc;
}

static int one_graph_sample(struct bb_rig *rig, cudaGraphExec_t exec, double *sample)
{
    struct span span = {0};
    int rc;

    TRY(bb_world_barrier(rig->world, "start of a sample"));
    TRY(launch_graph(rig, exec, 1));
    TRY(begin_span(rig, &span));
    TRY(launch_graph(rig, exec, rig->graph_launches));
    TRY(end_span(rig, &span));
    *sample = per_operation(rig, &span, (double)rig->iterations * rig->graph_launches);
out:
    return rc;
}

/* Data for the check go through one more launch of the same graph: in place, each launch consumes its input. */
static int time_graph(struct bb_rig *rig, const struct bb_case *c, double *samples)
{
    cudaGraphExec_t exec = NULL;
    int rc;

    TRY(capture(rig, c, &exec));
    TRY(launch_graph(rig, exec, 1));
    TRY(bb_rig_wait(rig, "first launch of a graph"));
    for (int r = 0; r < rig->repeats; r++)
        TRY(one_graph_sample(rig, exec, &samples[r]));
    if (rig->checks > 0)
        TRY(bb_verify_prepare(rig, c));
    TRY(launch_graph(rig, exec, 1));
    TRY(bb_rig_wait(rig, "last launch of a graph"));
out:
    if (exec)
        (void)cudaGraphExecDestroy(exec);
    return rc;
}

const struct bb_mode bb_mode_graph = {
    .name = "graph", .help = "operations in a CUDA graph, launched warm, between CUDA events", .time = time_graph};

/* ---- over ranks ---------------------------------------------------------------------------------------------------
 */

const char *const bb_across_names[BB_ACROSS_COUNT] = {[BB_ACROSS_FIRST] = "the first rank",
                                                      [BB_ACROSS_MEAN] = "the mean over ranks",
                                                      [BB_ACROSS_MIN] = "the fastest rank",
                                                      [BB_ACROSS_MAX] = "the slowest rank"};

static double joined(enum bb_across across, double sofar, double one)
{
    switch (across) {
    case BB_ACROSS_MEAN:
        return sofar + one;
    case BB_ACROSS_MIN:
        return fmin(sofar, one);
    case BB_ACROSS_MAX:
        return fmax(sofar, one);
    default:
        return sofar;
    }
}

/* One sample over the ranks of this rank's group, which are in order of their world ranks. */
static double across_ranks(const struct bb_rig *rig, size_t samples, size_t i)
{
    double value = 0;
    int seen = 0;

    for (size_t r = 0; r < (size_t)rig->world->size; r++)
        if (!rig->groups || rig->groups[r] == rig->groups[rig->world->rank])
            value = seen++ ? joined(rig->across, value, rig->all_samples[r * samples + i])
                           : rig->all_samples[r * samples + i];
    return rig->across == BB_ACROSS_MEAN ? value / seen : value;
}

/* Each sample becomes that of its group. */
static int combine(struct bb_rig *rig)
{
    size_t n = (size_t)rig->repeats;
    int rc = bb_world_allgather(rig->world, rig->samples, rig->all_samples, n * sizeof *rig->samples);

    for (size_t i = 0; rc == 0 && i < n; i++)
        rig->samples[i] = across_ranks(rig, n, i);
    return rc;
}

static void bandwidths(const struct bb_case *c, struct bb_figures *f)
{
    double (*part)(int) = bb_colls[c->kind].alg_factor, counted = part ? part(c->ranks) : 1;
    double median = f->time_us.p50;

    f->bytes = bb_case_bytes(c);
    f->factor = bb_colls[c->kind].bus_factor(c->ranks);
    f->algbw_gbps = median > 0 ? counted * (double)f->bytes / median / 1e3 : NAN;
    f->busbw_gbps = c->ranks > 1 ? f->algbw_gbps * f->factor : NAN;
}

/* Pass 1 looks at the last timed operation, which is done; further ones run one operation each. */
static int verified_passes(struct bb_rig *rig, const struct bb_case *c, struct bb_figures *f)
{
    int rc = 0;

    for (int pass = 0; bb_case_possible(c) && pass < rig->checks && f->wrong == 0; pass++) {
        if (pass > 0) {
            TRY(bb_verify_prepare(rig, c));
            TRY(bb_rig_wait(rig, "data for a check"));
            TRY(bb_case_launch(rig, c, bb_case_slots(rig, c) - 1));
        }
        TRY(bb_verify(rig, c, f));
    }
out:
    return rc;
}

static int measure_row(struct bb_rig *rig, const struct bb_case *c, struct bb_figures *f)
{
    int rc;

    if (rig->checks > 0)
        TRY(bb_verify_prepare(rig, c));
    bb_observe_warmup(rig->observer);
    TRY(bb_issue(rig, c, (size_t)rig->warmup, false));
    TRY(bb_rig_wait(rig, "warm-up"));
    bb_observe_start(rig->observer, &f->seen);
    TRY(rig->mode->time(rig, c, rig->samples));
    TRY(bb_observe_end(rig->observer, rig->world, &f->seen));
    if (rig->marks)
        TRY(bb_marks_figures(rig->marks, rig->world, rig->groups, &f->iterations));
    TRY(combine(rig));
    TRY(bb_stats_of(rig->samples, (size_t)rig->repeats, &f->time_us));
    bandwidths(c, f);
    TRY(verified_passes(rig, c, f));
out:
    return rc;
}

int bb_measure(struct bb_rig *rig, const struct bb_case *c, struct bb_figures *f)
{
    const char *op = c->redop == BB_COPY ? "" : bb_redops[c->redop].name, *space = c->redop == BB_COPY ? "" : " ";
    const char *where = c->in_place ? "in_place" : "out_of_place";
    char size[BB_BYTES_TEXT], text[96];
    struct bb_range range;
    int rc;

    *f = (struct bb_figures){0};
    snprintf(text, sizeof text, "%s %s %s%s%s %s", bb_colls[c->kind].name, bb_format_bytes(bb_case_bytes(c), size),
             bb_dtypes[c->dtype].name, space, op, where);
    bb_world_reached(rig->world, "bench %s", text);
    bb_range_init(&rig->nvtx, &range, BB_NVTX_WORLD, bb_case_bytes(c), "%s", text);
    bb_range_push(&rig->nvtx, &range);
    rc = measure_row(rig, c, f);
    bb_range_pop(&rig->nvtx);
    return rc;
}
