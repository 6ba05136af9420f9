/* options.c - the rows (see options.h). */
#include "proxies/spatial/options.h"

const struct bb_opt bb_tiles_options[] = {
    {0},
};
