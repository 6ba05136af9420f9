/*
 * algorithm_ranking.h - was NCCL's choice of algorithm and protocol the best one? Each combination that was measured
 * stands against NCCL's own choice by the 95 % intervals of the medians: one is surely faster when its whole interval
 * lies below the other's. Pure.
 */
#ifndef BB_COLLECTIVES_SWEEP_ALGORITHM_RANKING_H
#define BB_COLLECTIVES_SWEEP_ALGORITHM_RANKING_H

#include "bootstrap/base/stats.h"
#include "collectives/session/profiler.h"
#include "collectives/session/tuner.h"

enum bb_candidate_status {
    BB_CANDIDATE_MEASURED,
    BB_CANDIDATE_NOT_OFFERED, /* NCCL's table of costs says that it will not do it here  */
    BB_CANDIDATE_IGNORED,     /* it was asked for, but NCCL ran something else, or told nothing of it */
    BB_CANDIDATE_WRONG,       /* it ran, and delivered wrong data                        */
    BB_CANDIDATE_COUNT
};
extern const char *const bb_candidate_status_names[BB_CANDIDATE_COUNT];

struct bb_candidate {
    struct bb_combination what;
    enum bb_candidate_status status;
    struct bb_choice ran; /* what NCCL said of it, of BB_CANDIDATE_IGNORED too */
    struct bb_stats time_us;
    double model_us; /* NCCL's own estimate, NaN: none */
};

/* One size, placement and mode. The others do not include NCCL's own choice. */
struct bb_ranking {
    struct bb_candidate chosen;
    struct bb_stats again_us; /* NCCL's choice once more, after the others; n == 0: not needed */
    struct bb_candidate others[BB_COMBINATIONS];
    int n_others;
};

enum bb_candidate_verdict {
    BB_VERDICT_UNKNOWN,  /* no intervals, no choice, or nothing to hold it against */
    BB_VERDICT_BEST,     /* no other has a lower median                            */
    BB_VERDICT_AS_GOOD,  /* another has, but within the noise                      */
    BB_VERDICT_NOT_BEST, /* another is surely faster                               */
    BB_VERDICT_COUNT
};
extern const char *const bb_candidate_verdict_names[BB_VERDICT_COUNT];

struct bb_outcome {
    enum bb_candidate_verdict verdict;
    const struct bb_candidate *best; /* of those that are surely faster the one with the lowest median; else of all */
    double lost_factor;              /* time of NCCL's choice / time of the best; NaN when unknown                  */
};

/* bb_significantly_faster - false also when one of them has no interval. */
bool bb_significantly_faster(const struct bb_stats *a, const struct bb_stats *b);

/* bb_ranking_choice_time - NCCL's choice at its better of the two times, so that a drift is not held against it. */
const struct bb_stats *bb_ranking_choice_time(const struct bb_ranking *c);

struct bb_outcome bb_ranking_judge(const struct bb_ranking *c);

#endif
