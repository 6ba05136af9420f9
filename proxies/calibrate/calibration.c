/* calibration.c - selects the measurements and the parameters of each fit, and runs the fits in order (see
 * calibration.h). */
#include "proxies/calibrate/calibration.h"

#include "bootstrap/base/alloc.h"
#include "proxies/calibrate/integer_parameters.h"
#include "proxies/calibrate/parameters.h"
#include "proxies/calibrate/penalized_variants.h"
#include "proxies/calibrate/robust_fit.h"
#include "proxies/calibrate/row_time.h"

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
    double *measured;
    size_t n;
    int parameters[BB_FIT_PARAMETERS], n_parameters;
    int variant; /* index of the NCCL variant (algorithm + protocol) that predicts all times; -1: the cost model
                    selects a variant for each measurement */
};

static double predict_row(void *arg, const double *values, size_t i)
{
    struct model *m = arg;
    struct bb_cluster *cluster = &m->c->cluster;
    const struct bb_measurement *row = &m->measurements->rows[m->rows[i]];

    for (int f = 0; f < m->n_parameters; f++)
        bb_parameter_set(cluster, &m->c->parameters[m->parameters[f]], values[f]);
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
                                                           .measured_us = m->measured[i],
                                                           .fitted_us = m->measured[i] * (1 + fit->error[i]),
                                                           .outlier = fit->is_outlier[i]};
    }
}

static void store_parameters(struct bb_calibration *c, const struct model *m, const struct bb_fit *fit)
{
    for (int f = 0; f < m->n_parameters; f++) {
        struct bb_calibration_parameter *parameter = &c->parameters[m->parameters[f]];
        const struct bb_fit_parameter *p = &fit->parameters[f];

        if (p->fitted) {
            parameter->value = bb_parameter_round(parameter, parameter->is_rate ? 1 / p->value : p->value);
            parameter->fit = c->n_fits;
            parameter->correlated = p->correlated;
        }
        bb_parameter_set(&c->cluster, parameter, parameter->is_rate ? 1 / parameter->value : parameter->value);
    }
}

static void name_files(struct bb_calibration_fit *fit, const struct model *m)
{
    for (size_t i = 0; i < m->n; i++)
        fit->files |= (size_t)1 << (m->measurements->rows[m->rows[i]].file % 64);
}

static void run_fit(struct model *m, const char *name)
{
    struct bb_calibration *c = m->c;
    struct bb_calibration_fit *done = &c->fits[c->n_fits];
    struct bb_fit fit = {
        .n_parameters = m->n_parameters, .measured = m->measured, .n_rows = m->n, .predict = predict_row, .model = m};

    for (int f = 0; f < m->n_parameters; f++)
        fit.parameters[f] = fit_parameter_of(&c->parameters[m->parameters[f]]);
    bb_fit_run(&fit);
    store_parameters(c, m, &fit);
    store_rows(c, m, &fit);
    *done = (struct bb_calibration_fit){.n_rows = m->n,
                                        .n_outliers = fit.n_outliers,
                                        .median_error = fit.median_error,
                                        .worst_error = fit.worst_error,
                                        .evaluated_only = m->n_parameters == 0};
    snprintf(done->name, sizeof(done->name), "%s", name);
    name_files(done, m);
    c->n_fits++;
    bb_fit_release(&fit);
}

/* ---- measurements and parameters of each fit ---- */

enum cost_model { ANY_MODEL, ALPHA_BETA, NCCL_VARIANTS, SHARING };

static bool is_kernel(const struct bb_measurement *r)
{
    return r->kind == BB_MEASURED_KERNEL || r->kind == BB_MEASURED_TIMED_KERNEL;
}

static bool is_launch(const struct bb_measurement *r)
{
    return r->kind == BB_MEASURED_NCCL_LAUNCH;
}

static bool is_own_choice(const struct bb_measurement *r)
{
    return r->kind == BB_MEASURED_COLLECTIVE && !r->forced;
}

