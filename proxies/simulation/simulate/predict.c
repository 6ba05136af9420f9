/* predict.c - executes a step (simulate.c) and converts the times of its tasks into intervals (see predict.h). */
#include "proxies/simulation/simulate/predict.h"

#include "bootstrap/base/alloc.h"
#include "proxies/simulation/simulate/engine/op_time.h"
#include "proxies/simulation/simulate/engine/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

static struct bb_timed_op times_of(const struct bb_sim_task *task)
{
    int64_t wait_ns = task->met_ns - task->begin_ns;

    return (struct bb_timed_op){task->begin_ns, task->end_ns, wait_ns > 0 ? wait_ns : 0};
}

/* The collectives of one kind in a group: their time without waiting, and the largest of them. */
struct kind_time {
    int64_t ns;
    const struct bb_op *largest;
};

/* Finds in each group (for example the tensor-parallel groups) the largest collective of the kind with the most time.
 * tasks: results of the class of the rank. */
static void find_largest(const struct bb_layout *l, const struct bb_task_graph *graph, const struct bb_sim_task *tasks,
                         const struct bb_op *largest[BB_MAX_GROUPS])
{
    struct kind_time kinds[BB_MAX_GROUPS][BB_COLL_KIND_COUNT] = {0};
    int64_t most_ns[BB_MAX_GROUPS] = {0};

    for (size_t i = 0; i < graph->program->n_ops; i++) {
        const struct bb_op *op = &graph->program->ops[i];
        const int g = op->kind == BB_OP_COLLECTIVE ? l->comms[op->comm].group : BB_NONE;
        const struct bb_timed_op at = times_of(&tasks[graph->task_of[i]]);
        struct kind_time *kind = g != BB_NONE ? &kinds[g][op->coll] : NULL;

        if (!kind)
            continue;
        kind->ns += at.end_ns - at.begin_ns - at.wait_ns;
        if (!kind->largest || bb_op_payload_bytes(op, 2) > bb_op_payload_bytes(kind->largest, 2))
            kind->largest = op;
    }
    for (int g = 0; g < l->n_groups; g++)
        for (int k = 0; k < BB_COLL_KIND_COUNT; k++)
            if (kinds[g][k].largest && (!largest[g] || kinds[g][k].ns > most_ns[g])) {
                largest[g] = kinds[g][k].largest;
                most_ns[g] = kinds[g][k].ns;
            }
}

/* Determines which NCCL algorithm and protocol the cost model selects for the collective of find_largest() in each
 * group. */
static void find_variants(const struct bb_sim *m, const struct bb_task_graph *graph, const struct bb_sim_task *tasks,
                          struct bb_predicted_rank *r)
{
    const struct bb_layout *l = &m->step->layout;
    const struct bb_op *largest[BB_MAX_GROUPS] = {NULL};

    find_largest(l, graph, tasks, largest);
    for (int g = 0; g < l->n_groups; g++) {
        const int instance = bb_group_instance(l, g, r->rank);
        const struct bb_nccl_variant *variant = NULL;
        struct bb_node_placement placement;

        if (largest[g]) {
            struct bb_collective call;

            r->groups[g].nodes = bb_group_nodes(l, g, instance, m->cluster->gpus_per_node);
            bb_group_find_placement(l, g, instance, m->cluster, &placement, NULL);
            call = bb_op_collective(largest[g], l->groups[g].size, r->groups[g].nodes, &placement);
            bb_cluster_collective_ns(m->cluster, &call, &variant);
        }
        r->groups[g].coll = largest[g] ? (int)largest[g]->coll : BB_NONE;
        r->groups[g].variant = variant ? (int)(variant - m->cluster->variants) : BB_NONE;
    }
}

/* Returns the end of the last forward or backward kernel of each class of equivalent ranks. The caller frees it. */
static int64_t *pipeline_ends(const struct bb_sim *m, const struct bb_sim_run *run)
{
    int64_t *end_ns; /* [classes] */

    BB_NEW(end_ns, m->classes.n);
    for (int c = 0; c < m->classes.n; c++) {
        const struct bb_task_graph *graph = bb_sim_task_graph(m, c);

        for (int u = 0; u < graph->n_tasks; u++) {
            const struct bb_timed_op at = times_of(&run->tasks[m->task_base[c] + u]);

            if (graph->tasks[u].kind == BB_TASK_COMPUTE)
                end_ns[c] = bb_pipeline_end(end_ns[c], &graph->program->ops[graph->tasks[u].first], &at);
        }
    }
    return end_ns;
}

