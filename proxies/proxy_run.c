/*
 * proxy_run.c - runs `busbar proxy`: initializes ranks and GPUs, builds and checks the step, measures it, writes the
 * reports and releases all resources.
 */
#include "bootstrap/base/environment.h"
#include "bootstrap/base/outfile.h"
#include "bootstrap/base/units.h"
#include "collectives/measure/start_barrier_capacity.h"
#include "collectives/session/session.h"
#include "proxies/form/models/profile.h"
#include "proxies/form/step/step_start_barrier.h"
#include "proxies/offline/plan/forecast.h"
#include "proxies/offline/plan/plan_export.h"
#include "proxies/proxy_main.h"
#include "proxies/runner/run/data_check.h"
#include "proxies/runner/run/run_report.h"
#include "proxies/runner/run/step_environment.h"
#include "proxies/runner/scaling/scaling_run.h"
#include "proxies/workloads/registry/registry.h"
#include "proxies/workloads/registry/smoke.h"

#include <stdlib.h>
#include <string.h>

/* The state of a run. A zeroed state is valid, so one function can release every partly initialized state. */
struct run {
    struct bb_proxy_run_options options;
    const struct bb_proxy *proxy; /* the proxy to run; NULL: all proxies */
    struct bb_session session;
    bool serialisable; /* true: the step has no deadlock even if its operations run one after another, so the data
                          check may run them one after another */
    struct bb_step step;
    struct bb_plan plan;
    struct bb_runner runner;
    struct bb_measure_plan measure_plan;
    struct bb_measured measured;
    struct bb_cluster cluster;        /* cluster profile of --cluster; rank 0 only */
    struct bb_run_forecast forecast;  /* prediction and its comparison with the run; zeroed without --cluster */
    struct bb_wait_table waiting;     /* waiting times; set on rank 0 */
    struct bb_critical_path critical; /* set on rank 0 with --trace, else zeroed */
    struct bb_run_report report;      /* input of the reports; points to the members of this struct */
    struct bb_scaling_run scaling; /* the scaling study (scaling_run.h: the step on different numbers of ranks) of the
                                      proxy `scaling`; zeroed for all other proxies */
    json_t *planned;               /* rank 0: the plan of the step as JSON (busbar.plan/1) */
    int unsaved; /* error code of writing the trace file, equal on all ranks, returned at the end of the run; 0: no
                    error */
};

/* ---- construction and checks of the step ---- */

/* Builds the step and replaces each alltoallv by sends and receives. */
static int build_messages(struct run *x)
{
    int rc;

    TRY(bb_step_build(&x->step, x->proxy, &x->options.step));
    TRY(bb_step_expand(&x->step));
out:
    return rc;
}

/* Builds the same step on all ranks. Rank 0 builds first, and only rank 0 prints errors that concern the whole job.
 * If some rank cannot build the step, for example because a model file is missing on its node, all ranks end the
 * run. */
static int build_step(struct run *x)
{
    int rc = 0;

    x->options.step.ranks = x->session.world.size;
    if (x->options.step.gpus_per_node == 0 && x->session.world.size % x->session.world.local_size == 0)
        x->options.step.gpus_per_node = x->session.world.local_size;
    if (x->session.world.rank == 0) {
        bb_err_job_scope(1);
        rc = build_messages(x);
        bb_err_job_scope(0);
    }
    TRY(bb_world_agree(&x->session.world, rc, "the step"));
    bb_err_mute(x->session.world.rank == 0 ? 0 : BB_MUTE_WARNINGS); /* those of the model file: only on rank 0 */
    if (x->session.world.rank != 0)
        rc = build_messages(x);
    bb_err_mute(0);
    TRY(bb_world_agree(&x->session.world, rc, "the step of every rank"));
out:
    return rc;
}

/* Initializes the scaling study (measurements on different numbers of ranks) of the proxy `scaling`. For all other
 * proxies the study stays zeroed, and the functions of scaling_run.h then do nothing. */
static int prepare_study(struct run *x)
{
    if (!(x->proxy->features & BB_FEATURE_SCALING))
        return 0;
    x->scaling = (struct bb_scaling_run){.session = &x->session,
                                         .proxy = x->proxy,
                                         .full = x->options.common.full,
                                         .slow = &x->options.slow,
                                         .study.config = &x->options.step,
                                         .compute_gbps = x->options.compute_gbps};
    return bb_scaling_run_init(&x->scaling, &x->options.warmup);
}

