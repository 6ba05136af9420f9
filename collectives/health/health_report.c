/* health_report.c - see health_report.h. */
#include "collectives/health/health_report.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/results/checks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

static const char *host_of(const struct bb_health_report *r, int node)
{
    return r->hosts[node];
}

static const char *stage_of(const struct bb_health_finding *f)
{
    if (f->soak_s > 0 || (f->lost && f->test == BB_HEALTH_TESTS))
        return "soak";
    return f->test == BB_HEALTH_TESTS ? "inventory" : bb_health_tests[f->test].stage;
}

static bool is_about_node(const struct bb_health_finding *f, int node)
{
    return f->part <= BB_HEALTH_A_NIC && f->node == node;
}

/* ---- texts ---- */

/* Returns the rank of the GPU with this index on a node; -1: none, or the run went on without the node. */
static int rank_at(const struct bb_health_report *r, int node, int gpu)
{
    const struct bb_world *w = &r->session->world;
    int n = 0;

    for (int rank = 0; rank < w->size && gpu >= 0; rank++)
        if (w->node_of[rank] == node && n++ == gpu)
            return rank;
    return -1;
}

/* Returns the GPU with this index on a node; NULL: none, or the run went on without the node. */
static const struct bb_device_info *device_at(const struct bb_health_report *r, int node, int gpu)
{
    const int rank = rank_at(r, node, gpu);

    return rank < 0 ? NULL : &r->session->devices[rank];
}

/* Returns the GPU of a finding about one; NULL: it is about none, or the run went on without its node. */
static const struct bb_device_info *device_of(const struct bb_health_report *r, const struct bb_health_finding *f)
{
    return f->part <= BB_HEALTH_A_NIC ? device_at(r, f->node, f->gpu) : NULL;
}

enum { GPU_TEXT = 48 + BB_NICS_TEXT };

/* Names the GPU of a finding: "GPU 2 (0000:1b:00.0)", of one about a NIC with the NICs near it: "GPU 2 (GPU
 * 0000:1b:00.0; one of mlx5_4, mlx5_5)"; "": none. Its number depends on CUDA_VISIBLE_DEVICES. */
static const char *gpu_text(const struct bb_health_report *r, const struct bb_health_finding *f, char text[GPU_TEXT])
{
    const struct bb_device_info *d = device_of(r, f);
    const char *nics = d && r->nics ? r->nics[rank_at(r, f->node, f->gpu)] : "";

    text[0] = '\0';
    if (d && f->part == BB_HEALTH_A_NIC)
        snprintf(text, GPU_TEXT, "GPU %d (GPU %s%s%s%s)", f->gpu, d->pci, *nics ? "; " : "",
                 strchr(nics, ',') ? "one of " : "", nics);
    else if (d)
        snprintf(text, GPU_TEXT, "GPU %d (%s)", f->gpu, d->pci);
    else if (f->gpu >= 0)
        snprintf(text, GPU_TEXT, "GPU %d", f->gpu);
    return text;
}

/* Returns whether a slow leaf has half of the nodes: then the uplinks of the other nodes may be the slow ones. */
static bool is_either_leaf(const struct bb_health_report *r, const struct bb_health_finding *f)
{
    return f->part == BB_HEALTH_A_LEAF &&
           (bb_health_count_leaves(r->health) == 2 || 2 * (f->other - f->node + 1) >= bb_health_active(r->health));
}

/* Describes the part of a finding: "NIC of GPU 2 (GPU 0000:1b:00.0) of node1". */
static const char *part_text(const struct bb_health_report *r, const struct bb_health_finding *f, char text[256])
{
    char one[GPU_TEXT], gpu[GPU_TEXT + 4] = "";

    gpu_text(r, f, one);
    if (f->gpu >= 0)
        snprintf(gpu, sizeof gpu, " (%s)", one);
    switch (f->part) {
    case BB_HEALTH_A_GPU:
        snprintf(text, 256, "%s of %s", one, host_of(r, f->node));
        break;
    case BB_HEALTH_A_NODE:
        snprintf(text, 256, "%s", host_of(r, f->node));
        break;
    case BB_HEALTH_A_NIC:
        snprintf(text, 256, "NIC of %s of %s", one, host_of(r, f->node));
        break;
    case BB_HEALTH_A_PATH:
        snprintf(text, 256, "path %s %s %s %s%s", f->one_way ? "from" : "between", host_of(r, f->node),
                 f->one_way ? "to" : "and", host_of(r, f->other), gpu);
        break;
    case BB_HEALTH_A_RAIL:
        snprintf(text, 256, "rail of GPU %d%s", f->gpu,
                 f->test < BB_HEALTH_RAILS_ALONE    ? f->whole ? "" : " on most nodes"
                 : r->health->skip[BB_HEALTH_PAIRS] ? ", or one NIC of it"
                                                    : "");
        break;
    case BB_HEALTH_A_LEAF:
        snprintf(text, 256, "leaf switch of %s to %s%s%s", host_of(r, f->node), host_of(r, f->other), gpu,
                 is_either_leaf(r, f) ? ", or of the other nodes" : "");
        break;
    case BB_HEALTH_FABRIC:
        snprintf(text, 256, r->health->skip[BB_HEALTH_PAIRS] ? "fabric, or NICs" : "fabric");
        break;
    case BB_HEALTH_ALL:
        snprintf(text, 256, "%s",
                 f->test == BB_HEALTH_WHOLE   ? "all nodes together"
                 : f->test == BB_HEALTH_TESTS ? "all nodes"
                 : f->whole                   ? "the whole cluster"
                                              : "most of the cluster");
        break;
    }
    return text;
}

/* Returns whether a finding has its level for its distance from its peers, not for its part of the reference. */
static bool is_outlier(const struct bb_health_finding *f)
{
    const double reference = isfinite(f->expected) ? f->expected : f->median;

    return !*f->text && f->slow == 0 && f->soak_s <= 0 && f->level >= BB_HEALTH_WARN &&
           isfinite(f->value / reference) && bb_health_judge(f->value / reference) < f->level;
}

enum { HINT = 128 };
#define MARGIN 1.05 /* between a measured value and the default limit of the command that is to find the part again */

/* Returns what a value is judged against: an outlier, its peers. */
static double reference_of(const struct bb_health_finding *f)
{
    return isfinite(f->expected) && !is_outlier(f) ? f->expected : f->median;
}

/* Returns the part of the reference that a value reaches. */
static double part_of(const struct bb_health_finding *f)
{
    return f->value / reference_of(f);
}

/* Names the link that may be slow in place of a GPU, if exactly one other GPU of its node has the same slow copy to its
 * slowest peer. Returns whether there is one. */
