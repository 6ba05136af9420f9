/*
 * bench_report.c - prints the rows of a sweep. Lists of fields (struct bb_field) define the column headings, the rows
 * and the JSON. The columns and the footer are those of nccl-tests; values that do not apply are printed as N/A. The
 * JSON has one result per buffer placement (out of place, in place).
 */
#include "collectives/sweep/bench_report.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/environment.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/report_header.h"
#include "bootstrap/results/checks.h"
#include "collectives/measure/timing.h"
#include "collectives/ops/device.h"
#include "collectives/session/result_row.h"
#include "collectives/sweep/algorithm_ranking.h"
#include "collectives/sweep/case_fields.h"
#include "collectives/sweep/groups.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- fields of a result ---- */

/* The values of one result (a row has one result per buffer placement: out of place, in place), formatted for
 * output. */
struct shown {
    struct bb_shown_case of;
    const char *stopped;
    int iterations, repeats, channels, straggler, cycle, group;
    bool measured, forced;
    double p99_us, variation_percent, half_width_percent, expected_gbps,
        of_expected; /* of_expected: busbw / expected busbw */
    struct bb_metrics f;
    char gain[40], timestamp[BB_STAMP_TEXT];
};
/* Passed instead of a buffer placement (out of place, in place) for fields that are printed once per row. These
 * fields show the values of the first placement that was measured, out of place before in place. */
enum { ONCE = -1 };

const char *bb_report_redop(const struct bb_report *r, const struct bb_row *row)
{
    /* nccl-tests prints "sum" as the reduction operation of sendrecv */
    const char *none = r->style->program && row->c.kind == BB_SENDRECV ? "sum" : "none";

    return row->c.redop == BB_COPY ? none : bb_redops[row->c.redop].name;
}

void bb_report_stamp(char text[BB_STAMP_TEXT])
{
    time_t now = time(NULL);
    struct tm parts;

    strftime(text, BB_STAMP_TEXT, "%Y-%m-%d %H:%M:%S", localtime_r(&now, &parts));
}

/* Formats the column "gain": for each placement, the time of NCCL's choice divided by the time of the forced
 * algorithm. An asterisk marks a significant gain. */
static void format_gain(const struct bb_report *r, const struct bb_row *row, char *text, size_t size)
{
    size_t at = 0;

    snprintf(text, size, "%s", row->chosen ? "" : "chosen");
    for (int i = 0; row->chosen && i < BB_PLACEMENTS; i++) {
        const struct bb_stats *chosen = &row->chosen->metrics[i].time_us, *forced = &row->metrics[i].time_us;

        if (row->measured[i])
            at += (size_t)snprintf(text + at, size - at, "%s%.2f%s", at ? " " : "", chosen->p50 / forced->p50,
                                   bb_significantly_faster(forced, chosen) && !r->session->shared_gpu ? "*" : "");
    }
}

/* Returns the expected bus bandwidth in GB/s; NaN: unknown, or the result is not of NCCL's choice. */
static double expected_busbw(const struct bb_report *r, const struct bb_row *row, int placement)
{
    struct bb_case c = row->c;

    c.in_place = placement == BB_IN_PLACE;
    return r->expected && !row->chosen ? bb_busbw_reference_expected(r->expected, &c, bb_bench_context_mode(r->ctx))
                                       : NAN;
}

static struct shown show_placement(const struct bb_report *r, const struct bb_row *row, int requested)
{
    const int placement = requested != ONCE                ? requested
                          : row->measured[BB_OUT_OF_PLACE] ? BB_OUT_OF_PLACE
                                                           : BB_IN_PLACE;
    const struct bb_metrics none = {
        .algbw_gbps = NAN, .busbw_gbps = NAN, .iterations = {{.min = NAN, .max = NAN, .p99 = NAN}, NAN}};
    const struct bb_metrics *f = row->measured[placement] ? &row->metrics[placement] : &none;
    const struct bb_stats *us = &f->iterations.us;
    struct shown s = {.of = bb_show_case(&row->c, placement == BB_IN_PLACE, bb_bench_context_mode(r->ctx)),
                      .stopped = bb_stop_names[f->stop],
                      .iterations = r->ctx->iterations,
                      .repeats = r->ctx->repeats,
                      .channels = f->seen.choice.kind == BB_CHOICE_NONE ? -1 : f->seen.choice.channels,
                      .straggler = f->skew.known ? f->skew.straggler : -1,
                      .cycle = r->cycle,
                      .group = row->group,
                      .measured = row->measured[placement],
                      .forced = row->chosen != NULL,
                      /* The 99th percentile is undefined below 100 iterations: nccl-tests prints the maximum instead,
                       * busbar prints N/A. */
                      .p99_us = isfinite(us->p99) || !r->style->program ? us->p99 : us->max,
                      .variation_percent = 100 * f->iterations.variation,
                      .half_width_percent = 100 * bb_half_width(&f->time_us),
                      .f = *f};

    s.of.redop = bb_report_redop(r, row);
    s.of.time_us = f->time_us;
    s.of.algbw_gbps = f->algbw_gbps;
    s.of.busbw_gbps = f->busbw_gbps;
    s.of.wrong = f->checked ? (long long)f->wrong : -1;
    if (!f->skew.known)
        s.f.skew.transfer_us = NAN;
    s.expected_gbps = s.measured && !r->session->shared_gpu ? expected_busbw(r, row, placement) : NAN;
    s.of_expected = s.of.busbw_gbps / s.expected_gbps;
    format_gain(r, row, s.gain, sizeof s.gain);
    bb_report_stamp(s.timestamp);
    return s;
}

static json_t *skew_json(const void *shown)
{
    const struct bb_skew *skew = &((const struct shown *)shown)->f.skew;

    if (!skew->known)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o}", "spread_us", bb_json_stats(&skew->spread_us), "transfer_us",
                     bb_json_real(skew->transfer_us), "straggler",
                     skew->straggler >= 0 ? json_integer(skew->straggler) : json_null(), "straggler_share",
                     skew->straggler >= 0 ? json_real(skew->straggler_share) : json_null());
}

enum { FITTING = BB_DIGITS_THAT_FIT }; /* print as many digits as fit in the column */

#define SHOWS(name) BB_SHOWS(struct shown, name)
#define JSON(name)  BB_NAMED(struct shown, name)
static const struct bb_field run_fields[] = {
    JSON(iterations),
    JSON(repeats),
    {0},
};

static const struct bb_field cpu_fields[] = {{"time_us", "cputime", "(us)", BB_WIDTH_TIME, FITTING, SHOWS(of.time_us)},
                                             {0}};
static const struct bb_field iteration_fields[] = {
    {NULL, "i_min", "(us)", BB_WIDTH_TIME, FITTING, SHOWS(f.iterations.us.min)},
    {NULL, "i_max", "(us)", BB_WIDTH_TIME, FITTING, SHOWS(f.iterations.us.max)},
    {NULL, "i_p99", "(us)", BB_WIDTH_TIME, FITTING, SHOWS(p99_us)},
    {NULL, "i_cv%", "(%)", BB_WIDTH_TIME, FITTING, SHOWS(variation_percent)},
    {0},
};

/* JSON fields of each result, in the order in which they are written. An element with only a key reserves the
 * position of a key whose value result_row.c sets later. */
static const struct bb_field result_fields[] = {
    {.key = "algorithm"},
    {.key = "protocol"},
    {.key = "channels"},
    {.key = "flags"},
    {"samples", SHOWS(f.time_us.n)},
    JSON(stopped),
    {"warmed", SHOWS(f.warmed)},
    {"start_barrier", SHOWS(f.uses_start_barrier)},
    {"host_us", SHOWS(f.host_us)},
    {"first_us", SHOWS(f.first_us)},
    {"wall_us", SHOWS(f.wall_us)},
    {"event_us", SHOWS(f.event_us)},
    {"skew", .value = skew_json},
    {.key = "gpu"},
    {"model_us", SHOWS(f.model_us)},
    {0},
};

