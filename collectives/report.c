/*
 * report.c - one table of columns prints heading, units and rows. The columns and the footer are those of nccl-tests;
 * what has no value is N/A. JSON has one result per placement.
 */
#include "collectives/report.h"

#include "bootstrap/units.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { CELL = 40 };

/* ---- the table ----------------------------------------------------------------------------------------------------
 */

static void cell_size(const struct bb_row *row, int place, char *cell)
{
    (void)place;
    snprintf(cell, CELL, "%zu", bb_case_bytes(&row->c));
}

static void cell_count(const struct bb_row *row, int place, char *cell)
{
    (void)place;
    snprintf(cell, CELL, "%zu", row->c.count);
}

static void cell_type(const struct bb_row *row, int place, char *cell)
{
    (void)place;
    snprintf(cell, CELL, "%s", bb_dtypes[row->c.dtype].name);
}

static void cell_redop(const struct bb_row *row, int place, char *cell)
{
    (void)place;
    snprintf(cell, CELL, "%s", row->c.redop == BB_COPY ? "none" : bb_redops[row->c.redop].name);
}

static void cell_root(const struct bb_row *row, int place, char *cell)
{
    (void)place;
    snprintf(cell, CELL, "%d", row->c.root);
}

static void number(char *cell, bool valid, double value)
{
    if (valid && isfinite(value))
        snprintf(cell, CELL, "%.2f", value);
    else
        snprintf(cell, CELL, "N/A");
}

static void cell_time(const struct bb_row *row, int place, char *cell)
{
    number(cell, row->measured[place], row->figures[place].time_us.p50);
}

static void cell_algbw(const struct bb_row *row, int place, char *cell)
{
    number(cell, row->measured[place], row->figures[place].algbw_gbps);
}

static void cell_busbw(const struct bb_row *row, int place, char *cell)
{
    number(cell, row->measured[place], row->figures[place].busbw_gbps);
}

static void cell_wrong(const struct bb_row *row, int place, char *cell)
{
    if (row->measured[place] && row->figures[place].checked)
        snprintf(cell, CELL, "%llu", row->figures[place].wrong);
    else
        snprintf(cell, CELL, "N/A");
}

struct column {
    const char *head, *unit;
    int width;
    void (*cell)(const struct bb_row *row, int place, char *cell);
};

static const struct column shared_columns[] = {
    {"size", "(B)", 12, cell_size}, {"count", "(elements)", 12, cell_count},
    {"type", "", 8, cell_type},     {"redop", "", 6, cell_redop},
    {"root", "", 6, cell_root},
};

static const struct column placement_columns[] = {
    {"time", "(us)", 9, cell_time},
    {"algbw", "(GB/s)", 7, cell_algbw},
    {"busbw", "(GB/s)", 7, cell_busbw},
    {"#wrong", "", 6, cell_wrong},
};

enum {
    N_SHARED = sizeof shared_columns / sizeof *shared_columns,
    N_PLACEMENT = sizeof placement_columns / sizeof *placement_columns
};

static const struct column *column_at(int i, int *place)
{
    *place = i < N_SHARED + N_PLACEMENT ? BB_OUT_OF_PLACE : BB_IN_PLACE;
    return i < N_SHARED ? &shared_columns[i] : &placement_columns[(i - N_SHARED) % N_PLACEMENT];
}

enum { N_COLUMNS = N_SHARED + BB_PLACEMENTS * N_PLACEMENT };

/* The first column of a heading line gives one character to the '#'. */
static void print_heading(FILE *out, bool units)
{
    int place;

    for (int i = 0; i < N_COLUMNS; i++) {
        const struct column *c = column_at(i, &place);
        fprintf(out, "%s%*s", i == 0 ? "#" : "  ", i == 0 ? c->width - 1 : c->width, units ? c->unit : c->head);
    }
    fputc('\n', out);
}

static int width_of(const struct column *columns, int n)
{
    int width = 0;

    for (int i = 0; i < n; i++)
        width += 2 + columns[i].width;
    return width;
}

