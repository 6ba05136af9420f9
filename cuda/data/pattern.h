/*
 * pattern.h - test data with an exactly known result, which each rank computes without communication. The same
 * functions run in GPU kernels (kernels.cu), on the CPU (expected values in messages, unit tests) and in the GPU
 * emulator.
 *
 * Every element is a function of (seed, rank, index, number of ranks n). For each element the ranks are rotated by a
 * random amount: rank r has position q = (r + rotation) mod n, so each rank has every position for some elements.
 *
 *   copy     random bits from (source rank, index), so a misplaced block is detected.
 *   sum      a telescoping sum: position q contributes x(q) - x(q+1); the last active position contributes x(q). The
 *            total is x(0), computed in O(1) for any n. Integers wrap around. Floating point: each x is an integer
 *            times a power of two that all ranks share, and the absolute values of all contributions add up to at most
 *            2^p times this power (p = significand bits). So every partial sum is exact in any order or tree, and the
 *            result is bit-identical. If p is small, only the first positions are active; the other positions
 *            contribute 0.
 *   prod     floating point: position 0 has a random significand; the other positions are powers of two. The exponents
 *            form a telescoping sum, and so do the signs. Integers: position 0 is random; positions (1,2), (3,4), ...
 *            are pairs of an odd number and its inverse modulo 2^width.
 *   min max  position 0 has the extreme value. The other positions have values that are not more extreme.
 *   avg      positions 0 and 1 have positive values, the other positions 0. Floating point follows NCCL: each
 *            contribution is multiplied by 1/n, rounded to the type (with a large error in f8e4m3 for many ranks), and
 *            the sum is computed in the type. A difference of two units in the last place is accepted, for libraries
 *            that round once less. Integers stay below the sign bit, where all methods of division give the same
 *            result.
 *   mulsum   NCCL's pre-multiplied sum: NCCL multiplies each rank's input by a scalar, 1 or 2. As sum, with even terms;
 *            a rank with scalar 2 contributes half of its value.
 *
 * Sums and products in floating point stay in the range of normal numbers, so no result depends on the treatment of
 * subnormal numbers.
 */
#ifndef BB_CUDA_DATA_PATTERN_H
#define BB_CUDA_DATA_PATTERN_H

#include "cuda/work/dtype.h"

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define BB_HD static __host__ __device__ __forceinline__
#else
#define BB_HD static inline __attribute__((unused))
#endif

/* Description of test data, created by bb_pattern_of; equal on all ranks. Kernels receive the struct by value. */
struct bb_pattern {
    uint64_t seed;
    int ranks;        /* number of ranks of the communicator, at least 1 */
    int redop;        /* enum bb_redop_id, or BB_COPY: no reduction */
    int bytes;        /* size of one element */
    int number_class; /* enum bb_dtype_class */
    int exponent_bits, fraction_bits;
};

/*
 * Expected content of the receive buffer of one rank. Element i belongs to block i / block and has pattern index
 * first + i % block. The expected value is either reduced over all ranks or copied from rank source + i / block.
 */
struct bb_expect {
    int reduced;    /* 1: element reduced over all ranks; 0: element copied from one rank */
    int source;     /* source rank of the first block; for copies only */
    uint64_t block; /* number of elements per block, at least 1 */
    uint64_t first; /* pattern index of the first element of each block */
};

BB_HD struct bb_pattern bb_pattern_of(const struct bb_dtype *dtype, int redop, int ranks, uint64_t seed)
{
    struct bb_pattern p = {
        seed, ranks, redop, dtype->bytes, dtype->number_class, dtype->exponent_bits, dtype->fraction_bits};
    return p;
}

/* ---- random numbers ---- */

/* A bijection on 64 bits, the finalizer of splitmix64. Every input bit affects every output bit. */
BB_HD uint64_t bb_mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/*
 * bb_random - return a random number that depends on the seed, an element and the purpose of the number.
 *   index  pattern index of the element
 *   what   purpose: a position or a rank (0 or above), or one of the negative constants below. The sign bit of position
 *          q has the purpose BB_RANDOM_SIGN - q.
 */
