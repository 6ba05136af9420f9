/* verdict.c - see verdict.h. */
#include "collectives/health/verdict.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/stats.h"
#include "bootstrap/base/units.h"
#include "collectives/health/at_once.h"
#include "collectives/p2p/pair_schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

const struct bb_health_test_row bb_health_tests[BB_HEALTH_TESTS] = {
    [BB_HEALTH_GEMM] = {"gpu", "GEMM", "TFLOP/s", BB_HEALTH_A_GPU},
    [BB_HEALTH_MEMORY] = {"gpu", "memory copy", "GB/s", BB_HEALTH_A_GPU},
    [BB_HEALTH_TO_GPU] = {"copies", "copy host to GPU", "GB/s", BB_HEALTH_A_GPU},
    [BB_HEALTH_FROM_GPU] = {"copies", "copy GPU to host", "GB/s", BB_HEALTH_A_GPU},
    [BB_HEALTH_PEERS] = {"copies", "copy GPU to GPU", "GB/s", BB_HEALTH_A_GPU},
    [BB_HEALTH_SLOWEST_PEER] = {"copies", "copy to its slowest peer", "GB/s", BB_HEALTH_A_GPU},
    [BB_HEALTH_NODE] = {"node", "all_reduce in the node", "GB/s", BB_HEALTH_A_NODE},
    [BB_HEALTH_PAIRS] = {"pairs", "all_reduce of GPU pairs", "GB/s", BB_HEALTH_A_NIC},
    [BB_HEALTH_BISECTION] = {"bisection", "all_reduce across halves", "GB/s", BB_HEALTH_FABRIC},
    [BB_HEALTH_RAILS_ALONE] = {"rails", "all_reduce, a rail alone", "GB/s", BB_HEALTH_A_RAIL},
    [BB_HEALTH_RAILS] = {"rails", "all_reduce, rails at once", "GB/s", BB_HEALTH_A_RAIL},
    [BB_HEALTH_WHOLE] = {"whole", "all_reduce of all GPUs", "GB/s", BB_HEALTH_ALL},
};
const enum bb_check_status bb_health_statuses[] = {[BB_HEALTH_OK] = BB_CHECK_OK,
                                                   [BB_HEALTH_UNKNOWN] = BB_CHECK_UNKNOWN,
                                                   [BB_HEALTH_WARN] = BB_CHECK_WARN,
                                                   [BB_HEALTH_FAIL] = BB_CHECK_FAIL};
const char *const bb_health_parts[] = {"gpu", "node", "nic", "path", "rail", "leaf", "fabric", "all", NULL};

/* ---- the rule ---- */

struct peers {
    double median, mad; /* MAD: median absolute deviation */
    size_t n;
    bool of_faster; /* the median is that of the faster ones */
};

static double median_of(const double *values, size_t n)
{
    struct bb_stats stats;

    bb_stats_compute(values, n, &stats);
    return stats.p50;
}

/* Returns the finite ones of the values in ascending order. */
static double *sort_finite(const double *values, size_t n, size_t *finite)
{
    double *sorted;

    BB_NEW(sorted, n);
    *finite = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(values[i]))
            sorted[(*finite)++] = values[i];
    bb_sort_doubles(sorted, *finite);
    return sorted;
}

static struct peers peers_of(const double *values, size_t n)
{
    struct peers p = {.of_faster = false};
    double *finite = sort_finite(values, n, &p.n);

    p.median = median_of(finite, p.n);
    for (size_t i = 0; i < p.n; i++)
        finite[i] = fabs(finite[i] - p.median);
    p.mad = median_of(finite, p.n);
    free(finite);
    return p;
}

double bb_health_median(const double *values, size_t n)
{
    return peers_of(values, n).median;
}

enum { SCORED_PEERS = 10 };

/* Returns the peers of values. If half of these or more are slow, which a wide gap shows, the peers are the faster values; the
 * mean of a slow and a fast half was measured nowhere. Slow values of more than half are as expected if the median is, and
 * fewer than a quarter above the gap are fast parts instead. expected: NaN: unknown */
static struct peers reference_peers(const double *values, size_t n, double expected)
{
    size_t finite, slow = 0;
    double *sorted = sort_finite(values, n, &finite);
    double widest = finite >= SCORED_PEERS ? BB_HEALTH_OUTLIER : BB_HEALTH_WARNS;
    const bool is_expected = median_of(sorted, finite) >= BB_HEALTH_WARNS * expected;
    struct peers p;

    for (size_t i = finite; i > 1; i--)
        if (sorted[i - 2] < widest * sorted[i - 1]) {
            widest = sorted[i - 2] / sorted[i - 1];
            slow = i - 1;
        }
    if (4 * (finite - slow) < finite || 2 * slow < finite || (2 * slow > finite && is_expected))
        slow = 0;
    p = peers_of(sorted + slow, finite - slow);
    p.n = finite;
    p.of_faster = slow > 0;
    free(sorted);
    return p;
}

#define UNSTEADY      BB_HEALTH_WARNS
#define OUTLIER_SCORE 3.5
#define SCORE_OF_MAD  0.6745

/* Returns a value, or the median of its peers if that is as expected and the value is below it by no more than noise: 3 %, of at
 * least ten peers also no more than an outlier. Else noise makes peers slow whose median is just above the limit. */
static double without_noise(double value, double expected, const struct peers *p)
{
    const double most = (1 - BB_HEALTH_OUTLIER) * p->median,
                 noise = p->n < SCORED_PEERS ? most : fmin(most, OUTLIER_SCORE / SCORE_OF_MAD * p->mad);
    const bool is_expected = p->n >= BB_HEALTH_REFERENCE_PEERS && p->median >= BB_HEALTH_WARNS * expected;

    return is_expected && value >= p->median - noise ? fmax(value, p->median) : value;
}

static enum bb_health_level judge(double value, double expected, const struct peers *p)
{
    const double score = SCORE_OF_MAD * (value - p->median) / fmax(p->mad, 0.005 * p->median);
    const bool is_outlier = p->n >= SCORED_PEERS && score < -OUTLIER_SCORE;

    if (isnan(value))
        return BB_HEALTH_OK;
    if (isnan(expected) && p->n >= BB_HEALTH_REFERENCE_PEERS)
        expected = p->median;
    value = without_noise(value, expected, p);
    if (value < BB_HEALTH_FAILS * expected || (is_outlier && value < BB_HEALTH_OUTLIER * p->median))
        return BB_HEALTH_FAIL;
    return value < BB_HEALTH_WARNS * expected || is_outlier ? BB_HEALTH_WARN : BB_HEALTH_OK;
}

enum bb_health_level bb_health_judge(double ratio)
{
    return judge(ratio, 1, &(struct peers){0});
}

bool bb_health_exceeds(enum bb_health_test test, double ratio)
{
    /* the best GEMM shapes of A100, H100 and B200 reach 1.21 to 1.38 of the profiles' rates (MAMF, stas00/ml-engineering) */
    return isfinite(ratio) && ratio > (bb_health_tests[test].part == BB_HEALTH_A_GPU ? 1.5 : 1.15);
}

const char *bb_health_percent(double part, char text[BB_HEALTH_PERCENT_TEXT])
{
    static const double limits[] = {BB_HEALTH_FAILS, BB_HEALTH_WARNS, BB_HEALTH_OUTLIER};

    int decimals = 0;

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (fabs(part - limits[i]) < 0.01)
            decimals = bb_decimals_beside(-100 * part, -100 * limits[i], 1); /* below a limit: the negative is above */
    snprintf(text, BB_HEALTH_PERCENT_TEXT, "%.*f %%", decimals, 100 * part);
    return text;
}

/* ---- findings ---- */

static bool is_of_node(const struct bb_health_finding *f)
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

enum bb_health_level bb_health_node_level(const struct bb_health *h, int node)
{
    enum bb_health_level level = BB_HEALTH_OK;

    for (size_t i = 0; i < h->n; i++) {
        const struct bb_health_finding *f = &h->findings[i];

        if (is_of_node(f) && f->node == node)
            level = MAX(level, f->level);
        else if (f->part == BB_HEALTH_ALL &&
                 (f->test < BB_HEALTH_WHOLE || (f->test == BB_HEALTH_WHOLE && h->skip[BB_HEALTH_PAIRS])))
            level = MAX(level, f->level == BB_HEALTH_FAIL ? BB_HEALTH_UNKNOWN : f->level);
    }
    return level;
}

bool bb_health_is_node_size(int gpus)
{
    return gpus > 0 && (gpus & (gpus - 1)) == 0;
}

/* Returns whether a node takes part in this stage: it has not failed in another one. */
static bool is_active(const struct bb_health *h, int node)
{
    for (size_t i = 0; i < h->n; i++) {
        const struct bb_health_finding *f = &h->findings[i];
        const bool is_now =
            h->stage && !f->lost && f->test < BB_HEALTH_TESTS && strcmp(bb_health_tests[f->test].stage, h->stage) == 0;

        if (is_of_node(f) && f->node == node && f->level == BB_HEALTH_FAIL && !is_now &&
            (h->nodes > 1 || f->test < BB_HEALTH_TESTS))
            return false;
    }
    return true;
}

int bb_health_active(const struct bb_health *h)
{
    int n = 0;

    for (int node = 0; node < h->nodes; node++)
        n += is_active(h, node);
    return n;
}

/* ---- NVLink domains ---- */

