/* run_report.c - formats the results of a run as text and as JSON (see run_report.h). */
#include "proxies/runner/run/run_report.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/report_header.h"
#include "bootstrap/results/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- values computed from the measurements ---- */

/* Returns the fraction (0 to 1) of the communication time during which compute kernels run; NaN without
 * communication. */
static double hidden_fraction(const struct bb_rank_breakdown *f)
{
    return f->comm_us > 0 ? (f->comm_us - f->exposed_us) / f->comm_us : NAN;
}

static double transfer_time(const struct bb_rank_breakdown *f, int n_groups)
{
    double sum = 0;

    for (int g = 0; g < n_groups; g++)
        sum += f->groups[g].transfer_us;
    return sum;
}

static bool has_timed_kernels(const struct bb_step *s)
{
    for (int i = 0; i < s->n_roles; i++)
        for (size_t k = 0; k < s->roles[i].program.n_ops; k++) {
            const struct bb_op *op = &s->roles[i].program.ops[k];

            if (!bb_op_is_comm(op) && !op->work && op->compute_us > 0)
                return true;
        }
    return false;
}

/* Returns `amount` (number of samples or tokens of a step) divided by the median step time, in 1/s; NaN if `amount`
 * is 0. */
static double per_second(double amount, const struct bb_measured *m)
{
    return amount > 0 ? amount / (m->timed.step.p50 / 1e6) : NAN;
}

/* Returns the pipeline bubble of the rank, in us; NaN for a step without dependent stages. */
static double bubble_of(const struct bb_run_report *r, const struct bb_rank_breakdown *f)
{
    return r->step->lock_step ? NAN : f->bubble_us;
}

