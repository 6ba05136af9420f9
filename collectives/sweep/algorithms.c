/*
 * algorithms.c - after each row with NCCL's own choice, forces and measures the other algorithm/protocol pairs one by
 * one and ranks them. NCCL's own choice is the pair that NCCL reported on rank 0. A pair is forced if NCCL offers it on
 * all ranks, and counts as measured if all ranks reported that NCCL ran it.
 */
#include "collectives/sweep/algorithms.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/outfile.h"
#include "collectives/sweep/case_fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* NCCL's own choice and NCCL's cost table (estimated time of each algorithm/protocol pair), as one rank observed
 * them for one buffer placement (in or out of place). */
struct view {
    struct bb_choice choice;
    struct bb_tuner_costs costs;
};

/* ---- candidates: NCCL's choice and the algorithm/protocol pairs to force ---- */

/* Combines the choices and cost tables of all ranks and stores the result in *view on every rank: the choice of rank
 * 0, and for each algorithm/protocol pair the minimum cost over the ranks. A pair that any rank reports as
 * unavailable (negative cost) is therefore unavailable. */
static int agree_on_view(struct bb_world *world, struct view *view)
{
    int rc;
    struct view *all = bb_world_gather(world, view, sizeof *view, &rc);

    if (!all)
        return rc;
    *view = all[0];
    for (int r = 1; r < world->size; r++) {
        view->costs.known = view->costs.known && all[r].costs.known;
        for (int i = 0; i < BB_ALGORITHM_PROTOCOLS; i++)
            view->costs.us[i / BB_PROTOCOLS][i % BB_PROTOCOLS] =
                fminf(view->costs.us[i / BB_PROTOCOLS][i % BB_PROTOCOLS],
                      all[r].costs.us[i / BB_PROTOCOLS][i % BB_PROTOCOLS]);
    }
    free(all);
    return 0;
}

static bool pairs_equal(struct bb_algorithm_protocol a, struct bb_algorithm_protocol b)
{
    return a.algorithm == b.algorithm && a.protocol == b.protocol;
}

/* Fills a->rankings with NCCL's choices in the row `chosen` and with the other pairs, which are not measured yet. */
static int init_rankings(struct bb_algorithms *a, const struct bb_row *chosen)
{
    int rc = 0;

    for (int placement = 0; placement < BB_PLACEMENTS; placement++) {
        const struct bb_metrics *f = &chosen->metrics[placement];
        struct view view = {.choice = f->seen.choice, .costs = f->seen.costs};
        struct bb_ranking *c = &a->rankings[placement];

        *c = (struct bb_ranking){0};
        if (!chosen->measured[placement])
            continue;
        TRY(agree_on_view(a->ctx->world, &view));
        c->chosen = (struct bb_candidate){.what = bb_algorithm_protocol_of(view.choice.algorithm, view.choice.protocol),
                                          .ran = view.choice,
                                          .time_us = f->time_us,
                                          .model_us = f->model_us};
        for (int i = 0; i < BB_ALGORITHM_PROTOCOLS && view.costs.known; i++) {
            struct bb_algorithm_protocol what = {i / BB_PROTOCOLS, i % BB_PROTOCOLS};
            bool offered = view.costs.us[what.algorithm][what.protocol] >= 0;

            if (!pairs_equal(what, c->chosen.what))
                c->others[c->n_others++] = (struct bb_candidate){
                    .what = what, .status = offered ? BB_CANDIDATE_IGNORED : BB_CANDIDATE_NOT_OFFERED};
        }
    }
out:
    return rc;
}

/* ---- measurement of the forced algorithm/protocol pairs ---- */

/* Stores the measurement of a forced algorithm/protocol pair in *e. If NCCL ran another pair on any rank, marks the
 * row's buffer placement as not measured. */
