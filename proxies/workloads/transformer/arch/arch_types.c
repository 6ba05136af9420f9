/*
 * arch_types.c - the supported architectures of config.json, one struct bb_arch_type each (see arch_types.h). Keys and
 * defaults are those of the published configuration classes (Hugging Face transformers, configuration_*.py); tensor
 * shapes are those of the published weights.
 */
#include "proxies/workloads/transformer/arch/arch_types.h"

#define MAX_WIDTH    (1 << 20) /* maximum hidden size, head width and similar widths */
#define MAX_FFN      (1 << 24)
#define MAX_VOCAB    (1 << 28)
#define MAX_SEQUENCE (1 << 30)
#define MAX_COUNT    (1 << 16) /* maximum number of heads and maximum number of experts */
#define MAX_LAYERS   BB_ARCH_MAX_LAYERS

/* clang-format off */
#define AT(field) offsetof(struct bb_arch, field)
#define NAMES(...) {__VA_ARGS__}
#define NUMBER(names, field, value, min, max) {names, AT(field), value, min, max}
#define COUNT(key, field, value, max) NUMBER(NAMES(key), field, value, 1, max)
#define MAYBE(key, field, value, max) NUMBER(NAMES(key), field, value, 0, max)
#define NUMBERS(...) .numbers = (const struct bb_arch_number[]){__VA_ARGS__, {{NULL}, 0, 0, 0, 0}}

#define FLAG(key, field, value) {key, AT(field), value}
#define TIED(value) FLAG("tie_word_embeddings", tied, value)
#define ATTENTION_BIAS(value) FLAG("attention_bias", qkv_bias, value), FLAG("attention_bias", out_bias, value)
#define ALL_BIASES(key, value) FLAG(key, qkv_bias, value), FLAG(key, out_bias, value), FLAG(key, mlp_bias, value)
#define FLAGS(...) .flags = (const struct bb_arch_flag[]){__VA_ARGS__, {0}}
#define FIXED(...) .fixed = (const struct bb_arch_fixed[]){__VA_ARGS__, {0}}
#define NO_WINDOWS FIXED({"use_sliding_window", false, "a sliding window in only some layers is not supported"})

#define SEQUENCE(n) COUNT("max_position_embeddings", sequence, n, MAX_SEQUENCE)
#define OUTER(v, h, l, a) COUNT("vocab_size", vocab, v, MAX_VOCAB), COUNT("hidden_size", hidden, h, MAX_WIDTH),    \
    COUNT("num_hidden_layers", layers, l, MAX_LAYERS), COUNT("num_attention_heads", heads, a, MAX_COUNT)
#define FFN(n) COUNT("intermediate_size", ffn, n, MAX_FFN)
#define KV_HEADS(n) COUNT("num_key_value_heads", kv_heads, n, MAX_COUNT)
#define SHAPE(v, h, f, l, a, kv, s) OUTER(v, h, l, a), FFN(f), KV_HEADS(kv), SEQUENCE(s)
#define HEAD_DIM(n) COUNT("head_dim", head_dim, n, MAX_WIDTH)
#define WINDOW(n) MAYBE("sliding_window", window, n, MAX_SEQUENCE)
#define EXPERTS(key, alias, n, k)                                                                                    \
    NUMBER(NAMES(key, alias), experts, n, 1, MAX_COUNT), COUNT("num_experts_per_tok", top_k, k, MAX_COUNT)
#define EXPERT_FFN(n) COUNT("moe_intermediate_size", expert_ffn, n, MAX_FFN)
#define SPARSE_STEP COUNT("decoder_sparse_step", moe_every, 1, MAX_LAYERS)
#define SHARED_EXPERTS(n) MAYBE("n_shared_experts", shared_experts, n, 64)
#define FIRST_DENSE(n) MAYBE("first_k_dense_replace", dense_layers, n, MAX_LAYERS)
#define LATENT(n_experts, k, shared, width, dense, limit)                                                            \
    EXPERTS("n_routed_experts", "num_local_experts", n_experts, k), EXPERT_FFN(width), SHARED_EXPERTS(shared),       \
    FIRST_DENSE(dense), COUNT("moe_layer_freq", moe_every, 1, MAX_LAYERS),                                          \
    MAYBE("q_lora_rank", q_lora, 1536, MAX_WIDTH), COUNT("kv_lora_rank", kv_lora, 512, MAX_WIDTH),                 \
    COUNT("qk_nope_head_dim", nope_dim, 128, MAX_COUNT), MAYBE("qk_rope_head_dim", rope_dim, 64, MAX_COUNT),       \
    COUNT("v_head_dim", v_dim, 128, MAX_COUNT), MAYBE("topk_group", expert_groups, limit, MAX_COUNT)