/* A title in the middle of a placement's columns. */
static void print_centred(FILE *out, const char *title, int width)
{
    int left = (width - (int)strlen(title)) / 2;

    fprintf(out, "%*s%s%*s", left, "", title, width - left - (int)strlen(title), "");
}

static void print_placements(FILE *out)
{
    int each = width_of(placement_columns, N_PLACEMENT);

    fprintf(out, "#%*s", width_of(shared_columns, N_SHARED) - 3, "");
    print_centred(out, "out-of-place", each);
    print_centred(out, "in-place", each);
    fputc('\n', out);
}

static void print_row(FILE *out, const struct bb_row *row)
{
    char cell[CELL];
    int place;

    for (int i = 0; i < N_COLUMNS; i++) {
        const struct column *c = column_at(i, &place);
        c->cell(row, place, cell);
        fprintf(out, "%s%*s", i == 0 ? "" : "  ", c->width, cell);
    }
    fputc('\n', out);
    fflush(out);
}

/* ---- above and below ----------------------------------------------------------------------------------------------
 */

static void print_versions(FILE *out, const struct bb_report_head *h)
{
    char header[BB_NCCL_VERSION_TEXT], runtime[BB_NCCL_VERSION_TEXT];

    fprintf(out, "# busbar %s  NCCL header %s library %s  CUDA runtime %d.%d driver %d.%d\n", BUSBAR_VERSION,
            bb_nccl_version_text(h->nccl_header, header), bb_nccl_version_text(h->nccl_runtime, runtime),
            h->cuda_runtime / 1000, h->cuda_runtime % 1000 / 10, h->cuda_driver / 1000, h->cuda_driver % 1000 / 10);
}

static void print_settings(FILE *out, const struct bb_bench_options *o)
{
    char step[48] = "step: 2(factor)";

    if (o->factor > 1)
        snprintf(step, sizeof step, "step: %g(factor)", o->factor);
    else if (o->step_bytes > 0)
        snprintf(step, sizeof step, "step: %zu(bytes)", o->step_bytes);
    fprintf(out, "# minBytes %zu maxBytes %zu %s warmup iters: %d iters: %d repeats: %d validate: %d\n", o->min_bytes,
            o->max_bytes, step, o->warmup, o->iterations, o->repeats, o->checks);
}

static void print_devices(FILE *out, const struct bb_report *r, const struct bb_results_device *d)
{
    fprintf(out, "#\n# Using devices\n");
    for (int i = 0; i < r->rig->world->size; i++)
        fprintf(out, "#  Rank %2d on %10s  %s  %s  %s\n", d[i].rank, d[i].host, d[i].pci, d[i].name, d[i].uuid);
}

static void print_method(FILE *out, const struct bb_report *r, const struct bb_bench_options *o)
{
    fprintf(
        out,
        "#\n# time: %d operations back to back on one stream between CUDA events, divided by %d (%s mode); of each\n"
        "#       sample the slowest rank, of %d samples the median; %s communicator. 1 GB/s = 1e9 bytes/s\n",
        o->iterations, o->iterations, r->rig->mode->name, o->repeats,
        r->rig->comm->blocking ? "blocking" : "non-blocking");
    fprintf(out, o->checks ? "# #wrong: elements and guard bytes that differ after the last timed operation\n"
                           : "# nothing is checked (-c 0)\n");
    if (r->rig->device->emulated)
        fprintf(out, "# emulated GPUs: all times come from a model, none is a measurement of hardware\n");
    if (r->shared_gpu)
        fprintf(out, "# several ranks share a GPU: times and bandwidths mean nothing\n");
    if (r->rig->world->size == 1)
        fprintf(out, "# one rank: NCCL only copies memory, bus bandwidth does not apply\n");
}

void bb_report_head(const struct bb_report *r, const struct bb_report_head *head)
{
    if (!r->out)
        return;
    print_versions(r->out, head);
    print_settings(r->out, head->options);
    print_devices(r->out, r, head->devices);
    print_method(r->out, r, head->options);
}

