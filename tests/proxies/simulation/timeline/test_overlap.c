/* test_overlap.c - interval arithmetic against cases computed by hand and against counting each nanosecond. */
#include "proxies/simulation/timeline/overlap.h"
#include "tests/check.h"

#include <math.h>
#include <stdbool.h>

static void add(struct bb_spans *s, int64_t begin, int64_t end)
{
    bb_spans_add(s, begin, end);
}

static void joined_spans_are_sorted_and_disjoint(void **state)
{
    struct bb_spans s = {0};

    (void)state;
    add(&s, 50, 60);
    add(&s, 10, 20);
    add(&s, 15, 30); /* overlaps */
    add(&s, 30, 35); /* touches */
    add(&s, 12, 14); /* is contained */
    add(&s, 70, 70); /* empty */
    add(&s, 90, 80); /* negative length */
    bb_spans_join(&s);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.at[0].begin_ns, 10);
    assert_int_equal(s.at[0].end_ns, 35);
    assert_int_equal(s.at[1].begin_ns, 50);
    assert_int_equal(s.at[1].end_ns, 60);
    assert_int_equal(bb_spans_length(&s), 35);
    bb_spans_release(&s);
}

struct overlap_case {
    const char *what;
    int64_t step, compute[4], comm[4]; /* up to two intervals each; 0, 0: none */
    int64_t c, m, exposed, idle;
    double fraction;
};

static const struct overlap_case overlap_cases[] = {
    {"fully hidden", 100, {0, 100, 0, 0}, {20, 60, 0, 0}, 100, 40, 0, 0, 1},
    {"fully exposed", 100, {0, 60, 0, 0}, {60, 100, 0, 0}, 60, 40, 40, 0, 0},
    {"half", 100, {0, 50, 0, 0}, {30, 70, 0, 0}, 50, 40, 20, 30, 0.5},
    {"idle on both sides", 100, {10, 20, 0, 0}, {30, 40, 0, 0}, 10, 10, 10, 80, 0},
    {"two streams are a union, no sum", 100, {0, 10, 0, 0}, {0, 50, 20, 80}, 10, 80, 70, 20, 0.125},
    {"between two kernels", 100, {0, 40, 60, 100}, {30, 70, 0, 0}, 80, 40, 20, 0, 0.5},
    {"no compute", 100, {0, 0, 0, 0}, {0, 100, 0, 0}, 0, 100, 100, 0, 0},
};

static void overlap_of_cases_computed_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS(overlap_cases); i++) {
        const struct overlap_case *h = &overlap_cases[i];
        struct bb_spans compute = {0}, comm = {0};
        struct bb_overlap o;

        for (int k = 0; k < 4; k += 2) {
            add(&compute, h->compute[k], h->compute[k + 1]);
            add(&comm, h->comm[k], h->comm[k + 1]);
        }
        bb_overlap_of(h->step, &compute, &comm, &o);
        print_message("%s\n", h->what);
        assert_int_equal(o.step_ns, h->step);
        assert_int_equal(o.compute_ns, h->c);
        assert_int_equal(o.comm_ns, h->m);
        assert_int_equal(o.exposed_ns, h->exposed);
        assert_int_equal(o.idle_ns, h->idle);
        assert_true(fabs(o.overlap_fraction - h->fraction) < 1e-12);
        bb_spans_release(&compute);
        bb_spans_release(&comm);
    }
}

static void overlap_fraction_is_nan_without_communication(void **state)
{
    struct bb_spans compute = {0}, comm = {0};
    struct bb_overlap o;

    (void)state;
    add(&compute, 0, 10);
    bb_overlap_of(15, &compute, &comm, &o);
    assert_true(isnan(o.overlap_fraction));
    assert_int_equal(o.idle_ns, 5);
    bb_spans_release(&compute);
}

enum { LENGTH = 200 };

static void add_random_spans(bool *line, struct bb_spans *s, unsigned *seed)
{
    for (int n = rand_r(seed) % 12; n > 0; n--) {
        int begin = rand_r(seed) % LENGTH, end = begin + rand_r(seed) % (LENGTH - begin);

        add(s, begin, end);
        for (int t = begin; t < end; t++)
            line[t] = true;
    }
}

