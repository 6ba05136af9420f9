/*
 * bench_overlap.c - runs `busbar bench overlap`: measures a GEMM and a collective, alone and concurrently, for each
 * message size and each CTA limit (minCTAs and maxCTAs of the communicator), and reports the fastest limit.
 *
 * Top-level field of the results: best[{bytes, min_ctas, max_ctas, both_us, tied[]}] contains, for each message size,
 * the fastest CTA limit and the limits that are equally fast (medians within 1 %, or overlapping confidence intervals).
 */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/report_header.h"
#include "collectives/overlap/overlap_measure.h"
#include "collectives/overlap/overlap_options.h"
#include "collectives/session/result_row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* State of one run of `busbar bench overlap`. An all-zero struct may be passed to the release function. */
struct overlap {
    struct bb_bench_overlap_options options;
    struct bb_session session;
    struct bb_comm comms[BB_CTA_LIMITS];
    struct bb_overlap_context ctx;
    json_t *best;
    struct bb_metrics data; /* of all rows; only wrong and first are set */
};

static struct bb_case case_of(const struct overlap *v, size_t bytes)
{
    const unsigned flags = bb_colls[v->options.kind].flags;
    const int ranks = v->session.world.size;

    return (struct bb_case){
        .kind = v->options.kind,
        .dtype = (int)v->options.gemm_shape.dtype,
        .redop = flags & BB_COLL_REDUCES ? BB_SUM : BB_COPY,
        .root = flags & BB_COLL_ROOTED ? 0 : -1,
        .ranks = ranks,
        .count = bb_coll_count(v->options.kind, bytes, ranks, bb_dtypes[v->options.gemm_shape.dtype].bytes)};
}

/* Rejects message sizes with less than one element per rank. Called when the number of ranks is known. */
static int check_sizes(struct overlap *v)
{
    for (int i = 0; i < v->options.sizes.n; i++)
        if (case_of(v, v->options.sizes.bytes[i]).count == 0)
            return BB_WORLD_ERR(&v->session.world, BB_EUSAGE,
                                "%zu byte%s (--sizes): less than one element for each of %d ranks (%s)",
                                v->options.sizes.bytes[i], bb_plural(v->options.sizes.bytes[i]), v->session.world.size,
                                v->options.collective);
    return 0;
}

static size_t slot_bytes(const struct overlap *v)
{
    size_t largest = 0;

    for (int i = 0; i < v->options.sizes.n; i++)
        for (int r = 0; r < v->session.world.size; r++) {
            const struct bb_case c = case_of(v, v->options.sizes.bytes[i]);
            size_t bytes = bb_buffer_layout_of(&c, r).slot_bytes;
            largest = bytes > largest ? bytes : largest;
        }
    return largest;
}

/* ---- table rows and header ---- */

/* One row of the result table: a message size with a CTA limit. A sample runs `gemms` GEMMs, `collectives`
 * collectives, or both concurrently; every time in the row is that of all GEMMs or collectives of a sample. */
struct row {
    const char *collective, *dtype, *op;
    size_t bytes, count;
    int root, min_ctas, max_ctas; /* root: -1 if the collective has no root; min_ctas, max_ctas: -1 for NCCL's
                                     default */
    char ctas[BB_CTA_TEXT];
    json_t *gemm;
    int gemms, collectives; /* number of GEMMs and of collectives per sample */
    struct bb_overlap_result result;
    struct bb_contention contention;
    double busbw_alone_gbps, busbw_in_both_gbps; /* bus bandwidth of the collective, 1e9 bytes/s; NaN with one rank */
    double tflops_alone, tflops_in_both;
    long long wrong; /* number of wrong elements; -1: not verified */
};

