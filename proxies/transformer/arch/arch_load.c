/*
 * arch_load.c - config.json to struct bb_arch (see arch.h): one table per architecture with the names of its fields and
 * what its published configuration class takes for those that a file leaves out (Hugging Face transformers,
 * configuration_*.py).
 */
#include "bootstrap/cli/opts.h"
#include "proxies/models/profile.h"
#include "proxies/transformer/arch/arch.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what each architecture says ---- */

#define FAMILY        "transformer"
#define MOST_NAMES    128
#define MOST_LAYERS   10000
#define MOST_WIDTH    (1 << 20) /* hidden and what is near it */
#define MOST_FFN      (1 << 24)
#define MOST_VOCAB    (1 << 28)
#define MOST_SEQUENCE (1 << 30)
#define MOST_COUNT    (1 << 16)          /* heads, experts */
#define MOST_IN_ALL   9007199254740992.0 /* parameters: whole numbers in a double */

struct number {
    const char *key, *alias; /* alias: another name of it, NULL */
    size_t offset;
    int value;     /* when the file leaves it out or says null; 0: follows from others (see settle), or none */
    int min, most; /* min 0: 0 is a value */
};

struct flag {
    const char *key;
    size_t offset;
    bool value;
};

struct type {
    const char *name, *architecture; /* "llama"; "Llama" of "LlamaForCausalLM" */
    const struct number *numbers;
    const struct flag *flags;
    struct bb_arch base; /* what is true of all of them */
};

#define AT(field) offsetof(struct bb_arch, field)
#define COUNT(key, field, value, most)                                                                                 \
    {                                                                                                                  \
        key, NULL, AT(field), value, 1, most                                                                           \
    }
#define MAYBE(key, field, value, most)                                                                                 \
    {                                                                                                                  \
        key, NULL, AT(field), value, 0, most                                                                           \
    }
#define LAYERS(n) COUNT("num_hidden_layers", layers, n, MOST_LAYERS)
#define SHAPE(v, h, f, l, a, kv, s)                                                                                    \
    COUNT("vocab_size", vocab, v, MOST_VOCAB), COUNT("hidden_size", hidden, h, MOST_WIDTH),                            \
        COUNT("intermediate_size", ffn, f, MOST_FFN), LAYERS(l), COUNT("num_attention_heads", heads, a, MOST_COUNT),   \
        COUNT("num_key_value_heads", kv_heads, kv, MOST_COUNT),                                                        \
        COUNT("max_position_embeddings", sequence, s, MOST_SEQUENCE)
#define HEAD_DIM(n) COUNT("head_dim", head_dim, n, MOST_WIDTH)
#define EXPERTS(key, alias, n, k)                                                                                      \
    {key, alias, AT(experts), n, 1, MOST_COUNT}, COUNT("num_experts_per_tok", top_k, k, MOST_COUNT)

static const struct number gpt2_numbers[] = {COUNT("vocab_size", vocab, 50257, MOST_VOCAB),
                                             {"n_positions", "n_ctx", AT(sequence), 1024, 1, MOST_SEQUENCE},
                                             {"n_embd", "hidden_size", AT(hidden), 768, 1, MOST_WIDTH},
                                             {"n_layer", "num_hidden_layers", AT(layers), 12, 1, MOST_LAYERS},
                                             {"n_head", "num_attention_heads", AT(heads), 12, 1, MOST_COUNT},
                                             COUNT("n_inner", ffn, 0, MOST_FFN),
                                             {0}};
static const struct number bert_numbers[] = {COUNT("vocab_size", vocab, 30522, MOST_VOCAB),
                                             COUNT("hidden_size", hidden, 768, MOST_WIDTH),
                                             COUNT("intermediate_size", ffn, 3072, MOST_FFN),
                                             LAYERS(12),
                                             COUNT("num_attention_heads", heads, 12, MOST_COUNT),
                                             COUNT("max_position_embeddings", sequence, 512, MOST_SEQUENCE),
                                             MAYBE("type_vocab_size", token_types, 2, MOST_COUNT),
                                             {0}};
static const struct number llama_numbers[] = {SHAPE(32000, 4096, 11008, 32, 32, 0, 2048), HEAD_DIM(0), {0}};
static const struct number mistral_numbers[] = {SHAPE(32000, 4096, 14336, 32, 32, 8, 131072), HEAD_DIM(0), {0}};
static const struct number mixtral_numbers[] = {
    SHAPE(32000, 4096, 14336, 32, 32, 8, 131072), HEAD_DIM(0), EXPERTS("num_local_experts", "num_experts", 8, 2), {0}};
