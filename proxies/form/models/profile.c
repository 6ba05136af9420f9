/* profile.c - finds and reads the model and cluster files of profiles/. */
#include "proxies/form/models/profile.h"

#include "bootstrap/base/json_read.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/opts.h"
#include "bootstrap/rank/siphash.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_NAMES    128
#define MODEL_SCHEMA "busbar.model/1"
#define INFINIBAND   "infiniband" /* a transport without file */

size_t bb_profile_names(const char *kind, const char **names, size_t capacity)
{
    size_t n = 0;

    for (const struct bb_profile_text *t = bb_profile_texts; t->kind && n + 1 < capacity; t++)
        if (strcmp(t->kind, kind) == 0)
            names[n++] = t->name;
    names[n] = NULL;
    return n;
}

static const char *name_at(const char *kind, size_t i)
{
    const char *names[MAX_NAMES];

    return i < bb_profile_names(kind, names, MAX_NAMES) ? names[i] : NULL;
}

const char *bb_model_name_at(size_t i)
{
    return name_at("models", i);
}

const char *bb_cluster_name_at(size_t i)
{
    return name_at("clusters", i);
}

/* A profile is for GPUs whose device name contains the texts `word` and `second` (an empty text always matches). The
 * first matching row applies; `profile` NULL: no profile, although a later row matches. */
static const struct {
    const char *word, *second, *profile;
} gpus[] = {
    {"Emulated GPU", "", "emulated-default"},
    {"GB300", "", "gb300-nvl72"},
    {"B300", "", "b300-sxm-ib"},
    {"GB200", "", "gb200-nvl72"},
    {"B200", "", "b200-sxm-ib"},
    {"GH200", "", "gh200-quad-ib"},
    {"H200", "NVL", NULL}, /* PCIe, bridges between up to four GPUs */
    {"H200", "", "h200-sxm-ib"},
    {"H800", "PCI", NULL},
    {"H800", "", "h800-sxm-ib"},
    {"H100", "HBM3", "h100-sxm-ib"},
    {"H100", "NVL", "h100-nvl-pcie-ib"},
    {"H100", "PCI", "h100-pcie-ib"},
    {"A100-SXM", "40GB", "a100-40gb-sxm-ib"},
    {"A100-SXM", "", "a100-sxm-ib"},
    {"A100", "PCI", "a100-pcie-ib"},
    {"L40S", "", "l40s-pcie-ib"},
};

const char *bb_cluster_of_gpu(const char *gpu)
{
    for (size_t i = 0; i < sizeof(gpus) / sizeof(gpus[0]); i++)
        if (strstr(gpu, gpus[i].word) && strstr(gpu, gpus[i].second))
            return gpus[i].profile;
    return NULL;
}

static bool is_path(const char *name_or_path)
{
    size_t length = strlen(name_or_path);

    return strchr(name_or_path, '/') || (length > 5 && strcmp(name_or_path + length - 5, ".json") == 0);
}

/* Models of Hugging Face with the layers of a shipped model: names without the organization, "meta-" and a suffix such as
 * "-Instruct". */
static const char *const hub_models[][2] = {
    {"llama-3-8b llama-3.1-8b", "llama3_8b"},
    {"llama-3-70b llama-3.1-70b llama-3.3-70b", "llama3_70b"},
    {"llama-3.1-405b", "llama3_405b"},
    {"llama-2-7b", "llama2_7b"},
    {"llama-2-13b", "llama2_13b"},
    {"llama-2-70b", "llama2_70b"},
    {"mistral-7b", "mistral_7b"},
    {"mixtral-8x7b", "mixtral_8x7b"},
    {"qwen2-7b qwen2.5-7b", "qwen2_7b"},
    {"qwen3-30b-a3b", "qwen3_30b_a3b"},
    {"qwen3-235b-a22b", "qwen3_235b_a22b"},
    {"gpt-oss-20b", "gpt_oss_20b"},
    {"gpt-oss-120b", "gpt_oss_120b"},
    {"deepseek-v3 deepseek-v3.1", "deepseek_v3"},
    {"nvidia-nemotron-3-nano-30b-a3b", "nemotron3_nano"},
    {"nvidia-nemotron-3-super-120b-a12b", "nemotron3_super"},
};

