/* scaling_report.c - reads the baseline of a scaling study, prints the results of the study and writes them as JSON
 * (see scaling.h). */
#include "bootstrap/base/json_read.h"
#include "bootstrap/results/results.h"
#include "bootstrap/results/table.h"
#include "proxies/workloads/registry/registry.h"
#include "proxies/workloads/replicas/scaling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RATE_TEXT 32

/* Writes a rate in images per second; "n/a" for steps that take no time (one rank with --compute none). */
static const char *rate_text(double rate, int digits, char text[RATE_TEXT])
{
    snprintf(text, RATE_TEXT, "%.*f", digits, rate);
    return isfinite(rate) ? text : "n/a";
}

static const char *unit_of(const struct bb_scaling *s)
{
    return s->sequences ? "samples/s" : "img/sec";
}

static const char *title_of(const struct bb_scaling *s)
{
    return s->sequences ? "Samples/s" : "Img/sec";
}

void bb_scaling_print_round(const struct bb_scaling *s, int round, double seconds, FILE *out)
{
    char text[RATE_TEXT];

    if (s->synthetic)
        fprintf(out, "Iter #%d: %s %s per GPU\n", round, rate_text(s->rank_images / seconds, 1, text), unit_of(s));
    else
        fprintf(out, "Epoch %d/%d | Time: %.2fs | Global %s: %s\n", round + 1, s->rounds, seconds, title_of(s),
                rate_text(bb_scaling_rate(s, seconds), 2, text));
    fflush(out);
}

void bb_scaling_print_total(const struct bb_scaling *s, const struct bb_scaling_measured *m, FILE *out)
{
    char text[2][RATE_TEXT];
    double mean, spread;

    bb_scaling_iteration_stats(s, m, &mean, &spread);
    fprintf(out, "%s per GPU: %s +-%s\n", title_of(s), rate_text(mean, 1, text[0]), rate_text(spread, 1, text[1]));
    fprintf(out, "Total %s on %d GPU(s): %s +-%s\n", unit_of(s), s->ranks, rate_text(s->ranks * mean, 1, text[0]),
            rate_text(s->ranks * spread, 1, text[1]));
}

/* Returns as JSON the parameters that must be equal in a run and its baseline. */
static json_t *parameters_json(const struct bb_proxy_config *c, const struct bb_scaling *s)
{
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:s, s:s, s:s, s:f, s:f}", "model", c->model, "mode",
                     s->strong ? "strong" : "weak", "format", s->synthetic ? "synthetic" : "epochs", "batch",
                     s->given_batch, "images", s->images, "dtype", c->dtype, "compute", c->compute, "sync",
                     c->sync.sync, "tflops", c->tflops, "scale_counts", c->scale_counts > 0 ? c->scale_counts : 1.0);
}

/* ---- baseline ---- */

/* Returns the options of the step as JSON, except those that parameters_json() has and those that may differ between a run
 * and its baseline. */
static json_t *options_json(const struct bb_proxy_config *c)
{
    static const struct bb_opt_table tables[] = {BB_STEP_TABLES(0), {0}};
    static const char *const others[] = {"mode",   "format",      "batch",    "images",
                                         "epochs", "epoch_steps", "baseline", "gpus_per_node"};
    json_t *options = bb_json_options(&(struct bb_opts){.tables = tables}, c);

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        json_object_del(options, others[i]);
    return options;
}

/* Checks that this run and the baseline run, with the JSON object `scaling`, have equal parameters. */
static int check_parameters(const char *path, json_t *own, const json_t *scaling)
{
    const char *key;
    json_t *here;

    json_object_foreach(own, key, here)
    {
        const json_t *there = json_object_get(scaling, key);
        char *is, *expected;
        int rc;

        if (there && json_equal(here, there))
            continue;
        is = json_dumps(there, JSON_ENCODE_ANY);
        expected = json_dumps(here, JSON_ENCODE_ANY);
        rc = bb_err_job(BB_EUSAGE,
                        "scaling: --baseline %s belongs to a different study: its '%s' is %s, but this run has %s",
                        path, key, is ? is : "missing", expected ? expected : "missing");
        free(is);
        free(expected);
        return rc;
    }
    return 0;
}

static int read_rates(struct bb_scaling_baseline *b, const json_t *root)
{
    const char *status = json_string_value(json_object_get(root, "status"));

    b->rate = json_number_value(json_object_get(json_object_get(root, "scaling"), "images_per_s"));
    b->step_us = json_number_value(json_object_get(json_object_get(root, "step_us"), "p50"));
    b->ranks = (int)json_integer_value(json_object_get(root, "ranks"));
    b->emulated = json_is_true(json_object_get(root, "emulated"));
    if (json_is_true(json_object_get(root, "shared_gpu")))
        return bb_err_job(BB_EUSAGE, "scaling: ranks of --baseline %s shared a GPU, so its times are meaningless",
                          b->path);
    if (status && strcmp(status, "ok") != 0)
        return bb_err_job(BB_EUSAGE, "scaling: --baseline %s has status '%.40s', expected a finished run (status 'ok')",
                          b->path, status);
    if (!(b->rate > 0) || !(b->step_us > 0) || b->ranks < 1)
        return bb_err_job(
            BB_EUSAGE,
            "scaling: --baseline %s has no throughput; try: the --json file of a finished 'busbar proxy scaling'",
            b->path);
    return 0;
}

