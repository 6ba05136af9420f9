/* soak.c - see soak.h. */
#include "collectives/health/soak.h"

#include "bootstrap/base/alloc.h"

#include "bootstrap/base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

static const double AT_BEGIN_S = 1e-9; /* of the first round: bb_health_finding.soak_s of other stages is 0 */

enum { FIRST = 5 }; /* the fault of one round does not change their median */

/* State of one test: [nodes * gpus] values. */
struct series {
    struct bb_health *h;
    struct bb_soak *soak;
    int *partner, nodes;             /* nodes: number of them that take part */
    double *first[FIRST];            /* of the first rounds */
    double *now, *lowest, *lowest_s; /* lowest: after the first round */
    double *reference;
    enum bb_soak_reference *references; /* what they are */
    double common; /* median of the GPUs, if more than three quarters of them are slow for the expectation; else NaN */
    bool all_slow; /* then: all are */
};

const char *bb_soak_reference_name(enum bb_soak_reference reference, enum bb_health_test test)
{
    static const char *const names[] = {[BB_SOAK_FIRST] = "value of the first rounds",
                                        [BB_SOAK_EXPECTED] = "expected value",
                                        [BB_SOAK_PEERS] = "peers' median"};

    if (reference == BB_SOAK_STAGE)
        return test == BB_HEALTH_WHOLE ? "value of stage whole" : "value of stage gpu";
    return names[reference];
}

static size_t count_gpus(const struct bb_health *h)
{
    return (size_t)h->nodes * (size_t)h->gpus;
}

static int measure_round(struct series *s, double at_s)
{
    struct bb_soak *soak = s->soak;
    int rc;

    TRY(s->h->measure(s->h->arg, soak->test, s->partner, s->now));
    soak->last = bb_health_median(s->now, count_gpus(s->h));
    soak->last_s = at_s;
    if (soak->rounds < FIRST)
        memcpy(s->first[soak->rounds], s->now, count_gpus(s->h) * sizeof *s->now);
    if (soak->rounds++ == 0)
        soak->first = soak->last;
    for (size_t i = 0; i < count_gpus(s->h); i++)
        if (soak->rounds == 1 || soak->rounds == 2 || s->now[i] < s->lowest[i]) {
            s->lowest[i] = s->now[i];
            s->lowest_s[i] = at_s;
        }
out:
    return rc;
}

/* Removes the findings of the rounds before. */
static void drop_findings(struct bb_health *h, enum bb_health_test test)
{
    const size_t n = h->n;

    h->n = 0;
    for (size_t i = 0; i < n; i++)
        if (h->findings[i].soak_s <= 0 || h->findings[i].test != test)
            h->findings[h->n++] = h->findings[i];
}

static bool is_whole(const struct series *s)
{
    return bb_health_tests[s->soak->test].part == BB_HEALTH_ALL;
}

static void raise_reference(struct series *s, size_t i, double value, double limit, enum bb_soak_reference reference)
{
    if (!(s->reference[i] < limit * value))
        return;
    s->reference[i] = value;
    s->references[i] = reference;
}

/* Sets the references of all GPUs. If most are slow for the expectation, their peers take its place. */
static void find_references(struct series *s)
{
    const enum bb_health_test test = s->soak->test;
    const struct bb_health_reached *reached = &s->h->reached[test];
    const bool has_stage = reached->values && (!is_whole(s) || reached->nodes == s->nodes);
    const int n = MIN(s->soak->rounds, FIRST);
    const double expected = s->h->expected[test];
    bool has_peers;
    size_t peers = 0, slow = 0;
    double median;

    for (size_t i = 0; i < count_gpus(s->h); i++) {
        double values[FIRST] = {NAN};

        for (int round = 0; round < n; round++)
            values[round] = s->first[round][i];
        s->reference[i] = fmax(values[0], bb_health_median(values, (size_t)n));
        s->references[i] = BB_SOAK_FIRST;
        peers += isfinite(values[0]);
        if (has_stage)
            raise_reference(s, i, reached->values[is_whole(s) ? 0 : i], 1, BB_SOAK_STAGE);
    }
    median = bb_health_median(s->reference, count_gpus(s->h));
    for (size_t i = 0; i < count_gpus(s->h); i++)
        slow += bb_health_judge(s->reference[i] / expected) != BB_HEALTH_OK;
    has_peers = !is_whole(s) && peers >= BB_HEALTH_REFERENCE_PEERS;
    s->common = !has_stage && has_peers && 4 * slow > 3 * peers ? median : NAN;
    s->all_slow = slow == peers;
    for (size_t i = 0; i < count_gpus(s->h) && !has_stage; i++) {
        if (isnan(s->common))
            raise_reference(s, i, expected, BB_HEALTH_WARNS, BB_SOAK_EXPECTED);
        if (has_peers)
            raise_reference(s, i, median, BB_HEALTH_WARNS, BB_SOAK_PEERS);
    }
}

