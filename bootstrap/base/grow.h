/*
 * grow.h - arrays that grow one element at a time, and arrays of a fixed size.
 *
 *   TRY(BB_GROW(role->rows, role->n_rows));
 *   role->rows[role->n_rows++] = row;
 *
 *   TRY(BB_NEW(role->ranks, n_ranks));
 */
#ifndef BB_BOOTSTRAP_BASE_GROW_H
#define BB_BOOTSTRAP_BASE_GROW_H

#include "bootstrap/base/err.h"

#include <stddef.h>

/*
 * BB_GROW - make sure that `array` has space for element n.
 *   array    an lvalue pointer; NULL when n is 0
 *   n        number of elements in the array
 *   Returns  0, or -BB_EFAIL after printing one error line; the array is then unchanged
 * The capacity is not stored but derived from n: the array is reallocated to twice its size whenever n is a power of
 * two. Each element must therefore be added through BB_GROW. New elements are not initialized. The caller frees the
 * array.
 */
#define BB_GROW(array, n) bb_grow(&(array), (size_t)(n), sizeof *(array))
int bb_grow(void *array_at, size_t n, size_t element) BB_MUST_CHECK;

/*
 * BB_NEW - allocate n zeroed elements; n may be 0. One extra element is allocated, so the pointer is never NULL on
 * success. Returns 0, or -BB_EFAIL after printing one error line, with `array` set to NULL. The caller frees the array.
 */
#define BB_NEW(array, n) bb_new(&(array), (size_t)(n), sizeof *(array))
int bb_new(void *array_at, size_t n, size_t element) BB_MUST_CHECK;

/* BB_NEW_ALIGNED - like BB_NEW, but the array begins at a multiple of 64 bytes, for elements of the size of one
 * cache line. */
#define BB_NEW_ALIGNED(array, n) bb_new_aligned(&(array), (size_t)(n), sizeof *(array))
int bb_new_aligned(void *array_at, size_t n, size_t element) BB_MUST_CHECK;

#endif
