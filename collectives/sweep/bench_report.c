/*
 * bench_report.c - one table of columns prints heading, units and rows. The columns and the footer are those of
 * nccl-tests; what has no value is N/A. JSON has one result per placement.
 */
#include "collectives/sweep/bench_report.h"

#include "bootstrap/base/units.h"
#include "collectives/measure/timing.h"
#include "collectives/sweep/algorithm_ranking.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

enum { CELL = 40 };

/* ---- the table ---- */

static void cell_size(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    (void)r, (void)place;
    snprintf(cell, CELL, "%zu", bb_case_bytes(&row->c));
}

static void cell_count(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    (void)r, (void)place;
    snprintf(cell, CELL, "%zu", row->c.count);
}

static void cell_type(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    (void)r, (void)place;
    snprintf(cell, CELL, "%s", bb_dtypes[row->c.dtype].name);
}

static void cell_redop(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    /* nccl-tests calls its ring of sends and receives a sum. */
    const char *none = r->style->program && row->c.kind == BB_SENDRECV ? "sum" : "none";

    (void)place;
    snprintf(cell, CELL, "%s", row->c.redop == BB_COPY ? none : bb_redops[row->c.redop].name);
}

static void cell_root(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    (void)r, (void)place;
    snprintf(cell, CELL, "%d", row->c.root);
}

/* As many decimals as fit, two at most. */
static void number(char *cell, double value, int width)
{
    for (int digits = 2; digits >= 0; digits--)
        if (snprintf(cell, CELL, "%.*f", digits, value) <= width)
            return;
    snprintf(cell, CELL, "%.0e", value);
}

static void figure(const struct bb_report *r, char *cell, bool measured, double value, int width)
{
    if (measured && (isfinite(value) || r->style->zeros))
        number(cell, isfinite(value) ? value : 0, width);
    else
        snprintf(cell, CELL, "N/A");
}

static void cell_time(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    figure(r, cell, row->measured[place], row->figures[place].time_us.p50, r->style->time_width);
}

static void cell_algbw(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    figure(r, cell, row->measured[place], row->figures[place].algbw_gbps, r->style->rate_width);
}

static void cell_busbw(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    figure(r, cell, row->measured[place], row->figures[place].busbw_gbps, r->style->rate_width);
}

static void cell_wrong(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    (void)r;
    if (row->measured[place] && row->figures[place].checked)
        snprintf(cell, CELL, "%llu", row->figures[place].wrong);
    else
        snprintf(cell, CELL, "N/A");
}

static void cell_least(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    figure(r, cell, row->measured[place], row->figures[place].iterations.us.min, r->style->time_width);
}

static void cell_most(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    figure(r, cell, row->measured[place], row->figures[place].iterations.us.max, r->style->time_width);
}

/* Below 100 iterations nccl-tests shows the greatest, busbar nothing. */
static void cell_p99(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    const struct bb_stats *us = &row->figures[place].iterations.us;

    figure(r, cell, row->measured[place], isfinite(us->p99) || !r->style->zeros ? us->p99 : us->max,
           r->style->time_width);
}

static void cell_variation(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    figure(r, cell, row->measured[place], 100 * row->figures[place].iterations.variation, r->style->time_width);
}

/* Skew and NCCL's choice are shown of the first placement that was measured. */
static const struct bb_figures *first_figures(const struct bb_row *row)
{
    return &row->figures[row->measured[BB_OUT_OF_PLACE] ? BB_OUT_OF_PLACE : BB_IN_PLACE];
}

static const struct bb_skew *skew_of(const struct bb_row *row)
{
    return &first_figures(row)->skew;
}

static void cell_spread(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    (void)place;
    figure(r, cell, skew_of(row)->known, skew_of(row)->spread_us.p50, r->style->time_width);
}

static void cell_transfer(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    (void)place;
    figure(r, cell, skew_of(row)->known, skew_of(row)->transfer_us, r->style->time_width);
}

static void cell_last(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    (void)r, (void)place;
    if (skew_of(row)->known && skew_of(row)->straggler >= 0)
        snprintf(cell, CELL, "%d", skew_of(row)->straggler);
    else
        snprintf(cell, CELL, "-");
}

