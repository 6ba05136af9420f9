/*
 * test_pattern.c - the guarantees of cuda/data/pattern.h, checked with independent arithmetic: values are decoded by an
 * independent decoder, combined in random order, and rounded to the format after every step by independent code.
 */
#include "cuda/data/pattern.h"
#include "tests/check.h"

#include <math.h>

enum { RANKS_MAX = 64, ELEMENTS = 300 };
static const int rank_counts[] = {1, 2, 3, 4, 5, 7, 8, 16, 31, 64};

/* Returns the value that the bits represent, from the definition of the formats. */
static double decode(const struct bb_dtype *t, uint64_t bits)
{
    int f = t->fraction_bits, bias = (1 << (t->exponent_bits - 1)) - 1;
    uint64_t fraction = bits & ((1ull << f) - 1), exponent = bits >> f & ((1ull << t->exponent_bits) - 1);
    double magnitude = exponent == 0 ? ldexp((double)fraction, 1 - bias - f)
                                     : ldexp((double)(fraction + (1ull << f)), (int)exponent - bias - f);

    return bits >> (8 * t->bytes - 1) & 1 ? -magnitude : magnitude;
}

/* Rounds d to the format: the significand is rounded to fraction_bits + 1 bits by the C library. */
static double rounded(const struct bb_dtype *t, double d)
{
    int e;
    double m = frexp(d, &e);

    return ldexp(nearbyint(ldexp(m, t->fraction_bits + 1)), e - t->fraction_bits - 1);
}

static void shuffle(int *order, int n)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = rand() % (i + 1), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

static const int exact_redops[] = {BB_SUM, BB_PROD, BB_MAX, BB_MIN, BB_MULSUM};
enum { EXACT = ROWS(exact_redops) };

/* Returns a rank's contribution to the reduction; in mulsum the contribution of an odd rank is doubled. */
static double contribution(const struct bb_dtype *t, const struct bb_pattern *p, int rank, uint64_t index)
{
    double v = decode(t, bb_pattern_input(p, rank, index));

    return p->redop == BB_MULSUM && rank % 2 ? 2 * v : v;
}

static double combine(int redop, double a, double b)
{
    return redop == BB_SUM || redop == BB_MULSUM ? a + b
           : redop == BB_PROD                    ? a * b
           : redop == BB_MAX                     ? fmax(a, b)
                                                 : fmin(a, b);
}

/* Any order, with rounding after every step, yields the promised bits. */
static void check_float_order(const struct bb_dtype *t, int redop, int ranks, uint64_t index)
{
    struct bb_pattern p = bb_pattern_of(t, redop, ranks, 42);
    int order[RANKS_MAX];
    double total;

    shuffle(order, ranks);
    total = contribution(t, &p, order[0], index);
    for (int i = 1; i < ranks; i++)
        total = rounded(t, combine(redop, total, contribution(t, &p, order[i], index)));
    assert_true(isfinite(total));
    assert_true(total == decode(t, bb_pattern_reduced(&p, index)));
}

/* A binary tree, with rounding after every step, yields the promised bits. */
static void check_float_tree(const struct bb_dtype *t, int redop, int ranks, uint64_t index)
{
    struct bb_pattern p = bb_pattern_of(t, redop, ranks, 43);
    double v[RANKS_MAX] = {0};

    for (int r = 0; r < ranks; r++)
        v[r] = contribution(t, &p, r, index);
    for (int step = 1; step < ranks; step *= 2)
        for (int r = 0; r + step < ranks; r += 2 * step)
            v[r] = rounded(t, combine(redop, v[r], v[r + step]));
    assert_true(v[0] == decode(t, bb_pattern_reduced(&p, index)));
}

static void each_float_case(void (*check)(const struct bb_dtype *, int, int, uint64_t))
{
    srand(7);
    for (int type = 0; type < BB_DTYPE_COUNT; type++)
        for (int o = 0; o < EXACT; o++)
            for (size_t n = 0; n < ROWS(rank_counts); n++)
                for (uint64_t i = 0; i < ELEMENTS; i++)
                    if (bb_dtypes[type].number_class == BB_FLOATING)
                        check(&bb_dtypes[type], exact_redops[o], rank_counts[n], i);
}

