/* report.c - prints the best layouts as a table, explains why the first is the fastest, and counts the rejected
 * layouts; also writes the same results as JSON. */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/results/table.h"
#include "proxies/offline/layouts/layouts.h"
#include "proxies/offline/layouts/penalty.h"
#include "proxies/offline/plan/forecast.h"
#include "proxies/workloads/transformer/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const reason_keys[] = {
#define KEY(reason, key, text) key,
    BB_REJECTION_LIST(KEY)};
static const char *const reason_texts[] = {
#define TEXT(reason, key, text) text,
    BB_REJECTION_LIST(TEXT)};

/* The components into which the time of a training step is divided, such as pipeline bubble. name: in the printed
 * text; key: in the JSON output. */
static const struct part {
    const char *name, *key;
} parts[] = {{"compute", NULL}, /* JSON: compute_us includes launch_wait_us */
             {"waits for launches by the host", "launch_wait_us"},
             {"exposed transfers", "exposed_transfer_us"},
             {"pipeline bubble", "bubble_us"},
             {"waiting for peers", "exposed_waiting_us"},
             {"idle", "idle_us"}};
enum { PARTS = sizeof(parts) / sizeof(parts[0]) };

static double part_ns(const struct bb_layout_row *r, int part)
{
    /* the parts of an extrapolated step do not add up exactly */
    const double idle_ns = r->step_ns - r->compute_ns - r->transfer_ns - r->bubble_ns - r->waiting_ns;
    const double ns[PARTS] = {r->compute_ns - r->launch_wait_ns,
                              r->launch_wait_ns,
                              r->transfer_ns,
                              r->bubble_ns,
                              r->waiting_ns,
                              fmax(0, idle_ns)};

    return ns[part];
}

/* ---- the fields of a layout ---- */

struct shown {
    int index, recompute_layers;   /* recompute_layers: -1 for all */
    int first_layers, last_layers; /* -1: not chosen by the search */
    /* modules, pipeline_layout: NULL: not chosen by the search */
    const char *schedule, *recompute, *modules, *pipeline_layout, *sync;
    char schedule_text[32], batch_text[32], recompute_text[24];
    bool sequence_parallel, tp_comm_overlap, overlap_param_gather, precision_aware;
    double tokens_per_s, tokens_per_s_per_gpu, tflops_per_gpu, compute, launches, exposed,
        bubble; /* the last four: fractions */
    double model_flop_utilisation, model_flop_utilisation_causal, peak_tflops;
    const char *flops_note, *peak_type;
    struct bb_layout_row of;
};

static struct shown show_layout(const struct bb_layouts *found, int i)
{
    const struct bb_layout_row *r = &found->rows[i];
    const struct bb_layout_choice *c = &r->choice;
    struct shown s = {.index = i + 1,
                      .recompute_layers = c->recompute_layers > 0 ? c->recompute_layers : -1,
                      .schedule = bb_schedule_names[c->schedule],
                      .recompute = bb_recompute_names[c->recompute],
                      .modules = c->modules[0] ? found->rows[i].choice.modules : NULL,
                      .first_layers = c->first_layers ? c->first_layers : -1,
                      .last_layers = c->last_layers ? c->last_layers : -1,
                      .pipeline_layout = c->pipeline_layout[0] ? found->rows[i].choice.pipeline_layout : NULL,
                      .sync = bb_sync_names[c->sync],
                      .sequence_parallel = c->tp > 1,
                      .tokens_per_s = r->tokens / (r->step_ns / 1e9),
                      .tokens_per_s_per_gpu = r->tokens / (r->step_ns / 1e9) / found->gpus,
                      .tflops_per_gpu = r->flops / (r->step_ns * 1e3) / found->gpus,
                      .tp_comm_overlap = r->tp_comm_overlap,
                      .overlap_param_gather = r->overlap_param_gather,
                      .precision_aware = r->precision_aware,
                      .compute = (r->compute_ns - r->launch_wait_ns) / r->step_ns,
                      .launches = r->launch_wait_ns / r->step_ns,
                      .exposed = (r->transfer_ns + r->waiting_ns) / r->step_ns,
                      .bubble = r->bubble_ns / r->step_ns,
                      .model_flop_utilisation = r->utilisation,
                      .model_flop_utilisation_causal = r->utilisation * r->causal_share,
                      .peak_tflops = isnan(r->utilisation) ? NAN : found->peak_tflops,
                      .peak_type = isnan(r->utilisation) ? NULL : found->peak_type,
                      .flops_note = r->flops_note,
                      .of = *r};