/* Checks the programs of all ranks for unmatched operations and deadlocks, on rank 0 and before anything runs. */
static int check_step(struct run *x)
{
    int rc = x->session.world.rank == 0 ? bb_plan_init(&x->plan, &x->step) : 0;

    rc = rc == 0 && x->options.start_barrier && x->session.world.rank == 0
             ? bb_step_start_barrier_check(&x->step, bb_hardware_queues(), bb_fifo_capacity())
             : rc;
    TRY(bb_world_agree(&x->session.world, rc, "the checks of the step"));
    x->serialisable = x->plan.checks.safe_serialised;
    TRY(bb_world_bcast(&x->session.world, &x->serialisable, sizeof(x->serialisable), 0));
out:
    return rc;
}

/* Returns the largest number of ranks of a node. */
static int ranks_per_node(const struct bb_world *w)
{
    int most = 0;

    for (int node = 0; node < w->nodes; node++) {
        int n = 0;

        for (int r = 0; r < w->size; r++)
            n += w->node_of[r] == node;
        most = n > most ? n : most;
    }
    return most;
}

/* Sets the number of GPUs per node to that of the job, except of a profile whose node is an NVLink domain of several hosts.
 * Warns if the nodes are other than those of the prediction, which have consecutive ranks and, except the last, equal sizes. */
static void set_nodes(struct run *x)
{
    const struct bb_world *w = &x->session.world;
    const int gpus = ranks_per_node(w);

    if (w->nodes == 1 || (x->cluster.domain_gpus > 0 && !bb_environment_has_nodes()))
        return;
    bb_cluster_set_gpus_per_node(&x->cluster, gpus);
    for (int r = 0; r < w->size && !x->forecast.other_nodes; r++)
        x->forecast.other_nodes = w->node_of[r] != r / gpus;
    if (x->forecast.other_nodes)
        bb_warn("--cluster: the prediction assumes nodes of %d consecutive ranks (the last may have fewer), which this "
                "job does not have",
                gpus);
}

/* Loads the cluster profile for the prediction. As in `busbar plan`, memory-bound kernels have its memory bandwidth, or that of
 * the emulated GPUs, if the compute rate is given. */
static int load_cluster(struct run *x)
{
    struct bb_world *w = &x->session.world;
    struct bb_proxy_config *c = &x->options.step;
    const char *emulated = getenv("EMU_CLUSTER"), *name = x->options.cluster;
    int rc = 0;

    if (!name && x->options.given_rate && bb_environment_is_emulated())
        name = emulated && *emulated ? emulated : "emulated-default";
    if (name && w->rank == 0)
        rc = bb_cluster_load_changed(name, &x->options.changes, &x->cluster);
    if (rc == 0 && x->options.cluster && w->rank == 0)
        set_nodes(x);
    TRY(bb_world_agree(w, rc, "the cluster's profile"));
    c->memory_gbps = name && x->options.given_rate && w->rank == 0 ? bb_cluster_memory_gbps(&x->cluster) : 0;
    TRY(bb_world_bcast(w, &c->memory_gbps, sizeof(c->memory_gbps), 0));
out:
    return rc;
}

/* ---- measurement of the step ---- */

/* Adds the findings of all ranks, and names the first rank with wrong data. */
static int sum_findings(struct run *x, struct bb_data_finding *found)
{
    const struct bb_session *s = &x->session;
    struct bb_data_finding *all;
    char text[BB_RANK_TEXT];
    int rc;

    all = bb_world_gather(&x->session.world, found, sizeof(*found), &rc);
    *found = (struct bb_data_finding){0};
    for (int r = 0; all && r < s->world.size; r++) {
        found->expected += all[r].expected;
        found->compared += all[r].compared;
        found->wrong += all[r].wrong;
        if (all[r].wrong > 0 && !x->report.first_wrong[0])
            snprintf(x->report.first_wrong, sizeof(x->report.first_wrong), "%s: %s", bb_session_rank_text(s, r, text),
                     all[r].first[0] ? all[r].first : "outside the buffers");
    }
    free(all);
    return rc;
}

