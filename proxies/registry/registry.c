/* registry.c - the table of proxies: a new one is a row here and a builder. */
#include "proxies/registry/builders.h"
#include "proxies/spatial/spatial.h"

#include <string.h>

#define PIPELINE                                                                                                       \
    BB_TAKES_LAYERS | BB_TAKES_STAGES | BB_TAKES_MICRO_BATCHES | BB_TAKES_PER_TENSOR | BB_TAKES_TIMED |                \
        BB_TAKES_GEMM | BB_TAKES_LAYER_US | BB_TAKES_TFLOPS
#define LAYERED                                                                                                        \
    BB_TAKES_LAYERS | BB_TAKES_STAGES | BB_TAKES_MICRO_BATCHES | BB_TAKES_SCALE | BB_TAKES_TIMED | BB_TAKES_GEMM |     \
        BB_TAKES_LAYER_US

#define TILED                                                                                                          \
    BB_TAKES_TILES | BB_TAKES_MODEL | BB_TAKES_LAYERS | BB_TAKES_MICRO_BATCHES | BB_TAKES_MICRO_BATCH_SIZE |           \
        BB_TAKES_TIMED | BB_TAKES_GEMM | BB_TAKES_TFLOPS | BB_TAKES_LAYER_US

const struct bb_proxy bb_proxies[] = {
    {.name = "gpt2_large",
     .help = "GPT-2-like transformer: pipeline stages in lock step, data-parallel gradients",
     .model = "gpt2_large",
     .takes = PIPELINE,
     .compute = "none",
     .positional = "[LAYERS STAGES [MICRO_BATCHES]]",
     .positional_words = bb_pipeline_words,
     .defaults = bb_pipeline_defaults,
     .build = bb_pipeline_build},
    {.name = "bert_large",
     .help = "BERT-large: pipeline stages in lock step, data-parallel gradients",
     .model = "bert_large",
     .takes = PIPELINE,
     .compute = "none",
     .positional = "[LAYERS STAGES [MICRO_BATCHES]]",
     .positional_words = bb_pipeline_words,
     .defaults = bb_pipeline_defaults,
     .build = bb_pipeline_build},
    {.name = "resnet50",
     .help = "ResNet-50: gradients in six buckets, one all-reduce after another",
     .model = "resnet50",
     .takes = BB_TAKES_PER_TENSOR | BB_TAKES_GEMM,
     .compute = "none",
     .build = bb_data_parallel_build},
    {.name = "resnet50_ring",
     .help = "ResNet-50: the same buckets from each rank to the next",
     .model = "resnet50",
     .takes = BB_TAKES_PER_TENSOR | BB_TAKES_GEMM,
     .compute = "none",
     .build = bb_data_parallel_build},
    {.name = "resnet152",
     .help = "ResNet-152: ten buckets reduced under the backward pass, 128 samples a rank",
     .model = "resnet152",
     .takes = BB_TAKES_PER_TENSOR | BB_TAKES_TIMED | BB_TAKES_GEMM,
     .compute = "timed",
     .build = bb_data_parallel_build},
    {.name = "resnet152_scal",
     .help = "ResNet-152: the same with 32768 samples over 256, 512, 1024 or 2048 ranks",
     .model = "resnet152",
     .takes = BB_TAKES_PER_TENSOR | BB_TAKES_TIMED | BB_TAKES_GEMM,
     .compute = "timed",
     .build = bb_data_parallel_build},
    {.name = "cosmoflow",
     .help = "CosmoFlow: halos of a 2x2 cut, divided dense layers, gradients under the backward pass",
     .model = "cosmoflow",
     .takes = BB_TAKES_TIMED | BB_TAKES_GEMM,
     .compute = "timed",
     .build = bb_cosmoflow_build},
    {.name = "dlrm",
     .help = "DLRM: all-to-all of embeddings, perceptron gradients under the backward pass",
     .model = "dlrm",
     .takes = BB_TAKES_TIMED | BB_TAKES_GEMM,
     .compute = "timed",
     .build = bb_dlrm_build},
    {.name = "gpt3",
     .help = "GPT-3: data x tensor (4) x pipeline parallel, one layer a stage",
     .model = "gpt3",
     .takes = LAYERED,
     .compute = "timed",
     .positional = "[STAGES [SCALE]]",
     .positional_words = bb_gpt3_words,
     .defaults = bb_gpt3_defaults,
     .build = bb_gpt3_build},
    {.name = "gpt3_one_pipe_step",
     .help = "GPT-3: one steady step of its pipeline, forward and backward side by side",
     .model = "gpt3",
     .takes = LAYERED,
     .compute = "timed",
     .positional = "[STAGES [SCALE]]",
     .positional_words = bb_gpt3_words,
     .defaults = bb_gpt3_defaults,
     .build = bb_gpt3_build},
    {.name = "gpt3_moe",
     .help = "GPT-3 with 16 experts: data x expert x pipeline parallel",
     .model = "gpt3",
     .takes = LAYERED,
     .compute = "timed",
     .positional = "[STAGES [SCALE]]",
     .positional_words = bb_gpt3_words,
     .defaults = bb_gpt3_defaults,
     .build = bb_gpt3_build},
    {.name = "gpt3_moe_one_pipe_step",
     .help = "GPT-3 with 16 experts: one steady step of its pipeline",
     .model = "gpt3",
     .takes = LAYERED,
     .compute = "timed",
     .positional = "[STAGES [SCALE]]",
     .positional_words = bb_gpt3_words,
     .defaults = bb_gpt3_defaults,
     .build = bb_gpt3_build},
    {.name = "transformer",
     .help = "any transformer in any layout: tensor, sequence, context, expert, pipeline and data parallel",
     .model = "gpt2_small",
     .takes = BB_TAKES_MODEL | BB_TAKES_LAYERS | BB_TAKES_MICRO_BATCHES | BB_TAKES_MICRO_BATCH_SIZE | BB_TAKES_TIMED |
              BB_TAKES_LAYER_US | BB_TAKES_TFLOPS | BB_TAKES_GEMM | BB_TAKES_NODES | BB_TAKES_TRANSFORMER |
              BB_TAKES_SYNC,
     .dtype = "bfloat16",
     .compute = "timed",
     .defaults = bb_transformer_defaults,
     .build = bb_transformer_build},
    {.name = "data_parallel",
     .help = "a model on every rank: buckets, fusion, sharded states or parameter servers",
     .takes = BB_TAKES_MODEL | BB_TAKES_MICRO_BATCHES | BB_TAKES_MICRO_BATCH_SIZE | BB_TAKES_NODES | BB_TAKES_TIMED |
              BB_TAKES_GEMM | BB_TAKES_TFLOPS | BB_TAKES_SYNC,
     .compute = "timed",
     .defaults = bb_replicas_defaults,
     .build = bb_replicas_build},
    {.name = "scaling",
     .help = "a scaling study: epochs of data-parallel training, images per second, efficiencies",
     .takes = BB_TAKES_MODEL | BB_TAKES_NODES | BB_TAKES_TIMED | BB_TAKES_GEMM | BB_TAKES_TFLOPS | BB_TAKES_SYNC |
              BB_TAKES_SCALING,
     .compute = "timed",
     .defaults = bb_scaling_defaults,
     .build = bb_scaling_build},
    {.name = "spatial",
     .help = "spatial parallelism: tiles of large images exchange halos, join, and go on through a pipeline",
     .takes = TILED,
     .compute = "timed",
     .build = bb_spatial_build},
    {.name = "gems",
     .help = "GEMS: two replicas of a network in opposite directions on the same ranks",
     .takes = TILED,
     .compute = "timed",
     .build = bb_gems_build},
};
const int bb_n_proxies = sizeof(bb_proxies) / sizeof(bb_proxies[0]);

