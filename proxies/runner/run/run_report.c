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

static double work_of(const void *traced, int rank)
{
    return ((const struct bb_rank_breakdown *)traced)[rank].work_us;
}

/* Returns the breakdown of a rank. All times are NaN for BB_NONE, and the pipeline bubble for a step without dependent
 * stages. */
static struct bb_rank_breakdown breakdown_of(const struct bb_run_report *r, int rank)
{
    const struct bb_rank_breakdown none = {.step_us = NAN,
                                           .compute_us = NAN,
                                           .comm_us = NAN,
                                           .exposed_us = NAN,
                                           .idle_us = NAN,
                                           .exposed_transfer_us = NAN,
                                           .exposed_waiting_us = NAN};
    struct bb_rank_breakdown f = rank == BB_NONE ? none : r->measured->traced[rank];

    if (rank == BB_NONE || r->step->lock_step)
        f.bubble_us = NAN;
    f.imbalance_us = isnan(f.bubble_us)
                         ? NAN
                         : bb_stage_imbalance(&r->step->layout, rank, f.bubble_us, work_of, r->measured->traced);
    return f;
}

static double ratio_of(double a, double b)
{
    return b > 0 ? a / b : NAN;
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

/* Rates at the median step time; NaN: unknown. */
struct rates {
    double samples_per_s, tokens_per_s, model_flops, tflops_per_gpu, peak_tflops, model_flop_utilisation,
        model_flop_utilisation_causal;
    const char *flops_note;
};

static struct rates rates_of(const struct bb_run_report *r)
{
    const double us = r->measured->timed.step.p50, flops = bb_step_flops(r->step);
    const double peak = r->peak_tflops > 0 ? r->peak_tflops : NAN;
    const int gpus = r->session->world.size;
    const double utilisation = flops > 0 ? flops / (peak * 1e6 * us * gpus) : NAN;

    return (struct rates){.samples_per_s = r->step->samples > 0 ? r->step->samples / (us / 1e6) : NAN,
                          .tokens_per_s = r->step->tokens > 0 ? r->step->tokens / (us / 1e6) : NAN,
                          .model_flops = flops,
                          .tflops_per_gpu = flops / us / 1e6 / gpus,
                          .peak_tflops = peak,
                          .model_flop_utilisation = utilisation,
                          .model_flop_utilisation_causal = utilisation * bb_step_causal_share(r->step),
                          .flops_note = bb_step_flops_note(r->step)};
}

/* Compute and communication alone and together, and the time that one rank loses to communication, in us per step: its
 * step time minus its step time with compute alone. total = exposed + slowdown + idle. NaN: unknown. */
struct overlap {
    double compute_alone_us, comm_alone_us, both_us, overlap_efficiency;
    double bubble_us;             /* of the rank; 0: unknown */
    double compute_slowdown;      /* kernel time with communication / kernel time with compute alone */
    double comm_slowdown;         /* transfer time with compute / transfer time with communication alone */
    double rank_compute_alone_us; /* step time of the rank with compute alone */
    double total_us, exposed_us;
    double slowdown_us; /* kernel time minus kernel time with compute alone: the effect of contention, in us */
    double idle_us;     /* time with neither compute nor communication, minus the same time with compute alone, in us */
};

/* rank: the slowest rank; BB_NONE without traced steps */
static struct overlap overlap_of(const struct bb_run_report *r, int rank)
{
    const struct bb_measured *m = r->measured;
    const int n = r->step->layout.n_groups;
    const bool known = m->compute_alone && rank != BB_NONE;
    const struct bb_rank_breakdown both = breakdown_of(r, rank);
    const struct bb_rank_breakdown *alone = known ? &m->compute_alone[rank] : &(struct bb_rank_breakdown){0};

    return (struct overlap){
        .compute_alone_us = m->compute_alone_us,
        .comm_alone_us = m->comm_alone_us,
        .both_us = m->timed.step.p50,
        .overlap_efficiency = efficiency_of(m, rank),
        .bubble_us = known ? m->traced[rank].bubble_us : 0,
        .compute_slowdown = known ? ratio_of(both.compute_us, alone->compute_us) : NAN,
        .comm_slowdown = known ? ratio_of(transfer_time(&both, n), transfer_time(&m->comm_alone[rank], n)) : NAN,
        .rank_compute_alone_us = known ? alone->step_us : NAN,
        .total_us = known ? both.step_us - alone->step_us : NAN,
        .exposed_us = known ? both.exposed_us : NAN,
        .slowdown_us = known ? both.compute_us - alone->compute_us : NAN,
        .idle_us = known ? both.idle_us - alone->idle_us : NAN,
    };
}

/* ---- the fields of the report: rates, breakdown of a rank, its groups, overlap ---- */

#define RATE(name) BB_SHOWS(struct rates, name)
static const struct bb_field throughput_fields[] = {
    {"samples_per_s", "# ", " samples per second", 0, 3, RATE(samples_per_s)},
    {"tokens_per_s", ", ", " tokens per second", 0, 0, RATE(tokens_per_s)},
    {0},
};
static const struct bb_field flops_fields[] = {
    {"model_flops", "# model FLOPs: ", " per step on all ranks", 0, 4, RATE(model_flops), .form = BB_FORM_GENERAL},
    {NULL, ", ", " TFLOP/s per GPU", 0, 2, RATE(tflops_per_gpu)},
    BB_NAMED(struct rates, peak_tflops),
    {NULL, " of ", "", 0, 6, RATE(peak_tflops), .form = BB_FORM_GENERAL},
    {"model_flop_utilisation", ": MFU ", "", 0, 1, RATE(model_flop_utilisation), .form = BB_FORM_PERCENT},
    {"model_flop_utilisation_causal", " with attention in full (Megatron-LM paper), ",
     " with causal attention (newer Megatron-LM)", 0, 1, RATE(model_flop_utilisation_causal), .form = BB_FORM_PERCENT},
    {"flops_note", "; ", "", 0, 0, RATE(flops_note)},
    {0},
};

static json_t *hidden_json(const void *breakdown)
{
    return bb_json_real(hidden_fraction(breakdown));
}

#define PART(name) BB_SHOWS(struct bb_rank_breakdown, name), .form = BB_FORM_TIME
static const struct bb_field breakdown_fields[] = {
    {"step_us", "step", "", -1, 0, PART(step_us)},
    {"compute_us", "compute", "", -1, 0, PART(compute_us)},
    {"comm_us", "comm", "", -1, 0, PART(comm_us)},
    {"exposed_us", "exposed", "", -1, 0, PART(exposed_us)},
    {"exposed_transfer_us", PART(exposed_transfer_us)},
    {"bubble_us", PART(bubble_us)},
    {"imbalance_us", PART(imbalance_us)},
    {"exposed_waiting_us", PART(exposed_waiting_us)},
    {"idle_us", "idle", "", -1, 0, PART(idle_us)},
    {"overlap_fraction", "hidden", "", 7, 1, .value = hidden_json, .none = "- ", .form = BB_FORM_PERCENT},
    {0},
};

static json_t *efficiency_text(const void *overlap)
{
    const struct overlap *o = overlap;

    return bb_overlap_efficiency_text(o->overlap_efficiency, o->bubble_us);
}

#define OVERLAP(name) BB_SHOWS(struct overlap, name)
static const struct bb_field overlap_fields[] = {
    {"compute_alone_us", "# slowest rank: compute alone ", "", 0, 0, OVERLAP(compute_alone_us), .form = BB_FORM_TIME},
    {"comm_alone_us", ", communication alone ", "", 0, 0, OVERLAP(comm_alone_us), .form = BB_FORM_TIME},
    {"both_us", ", both ", "", 0, 0, OVERLAP(both_us), .form = BB_FORM_TIME},
    BB_NAMED(struct overlap, overlap_efficiency),
    {NULL, ", overlap efficiency ", "", 0, 0, .value = efficiency_text},
    {0},
};
static const struct bb_field slowdown_fields[] = {
    {"compute_slowdown", "# slowdown under overlap: kernels ", "x", 0, 3, OVERLAP(compute_slowdown)},
    {"comm_slowdown", ", transfers ", "x\n", 0, 3, OVERLAP(comm_slowdown)},
    {0},
};
static const struct bb_field lost_fields[] = {
    {"compute_alone_us", OVERLAP(rank_compute_alone_us)},
    BB_NAMED(struct overlap, total_us),
    BB_NAMED(struct overlap, exposed_us),
    BB_NAMED(struct overlap, slowdown_us),
    BB_NAMED(struct overlap, idle_us),
    {0},
};
static const struct bb_field lost_cause_fields[] = {
    {"transfer_us", PART(exposed_transfer_us)},
    {"bubble_us", PART(bubble_us)},
    {"waiting_us", PART(exposed_waiting_us)},
    {0},
};

/* The communication of a rank in one group. */
struct group_row {
    const char *name;
    int size;
    long long calls, bytes; /* -1: the rank has no traffic in this group; the times are then NaN */
    double busy_us, exposed_us, transfer_us, waiting_us;
    double busbw_gbps; /* bus bandwidth (as in nccl-tests); NaN for a group of one rank */
};

#define GROUP(name)      BB_SHOWS(struct group_row, name)
#define GROUP_TIME(name) GROUP(name), .form = BB_FORM_TIME
static const struct bb_field group_fields[] = {
    {"name", "group", "", 6, 0, GROUP(name), .form = BB_FORM_LEFT},
    {NULL, "size", "", 5, 0, GROUP(size)},
    {"calls", "calls", "", 6, 0, GROUP(calls)},
    {"bytes", "payload", "", 10, 0, GROUP(bytes), .form = BB_FORM_BYTES},
    {"busy_us", "busy", "", 12, 0, GROUP_TIME(busy_us)},
    {"exposed_us", "exposed", "", 12, 0, GROUP_TIME(exposed_us)},
    {"transfer_us", GROUP_TIME(transfer_us)},
    {"waiting_us", "waiting", "for peers", 12, 0, GROUP_TIME(waiting_us)},
    {"busbw_gbps", "busbw", "GB/s", 9, 2, GROUP(busbw_gbps)},
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
            rows[i] = (struct group_row){l->groups[i].name, 0, -1, -1, NAN, NAN, NAN, NAN, NAN};
        else
            rows[i] = (struct group_row){.name = l->groups[i].name,
                                         .size = l->groups[i].size,
                                         .calls = (long long)t->calls,
                                         .bytes = (long long)bb_group_traffic_bytes(t),
                                         .busy_us = g->busy_us,
                                         .exposed_us = g->exposed_us,
                                         .transfer_us = g->transfer_us,
                                         .waiting_us = g->waiting_us,
                                         .busbw_gbps = l->groups[i].size > 1 /* bytes per us / 1e3 = GB/s */
                                                           ? ratio_of(bb_group_traffic_bus_bytes(t) / 1e3, g->busy_us)
                                                           : NAN};
    }
}