static double ratio_of(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

/* The time that one rank loses to communication, in us per step: its step time minus its step time with compute
 * alone. total = exposed + slowdown + idle. NaN: unknown. */
struct cost {
    double total_us, exposed_us;
    double slowdown_us; /* kernel time minus kernel time with compute alone: the effect of contention, in us */
    double idle_us;     /* time with neither compute nor communication, minus the same time with compute alone, in us */
    double compute_slowdown; /* kernel time with communication / kernel time with compute alone */
    double comm_slowdown;    /* transfer time with compute / transfer time with communication alone */
};

static struct cost cost_of(const struct bb_run_report *r, int rank)
{
    const struct bb_measured *m = r->measured;
    int n = r->step->layout.n_groups;

    if (!m->compute_alone || rank == BB_NONE)
        return (struct cost){NAN, NAN, NAN, NAN, NAN, NAN};
    const struct bb_rank_breakdown *both = &m->traced[rank], *alone = &m->compute_alone[rank];
    return (struct cost){
        .total_us = both->step_us - alone->step_us,
        .exposed_us = both->exposed_us,
        .slowdown_us = both->compute_us - alone->compute_us,
        .idle_us = both->idle_us - alone->idle_us,
        .compute_slowdown = ratio_of(both->compute_us, alone->compute_us),
        .comm_slowdown = ratio_of(transfer_time(both, n), transfer_time(&m->comm_alone[rank], n)),
    };
}

/* Returns the overlap efficiency (bb_overlap_efficiency). If the rank's traced steps contain pipeline bubble, the
 * bubble counts as compute time, because no overlap can hide a bubble. */
static double efficiency_of(const struct bb_measured *m, int rank)
{
    double compute_us = m->compute_alone_us;

    if (m->compute_alone && rank != BB_NONE && m->traced[rank].bubble_us > 0)
        compute_us = m->compute_alone[rank].step_us + m->traced[rank].bubble_us;
    return bb_overlap_efficiency(compute_us, m->comm_alone_us, m->timed.step.p50);
}

/* Returns the model FLOP utilization at the step time step_us; NaN if the peak rate or the FLOPs are unknown. */
static double utilisation_of(const struct bb_run_report *r, double step_us)
{
    double flops = bb_step_flops(r->step);

    return r->peak_tflops > 0 && flops > 0 ? flops / (r->peak_tflops * 1e6 * step_us * r->session->world.size) : NAN;
}

/* The communication of a rank in one group. */
struct group_row {
    const char *name;
    long long calls, bytes; /* -1: the rank has no traffic in this group; the times are then NaN */
    double busy_us, exposed_us, transfer_us, waiting_us;
    double busbw_gbps; /* bus bandwidth (as in nccl-tests); NaN for a group of one rank */
};

static const struct bb_field group_fields[] = {
    BB_NAMED(struct group_row, name),
    BB_NAMED(struct group_row, calls),
    BB_NAMED(struct group_row, bytes),
    BB_NAMED(struct group_row, busy_us),
    BB_NAMED(struct group_row, exposed_us),
    BB_NAMED(struct group_row, transfer_us),
    BB_NAMED(struct group_row, waiting_us),
    BB_NAMED(struct group_row, busbw_gbps),
    {0},
};

/* rows: out, [groups] */
static void list_groups(const struct bb_run_report *r, int rank, struct group_row *rows)
{
    const struct bb_layout *l = &r->step->layout;
    struct bb_group_traffic traffic[BB_MAX_GROUPS];

    bb_count_group_traffic(l, bb_step_program(r->step, rank), traffic);
    for (int i = 0; i < l->n_groups; i++) {
        const struct bb_group_breakdown *g = &r->measured->traced[rank].groups[i];
        const struct bb_group_traffic *t = &traffic[i];

        if (t->calls == 0)
            rows[i] = (struct group_row){l->groups[i].name, -1, -1, NAN, NAN, NAN, NAN, NAN};
        else
            rows[i] = (struct group_row){.name = l->groups[i].name,
                                         .calls = (long long)t->calls,
                                         .bytes = (long long)t->bytes,
                                         .busy_us = g->busy_us,
                                         .exposed_us = g->exposed_us,
                                         .transfer_us = g->transfer_us,
                                         .waiting_us = g->waiting_us,
                                         .busbw_gbps = l->groups[i].size > 1 /* bytes per us / 1e3 = GB/s */
                                                           ? ratio_of(bb_group_traffic_bus_bytes(t) / 1e3, g->busy_us)
                                                           : NAN};
    }
}

/* Adds the row of one role and group. n: number of ranks of the role; us: scratch, [n]. */
static void add_waiting(const struct bb_measured *m, const struct bb_step *step, int role, int group, const int *ranks,
                        int n, double *us, struct bb_wait_table *w)
{
    struct bb_group_traffic traffic[BB_MAX_GROUPS];
    struct bb_wait_row *row;

    bb_count_group_traffic(&step->layout, &step->roles[role].program, traffic);
    for (int i = 0; i < n; i++)
        us[i] = traffic[group].calls > 0 ? m->traced[ranks[i]].groups[group].waiting_us : NAN;
    row = bb_wait_table_add(w, &step->layout, group, step->roles[role].name, ranks, us, n);
    if (row) {
        row->waited_for = m->traced[row->most_rank].groups[group].waited_for;
        row->waited_for_us = m->traced[row->most_rank].groups[group].waited_for_us;
    }
}

void bb_run_waiting(const struct bb_measured *m, const struct bb_step *step, struct bb_wait_table *w)
{
    double *us;
    int *ranks;

    BB_NEW(us, m->ranks);
    BB_NEW(ranks, m->ranks);
    for (int role = 0; m->traced && role < step->n_roles; role++) {
        int n = 0;

        for (int r = 0; r < m->ranks; r++)
            if (step->role_of[r] == role)
                ranks[n++] = r;
        for (int g = 0; g < step->layout.n_groups; g++)
            add_waiting(m, step, role, g, ranks, n, us, w);
    }
    free(ranks);
    free(us);
}

/* ---- report header ---- */

static void print_machine(const struct bb_run_report *r, FILE *out)
{
    char nccl[BB_NCCL_VERSION_TEXT];

    fprintf(out, "# %d rank%s on %d node%s: %s; CUDA %d.%d, NCCL %s\n", r->session->world.size,
            r->session->world.size > 1 ? "s" : "", r->session->world.nodes, r->session->world.nodes > 1 ? "s" : "",
            r->session->devices[0].name, r->session->cuda_runtime / 1000, r->session->cuda_runtime % 1000 / 10,
            bb_nccl_version_text(r->session->nccl_runtime, nccl));
    bb_session_print_buffers(r->session, out);
    if (r->session->devices[0].emulated)
        bb_print_emulated_note(out, "", " (except host issue, measured on this machine)");
    if (r->session->shared_gpu)
        fprintf(out, "# several ranks share one GPU: times are meaningless for a machine with one GPU per rank\n");
}

static size_t max_memory(const struct bb_step *s)
{
    size_t max = 0;

    for (int i = 0; i < s->n_roles; i++) {
        size_t bytes = 0;

        for (int use = 0; use < BB_USES; use++)
            bytes += bb_program_bytes(&s->roles[i].program, use);
        bytes += bb_program_work_bytes(&s->roles[i].program);
        max = bytes > max ? bytes : max;
    }
    return max;
}

static void print_job(const struct bb_run_report *r, FILE *out)
{
    char bytes[BB_BYTES_TEXT];

    fprintf(out, "# %s: %.0f parameters; %s\n", r->step->proxy, r->step->parameters,
            r->step->summary ? r->step->summary : "");
    fprintf(out, "# buffers of a rank: up to %s; checked before the run: all operations match, no deadlock\n",
            bb_format_bytes(max_memory(r->step), bytes));
    fprintf(out, "# time: GPU events from a common start, slowest rank; %d warm-up, %d timed, %d traced steps\n",
            r->plan->warmup, r->plan->steps, r->plan->traced_steps);
}

/* ---- report tables ---- */

/* Prints a number in a table column, or "-" for NaN. */
static void print_cell(FILE *out, int width, int decimals, double value)
{
    if (isfinite(value))
        fprintf(out, " %*.*f", width, decimals, value);
    else
        fprintf(out, " %*s", width, "-");
}

/* Prints a time with its unit in a table column, or "-" for NaN. */
static void print_time(FILE *out, int width, double us)
{
    char text[BB_TIME_TEXT] = "-";

    fprintf(out, " %*s", width, isfinite(us) ? bb_format_time(us, text) : text);
}

/* Prints two rows: the step times and the host times to enqueue a step. name: name of the first row. */
static void print_stats(const char *name, const struct bb_step_stats *of, const struct bb_time_unit *unit, FILE *out)
{
    for (int row = 0; row < 2; row++) {
        const struct bb_stats *s = row == 0 ? &of->step : &of->issue;
        const double values[] = {s->min, s->p50, s->p90, s->p99, s->max, s->mean, s->ci95[0], s->ci95[1]};

        fprintf(out, "  %-10s", row == 0 ? name : "host issue");
        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
            print_cell(out, 10, unit->decimals, values[i] / unit->us);
        fputc('\n', out);
    }
}

static void print_times(const struct bb_run_report *r, FILE *out)
{
    const struct bb_measured *m = r->measured;
    const struct bb_time_unit unit = bb_time_unit(m->timed.step.max);
    const double flops = bb_step_flops(r->step), us = m->timed.step.p50;
    char text[BB_TIME_TEXT];

    fprintf(out, "#\n# %-10s %10s %10s %10s %10s %10s %10s %10s %10s\n", unit.name, "min", "p50", "p90", "p99", "max",
            "mean", "ci95 low", "ci95 high");
    print_stats("step", &m->timed, &unit, out);
    if (m->graph.step.n) {
        print_stats("graph step", &m->graph, &unit, out);
        fprintf(out, "# CUDA graph: step time %.3fx that of normal steps; captured in %s, first launch not timed\n",
                m->graph.step.p50 / m->timed.step.p50, bb_format_time(1e3 * m->capture_ms, text));
    }
    if (m->start_barrier.step.n) {
        print_stats("barrier step", &m->start_barrier, &unit, out);
        fprintf(out, "# start barrier (no launch overhead): step time %.3fx that of normal steps\n",
                m->start_barrier.step.p50 / m->timed.step.p50);
    }
    if (r->step->samples > 0)
        fprintf(out, "# %.1f samples per second", per_second(r->step->samples, m));
    if (r->step->tokens > 0)
        fprintf(out, ", %.0f tokens per second", per_second(r->step->tokens, m));
    if (r->step->samples > 0)
        fputc('\n', out);
    if (flops <= 0)
        return;
    fprintf(out, "# model FLOPs: %.4g per step, %.2f TFLOP/s per GPU", flops,
            flops / us / 1e6 / r->session->world.size);
    if (r->peak_tflops > 0)
        fprintf(out, ", %.1f%% of %g (model FLOP utilization)", 100 * utilisation_of(r, us), r->peak_tflops);
    fputc('\n', out);
}

/* Ends a line of a table heading. any: true if the step has timed kernels (kernels that only occupy SMs for a given
 * time); the line then ends with the number of SMs that they occupy, because the remaining SMs are available to
 * NCCL. */
static void print_busy_sms(const struct bb_run_report *r, bool any, FILE *out)
{
    if (any)
        fprintf(out, "; timed kernels occupy %d of %d SMs", r->compute_sms, r->session->devices[0].sm_count);
    fputc('\n', out);
}

static void print_breakdown(const struct bb_run_report *r, struct bb_time_unit unit, FILE *out)
{
    fprintf(out, "#\n# where the time goes (%s): the slowest rank of each role, mean of %d traced steps", unit.name,
            r->measured->traced_steps);
    print_busy_sms(r, has_timed_kernels(r->step), out);
    fprintf(out, "# %-16s %6s %6s %12s %12s %12s %12s %12s %7s\n", "role", "ranks", "rank", "step", "compute", "comm",
            "exposed", "idle", "hidden");
    for (int i = 0; i < r->step->n_roles; i++) {
        int rank = bb_slowest_rank(r->measured, r->step, i), ranks = 0;

        if (rank == BB_NONE)
            continue;
        for (int k = 0; k < r->session->world.size; k++)
            ranks += r->step->role_of[k] == i;
        const struct bb_rank_breakdown *f = &r->measured->traced[rank];
        fprintf(out, "  %-16s %6d %6d", r->step->roles[i].name, ranks, rank);
        const double values[] = {f->step_us, f->compute_us, f->comm_us, f->exposed_us, f->idle_us};
        for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++)
            print_cell(out, 12, unit.decimals, values[k] / unit.us);
        print_cell(out, 6, 1, 100 * hidden_fraction(f));
        fprintf(out, "%s\n", f->comm_us > 0 ? "%" : "");
    }
}

