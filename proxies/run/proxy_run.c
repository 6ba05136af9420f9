/*
 * proxy_run.c - `busbar proxy` from its first line to its last: ranks, GPUs, the step and its checks, the
 * run, the reports, and the same in reverse.
 */
#include "bootstrap/base/outfile.h"
#include "proxies/plan/plan.h"
#include "proxies/proxy_main.h"
#include "proxies/registry/registry.h"
#include "proxies/registry/smoke.h"
#include "proxies/run/data_check.h"
#include "proxies/run/run_report.h"
#include "proxies/run/run_trace.h"
#include "proxies/scaling/scaling_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Everything that a run holds; zeroed is empty, so one release fits every state. */
struct run {
    struct bb_proxy_run_options options;
    int argc;
    char **argv;
    const struct bb_proxy *proxy; /* NULL: all of them */
    struct bb_world world;
    struct bb_device_info device, *devices; /* own, everybody's [size] */
    bool shared_gpu;
    bool serialisable; /* the step could be run one operation after another, and so its data be checked */
    int nccl_header, nccl_runtime, cuda_runtime, cuda_driver;
    struct bb_step step;
    struct bb_plan plan;
    struct bb_runner runner;
    struct bb_measure_plan measure_plan;
    struct bb_measured measured;
    struct bb_scaling scaling; /* of the proxy of that name */
    struct bb_scaling_baseline baseline;
    struct bb_scaling_measured scaled;
    struct bb_progress progress;
    struct bb_results *results;
    json_t *planned;          /* rank 0: the body of busbar.plan/1 */
    unsigned long long wrong; /* over all ranks */
};

/* ---- ranks and devices ---- */

static int choose_device(struct run *x)
{
    struct bb_world *w = &x->world;
    int rc = bb_device_choose(w->local_rank, w->local_size, x->options.common.share_gpu, &x->device);

    TRY(bb_world_agree(w, rc, "the choice of GPUs"));
    bb_err_identify(w->rank, w->host, x->device.ordinal);
    x->devices = calloc((size_t)w->size, sizeof(*x->devices));
    TRY(x->devices ? 0 : bb_err(BB_EFAIL, "no memory for the devices of %d ranks", w->size));
    TRY(bb_world_allgather(w, &x->device, x->devices, sizeof(x->device)));
    x->shared_gpu = bb_device_shared(x->devices, w->size);
    if (x->shared_gpu)
        TRY(bb_comms_share_gpu_env(w->rank));
out:
    return rc;
}

/* ---- the step ---- */

/* Every rank builds the same step, but only rank 0 speaks of one that cannot be: it builds first. */
static int build(struct run *x)
{
    int rc = 0;

    x->options.step.ranks = x->world.size;
    if (x->options.step.gpus_per_node == 0 && x->world.size % x->world.local_size == 0)
        x->options.step.gpus_per_node = x->world.local_size;
    if (x->world.rank == 0)
        rc = bb_step_build(&x->step, x->proxy, &x->options.step);
    TRY(bb_world_agree(&x->world, rc, "the step"));
    if (x->world.rank != 0)
        TRY(bb_step_build(&x->step, x->proxy, &x->options.step));
out:
    return rc;
}

static bool is_study(const struct run *x)
{
    return x->proxy && x->proxy->takes & BB_TAKES_SCALING;
}

/* The file of a former run is read by rank 0, where it is. */
static int prepare_study(struct run *x)
{
    int rc;

    if (!is_study(x))
        return 0;
    TRY(bb_scaling_settle(&x->options.step, &x->scaling));
    if (x->scaling.synthetic && x->options.warmup < BB_SCALING_BATCHES)
        x->options.warmup = BB_SCALING_BATCHES;
    if (x->world.rank == 0)
        rc = bb_scaling_baseline_load(&x->options.step, &x->scaling, &x->baseline);
    TRY(bb_world_agree(&x->world, rc, "the baseline"));
out:
    return rc;
}

