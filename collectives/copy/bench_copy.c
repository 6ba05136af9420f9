/*
 * bench_copy.c - runs `busbar bench copy`: measures all kinds of copies, compares the GPUs and pairs with each other, and
 * reports rates, slow GPUs and slow pairs.
 *
 * A GPU is slow in a kind of copy if its rate, with other GPUs that of its fastest partner, is below that of the typical GPU. A
 * pair is slow if both GPUs are faster with most others.
 */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/results/checks.h"
#include "collectives/copy/copy_measure.h"
#include "collectives/copy/copy_options.h"
#include "collectives/session/result_row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct finding {
    const struct bb_copy_case *copy;
    int rank, other; /* other: -1: the GPU of `rank` is slow; otherwise the pair */
    double gbps, typical;
};

struct run {
    struct bb_bench_copy_options options;
    struct bb_session session;
    struct bb_copies copies;
    double *gbps[BB_COPIES];             /* [size][copies.gpus] */
    struct bb_stats *time_us[BB_COPIES]; /* likewise */
    double *of_gpu, *sorted;             /* [size] rate of each GPU in the present kind of copy; scratch */
    struct bb_copy_rates expected;
    char source[BB_COPY_SOURCE]; /* "": unknown machine */
    struct finding *findings;    /* slow GPUs, each in the kinds of copies with the host and with GPUs in which it is
                                    slowest, then slow pairs */
    int n, gpus_slow, pairs_slow;
};

/* ---- results ---- */

struct row {
    const char *link, *direction, *engine, *memory, *host;
    bool concurrent;
    long long bytes;
    int rank, gpu, peer;
    struct bb_stats time_us;
    double gbps, expected_gbps;
};

#define JSON(name) BB_NAMED(struct row, name)
static const struct bb_field row_fields[] = {
    JSON(link), JSON(direction), JSON(engine), JSON(memory),  JSON(concurrent), JSON(bytes),         JSON(rank),
    JSON(host), JSON(gpu),       JSON(peer),   JSON(time_us), JSON(gbps),       JSON(expected_gbps), {0}};

static double expected_of(const struct run *r, const struct bb_copy_case *k)
{
    const struct bb_copy_rates *rates = &r->expected;
    const double peer = strcmp(k->engine, "kernel") == 0 ? rates->peer_kernel_gbps : rates->peer_gbps;
    const double one = bb_copy_has_peer(k) ? peer : rates->host_gbps;

    return k->unjudged ? NAN : (k->into && k->out ? 2 : 1) * one;
}

/* Returns the rank with index `index` on the node of a rank; -1: none. */
static int rank_at(const struct run *r, int rank, int index)
{
    return r->copies.rank_at[r->session.world.node_of[rank] * r->copies.gpus + index];
}

static int save_copy(struct run *r, int id, int rank, int index)
{
    const struct bb_copy_case *k = &bb_copy_cases[id];
    const struct row row = {k->link,
                            k->direction,
                            k->engine,
                            k->memory,
                            r->session.world.hosts[rank],
                            k->concurrent,
                            (long long)r->options.bytes,
                            rank,
                            r->session.devices[rank].ordinal,
                            bb_copy_has_peer(k) ? rank_at(r, rank, index) : -1,
                            r->time_us[id][rank * r->copies.gpus + index],
                            r->gbps[id][rank * r->copies.gpus + index],
                            expected_of(r, k)};

    return isnan(row.gbps) ? 0 : bb_result_put(&r->session, row_fields, &row, NULL, 0, k->name);
}

/* ---- judgement ---- */

/* Summarizes the rates that were measured on n ranks from `rank` on. */
static struct bb_stats rates_of(const struct run *r, int id, int rank, int n)
{
    const double *gbps = &r->gbps[id][rank * r->copies.gpus];
    struct bb_stats stats;
    double *measured;
    size_t found = 0;

