/* test_memory.c - training memory of a rank against numbers computed by hand from the published formulas. */
#include "proxies/workloads/transformer/memory.h"
#include "tests/check.h"

#include <math.h>

/* The inputs of one case; tests change them in place. */
struct memory_case {
    struct bb_arch arch;
    struct bb_grid grid;
    struct bb_schedule schedule;
    struct bb_dp_config policy;
    struct bb_sync_comms dense, expert;
    struct bb_layers_config layers_config;
    struct bb_memory memory;
};

static void make(struct memory_case *h, const char *model, struct bb_grid grid, int micro_batches)
{
    *h = (struct memory_case){.grid = grid};
    assert_int_equal(bb_arch_load(model, &h->arch), 0);
    h->grid.experts = h->arch.experts > 0;
    assert_int_equal(bb_grid_resolve(&h->grid, grid.ranks, NULL, NULL, "test"), 0);
    h->schedule = (struct bb_schedule){BB_1F1B, h->grid.pp, micro_batches, 1, h->grid.pp, false};
    h->policy = (struct bb_dp_config){.params = BB_BFLOAT16, .grads = BB_BFLOAT16, .optimizer = BB_MEMORY_KERNEL_ADAM};
    h->dense = h->expert = (struct bb_sync_comms){.n = h->grid.dp * h->grid.cp, .n_replicas = 1};
    h->expert.n = h->grid.edp;
    h->memory = (struct bb_memory){.arch = &h->arch,
                                   .grid = &h->grid,
                                   .schedule = &h->schedule,
                                   .policy = &h->policy,
                                   .dense = &h->dense,
                                   .expert = &h->expert,
                                   .layers_config = &h->layers_config};
    h->layers_config = (struct bb_layers_config){.arch = &h->arch,
                                                 .sequence = h->arch.sequence,
                                                 .micro_batch_size = 1,
                                                 .context = BB_CONTEXT_RING,
                                                 .dtype = BB_BFLOAT16};
}

/* A model given as config.json, on tp ranks. */
static void make_from_config(struct memory_case *h, const char *config, int tp)
{
    json_t *root = json_loads(config, 0, NULL);

    make(h, "gpt2_small", (struct bb_grid){.tp = tp, .ranks = tp}, 1);
    assert_int_equal(bb_arch_read(root, "config.json", &h->arch), 0);
    h->layers_config.sequence = h->arch.sequence;
    json_decref(root);
}

/* ---- activations ---- */

#define SBH 25165824.0 /* 2048 tokens of 12288 elements */

/* GPT-3 175B: 5 a s / h = 80. */
static void activations_of_a_gpt3_layer(void **state)
{
    struct memory_case h;

    (void)state;
    make(&h, "gpt3_175b", (struct bb_grid){.tp = 1, .ranks = 1}, 1);
    assert_true(bb_memory_layer(&h.memory, 0) == SBH * (34 + 80));
    make(&h, "gpt3_175b", (struct bb_grid){.tp = 8, .ranks = 8}, 1);
    assert_true(bb_memory_layer(&h.memory, 0) == SBH * (10 + 24.0 / 8 + 80.0 / 8));
    h.layers_config.recompute = BB_RECOMPUTE_SELECTIVE;
    assert_true(bb_memory_layer(&h.memory, 0) == SBH * (10 + 24.0 / 8));
    h.layers_config.sequence_parallel = true;
    assert_true(bb_memory_layer(&h.memory, 0) == SBH * 34 / 8);
    h.layers_config.recompute = BB_RECOMPUTE_NONE;
    assert_true(bb_memory_layer(&h.memory, 0) == SBH * (34 + 80) / 8);
    h.layers_config.recompute = BB_RECOMPUTE_FULL;
    assert_true(bb_memory_layer(&h.memory, 0) == 2 * SBH / 8);
    h.layers_config.sequence_parallel = false;
    assert_true(bb_memory_layer(&h.memory, 0) == 2 * SBH);
    h.layers_config.micro_batch_size = 3;
    assert_true(bb_memory_layer(&h.memory, 0) == 6 * SBH);
}

/* A window of half the sequence reduces the scores to a half. The indexer adds its activations to those of latent
 * attention. */
static void activations_of_windowed_layers(void **state)
{
    struct memory_case h;
    double before;

    (void)state;
    make(&h, "gpt3_175b", (struct bb_grid){.tp = 1, .ranks = 1}, 1);
    h.arch.window = 1024;
    assert_true(bb_memory_layer(&h.memory, 0) == SBH * (34 + 40));
    h.arch.window_every = 2;
    assert_true(bb_memory_layer(&h.memory, 1) == SBH * (34 + 80));
    make(&h, "deepseek_v3", (struct bb_grid){.tp = 1, .ranks = 1}, 1);
    before = bb_memory_layer(&h.memory, 0);
    h.arch.window = 2048;
    assert_true(bb_memory_layer(&h.memory, 0) == before);
    h.arch.index_heads = 64;
    h.arch.index_dim = 128;
    assert_true(bb_memory_layer(&h.memory, 0) == before + 4096.0 * (2 * (64 * 129 + 128) + 4 * 2048));
}

/* Context parallelism divides the tokens by cp, and the scores (a s per token) by rows only. */
static void activations_with_context_parallelism(void **state)
{
    struct memory_case h;

    (void)state;
    make(&h, "gpt3_175b", (struct bb_grid){.cp = 4, .ranks = 4}, 1);
    assert_true(bb_memory_layer(&h.memory, 0) == SBH * (34 + 80) / 4);
}

/* LLaMA-2 70B: per token 2 bytes of 4 h, q 8192, k and v 1024 each, context 8192, three inner widths of 28672; no
 * dropout masks, no scores. */
static void activations_of_a_llama_layer(void **state)
{
    struct memory_case h;

    (void)state;
    make(&h, "llama2_70b", (struct bb_grid){.tp = 8, .ranks = 8}, 1);
    assert_true(bb_memory_layer(&h.memory, 0) == 4096 * 2.0 * (4 * 8192 + (2 * 8192 + 2 * 1024 + 3 * 28672) / 8.0));
}

