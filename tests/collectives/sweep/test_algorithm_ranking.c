/*
 * test_algorithm_ranking.c - whether NCCL's choice was the best: clear cases, noise, drift, and undecidable cases.
 */
#include "collectives/sweep/algorithm_ranking.h"
#include "tests/check.h"

#include <math.h>

static struct bb_stats stats(double low, double median, double high)
{
    return (struct bb_stats){.n = 6, .p50 = median, .ci95 = {low, high}};
}

static struct bb_ranking ranking_of(struct bb_stats chosen)
{
    return (struct bb_ranking){.chosen = {.ran = {.kind = BB_CHOICE_COLLECTIVE}, .time_us = chosen}};
}

static void add(struct bb_ranking *c, enum bb_candidate_status status, struct bb_stats time_us)
{
    c->others[c->n_others++] = (struct bb_candidate){.status = status, .time_us = time_us};
}

static void significantly_faster_candidate_wins(void **state)
{
    struct bb_ranking c = ranking_of(stats(9, 10, 11));
    struct bb_outcome o;

    (void)state;
    add(&c, BB_CANDIDATE_MEASURED, stats(6, 7, 8.9));
    add(&c, BB_CANDIDATE_MEASURED, stats(4, 5, 6));
    add(&c, BB_CANDIDATE_MEASURED, stats(19, 20, 21));
    o = bb_ranking_judge(&c);
    assert_int_equal(o.verdict, BB_VERDICT_NOT_BEST);
    assert_ptr_equal(o.best, &c.others[1]);
    assert_true(fabs(o.lost_factor - 2) < 1e-12);
}

/* If intervals touch, the verdict is "as good", even if another median is lower. */
static void touching_intervals_are_as_good(void **state)
{
    struct bb_ranking c = ranking_of(stats(9, 10, 11));
    struct bb_outcome o;

    (void)state;
    add(&c, BB_CANDIDATE_MEASURED, stats(7, 8, 9));
    o = bb_ranking_judge(&c);
    assert_int_equal(o.verdict, BB_VERDICT_AS_GOOD);
    assert_ptr_equal(o.best, &c.chosen);
    add(&c, BB_CANDIDATE_MEASURED, stats(8.5, 8.6, 8.9)); /* narrow interval: significantly faster */
    o = bb_ranking_judge(&c);
    assert_int_equal(o.verdict, BB_VERDICT_NOT_BEST);
    assert_ptr_equal(o.best, &c.others[1]);
}

static void choice_is_best_if_no_candidate_is_faster(void **state)
{
    struct bb_ranking c = ranking_of(stats(10, 10, 10));

    (void)state;
    add(&c, BB_CANDIDATE_MEASURED, stats(10, 10, 10));
    add(&c, BB_CANDIDATE_MEASURED, stats(12, 13, 14));
    assert_int_equal(bb_ranking_judge(&c).verdict, BB_VERDICT_BEST);
    assert_true(bb_ranking_judge(&c).lost_factor == 1);
}

static void only_measured_candidates_count(void **state)
{
    static const enum bb_candidate_status others[] = {BB_CANDIDATE_IGNORED, BB_CANDIDATE_NOT_OFFERED,
                                                      BB_CANDIDATE_WRONG};
    struct bb_ranking c = ranking_of(stats(9, 10, 11));

    (void)state;
    for (int i = 0; i < 3; i++)
        add(&c, others[i], stats(1, 1, 1));
    assert_int_equal(bb_ranking_judge(&c).verdict, BB_VERDICT_UNKNOWN);
    add(&c, BB_CANDIDATE_MEASURED, stats(20, 20, 20));
    assert_int_equal(bb_ranking_judge(&c).verdict, BB_VERDICT_BEST);
}

/* NCCL's choice ran first, on a cold GPU: a second measurement of the choice reverses the verdict. */
static void second_measurement_can_reverse_the_verdict(void **state)
{
    struct bb_ranking c = ranking_of(stats(19, 20, 21));

    (void)state;
    add(&c, BB_CANDIDATE_MEASURED, stats(9, 10, 11));
    assert_int_equal(bb_ranking_judge(&c).verdict, BB_VERDICT_NOT_BEST);
    c.again_us = stats(8, 10, 12);
    assert_int_equal(bb_ranking_judge(&c).verdict, BB_VERDICT_BEST);
    c.again_us = stats(29, 30, 31); /* the second measurement is slower, so the first one counts */
    assert_true(bb_ranking_judge(&c).lost_factor == 2);
}

static void verdict_is_unknown_without_intervals_or_choice(void **state)
{
    struct bb_ranking c = ranking_of(stats(NAN, 10, NAN)), none = ranking_of(stats(9, 10, 11));

    (void)state;
    add(&c, BB_CANDIDATE_MEASURED, stats(NAN, 1, NAN));
    assert_int_equal(bb_ranking_judge(&c).verdict, BB_VERDICT_UNKNOWN);
    assert_true(isnan(bb_ranking_judge(&c).lost_factor));
    none.chosen.ran.kind = BB_CHOICE_P2P;
    add(&none, BB_CANDIDATE_MEASURED, stats(1, 1, 1));
    assert_int_equal(bb_ranking_judge(&none).verdict, BB_VERDICT_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(significantly_faster_candidate_wins),
        cmocka_unit_test(touching_intervals_are_as_good),
        cmocka_unit_test(choice_is_best_if_no_candidate_is_faster),
        cmocka_unit_test(only_measured_candidates_count),
        cmocka_unit_test(second_measurement_can_reverse_the_verdict),
        cmocka_unit_test(verdict_is_unknown_without_intervals_or_choice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
