/* plan_answer.c - prints the answer of a plan: one labelled line per question, the most important first. */
#include "proxies/offline/plan/plan_answer.h"

#include "bootstrap/base/alloc.h"
#include "proxies/offline/bench_plan/published.h"
#include "proxies/offline/plan/contention.h"
#include "proxies/offline/plan/forecast.h"
#include "proxies/offline/plan/prediction_report.h"
#include "proxies/simulation/machine/software.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEXT BB_LAUNCH_TEXT

/* The values of the answer. `slowest` and the values after it are of the prediction, and zero without one. */
struct answer {
    char misfit[BB_MISFIT_TEXT], memory[BB_MISFIT_TEXT], guessed[2 * TEXT], bottleneck[TEXT], training[TEXT],
        jitter[TEXT], checks[TEXT], batch[TEXT], dispatch[TEXT], recipes[TEXT];
    char rates[2 * TEXT], accuracy[2 * TEXT], host[TEXT], experts[TEXT], longest[TEXT], limit[2 * TEXT], failures[TEXT],
        lost[TEXT];
    const char *condition;
    struct bb_predicted_rank slowest; /* times that are not printed are negative */
    const char *role, *ends, *group, *equal;
    int64_t group_ns, host_ns, rest_ns; /* rest: from the end of this rank until the last one ends */
    int last;                           /* the rank that ends last; negative: the one of the step line */
    double peak;                        /* TFLOP/s of the MFU; NaN: not printed */
    const char *peak_type;
    struct bb_plan_rates of;
};

#define SHOWS(name) BB_SHOWS(struct answer, name)
#define NS(name)    BB_SHOWS_NS(struct answer, name)
static const struct bb_field step_line[] = {
    {NULL, "", "", 0, 0, NS(slowest.all.step_ns)},
    {NULL, " ", "", 0, 0, SHOWS(condition)},
    {NULL, " = compute ", "", 0, 0, NS(slowest.all.compute_ns)},
    {NULL, " (", " of it waits for launches by the host)", 0, 0, NS(host_ns)},
    {NULL, " + exposed ", "", 0, 0, NS(slowest.all.exposed_ns)},
    {NULL, " + idle ", "", 0, 0, NS(slowest.all.idle_ns)},
    {NULL, " + ", "", 0, 0, NS(rest_ns)},
    {NULL, " by which rank ", " ends later", 0, 0, SHOWS(last)},
    {NULL, "; ", "", 0, 0, SHOWS(equal)},
    {NULL, "; rank ", "", 0, 0, SHOWS(slowest.rank)},
    {NULL, " (", ")", 0, 0, SHOWS(role)},
    {NULL, " ", "", 0, 0, SHOWS(ends)},
    {0},
};
static const struct bb_field throughput_line[] = {
    {NULL, "", " samples per second", 0, 0, SHOWS(of.samples_per_s), .form = BB_FORM_ROUNDED},
    {NULL, ", ", " tokens per second", 0, 0, SHOWS(of.tokens_per_s), .form = BB_FORM_ROUNDED},
    {NULL, ", ", " TFLOP/s per GPU", 0, 0, SHOWS(of.tflops_per_gpu), .form = BB_FORM_ROUNDED},
    {0},
};
static const struct bb_field utilisation_line[] = {
    {NULL, "", "", 0, 1, SHOWS(of.model_flop_utilisation), .form = BB_FORM_PERCENT},
    {NULL, " with attention in full (Megatron-LM paper), ", " with causal attention (newer Megatron-LM)", 0, 1,
     SHOWS(of.model_flop_utilisation_causal), .form = BB_FORM_PERCENT},
    {NULL, "; of ", " TFLOP/s", 0, 5, SHOWS(peak), .form = BB_FORM_GENERAL},
    {NULL, " (", ")", 0, 0, SHOWS(peak_type)},
    {0},
};
static const struct bb_field flops_line[] = {{NULL, "", "", 0, 0, SHOWS(of.flops_note)}, {0}};
static const struct bb_field exposed_line[] = {
    {NULL, "", " transfer", 0, 0, NS(slowest.exposed.transfer_ns)},
    {NULL, " + ", " pipeline bubble", 0, 0, NS(slowest.exposed.bubble_ns)},
    {NULL, " (", " of it from unequal stages)", 0, 0, NS(slowest.imbalance_ns)},
    {NULL, " + ", " waiting for other peers", 0, 0, NS(slowest.exposed.waiting_ns)},
    {0},
};
static const struct bb_field hidden_line[] = {
    {NULL, "", " of ", 0, 1, SHOWS(slowest.all.overlap_fraction), .form = BB_FORM_PERCENT},
    {NULL, "", " communication", 0, 0, NS(slowest.all.comm_ns)},
    {NULL, "; most exposed transfer in group ", "", 0, 0, SHOWS(group)},
    {NULL, ": ", "", 0, 0, NS(group_ns)},
    {0},
};

