/* summary.c - see summary.h. */
#include "collectives/health/summary.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/results/checks.h"
#include "bootstrap/results/results.h"
#include "bootstrap/start/mpirun.h"
#include "bootstrap/sweep/argv.h"
#include "collectives/health/tables.h"
#include "collectives/health/verdict/verdict.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

enum { FINDING_LINES = 6 }; /* at least, also of a report that is longer */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static bool has_level(const json_t *object, enum bb_health_level level)
{
    return strcmp(text_of(object, "level"), bb_health_level_name(level)) == 0;
}

/* Returns whether a finding is about a part of these kinds, from `first` to `last`. */
static bool has_part(const json_t *finding, enum bb_health_part first, enum bb_health_part last)
{
    bool has = false;

    for (int part = first; part <= (int)last; part++)
        has |= strcmp(text_of(finding, "part"), bb_health_parts[part]) == 0;
    return has;
}

static int count_levels(const json_t *list, enum bb_health_level level)
{
    const json_t *object;
    size_t i;
    int n = 0;

    json_array_foreach(list, i, object) n += has_level(object, level);
    return n;
}

/* Returns the number of parts, of kinds from `first` on, with findings of this level; the link of two GPUs, or the NIC
 * that GPUs share, is one part. */
static int count_parts(const json_t *findings, enum bb_health_part first, enum bb_health_level level)
{
    json_t *names = json_object();
    const json_t *f;
    size_t i;
    int n;

    json_array_foreach(findings, i, f) if (has_level(f, level) && has_part(f, first, BB_HEALTH_ALL))
    {
        const bool is_all = strcmp(text_of(f, "part"), "all") == 0; /* "most of the cluster" once for each test */
        const char *name = text_of(f, is_all ? "reason" : "name"), *link = strstr(text_of(f, "reason"), ": GPU");
        const bool is_link = link && strstr(link, "link between them"); /* a finding for each of its two GPUs */
        const char *of_host = is_link ? link : text_of(f, "nic");
        char *cause = bb_format("%s%s", *of_host ? text_of(f, "host") : "", *of_host ? of_host : name);

        json_object_set_new(names, cause, json_null());
        free(cause);
    }
    n = (int)json_object_size(names);
    json_decref(names);
    return n;
}

int bb_health_count_failed(const json_t *findings)
{
    return count_parts(findings, BB_HEALTH_A_GPU, BB_HEALTH_FAIL);
}

/* Prints the findings that fit: the line about the others takes the place of two or more. */
static void print_findings(const json_t *root, const struct bb_health_scope *scope, FILE *out)
{
    const json_t *findings = json_object_get(root, "findings"), *f;
    const int commands = scope->drain ? count_levels(json_object_get(root, "verdicts"), BB_HEALTH_FAIL) : 0;
    const size_t n = json_array_size(findings), lines = (size_t)MAX(FINDING_LINES, scope->lines - commands),
                 shown = scope->full || n <= lines ? n : lines - 1;
    size_t i;

    json_array_foreach(findings, i, f) if (i < shown) fprintf(
        out, "%-7s %-9s %s: %s\n", text_of(f, "level"), text_of(f, "stage"), text_of(f, "name"), text_of(f, "reason"));
    if (shown < n)
        fprintf(out, "# %zu further findings: --full, --json\n", n - shown);
}

/* Prints what fails of no node, which no line for scontrol names, as a comment of the shell. any: there are such
 * lines */
static void print_undrained(const json_t *findings, bool any, FILE *out)
{
    const int failed = count_parts(findings, BB_HEALTH_A_PATH, BB_HEALTH_FAIL);
    const json_t *f;
    bool is_network;
    size_t i = 0;

    if (failed == 0)
        return;
    while ((f = json_array_get(findings, i)) && !has_part(f, BB_HEALTH_A_PATH, BB_HEALTH_ALL))
        i++; /* they are sorted: the first one fails */
    is_network = has_part(f, BB_HEALTH_A_RAIL, BB_HEALTH_FABRIC) && !strstr(text_of(f, "name"), "NIC");
    fprintf(out, "# no %snode to drain: %s: %s", any ? "other " : "",
            is_network ? "what fails is a part of the network" : "it is not known which node is the cause",
            text_of(f, "name"));
    fprintf(out, failed > 1 ? " and %d more\n" : "\n", failed - 1);
}

