/* better_start.c - the shipped profile that predicts the measurements between nodes best; see calibration.h. */
#include "proxies/offline/calibrate/parameters/calibration.h"

#include "proxies/form/models/profile.h"
#include "proxies/offline/calibrate/measurements/row_time.h"

#include <math.h>
#include <string.h>
#include <sys/param.h>

/* A profile is better if its error is at most this part of that of the starting profile. Published logs of machines with
 * other networks differ from the profile of their machine by at most 0.45 of what they differ from the profile with
 * InfiniBand (all but one, 0.83); those of InfiniBand differ from every other profile by at least 0.64 of it. */
#define MAX_PART    0.5
#define MIN_PERCENT 2 /* smaller errors of the starting profile are noise */
#define MIN_SIZES   6 /* the times of fewer sizes may be near those of any profile */

static bool is_between_nodes(const struct bb_measurement *row)
{
    return row->kind == BB_MEASURED_MESSAGE ? !row->same_node
                                            : row->kind == BB_MEASURED_COLLECTIVE && row->call.nodes > 1;
}

/* Returns the mean difference in percent of the predicted and the measured times between nodes. NAN: too
 * few such measurements, or the profile lacks a variant that was measured. */
static double error_of(const struct bb_cluster *profile, const struct bb_measurements *e)
{
    const struct bb_measurement *last = NULL;
    struct bb_cluster c = *profile;
    int gpus = c.gpus_per_node, sizes = 0;
    double sum = 0;
    size_t n = 0;

    for (size_t f = 0; f < e->n_files; f++)
        gpus = MAX(gpus, e->files[f].max_ranks_per_host);
    bb_cluster_set_gpus_per_node(&c, e->gpus_per_node > 0 ? e->gpus_per_node : gpus);
    for (const struct bb_measurement *row = e->rows; row < e->rows + e->n_rows; row++) {
        const int variant = row->forced ? bb_row_variant(&c, row) : -1;

        if (!is_between_nodes(row))
            continue;
        if (row->forced && variant < 0)
            return NAN;
        sum += fabs(log((row->forced ? bb_row_time_by_us(&c, variant, row) : bb_row_time_us(&c, row)) / row->time_us));
        n++;
        sizes += !last || last->bytes != row->bytes || last->call.count != row->call.count; /* out of place, in place */
        last = row;
    }
    return sizes >= MIN_SIZES && isfinite(sum) ? 100 * expm1(sum / (double)n) : NAN;
}

int bb_find_better_start(const struct bb_cluster *base, const char *relative, const struct bb_measurements *e,
                         struct bb_better_start *better)
{
    const char *nodes = relative ? bb_cluster_base(relative) : NULL, *name;
    const double percent = error_of(base, e);
    struct bb_cluster candidate;
    int rc = 0;

    *better = (struct bb_better_start){.percent = MAX_PART * percent, .percent_of_the_other = percent};
    for (size_t i = 0; nodes && percent >= MIN_PERCENT && (name = bb_cluster_name_at(i)); i++) {
        double one;

        if (strcmp(bb_cluster_base(name), nodes) != 0)
            continue;
        TRY(bb_cluster_load(name, &candidate));
        one = error_of(&candidate, e);
        if (one <= better->percent) {
            better->percent = one;
            better->name = name;
        }
    }
out:
    return rc;
}