#define LINE(name) NULL, offsetof(struct answer, name)
/* The lines: fields, or one text. A line whose values are all null is omitted. */
static const struct {
    const char *label;
    const struct bb_field *fields;
    size_t text;
} lines[] = {
    {"DOES NOT FIT", LINE(misfit)},
    {"step", step_line, 0},
    {"compute", LINE(limit)},
    {"most compute", LINE(longest)},
    {"throughput", throughput_line, 0},
    {"MFU", utilisation_line, 0},
    {"model FLOPs", flops_line, 0},
    {"memory", LINE(memory)},
    {"added", LINE(guessed)},
    {"exposed", exposed_line, 0},
    {"batch", LINE(batch)},
    {"hidden", hidden_line, 0},
    {"dispatch", LINE(dispatch)},
    {"recipes", LINE(recipes)},
    {"bottleneck", LINE(bottleneck)},
    {"host-bound", LINE(host)},
    {"slow kernels", LINE(experts)},
    {"jitter", LINE(jitter)},
    {"training", LINE(training)},
    {"failures", LINE(failures)},
    {"lost time", LINE(lost)},
    {"rates", LINE(rates)},
    {"accuracy", LINE(accuracy)},
    {"checks", LINE(checks)},
};

/* ---- values ---- */

static void write_checks(const struct bb_plan *plan, char text[TEXT])
{
    const struct bb_checks *c = &plan->checks;
    const int ranks = plan->step->layout.ranks;
    char number[BB_THOUSANDS_TEXT];

    snprintf(text, TEXT, "%s operations on %d rank%s: %s, %s%s",
             bb_format_thousands(bb_step_operations(plan->step), number), ranks, bb_plural(ranks),
             c->matched ? "all operations match" : "OPERATIONS DO NOT MATCH",
             c->deadlock_free ? "no deadlock" : "DEADLOCK",
             c->deadlock_free && !c->safe_serialised ? " with concurrent streams, as in busbar proxy" : "");
}

/* Returns whether the uplinks of a tier limit exposed communication of more than 0.1 % of the step. */
static bool uplinks_limit(const struct bb_prediction *p, int tier)
{
    int64_t ns = 0;

    for (int phase = 0; phase < BB_PHASES; phase++)
        ns += p->bottleneck.ns[phase][tier == BB_LEAF ? BB_LIMIT_LEAF : BB_LIMIT_POD];
    return ns > p->step_ns / 1000;
}

/* Lists what limits each training phase of more than 0.1 % of the step for most of its time: "forward: compute, ...", and
 * whether oversubscribed uplinks do. */
