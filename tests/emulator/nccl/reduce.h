/*
 * reduce.h - combining the same elements of several ranks, in rank order, so that every run gives the same bits.
 * Floats are combined in float (double in double) and rounded once to their type; integers wrap around in their type.
 */
#ifndef EMU_NCCL_REDUCE_H
#define EMU_NCCL_REDUCE_H

#include <stddef.h>
#include <stdint.h>

/* Operations in the order of ncclRedOp_t; what RedOpCreatePreMulSum makes comes after them. */
enum en_op { EN_SUM, EN_PROD, EN_MAX, EN_MIN, EN_AVG, EN_PREMULSUM, EN_OPS };

const char *en_op_name(int op);

/* dst[i] = op over r of src[r][i], i < count. scalars (only for EN_PREMULSUM): each rank's factor, raw bits of the
 * type. dst may be one of src. */
void en_reduce(void *dst, const void *const *src, int ranks, size_t count, int dtype, int op, const uint64_t *scalars);

#endif
