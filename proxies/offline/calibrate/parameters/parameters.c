/* parameters.c - see parameters.h. */
#include "proxies/offline/calibrate/parameters/parameters.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Section of the profile that contains the parameter; VARIANTS: section "nccl"; PRESENT: none, it may be missing. */
enum section { ALWAYS, PRESENT, ACHIEVED, VARIANTS, SHARING, SECTIONS };

#define AT(member) offsetof(struct bb_cluster, member)
static const struct {
    const char *key;
    size_t offset;
    enum bb_parameter_kind kind;
    enum section section;
    enum bb_determined_by by;
} scalars[] = {
    {"gpus_per_node", AT(gpus_per_node), BB_INTEGER, ALWAYS, BB_BY_NO_FIT},
    {"nics_per_node", AT(nics_per_node), BB_INTEGER, VARIANTS, BB_BY_NO_FIT},
    {"launch_us", AT(launch_us), BB_LATENCY, ALWAYS, BB_BY_KERNELS},
    {"nccl_launch_us", AT(nccl_launch_us), BB_LATENCY, ALWAYS, BB_BY_CALLS},
    {"kernel_us", AT(kernel_us), BB_LATENCY, ALWAYS, BB_BY_KERNELS},
    {"memory_gbps", AT(memory_gbps), BB_RATE, ALWAYS, BB_BY_KERNELS},
    {"memory_bytes", AT(memory_bytes), BB_FIXED, ALWAYS, BB_BY_NO_FIT},
    {"tflops.float32", AT(tflops_float32), BB_RATE, ALWAYS, BB_BY_KERNELS},
    {"tflops.float16", AT(tflops_float16), BB_RATE, ALWAYS, BB_BY_KERNELS},
    {"tflops.bfloat16", AT(tflops_bfloat16), BB_RATE, ALWAYS, BB_BY_KERNELS},
    {"tflops.float64", AT(tflops_float64), BB_FIXED, ALWAYS, BB_BY_NO_FIT},
    {"tflops.float8", AT(tflops_float8), BB_FIXED, ACHIEVED, BB_BY_NO_FIT},
    {"achieved.gemm", AT(achieved.gemm), BB_RATE, ACHIEVED, BB_BY_KERNELS},
    {"achieved.gemm_float8", AT(achieved.gemm_float8), BB_FIXED, ACHIEVED, BB_BY_NO_FIT},
    {"achieved.attention_forward", AT(achieved.attention_forward), BB_FIXED, ACHIEVED, BB_BY_NO_FIT},
    {"achieved.attention_backward", AT(achieved.attention_backward), BB_FIXED, ACHIEVED, BB_BY_NO_FIT},
    {"achieved.memory", AT(achieved.memory), BB_RATE, ACHIEVED, BB_BY_KERNELS},
    {"sharing.collective_sms", AT(sharing.collective_sms), BB_INTEGER, SHARING, BB_BY_NO_FIT},
    {"sharing.message_sms", AT(sharing.message_sms), BB_INTEGER, SHARING, BB_BY_NO_FIT},
    {"sharing.memory_bytes", AT(sharing.memory_bytes), BB_LATENCY, SHARING, BB_BY_OVERLAP},
    {"sm_count", AT(sm_count), BB_INTEGER, ALWAYS, BB_BY_NO_FIT},
    {"clock_khz", AT(clock_khz), BB_INTEGER, ALWAYS, BB_BY_NO_FIT},
    {"tflops.float4", AT(tflops_float4), BB_FIXED, PRESENT, BB_BY_NO_FIT},
    {"host.op_us", AT(host.op_us), BB_FIXED, PRESENT, BB_BY_NO_FIT},
    {"host.expert_us", AT(host.expert_us), BB_FIXED, PRESENT, BB_BY_NO_FIT},
    {"pcie_gbps", AT(pcie_gbps), BB_FIXED, PRESENT, BB_BY_NO_FIT},
    {"peer_gbps", AT(peer_gbps), BB_FIXED, PRESENT, BB_BY_NO_FIT},
    {"collective_min_us", AT(collective_min_us), BB_LATENCY, VARIANTS, BB_BY_NO_FIT},
    {"intra.latency_us", AT(intra.latency_us), BB_LATENCY, ALWAYS, BB_BY_LOCAL},
    {"intra.gbps", AT(intra.gbps), BB_RATE, ALWAYS, BB_BY_LOCAL},
    {"inter.latency_us", AT(inter.latency_us), BB_LATENCY, ALWAYS, BB_BY_REMOTE},
    {"inter.gbps", AT(inter.gbps), BB_RATE, ALWAYS, BB_BY_REMOTE},
    {"inter.group_us", AT(inter.group_us), BB_LATENCY, VARIANTS, BB_BY_REMOTE},
    {"inter.message_us", AT(inter.message_us), BB_LATENCY, VARIANTS, BB_BY_REMOTE},
};