static int check_data(struct run *x)
{
    struct bb_data_finding found = {0};
    int rc;

    if (!x->options.check)
        return 0;
    bb_progress_show(&x->session.progress, "checking data");
    TRY(bb_data_check(&x->runner, !x->serialisable, &found));
    TRY(sum_findings(x, &found));
    x->report.wrong += found.wrong;
    x->report.checked = found.compared > 0;
    if (found.compared != found.expected && (found.compared > 0 || !x->session.device.emulated))
        rc = BB_WORLD_ERR(&x->session.world, BB_EFAIL, "incomplete verification: %llu of %llu elements compared",
                          found.compared, found.expected);
out:
    return rc;
}

/* Returns the total number of steps that a run executes: warm-up, timed, traced and optional steps (graph, start
 * barrier, compute or communication alone). */
static double steps_of(const struct bb_measure_plan *p)
{
    int graph = p->graph ? (p->warmup > 0 ? p->warmup : 1) + p->steps : 0;
    int start_barrier_steps = p->start_barrier ? 1 + p->steps : 0;
    int alone = p->alone ? 2 * (p->steps + p->traced_steps) : 0;

    return p->warmup + p->steps + p->traced_steps + graph + start_barrier_steps + alone;
}

static int run_steps(struct run *x)
{
    int rc;

    x->measure_plan = (struct bb_measure_plan){.warmup = x->options.warmup,
                                               .steps = x->options.steps,
                                               .traced_steps = x->options.traced_steps,
                                               .graph = x->options.graph,
                                               .start_barrier = x->options.start_barrier && !x->session.shared_gpu,
                                               .alone = !x->options.no_alone && bb_step_has_both(&x->step)};
    if (x->options.start_barrier && x->session.shared_gpu && x->session.world.rank == 0)
        bb_warn("--start-barrier: not available when ranks share a GPU; steps with a start barrier are not timed");
    x->report.compute_sms = bb_compute_sms(x->options.compute_sms, x->session.device.sm_count, x->step.layout.n_comms);
    x->scaling.compute_sms = x->report.compute_sms;
    TRY(bb_session_check_host_memory(&x->session, bb_program_memory(bb_step_program(&x->step, x->session.world.rank)),
                                     "fewer ranks, fewer layers, or --scale-counts 0.01"));
    TRY(bb_scaling_run_prologue(&x->scaling));
    bb_progress_show(&x->session.progress, "communicators and buffers");
    TRY(bb_runner_init(&x->runner, &x->session.world, &x->step.layout, bb_step_program(&x->step, x->session.world.rank),
                       x->session.memory));
    TRY(bb_runner_set_busy(&x->runner, x->report.compute_sms, x->options.compute_gbps));
    TRY(bb_runner_set_slow(&x->runner, &x->options.slow));
    if (!x->serialisable)
        TRY(bb_runner_connect(&x->runner));
    bb_progress_clear(&x->session.progress);
    if (x->proxy && x->session.out)
        bb_run_report_begin(&x->report, x->session.out);
    if (x->proxy)
        bb_progress_expect(&x->session.progress, steps_of(&x->measure_plan));
    TRY(check_data(x));
    TRY(bb_step_measure(&x->runner, &x->measure_plan, &x->session.progress, &x->measured));
    TRY(bb_scaling_run_rounds(&x->scaling, &x->runner));
    if (x->options.cluster)
        TRY(bb_run_forecast_make(&x->forecast, &x->runner, &x->step, &x->measured, &x->cluster, &x->options.slow));
    if (x->options.trace)
        TRY(bb_run_trace_save(&x->runner, &x->step, &x->measured, x->session.devices, x->options.trace, &x->critical,
                              &x->unsaved));
out:
    return rc;
}

/* ---- reports ---- */

static int open_results(struct run *x, const char *schema, bool has_rows, const struct bb_opts *set)
{
    const struct bb_results_head head = {
        .schema = schema, .argc = x->report.argc, .argv = x->report.argv, .no_rows = !has_rows};

    return bb_session_open_results(&x->session, &head, set, &x->options);
}

