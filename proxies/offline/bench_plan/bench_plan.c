/* bench_plan.c - predicts the table of bench; see bench_plan.h. Each bb_field array below defines some columns of
 * the table: their headings, text and JSON, as in bench_report.c. */
#include "proxies/offline/bench_plan/bench_plan.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/cli/report_header.h"
#include "bootstrap/results/results.h"
#include "collectives/sweep/case_fields.h"
#include "proxies/offline/bench_plan/case_time.h"
#include "proxies/offline/bench_plan/published.h"
#include "proxies/simulation/machine/fabric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The values of one operation in a table row, either in place or out of place. */
struct shown {
    struct bb_shown_case of;
    struct bb_case_choice choice;
};

#define MAX_SAMPLES_PER_ROW 30e6 /* maximum ranks x jitter samples per message size; this takes one to two seconds */

static json_t *predicted_flag(const void *shown)
{
    (void)shown;
    return json_pack("[s]", "predicted");
}

#define SHOWS(name) BB_SHOWS(struct shown, name)
static const struct bb_field choice_fields[] = {
    {"algorithm", "algorithm", "", 11, 0, SHOWS(choice.algorithm), .none = "-"},
    {"protocol", "protocol", "", 8, 0, SHOWS(choice.protocol), .none = "-"},
    {.key = "channels"},
    {"flags", .value = predicted_flag},
    {0},
};

/* The field lists of a line in order: the case, then time and metrics out of place, the same in place, and NCCL's
 * choice, which is missing if the cluster profile has no section "nccl". */
static const struct bb_field *const lists[] = {bb_case_fields, bb_time_fields,   bb_metric_fields,
                                               bb_time_fields, bb_metric_fields, choice_fields};
enum { LISTS = sizeof(lists) / sizeof(lists[0]) };

static int count_lists(const struct bb_bench_plan *p)
{
    return p->cluster->n_variants > 0 ? LISTS : LISTS - 1;
}

/* ---- prediction of one table row (one message size) ---- */

struct table {
    const struct bb_bench_plan *plan;
    FILE *out;
    json_t *rows;
    double *samples_us; /* [plan->samples] predicted times of the current table row in us */
    double busbw_sum;
    int busbw_n;
    bool is_used[BB_NCCL_VARIANTS + 1][2]; /* of bb_cluster_unmeasured, by one collective */
    bool any_uses[BB_NCCL_VARIANTS + 1][2];
};

/* Returns whether the calibration measured this collective with the variant on these ranks: its times are then those of
 * the measured curve, even if they are too few to determine the values of the variant. */
static bool is_on_curve(const struct bb_bench_plan *p, const struct bb_case *c, int variant, int nodes)
{
    const int found = bb_cluster_find_curve(p->cluster, c->kind, p->ranks, nodes);
    const struct bb_measured_curve *curve = &p->cluster->measured[found];

    for (int i = 0; found < p->cluster->n_measured && i < curve->n; i++)
        if (variant >= 0 && curve->variant[i] == variant + 1)
            return true;
    return false;
}

static int predict_row(struct table *t, const struct bb_case *c, struct shown *s)
{
    const struct bb_bench_plan *p = t->plan;
    const int nodes = bb_cluster_nodes(p->cluster, p->ranks);
    json_t *row;
    int rc;

    TRY(bb_case_time_us(p->cluster, p->conditions, c, t->samples_us, p->samples, &s->choice));
    bb_stats_compute(t->samples_us, (size_t)p->samples, &s->of.time_us);
    bb_case_bandwidths(c, s->of.time_us.p50, &s->of.algbw_gbps, &s->of.busbw_gbps);
    if (p->ranks > 1 && !is_on_curve(p, c, s->choice.variant, nodes))
        t->is_used[s->choice.variant >= 0 ? s->choice.variant : BB_NCCL_VARIANTS][nodes > 1] = true;
    if (isfinite(s->of.busbw_gbps)) {
        t->busbw_sum += s->of.busbw_gbps;
        t->busbw_n++;
    }
    if (t->rows) {
        row = json_object();
        bb_table_json(row, bb_case_fields, s);
        bb_table_json(row, bb_time_fields, s);
        bb_table_json(row, bb_metric_fields, s);
        bb_table_json(row, choice_fields, s);
        json_array_append_new(t->rows, row);
    }
out:
    return rc;
}

/* Writes one table row with the out-of-place time and the in-place time. A time is N/A if the user has not requested
 * this buffer placement or if the operation does not support it. */
