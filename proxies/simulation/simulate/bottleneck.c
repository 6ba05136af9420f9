/* bottleneck.c - breakdown of one rank's step by bottleneck (see bottleneck.h). */
#include "proxies/simulation/simulate/bottleneck.h"

#include "bootstrap/base/alloc.h"
#include "proxies/simulation/simulate/engine/op_time.h"

#include <stdlib.h>

#define TEXT(name, text, key) text,
#define KEY(name, text, key)  key,
const char *const bb_limit_names[BB_LIMITS] = {BB_EACH_LIMIT(TEXT)};
const char *const bb_limit_keys[BB_LIMITS] = {BB_EACH_LIMIT(KEY)};

/* Union of the time intervals in which one rank's compute kernels run: disjoint intervals in ascending order.
 * before_ns: total length of all earlier intervals. */
struct cover {
    struct covered {
        int64_t begin_ns, end_ns, before_ns;
    } * at;
    int n;
};

static void add_kernel(struct cover *c, int64_t begin_ns, int64_t end_ns)
{
    const struct covered *last = c->n > 0 ? &c->at[c->n - 1] : NULL;
    struct covered one = {begin_ns, end_ns, last ? last->before_ns + last->end_ns - last->begin_ns : 0};

    if (last && one.begin_ns < last->end_ns)
        one.begin_ns = last->end_ns;
    if (one.end_ns <= one.begin_ns)
        return;
    BB_GROW(c->at, c->n);
    c->at[c->n++] = one;
}

/* Returns the total time before the time `moment` (ns since the start of the step) in which a compute kernel of the
 * rank runs. Binary search. */
static int64_t covered_before(const struct cover *c, int64_t moment)
{
    int low = 0, high = c->n;

    while (low < high) {
        int middle = (low + high) / 2;

        if (c->at[middle].begin_ns < moment)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return 0;
    moment = moment < c->at[low - 1].end_ns ? moment : c->at[low - 1].end_ns;
    return c->at[low - 1].before_ns + moment - c->at[low - 1].begin_ns;
}

static int64_t uncovered(const struct cover *c, int64_t begin_ns, int64_t end_ns)
{
    return end_ns - begin_ns - (covered_before(c, end_ns) - covered_before(c, begin_ns));
}

static void add_compute(const struct bb_sim *m, int rank, const struct bb_op *op, const struct bb_sim_task *t,
                        struct bb_bottleneck *out)
{
    const double slowdown = bb_slow_compute_factor(&m->conditions.slow, rank, rank / m->cluster->gpus_per_node);
    const int64_t alone_ns = t->alone_end_ns - t->begin_ns,
                  launch_ns = alone_ns - bb_op_slowed_ns(bb_op_kernels_ns(m->cluster, op), slowdown);

    out->ns[op->phase][BB_LIMIT_LAUNCH] += launch_ns;
    out->ns[op->phase][t->limit] += t->end_ns - t->begin_ns - launch_ns;
    out->compute_slowed_ns += t->end_ns - t->alone_end_ns;
    out->launch_ns += launch_ns;
}

static void add_comm(const struct bb_sim_task *t, const struct cover *kernels, int64_t *ns, struct bb_bottleneck *out)
{
    int64_t met_ns;

    met_ns = t->met_ns > t->begin_ns ? t->met_ns : t->begin_ns;
    met_ns = met_ns < t->end_ns ? met_ns : t->end_ns;
    ns[BB_LIMIT_WAITING] += uncovered(kernels, t->begin_ns, met_ns);
    ns[t->limit] += uncovered(kernels, met_ns, t->end_ns);
    out->comm_slowed_ns += t->end_ns - t->alone_end_ns;
}

void bb_bottleneck_find(const struct bb_sim *m, const struct bb_sim_run *run, int class_id, struct bb_bottleneck *out)
{
    const struct bb_task_graph *graph = bb_sim_task_graph(m, class_id);
    const struct bb_sim_task *tasks = &run->tasks[m->task_base[class_id]];
    const int rank = m->classes.rank[class_id];
    struct cover kernels = {0};

    *out = (struct bb_bottleneck){0};
    for (int u = 0; u < graph->n_tasks; u++)
        if (graph->tasks[u].kind == BB_TASK_COMPUTE)
            add_kernel(&kernels, tasks[u].arrival_ns, tasks[u].end_ns);
    for (int u = 0; u < graph->n_tasks; u++) {
        const struct bb_task *task = &graph->tasks[u];
        const int first = task->kind == BB_TASK_EXCHANGE ? graph->exchanged[task->first] : task->first;
        const struct bb_op *op = &graph->program->ops[first];

        if (task->kind == BB_TASK_COMPUTE)
            add_compute(m, rank, op, &tasks[u], out);
        else
            add_comm(&tasks[u], &kernels, out->ns[op->phase], out);
    }
    free(kernels.at);
}

enum bb_limit bb_bottleneck_of(const struct bb_bottleneck *b, enum bb_phase phase)
{
    int max = BB_LIMIT_NONE;

    for (int limit = 0; limit < BB_LIMITS; limit++)
        if (b->ns[phase][limit] > b->ns[phase][max])
            max = limit;
    return (enum bb_limit)max;
}