/* Adds the finding about most GPUs, of one node or of several, which are slow for the expectation. */
static void add_common(const struct series *s)
{
    struct bb_health_finding f =
        bb_health_remark(s->soak->test, s->nodes > 1 ? BB_HEALTH_ALL : BB_HEALTH_A_NODE, BB_HEALTH_OK, -1, -1, -1);

    for (int node = 0; node < s->h->nodes && s->nodes == 1; node++)
        f.node = s->partner[node] == 0 ? node : f.node;
    f.value = s->common;
    f.expected = s->h->expected[s->soak->test];
    f.level = bb_health_judge(f.value / f.expected);
    f.soak_reference = BB_SOAK_EXPECTED;
    f.soak_s = AT_BEGIN_S;
    f.tries = s->soak->rounds;
    f.whole = s->all_slow;
    bb_health_add(s->h, &f);
}

/* Returns the finding about a GPU, or the whole job: its lowest value, or, as a warning, that of a slow first round. */
static struct bb_health_finding judge_gpu(const struct series *s, size_t i)
{
    struct bb_health_finding f =
        bb_health_remark(s->soak->test, bb_health_tests[s->soak->test].part, BB_HEALTH_OK,
                         is_whole(s) ? -1 : (int)i / s->h->gpus, -1, is_whole(s) ? -1 : (int)i % s->h->gpus);

    f.level = bb_health_judge(s->lowest[i] / s->reference[i]);
    f.value = s->lowest[i];
    f.expected = s->reference[i];
    f.soak_reference = s->references[i];
    f.tries = s->soak->rounds;
    f.soak_s = fmax(s->lowest_s[i], AT_BEGIN_S);
    if (f.level == BB_HEALTH_OK && bb_health_judge(s->first[0][i] / s->reference[i]) != BB_HEALTH_OK) {
        f.level = BB_HEALTH_WARN;
        f.value = s->first[0][i];
        f.soak_s = AT_BEGIN_S;
        f.slow = 1;
    }
    return f;
}

/* Adds the findings of a test, and sets its worst value. All GPUs have the same value in a test of the whole job. */
static void judge_test(struct series *s)
{
    drop_findings(s->h, s->soak->test);
    find_references(s);
    s->soak->worst = NAN;
    for (size_t i = 0; i < count_gpus(s->h); i++) {
        const struct bb_health_finding f = judge_gpu(s, i);
        const double part = f.value / f.expected;

        if (isnan(part))
            continue;
        if (!(s->soak->worst <= part)) {
            s->soak->worst = part;
            s->soak->worst_value = f.value;
            s->soak->worst_s = f.soak_s > AT_BEGIN_S ? f.soak_s : 0;
            s->soak->reference = f.soak_reference;
            s->soak->node = f.node;
            s->soak->gpu = f.gpu;
        }
        if (f.level != BB_HEALTH_OK)
            bb_health_add(s->h, &f);
        if (is_whole(s))
            return;
    }
    if (isfinite(s->common))
        add_common(s);
}

static void start_series(struct series *s, struct bb_health *h, struct bb_soak *soak, enum bb_health_test test)
{
    const size_t n = count_gpus(h);

    *soak = (struct bb_soak){.test = test};
    *s = (struct series){.h = h, .soak = soak};
    BB_NEW(s->partner, h->nodes);
    for (int node = 0; node < h->nodes; node++) {
        s->partner[node] = bb_health_node_level(h, node) == BB_HEALTH_FAIL ? -1 : 0;
        s->nodes += s->partner[node] == 0;
    }
    for (int round = 0; round < FIRST; round++)
        BB_NEW(s->first[round], n);
    BB_NEW(s->reference, n);
    BB_NEW(s->references, n);
    BB_NEW(s->now, n);
    BB_NEW(s->lowest, n);
    BB_NEW(s->lowest_s, n);
}

static void end_series(struct series *s)
{
    free(s->partner);
    for (int round = 0; round < FIRST; round++)
        free(s->first[round]);
    free(s->reference);
    free(s->references);
    free(s->now);
    free(s->lowest);
    free(s->lowest_s);
}

int bb_soak_run(struct bb_health *h, double seconds, bb_soak_clock *clock, struct bb_soak soak[BB_SOAK_TESTS])
{
    const bool has_peers = bb_health_active(h) * h->gpus > 1;
    struct series all[BB_SOAK_TESTS];
    double start_s, now_s;
    int rc;

    h->is_soak = true;
    start_series(&all[0], h, &soak[0], BB_HEALTH_GEMM);
    start_series(&all[1], h, &soak[1], BB_HEALTH_WHOLE);
    TRY(clock(h->arg, &start_s));
    now_s = start_s;
    for (int round = 0; round < 2 || now_s - start_s < seconds; round++)
        for (int i = 0; i < BB_SOAK_TESTS; i++) {
            TRY(clock(h->arg, &now_s));
            if (i > 0 && !has_peers)
                continue;
            TRY(measure_round(&all[i], now_s - start_s));
            judge_test(&all[i]);
        }
    bb_health_sort(h);
out:
    for (int i = 0; i < BB_SOAK_TESTS; i++)
        end_series(&all[i]);
    h->is_soak = false;
    return rc;
}