static int resolve_candidate(struct bb_algorithms *a, struct bb_row *row, int placement, struct bb_candidate *e)
{
    const struct bb_metrics *f = &row->metrics[placement];
    const struct bb_choice *ran = &f->seen.choice;
    unsigned other = ran->kind != BB_CHOICE_COLLECTIVE ||
                     !pairs_equal(bb_algorithm_protocol_of(ran->algorithm, ran->protocol), e->what);
    int rc = bb_world_any(a->ctx->world, &other); /* true if any rank ran another algorithm/protocol pair */

    e->ran = *ran;
    e->time_us = f->time_us;
    e->model_us = f->model_us;
    e->status = other ? BB_CANDIDATE_IGNORED : f->wrong > 0 ? BB_CANDIDATE_WRONG : BB_CANDIDATE_MEASURED;
    row->measured[placement] = !other;
    return rc;
}

/* Forces an algorithm/protocol pair, or ends the forcing (NULL): by the configuration of each call where NCCL has one,
 * otherwise by the tuner plugin. */
static void force(struct bb_algorithms *a, const struct bb_algorithm_protocol *what)
{
    char name[32] = "";

    if (what) /* NCCL writes NVLSTREE_SIMPLE in configurations, but NVLS_TREE to profilers */
        snprintf(name, sizeof name, "%s_%s",
                 strcmp(bb_algorithms[what->algorithm], "NVLS_TREE") ? bb_algorithms[what->algorithm] : "NVLSTREE",
                 bb_protocols[what->protocol]);
    if (!a->native || !bb_native_select(a->native, what ? name : NULL))
        bb_tuner_force(what);
}

static int measure_forced(struct bb_algorithms *a, const struct bb_row *chosen, struct bb_algorithm_protocol what)
{
    struct bb_row row = {.c = chosen->c, .group = chosen->group, .first = chosen->first, .chosen = chosen};
    struct bb_candidate *e[BB_PLACEMENTS] = {NULL, NULL};
    int rc = 0;

    for (int placement = 0; placement < BB_PLACEMENTS; placement++) {
        struct bb_ranking *c = &a->rankings[placement];

        for (int i = 0; i < c->n_others; i++)
            if (pairs_equal(c->others[i].what, what) && c->others[i].status != BB_CANDIDATE_NOT_OFFERED)
                e[placement] = &c->others[i];
        row.wanted[placement] = e[placement] != NULL;
    }
    if (!row.wanted[BB_OUT_OF_PLACE] && !row.wanted[BB_IN_PLACE])
        return 0;
    force(a, &what);
    rc = a->measure(a->arg, &row);
    force(a, NULL);
    for (int placement = 0; placement < BB_PLACEMENTS && rc == 0; placement++)
        if (e[placement])
            rc = resolve_candidate(a, &row, placement, e[placement]);
    if (rc == 0 && (row.measured[BB_OUT_OF_PLACE] || row.measured[BB_IN_PLACE]))
        rc = a->report(a->arg, &row);
    return rc;
}

/* Measures NCCL's choice a second time if another algorithm/protocol pair was significantly faster. The other pairs
 * ran later than NCCL's choice, and the clock frequency of the GPU may have risen in the meantime. */
static int remeasure_choice(struct bb_algorithms *a, const struct bb_row *chosen)
{
    struct bb_row row = {.c = chosen->c, .group = chosen->group, .first = chosen->first, .chosen = chosen};
    int rc = 0;

    for (int placement = 0; placement < BB_PLACEMENTS; placement++)
        row.wanted[placement] = bb_ranking_judge(&a->rankings[placement]).verdict == BB_VERDICT_NOT_BEST;
    if (row.wanted[BB_OUT_OF_PLACE] || row.wanted[BB_IN_PLACE])
        rc = a->measure(a->arg, &row);
    for (int placement = 0; placement < BB_PLACEMENTS && rc == 0; placement++)
        if (row.wanted[placement])
            a->rankings[placement].again_us = row.metrics[placement].time_us;
    return rc;
}

/* ---- results of the rankings ---- */

static const char *pair_text(struct bb_algorithm_protocol what, char text[40])
{
    if (what.algorithm < 0 || what.protocol < 0)
        return "unknown";
    snprintf(text, 40, "%s %s", bb_algorithms[what.algorithm], bb_protocols[what.protocol]);
    return text;
}

