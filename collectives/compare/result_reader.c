/* result_reader.c - see result_reader.h. The files may come from any source, so every field is validated. */
#include "collectives/compare/result_reader.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/json_read.h"
#include "bootstrap/base/stats.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/opts.h"
#include "bootstrap/results/results.h"
#include "bootstrap/sweep/state.h"
#include "collectives/compare/nccl_tests_text.h"
#include "collectives/ops/coll.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const bb_clock_names[BB_CLOCKS] = {[BB_CLOCK_GPU] = "gpu", [BB_CLOCK_HOST] = "host"};

/* Position in the file, for error messages such as "x.json: results[3]: ..". */
struct place {
    const char *path, *list;
    size_t index;
    bool texts; /* file of nccl-tests: strings may contain numbers, and -1 means none */
};

static int reject_field(const struct place *at, const char *field, const char *expected)
{
    return bb_err(BB_EUSAGE, "%s: %s[%zu]: '%s' is not %s", at->path, at->list, at->index, field, expected);
}

/* ---- reading fields ---- */

static bool is_none(const json_t *value)
{
    return !value || json_is_null(value);
}

/* Reads a number, or a string that contains a number, as in nccl-tests' files; NaN if the value is missing. */
static bool number_of(const json_t *value, double *number, const struct place *at)
{
    const char *text = at->texts ? json_string_value(value) : NULL;
    char *end;

    if (is_none(value))
        *number = NAN;
    else if (json_is_number(value))
        *number = json_number_value(value);
    else if (!text || !*text)
        return false;
    else if (*number = strtod(text, &end), *end)
        return false;
    if (!isfinite(*number))
        *number = NAN;
    return true;
}

/* Reads an integer of 0 or more; *integer is unchanged if the value is missing. */
static bool integer_of(const json_t *value, long long *integer, const struct place *at)
{
    const char *text = at->texts ? json_string_value(value) : NULL;
    char *end;

    if (is_none(value))
        return true;
    errno = 0;
    if (json_is_integer(value))
        *integer = json_integer_value(value);
    else if (!text || !*text)
        return false;
    else if (*integer = strtoll(text, &end, 10), *end || errno)
        return false;
    return *integer >= (at->texts ? -1 : 0);
}

static int take_time(const json_t *value, const char *name, double *time_us, const struct place *at)
{
    if (!number_of(value, time_us, at) || *time_us < 0)
        return reject_field(at, name, "a time in us");
    return 0;
}

/* Returns a rate, which is only shown: NaN if it is missing or no number ("N/A" of nccl-tests). */
static double rate_of(const json_t *row, const char *name, const struct place *at)
{
    double rate;

    return number_of(json_object_get(row, name), &rate, at) && rate >= 0 ? rate : NAN;
}

static int take_integer(const json_t *row, const char *name, long long *integer, const struct place *at)
{
    *integer = -1;
    return integer_of(json_object_get(row, name), integer, at) ? 0 : reject_field(at, name, "a whole number >= 0");
}

static int take_text(const json_t *row, const char *name, bool needed, const char **text, const struct place *at)
{
    const json_t *value = json_object_get(row, name);

    *text = json_string_value(value);
    return *text || (!needed && is_none(value)) ? 0 : reject_field(at, name, "a string");
}

/* Reads the median and its 95 % confidence interval from a JSON object {p50, ci95: [low, high] | null}, or the time of `plan
 * compute`. */
static int take_stats(const json_t *stats, const char *name, struct bb_timing *t, const struct place *at)
{
    const json_t *ci = json_object_get(stats, "ci95");
    int rc;

    t->time_us = t->low_us = t->high_us = NAN;
    if (json_is_null(stats)) /* null: no time was measured for this row */
        return 0;
    if (json_is_number(stats))
        return take_time(stats, name, &t->time_us, at);
    if (!json_is_object(stats) || !json_object_get(stats, "p50"))
        return reject_field(at, name, "an object with p50");
    TRY(take_time(json_object_get(stats, "p50"), "p50", &t->time_us, at));
    if (is_none(ci))
        return 0;
    if (!json_is_array(ci) || json_array_size(ci) != 2)
        return reject_field(at, "ci95", "null or two numbers");
    TRY(take_time(json_array_get(ci, 0), "ci95", &t->low_us, at));
    TRY(take_time(json_array_get(ci, 1), "ci95", &t->high_us, at));
    if (isnan(t->low_us) != isnan(t->high_us) ||
        (!isnan(t->low_us) && !(t->low_us <= t->time_us && t->time_us <= t->high_us)))
        return reject_field(at, "ci95", "an interval that contains p50");
out:
    return rc;
}

/* ---- reading result files of busbar ---- */

static long long number_in(const json_t *row, const char *name)
{
    return json_integer_value(json_object_get(row, name));
}

static const char *word_in(const json_t *row, const char *name)
{
    const char *word = json_string_value(json_object_get(row, name));

    return word ? word : "?";
}

/* Returns the name of a row of bench compute: "gemm 4096x4096x4096/1" (m, n, k, batch), "memory copy", "timed 8 SMs 50 us". */
static json_t *name_kernel(const json_t *row)
{
    const char *section = word_in(row, "section");

    if (json_object_get(row, "m"))
        return json_sprintf("%s %lldx%lldx%lld/%lld", section, number_in(row, "m"), number_in(row, "n"),
                            number_in(row, "k"), number_in(row, "batch"));
    if (json_object_get(row, "name"))
        return json_sprintf("%s %s", section, word_in(row, "name"));
    return json_sprintf("%s %lld SMs %g us", section, number_in(row, "sms"),
                        json_number_value(json_object_get(row, "requested_us")));
}