int bb_scaling_baseline_load(const struct bb_proxy_config *c, const struct bb_scaling *s, struct bb_scaling_baseline *b)
{
    json_t *root = NULL, *own, *options = NULL, *scaling;
    int rc;

    *b = (struct bb_scaling_baseline){.path = c->scaling.baseline};
    if (!b->path)
        return 0;
    own = parameters_json(c, s);
    TRY(bb_json_load(b->path, &root));
    scaling = json_object_get(root, "scaling");
    if (!json_is_object(scaling))
        rc = bb_err_job(BB_EUSAGE,
                        "scaling: --baseline %s is not the result of a scaling study; try: the --json file of 'busbar "
                        "proxy scaling'",
                        b->path);
    TRY(rc);
    TRY(check_parameters(b->path, own, scaling));
    options = options_json(c);
    if (json_is_object(json_object_get(root, "options")))
        TRY(check_parameters(b->path, options, json_object_get(root, "options")));
    TRY(read_rates(b, root));
out:
    json_decref(root);
    json_decref(options);
    json_decref(own);
    return rc;
}

/* ---- report ---- */

/* The metrics of a study. Those relative to the baseline run are meaningless without a baseline. */
struct metrics {
    double rate; /* images per second of all ranks */
    /* fraction of a full-batch step's time that communication adds: 1 - (step time with compute alone) / (step time); 0
     * for one rank, which does not communicate; NaN if the time with compute alone is unknown */
    double comm_share;
    double speedup, efficiency, ideal_rate;
    double step_efficiency; /* computed only from steps with the full batch, without the last step of each epoch, which
                               may have fewer samples */
    double karp_flatt;      /* NaN if the baseline run had several ranks, and with weak scaling, where the formula,
                               which assumes a fixed problem size, is meaningless */
    double added_compute;   /* (step time with compute alone - step time of the baseline) / step time; NaN unless the
                               scaling is weak and the baseline, of one rank, did not communicate, and below 0.05 % */
    double rank_rate;       /* images per second of one rank */
    double ideal_speedup;
    const char *efficiency_name, *unit;
    struct bb_scaling_baseline baseline;
};

#define METRIC(name) BB_SHOWS(struct metrics, name)
static const struct bb_field rate_fields[] = {
    {"images_per_s", "", " ", 0, 1, METRIC(rate)},
    {NULL, "", "", 0, 0, METRIC(unit)},
    {"images_per_s_per_rank", ", ", " per rank", 0, 1, METRIC(rank_rate)},
    {"communication_share", "; lost to communication: ", " of a full step", 0, 1, METRIC(comm_share),
     .form = BB_FORM_PERCENT},
    {0},
};
static const struct bb_field baseline_fields[] = {
    {"file", METRIC(baseline.path)},
    {"ranks", "# baseline: ", " rank", 0, 0, METRIC(baseline.ranks), .form = BB_FORM_PLURAL},
    {"images_per_s", ", ", " ", 0, 1, METRIC(baseline.rate)},
    {NULL, "", "", 0, 0, METRIC(unit)},
    {"step_us", METRIC(baseline.step_us)},
    {"speedup", "; speed-up ", "", 0, 3, METRIC(speedup)},
    {NULL, " (ideal ", "), ", 0, 3, METRIC(ideal_speedup), .form = BB_FORM_GENERAL},
    {NULL, "", " ", 0, 0, METRIC(efficiency_name)},
    {"efficiency", "", "", 0, 4, METRIC(efficiency)},
    {"step_efficiency", " (of full steps only: ", ")", 0, 4, METRIC(step_efficiency)},
    {NULL, "; compute longer by ", " of a full step", 0, 1, METRIC(added_compute), .form = BB_FORM_PERCENT},
    {"ideal_images_per_s", "; ideal: ", " ", 0, 1, METRIC(ideal_rate)},
    {NULL, "", "", 0, 0, METRIC(unit)},
    {"karp_flatt", "; serial fraction (Karp-Flatt) ", "", 0, 4, METRIC(karp_flatt)},
    {0},
};

