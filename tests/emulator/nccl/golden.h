/*
 * golden.h - reference implementation of every NCCL data type for the tests: straight from the definition, slow and
 * obvious.
 */
#ifndef EMU_NCCL_GOLDEN_H
#define EMU_NCCL_GOLDEN_H

#include <stddef.h>

size_t golden_bytes(int dtype);
/* Writes x as element i. Integers wrap to their width; floats round to nearest even. */
void golden_store(void *array, size_t i, int dtype, double x);
double golden_load(const void *array, size_t i, int dtype);

/* The value of a code of a small floating-point format (half, bfloat16, fp8). */
double golden_decode(int dtype, unsigned code);

#endif
