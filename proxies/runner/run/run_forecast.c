/* run_forecast.c - compares a run with its prediction (see run_forecast.h). */
#include "proxies/runner/run/run_forecast.h"

#include "bootstrap/base/environment.h"
#include "bootstrap/base/units.h"
#include "bootstrap/results/results.h"
#include "bootstrap/results/table.h"
#include "proxies/runner/run/run_report.h"
#include "proxies/simulation/simulate/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* On rank 0: predicts the step, and computes how much of the measured and of the predicted step time belongs to each
 * category (time_shares.h: exposed, backward, ...). measured: its ranks contain f->rank, unless that is BB_NONE. */
static int compare(struct bb_run_forecast *f, const struct bb_step *step, const struct bb_cluster *cluster,
                   const struct bb_slow *slow, const struct bb_timeline *measured)
{
    const struct bb_conditions conditions = {.slow = *slow};
    struct bb_prediction p = {0};
    struct bb_timeline predicted = {0};
    int at = 0, rc;

    snprintf(f->cluster, sizeof(f->cluster), "%s", cluster->name);
    TRY(bb_predict_under(step, cluster, &conditions, &p));
    f->step_us = (double)p.step_ns / 1e3;
    if (f->rank == BB_NONE)
        goto out;
    bb_timeline_init(&predicted, step, &f->rank, 1);
    bb_predicted_timeline(step, &p, &predicted);
    while (measured->ranks[at] != f->rank)
        at++;
    f->rank_us[0] = (double)measured->step_ns[at] / 1e3;
    f->rank_us[1] = (double)predicted.step_ns[at] / 1e3;
    bb_time_shares(step, f->rank, measured->ops[at], measured->step_ns[at], &f->measured, &f->n);
    bb_time_shares(step, f->rank, predicted.ops[at], predicted.step_ns[at], &f->predicted, &f->n);
out:
    bb_timeline_release(&predicted);
    bb_prediction_release(&p);
    return rc;
}

int bb_run_forecast_make(struct bb_run_forecast *f, struct bb_runner *r, const struct bb_step *step,
                         const struct bb_measured *m, const struct bb_cluster *cluster, const struct bb_slow *slow)
{
    struct bb_timeline measured = {0};
    int rc = 0;

    *f = (struct bb_run_forecast){
        .known = true, .other_nodes = f->other_nodes, .rank = bb_slowest_rank(m, step, BB_NONE)};
    if (f->rank != BB_NONE)
        TRY(bb_run_timeline_gather(r, step, m, &measured));
    if (r->world->rank == 0)
        rc = compare(f, step, cluster, slow, &measured);
    rc = bb_world_agree(r->world, rc, "the prediction");
out:
    bb_timeline_release(&measured);
    return rc;
}

void bb_run_forecast_release(struct bb_run_forecast *f)
{
    free(f->measured);
    free(f->predicted);
    *f = (struct bb_run_forecast){0};
}

/* ---- output ---- */

struct pair {
    double measured_us, predicted_us;
};

/* Returns the relative error predicted / measured - 1; NaN if nothing was measured. */
static double error_of(const struct pair *p)
{
    return p->measured_us > 0 ? p->predicted_us / p->measured_us - 1 : NAN;
}

static json_t *error_json(const void *pair)
{
    return bb_json_real(error_of(pair));
}

static json_t *error_text(const void *pair)
{
    const double percent = 100 * error_of(pair);

    return isfinite(percent) ? json_sprintf("%+.1f%%", fabs(percent) < 0.05 ? 0 : percent) : json_null();
}

static const struct bb_field pair_fields[] = {
    {"measured_us", "measured", "", 14, 0, BB_SHOWS(struct pair, measured_us), .form = BB_FORM_TIME},
    {"predicted_us", "predicted", "", 14, 0, BB_SHOWS(struct pair, predicted_us), .form = BB_FORM_TIME},
    {"error", .value = error_json},
    {NULL, "error", "", 9, 0, .value = error_text},
    {0},
};

