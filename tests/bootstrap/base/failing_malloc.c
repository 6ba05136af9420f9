/*
 * failing_malloc.c - a preloaded library (LD_PRELOAD) that fails one memory allocation of a run: allocation number
 * FAIL_MALLOC of the first process that reaches it returns NULL, all others succeed. The library then creates the file
 * FAIL_MALLOC_FILE, so that a test knows when its number exceeds the number of allocations, and a process forked shortly
 * before, which has the same number of allocations, does not fail, too. With FAIL_MALLOC_OURS only allocations by busbar and
 * busbar-rank count; allocations inside MPI and CUDA do not. With FAIL_MALLOC_PROGRAM only processes with this name
 * count: busbar (the supervisor and the process that writes the results) or busbar-rank; a shell or Python process that
 * execs busbar does not.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
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
           strcmp(slash ? slash + 1 : at.dli_fname, "busbar-rank") == 0;
}

static int is_chosen_program(void)
{
    const char *name = getenv("FAIL_MALLOC_PROGRAM");

    return !name || strcmp(name, program_invocation_short_name) == 0;
}

/* Creates the file. Returns whether it did not exist. */
static int is_first_failure(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0 && errno == EEXIST)
        return 0;
    if (fd < 0)
        abort();
    close(fd);
    return 1;
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
    if (getenv("FAIL_MALLOC_FILE") && !is_first_failure(getenv("FAIL_MALLOC_FILE")))
        return 0;
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