static void cell_word(char *cell, const char *word)
{
    snprintf(cell, CELL, "%s", *word ? word : "-");
}

static void cell_algorithm(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    (void)r, (void)place;
    cell_word(cell, first_figures(row)->seen.choice.algorithm);
}

static void cell_protocol(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    (void)r, (void)place;
    cell_word(cell, first_figures(row)->seen.choice.protocol);
}

static void cell_channels(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    const struct bb_choice *choice = &first_figures(row)->seen.choice;

    (void)r, (void)place;
    if (choice->kind == BB_CHOICE_NONE)
        snprintf(cell, CELL, "-");
    else
        snprintf(cell, CELL, "%d", choice->channels);
}

static void cell_model(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    (void)place;
    if (isfinite(first_figures(row)->model_us))
        number(cell, first_figures(row)->model_us, r->style->time_width);
    else
        snprintf(cell, CELL, "-");
}

/* Time of NCCL's choice over that of the forced one, per placement; a star when its interval says so too. */
static void cell_gain(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    size_t at = 0;

    (void)r, (void)place;
    snprintf(cell, CELL, "%s", row->own ? "" : "chosen");
    for (int i = 0; row->own && i < BB_PLACEMENTS; i++) {
        const struct bb_stats *own = &row->own->figures[i].time_us, *forced = &row->figures[i].time_us;

        if (row->measured[i])
            at += (size_t)snprintf(cell + at, CELL - at, "%s%.2f%s", at ? " " : "", own->p50 / forced->p50,
                                   bb_surely_faster(forced, own) && !r->shared_gpu ? "*" : "");
    }
}

static void cell_group(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    (void)r, (void)place;
    snprintf(cell, CELL, "%d", row->group);
}

static void cell_stamp(const struct bb_report *r, const struct bb_row *row, int place, char *cell)
{
    time_t now = time(NULL);
    struct tm parts;

    (void)r, (void)row, (void)place;
    strftime(cell, CELL, "%Y-%m-%d %H:%M:%S", localtime_r(&now, &parts));
}

enum width { AS_TIME = -1, AS_RATE = -2 }; /* widths that the style tells */

struct column {
    const char *head, *unit;
    int width;
    void (*cell)(const struct bb_report *r, const struct bb_row *row, int place, char *cell);
};

static const struct column shared_columns[] = {
    {"size", "(B)", 12, cell_size}, {"count", "(elements)", 12, cell_count},
    {"type", "", 8, cell_type},     {"redop", "", 6, cell_redop},
    {"root", "", 6, cell_root},
};

static const struct column placement_columns[] = {
    {"time", "(us)", AS_TIME, cell_time},      {"algbw", "(GB/s)", AS_RATE, cell_algbw},
    {"busbw", "(GB/s)", AS_RATE, cell_busbw},  {"#wrong", "", 6, cell_wrong},
    {"i_min", "(us)", AS_TIME, cell_least}, /* from here on with -I only */
    {"i_max", "(us)", AS_TIME, cell_most},     {"i_p99", "(us)", AS_TIME, cell_p99},
    {"i_cv%", "(%)", AS_TIME, cell_variation},
};

/* Behind the others, so that readers of the first columns are not disturbed. */
static const struct column group_column = {"group", "", 5, cell_group};
static const struct column stamp_column = {"timestamp", "%Y-%m-%d %H:%M:%S", 19, cell_stamp};
static const struct column skew_columns[] = {
    {"transfer", "(us)", AS_TIME, cell_transfer},
    {"spread", "(us)", AS_TIME, cell_spread},
    {"last", "(rank)", 6, cell_last},
};

static const struct column choice_columns[] = {
    {"algorithm", "", 14, cell_algorithm},  {"protocol", "", 8, cell_protocol},    {"channels", "", 8, cell_channels},
    {"model", "(us)", AS_TIME, cell_model}, {"gain", "(own/this)", 13, cell_gain}, /* the last with a sweep only */
};

