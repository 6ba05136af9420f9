/*
 * nodes.c - graphs built and read node by node, and the user objects that graphs retain. The operation of a node is
 * captured from the ordinary function on a temporary stream, so each operation is implemented once.
 */
#include "graphs.h"
#include "names.h"
#include <stdlib.h>
#include <string.h>

/* A stream that captures into the graph, with the dependencies as its front. */
static cudaError_t open_stream(cudaGraph_t graph, const cudaGraphNode_t *deps, size_t n, cudaStream_t *stream)
{
    cudaError_t rc = emu_enter("cudaGraphAddNode");

    if (rc)
        return emu_report(rc);
    if (!emu_is_graph(graph) || (n > 0 && !deps))
        return emu_report(cudaErrorInvalidValue);
    emu_lock();
    *stream = emu_stream_new_locked(EMU_STREAM_USER, emu_current_device(), cudaStreamNonBlocking, 0);
    emu_capture_begin_locked(*stream, graph, cudaStreamCaptureModeRelaxed, true);
    emu_front_set(&(*stream)->front, deps, (int)n);
    emu_unlock();
    return cudaSuccess;
}

static void close_stream(cudaStream_t s, cudaGraphNode_t *node, enum cudaGraphNodeType type, cudaError_t rc)
{
    emu_lock();
    if (rc == cudaSuccess) {
        *node = s->front.nodes[0];
        (*node)->type = type;
    }
    emu_capture_leave_locked(s->capture);
    emu_stream_close_locked(s);
    emu_unlock();
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t n)
{
    struct emu_front front = {(struct CUgraphNode_st **)(uintptr_t)deps, (int)n};
    cudaError_t rc = emu_enter(__func__);

    if (!rc && (!node || !emu_is_graph(graph)))
        rc = cudaErrorInvalidValue;
    if (rc)
        return emu_report(rc);
    emu_lock();
    *node = emu_node_add(graph->body, cudaGraphNodeTypeEmpty, emu_current_device(), &front);
    emu_unlock();
    return cudaSuccess;
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t n,
                                 const struct cudaHostNodeParams *params)
{
    cudaStream_t s = NULL;
    cudaError_t rc = open_stream(graph, deps, n, &s);

    if (rc != cudaSuccess)
        return rc;
    rc = cudaLaunchHostFunc(s, params->fn, params->userData);
    close_stream(s, node, cudaGraphNodeTypeHost, rc);
    return rc;
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t n,
                                   const struct cudaKernelNodeParams *params)
{
    cudaStream_t s = NULL;
    cudaError_t rc = open_stream(graph, deps, n, &s);

    if (rc != cudaSuccess)
        return rc;
    rc = cudaLaunchKernel(params->func, params->gridDim, params->blockDim, params->kernelParams, params->sharedMemBytes,
                          s);
    close_stream(s, node, cudaGraphNodeTypeKernel, rc);
    return rc;
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t n,
                                     void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaStream_t s = NULL;
    cudaError_t rc = open_stream(graph, deps, n, &s);

    if (rc != cudaSuccess)
        return rc;
    rc = bytes ? cudaMemcpyAsync(to, from, bytes, kind, s) : emu_report(cudaErrorInvalidValue);
    close_stream(s, node, cudaGraphNodeTypeMemcpy, rc);
    return rc;
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t n,
                                   const struct cudaMemsetParams *params)
{
    cudaStream_t s = NULL;
    cudaError_t rc = open_stream(graph, deps, n, &s);

    if (rc != cudaSuccess)
        return rc;
    if (params->elementSize != 1 || params->width == 0 || params->height == 0)
        rc = emu_report(params->elementSize == 1 ? cudaErrorInvalidValue : cudaErrorNotSupported);
    else
        rc = cudaMemset2DAsync(params->dst, params->height > 1 ? params->pitch : params->width, (int)params->value,
                               params->width, params->height, s);
    close_stream(s, node, cudaGraphNodeTypeMemset, rc);
    return rc;
}

static cudaError_t add_event_node(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t n,
                                  cudaEvent_t event, bool wait)
{
    cudaStream_t s = NULL;
    cudaError_t rc = open_stream(graph, deps, n, &s);

    if (rc != cudaSuccess)
        return rc;
    rc = wait ? cudaStreamWaitEvent(s, event, cudaEventWaitExternal)
              : cudaEventRecordWithFlags(event, s, cudaEventRecordExternal);
    close_stream(s, node, wait ? cudaGraphNodeTypeWaitEvent : cudaGraphNodeTypeEventRecord, rc);
    return rc;
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t n,
                                        cudaEvent_t event)
{
    return add_event_node(node, graph, deps, n, event, false);
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t n,
                                      cudaEvent_t event)
{
    return add_event_node(node, graph, deps, n, event, true);
}

int emu_graph_add_edges(void *graph, const void *from, const void *to, size_t n)
{
    cudaError_t rc = emu_enter("cudaGraphAddDependencies");

    if (!rc && !emu_is_graph(graph))
        rc = cudaErrorInvalidValue;
    if (rc)
        return emu_report(rc);
    emu_lock();
    for (size_t i = 0; i < n; i++)
        emu_node_depend(((const cudaGraphNode_t *)to)[i], ((const cudaGraphNode_t *)from)[i]);
    emu_unlock();
    return cudaSuccess;
}

