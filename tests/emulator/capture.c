/*
 * capture.c - stream capture. Each captured stream has a front: the nodes that its next operation depends on. A
 * captured event stores the front of its stream at the record. A stream that waits for the event adds that front to its
 * own, and joins the capture if it was not part of it.
 */
#include "graphs.h"
#include "names.h"
#include <stdlib.h>
#include <string.h>

static _Thread_local enum cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

/* ---- fronts ---- */

void emu_front_clear(struct emu_front *front)
{
    free(front->nodes);
    *front = (struct emu_front){0};
}

void emu_front_set(struct emu_front *front, struct CUgraphNode_st *const *nodes, int n)
{
    struct CUgraphNode_st **copy = n ? malloc((size_t)n * sizeof(*copy)) : NULL;

    if (n && !copy)
        emu_give_up("out of host memory");
    if (n)
        memcpy(copy, nodes, (size_t)n * sizeof(*copy));
    free(front->nodes);
    *front = (struct emu_front){copy, n};
}

static bool front_has(const struct emu_front *front, const struct CUgraphNode_st *node)
{
    for (int i = 0; i < front->n; i++)
        if (front->nodes[i] == node)
            return true;
    return false;
}

void emu_front_join(struct emu_front *front, const struct emu_front *more)
{
    size_t capacity = (size_t)(front->n + more->n);

    if (more->n == 0)
        return;
    front->nodes = realloc(front->nodes, capacity * sizeof(*front->nodes));
    if (!front->nodes)
        emu_give_up("out of host memory");
    for (int i = 0; i < more->n; i++)
        if (!front_has(front, more->nodes[i]))
            front->nodes[front->n++] = more->nodes[i];
}

/* ---- captures ---- */

void emu_capture_begin_locked(struct CUstream_st *s, struct CUgraph_st *graph, enum cudaStreamCaptureMode mode,
                              bool into_existing)
{
    struct emu_capture *capture = calloc(1, sizeof(*capture));

    if (!capture)
        emu_give_up("out of host memory");
    *capture = (struct emu_capture){.next = emu.captures,
                                    .id = ++emu.next_id,
                                    .graph = graph,
                                    .origin = s,
                                    .mode = mode,
                                    .thread = pthread_self(),
                                    .into_existing = into_existing};
    emu.captures = capture;
    s->capture = capture;
}

void emu_capture_leave_locked(struct emu_capture *capture)
{
    struct emu_capture **link = &emu.captures;

    for (struct CUstream_st *s = emu.streams; s; s = s->next)
        if (s->capture == capture) {
            s->capture = NULL;
            emu_front_clear(&s->front);
        }
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    free(capture);
}

