/*
 * bench_p2p.c - runs `busbar bench p2p`: measures all pairs of ranks in rounds (sets of pairs measured at the same
 * time), and reports matrices and slow links.
 *
 * Top-level fields of the results: schedule, rounds, causes[{level, rank, node, host, slow, links, explained, ..}],
 * matrices[{metric, direction, bytes, unit, values[from][to]}], slow_links[{level, from, to, node, host, same_node,
 * metric, .., value, median}], slowest_links[{from, to, ..}], bimodal[{metric, .., same_node, links[2], medians[2],
 * compared_with}].
 */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/report_header.h"
#include "bootstrap/results/checks.h"
#include "collectives/p2p/link_outliers.h"
#include "collectives/p2p/p2p_measure.h"
#include "collectives/p2p/p2p_options.h"
#include "collectives/p2p/pair_schedule.h"
#include "collectives/session/result_row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

/* The values of one metric (latency or bandwidth) for all pairs of ranks, with messages in one direction or in both,
 * and with one message size. */
struct matrix {
    struct bb_p2p_run run;
    double *value; /* [size][size] value for messages from the rank of the matrix row to the rank of the matrix
                      column, on rank 0; NaN: not measured. NULL on other ranks */
    int suspected,
        alone; /* number of links that are slow while the other pairs of their round run; of these, number of links that
                          were measured again alone. On rank 0 */
};
enum { MATRICES = 2 * 2 * BB_SIZES_MAX };

/* A cause of slow links in a matrix. */
struct cause {
    struct bb_link_cause found;
    const struct matrix *matrix;
};

/* State of one run of `busbar bench p2p`. An all-zero struct may be passed to the release function. */
struct p2p {
    struct bb_bench_p2p_options options;
    struct bb_session session;
    struct bb_comm comm;
    struct bb_p2p_context ctx;
    struct bb_pair_schedule pairing;
    struct matrix matrices[MATRICES];
    const struct matrix *shown; /* matrix whose slow links are being reported; report_slow reads it */
    int n_matrices, round;
    double *samples;                 /* [repeats] times of the current pair in us per message */
    json_t *report;                  /* top-level fields of the results, on rank 0 */
    int n_slow[BB_LINK_LEVELS];      /* pairs: sum over the matrices; ranks and nodes: each counts once */
    bool (*is_slow)[BB_LINK_LEVELS]; /* [ranks] ranks and nodes that n_slow counts */
    struct cause *causes;            /* [n_causes] causes of slow links, in the order of the matrices; on rank 0 */
    int n_causes;
    int *domain_of; /* [ranks] NVLink domain of each rank */
    bool nvlink_spans_nodes;
    int n_wrong, first_wrong[2]; /* results with wrong data; ranks of the first */
    bool too_many; /* on rank 0: a matrix has more slow links than --max-slow, or a link below --min-gbps */
};

/* ---- choosing the metrics and message sizes to measure ---- */

static bool is_requested(const char *asked, const char *what)
{
    return strcmp(asked, "all") == 0 || strcmp(asked, what) == 0;
}

static void choose_matrices(struct p2p *p)
{
    for (int kind = 0; kind < BB_P2P_KINDS; kind++) {
        const struct bb_p2p_metric *f = &bb_p2p_metrics[kind];
        const struct bb_sizes *sizes = f->is_bandwidth ? &p->options.large : &p->options.small;

        if (is_requested(p->options.metrics, f->metric) && is_requested(p->options.direction, f->direction))
            for (int i = 0; i < sizes->n; i++)
                p->matrices[p->n_matrices++].run =
                    (struct bb_p2p_run){.kind = (enum bb_p2p_kind)kind, .bytes = sizes->bytes[i]};
    }
}

static size_t largest_message(const struct p2p *p)
{
    size_t largest = 0;

    for (int i = 0; i < p->n_matrices; i++)
        largest = p->matrices[i].run.bytes > largest ? p->matrices[i].run.bytes : largest;
    return largest;
}

/* ---- results of one link ---- */

static double *matrix_cell(const struct p2p *p, const struct matrix *m, int from, int to)
{
    return &m->value[(size_t)from * (size_t)p->session.world.size + (size_t)to];
}

/* Returns the value of a link for the matrix: the median latency in us, or the bandwidth in 1e9 bytes per second. */
static double link_value(const struct bb_p2p_run *run, const struct bb_stats *time_us)
{
    const struct bb_p2p_metric *f = &bb_p2p_metrics[run->kind];

    if (!f->is_bandwidth)
        return time_us->p50;
    return time_us->p50 > 0 ? f->bytes_factor * (double)run->bytes / time_us->p50 / 1e3 : NAN;
}

/* One result row: a link (pair of ranks) and a message size. A row that describes both directions of the link
 * (ping-pong latency, or both directions at once) has from < to. */
struct link {
    const char *metric, *direction;
    size_t bytes;
    int from, to, round, iterations;
    const char *from_host, *to_host;
    bool same_node, start_barrier;
    struct bb_stats time_us; /* time per message */
    double latency_us, gbps; /* one of latency_us and gbps, the metric of the row; the other one is NaN. With
                                messages in both directions at once, gbps is the sum of the directions */
    long long wrong;         /* number of wrong elements; -1: not verified */
    int channels;            /* number of NCCL channels that the sender uses; -1: unknown */
    json_t *gpu_from, *gpu_to;
};

#define JSON(name) BB_NAMED(struct link, name)
static const struct bb_field link_fields[] = {
    JSON(metric),        JSON(direction), JSON(bytes),      JSON(from),  JSON(to),
    JSON(from_host),     JSON(to_host),   JSON(same_node),  JSON(round), JSON(iterations),
    JSON(start_barrier), JSON(time_us),   JSON(latency_us), JSON(gbps),  JSON(wrong),
    JSON(channels),      JSON(gpu_from),  JSON(gpu_to),     {0}};