#if CUDART_VERSION >= 13000 /* compat12.c has the CUDA 12 versions */
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                     const cudaGraphEdgeData *edges, size_t n)
{
    (void)edges;
    return (cudaError_t)emu_graph_add_edges(graph, from, to, n);
}
#endif

/* ---- queries ---- */

/* Stores up to *n nodes and fills the rest of the array with NULL; without an array stores only the number, as CUDA
 * does. */
static cudaError_t list_nodes(const char *function, cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n, bool roots)
{
    cudaError_t rc = emu_enter(function);
    size_t found = 0;

    if (!rc && (!emu_is_graph(graph) || !n))
        rc = cudaErrorInvalidValue;
    if (rc)
        return emu_report(rc);
    emu_lock();
    for (int i = 0; i < graph->body->n; i++) {
        if (roots && graph->body->nodes[i]->n_deps > 0)
            continue;
        if (nodes && found < *n)
            nodes[found] = graph->body->nodes[i];
        found++;
    }
    emu_unlock();
    for (size_t i = found; nodes && i < *n; i++)
        nodes[i] = NULL;
    *n = nodes && *n < found ? *n : found;
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n)
{
    return list_nodes(__func__, graph, nodes, n, false);
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n)
{
    return list_nodes(__func__, graph, nodes, n, true);
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
    cudaError_t rc = emu_enter(__func__);

    if (!rc && (!node || !type))
        rc = cudaErrorInvalidValue;
    if (!rc)
        *type = node->type;
    return emu_report(rc);
}

int emu_node_dependencies(void *node_at, void *deps_at, void *edges, size_t *n)
{
    const struct CUgraphNode_st *node = node_at;
    cudaGraphNode_t *deps = deps_at;
    cudaError_t rc = emu_enter("cudaGraphNodeGetDependencies");
    size_t capacity;

    if (!rc && (!node || !n))
        rc = cudaErrorInvalidValue;
    if (rc)
        return emu_report(rc);
    capacity = deps ? *n : 0;
    *n = deps && capacity < (size_t)node->n_deps ? capacity : (size_t)node->n_deps;
    for (size_t i = 0; i < capacity; i++)
        deps[i] = i < *n ? node->deps[i] : NULL;
    if (edges)
        memset(edges, 0, capacity * sizeof(cudaGraphEdgeData));
    return cudaSuccess;
}

#if CUDART_VERSION >= 13000
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *deps, cudaGraphEdgeData *edges,
                                         size_t *n)
{
    return (cudaError_t)emu_node_dependencies(node, deps, edges, n);
}
#endif

/* ---- user objects ---- */

struct CUuserObject_st {
    unsigned refs; /* guarded by the mutex */
    cudaHostFn_t destroy;
    void *data;
};

struct emu_held_object {
    struct emu_held_object *next;
    cudaUserObject_t object;
    unsigned count;
};

cudaError_t cudaUserObjectCreate(cudaUserObject_t *out, void *data, cudaHostFn_t destroy, unsigned int refs,
                                 unsigned int flags)
{
    struct CUuserObject_st *object;
    cudaError_t rc = emu_enter(__func__);

    if (!rc && (!out || !destroy || refs == 0 || flags != cudaUserObjectNoDestructorSync))
        rc = cudaErrorInvalidValue;
    if (rc)
        return emu_report(rc);
    object = malloc(sizeof(*object));
    if (!object)
        return emu_report(cudaErrorMemoryAllocation);
    *object = (struct CUuserObject_st){refs, destroy, data};
    *out = object;
    return cudaSuccess;
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count)
{
    if (!object || count == 0)
        return emu_report(cudaErrorInvalidValue);
    emu_lock();
    object->refs += count;
    emu_unlock();
    return cudaSuccess;
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count)
{
    bool last;

    if (!object || count == 0)
        return emu_report(cudaErrorInvalidValue);
    emu_lock();
    object->refs -= count <= object->refs ? count : object->refs;
    last = object->refs == 0;
    emu_unlock();
    if (last) {
        object->destroy(object->data);
        free(object);
    }
    return cudaSuccess;
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count,
                                      unsigned int flags)
{
    struct emu_held_object *held;

    if (!emu_is_graph(graph) || !object || count == 0 || (flags & ~(unsigned)cudaGraphUserObjectMove))
        return emu_report(cudaErrorInvalidValue);
    if (!(flags & cudaGraphUserObjectMove))
        cudaUserObjectRetain(object, count);
    held = malloc(sizeof(*held));
    if (!held)
        return emu_report(cudaErrorMemoryAllocation);
    emu_lock();
    *held = (struct emu_held_object){graph->body->held, object, count};
    graph->body->held = held;
    emu_unlock();
    return cudaSuccess;
}

/* Called when the graph and all its executables have been freed. */
void emu_drop_held(struct emu_held_object *held)
{
    while (held) {
        struct emu_held_object *next = held->next;

        cudaUserObjectRelease(held->object, held->count);
        free(held);
        held = next;
    }
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count)
{
    bool found = false;

    if (!emu_is_graph(graph) || !object || count == 0)
        return emu_report(cudaErrorInvalidValue);
    emu_lock();
    for (struct emu_held_object **link = &graph->body->held, *held; (held = *link) && !found; link = &held->next)
        if (held->object == object && held->count >= count) {
            held->count -= count;
            found = true;
            if (held->count == 0) {
                *link = held->next;
                free(held);
                break;
            }
        }
    emu_unlock();
    return found ? cudaUserObjectRelease(object, count) : emu_report(cudaErrorInvalidValue);
}