/* Adds a line to the table's footer: NCCL's choice, the fastest algorithm/protocol pair, and the ratio of their
 * times. */
static void add_best_line(struct bb_algorithms *a, const char *placement, const struct bb_shown_case *of,
                          const struct bb_candidate *chosen, double chosen_us, const struct bb_outcome *o,
                          double best_us)
{
    char *before = a->best_text, choice[40], best[40];

    a->best_text = bb_format("%s# %11zu  %8s  %6s  %4d  %5s  %-21s  %9.2f  %-21s  %9.2f  %6.2f%s\n",
                             before ? before : "", of->bytes, of->dtype, of->redop, of->root, placement,
                             pair_text(chosen->what, choice), chosen_us, pair_text(o->best->what, best), best_us,
                             o->lost_factor, o->verdict == BB_VERDICT_NOT_BEST ? "*" : "");
    free(before);
}

static json_t *candidate_json(const struct bb_candidate *e, double time_us)
{
    const int algorithm = e->what.algorithm, protocol = e->what.protocol;

    return json_pack("{s:s?, s:s?, s:i, s:o, s:o}", "algorithm", algorithm < 0 ? NULL : bb_algorithms[algorithm],
                     "protocol", protocol < 0 ? NULL : bb_protocols[protocol], "channels", e->ran.channels, "time_us",
                     bb_json_real(time_us), "model_us", bb_json_real(e->model_us));
}

static json_t *not_measured_json(const struct bb_ranking *c)
{
    json_t *list = json_array();
    char ran[64];

    for (int i = 0; i < c->n_others; i++) {
        const struct bb_candidate *e = &c->others[i];
        bool ran_other = e->status == BB_CANDIDATE_IGNORED && e->ran.kind == BB_CHOICE_COLLECTIVE;

        snprintf(ran, sizeof ran, "%s %s", e->ran.algorithm, e->ran.protocol);
        if (e->status != BB_CANDIDATE_MEASURED)
            json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o}", "algorithm", bb_algorithms[e->what.algorithm],
                                                  "protocol", bb_protocols[e->what.protocol], "reason",
                                                  bb_candidate_status_names[e->status], "ran",
                                                  ran_other ? json_string(ran) : json_null()));
    }
    return list;
}

/* Returns whether both placements were measured, with the same choice and the same best pair. */
static bool placements_agree(const struct bb_algorithms *a, const struct bb_row *chosen)
{
    const struct bb_ranking *out = &a->rankings[BB_OUT_OF_PLACE], *in = &a->rankings[BB_IN_PLACE];

    return chosen->measured[BB_OUT_OF_PLACE] && chosen->measured[BB_IN_PLACE] &&
           pairs_equal(out->chosen.what, in->chosen.what) &&
           pairs_equal(bb_ranking_judge(out).best->what, bb_ranking_judge(in).best->what);
}

/* Keeps the largest significant gain of the run. */
static void keep_gain(struct bb_algorithms *a, const struct bb_shown_case *of, const struct bb_outcome *o,
                      const struct bb_candidate *chosen, double chosen_us, double best_us)
{
    char own[40], best[40], size[BB_BYTES_TEXT];

    a->ranked += o->verdict != BB_VERDICT_UNKNOWN;
    if (o->verdict != BB_VERDICT_NOT_BEST || o->lost_factor <= a->gain)
        return;
    a->gain = o->lost_factor;
    snprintf(a->gain_text, sizeof a->gain_text,
             "largest gain: %s, %s: %.2f us with %s, %.0f %% less than NCCL's choice (%s, %.2f us)", of->collective,
             bb_format_bytes(of->bytes, size), best_us, pair_text(o->best->what, best), 100 * (1 - best_us / chosen_us),
             pair_text(chosen->what, own), chosen_us);
}

const char *bb_algorithms_summary(const struct bb_algorithms *a)
{
    return a->gain_text[0] ? a->gain_text
           : a->ranked > 0 ? "no algorithm or protocol is significantly faster than NCCL's choice"
                           : NULL;
}

