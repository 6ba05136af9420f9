/*
 * types.h - the data types of NCCL: sizes, names, and conversion to and from the type in which they are reduced.
 *
 * Elements are loaded tile by tile into an array of the accumulator type, reduced there, and stored with one rounding
 * to nearest, ties to even. 8-bit floats saturate at their largest finite value, as CUDA's conversions do.
 */
#ifndef EMU_NCCL_TYPES_H
#define EMU_NCCL_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* The type in which a reduction is computed. Integers wrap around, so 64 bits serve all of them. */
enum en_accumulator { EN_F32, EN_F64, EN_I64, EN_U64, EN_ACCUMULATORS };

enum { EN_TYPES = 12, EN_ACC_BYTES = 8 };

struct en_type {
    const char *name;
    size_t bytes;
    enum en_accumulator acc;
    void (*load)(void *acc, const void *src, size_t n); /* src: n elements; acc: n accumulators */
    void (*store)(void *dst, const void *acc, size_t n);
};

const struct en_type *en_type(int dtype); /* NULL: no such type */

#endif
