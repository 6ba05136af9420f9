/* start_rates.c - the rates of links and NICs with which the fits begin; see calibration.h. */
#include "proxies/offline/calibrate/parameters/calibration.h"

#include "bootstrap/base/alloc.h"
#include "proxies/offline/calibrate/measurements/row_time.h"

#include <math.h>
#include <stdlib.h>

#define MIN_BYTES (128 << 20) /* published logs do not reach their bandwidth at smaller sizes */
#define MIN_ROWS  3
/* The rate is that of NICs if the mean error falls to this part of the nominal one, which is at least MIN_ERROR. */
#define MAX_PART  0.5
#define MIN_ERROR 0.1
/* Line search: first and last factor of a step, and the smallest part of the nominal rate. */
#define FIRST_STEP   0.9
#define LAST_STEP    0.998
#define MIN_NIC_PART 0.02

/* Collectives between nodes of MIN_BYTES or more. */
struct large_rows {
    const struct bb_measurement **rows;
    size_t n;
};

static bool is_between_nodes(const struct bb_measurement *row)
{
    return row->kind == BB_MEASURED_COLLECTIVE && row->call.nodes > 1 &&
           (bb_colls[row->call.kind].flags & BB_COLL_ESTIMATED);
}

/* Returns infinity for a forced variant that the model does not have for the collective. */
static double time_us(const struct bb_cluster *c, const struct bb_measurement *row)
{
    const int variant = row->forced ? bb_row_variant(c, row) : -1;

    if (!row->forced)
        return bb_row_time_us(c, row);
    return variant < 0 ? INFINITY : bb_row_time_by_us(c, variant, row);
}

/* Fits *profile to all other measurements. Returns the factor of the rates of links that they show (unmeasured_rates.h). */
static double calibrate_others(const struct bb_measurements *e, struct bb_cluster *profile)
{
    const struct bb_cluster base = *profile;
    struct bb_measurements others = *e;
    struct bb_calibration *c;
    double factor;

    BB_NEW(c, 1);
    BB_NEW(others.rows, e->n_rows);
    others.n_rows = 0;
    for (size_t i = 0; i < e->n_rows; i++)
        if (!is_between_nodes(&e->rows[i]))
            others.rows[others.n_rows++] = e->rows[i];
    bb_calibrate(c, &base, &others);
    *profile = c->cluster;
    factor = c->scaled[0] > 0 ? c->scaled[0] : 1;
    bb_calibration_release(c);
    free(others.rows);
    free(c);
    return factor;
}

/* Returns the mean difference of the logarithms of predicted and measured times. */
static double error_of(const struct bb_cluster *profile, const struct large_rows *large)
{
    double sum = 0;

    for (size_t i = 0; i < large->n; i++)
        sum += fabs(log(time_us(profile, large->rows[i]) / large->rows[i]->time_us));
    return sum / (double)large->n;
}

/* Returns the part of the rate of the NICs with the smallest error, at most 1; 1: none is much better. */
static double search_part(struct bb_cluster *profile, const struct large_rows *large)
{
    const double gbps = profile->inter.gbps, nominal = error_of(profile, large);
    double least = nominal, part = 1;

    for (double step = FIRST_STEP; step < LAST_STEP && nominal >= MIN_ERROR; step = sqrt(step))
        while (part > MIN_NIC_PART) {
            double error;

            profile->inter.gbps = gbps * part * step;
            error = error_of(profile, large);
            if (error > least)
                break;
            least = error;
            part *= step;
        }
    return least <= MAX_PART * nominal ? part : 1;
}

void bb_set_start_rates(struct bb_calibration *c)
{
    const struct bb_measurements *e = c->measurements;
    struct large_rows large = {0};
    struct bb_cluster profile = *c->base;
    bool any = false;
    double links;

    for (size_t i = 0; i < e->n_rows; i++)
        any |= is_between_nodes(&e->rows[i]);
    if (!any || c->base->n_variants == 0)
        return;
    links = calibrate_others(e, &profile);
    for (int i = 0; i < c->start.n_variants; i++)
        c->start.variants[i].gbps *= links;
    profile.inter.gbps = c->base->inter.gbps;
    BB_NEW(large.rows, e->n_rows);
    for (const struct bb_measurement *row = e->rows; row < e->rows + e->n_rows; row++)
        if (is_between_nodes(row) && row->bytes >= MIN_BYTES && isfinite(time_us(&profile, row)))
            large.rows[large.n++] = row;
    if (large.n >= MIN_ROWS)
        c->start.inter.gbps *= search_part(&profile, &large);
    free(large.rows);
}
