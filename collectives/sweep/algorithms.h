/*
 * algorithms.h - option --sweep-algorithms. After each row with NCCL's own choice, measures one row for every other
 * algorithm/protocol pair that NCCL offers for the operation (tuner.h), and reports whether NCCL's choice was the best
 * (algorithm_ranking.h). If NCCL ran another pair than the forced one, the forced pair is reported as not measured.
 * Option --write-tuner: measures the gains a second time and writes them to a configuration of NCCL's tuner
 * (tuner_file.h).
 */
#ifndef BB_COLLECTIVES_SWEEP_ALGORITHMS_H
#define BB_COLLECTIVES_SWEEP_ALGORITHMS_H

#include "collectives/session/tuner_file.h"
#include "collectives/sweep/algorithm_ranking.h"
#include "collectives/sweep/bench_report.h"

/* A measured case, and the buffer placements that were measured. */
struct bb_tuned_case {
    struct bb_case c;
    size_t bytes; /* as NCCL passes it to tuners */
    bool measured[BB_PLACEMENTS];
};

/* State of option --sweep-algorithms in a run. A zero-initialized struct is empty. */
struct bb_algorithms {
    const struct bb_bench_context *ctx;
    struct bb_native *native; /* forces algorithms if NCCL has a configuration of single calls; NULL: the tuner does */
    /* Functions of the caller. measure: measures a row for the buffer placements (in place, out of place) in
     * row->wanted, collective over all ranks; report: prints the row and writes its results. */
    int (*measure)(void *arg, struct bb_row *row);
    int (*report)(void *arg, struct bb_row *row);
    void *arg;
    const char *sharing; /* bb_session_sharing, so all verdicts are BB_VERDICT_UNKNOWN; NULL: each rank has a GPU */
    int cycle;
    json_t *all;                               /* JSON array with one object per ranking of the run; only on rank 0 */
    struct bb_ranking rankings[BB_PLACEMENTS]; /* [placement] ranking of the current row for in-place and
                                                  out-of-place buffers */
    /* counts of the current table. judged: rankings with a verdict; not_best: rankings in which another pair was
     * significantly faster than NCCL's choice; unjudged: rankings without other pairs, because NCCL reports no cost
     * table (for example for sends and receives) */
    int judged, not_best, unjudged;
    /* the largest significant gain of the run, as factor and text; only on rank 0. "": none. ranked: results with a verdict */
    double gain;
    char gain_text[160];
    int ranked;
    char *best_text; /* lines for the footer of the table; only on rank 0. NULL: none */
    /* [algorithm * BB_PROTOCOLS + protocol][status]: number of rankings in the current table in which the
     * algorithm/protocol pair had this status */
    unsigned statuses[BB_ALGORITHM_PROTOCOLS][BB_CANDIDATE_COUNT];
    /* --write-tuner: the gains of all sizes (tuning.min_gain 0: option not given), and the cases to measure again */
    struct bb_tuning tuning;
    struct bb_tuned_case *tuned;
    size_t n_tuned;
};

/* bb_algorithms_row - force and measure all algorithm/protocol pairs except NCCL's own choice, which the caller has
 * already measured and reported as row `chosen`. Collective over all ranks. */
int bb_algorithms_row(struct bb_algorithms *a, const struct bb_row *chosen) BB_MUST_CHECK;

/* bb_algorithms_table - end a table: print the footer with the rankings to `out` (NULL: no output), write all
 * rankings of the run so far to the results, and reset the counts. */
int bb_algorithms_table(struct bb_algorithms *a, FILE *out, struct bb_results *results) BB_MUST_CHECK;

/*
 * bb_algorithms_write_tuner - measure the gains again and write the confirmed ones to the file `path`, or no file if there
 * are none. Prints one line to `out` (NULL: no output) and writes the rules to the results. Collective over all ranks.
 *   nccl     version of the running NCCL
 */
int bb_algorithms_write_tuner(struct bb_algorithms *a, const char *path, int nccl, FILE *out,
                              struct bb_results *results) BB_MUST_CHECK;

/* bb_algorithms_summary - return the largest gain of the run as text; NULL: no result has a verdict. */
const char *bb_algorithms_summary(const struct bb_algorithms *a);

void bb_algorithms_release(struct bb_algorithms *a);

#endif
