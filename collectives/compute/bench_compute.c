/*
 * bench_compute.c - runs `busbar bench compute`, which measures GEMMs, memory-bound kernels, and timed kernels (which
 * run for a requested time), and reports the times as text and JSON. The benchmark runs on one rank without mpirun.
 * With more ranks, all ranks measure at the same time and the slowest rank's times are reported.
 */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/environment.h"
#include "bootstrap/cli/report_header.h"
#include "bootstrap/results/checks.h"
#include "bootstrap/results/table.h"
#include "collectives/compute/compute_measure.h"
#include "collectives/compute/compute_options.h"
#include "collectives/session/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

/* The kernels of one section and element type: a row of the table that is printed without --full. */
struct summary {
    const char *section, *dtype;
    const char *unit; /* of the rates */
    int kernels;
    double fastest, slowest, percent; /* rates; percent: slowest / fastest */
    char slowest_name[BB_COMPUTE_NAME + 24];
};

/* State of one run of `busbar bench compute`. An all-zero struct may be passed to the release function. */
struct compute {
    struct bb_bench_compute_options options;
    struct bb_session session;
    struct bb_compute_context ctx;
    double copy_gbps; /* measured copy bandwidth of the device, 1e9 bytes/s (read + written). The percentage columns
                         print bandwidths relative to copy_gbps and FLOP rates relative to best_tflops */
    double best_tflops[BB_COMPUTE_TYPES];
    double typical_copy_gbps,
        typical_tflops[BB_COMPUTE_TYPES]; /* limits of the typical GPU, which no slow GPU lowers */
    int worst_rank;                       /* rank with worst_error */
    double worst_error;  /* timed kernels of at least 100 us: largest deviation of the measured from the requested
                           duration, in percent */
    double excess_error; /* largest deviation in percent, after subtracting the tolerance TIMED_SLACK_US (in us) from
                            each deviation; compared with --max-error */
    double excess_us, excess_target_us; /* measured and requested time with this deviation */
    int excess_rank, results;           /* rank with this deviation; number of results */
};

static bool type_is_wanted(const struct compute *b, int type)
{
    const struct bb_compute_type *t = &bb_compute_types[type];

    return strcmp(b->options.dtype, "all") == 0 ? !t->tf32 : strcmp(b->options.dtype, t->name) == 0;
}

/* Records the kernel that is measured next, for progress, messages and profilers. */
static void begin_kernel(struct compute *b, const char *name, const char *detail)
{
    snprintf(b->ctx.name, sizeof b->ctx.name, "%s %s", name, detail);
    bb_progress_show(&b->session.progress, "%s", b->ctx.name);
    bb_world_reached(&b->session.world, "bench compute: %s", b->ctx.name);
}

/* ---- JSON fields that all result rows have ---- */

/* JSON fields that the results of GEMMs, memory-bound kernels and timed kernels have in common. */
struct section_row {
    const char *section;
    int iterations;
    bool start_barrier;
    const char *slow_ranks; /* NULL: none */
    struct bb_computed computed;
};

static const struct bb_field section_fields[] = {
    {"section", BB_SHOWS(struct section_row, section)},
    {"iterations", BB_SHOWS(struct section_row, iterations)},
    {"start_barrier", BB_SHOWS(struct section_row, start_barrier)},
    {"time_us", BB_SHOWS(struct section_row, computed.time_us)},
    {"slowest_rank", BB_SHOWS(struct section_row, computed.rank)},
    {"slowdown", BB_SHOWS(struct section_row, computed.slowdown)},
    {0},
};

/* Last column of the tables, with several ranks. */
static const struct bb_field slow_fields[] = {
    {NULL, "slow", "(ranks)", 9, 0, BB_SHOWS(struct section_row, slow_ranks), .none = "-"},
    {0},
};

static void print_heading(const struct compute *b, const struct bb_field *fields)
{
    struct bb_line line = {.out = b->session.detail};

    for (int units = 0; b->session.detail && units < 2; units++) {
        bb_line_heading(&line, fields, units);
        if (b->session.world.size > 1)
            bb_line_heading(&line, slow_fields, units);
        bb_line_end(&line);
    }
}

