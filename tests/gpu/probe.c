/*
 * probe.c - measures undocumented properties of a GPU that busbar relies on; prints "metric NAME VALUE UNIT" per line.
 *
 *   launch_queue         launches after a closed start barrier until a call blocks (must exceed the barrier's capacity)
 *   copy_queue           the same for device-to-device copies, which NCCL uses with one rank
 *   gpu_clock_tick       resolution of the GPU clock that the timed kernel reads
 *   event_step           smallest non-zero difference of two events
 *   start_barrier_latency  minimum time from opening the start barrier until the host sees the held work complete
 *   launch_host          minimum host time of the launch of one small kernel; shorter kernels are limited by the host
 *   launch_and_wait      minimum time to launch one small kernel and wait for it
 *   first_launch_concurrent  host time of the first launch of a kernel while another kernel spins for 300 ms: near 300
 *                            ms if
 *                        lazy loading waits for the running kernel
 *   first_launch_loaded  the same for another kernel, after busbar has loaded all its kernels: near 0 if loading them
 *                        helps
 *   granularity          allocation granularity of ncclMemAlloc
 *   multicast_granularity  recommended granularity of multicast (NVLS) memory, to which NCCL before 2.26 rounds the sizes of
 *                        ncclMemAlloc; 0: the driver or the GPU has no multicast
 *   nccl_queue           operations of two ranks (on one GPU if there is only one) after a closed start barrier until a call
 *                        blocks; launch_queue / nccl_queue are the entries of an operation
 *   nccl_host            minimum host time of an operation of both ranks, issued by one thread
 *   nccl_operation       time of an operation of both ranks, back to back, and the same
 *   nccl_operation_after_capture  after one was captured in a graph (NCCL_GRAPH_MIXING_SUPPORT)
 *   nvml_sample          minimum host time of reading clocks, temperature and power
 *   driver_uuid          1: the driver reports the UUID of the GPU or MIG instance
 *   same_uuid            1: the CUDA runtime reports the same UUID
 *
 * Exit status 1 if a call fails. The values are not judged. NCCL before 2.30.3 has no two ranks on one GPU: then there are no
 * values of NCCL.
 */
#include "bootstrap/base/clock.h"
#include "bootstrap/world/comms.h"
#include "cuda/compute/busy.h"
#include "cuda/compute/start_barrier.h"
#include "cuda/data/kernels.h"
#include "cuda/device/driver.h"
#include "cuda/device/nvml.h"
#include "cuda/load/kernels_load.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 16, MAX_CALLS = 8192, ROUNDS = 100, RANKS = 2 };

struct probe {
    cudaStream_t stream, other;
    cudaEvent_t begin, end;
    unsigned char *buf;
    struct bb_busy_report *report; /* pinned host memory */
    struct bb_start_barrier start_barrier;
    ncclComm_t comms[RANKS];
    int devices[RANKS];
    cudaStream_t streams[RANKS]; /* streams[0] is `stream` */
    unsigned char *words[RANKS];
    cudaEvent_t joined;
};

#define CUDA(call) cuda_at((call), #call)

static int cuda_at(cudaError_t rc, const char *call)
{
    return rc == cudaSuccess ? 0 : bb_err(BB_EFAIL, "%s: %s", call, cudaGetErrorString(rc));
}

static double now_us(void)
{
    return 1e6 * bb_now_s();
}

static void print_metric(const char *name, double value, const char *unit)
{
    printf("metric %s %.3f %s\n", name, value, unit);
    fflush(stdout);
}

static int open_probe(struct probe *p)
{
    int rc;

    TRY(CUDA(cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking)));
    TRY(CUDA(cudaStreamCreateWithFlags(&p->other, cudaStreamNonBlocking)));
    TRY(CUDA(cudaEventCreate(&p->begin)));
    TRY(CUDA(cudaEventCreate(&p->end)));
    TRY(CUDA(cudaMalloc((void **)&p->buf, BYTES)));
    TRY(CUDA(cudaMallocHost((void **)&p->report, sizeof(*p->report))));
    TRY(bb_start_barrier_init(&p->start_barrier, 1000000000));
