/*
 * algorithms.h - --sweep-algorithms: after each row with NCCL's own choice, one row for every other algorithm and
 * protocol that NCCL offers there (tuner.h), and the word whether the choice was the best one (algorithm_ranking.h).
 * What NCCL did not carry out as wished is told as such, and never as measured.
 */
#ifndef BB_COLLECTIVES_SWEEP_ALGORITHMS_H
#define BB_COLLECTIVES_SWEEP_ALGORITHMS_H

#include "collectives/sweep/algorithm_ranking.h"
#include "collectives/sweep/bench_report.h"

/* Zeroed is empty. */
struct bb_algorithms {
    struct bb_world *world;
    const struct bb_bench_context *ctx;
    bool shared_gpu; /* times mean nothing: no verdict */
    int cycle;
    json_t *all;                               /* of the run, one object per contest; rank 0     */
    struct bb_ranking rankings[BB_PLACEMENTS]; /* of the current row                               */
    int judged, not_best, unjudged; /* of the table: contests, lost by NCCL's choice, rows without a choice */
    char *best_text;                /* lines for the end of the table; rank 0                                       */
    unsigned statuses[BB_COMBINATIONS][BB_CANDIDATE_COUNT]; /* of the table */
};

/* What measures a row (the placements that it wants, with all ranks), and what reports it. */
struct bb_row_callbacks {
    int (*measure)(void *arg, struct bb_row *row);
    int (*report)(void *arg, struct bb_row *row);
    void *arg;
};

/* bb_algorithms_row - all ranks together, after `own`, NCCL's choice, was measured and reported. */
int bb_algorithms_row(struct bb_algorithms *a, const struct bb_row *chosen,
                      const struct bb_row_callbacks *calls) BB_MUST_CHECK;

/* bb_algorithms_table - the end of a table: its lines to `out` (NULL: none), its contests to the results. */
int bb_algorithms_table(struct bb_algorithms *a, FILE *out, struct bb_results *results) BB_MUST_CHECK;

void bb_algorithms_release(struct bb_algorithms *a);

#endif