/* Returns a reason of a node, or its beginning if it is longer than the limit, owned by the caller. reason: freed */
static char *shorten(char *reason)
{
    const size_t length = bb_cut_length(reason, BB_DRAIN_REASON);
    char *text = bb_format("%.*s%s", (int)length, reason, reason[length] ? " .." : "");

    free(reason);
    return text;
}

void bb_health_print_drain(const json_t *root, FILE *out)
{
    const json_t *verdict;
    bool any = false;
    size_t i;

    json_array_foreach(json_object_get(root, "verdicts"), i, verdict) if (has_level(verdict, BB_HEALTH_FAIL))
    {
        const char *restricted = text_of(root, "restricted_by");
        char *reason =
            shorten(bb_format("%s%s%s", text_of(verdict, "reason"), *restricted ? "; restricted by " : "", restricted));

        for (char *c = reason; (c = strpbrk(c, "\"\\$`")); c++)
            *c = '\'';
        fprintf(out, "scontrol update nodename=%s state=drain reason=\"busbar: %s\"\n", text_of(verdict, "slurm_node"),
                reason);
        free(reason);
        any = true;
    }
    print_undrained(json_object_get(root, "findings"), any, out);
}

/* Prints how many pairs of nodes were tested, whose paths the stages between nodes judge. left: number of nodes that
 * have not failed */
static void print_paths(const json_t *paths, int nodes, int left, bool has_findings,
                        const struct bb_health_scope *scope, FILE *out)
{
    const int tested = (int)json_integer_value(json_object_get(paths, "tested")),
              total = (int)json_integer_value(json_object_get(paths, "total")), all = bb_health_all_rounds(nodes);
    const bool no_pairs =
        strcmp(scope->from && *scope->from ? scope->from : scope->only, "bisection") == 0; /* the stage was not run */

    if (total == 0 && strcmp(scope->only, "all") == 0)
        fprintf(out, "; " BB_HEALTH_NO_PATHS "one node");
    if (total == 0)
        return;
    fprintf(out, "; pairs of nodes tested: %d of %d%s", tested, total,
            tested > 0 && !has_findings ? ", none slow" : "");
    if (tested > 0 && tested < left * (left - 1) / 2 && !scope->ended_early)
        fprintf(out, "; all: %s--rounds %d", no_pairs ? "--only pairs " : "", all);
    else if (tested > 0 && !no_pairs && scope->rounds > all)
        fprintf(out, "; %d round%s all, --rounds %d adds none", all, all == 1 ? " tests" : "s test", scope->rounds);
}

static bool is_before_paths(const json_t *finding)
{
    static const char *const before[] = {"inventory", "gpu", "copies", "node"};
    bool is_before = false;

    for (size_t s = 0; s < sizeof before / sizeof *before; s++)
        is_before |= strcmp(text_of(finding, "stage"), before[s]) == 0;
    return is_before;
}

/* Returns whether a path was slow, also because of a NIC or node that is named instead. */
static bool has_slow_path(const json_t *findings)
{
    const json_t *f;
    bool any = false;
    size_t i;

    json_array_foreach(findings, i, f) any |= !is_before_paths(f) && json_is_number(json_object_get(f, "value"));
    return any;
}

/* Prints that no path was tested, or the nodes that failed before the stages of the fabric, and therefore took no part
 * in the tests of paths. A node with lost GPUs cannot take part. */
