/*
 * failing_malloc.c - preloaded: allocation number FAIL_MALLOC of the process fails, and all others succeed. When it
 * does, a byte is written to the file descriptor FAIL_MALLOC_FD, so that a test knows when it has tried them all. With
 * FAIL_MALLOC_OURS only those of the program's own two files count: MPI's and CUDA's are for their makers to check. With
 * FAIL_MALLOC_PROGRAM only those of a process that has this name, so not those of Python, which it becomes.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

static int is_from_program(void *caller)
{
    Dl_info at;
    const char *slash;

    if (!dladdr(caller, &at) || !at.dli_fname)
        return 0;
    slash = strrchr(at.dli_fname, '/');
    return strcmp(slash ? slash + 1 : at.dli_fname, "busbar") == 0 ||
           strcmp(slash ? slash + 1 : at.dli_fname, "libbusbar-gpu.so") == 0;
}

static int is_chosen_program(void)
{
    const char *name = getenv("FAIL_MALLOC_PROGRAM");

    return !name || strcmp(name, program_invocation_short_name) == 0;
}

static int fails_now(void *caller)
{
    static long calls, chosen = -1;
    static int ours;

    if (chosen < 0) {
        const char *text = getenv("FAIL_MALLOC");

        ours = getenv("FAIL_MALLOC_OURS") != NULL;
        chosen = text && is_chosen_program() ? atol(text) : 0;
    }
    if (ours && !is_from_program(caller))
        return 0;
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) != chosen)
        return 0;
    if (getenv("FAIL_MALLOC_FD") && write(atoi(getenv("FAIL_MALLOC_FD")), "x", 1) < 0)
        abort();
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t bytes)
{
    return fails_now(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    return fails_now(__builtin_return_address(0)) ? NULL : __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes)
{
    return fails_now(__builtin_return_address(0)) ? NULL : __libc_realloc(old, bytes);
}
