/* direct_parameters.c - see direct_parameters.h. */
#include "proxies/offline/calibrate/parameters/direct_parameters.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/stats.h"
#include "proxies/offline/calibrate/measurements/row_time.h"
#include "proxies/offline/calibrate/parameters/parameters.h"
#include "proxies/offline/calibrate/parameters/penalized_variants.h"

#include <math.h>
#include <stdlib.h>

/* Two candidates for the number of SMs per NCCL message are equally good if their mean relative errors differ by
 * less than this value. */
#define MIN_DIFFERENCE 1e-4
/* Minimum difference between the mean relative errors of the worst and the best candidate; with a smaller difference
 * the measurements do not determine the number of SMs. */
#define MIN_GAIN 5e-3
/* Minimum size in bytes of the collectives whose NCCL channels are counted; NCCL may use fewer channels for smaller
 * collectives. */
#define FULL_CHANNELS_BYTES (1 << 20)

/* Sets the parameter at the address `value` in c->cluster, if the profile has the parameter. The fit that is
 * appended to c->fits next becomes its origin. */
static void set_parameter(struct bb_calibration *c, const void *value, double number)
{
    struct bb_calibration_parameter *parameter = bb_parameter_of(c, value);

    if (parameter)
        bb_parameter_set(c, parameter, number);
}

/* Sets the parameter at the address `value` in c->cluster, and appends its fit to c->fits. The fit's median and worst
 * error are computed from errors[fit->n_rows], which this function sorts. */
static void add_fit(struct bb_calibration *c, const void *value, double number, struct bb_calibration_fit *fit,
                    double *errors)
{
    set_parameter(c, value, number);
    bb_sort_doubles(errors, fit->n_rows);
    fit->median_percent = 100 * errors[fit->n_rows / 2];
    fit->worst_percent = 100 * errors[fit->n_rows - 1];
    fit->fitted = true;
    c->fits[c->n_fits++] = *fit;
}

void bb_set_node_size(struct bb_calibration *c)
{
    const struct bb_measurements *e = c->measurements;
    const int nics = c->cluster.nics_per_node, nominal = c->cluster.gpus_per_node;
    struct bb_calibration_fit fit = {.name = "ranks per host"};
    int gpus = 0;

    for (size_t f = 0; f < e->n_files; f++)
        if (e->files[f].max_ranks_per_host > gpus) {
            gpus = e->files[f].max_ranks_per_host;
            fit.files = (size_t)1 << (f % 64);
        }
    if (e->gpus_per_node > 0) {
        gpus = e->gpus_per_node;
        fit = (struct bb_calibration_fit){.name = "--gpus-per-node"};
    } else if (gpus <= nominal)
        return;
    set_parameter(c, &c->cluster.gpus_per_node, gpus);
    set_parameter(c, &c->cluster.nics_per_node, (nics * gpus + nominal - 1) / nominal);
    c->fits[c->n_fits++] = fit;
}

void bb_set_sm_count(struct bb_calibration *c)
{
    const struct bb_measurements *e = c->measurements;

    for (size_t f = 0; f < e->n_files; f++)
        if (e->files[f].sm_count > 0)
            set_parameter(c, &c->cluster.sm_count, e->files[f].sm_count); /* the report lists sm_count with the next
                                                                             fit, which is the fit of kernels */
}

/* ---- time to enqueue a collective ---- */

#define FLAT       1.15 /* maximum ratio of equal times */
#define MIN_GROWTH 1.3  /* minimum ratio of the times that the starting profile predicts for them */

static bool is_host_time(const struct bb_measurement *row)
{
    return bb_is_nccl_choice(row) && row->by_host && row->call.nodes == 1;
}

/* Returns whether the collective takes the same time at all sizes up to that of `last`, although the starting profile
 * predicts different, shorter times. */
static bool is_flat(const struct bb_calibration *c, const struct bb_measurement *last)
{
    const struct bb_measurements *e = c->measurements;
    double shortest = last->time_us, longest = shortest, predicted, min_predicted;

    predicted = min_predicted = bb_row_time_us(c->base, last);
    for (const struct bb_measurement *row = e->rows; row < e->rows + e->n_rows; row++)
        if (is_host_time(row) && row->call.kind == last->call.kind && row->call.ranks == last->call.ranks &&
            row->bytes < last->bytes) {
            shortest = fmin(shortest, row->time_us);
            longest = fmax(longest, row->time_us);
            min_predicted = fmin(min_predicted, bb_row_time_us(c->base, row));
        }
    return longest <= FLAT * shortest && predicted >= MIN_GROWTH * min_predicted && predicted <= shortest;
}

