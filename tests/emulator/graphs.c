/*
 * graphs.c - graphs: their nodes, and executable graphs, which put the nodes on streams.
 *
 * Instantiation assigns the nodes to tracks: a node continues the track of a node that it depends on if that node is
 * the last of its track; otherwise it begins a new track. A launch puts the first track on the launch's stream, and
 * every other track on an internal stream (lane) of the executable, with marks for dependencies between tracks. So
 * branches run concurrently, and a graph without branches needs no extra thread.
 */
#include "graphs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRAPH_MAGIC 0x656d755f67726170u /* "emu_grap" */
#define EXEC_MAGIC  0x656d755f65786563u /* "emu_exec" */

/* A node in launch order. */
struct step {
    struct CUgraphNode_st *node;
    int track;
    int *waits; /* steps on other tracks that it waits for */
    int n_waits;
    bool begins,
        marked; /* begins: first of its track, without dependencies; marked: another track, or the end of the launch,
                   waits for it */
    struct emu_mark *mark; /* during a launch */
};

struct track {
    int device, tail;         /* last step */
    struct CUstream_st *lane; /* NULL until the first launch, and for the track on the launch's stream */
};

struct CUgraphExec_st {
    uint64_t magic;
    struct emu_graph_body *body;
    struct step *steps;
    struct track *tracks;
    int n_steps, n_tracks;
    unsigned long long flags;
};

static void *need(void *memory)
{
    if (!memory)
        emu_give_up("out of host memory");
    return memory;
}

/* ---- bodies and nodes ---- */

bool emu_is_graph(cudaGraph_t graph)
{
    return graph && graph->magic == GRAPH_MAGIC;
}

static bool is_exec(cudaGraphExec_t exec)
{
    return exec && exec->magic == EXEC_MAGIC;
}

struct CUgraph_st *emu_graph_new(void)
{
    struct CUgraph_st *graph = need(calloc(1, sizeof(*graph)));

    graph->magic = GRAPH_MAGIC;
    graph->body = need(calloc(1, sizeof(*graph->body)));
    graph->body->refs = 1;
    return graph;
}

void emu_node_depend(struct CUgraphNode_st *node, struct CUgraphNode_st *on)
{
    node->deps = need(realloc(node->deps, ((size_t)node->n_deps + 1) * sizeof(*node->deps)));
    node->deps[node->n_deps++] = on;
}

struct CUgraphNode_st *emu_node_add(struct emu_graph_body *body, enum cudaGraphNodeType type, int device,
                                    const struct emu_front *deps)
{
    struct CUgraphNode_st *node = need(calloc(1, sizeof(*node)));

    if (body->n == body->capacity) {
        body->capacity = body->capacity ? 2 * body->capacity : 16;
        body->nodes = need(realloc(body->nodes, (size_t)body->capacity * sizeof(*body->nodes)));
    }
    *node = (struct CUgraphNode_st){.body = body, .index = body->n, .device = device, .type = type};
    for (int i = 0; i < deps->n; i++)
        emu_node_depend(node, deps->nodes[i]);
    body->nodes[body->n++] = node;
    return node;
}

static void body_free(struct emu_graph_body *body)
{
    for (int i = 0; i < body->n; i++) {
        struct CUgraphNode_st *node = body->nodes[i];

        if (node->op.release)
            node->op.release(node->op.arg);
        free(node->deps);
        free(node);
    }
    emu_drop_held(body->held);
    free(body->nodes);
    free(body);
}

void emu_body_unref_locked(struct emu_graph_body *body)
{
    if (--body->refs > 0)
        return;
    emu_mark_unref_locked(body->last);
    emu_unlock();
    body_free(body);
    emu_lock();
}

/* ---- instantiation ---- */

/* Topological sort; independent nodes stay in the order of creation. Returns false on a cycle. */
static bool sort_nodes(const struct emu_graph_body *body, struct CUgraphNode_st **order)
{
    bool *placed = need(calloc((size_t)body->n + 1, sizeof(*placed))), progress = true;
    int n = 0;

    while (n < body->n && progress) {
        progress = false;
        for (int i = 0; i < body->n; i++) {
            const struct CUgraphNode_st *node = body->nodes[i];
            bool ready = !placed[i];

            for (int d = 0; d < node->n_deps && ready; d++)
                ready = placed[node->deps[d]->index];
            if (ready) {
                order[n++] = body->nodes[i];
                placed[i] = progress = true;
            }
        }
    }
    free(placed);
    return n == body->n;
}

static int track_for(struct CUgraphExec_st *exec, const struct CUgraphNode_st *node, const int *step_of)
{
    for (int d = 0; d < node->n_deps; d++) {
        int before = step_of[node->deps[d]->index], track = exec->steps[before].track;

        if (exec->tracks[track].tail == before && exec->tracks[track].device == node->device)
            return track;
    }
    exec->tracks[exec->n_tracks] = (struct track){.device = node->device, .tail = -1};
    return exec->n_tracks++;
}

