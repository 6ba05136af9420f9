/* scaling_run.c - runs a scaling study (see scaling_run.h). */
#include "proxies/runner/scaling/scaling_run.h"

#include "bootstrap/base/alloc.h"
#include "proxies/offline/plan/plan.h"
#include "proxies/workloads/registry/registry.h"
#include "proxies/workloads/replicas/network.h"

#include <math.h>

enum {
    STEPS_PER_EXCHANGE = 1024
}; /* maximum number of steps after which the ranks exchange their step times, to determine
      the time of the slowest rank in each step */

/* ---- options and baseline, before the steps run ---- */

/* Finds out what the samples are, and reads the baseline. */
static int prepare_report(struct bb_scaling_study *y)
{
    struct bb_network network = {0};
    int rc;

    TRY(bb_network_load(y->config, &network));
    y->scaling.sequences = !network.images;
    bb_network_release(&network);
    TRY(bb_scaling_baseline_load(y->config, &y->scaling, &y->baseline));
out:
    return rc;
}

int bb_scaling_run_init(struct bb_scaling_run *run, int *warmup)
{
    struct bb_scaling_study *y = &run->study;
    int rc;

    TRY(bb_scaling_resolve(y->config, &y->scaling));
    if (y->scaling.synthetic && *warmup < BB_SCALING_BATCHES)
        *warmup = BB_SCALING_BATCHES;
    if (run->session->world.rank == 0)
        rc = prepare_report(y);
    TRY(bb_world_agree(&run->session->world, rc, "the baseline"));
out:
    return rc;
}

int bb_scaling_check_gpus(struct bb_scaling_run *run)
{
    const struct bb_scaling_baseline *b = &run->study.baseline;
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

/* Builds the step program `part` and runs it once untimed to set up its connections, then n times.
 *   name     name of the steps in messages
 *   step     out: the step; released by the caller, also after an error
 *   us       out: [n] time of each step */
static int time_part(const struct bb_scaling_run *run, enum bb_scaling_part part, const char *name, int n,
                     struct bb_step *step, double *us)
{
    struct bb_world *world = &run->session->world;
    struct bb_proxy_config config = *run->study.config;
    struct bb_plan plan = {0};
    struct bb_runner r = {0};
    int rc;

    config.scaling.part = part;
    rc = bb_step_build(step, run->proxy, &config);
    if (rc == 0 && world->rank == 0)
        rc = bb_plan_init(&plan, step);
    bb_plan_release(&plan);
    TRY(bb_world_agree(world, rc, "the parts of the study"));
    TRY(bb_runner_init(&r, world, &step->layout, bb_step_program(step, world->rank), run->session->memory));
    TRY(bb_runner_set_busy(&r, run->compute_sms, run->compute_gbps));
    TRY(bb_runner_set_slow(&r, run->slow));
    TRY(bb_measure_steps(&r, name, 1, &run->session->progress, us));
    TRY(bb_measure_steps(&r, name, n, &run->session->progress, us));
out:
    return bb_runner_release(&r, rc);
}

int bb_scaling_run_prologue(struct bb_scaling_run *run)
{
    const struct bb_scaling *s = &run->study.scaling;
    struct bb_scaling_measured *m = &run->study.measured;
    struct bb_step broadcast = {0}, last = {0};
    int rc = 0;

    if (!run->session)
        return 0;
    *m = (struct bb_scaling_measured){.broadcast_us = NAN};
    BB_NEW(m->seconds, s->rounds);
    BB_NEW(m->last_us, s->rounds);
    if (s->ranks > 1) {
        TRY(time_part(run, BB_SCALING_BROADCAST, "first broadcast", 1, &broadcast, &m->broadcast_us));
        const struct bb_program *p = &broadcast.roles[0].program;
        for (size_t i = 0; i < p->n_ops; i++)
            m->broadcast_bytes += (double)bb_op_payload_bytes(&p->ops[i], s->ranks);
        m->broadcasts = (int)p->n_ops;
    }
    if (s->last_batch)
        TRY(time_part(run, BB_SCALING_LAST, "last step", s->rounds, &last, m->last_us));
out:
    bb_step_release(&broadcast);
    bb_step_release(&last);
    return rc;
}

/* ---- epochs or iterations ---- */

/* Runs the full-batch steps of round i. sum_us: out, sum over the steps of the slowest rank's time in us. */
static int run_round(const struct bb_scaling_run *run, struct bb_runner *r, int i, double *sum_us)
{
    const struct bb_scaling *s = &run->study.scaling;
    double us[STEPS_PER_EXCHANGE];
    char name[64];
    int rc = 0;

    snprintf(name, sizeof(name), "%s %d of %d, step", s->synthetic ? "iteration" : "epoch", i + 1, s->rounds);
    *sum_us = 0;
    for (int done = 0, now; done < s->run_steps; done += now) {
        now = s->run_steps - done < STEPS_PER_EXCHANGE ? s->run_steps - done : STEPS_PER_EXCHANGE;
        TRY(bb_measure_steps(r, name, now, &run->session->progress, us));
        for (int k = 0; k < now; k++)
            *sum_us += us[k];
    }
out:
    return rc;
}

int bb_scaling_run_rounds(struct bb_scaling_run *run, struct bb_runner *r)
{
    const struct bb_scaling *s = &run->study.scaling;
    struct bb_scaling_measured *m = &run->study.measured;
    FILE *out = run->session ? run->session->out : NULL;
    double us;
    int rc = 0;

    if (!run->session)
        return 0;
    bb_progress_clear(&run->session->progress);
    for (int i = 0; i < s->rounds; i++) {
        TRY(run_round(run, r, i, &us));
        m->seconds[i] = (us * s->full_steps / s->run_steps + m->last_us[i]) / 1e6;
        m->rounds = i + 1;
        bb_progress_clear(&run->session->progress);
        if (out && (run->full || (!s->synthetic && i == s->rounds - 1))) /* at most 25 lines without --full */
            bb_scaling_print_round(s, i, m->seconds[i], out);
    }
    if (out && s->synthetic)
        bb_scaling_print_total(s, m, out);
out:
    return rc;
}

int bb_scaling_run_report(struct bb_scaling_run *run, const struct bb_measured *step)
{
    if (!run->session)
        return 0;
    run->study.step_us = step->timed.step.p50;
    run->study.compute_alone_us = step->alone ? step->compute_alone_us : NAN;
    if (run->session->out)
        bb_scaling_print(&run->study, run->full, run->session->out);
    return bb_results_set(run->session->json, "scaling", bb_scaling_json(&run->study));
}
