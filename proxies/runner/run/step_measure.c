/* step_measure.c - runs the warm-up, timed and traced steps of a program, and the steps with compute or
 * communication alone (see step_measure.h). */
#include "proxies/runner/run/step_measure.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/clock.h"
#include "cuda/device/check.h"

#include <cuda_profiler_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A series of steps, and where its results are stored; NULL: the result is not needed. */
struct series {
    const char *name; /* name of the steps in messages, for example "step" or "compute alone" */
    unsigned what;    /* enum bb_issue flags: launch compute, communication, or both */
    int n;            /* number of steps */
    double *step_us;  /* [n] step time of the slowest rank in each step */
    struct bb_step_stats *stats;
    struct bb_rank_breakdown **traced; /* [ranks] means of the steps of each rank; set: the steps are traced */
    struct bb_traced_step *last;       /* times of the final traced step on this rank; released by the caller */
};

static int run_series(struct bb_runner *r, struct bb_progress *progress, const struct series *s)
{
    const size_t n = (size_t)s->n;
    struct bb_rank_breakdown own = {0};
    struct bb_traced_step last = {0};
    struct bb_step_time t;
    char name[64];
    double *us; /* [3 n] the n step times, then the n issue times, then the n reaction times */
    int rc = 0;

    BB_NEW(us, n * 3);
    BB_NEW(last.lanes, r->n_lanes);
    BB_NEW(last.waited_ns, r->layout->n_groups * r->world->size);
    if (s->traced)
        TRY(bb_runner_trace(r));
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "%s %zu", s->name, i);
        bb_progress_show(progress, "%s of %d", name, s->n);
        TRY(bb_runner_step(r, name, s->what, s->traced, &t));
        bb_progress_advance(progress, 1);
        if (s->traced)
            TRY(bb_rank_breakdown_add(&own, r, &last, s->what));
        last.start_sync_us = t.start_sync_us;
        us[i] = t.step_us;
        us[n + i] = t.issue_us;
        us[2 * n + i] = t.reaction_us;
    }
    if (s->traced) {
        *s->traced = bb_world_gather(r->world, &own, sizeof(own), &rc);
        TRY(rc);
    }
    if (s->step_us || s->stats)
        TRY(bb_world_max(r->world, us, n * 3));
    if (s->step_us)
        memcpy(s->step_us, us, n * sizeof(*us));
    if (s->stats) {
        bb_stats_compute(us, n, &s->stats->step);
        bb_stats_compute(us + n, n, &s->stats->issue);
        bb_stats_compute(us + 2 * n, n, &s->stats->reaction);
    }
    if (s->last) {
        *s->last = last;
        s->last->waited_ns = NULL;
        last.lanes = NULL;
    }
out:
    free(us);
    free(last.waited_ns);
    free(last.lanes);
    return rc;
}

/* ---- kinds of steps ---- */

/* Times steps that replay the CUDA graph of the step. Requires that a step was run without the graph before, because
 * NCCL connects peers at their first use. The first launch of the graph uploads it to the GPU and is not timed. */
static int time_graph(struct bb_runner *r, const struct bb_measure_plan *plan, struct bb_progress *progress,
                      struct bb_measured *m)
{
    const struct series warmup = {"graph warm-up", BB_ISSUE_GRAPH, .n = plan->warmup > 0 ? plan->warmup : 1};
    const struct series timed = {"graph step", BB_ISSUE_GRAPH, plan->steps, .stats = &m->graph};
    double begin_s = bb_now_s();
    int rc;

    TRY(bb_runner_capture(r));
    m->capture_ms = (bb_now_s() - begin_s) * 1e3;
    TRY(bb_world_max(r->world, &m->capture_ms, 1));
    TRY(run_series(r, progress, &warmup));
    TRY(run_series(r, progress, &timed));
out:
    return rc;
}

/* Sets *expired to a value above 0 on all ranks if the start barrier of the latest step reached its time limit on any
 * rank. All ranks call this together. */
static int check_barrier_expired(struct bb_runner *r, double *expired)
{
    *expired = bb_start_barrier_expired(&r->start_barrier);
    return bb_world_max(r->world, expired, 1);
}

/* Times n steps with a start barrier, after one warm-up step. If the barrier reaches its time limit in the warm-up
 * step, the timed steps are skipped, because each of them would take the two seconds of the limit. If the barrier
 * reaches the limit in the warm-up step or in the last timed step, prints a warning and reports no times. */