static void overlap_of_random_intervals_matches_counting(void **state)
{
    unsigned seed = 1;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        bool c[LENGTH] = {0}, m[LENGTH] = {0};
        struct bb_spans compute = {0}, comm = {0};
        struct bb_overlap o;
        int exposed = 0, idle = 0, busy = 0;

        add_random_spans(c, &compute, &seed);
        add_random_spans(m, &comm, &seed);
        for (int t = 0; t < LENGTH; t++) {
            exposed += m[t] && !c[t];
            idle += !m[t] && !c[t];
            busy += m[t];
        }
        bb_overlap_of(LENGTH, &compute, &comm, &o);
        assert_int_equal(o.exposed_ns, exposed);
        assert_int_equal(o.idle_ns, idle);
        assert_int_equal(o.comm_ns, busy);
        bb_spans_release(&compute);
        bb_spans_release(&comm);
    }
}

/* By counting: random intervals of each set; transfers and stages are subsets of the communication. */
static void exposed_time_by_cause_matches_counting(void **state)
{
    unsigned seed = 7;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        bool c[LENGTH] = {0}, m[LENGTH] = {0}, x[LENGTH] = {0}, p[LENGTH] = {0};
        struct bb_intervals s = {0};
        struct bb_exposure e;
        int transfer = 0, bubble = 0, waiting = 0;

        add_random_spans(c, &s.compute, &seed);
        add_random_spans(m, &s.comm, &seed);
        add_random_spans(x, &s.transfers, &seed);
        add_random_spans(p, &s.stages, &seed);
        bb_spans_add_all(&s.comm, &s.transfers);
        bb_spans_add_all(&s.comm, &s.stages);
        for (int t = 0; t < LENGTH; t++) {
            transfer += !c[t] && x[t];
            bubble += !c[t] && !x[t] && p[t];
            waiting += !c[t] && !x[t] && !p[t] && m[t];
        }
        e = bb_exposure_of(&s);
        assert_int_equal(e.transfer_ns, transfer);
        assert_int_equal(e.bubble_ns, bubble);
        assert_int_equal(e.waiting_ns, waiting);
        bb_intervals_release(&s);
    }
}

static struct bb_rank_load load_at(const void *loads, int i)
{
    return ((const struct bb_rank_load *)loads)[i];
}

static void the_busiest_of_the_ranks_that_end_last_limits_the_step(void **state)
{
    static const struct bb_rank_load loads[] = {{100, 40}, {99, 90}, {99.5, 90}, {98, 95}, {-1, 99}};

    (void)state;
    assert_int_equal(bb_limiting_rank(5, load_at, loads), 1);
    assert_int_equal(bb_limiting_rank(1, load_at, loads), 0);
    assert_int_equal(bb_limiting_rank(1, load_at, &loads[4]), BB_NONE);
    assert_int_equal(bb_limiting_rank(0, load_at, loads), BB_NONE);
}

static void efficiency_from_three_step_times(void **state)
{
    (void)state;
    assert_true(bb_overlap_efficiency(100, 40, 100) == 1); /* the shorter part is hidden */
    assert_true(bb_overlap_efficiency(100, 40, 140) == 0); /* no overlap */
    assert_true(bb_overlap_efficiency(100, 40, 120) == 0.5);
    assert_true(bb_overlap_efficiency(100, 40, 160) == -0.5); /* overlap makes the step longer */
    assert_true(isnan(bb_overlap_efficiency(0, 40, 40)));
    assert_true(bb_overlap_efficiency(100, 1, 100) == 1);
    assert_true(isnan(bb_overlap_efficiency(144.927, 0.000323, 180.927))); /* nothing to hide: below 1 % of the step */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joined_spans_are_sorted_and_disjoint),
        cmocka_unit_test(overlap_of_cases_computed_by_hand),
        cmocka_unit_test(overlap_fraction_is_nan_without_communication),
        cmocka_unit_test(overlap_of_random_intervals_matches_counting),
        cmocka_unit_test(exposed_time_by_cause_matches_counting),
        cmocka_unit_test(the_busiest_of_the_ranks_that_end_last_limits_the_step),
        cmocka_unit_test(efficiency_from_three_step_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
