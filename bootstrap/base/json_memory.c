/* json_memory.c - see json_memory.h. */
#include "bootstrap/base/json_memory.h"

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *allocate_or_exit(size_t bytes)
{
    void *memory = malloc(bytes);

    if (memory || bytes == 0)
        return memory;
    bb_err(BB_EFAIL, "out of memory for JSON (%zu bytes)", bytes);
    for (;;) /* exit by a direct system call: _exit() is replaced (exit_guard.h) and would print a second error */
        syscall(SYS_exit_group, BB_EFAIL);
}

void bb_json_memory_guard(void)
{
    json_set_alloc_funcs(allocate_or_exit, free);
}
