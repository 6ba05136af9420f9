/*
 * proxy.h - a proxy is a builder: one file and one row of the table in registry.c.
 */
#ifndef BB_PROXIES_REGISTRY_PROXY_H
#define BB_PROXIES_REGISTRY_PROXY_H

#include "bootstrap/cli/opts.h"
#include "cuda/work/kernel_list.h"
#include "proxies/replicas/scaling_options.h"
#include "proxies/spatial/tiles_options.h"
#include "proxies/step/layout.h"
#include "proxies/step/program.h"
#include "proxies/sync/sync_options.h"
#include "proxies/transformer/transformer_options.h"

/* What every proxy may be told; 0 means "the proxy's own default". Filled from bb_proxy_options. */
struct bb_proxy_config {
    const char *proxy; /* its name                                                                 */
    int ranks;
    int layers, stages, micro_batches;
    int scale;            /* micro-batches per stage                                                  */
    bool per_tensor;      /* one all-reduce per tensor instead of per layer                           */
    const char *dtype;    /* "float", "half", "bfloat16"                                              */
    const char *compute;  /* "none", "timed", "gemm"                                                        */
    double scale_counts;  /* every count times this, 0: as they are                                   */
    double forward_us;    /* timed: microseconds per layer and micro-batch, forward; 0: from FLOPs    */
    double backward_us;   /* 0: twice the forward                                                     */
    double tflops;        /* rate that turns FLOPs into microseconds                                  */
    const char *model;    /* a name of profiles/models, or a file                                     */
    int micro_batch_size; /* samples of one micro-batch on one replica                                */
    int gpus_per_node;    /* of consecutive ranks; a run that is not told takes its own               */
    struct bb_transformer_options transformer;
    struct bb_sync_options sync;
    struct bb_tiles_options tiles;
    struct bb_scaling_options scaling;
};

/* The options of `busbar proxy` and `busbar plan` that shape a step; offsets are those of struct bb_proxy_config. */
extern const struct bb_opt bb_proxy_options[];

/* What a builder makes: the layout, one program per role, and which role each rank has. */
struct bb_role {
    const char *name; /* "first stage", "middle stage", ...; owned by the step                     */
    struct bb_program program;
    double training_bytes[BB_USES]; /* what real training holds on such a rank, by formula; all 0: no formula */
};

struct bb_step {
    const char *proxy;
    const char *summary; /* one line: "48 layers in 4 stages of 12, 8 micro-batches, ..."; owned by the step */
    struct bb_layout layout;
    struct bb_role *roles;
    int n_roles;
    int *role_of;      /* [layout.ranks]                                                            */
    double parameters; /* of the whole model, for the report                                        */
    double samples;    /* per step, over all ranks; 0 when unknown                                  */
    double tokens;     /* in them; 0: they have none                                                */
    struct bb_strings {
        char **text;
        int n;
    } strings;              /* texts that programs point to                                              */
    struct bb_work **works; /* what compute operations point to */
    int n_works;
};

/* Options that not every proxy knows what to do with; the others refuse them. */
enum bb_takes {
    BB_TAKES_LAYERS = 1,
    BB_TAKES_STAGES = 2,
    BB_TAKES_MICRO_BATCHES = 4,
    BB_TAKES_SCALE = 8,
    BB_TAKES_PER_TENSOR = 16,
    BB_TAKES_TIMED = 32,    /* --compute timed                 */
    BB_TAKES_LAYER_US = 64, /* --forward-us, --backward-us     */
    BB_TAKES_TFLOPS = 128,
    BB_TAKES_GEMM = 256, /* --compute gemm */
    BB_TAKES_MODEL = 512,
    BB_TAKES_MICRO_BATCH_SIZE = 1024,
    BB_TAKES_NODES = 2048,       /* --gpus-per-node */
    BB_TAKES_TRANSFORMER = 4096, /* each of these: the options of that table */
    BB_TAKES_SYNC = 8192,
    BB_TAKES_TILES = 16384,
    BB_TAKES_SCALING = 32768,
};

struct bb_proxy {
    const char *name, *help;
    unsigned takes;         /* enum bb_takes                                                            */
    const char *dtype;      /* what --dtype is unless given; NULL: float, as the originals              */
    const char *compute;    /* what --compute is unless given: what the original does, "none" or "timed" */
    const char *positional; /* "[L S [M]]" for the help, NULL: takes none                              */
    int (*positional_words)(struct bb_proxy_config *, const char *const *words, int n); /* n > 0 words  */
    int (*defaults)(struct bb_proxy_config *);                      /* fills what the user left open  */
    int (*build)(const struct bb_proxy_config *, struct bb_step *); /* bad layouts: said, -BB_EUSAGE  */
    const char *model; /* profiles/models, for builders that serve several rows; NULL                   */
};

extern const struct bb_proxy bb_proxies[];
extern const int bb_n_proxies;

const struct bb_proxy *bb_proxy_find(const char *name); /* NULL after an error line with the nearest name */

/*
 * bb_proxy_configure - what the words of a command line mean: the first is the proxy's name, the rest its positional
 * numbers. config holds the options already; a value given both ways is refused. Sets *proxy and config->proxy and
 * fills in the proxy's defaults. Returns 0, or -BB_EUSAGE after a line with the reason and the nearest valid value.
 */
int bb_proxy_configure(struct bb_proxy_config *config, const struct bb_words *words,
                       const struct bb_proxy **proxy) BB_MUST_CHECK;

/* bb_proxy_beyond - the first option that was given of a table that `takes` (enum bb_takes) leaves out; NULL: none. */
const char *bb_proxy_beyond(const struct bb_proxy_config *config, unsigned takes);

/* bb_step_build - the builder's work for config->ranks ranks, and what every step must satisfy whatever its builder
 * did. Layouts that cannot be: said, -BB_EUSAGE. release is fine on a half-built one. */
int bb_step_build(struct bb_step *step, const struct bb_proxy *proxy,
                  const struct bb_proxy_config *config) BB_MUST_CHECK;
void bb_step_release(struct bb_step *step);

/* For builders: room for n roles with empty programs; a text that lives as long as the step, NULL without memory. */
int bb_step_add_roles(struct bb_step *step, int n) BB_MUST_CHECK;
const char *bb_step_text(struct bb_step *step, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

struct bb_work *bb_step_work(struct bb_step *step); /* empty, lives as long as the step; NULL without memory (said) */

static inline const struct bb_program *bb_step_program(const struct bb_step *step, int rank)
{
    return &step->roles[step->role_of[rank]].program;
}

#endif