/* The same with FP8 GEMMs: one byte per input element of qkv, up and down; attention keeps its context in both
 * types. */
static void activations_of_a_llama_layer_in_fp8(void **state)
{
    struct memory_case h;

    (void)state;
    make(&h, "llama2_70b", (struct bb_grid){.tp = 8, .ranks = 8}, 1);
    h.layers_config.precision = BB_GEMM_FP8;
    assert_true(bb_memory_layer(&h.memory, 0) ==
                4096 * (2 * (2 + 1) * 8192 + (2.0 * (2 * 8192 + 2 * 1024) + 8192 + (2 * 2 + 1) * 28672) / 8.0));
}

/* LoRA of rank 16: outputs of the first matrices of 2 or 4 adapters; without adapters of the MLP, not the inputs of its GEMMs. */
static void activations_of_a_llama_layer_with_adapters(void **state)
{
    struct memory_case h;

    (void)state;
    make(&h, "llama2_70b", (struct bb_grid){.tp = 8, .ranks = 8}, 1);
    h.arch.lora_rank = 16;
    assert_true(bb_memory_layer(&h.memory, 0) ==
                4096 * 2.0 * (4 * 8192 + 4 * 16 + (2 * 8192 + 2 * 1024 + 3 * 28672) / 8.0));
    h.arch.lora_attention = true;
    assert_true(bb_memory_layer(&h.memory, 0) ==
                4096 * 2.0 * (3 * 8192 + 2 * 16 + (2 * 8192 + 2 * 1024 + 2 * 28672) / 8.0));
    h.arch.lora_split = true;
    assert_true(bb_memory_layer(&h.memory, 0) ==
                4096 * 2.0 * (3 * 8192 + 4 * 16 + (2 * 8192 + 2 * 1024 + 2 * 28672) / 8.0));
}

/* One scale byte per 32 elements (MXFP8) or 16 (NVFP4, of half a byte each). */
static void activations_of_a_llama_layer_in_block_scaled_types(void **state)
{
    const double bytes[][2] = {{BB_GEMM_MXFP8, 33.0 / 32}, {BB_GEMM_NVFP4, 9.0 / 16}};
    struct memory_case h;

    (void)state;
    make(&h, "llama2_70b", (struct bb_grid){.tp = 8, .ranks = 8}, 1);
    for (int i = 0; i < 2; i++) {
        const double q = bytes[i][1];

        h.layers_config.precision = (enum bb_gemm_precision)bytes[i][0];
        assert_true(bb_memory_layer(&h.memory, 0) ==
                    4096 * (2 * (2 + q) * 8192 + (2.0 * (2 * 8192 + 2 * 1024) + q * 8192 + (2 * 2 + q) * 28672) / 8.0));
    }
}

/* Codestral Mamba: two inputs of 4096; 8192 values, 2 x 8 x 128 keys and queries, one step size for each of 128
 * heads; the same after the convolution; the gate; the output of the scan and of its gated norm. */
static void activations_of_a_mamba2_layer(void **state)
{
    struct memory_case h;

    (void)state;
    make_from_config(&h, "{\"model_type\": \"mamba2\"}", 4);
    assert_true(bb_memory_layer(&h.memory, 0) ==
                2048 * 2.0 * (2 * 4096 + ((8192 + 2048) * 2 + 8192 + 128 + 2 * 8192) / 4.0));
    h.layers_config.recompute = BB_RECOMPUTE_FULL;
    assert_true(bb_memory_layer(&h.memory, 0) == 2048 * 2.0 * 4096);
}

/* Qwen3-Next. Each layer has 10 experts of 512, a shared expert and a router of 512. Linear attention: 32 heads of
 * 128, 16 of keys, two numbers per head and an inverse of 64 x 64. Attention: 16 heads of 256, a gate per element. */
static void activations_of_qwen3_next_layers(void **state)
{
    const double experts = 2.0 * (2 * 2048 + 10 * (2 * 2048 + 3 * 512) + 3 * 512) + 4 * 512;
    struct memory_case h;

    (void)state;
    make_from_config(&h, "{\"model_type\": \"qwen3_next\"}", 1);
    assert_true(bb_memory_layer(&h.memory, 0) ==
                32768 * (experts + 2.0 * (2 * 2048 + 8192 * 2 + 4096 + 32 * (2 + 64) + 2 * 4096)));
    assert_true(bb_memory_layer(&h.memory, 3) ==
                32768 * (experts + 2.0 * (2 * 2048 + 2 * 256 * (16 + 2) + 2 * 256 * 16)));
}

/* T5-small with 512 and 128 tokens: MLPs of 2048, 8 heads of 64. Each decoder layer keeps keys and values of the 512
 * tokens; the first also keeps the encoder's output. */
static void activations_of_an_encoder_decoder(void **state)
{
    const double plain = 2.0 * (2 * 512 + 4 * 512 + 2 * 512 + 2 * 2048);
    const double cross = 2.0 * (128 * (2 * 512 + 2 * 512) + 512 * 2 * 512);
    struct memory_case h;

    (void)state;
    make_from_config(&h, "{\"model_type\": \"t5\"}", 1);
    h.layers_config.decoder_sequence = 128;
    assert_true(bb_memory_layer(&h.memory, 5) == 512 * plain);
    assert_true(bb_memory_layer(&h.memory, 7) == 128 * plain + cross);
    assert_true(bb_memory_layer(&h.memory, 6) == 128 * plain + cross + 512 * 2.0 * 512);
    assert_true(bb_memory_embedding(&h.memory) == (512 + 128) * 8);
    assert_true(bb_memory_head(&h.memory) == 128 * (2 * 2.0 * 512 + 4 * 32128));
    h.layers_config.recompute = BB_RECOMPUTE_FULL;
    assert_true(bb_memory_layer(&h.memory, 7) == 128 * 2.0 * 512);
}

/* Mixtral: each token goes to two experts, each with input, output and three inner widths; router probabilities are
 * floats. */
