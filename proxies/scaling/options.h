/* options.h - options of `busbar proxy` and `busbar plan`: what `scaling` measures. */
#ifndef BB_PROXIES_SCALING_OPTIONS_H
#define BB_PROXIES_SCALING_OPTIONS_H

#include "bootstrap/opts.h"

/* 0, false and NULL: not given. Nothing has a default text, so that what a proxy does not know can be refused. */
struct bb_scaling_options {
    int reserved;
};

extern const struct bb_opt bb_scaling_options[];

#endif
