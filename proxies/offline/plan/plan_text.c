/* plan_text.c - prints a plan as text: groups, roles with their traffic and memory, checks, prediction. */
#include "bootstrap/base/units.h"
#include "proxies/offline/plan/forecast.h"
#include "proxies/offline/plan/plan_answer.h"
#include "proxies/offline/plan/prediction_report.h"

#include <math.h>
#include <string.h>
#include <sys/param.h>

#define LINE 98

/* ---- formatting of ranks and numbers ---- */

/* Formats the range of consecutive ranks that starts at ranks[i], as "4-7" or "4". Returns the index in ranks[]
 * after the last rank of the range. */
static int run_text(const int *ranks, int n, int i, char text[32])
{
    int end = i + 1;

    while (end < n && ranks[end] == ranks[end - 1] + 1)
        end++;
    if (end - i > 1)
        snprintf(text, 32, "%d-%d", ranks[i], ranks[end - 1]);
    else
        snprintf(text, 32, "%d", ranks[i]);
    return end;
}

const char *bb_ranks_text(const int *ranks, int n, char *text, size_t size)
{
    char run[32], last[32];
    size_t length = 0;
    int next, last_first = n - 1;

    text[0] = '\0';
    if (n < 1)
        return text;
    /* `last`: the last range of consecutive ranks, with which an abbreviated list ends */
    while (last_first > 0 && ranks[last_first] == ranks[last_first - 1] + 1)
        last_first--;
    run_text(ranks, n, last_first, last);
    for (int i = 0; i < n; i = next) {
        next = run_text(ranks, n, i, run);
        /* `text` needs space for this range of ranks and, unless it is the last range, for ", ..., " and the last
         * range */
        if (length + 2 + strlen(run) + (next < n ? 7 + strlen(last) : 0) >= size) {
            snprintf(text + length, size - length, ", ..., %s", last);
            return text;
        }
        length += (size_t)snprintf(text + length, size - length, "%s%s", i ? ", " : "", run);
    }
    return text;
}

/* ---- printing the groups ---- */

static bool is_run(const struct bb_layout *l, int group, int instance)
{
    int first = bb_group_member(l, group, instance, 0);

    for (int m = 1; m < l->groups[group].size; m++)
        if (bb_group_member(l, group, instance, m) != first + m)
            return false;
    return l->groups[group].size > 2;
}

/* Formats the ranks of one communicator (instance `instance` of `group`) as " [0-95]" or " [0, 4, 8, ...]". Returns
 * the length of the text. */
static size_t instance_text(const struct bb_layout *l, int group, int instance, char text[64])
{
    int size = l->groups[group].size, some = size < 5 ? size : 4, n;
    int first = bb_group_member(l, group, instance, 0);

    if (is_run(l, group, instance))
        return (size_t)snprintf(text, 64, " [%d-%d]", first, first + size - 1);
    n = snprintf(text, 64, " [%d", first);
    for (int m = 1; m < some; m++)
        n += snprintf(text + n, 64 - (size_t)n, ", %d", bb_group_member(l, group, instance, m));
    return (size_t)n + (size_t)snprintf(text + n, 64 - (size_t)n, some < size ? ", ...]" : "]");
}

static void print_group(const struct bb_layout *l, int group, FILE *out)
{
    const struct bb_group *g = &l->groups[group];
    int n = l->groups[group].instances, i = 0;
    size_t length = (size_t)fprintf(out, "  %-10s %6d rank%s, %d instance%s:", g->name, g->size, bb_plural(g->size), n,
                                    bb_plural(n));
    char text[64];

    for (; i < n && length + instance_text(l, group, i, text) < LINE - 4; i++)
        length += (size_t)fprintf(out, "%s", text);
    fprintf(out, "%s\n", i < n ? " ..." : "");
}

/* ---- printing the roles ---- */

static void print_row(const struct bb_layout *l, const struct bb_traffic_row *r, struct bb_line *line)
{
    const struct bb_traffic_shown shown = bb_traffic_show(l, r);

    bb_line_row(line, bb_traffic_fields, &shown);
    for (int i = 0; i < r->n_peers && i < 3; i++)
        fprintf(line->out, "%s%+d: %zu", i ? " " : "  ", r->peers[i].offset, r->peers[i].calls);
    fputs(r->n_peers > 3 ? " ..." : "", line->out);
    bb_line_end(line);
}

/*
 * Prints the bytes of each use of memory (parameters, gradients, ...) and their total.
 *   what  title of the line
 *   work  bytes of the operands of the GEMMs that --compute gemm executes
 */