/* ---- report header ---- */

static void print_machine(const struct bb_run_report *r, FILE *out)
{
    char nccl[BB_NCCL_VERSION_TEXT];

    fprintf(out, "# %d rank%s on %d node%s: %s; CUDA %d.%d, NCCL %s\n", r->session->world.size,
            bb_plural(r->session->world.size), r->session->world.nodes, bb_plural(r->session->world.nodes),
            r->session->devices[0].name, r->session->cuda_runtime / 1000, r->session->cuda_runtime % 1000 / 10,
            bb_nccl_version_text(r->session->nccl_runtime, nccl));
    bb_session_print_buffers(r->session, out);
    if (r->session->devices[0].emulated)
        bb_print_emulated_note(out, "", " (except host issue, measured on this machine)");
    if (r->session->shared_gpu)
        fprintf(out, "# %s\n", bb_session_sharing_note(r->session));
}

static void print_job(const struct bb_run_report *r, FILE *out)
{
    fprintf(out, "# %s: %.0f parameters; %s\n", r->step->proxy, r->step->parameters,
            r->step->summary ? r->step->summary : "");
    fprintf(out, "# compute: %s\n", *r->compute ? r->compute : "the kernels of the layers, on these GPUs");
    fprintf(out, "# memory: %s\n", r->memory);
    if (!r->full)
        return;
    fprintf(out, "# checked before the run: all operations match, no deadlock\n");
    fprintf(out, "# time: GPU events from a common start, slowest rank; %d warm-up, %d timed, %d traced steps\n",
            r->plan->warmup, r->plan->steps, r->plan->traced_steps);
}

