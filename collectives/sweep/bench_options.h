/*
 * bench_options.h - the command line of `busbar bench`, turned into a sweep. Needs neither MPI nor a GPU.
 */
#ifndef BB_COLLECTIVES_SWEEP_BENCH_OPTIONS_H
#define BB_COLLECTIVES_SWEEP_BENCH_OPTIONS_H

#include "bootstrap/cli/opts.h"
#include "collectives/sweep/busbw_thresholds.h"
#include "collectives/sweep/cases.h"
#include "collectives/sweep/sampling_options.h"

struct bb_bench_options {
    struct bb_common common;
    struct bb_sampling_options sampling;
    size_t min_bytes, max_bytes, step_bytes;
    double factor;
    int iterations;                             /* timed operations per sample                      */
    int repeats;                                /* samples per row                                  */
    int warmup;                                 /* operations before the first sample               */
    int checks;                                 /* verified passes per row: the last timed one first */
    int root;                                   /* of `roots`, -1: all in turn                */
    const char *dtype, *redop, *placement;      /* words of their tables, or "all" / "both" */
    const char *roots, *sizes, *split, *matrix; /* as typed */
    double matrix_scale, imbalance;
    int aggregate, blocking, null_stream, graph_launches, host_time, rank_aggregation, registration;
    int cta_policy, min_ctas, max_ctas, unalign, memory, timestamps, cycles, per_iteration, skipped;
    int nvlink_centric_sched, max_p2p_peers;
    const char *min_busbw;                       /* as typed */
    struct bb_busbw_thresholds busbw_thresholds; /* of it */
    int first_device;                            /* number of the first rank's GPU on each host; no option            */
    bool fit_memory;                             /* lower the last size until it fits, instead of refusing; no option */
};

extern const struct bb_opt bb_bench_case_rows[];   /* what is timed: sizes, types, operations; of plans, too */
extern const struct bb_opt bb_bench_option_rows[]; /* how */
extern const struct bb_opts bb_bench_set;

/*
 * bb_bench_settle - the sweep of parsed options and of the collectives named. What the options mean together is checked
 * here; what they mean with a number of ranks is not. The traffic of the sweep is owned by bb_bench_release_sweep.
 */
int bb_bench_resolve(struct bb_bench_options *o, struct bb_sweep *sweep,
                     const struct bb_positionals *collectives) BB_MUST_CHECK;
/* bb_bench_settle_cases - the same of bb_bench_case_rows alone: which rows the table has. */
int bb_bench_resolve_cases(struct bb_bench_options *o, struct bb_sweep *sweep,
                           const struct bb_positionals *collectives) BB_MUST_CHECK;
void bb_bench_release_sweep(struct bb_sweep *sweep);

/*
 * bb_bench_parse - options and sweep from argv (argv[0] is not read). Help goes to `out`. Returns 0, BB_OPTS_HELP, or
 * -BB_EUSAGE after one line.
 */
int bb_bench_parse(struct bb_bench_options *o, struct bb_sweep *sweep, int argc, char **argv, FILE *out) BB_MUST_CHECK;

#endif
