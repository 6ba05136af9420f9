/* units.c - tests whose values are judged one by one: GPUs, nodes, rails, the whole job. See findings.h. */
#include "collectives/health/verdict/findings.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <stdlib.h>

/* One test with its measurements. A unit is what the test judges: a GPU, a node, a rail or the whole job. */
struct series {
    struct bb_health *h;
    enum bb_health_test test;
    enum bb_health_part part;
    size_t units, stride; /* the value of unit u is values[u * stride] */
    double *values[BB_HEALTH_TRIES];
    int tries; /* number of measurements */
    struct bb_health_peers peers;
    bool has_reference;          /* GPUs are judged by their peers, too, */
    enum bb_health_level common; /* and all units only by them, if the typical one is slow */
};

/* Makes a measurement with all nodes that have not failed, and moves the units' values to the front. */
static int measure_units(struct series *s)
{
    struct bb_health *h = s->h;
    double *values;
    int *partner, rc;

    BB_NEW(values, bb_health_count_values(h));
    BB_NEW(partner, h->nodes);
    for (int n = 0; n < h->nodes; n++)
        partner[n] = bb_health_is_active(h, n) ? 0 : -1;
    s->values[s->tries++] = values;
    h->attempt = s->tries;
    rc = h->measure(h->arg, s->test, partner, values);
    for (size_t u = 0; rc == 0 && u < s->units; u++) {
        size_t at = u * s->stride;

        /* a rail, or the whole job, has its value on the first node that takes part */
        while (s->part > BB_HEALTH_A_NIC && isnan(values[at]) && at + (size_t)h->gpus < bb_health_count_values(h))
            at += (size_t)h->gpus;
        values[u] = values[at];
    }
    free(partner);
    return rc;
}

/* Changes a finding without verdict, if one of the values is below the limit of a warning. Noise around the median is
 * not. */
static void find_unsteady(const struct series *s, const double values[BB_HEALTH_TRIES], struct bb_health_finding *f)
{
    const double reference = isfinite(f->expected)                     ? f->expected
                             : s->peers.n >= BB_HEALTH_REFERENCE_PEERS ? s->peers.median
                                                                       : NAN;
    double lowest = INFINITY;

    for (int i = 0; i < BB_HEALTH_TRIES; i++)
        lowest = fmin(lowest, values[i]);
    if (!(bb_health_without_noise(lowest, reference, &s->peers) < BB_HEALTH_UNSTEADY * reference))
        return;
    f->level = BB_HEALTH_WARN;
    f->value = lowest;
    f->slow = 1;
}

/* Returns the middle one of the values of a unit. values: out */
static double middle_of(const struct series *s, size_t unit, double values[BB_HEALTH_TRIES])
{
    for (int i = 0; i < s->tries; i++)
        values[i] = s->values[i][unit];
    return bb_health_middle(values, (size_t)s->tries);
}

/* Returns a finding with the middle one of the verdicts on a unit. */
static struct bb_health_finding judge_unit(const struct series *s, size_t unit)
{
    const int at = (int)(unit * s->stride);
    double values[BB_HEALTH_TRIES] = {NAN, NAN, NAN};
    struct bb_health_finding f = bb_health_finding_of(s->h, s->test, &s->peers, middle_of(s, unit, values));

    if (s->has_reference || s->common != BB_HEALTH_OK)
        bb_health_judge_by_peers(&f, &s->peers, s->common);
    if (f.level == BB_HEALTH_OK && s->tries == BB_HEALTH_TRIES)
        find_unsteady(s, values, &f);
    if (bb_health_is_of_node(&f))
        f.node = at / s->h->gpus;
    if (s->part == BB_HEALTH_A_GPU || s->part == BB_HEALTH_A_RAIL)
        f.gpu = at % s->h->gpus;
    return f;
}

/* Returns the only node that has not failed; -1: there are several, or none. */
static int only_node(const struct bb_health *h)
{
    for (int node = 0; node < h->nodes && bb_health_active(h) == 1; node++)
        if (bb_health_is_active(h, node))
            return node;
    return -1;
}

/* Returns the finding about all units. */
static struct bb_health_finding find_common(const struct series *s)
{
    struct bb_health_finding f;
    double *middle, values[BB_HEALTH_TRIES];
    bool are_all_slow = true;

    BB_NEW(middle, s->units);
    for (size_t u = 0; u < s->units; u++) {
        middle[u] = middle_of(s, u, values);
        are_all_slow &=
            isnan(middle[u]) || bb_health_finding_of(s->h, s->test, &s->peers, middle[u]).level != BB_HEALTH_OK;
    }
    f = bb_health_finding_of(s->h, s->test, &s->peers,
                             bb_health_common_value(middle, s->units, s->h->expected[s->test], &s->peers));
    free(middle);
    f.node = s->part == BB_HEALTH_A_GPU ? only_node(s->h) : -1;
    f.part = f.node < 0 ? BB_HEALTH_ALL : BB_HEALTH_A_NODE;
    f.whole = are_all_slow;
    return f;
}

/* Adds the findings of a test with suspects. If the typical unit is slow, one finding is about all of them: the cause
 * is common, or the expectation is wrong. Of GPUs, all of them may be one node. */
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
        bb_health_add_of_gpus(s->h, found, n);
        n = 0;
    }
    if (s->common != BB_HEALTH_OK)
        found[n++] = find_common(s);
    for (size_t i = 0; i < n; i++)
        if (!bb_health_is_explained(s->h, &found[i]))
            bb_health_add(s->h, &found[i]);
    free(found);
}

/* Sets what the units have reached. */
static void keep_reached(const struct series *s)
{
    struct bb_health_reached *reached = &s->h->reached[s->test];
    double values[BB_HEALTH_TRIES];

    free(reached->values);
    BB_NEW(reached->values, s->units);
    for (size_t u = 0; u < s->units; u++)
        reached->values[u] = middle_of(s, u, values);
    reached->nodes = bb_health_active(s->h);
}

int bb_health_test_units(struct bb_health *h, enum bb_health_test test)
{
    const enum bb_health_part part = bb_health_tests[test].part;
    struct series s = {.h = h, .test = test, .part = part, .units = 1, .stride = 1};
    bool suspect;
    int rc;

    s.units = part == BB_HEALTH_A_GPU    ? bb_health_count_values(h)
              : part == BB_HEALTH_A_NODE ? (size_t)h->nodes
              : part == BB_HEALTH_A_RAIL ? (size_t)h->gpus
                                         : 1;
    s.stride = part == BB_HEALTH_A_NODE ? (size_t)h->gpus : 1;
    TRY(measure_units(&s));
    s.peers = bb_health_reference_peers(s.values[0], s.units, h->expected[test]);
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
        s.common = bb_health_finding_of(h, test, &s.peers, s.peers.median).level;
    suspect = s.common != BB_HEALTH_OK;
    for (size_t u = 0; u < s.units; u++)
        suspect |= judge_unit(&s, u).level != BB_HEALTH_OK;
    while (suspect && s.tries < BB_HEALTH_TRIES)
        TRY(measure_units(&s));
    keep_reached(&s);
    if (suspect)
        add_units(&s);
out:
    for (int i = 0; i < s.tries; i++)
        free(s.values[i]);
    return rc;
}