/* Arrival skew of the ranks (struct bb_skew). These columns come after the columns of nccl-tests, so that parsers of
 * nccl-tests' table keep working. */
static const struct bb_field skew_fields[] = {
    {NULL, "transfer", "(us)", BB_WIDTH_TIME, FITTING, SHOWS(f.skew.transfer_us)},
    {NULL, "spread", "(us)", BB_WIDTH_TIME, FITTING, SHOWS(f.skew.spread_us)},
    {NULL, "last", "(rank)", 6, 0, SHOWS(straggler), .none = "-"},
    {0},
};

static const struct bb_field wall_fields[] = {{NULL, "wall", "(us)", BB_WIDTH_TIME, FITTING, SHOWS(f.wall_us)}, {0}};

/* Half the width of the 95 % confidence interval of the median, as part of the median. */
static const struct bb_field ci95_fields[] = {
    {NULL, "ci95", "(+-%)", BB_WIDTH_TIME, FITTING, SHOWS(half_width_percent), .none = "-"}, {0}};

static const struct bb_field expected_fields[] = {
    {"expected_busbw_gbps", "expected", "(GB/s)", 8, FITTING, SHOWS(expected_gbps), .none = "-"},
    {"of_expected", "reached", "", 8, 0, SHOWS(of_expected), .form = BB_FORM_PERCENT, .none = "-"},
    {0},
};

static const struct bb_field choice_fields[] = {
    {NULL, "algorithm", "", 14, 0, SHOWS(f.seen.choice.algorithm), .none = "-"},
    {NULL, "protocol", "", 8, 0, SHOWS(f.seen.choice.protocol), .none = "-"},
    {NULL, "channels", "", 8, 0, SHOWS(channels), .none = "-"},
    {NULL, "model", "(us)", BB_WIDTH_TIME, FITTING, SHOWS(f.model_us), .none = "-"},
    {0},
};

static const struct bb_field forced_fields[] = {
    {NULL, "gain", "(own/this)", 13, 0, SHOWS(gain)},
    JSON(forced),
    {0},
};
static const struct bb_field each_fields[] = {
    {"iteration_us", SHOWS(f.iterations.us)},
    {"iteration_variation", SHOWS(f.iterations.variation)},
    {0},
};
static const struct bb_field group_fields[] = {{"group", "group", "", 5, 0, SHOWS(group)}, {0}};
static const struct bb_field cycle_fields[] = {JSON(cycle), {0}};
static const struct bb_field stamp_fields[] = {
    {"timestamp", "timestamp", "%Y-%m-%d %H:%M:%S", 19, 0, SHOWS(timestamp)},
    {0},
};

/* A list of fields, the outputs (text, JSON) in which the fields appear, and the buffer placement (out of place, in
 * place) whose values the text shows. */
struct list {
    const struct bb_field *fields;
    int placement; /* BB_OUT_OF_PLACE or BB_IN_PLACE; ONCE: the placement that was measured first */
    bool in_text, in_json;
};
enum { LISTS = 19 };

static bool shows_skew(const struct bb_report *r)
{
    return r->ctx->mode->single && !r->style->program;
}

/* Returns whether the table has the column `wall`: only if --clock both adds a sample timed by the host clock. The
 * column shows the buffer placement that was measured first (ONCE); the JSON contains both placements. */
static bool shows_wall(const struct bb_report *r, const struct bb_mode *mode)
{
    return r->ctx->both_clocks && !r->ctx->host_time && !mode->single && !r->style->program;
}

/* Returns whether the table has the confidence interval of the median, of the placement that was measured first. */
static bool shows_ci95(const struct bb_report *r)
{
    return r->ctx->policy.confidence > 0 && !r->style->program;
}

/* Returns whether the table has the minimum, maximum, 99th percentile and variation of the iterations (-I). */
static bool shows_iterations(const struct bb_report *r)
{
    return r->ctx->iteration_events || (r->options->per_iteration && r->ctx->mode->single);
}

/* Stores all lists of fields in `lists`, in the order of the table's columns and of the JSON's keys. Returns
 * `lists`. */
static const struct list *choose_lists(const struct bb_report *r, struct list lists[LISTS])
{
    const struct bb_sampling_options *o = &r->options->sampling;
    const struct bb_field *times = r->ctx->host_time ? cpu_fields : bb_time_fields;
    const bool each = shows_iterations(r), groups = r->ctx->groups, stamps = r->options->timestamps;
    const struct list all[LISTS] = {
        {bb_case_fields, ONCE, true, true},
        {run_fields, ONCE, false, true},
        {times, BB_OUT_OF_PLACE, true, true},
        {bb_metric_fields, BB_OUT_OF_PLACE, true, true},
        {iteration_fields, BB_OUT_OF_PLACE, each, false},
        {times, BB_IN_PLACE, true, false},
        {bb_metric_fields, BB_IN_PLACE, true, false},
        {iteration_fields, BB_IN_PLACE, each, false},
        {result_fields, ONCE, false, true},
        {skew_fields, ONCE, shows_skew(r), false},
        {wall_fields, ONCE, shows_wall(r, r->ctx->mode), false},
        {ci95_fields, ONCE, shows_ci95(r), false},
        {expected_fields, ONCE, r->expected, r->expected},
        {choice_fields, ONCE, o->sweep_algorithms || o->show_choice, false},
        {forced_fields, ONCE, o->sweep_algorithms, o->sweep_algorithms},
        {each_fields, ONCE, false, each},
        {group_fields, ONCE, groups && !r->style->program, groups},
        {cycle_fields, ONCE, false, r->options->cycles != 1},
        {stamp_fields, ONCE, stamps, stamps},
    };

    return memcpy(lists, all, sizeof all);
}

/* Prints one line of the table: the row, or, with row NULL, the column headings (`units` false) or their units
 * (`units` true). */
static void print_line(const struct bb_report *r, const struct bb_row *row, bool units)
{
    struct bb_line line = {.out = r->out, .widths = r->style->widths};
    struct list lists[LISTS];

    for (const struct list *l = choose_lists(r, lists); l < lists + LISTS; l++) {
        if (l->in_text && !row)
            bb_line_heading(&line, l->fields, units);
        if (l->in_text && row) {
            const struct shown s = show_placement(r, row, l->placement);
            line.none = r->style->program && s.measured ? "0.00" : "N/A"; /* parsers of nccl-tests' table expect a
                                                                           number */
            bb_line_row(&line, l->fields, &s);
        }
    }
    bb_line_end(&line);
    fflush(r->out);
}

/* ---- lines above the table ---- */

static void print_sizes(FILE *out, const struct bb_bench_options *o)
{
    if (o->sizes)
        fprintf(out, "# sizes %s (one row for sizes that are rounded down to the same count)", o->sizes);
    else if (o->factor <= 1 && o->step_bytes > 0)
        fprintf(out, "# minBytes %zu maxBytes %zu step: %zu(bytes)", o->min_bytes, o->max_bytes, o->step_bytes);
    else
        fprintf(out, "# minBytes %zu maxBytes %zu step: %g(factor)", o->min_bytes, o->max_bytes, bb_bench_factor(o));
    fprintf(out, " warmup iters: %d iters: %d repeats: %d validate: %d\n", o->warmup, o->iterations, o->repeats,
            o->checks);
}