static void print_untested(const json_t *root, FILE *out)
{
    enum { SHOWN = 3 };
    json_t *hosts = json_object(), *f, *host;
    const char *name, *none = NULL;
    size_t i, n = 0;

    json_array_foreach(json_object_get(root, "verdicts"), i, f)
    {
        if (!has_level(f, BB_HEALTH_FAIL) && *text_of(f, "reason")) /* that of a node that nothing fails */
            none = text_of(f, "reason");
    }
    if (none)
        fprintf(out, "; %s", none);
    json_array_foreach(json_object_get(root, "findings"), i, f)
    {
        if (has_level(f, BB_HEALTH_FAIL) && is_before_paths(f) && *text_of(f, "host") &&
            !json_is_true(json_object_get(f, "lost_gpus")))
            json_object_set_new(hosts, text_of(f, "host"), json_null());
    }
    json_object_foreach(hosts, name, host)
    {
        if (n++ < SHOWN && !none)
            fprintf(out, "%s%s", n == 1 ? "; paths of " : ", ", name);
    }
    if (n > SHOWN && !none)
        fprintf(out, " and %zu more node%s", n - SHOWN, bb_plural(n - SHOWN));
    if (n > 0)
        fprintf(out, "%s, to test them: --only pairs", none ? "" : " not tested");
    json_decref(hosts);
}

/* Prints the missing nodes of the baseline. Returns how many findings are about them: one, or none. */
static int print_missing(const json_t *root, FILE *out)
{
    enum { SHOWN = 3 };
    const json_t *missing = json_object_get(root, "missing_hosts"), *host;
    const size_t n = json_array_size(missing);
    size_t i;

    json_array_foreach(missing, i, host)
    {
        if (i == SHOWN) {
            fprintf(out, " and %zu more", n - i);
            break;
        }
        fprintf(out, "%s%s", i ? ", " : "; missing nodes of the baseline: ", json_string_value(host));
    }
    return n > 0;
}

/* Prints how many findings are about several nodes. */
static void print_others(const json_t *root, FILE *out)
{
    int of_tests = 0, all = 0;
    const json_t *f;
    size_t i;

    json_array_foreach(json_object_get(root, "findings"), i, f)
    {
        const bool is_other = has_part(f, BB_HEALTH_A_PATH, BB_HEALTH_ALL),
                   is_test = strcmp(text_of(f, "stage"), "inventory") != 0;

        of_tests += is_other && is_test;
        all += is_other && !is_test;
    }
    all -= print_missing(root, out);
    if (all > 0)
        fprintf(out, "; %d finding%s about all hosts", all, bb_plural(all));
    if (of_tests > 0)
        fprintf(out, "; %d finding%s about paths, rails and the whole cluster", of_tests, bb_plural(of_tests));
}

/* Prints how many GPUs of each node were tested, unless all were, or their number is unknown. */
static void print_tested_gpus(const json_t *gpus, int nodes, FILE *out)
{
    const int tested = (int)json_integer_value(json_object_get(gpus, "tested")),
              total = (int)json_integer_value(json_object_get(gpus, "total"));

    if (tested < total)
        fprintf(out, "; %d of %d GPUs of %s tested", tested, total, nodes == 1 ? "the node" : "each node");
}

/* Prints the first test whose median is far above the expectation, and the number of others. */
static void print_exceeding(const json_t *tests, FILE *out)
{
    const json_t *row;
    size_t i;
    int n = 0;

    json_array_foreach(tests, i, row)
    {
        const double ratio =
            json_number_value(json_object_get(row, "median")) / json_number_value(json_object_get(row, "expected"));

        for (int test = 0; test < BB_HEALTH_TESTS; test++)
            if (strcmp(text_of(row, "test"), bb_health_tests[test].name) == 0 &&
                bb_health_exceeds((enum bb_health_test)test, ratio) && n++ == 0)
                fprintf(out, "; wrong profile or baseline? %s: %.0f %% of the expected", text_of(row, "test"),
                        100 * ratio);
    }
    if (n > 1)
        fprintf(out, ", and %d more test%s", n - 1, bb_plural(n - 1));
}