enum {
    N_SHARED = sizeof shared_columns / sizeof *shared_columns,
    N_ALWAYS = 4, /* of the placement's columns */
    N_PLACEMENT = sizeof placement_columns / sizeof *placement_columns,
    N_SKEW = sizeof skew_columns / sizeof *skew_columns,
    N_CHOICE = sizeof choice_columns / sizeof *choice_columns
};

static int placement_count(const struct bb_report *r)
{
    return r->rig->marks ? N_PLACEMENT : N_ALWAYS;
}

/* Without what stands behind. */
static int usual_count(const struct bb_report *r)
{
    return N_SHARED + BB_PLACEMENTS * placement_count(r);
}

static bool shows_groups(const struct bb_report *r)
{
    return r->rig->groups && !r->style->first_group;
}

static int skew_count(const struct bb_report *r)
{
    return r->rig->mode->single && !r->style->program ? N_SKEW : 0;
}

static int choice_count(const struct bb_report *r)
{
    const struct bb_sampling_options *o = &r->options->figures;

    return o->sweep_algorithms ? N_CHOICE : o->show_choice ? N_CHOICE - 1 : 0;
}

static int column_count(const struct bb_report *r)
{
    return usual_count(r) + skew_count(r) + choice_count(r) + shows_groups(r) + (r->options->timestamps != 0);
}

static const struct column *extra_column(const struct bb_report *r, int i)
{
    int skew = skew_count(r), choice = choice_count(r);

    if (i < skew)
        return &skew_columns[i];
    if (i < skew + choice)
        return &choice_columns[i - skew];
    return i == skew + choice && shows_groups(r) ? &group_column : &stamp_column;
}

static const struct column *column_at(const struct bb_report *r, int i, int *place)
{
    *place = i < N_SHARED + placement_count(r) ? BB_OUT_OF_PLACE : BB_IN_PLACE;
    if (i >= usual_count(r))
        return extra_column(r, i - usual_count(r));
    return i < N_SHARED ? &shared_columns[i] : &placement_columns[(i - N_SHARED) % placement_count(r)];
}

static int width_of(const struct bb_report *r, const struct column *c)
{
    return c->width == AS_TIME ? r->style->time_width : c->width == AS_RATE ? r->style->rate_width : c->width;
}

static const char *heading_of(const struct bb_report *r, const struct column *c, bool units)
{
    if (!units && c->cell == cell_time && r->rig->host_time)
        return "cputime";
    return units ? c->unit : c->head;
}

/* The first column of a heading line gives one character to the '#'. */
static void print_heading(const struct bb_report *r, bool units)
{
    int place;

    for (int i = 0; i < column_count(r); i++) {
        const struct column *c = column_at(r, i, &place);
        int width = width_of(r, c);
        fprintf(r->out, "%s%*s", i == 0 ? "#" : "  ", i == 0 ? width - 1 : width, heading_of(r, c, units));
    }
    fputc('\n', r->out);
}

static int width_of_all(const struct bb_report *r, const struct column *columns, int n)
{
    int width = 0;

    for (int i = 0; i < n; i++)
        width += 2 + width_of(r, &columns[i]);
    return width;
}

/* A title in the middle of a placement's columns. */
static void print_centred(FILE *out, const char *title, int width)
{
    int left = (width - (int)strlen(title)) / 2;

    fprintf(out, "%*s%s%*s", left, "", title, width - left - (int)strlen(title), "");
}

static void print_placements(const struct bb_report *r)
{
    int each = width_of_all(r, placement_columns, placement_count(r));

    fprintf(r->out, "#%*s", width_of_all(r, shared_columns, N_SHARED) - 3, "");
    print_centred(r->out, "out-of-place", each);
    print_centred(r->out, "in-place", each);
    fputc('\n', r->out);
}

static void print_row(const struct bb_report *r, const struct bb_row *row)
{
    char cell[CELL];
    int place;

    for (int i = 0; i < column_count(r); i++) {
        const struct column *c = column_at(r, i, &place);
        c->cell(r, row, place, cell);
        fprintf(r->out, "%s%*s", i == 0 ? "" : "  ", width_of(r, c), cell);
    }
    fputc('\n', r->out);
    fflush(r->out);
}