enum { BB_RANDOM_ROTATION = -1, BB_RANDOM_EXPONENT = -2, BB_RANDOM_FRACTION = -3, BB_RANDOM_SIGN = -4096 };
BB_HD uint64_t bb_random(const struct bb_pattern *p, uint64_t index, int64_t what)
{
    return bb_mix(bb_mix(p->seed + index * 0x9e3779b97f4a7c15ull) + (uint64_t)what * 0xd1b54a32d192ed03ull);
}

/* Maps a random number to an integer in [low, high]; high - low < 2^63. */
BB_HD int64_t bb_between(uint64_t random, int64_t low, int64_t high)
{
    return low + (int64_t)(random % (uint64_t)(high - low + 1));
}

/* ---- conversion between double and the bits of the element type (bb_float_*: floating-point types only) ---- */

BB_HD uint64_t bb_mask(int bytes)
{
    return bytes == 8 ? ~0ull : (1ull << 8 * bytes) - 1;
}

BB_HD double bb_power_of_two(int e) /* 2^e as a double; -1022 <= e <= 1023 */
{
    uint64_t bits = (uint64_t)(e + 1023) << 52;
    double d;

    memcpy(&d, &bits, sizeof d);
    return d;
}

/* Returns the bits of d in the element type, rounded to nearest even. |d| must not exceed the type's largest finite
 * number. */
BB_HD uint64_t bb_float_bits(const struct bb_pattern *p, double d)
{
    int bias = (1 << (p->exponent_bits - 1)) - 1, drop = 52 - p->fraction_bits, exponent;
    uint64_t bits, sign, significand;

    memcpy(&bits, &d, sizeof d);
    if (drop == 0)
        return bits;
    sign = bits >> 63 << (8 * p->bytes - 1);
    exponent = (int)(bits >> 52 & 2047) - 1023;
    significand = (bits & ((1ull << 52) - 1)) | 1ull << 52;
    if (exponent < 1 - bias) { /* subnormal in the element type */
        drop += 1 - bias - exponent;
        exponent = 1 - bias;
    }
    if (drop > 60)
        return sign;
    significand = (significand + (1ull << (drop - 1)) - 1 + (significand >> drop & 1)) >> drop;
    return sign | (significand + ((uint64_t)(exponent + bias - 1) << p->fraction_bits));
}

/* Rounds d >= 0 to the element type and returns the rounded value as a double. */
BB_HD double bb_float_rounded(const struct bb_pattern *p, double d)
{
    int bias = (1 << (p->exponent_bits - 1)) - 1, exponent;
    uint64_t bits = bb_float_bits(p, d), fraction = bits & ((1ull << p->fraction_bits) - 1);

    if (p->fraction_bits == 52)
        return d;
    exponent = (int)(bits >> p->fraction_bits);
    if (exponent > 0)
        fraction |= 1ull << p->fraction_bits;
    else
        exponent = 1;
    return (double)fraction * bb_power_of_two(exponent - bias - p->fraction_bits);
}

/* Returns the exponent e that all ranks use for an element. It is chosen so that an integer up to
 * 2^(fraction_bits+1), multiplied by 2^e, is normal and finite in every floating-point type. */
BB_HD int bb_shared_exponent(const struct bb_pattern *p, uint64_t index)
{
    int bias = (1 << (p->exponent_bits - 1)) - 1;
    int low = 1 - bias, high = bias - p->fraction_bits - 1;

    low = low < -16 ? -16 : low;
    high = high > 16 ? 16 : high;
    low += p->redop == BB_MULSUM; /* mulsum inputs can be half of the sum's inputs and must still be normal numbers */
    return (int)bb_between(bb_random(p, index, BB_RANDOM_EXPONENT), low, high);
}

/* ---- telescoping sums: n integers with a known sum, whose absolute values add up to at most `budget` ---- */

BB_HD int bb_active(int ranks, int64_t budget)
{
    int64_t most = (budget + 1) / 2;

    return ranks < most ? ranks : (int)most;
}

/* Returns term x(q) of the telescoping sum (see the top of this file): a random integer in [-b, b] with b = budget /
 * (2 active - 1), where `active` is the number of positions whose contribution may be non-zero. For q >= active the
 * term is 0. */
BB_HD int64_t bb_term(const struct bb_pattern *p, uint64_t index, int q, int64_t budget)
{
    int active = bb_active(p->ranks, budget);
    int64_t b = budget / (2 * active - 1);

    return q < active ? bb_between(bb_random(p, index, q), -b, b) : 0;
}

