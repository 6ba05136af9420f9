/* options.h - options of `busbar proxy` and `busbar plan`: how images and layers are cut. */
#ifndef BB_PROXIES_SPATIAL_OPTIONS_H
#define BB_PROXIES_SPATIAL_OPTIONS_H

#include "bootstrap/opts.h"

/* 0, false and NULL: not given. Nothing has a default text, so that what a proxy does not know can be refused. */
struct bb_tiles_options {
    int reserved;
};

extern const struct bb_opt bb_tiles_options[];

#endif
