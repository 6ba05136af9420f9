/*
 * sampling_options.h - options that select how a row is sampled: mode, number of samples, warm-up, order of sizes,
 * imposed delays. A zeroed struct samples as nccl-tests does. Requires neither MPI nor a GPU.
 */
#ifndef BB_COLLECTIVES_SWEEP_SAMPLING_OPTIONS_H
#define BB_COLLECTIVES_SWEEP_SAMPLING_OPTIONS_H

#include "bootstrap/cli/opts.h"

#include <stdbool.h>
#include <stdint.h>

/* What the host does after each iteration, with the values of nccl-tests' option -z. */
enum bb_blocking {
    BB_BLOCK_NONE,
    BB_BLOCK_BARRIER,         /* wait for the iteration, then a barrier over all ranks */
    BB_BLOCK_WAIT,            /* wait for the iteration */
    BB_BLOCK_UNTIMED_BARRIER, /* wait, then a barrier outside of the timed section */
    BB_BLOCK_COUNT
};

/* How the times of the ranks become one time, with the values of nccl-tests' option -a. */
enum bb_rank_aggregation {
    BB_AGGREGATE_FIRST,
    BB_AGGREGATE_MEAN,
    BB_AGGREGATE_MIN,
    BB_AGGREGATE_MAX,
    BB_AGGREGATE_COUNT
};
extern const char *const bb_rank_aggregation_names[BB_AGGREGATE_COUNT];

struct bb_sampling_options {
    const char *mode;                         /* name of a bb_mode, or "all"; NULL: selected by -G and -z */
    const char *clock;                        /* "both", "gpu", "host" */
    const char *warmup;                       /* "fixed", "auto" */
    const char *confidence, *shuffle, *delay; /* as given; NULL: not given */
    int start_barrier, max_iterations;
    bool show_choice, sweep_algorithms;
    double start_barrier_limit_ms; /* time limit of the start barrier */
    double max_s;
    double confidence_fraction; /* this and the following fields are set by bb_sampling_resolve: 0.01 for 1%; 0: not
                                   given */
    uint64_t seed;              /* seed of shuffle */
    int delayed_rank;           /* highest rank in `delay`; -1: none */
};

extern const struct bb_opt bb_sampling_option_rows[];

/* bb_sampling_resolve - parse and validate the options given as text. Returns 0 or -BB_EUSAGE after printing one
 * line. */
int bb_sampling_resolve(struct bb_sampling_options *o) BB_MUST_CHECK;

/*
 * bb_sampling_parse_delays - parse a list such as "1:100,3:50": us[1] = 100, us[3] = 50.
 *   ranks    number of elements of `us`; entries for higher ranks are ignored
 *   us       in and out: [ranks] microseconds; elements of other ranks are unchanged
 *   highest  out: highest rank in the list, -1 if text is NULL
 *   Returns  0, or -BB_EUSAGE after printing one line
 */
int bb_sampling_parse_delays(const char *text, int ranks, double *us, int *highest) BB_MUST_CHECK;

#endif