static void activations_of_a_mixtral_layer(void **state)
{
    double attention = 2.0 * (2 * 4096 + 2 * 128 * (32 + 8)), router = 2.0 * 2 * 4096 + 4 * 8;
    double experts = 2 * 2.0 * (2 * 4096 + 3 * 14336);
    struct memory_case h;

    (void)state;
    make(&h, "mixtral_8x7b", (struct bb_grid){.ep = 8, .ranks = 8}, 1);
    h.layers_config.sequence = 4096;
    assert_true(bb_memory_layer(&h.memory, 0) == 4096 * (attention + router + experts));
    h.layers_config.capacity_factor = 1.5;
    assert_true(bb_memory_layer(&h.memory, 0) == 4096 * (attention + router + 1.5 * experts));
}

/* The same with LoRA of rank 16: outputs of 4 first matrices in attention and, for each copy of a token, of 3 in its expert.
 * Without adapters of the experts, no inputs of their GEMMs and of the router. */
static void activations_of_a_mixtral_layer_with_adapters(void **state)
{
    double attention = 2.0 * (2 * 4096 + 2 * 128 * (32 + 8) + 4 * 16), router = 2.0 * 4096 + 4 * 8;
    struct memory_case h;

    (void)state;
    make(&h, "mixtral_8x7b", (struct bb_grid){.ep = 8, .ranks = 8}, 1);
    h.layers_config.sequence = 4096;
    h.arch.lora_rank = 16;
    h.arch.lora_split = true;
    assert_true(bb_memory_layer(&h.memory, 0) ==
                4096 * (attention + router + 2.0 * 4096 + 2 * 2.0 * (2 * 4096 + 3 * 14336 + 3 * 16)));
    h.arch.lora_attention = true;
    assert_true(bb_memory_layer(&h.memory, 0) == 4096 * (attention + router + 2 * 2.0 * (4096 + 2 * 14336)));
}

/* DeepSeek-V3, bytes per token by hand from Megatron-LM's code: layernorm: the output of a norm (7168) before MLA and
 * before the experts; mla_up_proj: q and k (192 a head), v (128) and the normed latents; moe_act: 2048 of 8 experts; mlp: all
 * but the input of the dense layer; moe: all but the input and output of the norm. */
static void recomputed_modules_of_a_deepseek_layer(void **state)
{
    const double n = 4096, up = 128 * (2 * 192 + 128) + 1536 + 512, expert = 8 * (2 * 7168 + 3 * 2048.0);
    const struct {
        int layer;
        unsigned modules;
        double saved;
    } cases[] = {
        {0, 1u << BB_MODULE_NORM, 2 * 7168},
        {3, 1u << BB_MODULE_NORM, 2 * 2 * 7168},
        {3, 1u << BB_MODULE_LATENT_UP, 2 * up},
        {3, 1u << BB_MODULE_EXPERT_ACTIVATION, 2 * 8 * 2048},
        {0, 1u << BB_MODULE_EXPERT_ACTIVATION | 1u << BB_MODULE_MOE, 0},
        {3, 1u << BB_MODULE_SHARED_EXPERTS, 2 * 3 * 2048},
        {0, 1u << BB_MODULE_MLP, 2 * (7168 + 3 * 18432)},
        {3, 1u << BB_MODULE_MOE, 2 * (expert + 3 * 2048) + 4 * 256},
        {3, 1u << BB_MODULE_MOE | 1u << BB_MODULE_NORM, 2 * (2 * 7168 + expert + 3 * 2048) + 4 * 256},
    };
    struct memory_case h;
    double before;

    (void)state;
    make(&h, "deepseek_v3", (struct bb_grid){.ep = 8, .ranks = 8}, 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        h.layers_config.recompute = BB_RECOMPUTE_NONE;
        before = bb_memory_layer(&h.memory, cases[i].layer);
        h.layers_config.recompute = BB_RECOMPUTE_SELECTIVE;
        h.layers_config.recompute_modules = cases[i].modules;
        assert_true(before - bb_memory_layer(&h.memory, cases[i].layer) == n * cases[i].saved);
    }
}

/* DeepSeek-V4-Flash, elements per token by hand from Megatron-LM's code. Attention: 4 streams and the output (mHC), inputs
 * of norm and projections, latents before and after their norms, 64 heads of queries before and after their norm and of context
 * before and after its rotation, input of the last GEMM, projections of the compressors, queries and weights of the indexer;
 * selected keys (4 bytes). Then streams, output, norm and experts. With full recomputation only the streams of the layer's input. */
static void activations_of_deepseek_v4_layers(void **state)
{
    const double experts = 5 * 4096 + 2 * 4096 + 6 * (2 * 4096 + 3 * 2048.0) + 3 * 2048 + 256 * 2,
                 latents = 2 * (1024 + 512) + 64;
    const double attention = 5 * 4096 + 2 * 4096 + latents + 2 * 64 * (512 + 512) + 8192;
    const double compressors[] = {0, 0, 2 * (1024 + 256) + 64 * 129 + 2 * (128 + 512), 2 * 512};
    struct memory_case h;

    (void)state;
    make(&h, "deepseek_v4_flash", (struct bb_grid){.ep = 8, .ranks = 8}, 1);
    for (int layer = 0; layer < 4; layer++) {
        h.layers_config.recompute = BB_RECOMPUTE_NONE;
        assert_true(bb_memory_layer(&h.memory, layer) == 2 * 4096 * (attention + compressors[layer] + experts));
        h.layers_config.recompute = BB_RECOMPUTE_SELECTIVE;
        h.layers_config.recompute_modules = 1u << BB_MODULE_LATENT_UP;
        assert_true(bb_memory_layer(&h.memory, layer) ==
                    2 * 4096 * (attention + compressors[layer] + experts - 2 * 64 * 512 - 1024 - 512));
        h.layers_config.recompute = BB_RECOMPUTE_FULL;
        assert_true(bb_memory_layer(&h.memory, layer) == 2 * 4096 * 4 * 4096);
    }
}

