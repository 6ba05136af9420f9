/*
 * overlap_metrics.h - computes the contention between a GEMM and a collective from their times alone and concurrently,
 * and parses the overlap options. Pure functions.
 */
#ifndef BB_COLLECTIVES_OVERLAP_OVERLAP_METRICS_H
#define BB_COLLECTIVES_OVERLAP_OVERLAP_METRICS_H

#include "bootstrap/base/err.h"
#include "bootstrap/base/stats.h"

#include <stdbool.h>
#include <stdint.h>

/* The five times of a result row in us, each from the common start of a sample's GEMMs and collectives. All five are
 * for the same number of GEMMs and the same number of collectives. */
enum bb_overlap_time {
    BB_COMPUTE_ALONE,
    BB_COMM_ALONE,
    BB_COMPUTE_IN_BOTH, /* until the last GEMM ends, while collectives run concurrently */
    BB_COMM_IN_BOTH,    /* until the last collective ends, while GEMMs run concurrently */
    BB_BOTH,            /* until all GEMMs and collectives end: the longer of BB_COMPUTE_IN_BOTH and BB_COMM_IN_BOTH */
    BB_OVERLAP_TIMES
};

struct bb_contention {
    double compute_slowdown, comm_slowdown; /* compute_slowdown: BB_COMPUTE_IN_BOTH / BB_COMPUTE_ALONE;
                                               comm_slowdown: BB_COMM_IN_BOTH / BB_COMM_ALONE */
    /* (compute + comm - both) / min(compute, comm), where compute and comm are the times alone. 1: the shorter of
     * the two is hidden completely; 0: no overlap; below 0: slower than compute and communication one after the
     * other */
    double efficiency;
    double lost_to_comm_us; /* time in us by which communication delays the end: BB_BOTH - BB_COMPUTE_ALONE */
};

/* bb_contention_of - compute the metrics from median times. A ratio is NaN if its denominator is 0. */
struct bb_contention bb_contention_of(const double us[BB_OVERLAP_TIMES]);

/*
 * bb_overlap_counts - choose numbers of GEMMs and collectives with about equal total time, so that GEMMs and
 * collectives overlap during the whole sample.
 *   gemm_us          time of one GEMM
 *   collective_us    time of one collective
 *   min_collectives  minimum number of collectives; if they take less time than one GEMM, more collectives are chosen
 *   gemms            out: number of GEMMs
 *   collectives      out: number of collectives
 *   Both numbers are at most BB_OVERLAP_CALLS, because all calls are enqueued before the delayed start and the launch
 *   queue is finite.
 */
enum { BB_OVERLAP_CALLS = 256 };
void bb_overlap_counts(double gemm_us, double collective_us, int min_collectives, int *gemms, int *collectives);

/* Limits on the number of CTAs that NCCL uses per operation of a communicator (minCTAs, maxCTAs). min 0: no lower
 * limit; both 0: NCCL's default. */
struct bb_cta_limit {
    int min, max;
};
enum { BB_CTA_LIMITS = 16, BB_CTA_TEXT = 16 };

/*
 * bb_cta_limits_parse - parse --ctas. For example, "default,1,2:8" contains three limits: NCCL's default, at most 1
 * CTA, 2 to 8 CTAs.
 *   limits   out: the first *n elements
 *   n        out: number of limits
 *   Returns  0, or -BB_EUSAGE after printing an error
 */
int bb_cta_limits_parse(const char *text, struct bb_cta_limit limits[BB_CTA_LIMITS], int *n) BB_MUST_CHECK;
const char *bb_cta_limit_text(const struct bb_cta_limit *limit, char text[BB_CTA_TEXT]);

/* bb_is_tie - return whether the times `a` are as short as the shortest: medians within 1 %, or overlapping confidence
 * intervals. With few samples the intervals are NaN, and only the medians are compared. */
bool bb_is_tie(const struct bb_stats *a, const struct bb_stats *fastest);

/*
 * bb_overlap_best - choose the CTA limit with the shortest median of BB_BOTH. Among the limits that are as fast as the
 * fastest (medians within 1 %, or overlapping 95 % confidence intervals), choose the one with the fewest CTAs, which
 * leaves the most SMs for compute; NCCL's default counts as the most CTAs.
 *   both_us  [n] statistics of BB_BOTH per limit; n >= 1
 *   tied     [n] out: whether the limit is as fast as the fastest
 *   ties     out: number of limits that are as fast as the fastest, including the fastest
 *   Returns  index of the chosen limit
 */
int bb_overlap_best(const struct bb_cta_limit *limits, const struct bb_stats *both_us, int n, bool *tied, int *ties);

/* bb_gemm_dimensions_parse - parse "MxNxK", or "4096" for M = N = K = 4096. Returns 0, or -BB_EUSAGE after printing an
 * error. */
int bb_gemm_dimensions_parse(const char *text, int64_t mnk[3]) BB_MUST_CHECK;

#endif