static int time_start_barrier_steps(struct bb_runner *r, int n, struct bb_progress *progress, struct bb_measured *m)
{
    static const int64_t limit_ns = 2000000000; /* after this time the barrier opens automatically */
    const unsigned what = BB_ISSUE_ALL | BB_ISSUE_START_BARRIER;
    const struct series warmup = {"start-barrier warm-up", what, .n = 1};
    const struct series timed = {"start-barrier step", what, n, .stats = &m->start_barrier};
    double expired;
    int rc;

    TRY(bb_start_barrier_init(&r->start_barrier, limit_ns));
    TRY(run_series(r, progress, &warmup));
    TRY(check_barrier_expired(r, &expired));
    if (expired == 0) {
        TRY(run_series(r, progress, &timed));
        TRY(check_barrier_expired(r, &expired));
    }
    if (expired == 0)
        return 0;
    m->start_barrier = (struct bb_step_stats){0};
    if (r->world->rank == 0)
        bb_warn("--start-barrier: a call blocked before the whole step was issued (launch queue full); steps with "
                "a start barrier are not reported; try: --graph");
out:
    return rc;
}

static int measure_alone(struct bb_runner *r, const struct bb_measure_plan *plan, struct bb_progress *progress,
                         struct bb_measured *m)
{
    struct bb_step_stats compute, comm;
    const int traced = plan->traced_steps;
    const struct series series[] = {
        {"compute alone", BB_ISSUE_COMPUTE, plan->steps, .stats = &compute},
        {"communication alone", BB_ISSUE_COMM, plan->steps, .stats = &comm},
        {"traced compute alone", BB_ISSUE_COMPUTE, traced, .traced = &m->compute_alone},
        {"traced communication alone", BB_ISSUE_COMM, traced, .traced = &m->comm_alone},
    };
    int rc = 0;

    for (int i = 0; i < (traced ? 4 : 2); i++)
        TRY(run_series(r, progress, &series[i]));
    m->compute_alone_us = compute.step.p50;
    m->comm_alone_us = comm.step.p50;
    m->alone = true;
out:
    return rc;
}

/* ---- sequence of all measurements ---- */

int bb_step_measure(struct bb_runner *r, const struct bb_measure_plan *plan, struct bb_progress *progress,
                    struct bb_measured *m)
{
    const struct series warmup = {"warm-up", BB_ISSUE_ALL, .n = plan->warmup};
    const struct series timed = {"step", BB_ISSUE_ALL, plan->steps, .stats = &m->timed};
    const struct series traced = {"traced step",        BB_ISSUE_ALL,         plan->traced_steps,
                                  .stats = &m->tracing, .traced = &m->traced, .last = &m->last};
    const double expected = progress->total;
    int rc;

    *m = (struct bb_measured){.ranks = r->world->size, .traced_steps = plan->traced_steps};
    bb_progress_expect(progress, 0); /* warm-up steps include work that is done once: no basis for the time left */
    TRY(run_series(r, progress, &warmup));
    bb_progress_expect(progress, expected - plan->warmup);
    TRY(BB_CUDA(cudaProfilerStart()));
    TRY(run_series(r, progress, &timed));
    TRY(BB_CUDA(cudaProfilerStop()));
    m->steps = plan->steps;
    if (plan->start_barrier)
        TRY(time_start_barrier_steps(r, plan->steps, progress, m));
    if (plan->traced_steps)
        TRY(run_series(r, progress, &traced));
    if (plan->alone)
        TRY(measure_alone(r, plan, progress, m));
    if (plan->graph) /* last, because a capture slows down the later operations of NCCL (NCCL_GRAPH_MIXING_SUPPORT) */
        TRY(time_graph(r, plan, progress, m));
out:
    bb_progress_clear(progress);
    return rc;
}

int bb_measure_steps(struct bb_runner *r, const char *name, int n, struct bb_progress *progress, double *step_us)
{
    return run_series(r, progress, &(struct series){name, BB_ISSUE_ALL, n, .step_us = step_us});
}

void bb_measured_release(struct bb_measured *m)
{
    free(m->traced);
    free(m->last.lanes);
    free(m->compute_alone);
    free(m->comm_alone);
    *m = (struct bb_measured){0};
}

/* The traced ranks of a role; BB_NONE: all. */
struct traced_role {
    const struct bb_rank_breakdown *traced;
    const int *role_of;
    int role;
};

static struct bb_rank_load load_of(const void *from, int i)
{
    const struct traced_role *of = from;
    const struct bb_rank_breakdown *r = &of->traced[i];

    if (of->role != BB_NONE && of->role_of[i] != of->role)
        return (struct bb_rank_load){.step = -1};
    return (struct bb_rank_load){r->step_us, r->compute_us + r->exposed_transfer_us};
}

int bb_slowest_rank(const struct bb_measured *m, const struct bb_step *step, int role)
{
    const struct traced_role of = {m->traced, step->role_of, role};

    return bb_limiting_rank(m->traced ? m->ranks : 0, load_of, &of);
}
