/* options.h - options of `busbar proxy` and `busbar plan`: what shapes `transformer`. */
#ifndef BB_PROXIES_TRANSFORMER_OPTIONS_H
#define BB_PROXIES_TRANSFORMER_OPTIONS_H

#include "bootstrap/opts.h"

/* 0, false and NULL: not given. Nothing has a default text, so that what a proxy does not know can be refused. */
struct bb_transformer_options {
    int reserved;
};

extern const struct bb_opt bb_transformer_options[];

#endif
