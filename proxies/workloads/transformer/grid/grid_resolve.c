/* grid_resolve.c - derives the axis sizes of a grid that are not given, and validates sizes and order string (see
 * grid.h). */
#include "proxies/form/step/program.h"
#include "proxies/workloads/transformer/grid/grid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- parsing of order strings ("tp-cp-ep-dp-pp") ---- */

const char *const bb_grid_axis_names[BB_GRID_AXES] = {"tp", "cp", "ep", "dp", "pp"};

/* Returns the axis with the given two-letter name, or BB_NONE. */
static int axis_of(const char *name, size_t n)
{
    for (int a = 0; a < BB_GRID_AXES; a++)
        if (n == 2 && strncmp(name, bb_grid_axis_names[a], 2) == 0)
            return a;
    return BB_NONE;
}

int bb_grid_parse_order(const char *order, enum bb_grid_axis axes[BB_GRID_AXES])
{
    int n = 0;

    for (const char *name = order; *name && n < BB_GRID_AXES; name += strcspn(name, "-"), name += *name == '-')
        axes[n++] = (enum bb_grid_axis)axis_of(name, strcspn(name, "-"));
    return n;
}

/* Checks that each name in the order string is an axis and occurs once. */
static int check_axis_names(const char *order, const char *who)
{
    bool seen[BB_GRID_AXES] = {false};
    const char *name = order;

    if (strlen(order) >= BB_GRID_ORDER_SIZE)
        return bb_err(BB_EUSAGE, "%s: --order '%.40s' is too long; try: --order %s", who, order, BB_GRID_ORDER);
    for (;;) {
        size_t n = strcspn(name, "-");
        int axis = axis_of(name, n);

        if (axis == BB_NONE)
            return bb_err(BB_EUSAGE,
                          "%s: unknown axis '%.*s' in --order '%s', expected tp, cp, ep, dp or pp; try: --order %s",
                          who, (int)n, name, order, BB_GRID_ORDER);
        if (seen[axis])
            return bb_err(BB_EUSAGE, "%s: axis %.2s occurs twice in --order '%s'; try: --order %s", who, name, order,
                          BB_GRID_ORDER);
        seen[axis] = true;
        if (name[n] == '\0')
            return 0;
        name += n + 1;
    }
}

/* ---- axis sizes ---- */

int bb_grid_nearest_divisor(int n, int want)
{
    int best = 1;

    for (int below = want < n ? want : n; below >= 1; below--)
        if (n % below == 0) {
            best = below;
            break;
        }
    for (int above = want; above <= n && (double)above / want <= (double)want / best; above++)
        if (n % above == 0)
            return above;
    return best;
}

int bb_grid_nearest_common_divisor(int a, int b, int want)
{
    return b ? bb_grid_nearest_common_divisor(b, a % b, want) : bb_grid_nearest_divisor(a, want);
}

const char *const bb_grid_dense_names[BB_GRID_DENSE] = {"tp", "cp", "dp", "pp"};

static long long multiply_axes(const struct bb_grid *g)
{
    long long all = 1;

    for (int a = 0; a < BB_GRID_DENSE && all < 1LL << 40; a++)
        if (g->dense[a] > 0)
            all *= g->dense[a];
    return all;
}

/* Formats the axis sizes known so far, for example "tp 3 x cp 1 x pp 2". */
static const char *axes_text(const struct bb_grid *g, char text[96])
{
    size_t n = 0;

    text[0] = '\0';
    for (int a = 0; a < BB_GRID_DENSE; a++)
        if (g->dense[a] > 0)
            n += (size_t)snprintf(text + n, 96 - n, "%s%s %d", n ? " x " : "", bb_grid_dense_names[a], g->dense[a]);
    return text;
}

/* ---- the dense grid ---- */

