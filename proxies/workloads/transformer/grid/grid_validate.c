/*
 * grid_validate.c - checks that a grid can split a model, and finds the closest valid layout if it cannot (see grid.h).
 */
#include "proxies/workloads/transformer/grid/grid.h"

#include "proxies/workloads/transformer/grid/pipe_layout.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TP, CP, DP, PP, SIZES = BB_GRID_DENSE };

/* ---- divisibility constraints ---- */

/* A number of the model (value), for example its number of heads, that must be divisible by the size of a grid axis
 * (by), for example tp. */
struct constraint {
    bool applies; /* false: the model has no such number, or the axis does not divide it in this model */
    enum { HEADS, WIDTH, SEQUENCE, DECODER_SEQUENCE, UNSUPPORTED } kind;
    const char *what;
    int value;
    const char *axis;
    int by;
};

#define CONSTRAINTS 15

/* Lists all divisibility constraints of the model for the given axis sizes. */
static void list_constraints(const struct bb_grid_model *m, const int sizes[SIZES], struct constraint list[CONSTRAINTS])
{
    const struct bb_arch *a = m->arch;
    const int tp = sizes[TP], cp = sizes[CP], pp = sizes[PP];
    const bool by_heads = m->cp_all_to_all && cp > 1, scans = a->scan.heads > 0, encodes = a->encoder_layers > 0;
    const bool attends = bb_arch_any(a, BB_ARCH_ATTENTION), has_dense = bb_arch_any(a, BB_ARCH_DENSE);
    const bool selective = a->scan.step_rank > 0;
    const struct constraint all[CONSTRAINTS] = {
        {attends, HEADS, "attention head", a->heads, "tp", tp},
        {attends, HEADS, "KV head", a->kv_heads, "tp", tp},
        {selective, UNSUPPORTED, "selective scans (Mamba 1)", 1, "tp", tp},
        {scans, HEADS, "state-space head", a->scan.heads, "tp", tp},
        {scans, HEADS, "state-space group", a->scan.groups, "tp", tp},
        {scans, UNSUPPORTED, "state-space layers", 1, "cp", cp},
        {encodes, UNSUPPORTED, "encoder-decoder models", 1, "pp", pp},
        {encodes, UNSUPPORTED, "encoder-decoder models", 1, "cp", cp},
        {encodes && m->sequence_parallel, DECODER_SEQUENCE, "decoder sequence length", m->decoder_sequence, "tp", tp},
        {has_dense, WIDTH, "FFN width", a->ffn, "tp", tp},
        {a->shared_ffn > 0, WIDTH, "FFN width of the shared experts", a->shared_ffn, "tp", tp},
        /* each cp rank gets two slices of the sequence, so that a causal mask leaves equal work to all cp ranks */
        {cp > 1, SEQUENCE, "sequence length", m->sequence, "2 x cp =", 2 * cp},
        {m->sequence_parallel, SEQUENCE, cp > 1 ? "sequence length per CP rank" : "sequence length", m->sequence / cp,
         "tp", tp},
        {by_heads, HEADS, "attention head per TP rank", a->heads / tp, "cp", cp},
        {by_heads, HEADS, "KV head per TP rank", a->kv_heads / tp, "cp", cp},
    };

    memcpy(list, all, sizeof(all));
}

static bool is_violated(const struct constraint *c)
{
    return c->applies && c->value % c->by != 0;
}

bool bb_grid_layers_divide(int layers, int parts)
{
    return layers >= parts && (layers % parts == 0 || (layers + 2) % parts == 0);
}

static bool sizes_are_valid(const struct bb_grid *g, const struct bb_grid_model *m, const int sizes[SIZES])
{
    struct constraint list[CONSTRAINTS];
    struct bb_pipe_split split;

    list_constraints(m, sizes, list);
    for (int i = 0; i < CONSTRAINTS; i++)
        if (is_violated(&list[i]))
            return false;
    if (g->experts && g->ranks / sizes[PP] % ((long long)(g->ep ? g->ep : 1) * (g->etp ? g->etp : 1)) != 0)
        return false;
    split = bb_grid_pipe_split(g, m->arch->layers, m->chunks);
    split.stages = sizes[PP];
    return bb_pipe_split_is_valid(&split);
}