/* Prints the settings that differ from the defaults. */
static void print_settings(const struct bb_report *r)
{
    const struct bb_bench_options *o = r->options;
    char text[BB_DEVICE_TEXT];
    FILE *out = r->out;

    if (o->aggregate > 1)
        fprintf(out, "# agg iters: %d operations in one NCCL group per iteration, times are per operation%s\n",
                o->aggregate, shows_iterations(r) ? ", i_min, i_max and i_p99 per iteration" : "");
    if (o->graph_launches > 0)
        fprintf(out, "# graph: %d launch%s per sample after one untimed launch\n", o->graph_launches,
                o->graph_launches == 1 ? "" : "es");
    if (o->unalign > 0)
        fprintf(out, "# unalign: buffers are offset by %d element%s\n", o->unalign, bb_plural(o->unalign));
    if (o->null_stream)
        fprintf(out, "# stream: null stream\n");
    if (o->device)
        fprintf(out, "# kernels: busbar's own on NCCL's device API (%s), %d CTAs of %d threads%s\n", o->device,
                o->device_ctas, BB_DEVICE_THREADS, o->element_wise ? ", element by element" : "");
    if ((o->device || r->full) && bb_device_properties(r->ctx->comm, text))
        fprintf(out, "# device API: %s\n", bb_device_properties(r->ctx->comm, text));
    if (o->registration)
        fprintf(out, "# registration of buffers: %s\n", bb_registration_names[r->registration->kind]);
    if (o->min_ctas > 0 || o->max_ctas > 0 || o->cta_policy >= 0)
        fprintf(out, "# CTAs: minimum %d, maximum %d (0: NCCL's choice), policy %d (-1: NCCL's choice)\n", o->min_ctas,
                o->max_ctas, o->cta_policy);
}

enum { GROUPS_SHOWN = 8 };

static void print_groups(const struct bb_report *r)
{
    char text[BB_GROUP_TEXT];
    int n = 0;

    for (int rank = 0; r->ctx->groups && rank < r->ctx->world->size; rank++)
        if (bb_group_leader(r->groups, r->groups[rank]) == rank && n++ < GROUPS_SHOWN)
            fprintf(r->out, "# %s\n", bb_group_text(r->ctx->world, r->groups, r->groups[rank], text));
    if (n > GROUPS_SHOWN)
        fprintf(r->out, "# .. %d groups, listed in the results (--json, groups)\n", n);
}

static void print_time(const struct bb_report *r, const struct bb_mode *mode)
{
    const bool host = r->ctx->host_time || r->ctx->host_clock;
    const char *help = host ? bb_bench_context_method(r->ctx) : mode->help;
    const char *name = r->ctx->host_time ? bb_bench_context_mode(r->ctx) : mode->name;
    const char *comm = r->ctx->comm->blocking ? "blocking" : "non-blocking";
    char samples[80]; /* how the samples become the time of a row, such as "median of 6 samples" */

    if (r->ctx->policy.confidence > 0)
        snprintf(samples, sizeof samples, "median, sampled until its 95 %% confidence interval is within +-%g %%",
                 100 * r->ctx->policy.confidence);
    else
        snprintf(samples, sizeof samples, "median of %zu sample%s", bb_mode_batch(r->ctx, mode),
                 bb_plural(bb_mode_batch(r->ctx, mode)));
    if (mode->single)
        fprintf(r->out, "# time: %s (%s mode)", help, name);
    else if (r->options->aggregate > 1)
        fprintf(r->out, "# time: %d iteration%s of %d %s, divided by %d (%s mode)", r->ctx->iterations,
                bb_plural(r->ctx->iterations), r->options->aggregate, help, r->ctx->iterations * r->options->aggregate,
                name);
    else
        fprintf(r->out, "# time: %d %s, divided by %d (%s mode)", r->ctx->iterations, help, r->ctx->iterations, name);
    fprintf(r->out, "%s: %s; row: %s%s%s%s\n", r->full ? "\n#       sample" : "; sample",
            bb_rank_aggregation_names[r->ctx->rank_aggregation], samples, r->full ? "; " : "", r->full ? comm : "",
            r->full ? " communicator; 1 GB/s = 1e9 bytes/s" : "");
    if (r->one_line)
        return;
    if (r->full && mode == &bb_mode_stream && r->ctx->uses_start_barrier)
        fprintf(r->out, "#       operations are held until all ranks have enqueued them (--start-barrier)\n");
    if (shows_wall(r, mode))
        fprintf(r->out, "#       wall: one sample by the host clock, including launches and the final wait, as in "
                        "nccl-tests (--clock)\n");
    if (mode->single)
        fprintf(r->out,
                "#       transfer: time of the last rank to arrive; spread: time from the first to the last arrival\n");
}

void bb_report_emulated_note(const struct bb_report *r)
{
    bool kernels = r->options->device;

    for (int i = 0; i < r->options->n_variants; i++)
        kernels |= bb_variant_kinds[r->options->variants[i]].device;
    if (r->ctx->device->emulated)
        bb_print_emulated_note(r->out, "",
                               r->ctx->host_time ? " (except the host's time to enqueue, measured on this machine)"
                               : kernels         ? " (not of device API kernels' SMs, CTAs and contention)"
                                                 : "");
}

static void print_method(const struct bb_report *r)
{
    const struct bb_bench_options *o = r->options;
    const char *checked = r->ctx->modes[r->ctx->n_modes - 1]->own_check ? "a last launch of the graph" : NULL;
    FILE *out = r->out;

    if (r->full)
        fprintf(out, "#\n");
    for (int i = 0; i < r->ctx->n_modes; i++)
        print_time(r, r->ctx->modes[i]);
    if (o->sampling.delay)
        fprintf(out, "# delays of ranks in sync mode (--delay RANK:US,...): %s\n", o->sampling.delay);
    if (o->checks > 0 && r->full)
        fprintf(out, "# #wrong: elements and guard bytes that differ after %s%s%s\n",
                checked && r->ctx->n_modes == 1 ? "" : "the last timed operation",
                checked && r->ctx->n_modes > 1 ? ", or " : "", checked ? checked : "");
    else if (o->checks == 0)
        fprintf(out, "# not verified (-c 0)\n");
    bb_report_emulated_note(r);
    if (o->sampling.sweep_algorithms && !r->one_line)
        fprintf(out, "# gain: speed-up over NCCL's choice (below 1: slower), per placement; *: significant\n");
    if (r->ctx->world->size == 1)
        fprintf(out, "# one rank: NCCL only copies memory, bus bandwidth does not apply; several: -g N, mpirun -n N, "
                     "srun --mpi=pmix -n N\n");
}

static void print_head(const struct bb_report *r)
{
    bb_session_print_head(r->session);
    print_groups(r);
    if (r->full)
        print_sizes(r->out, r->options);
    print_settings(r);
    print_method(r);
}

const struct bb_report_style bb_report_bench = {.widths = bb_case_widths, .head = print_head};

/* ---- lines around a table ---- */

static void print_title(const struct bb_report *r)
{
    if (r->full)
        fprintf(r->out, "#\n");
    bb_print_case_title(r->out, r->coll, r->ctx->n_modes > 1 ? r->ctx->mode->name : NULL);
    if (bb_colls[r->coll].flags & BB_COLL_VARIABLE_COUNTS && r->options->matrix && !r->style->program)
        fprintf(r->out, "# --matrix sets the size: the most bytes that a rank sends or receives\n");
    if (bb_colls[r->coll].flags & BB_COLL_ROUNDS && r->options->aggregate > 1)
        fprintf(r->out, "# -m: the operations of an iteration are not one NCCL group, because the rounds of this "
                        "collective depend on each "
                        "other\n");
    if (r->options->cycles != 1)
        fprintf(r->out, "# cycle %d\n", r->cycle + 1);
}

/* A table as one line. */
struct table_line {
    const char *collective, *mode;
    struct bb_table_counts counts;
    double mean_gbps;
    long long wrong; /* -1: a result was not verified */
};