static void print_line(const char *by, const char *name, struct pair pair, struct bb_line *line)
{
    fprintf(line->out, "  %-6s %-32s", by, name);
    bb_line_row(line, pair_fields, &pair);
    bb_line_end(line);
}

void bb_run_forecast_print(const struct bb_run_forecast *f, double step_us, bool full, FILE *out)
{
    const struct bb_time_unit unit = bb_time_unit(fmax(step_us, f->step_us));
    struct bb_line line = {.out = out, .start = " ", .gap = " ", .time = &unit};

    if (!f->known)
        return;
    fprintf(out, "%s# prediction for %s (modelled): error = predicted / measured - 1", full ? "#\n" : "", f->cluster);
    if (full && f->rank != BB_NONE)
        fprintf(out, "; parts of the step: final traced step of rank %d", f->rank);
    fprintf(out, "\n# %-6s %-32s", unit.name, "");
    bb_line_heading(&line, pair_fields, false);
    bb_line_end(&line);
    print_line("step", "median, slowest rank", (struct pair){step_us, f->step_us}, &line);
    if (full && f->rank != BB_NONE)
        print_line("step", "traced", (struct pair){f->rank_us[0], f->rank_us[1]}, &line);
    for (int i = 0; full && i < f->n; i++)
        print_line(f->measured[i].by, f->measured[i].name, (struct pair){f->measured[i].us, f->predicted[i].us}, &line);
}

/* Returns measured / predicted time of a part of the step; 0: not longer by more than 20 % and 1 % of the step. */
static double excess_of(const struct bb_run_forecast *f, const char *part)
{
    int i = 0;

    while (i < f->n && strcmp(f->measured[i].name, part) != 0)
        i++;
    return i < f->n && f->predicted[i].us > 0 && f->measured[i].us > 1.2 * f->predicted[i].us &&
                   f->measured[i].us - f->predicted[i].us > 0.01 * f->rank_us[0]
               ? f->measured[i].us / f->predicted[i].us
               : 0;
}

void bb_run_forecast_print_longer(const struct bb_run_forecast *f, bool judged, FILE *out)
{
    const double compute = excess_of(f, "compute"), comm = excess_of(f, "communication");
    const char *program = bb_environment_program();
    char *restricted = bb_json_restrictions(NULL, NULL);

    if (compute > 0)
        fprintf(out, "# compute takes %.2f x the time predicted for %s; to test the GPUs: %s bench compute\n", compute,
                f->cluster, program);
    else if (comm > 0 && !judged)
        fprintf(
            out,
            "# communication takes %.2f x the time predicted for %s: a slow or late rank, or a slow link; to find it: "
            "%s bench compute, %s bench p2p\n",
            comm, f->cluster, program, program);
    else if (comm > 0)
        fprintf(out, "# communication takes %.2f x the time predicted for %s%s%s; %s: %s bench p2p\n", comm, f->cluster,
                restricted ? "; restricted by " : "", restricted ? restricted : "",
                restricted ? "if it is as slow without that" : "to find the link", program);
    free(restricted);
}

json_t *bb_run_forecast_json(const struct bb_run_forecast *f, double step_us)
{
    json_t *rows = json_array(), *o;

    if (!f->known) {
        json_decref(rows);
        return json_null();
    }
    for (int i = 0; i < f->n; i++) {
        o = bb_table_object(pair_fields, &(struct pair){f->measured[i].us, f->predicted[i].us});
        json_object_set_new(o, "by", json_string(f->measured[i].by));
        json_object_set_new(o, "name", json_string(f->measured[i].name));
        json_array_append_new(rows, o);
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "cluster", f->cluster, "step",
                     bb_table_object(pair_fields, &(struct pair){step_us, f->step_us}), "rank",
                     f->rank == BB_NONE ? json_null() : json_integer(f->rank), "traced_step",
                     f->rank == BB_NONE ? json_null()
                                        : bb_table_object(pair_fields, &(struct pair){f->rank_us[0], f->rank_us[1]}),
                     "rows", rows);
}