static int save_link(struct p2p *p, const struct bb_p2p_run *run, int from, int to, const struct bb_stats *time_us,
                     const struct bb_p2p_finding *found)
{
    const struct bb_p2p_metric *f = &bb_p2p_metrics[run->kind];
    const int *node_of = p->session.world.node_of;
    const struct bb_telemetry_row *a = &p->ctx.findings[from].seen, *b = &p->ctx.findings[to].seen;
    const struct link link = {.metric = f->metric,
                              .direction = f->direction,
                              .bytes = run->bytes,
                              .from = from,
                              .to = to,
                              .from_host = p->session.world.hosts[from],
                              .to_host = p->session.world.hosts[to],
                              .round = p->round,
                              .iterations = p->options.iterations,
                              .start_barrier = !p->session.shared_gpu,
                              .same_node = node_of[from] == node_of[to],
                              .time_us = *time_us,
                              .latency_us = f->is_bandwidth ? NAN : link_value(run, time_us),
                              .gbps = f->is_bandwidth ? link_value(run, time_us) : NAN,
                              .wrong = found->checked ? (long long)found->wrong : -1,
                              .channels = a->choice.kind == BB_CHOICE_NONE ? -1 : a->choice.channels,
                              .gpu_from = bb_telemetry_gpu(a),
                              .gpu_to = bb_telemetry_gpu(b)};
    char what[64];

    snprintf(what, sizeof what, "rank %d to rank %d", from, to);
    return bb_result_put(&p->session, link_fields, &link, NULL, a->gpu_flags | b->gpu_flags, what);
}

/* Returns the verification result of the link between `from` and `to`. With messages in one direction only the
 * receiver verifies; otherwise the results of both ranks are combined. */
static struct bb_p2p_finding found_by(const struct p2p *p, const struct bb_p2p_run *run, int from, int to)
{
    struct bb_p2p_finding found = p->ctx.findings[to];

    if (!bb_p2p_metrics[run->kind].is_directed) {
        found.checked = found.checked && p->ctx.findings[from].checked;
        found.wrong += p->ctx.findings[from].wrong;
    }
    return found;
}

/* Remembers and reports wrong data of the link from `from` to `to`. Returns the verification result. */
static struct bb_p2p_finding judge_data(struct p2p *p, const struct bb_p2p_run *run, int from, int to)
{
    const struct bb_p2p_finding found = found_by(p, run, from, to);
    char size[BB_BYTES_TEXT];

    if (found.wrong > 0 && p->n_wrong++ == 0) {
        p->first_wrong[0] = from;
        p->first_wrong[1] = to;
    }
    if (found.wrong > 0 && p->session.world.rank == 0) {
        bb_progress_clear(&p->session.progress);
        (void)bb_err_job(BB_EDATA, "wrong data: %llu element%s of %s from rank %d (%s) to rank %d (%s): %s, %s",
                         found.wrong, bb_plural(found.wrong), bb_format_bytes(run->bytes, size), from,
                         p->session.world.hosts[from], to, p->session.world.hosts[to], bb_p2p_metrics[run->kind].metric,
                         bb_p2p_metrics[run->kind].direction);
    }
    return found;
}

/* Stores the value of the pair that was measured last in the matrix, unless the matrix has a better one. Only on rank 0. */
static struct bb_stats store_value(struct p2p *p, struct matrix *m, const struct bb_p2p_run *run, int from, int to)
{
    double *const cell = matrix_cell(p, m, from, to);
    struct bb_stats time_us;
    double value;

    bb_p2p_pair_samples(&p->ctx, from < to ? from : to, from < to ? to : from, p->samples);
    bb_stats_compute(p->samples, (size_t)p->options.repeats, &time_us);
    value = link_value(run, &time_us);
    *cell = bb_p2p_metrics[run->kind].is_bandwidth ? fmax(*cell, value) : fmin(*cell, value);
    if (!bb_p2p_metrics[run->kind].is_directed)
        *matrix_cell(p, m, to, from) = *cell;
    return time_us;
}

/* Adds the measurement of the pair (low, high), low < high, to the matrix and, as a result row, to the results. */
static int put_link(struct p2p *p, struct matrix *m, const struct bb_p2p_run *run, int low, int high)
{
    const int from = run->reversed ? high : low, to = run->reversed ? low : high;
    const struct bb_p2p_finding found = judge_data(p, run, from, to);
    struct bb_stats time_us;

    if (p->session.world.rank != 0)
        return 0;
    time_us = store_value(p, m, run, from, to);
    return save_link(p, run, from, to, &time_us, &found);
}

/* ---- measuring the rounds ---- */

static const char *directions_of(const struct bb_p2p_metric *f)
{
    return strcmp(f->direction, "both") == 0 ? "both directions" : "one direction";
}

static int measure_run(struct p2p *p, struct matrix *m, bool reversed)
{
    struct bb_world *w = &p->session.world;
    const struct bb_p2p_metric *f = &bb_p2p_metrics[m->run.kind];
    struct bb_p2p_run run = m->run;
    int rc;

    run.reversed = reversed;
    bb_world_reached(w, "bench p2p round %d of %d: %s, %s, %zu bytes", p->round + 1,
                     bb_pair_schedule_rounds(&p->pairing), f->metric, directions_of(f), run.bytes);
    bb_progress_show(&p->session.progress, "round %d of %d: %s %s", p->round + 1, bb_pair_schedule_rounds(&p->pairing),
                     f->metric, f->direction);
    TRY(bb_p2p_measure(&p->ctx, &run, bb_pair_schedule_partner(&p->pairing, p->round, w->rank)));
    bb_progress_advance(&p->session.progress, 1);
    for (int low = 0; low < w->size; low++) {
        int high = bb_pair_schedule_partner(&p->pairing, p->round, low);
        if (high > low)
            TRY(put_link(p, m, &run, low, high));
    }
out:
    return rc;
}

