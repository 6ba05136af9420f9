/* layer.c - one layer after another (see layer.h). */
#include "proxies/transformer/layer.h"

#include <stdlib.h>

struct bb_layers {
    struct bb_layers_config config;
    struct bb_step *step;
};

int bb_layers_new(struct bb_layers **layers, const struct bb_layers_config *config, struct bb_step *step)
{
    struct bb_layers *l = calloc(1, sizeof(*l));

    *layers = l;
    if (!l)
        return bb_err(BB_EFAIL, "out of memory for the layers of a step");
    *l = (struct bb_layers){.config = *config, .step = step};
    return 0;
}

void bb_layers_free(struct bb_layers *layers)
{
    free(layers);
}