    snprintf(s.schedule_text, sizeof(s.schedule_text), " %s", s.schedule);
    if (c->vpp > 1)
        snprintf(s.schedule_text, sizeof(s.schedule_text), " %.12s %d", s.schedule, c->vpp);
    snprintf(s.batch_text, sizeof(s.batch_text), "%2d x %d", c->batch, c->micro_batches);
    snprintf(s.recompute_text, sizeof(s.recompute_text), "%s", s.modules ? "modules" : s.recompute);
    if (c->recompute_layers > 0)
        snprintf(s.recompute_text, sizeof(s.recompute_text), "%s %d", s.recompute, c->recompute_layers);
    return s;
}

#define SHOWS(name) BB_SHOWS(struct shown, name)
static const struct bb_field fields[] = {
    {NULL, "", "", 3, 0, SHOWS(index)},
    {"tp", "tp", "", 4, 0, SHOWS(of.choice.tp)},
    {"cp", "cp", "", 3, 0, SHOWS(of.choice.cp)},
    {"ep", "ep", "", 3, 0, SHOWS(of.choice.ep)},
    {"pp", "pp", "", 4, 0, SHOWS(of.choice.pp)},
    {"dp", "dp", "", 5, 0, SHOWS(of.choice.dp)},
    {"variants", "layouts", "fit", 8, 0, SHOWS(of.variants)},
    {"vpp", SHOWS(of.choice.vpp)},
    BB_NAMED(struct shown, schedule),
    {NULL, " schedule", "", 14, 0, SHOWS(schedule_text), .form = BB_FORM_LEFT},
    {NULL, "batch", "", 10, 0, SHOWS(batch_text), .form = BB_FORM_LEFT},
    {"micro_batch_size", SHOWS(of.choice.batch)},
    {"micro_batches", SHOWS(of.choice.micro_batches)},
    BB_NAMED(struct shown, sequence_parallel),
    BB_NAMED(struct shown, tp_comm_overlap),
    BB_NAMED(struct shown, overlap_param_gather),
    BB_NAMED(struct shown, precision_aware),
    BB_NAMED(struct shown, recompute),
    {NULL, "recompute", "", 9, 0, SHOWS(recompute_text), .form = BB_FORM_LEFT},
    {"dp_sync", "dp-sync", "", 11, 0, SHOWS(sync), .form = BB_FORM_LEFT},
    {"memory_bytes", "memory", "", 9, 0, BB_SHOWS_WHOLE(struct shown, of.bytes), .form = BB_FORM_BYTES},
    {"step_us", "step", NULL, 10, 0, BB_SHOWS_NS(struct shown, of.step_ns)},
    {"penalty", "penalty", "", 7, 1, SHOWS(of.penalty), .form = BB_FORM_PERCENT},
    {NULL, "comp.", "", 6, 1, SHOWS(compute), .form = BB_FORM_PERCENT},
    {NULL, "launch", "waits", 6, 1, SHOWS(launches), .form = BB_FORM_PERCENT},
    {NULL, "exp.", "comm.", 6, 1, SHOWS(exposed), .form = BB_FORM_PERCENT},
    {NULL, "bubble", "", 6, 1, SHOWS(bubble), .form = BB_FORM_PERCENT},
    {"compute_us", BB_SHOWS_NS(struct shown, of.compute_ns)},
    BB_NAMED(struct shown, tokens_per_s),
    {"tokens_per_s_per_gpu", "tokens/s", "/GPU", 8, 0, SHOWS(tokens_per_s_per_gpu), .form = BB_FORM_ROUNDED},
    BB_NAMED(struct shown, tflops_per_gpu),
    BB_NAMED(struct shown, model_flop_utilisation),
    BB_NAMED(struct shown, model_flop_utilisation_causal),
    BB_NAMED(struct shown, flops_note),
    {"recompute_num_layers", SHOWS(recompute_layers)},
    {"recompute_modules", SHOWS(modules)},
    {"decoder_first_pipeline_num_layers", SHOWS(first_layers)},
    {"decoder_last_pipeline_num_layers", SHOWS(last_layers)},
    {"pipeline_layout", SHOWS(pipeline_layout)},
    {0},
};
static const struct bb_field best_fields[] = {
    {NULL, "# layout 1: step ", "", 0, 0, BB_SHOWS_NS(struct shown, of.step_ns)},
    {NULL, ", ", " tokens per second", 0, 0, SHOWS(tokens_per_s), .form = BB_FORM_ROUNDED},
    {NULL, ", memory ", "", 0, 0, BB_SHOWS_WHOLE(struct shown, of.bytes), .form = BB_FORM_BYTES},
    {NULL, "; ", " TFLOP/s per GPU", 0, 0, SHOWS(tflops_per_gpu), .form = BB_FORM_ROUNDED},
    {NULL, " and MFU ", "", 0, 1, SHOWS(model_flop_utilisation), .form = BB_FORM_PERCENT},
    {NULL, " with attention in full (Megatron-LM paper), ", " with causal attention (newer Megatron-LM)", 0, 1,
     SHOWS(model_flop_utilisation_causal), .form = BB_FORM_PERCENT},
    {NULL, "; of ", " TFLOP/s", 0, 5, SHOWS(peak_tflops), .form = BB_FORM_GENERAL},
    {NULL, " (", ")", 0, 0, SHOWS(peak_type)},
    {NULL, "; ", "", 0, 0, SHOWS(flops_note)},
    {0},
};
static const struct bb_field jitter_fields[] = {
    {"p50_step_us", "p50", NULL, 10, 0, BB_SHOWS_NS(struct shown, of.p50_ns)},
    {"p95_step_us", "p95", NULL, 10, 0, BB_SHOWS_NS(struct shown, of.p95_ns)},
    {0},
};

