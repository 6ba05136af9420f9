/* plan_json.c - writes a plan in the JSON format busbar.plan/1. */
#include "bootstrap/results/flat_table.h"
#include "bootstrap/results/results.h"
#include "proxies/offline/plan/contention.h"
#include "proxies/offline/plan/forecast.h"
#include "proxies/offline/plan/plan_export.h"
#include "proxies/offline/plan/prediction_report.h"
#include "proxies/simulation/simulate/predicted_path.h"

#include <math.h>
#include <stdio.h>

static json_t *int_array(const int *values, int n)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_integer(values[i]));
    return list;
}

/* ---- JSON of the groups ---- */

static json_t *list_groups(const struct bb_layout *l)
{
    json_t *list = json_array();

    for (int g = 0; g < l->n_groups; g++) {
        json_t *instances = json_array();

        for (int i = 0; i < l->groups[g].instances; i++) {
            json_t *members = json_array();

            for (int m = 0; m < l->groups[g].size; m++)
                json_array_append_new(members, json_integer(bb_group_member(l, g, i, m)));
            json_array_append_new(instances, members);
        }
        json_array_append_new(list, json_pack("{s:s, s:i, s:o}", "name", l->groups[g].name, "size", l->groups[g].size,
                                              "members", instances));
    }
    return list;
}

/* ---- JSON of the roles ---- */

static json_t *peers_of(const struct bb_traffic_row *row)
{
    json_t *peers = row->kind == BB_OP_COLLECTIVE ? json_null() : json_object();
    char offset[16];

    for (int i = 0; i < row->n_peers; i++) { /* a collective has no peers */
        snprintf(offset, sizeof(offset), "%+d", row->peers[i].offset);
        json_object_set_new(peers, offset, json_integer((json_int_t)row->peers[i].calls));
    }
    return peers;
}

static json_t *traffic_of(const struct bb_layout *l, const struct bb_traffic_role *role)
{
    json_t *rows = json_array();

    for (int i = 0; i < role->n_rows; i++) {
        struct bb_traffic_shown shown = bb_traffic_show(l, &role->rows[i]);

        shown.peers = peers_of(&role->rows[i]);
        json_array_append_new(rows, bb_table_object(bb_traffic_fields, &shown));
    }
    return rows;
}

static json_t *memory_of(const struct bb_traffic_role *role)
{
    json_t *memory = json_object();

    for (int use = 0; use < BB_USES; use++)
        json_object_set_new(memory, bb_use_names[use], json_integer((json_int_t)role->memory_bytes[use]));
    json_object_set_new(memory, "work", json_integer((json_int_t)role->work_bytes));
    json_object_set_new(memory, "total", json_integer((json_int_t)bb_traffic_memory(role)));
    return memory;
}

/* Returns as a JSON object the memory that real training needs on a rank of the role; NULL when the proxy has no
 * formula for it. */
static json_t *training_memory_of(const struct bb_traffic_role *role)
{
    json_t *memory = json_object();
    json_int_t total = 0;

    for (int use = 0; use < BB_USES; use++) {
        json_int_t bytes = llround(role->training_bytes[use]);

        json_object_set_new(memory, bb_use_names[use], json_integer(bytes));
        total += bytes;
    }
    json_object_set_new(memory, "total", json_integer(total));
    if (total > 0)
        return memory;
    json_decref(memory);
    return NULL;
}

static json_t *index_or_null(int value)
{
    return value == BB_NONE ? json_null() : json_integer(value);
}

/*
 * Returns a JSON array for an alltoallv: for each rank of the communicator, the number of elements that the executing
 * rank sends to it or receives from it; 0 for the executing rank itself. Returns JSON null for other operations.
 *   of  bb_alltoallv_sends or bb_alltoallv_receives
 */
