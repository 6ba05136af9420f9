/*
 * algorithm_ranking.h - compares NCCL's own choice of algorithm and protocol with the other algorithm/protocol pairs
 * that were forced and measured. A pair is significantly faster than another if the 95 % confidence intervals of their
 * medians do not overlap and its median is lower. Pure functions without I/O.
 */
#ifndef BB_COLLECTIVES_SWEEP_ALGORITHM_RANKING_H
#define BB_COLLECTIVES_SWEEP_ALGORITHM_RANKING_H

#include "bootstrap/base/stats.h"
#include "collectives/session/profiler.h"
#include "collectives/session/tuner.h"

enum bb_candidate_status {
    BB_CANDIDATE_MEASURED,
    BB_CANDIDATE_NOT_OFFERED, /* not measured: NCCL's cost table marks the algorithm/protocol pair as unavailable */
    BB_CANDIDATE_IGNORED,     /* the algorithm/protocol pair was forced, but NCCL ran another pair or reported none */
    BB_CANDIDATE_WRONG,       /* NCCL ran the forced algorithm/protocol pair, but the received data were wrong */
    BB_CANDIDATE_COUNT
};
extern const char *const bb_candidate_status_names[BB_CANDIDATE_COUNT];

struct bb_candidate {
    struct bb_algorithm_protocol what;
    enum bb_candidate_status status;
    struct bb_choice ran; /* algorithm and protocol that NCCL reported for this measurement; also set with
                             BB_CANDIDATE_IGNORED */
    struct bb_stats time_us;
    double model_us; /* NCCL's own estimate of the time in microseconds; NaN: none */
};

/* The algorithm/protocol pairs for one collective and size, buffer placement (in or out of place) and timing mode:
 * NCCL's own choice, and all other pairs with their measurements. */
struct bb_ranking {
    struct bb_candidate chosen;
    struct bb_stats again_us; /* second measurement of NCCL's choice, taken after all other algorithm/protocol pairs;
                                 n == 0: no second measurement */
    struct bb_candidate others[BB_ALGORITHM_PROTOCOLS];
    int n_others;
};

enum bb_candidate_verdict {
    BB_VERDICT_UNKNOWN,  /* no confidence intervals, no choice reported by NCCL, or no other algorithm/protocol pair
                           measured */
    BB_VERDICT_BEST,     /* NCCL's choice has the lowest median */
    BB_VERDICT_AS_GOOD,  /* another algorithm/protocol pair has a lower median, but is not significantly faster */
    BB_VERDICT_NOT_BEST, /* another algorithm/protocol pair is significantly faster */
    BB_VERDICT_COUNT
};
extern const char *const bb_candidate_verdict_names[BB_VERDICT_COUNT];

struct bb_outcome {
    enum bb_candidate_verdict verdict;
    const struct bb_candidate *best; /* with BB_VERDICT_NOT_BEST: the significantly faster algorithm/protocol pair
                                        with the lowest median; otherwise NCCL's choice */
    double lost_factor;              /* time of NCCL's choice / time of `best`; NaN with BB_VERDICT_UNKNOWN */
};

/* bb_significantly_faster - return whether the 95 % confidence interval of the median `a` lies entirely below that
 * of `b`. False if a or b has no interval. */
bool bb_significantly_faster(const struct bb_stats *a, const struct bb_stats *b);

/* bb_ranking_choice_time - return the faster of the two measurements of NCCL's choice. The first measurement
 * precedes those of the other algorithm/protocol pairs, the second follows them. So a GPU whose speed changes in
 * between, for example because it heats up, does not make NCCL's choice look too slow. */
const struct bb_stats *bb_ranking_choice_time(const struct bb_ranking *c);

/* bb_ranking_judge - return the verdict on NCCL's choice. The member `best` of the result points into *c. */
struct bb_outcome bb_ranking_judge(const struct bb_ranking *c);

#endif
