/* calibration.c - selects the measurements and the parameters of each fit, and runs the fits in order (see
 * calibration.h). */
#include "proxies/calibrate/calibration.h"

#include "bootstrap/base/alloc.h"
#include "proxies/calibrate/integer_parameters.h"
#include "proxies/calibrate/measurements/row_time.h"
#include "proxies/calibrate/parameters.h"
#include "proxies/calibrate/penalized_variants.h"
#include "proxies/calibrate/robust_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Maximum ratio of a fitted rate to its value in the starting profile; a rate at this limit is treated as infinite. */
#define UNBOUNDED    1e3
#define MIN_SCALE_US 0.5 /* us; minimum value of bb_fit_parameter.scale (robust_fit.h) for a latency */

/* ---- one fit ---- */

/* Input of one fit: its measurements, and the profile parameters that are fitted to them. */
struct model {
    struct bb_calibration *c;
    const struct bb_measurements *measurements;
    size_t *rows; /* [n] indices of the measurements in bb_measurements.rows */
    size_t n;
    struct bb_calibration_parameter *parameters[BB_FIT_PARAMETERS];
    int n_parameters;
    int variant; /* index of the NCCL variant (algorithm + protocol) that predicts all times; -1: the cost model
                    selects a variant for each measurement */
};

static double predict_row(void *arg, const double *values, size_t i)
{
    struct model *m = arg;
    struct bb_cluster *cluster = &m->c->cluster;
    const struct bb_measurement *row = &m->measurements->rows[m->rows[i]];

    for (int f = 0; f < m->n_parameters; f++)
        bb_parameter_try(cluster, m->parameters[f], m->parameters[f]->is_rate ? 1 / values[f] : values[f]);
    return m->variant >= 0 ? bb_row_time_by_us(cluster, m->variant, row) : bb_row_time_us(cluster, row);
}

static struct bb_fit_parameter fit_parameter_of(const struct bb_calibration_parameter *parameter)
{
    if (parameter->is_rate)
        return (struct bb_fit_parameter){.value = 1 / parameter->nominal,
                                         .min = 1 / (parameter->nominal * UNBOUNDED),
                                         .scale = 1 / parameter->nominal};
    return (struct bb_fit_parameter){.value = parameter->nominal, .scale = fmax(parameter->nominal, MIN_SCALE_US)};
}

static void store_rows(struct bb_calibration *c, const struct model *m, const struct bb_fit *fit)
{
    for (size_t i = 0; i < fit->n_rows; i++) {
        BB_GROW(c->rows, c->n_rows);
        c->rows[c->n_rows++] = (struct bb_calibration_row){.row = m->rows[i],
                                                           .fit = c->n_fits,
                                                           .measured_us = fit->measured[i],
                                                           .fitted_us = fit->measured[i] * (1 + fit->error[i]),
                                                           .outlier = fit->is_outlier[i]};
    }
}

static void store_parameters(struct bb_calibration *c, const struct model *m, const struct bb_fit *fit)
{
    for (int f = 0; f < m->n_parameters; f++) {
        struct bb_calibration_parameter *parameter = m->parameters[f];
        const struct bb_fit_parameter *p = &fit->parameters[f];

        if (p->fitted) {
            bb_parameter_set(c, parameter, bb_parameter_round(parameter, parameter->is_rate ? 1 / p->value : p->value));
            parameter->correlated = p->correlated;
        } else {
            bb_parameter_try(&c->cluster, parameter, parameter->value);
        }
    }
}

/* Fits m->parameters to the measurements m->rows, appends the result to c->fits under `name`, and frees m->rows.
 * Without measurements nothing is appended. */
static void run_fit(struct model *m, const char *name)
{
    struct bb_calibration *c = m->c;
    struct bb_calibration_fit *done = &c->fits[c->n_fits];
    struct bb_fit fit = {.n_parameters = m->n_parameters, .n_rows = m->n, .predict = predict_row, .model = m};
    double *measured;

    if (m->n == 0)
        return;
    snprintf(done->name, sizeof(done->name), "%s", name);
    BB_NEW(measured, m->n);
    for (size_t i = 0; i < m->n; i++) {
        const struct bb_measurement *row = &m->measurements->rows[m->rows[i]];

        measured[i] = row->time_us;
        done->files |= (size_t)1 << (row->file % 64);
    }
    fit.measured = measured;
    for (int f = 0; f < m->n_parameters; f++)
        fit.parameters[f] = fit_parameter_of(m->parameters[f]);
    bb_fit_run(&fit);
    store_parameters(c, m, &fit);
    store_rows(c, m, &fit);
    done->n_rows = m->n;
    done->n_outliers = fit.n_outliers;
    done->median_percent = 100 * fit.median_error;
    done->worst_percent = 100 * fit.worst_error;
    done->fitted = m->n_parameters > 0;
    c->n_fits++;
    bb_fit_release(&fit);
    free(measured);
    free(m->rows);
}

