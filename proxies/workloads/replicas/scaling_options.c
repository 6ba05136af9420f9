/* scaling_options.c - options of the proxy scaling (see step/config.h). */
#include "proxies/form/step/config.h"

static const char *const modes[] = {"weak", "strong", NULL};
static const char *const formats[] = {"epochs", "synthetic", NULL};

#define FIELD(name) offsetof(struct bb_scaling_options, name)

const struct bb_opt bb_scaling_options[] = {
    OPT_CHOICE(0, "mode", FIELD(mode), NULL, "MODE", modes,
               "scaling mode. weak: fixed batch per rank; strong: fixed global batch (default: weak)"),
    OPT_INT(0, "batch", FIELD(batch), NULL, "B", 1, 1e8,
            "samples per step. weak: of each rank; strong: of all ranks (default: 128; --format synthetic: 32)"),
    OPT_CHOICE(
        0, "format", FIELD(format), NULL, "FORM", formats,
        "epochs over a data set, or Horovod's synthetic benchmark: 10 iterations of 10 batches (default: epochs)"),
    OPT_INT(0, "epochs", FIELD(epochs), NULL, "E", 1, 1e4, "number of epochs (default: 3)"),
    OPT_INT(0, "images", FIELD(images), NULL, "N", 1, 1e9,
            "samples in the data set, divided among the ranks (default: 50000)"),
    OPT_INT(0, "epoch-steps", FIELD(epoch_steps), NULL, "N", 1, 1e8,
            "only for runs (busbar proxy): run only N full steps per epoch and extrapolate the time of the epoch "
            "(default: run all)"),
    OPT_STRING(0, "baseline", FIELD(baseline), NULL, "FILE",
               "only for runs (busbar proxy): results (--json) of the same study on fewer ranks; reports speed-up and "
               "efficiency against it"),
    {0},
};