/* pipeline_end_ns: from pipeline_ends */
static void read_class(const struct bb_sim *m, const struct bb_sim_run *run, int class_id,
                       const int64_t *pipeline_end_ns, struct bb_predicted_rank *r)
{
    const struct bb_task_graph *graph = bb_sim_task_graph(m, class_id);
    int64_t step_ns = run->issued_ns[class_id];
    struct bb_overlap group, waits;
    struct bb_intervals s = {0};
    struct bb_group_traffic traffic[BB_MAX_GROUPS];

    *r = (struct bb_predicted_rank){.rank = m->classes.rank[class_id],
                                    .issue_ns = run->issued_ns[class_id] - run->late_ns[class_id]};
    bb_intervals_set_pipeline(&s, &m->step->layout, r->rank, pipeline_end_ns, m->classes.of);
    for (int u = 0; u < graph->n_tasks; u++) {
        const struct bb_timed_op at = times_of(&run->tasks[m->task_base[class_id] + u]);
        const struct bb_task *task = &graph->tasks[u];

        bb_intervals_add(&s, &m->step->layout, &graph->program->ops[task->first],
                         task->kind == BB_TASK_COMPUTE ? BB_NONE : task->comm, &at);
        step_ns = at.end_ns > step_ns ? at.end_ns : step_ns;
    }
    bb_overlap_of(step_ns, &s.compute, &s.comm, &r->all);
    bb_count_group_traffic(&m->step->layout, graph->program, traffic);
    for (int g = 0; g < m->step->layout.n_groups; g++) {
        bb_overlap_of(step_ns, &s.compute, &s.groups[g], &group);
        r->groups[g].bytes = bb_group_traffic_bytes(&traffic[g]);
        r->groups[g].bus_bytes = bb_group_traffic_bus_bytes(&traffic[g]);
        r->groups[g].busy_ns = group.comm_ns;
        r->groups[g].exposed_ns = group.exposed_ns;
        r->groups[g].waiting_ns = bb_spans_length(&s.waits[g]);
        bb_overlap_of(step_ns, &s.compute, &s.waits[g], &waits);
        r->groups[g].exposed_transfer_ns = group.exposed_ns - waits.exposed_ns;
    }
    r->exposed = bb_exposure_of(&s);
    r->work_ns = bb_spans_length(&s.work);
    find_variants(m, graph, &run->tasks[m->task_base[class_id]], r);
    bb_intervals_release(&s);
}

/* Simulates the step with the times of the cluster's cost model. Prints an error if operations do not match or the
 * step deadlocks. The caller releases m and run. */
static int simulate_step(struct bb_sim *m, struct bb_sim_run *run, const struct bb_step *step,
                         const struct bb_cluster *cluster, const struct bb_conditions *conditions)
{
    struct bb_faults faults = {0};
    int rc;

    TRY(bb_sim_init(m, step, cluster, conditions, &faults));
    if (faults.n > 0 || m->classes.n == 0)
        rc = bb_err(BB_EFAIL, "%s: the step cannot be predicted: operations of different ranks do not match",
                    step->proxy);
    else
        bb_simulate(m, false, run);
    if (rc == 0 && run->n_ended < m->task_base[m->classes.n])
        rc = bb_err(BB_EFAIL, "%s: the step cannot be predicted: it deadlocks", step->proxy);
out:
    bb_faults_release(&faults);
    return rc;
}

static void read_sharing(const struct bb_sim *m, const struct bb_sim_run *run, struct bb_prediction *out)
{
    const double step_ns = (double)out->step_ns;
    struct bb_bottleneck of_longest;

    if (!run->busy || step_ns <= 0)
        return;
    for (int c = 0; c < m->classes.n; c++) {
        out->link_busy = fmax(out->link_busy, run->busy[c].link_ns / step_ns);
        out->nic_busy = fmax(out->nic_busy, run->busy[c].nic_ns / step_ns);
        out->nic_bytes = fmax(out->nic_bytes, run->busy[c].nic_bytes);
        for (int tier = 0; tier < BB_TIERS; tier++)
            out->uplink_busy[tier] = fmax(out->uplink_busy[tier], run->busy[c].uplink_ns[tier] / step_ns);
    }
    bb_bottleneck_find(m, run, out->slowest, &out->bottleneck);
    bb_bottleneck_find(m, run, out->longest, &of_longest);
    out->launch_wait_ns = of_longest.launch_ns;
}

/* ---- begin and end of each operation ---- */

