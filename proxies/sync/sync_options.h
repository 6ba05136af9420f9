/* sync_options.h - options of `busbar proxy` and `busbar plan`: how gradients and parameters are kept together. */
#ifndef BB_PROXIES_SYNC_SYNC_OPTIONS_H
#define BB_PROXIES_SYNC_SYNC_OPTIONS_H

#include "bootstrap/cli/opts.h"

/* Offsets are those of struct bb_sync_options (step/config.h). */
extern const struct bb_opt bb_sync_options[];

#endif
