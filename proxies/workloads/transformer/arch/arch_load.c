/*
 * arch_load.c - reads a config.json into struct bb_arch (see arch.h), as the description of its architecture (struct
 * bb_arch_type in arch_types.h) specifies.
 */
#include "bootstrap/base/units.h"
#include "bootstrap/cli/opts.h"
#include "proxies/form/models/profile.h"
#include "proxies/workloads/transformer/arch/arch.h"
#include "proxies/workloads/transformer/arch/arch_types.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAMILY         "transformer"
#define MAX_NAMES      128
#define MAX_PARAMETERS 9007199254740992.0 /* 2^53: up to this limit a double represents whole numbers exactly */

/* ---- selecting the architecture of a file ---- */

static const char *text_at(const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key);

    return json_string_value(json_is_array(value) ? json_array_get(value, 0) : value);
}

/* Returns whether a class name consists of the architecture's name and a known suffix. "LlamaForCausalLM" belongs to
 * Llama; "Qwen2MoeForCausalLM" does not belong to Qwen2. */
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

/* Fields listed as missing in the error message for an unknown architecture: the name that most architectures have, and those of
 * gpt2. */
static const char *const required_fields[][2] = {{"num_hidden_layers", "n_layer"},
                                                 {"hidden_size", "n_embd"},
                                                 {"num_attention_heads", "n_head"},
                                                 {"intermediate_size", "n_inner"},
                                                 {"vocab_size"},
                                                 {"max_position_embeddings", "n_positions"}};
static const char *const expert_fields[] = {"num_local_experts", "num_experts_per_tok"};

/* Returns whether a key of the config, or of an object in it, names experts, as "moe_num_experts". */
static bool names_experts(const json_t *config)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)config, key, value)
    {
        if (strstr(key, "expert") || names_experts(value))
            return true;
    }
    return false;
}

/* Writes the names of the required fields that the config lacks, for example ", hidden_size, vocab_size". */
static void list_missing(const json_t *config, char *text, size_t capacity)
{
    size_t n = 0;

    text[0] = '\0';
    for (size_t i = 0; i < sizeof(required_fields) / sizeof(required_fields[0]); i++) {
        const char *const *names = required_fields[i];

        if (!json_object_get(config, names[0]) && !(names[1] && json_object_get(config, names[1])))
            n += (size_t)snprintf(text + n, capacity - n, ", %s", names[0]);
    }
    for (size_t i = 0; i < sizeof(expert_fields) / sizeof(expert_fields[0]) && names_experts(config); i++)
        if (!json_object_get(config, expert_fields[i]))
            n += (size_t)snprintf(text + n, capacity - n, ", %s", expert_fields[i]);
}