static json_t *counts_of(const struct bb_op *op, size_t (*of)(const struct bb_op *, int))
{
    json_t *list = op->kind == BB_OP_ALLTOALLV ? json_array() : json_null();

    for (int position = 0; op->kind == BB_OP_ALLTOALLV && position < op->table->n; position++)
        json_array_append_new(list, json_integer((json_int_t)of(op, position)));
    return list;
}

static json_t *peer_text(const struct bb_op *op)
{
    bool rooted = op->kind == BB_OP_COLLECTIVE && (bb_colls[op->coll].flags & BB_COLL_ROOTED);

    if (op->kind != BB_OP_SEND && op->kind != BB_OP_RECV && !rooted)
        return json_null();
    return op->peer_kind == BB_PEER_OFFSET ? json_sprintf("%+d", op->peer) : json_sprintf("%d", op->peer);
}

/* ---- JSON of the kernel lists ---- */

static json_t *gemm_dtype(const void *item)
{
    return json_string(bb_dtypes[((const struct bb_kernel_list_item *)item)->gemm.dtype].name);
}

#define GEMM(name) BB_SHOWS(struct bb_kernel_list_item, gemm.name)
static const struct bb_field gemm_fields[] = {
    {"m", GEMM(m)}, {"n", GEMM(n)}, {"k", GEMM(k)}, {"batch", GEMM(batch)}, {"dtype", .value = gemm_dtype}, {0},
};

static json_t *kernel_json(const struct bb_kernel_list_item *item)
{
    const bool memory = item->is_memory_kernel;
    json_t *o = json_pack("{s:s, s:s}", "name", item->name, "kind",
                          memory ? bb_memory_kernel_name(item->memory_kernel.kind) : "gemm");

    if (!memory)
        bb_table_json(o, gemm_fields, item);
    json_object_set_new(o, "flops", json_integer(memory ? 0 : llround(bb_gemm_flops(&item->gemm))));
    json_object_set_new(
        o, "moved_bytes",
        json_integer((json_int_t)(memory ? bb_memory_kernel_bytes(&item->memory_kernel) : bb_gemm_bytes(&item->gemm))));
    return o;
}

/*
 * Returns the JSON array of the step's kernel lists. Each list is an array of GEMMs and memory-bound kernels. The JSON
 * field "kernel_list" of an operation is an index into this array of lists.
 */
static json_t *kernel_lists_json(const struct bb_step *step)
{
    json_t *kernel_lists = json_array();

    for (int w = 0; w < step->n_kernel_lists; w++) {
        json_t *items = json_array();

        for (int i = 0; i < step->kernel_lists[w]->n; i++)
            json_array_append_new(items, kernel_json(&step->kernel_lists[w]->items[i]));
        json_array_append_new(kernel_lists, items);
    }
    return kernel_lists;
}

static json_t *kernel_list_index(const struct bb_step *step, const struct bb_kernel_list *work)
{
    for (int w = 0; work && w < step->n_kernel_lists; w++)
        if (step->kernel_lists[w] == work)
            return json_integer(w);
    return json_null();
}

/* ---- JSON of the operations ---- */

