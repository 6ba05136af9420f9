/* calibration.c - selects the measurements and the parameters of each fit, and runs the fits in order (see
 * calibration.h). */
#include "proxies/offline/calibrate/parameters/calibration.h"

#include "bootstrap/base/alloc.h"
#include "proxies/offline/calibrate/fit/robust_fit.h"
#include "proxies/offline/calibrate/measurements/row_time.h"
#include "proxies/offline/calibrate/parameters/direct_parameters.h"
#include "proxies/offline/calibrate/parameters/measured_curves.h"
#include "proxies/offline/calibrate/parameters/parameters.h"
#include "proxies/offline/calibrate/parameters/penalized_variants.h"
#include "proxies/offline/calibrate/parameters/unmeasured_rates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Maximum ratio of a fitted rate to its value in the starting profile; a rate at this limit is treated as infinite. */
#define UNBOUNDED 1e3
/* The same for the rates of a variant of NCCL that NCCL chose itself, relative to the ratio of ring Simple: the same links
 * limit all variants, and the few sizes for which NCCL chose one can lead its rate anywhere. A rate may always rise to the
 * part of the rate of ring Simple that its protocol can use (data_part): other networks have other fractions. */
#define MAX_RISE 1.3
/* A rate that only collectives of NCCL's choice determine is fitted if it takes this fraction of the time of one of them:
 * at smaller sizes the times do not separate latency and rate, and a wrong rate is wrong at all larger sizes. */
#define MIN_RATE_SENSITIVITY 0.8
/* Except if the mean error without the rate is MIN_RATE_ERROR or more, of MIN_RATE_ROWS or more, and falls to this part. */
#define MAX_RATE_PART  0.5
#define MIN_RATE_ERROR 0.02
#define MIN_RATE_ROWS  4
#define MIN_SCALE_US   0.5 /* us; minimum value of bb_fit_parameter.scale (robust_fit.h) for a latency */
/* Offsets of parameters that several fits treat differently. */
#define AT_LATENCY offsetof(struct bb_cluster, inter.latency_us)
#define AT_GROUP   offsetof(struct bb_cluster, inter.group_us)
#define AT_MESSAGE offsetof(struct bb_cluster, inter.message_us)

/* ---- measurements and parameters of each fit ---- */

/* Categories of measurements, combined as a bit mask. OWN_CHOICE: collectives for which NCCL chose the variant
 * (algorithm + protocol), not the user. SEND_RECV: collectives that NCCL implements as sends and receives; VARIANT: all
 * others. VARIANT_CHOICE: VARIANT and OWN_CHOICE. */
enum {
    KERNEL = 1,
    LAUNCH = 2,
    MESSAGE = 4,
    OVERLAP = 8,
    OWN_CHOICE = 16,
    SEND_RECV = 32,
    VARIANT = 64,
    VARIANT_CHOICE = 128
};
/* Whether the ranks of a measurement are on one node (LOCAL) or on several nodes (REMOTE), combined as a bit mask. */
enum { LOCAL = 1, REMOTE = 2, ANYWHERE = LOCAL | REMOTE };

static unsigned categories_of(const struct bb_measurement *r)
{
    static const unsigned categories[] = {[BB_MEASURED_KERNEL] = KERNEL,
                                          [BB_MEASURED_TIMED_KERNEL] = KERNEL,
                                          [BB_MEASURED_NCCL_LAUNCH] = LAUNCH,
                                          [BB_MEASURED_MESSAGE] = MESSAGE,
                                          [BB_MEASURED_OVERLAP] = OVERLAP};

    if (r->kind != BB_MEASURED_COLLECTIVE)
        return categories[r->kind];
    return (r->forced ? 0 : OWN_CHOICE) | (bb_colls[r->call.kind].flags & BB_COLL_ESTIMATED ? VARIANT : SEND_RECV) |
           (bb_is_nccl_choice(r) ? VARIANT_CHOICE : 0);
}

/* The fits in the order in which they run; later fits use the results of earlier ones. A parameter is fitted only
 * once. If a later fit determines a parameter that is already fitted, the value stays, and the measurements of the
 * later fit only validate it. With STAGE_VARIANTS, the fits of messages include collectives that NCCL implements as
 * sends and receives, because the cost model treats them as messages. In the predictions of STAGE_CHOICE the cost model
 * also chooses the variant, so the errors include wrong choices. */
