/* tiles_options.h - options of `busbar proxy` and `busbar plan`: how images and layers are cut. */
#ifndef BB_PROXIES_SPATIAL_TILES_OPTIONS_H
#define BB_PROXIES_SPATIAL_TILES_OPTIONS_H

#include "bootstrap/cli/opts.h"

/* Offsets are those of struct bb_tiles_options (step/config.h). */
extern const struct bb_opt bb_tiles_options[];

#endif