/* Lists the supported architectures, as an array and as text "gpt2, bert, ...". Returns the number of architectures. */
static size_t list_known(const char *names[MAX_NAMES], char *text, size_t capacity)
{
    size_t n = 0, used = 0;

    for (const struct bb_arch_type *type = bb_arch_types; type->name && n < MAX_NAMES; type++) {
        if (type->unsupported)
            continue;
        if (used < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%s%s", n ? ", " : "", type->name);
        names[n++] = type->name;
    }
    return n;
}

static int reject_type(const json_t *config, const char *where, const char *model_type, const char *class_name)
{
    const char *names[MAX_NAMES], *suggestion, *requested = model_type ? model_type : class_name;
    char missing[256], known[512];
    size_t n = list_known(names, known, sizeof(known));

    list_missing(config, missing, sizeof(missing));
    if (!requested)
        return bb_err(
            BB_EUSAGE,
            "%s: not a transformer's config.json, these fields are missing: model_type%s; known model_type: %s", where,
            missing, known);
    /* the name of a model with experts may resemble that of a dense one */
    suggestion = json_object_get(config, "num_experts") || json_object_get(config, "num_local_experts")
                     ? NULL
                     : bb_nearest_word(requested, names, n);
    if (suggestion)
        return bb_err(BB_EUSAGE, "%s: unknown architecture '%.64s', did you mean '%s'? (known: %s)", where, requested,
                      suggestion, known);
    if (!json_object_get(config, "vocab_size") || json_object_get(config, "image_size") ||
        json_object_get(config, "num_mel_bins"))
        return bb_err(BB_EUSAGE, "%s: architecture '%.64s' is not one of the supported text models (known: %s)", where,
                      requested, known);
    return bb_err(BB_EUSAGE, "%s: unknown architecture '%.64s' (known: %s); %s%s", where, requested, known,
                  missing[0] ? "to use one of these, set model_type and add "
                             : "set model_type to the known architecture with the same layers",
                  missing[0] ? missing + 2 : "");
}

/* Returns whether a model_type is that of an architecture, or of a multimodal model with this text part: "qwen2_5_vl" with
 * "qwen2_5_vl_text". */
static bool is_type(const char *model_type, const char *name)
{
    const size_t n = strlen(model_type);

    return strncmp(model_type, name, n) == 0 && (name[n] == '\0' || strcmp(name + n, "_text") == 0);
}

/* Finds the description of a config's architecture in bb_arch_types. It is an error if the config's keys model_type
 * and architectures name different architectures. */
static int find_type(const json_t *config, const char *where, const struct bb_arch_type **type)
{
    const char *model_type = text_at(config, "model_type"), *class_name = text_at(config, "architectures");
    const struct bb_arch_type *named = NULL, *classed = NULL;

    for (const struct bb_arch_type *known = bb_arch_types; known->name; known++) {
        if (!named && model_type && is_type(model_type, known->name))
            named = known;
        if (!classed && class_name && is_class_of(class_name, known->architecture))
            classed = known;
    }
    *type = named ? named : classed;
    if (classed && !named && model_type)
        bb_warn("%s: unknown model_type '%.64s', so architectures '%.64s' is used", where, model_type, class_name);
    if (!*type)
        return reject_type(config, where, model_type, class_name);
    if (named && classed && strcmp(named->architecture, classed->architecture) != 0)
        return bb_err(
            BB_EUSAGE,
            "%s: model_type '%s' and architectures '%.64s' disagree; expected architectures '%s...' or model_type '%s'",
            where, named->name, class_name, named->architecture, classed->name);
    if ((*type)->unsupported)
        return bb_err(BB_EUSAGE, "%s: model_type %s is not supported: %s", where, (*type)->name, (*type)->unsupported);
    return 0;
}

/* ---- reading the fields ---- */

static const json_t *value_of(const json_t *config, const char *key)
{
    const json_t *value = key ? json_object_get(config, key) : NULL;

    return json_is_null(value) ? NULL : value;
}

static int reject_value(const json_t *value, const char *where, const char *key, const char *expected)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    int rc = bb_err(BB_EUSAGE, "%s: '%s' is %.40s, expected %s", where, key, text ? text : "?", expected);

    free(text);
    return rc;
}

static bool has_number(const json_t *config, const struct bb_arch_number *f)
{
    for (int i = 0; i < BB_ARCH_MAX_KEYS; i++)
        if (value_of(config, f->keys[i]))
            return true;
    return false;
}

static bool is_main_dimension(const struct bb_arch_number *f)
{
    static const size_t offsets[] = {offsetof(struct bb_arch, layers), offsetof(struct bb_arch, hidden),
                                     offsetof(struct bb_arch, heads), offsetof(struct bb_arch, vocab),
                                     offsetof(struct bb_arch, ffn)};
    bool is_main = false;

    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
        is_main |= f->offset == offsets[i];
    return is_main;
}

/* Returns the key of the file that is most similar to `key`, likely a misspelling of it; NULL: none. */
static const char *find_similar(const json_t *config, const char *key)
{
    const char *names[128], *name;
    json_t *value;
    size_t n = 0;

    json_object_foreach((json_t *)config, name, value)
    {
        if (n < sizeof(names) / sizeof(names[0]))
            names[n++] = name;
    }
    return bb_nearest_word(key, names, n);
}

/* Warns of the main dimensions that the file lacks. is_part: config is the "text_config" of a multimodal model, from
 * which Hugging Face leaves out defaults, so that only a similar key is suspicious. */
static void warn_about_defaults(const json_t *config, const char *where, const struct bb_arch_type *type, bool is_part)
{
    char text[512];
    size_t n = 0;

    for (const struct bb_arch_number *f = type->numbers; f->keys[0]; f++) {
        const char *similar;

        if (!is_main_dimension(f) || f->value == 0 || has_number(config, f))
            continue;
        similar = find_similar(config, f->keys[0]);
        if (similar)
            n += (size_t)snprintf(text + n, sizeof(text) - n, ", %s %d (but the file has '%.40s')", f->keys[0],
                                  f->value, similar);
        else if (!is_part)
            n += (size_t)snprintf(text + n, sizeof(text) - n, ", %s %d", f->keys[0], f->value);
    }
    if (n > 0)
        bb_warn("%s: not in the file, so the defaults of model_type %s are used: %s", where, type->name, text + 2);
}