out:
    return rc;
}

/* ---- queues ---- */

static int launch_small(struct probe *p)
{
    return bb_busy_run(&(struct bb_busy){0}, p->stream);
}

static int copy_small(struct probe *p)
{
    return CUDA(cudaMemcpyAsync(p->buf, p->buf + BYTES / 2, BYTES / 2, cudaMemcpyDeviceToDevice, p->stream));
}

/* A call that blocks until the timeout of the start barrier has found the queue full. */
static int probe_queue(struct probe *p, const char *name, int (*enqueue)(struct probe *))
{
    double longest = 0;
    int depth = 0, rc;

    TRY(enqueue(p));
    TRY(CUDA(cudaStreamSynchronize(p->stream)));
    TRY(bb_start_barrier_close(&p->start_barrier, p->stream));
    while (depth < MAX_CALLS && longest < 1e5) {
        double start = now_us();

        TRY(enqueue(p));
        longest = fmax(longest, now_us() - start);
        depth += longest < 1e5;
    }
    bb_start_barrier_open(&p->start_barrier);
    TRY(CUDA(cudaStreamSynchronize(p->stream)));
    print_metric(name, depth, depth == MAX_CALLS ? "calls_at_least" : "calls");
out:
    return rc;
}

/* ---- clocks ---- */

