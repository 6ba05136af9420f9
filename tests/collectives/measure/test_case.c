/*
 * test_case.c - buffers and expected data. A simple reference implementation runs each collective on the buffers of all
 * ranks. The content of each receive area must equal bb_case_expected_part, and no other byte may change.
 */
#include "collectives/measure/case.h"
#include "tests/check.h"

#include <math.h>

enum { RANKS = 4, COUNT = 24, ROOT = 2 };

/*
 * Elements sent from row to column. Row and column sums differ, and some counts are 0. Counts are multiples of 4
 * elements (16 bytes).
 */
static const size_t alltoallv_counts[RANKS][RANKS] = {{4, 8, 0, 12}, {0, 0, 24, 4}, {16, 4, 8, 0}, {12, 20, 4, 8}};

typedef int32_t buffers[RANKS][RANKS * COUNT];

static int32_t sum_over_ranks(buffers send, int i)
{
    uint32_t sum = 0;

    for (int r = 0; r < RANKS; r++)
        sum += (uint32_t)send[r][i];
    return (int32_t)sum;
}

/* Reference implementation, element by element. */
static void run_reference(enum bb_coll_kind kind, buffers send, buffers recv)
{
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < COUNT; i++) {
            if (kind == BB_ALL_REDUCE || (kind == BB_REDUCE && r == ROOT))
                recv[r][i] = sum_over_ranks(send, i);
            if (kind == BB_REDUCE_SCATTER)
                recv[r][i] = sum_over_ranks(send, r * COUNT + i);
            if (kind == BB_BROADCAST)
                recv[r][i] = send[ROOT][i];
            if (kind == BB_SCATTER)
                recv[r][i] = send[ROOT][r * COUNT + i];
            if (kind == BB_SENDRECV)
                recv[(r + 1) % RANKS][i] = send[r][i];
            for (int s = 0; s < RANKS; s++) {
                if (kind == BB_ALL_GATHER || kind == BB_HYPERCUBE || (kind == BB_GATHER && r == ROOT))
                    recv[r][s * COUNT + i] = send[s][i];
                if (kind == BB_ALLTOALL)
                    recv[r][s * COUNT + i] = send[s][r * COUNT + i];
            }
        }
}

static void run_reference_alltoallv(buffers send, buffers recv)
{
    size_t sent[RANKS] = {0}, received[RANKS] = {0};

    for (int from = 0; from < RANKS; from++)
        for (int to = 0; to < RANKS; to++)
            for (size_t i = 0; i < alltoallv_counts[from][to]; i++)
                recv[to][received[to]++] = send[from][sent[from]++];
}

static void check_parts(const struct bb_case *c, const struct bb_pattern *p, int rank, const int32_t *recv)
{
    size_t i = 0;

    for (int n = 0; n < bb_case_expected_parts(c); n++) {
        struct bb_expected_part part = bb_case_expected_part(c, rank, n);

        assert_int_equal(part.offset, i);
        for (size_t k = 0; k < part.count; k++)
            assert_int_equal((uint32_t)recv[i++], bb_expected(p, &part.expect, k));
    }
    for (; i < RANKS * COUNT; i++)
        assert_int_equal(recv[i], 0x5a5a5a5a);
}

static void check_kind(enum bb_coll_kind kind)
{
    static buffers send, recv;
    bool reduces = bb_colls[kind].flags & BB_COLL_REDUCES;
    struct bb_pattern p = bb_pattern_of(&bb_dtypes[BB_INT32], reduces ? BB_SUM : BB_COPY, RANKS, 77);
    size_t bytes[RANKS * RANKS];
    struct bb_alltoallv_counts table = {.bytes = bytes, .n = RANKS};
    struct bb_case c = {kind, BB_INT32, p.redop, ROOT, RANKS, COUNT, false, 0, &table};

    for (int i = 0; i < RANKS * RANKS; i++)
        bytes[i] = 4 * alltoallv_counts[i / RANKS][i % RANKS];
    memset(send, 0, sizeof send);
    memset(recv, 0x5a, sizeof recv);
    for (int r = 0; r < RANKS; r++)
        for (size_t i = 0; bb_case_contributes(&c, r) && i < bb_colls[kind].send_count(COUNT, RANKS); i++)
            send[r][i] = (int32_t)bb_pattern_input(&p, r, i);
    if (kind == BB_ALLTOALLV)
        run_reference_alltoallv(send, recv);
    else
        run_reference(kind, send, recv);
    for (int r = 0; r < RANKS; r++)
        check_parts(&c, &p, r, recv[r]);
}

/* 64 KiB per rank on 4 ranks. Balanced: a rank keeps 1/4. Imbalance 1: it sends 0, 1/6, 2/6 and 3/6, nothing to itself.
 * 0.5: it keeps 1/8. */