static const struct planned_fit {
    const char *name; /* NULL: one fit per NCCL variant (algorithm + protocol) */
    enum stage { STAGE_FIRST, STAGE_ALPHA_BETA, STAGE_VARIANTS, STAGE_CHOICE, STAGE_SHARING } stage;
    unsigned categories, places;
    enum bb_determined_by determines; /* the parameters that are fitted; BB_BY_NO_FIT: only the errors are computed */
} planned_fits[] = {
    {"kernels", STAGE_FIRST, KERNEL, ANYWHERE, BB_BY_KERNELS},
    {"NCCL calls", STAGE_FIRST, LAUNCH, ANYWHERE, BB_BY_CALLS},
    {"collectives within a node", STAGE_ALPHA_BETA, OWN_CHOICE, LOCAL, BB_BY_LOCAL},
    {"collectives between nodes", STAGE_ALPHA_BETA, OWN_CHOICE, REMOTE, BB_BY_REMOTE},
    {"messages within a node", STAGE_ALPHA_BETA, MESSAGE, LOCAL, BB_BY_LOCAL},
    {"messages between nodes", STAGE_ALPHA_BETA, MESSAGE, REMOTE, BB_BY_REMOTE},
    {"messages within a node", STAGE_VARIANTS, MESSAGE | SEND_RECV, LOCAL, BB_BY_LOCAL},
    {"messages between nodes", STAGE_VARIANTS, MESSAGE | SEND_RECV, REMOTE, BB_BY_REMOTE},
    {NULL, STAGE_VARIANTS, VARIANT, ANYWHERE, BB_BY_VARIANT},
    {"collectives, as NCCL chose", STAGE_CHOICE, VARIANT_CHOICE, ANYWHERE, BB_BY_NO_FIT},
    {"GEMMs during NCCL", STAGE_SHARING, OVERLAP, ANYWHERE, BB_BY_OVERLAP},
};

/* Returns whether the fit uses the measurement. variant: index of the NCCL variant of the fit; -1: any. */
static bool uses_row(const struct bb_calibration *c, const struct planned_fit *planned, int variant,
                     const struct bb_measurement *r)
{
    const bool local = r->kind == BB_MEASURED_MESSAGE ? r->same_node : r->call.nodes == 1;

    if (!(planned->categories & categories_of(r)))
        return false;
    if (planned->places != ANYWHERE && planned->places != (local ? LOCAL : REMOTE))
        return false;
    return variant < 0 ||
           (c->chosen[r - c->measurements->rows] == variant && isfinite(bb_row_time_by_us(&c->start, variant, r)));
}

/* ---- one fit ---- */

/* Input of one fit: its measurements, and the profile parameters that are fitted to them. */
struct model {
    const struct bb_cluster *base, *start; /* as in struct bb_calibration */
    struct bb_cluster *cluster;
    const struct bb_measurement **rows; /* [bb_fit.n_rows] */
    struct bb_calibration_parameter *parameters[BB_FIT_PARAMETERS];
    int variant; /* index of the NCCL variant (algorithm + protocol) that predicts all times; -1: the cost model
                    selects a variant for each measurement */
    bool is_small[BB_FIT_PARAMETERS]; /* rates that only fit_small_rates may fit */
};

/* Converts a profile's parameter to the value that is fitted, and back: a rate is fitted as its inverse. */
static double convert(const struct bb_calibration_parameter *parameter, double value)
{
    return parameter->kind == BB_RATE ? 1 / value : value;
}

static double predict_row(const struct bb_fit *fit, size_t i)
{
    const struct model *m = fit->model;

    for (int p = 0; p < fit->n_parameters; p++)
        bb_parameter_try(m->cluster, m->parameters[p], convert(m->parameters[p], fit->parameters[p].value));
    return m->variant >= 0 ? bb_row_time_by_us(m->cluster, m->variant, m->rows[i])
                           : bb_row_time_us(m->cluster, m->rows[i]);
}

/* Largest size that determines the latency of an NCCL variant at the sizes below it. */
#define SMALL_BYTES (64 << 10)

/* Returns whether the measurements determine latencies at sizes below the smallest of them. */
static bool has_small_row(const struct model *m, const struct bb_fit *fit)
{
    for (size_t i = 0; i < fit->n_rows; i++)
        if (m->rows[i]->call.count * bb_dtypes[m->rows[i]->call.dtype].bytes <= SMALL_BYTES)
            return true;
    return false;
}