static bool is_same_domain(const struct bb_health *h, int a, int b)
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
        if (!all && !is_active(h, node))
            continue;
        if (first >= 0 && !is_same_domain(h, first, node))
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

        for (int b = 0; b < h->nodes && is_active(h, a); b++)
            n += is_same_domain(h, a, b) && is_active(h, b);
        most = MAX(most, n);
    }
    return most;
}

bool bb_health_is_inside(const struct bb_health *h, int a, int b)
{
    return is_same_domain(h, a, b) && has_several(h, true);
}

static double ratio_of(const struct bb_health_finding *f)
{
    const double reference = isnan(f->expected) ? f->median : f->expected;

    if (f->lost)
        return 0;
    return isfinite(f->value / reference) ? f->value / reference : 1;
}

static int compare_findings(const void *left, const void *right)
{
    const struct bb_health_finding *a = left, *b = right;

    if (a->level != b->level)
        return a->level > b->level ? -1 : 1;
    return ratio_of(a) < ratio_of(b) ? -1 : ratio_of(a) > ratio_of(b);
}

/* ALONE_MAX: number of nodes, and of paths, that are measured again alone, because each takes measurements of its own */
enum { TRIES = 3, ALONE_MAX = 16 };

/* Returns a finding about a value, which applies to no node and GPU. */
static struct bb_health_finding finding_of(const struct bb_health *h, enum bb_health_test test, const struct peers *p,
                                           double value)
{
    struct bb_health_finding f =
        bb_health_remark(test, bb_health_tests[test].part, judge(value, h->expected[test], p), -1, -1, -1);

    f.value = value;
    f.expected = h->expected[test];
    f.median = p->n > 1 ? p->median : NAN;
    f.of_faster = p->of_faster;
    f.tries = TRIES;
    return f;
}

/* Judges the value of a finding by its peers, too, and only by them if their typical value is slow: `common` is the level of the
 * finding about that, which explains a value that is as low as those of the peers, or has no worse level. */
static void judge_by_peers(struct bb_health_finding *f, const struct peers *p, enum bb_health_level common)
{
    const enum bb_health_level by_peers = judge(f->value, common != BB_HEALTH_OK ? p->median : NAN, p);

    if (by_peers < f->level && f->level > common && (common == BB_HEALTH_OK || by_peers != BB_HEALTH_OK))
        return;
    f->expected = NAN;
    f->median = p->median;
    f->of_faster = p->of_faster;
    f->level = by_peers;
}

/* Returns what a common cause leaves to values: the typical one, or, if that is slow, the lowest of those near it with a worse level,
 * as a finding has the level of the worst value that it explains. */
static double common_value(const double *values, size_t n, double expected, const struct peers *p)
{
    const enum bb_health_level level = judge(p->median, expected, p);
    double common = p->median;

    for (size_t i = 0; i < n && level != BB_HEALTH_OK; i++)
        if (judge(values[i], p->median, p) == BB_HEALTH_OK && values[i] < common &&
            judge(values[i], expected, p) > level)
            common = values[i];
    return common;
}

/* Returns a finding about a node, or a path, in place of findings about all its GPUs, or their NICs, in order; its gpu is not -1 if
 * they are different, so that they have no common cause. */
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
    if (values[0] > UNSTEADY * values[n - 1]) {
        f.part = f.part == BB_HEALTH_A_PATH ? f.part : BB_HEALTH_A_NODE;
        f.gpu = -1;
    }
    f.value = median_of(values, n);
    free(values);
    return f;
}

/* Adds findings about GPUs, or their NICs, in the order of the nodes. All GPUs of a node, if there are several nodes, are one
 * finding about the node, or about the path of the only two nodes. */
static void add_of_gpus(struct bb_health *h, const struct bb_health_finding *found, size_t n)
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

/* ---- tests whose values are judged one by one: GPUs, nodes, rails, the whole job ---- */

/* One test with its measurements. A unit is what the test judges: a GPU, a node, a rail or the whole job. */
struct series {
    struct bb_health *h;
    enum bb_health_test test;
    enum bb_health_part part;
    size_t units, stride; /* the value of unit u is values[u * stride] */
    double *values[TRIES];
    int tries; /* number of measurements */
    struct peers peers;
    bool has_reference;          /* GPUs are judged by their peers, too, */
    enum bb_health_level common; /* and all units only by them, if the typical one is slow */
};

static size_t count_values(const struct bb_health *h)
{
    return (size_t)h->nodes * (size_t)h->gpus;
}

/* Makes a measurement with all nodes that have not failed, and moves the units' values to the front. */
static int measure_units(struct series *s)
{
    struct bb_health *h = s->h;
    double *values;
    int *partner, rc;

    BB_NEW(values, count_values(h));
    BB_NEW(partner, h->nodes);
    for (int n = 0; n < h->nodes; n++)
        partner[n] = is_active(h, n) ? 0 : -1;
    s->values[s->tries++] = values;
    h->attempt = s->tries;
    rc = h->measure(h->arg, s->test, partner, values);
    for (size_t u = 0; rc == 0 && u < s->units; u++) {
        size_t at = u * s->stride;

        /* a rail, or the whole job, has its value on the first node that takes part */
        while (s->part > BB_HEALTH_A_NIC && isnan(values[at]) && at + (size_t)h->gpus < count_values(h))
            at += (size_t)h->gpus;
        values[u] = values[at];
    }
    free(partner);
    return rc;
}

/* Changes a finding without verdict, if one of the values is below the limit of a warning. Noise around the median is not. */
static void find_unsteady(const struct series *s, const double values[TRIES], struct bb_health_finding *f)
{
    const double reference = isfinite(f->expected)                     ? f->expected
                             : s->peers.n >= BB_HEALTH_REFERENCE_PEERS ? s->peers.median
                                                                       : NAN;
    double lowest = INFINITY;

    for (int i = 0; i < TRIES; i++)
        lowest = fmin(lowest, values[i]);
    if (!(without_noise(lowest, reference, &s->peers) < UNSTEADY * reference))
        return;
    f->level = BB_HEALTH_WARN;
    f->value = lowest;
    f->slow = 1;
}

/* Returns the middle one of the values of a unit. values: out */
static double middle_of(const struct series *s, size_t unit, double values[TRIES])
{
    for (int i = 0; i < s->tries; i++)
        values[i] = s->values[i][unit];
    return median_of(values, (size_t)s->tries);
}

/* Returns a finding with the middle one of the verdicts on a unit. */
static struct bb_health_finding judge_unit(const struct series *s, size_t unit)
{
    const int at = (int)(unit * s->stride);
    double values[TRIES];
    struct bb_health_finding f = finding_of(s->h, s->test, &s->peers, middle_of(s, unit, values));

    if (s->has_reference || s->common != BB_HEALTH_OK)
        judge_by_peers(&f, &s->peers, s->common);
    if (f.level == BB_HEALTH_OK && s->tries == TRIES)
        find_unsteady(s, values, &f);
    if (is_of_node(&f))
        f.node = at / s->h->gpus;
    if (s->part == BB_HEALTH_A_GPU || s->part == BB_HEALTH_A_RAIL)
        f.gpu = at % s->h->gpus;
    return f;
}

/* Returns what part of its expectation a value of a finding is, or of what its peers reach, if that is less. */
static double part_left(const struct bb_health *h, const struct bb_health_finding *f)
{
    const double part =
        isnan(f->expected) ? f->value / h->expected[f->test] : NAN; /* judged by peers, which may be slow, too */

    return fmin(ratio_of(f), part);
}

/* Returns whether a finding about this test or an earlier one between nodes, on nodes that take part in it, can be the cause of a
 * value that is this part of its expectation: it is as slow, or slower. */
static bool can_cause(const struct bb_health *h, const struct bb_health_finding *f, enum bb_health_test test,
                      double part)
{
    const bool takes_part = !is_of_node(f) || is_active(h, f->node) || (f->test == test && !f->lost);

    return test >= BB_HEALTH_PAIRS && f->test >= BB_HEALTH_PAIRS && f->test <= test && takes_part &&
           UNSTEADY * part_left(h, f) <= part;
}

/* Returns whether an earlier finding between nodes explains a slow bisection, rail or job: it has no better level, with what it
 * shares with all its peers. A part that is slow only for some time, which was a warning, gets the level of what it slows down. */
static bool is_explained(struct bb_health *h, const struct bb_health_finding *f)
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

/* Returns how far the value of a finding is from `ratio`, both as parts of what is expected; of an untested NIC: farther than others. */
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

/* Returns the only node that has not failed; -1: there are several, or none. */
static int only_node(const struct bb_health *h)
{
    for (int node = 0; node < h->nodes && bb_health_active(h) == 1; node++)
        if (is_active(h, node))
            return node;
    return -1;
}

/* Returns the finding about all units. */
static struct bb_health_finding find_common(const struct series *s)
{
    struct bb_health_finding f;
    double *middle, values[TRIES];
    bool are_all_slow = true;

    BB_NEW(middle, s->units);
    for (size_t u = 0; u < s->units; u++) {
        middle[u] = middle_of(s, u, values);
        are_all_slow &= isnan(middle[u]) || finding_of(s->h, s->test, &s->peers, middle[u]).level != BB_HEALTH_OK;
    }
    f = finding_of(s->h, s->test, &s->peers, common_value(middle, s->units, s->h->expected[s->test], &s->peers));
    free(middle);
    f.node = s->part == BB_HEALTH_A_GPU ? only_node(s->h) : -1;
    f.part = f.node < 0 ? BB_HEALTH_ALL : BB_HEALTH_A_NODE;
    f.whole = are_all_slow;
    return f;
}

