/* run_report.c - the figures that both reports share, and the report for people (run_report.h). */
#include "proxies/run/run_report.h"

#include "bootstrap/base/units.h"
#include "bootstrap/world/comms.h"

#include <math.h>
#include <string.h>

/* ---- derived figures ---- */

struct of_role {
    const struct bb_step *step;
    int role;
};

static bool has_role(const void *arg, int rank)
{
    const struct of_role *o = arg;

    return o->role == BB_NONE || o->step->role_of[rank] == o->role;
}

int bb_run_report_slowest(const struct bb_run_report *r, int role)
{
    const struct of_role pick = {r->step, role};

    return r->measured->traced ? bb_slowest(r->measured, has_role, &pick) : BB_NONE;
}

double bb_hidden_fraction(const struct bb_rank_breakdown *f)
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

static double ratio_of(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

struct bb_cost bb_run_report_cost(const struct bb_run_report *r, int rank)
{
    const struct bb_measured *m = r->measured;
    int n = r->step->layout.n_groups;

    if (!m->compute_alone || rank == BB_NONE)
        return (struct bb_cost){NAN, NAN, NAN, NAN, NAN, NAN};
    const struct bb_rank_breakdown *both = &m->traced[rank], *alone = &m->compute_alone[rank];
    return (struct bb_cost){
        .total_us = both->step_us - alone->step_us,
        .exposed_us = both->exposed_us,
        .slowdown_us = both->compute_us - alone->compute_us,
        .waiting_us = both->idle_us - alone->idle_us,
        .compute_slowdown = ratio_of(both->compute_us, alone->compute_us),
        .comm_slowdown = ratio_of(transfer_time(both, n), transfer_time(&m->comm_alone[rank], n)),
    };
}

double bb_run_report_flops(const struct bb_run_report *r)
{
    double flops = 0;

    for (int rank = 0; rank < r->world->size; rank++) {
        const struct bb_program *p = bb_step_program(r->step, rank);

        for (size_t i = 0; i < p->n_ops; i++)
            flops += p->ops[i].flops;
    }
    return flops;
}

double bb_run_report_utilisation(const struct bb_run_report *r, double step_us)
{
    double flops = bb_run_report_flops(r);

    return r->peak_tflops > 0 && flops > 0 ? flops / (r->peak_tflops * 1e6 * step_us * r->world->size) : NAN;
}

double bb_run_report_busbw(const struct bb_run_report *r, int rank, int group, const struct bb_group_work *work)
{
    double busy_us = r->measured->traced[rank].groups[group].busy_us;

    if (r->step->layout.groups[group].size < 2 || work[group].calls == 0)
        return NAN;
    return ratio_of(work[group].bus_bytes / 1e3, busy_us); /* bytes per us / 1e3 = GB/s */
}

/* ---- the head ---- */

static void print_command(const struct bb_run_report *r, FILE *out)
{
    fprintf(out, "# busbar %s  busbar", BUSBAR_VERSION);
    for (int i = 0; i < r->argc; i++)
        fprintf(out, " %s", r->argv[i]);
    fputc('\n', out);
}

static void print_machine(const struct bb_run_report *r, FILE *out)
{
    char nccl[BB_NCCL_VERSION_TEXT];

    fprintf(out, "# %d rank%s on %d node%s: %s; CUDA %d.%d, NCCL %s\n", r->world->size, r->world->size > 1 ? "s" : "",
            r->world->nodes, r->world->nodes > 1 ? "s" : "", r->devices[0].name, r->cuda_runtime / 1000,
            r->cuda_runtime % 1000 / 10, bb_nccl_version_text(r->nccl_runtime, nccl));
    if (r->devices[0].emulated)
        fprintf(
            out,
            "# EMULATED GPUs: times are modelled (host issue: this machine's), none is a measurement of hardware\n");
    if (r->shared_gpu)
        fprintf(out, "# several ranks share one GPU: times mean nothing for a machine with one GPU per rank\n");
}

static size_t most_memory(const struct bb_step *s)
{
    size_t most = 0;

    for (int i = 0; i < s->n_roles; i++) {
        size_t bytes = 0;

        for (int use = 0; use < BB_USES; use++)
            bytes += bb_program_bytes(&s->roles[i].program, use);
        bytes += bb_program_work_bytes(&s->roles[i].program);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void print_job(const struct bb_run_report *r, FILE *out)
{
    char bytes[BB_BYTES_TEXT];

    fprintf(out, "# %s: %.0f parameters; %s\n", r->step->proxy, r->step->parameters,
            r->step->summary ? r->step->summary : "");
    fprintf(out, "# buffers of a rank: up to %s; checked before the run: every operation is met, no deadlock\n",
            bb_format_bytes(most_memory(r->step), bytes));
    fprintf(out, "# time: GPU events from a common start, slowest rank; %d warm-up, %d timed, %d traced steps\n",
            r->plan->warmup, r->plan->steps, r->plan->traced_steps);
}

/* ---- tables ---- */

/* A number in a column, or "-" where there is none. */
static void print_cell(FILE *out, int width, int decimals, double value)
{
    if (isfinite(value))
        fprintf(out, " %*.*f", width, decimals, value);
    else
        fprintf(out, " %*s", width, "-");
}

static void print_stats(const char *name, const struct bb_stats *s, FILE *out)
{
    const double values[] = {s->min, s->p50, s->p90, s->p99, s->max, s->mean, s->ci95[0], s->ci95[1]};

    fprintf(out, "  %-10s", name);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        print_cell(out, 10, 1, values[i]);
    fputc('\n', out);
}

static void print_flops(const struct bb_run_report *r, FILE *out)
{
    double flops = bb_run_report_flops(r), us = r->measured->step.p50;

    if (flops <= 0)
        return;
    fprintf(out, "# model FLOPs: %.4g per step, %.2f TFLOP/s per GPU", flops, flops / us / 1e6 / r->world->size);
    if (r->peak_tflops > 0)
        fprintf(out, ", %.1f%% of %g (model FLOP utilisation)", 100 * bb_run_report_utilisation(r, us), r->peak_tflops);
    fputc('\n', out);
}

static void print_times(const struct bb_run_report *r, FILE *out)
{
    const struct bb_measured *m = r->measured;

    fprintf(out, "#\n# %-10s %10s %10s %10s %10s %10s %10s %10s %10s\n", "us", "min", "p50", "p90", "p99", "max",
            "mean", "ci95 low", "ci95 high");
    print_stats("step", &m->step, out);
    print_stats("host issue", &m->issue, out);
    if (m->graphed) {
        print_stats("graph step", &m->graph_step, out);
        print_stats("its issue", &m->graph_issue, out);
        fprintf(out, "# as one CUDA graph a step takes %.3f of its time; captured in %.1f ms, first launch not timed\n",
                m->graph_step.p50 / m->step.p50, m->capture_ms);
    }
    if (r->step->samples > 0)
        fprintf(out, "# %.1f samples per second", r->step->samples / (m->step.p50 / 1e6));
    if (r->step->tokens > 0)
        fprintf(out, ", %.0f tokens per second", r->step->tokens / (m->step.p50 / 1e6));
    if (r->step->samples > 0)
        fputc('\n', out);
    print_flops(r, out);
}

static int ranks_of_role(const struct bb_step *s, int ranks, int role)
{
    int n = 0;

    for (int i = 0; i < ranks; i++)
        n += s->role_of[i] == role;
    return n;
}

static void print_breakdown(const struct bb_run_report *r, FILE *out)
{
    fprintf(out, "#\n# where the time goes (us): the slowest rank of each role, mean of %d traced steps\n",
            r->measured->traced_steps);
    fprintf(out, "# %-16s %6s %6s %12s %12s %12s %12s %12s %7s\n", "role", "ranks", "rank", "step", "compute", "comm",
            "exposed", "idle", "hidden");
    for (int i = 0; i < r->step->n_roles; i++) {
        int rank = bb_run_report_slowest(r, i);

        if (rank == BB_NONE)
            continue;
        const struct bb_rank_breakdown *f = &r->measured->traced[rank];
        fprintf(out, "  %-16s %6d %6d", r->step->roles[i].name, ranks_of_role(r->step, r->world->size, i), rank);
        const double values[] = {f->step_us, f->compute_us, f->comm_us, f->exposed_us, f->idle_us};
        for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++)
            print_cell(out, 12, 1, values[k]);
        print_cell(out, 6, 1, 100 * bb_hidden_fraction(f));
        fprintf(out, "%s\n", f->comm_us > 0 ? "%" : "");
    }
}

static void print_group(const struct bb_run_report *r, int role, int rank, int group, const struct bb_group_work *work,
                        FILE *out)
{
    const struct bb_group_breakdown *g = &r->measured->traced[rank].groups[group];
    char bytes[BB_BYTES_TEXT];

    fprintf(out, "  %-16s %-6s %5d %6zu %10s", r->step->roles[role].name, r->step->layout.groups[group].name,
            r->step->layout.groups[group].size, work[group].calls, bb_format_bytes((size_t)work[group].bytes, bytes));
    print_cell(out, 12, 1, g->busy_us);
    print_cell(out, 12, 1, g->exposed_us);
    print_cell(out, 12, 1, g->waiting_us);
    print_cell(out, 9, 2, bb_run_report_busbw(r, rank, group, work));
    fputc('\n', out);
}

static void print_groups(const struct bb_run_report *r, FILE *out)
{
    struct bb_group_work work[BB_MAX_GROUPS];

    fprintf(out, "#\n# communication of a step, by group (us; same ranks)\n");
    fprintf(out, "# %-16s %-6s %5s %6s %10s %12s %12s %12s %9s\n", "role", "group", "size", "calls", "payload", "busy",
            "exposed", "waiting", "busbw");
    fprintf(out, "# %-16s %-6s %5s %6s %10s %12s %12s %12s %9s\n", "", "", "", "", "", "", "", "for peers", "GB/s");
    for (int i = 0; i < r->step->n_roles; i++) {
        int rank = bb_run_report_slowest(r, i);

        if (rank == BB_NONE)
            continue;
        bb_group_works(&r->step->layout, &r->step->roles[i].program, work);
        for (int g = 0; g < r->step->layout.n_groups; g++)
            if (work[g].calls)
                print_group(r, i, rank, g, work, out);
    }
}

static void print_overlap(const struct bb_run_report *r, FILE *out)
{
    const struct bb_measured *m = r->measured;
    int rank = bb_run_report_slowest(r, BB_NONE);
    struct bb_cost c = bb_run_report_cost(r, rank);

    if (!m->alone)
        return;
    fprintf(out, "#\n# compute alone %.1f us, communication alone %.1f us, both %.1f us: overlap efficiency %.3f\n",
            m->compute_alone_us, m->comm_alone_us, m->step.p50,
            bb_overlap_efficiency(m->compute_alone_us, m->comm_alone_us, m->step.p50));
    if (isfinite(c.total_us))
        fprintf(out,
                "# lost to communication on rank %d: %.1f us = %.1f exposed + %.1f slower kernels + %.1f waiting\n",
                rank, c.total_us, c.exposed_us, c.slowdown_us, c.waiting_us);
    if (isfinite(c.compute_slowdown) && isfinite(c.comm_slowdown))
        fprintf(out, "# side by side kernels take %.3f of their time alone, transfers %.3f\n", c.compute_slowdown,
                c.comm_slowdown);
}

void bb_run_report_head(const struct bb_run_report *r, FILE *out)
{
    print_command(r, out);
    print_machine(r, out);
    fprintf(out, "# every proxy in its smallest form for these ranks, counts scaled; step: median of %d\n#\n",
            r->plan->steps);
    fprintf(out, "# %-22s %11s %11s %11s %11s %11s %7s %6s\n", "proxy", "step us", "compute us", "comm us",
            "exposed us", "idle us", "hidden", "wrong");
}

void bb_run_report_line(const struct bb_run_report *r, const char *proxy, FILE *out)
{
    int rank;

    fprintf(out, "  %-22s", proxy);
    if (!r->step) {
        fprintf(out, " has no form for %d rank%s\n", r->world->size, r->world->size > 1 ? "s" : "");
        return;
    }
    print_cell(out, 11, 1, r->measured->step.p50);
    rank = bb_run_report_slowest(r, BB_NONE);
    const struct bb_rank_breakdown none = {.compute_us = NAN, .comm_us = NAN, .exposed_us = NAN, .idle_us = NAN};
    const struct bb_rank_breakdown *f = rank == BB_NONE ? &none : &r->measured->traced[rank];
    const double values[] = {f->compute_us, f->comm_us, f->exposed_us, f->idle_us};
    for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++)
        print_cell(out, 11, 1, values[k]);
    print_cell(out, 6, 1, 100 * bb_hidden_fraction(f));
    fputs(bb_hidden_fraction(f) >= 0 ? "%" : " ", out);
    print_cell(out, 6, 0, r->checked ? (double)r->wrong : NAN);
    fputc('\n', out);
}

void bb_run_report_text(const struct bb_run_report *r, FILE *out)
{
    print_command(r, out);
    print_machine(r, out);
    print_job(r, out);
    print_times(r, out);
    if (r->measured->traced) {
        print_breakdown(r, out);
        print_groups(r, out);
    }
    print_overlap(r, out);
    if (r->checked)
        fprintf(out, "# data checked: %llu wrong\n", r->wrong);
    else
        fprintf(out, "# data not checked (--check)\n");
}
