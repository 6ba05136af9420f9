/* cross_validation.c - see cross_validation.h. */
#include "proxies/offline/calibrate/cross_validation.h"

#include "bootstrap/base/alloc.h"
#include "proxies/offline/calibrate/measurements/row_time.h"

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

/* Appends the errors of the sizes of one parity to errors[*n], calibrated with those of the other one. index: [e->n_rows]
 * rank of each measurement's size; below 0: always used, not predicted. */
static void validate_half(const struct bb_calibration *c, const int *index, const bool *is_outlier, int parity,
                          double *errors, size_t *n)
{
    const struct bb_measurements *e = c->measurements;
    struct bb_measurements used = *e;
    struct bb_calibration *half;

    BB_NEW(half, 1);
    BB_NEW(used.rows, e->n_rows);
    used.n_rows = 0;
    for (size_t i = 0; i < e->n_rows; i++)
        if (index[i] < 0 || index[i] % 2 != parity)
            used.rows[used.n_rows++] = e->rows[i];
    bb_calibrate(half, c->base, &used);
    for (size_t i = 0; i < e->n_rows; i++)
        if (index[i] >= 0 && index[i] % 2 == parity && !is_outlier[i])
            errors[(*n)++] = error_of(half, &e->rows[i]);
    bb_calibration_release(half);
    free(used.rows);
    free(half);
}

void bb_cross_validate(const struct bb_calibration *c, struct bb_stats *stats)
{
    const struct bb_measurements *e = c->measurements;
    bool *is_outlier;
    double *errors;
    size_t n = 0;
    int *index;

    BB_NEW(index, e->n_rows);
    BB_NEW(errors, e->n_rows);
    BB_NEW(is_outlier, e->n_rows);
    for (size_t i = 0; i < c->n_rows; i++)
        is_outlier[c->rows[i].measurement - e->rows] |= c->rows[i].outlier;
    if (index_sizes(e, index) >= MIN_SIZES)
        for (int parity = 0; parity < 2; parity++)
            validate_half(c, index, is_outlier, parity, errors, &n);
    bb_stats_compute(errors, n, stats);
    free(index);
    free(errors);
    free(is_outlier);
}