    BB_NEW(measured, n * r->copies.gpus);
    for (int i = 0; i < n * r->copies.gpus; i++)
        if (!isnan(gbps[i]))
            measured[found++] = gbps[i];
    bb_stats_compute(measured, found, &stats);
    free(measured);
    return stats;
}

/* Sets the rate of each GPU, and returns that of the typical GPU; NaN: none was measured. */
static double typical_of(struct run *r, int id)
{
    const int size = r->session.world.size;
    int n = 0;

    for (int rank = 0; rank < size; rank++) {
        r->of_gpu[rank] = rates_of(r, id, rank, 1).max; /* with its fastest partner */
        if (!isnan(r->of_gpu[rank]))
            r->sorted[n++] = 1 / r->of_gpu[rank];
    }
    bb_sort_doubles(r->sorted, (size_t)n);
    return n > 0 ? 1 / bb_stats_typical(r->sorted, (size_t)n, r->options.slow) : NAN;
}

/* Keeps one finding of each pair, and of each GPU one with the host and one with other GPUs, because these are different
 * links: the first, unless it is much slower in another kind of copy. */
static void keep(struct run *r, const struct finding *f)
{
    bool is_new_gpu = f->other < 0;

    for (int i = 0; i < r->n; i++) {
        struct finding *had = &r->findings[i];
        const bool is_pair = f->other >= 0 && had->rank == f->other && had->other == f->rank;

        if (!is_pair && (had->rank != f->rank || had->other != f->other))
            continue;
        is_new_gpu = false;
        if (bb_copy_has_peer(had->copy) != bb_copy_has_peer(f->copy))
            continue;
        if (f->gbps / f->typical < 0.9 * had->gbps / had->typical)
            *had = *f;
        return;
    }
    BB_GROW(r->findings, r->n);
    r->findings[r->n++] = *f;
    r->gpus_slow += is_new_gpu;
    r->pairs_slow += f->other >= 0;
}

static void find_gpus(struct run *r, int id)
{
    const double typical = typical_of(r, id);

    for (int rank = 0; rank < r->session.world.size; rank++)
        if (r->of_gpu[rank] * r->options.slow < typical)
            keep(r, &(struct finding){&bb_copy_cases[id], rank, -1, r->of_gpu[rank], typical});
}

static void find_pairs(struct run *r, int id)
{
    for (int rank = 0; rank < r->session.world.size; rank++)
        for (int i = 0; i < r->copies.gpus; i++) {
            const double gbps = r->gbps[id][rank * r->copies.gpus + i];
            const int other = isnan(gbps) ? -1 : rank_at(r, rank, i);
            double least;

            if (other < 0)
                continue;
            least = fmin(rates_of(r, id, rank, 1).p50, rates_of(r, id, other, 1).p50);
            if (gbps * r->options.slow < least)
                keep(r, &(struct finding){&bb_copy_cases[id], rank, other, gbps, least});
        }
}

static void judge(struct run *r)
{
    if (r->session.shared_gpu)
        return;
    for (int id = 0; id < BB_COPIES; id++)
        if (!bb_copy_cases[id].unjudged)
            find_gpus(r, id);
    for (int id = 0; id < BB_COPIES; id++)
        if (bb_copy_has_peer(&bb_copy_cases[id]))
            find_pairs(r, id);
}

/* ---- text ---- */

struct summary {
    const char *name;
    double min, median, max, expected, percent;
    int gpus; /* or pairs */
    int gpu;  /* with --full: one GPU of `host` */
    const char *host;
};

static const struct bb_field summary_fields[] = {
    {NULL, "copy", "", 28, 0, BB_SHOWS(struct summary, name), .form = BB_FORM_LEFT},
    {NULL, "results", "", 8, 0, BB_SHOWS(struct summary, gpus)},
    {NULL, "slowest", "(GB/s)", 9, 2, BB_SHOWS(struct summary, min)},
    {NULL, "median", "(GB/s)", 9, 2, BB_SHOWS(struct summary, median)},
    {NULL, "fastest", "(GB/s)", 9, 2, BB_SHOWS(struct summary, max)},
    {NULL, "expected", "(GB/s)", 9, 2, BB_SHOWS(struct summary, expected)},
    {NULL, "reached", "(%)", 8, 1, BB_SHOWS(struct summary, percent)},
    {0}};
