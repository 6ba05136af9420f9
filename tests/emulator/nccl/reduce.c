/*
 * reduce.c - reductions over ranks, tile by tile through an accumulator that fits into the L1 cache. See reduce.h.
 */
#include "reduce.h"

#include "types.h"

#include <stdbool.h>

enum { TILE = 1024 };

typedef void combine_fn(void *acc, const void *x, size_t n);

/* The arithmetic of one accumulator type. */
struct arithmetic {
    combine_fn *combine[EN_OPS];
    void (*multiply)(void *acc, const void *factor, size_t n); /* factor: one accumulator */
    void (*divide)(void *acc, int by, size_t n);
};

#define EACH(name, T, expression)                                                                                      \
    static void name(void *acc, const void *other, size_t n)                                                           \
    {                                                                                                                  \
        T *a = acc;                                                                                                    \
        const T *b = other;                                                                                            \
        for (size_t i = 0; i < n; i++)                                                                                 \
            a[i] = expression;                                                                                         \
    }
#define SCALE(name, T, W)                                                                                              \
    static void name##_multiply(void *acc, const void *factor, size_t n)                                               \
    {                                                                                                                  \
        T *a = acc, f = *(const T *)factor;                                                                            \
        for (size_t i = 0; i < n; i++)                                                                                 \
            a[i] = (T)((W)a[i] * (W)f);                                                                                \
    }                                                                                                                  \
    static void name##_divide(void *acc, int by, size_t n)                                                             \
    {                                                                                                                  \
        T *a = acc;                                                                                                    \
        for (size_t i = 0; i < n; i++)                                                                                 \
            a[i] = a[i] / (T)by;                                                                                       \
    }
/* W is the type of sums and products: unsigned for integers, for which wrap-around is defined. */
#define ARITHMETIC(name, T, W)                                                                                         \
    EACH(name##_sum, T, (T)((W)a[i] + (W)b[i]))                                                                        \
    EACH(name##_prod, T, (T)((W)a[i] * (W)b[i]))                                                                       \
    EACH(name##_max, T, b[i] > a[i] ? b[i] : a[i])                                                                     \
    EACH(name##_min, T, b[i] < a[i] ? b[i] : a[i])                                                                     \
    SCALE(name, T, W)

ARITHMETIC(f32, float, float)
ARITHMETIC(f64, double, double)
ARITHMETIC(i64, int64_t, uint64_t)
ARITHMETIC(u64, uint64_t, uint64_t)

#define ROW(name)                                                                                                      \
    {                                                                                                                  \
        .combine = {[EN_SUM] = name##_sum, [EN_PROD] = name##_prod, [EN_MAX] = name##_max,                             \
                    [EN_MIN] = name##_min, [EN_AVG] = name##_sum,   [EN_PREMULSUM] = name##_sum},                      \
        .multiply = name##_multiply, .divide = name##_divide                                                           \
    }
static const struct arithmetic arithmetics[EN_ACCUMULATORS] = {
    [EN_F32] = ROW(f32), [EN_F64] = ROW(f64), [EN_I64] = ROW(i64), [EN_U64] = ROW(u64)};

const char *en_op_name(int op)
{
    static const char *const names[EN_OPS] = {"sum", "prod", "max", "min", "avg", "premulsum"};

    return op >= 0 && op < EN_OPS ? names[op] : "?";
}

static void load_scaled(void *acc, const void *src, size_t n, const struct en_type *type, const uint64_t *scalar)
{
    uint64_t factor;

    type->load(acc, src, n);
    if (scalar == NULL)
        return;
    type->load(&factor, scalar, 1);
    arithmetics[type->acc].multiply(acc, &factor, n);
}

/* Average of integers: the sum first wraps around in its own type, as on a GPU. */
static void average(void *dst, void *acc, size_t n, int ranks, const struct en_type *type)
{
    type->store(dst, acc, n);
    type->load(acc, dst, n);
    arithmetics[type->acc].divide(acc, ranks, n);
}

/* Average of floating-point numbers: each input is multiplied by 1/n, rounded to the type. */
static uint64_t reciprocal(int ranks, const struct en_type *type)
{
    const float narrow = 1.0f / (float)ranks;
    const double wide = 1.0 / ranks;
    uint64_t bits = 0;

    type->store(&bits, type->acc == EN_F64 ? (const void *)&wide : &narrow, 1);
    return bits;
}

void en_reduce(void *dst, const void *const *src, int ranks, size_t count, int dtype, int op, const uint64_t *scalars)
{
    const struct en_type *type = en_type(dtype);
    combine_fn *combine = arithmetics[type->acc].combine[op];
    _Alignas(64) uint64_t acc[TILE], next[TILE];
    const bool floating = type->acc == EN_F32 || type->acc == EN_F64, averages = op == EN_AVG && floating;
    const bool scaled = averages || op == EN_PREMULSUM;
    const uint64_t share = averages ? reciprocal(ranks, type) : 0;

    for (size_t at = 0; at < count; at += TILE) {
        size_t n = count - at < TILE ? count - at : TILE, offset = at * type->bytes;
        load_scaled(acc, (const char *)src[0] + offset, n, type, !scaled ? NULL : averages ? &share : &scalars[0]);
        for (int r = 1; r < ranks; r++) {
            load_scaled(next, (const char *)src[r] + offset, n, type, !scaled ? NULL : averages ? &share : &scalars[r]);
            combine(acc, next, n);
        }
        if (op == EN_AVG && !floating)
            average((char *)dst + offset, acc, n, ranks, type);
        type->store((char *)dst + offset, acc, n);
    }
}
