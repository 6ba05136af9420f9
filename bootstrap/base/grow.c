/* grow.c - see grow.h. */
#include "bootstrap/base/grow.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int report_no_memory(size_t n, size_t element)
{
    return bb_err(BB_EFAIL, "out of memory for %zu elements of %zu bytes", n, element);
}

int bb_grow(void *array_at, size_t n, size_t element)
{
    size_t capacity = n ? 2 * n : 1;
    void *array, *bigger;

    if (n & (n - 1))
        return 0;
    memcpy(&array, array_at, sizeof array); /* array_at is a T ** for any type T; memcpy avoids an aliasing violation */
    bigger = realloc(array, capacity * element);
    if (!bigger)
        return report_no_memory(capacity, element);
    memcpy(array_at, &bigger, sizeof bigger);
    return 0;
}

int bb_new(void *array_at, size_t n, size_t element)
{
    void *array = calloc(n + 1, element);

    memcpy(array_at, &array, sizeof array);
    return array ? 0 : report_no_memory(n, element);
}

#define LINE ((size_t)64)

int bb_new_aligned(void *array_at, size_t n, size_t element)
{
    const bool fits = n < (SIZE_MAX - LINE) / element;
    const size_t bytes = fits ? ((n + 1) * element + LINE - 1) / LINE * LINE : 0;
    void *array = fits ? aligned_alloc(LINE, bytes) : NULL;

    if (array)
        memset(array, 0, bytes);
    memcpy(array_at, &array, sizeof array);
    return array ? 0 : report_no_memory(n, element);
}
