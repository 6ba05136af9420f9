/* step_measure.c - runs the warm-up, timed and traced steps of a program, and the steps with compute or
 * communication alone (see step_measure.h). */
#include "proxies/run/step_measure.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/clock.h"
#include "cuda/device/check.h"

#include <cuda_profiler_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct series {
    const char *name; /* name of the steps in messages, for example "step" or "compute alone" */
    unsigned what;    /* enum bb_issue flags: launch compute, communication, or both */
    int n;            /* number of steps */
};

/* ---- steps without tracing, whose step times are reported ---- */

/* Statistics of timed steps: step times, issue times (host time to enqueue a step) and reaction times (until the host
 * observes the common start). */
struct timed_stats {
    struct bb_stats step, issue, reaction;
};

/* Computes the statistics of n steps. us: [3 n] the n step times, then the n issue times (host time to enqueue a
 * step), then the n reaction times (until the host observes the common start). */
static void stats_of_all(const double *us, size_t n, struct timed_stats *stats)
{
    bb_stats_compute(us, n, &stats->step);
    bb_stats_compute(us + n, n, &stats->issue);
    bb_stats_compute(us + 2 * n, n, &stats->reaction);
}

/* Runs s->n steps with the flags s->what. step_us: out, [n] step time of the slowest rank in each step; stats: out,
 * statistics of the slowest rank's step, issue and reaction times (see stats_of_all). step_us and stats may be NULL. */
static int run_timed(struct bb_runner *r, const struct series *s, struct bb_progress *progress, double *step_us,
                     struct timed_stats *stats)
{
    size_t n = (size_t)s->n;
    struct bb_step_time t;
    char name[64];
    double *own;
    int rc = 0;

    BB_NEW(own, n * 3);
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "%s %zu", s->name, i);
        bb_progress_show(progress, "%s of %d", name, s->n);
        TRY(bb_runner_step(r, name, s->what, false, &t));
        bb_progress_advance(progress, 1);
        own[i] = t.step_us;
        own[n + i] = t.issue_us;
        own[2 * n + i] = t.reaction_us;
    }
    if (step_us || stats)
        TRY(bb_world_max(r->world, own, n * 3));
    if (step_us)
        memcpy(step_us, own, n * sizeof(*own));
    if (stats)
        stats_of_all(own, n, stats);
out:
    free(own);
    return rc;
}

static int time_steps(struct bb_runner *r, int n, struct bb_progress *progress, struct bb_measured *m)
{
    const struct series s = {"step", BB_ISSUE_ALL, n};
    struct timed_stats stats;
    int rc;

    BB_NEW(m->step_us, n);
    TRY(BB_CUDA(cudaProfilerStart()));
    TRY(run_timed(r, &s, progress, m->step_us, &stats));
    TRY(BB_CUDA(cudaProfilerStop()));
    m->step = stats.step;
    m->issue = stats.issue;
    m->reaction = stats.reaction;
    m->steps = n;
out:
    return rc;
}

/* Times steps that replay the CUDA graph of the step. Requires that a step was run without the graph before, because
 * NCCL connects peers at their first use. The first launch of the graph uploads it to the GPU and is not timed. */
static int time_graph(struct bb_runner *r, const struct bb_measure_plan *plan, struct bb_progress *progress,
                      struct bb_measured *m)
{
    const struct series warmup = {"graph warm-up", BB_ISSUE_GRAPH, plan->warmup > 0 ? plan->warmup : 1};
    const struct series timed = {"graph step", BB_ISSUE_GRAPH, plan->steps};
    struct timed_stats stats;
    double begin_s = bb_now_s();
    int rc;

    TRY(bb_runner_capture(r));
    m->capture_ms = (bb_now_s() - begin_s) * 1e3;
    TRY(bb_world_max(r->world, &m->capture_ms, 1));
    TRY(run_timed(r, &warmup, progress, NULL, NULL));
    TRY(run_timed(r, &timed, progress, NULL, &stats));
    m->graph_step = stats.step;
    m->graph_issue = stats.issue;
    m->has_graph = true;
out:
    return rc;
}