static void print_groups(const struct bb_run_report *r, struct bb_time_unit unit, FILE *out)
{
    struct group_row rows[BB_MAX_GROUPS];
    char bytes[BB_BYTES_TEXT];

    fprintf(out, "#\n# communication of a step, by group (%s; ranks of the table above)\n", unit.name);
    fprintf(out, "# %-16s %-6s %5s %6s %10s %12s %12s %12s %9s\n", "role", "group", "size", "calls", "payload", "busy",
            "exposed", "waiting", "busbw");
    fprintf(out, "# %-16s %-6s %5s %6s %10s %12s %12s %12s %9s\n", "", "", "", "", "", "", "", "for peers", "GB/s");
    for (int role = 0; role < r->step->n_roles; role++) {
        int rank = bb_slowest_rank(r->measured, r->step, role);

        if (rank == BB_NONE)
            continue;
        list_groups(r, rank, rows);
        for (int g = 0; g < r->step->layout.n_groups; g++) {
            if (rows[g].calls < 0)
                continue;
            fprintf(out, "  %-16s %-6s %5d %6lld %10s", r->step->roles[role].name, rows[g].name,
                    r->step->layout.groups[g].size, rows[g].calls, bb_format_bytes((size_t)rows[g].bytes, bytes));
            print_cell(out, 12, unit.decimals, rows[g].busy_us / unit.us);
            print_cell(out, 12, unit.decimals, rows[g].exposed_us / unit.us);
            print_cell(out, 12, unit.decimals, rows[g].waiting_us / unit.us);
            print_cell(out, 9, 2, rows[g].busbw_gbps);
            fputc('\n', out);
        }
    }
}

