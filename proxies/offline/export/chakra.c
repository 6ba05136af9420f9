/*
 * chakra.c - writes Chakra execution traces (MLCommons, schema 0.0.4 of et_def.proto). PREFIX.RANK.et is a stream of
 * messages: GlobalMetadata, then one Node per operation and, with a cluster profile, one Node per kernel launch.
 * PREFIX.groups.json assigns a number to each communicator and lists its ranks, in the format of ASTRA-sim's
 * --comm-group-configuration. Nodes contain this number as pg_name.
 */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/outfile.h"
#include "proxies/offline/export/export.h"
#include "proxies/offline/export/protobuf.h"
#include "proxies/simulation/timeline/op_names.h"

#include <stdlib.h>
#include <unistd.h>

/* Field numbers in the Chakra schema. */
enum { GLOBAL_VERSION = 1, GLOBAL_ATTR = 2 };
enum {
    NODE_ID = 1,
    NODE_NAME,
    NODE_TYPE,
    NODE_CTRL_DEPS,
    NODE_DATA_DEPS,
    NODE_START_US,
    NODE_DURATION_US,
    NODE_ATTR = 10
};
enum { TYPE_COMPUTE = 4, TYPE_SEND, TYPE_RECV, TYPE_COLLECTIVE };
static const uint64_t NO_NODE = UINT64_MAX;
enum { ATTR_NAME = 1, ATTR_INT32 = 7, ATTR_INT64 = 9, ATTR_BOOL = 27, ATTR_STRING = 29 };

/* 1 + the value of CollectiveCommType in the Chakra schema; 0: the schema does not have the collective. */
static const int comm_types[BB_COLL_KIND_COUNT] = {
    [BB_ALL_REDUCE] = 1, [BB_REDUCE] = 2,    [BB_ALL_GATHER] = 3, [BB_GATHER] = 4,
    [BB_SCATTER] = 5,    [BB_BROADCAST] = 6, [BB_ALLTOALL] = 7,   [BB_REDUCE_SCATTER] = 8,
};
static const int node_types[] = {[BB_OP_COMPUTE] = TYPE_COMPUTE,
                                 [BB_OP_COLLECTIVE] = TYPE_COLLECTIVE,
                                 [BB_OP_SEND] = TYPE_SEND,
                                 [BB_OP_RECV] = TYPE_RECV};

/* ---- fields of one Chakra node ---- */

struct writer {
    const struct bb_export *e;
    const struct bb_export_role *role;
    FILE *out;
    int rank;
    /* [comms] number in PREFIX.groups.json of the first set of ranks that forms this communicator (such as the first
     * tensor-parallel group); the other sets of ranks of the communicator have the next numbers */
    const int *first_group;
    uint64_t *first_node; /* [tasks] id of the Chakra node of each task's first operation */
    uint64_t *deps;       /* [n_deps] ids of the nodes on which the current node depends */
    size_t n_deps;
    uint64_t next_node;
    uint64_t host, launch; /* ids of Chakra nodes. host: the latest kernel launch on the host; launch: the launch for
                              which the current task, or all tasks of the current NCCL group call, wait */
    int64_t host_ns;       /* total duration of all kernel launches written so far for this rank, in nanoseconds */
    struct bb_message node, attr; /* scratch messages, reused for every Chakra node */
};

static void add_number(struct writer *w, const char *name, int kind, uint64_t value)
{
    bb_message_text(&w->attr, ATTR_NAME, name);
    bb_message_number(&w->attr, kind, value);
    bb_message_message(&w->node, NODE_ATTR, &w->attr);
}

/* field: number of the attribute's field in the message. */
static void add_text(struct writer *w, int field, const char *name, const char *text)
{
    bb_message_text(&w->attr, ATTR_NAME, name);
    bb_message_text(&w->attr, ATTR_STRING, text);
    bb_message_message(&w->node, field, &w->attr);
}

static void add_dependency(struct writer *w, uint64_t node)
{
    if (node == NO_NODE)
        return;
    BB_GROW(w->deps, w->n_deps);
    w->deps[w->n_deps++] = node;
}