/* Adds the findings of a test with suspects. If the typical unit is slow, one finding is about all of them: the cause is
 * common, or the expectation is wrong. Of GPUs, all of them may be one node. */
static void add_units(const struct series *s)
{
    struct bb_health_finding *found;
    size_t n = 0;

    BB_NEW(found, s->units + 1);
    for (size_t u = 0; u < s->units; u++) {
        found[n] = judge_unit(s, u);
        n += found[n].level != BB_HEALTH_OK;
    }
    if (s->part == BB_HEALTH_A_GPU) {
        add_of_gpus(s->h, found, n);
        n = 0;
    }
    if (s->common != BB_HEALTH_OK)
        found[n++] = find_common(s);
    for (size_t i = 0; i < n; i++)
        if (!is_explained(s->h, &found[i]))
            bb_health_add(s->h, &found[i]);
    free(found);
}

/* Sets what the units have reached. */
static void keep_reached(const struct series *s)
{
    struct bb_health_reached *reached = &s->h->reached[s->test];
    double values[TRIES];

    free(reached->values);
    BB_NEW(reached->values, s->units);
    for (size_t u = 0; u < s->units; u++)
        reached->values[u] = middle_of(s, u, values);
    reached->nodes = bb_health_active(s->h);
}

static int test_units(struct bb_health *h, enum bb_health_test test)
{
    const enum bb_health_part part = bb_health_tests[test].part;
    struct series s = {.h = h, .test = test, .part = part, .units = 1, .stride = 1};
    bool suspect;
    int rc;

    s.units = part == BB_HEALTH_A_GPU    ? count_values(h)
              : part == BB_HEALTH_A_NODE ? (size_t)h->nodes
              : part == BB_HEALTH_A_RAIL ? (size_t)h->gpus
                                         : 1;
    s.stride = part == BB_HEALTH_A_NODE ? (size_t)h->gpus : 1;
    TRY(measure_units(&s));
    s.peers = reference_peers(s.values[0], s.units, h->expected[test]);
    h->median[test] = s.peers.median;
    h->of_faster[test] = s.peers.of_faster;
    h->lowest[test] = NAN;
    for (size_t u = 0; u < s.units; u++)
        if (!(s.values[0][u] >= h->lowest[test]) && isfinite(s.values[0][u])) {
            h->lowest[test] = s.values[0][u];
            h->lowest_gpu[test] = (int)u;
        }
    s.has_reference = part == BB_HEALTH_A_GPU && s.peers.n >= BB_HEALTH_REFERENCE_PEERS;
    if (s.has_reference || (part != BB_HEALTH_A_GPU && s.peers.n > 1))
        s.common = finding_of(h, test, &s.peers, s.peers.median).level;
    suspect = s.common != BB_HEALTH_OK;
    for (size_t u = 0; u < s.units; u++)
        suspect |= judge_unit(&s, u).level != BB_HEALTH_OK;
    while (suspect && s.tries < TRIES)
        TRY(measure_units(&s));
    keep_reached(&s);
    if (suspect)
        add_units(&s);
out:
    for (int i = 0; i < s.tries; i++)
        free(s.values[i]);
    return rc;
}

/* ---- pairs of nodes ---- */

/* The NICs with the same GPU index. */
struct rail {
    struct peers peers;          /* their best values */
    double value;                /* what a common cause leaves to them */
    enum bb_health_level common; /* its level; OK: the rail is not slow */
    bool is_whole;               /* all are slow */
    bool at_once;                /* the rail is slow only while all pairs run at once */
};

/* The measurements of pairs. */
struct pairs {
    struct bb_health *h;
    int *node, n;     /* [n] the nodes that take part */
    int *order;       /* [n] the same, in the order of the circle method */
    int rounds, kept; /* kept: with the measurements of suspects that follow the rounds */
    int *partner;     /* [kept][nodes] */
    /* [kept][nodes * gpus] values / the share of its rate that a pair gets while the others run; those of pairs in one of
     * several NVLink domains as if NICs had connected them */
    double *values;
    double *best;      /* [nodes * gpus] best value of each GPU, likewise; NaN: none */
    double *weight;    /* [nodes] of the values in best: the share / that of the pair alone; 0: none, or in a domain */
    bool *untested;    /* [nodes * gpus] after all measurements: the NIC had no fast partner over a fast path */
    bool *excused;     /* [nodes * gpus] slow paths, and slow NICs of the partners, explain the low values of the NIC */
    int *again;        /* [nodes] partners of another measurement */
    double *retried;   /* [nodes * gpus] values of that measurement */
    struct peers all;  /* of all values: against them all parts are judged, so that a slow NIC is not three paths */
    struct rail *rail; /* [gpus] */
    bool is_shared;    /* a slow pair was fast alone */
    bool most_slow;    /* most pairs are slow while all run */
    bool has_domains;  /* several NVLink domains take part */
    double between;    /* median of the pairs that NICs connect; NaN: none, or not measured yet */
    struct bb_at_once leaf; /* whose uplinks are slow */
};

/* With at most this number of nodes, every pair is measured, unless few are wanted; then also if most nodes are suspects: a
 * good node may have had only bad partners. */
enum { EVERY_PAIR_NODES = 16 };

int bb_health_all_rounds(int n)
{
    return bb_pair_schedule_rounds(&(struct bb_pair_schedule){.ranks = n});
}

int bb_health_rounds(const struct bb_health *h, enum bb_health_test test)
{
    const int active = bb_health_active(h);
    int n = 1;

    if (test != BB_HEALTH_PAIRS)
        return test == BB_HEALTH_BISECTION ? BB_HEALTH_CUTS : 1;
    while (1 << (n - 1) < active)
        n++;
    n = h->rounds > 0 ? h->rounds : h->every_pair && active <= EVERY_PAIR_NODES ? active : n;
    return MIN(n, bb_health_all_rounds(active));
}

static bool is_inside(const struct pairs *p, int a, int b)
{
    return p->has_domains && is_same_domain(p->h, a, b);
}

/* Returns the share of its rate that a node gets from the uplinks of its leaf or pod, alone or while the others run. */
static double share_of_group(const struct pairs *p, const int *partner, int node, const struct bb_health_tier *tier,
                             bool alone)
{
    const int size = tier->nodes, group = node / size;
    int leaving = 0;

    for (int n = group * size; n < MIN((group + 1) * size, p->h->nodes) && !alone; n++)
        leaving += partner[n] >= 0 && partner[n] / size != group && !is_inside(p, n, partner[n]);
    return fmin(1, size / (MAX(1, leaving) * tier->oversubscription));
}

/* Returns the share of its rate that a pair gets from oversubscribed leaves and pods, alone or while the others run. Pairs in an
 * NVLink domain do not use uplinks. */
static double share_of(const struct pairs *p, const int *partner, int node, bool alone)
{
    const struct bb_health *h = p->h;
    double share = 1;

    for (size_t i = 0; i < sizeof h->tiers / sizeof *h->tiers && !is_inside(p, node, partner[node]); i++) {
        const struct bb_health_tier *tier = &h->tiers[i];

        if (tier->nodes > 0 && node / tier->nodes != partner[node] / tier->nodes)
            share = fmin(share, fmin(share_of_group(p, partner, node, tier, alone),
                                     share_of_group(p, partner, partner[node], tier, alone)));
    }
    return share;
}

double bb_health_uplink_share(struct bb_health *h, const int *partner, int node)
{
    return share_of(&(struct pairs){.h = h, .has_domains = bb_health_has_domains(h)}, partner, node, false);
}

/* Returns what is expected of a pair in an NVLink domain / of one that NICs connect, or, if that is not known, their median. */
static double nvlink_factor(const struct pairs *p)
{
    const double expected = p->h->expected[BB_HEALTH_PAIRS];

    return p->h->inside / (isnan(expected) ? p->between : expected);
}

/* Gives a finding about a pair in an NVLink domain its own values, in place of those that NICs would reach. */
static void restore_values(const struct pairs *p, bool inside, struct bb_health_finding *f)
{
    const double factor = inside ? nvlink_factor(p) : 1;

    f->value *= factor;
    f->expected *= factor;
    f->median *= factor;
}

/* Scales the values of pairs of nodes to a pair alone, and updates the best value of each GPU. A loaded uplink hides a slow
 * NIC, and NVLink does without it: only the measurements with the least load on the uplinks count. shares: [nodes * gpus] or NULL: out */
static void take_values(struct pairs *p, const int *partner, double *values, double *shares)
{
    const int gpus = p->h->gpus;

    for (int n = 0; n < p->h->nodes; n++) {
        const bool inside = partner[n] >= 0 && is_inside(p, n, partner[n]);
        const double share = partner[n] < 0 ? NAN : share_of(p, partner, n, false);
        const double weight = partner[n] < 0 ? NAN : inside ? 0 : share / share_of(p, partner, n, true);

        for (int at = n * gpus; at < (n + 1) * gpus; at++) {
            values[at] /= inside ? nvlink_factor(p) : 1;
            if (!isnan(values[at])) /* fmin and fmax ignore NaN: an unmeasured value would become the expectation */
                values[at] = fmax(values[at], fmin(values[at] / share, p->h->expected[BB_HEALTH_PAIRS]));
            if (shares)
                shares[at] = inside ? NAN : share;
            if (weight >= p->weight[n])
                p->best[at] = weight > p->weight[n] ? values[at] : fmax(p->best[at], values[at]);
        }
        p->weight[n] = fmax(p->weight[n], weight);
    }
}