/* Modelled and measured times have no ratio. */
static int refuse_baseline(struct run *x)
{
    int rc = 0;

    if (x->baseline.path && x->baseline.emulated != x->device.emulated)
        rc = bb_err(BB_EUSAGE, "--baseline %s was %s emulated GPUs, this run is %s", x->baseline.path,
                    x->baseline.emulated ? "on" : "not on", x->device.emulated ? "on them" : "not");
    return bb_world_agree(&x->world, rc, "the baseline");
}

/* Matching, deadlock: rank 0 looks at the programs of all ranks, before anything runs. */
static int check_step(struct run *x)
{
    int rc = x->world.rank == 0 ? bb_plan_init(&x->plan, &x->step) : 0;

    TRY(bb_world_agree(&x->world, rc, "the checks of the step"));
    x->serialisable = x->plan.checks.safe_serialised;
    TRY(bb_world_bcast(&x->world, &x->serialisable, sizeof(x->serialisable), 0));
out:
    return rc;
}

/* A file that cannot be written is told before the run, not after it. */
static int check_trace(struct run *x)
{
    int rc = x->options.trace && x->world.rank == 0 ? bb_outfile_check(x->options.trace, "the trace") : 0;

    return bb_world_agree(&x->world, rc, "the file of the trace");
}

/* ---- the run ---- */

static int check_data(struct run *x)
{
    unsigned long long mine = 0, *all;
    int rc;

    if (!x->options.check)
        return 0;
    bb_progress_show(&x->progress, "checking data");
    TRY((x->serialisable ? bb_data_check : bb_data_check_together)(&x->runner, &mine));
    all = calloc((size_t)x->world.size, sizeof(*all));
    TRY(all ? bb_world_allgather(&x->world, &mine, all, sizeof(mine)) : bb_err(BB_EFAIL, "no memory for the check"));
    for (int i = 0; i < x->world.size; i++)
        x->wrong += all[i];
    free(all);
out:
    return rc;
}

static bool has_both(const struct bb_step *s)
{
    bool compute = false, comm = false;

    for (int i = 0; i < s->n_roles; i++)
        for (size_t k = 0; k < s->roles[i].program.n_ops; k++) {
            const struct bb_op *op = &s->roles[i].program.ops[k];

            comm |= bb_op_is_comm(op);
            compute |= !bb_op_is_comm(op) && bb_op_launches(op);
        }
    return compute && comm;
}

static bool prints(const struct run *x)
{
    const struct bb_common *c = &x->options.common;

    return x->world.rank == 0 && !c->quiet && !(c->json && strcmp(c->json, "-") == 0);
}

static struct bb_scaling_run study_of(struct run *x)
{
    return (struct bb_scaling_run){.world = &x->world,
                                   .proxy = x->proxy,
                                   .config = &x->options.step,
                                   .scaling = &x->scaling,
                                   .progress = &x->progress,
                                   .compute_sms = x->options.compute_sms,
                                   .compute_gbps = x->options.compute_gbps,
                                   .emulated = x->device.emulated,
                                   .out = prints(x) ? stdout : NULL};
}

static int execute(struct run *x)
{
    int rc;

    x->measure_plan = (struct bb_measure_plan){.warmup = x->options.warmup,
                                               .steps = x->options.steps,
                                               .traced_steps = x->options.traced_steps,
                                               .graph = x->options.graph,
                                               .alone = !x->options.no_alone && has_both(&x->step)};
    const struct bb_scaling_run study = study_of(x);
    if (is_study(x))
        TRY(bb_scaling_before(&study, &x->scaled));
    TRY(bb_runner_init(&x->runner, &x->world, &x->step.layout, bb_step_program(&x->step, x->world.rank)));
    TRY(bb_runner_busy(&x->runner, x->options.compute_sms, x->options.compute_gbps));
    if (!x->serialisable)
        TRY(bb_runner_connect(&x->runner));
    TRY(check_data(x));
    TRY(bb_step_measure(&x->runner, &x->measure_plan, &x->progress, &x->measured));
    if (is_study(x))
        TRY(bb_scaling_rounds(&study, &x->runner, &x->scaled));
    if (x->options.trace)
        TRY(bb_run_trace_save(&x->runner, &x->step, &x->measured, x->devices, x->options.trace));
out:
    return rc;
}