static void print_row(const struct compute *b, const struct bb_field *fields, const void *row,
                      const struct section_row *shared)
{
    struct bb_line line = {.out = b->session.detail};

    if (!b->session.detail)
        return;
    bb_line_row(&line, fields, row);
    if (b->session.world.size > 1)
        bb_line_row(&line, slow_fields, shared);
    bb_line_end(&line);
}

static const struct bb_field summary_fields[] = {
    {NULL, "section", "", 15, 0, BB_SHOWS(struct summary, section), .form = BB_FORM_LEFT},
    {NULL, "type", "", 8, 0, BB_SHOWS(struct summary, dtype)},
    {NULL, "kernels", "", 7, 0, BB_SHOWS(struct summary, kernels)},
    {NULL, "fastest", "", 9, 2, BB_SHOWS(struct summary, fastest)},
    {NULL, "slowest", "", 9, 2, BB_SHOWS(struct summary, slowest)},
    {NULL, "", "", 7, 0, BB_SHOWS(struct summary, unit), .form = BB_FORM_LEFT},
    {NULL, "slowest", "(% of fastest)", 14, 1, BB_SHOWS(struct summary, percent)},
    {NULL, "slowest kernel", "", 20, 0, BB_SHOWS(struct summary, slowest_name), .form = BB_FORM_LEFT},
    {0},
};

/* Adds a kernel to the summary. */
static void summarize(struct summary *s, const char *name, double rate)
{
    s->fastest = fmax(s->fastest, rate);
    if (s->kernels == 0 || rate < s->slowest) {
        s->slowest = rate;
        snprintf(s->slowest_name, sizeof s->slowest_name, "%.*s", (int)sizeof s->slowest_name - 1, name);
    }
    s->kernels++;
    s->percent = 100 * s->slowest / s->fastest;
}

static void print_summary(struct compute *b, const struct summary *s)
{
    bb_progress_clear(&b->session.progress);
    if (!b->session.detail)
        bb_table_row(b->session.out, summary_fields, s);
}

static int put_row(struct compute *b, enum bb_compute_section section, const struct bb_field *fields, const void *row,
                   const struct bb_computed *c)
{
    const struct section_row shared = {bb_compute_section_names[section], b->options.iterations,
                                       b->ctx.holds && section != BB_COMPUTE_TIMED,
                                       c->slow_ranks[0] ? c->slow_ranks : NULL, *c};
    json_t *result;

    bb_progress_clear(&b->session.progress);
    print_row(b, fields, row, &shared);
    b->results++;
    if (b->session.world.rank != 0)
        return 0;
    result = json_object();
    bb_table_json(result, fields, row);
    bb_table_json(result, section_fields, &shared);
    return bb_results_row(b->session.json, result);
}

/* Returns the rate of a kernel in 1e9 per second: `amount` (bytes or FLOPs of one operation) / median time of one
 * operation; 0 if the median is 0. */
static double giga_per_s(double amount, const struct bb_computed *c)
{
    return c->time_us.p50 > 0 ? amount / c->time_us.p50 / 1e3 : 0;
}

/* ---- GEMMs ---- */

struct gemm_row {
    struct bb_gemm_case gemm;
    struct bb_computed computed;
    const char *dtype;
    double tflops, percent_of_best;
};

#define GEMM(member) BB_SHOWS(struct gemm_row, member)
static const struct bb_field gemm_fields[] = {
    {"name", "name", "", 20, 0, GEMM(gemm.name)},
    {"dtype", "type", "", 8, 0, GEMM(dtype)},
    {"m", "m", "", 7, 0, GEMM(gemm.shape.m)},
    {"n", "n", "", 6, 0, GEMM(gemm.shape.n)},
    {"k", "k", "", 6, 0, GEMM(gemm.shape.k)},
    {"batch", "batch", "", 5, 0, GEMM(gemm.shape.batch)},
    {"median_us", "time", "(us)", 10, 2, GEMM(computed.time_us.p50)},
    {"max_us", "max", "(us)", 10, 2, GEMM(computed.time_us.max)},
    {"tflops", "TFLOP/s", "", 8, 2, GEMM(tflops)},
    {"percent_of_best", "of best", "(%)", 7, 1, GEMM(percent_of_best)},
    {0},
};

/* Measures all GEMMs of one element type, then prints one row per GEMM. The column percent_of_best needs the fastest
 * GEMM of the type, so the function measures all GEMMs before it prints. */