static void print_verdict(const json_t *root, const struct bb_health_scope *scope, FILE *out)
{
    const json_t *findings = json_object_get(root, "findings"), *verdicts = json_object_get(root, "verdicts");
    const int failed = bb_health_count_failed(findings),
              warned = count_parts(findings, BB_HEALTH_A_GPU, BB_HEALTH_WARN), nodes = (int)json_array_size(verdicts);
    const bool is_from = scope->from && *scope->from, is_part = is_from || strcmp(scope->only, "all") != 0;

    fprintf(out, "# ");
    if (failed > 0)
        fprintf(out, "FAILED: %d part%s%s; ", failed, bb_plural(failed),
                count_parts(findings, BB_HEALTH_A_PATH, BB_HEALTH_FAIL) == failed ? " outside the nodes" : "");
    else if (warned > 0)
        fprintf(out, "WARNING: %d part%s; ", warned, bb_plural(warned));
    if (is_part)
        fprintf(out, "only stage%s %s%s: ", is_from ? "s" : "", is_from ? scope->from : scope->only,
                is_from ? " and later" : "");
    fprintf(out, "%d node%s: %d ok, %d warn, %d fail, %d unknown", nodes, bb_plural(nodes),
            count_levels(verdicts, BB_HEALTH_OK), count_levels(verdicts, BB_HEALTH_WARN),
            count_levels(verdicts, BB_HEALTH_FAIL), count_levels(verdicts, BB_HEALTH_UNKNOWN));
    print_tested_gpus(json_object_get(root, "node_gpus"), nodes, out);
    print_others(root, out);
    print_exceeding(json_object_get(root, "tests"), out);
    print_paths(json_object_get(root, "paths"), nodes, nodes - count_levels(verdicts, BB_HEALTH_FAIL),
                has_slow_path(findings), scope, out);
    if (strcmp(scope->only, "all") == 0 && nodes > 1)
        print_untested(root, out);
    fputc('\n', out);
}

void bb_health_print_summary(const json_t *root, const struct bb_health_scope *scope, FILE *out)
{
    print_findings(root, scope, out);
    if (scope->drain)
        bb_health_print_drain(root, out);
    if (*text_of(root, "restricted_by"))
        fprintf(out, "# restricted by %s, which can lower the bus bandwidth\n", text_of(root, "restricted_by"));
    print_verdict(root, scope, out);
}

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

#define NO_DROP 0.995 /* of the reference */

void bb_health_print_soak(const json_t *root, double planned_s, FILE *out)
{
    const json_t *row, *node;
    size_t i;

    json_array_foreach(json_object_get(root, "soak"), i, row)
    {
        const double first = number_of(row, "first"), last = number_of(row, "last");
        char percent[BB_HEALTH_PERCENT_TEXT];

        fprintf(out, "# soak   %s: %.0f rounds", text_of(row, "test"), number_of(row, "rounds"));
        if (json_is_true(json_object_get(row, "before_loss")))
            fprintf(out, " in %.0f s, before a node was lost", number_of(row, "last_s"));
        else if (planned_s > 0)
            fprintf(out, " in %.0f of %.0f s, interrupted", number_of(row, "last_s"), planned_s);
        fprintf(out, ", median first %.4g, last %.4g %s (%+.1f %%)", first, last, text_of(row, "unit"),
                100 * (last / first - 1));
        if (number_of(row, "worst_ratio") > NO_DROP) {
            fprintf(out, "; none below %g %% of the %s\n", 100 * NO_DROP, text_of(row, "worst_of"));
            continue;
        }
        fputs("; lowest", out);
        if (json_is_integer(node = json_object_get(row, "node")))
            fprintf(
                out, ": GPU %.0f of %s", number_of(row, "gpu"),
                text_of(json_array_get(json_object_get(root, "verdicts"), (size_t)json_integer_value(node)), "host"));
        fprintf(out, ": %.4g after %.0f s, %s of the %s\n", number_of(row, "worst"), number_of(row, "worst_s"),
                bb_health_percent(number_of(row, "worst_ratio"), percent), text_of(row, "worst_of"));
    }
}