static bool name_link(const struct bb_health *h, const struct bb_health_finding *f, char text[HINT])
{
    const double equal = 0.97; /* noise of single measurements: BB_HEALTH_PERCENT of compare */
    int other = -1, n = 0;

    for (size_t i = 0; i < h->n; i++) {
        const struct bb_health_finding *g = &h->findings[i];

        if (g->test != BB_HEALTH_SLOWEST_PEER || g->part != BB_HEALTH_A_GPU || g->node != f->node || g->gpu == f->gpu)
            continue;
        n++;
        if (fmin(f->value, g->value) > equal * fmax(f->value, g->value))
            other = g->gpu;
    }
    if (f->test != BB_HEALTH_SLOWEST_PEER || f->part != BB_HEALTH_A_GPU || *f->text || n != 1 || other < 0)
        return false;
    n = snprintf(text, HINT, ": GPU %d, GPU %d, or the link between them; to find which: busbar bench copy",
                 MIN(f->gpu, other), MAX(f->gpu, other));
    if (1 / part_of(f) < 1.2 * MARGIN) /* so fast a link is not slow by the default, 1.2 */
        snprintf(text + n, (size_t)(HINT - n), " --slow %.2f", (1 + 1 / part_of(f)) / 2);
    return true;
}

/* Returns whether a finding is a slow pair of NICs, or a rail, of the only two nodes that took part: only links to
 * other NICs separate them. */
static bool is_only_pair(const struct bb_health *h, const struct bb_health_finding *f)
{
    const bool is_rail = f->part == BB_HEALTH_A_RAIL && f->test >= BB_HEALTH_RAILS_ALONE && h->skip[BB_HEALTH_PAIRS];
    const int nodes = f->test < BB_HEALTH_TESTS && h->took_part[f->test] > 0 ? h->took_part[f->test] : h->nodes;

    return ((f->part == BB_HEALTH_A_PATH && f->gpu >= 0) || is_rail) && h->gpus > 1 && nodes == 2;
}

/* Writes the command that finds the slow end, with a limit between the measured part and 1 if its default, 0.8, may not
 * find it. */
static void write_p2p(const struct bb_health_finding *f, char text[HINT])
{
    const int n = snprintf(text, HINT, "; to find which end: busbar bench p2p");

    if (part_of(f) * MARGIN > 0.8)
        snprintf(text + n, (size_t)(HINT - n), " --slow %.2f", (1 + part_of(f)) / 2);
}

/* Returns whether the uplinks of a leaf switch may be the cause of a slow node, or of its only NIC: no other node of its leaf took
 * part in the stage pairs, so no pair separates the two. */
static bool is_alone_in_leaf(const struct bb_health *h, const struct bb_health_finding *f)
{
    return f->test == BB_HEALTH_PAIRS && bb_health_count_leaves(h) > 1 && f->node >= 0 &&
           bb_health_leaf_nodes(h, f->node) == 1 &&
           (f->part == BB_HEALTH_A_NODE || (f->part == BB_HEALTH_A_NIC && h->gpus == 1));
}

/* Returns whether a NIC of either end may be the cause of a slow path: the two are the only nodes of their leaf, and uplinks leave
 * pairs with other leaves no more than this path has. */
static bool is_end_hidden(const struct bb_health *health, const struct bb_health_finding *f)
{
    struct bb_health h = *health;
    const int leaf = h.tiers[0].nodes;

    return f->part == BB_HEALTH_A_PATH && f->test == BB_HEALTH_PAIRS && bb_health_count_leaves(&h) > 1 &&
           f->node / leaf == f->other / leaf && bb_health_leaf_nodes(&h, f->node) == 2 &&
           bb_health_uplink_share(&h, NULL, f->node, f->node >= leaf ? 0 : leaf) < MARGIN * part_of(f);
}

/* Returns the causes of a finding about pairs that no tested pair separates; NULL: there is only one. */
static const char *causes_of_pair(const struct bb_health *h, const struct bb_health_finding *f)
{
    const int nodes = h->took_part[BB_HEALTH_PAIRS], leaves = bb_health_count_leaves(h);
    const bool is_alone = is_alone_in_leaf(h, f),
               is_only = f->part == BB_HEALTH_A_PATH && f->test == BB_HEALTH_PAIRS && nodes == 2;

    return f->untested               ? NULL
           : is_alone && leaves == 2 ? ": its NICs, or the uplinks of its leaf switch or of that of the other nodes"
           : is_alone                ? ": its NICs, or the uplinks of its leaf switch, where no other node is tested"
           : is_end_hidden(h, f) ? ": the path, or a NIC of either end, as uplinks limit their pairs with other leaves"
           : is_only && leaves == 2 ? ": the path, a NIC of either end, or uplinks, because no other pair is tested"
           : is_only                ? ": the path, or a NIC of either end, because no other pair is tested"
           : f->part == BB_HEALTH_ALL && f->test == BB_HEALTH_PAIRS && nodes == 3
               ? ": a common cause, or slow NICs of two of the three nodes"
               : NULL;
}

/* What a finding means, or what separates its causes; the first row that applies. */
static void write_hint(const struct bb_health_report *r, const struct bb_health_finding *f, char text[HINT])
{
    const int nodes = r->health->took_part[BB_HEALTH_PAIRS];
    const bool is_late = f->test >= BB_HEALTH_BISECTION && f->test < BB_HEALTH_TESTS,
               no_pairs = r->health->skip[BB_HEALTH_PAIRS],
               has_untested = f->part >= BB_HEALTH_A_RAIL && is_late && !no_pairs &&
                              bb_health_matrix_pairs(r->matrix, r->health->nodes) < nodes * (nodes - 1) / 2,
               is_shared =
                   f->part == BB_HEALTH_FABRIC || (f->test >= BB_HEALTH_RAILS_ALONE && f->part == BB_HEALTH_A_RAIL);
    const char *const pairs = causes_of_pair(r->health, f);
    char p2p[HINT], untested[HINT];
    const struct {
        bool applies;
        const char *text;
    } hints[] = {
        {is_only_pair(r->health, f), p2p},
        {has_untested, untested},
        {f->part == BB_HEALTH_ALL && is_late && no_pairs,
         ": a slow NIC or path, or a common cause; to find which: busbar health --only pairs"},
        {pairs, pairs},
        {f->part == BB_HEALTH_ALL && r->baseline, ": a common cause, or a baseline of another machine"},
        {f->part == BB_HEALTH_ALL && *r->source, ": a common cause, or the wrong profile"},
        {f->part == BB_HEALTH_ALL, ": a common cause"},
        {f->untested, ": not tested with a fast partner"},
        {f->part == BB_HEALTH_A_NODE && f->test >= BB_HEALTH_PAIRS && bb_health_domain_nodes(r->health) < 2,
         ": the NICs of all its GPUs"},
        {f->part == BB_HEALTH_A_NODE && f->test != BB_HEALTH_NODE, ": all its GPUs"},
        {f->part == BB_HEALTH_A_RAIL && f->whole, ": at most one of its tested NICs is healthy"},
        {f->part == BB_HEALTH_A_LEAF,
         ": only in pairs with other nodes, whose paths are named only if they are much slower"},
        {is_outlier(f), ": an outlier"},
        {is_shared && no_pairs, "; to find which: busbar health --only pairs"},
        {f->part == BB_HEALTH_FABRIC, ": only while all pairs run at once"},
        {true, ""},
    };
    int i = 0;

    write_p2p(f, p2p);
    snprintf(untested, HINT, ": a common cause, or an untested path; try: --rounds %d",
             bb_health_all_rounds(r->health->nodes));
    while (!hints[i].applies)
        i++;
    if (f->soak_s > 0)
        snprintf(text, HINT, f->slow > 0 ? ", only in the first round" : ", after %.0f s", f->soak_s);
    else if (f->slow > 0)
        snprintf(text, HINT, ": slow in %d of %d measurements", f->slow, f->tries);
    else if (!name_link(r->health, f, text))
        snprintf(text, HINT, "%s", hints[i].text);
    bb_name_program(text, HINT);
}