static const struct number qwen2_numbers[] = {SHAPE(151936, 4096, 22016, 32, 32, 32, 32768), HEAD_DIM(0), {0}};
static const struct number qwen3_numbers[] = {SHAPE(151936, 4096, 22016, 32, 32, 32, 32768), HEAD_DIM(128), {0}};
static const struct number qwen2_moe_numbers[] = {SHAPE(151936, 2048, 5632, 24, 16, 16, 32768),
                                                  HEAD_DIM(0),
                                                  EXPERTS("num_experts", "num_local_experts", 60, 4),
                                                  COUNT("moe_intermediate_size", expert_ffn, 1408, MOST_FFN),
                                                  COUNT("shared_expert_intermediate_size", shared_ffn, 5632, MOST_FFN),
                                                  COUNT("decoder_sparse_step", moe_every, 1, MOST_LAYERS),
                                                  {0}};
static const struct number qwen3_moe_numbers[] = {SHAPE(151936, 2048, 6144, 24, 32, 4, 32768),
                                                  HEAD_DIM(0),
                                                  EXPERTS("num_experts", "num_local_experts", 128, 8),
                                                  COUNT("moe_intermediate_size", expert_ffn, 768, MOST_FFN),
                                                  COUNT("decoder_sparse_step", moe_every, 1, MOST_LAYERS),
                                                  {0}};

/* shared_ffn is first the number of shared experts: see settle_experts. */
#define LATENT(n_experts, k, shared, width, dense)                                                                     \
    EXPERTS("n_routed_experts", "num_local_experts", n_experts, k),                                                    \
        COUNT("moe_intermediate_size", expert_ffn, width, MOST_FFN),                                                   \
        MAYBE("n_shared_experts", shared_ffn, shared, 64),                                                             \
        MAYBE("first_k_dense_replace", dense_layers, dense, MOST_LAYERS),                                              \
        COUNT("moe_layer_freq", moe_every, 1, MOST_LAYERS), MAYBE("q_lora_rank", q_lora, 1536, MOST_WIDTH),            \
        COUNT("kv_lora_rank", kv_lora, 512, MOST_WIDTH), COUNT("qk_nope_head_dim", nope_dim, 128, MOST_COUNT),         \
        MAYBE("qk_rope_head_dim", rope_dim, 64, MOST_COUNT), COUNT("v_head_dim", v_dim, 128, MOST_COUNT)

static const struct number deepseek_v2_numbers[] = {
    SHAPE(32000, 4096, 11008, 32, 32, 0, 2048), LATENT(64, 0, 2, 1407, 0), {0}};
static const struct number deepseek_v3_numbers[] = {
    SHAPE(129280, 7168, 18432, 61, 128, 128, 4096), LATENT(256, 8, 1, 2048, 3), {0}};

#define FLAG(key, field, value)                                                                                        \
    {                                                                                                                  \
        key, AT(field), value                                                                                          \
    }
#define TIED(value) FLAG("tie_word_embeddings", tied, value)

static const struct flag tied_flags[] = {TIED(true), {0}};
static const struct flag untied_flags[] = {TIED(false), {0}};
static const struct flag llama_flags[] = {TIED(false),
                                          FLAG("attention_bias", qkv_bias, false),
                                          FLAG("attention_bias", out_bias, false),
                                          FLAG("mlp_bias", mlp_bias, false),
                                          {0}};
static const struct flag biased_flags[] = {
    TIED(false), FLAG("attention_bias", qkv_bias, false), FLAG("attention_bias", out_bias, false), {0}};
static const struct flag qwen2_moe_flags[] = {TIED(false), FLAG("qkv_bias", qkv_bias, true), {0}};

