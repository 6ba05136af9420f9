/* cluster.c - reads cluster profiles, and computes launch times, message times and the placement of ranks on nodes
 * and NICs (see cluster.h). */
#include "proxies/simulation/machine/cluster.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "proxies/form/models/profile.h"
#include "proxies/simulation/machine/fabric.h"
#include "proxies/simulation/machine/software.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

/* ---- reading a profile ---- */

#define KEY_TEXT     64
#define MISSING_TEXT 1024 /* for all required keys */

#define AT(member)           offsetof(struct bb_cluster, member)
#define INTEGER(key, member) BB_FIELD(key, BB_JSON_WHOLE, AT(member), .min = 1, .max = 1e9)
/* Limits of the values in a profile. Within these limits all durations fit into 64-bit nanoseconds. */
#define MAX_US                          1e7
#define MAX_CHUNK_US                    1e3
#define MAX_CHANNELS                    1024
#define MIN_RATE                        1e-3
#define MAX_RATE                        1e9
#define LIMITED(key, member, low, high) BB_FIELD(key, BB_JSON_NUMBER, AT(member), .min = low, .max = high)
#define NUMBER(key, member, low)        LIMITED(key, member, low, MAX_RATE)
#define TIME(key, member)               LIMITED(key, member, 0, MAX_US)
#define OPTIONAL_TIME(key, member)      BB_FIELD(key, BB_JSON_NUMBER, AT(member), .min = 0, .max = MAX_US, .optional = true)
#define RATE(key, member)               LIMITED(key, member, MIN_RATE, MAX_RATE)
#define OPTIONAL(key, member, low, high)                                                                               \
    BB_FIELD(key, BB_JSON_NUMBER, AT(member), .min = low, .max = high, .optional = true)
#define PART(key, member) LIMITED(key, member, BB_MIN_PART, BB_MAX_PART)

#define OPTIONAL_INTEGER(key, member) BB_FIELD(key, BB_JSON_WHOLE, AT(member), .min = 1, .max = 1e9, .optional = true)

static const struct bb_json_field fields[] = {INTEGER("gpus_per_node", gpus_per_node),
                                              OPTIONAL_INTEGER("domain_gpus", domain_gpus),
                                              OPTIONAL_INTEGER("host_gpus", host_gpus),
                                              INTEGER("sm_count", sm_count),
                                              INTEGER("clock_khz", clock_khz),
                                              BB_FIELD("emulated", BB_JSON_ANY, 0),
                                              BB_FIELD("doubtful", BB_JSON_ANY, 0),
                                              TIME("launch_us", launch_us),
                                              TIME("nccl_launch_us", nccl_launch_us),
                                              TIME("kernel_us", kernel_us),
                                              RATE("memory_gbps", memory_gbps),
                                              LIMITED("memory_bytes", memory_bytes, 1, 1e18),
                                              RATE("tflops.float32", tflops_float32),
                                              RATE("tflops.float16", tflops_float16),
                                              RATE("tflops.bfloat16", tflops_bfloat16),
                                              NUMBER("tflops.float64", tflops_float64, 0),
                                              TIME("intra.latency_us", intra.latency_us),
                                              RATE("intra.gbps", intra.gbps),
                                              BB_FIELD("intra.from", BB_JSON_ANY, 0),
                                              BB_FIELD("inter.from", BB_JSON_ANY, 0),
                                              TIME("inter.latency_us", inter.latency_us),
                                              RATE("inter.gbps", inter.gbps),
                                              OPTIONAL_TIME("inter.group_us", inter.group_us),
                                              OPTIONAL_TIME("inter.message_us", inter.message_us),
                                              BB_FIELD("transport", BB_JSON_ANY, 0),
                                              BB_FIELD("generation", BB_JSON_ANY, 0),
                                              BB_FIELD("tflops.float8", BB_JSON_ANY, 0),
                                              OPTIONAL("tflops.float4", tflops_float4, 0, MAX_RATE),
                                              BB_FIELD("achieved", BB_JSON_ANY, 0),
                                              BB_FIELD("nccl", BB_JSON_ANY, 0),
                                              BB_FIELD("nics_per_node", BB_JSON_ANY, 0),
                                              OPTIONAL("collective_min_us", collective_min_us, 0, MAX_US),
                                              OPTIONAL("pcie_gbps", pcie_gbps, MIN_RATE, MAX_RATE),
                                              OPTIONAL("peer_gbps", peer_gbps, MIN_RATE, MAX_RATE),
                                              BB_FIELD("sharing", BB_JSON_ANY, 0),
                                              BB_FIELD("host", BB_JSON_ANY, 0),
                                              BB_FIELD("fabric", BB_JSON_ANY, 0),
                                              BB_FIELD("measured", BB_JSON_ANY, 0),
                                              BB_FIELD("left_out", BB_JSON_ANY, 0),
                                              BB_FIELD("name", BB_JSON_ANY, 0),
                                              BB_FIELD("description", BB_JSON_ANY, 0),
                                              BB_FIELD("source", BB_JSON_ANY, 0),
                                              {0}};

/* Returns whether the profile has the key at this path, such as "intra.gbps". */
static bool has_key(const json_t *root, const char *path)
{
    char name[KEY_TEXT];

    for (const char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        snprintf(name, sizeof(name), "%.*s", (int)(dot - path), path);
        root = json_object_get(root, name);
    }
    return json_object_get(root, path);
}