/* Returns the name of a row of bench overlap: "all_reduce+gemm default", with the counts of both in each sample, which bench
 * chooses unless they are given: "10 all_reduce+2 gemm 8". The number is the limit on CTAs. */
static json_t *name_overlap(const json_t *row)
{
    const json_t *most = json_object_get(row, "max_ctas");
    char ctas[24] = "default", counts[2][24] = {"", ""};

    if (json_is_integer(most))
        snprintf(ctas, sizeof(ctas), "%lld", number_in(row, "max_ctas"));
    for (int i = 0; i < 2 && json_object_get(row, "gemms"); i++)
        snprintf(counts[i], sizeof(counts[i]), "%lld ", number_in(row, i == 0 ? "collectives" : "gemms"));
    return json_sprintf("%s%s+%sgemm %s", counts[0], word_in(row, "collective"), counts[1], ctas);
}

/* Sets the name of a row, such as "all_reduce". Rows of p2p, comm, overlap, copy and variants, and rows with a forced
 * algorithm, get a name composed of their distinguishing fields. The JSON tree of the file owns the name. */
static int name_row(json_t *row, struct bb_timing *t, const struct place *at)
{
    const bool has_peer = json_is_integer(json_object_get(row, "peer"));
    char peer[24] = "";
    json_t *name = NULL;

    if (has_peer)
        snprintf(peer, sizeof peer, "%lld", number_in(row, "peer"));
    if (json_object_get(row, "metric"))
        name = json_sprintf("%s %lld>%lld %s", word_in(row, "metric"), number_in(row, "from"), number_in(row, "to"),
                            word_in(row, "direction"));
    else if (json_object_get(row, "step"))
        name = json_sprintf("%s, %lld ranks, %lld parts", word_in(row, "step"), number_in(row, "ranks"),
                            number_in(row, "parts"));
    else if (json_object_get(row, "both_us"))
        name = name_overlap(row);
    else if (json_object_get(row, "section"))
        name = name_kernel(row);
    else if (json_object_get(row, "engine"))
        name = json_sprintf("rank%s %lld%s%s %s %s %s %s%s", has_peer ? "s" : "", number_in(row, "rank"),
                            has_peer ? ">" : "", peer, word_in(row, "link"), word_in(row, "direction"),
                            word_in(row, "engine"), word_in(row, "memory"),
                            json_is_true(json_object_get(row, "concurrent")) ? " at once" : "");
    else if (json_object_get(row, "variant"))
        name = json_sprintf("%s %s", word_in(row, "collective"), word_in(row, "variant"));
    else if (json_is_true(json_object_get(row, "forced")))
        name =
            json_sprintf("%s %s/%s", word_in(row, "collective"), word_in(row, "algorithm"), word_in(row, "protocol"));
    else if (json_is_integer(json_object_get(row, "group"))) /* --split */
        name = json_sprintf("%s group %lld", word_in(row, "collective"), number_in(row, "group"));
    if (name && json_object_set_new(row, "name in comparisons", name) == 0)
        return take_text(row, "name in comparisons", true, &t->what, at);
    return take_text(row, "collective", true, &t->what, at);
}

/* Reads the ranks that determine the time of a row of bench p2p, bench compute or bench copy, with their hosts. */
static int take_ranks(const json_t *row, const json_t *devices, struct bb_timing *t, const struct place *at)
{
    static const char *const keys[3][2] = {{"from", "to"}, {"slowest_rank", NULL}, {"rank", "peer"}};
    const json_t *slowdown = json_object_get(row, "slowdown"), *same = json_object_get(row, "same_node");
    const char *const *key = keys[json_object_get(row, "engine") ? 2 : json_is_number(slowdown)];
    int rc = 0;

    t->ranks[0] = t->ranks[1] = -1;
    t->slowdown = json_is_number(slowdown) ? json_number_value(slowdown) : NAN;
    t->same_node = json_is_boolean(same) ? json_is_true(same) : -1;
    for (int i = 0; i < 2 && key[i]; i++) {
        TRY(take_integer(row, key[i], &t->ranks[i], at));
        t->hosts[i] = json_string_value(
            json_object_get(t->ranks[i] < 0 ? NULL : json_array_get(devices, (size_t)t->ranks[i]), "host"));
    }
out:
    return rc;
}

static int bench_row(json_t *row, const json_t *devices, struct bb_timing *t, const struct place *at)
{
    const char *time = json_object_get(row, "both_us") ? "both_us" : "time_us";
    int rc;

    TRY(take_ranks(row, devices, t, at));
    TRY(name_row(row, t, at));
    TRY(take_integer(row, "bytes", &t->bytes, at));
    TRY(take_text(row, "dtype", false, &t->dtype, at));
    TRY(take_text(row, "op", false, &t->op, at));
    TRY(take_integer(row, "root", &t->root, at));
    TRY(take_text(row, "placement", false, &t->placement, at));
    TRY(take_text(row, "mode", false, &t->mode, at));
    TRY(take_integer(row, "group", &t->group, at));
    TRY(take_integer(row, "cycle", &t->cycle, at));
    TRY(take_integer(row, "wrong", &t->wrong, at));
    TRY(take_text(row, "algorithm", false, &t->algorithm, at));
    TRY(take_text(row, "protocol", false, &t->protocol, at));
    TRY(take_integer(row, "channels", &t->channels, at));
    TRY(take_stats(json_object_get(row, time), time, t, at));
    TRY(take_time(json_object_get(json_object_get(row, "wall_us"), "p50"), "wall_us", &t->wall_us, at));
    t->busbw_gbps = rate_of(row, "busbw_gbps", at);
    t->tflops = NAN;
out:
    return rc;
}

