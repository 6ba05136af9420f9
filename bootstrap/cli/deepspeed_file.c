/* deepspeed_file.c - reads DeepSpeed's configuration file of a command line (see foreign_line_internal.h). */
#include "bootstrap/cli/foreign_line_internal.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/json_read.h"
#include "bootstrap/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Keys of DeepSpeed's file ("DeepSpeed Configuration JSON" of its documentation), and an option with the same meaning. */
static const struct {
    const char *path[4], *option;
} deepspeed_keys[] = {
    {{"zero_optimization", "stage"}, "stage"},
    {{"zero_optimization", "zero_hpz_partition_size"}, "zero_hpz_partition_size"},
    {{"zero_optimization", "offload_optimizer", "device"}, "offload_optimizer"},
    {{"zero_optimization", "offload_param", "device"}, "offload_param"},
    {{"train_batch_size"}, "train_batch_size"},
    {{"train_micro_batch_size_per_gpu"}, "train_micro_batch_size_per_gpu"},
    {{"gradient_accumulation_steps"}, "gradient_accumulation_steps"},
    {{"bf16", "enabled"}, "bf16"},
    {{"fp16", "enabled"}, "fp16"},
    {{"optimizer", "type"}, "optim"},
    {{"communication_data_type"}, "communication_data_type"},
    {{"data_types", "grad_accum_dtype"}, "grad_accum_dtype"},
    {{"zero_optimization", "mics_shard_size"}, "mics_shard_size"},
    {{"zero_optimization", "zero_quantized_weights"}, "zero_quantized_weights"},
    {{"zero_optimization", "zero_quantized_nontrainable_weights"}, "zero_quantized_nontrainable_weights"},
    {{"zero_optimization", "zero_quantized_gradients"}, "zero_quantized_gradients"},
    {{"tensor_parallel", "autotp_size"}, "autotp_size"},
    {{"sequence_parallel_size"}, "ds_sequence_parallel_size"},
    {{"activation_checkpointing", "partition_activations"}, "partition_activations"},
    {{"activation_checkpointing", "cpu_checkpointing"}, "cpu_checkpointing"},
};

/* Returns the words of a key: 1, or 0 without a value, with one that the program sets ("auto"), or with a fraction. All numbers
 * are integers, which programs also write as 64.0 or 1e9. */
static size_t read_key(struct line *l, size_t key, char **word)
{
    const json_t *value = l->config;
    const char *option = deepspeed_keys[key].option;

    for (const char *const *name = deepspeed_keys[key].path; *name; name++)
        value = json_object_get(value, *name);
    if (json_is_number(value) && json_number_value(value) != floor(json_number_value(value)))
        bb_line_add_note(l, "not read", &(struct item){.typed = option}, "expected an integer");
    else if (json_is_number(value))
        *word = bb_format("%s=%.0f", option, json_number_value(value));
    else if (json_is_string(value) && strcmp(json_string_value(value), "auto") != 0 &&
             strcmp(json_string_value(value), "none") != 0)
        *word = bb_format("%s=%s", option, json_string_value(value));
    else if (json_is_true(value))
        *word = bb_format("%s=true", option);
    return *word != NULL;
}

/* Returns the file, or NULL if it is not readable. */
static json_t *load_config(const char *path)
{
    const char *problem;
    FILE *file = bb_input_open(path, &problem);
    json_t *config = file ? json_loadf(file, 0, NULL) : NULL;

    if (file)
        fclose(file);
    return config;
}

void bb_line_read_deepspeed(struct line *l, char **argv)
{
    static const struct bb_foreign_name names[] = {{.name = "deepspeed " DEEPSPEED_FILE_OPTIONS}, {.name = NULL}};
    const size_t most = sizeof(deepspeed_keys) / sizeof(*deepspeed_keys);
    size_t n = 0;

    for (; argv[n]; n++) {
        const char *equals = strchr(argv[n], '='), *path = equals ? equals + 1 : argv[n + 1];

        if (l->set->programs && !l->config && path && bb_begins_with(argv[n], "--") &&
            bb_foreign_find(names, argv[n] + 2, strcspn(argv[n] + 2, "=")))
            l->config = load_config(path);
    }
    BB_NEW(l->words, n + most + 1);
    l->words[0] = argv[0];
    for (size_t i = 0; i < most && l->config; i++)
        l->n_config += read_key(l, i, &l->words[1 + l->n_config]);
    memcpy(l->words + 1 + l->n_config, argv + 1, n * sizeof(*argv)); /* with the NULL */
}

/* Notes the keys of a section that have no row above, except those with little influence. */
static void note_unknown_keys(struct line *l, const char *section)
{
    static const struct bb_foreign_name usual[] = {
        {.name = "contiguous_gradients reduce_bucket_size allgather_bucket_size sub_group_size round_robin_gradients "
                 "stage3_prefetch_bucket_size stage3_param_persistence_threshold stage3_max_live_parameters "
                 "stage3_max_reuse_distance stage3_gather_16bit_weights_on_model_save "
                 "stage3_gather_fp16_weights_on_model_save load_from_fp32_weights elastic_checkpoint "
                 "ignore_unused_parameters memory_efficient_linear legacy_stage1 offload_optimizer offload_param "
                 "overlap_comm "
                 "reduce_scatter=true allgather_partitions=true"},
        {.name = NULL}};
    const char *key;
    json_t *value;

    json_object_foreach(json_object_get(l->config, section), key, value)
    {
        char *word = bb_format("%s%s", key, json_is_true(value) ? "=true" : "");
        const struct item item = {.typed = key};
        bool is_known = bb_foreign_find(usual, key, strlen(key)) || bb_foreign_find(usual, word, strlen(word));

        for (size_t i = 0; i < sizeof(deepspeed_keys) / sizeof(*deepspeed_keys); i++)
            is_known |= strcmp(deepspeed_keys[i].path[0], section) == 0 && strcmp(deepspeed_keys[i].path[1], key) == 0;
        if (!is_known)
            bb_line_add_note(l, "not read", &item, "a key of DeepSpeed's file without a row here");
        free(word);
    }
}

void bb_line_note_deepspeed(struct line *l, const struct item *item)
{
    char *keys = bb_format("%s", l->n_config ? "" : "no key that is modelled"), *before;

    for (size_t i = 0; i < l->n_config; i++) {
        before = keys;
        keys = bb_format("%s%s%s", before, i ? " " : "", l->words[1 + i]);
        free(before);
    }
    bb_line_add_note(l, "read", item, keys);
    note_unknown_keys(l, "zero_optimization");
    note_unknown_keys(l, "tensor_parallel");
    free(keys);
}