void bb_report_begin(struct bb_report *r, int coll)
{
    r->wrong = r->unchecked = r->rows = 0;
    r->busbw_sum = 0;
    r->busbw_n = 0;
    if (!r->out)
        return;
    fprintf(r->out, "#\n# %s: %s; busbw = algbw * %s\n", bb_colls[coll].name, bb_colls[coll].help,
            bb_colls[coll].factor_text);
    if (bb_colls[coll].inplace == BB_INPLACE_NONE)
        fprintf(r->out, "# in place it would overwrite what it has yet to send: N/A\n");
    fprintf(r->out, "#\n");
    print_placements(r->out);
    print_heading(r->out, false);
    print_heading(r->out, true);
}

void bb_report_end(struct bb_report *r, int coll)
{
    if (!r->out)
        return;
    if (r->unchecked > 0)
        fprintf(r->out, "# Out of bounds values : N/A (%llu of the figures above were not checked)\n", r->unchecked);
    else
        fprintf(r->out, "# Out of bounds values : %llu %s\n", r->wrong, r->wrong ? "FAILED" : "OK");
    if (r->busbw_n > 0)
        fprintf(r->out, "# Avg bus bandwidth    : %g\n", r->busbw_sum / (double)r->busbw_n);
    else
        fprintf(r->out, "# Avg bus bandwidth    : N/A\n");
    fprintf(r->out, "#\n# Collective test concluded: %s\n", bb_colls[coll].name);
    fflush(r->out);
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------
 */

static json_t *flags_of(const struct bb_report *r, const struct bb_figures *f)
{
    json_t *flags = json_array();

    if (!f->checked)
        json_array_append_new(flags, json_string("not_checked"));
    if (r->rig->device->emulated)
        json_array_append_new(flags, json_string("emulated"));
    if (r->shared_gpu)
        json_array_append_new(flags, json_string("shared_gpu"));
    if (f->time_us.n < 6)
        json_array_append_new(flags, json_string("few_samples"));
    return flags;
}

static json_t *result_of(const struct bb_report *r, const struct bb_row *row, int place)
{
    const struct bb_figures *f = &row->figures[place];
    bool reduces = row->c.redop != BB_COPY;

    return json_pack("{s:s, s:I, s:I, s:s, s:o, s:o, s:s, s:s, s:i, s:i, s:o, s:o, s:o, s:f, s:o, s:n, s:n, s:n, s:o}",
                     "collective", bb_colls[row->c.kind].name, "bytes", (json_int_t)f->bytes, "count",
                     (json_int_t)row->c.count, "dtype", bb_dtypes[row->c.dtype].name, "op",
                     reduces ? json_string(bb_redops[row->c.redop].name) : json_null(), "root",
                     row->c.root >= 0 ? json_integer(row->c.root) : json_null(), "placement",
                     place == BB_IN_PLACE ? "in_place" : "out_of_place", "mode", r->rig->mode->name, "iterations",
                     r->rig->iterations, "repeats", r->rig->repeats, "time_us", bb_json_stats(&f->time_us),
                     "algbw_gbps", bb_json_real(f->algbw_gbps), "busbw_gbps", bb_json_real(f->busbw_gbps),
                     "busbw_factor", f->factor, "wrong", f->checked ? json_integer((json_int_t)f->wrong) : json_null(),
                     "algorithm", "protocol", "channels", "flags", flags_of(r, f));
}

static void add_up(struct bb_report *r, const struct bb_figures *f)
{
    r->wrong += f->wrong;
    r->unchecked += !f->checked;
    if (isfinite(f->busbw_gbps)) {
        r->busbw_sum += f->busbw_gbps;
        r->busbw_n++;
    }
}

int bb_report_row(struct bb_report *r, const struct bb_row *row)
{
    int rc = 0;

    r->rows++;
    if (r->out)
        print_row(r->out, row);
    for (int place = 0; place < BB_PLACEMENTS && rc == 0; place++)
        if (row->measured[place]) {
            add_up(r, &row->figures[place]);
            if (r->json)
                rc = bb_results_row(r->json, result_of(r, row, place));
        }
    return rc;
}