static void write_bottleneck(const struct bb_prediction *p, char text[TEXT])
{
    char placement[BB_PLACEMENT_TEXT];
    size_t length = 0;

    for (int phase = 0; p->cluster.has_sharing && phase < BB_PHASES; phase++) {
        enum bb_limit most = bb_bottleneck_of(&p->bottleneck, (enum bb_phase)phase);
        const char *waits = most == BB_LIMIT_WAITING ? " for other ranks" : "";
        const char *name = most != BB_LIMIT_LINK              ? bb_limit_names[most]
                           : bb_cluster_has_pcie(&p->cluster) ? "PCIe"
                                                              : "NVLink";

        if (p->bottleneck.ns[phase][most] > p->step_ns / 1000 && length < TEXT)
            length += (size_t)snprintf(text + length, TEXT - length, "%s%s: %s%s", length ? ", " : "",
                                       bb_phase_names[phase], name, waits);
    }
    for (int tier = 0; tier < BB_TIERS && length > 0; tier++)
        if (bb_fabric_is_oversubscribed(&p->cluster, (enum bb_tier)tier) && length < TEXT)
            length += (size_t)snprintf(text + length, TEXT - length, "; %s uplinks are busy %.1f%% of the step%s",
                                       tier == BB_LEAF ? "leaf" : "pod", 100 * p->uplink_busy[tier],
                                       uplinks_limit(p, tier) ? "" : ": no bottleneck");
    if (length > 0 && length < TEXT && *bb_fabric_placement_text(&p->cluster, placement))
        snprintf(text + length, TEXT - length, "; %s", placement);
}

#define NOTICEABLE 0.05 /* part of the step */

/* How much shorter the step is with CUDA graphs: "with --graph a step takes 2.82 s (38.1% less); try: --graph". larger: a
 * larger batch is possible, too. */
static void write_graph(const struct bb_prediction *p, const struct bb_forecast *f, bool larger, char *text,
                        size_t size)
{
    const bool modules = f->graphs_modules;
    char time[BB_ROUNDED_TEXT];

    if (!bb_forecast_captures(f, &p->cluster)) {
        snprintf(text, size, "--graph cannot capture experts without --capacity-factor%s",
                 larger ? "; try: a larger --micro-batch-size" : "");
        return;
    }
    snprintf(text, size, "with --graph%s a step takes %s (%.1f%% %s%s)%s%s%s%s",
             modules ? " in place of --cuda-graph-modules" : "", bb_format_rounded_time(bb_us_of(p->graph_ns), time),
             100 * fabs(1 - (double)p->graph_ns / (double)p->step_ns), p->graph_ns <= p->step_ns ? "less" : "more",
             f->is_dropless ? ", Megatron-LM: with moe_paged_stash" : "",
             modules && !larger ? "" : "; try: ", larger ? "a larger --micro-batch-size" : "",
             larger && !modules ? ", or " : "", modules ? "" : "--graph");
}

static double saved_by_graphs(const struct bb_prediction *p)
{
    return p->graph_ns >= 0 ? 1 - (double)p->graph_ns / (double)p->step_ns : 0;
}

static bool waits_for_launches(const struct bb_prediction *p)
{
    return p->cluster.eager && (double)p->launch_wait_ns > NOTICEABLE * (double)p->step_ns;
}

void bb_plan_host_text(const struct bb_prediction *p, const struct bb_forecast *f, bool larger,
                       char host[BB_LAUNCH_TEXT], char experts[BB_LAUNCH_TEXT])
{
    const double saved = saved_by_graphs(p), slower = (double)p->expert_ns / (double)p->step_ns;
    char time[BB_ROUNDED_TEXT], graph[200];

    host[0] = experts[0] = '\0';
    write_graph(p, f, larger, graph, sizeof(graph));
    if (waits_for_launches(p))
        snprintf(host, BB_LAUNCH_TEXT, "kernels wait %s (%.1f%% of the step) for the host to launch them; %s",
                 bb_format_rounded_time(bb_us_of(p->launch_wait_ns), time),
                 100 * (double)p->launch_wait_ns / (double)p->step_ns, graph);
    else if (saved >= NOTICEABLE && saved - slower >= saved / 2)
        snprintf(host, BB_LAUNCH_TEXT, "launches by the host delay kernels and communication; %s", graph);
    if (saved < NOTICEABLE || slower < NOTICEABLE)
        return;
    write_graph(p, f, false, graph, sizeof(graph));
    snprintf(experts, BB_LAUNCH_TEXT,
             "memory-bound kernels of experts take %s (%.1f%% of the step) longer than with CUDA graphs and fused "
             "kernels%s%s",
             bb_format_rounded_time(bb_us_of(p->expert_ns), time), 100 * slower, host[0] ? "" : "; ",
             host[0] ? "" : graph);
}

