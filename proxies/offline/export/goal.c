/*
 * goal.c - converts the tasks of each rank to operations of the GOAL language (goal.h), and writes them as text or in
 * the binary format that LogGOPSim's txt2bin generates from the text.
 */
#include "proxies/offline/export/goal.h"

#include "bootstrap/base/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t MAGIC = 4223;       /* first word of the binary file */
static const double MAX_OPERATIONS = 2e9; /* maximum number of GOAL operations over all ranks; 2e9 operations need 90
                                             GB in the binary format */

/* ---- the list of GOAL operations (send, recv, calc) and dependencies ---- */

static void add_edge(struct bb_goal *g, struct bb_goal_edge edge)
{
    if (edge.before == BB_GOAL_NOTHING)
        return;
    BB_GROW(g->edges, g->n_edges);
    g->edges[g->n_edges++] = edge;
    g->ops[edge.after].n_before++;
    g->ops[edge.before].dependents[edge.started].n++;
}

void bb_goal_wait(struct bb_goal *g, uint32_t after, uint32_t before)
{
    add_edge(g, (struct bb_goal_edge){after, before, false});
}

void bb_goal_wait_start(struct bb_goal *g, uint32_t after, uint32_t before)
{
    add_edge(g, (struct bb_goal_edge){after, before, true});
}

uint32_t bb_goal_add(struct bb_goal *g, struct bb_goal_op op, uint32_t before)
{
    BB_GROW(g->ops, g->n_ops);
    g->ops[g->n_ops++] = op;
    bb_goal_wait(g, (uint32_t)g->n_ops - 1, before);
    return (uint32_t)g->n_ops - 1;
}

/* The tag is the number of the communicator, counted from 1, times 65536. ATLAHS matches messages by sender and the
 * upper 16 bits of the tag, so with smaller steps it would match messages of different communicators. */
uint32_t bb_goal_message(struct bb_goal *g, const struct bb_op *op, enum bb_goal_type type, int peer, uint64_t bytes,
                         uint32_t before)
{
    return bb_goal_add(g,
                       (struct bb_goal_op){.type = (uint8_t)type,
                                           .peer = (uint32_t)peer,
                                           .size = bytes,
                                           .tag = (uint32_t)(op->comm + 1) * 65536,
                                           .cpu = (uint8_t)op->stream},
                       before);
}

uint32_t bb_goal_calc(struct bb_goal *g, int cpu, int64_t ns, uint32_t before)
{
    return bb_goal_add(g, (struct bb_goal_op){.type = BB_GOAL_CALC, .size = (uint64_t)ns, .cpu = (uint8_t)cpu}, before);
}

/* ---- GOAL operations of one rank ---- */

struct rank_goal {
    const struct bb_export *e;
    const struct bb_export_role *role;
    int rank;
    struct bb_goal goal;
    uint32_t *end; /* [tasks] index of the GOAL operation whose end is the end of the task */
    /* Indices of GOAL operations that represent kernel launches on the host. host: the latest launch; launch: the
     * launch for which the tasks of the current NCCL group call wait. */
    uint32_t host, launch;
};

/* Appends a calculation of `ns` nanoseconds for a kernel launch on the host. Launches run one after another and do
 * not wait for the GPU. */
static void add_launch(struct rank_goal *g, int64_t ns)
{
    if (ns > 0)
        g->host = bb_goal_calc(&g->goal, g->e->host_stream, ns, g->host);
}

/* Returns the index of a GOAL operation that ends when all predecessors of a task, and the task's launch, have
 * ended. If no single operation does, appends a calculation of zero duration on `cpu` that waits for all of them.
 * Returns BB_GOAL_NOTHING if the task waits for nothing. */
static uint32_t begin_of_task(struct rank_goal *g, const struct bb_export_task *task, int cpu)
{
    uint32_t join;

    if (task->n_before == 0)
        return g->launch;
    if (task->n_before == 1 && g->launch == BB_GOAL_NOTHING)
        return g->end[task->before[0]];
    join = bb_goal_calc(&g->goal, cpu, 0, g->launch);
    for (int i = 0; i < task->n_before; i++)
        bb_goal_wait(&g->goal, join, g->end[task->before[i]]);
    return join;
}

/*
 * Adds a dependency of a message on the previous message in the same direction with the same peer, because NCCL matches
 * messages in the order in which they are posted. A send waits for the start of the previous send, a receive for the
 * end of the previous receive.
 *   first    index of the GOAL operation of the first message of the same task; only this task is searched
 *   message  index of the GOAL operation of the message
 */
static void keep_order(struct bb_goal *g, uint32_t first, uint32_t message)
{
    const struct bb_goal_op *op = &g->ops[message];

    for (uint32_t m = message; m-- > first;)
        if (g->ops[m].type == op->type && g->ops[m].peer == op->peer) {
            add_edge(g, (struct bb_goal_edge){message, m, .started = op->type == BB_GOAL_SEND});
            return;
        }
}

