/*
 * figures.h - how the figures of a row are taken, as options: mode, samples, warm-up, order of sizes, imposed skew.
 * Zeroed is what nccl-tests does. Needs neither MPI nor a GPU.
 */
#ifndef BB_COLLECTIVES_FIGURES_H
#define BB_COLLECTIVES_FIGURES_H

#include "bootstrap/opts.h"

#include <stdbool.h>
#include <stdint.h>

struct bb_figure_options {
    const char *mode;                         /* a word of bb_modes, "all", or NULL: what -G and -z say */
    const char *warmup;                       /* "fixed", "auto"                                        */
    const char *confidence, *shuffle, *delay; /* as typed, NULL without                               */
    int gate, max_iterations;
    bool show_choice, sweep_algorithms;
    double gate_ms; /* longest that the gate stays closed */
    double max_s;
    double confidence_part; /* from here on made by bb_figures_settle: 0.01 for 1%, 0 without */
    uint64_t seed;          /* of shuffle                                                     */
    int delayed_rank;       /* the highest of delay, -1 without                               */
};

extern const struct bb_opt bb_figure_option_rows[];

/* bb_figures_settle - what the texts say. Returns 0 or -BB_EUSAGE after one line. */
int bb_figures_settle(struct bb_figure_options *o) BB_MUST_CHECK;

/*
 * bb_figures_delays - "1:100,3:50": us[1] = 100, us[3] = 50; the others stay as they are. Ranks from `ranks` on are
 * left out; *highest is the highest that is named. Returns 0 or -BB_EUSAGE after one line.
 */
int bb_figures_delays(const char *text, int ranks, double *us, int *highest) BB_MUST_CHECK;

#endif
