/*
 * key_index.h - numbers keys in the order in which they are first seen: 0, 1, 2 ... A key is so many bytes, compared
 * as they are (no padding, or zeroed); it is copied. A hash table underneath.
 *
 *   struct bb_key_index index = {.key_bytes = sizeof(struct key)};
 *   int row = bb_key_index_add(&index, &key);
 */
#ifndef BB_BOOTSTRAP_BASE_KEY_INDEX_H
#define BB_BOOTSTRAP_BASE_KEY_INDEX_H

#include "bootstrap/base/err.h"

#include <stddef.h>

struct bb_key_index {
    size_t key_bytes; /* a multiple of 4                                        */
    char *keys;       /* [n] keys, by number                                    */
    int n;            /* keys so far                                            */
    int *cells;       /* [n_cells, a power of two] number + 1 by hash, 0: empty */
    size_t n_cells;
};

int bb_key_index_add(struct bb_key_index *x, const void *key) BB_MUST_CHECK; /* its number, or -BB_EFAIL (said) */
int bb_key_index_find(const struct bb_key_index *x, const void *key);        /* its number, or -1               */
void bb_key_index_clear(struct bb_key_index *x);                             /* no keys, memory kept            */
void bb_key_index_release(struct bb_key_index *x);                           /* fine on a zeroed one            */

#endif