#define LINE(member) BB_SHOWS(struct table_line, member)
static const struct bb_field summary_fields[] = {
    {NULL, "collective", "", 16, 0, LINE(collective), .form = BB_FORM_LEFT},
    {NULL, "mode", "", 6, 0, LINE(mode)},
    {NULL, "first size", "", 10, 0, LINE(counts.min_bytes), .form = BB_FORM_BYTES},
    {NULL, "time", "(us)", 11, FITTING, LINE(counts.first_us)},
    {NULL, "wall", "(us)", 8, FITTING, LINE(counts.first_wall_us), .none = "-"},
    {NULL, "last size", "", 10, 0, LINE(counts.max_bytes), .form = BB_FORM_BYTES},
    {NULL, "time", "(us)", 11, FITTING, LINE(counts.last_us)},
    {NULL, "busbw", "(GB/s)", 8, FITTING, LINE(counts.last_gbps)},
    {NULL, "mean busbw", "(GB/s)", 10, FITTING, LINE(mean_gbps)},
    {NULL, "#wrong", "", 6, 0, LINE(wrong), .none = "N/A"},
    {0},
};

static void print_table_line(const struct bb_report *r)
{
    const struct table_line line = {.collective = bb_colls[r->coll].name,
                                    .mode = bb_bench_context_mode(r->ctx),
                                    .counts = r->counts,
                                    .mean_gbps = bb_busbw_tally_mean(&r->counts.busbw),
                                    .wrong = r->counts.unchecked > 0 ? -1 : (long long)r->counts.wrong};

    bb_table_row(r->out, summary_fields, &line);
}

/* In nccl-tests' format, all cycles (repetitions of the sweep, -N) form one table: the first cycle begins the table,
 * and the last cycle ends it. */
void bb_report_begin(struct bb_report *r, int coll)
{
    const struct bb_line widths = {.widths = r->style->widths};

    if (r->style->program && r->cycle > 0)
        return;
    r->coll = coll;
    r->counts = (struct bb_table_counts){0};
    memset(r->tallies, 0, (size_t)r->ctx->world->size * (size_t)(r->n_thresholds + 1) * sizeof *r->tallies);
    memset(r->late, 0, (size_t)r->ctx->world->size * sizeof *r->late);
    r->counts.first_us = r->counts.first_wall_us = r->counts.last_us = r->counts.last_gbps = NAN;
    if (!r->out)
        return;
    if (r->one_line && r->options->sampling.sweep_algorithms) {
        print_title(r);
        return;
    }
    if (r->one_line) {
        if (!r->headed)
            bb_table_heading(r->out, summary_fields);
        r->headed = true;
        return;
    }
    if (!r->style->program)
        print_title(r);
    if (r->full)
        fprintf(r->out, "#\n");
    bb_print_placements(r->out, r->style->widths, shows_iterations(r) ? bb_line_width(&widths, iteration_fields) : 0);
    print_line(r, NULL, false);
    print_line(r, NULL, true);
}

/* ---- bus bandwidth thresholds ---- */

/* Returns whether the results of a group are counted at the index of the rank. */
static bool is_tally_rank(const struct bb_report *r, int rank)
{
    return bb_group_leader(r->groups, r->groups[rank]) == rank;
}

static struct bb_busbw_tally *tally_of(const struct bb_report *r, int rank, int threshold)
{
    return &r->tallies[(size_t)rank * (size_t)(r->n_thresholds + 1) + (size_t)threshold];
}

/* Results of smaller sizes depend on latencies, which no profile has exactly. They are not compared with --expect. */
static bool is_judged(const struct bb_report *r, const struct bb_case *c)
{
    return r->expected && bb_case_bytes(c) >= 1 << 20;
}

/* Returns whether a threshold applies to a case. Sizes are rounded down to whole slices, so a requested and a
 * measured size may differ. The function therefore compares their element counts, except for alltoallv with a matrix
 * file, where it compares the sizes. */
static bool threshold_applies(const struct bb_report *r, const struct bb_busbw_threshold *f, const struct bb_case *c)
{
    bool from_file = bb_colls[c->kind].flags & BB_COLL_VARIABLE_COUNTS && c->alltoallv_counts->bytes;

    if (f->from)
        return (!r->expected || is_judged(r, c)) &&
               bb_busbw_reference_matches(f->from, c, bb_bench_context_mode(r->ctx));
    if (f->scope != BB_BUSBW_SIZE)
        return true;
    return from_file ? bb_case_bytes(c) == f->bytes
                     : c->count == bb_coll_count(c->kind, f->bytes, c->ranks, bb_dtypes[c->dtype].bytes);
}

/* Returns the index of the first threshold from `i` on that is not only for another collective than that of the table. */
static int next_threshold(const struct bb_report *r, int i)
{
    while (i < r->n_thresholds && r->thresholds[i].coll && r->thresholds[i].coll != &bb_colls[r->coll])
        i++;
    return i;
}

/* Verdict on a criterion: a typed threshold in all groups, or all thresholds from a file in all groups. */
struct verdict {
    int first, end; /* thresholds of the criterion */
    int judged, failed;
    int threshold, rank; /* the worst result: its threshold, and the first rank of its group */
    double busbw_gbps;   /* the worst result; NaN: cannot be determined */
};

/* Returns the bus bandwidth of a group to compare with a threshold; NaN if ranks share a GPU, because times are then
 * meaningless. */
static double measured_busbw(const struct bb_report *r, int rank, int threshold)
{
    return r->session->shared_gpu
               ? NAN
               : bb_busbw_threshold_measured(&r->thresholds[threshold], tally_of(r, rank, threshold));
}

static bool is_below(const struct bb_report *r, int rank, int threshold)
{
    return !(measured_busbw(r, rank, threshold) >= r->thresholds[threshold].gbps);
}

/* Judges the criterion that begins with a threshold. Thresholds from a file for another collective are left out. */
static struct verdict judge(const struct bb_report *r, int first)
{
    struct verdict v = {first, r->thresholds[first].from ? r->n_thresholds : first + 1, 0, 0, first, 0, NAN};
    double worst = INFINITY;

    for (int i = v.first; i < v.end; i++)
        for (int rank = 0; rank < r->ctx->world->size; rank++) {
            const double busbw_gbps = measured_busbw(r, rank, i), ratio = busbw_gbps / r->thresholds[i].gbps;

            if (!is_tally_rank(r, rank) || (r->thresholds[i].from && tally_of(r, rank, i)->n == 0))
                continue;
            v.judged++;
            v.failed += is_below(r, rank, i);
            if (worst <= (isfinite(ratio) ? ratio : -1))
                continue;
            worst = isfinite(ratio) ? ratio : -1;
            v.threshold = i;
            v.rank = rank;
            v.busbw_gbps = busbw_gbps;
        }
    v.failed += v.judged == 0;
    return v;
}

/* Writes where the worst result of a verdict was measured: " in group 1 (ranks 2-3 on node2, node3)"; "" without
 * --split. */
static const char *where(const struct bb_report *r, const struct verdict *v, char text[BB_GROUP_TEXT + 8])
{
    char group[BB_GROUP_TEXT];

    text[0] = '\0';
    if (r->ctx->groups)
        snprintf(text, BB_GROUP_TEXT + 8, " in %s", bb_group_text(r->ctx->world, r->groups, r->groups[v->rank], group));
    return text;
}

/* Returns the number of significant digits, at least 6, with which two unequal values have different texts. */
static int digits_that_differ(double a, double b)
{
    char texts[2][32];
    int digits = 5;

    do {
        digits++;
        snprintf(texts[0], sizeof texts[0], "%.*g", digits, a);
        snprintf(texts[1], sizeof texts[1], "%.*g", digits, b);
    } while (digits < 17 && strcmp(texts[0], texts[1]) == 0);
    return digits;
}

