/*
 * test_memory.c - allocations, their accounting, properties of pointers, and copies: data, directions, limits and
 * times. The test profile has 1 MiB of device memory. Copies take 3 us + n ns, between device memories 3 us + 2n ns.
 */
#include "child.h"
#include "engine.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int accounting(void)
{
    size_t free_bytes, total;
    void *a, *b, *c;

    OK(cudaMemGetInfo(&free_bytes, &total));
    EXPECT(total == 1048576 && free_bytes == total);
    OK(cudaMalloc(&a, 1000000));
    EXPECT_RC(cudaMalloc(&b, 100000), cudaErrorMemoryAllocation);
    EXPECT(b == NULL);
    EXPECT_RC(cudaGetLastError(), cudaErrorMemoryAllocation);
    OK(cudaMallocHost(&b, 2000000)); /* host memory does not count as device memory */
    OK(cudaMemGetInfo(&free_bytes, NULL));
    EXPECT(free_bytes < 48577);
    OK(cudaSetDevice(1));
    OK(cudaMalloc(&c, 1000000)); /* each device has its own memory */
    OK(cudaSetDevice(0));
    OK(cudaFree(a));
    OK(cudaFreeHost(b));
    OK(cudaMemGetInfo(&free_bytes, NULL));
    EXPECT(free_bytes == total);
    OK(cudaFree(NULL));
    OK(cudaFreeHost(NULL));
    OK(cudaMalloc(&a, 0));
    EXPECT(a == NULL);
    OK(cudaFree(c));
    return 0;
}

/* Pages are allocated when touched: a device may have far more memory than this machine. */
static int lazy(void)
{
    size_t total;
    char *big;

    OK(cudaMemGetInfo(NULL, &total));
    EXPECT(total == 80000000000);
    OK(cudaMalloc((void **)&big, 60000000000));
    big[59999999999] = 1;
    OK(cudaMemset(big + 30000000000, 7, 10));
    OK(cudaDeviceSynchronize());
    EXPECT(big[30000000009] == 7 && big[30000000010] == 0);
    OK(cudaFree(big));
    return 0;
}

static int bad_frees(void)
{
    char *device, *host, stack[8];

    OK(cudaMalloc((void **)&device, 100));
    OK(cudaMallocHost((void **)&host, 100));
    EXPECT_RC(cudaFree(device + 1), cudaErrorInvalidValue);
    EXPECT_RC(cudaFree(stack), cudaErrorInvalidValue);
    EXPECT_RC(cudaFree(host), cudaErrorInvalidValue);
    EXPECT_RC(cudaFreeHost(device), cudaErrorInvalidValue);
    OK(cudaFree(device));
    EXPECT_RC(cudaFree(device), cudaErrorInvalidValue);
    OK(cudaFreeHost(host));
    return 0;
}

static int pointers(void)
{
    struct cudaPointerAttributes a;
    char *device, *host, *managed, plain[64];
    void *seen;
    unsigned flags;

    OK(cudaSetDevice(3));
    OK(cudaMalloc((void **)&device, 100));
    OK(cudaHostAlloc((void **)&host, 100, cudaHostAllocMapped));
    OK(cudaMallocManaged((void **)&managed, 100, cudaMemAttachGlobal));
    OK(cudaPointerGetAttributes(&a, device + 99));
    EXPECT(a.type == cudaMemoryTypeDevice && a.device == 3 && a.devicePointer == device + 99 && !a.hostPointer);
    OK(cudaPointerGetAttributes(&a, host));
    EXPECT(a.type == cudaMemoryTypeHost && a.hostPointer == host && a.devicePointer == host);
    OK(cudaPointerGetAttributes(&a, managed));
    EXPECT(a.type == cudaMemoryTypeManaged);
    OK(cudaPointerGetAttributes(&a, plain));
    EXPECT(a.type == cudaMemoryTypeUnregistered);
    OK(cudaHostGetDevicePointer(&seen, host, 0));
    EXPECT(seen == host);
    EXPECT_RC(cudaHostGetDevicePointer(&seen, plain, 0), cudaErrorInvalidValue);
    EXPECT_RC(cudaHostUnregister(plain), cudaErrorHostMemoryNotRegistered);
    OK(cudaHostRegister(plain, sizeof(plain), cudaHostRegisterDefault));
    EXPECT_RC(cudaHostRegister(plain, sizeof(plain), 0), cudaErrorHostMemoryAlreadyRegistered);
    OK(cudaHostGetFlags(&flags, plain));
    OK(cudaHostUnregister(plain));
    return 0;
}