/* Describes what a finding is: "all_reduce of GPU pairs 24.1 GB/s, 50 % of the expected 48.0". */
static const char *reason_text(const struct bb_health_report *r, const struct bb_health_finding *f, char text[256])
{
    const char *of = f->soak_s > 0                             ? bb_soak_reference_name(f->soak_reference, f->test)
                     : isfinite(f->expected) && !is_outlier(f) ? "expected"
                     : f->of_faster                            ? "faster peers' median"
                                                               : "peers' median";
    const struct bb_health_test_row *test = &bb_health_tests[f->test];
    const bool is_item = f->test == BB_HEALTH_TESTS; /* about a node, so its name does not contain the GPU */
    const bool is_cut = f->test == BB_HEALTH_BISECTION;
    char hint[HINT], gpu[GPU_TEXT], percent[BB_HEALTH_PERCENT_TEXT];

    write_hint(r, f, hint);
    gpu_text(r, f, gpu);
    if (*f->text)
        snprintf(text, 256, "%.64s%s%s", is_item ? gpu : "", is_item && *gpu ? ": " : "", f->text);
    else if (isnan(f->value))
        snprintf(text, 256, "%s: not measured, no partner left; try: --rounds 2", test->name);
    else
        snprintf(text, 256, "%s%s%s%s %.4g %s, %s of the %s %.4g%s", test->name, is_cut ? " (" : "",
                 is_cut ? bb_health_cuts[r->health->cut] : "", is_cut ? ")" : "", f->value, test->unit,
                 bb_health_percent(part_of(f), percent), of, reference_of(f), hint);
    return text;
}

static double planned_s(const struct bb_health_report *r, int test)
{
    return bb_health_seconds(r->health, r->options, (enum bb_health_test)test);
}

static bool has_host(const struct bb_health_report *r, const char *host)
{
    for (int node = 0; node < r->health->nodes; node++)
        if (strcmp(host, host_of(r, node)) == 0)
            return true;
    return false;
}

/* Returns whether no host of the baseline takes part in this run. */
static bool has_other_hosts(const struct bb_health_report *r)
{
    const json_t *verdicts = json_object_get(r->baseline, "verdicts"), *verdict;
    size_t i;

    json_array_foreach(verdicts, i, verdict)
    {
        const json_t *host = json_object_get(verdict, "host");

        if (!json_is_string(host) || has_host(r, json_string_value(host)))
            return false;
    }
    return json_array_size(verdicts) > 0;
}

/* Returns the hosts of the baseline that are missing in this run; none, if it is of other hosts. */
static json_t *missing_hosts(const struct bb_health_report *r)
{
    const json_t *verdicts = json_object_get(r->baseline, "verdicts"), *verdict;
    json_t *list = json_array();
    size_t i;

    if (has_other_hosts(r))
        return list;
    json_array_foreach(verdicts, i, verdict)
    {
        json_t *host = json_object_get(verdict, "host");

        if (json_is_string(host) && !has_host(r, json_string_value(host)))
            json_array_append(list, host);
    }
    return list;
}

/* Writes the stages of more than two nodes that the baseline has with another number of nodes than `nodes` to text:
 * "rails and whole". Returns the number of nodes of the first one in the baseline; 0: none. */
