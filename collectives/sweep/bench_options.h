/*
 * bench_options.h - the command line of `busbar bench COLLECTIVE`, and the sweep (the sequence of cases, cases.h) that
 * the options define. Requires neither MPI nor a GPU.
 */
#ifndef BB_COLLECTIVES_SWEEP_BENCH_OPTIONS_H
#define BB_COLLECTIVES_SWEEP_BENCH_OPTIONS_H

#include "bootstrap/cli/opts.h"
#include "collectives/measure/sampling_options.h"
#include "collectives/sweep/busbw_reference.h"
#include "collectives/sweep/busbw_thresholds.h"
#include "collectives/sweep/cases.h"
#include "collectives/variants/variant_kinds.h"

struct bb_bench_options {
    struct bb_common common;
    struct bb_sampling_options sampling;
    size_t min_bytes, max_bytes, step_bytes;
    double factor;
    int iterations; /* timed operations per sample */
    int repeats;    /* number of samples in each result */
    int warmup;     /* warm-up operations before the first sample */
    int checks;     /* number of verifications of received data per result; the first one verifies the last timed
                   operation */
    int root;       /* root rank, parsed from `roots`; -1: every rank in turn */
    const char *dtype, *redop, *placement;      /* dtype, redop: name of a data type or reduction operation, or "all";
                                              placement: "both", "out_of_place" or "in_place" */
    const char *roots, *sizes, *split, *matrix; /* value of the option as typed; NULL: not given */
    double matrix_scale, imbalance;
    int aggregate, blocking, null_stream, graph_launches, host_time, rank_aggregation, registration;
    int cta_policy, min_ctas, max_ctas, unalign, memory, timestamps, cycles, per_iteration, skipped;
    int nvlink_centric_sched, max_p2p_peers;
    const char *device; /* name of enum bb_device_path; NULL: NCCL's own implementation */
    int device_ctas;    /* 0: BB_DEVICE_CTAS */
    bool element_wise;  /* set for nccl-tests only, not by an option: --device accesses elements one by one */
    const char *sweep_variants, *gemm; /* values of the options as typed; NULL: not given */
    bool with_gemm;
    int variants[BB_VARIANTS], n_variants;  /* parsed from sweep_variants: indices into bb_variant_kinds */
    int64_t gemm_mnk[3];                    /* parsed from gemm */
    const char *write_tuner, *tuner_format; /* write_tuner: file; NULL: not given */
    double tuner_gain_percent;
    const char *expect;                          /* value of --expect as typed; NULL: not given */
    const char *min_of_expected;                 /* value of --min-of-expected as typed; NULL: not given */
    const char *min_busbw;                       /* value of --min-busbw as typed; NULL: not given */
    struct bb_busbw_thresholds busbw_thresholds; /* parsed from min_busbw, or the fraction from min_of_expected */
    bool min_busbw_from_nccl_tests;              /* min_busbw is 90 % of NCCL_TESTS_MIN_BW */
    int first_device; /* set by nccl-tests' environment only, not by an option: ordinal of the GPU of the first rank
                         on each host */
    bb_forecast *forecast; /* predicts the results (busbw_reference.h); NULL: --expect accepts only result files */
    bool fit_memory;       /* set for nccl-tests only, not by an option. true: reduce the largest size until the buffers
                        fit in GPU memory; false: end with an error */
};

extern const struct bb_opt bb_bench_case_rows[];   /* options that select the cases: sizes, types, operations. `busbar
                                                    plan` has these options too */
extern const struct bb_opt bb_bench_option_rows[]; /* options that select how the cases are measured */
extern const struct bb_opts bb_bench_set;

/*
 * bb_bench_resolve - validate the parsed options and derive the sweep (the sequence of cases, cases.h). Options whose
 * validity depends on the number of ranks are validated later.
 *   sweep        out: release with bb_bench_release_sweep
 *   collectives  positional arguments: names of collectives, or "all"
 *   Returns      0, or -BB_EUSAGE after printing one error line
 */
int bb_bench_resolve(struct bb_bench_options *o, struct bb_sweep *sweep,
                     const struct bb_positionals *collectives) BB_MUST_CHECK;
/* bb_bench_resolve_cases - validate only the options in bb_bench_case_rows and derive the sweep from them. Parameters
 * and result are those of bb_bench_resolve. */
int bb_bench_resolve_cases(struct bb_bench_options *o, struct bb_sweep *sweep,
                           const struct bb_positionals *collectives) BB_MUST_CHECK;
/* bb_bench_factor - return the factor between sizes; 0: the sizes have an increment. */
double bb_bench_factor(const struct bb_bench_options *o);
void bb_bench_release_sweep(struct bb_sweep *sweep);

/*
 * bb_bench_parse - parse and resolve the options and positional arguments.
 *   argv     argv[0] is ignored
 *   out      stream for the help text
 *   Returns  0, BB_OPTS_HELP after printing the help, or -BB_EUSAGE after printing one error line
 */
int bb_bench_parse(struct bb_bench_options *o, struct bb_sweep *sweep, int argc, char **argv, FILE *out) BB_MUST_CHECK;

/* bb_bench_run - run `busbar bench COLLECTIVE`; defined in busbar-rank. forecast: predicts the results for --expect.
 * Returns 0, BB_OPTS_HELP after printing the help, or -BB_E... */
int bb_bench_run(bb_forecast *forecast, int argc, char **argv);

/*
 * bb_bench_execute - measure all cases of a sweep, from initialization to teardown; defined in busbar-rank.
 *   o, sweep  validated options, and the sweep derived from them; this function releases the sweep
 *   style     output format of the table on stdout and of the results file (bench_report.h)
 *   argv      command line to record in the results
 *   Returns   0, BB_OPTS_HELP after printing the help, or -BB_E...
 */
struct bb_report_style;
int bb_bench_execute(const struct bb_bench_options *o, const struct bb_sweep *sweep,
                     const struct bb_report_style *style, int argc, char **argv) BB_MUST_CHECK;

#endif