static const struct bb_field gpu_fields[] = {
    {NULL, "copy", "", 28, 0, BB_SHOWS(struct summary, name), .form = BB_FORM_LEFT},
    {NULL, "GPU", "", 4, 0, BB_SHOWS(struct summary, gpu)},
    {NULL, "slowest", "(GB/s)", 9, 2, BB_SHOWS(struct summary, min)},
    {NULL, "fastest", "(GB/s)", 9, 2, BB_SHOWS(struct summary, max)},
    {NULL, "reached", "(%)", 8, 1, BB_SHOWS(struct summary, percent)},
    {NULL, "host", "", 12, 0, BB_SHOWS(struct summary, host), .form = BB_FORM_LEFT},
    {0}};

/* Prints the row of n ranks from `rank` on. */
static void print_summary(const struct run *r, const struct bb_field *fields, int id, int rank, int n)
{
    const struct bb_stats stats = rates_of(r, id, rank, n);
    struct summary s = {.name = bb_copy_cases[id].name,
                        .gpu = r->session.devices[rank].ordinal,
                        .host = r->session.world.hosts[rank],
                        .gpus = (int)stats.n,
                        .min = stats.min,
                        .median = stats.p50,
                        .max = stats.max,
                        .expected = expected_of(r, &bb_copy_cases[id])};

    s.percent = 100 * s.min / s.expected;
    bb_table_row(r->session.out, fields, &s);
}

/* Prints the copies of each GPU: the slowest and fastest of its partners. */
static void print_gpus(const struct run *r)
{
    bb_table_heading(r->session.out, gpu_fields);
    for (int id = 0; id < BB_COPIES; id++)
        for (int rank = 0; rank < r->session.world.size; rank++)
            print_summary(r, gpu_fields, id, rank, 1);
}

enum { FINDING_TEXT = 2 * BB_HOST_TEXT + 200, SHOWN = 3 };

static const char *finding_text(const struct run *r, const struct finding *f, char text[FINDING_TEXT])
{
    const struct bb_session *s = &r->session;
    char pair[64] = "";

    if (f->other >= 0)
        snprintf(pair, sizeof pair, " with GPU %d (%s)", s->devices[f->other].ordinal, s->devices[f->other].pci);
    snprintf(text, FINDING_TEXT, "GPU %d (%s) of %s%s: %s %.4g GB/s, %.0f %% of the %s %.4g",
             s->devices[f->rank].ordinal, s->devices[f->rank].pci, s->world.hosts[f->rank], pair, f->copy->name,
             f->gbps, 100 * f->gbps / f->typical, f->other >= 0 ? "median of both," : "typical", f->typical);
    return text;
}

static int count_lost_pairs(const struct run *r)
{
    const struct bb_world *w = &r->session.world;
    int n = 0;

    for (int rank = 0; rank < w->size; rank++)
        for (int i = 0; i < r->copies.gpus; i++)
            n += rank_at(r, rank, i) > rank && isnan(r->gbps[BB_COPY_PEER_WRITE][rank * r->copies.gpus + i]);
    return n;
}

enum { SHORTFALL_TEXT = 96 };

/* Writes which copy is furthest below its expected rate, if that is --slow times as fast: all GPUs may be equally slow. */
static const char *shortfall_text(const struct run *r, char text[SHORTFALL_TEXT])
{
    double lowest = 1 / r->options.slow;

    text[0] = '\0';
    for (int id = 0; id < BB_COPIES; id++) {
        const double expected = expected_of(r, &bb_copy_cases[id]);
        const double part = rates_of(r, id, 0, r->session.world.size).min / expected;

        if (!(part < 0.99 * lowest)) /* NaN: not measured, or no expected rate */
            continue;
        lowest = part;
        snprintf(text, SHORTFALL_TEXT, "; %s reaches %.0f %% of the expected %.4g GB/s", bb_copy_cases[id].name,
                 100 * part, expected);
    }
    return text;
}