static void print_uses(const char *what, const size_t bytes[BB_USES], size_t work, FILE *out)
{
    char text[BB_BYTES_TEXT], entry[64];
    size_t total = work;
    int column, shown = 0;

    for (int use = 0; use < BB_USES; use++)
        total += bytes[use];
    column = fprintf(out, "  %s: %s", what, bb_format_bytes(total, text));
    for (int use = 0; use < BB_USES; use++) {
        if (bytes[use] == 0)
            continue;
        column += snprintf(entry, sizeof(entry), "%s %s", bb_use_names[use], bb_format_bytes(bytes[use], text)) + 3;
        fprintf(out, "%s%s%s", shown++ ? "," : " =", column < LINE ? " " : "\n    ", entry);
        if (column >= LINE)
            column = 4 + (int)strlen(entry);
    }
    if (work)
        fprintf(out, "%s%soperands of real kernels %s", shown ? "," : " =", column < LINE - 34 ? " " : "\n    ",
                bb_format_bytes(work, text));
    fputc('\n', out);
}

/* Prints the memory of the proxy's buffers, and the memory that real training needs, on one rank of the role. */
static void print_memory(const struct bb_traffic_role *role, FILE *out)
{
    size_t training[BB_USES], total = 0;

    print_uses("buffers of busbar proxy", role->memory_bytes, role->work_bytes, out);
    for (int use = 0; use < BB_USES; use++)
        total += training[use] = (size_t)llround(role->training_bytes[use]);
    if (total > 0)
        print_uses("training needs", training, 0, out);
}

static void print_role(const struct bb_plan *plan, const struct bb_traffic_role *role, FILE *out)
{
    struct bb_line line = {.out = out, .start = "  ", .gap = " "};
    char text[LINE];

    fprintf(out, "\n%s, %d rank%s: %s\n", role->name, role->n_ranks, bb_plural(role->n_ranks),
            bb_ranks_text(role->ranks, role->n_ranks, text, LINE - 20 - strlen(role->name)));
    bb_line_heading(&line, bb_traffic_fields, false);
    fputs("  peers", out);
    bb_line_end(&line);
    for (int i = 0; i < role->n_rows; i++)
        print_row(&plan->step->layout, &role->rows[i], &line);
    if (role->compute_us > 0)
        fprintf(out, "  compute: %s\n", bb_format_time(role->compute_us, text));
    if (role->flops > 0)
        fprintf(out, "  model FLOPs: %s per rank\n", bb_format_thousands(role->flops, text));
    print_memory(role, out);
}

/* ---- operations (--ops) ---- */

/* Formats the FLOPs and bytes of a compute operation as "26.9 GFLOP 180 MiB"; without FLOPs as "320 MiB moved". */
static void work_text(const struct bb_op *op, char text[64])
{
    char bytes[BB_BYTES_TEXT];

    bb_format_bytes((size_t)(op->work_times * bb_kernel_list_bytes(op->work)), bytes);
    if (op->flops > 0)
        snprintf(text, 64, op->flops < 1e12 ? "%.3g GFLOP %s" : "%.0f GFLOP %s", op->flops / 1e9, bytes);
    else
        snprintf(text, 64, "%s moved", bytes);
}

/* Prints the minimum and maximum bytes that an alltoallv sends to one other rank, for example ", 12 KiB to 1.5 MiB
 * to each". */
static void print_count_range(const struct bb_op *op, FILE *out)
{
    const size_t element = bb_dtypes[op->dtype].bytes;
    char low[BB_BYTES_TEXT], high[BB_BYTES_TEXT];
    size_t least = SIZE_MAX, most = 0;

    for (int position = 0; position < op->table->n; position++) {
        const size_t bytes = bb_alltoallv_sends(op, position) * element;

        if (position == op->peer)
            continue;
        least = MIN(least, bytes);
        most = MAX(most, bytes);
    }
    fprintf(out, ", %s to %s to each", bb_format_bytes(least, low), bb_format_bytes(most, high));
}

/*
 * Prints operation i of a program as one line: index, '/' for the first and '|' for each further operation of an NCCL
 * group call, kind, communicator and bytes (of a compute operation: FLOPs and bytes, or time), peer ("+1": relative to
 * the calling rank; "1": absolute), phase, micro-batch, name, and the operations that it waits for.
 */