#define SHOWS(name) BB_SHOWS(struct row, name)
#define JSON(name)  BB_NAMED(struct row, name)
static const struct bb_field fields[] = {
    JSON(collective),
    {"bytes", "size", "(B)", 12, 0, SHOWS(bytes)},
    JSON(count),
    JSON(dtype),
    JSON(op),
    JSON(root),
    JSON(min_ctas),
    JSON(max_ctas),
    {NULL, "CTAs", "", 7, 0, SHOWS(ctas)},
    JSON(gemm),
    {"gemms", "gemms", "", 5, 0, SHOWS(gemms)},
    {"collectives", "colls", "", 5, 0, SHOWS(collectives)},
    {"compute_alone_us", "gemm", "(us)", 10, 2, SHOWS(result.us[BB_COMPUTE_ALONE])},
    {"comm_alone_us", "coll", "(us)", 10, 2, SHOWS(result.us[BB_COMM_ALONE])},
    {"compute_in_both_us", SHOWS(result.us[BB_COMPUTE_IN_BOTH])},
    {"comm_in_both_us", SHOWS(result.us[BB_COMM_IN_BOTH])},
    {"both_us", "both", "(us)", 10, 2, SHOWS(result.us[BB_BOTH])},
    {"compute_slowdown", "gemm", "(x)", 6, 3, SHOWS(contention.compute_slowdown)},
    {"comm_slowdown", "coll", "(x)", 6, 3, SHOWS(contention.comm_slowdown)},
    {"overlap_efficiency", "effic.", "", 6, 3, SHOWS(contention.efficiency)},
    {"lost_to_comm_us", "lost", "(us)", 9, 2, SHOWS(contention.lost_to_comm_us)},
    {"busbw_alone_gbps", "busbw", "alone", 8, 2, SHOWS(busbw_alone_gbps)},
    {"busbw_in_both_gbps", "busbw", "in both", 8, 2, SHOWS(busbw_in_both_gbps)},
    JSON(tflops_alone),
    JSON(tflops_in_both),
    {"wrong", "#wrong", "", 6, 0, SHOWS(wrong), .none = "N/A"},
    {0},
};

/* Returns whether the table has a row for every limit: with --full, or if the output then has at most 25 lines. */
static bool lists_all(const struct overlap *v)
{
    enum { MAX_ROWS = 14 }; /* without the head and the last line */

    return v->session.detail || v->options.sizes.n * (v->options.n_limits + 1) <= MAX_ROWS;
}

static void print_head(const struct overlap *v)
{
    const struct bb_gemm_shape *s = &v->options.gemm_shape;
    FILE *out = v->session.out;

    bb_session_print_head(&v->session);
    if (!out)
        return;
    fprintf(out, "# %s, %s, concurrent with cuBLASLt GEMMs %lld x %lld x %lld\n", v->options.collective,
            v->options.dtype, (long long)s->m, (long long)s->n, (long long)s->k);
    fprintf(out,
            "# time of all GEMMs and collectives of a row from a common start; slowest rank, median of %d sample%s\n"
            "# (x): time in both / time alone; effic.: (gemm + coll - both) / min(gemm, coll); lost: both - gemm\n",
            v->options.repeats, bb_plural(v->options.repeats));
    if (v->session.world.size == 1)
        fprintf(out, "# one rank: NCCL only copies memory, so there is no communication to hide\n");
    if (v->session.device.emulated)
        bb_print_emulated_note(out, "", ", contention from its profile");
    if (!lists_all(v))
        fprintf(out, "# rows: the first and the best CTA limit of each size; --full prints all\n");
    bb_table_heading(out, fields);
}

/* ---- computing and printing the rows ---- */

static double busbw_gbps(const struct bb_overlap_work *work, const struct bb_stats *time_us)
{
    double bytes = (double)work->collectives * (double)bb_case_bytes(&work->c);

    if (work->c.ranks < 2 || !(time_us->p50 > 0))
        return NAN;
    return bytes * bb_colls[work->c.kind].bus_factor(work->c.ranks) / time_us->p50 / 1e3;
}

static double tflops_of(const struct overlap *v, const struct bb_overlap_work *work, const struct bb_stats *time_us)
{
    return time_us->p50 > 0 ? work->gemms * bb_gemm_flops(&v->options.gemm_shape) / time_us->p50 / 1e6 : NAN;
}