static const struct bb_field size_fields[] = {
    {"ranks", BB_SHOWS(struct bb_scaling, ranks)},
    {"rank_batch", BB_SHOWS(struct bb_scaling, batch)},
    {"rank_images", BB_SHOWS(struct bb_scaling, rank_images)},
    {0},
};
static const struct bb_field broadcast_fields[] = {
    {"calls", "# first broadcast of rank 0's state: ", " tensors", 0, 0,
     BB_SHOWS(struct bb_scaling_measured, broadcasts)},
    {"bytes", ", ", "", 0, 0, BB_SHOWS_WHOLE(struct bb_scaling_measured, broadcast_bytes), .form = BB_FORM_BYTES},
    {"time_us", ", ", " after connection setup\n", 0, 0, BB_SHOWS(struct bb_scaling_measured, broadcast_us),
     .form = BB_FORM_TIME},
    {0},
};

static struct metrics metrics_of(const struct bb_scaling_study *y)
{
    const struct bb_scaling_baseline *b = &y->baseline;
    const int n = y->scaling.ranks;
    const double rate = bb_scaling_steady_rate(&y->scaling, &y->measured);
    const double added = y->scaling.strong || b->ranks > 1 ? 0 : (y->compute_alone_us - b->step_us) / y->step_us;

    return (struct metrics){
        .added_compute = added > 0.0005 ? added : NAN,
        .rate = rate,
        .comm_share = n == 1 ? 0 : 1 - y->compute_alone_us / y->step_us,
        .speedup = rate / b->rate,
        .efficiency = bb_scaling_efficiency(rate, n, b->rate, b->ranks),
        .ideal_rate = b->rate * n / b->ranks,
        .step_efficiency = y->scaling.strong ? b->ranks * b->step_us / (n * y->step_us) : b->step_us / y->step_us,
        .karp_flatt = y->scaling.strong && b->ranks == 1 ? bb_karp_flatt(rate / b->rate, n) : NAN,
        .rank_rate = rate / n,
        .ideal_speedup = (double)n / b->ranks,
        .efficiency_name = y->scaling.strong ? "strong scaling efficiency E_s" : "weak scaling efficiency E_w",
        .unit = unit_of(&y->scaling),
        .baseline = *b,
    };
}

static void print_method(const struct bb_scaling *s, FILE *out)
{
    fprintf(out, "# %s scaling; %s: ", s->strong ? "strong" : "weak", s->synthetic ? "iterations" : "epochs");
    if (s->run_steps < s->full_steps)
        fprintf(out, "%d of %d full steps run, time extrapolated", s->run_steps, s->full_steps);
    else
        fputs("every step runs", out);
    if (s->last_batch)
        fputs(", a shorter last step is timed separately before", out);
    fputs("; time: GPU time of the steps on the slowest rank, without data loading\n", out);
}

void bb_scaling_print(const struct bb_scaling_study *y, bool full, FILE *out)
{
    const struct bb_scaling *s = &y->scaling;
    const struct bb_scaling_measured *m = &y->measured;
    const struct metrics of = metrics_of(y);

    if (full || s->run_steps < s->full_steps)
        print_method(s, out);
    if (full && m->broadcasts > 0)
        bb_table_sentence(out, broadcast_fields, m);
    fputs(!s->synthetic && s->rounds > 1 ? "# from epoch 2 on: " : "# ", out);
    if (!isfinite(of.rate))
        fprintf(out, "n/a %s (the steps take no time)", of.unit);
    bb_table_sentence(out, rate_fields + (isfinite(of.rate) ? 0 : 2), &of);
    fputc('\n', out);
    if (!y->baseline.path)
        return;
    bb_table_sentence(out, baseline_fields, &of);
    fputc('\n', out);
}

json_t *bb_scaling_json(const struct bb_scaling_study *y)
{
    const struct bb_scaling *s = &y->scaling;
    const struct bb_scaling_measured *m = &y->measured;
    const struct metrics of = metrics_of(y);
    json_t *object = parameters_json(y->config, s), *rounds = json_array();

    for (int i = 0; i < m->rounds; i++)
        json_array_append_new(rounds, json_pack("{s:f, s:o}", "time_s", m->seconds[i], "images_per_s",
                                                bb_json_real(bb_scaling_rate(s, m->seconds[i]))));
    bb_table_json(object, size_fields, s);
    json_object_set_new(object, "steps_per_epoch", json_integer(s->full_steps + (s->last_batch > 0)));
    json_object_set_new(object, "last_batch", json_integer(s->last_batch ? s->last_batch : s->batch));
    json_object_set_new(object, "full_steps_run", json_integer(s->run_steps));
    json_object_set_new(object, s->synthetic ? "iterations" : "epochs", rounds);
    bb_table_json(object, rate_fields, &of);
    json_object_set_new(object, "broadcast", m->broadcasts > 0 ? bb_table_object(broadcast_fields, m) : json_null());
    json_object_set_new(object, "baseline", y->baseline.path ? bb_table_object(baseline_fields, &of) : json_null());
    return object;
}
