/* scaling.c - resolves the options and computes the metrics of a scaling study, which compares the throughput of
 * runs on different numbers of ranks (see scaling.h). */
#include "proxies/workloads/replicas/scaling.h"

#include "proxies/form/author/args.h"
#include "proxies/form/step/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Writes to `text` the numbers of ranks nearest to `ranks` by which the global batch size `batch` is divisible, for
 * example "2 or 4 ranks". Returns text. */
static const char *dividing_ranks(int batch, int ranks, char text[BB_MULTIPLES_TEXT])
{
    int below = ranks, above = ranks;

    while (below > 1 && batch % below)
        below--;
    while (above < batch && batch % above)
        above++;
    if (above > batch || batch % above)
        above = below;
    if (above == below)
        snprintf(text, BB_MULTIPLES_TEXT, "%d rank%s", below, bb_plural(below));
    else
        snprintf(text, BB_MULTIPLES_TEXT, "%d or %d ranks", below, above);
    return text;
}

/* Rejects options that contradict each other. */
static int check_options(const struct bb_proxy_config *c, bool synthetic)
{
    const struct bb_scaling_options *o = &c->scaling;
    const char *sync = c->sync.sync ? c->sync.sync : "";
    const char *of_epochs = o->epochs ? "epochs" : o->images ? "images" : o->epoch_steps ? "epoch-steps" : NULL;

    if (synthetic && of_epochs)
        return bb_err(BB_EUSAGE, "%s: --%s is not supported with --format synthetic, which has no epochs; leave it out",
                      c->proxy, of_epochs);
    if (strcmp(sync, "ps_p2p") == 0 || strcmp(sync, "ps_sharded") == 0)
        return bb_err(BB_EUSAGE,
                      "%s: --sync %s reserves ranks for parameter servers, so throughput per rank is not comparable; "
                      "try: --sync ps",
                      c->proxy, sync);
    return 0;
}

static void resolve_epochs(const struct bb_scaling_options *o, struct bb_scaling *s)
{
    s->images = o->images ? o->images : 50000;
    s->rank_images = s->images / s->ranks + (s->images % s->ranks != 0);
    s->batch = s->batch < s->rank_images ? s->batch : s->rank_images;
    s->full_steps = s->rank_images / s->batch;
    s->last_batch = s->rank_images % s->batch;
    s->run_steps = o->epoch_steps && o->epoch_steps < s->full_steps ? o->epoch_steps : s->full_steps;
    s->rounds = o->epochs ? o->epochs : 3;
}

int bb_scaling_resolve(const struct bb_proxy_config *c, struct bb_scaling *s)
{
    const struct bb_scaling_options *o = &c->scaling;
    char batches[BB_MULTIPLES_TEXT], ranks[BB_MULTIPLES_TEXT];
    int rc;

    *s = (struct bb_scaling){.ranks = c->ranks};
    s->strong = o->mode && strcmp(o->mode, "strong") == 0;
    s->synthetic = o->format && strcmp(o->format, "synthetic") == 0;
    s->given_batch = o->batch ? o->batch : s->synthetic ? 32 : 128;
    TRY(check_options(c, s->synthetic));
    if (s->strong && s->given_batch % s->ranks)
        return bb_err(BB_EUSAGE,
                      "%s: global batch %d (--mode strong) is not divisible by %d ranks; try: --batch %s; possible: %s",
                      c->proxy, s->given_batch, s->ranks, bb_multiples(s->given_batch, s->ranks, batches),
                      dividing_ranks(s->given_batch, s->ranks, ranks));
    s->batch = s->strong ? s->given_batch / s->ranks : s->given_batch;
    if (!s->synthetic) {
        resolve_epochs(o, s);
        return 0;
    }
    if (s->batch > 100000000)
        return bb_err(
            BB_EUSAGE,
            "%s: a batch of %d samples per rank is too large for --format synthetic; the maximum is 100000000",
            c->proxy, s->batch);
    s->rank_images = s->batch * BB_SCALING_BATCHES;
    s->full_steps = s->run_steps = BB_SCALING_BATCHES;
    s->rounds = BB_SCALING_ITERATIONS;
out:
    return rc;
}

/* ---- throughput, efficiency and serial fraction ---- */

double bb_scaling_rate(const struct bb_scaling *s, double seconds)
{
    return s->rank_images / seconds * s->ranks;
}

double bb_scaling_efficiency(double rate, int ranks, double base_rate, int base_ranks)
{
    return rate / ranks / (base_rate / base_ranks);
}

double bb_karp_flatt(double speedup, int ranks)
{
    return ranks > 1 ? (1 / speedup - 1.0 / ranks) / (1 - 1.0 / ranks) : NAN;
}

void bb_scaling_measured_release(struct bb_scaling_measured *m)
{
    free(m->seconds);
    free(m->last_us);
    *m = (struct bb_scaling_measured){0};
}

void bb_scaling_iteration_stats(const struct bb_scaling *s, const struct bb_scaling_measured *m, double *mean,
                                double *half_width)
{
    double sum = 0, squares = 0;

    for (int i = 0; i < m->rounds; i++)
        sum += s->rank_images / m->seconds[i];
    *mean = sum / m->rounds;
    for (int i = 0; i < m->rounds; i++)
        squares += pow(s->rank_images / m->seconds[i] - *mean, 2);
    *half_width = 1.96 * sqrt(squares / m->rounds);
}

double bb_scaling_steady_rate(const struct bb_scaling *s, const struct bb_scaling_measured *m)
{
    int first = m->rounds > 1;
    double seconds = 0, mean, half_width;

    if (m->rounds == 0)
        return NAN;
    if (s->synthetic) {
        bb_scaling_iteration_stats(s, m, &mean, &half_width);
        return mean * s->ranks;
    }
    for (int i = first; i < m->rounds; i++)
        seconds += m->seconds[i];
    return bb_scaling_rate(s, seconds / (m->rounds - first));
}
