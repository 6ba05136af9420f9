/*
 * ptsz.c - the names that code compiled with --default-stream per-thread calls: the same functions, in which stream 0
 * is the calling thread's own stream.
 */
#include "internal.h"

/* missing in the first CUDA 12 headers */
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device);
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **entry, unsigned int version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *status);

cudaStream_t emu_ptsz(cudaStream_t stream)
{
    return stream ? stream : cudaStreamPerThread;
}

cudaError_t cudaMemcpyAsync_ptsz(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                 cudaStream_t stream)
{
    return cudaMemcpyAsync(to, from, bytes, kind, emu_ptsz(stream));
}

cudaError_t cudaMemcpy2DAsync_ptsz(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                   size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, emu_ptsz(stream));
}

cudaError_t cudaMemcpyToSymbolAsync_ptsz(const void *symbol, const void *from, size_t bytes, size_t offset,
                                         enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, emu_ptsz(stream));
}

cudaError_t cudaMemcpyFromSymbolAsync_ptsz(void *to, const void *symbol, size_t bytes, size_t offset,
                                           enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, emu_ptsz(stream));
}

cudaError_t cudaMemsetAsync_ptsz(void *to, int value, size_t bytes, cudaStream_t stream)
{
    return cudaMemsetAsync(to, value, bytes, emu_ptsz(stream));
}

cudaError_t cudaMemset2DAsync_ptsz(void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
    return cudaMemset2DAsync(to, pitch, value, width, height, emu_ptsz(stream));
}

cudaError_t cudaStreamGetPriority_ptsz(cudaStream_t stream, int *priority)
{
    return cudaStreamGetPriority(emu_ptsz(stream), priority);
}

cudaError_t cudaStreamGetFlags_ptsz(cudaStream_t stream, unsigned int *flags)
{
    return cudaStreamGetFlags(emu_ptsz(stream), flags);
}

cudaError_t cudaStreamGetId_ptsz(cudaStream_t stream, unsigned long long *id)
{
    return cudaStreamGetId(emu_ptsz(stream), id);
}

cudaError_t cudaStreamGetDevice_ptsz(cudaStream_t stream, int *device)
{
    return cudaStreamGetDevice(emu_ptsz(stream), device);
}

cudaError_t cudaStreamGetAttribute_ptsz(cudaStream_t stream, cudaStreamAttrID id, cudaStreamAttrValue *value)
{
    return cudaStreamGetAttribute(emu_ptsz(stream), id, value);
}

cudaError_t cudaStreamSetAttribute_ptsz(cudaStream_t stream, cudaStreamAttrID id, const cudaStreamAttrValue *value)
{
    return cudaStreamSetAttribute(emu_ptsz(stream), id, value);
}

cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    return cudaStreamWaitEvent(emu_ptsz(stream), event, flags);
}

cudaError_t cudaStreamAddCallback_ptsz(cudaStream_t stream, cudaStreamCallback_t callback, void *data,
                                       unsigned int flags)
{
    return cudaStreamAddCallback(emu_ptsz(stream), callback, data, flags);
}

cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream)
{
    return cudaStreamSynchronize(emu_ptsz(stream));
}

cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream)
{
    return cudaStreamQuery(emu_ptsz(stream));
}

cudaError_t cudaStreamAttachMemAsync_ptsz(cudaStream_t stream, void *pointer, size_t bytes, unsigned int flags)
{
    return cudaStreamAttachMemAsync(emu_ptsz(stream), pointer, bytes, flags);
}

cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    return cudaStreamBeginCapture(emu_ptsz(stream), mode);
}

cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t *graph)
{
    return cudaStreamEndCapture(emu_ptsz(stream), graph);
}

cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    return cudaStreamIsCapturing(emu_ptsz(stream), status);
}

cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream)
{
    return cudaEventRecord(event, emu_ptsz(stream));
}

cudaError_t cudaEventRecordWithFlags_ptsz(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
    return cudaEventRecordWithFlags(event, emu_ptsz(stream), flags);
}

cudaError_t cudaLaunchKernel_ptsz(const void *func, dim3 grid, dim3 block, void **args, size_t shared,
                                  cudaStream_t stream)
{
    return cudaLaunchKernel(func, grid, block, args, shared, emu_ptsz(stream));
}

cudaError_t cudaLaunchCooperativeKernel_ptsz(const void *func, dim3 grid, dim3 block, void **args, size_t shared,
                                             cudaStream_t stream)
{
    return cudaLaunchCooperativeKernel(func, grid, block, args, shared, emu_ptsz(stream));
}

cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t fn, void *data)
{
    return cudaLaunchHostFunc(emu_ptsz(stream), fn, data);
}

cudaError_t cudaGraphUpload_ptsz(cudaGraphExec_t exec, cudaStream_t stream)
{
    return cudaGraphUpload(exec, emu_ptsz(stream));
}

cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream)
{
    return cudaGraphLaunch(exec, emu_ptsz(stream));
}

cudaError_t cudaMallocAsync_ptsz(void **out, size_t bytes, cudaStream_t stream)
{
    return cudaMallocAsync(out, bytes, emu_ptsz(stream));
}

cudaError_t cudaFreeAsync_ptsz(void *base, cudaStream_t stream)
{
    return cudaFreeAsync(base, emu_ptsz(stream));
}

cudaError_t cudaMallocFromPoolAsync_ptsz(void **out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
    return cudaMallocFromPoolAsync(out, bytes, pool, emu_ptsz(stream));
}

/* Synchronous copies use the thread's own stream. */
static cudaError_t then_wait(cudaError_t rc)
{
    return rc ? rc : cudaStreamSynchronize(cudaStreamPerThread);
}

cudaError_t cudaMemcpy_ptds(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    return then_wait(cudaMemcpyAsync(to, from, bytes, kind, cudaStreamPerThread));
}

cudaError_t cudaMemset_ptds(void *to, int value, size_t bytes)
{
    return cudaMemsetAsync(to, value, bytes, cudaStreamPerThread);
}

cudaError_t cudaMemcpy2D_ptds(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind)
{
    return then_wait(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, cudaStreamPerThread));
}

cudaError_t cudaMemset2D_ptds(void *to, size_t pitch, int value, size_t width, size_t height)
{
    return cudaMemset2DAsync(to, pitch, value, width, height, cudaStreamPerThread);
}

cudaError_t cudaMemcpyToSymbol_ptds(const void *symbol, const void *from, size_t bytes, size_t offset,
                                    enum cudaMemcpyKind kind)
{
    return then_wait(cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, cudaStreamPerThread));
}

cudaError_t cudaMemcpyFromSymbol_ptds(void *to, const void *symbol, size_t bytes, size_t offset,
                                      enum cudaMemcpyKind kind)
{
    return then_wait(cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, cudaStreamPerThread));
}

cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *func, void **args)
{
    cudaLaunchConfig_t copy;

    if (!config)
        return emu_report(cudaErrorInvalidValue);
    copy = *config;
    copy.stream = emu_ptsz(copy.stream);
    return cudaLaunchKernelExC(&copy, func, args);
}

cudaError_t cudaStreamCopyAttributes_ptsz(cudaStream_t to, cudaStream_t from)
{
    return cudaStreamCopyAttributes(emu_ptsz(to), emu_ptsz(from));
}

cudaError_t cudaStreamBeginCaptureToGraph_ptsz(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *deps,
                                               const cudaGraphEdgeData *edges, size_t n,
                                               enum cudaStreamCaptureMode mode)
{
    return cudaStreamBeginCaptureToGraph(emu_ptsz(stream), graph, deps, edges, n, mode);
}

cudaError_t cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t *exec, cudaGraph_t graph,
                                                cudaGraphInstantiateParams *params)
{
    return cudaGraphInstantiateWithParams(exec, graph, params);
}

cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **entry, unsigned int version,
                                                  unsigned long long flags,
                                                  enum cudaDriverEntryPointQueryResult *status)
{
    return cudaGetDriverEntryPointByVersion(symbol, entry, version, flags, status);
}

/* The header declares this function under another name only. */
cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **entry, unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *status)
{
    return cudaGetDriverEntryPointByVersion(symbol, entry, CUDART_VERSION, flags, status);
}
#if CUDART_VERSION >= 13000
cudaError_t cudaStreamUpdateCaptureDependencies_ptsz(cudaStream_t stream, cudaGraphNode_t *deps,
                                                     const cudaGraphEdgeData *edges, size_t n, unsigned int flags)
{
    return cudaStreamUpdateCaptureDependencies(emu_ptsz(stream), deps, edges, n, flags);
}

cudaError_t cudaMemPrefetchAsync_ptsz(const void *pointer, size_t bytes, struct cudaMemLocation to, unsigned int flags,
                                      cudaStream_t stream)
{
    return cudaMemPrefetchAsync(pointer, bytes, to, flags, emu_ptsz(stream));
}
#endif

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                          unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **deps,
                                          const cudaGraphEdgeData **edges, size_t *n)
{
    return cudaStreamGetCaptureInfo(emu_ptsz(stream), status, id, graph, deps, edges, n);
}
#endif
