/* test_layout.c - groups of grids and irregular groups against member lists written by hand. */
#include "proxies/form/step/layout.h"
#include "proxies/form/step/program.h"
#include "tests/check.h"

static void assert_members(const struct bb_layout *l, int group, int instance, const int *members, int n)
{
    assert_int_equal(l->groups[group].size, n);
    for (int i = 0; i < n; i++) {
        assert_int_equal(bb_group_member(l, group, instance, i), members[i]);
        assert_int_equal(bb_group_instance(l, group, members[i]), instance);
        assert_int_equal(bb_group_index(l, group, members[i]), i);
    }
}

/* tp 2, dp 2, pp 2 in the order tp-dp-pp: TP [0 1][2 3].., DP [0 2][1 3].., PP [0 4][1 5].. */
static void groups_of_three_axes(void **state)
{
    const struct bb_axis axes[] = {{"tp", 2}, {"dp", 2}, {"pp", 2}};
    struct bb_layout l;
    int tp, dp, pp, both;

    (void)state;
    assert_int_equal(bb_layout_init(&l, 8, axes, 3), 0);
    tp = bb_layout_add_group(&l, "tp", 1);
    dp = bb_layout_add_group(&l, "dp", 2);
    pp = bb_layout_add_group(&l, "pp", 4);
    both = bb_layout_add_group(&l, "tp-pp", 1 | 4);
    assert_int_equal(l.groups[tp].instances, 4);
    assert_members(&l, tp, 1, (int[]){2, 3}, 2);
    assert_members(&l, dp, 0, (int[]){0, 2}, 2);
    assert_members(&l, dp, 3, (int[]){5, 7}, 2);
    assert_members(&l, pp, 2, (int[]){2, 6}, 2);
    assert_members(&l, both, 1, (int[]){2, 3, 6, 7}, 4);
    bb_layout_release(&l);
}

/* The groups of gpt3 with S = 3 stages, 4 tensor-parallel ranks and 2 replicas: r = (dp*4 + tp)*S + s. */
static void groups_of_strided_ranks(void **state)
{
    const struct bb_axis axes[] = {{"pp", 3}, {"tp", 4}, {"dp", 2}};
    struct bb_layout l;
    int pp, tp, dp;

    (void)state;
    assert_int_equal(bb_layout_init(&l, 24, axes, 3), 0);
    pp = bb_layout_add_group(&l, "pp", 1);
    tp = bb_layout_add_group(&l, "tp", 2);
    dp = bb_layout_add_group(&l, "dp", 4);
    assert_members(&l, pp, 1, (int[]){3, 4, 5}, 3);
    assert_members(&l, tp, 4, (int[]){13, 16, 19, 22}, 4);
    assert_members(&l, dp, 5, (int[]){5, 17}, 2);
    bb_layout_release(&l);
}

static void group_lookups_are_inverse(void **state)
{
    const struct bb_axis axes[] = {{"a", 3}, {"b", 1}, {"c", 4}, {"d", 5}};
    struct bb_layout l;

    (void)state;
    assert_int_equal(bb_layout_init(&l, 60, axes, 4), 0);
    for (unsigned mask = 0; mask < 16; mask++) {
        int g = bb_layout_add_group(&l, "g", mask), seen = 0;

        for (int i = 0; i < l.groups[g].instances; i++)
            for (int m = 0; m < l.groups[g].size; m++, seen++) {
                int rank = bb_group_member(&l, g, i, m);

                assert_int_equal(bb_group_instance(&l, g, rank), i);
                assert_int_equal(bb_group_index(&l, g, rank), m);
            }
        assert_int_equal(seen, 60);
    }
    bb_layout_release(&l);
}

/* Pairs {r, S-1-r} of five ranks: the middle rank is in no pair. */
static void irregular_groups_may_omit_ranks(void **state)
{
    const struct bb_axis axis = {"ranks", 5};
    struct bb_layout l;
    int pair;

    (void)state;
    assert_int_equal(bb_layout_init(&l, 5, &axis, 1), 0);
    pair = bb_layout_add_irregular(&l, "pair", (int[]){0, 4, 3, 1}, 2, 2);
    assert_true(pair >= 0);
    assert_members(&l, pair, 0, (int[]){0, 4}, 2);
    assert_members(&l, pair, 1, (int[]){3, 1}, 2);
    assert_int_equal(bb_group_instance(&l, pair, 2), BB_NONE);
    assert_int_equal(l.rc, 0);
    bb_layout_add_irregular(&l, "twice", (int[]){0, 1, 1, 2}, 2, 2);
    assert_int_equal(l.rc, -BB_EUSAGE);
    l.rc = 0;
    bb_layout_add_irregular(&l, "outside", (int[]){0, 5}, 1, 2);
    assert_int_equal(l.rc, -BB_EUSAGE);
    bb_layout_release(&l);
}

/* The first communicator beyond the limit sets the error; its index is valid all the same. */
static void rejects_too_many_communicators(void **state)
{
    const struct bb_axis axis = {"ranks", 2};
    struct bb_layout l;

    (void)state;
    assert_int_equal(bb_layout_init(&l, 2, &axis, 1), 0);
    bb_layout_add_group(&l, "all", 1);
    for (int c = 0; c < BB_MAX_COMMS; c++)
        assert_int_equal(bb_layout_add_comm(&l, "all", 0), c);
    assert_int_equal(l.rc, 0);
    assert_in_range(bb_layout_add_comm(&l, "all", 0), 0, BB_MAX_COMMS - 1);
    assert_int_equal(l.rc, -BB_EFAIL);
    bb_layout_release(&l);
}

static void rejects_invalid_layouts(void **state)
{
    struct bb_layout l;

    (void)state;
    assert_int_equal(bb_layout_init(&l, 8, (struct bb_axis[]){{"a", 3}, {"b", 2}}, 2), -BB_EUSAGE);
    assert_int_equal(bb_layout_init(&l, 8, (struct bb_axis[]){{"a", 8}, {"b", 0}}, 2), -BB_EUSAGE);
    assert_int_equal(bb_layout_init(&l, 0, NULL, 0), -BB_EUSAGE);
    assert_int_equal(bb_layout_init(&l, 1 << 20, (struct bb_axis[]){{"a", 1 << 30}, {"b", 1 << 30}}, 2), -BB_EUSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_three_axes),           cmocka_unit_test(groups_of_strided_ranks),
        cmocka_unit_test(group_lookups_are_inverse),      cmocka_unit_test(irregular_groups_may_omit_ranks),
        cmocka_unit_test(rejects_too_many_communicators), cmocka_unit_test(rejects_invalid_layouts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
