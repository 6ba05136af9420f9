/* smoke.c - find the smallest step of a proxy by trying its build function with different options (see smoke.h). */
#include "proxies/workloads/registry/smoke.h"

#include "proxies/workloads/registry/registry.h"

/* Returns whether the number of pipeline stages can be any divisor of the number of ranks. Proxies that divide a
 * convolutional network into splits (layer_parallel, spatial, gems) compute a number of stages from the ranks. */
static bool has_free_stages(const struct bb_proxy *p)
{
    return (p->features & BB_FEATURE_STAGES) && !(p->features & BB_FEATURE_TILES);
}

static int try_stages(const struct bb_proxy *p, int stages, struct bb_proxy_config *c, struct bb_step *step)
{
    const struct bb_positionals positionals = {.word = {p->name}, .n = 1};
    const struct bb_proxy *same;
    int rc;

    if (has_free_stages(p))
        c->stages = stages;
    if ((p->features & BB_FEATURE_LAYERS) && !(p->features & BB_FEATURE_IMAGES))
        c->layers = stages;
    if (p->features & BB_FEATURE_MODEL)
        c->model = p->model;
    if (p->features & BB_FEATURE_MICRO_BATCHES)
        c->micro_batches = 2;
    rc = bb_proxy_configure(c, &positionals, &same);
    return rc ? rc : bb_step_build(step, p, c);
}

int bb_smoke_fit(const struct bb_proxy *proxy, const struct bb_proxy_config *base, struct bb_proxy_config *config,
                 struct bb_step *step)
{
    int most = has_free_stages(proxy) ? base->ranks : 1, rc = -BB_EUSAGE;

    bb_err_speculative(true); /* suppress the error lines of configurations that are invalid for these ranks */
    for (int stages = 1; stages <= most && rc == -BB_EUSAGE; stages++) {
        if (base->ranks % stages)
            continue;
        *config = *base;
        config->compute = bb_proxy_supports_compute(proxy, base->compute) ? base->compute : NULL;
        config->scale_counts = base->scale_counts > 0 ? base->scale_counts : BB_SMOKE_SCALE;
        rc = try_stages(proxy, stages, config, step);
    }
    bb_err_speculative(false);
    return rc;
}

static bool fits_ranks(const struct bb_proxy *proxy, const struct bb_proxy_config *base, int ranks)
{
    struct bb_proxy_config requested = *base, fitted;
    struct bb_step step = {0};
    int rc;

    requested.ranks = ranks;
    rc = ranks > 0 ? bb_smoke_fit(proxy, &requested, &fitted, &step) : -BB_EUSAGE;
    bb_step_release(&step);
    return rc == 0;
}

int bb_smoke_nearest_ranks(const struct bb_proxy *proxy, const struct bb_proxy_config *base)
{
    for (int distance = 1; distance <= base->ranks + 256; distance++) {
        if (fits_ranks(proxy, base, base->ranks - distance))
            return base->ranks - distance;
        if (fits_ranks(proxy, base, base->ranks + distance))
            return base->ranks + distance;
    }
    return 0;
}

int bb_smoke_validate(const struct bb_proxy_config *c, const struct bb_positionals *line)
{
    const char *unsupported = bb_proxy_unsupported_option(c, line, BB_FEATURE_STEP);

    if (unsupported)
        return bb_err(BB_EUSAGE,
                      "all: not every proxy supports --%s; remove this option, or name one proxy instead of 'all'",
                      unsupported);
    return 0;
}
