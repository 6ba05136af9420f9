/* stopping.c - see stopping.h. */
#include "collectives/measure/stopping.h"

#include <math.h>

/* threshold of BB_WARN_OUTLIERS: 99th percentile (of less than 100 samples: maximum) / median */
static const double OUTLIER = 2;
static const double NOISY = 0.05; /* threshold of BB_WARN_NOISY: half the width of the confidence interval / median */
static const double TREND_SIGMAS = 3;        /* threshold of the Mann-Kendall statistic, in standard deviations */
static const double MIN_TREND_CHANGE = 0.01; /* a change of the mean by less than this fraction is not reported as a
                                                trend */
enum { TREND_BLOCKS = 32, MIN_TREND_SAMPLES = 6, MIN_CI_SAMPLES = 6 };

/* ---- stopping rule ---- */

const char *const bb_stop_names[BB_STOP_COUNT] = {[BB_STOP_NOT_YET] = "running",
                                                  [BB_STOP_FIXED] = "fixed",
                                                  [BB_STOP_CONFIDENT] = "confident",
                                                  [BB_STOP_SAMPLES] = "max_iters",
                                                  [BB_STOP_TIME] = "max_seconds"};

double bb_half_width(const struct bb_stats *s)
{
    return s->p50 > 0 ? (s->ci95[1] - s->ci95[0]) / 2 / s->p50 : NAN;
}

bool bb_stopping_is_confident(const struct bb_stopping *p, const struct bb_stats *s)
{
    bool same = s->n >= MIN_CI_SAMPLES && s->min == s->max; /* also true if all samples are 0, for which the relative
                                                               width is undefined */

    return same || bb_half_width(s) <= p->confidence;
}

enum bb_stop bb_stopping_decide(const struct bb_stopping *p, bool confident, size_t samples, double elapsed_s)
{
    if (p->confidence <= 0)
        return BB_STOP_FIXED;
    if (confident)
        return BB_STOP_CONFIDENT;
    if (samples >= p->max_samples)
        return BB_STOP_SAMPLES;
    return elapsed_s >= p->max_s ? BB_STOP_TIME : BB_STOP_NOT_YET;
}

/* ---- trend ---- */

static double mean_of(const double *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

/* Divides the samples into at most TREND_BLOCKS blocks of consecutive samples and computes the mean of each. Block b
 * begins at sample b * n / blocks. Returns the number of blocks. */
static size_t blocks_of(const double *samples, size_t n, double *means)
{
    size_t blocks = n < TREND_BLOCKS ? n : TREND_BLOCKS;

    for (size_t b = 0; b < blocks; b++) {
        size_t first = b * n / blocks, next = (b + 1) * n / blocks;
        means[b] = mean_of(samples + first, next - first);
    }
    return blocks;
}

/* Returns the Mann-Kendall statistic S: the number of pairs (i, j), i < j, with x[i] < x[j], minus the number with
 * x[i] > x[j]. */
static double mann_kendall_statistic(const double *x, size_t n)
{
    int sum = 0;

    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++)
            sum += (x[k] > x[i]) - (x[k] < x[i]);
    return sum;
}

bool bb_has_trend(const double *samples, size_t n)
{
    double x[TREND_BLOCKS], sigma, change;
    size_t blocks, third;

    if (n < MIN_TREND_SAMPLES)
        return false;
    blocks = blocks_of(samples, n, x);
    third = blocks / 3;
    change = fabs(mean_of(x + blocks - third, third) - mean_of(x, third));
    sigma = sqrt((double)(blocks * (blocks - 1) * (2 * blocks + 5)) / 18);
    return fabs(mann_kendall_statistic(x, blocks)) - 1 > TREND_SIGMAS * sigma &&
           change > MIN_TREND_CHANGE * mean_of(x, blocks);
}

/* ---- warnings ---- */

const struct bb_warning_row bb_warnings[BB_WARN_COUNT] = {
    [BB_WARN_NOT_CHECKED] = {"not_checked", "the data was not verified",
                             "-c 1 or more; EMU_DATA=off disables verification"},
    [BB_WARN_FEW_SAMPLES] = {"few_samples", "fewer than 6 samples: no confidence interval of the median",
                             "--repeats 6 or more, or --confidence 1%"},
    [BB_WARN_NOISY] = {"noisy", "the confidence interval of the median exceeds +-5 %",
                       "more operations per sample (-n), or --confidence 1%; check for other load"},
    [BB_WARN_NOT_CONFIDENT] = {"not_confident", "a limit was reached before the requested --confidence",
                               "a larger --max-iters or --max-seconds"},
    [BB_WARN_TREND] = {"trend", "times increase or decrease over the samples",
                       "--warmup auto, or a larger -w, and --shuffle SEED; with both: check for other load, clocks "
                       "and temperature"},
    [BB_WARN_OUTLIERS] = {"outliers", "more than 1 % of the samples took more than twice the median",
                          "a larger -w; check for other load on nodes and network (the time: --json, time_us.max)"},
    [BB_WARN_START_BARRIER_EXPIRED] = {"start_barrier_expired",
                                       "the start barrier timed out before all operations were enqueued",
                                       "--start-barrier 0, a smaller -n, or a larger --start-barrier-limit"},
    [BB_WARN_NOT_SYMMETRIC] =
        {"not_symmetric", "NCCL ran an ordinary kernel although the buffers are symmetric windows",
         "-R 1 to measure such kernels, or NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING to log NCCL's choice"},
};

unsigned bb_warnings_of(const struct bb_stats *s, const double *samples, enum bb_stop stop)
{
    unsigned warnings = 0;

    if (s->n < MIN_CI_SAMPLES)
        warnings |= 1u << BB_WARN_FEW_SAMPLES;
    if (bb_half_width(s) > NOISY)
        warnings |= 1u << BB_WARN_NOISY;
    if (stop == BB_STOP_SAMPLES || stop == BB_STOP_TIME)
        warnings |= 1u << BB_WARN_NOT_CONFIDENT;
    if (bb_has_trend(samples, s->n))
        warnings |= 1u << BB_WARN_TREND;
    if (s->p50 > 0 && (s->n < 100 ? s->max : s->p99) > OUTLIER * s->p50)
        warnings |= 1u << BB_WARN_OUTLIERS;
    return warnings;
}

/* ---- random order of message sizes ---- */

/* One step of a 64-bit linear congruential generator; the high bits are folded into the low bits. */
static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state ^ *state >> 32;
}

void bb_shuffle(size_t *list, size_t n, uint64_t seed)
{
    uint64_t state = seed * 2 + 1;

    (void)next_random(&state); /* discard one number, so that similar seeds give different permutations */
    for (size_t i = n; i > 1; i--) {
        size_t k = (size_t)(next_random(&state) % i), kept = list[k];
        list[k] = list[i - 1];
        list[i - 1] = kept;
    }
}