/* ---- reports ---- */

static struct bb_results_device *device_rows(const struct run *x)
{
    struct bb_results_device *rows = calloc((size_t)x->world.size, sizeof(*rows));

    for (int i = 0; rows && i < x->world.size; i++) {
        const struct bb_device_info *d = &x->devices[i];

        rows[i].rank = i;
        snprintf(rows[i].host, sizeof(rows[i].host), "%s", x->world.hosts[i]);
        snprintf(rows[i].name, sizeof(rows[i].name), "%.*s", (int)sizeof(rows[i].name) - 1, d->name);
        snprintf(rows[i].uuid, sizeof(rows[i].uuid), "%s", d->uuid);
        snprintf(rows[i].pci, sizeof(rows[i].pci), "%s", d->pci);
    }
    return rows;
}

static int open_results(struct run *x)
{
    struct bb_results_device *devices = device_rows(x);
    struct bb_results_head head = {.schema = x->proxy ? "busbar.proxy/1" : "busbar.proxies/1",
                                   .path = x->options.common.json,
                                   .out = stdout,
                                   .argc = x->argc,
                                   .argv = x->argv,
                                   .nccl_header = x->nccl_header,
                                   .nccl_runtime = x->nccl_runtime,
                                   .cuda_runtime = x->cuda_runtime,
                                   .cuda_driver = x->cuda_driver,
                                   .devices = devices,
                                   .n_devices = x->world.size,
                                   .emulated = x->device.emulated,
                                   .shared_gpu = x->shared_gpu,
                                   .no_rows = x->proxy};
    int rc = devices ? bb_results_open(&x->results, &head, &x->world)
                     : bb_err(BB_EFAIL, "no memory for the devices of %d ranks", x->world.size);

    free(devices);
    return rc;
}

/* What is known before anything runs: options and the plan, so that a run that dies leaves them. */
static int write_plan(struct run *x)
{
    const char *key;
    json_t *value;
    int rc;

    if (x->world.rank != 0)
        return 0;
    x->planned = json_object();
    TRY(x->planned ? bb_plan_body(x->planned, &x->plan, false) : bb_err(BB_EFAIL, "no memory for the results"));
    TRY(bb_results_set(x->results, "options", bb_json_options(&bb_proxy_set, &x->options)));
    json_object_foreach(x->planned, key, value)
    {
        TRY(bb_results_set(x->results, key, json_incref(value)));
    }
out:
    return rc;
}

static struct bb_run_report report_of(const struct run *x)
{
    return (struct bb_run_report){.step = &x->step,
                                  .world = &x->world,
                                  .devices = x->devices,
                                  .shared_gpu = x->shared_gpu,
                                  .nccl_runtime = x->nccl_runtime,
                                  .cuda_runtime = x->cuda_runtime,
                                  .argc = x->argc,
                                  .argv = x->argv,
                                  .plan = &x->measure_plan,
                                  .measured = &x->measured,
                                  .peak_tflops = x->options.peak_tflops,
                                  .checked = x->options.check,
                                  .wrong = x->wrong};
}

static int report_study(struct run *x)
{
    const struct bb_scaling_report r = {.config = &x->options.step,
                                        .scaling = &x->scaling,
                                        .measured = &x->scaled,
                                        .baseline = &x->baseline,
                                        .step_us = x->measured.step.p50,
                                        .compute_alone_us = x->measured.alone ? x->measured.compute_alone_us : NAN};

    if (prints(x))
        bb_scaling_print(&r, stdout);
    return bb_results_set(x->results, "scaling", bb_scaling_json(&r));
}

static int report(struct run *x)
{
    const struct bb_run_report r = report_of(x);

    if (x->world.rank != 0)
        return 0;
    if (prints(x))
        bb_run_report_text(&r, stdout);
    if (is_study(x) && report_study(x))
        return -BB_EFAIL;
    return bb_run_report_json(&r, x->results, json_deep_copy(json_object_get(x->planned, "groups")));
}

/* ---- all proxies ---- */