static json_t *op_object(const struct bb_step *step, const struct bb_program *p, size_t i)
{
    const struct bb_layout *l = &step->layout;
    const struct bb_op *op = &p->ops[i];
    bool comm = bb_op_is_comm(op), reduces = op->kind == BB_OP_COLLECTIVE && bb_colls[op->coll].flags & BB_COLL_REDUCES;

    return json_pack(
        "{s:I, s:s, s:s, s:s?, s:o, s:o, s:o, s:o, s:s?, s:s?, s:o, s:o, s:s?, s:s, s:o, s:o, s:s?, s:o, s:o, s:o, "
        "s:o, "
        "s:o}",
        "index", (json_int_t)i, "kind", bb_op_kind_name(op->kind, op->coll), "stream", p->streams[op->stream].name,
        "group", comm ? l->groups[l->comms[op->comm].group].name : NULL, "peer", peer_text(op), "count",
        comm && op->kind != BB_OP_ALLTOALLV ? json_integer((json_int_t)op->count) : json_null(), "send_counts",
        counts_of(op, bb_alltoallv_sends), "recv_counts", counts_of(op, bb_alltoallv_receives), "dtype",
        comm ? bb_dtypes[op->dtype].name : NULL, "op", reduces ? bb_redops[op->redop].name : NULL, "call",
        index_or_null(op->call), "waits", int_array(p->wait_list + op->first_wait, op->waits), "comm",
        comm ? l->comms[op->comm].name : NULL, "phase", bb_phase_names[op->phase], "micro_batch",
        index_or_null(op->micro_batch), "layer", index_or_null(op->layer), "what", op->what, "compute_us",
        comm ? json_null() : json_real(op->compute_us), "flops", comm ? json_null() : json_integer(llround(op->flops)),
        "moved_bytes", op->work ? json_integer(llround(op->work_times * bb_kernel_list_bytes(op->work))) : json_null(),
        "kernel_list", kernel_list_index(step, op->work), "kernel_list_runs",
        op->work ? json_integer(op->work_times) : json_null());
}

static json_t *list_roles(const struct bb_plan *plan, bool ops)
{
    const struct bb_layout *l = &plan->step->layout;
    json_t *list = json_array();

    for (int r = 0; r < plan->traffic.n; r++) {
        const struct bb_traffic_role *role = &plan->traffic.roles[r];
        json_t *o = json_pack("{s:s, s:o, s:o, s:f, s:o, s:o}", "name", role->name, "ranks",
                              int_array(role->ranks, role->n_ranks), "traffic", traffic_of(l, role), "compute_us",
                              role->compute_us, "flops",
                              role->flops < 0x1p63 ? json_integer(llround(role->flops)) : json_real(role->flops),
                              "memory_bytes", memory_of(role));
        json_t *training = training_memory_of(role);

        if (training)
            json_object_set_new(o, "training_memory_bytes", training);
        if (ops) {
            json_t *program = json_array();

            for (size_t i = 0; i < role->program->n_ops; i++)
                json_array_append_new(program, op_object(plan->step, role->program, i));
            json_object_set_new(o, "program", program);
        }
        json_array_append_new(list, o);
    }
    return list;
}

/* ---- JSON of the checks ---- */

static void append_faults(json_t *list, const struct bb_faults *f)
{
    for (int i = 0; i < f->n && i < BB_FAULTS_KEPT; i++)
        if (f->text[i])
            json_array_append_new(list, json_string(f->text[i]));
}

json_t *bb_plan_checks(const struct bb_plan *plan)
{
    const struct bb_checks *c = &plan->checks;
    json_t *o = json_pack("{s:b, s:b, s:b}", "matched", c->matched, "deadlock_free", c->deadlock_free,
                          "safe_serialised", c->safe_serialised);
    json_t *faults = json_array();

    append_faults(faults, &c->mismatches);
    append_faults(faults, &c->deadlock);
    append_faults(faults, &c->serialised);
    if (json_array_size(faults) > 0)
        json_object_set(o, "faults", faults);
    json_decref(faults);
    return o;
}

void bb_plan_body(json_t *object, const struct bb_plan *plan, bool ops)
{
    json_object_set_new(object, "proxy", json_string(plan->step->proxy));
    json_object_set_new(object, "ranks", json_integer(plan->step->layout.ranks));
    json_object_set_new(object, "summary", json_string(plan->step->summary ? plan->step->summary : ""));
    json_object_set_new(object, "parameters", json_real(plan->step->parameters));
    json_object_set_new(object, "samples", bb_json_real(plan->step->samples > 0 ? plan->step->samples : NAN));
    json_object_set_new(object, "groups", list_groups(&plan->step->layout));
    json_object_set_new(object, "roles", list_roles(plan, ops));
    if (ops && plan->step->n_kernel_lists > 0)
        json_object_set_new(object, "kernel_lists", kernel_lists_json(plan->step));
    json_object_set_new(object, "checks", bb_plan_checks(plan));
}

