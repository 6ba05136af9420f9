/* options.c - the rows (see options.h). */
#include "proxies/transformer/options.h"

const struct bb_opt bb_transformer_options[] = {
    {0},
};
