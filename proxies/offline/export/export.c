/* export.c - the table of export formats, and the functions that all format writers use; see export.h. */
#include "proxies/offline/export/export.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/outfile.h"
#include "proxies/simulation/simulate/engine/op_time.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file format. A step is written either to one file, by `write`, or to several files with a common prefix, by
 * `write_ranks`. */
static const struct format {
    const char *name, *what;
    bb_export_fn *write;
    int (*write_ranks)(const struct bb_export *e, const char *prefix);
    const char *tool;                /* name of the format in an error message about a collective */
    bb_export_supports_fn *supports; /* whether the format can represent a collective; NULL: the writer rejects
                                        unsupported collectives */
    bool predicted;                  /* true: the file contains predicted times of communication, and --export-ranks and
                                        --export-micro-batches apply */
    bool every_rank; /* true: the file contains the compute times of each rank; false: it contains one compute time
                        for all ranks */
} formats[] = {
    {.name = "goal",
     .what = "the GOAL text",
     .write = bb_export_goal,
     .tool = "GOAL",
     .supports = bb_goal_supports,
     .every_rank = true},
    {.name = "goal-bin",
     .what = "the GOAL schedule",
     .write = bb_export_goal_bin,
     .tool = "GOAL",
     .supports = bb_goal_supports,
     .every_rank = true},
    {.name = "chakra",
     .what = "the Chakra traces",
     .write_ranks = bb_export_chakra,
     .tool = "Chakra",
     .supports = bb_chakra_supports,
     .every_rank = true},
    {.name = "perfetto", .what = "the Perfetto trace", .write = bb_export_perfetto, .predicted = true},
    {.name = "simai", .what = "the SimAI workload", .write = bb_export_simai},
};

enum { N_FORMATS = sizeof(formats) / sizeof(formats[0]) };

const char *bb_export_name_at(size_t i)
{
    return i < N_FORMATS ? formats[i].name : NULL;
}