/* Stage 0 of 1F1B keeps min(m, p) micro-batches of L/p layers; interleaved 1 + (p - 1)/(p v) times as much; GPipe m. */
static void live_micro_batches_follow_the_schedule(void **state)
{
    double bytes[BB_USES], layer = SBH * (10 + 24.0 / 8 + 10), embedding = 2048 * (8 + 12288.0);
    struct memory_case h;

    (void)state;
    make(&h, "gpt3_175b", (struct bb_grid){.tp = 8, .pp = 8, .ranks = 64}, 32);
    bb_memory_rank_bytes(&h.memory, 0, bytes);
    assert_true(bytes[BB_USE_ACTIVATIONS] == 8 * (12 * layer + embedding));
    bb_memory_rank_bytes(&h.memory, 3, bytes);
    assert_true(bytes[BB_USE_ACTIVATIONS] == 5 * 12 * layer);
    h.schedule.micro_batches = 2;
    bb_memory_rank_bytes(&h.memory, 0, bytes);
    assert_true(bytes[BB_USE_ACTIVATIONS] == 2 * (12 * layer + embedding));

    h.schedule = (struct bb_schedule){BB_INTERLEAVED, 8, 32, 3, 8, false};
    bb_memory_rank_bytes(&h.memory, 0, bytes);
    assert_true(fabs(bytes[BB_USE_ACTIVATIONS] / (8 * (1 + 7.0 / 24) * (12 * layer + embedding)) - 1) < 1e-12);

    h.schedule = (struct bb_schedule){BB_GPIPE, 8, 32, 1, 8, false};
    bb_memory_rank_bytes(&h.memory, 5, bytes);
    assert_true(bytes[BB_USE_ACTIVATIONS] == 32 * 12 * layer);
}

static double activations(struct memory_case *h, int stage)
{
    double bytes[BB_USES];

    bb_memory_rank_bytes(&h->memory, stage, bytes);
    return bytes[BB_USE_ACTIVATIONS] / SBH;
}

/* GPT-3 175B in 8 stages of 12 layers, tp 8 with sequence parallelism, in units of s b h: a layer keeps (34 + 80) /
 * 8, 34 / 8 without its scores, 2 / 8 with full recomputation. During the backward of a layer, all its activations
 * are live; the layers before it keep their stored part, the layers after it keep nothing. */
static void activations_with_recomputation(void **state)
{
    const double all = 114 / 8.0, scores = 80 / 8.0, layer_input = 2 / 8.0;
    struct memory_case h;

    (void)state;
    make(&h, "gpt3_175b", (struct bb_grid){.tp = 8, .pp = 8, .ranks = 64}, 32);
    h.layers_config.sequence_parallel = true;
    assert_true(activations(&h, 3) == 5 * 12 * all);
    h.layers_config.recompute = BB_RECOMPUTE_SELECTIVE;
    assert_true(activations(&h, 3) == 5 * 12 * (all - scores) + scores);
    h.layers_config.recompute = BB_RECOMPUTE_FULL;
    assert_true(activations(&h, 3) == 5 * 12 * layer_input + all - layer_input);
    h.layers_config.recompute_layers = 5;
    assert_true(activations(&h, 3) == 5 * (7 * all + 5 * layer_input));
    h.layers_config.recompute_layers = 12;
    assert_true(activations(&h, 3) == 5 * 12 * layer_input + all - layer_input);
    h.schedule = (struct bb_schedule){BB_INTERLEAVED, 8, 32, 3, 8,
                                      false}; /* stage 3 keeps 8 + 16 + 1 of its chunks of 4
                                                                       layers */
    h.layers_config.recompute_layers = 1;
    assert_true(fabs(activations(&h, 3) - 25 * (3 * all + layer_input)) < 1e-9);
    h.layers_config.recompute_layers = 4;
    assert_true(fabs(activations(&h, 3) - 25 * 4 * layer_input - all + layer_input) < 1e-9);
    /* the logits of the last chunk, 4 (1 + V/h) / 8, are released before a layer of any chunk is recomputed */
    assert_true(fabs(activations(&h, 7) - 17 * 4 * layer_input - all + layer_input) < 1e-9);
}

/* Llama 3 70B in one stage, tp 8: unfused attention adds the softmax output, 2 a s^2 b / t. */
/* A layer of LLaMA 3 8B whose operations are checkpointed stores its input, queries, values, the context with a float per head,
 * and the first GEMM of the MLP; PyTorch without compiler also the down GEMM. With sequence parallelism the outputs of
 * reduce-scatters as well. GPT-3 is not gated: its down GEMM is the sixth. */
static void activations_with_checkpointed_operations(void **state)
{
    const double h = 2 * 4096, inner = h + 2 * 1024 + h + 4 * 32 + 2 * 14336;
    struct memory_case c;

    (void)state;
    make(&c, "llama3_8b", (struct bb_grid){.ranks = 1}, 1);
    c.layers_config.recompute = BB_RECOMPUTE_OPS;
    assert_true(bb_memory_layer(&c.memory, 0) == 8192 * (h + inner));
    c.memory.stack = bb_memory_stack_of("torch", true);
    assert_true(bb_memory_layer(&c.memory, 0) == 8192 * (2 * h + inner));
    make(&c, "llama3_8b", (struct bb_grid){.tp = 8, .ranks = 8}, 1);
    c.layers_config.recompute = BB_RECOMPUTE_OPS;
    assert_true(bb_memory_layer(&c.memory, 0) == 8192 * (h + inner / 8));
    c.layers_config.sequence_parallel = true;
    c.memory.stack = bb_memory_stack_of("torch-compile", true);
    assert_true(bb_memory_layer(&c.memory, 0) == 8192 * (2 * h + inner) / 8);
    c.memory.stack = bb_memory_stack_of("torch", true);
    assert_true(bb_memory_layer(&c.memory, 0) == 8192 * ((3 * h + inner) / 8 + h));
    make(&c, "gpt3_175b", (struct bb_grid){.ranks = 1}, 1);
    c.memory.stack = bb_memory_stack_of("torch", true);
    c.layers_config.recompute = BB_RECOMPUTE_OPS;
    assert_true(bb_memory_layer(&c.memory, 0) == 2 * SBH * (4 + 4) + 2048 * 4 * 96.0);
}