/* Writes how many results or groups miss a criterion, or of how many the worst is printed; "" if there is only one. */
static const char *how_many(const struct bb_report *r, const struct verdict *v, char text[64])
{
    const char *what = r->thresholds[v->first].from ? "results" : "groups";

    text[0] = '\0';
    if (r->session->shared_gpu)
        return text;
    if (v->judged > 1 && v->failed)
        snprintf(text, 64, "; below in %d of %d %s", v->failed, v->judged, what);
    else if (v->judged > 1)
        snprintf(text, 64, "; the lowest against its limit among %d %s", v->judged, what);
    return text;
}

/* Appends the failures of a criterion to r->below. */
static void list_failures(const struct bb_report *r, const struct verdict *v)
{
    static const char *const scopes[] = {[BB_BUSBW_MEAN] = "mean", [BB_BUSBW_PEAK] = "peak", [BB_BUSBW_SIZE] = "size"};

    for (int i = v->first; i < v->end; i++)
        for (int rank = 0; rank < r->ctx->world->size; rank++) {
            const struct bb_busbw_threshold *t = &r->thresholds[i];

            if (!is_tally_rank(r, rank) || (t->from && tally_of(r, rank, i)->n == 0) || !is_below(r, rank, i))
                continue;
            json_array_append_new(
                r->below,
                json_pack("{s:s, s:s, s:s, s:o, s:s?, s:s?, s:s?, s:f, s:o, s:o}", "collective", bb_colls[r->coll].name,
                          "mode", bb_bench_context_mode(r->ctx), "scope", scopes[t->scope], "bytes",
                          t->scope == BB_BUSBW_SIZE ? json_integer((json_int_t)t->bytes) : json_null(), "dtype",
                          t->from ? t->from->dtype : NULL, "op", t->from ? t->from->op : NULL, "placement",
                          t->from ? t->from->placement : NULL, "required_gbps", t->gbps, "measured_gbps",
                          bb_json_real(measured_busbw(r, rank, i)), "group",
                          r->ctx->groups ? json_integer(r->groups[rank]) : json_null()));
        }
}

/* Writes what the mean consists of, because small sizes lower it; "" for other criteria. */
static const char *mean_of(const struct bb_report *r, const struct verdict *v, char text[160])
{
    const struct bb_table_counts *t = &r->counts;
    char first[BB_BYTES_TEXT], last[BB_BYTES_TEXT];

    text[0] = '\0';
    if (r->thresholds[v->threshold].scope == BB_BUSBW_MEAN && t->max_bytes > t->min_bytes)
        snprintf(text, 160, " (mean of sizes %s to %s, fastest result %.4g GB/s)", bb_format_bytes(t->min_bytes, first),
                 bb_format_bytes(t->max_bytes, last), tally_of(r, v->rank, v->threshold)->max);
    return text;
}

/* Writes how to find slow links between nodes; "" on one node. Between two nodes all links may be equally slow, which
 * only a limit for the links detects: for sendrecv that for the bus bandwidth, for others that of health. */
static const char *link_test(const struct bb_report *r, double limit_gbps, char text[112])
{
    if (r->coll == BB_SENDRECV)
        snprintf(text, 112, "; to find slow links: %s bench p2p --max-slow 0 --min-gbps %.4g", bb_environment_program(),
                 limit_gbps);
    else
        snprintf(text, 112, "; to find slow links: %s %s", bb_environment_program(),
                 r->ctx->world->nodes == 2 ? "health" : "bench p2p --max-slow 0");
    return r->ctx->world->nodes > 1 ? text : "";
}

/* Returns the option that sets the thresholds, for messages. */
static const char *limits_option(const struct bb_report *r)
{
    return r->options->min_of_expected ? "--min-of-expected" : "--min-busbw";
}

enum { SHORTFALL_TEXT = 768 };

/* Writes to text why a criterion is not met. Returns text. */
static const char *shortfall_text(const struct bb_report *r, const struct verdict *v, char text[SHORTFALL_TEXT])
{
    const struct bb_busbw_threshold *t = &r->thresholds[v->threshold];
    const char *mode = r->ctx->n_modes > 1 ? bb_bench_context_mode(r->ctx) : NULL;
    char what[64], size[BB_BYTES_TEXT], name[64], place[BB_GROUP_TEXT + 8], count[64], mean[160], links[112];
    char from[160] = "", *restricted = bb_json_restrictions(NULL, NULL);
    const char *of = bb_busbw_threshold_text(t, size);
    const int digits = digits_that_differ(v->busbw_gbps, t->gbps);

    snprintf(what, sizeof what, "%s%s%s%s", bb_colls[r->coll].name, mode ? " (" : "", mode ? mode : "",
             mode ? ")" : "");
    if (t->from && r->expected)
        snprintf(from, sizeof from, " (%g %% of the expected %g GB/s)", 100 * r->expected->fraction,
                 t->gbps / r->expected->fraction);
    else if (t->from)
        snprintf(from, sizeof from, " (%s)", r->options->min_busbw);
    else if (r->options->min_busbw_from_nccl_tests)
        snprintf(from, sizeof from, " (as nccl-tests, 90 %% of NCCL_TESTS_MIN_BW=%s)", getenv("NCCL_TESTS_MIN_BW"));
    if (t->from)
        snprintf(name, sizeof name, "bus bandwidth at %s (%s)", of, t->from->placement);
    else
        snprintf(name, sizeof name, t->scope == BB_BUSBW_SIZE ? "bus bandwidth at %s" : "%s bus bandwidth", of);
    if (isfinite(v->busbw_gbps))
        snprintf(text, SHORTFALL_TEXT, "%s: %s%s is %.*g GB/s, below the required %.*g GB/s%s%s%s%s%s%s", what, name,
                 where(r, v, place), digits, v->busbw_gbps, digits, t->gbps, from, mean_of(r, v, mean),
                 how_many(r, v, count), link_test(r, t->gbps, links), restricted ? "; restricted by " : "",
                 restricted ? restricted : "");
    else
        snprintf(text, SHORTFALL_TEXT, "%s: cannot check the bus bandwidth (%s, %s): %s", what, limits_option(r), of,
                 r->session->shared_gpu   ? bb_session_sharing(r->session)
                 : r->counts.busbw.n == 0 ? "no result has a bus bandwidth"
                 : r->expected && t->bytes < 1 << 20
                     ? "results below 1 MiB depend on latencies and are not compared; try: -b 1M"
                     : "no result has this size");
    free(restricted);
    return text;
}

/* Adds a criterion to r->checks. reason: why it is not met; "": it is. */
static void add_criterion(const struct bb_report *r, const struct verdict *v, const char *reason)
{
    const struct bb_busbw_threshold *t = &r->thresholds[v->threshold];
    char name[128], size[BB_BYTES_TEXT];

    snprintf(name, sizeof name, "%s %s: bus bandwidth, %s", bb_colls[r->coll].name, bb_bench_context_mode(r->ctx),
             t->from ? "lowest against its limit" : bb_busbw_threshold_text(t, size));
    bb_checks_add(r->checks, &(struct bb_check){.check = name,
                                                .status = *reason ? BB_CHECK_FAIL : BB_CHECK_OK,
                                                .measured = v->busbw_gbps,
                                                .expected = t->gbps,
                                                .unit = "GB/s",
                                                .reason = reason});
}

/* Prints an error for each criterion that is not met. Returns true if there is one. */
static bool check_thresholds(const struct bb_report *r)
{
    char reason[SHORTFALL_TEXT];
    bool below = false;

    for (int i = next_threshold(r, 0); i < r->n_thresholds;) {
        const struct verdict v = judge(r, i);

        i = next_threshold(r, v.end);
        add_criterion(r, &v, v.failed ? shortfall_text(r, &v, reason) : "");
        if (v.failed == 0)
            continue;
        below = true;
        list_failures(r, &v);
        (void)bb_err_job(BB_EBELOW, "%s", reason);
    }
    return below;
}