static const struct {
    const char *part;
    size_t offset; /* byte offset in struct bb_nccl_variant */
    enum bb_parameter_kind kind;
} variant_members[] = {{"base_us", offsetof(struct bb_nccl_variant, base_us), BB_LATENCY},
                       {"intra_us", offsetof(struct bb_nccl_variant, intra_us), BB_LATENCY},
                       {"inter_us", offsetof(struct bb_nccl_variant, inter_us), BB_LATENCY},
                       {"gbps", offsetof(struct bb_nccl_variant, gbps), BB_RATE},
                       {"nic", offsetof(struct bb_nccl_variant, nic), BB_RATE},
                       {"chunk_us", offsetof(struct bb_nccl_variant, chunk_us), BB_LATENCY}};

/* Value of the cluster at byte offset, which is an int (BB_INTEGER) or a double. */
static double read_value(const struct bb_cluster *c, size_t offset, enum bb_parameter_kind kind)
{
    const void *at = (const char *)c + offset;

    return kind == BB_INTEGER ? *(const int *)at : *(const double *)at;
}

/* Appends the parameter to c->parameters, with the value that c->cluster has at byte p.offset. Returns the stored
 * parameter. The caller sets its key. */
static struct bb_calibration_parameter *add_parameter(struct bb_calibration *c, struct bb_calibration_parameter p)
{
    p.value = p.nominal = read_value(&c->cluster, p.offset, p.kind);
    p.is_fittable = p.by != BB_BY_NO_FIT && (p.variant >= 0 || p.kind == BB_LATENCY || p.nominal > 0);
    p.uncertainty_percent = NAN;
    c->parameters[c->n_parameters] = p;
    return &c->parameters[c->n_parameters++];
}

static void add_variant(struct bb_calibration *c, int variant)
{
    const struct bb_nccl_variant *v = &c->cluster.variants[variant];

    snprintf(c->variant_names[variant], sizeof(*c->variant_names), "%s %s", bb_nccl_algorithms[v->algorithm],
             v->protocol);
    for (size_t i = 0; i < sizeof(variant_members) / sizeof(variant_members[0]); i++) {
        struct bb_calibration_parameter *p;

        if (variant_members[i].offset == offsetof(struct bb_nccl_variant, chunk_us) && v->chunk_us <= 0)
            continue; /* this variant has no chunk_us: its bandwidth is the same at all sizes */
        p = add_parameter(c, (struct bb_calibration_parameter){
                                 .variant = variant,
                                 .offset = offsetof(struct bb_cluster, variants[variant]) + variant_members[i].offset,
                                 .kind = variant_members[i].kind,
                                 .by = BB_BY_VARIANT});
        snprintf(p->key, sizeof(p->key), "nccl.%s.%s.%s", bb_nccl_algorithms[v->algorithm], v->protocol,
                 variant_members[i].part);
    }
}

void bb_parameters_init(struct bb_calibration *c)
{
    const bool has[SECTIONS] = {[ALWAYS] = true,
                                [PRESENT] = true,
                                [ACHIEVED] = c->cluster.has_achieved,
                                [VARIANTS] = c->cluster.n_variants > 0,
                                [SHARING] = c->cluster.has_sharing};

    for (size_t i = 0; i < sizeof(scalars) / sizeof(scalars[0]); i++) {
        struct bb_calibration_parameter *p;

        if (!has[scalars[i].section] ||
            (scalars[i].section == PRESENT && read_value(&c->cluster, scalars[i].offset, scalars[i].kind) <= 0))
            continue;
        p = add_parameter(
            c, (struct bb_calibration_parameter){
                   .variant = -1, .offset = scalars[i].offset, .kind = scalars[i].kind, .by = scalars[i].by});
        snprintf(p->key, sizeof(p->key), "%s", scalars[i].key);
    }
    for (int variant = 0; variant < c->cluster.n_variants; variant++)
        add_variant(c, variant);
}

struct bb_calibration_parameter *bb_parameter_of(struct bb_calibration *c, const void *value)
{
    for (int p = 0; p < c->n_parameters; p++)
        if ((const char *)&c->cluster + c->parameters[p].offset == value)
            return &c->parameters[p];
    return NULL;
}

void bb_parameter_try(struct bb_cluster *c, const struct bb_calibration_parameter *parameter, double value)
{
    void *at = (char *)c + parameter->offset;

    if (parameter->kind == BB_INTEGER)
        *(int *)at = (int)value;
    else
        *(double *)at = value;
}

void bb_parameter_set(struct bb_calibration *c, struct bb_calibration_parameter *parameter, double value)
{
    char text[32];

    if (parameter->kind == BB_LATENCY)
        value = bb_cluster_plausible_us(parameter->offset, value);
    if (parameter->kind != BB_INTEGER) {
        snprintf(text, sizeof(text), "%.5g", parameter->kind == BB_RATE ? value : round(value * 1e3) / 1e3);
        value = strtod(text, NULL);
    }
    parameter->value = value;
    parameter->uncertainty_percent = NAN;
    parameter->fit = &c->fits[c->n_fits];
    bb_parameter_try(&c->cluster, parameter, value);
}