static int run_gemms(struct compute *b, int type)
{
    struct bb_gemm_case cases[BB_COMPUTE_GEMMS];
    struct bb_computed computed[BB_COMPUTE_GEMMS];
    const char *dtype = bb_compute_types[type].name;
    int n = bb_compute_gemms(bb_compute_types[type].dtype, b->options.quick, cases), rc = 0;
    double tflops[BB_COMPUTE_GEMMS];
    char name[BB_COMPUTE_NAME + 24];
    struct summary summary = {.section = bb_compute_section_names[BB_COMPUTE_GEMM], .dtype = dtype, .unit = "TFLOP/s"};

    b->ctx.lib.tf32 = bb_compute_types[type].tf32;
    for (int i = 0; i < n; i++) {
        begin_kernel(b, cases[i].name, dtype);
        TRY(bb_measure_gemm(&b->ctx, &cases[i].shape, &computed[i]));
        tflops[i] = giga_per_s(bb_gemm_flops(&cases[i].shape), &computed[i]) / 1e3;
        b->best_tflops[type] = fmax(b->best_tflops[type], tflops[i]);
        b->typical_tflops[type] = fmax(b->typical_tflops[type], tflops[i] * computed[i].slowdown);
    }
    for (int i = 0; i < n; i++) {
        const struct gemm_row row = {cases[i], computed[i], dtype, tflops[i], 100 * tflops[i] / b->best_tflops[type]};
        TRY(put_row(b, BB_COMPUTE_GEMM, gemm_fields, &row, &computed[i]));
        snprintf(name, sizeof name, "%.*s, m %lld", BB_COMPUTE_NAME, cases[i].name, (long long)cases[i].shape.m);
        summarize(&summary, name, tflops[i]);
    }
    print_summary(b, &summary);
out:
    return rc;
}

/* ---- memory-bound kernels ---- */

struct memory_kernel_row {
    const char *name, *dtype;
    size_t bytes;
    struct bb_computed computed;
    double gbps, percent_of_copy;
};

#define MEMORY_KERNEL(member) BB_SHOWS(struct memory_kernel_row, member)
static const struct bb_field memory_kernel_fields[] = {
    {"name", "name", "", 20, 0, MEMORY_KERNEL(name)},
    {"dtype", "type", "", 8, 0, MEMORY_KERNEL(dtype)},
    {"bytes", "moved", "(B)", 12, 0, MEMORY_KERNEL(bytes)},
    {"median_us", "time", "(us)", 10, 2, MEMORY_KERNEL(computed.time_us.p50)},
    {"max_us", "max", "(us)", 10, 2, MEMORY_KERNEL(computed.time_us.max)},
    {"gbps", "GB/s", "", 8, 1, MEMORY_KERNEL(gbps)},
    {"percent_of_copy", "of copy", "(%)", 7, 1, MEMORY_KERNEL(percent_of_copy)},
    {0},
};

static int run_memory_kernels(struct compute *b, int type)
{
    const enum bb_dtype_id dtype = bb_compute_types[type].dtype;
    struct summary summary = {
        .section = bb_compute_section_names[BB_COMPUTE_MEMORY_KERNELS], .dtype = bb_dtypes[dtype].name, .unit = "GB/s"};
    struct bb_memory_kernel_case c;
    int rc = 0;

    for (int i = 0; bb_compute_memory_kernel(i, dtype, b->options.bytes, &c); i++) {
        struct memory_kernel_row row = {
            .name = c.name, .dtype = bb_dtypes[dtype].name, .bytes = bb_memory_kernel_bytes(&c.memory_kernel)};

        begin_kernel(b, row.name, row.dtype);
        TRY(bb_measure_memory_kernel(&b->ctx, &c.memory_kernel, &row.computed));
        row.gbps = giga_per_s((double)row.bytes, &row.computed);
        row.percent_of_copy = 100 * row.gbps / b->copy_gbps;
        TRY(put_row(b, BB_COMPUTE_MEMORY_KERNELS, memory_kernel_fields, &row, &row.computed));
        summarize(&summary, row.name, row.gbps);
    }
    print_summary(b, &summary);
out:
    return rc;
}

static void keep_copy(struct compute *b, size_t bytes, const struct bb_computed *c)
{
    const double gbps = giga_per_s((double)bytes, c);

    b->copy_gbps = fmax(b->copy_gbps, gbps);
    b->typical_copy_gbps = fmax(b->typical_copy_gbps, gbps * c->slowdown);
}