static void print_op(const struct bb_layout *l, const struct bb_program *p, size_t i, FILE *out)
{
    const struct bb_op *op = &p->ops[i];
    char detail[64] = "", bytes[BB_BYTES_TEXT];

    if (op->work)
        work_text(op, detail);
    else if (!bb_op_is_comm(op))
        bb_format_time(op->compute_us, detail);
    else
        snprintf(detail, sizeof(detail), "%s %s", l->comms[op->comm].name,
                 bb_format_bytes(bb_op_payload_bytes(op, l->groups[l->comms[op->comm].group].size), bytes));
    fprintf(out, "  %6zu %c %-14s %-20s", i,
            op->call == BB_NONE                       ? ' '
            : i > 0 && p->ops[i - 1].call == op->call ? '|'
                                                      : '/',
            bb_op_kind_name(op->kind, op->coll), detail);
    if (op->kind == BB_OP_SEND || op->kind == BB_OP_RECV)
        fprintf(out, op->peer_kind == BB_PEER_OFFSET ? " %+d" : " %d", op->peer);
    fprintf(out, " %s", bb_phase_names[op->phase]);
    if (op->micro_batch != BB_NONE)
        fprintf(out, " %d", op->micro_batch);
    fprintf(out, ", %s", op->what ? op->what : "");
    if (op->kind == BB_OP_ALLTOALLV)
        print_count_range(op, out);
    for (int w = 0; w < op->waits; w++)
        fprintf(out, "%s%d", w ? ", " : ", after ", p->wait_list[op->first_wait + w]);
    fputc('\n', out);
}

static void print_ops(const struct bb_plan *plan, FILE *out)
{
    for (int r = 0; r < plan->traffic.n; r++) {
        const struct bb_traffic_role *role = &plan->traffic.roles[r];

        fprintf(out, "\noperations of the %s, as the host issues them (/ | one group call)\n", role->name);
        for (size_t i = 0; i < role->program->n_ops; i++)
            print_op(&plan->step->layout, role->program, i, out);
    }
}

/* ---- checks ---- */

static void print_checks(const struct bb_checks *c, int ranks, FILE *out)
{
    const struct {
        const char *what;
        bool ok;
        const struct bb_faults *faults;
    } rows[] = {{"every operation has its matching peers", c->matched, &c->mismatches},
                {"deadlock-free", c->deadlock_free, &c->deadlock},
                {"deadlock-free with serialised streams", c->safe_serialised, &c->serialised}};

    fprintf(out, "\nchecks of %s%d rank%s (%d class%s of equivalent ranks)\n", ranks > 1 ? "all " : "", ranks,
            bb_plural(ranks), c->classes, c->classes == 1 ? "" : "es");
    for (int i = 0; i < 3; i++) {
        const struct bb_faults *f = rows[i].faults;

        fprintf(out, "  %-42s %s\n", rows[i].what, rows[i].ok ? "yes" : "NO");
        for (int k = 0; k < f->n && k < BB_FAULTS_KEPT; k++)
            fprintf(out, "    %s\n", f->text[k] ? f->text[k] : "?");
        if (f->n > BB_FAULTS_KEPT)
            fprintf(out, "    and %d more\n", f->n - BB_FAULTS_KEPT);
    }
}

/* ---- traffic by group ---- */

struct group_row {
    const char *name;
    int size, instances;
    size_t calls, bytes;
};

#define GROUP(name) BB_SHOWS(struct group_row, name)
static const struct bb_field group_fields[] = {
    {NULL, "group", "", 14, 0, GROUP(name), .form = BB_FORM_LEFT},
    {NULL, "ranks", "", 6, 0, GROUP(size)},
    {NULL, "groups", "", 7, 0, GROUP(instances)},
    {NULL, "calls", "", 7, 0, GROUP(calls)},
    {NULL, "payload", "", 11, 0, GROUP(bytes), .form = BB_FORM_BYTES},
    {0},
};

/* Returns the traffic in a group of the role with most of it. A message is counted once, in calls and bytes
 * (bb_group_traffic_bytes). */
static struct group_row most_traffic(const struct bb_plan *plan, int group)
{
    const struct bb_group *g = &plan->step->layout.groups[group];
    struct group_row most = {g->name, g->size, g->instances, 0, 0};

