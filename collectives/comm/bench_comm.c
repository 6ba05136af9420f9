/* bench_comm.c - runs `busbar bench comm`: repeats the life cycle of communicators (init to destroy, comm_steps.h)
 * and reports the time of each step. */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "collectives/comm/comm_options.h"
#include "collectives/comm/comm_steps.h"
#include "collectives/session/result_row.h"
#include "cuda/device/check.h"
#include "cuda/device/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* State of one run of `busbar bench comm`. An all-zero struct may be passed to the release function. */
struct lives {
    struct bb_bench_comm_options options;
    struct bb_session session;
    struct bb_comm_life life;
    struct bb_telemetry_row seen;
    double *us;     /* [repeats][BB_COMM_STEPS] host time in us of each step (such as init) in each life cycle, on this
                   rank */
    double *all_us; /* [size][repeats][BB_COMM_STEPS] the times of `us`, gathered from all ranks of the job */
    double *column; /* [repeats] times in us of one step on one rank, copied from all_us to compute their statistics */
};

/* Resolves --ranks, the list of communicator sizes: "doubling" becomes 2, 4, 8, ... and the size of the job. Rejects
 * sizes above the size of the job. The result is equal on all ranks. */
static int choose_counts(struct lives *v)
{
    const int size = v->session.world.size;
    const bool doubling = strcmp(v->options.ranks, "doubling") == 0;

    for (int n = 2; doubling && n < size; n *= 2)
        v->options.counts[v->options.n_counts++] = n;
    if (doubling)
        v->options.counts[v->options.n_counts++] = size;
    for (int i = 0; i < v->options.n_counts; i++)
        if (v->options.counts[i] > size)
            return BB_WORLD_ERR(&v->session.world, BB_EUSAGE, "--ranks asks for %d ranks, but the job has only %d",
                                v->options.counts[i], size);
    return 0;
}

/* ---- table rows and header ---- */

/* One row of the result table: a step of the life cycle (such as init or destroy), for communicators of one size. */
struct row {
    const char *step, *clock; /* clock: "host"; on emulated GPUs "host of the emulator": its times are not those of
                                 the real NCCL */
    const char *absent;       /* reason why the step has no time; NULL: the step has a time */
    int ranks, parts, repeats;
    size_t bytes; /* message size of each operation; twice as many bytes are registered with NCCL */
    bool blocking;
    struct bb_stats time_us; /* statistics over the life cycles; the time of a life cycle is that of its slowest
                                rank; empty if the step is absent */
    int slowest_rank; /* rank with the largest median time for this step; the median is over the life cycles; -1: the
                         step has no time */
    double fastest_rank_us; /* smallest of the ranks' median times for this step, in us; NaN: the step has no time */
    double median_ms, min_ms, max_ms, fastest_ms;
};

#define SHOWS(name) BB_SHOWS(struct row, name)
#define JSON(name)  BB_NAMED(struct row, name)
static const struct bb_field fields[] = {
    JSON(step),
    {"ranks", "ranks", "", 7, 0, SHOWS(ranks)},
    {NULL, "step", "", 22, 0, SHOWS(step)},
    JSON(parts),
    JSON(bytes),
    JSON(blocking),
    JSON(clock),
    JSON(repeats),
    JSON(time_us),
    {NULL, "median", "(ms)", 11, 3, SHOWS(median_ms)},
    {NULL, "min", "(ms)", 11, 3, SHOWS(min_ms)},
    {NULL, "max", "(ms)", 11, 3, SHOWS(max_ms)},
    {NULL, "fastest rank", "(ms)", 13, 3, SHOWS(fastest_ms)},
    {"slowest_rank", "slowest rank", "(no.)", 12, 0, SHOWS(slowest_rank)},
    JSON(fastest_rank_us),
    JSON(absent),
    {0},
};

/* Returns whether the text has the rows of all communicators; otherwise, of the largest only. */
static bool shows_all(const struct lives *v)
{
    return v->session.detail || v->options.n_counts == 1 || strcmp(v->options.ranks, "doubling") != 0;
}

static const char *clock_of(const struct lives *v)
{
    return v->session.device.emulated ? "host of the emulator" : "host";
}

static void print_head(const struct lives *v)
{
    char size[BB_BYTES_TEXT];
    FILE *out = v->session.out;

    bb_session_print_head(&v->session);
    if (!out)
        return;
    fprintf(out,
            "# host time from a common start until the call has finished its work; slowest rank in each of %d life "
            "cycles; fastest rank: shortest median of a rank; data is not verified%s\n",
            v->options.repeats, shows_all(v) ? "" : "; smaller communicators: --full");
    if (v->session.detail)
        fprintf(out, "# %s communicators, operations of %s, split into %d communicators\n",
                v->options.nonblocking ? "non-blocking (polled)" : "blocking", bb_format_bytes(v->options.bytes, size),
                v->options.parts);
    if (v->session.device.emulated)
        fprintf(out, "# emulated GPUs: times of the emulator on this machine's CPU, no measurement of NCCL\n");
    bb_table_heading(out, fields);
}

