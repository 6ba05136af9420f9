/* report.c - prints the best layouts as a table, explains why the first is the fastest, and counts the rejected
 * layouts; also writes the same results as JSON. */
#include "bootstrap/base/units.h"
#include "bootstrap/results/results.h"
#include "proxies/offline/layouts/layouts.h"
#include "proxies/workloads/transformer/memory.h"

#include <math.h>

#define RECOMPUTE_TEXT 24

static const char *const reason_keys[] = {
#define KEY(reason, key, text) key,
    BB_REJECTION_LIST(KEY)};
static const char *const reason_texts[] = {
#define TEXT(reason, key, text) text,
    BB_REJECTION_LIST(TEXT)};

/* Returns the text for the recomputation of a layout: "none", "selective", "full", or "full 3" if full recomputation
 * applies to 3 layers of each model chunk. */
static const char *recompute_text(const struct bb_layout_choice *c, char text[RECOMPUTE_TEXT])
{
    if (c->recompute_layers > 0)
        snprintf(text, RECOMPUTE_TEXT, "%s %d", bb_recompute_names[c->recompute], c->recompute_layers);
    return c->recompute_layers > 0 ? text : bb_recompute_names[c->recompute];
}

static double tokens_rate(const struct bb_layouts *found, const struct bb_layout_row *r)
{
    return r->tokens / (r->step_ns / 1e9) / found->gpus;
}

/* The components into which the time of a training step is divided, such as pipeline bubble. name: in the printed
 * text; key: in the JSON output. */
static const struct part {
    const char *name, *key;
} parts[] = {{"compute", "compute_us"},
             {"exposed transfers", "exposed_transfer_us"},
             {"pipeline bubble", "bubble_us"},
             {"waiting for peers", "exposed_waiting_us"},
             {"idle", "idle_us"}};
enum { PARTS = sizeof(parts) / sizeof(parts[0]) };

static double part_ns(const struct bb_layout_row *r, int part)
{
    const double ns[PARTS] = {r->compute_ns, r->transfer_ns, r->bubble_ns, r->waiting_ns,
                              r->step_ns - r->compute_ns - r->transfer_ns - r->bubble_ns - r->waiting_ns};

    return ns[part];
}

/* ---- text output ---- */

static void print_row(const struct bb_layouts *found, const struct bb_layout_row *r, int index, FILE *out)
{
    const struct bb_layout_choice *c = &r->choice;
    char bytes[BB_BYTES_TEXT], time[BB_TIME_TEXT], p95[BB_TIME_TEXT], schedule[24], again[RECOMPUTE_TEXT];

    if (c->vpp > 1)
        snprintf(schedule, sizeof(schedule), "%.12s %d", bb_schedule_names[c->schedule], c->vpp);
    else
        snprintf(schedule, sizeof(schedule), "%s", bb_schedule_names[c->schedule]);
    fprintf(out, "%3d %4d %3d %3d %4d %5d  %-13s %2d x %-5d %-9s %-11s %9s %10s %5.1f%% %5.1f%% %5.1f%% %8.1f", index,
            c->tp, c->cp, c->ep, c->pp, c->dp, schedule, c->batch, c->micro_batches, recompute_text(c, again),
            bb_sync_names[c->sync], bb_format_bytes((size_t)r->bytes, bytes), bb_format_time(r->step_ns / 1e3, time),
            100 * r->compute_ns / r->step_ns, 100 * (r->transfer_ns + r->waiting_ns) / r->step_ns,
            100 * r->bubble_ns / r->step_ns, tokens_rate(found, r));
    if (r->p50_ns > 0)
        fprintf(out, " %10s %10s", bb_format_time(r->p50_ns / 1e3, time), bb_format_time(r->p95_ns / 1e3, p95));
    fputc('\n', out);
}

/* Prints by how much each component of a layout's step time differs from that of the best layout, for example
 * "layout 2 takes 1 ms more (+1.2%): pipeline bubble +0.8 ms, ...". The component with the largest difference is
 * printed first. */
static void print_difference(const struct bb_layout_row *best, const struct bb_layout_row *other, int index, FILE *out)
{
    bool printed[PARTS] = {false};
    char time[BB_TIME_TEXT];
    int shown = 0;

    fprintf(out, "#   layout %d takes %s %s (%+.1f%%)%s:", index,
            bb_format_time(fabs(other->step_ns - best->step_ns) / 1e3, time),
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
                    bb_format_time((part_ns(other, max) - part_ns(best, max)) / 1e3, time));
    }
    fputs(shown ? "\n" : " all parts are equal\n", out);
}

static void print_why(const struct bb_layouts *found, int top, FILE *out)
{
    const struct bb_layout_row *best = found->rows;
    char time[BB_TIME_TEXT];

    fprintf(out, "#\n# why layout 1 is fastest: its step takes %s:", bb_format_time(best->step_ns / 1e3, time));
    for (int part = 0; part < PARTS; part++)
        fprintf(out, "%s %s %.1f%%", part ? "," : "", parts[part].name, 100 * part_ns(best, part) / best->step_ns);
    fputc('\n', out);
    for (int i = 1; i < found->n && i < top && i < 4; i++)
        print_difference(best, &found->rows[i], i + 1, out);
}

static void print_slow(const struct bb_layouts *found, int top, FILE *out)
{
    char time[BB_TIME_TEXT];

    for (int i = 0; i < found->n && i < top && i < 4 && found->rows[i].baseline_ns > 0; i++) {
        const double more_ns = found->rows[i].step_ns - found->rows[i].baseline_ns;

        fprintf(out, "%s layout %d %s (%+.1f%%)", i ? "," : "#\n# time added by --slow:", i + 1,
                bb_format_time(more_ns / 1e3, time), 100 * more_ns / found->rows[i].baseline_ns);
    }
    fputs(found->rows[0].baseline_ns > 0 ? "\n" : "", out);
}