static void write_host(const struct bb_plan *plan, const struct bb_prediction *p, struct answer *a)
{
    const struct bb_forecast none = {0}, *f = plan->forecast ? plan->forecast : &none;

    a->host_ns = waits_for_launches(p) ? p->launch_wait_ns : -1;
    bb_plan_host_text(p, f, f->accepts_larger_batch && !bb_forecast_is_tight(plan, f), a->host, a->experts);
}

static const char *role_of(const struct bb_plan *plan, int rank)
{
    return plan->step->roles[plan->step->role_of[rank]].name;
}

/* Names the rank that computes longest if its kernels take over 10 % longer than those of the rank of the step line: the
 * other ranks wait for it, although they may end later. With slow parts, names it also if it takes little longer: it may hide what they cost. */
static void write_longest(const struct bb_plan *plan, const struct bb_prediction *p, char text[TEXT])
{
    const struct bb_predicted_rank *shown = &p->classes[p->slowest], *longest = &p->classes[p->longest];
    const double times = p->conditions.slow.n > 0 ? 1.005 : 1.1;
    char time[BB_ROUNDED_TEXT];

    if ((double)longest->all.compute_ns > times * (double)shown->all.compute_ns && shown->all.compute_ns > 0)
        snprintf(text, TEXT, "rank %d (%s) computes %s, %.2f x the time of rank %d", longest->rank,
                 role_of(plan, longest->rank), bb_format_rounded_time(bb_us_of(longest->all.compute_ns), time),
                 (double)longest->all.compute_ns / (double)shown->all.compute_ns, shown->rank);
}

/* part of the step from which a bubble is named if the number of samples is the default */
#define LARGE_BUBBLE 0.1

/* A pipeline bubble that is large without its part from unequal stages, and what reduces it. */
static void write_batch(const struct bb_plan *plan, const struct bb_predicted_rank *slowest, char text[TEXT])
{
    const int64_t idle_ns = slowest->exposed.bubble_ns - (slowest->imbalance_ns > 0 ? slowest->imbalance_ns : 0);
    const double share = (double)idle_ns / (double)slowest->all.step_ns,
                 shown = 100 * (double)slowest->exposed.bubble_ns / (double)slowest->all.step_ns;
    char chunks[40] = "", stages[40] = "";

    if (plan->forecast && plan->forecast->default_batch && share > LARGE_BUBBLE)
        snprintf(text, TEXT,
                 "%.0f samples per step by default: the pipeline bubble takes %.0f%% of the step; set "
                 "--global-batch-size",
                 plan->step->samples, shown);
    else if (plan->forecast && share > BB_HUGE_BUBBLE) {
        if (plan->forecast->chunks)
            snprintf(chunks, sizeof(chunks), "chunks (--vpp %d)%s", plan->forecast->chunks,
                     plan->forecast->stages_option ? ", " : " or ");
        if (plan->forecast->stages_option)
            snprintf(stages, sizeof(stages), "fewer stages (--%s) or ", plan->forecast->stages_option);
        snprintf(text, TEXT, "the pipeline bubble takes %.0f%% of the step; shorter with %s%smore micro-batches (--%s)",
                 shown, chunks, stages, plan->forecast->batches_option);
    }
}