/* ---- above and below ---- */

static void print_versions(FILE *out, const struct bb_session *s)
{
    char header[BB_NCCL_VERSION_TEXT], runtime[BB_NCCL_VERSION_TEXT];

    fprintf(out, "# busbar %s  NCCL header %s library %s  CUDA runtime %d.%d driver %d.%d\n", BUSBAR_VERSION,
            bb_nccl_version_text(s->nccl_header, header), bb_nccl_version_text(s->nccl_runtime, runtime),
            s->cuda_runtime / 1000, s->cuda_runtime % 1000 / 10, s->cuda_driver / 1000, s->cuda_driver % 1000 / 10);
}

static void print_sizes(FILE *out, const struct bb_bench_options *o)
{
    if (o->sizes)
        fprintf(out, "# sizes %s", o->sizes);
    else if (o->factor <= 1 && o->step_bytes > 0)
        fprintf(out, "# minBytes %zu maxBytes %zu step: %zu(bytes)", o->min_bytes, o->max_bytes, o->step_bytes);
    else
        fprintf(out, "# minBytes %zu maxBytes %zu step: %g(factor)", o->min_bytes, o->max_bytes,
                o->factor > 1 ? o->factor : 2);
}

static void print_settings(const struct bb_report *r, const struct bb_bench_options *o)
{
    print_sizes(r->out, o);
    fprintf(r->out, " warmup iters: %d iters: %d repeats: %d validate: %d\n", o->warmup, o->iterations, o->repeats,
            o->checks);
    if (o->aggregate > 1)
        fprintf(r->out, "# agg iters: %d operations in one group per iteration, times are per operation\n",
                o->aggregate);
    if (o->graph_launches > 0)
        fprintf(r->out, "# graph: %d launches per sample after one that is not timed\n", o->graph_launches);
    if (o->unalign > 0)
        fprintf(r->out, "# unalign: buffers are moved by %d elements\n", o->unalign);
    if (o->null_stream)
        fprintf(r->out, "# on the null stream\n");
    if (o->registration)
        fprintf(r->out, "# registration of buffers: %s\n", bb_registration_names[r->registration->kind]);
    if (o->min_ctas > 0 || o->max_ctas > 0 || o->cta_policy >= 0)
        fprintf(r->out, "# CTAs: at least %d, at most %d (0: NCCL's choice), policy %d (-1: NCCL's own)\n", o->min_ctas,
                o->max_ctas, o->cta_policy);
}

static void print_devices(const struct bb_report *r, const struct bb_report_head *h)
{
    fprintf(r->out, "#\n# Using devices\n");
    for (int i = 0; i < r->rig->world->size; i++) {
        const struct bb_device_info *d = &h->session->devices[i];
        char group[24] = "";

        if (r->rig->groups)
            snprintf(group, sizeof group, " Group %2d", h->groups[i]);
        fprintf(r->out, "#  Rank %2d%s on %10s  %s  %s  %s\n", i, group, r->rig->world->hosts[i], d->pci, d->name,
                d->uuid);
    }
}

/* How many samples make a row: "6 samples", "samples until ...". */
static const char *samples_text(const struct bb_report *r, const struct bb_mode *mode, char *text, size_t room)
{
    if (r->rig->policy.confidence > 0)
        snprintf(text, room, "samples until its interval is within %g %%", 100 * r->rig->policy.confidence);
    else
        snprintf(text, room, "%zu samples", bb_mode_batch(r->rig, mode));
    return text;
}

static void print_time(const struct bb_report *r, const struct bb_mode *mode)
{
    const char *help = r->rig->host_time ? bb_bench_context_method(r->rig) : mode->help;
    const char *name = r->rig->host_time ? bb_bench_context_mode(r->rig) : mode->name;
    const char *comm = r->rig->comm->blocking ? "blocking" : "non-blocking";
    char samples[80];

    samples_text(r, mode, samples, sizeof samples);
    if (mode->single)
        fprintf(r->out, "# time: %s (%s mode); of each\n", help, name);
    else
        fprintf(r->out, "# time: %d %s, divided by %d (%s mode); of each\n", r->rig->iterations, help,
                r->rig->iterations, name);
    fprintf(r->out, "#       sample %s, of %s the median; %s communicator. 1 GB/s = 1e9 bytes/s\n",
            bb_across_names[r->rig->across], samples, comm);
    if (mode == &bb_mode_stream && r->rig->gated)
        fprintf(r->out, "#       none starts before every rank has enqueued its own (--gate)\n");
    if (mode->single)
        fprintf(r->out,
                "#       transfer: time of the rank that came last; spread: from the first to come to the last\n");
}

