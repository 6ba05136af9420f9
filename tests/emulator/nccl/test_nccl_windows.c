/*
 * test_nccl_windows.c - symmetric windows: ranks see each other's stores, windows are registered
 * in groups, and multicast memory cannot be read.
 */
#include "ranks.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Functions since NCCL 2.29, which the emulated NCCL always has. */
static ncclResult_t peer_pointer(ncclWindow_t window, size_t offset, int rank, void **out)
{
    ncclResult_t (*call)(ncclWindow_t, size_t, int, void **);

    *(void **)&call = dlsym(RTLD_DEFAULT, "ncclGetLsaDevicePointer");
    return call(window, offset, rank, out);
}

static ncclResult_t multicast_pointer(ncclWindow_t window, size_t offset, void **out)
{
    ncclResult_t (*call)(ncclWindow_t, size_t, void **);

    *(void **)&call = dlsym(RTLD_DEFAULT, "ncclGetLsaMultimemDevicePointer");
    return call(window, offset, out);
}

static const size_t GIB = (size_t)1 << 30;

static int meet(struct rank *r)
{
    static float one;

    CHECK(ncclAllReduce(&one, &one, 1, ncclFloat, ncclSum, r->comm, r->stream) == ncclSuccess);
    CHECK(cudaStreamSynchronize(r->stream) == cudaSuccess);
    return 0;
}

/* Each rank stores its number in the last byte of each other rank's window. */
static int store_to_peers(struct rank *r)
{
    const size_t bytes = *(const size_t *)r->arg;
    unsigned char *memory, *peer;
    ncclWindow_t window;

    CHECK(ncclMemAlloc((void **)&memory, bytes) == ncclSuccess);
    CHECK(ncclCommWindowRegister(r->comm, memory, bytes, &window, NCCL_WIN_COLL_SYMMETRIC) == ncclSuccess && window);
    for (int p = 0; p < r->size; p++) {
        CHECK(peer_pointer(window, bytes - 8 + (size_t)r->rank, p, (void **)&peer) == ncclSuccess);
        *peer = (unsigned char)(10 + r->rank);
    }
    CHECK_EQ(meet(r), 0);
    for (int p = 0; p < r->size; p++)
        CHECK_EQ(memory[bytes - 8 + (size_t)p], 10 + p);
    CHECK(peer_pointer(window, 0, r->size, (void **)&peer) == ncclInvalidArgument);
    CHECK(ncclCommWindowDeregister(r->comm, window) == ncclSuccess);
    CHECK(ncclMemFree(memory) == ncclSuccess);
    return 0;
}

static void test_stores_reach_all_ranks(void **state)
{
    const size_t sizes[] = {4096, 5 * GIB}; /* above 4 GiB the distance of the ranks' memory is larger */

    (void)state;
    for (int i = 0; i < 2; i++)
        run_ranks(3, store_to_peers, &sizes[i], 0, NULL);
}

/* One group registers two windows; memory of cudaMalloc has none. */
static int register_two(struct rank *r)
{
    ncclWindow_t windows[2], none;
    void *memory;

    CHECK(ncclMemAlloc(&memory, 8192) == ncclSuccess);
    CHECK(ncclGroupStart() == ncclSuccess);
    for (int i = 0; i < 2; i++)
        CHECK(ncclCommWindowRegister(r->comm, (char *)memory + 4096 * i, 4096, &windows[i], NCCL_WIN_COLL_SYMMETRIC) ==
              ncclSuccess);
    CHECK(ncclGroupEnd() == ncclSuccess);
    CHECK(windows[0] && windows[1] && windows[0] != windows[1]);
    CHECK(ncclCommWindowRegister(r->comm, device_buffer(64), 64, &none, NCCL_WIN_COLL_SYMMETRIC) == ncclSuccess);
    CHECK(none == NULL);
    return 0;
}

static void test_registration_in_a_group(void **state)
{
    (void)state;
    setenv("EMU_NCCL_WINDOW", "30", 1);
    run_ranks(2, register_two, NULL, 0, NULL);
    unsetenv("EMU_NCCL_WINDOW");
}

static int read_multicast(struct rank *r)
{
    void *memory, *multicast;
    ncclWindow_t window;
    int status;

    CHECK(ncclMemAlloc(&memory, 4096) == ncclSuccess);
    CHECK(ncclCommWindowRegister(r->comm, memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC) == ncclSuccess && window);
    CHECK(multicast_pointer(window, 8, &multicast) == ncclSuccess && multicast);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer would report it */
        _exit(*(volatile char *)multicast);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    /* The other rank maps this rank's memory while this process exists. */
    CHECK(ncclAllReduce(memory, memory, 1, ncclFloat, ncclSum, r->comm, r->stream) == ncclSuccess);
    CHECK(cudaStreamSynchronize(r->stream) == cudaSuccess);
    return 0;
}

static void test_multicast_memory_cannot_be_read(void **state)
{
    (void)state;
    setenv("EMU_MULTICAST_MIB", "2", 1);
    run_ranks(2, read_multicast, NULL, 0, NULL);
    unsetenv("EMU_MULTICAST_MIB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stores_reach_all_ranks),
        cmocka_unit_test(test_registration_in_a_group),
        cmocka_unit_test(test_multicast_memory_cannot_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