/* Returns the index of ring Simple among the variants of NCCL; n_variants: the profile has none. */
static int find_ring_simple(const struct bb_cluster *c)
{
    int i = 0;

    while (i < c->n_variants &&
           (c->variants[i].algorithm != BB_NCCL_RING || strcmp(c->variants[i].protocol, "Simple") != 0))
        i++;
    return i;
}

/* Returns whether other measurements than collectives of NCCL's choice determine the fit. */
static bool has_forced_row(const struct model *m, const struct bb_fit *fit)
{
    for (size_t i = 0; i < fit->n_rows; i++)
        if (m->rows[i]->forced || m->rows[i]->kind != BB_MEASURED_COLLECTIVE)
            return true;
    return false;
}

/* Returns the fraction of a link's rate that the protocol can use for data: LL sends a flag with each 4 bytes, LL128 8 bytes
 * of flags with 120 of data (NCCL, src/include/device.h). */
static double data_part(const char *protocol)
{
    return strcmp(protocol, "LL") == 0 ? 0.5 : strcmp(protocol, "LL128") == 0 ? 120.0 / 128 : 1;
}

/* Returns the maximum ratio of the rate to its value in the starting profile. */
static double max_rise(const struct model *m, const struct bb_fit *fit, const struct bb_calibration_parameter *rate)
{
    const int simple = find_ring_simple(m->cluster);
    const void *now, *nominal; /* the same rate of the ring */
    size_t at;

    if (m->variant < 0 || m->variant == simple || simple == m->cluster->n_variants || has_forced_row(m, fit))
        return UNBOUNDED;
    at = rate->offset + (size_t)simple * sizeof(*m->cluster->variants) -
         (size_t)m->variant * sizeof(*m->cluster->variants);
    now = (const char *)m->cluster + at;
    nominal = (const char *)m->base + at;
    return fmax(MAX_RISE * fmax(1, *(const double *)now / *(const double *)nominal),
                data_part(m->cluster->variants[m->variant].protocol) * *(const double *)now / rate->nominal);
}

/* Returns the value with which the fit begins. The rate of the NICs is inter.gbps times a fraction of each variant. */
static double start_of(const struct model *m, const struct bb_calibration_parameter *parameter)
{
    const void *rate = (const char *)m->start + parameter->offset;
    double start = parameter->nominal;

    if (m->variant >= 0 && parameter->kind == BB_RATE)
        start = *(const double *)rate;
    if (m->variant >= 0 && m->start->inter.gbps < m->base->inter.gbps &&
        (const char *)m->cluster + parameter->offset == (const char *)&m->cluster->variants[m->variant].nic)
        start *= m->start->inter.gbps / m->cluster->inter.gbps;
    return convert(parameter, start);
}

/* Returns whether the fit has only groups of messages between nodes, which determine the sum of inter.latency_us and
 * inter.group_us; single messages determine the former. */
static bool has_only_groups(const struct model *m, const struct bb_fit *fit)
{
    for (size_t i = 0; i < fit->n_rows; i++)
        if (m->rows[i]->kind == BB_MEASURED_MESSAGE || m->rows[i]->call.ranks == 2)
            return false;
    return m->base->n_variants > 0;
}

/* Returns whether collectives with different numbers of messages between nodes separate inter.group_us and
 * inter.message_us. */
static bool has_two_groups(const struct model *m, const struct bb_fit *fit)
{
    int first = 0;

    for (size_t i = 0; i < fit->n_rows; i++) {
        const struct bb_collective *call = &m->rows[i]->call;
        const int messages = m->rows[i]->kind == BB_MEASURED_COLLECTIVE ? call->ranks - call->ranks / call->nodes : 0;

        if (messages > 0 && first > 0 && messages != first)
            return true;
        first = messages > 0 ? messages : first;
    }
    return false;
}

/* Stores a sum that is less than inter.latency_us, as a shorter latency. */
static void shorten_latency(struct bb_calibration *c, double us)
{
    bb_parameter_set(c, bb_parameter_of(c, &c->cluster.inter.latency_us), c->cluster.inter.latency_us + us);
}

/* Without measurements of small sizes the latency of an NCCL variant is at least that of the starting profile, because
 * the model would choose it at sizes below those at which NCCL does. */