const char *bb_report_mean_verdict(const struct bb_report *r)
{
    const char *verdict = NULL;

    for (int i = next_threshold(r, 0); i < r->n_thresholds; i = next_threshold(r, i + 1))
        if (r->thresholds[i].scope == BB_BUSBW_MEAN)
            verdict = judge(r, i).failed || (verdict && strcmp(verdict, "FAILED") == 0) ? "FAILED" : "OK";
    return verdict;
}

/* The lowest result below this fraction of its expectation is a warning, as in health. */
static const double EXPECTED_WARN = 0.93;

/* A group is reported as slow if its mean bus bandwidth is below this fraction of the median of the groups. */
static const double SLOW_GROUP = 0.95;

/* With --split, prints the slowest group if it is slow. */
static void print_slowest_group(const struct bb_report *r)
{
    const int ranks = r->ctx->world->size;
    struct verdict slowest = {.busbw_gbps = INFINITY};
    struct bb_stats stats;
    char place[BB_GROUP_TEXT + 8];
    double *means;
    size_t n = 0;

    if (!r->ctx->groups || r->style->program)
        return;
    BB_NEW(means, ranks);
    for (int rank = 0; rank < ranks; rank++) {
        const double mean = is_tally_rank(r, rank) ? bb_busbw_tally_mean(tally_of(r, rank, r->n_thresholds)) : NAN;

        if (!isfinite(mean))
            continue;
        means[n++] = mean;
        if (mean < slowest.busbw_gbps)
            slowest = (struct verdict){.rank = rank, .busbw_gbps = mean};
    }
    bb_stats_compute(means, n, &stats);
    if (slowest.busbw_gbps < SLOW_GROUP * stats.p50)
        fprintf(r->out,
                n == 2 ? "# Slowest group        : %g GB/s%s; the other group %g GB/s\n"
                       : "# Slowest group        : %g GB/s%s; median of the groups %g GB/s\n",
                slowest.busbw_gbps, where(r, &slowest, place), n == 2 ? 2 * stats.p50 - slowest.busbw_gbps : stats.p50);
    free(means);
}

/* Prints a line for each criterion that is not printed otherwise; in tables of one line, for each that is not met. */
static void print_criteria(const struct bb_report *r)
{
    char size[BB_BYTES_TEXT], found[80], place[BB_GROUP_TEXT + 8], count[64];

    for (int i = next_threshold(r, 0); i < r->n_thresholds;) {
        const struct verdict v = judge(r, i);
        const struct bb_busbw_threshold *t = &r->thresholds[v.threshold];
        const int digits = digits_that_differ(v.busbw_gbps, t->gbps);

        i = next_threshold(r, v.end);
        if (r->one_line ? !v.failed : t->scope == BB_BUSBW_MEAN)
            continue;
        if (isfinite(v.busbw_gbps))
            snprintf(found, sizeof found, "%.*g GB/s", digits, v.busbw_gbps);
        else if (r->session->shared_gpu)
            snprintf(found, sizeof found, "not judged, because %s", bb_session_sharing(r->session));
        else
            snprintf(found, sizeof found, "no result to judge");
        fprintf(r->out, "# Bus bandwidth, %s %s: %s, required %.*g: %s%s%s\n", bb_colls[r->coll].name,
                bb_busbw_threshold_text(t, size), found, digits, t->gbps, v.failed ? "FAILED" : "OK",
                v.failed ? where(r, &v, place) : "", how_many(r, &v, count));
    }
}

/* Prints the mean bus bandwidth and its verdict in nccl-tests' line "# Avg bus bandwidth". */
static void print_busbw(const struct bb_report *r)
{
    const double mean = bb_busbw_tally_mean(&r->counts.busbw); /* NaN: no result has a bus bandwidth */
    const char *verdict = bb_report_mean_verdict(r);
    char found[32];

    snprintf(found, sizeof found, "%g", mean);
    if (!isfinite(mean) && r->style->program)
        fprintf(r->out, "# Avg bus bandwidth    : 0\n");
    else
        fprintf(r->out, "# Avg bus bandwidth    : %s%s%s\n", isfinite(mean) ? found : "N/A", verdict ? " " : "",
                verdict ? verdict : "");
    print_slowest_group(r);
}

/* Parts of the program that occupy device memory, each with the points of the run before and after its allocations. */
static const struct {
    const char *name, *key;
    enum bb_memory_point from, to;
} memory_parts[] = {
    {"Initialization", "initialization", BB_MEMORY_START, BB_MEMORY_INIT},
    {"User-Allocated", "user_allocated", BB_MEMORY_INIT, BB_MEMORY_BUFFERS},
    {"Collective", "collective", BB_MEMORY_BUFFERS, BB_MEMORY_END},
    {"Total", "total", BB_MEMORY_START, BB_MEMORY_END},
};
enum { MEMORY_PARTS = sizeof memory_parts / sizeof *memory_parts };

static size_t bytes_taken(const struct bb_report *r, int part)
{
    const size_t before = r->free_bytes[memory_parts[part].from], after = r->free_bytes[memory_parts[part].to];

    return before > after ? before - after : 0;
}

static void print_memory(const struct bb_report *r)
{
    char text[BB_BYTES_TEXT];

    fprintf(r->out, "# GPU memory usage     :");
    for (int i = 0; i < MEMORY_PARTS; i++)
        fprintf(r->out, "%s %s %s", i ? " |" : "", memory_parts[i].name, bb_format_bytes(bytes_taken(r, i), text));
    fputc('\n', r->out);
}

/* Prints the rank that arrived last in most results (of several, by the longest time) and the number of other ranks that
 * did in some. */
static void print_skew(const struct bb_report *r)
{
    const struct bb_late_rank *most = r->late;
    char spread[BB_TIME_TEXT], rest[48] = "";
    int others = -1;

    for (const struct bb_late_rank *l = r->late; l < r->late + r->ctx->world->size; l++) {
        others += l->results > 0;
        if (l->results > most->results || (l->results == most->results && l->spread_us > most->spread_us))
            most = l;
    }
    bb_format_time(others < 0 ? r->counts.worst_spread_us : most->spread_us, spread);
    if (others > 0)
        snprintf(rest, sizeof rest, "; %d other rank%s in others", others, bb_plural(others));
    if (others < 0)
        fprintf(r->out, "# Straggler: none, ranks arrived within %s of each other\n", spread);
    else
        fprintf(r->out, "# Straggler: rank %d arrived last in %llu of %llu results, by up to %s%s\n",
                (int)(most - r->late), most->results, r->counts.results, spread, rest);
}

static void print_warnings(const struct bb_report *r, const unsigned long long warned[BB_WARN_COUNT],
                           unsigned long long results)
{
    for (int i = 0; i < BB_WARN_COUNT; i++)
        if (warned[i] > 0 && !r->style->program && (i != BB_WARN_NOT_CHECKED || (r->full && r->options->checks > 0)))
            fprintf(r->out, "# warning %s, %llu of %llu results: %s; try: %s\n", bb_warnings[i].word, warned[i],
                    results, bb_warnings[i].text, bb_warnings[i].advice);
}

static void print_footer(const struct bb_report *r)
{
    const struct bb_table_counts *t = &r->counts;

    if (r->one_line && !r->options->sampling.sweep_algorithms)
        print_table_line(r);
    if (t->unchecked > 0 && r->full && !r->style->program)
        fprintf(r->out, "# Out of bounds values : N/A (%llu of the results above were not verified)\n", t->unchecked);
    else if (r->full)
        fprintf(r->out, "# Out of bounds values : %llu %s\n", t->wrong, t->wrong ? "FAILED" : "OK");
    if (!r->one_line || r->options->sampling.sweep_algorithms)
        print_busbw(r);
    print_criteria(r);
    if (shows_skew(r) && !r->one_line && r->ctx->world->size > 1)
        print_skew(r);
    if (!r->full)
        return;
    print_warnings(r, t->warned, t->results);
    fprintf(r->out, "#\n# Collective test concluded: %s\n",
            r->style->program ? r->style->program : bb_colls[r->coll].name);
    if (r->options->memory)
        print_memory(r);
    if (r->style->program)
        fprintf(r->out, "#\n");
}

