/* test_tuner_file.c - lines of the tuner file derived from gains per size. */
#include "collectives/ops/coll.h"
#include "collectives/session/tuner_file.h"
#include "tests/check.h"

#include <stdint.h>
#include <stdlib.h>

enum { TREE_LL = 0, RING_LL = 3, RING_SIMPLE = 5 };

/* A size at which NCCL chooses RING SIMPLE with `own` channels, and TREE LL with `channels` channels has a gain. */
static void add(struct bb_tuning *t, size_t bytes, int own, double gain, int channels)
{
    struct bb_tuning_size size = {.coll = BB_ALL_REDUCE, .bytes = bytes, .own = RING_SIMPLE, .own_channels = own};

    size.gains[TREE_LL] = gain;
    size.channels[TREE_LL] = channels;
    bb_tuning_add(t, &size);
}

static void rule_is(const struct bb_tuning_rule *r, int pair, int channels, size_t low, size_t high, double gain)
{
    assert_int_equal(r->pair, pair);
    assert_int_equal(r->channels, channels);
    assert_int_equal(r->min_bytes, low);
    assert_int_equal(r->max_bytes, high);
    assert_true(r->gain == gain);
}

static void joins_sizes_with_equal_pairs_and_channels(void **state)
{
    struct bb_tuning t = {.ranks = 4, .nodes = 1, .min_gain = 1.03};
    struct bb_tuning_rule *rules;
    size_t gains, n;

    (void)state;
    add(&t, 4096, 4, 1.5, 2); /* in any order */
    add(&t, 1024, 2, 2, 2);
    add(&t, 8192, 4, 1.4, 4);
    add(&t, 16384, 8, 1.02, 4);
    add(&t, 32768, 8, 0, 4);
    add(&t, 65536, 8, 1.1, 4);
    rules = bb_tuning_rules(&t, &gains, &n);
    assert_int_equal(gains, 3);
    rule_is(&rules[0], TREE_LL, 2, 1024, 4096, 1.5);
    rule_is(&rules[1], TREE_LL, 4, 8192, 8192, 1.4); /* the gain at 16384 is below 3 % */
    rule_is(&rules[2], TREE_LL, 4, 65536, 65536, 1.1);
    assert_int_equal(n, 6); /* NCCL's choices cover all sizes */
    rule_is(&rules[3], RING_SIMPLE, 2, 0, 4095, 0);
    rule_is(&rules[4], RING_SIMPLE, 4, 4096, 16383, 0);
    rule_is(&rules[5], RING_SIMPLE, 8, 16384, INT64_MAX, 0);
    free(rules);
    free(t.sizes);
}

static void requires_the_gain_in_all_measurements_of_a_size(void **state)
{
    struct bb_tuning t = {.ranks = 4, .nodes = 1, .min_gain = 1.03};

    (void)state;
    add(&t, 1024, 2, 2, 2);
    add(&t, 1024, 2, 1.2, 2);
    assert_int_equal(t.n, 1);
    assert_int_equal(bb_tuning_best(&t, &t.sizes[0]), TREE_LL);
    assert_true(t.sizes[0].gains[TREE_LL] == 1.2);
    add(&t, 1024, 2, 0, 2);
    assert_int_equal(bb_tuning_best(&t, &t.sizes[0]), -1);
    free(t.sizes);
}

/* Sizes with the same number of bytes per rank are one size, so a rule applies to none of them unless to all. */
static void ncclx_joins_sizes_with_equal_bytes_per_rank(void **state)
{
    struct bb_tuning t = {.ncclx = true, .ranks = 8, .nodes = 2, .min_gain = 1.03};
    struct bb_tuning_rule *rules;
    size_t gains, n;

    (void)state;
    add(&t, 8, 2, 2, 2);
    add(&t, 12, 2, 0, 2);
    add(&t, 64, 2, 2, 2);
    add(&t, 128, 2, 1.5, 4);
    rules = bb_tuning_rules(&t, &gains, &n);
    assert_int_equal(gains, 1);
    assert_int_equal(n, 1);
    rule_is(&rules[0], TREE_LL, -1, 8, 16, 1.5);
    assert_ptr_equal(bb_tuning_find(&t, BB_ALL_REDUCE, 12), bb_tuning_find(&t, BB_ALL_REDUCE, 8));
    free(rules);
    free(t.sizes);
}

static void names_are_those_of_nccls_plugin(void **state)
{
    char text[BB_TUNING_TEXT];

    (void)state;
    assert_string_equal(bb_tuning_text(bb_colls[BB_REDUCE_SCATTER].name, true, text), "reducescatter");
    assert_string_equal(bb_tuning_text(bb_algorithms[2], false, text), "collnet_direct");
    assert_string_equal(bb_tuning_text(bb_protocols[RING_LL % BB_PROTOCOLS], false, text), "ll");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(joins_sizes_with_equal_pairs_and_channels),
                                       cmocka_unit_test(requires_the_gain_in_all_measurements_of_a_size),
                                       cmocka_unit_test(ncclx_joins_sizes_with_equal_bytes_per_rank),
                                       cmocka_unit_test(names_are_those_of_nccls_plugin)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
