/* options.h - options of `busbar proxy` and `busbar plan`: how gradients and parameters are kept together. */
#ifndef BB_PROXIES_SYNC_OPTIONS_H
#define BB_PROXIES_SYNC_OPTIONS_H

#include "bootstrap/opts.h"

/* 0, false and NULL: not given. Nothing has a default text, so that what a proxy does not know can be refused. */
struct bb_sync_options {
    int reserved;
};

extern const struct bb_opt bb_sync_options[];

#endif
