/* provenance.c - lists the conditions of a result file (versions, devices, environment, options) as texts, and finds
 * the differences between two such lists. */
#include "bootstrap/base/environment.h"
#include "bootstrap/results/flat_table.h"
#include "collectives/compare/result_reader.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { VALUE = 256, NAME = 160 };

#define PREDICTED   "predicted for"
#define ENVIRONMENT "environment"

static void add_fact(json_t *list, const char *what, const char *text)
{
    if (text)
        json_object_set_new(list, what, json_string(text));
}

/* Formats a scalar as text; returns NULL for null, lists and objects. */
static const char *scalar_text(const json_t *value, char text[VALUE])
{
    if (json_is_string(value))
        snprintf(text, VALUE, "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, VALUE, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, VALUE, "%g", json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(text, VALUE, "%s", json_is_true(value) ? "yes" : "no");
    else
        return NULL;
    return text;
}

/* Adds the device names with their counts, in order of first appearance: "4 x A, 4 x B". */
static void add_devices(json_t *list, const json_t *devices, const char *field)
{
    json_t *count = json_object();
    const char *name;
    json_t *number, *device;
    char text[VALUE] = "";
    size_t i, used = 0;

    json_array_foreach(devices, i, device)
    {
        name = json_string_value(json_object_get(device, field));
        name = name ? name : "unknown";
        json_object_set_new(count, name, json_integer(1 + json_integer_value(json_object_get(count, name))));
    }
    json_object_foreach(count, name, number) if (used < sizeof(text)) used += (size_t)snprintf(
        text + used, sizeof(text) - used, "%s%lld x %s", used ? ", " : "", (long long)json_integer_value(number), name);
    add_fact(list, "devices", used ? text : NULL);
    json_decref(count);
}

/* Environment variables that are not compared, because they differ between ranks or only affect what a run prints. A
 * trailing * matches any suffix. The variables of launchers (OMPI_*, PMI*, SLURM_*) also contain the size of the
 * job, but the conditions "ranks", "nodes" and "devices" report that size already. */
static const char *const noise[] = {"BUSBAR_PROGRESS", "BUSBAR_RANK", "BUSBAR_SIBLINGS", "EMU_KERNELS",
                                    "EMU_NCCL_IGNORE", "EMU_QUIET",   "EMU_TWINS",       "EMU_UNKNOWN_KERNELS",
                                    "OMPI_*",          "PMI*",        "SLURM_*",         NULL};

static bool is_listed(const char *name, const char *const *list)
{
    for (; *list; list++) {
        size_t n = strlen(*list) - 1;

        if ((*list)[n] == '*' ? strncmp(name, *list, n) == 0 : strcmp(name, *list) == 0)
            return true;
    }
    return false;
}

/* Adds all scalar members of `object` to the list of conditions. mark: prefix of each name, "$" for environment
 * variables and "--" for options; except: names to leave out. */
static void add_all(json_t *list, const char *mark, const json_t *object, const char *const *except)
{
    char text[VALUE], what[NAME];
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)object, name, value)
    {
        snprintf(what, sizeof(what), "%s%s", mark, name);
        for (char *c = what; *mark == '-' && *c; c++)
            *c = *c == '_' ? '-' : *c;
        if (!is_listed(name, except))
            add_fact(list, what, scalar_text(value, text));
    }
}

/* Options that only affect what a command prints and writes, or that another condition contains. */
static const char *const no_setting[] = {"json",
                                         "csv",
                                         "quiet",
                                         "full",
                                         "timeout",
                                         "trace",
                                         "export",
                                         "export_ranks",
                                         "export_micro_batches",
                                         "ops",
                                         "top",
                                         "best_layout",
                                         "threads",
                                         "cluster",
                                         "ranks",
                                         "gpus",
                                         "ras",
                                         "compute",
                                         "save_baseline",
                                         NULL};

/* Values of a busbar result file to compare. what: name in the printed list of differences; outer: key at the top level
 * of the file; inner: key in the object that `outer` refers to, or NULL if the value of `outer` is a scalar. */
static const struct {
    const char *what, *outer, *inner;
} fields[] = {
    {"NCCL library", "nccl", "runtime"},
    {"NCCL header", "nccl", "header"},
    {"CUDA runtime", "cuda", "runtime"},
    {"CUDA driver", "cuda", "driver"},
    {"NVIDIA driver", "cuda", "nvidia_driver"},
    {"ranks", "ranks", NULL},
    {"nodes", "nodes", NULL},
    {"emulated", "emulated", NULL},
    {"shared GPU", "shared_gpu", NULL},
    {"status", "status", NULL},
};

