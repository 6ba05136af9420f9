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

static double value_at(const struct bb_cluster *c, size_t offset, bool is_int)
{
    const void *at = (const char *)c + offset;

    return is_int ? *(const int *)at : *(const double *)at;
}

/* Appends a parameter to c->parameters, with the value that c->cluster has at byte `offset`, and returns the
 * parameter. The caller sets its key. */
static struct bb_calibration_parameter *add_parameter(struct bb_calibration *c, size_t offset, bool is_integer)
{
    struct bb_calibration_parameter *f = &c->parameters[c->n_parameters++];
    const double value = value_at(&c->cluster, offset, is_integer);

    *f = (struct bb_calibration_parameter){
        .variant = -1, .offset = offset, .is_integer = is_integer, .nominal = value, .value = value};
    return f;
}

static void add_variant(struct bb_calibration *c, int variant)
{
    const struct bb_nccl_variant *v = &c->cluster.variants[variant];

    for (size_t p = 0; p < sizeof(variant_members) / sizeof(variant_members[0]); p++) {
        struct bb_calibration_parameter *f;

        if (variant_members[p].offset == offsetof(struct bb_nccl_variant, chunk_us) && v->chunk_us <= 0)
            continue; /* this variant has no chunk_us: its bandwidth is the same at all sizes */
        f = add_parameter(c, offsetof(struct bb_cluster, variants[variant]) + variant_members[p].offset, false);
        f->variant = variant;
        f->is_rate = variant_members[p].is_rate;
        f->is_fittable = true;
        snprintf(f->key, sizeof(f->key), "nccl.%s.%s.%s", bb_nccl_algorithms[v->algorithm], v->protocol,
                 variant_members[p].part);
    }
}

static bool has_need(const struct bb_cluster *base, enum need need)
{
    return need == ACHIEVED   ? base->has_achieved
           : need == VARIANTS ? base->n_variants > 0
           : need == SHARING  ? base->has_sharing
                              : true;
}

void bb_parameters_init(struct bb_calibration *c)
{
    for (size_t i = 0; i < sizeof(scalars) / sizeof(scalars[0]); i++) {
        const enum how how = scalars[i].how;
        struct bb_calibration_parameter *f;

        if (!has_need(&c->cluster, scalars[i].need))
            continue;
        f = add_parameter(c, scalars[i].offset, how == INTEGER);
        snprintf(f->key, sizeof(f->key), "%s", scalars[i].key);
        f->is_rate = how == RATE;
        f->is_fittable = (how == RATE && f->nominal > 0) || how == LATENCY;
    }
    for (int variant = 0; variant < c->cluster.n_variants; variant++)
        add_variant(c, variant);
}

struct bb_calibration_parameter *bb_parameter_find(struct bb_calibration *c, const char *key)
{
    for (int f = 0; f < c->n_parameters; f++)
        if (strcmp(c->parameters[f].key, key) == 0)
            return &c->parameters[f];
    return NULL;
}

struct bb_calibration_parameter *bb_parameter_of_variant(struct bb_calibration *c, int variant, const char *part)
{
    for (int f = 0; f < c->n_parameters; f++)
        if (c->parameters[f].variant == variant && strcmp(strrchr(c->parameters[f].key, '.') + 1, part) == 0)
            return &c->parameters[f];
    return NULL;
}

void bb_parameter_try(struct bb_cluster *c, const struct bb_calibration_parameter *parameter, double value)
{
    void *at = (char *)c + parameter->offset;

    if (parameter->is_integer)
        *(int *)at = (int)value;
    else
        *(double *)at = value;
}

void bb_parameter_set(struct bb_calibration *c, struct bb_calibration_parameter *parameter, double value)
{
    parameter->value = value;
    parameter->fit = &c->fits[c->n_fits];
    bb_parameter_try(&c->cluster, parameter, value);
}

double bb_parameter_round(const struct bb_calibration_parameter *parameter, double value)
{
    char text[32];

    snprintf(text, sizeof(text), "%.5g", parameter->is_rate ? value : round(value * 1e3) / 1e3);
    return strtod(text, NULL);
}
