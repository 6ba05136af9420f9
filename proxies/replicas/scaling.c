/* scaling.c - resolves the options and computes the metrics of a scaling study, which compares the throughput of
 * runs on different numbers of ranks (see scaling.h). */
#include "proxies/replicas/scaling.h"

#include "proxies/author/args.h"
#include "proxies/step/config.h"
#include "proxies/step/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int ceil_div(int a, int b)
{
    return a / b + (a % b != 0);
}

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
        snprintf(text, BB_MULTIPLES_TEXT, "%d rank%s", below, below == 1 ? "" : "s");
    else
        snprintf(text, BB_MULTIPLES_TEXT, "%d or %d ranks", below, above);
    return text;
}

static int divide_batch(const struct bb_proxy_config *c, int batch, struct bb_scaling *s)
{
    char batches[BB_MULTIPLES_TEXT], ranks[BB_MULTIPLES_TEXT];

    if (s->strong && batch % s->ranks)
        return bb_err(
            BB_EUSAGE, "%s: global batch %d (--mode strong) is not divisible by %d ranks; try: --batch %s, or %s",
            c->proxy, batch, s->ranks, bb_multiples(batch, s->ranks, batches), dividing_ranks(batch, s->ranks, ranks));
    s->batch = s->strong ? batch / s->ranks : batch;
    return 0;
}

static int refuse_epochs(const struct bb_proxy_config *c)
{
    const struct bb_scaling_options *o = &c->scaling;
    const char *given = o->epochs ? "epochs" : o->images ? "images" : o->epoch_steps ? "epoch-steps" : NULL;

    if (!given)
        return 0;
    return bb_err(BB_EUSAGE, "%s: --%s is not supported with --format synthetic, which has no epochs; leave it out",
                  c->proxy, given);
}

static int refuse_dedicated_servers(const struct bb_proxy_config *c)
{
    const char *sync = c->sync.sync;

    if (!sync || (strcmp(sync, "ps_p2p") != 0 && strcmp(sync, "ps_sharded") != 0))
        return 0;
    return bb_err(BB_EUSAGE,
                  "%s: --sync %s reserves ranks for parameter servers, so throughput per rank is not comparable; "
                  "try: --sync ps",
                  c->proxy, sync);
}

static void resolve_epochs(const struct bb_scaling_options *o, struct bb_scaling *s)
{
    s->images = o->images ? o->images : 50000;
    s->rank_images = ceil_div(s->images, s->ranks);
    s->batch = s->batch < s->rank_images ? s->batch : s->rank_images;
    s->full_steps = s->rank_images / s->batch;
    s->last_batch = s->rank_images % s->batch;
    s->run_steps = o->epoch_steps && o->epoch_steps < s->full_steps ? o->epoch_steps : s->full_steps;
    s->rounds = o->epochs ? o->epochs : 3;
}

static void resolve_synthetic(struct bb_scaling *s)
{
    s->rank_images = s->batch * BB_SCALING_BATCHES;
    s->full_steps = s->run_steps = BB_SCALING_BATCHES;
    s->rounds = BB_SCALING_ITERATIONS;
}

int bb_scaling_resolve(const struct bb_proxy_config *c, struct bb_scaling *s)
{
    const struct bb_scaling_options *o = &c->scaling;
    int batch, rc;

    *s = (struct bb_scaling){.ranks = c->ranks};
    s->strong = o->mode && strcmp(o->mode, "strong") == 0;
    s->synthetic = o->format && strcmp(o->format, "synthetic") == 0;
    batch = o->batch ? o->batch : s->synthetic ? 32 : 128;
    TRY(s->synthetic ? refuse_epochs(c) : 0);
    TRY(refuse_dedicated_servers(c));
    TRY(divide_batch(c, batch, s));
    if (s->synthetic && s->batch > 100000000)
        return bb_err(
            BB_EUSAGE,
            "%s: a batch of %d samples per rank is too large for --format synthetic; the maximum is 100000000",
            c->proxy, s->batch);
    if (s->synthetic)
        resolve_synthetic(s);
    else
        resolve_epochs(o, s);
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