static int report_line(struct run *x, const char *name, bool fits, unsigned long long wrong)
{
    struct bb_run_report r = report_of(x);

    r.wrong = wrong;
    r.step = fits ? r.step : NULL;
    if (prints(x))
        bb_run_report_line(&r, name, stdout);
    return x->world.rank == 0 ? bb_results_row(x->results, bb_run_report_row(&r, name)) : 0;
}

/* What is left of a proxy that ran; after an error the run's end does it. */
static int clear(struct run *x)
{
    int rc = bb_runner_release(&x->runner, 0);

    bb_measured_release(&x->measured);
    bb_plan_release(&x->plan);
    bb_step_release(&x->step);
    return rc;
}

/* Every rank fits it by itself and comes to the same. */
static int run_one(struct run *x, const struct bb_proxy *proxy)
{
    const struct bb_proxy_config asked = x->options.step;
    struct bb_proxy_config fitted;
    unsigned long long before = x->wrong;
    int rc = bb_smoke_fit(proxy, &asked, &fitted, &x->step);

    if (rc == -BB_EUSAGE)
        return report_line(x, proxy->name, false, 0);
    TRY(rc);
    TRY(check_step(x));
    TRY(execute(x));
    TRY(report_line(x, proxy->name, true, x->wrong - before));
    TRY(clear(x));
out:
    return rc;
}

static int run_all(struct run *x)
{
    struct bb_run_report r;
    int rc;

    x->options.no_alone = true;
    x->options.step.ranks = x->world.size;
    TRY(choose_device(x));
    bb_cuda_versions(&x->cuda_runtime, &x->cuda_driver);
    bb_progress_init(&x->progress, x->world.rank, x->options.common.quiet);
    TRY(open_results(x));
    x->measure_plan.steps = x->options.steps;
    r = report_of(x);
    if (prints(x))
        bb_run_report_head(&r, stdout);
    for (int i = 0; i < bb_n_proxies; i++)
        TRY(run_one(x, bb_proxies[i]));
out:
    return rc;
}

/* ---- start and end ---- */

static int run_named(struct run *x)
{
    int rc;

    TRY(build(x));
    TRY(prepare_study(x));
    TRY(check_step(x));
    TRY(check_trace(x));
    TRY(choose_device(x));
    TRY(is_study(x) ? refuse_baseline(x) : 0);
    bb_cuda_versions(&x->cuda_runtime, &x->cuda_driver);
    bb_progress_init(&x->progress, x->world.rank, x->options.common.quiet);
    TRY(open_results(x));
    TRY(write_plan(x));
    TRY(execute(x));
    TRY(report(x));
out:
    return rc;
}

static int run(struct run *x)
{
    int rc;

    TRY(bb_world_init(&x->world, x->options.common.timeout_s));
    TRY(bb_nccl_version(&x->nccl_header, &x->nccl_runtime));
    TRY(x->proxy ? run_named(x) : run_all(x));
    if (x->wrong)
        rc = x->world.rank ? -BB_EDATA : bb_err(BB_EDATA, "wrong data: %llu elements over all ranks", x->wrong);
out:
    return rc;
}

/* Refusals and wrong data are known to all ranks: they end in order, without an abort. */
static bool ends_together(int rc)
{
    return rc >= 0 || rc == -BB_EUSAGE || rc == -BB_EDATA;
}

int bb_proxy_run(int argc, char **argv)
{
    struct run x = {.argc = argc, .argv = argv};
    int rc = bb_proxy_parse(&x.options, &x.proxy, argc, argv), end_rc;

    if (rc != 0)
        return rc;
    rc = run(&x);
    bb_progress_clear(&x.progress);
    rc = bb_results_close(x.results, rc);
    end_rc = bb_runner_release(&x.runner, ends_together(rc) ? 0 : rc);
    rc = rc ? rc : end_rc;
    end_rc = bb_world_release(&x.world, ends_together(rc) ? 0 : rc);
    rc = rc ? rc : end_rc;
    bb_measured_release(&x.measured);
    bb_scaling_measured_release(&x.scaled);
    json_decref(x.planned);
    bb_plan_release(&x.plan);
    bb_step_release(&x.step);
    free(x.devices);
    return rc;
}
