/*
 * test_graphs.c - capture and graphs: dependencies, times of concurrent branches, replays, and calls that a capture
 * forbids.
 */
#include "child.h"
#include "engine.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if CUDART_VERSION >= 13000
#define NO_EDGES(n) NULL, n
#else
#define NO_EDGES(n) n /* the functions of CUDA 12 have no argument for edge data */
#endif

enum { BYTES = 100000 };
static char *memory;
static cudaStream_t s, t;
static cudaEvent_t e[4];

static int begin(void)
{
    OK(cudaMalloc((void **)&memory, BYTES));
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    for (int i = 0; i < 4; i++)
        OK(cudaEventCreate(&e[i]));
    return 0;
}

/* Host time of one launch on an idle stream, in ns, from the call to the end of the work. */
static long launch_ns(cudaGraphExec_t exec, cudaStream_t stream)
{
    int64_t before = emu_host_now_ns();

    if (cudaGraphLaunch(exec, stream) || cudaStreamSynchronize(stream))
        return -1;
    return (long)(emu_host_now_ns() - before);
}

/* Two branches between a fork and a join. */
static int capture_fork(cudaGraph_t *graph)
{
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    OK(cudaMemsetAsync(memory, 1, 1000, s)); /* 4000                      */
    OK(cudaEventRecord(e[0], s));
    OK(cudaStreamWaitEvent(t, e[0], 0));
    OK(cudaMemsetAsync(memory + 1000, 2, 7000, t)); /* 10000                     */
    OK(cudaEventRecord(e[1], t));
    OK(cudaMemsetAsync(memory, 3, 500, s)); /* 3500, concurrent with the other branch */
    OK(cudaStreamWaitEvent(s, e[1], 0));
    OK(cudaMemsetAsync(memory + 900, 4, 200, s)); /* 3200, after both          */
    OK(cudaStreamEndCapture(s, graph));
    return 0;
}

static int branches(void)
{
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    size_t n, roots;

    OK(begin());
    OK(capture_fork(&graph));
    EXPECT(memory[0] == 0); /* nothing has run yet */
    OK(cudaGraphGetNodes(graph, NULL, &n));
    OK(cudaGraphGetRootNodes(graph, NULL, &roots));
    EXPECT(n == 4 && roots == 1);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph)); /* the executable stays valid */
    EXPECT(launch_ns(exec, s) == 1000 + 4000 + 10000 + 3200);
    EXPECT(memory[0] == 3 && memory[500] == 1 && memory[900] == 4 && memory[1099] == 4 && memory[1100] == 2);
    OK(cudaMemset(memory, 0, BYTES));
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 5; i++)
        EXPECT(launch_ns(exec, i % 2 ? s : t) == 18200);
    EXPECT(memory[0] == 3 && memory[7999] == 2 && memory[8000] == 0);
    OK(cudaGraphExecDestroy(exec));
    return 0;
}

/* Launches of one executable run one after another, on any streams; other work of the streams keeps its order. */
static int launches_in_turn(void)
{
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    OK(begin());
    OK(capture_fork(&graph));
    OK(cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagUpload));
    OK(cudaGraphUpload(exec, s));
    OK(cudaGraphLaunch(exec, s));            /* 5000 to 22200, since capturing took 4000 */
    OK(cudaGraphLaunch(exec, t));            /* 22200 to 39400 */
    OK(cudaMemsetAsync(memory, 0, 1000, s)); /* 22200 to 26200 */
    OK(cudaStreamSynchronize(s));
    EXPECT(emu_host_now_ns() == 26200);
    OK(cudaGraphLaunch(exec, s));   /* after the launch on t: 39400 */
    OK(cudaGraphExecDestroy(exec)); /* while it runs */
    OK(cudaGraphDestroy(graph));
    OK(cudaDeviceSynchronize());
    EXPECT(emu_host_now_ns() == 39400 + 17200);
    return 0;
}