/* Ends the ranking of one buffer placement (in or out of place) of a row: updates the table's counts of verdicts,
 * the table's footer and the JSON array. */
static void finish_ranking(struct bb_algorithms *a, const struct bb_row *chosen, int placement)
{
    const struct bb_ranking *c = &a->rankings[placement];
    const struct bb_shown_case of = bb_show_case(&chosen->c, placement == BB_IN_PLACE, bb_bench_context_mode(a->ctx));
    struct bb_outcome o = bb_ranking_judge(c);
    double chosen_us = bb_ranking_choice_time(c)->p50, best_us;
    const bool alike = placements_agree(a, chosen);
    char *restricted;

    if (a->sharing)
        o = (struct bb_outcome){.verdict = BB_VERDICT_UNKNOWN, .best = &c->chosen, .lost_factor = NAN};
    best_us = o.best == &c->chosen ? chosen_us : o.best->time_us.p50;
    a->unjudged += c->n_others == 0;
    a->judged += o.verdict != BB_VERDICT_UNKNOWN;
    a->not_best += o.verdict == BB_VERDICT_NOT_BEST;
    for (int i = 0; i < c->n_others; i++)
        a->statuses[c->others[i].what.algorithm * BB_PROTOCOLS + c->others[i].what.protocol][c->others[i].status]++;
    if (a->ctx->world->rank != 0)
        return;
    keep_gain(a, &of, &o, &c->chosen, chosen_us, best_us);
    if (o.verdict != BB_VERDICT_UNKNOWN && (placement == BB_OUT_OF_PLACE || !alike))
        add_best_line(a,
                      alike                      ? "both"
                      : placement == BB_IN_PLACE ? "in"
                                                 : "out",
                      &of, &c->chosen, chosen_us, &o, best_us);
    if (!a->all)
        a->all = json_array();
    restricted = bb_json_restrictions(NULL, of.collective);
    json_array_append_new(
        a->all, json_pack("{s:s, s:I, s:s, s:s?, s:o, s:s, s:s, s:i, s:s, s:s?, s:o, s:o, s:o, s:o, s:o}", "collective",
                          of.collective, "bytes", (json_int_t)of.bytes, "dtype", of.dtype, "op", of.op, "root",
                          of.root >= 0 ? json_integer(of.root) : json_null(), "placement", of.placement, "mode",
                          of.mode, "cycle", a->cycle, "nccl_choice", bb_candidate_verdict_names[o.verdict],
                          "restricted_by", restricted, "chosen", candidate_json(&c->chosen, c->chosen.time_us.p50),
                          "chosen_again_us", c->again_us.n > 0 ? bb_json_real(c->again_us.p50) : json_null(), "best",
                          o.verdict != BB_VERDICT_UNKNOWN ? candidate_json(o.best, best_us) : json_null(),
                          "lost_factor", bb_json_real(o.lost_factor), "not_measured", not_measured_json(c)));
    free(restricted);
}

static int pair_index(struct bb_algorithm_protocol what)
{
    return what.algorithm < 0 || what.protocol < 0 ? -1 : what.algorithm * BB_PROTOCOLS + what.protocol;
}

/* Adds the significant gains of a ranking to the tuner file. */
static void add_gains(struct bb_algorithms *a, const struct bb_row *chosen, int placement)
{
    const struct bb_tuner_costs *seen = &chosen->metrics[placement].seen.costs;
    const struct bb_ranking *c = &a->rankings[placement];
    const struct bb_stats *own = bb_ranking_choice_time(c);
    struct bb_tuning_size size = {.coll = chosen->c.kind,
                                  .bytes = seen->bytes,
                                  .registered = seen->registered,
                                  .own = pair_index(c->chosen.what),
                                  .own_channels = c->chosen.ran.channels};

    if (c->n_others == 0)
        return;
    for (int i = 0; i < c->n_others; i++) {
        const struct bb_candidate *e = &c->others[i];

        size.channels[pair_index(e->what)] = e->ran.channels;
        if (e->status == BB_CANDIDATE_MEASURED && bb_significantly_faster(&e->time_us, own) && !a->sharing)
            size.gains[pair_index(e->what)] = own->p50 / e->time_us.p50;
    }
    a->tuning.ranks = seen->ranks;
    a->tuning.nodes = seen->nodes;
    bb_tuning_add(&a->tuning, &size);
}

