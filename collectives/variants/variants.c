/* variants.c - see variants.h. */
#include "collectives/variants/variants.h"

#include "bootstrap/base/units.h"
#include "collectives/measure/timing.h"
#include "collectives/session/result_row.h"
#include "cuda/device/check.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 2, COLLECTIVES_PER_SAMPLE = 10, GEMM_WARMUP = 3 };
/* NCCL versions with collectives by copy engines, and that report them to profilers */
static const int ZERO_SM_SINCE = 22800, REPORTED_SINCE = 23000;

/* ---- communicators and buffers ---- */

static const char *why_not_registered(const struct bb_registration *r, const struct bb_variant_kind *kind)
{
    return (int)r->kind == kind->registration ? NULL : r->why;
}

static int make_device(struct bb_variants *v, int i)
{
    struct bb_device *d = &v->devices[i];
    int rc;

    *d = (struct bb_device){.path = BB_DEVICE_LSA,
                            .ctas = BB_DEVICE_CTAS,
                            .window = v->registrations[i].handle,
                            .base = (const char *)v->arenas[i].area};
    TRY(bb_device_open(d, &v->comms[i]));
    v->reasons[i] = d->why[0] ? d->why : NULL;
out:
    return rc;
}

static int make_variant(struct bb_variants *v, int i, const struct bb_comm_opts *opts, size_t arena_bytes)
{
    const struct bb_variant_kind *kind = v->kind[i];
    struct bb_world *world = &v->session->world;
    struct bb_comm_opts own = *opts;
    int rc = 0;

    if (kind->cta_policy == 2 && (v->session->nccl_runtime < ZERO_SM_SINCE || v->session->nccl_header < ZERO_SM_SINCE))
        v->reasons[i] = "requires NCCL 2.28, also at build time";
    if (v->reasons[i])
        return 0;
    own.cta_policy = kind->cta_policy + 1;
    TRY(bb_comm_init(&v->comms[i], world, kind->name, NULL, world->size, &own));
    if (kind->registration == BB_REGISTER_NONE)
        TRY(bb_guarded_init(&v->arenas[i], arena_bytes, v->session->memory, v->ctx->stream));
    else
        TRY(bb_registration_init(&v->registrations[i], &v->arenas[i], arena_bytes,
                                 (enum bb_registration_kind)kind->registration, &v->comms[i]));
    v->reasons[i] = why_not_registered(&v->registrations[i], kind);
    if (kind->device && !v->reasons[i])
        TRY(make_device(v, i));
    TRY(BB_CUDA(
        cudaMemcpyAsync(v->arenas[i].area, v->arenas[0].area, arena_bytes, cudaMemcpyDeviceToDevice, v->ctx->stream)));
    TRY(bb_bench_context_wait(v->ctx, "initializing the buffers"));
out:
    return rc;
}

int bb_variants_init(struct bb_variants *v, struct bb_session *session, struct bb_bench_context *ctx,
                     const struct bb_comm_opts *opts, size_t arena_bytes, const int64_t gemm[3])
{
    int rc = 0;

    v->session = session;
    v->ctx = ctx;
    v->plain_comm = ctx->comm;
    v->arenas[0] = ctx->arena;
    ctx->both_clocks = false;
    for (int i = 1; i < v->n; i++)
        TRY(make_variant(v, i, opts, arena_bytes));
    if (!v->with_gemm)
        return 0;
    v->gemm = (struct bb_bench_overlap_options){
        .repeats = ctx->repeats,
        .warmup = GEMM_WARMUP,
        .gemm_shape = {gemm[0], gemm[1], gemm[2], 1, false, false, (enum bb_dtype_id)bb_dtype_find("bfloat16")}};
    TRY(bb_overlap_context_init(&v->overlap, session, &v->gemm, 0));
out:
    return rc;
}

int bb_variants_release(struct bb_variants *v)
{
    int rc = 0;

    v->overlap.slots = (struct bb_guarded){0}; /* borrowed */
    bb_overlap_context_release(&v->overlap);
    for (int i = 1; i < v->n; i++) {
        bb_device_close(&v->devices[i], &v->comms[i]);
        bb_registration_release(&v->registrations[i], &v->arenas[i], &v->comms[i]);
        bb_guarded_release(&v->arenas[i]);
        if (v->comms[i].nccl && rc == 0)
            rc = bb_comm_finalize(&v->comms[i]);
    }
    return rc;
}

