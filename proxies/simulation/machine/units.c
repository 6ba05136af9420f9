/* units.c - warns about values of a profile outside the range of existing machines, which are usually in a wrong
 * unit, about rates of NCCL's variants above those of their links, and about values that a calibration did not measure. */
#include "proxies/simulation/machine/cluster.h"

#include "bootstrap/base/err.h"

#include <stdio.h>
#include <string.h>

/* Plausible ranges of the profile's values: the ranges found on existing GPU machines, widened on both sides. */
static const struct plausible_range {
    const char *key, *unit;
    size_t offset;
    double min, max;
} cluster_ranges[] = {
    {"launch_us", "us", offsetof(struct bb_cluster, launch_us), 0.05, 1000},
    {"nccl_launch_us", "us", offsetof(struct bb_cluster, nccl_launch_us), 0.05, 1000},
    {"kernel_us", "us", offsetof(struct bb_cluster, kernel_us), 0.05, 1000},
    {"memory_gbps", "1e9 bytes/s", offsetof(struct bb_cluster, memory_gbps), 50, 100e3},
    {"memory_bytes", "bytes", offsetof(struct bb_cluster, memory_bytes), 1e9, 10e12},
    {"tflops.float32", "1e12 FLOP/s", offsetof(struct bb_cluster, tflops_float32), 0.5, 5e3},
    {"tflops.float16", "1e12 FLOP/s", offsetof(struct bb_cluster, tflops_float16), 1, 50e3},
    {"tflops.bfloat16", "1e12 FLOP/s", offsetof(struct bb_cluster, tflops_bfloat16), 1, 50e3},
    {"tflops.float8", "1e12 FLOP/s", offsetof(struct bb_cluster, tflops_float8), 10, 100e3},
    {"tflops.float4", "1e12 FLOP/s", offsetof(struct bb_cluster, tflops_float4), 10, 200e3},
    {"achieved.gemm", "fraction of 1", offsetof(struct bb_cluster, achieved.gemm), 0.02, 1.5},
    {"achieved.gemm_float8", "fraction of 1", offsetof(struct bb_cluster, achieved.gemm_float8), 0.02, 1.5},
    {"achieved.attention_forward", "fraction of 1", offsetof(struct bb_cluster, achieved.attention_forward), 0.02, 1.5},
    {"achieved.attention_backward", "fraction of 1", offsetof(struct bb_cluster, achieved.attention_backward), 0.02,
     1.5},
    {"achieved.memory", "fraction of 1", offsetof(struct bb_cluster, achieved.memory), 0.02, 1.5},
    {"intra.latency_us", "us", offsetof(struct bb_cluster, intra.latency_us), 0.05, 1000},
    {"intra.gbps", "1e9 bytes/s", offsetof(struct bb_cluster, intra.gbps), 0.5, 10e3},
    {"inter.latency_us", "us", offsetof(struct bb_cluster, inter.latency_us), 0.05, 1000},
    {"inter.gbps", "1e9 bytes/s", offsetof(struct bb_cluster, inter.gbps), 0.05, 150},
};

static const struct plausible_range variant_ranges[] = {
    {"base_us", "us", offsetof(struct bb_nccl_variant, base_us), 0.05, 1000},
    {"intra_us", "us", offsetof(struct bb_nccl_variant, intra_us), 0.01, 1000},
    {"inter_us", "us", offsetof(struct bb_nccl_variant, inter_us), 0.01, 1000},
    {"gbps", "1e9 bytes/s", offsetof(struct bb_nccl_variant, gbps), 0.5, 10e3},
    {"nic", "fraction of 1", offsetof(struct bb_nccl_variant, nic), 0.01, 1.5},
    {"chunk_us", "us", offsetof(struct bb_nccl_variant, chunk_us), 0.01, 1000},
};

double bb_cluster_plausible_us(size_t offset, double us)
{
    const size_t first = offsetof(struct bb_cluster, variants), size = sizeof(struct bb_nccl_variant);
    const bool of_variant = offset >= first && offset < first + BB_NCCL_VARIANTS * size;
    const struct plausible_range *ranges = of_variant ? variant_ranges : cluster_ranges;
    const size_t n = of_variant ? sizeof(variant_ranges) / sizeof(*ranges) : sizeof(cluster_ranges) / sizeof(*ranges);

    for (size_t i = 0; i < n; i++)
        if (ranges[i].offset == (of_variant ? (offset - first) % size : offset) && strcmp(ranges[i].unit, "us") == 0 &&
            us < ranges[i].min)
            return us < ranges[i].min / 2 ? 0 : ranges[i].min;
    return us;
}

/* Returns the value if it is outside its plausible range, else 0, which is always valid: no cost, or not part of the
 * profile. at: the struct that contains the value. */
static double unusual(const struct plausible_range *f, const void *at)
{
    const double value = *(const double *)(const void *)((const char *)at + f->offset);

    return value <= 0 || (value >= f->min && value <= f->max) ? 0 : value;
}

/* Returns whether the warning about the link of a variant's value is enough. */
static bool is_of_unusual_link(const struct bb_cluster *c, const struct plausible_range *f)
{
    static const char *const links[][2] = {
        /* key of a variant, and that of the link, which it follows (bb_profile_change) */
        {"gbps", "intra.gbps"},
        {"intra_us", "intra.latency_us"},
        {"inter_us", "inter.latency_us"}};

    for (size_t k = 0; k < sizeof(links) / sizeof(links[0]); k++)
        for (size_t i = 0; i < sizeof(cluster_ranges) / sizeof(cluster_ranges[0]); i++)
            if (strcmp(f->key, links[k][0]) == 0 && strcmp(cluster_ranges[i].key, links[k][1]) == 0)
                return unusual(&cluster_ranges[i], c) > 0;
    return false;
}