static struct emu_capture *capture_by_id_locked(unsigned long long id)
{
    struct emu_capture *capture = emu.captures;

    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

static cudaError_t invalidate(struct emu_capture *capture, cudaError_t why)
{
    capture->invalid = true;
    return why;
}

/* Destroying a stream invalidates its capture. */
void emu_forget_captures_locked(struct CUstream_st *s)
{
    if (!s->capture)
        return;
    s->capture->invalid = true;
    if (s->capture->origin == s)
        emu_capture_leave_locked(s->capture);
    else
        s->capture = NULL;
}

cudaError_t emu_capture_refuses_locked(struct CUstream_st *s)
{
    if (s->capture)
        return invalidate(s->capture, cudaErrorStreamCaptureUnsupported);
    return emu_capture_implicit_locked(s) ? cudaErrorStreamCaptureImplicit : cudaSuccess;
}

static bool would_touch(const struct CUstream_st *legacy, const struct CUstream_st *s)
{
    return s->capture && s->device == legacy->device && !(s->flags & cudaStreamNonBlocking);
}

static bool touches_capture_locked(const struct CUstream_st *s)
{
    if (s->kind == EMU_STREAM_LEGACY && emu.captures)
        for (const struct CUstream_st *t = emu.streams; t; t = t->next)
            if (would_touch(s, t))
                return true;
    return false;
}

bool emu_capture_implicit_locked(struct CUstream_st *s)
{
    if (!touches_capture_locked(s))
        return false;
    for (struct CUstream_st *t = emu.streams; t; t = t->next)
        if (would_touch(s, t))
            t->capture->invalid = true;
    return true;
}

cudaError_t emu_capture_unsafe(void)
{
    cudaError_t rc = cudaSuccess;

    emu_lock();
    for (struct emu_capture *c = emu.captures; c; c = c->next) {
        bool own = pthread_equal(c->thread, pthread_self());

        if (thread_mode == cudaStreamCaptureModeRelaxed || c->mode == cudaStreamCaptureModeRelaxed)
            continue;
        if (own || (c->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal))
            rc = invalidate(c, cudaErrorStreamCaptureUnsupported);
    }
    emu_unlock();
    return rc;
}

/* ---- captured operations ---- */

cudaError_t emu_capture_op_locked(struct CUstream_st *s, const struct emu_op *op)
{
    struct CUgraphNode_st *node;

    if (s->capture->invalid)
        return cudaErrorStreamCaptureInvalidated;
    node = emu_node_add(s->capture->graph->body, cudaGraphNodeTypeKernel, s->device, &s->front);
    node->op = *op;
    emu_front_set(&s->front, &node, 1);
    return cudaSuccess;
}

cudaError_t emu_capture_joined_locked(struct CUstream_st *const *s, int n, const struct emu_op *op)
{
    struct CUgraphNode_st *node;
    cudaError_t rc;

    for (int i = 1; i < n; i++) {
        if (s[i]->capture != s[0]->capture)
            return invalidate(s[0]->capture, cudaErrorStreamCaptureIsolation);
        emu_front_join(&s[0]->front, &s[i]->front);
    }
    TRY(emu_capture_op_locked(s[0], op));
    node = s[0]->front.nodes[0];
    for (int i = 1; i < n; i++)
        emu_front_set(&s[i]->front, &node, 1);
out:
    return rc;
}

static struct CUgraphNode_st *add_event_node(struct CUstream_st *s, cudaEvent_t event, enum cudaGraphNodeType type)
{
    struct CUgraphNode_st *node = emu_node_add(s->capture->graph->body, type, s->device, &s->front);

