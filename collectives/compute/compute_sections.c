/* compute_sections.c - see compute_sections.h. */
#include "collectives/compute/compute_sections.h"

#include "bootstrap/results/table.h"

#include <math.h>
#include <string.h>

bool bb_compute_type_wanted(const struct bb_compute *b, int type)
{
    return strcmp(b->options.dtype, "all") == 0 ||
           strcmp(b->options.dtype, bb_dtypes[bb_compute_types[type]].name) == 0;
}

/* ---- rows ---- */

static int save_row(struct bb_compute *b, const char *section, json_t *row, const struct bb_computed *c)
{
    if (!row)
        return bb_err(BB_EFAIL, "no memory for a row of results");
    json_object_set_new(row, "section", json_string(section));
    json_object_set_new(row, "iterations", json_integer(b->options.iterations));
    json_object_set_new(row, "time_us", bb_json_stats(&c->time_us));
    json_object_set_new(row, "slowest_rank", json_integer(c->rank));
    return bb_results_row(b->session.json, row);
}

static int put_row(struct bb_compute *b, enum bb_compute_section section, const struct bb_column *columns,
                   const struct bb_cell *cells, int n, const struct bb_computed *c)
{
    bb_progress_clear(&b->session.progress);
    bb_table_row(b->session.out, columns, cells, n);
    if (b->session.world.rank != 0)
        return 0;
    return save_row(b, bb_compute_section_names[section], bb_table_json(columns, cells, n), c);
}

static void put_title(const struct bb_compute *b, const char *title)
{
    if (b->session.out)
        fprintf(b->session.out, "#\n# %s\n#\n", title);
}

/* Rate in 1e9 per second of something done in the median time; 0 where no time passed. */
static double giga_per_s(double amount, const struct bb_computed *c)
{
    return c->time_us.p50 > 0 ? amount / c->time_us.p50 / 1e3 : 0;
}

/* ---- matrix products ---- */

static const struct bb_column gemm_columns[] = {
    {"name", "name", "", 20, 0},
    {"dtype", "type", "", 8, 0},
    {"m", "m", "", 7, 0},
    {"n", "n", "", 6, 0},
    {"k", "k", "", 6, 0},
    {"batch", "batch", "", 5, 0},
    {"median_us", "time", "(us)", 10, 2},
    {"max_us", "max", "(us)", 10, 2},
    {"tflops", "TFLOP/s", "", 8, 2},
    {"percent_of_best", "of best", "(%)", 7, 1},
};
enum { GEMM_COLUMNS = sizeof gemm_columns / sizeof *gemm_columns };

static int put_gemm(struct bb_compute *b, int type, const struct bb_gemm_case *g, const struct bb_computed *c)
{
    const struct bb_gemm_shape *s = &g->shape;
    double tflops = giga_per_s(bb_gemm_flops(s), c) / 1e3;
    const struct bb_cell cells[GEMM_COLUMNS] = {
        BB_TEXT(g->name),
        BB_TEXT(bb_dtypes[s->dtype].name),
        BB_INT(s->m),
        BB_INT(s->n),
        BB_INT(s->k),
        BB_INT(s->batch),
        BB_REAL(c->time_us.p50),
        BB_REAL(c->time_us.max),
        BB_REAL(tflops),
        BB_REAL(100 * tflops / b->best_tflops[type]),
    };

    return put_row(b, BB_COMPUTE_GEMM, gemm_columns, cells, GEMM_COLUMNS, c);
}

/* All products of a type are measured before the first is shown: the best of them is the limit. */
static int run_gemms_of(struct bb_compute *b, int type)
{
    struct bb_gemm_case cases[BB_COMPUTE_GEMMS];
    struct bb_computed computed[BB_COMPUTE_GEMMS];
    int n = bb_compute_gemms(bb_compute_types[type], b->options.quick, cases), rc = 0;

    for (int i = 0; i < n; i++) {
        bb_progress_show(&b->session.progress, "%s %s", cases[i].name, bb_dtypes[bb_compute_types[type]].name);
        bb_world_reached(&b->session.world, "bench compute: %s %s", cases[i].name,
                         bb_dtypes[bb_compute_types[type]].name);
        TRY(bb_measure_gemm(&b->rig, &cases[i].shape, &computed[i]));
        b->best_tflops[type] =
            fmax(b->best_tflops[type], giga_per_s(bb_gemm_flops(&cases[i].shape), &computed[i]) / 1e3);
    }
    for (int i = 0; i < n; i++)
        TRY(put_gemm(b, type, &cases[i], &computed[i]));
out:
    return rc;
}