/* Prints the cost of communication as a sum: exposed communication, slowdown of kernels and idle time, all in the
 * same unit. */
static void print_lost(const struct bb_run_report *r, int rank, const struct cost *c, FILE *out)
{
    const struct bb_rank_breakdown *f = &r->measured->traced[rank];
    const struct bb_time_unit unit = bb_time_unit(c->total_us);
    const int decimals = unit.decimals;
    char total[BB_TIME_TEXT];

    fprintf(out, "# lost to communication on rank %d: %s = ", rank, bb_format_time(c->total_us, total));
    if (isfinite(bubble_of(r, f)))
        fprintf(out, "%.*f pipeline bubble + ", decimals, f->bubble_us / unit.us);
    if (isfinite(f->exposed_transfer_us))
        fprintf(out, "%.*f transfer + %.*f waiting for other peers", decimals, f->exposed_transfer_us / unit.us,
                decimals, f->exposed_waiting_us / unit.us);
    else
        fprintf(out, "%.*f exposed", decimals, c->exposed_us / unit.us);
    fprintf(out, " + %.*f slower kernels + %.*f idle\n", decimals, fmax(0, c->slowdown_us) / unit.us, decimals,
            c->idle_us / unit.us);
}

/* rank: the slowest rank; BB_NONE without traced steps */
static void print_overlap(const struct bb_run_report *r, int rank, FILE *out)
{
    const struct bb_measured *m = r->measured;
    struct cost c = cost_of(r, rank);
    char text[BB_EFFICIENCY_TEXT], times[3][BB_TIME_TEXT];

    fprintf(out, "#\n# compute alone %s, communication alone %s, both %s%s\n",
            bb_format_time(m->compute_alone_us, times[0]), bb_format_time(m->comm_alone_us, times[1]),
            bb_format_time(m->timed.step.p50, times[2]), bb_overlap_efficiency_text(efficiency_of(m, rank), text));
    if (isfinite(c.total_us))
        print_lost(r, rank, &c, out);
    if (isfinite(c.compute_slowdown) && isfinite(c.comm_slowdown))
        fprintf(out, "# slowdown under overlap: kernels %.3fx, transfers %.3fx\n", c.compute_slowdown, c.comm_slowdown);
}