static void scores_without_dropout(void **state)
{
    struct memory_case h;
    double fused;

    (void)state;
    make(&h, "llama3_70b", (struct bb_grid){.tp = 8, .ranks = 8}, 1);
    fused = bb_memory_layer(&h.memory, 0);
    h.layers_config.unfused = true;
    assert_true(bb_memory_layer(&h.memory, 0) - fused == 2.0 * 64 * 8192 * 8192 / 8);
    h.layers_config.recompute = BB_RECOMPUTE_SELECTIVE;
    assert_true(bb_memory_layer(&h.memory, 0) == fused);
}

/* On the last stage, the head's logits are released before a layer is recomputed. In an encoder-decoder, both stacks
 * recompute their own first layers. */
static void recomputes_the_first_layers_of_each_stack(void **state)
{
    struct memory_case h;
    double head;
    static const bool recomputed[] = {true, false, false, true, false, false};

    (void)state;
    make(&h, "gpt3_175b", (struct bb_grid){.tp = 8, .pp = 8, .ranks = 64}, 32);
    h.layers_config.sequence_parallel = true;
    h.layers_config.recompute = BB_RECOMPUTE_FULL;
    head = bb_memory_head(&h.memory) / SBH;
    assert_true(head > 0 && head < 14);
    assert_true(fabs(activations(&h, 7) - (12 * 2 / 8.0 + 112 / 8.0)) < 1e-9);
    make_from_config(&h, "{\"model_type\": \"t5\", \"num_layers\": 3}", 1);
    h.layers_config.recompute = BB_RECOMPUTE_FULL;
    h.layers_config.recompute_layers = 1;
    for (int layer = 0; layer < 6; layer++)
        assert_int_equal(bb_layers_is_recomputed(&h.layers_config, 0, layer), recomputed[layer]);
}

static double head_logits(struct memory_case *h, const char *software, bool fused)
{
    const double inputs = 4.0 * 8192, tokens = 8192;

    h->memory.stack = bb_memory_stack_of(software, false);
    h->memory.fused_loss = fused;
    return bb_memory_head(&h->memory) / tokens - inputs;
}

/* Llama 3 70B, 128,256 logits per token. */
static void logits_of_each_framework(void **state)
{
    struct memory_case h;

    (void)state;
    make(&h, "llama3_70b", (struct bb_grid){.ranks = 1}, 1);
    assert_true(head_logits(&h, "megatron", true) == 2 * 128256.0);
    assert_true(head_logits(&h, "megatron-plain", false) == 6 * 128256.0);
    assert_true(head_logits(&h, "torch", false) == 14 * 128256.0);
    assert_true(head_logits(&h, "torch-compile", true) == 4 * 128256.0);
    make(&h, "llama3_70b", (struct bb_grid){.tp = 8, .ranks = 8}, 1);
    assert_true(head_logits(&h, "torch", false) == 18 * 128256.0 / 8);
    assert_false(bb_memory_stack_of("torch-compile", true)->fused_loss);
    assert_string_equal(bb_memory_stack_of(NULL, true)->software, "torch");
    assert_string_equal(bb_memory_stack_of(NULL, false)->software, "megatron");
}

static double communication_peak(struct memory_case *h, int stage)
{
    double bytes[BB_USES];

    bb_memory_rank_bytes(&h->memory, stage, bytes);
    return bytes[BB_USE_COMMUNICATION];
}

/* Transformer Engine keeps a 16-bit placeholder of one layer and of the output matrix, or of one expert. */
static void placeholder_gradients(void **state)
{
    const double attention = 8192.0 * (2 * 8192 + 2 * 1024), mlp = 3.0 * 8192 * 28672, norms = 2 * 8192;
    const double moe = 4096.0 * (2 * 4096 + 2 * 1024) + 8 * 4096.0 + 2 * 4096 + 3.0 * 4096 * 14336 + 4096.0 * 32000;
    struct memory_case h;
    double before;

    (void)state;
    make(&h, "llama3_70b", (struct bb_grid){.pp = 2, .ranks = 2}, 2);
    for (int stage = 0; stage < 2; stage++) {
        h.memory.stack = NULL;
        before = communication_peak(&h, stage);
        h.memory.stack = bb_memory_stack_of("megatron", false);
        assert_true(communication_peak(&h, stage) - before == 2 * (attention + mlp + norms + stage * 128256.0 * 8192));
    }
    make(&h, "mixtral_8x7b", (struct bb_grid){.ep = 8, .ranks = 8}, 1);
    before = communication_peak(&h, 0);
    h.memory.stack = bb_memory_stack_of("megatron", false);
    assert_true(communication_peak(&h, 0) - before == 2 * moe);
}

/* FSDP keeps parameters (2 bytes) and gradients (2 bytes) of a stage whole, two gathered layers (here the embedding or the head),
 * and the logits of all micro-batches. Messages: of two micro-batches the last stage has received one more than it stores, and
 * has its gradient; the first stage stores two outputs and has buffers for two gradients. Two chunks have whole gradients one after
 * the other, unless there are two rounds of micro-batches; float gradients are converted from those of one layer. The gradients of
 * the last layer of each chunk are kept after their reduce-scatter. In 8 bits a parameter of a layer takes 1 byte, not one of the
 * embedding. The only shards of parameters are float. */