static struct row make_row(const struct overlap *v, const struct bb_overlap_work *work,
                           const struct bb_cta_limit *limit, const struct bb_overlap_result *r)
{
    const struct bb_gemm_shape *s = &v->options.gemm_shape;
    const struct bb_case *c = &work->c;
    double us[BB_OVERLAP_TIMES];
    struct row row = {.collective = bb_colls[c->kind].name,
                      .bytes = bb_case_bytes(c),
                      .count = c->count,
                      .dtype = bb_dtypes[c->dtype].name,
                      .op = c->redop == BB_COPY ? NULL : bb_redops[c->redop].name,
                      .root = c->root,
                      .min_ctas = limit->min > 0 ? limit->min : -1,
                      .max_ctas = limit->max > 0 ? limit->max : -1,
                      .gemm = json_pack("{s:I, s:I, s:I, s:f}", "m", (json_int_t)s->m, "n", (json_int_t)s->n, "k",
                                        (json_int_t)s->k, "flops", bb_gemm_flops(s)),
                      .gemms = work->gemms,
                      .collectives = work->collectives,
                      .result = *r,
                      .busbw_alone_gbps = busbw_gbps(work, &r->us[BB_COMM_ALONE]),
                      .busbw_in_both_gbps = busbw_gbps(work, &r->us[BB_COMM_IN_BOTH]),
                      .tflops_alone = tflops_of(v, work, &r->us[BB_COMPUTE_ALONE]),
                      .tflops_in_both = tflops_of(v, work, &r->us[BB_COMPUTE_IN_BOTH]),
                      .wrong = r->checked ? (long long)r->wrong : -1};

    for (int t = 0; t < BB_OVERLAP_TIMES; t++)
        us[t] = r->us[t].p50;
    row.contention = bb_contention_of(us);
    bb_cta_limit_text(limit, row.ctas);
    return row;
}

/* row: out, on rank 0 */
static int put_row(struct overlap *v, const struct bb_overlap_work *work, const struct bb_cta_limit *limit,
                   const struct bb_overlap_result *r, struct row *row)
{
    char what[80], of[128];

    if (v->data.wrong == 0)
        v->data.first = r->first;
    v->data.wrong += r->wrong;
    bb_progress_clear(&v->session.progress);
    if (v->session.world.rank != 0)
        return 0;
    *row = make_row(v, work, limit, r);
    snprintf(what, sizeof what, "%s of %zu byte%s, concurrent with GEMMs", row->collective, row->bytes,
             bb_plural(row->bytes));
    snprintf(of, sizeof of, "%s (CTAs: %s)", what, row->ctas);
    if (r->wrong > 0)
        bb_report_wrong_data(&v->session.world, &(struct bb_metrics){.wrong = r->wrong, .first = r->first},
                             work->c.dtype, of);
    bb_table_row(lists_all(v) ? v->session.out : NULL, fields, row);
    return bb_result_put(&v->session, fields, row, &r->seen, r->seen.gpu_flags, what);
}

/* ---- measuring one message size ---- */

/* Sets work->gemms and work->collectives, the numbers of operations per sample: from --gemms and --collectives, or
 * such that the GEMMs and the collectives take about the same time, based on a measurement of one GEMM and one
 * collective with the CTA limit whose collective is fastest. All CTA limits use the same numbers. */
static int choose_counts(struct overlap *v, struct bb_overlap_work *work)
{
    struct bb_overlap_result r;
    double compute_us = INFINITY, comm_us = INFINITY;
    int rc;

    if (v->options.gemms > 0) {
        work->gemms = v->options.gemms;
        work->collectives = v->options.collectives;
        return 0;
    }
    work->gemms = 1;
    work->collectives = 1;
    for (int i = 0; i < v->options.n_limits; i++) {
        work->comm = &v->comms[i];
        TRY(bb_overlap_measure(&v->ctx, work, &r));
        compute_us = fmin(compute_us, r.us[BB_COMPUTE_ALONE].p50);
        comm_us = fmin(comm_us, r.us[BB_COMM_ALONE].p50);
    }
    bb_overlap_counts(compute_us, comm_us, v->options.collectives, &work->gemms, &work->collectives);
out:
    return rc;
}

static json_t *ctas_json(int ctas)
{
    return ctas > 0 ? json_integer(ctas) : json_null();
}

/* Returns the CTA limits that are as fast as the fastest (bb_overlap_best), for example ["default", "4", "8"]; empty if
 * there is no other than the fastest. */
static json_t *ties_json(const struct overlap *v, const bool *tied, int ties)
{
    json_t *list = json_array();
    char ctas[BB_CTA_TEXT];

    for (int i = 0; ties > 1 && i < v->options.n_limits; i++)
        if (tied[i])
            json_array_append_new(list, json_string(bb_cta_limit_text(&v->options.limits[i], ctas)));
    return list;
}

