/*
 * algorithms.h - option --sweep-algorithms: after each row with NCCL's own choice, measures one row for every other
 * algorithm and protocol that NCCL offers for the operation (tuner.h), and reports whether NCCL's choice was the best
 * one (algorithm_ranking.h). A combination that NCCL did not run although it was forced is reported as not measured.
 */
#ifndef BB_COLLECTIVES_SWEEP_ALGORITHMS_H
#define BB_COLLECTIVES_SWEEP_ALGORITHMS_H

#include "collectives/sweep/algorithm_ranking.h"
#include "collectives/sweep/bench_report.h"

/* State of a run. A zeroed struct is valid and empty. */
struct bb_algorithms {
    struct bb_world *world;
    const struct bb_bench_context *ctx;
    bool shared_gpu; /* times are meaningless: all verdicts are BB_VERDICT_UNKNOWN */
    int cycle;
    json_t *all;                               /* array with one object per ranking of the run; rank 0 only */
    struct bb_ranking rankings[BB_PLACEMENTS]; /* rankings of the current row */
    int judged, not_best, unjudged; /* counts of the current table: rankings with a verdict, rankings that NCCL's
                                       choice lost, rows for which NCCL chose no algorithm */
    char *best_text;                /* lines for the footer of the table; rank 0 only, NULL: none */
    unsigned statuses[BB_COMBINATIONS][BB_CANDIDATE_COUNT]; /* counts per combination and status in the current table */
};

/* Functions that measure the wanted placements of a row (collective) and report the row. */
struct bb_row_callbacks {
    int (*measure)(void *arg, struct bb_row *row);
    int (*report)(void *arg, struct bb_row *row);
    void *arg;
};

/* bb_algorithms_row - force and measure all other combinations for the row `chosen`, which was measured with NCCL's
 * own choice and already reported. Collective. */
int bb_algorithms_row(struct bb_algorithms *a, const struct bb_row *chosen,
                      const struct bb_row_callbacks *calls) BB_MUST_CHECK;

/* bb_algorithms_table - end a table: print its ranking lines to `out` (NULL: none), write all rankings so far to the
 * results, and reset the counts. */
int bb_algorithms_table(struct bb_algorithms *a, FILE *out, struct bb_results *results) BB_MUST_CHECK;

void bb_algorithms_release(struct bb_algorithms *a);

#endif