/* ---- report tables ---- */

/* Prints the step times, and if `rows` is 2, the host times to enqueue a step. name: name of the first row. */
static void print_stats(const char *name, const struct bb_step_stats *of, int rows, struct bb_line *line)
{
    for (int row = 0; row < rows; row++) {
        fprintf(line->out, "  %-10s", row == 0 ? name : "host issue");
        bb_line_row(line, bb_stats_fields, row == 0 ? &of->step : &of->issue);
        bb_line_end(line);
    }
}

static void print_times(const struct bb_run_report *r, FILE *out)
{
    const struct bb_measured *m = r->measured;
    const struct bb_time_unit unit = bb_time_unit(m->timed.step.max);
    const struct rates rates = rates_of(r);
    struct bb_line line = {.out = out, .start = " ", .gap = " ", .time = &unit};
    char text[BB_TIME_TEXT];

    fprintf(out, "%s# %-10s", r->full ? "#\n" : "", unit.name);
    bb_line_heading(&line, bb_stats_fields, false);
    bb_line_end(&line);
    print_stats("step", &m->timed, 2, &line);
    if (m->graph.step.n) {
        print_stats("graph step", &m->graph, r->full ? 2 : 1, &line);
        fprintf(out, "# CUDA graph: step time %.3fx that of normal steps; captured in %s, first launch not timed\n",
                m->graph.step.p50 / m->timed.step.p50, bb_format_time(1e3 * m->capture_ms, text));
    }
    if (m->start_barrier.step.n) {
        print_stats("barrier step", &m->start_barrier, r->full ? 2 : 1, &line);
        fprintf(out, "# start barrier (no launch overhead): step time %.3fx that of normal steps\n",
                m->start_barrier.step.p50 / m->timed.step.p50);
    }
    if (r->step->samples > 0) {
        bb_table_sentence(out, throughput_fields, &rates);
        fputc('\n', out);
    }
    if (rates.model_flops > 0) {
        bb_table_sentence(out, flops_fields, &rates);
        fputc('\n', out);
    }
}