/* ---- measurements and parameters of each fit ---- */

enum cost_model { ANY_MODEL, ALPHA_BETA, NCCL_VARIANTS, SHARING };

/* Categories of measurements, combined as a bit mask. OWN_CHOICE: collectives for which NCCL chose the variant
 * (algorithm + protocol), not the user. SEND_RECV: collectives that NCCL implements as sends and receives. A
 * collective may be in both categories or in neither. */
enum { KERNEL = 1, LAUNCH = 2, MESSAGE = 4, OWN_CHOICE = 8, SEND_RECV = 16, OVERLAP = 32 };
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
    return (r->forced ? 0 : OWN_CHOICE) | (bb_colls[r->call.kind].flags & BB_COLL_ESTIMATED ? 0 : SEND_RECV);
}

/* Returns LOCAL or REMOTE. Valid only for messages and collectives; the fits of other measurements use ANYWHERE. */
static unsigned place_of(const struct bb_measurement *r)
{
    return (r->kind == BB_MEASURED_MESSAGE ? r->same_node : r->call.nodes == 1) ? LOCAL : REMOTE;
}

/* The fits in the order in which they run; later fits use the results of earlier ones. A parameter is fitted only
 * once. If a later fit lists a parameter that is already fitted, the value stays, and the measurements of the later
 * fit only validate it. With NCCL_VARIANTS, the fits of messages include collectives that NCCL implements as sends and
 * receives, because the cost model treats them as messages. */
static const struct listed_fit {
    const char *name;
    enum cost_model cost_model;
    unsigned categories, places;
    const char *keys[10];
} listed_fits[] = {
    {"kernels",
     ANY_MODEL,
     KERNEL,
     ANYWHERE,
     {"launch_us", "kernel_us", "memory_gbps", "achieved.memory", "achieved.gemm", "tflops.float32", "tflops.float16",
      "tflops.bfloat16"}},
    {"NCCL calls", ANY_MODEL, LAUNCH, ANYWHERE, {"nccl_launch_us"}},
    {"collectives within a node", ALPHA_BETA, OWN_CHOICE, LOCAL, {"intra.latency_us", "intra.gbps"}},
    {"collectives between nodes", ALPHA_BETA, OWN_CHOICE, REMOTE, {"inter.latency_us", "inter.gbps"}},
    {"messages within a node", ALPHA_BETA, MESSAGE, LOCAL, {"intra.latency_us", "intra.gbps"}},
    {"messages between nodes", ALPHA_BETA, MESSAGE, REMOTE, {"inter.latency_us", "inter.gbps"}},
    {"messages within a node", NCCL_VARIANTS, MESSAGE | SEND_RECV, LOCAL, {"intra.latency_us", "intra.gbps"}},
    {"messages between nodes", NCCL_VARIANTS, MESSAGE | SEND_RECV, REMOTE, {"inter.latency_us", "inter.gbps"}},
    {"GEMMs during NCCL", SHARING, OVERLAP, ANYWHERE, {"sharing.memory_bytes"}},
};

static void add_row(struct model *m, size_t row)
{
    BB_GROW(m->rows, m->n);
    m->rows[m->n++] = row;
}

static void add_parameter(struct model *m, struct bb_calibration_parameter *parameter)
{
    if (parameter && !parameter->fit && parameter->is_fittable)
        m->parameters[m->n_parameters++] = parameter;
}

static void run_listed_fit(struct bb_calibration *c, const struct bb_measurements *e, const struct listed_fit *listed)
{
    struct model m = {.c = c, .measurements = e, .variant = -1};

    for (size_t i = 0; i < e->n_rows; i++)
        if (listed->categories & categories_of(&e->rows[i]) && listed->places & place_of(&e->rows[i]))
            add_row(&m, i);
    for (int k = 0; k < 10 && listed->keys[k]; k++)
        add_parameter(&m, bb_parameter_find(c, listed->keys[k]));
    run_fit(&m, listed->name);
}

/* ---- fits of NCCL variants (algorithm + protocol) ---- */