/* Warns that the quantized weights of a file, for example those of QLoRA, are not modelled. */
static void warn_about_quantization(const json_t *config, const char *where)
{
    const json_t *quantization = value_of(config, "quantization_config");
    const char *method = quantization ? text_at(quantization, "quant_method") : NULL;

    if (quantization)
        bb_warn("%s: 'quantization_config' (%.40s) is not used: all weights have the data type of --dtype", where,
                method ? method : "no quant_method");
}

/* Warns of the parts of a multimodal model that are left out. */
static void warn_about_other_parts(const json_t *config, const char *where)
{
    static const char *const parts[] = {"vision_config", "audio_config"};
    char left_out[64] = "";

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (value_of(config, parts[i]))
            snprintf(left_out + strlen(left_out), sizeof(left_out) - strlen(left_out), "%s%s", left_out[0] ? ", " : "",
                     parts[i]);
    if (left_out[0])
        bb_warn("%s: only the text part of the model is planned, without %s: its parameters, memory and time are those "
                "of the text part",
                where, left_out);
}

static int read_number(const json_t *config, const struct bb_arch_number *f, const char *where, struct bb_arch *arch)
{
    const char *key = f->keys[0]; /* the first of the alternative names with a value, else the first name */
    const json_t *value = value_of(config, key);
    int *field = (int *)((char *)arch + f->offset);
    bool is_null;
    double number;
    char expected[64];

    for (int i = 1; i < BB_ARCH_MAX_KEYS && !value; i++) {
        value = value_of(config, f->keys[i]);
        key = value ? f->keys[i] : key;
    }
    if (f->value == 0 && json_is_string(value) && strcmp(json_string_value(value), "auto") == 0)
        value = NULL; /* Jamba's "mamba_dt_rank": "auto" */
    is_null = !value && json_object_get(config, f->keys[0]) && f->min == 0;
    number = json_number_value(value);
    *field = is_null ? 0 : f->value; /* an explicit null is 0 where 0 is a valid value ("q_lora_rank": null) */
    if (!value)
        return 0;
    if (!json_is_number(value) || number < f->min || number > f->max || number != (double)(int64_t)number) {
        snprintf(expected, sizeof(expected), "a whole number from %d to %d", f->min, f->max);
        return reject_value(value, where, key, expected);
    }
    *field = (int)number;
    return 0;
}

static int read_flag(const json_t *config, const struct bb_arch_flag *f, const char *where, struct bb_arch *arch)
{
    const json_t *value = value_of(config, f->key);

    if (value && !json_is_boolean(value))
        return bb_err(BB_EUSAGE, "%s: '%s' must be true or false", where, f->key);
    *(bool *)((char *)arch + f->offset) = value ? json_is_true(value) : f->value;
    return 0;
}

/* Rejects an unknown name of the activation function, which is probably a typing error. The activation function does
 * not affect the parameter count. */
static int check_activation(const json_t *config, const char *where)
{
    static const char *const keys[] = {"hidden_act", "hidden_activation", "activation_function", "activation"};
    static const char *const known[] = {"silu",        "swish",      "gelu",   "gelu_new", "gelu_pytorch_tanh",
                                        "gelu_fast",   "quick_gelu", "relu",   "relu2",    "relu_squared",
                                        "gelu_python", "tanh",       "sigmoid"};
    const size_t n = sizeof(known) / sizeof(known[0]);
    char kind[128];

    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
        const json_t *value = value_of(config, keys[k]);
        bool found = !value;

        if (value && !json_is_string(value))
            return bb_err(BB_EUSAGE, "%s: '%s' must be the name of an activation, such as 'silu'", where, keys[k]);
        for (size_t i = 0; i < n && !found; i++)
            found = strcmp(json_string_value(value), known[i]) == 0;
        snprintf(kind, sizeof(kind), "activation (%s)", keys[k]);
        if (!found)
            return bb_reject_unknown(kind, json_string_value(value), known, n);
    }
    return 0;
}

/* Sets dropout if any of the dropout rates is above 0. A file without these keys gets the default of its
 * architecture. */
static int read_dropout(const json_t *config, const char *where, struct bb_arch *arch)
{
    static const char *const keys[] = {"attn_pdrop",        "resid_pdrop",    "hidden_dropout_prob",
                                       "dropout",           "hidden_dropout", "attention_probs_dropout_prob",
                                       "attention_dropout", "dropout_rate",   "residual_dropout"};
    bool given = false, drops = false;

    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
        const json_t *value = value_of(config, keys[k]);
        double rate = json_number_value(value);

        if (value && (!json_is_number(value) || rate < 0 || rate >= 1))
            return reject_value(value, where, keys[k], "a rate from 0 to below 1");
        given = given || value;
        drops = drops || rate > 0;
    }
    if (given)
        arch->dropout = drops;
    return 0;
}