/* Derives the axis whose size is 0: the number of ranks divided by the sizes of the other axes. */
static int derive_axis(struct bb_grid *g, int axis, const struct bb_grid_model *model, const char *who)
{
    int ranks = g->ranks;
    long long others = multiply_axes(g);
    char axes[96], suggestion[BB_GRID_SUGGESTION], possible[40] = "";
    long long least;

    if (others <= ranks && ranks % others == 0) {
        g->dense[axis] = (int)(ranks / others);
        return 0;
    }
    bb_grid_suggest(g, model, suggestion);
    least = bb_grid_min_ranks(g, model, axis, others);
    if (least > 0)
        snprintf(possible, sizeof(possible), "; possible: %lld ranks", least);
    if (ranks < others)
        return bb_err(BB_EUSAGE, "%s: %s needs %lld ranks, got %d%s; try: %s", who, axes_text(g, axes), others, ranks,
                      possible, suggestion);
    return bb_err(BB_EUSAGE, "%s: %d ranks are not divisible by %s = %lld; try: %s", who, ranks, axes_text(g, axes),
                  others, suggestion);
}

static int resolve_dense(struct bb_grid *g, const struct bb_grid_model *model, const char *who)
{
    enum { TP_AT, CP_AT, DP_AT, PP_AT };
    char axes[96], suggestion[BB_GRID_SUGGESTION];

    if (g->cp == 0 && g->dp > 0 && g->tp > 0 && g->pp > 0)
        return derive_axis(g, CP_AT, model, who);
    g->cp += g->cp == 0;
    if (g->dp == 0) {
        g->tp += g->tp == 0;
        g->pp += g->pp == 0;
        return derive_axis(g, DP_AT, model, who);
    }
    if (g->tp == 0 && g->pp == 0 && multiply_axes(g) < g->ranks)
        return bb_err(BB_EUSAGE, "%s: dp %d with %d ranks leaves tp and pp undetermined; try: %s", who, g->dp, g->ranks,
                      bb_grid_suggest(g, model, suggestion));
    if (g->tp == 0 && g->pp == 0)
        g->tp = 1;
    if (g->pp == 0)
        return derive_axis(g, PP_AT, model, who);
    if (g->tp == 0)
        return derive_axis(g, TP_AT, model, who);
    if (multiply_axes(g) == g->ranks)
        return 0;
    return bb_err(BB_EUSAGE, "%s: %s = %lld ranks, but the job has %d; try: %s", who, axes_text(g, axes),
                  multiply_axes(g), g->ranks, bb_grid_suggest(g, model, suggestion));
}

/* ---- the expert grid ---- */

int bb_grid_validate_ep(int ep, bool experts, const char *who)
{
    return ep > 1 && !experts ? bb_err(BB_EUSAGE, "%s: ep %d requires a model with experts; try: --ep 1", who, ep) : 0;
}

static int resolve_expert(struct bb_grid *g, const struct bb_grid_model *model, const char *who)
{
    int stage = g->ranks / g->pp, left, rc = bb_grid_validate_ep(g->ep, g->experts, who);

    if (rc)
        return rc;
    if (stage % g->etp != 0)
        return bb_err(BB_EUSAGE, "%s: %d ranks per stage are not divisible by etp %d; try: --etp %d", who, stage,
                      g->etp, bb_grid_nearest_divisor(stage, g->etp));
    left = stage / g->etp;
    if (left % g->ep != 0)
        return bb_err(BB_EUSAGE, "%s: %d ranks per stage are not divisible by etp %d x ep %d = %lld; try: --ep %d", who,
                      stage, g->etp, g->ep, (long long)g->etp * g->ep,
                      bb_grid_nearest_common_divisor(left, model ? model->arch->experts : 0, g->ep));
    g->edp = left / g->ep;
    return 0;
}

/* ---- validation of the order string ---- */

static int check_axes_present(const struct bb_grid *g, const char *who)
{
    enum { DENSE = 4 };
    static const enum bb_grid_axis axes[] = {BB_AXIS_TP, BB_AXIS_CP, BB_AXIS_DP, BB_AXIS_PP,
                                             BB_AXIS_EP, BB_AXIS_TP, BB_AXIS_DP};

    for (int i = 0; i < (int)(sizeof(axes) / sizeof(axes[0])); i++) {
        int size = bb_grid_size(g, axes[i], i >= DENSE);
        const char *name = bb_grid_axis_names[axes[i]];

        /* axis names have two letters and '-' separates them, so strstr cannot match across two names */
        if (size > 1 && (g->experts || i < DENSE || axes[i] != BB_AXIS_DP) && !strstr(g->order, name))
            return bb_err(BB_EUSAGE, "%s: axis %s has size %d, but is missing in --order '%s'; try: --order %s-%s", who,
                          name, size, g->order, g->order, name);
    }
    return 0;
}

