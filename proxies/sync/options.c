/* options.c - the rows (see options.h). */
#include "proxies/sync/options.h"

const struct bb_opt bb_sync_options[] = {
    {0},
};