static void bus_bandwidth_of_alltoallv_counts_what_leaves_the_rank(void **state)
{
    static const double factors[][2] = {{0, 0.75}, {0.5, 0.875}, {1, 1}};

    (void)state;
    for (size_t i = 0; i < ROWS(factors); i++) {
        struct bb_alltoallv_counts counts = {.imbalance = factors[i][0]};
        const struct bb_case c = {BB_ALLTOALLV, BB_FLOAT, BB_COPY, 0, RANKS, 4096, false, 0, &counts};
        double algbw, busbw;

        bb_case_bandwidths(&c, 64, &algbw, &busbw);
        assert_true(fabs(algbw - 1.024) < 0.001 && fabs(busbw - factors[i][1] * algbw) < 0.0005);
        counts.nccl_tests = true; /* alltoallv_perf */
        bb_case_bandwidths(&c, 64, &algbw, &busbw);
        assert_true(fabs(busbw - 0.75 * algbw) < 0.0005);
    }
}

static void expected_data_equals_the_reference(void **state)
{
    (void)state;
    for (int kind = 0; kind < BB_COLL_KIND_COUNT; kind++)
        check_kind((enum bb_coll_kind)kind);
}

/* Areas of a slot: they must be inside the slot, separated by guards, and aligned. */
static void check_layout(const struct bb_case *c, int rank)
{
    struct bb_buffer_layout l = bb_buffer_layout_of(c, rank);

    assert_true(l.send_offset >= BB_SLOT_GUARD && l.recv_offset >= BB_SLOT_GUARD);
    assert_true(l.send_offset + l.send_bytes + BB_SLOT_GUARD <= l.slot_bytes);
    assert_true(l.recv_offset + l.recv_bytes + BB_SLOT_GUARD <= l.slot_bytes);
    assert_int_equal(l.slot_bytes % BB_SLOT_GUARD, 0);
    assert_true(l.after_offset >= l.recv_offset + l.recv_bytes);
    assert_true(l.after_offset >= l.send_offset + l.send_bytes);
    assert_int_equal(l.after_offset + l.after_bytes, l.slot_bytes);
    assert_true(l.before_bytes == BB_SLOT_GUARD + 4 * c->unalign && l.before_offset + l.before_bytes <= l.recv_offset);
    assert_int_equal(l.send_offset % 16, 4 * c->unalign % 16);
    assert_int_equal(l.recv_offset % 16, 4 * c->unalign % 16);
    if (!c->in_place)
        assert_true(l.before_offset >= l.send_offset + l.send_bytes);
}

static void layouts_separate_buffers_and_guards(void **state)
{
    static const size_t counts[] = {0, 4, 24, 1000, 4096};

    (void)state;
    for (int kind = 0; kind < BB_COLL_KIND_COUNT; kind++)
        for (size_t i = 0; i < ROWS(counts); i++)
            for (int variant = 0; variant < 4; variant++) {
                struct bb_alltoallv_counts table = {.imbalance = 1};
                struct bb_case c = {(enum bb_coll_kind)kind, BB_FLOAT, BB_SUM, 0, RANKS, counts[i], variant % 2,
                                    variant / 2 * 3,         &table};
                for (int rank = 0; bb_case_possible(&c) && rank < RANKS; rank++)
                    check_layout(&c, rank);
            }
}

static void in_place_offsets_follow_nccl(void **state)
{
    struct bb_case c = {BB_ALL_REDUCE, BB_FLOAT, BB_SUM, 0, RANKS, 100, true, 0, NULL};
    struct bb_buffer_layout l = bb_buffer_layout_of(&c, 3);

    (void)state;
    assert_int_equal(l.send_offset, l.recv_offset);
    c.kind = BB_ALL_GATHER;
    l = bb_buffer_layout_of(&c, 3);
    assert_int_equal(l.send_offset, l.recv_offset + 3 * 100 * 4);
    c.kind = BB_REDUCE_SCATTER;
    l = bb_buffer_layout_of(&c, 3);
    assert_int_equal(l.recv_offset, l.send_offset + 3 * 100 * 4);
    c.kind = BB_SENDRECV;
    assert_false(bb_case_possible(&c));
}

static void last_slot_is_reserved_for_the_last_iteration(void **state)
{
    (void)state;
    for (size_t i = 0; i < 50; i++)
        assert_true(bb_slot_of(i, 3, false) < 2);
    assert_int_equal(bb_slot_of(49, 3, true), 2);
    assert_int_equal(bb_slot_of(7, 2, false), 0);
    assert_int_equal(bb_slot_of(7, 1, false), 0);
    assert_int_equal(bb_slot_of(7, 1, true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bus_bandwidth_of_alltoallv_counts_what_leaves_the_rank),
        cmocka_unit_test(expected_data_equals_the_reference),
        cmocka_unit_test(layouts_separate_buffers_and_guards),
        cmocka_unit_test(in_place_offsets_follow_nccl),
        cmocka_unit_test(last_slot_is_reserved_for_the_last_iteration),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