/* ---- a run that has ended early ---- */

/* Makes a node fail whose ranks were lost. reason: consumed. */
static void add_lost_node(json_t *root, json_t *verdict, const char *stage, json_t *reason)
{
    const char *host = text_of(verdict, "host"), *others = text_of(verdict, "reason");
    json_t *check;
    size_t i;
    char *all;

    json_array_foreach(json_object_get(root, "checks"), i, check) if (strcmp(text_of(check, "host"), host) == 0)
    {
        json_object_set_new(check, "status", json_string(bb_check_names[BB_CHECK_FAIL]));
        json_object_set_new(check, "reason", json_sprintf("%s: %s", host, json_string_value(reason)));
    }
    json_array_insert_new(
        json_object_get(root, "findings"), 0,
        json_pack(
            "{s:s, s:s, s:n, s:s, s:O, s:s, s:s, s:n, s:n, s:b, s:b, s:n, s:n, s:n, s:n, s:n, s:n, s:i, s:O, s:n}",
            "level", bb_health_level_name(BB_HEALTH_FAIL), "stage", stage, "test", "part",
            bb_health_parts[BB_HEALTH_A_NODE], "node", json_object_get(verdict, "node"), "host", host, "name", host,
            "other_node", "other_host", "one_way", false, "lost_gpus", false, "gpu", "pci", "uuid", "value", "expected",
            "median", "tries", 1, "reason", reason, "nic"));
    all = shorten(bb_format("%s%s%s", json_string_value(reason), *others ? ", " : "", others));
    json_object_set_new(verdict, "reason", json_string(all));
    free(all);
    json_object_set_new(verdict, "level", json_string(bb_health_level_name(BB_HEALTH_FAIL)));
    json_decref(reason);
}

/* Returns whether the run ended by the error of a rank, "rank 3 (HOST, GPU 1): .."; of this host, if it is not NULL. */
static bool has_failed_rank(const json_t *root, const char *host)
{
    const char *line = text_of(root, "reason"), *name = strchr(line, '(');

    return !json_object_get(root, "ended_by") && bb_begins_with(line, "rank ") && name && !strstr(line, ") is lost") &&
           !strstr(line, "remote process exited") && /* ncclRemoteError: of the peer, or of the network */
           (!host || (bb_begins_with(name + 1, host) && strchr(",)", name[1 + strlen(host)])));
}

/* Returns the number of lost ranks of a host, or of its failed ranks. first: out: the first of them */
static int count_lost(const json_t *root, const char *host, int *first)
{
    const json_t *rank;
    size_t i;
    int n = 0;

    if (has_failed_rank(root, NULL)) {
        *first = atoi(text_of(root, "reason") + strlen("rank "));
        return has_failed_rank(root, host);
    }
    json_array_foreach(json_object_get(root, "lost_ranks"), i, rank)
    {
        const json_t *device = json_array_get(json_object_get(root, "devices"), (size_t)json_integer_value(rank));

        if (strcmp(text_of(device, "host"), host) == 0 && n++ == 0)
            *first = (int)json_integer_value(rank);
    }
    return n;
}

/* Returns whether a finding is that this node was lost earlier, and the run went on without it. */
static bool was_lost(const json_t *root, const char *host)
{
    const json_t *f;
    size_t i;

    json_array_foreach(json_object_get(root, "findings"), i,
                       f) if (strcmp(text_of(f, "name"), host) == 0 &&
                              strstr(text_of(f, "reason"), " lost in stage ")) return true;
    return false;
}