static bool is_send_recv_collective(const struct bb_measurement *r)
{
    return r->kind == BB_MEASURED_COLLECTIVE && !(bb_colls[r->call.kind].flags & BB_COLL_ESTIMATED);
}

static bool is_message(const struct bb_measurement *r)
{
    return r->kind == BB_MEASURED_MESSAGE;
}

static bool is_local(const struct bb_measurement *r)
{
    return is_message(r) ? r->same_node : r->call.nodes == 1;
}

static bool is_local_collective(const struct bb_measurement *r)
{
    return is_own_choice(r) && is_local(r);
}

static bool is_remote_collective(const struct bb_measurement *r)
{
    return is_own_choice(r) && !is_local(r);
}

static bool is_local_message(const struct bb_measurement *r)
{
    return is_message(r) && is_local(r);
}

static bool is_remote_message(const struct bb_measurement *r)
{
    return is_message(r) && !is_local(r);
}

/* is_local_exchange and is_remote_exchange return whether a measurement belongs to the fit of messages within a node
 * (local) or between nodes (remote). Both fits include collectives that NCCL implements as sends and receives,
 * because the cost model treats them as messages. */
static bool is_local_exchange(const struct bb_measurement *r)
{
    return (is_message(r) || is_send_recv_collective(r)) && is_local(r);
}

static bool is_remote_exchange(const struct bb_measurement *r)
{
    return (is_message(r) || is_send_recv_collective(r)) && !is_local(r);
}

static bool is_overlap(const struct bb_measurement *r)
{
    return r->kind == BB_MEASURED_OVERLAP;
}

/* The fits in the order in which they run; later fits use the results of earlier ones. A parameter is fitted only
 * once. If a later fit lists a parameter that is already fitted, the value stays, and the measurements of the later
 * fit only validate it. */
static const struct {
    const char *name;
    enum cost_model cost_model;
    bool (*takes)(const struct bb_measurement *row);
    const char *keys[10];
} listed_fits[] = {
    {"kernels",
     ANY_MODEL,
     is_kernel,
     {"launch_us", "kernel_us", "memory_gbps", "achieved.memory", "achieved.gemm", "tflops.float32", "tflops.float16",
      "tflops.bfloat16"}},
    {"NCCL calls", ANY_MODEL, is_launch, {"nccl_launch_us"}},
    {"collectives within a node", ALPHA_BETA, is_local_collective, {"intra.latency_us", "intra.gbps"}},
    {"collectives between nodes", ALPHA_BETA, is_remote_collective, {"inter.latency_us", "inter.gbps"}},
    {"messages within a node", ALPHA_BETA, is_local_message, {"intra.latency_us", "intra.gbps"}},
    {"messages between nodes", ALPHA_BETA, is_remote_message, {"inter.latency_us", "inter.gbps"}},
    {"messages within a node", NCCL_VARIANTS, is_local_exchange, {"intra.latency_us", "intra.gbps"}},
    {"messages between nodes", NCCL_VARIANTS, is_remote_exchange, {"inter.latency_us", "inter.gbps"}},
    {"GEMMs during NCCL", SHARING, is_overlap, {"sharing.memory_bytes"}},
};

static void add_row(struct model *m, size_t row)
{
    BB_GROW(m->rows, m->n);
    BB_GROW(m->measured, m->n);
    m->rows[m->n] = row;
    m->measured[m->n++] = m->measurements->rows[row].time_us;
}

static void add_parameter(struct model *m, const char *key)
{
    int f = bb_parameter_find(m->c->parameters, m->c->n_parameters, key);

    if (f >= 0 && m->c->parameters[f].fit < 0 && m->c->parameters[f].is_fittable)
        m->parameters[m->n_parameters++] = f;
}

static void release_model(struct model *m)
{
    free(m->rows);
    free(m->measured);
}