const struct bb_proxy *bb_proxy_find(const char *name)
{
    const char *names[sizeof(bb_proxies) / sizeof(bb_proxies[0])];

    for (int i = 0; i < bb_n_proxies; i++) {
        if (strcmp(bb_proxies[i].name, name) == 0)
            return &bb_proxies[i];
        names[i] = bb_proxies[i].name;
    }
    bb_refuse_word("proxy", name, names, (size_t)bb_n_proxies);
    return NULL;
}

static bool is_given(const struct bb_opt *o, const void *field)
{
    switch (o->kind) {
    case BB_OPT_FLAG:
        return *(const bool *)field;
    case BB_OPT_INT:
        return *(const int *)field != 0;
    case BB_OPT_SIZE:
        return *(const size_t *)field != 0;
    case BB_OPT_DOUBLE:
        return *(const double *)field != 0;
    case BB_OPT_WORD:
    case BB_OPT_STRING:
        return *(const char *const *)field != NULL;
    }
    return false;
}

const char *bb_proxy_beyond(const struct bb_proxy_config *c, unsigned takes)
{
    const struct {
        unsigned bit;
        const struct bb_opt *options;
        const void *values;
    } tables[] = {
        {BB_TAKES_TRANSFORMER, bb_transformer_options, &c->transformer},
        {BB_TAKES_SYNC, bb_sync_options, &c->sync},
        {BB_TAKES_TILES, bb_tiles_options, &c->tiles},
        {BB_TAKES_SCALING, bb_scaling_options, &c->scaling},
    };

    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
        for (const struct bb_opt *o = tables[t].options; o->name && !(takes & tables[t].bit); o++)
            if (is_given(o, (const char *)tables[t].values + o->offset))
                return o->name;
    return NULL;
}

