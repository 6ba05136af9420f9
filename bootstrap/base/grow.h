/*
 * grow.h - arrays: filled one element at a time, or made at once.
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
 * BB_GROW - make room for element n of `array` (NULL at first), which holds n. The room is the next power of two, so
 * n alone says when it is full: every element before n must have been added through BB_GROW, not by a plain malloc.
 * New elements are not zeroed. Returns 0, or -BB_EFAIL (said) and leaves the array as it was.
 */
#define BB_GROW(array, n) bb_grow(&(array), (size_t)(n), sizeof *(array))
int bb_grow(void *array_at, size_t n, size_t element) BB_MUST_CHECK;

/* BB_NEW - n zeroed elements at `array`, and room for one more, so that none is no error. Returns 0, or -BB_EFAIL (said)
 * with `array` NULL. */
#define BB_NEW(array, n) bb_new(&(array), (size_t)(n), sizeof *(array))
int bb_new(void *array_at, size_t n, size_t element) BB_MUST_CHECK;

/* BB_NEW_ALIGNED - the same from the beginning of a cache line on: for many records of which each is to be one line. */
#define BB_NEW_ALIGNED(array, n) bb_new_aligned(&(array), (size_t)(n), sizeof *(array))
int bb_new_aligned(void *array_at, size_t n, size_t element) BB_MUST_CHECK;

#endif
