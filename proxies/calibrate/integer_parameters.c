/* integer_parameters.c - see integer_parameters.h. */
#include "proxies/calibrate/integer_parameters.h"

#include "bootstrap/base/alloc.h"
#include "proxies/calibrate/measurements/row_time.h"
#include "proxies/calibrate/parameters.h"
#include "proxies/calibrate/penalized_variants.h"

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

/* ---- node size, SMs of the GPU, SMs per collective ---- */

/* Sets the integer parameter `key`, if the profile has it. The fit that is appended to c->fits next becomes its
 * origin. */
static void set_parameter(struct bb_calibration *c, const char *key, int value)
{
    struct bb_calibration_parameter *parameter = bb_parameter_find(c, key);

    if (parameter)
        bb_parameter_set(c, parameter, value);
}

static int max_ranks_on_a_host(const struct bb_measurements *e, struct bb_calibration_fit *fit)
{
    int max = 0;

    for (size_t f = 0; f < e->n_files; f++)
        if (e->files[f].max_ranks_per_host > max) {
            max = e->files[f].max_ranks_per_host;
            fit->files = (size_t)1 << (f % 64);
        }
    return max;
}

void bb_set_node_size(struct bb_calibration *c, const struct bb_measurements *e)
{
    const int nics = c->cluster.nics_per_node, nominal = c->cluster.gpus_per_node;
    struct bb_calibration_fit fit = {.name = "ranks per host", .n_rows = 1};
    int gpus = max_ranks_on_a_host(e, &fit);

    if (e->gpus_per_node > 0) {
        gpus = e->gpus_per_node;
        fit = (struct bb_calibration_fit){.name = "--gpus-per-node"};
    } else if (gpus <= nominal)
        return;
    set_parameter(c, "gpus_per_node", gpus);
    set_parameter(c, "nics_per_node", (nics * gpus + nominal - 1) / nominal);
    c->fits[c->n_fits++] = fit;
}

void bb_set_sm_count(struct bb_calibration *c, const struct bb_measurements *e)
{
    for (size_t f = 0; f < e->n_files; f++)
        if (e->files[f].sm_count > 0)
            set_parameter(c, "sm_count", e->files[f].sm_count); /* the report lists sm_count with the next fit, which
                                                                   is the fit of kernels */
}

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Appends a fit to c->fits. Its median and worst error are computed from errors[fit->n_rows], which this function
 * sorts. */
static void add_fit(struct bb_calibration *c, struct bb_calibration_fit *fit, double *errors)
{
    qsort(errors, fit->n_rows, sizeof(double), by_number);
    fit->median_percent = 100 * errors[fit->n_rows / 2];
    fit->worst_percent = 100 * errors[fit->n_rows - 1];
    fit->fitted = true;
    c->fits[c->n_fits++] = *fit;
}

static size_t gather_channels(const struct bb_measurements *e, double *channels, struct bb_calibration_fit *fit)
{
    size_t n = 0;

    for (size_t i = 0; i < e->n_rows; i++)
        if (bb_is_nccl_choice(&e->rows[i]) && e->rows[i].channels > 0 && e->rows[i].bytes >= FULL_CHANNELS_BYTES) {
            channels[n++] = e->rows[i].channels;
            fit->files |= (size_t)1 << (e->rows[i].file % 64);
        }
    qsort(channels, n, sizeof(double), by_number);
    return n;
}

void bb_set_collective_sms(struct bb_calibration *c, const struct bb_measurements *e)
{
    struct bb_calibration_fit fit = {.name = "channels"};
    double *channels;

    BB_NEW(channels, e->n_rows);
    fit.n_rows = gather_channels(e, channels, &fit);
    if (fit.n_rows > 0) {
        const double median = fmin(channels[fit.n_rows / 2], c->cluster.sm_count - 1);

        for (size_t i = 0; i < fit.n_rows; i++)
            channels[i] = fabs(median / channels[i] - 1);
        set_parameter(c, "sharing.collective_sms", (int)median);
        add_fit(c, &fit, channels);
    }
    free(channels);
}

/* ---- SMs per message of an exchange ---- */

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
static double errors_with(const struct bb_calibration *c, const struct bb_measurements *e, int sms,
                          struct bb_calibration_fit *fit, double *errors)
{
    struct bb_cluster cluster = c->cluster;
    double sum = 0;

    cluster.sharing.message_sms = sms;
    fit->n_rows = 0;
    for (size_t i = 0; i < e->n_rows; i++)
        if (is_sensitive_to_sms(&cluster, &e->rows[i])) {
            errors[fit->n_rows] = fabs(bb_row_time_us(&cluster, &e->rows[i]) / e->rows[i].time_us - 1);
            sum += errors[fit->n_rows++];
            fit->files |= (size_t)1 << (e->rows[i].file % 64);
        }
    return fit->n_rows > 0 ? sum / (double)fit->n_rows : 0;
}

/* Returns the number of SMs per NCCL message with the lowest mean error; 0 if the mean errors of all numbers are too
 * similar to determine it. */
static int best_message_sms(const struct bb_calibration *c, const struct bb_measurements *e,
                            struct bb_calibration_fit *fit, double *errors)
{
    const int nominal = c->cluster.sharing.message_sms;
    double min = INFINITY, max = 0;
    int best = 0;

    for (int sms = 1; sms <= c->cluster.sharing.collective_sms; sms++) {
        const double mean = errors_with(c, e, sms, fit, errors);

        if (mean < min - MIN_DIFFERENCE || (mean < min + MIN_DIFFERENCE && abs(sms - nominal) < abs(best - nominal)))
            best = sms;
        min = fmin(min, mean);
        max = fmax(max, mean);
    }
    return max - min > MIN_GAIN ? best : 0;
}

void bb_fit_message_sms(struct bb_calibration *c, const struct bb_measurements *e)
{
    struct bb_calibration_fit fit = {.name = "GEMMs during sendrecv"};
    double *errors;
    int best;

    BB_NEW(errors, e->n_rows);
    best = best_message_sms(c, e, &fit, errors);
    if (best > 0) {
        (void)errors_with(c, e, best, &fit, errors);
        set_parameter(c, "sharing.message_sms", best);
        add_fit(c, &fit, errors);
    }
    free(errors);
}
