/* test_soak.c - plants a slowdown that begins during the soak, and reads the findings. */
#include "collectives/health/soak.h"

#include "bootstrap/base/alloc.h"
#include "tests/check.h"

#include <math.h>

enum { NODES = 4, GPUS = 2 };

/* now_s: each measurement takes a second, a round two. From slow_s on, GPU 1 of node 2 and all_reduce have this part of
 * their rates for some seconds, and the part `first` in the first round. */
struct machine {
    struct bb_health h;
    double now_s, slow_s, for_s, gpu, whole, first;
};

static int measure(void *arg, enum bb_health_test test, const int *partner, double *values)
{
    struct machine *m = arg;
    const bool is_slow = m->now_s >= m->slow_s && m->now_s < m->slow_s + m->for_s;
    const double first = m->now_s < 2 ? m->first : 1;

    for (int i = 0; i < NODES * GPUS; i++) {
        values[i] = partner[i / GPUS] < 0 ? NAN : 100 + i;
        if (is_slow && test == BB_HEALTH_WHOLE)
            values[i] *= m->whole;
        if (test == BB_HEALTH_WHOLE || i == 2 * GPUS + 1)
            values[i] *= first;
        if (is_slow && test == BB_HEALTH_GEMM && i == 2 * GPUS + 1)
            values[i] *= m->gpu;
    }
    m->now_s++;
    return 0;
}

static int read_clock(void *arg, double *s)
{
    *s = ((struct machine *)arg)->now_s;
    return 0;
}

static struct machine run(double gpu, double whole, double seconds, struct bb_soak soak[BB_SOAK_TESTS])
{
    struct machine m = {.h = {.nodes = NODES, .gpus = GPUS, .measure = measure},
                        .slow_s = 20,
                        .for_s = 4,
                        .gpu = gpu,
                        .whole = whole,
                        .first = 1};
    const struct bb_health_finding failed = {.part = BB_HEALTH_A_NODE, .level = BB_HEALTH_FAIL, .node = 0};

    m.h.arg = &m;
    bb_health_add(&m.h, &failed);
    assert_int_equal(bb_soak_run(&m.h, seconds, read_clock, soak), 0);
    return m;
}

static void test_a_slowdown_has_its_gpu_and_time(void **state)
{
    struct bb_soak soak[BB_SOAK_TESTS];
    struct machine m = run(0.7, 0.9, 60, soak);
    const struct bb_health_finding *gpu = &m.h.findings[0], *whole = &m.h.findings[2];

    (void)state;
    assert_int_equal(m.h.n, 3);
    gpu = gpu->part == BB_HEALTH_A_GPU ? gpu : &m.h.findings[1];
    assert_true(gpu->level == BB_HEALTH_FAIL && gpu->node == 2 && gpu->gpu == 1 && gpu->soak_s == 20);
    assert_true(fabs(gpu->value / gpu->expected - 0.7) < 1e-9);
    assert_true(whole->part == BB_HEALTH_ALL && whole->level == BB_HEALTH_WARN && whole->node < 0 &&
                whole->soak_s == 21);
    assert_true(soak[0].last_s == 60 && soak[1].last_s == 61 && soak[0].rounds == 31 && soak[1].rounds == 31 &&
                soak[0].node == 2 && soak[0].gpu == 1);
    assert_true(fabs(soak[0].worst - 0.7) < 1e-9 && soak[0].worst_s == 20 && soak[0].last == soak[0].first);
    bb_health_release(&m.h);
}

static void test_even_values_have_no_finding(void **state)
{
    struct bb_soak soak[BB_SOAK_TESTS];
    struct machine m = run(0.95, 1, 60, soak);

    (void)state;
    assert_true(m.h.n == 1 && fabs(soak[0].worst - 0.95) < 1e-9 && soak[1].worst == 1);
    bb_health_release(&m.h);
    m = run(1, 1, 0.1, soak);
    assert_true(soak[0].rounds == 2 && soak[0].first == 104.5); /* of the nodes that have not failed */
    bb_health_release(&m.h);
}