const char *bb_model_of_hub(const char *name)
{
    const char *base = bb_base_name(name);
    size_t n;

    base += strncasecmp(base, "meta-", 5) == 0 ? 5 : 0;
    for (size_t i = 0; i < sizeof(hub_models) / sizeof(hub_models[0]); i++)
        for (const char *at = hub_models[i][0]; *at; at += n + (at[n] == ' ')) {
            n = strcspn(at, " ");
            if (strncasecmp(base, at, n) == 0 && (base[n] == '\0' || base[n] == '-'))
                return hub_models[i][1];
        }
    return NULL;
}

/* Organizations of Hugging Face, by the first letters of the names of their models. */
static const char *const hub_organizations[][2] = {
    {"llama-", "meta-llama/"},  {"meta-llama-", "meta-llama/"}, {"qwen", "Qwen/"},     {"mistral-", "mistralai/"},
    {"mixtral-", "mistralai/"}, {"deepseek-", "deepseek-ai/"},  {"gemma-", "google/"}, {"phi-", "microsoft/"},
};

/* Returns what precedes the name of a model of Hugging Face in its URL: "" for "ORGANIZATION/MODEL", "Qwen/" for
 * "Qwen3-8B"; NULL: any other word, or a path of a file. */
static const char *hub_organization(const char *name)
{
    const char *slash = strchr(name, '/');

    if (slash && slash > name && slash[1] && !strchr(slash + 1, '/') && name[0] != '.' && !strstr(name, ".json"))
        return "";
    for (size_t i = 0; !slash && strchr(name, '-') && i < sizeof(hub_organizations) / sizeof(hub_organizations[0]); i++)
        if (strncasecmp(name, hub_organizations[i][0], strlen(hub_organizations[i][0])) == 0)
            return hub_organizations[i][1];
    return NULL;
}

int bb_model_reject_hub(const char *name)
{
    const char *shipped = bb_model_of_hub(name), *organization = hub_organization(name);

    return !organization
               ? 0
               : bb_err(BB_EUSAGE,
                        "%s: busbar downloads no models%s%s; %ssave https://huggingface.co/%s%s/raw/main/config.json "
                        "and give --model config.json",
                        name, shipped ? "; try: --model " : "", shipped ? shipped : "", shipped ? "or " : "",
                        organization, name);
}

static const char *find_text(const char *kind, const char *name)
{
    for (const struct bb_profile_text *t = bb_profile_texts; t->kind; t++)
        if (strcmp(t->kind, kind) == 0 && strcmp(t->name, name) == 0)
            return t->text;
    return NULL;
}

const char *bb_cluster_base(const char *name)
{
    const char *text = find_text("clusters", name), *found = NULL;
    json_t *root = text ? json_loads(text, 0, NULL) : NULL;
    const char *base = root ? json_string_value(json_object_get(root, "base")) : NULL;

    for (size_t i = 0; root && !found; i++)
        if (strcmp(bb_cluster_name_at(i), base ? base : name) == 0)
            found = bb_cluster_name_at(i);
    json_decref(root);
    return found;
}

/* Returns the cluster of the GPU, or the cloud, that a word names: "8xH100" is near h100-sxm-ib; "p5" is aws-p5 without the cloud;
 * NULL: none. */
static const char *near_cluster(const char *word, const char *const *names, size_t n)
{
    char longest[32] = "", part[32]; /* gb200 also contains b200 */

    for (size_t i = 0; i < n; i++)
        if (strchr(names[i], '-') && bb_is_same_name(strchr(names[i], '-') + 1, word, strlen(word)))
            return names[i];
    for (size_t i = 0; i < n; i++) {
        snprintf(part, sizeof(part), "%.*s", (int)strcspn(names[i], "-"), names[i]);
        if (strlen(part) > MAX(3, strlen(longest)) && strcasestr(word, part))
            memcpy(longest, part, sizeof(part));
    }
    return *longest ? bb_nearest_word(longest, names, n) : NULL;
}

/* The names of NVIDIA's nodes, such as dgx-h100, end with the GPU, but are spelled like those of clouds (oci-h100). */
static bool is_nvidia_node(const char *word)
{
    return strncasecmp(word, "dgx", 3) == 0 || strncasecmp(word, "hgx", 3) == 0;
}