/* Measures the copy bandwidth that the other memory-bound kernels are compared with: the faster of cudaMemcpyAsync
 * and busbar's copy kernel. */
static int measure_copy_limit(struct compute *b)
{
    struct bb_memory_kernel_case copy;
    struct bb_computed c;
    int rc;

    begin_kernel(b, "copy", "limit");
    TRY(bb_measure_memcpy(&b->ctx, b->options.bytes, &c));
    keep_copy(b, b->options.bytes / 2 * 2, &c);
    if (bb_compute_memory_kernel(0, BB_FLOAT, b->options.bytes, &copy)) {
        TRY(bb_measure_memory_kernel(&b->ctx, &copy.memory_kernel, &c));
        keep_copy(b, bb_memory_kernel_bytes(&copy.memory_kernel), &c);
    }
out:
    return rc;
}

/* ---- timed kernels (run for a requested time) ---- */

struct timed_row {
    int sms;
    double requested_us, clock_us, error_percent, stream_us, stream_error_percent;
    double requested_gbps, gbps; /* 1e9 bytes/s, read plus written; NaN: the kernel has no memory traffic */
};

#define TIMED(member) BB_SHOWS(struct timed_row, member)
static const struct bb_field timed_fields[] = {
    {"sms", "SMs", "", 5, 0, TIMED(sms)},
    {"requested_us", "target", "(us)", 9, 1, TIMED(requested_us)},
    {"clock_us", "GPU clock", "(us)", 10, 2, TIMED(clock_us)},
    {"error_percent", "clock error", "(%)", 12, 2, TIMED(error_percent)},
    {"median_us", "in stream", "(us)", 10, 2, TIMED(stream_us)},
    {"stream_error_percent", "stream error", "(%)", 13, 2, TIMED(stream_error_percent)},
    {"requested_gbps", "target", "(GB/s)", 8, 1, TIMED(requested_gbps)},
    {"gbps", "moved", "(GB/s)", 8, 1, TIMED(gbps)},
    {0},
};

/* Tolerance for the duration of a timed kernel, in us. It covers three effects: the blocks of a kernel do not all
 * start at once, the GPU clock has a resolution of up to 1 us, and a block that also moves memory checks the clock
 * only between two portions of memory. */
static const double TIMED_SLACK_US = 5;

static double error_percent_of(double got, double asked)
{
    return 100 * (got - asked) / asked;
}

static void keep_excess(struct compute *b, double requested_us, const struct bb_computed *clock)
{
    const double us = clock->time_us.p50, excess = 100 * (fabs(us - requested_us) - TIMED_SLACK_US) / requested_us;

    if (excess <= b->excess_error)
        return;
    b->excess_error = excess;
    b->excess_us = us;
    b->excess_target_us = requested_us;
    b->excess_rank = clock->rank;
}

static int put_timed(struct compute *b, const struct bb_busy *busy, double requested_us, const struct bb_timed *t)
{
    const double clock_us = t->clock.time_us.p50, stream_us = t->stream.time_us.p50;
    const struct timed_row row = {.sms = busy->sms,
                                  .requested_us = requested_us,
                                  .clock_us = clock_us,
                                  .error_percent = error_percent_of(clock_us, requested_us),
                                  .stream_us = stream_us,
                                  .stream_error_percent = error_percent_of(stream_us, requested_us),
                                  .requested_gbps = busy->gbps > 0 ? busy->gbps : NAN,
                                  .gbps = busy->gbps > 0 ? t->gbps : NAN};

    if (requested_us >= 100) {
        b->worst_rank = fabs(row.error_percent) > b->worst_error ? t->clock.rank : b->worst_rank;
        b->worst_error = fmax(b->worst_error, fabs(row.error_percent));
        keep_excess(b, requested_us, &t->clock);
    }
    return put_row(b, BB_COMPUTE_TIMED, timed_fields, &row, &t->stream);
}

static int run_timed(struct compute *b, int type)
{
    struct bb_timed_case c;
    struct bb_timed t;
    char us[24];
    int rc = 0;

    (void)type;
    for (int i = 0; bb_compute_timed(i, b->options.quick, &c); i++) {
        int sms = (int)(c.sms * b->session.device.sm_count);
        const struct bb_busy busy = {
            .sms = sms > 1 ? sms : 1, .ns = (int64_t)(c.requested_us * 1e3), .gbps = c.traffic * b->copy_gbps};
        snprintf(us, sizeof us, "%g us", c.requested_us);
        begin_kernel(b, "timed", us);
        TRY(bb_measure_busy(&b->ctx, &busy, &t));
        TRY(put_timed(b, &busy, c.requested_us, &t));
    }
out:
    return rc;
}