/* ---- the whole JSON document ---- */

static void add_prediction(json_t *root, const struct bb_plan_report *r)
{
    json_t *predicted = bb_prediction_json(r->plan, r->prediction);
    struct bb_critical_path path;

    json_object_set_new(root, "predicted", predicted);
    bb_predict_critical_path(r->plan->step, r->prediction, &path);
    json_object_set_new(predicted, "critical_path", bb_critical_path_json(&path));
    if (r->training)
        json_object_set_new(predicted, "training", bb_training_time_json(r->training));
    if (r->jittered)
        json_object_set_new(predicted, "jitter", bb_jittered_json(r->jittered));
    bb_critical_path_release(&path);
}

/* Sets status and reason. A plan without --must-fit succeeds even if training does not fit in GPU memory; its status is
 * then "does not fit". */
static void set_status(json_t *root, const struct bb_plan_report *r)
{
    char misfit[BB_MISFIT_TEXT];

    bb_results_set_end(root, r->rc, NULL);
    if (r->rc != 0 || !bb_forecast_misfit_text(r->plan, r->plan->forecast, r->prediction != NULL, misfit))
        return;
    json_object_set_new(root, "status", json_string("does not fit"));
    json_object_set_new(root, "reason", json_string(misfit));
}

/* Returns the JSON document, which the caller releases. */
static json_t *make_plan(const struct bb_plan_report *r)
{
    json_t *root =
        json_pack("{s:s, s:s, s:O, s:s, s:O, s:O}", "schema", "busbar.plan/1", "busbar", BUSBAR_VERSION, "command",
                  r->command, "proxy", r->plan->step->proxy, "options", r->options, "profiles", r->profiles);
    bb_plan_body(root, r->plan, r->ops);
    if (r->prediction) {
        json_object_set_new(root, "nodes",
                            json_integer(bb_cluster_nodes(&r->prediction->cluster, r->plan->step->layout.ranks)));
        add_prediction(root, r);
    } else if (r->plan->forecast->gpu_bytes > 0)
        json_object_set_new(root, "memory", bb_forecast_memory(r->plan, r->plan->forecast));
    if (r->best_order)
        json_object_set(root, "best_order", r->best_order);
    set_status(root, r);
    return root;
}

/* Returns a copy of an object, with the members in `names` first. */
static json_t *put_first(const json_t *object, const char *const *names)
{
    json_t *copy = json_object();

    for (; *names; names++)
        if (json_object_get(object, *names))
            json_object_set(copy, *names, json_object_get(object, *names));
    (void)!json_object_update_missing(copy, (json_t *)object);
    return copy;
}

/* The answer is in the first columns, the options in the last. */
int bb_plan_write_csv(const struct bb_plan_report *report, FILE *out)
{
    static const char *const answer[] = {"proxy", "ranks", "status", "predicted", "memory", NULL},
                             *const parts[] = {"step_us",
                                               "tokens_per_s",
                                               "tflops_per_gpu",
                                               "model_flop_utilisation",
                                               "memory",
                                               "breakdown",
                                               NULL};
    json_t *root = make_plan(report), *row = put_first(root, answer), *rows;

    if (json_object_get(root, "predicted"))
        json_object_set_new(row, "predicted", put_first(json_object_get(root, "predicted"), parts));
    json_object_del(row, "options");
    rows = json_pack("[o]", row);
    bb_flat_table_write(rows, root, out);
    json_decref(root);
    json_decref(rows);
    return 0;
}

/* Ignores write errors: the caller reports them when it closes the file or stdout. */
int bb_plan_write_json(const struct bb_plan_report *report, FILE *out)
{
    json_t *root = make_plan(report);

    if (json_dumpf(root, out, JSON_INDENT(1)) == 0)
        fputc('\n', out);
    json_decref(root);
    return 0;
}