/* Returns the ranks of each host, in the order of its GPUs: {"node0": [0, 1], ...}. */
static json_t *ranks_of_hosts(const json_t *devices)
{
    json_t *hosts = json_object(), *device;
    size_t rank;

    json_array_foreach(devices, rank, device)
    {
        const char *host = word_in(device, "host");

        if (!json_object_get(hosts, host))
            json_object_set_new(hosts, host, json_array());
        json_array_append_new(json_object_get(hosts, host), json_integer((json_int_t)rank));
    }
    return hosts;
}

/* Returns the rank of GPU `gpu` of a host; -1: unknown. */
static long long rank_of(const json_t *hosts, const char *host, long long gpu)
{
    const json_t *rank = json_array_get(json_object_get(hosts, host), (size_t)gpu);

    return rank ? json_integer_value(rank) : -1;
}

/* What the value in a row of health is of: all GPUs of a rail, of a node or of the job have the value of their group. */
struct scope {
    bool of_node, of_gpu;
};

static struct scope scope_of(const char *stage)
{
    const bool is_whole = strcmp(stage, "whole") == 0;

    return (struct scope){!is_whole && strcmp(stage, "rails") != 0, !is_whole && strcmp(stage, "node") != 0};
}

/* Names a value of health by what it measures: "pairs node4 GPU 0 > node7", "GEMM node4 GPU 0 (0000:01:00.0)".
 *   host   without: ""
 *   other  host of the partner; NULL: none
 *   gpu    of a value of a GPU or a rail: "GPU 0" */
static json_t *health_name(const json_t *row, const char *host, const char *other, const char *gpu)
{
    const char *stage = word_in(row, "stage");
    const bool has_tests = strcmp(stage, "gpu") == 0 || strcmp(stage, "copies") == 0 || strcmp(stage, "rails") == 0;
    const struct scope scope = scope_of(stage);

    return json_sprintf("%s%s%s%s%s%s%s", has_tests ? word_in(row, "test") : stage, scope.of_node && *host ? " " : "",
                        scope.of_node ? host : "",
                        !scope.of_gpu   ? ""
                        : scope.of_node ? " "
                                        : ", ",
                        scope.of_gpu ? gpu : "", other ? " > " : "", other ? other : "");
}

/* Names a row of health.
 *   by_pci   match it by the PCI address of its GPU, not by its number
 *   is_alone match it with rows of other nodes, too */
static void name_health_row(struct bb_timing *t, bool by_pci, bool is_alone)
{
    const char *host = is_alone || !t->hosts[0] ? "" : t->hosts[0], *pci = word_in(t->row, "pci");
    char gpu[128];
    int n = snprintf(gpu, sizeof gpu, "GPU %lld", number_in(t->row, "gpu"));
    json_t *key;

    by_pci = by_pci && t->hosts[0];
    if (by_pci)
        snprintf(gpu + n, sizeof gpu - (size_t)n, " (%.64s)", pci);
    key = health_name(t->row, host, t->hosts[1], by_pci ? pci : gpu);
    json_object_set_new(t->row, "name in comparisons", health_name(t->row, host, t->hosts[1], gpu));
    json_object_set_new(t->row, "key in comparisons", key);
    t->what = word_in(t->row, "name in comparisons");
    t->key = word_in(t->row, "key in comparisons");
}

const struct bb_test_size bb_test_sizes[BB_TEST_SIZES] = {
    {"nodes", "number of nodes"}, {"GPUs per node", "number of GPUs per node"}, {"bytes", "message size"}};

size_t bb_health_bytes(size_t bytes, bool quick)
{
    return bytes > 0 ? bytes : quick ? 64 << 20 : 512 << 20;
}

size_t bb_result_health_bytes(const json_t *root)
{
    const json_t *options = json_object_get(root, "options");

    return bb_health_bytes((size_t)json_integer_value(json_object_get(options, "size")),
                           json_is_true(json_object_get(options, "quick")));
}

/* Returns the sizes of each test of several GPUs. Its values depend on the number of GPUs per node and the message size, those of
 * more than two nodes also on the number of nodes with a value: `--expect FILE` of health has the same rule. */
static json_t *count_test_sizes(const json_t *root, const json_t *results)
{
    const long long ranks = number_in(root, "ranks"), nodes = number_in(root, "nodes");
    json_t *tests = json_object(), *sizes = json_object(), *row, *hosts;
    const char *name;
    size_t i;

    json_array_foreach((json_t *)results, i, row)
    {
        const char *stage = word_in(row, "stage"), *test = word_in(row, "test"), *host = word_in(row, "host");

        if (!stage || !test || !host || strcmp(stage, "gpu") == 0 || strcmp(stage, "copies") == 0)
            continue;
        if (!json_object_get(tests, test))
            json_object_set_new(tests, test, json_object());
        if (strcmp(stage, "node") != 0 && strcmp(stage, "pairs") != 0)
            json_object_set_new(json_object_get(tests, test), host, json_null());
    }
    json_object_foreach(tests, name, hosts)
        json_object_set_new(sizes, name,
                            json_pack("{s:I, s:I, s:I}", bb_test_sizes[0].name, (json_int_t)json_object_size(hosts),
                                      bb_test_sizes[1].name, (json_int_t)(nodes > 0 ? ranks / nodes : 0),
                                      bb_test_sizes[2].name, (json_int_t)bb_result_health_bytes(root)));
    json_decref(tests);
    return sizes;
}

