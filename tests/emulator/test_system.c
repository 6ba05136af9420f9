/*
 * test_system.c - devices, environment variables, fault injection, error texts.
 */
#include "child.h"
#include "engine.h"
#include "proxies/simulation/machine/cluster.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static int devices(void)
{
    struct cudaDeviceProp first, second;
    int n, device, value;
    char bus[32];

    OK(cudaGetDeviceCount(&n));
    EXPECT(n == 8);
    OK(cudaGetDeviceProperties(&first, 0));
    OK(cudaGetDeviceProperties(&second, 7));
    EXPECT(strcmp(first.name, "Emulated GPU") == 0 && first.totalGlobalMem == 1048576);
    EXPECT(first.multiProcessorCount == 10 && first.major == 9 && first.warpSize == 32);
    EXPECT(memcmp(&first.uuid, &second.uuid, 16) != 0 && first.pciBusID != second.pciBusID);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 3));
    EXPECT(value == 10);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 3));
    EXPECT(value == (int)first.sharedMemPerBlockOptin);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrClockRate, 3));
    EXPECT(value == 1000000);
    OK(cudaDeviceGetPCIBusId(bus, sizeof(bus), 5));
    OK(cudaDeviceGetByPCIBusId(&device, bus));
    EXPECT(device == 5);
    EXPECT_RC(cudaSetDevice(8), cudaErrorInvalidDevice);
    EXPECT_RC(cudaSetDevice(-1), cudaErrorInvalidDevice);
    EXPECT_RC(cudaGetDeviceProperties(&first, 8), cudaErrorInvalidDevice);
    OK(cudaDriverGetVersion(&value));
    EXPECT(value == CUDART_VERSION);
    return 0;
}

static int peers(void)
{
    int can;

    OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    EXPECT(can == 1);
    OK(cudaDeviceCanAccessPeer(&can, 1, 1));
    EXPECT(can == 0);
    OK(cudaDeviceEnablePeerAccess(1, 0));
    EXPECT_RC(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
    OK(cudaDeviceDisablePeerAccess(1));
    EXPECT_RC(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
    EXPECT_RC(cudaDeviceEnablePeerAccess(0, 0), cudaErrorInvalidDevice);
    return 0;
}

/* Prints the UUID of device 1 for the parent. */
static int print_uuid(void)
{
    struct cudaDeviceProp prop;

    OK(cudaGetDeviceProperties(&prop, 1));
    for (int i = 0; i < 16; i++)
        fprintf(stderr, "%02x", (unsigned char)prop.uuid.bytes[i]);
    return 0;
}

/* CUDA 12.0 to 12.4 headers do not declare this function. */
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **entry, unsigned int version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *status);

static void *driver_function(const char *name)
{
    enum cudaDriverEntryPointQueryResult found;
    void *function = NULL;

    (void)cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found);
    return found == cudaDriverEntryPointSuccess ? function : NULL;
}

/* Prints the visible devices: PCI bus and first digits of the UUID, from the driver. */
static int print_visible(void)
{
    int (*get_uuid)(unsigned char *, int);
    unsigned char uuid[16];
    struct cudaDeviceProp prop;
    int n = 0;

    *(void **)&get_uuid = driver_function("cuDeviceGetUuid");
    (void)cudaGetDeviceCount(&n);
    for (int d = 0; d < n; d++) {
        OK(cudaGetDeviceProperties(&prop, d));
        EXPECT(get_uuid(uuid, d) == 0);
        fprintf(stderr, "%d:%02x%02x%02x%02x ", prop.pciBusID, uuid[0], uuid[1], uuid[2], uuid[3]);
    }
    return 0;
}