/* Returns whether two names have the same digits, as far as both have some: qwen2_7b is no spelling of Qwen3-8B. */
static bool has_same_digits(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strcspn(a, "0123456789");
        b += strcspn(b, "0123456789");
        if (*a != *b || !*a)
            return !*a || !*b;
    }
}

/* Returns whether a transport has no values of its own, but those of the profiles that have it. */
static bool is_of_profiles(const char *name)
{
    const char *text = find_text("transports", name);

    return text ? !strstr(text, "\"nccl\"") : strcmp(name, INFINIBAND) == 0;
}

/* more: a name that is accepted, too; NULL: none */
static int reject_name(const char *kind, const char *name_or_path, const char *more)
{
    const char *names[MAX_NAMES], *near, *other;
    char singular[32];
    size_t all = bb_profile_names(kind, names, MAX_NAMES - 1), n = 0;
    const bool is_model = strcmp(kind, "models") == 0;

    for (size_t i = 0; i < all; i++)
        if (strcmp(kind, "transports") != 0 || !is_of_profiles(names[i]))
            names[n++] = names[i];
    if (more)
        names[n++] = more;
    snprintf(singular, sizeof(singular), "%.*s", (int)strlen(kind) - 1, kind);
    if (strcmp(name_or_path, "-") == 0)
        return bb_err(BB_EUSAGE, "--%s - is not stdin; try: --%s /dev/stdin", singular, singular);
    near = is_nvidia_node(name_or_path) ? NULL : bb_nearest_word(name_or_path, names, n);
    other = is_model ? bb_model_of_hub(name_or_path) : near ? NULL : near_cluster(name_or_path, names, n);
    if (other)
        return bb_err(BB_EUSAGE, "unknown %s '%s', did you mean '%s'? (`busbar list %s` lists all)", singular,
                      name_or_path, other, kind);
    if (is_model && bb_model_reject_hub(name_or_path) != 0)
        return -BB_EUSAGE;
    if (is_model && near && !has_same_digits(name_or_path, near))
        return bb_err(BB_EUSAGE,
                      "unknown model '%s', expected a name of `busbar list models`, or a config.json of Hugging Face "
                      "(--model config.json)",
                      name_or_path);
    return bb_reject_unknown(singular, name_or_path, names, n);
}

static bool is_folder(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* Loads the config.json of a folder that contains a published model (Hugging Face). */
static int load_folder(const char *kind, const char *name_or_path, json_t **root)
{
    char path[PATH_MAX];
    json_error_t error;

    if (strcmp(kind, "models") != 0)
        return bb_err(BB_EUSAGE, "%s: is a folder, expected a file", name_or_path);
    snprintf(path, sizeof(path), "%s/config.json", name_or_path);
    if (access(path, R_OK) != 0)
        return bb_err(BB_EUSAGE, "%s: is a folder without a config.json", name_or_path);
    *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    return *root ? 0 : bb_err(BB_EUSAGE, "%s: line %d: %s", path, error.line, error.text);
}

int bb_profile_validate_name(const char *kind, const char *name_or_path)
{
    return is_path(name_or_path) || find_text(kind, name_or_path) || is_folder(name_or_path)
               ? 0
               : reject_name(kind, name_or_path, NULL);
}

static bool has_other_schema(const json_t *root)
{
    const json_t *schema = json_object_get(root, "schema");

    return schema && (!json_is_string(schema) || strcmp(json_string_value(schema), MODEL_SCHEMA) != 0);
}

/* Loads a file. The data of a pipe is gone after the first time, for example for the second cluster of a search. */
static int load_path(const char *kind, const char *path, json_t **root)
{
    const char *problem;
    FILE *file = bb_input_open(path, &problem);
    struct stat about;
    json_error_t error;
    int rc = 0;

    if (!file && errno == ENOENT && strcmp(kind, "models") == 0)
        TRY(bb_model_reject_hub(path));
    if (!file)
        return errno == ENOMEM
                   ? bb_err(BB_EFAIL, "%s: %s", path, problem)
                   : bb_err(BB_EUSAGE, "%s: %s; expected a name of `busbar list %s`, or a file", path, problem, kind);
    *root = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    if (!*root && error.position == 0 && fstat(fileno(file), &about) == 0 && S_ISFIFO(about.st_mode))
        rc = bb_err(BB_EUSAGE, "%s: is a pipe without data, or its data was already read; try: a file", path);
    else if (!*root)
        rc = bb_err(errno == ENOMEM && error.line <= 0 ? BB_EFAIL : BB_EUSAGE, "%s: line %d: %s", path, error.line,
                    error.text);
    fclose(file);
out:
    return rc;
}

/* Returns the element of the list `variants` with algorithm and protocol of `like`; NULL: none. */
static json_t *find_like(json_t *variants, const json_t *like)
{
    json_t *variant;
    size_t i;

    json_array_foreach(variants, i, variant)
    {
        if (json_equal(json_object_get(variant, "algorithm"), json_object_get(like, "algorithm")) &&
            json_equal(json_object_get(variant, "protocol"), json_object_get(like, "protocol")))
            return variant;
    }
    return NULL;
}

static void overlay(json_t *onto, const json_t *from);

/* A longer list, which no cluster may have, is not searched, because that would take hours. */
enum { MAX_VARIANTS = 1024 };

static void overlay_variants(json_t *onto, const json_t *from)
{
    json_t *variant;
    size_t i;

    json_array_foreach(from, i, variant)
    {
        json_t *like = json_array_size(onto) < MAX_VARIANTS ? find_like(onto, variant) : NULL;

        if (like)
            overlay(like, variant);
        else if (json_object_get(variant, "gbps"))
            json_array_append_new(onto, json_deep_copy(variant));
    }
}

static void overlay(json_t *onto, const json_t *from)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)from, key, value)
    {
        json_t *old = json_object_get(onto, key);

        if (json_is_object(old) && json_is_object(value))
            overlay(old, value);
        else if (strcmp(key, "nccl") == 0 && json_is_array(old) && json_is_array(value))
            overlay_variants(old, value);
        else
            json_object_set_new(onto, key, json_deep_copy(value));
    }
}