static void floating_results_are_exact_in_any_order(void **state)
{
    (void)state;
    each_float_case(check_float_order);
}

static void floating_results_are_exact_in_a_tree(void **state)
{
    (void)state;
    each_float_case(check_float_tree);
}

/* Returns the largest finite number of a format, from its definition (f8e4m3 has no infinity, only NaN above it). */
static double largest(int type)
{
    switch (type) {
    case BB_HALF:
        return 65504;
    case BB_FLOAT:
        return 3.4028234663852886e38;
    case BB_BFLOAT16:
        return 3.3895313892515355e38;
    case BB_F8E4M3:
        return 448;
    case BB_F8E5M2:
        return 57344;
    default:
        return 1.7976931348623157e308;
    }
}

static double smallest_normal(const struct bb_dtype *t)
{
    return ldexp(1, 2 - (1 << (t->exponent_bits - 1)));
}

static void floating_inputs_are_zero_or_normal(void **state)
{
    (void)state;
    for (int type = BB_HALF; type < BB_DTYPE_COUNT; type++)
        for (int redop = 0; redop < BB_REDOP_COUNT; redop++)
            for (uint64_t i = 0; i < ELEMENTS; i++) {
                struct bb_pattern p = bb_pattern_of(&bb_dtypes[type], redop, 5, 9);
                double v = fabs(decode(&bb_dtypes[type], bb_pattern_input(&p, (int)(i % 5), i)));
                assert_true(v == 0 || (v >= smallest_normal(&bb_dtypes[type]) && v <= largest(type)));
            }
}

static uint64_t mask_of(const struct bb_dtype *t)
{
    return t->bytes == 8 ? ~0ull : (1ull << 8 * t->bytes) - 1;
}

static int64_t as_signed(const struct bb_dtype *t, uint64_t bits)
{
    int unused = 64 - 8 * t->bytes;

    return (int64_t)(bits << unused) >> unused;
}

static uint64_t combine_integers(const struct bb_dtype *t, int redop, uint64_t a, uint64_t b)
{
    int less = t->number_class == BB_SIGNED ? as_signed(t, a) < as_signed(t, b) : a < b;

    switch (redop) {
    case BB_SUM:
    case BB_MULSUM:
        return (a + b) & mask_of(t);
    case BB_PROD:
        return a * b & mask_of(t);
    case BB_MAX:
        return less ? b : a;
    default:
        return less ? a : b;
    }
}

static void integers_wrap_to_the_promised_bits(void **state)
{
    (void)state;
    for (int type = BB_INT8; type <= BB_UINT64; type++)
        for (int o = 0; o < EXACT; o++)
            for (size_t n = 0; n < ROWS(rank_counts); n++)
                for (uint64_t i = 0; i < ELEMENTS; i++) {
                    int redop = exact_redops[o];
                    struct bb_pattern p = bb_pattern_of(&bb_dtypes[type], redop, rank_counts[n], 11);
                    uint64_t total = bb_pattern_input(&p, 0, i);
                    for (int r = 1; r < rank_counts[n]; r++) {
                        uint64_t one = bb_pattern_input(&p, r, i) << (redop == BB_MULSUM && r % 2);
                        total = combine_integers(&bb_dtypes[type], redop, total, one & mask_of(&bb_dtypes[type]));
                    }
                    assert_int_equal(total, bb_pattern_reduced(&p, i));
                }
}

/* Rounds d >= 0 to the format, subnormal numbers included: to nearest, ties to even, by the C library. */
static double round_to_format(const struct bb_dtype *t, double d)
{
    const int min_exponent = 2 - (1 << (t->exponent_bits - 1)),
              e = d > 0 && ilogb(d) > min_exponent ? ilogb(d) : min_exponent;

    return ldexp(nearbyint(ldexp(d, t->fraction_bits - e)), e - t->fraction_bits);
}

/* NCCL's order for ncclAvg: each contribution is multiplied by 1/n, which is rounded to the type; the sum is in the
 * type. */