/* Returns the number of measurements of a matrix per round (set of pairs measured at the same time): 2 if the
 * directions from a to b and from b to a are measured separately, otherwise 1. */
static int runs_of(const struct matrix *m)
{
    return bb_p2p_metrics[m->run.kind].is_directed ? 2 : 1;
}

static int measure_rounds(struct p2p *p)
{
    const int rounds = bb_pair_schedule_rounds(&p->pairing);
    int runs = 0, rc = 0;

    for (int i = 0; i < p->n_matrices; i++)
        runs += runs_of(&p->matrices[i]);
    bb_progress_expect(&p->session.progress, rounds * (double)runs);
    for (p->round = 0; p->round < rounds; p->round++)
        for (int i = 0; i < p->n_matrices; i++)
            for (int reversed = 0; reversed < runs_of(&p->matrices[i]); reversed++)
                TRY(measure_run(p, &p->matrices[i], reversed));
out:
    return rc;
}

/* ---- measuring slow links again, alone ---- */

static struct bb_link_outliers links_of(const struct p2p *p, const struct matrix *m)
{
    const struct bb_p2p_metric *f = &bb_p2p_metrics[m->run.kind];

    return (struct bb_link_outliers){.ranks = p->session.world.size,
                                     .value = m->value,
                                     .node_of = p->session.world.node_of,
                                     .domain_of = p->domain_of,
                                     .symmetric = !f->is_directed,
                                     .higher_is_better = f->is_bandwidth,
                                     .factor = p->options.slow,
                                     .least = f->is_bandwidth ? f->bytes_factor * p->options.min_gbps : 0};
}

/* A matrix whose slow links are measured again. */
struct confirmation {
    struct p2p *p;
    struct matrix *m;
};

/* Measures the pair of ranks that rank 0 passes while all others are idle. The better of its two values counts. A negative
 * rank: measures nothing. */
static int measure_next(const struct confirmation *c, int pair[2])
{
    struct p2p *p = c->p;
    const int rank = p->session.world.rank;
    struct bb_p2p_run run = c->m->run;
    int rc;

    TRY(bb_world_bcast(&p->session.world, pair, 2 * sizeof *pair, 0));
    if (pair[0] < 0)
        return 0;
    run.reversed = pair[0] > pair[1];
    bb_progress_show(&p->session.progress, "rank %d to rank %d alone: %s %s", pair[0], pair[1],
                     bb_p2p_metrics[run.kind].metric, bb_p2p_metrics[run.kind].direction);
    TRY(bb_p2p_measure(&p->ctx, &run, rank == pair[0] ? pair[1] : rank == pair[1] ? pair[0] : -1));
    (void)judge_data(p, &run, pair[0], pair[1]);
    if (rank == 0)
        (void)store_value(p, c->m, &run, pair[0], pair[1]);
out:
    return rc;
}

/* Measures a slow link alone; if the rank has too many of them, the link is not judged: its value becomes NaN. */
static int confirm_link(void *arg, int from, int to, bool alone)
{
    const struct confirmation *c = arg;

    if (alone)
        return measure_next(c, (int[]){from, to});
    *matrix_cell(c->p, c->m, from, to) = NAN;
    if (!bb_p2p_metrics[c->m->run.kind].is_directed)
        *matrix_cell(c->p, c->m, to, from) = NAN;
    return 0;
}

/* Slow links of each rank that are measured again, the slowest first: all of a few slow ranks, but not half of the
 * links of a large job. */
enum { ALONE_PER_RANK = 32 };

/*
 * The pairs of a round may share a NIC or a switch, and then each of them is slow through no fault of its own. So a
 * link is called slow only if it is slow alone, too. The rows keep the time in the round; the matrices, slow links and
 * causes are those of the better time.
 */
static int confirm_slow_links(struct p2p *p, struct matrix *m)
{
    const struct bb_link_outliers links = links_of(p, m);
    struct confirmation c = {p, m};
    int pair[2] = {-1, -1}, rc = 0;

    bb_world_reached(&p->session.world, "bench p2p: slow links alone");
    if (p->session.world.rank == 0)
        TRY(bb_link_outliers_confirm(&links, ALONE_PER_RANK, confirm_link, &c, &m->suspected, &m->alone));
    do {
        TRY(measure_next(&c, pair));
    } while (pair[0] >= 0);
out:
    return rc;
}

/* ---- printing the matrices ---- */

static void print_head(const struct p2p *p)
{
    const int rounds = bb_pair_schedule_rounds(&p->pairing);
    FILE *out = p->session.out;

    bb_session_print_head(&p->session);
    if (!out)
        return;
    fprintf(
        out,
        "# time: %d operation%s back to back between CUDA events, slower rank of each pair, median of %d sample%s\n",
        p->options.iterations, bb_plural(p->options.iterations), p->options.repeats, bb_plural(p->options.repeats));
    if (p->pairing.one || p->session.world.size < 4)
        fprintf(out, "# one pair at a time\n");
    else
        fprintf(
            out,
            "# %d round%s of concurrent pairs, which may share network links (--schedule one: one pair at a time)\n",
            rounds, bb_plural(rounds));
    if (p->session.device.emulated)
        bb_print_emulated_note(out, "", "");
}

static void print_matrix(const struct p2p *p, const struct matrix *m)
{
    const struct bb_p2p_metric *f = &bb_p2p_metrics[m->run.kind];
    char size[BB_BYTES_TEXT];
    FILE *out = p->session.out;
    int n = p->session.world.size;

    fprintf(out, "#\n# %s, %s (%s)\n#  rank", f->title, bb_format_bytes(m->run.bytes, size), f->unit);
    for (int to = 0; to < n; to++)
        fprintf(out, " %8d", to);
    for (int from = 0; from < n; from++) {
        fprintf(out, "\n %6d", from);
        for (int to = 0; to < n; to++)
            if (isnan(*matrix_cell(p, m, from, to)))
                fprintf(out, " %8s", "-");
            else
                fprintf(out, " %8.2f", *matrix_cell(p, m, from, to));
    }
    fputc('\n', out);
}

