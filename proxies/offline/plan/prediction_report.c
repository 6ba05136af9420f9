/* prediction_report.c - prints and writes the prediction of a plan; see prediction_report.h. */
#include "proxies/offline/plan/prediction_report.h"

#include "bootstrap/results/results.h"
#include "bootstrap/results/table.h"
#include "proxies/offline/plan/contention.h"
#include "proxies/offline/plan/forecast.h"

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
    {"exposed_waiting_us", RANK_NS(exposed.waiting_ns)},
    {"idle_us", "idle", NULL, 11, 0, RANK_NS(all.idle_ns)},
    {"overlap_fraction", "hidden", "", 6, 1, RANK(all.overlap_fraction), .none = "", .form = BB_FORM_PERCENT},
    {0},
};

struct group_row {
    const char *name, *algorithm, *protocol;
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
                              .algorithm = v ? bb_nccl_algorithms[v->algorithm] : NULL,
                              .protocol = v ? v->protocol : NULL,
                              .rank = r->rank,
                              .busbw_gbps = of->bus_bytes / (double)of->busy_ns,
                              .of = *of};
}

/* Rates of the step; NaN: unknown. */
struct rates {
    double step_us, samples_per_s, tokens_per_s, tflops_per_gpu, model_flop_utilisation;
};

static struct rates rates_of(const struct bb_plan *plan, const struct bb_prediction *p)
{
    const double us = bb_us_of(p->classes[p->slowest].all.step_ns), flops = bb_step_flops(plan->step);
    const bool tokens = plan->step->tokens > 0;

    return (struct rates){.step_us = us,
                          .samples_per_s = tokens ? plan->step->samples / us * 1e6 : NAN,
                          .tokens_per_s = tokens ? plan->step->tokens / us * 1e6 : NAN,
                          .tflops_per_gpu = flops > 0 ? flops / us / 1e6 / plan->step->layout.ranks : NAN,
                          .model_flop_utilisation = bb_plan_utilisation(plan, p)};
}

static json_t *efficiency_json(const void *prediction)
{
    return bb_json_real(bb_predicted_efficiency(prediction));
}

static json_t *efficiency_text(const void *prediction)
{
    return bb_overlap_efficiency_text(bb_predicted_efficiency(prediction));
}

#define RATE(name) BB_SHOWS(struct rates, name)
static const struct bb_field step_fields[] = {
    BB_NAMED(struct rates, step_us),
    {NULL, "  ", " samples", 0, 1, RATE(samples_per_s)},
    {"tokens_per_s", ", ", " tokens per second", 0, 0, RATE(tokens_per_s)},
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
    {"tflops_per_gpu", "; ", " TFLOP/s per GPU", 0, 1, RATE(tflops_per_gpu)},
    {0},
};
static const struct bb_field utilisation_fields[] = {
    {"model_flop_utilisation", "  model FLOP utilization (MFU) ", " of the profile's peak\n", 0, 1,
     RATE(model_flop_utilisation), .form = BB_FORM_PERCENT},
    {0},
};

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

    line->start = "  ";
    bb_line_heading(line, group_fields, false);
    fputs(p->cluster.n_variants > 0 ? "  largest collective" : "", line->out);
    bb_line_end(line);
    for (int g = 0; g < plan->step->layout.n_groups; g++) {
        const struct group_row row = group_of(plan, p, slowest, g);

        if (row.of.bytes == 0)
            continue;
        bb_line_row(line, group_fields, &row);
        if (row.algorithm)
            fprintf(line->out, "  %s %s", row.algorithm, row.protocol);
        bb_line_end(line);
    }
}

static void print_alone(const struct bb_prediction *p, const struct bb_predicted_rank *slowest, bool lock_step,
                        FILE *out)
{
    const struct bb_exposure *e = &slowest->exposed;
    char texts[2][BB_TIME_TEXT];

    fprintf(out, "  exposed on rank %d: ", slowest->rank);
    if (!lock_step)
        fprintf(out, "%s pipeline bubble, ", bb_format_time(bb_us_of(e->bubble_ns), texts[0]));
    fprintf(out, "%s transfer, %s waiting for late peers\n", bb_format_time(bb_us_of(e->transfer_ns), texts[0]),
            bb_format_time(bb_us_of(e->waiting_ns), texts[1]));
    bb_table_sentence(out, alone_fields, p);
    fputc('\n', out);
}

/* Prints a warning if the host needs more than 90 % of the step time to launch all kernels and NCCL calls. */
static void print_host(const struct bb_predicted_rank *slowest, const struct bb_cluster *c, FILE *out)
{
    char text[BB_TIME_TEXT];

    if (c->eager && (double)slowest->issue_ns > 0.9 * (double)slowest->all.step_ns)
        fprintf(out,
                "  host-bound: the host needs %s to launch the kernels; try: a larger --micro-batch-size, or --graph\n",
                bb_format_time(bb_us_of(slowest->issue_ns), text));
}

void bb_prediction_print(const struct bb_plan *plan, const struct bb_prediction *p, FILE *out)
{
    const struct bb_predicted_rank *slowest = &p->classes[p->slowest];
    const struct rates rates = rates_of(plan, p);
    const struct bb_time_unit unit = bb_time_unit(rates.step_us);
    struct bb_line line = {.out = out, .gap = " ", .time = &unit};
    char text[BB_TIME_TEXT];

    fprintf(out, "\npredicted for %s (modelled, not measured): step %s; slowest rank of each role\n", p->cluster.name,
            bb_format_time(rates.step_us, text));
    bb_slow_print(&p->conditions.slow, "  ", out);
    print_ranks(plan, p, &line);
    print_groups(plan, p, &line);
    bb_wait_table_print(&plan->waiting, rates.step_us, "  ", out);
    bb_contention_print(p, out);
    print_host(slowest, &p->cluster, out);
    if (plan->step->tokens > 0) {
        bb_table_sentence(out, step_fields, &rates);
        bb_table_sentence(out, flops_fields, &rates);
        fputc('\n', out);
    }
    bb_table_sentence(out, utilisation_fields, &rates);
    if (p->compute_alone_ns >= 0)
        print_alone(p, slowest, plan->step->lock_step, out);
}

/* ---- JSON ---- */

static json_t *breakdown_json(const struct bb_plan *plan, const struct bb_predicted_rank *r)
{
    struct bb_predicted_rank shown = *r;

    if (plan->step->lock_step) /* the step has no dependent stages, so its pipeline bubble is null */
        shown.exposed.bubble_ns = -1;
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
    const struct rates rates = rates_of(plan, p);
    json_t *o = json_pack("{s:s, s:o, s:o, s:o}", "cluster", p->cluster.name, "slow", bb_slow_json(&p->conditions.slow),
                          "sharing", bb_contention_json(p), "phases", bb_phases_json(p));

    bb_table_json(o, step_fields, &rates);
    json_object_set_new(o, "breakdown", breakdown_json(plan, slowest));
    json_object_set_new(o, "breakdown_by_role", roles_json(plan, p));
    json_object_set_new(o, "groups", groups_json(plan, p, slowest));
    json_object_set_new(o, "waiting", bb_wait_table_json(&plan->waiting));
    bb_table_json(o, alone_fields, p);
    bb_table_json(o, flops_fields, &rates);
    bb_table_json(o, utilisation_fields, &rates);
    json_object_set_new(o, "memory", bb_forecast_memory(plan, plan->forecast));
    json_object_set_new(o, "compute", bb_forecast_compute(plan->forecast, &p->cluster));
    json_object_set_new(o, "model_error", bb_forecast_model_error(plan->forecast, &p->cluster));
    return o;
}