#define TYPE(word, architecture, flags, ...)                                                                           \
    {                                                                                                                  \
#word, architecture, word##_numbers, flags##_flags,                                                            \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define BIASED .qkv_bias = true, .out_bias = true, .mlp_bias = true, .learned_positions = true

static const struct type types[] = {
    TYPE(gpt2, "GPT2", tied, .layer_norm = true, BIASED),
    TYPE(bert, "Bert", tied, .layer_norm = true, .post_norm = true, BIASED),
    TYPE(llama, "Llama", llama, .gated = true),
    TYPE(mistral, "Mistral", untied, .gated = true),
    TYPE(mixtral, "Mixtral", untied, .gated = true),
    TYPE(qwen2, "Qwen2", untied, .gated = true, .qkv_bias = true),
    TYPE(qwen2_moe, "Qwen2Moe", qwen2_moe, .gated = true, .shared_gate = true, .moe_offset = 1),
    TYPE(qwen3, "Qwen3", biased, .gated = true, .qk_norm = true),
    TYPE(qwen3_moe, "Qwen3Moe", biased, .gated = true, .qk_norm = true, .moe_offset = 1),
    TYPE(deepseek_v2, "DeepseekV2", biased, .gated = true),
    TYPE(deepseek_v3, "DeepseekV3", biased, .gated = true, .router_bias = true),
};

#define N_TYPES (sizeof(types) / sizeof(types[0]))

/* ---- which one it is ---- */

static const char *text_at(const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key);

    return json_string_value(json_is_array(value) ? json_array_get(value, 0) : value);
}

/* "LlamaForCausalLM" is Llama's, "Qwen2MoeForCausalLM" is not Qwen2's. */
static bool is_class_of(const char *class_name, const char *architecture)
{
    static const char *const ends[] = {"For", "LMHead", "Model", "DoubleHeads"};
    size_t n = strlen(architecture);

    if (strncmp(class_name, architecture, n) != 0)
        return false;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (strncmp(class_name + n, ends[i], strlen(ends[i])) == 0)
            return true;
    return false;
}

static const struct type *find_type(const char *model_type, const char *class_name)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (model_type && strcmp(model_type, types[i].name) == 0)
            return &types[i];
    for (size_t i = 0; i < N_TYPES; i++)
        if (class_name && is_class_of(class_name, types[i].architecture))
            return &types[i];
    return NULL;
}

/* What a transformer cannot be without, and the names that it goes by. */
static const char *const needed[][3] = {{"num_hidden_layers", "n_layer"},
                                        {"hidden_size", "n_embd", "d_model"},
                                        {"num_attention_heads", "n_head"},
                                        {"intermediate_size", "n_inner"},
                                        {"vocab_size"},
                                        {"max_position_embeddings", "n_positions"}};

static int refuse_type(const json_t *config, const char *where, const char *model_type, const char *class_name)
{
    char missing[256] = "", known[256] = "";
    size_t n = 0, k = 0;

    if (!model_type && !class_name)
        n += (size_t)snprintf(missing, sizeof(missing), ", model_type");
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        bool there = false;

        for (int j = 0; j < 3 && needed[i][j]; j++)
            there |= json_object_get(config, needed[i][j]) != NULL;
        if (!there)
            n += (size_t)snprintf(missing + n, sizeof(missing) - n, ", %s", needed[i][0]);
    }
    for (size_t i = 0; i < N_TYPES; i++)
        k += (size_t)snprintf(known + k, sizeof(known) - k, "%s%s", i ? ", " : "", types[i].name);
    if (!model_type && !class_name)
        return bb_err(BB_EUSAGE, "%s: no transformer's config.json, fields are missing: %s; known model_type: %s",
                      where, missing + 2, known);
    return bb_err(BB_EUSAGE, "%s: unknown architecture '%.64s' (known: %s); %s%s", where,
                  model_type ? model_type : class_name, known,
                  n ? "to be read as one of these it lacks " : "set model_type to the one that its layers are like",
                  n ? missing + 2 : "");
}

/* ---- fields ---- */

static const json_t *value_of(const json_t *config, const char *key)
{
    const json_t *value = key ? json_object_get(config, key) : NULL;

    return json_is_null(value) ? NULL : value;
}

static int read_number(const json_t *config, const struct number *f, const char *where, struct bb_arch *arch)
{
    const char *key = value_of(config, f->key) || !f->alias ? f->key : f->alias;
    const json_t *value = value_of(config, key);
    int *field = (int *)((char *)arch + f->offset);
    bool told_none = !value && json_object_get(config, f->key) && f->min == 0;
    double number;

    *field = told_none ? 0 : f->value; /* null where 0 means none: none ("q_lora_rank": null) */
    if (!value)
        return 0;
    number = json_number_value(value);
    if (!json_is_number(value) || number < f->min || number > f->most || number != (double)(int64_t)number) {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        int rc = bb_err(BB_EUSAGE, "%s: '%s' is %.40s, expected a whole number from %d to %d", where, key,
                        text ? text : "?", f->min, f->most);

        free(text);
        return rc;
    }
    *field = (int)number;
    return 0;
}

