/*
 * test_every_slow_pair.c - plants up to three slow NICs, paths, rails and common causes in small clusters, thousands of
 * times, and checks that each slow pair of NICs that was measured is explained: by a finding on it, on one of its ends,
 * its rail or all, with no better level, and by one that is about as slow. There is no noise and no link that pairs
 * share.
 */
#include "collectives/health/verdict/verdict.h"
#include "tests/check.h"

#include <math.h>

enum { NODES = 9, GPUS = 3, FAULTS = 3, MACHINES = FEW_INPUTS ? 600 : 6000 };

static const double healthy = 48, factors[] = {0.1, 0.3, 0.5, 0.7, 0.75, 0.79, 0.82, 0.85, 0.88, 0.9, 0.92};

struct machine {
    struct bb_health h;
    double nic[NODES][GPUS], path[NODES][NODES], common; /* factors */
    double measured[NODES][NODES][GPUS];                 /* part of the healthy value; NaN: not in the stage pairs */
    uint64_t state;
    char text[256]; /* the faults */
};

static int choose(struct machine *m, int n)
{
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((m->state >> 33) % (uint64_t)n);
}

static double lowest_of_rail(const struct machine *m, const int *partner, int g)
{
    double lowest = 1;

    for (int a = 0; a < m->h.nodes; a++)
        for (int b = 0; b < m->h.nodes; b++)
            if (partner[a] >= 0 && partner[b] >= 0)
                lowest = fmin(lowest, fmin(m->nic[a][g], m->path[a][b]));
    return lowest;
}

static int measure(void *arg, enum bb_health_test test, const int *partner, double *values)
{
    struct machine *m = arg;
    double whole = 1;

    for (int g = 0; g < m->h.gpus; g++)
        whole = fmin(whole, lowest_of_rail(m, partner, g));
    for (int a = 0; a < m->h.nodes; a++)
        for (int g = 0; g < m->h.gpus; g++) {
            double part = test == BB_HEALTH_WHOLE ? whole : lowest_of_rail(m, partner, g);

            if (partner[a] >= 0 && test <= BB_HEALTH_BISECTION)
                part = fmin(fmin(m->nic[a][g], m->nic[partner[a]][g]), m->path[a][partner[a]]);
            if (partner[a] >= 0 && test == BB_HEALTH_PAIRS)
                m->measured[a][partner[a]][g] = m->common * part;
            values[a * m->h.gpus + g] = partner[a] < 0 ? NAN : healthy * m->common * part;
        }
    return 0;
}

static void plant(struct machine *m)
{
    const int kind = choose(m, 5), a = choose(m, m->h.nodes), b = choose(m, m->h.nodes), g = choose(m, m->h.gpus);
    const double factor = factors[choose(m, (int)ROWS(factors))];
    const size_t used = strlen(m->text);

    if (kind < 2)
        m->nic[a][g] = fmin(m->nic[a][g], factor);
    else if (kind < 4 && a != b)
        m->path[a][b] = m->path[b][a] = factor;
    else if (kind == 4 && g > 0)
        for (int n = a > 1 ? 0 : 2; n < m->h.nodes; n++) /* all nodes, or all but two */
            m->nic[n][g] = fmin(m->nic[n][g], factor);
    else
        m->common = factor;
    snprintf(m->text + used, sizeof m->text - used, "%s: %d %d GPU %d %g; ",
             kind < 2             ? "NIC"
             : kind < 4 && a != b ? "path"
             : kind == 4 && g > 0 ? "rail"
                                  : "common",
             a, b, g, factor);
}

static struct machine machine_of(int seed)
{
    struct machine m = {.h = {.measure = measure}, .common = 1, .state = (uint64_t)seed * 0x9e3779b97f4a7c15u + 1};

    m.h.nodes = 2 + choose(&m, NODES - 1);
    m.h.gpus = 1 + choose(&m, GPUS);
    m.h.every_pair = choose(&m, 2);
    for (int test = 0; test < BB_HEALTH_TESTS; test++) {
        m.h.skip[test] = test < BB_HEALTH_PAIRS;
        m.h.expected[test] = healthy;
    }
    for (int a = 0; a < NODES; a++) {
        for (int g = 0; g < GPUS; g++)
            m.nic[a][g] = 1;
        for (int b = 0; b < NODES; b++) {
            m.path[a][b] = 1;
            for (int g = 0; g < GPUS; g++)
                m.measured[a][b][g] = NAN;
        }
    }
    for (int faults = choose(&m, FAULTS + 1); faults > 0; faults--)
        plant(&m);
    return m;
}