/* ---- running all measurements ---- */

enum { CHECK_TEXT = 2 * BB_RANK_TEXT + 128 };

static void print_limits(const struct compute *b)
{
    char text[BB_RANK_TEXT];

    if (!b->session.out)
        return;
    if (b->session.detail)
        fprintf(b->session.detail, "#\n");
    fprintf(b->session.out, "# limits measured here%s: copy %.1f GB/s",
            b->options.quick            ? " (--quick: too small to reach those of the GPU)"
            : b->session.world.size > 1 ? ", typical GPU"
                                        : "",
            b->typical_copy_gbps);
    for (int t = 0; t < BB_COMPUTE_TYPES; t++)
        if (b->typical_tflops[t] > 0)
            fprintf(b->session.out, ", %s %.1f TFLOP/s", bb_compute_types[t].name, b->typical_tflops[t]);
    if (b->options.wanted[BB_COMPUTE_TIMED])
        fprintf(b->session.out, "; timed kernels of 100 us and more: at most %.2f %% off their target time%s%s",
                b->worst_error, b->worst_error > 0 ? ", on " : "",
                b->worst_error > 0 ? bb_session_rank_text(&b->session, b->worst_rank, text) : "");
    fputc('\n', b->session.out);
}

static int save_limits(struct compute *b)
{
    json_t *tflops = json_object(), *limits = json_object();

    for (int t = 0; t < BB_COMPUTE_TYPES; t++)
        json_object_set_new(tflops, bb_compute_types[t].name,
                            bb_json_real(b->typical_tflops[t] > 0 ? b->typical_tflops[t] : NAN));
    json_object_set_new(limits, "copy_gbps", bb_json_real(b->typical_copy_gbps));
    json_object_set_new(limits, "tflops", tflops);
    json_object_set_new(limits, "timed_error_percent",
                        bb_json_real(b->options.wanted[BB_COMPUTE_TIMED] ? b->worst_error : NAN));
    return bb_results_set(b->session.json, "limits", limits);
}

/* Marks the ranks that were slow in at least half of the results of a row: of a section and element type, because a GPU may be
 * slow with one type only. results: of this row. */
static void judge_row(struct compute *b, int section, int type, int results)
{
    for (int r = 0; r < b->session.world.size && b->ctx.find_slow; r++) {
        struct bb_slow_rank *slow = &b->ctx.slow[r];
        const int here = slow->results - slow->before;
        const double mean = slow->judged > 0 ? slow->sum / slow->judged : 0;

        if (mean > slow->mean) {
            slow->mean = mean;
            snprintf(slow->row, sizeof slow->row, "%s%s%s", bb_compute_section_names[section],
                     section == BB_COMPUTE_TIMED ? "" : " ",
                     section == BB_COMPUTE_TIMED ? "" : bb_compute_types[type].name);
        }
        slow->is_slow = slow->is_slow || (here > 0 && 2 * here >= results);
        slow->before = slow->results;
        slow->sum = slow->judged = 0;
    }
}

/* Returns the host that all slow ranks are on; NULL: fewer than two are slow, they are on several nodes, or the job has
 * one node. */
static const char *slow_host(const struct compute *b)
{
    const struct bb_world *w = &b->session.world;
    int first = w->size, slow = 0;

    for (int r = w->size - 1; r >= 0; r--) {
        if (!b->ctx.slow[r].is_slow)
            continue;
        if (slow++ > 0 && w->node_of[r] != w->node_of[first])
            return NULL;
        first = r;
    }
    return slow > 1 && w->nodes > 1 ? w->hosts[first] : NULL;
}

enum { SLOW_SHOWN = 8 };

static bool misses_max_error(const struct compute *b)
{
    return b->options.max_error > 0 && b->options.wanted[BB_COMPUTE_TIMED] && b->excess_error > b->options.max_error;
}

