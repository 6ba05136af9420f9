/* penalty.c - penalties of layouts by their published steps (see penalty.h). */
#include "proxies/offline/layouts/penalty.h"
#include "bootstrap/base/units.h"

#include "proxies/offline/plan/forecast.h"

#define MANY_EXPERTS 8 /* on a GPU */

enum experts { NO_EXPERTS, FEW_EXPERTS, MANY_EXPERTS_PER_GPU };
enum sharding { WHOLE, SHARDED_ON_NODE, SHARDED_OVER_NODES };
enum context { SHORT_CONTEXT, LONG_CONTEXT, SHORT_CONTEXT_CP, LONG_CONTEXT_CP, ANY_CONTEXT }; /* CP: cp above 1 */

static enum sharding sharding_of(const struct bb_layout_choice *c, const struct bb_layout_subject *of)
{
    return !bb_sync_gathers_parameters(c->sync) ? WHOLE : of->several_nodes ? SHARDED_OVER_NODES : SHARDED_ON_NODE;
}

/* Written by tests/cli/accuracy.py --write. longer: time that published steps of a kind of layout took on average,
 * relative to the prediction, minus 1; 0 if it was less. ANY_CONTEXT: of four or more steps, for layouts whose context has
 * fewer; it follows the rows of single contexts. tp 0: kinds without published steps; longer is the error that 80 % of the
 * published steps of Megatron-LM with as many experts do not exceed. */
static const struct kind {
    int tp;
    bool pp;
    enum sharding sharding;
    enum experts experts;
    enum context context;
    int steps;
    double longer;
} kinds[] = {
#include "proxies/offline/layouts/penalty.def"
};

static enum context context_of(const struct bb_layout_choice *c, const struct bb_layout_subject *of)
{
    if (c->cp > 1)
        return of->tokens >= BB_LONG_CONTEXT ? LONG_CONTEXT_CP : SHORT_CONTEXT_CP;
    return of->tokens >= BB_LONG_CONTEXT ? LONG_CONTEXT : SHORT_CONTEXT;
}

/* No published step of Megatron-LM has this schedule, or ZeRO-2. */
static bool is_unpublished(const struct bb_layout_choice *c)
{
    return c->schedule == BB_ZB_H1 || c->sync == BB_SYNC_ZERO2;
}

static const struct kind *kind_of(const struct bb_layout_choice *c, const struct bb_layout_subject *of)
{
    struct kind k = {.tp = is_unpublished(c) ? 0 : c->tp,
                     .pp = c->pp > 1,
                     .sharding = sharding_of(c, of),
                     .context = context_of(c, of)};
    const struct kind *row = kinds;

    k.experts = of->experts == 0 ? NO_EXPERTS : of->experts / c->ep < MANY_EXPERTS ? FEW_EXPERTS : MANY_EXPERTS_PER_GPU;
    while (row->experts != k.experts ||
           (row->tp && (row->tp != k.tp || row->pp != k.pp || row->sharding != k.sharding ||
                        (row->context != k.context && row->context != ANY_CONTEXT))))
        row++;
    return row;
}

double bb_layouts_penalty(const struct bb_layout_choice *c, const struct bb_layout_subject *of)
{
    return kind_of(c, of)->longer;
}

bool bb_layouts_is_published(const struct bb_layout_choice *c, const struct bb_layout_subject *of)
{
    return kind_of(c, of)->tp > 0;
}

void bb_layouts_penalty_text(const struct bb_layout_choice *c, const struct bb_layout_subject *of, char *text,
                             size_t size)
{
    static const char *const with[] = {", no experts", ", fewer than 8 experts on a GPU",
                                       ", 8 or more experts on a GPU"};
    static const char *const sharded[] = {"", ", zero3 on one node", ", zero3 over several nodes"};
    static const char *const contexts[] = {", cp 1, short context", ", cp 1, long context",
                                           ", cp above 1, short context", ", cp above 1, long context",
                                           ", any cp and context"};
    const struct kind *k = kind_of(c, of);
    char layout[160];

    snprintf(layout, sizeof(layout), "%stp %d, pp %s%s%s%s", c->schedule == BB_ZB_H1 ? "schedule zb-h1, " : "", c->tp,
             c->pp > 1 ? "above 1" : "1", c->sync == BB_SYNC_ZERO2 ? ", zero2" : sharded[sharding_of(c, of)],
             with[k->experts], contexts[k->tp ? k->context : context_of(c, of)]);
    if (k->tp == 0)
        snprintf(text, size,
                 "no published step has %s; 80%% of those with other layouts took within %.1f%% of "
                 "the predicted time",
                 layout, 100 * k->longer);
    else
        snprintf(text, size,
                 "relative to the prediction, the %d published step%s with %s took on average %slonger than those "
                 "with other layouts",
                 k->steps, bb_plural(k->steps), layout, k->longer > 0 ? "" : "no ");
}