enum { LABEL_TEXT = BB_BYTES_TEXT + 32 };

/* Writes the name of a matrix to text: metric, direction and message size, "bandwidth, one direction, 32 MiB". */
static const char *label_of(const struct matrix *m, char text[LABEL_TEXT])
{
    const struct bb_p2p_metric *f = &bb_p2p_metrics[m->run.kind];
    char size[BB_BYTES_TEXT];

    snprintf(text, LABEL_TEXT, "%s, %s, %s", f->metric, directions_of(f), bb_format_bytes(m->run.bytes, size));
    return text;
}

static const char *class_text(const struct p2p *p, bool same_node)
{
    if (p->nvlink_spans_nodes)
        return same_node ? "inside an NVLink domain" : "between NVLink domains";
    return same_node ? "inside a node" : "between nodes";
}

/* Prints a line for each class of links; without --full, which prints the matrix above it, with the name of the matrix. */
static void print_summary(const struct p2p *p, const struct matrix *m)
{
    const struct bb_p2p_metric *f = &bb_p2p_metrics[m->run.kind];
    const struct bb_link_outliers links = links_of(p, m);
    char label[LABEL_TEXT];

    if (p->session.detail)
        print_matrix(p, m);

    for (int same = 1; same >= 0; same--) {
        struct bb_stats sum;
        bb_link_outliers_summary(&links, same, &sum);
        if (sum.n > 0)
            fprintf(p->session.out, "# %s%s%s: min %.2f  median %.2f  max %.2f %s\n",
                    p->session.detail ? "" : label_of(m, label), p->session.detail ? "" : ", ", class_text(p, same),
                    sum.min, sum.p50, sum.max, f->unit);
    }
}

static json_t *matrix_json(const struct p2p *p, const struct matrix *m)
{
    const struct bb_p2p_metric *f = &bb_p2p_metrics[m->run.kind];
    json_t *rows = json_array();

    for (int from = 0; from < p->session.world.size; from++) {
        json_t *row = json_array();
        for (int to = 0; to < p->session.world.size; to++)
            json_array_append_new(row, bb_json_real(*matrix_cell(p, m, from, to)));
        json_array_append_new(rows, row);
    }
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "metric", f->metric, "direction", f->direction, "bytes",
                     (json_int_t)m->run.bytes, "unit", f->unit, "values", rows);
}

/* ---- reporting slow links ---- */

static const char *host_of_node(const struct bb_world *w, int node)
{
    for (int r = 0; r < w->size; r++)
        if (w->node_of[r] == node)
            return w->hosts[r];
    return "?";
}

static bool is_path(const struct bb_slow_link *l)
{
    return l->level == BB_LINK_PATH || l->level == BB_LINK_WAY;
}

static json_t *slow_json(const struct p2p *p, const struct matrix *m, const struct bb_slow_link *l)
{
    const struct bb_p2p_metric *f = &bb_p2p_metrics[m->run.kind];
    const struct bb_world *w = &p->session.world;
    const bool is_class = l->level == BB_LINK_CLASS, has_ranks = l->level <= BB_LINK_RANK;
    const int node = has_ranks ? w->node_of[l->from] : l->from;

    return json_pack("{s:s, s:o, s:o, s:o, s:s?, s:s?, s:b, s:s, s:s, s:I, s:o, s:o}", "level",
                     bb_link_level_names[l->level], "from", has_ranks ? json_integer(l->from) : json_null(), "to",
                     l->to < 0 || is_path(l) ? json_null() : json_integer(l->to), "node",
                     is_class ? json_null() : json_integer(node), "host", is_class ? NULL : host_of_node(w, node),
                     "pci", has_ranks ? p->session.devices[l->from].pci : NULL, "same_node", l->same_node, "metric",
                     f->metric, "direction", f->direction, "bytes", (json_int_t)m->run.bytes, "value",
                     bb_json_real(l->value), "median", bb_json_real(l->median));
}

enum { PART_TEXT = 2 * BB_HOST_TEXT + 64 };

/* Writes a pair, rank, node or path to text: "rank 0 (node0) to rank 5 (node2)", "rank 5 (node2, GPU 1, 0000:1b:00.0) or its NIC". */
static const char *part_text(const struct p2p *p, const struct matrix *m, const struct bb_slow_link *l,
                             char text[PART_TEXT])
{
    const struct bb_world *w = &p->session.world;
    char rank[BB_RANK_TEXT];

    if (l->level == BB_LINK_PAIR)
        snprintf(text, PART_TEXT, "rank %d (%s) %s rank %d (%s)", l->from, w->hosts[l->from],
                 bb_p2p_metrics[m->run.kind].is_directed ? "to" : "and", l->to, w->hosts[l->to]);
    else if (is_path(l))
        snprintf(text, PART_TEXT, l->level == BB_LINK_PATH ? "path between %s and %s" : "path from %s to %s",
                 host_of_node(w, l->from), host_of_node(w, l->to));
    else if (l->level == BB_LINK_RANK)
        snprintf(text, PART_TEXT, "%s%s", bb_session_rank_text(&p->session, l->from, rank),
                 l->same_node ? "" : " or its NIC");
    else
        snprintf(text, PART_TEXT, "%s %d (%s)", bb_link_level_names[l->level], l->from, host_of_node(w, l->from));
    return text;
}

