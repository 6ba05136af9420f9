/*
 * test_launch.c - kernels: an ordinary CUDA program with and without its twins, and launches of kernels that the test
 * registers by hand, as nvcc's host code does.
 */
#include "child.h"
#include "engine.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

void **__cudaRegisterFatBinary(void *image);
void __cudaRegisterFatBinaryEnd(void **module);
void __cudaUnregisterFatBinary(void **module);
void __cudaRegisterFunction(void **module, const char *host, char *device_fun, const char *name, int thread_limit,
                            uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *warp);
cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

static const dim3 one = {1, 1, 1};
static const char echo, timer, empty, unknown, unregistered; /* their addresses identify the kernels */

static int begin(void)
{
    void **module = __cudaRegisterFatBinary(NULL);
    static const struct {
        const char *host, *name;
    } kernels[] = {{&echo, "echo"}, {&timer, "timer"}, {&empty, "empty"}, {&unknown, "no_such_twin"}};

    for (size_t i = 0; i < 4; i++)
        __cudaRegisterFunction(module, kernels[i].host, NULL, kernels[i].name, -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(module);
    return 0;
}

struct mixed {
    char letter;
    double number;
};

static int arguments(void)
{
    struct mixed mixed = {'m', 42};
    char *to, letter = 'l';
    void *args[] = {&to, &letter, &mixed};
    cudaKernel_t kernel;
    cudaStream_t s;

    OK(begin());
    OK(cudaSetDevice(2));
    OK(cudaMalloc((void **)&to, 16));
    OK(cudaStreamCreate(&s));
    OK(__cudaGetKernel(&kernel, &echo));
    OK(__cudaLaunchKernel(kernel, (dim3){2, 3, 1}, (dim3){1, 1, 5}, args, 9, s));
    letter = 'x', mixed.letter = 'x', mixed.number = 0; /* the launch has its own copies of the arguments */
    OK(cudaStreamSynchronize(s));
    EXPECT(memcmp(to, "lm\x2a\x1e\x02\x09", 6) == 0);
    OK(cudaMemset(to, 0, 16));
    OK(cudaLaunchKernel(&echo, one, one, args, 0, s));
    OK(cudaStreamSynchronize(s));
    EXPECT(to[0] == 'x');
    return 0;
}

static int times(void)
{
    int64_t *start;
    void *args[] = {&start};
    cudaLaunchConfig_t config = {.gridDim = one, .blockDim = one};

    OK(begin());
    OK(cudaMalloc((void **)&start, 8));
    OK(cudaLaunchKernel(&empty, one, one, NULL, 0, 0)); /* 1000 to 4000: kernel_us            */
    OK(cudaLaunchKernelExC(&config, &timer, args));     /* 4000 to 16000, and 1000 from run() */
    OK(cudaLaunchCooperativeKernel(&empty, one, one, NULL, 0, 0));
    OK(cudaDeviceSynchronize());
    EXPECT(*start == 4000 && emu_host_now_ns() == 20000);
    return 0;
}

static int captured(void)
{
    int64_t *start, first;
    void *args[] = {&start};
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    cudaStream_t s;

    OK(begin());
    OK(cudaMalloc((void **)&start, 8));
    OK(cudaStreamCreate(&s));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    OK(cudaLaunchKernel(&timer, one, one, args, 0, s));
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, s));
    OK(cudaStreamSynchronize(s));
    first = *start;
    OK(cudaGraphLaunch(exec, s));
    OK(cudaStreamSynchronize(s));
    EXPECT(first == 2000 && *start == 2000 + 13000 + 1000);
    return 0;
}