/* Prints a warning if the value is outside its plausible range. of: prefix of the JSON key, for the message. at: the
 * struct that contains the value. Returns whether it printed. */
static bool warn_if_unusual(const struct bb_cluster *c, const char *of, const struct plausible_range *f, const void *at)
{
    const double value = unusual(f, at);
    char meant[64] = "";

    if (value == 0 || is_of_unusual_link(c, f))
        return false;
    if (strcmp(f->key, "inter.gbps") == 0 && value > f->max && value / 8 <= f->max)
        snprintf(meant, sizeof(meant), "; did you mean %g (%g Gbit/s)?", value / 8, value);
    bb_warn("cluster '%s': '%s%s' is %g, plausible for %s: %g to %g; expected unit: %s%s", c->name, of, f->key, value,
            strncmp(f->key, "inter.", 6) == 0 ? "NICs" : "GPUs", f->min, f->max, f->unit, meant);
    return true;
}

/* The raw rate of NVLink is 1.36 (B200: 900 of 660 GB/s) to 1.54 times (A100: 300 of 195) the rate of sends and receives, which
 * is intra.gbps. Where switches reduce (NVLS), a GPU of eight sends (1 + 1/8) S, of which the bus bandwidth counts 14/8 S. */
#define MAX_LINK_FACTOR 1.55
static double max_bus_gbps(const struct bb_cluster *c, enum bb_nccl_algorithm algorithm)
{
    const bool by_switch = algorithm != BB_NCCL_RING && algorithm != BB_NCCL_TREE && algorithm != BB_NCCL_PAT;

    return MAX_LINK_FACTOR * c->intra.gbps * (by_switch ? 14.0 / 9 : 1);
}

/* Prints a warning for the variant of NCCL whose rate exceeds that of the links most; both rates of a calibrated profile were
 * measured. */
static void warn_if_above_link(const struct bb_cluster *c)
{
    const struct bb_nccl_variant *worst = NULL;
    double factor = 1;

    for (int w = 0; w < c->n_variants && !c->is_calibrated; w++) {
        const double above = c->variants[w].gbps / max_bus_gbps(c, c->variants[w].algorithm);

        if (above > factor) {
            worst = &c->variants[w];
            factor = above;
        }
    }
    if (worst)
        bb_warn("cluster '%s': 'nccl.%s.%s.gbps' is %g, but links of %g GB/s ('intra.gbps', the rate of sends and "
                "receives) carry at most %.4g; to change both: --set intra.gbps=%g of a shipped profile, or its name "
                "as \"base\"",
                c->name, bb_nccl_algorithms[worst->algorithm], worst->protocol, worst->gbps, c->intra.gbps,
                max_bus_gbps(c, worst->algorithm), c->intra.gbps);
}

void bb_cluster_warn_units(const struct bb_cluster *c)
{
    char variant[64];
    bool warned = false;

    for (size_t i = 0; i < sizeof(cluster_ranges) / sizeof(cluster_ranges[0]); i++)
        warned |= warn_if_unusual(c, "", &cluster_ranges[i], c);
    for (int w = 0; w < c->n_variants; w++) {
        snprintf(variant, sizeof(variant), "nccl.%s.%s.", bb_nccl_algorithms[c->variants[w].algorithm],
                 c->variants[w].protocol);
        for (size_t i = 0; i < sizeof(variant_ranges) / sizeof(variant_ranges[0]); i++)
            warned |= warn_if_unusual(c, variant, &variant_ranges[i], &c->variants[w]);
    }
    if (!warned)
        warn_if_above_link(c);
}

const char *bb_cluster_unmeasured(const struct bb_cluster *c, bool (*is_used)[2], bool inter,
                                  char names[BB_UNMEASURED_TEXT])
{
    const char *from = NULL;

    names[0] = '\0';
    for (int v = 0; v <= BB_NCCL_VARIANTS; v++) {
        const bool message = v == BB_NCCL_VARIANTS;
        const char *const of = message ? c->link_from[inter] : c->variant_from[v][inter];
        const size_t length = strlen(names);

        if (!is_used[v][inter] || !*of)
            continue;
        from = of;
        snprintf(names + length, BB_UNMEASURED_TEXT - length, "%s%s%s%s%s", length ? ", " : "",
                 message ? "sends and receives" : bb_nccl_algorithms[c->variants[v].algorithm], message ? "" : " ",
                 message ? "" : c->variants[v].protocol, inter ? " between nodes" : " within a node");
    }
    return from;
}

static void warn_unmeasured(const struct bb_cluster *c, bool (*is_used)[2], bool inter)
{
    char names[BB_UNMEASURED_TEXT];
    const char *const from = bb_cluster_unmeasured(c, is_used, inter, names);

    if (from)
        bb_warn("%s has no measurements that determine %s; this prediction uses the values of %s", c->name, names,
                from);
}

void bb_cluster_warn_unmeasured(const struct bb_cluster *c, bool (*is_used)[2])
{
    warn_unmeasured(c, is_used, false);
    warn_unmeasured(c, is_used, true);
}