static void print_slow(const struct p2p *p, const struct matrix *m, const struct bb_slow_link *l)
{
    const bool is_pair = l->level == BB_LINK_PAIR;
    char who[PART_TEXT], label[LABEL_TEXT];

    fprintf(p->session.out, "# slow: %s%s%s%s: %s: %.2f %s", is_pair ? "" : "all links ",
            is_pair ? "" : class_text(p, l->same_node), is_pair ? "" : " of ", part_text(p, m, l, who),
            label_of(m, label), l->value, bb_p2p_metrics[m->run.kind].unit);
    if (l->median != l->value) /* else all links are below --min-gbps */
        fprintf(p->session.out, ", ordinary links %s %.2f", class_text(p, l->same_node), l->median);
    fputc('\n', p->session.out);
}

/* Appends a value to an array of p->report. */
static void append(struct p2p *p, const char *key, json_t *value)
{
    json_array_append_new(json_object_get(p->report, key), value);
}

enum { PAIRS_SHOWN = 8 };

static void report_slow(void *arg, const struct bb_slow_link *l)
{
    struct p2p *p = arg;

    if (l->level == BB_LINK_PAIR || !p->is_slow[l->from][l->level]) {
        p->n_slow[l->level]++;
        p->is_slow[l->from][l->level] = true;
    }
    if (p->session.detail && (l->level != BB_LINK_PAIR || p->n_slow[BB_LINK_PAIR] <= PAIRS_SHOWN))
        print_slow(p, p->shown, l);
    append(p, "slow_links", slow_json(p, p->shown, l));
}

/* ---- reporting causes of slow links ---- */

enum { CAUSE_TEXT = 2 * BB_HOST_TEXT + 256 };

/* Writes a cause to text: "node 2 (node2): 12 of its 12 links between nodes are slow, 8 of them without a cause named above: 12.45
 * GB/s, other links 24.82". */
static const char *cause_text(const struct p2p *p, const struct cause *c, char text[CAUSE_TEXT])
{
    const struct bb_slow_link *what = &c->found.what;
    const char *unit = bb_p2p_metrics[c->matrix->run.kind].unit;
    char who[PART_TEXT], without[64] = "", others[32] = "";

    if (!isnan(what->median)) /* NaN: there are no others */
        snprintf(others, sizeof others, ", other links %.2f", what->median);
    if (c->found.explained < c->found.slow)
        snprintf(without, sizeof without, ", %d of them without a cause named above", c->found.explained);
    if (what->level == BB_LINK_CLASS)
        snprintf(text, CAUSE_TEXT, "all %d links %s are slow: %.2f %s", c->found.links, class_text(p, what->same_node),
                 what->value, unit);
    else if (what->level == BB_LINK_PAIR)
        snprintf(text, CAUSE_TEXT, "%s: the link %s is slow: %.2f %s%s", part_text(p, c->matrix, what, who),
                 class_text(p, what->same_node), what->value, unit, others);
    else
        snprintf(text, CAUSE_TEXT, "%s: %d of its %d links %s%s are slow%s: %.2f %s%s",
                 part_text(p, c->matrix, what, who), c->found.slow, c->found.links, class_text(p, what->same_node),
                 bb_p2p_metrics[c->matrix->run.kind].is_directed && what->level != BB_LINK_WAY ? " (one per direction)"
                                                                                               : "",
                 without, what->value, unit, others);
    return text;
}

static bool add_cause(void *arg, const struct bb_link_cause *found)
{
    struct p2p *p = arg;
    json_t *cause = slow_json(p, p->shown, &found->what);

    BB_GROW(p->causes, p->n_causes);
    p->causes[p->n_causes++] = (struct cause){*found, p->shown};
    json_object_set_new(cause, "other_node", is_path(&found->what) ? json_integer(found->what.to) : json_null());
    json_object_set_new(cause, "slow", json_integer(found->slow));
    json_object_set_new(cause, "links", json_integer(found->links));
    json_object_set_new(cause, "explained", json_integer(found->explained));
    append(p, "causes", cause);
    return true;
}

static void find_causes(struct p2p *p)
{
    for (int i = 0; i < p->n_matrices; i++) {
        const struct bb_link_outliers links = links_of(p, &p->matrices[i]);

        p->shown = &p->matrices[i];
        bb_link_outliers_causes(&links, add_cause, p);
    }
}

/* Returns whether an earlier matrix has the same cause: of a path that is slow in one direction, both directions are. */
static bool is_known_cause(const struct p2p *p, int i)
{
    const struct bb_slow_link *own = &p->causes[i].found.what;

    for (int k = 0; k < i; k++) {
        const struct bb_slow_link *known = &p->causes[k].found.what;

        if ((known->level == own->level && known->from == own->from && known->to == own->to &&
             known->same_node == own->same_node) ||
            (known->level == BB_LINK_WAY && own->level == BB_LINK_PATH && MIN(known->from, known->to) == own->from &&
             MAX(known->from, known->to) == own->to))
            return true;
    }
    return false;
}

enum { CAUSES_SHOWN = 8, CAUSES_BRIEF = 4 };

/* Prints the first different causes, each with the first matrix that shows it, below their number if there are more. */
static void print_causes(const struct p2p *p)
{
    const int most = p->session.detail ? CAUSES_SHOWN : CAUSES_BRIEF;
    char text[CAUSE_TEXT], label[LABEL_TEXT];
    int n = 0;

    for (int i = 0; i < p->n_causes; i++)
        n += !is_known_cause(p, i);
    if (p->session.out && n > most)
        fprintf(p->session.out, "# %d causes, listed in the results (--json, causes); the first %d:\n", n, most);
    for (int i = 0, shown = 0; p->session.out && i < p->n_causes && shown < most; i++)
        if (!is_known_cause(p, i) && ++shown)
            fprintf(p->session.out, "# cause: %s (%s)\n", cause_text(p, &p->causes[i], text),
                    label_of(p->causes[i].matrix, label));
}