/* Returns whether a value of health is that of a group, and in an earlier row, too. groups: the names of such values so far */
static bool is_repeated(json_t *groups, const json_t *row)
{
    const struct scope scope = scope_of(word_in(row, "stage"));
    const char *name = word_in(row, "name in comparisons");

    if (scope.of_node && scope.of_gpu)
        return false;
    if (json_object_get(groups, name))
        return true;
    json_object_set_new(groups, name, json_null());
    return false;
}

/* Reads a value of health as the time in us of 1 GB, or of 1 TFLOP. verdicts: of the file, with the host of each node */
static int health_row(json_t *row, const json_t *hosts, const json_t *verdicts, const json_t *sizes,
                      struct bb_timing *t, const struct place *at)
{
    const json_t *partner = json_object_get(row, "partner");
    const char *stage, *test, *host, *unit, *other = NULL;
    const long long gpu = number_in(row, "gpu");
    struct scope scope;
    double value;
    int rc;

    TRY(take_text(row, "stage", true, &stage, at));
    TRY(take_text(row, "test", true, &test, at));
    TRY(take_text(row, "host", true, &host, at));
    TRY(take_text(row, "unit", false, &unit, at));
    if (!number_of(json_object_get(row, "value"), &value, at) || !(value > 0))
        return reject_field(at, "value", "a number > 0");
    if (json_is_integer(partner))
        other = word_in(json_array_get(verdicts, (size_t)json_integer_value(partner)), "host");
    scope = scope_of(stage);
    *t = (struct bb_timing){.row = row,
                            .bytes = -1,
                            .root = -1,
                            .group = -1,
                            .cycle = -1,
                            .wrong = -1,
                            .channels = -1,
                            .ranks = {scope.of_node && scope.of_gpu ? rank_of(hosts, host, gpu) : -1,
                                      other ? rank_of(hosts, other, gpu) : -1},
                            .hosts = {scope.of_node ? host : NULL, other},
                            .test = json_object_get(sizes, test) ? test : NULL,
                            .same_node = -1,
                            .slowdown = NAN,
                            .time_us = 1e6 / value,
                            .low_us = NAN,
                            .high_us = NAN,
                            .busbw_gbps = unit && strcmp(unit, "GB/s") == 0 ? value : NAN,
                            .tflops = unit && strcmp(unit, "TFLOP/s") == 0 ? value : NAN};
    name_health_row(t, false, false);
out:
    return rc;
}

bool bb_result_file_is_health(const struct bb_result_file *t)
{
    const char *schema = json_string_value(json_object_get(t->root, "schema"));

    return schema && strcmp(schema, "busbar.health/1") == 0;
}

/* Returns the clock of the times of a result of bench; NONE: the mode has no choice of clocks. */
static enum bb_clock bench_clock(const struct bb_result_file *t)
{
    const char *clock = json_string_value(json_object_get(json_object_get(t->root, "options"), "clock"));

    if (!clock || bb_result_file_predicted(t))
        return BB_CLOCK_NONE;
    return strcmp(clock, "host") == 0 ? BB_CLOCK_HOST : BB_CLOCK_GPU;
}

static int read_bench(struct bb_result_file *t)
{
    const json_t *results = json_object_get(t->root, "results"), *devices = json_object_get(t->root, "devices");
    const bool is_health = bb_result_file_is_health(t);
    json_t *hosts, *groups;
    int rc = 0;

    if (!json_is_array(results))
        return bb_err(BB_EUSAGE, "%s: no list 'results' in the file", t->path);
    hosts = ranks_of_hosts(devices);
    groups = json_object();
    t->test_sizes = is_health ? count_test_sizes(t->root, results) : NULL;
    BB_NEW(t->rows, json_array_size(results));
    for (size_t i = 0; i < json_array_size(results); i++) {
        const struct place at = {t->path, "results", i, false};
        json_t *row = json_array_get(results, i);
        struct bb_timing *timing = &t->rows[t->n];

        if (is_health && number_in(row, "attempt") > 1)
            continue;
        TRY(is_health ? health_row(row, hosts, json_object_get(t->root, "verdicts"), t->test_sizes, timing, &at)
                      : bench_row(row, devices, timing, &at));
        timing->clock = bench_clock(t);
        t->n += !is_health || !is_repeated(groups, row);
    }
out:
    json_decref(groups);
    json_decref(hosts);
    return rc;
}

/* Adds the only row of a proxy's results or plan: the training step. Sets the name of the row; the caller sets its
 * times. */
static int add_step(struct bb_result_file *t, const struct place *at)
{
    BB_NEW(t->rows, 1);
    t->rows[t->n++] = (struct bb_timing){.mode = "step",
                                         .bytes = -1,
                                         .root = -1,
                                         .group = -1,
                                         .cycle = -1,
                                         .wrong = -1,
                                         .ranks = {-1, -1},
                                         .same_node = -1,
                                         .slowdown = NAN,
                                         .low_us = NAN,
                                         .high_us = NAN,
                                         .busbw_gbps = NAN,
                                         .tflops = NAN};
    return take_text(t->root, "proxy", true, &t->rows->what, at);
}

static int read_proxy(struct bb_result_file *t)
{
    const struct place at = {t->path, "step_us", 0, false};
    const json_t *step_us = json_object_get(t->root, "step_us");
    int rc;

    TRY(add_step(t, &at));
    TRY(take_integer(json_object_get(t->root, "check"), "wrong", &t->rows->wrong, &at));
    if (!step_us && bb_incomplete_status(t->root)) /* the run ended before it had timed a step */
        step_us = json_null();
    TRY(take_stats(step_us, "step_us", t->rows, &at));
out:
    return rc;
}