static void fsdp_in_a_pipeline(void **state)
{
    const double message = 2 * 8192.0 * 8192, table = 128256.0 * 8192;
    const double layer = 8192 * (2 * 8192.0 + 2 * 1024 + 3 * 28672 + 2);
    struct memory_case h;
    double bytes[BB_USES], one;

    (void)state;
    make(&h, "llama3_70b", (struct bb_grid){.pp = 2, .dp = 4, .ranks = 8}, 2);
    h.policy.kind = BB_SYNC_ZERO3;
    h.memory.stack = bb_memory_stack_of(NULL, true);
    for (int stage = 0; stage < 2; stage++)
        assert_true(fabs(communication_peak(&h, stage) / h.memory.stack->reserved -
                         (4 * (double)bb_memory_parameters(&h.memory, stage).dense + 4 * (table + stage * 8192) +
                          2 * layer + (stage == 0 ? 4 : 2) * message)) < 1);
    bb_memory_rank_bytes(&h.memory, 1, bytes);
    assert_true(bytes[BB_USE_PARAMETERS] == (double)bb_memory_parameters(&h.memory, 1).dense &&
                bytes[BB_USE_OPTIMIZER] == 2 * bytes[BB_USE_PARAMETERS]); /* 4 and 8 bytes, four ranks */
    h.policy.options.optimizer = "adam-bf16";                             /* no copy: 2 and 4 bytes */
    bb_memory_rank_bytes(&h.memory, 1, bytes);
    assert_true(bytes[BB_USE_OPTIMIZER] == 2 * bytes[BB_USE_PARAMETERS] &&
                2 * bytes[BB_USE_PARAMETERS] == (double)bb_memory_parameters(&h.memory, 1).dense);
    h.policy.options.optimizer = NULL;
    one = bytes[BB_USE_ACTIVATIONS];
    h.schedule.micro_batches = 5;
    bb_memory_rank_bytes(&h.memory, 1, bytes);
    assert_true(fabs((bytes[BB_USE_ACTIVATIONS] - one) / h.memory.stack->reserved - 3 * 8192.0 * 128256 * 2) < 1);
    h.schedule.chunks = 2;
    for (h.schedule.micro_batches = 3; h.schedule.micro_batches <= 4; h.schedule.micro_batches++) {
        h.policy.grads = BB_BFLOAT16;
        one = communication_peak(&h, 0);
        h.policy.grads = BB_FLOAT;
        assert_true(fabs((communication_peak(&h, 0) - one) / h.memory.stack->reserved -
                         (h.schedule.micro_batches - 2) * (double)bb_memory_parameters(&h.memory, 0).dense - 2 * table -
                         2 * 2 * layer) < 64);
    }
    one = communication_peak(&h, 0);
    h.policy.options.float8_gather = true;
    assert_true(fabs((one - communication_peak(&h, 0)) / h.memory.stack->reserved + table -
                     (double)bb_memory_parameters(&h.memory, 0).dense) < 64);
    h.layers_config.precision = BB_GEMM_FP8;
    one = communication_peak(&h, 0);
    h.layers_config.precision = BB_GEMM_MXFP8; /* gathered in 16 bits */
    assert_true(fabs((communication_peak(&h, 0) - one) / h.memory.stack->reserved + table -
                     (double)bb_memory_parameters(&h.memory, 0).dense) < 64);
}

/* The backward of a layer in PyTorch: the gradient of the gathered input, and keys and values of two ranks, 64 heads of 128 on two
 * tp ranks. Compiled: the input of the reduce-scatter and four tensors of FP8. */
static void backward_in_pytorch(void **state)
{
    struct bb_memory_stack other = *bb_memory_stack_of("torch", true);
    struct memory_case h;
    double bytes[BB_USES], torch;

    (void)state;
    other.keeps_whole = false;
    make(&h, "llama3_70b", (struct bb_grid){.tp = 2, .cp = 2, .pp = 2, .ranks = 8}, 2);
    h.layers_config.sequence_parallel = true;
    h.layers_config.recompute = BB_RECOMPUTE_FULL;
    h.memory.stack = bb_memory_stack_of("torch", true);
    bb_memory_rank_bytes(&h.memory, 0, bytes);
    torch = bytes[BB_USE_ACTIVATIONS];
    h.memory.stack = &other;
    bb_memory_rank_bytes(&h.memory, 0, bytes);
    assert_true(fabs((torch - bytes[BB_USE_ACTIVATIONS]) / other.reserved - 2 * 4096.0 * (8192 + 2 * 2 * 8192 / 2)) <
                1);
    h.layers_config.precision = BB_GEMM_FP8;
    h.memory.stack = bb_memory_stack_of("torch", true);
    bb_memory_rank_bytes(&h.memory, 0, bytes);
    torch = bytes[BB_USE_ACTIVATIONS];
    h.memory.stack = bb_memory_stack_of("torch-compile", true);
    bb_memory_rank_bytes(&h.memory, 0, bytes);
    assert_true(fabs((bytes[BB_USE_ACTIVATIONS] - torch) / other.reserved - 4096.0 * 8192 * (2 + 4)) < 1);
}

/* Whole model on one rank: logits 4 s b h (1 + V/h), all divided by t with sequence parallelism. */
static void activations_of_the_head(void **state)
{
    struct memory_case h;

    (void)state;
    make(&h, "llama2_7b", (struct bb_grid){.tp = 1, .ranks = 1}, 1);
    assert_true(bb_memory_head(&h.memory) == 4.0 * 4096 * 4096 * (1 + 32000 / 4096.0));
    make(&h, "llama2_7b", (struct bb_grid){.tp = 4, .ranks = 4}, 1);
    h.layers_config.sequence_parallel = true;
    assert_true(bb_memory_head(&h.memory) == 4.0 * 4096 * 4096 * (1 + 32000 / 4096.0) / 4);
}

/* ---- model states ---- */

static void assert_states(struct memory_case *h, enum bb_sync_kind kind, double params, double grads, double optimizer)
{
    double bytes[BB_USES], p = 6738415616.0;

    h->policy.kind = kind;
    bb_memory_rank_bytes(&h->memory, 0, bytes);
    assert_true(bytes[BB_USE_PARAMETERS] == p * params);
    assert_true(bytes[BB_USE_GRADIENTS] == p * grads);
    assert_true(bytes[BB_USE_OPTIMIZER] == p * optimizer);
}

/* ZeRO paper, 16-bit, Adam, 8 replicas: 16 P, 4 P + 12 P/d, 2 P + 14 P/d, 16 P/d. Megatron-LM with float gradients:
 * 18 P, and 6 P + 12 P/d for the distributed optimizer. */
