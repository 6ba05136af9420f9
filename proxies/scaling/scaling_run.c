/* scaling_run.c - runs a scaling study (see scaling_run.h). */
#include "proxies/scaling/scaling_run.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/cli/report_header.h"
#include "proxies/plan/plan.h"
#include "proxies/registry/registry.h"

#include <math.h>
#include <stdlib.h>

enum {
    STEPS_PER_EXCHANGE = 1024
}; /* maximum number of steps after which the ranks exchange their step times, to determine
      the time of the slowest rank in each step */

/* Runs n steps. name: name of the steps in messages; sum_us: out, sum over the steps of the slowest rank's time in
 * us. */
static int run_steps(const struct bb_scaling_run *run, struct bb_runner *r, const char *name, int n, double *sum_us)
{
    double us[STEPS_PER_EXCHANGE];
    int rc = 0;

    *sum_us = 0;
    for (int done = 0, now; rc == 0 && done < n; done += now) {
        now = n - done < STEPS_PER_EXCHANGE ? n - done : STEPS_PER_EXCHANGE;
        rc = bb_measure_steps(r, name, now, &run->session->progress, us);
        for (int i = 0; rc == 0 && i < now; i++)
            *sum_us += us[i];
    }
    return rc;
}

/* ---- options and baseline, before the steps run ---- */

int bb_scaling_run_init(struct bb_scaling_run *run, int *warmup)
{
    struct bb_scaling *s = &run->scaling;
    int rc;

    TRY(bb_scaling_resolve(run->config, s));
    if (s->synthetic && *warmup < BB_SCALING_BATCHES)
        *warmup = BB_SCALING_BATCHES;
    if (run->session->world.rank == 0)
        rc = bb_scaling_baseline_load(run->config, s, &run->baseline);
    TRY(bb_world_agree(&run->session->world, rc, "the baseline"));
out:
    return rc;
}

int bb_scaling_check_gpus(struct bb_scaling_run *run)
{
    const struct bb_scaling_baseline *b = &run->baseline;
    int rc = 0;

    if (!run->session)
        return 0;
    if (b->path && b->emulated != run->session->device.emulated)
        rc = bb_err(BB_EUSAGE, "--baseline %s was measured on %s GPUs, this run uses %s GPUs", b->path,
                    b->emulated ? "emulated" : "real", b->emulated ? "real" : "emulated");
    return bb_world_agree(&run->session->world, rc, "the baseline");
}

/* ---- first broadcast and last step of an epoch with fewer samples: two step programs in addition to that of the
 * full-batch step ---- */

static int build_part(const struct bb_scaling_run *run, enum bb_scaling_part part, struct bb_step *step)
{
    struct bb_proxy_config config = *run->config;
    struct bb_plan plan = {0};
    int rc;

    config.scaling.part = part;
    rc = bb_step_build(step, run->proxy, &config);
    if (rc == 0 && run->session->world.rank == 0)
        rc = bb_plan_init(&plan, step);
    bb_plan_release(&plan);
    return bb_world_agree(&run->session->world, rc, "the parts of the study");
}

/* Runs the step once untimed to set up its connections, then n times. us: out, [n] time of each step. */
static int run_part(const struct bb_scaling_run *run, const struct bb_step *step, const char *name, int n, double *us)
{
    struct bb_runner r = {0};
    int rc, end_rc;

    TRY(bb_runner_init(&r, &run->session->world, &step->layout, bb_step_program(step, run->session->world.rank),
                       run->session->memory));
    TRY(bb_runner_set_busy(&r, run->compute_sms, run->compute_gbps));
    TRY(bb_measure_steps(&r, name, 1, &run->session->progress, us));
    TRY(bb_measure_steps(&r, name, n, &run->session->progress, us));
out:
    end_rc = bb_runner_release(&r, rc);
    return rc ? rc : end_rc;
}

static int time_broadcast(const struct bb_scaling_run *run, struct bb_scaling_measured *m)
{
    struct bb_step step = {0};
    int rc;

    TRY(build_part(run, BB_SCALING_BROADCAST, &step));
    const struct bb_program *p = &step.roles[0].program;
    for (size_t i = 0; i < p->n_ops; i++)
        m->broadcast_bytes += (double)bb_op_payload_bytes(&p->ops[i], run->session->world.size);
    TRY(run_part(run, &step, "first broadcast", 1, &m->broadcast_us));
    m->broadcasts = (int)p->n_ops;
out:
    bb_step_release(&step);
    return rc;
}

static int time_last_steps(const struct bb_scaling_run *run, struct bb_scaling_measured *m)
{
    struct bb_step step = {0};
    int rc;

    TRY(build_part(run, BB_SCALING_LAST, &step));
    TRY(run_part(run, &step, "last step", run->scaling.rounds, m->last_us));
out:
    bb_step_release(&step);
    return rc;
}

int bb_scaling_run_prologue(struct bb_scaling_run *run)
{
    struct bb_scaling_measured *m = &run->measured;
    int rc = 0;

    if (!run->session)
        return 0;
    *m = (struct bb_scaling_measured){.broadcast_us = NAN};
    BB_NEW(m->seconds, run->scaling.rounds);
    BB_NEW(m->last_us, run->scaling.rounds);
    if (run->session->world.size > 1)
        TRY(time_broadcast(run, m));
    if (run->scaling.last_batch)
        TRY(time_last_steps(run, m));
out:
    return rc;
}

int bb_scaling_run_rounds(struct bb_scaling_run *run, struct bb_runner *r)
{
    const struct bb_scaling *s = &run->scaling;
    struct bb_scaling_measured *m = &run->measured;
    FILE *out = run->session ? run->session->out : NULL;
    double us;
    int rc = 0;

    if (!run->session)
        return 0;
    bb_progress_clear(&run->session->progress);
    if (out && run->session->device.emulated)
        bb_print_emulated_note(out, "", "");
    for (int i = 0; i < s->rounds && rc == 0; i++) {
        char name[64];

        snprintf(name, sizeof(name), "%s %d of %d, step", s->synthetic ? "iteration" : "epoch", i + 1, s->rounds);
        TRY(run_steps(run, r, name, s->run_steps, &us));
        m->seconds[i] = (us * s->full_steps / s->run_steps + m->last_us[i]) / 1e6;
        m->rounds = i + 1;
        bb_progress_clear(&run->session->progress);
        if (out)
            bb_scaling_print_round(s, i, m->seconds[i], out);
    }
    if (out && s->synthetic)
        bb_scaling_print_total(s, m, out);
out:
    return rc;
}

int bb_scaling_run_report(const struct bb_scaling_run *run, const struct bb_measured *step)
{
    const struct bb_scaling_report r = {.config = run->config,
                                        .scaling = &run->scaling,
                                        .measured = &run->measured,
                                        .baseline = &run->baseline,
                                        .step_us = step->step.p50,
                                        .compute_alone_us = step->alone ? step->compute_alone_us : NAN};

    if (!run->session)
        return 0;
    if (run->session->out)
        bb_scaling_print(&r, run->session->out);
    return bb_results_set(run->session->json, "scaling", bb_scaling_json(&r));
}