/* Converts the times of the tasks of one class of equivalent ranks to times of operations. ops: out, [operations of
 * a rank of the class]. */
static void read_ops(const struct bb_sim *m, const struct bb_sim_run *run, int class_id, struct bb_timed_op *ops)
{
    const struct bb_task_graph *graph = bb_sim_task_graph(m, class_id);

    for (size_t op = 0; op < graph->program->n_ops; op++)
        ops[op] = times_of(&run->tasks[m->task_base[class_id] + graph->task_of[op]]);
}

static double work_of(const void *prediction, int rank)
{
    const struct bb_prediction *p = prediction;

    return (double)p->classes[p->class_of[rank]].work_ns;
}

static struct bb_rank_load load_of(const void *classes, int i)
{
    const struct bb_predicted_rank *r = (const struct bb_predicted_rank *)classes + i;

    return (struct bb_rank_load){(double)r->all.step_ns, (double)(r->all.compute_ns + r->exposed.transfer_ns)};
}

static void read_all(const struct bb_sim *m, const struct bb_sim_run *run, bool keeps_ops, struct bb_prediction *out)
{
    const int ranks = m->step->layout.ranks;
    int64_t *pipeline_end_ns = pipeline_ends(m, run);

    BB_NEW(out->classes, m->classes.n);
    BB_NEW(out->class_of, ranks);
    out->n_classes = m->classes.n;
    memcpy(out->class_of, m->classes.of, sizeof(int) * (size_t)ranks);
    for (int c = 0; c < m->classes.n; c++) {
        read_class(m, run, c, pipeline_end_ns, &out->classes[c]);
        out->step_ns = MAX(out->step_ns, out->classes[c].all.step_ns);
    }
    free(pipeline_end_ns);
    out->slowest = bb_limiting_rank(out->n_classes, load_of, out->classes);
    out->longest = out->slowest;
    for (int c = 0; c < m->classes.n; c++)
        if (out->classes[c].all.compute_ns > out->classes[out->longest].all.compute_ns)
            out->longest = c;
    for (int c = 0; c < m->classes.n; c++) {
        struct bb_predicted_rank *r = &out->classes[c];

        r->imbalance_ns =
            (int64_t)bb_stage_imbalance(&m->step->layout, r->rank, (double)r->exposed.bubble_ns, work_of, out);
    }
    read_sharing(m, run, out);
    if (!keeps_ops)
        return;
    BB_NEW(out->ops, m->classes.n);
    for (int c = 0; c < m->classes.n; c++) {
        BB_NEW(out->ops[c], bb_sim_task_graph(m, c)->program->n_ops);
        read_ops(m, run, c, out->ops[c]);
    }
}

void bb_predicted_timeline(const struct bb_step *step, const struct bb_prediction *p, struct bb_timeline *t)
{
    for (int i = 0; i < t->n; i++) {
        const int class_id = p->class_of[t->ranks[i]];

        memcpy(t->ops[i], p->ops[class_id], bb_step_program(step, t->ranks[i])->n_ops * sizeof(*t->ops[i]));
        t->step_ns[i] = p->classes[class_id].all.step_ns;
    }
}

/* ---- step time with only compute or only communication ---- */

/* Returns the step time of a program without its communication. Contention is then absent, and all kernels of a
 * rank are on one stream, so they run one after another. known: cache of operation times; times: factor by which the
 * rank's kernels are slowed; delay_ns: time after which its streams start. */
static int64_t time_kernels(const struct bb_program *p, struct bb_op_times *known, double times, int64_t delay_ns)
{
    int64_t host_ns = delay_ns > 0 ? bb_cluster_issue_ns(known->cluster, true) : 0, end_ns = host_ns + delay_ns;

    for (size_t i = 0; i < p->n_ops; i++) {
        int64_t issued_ns, start_ns;
        struct bb_work_time work;

        if (bb_op_is_comm(&p->ops[i]))
            continue;
        work = bb_op_times_work(known, &p->ops[i]);
        issued_ns = host_ns + work.first_ns;
        start_ns = end_ns > issued_ns ? end_ns : issued_ns;
        end_ns = start_ns + bb_op_slowed_ns(bb_work_end_ns(&work, start_ns, host_ns) - start_ns, times);
        host_ns += work.issue_ns;
    }
    return end_ns > host_ns ? end_ns : host_ns;
}

