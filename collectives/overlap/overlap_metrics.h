/*
 * overlap_metrics.h - what is said about a gemm_shape and a collective that run alone and at the same time, and the words
 * of the command line for them. Pure.
 */
#ifndef BB_COLLECTIVES_OVERLAP_OVERLAP_METRICS_H
#define BB_COLLECTIVES_OVERLAP_OVERLAP_METRICS_H

#include "bootstrap/base/err.h"
#include "bootstrap/base/stats.h"

#include <stdbool.h>
#include <stdint.h>

/* Times of the same work, microseconds from the common start. */
enum bb_overlap_time {
    BB_COMPUTE_ALONE,
    BB_COMM_ALONE,
    BB_COMPUTE_IN_BOTH, /* until the last gemm_shape, with collectives beside it */
    BB_COMM_IN_BOTH,    /* until the last collective, with gemms beside it */
    BB_BOTH,            /* until all of it: the later of the two              */
    BB_OVERLAP_TIMES
};

struct bb_contention {
    double compute_slowdown, comm_slowdown; /* in both / alone                                            */
    double efficiency;                      /* (compute + comm - both) / min(compute, comm), alone: 1 all of the
                                               shorter is hidden, 0 nothing, below 0 overlap loses         */
    double lost_to_comm_us;                 /* both - compute alone                                       */
};

/* bb_contention_of - from the median times. NaN where a time alone is 0. */
struct bb_contention bb_contention_of(const double us[BB_OVERLAP_TIMES]);

/*
 * bb_overlap_counts - how many gemms and collectives make two sides of about the same length, so that each runs
 * beside the other all the time: `min_collectives` collectives, or as many as one gemm_shape takes; then as many gemms as these
 * take. At most BB_OVERLAP_CALLS of each, since they wait behind a start and the queue of launches is not endless.
 */
enum { BB_OVERLAP_CALLS = 256 };
void bb_overlap_counts(double gemm_us, double collective_us, int min_collectives, int *gemms, int *collectives);

/* Limits on the CTAs of a communicator's operations; 0, 0: NCCL's own. */
struct bb_cta_limit {
    int min, max;
};
enum { BB_CTA_LIMITS = 16, BB_CTA_TEXT = 16 };

/* bb_cta_limits_parse - "default,1,2:8,16": NCCL's own, at most 1, 2 to 8, at most 16. Returns 0 or -BB_EUSAGE after
 * one line. */
int bb_cta_limits_parse(const char *text, struct bb_cta_limit limits[BB_CTA_LIMITS], int *n) BB_MUST_CHECK;
const char *bb_cta_limit_text(const struct bb_cta_limit *limit, char text[BB_CTA_TEXT]);

/*
 * bb_overlap_best - the limit with the shortest time of both; n >= 1. Limits that cannot be told from it (their 95 %
 * intervals overlap, or the medians are within 1 %) are ties: *ties is how many, itself among them, tied[i] which. Of
 * ties the one with the fewest CTAs is returned, which leaves most to the rest of the step; NCCL's own counts as the
 * most.
 */
int bb_overlap_best(const struct bb_cta_limit *limits, const struct bb_stats *both_us, int n, bool *tied, int *ties);

/* bb_gemm_dimensions_parse - "4096" or "MxNxK". Returns 0 or -BB_EUSAGE after one line. */
int bb_gemm_dimensions_parse(const char *text, int64_t mnk[3]) BB_MUST_CHECK;

#endif