static const struct format *find_format(const char *name)
{
    for (int i = 0; i < N_FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

int bb_export_validate(const char *name, struct bb_export_selection only, const char *cluster,
                       const struct bb_slow *slow)
{
    const struct format *format = name ? find_format(name) : NULL;

    if ((only.ranks || only.micro_batches) && !(format && format->predicted))
        return bb_err(BB_EUSAGE, "--export-%s requires --export perfetto", only.ranks ? "ranks" : "micro-batches");
    if (format && format->predicted && !cluster)
        return bb_err(BB_EUSAGE, "--export %s requires --cluster (for example --cluster h100-sxm-ib)", name);
    /* A tool that reads the file would simulate a machine without the slowdowns that the format cannot represent. */
    for (int i = 0; i < slow->n && format && !format->predicted; i++) {
        const enum bb_slow_kind kind = slow->items[i].kind;
        const bool delay = kind == BB_SLOW_DELAY, link = kind != BB_SLOW_RANK && !delay;

        if (link || delay || !format->every_rank)
            return bb_err(BB_EUSAGE, "--export %s: %s, so it cannot represent --%s; leave out one of them", name,
                          link    ? "the format has no links"
                          : delay ? "the format has no late ranks"
                                  : "the file has the times of rank 0 for all ranks",
                          kind == BB_SLOW_NODE ? "slow node"
                          : link               ? "slow link="
                          : delay              ? "delay"
                                               : "slow rank=");
    }
    return 0;
}

int bb_export_check_writable(const char *name, const char *path)
{
    const struct format *format = find_format(name);
    char first[PATH_MAX];

    if (format->write)
        return bb_outfile_check(path, format->what);
    if (snprintf(first, sizeof(first), "%s.0.et", path) >= (int)sizeof(first))
        return bb_err(BB_EUSAGE, "--export: the name '%s' is too long", path);
    return bb_outfile_check(first, format->what);
}

/* Adds each task to the lists of the tasks that depend on it. A task may depend on another task for several reasons,
 * for example because both tasks use the same stream and the same communicator. Tasks are visited in ascending order,
 * so the duplicates of a predecessor would be adjacent in the list. */
static void list_predecessors(struct bb_export_role *role)
{
    const struct bb_task_graph *graph = &role->graph;

    for (int t = 0; t < graph->n_tasks; t++)
        for (int i = 0; i < graph->tasks[t].n_next; i++) {
            struct bb_export_task *after = &role->tasks[graph->next[graph->tasks[t].next + i]];

            if (after->n_before > 0 && after->before[after->n_before - 1] == t)
                continue;
            BB_GROW(after->before, after->n_before);
            after->before[after->n_before++] = t;
        }
}

static void set_launches(struct bb_export_role *role, const struct bb_cluster *c)
{
    const struct bb_task_graph *graph = &role->graph;

    for (int t = 0; t < graph->n_tasks; t++) {
        const struct bb_task *task = &graph->tasks[t];
        struct bb_export_task *own = &role->tasks[t];

        if (t > 0 && task->issue == task[-1].issue)
            continue;
        if (graph->issue_computes[task->issue]) {
            const struct bb_work_time work = bb_op_work_time(c, &graph->program->ops[task->first]);

            own->first_ns = work.first_ns;
            own->more_ns = work.issue_ns - work.first_ns;
        } else {
            own->first_ns = bb_cluster_issue_ns(c, false);
        }
    }
}

static void prepare(struct bb_export *e)
{
    BB_NEW(e->roles, e->step->n_roles);
    for (int r = 0; r < e->step->n_roles; r++) {
        const struct bb_program *p = &e->step->roles[r].program;
        struct bb_export_role *role = &e->roles[r];

        bb_task_graph_init(&role->graph, p);
        BB_NEW(role->tasks, role->graph.n_tasks);
        list_predecessors(role);
        e->host_stream = p->n_streams > e->host_stream ? p->n_streams : e->host_stream;
        if (e->prediction)
            set_launches(role, &e->prediction->cluster);
    }
}

static void release(struct bb_export *e)
{
    for (int r = 0; e->roles && r < e->step->n_roles; r++) {
        for (int t = 0; t < e->roles[r].graph.n_tasks; t++)
            free(e->roles[r].tasks[t].before);
        free(e->roles[r].tasks);
        bb_task_graph_release(&e->roles[r].graph);
    }
    free(e->roles);
}

/* Rejects a step with real kernels whose times are unknown, or with a collective that the format cannot represent. */
static int reject_ops(const struct bb_export *e, const struct format *format)
{
    for (int r = 0; r < e->step->n_roles; r++)
        for (size_t i = 0; i < e->step->roles[r].program.n_ops; i++) {
            const struct bb_op *op = &e->step->roles[r].program.ops[i];

            if (op->work && !e->prediction)
                return bb_err(BB_EUSAGE, "--export: times of real kernels require --cluster; try: --cluster "
                                         "h100-sxm-ib, or --compute timed");
            if (op->kind == BB_OP_COLLECTIVE && format->supports && !format->supports(&e->step->layout, op))
                return bb_err(BB_EUSAGE, "--export: %s does not support %s", format->tool, bb_colls[op->coll].name);
        }
    return 0;
}

int bb_export_step(const char *name, const char *path, const struct bb_step *step,
                   const struct bb_prediction *prediction, struct bb_export_selection only, int argc, char **argv)
{
    const struct format *format = find_format(name);
    struct bb_export e = {.step = step, .prediction = prediction, .only = only, .argc = argc, .argv = argv};
    struct bb_outfile file;
    int rc;

    TRY(reject_ops(&e, format));
    prepare(&e);
    if (format->write_ranks) {
        rc = format->write_ranks(&e, path);
    } else {
        TRY(bb_outfile_open(&file, path, format->what));
        rc = bb_outfile_close(&file, format->what, format->write(&e, file.out));
    }
out:
    release(&e);
    return rc;
}

const struct bb_export_role *bb_export_role_of(const struct bb_export *e, int rank)
{
    return &e->roles[e->step->role_of[rank]];
}

int64_t bb_export_compute_ns(const struct bb_export *e, int rank, const struct bb_op *op)
{
    const struct bb_prediction *p = e->prediction;
    const int64_t ns = bb_op_kernels_ns(p ? &p->cluster : NULL, op);

    return bb_op_slowed_ns(ns,
                           p ? bb_slow_compute_factor(&p->conditions.slow, rank, rank / p->cluster.gpus_per_node) : 1);
}

int64_t bb_export_host_ns(const struct bb_export *e, const struct bb_op *op)
{
    return e->prediction ? bb_op_work_time(&e->prediction->cluster, op).issue_ns : 0;
}

const struct bb_op *bb_export_op(const struct bb_export_role *role, const struct bb_task *task, int i)
{
    const int op = task->kind == BB_TASK_EXCHANGE ? role->graph.exchanged[task->first + i] : task->first + i;

    return &role->graph.program->ops[op];
}

int bb_export_micro_batches(const struct bb_step *step)
{
    int most = 1;

    for (int r = 0; r < step->n_roles; r++)
        for (size_t k = 0; k < step->roles[r].program.n_ops; k++)
            if (step->roles[r].program.ops[k].micro_batch >= most)
                most = step->roles[r].program.ops[k].micro_batch + 1;
    return most;
}

void bb_export_source_text(const struct bb_export *e, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "busbar " BUSBAR_VERSION ": busbar");

    for (int i = 0; i < e->argc && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, " %s", e->argv[i]);
    for (char *at = text; *at; at++)
        *at = *at == '\n' || *at == '\r' ? ' ' : *at;
}