static int read_flag(const json_t *config, const struct flag *f, const char *where, struct bb_arch *arch)
{
    const json_t *value = value_of(config, f->key);

    if (value && !json_is_boolean(value))
        return bb_err(BB_EUSAGE, "%s: '%s' must be true or false", where, f->key);
    *(bool *)((char *)arch + f->offset) = value ? json_is_true(value) : f->value;
    return 0;
}

/* Qwen's list of layers without experts: those that we know are the first ones, as DeepSeek has them. */
static int read_dense_list(const json_t *config, const char *where, struct bb_arch *arch)
{
    const json_t *list = value_of(config, "mlp_only_layers");
    size_t n = json_array_size(list);

    if (list && !json_is_array(list))
        return bb_err(BB_EUSAGE, "%s: 'mlp_only_layers' must be a list of layers", where);
    for (size_t i = 0; i < n; i++)
        if (json_integer_value(json_array_get(list, i)) != (json_int_t)i || !json_is_integer(json_array_get(list, i)))
            return bb_err(BB_EUSAGE,
                          "%s: 'mlp_only_layers' must be the first layers, [0, 1, ...]; element %zu is not %zu", where,
                          i, i);
    if (n > 0)
        arch->dense_layers = n < MOST_LAYERS ? (int)n : MOST_LAYERS;
    return 0;
}

/* ---- what follows, and what cannot be ---- */

static int refuse_division(const char *where, const char *what, int value, const char *by, int step)
{
    int below = value / step * step;

    return bb_err(BB_EUSAGE, "%s: %s %d does not divide by %s %d; nearest: %d", where, what, value, by, step,
                  below > 0 && value - below <= below + step - value ? below : below + step);
}

static int settle_attention(const char *where, struct bb_arch *a)
{
    if (a->kv_heads == 0)
        a->kv_heads = a->heads;
    if (a->kv_lora) {
        a->kv_heads = a->heads; /* every head has keys and values of its own, made from the latent */
        a->head_dim = a->nope_dim + a->rope_dim;
        return 0;
    }
    if (a->heads % a->kv_heads != 0)
        return refuse_division(where, "num_attention_heads", a->heads, "num_key_value_heads", a->kv_heads);
    if (a->head_dim == 0 && a->hidden % a->heads != 0)
        return refuse_division(where, "hidden size", a->hidden, "attention heads", a->heads);
    if (a->head_dim == 0)
        a->head_dim = a->hidden / a->heads;
    return 0;
}

static int settle_experts(const char *where, struct bb_arch *a)
{
    if (a->experts == 0)
        return 0;
    if (a->moe_every == 0)
        a->moe_every = 1;
    if (a->expert_ffn == 0)
        a->expert_ffn = a->ffn;
    if (a->kv_lora) /* it was their number so far */
        a->shared_ffn *= a->expert_ffn;
    if (a->top_k == 0)
        return bb_err(BB_EUSAGE, "%s: 'num_experts_per_tok' is missing, expected 1 to %d", where, a->experts);
    if (a->top_k > a->experts)
        return bb_err(BB_EUSAGE, "%s: num_experts_per_tok %d of only %d experts; nearest: %d", where, a->top_k,
                      a->experts, a->experts);
    if (a->dense_layers > a->layers)
        return bb_err(BB_EUSAGE, "%s: %d dense layers of only %d layers; nearest: %d", where, a->dense_layers,
                      a->layers, a->layers);
    return 0;
}

static int settle_arch(const char *where, struct bb_arch *a)
{
    int rc;

    if (a->ffn == 0)
        a->ffn = 4 * a->hidden;
    TRY(settle_attention(where, a));
    TRY(settle_experts(where, a));
    if (bb_arch_parameters(a) > MOST_IN_ALL)
        rc = bb_err(BB_EUSAGE, "%s: %.3g parameters, expected at most %.3g", where, bb_arch_parameters(a), MOST_IN_ALL);
out:
    return rc;
}

