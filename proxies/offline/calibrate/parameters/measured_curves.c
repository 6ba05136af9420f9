/* measured_curves.c - see measured_curves.h. */
#include "proxies/offline/calibrate/parameters/measured_curves.h"

#include "bootstrap/base/alloc.h"
#include "proxies/offline/calibrate/measurements/row_time.h"
#include "proxies/offline/calibrate/parameters/penalized_variants.h"

#include <math.h>
#include <stdlib.h>

#define MAX_FALL    1.1 /* maximum ratio of the times of a size and of a larger one */
#define MAX_OUTLIER 1.5 /* maximum factor of an outlier of a fit */

/* Ratios of one size, whose geometric mean is kept. */
struct point {
    int curve, variant; /* in bb_cluster.measured; index + 1 of NCCL's choice, 0: none */
    double bytes, log_factor;
};

static int compare_points(const void *a, const void *b)
{
    const struct point *x = a, *y = b;

    if (x->curve != y->curve)
        return x->curve - y->curve;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Returns the curve of the call, a new one if there is none; BB_MEASURED_CURVES: there are too many. */
static int curve_of(struct bb_cluster *cluster, const struct bb_collective *call)
{
    const int found = bb_cluster_find_curve(cluster, call->kind, call->ranks, call->nodes);

    if (found == cluster->n_measured && found < BB_MEASURED_CURVES)
        cluster->measured[cluster->n_measured++] =
            (struct bb_measured_curve){.kind = call->kind, .ranks = call->ranks, .nodes = call->nodes};
    return found;
}

static bool is_outlier(const struct bb_calibration *c, const struct bb_measurement *row)
{
    for (size_t i = 0; i < c->n_rows; i++)
        if (c->rows[i].measurement == row && c->rows[i].outlier)
            return true;
    return false;
}

static size_t find_points(struct bb_calibration *c, struct bb_cluster *kept, struct point *points)
{
    const struct bb_measurements *e = c->measurements;
    double factor;
    size_t n = 0;

    for (const struct bb_measurement *row = e->rows; row < e->rows + e->n_rows; row++) {
        if (row->kind != BB_MEASURED_COLLECTIVE || row->forced || row->call.ranks < 2)
            continue;
        factor = row->time_us / bb_row_time_us(&c->cluster, row);
        points[n].bytes = (double)bb_coll_payload_count(row->call.kind, row->call.count, row->call.ranks) *
                          bb_dtypes[row->call.dtype].bytes;
        if (factor < BB_MIN_PART || factor > BB_MAX_PART || points[n].bytes <= 0 ||
            (fabs(log(factor)) > log(MAX_OUTLIER) && is_outlier(c, row)))
            continue;
        points[n].curve = curve_of(kept, &row->call);
        points[n].log_factor = log(factor);
        points[n].variant = bb_is_nccl_choice(row) ? c->chosen[row - e->rows] + 1 : 0;
        n += points[n].curve < BB_MEASURED_CURVES;
    }
    return n;
}

static double model_us(const struct bb_cluster *model, const struct bb_measured_curve *curve, double bytes)
{
    const struct bb_collective call = {.kind = curve->kind,
                                       .dtype = BB_INT8,
                                       .redop = BB_COPY,
                                       .count = (size_t)bytes / bb_coll_payload_count(curve->kind, 1, curve->ranks),
                                       .ranks = curve->ranks,
                                       .nodes = curve->nodes};

    return (double)bb_cluster_collective_ns(model, &call, NULL) / 1e3;
}

/* Keeps the longest series of sizes whose times do not fall: the other times are outliers. */
static void drop_falling(const struct bb_cluster *fitted, struct bb_measured_curve *curve)
{
    const struct bb_measured_curve all = *curve;
    int length[BB_MEASURED_SIZES], next[BB_MEASURED_SIZES] = {0}, at = all.n;
    double us[BB_MEASURED_SIZES];

    curve->n = 0;
    for (int i = all.n - 1; i >= 0; i--) {
        us[i] = all.factor[i] * model_us(fitted, &all, all.bytes[i]);
        length[i] = 1;
        next[i] = all.n;
        for (int j = i + 1; j < all.n; j++)
            if (us[i] <= MAX_FALL * us[j] && length[j] >= length[i]) {
                length[i] = length[j] + 1;
                next[i] = j;
            }
        at = at == all.n || length[i] >= length[at] ? i : at;
    }
    for (; at < all.n; at = next[at]) {
        curve->variant[curve->n] = all.variant[at];
        curve->bytes[curve->n] = all.bytes[at];
        curve->factor[curve->n++] = all.factor[at];
    }
}

/* ---- sizes between and above the measured ones ---- */

#define MAX_BYTES (16.0 * (1 << 30)) /* largest size with a factor */
#define RATE_SPAN 8.0                /* the measured rate is that of the sizes down to 1/8 of the largest one */
#define MAX_RATIO 4.0                /* limit of the ratio of this rate and that of the starting profile */
/* Largest measured sizes: up to the first the measured rate determines nothing, from the second on everything, since NCCL
 * reaches its bandwidth in between. Fitted to published logs up to 64 MiB; all values around them are as good. */
#define RAMP_BEGIN (8.0 * (1 << 20))
#define RAMP_END   (1024.0 * (1 << 20))

/* NCCL has reached its bandwidth if the rate of the bytes by which the two largest sizes differ is that of the largest one
 * within this factor. Published logs to 64 MiB, with higher rates above: 1.15 or more. */
#define SATURATED 1.1

/* A curve as times. */
struct times {
    const struct bb_measured_curve *curve;
    double us[BB_MEASURED_SIZES], shape_us[BB_MEASURED_SIZES]; /* measured, and of the model */
};

/* Returns the time between sizes i and i + 1: that of the model, and what it differs by, linear in the size. */
static double interpolate_us(const struct times *t, int i, double bytes, double shape_us)
{
    const double *size = t->curve->bytes + i, *us = t->us + i, *shape = t->shape_us + i;
    const double part = (bytes - size[0]) / (size[1] - size[0]);
    const double between = shape_us + (1 - part) * (us[0] - shape[0]) + part * (us[1] - shape[1]);

    return fmax(fmin(us[0], us[1]), fmin(between, fmax(us[0], us[1])));
}

/* Returns the time per byte between the two largest sizes if it is also that of the largest one; 0: the bandwidth rises. */
static double saturated_us(const struct times *t)
{
    const int last = t->curve->n - 1;
    const double *size = t->curve->bytes;
    const double growth = last > 0 ? (t->us[last] - t->us[last - 1]) / (size[last] - size[last - 1]) : 0;
    const double mean = t->us[last] / size[last];

    return size[last] >= RAMP_BEGIN && growth * SATURATED >= mean && growth <= mean * SATURATED ? growth : 0;
}

/* Returns the time above the largest size: its time, and the growth of the model times the ratio of the measured and the
 * model's growth at the largest sizes, to a power between 0 and 1 (RAMP_BEGIN, RAMP_END). If NCCL has reached its
 * bandwidth, the power is 1, and no byte is faster than between the two largest sizes. */
static double extrapolate_us(const struct times *t, double bytes, double shape_us)
{
    const double *size = t->curve->bytes;
    const int last = t->curve->n - 1;
    const double saturated = saturated_us(t);
    const double trust = saturated > 0 ? 1 : log(size[last] / RAMP_BEGIN) / log(RAMP_END / RAMP_BEGIN);
    double us = t->us[last], shape = t->shape_us[last], ratio;
    int first = last;

    while (first > 0 && (first == last || size[first - 1] * RATE_SPAN >= size[last]))
        first--;
    if (first < last) {
        us -= t->us[first];
        shape -= t->shape_us[first];
    }
    ratio = shape > 0 ? fmax(1 / MAX_RATIO, fmin(us / shape, MAX_RATIO)) : 1;
    return t->us[last] +
           fmax(pow(ratio, fmax(0, fmin(trust, 1))) * (shape_us - t->shape_us[last]), saturated * (bytes - size[last]));
}

/* Adds powers of two to the sizes of the curve. shape: the starting profile. */
static void add_sizes(const struct bb_cluster *fitted, const struct bb_cluster *shape, struct bb_measured_curve *curve)
{
    struct bb_measured_curve all = {.kind = curve->kind,
                                    .ranks = curve->ranks,
                                    .nodes = curve->nodes,
                                    .min_bytes = curve->bytes[0],
                                    .max_bytes = curve->bytes[curve->n - 1]};
    struct times t = {.curve = curve};

    for (int i = 0; i < curve->n; i++) {
        t.us[i] = curve->factor[i] * model_us(fitted, curve, curve->bytes[i]);
        t.shape_us[i] = model_us(shape, curve, curve->bytes[i]);
    }
    for (int i = 0; i < curve->n; i++) {
        const double end = i + 1 < curve->n ? curve->bytes[i + 1] : 2 * MAX_BYTES;

        all.variant[all.n] = curve->variant[i];
        all.bytes[all.n] = curve->bytes[i];
        all.factor[all.n++] = curve->factor[i];
        for (double bytes = exp2(floor(log2(curve->bytes[i])) + 1);
             bytes < end && all.n + curve->n - i - 1 < BB_MEASURED_SIZES; bytes *= 2) {
            const double shape_us = model_us(shape, curve, bytes);
            const double us =
                i + 1 < curve->n ? interpolate_us(&t, i, bytes, shape_us) : extrapolate_us(&t, bytes, shape_us);

            all.bytes[all.n] = bytes;
            all.factor[all.n++] = fmax(BB_MIN_PART, fmin(us / model_us(fitted, curve, bytes), BB_MAX_PART));
        }
    }
    *curve = all;
}

void bb_keep_curves(struct bb_calibration *c)
{
    struct bb_cluster start = c->start;
    struct bb_cluster kept = c->cluster; /* the times of the model need c->cluster without curves */
    struct point *points;
    size_t n, same;

    BB_NEW(points, c->measurements->n_rows);
    n = find_points(c, &kept, points);
    qsort(points, n, sizeof(*points), compare_points);
    for (size_t i = 0; i < n; i += same) {
        struct bb_measured_curve *curve = &kept.measured[points[i].curve];
        double sum = 0;

        for (same = 0; i + same < n && compare_points(&points[i], &points[i + same]) == 0; same++)
            sum += points[i + same].log_factor;
        if (curve->n == BB_MEASURED_SIZES)
            continue;
        curve->variant[curve->n] = points[i].variant;
        curve->bytes[curve->n] = points[i].bytes;
        curve->factor[curve->n++] = exp(sum / (double)same);
    }
    start.n_measured = 0;
    start.gpus_per_node = c->cluster.gpus_per_node;
    start.nics_per_node = c->cluster.nics_per_node;
    start.collective_min_us = c->cluster.collective_min_us;
    for (int i = 0; i < kept.n_measured; i++) {
        drop_falling(&c->cluster, &kept.measured[i]);
        add_sizes(&c->cluster, &start, &kept.measured[i]);
    }
    c->cluster = kept;
    free(points);
}