static void print_verdict(const struct run *r)
{
    FILE *out = r->session.out;
    const int shown = r->session.detail || r->n < SHOWN ? r->n : SHOWN, lost = count_lost_pairs(r);
    char text[FINDING_TEXT], shortfall[SHORTFALL_TEXT];

    if (lost > 0)
        fprintf(out, "# %d pair%s of GPUs without access to each other's memory (CUDA IPC)\n", lost, bb_plural(lost));
    for (int i = 0; i < shown; i++)
        fprintf(out, "# slow: %s\n", finding_text(r, &r->findings[i], text));
    if (r->session.shared_gpu)
        fprintf(out, "# not judged: %s\n", bb_session_sharing(&r->session));
    else if (r->session.world.size == 1)
        fprintf(out, "# one GPU: not judged, there is no other GPU to compare it with%s\n",
                shortfall_text(r, shortfall));
    else if (r->n == 0)
        fprintf(out, "# no slow GPU and no slow pair among %d GPUs%s\n", r->session.world.size,
                shortfall_text(r, shortfall));
    else
        fprintf(out, "# SLOW: %d GPU%s, %d pair%s; first: %s\n", r->gpus_slow, bb_plural(r->gpus_slow), r->pairs_slow,
                bb_plural(r->pairs_slow), finding_text(r, &r->findings[0], text));
}

static json_t *findings_json(const struct run *r)
{
    json_t *list = json_array();
    char text[FINDING_TEXT];

    for (int i = 0; i < r->n; i++) {
        const struct finding *f = &r->findings[i];

        json_array_append_new(
            list, json_pack("{s:i, s:s, s:i, s:o, s:s, s:f, s:f, s:s}", "rank", f->rank, "host",
                            r->session.world.hosts[f->rank], "gpu", r->session.devices[f->rank].ordinal, "peer",
                            f->other < 0 ? json_null() : json_integer(f->other), "copy", f->copy->name, "gbps", f->gbps,
                            "typical_gbps", f->typical, "reason", finding_text(r, f, text)));
    }
    return list;
}

static int report(struct run *r)
{
    int rc = 0;

    judge(r);
    if (r->session.out) {
        bb_table_heading(r->session.out, summary_fields);
        for (int id = 0; id < BB_COPIES; id++)
            print_summary(r, summary_fields, id, 0, r->session.world.size);
        if (r->session.detail)
            print_gpus(r);
        print_verdict(r);
    }
    for (int id = 0; id < BB_COPIES && r->session.json; id++)
        for (int at = 0; at < r->session.world.size * r->copies.gpus; at++)
            TRY(save_copy(r, id, at / r->copies.gpus, at % r->copies.gpus));
    if (r->session.json)
        TRY(bb_results_set_all(r->session.json, json_pack("{s:s?, s:o}", "expected_by", r->source[0] ? r->source : NULL,
                                                          "slow_copies", findings_json(r))));
out:
    return rc;
}

/* Checks and saves --max-slow. The check also fails if ranks share a GPU. The result is equal on all ranks. */
static int check_max_slow(struct run *r)
{
    const int most = r->options.max_slow, slow = r->gpus_slow + r->pairs_slow;
    const bool limited = most >= 0, shared = r->session.shared_gpu, fails = limited && (slow > most || shared);
    char first[FINDING_TEXT], text[2 * FINDING_TEXT] = "", allows[32] = "";
    json_t *checks = json_array();
    int rc;

    if (fails)
        snprintf(allows, sizeof allows, ", --max-slow allows %d", most);
    if (limited && shared)
        snprintf(text, sizeof text, "--max-slow cannot be checked: %s", bb_session_sharing(&r->session));
    else if (slow > 0)
        snprintf(text, sizeof text, "slow GPUs and pairs: %d%s; first: %s", slow, allows,
                 finding_text(r, &r->findings[0], first));
    if (!shared || fails)
        bb_checks_add(checks, &(struct bb_check){.check = "slow GPUs and pairs",
                                                 .status = fails      ? BB_CHECK_FAIL
                                                           : slow > 0 ? BB_CHECK_WARN
                                                                      : BB_CHECK_OK,
                                                 .measured = slow,
                                                 .expected = limited ? most : NAN,
                                                 .unit = "links",
                                                 .reason = text});
    rc = bb_results_set(r->session.json, "checks", checks);
    return rc != 0 || !fails ? rc : BB_WORLD_ERR(&r->session.world, BB_EBELOW, "%s", text);
}