/* Prints how far a result is below the expectation, and what restricts it, or else how to find the cause. */
static void print_slow(const struct bb_report *r)
{
    char *restricted = bb_json_restrictions(NULL, NULL);

    fprintf(r->out, "SLOW: %.0f %% of the expected bus bandwidth (%s); ", 100 * r->lowest, r->lowest_result);
    if (restricted)
        fprintf(r->out, "restricted by %s; ", restricted);
    else
        fprintf(r->out, "to find the slow part, try: %s health; ", bb_environment_program());
    fputs("for exit status 5, try: --min-of-expected 90%; ", r->out);
    free(restricted);
}

/* Prints the last line of a report without --full: wrong data or a missed limit first. */
static void print_verdict(const struct bb_report *r)
{
    const struct bb_run_counts *t = &r->all;
    const bool has_shortest = t->shortest_us >= 0.005; /* shorter: a copy on one rank of the emulated GPUs */

    print_warnings(r, t->warned, t->results);
    if (r->options->memory)
        print_memory(r);
    if (t->wrong > 0)
        bb_print_wrong_data(r->out, r->ctx->world, t->wrong, t->wrong_rank, "; ");
    else
        fputs("# ", r->out);
    if (r->n_thresholds > 0)
        fprintf(r->out, "%s: %s; ", limits_option(r), t->below ? "FAILED" : "OK");
    else if (r->n_ratios > 0 && r->lowest < EXPECTED_WARN && !r->expected->other_nodes)
        print_slow(r);
    if (t->unchecked > 0)
        fprintf(r->out, "data not verified (%s) in %llu of %llu results",
                r->options->checks == 0              ? "-c 0"
                : !bb_session_moves_data(r->session) ? "EMU_DATA=off"
                                                     : "not compared",
                t->unchecked, t->results);
    else if (r->options->checks > 1)
        fprintf(r->out, "last operation of each row and %d more verified", r->options->checks - 1);
    else
        fprintf(r->out, "last operation of each row verified (more: -c N)");
    if (r->gain)
        fprintf(r->out, "; %s", r->gain);
    else if (has_shortest)
        fprintf(r->out, "; shortest %s %.2f us (%s)", r->ctx->host_time ? "time of the host to enqueue" : "time",
                t->shortest_us, t->shortest);
    if (t->highest_gbps > 0)
        fprintf(r->out, "%s highest bus bandwidth %.2f GB/s (%s)", r->gain || !has_shortest ? ";" : ",",
                t->highest_gbps, t->highest);
    fputc('\n', r->out);
}

/* Returns the machine or file that the expected bus bandwidths are from. */
static const char *expected_source(const struct bb_report *r)
{
    return r->expected->is_forecast && r->expected->file.root ? bb_result_file_predicted(&r->expected->file)
                                                              : r->expected->path;
}

/* Prints one line: how much of the expected bus bandwidth the results reach. */
static void print_of_expected(const struct bb_report *r, double median)
{
    if (r->expected->n == 0)
        return;
    if (r->expected->missing > 0)
        fprintf(r->out, "# %s: %s has no result of %d of the rows, first of %s\n",
                r->one_line ? "not compared" : "\"-\"", expected_source(r), r->expected->missing,
                r->expected->first_missing);
    if (r->n_ratios == 0)
        fprintf(r->out, "# expected by %s: %s%s\n", expected_source(r),
                r->session->shared_gpu ? "not compared, because " : "",
                r->session->shared_gpu ? bb_session_sharing(r->session) : "no result of 1 MiB or more to compare");
    else
        fprintf(r->out,
                "# reached: %.0f %% of the expected bus bandwidth (median of %zu results of 1 MiB or more), lowest "
                "%.0f %% (%s); expected from %s%s\n",
                100 * median, r->n_ratios, 100 * r->lowest, r->lowest_result, expected_source(r),
                r->expected->other_nodes ? "; not judged: nodes of this job have other numbers of ranks"
                : median > 1.15          ? "; warning: wrong profile?"
                                         : "");
}

/* Prints and saves how much of the expected bus bandwidth the results reach. */
static int report_of_expected(const struct bb_report *r)
{
    struct bb_stats ratios = {.p50 = NAN};

    if (r->n_ratios > 0)
        bb_stats_compute(r->ratios, r->n_ratios, &ratios);
    if (r->out && r->all.results > 0)
        print_of_expected(r, ratios.p50);
    return bb_results_set(r->session->json, "expected",
                          json_pack("{s:s, s:i, s:o, s:o, s:s}", "source", expected_source(r), "results",
                                    (int)r->n_ratios, "median", bb_json_real(ratios.p50), "lowest",
                                    bb_json_real(r->n_ratios ? r->lowest : NAN), "lowest_result", r->lowest_result));
}

/* Prints the variables that can explain a shortfall, where the bus bandwidth is judged. */
static void print_restrictions(const struct bb_report *r)
{
    char *restricted = r->expected || r->n_thresholds > 0 ? bb_json_restrictions(NULL, NULL) : NULL;

    if (restricted)
        fprintf(r->out, "# restricted by %s, which can lower the bus bandwidth\n", restricted);
    free(restricted);
}

/* Adds to r->checks whether the data were right, and the lowest result against --expect, which without a limit is at
 * worst a warning. */
static void add_run_checks(const struct bb_report *r)
{
    const struct bb_run_counts *t = &r->all;
    char reason[160] = "";

    if (t->results > t->unchecked || t->wrong > 0) {
        if (t->wrong > 0)
            snprintf(reason, sizeof reason, "%llu element%s wrong, first on rank %d (%s)", t->wrong,
                     t->wrong == 1 ? " is" : "s are", t->wrong_rank, r->ctx->world->hosts[t->wrong_rank]);
        bb_checks_add(r->checks, &(struct bb_check){.check = "data",
                                                    .status = t->wrong > 0 ? BB_CHECK_FAIL : BB_CHECK_OK,
                                                    .measured = NAN,
                                                    .expected = NAN,
                                                    .reason = reason});
    }
    if (r->expected && r->n_ratios > 0) {
        snprintf(reason, sizeof reason, "%.0f %% of the expectation in %s", 100 * r->lowest, r->lowest_result);
        bb_checks_add(r->checks, &(struct bb_check){.check = "lowest result / expected bus bandwidth",
                                                    .status = r->expected->other_nodes    ? BB_CHECK_UNKNOWN
                                                              : r->lowest < EXPECTED_WARN ? BB_CHECK_WARN
                                                                                          : BB_CHECK_OK,
                                                    .measured = r->lowest,
                                                    .expected = 1,
                                                    .unit = "ratio",
                                                    .reason = reason});
    }
}

int bb_report_close(const struct bb_report *r)
{
    struct bb_results *results = r->session->json;
    json_t *object;
    int rc = 0;

    if (r->expected && r->session->world.rank == 0)
        TRY(report_of_expected(r));
    if (r->out && !r->style->program)
        print_restrictions(r);
    if (r->out && !r->full && r->all.results > 0)
        print_verdict(r);
    if (r->style->json_end)
        return results ? r->style->json_end(r) : 0;
    add_run_checks(r);
    if (results && r->n_thresholds > 0)
        TRY(bb_results_set(results, "below", json_incref(r->below)));
    if (json_array_size(r->checks) > 0)
        TRY(bb_results_set(results, "checks", json_incref(r->checks)));
    if (!results || !r->options->memory)
        return 0;
    object = json_object();
    for (int i = 0; i < MEMORY_PARTS; i++)
        json_object_set_new(object, memory_parts[i].key, json_integer((json_int_t)bytes_taken(r, i)));
    rc = bb_results_set(results, "memory_bytes", object);
out:
    return rc;
}

