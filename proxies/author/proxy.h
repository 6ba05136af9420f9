/* proxy.h - what a proxy is: a builder and its row. The rows are listed in registry/registry.c. */
#ifndef BB_PROXIES_AUTHOR_PROXY_H
#define BB_PROXIES_AUTHOR_PROXY_H

#include "proxies/step/config.h"
#include "proxies/step/step.h"

/* Options that not every proxy knows what to do with; the others refuse them. */
enum bb_proxy_feature {
    BB_FEATURE_LAYERS = 1,
    BB_FEATURE_STAGES = 2,
    BB_FEATURE_MICRO_BATCHES = 4,
    BB_FEATURE_SCALE = 8,
    BB_FEATURE_PER_TENSOR = 16,
    BB_FEATURE_TIMED = 32,    /* --compute timed                 */
    BB_FEATURE_LAYER_US = 64, /* --forward-us, --backward-us     */
    BB_FEATURE_TFLOPS = 128,
    BB_FEATURE_GEMM = 256, /* --compute gemm */
    BB_FEATURE_MODEL = 512,
    BB_FEATURE_MICRO_BATCH_SIZE = 1024,
    BB_FEATURE_NODES = 2048,       /* --gpus-per-node */
    BB_FEATURE_TRANSFORMER = 4096, /* each of these: the options of that table */
    BB_FEATURE_SYNC = 8192,
    BB_FEATURE_TILES = 16384,
    BB_FEATURE_SCALING = 32768,
    BB_FEATURE_GLOBAL_BATCH = 65536,
};

struct bb_proxy {
    const char *name, *help;
    unsigned features;         /* enum bb_proxy_feature                                                            */
    const char *dtype;      /* what --dtype is unless given; NULL: float, as the originals              */
    const char *compute;    /* what --compute is unless given: what the original does, "none" or "timed" */
    const char *positional; /* "[L S [M]]" for the help, NULL: takes none                              */
    int (*parse_positionals)(struct bb_proxy_config *, const char *const *words, int n); /* n > 0 words  */
    int (*defaults)(struct bb_proxy_config *);                      /* fills what the user left open  */
    int (*build)(const struct bb_proxy_config *, struct bb_step *); /* bad layouts: said, -BB_EUSAGE  */
    const char *model; /* its file in profiles/models; NULL: none, or it is asked for                  */
    const void
        *variant; /* what a builder of several rows is told by each, as config->variant; NULL                   */
};

#endif
