/*
 * hosts.c - with EMU_NODES each emulated node has a host name of its own. Loaded before the C library, by the wrappers:
 * it is by its name that programs and libraries know their host.
 */
#include "internal.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

__attribute__((visibility("default"))) int gethostname(char *name, size_t room)
{
    int (*real)(char *, size_t), rc;

    *(void **)&real = dlsym(RTLD_NEXT, "gethostname");
    rc = real(name, room);
    if (rc == 0 && emu_nodes() > 1 && emu_world_size() > 1) {
        const size_t length = strnlen(name, room);

        snprintf(name + length, room - length, "-node%d", emu_node_of(emu_world_rank(), emu_world_size()));
    }
    return rc;
}