/* Writes the first cause of a matrix and the number of its other causes to text; "no single cause" if it has none. */
static const char *causes_of(const struct p2p *p, const struct matrix *m, char text[CAUSE_TEXT])
{
    int n = 0;

    for (int i = p->n_causes - 1; i >= 0; i--)
        if (p->causes[i].matrix == m) {
            cause_text(p, &p->causes[i], text);
            n++;
        }
    if (n > 1)
        snprintf(text + strlen(text), CAUSE_TEXT - strlen(text), ", and %d more cause%s", n - 1, bb_plural(n - 1));
    return n > 0 ? text : "no single cause";
}

/* ---- reporting bimodal link classes (intra-node, inter-node) and the slowest links, checking --max-slow and --min-gbps ---- */

/* Writes the number of links of a group and their values to text: "24 links at 19.22 to 33.41". */
static const char *group_text(const struct bb_stats *group, char text[64])
{
    snprintf(text, 64, group->max > 1.01 * group->min ? "%zu links at %.2f to %.2f" : "%zu links at %.2f", group->n,
             group->min, group->max);
    return text;
}

static void report_modes(struct p2p *p, const struct matrix *m, bool same_node)
{
    const struct bb_p2p_metric *f = &bb_p2p_metrics[m->run.kind];
    const struct bb_link_outliers links = links_of(p, m);
    struct bb_link_modes k;
    char label[LABEL_TEXT], slower[64], faster[64];

    bb_link_outliers_modes(&links, same_node, &k);
    if (k.group[0].n == 0)
        return;
    if (p->session.detail)
        fprintf(p->session.detail, "# bimodal links %s: %s: %s, %s %s; links are compared with the %s\n",
                class_text(p, same_node), label_of(m, label), group_text(&k.group[0], slower),
                group_text(&k.group[1], faster), f->unit,
                k.ordinary ? "faster ones" : "slower ones: less than half of the links of these ranks are faster");
    append(p, "bimodal",
           json_pack("{s:s, s:s, s:I, s:b, s:[i,i], s:[f,f], s:s}", "metric", f->metric, "direction", f->direction,
                     "bytes", (json_int_t)m->run.bytes, "same_node", same_node, "links", (int)k.group[0].n,
                     (int)k.group[1].n, "medians", k.group[0].p50, k.group[1].p50, "compared_with",
                     k.ordinary ? "faster" : "slower"));
}

enum { SLOWEST = 5 };

static void report_slowest(struct p2p *p, const struct matrix *m)
{
    const struct bb_p2p_metric *f = &bb_p2p_metrics[m->run.kind];
    const struct bb_link_outliers links = links_of(p, m);
    struct bb_slow_link worst[SLOWEST];
    char label[LABEL_TEXT];
    int n = bb_link_outliers_worst(&links, worst, SLOWEST);

    if (p->session.detail && n > 0)
        fprintf(p->session.detail, "# slowest links, %s (%s):", label_of(m, label), f->unit);
    for (int i = 0; i < n; i++) {
        append(p, "slowest_links", slow_json(p, m, &worst[i]));
        if (p->session.detail)
            fprintf(p->session.detail, "%s %d%s%d %.2f (%.2f x median)", i ? "," : "", worst[i].from,
                    f->is_directed ? ">" : "-", worst[i].to, worst[i].value, worst[i].value / worst[i].median);
    }
    if (p->session.detail && n > 0)
        fputc('\n', p->session.detail);
}

/* Adds a check of the slow links of a matrix. Prints an error and remembers it if they exceed a limit, or if none was
 * measured, ranks share a GPU, or links are not judged. option: that sets the limit; NULL: no limit, slow links are a warning. */
static void judge_limit(struct p2p *p, const struct matrix *m, const struct bb_link_outliers *links, int most,
                        const char *option, const char *verdict)
{
    char label[LABEL_TEXT], causes[CAUSE_TEXT], count[96] = "", text[CAUSE_TEXT + LABEL_TEXT + 256] = "", name[128];
    char left[128];
    int slow[2], all[2], total;
    const int unjudged = m->suspected - m->alone;
    bool judged, fails;

    bb_link_outliers_count(links, slow, all);
    total = slow[0] + slow[1];
    judged = !p->session.shared_gpu && all[0] + all[1] > 0 && (unjudged == 0 || total > most);
    fails = option && (!judged || total > most);
    for (int same = 1; same >= 0; same--)
        if (slow[same] > 0)
            snprintf(count + strlen(count), sizeof count - strlen(count), "%s%d of %d links %s", *count ? " and " : "",
                     slow[same], all[same], class_text(p, same));
    snprintf(left, sizeof left,
             "%d links not judged, which share NICs or uplinks with other pairs; try: --schedule one", unjudged);
    if (!judged)
        snprintf(text, sizeof text, "%s: %s cannot be checked: %s", label_of(m, label), option ? option : "slow links",
                 p->session.shared_gpu  ? bb_session_sharing(&p->session)
                 : all[0] + all[1] == 0 ? "no link was measured"
                                        : left);
    else if (total > most)
        snprintf(text, sizeof text, "%s; %s: %s are %s", causes_of(p, m, causes), label_of(m, label), count, verdict);
    if (fails)
        (void)bb_err_job(BB_EBELOW, "%s", text);
    snprintf(name, sizeof name, "%s: %s", label_of(m, label), option ? option : "slow links");
    bb_checks_add(json_object_get(p->report, "checks"), &(struct bb_check){.check = name,
                                                                           .status = fails          ? BB_CHECK_FAIL
                                                                                     : !judged      ? BB_CHECK_UNKNOWN
                                                                                     : total > most ? BB_CHECK_WARN
                                                                                                    : BB_CHECK_OK,
                                                                           .measured = judged ? total : NAN,
                                                                           .expected = option ? most : NAN,
                                                                           .unit = "links",
                                                                           .reason = text});
    p->too_many = p->too_many || fails;
}

