/*
 * compat12.c - names that exist only in CUDA 12: older versions of functions whose arguments changed. Includes no CUDA
 * header, because CUDA headers would map the names to each other. Built for CUDA 12 only.
 */
#include "names.h"
#include <stdint.h>

#define PER_THREAD ((void *)2) /* cudaStreamPerThread */
static void *own(void *stream)
{
    return stream ? stream : PER_THREAD;
}

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

int cudaStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id)
{
    return emu_capture_info(stream, status, id, NULL, NULL, NULL, NULL);
}

int cudaStreamGetCaptureInfo_ptsz(void *stream, int *status, unsigned long long *id)
{
    return emu_capture_info(own(stream), status, id, NULL, NULL, NULL, NULL);
}

int cudaStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id, void **graph, void *deps, size_t *n)
{
    return emu_capture_info(stream, status, id, graph, deps, NULL, n);
}

int cudaStreamGetCaptureInfo_v2_ptsz(void *stream, int *status, unsigned long long *id, void **graph, void *deps,
                                     size_t *n)
{
    return emu_capture_info(own(stream), status, id, graph, deps, NULL, n);
}

int cudaStreamGetCaptureInfo_v3(void *stream, int *status, unsigned long long *id, void **graph, void *deps,
                                void *edges, size_t *n)
{
    return emu_capture_info(stream, status, id, graph, deps, edges, n);
}

int cudaStreamGetCaptureInfo_v3_ptsz(void *stream, int *status, unsigned long long *id, void **graph, void *deps,
                                     void *edges, size_t *n)
{
    return emu_capture_info(own(stream), status, id, graph, deps, edges, n);
}

int cudaStreamUpdateCaptureDependencies(void *stream, void *deps, size_t n, unsigned flags)
{
    return emu_capture_update(stream, deps, n, flags);
}

int cudaStreamUpdateCaptureDependencies_ptsz(void *stream, void *deps, size_t n, unsigned flags)
{
    return emu_capture_update(own(stream), deps, n, flags);
}

int cudaStreamUpdateCaptureDependencies_v2(void *stream, void *deps, const void *edges, size_t n, unsigned flags)
{
    (void)edges;
    return emu_capture_update(stream, deps, n, flags);
}

int cudaStreamUpdateCaptureDependencies_v2_ptsz(void *stream, void *deps, const void *edges, size_t n, unsigned flags)
{
    (void)edges;
    return emu_capture_update(own(stream), deps, n, flags);
}

int cudaGraphAddDependencies(void *graph, const void *from, const void *to, size_t n)
{
    return emu_graph_add_edges(graph, from, to, n);
}

int cudaGraphAddDependencies_v2(void *graph, const void *from, const void *to, const void *edges, size_t n)
{
    (void)edges;
    return emu_graph_add_edges(graph, from, to, n);
}

int cudaGraphNodeGetDependencies(void *node, void *deps, size_t *n)
{
    return emu_node_dependencies(node, deps, NULL, n);
}

int cudaGraphNodeGetDependencies_v2(void *node, void *deps, void *edges, size_t *n)
{
    return emu_node_dependencies(node, deps, edges, n);
}

/* The location is a struct of two ints, passed in one register. */
int cudaMemPrefetchAsync_v2(const void *pointer, size_t bytes, uint64_t to, unsigned flags, void *stream)
{
    (void)to, (void)flags, (void)stream;
    return emu_memory_hint(__func__, pointer, bytes);
}

int cudaMemPrefetchAsync_v2_ptsz(const void *pointer, size_t bytes, uint64_t to, unsigned flags, void *stream)
{
    (void)to, (void)flags, (void)stream;
    return emu_memory_hint(__func__, pointer, bytes);
}

int cudaMemPrefetchAsync_ptsz(const void *pointer, size_t bytes, int to, void *stream)
{
    (void)to, (void)stream;
    return emu_memory_hint(__func__, pointer, bytes);
}

int cudaMemAdvise_v2(const void *pointer, size_t bytes, int advice, uint64_t to)
{
    (void)advice, (void)to;
    return emu_memory_hint(__func__, pointer, bytes);
}

/* clang-format off */
UNMODELLED(cudaGraphAddNode_v2)
UNMODELLED(cudaGraphGetEdges_v2)
UNMODELLED(cudaGraphNodeGetDependentNodes_v2)
UNMODELLED(cudaGraphRemoveDependencies_v2)
UNMODELLED(cudaLaunchCooperativeKernelMultiDevice)
UNMODELLED(cudaSetDoubleForDevice)
UNMODELLED(cudaSetDoubleForHost)
UNMODELLED(cudaSignalExternalSemaphoresAsync_v2)
UNMODELLED(cudaSignalExternalSemaphoresAsync_v2_ptsz)
UNMODELLED(cudaThreadExit)
UNMODELLED(cudaThreadGetCacheConfig)
UNMODELLED(cudaThreadGetLimit)
UNMODELLED(cudaThreadSetCacheConfig)
UNMODELLED(cudaThreadSetLimit)
UNMODELLED(cudaThreadSynchronize)
UNMODELLED(cudaWaitExternalSemaphoresAsync_v2)
UNMODELLED(cudaWaitExternalSemaphoresAsync_v2_ptsz)
