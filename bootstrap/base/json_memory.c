/* json_memory.c - see json_memory.h. */
#include "bootstrap/base/json_memory.h"

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

/* Called when memory is exhausted. It is global, because jansson's allocation functions have no argument. */
static void (*end_process)(int code);

static void *allocate_or_exit(size_t bytes)
{
    void *memory = malloc(bytes);

    if (memory || bytes == 0)
        return memory;
    bb_err(BB_EFAIL, "out of memory for JSON (%zu bytes)", bytes);
    if (end_process)
        end_process(BB_EFAIL);
    _exit(BB_EFAIL);
}

void bb_json_memory_guard(void (*end)(int code))
{
    end_process = end;
    json_set_alloc_funcs(allocate_or_exit, free);
}
