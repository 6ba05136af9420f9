/* key_index.c - hash table with open addressing and linear probing. At least half of the table's cells stay empty. */
#include "bootstrap/base/key_index.h"

#include "bootstrap/base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Returns the cell that contains this key, or the empty cell where the key would be inserted. */
static size_t find_cell(const struct bb_key_index *x, const char *key)
{
    uint64_t hash = 0, word;
    size_t cell;

    for (size_t i = 0; i < x->key_bytes; i += sizeof(word)) {
        size_t left = x->key_bytes - i;

        word = 0;
        memcpy(&word, key + i, left < sizeof(word) ? 4 : sizeof(word));
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    cell = hash & (x->n_cells - 1);
    while (x->cells[cell] && memcmp(x->keys + (size_t)(x->cells[cell] - 1) * x->key_bytes, key, x->key_bytes) != 0)
        cell = (cell + 1) & (x->n_cells - 1);
    return cell;
}

static void grow_table(struct bb_key_index *x)
{
    size_t wanted = x->n_cells ? 2 * x->n_cells : 32;

    x->keys = bb_resize(x->keys, wanted / 2, x->key_bytes);
    free(x->cells);
    BB_NEW(x->cells, wanted);
    x->n_cells = wanted;
    for (int i = 0; i < x->n; i++)
        x->cells[find_cell(x, x->keys + (size_t)i * x->key_bytes)] = i + 1;
}

int bb_key_index_add(struct bb_key_index *x, const void *key)
{
    size_t cell;

    if (2 * (size_t)x->n + 2 > x->n_cells)
        grow_table(x);
    cell = find_cell(x, key);
    if (x->cells[cell] == 0) {
        memcpy(x->keys + (size_t)x->n * x->key_bytes, key, x->key_bytes);
        x->cells[cell] = ++x->n;
    }
    return x->cells[cell] - 1;
}

int bb_key_index_find(const struct bb_key_index *x, const void *key)
{
    return x->n ? x->cells[find_cell(x, key)] - 1 : -1;
}

void bb_key_index_clear(struct bb_key_index *x)
{
    if (x->n)
        memset(x->cells, 0, x->n_cells * sizeof(*x->cells));
    x->n = 0;
}

void bb_key_index_release(struct bb_key_index *x)
{
    free(x->keys);
    free(x->cells);
    *x = (struct bb_key_index){0};
}