/* A calibrated profile: appends which part of the collectives has ranks or sizes that the calibration did not measure. */
static void add_extrapolated(const struct bb_plan *plan, const struct bb_prediction *p, char *text, size_t size)
{
    const struct bb_cluster *c = &p->cluster;
    const struct bb_traffic_row *most = NULL;
    double all = 0, other = 0;
    char bytes[BB_BYTES_TEXT];
    size_t length = strlen(text);

    for (int r = 0; c->is_calibrated && r < plan->traffic.n; r++) {
        const struct bb_traffic_role *role = &plan->traffic.roles[r];
        const struct bb_predicted_group *groups = p->classes[p->class_of[role->ranks[0]]].groups;

        for (const struct bb_traffic_row *row = role->rows; row < role->rows + role->n_rows; row++) {
            const double call = (double)row->bytes / (double)row->calls, total = (double)row->bytes * role->n_ranks;
            int found;

            if (row->kind != BB_OP_COLLECTIVE || row->group_size < 2)
                continue;
            found = bb_cluster_find_curve(c, row->coll, row->group_size, groups[row->group].nodes);
            all += total;
            if (found < c->n_measured && call >= c->measured[found].min_bytes && call <= c->measured[found].max_bytes)
                continue;
            other += total;
            most = !most || row->bytes > most->bytes ? row : most;
        }
    }
    if (other >= 0.005 * all && most)
        snprintf(text + length, size - length,
                 "; extrapolated: %.0f%% of the bytes are in collectives on numbers of ranks or of sizes that the "
                 "calibration did not measure, for example %s of %s on %d ranks",
                 100 * other / all, bb_colls[most->coll].name, bb_format_bytes(most->bytes / most->calls, bytes),
                 most->group_size);
}

/* Appends that no timing of collectives between nodes is published for the transport of these nodes. */
static void add_transport(const struct bb_plan *plan, const struct bb_cluster *c, char *text, size_t size)
{
    const size_t length = strlen(text);
    char gpus[BB_GPUS_TEXT];

    if (plan->step->layout.ranks > c->gpus_per_node && *c->transport && !c->is_calibrated &&
        !bb_published_has_transport(c))
        snprintf(text + length, size - length,
                 "; collectives between nodes: no published timing of %s GPUs with transport %s",
                 bb_cluster_gpus_text(c, gpus), c->transport);
}

/* The rank of the step line may end before the last one (bb_limiting_rank). */
static void add_last(struct answer *a, const struct bb_prediction *p)
{
    struct bb_predicted_rank *shown = &a->slowest;
    const struct bb_time_unit unit = bb_rounded_time_unit(bb_us_of(p->step_ns));
    const int64_t rest_ns = p->step_ns - shown->all.step_ns;

    a->rest_ns = a->last = -1;
    a->ends = p->n_classes == 1                  ? NULL
              : shown->all.step_ns == p->step_ns ? "ends last"
                                                 : "has this compute and exposed time: of the ranks that end within 1% "
                                                   "of the last, it computes and transfers longest";
    for (int i = 0; i < p->n_classes && bb_us_of(rest_ns) >= 0.0005 * unit.us && a->last < 0;
         i++) /* not printed as 0 */
        if (p->classes[i].all.step_ns == p->step_ns) {
            a->last = p->classes[i].rank;
            a->rest_ns = rest_ns;
        }
    shown->all.step_ns = p->step_ns;
}

int bb_plan_most_exposed_group(const struct bb_prediction *p, const struct bb_layout *l)
{
    const struct bb_predicted_group *groups = p->classes[p->slowest].groups;
    int most = BB_NONE;

    for (int g = 0; g < l->n_groups; g++)
        if (groups[g].exposed_transfer_ns > (most == BB_NONE ? 0 : groups[most].exposed_transfer_ns))
            most = g;
    return most;
}