/* Data and times of all directions. */
static int copies(void)
{
    char *a, *b, *host, plain[1000];

    OK(cudaMalloc((void **)&a, 1000));
    OK(cudaMalloc((void **)&b, 1000));
    OK(cudaMallocHost((void **)&host, 1000));
    for (int i = 0; i < 1000; i++)
        plain[i] = (char)(i * 7);
    OK(cudaMemcpy(a, plain, 1000, cudaMemcpyHostToDevice)); /* 1000 + 4000 */
    EXPECT(emu_host_now_ns() == 5000);
    OK(cudaMemcpy(b, a, 1000, cudaMemcpyDeviceToDevice)); /* asynchronous: the host is at 6000, the copy ends at
                                                             11000 */
    EXPECT(emu_host_now_ns() == 6000);
    OK(cudaMemcpy(host, b, 1000, cudaMemcpyDefault)); /* 11000 to 15000 */
    EXPECT(emu_host_now_ns() == 15000);
    EXPECT(memcmp(host, plain, 1000) == 0);
    OK(cudaMemcpy(host + 500, host, 500, cudaMemcpyHostToHost));
    EXPECT(memcmp(host + 500, plain, 500) == 0);
    OK(cudaMemcpyPeer(b, 0, a, 0, 10));
    OK(cudaMemcpy(a, b, 0, cudaMemcpyDeviceToDevice));
    EXPECT_RC(cudaMemcpyPeer(b, 0, a, 9, 10), cudaErrorInvalidDevice);
    return 0;
}