static void model_states_of_each_zero_stage(void **state)
{
    struct memory_case h;

    (void)state;
    make(&h, "llama2_7b", (struct bb_grid){.dp = 8, .ranks = 8}, 1);
    assert_states(&h, BB_SYNC_ALL_REDUCE, 2, 2, 12);
    assert_states(&h, BB_SYNC_ZERO1, 2, 2, 12 / 8.0);
    assert_states(&h, BB_SYNC_ZERO2, 2, 2 / 8.0, 12 / 8.0);
    assert_states(&h, BB_SYNC_ZERO3, 2 / 8.0, 2 / 8.0, 12 / 8.0);
    h.policy.grads = BB_FLOAT;
    assert_states(&h, BB_SYNC_ALL_REDUCE, 2, 4, 12);
    assert_states(&h, BB_SYNC_DISTRIBUTED, 2, 4, 12 / 8.0);
}

/* With 16-bit gradients, the update needs a float copy of this rank's shard, as far as it exceeds the memory of the
 * activations, which are free by then. The precision-aware optimizer, which keeps 16 bits of the parameters, needs
 * no copy: 4 P + 10 P/d. */
static void optimizer_update_needs_a_gradient_copy(void **state)
{
    struct memory_case h;
    double bytes[BB_USES], p = 6738415616.0;

    (void)state;
    make(&h, "llama2_7b", (struct bb_grid){.dp = 8, .ranks = 8}, 1);
    assert_states(&h, BB_SYNC_DISTRIBUTED, 2, 2, 12 / 8.0); /* activations of 4096 tokens need more than the copy */
    h.layers_config.sequence = 128;
    bb_memory_rank_bytes(&h.memory, 0, bytes);
    assert_true(bytes[BB_USE_ACTIVATIONS] < 4 * p / 8);
    assert_true(bytes[BB_USE_OPTIMIZER] == 12 * p / 8 + (4 * p / 8 - bytes[BB_USE_ACTIVATIONS]));
    h.policy.options.precision_aware = true;
    assert_states(&h, BB_SYNC_DISTRIBUTED, 2, 2, 10 / 8.0);
}

/* Experts are sharded over ep and replicated over edp, the other parameters over dp. */
static void model_states_of_experts(void **state)
{
    double bytes[BB_USES], dense = 46702792704.0 - 32 * 8 * 176160768.0, expert = 32 * 2 * 176160768.0;
    struct memory_case h;

    (void)state;
    make(&h, "mixtral_8x7b", (struct bb_grid){.dp = 8, .ep = 4, .ranks = 8}, 1);
    h.policy.kind = BB_SYNC_ZERO1;
    bb_memory_rank_bytes(&h.memory, 0, bytes);
    assert_int_equal(h.grid.edp, 2);
    assert_true(bytes[BB_USE_PARAMETERS] == 2 * (dense + expert));
    assert_true(bytes[BB_USE_OPTIMIZER] == 12 * (dense / 8 + expert / 2));
}

/* LoRA of rank 16, by hand: adapters of attention, and of the two experts of a rank together (as Megatron-LM) or of each. */
static void model_states_of_adapters_of_experts(void **state)
{
    const double weights = 46702792704.0 - 32 * 6 * 176160768.0, layers = 32 * 16;
    const double attention = layers * (4096 + 6144 + 4096 + 4096), shared = layers * (4096 + 2 * 14336 + 14336 + 4096);
    double bytes[BB_USES];
    struct memory_case h;

    (void)state;
    for (int of_each = 0; of_each < 2; of_each++) {
        const double expert = shared * (of_each ? 2 : 1);

        make(&h, "mixtral_8x7b", (struct bb_grid){.dp = 8, .ep = 4, .ranks = 8}, 1);
        h.arch.lora_rank = 16;
        h.arch.lora_experts = of_each ? 8 : 4;
        h.policy.kind = BB_SYNC_ZERO1;
        bb_memory_rank_bytes(&h.memory, 0, bytes);
        assert_true(bytes[BB_USE_PARAMETERS] == 2 * (weights + attention + expert));
        assert_true(bytes[BB_USE_GRADIENTS] == 2 * (attention + expert));
        assert_true(bytes[BB_USE_OPTIMIZER] == 12 * (attention / 8 + expert / 2));
        h.policy.kind = BB_SYNC_ZERO3;
        bb_memory_rank_bytes(&h.memory, 0, bytes);
        assert_true(bytes[BB_USE_PARAMETERS] ==
                    2 * ((46702792704.0 - 256 * 176160768.0 + attention) / 8 + (64 * 176160768.0 + expert) / 2));
    }
}

/* All stages together have the parameters of the model, plus the second copy of a tied embedding table. */
static void stages_sum_to_the_model(void **state)
{
    static const char *const names[] = {"gpt2_large", "llama3_405b", "deepseek_v3", "bert_large"};
    struct memory_case h;

    (void)state;
    for (int i = 0; i < 4; i++)
        for (int pp = 1; pp <= 16; pp *= 2) {
            double sum = 0;

            make(&h, names[i], (struct bb_grid){.pp = pp, .ranks = pp}, pp);
            for (int stage = 0; stage < pp; stage++)
                sum += (double)bb_memory_parameters(&h.memory, stage).dense +
                       (double)bb_memory_parameters(&h.memory, stage).expert;
            assert_true(sum == bb_arch_parameters(&h.arch) +
                                   (h.arch.tied && pp > 1 ? (double)h.arch.vocab * h.arch.hidden : 0));
        }
}

/* ---- communication buffers ---- */

static double communication(const struct memory_case *h, int stage)
{
    double bytes[BB_USES];

    bb_memory_rank_bytes(&h->memory, stage, bytes);
    return bytes[BB_USE_COMMUNICATION];
}

/* DeepSeek-V3 in 16 stages of 3, 4, ..., 4, 2 layers: the total of the parameters does not change, activations
 * follow the layers of each stage. */