/* Ends a line of a table heading. any: true if the step has timed kernels (kernels that only occupy SMs for a given
 * time); the line then ends with the number of SMs that they occupy, because the remaining SMs are available to
 * NCCL. */
static void print_busy_sms(const struct bb_run_report *r, bool any, FILE *out)
{
    if (any)
        fprintf(out, "; each timed kernel occupies %d of %d SMs", r->compute_sms, r->session->devices[0].sm_count);
    fputc('\n', out);
}

/* Returns whether the steps of all ranks take as long as that of the slowest rank, within 1 %. */
static bool ends_together(const struct bb_run_report *r, int slowest)
{
    const struct bb_rank_breakdown *traced = r->measured->traced;

    for (int i = 0; i < r->session->world.size; i++)
        if (traced[i].step_us < 0.99 * traced[slowest].step_us)
            return false;
    return r->session->world.size > 1;
}

/* Prints the slowest rank of each role; without --full, only the slowest rank of all. */
static void print_breakdown(const struct bb_run_report *r, int slowest, struct bb_line *line)
{
    FILE *out = line->out;

    fprintf(out, "%s# where the time goes (%s): the slowest rank%s, mean of %d traced steps", r->full ? "#\n" : "",
            line->time->name,
            r->full                     ? " of each role"
            : ends_together(r, slowest) ? " (step times within 1 %)"
                                        : "",
            r->measured->traced_steps);
    print_busy_sms(r, has_timed_kernels(r->step), out);
    fprintf(out, "# %-16s %6s %6s", "role", "ranks", "rank");
    bb_line_heading(line, breakdown_fields, false);
    bb_line_end(line);
    for (int i = 0; i < r->step->n_roles; i++) {
        int rank = bb_slowest_rank(r->measured, r->step, i), ranks = 0;

        if (rank == BB_NONE || (!r->full && rank != slowest))
            continue;
        for (int k = 0; k < r->session->world.size; k++)
            ranks += r->step->role_of[k] == i;
        fprintf(out, "  %-16s %6d %6d", r->step->roles[i].name, ranks, rank);
        bb_line_row(line, breakdown_fields, &r->measured->traced[rank]);
        bb_line_end(line);
    }
    bb_run_longest_print(r, slowest, out);
}