static int other_nodes(const struct bb_health_report *r, int nodes, char text[64])
{
    const char *stages[BB_HEALTH_TESTS] = {NULL};
    int first = 0, n = 0, used = 0;

    *text = '\0';
    for (int test = BB_HEALTH_BISECTION; test < BB_HEALTH_TESTS; test++) {
        const int measured = bb_health_baseline_nodes(r->baseline, (enum bb_health_test)test);

        if (measured == 0 || measured == nodes || !bb_health_runs(r->health, (enum bb_health_test)test) ||
            (n > 0 && strcmp(stages[n - 1], bb_health_tests[test].stage) == 0))
            continue;
        first = n == 0 ? measured : first;
        stages[n++] = bb_health_tests[test].stage;
    }
    for (int i = 0; i < n; i++)
        used += snprintf(text + used, (size_t)(64 - used), "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " and ", stages[i]);
    return first;
}

/* Prints what differs between the nodes of the baseline and those of this run, and adds the finding. */
static void report_missing(const struct bb_health_report *r)
{
    const size_t all = json_array_size(json_object_get(r->baseline, "verdicts"));
    char stages[64];
    const int others = other_nodes(r, r->health->nodes, stages), nodes = others > 0 ? others : (int)all;
    const int gpus = (int)(json_integer_value(json_object_get(r->baseline, "ranks")) /
                           json_integer_value(json_object_get(r->baseline, "nodes")));
    struct bb_health_finding f = bb_health_remark(BB_HEALTH_TESTS, BB_HEALTH_ALL, BB_HEALTH_WARN, -1, -1, -1);
    json_t *missing = missing_hosts(r), *host;
    const size_t n = json_array_size(missing);
    size_t i, used;

    used = (size_t)snprintf(f.text, sizeof f.text, "%zu of the %zu node%s of the baseline %s missing:", n, all,
                            bb_plural(all), n == 1 ? "is" : "are");
    json_array_foreach(missing, i, host)
    {
        const char *name = json_string_value(host);

        if (used + strlen(name) + strlen(", and 10000 more") >= sizeof f.text) {
            snprintf(f.text + used, sizeof f.text - used, " and %zu more", n - i);
            break;
        }
        used += (size_t)snprintf(f.text + used, sizeof f.text - used, " %s%s", name, i + 1 < n ? "," : "");
    }
    if (n > 0)
        bb_health_add(r->health, &f);
    if (r->session->out && nodes > 0 && (others > 0 || nodes != r->health->nodes || has_other_hosts(r)))
        fprintf(r->session->out, "# baseline: %d node%s%s, this run has %d%s%s%s\n", nodes, bb_plural((size_t)nodes),
                (size_t)nodes < all ? " without failed ones" : "", r->health->nodes,
                has_other_hosts(r) ? " and no host of the baseline" : "", others > 0 ? "; no expected values for " : "",
                stages);
    if (r->session->out && gpus != r->health->gpus)
        fprintf(r->session->out,
                "# baseline: %d GPU%s per node, this run has %d; expected values only for single GPUs\n", gpus,
                bb_plural(gpus), r->health->gpus);
    json_decref(missing);
}

enum { OTHERS_SHOWN = 8 };

/* Prints the GPUs with another value of an item, a node whose GPUs have the same one once. */
static void print_others(const struct bb_health_report *r, const json_t *others)
{
    const size_t n = json_array_size(others), gpus = (size_t)r->health->gpus;
    size_t i = 0;

    for (size_t shown = 0, end; i < n && shown < OTHERS_SHOWN; i = end, shown++) {
        const json_t *other = json_array_get(others, i), *host = json_object_get(other, "host"),
                     *value = json_object_get(other, "value");
        char gpu[32] = "";

        for (end = i + 1; end < n && json_equal(json_object_get(json_array_get(others, end), "host"), host) &&
                          json_equal(json_object_get(json_array_get(others, end), "value"), value);)
            end++;
        if (end - i < gpus) {
            end = i + 1;
            snprintf(gpu, sizeof gpu, " GPU %d", (int)json_integer_value(json_object_get(other, "gpu")));
        }
        fprintf(r->session->out, "#   %s%s: %s\n", json_string_value(host), gpu,
                json_is_string(value) ? json_string_value(value) : "unknown");
    }
    if (i < n)
        fprintf(r->session->out, "#   and %zu GPU%s more\n", n - i, bb_plural(n - i));
}

void bb_health_print_inventory(const struct bb_health_report *r)
{
    FILE *out = r->session->out;
    int n[BB_CHECK_STATUSES] = {0};
    const json_t *item;
    size_t i;

    if (!out || json_array_size(r->inventory) == 0)
        return;
    json_array_foreach(r->inventory, i, item)
    {
        const char *usual = json_string_value(json_object_get(item, "usual")),
                   *level = json_string_value(json_object_get(item, "level"));

        for (int k = 0; k < BB_CHECK_STATUSES; k++)
            n[k] += strcmp(level, bb_check_names[k]) == 0;
        if (r->session->detail)
            fprintf(out, "# inventory %-32s %-8s %s\n", json_string_value(json_object_get(item, "item")), level,
                    usual                                                  ? usual
                    : json_array_size(json_object_get(item, "others")) > 0 ? "different:"
                                                                           : "-");
        if (r->session->detail)
            print_others(r, json_object_get(item, "others"));
    }
    fprintf(out, "# inventory: %d items ok, %d warn, %d fail, %d unknown%s\n", n[0], n[1], n[2], n[3],
            r->session->detail ? "" : "; --full lists them");
    fflush(out);
}

void bb_health_print_head(const struct bb_health_report *r)
{
    FILE *out = r->session->out;
    double all = r->options->soak_s;
    bool runs_any = false; /* without a test, the machine is not looked up */

    bb_session_print_head(r->session);
    if (!out) {
        if (r->baseline)
            report_missing(r);
        return;
    }
    for (int test = 0; test < BB_HEALTH_TESTS; test++)
        runs_any |= bb_health_runs(r->health, (enum bb_health_test)test);
    if (r->session->device.emulated)
        fprintf(out, "# emulated GPUs: all values come from a model, none is a measurement of hardware\n");
    fprintf(
        out, "# expected: %s\n",
        r->source[0] ? r->source
        : !runs_any  ? r->options->soak_s > 0
                           ? "nothing of a profile; the soak compares values with those of its first rounds"
                           : "nothing of a profile; this stage compares GPUs with each other"
        : r->health->nodes * r->health->gpus < BB_HEALTH_REFERENCE_PEERS
            ? "unknown machine, and too few GPUs to compare with each other: no rate is judged"
            : "unknown machine: GPUs and nodes are compared with each other, so what slows all of them is not found");
    if (r->baseline)
        report_missing(r);
    for (int test = 0; test < BB_HEALTH_TESTS; test++)
        all += planned_s(r, test);
    fprintf(out, "# estimated time%s: %.0f s, without repeated tests of suspects",
            r->session->device.emulated ? " on real GPUs" : "", all);
    for (int test = 0, n = 0; test < BB_HEALTH_TESTS; test++)
        if (planned_s(r, test) > 0)
            fprintf(out, "%s %s %.0f s", n++ ? "," : ":", bb_health_tests[test].name, planned_s(r, test));
    fprintf(out, r->options->soak_s > 0 ? "; soak %.0f s\n" : "\n", r->options->soak_s);
    fflush(out);
}

/* Describes the part that explains a median below its expectation. Returns NULL if the median is not low, or nothing
 * does. */
static const char *explain(const struct bb_health_report *r, enum bb_health_test test, char text[256])
{
    const struct bb_health *h = r->health;
    const double ratio = h->median[test] / (h->expected[test] * h->share[test]);
    const bool is_low = isfinite(ratio) && bb_health_judge(ratio) != BB_HEALTH_OK;
    const struct bb_health_finding *f = is_low ? bb_health_explaining(h, test, ratio) : NULL;

    return f ? part_text(r, f, text) : NULL;
}

static bool has_line(const struct bb_health *h, int test)
{
    return isfinite(h->median[test]) || bb_health_runs(h, (enum bb_health_test)test);
}

static void print_lowest(const struct bb_health_report *r, int test)
{
    const struct bb_health *h = r->health;
    const int node = h->lowest_gpu[test] / h->gpus, gpu = h->lowest_gpu[test] % h->gpus;
    const struct bb_device_info *d = device_at(r, node, gpu);

    fprintf(r->session->out, ", lowest %.4g", h->lowest[test]);
    if (d && bb_health_tests[test].part == BB_HEALTH_A_GPU)
        fprintf(r->session->out, " (GPU %d, %s%s%s)", gpu, d->pci, h->nodes > 1 ? ", " : "",
                h->nodes > 1 ? host_of(r, node) : "");
}

static const char *peers_text(enum bb_health_test test)
{
    const enum bb_health_part part = bb_health_tests[test].part;

    return part == BB_HEALTH_A_GPU ? "GPUs" : part == BB_HEALTH_A_NODE ? "nodes" : "rails";
}

/* Prints the median of the pairs of nodes in one of several NVLink domains. */
static void print_inside(const struct bb_health *h, FILE *out)
{
    fprintf(out, "; in an NVLink domain %.4g", h->inside_median);
    if (isfinite(h->inside))
        fprintf(out, ", expected %.4g", h->inside);
}

/* Prints what is expected of a median, and of single pairs with different parts of shared uplinks. */
static void print_expected(const struct bb_health_report *r, int test)
{
    FILE *out = r->session->out;
    const struct bb_health *h = r->health;
    const double expected = h->expected[test] * h->share[test], *shares = h->shares[test];

    fprintf(out, ", expected %.4g", expected);
    if (shares[0] < shares[1])
        fprintf(out, " (of each pair %.4g to %.4g, by its uplinks)", h->expected[test] * shares[0],
                h->expected[test] * shares[1]);
    else if (h->share[test] < 1)
        fprintf(out, test == BB_HEALTH_PAIRS ? " by its uplinks" : " while all pairs share uplinks");
    if (bb_health_exceeds((enum bb_health_test)test, h->median[test] / expected))
        fprintf(out, "; warning: wrong %s?", r->baseline ? "baseline" : "profile");
}

void bb_health_print_tests(const struct bb_health_report *r, int first, int end)
{
    FILE *out = r->session->out;
    const struct bb_health *h = r->health;
    char text[256];

    bb_progress_clear(&r->session->progress);
    for (int test = MAX(first, 0); test < end && out; test++) {
        const double median = h->median[test];

        if (!has_line(h, test))
            continue;
        fprintf(out, "# %-6s %s%s: ", bb_health_tests[test].stage, bb_health_tests[test].name,
                test == BB_HEALTH_GEMM ? " of bfloat16" : "");
        if (isnan(median))
            fprintf(out,
                    (test == BB_HEALTH_PEERS || test == BB_HEALTH_SLOWEST_PEER) && isfinite(h->median[BB_HEALTH_TO_GPU])
                        ? "not measured, no GPU can access another's memory"
                    : bb_health_active(h) > 0 ? "not run, too few nodes are left"
                    : h->nodes > 1            ? "not run, all nodes failed earlier tests"
                                              : "not run, the node failed an earlier test");
        else
            fprintf(out, "median%s%s %.4g %s", h->of_faster[test] ? " of the faster " : "",
                    h->of_faster[test] ? peers_text((enum bb_health_test)test) : "", median,
                    bb_health_tests[test].unit);
        if (isfinite(median) && test == BB_HEALTH_BISECTION)
            fprintf(out, " (slowest cut: %s)", bb_health_cuts[h->cut]);
        if (h->lowest[test] > 0 && h->lowest[test] < BB_HEALTH_OUTLIER * median)
            print_lowest(r, test);
        if (isfinite(median) && isfinite(h->expected[test]))
            print_expected(r, test);
        else if (isfinite(median) && r->source[0] && bb_health_tests[test].part == BB_HEALTH_A_GPU)
            fprintf(out, h->took_part[test] * h->gpus < BB_HEALTH_REFERENCE_PEERS
                             ? ", not judged: too few GPUs to compare with each other"
                             : ", compared with the other GPUs");
        if (test == BB_HEALTH_PAIRS && isfinite(h->inside_median))
            print_inside(h, out);
        if (isfinite(median) && h->took_part[test] < h->nodes)
            fprintf(out, ", %d of %d nodes", h->took_part[test], h->nodes);
        if (explain(r, (enum bb_health_test)test, text))
            fprintf(out, "; explained by: %s", text);
        fprintf(out, "\n");
    }
    if (out)
        fflush(out);
}

static json_t *number_or_null(int value)
{
    return value < 0 ? json_null() : json_integer(value);
}

json_t *bb_health_soak_json(const struct bb_health_report *r)
{
    json_t *list = json_array();

    if (r->soak_before)
        json_array_extend(list, r->soak_before);
    for (int i = 0; i < BB_SOAK_TESTS && r->soak; i++) {
        const struct bb_soak *s = &r->soak[i];

        if (s->rounds > 0)
            json_array_append_new(
                list,
                json_pack("{s:s, s:s, s:i, s:o, s:o, s:f, s:o, s:o, s:s, s:o, s:o, s:o}", "test",
                          bb_health_tests[s->test].name, "unit", bb_health_tests[s->test].unit, "rounds", s->rounds,
                          "first", bb_json_real(s->first), "last", bb_json_real(s->last), "last_s", s->last_s, "worst",
                          bb_json_real(s->worst_value), "worst_ratio", bb_json_real(s->worst), "worst_of",
                          bb_soak_reference_name(s->reference, s->test), "worst_s", bb_json_real(s->worst_s), "node",
                          number_or_null(s->node), "gpu", number_or_null(s->gpu)));
    }
    return list;
}

enum { DRAIN_TEXT = 96, DRAIN_ITEM = DRAIN_TEXT + 8 + GPU_TEXT };

/* Describes a finding about a node briefly: "NIC of GPU 2 (GPU 0000:1b:00.0) at 50 %". */
static const char *brief_text(const struct bb_health_report *r, const struct bb_health_finding *f,
                              char text[DRAIN_ITEM])
{
    char gpu[GPU_TEXT], percent[BB_HEALTH_PERCENT_TEXT];

    gpu_text(r, f, gpu);
    if (*f->text)
        snprintf(text, DRAIN_ITEM, "%s%s%.*s", gpu, *gpu ? " " : "",
                 (int)MIN(bb_cut_length(f->text, DRAIN_TEXT), strcspn(f->text, ";")), f->text);
    else
        snprintf(text, DRAIN_ITEM, "%s%s%s%s%s at %s", f->part == BB_HEALTH_A_NIC ? "NIC of " : "", gpu,
                 f->part == BB_HEALTH_A_GPU ? " " : "", f->part == BB_HEALTH_A_NIC ? "" : bb_health_tests[f->test].name,
                 is_outlier(f) ? " outlier" : "", bb_health_percent(part_of(f), percent));
    return text;
}

/* Describes all that fails of a node: the reason in the line for scontrol. Returns NULL if nothing does. */
static const char *node_reason(const struct bb_health_report *r, int node, char reason[BB_DRAIN_REASON + DRAIN_ITEM])
{
    char item[DRAIN_ITEM];
    int used = 0, more = 0;

    for (size_t i = 0; i < r->health->n; i++) {
        const struct bb_health_finding *f = &r->health->findings[i];

        if (!is_about_node(f, node) || f->level != BB_HEALTH_FAIL)
            continue;
        if (used + strlen(brief_text(r, f, item)) + strlen("busbar: , 1000 more") > BB_DRAIN_REASON)
            more++;
        else
            used += snprintf(reason + used, BB_DRAIN_REASON - used, "%s%s", used ? ", " : "", item);
    }
    if (more > 0)
        snprintf(reason + used, DRAIN_ITEM, ", %d more", more);
    return used > 0 ? reason : NULL;
}

/* Returns the test that judges paths: the bisection only if the stage pairs does not run. */
static enum bb_health_test tests_paths(const struct bb_health_report *r)
{
    return r->health->skip[BB_HEALTH_PAIRS] ? BB_HEALTH_BISECTION : BB_HEALTH_PAIRS;
}

static void print_matrix(const struct bb_health_report *r)
{
    const enum bb_health_test test = tests_paths(r);
    const struct bb_health *h = r->health;
    const double expected = h->expected[test],
                 between = isfinite(expected) ? expected : h->median[test] / h->share[test],
                 inside = isfinite(h->inside)          ? h->inside
                          : isfinite(h->inside_median) ? h->inside_median
                                                       : between; /* the others had failed */
    const char **hosts;
    double *reference;
    char of[128];
    int used = snprintf(of, sizeof of, "%.4g GB/s%s", between,
                        h->share[test] < 1 || h->shares[test][0] < 1 ? " by its part of shared uplinks" : "");

    BB_NEW(hosts, h->nodes);
    BB_NEW(reference, h->nodes * h->nodes);
    for (int a = 0; a < h->nodes; a++) {
        hosts[a] = host_of(r, a);
        for (int b = 0; b < h->nodes; b++)
            reference[a * h->nodes + b] = bb_health_is_inside(h, a, b) ? inside
                                          : r->matrix->share           ? between * r->matrix->share[a * h->nodes + b]
                                                                       : between;
    }
    if (isfinite(h->inside_median))
        snprintf(of + used, sizeof of - (size_t)used, ", in an NVLink domain of %.4g GB/s", inside);
    bb_health_matrix_print(r->matrix, h->nodes, reference, of, hosts, r->session->out);
    free(reference);
    free(hosts);
}

/* ---- results ---- */

/* Returns the expectation of a value; NaN: unknown, or of a pair in an NVLink domain, which the bisection does not
 * judge. */
static double expectation_of(const struct bb_health *h, enum bb_health_test test, int node, int partner, double share)
{
    if (partner < 0 || !bb_health_is_inside(h, node, partner))
        return h->expected[test] * share;
    return test == BB_HEALTH_PAIRS ? h->inside : NAN;
}

int bb_health_save_row(const struct bb_health_report *r, enum bb_health_test test, int node, int gpu, int partner,
                       double share, double value)
{
    const struct bb_health_test_row *row = &bb_health_tests[test];
    const struct bb_device_info *d = device_at(r, node, gpu);

    if (r->tables)
        bb_health_tables_add(r->tables, test, node, gpu, partner, value);
    if (test == tests_paths(r) && partner >= 0 && isfinite(value))
        bb_health_matrix_add(r->matrix, r->health->nodes, node, partner, gpu, value, share,
                             bb_health_uplink_share(r->health, NULL, node, partner));
    if (!r->session->json || isnan(value))
        return 0;
    return bb_results_row(
        r->session->json,
        json_pack("{s:s, s:s, s:i, s:s, s:i, s:s?, s:o, s:i, s:f, s:o, s:s}", "stage", row->stage, "test", row->name,
                  "node", node, "host", host_of(r, node), "gpu", gpu, "pci", d ? d->pci : NULL, "partner",
                  number_or_null(partner), "attempt", r->health->attempt, "value", value, "expected",
                  bb_json_real(expectation_of(r->health, test, node, partner, share)), "unit", row->unit));
}

/* Names the NIC of a finding, if it is known: by its RDMA device, or, of GPUs that share NICs, by its number in the
 * profile. */
static json_t *nic_json(const struct bb_health_report *r, const struct bb_health_finding *f)
{
    const int rank = f->part == BB_HEALTH_A_NIC ? rank_at(r, f->node, f->gpu) : -1, gpus = r->health->node_gpus;
    const char *nics = rank >= 0 && r->nics ? r->nics[rank] : "";

    if (*nics && !strchr(nics, ','))
        return json_string(nics);
    return rank >= 0 && !*nics && gpus > r->health->node_nics && r->health->node_nics > 0
               ? json_sprintf("NIC %d", f->gpu * r->health->node_nics / gpus)
               : json_null();
}

static json_t *findings_json(const struct bb_health_report *r)
{
    json_t *list = json_array();
    char part[256], reason[256];

    for (size_t i = 0; i < r->health->n; i++) {
        const struct bb_health_finding *f = &r->health->findings[i];
        const struct bb_device_info *d = device_of(r, f);
        const bool is_either = is_either_leaf(r, f); /* about neither of the leaves' nodes */
        const int node = is_either ? -1 : f->node, other = is_either ? -1 : f->other;

        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s?, s:s, s:o, s:s?, s:s, s:o, s:s?, s:b, s:b, s:o, s:s?, s:s?, s:o, s:o, "
                            "s:o, s:i, s:s, s:o}",
                            "level", bb_health_level_name(f->level), "stage", stage_of(f), "test",
                            f->test < BB_HEALTH_TESTS ? bb_health_tests[f->test].name : NULL, "part",
                            bb_health_parts[f->part], "node", number_or_null(node), "host",
                            node < 0 ? NULL : host_of(r, node), "name", part_text(r, f, part), "other_node",
                            number_or_null(other), "other_host", other < 0 ? NULL : host_of(r, other), "one_way",
                            f->one_way, "lost_gpus", f->lost_gpus, "gpu", number_or_null(f->gpu), "pci",
                            d ? d->pci : NULL, "uuid", d ? d->uuid : NULL, "value", bb_json_real(f->value), "expected",
                            bb_json_real(f->expected), "median", bb_json_real(f->median), "tries", f->tries, "reason",
                            reason_text(r, f, reason), "nic", nic_json(r, f)));
    }
    return list;
}