/* Measures pairs again; attempt: above 1 */
static int measure_pairs(struct pairs *p, int attempt)
{
    int rc;

    p->h->attempt = attempt;
    rc = p->h->measure(p->h->arg, BB_HEALTH_PAIRS, p->again, p->retried);
    take_values(p, p->again, p->retried, NULL);
    return rc;
}

/* Keeps the measurement of suspects, whose pairs may be new ones. */
static void keep_retried(struct pairs *p)
{
    const size_t nodes = (size_t)p->h->nodes, size = count_values(p->h);

    memcpy(p->partner + (size_t)p->kept * nodes, p->again, nodes * sizeof *p->again);
    memcpy(p->values + (size_t)p->kept++ * size, p->retried, size * sizeof *p->retried);
}

/* Measures one pair of nodes, and nothing else at the same time. */
static int measure_alone(struct pairs *p, int a, int b, int attempt)
{
    for (int n = 0; n < p->h->nodes; n++)
        p->again[n] = n == a ? b : n == b ? a : -1;
    return measure_pairs(p, attempt);
}

/* Orders the nodes so that round 0 of the circle method pairs neighbours of a leaf, and round 1 the other neighbours: both
 * rounds together are a ring, with the last player at its end, which stands for the idle node of an odd number. Nodes whose
 * neighbours are in other leaves are at the end of the ring, too. */
static void order_nodes(struct pairs *p)
{
    const int leaf = p->h->tiers[0].nodes > 1 ? p->h->tiers[0].nodes : p->h->nodes;
    const int last = bb_health_all_rounds(p->n); /* the last player; odd */

    for (int i = 0, next = 0, left = p->n; i < p->n; i++) {
        const bool is_pair = next % 2 == 1 || (i + 1 < p->n && p->node[i] / leaf == p->node[i + 1] / leaf);
        const int place = last - (is_pair ? next++ : --left); /* before the last player in the ring 0 1 -1 2 -2 .. */

        p->order[place == 0 ? last : place % 2 == 0 ? place / 2 : (last - place / 2) % last] = p->node[i];
    }
}

/* Sets the partners of a round of the circle method, so that no pair is measured twice. The first round pairs neighbours of a
 * leaf, which are fast with each other if what is slow is not their NICs, but the uplinks of their leaf, and the last one the
 * other neighbours, so that all paths of a ring over the nodes (of an odd number: all but one) are measured. The rounds between
 * them are distant from these and from each other, so that nodes of a leaf have few partners in it. */
static void choose_partners(const struct pairs *p, int round, int *partner)
{
    const struct bb_pair_schedule schedule = {.ranks = p->n};
    const int between = bb_health_all_rounds(p->n) - 2, at = 2 * round - 1;

    if (round > 0)
        round = round == p->rounds - 1 ? 1 : 2 + at * between / (2 * (p->rounds - 2));
    for (int n = 0; n < p->h->nodes; n++)
        partner[n] = -1;
    for (int i = 0; i < p->n; i++) {
        const int other = bb_pair_schedule_partner(&schedule, round, i);

        partner[p->order[i]] = other < 0 ? -1 : p->order[other];
    }
}

/* Sets the lowest and the highest share of pairs. shares: [n], NaN: not measured */
static void set_shares(struct bb_health *h, enum bb_health_test test, const double *shares, size_t n)
{
    double *range = h->shares[test];

    range[0] = range[1] = NAN;
    for (size_t i = 0; i < n; i++) {
        range[0] = fmin(range[0], shares[i]);
        range[1] = fmax(range[1], shares[i]);
    }
}

/* Sets the medians and the lowest value of all rounds. measured, shares: [rounds][nodes * gpus]; NaN share: a pair in one of several domains */
static void set_medians(struct pairs *p, double *measured, const double *shares)
{
    const size_t n = count_values(p->h) * (size_t)p->rounds;
    double *inside;
    bool no_nics; /* they connected no pair */
    struct bb_health *h = p->h;

    BB_NEW(inside, n);
    for (size_t i = 0; i < n; i++) {
        inside[i] = isnan(shares[i]) ? measured[i] : NAN;
        measured[i] = isnan(shares[i]) ? NAN : measured[i];
    }
    h->inside_median = bb_health_median(inside, n);
    h->median[BB_HEALTH_PAIRS] = bb_health_median(measured, n);
    h->share[BB_HEALTH_PAIRS] = bb_health_median(shares, n);
    no_nics = isnan(h->median[BB_HEALTH_PAIRS]);
    if (no_nics) {
        h->median[BB_HEALTH_PAIRS] = bb_health_median(p->values, n);
        h->share[BB_HEALTH_PAIRS] = 1;
    }
    h->lowest[BB_HEALTH_PAIRS] = NAN;
    for (size_t i = 0; i < n; i++) /* fmin ignores NaN */
        h->lowest[BB_HEALTH_PAIRS] = fmin(h->lowest[BB_HEALTH_PAIRS], no_nics ? p->values[i] : measured[i]);
    set_shares(h, BB_HEALTH_PAIRS, shares, n);
    free(inside);
}

/* Returns the median of the pairs that NICs connect, alone. measured: [rounds][nodes * gpus] */
static double median_between(const struct pairs *p, const double *measured)
{
    const size_t size = count_values(p->h), n = size * (size_t)p->rounds;
    double *values, median;

    BB_NEW(values, n);
    for (size_t i = 0; i < n; i++) {
        const int *partner = p->partner + i / size * (size_t)p->h->nodes, a = (int)(i % size) / p->h->gpus;
        const bool is_between = partner[a] >= 0 && !is_inside(p, a, partner[a]);

        values[i] = is_between ? measured[i] / share_of(p, partner, a, false) : NAN;
    }
    median = bb_health_median(values, n);
    free(values);
    return median;
}

static int measure_rounds(struct pairs *p)
{
    const size_t size = count_values(p->h), n = size * (size_t)p->rounds;
    double *shares, *measured;
    int rc = 0;

    BB_NEW(shares, n);
    BB_NEW(measured, n);
    p->h->attempt = 1;
    for (int k = 0; k < p->rounds; k++) {
        int *partner = p->partner + (size_t)k * (size_t)p->h->nodes;

        choose_partners(p, k, partner);
        TRY(p->h->measure(p->h->arg, BB_HEALTH_PAIRS, partner, measured + (size_t)k * size));
    }
    p->between = median_between(p, measured);
    memcpy(p->values, measured, n * sizeof *measured);
    for (int k = 0; k < p->rounds; k++)
        take_values(p, p->partner + (size_t)k * (size_t)p->h->nodes, p->values + (size_t)k * size,
                    shares + (size_t)k * size);
    p->all = reference_peers(p->values, n, p->h->expected[BB_HEALTH_PAIRS]);
    set_medians(p, measured, shares);
out:
    free(measured);
    free(shares);
    return rc;
}

static struct bb_health_finding of_pairs(const struct pairs *p, enum bb_health_part part, int node, int gpu,
                                         double value)
{
    struct bb_health_finding f = finding_of(p->h, BB_HEALTH_PAIRS, &p->all, value);

    f.part = part;
    f.node = node;
    f.gpu = gpu;
    f.tries = p->rounds;
    return f;
}

/* Returns a finding about a NIC: of a slow rail, it is judged by the others. */
static struct bb_health_finding judge_nic(const struct pairs *p, int node, int gpu)
{
    struct bb_health_finding f = of_pairs(p, BB_HEALTH_A_NIC, node, gpu, p->best[node * p->h->gpus + gpu]);

    if (p->rail[gpu].common != BB_HEALTH_OK)
        judge_by_peers(&f, &p->rail[gpu].peers, p->rail[gpu].common);
    if (p->excused[node * p->h->gpus + gpu])
        f.level = BB_HEALTH_OK;
    return f;
}

static enum bb_health_level level_of(const struct pairs *p, int node, int gpu)
{
    return judge_nic(p, node, gpu).level;
}

static bool is_suspect(const struct pairs *p, int node)
{
    for (int g = 0; g < p->h->gpus; g++)
        if (level_of(p, node, g) != BB_HEALTH_OK)
            return true;
    return false;
}

/* Returns whether what connects a pair is what the best values of a node are from: NICs, or NVLink. */
static bool is_of_best(const struct pairs *p, int node, int other)
{
    return is_inside(p, node, other) == (p->weight[node] == 0);
}

/* Returns a node that is no suspect and has no partner yet, a different one for each try; -1: there is none. */
static int find_partner(const struct pairs *p, int i, int try)
{
    for (int k = 0; k < p->n; k++) {
        const int other = p->node[(i + k * (k + 1) / 2 + 7 * try) % p->n];

        if (p->again[other] < 0 && !is_suspect(p, other) && is_of_best(p, p->node[i], other))
            return other;
    }
    return -1;
}

/* Measures each suspect with a node that is no suspect, a different one in each try. Suspects without one are left out. */
static int retry_suspects(struct pairs *p)
{
    int rc = 0;

    for (int try = 1; try < TRIES && rc == 0; try++) {
        bool found = false;

        for (int n = 0; n < p->h->nodes; n++)
            p->again[n] = -1;
        for (int i = 0; i < p->n; i++) {
            const int node = p->node[i], other = is_suspect(p, node) ? find_partner(p, i, try) : -1;

            if (other < 0)
                continue;
            p->again[other] = node;
            p->again[node] = other;
            found = true;
        }
        if (!found)
            return 0;
        rc = measure_pairs(p, try + 1);
        keep_retried(p);
    }
    return rc;
}

