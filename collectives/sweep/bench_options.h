/*
 * bench_options.h - the command line of `busbar bench COLLECTIVE`, and its conversion to a sweep. Requires neither MPI
 * nor a GPU.
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
    int iterations;                             /* timed operations per sample */
    int repeats;                                /* samples per row */
    int warmup;                                 /* operations before the first sample */
    int checks;                                 /* verification passes per row, the last timed operation first */
    int root;                                   /* parsed from `roots`; -1: every rank in turn */
    const char *dtype, *redop, *placement;      /* names from the respective tables, or "all" / "both" */
    const char *roots, *sizes, *split, *matrix; /* as given; NULL: not given */
    double matrix_scale, imbalance;
    int aggregate, blocking, null_stream, graph_launches, host_time, rank_aggregation, registration;
    int cta_policy, min_ctas, max_ctas, unalign, memory, timestamps, cycles, per_iteration, skipped;
    int nvlink_centric_sched, max_p2p_peers;
    const char *min_busbw;                       /* as given; NULL: not given */
    struct bb_busbw_thresholds busbw_thresholds; /* parsed from min_busbw */
    int first_device;                            /* ordinal of the first rank's GPU on each host; not an option */
    bool fit_memory; /* reduce the last size until the buffers fit, instead of failing; not an option */
};

extern const struct bb_opt bb_bench_case_rows[];   /* which cases are measured: sizes, types, operations; plans use
                                                    these options too */
extern const struct bb_opt bb_bench_option_rows[]; /* how the cases are measured */
extern const struct bb_opts bb_bench_set;

/*
 * bb_bench_resolve - validate the parsed options and derive the sweep. Options that depend on the number of ranks are
 * validated later.
 *   sweep        out: bb_bench_release_sweep releases its alltoallv counts
 *   collectives  positional arguments: names of collectives, or "all"
 *   Returns      0, or -BB_EUSAGE after printing one line
 */
int bb_bench_resolve(struct bb_bench_options *o, struct bb_sweep *sweep,
                     const struct bb_positionals *collectives) BB_MUST_CHECK;
/* bb_bench_resolve_cases - as bb_bench_resolve, for the options of bb_bench_case_rows only. */
int bb_bench_resolve_cases(struct bb_bench_options *o, struct bb_sweep *sweep,
                           const struct bb_positionals *collectives) BB_MUST_CHECK;
void bb_bench_release_sweep(struct bb_sweep *sweep);

/*
 * bb_bench_parse - parse the options and positional arguments and resolve them.
 *   argv     argv[0] is ignored
 *   out      stream for the help
 *   Returns  0, BB_OPTS_HELP after printing the help, or -BB_EUSAGE after printing one line
 */
int bb_bench_parse(struct bb_bench_options *o, struct bb_sweep *sweep, int argc, char **argv, FILE *out) BB_MUST_CHECK;

#endif