    node->event = event;
    emu_front_set(&s->front, &node, 1);
    return node;
}

cudaError_t emu_capture_record_locked(struct CUstream_st *s, cudaEvent_t event, bool external)
{
    if (s->capture->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (external) {
        add_event_node(s, event, cudaGraphNodeTypeEventRecord);
        return cudaSuccess;
    }
    event->captured = s->capture->id;
    emu_front_set(&event->front, s->front.nodes, s->front.n);
    return cudaSuccess;
}

static cudaError_t wait_outside_locked(struct CUstream_st *s, cudaEvent_t event, bool external)
{
    if (external)
        add_event_node(s, event, cudaGraphNodeTypeWaitEvent);
    else if (event->mark)
        return invalidate(s->capture, cudaErrorStreamCaptureIsolation);
    return cudaSuccess;
}

cudaError_t emu_capture_wait_locked(struct CUstream_st *s, cudaEvent_t event, bool external)
{
    struct emu_capture *capture = event->captured ? capture_by_id_locked(event->captured) : NULL;

    if (s->capture && s->capture->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (s->capture && (external || !event->captured))
        return wait_outside_locked(s, event, external);
    if (!capture)
        return s->capture ? invalidate(s->capture, cudaErrorCapturedEvent) : cudaErrorCapturedEvent;
    if (s->kind == EMU_STREAM_LEGACY)
        return invalidate(capture, cudaErrorStreamCaptureImplicit);
    if (s->capture && s->capture != capture) {
        capture->invalid = true;
        return invalidate(s->capture, cudaErrorStreamCaptureMerge);
    }
    s->capture = capture;
    emu_front_join(&s->front, &event->front);
    return cudaSuccess;
}

/* ---- public functions ---- */

static cudaError_t begin_locked(cudaStream_t stream, struct CUgraph_st *graph, const struct emu_front *front,
                                enum cudaStreamCaptureMode mode)
{
    struct CUstream_st *s;
    cudaError_t rc;

    TRY(emu_stream_of_locked(stream, &s));
    if (s->kind == EMU_STREAM_LEGACY)
        return cudaErrorStreamCaptureUnsupported;
    if (s->capture)
        return cudaErrorIllegalState;
    emu_capture_begin_locked(s, graph ? graph : emu_graph_new(), mode, graph != NULL);
    emu_front_set(&s->front, front->nodes, front->n);
out:
    return rc;
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *deps,
                                          const cudaGraphEdgeData *edges, size_t n, enum cudaStreamCaptureMode mode)
{
    struct emu_front front = {(struct CUgraphNode_st **)(uintptr_t)deps, (int)n};
    cudaError_t rc;

    (void)edges;
    TRY(emu_enter(__func__));
    if ((unsigned)mode > cudaStreamCaptureModeRelaxed || !emu_is_graph(graph)) {
        rc = cudaErrorInvalidValue;
        goto out;
    }
    emu_lock();
    rc = begin_locked(stream, graph, &front, mode);
    emu_unlock();
out:
    return emu_report(rc);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    cudaError_t rc;

    TRY(emu_enter(__func__));
    if ((unsigned)mode > cudaStreamCaptureModeRelaxed) {
        rc = cudaErrorInvalidValue;
        goto out;
    }
    emu_lock();
    rc = begin_locked(stream, NULL, &(struct emu_front){0}, mode);
    emu_unlock();
out:
    return emu_report(rc);
}

/* Marks all nodes that the node depends on, directly or indirectly. */
static void mark_before(const struct CUgraphNode_st *node, bool *seen)
{
    const struct CUgraphNode_st **stack = malloc(((size_t)node->body->n + 1) * sizeof(*stack));
    int n = 0;

    if (!stack)
        emu_give_up("out of host memory");
    if (!seen[node->index])
        stack[n++] = node;
    seen[node->index] = true;
    while (n > 0) {
        node = stack[--n];
        for (int i = 0; i < node->n_deps; i++)
            if (!seen[node->deps[i]->index]) {
                seen[node->deps[i]->index] = true;
                stack[n++] = node->deps[i];
            }
    }
    free(stack);
}

static bool all_joined_locked(const struct emu_capture *capture)
{
    bool *seen = calloc((size_t)capture->graph->body->n + 1, sizeof(*seen)), joined = true;

    if (!seen)
        emu_give_up("out of host memory");
    for (int i = 0; i < capture->origin->front.n; i++)
        mark_before(capture->origin->front.nodes[i], seen);
    for (const struct CUstream_st *s = emu.streams; s; s = s->next)
        for (int i = 0; s->capture == capture && i < s->front.n; i++)
            joined &= seen[s->front.nodes[i]->index];
    free(seen);
    return joined;
}

static cudaError_t end_locked(cudaStream_t stream, struct CUgraph_st **graph)
{
    struct emu_capture *capture;
    struct CUstream_st *s;
    cudaError_t rc;

    TRY(emu_stream_of_locked(stream, &s));
    capture = s->capture;
    if (!capture)
        return cudaErrorIllegalState;
    if (capture->origin != s)
        return invalidate(capture, cudaErrorStreamCaptureUnmatched);
    if (capture->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(capture->thread, pthread_self()))
        return invalidate(capture, cudaErrorStreamCaptureWrongThread);
    rc = capture->invalid             ? cudaErrorStreamCaptureInvalidated
         : all_joined_locked(capture) ? cudaSuccess
                                      : cudaErrorStreamCaptureUnjoined;
    *graph = capture->graph;
    if (rc != cudaSuccess && capture->into_existing)
        *graph = NULL;
    emu_capture_leave_locked(capture);
out:
    return rc;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    struct CUgraph_st *graph = NULL;
    cudaError_t rc;

    TRY(emu_enter(__func__));
    if (!out) {
        rc = cudaErrorInvalidValue;
        goto out;
    }
    emu_lock();
    rc = end_locked(stream, &graph);
    emu_unlock();
    if (rc != cudaSuccess && graph)
        cudaGraphDestroy(graph);
    *out = rc == cudaSuccess ? graph : NULL;
out:
    return emu_report(rc);
}

static enum cudaStreamCaptureStatus status_of(const struct CUstream_st *s)
{
    if (!s->capture)
        return cudaStreamCaptureStatusNone;
    return s->capture->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}

struct capture_info {
    enum cudaStreamCaptureStatus status;
    unsigned long long id;
    cudaGraph_t graph;
    struct emu_front front;
};

static cudaError_t info_of(const char *function, cudaStream_t stream, struct capture_info *info)
{
    struct CUstream_st *s;
    cudaError_t rc;

    *info = (struct capture_info){.status = cudaStreamCaptureStatusNone};
    TRY(emu_enter(function));
    emu_lock();
    rc = emu_stream_of_locked(stream, &s);
    if (rc == cudaSuccess && touches_capture_locked(s))
        rc = cudaErrorStreamCaptureImplicit;
    if (rc == cudaSuccess) {
        info->status = status_of(s);
        info->front = s->front;
    }
    if (info->status == cudaStreamCaptureStatusActive) {
        info->id = s->capture->id;
        info->graph = s->capture->graph;
    }
    emu_unlock();
out:
    return emu_report(rc);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    struct capture_info info;
    cudaError_t rc = info_of(__func__, stream, &info);

    if (!status)
        return emu_report(cudaErrorInvalidValue);
    *status = info.status;
    return rc;
}

int emu_capture_info(void *stream, int *status, unsigned long long *id, void **graph, void *deps, void *edges,
                     size_t *n)
{
    struct capture_info info;
    cudaError_t rc = info_of("cudaStreamGetCaptureInfo", stream, &info);

    if (!status)
        return emu_report(cudaErrorInvalidValue);
    *status = (int)info.status;
    if (id)
        *id = info.id;
    if (graph)
        *graph = info.graph;
    if (deps)
        *(struct CUgraphNode_st ***)deps = info.front.nodes;
    if (edges)
        *(void **)edges = NULL;
    if (n)
        *n = (size_t)info.front.n;
    return rc;
}

#if CUDART_VERSION >= 13000 /* compat12.c has the CUDA 12 versions */
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph, const cudaGraphNode_t **deps, const cudaGraphEdgeData **edges,
                                     size_t *n)
{
    int number;
    int rc = emu_capture_info(stream, status ? &number : NULL, id, (void **)graph, deps, edges, n);

    if (status)
        *status = (enum cudaStreamCaptureStatus)number;
    return (cudaError_t)rc;
}
#endif

static cudaError_t update_front_locked(cudaStream_t stream, const struct emu_front *front, unsigned flags)
{
    struct CUstream_st *s;
    cudaError_t rc;

    TRY(emu_stream_of_locked(stream, &s));
    if (!s->capture || s->capture->invalid)
        return cudaErrorIllegalState;
    if (flags == cudaStreamSetCaptureDependencies)
        emu_front_clear(&s->front);
    emu_front_join(&s->front, front);
out:
    return rc;
}

int emu_capture_update(void *stream, void *deps, size_t n, unsigned flags)
{
    struct emu_front front = {deps, (int)n};
    cudaError_t rc;

    TRY(emu_enter("cudaStreamUpdateCaptureDependencies"));
    if (flags > cudaStreamSetCaptureDependencies) {
        rc = cudaErrorInvalidValue;
        goto out;
    }
    emu_lock();
    rc = update_front_locked(stream, &front, flags);
    emu_unlock();
out:
    return emu_report(rc);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *deps,
                                                const cudaGraphEdgeData *edges, size_t n, unsigned int flags)
{
    (void)edges;
    return (cudaError_t)emu_capture_update(stream, deps, n, flags);
}
#endif

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    enum cudaStreamCaptureMode before = thread_mode;
    cudaError_t rc = emu_enter(__func__);

    if (!rc && (!mode || (unsigned)*mode > cudaStreamCaptureModeRelaxed))
        rc = cudaErrorInvalidValue;
    if (rc == cudaSuccess) {
        thread_mode = *mode;
        *mode = before;
    }
    return emu_report(rc);
}
