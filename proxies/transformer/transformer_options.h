/* transformer_options.h - options of `busbar proxy` and `busbar plan`: what shapes `transformer`. */
#ifndef BB_PROXIES_TRANSFORMER_TRANSFORMER_OPTIONS_H
#define BB_PROXIES_TRANSFORMER_TRANSFORMER_OPTIONS_H

#include "bootstrap/cli/opts.h"

/* Offsets are those of struct bb_transformer_options (step/config.h). */
extern const struct bb_opt bb_transformer_options[];

#endif