static void print_method(const struct bb_report *r, const struct bb_bench_options *o)
{
    const char *checked = r->rig->modes[r->rig->n_modes - 1]->own_check ? "a last launch of the graph" : NULL;
    FILE *out = r->out;

    fprintf(out, "#\n");
    for (int i = 0; i < r->rig->n_modes; i++)
        print_time(r, r->rig->modes[i]);
    if (o->figures.delay)
        fprintf(out, "# imposed delays of sync mode, rank:us: %s\n", o->figures.delay);
    if (o->checks > 0)
        fprintf(out, "# #wrong: elements and guard bytes that differ after %s%s%s\n",
                checked && r->rig->n_modes == 1 ? "" : "the last timed operation",
                checked && r->rig->n_modes > 1 ? ", or " : "", checked ? checked : "");
    else
        fprintf(out, "# nothing is checked (-c 0)\n");
    if (r->rig->device->emulated)
        fprintf(out, "# emulated GPUs: all times come from a model, none is a measurement of hardware\n");
    if (r->shared_gpu)
        fprintf(out, "# several ranks share a GPU: times and bandwidths mean nothing\n");
    if (o->figures.sweep_algorithms)
        fprintf(out,
                "# gain: time of NCCL's choice / time of the forced algorithm, per placement; *: surely above 1\n");
    if (r->rig->world->size == 1)
        fprintf(out, "# one rank: NCCL only copies memory, bus bandwidth does not apply\n");
}

static void bench_head(const struct bb_report *r, const struct bb_report_head *head)
{
    print_versions(r->out, head->session);
    print_settings(r, head->options);
    print_devices(r, head);
    print_method(r, head->options);
}

const struct bb_report_style bb_report_bench = {.time_width = 9, .rate_width = 7, .head = bench_head};

void bb_report_head(const struct bb_report *r, const struct bb_report_head *head)
{
    if (r->out)
        r->style->head(r, head);
}

static void print_title(const struct bb_report *r, int coll)
{
    const char *mode = r->rig->n_modes > 1 ? r->rig->mode->name : "";

    fprintf(r->out, "#\n# %s%s%s%s: %s; busbw = algbw * %s\n", bb_colls[coll].name, *mode ? " (" : "", mode,
            *mode ? ")" : "", bb_colls[coll].help, bb_colls[coll].factor_text);
    if (bb_colls[coll].inplace == BB_INPLACE_NONE)
        fprintf(r->out, "# in place it would overwrite what it has yet to send: N/A\n");
    if (bb_colls[coll].flags & BB_COLL_ROUNDS && r->options->aggregate > 1)
        fprintf(r->out, "# its rounds wait for each other: operations follow each other, not in one group (-m)\n");
    if (r->options->cycles != 1)
        fprintf(r->out, "# cycle %d\n", r->cycle + 1);
}

/* Under nccl-tests' names all cycles are one table. */
static bool goes_on(const struct bb_report *r)
{
    return r->style->program && r->cycle > 0;
}

static bool ends_later(const struct bb_report *r)
{
    return r->style->program && r->cycle + 1 != r->options->cycles;
}

void bb_report_begin(struct bb_report *r, int coll)
{
    if (goes_on(r))
        return;
    r->wrong = r->unchecked = r->rows = 0;
    r->busbw_sum = 0;
    r->busbw_n = 0;
    r->figures = r->stragglers = 0;
    r->straggler = -1;
    r->worst_spread_us = 0;
    memset(r->warned, 0, sizeof r->warned);
    if (!r->out)
        return;
    if (!r->style->program)
        print_title(r, coll);
    fprintf(r->out, "#\n");
    print_placements(r);
    print_heading(r, false);
    print_heading(r, true);
}