static unsigned long long common_divisor(unsigned long long a, unsigned long long b)
{
    while (b != 0) {
        unsigned long long rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

static int probe_gpu_clock(struct probe *p)
{
    unsigned long long tick = 0, last = 0;
    int rc = 0;

    for (int i = 0; i < ROUNDS; i++) {
        const struct bb_busy busy = {.sms = 1, .ns = 1000 + 37 * i, .report = p->report};

        TRY(bb_busy_report_clear(p->report, p->stream));
        TRY(bb_busy_run(&busy, p->stream));
        TRY(CUDA(cudaStreamSynchronize(p->stream)));
        tick = common_divisor(tick, p->report->end_ns - p->report->start_ns);
        tick = common_divisor(tick, i > 0 ? p->report->start_ns - last : 0);
        last = p->report->start_ns;
    }
    print_metric("gpu_clock_tick", (double)tick, "ns");
out:
    return rc;
}

static int probe_events(struct probe *p)
{
    float elapsed_ms, min_ms = INFINITY;
    int rc = 0;

    for (int i = 0; i < ROUNDS; i++) {
        TRY(CUDA(cudaEventRecord(p->begin, p->stream)));
        TRY(CUDA(cudaEventRecord(p->end, p->stream)));
        TRY(CUDA(cudaEventSynchronize(p->end)));
        TRY(CUDA(cudaEventElapsedTime(&elapsed_ms, p->begin, p->end)));
        if (elapsed_ms > 0)
            min_ms = fminf(min_ms, elapsed_ms);
    }
    print_metric("event_step", isfinite(min_ms) ? 1e3 * (double)min_ms : 0, "us");
out:
    return rc;
}

/* Polls, because a blocking wait may put the thread to sleep. */
static int wait_for(cudaEvent_t event)
{
    cudaError_t rc;

    while ((rc = cudaEventQuery(event)) == cudaErrorNotReady)
        continue;
    return CUDA(rc);
}

static int probe_latencies(struct probe *p)
{
    double barrier_us = INFINITY, launch_us = INFINITY, host_us = INFINITY;
    int rc = 0;

    for (int i = 0; i < ROUNDS; i++) {
        double start;

        TRY(bb_start_barrier_close(&p->start_barrier, p->stream));
        TRY(CUDA(cudaEventRecord(p->end, p->stream)));
        start = now_us();
        bb_start_barrier_open(&p->start_barrier);
        TRY(wait_for(p->end));
        barrier_us = fmin(barrier_us, now_us() - start);
        start = now_us();
        TRY(bb_busy_run(&(struct bb_busy){0}, p->stream));
        host_us = fmin(host_us, now_us() - start);
        TRY(CUDA(cudaEventRecord(p->end, p->stream)));
        TRY(wait_for(p->end));
        launch_us = fmin(launch_us, now_us() - start);
    }
    print_metric("start_barrier_latency", barrier_us, "us");
    print_metric("launch_host", host_us, "us");
    print_metric("launch_and_wait", launch_us, "us");
out:
    return rc;
}

/* ---- loading ---- */

/* Must run before any other use of the check and fill kernels. */
static int probe_first_launch(struct probe *p)
{
    const struct bb_busy busy = {.sms = 1, .ns = 300000000};
    const struct bb_pattern pattern = bb_pattern_of(&bb_dtypes[BB_FLOAT], BB_SUM, 1, 0);
    double start;
    int rc;

    TRY(bb_busy_run(&(struct bb_busy){0}, p->stream));
    TRY(bb_busy_run(&busy, p->stream));
    TRY(CUDA(cudaStreamSynchronize(p->stream)));
    TRY(bb_busy_run(&busy, p->stream));
    start = now_us();
    TRY(bb_check_bytes(p->buf, BYTES / 2, 0, (struct bb_verdict *)(void *)(p->buf + BYTES / 2), p->other));
    print_metric("first_launch_concurrent", (now_us() - start) / 1e3, "ms");
    TRY(CUDA(cudaDeviceSynchronize()));
    TRY(bb_kernels_load());
    TRY(bb_busy_run(&busy, p->stream));
    start = now_us();
    TRY(bb_fill(p->buf, 16, &pattern, 0, 0, p->other));
    print_metric("first_launch_loaded", (now_us() - start) / 1e3, "ms");
    TRY(CUDA(cudaDeviceSynchronize()));
out:
    return rc;
}

/* ---- driver ---- */

static double multicast_granularity(void)
{
    const CUmulticastObjectProp asked = {
        .numDevices = 1, .size = 1, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUresult (*get)(size_t *, const CUmulticastObjectProp *, CUmulticastGranularity_flags) = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    size_t bytes = 0;

    if (driver)
        *(void **)&get = dlsym(driver, "cuMulticastGetGranularity");
    return get && get(&bytes, &asked, CU_MULTICAST_GRANULARITY_RECOMMENDED) == CUDA_SUCCESS ? (double)bytes : 0;
}

static int probe_driver(void)
{
    struct cudaDeviceProp prop;
    unsigned char uuid[16];
    const bool known = bb_driver_uuid(0, uuid);
    int rc = CUDA(cudaGetDeviceProperties(&prop, 0));

    if (rc != 0)
        return rc;
    print_metric("granularity", (double)bb_driver_granularity() / (1 << 20), "MiB");
    print_metric("multicast_granularity", multicast_granularity() / (1 << 20), "MiB");
    print_metric("driver_uuid", known, "(1: known to the driver)");
    print_metric("same_uuid", known && memcmp(uuid, prop.uuid.bytes, sizeof(uuid)) == 0, "(1: same as the runtime's)");
    return 0;
}

/* ---- NCCL ---- */

static int reduce_word(struct probe *p)
{
    int rc;

    TRY(BB_NCCL(ncclGroupStart()));
    for (int r = 0; r < RANKS; r++)
        TRY(BB_NCCL(ncclAllReduce(p->words[r], p->words[r], 1, ncclInt32, ncclSum, p->comms[r], p->streams[r])));
    TRY(BB_NCCL(ncclGroupEnd()));
out:
    return rc;
}

static int wait_for_ranks(struct probe *p)
{
    int rc = 0;

    for (int r = 0; r < RANKS && rc == 0; r++)
        rc = CUDA(cudaStreamSynchronize(p->streams[r]));
    return rc;
}

/* Returns a positive value if this NCCL does not accept two ranks on one GPU. */
static int make_ranks(struct probe *p)
{
    int gpus, rc;

    TRY(CUDA(cudaGetDeviceCount(&gpus)));
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
    for (int r = 0; r < RANKS; r++) {
        p->devices[r] = r % gpus;
        TRY(CUDA(cudaSetDevice(p->devices[r])));
        p->streams[r] = p->stream;
        if (r > 0)
            TRY(CUDA(cudaStreamCreateWithFlags(&p->streams[r], cudaStreamNonBlocking)));
        TRY(CUDA(cudaMalloc((void **)&p->words[r], BYTES)));
    }
    TRY(CUDA(cudaSetDevice(0)));
    if (ncclCommInitAll(p->comms, RANKS, p->devices) != ncclSuccess)
        return 1;
    TRY(reduce_word(p));
    TRY(wait_for_ranks(p));
out:
    return rc;
}

static int time_operations(struct probe *p, const char *name)
{
    double host_us = INFINITY;
    float ms;
    int rc;

    TRY(CUDA(cudaEventRecord(p->begin, p->stream)));
    for (int i = 0; i < ROUNDS; i++) {
        const double start = now_us();

        TRY(reduce_word(p));
        host_us = fmin(host_us, now_us() - start);
    }
    TRY(CUDA(cudaEventRecord(p->end, p->stream)));
    TRY(wait_for_ranks(p));
    TRY(CUDA(cudaEventElapsedTime(&ms, p->begin, p->end)));
    print_metric(name, 1e3 * (double)ms / ROUNDS, "us");
    if (strcmp(name, "nccl_operation") == 0)
        print_metric("nccl_host", host_us, "us");
out:
    return rc;
}

/* Captures one operation; the graph is not launched. Streams of several devices join one capture through events. */
static int capture_operation(struct probe *p)
{
    cudaGraph_t graph;
    int rc;

    TRY(CUDA(cudaStreamBeginCapture(p->stream, cudaStreamCaptureModeThreadLocal)));
    TRY(CUDA(cudaEventRecord(p->begin, p->stream)));
    TRY(CUDA(cudaStreamWaitEvent(p->streams[1], p->begin, 0)));
    TRY(reduce_word(p));
    TRY(CUDA(cudaSetDevice(p->devices[1])));
    TRY(CUDA(cudaEventRecord(p->joined, p->streams[1])));
    TRY(CUDA(cudaSetDevice(0)));
    TRY(CUDA(cudaStreamWaitEvent(p->stream, p->joined, 0)));
    TRY(CUDA(cudaStreamEndCapture(p->stream, &graph)));
    TRY(CUDA(cudaGraphDestroy(graph)));
out:
    return rc;
}

static int probe_nccl(struct probe *p)
{
    int rc = make_ranks(p);

    if (rc != 0)
        return rc < 0 ? rc : 0;
    TRY(CUDA(cudaSetDevice(p->devices[1])));
    TRY(CUDA(cudaEventCreateWithFlags(&p->joined, cudaEventDisableTiming)));
    TRY(CUDA(cudaSetDevice(0)));
    TRY(probe_queue(p, "nccl_queue", reduce_word));
    TRY(wait_for_ranks(p));
    TRY(time_operations(p, "nccl_operation"));
    TRY(capture_operation(p));
    TRY(time_operations(p, "nccl_operation_after_capture"));
out:
    return rc;
}

static void probe_nvml(void)
{
    struct bb_device_info device = {0};
    struct bb_nvml_sample sample;
    double us = INFINITY;
    struct bb_nvml nvml;

    if (cudaDeviceGetPCIBusId(device.pci, sizeof device.pci, 0) != cudaSuccess)
        return;
    bb_nvml_open(&nvml, &device, false);
    for (int i = 0; nvml.library && i < ROUNDS; i++) {
        const double start = now_us();

        bb_nvml_sample(&nvml, &sample);
        us = fmin(us, now_us() - start);
    }
    print_metric("nvml_sample", isfinite(us) ? us : 0, "us");
    bb_nvml_release(&nvml);
}

int main(void)
{
    struct probe p = {0};
    int rc;

    TRY(open_probe(&p));
    TRY(probe_first_launch(&p));
    TRY(probe_driver());
    TRY(probe_queue(&p, "launch_queue", launch_small));
    TRY(probe_queue(&p, "copy_queue", copy_small));
    TRY(probe_gpu_clock(&p));
    TRY(probe_events(&p));
    TRY(probe_latencies(&p));
    probe_nvml();
    TRY(probe_nccl(&p));
out:
    return rc == 0 ? 0 : 1;
}