/* Returns the fastest layout of --best-layout; NULL if the file has none. */
static const json_t *first_layout(const json_t *root)
{
    return json_array_get(json_object_get(json_object_get(root, "best_layout"), "layouts"), 0);
}

/*
 * Adds the condition "compute", which names the kernels that the compute times are for: "kernels of training" if the
 * times are predicted for the kernels of a training framework; "kernels of the proxy (--compute timed)" if the times are
 * predicted or measured for the kernels that a busbar proxy runs.
 */
static void add_compute(json_t *list, const json_t *root)
{
    const json_t *planned = json_object_get(json_object_get(root, "predicted"), "compute");
    const char *how = json_string_value(json_object_get(json_object_get(root, "options"), "compute"));
    const char *rates = json_string_value(json_object_get(planned, "rates"));
    char text[VALUE];

    snprintf(text, sizeof(text), "kernels of the proxy (--compute %s)", how ? how : "?");
    if (json_is_string(json_object_get(planned, "attention")) || (planned && !how) ||
        json_object_get(first_layout(root), "software"))
        add_fact(list, "compute", "kernels of training");
    else if (json_object_get(root, "proxy"))
        add_fact(list, "compute", text);
    if (rates && strcmp(rates, "machine") != 0) /* with --tflops, the default value, too, replaces rates of a proxy */
        add_fact(list, "compute rates", rates);
}

/* Adds "contents of FILE", the checksum, for the cluster profile and the model, so that two files with the same name and
 * different contents differ. */
static void add_profiles(json_t *list, const json_t *root)
{
    static const char *const kinds[] = {"cluster", "model"};
    char what[NAME];

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const char *name = json_string_value(json_object_get(json_object_get(root, "options"), kinds[i]));

        snprintf(what, sizeof(what), "contents of %s", name ? name : kinds[i]);
        add_fact(list, what, json_string_value(json_object_get(json_object_get(root, "profiles"), kinds[i])));
    }
}

static void add_busbar(const json_t *root, json_t *list)
{
    char text[VALUE], tool[VALUE + 8];
    const char *version = scalar_text(json_object_get(root, "busbar"), text);

    snprintf(tool, sizeof(tool), "busbar %s", version ? version : "?");
    add_fact(list, "program", tool);
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        const json_t *value = json_object_get(root, fields[i].outer);

        add_fact(list, fields[i].what,
                 scalar_text(fields[i].inner ? json_object_get(value, fields[i].inner) : value, text));
    }
    add_compute(list, root);
    add_profiles(list, root);
    add_devices(list, json_object_get(root, "devices"), "name");
    add_all(list, "$", json_object_get(root, "environment"), noise);
    add_all(list, "--", json_object_get(root, "options"), no_setting);
    if (json_object_get(root, "proxy")) /* --graph measures further steps; step_us has none of them */
        json_object_del(list, "--graph");
}

/* ---- conditions in result files of nccl-tests ---- */

/* Adds the variables that busbar records, too. nccl-tests' JSON has its whole environment, its printed output none. */
static void add_nccl_tests_environment(json_t *list, const json_t *env)
{
    json_t *entry;
    size_t i;

    json_array_foreach(env, i, entry)
    {
        const char *text = json_string_value(entry), *equals = text ? strchr(text, '=') : NULL;
        char what[NAME];

        if (!equals)
            continue;
        snprintf(what, sizeof(what), "$%.*s", (int)(equals - text < NAME - 2 ? equals - text : NAME - 2), text);
        if (bb_environment_is_recorded(what + 1) && !is_listed(what + 1, noise))
            add_fact(list, what, bb_environment_value(what + 1, equals + 1));
    }
}

static long long at_least_1(const json_t *config, const char *name)
{
    long long value = json_integer_value(json_object_get(config, name));

    return value >= 1 && value < 1 << 20 ? value : 1;
}

const json_t *bb_result_file_nccl_tests_devices(const json_t *root)
{
    const json_t *devices = json_object_get(root, "devices");

    return devices ? devices : json_object_get(json_object_get(root, "config"), "devices");
}