static int bad_launches(void)
{
    cudaStream_t elsewhere;
    void *args[] = {NULL, NULL, NULL};

    OK(begin());
    EXPECT_RC(cudaLaunchKernel(&unregistered, one, one, NULL, 0, 0), cudaErrorInvalidDeviceFunction);
    EXPECT_RC(cudaLaunchKernel(&empty, (dim3){0, 1, 1}, one, NULL, 0, 0), cudaErrorInvalidConfiguration);
    EXPECT_RC(cudaLaunchKernel(&empty, one, (dim3){1025, 1, 1}, NULL, 0, 0), cudaErrorInvalidConfiguration);
    EXPECT_RC(cudaLaunchKernel(&empty, one, (dim3){32, 32, 2}, NULL, 0, 0), cudaErrorInvalidConfiguration);
    EXPECT_RC(cudaLaunchKernel(&empty, one, one, NULL, 1 << 20, 0), cudaErrorInvalidConfiguration);
    EXPECT_RC(cudaLaunchKernel(&echo, one, one, NULL, 0, 0), cudaErrorInvalidValue);
    OK(cudaSetDevice(1));
    OK(cudaStreamCreate(&elsewhere));
    OK(cudaSetDevice(0));
    EXPECT_RC(cudaLaunchKernel(&empty, one, one, args, 0, elsewhere), cudaErrorInvalidResourceHandle);
    EXPECT_RC(cudaLaunchKernel(&unknown, one, one, args, 0, 0), cudaErrorInvalidDeviceFunction);
    EXPECT_RC(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
    OK(cudaDeviceSynchronize());
    return 0;
}

static int unknown_passes(void)
{
    OK(begin());
    OK(cudaLaunchKernel(&unknown, one, one, NULL, 0, 0));
    OK(cudaDeviceSynchronize());
    EXPECT(emu_host_now_ns() == 4000);
    return 0;
}

static int data_off(void)
{
    int64_t *start;
    void *args[] = {&start};

    OK(begin());
    OK(cudaMalloc((void **)&start, 8));
    OK(cudaLaunchKernel(&timer, one, one, args, 0, 0)); /* a twin that always runs */
    OK(cudaDeviceSynchronize());
    EXPECT(*start == 1000);
    return 0;
}

static int configurations(void)
{
    cudaStream_t stream;
    dim3 grid, block;
    size_t shared;

    EXPECT(__cudaPushCallConfiguration((dim3){1, 2, 3}, (dim3){4, 5, 6}, 7, (cudaStream_t)8) == 0);
    EXPECT(__cudaPushCallConfiguration((dim3){9, 9, 9}, one, 0, NULL) == 0);
    OK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    EXPECT(grid.x == 9 && stream == NULL);
    OK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    EXPECT(grid.z == 3 && block.x == 4 && shared == 7 && stream == (cudaStream_t)8);
    EXPECT_RC(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaErrorMissingConfiguration);
    return 0;
}

static int properties(void)
{
    struct cudaFuncAttributes attributes;
    const char *name;
    int blocks;

    OK(begin());
    OK(cudaFuncGetAttributes(&attributes, &echo));
    EXPECT(attributes.maxThreadsPerBlock == 1024);
    OK(cudaFuncSetAttribute(&echo, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000));
    OK(cudaFuncGetAttributes(&attributes, &echo));
    EXPECT(attributes.maxDynamicSharedSizeBytes == 100000);
    EXPECT_RC(cudaFuncSetAttribute(&echo, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20), cudaErrorInvalidValue);
    OK(cudaFuncGetName(&name, &unknown));
    EXPECT(strcmp(name, "no_such_twin") == 0);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &echo, 256, 0));
    EXPECT(blocks == 8);
    EXPECT_RC(cudaFuncGetAttributes(&attributes, &unregistered), cudaErrorInvalidDeviceFunction);
    return 0;
}

static int program(void)
{
    execl(SAXPY, SAXPY, (char *)NULL);
    perror(SAXPY);
    return 99;
}

static int program_own_streams(void)
{
    execl(SAXPY_OWN_STREAMS, SAXPY_OWN_STREAMS, (char *)NULL);
    perror(SAXPY_OWN_STREAMS);
    return 99;
}

#define TWINS "EMU_TWINS=" SAXPY_TWINS
#define SCENARIO(name, ...)                                                                                            \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        child_pass(name, (const char *[]){TWINS, __VA_ARGS__});                                                        \
    }