static void lay_step(struct CUgraphExec_st *exec, int at, struct CUgraphNode_st *node, int *step_of)
{
    struct step *step = &exec->steps[at];

    *step = (struct step){.node = node, .track = track_for(exec, node, step_of), .begins = node->n_deps == 0};
    step->waits = need(malloc(((size_t)node->n_deps + 1) * sizeof(*step->waits)));
    for (int d = 0; d < node->n_deps; d++) {
        int before = step_of[node->deps[d]->index];

        if (exec->steps[before].track == step->track)
            continue;
        exec->steps[before].marked = true;
        step->waits[step->n_waits++] = before;
    }
    exec->tracks[step->track].tail = at;
    step_of[node->index] = at;
}

static void exec_clear(struct CUgraphExec_st *exec)
{
    for (int i = 0; i < exec->n_steps; i++)
        free(exec->steps[i].waits);
    for (int i = 0; i < exec->n_tracks; i++)
        if (exec->tracks[i].lane)
            emu_stream_close_locked(exec->tracks[i].lane);
    free(exec->steps);
    free(exec->tracks);
    emu_body_unref_locked(exec->body);
}

/* Fills an executable from a graph; leaves it unchanged on a cycle. */
static cudaError_t exec_fill_locked(struct CUgraphExec_st *exec, struct emu_graph_body *body)
{
    size_t n = (size_t)body->n + 1;
    struct CUgraphNode_st **order = need(calloc(n, sizeof(struct CUgraphNode_st *)));
    int *step_of;

    if (!sort_nodes(body, order)) {
        free(order);
        return cudaErrorInvalidValue;
    }
    if (exec->body)
        exec_clear(exec);
    *exec = (struct CUgraphExec_st){.magic = EXEC_MAGIC, .body = body, .flags = exec->flags};
    body->refs++;
    step_of = need(calloc(n, sizeof(*step_of)));
    exec->steps = need(calloc(n, sizeof(*exec->steps)));
    exec->tracks = need(calloc(n, sizeof(*exec->tracks)));
    for (exec->n_steps = 0; exec->n_steps < body->n; exec->n_steps++)
        lay_step(exec, exec->n_steps, order[exec->n_steps], step_of);
    for (int t = 0; t < exec->n_tracks; t++)
        exec->steps[exec->tracks[t].tail].marked = true;
    free(step_of);
    free(order);
    return cudaSuccess;
}

/* ---- launch ---- */

static void put_event_locked(struct CUstream_st *s, const struct CUgraphNode_st *node)
{
    cudaEvent_t event = node->event;

    if (node->type == cudaGraphNodeTypeWaitEvent) {
        if (event->mark)
            emu_wait_locked(s, event->mark);
        return;
    }
    emu_mark_unref_locked(event->mark);
    event->mark = emu_mark_new();
    event->captured = 0;
    emu_record_locked(s, event->mark);
}

static void put_step_locked(struct CUgraphExec_st *exec, struct step *step, struct CUstream_st *s,
                            struct emu_mark *begin)
{
    if (step->begins && begin)
        emu_wait_locked(s, begin);
    for (int i = 0; i < step->n_waits; i++)
        emu_wait_locked(s, exec->steps[step->waits[i]].mark);
    if (step->node->event)
        put_event_locked(s, step->node);
    if (step->node->op.run) {
        exec->body->refs++;
        emu_push_op_locked(s, &step->node->op, exec->body);
    }
    if (step->marked)
        step->mark = emu_mark_here_locked(s);
}

/* The stream of a track: the first track of the launch's device uses the launch's own stream. */
static struct CUstream_st *stream_for(struct track *track, int own, int index, struct CUstream_st *s)
{
    if (index == own)
        return s;
    if (!track->lane)
        track->lane = emu_stream_new_locked(EMU_STREAM_LANE, track->device, cudaStreamNonBlocking, 0);
    return track->lane;
}

static int own_track(const struct CUgraphExec_st *exec, int device)
{
    for (int t = 0; t < exec->n_tracks; t++)
        if (exec->tracks[t].device == device)
            return t;
    return -1;
}

static void end_launch_locked(struct CUgraphExec_st *exec, struct CUstream_st *s, int own)
{
    for (int t = 0; t < exec->n_tracks; t++)
        if (t != own)
            emu_wait_locked(s, exec->steps[exec->tracks[t].tail].mark);
    for (int i = 0; i < exec->n_steps; i++) {
        emu_mark_unref_locked(exec->steps[i].mark);
        exec->steps[i].mark = NULL;
    }
    emu_mark_unref_locked(exec->body->last);
    exec->body->last = emu_mark_here_locked(s);
}

