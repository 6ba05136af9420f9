/* parameters.c - see parameters.h. */
#include "proxies/calibrate/parameters.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum need { ALWAYS, ACHIEVED, VARIANTS, SHARING };
/* Kinds of parameters. LATENCY and RATE are fitted: a LATENCY contributes a time proportional to its value, a RATE a
 * time proportional to 1 / value. FIXED (a double) and INTEGER (an int) are never fitted. */
enum how { LATENCY, RATE, FIXED, INTEGER };

#define AT(member) offsetof(struct bb_cluster, member)
static const struct {
    const char *key;
    size_t offset;
    enum how how;
    enum need need;
} scalars[] = {
    {"gpus_per_node", AT(gpus_per_node), INTEGER, ALWAYS},
    {"nics_per_node", AT(nics_per_node), INTEGER, VARIANTS},
    {"launch_us", AT(launch_us), LATENCY, ALWAYS},
    {"nccl_launch_us", AT(nccl_launch_us), LATENCY, ALWAYS},
    {"kernel_us", AT(kernel_us), LATENCY, ALWAYS},
    {"memory_gbps", AT(memory_gbps), RATE, ALWAYS},
    {"memory_bytes", AT(memory_bytes), FIXED, ALWAYS},
    {"tflops.float32", AT(tflops_float32), RATE, ALWAYS},
    {"tflops.float16", AT(tflops_float16), RATE, ALWAYS},
    {"tflops.bfloat16", AT(tflops_bfloat16), RATE, ALWAYS},
    {"tflops.float64", AT(tflops_float64), FIXED, ALWAYS},
    {"tflops.float8", AT(tflops_float8), FIXED, ACHIEVED},
    {"achieved.gemm", AT(achieved.gemm), RATE, ACHIEVED},
    {"achieved.gemm_float8", AT(achieved.gemm_float8), FIXED, ACHIEVED},
    {"achieved.attention_forward", AT(achieved.attention_forward), FIXED, ACHIEVED},
    {"achieved.attention_backward", AT(achieved.attention_backward), FIXED, ACHIEVED},
    {"achieved.memory", AT(achieved.memory), RATE, ACHIEVED},
    {"sharing.collective_sms", AT(sharing.collective_sms), INTEGER, SHARING},
    {"sharing.message_sms", AT(sharing.message_sms), INTEGER, SHARING},
    {"sharing.memory_bytes", AT(sharing.memory_bytes), LATENCY, SHARING},
    {"sm_count", AT(sm_count), INTEGER, ALWAYS},
    {"clock_khz", AT(clock_khz), INTEGER, ALWAYS},
    {"intra.latency_us", AT(intra.latency_us), LATENCY, ALWAYS},
    {"intra.gbps", AT(intra.gbps), RATE, ALWAYS},
    {"inter.latency_us", AT(inter.latency_us), LATENCY, ALWAYS},
    {"inter.gbps", AT(inter.gbps), RATE, ALWAYS},
};

static const struct {
    const char *part;
    size_t offset; /* byte offset in struct bb_nccl_variant */
    bool is_rate;
} variant_members[] = {{"base_us", offsetof(struct bb_nccl_variant, base_us), false},
                       {"intra_us", offsetof(struct bb_nccl_variant, intra_us), false},
                       {"inter_us", offsetof(struct bb_nccl_variant, inter_us), false},
                       {"gbps", offsetof(struct bb_nccl_variant, gbps), true},
                       {"nic", offsetof(struct bb_nccl_variant, nic), true},
                       {"chunk_us", offsetof(struct bb_nccl_variant, chunk_us), false}};

void bb_parameter_variant_key(char *key, size_t size, const struct bb_nccl_variant *variant, const char *part)
{
    snprintf(key, size, "nccl.%s.%s.%s", bb_nccl_algorithms[variant->algorithm], variant->protocol, part);
}

static double value_at(const struct bb_cluster *c, size_t offset, bool is_int)
{
    const char *at = (const char *)c + offset;
    double value;
    int reference;

    memcpy(&reference, at, sizeof(reference));
    if (is_int)
        return reference;
    memcpy(&value, at, sizeof(value));
    return value;
}

static int add_variants(const struct bb_cluster *base, struct bb_calibration_parameter *parameters)
{
    int n = 0;

    for (int w = 0; w < base->n_variants; w++)
        for (size_t p = 0; p < sizeof(variant_members) / sizeof(variant_members[0]); p++) {
            struct bb_calibration_parameter *f = &parameters[n];

            if (variant_members[p].offset == offsetof(struct bb_nccl_variant, chunk_us) &&
                base->variants[w].chunk_us <= 0)
                continue; /* this variant has no chunk_us: its bandwidth is the same at all sizes */
            n++;
            *f = (struct bb_calibration_parameter){
                .variant = w, .fit = -1, .is_fittable = true, .is_rate = variant_members[p].is_rate};
            bb_parameter_variant_key(f->key, sizeof(f->key), &base->variants[w], variant_members[p].part);
            f->offset = offsetof(struct bb_cluster, variants) + (size_t)w * sizeof(base->variants[0]) +
                        variant_members[p].offset;
            f->nominal = f->value = value_at(base, f->offset, false);
        }
    return n;
}

static bool has_need(const struct bb_cluster *base, enum need need)
{
    return need == ACHIEVED   ? base->has_achieved
           : need == VARIANTS ? base->n_variants > 0
           : need == SHARING  ? base->has_sharing
                              : true;
}

int bb_parameters_of(const struct bb_cluster *base, struct bb_calibration_parameter *parameters)
{
    int n = 0;

    for (size_t i = 0; i < sizeof(scalars) / sizeof(scalars[0]); i++) {
        struct bb_calibration_parameter *f = &parameters[n];
        const enum how how = scalars[i].how;

        if (!has_need(base, scalars[i].need))
            continue;
        *f = (struct bb_calibration_parameter){.variant = -1, .fit = -1, .offset = scalars[i].offset};
        snprintf(f->key, sizeof(f->key), "%s", scalars[i].key);
        f->nominal = f->value = value_at(base, f->offset, how == INTEGER);
        f->is_rate = how == RATE;
        f->is_integer = how == INTEGER;
        f->is_fittable = (how == RATE && f->nominal > 0) || how == LATENCY;
        n++;
    }
    return n + add_variants(base, parameters + n);
}

int bb_parameter_find(const struct bb_calibration_parameter *parameters, int n, const char *key)
{
    for (int f = 0; f < n; f++)
        if (strcmp(parameters[f].key, key) == 0)
            return f;
    return -1;
}

void bb_parameter_set(struct bb_cluster *c, const struct bb_calibration_parameter *parameter, double value)
{
    value = parameter->is_rate ? 1 / value : value;
    memcpy((char *)c + parameter->offset, &value, sizeof(value));
}

double bb_parameter_round(const struct bb_calibration_parameter *parameter, double value)
{
    char text[32];

    snprintf(text, sizeof(text), "%.5g", parameter->is_rate ? value : round(value * 1e3) / 1e3);
    return strtod(text, NULL);
}
