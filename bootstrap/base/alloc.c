/* alloc.c - see alloc.h. */
#include "bootstrap/base/alloc.h"

#include "bootstrap/base/units.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ends the process when memory is exhausted (bb_memory_guard); NULL: _exit. The variable is global, because
 * jansson's allocation functions cannot receive it as an argument. */
static void (*end_process)(int code);

static _Noreturn void end_without_memory(size_t n, size_t element)
{
    bb_err(BB_EFAIL, "out of memory for %zu element%s of %zu byte%s", n, bb_plural(n), element, bb_plural(element));
    if (end_process)
        end_process(BB_EFAIL);
    _exit(BB_EFAIL);
}

static void *allocate_for_json(size_t bytes)
{
    void *memory = malloc(bytes);

    if (!memory && bytes > 0)
        end_without_memory(bytes, 1);
    return memory;
}

void bb_memory_guard(void (*end)(int code))
{
    end_process = end;
    json_set_alloc_funcs(allocate_for_json, free);
}

void *bb_resize(void *memory, size_t n, size_t element)
{
    void *resized = reallocarray(memory, n, element);

    if (!resized && n > 0 && element > 0)
        end_without_memory(n, element);
    return resized;
}

void bb_grow(void *array_at, size_t n, size_t element)
{
    void *array;

    if (n & (n - 1))
        return;
    memcpy(&array, array_at, sizeof array); /* array_at is a T ** for any type T; memcpy respects strict aliasing */
    array = bb_resize(array, n ? 2 * n : 1, element);
    memcpy(array_at, &array, sizeof array);
}

void bb_new(void *array_at, size_t n, size_t element)
{
    void *array = n < SIZE_MAX ? calloc(n + 1, element) : NULL;

    if (!array)
        end_without_memory(n, element);
    memcpy(array_at, &array, sizeof array);
}

#define LINE ((size_t)64) /* bytes per cache line */

void bb_new_aligned(void *array_at, size_t n, size_t element)
{
    const bool fits = n < (SIZE_MAX - LINE) / element;
    const size_t bytes = fits ? ((n + 1) * element + LINE - 1) / LINE * LINE : 0;
    void *array = fits ? aligned_alloc(LINE, bytes) : NULL;

    if (!array)
        end_without_memory(n, element);
    memset(array, 0, bytes);
    memcpy(array_at, &array, sizeof array);
}

char *bb_vformat(const char *fmt, va_list args)
{
    char *text;

    if (vasprintf(&text, fmt, args) < 0)
        end_without_memory(strlen(fmt), 1);
    return text;
}

char *bb_format(const char *fmt, ...)
{
    va_list args;
    char *text;

    va_start(args, fmt);
    text = bb_vformat(fmt, args);
    va_end(args);
    return text;
}

FILE *bb_open_text(char **text, size_t *bytes)
{
    FILE *stream = open_memstream(text, bytes);

    if (!stream)
        end_without_memory(sizeof(*stream), 1);
    return stream;
}

void bb_close_text(FILE *stream, char *const *text)
{
    const bool failed = ferror(stream);

    if (fclose(stream) != 0 || failed ||
        !*text) /* without memory, fclose() of glibc sets *text to NULL and returns 0 */
        end_without_memory(1, 1);
}

char *bb_copy_text(const char *text)
{
    char *copy = strdup(text);

    if (!copy)
        end_without_memory(strlen(text) + 1, 1);
    return copy;
}