/* ---- the closest valid layout ---- */

#define MAX_DIVISORS 512 /* numbers up to 2^24, the maximum number of ranks, have at most 504 divisors */

/* State of a branch-and-bound search over all factorizations of the number of ranks into tp, cp, dp and pp. The cost
 * of a layout grows with its difference from the requested sizes (change_cost). */
struct search {
    const struct bb_grid *grid;
    const struct bb_grid_model *model;
    int divisors[MAX_DIVISORS], n; /* divisors of the number of ranks, and their number n */
    int sizes[SIZES], best[SIZES];
    double cost;
};

/* Cost of giving an axis the size `then` in the suggested layout. For an axis whose size the user requested, a
 * different size costs 1 plus the absolute change in powers of two. For axes that were not requested, any size of dp
 * costs nothing; for tp, cp and pp, size 1 costs nothing and small sizes cost less than changing a requested axis. */
static double change_cost(const struct search *s, int axis, int then)
{
    int now = s->grid->requested[axis];

    if (now == 0)
        return axis == DP || then == 1 ? 0 : 0.5 + 0.1 * log2(then);
    return now == then ? 0 : 1 + fabs(log2((double)then / now));
}

static void search_axis(struct search *s, int axis, int left, double cost)
{
    if (cost >= s->cost)
        return;
    if (axis == SIZES) {
        if (left != 1 || (s->model && !sizes_are_valid(s->grid, s->model, s->sizes)))
            return;
        s->cost = cost;
        memcpy(s->best, s->sizes, sizeof(s->best));
        return;
    }
    for (int d = 0; d < s->n; d++) {
        if (left % s->divisors[d] != 0 || (axis == PP && s->divisors[d] != left))
            continue;
        s->sizes[axis] = s->divisors[d];
        search_axis(s, axis + 1, left / s->divisors[d], cost + change_cost(s, axis, s->divisors[d]));
    }
}

static void list_divisors(struct search *s, int n)
{
    for (int d = 1; d <= n / d && s->n + 2 <= MAX_DIVISORS; d++) {
        if (n % d != 0)
            continue;
        s->divisors[s->n++] = d;
        if (d != n / d)
            s->divisors[s->n++] = n / d;
    }
}

/* Returns ep (or etp) of a grid, 1 if not given. */
static int expert_size(int given)
{
    return given ? given : 1;
}

/* Appends ep and etp, if those of the grid do not suit the pp of a suggested layout. */
static void append_expert_sizes(const struct bb_grid *g, const struct bb_grid_model *m, int pp, size_t at,
                                char text[BB_GRID_SUGGESTION])
{
    const int stage = g->ranks / pp;
    const int etp = bb_grid_nearest_common_divisor(stage, m->arch->expert_ffn, expert_size(g->etp));
    const int ep = bb_grid_nearest_common_divisor(stage / etp, m->arch->experts, expert_size(g->ep));

    if (ep != expert_size(g->ep))
        at += (size_t)snprintf(text + at, BB_GRID_SUGGESTION - at, "%s--ep %d", at ? " " : "", ep);
    if (etp != expert_size(g->etp))
        snprintf(text + at, BB_GRID_SUGGESTION - at, "%s--etp %d", at ? " " : "", etp);
}