static void print_groups(const struct bb_run_report *r, struct bb_line *line)
{
    struct group_row rows[BB_MAX_GROUPS];

    fprintf(line->out, "#\n# communication of a step, by group (%s; ranks of the table above)\n", line->time->name);
    for (int units = 0; units < 2; units++) {
        fprintf(line->out, "# %-16s", units ? "" : "role");
        bb_line_heading(line, group_fields, units);
        bb_line_end(line);
    }
    for (int role = 0; role < r->step->n_roles; role++) {
        int rank = bb_slowest_rank(r->measured, r->step, role);

        if (rank == BB_NONE)
            continue;
        list_groups(r, rank, rows);
        for (int g = 0; g < r->step->layout.n_groups; g++) {
            if (rows[g].calls < 0)
                continue;
            fprintf(line->out, "  %-16s", r->step->roles[role].name);
            bb_line_row(line, group_fields, &rows[g]);
            bb_line_end(line);
        }
    }
}

/* Prints a term of a sum, " + VALUE NAME"; for a negative value " - VALUE OPPOSITE". */
static void print_term(double value, int decimals, const char *name, const char *opposite, FILE *out)
{
    const bool is_negative = value <= -0.5 * pow(10, -decimals);

    fprintf(out, " %c %.*f %s", is_negative ? '-' : '+', decimals, fabs(value), is_negative ? opposite : name);
}

/* Prints the cost of communication as the step time minus that with compute alone, and as a sum: exposed communication, slowdown of kernels and idle time, all in the
 * same unit. */
static void print_lost(const struct bb_run_report *r, int rank, const struct overlap *c, FILE *out)
{
    const struct bb_rank_breakdown f = breakdown_of(r, rank);
    const struct bb_time_unit unit = bb_time_unit(f.step_us);
    const int decimals = unit.decimals;
    const double differs_us = fabs(c->rank_compute_alone_us - c->compute_alone_us); /* from the slowest rank */
    char of_rank[32] = "";

    if (differs_us >= pow(10, -decimals) * unit.us)
        snprintf(of_rank, sizeof of_rank, " of rank %d", rank);
    fprintf(out, "# lost to communication on rank %d (%s): %.*f - %.*f compute alone%s = %.*f = ", rank, unit.name,
            decimals, f.step_us / unit.us, decimals, c->rank_compute_alone_us / unit.us, of_rank, decimals,
            c->total_us / unit.us);
    if (isfinite(f.bubble_us))
        fprintf(out, "%.*f pipeline bubble", decimals, f.bubble_us / unit.us);
    if (f.imbalance_us >= 0.5 * pow(10, -decimals) * unit.us)
        fprintf(out, " (%.*f of it from unequal stages)", decimals, f.imbalance_us / unit.us);
    fputs(isfinite(f.bubble_us) ? " + " : "", out);
    if (isfinite(f.exposed_transfer_us))
        fprintf(out, "%.*f transfer + %.*f waiting for other peers", decimals, f.exposed_transfer_us / unit.us,
                decimals, f.exposed_waiting_us / unit.us);
    else
        fprintf(out, "%.*f exposed", decimals, c->exposed_us / unit.us);
    print_term(c->slowdown_us / unit.us, decimals, "slower kernels", "host time hidden by communication", out);
    print_term(c->idle_us / unit.us, decimals, "idle", "idle", out);
    fputc('\n', out);
}