static void add_prediction(struct answer *a, const struct bb_plan *plan, const struct bb_prediction *p)
{
    struct bb_predicted_rank *slowest = &a->slowest;
    const struct bb_layout *l = &plan->step->layout;
    int group;

    a->of = bb_plan_rates(plan, p);
    if (!isnan(a->of.model_flop_utilisation))
        a->of.tflops_per_gpu = NAN; /* counts masked attention: the MFU line has both figures */
    a->peak = NAN;
    if (plan->forecast && !isnan(a->of.model_flop_utilisation))
        a->peak = bb_forecast_peak_tflops(plan->forecast, &p->cluster, &a->peak_type);
    *slowest = p->classes[p->slowest];
    add_last(a, p);
    a->role = plan->traffic.n > 1 ? role_of(plan, slowest->rank) : NULL;
    if (p->n_classes == 1) {
        a->equal = l->ranks > 1 ? "equal on all ranks" : NULL;
        slowest->rank = -1;
    }
    group = bb_plan_most_exposed_group(p, l);
    a->group_ns = group == BB_NONE ? -1 : slowest->groups[group].exposed_transfer_ns;
    a->group = group == BB_NONE ? NULL : l->groups[group].name;
    if (slowest->all.comm_ns == 0) {
        slowest->all.comm_ns = -1;
        slowest->all.exposed_ns = slowest->all.exposed_ns > 0 ? slowest->all.exposed_ns : -1;
    }
    if (slowest->all.idle_ns == 0)
        slowest->all.idle_ns = -1;
    if (slowest->all.exposed_ns <= 0)
        slowest->exposed = (struct bb_exposure){-1, -1, -1};
    if (plan->step->lock_step)
        slowest->exposed.bubble_ns = -1;
    if (slowest->exposed.bubble_ns < 0 || slowest->imbalance_ns == 0)
        slowest->imbalance_ns = -1;
    write_longest(plan, p, a->longest);
    write_batch(plan, slowest, a->batch);
    write_bottleneck(p, a->bottleneck);
    write_host(plan, p, a);
    bb_forecast_rates_text(plan->forecast, &p->cluster, a->rates, sizeof(a->rates));
    bb_forecast_limit_text(plan->forecast, p->cluster.name, slowest->all.compute_ns > 0, a->limit, sizeof(a->limit));
    bb_forecast_dispatch_text(plan->forecast, a->dispatch, TEXT);
    bb_forecast_recipes_text(plan->forecast, &p->cluster, a->recipes, TEXT);
    bb_forecast_accuracy_text(plan->forecast, &p->cluster, a->accuracy, sizeof(a->accuracy));
    add_extrapolated(plan, p, a->accuracy, sizeof(a->accuracy));
    add_transport(plan, &p->cluster, a->accuracy, sizeof(a->accuracy));
}

/* Appends what decides the time of training, for readers of this line alone. */
static void add_conditions(struct answer *a, const struct bb_forecast *f)
{
    const size_t length = strlen(a->training);
    const bool models = f && f->software && f->rates == BB_RATES_MACHINE;

    snprintf(a->training + length, TEXT - length, "%s%s%s%s%s", models ? "; with software " : "",
             models ? f->software->name : "", models && f->default_note ? f->default_note : "",
             a->condition ? ", " : "", a->condition ? a->condition : "");
}

static struct answer answer_of(const struct bb_plan_report *r)
{
    struct answer a = {.last = -1, .rest_ns = -1};

    bb_forecast_misfit_text(r->plan, r->plan->forecast, r->prediction != NULL, a.misfit);
    if (a.misfit[0])
        a.condition =
            r->plan->forecast->none_fits ? "without recomputation, if it fitted in memory" : "if it fitted in memory";
    if (!a.condition && r->plan->forecast)
        bb_forecast_memory_text(r->plan, r->plan->forecast, a.memory, sizeof(a.memory));
    if (r->plan->forecast)
        bb_forecast_guess_text(r->plan->forecast, a.guessed, sizeof(a.guessed));
    write_checks(r->plan, a.checks);
    if (r->prediction)
        add_prediction(&a, r->plan, r->prediction);
    if (r->jittered)
        bb_jittered_text(r->jittered, a.jitter, TEXT);
    if (r->training) {
        bb_training_time_text(r->training, a.training, TEXT);
        bb_reliability_text(r->training, a.failures, a.lost, TEXT);
        add_conditions(&a, r->plan->forecast);
    }
    return a;
}

void bb_plan_answer_print(const struct bb_plan_report *r, FILE *out)
{
    const struct answer a = answer_of(r);
    const struct bb_time_unit unit = bb_rounded_time_unit(a.of.step_us);

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct bb_line line = {.time = &unit};
        size_t bytes;
        char *text;

        line.out = bb_open_text(&text, &bytes);
        if (lines[i].fields && r->prediction)
            bb_line_sentence(&line, lines[i].fields, &a);
        else if (!lines[i].fields)
            fputs((const char *)&a + lines[i].text, line.out);
        bb_close_text(line.out, &text);
        if (*text) /* without the separator of a field whose predecessors are null */
            fprintf(out, "  %-12s  %s\n", lines[i].label, text + strspn(text, ", "));
        free(text);
    }
}