static void print_checked(const struct bb_report *r)
{
    if (r->unchecked > 0 && !r->style->zeros)
        fprintf(r->out, "# Out of bounds values : N/A (%llu of the figures above were not checked)\n", r->unchecked);
    else
        fprintf(r->out, "# Out of bounds values : %llu %s\n", r->wrong, r->wrong ? "FAILED" : "OK");
}

/* NaN: nothing had a bus bandwidth. */
static void print_mean(const struct bb_report *r, double mean, bool below)
{
    const char *verdict = r->options->min_busbw <= 0 ? "" : below ? " FAILED" : " OK";

    if (isfinite(mean) || r->style->zeros)
        fprintf(r->out, "# Avg bus bandwidth    : %g%s\n", isfinite(mean) ? mean : 0, isfinite(mean) ? verdict : "");
    else
        fprintf(r->out, "# Avg bus bandwidth    : N/A\n");
}

static size_t taken(size_t before, size_t after)
{
    return before > after ? before - after : 0;
}

enum { MEMORY_PARTS = 4 };
struct memory_part {
    const char *name, *key;
    size_t bytes;
};

static void parts_of(const struct bb_report_memory *m, struct memory_part parts[MEMORY_PARTS])
{
    parts[0] = (struct memory_part){"Initialization", "initialization", taken(m->free_at_start, m->free_after_init)};
    parts[1] =
        (struct memory_part){"User-Allocated", "user_allocated", taken(m->free_after_init, m->free_after_buffers)};
    parts[2] = (struct memory_part){"Collective", "collective", taken(m->free_after_buffers, m->free_at_end)};
    parts[3] = (struct memory_part){"Total", "total", taken(m->free_at_start, m->free_at_end)};
}

static void print_memory(const struct bb_report *r)
{
    struct memory_part parts[MEMORY_PARTS];
    char text[BB_BYTES_TEXT];

    parts_of(r->memory, parts);
    fprintf(r->out, "# GPU memory usage     :");
    for (int i = 0; i < MEMORY_PARTS; i++)
        fprintf(r->out, "%s %s %s", i ? " |" : "", parts[i].name, bb_format_bytes(parts[i].bytes, text));
    fputc('\n', r->out);
}

static int save_memory(const struct bb_report *r)
{
    struct memory_part parts[MEMORY_PARTS];
    json_t *object;

    if (!r->json || !r->options->memory)
        return 0;
    parts_of(r->memory, parts);
    object = json_object();
    for (int i = 0; i < MEMORY_PARTS; i++)
        json_object_set_new(object, parts[i].key, json_integer((json_int_t)parts[i].bytes));
    return bb_results_set(r->json, "memory_bytes", object);
}

int bb_report_close(const struct bb_report *r)
{
    if (r->style->json_end)
        return r->json ? r->style->json_end(r) : 0;
    return save_memory(r);
}

static bool is_below(const struct bb_report *r, double mean, int coll)
{
    double least = r->options->min_busbw;

    if (least <= 0 || (mean >= least && !r->shared_gpu))
        return false;
    if (!isfinite(mean) || r->shared_gpu) {
        bb_warn("%s: no verdict on the bus bandwidth (--min-busbw): %s", bb_colls[coll].name,
                r->shared_gpu ? "ranks share a GPU" : "nothing was measured that has one");
        return false;
    }
    bb_err(BB_EBELOW, "%s: mean bus bandwidth %g GB/s is below %g GB/s", bb_colls[coll].name, mean, least);
    return true;
}

static void print_warnings(const struct bb_report *r)
{
    for (int i = 0; i < BB_WARN_COUNT; i++)
        if (r->warned[i] > 0)
            fprintf(r->out, "# warning %s, %llu of %llu figures: %s; %s\n", bb_warnings[i].word, r->warned[i],
                    r->figures, bb_warnings[i].text, bb_warnings[i].advice);
}

