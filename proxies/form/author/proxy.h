/* proxy.h - struct bb_proxy, the definition of a proxy: a function that builds its training step, and its
 * properties. registry/registry.c lists all proxies. */
#ifndef BB_PROXIES_FORM_AUTHOR_PROXY_H
#define BB_PROXIES_FORM_AUTHOR_PROXY_H

#include "proxies/form/step/config.h"
#include "proxies/form/step/step.h"

/* Options that a proxy supports: one bit per option or set of options. An option whose bit is not set in the proxy
 * is rejected with an error if the user gives it. */
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
    BB_FEATURE_TRANSFORMER = 4096, /* this bit and the next three bits: all options in bb_transformer_options,
                                      bb_sync_options, bb_tiles_options and bb_scaling_options */
    BB_FEATURE_SYNC = 8192,
    BB_FEATURE_TILES = 16384,
    BB_FEATURE_SCALING = 32768,
    BB_FEATURE_GLOBAL_BATCH = 65536,
    BB_FEATURE_SCHEDULE = 262144,
    BB_FEATURE_IMAGES = 524288, /* --image-size, --filters, a list in --micro-batch-size */
    BB_FEATURE_STEP = 131072,   /* options that every proxy supports (--dtype, --compute, --scale-counts), but not the
                                 plan of a single collective */
    BB_FEATURE_OWN_AXES = 1 << 29, /* no options: the proxy's own layout divides layers among ranks, so that --tp 1,
                                      --ep 1 and --etp 1 contradict it; bits 20 to 28: enum bb_plan_feature */
};

struct bb_proxy {
    const char *name, *help;
    unsigned features;   /* bits of enum bb_proxy_feature */
    const char *dtype;   /* default value of --dtype, as in the application that the proxy reproduces; NULL: "float" */
    const char *compute; /* default value of --compute, "none" or "timed", as in the application that the proxy
                            reproduces */
    const char *positional; /* positional arguments as shown in the help: "[L S [M]]"; NULL: the proxy accepts none */
    /* parses n > 0 positional arguments into the config; returns 0 or -BB_EUSAGE */
    int (*parse_positionals)(struct bb_proxy_config *, const char *const *words, int n);
    int (*defaults)(struct bb_proxy_config *); /* sets defaults for options that are not given; may be NULL */
    /* builds the step; returns 0 or a negative error, -BB_EUSAGE after printing an error line for an invalid layout */
    int (*build)(const struct bb_proxy_config *, struct bb_step *);
    const char *with_compute; /* proxy and options that compute the step of the same model; NULL: none */
    const char *model;        /* default model, a file in profiles/models; NULL: no model, or --model is required */
    const void
        *variant; /* copied to config->variant: distinguishes proxies that share one build function; may be NULL */
};

#endif
