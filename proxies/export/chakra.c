/*
 * chakra.c - writes Chakra execution traces (MLCommons, schema 0.0.4 of et_def.proto). PREFIX.RANK.et is a stream of
 * messages: GlobalMetadata, then one Node per operation and, with a cluster profile, one Node per kernel launch.
 * PREFIX.groups.json assigns a number to each communicator and lists its ranks, in the format of ASTRA-sim's
 * --comm-group-configuration. Nodes contain this number as pg_name.
 */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/outfile.h"
#include "proxies/export/export.h"
#include "proxies/export/protobuf.h"
#include "proxies/timeline/op_names.h"

#include <stdlib.h>

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

/* Values of CollectiveCommType in the Chakra schema. */
static const struct {
    enum bb_coll_kind kind;
    int type;
} comm_types[] = {{BB_ALL_REDUCE, 0}, {BB_REDUCE, 1},    {BB_ALL_GATHER, 2}, {BB_GATHER, 3},
                  {BB_SCATTER, 4},    {BB_BROADCAST, 5}, {BB_ALLTOALL, 6},   {BB_REDUCE_SCATTER, 7}};

static int find_comm_type(enum bb_coll_kind kind)
{
    for (size_t i = 0; i < sizeof(comm_types) / sizeof(comm_types[0]); i++)
        if (comm_types[i].kind == kind)
            return comm_types[i].type;
    return -1;
}

/* ---- fields of one Chakra node ---- */

