/* prediction_report.c - prints and writes the prediction of a plan; see prediction_report.h. */
#include "proxies/offline/plan/prediction_report.h"

#include "bootstrap/results/results.h"
#include "bootstrap/results/table.h"
#include "proxies/offline/plan/contention.h"
#include "proxies/offline/plan/forecast.h"
#include "proxies/simulation/timeline/waiting.h"

#include <math.h>

/* ---- the fields of a rank, of a group and of the whole step ---- */

#define RANK(name)    BB_SHOWS(struct bb_predicted_rank, name)
#define RANK_NS(name) BB_SHOWS_NS(struct bb_predicted_rank, name)
static const struct bb_field rank_fields[] = {
    {"rank", "rank", "", 6, 0, RANK(rank)},
    {"step_us", "step", NULL, 11, 0, RANK_NS(all.step_ns)},
    {"issue_us", RANK_NS(issue_ns)},
    {"compute_us", "compute", NULL, 11, 0, RANK_NS(all.compute_ns)},
    {"comm_us", "comm", NULL, 11, 0, RANK_NS(all.comm_ns)},
    {"exposed_us", "exposed", NULL, 11, 0, RANK_NS(all.exposed_ns)},
    {"exposed_transfer_us", RANK_NS(exposed.transfer_ns)},
    {"bubble_us", RANK_NS(exposed.bubble_ns)},
    {"imbalance_us", RANK_NS(imbalance_ns)},
    {"exposed_waiting_us", RANK_NS(exposed.waiting_ns)},
    {"idle_us", "idle", NULL, 11, 0, RANK_NS(all.idle_ns)},
    {"overlap_fraction", "hidden", "", 6, 1, RANK(all.overlap_fraction), .none = "", .form = BB_FORM_PERCENT},
    {0},
};

struct group_row {
    const char *name, *collective, *algorithm, *protocol;
    int rank;
    double busbw_gbps;
    struct bb_predicted_group of;
};

#define GROUP(name) BB_SHOWS(struct group_row, name)
static const struct bb_field group_fields[] = {
    {"name", "group", "", 18, 0, GROUP(name), .form = BB_FORM_LEFT},
    {NULL, "rank", "", 6, 0, GROUP(rank)},
    {"busy_us", "busy", NULL, 11, 0, BB_SHOWS_NS(struct group_row, of.busy_ns)},
    {"exposed_us", "exposed", NULL, 11, 0, BB_SHOWS_NS(struct group_row, of.exposed_ns)},
    {"bytes", "payload", "", 11, 0, BB_SHOWS_WHOLE(struct group_row, of.bytes), .form = BB_FORM_BYTES},
    {"busbw_gbps", "busbw GB/s", "", 11, 2, GROUP(busbw_gbps)},
    {"collective", GROUP(collective)},
    {"algorithm", GROUP(algorithm)},
    {"protocol", GROUP(protocol)},
    {0},
};

static struct group_row group_of(const struct bb_plan *plan, const struct bb_prediction *p,
                                 const struct bb_predicted_rank *r, int g)
{
    const struct bb_predicted_group *of = &r->groups[g];
    const struct bb_nccl_variant *v = of->variant == BB_NONE ? NULL : &p->cluster.variants[of->variant];

    return (struct group_row){.name = plan->step->layout.groups[g].name,
                              .collective = of->coll == BB_NONE ? NULL : bb_colls[of->coll].name,
                              .algorithm = v ? bb_nccl_algorithms[v->algorithm] : NULL,
                              .protocol = v ? v->protocol : NULL,
                              .rank = r->rank,
                              .busbw_gbps = of->bus_bytes / (double)of->busy_ns,
                              .of = *of};
}

struct bb_plan_rates bb_plan_rates(const struct bb_plan *plan, const struct bb_prediction *p)
{
    const double us = bb_us_of(p->step_ns), flops = bb_step_flops(plan->step);
    const double utilisation = bb_predicted_utilisation(plan->step, p);
    const double tokens = plan->step->tokens, samples = plan->step->samples;

