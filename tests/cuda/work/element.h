/*
 * element.h - reads array elements: the inverse of bb_element_set (cuda/work/memory_kernel.h).
 */
#ifndef BB_TESTS_CUDA_WORK_ELEMENT_H
#define BB_TESTS_CUDA_WORK_ELEMENT_H

#include "cuda/work/memory_kernel.h"

#include <math.h>
#include <string.h>

static inline double half_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double sign = bits & 0x8000 ? -1 : 1;

    if (exponent == 31)
        return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static inline double bfloat16_value(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;

    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Returns element i of an array of type float, half or bfloat16. */
static inline double bb_element_get(const void *array, enum bb_dtype_id dtype, size_t i)
{
    if (dtype == BB_FLOAT)
        return ((const float *)array)[i];
    return (dtype == BB_HALF ? half_value : bfloat16_value)(((const uint16_t *)array)[i]);
}

#endif