BB_HD int64_t bb_share(const struct bb_pattern *p, uint64_t index, int q, int64_t budget)
{
    return bb_term(p, index, q, budget) - bb_term(p, index, q + 1, budget);
}

/* Returns term q of the telescoping sequence of sign bits for prod. Position q contributes the XOR of terms q and q
 * + 1, so the sign of the product over all positions is term 0. */
BB_HD int bb_sign_term(const struct bb_pattern *p, uint64_t index, int q)
{
    return (int)(bb_random(p, index, (int64_t)BB_RANDOM_SIGN - q) & 1);
}

BB_HD int bb_sign_share(const struct bb_pattern *p, uint64_t index, int q)
{
    return bb_sign_term(p, index, q) ^ (q + 1 < p->ranks ? bb_sign_term(p, index, q + 1) : 0);
}

/* ---- the contribution of one position (rotated rank, see the top of the file), for each reduction operation ---- */

BB_HD uint64_t bb_sum_input(const struct bb_pattern *p, uint64_t index, int q)
{
    if (p->number_class == BB_FLOATING) {
        int64_t m = bb_share(p, index, q, 1ll << (p->fraction_bits + 1));
        return bb_float_bits(p, (double)m * bb_power_of_two(bb_shared_exponent(p, index)));
    }
    return bb_random(p, index, q) - (q + 1 < p->ranks ? bb_random(p, index, q + 1) : 0);
}

/* Returns the scalar of a rank for mulsum: 1 on even ranks, 2 on odd ranks, as in nccl-tests. */
BB_HD int bb_mulsum_scalar(int rank)
{
    return 1 + rank % 2;
}

/* Returns the mulsum input of a rank at position q: twice the sum input of that position, divided by the rank's
 * scalar. In floating point the shared exponent is one less than for sum, so the total equals that of sum. With
 * integers the total is twice that of sum. */
BB_HD uint64_t bb_mulsum_input(const struct bb_pattern *p, uint64_t index, int q, int rank)
{
    int halves = 2 / bb_mulsum_scalar(rank);

    if (p->number_class == BB_FLOATING) {
        int64_t m = bb_share(p, index, q, 1ll << (p->fraction_bits + 1));
        return bb_float_bits(p, (double)(m * halves) * bb_power_of_two(bb_shared_exponent(p, index) - 1));
    }
    return bb_sum_input(p, index, q) * (uint64_t)halves;
}

/* Returns the budget of the telescoping sum of exponents for prod, at most 20: the absolute values of the exponents
 * of all positions add up to at most this number. With significands in [1, 2), every partial product is then a
 * normal number. */
BB_HD int64_t bb_exponent_budget(const struct bb_pattern *p)
{
    int64_t most = (1 << (p->exponent_bits - 1)) - 3;

    return most > 20 ? 20 : most;
}

BB_HD uint64_t bb_float_product(const struct bb_pattern *p, uint64_t index, int with_fraction, int sign, int exponent)
{
    uint64_t fraction = bb_random(p, index, BB_RANDOM_FRACTION) & ((1ull << p->fraction_bits) - 1);
    double significand = with_fraction ? 1.0 + (double)fraction * bb_power_of_two(-p->fraction_bits) : 1.0;

    return bb_float_bits(p, (sign ? -significand : significand) * bb_power_of_two(exponent));
}

BB_HD uint64_t bb_inverse(uint64_t odd) /* inverse modulo 2^64: each Newton step doubles the number of correct bits */
{
    uint64_t x = odd;

    for (int bits = 3; bits < 64; bits *= 2)
        x *= 2 - odd * x;
    return x;
}

BB_HD uint64_t bb_prod_input(const struct bb_pattern *p, uint64_t index, int q)
{
    if (p->number_class == BB_FLOATING)
        return bb_float_product(p, index, q == 0, bb_sign_share(p, index, q),
                                (int)bb_share(p, index, q, bb_exponent_budget(p)));
    if (q == 0)
        return bb_random(p, index, 0);
    if (q % 2 == 1)
        return q + 1 < p->ranks ? bb_random(p, index, q) | 1 : 1;
    return bb_inverse(bb_random(p, index, q - 1) | 1);
}

