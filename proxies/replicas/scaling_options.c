/* scaling_options.c - the rows (see step/config.h). */
#include "proxies/step/config.h"

static const char *const modes[] = {"weak", "strong", NULL};
static const char *const formats[] = {"epochs", "synthetic", NULL};

#define FIELD(name) offsetof(struct bb_scaling_options, name)

const struct bb_opt bb_scaling_options[] = {
    OPT_CHOICE(0, "mode", FIELD(mode), NULL, "MODE", modes,
             "what stays the same from one number of ranks to another, the batch of each rank or of all together "
             "(default: weak)"),
    OPT_INT(0, "batch", FIELD(batch), NULL, "B", 1, 1e8,
            "weak: samples of each rank; strong: of all ranks together (default: 128, of synthetic 32)"),
    OPT_CHOICE(0, "format", FIELD(format), NULL, "FORM", formats,
             "epochs over a data set, or Horovod's synthetic benchmark, 10 times 10 batches (default: epochs)"),
    OPT_INT(0, "epochs", FIELD(epochs), NULL, "E", 1, 1e4, "(default: 3)"),
    OPT_INT(0, "images", FIELD(images), NULL, "N", 1, 1e9,
            "samples of the data set, divided over the ranks (default: 50000)"),
    OPT_INT(0, "epoch-steps", FIELD(epoch_steps), NULL, "N", 1, 1e8,
            "run only N of the full steps of an epoch and scale their time up (default: run all)"),
    OPT_STRING(0, "baseline", FIELD(baseline), NULL, "FILE",
               "results (--json) of a run of the same study on fewer ranks, for speed-up and efficiency"),
    {0},
};