void bb_run_report_head(const struct bb_run_report *r, FILE *out)
{
    bb_print_report_header(out, r->argc, r->argv);
    print_machine(r, out);
    fprintf(out,
            "# every proxy in its smallest configuration for this number of ranks, with reduced message sizes; step: "
            "median of "
            "%d steps",
            r->plan->steps);
    print_busy_sms(r, true, out);
    fprintf(out, "#\n# %-22s %11s %11s %11s %11s %11s %7s %6s\n", "proxy", "step", "compute", "comm", "exposed", "idle",
            "hidden", "wrong");
}

void bb_run_report_line(const struct bb_run_report *r, const char *proxy, FILE *out)
{
    int rank;

    fprintf(out, "  %-22s", proxy);
    if (!r->step) {
        fprintf(out, " cannot run on %d rank%s", r->session->world.size, r->session->world.size > 1 ? "s" : "");
        if (r->nearest_ranks > 0)
            fprintf(out, "; try: %d", r->nearest_ranks);
        fputc('\n', out);
        return;
    }
    print_time(out, 11, r->measured->timed.step.p50);
    rank = bb_slowest_rank(r->measured, r->step, BB_NONE);
    const struct bb_rank_breakdown none = {.compute_us = NAN, .comm_us = NAN, .exposed_us = NAN, .idle_us = NAN};
    const struct bb_rank_breakdown *f = rank == BB_NONE ? &none : &r->measured->traced[rank];
    const double values[] = {f->compute_us, f->comm_us, f->exposed_us, f->idle_us};
    for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++)
        print_time(out, 11, values[k]);
    print_cell(out, 6, 1, 100 * hidden_fraction(f));
    fputs(hidden_fraction(f) >= 0 ? "%" : " ", out);
    if (r->check && !r->checked)
        fprintf(out, " %6s", "N/A");
    else
        print_cell(out, 6, 0, r->checked ? (double)r->wrong : NAN);
    fputc('\n', out);
}

void bb_run_report_begin(const struct bb_run_report *r, FILE *out)
{
    bb_print_report_header(out, r->argc, r->argv);
    print_machine(r, out);
    print_job(r, out);
    fflush(out);
}