int bb_result_file_nccl_tests_ranks(const json_t *root)
{
    const json_t *config = json_object_get(root, "config"), *devices = bb_result_file_nccl_tests_devices(root);
    long long listed = (long long)json_array_size(devices), last, ranks;

    last = json_integer_value(json_object_get(json_array_get(devices, listed > 0 ? (size_t)listed - 1 : 0), "rank"));
    ranks = listed * at_least_1(config, "nthreads") * at_least_1(config, "ngpus");
    if (listed > 1 && last == listed - 1) /* the rank number of the last list element equals its index, so the list
                                             has one device per rank */
        ranks = listed;
    return ranks < 1 << 24 ? (int)ranks : 0;
}

/* The number of GPUs on which one thread enqueues the operations, one after the other. */
static long long gpus_per_thread(const json_t *root)
{
    const json_t *config = json_object_get(root, "config");

    if (json_is_true(json_object_get(root, "process_per_gpu")))
        return 1;
    return at_least_1(config, json_object_get(config, "gpus_per_thread") ? "gpus_per_thread" : "ngpus");
}

static void add_nccl_tests(const json_t *root, json_t *list)
{
    const json_t *devices = bb_result_file_nccl_tests_devices(root);
    long long version = json_integer_value(json_object_get(root, "nccl_version"));
    char text[VALUE];

    snprintf(text, sizeof(text), "nccl-tests (file version %lld)",
             (long long)json_integer_value(json_object_get(root, "version")));
    add_fact(list, "program", text);
    snprintf(text, sizeof(text), "%lld.%lld.%lld", version / 10000, version / 100 % 100, version % 100);
    add_fact(list, "NCCL library", version > 0 ? text : NULL);
    snprintf(text, sizeof(text), "%d", bb_result_file_nccl_tests_ranks(root));
    add_fact(list, "ranks", json_array_size(devices) > 0 ? text : NULL);
    snprintf(text, sizeof(text), "%lld", gpus_per_thread(root));
    add_fact(list, "GPUs per thread", text);
    add_devices(list, devices, "device_info");
    add_nccl_tests_environment(list, json_object_get(root, "env"));
}

json_t *bb_result_run(const struct bb_result_file *t)
{
    static const char *const versions[][2] = {{"nccl", "nccl.runtime"}, {"cuda", "cuda.runtime"}};
    json_t *run = bb_flat_table_identity(t->root), *facts = json_object();

    json_object_set_new(run, "file", json_string(t->path));
    if (bb_result_file_is_nccl_tests(t)) {
        add_nccl_tests(t->root, facts);
        json_object_set(run, "nccl.runtime", json_object_get(facts, "NCCL library"));
        json_object_set_new(run, "ranks", json_integer(bb_result_file_nccl_tests_ranks(t->root)));
    }
    for (int i = 0; i < 2; i++) {
        json_object_set_new(run, versions[i][0], json_pack("{s:O?}", "runtime", json_object_get(run, versions[i][1])));
        json_object_del(run, versions[i][1]);
    }
    json_decref(facts);
    return run;
}

/* ---- the list of conditions of a file, and the differences between two lists ---- */

/* Replaces seq_length null, the length of the model, by that length: the tokens of a sample. */
static void set_length(json_t *options, const json_t *root)
{
    const json_t *predicted = json_object_get(root, "predicted");
    const bool is_layout = first_layout(root) != NULL;
    const double samples =
        json_number_value(is_layout ? json_object_get(options, "global_batch_size") : json_object_get(root, "samples"));
    const double tokens = json_number_value(json_object_get(predicted, "tokens_per_s")) *
                          json_number_value(json_object_get(predicted, "step_us")) / 1e6;

    if (json_is_null(json_object_get(options, "seq_length")) && tokens > 0 && samples > 0)
        json_object_set_new(options, "seq_length", json_integer(llround(tokens / samples)));
}

/* Sets the options that the prediction assumes because they are not given: --software, and the words of
 * predicted.compute.guessed, for example "--recompute full --recompute-num-layers 2". */
static void set_assumed(json_t *options, const json_t *root)
{
    const json_t *compute = json_object_get(json_object_get(root, "predicted"), "compute"), *guess;
    char name[NAME] = "", text[VALUE];
    size_t i;

    if (json_is_null(json_object_get(options, "software")))
        json_object_set(options, "software", json_object_get(compute, "software"));
    json_array_foreach(json_object_get(compute, "guessed"), i, guess)
    {
        snprintf(text, sizeof(text), "%s", json_string_value(guess));
        for (char *rest, *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
            const bool is_name = strncmp(word, "--", 2) == 0;

            if (is_name)
                snprintf(name, sizeof(name), "%s", word + 2);
            for (char *c = name; *c; c++)
                *c = *c == '-' ? '_' : *c;
            json_object_set_new(options, name, is_name ? json_true() : json_string(word));
        }
    }
}

