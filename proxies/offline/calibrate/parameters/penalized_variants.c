/* penalized_variants.c - see penalized_variants.h. */
#include "proxies/offline/calibrate/parameters/penalized_variants.h"

#include "bootstrap/base/alloc.h"
#include "proxies/offline/calibrate/measurements/row_time.h"
#include "proxies/offline/calibrate/parameters/parameters.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>

/* An NCCL variant (algorithm + protocol) is clearly faster than the variant that NCCL chose if its predicted time is
 * less than this fraction of the predicted time of the chosen variant. The same fraction is the maximum error of a variant
 * that the times show. */
#define CLEARLY_FASTER 0.98
#define UNBOUNDED_GBPS 1e15
/* Maximum latency of a penalized variant relative to that of NCCL's choice in the starting profile. */
#define MAX_LATENCY 3

bool bb_is_nccl_choice(const struct bb_measurement *row)
{
    return row->kind == BB_MEASURED_COLLECTIVE && !row->forced && bb_colls[row->call.kind].flags & BB_COLL_ESTIMATED;
}

void bb_choices_assume(struct bb_calibration *c)
{
    const struct bb_measurements *e = c->measurements;

    BB_NEW(c->chosen, e->n_rows);
    for (size_t i = 0; i < e->n_rows; i++)
        c->chosen[i] = e->rows[i].kind == BB_MEASURED_COLLECTIVE ? bb_row_variant(&c->start, &e->rows[i]) : -1;
}

bool bb_choices_correct(struct bb_calibration *c)
{
    const struct bb_measurements *e = c->measurements;
    bool any = false;

    for (const struct bb_measurement *row = e->rows; row < e->rows + e->n_rows; row++) {
        int *assumed = &c->chosen[row - e->rows], other = -1;
        double assumed_us, other_us;

        if (bb_is_nccl_choice(row) && !*row->algorithm && *assumed >= 0)
            other = bb_row_variant(&c->cluster, row);
        if (other < 0 || other == *assumed)
            continue;
        assumed_us = bb_row_time_by_us(&c->cluster, *assumed, row);
        other_us = bb_row_time_by_us(&c->cluster, other, row);
        if (other_us >= CLEARLY_FASTER * assumed_us || fabs(other_us / row->time_us - 1) > 1 - CLEARLY_FASTER ||
            fabs(other_us - row->time_us) >= fabs(assumed_us - row->time_us))
            continue;
        *assumed = other;
        any = true;
    }
    return any;
}

/* What a variant lacks to be at least as slow as NCCL's choice in every measurement of less than `below` bytes in
 * which the cost model predicts that the variant is clearly faster. */
struct penalty {
    double base_us;  /* increase of base_us, the fixed latency of the variant, up to MAX_LATENCY. Considers only
                        measurements in which the part of the variant's time that is inversely proportional to its rates
                        is less than half of the time of NCCL's choice */
    double rates[2]; /* factors by which the rates must be divided, for the other measurements [0] within a node, [1]
                        between nodes */
};

static size_t bytes_of(const struct bb_measurement *row)
{
    return bb_coll_payload_count(row->call.kind, row->call.count, row->call.ranks) * bb_dtypes[row->call.dtype].bytes;
}

static struct penalty find_penalty(const struct bb_calibration *c, int variant, size_t below)
{
    const struct bb_measurements *e = c->measurements;
    struct bb_cluster unbounded = c->cluster, nominal = c->start;
    struct penalty penalty = {0, {1, 1}};

    for (int i = 0; i < nominal.n_variants; i++)
        nominal.variants[i].gbps = nominal.variants[i].nic = UNBOUNDED_GBPS;
    unbounded.variants[variant].gbps = unbounded.variants[variant].nic = UNBOUNDED_GBPS;
    for (const struct bb_measurement *row = e->rows; row < e->rows + e->n_rows; row++) {
        const int chosen = bb_is_nccl_choice(row) ? c->chosen[row - e->rows] : -1;
        double *rate = &penalty.rates[row->call.nodes > 1], chosen_us, latency_us, bytes_us;

        if (chosen < 0 || bytes_of(row) >= below)
            continue;
        chosen_us = bb_row_time_by_us(&c->cluster, chosen, row);
        latency_us = bb_row_time_by_us(&unbounded, variant, row);
        bytes_us = bb_row_time_by_us(&c->cluster, variant, row) - latency_us;
        if (!isfinite(chosen_us) || !isfinite(latency_us) || latency_us + bytes_us >= CLEARLY_FASTER * chosen_us)
            continue;
        if (bytes_us < chosen_us / 2)
            penalty.base_us =
                fmax(penalty.base_us,
                     fmin(chosen_us - bytes_us, MAX_LATENCY * bb_row_time_by_us(&nominal, chosen, row)) - latency_us);
        else
            *rate = fmax(*rate, (chosen_us - latency_us) / bytes_us);
    }
    return penalty;
}

/* Returns the size from which NCCL chooses the variant: between the smallest one for which it did and the next smaller one
 * that was measured. SIZE_MAX: it never did. */
static size_t smallest_choice(const struct bb_calibration *c, int variant)
{
    const struct bb_measurements *e = c->measurements;
    size_t smallest = SIZE_MAX, other = 0;

    for (const struct bb_measurement *row = e->rows; row < e->rows + e->n_rows; row++)
        if (bb_is_nccl_choice(row) && c->chosen[row - e->rows] == variant && bytes_of(row) < smallest)
            smallest = bytes_of(row);
    for (const struct bb_measurement *row = e->rows; row < e->rows + e->n_rows; row++)
        if (bb_is_nccl_choice(row) && bytes_of(row) < smallest && bytes_of(row) > other)
            other = bytes_of(row);
    return smallest == SIZE_MAX || other == 0 ? smallest : (size_t)sqrt((double)smallest * (double)other);
}

static void set_value(struct bb_calibration *c, int variant, const double *at, double value)
{
    struct bb_calibration_parameter *parameter = bb_parameter_of(c, at);

    bb_parameter_set(c, parameter, value);
    parameter->correlated = false;
    c->penalized_variants[variant] = true;
}

void bb_penalize_variants(struct bb_calibration *c)
{
    for (int i = 0; i < c->base->n_variants; i++) {
        const struct bb_nccl_variant *v = &c->cluster.variants[i];
        const size_t below = smallest_choice(c, i);
        struct penalty penalty = find_penalty(c, i, below);

        if (below <= INT_MAX && (penalty.base_us > 0 || penalty.rates[0] > 1 || penalty.rates[1] > 1)) {
            c->cluster.variants[i].min_bytes = (int)below; /* its latency and rates are measured */
            c->penalized_variants[i] = true;
        }
        if (below < SIZE_MAX)
            continue;
        if (penalty.base_us > 0)
            set_value(c, i, &v->base_us, v->base_us + penalty.base_us);
        penalty = find_penalty(c, i, below); /* with the new base_us */
        if (penalty.rates[0] > 1)
            set_value(c, i, &v->gbps, v->gbps / penalty.rates[0]);
        if (penalty.rates[1] > 1)
            set_value(c, i, &v->nic, v->nic / penalty.rates[1]);
    }
}