static void add_parameter(struct model *m, struct bb_fit *fit, struct bb_calibration_parameter *parameter)
{
    const double nominal = convert(parameter, parameter->nominal), start = start_of(m, parameter);
    const double min_us = m->variant >= 0 && !has_small_row(m, fit)                  ? start
                          : parameter->offset == AT_GROUP && has_only_groups(m, fit) ? -m->base->inter.latency_us
                                                                                     : 0;

    if ((parameter->offset == AT_LATENCY && has_only_groups(m, fit)) ||
        (parameter->offset == AT_GROUP && start <= 0 && !has_only_groups(m, fit) && !has_two_groups(m, fit)))
        return;

    m->parameters[fit->n_parameters] = parameter;
    fit->parameters[fit->n_parameters++] =
        parameter->kind == BB_RATE
            ? (struct bb_fit_parameter){.start = start,
                                        .min = nominal / max_rise(m, fit, parameter),
                                        .scale = start,
                                        .min_sensitivity = has_forced_row(m, fit) ? 0 : MIN_RATE_SENSITIVITY}
            : (struct bb_fit_parameter){.start = start,
                                        .min = min_us,
                                        .scale = start <= 0 && parameter->offset == AT_GROUP && has_two_groups(m, fit)
                                                     ? fmax(m->base->inter.latency_us, MIN_SCALE_US)
                                                     : fmax(start, MIN_SCALE_US)};
}

/* Marks parameters of messages between nodes of which the measurements determine only the sum. */
static void mark_sum(struct bb_calibration *c, const struct model *m, const struct bb_fit *fit,
                     struct bb_calibration_parameter *parameter)
{
    const bool one_group = parameter->offset == AT_MESSAGE && !has_two_groups(m, fit);
    const bool no_message = (parameter->offset == AT_GROUP || one_group) && has_only_groups(m, fit);

    parameter->correlated |= one_group || no_message;
    if (parameter->correlated)
        parameter->uncertainty_percent = NAN;
    if (one_group)
        bb_parameter_of(c, &c->cluster.inter.group_us)->correlated = true;
    if (no_message)
        bb_parameter_of(c, &c->cluster.inter.latency_us)->correlated = true;
}

static void store_results(struct bb_calibration *c, const struct model *m, const struct bb_fit *fit)
{
    struct bb_calibration_fit *done = &c->fits[c->n_fits];

    for (int p = 0; p < fit->n_parameters; p++) {
        const struct bb_fit_parameter *fitted = &fit->parameters[p];
        struct bb_calibration_parameter *parameter = m->parameters[p];

        if (fitted->fitted && parameter->offset == AT_GROUP && fitted->value < 0)
            shorten_latency(c, fitted->value);
        if (fitted->fitted) {
            bb_parameter_set(c, parameter, fmax(0, convert(parameter, fitted->value)));
            parameter->is_small = m->is_small[p];
            parameter->correlated = fitted->correlated;
            parameter->uncertainty_percent = 100 * fitted->uncertainty;
            mark_sum(c, m, fit, parameter);
        } else {
            bb_parameter_try(&c->cluster, parameter, parameter->value);
        }
    }
    for (size_t i = 0; i < fit->n_rows; i++) {
        done->files |= (size_t)1 << (m->rows[i]->file % 64);
        BB_GROW(c->rows, c->n_rows);
        c->rows[c->n_rows++] = (struct bb_calibration_row){.measurement = m->rows[i],
                                                           .fit = done,
                                                           .fitted_us = m->rows[i]->time_us * (1 + fit->rows[i].error),
                                                           .outlier = fit->rows[i].is_outlier,
                                                           .systematic = fit->rows[i].is_systematic};
    }
    done->n_rows = fit->n_rows;
    done->n_outliers = fit->n_outliers;
    done->median_percent = 100 * fit->median_error;
    done->worst_percent = 100 * fit->worst_error;
    done->fitted = fit->n_parameters > 0;
    c->n_fits++;
}

#define MUCH_WORSE 0.01 /* rounding makes a fit a little worse than exact start values */

/* Keeps the values of the starting profile if their median error is much smaller: a few measurements, one of them wrong,
 * can lead a fit anywhere. start_error: this median, as a fraction. */
static void keep_better_start(const struct model *m, struct bb_fit *fit, double start_error)
{
    if (fit->median_error <= start_error + MUCH_WORSE)
        return;
    for (int p = 0; p < fit->n_parameters; p++)
        bb_parameter_try(m->cluster, m->parameters[p], m->parameters[p]->value);
    fit->n_parameters = 0;
    bb_fit_run(fit);
}

