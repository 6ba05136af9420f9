/*
 * dtype.h - tables of element types and reduction operations. No CUDA and no NCCL, so that plans and tests can
 * use the tables as well.
 *
 * Both enums have the numbering of ncclDataType_t and ncclRedOp_t (checked by static assertions in
 * collectives/ops/launch.c). The names are those of nccl-tests. bb_dtypes[id] describes a type; bb_dtype_find()
 * converts a name to an id.
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
    const char *name, *help;     /* name on the command line; help text in lower case */
    unsigned char bytes;         /* size of one element in bytes: 1, 2, 4 or 8 */
    unsigned char number_class;  /* enum bb_dtype_class */
    unsigned char exponent_bits; /* BB_FLOATING only: width of the exponent field */
    unsigned char fraction_bits; /* BB_FLOATING only: width of the stored fraction field */
};
extern const struct bb_dtype bb_dtypes[BB_DTYPE_COUNT];

enum bb_redop_id { BB_SUM, BB_PROD, BB_MAX, BB_MIN, BB_AVG, BB_MULSUM, BB_REDOP_COUNT };
#define BB_COPY (-1) /* no reduction, elements are only copied */

struct bb_redop {
    const char *name, *help;
};
extern const struct bb_redop bb_redops[BB_REDOP_COUNT];

/* bb_dtype_find and bb_redop_find return the index in the table of the type or reduction operation with this name,
 * or -1. */
int bb_dtype_find(const char *name);
int bb_redop_find(const char *name);

/* bb_dtype_name_at and bb_redop_name_at return the name of element i of the table, or NULL past the end. Options
 * (bootstrap/cli/opts.h) list their choices with these functions. */
const char *bb_dtype_name_at(size_t i);
const char *bb_redop_name_at(size_t i);

#ifdef __cplusplus
}
#endif
#endif
