/* smoke.c - the smallest form of a proxy (smoke.h): the builders themselves say what fits. */
#include "proxies/registry/smoke.h"

#include "proxies/registry/registry.h"

#include <string.h>

static bool knows(const struct bb_proxy *p, const char *compute)
{
    if (!compute || strcmp(compute, "none") == 0)
        return true;
    return p->takes & (strcmp(compute, "gemm") == 0 ? BB_TAKES_GEMM : BB_TAKES_TIMED);
}

static int try_stages(const struct bb_proxy *p, int stages, struct bb_proxy_config *c, struct bb_step *step)
{
    const struct bb_words words = {.word = {p->name}, .n = 1};
    const struct bb_proxy *same;
    int rc;

    if (p->takes & BB_TAKES_STAGES)
        c->stages = stages;
    if ((p->takes & BB_TAKES_LAYERS) && !(p->takes & BB_TAKES_TILES)) /* networks have a depth of their own */
        c->layers = stages;
    if (p->takes & BB_TAKES_MODEL)
        c->model = p->model;
    if (p->takes & BB_TAKES_MICRO_BATCHES)
        c->micro_batches = 2;
    rc = bb_proxy_configure(c, &words, &same);
    return rc ? rc : bb_step_build(step, p, c);
}

int bb_smoke_fit(const struct bb_proxy *proxy, const struct bb_proxy_config *base, struct bb_proxy_config *config,
                 struct bb_step *step)
{
    int most = proxy->takes & BB_TAKES_STAGES ? base->ranks : 1, rc = -BB_EUSAGE;

    bb_err_mute(true); /* what does not fit is only tried */
    for (int stages = 1; stages <= most && rc == -BB_EUSAGE; stages++) {
        if (base->ranks % stages)
            continue;
        *config = *base;
        config->compute = knows(proxy, base->compute) ? base->compute : NULL;
        config->scale_counts = base->scale_counts > 0 ? base->scale_counts : BB_SMOKE_SCALE;
        rc = try_stages(proxy, stages, config, step);
    }
    bb_err_mute(false);
    return rc;
}

int bb_smoke_refuse(const struct bb_proxy_config *c)
{
    const struct {
        bool given;
        const char *option;
    } asked[] = {
        {c->layers, "--layers"},
        {c->stages, "--stages"},
        {c->micro_batches, "--micro-batches"},
        {c->scale, "--scale"},
        {c->forward_us > 0, "--forward-us"},
        {c->backward_us > 0, "--backward-us"},
        {c->tflops > 0, "--tflops"},
        {c->per_tensor, "--per-tensor"},
        {c->model, "--model"},
        {c->micro_batch_size, "--micro-batch-size"},
        {c->gpus_per_node, "--gpus-per-node"},
    };

    const char *beyond = bb_proxy_beyond(c, 0);

    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
        if (asked[i].given)
            return bb_err(BB_EUSAGE, "all: %s does not fit every proxy; leave it out, or name one proxy",
                          asked[i].option);
    if (beyond)
        return bb_err(BB_EUSAGE, "all: --%s does not fit every proxy; leave it out, or name one proxy", beyond);
    return 0;
}