/* The properties of a MIG instance have the UUID of its GPU; the driver returns the UUID of the instance. */
static int driver_returns_instance_uuid(void)
{
    int (*get_uuid)(unsigned char *, int);
    unsigned char uuid[16];
    struct cudaDeviceProp prop;

    *(void **)&get_uuid = driver_function("cuDeviceGetUuid");
    OK(cudaGetDeviceProperties(&prop, 0));
    EXPECT(get_uuid(uuid, 0) == 0 && get_uuid(uuid, 64) != 0);
    EXPECT((memcmp(uuid, prop.uuid.bytes, 16) == 0) == (getenv("EMU_MIG") == NULL));
    EXPECT(driver_function("cuMemCreate") == NULL);
    EXPECT((driver_function("cuMemRelease") == NULL) == (getenv("EMU_NO_CUMEM") != NULL));
    return 0;
}

static int three_devices(void)
{
    int n;

    OK(cudaGetDeviceCount(&n));
    EXPECT(n == 3);
    return 0;
}

static int no_device(void)
{
    int n = 7;
    void *p;

    EXPECT_RC(cudaGetDeviceCount(&n), cudaErrorNoDevice);
    EXPECT(n == 0);
    EXPECT_RC(cudaMalloc(&p, 1), cudaErrorNoDevice);
    EXPECT_RC(cudaStreamSynchronize(0), cudaErrorNoDevice);
    EXPECT_RC(cudaGetLastError(), cudaErrorNoDevice);
    return 0;
}