/* ---- computing and printing the rows ---- */

static double sample_of(const struct lives *v, int rank, int life, int step)
{
    size_t lives = (size_t)v->options.repeats;

    return v->all_us[((size_t)rank * lives + (size_t)life) * BB_COMM_STEPS + (size_t)step];
}

/* Sets row->slowest_rank and row->fastest_rank_us. Skips ranks without a time, such as the rank that ncclCommShrink
 * excludes. */
static void compare_ranks(struct lives *v, int step, struct row *row)
{
    double longest = -1;

    row->fastest_rank_us = INFINITY;
    for (int r = 0; r < v->life.ranks; r++) {
        struct bb_stats own;
        if (isnan(sample_of(v, r, 0, step)))
            continue;
        for (int i = 0; i < v->options.repeats; i++)
            v->column[i] = sample_of(v, r, i, step);
        bb_stats_compute(v->column, (size_t)v->options.repeats, &own);
        row->fastest_rank_us = fmin(row->fastest_rank_us, own.p50);
        if (own.p50 > longest) {
            longest = own.p50;
            row->slowest_rank = r;
        }
    }
}

static void add_times(struct lives *v, int step, struct row *row)
{
    compare_ranks(v, step, row);
    for (int i = 0; i < v->options.repeats; i++) {
        v->column[i] = NAN;
        for (int r = 0; r < v->life.ranks; r++)
            v->column[i] = fmax(v->column[i], sample_of(v, r, i, step));
    }
    bb_stats_compute(v->column, (size_t)v->options.repeats, &row->time_us);
    row->median_ms = row->time_us.p50 / 1e3;
    row->min_ms = row->time_us.min / 1e3;
    row->max_ms = row->time_us.max / 1e3;
    row->fastest_ms = row->fastest_rank_us / 1e3;
}

static void make_row(struct lives *v, int step, struct row *row)
{
    const int absent = v->life.absent[step];

    *row = (struct row){.step = bb_comm_steps[step].name,
                        .clock = clock_of(v),
                        .absent = absent ? bb_comm_absences[absent] : NULL,
                        .ranks = v->life.ranks,
                        .parts = v->life.parts,
                        .repeats = v->options.repeats,
                        .bytes = v->options.bytes,
                        .blocking = !v->options.nonblocking,
                        .slowest_rank = -1,
                        .fastest_rank_us = NAN};
    if (!absent)
        add_times(v, step, row);
}

/* Saves a row, whose operations are only timed. */
static int save_row(struct lives *v, const struct row *row, const struct bb_telemetry_row *seen, const char *what)
{
    json_t *result = json_object(), *flags = bb_result_flags(&v->session);

    bb_result_warn_gpu_flags(&v->session, seen->gpu_flags, what);
    bb_table_json(result, fields, row);
    json_array_append_new(flags, json_string("not_checked"));
    return bb_result_save(&v->session, result, seen, flags, seen->gpu_flags);
}

/* Prints and saves one row per step for the communicator size that was measured last. Runs on rank 0, which is a
 * member of every communicator. */
static int put_rows(struct lives *v)
{
    FILE *out = shows_all(v) || v->life.ranks == v->session.world.size ? v->session.out : NULL;
    struct bb_telemetry_row seen = v->seen;
    static const char *const answers[] = {"init", "first_all_reduce", "all_reduce"};
    double ms[] = {NAN, NAN, NAN};
    char what[64], cost[BB_TIME_TEXT], first[BB_TIME_TEXT];
    struct row row;
    int rc = 0;

    bb_progress_clear(&v->session.progress);
    snprintf(what, sizeof what, "communicators of %d rank%s", v->life.ranks, bb_plural(v->life.ranks));
    for (int step = 0; step < BB_COMM_STEPS; step++) {
        make_row(v, step, &row);
        for (size_t i = 0; i < sizeof(ms) / sizeof(ms[0]); i++)
            ms[i] = strcmp(row.step, answers[i]) == 0 ? row.median_ms : ms[i];
        if (!row.absent && (v->session.detail || !bb_comm_steps[step].minor))
            bb_table_row(out, fields, &row);
        else if (v->session.detail)
            fprintf(out, "# %s, communicator of %d rank%s: %s\n", row.step, row.ranks, bb_plural(row.ranks),
                    row.absent);
        seen.choice = v->life.choice[step];
        TRY(save_row(v, &row, &seen, what));
    }
    if (out && v->life.ranks == v->session.world.size)
        fprintf(out, "# a communicator of %d rank%s costs %s, its first all_reduce %s %s than a repeated one\n",
                v->life.ranks, bb_plural(v->life.ranks), bb_format_time(1e3 * ms[0], cost),
                bb_format_time(1e3 * fabs(ms[1] - ms[2]), first), ms[1] < ms[2] ? "less" : "more");
out:
    return rc;
}