static void add_tuned_case(struct bb_algorithms *a, const struct bb_row *chosen)
{
    struct bb_tuned_case *tuned;

    BB_GROW(a->tuned, a->n_tuned);
    tuned = &a->tuned[a->n_tuned++];
    tuned->c = chosen->c;
    memcpy(tuned->measured, chosen->measured, sizeof tuned->measured);
    for (int placement = 0; placement < BB_PLACEMENTS; placement++) {
        if (!chosen->measured[placement])
            continue;
        tuned->bytes = chosen->metrics[placement].seen.costs.bytes;
        add_gains(a, chosen, placement);
    }
}

int bb_algorithms_row(struct bb_algorithms *a, const struct bb_row *chosen)
{
    int rc;

    TRY(init_rankings(a, chosen));
    for (int i = 0; i < BB_ALGORITHM_PROTOCOLS; i++)
        TRY(measure_forced(a, chosen, (struct bb_algorithm_protocol){i / BB_PROTOCOLS, i % BB_PROTOCOLS}));
    TRY(remeasure_choice(a, chosen));
    for (int placement = 0; placement < BB_PLACEMENTS; placement++)
        if (chosen->measured[placement])
            finish_ranking(a, chosen, placement);
    if (a->tuning.min_gain > 0)
        add_tuned_case(a, chosen);
out:
    return rc;
}

/* ---- tuner file ---- */

/* Measures the pair with the highest gain and then NCCL's choice, the reverse of the first order. Without a significant
 * gain the pair is no candidate for this size any more. */
static int confirm(struct bb_algorithms *a, const struct bb_tuned_case *tuned, struct bb_tuning_size *size, int pair)
{
    struct bb_candidate e = {.what = {pair / BB_PROTOCOLS, pair % BB_PROTOCOLS}};
    struct bb_row forced = {.c = tuned->c}, own = {.c = tuned->c};
    int rc;

    memcpy(forced.wanted, tuned->measured, sizeof forced.wanted);
    memcpy(own.wanted, tuned->measured, sizeof own.wanted);
    force(a, &e.what);
    rc = a->measure(a->arg, &forced);
    force(a, NULL);
    TRY(rc);
    TRY(a->measure(a->arg, &own));
    for (int placement = 0; placement < BB_PLACEMENTS; placement++) {
        const struct bb_stats *time = &forced.metrics[placement].time_us, *before = &own.metrics[placement].time_us;

        if (!tuned->measured[placement])
            continue;
        TRY(resolve_candidate(a, &forced, placement, &e));
        if (e.status != BB_CANDIDATE_MEASURED || !bb_significantly_faster(time, before))
            size->gains[pair] = 0;
        else
            size->gains[pair] = fmin(size->gains[pair], before->p50 / time->p50);
    }
out:
    return rc;
}

/* Measures all gains again. Sets *dropped to the number of measurements that did not confirm a gain; other pairs are not
 * tried for these sizes. */
static int confirm_all(struct bb_algorithms *a, int *dropped)
{
    int rc = 0;

    *dropped = 0;
    for (size_t i = 0; i < a->n_tuned && rc == 0; i++) {
        struct bb_tuning_size *size = bb_tuning_find(&a->tuning, a->tuned[i].c.kind, a->tuned[i].bytes);
        const int pair = size ? bb_tuning_best(&a->tuning, size) : -1;

        if (pair < 0)
            continue;
        rc = confirm(a, &a->tuned[i], size, pair);
        if (size->gains[pair] >= a->tuning.min_gain)
            continue;
        memset(size->gains, 0, sizeof size->gains);
        (*dropped)++;
    }
    return rc;
}

