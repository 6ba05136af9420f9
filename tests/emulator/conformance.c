/*
 * conformance.c - calls the CUDA runtime with valid and invalid arguments and prints each result, one line per call. A
 * test compares the output on emulated GPUs with conformance.txt. On a real GPU the output should be the same: run the
 * program there without the emulator and compare. It uses no kernel, needs one GPU and leaves no sticky error.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

static void say(const char *call, cudaError_t rc)
{
    printf("%s -> %s\n", call, cudaGetErrorName(rc));
}
#define SAY(call)  say(#call, call)
#define FACT(fact) printf("%s: %s\n", #fact, (fact) ? "yes" : "no")

static char *device, *pinned, plain[256];
static cudaStream_t s, t, blocking;
static cudaEvent_t a, b, untimed;
static cudaGraph_t graph;

static void begin(void)
{
    SAY(cudaSetDevice(0));
    SAY(cudaMalloc((void **)&device, 4096));
    SAY(cudaMallocHost((void **)&pinned, 4096));
    SAY(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    SAY(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    SAY(cudaStreamCreate(&blocking));
    SAY(cudaEventCreate(&a));
    SAY(cudaEventCreate(&b));
    SAY(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
}

static void devices_and_errors(void)
{
    int n, value;

    SAY(cudaGetDeviceCount(&n));
    SAY(cudaSetDevice(n));
    SAY(cudaPeekAtLastError());
    SAY(cudaGetLastError());
    SAY(cudaGetLastError());
    SAY(cudaSetDevice(-1));
    SAY(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0));
    FACT(value == 32);
    SAY(cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)0, 0));
    SAY(cudaGetDeviceCount(NULL));
    SAY(cudaDeviceEnablePeerAccess(0, 0));
    SAY(cudaDeviceCanAccessPeer(&value, 0, 0));
    FACT(value == 0);
    cudaGetLastError();
}

static void memory(void)
{
    struct cudaPointerAttributes attributes;
    void *p = &attributes;

    SAY(cudaMalloc(&p, 0));
    FACT(p == NULL);
    SAY(cudaMalloc(&p, (size_t)1 << 50));
    SAY(cudaGetLastError());
    SAY(cudaFree(NULL));
    SAY(cudaFreeHost(NULL));
    SAY(cudaMemcpy(device, plain, 256, cudaMemcpyHostToDevice));
    SAY(cudaMemcpy(device, plain, 0, cudaMemcpyHostToDevice));
    SAY(cudaMemcpy(device, plain, 8, (enum cudaMemcpyKind)9));
    SAY(cudaMemset(device, 0, 4096));
    SAY(cudaPointerGetAttributes(&attributes, device + 10));
    FACT(attributes.type == cudaMemoryTypeDevice && attributes.device == 0 && attributes.devicePointer == device + 10);
    SAY(cudaPointerGetAttributes(&attributes, pinned));
    FACT(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == pinned);
    SAY(cudaPointerGetAttributes(&attributes, plain));
    FACT(attributes.type == cudaMemoryTypeUnregistered);
    SAY(cudaHostUnregister(plain));
    SAY(cudaHostRegister(plain, sizeof(plain), cudaHostRegisterDefault));
    SAY(cudaHostRegister(plain, sizeof(plain), cudaHostRegisterDefault));
    SAY(cudaHostUnregister(plain));
    SAY(cudaMallocManaged(&p, 0, cudaMemAttachGlobal));
    cudaGetLastError();
}

static void events(void)
{
    cudaEvent_t never;
    float ms;

    SAY(cudaEventCreate(&never));
    SAY(cudaEventQuery(never));
    SAY(cudaEventSynchronize(never));
    SAY(cudaStreamWaitEvent(s, never, 0));
    SAY(cudaEventElapsedTime(&ms, never, never));
    SAY(cudaEventRecord(a, s));
    SAY(cudaMemsetAsync(device, 1, 4096, s));
    SAY(cudaEventRecord(b, s));
    SAY(cudaEventRecord(untimed, s));
    SAY(cudaEventSynchronize(b));
    SAY(cudaEventElapsedTime(&ms, a, b));
    FACT(ms > 0);
    SAY(cudaEventElapsedTime(&ms, b, a));
    FACT(ms < 0);
    SAY(cudaEventElapsedTime(&ms, a, untimed));
    SAY(cudaEventCreateWithFlags(&never, 1u << 20));
    SAY(cudaEventCreateWithFlags(&never, cudaEventInterprocess));
    SAY(cudaEventRecordWithFlags(a, s, cudaEventRecordExternal));
    cudaGetLastError();
}

static void streams(void)
{
    int least, greatest, priority;
    cudaStream_t made;
    unsigned flags;

    cudaStreamSynchronize(s); /* the last event of the stream was recorded but never waited for */
    SAY(cudaStreamQuery(s));
    SAY(cudaStreamSynchronize(0));
    SAY(cudaStreamSynchronize(cudaStreamLegacy));
    SAY(cudaStreamSynchronize(cudaStreamPerThread));
    SAY(cudaStreamCreateWithFlags(&made, 1u << 8));
    SAY(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    SAY(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, greatest - 100));
    SAY(cudaStreamGetPriority(made, &priority));
    FACT(priority == greatest);
    SAY(cudaStreamGetFlags(made, &flags));
    FACT(flags == cudaStreamNonBlocking);
    SAY(cudaStreamDestroy(made));
    SAY(cudaLaunchHostFunc(s, NULL, NULL));
    SAY(cudaStreamAddCallback(s, NULL, NULL, 0));
    cudaGetLastError();
}