/* ---- measurement of a case ---- */

/* A variant of a case. */
struct entry {
    bool measured;
    const char *reason; /* why the variant has no rank; NULL: it has one */
    char reason_text[64];
    struct bb_metrics alone;
    bool wrong_with_gemm; /* the first wrong element is of a measurement concurrent with GEMMs */
    struct bb_overlap_result both;
};

/* Lets the context measure variant i. */
static void select_variant(struct bb_variants *v, int i)
{
    v->ctx->comm = i == 0 ? v->plain_comm : &v->comms[i];
    v->ctx->arena = v->arenas[i];
    v->ctx->device_kernels = v->kind[i]->device ? &v->devices[i] : NULL;
    v->ctx->symmetric = v->registrations[i].kind == BB_REGISTER_SYMMETRIC;
    v->ctx->copy_engines = v->ctx->symmetric && v->kind[i]->cta_policy == 2;
    bb_measure_mode(v->ctx, v->kind[i]->graph ? &bb_mode_graph : v->ctx->modes[0]);
}

static int measure_alone(struct bb_variants *v, const struct bb_case *c, int i, struct entry *e)
{
    struct bb_metrics m;
    int rc;

    select_variant(v, i);
    rc = bb_measure(v->ctx, c, &m);
    select_variant(v, 0);
    if (e->alone.wrong > 0)
        m.first = e->alone.first;
    m.wrong += e->alone.wrong;
    if (rc == 0 && (!e->measured || m.time_us.p50 < e->alone.time_us.p50))
        e->alone = m;
    e->alone.wrong = m.wrong;
    e->alone.first = m.first;
    e->measured = true;
    return rc;
}

static int measure_with_gemm(struct bb_variants *v, struct bb_overlap_work *work, int i, bool first, struct entry *e)
{
    struct bb_overlap_result r;
    int rc;

    work->comm = i == 0 ? v->plain_comm : &v->comms[i];
    work->graph = v->kind[i]->graph;
    v->overlap.slots = v->arenas[i];
    v->overlap.coll.device_kernels = v->kind[i]->device ? &v->devices[i] : NULL;
    rc = bb_overlap_measure(&v->overlap, work, &r);
    if (rc == 0 && (first || r.us[BB_BOTH].p50 < e->both.us[BB_BOTH].p50))
        e->both = r;
    if (r.wrong > 0 && e->alone.wrong == 0) {
        e->alone.first = r.first;
        e->wrong_with_gemm = true;
    }
    e->alone.wrong += r.wrong;
    return rc;
}

/* Measures all variants that can run, in two rounds. */
static int measure_rounds(struct bb_variants *v, const struct bb_case *c, struct bb_overlap_work *work,
                          struct entry *entries)
{
    int rc = 0;

    for (int k = 0; k < ROUNDS * v->n; k++) {
        const int round = k / v->n, i = round == 0 ? k : 2 * v->n - 1 - k;

        if (entries[i].reason)
            continue;
        bb_progress_show(&v->session->progress, "%s %s", bb_colls[c->kind].name, v->kind[i]->name);
        TRY(measure_alone(v, c, i, &entries[i]));
        if (work)
            TRY(measure_with_gemm(v, work, i, round == 0, &entries[i]));
    }
    bb_progress_clear(&v->session->progress);
out:
    return rc;
}

/* Chooses the numbers of GEMMs and collectives of a sample by the times of plain. */
static int choose_work(struct bb_variants *v, const struct bb_case *c, struct bb_overlap_work *work)
{
    struct entry e = {0};
    int rc;

    *work = (struct bb_overlap_work){.c = *c, .gemms = 1, .collectives = 1};
    TRY(measure_with_gemm(v, work, 0, true, &e));
    bb_overlap_counts(e.both.us[BB_COMPUTE_ALONE].p50, e.both.us[BB_COMM_ALONE].p50, COLLECTIVES_PER_SAMPLE,
                      &work->gemms, &work->collectives);
out:
    return rc;
}

static const char *why_impossible(const struct bb_variants *v, const struct bb_case *c, int i)
{
    bool runs = true;

    if (v->reasons[i])
        return v->reasons[i];
    if (v->kind[i]->device) {
        bb_err_speculative(1);
        runs = bb_device_check("lsa", c->kind, c->dtype, c->redop) == 0;
        bb_err_speculative(0);
    }
    if (!runs)
        return "busbar has no kernel for it";
    return v->kind[i]->cta_policy == 2 && bb_colls[c->kind].flags & BB_COLL_REDUCES ? "copy engines do not reduce"
                                                                                    : NULL;
}