/* Returns why nodes without a finding are unknown: no test has ended, "", or no node is left to test their NICs with;
 * NULL: they are ok. */
static const char *why_unknown(const struct bb_health_report *r, const char *stage)
{
    const struct bb_health *h = r->health;
    bool is_begun = !stage || (r->soak && r->soak[0].rounds > 1), runs = false;

    for (int test = 0; test < BB_HEALTH_TESTS; test++)
        is_begun = is_begun || isfinite(h->median[test]);
    if (!is_begun)
        return "";
    for (int test = BB_HEALTH_PAIRS; test < BB_HEALTH_TESTS; test++) {
        runs |= bb_health_runs(h, (enum bb_health_test)test);
        if (isfinite(h->median[test]))
            return NULL;
    }
    return runs && h->nodes > 1 && bb_health_active(h) == 1 ? BB_HEALTH_NO_PATHS "too few nodes are left" : NULL;
}

/* Returns the lowest node of the NVLink domain of a node; null: all nodes are in one, or each is one by the profile. */
static json_t *domain_json(const struct bb_health *h, int node)
{
    int first = 0;

    while (first <= node && !bb_health_is_inside(h, first, node))
        first++;
    return first <= node ? json_integer(first) : json_null();
}

/* unknown: as why_unknown returns */
static json_t *verdicts_json(const struct bb_health_report *r, const char *unknown)
{
    json_t *list = json_array();
    char reason[BB_DRAIN_REASON + DRAIN_ITEM];

    for (int node = 0; node < r->health->nodes; node++) {
        const enum bb_health_level level = bb_health_node_level(r->health, node);
        const char *why = node_reason(r, node, reason), *untested = unknown && *unknown ? unknown : NULL;

        json_array_append_new(
            list, json_pack("{s:i, s:s, s:s, s:o, s:s, s:s?}", "node", node, "host", host_of(r, node), "slurm_node",
                            r->slurm[node], "domain", domain_json(r->health, node), "level",
                            bb_health_level_name(unknown && level == BB_HEALTH_OK ? BB_HEALTH_UNKNOWN : level),
                            "reason", why ? why : untested));
    }
    return list;
}

