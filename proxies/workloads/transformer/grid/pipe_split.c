/* pipe_split.c - divides the layers of a model among pipeline stages, and for an invalid division suggests a valid
 * one (see pipe_split.h). */
#include "proxies/workloads/transformer/grid/pipe_split.h"

#include "proxies/workloads/transformer/grid/grid.h"
#include "proxies/workloads/transformer/grid/pipe_layout.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST "--decoder-first-pipeline-num-layers"
#define LAST  "--decoder-last-pipeline-num-layers"

static bool has_end_counts(const struct bb_pipe_split *s)
{
    return s->first > 0 || s->last > 0;
}

/* Number of pipeline stages for which the user gave no number of layers. */
static int remaining_stages(const struct bb_pipe_split *s)
{
    return s->stages - (s->first > 0) - (s->last > 0);
}

bool bb_pipe_split_is_valid(const struct bb_pipe_split *s)
{
    long long left = (long long)s->layers - s->first - s->last, parts = (long long)remaining_stages(s) * s->chunks;

    if (s->layout)
        return bb_pipe_layout_part(s->layout, 0, NULL) == s->stages * s->chunks;
    if (!has_end_counts(s))
        return bb_grid_layers_divide(s->layers, s->stages * s->chunks);
    if (s->stages < 2 || s->first % s->chunks != 0 || s->last % s->chunks != 0)
        return false;
    return parts == 0 ? left == 0 : left >= parts && left % parts == 0;
}

int bb_pipe_split_layers(const struct bb_pipe_split *s, int part, int *first)
{
    int stage = part % s->stages, chunk = part / s->stages, each, start;
    struct bb_pipe_part given;

    if (s->layout) {
        bb_pipe_layout_part(s->layout, part, &given);
        *first = given.first;
        return given.layers;
    }
    if (!has_end_counts(s) || s->stages < 2)
        return bb_grid_layers(s->layers, s->stages * s->chunks, part, first);
    each = remaining_stages(s) ? (s->layers - s->first - s->last) / (remaining_stages(s) * s->chunks) : 0;
    start = s->first ? s->first / s->chunks : each;
    *first = chunk * (s->layers / s->chunks) + (stage ? start + (stage - 1) * each : 0);
    if (stage == 0)
        return start;
    return stage == s->stages - 1 && s->last ? s->last / s->chunks : each;
}

int bb_pipe_split_mtp_part(const struct bb_pipe_split *s)
{
    const int last = s->stages * s->chunks - 1;
    struct bb_pipe_part before = {0};

    if (s->layout)
        bb_pipe_layout_part(s->layout, last - 1, &before);
    return last - (before.mtp_layers > 0);
}

/* ---- closest valid division of the layers ---- */

static int clamp_between(int low, int n, int high)
{
    return n < low ? low : n > high ? high : n;
}

/* Returns a division in which each virtual stage (model chunk of a stage) of the middle stages has `each` layers.
 * The first and the last stage share the remaining layers: as close as possible to the numbers that the user
 * requested for these two stages, or equally if the user requested none. */
static struct bb_pipe_split with_both_ends(const struct bb_pipe_split *s, int each)
{
    int v = s->chunks, ends = s->layers / v - (s->stages - 2) * each;
    struct bb_pipe_split n = *s;

    n.first = v * (s->first ? clamp_between(1, (s->first + v / 2) / v, ends - 1) : (ends + 1) / 2);
    n.last = v * ends - n.first;
    return n;
}

int bb_pipe_split_longest(const struct bb_pipe_split *s, int mtp_layers)
{
    const int first = s->first + 1, last = s->last + mtp_layers + 1, ends = first > last ? first : last;
    const int middle = s->stages > 2 ? (s->layers - s->first - s->last) / (s->stages - 2) : 0;

    return ends > middle ? ends : middle;
}

/* Cost of suggesting the division n to a user who requested the division s. If the user requested numbers of layers
 * for the first or last stage, the cost is the sum of the absolute differences from these numbers. */