static void predict_compute_alone(const struct bb_step *step, struct bb_prediction *p)
{
    const struct bb_slow *slow = &p->conditions.slow;
    struct bb_op_times known = BB_OP_TIMES(&p->cluster);
    double *times; /* [n_roles] for each role (ranks that share a program), the largest factor by which the kernels of
                      one of its ranks are slowed */
    int64_t *delays_ns; /* [n_roles] the largest delay of one of its ranks */

    BB_NEW(times, step->n_roles);
    BB_NEW(delays_ns, step->n_roles);
    for (int r = 0; r < step->layout.ranks; r++) {
        double *of_role = &times[step->role_of[r]];

        *of_role = fmax(*of_role, slow->n > 0 ? bb_slow_compute_factor(slow, r, r / p->cluster.gpus_per_node) : 1);
        delays_ns[step->role_of[r]] = MAX(delays_ns[step->role_of[r]], bb_slow_delay_ns(slow, r));
    }
    p->compute_alone_ns = 0;
    for (int r = 0; r < step->n_roles; r++) {
        const int64_t ns = time_kernels(&step->roles[r].program, &known, times[r], delays_ns[r]);

        p->compute_alone_ns = ns > p->compute_alone_ns ? ns : p->compute_alone_ns;
        if (r == step->role_of[p->classes[p->slowest].rank])
            p->slowest_compute_alone_ns = ns;
    }
    bb_op_times_release(&known);
    free(delays_ns);
    free(times);
}

static int predict_comm_alone(const struct bb_step *step, struct bb_prediction *p)
{
    struct bb_step comm_only = *step; /* shares all arrays with *step except `roles`, the programs */
    int rc;

    comm_only.n_roles = 0;
    BB_NEW(comm_only.roles, step->n_roles);
    for (; comm_only.n_roles < step->n_roles; comm_only.n_roles++)
        bb_program_filter(&step->roles[comm_only.n_roles].program, true, &comm_only.roles[comm_only.n_roles].program);
    rc = bb_predict_step_ns(&comm_only, &p->cluster, &p->conditions, &p->comm_alone_ns);
    for (int r = 0; r < comm_only.n_roles; r++)
        bb_program_release(&comm_only.roles[r].program);
    free(comm_only.roles);
    return rc;
}

/* Returns the time of all kernels of a rank without launch overhead. */
static int64_t sum_kernels(const struct bb_program *program, const struct bb_cluster *cluster)
{
    struct bb_op_times known = BB_OP_TIMES(cluster);
    int64_t ns = 0;

    for (size_t i = 0; i < program->n_ops; i++)
        ns += program->ops[i].kind == BB_OP_COMPUTE ? bb_op_times_work(&known, &program->ops[i]).gpu_ns : 0;
    bb_op_times_release(&known);
    return ns;
}

int bb_predict_graph(const struct bb_step *step, struct bb_prediction *p)
{
    const struct bb_program *program = bb_step_program(step, p->classes[p->longest].rank);
    struct bb_cluster graph = p->cluster;

    bb_cluster_launch_graphs(&graph);
    p->expert_ns = sum_kernels(program, &p->cluster) - sum_kernels(program, &graph);
    return bb_predict_step_ns(step, &graph, &p->conditions, &p->graph_ns);
}

int bb_predict_validate_slow(const struct bb_cluster *c, int ranks, const struct bb_slow *slow)
{
    for (int i = 0; i < slow->n; i++)
        if (slow->items[i].kind != BB_SLOW_RANK && slow->items[i].kind != BB_SLOW_DELAY && !c->has_sharing)
            return bb_err(BB_EUSAGE, "--slow %s requires a cluster profile with a 'sharing' section; '%s' has none",
                          slow->items[i].kind == BB_SLOW_NODE ? "node" : "link", c->name);
    return bb_slow_validate(slow, "--slow", c, ranks, bb_cluster_nodes(c, ranks));
}

static int predict_once(const struct bb_step *step, const struct bb_cluster *cluster,
                        const struct bb_conditions *conditions, bool keeps_ops, struct bb_prediction *out)
{
    struct bb_sim_run run = {0};
    struct bb_sim m = {0};
    int rc;

    *out = (struct bb_prediction){.cluster = *cluster, .compute_alone_ns = -1, .comm_alone_ns = -1, .graph_ns = -1};
    if (conditions)
        out->conditions.slow = conditions->slow;
    TRY(bb_predict_validate_slow(cluster, step->layout.ranks, &out->conditions.slow));
    bb_slow_degrade_fabric(&out->conditions.slow, &out->cluster);
    TRY(simulate_step(&m, &run, step, &out->cluster, &out->conditions));
    read_all(&m, &run, keeps_ops, out);
out:
    bb_sim_run_release(&run);
    bb_sim_release(&m);
    if (rc)
        bb_prediction_release(out);
    return rc;
}