/* Rejects a profile without required keys, and names them all. The alpha-beta model has no NICs. */
static int reject_missing(const json_t *root, const char *name_or_path)
{
    char missing[MISSING_TEXT] = "";
    size_t used = 0;

    for (const struct bb_json_field *f = fields; f->key; f++) {
        const bool is_required = (f->kind != BB_JSON_ANY && !f->optional) || strcmp(f->key, "name") == 0 ||
                                 (strcmp(f->key, "nccl") == 0 && has_key(root, "nics_per_node")) ||
                                 (strcmp(f->key, "nics_per_node") == 0 && has_key(root, "nccl"));

        if (is_required && !has_key(root, f->key))
            used += (size_t)snprintf(missing + used, sizeof(missing) - used, "%s%s", used ? ", " : "", f->key);
    }
    return used == 0 ? 0
                     : bb_err(BB_EUSAGE,
                              "%s: keys are missing: %s; to take them from another profile of `busbar list clusters`, "
                              "for example: \"base\": \"h100-sxm-ib\"",
                              name_or_path, missing);
}

/* Reads an optional section (JSON object) of a profile; *is_there is set to whether the profile contains the
 * section. If it does, all its keys are required. */
static int read_section(const json_t *root, const char *name_or_path, const char *key,
                        const struct bb_json_field *of_it, struct bb_cluster *c, bool *is_there)
{
    const json_t *section = json_object_get(root, key);
    int rc;

    *is_there = section != NULL;
    if (!section)
        return 0;
    TRY(bb_json_reject_unknown(section, name_or_path, of_it, key));
    TRY(bb_json_read(root, name_or_path, of_it, c));
out:
    return rc;
}

/* Section "achieved". Without this section every kernel reaches the peak rates of the GPU's data sheet. */
static const struct bb_json_field achieved_fields[] = {NUMBER("tflops.float8", tflops_float8, 0),
                                                       PART("achieved.gemm", achieved.gemm),
                                                       PART("achieved.gemm_float8", achieved.gemm_float8),
                                                       PART("achieved.attention_forward", achieved.attention_forward),
                                                       PART("achieved.attention_backward", achieved.attention_backward),
                                                       PART("achieved.memory", achieved.memory),
                                                       BB_FIELD("achieved.fuses_dropout", BB_JSON_ANY, 0),
                                                       {0}};

static int read_achieved(const json_t *root, const char *name_or_path, struct bb_cluster *c)
{
    const json_t *fuses = json_object_get(json_object_get(root, "achieved"), "fuses_dropout");
    int rc;

    TRY(read_section(root, name_or_path, "achieved", achieved_fields, c, &c->has_achieved));
    if (c->has_achieved && !json_is_boolean(fuses))
        return bb_err(BB_EUSAGE, "%s: 'achieved.fuses_dropout' is missing or not a boolean, expected true or false",
                      name_or_path);
    c->achieved.fuses_dropout = json_is_true(fuses);
out:
    return rc;
}

/* Section "host". Without this section the host time of a training step consists of launches only. */
static const struct bb_json_field host_fields[] = {
    TIME("host.op_us", host.op_us), TIME("host.expert_us", host.expert_us), {0}};

/* Section "left_out" of calibrated profiles. */
#define LEFT_OUT(name, kind)                                                                                           \
    BB_FIELD("left_out." name "_rows", BB_JSON_WHOLE, AT(left_out[kind].rows), .max = 1e9),                            \
        LIMITED("left_out." name "_median_percent", left_out[kind].median_percent, 0, 1e9),                            \
        LIMITED("left_out." name "_p90_percent", left_out[kind].p90_percent, 0, 1e9),                                  \
        BB_FIELD("left_out." name "_outliers", BB_JSON_WHOLE, AT(left_out[kind].outliers), .max = 1e9,                 \
                 .optional = true)
static const struct bb_json_field left_out_fields[] = {
    LEFT_OUT("size", BB_LEFT_OUT_SIZES), LEFT_OUT("collective", BB_LEFT_OUT_COLLECTIVES), {0}};

/* Section "sharing". Without this section concurrent operations do not slow each other down. */
static const struct bb_json_field sharing_fields[] = {INTEGER("sharing.collective_sms", sharing.collective_sms),
                                                      INTEGER("sharing.message_sms", sharing.message_sms),
                                                      LIMITED("sharing.memory_bytes", sharing.memory_bytes, 0, 1e3),
                                                      {0}};

static int read_sharing(const json_t *root, const char *name_or_path, struct bb_cluster *c)
{
    int rc;

    TRY(read_section(root, name_or_path, "sharing", sharing_fields, c, &c->has_sharing));
    if (c->sharing.collective_sms >= c->sm_count || c->sharing.message_sms >= c->sm_count)
        return bb_err(
            BB_EUSAGE,
            "%s: 'sharing.collective_sms' is %d and 'sharing.message_sms' %d, both must be less than 'sm_count', %d",
            name_or_path, c->sharing.collective_sms, c->sharing.message_sms, c->sm_count);
out:
    return rc;
}

/* ---- variants of NCCL: algorithm + protocol ---- */

const char *const bb_nccl_algorithms[BB_NCCL_ALGORITHMS + 1] = {"ring", "tree",           "nvls",          "nvls_tree",
                                                                "pat",  "collnet_direct", "collnet_chain", NULL};