static int run_gemms(struct bb_compute *b)
{
    int rc = 0;

    put_title(b, "gemm: matrix products through cuBLASLt; of best: of the fastest of its type in this table");
    bb_table_heading(b->session.out, gemm_columns, GEMM_COLUMNS);
    for (int t = 0; t < BB_COMPUTE_TYPES && rc == 0; t++)
        if (bb_compute_type_wanted(b, t))
            rc = run_gemms_of(b, t);
    return rc;
}

/* ---- passes ---- */

static const struct bb_column pass_columns[] = {
    {"name", "name", "", 20, 0},
    {"dtype", "type", "", 8, 0},
    {"bytes", "moved", "(B)", 12, 0},
    {"median_us", "time", "(us)", 10, 2},
    {"max_us", "max", "(us)", 10, 2},
    {"gbps", "GB/s", "", 8, 1},
    {"percent_of_copy", "of copy", "(%)", 7, 1},
};
enum { PASS_COLUMNS = sizeof pass_columns / sizeof *pass_columns };

static int put_pass(struct bb_compute *b, const char *name, const char *dtype, size_t bytes,
                    const struct bb_computed *c)
{
    double gbps = giga_per_s((double)bytes, c);
    const struct bb_cell cells[PASS_COLUMNS] = {
        BB_TEXT(name),
        BB_TEXT(dtype),
        BB_INT(bytes),
        BB_REAL(c->time_us.p50),
        BB_REAL(c->time_us.max),
        BB_REAL(gbps),
        BB_REAL(100 * gbps / b->copy_gbps),
    };

    return put_row(b, BB_COMPUTE_PASSES, pass_columns, cells, PASS_COLUMNS, c);
}

static int run_passes_of(struct bb_compute *b, enum bb_dtype_id dtype)
{
    struct bb_pass_case c;
    struct bb_computed computed;
    int rc = 0;

    for (int i = 0; bb_compute_pass(i, dtype, b->options.bytes, &c); i++) {
        bb_progress_show(&b->session.progress, "%s %s", c.name, bb_dtypes[dtype].name);
        bb_world_reached(&b->session.world, "bench compute: %s %s", c.name, bb_dtypes[dtype].name);
        TRY(bb_measure_pass(&b->rig, &c.pass, &computed));
        TRY(put_pass(b, c.name, bb_dtypes[dtype].name, bb_pass_bytes(&c.pass), &computed));
    }
out:
    return rc;
}

static int run_passes(struct bb_compute *b)
{
    int rc = 0;

    put_title(b, "passes: bound by memory; of copy: of the fastest copy on the device, read plus written");
    bb_table_heading(b->session.out, pass_columns, PASS_COLUMNS);
    for (int t = 0; t < BB_COMPUTE_TYPES && rc == 0; t++)
        if (bb_compute_type_wanted(b, t))
            rc = run_passes_of(b, bb_compute_types[t]);
    return rc;
}

/* The better of the driver's copy and of our own kernel's. */
static int measure_copy_limit(struct bb_compute *b)
{
    struct bb_pass_case copy;
    struct bb_computed c;
    int rc;

    TRY(bb_measure_memcpy(&b->rig, b->options.bytes, &c));
    b->copy_gbps = giga_per_s((double)(b->options.bytes / 2 * 2), &c);
    if (bb_compute_pass(0, BB_FLOAT, b->options.bytes, &copy)) {
        TRY(bb_measure_pass(&b->rig, &copy.pass, &c));
        b->copy_gbps = fmax(b->copy_gbps, giga_per_s((double)bb_pass_bytes(&copy.pass), &c));
    }
out:
    return rc;
}

/* ---- the timed stand-in ---- */

static const struct bb_column timed_columns[] = {
    {"sms", "SMs", "", 5, 0},
    {"asked_us", "asked", "(us)", 9, 1},
    {"clock_us", "GPU clock", "(us)", 10, 2},
    {"error_percent", "error", "(%)", 7, 2},
    {"median_us", "in stream", "(us)", 10, 2},
    {"stream_error_percent", "error", "(%)", 7, 2},
    {"asked_gbps", "asked", "(GB/s)", 8, 1},
    {"gbps", "moved", "(GB/s)", 8, 1},
};
enum { TIMED_COLUMNS = sizeof timed_columns / sizeof *timed_columns };

static double percent_off(double got, double asked)
{
    return 100 * (got - asked) / asked;
}