const char *bb_grid_suggest(const struct bb_grid *grid, const struct bb_grid_model *model,
                            char text[BB_GRID_SUGGESTION])
{
    struct bb_grid any_experts = *grid;
    struct search s = {.grid = grid, .model = model, .cost = INFINITY};
    size_t at = 0;

    text[0] = '\0';
    list_divisors(&s, grid->ranks);
    search_axis(&s, 0, grid->ranks, 0);
    /* no layout is valid with the requested ep and etp: suggest others, too */
    any_experts.ep = any_experts.etp = 1;
    if (s.cost == INFINITY && model && grid->experts) {
        s.grid = &any_experts;
        search_axis(&s, 0, grid->ranks, 0);
    }
    /* No layout is valid for the model: suggest sizes that match the number of ranks, without checking the model. */
    if (s.cost == INFINITY) {
        s.model = NULL;
        search_axis(&s, 0, grid->ranks, 0);
    }
    /* The text contains a requested axis if its size changes; other axes if the size is above 1, except dp, which is
     * derived from the number of ranks. */
    for (int a = 0; a < SIZES; a++) {
        int now = grid->requested[a];

        if (now ? now != s.best[a] : a != DP && s.best[a] > 1)
            at += (size_t)snprintf(text + at, BB_GRID_SUGGESTION - at, "%s--%s %d", at ? " " : "",
                                   bb_grid_dense_names[a], s.best[a]);
    }
    if (s.model && grid->experts)
        append_expert_sizes(grid, model, s.best[PP], at, text);
    return text;
}

long long bb_grid_min_ranks(const struct bb_grid *grid, const struct bb_grid_model *model, int axis, long long others)
{
    const long long most = (long long)expert_size(grid->ep) * expert_size(grid->etp);
    struct bb_grid g = *grid;
    int sizes[SIZES];

    for (int n = 1; n <= most && others * n <= INT_MAX; n++) {
        memcpy(sizes, grid->dense, sizeof(sizes));
        sizes[axis] = n;
        g.ranks = (int)(others * n);
        if (!model || sizes_are_valid(&g, model, sizes))
            return g.ranks;
    }
    return 0;
}

/* ---- checks of a grid and a model ---- */

static int nearest_multiple(int n, int of)
{
    int nearest = (n + of / 2) / of * of;

    return nearest ? nearest : of;
}

static int report_constraint(const struct bb_grid *g, const struct bb_grid_model *m, const struct constraint *d,
                             const char *who)
{
    const char *per = strstr(d->what, " per "); /* the plural s belongs before " per ...", as in "attention heads per
                                                   TP rank" */
    int noun = per ? (int)(per - d->what) : (int)strlen(d->what);
    /* cp and tp can divide multiples of this sequence length */
    int sequence_step = (g->cp > 1 ? 2 * g->cp : 1) * (m->sequence_parallel ? g->tp : 1);
    char suggestion[BB_GRID_SUGGESTION];

    bb_grid_suggest(g, m, suggestion);
    if (d->kind == DECODER_SEQUENCE)
        return bb_err(BB_EUSAGE, "%s: %s %d is not divisible by tp %d; try: --decoder-seq-length %d", who, d->what,
                      d->value, d->by, nearest_multiple(d->value, d->by));
    if (d->kind == SEQUENCE)
        return bb_err(BB_EUSAGE, "%s: %s %d is not divisible by %s %d; try: --seq-length %d%s%s", who, d->what,
                      d->value, d->axis, d->by, nearest_multiple(m->sequence, sequence_step),
                      suggestion[0] ? ", or " : "", suggestion);
    if (!suggestion[0])
        snprintf(suggestion, sizeof(suggestion), "--tp 1 --cp 1 --pp 1");
    if (d->kind == UNSUPPORTED)
        return bb_err(BB_EUSAGE, "%s: %s do not support %s %d; try: %s", who, d->what, d->axis, d->by, suggestion);
    if (d->kind == WIDTH)
        return bb_err(BB_EUSAGE, "%s: %s %d is not divisible by %s %d; try: %s", who, d->what, d->value, d->axis, d->by,
                      suggestion);
    return bb_err(BB_EUSAGE, "%s: %d %.*s%s%s %s not divisible by %s %d; try: %s", who, d->value, noun, d->what,
                  bb_plural(d->value), d->what + noun, d->value == 1 ? "is" : "are", d->axis, d->by, suggestion);
}