    return (struct bb_plan_rates){.step_us = us,
                                  .samples_per_s = samples > 0 ? samples / us * 1e6 : NAN,
                                  .tokens_per_s = tokens > 0 ? tokens / us * 1e6 : NAN,
                                  .tflops_per_gpu = flops > 0 ? flops / us / 1e6 / plan->step->layout.ranks : NAN,
                                  .model_flop_utilisation = utilisation,
                                  .model_flop_utilisation_causal = utilisation * bb_step_causal_share(plan->step),
                                  .flops_note = bb_step_flops_note(plan->step)};
}

static json_t *efficiency_json(const void *prediction)
{
    return bb_json_real(bb_predicted_efficiency(prediction));
}

static json_t *efficiency_text(const void *prediction)
{
    const struct bb_prediction *p = prediction;

    if (p->compute_alone_ns < 0)
        return json_null();
    return bb_overlap_efficiency_text(bb_predicted_efficiency(p), (double)p->classes[p->slowest].exposed.bubble_ns);
}

#define RATE(name) BB_SHOWS(struct bb_plan_rates, name)
static const struct bb_field step_fields[] = {
    BB_NAMED(struct bb_plan_rates, step_us),
    {"tokens_per_s", RATE(tokens_per_s)},
    {0},
};
static const struct bb_field alone_fields[] = {
    {"compute_alone_us", "  compute alone ", "", 0, 0, BB_SHOWS_NS(struct bb_prediction, compute_alone_ns)},
    {"comm_alone_us", ", communication alone ", "", 0, 0, BB_SHOWS_NS(struct bb_prediction, comm_alone_ns)},
    {"overlap_efficiency", .value = efficiency_json},
    {NULL, ", overlap efficiency ", "", 0, 0, .value = efficiency_text},
    {0},
};
static const struct bb_field flops_fields[] = {
    {"tflops_per_gpu", RATE(tflops_per_gpu)},
    BB_NAMED(struct bb_plan_rates, model_flop_utilisation),
    BB_NAMED(struct bb_plan_rates, model_flop_utilisation_causal),
    BB_NAMED(struct bb_plan_rates, flops_note),
    {0},
};

static double waiting_us(const void *prediction, int rank, int group)
{
    const struct bb_prediction *p = prediction;

    return bb_us_of(p->classes[p->class_of[rank]].groups[group].waiting_ns);
}

/* Returns the waiting times of all roles; released by the caller. */
static struct bb_wait_table find_waiting(const struct bb_plan *plan, const struct bb_prediction *p)
{
    struct bb_wait_table w = {0};

    for (int i = 0; i < plan->traffic.n; i++) {
        const struct bb_traffic_role *role = &plan->traffic.roles[i];

        bb_wait_table_add(
            &w, &(struct bb_wait_role){&plan->step->layout, role->program, role->name, role->ranks, role->n_ranks},
            waiting_us, p);
    }
    return w;
}

/* ---- text ---- */

static void print_ranks(const struct bb_plan *plan, const struct bb_prediction *p, struct bb_line *line)
{
    line->start = " ";
    fprintf(line->out, "  %-18s", "role");
    bb_line_heading(line, rank_fields, false);
    bb_line_end(line);
    for (int i = 0; i < plan->traffic.n; i++) {
        const struct bb_traffic_role *role = &plan->traffic.roles[i];

        fprintf(line->out, "  %-18s", role->name);
        bb_line_row(line, rank_fields, bb_predicted_slowest(p, role->ranks, role->n_ranks));
        bb_line_end(line);
    }
}

static void print_groups(const struct bb_plan *plan, const struct bb_prediction *p, struct bb_line *line)
{
    const struct bb_predicted_rank *slowest = &p->classes[p->slowest];
    int64_t exposed_ns = 0;

    line->start = "  ";
    bb_line_heading(line, group_fields, false);
    fputs(p->cluster.n_variants > 0 ? "  most time in" : "", line->out);
    bb_line_end(line);
    for (int g = 0; g < plan->step->layout.n_groups; g++) {
        const struct group_row row = group_of(plan, p, slowest, g);

        if (row.of.bytes == 0)
            continue;
        exposed_ns += row.of.exposed_ns;
        bb_line_row(line, group_fields, &row);
        if (row.algorithm)
            fprintf(line->out, "  %s: %s %s", row.collective, row.algorithm, row.protocol);
        bb_line_end(line);
    }
    if (exposed_ns > slowest->all.exposed_ns)
        fputs("  the groups' exposed times have a larger sum than the rank's, because groups transfer or wait at the "
              "same time\n",
              line->out);
}

