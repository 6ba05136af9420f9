/*
 * algorithm_ranking.h - compares NCCL's own choice of algorithm and protocol with the forced combinations that were
 * measured. One candidate is significantly faster than another if the 95 % confidence interval of its median lies
 * entirely below the other's. Pure functions without I/O.
 */
#ifndef BB_COLLECTIVES_SWEEP_ALGORITHM_RANKING_H
#define BB_COLLECTIVES_SWEEP_ALGORITHM_RANKING_H

#include "bootstrap/base/stats.h"
#include "collectives/session/profiler.h"
#include "collectives/session/tuner.h"

enum bb_candidate_status {
    BB_CANDIDATE_MEASURED,
    BB_CANDIDATE_NOT_OFFERED, /* NCCL's cost table marks the combination as unavailable for this operation */
    BB_CANDIDATE_IGNORED,     /* the combination was forced, but NCCL ran another one or reported none */
    BB_CANDIDATE_WRONG,       /* NCCL ran the combination, and the data were wrong */
    BB_CANDIDATE_COUNT
};
extern const char *const bb_candidate_status_names[BB_CANDIDATE_COUNT];

struct bb_candidate {
    struct bb_combination what;
    enum bb_candidate_status status;
    struct bb_choice ran; /* what NCCL reported that it ran; also set for BB_CANDIDATE_IGNORED */
    struct bb_stats time_us;
    double model_us; /* NCCL's own estimate; NaN: none */
};

/* The ranking of one size, buffer placement and mode. `others` excludes NCCL's own choice. */
struct bb_ranking {
    struct bb_candidate chosen;
    struct bb_stats again_us; /* second measurement of NCCL's choice, after the others; n == 0: not needed */
    struct bb_candidate others[BB_COMBINATIONS];
    int n_others;
};

enum bb_candidate_verdict {
    BB_VERDICT_UNKNOWN,  /* no confidence intervals, no reported choice, or nothing to compare with */
    BB_VERDICT_BEST,     /* no other candidate has a lower median */
    BB_VERDICT_AS_GOOD,  /* another candidate has a lower median, but not significantly */
    BB_VERDICT_NOT_BEST, /* another candidate is significantly faster */
    BB_VERDICT_COUNT
};
extern const char *const bb_candidate_verdict_names[BB_VERDICT_COUNT];

struct bb_outcome {
    enum bb_candidate_verdict verdict;
    const struct bb_candidate *best; /* with BB_VERDICT_NOT_BEST: of the significantly faster candidates the one with
                                        the lowest median; otherwise NCCL's choice */
    double lost_factor;              /* time of NCCL's choice / time of `best`; NaN with BB_VERDICT_UNKNOWN */
};

/* bb_significantly_faster - return whether the interval of `a` lies entirely below that of `b`. False if either has
 * no interval. */
bool bb_significantly_faster(const struct bb_stats *a, const struct bb_stats *b);

/* bb_ranking_choice_time - return the faster of the two measurements of NCCL's choice. A slowdown over time, such as
 * a warmer GPU, thus does not count against the choice. */
const struct bb_stats *bb_ranking_choice_time(const struct bb_ranking *c);

/* bb_ranking_judge - return the verdict on NCCL's choice. `best` points into *c. */
struct bb_outcome bb_ranking_judge(const struct bb_ranking *c);

#endif