/* Sets the options of transformer that are not given to the values of the step, so that --pp 1 equals no --pp, and removes
 * those that follow from others. */
static void set_defaults(json_t *options, const json_t *root)
{
    static const struct {
        const char *name, *value;
    } rows[] = {{"tp", "1"}, {"pp", "1"}, {"cp", "1"}, {"ep", "1"}, {"recompute", "none"}, {"dp_sync", "all_reduce"}};
    const char *proxy = json_string_value(json_object_get(root, "proxy"));

    if (!proxy || strcmp(proxy, "transformer") != 0)
        return;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (json_is_null(json_object_get(options, rows[i].name)))
            json_object_set_new(options, rows[i].name, json_string(rows[i].value));
    json_object_del(options, "dp"); /* ranks / (tp x pp x cp) */
    if (json_is_integer(json_object_get(options, "global_batch_size")))
        json_object_del(options, "micro_batches");
}

/* Adds the options of a plan; of --best-layout, those of the fastest layout. */
static void add_plan_options(json_t *list, const json_t *root)
{
    json_t *options = json_copy(json_object_get(root, "options"));

    (void)!json_object_update_existing(options, (json_t *)first_layout(root));
    set_length(options, root);
    set_assumed(options, root);
    set_defaults(options, root);
    add_all(list, "--", options, no_setting);
    json_decref(options);
}

/* Adds the clock of the times, and whether the file records the environment. */
static void add_method(json_t *list, const struct bb_result_file *t)
{
    const bool has_env = json_object_get(t->root, bb_result_file_is_nccl_tests(t) ? "env" : "environment") != NULL;

    add_fact(list, "clock", t->n > 0 ? bb_clock_names[t->rows->clock] : NULL);
    add_fact(list, ENVIRONMENT, has_env ? "recorded" : "not recorded");
}

json_t *bb_provenance_of(const struct bb_result_file *t)
{
    json_t *list = json_object();
    char text[VALUE];

    if (bb_result_file_is_nccl_tests(t)) {
        add_nccl_tests(t->root, list);
    } else if (bb_result_file_predicted(t)) {
        /* A plan does not contain the versions, devices and environment of a machine. */
        add_fact(list, PREDICTED, bb_result_file_predicted(t));
        add_compute(list, t->root);
        add_profiles(list, t->root);
        add_fact(list, "ranks", scalar_text(json_object_get(t->root, "ranks"), text));
        add_fact(list, "nodes", scalar_text(json_object_get(t->root, "nodes"), text));
        add_plan_options(list, t->root);
    } else {
        if (t->host)
            add_fact(list, "host", t->host);
        add_busbar(t->root, list);
    }
    if (!bb_result_file_predicted(t))
        add_method(list, t);
    return list;
}

static void add_difference(json_t *list, const char *what, const char *a, const char *b)
{
    json_array_append_new(list, json_pack("{s:s, s:s?, s:s?}", "what", what, "a", a, "b", b));
}

/* Returns whether a variable or option `what` counts as a difference although the list `other` lacks it. It does not
 * count if the file format of `other` never records variables or options. */
static bool differs_if_missing(const char *what, const json_t *other)
{
    const char *name;
    json_t *value;

    if (*what == '$')
        return strcmp(json_string_value(json_object_get(other, ENVIRONMENT)), "recorded") == 0;
    json_object_foreach((json_t *)other, name, value) if (*what == '-' && *name == '-') return true;
    return false;
}

json_t *bb_provenance_differences(const json_t *a, const json_t *b)
{
    json_t *list = json_array(), *value;
    /* A plan and a run have different options, and a plan has no variables. */
    const bool comparable = !json_object_get(a, PREDICTED) == !json_object_get(b, PREDICTED);
    const char *what;

    json_object_foreach((json_t *)a, what, value)
    {
        const char *left = json_string_value(value), *right = json_string_value(json_object_get(b, what));

        if (!comparable && strchr("$-", *what))
            continue;
        if (right ? strcmp(left, right) != 0 : differs_if_missing(what, b))
            add_difference(list, what, left, right);
    }
    json_object_foreach((json_t *)b, what,
                        value) if (comparable && !json_object_get(a, what) && differs_if_missing(what, a))
        add_difference(list, what, NULL, json_string_value(value));
    return list;
}