static int save_tuner(const struct bb_algorithms *a, const char *path, const struct bb_tuning_rule *rules, size_t n,
                      int nccl)
{
    char note[200], version[BB_NCCL_VERSION_TEXT];
    struct bb_outfile file;
    int rc = bb_outfile_open(&file, path, "the tuner file");

    if (rc)
        return rc;
    snprintf(note, sizeof note, "NCCL %s, %s%s", bb_nccl_version_text(nccl, version), a->ctx->device->name,
             a->ctx->device->emulated ? ", emulated: no measurement of hardware" : "");
    bb_tuning_write(&a->tuning, rules, n, note, file.out);
    return bb_outfile_close(&file, "the tuner file", 0);
}

static json_t *rules_json(const struct bb_tuning_rule *rules, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:s, s:s, s:i, s:f}", "collective",
                                              bb_colls[rules[i].coll].name, "min_bytes", (json_int_t)rules[i].min_bytes,
                                              "max_bytes", (json_int_t)rules[i].max_bytes, "algorithm",
                                              bb_algorithms[rules[i].pair / BB_PROTOCOLS], "protocol",
                                              bb_protocols[rules[i].pair % BB_PROTOCOLS], "channels", rules[i].channels,
                                              "gain", rules[i].gain));
    return list;
}

static void print_tuner(const struct bb_algorithms *a, const char *path, size_t gains, int dropped, FILE *out)
{
    const double percent = 100 * (a->tuning.min_gain - 1);

    if (gains > 0)
        fprintf(out, "# tuner file: %s, %zu rule%s at least %g %% faster than NCCL's choice in two measurements", path,
                gains, bb_plural(gains), percent);
    else
        fprintf(out,
                "# tuner file: not written, nothing is significantly and at least %g %% faster than NCCL's choice%s",
                percent, access(path, F_OK) == 0 ? "; the existing file is kept" : "");
    fprintf(out, dropped ? " (%d not confirmed by the second)\n" : "\n", dropped);
}

int bb_algorithms_write_tuner(struct bb_algorithms *a, const char *path, int nccl, FILE *out,
                              struct bb_results *results)
{
    struct bb_tuning_rule *rules = NULL;
    size_t gains, n;
    int dropped, rc;

    TRY(confirm_all(a, &dropped));
    rules = bb_tuning_rules(&a->tuning, &gains, &n);
    if (gains > 0 && a->ctx->world->rank == 0)
        rc = save_tuner(a, path, rules, n, nccl);
    TRY(bb_world_agree(a->ctx->world, rc, "the tuner file"));
    if (out)
        print_tuner(a, path, gains, dropped, out);
    if (results)
        rc = bb_results_set(results, "tuner_file",
                            json_pack("{s:s?, s:s, s:f, s:i, s:o}", "path", gains > 0 ? path : NULL, "format",
                                      a->tuning.ncclx ? "ncclx" : "nccl", "min_gain_percent",
                                      100 * (a->tuning.min_gain - 1), "not_confirmed", dropped, "rules",
                                      rules_json(rules, gains)));
out:
    free(rules);
    return rc;
}

/* ---- footer of a table ---- */

static const char *const status_texts[BB_CANDIDATE_COUNT] = {
    [BB_CANDIDATE_NOT_OFFERED] = "# not measured, not offered by NCCL: ",
    [BB_CANDIDATE_IGNORED] = "# not measured, NCCL ran another algorithm or protocol: ",
    [BB_CANDIDATE_WRONG] = "# not ranked, wrong data: "};

static unsigned total_of(const struct bb_algorithms *a, int i)
{
    unsigned all = 0;

    for (int f = 0; f < BB_CANDIDATE_COUNT; f++)
        all += a->statuses[i][f];
    return all;
}

/* Returns whether all protocols of an algorithm have the same given status (enum bb_candidate_status) in all
 * rankings of the current table. */
static bool same_for_all_protocols(const struct bb_algorithms *a, int algorithm, enum bb_candidate_status status)
{
    for (int p = 0; p < BB_PROTOCOLS; p++) {
        int i = algorithm * BB_PROTOCOLS + p;
        if (a->statuses[i][status] == 0 || a->statuses[i][status] < total_of(a, i))
            return false;
    }
    return true;
}