static void add_message(struct rank_goal *g, const struct bb_op *op, uint32_t first, uint32_t before)
{
    const int peer = bb_op_peer_rank(&g->e->step->layout, op, g->rank);
    const uint64_t bytes = (uint64_t)op->count * bb_dtypes[op->dtype].bytes;
    uint32_t message;

    if (peer == g->rank)
        return;
    message = bb_goal_message(&g->goal, op, op->kind == BB_OP_SEND ? BB_GOAL_SEND : BB_GOAL_RECV, peer, bytes, before);
    keep_order(&g->goal, first, message);
}

static uint32_t add_exchange(struct rank_goal *g, const struct bb_task *task, int cpu, uint32_t before)
{
    const uint32_t first = (uint32_t)g->goal.n_ops;
    uint32_t last, join;

    for (int i = 0; i < task->n; i++)
        add_message(g, bb_export_op(g->role, task, i), first, before);
    last = (uint32_t)g->goal.n_ops;
    if (last == first + 1)
        return first;
    join = bb_goal_calc(&g->goal, cpu, 0, last == first ? before : BB_GOAL_NOTHING);
    for (uint32_t m = first; m < last; m++)
        bb_goal_wait(&g->goal, join, m);
    return join;
}

static void add_task(struct rank_goal *g, int t)
{
    const struct bb_task *task = &g->role->graph.tasks[t];
    const struct bb_op *op = bb_export_op(g->role, task, 0);
    const uint32_t before = begin_of_task(g, &g->role->tasks[t], op->stream);

    if (task->kind == BB_TASK_COMPUTE)
        g->end[t] = bb_goal_calc(&g->goal, op->stream, bb_export_compute_ns(g->e, g->rank, op), before);
    else if (task->kind == BB_TASK_COLLECTIVE)
        g->end[t] = bb_goal_collective(&g->goal, &g->e->step->layout, op, g->rank, before);
    else
        g->end[t] = add_exchange(g, task, op->stream, before);
}

static void build_goal(struct rank_goal *g, const struct bb_export *e, int rank)
{
    *g = (struct rank_goal){
        .e = e, .role = bb_export_role_of(e, rank), .rank = rank, .host = BB_GOAL_NOTHING, .launch = BB_GOAL_NOTHING};
    BB_NEW(g->end, g->role->graph.n_tasks);
    for (int t = 0; t < g->role->graph.n_tasks; t++) {
        add_launch(g, g->role->tasks[t].first_ns);
        if (g->role->tasks[t].first_ns > 0)
            g->launch = g->host;
        add_task(g, t);
        add_launch(g, g->role->tasks[t].more_ns);
    }
}

static void release_goal(struct rank_goal *g)
{
    free(g->goal.ops);
    free(g->goal.edges);
    free(g->end);
}

/* Rejects a training step with more than MAX_OPERATIONS GOAL operations. The total is the number of operations of
 * one rank per role (set of ranks that run the same program) times the number of ranks of the role. */
static int reject_huge(const struct bb_export *e)
{
    double total = 0, *of_role; /* of_role: [roles] number of operations of one rank; 0: not counted yet */

    BB_NEW(of_role, e->step->n_roles);
    for (int r = 0; r < e->step->layout.ranks; r++) {
        const int role = e->step->role_of[r];

        if (of_role[role] == 0) {
            struct rank_goal g;

            build_goal(&g, e, r);
            of_role[role] = (double)g.goal.n_ops;
            release_goal(&g);
        }
        total += of_role[role];
    }
    free(of_role);
    if (total > MAX_OPERATIONS)
        return bb_err(BB_EUSAGE,
                      "--export: the file would have %.3g sends, receives and calculations, at most %.3g are "
                      "supported; try: fewer "
                      "--ranks or layers",
                      total, MAX_OPERATIONS);
    return 0;
}

/* ---- text file ---- */

static void print_op(const struct bb_goal_op *op, size_t i, FILE *out)
{
    if (op->type == BB_GOAL_CALC)
        fprintf(out, "o%zu: calc %llu cpu %d\n", i, (unsigned long long)op->size, op->cpu);
    else
        fprintf(out, "o%zu: %s %llub %s %u tag %u cpu %d nic 0\n", i, op->type == BB_GOAL_SEND ? "send" : "recv",
                (unsigned long long)op->size, op->type == BB_GOAL_SEND ? "to" : "from", op->peer, op->tag, op->cpu);
}

/*
 * Prints all operations and then all dependencies. The text format requires each dependency to follow the lines of both
 * operations, and a join (a calculation of zero duration that waits for a set of operations) precedes some of the
 * operations for which it waits.
 */