static json_t *tests_json(const struct bb_health_report *r)
{
    json_t *list = json_array();

    for (int test = 0; test < BB_HEALTH_TESTS; test++)
        if (planned_s(r, test) > 0) {
            const bool inside = test == BB_HEALTH_PAIRS && isfinite(r->health->inside_median);

            json_array_append_new(
                list, json_pack("{s:s, s:s, s:s, s:f, s:o, s:o, s:o, s:o, s:o}", "stage", bb_health_tests[test].stage,
                                "test", bb_health_tests[test].name, "unit", bb_health_tests[test].unit, "planned_s",
                                planned_s(r, test), "median", bb_json_real(r->health->median[test]), "expected",
                                bb_json_real(r->health->expected[test] * r->health->share[test]), "uplink_share",
                                bb_json_real(r->health->share[test]), "domain_median",
                                inside ? json_real(r->health->inside_median) : json_null(), "domain_expected",
                                inside ? bb_json_real(r->health->inside) : json_null()));
        }
    return list;
}

/* Adds the check of a node, with its worst finding, or of a finding about several nodes. f: NULL: none; unknown: as
 * why_unknown returns */
static void add_check(const struct bb_health_report *r, json_t *list, int node, const struct bb_health_finding *f,
                      const char *unknown)
{
    char part[256] = "", reason[256] = "", text[640] = "node", full[640] = "";
    const bool measured = f && f->test < BB_HEALTH_TESTS;
    const struct bb_health_finding *common = NULL; /* that decides about the node */

    for (size_t i = 0; i < r->health->n && !common && !f && bb_health_node_level(r->health, node) > BB_HEALTH_OK; i++)
        if (bb_health_is_common(r->health, &r->health->findings[i]))
            common = &r->health->findings[i];
    if (f)
        snprintf(full, sizeof full, "%s: %s", part_text(r, f, part), reason_text(r, f, reason));
    else if (unknown && *unknown)
        snprintf(full, sizeof full, "%s: %s", host_of(r, node), unknown);
    else if (common)
        snprintf(full, sizeof full, "%s: %s: %s", host_of(r, node), part_text(r, common, part),
                 reason_text(r, common, reason));
    if (f && node < 0)
        snprintf(text, sizeof text, "%s: %s", part, measured ? bb_health_tests[f->test].name : stage_of(f));
    bb_checks_add(list,
                  &(struct bb_check){.check = text,
                                     .host = node >= 0 ? host_of(r, node) : NULL,
                                     .status = f         ? bb_health_statuses[f->level]
                                               : unknown ? BB_CHECK_UNKNOWN
                                                         : bb_health_statuses[bb_health_node_level(r->health, node)],
                                     .measured = measured ? f->value : NAN,
                                     .expected = measured && isfinite(f->expected) ? f->expected
                                                 : measured                        ? f->median
                                                                                   : NAN,
                                     .unit = measured ? bb_health_tests[f->test].unit : NULL,
                                     .reason = full});
}

