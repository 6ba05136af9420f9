/*
 * dtype.h - element types and reduction operations as data. Pure: no CUDA, no NCCL, so that plans and tests use it too.
 *
 * The order of both enums is NCCL's own numbering (held by static assertions in collectives/ops/launch.c), the names
 * are the words of nccl-tests. A row is found by bb_dtypes[id], a word by bb_dtype_find().
 */
#ifndef BB_CUDA_WORK_DTYPE_H
#define BB_CUDA_WORK_DTYPE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum bb_dtype_id {
    BB_INT8,
    BB_UINT8,
    BB_INT32,
    BB_UINT32,
    BB_INT64,
    BB_UINT64,
    BB_HALF,
    BB_FLOAT,
    BB_DOUBLE,
    BB_BFLOAT16,
    BB_F8E4M3,
    BB_F8E5M2,
    BB_DTYPE_COUNT
};

enum bb_dtype_class { BB_UNSIGNED, BB_SIGNED, BB_FLOATING };

struct bb_dtype {
    const char *name, *help;     /* command-line word; one lower-case line          */
    unsigned char bytes;         /* of one element: 1, 2, 4 or 8                    */
    unsigned char number_class;  /* enum bb_dtype_class                             */
    unsigned char exponent_bits; /* BB_FLOATING: width of the exponent field        */
    unsigned char fraction_bits; /* BB_FLOATING: width of the stored fraction field */
};
extern const struct bb_dtype bb_dtypes[BB_DTYPE_COUNT];

enum bb_redop_id { BB_SUM, BB_PROD, BB_MAX, BB_MIN, BB_AVG, BB_MULSUM, BB_REDOP_COUNT };

struct bb_redop {
    const char *name, *help;
};
extern const struct bb_redop bb_redops[BB_REDOP_COUNT];

/* Index of the row of that name, or -1. */
int bb_dtype_find(const char *name);
int bb_redop_find(const char *name);

/* The i-th name, NULL past the end: the words of an option (bootstrap/cli/opts.h) come straight from the table. */
const char *bb_dtype_name_at(size_t i);
const char *bb_redop_name_at(size_t i);

#ifdef __cplusplus
}
#endif
#endif