static void print_skew(const struct bb_report *r)
{
    if (r->straggler >= 0)
        fprintf(r->out, "# Straggler: rank %d came last in %llu of %llu figures, by up to %.2f us\n", r->straggler,
                r->stragglers, r->figures, r->worst_spread_us);
    else
        fprintf(r->out, "# Straggler: none, ranks came within %.2f us of each other\n", r->worst_spread_us);
}

bool bb_report_end(struct bb_report *r, int coll)
{
    double mean = r->busbw_n > 0 ? r->busbw_sum / (double)r->busbw_n : NAN;
    bool below = !ends_later(r) && is_below(r, mean, coll);

    if (!r->out || ends_later(r))
        return below;
    print_checked(r);
    print_mean(r, mean, below);
    if (skew_count(r) > 0)
        print_skew(r);
    if (!r->style->program)
        print_warnings(r);
    fprintf(r->out, "#\n# Collective test concluded: %s\n",
            r->style->program ? r->style->program : bb_colls[coll].name);
    if (r->options->memory)
        print_memory(r);
    if (r->style->program)
        fprintf(r->out, "#\n");
    fflush(r->out);
    return below;
}

void bb_report_skip(struct bb_report *r, int coll)
{
    if (r->out && r->style->program)
        bb_report_begin(r, coll);
    if (r->out)
        fprintf(r->out, "#\n# %s: the number of ranks of a group is not a power of 2, skipping\n", bb_colls[coll].name);
    if (r->style->program)
        (void)bb_report_end(r, coll);
}

/* ---- JSON ---- */

static json_t *flags_of(const struct bb_report *r, const struct bb_figures *f)
{
    json_t *flags = json_array();

    if (r->rig->device->emulated)
        json_array_append_new(flags, json_string("emulated"));
    if (r->shared_gpu)
        json_array_append_new(flags, json_string("shared_gpu"));
    for (int i = 0; i < BB_WARN_COUNT; i++)
        if (f->warnings & 1u << i)
            json_array_append_new(flags, json_string(bb_warnings[i].word));
    bb_nvml_json_flags(flags, f->seen.doubts);
    return flags;
}

static json_t *skew_json(const struct bb_skew *skew)
{
    if (!skew->known)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o}", "spread_us", bb_json_stats(&skew->spread_us), "transfer_us",
                     bb_json_real(skew->transfer_us), "straggler",
                     skew->straggler >= 0 ? json_integer(skew->straggler) : json_null(), "straggler_share",
                     skew->straggler >= 0 ? json_real(skew->straggler_share) : json_null());
}

/* The figures beside the headline. */
static void add_figures(const struct bb_report *r, const struct bb_figures *f, json_t *result)
{
    bool single = r->rig->mode->single;

    json_object_set_new(result, "samples", json_integer((json_int_t)f->time_us.n));
    json_object_set_new(result, "stopped", json_string(bb_stop_names[f->stop]));
    json_object_set_new(result, "warmed", json_integer(f->warmed));
    json_object_set_new(result, "gated", json_boolean(f->gated));
    json_object_set_new(result, "host_us", bb_json_real(f->host_us));
    json_object_set_new(result, "first_us", bb_json_real(f->first_us));
    json_object_set_new(result, "wall_us", single ? bb_json_stats(&f->wall_us) : json_null());
    json_object_set_new(result, "skew", skew_json(&f->skew));
}

static json_t *result_of(const struct bb_report *r, const struct bb_row *row, int place)
{
    const struct bb_figures *f = &row->figures[place];
    bool reduces = row->c.redop != BB_COPY;

    return json_pack(
        "{s:s, s:I, s:I, s:s, s:o, s:o, s:s, s:s, s:i, s:i, s:o, s:o, s:o, s:f, s:o, s:n, s:n, s:n, s:o}", "collective",
        bb_colls[row->c.kind].name, "bytes", (json_int_t)f->bytes, "count", (json_int_t)row->c.count, "dtype",
        bb_dtypes[row->c.dtype].name, "op", reduces ? json_string(bb_redops[row->c.redop].name) : json_null(), "root",
        row->c.root >= 0 ? json_integer(row->c.root) : json_null(), "placement",
        place == BB_IN_PLACE ? "in_place" : "out_of_place", "mode", bb_bench_context_mode(r->rig), "iterations",
        r->rig->iterations, "repeats", r->rig->repeats, "time_us", bb_json_stats(&f->time_us), "algbw_gbps",
        bb_json_real(f->algbw_gbps), "busbw_gbps", bb_json_real(f->busbw_gbps), "busbw_factor", f->factor, "wrong",
        f->checked ? json_integer((json_int_t)f->wrong) : json_null(), "algorithm", "protocol", "channels", "flags",
        flags_of(r, f));
}