/* Describes what n ranks did, `rank` first: "rank 3 failed, GPU 1: cublasLtMatmul: .." */
static json_t *describe_ranks(const json_t *root, int rank, int n, const char *stage)
{
    const char *line = text_of(root, "reason"), *gpu = strstr(line, ", GPU "), *error = strstr(line, "): ");
    const bool hangs = bb_begins_with(line, "timeout");

    if (has_failed_rank(root, NULL) && error) { /* without the place in the source file, " (FILE:LINE)" */
        const char *text = error + strlen("): "), *source = strstr(text, " ("),
                   *pci = text_of(json_array_get(json_object_get(root, "devices"), (size_t)rank), "pci");
        const bool has_gpu = gpu && gpu < error, is_named = has_gpu && *pci;

        return json_sprintf("rank %d failed%.*s%s%s%s: %.*s", rank, has_gpu ? (int)(error - gpu) : 0,
                            has_gpu ? gpu : "", is_named ? " (" : "", is_named ? pci : "", is_named ? ")" : "",
                            (int)bb_cut_length(text, source ? MIN(180, (size_t)(source - text)) : 180), text);
    }
    if (n > 1)
        return json_sprintf("rank %d and %d more %s in stage %s", rank, n - 1, hangs ? "are hanging" : "were lost",
                            stage);
    return json_sprintf("rank %d %s in stage %s", rank, hangs ? "is hanging" : "was lost", stage);
}

/* Makes the nodes unknown that are ok, in the verdicts or the checks. key: of their level or status */
static void make_unknown(json_t *list, const char *key)
{
    json_t *object;
    size_t i;

    json_array_foreach(list, i, object) if (*text_of(object, "host") &&
                                            strcmp(text_of(object, key), bb_check_names[BB_CHECK_OK]) == 0)
        json_object_set_new(object, key, json_string(bb_check_names[BB_CHECK_UNKNOWN]));
}

/* Returns whether the median of a test is missing. */
static bool has_unmeasured(const json_t *tests)
{
    const json_t *test;
    size_t i;

    json_array_foreach(tests, i, test) if (json_is_null(json_object_get(test, "median"))) return true;
    return false;
}

/* Nodes that ended the run fail. If a test was not measured, or no node and no signal is known to have ended the run,
 * no node is ok. */
static void add_lost_nodes(json_t *root, const char *stage)
{
    bool is_known = json_object_get(root, "ended_by") || bb_begins_with(text_of(root, "reason"), "wrong data");
    json_t *verdicts = json_object_get(root, "verdicts"), *verdict;
    size_t i;

    json_array_foreach(verdicts, i, verdict)
    {
        int rank = -1;
        const int n = count_lost(root, text_of(verdict, "host"), &rank);

        if (n > 0 && !was_lost(root, text_of(verdict, "host")))
            add_lost_node(root, verdict, stage, describe_ranks(root, rank, n, stage));
        is_known |= n > 0;
    }
    if (!is_known || has_unmeasured(json_object_get(root, "tests"))) {
        make_unknown(verdicts, "level");
        make_unknown(json_object_get(root, "checks"), "status");
    }
}

/* Counts the paths that were tested before the run ended, in the rows: those of the bisection only if it is the first
 * stage. */
static void count_paths(json_t *root, const json_t *rows)
{
    const char *stage = "bisection";
    json_t *pairs = json_object();
    const json_t *row;
    size_t i;

    json_array_foreach(rows, i, row) if (strcmp(text_of(row, "stage"), "pairs") == 0) stage = "pairs";
    json_array_foreach(rows, i, row) if (strcmp(text_of(row, "stage"), stage) == 0)
    {
        const int a = (int)json_integer_value(json_object_get(row, "node")),
                  b = (int)json_integer_value(json_object_get(row, "partner"));
        char *key = bb_format("%d %d", a < b ? a : b, a < b ? b : a);

        json_object_set_new(pairs, key, json_null());
        free(key);
    }
    json_object_set_new(json_object_get(root, "paths"), "tested", json_integer((json_int_t)json_object_size(pairs)));
    json_decref(pairs);
}

