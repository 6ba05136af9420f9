/* transformer_options.h - options of `busbar proxy` and `busbar plan`: what shapes `transformer`. */
#ifndef BB_PROXIES_TRANSFORMER_TRANSFORMER_OPTIONS_H
#define BB_PROXIES_TRANSFORMER_TRANSFORMER_OPTIONS_H

#include "bootstrap/cli/opts.h"

/* 0, false and NULL: not given. Nothing has a default text, so that what a proxy does not know can be refused. Words
 * are the table's own, as their enums name them (schedule.h, layer.h). */
struct bb_transformer_options {
    int tp, pp, dp, cp, ep, etp; /* ranks along each axis                                    */
    const char *order;           /* of the axes, the fastest first: "tp-cp-ep-dp-pp"         */
    int vpp;                     /* chunks of layers on each stage                           */
    int first_layers;            /* layers of the first stage,                               */
    int last_layers;             /* and of the last; the rest divides over the other stages  */
    int group;                   /* micro-batches that interleaved takes in one go           */
    const char *schedule;        /* bb_schedule_names                                        */
    int sequence;                /* tokens of a sample                                       */
    bool sequence_parallel;
    const char *context;   /* "ring", "all_gather", "a2a"                              */
    const char *dispatch;  /* "alltoall", "all_gather"                                 */
    const char *recompute; /* "none", "selective", "full"                              */
    double capacity;       /* factor                                                   */
    double imbalance;      /* exponent                                                 */
    int seed;
    const char *sync; /* of gradients and parameters: bb_dp_sync_words (sync/sync.h)      */
};

extern const struct bb_opt bb_transformer_options[];

#endif