static int cost_of(const struct bb_pipe_split *s, const struct bb_pipe_split *n)
{
    return has_end_counts(s) ? abs(n->first - s->first) + abs(n->last - s->last) : bb_pipe_split_longest(n, 0);
}

/* There is none if the chunks do not divide the layers or there are too few layers. */
bool bb_pipe_split_nearest(const struct bb_pipe_split *s, struct bb_pipe_split *nearest)
{
    bool one = has_end_counts(s) && !(s->first && s->last);
    int max = s->layers / s->chunks / (s->stages > 2 ? s->stages - 2 : 1), min_cost = 0;
    bool found = false;

    for (int each = 1; s->stages > 1 && each <= max; each++) {
        struct bb_pipe_split n = *s;
        int cost;

        if (one) /* the requested end stage has the layers that the other stages leave */
            *(s->first ? &n.first : &n.last) = s->layers - (s->stages - 1) * s->chunks * each;
        else
            n = with_both_ends(s, each);
        cost = cost_of(s, &n);
        if ((one ? n.first + n.last < 1 : n.first < 1 || n.last < 1) || !bb_pipe_split_is_valid(&n))
            continue;
        if (!found || cost < min_cost) {
            *nearest = n;
            min_cost = cost;
        }
        found = true;
    }
    return found;
}

int bb_pipe_split_chunks(const struct bb_pipe_split *s)
{
    int requested = s->chunks, max = s->layers / s->stages;

    for (int away = 1; away < requested + max; away++)
        for (int v = requested + away; v >= requested - away; v -= 2 * away)
            if (v > 1 && v <= max &&
                (has_end_counts(s) ? s->layers % v == 0 : bb_grid_layers_divide(s->layers, s->stages * v)))
                return v;
    return 0;
}

/* ---- messages ---- */

#define TEXT         256
#define ALTERNATIVES 512

static const char *ends_text(const struct bb_pipe_split *s, char text[TEXT])
{
    size_t n = 0;

    text[0] = '\0';
    if (s->first)
        n = (size_t)snprintf(text, TEXT, "%s %d", FIRST, s->first);
    if (s->last)
        snprintf(text + n, TEXT - n, "%s%s %d", n ? " " : "", LAST, s->last);
    return text;
}

/* Keeps the number of layers of the one requested end stage (first or last), and finds a number of layers for the
 * opposite end stage that makes the division valid. Prefers the number closest to that of a middle stage. Returns
 * false if there is none. */
static bool with_other_end(const struct bb_pipe_split *s, struct bb_pipe_split *suggestion)
{
    int *other = s->first ? &suggestion->last : &suggestion->first, given = s->first + s->last, best = INT_MAX;

    *suggestion = *s;
    for (int each = s->chunks; (s->first == 0) != (s->last == 0) && each <= s->layers; each += s->chunks) {
        struct bb_pipe_split n = *s;
        long long rest = s->layers - given - (s->stages - 2LL) * each;

        *(s->first ? &n.last : &n.first) = rest > 0 ? (int)rest : 0;
        if (rest < 1 || abs((int)rest - each) >= best || !bb_pipe_split_is_valid(&n))
            continue;
        best = abs((int)rest - each);
        *other = (int)rest;
    }
    return best < INT_MAX;
}

/* Formats the suggested options: other numbers of layers for the first and last stage, or, if no such numbers are
 * valid, another number of model chunks and numbers of layers that suit it. */
static const char *suggestion_text(const struct bb_pipe_split *s, char text[TEXT])
{
    struct bb_pipe_split other = *s, suggestion;
    char ends[TEXT];
    size_t used;

    if (bb_pipe_split_nearest(s, &suggestion)) {
        ends_text(&suggestion, text);
        used = strlen(text);
        if (with_other_end(s, &suggestion))
            snprintf(text + used, TEXT - used, ", or %s", ends_text(&suggestion, ends));
        return text;
    }
    other.chunks = bb_pipe_split_chunks(s);
    if (other.chunks == 0)
        other.chunks = 1;
    if (!bb_pipe_split_nearest(&other, &suggestion))
        suggestion = (struct bb_pipe_split){0};
    snprintf(text, TEXT, "--vpp %d%s %.150s", other.chunks, other.chunks == 1 ? " --schedule 1f1b" : "",
             ends_text(&suggestion, ends));
    return text;
}