int bb_predict_step(const struct bb_step *step, const struct bb_cluster *cluster,
                    const struct bb_conditions *conditions, struct bb_prediction *out)
{
    return predict_once(step, cluster, conditions, false, out);
}

int bb_predict_step_ns(const struct bb_step *step, const struct bb_cluster *cluster,
                       const struct bb_conditions *conditions, int64_t *step_ns)
{
    struct bb_sim_run run = {0};
    struct bb_sim m;
    int rc;

    TRY(simulate_step(&m, &run, step, cluster, conditions));
    *step_ns = bb_sim_step_ns(&m, &run);
out:
    bb_sim_run_release(&run);
    bb_sim_release(&m);
    return rc;
}

int bb_predict_under(const struct bb_step *step, const struct bb_cluster *cluster,
                     const struct bb_conditions *conditions, struct bb_prediction *out)
{
    int64_t baseline_ns;
    int rc;

    TRY(predict_once(step, cluster, conditions, true, out));
    if (out->conditions.slow.n > 0) {
        TRY(bb_predict_step_ns(step, cluster, NULL, &baseline_ns));
        out->slow_cost_ns = out->step_ns - baseline_ns;
    }
    if (cluster->eager)
        TRY(bb_predict_graph(step, out));
    if (bb_step_has_both(step)) {
        predict_compute_alone(step, out);
        TRY(predict_comm_alone(step, out));
    }
out:
    if (rc)
        bb_prediction_release(out);
    return rc;
}

int bb_predict(const struct bb_step *step, const struct bb_cluster *cluster, struct bb_prediction *out)
{
    return bb_predict_under(step, cluster, NULL, out);
}

void bb_prediction_release(struct bb_prediction *p)
{
    for (int c = 0; p->ops && c < p->n_classes; c++)
        free(p->ops[c]);
    free(p->ops);
    free(p->classes);
    free(p->class_of);
    *p = (struct bb_prediction){0};
}

double bb_predicted_efficiency(const struct bb_prediction *p)
{
    const struct bb_predicted_rank *r = &p->classes[p->slowest];
    const int64_t bubble_ns = r->exposed.bubble_ns,
                  compute_ns = bubble_ns > 0 ? p->slowest_compute_alone_ns + bubble_ns : p->compute_alone_ns;

    if (p->compute_alone_ns < 0)
        return NAN;
    return bb_overlap_efficiency((double)compute_ns, (double)p->comm_alone_ns, (double)p->step_ns);
}

/* Returns the highest peak rate of the GEMMs of a step, of which some have operands of fewer bits than its data type. */
static double peak_tflops(const struct bb_step *step, const struct bb_cluster *c, enum bb_dtype_id dtype)
{
    double peak = bb_cluster_tflops(c, dtype);

    for (int l = 0; l < step->n_kernel_lists; l++)
        for (int i = 0; i < step->kernel_lists[l]->n; i++)
            peak = fmax(peak, bb_cluster_low_precision_tflops(c, step->kernel_lists[l]->items[i].precision));
    return peak;
}

/* The data type of the first operation with a kernel list determines the peak rate. Kernels that only have a duration
 * have no data type, so the utilization of a step without kernel lists is unknown. */
double bb_predicted_utilisation(const struct bb_step *step, const struct bb_prediction *p)
{
    const double ns = (double)p->step_ns;

    for (int r = 0; r < step->n_roles && ns > 0; r++) {
        const struct bb_program *program = &step->roles[r].program;

        for (size_t i = 0; i < program->n_ops; i++)
            if (program->ops[i].work)
                return bb_step_flops(step) /
                       (peak_tflops(step, &p->cluster, program->ops[i].dtype) * 1e3 * ns * step->layout.ranks);
    }
    return NAN;
}

/* Ranks of a prediction. */
struct selected {
    const struct bb_prediction *p;
    const int *ranks;
};

static struct bb_rank_load load_of_selected(const void *from, int i)
{
    const struct selected *s = from;

    return load_of(s->p->classes, s->p->class_of[s->ranks[i]]);
}

const struct bb_predicted_rank *bb_predicted_slowest(const struct bb_prediction *p, const int *ranks, int n)
{
    const struct selected s = {p, ranks};

    return &p->classes[p->class_of[ranks[bb_limiting_rank(n, load_of_selected, &s)]]];
}
