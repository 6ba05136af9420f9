/*
 * key_index.h - maps keys to indices 0, 1, 2 ... in the order in which the keys are added. Each key is a fixed number
 * of bytes. Keys are compared byte by byte, so padding bytes inside a key must be 0. Implemented as a hash table.
 *
 *   struct bb_key_index index = {.key_bytes = sizeof(struct key)};
 *   int row = bb_key_index_add(&index, &key);
 */
#ifndef BB_BOOTSTRAP_BASE_KEY_INDEX_H
#define BB_BOOTSTRAP_BASE_KEY_INDEX_H

#include "bootstrap/base/err.h"

#include <stddef.h>

struct bb_key_index {
    size_t key_bytes; /* bytes per key; a multiple of 4 */
    char *keys;       /* [n] copies of the keys, in the order of their indices */
    int n;            /* number of keys */
    int *cells;       /* [n_cells] hash table: index of a key + 1, or 0 for an empty cell; n_cells is a power of two */
    size_t n_cells;
};

/* Adds the key if it is new. Returns the key's index. */
int bb_key_index_add(struct bb_key_index *x, const void *key);
int bb_key_index_find(const struct bb_key_index *x, const void *key); /* Returns the key's index, or -1 if the key is
                                                                         unknown. */
void bb_key_index_clear(struct bb_key_index *x);                      /* Removes all keys but does not free memory. */
void bb_key_index_release(struct bb_key_index *x); /* Frees the memory; a zeroed struct is allowed. */

#endif