static double average_like_nccl(const struct bb_dtype *t, const struct bb_pattern *p, uint64_t index)
{
    const double factor = round_to_format(t, 1.0 / p->ranks);
    double sum = 0;

    for (int r = 0; r < p->ranks; r++)
        sum = round_to_format(t, sum + round_to_format(t, decode(t, bb_pattern_input(p, r, index)) * factor));
    return sum;
}

static void averages_match_nccl(void **state)
{
    static const int many[] = {256, 384, 1024};

    (void)state;
    for (int type = BB_HALF; type < BB_DTYPE_COUNT; type++)
        for (int n = 2; n <= 64 + (int)ROWS(many); n++)
            for (uint64_t i = 0; i < 50; i++) {
                const struct bb_dtype *t = &bb_dtypes[type];
                const int ranks = n <= 64 ? n : many[n - 65];
                const struct bb_pattern p = bb_pattern_of(t, BB_AVG, ranks, 13);

                if (average_like_nccl(t, &p, i) != decode(t, bb_pattern_reduced(&p, i)))
                    fail_msg("%s, %d ranks, element %d: %g is %g in NCCL", t->name, ranks, (int)i,
                             decode(t, bb_pattern_reduced(&p, i)), average_like_nccl(t, &p, i));
            }
}

/* In f8e4m3, 1/384 is rounded to 1/512, and 1/1024 to 0. */
static void averages_in_8_bits_differ_from_the_quotient(void **state)
{
    struct bb_pattern p = bb_pattern_of(&bb_dtypes[BB_F8E4M3], BB_AVG, 384, 13);
    double deviation = 0;

    (void)state;
    for (uint64_t i = 0; i < 50; i++) {
        double sum = 0;
        for (int r = 0; r < p.ranks; r++)
            sum += decode(&bb_dtypes[BB_F8E4M3], bb_pattern_input(&p, r, i));
        deviation =
            fmax(deviation, fabs(1 - decode(&bb_dtypes[BB_F8E4M3], bb_pattern_reduced(&p, i)) / (sum / p.ranks)));
    }
    assert_true(deviation > 0.2);
    p.ranks = 1024;
    assert_int_equal(bb_pattern_reduced(&p, 0), 0);
}

static void integer_averages_divide_without_overflow(void **state)
{
    (void)state;
    for (int type = BB_INT8; type <= BB_UINT64; type++)
        for (size_t n = 0; n < ROWS(rank_counts); n++)
            for (uint64_t i = 0; i < ELEMENTS; i++) {
                const struct bb_dtype *t = &bb_dtypes[type];
                struct bb_pattern p = bb_pattern_of(t, BB_AVG, rank_counts[n], 17);
                uint64_t sum = 0;

                for (int r = 0; r < rank_counts[n]; r++)
                    sum += bb_pattern_input(&p, r, i);
                assert_true(sum <= mask_of(t) >> 1); /* positive in the signed type, too */
                assert_int_equal(sum / (uint64_t)rank_counts[n], bb_pattern_reduced(&p, i));
            }
}

/* Every rank matters: each rank's contribution is nonzero for some elements. */
static void detects_a_missing_rank(void **state)
{
    (void)state;
    for (int type = 0; type < BB_DTYPE_COUNT; type++)
        for (int missing = 0; missing < 8; missing++) {
            const struct bb_dtype *t = &bb_dtypes[type];
            struct bb_pattern p = bb_pattern_of(t, BB_SUM, 8, 19);
            int seen = 0;

            for (uint64_t i = 0; i < 100; i++)
                seen += (bb_pattern_input(&p, missing, i) & (mask_of(t) >> 1)) != 0;
            assert_true(seen > 10);
        }
}

static void seeds_ranks_and_indices_differ(void **state)
{
    struct bb_pattern a = bb_pattern_of(&bb_dtypes[BB_FLOAT], BB_COPY, 4, 1), b = a;
    int same = 0;

    (void)state;
    b.seed = 2;
    for (uint64_t i = 0; i < 1000; i++) {
        same += bb_pattern_input(&a, 0, i) == bb_pattern_input(&b, 0, i);
        same += bb_pattern_input(&a, 0, i) == bb_pattern_input(&a, 1, i);
        same += bb_pattern_input(&a, 0, i) == bb_pattern_input(&a, 0, i + 1);
    }
    assert_true(same <= 1);
}