/* Prints the best of several limits, and those that are as fast. row: of the best limit */
static void print_best(FILE *out, const struct row *row, const json_t *ties, int n_limits)
{
    char size[BB_BYTES_TEXT], time[BB_TIME_TEXT];
    const char *name, *separator = "; as fast: ";

    bb_format_bytes(row->bytes, size);
    if (json_array_size(ties) == (size_t)n_limits) {
        fprintf(out, "# %s: the CTA limit makes no difference", size);
        ties = NULL;
    } else {
        fprintf(out, "# best for %s: %s CTA%s", size, row->ctas, strcmp(row->ctas, "1") == 0 ? "" : "s");
    }
    for (size_t i = 0; i < json_array_size(ties); i++) {
        name = json_string_value(json_array_get(ties, i));
        if (strcmp(name, row->ctas) == 0)
            continue;
        fprintf(out, "%s%s", separator, name);
        separator = ", ";
    }
    fprintf(out, ": %s for %d GEMM%s and %d collective%s\n", bb_format_time(row->result.us[BB_BOTH].p50, time),
            row->gemms, bb_plural(row->gemms), row->collectives, bb_plural(row->collectives));
}

/* rows: [n_limits] of the message size. A short table has only the first limit and the best one. */
static int report_best(struct overlap *v, const struct bb_overlap_work *work, const struct bb_stats *both_us,
                       const struct row *rows)
{
    bool tied[BB_CTA_LIMITS];
    int ties, best = bb_overlap_best(v->options.limits, both_us, v->options.n_limits, tied, &ties);
    const struct bb_cta_limit *limit = &v->options.limits[best];
    size_t bytes = bb_case_bytes(&work->c);
    json_t *list;

    if (v->session.world.rank != 0)
        return 0;
    list = ties_json(v, tied, ties);
    if (!lists_all(v)) {
        bb_table_row(v->session.out, fields, &rows[0]);
        if (best > 0)
            bb_table_row(v->session.out, fields, &rows[best]);
    }
    if (v->session.out && v->options.n_limits > 1)
        print_best(v->session.out, &rows[best], list, v->options.n_limits);
    json_array_append_new(v->best, json_pack("{s:I, s:o, s:o, s:f, s:o}", "bytes", (json_int_t)bytes, "min_ctas",
                                             ctas_json(limit->min), "max_ctas", ctas_json(limit->max), "both_us",
                                             both_us[best].p50, "tied", list));
    return bb_results_set(v->session.json, "best", json_deep_copy(v->best)); /* a copy, because the array
                                                                                grows with the next size */
}

static int measure_size(struct overlap *v, size_t bytes)
{
    struct bb_overlap_work work = {.comm = &v->comms[0], .c = case_of(v, bytes)};
    struct bb_overlap_result r;
    struct bb_stats both_us[BB_CTA_LIMITS];
    struct row rows[BB_CTA_LIMITS];
    char ctas[BB_CTA_TEXT];
    int rc;

    bb_world_reached(&v->session.world, "bench overlap %zu bytes, choosing the number of calls", bytes);
    TRY(choose_counts(v, &work));
    for (int i = 0; i < v->options.n_limits; i++) {
        bb_cta_limit_text(&v->options.limits[i], ctas);
        bb_progress_show(&v->session.progress, "%zu bytes, CTAs %s", bytes, ctas);
        bb_world_reached(&v->session.world, "bench overlap %zu bytes, CTAs %s", bytes, ctas);
        work.comm = &v->comms[i];
        TRY(bb_overlap_measure(&v->ctx, &work, &r));
        both_us[i] = r.us[BB_BOTH];
        TRY(put_row(v, &work, &v->options.limits[i], &r, &rows[i]));
        bb_progress_advance(&v->session.progress, 1);
    }
    TRY(report_best(v, &work, both_us, rows));
out:
    return rc;
}

/* ---- slow GPUs ---- */