/* bb_key_value maps an integer `key` with |key| <= bb_key_limit to a value of the element type. The mapping
 * preserves the order, so the largest (smallest) key gives the largest (smallest) value, as max and min require. */
BB_HD int64_t bb_key_limit(const struct bb_pattern *p)
{
    if (p->number_class == BB_FLOATING)
        return (1ll << (p->fraction_bits + 1)) - 1;
    return (int64_t)(bb_mask(p->bytes) >> 2);
}

BB_HD uint64_t bb_key_value(const struct bb_pattern *p, uint64_t index, int64_t key)
{
    if (p->number_class == BB_FLOATING)
        return bb_float_bits(p, (double)key * bb_power_of_two(bb_shared_exponent(p, index)));
    if (p->number_class == BB_UNSIGNED) /* the values include the upper half of the range, so a reduction that
                                           wrongly compares signed integers gives a wrong result */
        return (uint64_t)(key + bb_key_limit(p)) * 2;
    return (uint64_t)(key * 2);
}

/* Returns the contribution of position q for max and min. Position 0 has the extreme value x. The other positions
 * have values of at most x for max, and at least x for min. */
BB_HD uint64_t bb_extreme_input(const struct bb_pattern *p, uint64_t index, int q)
{
    int64_t limit = bb_key_limit(p), extreme = bb_between(bb_random(p, index, 0), -limit, limit);
    int64_t low = p->redop == BB_MAX ? -limit : extreme, high = p->redop == BB_MAX ? extreme : limit;

    return bb_key_value(p, index, q == 0 ? extreme : bb_between(bb_random(p, index, q), low, high));
}

BB_HD int64_t bb_avg_term(const struct bb_pattern *p, uint64_t index, int q)
{
    int64_t limit = p->number_class == BB_FLOATING ? 1ll << p->fraction_bits : bb_key_limit(p);

    return q < 2 && q < p->ranks ? bb_between(bb_random(p, index, q), limit / 2, limit) : 0;
}

/* Returns the exponent of the inputs of avg: the largest exponent, at most 16, for which the sum is finite. With a
 * large exponent the quotient stays a normal number even for many ranks. */
BB_HD int bb_avg_exponent(const struct bb_pattern *p)
{
    int high = (1 << (p->exponent_bits - 1)) - 1 - p->fraction_bits - 2;

    return high > 16 ? 16 : high;
}

BB_HD uint64_t bb_avg_input(const struct bb_pattern *p, uint64_t index, int q)
{
    int64_t m = bb_avg_term(p, index, q);

    if (p->number_class != BB_FLOATING)
        return (uint64_t)m;
    return bb_float_bits(p, (double)m * bb_power_of_two(bb_avg_exponent(p)));
}

/* ---- the contribution of a rank, the result of the reduction, and the expected value ---- */

BB_HD int bb_position(const struct bb_pattern *p, int rank, uint64_t index)
{
    uint64_t rotation = bb_random(p, index, BB_RANDOM_ROTATION) % (uint64_t)p->ranks;

    return (int)(((uint64_t)rank + rotation) % (uint64_t)p->ranks);
}

/* bb_pattern_input - return the bits that `rank` contributes at `index`, in the low bytes; the high bytes are 0. */
BB_HD uint64_t bb_pattern_input(const struct bb_pattern *p, int rank, uint64_t index)
{
    int q = p->redop == BB_COPY ? 0 : bb_position(p, rank, index);
    uint64_t bits;

    switch (p->redop) {
    case BB_SUM:
        bits = bb_sum_input(p, index, q);
        break;
    case BB_PROD:
        bits = bb_prod_input(p, index, q);
        break;
    case BB_MAX:
    case BB_MIN:
        bits = bb_extreme_input(p, index, q);
        break;
    case BB_AVG:
        bits = bb_avg_input(p, index, q);
        break;
    case BB_MULSUM:
        bits = bb_mulsum_input(p, index, q, rank);
        break;
    default:
        bits = bb_random(p, index, rank);
    }
    return bits & bb_mask(p->bytes);
}