#define VARIANT(key, kind, low, high, ...)                                                                             \
    BB_FIELD(#key, kind, offsetof(struct bb_nccl_variant, key), .min = low, .max = high, __VA_ARGS__)

static int reject_key(const char *name_or_path, const char *key, const struct bb_nccl_variant *variant, const char *of)
{
    return bb_err(BB_EUSAGE, "%s: '%s' does not apply to algorithm '%s', expected only with %s", name_or_path, key,
                  bb_nccl_algorithms[variant->algorithm], of);
}

/* Rejects chunk_us and channels of an algorithm that does not use them. Without chunk_us, the modeled bandwidth of NVLS does
 * not depend on the message size. */
static int check_keys(const json_t *row, const char *name_or_path, const struct bb_nccl_variant *variant)
{
    const bool nvls = variant->algorithm == BB_NCCL_NVLS || variant->algorithm == BB_NCCL_NVLS_TREE;

    if (json_object_get(row, "chunk_us") && !nvls)
        return reject_key(name_or_path, "chunk_us", variant, "'nvls' and 'nvls_tree'");
    if (json_object_get(row, "channels") && !nvls && variant->algorithm != BB_NCCL_RING)
        return reject_key(name_or_path, "channels", variant, "'ring', 'nvls' and 'nvls_tree'");
    return 0;
}

static int read_variant(const json_t *row, const char *name_or_path, struct bb_nccl_variant *variant)
{
    static const struct bb_json_field variant_fields[] = {
        VARIANT(base_us, BB_JSON_NUMBER, 0, MAX_US),
        VARIANT(intra_us, BB_JSON_NUMBER, 0, MAX_US),
        VARIANT(inter_us, BB_JSON_NUMBER, 0, MAX_US),
        VARIANT(gbps, BB_JSON_NUMBER, MIN_RATE, MAX_RATE),
        VARIANT(nic, BB_JSON_NUMBER, BB_MIN_PART, BB_MAX_PART),
        VARIANT(chunk_us, BB_JSON_NUMBER, 0, MAX_CHUNK_US, .optional = true),
        VARIANT(channels, BB_JSON_WHOLE, 1, MAX_CHANNELS, .optional = true),
        VARIANT(sustained, BB_JSON_NUMBER, BB_MIN_PART, 1, .optional = true),
        VARIANT(max_nics, BB_JSON_WHOLE, 1, MAX_CHANNELS, .optional = true),
        BB_FIELD("algorithm", BB_JSON_ANY, 0),
        BB_FIELD("protocol", BB_JSON_ANY, 0),
        BB_FIELD("from", BB_JSON_ANY, 0),
        BB_FIELD("inter_from", BB_JSON_ANY, 0),
        VARIANT(min_bytes, BB_JSON_WHOLE, 1, INT_MAX, .optional = true),
        {0}};
    const char *algorithm, *protocol;
    int rc, index = 0;

    TRY(bb_json_text_at(row, "algorithm", name_or_path, &algorithm));
    TRY(bb_json_text_at(row, "protocol", name_or_path, &protocol));
    while (bb_nccl_algorithms[index] && strcmp(bb_nccl_algorithms[index], algorithm) != 0)
        index++;
    if (!bb_nccl_algorithms[index])
        return bb_reject_unknown("nccl.algorithm", algorithm, bb_nccl_algorithms, BB_NCCL_ALGORITHMS);
    variant->algorithm = (enum bb_nccl_algorithm)index;
    snprintf(variant->protocol, sizeof(variant->protocol), "%s", protocol);
    TRY(bb_json_reject_unknown(row, name_or_path, variant_fields, ""));
    TRY(check_keys(row, name_or_path, variant));
    TRY(bb_json_read(row, name_or_path, variant_fields, variant));
out:
    return rc;
}

/* Reads the optional key of a calibrated profile that names the origin of values that were not measured. */
static void read_origin(const json_t *object, const char *key, char from[BB_ORIGIN_TEXT])
{
    const char *text = json_string_value(json_object_get(object, key));

    snprintf(from, BB_ORIGIN_TEXT, "%s", text ? text : "");
}

static int read_nccl(const json_t *root, const char *name_or_path, struct bb_cluster *c)
{
    static const struct bb_json_field nics = INTEGER("nics_per_node", nics_per_node);
    const json_t *list;
    int rc, channels = 0;
    bool has_ring = false;

    if (!json_object_get(root, "nccl"))
        return 0;
    TRY(bb_json_read_field(root, name_or_path, &nics, c));
    TRY(bb_json_list_at(root, "nccl", name_or_path, -BB_NCCL_VARIANTS, &list, &c->n_variants));
    for (int i = 0; i < c->n_variants; i++) {
        const json_t *row = json_array_get(list, (size_t)i);

        TRY(read_variant(row, name_or_path, &c->variants[i]));
        read_origin(row, "from", c->variant_from[i][0]);
        read_origin(row, "inter_from", c->variant_from[i][1]);
        if (c->variants[i].algorithm == BB_NCCL_RING && channels == 0)
            channels = c->variants[i].channels;
        has_ring |= c->variants[i].algorithm == BB_NCCL_RING;
    }
    for (int i = 0; i < c->n_variants; i++)
        if (c->variants[i].algorithm == BB_NCCL_TREE)
            c->variants[i].channels = channels;
    if (!has_ring) /* the only algorithm that supports all collectives */
        rc = bb_err(BB_EUSAGE, "%s: 'nccl' has no variant of algorithm 'ring', expected at least one", name_or_path);
out:
    return rc;
}

/* Reads the optional list of the variants that NCCL chose, "ring LL" for example; other texts are no variants. */
static void read_choices(const json_t *list, const struct bb_cluster *c, struct bb_measured_curve *curve)
{
    for (int i = 0; i < curve->n; i++)
        for (int v = 0; v < c->n_variants; v++) {
            const char *text = json_string_value(json_array_get(list, (size_t)i));
            char name[BB_ORIGIN_TEXT];

            snprintf(name, sizeof(name), "%s %s", bb_nccl_algorithms[c->variants[v].algorithm],
                     c->variants[v].protocol);
            if (text && strcmp(text, name) == 0)
                curve->variant[i] = v + 1;
        }
}

static int read_curve(const json_t *row, const char *name_or_path, struct bb_measured_curve *curve)
{
    static const struct bb_json_field curve_fields[] = {
        BB_FIELD("ranks", BB_JSON_WHOLE, offsetof(struct bb_measured_curve, ranks), .min = 1, .max = 1e9),
        BB_FIELD("nodes", BB_JSON_WHOLE, offsetof(struct bb_measured_curve, nodes), .min = 1, .max = 1e9),
        BB_FIELD("min_bytes", BB_JSON_NUMBER, offsetof(struct bb_measured_curve, min_bytes), .optional = true),
        BB_FIELD("max_bytes", BB_JSON_NUMBER, offsetof(struct bb_measured_curve, max_bytes), .optional = true),
        BB_FIELD("collective", BB_JSON_ANY, 0),
        BB_FIELD("bytes", BB_JSON_ANY, 0),
        BB_FIELD("factor", BB_JSON_ANY, 0),
        BB_FIELD("choice", BB_JSON_ANY, 0, .optional = true),
        {0}};
    const json_t *list;
    const char *name;
    int rc, kind;

    TRY(bb_json_reject_unknown(row, name_or_path, curve_fields, ""));
    TRY(bb_json_read(row, name_or_path, curve_fields, curve));
    TRY(bb_json_text_at(row, "collective", name_or_path, &name));
    TRY(bb_json_list_at(row, "bytes", name_or_path, -BB_MEASURED_SIZES, &list, &curve->n));
    TRY(bb_json_numbers_at(row, "bytes", name_or_path, curve->n, curve->bytes));
    TRY(bb_json_numbers_at(row, "factor", name_or_path, curve->n, curve->factor));
    kind = bb_coll_find(name);
    for (int i = 0; i < curve->n; i++)
        if (kind < 0 || curve->bytes[i] <= (i > 0 ? curve->bytes[i - 1] : 0) || curve->factor[i] < BB_MIN_PART ||
            curve->factor[i] > BB_MAX_PART)
            return bb_err(BB_EUSAGE,
                          "%s: 'measured' of '%s' is not as busbar calibrate writes it, expected ascending "
                          "bytes of a collective and factors of %g to %d",
                          name_or_path, name, BB_MIN_PART, BB_MAX_PART);
    curve->kind = (enum bb_coll_kind)kind;
out:
    return rc;
}

static int read_measured(const json_t *root, const char *name_or_path, struct bb_cluster *c)
{
    const json_t *list;
    int rc;

    if (!json_object_get(root, "measured"))
        return 0;
    TRY(bb_json_list_at(root, "measured", name_or_path, -BB_MEASURED_CURVES, &list, &c->n_measured));
    for (int i = 0; i < c->n_measured; i++)
        TRY(read_curve(json_array_get(list, (size_t)i), name_or_path, &c->measured[i]));
    for (int i = 0; i < c->n_measured; i++)
        read_choices(json_object_get(json_array_get(list, (size_t)i), "choice"), c, &c->measured[i]);
out:
    return rc;
}

/* A node is an NVLink domain, of which a job uses gpus_per_node GPUs. */
static int check_domain(const char *name_or_path, const struct bb_cluster *c)
{
    if (c->domain_gpus > 0 && c->gpus_per_node > c->domain_gpus)
        return bb_err(BB_EUSAGE, "%s: 'gpus_per_node' is %d, expected at most 'domain_gpus', %d", name_or_path,
                      c->gpus_per_node, c->domain_gpus);
    if (c->host_gpus > 0 && c->domain_gpus == 0)
        return bb_err(BB_EUSAGE, "%s: 'host_gpus' requires 'domain_gpus'", name_or_path);
    return c->host_gpus <= c->domain_gpus
               ? 0
               : bb_err(BB_EUSAGE, "%s: 'host_gpus' is %d, expected at most 'domain_gpus', %d", name_or_path,
                        c->host_gpus, c->domain_gpus);
}

static int read_generation(const json_t *root, const char *name_or_path, struct bb_cluster *c)
{
    const json_t *value = json_object_get(root, "generation");
    const char *name = json_string_value(value);

    while (name && c->generation < BB_GPU_GENERATIONS && strcmp(bb_gpu_generations[c->generation], name) != 0)
        c->generation++;
    if (value && (!name || c->generation == BB_GPU_GENERATIONS)) {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        const int rc = bb_err(BB_EUSAGE, "%s: 'generation' is %s, expected \"Ampere\", \"Hopper\" or \"Blackwell\"",
                              name_or_path, text ? text : "not valid");

        free(text);
        return rc;
    }
    c->generation = value ? c->generation + 1 : 0;
    return 0;
}

static int read_profile(const json_t *root, const char *name_or_path, struct bb_cluster *cluster)
{
    const char *name, *doubtful = json_string_value(json_object_get(root, "doubtful"));
    const char *transport = json_string_value(json_object_get(root, "transport"));
    int rc;

    *cluster = (struct bb_cluster){.gpus_per_node = 1};
    TRY(bb_json_reject_unknown(root, name_or_path, fields, ""));
    TRY(reject_missing(root, name_or_path));
    TRY(bb_json_text_at(root, "name", name_or_path, &name));
    snprintf(cluster->name, sizeof(cluster->name), "%.50s%s%s%.60s%s", name,
             json_is_true(json_object_get(root, "emulated")) ? " (emulated)" : "",
             doubtful ? " (DOES NOT HOLD for " : "", doubtful ? doubtful : "", doubtful ? ")" : "");
    snprintf(cluster->transport, sizeof(cluster->transport), "%s", transport ? transport : "");
    TRY(bb_json_read(root, name_or_path, fields, cluster));
    TRY(check_domain(name_or_path, cluster));
    TRY(read_generation(root, name_or_path, cluster));
    TRY(read_achieved(root, name_or_path, cluster));
    TRY(read_nccl(root, name_or_path, cluster));
    read_origin(json_object_get(root, "intra"), "from", cluster->link_from[0]);
    read_origin(json_object_get(root, "inter"), "from", cluster->link_from[1]);
    TRY(read_measured(root, name_or_path, cluster));
    TRY(read_section(root, name_or_path, "left_out", left_out_fields, cluster, &cluster->is_calibrated));
    TRY(read_section(root, name_or_path, "host", host_fields, cluster, &cluster->has_host));
    TRY(read_sharing(root, name_or_path, cluster));
    TRY(bb_fabric_read(root, name_or_path, cluster));
out:
    return rc;
}

int bb_cluster_check(const json_t *root, const char *where)
{
    struct bb_cluster *cluster;
    int rc;

    BB_NEW(cluster, 1);
    rc = read_profile(root, where, cluster);
    free(cluster);
    return rc;
}

int bb_cluster_load(const char *name_or_path, struct bb_cluster *cluster)
{
    return bb_cluster_load_changed(name_or_path, NULL, cluster);
}

/* ---- changes of a profile: --set ---- */

/* Returns the element of the list "nccl" that the path "ALGORITHM.PROTOCOL.KEY" begins with, and sets *path to KEY; NULL
 * if there is none. */
static json_t *find_variant(json_t *list, const char **path)
{
    json_t *variant;
    size_t i;

    json_array_foreach(list, i, variant)
    {
        const char *texts[] = {json_string_value(json_object_get(variant, "algorithm")),
                               json_string_value(json_object_get(variant, "protocol"))};
        const char *at = *path;

        for (int t = 0; t < 2 && at; t++) {
            const size_t n = texts[t] ? strlen(texts[t]) : 0;

            at = n > 0 && strncmp(at, texts[t], n) == 0 && at[n] == '.' ? at + n + 1 : NULL;
        }
        if (at) {
            *path = at;
            return variant;
        }
    }
    return NULL;
}

/* Returns the element of the list `name` of `changes` for a variant of the profile, which `path` begins with; adds it if there is
 * none. */
static json_t *find_changed_variant(json_t *changes, const char *name, const json_t *variant, const char *path)
{
    json_t *list = json_object_get(changes, name), *changed;

    if (!list)
        json_object_set_new(changes, name, list = json_array());
    if (!json_is_array(list))
        return NULL;
    changed = find_variant(list, &path);
    if (changed)
        return changed;
    changed = json_pack("{s:O, s:O}", "algorithm", json_object_get(variant, "algorithm"), "protocol",
                        json_object_get(variant, "protocol"));
    json_array_append_new(list, changed);
    return changed;
}

/* Returns the object of `changes` for the last key of the path; adds what is missing. NULL if the path leads through another
 * value of the profile or of `changes`. *profile: in: the profile; out: its object with the last key; NULL: none. *path: in: the
 * path; out: its last key. */
static json_t *find_parent(json_t *changes, const json_t **profile, const char **path)
{
    json_t *parent = changes;

    for (const char *dot; json_is_object(parent) && (dot = strchr(*path, '.'));) {
        char *name = bb_format("%.*s", (int)(dot - *path), *path);
        json_t *old = json_object_get(*profile, name), *inner = json_object_get(parent, name);

        *path = dot + 1;
        if (json_is_array(old)) {
            *profile = find_variant(old, path);
            parent = *profile ? find_changed_variant(parent, name, *profile, dot + 1) : NULL;
        } else {
            if (!inner)
                json_object_set_new(parent, name, inner = json_object());
            *profile = old;
            parent = old && !json_is_object(old) ? NULL : inner;
        }
        free(name);
    }
    return json_is_object(parent) ? parent : NULL;
}

static bool is_utf8(const char *text)
{
    json_t *value = json_string(text);
    const bool is_valid = value != NULL;

    json_decref(value);
    return is_valid;
}

static int reject_path(const char *path)
{
    const bool is_variant = strncmp(path, "nccl.", 5) == 0;
    char names[200] = "";

    for (int i = 0; is_variant && i < BB_NCCL_ALGORITHMS; i++)
        snprintf(names + strlen(names), sizeof(names) - strlen(names), " %s", bb_nccl_algorithms[i]);
    return bb_err(BB_EUSAGE, "--set: the profile has no key '%s'%s%s", path,
                  is_variant ? ", expected nccl.ALGORITHM.PROTOCOL.KEY with an algorithm of:" : "", names);
}

/* Adds KEY=VALUE of --set to `changes`; a transport changes the profile at once. */
static int add_change(json_t *root, json_t *changes, const char *change)
{
    const char *equals = strchr(change, '='), *key;
    const json_t *old = root;
    json_t *parent, *value;
    char *path;
    int rc = 0;

    if (!equals || equals == change || !equals[1])
        return bb_err(BB_EUSAGE, "--set: '%s' is not valid, expected KEY=VALUE; try: --set inter.gbps=97", change);
    if (!is_utf8(change))
        return bb_err(BB_EUSAGE, "--set: '%s' is not valid UTF-8", change);
    path = bb_format("%.*s", (int)(equals - change), change);
    key = path;
    value = json_loads(equals + 1, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    value = value ? value : json_string(equals + 1);
    bb_json_blank(value);
    parent = find_parent(changes, &old, &key);
    if (parent && json_is_string(value) && json_is_number(json_object_get(old, key)))
        rc = bb_err(BB_EUSAGE, "--set %s: '%s' is not a number, expected one without unit (%s); the profile has %g",
                    path, equals + 1,
                    strcmp(key, "memory_bytes") == 0 ? "bytes: for example 40e9" : "rates: GB/s; 400 Gbit/s are 50",
                    json_number_value(json_object_get(old, key)));
    else if (parent == changes && strcmp(key, "transport") == 0)
        rc = bb_profile_set_transport(root, equals + 1);
    else if (parent)
        json_object_set(parent, key, value);
    else
        rc = reject_path(path);
    json_decref(value);
    free(path);
    return rc;
}

/* Appends the changes to the cluster's name: as many as fit before " and 12 more", and the number of the others. */
static void append_changes(const struct bb_opt_texts *changes, struct bb_cluster *cluster)
{
    enum { MORE = sizeof(" and 2147483647 more") - 1 };
    size_t used = strlen(cluster->name);

    for (int i = 0; i < changes->n; i++) {
        const char *before = i ? ", " : " with ";
        size_t length = strlen(before) + strlen(changes->text[i]);
        size_t needed = used + length + (i + 1 < changes->n ? MORE : 0);

        if (needed >= sizeof(cluster->name)) {
            snprintf(cluster->name + used, sizeof(cluster->name) - used,
                     i ? " and %d more" : " with %d changes (--set)", changes->n - i);
            return;
        }
        used += (size_t)snprintf(cluster->name + used, sizeof(cluster->name) - used, "%s%s", before, changes->text[i]);
    }
}

static int change_cluster(json_t *root, const char *name_or_path, const struct bb_opt_texts *changes,
                          struct bb_cluster *cluster)
{
    json_t *before = json_deep_copy(root), *changed = json_object();
    char *where = bb_format("--set: %s", name_or_path);
    int rc = 0;

    for (int i = 0; i < changes->n; i++)
        TRY(add_change(root, changed, changes->text[i]));
    TRY(bb_profile_change(root, changed, where));
    TRY(read_profile(root, where, cluster));
    bb_profile_warn_of_nics(before, root, changed, NULL);
    append_changes(changes, cluster);
    cluster->is_changed = changes->n > 0;
out:
    json_decref(before);
    json_decref(changed);
    free(where);
    return rc;
}

/* The alpha-beta model takes the bandwidth between nodes per GPU. */
static void warn_of_alpha_beta(const struct bb_cluster *c, const char *name_or_path)
{
    if (c->n_variants == 0 && c->gpus_per_node > 1 && c->inter.gbps > c->intra.gbps)
        bb_warn(
            "%s: inter.gbps is %g, above intra.gbps, %g: without 'nccl' and 'nics_per_node' it is the rate of a GPU, "
            "so collectives on several nodes are faster than on one; for the values of another profile: \"base\": "
            "\"h100-sxm-ib\"",
            name_or_path, c->inter.gbps, c->intra.gbps);
}

/* Returns the warnings about the profile that apply with the changes, too. */
static unsigned remaining_warnings(const struct bb_opt_texts *changes)
{
    unsigned warnings = BB_WARN_OF_TRANSPORT | BB_WARN_OF_GENERATION;

    for (int i = 0; changes && i < changes->n; i++)
        warnings &= bb_begins_with(changes->text[i], "transport=")    ? ~(unsigned)BB_WARN_OF_TRANSPORT
                    : bb_begins_with(changes->text[i], "generation=") ? ~(unsigned)BB_WARN_OF_GENERATION
                                                                      : ~0u;
    return warnings;
}

int bb_cluster_load_changed(const char *name_or_path, const struct bb_opt_texts *changes, struct bb_cluster *cluster)
{
    json_t *root;
    int rc = bb_profile_load_cluster(name_or_path, remaining_warnings(changes), &root);
    bool is_shipped;

    if (rc)
        return rc;
    is_shipped = bb_profile_is_shipped_cluster(name_or_path, root);
    TRY(read_profile(root, name_or_path, cluster));
    if (changes && changes->n > 0)
        TRY(change_cluster(root, name_or_path, changes, cluster));
    cluster->is_own = !is_shipped;
    warn_of_alpha_beta(cluster, name_or_path);
out:
    json_decref(root);
    return rc;
}

void bb_cluster_set_gpus_per_node(struct bb_cluster *c, int gpus)
{
    const double all = c->nics_per_node + c->fabric.unused_nics;

    if (c->n_variants > 0) {
        c->nics_per_node = (int)(((int64_t)gpus * c->nics_per_node + c->gpus_per_node - 1) / c->gpus_per_node);
        c->fabric.unused_nics = MAX(0, all - c->nics_per_node);
    }
    c->gpus_per_node = gpus;
}

/* ---- durations of launches and messages ---- */

static int64_t ns_of_us(double us)
{
    return llround(us * 1e3);
}

void bb_cluster_launch_graphs(struct bb_cluster *c)
{
    c->eager = false;
    c->launch_us = c->nccl_launch_us = 0;
}

int64_t bb_cluster_issue_ns(const struct bb_cluster *c, bool compute)
{
    return ns_of_us((compute ? c->launch_us : c->nccl_launch_us) + (c->eager ? c->host.op_us : 0));
}

/* Host time in us of a grouped GEMM without a capacity factor, in addition to that per expert: of routing, dispatch and
 * autograd, while the kernels wait. Chosen by the fitting half of the published steps. The forward and backward pass of a
 * layer on an H100 take 12 and 15 ms with 4 and 8 experts, with 16 of nine shapes 11 to 19 ms (marin-community/marin,
 * issue 3666, HybridEP). */
#define DROPLESS_US 870

int64_t bb_cluster_kernel_issue_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item, int *n)
{
    *n = 1;
    if (!c->eager)
        return bb_cluster_issue_ns(c, true);
    *n = item->fusion == BB_KERNEL_IN_GEMM ? 0 : item->experts > 1 && !item->captured ? item->experts : 1;
    return item->experts > 1 && !item->is_memory_kernel && !item->captured
               ? ns_of_us(c->launch_us + c->host.expert_us + (item->dropless ? DROPLESS_US / (double)item->experts : 0))
               : bb_cluster_issue_ns(c, true);
}

double bb_cluster_low_precision_tflops(const struct bb_cluster *c, enum bb_gemm_precision precision)
{
    const bool scales_blocks = c->tflops_float4 > 0;
    const double rates[BB_GEMM_PRECISIONS] = {[BB_GEMM_FP8] = c->tflops_float8,
                                              [BB_GEMM_MXFP8] = scales_blocks ? c->tflops_float8 : 0,
                                              [BB_GEMM_NVFP4] = c->tflops_float4};

    return rates[precision];
}

double bb_cluster_tflops(const struct bb_cluster *c, enum bb_dtype_id dtype)
{
    return dtype == BB_HALF       ? c->tflops_float16
           : dtype == BB_BFLOAT16 ? c->tflops_bfloat16
           : dtype == BB_DOUBLE   ? c->tflops_float64
                                  : c->tflops_float32;
}

double bb_cluster_nic_gbps(const struct bb_cluster *c)
{
    return c->n_variants > 0 ? c->inter.gbps * c->nics_per_node / c->gpus_per_node : c->inter.gbps;
}

double bb_cluster_nic_share_gbps(const struct bb_cluster *c, double members)
{
    double of_gpu;

    if (!c->has_sharing || c->n_variants == 0)
        return bb_cluster_nic_gbps(c);
    of_gpu = c->inter.gbps * fmax(1, (double)c->nics_per_node / c->gpus_per_node);
    return fmin(of_gpu, c->inter.gbps * c->nics_per_node / members);
}

double bb_cluster_link_load_ns(const struct bb_cluster *c, const struct bb_link_load *load, double members)
{
    double inter = bb_cluster_nic_share_gbps(c, members), uplinks = 0, out[2], in[2];

    if (c->fabric.nodes[BB_LEAF] > 0)
        uplinks = bb_fabric_uplink_ns(c, load);
    for (int local = 0; local < 2; local++) {
        out[local] = load->out[local] / (local ? c->intra.gbps : inter);
        in[local] = load->in[local] / (local ? c->intra.gbps : inter);
    }
    out[0] = MAX(out[0], load->slow_out / inter);
    in[0] = MAX(in[0], load->slow_in / inter);
    if (c->n_variants > 0) /* not fmax, which is a library call, because this function runs for every message */
        return MAX(uplinks, MAX(MAX(out[0], out[1]), MAX(in[0], in[1])));
    return MAX(out[0] + out[1], in[0] + in[1]);
}

int bb_group_messages(const struct bb_link_load *load)
{
    const int messages = MAX(load->sends[0] + load->sends[1], load->receives[0] + load->receives[1]);

    return messages > 1 ? MAX(load->sends[0], load->receives[0]) : 0;
}

double bb_cluster_group_ns(const struct bb_cluster *c, int group_messages)
{
    return group_messages > 0 ? (c->inter.group_us + group_messages * c->inter.message_us) * 1e3 : 0;
}

int64_t bb_cluster_message_ns(const struct bb_cluster *c, bool one_node, double load_ns)
{
    return llround((one_node ? &c->intra : &c->inter)->latency_us * 1e3 + load_ns);
}

int64_t bb_cluster_self_message_ns(const struct bb_cluster *c, double bytes)
{
    return llround(2 * bytes / c->memory_gbps);
}

/* ---- GPUs and NICs of a node ---- */

int bb_cluster_nodes(const struct bb_cluster *c, int ranks)
{
    return (ranks - 1) / c->gpus_per_node + 1;
}

int bb_cluster_hosts(const struct bb_cluster *c, int ranks)
{
    const int nodes = bb_cluster_nodes(c, ranks), used = nodes > 1 ? c->gpus_per_node : ranks, host = c->host_gpus;
    const int last = ranks - (nodes - 1) * used;

    return host > 0 ? (nodes - 1) * ((used - 1) / host + 1) + (last - 1) / host + 1 : nodes;
}

const char *bb_cluster_nodes_text(const struct bb_cluster *c, int ranks, char text[BB_NODES_TEXT])
{
    const int nodes = bb_cluster_nodes(c, ranks), used = nodes > 1 ? c->gpus_per_node : ranks;
    const int hosts = bb_cluster_hosts(c, ranks);
    int n;

    if (c->domain_gpus == 0) {
        snprintf(text, BB_NODES_TEXT, "%d node%s", nodes, bb_plural(nodes));
        return text;
    }
    n = snprintf(text, BB_NODES_TEXT, "%d NVLink domain%s of %d GPUs", nodes, bb_plural(nodes), c->domain_gpus);
    if (used != c->domain_gpus)
        n += snprintf(text + n, BB_NODES_TEXT - (size_t)n, ", %s%d used", nodes > 1 ? "up to " : "", used);
    if (c->host_gpus > 0)
        snprintf(text + n, BB_NODES_TEXT - (size_t)n, " (%d host%s)", hosts, bb_plural(hosts));
    return text;
}

int bb_cluster_nics(const struct bb_cluster *c)
{
    return c->n_variants > 0 ? c->nics_per_node : c->gpus_per_node;
}

bool bb_cluster_gpus_share_nics(const struct bb_cluster *c)
{
    return bb_cluster_nics(c) < c->gpus_per_node;
}

void bb_cluster_gpu_nics(const struct bb_cluster *c, int gpu, int *first, int *end)
{
    const int64_t nics = bb_cluster_nics(c), index = gpu % c->gpus_per_node;
    const int next = (int)((index + 1) * nics / c->gpus_per_node);

    *first = (int)(index * nics / c->gpus_per_node);
    *end = next > *first ? next : *first + 1;
}

int bb_cluster_rank_nic(const struct bb_cluster *c, int rank)
{
    int first, end;

    bb_cluster_gpu_nics(c, rank, &first, &end);
    return rank / c->gpus_per_node * bb_cluster_nics(c) + first;
}

void bb_cluster_placement_add_node(struct bb_node_placement *placement, int n, int members, int nics, int on_nic)
{
    const double away = (double)(n - members) * on_nic;
    const bool first = placement->max_members == 0;

    placement->min_members = first || members < placement->min_members ? members : placement->min_members;
    placement->max_members = members > placement->max_members ? members : placement->max_members;
    placement->max_members_per_nic = on_nic > placement->max_members_per_nic ? on_nic : placement->max_members_per_nic;
    placement->min_nics = first || nics < placement->min_nics ? nics : placement->min_nics;
    placement->max_nic_pairs = fmax(away, placement->max_nic_pairs);
}

void bb_cluster_placement_of_ranks(const struct bb_cluster *c, const int *ranks, int n,
                                   struct bb_node_placement *placement)
{
    int on_node = 0, nics = 0, on_nic = 0, most_on_nic = 0;

    placement->min_members = placement->max_members = placement->max_members_per_nic = 0;
    placement->min_nics = 0;
    placement->max_nic_pairs = 0;
    for (int i = 0; i < n; i++) {
        const bool new_nic = i == 0 || !bb_cluster_gpus_share_nics(c) ||
                             bb_cluster_rank_nic(c, ranks[i]) != bb_cluster_rank_nic(c, ranks[i - 1]);

        on_node++;
        nics += new_nic;
        on_nic = new_nic ? 1 : on_nic + 1;
        most_on_nic = on_nic > most_on_nic ? on_nic : most_on_nic;
        if (i + 1 < n && ranks[i] / c->gpus_per_node == ranks[i + 1] / c->gpus_per_node)
            continue;
        bb_cluster_placement_add_node(placement, n, on_node, nics, most_on_nic);
        on_node = nics = most_on_nic = 0;
    }
    bb_fabric_find_slow_paths(c, ranks, n, placement);
}

struct bb_nic_members bb_cluster_nic_members(const struct bb_cluster *c, const int *ranks, int n, int i)
{
    struct bb_nic_members of = {1, 1, 1};
    int first = i, previous = -1;

    if (!bb_cluster_gpus_share_nics(c))
        return of;
    while (first > 0 && ranks[first - 1] / c->gpus_per_node == ranks[i] / c->gpus_per_node)
        first--;
    of = (struct bb_nic_members){0};
    for (int k = first; k < n && ranks[k] / c->gpus_per_node == ranks[i] / c->gpus_per_node; k++) {
        const int nic = bb_cluster_rank_nic(c, ranks[k]);

        of.on_node++;
        of.nics += nic != previous;
        of.on_nic += nic == bb_cluster_rank_nic(c, ranks[i]);
        previous = nic;
    }
    return of;
}

/* ---- SMs and memory bandwidth that concurrent communication uses ---- */

double bb_cluster_peer_gbps(const struct bb_cluster *c, bool by_kernel)
{
    const double engine = c->peer_gbps > 0 ? c->peer_gbps : c->intra.gbps;

    return by_kernel ? fmin(engine, c->intra.gbps) : engine;
}

double bb_cluster_memory_gbps(const struct bb_cluster *c)
{
    return c->memory_gbps * (c->has_achieved ? c->achieved.memory : 1);
}

double bb_cluster_nccl_memory_gbps(const struct bb_cluster *c)
{
    return (c->nccl_memory > 0 ? c->memory_gbps * c->nccl_memory : bb_cluster_memory_gbps(c)) / 2;
}

int bb_cluster_exchange_sms(const struct bb_cluster *c, int messages)
{
    const long long sms = (long long)c->sharing.message_sms * messages;

    return sms < c->sharing.collective_sms ? (int)sms : c->sharing.collective_sms;
}

int bb_cluster_held_sms(const struct bb_cluster *c, int held)
{
    return held < c->sm_count / 2 ? held : c->sm_count / 2;
}