static void fit_variant(struct bb_calibration *c, const struct bb_measurements *e, const struct bb_cluster *base,
                        int variant)
{
    const struct bb_nccl_variant *w = &base->variants[variant];
    struct model m = {.c = c, .measurements = e, .variant = variant};
    char name[64];

    for (size_t i = 0; i < e->n_rows; i++) {
        const struct bb_measurement *row = &e->rows[i];

        if (row->kind == BB_MEASURED_COLLECTIVE && !(categories_of(row) & SEND_RECV) &&
            bb_row_variant(base, row) == variant && isfinite(bb_row_time_by_us(base, variant, row)))
            add_row(&m, i);
    }
    for (int f = 0; f < c->n_parameters; f++)
        if (c->parameters[f].variant == variant)
            add_parameter(&m, &c->parameters[f]);
    snprintf(name, sizeof(name), "%s %s", bb_nccl_algorithms[w->algorithm], w->protocol);
    run_fit(&m, name);
}

/* Computes the errors of the calibrated model for all collectives whose variant (algorithm + protocol) NCCL chose,
 * not the user. In these predictions the cost model also chooses the variant, so the errors include wrong choices. */
static void evaluate_choice(struct bb_calibration *c, const struct bb_measurements *e)
{
    struct model m = {.c = c, .measurements = e, .variant = -1};

    for (size_t i = 0; i < e->n_rows; i++)
        if (bb_is_nccl_choice(&e->rows[i]))
            add_row(&m, i);
    run_fit(&m, "collectives, as NCCL chose");
}

/* ---- order of all fits ---- */

/* If the profile has "achieved", the GEMM rate of a data type is the data sheet's rate of this type times the
 * fraction achieved.gemm, which is common to all types. Measurements determine only this product. Therefore the type
 * with the most measurements keeps its data sheet rate, and achieved.gemm is fitted to its measurements. The rates
 * of the other types are fitted with this value of achieved.gemm. */
static void fix_nominal_rates(struct bb_calibration *c, const struct bb_measurements *e)
{
    static const struct {
        enum bb_dtype_id dtype;
        const char *key;
    } types[] = {{BB_BFLOAT16, "tflops.bfloat16"}, {BB_HALF, "tflops.float16"}};
    struct bb_calibration_parameter *gemm = bb_parameter_find(c, "achieved.gemm"), *anchor = gemm;
    size_t max = 0;

    if (!gemm)
        return;
    for (int t = 0; t < 2; t++) {
        size_t n = 0;

        for (size_t i = 0; i < e->n_rows; i++)
            n += e->rows[i].kind == BB_MEASURED_KERNEL && !e->rows[i].kernel.is_memory_kernel &&
                 e->rows[i].kernel.gemm.dtype == types[t].dtype;
        if (n > max)
            anchor = bb_parameter_find(c, types[t].key);
        max = n > max ? n : max;
    }
    anchor->is_fittable = false;
    /* memory_gbps keeps the data sheet's value, because with "achieved" the fraction achieved.memory is fitted
     * instead. */
    bb_parameter_find(c, "memory_gbps")->is_fittable = false;
}

static void fit_model(struct bb_calibration *c, const struct bb_measurements *e, enum cost_model cost_model)
{
    for (size_t i = 0; i < sizeof(listed_fits) / sizeof(listed_fits[0]); i++)
        if (listed_fits[i].cost_model == cost_model)
            run_listed_fit(c, e, &listed_fits[i]);
}

/* Fits the profile's parameters "sharing": how much NCCL slows down GEMMs that run at the same time. Requires that
 * the times of kernels and of NCCL operations that run alone are already fitted. */
static void calibrate_sharing(struct bb_calibration *c, const struct bb_measurements *e)
{
    if (!c->cluster.has_sharing)
        return;
    bb_set_collective_sms(c, e);
    bb_fit_message_sms(c, e);
    fit_model(c, e, SHARING);
}

void bb_calibrate(struct bb_calibration *c, const struct bb_cluster *base, const struct bb_measurements *e)
{
    *c = (struct bb_calibration){.cluster = *base};
    bb_parameters_init(c);
    fix_nominal_rates(c, e);
    bb_set_node_size(c, e);
    bb_set_sm_count(c, e);
    fit_model(c, e, ANY_MODEL);
    fit_model(c, e, base->n_variants > 0 ? NCCL_VARIANTS : ALPHA_BETA);
    for (int variant = 0; variant < base->n_variants; variant++)
        fit_variant(c, e, base, variant);
    if (base->n_variants > 0) {
        bb_penalize_variants(c, base, e);
        evaluate_choice(c, e);
    }
    calibrate_sharing(c, e);
}

void bb_calibration_release(struct bb_calibration *c)
{
    free(c->rows);
    *c = (struct bb_calibration){0};
}