SCENARIO(arguments, NULL)
SCENARIO(times, NULL)
SCENARIO(captured, NULL)
SCENARIO(bad_launches, NULL)
SCENARIO(unknown_passes, "EMU_UNKNOWN_KERNELS=pass", NULL)
SCENARIO(data_off, "EMU_DATA=off", NULL)
SCENARIO(configurations, NULL)
SCENARIO(properties, NULL)
SCENARIO(program, NULL)
SCENARIO(program_own_streams, NULL)

/* ---- lazy loading ---- */

static void wait_for(void *go)
{
    while (!__atomic_load_n((bool *)go, __ATOMIC_ACQUIRE))
        usleep(1000);
}

static void *let_go(void *go)
{
    usleep(100000);
    __atomic_store_n((bool *)go, true, __ATOMIC_RELEASE);
    return NULL;
}

/* Launches `empty` while other work is delayed. Stores whether the launch waited for that work. */
static int launch_during_work(bool asked_before, bool *waited)
{
    struct cudaFuncAttributes attributes;
    cudaStream_t busy, other;
    bool go = false;
    pthread_t later;

    OK(begin());
    OK(cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    if (asked_before)
        OK(cudaFuncGetAttributes(&attributes, &empty));
    OK(cudaLaunchHostFunc(busy, wait_for, &go));
    OK(pthread_create(&later, NULL, let_go, &go));
    OK(cudaLaunchKernel(&empty, one, one, NULL, 0, other));
    *waited = __atomic_load_n(&go, __ATOMIC_ACQUIRE);
    pthread_join(later, NULL);
    OK(cudaDeviceSynchronize());
    return 0;
}

static int first_launch_waits(void)
{
    bool waited;

    OK(launch_during_work(false, &waited));
    EXPECT(waited);
    return 0;
}

static int launch_goes_on(void)
{
    bool waited;

    OK(launch_during_work(getenv("EMU_LAZY_LOADING") != NULL, &waited));
    EXPECT(!waited);
    return 0;
}

static void test_lazy_loading(void **state)
{
    (void)state;
    child_pass(launch_goes_on, (const char *[]){TWINS, NULL});
    child_pass(first_launch_waits, (const char *[]){TWINS, "EMU_LAZY_LOADING=1", NULL});
    child_pass(launch_goes_on, (const char *[]){TWINS, "EMU_LAZY_LOADING=1", NULL});
}

static void expect_child(int (*scenario)(void), const char *const *settings, int status, const char *message)
{
    struct child child;

    child_run(&child, scenario, settings);
    if (child.status != status || !strstr(child.err, message))
        print_error("status %d: %s", child.status, child.err);
    assert_int_equal(child.status, status);
    assert_non_null(strstr(child.err, message));
}

static void test_program_without_twins(void **state)
{
    (void)state;
    expect_child(program, (const char *[]){"EMU_TWINS=", NULL}, 1, "kernel saxpy has no CPU twin");
    expect_child(program, (const char *[]){"EMU_TWINS=", "EMU_UNKNOWN_KERNELS=pass", NULL}, 2, "y[0] = 1");
    expect_child(program, (const char *[]){"EMU_TWINS=/no/such.so", NULL}, 2, "EMU_TWINS: /no/such.so");
}

static void test_unknown_is_named_once(void **state)
{
    struct child child;
    char *first;

    (void)state;
    child_run(&child, bad_launches, (const char *[]){TWINS, NULL});
    first = strstr(child.err, "no_such_twin");
    assert_non_null(first);
    assert_null(strstr(first + 1, "no_such_twin"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_captured),
        cmocka_unit_test(test_bad_launches),
        cmocka_unit_test(test_unknown_passes),
        cmocka_unit_test(test_data_off),
        cmocka_unit_test(test_configurations),
        cmocka_unit_test(test_properties),
        cmocka_unit_test(test_program),
        cmocka_unit_test(test_lazy_loading),
        cmocka_unit_test(test_program_without_twins),
        cmocka_unit_test(test_unknown_is_named_once),
        cmocka_unit_test(test_program_own_streams),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