static void run_listed_fit(struct bb_calibration *c, const struct bb_measurements *e, size_t which)
{
    struct model m = {.c = c, .measurements = e, .variant = -1};

    for (size_t i = 0; i < e->n_rows; i++)
        if (listed_fits[which].takes(&e->rows[i]))
            add_row(&m, i);
    for (int k = 0; k < 10 && listed_fits[which].keys[k]; k++)
        add_parameter(&m, listed_fits[which].keys[k]);
    if (m.n > 0)
        run_fit(&m, listed_fits[which].name);
    release_model(&m);
}

/* ---- fits of NCCL variants (algorithm + protocol) ---- */

static void fit_variant(struct bb_calibration *c, const struct bb_measurements *e, const struct bb_cluster *base,
                        int variant)
{
    static const char *const parts[] = {"base_us", "intra_us", "inter_us", "gbps", "nic", "chunk_us"};
    const struct bb_nccl_variant *w = &base->variants[variant];
    struct model m = {.c = c, .measurements = e, .variant = variant};
    char name[64], key[96];

    for (size_t i = 0; i < e->n_rows; i++) {
        const struct bb_measurement *row = &e->rows[i];

        if (row->kind == BB_MEASURED_COLLECTIVE && !is_send_recv_collective(row) &&
            bb_row_variant(base, row) == variant && isfinite(bb_row_time_by_us(base, variant, row)))
            add_row(&m, i);
    }
    snprintf(name, sizeof(name), "%s %s", bb_nccl_algorithms[w->algorithm], w->protocol);
    for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++) {
        bb_parameter_variant_key(key, sizeof(key), w, parts[p]);
        add_parameter(&m, key);
    }
    if (m.n > 0)
        run_fit(&m, name);
    release_model(&m);
}

/* Computes the errors of the calibrated model for all collectives whose variant (algorithm + protocol) NCCL chose,
 * not the user. In these predictions the cost model also chooses the variant, so the errors include wrong choices. */
static void evaluate_choice(struct bb_calibration *c, const struct bb_measurements *e)
{
    struct model m = {.c = c, .measurements = e, .variant = -1};

    for (size_t i = 0; i < e->n_rows; i++)
        if (bb_is_nccl_choice(&e->rows[i]))
            add_row(&m, i);
    if (m.n > 0)
        run_fit(&m, "collectives, as NCCL chose");
    release_model(&m);
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
    int gemm = bb_parameter_find(c->parameters, c->n_parameters, "achieved.gemm"), anchor = -1;
    size_t max = 0;

    for (int t = 0; t < 2 && gemm >= 0; t++) {
        size_t n = 0;

        for (size_t i = 0; i < e->n_rows; i++)
            n += e->rows[i].kind == BB_MEASURED_KERNEL && !e->rows[i].kernel.is_memory_kernel &&
                 e->rows[i].kernel.gemm.dtype == types[t].dtype;
        if (n > max)
            anchor = bb_parameter_find(c->parameters, c->n_parameters, types[t].key);
        max = n > max ? n : max;
    }
    if (anchor >= 0)
        c->parameters[anchor].is_fittable = false;
    else if (gemm >= 0)
        c->parameters[gemm].is_fittable = false;
    if (gemm >= 0) /* the profile has "achieved": memory_gbps keeps the data sheet's value, and the fraction
                      achieved.memory is fitted instead */
        c->parameters[bb_parameter_find(c->parameters, c->n_parameters, "memory_gbps")].is_fittable = false;
}

static void fit_model(struct bb_calibration *c, const struct bb_measurements *e, enum cost_model cost_model)
{
    for (size_t i = 0; i < sizeof(listed_fits) / sizeof(listed_fits[0]); i++)
        if (listed_fits[i].cost_model == cost_model)
            run_listed_fit(c, e, i);
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
    c->n_parameters = bb_parameters_of(base, c->parameters);
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