static void stages_of_unequal_length(void **state)
{
    struct memory_case h;
    double sum = 0, bytes[BB_USES], dense, sparse;

    (void)state;
    make(&h, "deepseek_v3", (struct bb_grid){.pp = 16, .ranks = 16, .first_layers = 3, .last_layers = 2}, 16);
    for (int stage = 0; stage < 16; stage++)
        sum += (double)bb_memory_parameters(&h.memory, stage).dense +
               (double)bb_memory_parameters(&h.memory, stage).expert;
    assert_true(sum == bb_arch_parameters(&h.arch));
    dense = bb_memory_layer(&h.memory, 0);
    sparse = bb_memory_layer(&h.memory, 3);
    bb_memory_rank_bytes(&h.memory, 0, bytes);
    assert_true(bytes[BB_USE_ACTIVATIONS] == 16 * (3 * dense + bb_memory_embedding(&h.memory)));
    bb_memory_rank_bytes(&h.memory, 1, bytes);
    assert_true(bytes[BB_USE_ACTIVATIONS] == 15 * 4 * sparse);
    bb_memory_rank_bytes(&h.memory, 15, bytes);
    assert_true(bytes[BB_USE_ACTIVATIONS] == 2 * sparse + bb_memory_head(&h.memory));
}

/* Dualpipe, LLaMA-2 70B in 8 parts of 10 layers: every stage has two parts, the first and the last stage have
 * embedding and head, and activations are those of p + 1 micro-batches of one part each. */
static void dualpipe_stages_have_two_parts(void **state)
{
    const double layer = 855654400, vocabulary_elements = 32000.0 * 8192, norm = 8192;
    double bytes[BB_USES];
    struct memory_case h;

    (void)state;
    make(&h, "llama2_70b", (struct bb_grid){.pp = 8, .ranks = 8}, 16);
    h.schedule = (struct bb_schedule){BB_DUALPIPE, 8, 16, 2, 8, false};
    for (int stage = 0; stage < 8; stage++) {
        double ends = stage % 7 == 0 ? 2 * vocabulary_elements + norm : 0;

        assert_true((double)bb_memory_parameters(&h.memory, stage).dense == 20 * layer + ends);
    }
    bb_memory_rank_bytes(&h.memory, 3, bytes);
    assert_true(bytes[BB_USE_ACTIVATIONS] == 9 * 10 * bb_memory_layer(&h.memory, 0));
    bb_memory_rank_bytes(&h.memory, 7, bytes);
    assert_true(bytes[BB_USE_ACTIVATIONS] == 9 * 10 * bb_memory_layer(&h.memory, 0) +
                                                 4.5 * bb_memory_embedding(&h.memory) + bb_memory_head(&h.memory));
}

static void communication_buffers_match_the_formula(void **state)
{
    struct memory_case h;

    (void)state;
    make(&h, "llama2_7b", (struct bb_grid){.dp = 8, .ranks = 8}, 1);
    assert_true(communication(&h, 0) == 0);
    h.policy.kind = BB_SYNC_ZERO3; /* two gathered layers, gradients of one layer */
    assert_true(communication(&h, 0) == 202383360.0 * (2 * 2 + 2));
    h.policy.kind = BB_SYNC_ZERO2;
    h.policy.rule = (struct bb_bucket_rule){.kind = BB_BUCKETS_DEEPSPEED, .elements = 5e8};
    assert_true(communication(&h, 0) == 2 * 5e8 * 2);
    make(&h, "llama3_8b", (struct bb_grid){.dp = 8, .ranks = 8}, 1);
    h.policy.kind = BB_SYNC_ZERO3; /* the head with its norm is larger than a layer */
    assert_true(communication(&h, 0) == (128256 + 1) * 4096.0 * (2 * 2 + 2));
    make(&h, "gpt3_175b", (struct bb_grid){.tp = 8, .pp = 8, .ranks = 64}, 8);
    assert_true(communication(&h, 2) == 2 * 2 * SBH); /* one message per direction */
    h.layers_config.sequence_parallel = true;
    assert_true(communication(&h, 2) == 2 * 2 * SBH / 8 + 2 * SBH);
    make(&h, "llama2_70b", (struct bb_grid){.cp = 4, .ranks = 4}, 1); /* keys and values of 8 heads of 128 */
    assert_true(communication(&h, 0) == 2.0 * 1024 * 2 * 1024);
    h.layers_config.context = BB_CONTEXT_ALL_GATHER;
    assert_true(communication(&h, 0) == 4 * 2.0 * 1024 * 2 * 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_of_a_gpt3_layer),
        cmocka_unit_test(activations_of_windowed_layers),
        cmocka_unit_test(activations_with_context_parallelism),
        cmocka_unit_test(activations_of_a_llama_layer),
        cmocka_unit_test(activations_of_a_llama_layer_in_fp8),
        cmocka_unit_test(activations_of_a_llama_layer_with_adapters),
        cmocka_unit_test(activations_of_a_llama_layer_in_block_scaled_types),
        cmocka_unit_test(activations_of_a_mixtral_layer),
        cmocka_unit_test(activations_of_a_mixtral_layer_with_adapters),
        cmocka_unit_test(recomputed_modules_of_a_deepseek_layer),
        cmocka_unit_test(activations_of_deepseek_v4_layers),
        cmocka_unit_test(live_micro_batches_follow_the_schedule),
        cmocka_unit_test(activations_with_recomputation),
        cmocka_unit_test(activations_with_checkpointed_operations),
        cmocka_unit_test(scores_without_dropout),
        cmocka_unit_test(logits_of_each_framework),
        cmocka_unit_test(placeholder_gradients),
        cmocka_unit_test(fsdp_in_a_pipeline),
        cmocka_unit_test(backward_in_pytorch),
        cmocka_unit_test(recomputes_the_first_layers_of_each_stack),
        cmocka_unit_test(activations_of_the_head),
        cmocka_unit_test(model_states_of_each_zero_stage),
        cmocka_unit_test(optimizer_update_needs_a_gradient_copy),
        cmocka_unit_test(model_states_of_experts),
        cmocka_unit_test(model_states_of_adapters_of_experts),
        cmocka_unit_test(stages_sum_to_the_model),
        cmocka_unit_test(dualpipe_stages_have_two_parts),
        cmocka_unit_test(activations_of_a_mamba2_layer),
        cmocka_unit_test(activations_of_qwen3_next_layers),
        cmocka_unit_test(activations_of_an_encoder_decoder),
        cmocka_unit_test(communication_buffers_match_the_formula),
        cmocka_unit_test(stages_of_unequal_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