/* Sets *expired to true on all ranks if the start barrier of the latest step reached its time limit on any rank. All
 * ranks call this together. */
static int check_barrier_expired(struct bb_runner *r, bool *expired)
{
    double one = bb_start_barrier_expired(&r->start_barrier);
    int rc = bb_world_max(r->world, &one, 1);

    *expired = one > 0;
    return rc;
}

/* Times n steps with a start barrier, after one warm-up step. If the barrier reaches its time limit in the warm-up
 * step, the timed steps are skipped, because each of them would take the two seconds of the limit. If the barrier
 * reaches the limit in the warm-up step or in the last timed step, prints a warning and reports no times. */
static int time_start_barrier_steps(struct bb_runner *r, int n, struct bb_progress *progress, struct bb_measured *m)
{
    const struct series warmup = {"start-barrier warm-up", BB_ISSUE_START_BARRIER, 1},
                        timed = {"start-barrier step", BB_ISSUE_START_BARRIER, n};
    struct timed_stats stats;
    bool expired;
    int rc;

    TRY(bb_runner_init_start_barrier(r));
    TRY(run_timed(r, &warmup, progress, NULL, NULL));
    TRY(check_barrier_expired(r, &expired));
    if (!expired) {
        TRY(run_timed(r, &timed, progress, NULL, &stats));
        TRY(check_barrier_expired(r, &expired));
    }
    if (expired) {
        if (r->world->rank == 0)
            bb_warn("--start-barrier: a call blocked before the whole step was issued (launch queue full); steps with "
                    "a start barrier are not reported; try: --graph");
        goto out;
    }
    m->start_barrier_step = stats.step;
    m->start_barrier_issue = stats.issue;
    m->start_barrier = true;
out:
    return rc;
}

/* Runs s->n steps with the flags s->what (for example compute alone). median_us: out, median of the step times. */
static int time_part(struct bb_runner *r, const struct series *s, struct bb_progress *progress, double *median_us)
{
    struct timed_stats stats;
    int rc;

    TRY(run_timed(r, s, progress, NULL, &stats));
    *median_us = stats.step.p50;
out:
    return rc;
}

/* ---- traced steps ---- */

struct traced {
    struct bb_rank_breakdown **all; /* out: [ranks] means of the traced steps of each rank; NULL without traced steps */
    struct bb_traced_step *last;    /* out: times of the final traced step on this rank; released by the caller */
    double start_sync_us;
    /* out: statistics of the step times and of the host times to enqueue a step, each of the slowest rank in each
     * step; NULL: not computed */
    struct bb_stats *step, *issue;
};

/* Computes the statistics of n traced steps. us: in: [2 n] the n step times of this rank, then its n issue times
 * (host time to enqueue a step); out: the same times of the slowest rank in each step. */
static int traced_stats(struct bb_world *w, double *us, int n, struct bb_stats *step, struct bb_stats *issue)
{
    int rc;

    TRY(bb_world_max(w, us, (size_t)n * 2));
    bb_stats_compute(us, (size_t)n, step);
    bb_stats_compute(us + n, (size_t)n, issue);
out:
    return rc;
}

static int trace_steps(struct bb_runner *r, const struct series *s, struct bb_progress *progress, struct traced *out)
{
    struct bb_rank_breakdown own = {0};
    struct bb_step_time t;
    char name[64];
    double *us;
    int rc;

    if (s->n == 0)
        return 0;
    BB_NEW(us, s->n * 2);
    BB_NEW(out->last->lanes, r->n_lanes);
    TRY(bb_runner_trace(r));
    for (int i = 0; i < s->n; i++) {
        snprintf(name, sizeof(name), "traced %s %d", s->name, i);
        bb_progress_show(progress, "%s of %d", name, s->n);
        TRY(bb_runner_step(r, name, s->what, true, &t));
        bb_progress_advance(progress, 1);
        TRY(bb_traced_step_read(out->last, r, s->what));
        TRY(bb_rank_breakdown_split(&own, r, out->last));
        bb_rank_breakdown_add(&own, r, out->last);
        out->start_sync_us = t.start_sync_us;
        us[i] = t.step_us;
        us[s->n + i] = t.issue_us;
    }
    *out->all = bb_world_gather(r->world, &own, sizeof(own), &rc);
    TRY(rc);
    if (out->step)
        TRY(traced_stats(r->world, us, s->n, out->step, out->issue));
out:
    free(us);
    return rc;
}