/* Sets the reason of an entry for which NCCL ran the kernel of another variant on any rank, or wrong data were received. */
static int check_entry(struct bb_variants *v, const struct entry *plain, int i, struct entry *e)
{
    const struct bb_choice *ran = &e->alone.seen.choice;
    unsigned other = v->kind[i]->replaces_kernel && ran->kind != BB_CHOICE_NONE;
    int rc = bb_world_any(&v->session->world, &other);

    if (!e->measured)
        return rc;
    if (e->alone.wrong > 0)
        e->reason = "wrong data";
    else if (v->session->world.size == 1)
        e->reason = "one rank: NCCL only copies memory";
    else if (v->session->shared_gpu)
        e->reason = bb_session_sharing(v->session);
    else if (v->kind[i]->replaces_kernel && plain->alone.seen.choice.kind == BB_CHOICE_NONE)
        e->reason = "unknown what NCCL ran, it does not report its choice";
    else if (v->kind[i]->cta_policy == 2 && !other && !ran->copies && v->session->nccl_runtime >= REPORTED_SINCE)
        e->reason = "NCCL ran a symmetric kernel";
    else if (other) {
        snprintf(e->reason_text, sizeof e->reason_text, "NCCL ran %s%s%s, as plain",
                 ran->kind == BB_CHOICE_P2P ? "sends and receives" : ran->algorithm, ran->protocol[0] ? " " : "",
                 ran->protocol);
        e->reason = e->reason_text;
    }
    return rc;
}

/* ---- ranking ---- */

static const struct bb_stats *time_of(const struct entry *e, bool with_gemm)
{
    return with_gemm ? &e->both.us[BB_BOTH] : &e->alone.time_us;
}

/* Sets verdicts[i] of each ranked variant: best, tie (several are the fastest) or slower; else NULL. Counts the case.
 * Returns the first of the fastest variants; -1: no variant has a rank. */
static int rank_variants(const struct bb_variants *v, const struct entry *entries, bool with_gemm,
                         const struct bb_case *c, struct bb_variant_tally *t, const char *verdicts[BB_VARIANTS])
{
    int fastest = -1, first;
    unsigned tied = 0;
    double gain;

    for (int i = 0; i < v->n; i++)
        if (!entries[i].reason &&
            (fastest < 0 || time_of(&entries[i], with_gemm)->p50 < time_of(&entries[fastest], with_gemm)->p50))
            fastest = i;
    if (fastest < 0)
        return -1;
    for (int i = 0; i < v->n; i++)
        if (!entries[i].reason && bb_is_tie(time_of(&entries[i], with_gemm), time_of(&entries[fastest], with_gemm)))
            tied |= 1u << i;
    for (int i = 0; i < v->n; i++)
        verdicts[i] = entries[i].reason ? NULL : !(tied >> i & 1) ? "slower" : tied == 1u << i ? "best" : "tie";
    first = __builtin_ctz(tied);
    t->cases++;
    t->wins[first] += tied == 1u << first;
    gain = time_of(&entries[0], with_gemm)->p50 / time_of(&entries[first], with_gemm)->p50;
    if (first > 0 && gain > t->gain) {
        t->gain = gain;
        t->best = first;
        t->tied = tied & ~(1u << first);
        t->bytes = bb_case_bytes(c);
        t->collective = bb_colls[c->kind].name;
    }
    return first;
}

static bool ran_as_plain(const struct entry *plain, const struct entry *e)
{
    const struct bb_choice *a = &plain->alone.seen.choice, *b = &e->alone.seen.choice;

    return a->kind == b->kind && a->channels == b->channels && strcmp(a->algorithm, b->algorithm) == 0 &&
           strcmp(a->protocol, b->protocol) == 0;
}

/* ---- rows ---- */

struct row {
    const char *collective, *variant, *dtype, *op, *placement, *mode, *verdict, *verdict_with_gemm, *reason;
    const char *result; /* verdict or reason, for the table */
    char ran[40];
    size_t bytes, count;
    int root, gemms, collectives;
    double algbw_gbps, busbw_gbps, gain;
    struct bb_stats time_us, both_us;
    double compute_slowdown, comm_slowdown, gain_with_gemm;
    long long wrong;
    bool forced; /* not the plain collective */
};