static int read_config(const json_t *config, const char *where, struct bb_arch *arch)
{
    const char *model_type = text_at(config, "model_type"), *class_name = text_at(config, "architectures");
    const struct type *type = find_type(model_type, class_name);
    int rc = 0;

    if (!type)
        return refuse_type(config, where, model_type, class_name);
    *arch = type->base;
    snprintf(arch->type, sizeof(arch->type), "%s", type->name);
    for (const struct number *f = type->numbers; f->key; f++)
        TRY(read_number(config, f, where, arch));
    for (const struct flag *f = type->flags; f->key; f++)
        TRY(read_flag(config, f, where, arch));
    if (arch->experts)
        TRY(read_dense_list(config, where, arch));
    TRY(settle_arch(where, arch));
out:
    return rc;
}

/* ---- files ---- */

/* "llama-7b" of "models/llama-7b/config.json" and of "llama-7b.json". */
static void take_name(const char *word, char name[BB_ARCH_NAME])
{
    const char *end = word + strlen(word), *start;

    if (end - word > 12 && strcmp(end - 12, "/config.json") == 0)
        end -= 12;
    else if (end - word > 5 && strcmp(end - 5, ".json") == 0)
        end -= 5;
    for (start = end; start > word && start[-1] != '/'; start--)
        ;
    snprintf(name, BB_ARCH_NAME, "%.*s", (int)(end - start), start);
}

/* A file of profiles/models holds the config beside its source and the totals that its tensors must make. The seeds'
 * models, which are cut differently, hold it as a second part. */
static int check_totals(const json_t *part, const char *where, const struct bb_arch *arch)
{
    double made[] = {bb_arch_parameters(arch), bb_arch_layer_parameters(arch, arch->layers - 1), bb_arch_active(arch)};
    const struct bb_json_field fields[] = {
        BB_FIELD("totals.parameters", BB_JSON_TOTAL, 0),
        BB_FIELD("totals.last_layer", BB_JSON_TOTAL, sizeof(double)),
        BB_FIELD(arch->experts > 0 ? "totals.active" : NULL, BB_JSON_TOTAL, 2 * sizeof(double)),
        {0}};

    return bb_json_read(part, where, fields, made);
}

static int read_profile(const json_t *part, const char *where, struct bb_arch *arch)
{
    json_t *config;
    int rc;

    TRY(bb_json_object_at(part, "config", where, &config));
    TRY(read_config(config, where, arch));
    TRY(check_totals(part, where, arch));
out:
    return rc;
}

static bool is_ours(const json_t *root)
{
    const char *family = json_string_value(json_object_get(root, "family"));

    return (family && strcmp(family, FAMILY) == 0) || json_object_get(root, FAMILY);
}

/* A model that is none: which are. */
static int refuse_family(const char *where, const json_t *root)
{
    const char *all[MOST_NAMES], *ours[MOST_NAMES], *family = json_string_value(json_object_get(root, "family"));
    size_t n = bb_profile_names("models", all, MOST_NAMES), n_ours = 0;
    char kind[96];

    for (size_t i = 0; i < n; i++) {
        json_t *other;

        if (bb_profile_load("models", all[i], &other))
            continue;
        if (is_ours(other))
            ours[n_ours++] = all[i];
        json_decref(other);
    }
    snprintf(kind, sizeof(kind), "transformer (it is of family '%.32s')", family ? family : "?");
    return bb_refuse_word(kind, where, ours, n_ours);
}

int bb_arch_read(const json_t *root, const char *where, struct bb_arch *arch)
{
    const json_t *second = json_object_get(root, FAMILY);
    int rc;

    *arch = (struct bb_arch){0};
    if (!json_object_get(root, "schema"))
        rc = read_config(root, where, arch);
    else if (!is_ours(root))
        rc = refuse_family(where, root);
    else
        rc = read_profile(second ? second : root, where, arch);
    take_name(where, arch->name);
    return rc;
}

int bb_arch_load(const char *word, struct bb_arch *arch)
{
    json_t *root;
    int rc;

    TRY(bb_profile_load("models", word, &root));
    rc = bb_arch_read(root, word, arch);
    json_decref(root);
out:
    return rc;
}

int bb_arch_with_layers(struct bb_arch *arch, int layers)
{
    if (layers < 1 || layers > MOST_LAYERS)
        return bb_err(BB_EUSAGE, "%s: %d layers, expected 1 to %d", arch->name, layers, MOST_LAYERS);
    arch->layers = layers;
    if (arch->dense_layers > layers)
        arch->dense_layers = layers;
    return 0;
}