/* Checks --max-slow and --min-gbps for one matrix. */
static void judge_links(struct p2p *p, const struct matrix *m)
{
    struct bb_link_outliers links = links_of(p, m);
    char verdict[64];

    if (p->options.max_slow >= 0) {
        snprintf(verdict, sizeof verdict, "slow; --max-slow allows %d", p->options.max_slow);
        judge_limit(p, m, &links, p->options.max_slow, "--max-slow", verdict);
    } else {
        judge_limit(p, m, &links, 0, NULL, "slow");
    }
    if (links.least > 0) {
        snprintf(verdict, sizeof verdict, "below %g GB/s (%s)", links.least,
                 links.least > p->options.min_gbps ? "both directions: 2 x --min-gbps" : "--min-gbps");
        links.factor = 0; /* only the absolute limit */
        judge_limit(p, m, &links, 0, "--min-gbps", verdict);
    }
}

/* Prints how many links are slow only while other pairs run, and how many are not judged. */
static void print_confirmed(const struct p2p *p, const struct matrix *m)
{
    const struct bb_link_outliers links = links_of(p, m);
    char label[LABEL_TEXT];
    int slow[2], all[2];

    if (!p->session.out)
        return;
    bb_link_outliers_count(&links, slow, all);
    if (slow[0] + slow[1] < m->alone)
        fprintf(p->session.out,
                "# %s: %d of %d slow links are not slow alone: other pairs of their round share their NIC or network; "
                "normal if GPUs share a NIC or the fabric is oversubscribed, else suspect its uplinks%s\n",
                label_of(m, label), m->alone - slow[0] - slow[1], m->alone,
                p->session.world.nodes > 2 ? ": bench p2p --nodes names the leaf switch" : "");
    if (m->alone < m->suspected)
        fprintf(
            p->session.out,
            "# %s: %d links not judged, which were slow while other pairs ran: only the %d slowest of each rank were "
            "measured alone; try: --schedule one\n",
            label_of(m, label), m->suspected - m->alone, (int)ALONE_PER_RANK);
}

static bool has_slow_between_nodes(const struct p2p *p)
{
    bool found = false;

    for (int i = 0; i < p->n_causes; i++)
        found |= !p->causes[i].found.what.same_node;
    return found;
}

/* Prints which slow parts a comparison of the links with each other cannot show. */
static void print_limits(const struct p2p *p)
{
    const struct bb_world *w = &p->session.world;
    const char *metrics = strcmp(p->options.metrics, "latency") == 0 ? "--metrics all and " : "";

    if (w->nodes > 1 && !has_slow_between_nodes(p))
        fprintf(p->session.out,
                "# links are compared with each other: if %s slow, no link between nodes is slower than "
                "the others; try: %s--min-gbps with 0.9 x the rate of a NIC (--min-gbps 45 for 400 Gbit/s)\n",
                w->nodes == 2 ? "one of the two nodes is" : "all nodes but one are", metrics);
    else if (w->size == 2 && p->n_causes == 0)
        fprintf(p->session.out,
                "# one pair of ranks: there are no other links to compare it with; try: %s--min-gbps with 0.9 x the "
                "expected rate\n",
                metrics);
}

/* Prints how many links, ranks and nodes are slow. */
static void print_counts(const struct p2p *p, const char *limits)
{
    const int links = p->n_slow[BB_LINK_PAIR], ranks = p->n_slow[BB_LINK_RANK], nodes = p->n_slow[BB_LINK_NODE];
    FILE *out = p->session.out;

    fprintf(out, "# %d slow link%s %s", links, bb_plural(links), limits);
    if (p->n_matrices > 1)
        fprintf(out, " in %d matrices (for bandwidth in one direction, a pair of ranks has two links)", p->n_matrices);
    if (ranks > 0)
        fprintf(out, "; %d rank%s", ranks, bb_plural(ranks));
    if (nodes > 0)
        fprintf(out, "%s%d node%s", ranks > 0 ? " and " : "; ", nodes, bb_plural(nodes));
    if (ranks + nodes > 0)
        fprintf(out, " whose links between nodes, or inside the node, are all slow");
    fputc('\n', out);
}

/* Prints the slow links and their causes, or that there are none. */
static void print_links(const struct p2p *p)
{
    char limits[64];

    if (p->session.shared_gpu) {
        fprintf(p->session.out, "# not judged: %s\n", bb_session_sharing(&p->session));
        return;
    }
    snprintf(limits, sizeof limits, p->options.min_gbps > 0 ? "(--slow %g, --min-gbps %g)" : "(--slow %g)",
             p->options.slow, p->options.min_gbps);
    if (p->n_slow[BB_LINK_PAIR] + p->n_slow[BB_LINK_RANK] + p->n_slow[BB_LINK_NODE] == 0)
        fprintf(p->session.out, "# no slow link %s%s\n", limits,
                p->session.world.nodes < p->session.world.size
                    ? " in messages of NCCL; for copies between GPUs of a node, try: busbar bench copy"
                    : "");
    else
        print_counts(p, limits);
    if (p->options.min_gbps == 0)
        print_limits(p);
    print_causes(p);
}

/* Prints the verdict as the last lines. */
static void print_verdict(const struct p2p *p)
{
    const int *first = p->first_wrong;

    if (!p->session.out)
        return;
    print_links(p);
    if (p->n_wrong > 0)
        fprintf(p->session.out, "# WRONG DATA: %d result%s, first from rank %d (%s) to rank %d (%s)\n", p->n_wrong,
                bb_plural(p->n_wrong), first[0], p->session.world.hosts[first[0]], first[1],
                p->session.world.hosts[first[1]]);
}