static void print_rank(const struct bb_goal *g, int rank, FILE *out)
{
    fprintf(out, "rank %d {\n", rank);
    for (size_t i = 0; i < g->n_ops; i++)
        print_op(&g->ops[i], i, out);
    for (size_t i = 0; i < g->n_edges; i++)
        fprintf(out, "o%u %s o%u\n", g->edges[i].after, g->edges[i].started ? "irequires" : "requires",
                g->edges[i].before);
    fprintf(out, "}\n");
}

int bb_export_goal(const struct bb_export *e, FILE *out)
{
    char head[512];
    int rc;

    TRY(reject_huge(e));
    bb_export_source_text(e, head, sizeof(head));
    fprintf(out, "num_ranks %d\n", e->step->layout.ranks);
    fprintf(out, "// %s\n// cpu: stream of the rank, 0 is compute", head);
    if (e->prediction)
        fprintf(out, ", %d is the host", e->host_stream);
    fprintf(out, "; tag: 65536 x number of the communicator\n");
    for (int r = 0; r < e->step->layout.ranks; r++) {
        struct rank_goal g;

        build_goal(&g, e, r);
        print_rank(&g.goal, r, out);
        release_goal(&g);
    }
out:
    return rc;
}

/* ---- binary file: little-endian and packed; the offsets of a rank are relative to the end of the magic number ---- */

static void put(const void *value, size_t bytes, FILE *out)
{
    fwrite(value, bytes, 1, out); /* errors are detected by bb_outfile_close */
}

static void put_u32(uint64_t value, FILE *out)
{
    const uint32_t narrow = (uint32_t)value;

    put(&narrow, sizeof(narrow), out);
}

/* Sets list[n_edges] to the indices of the dependent operations, grouped by the operation on which they depend. */
static void list_dependents(struct bb_goal *g, uint32_t *list)
{
    uint32_t at = 0;

    for (size_t i = 0; i < g->n_ops; i++)
        for (int started = 0; started < 2; started++) {
            g->ops[i].dependents[started].first = at;
            at += g->ops[i].dependents[started].n;
            g->ops[i].dependents[started].n = 0;
        }
    for (size_t i = 0; i < g->n_edges; i++) {
        struct bb_goal_dependents *d = &g->ops[g->edges[i].before].dependents[g->edges[i].started];

        list[d->first + d->n++] = g->edges[i].after;
    }
}

static void write_rank(struct bb_goal *g, FILE *out)
{
    uint32_t *list, roots = 0;

    BB_NEW(list, g->n_edges);
    list_dependents(g, list);
    for (size_t i = 0; i < g->n_ops; i++)
        roots += g->ops[i].n_before == 0;
    put_u32(g->n_ops, out);
    put_u32(roots, out);
    for (size_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].n_before == 0)
            put_u32(i, out);
    put(g->ops, g->n_ops * sizeof(*g->ops), out);
    put(list, g->n_edges * sizeof(*list), out);
    free(list);
}

/* Writes the file header: number of ranks, highest cpu and nic numbers, and the start and end offset of each rank's
 * data. */
static int write_head(const uint64_t (*rank_ranges)[2], int ranks, int last_cpu, FILE *out)
{
    const uint8_t lanes[] = {(uint8_t)last_cpu, 0};

    if (fseeko(out, 0, SEEK_SET) && errno == ESPIPE) /* bb_outfile_close() reports a failed write */
        return bb_err(BB_EFAIL, "--export: the GOAL schedule needs a file, not a pipe: %s", strerror(errno));
    put(&MAGIC, sizeof(MAGIC), out);
    put_u32((uint64_t)ranks, out);
    put(lanes, sizeof(lanes), out);
    put(rank_ranges, (size_t)ranks * sizeof(*rank_ranges), out);
    return 0;
}

int bb_export_goal_bin(const struct bb_export *e, FILE *out)
{
    const int ranks = e->step->layout.ranks;
    uint64_t(*rank_ranges)[2] = NULL;
    int rc, last_cpu = 0;

    TRY(reject_huge(e));
    BB_NEW(rank_ranges, ranks);
    TRY(write_head(rank_ranges, ranks, 0, out));
    for (int r = 0; r < ranks; r++) {
        struct rank_goal g;

        rank_ranges[r][0] = (uint64_t)ftello(out) - sizeof(MAGIC);
        build_goal(&g, e, r);
        for (size_t i = 0; i < g.goal.n_ops; i++)
            last_cpu = g.goal.ops[i].cpu > last_cpu ? g.goal.ops[i].cpu : last_cpu;
        write_rank(&g.goal, out);
        rank_ranges[r][1] = (uint64_t)ftello(out) - sizeof(MAGIC);
        release_goal(&g);
    }
    TRY(write_head(rank_ranges, ranks, last_cpu, out));
out:
    free(rank_ranges);
    return rc;
}