static int ends_with(cudaError_t expected)
{
    cudaGraph_t graph = (cudaGraph_t)&memory;

    EXPECT_RC(cudaStreamEndCapture(s, &graph), expected);
    EXPECT(graph == NULL);
    cudaGetLastError();
    return 0;
}

static int not_allowed(void)
{
    enum cudaStreamCaptureStatus status;
    struct cudaPointerAttributes attributes;
    void *p;

    OK(begin());
    OK(cudaEventRecord(e[3], t));
    OK(cudaStreamSynchronize(t));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    EXPECT_RC(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported);
    OK(cudaStreamIsCapturing(s, &status));
    EXPECT(status == cudaStreamCaptureStatusInvalidated);
    EXPECT_RC(cudaMemsetAsync(memory, 0, 1, s), cudaErrorStreamCaptureInvalidated);
    OK(ends_with(cudaErrorStreamCaptureInvalidated));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    EXPECT_RC(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
    EXPECT_RC(cudaMalloc(&p, 8), cudaErrorStreamCaptureUnsupported);
    OK(ends_with(cudaErrorStreamCaptureInvalidated));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    EXPECT_RC(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
    OK(ends_with(cudaErrorStreamCaptureInvalidated));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    EXPECT_RC(cudaEventQuery(e[3]), cudaErrorStreamCaptureUnsupported);
    OK(ends_with(cudaErrorStreamCaptureInvalidated));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    EXPECT_RC(cudaStreamWaitEvent(s, e[3], 0), cudaErrorStreamCaptureIsolation); /* recorded outside the capture */
    OK(ends_with(cudaErrorStreamCaptureInvalidated));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    OK(cudaMalloc(&p, 8));
    OK(cudaEventQuery(e[3]));
    OK(cudaPointerGetAttributes(&attributes, p));
    EXPECT_RC(cudaGraphLaunch(NULL, s), cudaErrorInvalidValue);
    EXPECT_RC(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeRelaxed),
              cudaErrorStreamCaptureUnsupported);
    EXPECT_RC(cudaStreamBeginCapture(t, (enum cudaStreamCaptureMode)7), cudaErrorInvalidValue);
    OK(cudaStreamEndCapture(s, (cudaGraph_t *)&p));
    EXPECT_RC(cudaStreamEndCapture(s, (cudaGraph_t *)&p), cudaErrorIllegalState);
    return 0;
}

/* Capture modes of a thread, and captures in other threads. */
static void *malloc_elsewhere(void *rc)
{
    void *p;

    *(cudaError_t *)rc = cudaMalloc(&p, 8);
    return NULL;
}

static int other_threads(void)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaError_t there;
    pthread_t thread;
    cudaGraph_t graph;
    void *p;

    OK(begin());
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    EXPECT(pthread_create(&thread, NULL, malloc_elsewhere, &there) == 0);
    pthread_join(thread, NULL);
    OK(there);
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT(mode == cudaStreamCaptureModeGlobal);
    OK(cudaMalloc(&p, 8));
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT(mode == cudaStreamCaptureModeRelaxed);
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    EXPECT(pthread_create(&thread, NULL, malloc_elsewhere, &there) == 0);
    pthread_join(thread, NULL);
    EXPECT_RC(there, cudaErrorStreamCaptureUnsupported);
    return ends_with(cudaErrorStreamCaptureInvalidated);
}