#define LLAMA_LIKE .order = "am12", .gated = true /* tensors in the order attention, MLP, norm 1, norm 2; gated MLP */
#define BIASED .layer_norm = true, .qkv_bias = true, .out_bias = true, .mlp_bias = true

const struct bb_arch_type bb_arch_types[] = {
    {"gpt2", "GPT2",
     NUMBERS(COUNT("vocab_size", vocab, 50257, MAX_VOCAB),
             NUMBER(NAMES("n_positions", "n_ctx"), sequence, 1024, 1, MAX_SEQUENCE),
             NUMBER(NAMES("n_embd", "hidden_size"), hidden, 768, 1, MAX_WIDTH),
             NUMBER(NAMES("n_layer", "num_hidden_layers"), layers, 12, 1, MAX_LAYERS),
             NUMBER(NAMES("n_head", "num_attention_heads"), heads, 12, 1, MAX_COUNT),
             COUNT("n_inner", ffn, 0, MAX_FFN)),
     FLAGS(TIED(true)),
     FIXED({"add_cross_attention", false, "cross attention is not supported"}),
     .base = {.order = "1a2m", .fused_qkv = true, BIASED, .learned_positions = true, .dropout = true}},
    {"bert", "Bert",
     NUMBERS(OUTER(30522, 768, 12, 12), FFN(3072), SEQUENCE(512),
             MAYBE("type_vocab_size", token_types, 2, MAX_COUNT)),
     FLAGS(TIED(true)),
     .base = {.order = "a1m2", .post_norm = true, .embedding_norm = true, BIASED, .learned_positions = true,
              .dropout = true}},

    {"llama", "Llama", NUMBERS(SHAPE(32000, 4096, 11008, 32, 32, 0, 2048), HEAD_DIM(0)),
     FLAGS(TIED(false), ATTENTION_BIAS(false), FLAG("mlp_bias", mlp_bias, false)), .base = {LLAMA_LIKE}},
    {"granite", "Granite", NUMBERS(SHAPE(32000, 4096, 11008, 32, 32, 0, 2048)),
     FLAGS(TIED(false), ATTENTION_BIAS(false), FLAG("mlp_bias", mlp_bias, false)), .base = {LLAMA_LIKE}},
    {"smollm3", "SmolLM3", NUMBERS(SHAPE(128256, 2048, 11008, 36, 16, 4, 32768)),
     FLAGS(TIED(true), ATTENTION_BIAS(false), FLAG("mlp_bias", mlp_bias, false)), NO_WINDOWS, .base = {LLAMA_LIKE}},
    {"mistral", "Mistral", NUMBERS(SHAPE(32000, 4096, 14336, 32, 32, 8, 131072), HEAD_DIM(0), WINDOW(4096)),
     FLAGS(TIED(false)), .base = {LLAMA_LIKE}},
    {"mixtral", "Mixtral",
     NUMBERS(SHAPE(32000, 4096, 14336, 32, 32, 8, 131072), HEAD_DIM(0), WINDOW(0),
             EXPERTS("num_local_experts", "num_experts", 8, 2)),
     FLAGS(TIED(false)), .base = {LLAMA_LIKE}},
    {"qwen2", "Qwen2", NUMBERS(SHAPE(151936, 4096, 22016, 32, 32, 32, 32768), HEAD_DIM(0)),
     FLAGS(TIED(false)), NO_WINDOWS, .base = {LLAMA_LIKE, .qkv_bias = true}},
    {"qwen2_moe", "Qwen2Moe",
     NUMBERS(SHAPE(151936, 2048, 5632, 24, 16, 16, 32768), HEAD_DIM(0),
             EXPERTS("num_experts", "num_local_experts", 60, 4), EXPERT_FFN(1408),
             COUNT("shared_expert_intermediate_size", shared_ffn, 5632, MAX_FFN), SPARSE_STEP),
     FLAGS(TIED(false), FLAG("qkv_bias", qkv_bias, true)), NO_WINDOWS,
     .base = {LLAMA_LIKE, .shared_gate = true, .moe_offset = -1}},
    {"qwen2_vl_text", "Qwen2VL", NUMBERS(SHAPE(152064, 8192, 29568, 80, 64, 8, 32768)),
     FLAGS(TIED(false)), NO_WINDOWS, .base = {LLAMA_LIKE, .qkv_bias = true}},
    {"qwen2_5_vl_text", "Qwen2_5_VL", NUMBERS(SHAPE(152064, 8192, 29568, 80, 64, 8, 32768)),
     FLAGS(TIED(false)), NO_WINDOWS, .base = {LLAMA_LIKE, .qkv_bias = true}},
    {"qwen3", "Qwen3", NUMBERS(SHAPE(151936, 4096, 22016, 32, 32, 32, 32768), HEAD_DIM(128)),
     FLAGS(TIED(false), ATTENTION_BIAS(false)), NO_WINDOWS, .base = {LLAMA_LIKE, .qk_norm = true}},
    {"qwen3_vl_text", "Qwen3VL", NUMBERS(SHAPE(151936, 4096, 22016, 32, 32, 32, 128000), HEAD_DIM(128)),
     FLAGS(TIED(false), ATTENTION_BIAS(false)), .base = {LLAMA_LIKE, .qk_norm = true}},
    {"qwen3_moe", "Qwen3Moe",
     NUMBERS(SHAPE(151936, 2048, 6144, 24, 32, 4, 32768), HEAD_DIM(0),
             EXPERTS("num_experts", "num_local_experts", 128, 8), EXPERT_FFN(768), SPARSE_STEP),
     FLAGS(TIED(false), ATTENTION_BIAS(false)), NO_WINDOWS, .base = {LLAMA_LIKE, .qk_norm = true, .moe_offset = -1}},
    {"qwen3_next", "Qwen3Next",
     NUMBERS(SHAPE(151936, 2048, 5632, 48, 16, 2, 32768), HEAD_DIM(256),
             EXPERTS("num_experts", "num_local_experts", 512, 10), EXPERT_FFN(512),
             COUNT("shared_expert_intermediate_size", shared_ffn, 512, MAX_FFN), SPARSE_STEP,
             COUNT("linear_num_value_heads", scan.heads, 32, MAX_COUNT),
             COUNT("linear_num_key_heads", scan.groups, 16, MAX_COUNT),
             COUNT("linear_key_head_dim", scan.key_dim, 128, MAX_COUNT),
             COUNT("linear_value_head_dim", scan.value_dim, 128, MAX_COUNT),
             COUNT("linear_conv_kernel_dim", scan.conv, 4, MAX_COUNT),
             COUNT("full_attention_interval", attention_every, 4, MAX_LAYERS)),
     FLAGS(TIED(false), ATTENTION_BIAS(false)),
     .base = {LLAMA_LIKE, .qk_norm = true, .shared_gate = true, .moe_offset = -1, .out_gate = true,
              .attention_offset = -1, .scan = {.delta = true, .chunk = 64}}},
    {"mamba2", "Mamba2",
     NUMBERS(COUNT("vocab_size", vocab, 32768, MAX_VOCAB), COUNT("hidden_size", hidden, 4096, MAX_WIDTH),
             COUNT("num_hidden_layers", layers, 64, MAX_LAYERS), COUNT("num_heads", scan.heads, 128, MAX_COUNT),
             COUNT("n_groups", scan.groups, 8, MAX_COUNT), COUNT("state_size", scan.key_dim, 128, MAX_COUNT),
             COUNT("head_dim", scan.value_dim, 64, MAX_COUNT), COUNT("conv_kernel", scan.conv, 4, MAX_COUNT),
             COUNT("chunk_size", scan.chunk, 256, MAX_SEQUENCE), COUNT("expand", expand, 2, MAX_COUNT),
             SEQUENCE(2048)), /* Mamba 2's configuration class has no sequence length; 2048 is that of the first
                                 published models */
     FLAGS(TIED(false), FLAG("use_bias", scan.bias, false), FLAG("use_conv_bias", scan.conv_bias, true)),
     .base = {.order = "1a"}},
    {"nemotron_h", "NemotronH",
     NUMBERS(SHAPE(131072, 4096, 21504, 0, 32, 8, 4096),
             NUMBER(NAMES("head_dim", "attention_head_dim"), head_dim, 128, 1, MAX_WIDTH),
             EXPERTS("n_routed_experts", "num_local_experts", 8, 2), EXPERT_FFN(7688),
             MAYBE("moe_shared_expert_intermediate_size", shared_ffn, 7688, MAX_FFN),
             MAYBE("moe_latent_size", moe_latent, 0, MAX_WIDTH),
             COUNT("mamba_num_heads", scan.heads, 128, MAX_COUNT), COUNT("n_groups", scan.groups, 8, MAX_COUNT),
             COUNT("ssm_state_size", scan.key_dim, 128, MAX_COUNT),
             COUNT("mamba_head_dim", scan.value_dim, 64, MAX_COUNT), COUNT("conv_kernel", scan.conv, 4, MAX_COUNT),
             COUNT("chunk_size", scan.chunk, 128, MAX_SEQUENCE)),
     FLAGS(TIED(false), ATTENTION_BIAS(false), FLAG("mlp_bias", mlp_bias, false), FLAG("use_bias", scan.bias, false),
           FLAG("use_conv_bias", scan.conv_bias, true)),
     .base = {.order = "1am", .router_bias = true, .no_positions = true, .kinds = "ME*-", .mtp_kinds = "*E"}},
    {"jamba", "Jamba",
     NUMBERS(SHAPE(65536, 4096, 14336, 32, 32, 8, 262144), WINDOW(0),
             EXPERTS("num_experts", "num_local_experts", 16, 2),
             COUNT("expert_layer_period", moe_every, 2, MAX_LAYERS),
             MAYBE("expert_layer_offset", moe_offset, 1, MAX_LAYERS),
             COUNT("attn_layer_period", attention_every, 8, MAX_LAYERS),
             MAYBE("attn_layer_offset", attention_offset, 4, MAX_LAYERS),
             COUNT("mamba_d_state", scan.key_dim, 16, MAX_COUNT), COUNT("mamba_d_conv", scan.conv, 4, MAX_COUNT),
             COUNT("mamba_expand", expand, 2, MAX_COUNT), COUNT("mamba_dt_rank", scan.step_rank, 0, MAX_WIDTH)),
     FLAGS(TIED(false), FLAG("mamba_conv_bias", scan.conv_bias, true), FLAG("mamba_proj_bias", scan.bias, false)),
     .base = {LLAMA_LIKE, .no_positions = true, .scan = {.groups = 1, .value_dim = 1, .chunk = 1}}},

    {"gemma", "Gemma", NUMBERS(SHAPE(256000, 3072, 24576, 28, 16, 16, 8192), HEAD_DIM(256)),
     FLAGS(TIED(true), ATTENTION_BIAS(false)), .base = {LLAMA_LIKE}},
    {"gemma2", "Gemma2", NUMBERS(SHAPE(256000, 2304, 9216, 26, 8, 4, 8192), HEAD_DIM(256), WINDOW(4096)),
     FLAGS(TIED(true), ATTENTION_BIAS(false)), .base = {.order = "am1234", .gated = true, .window_every = 2}},
    {"gemma3_text", "Gemma3",
     NUMBERS(SHAPE(262208, 2304, 9216, 26, 8, 4, 131072), HEAD_DIM(256), WINDOW(4096),
             NUMBER(NAMES("sliding_window_pattern", "_sliding_window_pattern"), window_every, 6, 1, MAX_LAYERS)),
     FLAGS(TIED(true), ATTENTION_BIAS(false)), .base = {.order = "am1234", .gated = true, .qk_norm = true}},
    {"phi3", "Phi3", NUMBERS(SHAPE(32064, 3072, 8192, 32, 32, 0, 4096), WINDOW(0)),
     FLAGS(TIED(false)), .base = {LLAMA_LIKE, .fused_qkv = true}},
    {"olmo2", "Olmo2", NUMBERS(SHAPE(50304, 4096, 11008, 32, 32, 0, 2048)),
     FLAGS(TIED(false), ATTENTION_BIAS(false)), .base = {LLAMA_LIKE, .qk_norm_wide = true}},
    {"olmo3", "Olmo3", NUMBERS(SHAPE(50304, 4096, 11008, 32, 32, 0, 2048), WINDOW(4096)),
     FLAGS(TIED(false), ATTENTION_BIAS(false)), .base = {LLAMA_LIKE, .qk_norm_wide = true, .window_every = 4}},

    {"gpt_oss", "GptOss",
     NUMBERS(SHAPE(201088, 2880, 2880, 36, 64, 8, 131072), HEAD_DIM(64), WINDOW(128),
             EXPERTS("num_local_experts", "num_experts", 128, 4)),
     FLAGS(TIED(false), ATTENTION_BIAS(true)),
     .base = {LLAMA_LIKE, .window_every = 2, .sinks = true, .router_bias = true, .expert_bias = true}},
    {"glm4_moe", "Glm4Moe",
     NUMBERS(SHAPE(151552, 4096, 10944, 46, 96, 8, 131072), HEAD_DIM(128),
             EXPERTS("n_routed_experts", "num_local_experts", 128, 8), EXPERT_FFN(1408), SHARED_EXPERTS(1),
             FIRST_DENSE(1)),
     FLAGS(TIED(false), FLAG("attention_bias", qkv_bias, false), FLAG("use_qk_norm", qk_norm, false)),
     .base = {LLAMA_LIKE, .router_bias = true}},
    {"minimax_m2", "MiniMaxM2",
     NUMBERS(SHAPE(200064, 3072, 1536, 62, 48, 8, 196608), HEAD_DIM(128),
             EXPERTS("num_local_experts", "num_experts", 256, 8)),
     FLAGS(TIED(false), FLAG("use_qk_norm", qk_norm_wide, true), FLAG("use_routing_bias", router_bias, true)),
     .base = {LLAMA_LIKE}},
    {"llama4_text", "Llama4",
     NUMBERS(OUTER(202048, 5120, 48, 40), KV_HEADS(8), SEQUENCE(131072), HEAD_DIM(128),
             COUNT("intermediate_size", expert_ffn, 8192, MAX_FFN),
             COUNT("intermediate_size_mlp", ffn, 16384, MAX_FFN), EXPERTS("num_local_experts", "num_experts", 16, 1),
             COUNT("interleave_moe_layer_step", moe_every, 1, MAX_LAYERS),
             MAYBE("attention_chunk_size", window, 8192, MAX_SEQUENCE),
             COUNT("no_rope_layer_interval", window_every, 4, MAX_LAYERS)),
     FLAGS(TIED(false), ATTENTION_BIAS(false)), .base = {LLAMA_LIKE, .shared_experts = 1, .moe_offset = -1}},

    {"deepseek_v2", "DeepseekV2", NUMBERS(SHAPE(32000, 4096, 11008, 32, 32, 0, 2048), LATENT(64, 0, 2, 1407, 0, 0)),
     FLAGS(TIED(false), ATTENTION_BIAS(false)), .base = {LLAMA_LIKE}},
    {"deepseek_v3", "DeepseekV3", NUMBERS(SHAPE(129280, 7168, 18432, 61, 128, 128, 4096), LATENT(256, 8, 1, 2048, 3, 4)),
     FLAGS(TIED(false), ATTENTION_BIAS(false)), .base = {LLAMA_LIKE, .router_bias = true}},
    {"deepseek_v32", "DeepseekV32",
     NUMBERS(SHAPE(129280, 7168, 18432, 61, 128, 128, 163840), LATENT(256, 8, 1, 2048, 3, 4),
             COUNT("index_n_heads", index_heads, 64, MAX_COUNT), COUNT("index_head_dim", index_dim, 128, MAX_COUNT),
             COUNT("index_topk", window, 2048, MAX_SEQUENCE)),
     FLAGS(TIED(false), ATTENTION_BIAS(false)), .base = {LLAMA_LIKE, .router_bias = true}},
    {"deepseek_v4", "DeepseekV4",
     NUMBERS(OUTER(129280, 4096, 43, 64), SEQUENCE(1048576), COUNT("num_key_value_heads", kv_heads, 1, 1),
             EXPERTS("n_routed_experts", "num_local_experts", 256, 6), EXPERT_FFN(2048), SHARED_EXPERTS(1),
             MAYBE("num_hash_layers", hash_layers, 3, MAX_LAYERS), COUNT("q_lora_rank", q_lora, 1024, MAX_WIDTH),
             COUNT("head_dim", kv_lora, 512, MAX_WIDTH), COUNT("head_dim", v_dim, 512, MAX_WIDTH),
             MAYBE("qk_rope_head_dim", rope_dim, 64, MAX_COUNT), COUNT("sliding_window", window, 128, MAX_SEQUENCE),
             COUNT("index_n_heads", index_heads, 64, MAX_COUNT), COUNT("index_head_dim", index_dim, 128, MAX_COUNT),
             COUNT("index_topk", index_top_k, 512, MAX_SEQUENCE), COUNT("o_groups", out_groups, 8, MAX_COUNT),
             COUNT("o_lora_rank", out_lora, 1024, MAX_WIDTH), COUNT("hc_mult", streams, 4, 64)),
     FLAGS(TIED(false), ATTENTION_BIAS(false)), .base = {LLAMA_LIKE, .router_bias = true, .sinks = true}},
    {"kimi_k2", "DeepseekV3", NUMBERS(SHAPE(163840, 7168, 18432, 61, 64, 64, 131072), LATENT(384, 8, 1, 2048, 1, 1)),
     FLAGS(TIED(false), ATTENTION_BIAS(false)), .base = {LLAMA_LIKE, .router_bias = true}},

    {"nemotron", "Nemotron", NUMBERS(SHAPE(256000, 6144, 24576, 32, 48, 0, 4096), HEAD_DIM(0)),
     FLAGS(TIED(false), ATTENTION_BIAS(false), FLAG("mlp_bias", mlp_bias, false)),
     .base = {.order = "am12", .layer_norm = true}},
    {"mpt", "Mpt",
     NUMBERS(COUNT("vocab_size", vocab, 50368, MAX_VOCAB), COUNT("d_model", hidden, 2048, MAX_WIDTH),
             COUNT("n_layers", layers, 24, MAX_LAYERS), COUNT("n_heads", heads, 16, MAX_COUNT),
             COUNT("max_seq_len", sequence, 2048, MAX_SEQUENCE)),
     FLAGS(TIED(true)), FIXED({"no_bias", true, "biases are not supported"}),
     .base = {.order = "1a2m", .fused_qkv = true}},
    {"starcoder2", "Starcoder2", NUMBERS(SHAPE(49152, 3072, 12288, 30, 24, 2, 4096), WINDOW(0)),
     FLAGS(TIED(true), ALL_BIASES("use_bias", true)), .base = {.order = "am12", .layer_norm = true}},
    {"falcon", "Falcon",
     NUMBERS(COUNT("vocab_size", vocab, 65024, MAX_VOCAB),
             NUMBER(NAMES("hidden_size", "n_embed"), hidden, 4544, 1, MAX_WIDTH),
             NUMBER(NAMES("num_hidden_layers", "n_layer"), layers, 32, 1, MAX_LAYERS),
             NUMBER(NAMES("num_attention_heads", "n_head"), heads, 71, 1, MAX_COUNT),
             NUMBER(NAMES("num_kv_heads", "n_head_kv"), kv_heads, 0, 1, MAX_COUNT),
             COUNT("ffn_hidden_size", ffn, 0, MAX_FFN), SEQUENCE(2048),
             MAYBE("num_ln_in_parallel_attn", norms, 0, 2)),
     FLAGS(TIED(true), ALL_BIASES("bias", false), FLAG("multi_query", multi_query, true),
           FLAG("new_decoder_architecture", grouped_heads, false), FLAG("parallel_attn", parallel_attention, true)),
     .base = {.order = "am12", .fused_qkv = true, .layer_norm = true}},
    {"gpt_neox", "GPTNeoX", NUMBERS(OUTER(50432, 6144, 44, 64), FFN(24576), SEQUENCE(2048)),
     FLAGS(TIED(false), ATTENTION_BIAS(true), FLAG("use_parallel_residual", parallel_attention, true)),
     .base = {.order = "12am", .fused_qkv = true, .layer_norm = true, .mlp_bias = true}},
    {"opt", "OPT",
     NUMBERS(OUTER(50272, 768, 12, 12), COUNT("ffn_dim", ffn, 3072, MAX_FFN), SEQUENCE(2048),
             MAYBE("word_embed_proj_dim", embedding_width, 0, MAX_WIDTH)),
     FLAGS(TIED(true), ALL_BIASES("enable_bias", true)),
     FIXED({"do_layer_norm_before", true, "post-norm layers are not supported"},
           {"layer_norm_elementwise_affine", true, "norms without weights are not supported"}),
     .base = {.order = "a1m2", .layer_norm = true, .learned_positions = true, .extra_positions = 2, .dropout = true}},
    {"bloom", "Bloom",
     NUMBERS(COUNT("vocab_size", vocab, 250880, MAX_VOCAB),
             NUMBER(NAMES("n_embed", "hidden_size"), hidden, 64, 1, MAX_WIDTH),
             NUMBER(NAMES("n_layer", "num_hidden_layers"), layers, 2, 1, MAX_LAYERS),
             NUMBER(NAMES("n_head", "num_attention_heads"), heads, 8, 1, MAX_COUNT),
             COUNT("seq_length", sequence, 2048, MAX_SEQUENCE)),
     FLAGS(TIED(true)), .base = {.order = "1a2m", .fused_qkv = true, .embedding_norm = true, BIASED}},

    /* Megatron-LM's model options (megatron/training/arguments.py), with its defaults; see bootstrap/cli/foreign_line.c */
    {"megatron_gpt", "MegatronGPT",
     NUMBERS(OUTER(50304, 1024, 24, 16), FFN(0), KV_HEADS(0), SEQUENCE(1024), HEAD_DIM(0),
             MAYBE("num_experts", experts, 0, MAX_COUNT), COUNT("num_experts_per_tok", top_k, 0, MAX_COUNT),
             EXPERT_FFN(0), MAYBE("shared_expert_intermediate_size", shared_ffn, 0, MAX_FFN), FIRST_DENSE(0),
             COUNT("moe_layer_freq", moe_every, 1, MAX_LAYERS), MAYBE("q_lora_rank", q_lora, 0, MAX_WIDTH),
             MAYBE("kv_lora_rank", kv_lora, 0, MAX_WIDTH), COUNT("qk_nope_head_dim", nope_dim, 128, MAX_COUNT),
             MAYBE("qk_rope_head_dim", rope_dim, 64, MAX_COUNT), COUNT("v_head_dim", v_dim, 128, MAX_COUNT)),
     FLAGS(TIED(true), FLAG("swiglu", gated, false), FLAG("layer_norm", layer_norm, true),
           FLAG("learned_positions", learned_positions, true), FLAG("qk_layernorm", qk_norm, false),
           FLAG("bidirectional", bidirectional, false),
           FLAG("add_qkv_bias", qkv_bias, true), FLAG("add_bias_linear", out_bias, true),
           FLAG("add_bias_linear", mlp_bias, true), FLAG("add_bias_linear", expert_bias, true)),
     .base = {.order = "1a2m", .fused_qkv = true, .dropout = true}},

    {"t5", "T5",
     NUMBERS(COUNT("vocab_size", vocab, 32128, MAX_VOCAB), COUNT("d_model", hidden, 512, MAX_WIDTH),
             COUNT("d_kv", head_dim, 64, MAX_WIDTH), COUNT("d_ff", ffn, 2048, MAX_FFN),
             COUNT("num_layers", encoder_layers, 6, MAX_LAYERS),
             NUMBER(NAMES("num_decoder_layers"), decoder_layers, 0, 1, MAX_LAYERS),
             COUNT("num_heads", heads, 8, MAX_COUNT),
             COUNT("relative_attention_num_buckets", position_buckets, 32, MAX_SEQUENCE),
             COUNT("n_positions", sequence, 512, MAX_SEQUENCE)),
     FLAGS(TIED(true)), .base = {.order = "a1c3m2"}},

    {"mamba", "Mamba", .unsupported = "its layers are selective scans of a state, without GEMMs to count"},
    {0},
};
/* clang-format on */
