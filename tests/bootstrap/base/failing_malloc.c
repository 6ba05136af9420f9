/*
 * failing_malloc.c - preloaded: allocation number FAIL_MALLOC of the process fails, and all others succeed. When it
 * does, a byte is written to the file descriptor FAIL_MALLOC_FD, so that a test knows when it has tried them all.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

static int fails_now(void)
{
    static long calls, chosen = -1;

    if (chosen < 0) {
        const char *text = getenv("FAIL_MALLOC");

        chosen = text ? atol(text) : 0;
    }
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) != chosen)
        return 0;
    if (getenv("FAIL_MALLOC_FD") && write(atoi(getenv("FAIL_MALLOC_FD")), "x", 1) < 0)
        abort();
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t bytes)
{
    return fails_now() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    return fails_now() ? NULL : __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes)
{
    return fails_now() ? NULL : __libc_realloc(old, bytes);
}