static int joining(void)
{
    enum cudaStreamCaptureStatus status;
    cudaStream_t blocking;
    unsigned long long id;
    cudaGraph_t graph;
    size_t n;

    OK(begin());
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    OK(cudaEventRecord(e[0], s));
    OK(cudaStreamWaitEvent(t, e[0], 0));
    OK(cudaStreamIsCapturing(t, &status));
    EXPECT(status == cudaStreamCaptureStatusActive && emu_capturing(t));
    OK(cudaMemsetAsync(memory, 0, 1, t));
    OK(ends_with(cudaErrorStreamCaptureUnjoined));
    EXPECT(!emu_capturing(t));
    EXPECT_RC(cudaStreamWaitEvent(t, e[0], 0), cudaErrorCapturedEvent); /* its capture has ended */
    EXPECT_RC(cudaEventSynchronize(e[0]), cudaErrorCapturedEvent);
    OK(cudaEventRecord(e[0], t)); /* a new record makes the event usable again */
    OK(cudaEventSynchronize(e[0]));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    OK(cudaStreamBeginCapture(t, cudaStreamCaptureModeGlobal));
    OK(cudaEventRecord(e[0], t));
    EXPECT_RC(cudaStreamWaitEvent(s, e[0], 0), cudaErrorStreamCaptureMerge);
    OK(ends_with(cudaErrorStreamCaptureInvalidated));
    EXPECT_RC(cudaStreamEndCapture(t, &graph), cudaErrorStreamCaptureInvalidated);
    OK(cudaStreamCreate(&blocking));
    OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
    EXPECT_RC(cudaMemsetAsync(memory, 0, 1, 0), cudaErrorStreamCaptureImplicit);
    EXPECT_RC(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    OK(cudaMemsetAsync(memory, 0, 1, s));
    OK(cudaStreamGetCaptureInfo(s, &status, &id, &graph, NULL, NO_EDGES(&n)));
    EXPECT(status == cudaStreamCaptureStatusActive && id != 0 && graph && n == 1);
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaStreamDestroy(s));
    return 0;
}

/* Events that a graph itself records and waits for. */
static int external_events(void)
{
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    float ms;

    OK(begin());
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    OK(cudaEventRecordWithFlags(e[0], s, cudaEventRecordExternal));
    OK(cudaMemsetAsync(memory, 1, 2000, s));
    OK(cudaEventRecordWithFlags(e[1], s, cudaEventRecordExternal));
    OK(cudaStreamWaitEvent(s, e[2], cudaEventWaitExternal));
    OK(cudaMemsetAsync(memory, 2, 1000, s));
    OK(cudaStreamEndCapture(s, &graph));
    EXPECT_RC(cudaEventRecordWithFlags(e[0], s, cudaEventRecordExternal), cudaErrorIllegalState);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaMemsetAsync(memory + 50000, 1, 50000, t)); /* 3000 to 56000, since capturing took 2000 */
    OK(cudaEventRecord(e[2], t));
    OK(cudaGraphLaunch(exec, s)); /* 4000; 9000; 56000; 60000 */
    OK(cudaStreamSynchronize(s));
    OK(cudaEventElapsedTime(&ms, e[0], e[1]));
    EXPECT(lroundf(ms * 1e6f) == 5000 && emu_host_now_ns() == 60000);
    return 0;
}

static void count(void *n)
{
    ++*(int *)n;
}

static int by_hand(void)
{
    cudaGraphNode_t a, b, c, d;
    enum cudaGraphNodeType type;
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    int calls = 0;
    struct cudaMemsetParams fill;
    struct cudaHostNodeParams call = {.fn = count, .userData = &calls};

    OK(begin());
    fill = (struct cudaMemsetParams){.dst = memory, .elementSize = 1, .width = 1000, .height = 1, .value = 6};
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemsetNode(&a, graph, NULL, 0, &fill));
    OK(cudaGraphAddHostNode(&b, graph, NULL, 0, &call));
    OK(cudaGraphAddMemcpyNode1D(&c, graph, &a, 1, memory + 1000, memory, 500, cudaMemcpyDeviceToDevice));
    OK(cudaGraphAddEmptyNode(&d, graph, NULL, 0));
    OK(cudaGraphAddDependencies(graph, &c, &d, NO_EDGES(1)));
    OK(cudaGraphNodeGetType(c, &type));
    EXPECT(type == cudaGraphNodeTypeMemcpy);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    EXPECT(launch_ns(exec, s) == 1000 + 4000 + 4000);
    EXPECT(calls == 1 && memory[1499] == 6 && memory[1500] == 0);
    OK(cudaGraphAddDependencies(graph, &d, &a, NO_EDGES(1))); /* a cycle */
    EXPECT_RC(cudaGraphInstantiate(&exec, graph, 0), cudaErrorInvalidValue);
    EXPECT_RC(cudaGraphInstantiate(&exec, graph, 4096), cudaErrorInvalidValue);
    EXPECT(launch_ns(exec, t) == 9000);
    EXPECT(calls == 2);
    return 0;
}