/* Measures the suspects that are left again, one after another: several that are slow at once may share a slow link. */
static int retry_alone(struct pairs *p)
{
    int rc = 0, n = 0;

    for (int i = 0; i < p->n; i++)
        n += is_suspect(p, p->node[i]);
    for (int i = 0; i < p->n && n > 1 && n <= ALONE_MAX && rc == 0; i++) {
        const int node = p->node[i];
        int other;

        if (!is_suspect(p, node))
            continue;
        for (int k = 0; k < p->h->nodes; k++)
            p->again[k] = -1;
        other = find_partner(p, i, 0);
        if (other < 0)
            continue;
        rc = measure_alone(p, node, other, TRIES + 1);
        keep_retried(p);
        p->is_shared |= !is_suspect(p, node);
    }
    return rc;
}

/* Returns whether the path of a pair explains the value of a GPU: at least half of the other GPUs are as slow on it, although
 * their NICs are fast with other nodes. values: of the measurement of the pair */
static bool is_of_path(const struct pairs *p, int a, int b, int gpu, const double *values)
{
    const double expected = p->h->expected[BB_HEALTH_PAIRS];
    const int gpus = p->h->gpus;
    int n = 0;

    for (int g = 0; g < gpus; g++) {
        const double best = fmin(p->best[a * gpus + g], p->best[b * gpus + g]), value = values[a * gpus + g];

        n += g != gpu && judge(best, expected, &p->all) == BB_HEALTH_OK && value < UNSTEADY * best &&
             values[a * gpus + gpu] >= UNSTEADY * value;
    }
    return n > 0 && 2 * n >= gpus - 1;
}

/* Returns whether slow paths and slow NICs explain a slow rail. Without the pairs that the path explains, and the NICs that
 * are slower than the rail, all pairs have a node in common, whose NIC is slow: the NICs of other nodes are excused. */
static bool excuse_rail(struct pairs *p, int gpu, const struct rail *rail)
{
    const int nodes = p->h->nodes, gpus = p->h->gpus;
    const double limit = UNSTEADY * rail->peers.median;
    int *count, pairs = 0;
    bool is_path = false, has_common;

    BB_NEW(count, nodes);
    for (int i = 0; i < p->rounds * nodes; i++) {
        const int a = i % nodes, b = p->partner[i];

        if (b < a || p->best[a * gpus + gpu] < limit || p->best[b * gpus + gpu] < limit)
            continue;
        if (is_of_path(p, a, b, gpu, p->values + (size_t)(i / nodes) * count_values(p->h))) {
            is_path = true;
            continue;
        }
        pairs++;
        count[a]++;
        count[b]++;
    }
    has_common = pairs == 0;
    for (int a = 0; a < nodes; a++)
        has_common |= count[a] == pairs;
    for (int a = 0; a < nodes && is_path && has_common; a++)
        p->excused[a * gpus + gpu] = p->best[a * gpus + gpu] >= limit && (pairs == 0 || count[a] < pairs);
    free(count);
    return is_path && has_common;
}

/* Judges the typical value of the NICs with the same index, if more than three quarters of them are slow, which needs at least
 * three nodes: if more nodes are fast with each other, the rail is not slow, but the NICs of the others. */
static struct rail judge_rail(struct pairs *p, int gpu)
{
    const double expected = p->h->expected[BB_HEALTH_PAIRS];
    struct rail rail = {.at_once = false};
    double *values;
    int slow = 0;

    BB_NEW(values, p->n);
    for (int i = 0; i < p->n; i++) {
        values[i] = p->best[p->node[i] * p->h->gpus + gpu];
        slow += judge(values[i], expected, &p->all) != BB_HEALTH_OK;
    }
    rail.is_whole = slow == p->n;
    rail.peers = reference_peers(values, (size_t)p->n, expected);
    rail.value = common_value(values, (size_t)p->n, expected, &rail.peers);
    if (p->n > 2 && 4 * slow > 3 * p->n && !excuse_rail(p, gpu, &rail))
        rail.common = judge(rail.value, expected, &p->all);
    free(values);
    return rail;
}

/* Returns the node, below its partner in `round`, of the pair that is the most typical one of slow rails. round: out */
static int find_typical(const struct pairs *p, int *round)
{
    const int nodes = p->h->nodes, gpus = p->h->gpus;
    double nearest = INFINITY;
    int node = -1;

    for (int i = 0; i < p->rounds * nodes; i++) {
        double distance = NAN;

        for (int g = 0; g < gpus; g++)
            if (p->rail[g].common != BB_HEALTH_OK)
                distance = fmax(distance, fabs(p->values[i * gpus + g] / p->rail[g].peers.median - 1));
        if (p->partner[i] > i % nodes && is_of_best(p, i % nodes, p->partner[i]) && distance < nearest) {
            nearest = distance;
            node = i % nodes;
            *round = i / nodes;
        }
    }
    return node;
}

/* Finds slow rails. A typical pair alone shows whether the rail is slow, or what all pairs share. */
static int find_rails(struct pairs *p)
{
    const int gpus = p->h->gpus;
    int rc = 0, slow = 0, round = 0, a;

    for (int g = 0; g < gpus; g++) {
        p->rail[g] = judge_rail(p, g);
        slow += p->rail[g].common != BB_HEALTH_OK;
    }
    a = slow > 0 ? find_typical(p, &round) : -1;
    if (a < 0)
        return 0;
    TRY(measure_alone(p, a, p->partner[round * p->h->nodes + a], 2));
    for (int g = 0; g < gpus; g++) {
        p->rail[g].at_once = p->rail[g].common != BB_HEALTH_OK &&
                             judge(p->retried[a * gpus + g], p->h->expected[BB_HEALTH_PAIRS], &p->all) == BB_HEALTH_OK;
        p->is_shared |= p->rail[g].at_once;
    }
out:
    return rc;
}

/* Adds the findings about slow rails. If all are slow, one finding is about all, and rails are judged by the others. */
static void add_rails(struct pairs *p)
{
    const double expected = p->h->expected[BB_HEALTH_PAIRS];
    const size_t gpus = (size_t)p->h->gpus;
    struct bb_health_finding all = of_pairs(p, BB_HEALTH_ALL, -1, -1, NAN);
    double *values;
    struct peers peers;

    BB_NEW(values, gpus);
    all.whole = true;
    for (size_t g = 0; g < gpus; g++) {
        values[g] = p->rail[g].common != BB_HEALTH_OK && !p->rail[g].at_once ? p->rail[g].value : NAN;
        all.whole &= p->rail[g].is_whole;
    }
    peers = reference_peers(values, gpus, expected);
    if (peers.n == gpus) {
        all.value = common_value(values, gpus, expected, &peers);
        all.level = judge(all.value, expected, &p->all);
        bb_health_add(p->h, &all);
    }
    for (size_t g = 0; g < gpus; g++) {
        struct bb_health_finding rail = of_pairs(p, BB_HEALTH_A_RAIL, -1, (int)g, values[g]);

        rail.whole = p->rail[g].is_whole;
        if (peers.n == gpus)
            judge_by_peers(&rail, &peers, all.level);
        if (rail.level != BB_HEALTH_OK)
            bb_health_add(p->h, &rail);
        if (isfinite(values[g]))
            p->rail[g].common = MAX(all.level, rail.level);
    }
    free(values);
}

/* A node without partner has no verdict between nodes. */
static void find_unmeasured(struct pairs *p)
{
    for (int i = 0; i < p->n; i++)
        if (isnan(p->best[p->node[i] * p->h->gpus])) {
            struct bb_health_finding f = of_pairs(p, BB_HEALTH_A_NODE, p->node[i], -1, NAN);

            f.level = BB_HEALTH_UNKNOWN;
            bb_health_add(p->h, &f);
        }
}

/* Returns whether the path of two partners is slow, which the best values of their NICs with other nodes show. values: of their measurement */
static bool is_slow_path(const struct pairs *p, int a, int b, const double *values)
{
    const int gpus = p->h->gpus;

    for (int g = 0; g < gpus; g++)
        if (values[a * gpus + g] < UNSTEADY * fmin(p->best[a * gpus + g], p->best[b * gpus + g]))
            return true;
    return false;
}

/* Returns whether the best value of a NIC shows its own rate: with a partner that is faster with other nodes, or has no finding, over a
 * path that is not slow. */
static bool is_tested(const struct pairs *p, int node, int gpu)
{
    const double best = p->best[node * p->h->gpus + gpu];
    bool has_best = false;

    for (int k = 0; k < p->kept; k++) {
        const double *values = p->values + (size_t)k * count_values(p->h);
        const int other = p->partner[k * p->h->nodes + node];

        if (other < 0 || !is_of_best(p, node, other) || !(values[node * p->h->gpus + gpu] >= BB_HEALTH_OUTLIER * best))
            continue;
        if ((level_of(p, other, gpu) == BB_HEALTH_OK || UNSTEADY * p->best[other * p->h->gpus + gpu] > best) &&
            !is_slow_path(p, node, other, values))
            return true;
        has_best = true;
    }
    return !has_best;
}

static void find_nics(struct pairs *p)
{
    struct bb_health_finding *found;
    size_t n = 0;

    BB_NEW(found, count_values(p->h));
    for (int i = 0; i < p->n; i++)
        for (int g = 0; g < p->h->gpus; g++) {
            const int node = p->node[i];
            struct bb_health_finding f = judge_nic(p, node, g);

            if (f.level == BB_HEALTH_OK || (p->n == 2 && i > 0))
                continue;
            if (p->n == 2) {
                f.part = BB_HEALTH_A_PATH; /* either of the two nodes, or their connection */
                f.other = p->node[1];
            } else if (!is_tested(p, node, g)) {
                p->untested[node * p->h->gpus + g] = f.untested = true;
                f.level = BB_HEALTH_WARN;
            }
            restore_values(p, p->has_domains && p->weight[node] == 0, &f);
            found[n++] = f;
        }
    add_of_gpus(p->h, found, n);
    free(found);
}