bool bb_report_end(struct bb_report *r)
{
    bool below;

    if (r->style->program && r->cycle + 1 != r->options->cycles)
        return false;
    if (r->out) {
        print_footer(r);
        fflush(r->out);
    }
    below = check_thresholds(r);
    r->all.below |= below;
    return below;
}

void bb_report_skip(struct bb_report *r, int coll)
{
    r->coll = coll;
    if (r->out && r->style->program)
        bb_report_begin(r, coll);
    if (r->out)
        fprintf(r->out, "%s# %s: the number of ranks per group is not a power of 2, skipping\n", r->full ? "#\n" : "",
                bb_colls[coll].name);
    if (r->style->program)
        (void)bb_report_end(r);
}

/* ---- results ---- */

static int save_result(const struct bb_report *r, const struct bb_row *row, int placement)
{
    const struct shown s = show_placement(r, row, placement);
    json_t *result = json_object(), *flags = bb_result_flags(r->session);
    struct list lists[LISTS];

    for (const struct list *l = choose_lists(r, lists); l < lists + LISTS; l++)
        if (l->in_json)
            bb_table_json(result, l->fields, &s);
    for (int i = 0; i < BB_WARN_COUNT; i++)
        if (s.f.warnings & 1u << i)
            json_array_append_new(flags, json_string(bb_warnings[i].word));
    return bb_result_save(r->session, result, &s.f.seen, flags, s.f.seen.gpu_flags);
}

/* Keeps the results of the smallest and the largest size, and the best ones of the run, with their mode if it has several. */
static void count_extremes(struct bb_report *r, const struct bb_case *c, const struct bb_metrics *f)
{
    struct bb_table_counts *t = &r->counts;
    struct bb_run_counts *all = &r->all;
    const char *mode = r->ctx->n_modes > 1 ? bb_bench_context_mode(r->ctx) : "";
    char bytes[BB_BYTES_TEXT], what[sizeof all->shortest];

    if (f->bytes == 0 ||
        (c->ranks == 1 && r->ctx->world->size > 1)) /* nothing is sent: rounded down, or a group of one */
        return;
    if (isnan(t->first_us) || f->bytes < t->min_bytes) {
        t->min_bytes = f->bytes;
        t->first_us = f->time_us.p50;
        t->first_wall_us = shows_wall(r, r->ctx->mode) ? f->wall_us.p50 : NAN;
    }
    if (isnan(t->last_us) || f->bytes > t->max_bytes) {
        t->max_bytes = f->bytes;
        t->last_us = f->time_us.p50;
        t->last_gbps = f->busbw_gbps;
    }
    snprintf(what, sizeof what, "%s, %s%s%s", bb_colls[c->kind].name, bb_format_bytes(f->bytes, bytes),
             *mode ? ", " : "", mode);
    if (f->time_us.p50 > 0 && (!all->shortest[0] || f->time_us.p50 < all->shortest_us)) { /* 0: nothing was launched */
        all->shortest_us = f->time_us.p50;
        memcpy(all->shortest, what, sizeof what);
    }
    if (f->busbw_gbps > all->highest_gbps) {
        all->highest_gbps = f->busbw_gbps;
        memcpy(all->highest, what, sizeof what);
    }
}

/* Adds the part of the expected bus bandwidth that a result reaches. NaN is ignored, and so are ranks that share a GPU. */
static void add_ratio(struct bb_report *r, const struct bb_case *c, int group, double ratio)
{
    char bytes[BB_BYTES_TEXT], of[24] = "";

    if (!isfinite(ratio) || r->session->shared_gpu)
        return;
    if (r->n_ratios == 0 || ratio < r->lowest) {
        r->lowest = ratio;
        if (r->ctx->groups)
            snprintf(of, sizeof of, ", group %d", group);
        snprintf(r->lowest_result, sizeof r->lowest_result, "%s, %s, %s%s", bb_colls[c->kind].name,
                 bb_format_bytes(bb_case_bytes(c), bytes), c->in_place ? "in place" : "out of place", of);
    }
    BB_GROW(r->ratios, r->n_ratios);
    r->ratios[r->n_ratios++] = ratio;
}

/* Adds a result to the table's counts. Results with a forced algorithm do not count in the bus bandwidths (mean and
 * thresholds), because NCCL would not choose this algorithm. */
static void count_result(struct bb_report *r, const struct bb_row *row, int placement)
{
    const struct bb_metrics *f = &row->metrics[placement];
    struct bb_table_counts *t = &r->counts;
    struct bb_run_counts *all = &r->all;
    struct bb_late_rank *late = f->skew.known && f->skew.straggler >= 0 ? &r->late[f->skew.straggler] : NULL;
    struct bb_case c = row->c;

    t->wrong += f->wrong;
    t->unchecked += !f->checked;
    t->results++;
    if (all->wrong == 0 && f->wrong > 0)
        all->wrong_rank = f->first.rank;
    all->wrong += f->wrong;
    all->unchecked += !f->checked;
    all->results++;
    for (int i = 0; i < BB_WARN_COUNT; i++) {
        t->warned[i] += f->warnings >> i & 1;
        all->warned[i] += f->warnings >> i & 1;
    }
    if (f->skew.known) {
        t->worst_spread_us = fmax(t->worst_spread_us, f->skew.spread_us.p50);
        if (late) {
            late->results++;
            late->spread_us = fmax(late->spread_us, f->skew.spread_us.p50);
        }
    }
    if (row->chosen)
        return;
    bb_busbw_tally_add(&t->busbw, f->busbw_gbps);
    count_extremes(r, &c, f);
    c.in_place = placement == BB_IN_PLACE;
    if (is_judged(r, &c))
        add_ratio(r, &c, row->group, f->busbw_gbps / expected_busbw(r, row, placement));
    for (int i = 0; i <= r->n_thresholds; i++)
        if (i == r->n_thresholds || threshold_applies(r, &r->thresholds[i], &c))
            bb_busbw_tally_add(tally_of(r, bb_group_leader(r->groups, row->group), i), f->busbw_gbps);
}

static int put_result(struct bb_report *r, const struct bb_row *row, int placement)
{
    const struct bb_metrics *f = &row->metrics[placement];
    char bytes[BB_BYTES_TEXT], what[80];

    count_result(r, row, placement);
    snprintf(what, sizeof what, "%s %s", bb_colls[row->c.kind].name, bb_format_bytes(f->bytes, bytes));
    if (r->out || r->session->json)
        bb_result_warn_gpu_flags(r->session, f->seen.gpu_flags, what);
    return r->session->json && !r->style->json_row ? save_result(r, row, placement) : 0;
}

int bb_report_row(struct bb_report *r, const struct bb_row *row)
{
    const bool shown = !r->style->program || row->group == r->groups[0];
    struct bb_results *results = r->session->json;
    int rc = 0;

    if (r->out && shown && r->style->before_row)
        r->style->before_row(r, row);
    if (r->out && shown && !r->one_line)
        print_line(r, row, false);
    if (r->out && !results && ferror(r->out)) /* stdout is closed (`| head`), so the run has no output */
        return bb_err(BB_EFAIL, "cannot write to stdout, and there is no results file (--json)");
    if (results && shown && r->style->json_row)
        rc = bb_results_row(results, r->style->json_row(r, row));
    for (int placement = 0; placement < BB_PLACEMENTS && rc == 0; placement++)
        if (row->measured[placement])
            rc = put_result(r, row, placement);
    return rc;
}