/* Prints that no rank is slow, and the row and rank with the largest mean slowdown, which may be close to the limit. */
static void print_no_slow(const struct compute *b)
{
    const struct bb_slow_rank *slow = b->ctx.slow;
    char text[BB_RANK_TEXT], largest[BB_RANK_TEXT + 112] = "";
    int most = 0;

    for (int r = 1; r < b->session.world.size; r++)
        most = slow[r].mean > slow[most].mean ? r : most;
    if (slow[most].mean > 1.005)
        snprintf(largest, sizeof largest, " above %g x (--slow); largest mean slowdown: %.3f x in %s, %s",
                 b->options.slow, slow[most].mean, slow[most].row, bb_session_rank_text(&b->session, most, text));
    if (misses_max_error(b))
        fprintf(b->session.out,
                "# FAILED: timed kernels take %.6g us instead of %.6g us (--max-error %g) on %s; no rank is slower "
                "than the others%s\n",
                b->excess_us, b->excess_target_us, b->options.max_error,
                bb_session_rank_text(&b->session, b->excess_rank, text), largest);
    else if (bb_compute_hides_slow_gpus(&b->options))
        fprintf(
            b->session.out,
            "# no slow rank found, but GEMMs and memory-bound kernels of --quick are too short to show a slow GPU\n");
    else
        fprintf(b->session.out,
                "# no slow rank%s; a slowdown common to all ranks is not visible: try %s compare with an earlier run, "
                "or, for timed kernels, --max-error 10\n",
                largest, bb_environment_program());
}

/* Names the slow ranks at the end of the table and on stderr. */
static int report_slow(struct compute *b)
{
    const struct bb_session *s = &b->session;
    const char *host = slow_host(b);
    int n = 0;
    json_t *list = json_array();
    char text[BB_RANK_TEXT];

    for (int r = 0; r < s->world.size; r++) {
        const struct bb_slow_rank *slow = &b->ctx.slow[r];

        if (!slow->is_slow)
            continue;
        json_array_append_new(list, json_pack("{s:i, s:s, s:i, s:f, s:i, s:i}", "rank", r, "host", s->world.hosts[r],
                                              "gpu", s->devices[r].ordinal, "worst_slowdown", slow->worst, "results",
                                              slow->results, "of", b->results));
        bb_session_rank_text(&b->session, r, text);
        if (s->detail || (s->out && n++ < SLOW_SHOWN))
            fprintf(s->out, "# slow: %s: up to %.2f x the typical time, in %d of %d results; most in %s (%.2f x)\n",
                    text, slow->worst, slow->results, b->results, slow->row, slow->mean);
        if (s->world.rank == 0)
            bb_warn("%s is slow: up to %.2f x the typical time, most in %s", text, slow->worst, slow->row);
    }
    if (n > SLOW_SHOWN && s->out)
        fprintf(s->out, "# slow: %d ranks, listed in the results (--json, slow_gpus)\n", n);
    if (host && s->out)
        fprintf(s->out, "# slow: all slow ranks are on %s\n", host);
    if (s->out && s->world.size > 1 && json_array_size(list) == 0 && !s->shared_gpu)
        print_no_slow(b);
    return bb_results_set(b->session.json, "slow_gpus", list);
}

/* Writes to text which ranks are slow; "" if none is. Returns their number. */
static int slow_text(const struct compute *b, char text[CHECK_TEXT])
{
    const char *host = slow_host(b);
    int slow = 0, worst = 0;
    char rank_name[BB_RANK_TEXT];

    text[0] = '\0';
    for (int r = 0; r < b->session.world.size; r++) {
        const struct bb_slow_rank *rank = &b->ctx.slow[r];

        slow += rank->is_slow;
        worst = rank->is_slow && (slow == 1 || rank->worst > b->ctx.slow[worst].worst) ? r : worst;
    }
    if (slow > 0)
        snprintf(text, CHECK_TEXT, "%d of %d ranks %s slow%s%s, slowest: %s in %s", slow, b->session.world.size,
                 slow == 1 ? "is" : "are", host ? ", all on " : "", host ? host : "",
                 bb_session_rank_text(&b->session, worst, rank_name), b->ctx.slow[worst].row);
    return slow;
}