/* ---- what pairs share ---- */

#define SLOW_AT_ONCE UNSTEADY

/* Returns whether there is a finding about a path of two nodes, or, b: -1, about another part of a node. */
static bool has_finding(const struct bb_health *h, enum bb_health_part part, int a, int b)
{
    for (size_t i = 0; i < h->n; i++) {
        const struct bb_health_finding *f = &h->findings[i];

        if (f->part == part && ((f->node == a && f->other == b) || (f->node == b && f->other == a)))
            return true;
    }
    return false;
}

/* Returns whether a pair of nodes uses the uplinks of the slow leaf. */
static bool leaves(const struct bb_at_once *leaf, int a, int b)
{
    return (a >= leaf->first && a <= leaf->last) != (b >= leaf->first && b <= leaf->last);
}

/* Returns what a pair of fast NICs reaches alone. */
static double reference_of(const struct pairs *p, int gpu)
{
    const double expected = p->h->expected[BB_HEALTH_PAIRS];

    if (p->rail[gpu].common != BB_HEALTH_OK && !p->rail[gpu].at_once)
        return p->rail[gpu].peers.median;
    return isnan(expected) ? p->all.median : expected;
}

/* Returns the value of a GPU of a pair in a round / its reference; NaN: none, or an end or the path is slow. */
static double ratio_of_gpu(const struct pairs *p, int round, int a, int g)
{
    const int b = p->partner[round * p->h->nodes + a];
    const double reference = reference_of(p, g);

    if (b < 0 || has_finding(p->h, BB_HEALTH_A_PATH, a, b) || level_of(p, a, g) != BB_HEALTH_OK ||
        level_of(p, b, g) != BB_HEALTH_OK)
        return NAN;
    return without_noise(p->values[(size_t)round * count_values(p->h) + a * p->h->gpus + g], reference, &p->all) /
           reference;
}

/* Sets the lowest ratio of the GPUs of all pairs in all rounds. Returns the lowest mean of a round. n: out: number of slow
 * pairs. */
static double ratios_at_once(const struct pairs *p, double *ratio, int *n)
{
    const int nodes = p->h->nodes;
    double lowest = 1;

    *n = 0;
    for (int k = 0; k < p->rounds; k++) {
        double sum = 0;
        int measured = 0;

        for (int a = 0; a < nodes; a++) {
            double r = NAN;

            for (int g = 0; g < p->h->gpus; g++)
                r = fmin(r, ratio_of_gpu(p, k, a, g));
            ratio[k * nodes + a] = r;
            *n += r < SLOW_AT_ONCE && a < p->partner[k * nodes + a];
            sum += isnan(r) ? 0 : r;
            measured += !isnan(r);
        }
        lowest = fmin(lowest, measured > 0 ? sum / measured : 1);
    }
    return lowest;
}

/* Returns the only GPU index whose pairs are slow at the slow leaf; -1: there are several. */
static int gpu_of_leaf(const struct pairs *p)
{
    int gpu = -1, n = 0;

    for (int g = 0; g < p->h->gpus; g++) {
        bool slow = false;

        for (int i = 0; i < p->rounds * p->h->nodes; i++)
            slow = slow || (leaves(&p->leaf, i % p->h->nodes, p->partner[i]) &&
                            ratio_of_gpu(p, i / p->h->nodes, i % p->h->nodes, g) < SLOW_AT_ONCE);
        gpu = slow ? g : gpu;
        n += slow;
    }
    return n == 1 && p->h->gpus > 1 ? gpu : -1;
}

/* Adds a finding about what pairs share. reached: value / expectation */
static void add_shared(struct pairs *p, enum bb_health_part part, double reached)
{
    const double alone = p->h->expected[BB_HEALTH_PAIRS], share = p->h->share[BB_HEALTH_PAIRS];
    struct bb_health_finding f = of_pairs(p, part, -1, -1, share * reached * (isnan(alone) ? p->all.median : alone));

    if (part == BB_HEALTH_A_LEAF) {
        f.node = p->leaf.first;
        f.other = p->leaf.last;
        f.gpu = gpu_of_leaf(p);
    }
    f.expected *= share;
    f.median *= share;
    f.level = bb_health_judge(reached);
    if (f.level != BB_HEALTH_OK)
        bb_health_add(p->h, &f);
}

/* Removes the ratios of fast pairs that do not show whether the leaf of the node is slow: other uplinks leave them no more than the
 * fastest slow pair of the leaf would reach with their number of pairs. */
static void drop_limited_pairs(const struct pairs *p, double *ratio)
{
    const struct bb_health_tier *tier = &p->h->tiers[0];
    const int nodes = p->h->nodes, size = tier->nodes > 0 ? tier->nodes : nodes;
    double *slow; /* of each leaf; 0: none */

    BB_NEW(slow, nodes / size + 1);
    for (int second = 0; second < 2; second++) /* with the slow pairs of all leaves */
        for (int i = 0; i < p->rounds * nodes; i++) {
            const int a = i % nodes, *partner = p->partner + i - a;

            if (partner[a] < 0 || partner[a] / size == a / size)
                continue;
            if (ratio[i] < SLOW_AT_ONCE)
                slow[a / size] = fmax(slow[a / size], ratio[i]);
            else if (second && slow[a / size] > 0 &&
                     BB_HEALTH_OUTLIER * ratio[i] * share_of(p, partner, a, false) <=
                         slow[a / size] * share_of_group(p, partner, a, tier, false))
                ratio[i] = NAN;
        }
    free(slow);
}

/* Returns whether pairs are slow, at least two and the part 1 / `parts`, of those with both ends outside the leaf. */
static bool are_slow_outside(const struct pairs *p, const double *ratio, int parts)
{
    int slow = 0, n = 0;

    for (int i = 0; i < p->rounds * p->h->nodes; i++) {
        const int a = i % p->h->nodes, b = p->partner[i];
        const bool is_outside = (a < p->leaf.first || a > p->leaf.last) && (b < p->leaf.first || b > p->leaf.last);

        if (b < a || !is_outside || isnan(ratio[i]))
            continue;
        slow += ratio[i] < SLOW_AT_ONCE;
        n++;
    }
    return slow > 1 && parts * slow > n;
}

/* Finds the leaf whose nodes are fast with each other: of its pairs with other nodes at least three and three quarters are slow, of up
 * to four all, they are two thirds of all slow ones, and three quarters of them are about as slow as the others of their round,
 * which share the uplinks. If the leaves are not known, and many pairs of the other nodes are slow, it is one of several such leaves. */
static void find_leaf(struct pairs *p)
{
    double *ratio;
    bool is_half;
    int n;

    BB_NEW(ratio, (size_t)p->rounds * (size_t)p->h->nodes);
    ratios_at_once(p, ratio, &n);
    p->most_slow = p->n > 3 && are_slow_outside(p, ratio, 2); /* no leaf yet; of three nodes, one pair runs */
    drop_limited_pairs(p, ratio);
    p->leaf = bb_at_once_find(p->partner, ratio, p->rounds, p->h->nodes, SLOW_AT_ONCE, MAX(1, p->h->tiers[0].nodes));
    is_half = 2 * (p->leaf.last - p->leaf.first + 1) >= p->n; /* then all pairs of the other half leave theirs, too */
    if (p->leaf.slow >= 3 && p->leaf.slow >= 3 * p->leaf.fast && (p->leaf.slow > 3 || p->leaf.fast == 0) &&
        4 * p->leaf.even >= 3 * p->leaf.slow && (p->h->tiers[0].nodes > 0 || !are_slow_outside(p, ratio, 4)) &&
        (is_half ? p->leaf.slow == n : 3 * p->leaf.slow >= 2 * n))
        add_shared(p, BB_HEALTH_A_LEAF, p->leaf.ratio);
    else
        p->leaf.first = p->leaf.last = -1;
    free(ratio);
}

/* Judges the fabric by the mean of the slowest round. */
static void find_fabric(struct pairs *p)
{
    double *ratio;
    int n;

    BB_NEW(ratio, (size_t)p->rounds * (size_t)p->h->nodes);
    add_shared(p, BB_HEALTH_FABRIC, ratios_at_once(p, ratio, &n));
    free(ratio);
}

/* ---- paths ---- */

/* Returns whether a value of a pair is so low that neither the ends, nor the typical value of the rail, explain it: it is lower
 * than the best ones of both ends, or below a limit that these findings are not below. */
static bool is_path(const struct pairs *p, int a, int b, int g, double value)
{
    const enum bb_health_level level = of_pairs(p, BB_HEALTH_A_PATH, a, g, value).level;
    enum bb_health_level explained = BB_HEALTH_OK;
    double best = NAN;

    for (int end = 0; end < 2 && level != BB_HEALTH_OK; end++) {
        const int node = end == 0 ? a : b;

        if (!is_of_best(p, node, end == 0 ? b : a))
            continue;
        explained = MAX(explained, MAX(p->rail[g].common, level_of(p, node, g)));
        best = fmin(best, p->best[node * p->h->gpus + g]);
    }
    return level > explained || (level != BB_HEALTH_OK && value < UNSTEADY * best);
}