#define SEARCH(name) BB_SHOWS(struct bb_layouts, name)
static const struct bb_field search_fields[] = {
    {"evaluated", "# layouts: ", " considered", 0, 0, SEARCH(evaluated)},
    {"fitting", ", ", " within GPU memory", 0, 0, SEARCH(fitting)},
    {"refined", "; of these simulated: ", " with few micro-batches", 0, 0, SEARCH(refined)},
    {"predicted", ", then the best ", " in full", 0, 0, SEARCH(n)},
    {0},
};

/* ---- text output ---- */

static void print_table(const struct bb_layouts *found, int top, FILE *out)
{
    const bool jitter = found->rows[0].p50_ns > 0;
    const struct bb_time_unit unit = bb_rounded_time_unit(found->rows[0].step_ns / 1e3);
    struct bb_line line = {.out = out, .gap = " ", .time = &unit};

    for (int units = 0; units < 2; units++) {
        bb_line_heading(&line, fields, units);
        if (jitter && !units)
            bb_line_heading(&line, jitter_fields, false);
        bb_line_end(&line);
    }
    for (int i = 0; i < found->n && i < top; i++) {
        const struct shown s = show_layout(found, i);

        bb_line_row(&line, fields, &s);
        if (s.of.p50_ns > 0)
            bb_line_row(&line, jitter_fields, &s);
        bb_line_end(&line);
    }
}

/* Prints by how much each component of a layout's step time differs from that of the best layout, for example
 * "layout 2 takes 1 ms more (+1.2%): pipeline bubble +0.8 ms, ...". The component with the largest difference is
 * printed first. */