/* Prints a line with the algorithm/protocol pairs that have a given status (enum bb_candidate_status), for example
 * "# not measured, not offered by NCCL: NVLS, PAT LL (in 2 of 4 results)". */
static void print_not_measured(const struct bb_algorithms *a, FILE *out, enum bb_candidate_status status)
{
    const char *before = status_texts[status];
    char text[40];

    for (int i = 0; i < BB_ALGORITHM_PROTOCOLS; i++) {
        const struct bb_algorithm_protocol what = {i / BB_PROTOCOLS, i % BB_PROTOCOLS};
        bool all_protocols = same_for_all_protocols(a, what.algorithm, status);

        if (a->statuses[i][status] == 0 || (all_protocols && what.protocol > 0))
            continue;
        fprintf(out, "%s%s", before, all_protocols ? bb_algorithms[what.algorithm] : pair_text(what, text));
        if (a->statuses[i][status] < total_of(a, i))
            fprintf(out, " (in %u of %u results)", a->statuses[i][status], total_of(a, i));
        before = ", ";
    }
    if (*before == ',')
        fputc('\n', out);
}

static const char *why_no_verdict(const struct bb_algorithms *a)
{
    int measured = 0;

    for (int i = 0; i < BB_ALGORITHM_PROTOCOLS; i++)
        measured += a->statuses[i][BB_CANDIDATE_MEASURED] > 0;
    return a->sharing     ? a->sharing
           : measured < 2 ? "no other algorithm or protocol was measured"
                          : "too few samples for confidence intervals, try: --repeats 6";
}

static void print_table(const struct bb_algorithms *a, FILE *out)
{
    const json_t *last =
        json_array_get(a->all, json_array_size(a->all) - 1); /* all rows of a table are of one operation */
    const char *restricted = json_string_value(json_object_get(last, "restricted_by"));

    if (restricted)
        fprintf(
            out,
            "# %s restricts the choice: NCCL's choice below is not its own, and other algorithms are not measured\n",
            restricted);
    if (a->unjudged > 0)
        fprintf(
            out,
            "# not ranked: %d result%s, for which NCCL reports no algorithm (sends and receives, one rank, no bytes, "
            "or special kernels)\n",
            a->unjudged, bb_plural(a->unjudged));
    if (a->judged > 0)
        fprintf(out,
                "# NCCL's choice was significantly slower than the best (*) in %d of %d results (95 %% intervals)\n"
                "# %11s  %8s  %6s  %4s  %5s  %-21s  %9s  %-21s  %9s  %6s\n",
                a->not_best, a->judged, "size (B)", "type", "redop", "root", "place", "NCCL's choice", "(us)", "best",
                "(us)", "lost");
    if (a->best_text)
        fputs(a->best_text, out);
    if (a->judged == 0 && a->unjudged == 0)
        fprintf(out, "# no verdict on NCCL's choice: %s\n", why_no_verdict(a));
    for (int status = BB_CANDIDATE_MEASURED + 1; status < BB_CANDIDATE_COUNT; status++)
        print_not_measured(a, out, (enum bb_candidate_status)status);
}

/* Writes a copy of the JSON array a->all to the results, because the caller continues to add to the array. */
int bb_algorithms_table(struct bb_algorithms *a, FILE *out, struct bb_results *results)
{
    if (out)
        print_table(a, out);
    free(a->best_text);
    a->best_text = NULL;
    a->judged = a->not_best = a->unjudged = 0;
    memset(a->statuses, 0, sizeof a->statuses);
    return results && a->all ? bb_results_set(results, "algorithms", json_deep_copy(a->all)) : 0;
}

void bb_algorithms_release(struct bb_algorithms *a)
{
    json_decref(a->all);
    free(a->best_text);
    free(a->tuning.sizes);
    free(a->tuned);
    *a = (struct bb_algorithms){0};
}