/* Reads feed_forward_proj, the type of T5's MLP: "relu", or a gated MLP such as "gated-gelu". */
static int read_feed_forward(const json_t *config, const char *where, struct bb_arch *arch)
{
    static const char *const known[] = {"relu", "gelu", "silu", "gated-relu", "gated-gelu", "gated-silu"};
    const size_t n = sizeof(known) / sizeof(known[0]);
    const json_t *value = value_of(config, "feed_forward_proj");
    const char *word = json_string_value(value);

    if (!value || arch->encoder_layers == 0)
        return 0;
    if (!word)
        return bb_err(BB_EUSAGE, "%s: 'feed_forward_proj' must be a string such as 'gated-gelu'", where);
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, known[i]) == 0) {
            arch->gated = strncmp(word, "gated-", 6) == 0;
            return 0;
        }
    return bb_reject_unknown("MLP (feed_forward_proj)", word, known, n);
}

/* Reads Qwen's list of layers without experts (mlp_only_layers). The list must be [0, 1, ...], because struct
 * bb_arch has only the number of dense layers at the beginning of the model. */
static int read_dense_list(const json_t *config, const char *where, struct bb_arch *arch)
{
    const json_t *list = value_of(config, "mlp_only_layers");
    size_t n = json_array_size(list);

    if (list && !json_is_array(list))
        return bb_err(BB_EUSAGE, "%s: 'mlp_only_layers' must be a list of layer numbers", where);
    for (size_t i = 0; i < n; i++)
        if (json_integer_value(json_array_get(list, i)) != (json_int_t)i || !json_is_integer(json_array_get(list, i)))
            return bb_err(BB_EUSAGE,
                          "%s: 'mlp_only_layers' must be the first layers, [0, 1, ...]; element %zu is not %zu", where,
                          i, i);
    if (n > 0)
        arch->dense_layers = n < BB_ARCH_MAX_LAYERS ? (int)n : BB_ARCH_MAX_LAYERS;
    return 0;
}

static bool is_full(const json_t *word)
{
    return strcmp(json_string_value(word), "full_attention") == 0;
}

/* Checks that each element of layer_types names a supported layer type: full attention; "linear_attention" in models
 * with scan layers (linear attention); "sliding_attention" or "chunked_attention" in other models. */
static int check_layer_types(const json_t *list, const char *where, const struct bb_arch *arch)
{
    const bool scans = arch->scan.heads > 0;
    const json_t *word;
    size_t i;

    if (!json_is_array(list) || json_array_size(list) != (size_t)arch->layers)
        return bb_err(BB_EUSAGE, "%s: 'layer_types' must be a list with one string for each of the %d layers", where,
                      arch->layers);
    json_array_foreach(list, i, word)
    {
        const char *text = json_string_value(word);
        bool is_known = text && (is_full(word) || (scans ? strcmp(text, "linear_attention") == 0
                                                         : strcmp(text, "sliding_attention") == 0 ||
                                                               strcmp(text, "chunked_attention") == 0));

        if (!is_known)
            return bb_err(BB_EUSAGE, "%s: 'layer_types' has '%.40s' for layer %zu, expected full_attention or %s",
                          where, text ? text : "no string", i,
                          scans ? "linear_attention" : "sliding_attention, chunked_attention");
        if (!is_full(word) && !scans && arch->window == 0)
            return bb_err(BB_EUSAGE, "%s: 'layer_types' has %s for layer %zu, but the file has no window size", where,
                          text, i);
    }
    return 0;
}

/* Reads layer_types, the list with the type of each layer (full, windowed or linear attention). Layers with full
 * attention must repeat at a fixed interval. */
static int read_layer_types(const json_t *config, const char *where, struct bb_arch *arch)
{
    const json_t *list = value_of(config, "layer_types"), *word;
    size_t i, every = 0;
    int rc = 0;

    if (!list)
        return 0;
    TRY(check_layer_types(list, where, arch));
    json_array_foreach(list, i, word) if (is_full(word) && every == 0) every = i + 1;
    json_array_foreach(list, i, word) if (is_full(word) != (every > 0 && (i + 1) % every == 0)) return bb_err(
        BB_EUSAGE,
        "%s: 'layer_types' must repeat full_attention at a fixed interval (first in layer %zu); "
        "layer %zu does not match",
        where, every - 1, i);
    *(arch->scan.heads > 0 ? &arch->attention_every : &arch->window_every) = (int)every;
out:
    return rc;
}