static void expected_data_follow_blocks_of_ranks(void **state)
{
    struct bb_pattern p = bb_pattern_of(&bb_dtypes[BB_INT32], BB_COPY, 3, 5);
    struct bb_expect e = {.reduced = 0, .source = 1, .block = 4, .first = 8};

    (void)state;
    assert_int_equal(bb_expected(&p, &e, 0), bb_pattern_input(&p, 1, 8));
    assert_int_equal(bb_expected(&p, &e, 3), bb_pattern_input(&p, 1, 11));
    assert_int_equal(bb_expected(&p, &e, 4), bb_pattern_input(&p, 2, 8));
}

static void counts_units_in_the_last_place(void **state)
{
    struct bb_pattern p = bb_pattern_of(&bb_dtypes[BB_HALF], BB_AVG, 4, 5);

    (void)state;
    assert_int_equal(bb_ulp_distance(&p, 0x3c00, 0x3c02), 2);
    assert_int_equal(bb_ulp_distance(&p, 0x8001, 0x0001), 2); /* across zero */
    assert_false(bb_differs(&p, 0x3c00, 0x3c02));
    assert_true(bb_differs(&p, 0x3c00, 0x3c03));
    assert_true(bb_differs(&p, 0x7e00, 0x3c00)); /* NaN */
    p.redop = BB_SUM;
    assert_true(bb_differs(&p, 0x3c00, 0x3c01));
    p = bb_pattern_of(&bb_dtypes[BB_F8E4M3], BB_AVG, 4, 5);
    assert_false(bb_differs(&p, 0x38, 0x39));
    assert_true(bb_differs(&p, 0x38, 0x3a));
}

/* Known encodings of the formats, from their definitions. */
static void encodes_known_values(void **state)
{
    static const struct {
        int type;
        double value;
        uint64_t bits;
    } known[] = {
        {BB_HALF, 1.0, 0x3c00},
        {BB_HALF, -2.0, 0xc000},
        {BB_HALF, 65504, 0x7bff},
        {BB_HALF, 0x1p-14, 0x0400},
        {BB_HALF, 0x1p-24, 0x0001},
        {BB_BFLOAT16, 1.0, 0x3f80},
        {BB_BFLOAT16, 3.0, 0x4040},
        {BB_FLOAT, 1.0, 0x3f800000},
        {BB_F8E4M3, 1.0, 0x38},
        {BB_F8E4M3, 448, 0x7e},
        {BB_F8E4M3, 0x1p-9, 0x01},
        {BB_F8E5M2, 1.0, 0x3c},
        {BB_F8E5M2, 57344, 0x7b},
        {BB_F8E5M2, -1.5, 0xbe},
        {BB_HALF, 1 + 0x1p-11, 0x3c00},
        {BB_HALF, 1 + 0x3p-11, 0x3c02},
        {BB_DOUBLE, 1.0, 0x3ff0000000000000},
        {BB_FLOAT, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(known); i++) {
        struct bb_pattern p = bb_pattern_of(&bb_dtypes[known[i].type], BB_SUM, 1, 0);
        assert_int_equal(bb_float_bits(&p, known[i].value), known[i].bits);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_known_values),
        cmocka_unit_test(floating_results_are_exact_in_any_order),
        cmocka_unit_test(floating_results_are_exact_in_a_tree),
        cmocka_unit_test(floating_inputs_are_zero_or_normal),
        cmocka_unit_test(integers_wrap_to_the_promised_bits),
        cmocka_unit_test(averages_match_nccl),
        cmocka_unit_test(averages_in_8_bits_differ_from_the_quotient),
        cmocka_unit_test(integer_averages_divide_without_overflow),
        cmocka_unit_test(detects_a_missing_rank),
        cmocka_unit_test(seeds_ranks_and_indices_differ),
        cmocka_unit_test(expected_data_follow_blocks_of_ranks),
        cmocka_unit_test(counts_units_in_the_last_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