/* Mean of the errors of all rows, outliers too. */
static double mean_error(const struct bb_fit *fit)
{
    double sum = 0;

    for (size_t i = 0; i < fit->n_rows; i++)
        sum += fabs(fit->rows[i].error);
    return sum / (double)fit->n_rows;
}

static bool any_small(const struct model *m)
{
    for (int p = 0; p < BB_FIT_PARAMETERS; p++)
        if (m->is_small[p])
            return true;
    return false;
}

/* Fits also the fixed rate with this index, or all if there is none. Returns the mean error, infinity if no rate was fitted. */
static double fit_fixed_rate(struct bb_fit *fit, int rate)
{
    bool is_fixed[BB_FIT_PARAMETERS] = {false}, any = false;

    for (int p = 0; p < fit->n_parameters; p++) {
        is_fixed[p] = fit->parameters[p].fixed;
        if (is_fixed[p] && (p == rate || rate >= fit->n_parameters)) {
            fit->parameters[p].fixed = false;
            fit->parameters[p].min_sensitivity = 0;
        }
    }
    bb_fit_run(fit);
    for (int p = 0; p < fit->n_parameters; p++)
        any |= is_fixed[p] && fit->parameters[p].fitted;
    return any ? mean_error(fit) : INFINITY;
}

/* Fits also a rate below MIN_RATE_SENSITIVITY or at its limit, or all of them if one is not enough, where the errors without
 * it are not noise: latencies cannot replace it. Only with variants that NCCL recorded, because an assumed one may be wrong
 * at some sizes. */
static void fit_small_rates(struct model *m, struct bb_fit *fit)
{
    double least = MAX_RATE_PART * mean_error(fit);
    bool is_recorded = fit->n_rows >= MIN_RATE_ROWS && mean_error(fit) >= MIN_RATE_ERROR;
    struct bb_fit best, fixed;

    for (size_t i = 0; i < fit->n_rows; i++)
        is_recorded &= *m->rows[i]->algorithm != '\0';
    if (!is_recorded)
        return;
    for (int p = 0; p < fit->n_parameters; p++)
        fit->parameters[p].fixed = fit->parameters[p].min_sensitivity > 0 && !fit->parameters[p].fitted;
    best = fixed = *fit;
    for (int rate = 0; rate <= fit->n_parameters && (rate < fit->n_parameters || !any_small(m)); rate++) {
        struct bb_fit trial = fixed;
        const double error = fit_fixed_rate(&trial, rate);

        if (error > least)
            continue;
        least = error;
        best = trial;
        for (int p = 0; p < fit->n_parameters; p++)
            m->is_small[p] = fixed.parameters[p].fixed && trial.parameters[p].fitted;
    }
    *fit = best;
    bb_fit_run(fit);
}

/* Returns bb_fit_row.group: of the collective and its ranks; 0: another measurement. */
static int group_of(const struct bb_measurement *row)
{
    return row->kind == BB_MEASURED_COLLECTIVE ? ((int)row->call.kind + 1) << 24 | row->call.ranks : 0;
}

/* Runs a fit, and appends its results to c->fits and c->rows. Without measurements nothing is appended. variant: index
 * of the NCCL variant, for a fit of one variant; otherwise -1. */
static void run_fit(struct bb_calibration *c, const struct planned_fit *planned, int variant)
{
    const struct bb_measurements *e = c->measurements;
    struct model m = {.base = c->base, .start = &c->start, .cluster = &c->cluster, .variant = variant};
    struct bb_fit fit = {.predict = predict_row, .model = &m};
    char *name = c->fits[c->n_fits].name;

    BB_NEW(m.rows, e->n_rows);
    BB_NEW(fit.rows, e->n_rows);
    for (size_t i = 0; i < e->n_rows; i++)
        if (uses_row(c, planned, variant, &e->rows[i])) {
            m.rows[fit.n_rows] = &e->rows[i];
            fit.rows[fit.n_rows++] = (struct bb_fit_row){
                .measured = e->rows[i].time_us, .group = group_of(&e->rows[i]), .size = e->rows[i].bytes};
        }
    for (int p = 0; p < c->n_parameters; p++)
        if (planned->determines == c->parameters[p].by && c->parameters[p].variant == variant &&
            c->parameters[p].is_fittable && !c->parameters[p].fit)
            add_parameter(&m, &fit, &c->parameters[p]);
    if (fit.n_rows > 0) {
        struct bb_fit start = fit;

        start.n_parameters = 0; /* only computes the errors */
        snprintf(name, sizeof(c->fits->name), "%s", variant < 0 ? planned->name : c->variant_names[variant]);
        bb_fit_run(&start);
        bb_fit_run(&fit);
        fit_small_rates(&m, &fit);
        keep_better_start(&m, &fit, start.median_error);
        store_results(c, &m, &fit);
    }
    free(m.rows);
    free(fit.rows);
}