static int error_texts(void)
{
    EXPECT(strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue") == 0);
    EXPECT(strcmp(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument") == 0);
    EXPECT(strcmp(cudaGetErrorName(cudaErrorStreamCaptureUnjoined), "cudaErrorStreamCaptureUnjoined") == 0);
    EXPECT(strcmp(cudaGetErrorName(cudaErrorUnknown), "cudaErrorUnknown") == 0);
    EXPECT(strcmp(cudaGetErrorString(cudaSuccess), "no error") == 0);
    EXPECT(strcmp(cudaGetErrorName((cudaError_t)12345), "unrecognized error code") == 0);
    return 0;
}

int cudaGLGetDevices(void);

static int not_modelled(void)
{
    EXPECT_RC(cudaGLGetDevices(), cudaErrorNotSupported);
    EXPECT_RC(cudaGetLastError(), cudaErrorNotSupported);
    return 0;
}

static int many_calls(void)
{
    void *p[5];

    for (int i = 0; i < 5; i++) {
        cudaError_t rc = cudaMalloc(&p[i], 100);

        if (rc != cudaSuccess)
            return 10 + i;
        if (cudaMemset(p[i], 0, 100) != cudaSuccess)
            return 20 + i;
    }
    return 0;
}

/* A fault's name is the function that the program calls. */
static int events_fail(void)
{
    cudaStream_t s;
    cudaEvent_t e;

    if (cudaEventCreate(&e))
        return 3;
    if (cudaStreamCreate(&s))
        return 4;
    return cudaEventRecord(e, s) ? 1 : cudaEventRecord(e, s) ? 2 : 0;
}

static int corruptions(void)
{
    int hit = 0;

    for (int i = 1; i <= 5; i++)
        if (emu_fault_corrupts("ncclAllReduce"))
            hit = hit * 10 + i;
    return hit;
}

static int one_call(void)
{
    return cudaFree(NULL) != cudaSuccess;
}

static void *call_elsewhere(void *unused)
{
    one_call();
    return unused;
}

/* The stalled call never returns; the rest of the process continues. */
static int stall(void)
{
    struct timespec soon;
    pthread_t thread;

    EXPECT(pthread_create(&thread, NULL, call_elsewhere, NULL) == 0);
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 50000000;
    soon.tv_sec += soon.tv_nsec / 1000000000;
    soon.tv_nsec %= 1000000000;
    EXPECT(pthread_timedjoin_np(thread, NULL, &soon) == ETIMEDOUT);
    OK(cudaFree(NULL));
    return 0;
}

static int world(void)
{
    EXPECT(emu_world_rank() == 3 && emu_world_size() == 6);
    return 0;
}

/* Prints the whole profile. */
static int print_profile(void)
{
    const struct bb_cluster *p = emu_machine();

    fprintf(stderr, "%s %d %d %d %g %g %g %g %g", p->name, p->gpus_per_node, p->sm_count, p->clock_khz, p->launch_us,
            p->nccl_launch_us, p->kernel_us, p->memory_gbps, p->memory_bytes);
    fprintf(stderr, " %g %g %g %g %g %g %g %g", p->tflops_float32, p->tflops_float16, p->tflops_bfloat16,
            p->tflops_float64, p->intra.latency_us, p->intra.gbps, p->inter.latency_us, p->inter.gbps);
    return 0;
}

#define SCENARIO(name, ...)                                                                                            \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        child_pass(name, (const char *[]){__VA_ARGS__});                                                               \
    }
SCENARIO(devices, NULL)
SCENARIO(peers, NULL)
SCENARIO(three_devices, "EMU_DEVICES=3", NULL)
SCENARIO(no_device, "EMU_DEVICES=0", NULL)
SCENARIO(error_texts, NULL)
SCENARIO(world, "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=6", NULL)
SCENARIO(stall, "EMU_FAULT=stall:call=1", NULL)

/* The built-in profile equals the profile of the same name in profiles/clusters. */
static void test_built_in_profile(void **state)
{
    struct child built_in, from_file;

    (void)state;
    child_run(&built_in, print_profile, (const char *[]){"EMU_CLUSTER=", NULL});
    child_run(&from_file, print_profile, (const char *[]){"EMU_CLUSTER=" DEFAULT_PROFILE, NULL});
    assert_int_equal(built_in.status, 0);
    assert_string_equal(built_in.err, from_file.err);
    assert_non_null(strstr(built_in.err, "emulated-default"));
}

/* Two processes with different local ranks see the same device under the same number. */
static void test_uuid_across_processes(void **state)
{
    struct child first, second;

    (void)state;
    child_run(&first, print_uuid, (const char *[]){"OMPI_COMM_WORLD_LOCAL_RANK=0", NULL});
    child_run(&second, print_uuid, (const char *[]){"OMPI_COMM_WORLD_LOCAL_RANK=1", NULL});
    assert_int_equal(strlen(first.err), 32);
    assert_string_equal(first.err, second.err);
}

static void test_driver(void **state)
{
    static const char *const settings[] = {"EMU_DEVICES=1", "EMU_MIG=2", "EMU_NO_CUMEM=1"};

    (void)state;
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
        child_pass(driver_returns_instance_uuid, (const char *[]){settings[i], NULL});
}

static void expect_visible(const char *variable, const char *mig, const char *expected)
{
    struct child child;

    child_run(&child, print_visible, (const char *[]){mig, variable, NULL});
    assert_string_equal(child.err, expected);
}

/* As in the CUDA Programming Guide: in the order of the list, up to the first invalid entry. */
static void test_visible_devices(void **state)
{
    struct child all, instances;
    char third[32] = "", variable[128], expected[128];

    (void)state;
    child_run(&all, print_visible, (const char *[]){"EMU_DEVICES=4", NULL});
    assert_int_equal(sscanf(all.err, "%*s %*s %31s", third), 1); /* "3:01234567" */
    snprintf(expected, sizeof(expected), "%s ", third);
    expect_visible("CUDA_VISIBLE_DEVICES=2", "EMU_DEVICES=4", expected);
    expect_visible("CUDA_VISIBLE_DEVICES=2,7,0", "EMU_DEVICES=4", expected);
    expect_visible("CUDA_VISIBLE_DEVICES=2,2,0", "EMU_DEVICES=4", expected);
    snprintf(variable, sizeof(variable), "CUDA_VISIBLE_DEVICES=GPU-%s,GPU-no", third + 2);
    expect_visible(variable, "EMU_DEVICES=4", expected);
    expect_visible("CUDA_VISIBLE_DEVICES=GPU-", "EMU_DEVICES=4", ""); /* matches all four */
    expect_visible("CUDA_VISIBLE_DEVICES=", "EMU_DEVICES=4", "");
    expect_visible("CUDA_VISIBLE_DEVICES=-1", "EMU_DEVICES=4", "");
    expect_visible("CUDA_VISIBLE_DEVICES=MIG-0", "EMU_DEVICES=4", "");

    child_run(&instances, print_visible, (const char *[]){"EMU_MIG=2", NULL});
    assert_int_equal(sscanf(instances.err, "1:%31s", third), 1);
    assert_null(strstr(instances.err, "2:")); /* a process sees one instance */
    snprintf(variable, sizeof(variable), "CUDA_VISIBLE_DEVICES=MIG-%s", third);
    expect_visible(variable, "EMU_MIG=2", instances.err);
}

static void test_not_modelled(void **state)
{
    struct child child;

    (void)state;
    child_run(&child, not_modelled, NULL);
    assert_int_equal(child.status, 0);
    assert_non_null(strstr(child.err, "cudaGLGetDevices is not modelled"));
}

struct expectation {
    int (*scenario)(void);
    const char *settings[3];
    int status;
    const char *message; /* expected on stderr; NULL: nothing */
};

static void expect(const struct expectation *e)
{
    struct child child;

    child_run(&child, e->scenario, e->settings);
    if (child.status != e->status || (e->message && !strstr(child.err, e->message)))
        print_error("%s: status %d: %s\n", e->settings[0], child.status, child.err);
    assert_int_equal(child.status, e->status);
    if (e->message)
        assert_non_null(strstr(child.err, e->message));
    else
        assert_string_equal(child.err, "");
}

static void test_faults(void **state)
{
    static const struct expectation cases[] = {
        {many_calls, {"EMU_FAULT=fail:rank=0,call=1"}, 10, NULL},
        {many_calls, {"EMU_FAULT=fail:rank=0,call=4"}, 21, NULL},
        {many_calls, {"EMU_FAULT=fail:call=5,name=cudaMemset"}, 24, NULL},
        {many_calls, {"EMU_FAULT=fail:call=6,name=cudaMemset"}, 0, NULL},
        {many_calls, {"EMU_FAULT=fail:rank=1,call=1"}, 0, NULL},
        {many_calls, {"EMU_FAULT=fail:rank=1,call=1", "PMI_RANK=1"}, 10, NULL},
        {many_calls, {"EMU_FAULT=fail:rank=1,call=1;fail:call=3"}, 11, NULL},
        {events_fail, {"EMU_FAULT=fail:name=cudaEventRecord,call=2"}, 2, NULL},
        {events_fail, {"EMU_FAULT=fail:name=cudaEventCreate"}, 3, NULL},
        {events_fail, {"EMU_FAULT=fail:name=cudaStreamCreate"}, 4, NULL},
        {events_fail, {"EMU_FAULT=fail:name=cudaEventRecordWithFlags"}, 0, NULL},
        {many_calls, {"EMU_FAULT=corrupt:call=1"}, 0, NULL},
        {many_calls,
         {"EMU_FAULT=corrupt:call=1", "EMU_DATA=off"},
         2,
         "'corrupt:call=1' has no effect with EMU_DATA=off"},
        {many_calls, {"EMU_FAULT=die:rank=0,call=3"}, CHILD_SIGNAL + SIGKILL, NULL},
        {corruptions, {"EMU_FAULT=corrupt:rank=0,call=3"}, 3, NULL},
        {corruptions, {"EMU_FAULT=corrupt:call=2,name=ncclAllReduce;corrupt:call=4"}, 24, NULL},
        {corruptions, {"EMU_FAULT=corrupt:call=1,name=ncclBroadcast"}, 0, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect(&cases[i]);
}

static void test_bad_environment(void **state)
{
    static const struct expectation cases[] = {
        {one_call, {"EMU_FAULT=explode:rank=0"}, 2, "explode"},
        {one_call, {"EMU_FAULT=die:rank=x"}, 2, "'x'"},
        {one_call, {"EMU_FAULT=die:rank=2", "PMI_SIZE=2"}, 2, "rank 2 does not exist, ranks are 0 to 1"},
        {one_call, {"EMU_FAULT=fail:name=cudaMemst"}, 2, "unknown function 'cudaMemst'"},
        {one_call, {"EMU_FAULT=fail:name=AllReduce"}, 2, "unknown function 'AllReduce'"},
        {one_call, {"EMU_FAULT=die:when=now"}, 2, "when"},
        {one_call, {"EMU_FAULT=die:call=0"}, 2, "the first call is 1"},
        {one_call, {"EMU_DEVICES=many"}, 2, "EMU_DEVICES=many: expected 0 to 64"},
        {one_call, {"EMU_DEVICES=65"}, 2, "EMU_DEVICES=65"},
        {one_call, {"EMU_TIME=fast"}, 2, "EMU_TIME=fast: expected real or virtual"},
        {one_call, {"EMU_DATA=no"}, 2, "EMU_DATA=no: expected off or on"},
        {one_call, {"EMU_CLUSTER=/no/such/file"}, 2, "EMU_CLUSTER: /no/such/file: No such file or directory"},
        {one_call, {"EMU_CLUSTER=h100-sxm-ip"}, 2, "did you mean 'h100-sxm-ib'?"},
        {one_call, {"EMU_CLUSTER=h100-sxm-ib", "EMU_QUIET=0"}, 0, "profile h100-sxm-ib,"},
        {one_call, {"EMU_QUIET=0"}, 0, "results are modelled, not measured; the CPU moves the data,"},
        {one_call, {"EMU_QUIET=0", "EMU_DATA=off"}, 0, "results are modelled, not measured\n"},
        {one_call, {"EMU_QUIET=0", "OMPI_COMM_WORLD_RANK=1"}, 0, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect(&cases[i]);
}

/* Cluster profiles with a missing key, an unknown key, or an invalid value. */
static void test_bad_profiles(void **state)
{
    static const struct {
        const char *find, *put, *message;
    } edits[] = {
        {"\"kernel_us\": 3,", "", "keys are missing: kernel_us;"},
        {"\"kernel_us\": 3", "\"kernel_us\": -3", "'kernel_us'"},
        {"\"kernel_us\": 3", "\"kernel_us\": 3, \"kernal_us\": 3",
         "unknown key 'kernal_us', did you mean 'kernel_us'?"},
        {"\"memory_gbps\": 1", "\"memory_gbps\": 0", "'memory_gbps' is 0"},
        {"\"latency_us\": 4", "\"latency\": 4", "unknown key 'intra.latency'"},
        {"\"float16\": 2,", "", "keys are missing: tflops.float16;"},
        {"\"name\": ", "\"name\": 1, \"description\": ", "'name'"},
        {"{", "[", "line 2"},
    };
    static char text[4096], path[] = "/tmp/emu_profile_XXXXXX", setting[64];
    FILE *file = fopen(TEST_PROFILE, "r");
    int fd = mkstemp(path);

    (void)state;
    assert_non_null(file);
    assert_true(fd >= 0);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    snprintf(setting, sizeof(setting), "EMU_CLUSTER=%s", path);
    for (size_t i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
        const char *found = strstr(text, edits[i].find);

        assert_non_null(found);
        file = fopen(path, "w");
        fprintf(file, "%.*s%s%s", (int)(found - text), text, edits[i].put, found + strlen(edits[i].find));
        fclose(file);
        expect(&(struct expectation){one_call, {setting}, 2, edits[i].message});
    }
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_three_devices),
        cmocka_unit_test(test_no_device),
        cmocka_unit_test(test_error_texts),
        cmocka_unit_test(test_world),
        cmocka_unit_test(test_built_in_profile),
        cmocka_unit_test(test_stall),
        cmocka_unit_test(test_uuid_across_processes),
        cmocka_unit_test(test_visible_devices),
        cmocka_unit_test(test_driver),
        cmocka_unit_test(test_not_modelled),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_bad_environment),
        cmocka_unit_test(test_bad_profiles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