static bool is_inside(const struct bb_health_finding *f, int node)
{
    return node >= f->node && node <= f->other;
}

/* Returns whether a finding is about what a pair of NICs uses. */
static bool is_about(const struct bb_health_finding *f, int a, int b, int g)
{
    switch (f->part) {
    case BB_HEALTH_A_NODE:
        return f->node == a || f->node == b;
    case BB_HEALTH_A_NIC:
        return (f->node == a || f->node == b) && f->gpu == g;
    case BB_HEALTH_A_PATH: /* its gpu is the slowest one */
        return (f->node == a && f->other == b) || (f->node == b && f->other == a);
    case BB_HEALTH_A_RAIL:
        return f->gpu == g;
    case BB_HEALTH_A_LEAF:
        return is_inside(f, a) != is_inside(f, b);
    default:
        return f->part == BB_HEALTH_ALL;
    }
}

static bool is_explained(const struct machine *m, int a, int b, int g)
{
    const double part = m->measured[a][b][g];
    const enum bb_health_level level = part < 0.8 ? BB_HEALTH_FAIL : part < 0.93 ? BB_HEALTH_WARN : BB_HEALTH_OK;
    bool is_as_bad = false, is_as_slow = false;

    for (size_t i = 0; i < m->h.n; i++)
        if (is_about(&m->h.findings[i], a, b, g)) {
            /* a rail is judged by all, a NIC by its rail, and a path by its NICs: each may differ by 0.93 */
            const double limit =
                m->h.findings[i].part == BB_HEALTH_ALL || m->h.findings[i].part == BB_HEALTH_A_RAIL ? 0.93 : 1;

            is_as_bad |= m->h.findings[i].level >= level;
            is_as_slow |= part * healthy >= 0.93 * limit * m->h.findings[i].value;
        }
    return (is_as_bad && is_as_slow) || level == BB_HEALTH_OK || isnan(part);
}

/* Returns whether each finding is about something slow: a NIC is slow with every partner, and what is slow only while
 * all pairs run does not exist. */
static bool is_true(const struct machine *m, const struct bb_health_finding *f)
{
    const double limit = 0.97 * m->common;
    bool has_all = true;

    for (int b = 0; b < m->h.nodes && f->part == BB_HEALTH_A_NIC; b++)
        if (m->measured[f->node][b][f->gpu] > limit)
            return false;
    for (int a = 0; a < m->h.nodes; a++)
        for (int b = 0; b < m->h.nodes; b++)
            has_all &= a == b || !isnan(m->measured[a][b][0]);
    return f->part != BB_HEALTH_FABRIC || (f->test == BB_HEALTH_BISECTION && !has_all);
}

static bool check(const struct machine *m)
{
    bool all = true;

    for (int a = 0; a < m->h.nodes; a++)
        for (int b = a + 1; b < m->h.nodes; b++)
            for (int g = 0; g < m->h.gpus; g++)
                if (!is_explained(m, a, b, g)) {
                    print_error("unexplained: %d-%d GPU %d: %g\n", a, b, g, m->measured[a][b][g]);
                    all = false;
                }
    for (size_t i = 0; i < m->h.n; i++)
        all = all && is_true(m, &m->h.findings[i]);
    if (!all || (*m->text == '\0' && m->h.n > 0)) {
        print_error("%d nodes, %d GPUs, every pair %d: %s\n", m->h.nodes, m->h.gpus, m->h.every_pair, m->text);
        for (size_t i = 0; i < m->h.n; i++)
            print_error("  %s %s %s %d %d GPU %d: %.3f\n", bb_health_level_name(m->h.findings[i].level),
                        bb_health_tests[m->h.findings[i].test].stage, bb_health_parts[m->h.findings[i].part],
                        m->h.findings[i].node, m->h.findings[i].other, m->h.findings[i].gpu,
                        m->h.findings[i].value / healthy);
        return false;
    }
    return true;
}

static void test_every_slow_pair_is_explained(void **state)
{
    int failed = 0;

    (void)state;
    for (int seed = 0; seed < MACHINES; seed++) {
        struct machine m = machine_of(seed);

        m.h.arg = &m;
        assert_int_equal(bb_health_run(&m.h), 0);
        failed += !check(&m);
        bb_health_release(&m.h);
    }
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_slow_pair_is_explained)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