/* Prints the tables of `busbar bench`, which has no option --only, from the rows. */
static void print_tables(const json_t *root, const json_t *rows, bool full)
{
    const int nodes = (int)json_array_size(json_object_get(root, "verdicts"));
    struct bb_health_tables tables = {.nodes = nodes};
    const json_t *row;
    size_t i;

    if (nodes == 0 || json_object_get(json_object_get(root, "options"), "only"))
        return;
    tables.gpus = (int)json_integer_value(json_object_get(root, "ranks")) / nodes;
    json_array_foreach(rows, i, row) for (int test = 0; test < BB_HEALTH_TESTS; test++)
    {
        const json_t *partner = json_object_get(row, "partner");

        if (strcmp(text_of(row, "test"), bb_health_tests[test].name) == 0)
            bb_health_tables_add(&tables, (enum bb_health_test)test,
                                 (int)json_integer_value(json_object_get(row, "node")),
                                 (int)json_integer_value(json_object_get(row, "gpu")),
                                 json_is_integer(partner) ? (int)json_integer_value(partner) : -1,
                                 json_number_value(json_object_get(row, "value")));
    }
    bb_health_tables_print(&tables, full, stdout);
    bb_health_tables_release(&tables);
}

/* Returns whether a row, or a test with a median, is of this stage. list: of tests or rows */
static bool has_values(const json_t *list, const char *stage)
{
    const json_t *object;
    size_t i;

    json_array_foreach(list, i, object) if (strcmp(text_of(object, "stage"), stage) == 0 &&
                                            (json_object_get(object, "value") ||
                                             json_is_number(json_object_get(object, "median")))) return true;
    return false;
}

/* Prints the stages with a test that was not measured: those that were partly measured, or those of which nothing
 * was. */
static void print_rest(const json_t *root, const json_t *rows, bool partly)
{
    const json_t *tests = json_object_get(root, "tests"), *test;
    const char *last = "";
    size_t i;

    json_array_foreach(tests, i, test)
    {
        const char *stage = text_of(test, "stage");

        if (!json_is_null(json_object_get(test, "median")) || strcmp(stage, last) == 0 ||
            (has_values(tests, stage) || has_values(rows, stage)) != partly)
            continue;
        printf("%s %s", *last ? "," : partly ? "# stages partly measured:" : "# stages not measured:", stage);
        last = stage;
    }
    if (*last)
        putchar('\n');
}

/* ---- the command that continues ---- */

/* Prints a word, quoted. is_output: the name of a file, which gets ".2" before its ending, so that the file of this run
 * remains, and a collector of *.prom or *.xml finds the other one. */
static void print_word(const char *word, bool is_output)
{
    const char *base = strrchr(word, '/'), *dot = strrchr(word, '.');
    const bool has_ending = dot && dot > (base ? base + 1 : word);
    const int stem = (int)(has_ending ? (size_t)(dot - word) : strlen(word));
    char *name =
        bb_format("%.*s%s%s", stem, word, is_output && !bb_begins_with(word, "/dev/") ? ".2" : "", word + stem);

    putchar(' ');
    bb_quote(name, stdout);
    free(name);
}

/* Prints the command, which runs the stages from the given one. */
static void print_command(const json_t *root, const char *stage)
{
    static const char *const outputs[] = {"--json", "--csv", "--junit", "--prometheus", "--save-baseline"};
    const json_t *only = json_object_get(json_object_get(root, "options"), "only"), *word;
    const bool continues =
        json_is_string(only) && strcmp(json_string_value(only), "all") == 0 && strcmp(stage, BB_HEALTH_START) != 0;
    bool is_output = false;
    size_t i;

    printf(json_is_true(json_object_get(root, "emulated")) ? " busbar-emulated" : " busbar");
    json_array_foreach(json_object_get(root, "command"), i, word)
    {
        const char *text = json_string_value(word);
        bool begins = false, is_option = false;

        if (continues && bb_begins_with(text, "--from")) { /* the last line of this function replaces it */
            i += strcmp(text, "--from") == 0;
            continue;
        }
        for (size_t o = 0; o < sizeof outputs / sizeof *outputs; o++) {
            begins |= bb_begins_with(text, outputs[o]) && text[strlen(outputs[o])] == '=';
            is_option |= strcmp(text, outputs[o]) == 0;
        }
        print_word(text, is_output || begins);
        is_output = is_option;
    }
    if (continues)
        printf(" --from %s", stage);
    putchar('\n');
}

