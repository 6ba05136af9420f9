/* scaling_options.h - options of `busbar proxy` and `busbar plan`: what `scaling` measures. */
#ifndef BB_PROXIES_REPLICAS_SCALING_OPTIONS_H
#define BB_PROXIES_REPLICAS_SCALING_OPTIONS_H

#include "bootstrap/cli/opts.h"

/* Which program of a study is built. */
enum bb_scaling_part {
    BB_SCALING_STEP,      /* a full step                                          */
    BB_SCALING_LAST,      /* the short last step of an epoch                      */
    BB_SCALING_BROADCAST, /* once before training: rank 0's state to everybody    */
};

/* 0, false and NULL: not given. Nothing has a default text, so that what a proxy does not know can be refused. */
struct bb_scaling_options {
    const char *mode;     /* weak, strong                                         */
    const char *format;   /* epochs, synthetic                                    */
    int batch;            /* weak: of each rank; strong: of all ranks together    */
    int epochs, images;   /* images of the data set                               */
    int epoch_steps;      /* full steps of an epoch that are run, 0: all          */
    const char *baseline; /* file of a former run                                 */

    enum bb_scaling_part part; /* not an option */
};

extern const struct bb_opt bb_scaling_options[];

#endif