    for (int r = 0; r < plan->traffic.n; r++) {
        size_t calls[BB_OP_ALLTOALLV + 1] = {0}, by_kind[BB_OP_ALLTOALLV + 1] = {0}, bytes;

        for (int i = 0; i < plan->traffic.roles[r].n_rows; i++) {
            const struct bb_traffic_row *row = &plan->traffic.roles[r].rows[i];

            calls[row->kind] += row->group == group ? row->calls : 0;
            by_kind[row->kind] += row->group == group ? row->bytes : 0;
        }
        bytes = by_kind[BB_OP_COLLECTIVE] + MAX(by_kind[BB_OP_SEND], by_kind[BB_OP_RECV]);
        if (bytes > most.bytes) {
            most.calls = calls[BB_OP_COLLECTIVE] + MAX(calls[BB_OP_SEND], calls[BB_OP_RECV]);
            most.bytes = bytes;
        }
    }
    return most;
}

/* Prints the calls and the payload in each group, of the rank with the largest payload. */
static void print_traffic(const struct bb_plan *plan, FILE *out)
{
    struct bb_line line = {.out = out, .start = "  ", .gap = " "};

    bb_line_heading(&line, group_fields, false);
    fputs("  per step, of the rank that sends most", out);
    bb_line_end(&line);
    for (int g = 0; g < plan->step->layout.n_groups; g++) {
        const struct group_row row = most_traffic(plan, g);

        if (row.calls == 0)
            continue;
        bb_line_row(&line, group_fields, &row);
        bb_line_end(&line);
    }
}

/* ---- the report ---- */

/* Returns whether a communicator has members at both ends of the slow NIC or path; true for other slow parts. */
static bool may_use(const struct bb_layout *l, const struct bb_cluster *c, const struct bb_slow_item *item)
{
    const bool nic = item->kind == BB_SLOW_NIC;
    const int per_node = c->gpus_per_node, first = item->number * per_node;

    if (!nic && item->kind != BB_SLOW_PATH && item->kind != BB_SLOW_WAY)
        return true;
    for (int rank = first; rank < l->ranks && rank < first + per_node; rank++) {
        int first_nic, end_nic;

        bb_cluster_gpu_nics(c, rank - first, &first_nic, &end_nic);
        if (nic && (item->other < first_nic || item->other >= end_nic))
            continue;
        for (int m = 0; m < l->n_comms; m++) {
            const int group = l->comms[m].group, instance = bb_group_instance(l, group, rank);

            for (int i = 0; instance != BB_NONE && i < l->groups[group].size; i++) {
                const int node = bb_group_member(l, group, instance, i) / per_node;

                if (nic ? node != item->number : node == item->other)
                    return true;
            }
        }
    }
    return false;
}

/* Returns the time in us by which the parts lengthen their own ranks' step at most: each delay with the launch of its
 * kernel, and the additional time of a slow rank's kernels. Infinite with slow nodes, NICs or links. */
static double direct_cost_us(const struct bb_prediction *p)
{
    double us = 0;

    for (int i = 0; i < p->conditions.slow.n; i++) {
        const struct bb_slow_item *item = &p->conditions.slow.items[i];

        if (item->kind == BB_SLOW_DELAY)
            us += item->factor + bb_us_of(bb_cluster_issue_ns(&p->cluster, true));
        else if (item->kind == BB_SLOW_RANK)
            us += fmax(0, 1 - 1 / item->factor) * bb_us_of(p->classes[p->class_of[item->number]].all.compute_ns);
        else
            return INFINITY;
    }
    return us;
}

/* Names the parts that --slow and --delay make slow or late, and what they cost together. The cost can exceed the parts'
 * own: the rate of a collective is that of its slowest link (profiles/clusters/README.md: ranks out of step). */
static void print_injected(const struct bb_layout *l, const struct bb_prediction *p, FILE *out)
{
    const struct bb_slow *slow = &p->conditions.slow;
    const double cost_us = bb_us_of(p->slow_cost_ns), step_us = bb_us_of(p->step_ns);
    const double direct_us = direct_cost_us(p);
    char names[BB_SLOW_NAMES_TEXT], time[BB_ROUNDED_TEXT], direct[BB_ROUNDED_TEXT];
    const char *costs;
    int used = 0;

    for (int i = 0; i < slow->n; i++)
        used += may_use(l, &p->cluster, &slow->items[i]);
    bb_slow_names(slow, names);
    costs = slow->n > 1 ? "together cost" : strstr(names, "uplinks") ? "cost" : "costs";
    if (used == 0)
        fprintf(out, "# injected: %s: the step does not use %s\n", names, slow->n > 1 ? "these links" : "this link");
    else if (cost_us >= 0.01) { /* less is rounding */
        fprintf(out, "# injected: %s %s %s of the step, +%.1f%%", names, costs, bb_format_rounded_time(cost_us, time),
                100 * cost_us / (step_us - cost_us));
        if (cost_us > 1.05 * direct_us)
            fprintf(out, ": %s directly, the rest because ranks out of step use shared links at different times",
                    bb_format_rounded_time(direct_us, direct));
        fputc('\n', out);
    } else
        fprintf(out, "# injected: %s %s nothing: the step is not longer%s\n", names, costs,
                bb_slow_has_fast_rank(slow) ? "; a rank with a factor below 1 is faster, half its speed is "
                                              "rank=R:2"
                                            : "");
}