/* Nothing that was asked for is left unheard. */
static int refuse_unused(const struct bb_proxy *p, const struct bb_proxy_config *c)
{
    const struct {
        unsigned bit;
        bool given;
        const char *option;
    } asked[] = {
        {BB_TAKES_LAYERS, c->layers, "--layers"},
        {BB_TAKES_STAGES, c->stages, "--stages"},
        {BB_TAKES_MICRO_BATCHES, c->micro_batches, "--micro-batches"},
        {BB_TAKES_SCALE, c->scale, "--scale"},
        {BB_TAKES_PER_TENSOR, c->per_tensor, "--per-tensor"},
        {BB_TAKES_TIMED, c->compute && strcmp(c->compute, "timed") == 0, "--compute timed"},
        {BB_TAKES_GEMM, c->compute && strcmp(c->compute, "gemm") == 0, "--compute gemm"},
        {BB_TAKES_LAYER_US, c->forward_us > 0, "--forward-us"},
        {BB_TAKES_LAYER_US, c->backward_us > 0, "--backward-us"},
        {BB_TAKES_TFLOPS, c->tflops > 0, "--tflops"},
        {BB_TAKES_MODEL, c->model, "--model"},
        {BB_TAKES_MICRO_BATCH_SIZE, c->micro_batch_size, "--micro-batch-size"},
        {BB_TAKES_NODES, c->gpus_per_node, "--gpus-per-node"},
    };

    const char *beyond = bb_proxy_beyond(c, p->takes);

    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
        if (asked[i].given && !(p->takes & asked[i].bit))
            return bb_err(BB_EUSAGE, "%s: %s means nothing here; leave it out", p->name, asked[i].option);
    if (beyond)
        return bb_err(BB_EUSAGE, "%s: --%s means nothing here; leave it out", p->name, beyond);
    return 0;
}

/* Real work takes the time that it takes. */
static int refuse_times(const struct bb_proxy_config *c)
{
    const char *option = c->forward_us > 0    ? "--forward-us"
                         : c->backward_us > 0 ? "--backward-us"
                         : c->tflops > 0      ? "--tflops"
                                              : NULL;

    if (!option || strcmp(c->compute, "gemm") != 0)
        return 0;
    return bb_err(BB_EUSAGE,
                  "%s: %s says how long timed kernels take, but --compute gemm runs real work; leave one out", c->proxy,
                  option);
}

int bb_proxy_configure(struct bb_proxy_config *config, const struct bb_words *words, const struct bb_proxy **proxy)
{
    int rc;

    if (words->n < 1)
        return bb_err(BB_EUSAGE, "no proxy named; 'busbar list proxies' shows them");
    *proxy = bb_proxy_find(words->word[0]);
    if (!*proxy)
        return -BB_EUSAGE;
    config->proxy = (*proxy)->name;
    if (words->n > 1 && !(*proxy)->positional_words)
        return bb_err(BB_EUSAGE, "%s takes no numbers, but '%s' is given", config->proxy, words->word[1]);
    if (words->n > 1)
        TRY((*proxy)->positional_words(config, words->word + 1, words->n - 1));
    TRY(refuse_unused(*proxy, config));
    config->dtype = config->dtype ? config->dtype : (*proxy)->dtype ? (*proxy)->dtype : "float";
    config->compute = config->compute ? config->compute : (*proxy)->compute;
    TRY(refuse_times(config));
    rc = (*proxy)->defaults ? (*proxy)->defaults(config) : 0;
out:
    return rc;
}