void bb_run_report_text(const struct bb_run_report *r, FILE *out)
{
    const int rank = bb_slowest_rank(r->measured, r->step, BB_NONE);

    print_times(r, out);
    if (rank != BB_NONE) { /* both tables have the unit that fits the longest traced step of any rank */
        const struct bb_time_unit unit = bb_time_unit(r->measured->traced[rank].step_us);

        print_breakdown(r, unit, out);
        print_groups(r, unit, out);
        bb_wait_table_print(r->waiting, r->measured->traced[rank].step_us, "#\n# ", out);
    }
    if (r->measured->alone)
        print_overlap(r, rank, out);
    bb_run_forecast_print(r->forecast, r->measured->timed.step.p50, out);
    if (r->checked)
        fprintf(out, "# data checked: %llu wrong elements\n", r->wrong);
    else if (r->check)
        fprintf(out, "# data not checked: N/A wrong elements (not_checked: no data moved, as with EMU_DATA=off)\n");
    else
        fprintf(out, "# data not checked (try: --check)\n");
}

/* ---- JSON: the fields of the results (format busbar.proxy/1) that a run adds to those of the plan ---- */

static json_t *breakdown_json(const struct bb_run_report *r, int rank)
{
    const struct bb_rank_breakdown *f = &r->measured->traced[rank];

    return json_pack("{s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "rank", rank, "role",
                     r->step->roles[r->step->role_of[rank]].name, "step_us", bb_json_real(f->step_us), "compute_us",
                     bb_json_real(f->compute_us), "comm_us", bb_json_real(f->comm_us), "exposed_us",
                     bb_json_real(f->exposed_us), "exposed_transfer_us", bb_json_real(f->exposed_transfer_us),
                     "bubble_us", bb_json_real(bubble_of(r, f)), "exposed_waiting_us",
                     bb_json_real(f->exposed_waiting_us), "idle_us", bb_json_real(f->idle_us), "overlap_fraction",
                     bb_json_real(hidden_fraction(f)), "compute_sms",
                     has_timed_kernels(r->step) ? json_integer(r->compute_sms) : json_null());
}

/* Returns the groups in which the rank has traffic. */
static json_t *groups_json(const struct bb_run_report *r, int rank)
{
    struct group_row rows[BB_MAX_GROUPS];
    json_t *list = json_array();

    list_groups(r, rank, rows);
    for (int g = 0; g < r->step->layout.n_groups; g++)
        if (rows[g].calls >= 0) {
            json_t *group = json_object();

            bb_table_json(group, group_fields, &rows[g]);
            json_array_append_new(list, group);
        }
    return list;
}

static json_t *roles_json(const struct bb_run_report *r)
{
    json_t *list = json_array();

    for (int i = 0; i < r->step->n_roles; i++) {
        int rank = bb_slowest_rank(r->measured, r->step, i);

        if (rank == BB_NONE)
            continue;
        json_t *role = breakdown_json(r, rank);
        json_object_set_new(role, "groups", groups_json(r, rank));
        json_array_append_new(list, role);
    }
    return list;
}

static json_t *overlap_json(const struct bb_run_report *r, int rank)
{
    const struct bb_measured *m = r->measured;
    const struct bb_rank_breakdown *f = rank == BB_NONE ? NULL : &m->traced[rank];
    struct cost c = cost_of(r, rank);

    if (!m->alone)
        return json_null();
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o, s:o, s:o, s:o, s:o, s:o}}", "compute_alone_us",
        bb_json_real(m->compute_alone_us), "comm_alone_us", bb_json_real(m->comm_alone_us), "both_us",
        bb_json_real(m->timed.step.p50), "overlap_efficiency", bb_json_real(efficiency_of(m, rank)), "compute_slowdown",
        bb_json_real(c.compute_slowdown), "comm_slowdown", bb_json_real(c.comm_slowdown), "lost_to_comm", "total_us",
        bb_json_real(c.total_us), "exposed_us", bb_json_real(c.exposed_us), "slowdown_us", bb_json_real(c.slowdown_us),
        "idle_us", bb_json_real(c.idle_us), "transfer_us", bb_json_real(f ? f->exposed_transfer_us : NAN), "bubble_us",
        bb_json_real(f ? bubble_of(r, f) : NAN), "waiting_us", bb_json_real(f ? f->exposed_waiting_us : NAN));
}

/* Returns the times of steps that were run in another way, relative to normal steps; null if there were none. */
static json_t *variant_json(const struct bb_measured *m, const struct bb_step_stats *s)
{
    if (!s->step.n)
        return json_null();
    return json_pack("{s:o, s:o, s:o*, s:o}", "step_us", bb_json_stats(&s->step), "issue_us", bb_json_stats(&s->issue),
                     "capture_ms", s == &m->graph ? bb_json_real(m->capture_ms) : NULL, "step_ratio",
                     bb_json_real(s->step.p50 / m->timed.step.p50));
}