/* Describes what the compute times rest on, and whether real training fits in the memory of the GPU. */
static void describe_basis(struct run *x)
{
    const struct bb_proxy_config *config = &x->options.step;
    const struct bb_forecast f = {.rates = BB_RATES_PROXY,
                                  .tflops = x->options.given_times ? 0 : config->tflops,
                                  .with_compute = x->proxy->with_compute,
                                  .gpu_bytes = (double)x->session.device.memory_bytes};
    const bool computes = bb_step_computes(&x->step);
    struct bb_run_report *r = &x->report;
    char bytes[BB_BYTES_TEXT];
    size_t n;

    bb_forecast_memory_text(&x->plan, &f, r->memory, sizeof(r->memory));
    n = strlen(r->memory);
    if (bb_step_training_bytes(&x->step) > 0)
        snprintf(r->memory + n, sizeof(r->memory) - n, "; this run needs %s",
                 bb_format_bytes(bb_plan_memory(&x->plan), bytes));
    json_object_set_new(x->planned, "memory", bb_forecast_memory(&x->plan, &f));
    if (strcmp(config->compute, "gemm") == 0)
        return;
    if (computes && x->options.given_times)
        snprintf(r->compute, sizeof(r->compute), "times as given (--forward-us, --backward-us)");
    else
        bb_forecast_limit_text(&f, x->session.device.name, computes, r->compute, sizeof(r->compute));
}

/* Writes the plan to the results file before the first step, so that the results of a failed run contain the plan. */
static int write_plan(struct run *x)
{
    if (x->session.world.rank != 0)
        return 0;
    x->planned = json_object();
    json_object_set_new(x->planned, "profiles", bb_profile_checksums(x->options.cluster, x->options.step.model));
    bb_plan_body(x->planned, &x->plan, false);
    describe_basis(x);
    return bb_results_set_all(x->session.json, json_copy(x->planned));
}

static int report_run(struct run *x)
{
    int rc;

    if (x->session.world.rank != 0)
        return 0;
    bb_run_waiting(&x->measured, &x->step, &x->waiting);
    if (x->waiting.late_rank != BB_NONE)
        x->waiting.late_node = x->session.world.node_of[x->waiting.late_rank];
    if (x->session.out)
        bb_run_report_text(&x->report, x->session.out);
    if (x->options.trace && x->unsaved == 0)
        bb_plan_report_file(x->session.out, "the trace", x->options.trace);
    TRY(bb_scaling_run_report(&x->scaling, &x->measured));
    rc = bb_results_set_all(x->session.json,
                            bb_run_report_json(&x->report, json_deep_copy(json_object_get(x->planned, "groups"))));
out:
    return rc;
}

/* ---- `busbar proxy all` ---- */

static int report_line(struct run *x, const struct bb_proxy *proxy, bool fits, unsigned long long wrong)
{
    struct bb_run_report r = x->report;

    r.wrong = wrong;
    r.step = fits ? r.step : NULL;
    if (x->session.out && !fits)
        r.nearest_ranks = bb_smoke_nearest_ranks(proxy, &x->options.step);
    if (x->session.out)
        bb_run_report_line(&r, proxy->name, x->session.out);
    return x->session.world.rank == 0 ? bb_results_row(x->session.json, bb_run_report_row(&r, proxy->name)) : 0;
}

/* Releases the step and its measurements after a successful run of one proxy. After an error, bb_proxy_run releases
 * them. */
static int release_step(struct run *x)
{
    int rc = bb_runner_release(&x->runner, 0);

    bb_measured_release(&x->measured);
    bb_plan_release(&x->plan);
    bb_step_release(&x->step);
    return rc;
}

/* Runs one proxy for `busbar proxy all`. Each rank determines the proxy's smallest configuration independently, with
 * the same result. */
static int run_one(struct run *x, const struct bb_proxy *proxy)
{
    const struct bb_proxy_config asked = x->options.step;
    struct bb_proxy_config fitted;
    unsigned long long before = x->report.wrong;
    int rc = bb_smoke_fit(proxy, &asked, &fitted, &x->step);

    if (rc == -BB_EUSAGE)
        return report_line(x, proxy, false, 0);
    TRY(rc);
    TRY(bb_step_expand(&x->step));
    TRY(check_step(x));
    TRY(run_steps(x));
    TRY(report_line(x, proxy, true, x->report.wrong - before));
    TRY(release_step(x));
out:
    return rc;
}