/* ---- the run ---- */

/* Sets the expected rates on rank 0, which prints and saves them. */
static int expect(struct run *r, bb_forecast *forecast)
{
    const struct bb_world *w = &r->session.world;
    const struct bb_machine_facts facts = bb_machine_facts_of(&r->session, w->size, r->copies.gpus);
    int rc = 0;

    r->expected = (struct bb_copy_rates){NAN, NAN, NAN};
    bb_err_job_scope(1);
    if (w->rank == 0 && strcmp(r->options.expect, "none") != 0)
        rc = bb_copy_expect(forecast, &facts, r->options.expect, &r->expected, r->source);
    bb_err_job_scope(0);
    return bb_world_agree(&r->session.world, rc, "reading --expect");
}

static void print_head(const struct run *r)
{
    char size[BB_BYTES_TEXT];

    bb_session_print_head(&r->session);
    if (r->session.out)
        fprintf(r->session.out, "# copies of %s, each value of one GPU; reached: by the slowest; expected: %s\n",
                bb_format_bytes(r->options.bytes, size),
                r->source[0] ? r->source : "unknown machine, GPUs are compared with each other");
}

static int run_copy(struct run *r, bb_forecast *forecast, int argc, char **argv)
{
    const struct bb_results_head head = {.schema = "busbar.bench/1", .argc = argc, .argv = argv};
    const struct bb_bench_copy_options *o = &r->options;
    struct bb_session *s = &r->session;
    int rc;

    TRY(bb_session_begin(s, &o->common, BB_SESSION_GPUS));
    TRY(bb_session_setup_gpus(s, 0));
    TRY(bb_session_check_memory(s, bb_copies_bytes(o->bytes), "lower --size"));
    TRY(bb_copies_init(&r->copies, s, o->bytes, o->iterations, o->repeats, o->warmup));
    TRY(expect(r, forecast));
    TRY(bb_session_open_results(s, &head, NULL, NULL));
    print_head(r);
    BB_NEW(r->of_gpu, s->world.size);
    BB_NEW(r->sorted, s->world.size);
    for (int id = 0; id < BB_COPIES; id++) {
        BB_NEW(r->gbps[id], s->world.size * r->copies.gpus);
        BB_NEW(r->time_us[id], s->world.size * r->copies.gpus);
        TRY(bb_copies_measure(&r->copies, (enum bb_copy_id)id, r->gbps[id], r->time_us[id]));
    }
    TRY(report(r));
    rc = check_max_slow(r);
out:
    return rc;
}

int bb_bench_copy_run(bb_forecast *forecast, int argc, char **argv)
{
    struct run r = {0};
    int rc = bb_opts_read(&bb_bench_copy_set, &r.options, argc - 1, argv + 1), end_rc = 0;

    if (rc != 0)
        return rc;
    rc = run_copy(&r, forecast, argc, argv);
    if (bb_session_ends_on_all_ranks(&r.session, rc))
        end_rc = bb_copies_release(&r.copies);
    for (int id = 0; id < BB_COPIES; id++) {
        free(r.gbps[id]);
        free(r.time_us[id]);
    }
    free(r.of_gpu);
    free(r.sorted);
    free(r.findings);
    return bb_session_release(&r.session, rc, end_rc);
}