/* Adds the kind (bb_arch.kinds) of a layer, which `text` names: its character, or its name in layers_block_type. */
static int add_kind(const char *text, const char *key, const char *where, char *kinds, size_t capacity)
{
    static const struct {
        char kind;
        const char *names[2]; /* the newer name, the older name */
    } known[] = {
        {'M', {"linear_attention", "mamba"}}, {'*', {"full_attention", "attention"}}, {'-', {"mlp"}}, {'E', {"moe"}}};
    const size_t n = strlen(kinds);

    for (size_t i = 0; text && n + 1 < capacity && i < sizeof(known) / sizeof(known[0]); i++)
        for (int k = 0; k < 2; k++)
            if ((text[0] == known[i].kind && !text[1]) || (known[i].names[k] && strcmp(text, known[i].names[k]) == 0)) {
                kinds[n] = known[i].kind;
                kinds[n + 1] = '\0';
                return 0;
            }
    return bb_err(
        BB_EUSAGE,
        "%s: '%s' has '%.40s' for layer %zu, expected M (mamba), * (attention), - (mlp) or E (moe), for 1 to %zu "
        "layers",
        where, key, text ? text : "no string", n, capacity - 1);
}

/* Reads the kinds of the layers (Nemotron-H): a text of one character per layer, or else a list of names. */
static int read_kinds(const json_t *config, const char *pattern, const char *list, const char *where, char *kinds,
                      size_t capacity)
{
    const json_t *text = value_of(config, pattern), *names = value_of(config, list);
    const char *chars = json_string_value(text), *key = text ? pattern : list;
    size_t n = text ? json_string_length(text) : json_array_size(names);
    int rc = 0;

    if (!text && !names)
        return 0;
    kinds[0] = '\0';
    for (size_t i = 0; i < n || i == 0; i++) {
        const char one[2] = {chars ? chars[i] : '\0'};

        TRY(add_kind(text ? one : json_string_value(json_array_get(names, i)), key, where, kinds, capacity));
    }
out:
    return rc;
}

/* Sizes of a kind without layers, which Nemotron-H's configurations contain all the same, do not count; nor does multi-token
 * prediction by kinds that the model does not have. */
static int resolve_kinds(const json_t *config, const char *where, struct bb_arch *a)
{
    int n, rc;

    if (!a->kinds[0])
        return 0;
    TRY(read_kinds(config, "hybrid_override_pattern", "layers_block_type", where, a->kinds, sizeof(a->kinds)));
    TRY(read_kinds(config, "mtp_hybrid_override_pattern", "mtp_layers_block_type", where, a->mtp_kinds,
                   sizeof(a->mtp_kinds)));
    n = (int)strlen(a->kinds);
    if (a->layers && a->layers != n)
        bb_warn("%s: num_hidden_layers is %d, but the kinds of %d layers are given, so %d is used", where, a->layers, n,
                n);
    a->layers = n;
    if (strspn(a->mtp_kinds, a->kinds) < strlen(a->mtp_kinds))
        a->mtp_kinds[0] = '\0';
    if (!strchr(a->kinds, 'M'))
        a->scan = (struct bb_arch_scan){0};
    if (!strchr(a->kinds, 'E'))
        a->experts = a->top_k = a->shared_ffn = a->moe_latent = 0;
out:
    return rc;
}

/* Returns the number of tokens per compressed key of an element of compress_ratios or layer_types (DeepSeek-V4), -1 if
 * the element is invalid. compress_rates may give the number for each word. */
static int ratio_of(const json_t *config, const json_t *element)
{
    static const struct {
        const char *word;
        int ratio;
    } kinds[] = {{"sliding_attention", 0},
                 {"compressed_sparse_attention", BB_ARCH_SPARSE_RATIO},
                 {"heavily_compressed_attention", BB_ARCH_HEAVY_RATIO}};
    const char *word = json_string_value(element);
    const json_t *rate = word ? json_object_get(value_of(config, "compress_rates"), word) : element;
    const json_int_t given = json_is_integer(rate) ? json_integer_value(rate) : -1;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (rate ? given == kinds[i].ratio : word && strcmp(word, kinds[i].word) == 0)
            return kinds[i].ratio;
    return -1;
}