struct writer {
    const struct bb_export *e;
    const struct bb_export_role *role;
    int rank;
    /* [comms] number in PREFIX.groups.json of the first set of ranks that forms this communicator (such as the first
     * tensor-parallel group); the other sets of ranks of the communicator have the next numbers */
    const int *first_group;
    uint64_t *first_node, *deps; /* first_node: [tasks] id of the Chakra node of each task's first operation; deps:
                                    scratch memory, ids of the nodes on which the current node depends */
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

static void add_text(struct writer *w, const char *name, const char *text)
{
    bb_message_text(&w->attr, ATTR_NAME, name);
    bb_message_text(&w->attr, ATTR_STRING, text);
    bb_message_message(&w->node, NODE_ATTR, &w->attr);
}

static void describe_compute(struct writer *w, const struct bb_op *op)
{
    const int64_t ns = bb_export_compute_ns(w->e, w->rank, op);

    bb_message_number(&w->node, NODE_DURATION_US, (uint64_t)(ns + 500) / 1000);
    add_number(w, "duration_ns", ATTR_INT64, (uint64_t)ns);
    if (op->flops > 0)
        add_number(w, "num_ops", ATTR_INT64, (uint64_t)op->flops);
}

static void describe_group(struct writer *w, const struct bb_op *op)
{
    const int group = w->e->step->layout.comms[op->comm].group;
    char name[16];

    snprintf(name, sizeof(name), "%d",
             w->first_group[op->comm] + bb_group_instance(&w->e->step->layout, group, w->rank));
    add_text(w, "pg_name", name);
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

    add_number(w, "comm_type", ATTR_INT64, (uint64_t)find_comm_type(op->coll));
    add_number(w, "comm_size", ATTR_INT64, bb_op_payload_bytes(op, bb_op_group_size(l, op)));
    if (bb_colls[op->coll].flags & BB_COLL_ROOTED)
        add_number(w, "root_rank", ATTR_INT32, (uint64_t)bb_op_peer_rank(l, op, w->rank));
}

static int type_of(const struct bb_op *op)
{
    static const int types[] = {[BB_OP_COMPUTE] = TYPE_COMPUTE,
                                [BB_OP_COLLECTIVE] = TYPE_COLLECTIVE,
                                [BB_OP_SEND] = TYPE_SEND,
                                [BB_OP_RECV] = TYPE_RECV};

    return types[op->kind];
}

/*
 * Starts a Chakra node with the fields that all nodes have, in the order of the schema. The node depends on the nodes
 * w->deps[0 .. n_deps).
 *   on_host  true: the node is a launch on the host, not a GPU operation
 */
static void begin_node(struct writer *w, const char *name, int type, size_t n_deps, bool on_host, int stream)
{
    bb_message_number(&w->node, NODE_ID, w->next_node++);
    bb_message_text(&w->node, NODE_NAME, name);
    bb_message_number(&w->node, NODE_TYPE, (uint64_t)type);
    if (n_deps > 0)
        bb_message_packed(&w->node, NODE_DATA_DEPS, w->deps, n_deps);
    add_number(w, "is_cpu_op", ATTR_BOOL, on_host);
    add_number(w, "stream", ATTR_INT64, (uint64_t)stream);
}

static void write_node(struct writer *w, const struct bb_op *op, size_t n_deps, FILE *out)
{
    char name[BB_OP_NAME];

    begin_node(w, bb_op_name(&w->e->step->layout, op, name), type_of(op), n_deps, false, op->stream);
    if (op->kind == BB_OP_COMPUTE) {
        describe_compute(w, op);
    } else {
        describe_group(w, op);
        if (op->kind == BB_OP_COLLECTIVE)
            describe_collective(w, op);
        else
            describe_message(w, op);
    }
    bb_message_write(&w->node, out);
}

/*
 * Writes a node for a kernel launch of `ns` nanoseconds on the host. Launches run one after another and do not wait for
 * the GPU. The schema requires whole microseconds, but a launch takes only a few microseconds, so the rounding error of
 * each launch is carried over to the next launch.
 */
static void write_launch(struct writer *w, const struct bb_op *op, int64_t ns, FILE *out)
{
    const uint64_t begin_us = (uint64_t)(w->host_ns + 500) / 1000;
    char name[BB_OP_NAME + 8], of_op[BB_OP_NAME];

    if (ns <= 0)
        return;
    snprintf(name, sizeof(name), "launch %s", bb_op_name(&w->e->step->layout, op, of_op));
    w->deps[0] = w->host;
    w->host = w->next_node;
    w->host_ns += ns;
    begin_node(w, name, TYPE_COMPUTE, w->deps[0] != NO_NODE, true, w->e->host_stream);
    bb_message_number(&w->node, NODE_DURATION_US, (uint64_t)(w->host_ns + 500) / 1000 - begin_us);
    add_number(w, "duration_ns", ATTR_INT64, (uint64_t)ns);
    bb_message_write(&w->node, out);
}

/* ---- all nodes of one rank ---- */

/*
 * Lists in w->deps the nodes on which a task depends: all nodes of its predecessor tasks, and its kernel launch.
 * Returns the number of nodes.
 */
static size_t list_deps(struct writer *w, int task)
{
    const struct bb_export_role *role = w->role;
    size_t n = 0;

    for (int i = role->first_before[task]; i < role->first_before[task + 1]; i++)
        for (int node = 0; node < role->graph.tasks[role->before[i]].n; node++)
            w->deps[n++] = w->first_node[role->before[i]] + (uint64_t)node;
    if (w->launch != NO_NODE)
        w->deps[n++] = w->launch;
    return n;
}

static size_t max_deps(const struct bb_export_role *role)
{
    const struct bb_task *tasks = role->graph.tasks;
    size_t most = 0;

    for (int t = 0; t < role->graph.n_tasks; t++) {
        size_t n = 0;

        for (int i = role->first_before[t]; i < role->first_before[t + 1]; i++)
            n += (size_t)tasks[role->before[i]].n;
        most = n > most ? n : most;
    }
    return most + 1;
}

static void write_global(struct writer *w, FILE *out)
{
    char head[512];

    bb_export_source_text(w->e, head, sizeof(head));
    bb_message_text(&w->node, GLOBAL_VERSION, "0.0.4");
    bb_message_text(&w->attr, ATTR_NAME, "source");
    bb_message_text(&w->attr, ATTR_STRING, head);
    bb_message_message(&w->node, GLOBAL_ATTR, &w->attr);
    bb_message_write(&w->node, out);
}

static void write_task(struct writer *w, int t, FILE *out)
{
    static const struct bb_export_launch none;
    const struct bb_export_launch *launch = w->role->launches ? &w->role->launches[t] : &none;
    const struct bb_task *task = &w->role->graph.tasks[t];
    const struct bb_op *op = bb_export_op(w->role, task, 0);
    size_t n_deps;

    write_launch(w, op, launch->first_ns, out);
    if (launch->first_ns > 0)
        w->launch = w->host;
    n_deps = list_deps(w, t);
    w->first_node[t] = w->next_node;
    for (int i = 0; i < task->n; i++)
        write_node(w, bb_export_op(w->role, task, i), n_deps, out);
    write_launch(w, op, launch->more_ns, out);
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
    int rc;

    BB_NEW(w.first_node, w.role->graph.n_tasks);
    BB_NEW(w.deps, max_deps(w.role));
    TRY(bb_outfile_open(&file, path, "the Chakra trace"));
    write_global(&w, file.out);
    for (int t = 0; t < w.role->graph.n_tasks; t++)
        write_task(&w, t, file.out);
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

static void print_members(const struct bb_layout *l, int group, int instance, FILE *out)
{
    for (int i = 0; i < l->groups[group].size; i++)
        fprintf(out, "%s%d", i ? ", " : "[", bb_group_member(l, group, instance, i));
    fputc(']', out);
}

static void print_groups(const struct bb_layout *l, const int *first_group, FILE *out)
{
    const char *separator = "{\n";

    for (int c = 0; c < l->n_comms; c++)
        for (int i = 0; i < bb_group_instances(l, l->comms[c].group); i++) {
            fprintf(out, "%s\"%d\": ", separator, first_group[c] + i);
            print_members(l, l->comms[c].group, i, out);
            separator = ",\n";
        }
    fprintf(out, "%s}\n", l->n_comms ? "\n" : "{");
}

static int write_groups(const struct bb_layout *l, const char *prefix, const int *first_group)
{
    char *path = bb_format("%s.groups.json", prefix);
    struct bb_outfile file;
    int rc = bb_outfile_open(&file, path, "the communicators");

    free(path);
    if (rc)
        return rc;
    print_groups(l, first_group, file.out);
    return bb_outfile_close(&file, "the communicators", 0);
}

bool bb_chakra_supports(const struct bb_layout *l, const struct bb_op *op)
{
    (void)l;
    return find_comm_type(op->coll) >= 0;
}

int bb_export_chakra(const struct bb_export *e, const char *prefix)
{
    const struct bb_layout *l = &e->step->layout;
    int first_group[BB_MAX_COMMS], rc, next = 1; /* ASTRA-sim requires positive numbers, so the first communicator
                                                    has number 1 */

    for (int c = 0; c < l->n_comms; c++) {
        first_group[c] = next;
        next += bb_group_instances(l, l->comms[c].group);
    }
    TRY(write_groups(l, prefix, first_group));
    for (int r = 0; r < l->ranks; r++)
        TRY(write_rank(e, prefix, r, first_group));
out:
    return rc;
}