static void report_slow_links(struct p2p *p)
{
    BB_NEW(p->is_slow, p->session.world.size);
    if (p->session.detail)
        fprintf(p->session.detail, "#\n");
    for (int i = 0; i < p->n_matrices; i++) {
        const struct bb_link_outliers links = links_of(p, &p->matrices[i]);

        p->shown = &p->matrices[i];
        bb_link_outliers_slow(&links, report_slow, p);
    }
    for (int i = 0; i < p->n_matrices; i++) {
        print_confirmed(p, &p->matrices[i]);
        report_modes(p, &p->matrices[i], true);
        report_modes(p, &p->matrices[i], false);
        report_slowest(p, &p->matrices[i]);
    }
    print_verdict(p);
    for (int i = 0; i < p->n_matrices; i++)
        judge_links(p, &p->matrices[i]);
}

/* Reports the matrices and the slow links. Runs on rank 0 after the last round. */
static int report_links(struct p2p *p)
{
    const char *key;
    json_t *value;
    int rc = 0;

    bb_progress_clear(&p->session.progress);
    p->report = json_pack("{s:s, s:i, s:[], s:[], s:[], s:[], s:[], s:[]}", "schedule", p->options.schedule, "rounds",
                          bb_pair_schedule_rounds(&p->pairing), "causes", "matrices", "slow_links", "slowest_links",
                          "bimodal", "checks");
    find_causes(p);
    if (p->session.detail)
        print_causes(p);
    for (int i = 0; i < p->n_matrices; i++) {
        append(p, "matrices", matrix_json(p, &p->matrices[i]));
        if (p->session.out)
            print_summary(p, &p->matrices[i]);
    }
    report_slow_links(p);
    json_object_foreach(p->report, key, value) TRY(bb_results_set(p->session.json, key, json_incref(value)));
out:
    return rc;
}

/* ---- starting and ending the run ---- */

static void make_matrices(struct p2p *p)
{
    size_t cells = (size_t)p->session.world.size * (size_t)p->session.world.size;

    BB_NEW(p->samples, p->options.repeats);
    for (int i = 0; p->session.world.rank == 0 && i < p->n_matrices; i++) {
        BB_NEW(p->matrices[i].value, cells);
        for (size_t k = 0; k < cells; k++)
            p->matrices[i].value[k] = NAN;
    }
}

static int find_nvlink_domains(struct p2p *p)
{
    struct bb_world *w = &p->session.world;
    int rc;
    struct bb_nvml_fabric *fabrics = bb_world_gather(w, &p->session.observer.nvml.fabric, sizeof *fabrics, &rc);

    if (rc == 0) {
        BB_NEW(p->domain_of, w->size);
        p->nvlink_spans_nodes = bb_nvml_domains(fabrics, w->node_of, w->size, p->domain_of);
    }
    free(fabrics);
    return rc;
}

static int make_context(struct p2p *p)
{
    struct bb_world *w = &p->session.world;
    const struct bb_comm_opts opts = {.blocking = true}; /* a nonblocking communicator would add the hand-over to
                                                            NCCL's helper thread to the latency */
    int rc;

    TRY(bb_session_check_memory(&p->session, bb_p2p_context_bytes(largest_message(p), p->session.memory),
                                "lower --bandwidth-sizes"));
    TRY(bb_comm_init(&p->comm, w, "world", NULL, w->size, &opts));
    TRY(bb_p2p_context_init(&p->ctx, &p->session, &p->options, &p->comm, largest_message(p)));
    make_matrices(p);
    TRY(find_nvlink_domains(p));
out:
    return rc;
}

static int run_p2p(struct p2p *p, int argc, char **argv)
{
    const struct bb_results_head head = {.schema = "busbar.bench/1", .argc = argc, .argv = argv};
    int rc;

    TRY(bb_session_begin(&p->session, &p->options.common, BB_SESSION_OBSERVED));
    TRY(bb_session_setup_gpus(&p->session, 0));
    if (p->session.world.size < 2)
        return BB_WORLD_ERR(&p->session.world, BB_EUSAGE,
                            "bench p2p requires at least 2 ranks, this run has 1; try: -g 2");
    p->pairing = (struct bb_pair_schedule){p->session.world.size, strcmp(p->options.schedule, "one") == 0};
    TRY(make_context(p));
    TRY(bb_session_open_results(&p->session, &head, &bb_bench_p2p_set, &p->options));
    print_head(p);
    TRY(measure_rounds(p));
    for (int i = 0; i < p->n_matrices && p->session.world.size >= 4 && !p->pairing.one; i++)
        TRY(confirm_slow_links(p, &p->matrices[i]));
    if (p->session.world.rank == 0)
        TRY(report_links(p));
    TRY(bb_world_bcast(&p->session.world, &p->too_many, sizeof p->too_many, 0));
    if (p->n_wrong > 0 && p->too_many &&
        p->session.world.rank == 0) /* the last line is the reason for the exit status */
        (void)bb_err_job(BB_EDATA, "%s", bb_err_record()->text);
    rc = p->n_wrong > 0 ? -BB_EDATA : p->too_many ? -BB_EBELOW : 0;
out:
    return rc;
}

int bb_bench_p2p_run(int argc, char **argv)
{
    struct p2p *p;
    int rc, end_rc = 0;

    BB_NEW(p, 1);
    rc = bb_opts_read(&bb_bench_p2p_set, &p->options, argc - 1, argv + 1);
    if (rc == 0) {
        choose_matrices(p);
        rc = run_p2p(p, argc, argv);
        if (bb_session_ends_on_all_ranks(&p->session, rc)) {
            bb_p2p_context_release(&p->ctx);
            end_rc = bb_comm_finalize(&p->comm);
        }
        rc = bb_session_release(&p->session, rc, end_rc);
    }
    for (int i = 0; i < p->n_matrices; i++)
        free(p->matrices[i].value);
    free(p->samples);
    free(p->is_slow);
    free(p->causes);
    free(p->domain_of);
    json_decref(p->report);
    free(p);
    return rc;
}