/* Reads the kinds of attention of DeepSeek-V4 from layer_types or compress_ratios, which may end with the ratios of
 * multi-token prediction. The default is that of the configuration class. */
static int read_ratios(const json_t *config, const char *where, struct bb_arch *a)
{
    const char *key = value_of(config, "layer_types") ? "layer_types" : "compress_ratios";
    const json_t *list = value_of(config, key), *kind;
    const size_t n = json_array_size(list), layers = (size_t)a->layers;
    size_t i;

    if (list && (n < layers || n > BB_ARCH_LISTED))
        return bb_err(BB_EUSAGE, "%s: '%s' must be a list with one element for each of the %zu layers, at most %d",
                      where, key, layers, BB_ARCH_LISTED);
    for (i = 0; i < BB_ARCH_LISTED; i++) {
        int ratio = i > 2 && i % 2 ? BB_ARCH_SPARSE_RATIO : BB_ARCH_HEAVY_RATIO;

        if (i < n)
            ratio = ratio_of(config, json_array_get(list, i));
        if (ratio < 0 || (i >= layers && i < n && ratio > 0))
            return reject_value(json_array_get(list, i), where, key,
                                i < layers ? "a compression ratio of 0, 4 or 128 (sliding_attention, "
                                             "compressed_sparse_attention, heavily_compressed_attention)"
                                           : "0 for multi-token prediction");
        a->ratios[i] = n == 0 || i < layers ? (unsigned char)ratio : a->ratios[i - (i < 2 ? i : 2)];
    }
    json_array_foreach(value_of(config, "mlp_layer_types"), i, kind) a->hash_layers =
        (i == 0 ? 0 : a->hash_layers) + (json_is_string(kind) && strcmp(json_string_value(kind), "hash_moe") == 0);
    return 0;
}

/* ---- derived fields and validation ---- */

static int reject_division(const char *where, const char *what, int value, const char *by, int step)
{
    int below = value / step * step;

    return bb_err(BB_EUSAGE, "%s: %s %d is not divisible by %s %d; try: %s %d", where, what, value, by, step, what,
                  below > 0 && value - below <= below + step - value ? below : below + step);
}

/* Validates the fields of scan layers (state-space or linear attention). If all layers are scan layers, the config
 * has no attention heads: heads, kv_heads and head_dim are set from the fields of the scan. */
static int resolve_scan(const char *where, struct bb_arch *a)
{
    struct bb_arch_scan *s = &a->scan;

    if (strcmp(a->type, "jamba") == 0) {
        s->heads = a->expand * a->hidden;
        s->step_rank = s->step_rank ? s->step_rank : (a->hidden + 15) / 16;
        a->experts = a->experts > 1 ? a->experts : 0; /* one expert: an MLP */
        if (a->attention_offset >= a->attention_every || a->moe_offset >= a->moe_every)
            return bb_err(BB_EUSAGE,
                          "%s: attn_layer_offset %d and expert_layer_offset %d must be below the periods %d and %d",
                          where, a->attention_offset, a->moe_offset, a->attention_every, a->moe_every);
    }
    if (s->heads == 0)
        return 0;
    if (s->heads % s->groups != 0)
        return reject_division(where, "state heads", s->heads, "state groups", s->groups);
    if (a->expand > 0 && (long long)s->heads * s->value_dim != (long long)a->expand * a->hidden)
        return bb_err(BB_EUSAGE, "%s: num_heads %d x head_dim %d is not equal to expand %d x hidden_size %d", where,
                      s->heads, s->value_dim, a->expand, a->hidden);
    if (a->heads == 0) {
        a->heads = s->heads;
        a->kv_heads = s->groups;
        a->head_dim = s->value_dim;
    }
    return 0;
}

static int resolve_attention(const char *where, struct bb_arch *a)
{
    /* Older Falcon models (without new_decoder_architecture) have one key-value head, or one per query head, and only
     * one norm per layer if attention and MLP run in parallel. */
    if (strcmp(a->type, "falcon") == 0 && !a->grouped_heads) {
        a->kv_heads = a->multi_query ? 1 : a->heads;
        a->norms = a->parallel_attention ? 1 : a->norms;
    }
    if (a->kv_heads == 0)
        a->kv_heads = a->heads;
    if (a->kv_lora) {
        a->kv_heads = a->heads; /* every head has its own keys and values, computed from the latent */
        if (a->streams && (a->rope_dim > a->kv_lora || a->heads % a->out_groups != 0))
            return a->rope_dim > a->kv_lora
                       ? bb_err(BB_EUSAGE, "%s: qk_rope_head_dim %d is more than head_dim %d", where, a->rope_dim,
                                a->kv_lora)
                       : reject_division(where, "num_attention_heads", a->heads, "o_groups", a->out_groups);
        a->nope_dim = a->streams ? a->kv_lora - a->rope_dim : a->nope_dim;
        a->head_dim = a->nope_dim + a->rope_dim;
        return 0;
    }
    if (a->heads % a->kv_heads != 0)
        return reject_division(where, "num_attention_heads", a->heads, "num_key_value_heads", a->kv_heads);
    if (a->head_dim == 0 && a->hidden % a->heads != 0)
        return reject_division(where, "hidden size", a->hidden, "attention heads", a->heads);
    if (a->head_dim == 0)
        a->head_dim = a->hidden / a->heads;
    return 0;
}

