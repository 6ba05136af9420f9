/*
 * reduce.h - reductions over ranks, in rank order, so that every run gives the same bits. Floats are reduced in float
 * (double in double) and rounded once to their type. Integers wrap around in their type.
 */
#ifndef EMU_NCCL_REDUCE_H
#define EMU_NCCL_REDUCE_H

#include <stddef.h>
#include <stdint.h>

/* The order of ncclRedOp_t; the operators of ncclRedOpCreatePreMulSum come last. */
enum en_op { EN_SUM, EN_PROD, EN_MAX, EN_MIN, EN_AVG, EN_PREMULSUM, EN_OPS };

const char *en_op_name(int op);

/*
 * en_reduce - dst[i] = op over all ranks r of src[r][i], for i < count.
 *   dst      may be one of src
 *   src      [ranks][count] of type dtype
 *   scalars  [ranks] each rank's factor, raw bits of the type; only for EN_PREMULSUM
 */
void en_reduce(void *dst, const void *const *src, int ranks, size_t count, int dtype, int op, const uint64_t *scalars);

#endif