BB_HD uint64_t bb_avg_reduced(const struct bb_pattern *p, uint64_t index)
{
    int64_t a = bb_avg_term(p, index, 0), b = bb_avg_term(p, index, 1);

    if (p->number_class != BB_FLOATING)
        return (uint64_t)((a + b) / p->ranks);
    const double unit = bb_power_of_two(bb_avg_exponent(p)), factor = bb_float_rounded(p, 1.0 / p->ranks);
    return bb_float_bits(p, bb_float_rounded(p, (double)a * unit * factor) +
                                bb_float_rounded(p, (double)b * unit * factor));
}

/* bb_pattern_reduced - return the bits of the reduction over all ranks at `index`. */
BB_HD uint64_t bb_pattern_reduced(const struct bb_pattern *p, uint64_t index)
{
    uint64_t bits;

    switch (p->redop) {
    case BB_SUM:
    case BB_MULSUM:
        bits = p->number_class == BB_FLOATING
                   ? bb_float_bits(p, (double)bb_term(p, index, 0, 1ll << (p->fraction_bits + 1)) *
                                          bb_power_of_two(bb_shared_exponent(p, index)))
                   : bb_random(p, index, 0) * (p->redop == BB_MULSUM ? 2 : 1);
        break;
    case BB_PROD:
        bits = p->number_class == BB_FLOATING ? bb_float_product(p, index, 1, bb_sign_term(p, index, 0),
                                                                 (int)bb_term(p, index, 0, bb_exponent_budget(p)))
                                              : bb_random(p, index, 0);
        break;
    case BB_AVG:
        bits = bb_avg_reduced(p, index);
        break;
    default: /* BB_MIN and BB_MAX */
        bits = bb_extreme_input(p, index, 0);
    }
    return bits & bb_mask(p->bytes);
}

/* bb_expected - return the bits that element i of the receive buffer must have. */
BB_HD uint64_t bb_expected(const struct bb_pattern *p, const struct bb_expect *e, uint64_t i)
{
    uint64_t block = i / e->block, index = e->first + i % e->block;

    return e->reduced ? bb_pattern_reduced(p, index) : bb_pattern_input(p, e->source + (int)block, index);
}

/* ---- comparing received and expected values ---- */

/* Returns the distance between two floating-point values in units in the last place of the element type. A NaN is
 * far from every value in avg's range. */
BB_HD uint64_t bb_ulp_distance(const struct bb_pattern *p, uint64_t a, uint64_t b)
{
    uint64_t sign = 1ull << (8 * p->bytes - 1);
    int64_t x = a & sign ? -(int64_t)(a & (sign - 1)) : (int64_t)a;
    int64_t y = b & sign ? -(int64_t)(b & (sign - 1)) : (int64_t)b;

    return x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x;
}

/*
 * bb_differs - return 1 if the received value is wrong. The comparison is bitwise, except for floating-point avg: NCCL may
 * round the products and the sum, or only the sum. Two units in the last place are allowed, as in nccl-tests, but one for
 * f8: products and sums of f8 are exact in the half precision in which NCCL computes them (NCCL 2.27,
 * src/device/reduce_kernel.h), and two units are up to 50 % of the value.
 */
BB_HD int bb_differs(const struct bb_pattern *p, uint64_t got, uint64_t want)
{
    if (p->redop == BB_AVG && p->number_class == BB_FLOATING)
        return bb_ulp_distance(p, got, want) > (p->bytes == 1 ? 1 : 2);
    return got != want;
}

/* bb_load and bb_store load and store the bits of element i of a buffer. */
BB_HD uint64_t bb_load(const void *buf, int bytes, uint64_t i)
{
    switch (bytes) {
    case 1:
        return ((const uint8_t *)buf)[i];
    case 2:
        return ((const uint16_t *)buf)[i];
    case 4:
        return ((const uint32_t *)buf)[i];
    default:
        return ((const uint64_t *)buf)[i];
    }
}

BB_HD void bb_store(void *buf, int bytes, uint64_t i, uint64_t bits)
{
    switch (bytes) {
    case 1:
        ((uint8_t *)buf)[i] = (uint8_t)bits;
        break;
    case 2:
        ((uint16_t *)buf)[i] = (uint16_t)bits;
        break;
    case 4:
        ((uint32_t *)buf)[i] = (uint32_t)bits;
        break;
    default:
        ((uint64_t *)buf)[i] = bits;
    }
}

#endif