static void print_overlap(const struct bb_run_report *r, int rank, FILE *out)
{
    const struct overlap c = overlap_of(r, rank);
    const struct bb_time_unit unit = bb_time_unit(c.both_us);

    fputs(r->full ? "#\n" : "", out);
    bb_line_sentence(&(struct bb_line){.out = out, .time = &unit}, overlap_fields, &c);
    fputc('\n', out);
    if (isfinite(c.total_us))
        print_lost(r, rank, &c, out);
    if (r->full && isfinite(c.compute_slowdown) && isfinite(c.comm_slowdown))
        bb_table_sentence(out, slowdown_fields, &c);
}

static const int proxy_width = 11, role_width = 12; /* of the times in the tables of proxies and of roles */

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
    fprintf(out, "#\n# %-22s", "proxy");
    bb_line_heading(&(struct bb_line){.out = out, .start = " ", .gap = " ", .widths = &proxy_width}, breakdown_fields,
                    false);
    fprintf(out, " %6s\n", "wrong");
}

void bb_run_report_line(const struct bb_run_report *r, const char *proxy, FILE *out)
{
    struct bb_line line = {.out = out, .start = " ", .gap = " ", .widths = &proxy_width};

    fprintf(out, "  %-22s", proxy);
    if (!r->step) {
        fprintf(out, " cannot run on %d rank%s", r->session->world.size, bb_plural(r->session->world.size));
        if (r->nearest_ranks > 0)
            fprintf(out, "; try: %d ranks", r->nearest_ranks);
        fputc('\n', out);
        return;
    }
    struct bb_rank_breakdown f = breakdown_of(r, bb_slowest_rank(r->measured, r->step, BB_NONE));
    f.step_us = r->measured->timed.step.p50;
    bb_line_row(&line, breakdown_fields, &f);
    fprintf(out, "%*s", line.blanks, "");
    if (r->checked)
        fprintf(out, " %6llu\n", r->wrong);
    else
        fprintf(out, " %6s\n", r->check ? "N/A" : "-");
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
        struct bb_line line = {.out = out, .start = " ", .gap = " ", .widths = &role_width, .time = &unit};

        print_breakdown(r, rank, &line);
        if (r->full) {
            print_groups(r, &line);
            bb_wait_table_print(r->waiting, r->measured->traced[rank].step_us, &unit, "#\n# ", out);
        }
    }
    if (r->measured->alone)
        print_overlap(r, rank, out);
    bb_run_forecast_print(r->forecast, r->measured->timed.step.p50, r->full, out);
    if (r->wrong == 0)
        fprintf(out, "# data %s%s\n",
                r->checked                          ? "checked: 0 wrong elements"
                : bb_session_moves_data(r->session) ? "not checked (try: --check)"
                                                    : "not checked: EMU_DATA=off moves no data",
                r->scaled ? "; exposed and hidden times are NOT those of the model (--scale-counts)"
                : r->full ? ""
                          : "; --full prints also every role, the communication of each group, and who waits for whom");
    bb_run_culprit_print(r, out);
    if (r->wrong > 0)
        fprintf(out, "# WRONG DATA: %llu wrong element%s, first on %s\n", r->wrong, bb_plural(r->wrong),
                r->first_wrong);
}

/* ---- JSON: the fields of the results (format busbar.proxy/1) that a run adds to those of the plan ---- */

