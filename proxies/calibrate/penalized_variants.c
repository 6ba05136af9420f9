/* penalized_variants.c - see penalized_variants.h. */
#include "proxies/calibrate/penalized_variants.h"

#include "proxies/calibrate/measurements/row_time.h"
#include "proxies/calibrate/parameters.h"

#include <math.h>

/* An NCCL variant (algorithm + protocol) is clearly faster than the variant that NCCL chose if its predicted time is
 * less than this fraction of the predicted time of the chosen variant. */
#define CLEARLY_FASTER 0.98
#define UNBOUNDED_GBPS 1e15

bool bb_is_nccl_choice(const struct bb_measurement *row)
{
    return row->kind == BB_MEASURED_COLLECTIVE && !row->forced && bb_colls[row->call.kind].flags & BB_COLL_ESTIMATED;
}

/* Times in us that the cost model predicts for a measured collective. taken_us: with the variant (algorithm +
 * protocol) that NCCL chose. latency_us + bytes_us: with another variant; bytes_us is inversely proportional to the
 * rates of that variant, latency_us is independent of them. */
struct comparison {
    double taken_us, latency_us, bytes_us;
};

/* Compares an NCCL variant with the variant that NCCL chose in a measurement. Returns false if the user forced the
 * variant, if NCCL chose this variant, or if the cost model cannot predict one of the two times. */
static bool compare_variant(const struct bb_cluster *c, const struct bb_cluster *base, const struct bb_measurement *row,
                            int variant, struct comparison *comparison)
{
    const int taken = bb_is_nccl_choice(row) ? bb_row_variant(base, row) : -1;
    struct bb_cluster unbounded = *c;

    if (taken < 0 || taken == variant)
        return false;
    unbounded.variants[variant].gbps = unbounded.variants[variant].nic = UNBOUNDED_GBPS;
    comparison->taken_us = bb_row_time_by_us(c, taken, row);
    comparison->latency_us = bb_row_time_by_us(&unbounded, variant, row);
    comparison->bytes_us = bb_row_time_by_us(c, variant, row) - comparison->latency_us;
    return isfinite(comparison->taken_us) && isfinite(comparison->latency_us);
}

static bool was_selected(const struct bb_cluster *base, const struct bb_measurements *e, int variant)
{
    for (size_t i = 0; i < e->n_rows; i++)
        if (bb_is_nccl_choice(&e->rows[i]) && bb_row_variant(base, &e->rows[i]) == variant)
            return true;
    return false;
}

/* Returns by how many us base_us (the fixed latency of the variant in the profile) must increase so that the variant
 * is at least as slow as the variant that NCCL chose. Considers only measurements in which the variant is clearly
 * faster (CLEARLY_FASTER) and its bytes_us is less than half of the time of NCCL's choice. */
static double missing_latency_us(const struct bb_cluster *c, const struct bb_cluster *base,
                                 const struct bb_measurements *e, int variant)
{
    struct comparison r;
    double missing = 0;

    for (size_t i = 0; i < e->n_rows; i++)
        if (compare_variant(c, base, &e->rows[i], variant, &r) &&
            r.latency_us + r.bytes_us < CLEARLY_FASTER * r.taken_us && r.bytes_us < r.taken_us / 2)
            missing = fmax(missing, r.taken_us - r.latency_us - r.bytes_us);
    return missing;
}

/* Computes the factors by which the variant's rates must be divided so that the variant is at least as slow as
 * NCCL's choice in every measurement in which it is clearly faster (CLEARLY_FASTER). missing: out: factor for
 * measurements [0] within a node, [1] between nodes. */
static void excess_rate(const struct bb_cluster *c, const struct bb_cluster *base, const struct bb_measurements *e,
                        int variant, double missing[2])
{
    struct comparison r;

    missing[0] = missing[1] = 1;
    for (size_t i = 0; i < e->n_rows; i++) {
        double *worst = &missing[e->rows[i].call.nodes > 1];

        if (compare_variant(c, base, &e->rows[i], variant, &r) &&
            r.latency_us + r.bytes_us < CLEARLY_FASTER * r.taken_us && r.bytes_us > 0)
            *worst = fmax(*worst, (r.taken_us - r.latency_us) / r.bytes_us);
    }
}

static void set_variant_parameter(struct bb_calibration *c, int variant, const char *part, double value)
{
    struct bb_calibration_parameter *parameter = bb_parameter_of_variant(c, variant, part);

    bb_parameter_set(c, parameter, bb_parameter_round(parameter, value));
    parameter->correlated = false;
    c->penalized_variants[variant] = true;
}

void bb_penalize_variants(struct bb_calibration *c, const struct bb_cluster *base, const struct bb_measurements *e)
{
    for (int variant = 0; variant < base->n_variants; variant++) {
        double later_us, slower[2];

        if (was_selected(base, e, variant))
            continue;
        later_us = missing_latency_us(&c->cluster, base, e, variant);
        if (later_us > 0)
            set_variant_parameter(c, variant, "base_us", c->cluster.variants[variant].base_us + later_us);
        excess_rate(&c->cluster, base, e, variant, slower);
        if (slower[0] > 1)
            set_variant_parameter(c, variant, "gbps", c->cluster.variants[variant].gbps / slower[0]);
        if (slower[1] > 1)
            set_variant_parameter(c, variant, "nic", c->cluster.variants[variant].nic / slower[1]);
    }
}