/* Names the ranks whose GEMMs alone take more than SLOW x the typical time, over all rows. */
static int report_slow(struct overlap *v)
{
    static const double SLOW = 1.1;
    const struct bb_session *s = &v->session;
    json_t *list = json_array();
    double *us, *sorted, typical_us;
    char text[BB_RANK_TEXT];
    int rc;

    BB_NEW(sorted, s->world.size);
    us = bb_world_gather(&v->session.world, &v->ctx.gemm_us, sizeof *us, &rc);
    TRY(rc);
    memcpy(sorted, us, (size_t)s->world.size * sizeof *us);
    bb_sort_doubles(sorted, (size_t)s->world.size);
    typical_us = bb_stats_typical(sorted, (size_t)s->world.size, SLOW);
    for (int r = 0; r < s->world.size && !s->shared_gpu; r++) {
        if (us[r] <= SLOW * typical_us)
            continue;
        json_array_append_new(list, json_pack("{s:i, s:s, s:i, s:f}", "rank", r, "host", s->world.hosts[r], "gpu",
                                              s->devices[r].ordinal, "slowdown", us[r] / typical_us));
        if (s->out)
            fprintf(s->out, "# slow: %s: GEMMs alone take %.2f x the typical time\n", bb_session_rank_text(s, r, text),
                    us[r] / typical_us);
        if (s->world.rank == 0)
            bb_warn("%s is slow: GEMMs alone take %.2f x the typical time", bb_session_rank_text(s, r, text),
                    us[r] / typical_us);
    }
    rc = bb_results_set(s->json, "slow_gpus", list);
out:
    free(us);
    free(sorted);
    return rc;
}

/* ---- starting and ending the run ---- */

static int make_comms(struct overlap *v)
{
    struct bb_world *w = &v->session.world;
    char ctas[BB_CTA_TEXT], name[BB_COMM_NAME];
    int rc = 0;

    for (int i = 0; i < v->options.n_limits; i++) {
        const struct bb_comm_opts opts = {
            .blocking = true, .min_ctas = v->options.limits[i].min, .max_ctas = v->options.limits[i].max};
        snprintf(name, sizeof name, "ctas %s", bb_cta_limit_text(&v->options.limits[i], ctas));
        TRY(bb_comm_init(&v->comms[i], w, name, NULL, w->size, &opts));
    }
out:
    return rc;
}

static int make_context(struct overlap *v)
{
    int rc;

    TRY(check_sizes(v));
    TRY(bb_session_check_memory(&v->session,
                                bb_overlap_context_bytes(&v->options.gemm_shape, slot_bytes(v), v->session.memory),
                                "lower --sizes or --gemm"));
    TRY(make_comms(v));
    TRY(bb_overlap_context_init(&v->ctx, &v->session, &v->options, slot_bytes(v)));
out:
    return rc;
}

static int run_overlap(struct overlap *v, int argc, char **argv)
{
    const struct bb_results_head head = {.schema = "busbar.bench/1", .argc = argc, .argv = argv};
    int rc;

    TRY(bb_session_begin(&v->session, &v->options.common, BB_SESSION_OBSERVED));
    TRY(bb_session_setup_gpus(&v->session, 0));
    if (bb_gemm_flops(&v->options.gemm_shape) > 1e9)
        bb_session_warn_slow_gemms(&v->session, "a smaller --gemm, or EMU_DATA=off for times without data");
    TRY(make_context(v));
    TRY(bb_session_open_results(&v->session, &head, &bb_bench_overlap_set, &v->options));
    v->best = json_array();
    print_head(v);
    bb_progress_expect(&v->session.progress, (double)v->options.sizes.n * v->options.n_limits);
    for (int i = 0; i < v->options.sizes.n; i++)
        TRY(measure_size(v, v->options.sizes.bytes[i]));
    TRY(report_slow(v));
    if (v->session.out && v->data.wrong > 0)
        bb_print_wrong_data(v->session.out, &v->session.world, v->data.wrong, v->data.first.rank, "\n");
    rc = v->data.wrong > 0 ? -BB_EDATA : 0;
out:
    return rc;
}

static int end_in_order(struct overlap *v)
{
    int rc = 0;

    bb_overlap_context_release(&v->ctx);
    for (int i = 0; i < v->options.n_limits && rc == 0; i++)
        rc = bb_comm_finalize(&v->comms[i]);
    return rc;
}

int bb_bench_overlap_run(int argc, char **argv)
{
    struct overlap *v;
    int rc, end_rc = 0;

    BB_NEW(v, 1);
    rc = bb_opts_read(&bb_bench_overlap_set, &v->options, argc - 1, argv + 1);
    if (rc == 0) {
        rc = run_overlap(v, argc, argv);
        if (bb_session_ends_on_all_ranks(&v->session, rc))
            end_rc = end_in_order(v);
        rc = bb_session_release(&v->session, rc, end_rc);
    }
    json_decref(v->best);
    free(v);
    return rc;
}