static cudaError_t launch_locked(struct CUgraphExec_st *exec, cudaStream_t stream)
{
    struct emu_mark *begin = NULL;
    struct CUstream_st *s;
    cudaError_t rc;
    int own;

    TRY(emu_stream_of_locked(stream, &s));
    TRY(emu.devices[s->device].sticky);
    if (s->capture) {
        s->capture->invalid = true;
        return cudaErrorStreamCaptureUnsupported;
    }
    if (emu_capture_implicit_locked(s))
        return cudaErrorStreamCaptureImplicit;
    emu_charge_locked(emu_ns_of_us(emu.machine.launch_us));
    emu_join_default_locked(s);
    if (exec->body->last)
        emu_wait_locked(s, exec->body->last);
    own = own_track(exec, s->device);
    if (exec->n_tracks > (own >= 0))
        begin = emu_mark_here_locked(s);
    for (int i = 0; i < exec->n_steps; i++) {
        int t = exec->steps[i].track;

        put_step_locked(exec, &exec->steps[i], stream_for(&exec->tracks[t], own, t, s), t == own ? NULL : begin);
    }
    emu_mark_unref_locked(begin);
    end_launch_locked(exec, s, own);
out:
    return rc;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    cudaError_t rc;

    TRY(emu_enter(__func__));
    if (!is_exec(exec)) {
        rc = cudaErrorInvalidValue;
        goto out;
    }
    emu_lock();
    rc = launch_locked(exec, stream);
    emu_unlock();
out:
    return emu_report(rc);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    struct CUstream_st *s;
    cudaError_t rc;

    TRY(emu_enter(__func__));
    emu_lock();
    rc = is_exec(exec) ? emu_stream_of_locked(stream, &s) : cudaErrorInvalidValue;
    emu_unlock();
out:
    return emu_report(rc);
}

/* ---- create and destroy ---- */

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned int flags)
{
    cudaError_t rc = emu_enter(__func__);

    if (!rc && (!graph || flags))
        rc = cudaErrorInvalidValue;
    if (!rc)
        *graph = emu_graph_new();
    return emu_report(rc);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    cudaError_t rc = emu_enter(__func__);

    if (!rc && !emu_is_graph(graph))
        rc = cudaErrorInvalidValue;
    if (rc)
        return emu_report(rc);
    graph->magic = 0;
    emu_lock();
    emu_body_unref_locked(graph->body);
    emu_unlock();
    free(graph);
    return cudaSuccess;
}

static cudaError_t instantiate(const char *function, cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    const unsigned long long known = cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUpload |
                                     cudaGraphInstantiateFlagUseNodePriority;
    struct CUgraphExec_st *exec;
    cudaError_t rc;

    TRY(emu_enter(function));
    if (!out || !emu_is_graph(graph) || (flags & ~known)) {
        rc = cudaErrorInvalidValue;
        goto out;
    }
    exec = need(calloc(1, sizeof(*exec)));
    exec->flags = flags;
    emu_lock();
    rc = exec_fill_locked(exec, graph->body);
    emu_unlock();
    if (rc == cudaSuccess)
        *out = exec;
    else
        free(exec);
out:
    return emu_report(rc);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    return instantiate(__func__, exec, graph, flags);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    return instantiate(__func__, exec, graph, flags);
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *exec, cudaGraph_t graph, cudaGraphInstantiateParams *params)
{
    cudaError_t rc = params ? instantiate(__func__, exec, graph, params->flags) : emu_report(cudaErrorInvalidValue);

    if (params)
        params->result_out = rc == cudaSuccess ? cudaGraphInstantiateSuccess : cudaGraphInstantiateError;
    return rc;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    cudaError_t rc = emu_enter(__func__);

    if (!rc && !is_exec(exec))
        rc = cudaErrorInvalidValue;
    if (rc)
        return emu_report(rc);
    emu_lock();
    exec->magic = 0;
    exec_clear(exec);
    emu_unlock();
    free(exec);
    return cudaSuccess;
}

static bool same_shape(const struct CUgraphExec_st *exec, const struct emu_graph_body *body)
{
    if (exec->body->n != body->n)
        return false;
    for (int i = 0; i < body->n; i++)
        if (exec->body->nodes[i]->type != body->nodes[i]->type ||
            exec->body->nodes[i]->n_deps != body->nodes[i]->n_deps)
            return false;
    return true;
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info)
{
    cudaError_t rc = emu_enter(__func__);

    if (!rc && (!is_exec(exec) || !emu_is_graph(graph) || !info))
        rc = cudaErrorInvalidValue;
    if (rc)
        return emu_report(rc);
    emu_lock();
    rc = same_shape(exec, graph->body) ? exec_fill_locked(exec, graph->body) : cudaErrorGraphExecUpdateFailure;
    emu_unlock();
    *info = (cudaGraphExecUpdateResultInfo){.result = rc ? cudaGraphExecUpdateErrorTopologyChanged
                                                         : cudaGraphExecUpdateSuccess};
    return emu_report(rc);
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long *flags)
{
    cudaError_t rc = emu_enter(__func__);

    if (!rc && (!is_exec(exec) || !flags))
        rc = cudaErrorInvalidValue;
    if (!rc)
        *flags = exec->flags;
    return emu_report(rc);
}
