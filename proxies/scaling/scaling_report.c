/* scaling_report.c - prints the results of a scaling study and writes them as JSON (see scaling.h). */
#include "bootstrap/base/units.h"
#include "bootstrap/results/results.h"
#include "proxies/replicas/scaling.h"

#include <math.h>
#include <string.h>

void bb_scaling_print_round(const struct bb_scaling *s, int round, double seconds, FILE *out)
{
    if (s->synthetic)
        fprintf(out, "Iter #%d: %.1f img/sec per GPU\n", round, s->rank_images / seconds);
    else
        fprintf(out, "Epoch %d/%d | Time: %.2fs | Global Img/sec: %.2f\n", round + 1, s->rounds, seconds,
                bb_scaling_rate(s, seconds));
    fflush(out);
}

void bb_scaling_print_total(const struct bb_scaling *s, const struct bb_scaling_measured *m, FILE *out)
{
    double mean, spread;

    bb_scaling_iteration_stats(s, m, &mean, &spread);
    fprintf(out, "Img/sec per GPU: %.1f +-%.1f\n", mean, spread);
    fprintf(out, "Total img/sec on %d GPU(s): %.1f +-%.1f\n", s->ranks, s->ranks * mean, s->ranks * spread);
}

/* Returns the fraction of a full-batch step's time that communication adds: 1 - (step time with compute alone) /
 * (step time). 0 for one rank, which does not communicate; NaN if the time with compute alone is unknown. */
static double comm_share(const struct bb_scaling_report *r)
{
    return r->scaling->ranks == 1 ? 0 : 1 - r->compute_alone_us / r->step_us;
}

/* Returns the scaling efficiency relative to the baseline run, computed only from steps with the full batch, without
 * the last step of each epoch, which may have fewer samples. */
static double step_efficiency(const struct bb_scaling_report *r)
{
    const struct bb_scaling_baseline *b = r->baseline;

    if (!r->scaling->strong)
        return b->step_us / r->step_us;
    return b->ranks * b->step_us / (r->scaling->ranks * r->step_us);
}

static double karp_flatt(const struct bb_scaling_report *r, double rate)
{
    const struct bb_scaling_baseline *b = r->baseline;

    return b->ranks == 1 ? bb_karp_flatt(rate / b->rate, r->scaling->ranks) : NAN;
}

/* ---- text output ---- */

static void print_method(const struct bb_scaling *s, FILE *out)
{
    const char *what = s->synthetic ? "iterations" : "epochs";

    fprintf(out, "#\n# %s scaling; %s: ", s->strong ? "strong" : "weak", what);
    if (s->run_steps < s->full_steps)
        fprintf(out, "%d of %d full steps run, time extrapolated", s->run_steps, s->full_steps);
    else
        fputs("every step run", out);
    if (s->last_batch)
        fputs(", short last steps timed separately before them", out);
    fputs("; time: GPU time\n# of the steps on the slowest rank, without data loading\n", out);
}

static void print_broadcast(const struct bb_scaling_measured *m, FILE *out)
{
    char bytes[BB_BYTES_TEXT], time[BB_TIME_TEXT];

    if (m->broadcasts > 0)
        fprintf(out, "# first broadcast of rank 0's state: %d tensors, %s, %s after connection setup\n", m->broadcasts,
                bb_format_bytes((size_t)m->broadcast_bytes, bytes), bb_format_time(m->broadcast_us, time));
}

static void print_baseline(const struct bb_scaling_report *r, double rate, FILE *out)
{
    const struct bb_scaling_baseline *b = r->baseline;
    int n = r->scaling->ranks;
    double karp = karp_flatt(r, rate);

    if (!b->path)
        return;
    fprintf(out, "# baseline: %d rank%s, %.1f img/sec; speed-up %.3f (ideal %.3g), %s %.4f (full step only: %.4f)\n",
            b->ranks, b->ranks == 1 ? "" : "s", b->rate, rate / b->rate, (double)n / b->ranks,
            r->scaling->strong ? "E_s" : "E_w", bb_scaling_efficiency(rate, n, b->rate, b->ranks), step_efficiency(r));
    fprintf(out, "# ideal: %.1f img/sec", b->rate * n / b->ranks);
    if (isfinite(karp))
        fprintf(out, "; serial fraction (Karp-Flatt) %.4f", karp);
    fputc('\n', out);
}