/* ---- reading plans (predictions by `busbar plan`) ---- */

const char *bb_result_file_predicted(const struct bb_result_file *t)
{
    return json_string_value(json_object_get(json_object_get(t->root, "predicted"), "cluster"));
}

const json_t *bb_result_jittered_us(const json_t *root)
{
    const json_t *median = bb_sweep_follow(root, "predicted.jitter.step_us.p50");

    return median ? median : bb_sweep_follow(root, "best_layout.layouts.0.p50_step_us");
}

/* Reads the rows of a plan. A plan of collectives has the same rows as bench; a plan of a proxy has one row, the
 * training step. Predicted times have no intervals. */
static int read_plan(struct bb_result_file *t)
{
    const json_t *predicted = json_object_get(t->root, "predicted"), *jittered = bb_result_jittered_us(t->root);
    const struct place at = {t->path, "predicted", 0, false};
    int rc;

    if (!bb_result_file_predicted(t))
        return bb_err(BB_EUSAGE, "%s: a plan without times; busbar plan --cluster predicts times", t->path);
    if (json_object_get(t->root, "results"))
        return read_bench(t);
    TRY(add_step(t, &at));
    TRY(take_time(jittered ? jittered : json_object_get(predicted, "step_us"), "step_us", &t->rows->time_us, &at));
out:
    return rc;
}

/* ---- reading result files of nccl-tests ---- */

/* Derives the collective from the program's path: "/opt/bin/all_reduce_perf" becomes "all_reduce". */
static void name_program(struct bb_result_file *t)
{
    const char *text = json_string_value(json_array_get(json_object_get(t->root, "args"), 0));
    char *suffix;

    t->program = bb_copy_text(text ? bb_base_name(text) : "unknown");
    suffix = strstr(t->program, "_perf");
    if (suffix)
        *suffix = '\0';
}

static const char *nccl_tests_mode(const json_t *config)
{
    const json_t *blocking = json_object_get(config, "blocking_collectives");
    const char *text = json_string_value(blocking);
    const struct place at = {.texts = true};
    long long graph = 0;

    if (integer_of(json_object_get(config, "graph"), &graph, &at) && graph > 0)
        return "graph";
    return json_is_true(blocking) || (text && strcmp(text, "true") == 0) ? "sync" : "stream";
}

/* Computes the median and its confidence interval from the times of all iterations in `list`. */
static int take_samples(const json_t *list, struct bb_timing *t, const struct place *at)
{
    size_t n = json_array_size(list);
    struct bb_stats stats;
    double *samples;
    int rc = 0;

    BB_NEW(samples, n);
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = take_time(json_array_get(list, i), "times_us", &samples[i], at);
        if (rc == 0 && isnan(samples[i]))
            rc = reject_field(at, "times_us", "a list of times");
    }
    TRY(rc);
    bb_stats_compute(samples, n, &stats);
    t->time_us = stats.p50;
    t->low_us = stats.ci95[0];
    t->high_us = stats.ci95[1];
out:
    free(samples);
    return rc;
}

static int read_nccl_tests_times(const json_t *row, bool in_place, struct bb_timing *t, const struct place *at)
{
    const char *name = in_place ? "in_place" : "out_of_place";
    const json_t *times = json_object_get(row, name);
    const json_t *each = json_object_get(row, in_place ? "in_place_per_iter" : "out_of_place_per_iter");
    const json_t *samples = json_object_get(each, "times_us"), *time = json_object_get(times, "time");
    double wrong;
    int rc;

    if (!json_is_object(times))
        return reject_field(at, name, "an object");
    if (!number_of(json_object_get(times, "nwrong"), &wrong, at) || wrong < 0 || wrong > 1e18)
        return reject_field(at, "nwrong", "a count or null");
    t->wrong = isnan(wrong) ? -1 : (long long)wrong;
    t->placement = name;
    t->low_us = t->high_us = NAN;
    t->wall_us = NAN;
    t->clock = BB_CLOCK_GPU; /* of single iterations */
    t->busbw_gbps = rate_of(times, "bus_bw", at);
    if (json_array_size(samples) > 0)
        return take_samples(samples, t, at);
    t->clock = BB_CLOCK_HOST;
    if (!time && json_object_get(times, "cpu_time"))
        t->mode = "host"; /* the host's time to enqueue (-C 1), as in the files of bench */
    TRY(take_time(time ? time : json_object_get(times, "cpu_time"), "time", &t->time_us, at));
out:
    return rc;
}

static int read_nccl_tests_row(struct bb_result_file *t, const json_t *row, const struct place *at)
{
    struct bb_timing common = {.what = t->program,
                               .group = -1,
                               .cycle = -1,
                               .ranks = {-1, -1},
                               .same_node = -1,
                               .slowdown = NAN,
                               .tflops = NAN};
    int rc;

    common.mode = nccl_tests_mode(json_object_get(t->root, "config"));
    TRY(take_integer(row, "size", &common.bytes, at));
    TRY(take_text(row, "type", true, &common.dtype, at));
    TRY(take_text(row, "redop", false, &common.op, at));
    TRY(take_integer(row, "root", &common.root, at));
    if (common.op && (strcmp(common.op, "none") == 0 || strcmp(t->program, "sendrecv") == 0))
        common.op = NULL;
    for (int in_place = 0; in_place < 2; in_place++) {
        if (is_none(json_object_get(row, in_place ? "in_place" : "out_of_place")))
            continue;
        t->rows[t->n] = common;
        TRY(read_nccl_tests_times(row, in_place, &t->rows[t->n], at));
        t->n++;
    }
out:
    return rc;
}