enum source { NO_SOURCE, STAGES, STAGES_OF_MORE_NODES, EXPECTATION };

/* Sets what the stages gpu and whole reached, or the expectation: the healthy rates. */
static void set_source(struct machine *m, enum source source)
{
    static const enum bb_health_test tests[] = {BB_HEALTH_GEMM, BB_HEALTH_WHOLE};

    for (size_t t = 0; t < ROWS(tests); t++) {
        struct bb_health_reached *reached = &m->h.reached[tests[t]];

        m->h.expected[tests[t]] = source == EXPECTATION ? 105 : NAN;
        if (source != STAGES && source != STAGES_OF_MORE_NODES)
            continue;
        BB_NEW(reached->values, NODES * GPUS);
        reached->nodes = NODES + (source == STAGES_OF_MORE_NODES);
        for (int i = 0; i < NODES * GPUS; i++)
            reached->values[i] = 100 + i;
    }
}

/* A slowdown that begins before the soak, or in it after a slow first round, is found by the source that knows the
 * healthy rate. */
static void test_reference_is_not_a_slow_first_round(void **state)
{
    static const struct {
        double first, slow_s;
        enum source source;
        enum bb_health_level gpu, whole;
        enum bb_soak_reference of_gpu, of_whole;
    } rows[] = {
        {1, 0, STAGES, BB_HEALTH_FAIL, BB_HEALTH_FAIL, BB_SOAK_STAGE, BB_SOAK_STAGE},
        {1, 0, STAGES_OF_MORE_NODES, BB_HEALTH_FAIL, BB_HEALTH_OK, BB_SOAK_STAGE, BB_SOAK_FIRST},
        {1, 0, EXPECTATION, BB_HEALTH_FAIL, BB_HEALTH_FAIL, BB_SOAK_EXPECTED, BB_SOAK_EXPECTED},
        {1, 0, NO_SOURCE, BB_HEALTH_FAIL, BB_HEALTH_OK, BB_SOAK_PEERS, BB_SOAK_FIRST},
        {0.75, 10, NO_SOURCE, BB_HEALTH_FAIL, BB_HEALTH_FAIL, BB_SOAK_FIRST, BB_SOAK_FIRST},
        {0.75, 1000, NO_SOURCE, BB_HEALTH_WARN, BB_HEALTH_WARN, BB_SOAK_FIRST, BB_SOAK_FIRST},
        {0.97, 1000, NO_SOURCE, BB_HEALTH_OK, BB_HEALTH_OK, BB_SOAK_FIRST, BB_SOAK_FIRST},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct machine m = {.h = {.nodes = NODES, .gpus = GPUS, .measure = measure},
                            .slow_s = rows[i].slow_s,
                            .for_s = INFINITY,
                            .gpu = 0.77,
                            .whole = 0.77,
                            .first = rows[i].first};
        enum bb_health_level gpu = BB_HEALTH_OK, whole = BB_HEALTH_OK;
        struct bb_soak soak[BB_SOAK_TESTS];

        m.h.arg = &m;
        set_source(&m, rows[i].source);
        assert_int_equal(bb_soak_run(&m.h, 60, read_clock, soak), 0);
        for (size_t k = 0; k < m.h.n; k++) {
            const struct bb_health_finding *f = &m.h.findings[k];

            assert_true(f->part == BB_HEALTH_ALL || (f->node == 2 && f->gpu == 1));
            assert_true((f->slow == 1) == (rows[i].slow_s == 1000));
            *(f->part == BB_HEALTH_ALL ? &whole : &gpu) = f->level;
        }
        assert_true(gpu == rows[i].gpu && whole == rows[i].whole);
        assert_true(soak[0].reference == rows[i].of_gpu && soak[1].reference == rows[i].of_whole);
        bb_health_release(&m.h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_slowdown_has_its_gpu_and_time),
                                       cmocka_unit_test(test_even_values_have_no_finding),
                                       cmocka_unit_test(test_reference_is_not_a_slow_first_round)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