/* Prints the command-line options that select this layout. */
static void print_options(const struct bb_layout_choice *c, FILE *out)
{
    fprintf(out, "#\n# options of layout 1: --tp %d --cp %d --pp %d --dp %d", c->tp, c->cp, c->pp, c->dp);
    if (c->ep > 1)
        fprintf(out, " --ep %d", c->ep);
    fprintf(out, " --schedule %s", bb_schedule_names[c->schedule]);
    if (c->vpp > 1)
        fprintf(out, " --vpp %d", c->vpp);
    fprintf(out, " --micro-batch-size %d --recompute %s", c->batch, bb_recompute_names[c->recompute]);
    if (c->recompute_layers > 0)
        fprintf(out, " --recompute-num-layers %d", c->recompute_layers);
    fprintf(out, " --dp-sync %s%s\n", bb_sync_names[c->sync], c->tp > 1 ? " --sequence-parallel" : "");
}

static void print_rejected(const struct bb_layouts *found, FILE *out)
{
    fprintf(out,
            "#\n# %lld layouts evaluated, %lld fit into GPU memory; simulated: %d with few micro-batches, %d in full\n"
            "# rejected:\n",
            found->evaluated, found->fitting, found->refined, found->n);
    for (int r = 0; r < BB_REJECTION_REASONS; r++)
        if (found->rejected[r] > 0)
            fprintf(out, "#   %10lld  %s\n", found->rejected[r], reason_texts[r]);
}

void bb_layouts_print(const struct bb_layouts *found, int top, FILE *out)
{
    char have[BB_BYTES_TEXT];

    fprintf(out,
            "# %.0f samples (%.0f tokens) per step, %s per GPU; times of the slowest rank; sequence parallelism if "
            "tp > 1\n#\n",
            found->rows[0].samples, found->rows[0].tokens, bb_format_bytes((size_t)found->gpu_bytes, have));
    fprintf(out, "#   %4s %3s %3s %4s %5s  %-13s %-10s %-9s %-11s %9s %10s %6s %6s %6s %8s", "tp", "cp", "ep", "pp",
            "dp", "schedule", "batch", "recompute", "dp-sync", "memory", "step", "comp.", "exp.", "bubble", "tokens/s");
    if (found->rows[0].p50_ns > 0)
        fprintf(out, " %10s %10s", "p50", "p95");
    fputc('\n', out);
    fprintf(out, "#%64s %20s %10s %6s %6s %6s %8s\n", "", "", "", "", "comm.", "", "/GPU");
    for (int i = 0; i < found->n && i < top; i++)
        print_row(found, &found->rows[i], i + 1, out);
    print_why(found, top, out);
    print_slow(found, top, out);
    print_options(&found->rows[0].choice, out);
    print_rejected(found, out);
}

/* ---- JSON output ---- */

static json_t *row_json(const struct bb_layouts *found, const struct bb_layout_row *r)
{
    const struct bb_layout_choice *c = &r->choice;
    json_t *o = json_pack(
        "{s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:i, s:i, s:b, s:s, s:s, s:I, s:f, s:f, s:f, s:f}", "tp", c->tp, "cp",
        c->cp, "ep", c->ep, "pp", c->pp, "dp", c->dp, "vpp", c->vpp, "schedule", bb_schedule_names[c->schedule],
        "micro_batch_size", c->batch, "micro_batches", c->micro_batches, "sequence_parallel", c->tp > 1, "recompute",
        bb_recompute_names[c->recompute], "dp_sync", bb_sync_names[c->sync], "memory_bytes",
        (json_int_t)llround(r->bytes), "step_us", r->step_ns / 1e3, "tokens_per_s", r->tokens / (r->step_ns / 1e9),
        "tokens_per_s_per_gpu", tokens_rate(found, r), "tflops_per_gpu", r->flops / (r->step_ns * 1e3) / found->gpus);

    json_object_set_new(o, "recompute_num_layers",
                        c->recompute_layers > 0 ? json_integer(c->recompute_layers) : json_null());
    for (int part = 0; part < PARTS; part++)
        json_object_set_new(o, parts[part].key, json_real(part_ns(r, part) / 1e3));
    if (r->p50_ns > 0) {
        json_object_set_new(o, "p50_step_us", json_real(r->p50_ns / 1e3));
        json_object_set_new(o, "p95_step_us", json_real(r->p95_ns / 1e3));
    }
    if (r->baseline_ns > 0)
        json_object_set_new(o, "baseline_step_us", json_real(r->baseline_ns / 1e3));
    return o;
}

json_t *bb_layouts_json(const struct bb_layouts *found, int top)
{
    json_t *rows = json_array(), *rejected = json_object();

    for (int i = 0; i < found->n && i < top; i++)
        json_array_append_new(rows, row_json(found, &found->rows[i]));
    for (int r = 0; r < BB_REJECTION_REASONS; r++)
        json_object_set_new(rejected, reason_keys[r], json_integer(found->rejected[r]));
    return json_pack("{s:I, s:I, s:i, s:i, s:o, s:I, s:o}", "evaluated", (json_int_t)found->evaluated, "fitting",
                     (json_int_t)found->fitting, "refined", found->refined, "predicted", found->n, "rejected", rejected,
                     "available_bytes", (json_int_t)found->gpu_bytes, "layouts", rows);
}
