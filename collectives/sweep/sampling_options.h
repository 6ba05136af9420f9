/*
 * sampling_options.h - how the figures of a row are taken, as options: mode, samples, warm-up, order of sizes, imposed
 * skew. Zeroed is what nccl-tests does. Needs neither MPI nor a GPU.
 */
#ifndef BB_COLLECTIVES_SWEEP_SAMPLING_OPTIONS_H
#define BB_COLLECTIVES_SWEEP_SAMPLING_OPTIONS_H

#include "bootstrap/cli/opts.h"

#include <stdbool.h>
#include <stdint.h>

/* Numbered as nccl-tests' option -z. */
enum bb_blocking {
    BB_BLOCK_NONE,
    BB_BLOCK_BARRIER,         /* wait for each iteration, then for the other ranks               */
    BB_BLOCK_WAIT,            /* wait for each iteration                                         */
    BB_BLOCK_UNTIMED_BARRIER, /* wait and barrier, the barrier not in the time                   */
    BB_BLOCK_COUNT
};

/* Numbered as nccl-tests' option -a. */
enum bb_rank_aggregation {
    BB_AGGREGATE_FIRST,
    BB_AGGREGATE_MEAN,
    BB_AGGREGATE_MIN,
    BB_AGGREGATE_MAX,
    BB_AGGREGATE_COUNT
};
extern const char *const bb_rank_aggregation_names[BB_AGGREGATE_COUNT];

struct bb_sampling_options {
    const char *mode;                         /* a word of bb_modes, "all", or NULL: what -G and -z say */
    const char *clock;                        /* "both", "gpu", "host"                                  */
    const char *warmup;                       /* "fixed", "auto"                                        */
    const char *confidence, *shuffle, *delay; /* as typed, NULL without                               */
    int start_barrier, max_iterations;
    bool show_choice, sweep_algorithms;
    double start_barrier_limit_ms; /* longest that the gate stays closed */
    double max_s;
    double confidence_fraction; /* from here on made by bb_sampling_settle: 0.01 for 1%, 0 without */
    uint64_t seed;              /* of shuffle                                                     */
    int delayed_rank;           /* the highest of delay, -1 without                               */
};

extern const struct bb_opt bb_sampling_option_rows[];

/* bb_sampling_settle - what the texts say. Returns 0 or -BB_EUSAGE after one line. */
int bb_sampling_resolve(struct bb_sampling_options *o) BB_MUST_CHECK;

/*
 * bb_sampling_parse_delays - "1:100,3:50": us[1] = 100, us[3] = 50; the others stay as they are. Ranks from `ranks` on are
 * left out; *highest is the highest that is named. Returns 0 or -BB_EUSAGE after one line.
 */
int bb_sampling_parse_delays(const char *text, int ranks, double *us, int *highest) BB_MUST_CHECK;

#endif
