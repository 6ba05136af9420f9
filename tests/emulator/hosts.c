/*
 * hosts.c - gethostname: each emulated node (EMU_NODES, or else of the profile) has its own host name. The wrappers preload this library,
 * because programs and libraries identify their host by name.
 *
 * It also interposes functions that wait, and reports to the emulated GPUs when the host waits for other processes
 * (timeline/timeline.h): with MPI from a first unsuccessful MPI_Test, or from the start of a blocking call, until the
 * wait is over; without MPI while the host polls with pauses (the ranks of -g).
 */
#include "internal.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Functions of the emulated runtime (engine.h); NULL in a program that does not use it. */
#pragma weak emu_host_away
#pragma weak emu_host_back
#pragma weak emu_host_pauses
#pragma weak emu_host_polls
#pragma weak emu_profile_node

/* The function that this library interposes. Ranks poll, so each is looked up only once. */
static void *next(void **found, const char *name)
{
    if (!*found)
        *found = dlsym(RTLD_NEXT, name);
    return *found;
}

__attribute__((visibility("default"))) int gethostname(char *name, size_t capacity)
{
    const int rank = emu_world_rank(), size = emu_world_size();
    const int node = size == 1                                       ? -1
                     : emu_nodes() > 1                               ? emu_node_of(rank, size)
                     : !getenv("EMU_NODES") && emu_profile_node != 0 ? emu_profile_node(rank, size)
                                                                     : -1;
    int (*real)(char *, size_t), rc;

    *(void **)&real = dlsym(RTLD_NEXT, "gethostname");
    rc = real(name, capacity);
    if (rc == 0 && node >= 0) {
        const size_t length = strnlen(name, capacity);

        snprintf(name + length, capacity - length, "-node%d", node);
    }
    return rc;
}

/* ---- MPI ---- */

/* Calls a function of the emulated runtime, if the program uses the runtime. */
static void call_runtime(void (*function)(void))
{
    if (function)
        function();
}

__attribute__((visibility("default"))) int MPI_Test(void *request, int *flag, void *status)
{
    static void *found;
    int (*real)(void *, int *, void *), rc;

    *(void **)&real = next(&found, "MPI_Test");
    rc = real(request, flag, status);
    call_runtime(rc != 0 || *flag ? emu_host_back : emu_host_polls);
    return rc;
}

__attribute__((visibility("default"))) int sched_yield(void)
{
    static void *found;
    int (*real)(void);

    *(void **)&real = next(&found, "sched_yield");
    call_runtime(emu_host_pauses);
    return real();
}

__attribute__((visibility("default"))) int nanosleep(const struct timespec *requested, struct timespec *remaining)
{
    static void *found;
    int (*real)(const struct timespec *, struct timespec *);

    *(void **)&real = next(&found, "nanosleep");
    call_runtime(emu_host_pauses);
    return real(requested, remaining);
}

/* Handles are pointers in Open MPI and numbers in MPICH; a long holds either. */
#define WAITS(name, parameters, arguments)                                                                             \
    __attribute__((visibility("default"))) int name parameters                                                         \
    {                                                                                                                  \
        int(*real) parameters, rc;                                                                                     \
                                                                                                                       \
        *(void **)&real = dlsym(RTLD_NEXT, #name);                                                                     \
        call_runtime(emu_host_away);                                                                                   \
        rc = real arguments;                                                                                           \
        call_runtime(emu_host_back);                                                                                   \
        return rc;                                                                                                     \
    }

WAITS(MPI_Barrier, (long comm), (comm))
WAITS(MPI_Wait, (void *request, void *status), (request, status))
WAITS(MPI_Waitall, (int n, void *requests, void *statuses), (n, requests, statuses))
WAITS(MPI_Bcast, (void *data, int n, long type, int root, long comm), (data, n, type, root, comm))
WAITS(MPI_Allreduce, (const void *send, void *recv, int n, long type, long op, long comm),
      (send, recv, n, type, op, comm))
WAITS(MPI_Allgather, (const void *send, int n, long type, void *recv, int recv_n, long recv_type, long comm),
      (send, n, type, recv, recv_n, recv_type, comm))