/* The first time that a reason for doubt is seen, with what helps. */
static void say_doubts(struct bb_report *r, const struct bb_row *row, const struct bb_figures *f)
{
    unsigned news = f->seen.doubts & ~r->doubts;
    char text[BB_BYTES_TEXT];

    r->doubts |= news;
    for (int i = 0; (r->out || r->json) && i < BB_NVML_FLAGS; i++)
        if (news & 1u << i)
            bb_warn("%s %s and maybe further rows: %s", bb_colls[row->c.kind].name, bb_format_bytes(f->bytes, text),
                    bb_nvml_doubts[i].advice);
}

/* What is forced says nothing about the bus bandwidth that users get: the mean goes without. */
static void add_up(struct bb_report *r, const struct bb_figures *f, bool forced)
{
    r->wrong += f->wrong;
    r->unchecked += !f->checked;
    r->figures++;
    for (int i = 0; i < BB_WARN_COUNT; i++)
        r->warned[i] += f->warnings >> i & 1;
    if (f->skew.known)
        r->worst_spread_us = fmax(r->worst_spread_us, f->skew.spread_us.p50);
    if (f->skew.known && r->straggler < 0)
        r->straggler = f->skew.straggler;
    r->stragglers += f->skew.known && f->skew.straggler >= 0 && f->skew.straggler == r->straggler;
    if (isfinite(f->busbw_gbps) && !forced) {
        r->busbw_sum += f->busbw_gbps;
        r->busbw_n++;
    }
}

/* What only some runs have. */
static json_t *with_extras(const struct bb_report *r, const struct bb_row *row, int place, json_t *result)
{
    const struct bb_iteration_figures *iterations = &row->figures[place].iterations;
    char stamp[CELL];

    add_figures(r, &row->figures[place], result);
    bb_telemetry_json(&row->figures[place].seen, result);
    json_object_set_new(result, "model_us", bb_json_real(row->figures[place].model_us));
    if (r->options->figures.sweep_algorithms)
        json_object_set_new(result, "forced", json_boolean(row->own != NULL));
    if (r->rig->marks) {
        json_object_set_new(result, "iteration_us", bb_json_stats(&iterations->us));
        json_object_set_new(result, "iteration_variation", bb_json_real(iterations->variation));
    }
    if (r->rig->groups)
        json_object_set_new(result, "group", json_integer(row->group));
    if (r->options->cycles != 1)
        json_object_set_new(result, "cycle", json_integer(r->cycle));
    if (r->options->timestamps) {
        cell_stamp(r, row, 0, stamp);
        json_object_set_new(result, "timestamp", json_string(stamp));
    }
    return result;
}

int bb_report_row(struct bb_report *r, const struct bb_row *row)
{
    int rc = 0;

    bool shown = !r->rig->groups || !r->style->first_group || row->group == r->rig->groups[0];

    r->rows++;
    if (r->out && shown && r->style->before_row)
        r->style->before_row(r, row);
    if (r->out && shown)
        print_row(r, row);
    if (r->json && shown && r->style->json_row)
        rc = bb_results_row(r->json, r->style->json_row(r, row));
    for (int place = 0; place < BB_PLACEMENTS && rc == 0; place++)
        if (row->measured[place]) {
            add_up(r, &row->figures[place], row->own != NULL);
            say_doubts(r, row, &row->figures[place]);
            if (r->json && !r->style->json_row)
                rc = bb_results_row(r->json, with_extras(r, row, place, result_of(r, row, place)));
        }
    return rc;
}
