/*
 * sampling_options.h - options that select how the time of a collective is sampled: timing mode, number of samples,
 * warm-up, order of message sizes, artificial delays. Requires neither MPI nor a GPU.
 */
#ifndef BB_COLLECTIVES_MEASURE_SAMPLING_OPTIONS_H
#define BB_COLLECTIVES_MEASURE_SAMPLING_OPTIONS_H

#include "bootstrap/cli/opts.h"

#include <stdbool.h>
#include <stdint.h>

/* What the host does after each iteration. The values are those of nccl-tests' option -z. */
enum bb_blocking {
    BB_BLOCK_NONE,
    BB_BLOCK_BARRIER,         /* waits until the iteration is complete, then enters a barrier over all ranks */
    BB_BLOCK_WAIT,            /* waits until the iteration is complete */
    BB_BLOCK_UNTIMED_BARRIER, /* waits until the iteration is complete, then enters a barrier that is not timed */
    BB_BLOCK_COUNT
};

/* How the times of the ranks are combined into one time, such as their maximum. The values are those of nccl-tests'
 * option -a. */
enum bb_rank_aggregation {
    BB_AGGREGATE_FIRST,
    BB_AGGREGATE_MEAN,
    BB_AGGREGATE_MIN,
    BB_AGGREGATE_MAX,
    BB_AGGREGATE_COUNT
};
extern const char *const bb_rank_aggregation_names[BB_AGGREGATE_COUNT];

struct bb_sampling_options {
    const char *mode;   /* name of a timing mode, or "all"; NULL: selected by -G and -z */
    const char *clock;  /* clock that measures the times: "gpu" (CUDA events), "host", or "both" */
    const char *warmup; /* "fixed": run the given number of warm-up operations; "auto": then run more until their
                           times show no trend */
    const char *confidence, *shuffle, *delay; /* value of the option as typed; NULL: not given */
    int start_barrier, max_iterations;
    bool show_choice, sweep_algorithms;
    double start_barrier_limit_ms; /* time after which a closed start barrier opens by itself, in ms */
    double max_s;
    /* --confidence as a fraction, 0.01 for 1%: half the width of the median's 95 % confidence interval, divided by the
     * median, at which sampling stops; 0: not given. bb_sampling_resolve sets this field, seed and delayed_rank */
    double confidence_fraction;
    uint64_t seed;    /* seed of --shuffle */
    int delayed_rank; /* highest rank named in --delay; -1: none */
};

extern const struct bb_opt bb_sampling_option_rows[];

/* bb_sampling_resolve - validate the options given as text, and set the fields derived from them. Returns 0, or
 * -BB_EUSAGE after printing one error line. */
int bb_sampling_resolve(struct bb_sampling_options *o) BB_MUST_CHECK;

/*
 * bb_sampling_parse_delays - parse a list of delays: "1:100,3:50" sets us[1] = 100 and us[3] = 50.
 *   ranks    number of elements of `us`; delays of ranks at or above this number are ignored
 *   us       in and out: [ranks] delay in microseconds; elements of unlisted ranks are unchanged
 *   highest  out: highest rank in the list; -1 if text is NULL
 *   Returns  0, or -BB_EUSAGE after printing one error line
 */
int bb_sampling_parse_delays(const char *text, int ranks, double *us, int *highest) BB_MUST_CHECK;

#endif