static void describe_message(struct writer *w, const struct bb_op *op)
{
    const int peer = bb_op_peer_rank(&w->e->step->layout, op, w->rank);
    const bool sends = op->kind == BB_OP_SEND;

    add_number(w, "comm_size", ATTR_INT64, (uint64_t)op->count * bb_dtypes[op->dtype].bytes);
    add_number(w, "comm_src", ATTR_INT32, (uint64_t)(sends ? w->rank : peer));
    add_number(w, "comm_dst", ATTR_INT32, (uint64_t)(sends ? peer : w->rank));
    add_number(w, "comm_tag", ATTR_INT32, (uint64_t)op->comm);
}

static void describe_collective(struct writer *w, const struct bb_op *op)
{
    const struct bb_layout *l = &w->e->step->layout;

    add_number(w, "comm_type", ATTR_INT64, (uint64_t)comm_types[op->coll] - 1);
    add_number(w, "comm_size", ATTR_INT64, bb_op_payload_bytes(op, bb_op_group_size(l, op)));
    if (bb_colls[op->coll].flags & BB_COLL_ROOTED)
        add_number(w, "root_rank", ATTR_INT32, (uint64_t)bb_op_peer_rank(l, op, w->rank));
}

/*
 * Starts a Chakra node with the fields that all nodes have, in the order of the schema. The node depends on the nodes
 * in w->deps.
 *   on_host  true: the node is a launch on the host, not a GPU operation
 */
static void begin_node(struct writer *w, const char *name, int type, bool on_host, int stream)
{
    bb_message_number(&w->node, NODE_ID, w->next_node++);
    bb_message_text(&w->node, NODE_NAME, name);
    bb_message_number(&w->node, NODE_TYPE, (uint64_t)type);
    if (w->n_deps > 0)
        bb_message_packed(&w->node, NODE_DATA_DEPS, w->deps, w->n_deps);
    add_number(w, "is_cpu_op", ATTR_BOOL, on_host);
    add_number(w, "stream", ATTR_INT64, (uint64_t)stream);
}

static void write_node(struct writer *w, const struct bb_op *op)
{
    const struct bb_layout *l = &w->e->step->layout;
    char name[BB_OP_NAME], group[16];

    begin_node(w, bb_op_name(l, op, name), node_types[op->kind], false, op->stream);
    if (op->kind == BB_OP_COMPUTE) {
        const int64_t ns = bb_export_compute_ns(w->e, w->rank, op);

        bb_message_number(&w->node, NODE_DURATION_US, (uint64_t)(ns + 500) / 1000);
        add_number(w, "duration_ns", ATTR_INT64, (uint64_t)ns);
        if (op->flops > 0)
            add_number(w, "num_ops", ATTR_INT64, (uint64_t)op->flops);
    } else {
        snprintf(group, sizeof(group), "%d",
                 w->first_group[op->comm] + bb_group_instance(l, l->comms[op->comm].group, w->rank));
        add_text(w, NODE_ATTR, "pg_name", group);
        if (op->kind == BB_OP_COLLECTIVE)
            describe_collective(w, op);
        else
            describe_message(w, op);
    }
    bb_message_write(&w->node, w->out);
}

/*
 * Writes a node for a kernel launch of `ns` nanoseconds on the host. Launches run one after another and do not wait for
 * the GPU. The schema requires whole microseconds, but a launch takes only a few microseconds, so the rounding error of
 * each launch is carried over to the next launch.
 */
static void write_launch(struct writer *w, const struct bb_op *op, int64_t ns)
{
    const uint64_t begin_us = (uint64_t)(w->host_ns + 500) / 1000;
    char name[BB_OP_NAME + 8], of_op[BB_OP_NAME];

    if (ns <= 0)
        return;
    snprintf(name, sizeof(name), "launch %s", bb_op_name(&w->e->step->layout, op, of_op));
    w->n_deps = 0;
    add_dependency(w, w->host);
    w->host = w->next_node;
    w->host_ns += ns;
    begin_node(w, name, TYPE_COMPUTE, true, w->e->host_stream);
    bb_message_number(&w->node, NODE_DURATION_US, (uint64_t)(w->host_ns + 500) / 1000 - begin_us);
    add_number(w, "duration_ns", ATTR_INT64, (uint64_t)ns);
    bb_message_write(&w->node, w->out);
}

/* ---- all nodes of one rank ---- */