void bb_set_collective_min(struct bb_calibration *c)
{
    const struct bb_measurements *e = c->measurements;
    struct bb_calibration_fit fit = {.name = "time to enqueue"};
    double *errors, sum = 0, min_us;

    BB_NEW(errors, e->n_rows);
    for (const struct bb_measurement *row = e->rows; row < e->rows + e->n_rows; row++)
        if (is_host_time(row) && is_flat(c, row)) {
            errors[fit.n_rows++] = row->time_us;
            sum += log(row->time_us);
            fit.files |= (size_t)1 << (row->file % 64);
        }
    min_us = exp(sum / fmax(1, (double)fit.n_rows));
    for (const struct bb_measurement *row = e->rows; row < e->rows + e->n_rows; row++)
        if (is_host_time(row) && row->time_us * FLAT < min_us)
            fit.n_rows = 0;
    for (size_t i = 0; i < fit.n_rows; i++)
        errors[i] = fabs(min_us / errors[i] - 1);
    if (fit.n_rows > 0 && c->base->n_variants > 0)
        add_fit(c, &c->cluster.collective_min_us, min_us, &fit, errors);
    free(errors);
}

/* ---- SMs per collective and per message of an exchange ---- */

void bb_set_collective_sms(struct bb_calibration *c)
{
    const struct bb_measurements *e = c->measurements;
    struct bb_calibration_fit fit = {.name = "channels"};
    double *channels;

    BB_NEW(channels, e->n_rows);
    for (const struct bb_measurement *row = e->rows; row < e->rows + e->n_rows; row++)
        if (bb_is_nccl_choice(row) && row->channels > 0 && row->bytes >= FULL_CHANNELS_BYTES) {
            channels[fit.n_rows++] = row->channels;
            fit.files |= (size_t)1 << (row->file % 64);
        }
    bb_sort_doubles(channels, fit.n_rows);
    if (fit.n_rows > 0) {
        const double median = fmin(channels[fit.n_rows / 2], c->cluster.sm_count - 1);

        for (size_t i = 0; i < fit.n_rows; i++)
            channels[i] = fabs(median / channels[i] - 1);
        add_fit(c, &c->cluster.sharing.collective_sms, (int)median, &fit, channels);
    }
    free(channels);
}

/* Returns whether the measured time depends on the number of SMs that NCCL messages occupy. This is the case for
 * GEMMs that run during a sendrecv and are not memory-bound. */
static bool is_sensitive_to_sms(const struct bb_cluster *c, const struct bb_measurement *row)
{
    bool by_memory = true;

    if (row->kind == BB_MEASURED_OVERLAP && row->call.kind == BB_SENDRECV)
        (void)bb_cluster_kernel_on_sms_ns(c, &row->kernel, c->sm_count, &by_memory);
    return !by_memory;
}

/* Computes the relative errors of the predicted times if each NCCL message occupies `sms` SMs. Only measurements for
 * which is_sensitive_to_sms is true count. fit->n_rows: out, number of these measurements; errors: out,
 * [fit->n_rows]. Returns the mean of the absolute errors. */
static double errors_with(const struct bb_calibration *c, int sms, struct bb_calibration_fit *fit, double *errors)
{
    const struct bb_measurements *e = c->measurements;
    struct bb_cluster cluster = c->cluster;
    double sum = 0;

    cluster.sharing.message_sms = sms;
    fit->n_rows = 0;
    for (const struct bb_measurement *row = e->rows; row < e->rows + e->n_rows; row++)
        if (is_sensitive_to_sms(&cluster, row)) {
            errors[fit->n_rows] = fabs(bb_row_time_us(&cluster, row) / row->time_us - 1);
            sum += errors[fit->n_rows++];
            fit->files |= (size_t)1 << (row->file % 64);
        }
    return fit->n_rows > 0 ? sum / (double)fit->n_rows : 0;
}

void bb_fit_message_sms(struct bb_calibration *c)
{
    const int nominal = c->cluster.sharing.message_sms;
    struct bb_calibration_fit fit = {.name = "GEMMs during sendrecv"};
    double *errors, min = INFINITY, max = 0;
    int best = 0;

    BB_NEW(errors, c->measurements->n_rows);
    for (int sms = 1; sms <= c->cluster.sharing.collective_sms; sms++) {
        const double mean = errors_with(c, sms, &fit, errors);

        if (mean < min - MIN_DIFFERENCE || (mean < min + MIN_DIFFERENCE && abs(sms - nominal) < abs(best - nominal)))
            best = sms;
        min = fmin(min, mean);
        max = fmax(max, mean);
    }
    if (max - min > MIN_GAIN) { /* otherwise the mean errors of all numbers are too similar to determine the number */
        (void)errors_with(c, best, &fit, errors);
        add_fit(c, &c->cluster.sharing.message_sms, best, &fit, errors);
    }
    free(errors);
}