/* User objects are released when the graph, its executables and their launches are gone, and not before. */
static int held_objects(void)
{
    cudaGraphExec_t exec;
    cudaUserObject_t object;
    cudaGraph_t graph;
    int dropped = 0;

    OK(begin());
    OK(capture_fork(&graph));
    OK(cudaUserObjectCreate(&object, &dropped, count, 1, cudaUserObjectNoDestructorSync));
    OK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphLaunch(exec, s));
    OK(cudaStreamSynchronize(s));
    EXPECT(dropped == 0);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaStreamSynchronize(s));
    EXPECT(dropped == 1);
    return 0;
}

static int update(void)
{
    cudaGraphExecUpdateResultInfo info;
    cudaGraph_t first, second, other;
    cudaGraphExec_t exec;

    OK(begin());
    OK(capture_fork(&first));
    OK(capture_fork(&second));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    OK(cudaMemsetAsync(memory, 1, 1, s));
    OK(cudaStreamEndCapture(s, &other));
    OK(cudaGraphInstantiate(&exec, first, 0));
    OK(cudaGraphExecUpdate(exec, second, &info));
    EXPECT(info.result == cudaGraphExecUpdateSuccess);
    EXPECT_RC(cudaGraphExecUpdate(exec, other, &info), cudaErrorGraphExecUpdateFailure);
    EXPECT(info.result == cudaGraphExecUpdateErrorTopologyChanged);
    EXPECT(launch_ns(exec, s) == 18200);
    return 0;
}

static int64_t note(void *arg, int64_t ready_ns)
{
    ++*(int *)arg;
    return ready_ns + 5000;
}

static void drop(void *arg)
{
    *(int *)arg += 100;
}

/* An operation on two captured streams is one node, and is released with the graph. */
static int joined_operations(void)
{
    cudaStream_t both[2];
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    int runs = 0;
    size_t n;

    OK(begin());
    both[0] = s, both[1] = t;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    OK(cudaEventRecord(e[0], s));
    OK(cudaStreamWaitEvent(t, e[0], 0));
    OK(cudaMemsetAsync(memory, 0, 2000, s));      /* 5000                            */
    OK(cudaMemsetAsync(memory + 5000, 0, 10, t)); /* 3010                            */
    OK(emu_enqueue_joined(both, 2, &(struct emu_op){.name = "x", .run = note, .release = drop, .arg = &runs}));
    OK(cudaMemsetAsync(memory, 0, 1000, t)); /* 4000                            */
    OK(cudaEventRecord(e[1], t));
    OK(cudaStreamWaitEvent(s, e[1], 0));
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphGetNodes(graph, NULL, &n));
    EXPECT(n == 4 && runs == 0);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    EXPECT(launch_ns(exec, s) == 1000 + 5000 + 5000 + 4000);
    EXPECT(launch_ns(exec, s) == 15000);
    EXPECT(runs == 2);
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaDeviceSynchronize());
    EXPECT(runs == 102);
    return 0;
}

#define SCENARIO(name)                                                                                                 \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        child_pass(name, NULL);                                                                                        \
    }
SCENARIO(branches)
SCENARIO(launches_in_turn)
SCENARIO(not_allowed)
SCENARIO(other_threads)
SCENARIO(joining)
SCENARIO(external_events)
SCENARIO(by_hand)
SCENARIO(held_objects)
SCENARIO(update)
SCENARIO(joined_operations)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_branches),    cmocka_unit_test(test_launches_in_turn),
        cmocka_unit_test(test_not_allowed), cmocka_unit_test(test_other_threads),
        cmocka_unit_test(test_joining),     cmocka_unit_test(test_external_events),
        cmocka_unit_test(test_by_hand),     cmocka_unit_test(test_held_objects),
        cmocka_unit_test(test_update),      cmocka_unit_test(test_joined_operations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