static int put_timed(struct bb_compute *b, const struct bb_busy *busy, double asked_us, const struct bb_timed *t)
{
    double error = percent_off(t->clock.time_us.p50, asked_us);
    const struct bb_cell cells[TIMED_COLUMNS] = {
        BB_INT(busy->sms),
        BB_REAL(asked_us),
        BB_REAL(t->clock.time_us.p50),
        BB_REAL(error),
        BB_REAL(t->stream.time_us.p50),
        BB_REAL(percent_off(t->stream.time_us.p50, asked_us)),
        BB_REAL(busy->gbps > 0 ? busy->gbps : NAN),
        BB_REAL(busy->gbps > 0 ? t->gbps : NAN),
    };

    if (asked_us >= 100)
        b->worst_error = fmax(b->worst_error, fabs(error));
    return put_row(b, BB_COMPUTE_TIMED, timed_columns, cells, TIMED_COLUMNS, &t->stream);
}

static int run_timed(struct bb_compute *b)
{
    struct bb_timed_case c;
    struct bb_timed t;
    int rc = 0;

    put_title(b,
              "timed: the stand-in for compute. GPU clock: from its first block to its last; in stream: per launch,\n"
              "# back to back, with the gap between launches");
    bb_table_heading(b->session.out, timed_columns, TIMED_COLUMNS);
    for (int i = 0; bb_compute_timed(i, b->options.quick, &c); i++) {
        int sms = (int)(c.sms * b->session.device.sm_count);
        const struct bb_busy busy = {
            .sms = sms > 1 ? sms : 1, .ns = (int64_t)(c.asked_us * 1e3), .gbps = c.traffic * b->copy_gbps};
        bb_progress_show(&b->session.progress, "timed %g us", c.asked_us);
        bb_world_reached(&b->session.world, "bench compute: timed %g us", c.asked_us);
        TRY(bb_measure_busy(&b->rig, &busy, &t));
        TRY(put_timed(b, &busy, c.asked_us, &t));
    }
out:
    return rc;
}

/* ---- all of it ---- */

static void print_limits(const struct bb_compute *b)
{
    if (!b->session.out)
        return;
    fprintf(b->session.out, "#\n# limits measured here: copy %.1f GB/s", b->copy_gbps);
    for (int t = 0; t < BB_COMPUTE_TYPES; t++)
        if (b->best_tflops[t] > 0)
            fprintf(b->session.out, ", %s %.1f TFLOP/s", bb_dtypes[bb_compute_types[t]].name, b->best_tflops[t]);
    if (b->options.wanted[BB_COMPUTE_TIMED])
        fprintf(b->session.out, "; timed kernel at 100 us and above: at most %.2f %% off", b->worst_error);
    fputc('\n', b->session.out);
}

static int save_limits(struct bb_compute *b)
{
    json_t *tflops = json_object(), *limits = json_object();

    for (int t = 0; t < BB_COMPUTE_TYPES; t++)
        json_object_set_new(tflops, bb_dtypes[bb_compute_types[t]].name,
                            bb_json_real(b->best_tflops[t] > 0 ? b->best_tflops[t] : NAN));
    json_object_set_new(limits, "copy_gbps", bb_json_real(b->copy_gbps));
    json_object_set_new(limits, "tflops", tflops);
    json_object_set_new(limits, "timed_error_percent",
                        bb_json_real(b->options.wanted[BB_COMPUTE_TIMED] ? b->worst_error : NAN));
    return bb_results_set(b->session.json, "limits", limits);
}

static int judge(const struct bb_compute *b)
{
    const double allowed = b->options.max_error;

    if (allowed <= 0 || !b->options.wanted[BB_COMPUTE_TIMED] || b->worst_error <= allowed)
        return 0;
    return BB_WORLD_ERR(&b->session.world, BB_EBELOW,
                        "the timed kernel is %.2f %% off at 100 us or above: --max-error is %g", b->worst_error,
                        allowed);
}

int bb_compute_run(struct bb_compute *b)
{
    static int (*const sections[BB_COMPUTE_SECTIONS])(struct bb_compute *) = {run_gemms, run_passes, run_timed};
    int rc;

    TRY(measure_copy_limit(b));
    for (int s = 0; s < BB_COMPUTE_SECTIONS; s++)
        if (b->options.wanted[s])
            TRY(sections[s](b));
    bb_progress_clear(&b->session.progress);
    print_limits(b);
    TRY(save_limits(b));
    TRY(judge(b));
out:
    return rc;
}
