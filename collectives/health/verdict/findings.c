/* findings.c - see findings.h, and verdict.h. */
#include "collectives/health/verdict/findings.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/stats.h"
#include "bootstrap/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

bool bb_health_is_of_node(const struct bb_health_finding *f)
{
    return f->part == BB_HEALTH_A_GPU || f->part == BB_HEALTH_A_NODE || f->part == BB_HEALTH_A_NIC;
}

struct bb_health_finding bb_health_remark(enum bb_health_test test, enum bb_health_part part,
                                          enum bb_health_level level, int node, int other, int gpu)
{
    return (struct bb_health_finding){.test = test,
                                      .part = part,
                                      .level = level,
                                      .node = node,
                                      .other = other,
                                      .gpu = gpu,
                                      .value = NAN,
                                      .expected = NAN,
                                      .median = NAN,
                                      .tries = 1};
}

void bb_health_add(struct bb_health *h, const struct bb_health_finding *f)
{
    BB_GROW(h->findings, h->n);
    h->findings[h->n] = *f;
    bb_blank_controls(h->findings[h->n++].text); /* of host names in the baseline */
}

bool bb_health_is_common(const struct bb_health *h, const struct bb_health_finding *f)
{
    if (f->test == BB_HEALTH_BISECTION)
        return f->part == BB_HEALTH_FABRIC && !h->all_paths;
    return f->part == BB_HEALTH_ALL &&
           (f->test < BB_HEALTH_WHOLE || (f->test == BB_HEALTH_WHOLE && h->skip[BB_HEALTH_PAIRS]));
}

enum bb_health_level bb_health_node_level(const struct bb_health *h, int node)
{
    enum bb_health_level level = BB_HEALTH_OK;

    for (size_t i = 0; i < h->n; i++) {
        const struct bb_health_finding *f = &h->findings[i];

        if (bb_health_is_of_node(f) && f->node == node)
            level = MAX(level, f->level);
        else if (bb_health_is_common(h, f))
            level = MAX(level, f->level == BB_HEALTH_FAIL ? BB_HEALTH_UNKNOWN : f->level);
    }
    return level;
}

bool bb_health_is_node_size(int gpus)
{
    return gpus > 0 && (gpus & (gpus - 1)) == 0;
}

bool bb_health_is_active(const struct bb_health *h, int node)
{
    for (size_t i = 0; i < h->n; i++) {
        const struct bb_health_finding *f = &h->findings[i];
        const bool is_now =
            h->stage && !f->lost && f->test < BB_HEALTH_TESTS && strcmp(bb_health_tests[f->test].stage, h->stage) == 0;

        if (bb_health_is_of_node(f) && f->node == node && f->level == BB_HEALTH_FAIL && !is_now &&
            (h->nodes > 1 || f->test < BB_HEALTH_TESTS))
            return false;
    }
    return true;
}

int bb_health_active(const struct bb_health *h)
{
    int n = 0;

    for (int node = 0; node < h->nodes; node++)
        n += bb_health_is_active(h, node);
    return n;
}

size_t bb_health_count_values(const struct bb_health *h)
{
    return (size_t)h->nodes * (size_t)h->gpus;
}

/* ---- NVLink domains ---- */

bool bb_health_is_same_domain(const struct bb_health *h, int a, int b)
{
    if (h->domain_of)
        return h->domain_of[a] == h->domain_of[b];
    return h->domain_nodes > 1 && a / h->domain_nodes == b / h->domain_nodes;
}

/* Returns whether there are several, among all nodes or those that have not failed. */
static bool has_several(const struct bb_health *h, bool all)
{
    int first = -1;

    for (int node = 0; node < h->nodes && (h->domain_of || h->domain_nodes > 1); node++) {
        if (!all && !bb_health_is_active(h, node))
            continue;
        if (first >= 0 && !bb_health_is_same_domain(h, first, node))
            return true;
        first = first < 0 ? node : first;
    }
    return false;
}

bool bb_health_has_domains(const struct bb_health *h)
{
    return has_several(h, false);
}

int bb_health_domain_nodes(const struct bb_health *h)
{
    int most = 0;

    for (int a = 0; a < h->nodes && (h->domain_of || h->domain_nodes > 1); a++) {
        int n = 0;

        for (int b = 0; b < h->nodes && bb_health_is_active(h, a); b++)
            n += bb_health_is_same_domain(h, a, b) && bb_health_is_active(h, b);
        most = MAX(most, n);
    }
    return most;
}

bool bb_health_is_inside(const struct bb_health *h, int a, int b)
{
    return bb_health_is_same_domain(h, a, b) && has_several(h, true);
}

/* ---- judging ---- */

struct bb_health_finding bb_health_finding_of(const struct bb_health *h, enum bb_health_test test,
                                              const struct bb_health_peers *p, double value)
{
    struct bb_health_finding f = bb_health_remark(test, bb_health_tests[test].part,
                                                  bb_health_judge_value(value, h->expected[test], p), -1, -1, -1);

    f.value = value;
    f.expected = h->expected[test];
    f.median = p->n > 1 ? p->median : NAN;
    f.of_faster = p->of_faster;
    f.tries = BB_HEALTH_TRIES;
    return f;
}

void bb_health_judge_by_peers(struct bb_health_finding *f, const struct bb_health_peers *p, enum bb_health_level common)
{
    const enum bb_health_level by_peers = bb_health_judge_value(f->value, common != BB_HEALTH_OK ? p->median : NAN, p);

    if (by_peers < f->level && f->level > common && (common == BB_HEALTH_OK || by_peers != BB_HEALTH_OK))
        return;
    f->expected = NAN;
    f->median = p->median;
    f->of_faster = p->of_faster;
    f->level = by_peers;
}