void bb_scaling_print(const struct bb_scaling_report *r, FILE *out)
{
    const struct bb_scaling *s = r->scaling;
    double rate = bb_scaling_steady_rate(s, r->measured), share = comm_share(r);

    print_method(s, out);
    print_broadcast(r->measured, out);
    fprintf(out, "# %s%.1f img/sec, %.1f per rank", !s->synthetic && s->rounds > 1 ? "from epoch 2 on: " : "", rate,
            rate / s->ranks);
    if (isfinite(share))
        fprintf(out, "; communication takes %.1f%% of a full step", 100 * share);
    fputc('\n', out);
    print_baseline(r, rate, out);
}

/* ---- JSON output ---- */

static json_t *rounds_json(const struct bb_scaling_report *r)
{
    const struct bb_scaling *s = r->scaling;
    json_t *list = json_array();

    for (int i = 0; i < r->measured->rounds; i++) {
        double seconds = r->measured->seconds[i];

        json_array_append_new(list,
                              json_pack("{s:f, s:f}", "time_s", seconds, "images_per_s", bb_scaling_rate(s, seconds)));
    }
    return list;
}

static json_t *baseline_json(const struct bb_scaling_report *r, double rate)
{
    const struct bb_scaling_baseline *b = r->baseline;
    int n = r->scaling->ranks;

    if (!b->path)
        return json_null();
    return json_pack("{s:s, s:i, s:f, s:f, s:o, s:o, s:o, s:o, s:o}", "file", b->path, "ranks", b->ranks,
                     "images_per_s", b->rate, "step_us", b->step_us, "speedup", bb_json_real(rate / b->rate),
                     "efficiency", bb_json_real(bb_scaling_efficiency(rate, n, b->rate, b->ranks)), "step_efficiency",
                     bb_json_real(step_efficiency(r)), "ideal_images_per_s", bb_json_real(b->rate * n / b->ranks),
                     "karp_flatt", bb_json_real(karp_flatt(r, rate)));
}

static json_t *broadcast_json(const struct bb_scaling_measured *m)
{
    if (m->broadcasts == 0)
        return json_null();
    return json_pack("{s:i, s:I, s:o}", "calls", m->broadcasts, "bytes", (json_int_t)m->broadcast_bytes, "time_us",
                     bb_json_real(m->broadcast_us));
}

/* Returns as JSON the parameters that must be equal in a run and its baseline. */
static json_t *study_json(const struct bb_scaling_report *r)
{
    const struct bb_scaling *s = r->scaling;
    const struct bb_scaling_options *o = &r->config->scaling;
    int batch = o->batch ? o->batch : s->synthetic ? 32 : 128;

    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:s, s:s, s:s, s:f, s:f}", "model", r->config->model, "mode",
                     s->strong ? "strong" : "weak", "format", s->synthetic ? "synthetic" : "epochs", "batch", batch,
                     "images", s->images, "dtype", r->config->dtype, "compute", r->config->compute, "sync",
                     r->config->sync.sync, "tflops", r->config->tflops, "scale_counts",
                     r->config->scale_counts > 0 ? r->config->scale_counts : 1.0);
}

json_t *bb_scaling_json(const struct bb_scaling_report *r)
{
    const struct bb_scaling *s = r->scaling;
    double rate = bb_scaling_steady_rate(s, r->measured);
    json_t *object = study_json(r);

    json_object_set_new(object, "ranks", json_integer(s->ranks));
    json_object_set_new(object, "rank_batch", json_integer(s->batch));
    json_object_set_new(object, "rank_images", json_integer(s->rank_images));
    json_object_set_new(object, "steps_per_epoch", json_integer(s->full_steps + (s->last_batch > 0)));
    json_object_set_new(object, "last_batch", json_integer(s->last_batch ? s->last_batch : s->batch));
    json_object_set_new(object, "full_steps_run", json_integer(s->run_steps));
    json_object_set_new(object, s->synthetic ? "iterations" : "epochs", rounds_json(r));
    json_object_set_new(object, "images_per_s", bb_json_real(rate));
    json_object_set_new(object, "images_per_s_per_rank", bb_json_real(rate / s->ranks));
    json_object_set_new(object, "communication_share", bb_json_real(comm_share(r)));
    json_object_set_new(object, "broadcast", broadcast_json(r->measured));
    json_object_set_new(object, "baseline", baseline_json(r, rate));
    return object;
}
