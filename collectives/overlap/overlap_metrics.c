/* overlap_metrics.c - see overlap_metrics.h. */
#include "collectives/overlap/overlap_metrics.h"

#include "bootstrap/base/units.h"
#include "bootstrap/cli/size_list.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static double ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

struct bb_contention bb_contention_of(const double us[BB_OVERLAP_TIMES])
{
    const double compute = us[BB_COMPUTE_ALONE], comm = us[BB_COMM_ALONE], both = us[BB_BOTH];

    return (struct bb_contention){.compute_slowdown = ratio(us[BB_COMPUTE_IN_BOTH], compute),
                                  .comm_slowdown = ratio(us[BB_COMM_IN_BOTH], comm),
                                  .efficiency = ratio(compute + comm - both, fmin(compute, comm)),
                                  .lost_to_comm_us = both - compute};
}

static int clamp_calls(double calls)
{
    return calls < 1 ? 1 : calls > BB_OVERLAP_CALLS ? BB_OVERLAP_CALLS : (int)calls;
}

void bb_overlap_counts(double gemm_us, double collective_us, int min_collectives, int *gemms, int *collectives)
{
    double needed = collective_us > 0 ? ceil(gemm_us / collective_us) : min_collectives;

    *collectives = clamp_calls(fmax(needed, min_collectives));
    *gemms = gemm_us > 0 ? clamp_calls(round(*collectives * collective_us / gemm_us)) : 1;
}

/* ---- parsing, formatting and ranking CTA limits ---- */

static int limit_of(const char *word, struct bb_cta_limit *limit)
{
    const char *colon = strchr(word, ':');
    char low[64];

    *limit = (struct bb_cta_limit){0};
    if (strcmp(word, "default") == 0)
        return 0;
    if (!colon)
        return bb_parse_int(word, 1, 64, &limit->max);
    snprintf(low, sizeof low, "%.*s", (int)(colon - word), word);
    if (bb_parse_int(low, 1, 64, &limit->min) != 0)
        return -BB_EUSAGE;
    return bb_parse_int(colon + 1, limit->min, 64, &limit->max);
}

int bb_cta_limits_parse(const char *text, struct bb_cta_limit limits[BB_CTA_LIMITS], int *n)
{
    char word[BB_LIST_WORD];

    for (*n = 0; bb_list_next(&text, word); ++*n) {
        if (*n == BB_CTA_LIMITS)
            return bb_err(BB_EUSAGE, "--ctas has more than %d limits", BB_CTA_LIMITS);
        if (limit_of(word, &limits[*n]) != 0)
            return bb_err(
                BB_EUSAGE,
                "invalid CTA limit '%s' in --ctas; expected a list of 'default', MAX or MIN:MAX from 1 to 64, for "
                "example default,4,8:16",
                word);
    }
    return 0;
}

const char *bb_cta_limit_text(const struct bb_cta_limit *limit, char text[BB_CTA_TEXT])
{
    if (limit->max == 0)
        snprintf(text, BB_CTA_TEXT, "default");
    else if (limit->min == 0)
        snprintf(text, BB_CTA_TEXT, "%d", limit->max);
    else
        snprintf(text, BB_CTA_TEXT, "%d:%d", limit->min, limit->max);
    return text;
}

static int ctas_of(const struct bb_cta_limit *limit)
{
    return limit->max > 0 ? limit->max : INT_MAX;
}

bool bb_is_tie(const struct bb_stats *a, const struct bb_stats *fastest)
{
    return a->p50 <= 1.01 * fastest->p50 || a->ci95[0] <= fastest->ci95[1];
}

int bb_overlap_best(const struct bb_cta_limit *limits, const struct bb_stats *both_us, int n, bool *tied, int *ties)
{
    int fastest = 0, best = -1;

    for (int i = 1; i < n; i++)
        if (both_us[i].p50 < both_us[fastest].p50)
            fastest = i;
    *ties = 0;
    for (int i = 0; i < n; i++) {
        tied[i] = bb_is_tie(&both_us[i], &both_us[fastest]);
        *ties += tied[i];
        if (tied[i] && (best < 0 || ctas_of(&limits[i]) < ctas_of(&limits[best])))
            best = i;
    }
    return best;
}

/* ---- parsing GEMM dimensions ---- */

static int reject_gemm(const char *text)
{
    return bb_err(BB_EUSAGE,
                  "invalid GEMM dimensions '%s' (--gemm); expected N or MxNxK, each 1 to 1048576, for example "
                  "4096x4096x1024",
                  text);
}

int bb_gemm_dimensions_parse(const char *text, int64_t mnk[3])
{
    const char *at = text;
    int n = 0;

    for (;; at++) {
        size_t length = strcspn(at, "x");
        char word[32];
        int value;

        snprintf(word, sizeof word, "%.*s", (int)length, at);
        if (n == 3 || length >= sizeof word || bb_parse_int(word, 1, 1 << 20, &value) != 0)
            return reject_gemm(text);
        mnk[n++] = value;
        at += length;
        if (!*at)
            break;
    }
    if (n == 1)
        mnk[1] = mnk[2] = mnk[0];
    return n == 2 ? reject_gemm(text) : 0;
}