/* Formats the requested layers of the first and last stage, for example "3 in the first and 2 in the last stage". */
static const char *ends_description(const struct bb_pipe_split *s, char text[64])
{
    if (s->first && s->last)
        snprintf(text, 64, "%d in the first and %d in the last stage", s->first, s->last);
    else
        snprintf(text, 64, "%d in the %s stage", s->first ? s->first : s->last, s->first ? "first" : "last");
    return text;
}

static int report_ends(const struct bb_pipe_split *s, const char *who)
{
    bool first = s->first % s->chunks != 0;
    char suggestion[TEXT], given[64], chunks[32] = "";
    int left = s->layers - s->first - s->last;

    if (first || s->last % s->chunks != 0)
        return bb_err(BB_EUSAGE, "%s: %d layers of the %s stage are not divisible by its %d model chunks; try: %s", who,
                      first ? s->first : s->last, first ? "first" : "last", s->chunks, suggestion_text(s, suggestion));
    if (remaining_stages(s) == 0)
        return bb_err(BB_EUSAGE, "%s: %s do not add up to the %d layers, and there is no other stage; try: %s", who,
                      ends_description(s, given), s->layers, suggestion_text(s, suggestion));
    if (s->chunks > 1)
        snprintf(chunks, sizeof(chunks), " x %d model chunks", s->chunks);
    return bb_err(BB_EUSAGE, "%s: %d layers minus %s leave %d, %s %d other stages%s; try: %s", who, s->layers,
                  ends_description(s, given), left,
                  left < remaining_stages(s) * s->chunks ? "too few for" : "not divisible by", remaining_stages(s),
                  chunks, suggestion_text(s, suggestion));
}

/* Lists options that divide the layers of the model, or of another model if there are none. Those of the ends are multiples of
 * the number of chunks, so a stage may get far more layers than with fewer chunks. grid: as in bb_pipe_split_validate */
static void list_alternatives(const struct bb_pipe_split *s, int mtp_layers, const char *grid, char list[ALTERNATIVES])
{
    const int parts = s->stages * s->chunks, chunks = s->chunks > 1 ? bb_pipe_split_chunks(s) : 0;
    char text[TEXT];
    struct bb_pipe_split nearest;
    int n = 0;

    list[0] = '\0';
    if (bb_pipe_layout_suggest(s, mtp_layers, text))
        n = snprintf(list, ALTERNATIVES, "--pipeline-layout '%s'", text);
    if (chunks > 0)
        n += snprintf(list + n, ALTERNATIVES - (size_t)n, "%s--vpp %d", n ? ", or " : "", chunks);
    if (bb_pipe_split_nearest(s, &nearest))
        n += snprintf(list + n, ALTERNATIVES - (size_t)n, "%s%s", n ? ", or " : "", ends_text(&nearest, text));
    if (grid[0])
        n += snprintf(list + n, ALTERNATIVES - (size_t)n, "%s%s", n ? ", or " : "", grid);
    if (n == 0)
        snprintf(list, ALTERNATIVES, "--layers %d or %d", s->layers / parts * parts, (s->layers / parts + 1) * parts);
}

int bb_pipe_split_validate(const struct bb_pipe_split *s, int mtp_layers, const char *grid, const char *who)
{
    char by[32] = "", list[ALTERNATIVES];

    if (bb_pipe_split_is_valid(s))
        return 0;
    if (has_end_counts(s))
        return report_ends(s, who);
    if (s->chunks > 1)
        snprintf(by, sizeof(by), " x %d model chunks", s->chunks);
    list_alternatives(s, mtp_layers, grid, list);
    return bb_err(BB_EUSAGE,
                  "%s: %d layers are not divisible by pp %d%s, even with embedding and head counted as a layer each; "
                  "try: %s",
                  who, s->layers, s->stages, by, list);
}
