/* options.c - the rows (see options.h). */
#include "proxies/scaling/options.h"

const struct bb_opt bb_scaling_options[] = {
    {0},
};