static int write_row(void *arg, const struct bb_case *out_of_place)
{
    struct table *t = arg;
    const struct bb_sweep *sweep = t->plan->sweep;
    const bool wanted[] = {sweep->out_of_place, sweep->in_place};
    struct bb_line line = {.out = t->out, .widths = bb_case_widths, .none = "N/A"};
    struct shown s[2];
    const struct shown *of[LISTS] = {&s[0], &s[0], &s[0], &s[1], &s[1]};
    int rc = 0;

    for (int in_place = 0; in_place < 2; in_place++) {
        struct bb_case c = *out_of_place;

        c.in_place = in_place;
        s[in_place] = (struct shown){.of = bb_show_case(&c, in_place, "stream")};
        if (wanted[in_place] && bb_case_possible(&c))
            TRY(predict_row(t, &c, &s[in_place]));
    }
    of[LISTS - 1] = &s[*s[1].choice.algorithm ? 1 : 0];
    for (int l = 0; t->out && l < count_lists(t->plan); l++)
        bb_line_row(&line, lists[l], of[l]);
    if (t->out)
        bb_line_end(&line);
out:
    return rc;
}

/* ---- the whole table ---- */

static void print_heading(const struct bb_bench_plan *p, FILE *out, int coll)
{
    struct bb_line line = {.out = out, .widths = bb_case_widths};

    fputs("#\n", out);
    bb_print_case_title(out, coll, NULL);
    fprintf(out, "#\n");
    bb_print_placements(out, bb_case_widths, 0);
    for (int units = 0; units <= 1; units++) {
        for (int l = 0; l < count_lists(p); l++)
            bb_line_heading(&line, lists[l], units);
        bb_line_end(&line);
    }
}

static void write_accuracy(struct table *t, int coll, char text[BB_PUBLISHED_TEXT])
{
    const struct bb_bench_plan *p = t->plan;
    size_t smallest = p->sweep->min_bytes;

    for (int i = 0; i < p->sweep->sizes.n; i++)
        smallest = i == 0 || p->sweep->sizes.bytes[i] < smallest ? p->sweep->sizes.bytes[i] : smallest;
    bb_collective_accuracy_text(p->cluster, (enum bb_coll_kind)coll, p->ranks, smallest, bb_sweep_largest(p->sweep),
                                t->is_used, text);
    if (p->conditions->slow.n > 0)
        snprintf(text + strlen(text), BB_PUBLISHED_TEXT - strlen(text), " (of plans without --slow)");
    json_array_append_new(p->accuracy, json_string(text));
    for (int v = 0; v <= BB_NCCL_VARIANTS; v++)
        for (int inter = 0; inter < 2; inter++)
            t->any_uses[v][inter] |= t->is_used[v][inter];
}

static int write_collective(struct table *t, int coll)
{
    char accuracy[BB_PUBLISHED_TEXT];
    int rc;

    memset(t->is_used, 0, sizeof(t->is_used));
    if (!bb_coll_possible((enum bb_coll_kind)coll, t->plan->ranks)) {
        if (t->out)
            fprintf(t->out, "#\n# %s: the number of ranks is not a power of 2, skipping\n", bb_colls[coll].name);
        write_accuracy(t, coll, accuracy);
        return 0;
    }
    t->busbw_sum = t->busbw_n = 0;
    if (t->out)
        print_heading(t->plan, t->out, coll);
    rc = bb_sweep_each(t->plan->sweep, coll, t->plan->ranks, write_row, t);
    if (rc == 0 && t->out && t->busbw_n > 0)
        fprintf(t->out, "# Avg bus bandwidth    : %g\n", t->busbw_sum / t->busbw_n);
    write_accuracy(t, coll, accuracy);
    if (rc == 0 && t->out && t->plan->ranks > 1)
        fprintf(t->out, "# accuracy: %s\n", accuracy);
    return rc;
}

static void print_head(const struct bb_bench_plan *p, FILE *out)
{
    char nodes[BB_NODES_TEXT], placement[BB_PLACEMENT_TEXT];

    bb_fabric_placement_text(p->cluster, placement);
    bb_print_report_header(out, p->argc, p->argv);
    fprintf(out, "# predicted for %s (modelled, not measured): %d rank%s on %s%s%s\n", p->cluster->name, p->ranks,
            bb_plural(p->ranks), bb_cluster_nodes_text(p->cluster, p->ranks, nodes), *placement ? "; " : "", placement);
    fprintf(out, "# time: duration of one operation when all ranks arrive together. 1 GB/s = 1e9 bytes/s\n");
    if (p->ranks == 1)
        fprintf(out, "# one rank: NCCL only copies memory, bus bandwidth does not apply\n");
    bb_slow_print(&p->conditions->slow, "# ", out);
    if (p->conditions->jitter > 0)
        fprintf(out,
                "# jitter: the time that each rank contributes to an operation varies by %g%%; times are medians of %d "
                "samples (seed %d), the distribution is in the JSON (--json)\n",
                100 * p->conditions->jitter, p->samples, (int)p->conditions->seed);
}