static int validate_experts(const struct bb_grid *g, const struct bb_arch *a, const char *who)
{
    int stage = g->ranks / g->pp;

    if (a->experts == 0)
        return 0;
    if (a->experts % g->ep != 0)
        return bb_err(BB_EUSAGE, "%s: %d experts are not divisible by ep %d; try: --ep %d", who, a->experts, g->ep,
                      bb_grid_nearest_common_divisor(a->experts, stage / g->etp, g->ep));
    if (a->expert_ffn % g->etp != 0)
        return bb_err(BB_EUSAGE, "%s: expert FFN width %d is not divisible by etp %d; try: --etp %d", who,
                      a->expert_ffn, g->etp, bb_grid_nearest_common_divisor(a->expert_ffn, stage / g->ep, g->etp));
    return 0;
}

/* Formats options with the smallest number of layers that this grid accepts; the caller suggests them if no layout
 * is valid for the layers of the model. The numbers of layers requested for the first and last stage are rounded up
 * to multiples of the number of model chunks. If neither is requested and there is one chunk, the suggestion is
 * "--pp 1". */
static const char *min_layers_text(const struct bb_grid *g, const struct bb_grid_model *m,
                                   char text[BB_GRID_SUGGESTION])
{
    int v = m->chunks, first = (g->first_layers + v - 1) / v * v, last = (g->last_layers + v - 1) / v * v;
    int others = g->pp - (first > 0) - (last > 0), at;

    if (v == 1 && others == g->pp)
        return "--pp 1";
    at = snprintf(text, BB_GRID_SUGGESTION, "--layers %d", first + last + v * (others > 0 ? others : 0));
    if (first != g->first_layers)
        at += snprintf(text + at, BB_GRID_SUGGESTION - (size_t)at, " --decoder-first-pipeline-num-layers %d", first);
    if (last != g->last_layers)
        snprintf(text + at, BB_GRID_SUGGESTION - (size_t)at, " --decoder-last-pipeline-num-layers %d", last);
    return text;
}

static int validate_layers(const struct bb_grid *g, const struct bb_grid_model *m, const char *who)
{
    const struct bb_pipe_split split = bb_grid_pipe_split(g, m->arch->layers, m->chunks);
    char suggestion[BB_GRID_SUGGESTION], layout[BB_PIPE_LAYOUT_TEXT],
        quoted[BB_PIPE_LAYOUT_TEXT + 8] = "", chunks[100 + BB_PIPE_LAYOUT_TEXT] = "";
    int fewer_chunks = 0;

    if (g->layout || m->arch->layers >= (long long)g->pp * m->chunks)
        return 0;
    if (m->chunks > 1) {
        if (bb_pipe_layout_suggest(&split, m->arch->mtp, layout))
            snprintf(quoted, sizeof(quoted), " '%s'", layout);
        snprintf(chunks, sizeof(chunks), " x %d model chunks (chunks without a layer: --pipeline-layout%s)", m->chunks,
                 quoted);
        fewer_chunks = bb_pipe_split_chunks(&split);
    }
    if (fewer_chunks > 0)
        snprintf(suggestion, sizeof(suggestion), "--vpp %d", fewer_chunks);
    else
        bb_grid_suggest(g, m, suggestion);
    return bb_err(BB_EUSAGE, "%s: %d layers are too few for pp %d%s; try: %s", who, m->arch->layers, g->pp, chunks,
                  suggestion[0] ? suggestion : min_layers_text(g, m, suggestion));
}

int bb_grid_validate_model(const struct bb_grid *g, const struct bb_grid_model *m, const char *who)
{
    struct constraint list[CONSTRAINTS];
    int rc;

    if (m->arch->learned_positions && m->sequence > m->arch->sequence)
        return bb_err(BB_EUSAGE, "%s: sequence length %d exceeds the model's %d positions; try: --seq-length %d", who,
                      m->sequence, m->arch->sequence, m->arch->sequence);
    list_constraints(m, g->dense, list);
    for (int i = 0; i < CONSTRAINTS; i++)
        if (is_violated(&list[i]))
            return report_constraint(g, m, &list[i], who);
    TRY(validate_experts(g, m->arch, who));
    TRY(validate_layers(g, m, who));
out:
    return rc;
}