/* Runs s->n traced steps with the flags s->what (for example compute alone). all: out, [ranks] means of the traced
 * steps of each rank. */
static int trace_part(struct bb_runner *r, const struct series *s, struct bb_progress *progress,
                      struct bb_rank_breakdown **all)
{
    struct bb_traced_step last = {0};
    struct traced out = {.all = all, .last = &last};
    int rc = trace_steps(r, s, progress, &out);

    bb_traced_step_release(&last);
    return rc;
}

/* ---- sequence of all measurements ---- */

static int measure_alone(struct bb_runner *r, const struct bb_measure_plan *plan, struct bb_progress *progress,
                         struct bb_measured *m)
{
    struct series compute = {"compute alone", BB_ISSUE_COMPUTE, plan->steps};
    struct series comm = {"communication alone", BB_ISSUE_COMM, plan->steps};
    int rc;

    TRY(time_part(r, &compute, progress, &m->compute_alone_us));
    TRY(time_part(r, &comm, progress, &m->comm_alone_us));
    compute.n = comm.n = plan->traced_steps;
    TRY(trace_part(r, &compute, progress, &m->compute_alone));
    TRY(trace_part(r, &comm, progress, &m->comm_alone));
    m->alone = true;
out:
    return rc;
}

int bb_step_measure(struct bb_runner *r, const struct bb_measure_plan *plan, struct bb_progress *progress,
                    struct bb_measured *m)
{
    const struct series warmup = {"warm-up", BB_ISSUE_ALL, plan->warmup};
    const struct series traced = {"step", BB_ISSUE_ALL, plan->traced_steps};
    struct traced out = {.all = &m->traced, .last = &m->last, .step = &m->traced_step, .issue = &m->traced_issue};
    int rc;

    *m = (struct bb_measured){.ranks = r->world->size, .traced_steps = plan->traced_steps};
    TRY(run_timed(r, &warmup, progress, NULL, NULL));
    TRY(time_steps(r, plan->steps, progress, m));
    if (plan->graph)
        TRY(time_graph(r, plan, progress, m));
    if (plan->start_barrier)
        TRY(time_start_barrier_steps(r, plan->steps, progress, m));
    TRY(trace_steps(r, &traced, progress, &out));
    m->start_sync_us = out.start_sync_us;
    if (plan->alone)
        TRY(measure_alone(r, plan, progress, m));
out:
    bb_progress_clear(progress);
    return rc;
}

int bb_measure_steps(struct bb_runner *r, const char *name, int n, struct bb_progress *progress, double *step_us)
{
    const struct series s = {name, BB_ISSUE_ALL, n};

    return run_timed(r, &s, progress, step_us, NULL);
}

void bb_measured_release(struct bb_measured *m)
{
    free(m->step_us);
    free(m->traced);
    bb_traced_step_release(&m->last);
    free(m->compute_alone);
    free(m->comm_alone);
    *m = (struct bb_measured){0};
}

int bb_slowest_rank(const struct bb_measured *m, const struct bb_step *step, int role)
{
    int slowest = BB_NONE;

    for (int i = 0; m->traced && i < m->ranks; i++)
        if ((role == BB_NONE || step->role_of[i] == role) &&
            (slowest == BB_NONE || m->traced[i].step_us > m->traced[slowest].step_us))
            slowest = i;
    return slowest;
}