static json_t *check_flags(const struct bb_run_report *r)
{
    return r->checked ? json_array() : json_pack("[s]", "not_checked");
}

json_t *bb_run_report_row(const struct bb_run_report *r, const char *proxy)
{
    json_t *row = json_pack("{s:s, s:b}", "proxy", proxy, "fits", r->step != NULL);
    int rank;

    if (!r->step)
        return row;
    rank = bb_slowest_rank(r->measured, r->step, BB_NONE);
    json_object_set_new(row, "summary", json_string(r->step->summary ? r->step->summary : ""));
    json_object_set_new(row, "step_us", bb_json_stats(&r->measured->timed.step));
    json_object_set_new(row, "graph", variant_json(r->measured, &r->measured->graph));
    json_object_set_new(row, "breakdown", rank == BB_NONE ? json_null() : breakdown_json(r, rank));
    json_object_set_new(row, "wrong", r->checked ? json_integer((json_int_t)r->wrong) : json_null());
    json_object_set_new(row, "flags", check_flags(r));
    return row;
}

json_t *bb_run_report_json(const struct bb_run_report *r, json_t *groups)
{
    const struct bb_measured *m = r->measured;
    const int rank = bb_slowest_rank(m, r->step, BB_NONE);
    const double step_us = m->timed.step.p50;
    struct group_row rows[BB_MAX_GROUPS];
    json_t *o = json_pack("{s:i, s:i, s:i}", "warmup_steps", r->plan->warmup, "steps", m->steps, "traced_steps",
                          m->traced_steps);

    if (rank != BB_NONE) {
        list_groups(r, rank, rows);
        for (int g = 0; g < r->step->layout.n_groups; g++)
            bb_table_json(json_array_get(groups, (size_t)g), group_fields, &rows[g]);
    }
    json_object_set_new(o, "step_us", bb_json_stats(&m->timed.step));
    json_object_set_new(o, "issue_us", bb_json_stats(&m->timed.issue));
    json_object_set_new(o, "reaction_us", bb_json_stats(&m->timed.reaction));
    json_object_set_new(o, "communicators", json_string("blocking"));
    json_object_set_new(o, "traced_step_us", m->traced ? bb_json_stats(&m->tracing.step) : json_null());
    json_object_set_new(o, "traced_issue_us", m->traced ? bb_json_stats(&m->tracing.issue) : json_null());
    json_object_set_new(o, "graph", variant_json(m, &m->graph));
    json_object_set_new(o, "start_barrier", variant_json(m, &m->start_barrier));
    json_object_set_new(o, "samples_per_s", bb_json_real(per_second(r->step->samples, m)));
    json_object_set_new(o, "tokens_per_s", bb_json_real(per_second(r->step->tokens, m)));
    json_object_set_new(o, "model_flops", bb_json_real(bb_step_flops(r->step)));
    json_object_set_new(o, "peak_tflops", bb_json_real(r->peak_tflops > 0 ? r->peak_tflops : NAN));
    json_object_set_new(o, "model_flop_utilisation", bb_json_real(utilisation_of(r, step_us)));
    json_object_set_new(o, "groups", groups);
    json_object_set_new(o, "breakdown", rank == BB_NONE ? json_null() : breakdown_json(r, rank));
    json_object_set_new(o, "breakdown_by_role", rank == BB_NONE ? json_null() : roles_json(r));
    json_object_set_new(o, "waiting", rank == BB_NONE ? json_null() : bb_wait_table_json(r->waiting));
    json_object_set_new(o, "overlap", overlap_json(r, rank));
    json_object_set_new(o, "critical_path", r->critical ? bb_critical_path_json(r->critical) : json_null());
    json_object_set_new(o, "forecast", bb_run_forecast_json(r->forecast, step_us));
    json_object_set_new(o, "check",
                        json_pack("{s:b, s:o, s:o}", "enabled", r->check, "wrong",
                                  r->checked ? json_integer((json_int_t)r->wrong) : json_null(), "flags",
                                  check_flags(r)));
    return o;
}