static void captures(void)
{
    enum cudaStreamCaptureStatus status;
    cudaGraphExec_t exec;
    size_t n;

    SAY(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    SAY(cudaStreamIsCapturing(s, &status));
    FACT(status == cudaStreamCaptureStatusActive);
    SAY(cudaMemsetAsync(device, 1, 64, s));
    SAY(cudaEventRecord(a, s));
    SAY(cudaStreamWaitEvent(t, a, 0));
    SAY(cudaMemsetAsync(device + 64, 2, 64, t));
    SAY(cudaEventRecord(b, t));
    SAY(cudaStreamWaitEvent(s, b, 0));
    SAY(cudaStreamEndCapture(s, &graph));
    SAY(cudaGraphGetNodes(graph, NULL, &n));
    FACT(n == 2);
    SAY(cudaEventSynchronize(a));
    SAY(cudaEventQuery(a));
    SAY(cudaGraphInstantiate(&exec, graph, 0));
    SAY(cudaGraphDestroy(graph));
    SAY(cudaGraphUpload(exec, s));
    SAY(cudaGraphLaunch(exec, s));
    SAY(cudaGraphLaunch(exec, t));
    SAY(cudaStreamSynchronize(t));
    SAY(cudaMemcpy(plain, device, 128, cudaMemcpyDeviceToHost));
    FACT(plain[63] == 1 && plain[64] == 2);
    SAY(cudaGraphExecDestroy(exec));
    SAY(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeGlobal));
    SAY(cudaStreamEndCapture(s, &graph));
    cudaGetLastError();
}

/* Each forbidden call invalidates its own capture. */
static void forbidden(const char *what, cudaError_t (*call)(void), enum cudaStreamCaptureMode mode)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

    printf("-- %s, mode %d\n", what, (int)mode);
    SAY(cudaStreamBeginCapture(s, mode));
    say(what, call());
    cudaStreamIsCapturing(s, &status);
    FACT(status == cudaStreamCaptureStatusInvalidated);
    SAY(cudaStreamEndCapture(s, &graph));
    FACT(graph == NULL);
    if (graph)
        cudaGraphDestroy(graph);
    cudaGetLastError();
}

static cudaError_t sync_captured(void)
{
    return cudaStreamSynchronize(s);
}

static cudaError_t query_captured(void)
{
    return cudaStreamQuery(s);
}

static cudaError_t sync_device(void)
{
    return cudaDeviceSynchronize();
}

static cudaError_t allocate(void)
{
    void *p;

    return cudaMalloc(&p, 64);
}

static cudaError_t query_outside(void)
{
    return cudaEventQuery(untimed);
}

static cudaError_t wait_outside(void)
{
    return cudaStreamWaitEvent(s, untimed, 0);
}

static cudaError_t begin_twice(void)
{
    return cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
}

static cudaError_t leave_unjoined(void)
{
    cudaEventRecord(a, s);
    cudaStreamWaitEvent(t, a, 0);
    return cudaMemsetAsync(device, 1, 64, t);
}

static cudaError_t end_elsewhere(void)
{
    cudaGraph_t none;

    cudaEventRecord(a, s);
    cudaStreamWaitEvent(t, a, 0);
    return cudaStreamEndCapture(t, &none);
}

static void captures_that_fail(void)
{
    cudaGraph_t none;

    cudaEventRecord(untimed, t);
    cudaStreamSynchronize(t);
    forbidden("cudaStreamSynchronize", sync_captured, cudaStreamCaptureModeRelaxed);
    forbidden("cudaStreamQuery", query_captured, cudaStreamCaptureModeRelaxed);
    forbidden("cudaDeviceSynchronize", sync_device, cudaStreamCaptureModeGlobal);
    forbidden("cudaMalloc", allocate, cudaStreamCaptureModeGlobal);
    forbidden("cudaMalloc", allocate, cudaStreamCaptureModeThreadLocal);
    forbidden("cudaMalloc", allocate, cudaStreamCaptureModeRelaxed);
    forbidden("cudaEventQuery of an event outside", query_outside, cudaStreamCaptureModeGlobal);
    forbidden("cudaStreamWaitEvent on an event outside", wait_outside, cudaStreamCaptureModeGlobal);
    forbidden("cudaStreamBeginCapture", begin_twice, cudaStreamCaptureModeGlobal);
    forbidden("work that is not joined", leave_unjoined, cudaStreamCaptureModeGlobal);
    forbidden("cudaStreamEndCapture on another stream", end_elsewhere, cudaStreamCaptureModeGlobal);
    printf("-- legacy stream during a capture\n");
    SAY(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
    SAY(cudaMemsetAsync(device, 0, 8, 0));
    SAY(cudaStreamEndCapture(blocking, &none));
    cudaGetLastError();
}

int main(void)
{
    begin();
    devices_and_errors();
    memory();
    events();
    streams();
    captures();
    captures_that_fail();
    SAY(cudaDeviceSynchronize());
    return 0;
}