double bb_health_common_value(const double *values, size_t n, double expected, const struct bb_health_peers *p)
{
    const enum bb_health_level level = bb_health_judge_value(p->median, expected, p);
    double common = p->median;

    for (size_t i = 0; i < n && level != BB_HEALTH_OK; i++)
        if (bb_health_judge_value(values[i], p->median, p) == BB_HEALTH_OK && values[i] < common &&
            bb_health_judge_value(values[i], expected, p) > level)
            common = values[i];
    return common;
}

/* Returns a finding about a node, or a path, in place of findings about all its GPUs, or their NICs, in order; its gpu
 * is not -1 if they are different, so that they have no common cause. */
static struct bb_health_finding merge_node(const struct bb_health_finding *found, size_t n)
{
    struct bb_health_finding f = found[0];
    double *values;

    BB_NEW(values, n);
    for (size_t i = 0; i < n; i++) {
        values[i] = found[i].value;
        f.level = MAX(f.level, found[i].level);
        f.untested &= found[i].untested;
    }
    bb_sort_doubles(values, n);
    if (values[0] > BB_HEALTH_UNSTEADY * values[n - 1]) {
        f.part = f.part == BB_HEALTH_A_PATH ? f.part : BB_HEALTH_A_NODE;
        f.gpu = -1;
    }
    f.value = bb_health_middle(values, n);
    free(values);
    return f;
}

void bb_health_add_of_gpus(struct bb_health *h, const struct bb_health_finding *found, size_t n)
{
    for (size_t i = 0, end; i < n; i = end) {
        bool is_merged = false;

        for (end = i + 1; end < n && found[end].node == found[i].node;)
            end++;
        if (end - i > 1 && end - i == (size_t)h->gpus && h->nodes > 1) {
            const struct bb_health_finding node = merge_node(&found[i], end - i);

            is_merged = node.gpu < 0;
            if (is_merged)
                bb_health_add(h, &node);
        }
        for (size_t k = i; k < end && !is_merged; k++)
            bb_health_add(h, &found[k]);
    }
}

/* ---- causes ---- */

static double ratio_of(const struct bb_health_finding *f)
{
    const double reference = isnan(f->expected) ? f->median : f->expected;

    if (f->lost)
        return 0;
    return isfinite(f->value / reference) ? f->value / reference : 1;
}

/* Returns what part of its expectation a value of a finding is, or of what its peers reach, if that is less. */
static double part_left(const struct bb_health *h, const struct bb_health_finding *f)
{
    /* judged by peers, which may be slow, too, or by what uplinks leave to the path */
    const double part = isnan(f->expected) || f->part == BB_HEALTH_A_PATH ? f->value / h->expected[f->test] : NAN;

    return fmin(ratio_of(f), part);
}

/* Returns whether a finding about this test or an earlier one between nodes, on nodes that take part in it, can be the
 * cause of a value that is this part of its expectation: it is as slow, or slower. */
static bool can_cause(const struct bb_health *h, const struct bb_health_finding *f, enum bb_health_test test,
                      double part)
{
    const bool takes_part =
        !bb_health_is_of_node(f) || bb_health_is_active(h, f->node) || (f->test == test && !f->lost);

    return test >= BB_HEALTH_PAIRS && f->test >= BB_HEALTH_PAIRS && f->test <= test && takes_part &&
           BB_HEALTH_UNSTEADY * part_left(h, f) <= part;
}

bool bb_health_is_explained(struct bb_health *h, const struct bb_health_finding *f)
{
    for (size_t i = 0; i < h->n; i++) {
        struct bb_health_finding *e = &h->findings[i];
        enum bb_health_level level = e->level;

        if (e->test >= f->test || !(f->gpu < 0 || e->gpu == f->gpu || e->gpu < 0) ||
            !can_cause(h, e, f->test, part_left(h, f)))
            continue;
        if (e->slow == 0)
            level = MAX(level, bb_health_judge(part_left(h, e)));
        if (level < f->level && !e->slow_alone)
            continue;
        if (e->slow_alone)
            e->level = MAX(e->level, f->level);
        return true;
    }
    return false;
}

/* Returns how far the value of a finding is from `ratio`, both as parts of what is expected; of an untested NIC:
 * farther than others. */
static double distance_of(const struct bb_health *h, const struct bb_health_finding *f, double ratio)
{
    return isfinite(f->value) ? fabs(part_left(h, f) - ratio) + f->untested : INFINITY;
}

const struct bb_health_finding *bb_health_explaining(const struct bb_health *h, enum bb_health_test test, double ratio)
{
    const struct bb_health_finding *nearest = NULL;

    for (size_t i = 0; i < h->n; i++) {
        const struct bb_health_finding *f = &h->findings[i];

        if (f->level >= BB_HEALTH_WARN && can_cause(h, f, test, ratio) &&
            (!nearest || distance_of(h, f, ratio) < distance_of(h, nearest, ratio)))
            nearest = f;
    }
    return nearest;
}

static int compare_findings(const void *left, const void *right)
{
    const struct bb_health_finding *a = left, *b = right;

    if (a->level != b->level)
        return a->level > b->level ? -1 : 1;
    return ratio_of(a) < ratio_of(b) ? -1 : ratio_of(a) > ratio_of(b);
}

void bb_health_sort(struct bb_health *h)
{
    if (h->n > 1)
        qsort(h->findings, h->n, sizeof(*h->findings), compare_findings);
}
