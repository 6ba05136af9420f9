/* unmeasured_rates.c - see unmeasured_rates.h. */
#include "proxies/offline/calibrate/parameters/unmeasured_rates.h"

#include "proxies/offline/calibrate/parameters/parameters.h"

#include <math.h>
#include <string.h>

/* A factor nearer to 1 than this changes nothing: variants differ as much on one machine. With 1.02, eight H100 of SimuMax, whose
 * rings reach 0.966 of the nominal rate and NVLS all of it, gave an all_reduce 3 % too slow. */
#define MIN_FACTOR 1.05

static const size_t members[2] = {offsetof(struct bb_nccl_variant, gbps), offsetof(struct bb_nccl_variant, nic)};

static struct bb_calibration_parameter *rate_of(struct bb_calibration *c, int variant, bool inter)
{
    return bb_parameter_of(c, (const char *)&c->cluster.variants[variant] + members[inter]);
}

/* The factor of the fitted rates of variants that a ring (or any algorithm) with Simple (or any protocol) has. */
struct factor {
    double log_sum;
    int n;
    const struct bb_calibration_fit *fit;
    const char *as;
};

static struct factor find_factor(struct bb_calibration *c, bool inter)
{
    struct factor of_ring = {0}, of_simple = {0}, of_all = {0};

    for (int v = 0; v < c->cluster.n_variants; v++) {
        const struct bb_calibration_parameter *rate = rate_of(c, v, inter);
        const bool simple = strcmp(c->cluster.variants[v].protocol, "Simple") == 0;
        struct factor *const kinds[] = {&of_all, simple ? &of_simple : NULL,
                                        simple && c->cluster.variants[v].algorithm == BB_NCCL_RING ? &of_ring : NULL};

        for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && rate->fit && !rate->is_small; i++)
            if (kinds[i]) {
                kinds[i]->log_sum += log(fmin(rate->value / rate->nominal, simple ? INFINITY : 1));
                kinds[i]->fit = rate->fit;
                kinds[i]->as = kinds[i]->n++ == 0 ? c->variant_names[v] : "the measured variants";
            }
    }
    return of_ring.n > 0 ? of_ring : of_simple.n > 0 ? of_simple : of_all;
}

static void scale(struct bb_calibration *c, struct bb_calibration_parameter *rate, double factor,
                  const struct bb_calibration_fit *fit)
{
    const double uncertainty = rate->uncertainty_percent;

    rate->scaled |= rate->fit == NULL;
    bb_parameter_set(c, rate, rate->value * factor);
    rate->uncertainty_percent = uncertainty;
    rate->fit = fit;
}

static void scale_place(struct bb_calibration *c, bool inter)
{
    const struct factor found = find_factor(c, inter);
    const double factor = found.n > 0 ? exp(found.log_sum / found.n) : 1;
    struct bb_calibration_parameter *link = bb_parameter_of(c, inter ? &c->cluster.inter.gbps : &c->cluster.intra.gbps);
    const bool only_products = inter && !link->fit;

    if (fmax(factor, 1 / factor) < MIN_FACTOR)
        return;
    for (int v = 0; v < c->cluster.n_variants; v++) {
        struct bb_calibration_parameter *rate = rate_of(c, v, inter);

        if (only_products && rate->fit)
            scale(c, rate, 1 / factor, rate->fit);
        else if (!only_products && !rate->fit)
            scale(c, rate, factor, found.fit);
    }
    if (!link->fit)
        scale(c, link, factor, found.fit);
    c->scaled[inter] = factor;
    c->scaled_as[inter] = found.as;
}

void bb_scale_unmeasured(struct bb_calibration *c)
{
    scale_place(c, false);
    scale_place(c, true);
}
