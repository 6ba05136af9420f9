/*
 * alloc.h - allocation of host memory. When memory is exhausted, each function prints one error line and ends the
 * process, so callers need no check.
 *
 *   BB_GROW(role->rows, role->n_rows);
 *   role->rows[role->n_rows++] = row;
 *
 *   BB_NEW(role->ranks, n_ranks);
 */
#ifndef BB_BOOTSTRAP_BASE_ALLOC_H
#define BB_BOOTSTRAP_BASE_ALLOC_H

#include "bootstrap/base/err.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * bb_memory_guard - select how the process ends when memory is exhausted, in these functions and in jansson. Call
 * before the first use of jansson.
 *   end  called with exit code 1 after the error line; it does not return. NULL: _exit
 * Without this call jansson returns NULL when memory is exhausted, which callers cannot distinguish from a missing key.
 */
void bb_memory_guard(void (*end)(int code));

/*
 * BB_GROW - make space for one more element, array[n].
 *   array    an lvalue pointer; NULL when n is 0
 *   n        number of elements in the array
 * The capacity is not stored but derived from n: the array is reallocated to twice its size whenever n is a power of
 * two. Each element must therefore be added through BB_GROW. New elements are not initialized. The caller frees the
 * array.
 */
#define BB_GROW(array, n) bb_grow(&(array), (size_t)(n), sizeof *(array))
void bb_grow(void *array_at, size_t n, size_t element);

/* BB_NEW - allocate n zeroed elements and store their address in the pointer `array`; n may be 0. One extra element
 * is allocated, so the pointer is never NULL. The caller frees the array. */
#define BB_NEW(array, n) bb_new(&(array), (size_t)(n), sizeof *(array))
void bb_new(void *array_at, size_t n, size_t element);

/* BB_NEW_ALIGNED - allocate n zeroed elements at an address that is a multiple of 64 bytes, the size of a cache
 * line; n may be 0. The caller frees the array. */
#define BB_NEW_ALIGNED(array, n) bb_new_aligned(&(array), (size_t)(n), sizeof *(array))
void bb_new_aligned(void *array_at, size_t n, size_t element);

/* bb_resize - change the size of the block `memory` to n elements of `element` bytes; memory NULL: allocate a new
 * block. New elements are not initialized. Returns the block, owned by the caller. */
void *bb_resize(void *memory, size_t n, size_t element) BB_MUST_CHECK;

/* bb_format, bb_vformat - return the formatted text (asprintf, vasprintf), owned by the caller. */
char *bb_format(const char *fmt, ...) __attribute__((format(printf, 1, 2))) BB_MUST_CHECK;
char *bb_vformat(const char *fmt, va_list args) __attribute__((format(printf, 1, 0))) BB_MUST_CHECK;

/* bb_open_text - open a stream that stores its output in allocated memory (open_memstream). *text and *bytes are set by
 * bb_close_text, which closes the stream; the caller frees *text. */
FILE *bb_open_text(char **text, size_t *bytes) BB_MUST_CHECK;
void bb_close_text(FILE *stream, char *const *text);

/* bb_copy_text - return a copy of the text (strdup), owned by the caller. */
char *bb_copy_text(const char *text) BB_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