static json_t *breakdown_json(const struct bb_run_report *r, int rank)
{
    const struct bb_rank_breakdown f = breakdown_of(r, rank);
    json_t *o = json_pack("{s:i, s:s}", "rank", rank, "role", r->step->roles[r->step->role_of[rank]].name);

    bb_table_json(o, breakdown_fields, &f);
    json_object_set_new(o, "compute_sms", has_timed_kernels(r->step) ? json_integer(r->compute_sms) : json_null());
    return o;
}

/* Returns the groups in which the rank has traffic. */
static json_t *groups_json(const struct bb_run_report *r, int rank)
{
    struct group_row rows[BB_MAX_GROUPS];
    json_t *list = json_array();

    list_groups(r, rank, rows);
    for (int g = 0; g < r->step->layout.n_groups; g++)
        if (rows[g].calls >= 0)
            json_array_append_new(list, bb_table_object(group_fields, &rows[g]));
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
    const struct bb_rank_breakdown f = breakdown_of(r, rank);
    const struct overlap c = overlap_of(r, rank);
    json_t *o, *lost;

    if (!r->measured->alone)
        return json_null();
    o = bb_table_object(overlap_fields, &c);
    bb_table_json(o, slowdown_fields, &c);
    lost = bb_table_object(lost_fields, &c);
    bb_table_json(lost, lost_cause_fields, &f);
    json_object_set_new(o, "lost_to_comm", lost);
    return o;
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
    const struct rates rates = rates_of(r);
    struct group_row rows[BB_MAX_GROUPS];
    json_t *o = json_pack("{s:i, s:i, s:i}", "warmup_steps", r->plan->warmup, "steps", m->steps, "traced_steps",
                          m->traced_steps);

    if (rank != BB_NONE) {
        list_groups(r, rank, rows);
        for (int g = 0; g < r->step->layout.n_groups; g++)
            bb_table_json(json_array_get(groups, (size_t)g), group_fields, &rows[g]);
    }
    json_object_set_new(o, "compute", *r->compute ? json_string(r->compute) : json_null());
    json_object_set_new(o, "step_us", bb_json_stats(&m->timed.step));
    json_object_set_new(o, "issue_us", bb_json_stats(&m->timed.issue));
    json_object_set_new(o, "reaction_us", bb_json_stats(&m->timed.reaction));
    json_object_set_new(o, "communicators", json_string("blocking"));
    json_object_set_new(o, "traced_step_us", m->traced ? bb_json_stats(&m->tracing.step) : json_null());
    json_object_set_new(o, "traced_issue_us", m->traced ? bb_json_stats(&m->tracing.issue) : json_null());
    json_object_set_new(o, "graph", variant_json(m, &m->graph));
    json_object_set_new(o, "start_barrier", variant_json(m, &m->start_barrier));
    bb_table_json(o, throughput_fields, &rates);
    bb_table_json(o, flops_fields, &rates);
    json_object_set_new(o, "groups", groups);
    json_object_set_new(o, "breakdown", rank == BB_NONE ? json_null() : breakdown_json(r, rank));
    json_object_set_new(o, "breakdown_by_role", rank == BB_NONE ? json_null() : roles_json(r));
    json_object_set_new(o, "slow_gpus", rank == BB_NONE ? json_null() : bb_run_slow_json(r, false));
    json_object_set_new(o, "slow_transfers", rank == BB_NONE ? json_null() : bb_run_slow_json(r, true));
    bb_wait_table_json(r->waiting, o);
    if (rank == BB_NONE)
        json_object_set_new(o, "waiting", json_null());
    json_object_set_new(o, "overlap", overlap_json(r, rank));
    json_object_set_new(o, "critical_path", r->critical ? bb_critical_path_json(r->critical) : json_null());
    json_object_set_new(o, "forecast", bb_run_forecast_json(r->forecast, m->timed.step.p50));
    json_object_set_new(o, "check",
                        json_pack("{s:b, s:o, s:o}", "enabled", r->check, "wrong",
                                  r->checked ? json_integer((json_int_t)r->wrong) : json_null(), "flags",
                                  check_flags(r)));
    return o;
}