static int bad_copies(void)
{
    char *device, plain[100];

    OK(cudaMalloc((void **)&device, 100));
    EXPECT_RC(cudaMemcpy(device, plain, 101, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    EXPECT_RC(cudaMemcpy(device + 50, plain, 51, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    EXPECT_RC(cudaMemcpy(plain, device, 10, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    EXPECT_RC(cudaMemcpy(device, plain, 10, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
    EXPECT_RC(cudaMemcpy(device, plain, 10, (enum cudaMemcpyKind)9), cudaErrorInvalidMemcpyDirection);
    EXPECT_RC(cudaMemcpy(NULL, plain, 10, cudaMemcpyDefault), cudaErrorInvalidValue);
    EXPECT_RC(cudaMemset(device, 0, 101), cudaErrorInvalidValue);
    EXPECT_RC(cudaMemset(plain, 0, 10), cudaErrorInvalidValue);
    EXPECT_RC(cudaMemcpy2D(device, 5, plain, 10, 6, 2, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    OK(cudaMemcpy(device + 50, plain, 50, cudaMemcpyHostToDevice));
    return 0;
}

static int two_dimensions(void)
{
    char *device, out[12], in[12] = "abcdefghijkl";
    size_t pitch;

    OK(cudaMallocPitch((void **)&device, &pitch, 3, 4));
    EXPECT(pitch >= 3 && pitch % 256 == 0);
    OK(cudaMemcpy2D(device, pitch, in, 3, 3, 4, cudaMemcpyHostToDevice));
    EXPECT(memcmp(device + 3 * pitch, "jkl", 3) == 0);
    OK(cudaMemset2D(device + 1, pitch, '-', 2, 3));
    OK(cudaMemcpy2DAsync(out, 3, device, pitch, 3, 4, cudaMemcpyDeviceToHost, 0));
    EXPECT(memcmp(out, "a--d--g--jkl", 12) == 0); /* a copy to pageable memory waits */
    return 0;
}

static void hold(void *pipe_end)
{
    char byte;

    if (read(*(int *)pipe_end, &byte, 1) != 1)
        abort();
}

/* A small pageable source may change as soon as the call returns; a pinned source may not. */
static int staging(void)
{
    char *device, *pinned, plain[4] = "old";
    cudaStream_t s;
    int ends[2];

    EXPECT(pipe(ends) == 0);
    OK(cudaMalloc((void **)&device, 8));
    OK(cudaMallocHost((void **)&pinned, 4));
    OK(cudaStreamCreate(&s));
    strcpy(pinned, "old");
    OK(cudaLaunchHostFunc(s, hold, &ends[0]));
    OK(cudaMemcpyAsync(device, plain, 4, cudaMemcpyHostToDevice, s));
    OK(cudaMemcpyAsync(device + 4, pinned, 4, cudaMemcpyHostToDevice, s));
    strcpy(plain, "new");
    strcpy(pinned, "new");
    EXPECT(write(ends[1], "x", 1) == 1);
    OK(cudaStreamSynchronize(s));
    EXPECT(strcmp(device, "old") == 0 && strcmp(device + 4, "new") == 0);
    return 0;
}

static int stream_ordered(void)
{
    size_t free_bytes, total;
    cudaMemPool_t pool, own;
    uint64_t threshold = UINT64_MAX;
    cudaStream_t s;
    char *a, *b;
    int ends[2];

    EXPECT(pipe(ends) == 0);
    OK(cudaStreamCreate(&s));
    OK(cudaMallocAsync((void **)&a, 600000, s));
    OK(cudaMemsetAsync(a, 3, 600000, s));
    OK(cudaLaunchHostFunc(s, hold, &ends[0]));
    OK(cudaFreeAsync(a, s));
    /* not free until the stream reaches the free */
    EXPECT_RC(cudaMallocAsync((void **)&b, 600000, s), cudaErrorMemoryAllocation);
    EXPECT(write(ends[1], "x", 1) == 1);
    OK(cudaStreamSynchronize(s));
    OK(cudaMemGetInfo(&free_bytes, &total));
    EXPECT(free_bytes == total);
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    OK(cudaMemPoolCreate(&own, &(struct cudaMemPoolProps){.allocType = cudaMemAllocationTypePinned,
                                                          .location = {.type = cudaMemLocationTypeDevice, .id = 1}}));
    OK(cudaMallocFromPoolAsync((void **)&b, 100, own, s));
    OK(cudaFreeAsync(b, s));
    OK(cudaMemPoolDestroy(own));
    EXPECT_RC(cudaFreeAsync(&a, s), cudaErrorInvalidValue);
    return 0;
}

/* With EMU_DATA=off time passes and data stays unchanged. */
static int data_off(void)
{
    char *a, plain[100] = "untouched";

    EXPECT(!emu_moves_data());
    OK(cudaMalloc((void **)&a, 1000));
    OK(cudaMemset(a, 1, 1000));
    OK(cudaMemcpy(plain, a, 100, cudaMemcpyDeviceToHost));
    EXPECT(emu_host_now_ns() == 1000 + 4000 + 3100);
    EXPECT(strcmp(plain, "untouched") == 0 && a[0] == 0);
    return 0;
}

static int reset(void)
{
    size_t free_bytes, total;
    void *a, *pinned;

    OK(cudaMalloc(&a, 100000));
    OK(cudaMallocHost(&pinned, 100));
    OK(cudaMemset(a, 1, 1000));
    OK(cudaDeviceReset());
    OK(cudaMemGetInfo(&free_bytes, &total));
    EXPECT(free_bytes == total);
    EXPECT_RC(cudaFree(a), cudaErrorInvalidValue);
    OK(cudaFreeHost(pinned));
    return 0;
}

#define SCENARIO(name)                                                                                                 \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        child_pass(name, NULL);                                                                                        \
    }
SCENARIO(accounting)
SCENARIO(bad_frees)
SCENARIO(pointers)
SCENARIO(copies)
SCENARIO(bad_copies)
SCENARIO(two_dimensions)
SCENARIO(staging)
SCENARIO(stream_ordered)
SCENARIO(reset)

static void test_lazy(void **state)
{
    (void)state;
    child_pass(lazy, (const char *[]){"EMU_CLUSTER=", NULL});
}

static void test_data_off(void **state)
{
    (void)state;
    child_pass(data_off, (const char *[]){"EMU_DATA=off", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accounting),     cmocka_unit_test(test_lazy),    cmocka_unit_test(test_bad_frees),
        cmocka_unit_test(test_pointers),       cmocka_unit_test(test_copies),  cmocka_unit_test(test_bad_copies),
        cmocka_unit_test(test_two_dimensions), cmocka_unit_test(test_staging), cmocka_unit_test(test_stream_ordered),
        cmocka_unit_test(test_data_off),       cmocka_unit_test(test_reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