/* Prints the nodes that have failed or not, and for mpirun the number of processes of each. key: of their names */
static void print_hosts(const json_t *root, const char *key, bool is_failed, int processes)
{
    const json_t *verdict;
    const char *before = "";
    size_t i;

    json_array_foreach(json_object_get(root, "verdicts"), i,
                       verdict) if (has_level(verdict, BB_HEALTH_FAIL) == is_failed)
    {
        printf("%s%s", before, text_of(verdict, key));
        if (processes > 0)
            printf(":%d", processes);
        before = ",";
    }
}

/* Prints the command line that runs the stages from the given one on the nodes that have not failed. */
static void print_continuation(const json_t *root, const char *stage)
{
    const json_t *verdicts = json_object_get(root, "verdicts"),
                 *ranks = json_object_get(json_object_get(root, "options"), "gpus");
    const int nodes = (int)json_array_size(verdicts), left = nodes - count_levels(verdicts, BB_HEALTH_FAIL);
    const int each =
        nodes ? (int)(json_integer_value(json_object_get(root, "ranks")) / nodes / json_integer_value(ranks)) : 0;

    if (left == 0 || left == nodes || each == 0)
        return;
    if (bb_mpirun_started_us()) {
        printf("# continue: %s -n %d %s ", bb_mpirun(), left * each, bb_mpirun_hosts());
        print_hosts(root, "host", false, each);
        bb_mpirun_print_options("health", bb_quote, stdout);
    } else if (getenv("SLURM_PROCID")) {
        printf("# continue: srun --exclude=");
        print_hosts(root, "slurm_node", true, 0);
        printf(" -N %d -n %d", left, left * each);
    } else {
        return;
    }
    print_command(root, stage);
}

void bb_health_end_early(json_t *root, const json_t *rows)
{
    const json_t *options = json_object_get(root, "options");
    const char *stage = text_of(root, "stage"), *json = json_string_value(json_object_get(options, "json")),
               *csv = json_string_value(json_object_get(options, "csv"));
    const bool full = json_is_true(json_object_get(options, "full"));
    double soak_s = 0;

    if (!*stage)
        return;
    (void)!bb_parse_duration(text_of(options, "soak"), &soak_s); /* bench rails has no soak */
    add_lost_nodes(root, stage);
    count_paths(root, rows);
    if (*text_of(options, "save_baseline"))
        bb_warn("--save-baseline %s: the run ended in stage %s, so the file is no baseline; try: run it again without "
                "failed nodes",
                text_of(options, "save_baseline"), stage);
    if (bb_results_on_stdout(json, csv) || json_is_true(json_object_get(options, "nagios")))
        return;
    if (json_is_true(json_object_get(options, "quiet"))) {
        if (json_is_true(json_object_get(options, "drain")))
            bb_health_print_drain(root, stdout);
        fflush(stdout);
        return;
    }
    bb_health_print_soak(root, soak_s, stdout);
    print_tables(root, rows, full);
    bb_health_print_summary(
        root,
        &(struct bb_health_scope){*text_of(options, "only") ? text_of(options, "only") : "all",
                                  text_of(options, "from"), full, json_is_true(json_object_get(options, "drain")),
                                  (int)json_integer_value(json_object_get(options, "rounds")), 0, true},
        stdout);
    print_rest(root, rows, true);
    print_rest(root, rows, false);
    print_continuation(root, stage);
    printf("# ENDED EARLY in stage %s\n", stage);
    fflush(stdout);
}