/* The rates and latencies of NCCL's variants that are those of their links: the model computes collectives from the former.
 * (Between nodes variants have a fraction of inter.gbps.) */
static const struct {
    const char *section, *key, *of_variant;
    bool is_latency;
} link_keys[] = {{"intra", "gbps", "gbps", false},
                 {"intra", "latency_us", "intra_us", true},
                 {"inter", "latency_us", "inter_us", true}};
enum { LINK_KEYS = sizeof(link_keys) / sizeof(link_keys[0]) };

static const json_t *link_value(const json_t *cluster, size_t i)
{
    return json_object_get(json_object_get(cluster, link_keys[i].section), link_keys[i].key);
}

/* A longer wire delays each step between two ranks by the same time, with every variant. A shorter latency is a factor, as a
 * rate: the part of a variant's latency that is not the wire is unknown, so that a difference could leave less than 0. */
static double follow_link(double value, double before, double after, bool is_latency)
{
    return is_latency && after > before ? value + after - before : before > 0 ? value * after / before : value;
}

/* Changes the values of NCCL's variants with those of the links, which were before[], except those that `changes` has. */
static void follow_links(json_t *cluster, const json_t *changes, const double before[LINK_KEYS])
{
    json_t *list = json_object_get(cluster, "nccl"), *changed = json_object_get(changes, "nccl"), *variant;
    size_t i;

    json_array_foreach(list, i, variant)
    {
        const json_t *own = json_array_size(list) <= MAX_VARIANTS ? find_like(changed, variant) : variant;

        for (size_t k = 0; k < LINK_KEYS; k++) {
            const json_t *after = link_value(cluster, k), *value = json_object_get(variant, link_keys[k].of_variant);

            if (json_is_number(after) && json_is_number(value) && !json_object_get(own, link_keys[k].of_variant) &&
                json_number_value(after) != before[k])
                json_object_set_new(variant, link_keys[k].of_variant,
                                    json_real(follow_link(json_number_value(value), before[k], json_number_value(after),
                                                          link_keys[k].is_latency)));
        }
    }
}

/* Changes the number of NICs with that of the GPUs of a node, which was `before`, unless `changes` has both. */
static void follow_gpus(json_t *cluster, const json_t *changes, double before)
{
    const double after = json_number_value(json_object_get(cluster, "gpus_per_node"));
    const double nics = json_number_value(json_object_get(cluster, "nics_per_node"));

    if (!json_object_get(changes, "nics_per_node") && before > 0 && after > 0 && nics > 0 && after != before &&
        MAX(MAX(before, after), nics) <= INT_MAX)
        json_object_set_new(cluster, "nics_per_node", json_integer((json_int_t)ceil(after * nics / before)));
}