void bb_prediction_print(const struct bb_plan *plan, const struct bb_prediction *p, FILE *out)
{
    const double step_us = bb_us_of(p->step_ns);
    const struct bb_time_unit unit = bb_rounded_time_unit(step_us);
    struct bb_wait_table waiting = find_waiting(plan, p);
    struct bb_line line = {.out = out, .gap = " ", .time = &unit};

    fprintf(out, "\npredicted for %s: slowest rank of each role\n", p->cluster.name);
    print_ranks(plan, p, &line);
    print_groups(plan, p, &line);
    bb_wait_table_print(&waiting, step_us, &unit, "  ", out);
    bb_wait_table_release(&waiting);
    bb_contention_print(p, out);
    if (p->compute_alone_ns >= 0) {
        bb_line_sentence(&line, alone_fields, p);
        fputc('\n', out);
    }
}

/* ---- JSON ---- */

static json_t *breakdown_json(const struct bb_plan *plan, const struct bb_predicted_rank *r)
{
    struct bb_predicted_rank shown = *r;

    if (plan->step->lock_step) /* the step has no dependent stages, so its pipeline bubble is null */
        shown.exposed.bubble_ns = shown.imbalance_ns = -1;
    return bb_table_object(rank_fields, &shown);
}

static json_t *groups_json(const struct bb_plan *plan, const struct bb_prediction *p, const struct bb_predicted_rank *r)
{
    json_t *list = json_array();

    for (int g = 0; g < plan->step->layout.n_groups; g++) {
        const struct group_row row = group_of(plan, p, r, g);

        if (row.of.bytes != 0)
            json_array_append_new(list, bb_table_object(group_fields, &row));
    }
    return list;
}

static json_t *roles_json(const struct bb_plan *plan, const struct bb_prediction *p)
{
    json_t *roles = json_array();

    for (int i = 0; i < plan->traffic.n; i++) {
        const struct bb_traffic_role *role = &plan->traffic.roles[i];
        const struct bb_predicted_rank *rank = bb_predicted_slowest(p, role->ranks, role->n_ranks);
        json_t *o = breakdown_json(plan, rank);

        json_object_set_new(o, "role", json_string(role->name));
        json_object_set_new(o, "groups", groups_json(plan, p, rank));
        json_array_append_new(roles, o);
    }
    return roles;
}

json_t *bb_prediction_json(const struct bb_plan *plan, const struct bb_prediction *p)
{
    const struct bb_predicted_rank *slowest = &p->classes[p->slowest];
    const struct bb_plan_rates rates = bb_plan_rates(plan, p);
    struct bb_wait_table waiting = find_waiting(plan, p);
    json_t *o = json_pack("{s:s, s:o, s:o, s:o}", "cluster", p->cluster.name, "slow", bb_slow_json(&p->conditions.slow),
                          "sharing", bb_contention_json(p), "phases", bb_phases_json(p));

    bb_table_json(o, step_fields, &rates);
    json_object_set_new(o, "breakdown", breakdown_json(plan, slowest));
    json_object_set_new(o, "breakdown_by_role", roles_json(plan, p));
    json_object_set_new(o, "groups", groups_json(plan, p, slowest));
    json_object_set_new(o, "slow_cost_us",
                        p->conditions.slow.n > 0 ? json_real(bb_us_of(p->slow_cost_ns)) : json_null());
    json_object_set_new(o, "graph_step_us", p->graph_ns >= 0 ? json_real(bb_us_of(p->graph_ns)) : json_null());
    json_object_set_new(o, "graph_faster_kernels_us",
                        p->graph_ns >= 0 ? json_real(bb_us_of(p->expert_ns)) : json_null());
    bb_wait_table_json(&waiting, o);
    bb_wait_table_release(&waiting);
    bb_table_json(o, alone_fields, p);
    bb_table_json(o, flops_fields, &rates);
    json_object_set_new(o, "memory", bb_forecast_memory(plan, plan->forecast));
    json_object_set_new(o, "compute", bb_forecast_compute(plan->forecast, &p->cluster));
    json_object_set_new(o, "model_error", bb_forecast_model_error(plan->forecast, &p->cluster));
    return o;
}
