/* scaling_options.h - options of `busbar proxy` and `busbar plan`: what `scaling` measures. */
#ifndef BB_PROXIES_REPLICAS_SCALING_OPTIONS_H
#define BB_PROXIES_REPLICAS_SCALING_OPTIONS_H

#include "bootstrap/cli/opts.h"

/* Offsets are those of struct bb_scaling_options (step/config.h). */
extern const struct bb_opt bb_scaling_options[];

#endif