static int read_nccl_tests(struct bb_result_file *t)
{
    const json_t *results = json_object_get(t->root, "results");
    size_t n = json_array_size(results);
    int rc = 0;

    name_program(t);
    BB_NEW(t->rows, 2 * n);
    for (size_t i = 0; i < n && rc == 0; i++) {
        const struct place at = {t->path, "results", i, true};

        rc = read_nccl_tests_row(t, json_array_get(results, i), &at);
    }
    return rc;
}

/* ---- steps of training ---- */

const json_t *bb_result_breakdown(const json_t *step, const char **role)
{
    const json_t *slowest = json_object_get(step, "breakdown"), *roles = json_object_get(step, "breakdown_by_role"),
                 *one;
    const char *wanted = *role;
    size_t i;

    *role = NULL;
    json_array_foreach(roles, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "role"));

        if (wanted && name && strcmp(name, wanted) == 0) {
            *role = name;
            return one;
        }
        if (json_equal(json_object_get(one, "rank"), json_object_get(slowest, "rank")))
            *role = name;
    }
    return slowest;
}

/* ---- detection of the format ---- */

static bool is_step(const struct bb_timing *row)
{
    return row->mode && strcmp(row->mode, "step") == 0;
}

bool bb_result_file_is_step(const struct bb_result_file *t)
{
    return t->n == 1 && is_step(t->rows);
}

const char *bb_timing_size(const struct bb_timing *row, char text[BB_TIMING_SIZE])
{
    char bytes[BB_BYTES_TEXT];

    snprintf(text, BB_TIMING_SIZE, "%s", is_step(row) ? " step" : "");
    if (row->bytes >= 0)
        snprintf(text, BB_TIMING_SIZE, " %s", bb_format_bytes((size_t)row->bytes, bytes));
    return text;
}

int bb_result_file_is_nccl_tests(const struct bb_result_file *t)
{
    return !json_object_get(t->root, "schema") && json_is_integer(json_object_get(t->root, "version")) &&
           json_is_array(json_object_get(t->root, "results"));
}

int bb_result_file_from_tree(struct bb_result_file *t, const char *path, json_t *root)
{
    static const struct {
        const char *schema;
        int (*read)(struct bb_result_file *t);
    } readers[] = {{"busbar.bench/1", read_bench},
                   {"busbar.proxy/1", read_proxy},
                   {"busbar.plan/1", read_plan},
                   {"busbar.health/1", read_bench}};
    const char *schema = json_string_value(json_object_get(root, "schema"));

    *t = (struct bb_result_file){.path = bb_visible_text(path), .root = root};
    for (size_t i = 0; schema && i < sizeof(readers) / sizeof(*readers); i++)
        if (strcmp(schema, readers[i].schema) == 0)
            return readers[i].read(t);
    if (schema)
        return bb_err(BB_EUSAGE,
                      "%s: schema '%.60s' has no times to compare; expected busbar.bench/1, busbar.proxy/1, "
                      "busbar.plan/1 or busbar.health/1",
                      path, schema);
    if (bb_result_file_is_nccl_tests(t))
        return read_nccl_tests(t);
    if (json_object_get(t->root, "traceEvents"))
        return bb_err(BB_EUSAGE,
                      "%s: busbar reads no traces of profilers; try: busbar plan or proxy with the options of this run "
                      "and --json FILE, and compare its step time with the trace",
                      path);
    return bb_err(
        BB_EUSAGE,
        "%s: not a result file; expected busbar.bench/1, busbar.proxy/1, busbar.plan/1 or the JSON of nccl-tests",
        path);
}

enum { MAX_STATED = 100000 }; /* ranks that a user may state */

/* Splits "all_reduce=run.log" and "all_reduce:16x2=run.log" into operation, numbers of ranks and nodes, and path. A word that
 * is only a path states nothing. */
static int split_word(const char *word, struct bb_nccl_tests_output *p)
{
    const char *names[BB_COLL_KIND_COUNT], *equals = strchr(word, '=');
    char name[40], *colon;
    int kind, end = 0;

    p->path = word;
    if (!equals || access(word, F_OK) == 0)
        return 0;
    snprintf(name, sizeof(name), "%.*s", (int)(equals - word < 39 ? equals - word : 39), word);
    colon = strchr(name, ':');
    if (colon) {
        if (sscanf(colon, ":%7dx%7d%n", &p->ranks, &p->nodes, &end) != 2 || colon[end] || p->nodes < 1 ||
            p->ranks < p->nodes || p->ranks > MAX_STATED)
            return bb_err(BB_EUSAGE,
                          "'%s': expected OPERATION:RANKSxNODES=FILE, up to %d ranks, for example "
                          "all_reduce:16x2=run.log",
                          word, MAX_STATED);
        *colon = '\0';
    }
    kind = bb_coll_find(name);
    for (int k = 0; k < BB_COLL_KIND_COUNT; k++)
        names[k] = bb_colls[k].name;
    if (kind < 0)
        return bb_reject_unknown("operation", name, names, BB_COLL_KIND_COUNT);
    p->operation = bb_colls[kind].name;
    p->path = equals + 1;
    return 0;
}

/* Returns the first character other than white space: '{' in result files of busbar and nccl-tests, another one in printed
 * output. lines: out, number of blank lines skipped. The stream may be a pipe, so it is read only once. */
