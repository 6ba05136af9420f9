/* cross_validation.c - the errors of a calibration for sizes and collectives that were not measured; see calibration.h. */
#include "proxies/offline/calibrate/parameters/calibration.h"

#include "bootstrap/base/alloc.h"
#include "proxies/offline/calibrate/measurements/row_time.h"
#include "proxies/offline/calibrate/parameters/penalized_variants.h"

#include <math.h>
#include <stdlib.h>

#define MIN_SIZES 4 /* number of sizes: with fewer, half of them determines no rate */

static bool has_size(const struct bb_measurement *row)
{
    return row->kind == BB_MEASURED_COLLECTIVE || row->kind == BB_MEASURED_MESSAGE;
}

/* Sets index[i] to the rank of the size of measurement i among all sizes, -1 if it has none. Returns the number of
 * sizes. */
static size_t index_sizes(const struct bb_measurements *e, int *index)
{
    double *sizes;
    size_t n = 0, distinct = 0;

    BB_NEW(sizes, e->n_rows);
    for (size_t i = 0; i < e->n_rows; i++)
        if (has_size(&e->rows[i]))
            sizes[n++] = e->rows[i].bytes;
    bb_sort_doubles(sizes, n);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || sizes[i] != sizes[distinct - 1])
            sizes[distinct++] = sizes[i];
    for (size_t i = 0; i < e->n_rows; i++) {
        index[i] = -1;
        for (size_t s = 0; s < distinct && has_size(&e->rows[i]); s++)
            if (sizes[s] == e->rows[i].bytes)
                index[i] = (int)s;
    }
    free(sizes);
    return distinct;
}

static double error_of(const struct bb_calibration *c, const struct bb_measurement *row)
{
    const int variant = row->forced ? bb_row_variant(c->base, row) : -1;
    const double us = variant >= 0 ? bb_row_time_by_us(&c->cluster, variant, row) : bb_row_time_us(&c->cluster, row);

    return 100 * fabs(us / row->time_us - 1);
}

/* Appends the errors of the measurements of one class to errors[*n], calibrated with those of the other classes. class_of:
 * [e->n_rows]; below 0: always used, not predicted. */
static void validate_class(const struct bb_calibration *c, const int *class_of, const bool *is_outlier, int left_out,
                           double *errors, size_t *n)
{
    const struct bb_measurements *e = c->measurements;
    struct bb_measurements used = *e;
    struct bb_calibration *rest;

    BB_NEW(rest, 1);
    BB_NEW(used.rows, e->n_rows);
    used.n_rows = 0;
    for (size_t i = 0; i < e->n_rows; i++)
        if (class_of[i] != left_out)
            used.rows[used.n_rows++] = e->rows[i];
    bb_calibrate(rest, c->base, &used);
    for (size_t i = 0; i < e->n_rows; i++)
        if (class_of[i] == left_out && !is_outlier[i]) {
            errors[*n] = error_of(rest, &e->rows[i]);
            *n += isfinite(errors[*n]); /* the model does not have every forced variant */
        }
    bb_calibration_release(rest);
    free(used.rows);
    free(rest);
}

/* Leaves out each class of measurements. Without two classes there are no errors. */
static void validate_classes(const struct bb_calibration *c, const int *class_of, struct bb_stats *stats)
{
    const struct bb_measurements *e = c->measurements;
    unsigned found = 0;
    bool *is_outlier;
    double *errors;
    size_t n = 0;

    BB_NEW(errors, e->n_rows);
    BB_NEW(is_outlier, e->n_rows);
    for (size_t i = 0; i < c->n_rows; i++)
        is_outlier[c->rows[i].measurement - e->rows] |= c->rows[i].outlier;
    for (size_t i = 0; i < e->n_rows; i++)
        found |= class_of[i] >= 0 ? 1u << class_of[i] : 0;
    for (int i = 0; found >> i && (found & (found - 1)); i++)
        if (found >> i & 1)
            validate_class(c, class_of, is_outlier, i, errors, &n);
    bb_stats_compute(errors, n, stats);
    free(errors);
    free(is_outlier);
}

void bb_cross_validate(const struct bb_calibration *c, struct bb_stats left_out[BB_LEFT_OUT_KINDS])
{
    const struct bb_measurements *e = c->measurements;
    size_t sizes;
    int *class_of;

    BB_NEW(class_of, e->n_rows);
    sizes = index_sizes(e, class_of);
    for (size_t i = 0; i < e->n_rows; i++)
        class_of[i] = class_of[i] < 0 || sizes < MIN_SIZES ? -1 : class_of[i] % 2;
    validate_classes(c, class_of, &left_out[BB_LEFT_OUT_SIZES]);
    for (size_t i = 0; i < e->n_rows; i++)
        class_of[i] = bb_is_nccl_choice(&e->rows[i]) ? (int)e->rows[i].call.kind : -1;
    validate_classes(c, class_of, &left_out[BB_LEFT_OUT_COLLECTIVES]);
    free(class_of);
}