#define SHOWS(name) BB_SHOWS(struct row, name)
#define JSON(name)  BB_NAMED(struct row, name)
static const struct bb_field alone_fields[] = {
    JSON(collective),
    {"bytes", "size", "(B)", 12, 0, SHOWS(bytes)},
    JSON(count),
    JSON(dtype),
    JSON(op),
    JSON(root),
    JSON(placement),
    JSON(mode),
    {"variant", "variant", "", 10, 0, SHOWS(variant), .form = BB_FORM_LEFT},
    {"ran", "ran", "", 20, 0, SHOWS(ran), .form = BB_FORM_LEFT},
    {"time_us", "time", "(us)", 10, 2, SHOWS(time_us)},
    JSON(algbw_gbps),
    {"busbw_gbps", "busbw", "(GB/s)", 8, 2, SHOWS(busbw_gbps)},
    {"gain", "gain", "(x)", 6, 2, SHOWS(gain)},
    JSON(verdict),
    JSON(reason),
    JSON(forced),
    {0},
};
static const struct bb_field gemm_fields[] = {
    JSON(gemms),
    JSON(collectives),
    {"compute_slowdown", "gemm", "slower", 6, 2, SHOWS(compute_slowdown)},
    {"comm_slowdown", "coll", "slower", 6, 2, SHOWS(comm_slowdown)},
    {"gemm_and_collectives_us", "both", "(us)", 10, 2, SHOWS(both_us)},
    {"gain_with_gemm", "gain", "both", 6, 2, SHOWS(gain_with_gemm)},
    {"verdict_with_gemm", "verdict", "both", 7, 0, SHOWS(verdict_with_gemm)},
    {0},
};
static const struct bb_field end_fields[] = {
    {"wrong", "#wrong", "", 6, 0, SHOWS(wrong), .none = "N/A"},
    {NULL, "verdict", "", 7, 0, SHOWS(result), .form = BB_FORM_LEFT},
    {0},
};
static const struct bb_field end_with_gemm_fields[] = {
    {"wrong", "#wrong", "", 6, 0, SHOWS(wrong), .none = "N/A"},
    {NULL, "verdict", "alone", 7, 0, SHOWS(result), .form = BB_FORM_LEFT},
    {0},
};

/* Prints headings (row NULL) or a row. */
static void print_line(const struct bb_variants *v, const struct row *row, bool units)
{
    const struct bb_field *const lists[] = {alone_fields, v->with_gemm ? gemm_fields : NULL,
                                            v->with_gemm ? end_with_gemm_fields : end_fields};
    struct bb_line line = {.out = v->session->out};

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i] && row)
            bb_line_row(&line, lists[i], row);
        else if (lists[i])
            bb_line_heading(&line, lists[i], units);
    bb_line_end(&line);
}

void bb_variants_heading(struct bb_variants *v)
{
    enum { ROWS = 15 }; /* which leave space for the other lines of a report of 25 lines */
    int n = 0;

    for (int i = 0; i < v->n; i++)
        n += v->reasons[i] == NULL;
    v->brief = !v->session->detail && v->cases * n > ROWS;
    if (!v->session->out)
        return;
    if (v->brief)
        fputs("# each row: the fastest variant, plain if none is; --full prints all\n", v->session->out);
    print_line(v, NULL, false);
    print_line(v, NULL, true);
}

/* Writes what NCCL ran. Operations of a graph are those that NCCL reported before the capture. */
static void format_ran(const struct bb_variant_kind *kind, const struct entry *e, int ranks, char *text, size_t size)
{
    const struct bb_choice *ran = &e->alone.seen.choice;

    if (!e->measured)
        snprintf(text, size, "-");
    else if (ran->kind == BB_CHOICE_COLLECTIVE)
        snprintf(text, size, "%s %s %d", ran->algorithm, ran->protocol, ran->channels);
    else if (ran->kind == BB_CHOICE_P2P)
        snprintf(text, size, "sends, receives %d", ran->channels);
    else
        snprintf(text, size, "%s",
                 ran->copies                            ? "copy engines"
                 : ran->symmetric && ran->algorithm[0]  ? ran->algorithm
                 : ranks > 1 && kind->ran && !e->reason ? kind->ran
                 : ranks > 1                            ? "not reported"
                                                        : "copy");
}

