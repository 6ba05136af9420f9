/* scaling_options.c - the rows (see scaling_options.h). */
#include "proxies/replicas/scaling_options.h"

#include "proxies/step/config.h"

static const char *const modes[] = {"weak", "strong", NULL};
static const char *const formats[] = {"epochs", "synthetic", NULL};

#define FIELD(name) .offset = offsetof(struct bb_scaling_options, name)

const struct bb_opt bb_scaling_options[] = {
    {.name = "mode",
     .kind = BB_OPT_WORD,
     FIELD(mode),
     .arg = "MODE",
     .help = "what stays the same from one number of ranks to another, the batch of each rank or of all together "
             "(default: weak)",
     .words = modes},
    {.name = "batch",
     .kind = BB_OPT_INT,
     FIELD(batch),
     .arg = "B",
     .help = "weak: samples of each rank; strong: of all ranks together (default: 128, of synthetic 32)",
     .min = 1,
     .max = 1e8},
    {.name = "format",
     .kind = BB_OPT_WORD,
     FIELD(format),
     .arg = "FORM",
     .help = "epochs over a data set, or Horovod's synthetic benchmark, 10 times 10 batches (default: epochs)",
     .words = formats},
    {.name = "epochs", .kind = BB_OPT_INT, FIELD(epochs), .arg = "E", .help = "(default: 3)", .min = 1, .max = 1e4},
    {.name = "images",
     .kind = BB_OPT_INT,
     FIELD(images),
     .arg = "N",
     .help = "samples of the data set, divided over the ranks (default: 50000)",
     .min = 1,
     .max = 1e9},
    {.name = "epoch-steps",
     .kind = BB_OPT_INT,
     FIELD(epoch_steps),
     .arg = "N",
     .help = "run only N of the full steps of an epoch and scale their time up (default: run all)",
     .min = 1,
     .max = 1e8},
    {.name = "baseline",
     .kind = BB_OPT_STRING,
     FIELD(baseline),
     .arg = "FILE",
     .help = "results (--json) of a run of the same study on fewer ranks, for speed-up and efficiency"},
    {0},
};