static void print_difference(const struct bb_layout_row *best, const struct bb_layout_row *other, const char *name,
                             FILE *out)
{
    bool printed[PARTS] = {false};
    char time[BB_ROUNDED_TEXT];
    int shown = 0;

    fprintf(out, "#   %s takes %s %s (%+.1f%%)%s:", name,
            bb_format_rounded_time(fabs(other->step_ns - best->step_ns) / 1e3, time),
            other->step_ns < best->step_ns ? "less" : "more", 100 * (other->step_ns / best->step_ns - 1),
            other->p50_ns > 0 ? " without jitter" : "");
    for (int k = 0; k < PARTS; k++) {
        int max = -1;

        for (int part = 0; part < PARTS; part++)
            if (!printed[part] && (max < 0 || fabs(part_ns(other, part) - part_ns(best, part)) >
                                                  fabs(part_ns(other, max) - part_ns(best, max))))
                max = part;
        printed[max] = true;
        if (fabs(part_ns(other, max) - part_ns(best, max)) >= 0.05e6)
            fprintf(out, "%s %s %s%s", shown++ ? "," : "", parts[max].name,
                    part_ns(other, max) > part_ns(best, max) ? "+" : "",
                    bb_format_rounded_time((part_ns(other, max) - part_ns(best, max)) / 1e3, time));
    }
    fputs(shown ? "\n" : " all parts are equal\n", out);
}

/* Prints the step, its parts and the command of the best layout. */
static void print_best(const struct bb_layouts *found, const char *command, FILE *out)
{
    const struct bb_layout_row *best = found->rows;
    const struct shown shown = show_layout(found, 0);
    const struct bb_time_unit unit = bb_rounded_time_unit(best->step_ns / 1e3);
    const char *graphs =
        found->accepts_graph ? "; another layout may then be the fastest: search again with --graph" : "";

    bb_line_sentence(&(struct bb_line){.out = out, .time = &unit}, best_fields, &shown);
    fprintf(out, "\n#   why:");
    for (int part = 0; part < PARTS; part++)
        if (part == 0 || part_ns(best, part) >= 0.0005 * best->step_ns)
            fprintf(out, "%s %s %.1f%%", part ? "," : "", parts[part].name, 100 * part_ns(best, part) / best->step_ns);
    fprintf(out, "\n#   command:%s\n", command);
    if (found->host && *found->host)
        fprintf(out, "#   host-bound: %s%s\n", found->host, *found->experts ? "" : graphs);
    if (found->experts && *found->experts)
        fprintf(out, "#   slow kernels: %s%s\n", found->experts, graphs);
}

static void print_slow(const struct bb_layouts *found, int top, FILE *out)
{
    char time[BB_ROUNDED_TEXT];

    for (int i = 0; i < found->n && i < top && i < 4 && found->rows[i].baseline_ns > 0; i++) {
        const double more_ns = found->rows[i].step_ns - found->rows[i].baseline_ns;

        fprintf(out, "%s layout %d %s (%+.1f%%)", i ? "," : "#   time added by the injected parts:", i + 1,
                bb_format_rounded_time(more_ns / 1e3, time), 100 * more_ns / found->rows[i].baseline_ns);
    }
    fputs(found->rows[0].baseline_ns > 0 ? "\n" : "", out);
}

static void print_rejected(const struct bb_layouts *found, FILE *out)
{
    fprintf(out, "\n# sequence parallelism if tp > 1; options that do not select the parallel layout, such as "
                 "--grad-dtype, are not "
                 "searched\n# rejected:\n");
    for (int r = 0; r < BB_REJECTION_REASONS; r++)
        if (found->rejected[r] > 0)
            fprintf(out, "#   %10lld  %s\n", found->rejected[r], reason_texts[r]);
}

/* Returns whether a layout leaves less than 5 % of the memory free. */
static bool barely_fits(const struct bb_layouts *found, const struct bb_layout_row *row)
{
    return row->bytes > BB_SAFE_MEMORY * found->gpu_bytes;
}

/* Returns whether a layout needs more memory if some experts get more tokens: it stores activations of experts that other
 * ranks have tokens for. */