static int first_character(FILE *file, int *lines)
{
    int c = getc(file);

    for (*lines = 0; c == ' ' || c == '\t' || c == '\r' || c == '\n'; c = getc(file))
        *lines += c == '\n';
    if (c != EOF)
        ungetc(c, file);
    return c;
}

const char *bb_incomplete_status(const json_t *root)
{
    const char *status = json_string_value(json_object_get(root, "status"));
    static const char *const whole[] = {"ok", "does not fit"};

    for (size_t i = 0; status && i < sizeof(whole) / sizeof(whole[0]); i++)
        if (strcmp(status, whole[i]) == 0)
            return NULL;
    return bb_is_below_threshold(root) ? NULL : status;
}

bool bb_is_below_threshold(const json_t *root)
{
    const char *status = json_string_value(json_object_get(root, "status"));

    return status && strcmp(status, "below threshold") == 0;
}

void bb_warn_if_incomplete(const char *path, const json_t *root, bool reference)
{
    const char *status = json_string_value(json_object_get(root, "status")),
               *reason = json_string_value(json_object_get(root, "reason"));

    if (bb_incomplete_status(root))
        bb_warn("%s: the run ended with status '%.40s'; rows may be missing%s%.240s", path, status, reason ? ": " : "",
                reason ? reason : "");
    else if (reference && bb_is_below_threshold(root))
        bb_warn("%s: the run ended with status 'below threshold', so it is a doubtful reference%s%.240s", path,
                reason ? ": " : "", reason ? reason : "");
}

void bb_warn_if_restricted(const char *path, const json_t *root)
{
    const char *there = json_string_value(json_object_get(root, "restricted_by"));
    char *here = bb_json_restrictions(NULL, NULL);

    if (json_is_true(json_object_get(root, "shared_gpu")))
        bb_warn("%s: several ranks shared a GPU, so it is a doubtful reference", path);
    else if (there && (!here || strcmp(there, here) != 0))
        bb_warn("%s: measured with %s, which can lower the bandwidth, so it is a doubtful reference", path, there);
    free(here);
}

/* Writes the slow part of `bench p2p` or `proxy`: "rank 5 (node2)", "path from node 1 (node1) to node 2". */
static int write_slow_part(const json_t *slow, char text[BB_SLOW_TEXT])
{
    const char *level = json_string_value(json_object_get(slow, "level"));
    const json_t *from = json_object_get(slow, level ? "from" : "rank"), *to = json_object_get(slow, "to");
    const json_t *node = json_object_get(slow, "node"), *other = json_object_get(slow, "other_node");
    const bool one_way = level && strcmp(level, "one_way_path") == 0;
    const char *host = json_string_value(json_object_get(slow, "host")),
               *pci = json_string_value(json_object_get(slow, "pci"));
    int n;

    if (level && strcmp(level, "class") == 0)
        return snprintf(text, BB_SLOW_TEXT, "all links %s",
                        json_is_true(json_object_get(slow, "same_node")) ? "inside a node" : "between nodes");
    if (json_is_integer(other))
        return snprintf(text, BB_SLOW_TEXT, "path %s node %lld (%.64s) %s node %lld", one_way ? "from" : "between",
                        (long long)json_integer_value(node), host ? host : "?", one_way ? "to" : "and",
                        (long long)json_integer_value(other));
    n = snprintf(text, BB_SLOW_TEXT, "%.16s", level ? level : "rank");
    if (json_is_integer(from))
        n += snprintf(text + n, BB_SLOW_TEXT - (size_t)n, " %lld", (long long)json_integer_value(from));
    if (json_is_integer(to))
        n += snprintf(text + n, BB_SLOW_TEXT - (size_t)n, " to %lld", (long long)json_integer_value(to));
    if (host)
        n += snprintf(text + n, BB_SLOW_TEXT - (size_t)n, " (%.64s%s%.16s)", host, pci ? ", " : "", pci ? pci : "");
    return n;
}

const char *bb_result_slow_text(const json_t *slow, char text[BB_SLOW_TEXT])
{
    const json_t *worst = json_object_get(slow, "worst_slowdown"), *median = json_object_get(slow, "median");
    const char *metric = json_string_value(json_object_get(slow, "metric"));
    int n = write_slow_part(slow, text);

    if (json_is_string(json_object_get(slow, "level")))
        n += snprintf(text + n, BB_SLOW_TEXT - (size_t)n, ": %.16s %.2f %s", metric ? metric : "?",
                      json_number_value(json_object_get(slow, "value")),
                      metric && strcmp(metric, "latency") == 0 ? "us" : "GB/s");
    else
        snprintf(text + n, BB_SLOW_TEXT - (size_t)n, ": GPU %lld, kernels take up to %.2f x the typical time",
                 (long long)json_integer_value(json_object_get(slow, "gpu")),
                 json_number_value(worst ? worst : json_object_get(slow, "slowdown")));
    if (json_is_number(median)) /* null: there are no other links */
        snprintf(text + n, BB_SLOW_TEXT - (size_t)n, ", other links %.2f", json_number_value(median));
    return text;
}

bool bb_result_file_same_model(const struct bb_result_file *a, const struct bb_result_file *b)
{
    const json_t *n_a = json_object_get(a->root, "parameters"), *n_b = json_object_get(b->root, "parameters");
    const double x = json_number_value(n_a), y = json_number_value(n_b);
    const char *name_a = json_string_value(json_object_get(json_object_get(a->root, "options"), "model"));
    const char *name_b = json_string_value(json_object_get(json_object_get(b->root, "options"), "model"));

    if (x > 0 && y > 0)
        return fabs(x - y) <= 0.01 * x;
    return !name_a || !name_b || strcmp(name_a, name_b) == 0;
}