/* Returns the distance in ranks between consecutive stages of a pipeline, in the dense grid or in the expert grid. */
static int pp_stride(const struct bb_grid *g, bool expert)
{
    enum bb_grid_axis axes[BB_GRID_AXES];
    int n = bb_grid_parse_order(g->order, axes), stride = 1;

    for (int a = 0; a < n && axes[a] != BB_AXIS_PP; a++)
        stride *= bb_grid_size(g, axes[a], expert);
    return stride;
}

/* Returns the order string with pp moved to the end. */
static const char *pp_last(const char *order, char text[BB_GRID_ORDER_SIZE + 4])
{
    enum bb_grid_axis axes[BB_GRID_AXES];
    int n = bb_grid_parse_order(order, axes);
    size_t at = 0;

    for (int a = 0; a < n; a++)
        if (axes[a] != BB_AXIS_PP)
            at += (size_t)snprintf(text + at, BB_GRID_ORDER_SIZE + 4 - at, "%s-", bb_grid_axis_names[axes[a]]);
    snprintf(text + at, BB_GRID_ORDER_SIZE + 4 - at, "pp");
    return text;
}

static int check_order(const struct bb_grid *g, const char *who)
{
    int rc = check_axes_present(g, who), stride, expert_stride;
    char suggestion[BB_GRID_ORDER_SIZE + 4];

    if (rc || g->pp == 1 || !g->experts)
        return rc;
    stride = pp_stride(g, false);
    expert_stride = pp_stride(g, true);
    if (stride == expert_stride)
        return 0;
    return bb_err(BB_EUSAGE,
                  "%s: with --order '%s' the distance between pipeline stages is %d ranks in the dense grid, but %d in "
                  "the expert grid (etp %d, ep %d, edp %d); try: --order %s",
                  who, g->order, stride, expert_stride, g->etp, g->ep, g->edp, pp_last(g->order, suggestion));
}

int bb_grid_resolve(struct bb_grid *g, int ranks, const char *order, const struct bb_grid_model *model, const char *who)
{
    int rc;

    if (!order)
        order = BB_GRID_ORDER;
    TRY(check_axis_names(order, who));
    snprintf(g->order, sizeof(g->order), "%s", order);
    g->ranks = ranks;
    g->ep += g->ep == 0;
    g->etp += g->etp == 0;
    memcpy(g->requested, g->dense, sizeof(g->requested));
    TRY(resolve_dense(g, model, who));
    TRY(resolve_expert(g, model, who));
    TRY(check_order(g, who));
out:
    return rc;
}

/* ---- layers per stage ---- */

struct bb_pipe_split bb_grid_pipe_split(const struct bb_grid *g, int layers, int chunks)
{
    return (struct bb_pipe_split){layers, g->pp, chunks, g->first_layers, g->last_layers, g->layout};
}

int bb_grid_layers(int layers, int parts, int part, int *first)
{
    int ends = layers % parts != 0 && parts > 1 && layers + 2 >= 2 * parts; /* 1: embedding and head count as one
                                                                               layer each; 0: they do not count */
    int all = layers + 2 * ends, each = all / parts, more = all % parts, before, count;

    /* The remaining `more` layers go to the virtual pipeline stages 1 to `more`, one layer each. These virtual
     * stages exist, because `more` is less than `parts`. */
    before = part * each + (part > 1 ? (part - 1 < more ? part - 1 : more) : 0) - (part > 0 ? ends : 0);
    count = each + (part > 0 && part <= more) - (part == 0 ? ends : 0) - (part == parts - 1 ? ends : 0);
    *first = before;
    return count;
}