/* Adds the check of a median. A low one, whose cause has a check of its own, is a warning. */
static void add_median_check(const struct bb_health_report *r, json_t *list, enum bb_health_test test)
{
    const double median = r->health->median[test], expected = r->health->expected[test] * r->health->share[test];
    const bool is_low = isfinite(median / expected) && bb_health_judge(median / expected) != BB_HEALTH_OK;
    const char *cause;
    char text[512] = "", part[256], percent[BB_HEALTH_PERCENT_TEXT];

    cause = explain(r, test, part);
    if (is_low)
        snprintf(text, sizeof text, "%s %.4g %s, %s of the expected %.4g%s%s", bb_health_tests[test].name, median,
                 bb_health_tests[test].unit, bb_health_percent(median / expected, percent), expected,
                 cause ? "; explained by: " : "", cause ? cause : "");
    bb_checks_add(list, &(struct bb_check){.check = bb_health_tests[test].name,
                                           .status = *text ? BB_CHECK_WARN : BB_CHECK_OK,
                                           .measured = median,
                                           .expected = expected,
                                           .unit = bb_health_tests[test].unit,
                                           .reason = text,
                                           .nodes = r->health->took_part[test]});
}

/* Returns a check for each test that has a median, for each node, and for each finding about several nodes. */
static json_t *checks_json(const struct bb_health_report *r, const char *unknown)
{
    const struct bb_health *h = r->health;
    json_t *list = json_array();

    for (int test = 0; test < BB_HEALTH_TESTS; test++)
        if (isfinite(h->median[test]))
            add_median_check(r, list, (enum bb_health_test)test);
    for (int node = 0; node < h->nodes; node++) {
        size_t i = 0;

        while (i < h->n && !is_about_node(&h->findings[i], node))
            i++;
        add_check(r, list, node, i < h->n ? &h->findings[i] : NULL, unknown);
    }
    for (size_t i = 0; i < h->n; i++)
        if (h->findings[i].part > BB_HEALTH_A_NIC)
            add_check(r, list, -1, &h->findings[i], unknown);
    return list;
}

/* Returns the number of GPUs of a node: that of CUDA, if no GPU may be hidden or lost; else that of the profile; 0:
 * unknown. */
static int node_gpus(const struct bb_health_report *r)
{
    const struct bb_device_info *d = &r->session->device;
    const bool is_known = !d->emulated && bb_health_is_node_size(d->node_gpus);

    return is_known ? d->node_gpus : MAX(r->health->node_gpus, d->emulated ? 0 : d->node_gpus);
}

static json_t *tiers_json(const struct bb_health *h)
{
    json_t *list = json_array();

    for (size_t i = 0; i < sizeof h->tiers / sizeof *h->tiers; i++)
        if (h->tiers[i].nodes > 0)
            json_array_append_new(list, json_pack("{s:i, s:f}", "nodes", h->tiers[i].nodes, "oversubscription",
                                                  h->tiers[i].oversubscription));
    return list;
}