static bool depends_on_load(const struct bb_layouts *found, const struct bb_layout_row *row)
{
    const struct bb_layout_choice *c = &row->choice;
    const char *moe = strstr(found->given_modules ? found->given_modules : c->modules, "moe");

    while (moe && moe[3] != '\0' && moe[3] != ',')
        moe = strstr(moe + 1, "moe");
    return found->assumes_equal_load && c->ep > 1 && !moe &&
           !(c->recompute == BB_RECOMPUTE_FULL && c->recompute_layers == 0);
}

static bool chose_optimizer(const struct bb_layouts *found, const struct bb_layout_row *row)
{
    (void)found;
    return row->choice.precision_aware;
}

/* Prints "layout 1", "layouts 1, 3 and 5" or "layouts 1 to 3" after `title`. listed: [n] indices of rows */
static void print_numbers(const char *title, const int *listed, int n, FILE *out)
{
    fprintf(out, "%s: layout%s ", title, bb_plural((unsigned)n));
    if (n > 2 && listed[n - 1] - listed[0] == n - 1) {
        fprintf(out, "%d to %d", listed[0] + 1, listed[n - 1] + 1);
        return;
    }
    for (int i = 0; i < n; i++)
        fprintf(out, "%s%d", i == 0 ? "" : i < n - 1 ? ", " : " and ", listed[i] + 1);
}

/* Lists the layouts for which `is` returns true. Returns whether there are any. */
static bool print_list(const struct bb_layouts *found, int top, const char *title,
                       bool (*is)(const struct bb_layouts *, const struct bb_layout_row *), FILE *out)
{
    int *listed, n = 0;

    BB_NEW(listed, found->n);
    for (int i = 0; i < found->n && i < top; i++)
        if (is(found, &found->rows[i]))
            listed[n++] = i;
    if (n > 0) {
        print_numbers(title, listed, n, out);
        fputc('\n', out);
    }
    free(listed);
    return n > 0;
}

/* Prints which layouts need more memory with unequal load of the experts. */
static void print_load(const struct bb_layouts *found, int top, FILE *out)
{
    if (!print_list(found, top,
                    "# memory assumes that all experts get equally many tokens; in training some get more, which needs "
                    "more memory "
                    "in every layer (--moe-imbalance predicts it; with --recompute selective --recompute-modules "
                    "layernorm,moe only one layer needs more)",
                    depends_on_load, out) &&
        found->assumes_equal_load)
        fputs("# memory assumes that all experts get equally many tokens; in these layouts, more tokens for some "
              "experts need more memory in one layer at most\n",
              out);
}

enum { CHOICE_TEXT = BB_PIPE_LAYOUT_TEXT + 64 };

static void modules_text(const struct bb_layout_choice *c, char text[CHOICE_TEXT])
{
    snprintf(text, CHOICE_TEXT, "%s", c->modules);
}

/* Writes the options of uneven stages that the search chose; empty: none. */
static void stages_text(const struct bb_layout_choice *c, char text[CHOICE_TEXT])
{
    text[0] = '\0';
    if (c->pipeline_layout[0])
        snprintf(text, CHOICE_TEXT, "--pipeline-layout '%s'", c->pipeline_layout);
    else if (c->first_layers)
        snprintf(text, CHOICE_TEXT, "--decoder-first-pipeline-num-layers %d --decoder-last-pipeline-num-layers %d",
                 c->first_layers, c->last_layers);
}

/* Lists the texts of options of layouts, each with its layouts. */
static void print_texts(const struct bb_layouts *found, int top, const char *title,
                        void (*text_of)(const struct bb_layout_choice *, char *), FILE *out)
{
    char text[CHOICE_TEXT], other[CHOICE_TEXT];
    bool any = false;
    int *listed;

    BB_NEW(listed, found->n);
    for (int i = 0; i < found->n && i < top; i++) {
        int n = 0;

        text_of(&found->rows[i].choice, text);
        for (int k = 0; k < found->n && k < top && text[0]; k++) {
            text_of(&found->rows[k].choice, other);
            if (strcmp(other, text) == 0)
                listed[n++] = k;
        }
        if (n == 0 || listed[0] < i)
            continue;
        fprintf(out, "%s ", any ? ";" : title);
        print_numbers(text, listed, n, out);
        any = true;
    }
    free(listed);
    fputs(any ? "\n" : "", out);
}

