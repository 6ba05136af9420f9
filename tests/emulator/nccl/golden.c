/*
 * golden.c - see golden.h. Small floats are decoded with ldexp, and encoded by binary search over all codes.
 */
#include "golden.h"

#include <math.h>
#include <nccl.h>
#include <stdint.h>
#include <string.h>

struct format {
    int exponent, mantissa, bias, has_infinity;
};

static struct format format_of(int dtype)
{
    static const struct format half = {5, 10, 15, 1}, brain = {8, 7, 127, 1}, e4m3 = {4, 3, 7, 0}, e5m2 = {5, 2, 15, 1};

    return dtype == ncclFloat16 ? half : dtype == ncclBfloat16 ? brain : dtype == ncclFloat8e4m3 ? e4m3 : e5m2;
}

double golden_decode(int dtype, unsigned code)
{
    struct format f = format_of(dtype);
    int top = (1 << f.exponent) - 1, e = (int)(code >> f.mantissa) & top;
    unsigned fraction = code & ((1u << f.mantissa) - 1);
    double sign = code >> (f.exponent + f.mantissa) & 1 ? -1 : 1;

    if (f.has_infinity && e == top)
        return fraction ? NAN : sign * INFINITY;
    if (!f.has_infinity && e == top && fraction == (1u << f.mantissa) - 1)
        return NAN;
    if (e == 0)
        return sign * ldexp(fraction, 1 - f.bias - f.mantissa);
    return sign * ldexp(fraction + (1 << f.mantissa), e - f.bias - f.mantissa);
}

/* Codes of positive values are in the order of the values. */
static unsigned encode(int dtype, double x)
{
    struct format f = format_of(dtype);
    unsigned sign = signbit(x) ? 1u << (f.exponent + f.mantissa) : 0, low = 0, high = 1u << (f.exponent + f.mantissa);
    double magnitude = fabs(x);

    while (high - low > 1) { /* finds the largest code with a finite value not above the magnitude */
        unsigned middle = (low + high) / 2;
        double value = golden_decode(dtype, middle);
        *(isfinite(value) && value <= magnitude ? &low : &high) = middle;
    }
    double below = magnitude - golden_decode(dtype, low), above = golden_decode(dtype, low + 1) - magnitude;
    if (isfinite(above) && (above < below || (above == below && (low & 1))))
        low++;
    return sign | low;
}

size_t golden_bytes(int dtype)
{
    static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

    return bytes[dtype];
}

void golden_store(void *array, size_t i, int dtype, double x)
{
    char *at = (char *)array + i * golden_bytes(dtype);
    int64_t whole = 0;
    float single = (float)x;
    unsigned code;

    if (dtype <= ncclUint64) {
        whole = (int64_t)x;
        memcpy(at, &whole, golden_bytes(dtype)); /* little endian */
    } else if (dtype == ncclFloat32) {
        memcpy(at, &single, sizeof(single));
    } else if (dtype == ncclFloat64) {
        memcpy(at, &x, sizeof(x));
    } else {
        code = encode(dtype, x);
        memcpy(at, &code, golden_bytes(dtype));
    }
}

double golden_load(const void *array, size_t i, int dtype)
{
    const char *at = (const char *)array + i * golden_bytes(dtype);
    unsigned code = 0;
    float single;
    double x;

    switch (dtype) {
    case ncclInt8:
        return *(const int8_t *)at;
    case ncclUint8:
        return *(const uint8_t *)at;
    case ncclInt32:
        return *(const int32_t *)at;
    case ncclUint32:
        return *(const uint32_t *)at;
    case ncclInt64:
        return (double)*(const int64_t *)at;
    case ncclUint64:
        return (double)*(const uint64_t *)at;
    case ncclFloat32:
        memcpy(&single, at, sizeof(single));
        return single;
    case ncclFloat64:
        memcpy(&x, at, sizeof(x));
        return x;
    }
    memcpy(&code, at, golden_bytes(dtype));
    return golden_decode(dtype, code);
}