static struct row make_row(const struct bb_variants *v, const struct bb_case *c, const struct bb_overlap_work *work,
                           const struct entry *entries, int i)
{
    const struct entry *e = &entries[i];
    struct row row = {.collective = bb_colls[c->kind].name,
                      .variant = v->kind[i]->name,
                      .dtype = bb_dtypes[c->dtype].name,
                      .op = c->redop == BB_COPY ? NULL : bb_redops[c->redop].name,
                      .placement = c->in_place ? "in_place" : "out_of_place",
                      .mode = v->kind[i]->graph ? bb_mode_graph.name : v->ctx->modes[0]->name,
                      .reason = e->reason,
                      .bytes = bb_case_bytes(c),
                      .count = c->count,
                      .root = c->root,
                      .forced = i > 0,
                      .gemms = work ? work->gemms : -1,
                      .collectives = work ? work->collectives : -1,
                      .algbw_gbps = NAN,
                      .busbw_gbps = NAN,
                      .gain = NAN,
                      .compute_slowdown = NAN,
                      .comm_slowdown = NAN,
                      .gain_with_gemm = NAN,
                      .wrong = e->measured && e->alone.checked ? (long long)e->alone.wrong : -1};
    double us[BB_OVERLAP_TIMES];

    format_ran(v->kind[i], e, c->ranks, row.ran, sizeof row.ran);
    if (!e->measured)
        return row;
    row.time_us = e->alone.time_us;
    row.algbw_gbps = e->alone.algbw_gbps;
    row.busbw_gbps = e->alone.busbw_gbps;
    row.gain = e->reason ? NAN : entries[0].alone.time_us.p50 / e->alone.time_us.p50;
    if (!work)
        return row;
    for (int t = 0; t < BB_OVERLAP_TIMES; t++)
        us[t] = e->both.us[t].p50;
    row.both_us = e->both.us[BB_BOTH];
    row.compute_slowdown = bb_contention_of(us).compute_slowdown;
    row.comm_slowdown = bb_contention_of(us).comm_slowdown;
    row.gain_with_gemm = e->reason ? NAN : entries[0].both.us[BB_BOTH].p50 / us[BB_BOTH];
    return row;
}

static int save_row(struct bb_variants *v, const struct row *row, const struct entry *e)
{
    json_t *result = json_object();

    bb_table_json(result, alone_fields, row);
    bb_table_json(result, gemm_fields, row);
    bb_table_json(result, end_fields, row);
    return bb_result_save(v->session, result, &e->alone.seen, bb_result_flags(v->session), e->alone.seen.gpu_flags);
}

static void report_wrong_data(const struct bb_variants *v, const struct bb_case *c, const struct row *row,
                              const struct entry *e)
{
    char size[BB_BYTES_TEXT], what[160];

    snprintf(what, sizeof what, "%s of %s, variant %s%s", row->collective, bb_format_bytes(row->bytes, size),
             row->variant, e->wrong_with_gemm ? ", concurrent with GEMMs" : "");
    bb_report_wrong_data(&v->session->world, &e->alone, c->dtype, what);
}

/* Reports all variants of a case on rank 0. */
static int report_case(struct bb_variants *v, const struct bb_case *c, const struct bb_overlap_work *work,
                       const struct entry *entries)
{
    const char *alone[BB_VARIANTS] = {NULL}, *both[BB_VARIANTS] = {NULL};
    const int fastest = rank_variants(v, entries, false, c, &v->alone, alone);
    int rc = 0;

    if (work)
        (void)rank_variants(v, entries, true, c, &v->concurrent, both);
    for (int i = 0; i < v->n && rc == 0; i++) {
        struct row row = make_row(v, c, work, entries, i);
        const bool shown = v->brief ? i == (fastest < 0 ? 0 : fastest) : !v->reasons[i];

        row.verdict = alone[i];
        row.verdict_with_gemm = both[i];
        row.result = entries[i].reason ? entries[i].reason : alone[i];
        if (entries[i].reason) {
            v->unranked[i]++;
            snprintf(v->why[i], sizeof v->why[i], "%s", entries[i].reason);
        } else if (i > 0 && strcmp(alone[i], "tie") == 0 && !v->kind[i]->graph &&
                   ran_as_plain(&entries[0], &entries[i]))
            row.result = "tie, ran as plain";
        if (entries[i].alone.wrong > 0)
            report_wrong_data(v, c, &row, &entries[i]);
        if (v->session->out && (shown || entries[i].alone.wrong > 0))
            print_line(v, &row, false);
        if (v->session->json)
            rc = save_row(v, &row, &entries[i]);
    }
    return rc;
}