static int resolve_experts(const char *where, struct bb_arch *a)
{
    if (a->experts == 0) {
        a->shared_ffn = 0;
        return 0;
    }
    if (a->moe_every == 0)
        a->moe_every = 1;
    if (a->expert_ffn == 0)
        a->expert_ffn = a->ffn;
    if (a->shared_experts)
        a->shared_ffn = a->shared_experts * a->expert_ffn;
    if (a->top_k == 0)
        return bb_err(BB_EUSAGE, "%s: 'num_experts_per_tok' is missing, expected 1 to %d", where, a->experts);
    if (a->top_k > a->experts)
        return bb_err(BB_EUSAGE, "%s: num_experts_per_tok %d is more than the %d experts; try: %d", where, a->top_k,
                      a->experts, a->experts);
    if (a->dense_layers > a->layers)
        return bb_err(BB_EUSAGE, "%s: %d dense layers are more than the %d layers; try: %d", where, a->dense_layers,
                      a->layers, a->layers);
    return 0;
}

static int resolve_arch(const char *where, struct bb_arch *a)
{
    int rc;

    if (a->ffn == 0)
        a->ffn = 4 * a->hidden;
    if (a->encoder_layers > 0)
        a->layers = a->encoder_layers + (a->decoder_layers ? a->decoder_layers : a->encoder_layers);
    if (a->embedding_width && a->embedding_width != a->hidden)
        return bb_err(BB_EUSAGE, "%s: word_embed_proj_dim %d other than hidden_size %d is not supported; try: %d",
                      where, a->embedding_width, a->hidden, a->hidden);
    TRY(resolve_scan(where, a));
    TRY(resolve_attention(where, a));
    TRY(resolve_experts(where, a));
    if (a->index_heads > 0 && a->q_lora == 0)
        return bb_err(BB_EUSAGE, "%s: 'q_lora_rank' is missing, but the indexer requires a query latent", where);
    if (bb_arch_parameters(a) > MAX_PARAMETERS)
        rc = bb_err(BB_EUSAGE, "%s: %.3g parameters, expected at most %.3g", where, bb_arch_parameters(a),
                    MAX_PARAMETERS);
out:
    return rc;
}

static int read_fields(const json_t *config, const char *where, const struct bb_arch_type *type, struct bb_arch *arch)
{
    int rc = 0;

    for (const struct bb_arch_number *f = type->numbers; f->keys[0]; f++)
        TRY(read_number(config, f, where, arch));
    for (const struct bb_arch_flag *f = type->flags; f->key; f++)
        TRY(read_flag(config, f, where, arch));
    for (const struct bb_arch_fixed *f = type->fixed; f && f->key; f++) {
        const json_t *value = value_of(config, f->key);

        if (value && !(f->value ? json_is_true(value) : json_is_false(value)))
            return bb_err(BB_EUSAGE, "%s: '%s' must be %s: %s", where, f->key, f->value ? "true" : "false", f->why);
    }
    TRY(check_activation(config, where));
    TRY(read_dropout(config, where, arch));
    TRY(read_feed_forward(config, where, arch));
    TRY(resolve_kinds(config, where, arch));
    if (!arch->kinds[0])
        TRY((arch->streams ? read_ratios : read_layer_types)(config, where, arch));
    if (arch->experts)
        TRY(read_dense_list(config, where, arch));
out:
    return rc;
}

/* Reads a config.json. In a multimodal configuration, the object "text_config" describes the text model. If this object
 * has no model_type or tie_word_embeddings, that key of the whole file applies. */