static int run_all(struct run *x)
{
    int rc;

    x->options.no_alone = true;
    x->options.step.ranks = x->session.world.size;
    bb_step_enable(
        BB_STEP_CONNECT_AT_INIT); /* although only deadlock-prone steps require it: NCCL reads its environment once */
    TRY(bb_session_setup_gpus(&x->session, 0));
    TRY(open_results(x, "busbar.proxies/1", true, NULL));
    x->measure_plan.steps = x->options.steps;
    x->report.compute_sms = bb_compute_sms(x->options.compute_sms, x->session.device.sm_count, 1);
    if (x->session.out)
        bb_run_report_head(&x->report, x->session.out);
    for (int i = 0; i < bb_n_proxies; i++)
        TRY(run_one(x, bb_proxies[i]));
out:
    return rc;
}

/* ---- start and end of `busbar proxy` ---- */

static bool orders_launches(const struct run *x)
{
    enum { NCCL_SINCE = 22600, CUDA_SINCE = 12030 };

    return x->serialisable && x->step.layout.n_comms > 1 && x->session.nccl_runtime >= NCCL_SINCE &&
           x->session.cuda_driver >= CUDA_SINCE && x->session.cuda_runtime >= CUDA_SINCE;
}

static int run_named(struct run *x)
{
    int rc;

    TRY(load_cluster(x));
    TRY(build_step(x));
    TRY(prepare_study(x));
    TRY(check_step(x));
    if (x->options.trace && x->session.world.rank == 0)
        rc = bb_outfile_check(x->options.trace, "the trace"); /* now, so that an error is reported before the run */
    TRY(bb_world_agree(&x->session.world, rc, "the file of the trace"));
    if (!x->serialisable)
        bb_step_enable(BB_STEP_CONNECT_AT_INIT);
    TRY(bb_session_setup_gpus(&x->session, 0));
    if (orders_launches(x))
        bb_step_enable(BB_STEP_ORDER_LAUNCHES);
    TRY(bb_scaling_check_gpus(&x->scaling));
    TRY(open_results(x, "busbar.proxy/1", false, &bb_proxy_set));
    TRY(write_plan(x));
    TRY(run_steps(x));
    TRY(report_run(x));
    rc = x->unsaved;
out:
    return rc;
}

static int run_proxy(struct run *x)
{
    int rc;

    /* before any CUDA call, and while the process has only one thread */
    TRY(bb_step_set_environment(x->options.common.share_gpu ? bb_session_local_ranks() : 1));
    TRY(bb_session_begin(&x->session, &x->options.common, BB_SESSION_NCCL));
    bb_err_job_scope(1);
    if (x->session.world.rank == 0)
        rc = bb_slow_validate(&x->options.slow, "--slow", NULL, x->session.world.size, 0);
    bb_err_job_scope(0);
    TRY(bb_world_agree(&x->session.world, rc, "the slow ranks"));
    TRY(x->proxy ? run_named(x) : run_all(x));
    if (x->report.wrong)
        rc = BB_WORLD_ERR(&x->session.world, BB_EDATA, "wrong data: %llu wrong element%s, first on %s", x->report.wrong,
                          bb_plural(x->report.wrong), x->report.first_wrong);
out:
    return rc;
}

int bb_proxy_run(int argc, char **argv)
{
    struct run x = {0};
    int rc = bb_proxy_parse(&x.options, &x.proxy, argc, argv), end_rc;

    if (rc != 0)
        return rc;
    x.report = (struct bb_run_report){.step = &x.step,
                                      .scaled = x.options.step.scale_counts > 0 && x.options.step.scale_counts < 1,
                                      .session = &x.session,
                                      .argc = argc,
                                      .argv = argv,
                                      .plan = &x.measure_plan,
                                      .measured = &x.measured,
                                      .forecast = &x.forecast,
                                      .waiting = &x.waiting,
                                      .peak_tflops = x.options.peak_tflops,
                                      .check = x.options.check,
                                      .full = x.options.common.full,
                                      .critical = x.options.trace ? &x.critical : NULL};
    rc = run_proxy(&x);
    end_rc = bb_runner_release(&x.runner, bb_session_ends_on_all_ranks(&x.session, rc) ? 0 : rc);
    rc = bb_session_release(&x.session, rc, end_rc);
    bb_measured_release(&x.measured);
    bb_run_forecast_release(&x.forecast);
    bb_critical_path_release(&x.critical);
    bb_wait_table_release(&x.waiting);
    bb_scaling_measured_release(&x.scaling.study.measured);
    json_decref(x.planned);
    bb_plan_release(&x.plan);
    bb_step_release(&x.step);
    return rc;
}
