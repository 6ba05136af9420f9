/*
 * profile.c - the cluster profile ($EMU_CLUSTER, keys in profiles/clusters/README.md of the tree) and who this process
 * is in its job.
 */
#include "internal.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Without a profile: a node of eight round-numbered GPUs, the same as profiles/clusters/emulated-default.json. */
static const struct emu_profile built_in = {.name = "emulated-default",
                                            .gpus_per_node = 8,
                                            .sm_count = 100,
                                            .clock_khz = 1000000,
                                            .launch_us = 2,
                                            .nccl_launch_us = 3,
                                            .kernel_us = 2,
                                            .memory_gbps = 2000,
                                            .memory_bytes = 80e9,
                                            .tflops_float32 = 100,
                                            .tflops_float16 = 400,
                                            .tflops_bfloat16 = 400,
                                            .tflops_float64 = 50,
                                            .intra = {.latency_us = 4, .gbps = 200},
                                            .inter = {.latency_us = 10, .gbps = 25}};

int64_t emu_ns_of_us(double us)
{
    return llround(us * 1000.0);
}

static double number_at(const json_t *object, const char *key, const char *where)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_number(value) || json_number_value(value) < 0)
        emu_die("EMU_CLUSTER: %s '%s' is missing or not a number of at least 0", where, key);
    return json_number_value(value);
}

static const json_t *object_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_object(value))
        emu_die("EMU_CLUSTER: '%s' is missing or not an object", key);
    return value;
}

static void refuse_unknown(json_t *object, const char *where, const char *const *known, size_t n)
{
    const char *key;
    json_t *value;
    size_t i;

    json_object_foreach(object, key, value)
    {
        for (i = 0; i < n && strcmp(key, known[i]) != 0; i++)
            ;
        if (i == n && key[0] != '_')
            emu_die("EMU_CLUSTER: unknown %s '%s'", where, key);
    }
}

static void read_link(struct emu_link *link, const json_t *root, const char *key)
{
    static const char *const known[] = {"latency_us", "gbps"};
    const json_t *object = object_at(root, key);

    refuse_unknown((json_t *)object, key, known, 2);
    link->latency_us = number_at(object, "latency_us", key);
    link->gbps = number_at(object, "gbps", key);
}

static void read_tflops(struct emu_profile *p, const json_t *root)
{
    static const char *const known[] = {"float32", "float16", "bfloat16", "float64", "float8"};
    const json_t *object = object_at(root, "tflops");

    refuse_unknown((json_t *)object, "tflops", known, 5);
    p->tflops_float32 = number_at(object, "float32", "tflops");
    p->tflops_float16 = number_at(object, "float16", "tflops");
    p->tflops_bfloat16 = number_at(object, "bfloat16", "tflops");
    p->tflops_float64 = number_at(object, "float64", "tflops");
}

static void read_profile(struct emu_profile *p, json_t *root)
{
    static const char *const known[] = {"name", "gpus_per_node", "launch_us", "nccl_launch_us", "kernel_us",
                                        "memory_gbps", "memory_bytes", "tflops", "sm_count", "clock_khz", "description",
                                        "source", "intra", "inter",
                                        /* of forecasts: these GPUs keep to the simple law */
                                        "achieved", "nccl", "nics_per_node"};
    const json_t *name = json_object_get(root, "name");

    refuse_unknown(root, "key", known, sizeof(known) / sizeof(known[0]));
    if (!json_is_string(name) || strlen(json_string_value(name)) >= sizeof(p->name))
        emu_die("EMU_CLUSTER: 'name' is missing or not a short string");
    strcpy(p->name, json_string_value(name));
    p->gpus_per_node = (int)number_at(root, "gpus_per_node", "key");
    p->sm_count = (int)number_at(root, "sm_count", "key");
    p->clock_khz = (int)number_at(root, "clock_khz", "key");
    p->launch_us = number_at(root, "launch_us", "key");
    p->nccl_launch_us = number_at(root, "nccl_launch_us", "key");
    p->kernel_us = number_at(root, "kernel_us", "key");
    p->memory_gbps = number_at(root, "memory_gbps", "key");
    p->memory_bytes = number_at(root, "memory_bytes", "key");
    read_tflops(p, root);
    read_link(&p->intra, root, "intra");
    read_link(&p->inter, root, "inter");
    if (p->gpus_per_node < 1 || p->memory_gbps <= 0 || p->intra.gbps <= 0 || p->inter.gbps <= 0)
        emu_die("EMU_CLUSTER: gpus_per_node and the bandwidths must be above 0");
}

void emu_profile_load(struct emu_profile *profile)
{
    const char *path = getenv("EMU_CLUSTER");
    json_error_t error;
    json_t *root;

    *profile = built_in;
    if (!path || !*path)
        return;
    root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(root))
        emu_die("EMU_CLUSTER=%s: line %d: %s", path, error.line, root ? "expected an object" : error.text);
    read_profile(profile, root);
    json_decref(root);
}

int emu_rank_from(const char *const *names, int n, int fallback)
{
    for (int i = 0; i < n; i++) {
        const char *value = getenv(names[i]);
        char *end;
        long number;

        if (!value || !*value)
            continue;
        number = strtol(value, &end, 10);
        if (!*end && number >= 0 && number <= 1 << 30)
            return (int)number;
    }
    return fallback;
}

int emu_world_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};

    return emu_rank_from(names, 4, 0);
}

int emu_world_size(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"};

    return emu_rank_from(names, 3, 1);
}
