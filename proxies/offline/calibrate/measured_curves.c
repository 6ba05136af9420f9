/* measured_curves.c - see measured_curves.h. */
#include "proxies/offline/calibrate/measured_curves.h"

#include "bootstrap/base/alloc.h"
#include "proxies/offline/calibrate/measurements/row_time.h"

#include <math.h>
#include <stdlib.h>

/* A factor of one size that differs more from those of its neighbors is that of an outlier. */
#define MAX_STEP 1.5

/* Ratios of one size, whose geometric mean is kept. */
struct point {
    int curve; /* in bb_cluster.measured */
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
        if (row->kind != BB_MEASURED_COLLECTIVE || row->forced || row->call.ranks < 2 || is_outlier(c, row))
            continue;
        factor = row->time_us / bb_row_time_us(&c->cluster, row);
        points[n].bytes = (double)bb_coll_payload_count(row->call.kind, row->call.count, row->call.ranks) *
                          bb_dtypes[row->call.dtype].bytes;
        if (factor < BB_MIN_PART || factor > BB_MAX_PART || points[n].bytes <= 0)
            continue;
        points[n].curve = curve_of(kept, &row->call);
        points[n].log_factor = log(factor);
        n += points[n].curve < BB_MEASURED_CURVES;
    }
    return n;
}

static double middle(double a, double b, double c)
{
    return fmax(fmin(a, b), fmin(fmax(a, b), c));
}

/* Replaces each outlier by the median of three neighbors. */
static void smooth(struct bb_measured_curve *curve)
{
    const struct bb_measured_curve raw = *curve;

    for (int i = 0; i < raw.n && raw.n >= 3; i++) {
        const int left = i == 0 ? 0 : i == raw.n - 1 ? i - 2 : i - 1;
        const double m = middle(raw.factor[left], raw.factor[left + 1], raw.factor[left + 2]);

        if (fabs(log(raw.factor[i] / m)) > log(MAX_STEP))
            curve->factor[i] = m;
    }
}

void bb_keep_curves(struct bb_calibration *c)
{
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
        curve->bytes[curve->n] = points[i].bytes;
        curve->factor[curve->n++] = exp(sum / (double)same);
    }
    for (int i = 0; i < kept.n_measured; i++)
        smooth(&kept.measured[i]);
    c->cluster = kept;
    free(points);
}