/* Returns the GPU whose connection between a pair of nodes is the slowest path; -1: none. n: out: number of such GPUs, and of
 * slow ones whose NICs are not tested. fast: out: number of GPUs with fast connections */
static int slowest_gpu(const struct pairs *p, int a, int b, const double *values, int *n, int *fast)
{
    const int gpus = p->h->gpus;
    int slowest = -1;

    *n = *fast = 0;
    for (int g = 0; g < gpus; g++) {
        const double value = values[a * gpus + g];
        const bool is_slow = is_path(p, a, b, g, value);

        *fast += judge(value, p->h->expected[BB_HEALTH_PAIRS], &p->all) == BB_HEALTH_OK;
        *n += is_slow || p->untested[a * gpus + g] || p->untested[b * gpus + g];
        if (!is_slow)
            continue;
        if (slowest < 0 || value < values[a * gpus + slowest])
            slowest = g;
    }
    return slowest;
}

/* A pair that is slow although both ends are faster with others. */
struct slow_pair {
    int a, b, gpu;  /* gpu: the slowest */
    int gpus, fast; /* number of slow GPUs that the ends do not explain; of fast ones */
    double values[TRIES];
    int slow;     /* number of clearly slow values, if the first one is, and not all are; else 0 */
    bool is_path; /* the middle one of the values is slow, too */
};

static bool has_pair(const struct slow_pair *pairs, int n, int a, int b)
{
    for (int i = 0; i < n; i++)
        if (pairs[i].a == a && pairs[i].b == b)
            return true;
    return false;
}

/* Returns the slowest pair of all rounds that is not yet in pairs[n]; its gpu is -1: there is none. */
static struct slow_pair next_slow_pair(const struct pairs *p, const struct slow_pair *pairs, int n)
{
    struct slow_pair slowest = {.gpu = -1};
    double lowest = INFINITY;

    for (int k = 0; k < p->kept; k++)
        for (int a = 0; a < p->h->nodes; a++) {
            const double *values = p->values + (size_t)k * count_values(p->h);
            struct slow_pair pair = {.a = a, .b = p->partner[k * p->h->nodes + a]};

            if (pair.b < a || leaves(&p->leaf, a, pair.b) || has_pair(pairs, n, a, pair.b))
                continue;
            pair.gpu = slowest_gpu(p, a, pair.b, values, &pair.gpus, &pair.fast);
            pair.values[0] = pair.gpu < 0 ? INFINITY : values[a * p->h->gpus + pair.gpu];
            if (pair.values[0] >= lowest)
                continue;
            lowest = pair.values[0];
            slowest = pair;
        }
    return slowest;
}

/* Measures a slow pair again, alone. */
static int measure_slow_pair(struct pairs *p, struct slow_pair *pair)
{
    const double *best_a = &p->best[pair->a * p->h->gpus + pair->gpu],
                 *best_b = &p->best[pair->b * p->h->gpus + pair->gpu];
    double limit;
    int rc = 0;

    for (int try = 1; try < TRIES; try++) {
        TRY(measure_alone(p, pair->a, pair->b, try + 1));
        pair->values[try] = p->retried[pair->a * p->h->gpus + pair->gpu];
    }
    limit = UNSTEADY * fmin(reference_of(p, pair->gpu), fmin(*best_a, *best_b));
    for (int try = 0; try < TRIES && pair->values[0] < limit; try++)
        pair->slow += pair->values[try] < limit;
    pair->slow %= TRIES;
    pair->is_path = is_path(p, pair->a, pair->b, pair->gpu, median_of(pair->values, TRIES));
    p->is_shared |= !pair->is_path;
out:
    return rc;
}

/* Returns the number of slow pairs of a node. most: out: the highest `slow` of them, 0: none is slow only for some time */
static int count_pairs(const struct slow_pair *pairs, int n, int node, int *most)
{
    int count = 0;

    *most = 0;
    for (int i = 0; i < n; i++)
        if (pairs[i].a == node || pairs[i].b == node) {
            count++;
            *most = MAX(*most, pairs[i].slow);
        }
    return count;
}

/* Makes a finding about a pair one about its end that is slow with several partners, with one of them only for some time, and
 * whose partners are slow with no other node. */
static void find_unsteady_end(const struct pairs *p, const struct slow_pair *pairs, int n, struct bb_health_finding *f)
{
    int most_a, most_b;
    const int a = count_pairs(pairs, n, f->node, &most_a), b = count_pairs(pairs, n, f->other, &most_b);
    const bool is_a = a > 1 && b == 1 && most_a > 0;

    if (!is_a && !(b > 1 && a == 1 && most_b > 0))
        return;
    f->part = BB_HEALTH_A_NIC;
    f->node = is_a ? f->node : f->other;
    f->other = -1;
    f->tries = p->rounds;
    f->slow = MAX(a, b);
    f->slow_alone = MAX(most_a, most_b) > 1;
}

/* Measures a slow path again, alone, in each direction. If one is fast, the finding is about the other direction. */
static int find_direction(struct pairs *p, struct bb_health_finding *f)
{
    const int a = f->node, b = f->other, at = a * p->h->gpus + f->gpu;
    double forth, back;
    int rc;

    p->h->sender = a;
    TRY(measure_alone(p, a, b, TRIES + 1));
    forth = p->retried[at];
    p->h->sender = b;
    TRY(measure_alone(p, a, b, TRIES + 1));
    back = p->retried[at];
    f->one_way = forth < UNSTEADY * back || back < UNSTEADY * forth;
    if (f->one_way && back < forth) {
        f->node = b;
        f->other = a;
    }
out:
    p->h->sender = -1;
    return rc;
}

/* Returns whether a slow pair is near the typical one of a slow rail, whose finding then has the level of the pair. */
static bool raise_common(const struct pairs *p, const struct slow_pair *pair, const struct bb_health_finding *f)
{
    if (is_inside(p, pair->a, pair->b) || p->rail[pair->gpu].common == BB_HEALTH_OK ||
        f->value < UNSTEADY * p->rail[pair->gpu].peers.median)
        return false;
    for (size_t i = 0; i < p->h->n; i++) {
        struct bb_health_finding *common = &p->h->findings[i];

        if (common->test == BB_HEALTH_PAIRS &&
            (common->part == BB_HEALTH_ALL || (common->part == BB_HEALTH_A_RAIL && common->gpu == pair->gpu))) {
            common->value = fmin(common->value, f->value);
            common->level = MAX(common->level, f->level);
            return true;
        }
    }
    return false;
}

/* Adds the findings about slow pairs: unsteady NICs and paths, or `once`: those that were slow only while all pairs ran, of NICs if
 * most pairs were. */
static int add_slow_pairs(struct pairs *p, const struct slow_pair *pairs, int n, bool once)
{
    int rc = 0;

    for (int i = 0; i < n; i++) {
        const struct slow_pair *pair = &pairs[i];
        struct bb_health_finding f = of_pairs(p, BB_HEALTH_A_PATH, pair->a, pair->gpu,
                                              pair->slow > 0 ? pair->values[0] : median_of(pair->values, TRIES));

        restore_values(p, is_inside(p, pair->a, pair->b), &f);
        f.other = pair->b;
        f.tries = TRIES;
        f.slow = pair->slow;
        f.slow_alone = pair->slow > 1;
        find_unsteady_end(p, pairs, n, &f);
        if (f.slow > 0)
            f.level = BB_HEALTH_WARN;
        if (f.level == BB_HEALTH_OK || !(pair->is_path || f.slow > 0) ||
            (f.slow == 1 || (f.slow > 1 && !f.slow_alone && p->most_slow)) != once ||
            (f.part != BB_HEALTH_A_PATH && has_finding(p->h, BB_HEALTH_A_NIC, f.node, -1)) || raise_common(p, pair, &f))
            continue;
        if (f.part == BB_HEALTH_A_PATH && f.slow == 0)
            TRY(find_direction(p, &f));
        if (f.part == BB_HEALTH_A_PATH && pair->gpus > 1 && pair->fast == 0)
            f.gpu = -1;
        bb_health_add(p->h, &f);
    }
out:
    return rc;
}

/* Measures the slow pairs again, the slowest first. n: out: number of pairs[ALONE_MAX] */
static int find_slow_pairs(struct pairs *p, struct slow_pair pairs[ALONE_MAX], int *n)
{
    int rc = 0;

    for (*n = 0; *n < ALONE_MAX; ++*n) {
        pairs[*n] = next_slow_pair(p, pairs, *n);
        if (pairs[*n].gpu < 0)
            break;
        TRY(measure_slow_pair(p, &pairs[*n]));
    }
out:
    return rc;
}

/* ---- the stage pairs ---- */

static void start_pairs(struct pairs *p, int rounds)
{
    const struct bb_health *h = p->h;
    const size_t size = count_values(h), most = (size_t)rounds + TRIES + ALONE_MAX;

    p->rounds = p->kept = rounds;
    BB_NEW(p->node, h->nodes);
    for (int n = 0; n < h->nodes; n++)
        if (is_active(h, n))
            p->node[p->n++] = n;
    p->has_domains = bb_health_has_domains(h);
    BB_NEW(p->order, p->n);
    order_nodes(p);
    BB_NEW(p->partner, most * (size_t)h->nodes);
    BB_NEW(p->values, most * size);
    BB_NEW(p->best, size);
    BB_NEW(p->weight, h->nodes);
    BB_NEW(p->untested, size);
    BB_NEW(p->excused, size);
    BB_NEW(p->again, h->nodes);
    BB_NEW(p->retried, size);
    BB_NEW(p->rail, h->gpus);
    for (size_t i = 0; i < size; i++)
        p->best[i] = NAN;
}