/* ---- running the life cycles ---- */

/* Runs life cycle i of n; what: "" or "warm-up ". */
static int run_life(struct lives *v, const char *what, int i, int n)
{
    struct bb_world *w = &v->session.world;

    bb_world_reached(w, "bench comm: %d ranks, %slife cycle %d of %d", v->life.ranks, what, i + 1, n);
    bb_progress_show(&v->session.progress, "%d ranks, %slife cycle %d of %d", v->life.ranks, what, i + 1, n);
    return bb_comm_run_life(&v->life);
}

static int measure_count(struct lives *v, int ranks)
{
    const size_t own = (size_t)v->options.repeats * BB_COMM_STEPS;
    int rc;

    v->life.ranks = ranks;
    v->life.parts = v->options.parts < ranks ? v->options.parts : ranks;
    v->life.capture_choices = true;
    memset(v->life.choice, 0, sizeof v->life.choice);
    bb_range_push_once(&v->life.nvtx, 0, v->life.bytes, "communicators of %d ranks", ranks);
    TRY(bb_part_begin(&v->life.nvtx, BB_PART_WARM_UP));
    for (int i = 0; i < v->options.warmup; i++)
        TRY(run_life(v, "warm-up ", i, v->options.warmup));
    TRY(bb_part_end(&v->life.nvtx, BB_PART_WARM_UP));
    v->life.capture_choices = false;
    bb_telemetry_begin_timing(&v->session.observer, &v->seen);
    TRY(bb_part_begin(&v->life.nvtx, BB_PART_SAMPLES));
    for (int i = 0; i < v->options.repeats; i++) {
        TRY(run_life(v, "", i, v->options.repeats));
        memcpy(v->us + (size_t)i * BB_COMM_STEPS, v->life.us, sizeof v->life.us);
    }
    TRY(bb_part_end(&v->life.nvtx, BB_PART_SAMPLES));
    bb_range_pop(&v->life.nvtx);
    TRY(bb_telemetry_end_timing(&v->session.observer, &v->session.world, &v->seen));
    TRY(bb_world_allgather(&v->session.world, v->us, v->all_us, own * sizeof *v->us));
    if (v->session.world.rank == 0)
        TRY(put_rows(v));
out:
    return rc;
}

static int make_lives(struct lives *v)
{
    const size_t own = (size_t)v->options.repeats * BB_COMM_STEPS;
    int rc;

    TRY(choose_counts(v));
    TRY(bb_session_check_memory(&v->session, bb_nccl_memory(NULL)->device_bytes(2 * v->options.bytes), "lower --size"));
    BB_NEW(v->us, own);
    BB_NEW(v->all_us, own * (size_t)v->session.world.size);
    BB_NEW(v->column, v->options.repeats);
    v->life = (struct bb_comm_life){
        .world = &v->session.world, .opts = {.blocking = !v->options.nonblocking}, .bytes = v->options.bytes};
    bb_nvtx_init(&v->life.nvtx);
    TRY(BB_CUDA(cudaStreamCreateWithFlags(&v->life.stream, cudaStreamNonBlocking)));
out:
    return rc;
}

static int run_comm(struct lives *v, int argc, char **argv)
{
    const struct bb_results_head head = {.schema = "busbar.bench/1", .argc = argc, .argv = argv};
    int rc;

    TRY(bb_session_begin(&v->session, &v->options.common, BB_SESSION_OBSERVED));
    TRY(bb_session_setup_gpus(&v->session, 0));
    TRY(make_lives(v));
    TRY(bb_session_open_results(&v->session, &head, &bb_bench_comm_set, &v->options));
    print_head(v);
    for (int i = 0; i < v->options.n_counts; i++)
        TRY(measure_count(v, v->options.counts[i]));
    TRY(bb_results_set(v->session.json, "clock", json_string(clock_of(v))));
out:
    return rc;
}

int bb_bench_comm_run(int argc, char **argv)
{
    struct lives v = {0};
    int rc = bb_opts_read(&bb_bench_comm_set, &v.options, argc - 1, argv + 1);

    if (rc != 0)
        return rc;
    rc = run_comm(&v, argc, argv);
    if (bb_session_ends_on_all_ranks(&v.session, rc))
        bb_stream_destroy(v.life.stream);
    bb_nvtx_release(&v.life.nvtx);
    rc = bb_session_release(&v.session, rc, 0);
    free(v.column);
    free(v.all_us);
    free(v.us);
    return rc;
}
