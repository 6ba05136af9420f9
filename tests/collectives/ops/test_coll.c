/* test_coll.c - the table of collectives against values computed by hand and the published formulas. */
#include "collectives/ops/coll.h"
#include "tests/check.h"

/* Buffer sizes in units of count, and the busbw factor as (a n + b) / n, from nccl-tests' documentation. */
static const struct {
    const char *name;
    bool send_all, recv_all; /* n slices; false: one */
    int factor_n, factor_1;  /* factor = (factor_n * n + factor_1) / n */
    bool reduces, rooted, sliced;
    enum bb_coll_inplace inplace;
    unsigned more_flags; /* further flags */
    enum bb_coll_from from;
} published[] = {
    {"all_reduce", false, false, 2, -2, true, false, false, BB_INPLACE_SAME, BB_COLL_ESTIMATED, BB_FROM_ALL},
    {"all_gather", false, true, 1, -1, false, false, true, BB_INPLACE_SEND_IN_RECV, BB_COLL_ESTIMATED, BB_FROM_ALL},
    {"reduce_scatter", true, false, 1, -1, true, false, true, BB_INPLACE_RECV_IN_SEND, BB_COLL_ESTIMATED, BB_FROM_ALL},
    {"broadcast", false, false, 1, 0, false, true, false, BB_INPLACE_SAME, BB_COLL_ESTIMATED, BB_FROM_ROOT},
    {"reduce", false, false, 1, 0, true, true, false, BB_INPLACE_SAME, BB_COLL_ESTIMATED, BB_FROM_ALL},
    {"alltoall", true, true, 1, -1, false, false, true, BB_INPLACE_NONE, 0, BB_FROM_ALL},
    {"gather", false, true, 1, -1, false, true, true, BB_INPLACE_SEND_IN_RECV, 0, BB_FROM_ALL},
    {"scatter", true, false, 1, -1, false, true, true, BB_INPLACE_RECV_IN_SEND, 0, BB_FROM_ROOT},
    {"sendrecv", false, false, 1, 0, false, false, false, BB_INPLACE_NONE, 0, BB_FROM_PREVIOUS},
    {"alltoallv", true, true, 1, -1, false, false, true, BB_INPLACE_NONE, BB_COLL_VARIABLE_COUNTS, BB_FROM_ALL},
    {"hypercube", false, true, 1, 0, false, false, true, BB_INPLACE_SEND_IN_RECV, BB_COLL_ROUNDS, BB_FROM_ALL},
};

static void table_matches_published_formulas(void **state)
{
    (void)state;
    assert_int_equal(ROWS(published), BB_COLL_KIND_COUNT);
    for (size_t i = 0; i < BB_COLL_KIND_COUNT; i++) {
        const struct bb_coll *c = &bb_colls[bb_coll_find(published[i].name)];
        for (int n = 1; n <= 9; n++) {
            assert_int_equal(c->send_count(100, n), published[i].send_all ? 100 * n : 100);
            assert_int_equal(c->recv_count(100, n), published[i].recv_all ? 100 * n : 100);
            assert_float_equal(c->bus_factor(n), (double)(published[i].factor_n * n + published[i].factor_1) / n,
                               1e-12);
        }
        assert_int_equal(c->flags, published[i].reduces * BB_COLL_REDUCES | published[i].rooted * BB_COLL_ROOTED |
                                       published[i].sliced * BB_COLL_SLICED | published[i].more_flags);
        assert_int_equal(c->inplace, published[i].inplace);
        assert_int_equal(c->from, published[i].from);
    }
}

/* nccl-tests skips the hypercube for other numbers of ranks. */
static void hypercube_requires_a_power_of_two(void **state)
{
    (void)state;
    for (int n = 1; n <= 16; n++) {
        assert_int_equal(bb_coll_possible(BB_HYPERCUBE, n), n == 1 || n == 2 || n == 4 || n == 8 || n == 16);
        assert_true(bb_coll_possible(BB_ALL_GATHER, n));
    }
    assert_float_equal(bb_colls[BB_HYPERCUBE].alg_factor(4), 0.75, 1e-12);
}

static void finds_names(void **state)
{
    (void)state;
    for (int i = 0; i < BB_COLL_KIND_COUNT; i++) {
        assert_int_equal(bb_coll_find(bb_colls[i].name), i);
        assert_true(strlen(bb_colls[i].help) > 0 && strlen(bb_colls[i].factor_text) > 0);
    }
    assert_int_equal(bb_coll_find("allreduce"), -1);
    for (int i = 0; i < BB_DTYPE_COUNT; i++)
        assert_int_equal(bb_dtype_find(bb_dtype_name_at((size_t)i)), i);
    for (int i = 0; i < BB_REDOP_COUNT; i++)
        assert_int_equal(bb_redop_find(bb_redop_name_at((size_t)i)), i);
    assert_null(bb_dtype_name_at(BB_DTYPE_COUNT));
    assert_null(bb_redop_name_at(BB_REDOP_COUNT));
}

/* Slices are multiples of 16 bytes; the expected values are computed by hand. */
static void rounds_slices_to_16_bytes(void **state)
{
    static const struct {
        int kind;
        size_t bytes;
        int n;
        size_t elem, count;
    } rows[] = {
        {BB_ALL_REDUCE, 8, 4, 4, 2},        {BB_ALL_REDUCE, 7, 4, 4, 1},         {BB_ALL_GATHER, 8, 4, 4, 0},
        {BB_ALL_GATHER, 64, 4, 4, 4},       {BB_ALL_GATHER, 127, 4, 4, 4},       {BB_ALL_GATHER, 128, 4, 4, 8},
        {BB_REDUCE_SCATTER, 100, 3, 1, 32}, {BB_REDUCE_SCATTER, 1000, 3, 8, 40}, {BB_ALLTOALL, 1048576, 8, 2, 65536},
        {BB_SENDRECV, 30, 4, 4, 7},         {BB_BROADCAST, 3, 4, 4, 0},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        assert_int_equal(bb_coll_count((enum bb_coll_kind)rows[i].kind, rows[i].bytes, rows[i].n, rows[i].elem),
                         rows[i].count);
}

static void payload_is_the_larger_buffer(void **state)
{
    (void)state;
    assert_int_equal(bb_coll_payload_count(BB_ALL_REDUCE, 10, 4), 10);
    assert_int_equal(bb_coll_payload_count(BB_ALL_GATHER, 10, 4), 40);
    assert_int_equal(bb_coll_payload_count(BB_REDUCE_SCATTER, 10, 4), 40);
    assert_int_equal(bb_coll_payload_count(BB_SENDRECV, 10, 4), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_matches_published_formulas),
        cmocka_unit_test(hypercube_requires_a_power_of_two),
        cmocka_unit_test(finds_names),
        cmocka_unit_test(rounds_slices_to_16_bytes),
        cmocka_unit_test(payload_is_the_larger_buffer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
