/*
 * graphs.h - data structures of graphs. capture.c and nodes.c build graphs, graphs.c launches them.
 */
#ifndef EMU_GRAPHS_H
#define EMU_GRAPHS_H

#include "internal.h"

#pragma GCC visibility push(hidden)

/* A node of a graph; the program has pointers to it as handles. The graph body owns the node and its operation. */
struct CUgraphNode_st {
    struct emu_graph_body *body;
    int index; /* index in body->nodes */
    int device;
    enum cudaGraphNodeType type;
    struct emu_op op;  /* operation of the node; op.run is NULL for an empty node */
    cudaEvent_t event; /* event of an event record or event wait node */
    struct CUgraphNode_st **deps;
    int n_deps;
};

struct emu_held_object; /* a cudaUserObject that the graph retains */

/* Nodes of a graph, shared by the graph and all executable graphs instantiated from it. Freed when all of them are
 * destroyed and their last launches have ended. */
struct emu_graph_body {
    int refs;
    struct CUgraphNode_st **nodes;
    int n, capacity;
    struct emu_mark *last; /* end of the latest launch; the next launch waits for it, because an operation must not
                              run concurrently with itself */
    struct emu_held_object *held;
};

struct CUgraph_st {
    uint64_t magic;
    struct emu_graph_body *body;
};

/* A capture in progress. */
struct emu_capture {
    struct emu_capture *next;
    unsigned long long id;
    struct CUgraph_st *graph;
    struct CUstream_st *origin;
    enum cudaStreamCaptureMode mode;
    pthread_t thread;
    bool invalid, into_existing;
};

void emu_drop_held(struct emu_held_object *held); /* releases the retained user objects; in nodes.c */
struct CUgraph_st *emu_graph_new(void);
bool emu_is_graph(cudaGraph_t graph);
struct CUgraphNode_st *emu_node_add(struct emu_graph_body *body, enum cudaGraphNodeType type, int device,
                                    const struct emu_front *deps);
void emu_node_depend(struct CUgraphNode_st *node, struct CUgraphNode_st *on);
void emu_front_set(struct emu_front *front, struct CUgraphNode_st *const *nodes, int n);
void emu_front_join(struct emu_front *front, const struct emu_front *more);
void emu_capture_begin_locked(struct CUstream_st *s, struct CUgraph_st *graph, enum cudaStreamCaptureMode mode,
                              bool into_existing);
void emu_capture_leave_locked(struct emu_capture *capture); /* detaches all streams from the capture and frees it */

#pragma GCC visibility pop
#endif