/* ring Simple first, because it limits the rates of the others (max_rise) */
static void run_variant_fits(struct bb_calibration *c, const struct planned_fit *planned)
{
    const int first = find_ring_simple(c->base), n = c->base->n_variants;

    if (first < n)
        run_fit(c, planned, first);
    for (int variant = 0; variant < n; variant++)
        if (variant != first)
            run_fit(c, planned, variant);
}

static void run_fits(struct bb_calibration *c, enum stage stage)
{
    for (size_t i = 0; i < sizeof(planned_fits) / sizeof(planned_fits[0]); i++) {
        const struct planned_fit *planned = &planned_fits[i];

        if (planned->stage == stage && planned->name)
            run_fit(c, planned, -1);
        else if (planned->stage == stage)
            run_variant_fits(c, planned);
    }
}

/* ---- order of all fits ---- */

/* If the profile has "achieved", the GEMM rate of a data type is the data sheet's rate of this type times the
 * fraction achieved.gemm, which is common to all types. Measurements determine only this product. Therefore the type
 * with the most measurements keeps its data sheet rate, and achieved.gemm is fitted to its measurements. The rates
 * of the other types are fitted with this value of achieved.gemm. */
static void fix_nominal_rates(struct bb_calibration *c)
{
    const struct bb_measurements *e = c->measurements;
    size_t n_bfloat16 = 0, n_half = 0;
    const double *anchor = &c->cluster.achieved.gemm;

    if (!c->cluster.has_achieved)
        return;
    for (size_t i = 0; i < e->n_rows; i++)
        if (e->rows[i].kind == BB_MEASURED_KERNEL && !e->rows[i].kernel.is_memory_kernel) {
            n_bfloat16 += e->rows[i].kernel.gemm.dtype == BB_BFLOAT16;
            n_half += e->rows[i].kernel.gemm.dtype == BB_HALF;
        }
    if (n_bfloat16 + n_half > 0)
        anchor = n_half > n_bfloat16 ? &c->cluster.tflops_float16 : &c->cluster.tflops_bfloat16;
    bb_parameter_of(c, anchor)->is_fittable = false;
    /* memory_gbps keeps the data sheet's value, because with "achieved" the fraction achieved.memory is fitted
     * instead. */
    bb_parameter_of(c, &c->cluster.memory_gbps)->is_fittable = false;
}

/* Fits latencies and rates, with the choices of NCCL in c->chosen. */
static void fit_rates(struct bb_calibration *c)
{
    const struct bb_cluster *base = c->base;

    c->n_fits = c->n_parameters = 0;
    c->n_rows = 0;
    c->cluster = *base;
    c->cluster.n_measured = 0;
    bb_parameters_init(c);
    fix_nominal_rates(c);
    bb_set_node_size(c);
    bb_set_sm_count(c);
    bb_set_collective_min(c);
    run_fits(c, STAGE_FIRST);
    run_fits(c, base->n_variants > 0 ? STAGE_VARIANTS : STAGE_ALPHA_BETA);
    if (base->n_variants > 0)
        bb_scale_unmeasured(c);
}

void bb_calibrate(struct bb_calibration *c, const struct bb_cluster *base, const struct bb_measurements *e)
{
    *c = (struct bb_calibration){.base = base, .measurements = e, .start = *base, .cluster = *base};
    bb_set_start_rates(c);
    bb_choices_assume(c);
    fit_rates(c);
    if (bb_choices_correct(c))
        fit_rates(c);
    if (base->n_variants > 0) {
        bb_penalize_variants(c);
        run_fits(c, STAGE_CHOICE);
    }
    if (base->has_sharing) { /* requires the times of kernels and of NCCL operations that run alone */
        bb_set_collective_sms(c);
        bb_fit_message_sms(c);
        run_fits(c, STAGE_SHARING);
    }
    bb_keep_curves(c);
}

void bb_calibration_release(struct bb_calibration *c)
{
    free(c->rows);
    free(c->chosen);
    *c = (struct bb_calibration){0};
}
