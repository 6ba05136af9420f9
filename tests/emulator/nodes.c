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

static cudaError_t capture_memset(cudaStream_t s, const struct cudaMemsetParams *params)
{
    if (params->elementSize != 1)
        return emu_report(cudaErrorNotSupported);
    if (params->width == 0 || params->height == 0)
        return emu_report(cudaErrorInvalidValue);
    return cudaMemset2DAsync(params->dst, params->height > 1 ? params->pitch : params->width, (int)params->value,
                             params->width, params->height, s);
}

/* Defines a function that adds a node of a type. `operation` enqueues the node's work on stream s; the last arguments
 * are the function's own parameters. */
#define ADD_NODE(function, type, operation, ...)                                                                       \
    cudaError_t function(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t n, __VA_ARGS__) \
    {                                                                                                                  \
        cudaStream_t s = NULL;                                                                                         \
        cudaError_t rc = open_stream(graph, deps, n, &s);                                                              \
                                                                                                                       \
        if (rc != cudaSuccess)                                                                                         \
            return rc;                                                                                                 \
        rc = operation;                                                                                                \
        close_stream(s, node, type, rc);                                                                               \
        return rc;                                                                                                     \
    }

ADD_NODE(cudaGraphAddHostNode, cudaGraphNodeTypeHost, cudaLaunchHostFunc(s, params->fn, params->userData),
         const struct cudaHostNodeParams *params)
ADD_NODE(cudaGraphAddKernelNode, cudaGraphNodeTypeKernel,
         cudaLaunchKernel(params->func, params->gridDim, params->blockDim, params->kernelParams, params->sharedMemBytes,
                          s),
         const struct cudaKernelNodeParams *params)
ADD_NODE(cudaGraphAddMemcpyNode1D, cudaGraphNodeTypeMemcpy,
         bytes ? cudaMemcpyAsync(to, from, bytes, kind, s) : emu_report(cudaErrorInvalidValue), void *to,
         const void *from, size_t bytes, enum cudaMemcpyKind kind)
ADD_NODE(cudaGraphAddMemsetNode, cudaGraphNodeTypeMemset, capture_memset(s, params),
         const struct cudaMemsetParams *params)
ADD_NODE(cudaGraphAddEventRecordNode, cudaGraphNodeTypeEventRecord,
         cudaEventRecordWithFlags(event, s, cudaEventRecordExternal), cudaEvent_t event)
ADD_NODE(cudaGraphAddEventWaitNode, cudaGraphNodeTypeWaitEvent, cudaStreamWaitEvent(s, event, cudaEventWaitExternal),
         cudaEvent_t event)

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