static json_t *fields_json(const struct bb_health_report *r, const char *stage)
{
    const char *unknown = why_unknown(r, stage);

    bb_health_sort(r->health);
    return json_pack("{s:s?, s:s?, s:o, s:o, s:f, s:O, s:o, s:o, s:o, s:o, s:o, s:{s:i, s:i}, s:{s:i, s:o}}", "stage",
                     stage, "expected_by", r->source[0] ? r->source : NULL, "missing_hosts", missing_hosts(r), "tiers",
                     tiers_json(r->health), "latency_part", r->health->latency, "inventory", r->inventory, "tests",
                     tests_json(r), "soak", bb_health_soak_json(r), "verdicts", verdicts_json(r, unknown), "findings",
                     findings_json(r), "checks", checks_json(r, unknown), "paths", "tested",
                     bb_health_matrix_pairs(r->matrix, r->health->nodes), "total",
                     r->health->nodes * (r->health->nodes - 1) / 2, "node_gpus", "tested", r->health->gpus, "total",
                     node_gpus(r) > 0 ? json_integer(node_gpus(r)) : json_null());
}

int bb_health_save_verdicts(const struct bb_health_report *r, const char *stage)
{
    return bb_results_set_all(r->session->json, fields_json(r, stage));
}

/* Returns whether this rank prints the lines for scontrol, and with --quiet no other line. */
static bool prints_only_drain(const struct bb_health_report *r)
{
    const struct bb_common *common = &r->options->common;

    return r->options->drain && common->quiet && r->session->world.rank == 0 && !common->nagios &&
           !bb_results_on_stdout(common->json, common->csv);
}

/* Returns whether a finding names a GPU by a number that differs from that of nvidia-smi, because rank 0 does not see
 * GPU 0, GPU 1 and so on. */
static bool has_other_numbers(const struct bb_health_report *r)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    bool names_gpu = false;

    for (size_t i = 0; i < r->health->n; i++)
        names_gpu |= device_of(r, &r->health->findings[i]) != NULL;
    for (int gpu = 0; visible && *visible; gpu++) {
        char *end;

        if (strtol(visible, &end, 10) != gpu || end == visible || (*end && *end != ','))
            return names_gpu;
        visible = *end ? end + 1 : end;
    }
    return false;
}

/* Returns how many of the 25 lines of a report are left for findings; 0: it has lines that are not counted here. */
static int lines_left(const struct bb_health_report *r, const json_t *fields)
{
    enum { LINES = 25, HEADER = 6, END = 2 }; /* END: about failed nodes, and the verdict */
    int left = LINES - HEADER - END - has_other_numbers(r) - (int)json_array_size(json_object_get(fields, "soak")) -
               json_is_string(json_object_get(fields, "restricted_by"));

    for (size_t i = 0; i < r->health->n; i++)
        if (r->health->findings[i].test == BB_HEALTH_TESTS)
            return 0;
    for (int test = 0; test < BB_HEALTH_TESTS; test++)
        left -= has_line(r->health, test);
    return r->tables || r->session->detail ? 0 : left;
}

/* Prints the error line about the first finding. restricted: NULL: none */
static int report_failed(const struct bb_health_report *r, int failed, const char *restricted)
{
    char part[256], reason[256], more[32] = "";

    if (failed > 1)
        snprintf(more, sizeof more, "; and %d more", failed - 1);
    return bb_err_job(BB_EBELOW, "%s: %s%s%s%s", part_text(r, &r->health->findings[0], part),
                      reason_text(r, &r->health->findings[0], reason), more, restricted ? "; restricted by " : "",
                      restricted ? restricted : "");
}

int bb_health_stop(const struct bb_health_report *r, const char *stage)
{
    json_t *fields = fields_json(r, stage);
    const int failed = bb_health_count_failed(json_object_get(fields, "findings"));
    int rc;

    TRY(bb_results_set_all(r->session->json, fields));
    rc = report_failed(r, failed, NULL);
out:
    return rc;
}

/* Warns about a saved baseline that is a poor reference. restricted: NULL: nothing restricts NCCL */
static void warn_of_saved(const struct bb_health_report *r, const char *restricted)
{
    const struct bb_health *h = r->health;
    const char *path = r->options->baseline;
    char fewer[128] = "";
    int test = BB_HEALTH_BISECTION;

    while (test < BB_HEALTH_TESTS && !(isfinite(h->median[test]) && h->took_part[test] < h->nodes))
        test++;
    if (test < BB_HEALTH_TESTS)
        snprintf(fewer, sizeof fewer, "; --expect uses %s only for runs on %d nodes, because others failed",
                 test == BB_HEALTH_WHOLE       ? "whole"
                 : test == BB_HEALTH_BISECTION ? "bisection, rails and whole"
                                               : "rails and whole",
                 h->took_part[test]);
    if (h->n > 0)
        bb_warn("--save-baseline %s: %zu finding%s, so its values may be too low for --expect%s", path, h->n,
                bb_plural(h->n), fewer);
    else if (restricted)
        bb_warn("--save-baseline %s: restricted by %s, so its values may be too low for --expect", path, restricted);
}

int bb_health_finish(const struct bb_health_report *r, int last)
{
    struct bb_health *h = r->health;
    char *restricted = bb_json_restrictions(NULL, NULL);
    json_t *fields = fields_json(r, NULL);
    const int failed = bb_health_count_failed(json_object_get(fields, "findings"));
    char stages[64];
    int rc = 0;

    if (r->lost_ranks)
        json_object_set(fields, "lost_ranks", r->lost_ranks);
    json_object_set_new(fields, "restricted_by", restricted ? json_string(restricted) : json_null());
    bb_health_print_tests(r, last, BB_HEALTH_TESTS);
    if (r->session->out) {
        bb_health_print_soak(fields, 0, r->session->out);
        if (r->tables)
            bb_health_tables_print(r->tables, r->options->common.full, r->session->out);
        if (r->session->detail)
            print_matrix(r);
        if (bb_health_active(h) < h->nodes && strcmp(r->options->only, "all") == 0) {
            const bool differs = other_nodes(r, bb_health_active(h), stages) > 0;

            fprintf(r->session->out,
                    "# failed nodes took no part in later stages, so their other parts are unknown%s%s%s\n",
                    differs ? "; " : "", stages,
                    differs ? " on another number of nodes than in the baseline are not judged" : "");
        }
        if (has_other_numbers(r))
            fputs(
                "# GPUs are numbered in the order of the ranks of a node, by CUDA_VISIBLE_DEVICES; nvidia-smi -i also "
                "accepts their PCI addresses\n",
                r->session->out);
        bb_health_print_summary(fields,
                                &(struct bb_health_scope){r->tables ? "all" : r->options->only, r->options->from,
                                                          r->options->common.full, r->options->drain,
                                                          r->options->rounds, lines_left(r, fields), false},
                                r->session->out);
        fflush(r->session->out);
    } else if (prints_only_drain(r)) {
        bb_health_print_drain(fields, stdout);
        fflush(stdout);
    }
    TRY(bb_results_set_all(r->session->json, fields));
    if (r->options->baseline)
        warn_of_saved(r, restricted);
    if (failed > 0)
        rc = report_failed(r, failed, restricted);
    else if (r->options->common.nagios && h->n > 0 && h->findings[0].level == BB_HEALTH_WARN)
        rc = -BB_EWARN;
out:
    free(restricted);
    return rc;
}