static void print_head(const struct bb_plan_report *r, FILE *out)
{
    const struct bb_step *s = r->plan->step;
    const struct bb_software *software = r->plan->forecast ? r->plan->forecast->software : NULL;
    char number[BB_THOUSANDS_TEXT], nodes[BB_NODES_TEXT];

    fprintf(out, "# %s on %d rank%s", s->proxy, s->layout.ranks, bb_plural(s->layout.ranks));
    if (s->parameters > 0)
        fprintf(out, ": %s parameters", bb_format_thousands(s->parameters, number));
    if (s->samples > 0)
        fprintf(out, ", %s sample%s per step", bb_format_thousands(s->samples, number), s->samples == 1 ? "" : "s");
    if (s->tokens > 0)
        fprintf(out, " (%s tokens)", bb_format_thousands(s->tokens, number));
    fprintf(out, "\n# %s\n", s->summary ? s->summary : "");
    if (r->prediction)
        fprintf(out, "# predicted for %s%s%s (modelled, not measured)%s%s%s\n", r->prediction->cluster.name,
                r->prediction->cluster.domain_gpus ? ", " : "",
                r->prediction->cluster.domain_gpus
                    ? bb_cluster_nodes_text(&r->prediction->cluster, s->layout.ranks, nodes)
                    : "",
                software ? ", software " : "", software ? software->name : "",
                software && r->plan->forecast->default_note ? r->plan->forecast->default_note : "");
    if (r->prediction && r->prediction->conditions.slow.n > 0)
        print_injected(&s->layout, r->prediction, out);
    fputc('\n', out);
}

/* Prints how to measure a row of the traffic tables, of the row with the largest payload. */
static void print_measurement(const struct bb_plan *plan, FILE *out)
{
    const struct bb_traffic_row *most = NULL;
    struct bb_traffic_shown shown;

    for (int r = 0; r < plan->traffic.n; r++)
        for (int i = 0; i < plan->traffic.roles[r].n_rows; i++)
            if (!most || plan->traffic.roles[r].rows[i].bytes > most->bytes)
                most = &plan->traffic.roles[r].rows[i];
    if (!most)
        return;
    shown = bb_traffic_show(&plan->step->layout, most);
    fprintf(out,
            "\n# size: bytes per call; to measure the %s of group %s, with its %d rank%s on equal nodes:\n#   "
            "busbar bench %s --sizes %zu -d %s\n",
            shown.kind, shown.group, most->group_size, bb_plural(most->group_size),
            most->kind == BB_OP_COLLECTIVE ? shown.kind : "sendrecv", shown.call_bytes, shown.dtype);
}

/* Prints groups, roles and checks in full. */
static void print_details(const struct bb_plan *plan, FILE *out)
{
    fprintf(out, "\ngroups\n");
    for (int g = 0; g < plan->step->layout.n_groups; g++)
        print_group(&plan->step->layout, g, out);
    for (int r = 0; r < plan->traffic.n; r++)
        print_role(plan, &plan->traffic.roles[r], out);
    print_measurement(plan, out);
}

void bb_plan_print(const struct bb_plan_report *r, bool full, FILE *out)
{
    const struct bb_checks *c = &r->plan->checks;
    const struct bb_forecast *forecast = r->plan->forecast;

    print_head(r, out);
    bb_plan_answer_print(r, out);
    if (!r->prediction && !full)
        print_traffic(r->plan, out);
    if (full && r->prediction)
        bb_prediction_print(r->plan, r->prediction, out);
    if (full)
        print_details(r->plan, out);
    if (r->ops)
        print_ops(r->plan, out);
    if (full || !c->matched || !c->deadlock_free)
        print_checks(c, r->plan->step->layout.ranks, out);
    if (!full)
        fprintf(out, "# %s%s--full prints also %straffic and memory of each role\n",
                forecast && !bb_forecast_fits(r->plan, forecast) ? "DOES NOT FIT in GPU memory; " : "",
                r->prediction ? "" : "--cluster NAME predicts times; ", r->prediction ? "times, " : "");
}