/* Checks --max-slow. The check also fails if ranks share a GPU. The result is equal on all ranks. */
static int check_max_slow(const struct compute *b, json_t *checks)
{
    char text[CHECK_TEXT];
    const int most = b->options.max_slow, slow = slow_text(b, text);
    const bool limited = most >= 0, fails = limited && (slow > most || b->session.shared_gpu);

    if (limited && b->session.shared_gpu)
        snprintf(text, sizeof text, "--max-slow cannot be checked: %s", bb_session_sharing(&b->session));
    else if (fails)
        snprintf(text + strlen(text), sizeof text - strlen(text), "; --max-slow allows %d", most);
    if (!b->session.shared_gpu || fails)
        bb_checks_add(checks, &(struct bb_check){.check = "slow ranks",
                                                 .status = fails      ? BB_CHECK_FAIL
                                                           : slow > 0 ? BB_CHECK_WARN
                                                                      : BB_CHECK_OK,
                                                 .measured = slow,
                                                 .expected = limited ? most : NAN,
                                                 .unit = "ranks",
                                                 .reason = text});
    return fails ? BB_WORLD_ERR(&b->session.world, BB_EBELOW, "%s", text) : 0;
}

static int check_max_error(const struct compute *b, json_t *checks)
{
    const double allowed = b->options.max_error, target = b->excess_target_us;
    const double most = target * allowed / 100 + TIMED_SLACK_US;
    const bool fails = misses_max_error(b);
    char name[BB_RANK_TEXT], text[CHECK_TEXT] = "";

    if (allowed <= 0 || !b->options.wanted[BB_COMPUTE_TIMED])
        return 0;
    if (fails)
        snprintf(text, sizeof text, "timed kernel: %s: %.6g us instead of %.6g us (allowed: %.6g us; --max-error %g)",
                 bb_session_rank_text(&b->session, b->excess_rank, name), b->excess_us, target,
                 b->excess_us > target ? target + most : target - most, allowed);
    bb_checks_add(checks, &(struct bb_check){.check = "timed kernel with the largest error",
                                             .status = fails ? BB_CHECK_FAIL : BB_CHECK_OK,
                                             .measured = b->excess_us,
                                             .expected = target,
                                             .unit = "us",
                                             .reason = text});
    return fails ? BB_WORLD_ERR(&b->session.world, BB_EBELOW, "%s", text) : 0;
}

/* Checks and saves --max-slow and --max-error. */
static int check_limits(const struct compute *b)
{
    json_t *checks = json_array();
    const int slow = check_max_slow(b, checks), error = slow ? slow : check_max_error(b, checks);
    const int rc = bb_results_set(b->session.json, "checks", checks);

    return rc ? rc : error;
}

/* The tables of the output, in order. run: measures and prints the rows of one element type (index in
 * bb_compute_types); kernels without elements have the type 0 only. */
static const struct section {
    const char *title;
    const struct bb_field *fields;
    int (*run)(struct compute *b, int type);
    bool has_types;
} sections[BB_COMPUTE_SECTIONS] = {
    [BB_COMPUTE_GEMM] = {"gemm: cuBLASLt GEMMs; of best: relative to the fastest GEMM of the same type in this table",
                         gemm_fields, run_gemms, true},
    [BB_COMPUTE_MEMORY_KERNELS] = {"memory_kernels: memory-bound kernels; of copy: relative to the fastest device copy "
                                   "(bytes read + written)",
                                   memory_kernel_fields, run_memory_kernels, true},
    [BB_COMPUTE_TIMED] = {"timed: kernels that run for a target time, in place of compute kernels. GPU clock: from the "
                          "start of the\n"
                          "# first block to the end of the last block; in stream: time per launch, with launches back "
                          "to back;\n"
                          "# error: deviation of the time to its left from the target",
                          timed_fields, run_timed, false},
};

static int run_sections(struct compute *b)
{
    int rc;

    if (!b->session.detail && (b->options.wanted[BB_COMPUTE_GEMM] || b->options.wanted[BB_COMPUTE_MEMORY_KERNELS]))
        bb_table_heading(b->session.out, summary_fields);
    TRY(measure_copy_limit(b));
    b->ctx.find_slow = !b->session.shared_gpu;
    for (int s = 0; s < BB_COMPUTE_SECTIONS; s++) {
        if (!b->options.wanted[s])
            continue;
        if (b->session.detail)
            fprintf(b->session.detail, "#\n# %s\n#\n", sections[s].title);
        print_heading(b, sections[s].fields);
        for (int t = 0; t < (sections[s].has_types ? BB_COMPUTE_TYPES : 1); t++) {
            const int before = b->results;

            if (sections[s].has_types && !type_is_wanted(b, t))
                continue;
            TRY(sections[s].run(b, t));
            judge_row(b, s, t, b->results - before);
        }
    }
    bb_progress_clear(&b->session.progress);
    print_limits(b);
    TRY(save_limits(b));
    TRY(report_slow(b));
    TRY(check_limits(b));
out:
    return rc;
}

