/* element.c - converts double values to array elements on the CPU (bb_element_set in memory_kernel.h). */
#include "cuda/work/memory_kernel.h"

#include <math.h>
#include <string.h>

/* Returns the bits of `value` as half, rounded to nearest even by nearbyint. The spacing of half is 2^(exponent -
 * 10) for normal numbers and 2^-24 for subnormal numbers. */
static uint16_t half_bits(double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    int exponent;

    if (isnan(value))
        return 0x7e00;
    if (size >= 65520) /* rounds to 65536 or more, which exceeds the largest finite half (65504) */
        return sign | 0x7c00;
    frexp(size, &exponent);
    exponent = size == 0 || exponent < -13 ? -14 : exponent - 1;
    /* The sum adds a significand that includes the leading 1 bit of a normal number. This bit increments the
     * exponent field by one, so the field starts at exponent + 14, one below the biased exponent. A carry from
     * rounding correctly increments the field once more. */
    return sign | (uint16_t)(((exponent + 14) << 10) + (int)nearbyint(ldexp(size, 10 - exponent)));
}

static uint16_t bfloat16_bits(double value)
{
    float narrow = (float)value;
    uint32_t bits;

    memcpy(&bits, &narrow, sizeof bits);
    if (isnan(narrow))
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void bb_element_set(void *array, enum bb_dtype_id dtype, size_t i, double value)
{
    if (dtype == BB_FLOAT)
        ((float *)array)[i] = (float)value;
    else
        ((uint16_t *)array)[i] = (dtype == BB_HALF ? half_bits : bfloat16_bits)(value);
}
