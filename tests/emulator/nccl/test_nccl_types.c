/*
 * test_nccl_types.c - number formats and reductions of the NCCL stand-in against their definitions: every code of the
 * small formats, every rounding boundary, wrap-around, order, and a single rounding.
 */
#include "golden.h"
#include "reduce.h"
#include "types.h"

#include <math.h>
#include <nccl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct format {
    int dtype;
    unsigned codes; /* without the sign */
    bool saturates;
};
static const struct format formats[] = {
    {ncclFloat16, 1 << 15, false},
    {ncclBfloat16, 1 << 15, false},
    {ncclFloat8e4m3, 1 << 7, true},
    {ncclFloat8e5m2, 1 << 7, true},
};

static double by_definition(const struct format *f, unsigned code)
{
    return golden_decode(f->dtype, code);
}

static double load_one(const struct format *f, unsigned code)
{
    uint16_t wide = (uint16_t)code;
    uint8_t narrow = (uint8_t)code;
    const struct en_type *t = en_type(f->dtype);
    float x;

    t->load(&x, t->bytes == 2 ? (void *)&wide : (void *)&narrow, 1);
    return x;
}

static unsigned store_one(const struct format *f, float x)
{
    uint16_t wide = 0;
    uint8_t narrow = 0;
    const struct en_type *t = en_type(f->dtype);

    t->store(t->bytes == 2 ? (void *)&wide : (void *)&narrow, &x, 1);
    return t->bytes == 2 ? wide : narrow;
}

static void every_code_means_its_value(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        const struct format *f = &formats[i];
        for (unsigned code = 0; code < 2 * f->codes; code++) {
            double want = by_definition(f, code), got = load_one(f, code);
            if (isnan(want)) {
                assert_true(isnan(got));
                continue;
            }
            assert_true(want == got && signbit(want) == signbit(got));
            if (!isinf(want))
                assert_int_equal(store_one(f, (float)want), code);
        }
    }
}

/* Between two adjacent codes: below the middle rounds down, above it up, the middle to the even code. */
static void stores_round_to_nearest_even(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        const struct format *f = &formats[i];
        unsigned sign = f->codes;
        for (unsigned code = 0; isfinite(by_definition(f, code + 1)); code++) {
            float middle = (float)((by_definition(f, code) + by_definition(f, code + 1)) / 2);
            assert_int_equal(store_one(f, middle), code + (code & 1));
            assert_int_equal(store_one(f, nextafterf(middle, 0)), code);
            assert_int_equal(store_one(f, nextafterf(middle, INFINITY)), code + 1);
            assert_int_equal(store_one(f, -middle), sign | (code + (code & 1)));
        }
    }
}

static void stores_handle_overflow_and_nan(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        const struct format *f = &formats[i];
        unsigned largest = 0;
        while (isfinite(by_definition(f, largest + 1)))
            largest++;
        unsigned beyond = f->saturates ? largest : largest + 1; /* the code after the largest is infinity */
        assert_int_equal(store_one(f, 3e38f * 2), beyond);
        assert_int_equal(store_one(f, INFINITY), beyond);
        assert_true(isnan(by_definition(f, store_one(f, NAN))));
        assert_int_equal(store_one(f, 0.0f), 0);
    }
}

static void integers_wrap_around_in_their_type(void **state)
{
    int8_t a = 100, b = 100, got;
    uint8_t c = 200, d = 100, ugot;
    int64_t e = INT64_MAX, g = 1, wide;
    const void *small[] = {&a, &b}, *unsigned_small[] = {&c, &d}, *large[] = {&e, &g};

    (void)state;
    en_reduce(&got, small, 2, 1, ncclInt8, EN_SUM, NULL);
    assert_int_equal(got, (int8_t)(200 - 256));
    en_reduce(&got, small, 2, 1, ncclInt8, EN_AVG, NULL); /* average of the wrapped sum, rounded towards zero */
    assert_int_equal(got, -28);
    en_reduce(&ugot, unsigned_small, 2, 1, ncclUint8, EN_SUM, NULL);
    assert_int_equal(ugot, 44);
    en_reduce(&wide, large, 2, 1, ncclInt64, EN_SUM, NULL);
    assert_true(wide == INT64_MIN);
    en_reduce(&wide, large, 2, 1, ncclInt64, EN_MIN, NULL);
    assert_true(wide == 1);
}

/* In half, 2048 + 1 is 2048: adding in half would lose both ones. */
static void floats_round_once(void **state)
{
    uint16_t big = 0x6800, one = 0x3c00, got;
    const void *src[] = {&big, &one, &one};

    (void)state;
    en_reduce(&got, src, 3, 1, ncclFloat16, EN_SUM, NULL);
    assert_int_equal(got, 0x6801); /* 2050 */
}

static void ranks_are_added_in_order(void **state)
{
    float a = 1e8f, b = 1.0f, c = -1e8f, got;
    const void *forward[] = {&a, &b, &c}, *other[] = {&a, &c, &b};

    (void)state;
    en_reduce(&got, forward, 3, 1, ncclFloat32, EN_SUM, NULL);
    assert_true(got == 0.0f);
    en_reduce(&got, other, 3, 1, ncclFloat32, EN_SUM, NULL);
    assert_true(got == 1.0f);
}

static void factors_are_per_rank(void **state)
{
    double x[2] = {3, 5}, f[2] = {2, -1}, got;
    uint64_t scalars[2];
    const void *src[] = {&x[0], &x[1]};

    (void)state;
    memcpy(scalars, f, sizeof(f));
    en_reduce(&got, src, 2, 1, ncclFloat64, EN_PREMULSUM, scalars);
    assert_true(got == 1.0);
}

/* More than one tile; the destination is one of the sources. */
static void reduction_spans_tiles(void **state)
{
    enum { N = 5000 };
    int32_t *a = malloc(N * sizeof(*a)), *b = malloc(N * sizeof(*b));
    const void *src[] = {a, b};

    (void)state;
    for (int i = 0; i < N; i++) {
        a[i] = i;
        b[i] = 7 * i - 3;
    }
    en_reduce(a, src, 2, N, ncclInt32, EN_SUM, NULL);
    for (int i = 0; i < N; i++)
        assert_int_equal(a[i], 8 * i - 3);
    free(a);
    free(b);
}

static void types_have_their_sizes(void **state)
{
    static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

    (void)state;
    assert_int_equal(EN_TYPES, ncclNumTypes);
    for (int t = 0; t < ncclNumTypes; t++)
        assert_int_equal(en_type(t)->bytes, bytes[t]);
    assert_null(en_type(-1));
    assert_null(en_type(ncclNumTypes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_means_its_value),
        cmocka_unit_test(stores_round_to_nearest_even),
        cmocka_unit_test(stores_handle_overflow_and_nan),
        cmocka_unit_test(integers_wrap_around_in_their_type),
        cmocka_unit_test(floats_round_once),
        cmocka_unit_test(ranks_are_added_in_order),
        cmocka_unit_test(factors_are_per_rank),
        cmocka_unit_test(reduction_spans_tiles),
        cmocka_unit_test(types_have_their_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