/* Lists in w->deps the nodes on which a task depends: all nodes of its predecessor tasks, and its kernel launch. */
static void list_dependencies(struct writer *w, const struct bb_export_task *task)
{
    w->n_deps = 0;
    for (int i = 0; i < task->n_before; i++)
        for (int node = 0; node < w->role->graph.tasks[task->before[i]].n; node++)
            add_dependency(w, w->first_node[task->before[i]] + (uint64_t)node);
    add_dependency(w, w->launch);
}

static void write_task(struct writer *w, int t)
{
    const struct bb_export_task *export = &w->role->tasks[t];
    const struct bb_task *task = &w->role->graph.tasks[t];
    const struct bb_op *op = bb_export_op(w->role, task, 0);

    write_launch(w, op, export->first_ns);
    if (export->first_ns > 0)
        w->launch = w->host;
    list_dependencies(w, export);
    w->first_node[t] = w->next_node;
    for (int i = 0; i < task->n; i++)
        write_node(w, bb_export_op(w->role, task, i));
    write_launch(w, op, export->more_ns);
}

static int write_rank(const struct bb_export *e, const char *prefix, int rank, const int *first_group)
{
    struct writer w = {.e = e,
                       .role = bb_export_role_of(e, rank),
                       .rank = rank,
                       .first_group = first_group,
                       .host = NO_NODE,
                       .launch = NO_NODE};
    char *path = bb_format("%s.%d.et", prefix, rank);
    struct bb_outfile file;
    char head[512];
    int rc;

    BB_NEW(w.first_node, w.role->graph.n_tasks);
    TRY(bb_outfile_open(&file, path, "the Chakra trace"));
    w.out = file.out;
    bb_export_source_text(e, head, sizeof(head));
    bb_message_text(&w.node, GLOBAL_VERSION, "0.0.4");
    add_text(&w, GLOBAL_ATTR, "source", head);
    bb_message_write(&w.node, w.out);
    for (int t = 0; t < w.role->graph.n_tasks; t++)
        write_task(&w, t);
    rc = bb_outfile_close(&file, "the Chakra trace", 0);
out:
    bb_message_release(&w.node);
    bb_message_release(&w.attr);
    free(w.first_node);
    free(w.deps);
    free(path);
    return rc;
}

/* ---- communicators and their ranks ---- */

static int write_groups(const struct bb_layout *l, const char *prefix, const int *first_group)
{
    char *path = bb_format("%s.groups.json", prefix);
    const char *separator = "{\n";
    struct bb_outfile file;
    int rc = bb_outfile_open(&file, path, "the communicators");

    free(path);
    if (rc)
        return rc;
    for (int c = 0; c < l->n_comms; c++)
        for (int instance = 0; instance < l->groups[l->comms[c].group].instances; instance++) {
            fprintf(file.out, "%s\"%d\": ", separator, first_group[c] + instance);
            for (int i = 0; i < l->groups[l->comms[c].group].size; i++)
                fprintf(file.out, "%s%d", i ? ", " : "[", bb_group_member(l, l->comms[c].group, instance, i));
            fputc(']', file.out);
            separator = ",\n";
        }
    fprintf(file.out, "%s}\n", l->n_comms ? "\n" : "{");
    return bb_outfile_close(&file, "the communicators", 0);
}

bool bb_chakra_supports(const struct bb_layout *l, const struct bb_op *op)
{
    (void)l;
    return comm_types[op->coll] > 0;
}

int bb_export_chakra(const struct bb_export *e, const char *prefix)
{
    const struct bb_layout *l = &e->step->layout;
    int first_group[BB_MAX_COMMS], r, rc = 0,
                                      next = 1; /* ASTRA-sim requires positive numbers, so the first communicator
                                                    has number 1 */

    for (int c = 0; c < l->n_comms; c++) {
        first_group[c] = next;
        next += l->groups[l->comms[c].group].instances;
    }
    for (r = 0; r < l->ranks && (rc = write_rank(e, prefix, r, first_group)) == 0;)
        r++;
    rc = rc ? rc : write_groups(l, prefix, first_group);
    while (rc && r-- > 0) { /* some of the files are no trace */
        char *path = bb_format("%s.%d.et", prefix, r);

        if (!bb_outfile_is_stream(path))
            (void)unlink(path);
        free(path);
    }
    return rc;
}