/* Prints the reason of the penalty of a layout. The penalty of 0 has one if layouts are compared with penalties. */
static void print_penalty(const struct bb_layouts *found, const struct bb_layout_row *row, const char *name, FILE *out)
{
    char text[200];

    bb_layouts_penalty_text(&row->choice, &found->subject, text, sizeof(text));
    fprintf(out, "penalty of %s, %.1f%%: %s", name, 100 * row->penalty, text);
}

static bool is_unpublished(const struct bb_layouts *found, const struct bb_layout_row *row)
{
    return !bb_layouts_is_published(&row->choice, &found->subject);
}

static void print_penalties(const struct bb_layouts *found, int top, FILE *out)
{
    const char *time = found->rows[0].p50_ns > 0 ? "p50" : "step";
    bool any = false;

    for (int i = 0; i < found->n && i < top; i++)
        any |= found->rows[i].penalty > 0;
    if (any) {
        fprintf(out,
                "# sorted by %s + penalty: how much longer than predicted published steps with such a layout took "
                "(--explain "
                "lists them)",
                time);
        if (!print_list(found, top, "; without a published step, the penalty is the error of all other forecasts",
                        is_unpublished, out))
            fputc('\n', out);
    } else if (found->rows[0].p50_ns > 0)
        fputs("# sorted by p50\n", out);
}

void bb_layouts_print(const struct bb_layouts *found, const char *command, int top, int hidden, bool full, FILE *out)
{
    char have[BB_BYTES_TEXT], samples[BB_THOUSANDS_TEXT], tokens[BB_THOUSANDS_TEXT];

    fprintf(out, ": %s samples (%s tokens) per step, %.0f%% of the %s per GPU stay free (--memory-margin)\n",
            bb_format_thousands(found->rows[0].samples, samples), bb_format_thousands(found->rows[0].tokens, tokens),
            100 * (1 - found->usable_bytes / found->gpu_bytes), bb_format_bytes((size_t)found->gpu_bytes, have));
    print_best(found, command, out);
    print_slow(found, top, out);
    print_table(found, top, out);
    for (int i = 1; full && i < found->n && i < top && i < 4; i++) {
        char name[32];

        snprintf(name, sizeof(name), "layout %d", i + 1);
        print_difference(&found->rows[0], &found->rows[i], name, out);
    }
    print_texts(found, top, "# --recompute-modules", modules_text, out);
    print_texts(found, top, "# pp does not divide the layers:", stages_text, out);
    print_penalties(found, top, out);
    print_list(found, top, "# added, since few layouts fit without: --use-precision-aware-optimizer", chose_optimizer,
               out);
    print_list(found, top, "# " BB_MAY_NOT_FIT, barely_fits, out);
    print_load(found, top, out);
    bb_table_sentence(out, search_fields, found);
    if (full)
        print_rejected(found, out);
    else {
        fputs("; --full prints also ", out);
        if (hidden > 0)
            fprintf(out, "%d more layout%s, ", hidden, bb_plural(hidden));
        fputs("the commands of all layouts, their differences and the reasons of rejection\n", out);
    }
}

static bool are_same(const struct bb_layout_row *one, const struct bb_layout_row *other)
{
    return bb_layouts_are_of_one_grid(&one->choice, &other->choice) &&
           bb_layouts_ranked_ns(one) == bb_layouts_ranked_ns(other);
}

/* Returns the place of a layout among the best of each grid, without jitter; 0: worse than all that were simulated in
 * full. is_row: out: the layout is one of them */
static int place_of(const struct bb_layouts *found, const struct bb_layout_row *row, bool *is_row)
{
    int better = 0;

    *is_row = false;
    for (int i = 0; i < found->n; i++) {
        better += bb_layouts_ranked_ns(&found->rows[i]) < bb_layouts_ranked_ns(row);
        *is_row |= are_same(&found->rows[i], row);
    }
    return better < found->n ? better + 1 : 0;
}