/* ---- memory requirement ---- */

/* Returns the bytes of device memory to allocate: the size of the largest GEMM or memory-bound kernel, but at least
 * --size plus 1 MiB. The timed kernel uses all of this memory as scratch memory, which should exceed the L2 cache. */
static size_t arena_bytes(const struct compute *b)
{
    struct bb_gemm_case gemms[BB_COMPUTE_GEMMS];
    struct bb_memory_kernel_case c;
    size_t bytes = b->options.bytes + (1 << 20);

    for (int t = 0; t < BB_COMPUTE_TYPES; t++) {
        int n = b->options.wanted[BB_COMPUTE_GEMM] && type_is_wanted(b, t)
                    ? bb_compute_gemms(bb_compute_types[t].dtype, b->options.quick, gemms)
                    : 0;
        for (int i = 0; i < n; i++)
            bytes = MAX(bytes, bb_gemm_layout_of(&gemms[i].shape).bytes);
        for (int i = 0; b->options.wanted[BB_COMPUTE_MEMORY_KERNELS] && type_is_wanted(b, t) &&
                        bb_compute_memory_kernel(i, bb_compute_types[t].dtype, b->options.bytes, &c);
             i++)
            bytes = MAX(bytes, bb_memory_kernel_case_bytes(&c.memory_kernel));
    }
    return bytes;
}

/* ---- starting and ending the run ---- */

static void print_head(const struct compute *b)
{
    const struct bb_session *s = &b->session;
    const struct bb_device_info *d = &s->device;

    if (!s->out)
        return;
    bb_print_report_header(s->out, s->argc, s->argv);
    fprintf(s->out, "# %d rank%s: %s, %d SMs\n", s->world.size,
            s->world.size == 1 ? "" : "s (times of the slowest rank)", d->name, d->sm_count);
    if (s->shared_gpu)
        fprintf(s->out, "# %s\n", bb_session_sharing_note(s));
    fprintf(s->out, "# time: %d operation%s back to back between CUDA events, divided by %d; median of %d sample%s\n",
            b->options.iterations, bb_plural(b->options.iterations), b->options.iterations, b->options.repeats,
            bb_plural(b->options.repeats));
    if (d->emulated)
        bb_print_emulated_note(s->out, "", "");
}

static int run_compute(struct compute *b, int argc, char **argv)
{
    const struct bb_results_head head = {.schema = "busbar.bench/1", .argc = argc, .argv = argv};
    const struct bb_bench_compute_options *o = &b->options;
    struct bb_session *s = &b->session;
    int rc;

    TRY(bb_session_begin(s, &o->common, BB_SESSION_GPUS));
    TRY(bb_session_setup_gpus(s, 0));
    TRY(bb_session_check_memory(s, arena_bytes(b) + BB_GEMM_WORKSPACE,
                                "lower --size, select one type with -d, or use --quick"));
    TRY(bb_compute_context_init(&b->ctx, &s->world, &s->device, arena_bytes(b), o->iterations, o->repeats, o->warmup));
    b->ctx.candidates = o->candidates;
    b->ctx.slow_factor = o->slow;
    b->ctx.holds = !s->shared_gpu;
    TRY(bb_session_open_results(s, &head, NULL, NULL));
    if (!o->quick)
        bb_session_warn_slow_gemms(s, "--quick, or EMU_DATA=off");
    print_head(b);
    TRY(run_sections(b));
out:
    return rc;
}

int bb_bench_compute_run(int argc, char **argv)
{
    struct compute b = {0};
    int rc = bb_opts_read(&bb_bench_compute_set, &b.options, argc - 1, argv + 1);

    if (rc != 0)
        return rc;
    rc = run_compute(&b, argc, argv);
    if (bb_session_ends_on_all_ranks(&b.session, rc))
        bb_compute_context_release(&b.ctx);
    return bb_session_release(&b.session, rc, 0);
}