static int read_config(const json_t *config, const char *where, struct bb_arch *arch)
{
    const json_t *part = value_of(config, "text_config"), *text = json_is_object(part) ? part : config;
    const bool named = text_at(text, "model_type") || text_at(text, "architectures");
    struct bb_arch_flag tie = {"tie_word_embeddings", offsetof(struct bb_arch, tied), false};
    const struct bb_arch_type *type;
    int rc;

    TRY(find_type(named ? text : config, where, &type));
    *arch = type->base;
    snprintf(arch->type, sizeof(arch->type), "%s", type->name);
    TRY(read_fields(text, where, type, arch));
    warn_about_defaults(text, where, type, text == part);
    warn_about_quantization(config, where);
    warn_about_other_parts(config, where);
    tie.value = arch->tied;
    if (!value_of(text, tie.key))
        TRY(read_flag(config, &tie, where, arch));
    TRY(resolve_arch(where, arch));
out:
    return rc;
}

/* ---- files ---- */

/* Sets the name of the model: "llama-7b" for "models/llama-7b/config.json", "models/llama-7b/" and "llama-7b.json". */
static void set_name(const char *word, char name[BB_ARCH_NAME])
{
    const char *end = word + strlen(word), *start;

    if (end - word > 12 && strcmp(end - 12, "/config.json") == 0)
        end -= 12;
    else if (end - word > 5 && strcmp(end - 5, ".json") == 0)
        end -= 5;
    while (end - word > 1 && end[-1] == '/')
        end--;
    for (start = end; start > word && start[-1] != '/'; start--)
        ;
    snprintf(name, BB_ARCH_NAME, "%.*s", (int)(end - start), start);
}

/* Checks the parameter totals of a profile (a file of profiles/models): they must equal the sums over the tensors.
 * `part` is the JSON object with the config and the totals: the whole profile, or its object "transformer" in
 * profiles of published mini-applications, which have their own tensors and sharding. */
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

static bool is_transformer_profile(const json_t *root)
{
    const char *family = json_string_value(json_object_get(root, "family"));

    return (family && strcmp(family, FAMILY) == 0) || json_object_get(root, FAMILY);
}

/* Returns the transformer whose name most probably continues the name of a profile; NULL: there is none. */
static const char *find_longer_name(const char *where)
{
    const char *names[MAX_NAMES];
    size_t n = 0;

    for (size_t i = 0, all = bb_profile_names("models", names, MAX_NAMES); i < all; i++)
        if (strncmp(names[i], where, strlen(where)) == 0 && strcmp(names[i], where) != 0)
            names[n++] = names[i];
    return bb_nearest_word(where, names, n);
}

/* Rejects a profile of a model that is not a transformer (its key "family" names another kind of model). */
static int reject_family(const char *where, const json_t *root)
{
    const char *family = json_string_value(json_object_get(root, "family")), *longer = find_longer_name(where);
    const bool is_replica = family && strcmp(family, "residual_network") == 0;

    if (longer)
        return bb_err(BB_EUSAGE, "model '%s' is not a transformer, did you mean '%s'?", where, longer);
    return bb_err(BB_EUSAGE, "model '%s' is not a transformer; 'busbar list models' lists the models of each proxy%s%s",
                  where, is_replica ? "; try: data_parallel --model " : "", is_replica ? where : "");
}

int bb_arch_read(const json_t *root, const char *where, struct bb_arch *arch)
{
    const json_t *second = json_object_get(root, FAMILY), *part = second ? second : root;
    json_t *config;
    int rc;

    *arch = (struct bb_arch){0};
    if (!json_object_get(root, "schema")) {
        rc = read_config(root, where, arch);
    } else if (!is_transformer_profile(root)) {
        rc = reject_family(where, root);
    } else {
        TRY(bb_json_object_at(part, "config", where, &config));
        TRY(read_config(config, where, arch));
        TRY(check_totals(part, where, arch));
    }
out:
    set_name(where, arch->name);
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
    int min_layers = arch->encoder_layers > 0 ? 2 : 1;

    if (layers < min_layers || layers > BB_ARCH_MAX_LAYERS)
        return bb_err(BB_EUSAGE, "%s: %d layer%s, expected %d to %d", arch->name, layers, bb_plural(layers), min_layers,
                      BB_ARCH_MAX_LAYERS);
    if (arch->encoder_layers > 0) { /* scale encoder and decoder in proportion, with at least one layer each */
        int encode = (int)((long long)layers * arch->encoder_layers / arch->layers);

        arch->encoder_layers = encode > 0 ? encode : 1;
    }
    arch->layers = layers;
    if (arch->dense_layers > layers)
        arch->dense_layers = layers;
    return 0;
}