void bb_layouts_print_explained(const struct bb_layouts *found, const struct bb_layouts *explained, const char *given,
                                const char *command, int top, FILE *out)
{
    const struct bb_layout_row *row = explained->rows, *best = found->rows;
    bool is_row;
    const int place = place_of(found, row, &is_row);
    char time[BB_ROUNDED_TEXT], bytes[BB_BYTES_TEXT], best_bytes[BB_BYTES_TEXT];

    fprintf(out, "# --explain \"%s\": step %s, memory %s (layout 1: %s), ", given,
            bb_format_rounded_time(row->step_ns / 1e3, time), bb_format_bytes((size_t)row->bytes, bytes),
            bb_format_bytes((size_t)best->bytes, best_bytes));
    if (place > 0) {
        fprintf(out, "%s row %d of the table%s", is_row ? "is" : "would be", place,
                best->p50_ns > 0 ? " without --jitter" : "");
        if (place > top)
            fprintf(out, " with --top %d", place);
    } else
        fprintf(out, found->n > 1 ? "worse than the %d best layouts" : "worse than the best layout", found->n);
    if (explained->fitting > 1)
        fprintf(out, "; the best of %lld such layouts that fit", explained->fitting);
    fprintf(out, "\n#   command:%s\n", command);
    if (place != 1)
        print_difference(best, row, "this layout", out);
    if (found->penalized) {
        fputs("#   ", out);
        print_penalty(found, row, "this layout", out);
        if (!are_same(row, best)) {
            fputs("; ", out);
            print_penalty(found, best, "layout 1", out);
        }
        fputc('\n', out);
    }
    for (int i = 0; i < found->n; i++)
        if (bb_layouts_are_of_one_grid(&found->rows[i].choice, &row->choice) &&
            bb_layouts_ranked_ns(&found->rows[i]) < bb_layouts_ranked_ns(row))
            fprintf(out,
                    "#   layout %d has the same tp, cp, ep, pp and dp, and is better: schedule %s, vpp %d, micro-batch "
                    "size %d, recompute %s%s%s, "
                    "dp-sync %s\n",
                    i + 1, bb_schedule_names[found->rows[i].choice.schedule], found->rows[i].choice.vpp,
                    found->rows[i].choice.batch, bb_recompute_names[found->rows[i].choice.recompute],
                    found->rows[i].choice.modules[0] ? " " : "", found->rows[i].choice.modules,
                    bb_sync_names[found->rows[i].choice.sync]);
}

/* ---- JSON output ---- */

static json_t *row_json(const struct bb_layouts *found, int i)
{
    const struct shown s = show_layout(found, i);
    json_t *o = bb_table_object(fields, &s);

    for (int part = 0; part < PARTS; part++)
        if (parts[part].key)
            json_object_set_new(o, parts[part].key, json_real(part_ns(&s.of, part) / 1e3));
    if (s.of.p50_ns > 0)
        bb_table_json(o, jitter_fields, &s);
    if (s.of.baseline_ns > 0)
        json_object_set_new(o, "baseline_step_us", json_real(s.of.baseline_ns / 1e3));
    return o;
}

json_t *bb_layouts_explained_json(const struct bb_layouts *found, const struct bb_layouts *explained)
{
    json_t *o = row_json(explained, 0);
    bool is_row;
    const int place = place_of(found, explained->rows, &is_row);

    json_object_set_new(o, "place", place ? json_integer(place) : json_null());
    return o;
}

json_t *bb_layouts_json(const struct bb_layouts *found, int top)
{
    json_t *rows = json_array(), *rejected = json_object(), *object;

    for (int i = 0; i < found->n && i < top; i++)
        json_array_append_new(rows, row_json(found, i));
    for (int r = 0; r < BB_REJECTION_REASONS; r++)
        json_object_set_new(rejected, reason_keys[r], json_integer(found->rejected[r]));
    object = bb_table_object(search_fields, found);
    json_object_set_new(object, "rejected", rejected);
    json_object_set_new(object, "available_bytes", json_integer((json_int_t)found->gpu_bytes));
    json_object_set_new(object, "layouts", rows);
    return object;
}