/* Rejects an element of the list "nccl" of `changes` that has no effect: it is like no variant, and has no rate of a new one. */
static int reject_unknown_variant(json_t *cluster, const json_t *changes, const char *where)
{
    json_t *list = json_object_get(cluster, "nccl"), *changed = json_object_get(changes, "nccl"), *variant;
    size_t i;

    if (!json_is_array(list) || json_array_size(list) > MAX_VARIANTS)
        return 0;
    json_array_foreach(changed, i, variant)
    {
        if (!json_object_get(variant, "gbps") && !find_like(list, variant)) {
            char *text = json_dumps(variant, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
            const int rc =
                bb_err(BB_EUSAGE,
                       "%s: 'nccl' has the element %.200s, but the profile has no variant with this algorithm "
                       "and protocol; a new variant requires all keys",
                       where, text ? text : "");

            free(text);
            return rc;
        }
    }
    return 0;
}

int bb_profile_change(json_t *cluster, const json_t *changes, const char *where)
{
    const double gpus = json_number_value(json_object_get(cluster, "gpus_per_node"));
    double before[LINK_KEYS];
    int rc = 0;

    TRY(reject_unknown_variant(cluster, changes, where));
    for (size_t i = 0; i < LINK_KEYS; i++)
        before[i] = json_number_value(link_value(cluster, i));
    overlay(cluster, changes);
    follow_links(cluster, changes, before);
    follow_gpus(cluster, changes, gpus);
out:
    return rc;
}

/* Lists the shipped profiles with a transport: "; shipped with it: aws-p5 (32 NICs per node)". */
static void list_with_transport(const char *transport, char *text, size_t size)
{
    const char *name;

    text[0] = '\0';
    for (size_t i = 0; (name = bb_cluster_name_at(i)); i++) {
        json_t *root = NULL;
        const char *theirs = NULL;

        if (bb_profile_load("clusters", name, &root) == 0)
            theirs = json_string_value(json_object_get(root, "transport"));
        if (theirs && strcmp(theirs, transport) == 0)
            snprintf(text + strlen(text), size - strlen(text), "%s%s (%lld NICs per node)",
                     *text ? ", " : "; shipped with it: ", name,
                     (long long)json_integer_value(json_object_get(root, "nics_per_node")));
        json_decref(root);
    }
}

static double nics_gbps(const json_t *cluster)
{
    return json_number_value(json_object_get(cluster, "nics_per_node")) *
           json_number_value(json_object_get(json_object_get(cluster, "inter"), "gbps"));
}

void bb_profile_warn_of_nics(const json_t *before, const json_t *after, const json_t *changes, const char *file)
{
    const char *former = json_string_value(json_object_get(before, "transport"));
    const char *transport = json_string_value(json_object_get(after, "transport"));
    const double was = nics_gbps(before), now = nics_gbps(after),
                 nics = json_number_value(json_object_get(after, "nics_per_node"));
    char shipped[300];

    if (!former || !transport || strcmp(former, transport) == 0 || was == now ||
        json_object_get(changes, "nics_per_node") || json_object_get(changes, "gpus_per_node") ||
        json_object_get(json_object_get(changes, "inter"), "gbps"))
        return;
    list_with_transport(transport, shipped, sizeof(shipped));
    bb_warn("%s%s%s%s: a node still has %g NICs, now of %.4g GB/s each, together %.4g GB/s (was: %.4g GB/s)%s; for "
            "another number: %s",
            file ? file : "--set transport=", file ? ": \"transport\": \"" : "", transport, file ? "\"" : "", nics,
            now / nics, now, was, shipped, file ? "\"nics_per_node\": N" : "--set nics_per_node=N");
}

/* Removes what only the former transport has: its sustained rates, and the variants that no value of the new one describes, such
 * as those of CollNet, which requires SHARP. nvls does not use the network. */
static void remove_former(json_t *variants, json_t *described)
{
    const size_t n = json_array_size(variants);

    for (size_t i = json_array_size(described) > 0 && n < MAX_VARIANTS ? n : 0; i > 0; i--) {
        json_t *variant = json_array_get(variants, i - 1);
        const char *algorithm = json_string_value(json_object_get(variant, "algorithm"));

        json_object_del(variant, "sustained");
        if (algorithm && strcmp(algorithm, "nvls") != 0 && !find_like(described, variant))
            json_array_remove(variants, i - 1);
    }
}

/* changes: the cluster has another transport, whose values the new one must replace. */
static int put_transport(json_t *cluster, const char *name, bool changes)
{
    const char *former = json_string_value(json_object_get(cluster, "transport"));
    const bool has_no_values = is_of_profiles(name) && (changes || strcmp(name, INFINIBAND) == 0);
    json_t *transport = NULL;
    int rc;

    if (has_no_values && former && strcmp(former, name) == 0)
        return 0;
    if (has_no_values)
        return bb_err(BB_EUSAGE, "transport '%s' is only that of profiles which have it; try: --cluster %s", name,
                      strcmp(name, INFINIBAND) == 0 ? "h100-sxm-ib" : "h100-sxm-sharp");
    if (!find_text("transports", name) && !is_path(name))
        return reject_name("transports", name, former && is_of_profiles(former) ? former : NULL);
    TRY(bb_profile_load("transports", name, &transport));
    if (changes && !json_object_get(cluster, "nccl"))
        rc = bb_err(BB_EUSAGE, "--set transport=%s: it changes the section 'nccl', which the profile does not have",
                    name);
    TRY(rc);
    remove_former(json_object_get(cluster, "nccl"), json_object_get(transport, "nccl"));
    overlay(cluster, transport);
    json_object_set_new(cluster, "transport", json_string(name));
out:
    json_decref(transport);
    return rc;
}

int bb_profile_set_transport(json_t *cluster, const char *name)
{
    return put_transport(cluster, name, true);
}

/* Prints a warning if a cluster profile without base names a transport of profiles/transports and has none of its latencies.
 * Profiles of busbar calibrate have measured ones. */
static int warn_of_transport(const json_t *cluster, const char *where)
{
    const char *name = json_string_value(json_object_get(cluster, "transport"));
    json_t *transport = NULL, *variants, *variant;
    size_t i;
    bool has_values = json_object_get(cluster, "left_out") != NULL;
    int rc = 0;

    if (has_values || !name || !find_text("transports", name))
        return 0;
    TRY(bb_profile_load("transports", name, &transport));
    variants = json_object_get(transport, "nccl");
    json_array_foreach(variants, i, variant)
    {
        const json_t *like = find_like(json_object_get(cluster, "nccl"), variant);

        has_values |= like && json_equal(json_object_get(like, "inter_us"), json_object_get(variant, "inter_us"));
    }
    if (variants && !has_values)
        bb_warn(
            "%s: \"transport\": \"%s\" only names the transport, none of its values are used without the key 'base'; "
            "try: --set transport=%s",
            where, name, name);
out:
    json_decref(transport);
    return rc;
}

#define OTHER_GENERATION                                                                                               \
    1.5 /* H100 and A100 differ by 3.2, B200 and H100 by 2.3, GPUs of one generation mostly by less */

/* Warns of a profile whose GPUs have another rate than those of its base, but the same generation. */
static void warn_of_generation(const json_t *base, const json_t *own, const char *base_name, const char *where)
{
    const char *generation = json_string_value(json_object_get(base, "generation"));
    const double was = json_number_value(json_object_get(json_object_get(base, "tflops"), "bfloat16"));
    const double rate = json_number_value(json_object_get(json_object_get(own, "tflops"), "bfloat16"));

    if (generation && !json_object_get(own, "generation") && was > 0 && rate > 0 &&
        (rate > OTHER_GENERATION * was || was > OTHER_GENERATION * rate))
        bb_warn("%s: 'generation', which selects the rates of --software, is %s as in the base %s, although "
                "'tflops.bfloat16' is %g instead of %g; to confirm or change 'generation', add \"generation\": "
                "\"Ampere\", \"Hopper\" or \"Blackwell\"",
                where, generation, base_name, rate, was);
}

/* Replaces a cluster profile with the key "base" by the profile that this key names, with the values of its transport and
 * then its own. */
static int complete_cluster(json_t **root, const char *path, unsigned warnings)
{
    const char *base_name = json_string_value(json_object_get(*root, "base"));
    const char *transport = json_string_value(json_object_get(*root, "transport"));
    json_t *base = NULL, *before = NULL;
    int rc = 0;

    if (!base_name)
        return warnings & BB_WARN_OF_TRANSPORT ? warn_of_transport(*root, path) : 0;
    if (!find_text("clusters", base_name)) /* only a shipped one: a file could name itself */
        return reject_name("clusters", base_name, NULL);
    TRY(bb_profile_load("clusters", base_name, &base));
    before = warnings & BB_WARN_OF_TRANSPORT ? json_deep_copy(base) : NULL;
    if (transport)
        TRY(put_transport(base, transport, false));
    if (warnings & BB_WARN_OF_GENERATION)
        warn_of_generation(base, *root, base_name, path);
    TRY(bb_profile_change(base, *root, path));
    bb_profile_warn_of_nics(before, base, *root, path);
    json_object_del(base, "base");
    json_decref(*root);
    *root = json_incref(base);
out:
    json_decref(before);
    json_decref(base);
    return rc;
}

static int load(const char *kind, const char *name_or_path, unsigned warnings, json_t **root)
{
    const char *text = NULL;
    json_error_t error;
    int rc = 0;

    *root = NULL;
    text = find_text(kind, name_or_path);
    if (!text && is_folder(name_or_path))
        TRY(load_folder(kind, name_or_path, root));
    else if (is_path(name_or_path))
        TRY(load_path(kind, name_or_path, root));
    else if (text)
        *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    else
        return reject_name(kind, name_or_path, NULL);
    if (!*root)
        return bb_err(errno == ENOMEM ? BB_EFAIL : BB_EUSAGE, "%s: line %d: %s", name_or_path, error.line, error.text);
    bb_json_blank(*root);
    /* A result file of busbar has a schema, too, but only a result file contains a command or its options. */
    if (!json_is_object(*root))
        rc = bb_err(BB_EUSAGE, "%s: expected a JSON object", name_or_path);
    else if (json_object_get(*root, "schema") &&
             (json_object_get(*root, "command") || json_object_get(*root, "options")))
        rc = bb_err(BB_EUSAGE, "%s: is a result of busbar (%s), expected a file of %s", name_or_path,
                    json_string_value(json_object_get(*root, "schema")), kind);
    else if (strcmp(kind, "models") == 0 && has_other_schema(*root))
        rc = bb_err(BB_EUSAGE, "%s: schema is not supported, expected " MODEL_SCHEMA, name_or_path);
    else if (strcmp(kind, "clusters") == 0)
        rc = complete_cluster(root, name_or_path, warnings);
    if (rc) {
        json_decref(*root);
        *root = NULL;
    }
out:
    return rc;
}

int bb_profile_load(const char *kind, const char *name_or_path, json_t **root)
{
    return load(kind, name_or_path, 0, root);
}

int bb_profile_load_cluster(const char *name_or_path, unsigned warnings, json_t **root)
{
    return load("clusters", name_or_path, warnings, root);
}

bool bb_profile_is_shipped_cluster(const char *name_or_path, const json_t *root)
{
    const char *name = json_string_value(json_object_get(root, "name"));
    json_t *shipped;
    bool equal;

    if (find_text("clusters", name_or_path))
        return true;
    if (!name || !find_text("clusters", name) || load("clusters", name, 0, &shipped) != 0)
        return false;
    equal = json_equal(root, shipped);
    json_decref(shipped);
    return equal;
}

static json_t *checksum_of(const char *kind, const char *name_or_path)
{
    struct stat about;
    json_t *root, *checksum;
    char *text;

    if (!name_or_path || (!find_text(kind, name_or_path) && stat(name_or_path, &about) == 0 &&
                          !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode)))
        return json_null();
    if (bb_profile_load(kind, name_or_path, &root) != 0)
        return json_null();
    text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
    checksum = json_sprintf("%012llx",
                            (unsigned long long)bb_siphash(&(struct bb_siphash_key){{0}}, text, strlen(text)) >> 16);
    free(text);
    json_decref(root);
    return checksum;
}

json_t *bb_profile_checksums(const char *cluster, const char *model)
{
    return json_pack("{s:o, s:o}", "cluster", checksum_of("clusters", cluster), "model", checksum_of("models", model));
}