static int load_trees(const char *word, bool several, const char **path, json_t **list)
{
    struct bb_nccl_tests_output p = {.several = several};
    const char *problem;
    json_t *root = NULL;
    int rc, first;

    *list = NULL;
    TRY(split_word(word, &p));
    *path = p.path;
    p.file = bb_input_open(p.path, &problem);
    TRY(p.file ? 0 : bb_err(errno == ENOMEM ? BB_EFAIL : BB_EUSAGE, "%s: %s", p.path, problem));
    first = first_character(p.file, &p.lines);
    if (first == '\0') /* /dev/zero is a line without end */
        rc = bb_err(BB_EUSAGE, "%s: begins with a zero byte, expected JSON or nccl-tests output", p.path);
    else if (first != '{') /* '[' does not begin JSON, because the tags of mpirun begin with '[' */
        rc = bb_nccl_tests_text_read(&p, list);
    else if (p.operation)
        rc = bb_err(BB_EUSAGE, "%s: a JSON file contains its operation; leave out %s=", p.path, p.operation);
    else if ((rc = bb_json_load_from(p.file, p.path, &root)) == 0)
        *list = json_pack("[o]", root);
    bb_json_blank(*list);
out:
    if (p.file)
        fclose(p.file);
    return rc;
}

int bb_result_trees_load(const char *word, const char **path, json_t **list)
{
    return load_trees(word, true, path, list);
}

int bb_result_tree_load(const char *word, const char **path, json_t **root)
{
    json_t *list;
    const int rc = load_trees(word, false, path, &list);

    *root = json_incref(json_array_get(list, 0));
    json_decref(list);
    return rc;
}

int bb_result_file_load(struct bb_result_file *t, const char *word)
{
    const char *path;
    json_t *root;
    int rc;

    *t = (struct bb_result_file){0};
    rc = bb_result_tree_load(word, &path, &root);
    return rc ? rc : bb_result_file_from_tree(t, path, root);
}

void bb_result_files_align_clocks(struct bb_result_file *files, int n)
{
    bool host = false;

    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < files[i].n; k++)
            host |= files[i].rows[k].clock == BB_CLOCK_HOST;
    for (int i = 0; i < n && host; i++)
        for (size_t k = 0; k < files[i].n; k++) {
            struct bb_timing *row = &files[i].rows[k];

            if (row->clock != BB_CLOCK_GPU || !(row->wall_us > 0))
                continue;
            row->busbw_gbps *= row->time_us / row->wall_us;
            row->time_us = row->wall_us;
            row->low_us = row->high_us = NAN; /* one sample, except in mode sync */
            row->clock = BB_CLOCK_HOST;
            files[i].uses_wall = true;
        }
}

/* Returns the host of a result of health of one node; NULL: of several, or unknown. */
static const char *only_host(const struct bb_result_file *t)
{
    const json_t *verdicts = json_object_get(t->root, "verdicts");

    return json_array_size(verdicts) == 1 ? json_string_value(json_object_get(json_array_get(verdicts, 0), "host"))
                                          : NULL;
}

/* Returns the PCI addresses of the GPUs of a result of health, as keys of a new object; NULL: one is unknown. */
static json_t *pci_addresses(const struct bb_result_file *t)
{
    json_t *addresses = json_object();

    for (size_t k = 0; k < t->n; k++) {
        const char *pci = json_string_value(json_object_get(t->rows[k].row, "pci"));

        if (!pci) {
            json_decref(addresses);
            return NULL;
        }
        json_object_set_new(addresses, pci, json_null());
    }
    return addresses;
}

/* Returns whether the PCI addresses of both files are known and those of one file are all in the other. */
static bool have_same_slots(const struct bb_result_file *a, const struct bb_result_file *b)
{
    json_t *left = pci_addresses(a), *right = pci_addresses(b), *all = json_object(), *larger;

    (void)!json_object_update(all, left);
    (void)!json_object_update(all, right);
    larger = json_object_size(left) > json_object_size(right) ? left : right;
    const bool same = left && right && json_object_size(all) == json_object_size(larger);

    json_decref(left);
    json_decref(right);
    json_decref(all);
    return same;
}

void bb_result_files_pair_gpus(struct bb_result_file *files, int n)
{
    const char *first = only_host(&files[0]);
    bool has_pci = true, same_slots = true, each_alone = first, differ = false;

    for (int i = 0; i < n; i++) {
        const char *host = only_host(&files[i]);
        json_t *addresses;

        if (!bb_result_file_is_health(&files[i]))
            return;
        each_alone = each_alone && host;
        differ |= each_alone && strcmp(host, first) != 0;
        addresses = pci_addresses(&files[i]);
        has_pci &= addresses != NULL;
        json_decref(addresses);
        same_slots = same_slots && have_same_slots(&files[0], &files[i]);
    }
    each_alone &= differ;
    for (int i = 0; i < n; i++) {
        files[i].host = each_alone ? only_host(&files[i]) : NULL;
        for (size_t k = 0; k < files[i].n; k++)
            name_health_row(&files[i].rows[k], each_alone ? same_slots : has_pci, each_alone);
    }
}

void bb_result_file_release(struct bb_result_file *t)
{
    free(t->path);
    json_decref(t->root);
    json_decref(t->test_sizes);
    free(t->program);
    free(t->rows);
    *t = (struct bb_result_file){0};
}