int bb_variants_case(struct bb_variants *v, const struct bb_case *c)
{
    struct entry entries[BB_VARIANTS] = {{0}};
    struct bb_overlap_work work = {0}, *with = v->with_gemm ? &work : NULL;
    int rc = 0;

    for (int i = 0; i < v->n; i++)
        entries[i].reason = why_impossible(v, c, i);
    if (with)
        TRY(choose_work(v, c, with));
    TRY(measure_rounds(v, c, with, entries));
    for (int i = 0; i < v->n; i++) {
        TRY(check_entry(v, &entries[0], i, &entries[i]));
        v->wrong = v->wrong || entries[i].alone.wrong > 0;
    }
    if (v->session->world.rank == 0)
        rc = report_case(v, c, with, entries);
out:
    return rc;
}

/* ---- verdict ---- */

/* Prints the variants without a rank in one line. */
static void print_unranked(const struct bb_variants *v)
{
    const char *before = "# not ranked: ";

    for (int i = 0; i < v->n; i++) {
        if (v->unranked[i] == 0 || (v->alone.cases == 0 && strcmp(v->why[i], v->why[0]) == 0))
            continue;
        fprintf(v->session->out, "%s%s", before, v->kind[i]->name);
        if (v->unranked[i] < v->cases)
            fprintf(v->session->out, " in %d of %d cases", v->unranked[i], v->cases);
        fprintf(v->session->out, " (%s)", v->why[i]);
        before = ", ";
    }
    if (*before == ',')
        fputc('\n', v->session->out);
}

static void print_tally(const struct bb_variants *v, const struct bb_variant_tally *t)
{
    FILE *out = v->session->out;
    char bytes[BB_BYTES_TEXT];
    int ties = t->cases;

    if (t->gain > 0)
        fprintf(out, "%s, %.2f times as fast as plain at %s %s", v->kind[t->best]->name, t->gain, t->collective,
                bb_format_bytes(t->bytes, bytes));
    else
        fprintf(out, "plain, nothing is significantly faster");
    for (int i = 0; i < v->n && t->gain > 0; i++)
        if (t->tied >> i & 1)
            fprintf(out, ", tie with %s", v->kind[i]->name);
    for (int i = 0; i < v->n; i++) {
        ties -= t->wins[i];
        if (t->wins[i] > 0 && t->gain > 0)
            fprintf(out, ", %s in %d of %d cases", v->kind[i]->name, t->wins[i], t->cases);
    }
    if (ties > 0 && t->gain > 0)
        fprintf(out, ", no single best in %d of %d cases", ties, t->cases);
}

static void print_verdict(const struct bb_variants *v)
{
    FILE *out = v->session->out;

    if (v->alone.cases == 0) {
        fprintf(out, "# no verdict: %s\n", v->why[0]);
        return;
    }
    fputs(v->wrong ? "# WRONG DATA; best: " : "# best: ", out);
    print_tally(v, &v->alone);
    if (v->concurrent.cases > 0) {
        fprintf(out, "; with GEMMs: ");
        print_tally(v, &v->concurrent);
    }
    fputc('\n', out);
}

static json_t *tally_json(const struct bb_variants *v, const struct bb_variant_tally *t)
{
    json_t *wins = json_object();

    for (int i = 0; i < v->n; i++)
        json_object_set_new(wins, v->kind[i]->name, json_integer(t->wins[i]));
    return json_pack("{s:s, s:o, s:s?, s:o, s:i, s:o}", "best", v->kind[t->best]->name, "gain",
                     t->gain > 0 ? json_real(t->gain) : json_null(), "collective", t->collective, "bytes",
                     t->gain > 0 ? json_integer((json_int_t)t->bytes) : json_null(), "cases", t->cases, "wins", wins);
}

int bb_variants_end(struct bb_variants *v)
{
    if (v->session->out) {
        print_unranked(v);
        print_verdict(v);
    }
    if (!v->session->json)
        return 0;
    return bb_results_set(v->session->json, "variants",
                          json_pack("{s:o, s:o}", "alone", tally_json(v, &v->alone), "with_gemm",
                                    v->with_gemm ? tally_json(v, &v->concurrent) : json_null()));
}
