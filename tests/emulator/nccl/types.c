/*
 * types.c - loads and stores of every NCCL data type. See types.h.
 */
#include "types.h"

#include <string.h>

static float float_of_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static uint32_t bits_of_float(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* A small binary floating-point format. Codes are without the sign. */
struct small_float {
    int mantissa, bias;
    uint32_t largest;  /* code of the largest finite value */
    uint32_t overflow; /* code of values that round beyond it: infinity, or the largest value */
    uint32_t infinity; /* code of infinity; 0: the format has none */
    uint32_t nan;      /* code of the NaN that is stored */
    int sign_shift;    /* position of the sign bit */
};

static const struct small_float half_format = {10, 15, 0x7bff, 0x7c00, 0x7c00, 0x7fff, 15};
static const struct small_float e4m3_format = {3, 7, 0x7e, 0x7e, 0, 0x7f, 7};
static const struct small_float e5m2_format = {2, 15, 0x7b, 0x7b, 0x7c, 0x7f, 7};

static inline float decode(uint32_t code, const struct small_float *f)
{
    uint32_t sign = (code >> f->sign_shift) << 31, magnitude = code & ((1u << f->sign_shift) - 1);
    uint32_t bits;

    if (magnitude > f->largest)
        bits = magnitude == f->infinity ? 0x7f800000u : 0x7fc00000u;
    else if (magnitude >> f->mantissa == 0) /* subnormal: a multiple of the smallest value, exact in float */
        bits = bits_of_float((float)magnitude * float_of_bits((uint32_t)(128 - f->bias - f->mantissa) << 23));
    else
        bits = (magnitude << (23 - f->mantissa)) + ((uint32_t)(127 - f->bias) << 23);
    return float_of_bits(sign | bits);
}

static inline uint32_t encode(float x, const struct small_float *f)
{
    uint32_t bits = bits_of_float(x), sign = bits >> 31 << f->sign_shift, magnitude = bits & 0x7fffffffu;
    uint32_t code;

    if (magnitude > 0x7f800000u)
        return sign | f->nan;
    if (magnitude < (uint32_t)(128 - f->bias) << 23) {
        /* below the smallest normal number: adding 2^23 quanta leaves the rounded number of quanta in the low bits */
        float quanta = float_of_bits((uint32_t)(128 - f->bias - f->mantissa + 23) << 23);
        code = bits_of_float(float_of_bits(magnitude) + quanta) - bits_of_float(quanta);
    } else {
        int shift = 23 - f->mantissa;
        magnitude += (1u << (shift - 1)) - 1 + (magnitude >> shift & 1);
        code = (magnitude >> shift) - ((uint32_t)(127 - f->bias) << f->mantissa);
    }
    return sign | (code > f->largest ? f->overflow : code);
}

static inline uint32_t encode_bfloat16(float x)
{
    uint32_t bits = bits_of_float(x);

    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

#define LOAD(name, T, A, expression)                                                                                   \
    static void load_##name(void *acc, const void *src, size_t n)                                                      \
    {                                                                                                                  \
        const T *from = src;                                                                                           \
        A *to = acc;                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                                               \
            T x = from[i];                                                                                             \
            to[i] = expression;                                                                                        \
        }                                                                                                              \
    }
#define STORE(name, T, A, expression)                                                                                  \
    static void store_##name(void *dst, const void *acc, size_t n)                                                     \
    {                                                                                                                  \
        const A *from = acc;                                                                                           \
        T *to = dst;                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                                               \
            A x = from[i];                                                                                             \
            to[i] = expression;                                                                                        \
        }                                                                                                              \
    }
#define PLAIN(name, T, A)                LOAD(name, T, A, (A)x) STORE(name, T, A, (T)x)
#define CODED(name, T, decoded, encoded) LOAD(name, T, float, decoded) STORE(name, T, float, (T)(encoded))

PLAIN(int8, int8_t, int64_t)
PLAIN(uint8, uint8_t, uint64_t)
PLAIN(int32, int32_t, int64_t)
PLAIN(uint32, uint32_t, uint64_t)
PLAIN(int64, int64_t, int64_t)
PLAIN(uint64, uint64_t, uint64_t)
PLAIN(float32, float, float)
PLAIN(float64, double, double)
CODED(float16, uint16_t, decode(x, &half_format), encode(x, &half_format))
CODED(bfloat16, uint16_t, float_of_bits((uint32_t)x << 16), encode_bfloat16(x))
CODED(e4m3, uint8_t, decode(x, &e4m3_format), encode(x, &e4m3_format))
CODED(e5m2, uint8_t, decode(x, &e5m2_format), encode(x, &e5m2_format))

/* Rows in the order of ncclDataType_t. */
static const struct en_type types[EN_TYPES] = {
    {.name = "int8", .bytes = 1, .acc = EN_I64, .load = load_int8, .store = store_int8},
    {.name = "uint8", .bytes = 1, .acc = EN_U64, .load = load_uint8, .store = store_uint8},
    {.name = "int32", .bytes = 4, .acc = EN_I64, .load = load_int32, .store = store_int32},
    {.name = "uint32", .bytes = 4, .acc = EN_U64, .load = load_uint32, .store = store_uint32},
    {.name = "int64", .bytes = 8, .acc = EN_I64, .load = load_int64, .store = store_int64},
    {.name = "uint64", .bytes = 8, .acc = EN_U64, .load = load_uint64, .store = store_uint64},
    {.name = "half", .bytes = 2, .acc = EN_F32, .load = load_float16, .store = store_float16},
    {.name = "float", .bytes = 4, .acc = EN_F32, .load = load_float32, .store = store_float32},
    {.name = "double", .bytes = 8, .acc = EN_F64, .load = load_float64, .store = store_float64},
    {.name = "bfloat16", .bytes = 2, .acc = EN_F32, .load = load_bfloat16, .store = store_bfloat16},
    {.name = "f8e4m3", .bytes = 1, .acc = EN_F32, .load = load_e4m3, .store = store_e4m3},
    {.name = "f8e5m2", .bytes = 1, .acc = EN_F32, .load = load_e5m2, .store = store_e5m2},
};

const struct en_type *en_type(int dtype)
{
    return dtype >= 0 && dtype < EN_TYPES ? &types[dtype] : NULL;
}