static void end_pairs(struct pairs *p)
{
    free(p->node);
    free(p->order);
    free(p->partner);
    free(p->values);
    free(p->best);
    free(p->weight);
    free(p->untested);
    free(p->excused);
    free(p->again);
    free(p->retried);
    free(p->rail);
}

static int test_pairs(struct bb_health *h)
{
    struct pairs p = {.h = h, .leaf = {.first = -1, .last = -1}};
    struct slow_pair slow[ALONE_MAX];
    int rc = 0, suspects = 0, n;
    size_t before;

    start_pairs(&p, bb_health_rounds(h, BB_HEALTH_PAIRS));
    TRY(measure_rounds(&p));
    for (int i = 0; i < p.n; i++)
        suspects += is_suspect(&p, p.node[i]);
    if (2 * suspects > p.n && p.rounds < bb_health_all_rounds(p.n) && p.n <= EVERY_PAIR_NODES) {
        h->rounds = p.n;
        rc = test_pairs(h);
        goto out;
    }
    TRY(find_rails(&p));
    TRY(retry_suspects(&p));
    TRY(retry_alone(&p));
    add_rails(&p);
    find_nics(&p);
    find_unmeasured(&p);
    find_leaf(&p);
    TRY(find_slow_pairs(&p, slow, &n));
    TRY(add_slow_pairs(&p, slow, n, false));
    before = h->n;
    if (p.is_shared && p.leaf.first < 0)
        find_fabric(&p);
    if (h->n == before && p.leaf.first < 0)
        rc = add_slow_pairs(&p, slow, n, true);
out:
    end_pairs(&p);
    return rc;
}

/* ---- bisection ---- */

const char *const bb_health_cuts[BB_HEALTH_CUTS] = {"first half with second half",
                                                    "first half with reversed second half", "odd with even quarters"};

/* Returns the partner of the i-th of n nodes in the other half, by bb_health_cuts; -1: none. */
static int across(int cut, int i, int n)
{
    const int half = n / 2, quarter = MAX(1, n / 4);
    const int other = cut == 0               ? i < half ? i + half : i - half
                      : cut == 1             ? n - 1 - i
                      : i / quarter % 2 == 0 ? i + quarter
                                             : i - quarter;

    return other < n && other != i && i < n ? other : -1;
}

/* Medians of the pairs of a cut; `ratio`, `judged` and `expected` are those of the slowest pair if the stage pairs does not judge it. */
struct cut {
    int index;
    double ratio;            /* value / the expectation while all pairs run */
    double judged, expected; /* the two */
    double value, share, shares[2];
};

/* Drops the pairs in one of several NVLink domains: they do not use the network between the halves. */
static void drop_inside(struct pairs *p)
{
    for (int a = 0; a < p->h->nodes; a++) {
        const int b = p->partner[a];

        if (b < 0 || !is_inside(p, a, b))
            continue;
        for (int g = 0; g < p->h->gpus; g++)
            p->values[a * p->h->gpus + g] = NAN;
        if (b < a)
            p->partner[a] = p->partner[b] = -1;
    }
}

static int measure_cut(struct pairs *p, int cut, double unloaded, struct cut *c)
{
    struct bb_health *h = p->h;
    const int even = p->n - p->n % 2,
              idle = (p->n - 1) * cut / (BB_HEALTH_CUTS - 1); /* of an odd number: each cut has another */
    size_t n = 0;
    int rc;

    for (int node = 0; node < h->nodes; node++)
        p->partner[node] = -1;
    for (int i = 0; i < even; i++) {
        const int other = across(cut, i, even), skipped = even < p->n ? idle : p->n;

        p->partner[p->node[i + (i >= skipped)]] = other < 0 ? -1 : p->node[other + (other >= skipped)];
    }
    TRY(h->measure(h->arg, BB_HEALTH_BISECTION, p->partner, p->values));
    drop_inside(p);
    c->value = c->judged = bb_health_median(p->values, count_values(h));
    for (int a = 0; a < h->nodes; a++)
        for (int g = 0; g < h->gpus && p->partner[a] > a; g++) {
            p->retried[n] = share_of(p, p->partner, a, false);
            p->best[n] = p->values[a * h->gpus + g] / (unloaded * p->retried[n]);
            n++;
        }
    c->index = cut;
    c->share = median_of(p->retried, n);
    set_shares(h, BB_HEALTH_BISECTION, p->retried, n);
    memcpy(c->shares, h->shares[BB_HEALTH_BISECTION], sizeof c->shares);
    c->ratio = n > 0 ? median_of(p->best, n) : INFINITY;
    c->expected = c->share * unloaded;
    for (size_t i = 0; i < n && h->skip[BB_HEALTH_PAIRS]; i++)
        if (p->best[i] < c->ratio) {
            c->ratio = p->best[i];
            c->expected = p->retried[i] * unloaded;
            c->judged = c->ratio * c->expected;
        }
out:
    return rc;
}

/* Measures all cuts. counts: out: if one is slow, the one that is slowest for its expectation, else the one with the lowest value */
static int measure_cuts(struct pairs *p, double unloaded, struct cut *counts)
{
    struct cut slowest = {.ratio = INFINITY, .value = NAN, .share = 1}, lowest = slowest, cut;
    int rc = 0;

    for (int i = 0; i < BB_HEALTH_CUTS; i++) {
        TRY(measure_cut(p, i, unloaded, &cut));
        slowest = cut.ratio >= slowest.ratio ? slowest : cut; /* NaN: nothing is expected */
        lowest = isnan(lowest.value) || cut.value < lowest.value ? cut : lowest;
    }
    *counts = bb_health_judge(slowest.ratio) != BB_HEALTH_OK ? slowest : lowest;
    counts->ratio = slowest.ratio;
out:
    return rc;
}

/* Judges the cut that counts, without the stage pairs its slowest pair; each is measured once more if one is slow. */
static int test_bisection(struct bb_health *h)
{
    const double unloaded = isnan(h->expected[BB_HEALTH_BISECTION])
                                ? h->median[BB_HEALTH_PAIRS] / h->share[BB_HEALTH_PAIRS]
                                : h->expected[BB_HEALTH_BISECTION];
    struct pairs p = {.h = h};
    struct bb_health_finding f = finding_of(h, BB_HEALTH_BISECTION, &(struct peers){0}, NAN);
    struct cut best = {.ratio = 0}, counts;
    int rc = 0;

    start_pairs(&p, 1);
    for (int try = 0; try < 2 && (try == 0 || f.level != BB_HEALTH_OK); try++) {
        h->attempt = try + 1;
        TRY(measure_cuts(&p, unloaded, &counts));
        best = counts.ratio <= best.ratio ? best : counts;
        f.level = bb_health_judge(best.ratio);
    }
    h->median[BB_HEALTH_BISECTION] = best.value;
    f.value = best.judged;
    h->share[BB_HEALTH_BISECTION] = best.share;
    memcpy(h->shares[BB_HEALTH_BISECTION], best.shares, sizeof best.shares);
    h->cut = best.index;
    f.expected = best.expected;
    f.tries = BB_HEALTH_CUTS;
    if (f.level != BB_HEALTH_OK && !is_explained(h, &f))
        bb_health_add(h, &f);
out:
    end_pairs(&p);
    return rc;
}

/* ---- all tests ---- */

/* Adds the findings about nodes that were lost in this test. */
static void add_lost(struct bb_health *h, int test)
{
    for (size_t i = 0; i < h->n_lost; i++)
        if ((int)h->lost[i].test == test)
            bb_health_add(h, &h->lost[i]);
}

/* Sets the expectations of this test and of later ones. */
static int expect_rest(struct bb_health *h, int test)
{
    const struct bb_health before = *h;
    int rc;

    TRY(h->expect(h->arg));
    memcpy(h->expected, before.expected, (size_t)test * sizeof *h->expected);
    if (test > BB_HEALTH_PAIRS)
        h->inside = before.inside;
out:
    return rc;
}

int bb_health_run(struct bb_health *h)
{
    int rc = 0, before = h->nodes;

    h->sender = -1;
    h->inside_median = NAN;
    for (int test = 0; test < BB_HEALTH_TESTS; test++) {
        h->median[test] = NAN;
        h->share[test] = 1;
    }
    for (int test = 0; test < BB_HEALTH_TESTS && rc == 0; test++) {
        int active;

        h->stage = bb_health_tests[test].stage;
        add_lost(h, test);
        active = bb_health_active(h);
        if (active > 0 && active < before && h->expect)
            TRY(expect_rest(h, test));
        before = active;
        if (h->skip[test] || active == 0 || (test == BB_HEALTH_NODE && h->gpus < 2) ||
            (test == BB_HEALTH_SLOWEST_PEER && h->gpus < 3) || (test >= BB_HEALTH_PAIRS && active < 2))
            continue;
        rc = test == BB_HEALTH_PAIRS       ? test_pairs(h)
             : test == BB_HEALTH_BISECTION ? test_bisection(h)
                                           : test_units(h, (enum bb_health_test)test);
    }
    add_lost(h, BB_HEALTH_TESTS);
    bb_health_sort(h);
out:
    h->stage = NULL;
    return rc;
}

void bb_health_sort(struct bb_health *h)
{
    if (h->n > 1)
        qsort(h->findings, h->n, sizeof(*h->findings), compare_findings);
}

void bb_health_release(struct bb_health *h)
{
    for (int test = 0; test < BB_HEALTH_TESTS; test++)
        free(h->reached[test].values);
    free(h->findings);
}