int bb_bench_plan_validate(const struct bb_bench_plan *p)
{
    const struct bb_alltoallv_counts *alltoallv_counts = &p->sweep->alltoallv_counts;

    for (int i = 0; i < p->sweep->n_colls; i++)
        if (bb_colls[p->sweep->colls[i]].flags & BB_COLL_ROOTED && p->sweep->root >= p->ranks)
            return bb_err(BB_EUSAGE, "root %d (-r) of %s is not a rank: ranks are 0 to %d", p->sweep->root,
                          bb_colls[p->sweep->colls[i]].name, p->ranks - 1);
    if (alltoallv_counts->bytes && alltoallv_counts->n != p->ranks)
        return bb_err(BB_EUSAGE, "--matrix has %d ranks, but --ranks is %d; try: --ranks %d", alltoallv_counts->n,
                      p->ranks, alltoallv_counts->n);
    if (p->sweep->has_alltoallv && p->ranks > BB_ALLTOALLV_RANKS)
        return bb_err(BB_EUSAGE, "alltoallv on %d ranks, expected at most %d; try: --ranks %d", p->ranks,
                      BB_ALLTOALLV_RANKS, BB_ALLTOALLV_RANKS);
    if (p->conditions->slow.n > 0 && p->ranks > BB_SLOW_RANKS)
        return bb_err(BB_EUSAGE, "%s on %d ranks, expected at most %d with --slow; try: --ranks %d",
                      bb_colls[p->sweep->colls[0]].name, p->ranks, BB_SLOW_RANKS, BB_SLOW_RANKS);
    if ((double)p->ranks * p->samples > MAX_SAMPLES_PER_ROW)
        return bb_err(
            BB_EUSAGE, "--jitter: %d samples on %d ranks exceed the limit of %.0f random numbers per row; try: %s %d",
            p->samples, p->ranks, MAX_SAMPLES_PER_ROW, p->ranks > MAX_SAMPLES_PER_ROW ? "--ranks" : "--samples",
            (int)(p->ranks > MAX_SAMPLES_PER_ROW ? MAX_SAMPLES_PER_ROW : MAX_SAMPLES_PER_ROW / p->ranks));
    return 0;
}

int bb_bench_plan_run(const struct bb_bench_plan *p, FILE *out, json_t *rows)
{
    struct table table = {.plan = p, .out = out, .rows = rows};
    int rc = 0;

    BB_NEW(table.samples_us, p->samples);
    if (out)
        print_head(p, out);
    for (int i = 0; i < p->sweep->n_colls && rc == 0; i++)
        rc = write_collective(&table, p->sweep->colls[i]);
    bb_cluster_warn_unmeasured(p->cluster, table.any_uses);
    free(table.samples_us);
    return rc;
}

static json_t *predicted_json(const struct bb_bench_plan *p)
{
    json_t *o = json_pack("{s:s, s:o}", "cluster", p->cluster->name, "slow", bb_slow_json(&p->conditions->slow));

    json_object_set(o, "accuracy", p->accuracy);
    if (p->conditions->jitter > 0)
        json_object_set_new(o, "jitter",
                            json_pack("{s:f, s:i, s:i}", "deviation", p->conditions->jitter, "seed",
                                      (int)p->conditions->seed, "samples", p->samples));
    return o;
}

json_t *bb_bench_plan_json(const struct bb_bench_plan *p, json_t *options, json_t *rows)
{
    json_t *root =
        json_pack("{s:s, s:s, s:o, s:o, s:i, s:i, s:o, s:o}", "schema", "busbar.plan/1", "busbar", BUSBAR_VERSION,
                  "command", bb_json_words(p->argc, p->argv), "options", options, "ranks", p->ranks, "nodes",
                  bb_cluster_nodes(p->cluster, p->ranks), "predicted", predicted_json(p), "results", rows);

    bb_results_set_end(root, 0, NULL);
    return root;
}
