/* health_options.c - see health_options.h. */
#include "collectives/health/health_options.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/json_read.h"
#include "bootstrap/base/outfile.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/report_header.h"
#include "bootstrap/results/checks.h"
#include "bootstrap/results/results.h"
#include "bootstrap/start/launcher.h"
#include "bootstrap/supervise/supervise.h"
#include "collectives/compare/result_reader.h"
#include "collectives/health/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

static const char *const stages[] = {"all",       "inventory", "gpu",   "copies", "node", "pairs",
                                     "bisection", "rails",     "whole", "soak",   NULL};

#define FIELD(name) offsetof(struct bb_health_options, name)
#define MEASUREMENT_OPTIONS                                                                                            \
    OPT_SIZE(0, "size", FIELD(bytes), NULL, "BYTES", 1024, 1ull << 40, "bytes of each collective (default 512M)"),     \
        OPT_INT('n', "iters", FIELD(iterations), NULL, "N", 1, 1e6, "operations of each measurement (default 20)")
static const struct bb_opt option_rows[] = {
    OPT_FLAG(0, "quick", FIELD(quick), "collectives of 64M instead of 512M, 5 operations, few partners",
             .everyday = true),
    OPT_FLAG(0, "thorough", FIELD(thorough),
             "about 15 minutes: 100 operations, 32 rounds of pairs, and without --only --soak 10m", .everyday = true),
    OPT_STRING(0, "soak", FIELD(soak), NULL, "TIME",
               "then repeat the GEMM and the all_reduce of all GPUs for this time, such as 30m, and judge every value "
               "against earlier ones; the data of one all_reduce is verified in each round; 0: no soak",
               .everyday = true),
    OPT_CHOICE(0, "only", FIELD(only), "all", "STAGE", stages, "run one stage", .everyday = true),
    OPT_CHOICE(0, "from", FIELD(from), NULL, "STAGE", stages + 1, "run this stage and the later ones"),
    OPT_STRING(0, "expect", FIELD(expect), "auto", "NAME|FILE",
               "where the expected values are from: auto (profile of this machine), a cluster profile, or FILE of "
               "--save-baseline",
               .everyday = true),
    OPT_FLAG(0, "drain", FIELD(drain),
             "print a line for scontrol for each failed node, with --quiet only these; nothing is executed; the node's "
             "name is SLURMD_NODENAME of a Slurm job, or else its host name without the domain",
             .everyday = true),
    OPT_OUTPUT(0, "save-baseline", FIELD(baseline),
               "as --json, for --expect FILE and busbar compare; prints a warning if this run has findings"),
    OPT_FLAG(0, "nagios", FIELD(common.nagios),
             "print one line and exit like a Nagios plugin: 0 ok, 1 warning, 2 a part fails, has wrong data, is lost "
             "or hangs, 3 anything else"),
    MEASUREMENT_OPTIONS,
    OPT_INT(0, "rounds", FIELD(rounds), NULL, "N", 1, BB_HEALTH_ALL_ROUNDS,
            "stage pairs: rounds, each with new pairs of nodes; nodes - 1 rounds, or nodes if odd, test all paths "
            "(default: all of up to 16 nodes; of more, or with --quick, log2 of the nodes, plus 1)"),
    OPT_FLAG(0, "plan", FIELD(plan),
             "print what a run would take; no GPU, no MPI; requires --ranks and --expect PROFILE"),
    OPT_INT(0, "ranks", FIELD(ranks), NULL, "N", 1, 1 << 24, "with --plan: number of GPUs"),
    OPT_INT(0, "gpus-per-node", FIELD(gpus_per_node), NULL, "N", 1, 1024, "with --plan: GPUs of each node (default 8)"),
    {0},
};
static const struct bb_opt bench_rows[] = {
    OPT_STRING(0, "expect", FIELD(expect), "auto", "MACHINE",
               "where the expected bus bandwidths are from: auto (profile of this machine), or a cluster profile"),
    MEASUREMENT_OPTIONS,
    {0},
};
static const struct bb_opt nodes_rows[] = {
    OPT_FLAG(0, "nodes", FIELD(nodes), "pairs of nodes instead of pairs of ranks"),
    OPT_INT(0, "rounds", FIELD(rounds), NULL, "N", 1, BB_HEALTH_ALL_ROUNDS,
            "rounds, each with new pairs of nodes (default: all: nodes - 1, or nodes if odd)"),
    {0},
};
static const struct bb_opt_table tables[] = {
    {.title = "Health", .opts = option_rows},
    {.title = "Common options", .opts = bb_common_options, .base = FIELD(common)},
    {0},
};
static const struct bb_opt_table rails_tables[] = {
    {.title = "Rails", .opts = bench_rows},
    {.title = "Common options", .opts = bb_common_options, .base = FIELD(common)},
    {0},
};
static const struct bb_opt_table nodes_tables[] = {
    {.title = "Pairs of nodes", .opts = nodes_rows},
    {.title = "Measurement", .opts = bench_rows},
    {.title = "Common options", .opts = bb_common_options, .base = FIELD(common)},
    {0},
};

static const struct bb_foreign_name foreign[] = {
    {"cluster", "--expect", "--expect h100-sxm-ib", NULL},
    {"np nproc-per-node", "--gpus", "--gpus 8", NULL},
    {NULL, NULL, NULL, NULL},
};

#define ANY_SLOW_PART "any slow NIC, path, rail or switch ends the run with status 5"
static const struct bb_foreign_name rails_foreign[] = {
    {"nagios", "an option of health", "busbar health --only rails --nagios", NULL},
    {"quick", "--size 64M -n 5", "--size 64M -n 5", NULL},
    {"max-slow", NULL, ANY_SLOW_PART, NULL},
    {NULL, NULL, NULL, NULL}};
static const struct bb_foreign_name nodes_foreign[] = {
    {"nagios", "an option of health", "busbar health --only pairs --nagios", NULL},
    {"quick", "--size 64M -n 5", "--size 64M -n 5", NULL},
    {"max-slow", NULL, ANY_SLOW_PART, NULL},
    {"repeats metrics direction schedule latency-sizes bandwidth-sizes", NULL,
     "it belongs to bench p2p without --nodes (-n N: operations of each measurement)", NULL},
    {NULL, NULL, NULL, NULL}};

static int resolve_options(void *options, const struct bb_positionals *positionals)
{
    struct bb_health_options *o = options;
    const bool is_soak = strcmp(o->from ? o->from : o->only, "soak") == 0;
    const struct {
        const char *name;
        bool given;
    } outputs[] = {{"nagios", o->common.nagios}, {"save-baseline", o->baseline}, {"json", o->common.json},
                   {"csv", o->common.csv},       {"junit", o->common.junit},     {"prometheus", o->common.prometheus}};
    const struct {
        const char *option, *advice;
        bool given;
    } on_stdout[] = {{"--drain", "one of them", o->drain},
                     {"--json -", "--json FILE", bb_outfile_is_stdout(o->common.json)},
                     {"--csv -", "--csv FILE", bb_outfile_is_stdout(o->common.csv)}};

    if (positionals->n > 0)
        return bb_err(BB_EUSAGE, "unexpected argument '%s'; health accepts only options", positionals->word[0]);
    if (o->plan && (o->ranks == 0 || strcmp(o->expect, "auto") == 0))
        return bb_err(BB_EUSAGE,
                      "--plan requires --ranks and the machine; try: --plan --ranks 64 --expect h100-sxm-ib");
    for (size_t i = 0; o->plan && i < sizeof outputs / sizeof *outputs; i++)
        if (outputs[i].given)
            return bb_err(BB_EUSAGE, "--plan prints only a table; leave out --%s", outputs[i].name);
    if (o->plan && o->common.gpus > 1)
        return bb_err(BB_EUSAGE, "--plan starts no ranks; try: --gpus-per-node %d instead of -g %d", o->common.gpus,
                      o->common.gpus);
    if (!o->plan && o->ranks > 0)
        return bb_err(BB_EUSAGE, "--ranks requires --plan; try: mpirun -n %d busbar health", o->ranks);
    if (!o->plan && o->gpus_per_node > 0)
        return bb_err(BB_EUSAGE, "--gpus-per-node requires --plan; a run counts the GPUs that its ranks have");
    if (o->gpus_per_node == 0)
        o->gpus_per_node = 8;
    if (o->plan && o->ranks % o->gpus_per_node != 0 && o->ranks > o->gpus_per_node)
        return bb_err(BB_EUSAGE, "--ranks %d is no multiple of --gpus-per-node %d", o->ranks, o->gpus_per_node);
    if (o->from && strcmp(o->only, "all") != 0)
        return bb_err(BB_EUSAGE, "--from cannot be combined with --only");
    if (is_soak && !o->soak && !o->thorough)
        return bb_err(BB_EUSAGE, "the stage soak requires its time; try: --soak 10m");
    if (o->quick && o->thorough)
        return bb_err(BB_EUSAGE, "--quick cannot be combined with --thorough");
    if (o->thorough && !o->soak && bb_health_has(o, "soak"))
        o->soak = "10m";
    if (o->soak && strcmp(o->soak, "0") != 0 && bb_parse_duration(o->soak, &o->soak_s) != 0)
        return bb_err(BB_EUSAGE,
                      "--soak: '%s' is not valid, expected a time with its unit (s, m, h), or 0 for none; "
                      "try: --soak 30m",
                      o->soak);
    if (is_soak && o->soak_s == 0)
        return bb_err(BB_EUSAGE, "--soak %s leaves out the only stage; try: --soak 10m", o->soak);
    for (size_t i = 0; o->common.nagios && i < sizeof on_stdout / sizeof *on_stdout; i++)
        if (on_stdout[i].given)
            return bb_err(BB_EUSAGE, "%s and --nagios both write to stdout; try: %s", on_stdout[i].option,
                          on_stdout[i].advice);
    if (o->baseline && o->common.json)
        return bb_err(BB_EUSAGE, "--save-baseline %s contains all that --json %s would; leave out --json", o->baseline,
                      o->common.json);
    if (o->baseline)
        o->common.json = o->baseline;
    if (o->iterations == 0)
        o->iterations = o->quick ? 5 : o->thorough ? 100 : 20;
    return 0;
}

const struct bb_opts bb_health_set = {
    .usage = "busbar health [OPTION...]",
    .doc =
        "Tests every GPU, node, network connection and rail of the job, compares the results with each other and with\n"
        "the machine's profile, and names the bad parts. Stages: inventory, gpu (GEMM of bfloat16, memory copy),\n"
        "copies (with the host, and GPU to GPU of a node), node (all_reduce in each node), pairs (GPU pairs of two\n"
        "nodes, several partners), bisection (pairs of two halves at once), rails (GPUs with the same index), whole,\n"
        "soak. GEMMs of other types: busbar bench compute gemm --max-slow 0.\n"
        "Start it with one rank per GPU, with all GPUs of each node.",
    .after =
        "The expectation is the value of the profile or baseline; without it, and for GPUs also with it, the median of "
        "at "
        "least\n"
        "three peers: that of the faster ones if half of them or more are slow.\n"
        "fail: below 80 % of the expectation, or among at least ten values an outlier (modified z-score below -3.5) "
        "below\n"
        "97 % of the median; warn: below 93 %, or another outlier (up to 97.4 %). One node of 8 GPUs has no outliers. "
        "Noise of at\n"
        "most 3 % around the median of at least three peers, which is as expected, is no finding.\n"
        "Suspects are measured again. Nodes that fail or die take no part in later stages. If a part fails, all ranks "
        "exit with "
        "status 5.\n"
        "The last copy, and one all_reduce, of each measurement are verified; wrong data end the run with status 3.",
    .foreign = foreign,
    .exits = {[0] = "ok",
              [1] = "the run failed or was interrupted",
              [2] = "usage error or invalid input",
              [3] = "wrong data",
              [4] = "timeout, or a lost rank after which the run cannot go on",
              [5] = "a part of the cluster fails"},
    .examples = "  mpirun -n 16 busbar health\n"
                "  busbar health --plan --ranks 8192 --expect h100-sxm-ib\n",
    .tables = tables,
    .size = sizeof(struct bb_health_options),
    .resolve = resolve_options};

static int resolve_bench(void *options, const struct bb_positionals *positionals)
{
    struct bb_health_options *o = options;

    if (positionals->n > 0)
        return bb_err(BB_EUSAGE, "unexpected argument '%s'; bench %s accepts only options", positionals->word[0],
                      o->nodes ? "p2p --nodes" : "rails");
    o->only = o->nodes ? "pairs" : "rails";
    if (o->iterations == 0)
        o->iterations = 20;
    return 0;
}

#define BENCH_AFTER                                                                                                    \
    "The verdicts are those of busbar health, and the results are of the schema busbar.health/1. fail: below 80 % "    \
    "of\n"                                                                                                             \
    "the expectation, or an outlier of at least ten values; all ranks then exit with status 5."

const struct bb_opts bb_bench_rails_set = {
    .usage = "busbar bench rails [OPTION...]",
    .doc = "Bus bandwidth of one all_reduce for each GPU index over all nodes, alone and all at once: a slow plane of "
           "the\n"
           "network, and network connections without the help of NVLink. Start it with all GPUs of each node.",
    .after = BENCH_AFTER,
    .foreign = rails_foreign,
    .exits = {BB_EXITS_RANKS, [5] = "a rail fails"},
    .examples = "  mpirun -n 16 busbar bench rails\n",
    .tables = rails_tables,
    .size = sizeof(struct bb_health_options),
    .resolve = resolve_bench};

const struct bb_opts bb_bench_nodes_set = {
    .usage = "busbar bench p2p --nodes [OPTION...]",
    .doc =
        "Bandwidth between every two nodes with all their GPUs: all_reduce of each GPU with the GPU of the same index, "
        "all\n"
        "indices and disjoint pairs of nodes at once, as a matrix of their sums. Names slow NICs, paths and switches.",
    .after = BENCH_AFTER,
    .foreign = nodes_foreign,
    .exits = {BB_EXITS_RANKS, [5] = "a NIC, path, rail or switch fails"},
    .examples = "  mpirun -n 16 busbar bench p2p --nodes\n",
    .tables = nodes_tables,
    .size = sizeof(struct bb_health_options),
    .resolve = resolve_bench};

size_t bb_health_size(const struct bb_health_options *o)
{
    return bb_health_bytes(o->bytes, o->quick);
}

int bb_health_wanted_rounds(const struct bb_health_options *o)
{
    return o->rounds > 0 ? o->rounds : o->nodes ? BB_HEALTH_ALL_ROUNDS : o->thorough ? 32 : 0;
}

static int position(const char *stage)
{
    int i = 0;

    while (stages[i] && strcmp(stages[i], stage) != 0)
        i++;
    return i;
}

bool bb_health_has(const struct bb_health_options *o, const char *stage)
{
    if (o->from)
        return position(stage) >= position(o->from);
    return strcmp(o->only, "all") == 0 || strcmp(o->only, stage) == 0;
}

/* ---- expectations and duration ---- */

const struct bb_gemm_shape bb_health_gemm = {.m = 8192, .n = 8192, .k = 8192, .batch = 1, .dtype = BB_BFLOAT16};

static bool is_of_pairs(enum bb_health_test test)
{
    return test == BB_HEALTH_PAIRS || test == BB_HEALTH_BISECTION;
}

/* Returns the facts of the machine, with the ranks of one group of a test among the nodes that have not failed. inside:
 * of a pair of nodes in one NVLink domain */
static struct bb_machine_facts facts_of(const struct bb_health *h, struct bb_machine_facts facts,
                                        enum bb_health_test test, bool inside)
{
    const int nodes = bb_health_active(h);
    const bool is_pair = is_of_pairs(test);
    const bool is_rail = test == BB_HEALTH_RAILS || test == BB_HEALTH_RAILS_ALONE;

    facts.job_ranks = nodes * h->gpus;
    facts.job_ranks_per_node = h->gpus;
    facts.domain_nodes = is_pair ? 1 + inside : bb_health_domain_nodes(h);
    facts.ranks_per_node = is_pair || is_rail ? 1 : h->gpus;
    facts.concurrent = test == BB_HEALTH_RAILS_ALONE ? 1 : h->gpus;
    facts.ranks = (test == BB_HEALTH_NODE ? 1 : is_pair ? 2 : nodes) * facts.ranks_per_node;
    facts.gemm = bb_health_gemm;
    facts.copy_bytes = BB_HEALTH_COPY;
    return facts;
}

/* Reads the leaf switches and pods of a prediction, or of an earlier result. domain_nodes: number of nodes of the job
 * in one of the profile */
static void read_tiers(struct bb_health *h, const json_t *root, int domain_nodes)
{
    const json_t *tiers = json_object_get(root, "tiers");

    for (size_t i = 0; i < sizeof h->tiers / sizeof *h->tiers && i < json_array_size(tiers); i++) {
        const json_t *tier = json_array_get(tiers, i);

        h->tiers[i].nodes = domain_nodes * (int)json_integer_value(json_object_get(tier, "nodes"));
        h->tiers[i].oversubscription = json_number_value(json_object_get(tier, "oversubscription"));
    }
}

/* Returns the nodes that have not failed, which the caller frees, if the expectation of a test depends on their leaves
 * and pods: not of one node, or of pairs; else NULL. */
static int *list_active(const struct bb_health *h, enum bb_health_test test)
{
    int *nodes, n = 0;

    if (test < BB_HEALTH_RAILS_ALONE || bb_health_active(h) == h->nodes)
        return NULL;
    BB_NEW(nodes, h->nodes);
    for (int node = 0; node < h->nodes; node++)
        if (bb_health_is_active(h, node))
            nodes[n++] = node;
    return nodes;
}

/* Returns the part of the time of a message that another one of twice its size does not double. rows: of both */
static double latency_of(const json_t *rows)
{
    const double one = json_number_value(json_object_get(json_array_get(rows, 0), "busbw_gbps")),
                 two = json_number_value(json_object_get(json_array_get(rows, 1), "busbw_gbps"));

    return one > 0 && two > 0 ? fmin(1, fmax(0, 2 - 2 * one / two)) : 0;
}

/* Predicts the value of a test: of GEMM and memory by rate, otherwise one all_reduce in place.
 *   inside  pairs of nodes: in one NVLink domain
 *   value   out; NaN: unknown
 *   source  out; unchanged if the machine is unknown */
static int predict(struct bb_health *h, const struct bb_health_options *o, bb_forecast *forecast,
                   const struct bb_machine_facts *facts, enum bb_health_test test, bool inside, double *value,
                   char source[BB_HEALTH_SOURCE])
{
    static const char *const keys[] = {
        [BB_HEALTH_GEMM] = "gemm_tflops",   [BB_HEALTH_MEMORY] = "copy_gbps", [BB_HEALTH_TO_GPU] = "pcie_gbps",
        [BB_HEALTH_FROM_GPU] = "pcie_gbps", [BB_HEALTH_PEERS] = "peer_gbps",  [BB_HEALTH_SLOWEST_PEER] = ""};
    struct bb_machine_facts job = facts_of(h, *facts, test, inside);
    struct bb_sweep sweep = bb_sweep_all_reduce(bb_health_size(o));
    const json_t *predicted, *rate, *rows;
    json_t *root = NULL;
    int rc, *nodes = list_active(h, test);

    *value = NAN;
    job.nodes = nodes;
    if (is_of_pairs(test))
        sweep.max_bytes *= 2; /* for the latency */
    TRY(forecast(&job, o->expect, &sweep, &root));
    if (!root)
        goto out;
    predicted = json_object_get(root, "predicted");
    rows = json_object_get(root, "results");
    rate = bb_health_tests[test].part == BB_HEALTH_A_GPU ? json_object_get(predicted, keys[test])
                                                         : json_object_get(json_array_get(rows, 0), "busbw_gbps");
    if (json_is_number(rate))
        *value = json_number_value(rate);
    h->domain_nodes = (int)json_integer_value(json_object_get(predicted, "domain_nodes"));
    if (is_of_pairs(test)) {
        read_tiers(h, predicted, h->domain_nodes);
        if (!inside)
            h->latency = latency_of(rows);
    }
    h->node_gpus = (int)json_integer_value(json_object_get(predicted, "node_gpus"));
    h->node_nics = (int)json_integer_value(json_object_get(predicted, "node_nics"));
    h->node_gpus_source = strcmp(o->expect, "auto") == 0 ? BB_HEALTH_RECOGNISED : BB_HEALTH_NAMED;
    snprintf(source, BB_HEALTH_SOURCE, "%s", json_string_value(json_object_get(predicted, "cluster")));
out:
    free(nodes);
    json_decref(root);
    return rc;
}

/* Predicts the value of a test, and that of pairs of nodes in one NVLink domain. */
static int expect_test(struct bb_health *h, const struct bb_health_options *o, bb_forecast *forecast,
                       const struct bb_machine_facts *facts, enum bb_health_test test, char source[BB_HEALTH_SOURCE])
{
    int rc;

    TRY(predict(h, o, forecast, facts, test, false, &h->expected[test], source));
    if (!source[0] || !is_of_pairs(test) || bb_health_domain_nodes(h) < 2)
        return 0;
    TRY(predict(h, o, forecast, facts, test, true, &h->inside, source));
    if (!bb_health_has_domains(h))
        h->expected[test] = h->inside;
out:
    return rc;
}

/* Prints a warning about a baseline that is a poor reference. */
static void warn_of_baseline(const struct bb_health_options *o, const json_t *root)
{
    const size_t n = json_array_size(json_object_get(root, "findings"));
    const char *status = json_string_value(json_object_get(root, "status"));

    if (n > 0 || !status || strcmp(status, "ok") != 0)
        bb_warn("--expect %s: its status is '%.40s', with %zu finding%s, so its values may be too low", o->expect,
                status ? status : "?", n, bb_plural(n));
    bb_warn_if_restricted(o->expect, root);
}

int bb_health_baseline_nodes(const json_t *baseline, enum bb_health_test test)
{
    const json_t *checks = json_object_get(baseline, "checks"), *check, *nodes;
    size_t i;

    json_array_foreach(checks, i, check)
    {
        const char *name = json_string_value(json_object_get(check, "check"));

        nodes = json_object_get(check, "nodes");
        if (name && strcmp(name, bb_health_tests[test].name) == 0 && json_is_integer(nodes))
            return (int)json_integer_value(nodes);
    }
    return 0;
}

/* An earlier result. */
struct baseline {
    const json_t *root;
    int nodes, gpus;  /* gpus: of each node */
    int domain_nodes; /* of its largest NVLink domain, without failed ones; 0: unknown */
    bool is_domain;   /* all its nodes are in one domain */
};

/* Reads the NVLink domains of an earlier result, which has none if all nodes are in one, or each node is one, as in
 * this run. */
static void read_domains(const struct bb_health *h, struct baseline *b)
{
    const json_t *verdict;
    int *nodes_of; /* by the first node of each domain */
    size_t i;

    BB_NEW(nodes_of, b->nodes);
    json_array_foreach(json_object_get(b->root, "verdicts"), i, verdict)
    {
        const json_t *domain = json_object_get(verdict, "domain");
        const char *level = json_string_value(json_object_get(verdict, "level"));
        const json_int_t first = json_is_integer(domain) ? json_integer_value(domain) : -1;

        if (first >= 0 && first < b->nodes) {
            nodes_of[first] += !level || strcmp(level, bb_health_level_name(BB_HEALTH_FAIL)) != 0;
            b->domain_nodes = MAX(b->domain_nodes, nodes_of[first]);
        }
    }
    free(nodes_of);
    b->is_domain = b->domain_nodes == 0 && bb_health_domain_nodes(h) > 1;
}

/* Returns the median of a test without other traffic on shared uplinks. */
static double unloaded_median(const json_t *test)
{
    const double share = json_number_value(json_object_get(test, "uplink_share"));

    return json_number_value(json_object_get(test, "median")) / (share > 0 ? share : 1);
}

/* Takes the median of pairs of nodes: NVLink connects all of them if they are in one domain. */
static void take_pairs(struct bb_health *h, const json_t *test, const struct baseline *b)
{
    const bool is_domain = bb_health_domain_nodes(h) > 1 && !bb_health_has_domains(h); /* this run */
    const json_t *median = json_object_get(test, "median"), *inside = json_object_get(test, "domain_median"),
                 *between = b->is_domain ? NULL : median;

    inside = b->is_domain ? median : inside;
    if (json_is_number(inside) && json_number_value(inside) > 0)
        h->inside = json_number_value(inside);
    if (is_domain)
        h->expected[BB_HEALTH_PAIRS] = h->inside;
    else if (json_is_number(between))
        h->expected[BB_HEALTH_PAIRS] = unloaded_median(test);
}

/* Takes the median of a test of an earlier result as expectation. Returns 0, or -BB_EUSAGE if no run can have it. */
static int take_median(struct bb_health *h, const json_t *test, const struct baseline *b)
{
    const char *name = json_string_value(json_object_get(test, "test"));
    const json_t *median = json_object_get(test, "median");
    const int domain_nodes = bb_health_domain_nodes(h);
    const bool has_same_domains = b->is_domain
                                      ? !bb_health_has_domains(h)
                                      : domain_nodes == 0 || b->domain_nodes == 0 || domain_nodes == b->domain_nodes;

    for (int t = 0; t < BB_HEALTH_TESTS; t++)
        if (!name || strcmp(name, bb_health_tests[t].name) != 0 || (t >= BB_HEALTH_NODE && b->gpus != h->gpus))
            continue;
        else if (t == BB_HEALTH_PAIRS)
            take_pairs(h, test, b);
        else if (json_is_number(median) &&
                 (t < BB_HEALTH_BISECTION ||
                  (has_same_domains &&
                   bb_health_baseline_nodes(b->root, (enum bb_health_test)t) == bb_health_active(h))))
            h->expected[t] = unloaded_median(test);
    return json_is_number(median) && !(json_number_value(median) > 0) ? -BB_EUSAGE : 0;
}

/* Adds the tests that run, but that an earlier result does not have, to a list, also those of other NVLink domains, or
 * without a number of nodes (of earlier versions). Returns whether
 * it has a value of any, or none runs. */
static bool find_missing(const struct bb_health *h, const json_t *tests, const struct baseline *b, json_t *missing)
{
    const json_t *test;
    bool has_value = false, runs = false;
    size_t i;

    for (int t = 0; t < BB_HEALTH_TESTS; t++) {
        const int stated = bb_health_baseline_nodes(b->root, (enum bb_health_test)t),
                  nodes = stated > 0 ? stated : b->nodes;
        const bool has_others =
            b->gpus == h->gpus && (t == BB_HEALTH_PAIRS || (t > BB_HEALTH_PAIRS && nodes == h->nodes));
        bool found = false;

        json_array_foreach(tests, i, test)
        {
            const char *name = json_string_value(json_object_get(test, "test"));

            found |= name && strcmp(name, bb_health_tests[t].name) == 0;
        }
        if (!bb_health_runs(h, (enum bb_health_test)t))
            continue;
        if (!found || (has_others && isnan(h->expected[t])))
            json_array_append_new(missing, json_string(bb_health_tests[t].name));
        has_value |= !isnan(h->expected[t]) || (t == BB_HEALTH_PAIRS && !isnan(h->inside));
        runs = true;
    }
    return has_value || !runs;
}

/* Returns 0, or -BB_EUSAGE if an earlier result has no value to compare with. Warns if it lacks some. */
static int check_missing(const struct bb_health *h, const struct bb_health_options *o, const json_t *tests,
                         const struct baseline *b)
{
    json_t *missing = json_array();
    const bool has_value = find_missing(h, tests, b, missing);
    const size_t n = json_array_size(missing);

    if (has_value && n > 0)
        bb_warn("--expect %s: has no value of %s%s for %d node%s; these are only compared with each other", o->expect,
                json_string_value(json_array_get(missing, 0)), n > 1 ? " and other tests" : "", h->nodes,
                bb_plural(h->nodes));
    json_decref(missing);
    return has_value
               ? 0
               : bb_err(
                     BB_EUSAGE,
                     "--expect %s: has no value to compare with, of these tests and this number of nodes and GPUs per "
                     "node; try: --save-baseline with the same --only, nodes and GPUs",
                     o->expect);
}

/* Reads the number of GPUs of a node: that of the inventory, or else that of the profile. */
static void read_node_gpus(struct bb_health *h, const json_t *root)
{
    const json_t *item;
    size_t i;

    h->node_gpus = (int)json_integer_value(json_object_get(json_object_get(root, "node_gpus"), "total"));
    h->node_gpus_source = BB_HEALTH_NAMED;
    json_array_foreach(json_object_get(root, "inventory"), i, item)
    {
        const char *name = json_string_value(json_object_get(item, "item")),
                   *usual = json_string_value(json_object_get(item, "usual"));

        if (name && usual && strcmp(name, BB_HEALTH_ITEM_GPUS) == 0 && atoi(usual) > 0) {
            h->node_gpus = atoi(usual);
            h->node_gpus_source = BB_HEALTH_FOUND;
        }
    }
}

/* Takes the medians of an earlier result as expectations. Those of several GPUs require the same number of GPUs per
 * node, those of more than two nodes also the same number of nodes, without those that had failed. root: the result */
static int expect_baseline(struct bb_health *h, const struct bb_health_options *o, const json_t *root,
                           char source[BB_HEALTH_SOURCE])
{
    const json_int_t ranks = json_integer_value(json_object_get(root, "ranks")),
                     nodes = json_integer_value(json_object_get(root, "nodes"));
    const char *started = json_string_value(json_object_get(root, "started"));
    const char *schema = json_string_value(json_object_get(root, "schema"));
    const json_t *tests = json_object_get(root, "tests"), *test;
    const size_t bytes = bb_result_health_bytes(root);
    const bool in_mib = bytes % (1 << 20) == 0;
    char size[BB_BYTES_TEXT], own[BB_BYTES_TEXT];
    struct baseline b = {.root = root, .nodes = (int)nodes};
    size_t i;

    if (!schema || strcmp(schema, "busbar.health/1") != 0)
        return bb_err(
            BB_EUSAGE,
            "--expect %s: is a result of busbar (%.60s), expected auto, a cluster of `busbar list clusters`, or "
            "a file of busbar health (--save-baseline)",
            o->expect, schema ? schema : "?");
    if (!json_is_object(json_object_get(root, "options")) || nodes < 1 || !json_is_array(tests))
        return bb_err(BB_EUSAGE, "--expect %s: the run ended before its verdicts; try: the file of a complete run",
                      o->expect);
    if (ranks < 1 || ranks % nodes != 0)
        return bb_err(BB_EUSAGE, "--expect %s: %g GPUs per node", o->expect, (double)ranks / (double)nodes);
    if (bytes != bb_health_size(o))
        return bb_err(BB_EUSAGE, "--expect %s: collectives of %s, this run has %s; try: --size %zu%s", o->expect,
                      bb_format_bytes_beside(bytes, bb_health_size(o), size),
                      bb_format_bytes_beside(bb_health_size(o), bytes, own), in_mib ? bytes >> 20 : bytes,
                      in_mib ? "M" : "");
    b.gpus = (int)(ranks / nodes);
    read_domains(h, &b);
    if (b.gpus == h->gpus) /* else other NICs share the uplinks */
        read_tiers(h, root, 1);
    h->latency = fmin(1, fmax(0, json_number_value(json_object_get(root, "latency_part"))));
    json_array_foreach(tests, i, test)
    {
        if (take_median(h, test, &b))
            return bb_err(BB_EUSAGE, "--expect %s: test %zu has the median %g, expected more than 0", o->expect, i + 1,
                          json_number_value(json_object_get(test, "median")));
    }
    read_node_gpus(h, root);
    if (bb_health_active(h) == h->nodes) { /* only once */
        warn_of_baseline(o, root);
        if (check_missing(h, o, tests, &b))
            return -BB_EUSAGE;
    }
    snprintf(source, BB_HEALTH_SOURCE, "%s (%s)", o->expect, started ? started : "?");
    bb_blank_controls(source);
    return 0;
}

json_t *bb_health_baseline(const struct bb_health_options *o)
{
    const char *problem;
    FILE *file = bb_input_open(o->expect, &problem);
    json_t *root = file ? json_loadf(file, JSON_REJECT_DUPLICATES, NULL) : NULL;

    if (file)
        fclose(file);
    if (json_object_get(root, "command")) { /* of a result */
        bb_json_blank(root);
        return root;
    }
    json_decref(root);
    return NULL;
}

/* Returns whether the profile is needed for the number of GPUs of a node, also without a test that it predicts. */
static bool needs_node(const struct bb_health_options *o, const struct bb_machine_facts *facts)
{
    const bool is_odd = facts->node_gpus > 0 && !bb_health_is_node_size(facts->node_gpus);

    return bb_health_has(o, "inventory") && (is_odd || strcmp(o->expect, "auto") != 0);
}

/* Returns whether the soak judges its first rounds by the expectation of a test, whose stage does not run. */
static bool is_of_soak(const struct bb_health *h, const struct bb_health_options *o, int test)
{
    return o->soak_s > 0 && (test == BB_HEALTH_GEMM || (test == BB_HEALTH_WHOLE && h->nodes > 1));
}

int bb_health_expect(struct bb_health *h, const struct bb_health_options *o, const json_t *baseline,
                     bb_forecast *forecast, const struct bb_machine_facts *facts, char source[BB_HEALTH_SOURCE])
{
    int rc = 0;

    source[0] = '\0';
    h->inside = NAN;
    for (int test = 0; test < BB_HEALTH_TESTS; test++)
        h->expected[test] = NAN;
    if (baseline)
        return expect_baseline(h, o, baseline, source);
    for (int test = 0; test < BB_HEALTH_TESTS; test++) {
        if (!bb_health_runs(h, (enum bb_health_test)test) && !(test == 0 && needs_node(o, facts)) &&
            !is_of_soak(h, o, test))
            continue;
        TRY(expect_test(h, o, forecast, facts, (enum bb_health_test)test, source));
        if (!source[0])
            return 0;
    }
out:
    return rc;
}

bool bb_health_runs(const struct bb_health *h, enum bb_health_test test)
{
    if (h->skip[test])
        return false;
    if (test == BB_HEALTH_NODE || test == BB_HEALTH_PEERS)
        return h->gpus > 1;
    if (test == BB_HEALTH_SLOWEST_PEER)
        return h->gpus > 2;
    return test < BB_HEALTH_NODE || h->nodes > 1;
}

/* Assumed durations in seconds: of making a communicator, plus that of each of its ranks; of a test of GPUs. */
#define COMMUNICATOR_S     2.0
#define COMMUNICATOR_RANKS 0.001
#define KERNELS_S          2.0
#define UNKNOWN_GBPS       10.0 /* of a test without expectation, if that of pairs is unknown, too */

double bb_health_seconds(const struct bb_health *h, const struct bb_health_options *o, enum bb_health_test test)
{
    const int ranks = facts_of(h, (struct bb_machine_facts){0}, test, false).ranks;
    const double gbps = isfinite(h->expected[test])              ? h->expected[test]
                        : isfinite(h->expected[BB_HEALTH_PAIRS]) ? h->expected[BB_HEALTH_PAIRS]
                                                                 : UNKNOWN_GBPS;
    const int turns = test == BB_HEALTH_RAILS_ALONE ? h->gpus : 1;

    if (!bb_health_runs(h, test))
        return 0;
    if (bb_health_tests[test].part == BB_HEALTH_A_GPU)
        return KERNELS_S;
    return bb_health_rounds(h, test) * (COMMUNICATOR_S + COMMUNICATOR_RANKS * ranks +
                                        turns * 2e-9 * (double)bb_health_size(o) / gbps * o->iterations);
}

size_t bb_health_arena_bytes(void)
{
    const size_t matrices = bb_gemm_layout_of(&bb_health_gemm).bytes, copy = (size_t)BB_HEALTH_COPY + 512;

    return matrices > copy ? matrices : copy;
}

size_t bb_health_work_bytes(const struct bb_health_options *o)
{
    return bb_health_arena_bytes() + BB_GEMM_WORKSPACE +
           (bb_health_has(o, "copies") ? 2 * (size_t)BB_HEALTH_COPIES : 0);
}

/* ---- the command ---- */

/* Sets the values of a healthy cluster: a bb_health_measure of pairs of nodes of one GPU. */
static int reach_expected(void *arg, enum bb_health_test test, const int *partner, double *values)
{
    struct bb_health *h = arg;

    for (int node = 0; node < h->nodes; node++) {
        const int other = partner[node];

        values[node] = other < 0 ? NAN
                       : bb_health_is_inside(h, node, other) && isfinite(h->inside)
                           ? h->inside
                           : h->expected[test] * bb_health_uplink_share(h, partner, node, other);
    }
    return 0;
}

/* Sets `share` of all tests as the run of a healthy cluster does. */
static int plan_shares(struct bb_health *h)
{
    struct bb_health model = *h;
    int rc;

    model.gpus = 1;
    model.measure = reach_expected;
    model.arg = &model;
    for (int test = 0; test < BB_HEALTH_TESTS; test++)
        model.skip[test] = h->skip[test] || !is_of_pairs(test) || isnan(h->expected[test]);
    rc = bb_health_run(&model);
    for (int test = 0; test < BB_HEALTH_TESTS; test++)
        h->share[test] = isfinite(model.share[test]) ? model.share[test] : 1;
    bb_health_release(&model);
    return rc;
}

static int print_plan(const struct bb_health_options *o, bb_forecast *forecast)
{
    const bool one_node = o->ranks <= o->gpus_per_node;
    struct bb_health h = {
        .gpus = one_node ? o->ranks : o->gpus_per_node, .rounds = bb_health_wanted_rounds(o), .every_pair = !o->quick};
    const struct bb_machine_facts facts = {.gpu = "", .ranks = o->ranks};
    json_t *baseline = bb_health_baseline(o);
    char source[BB_HEALTH_SOURCE], memory[BB_BYTES_TEXT];
    double all = 0;
    int rc;

    h.nodes = o->ranks / h.gpus;
    for (int test = 0; test < BB_HEALTH_TESTS; test++)
        h.skip[test] = !bb_health_has(o, bb_health_tests[test].stage);
    TRY(bb_health_expect(&h, o, baseline, forecast, &facts, source));
    TRY(plan_shares(&h));
    printf("# %d node%s of %d GPU%s; expected %s%s\n", h.nodes, bb_plural(h.nodes), h.gpus, bb_plural(h.gpus),
           source[0] ? "by " : "",
           source[0] ? source : "nothing of a profile; the soak compares values with those of its first rounds");
    printf("#%-9s  %-25s %6s  %9s %-7s  %8s\n", "stage", "test", "rounds", "expected", "", "planned");
    printf("#%-9s  %-25s %6s  %9s %-7s  %8s\n", "", "", "", "", "", "(s)");
    for (int test = 0; test < BB_HEALTH_TESTS; test++)
        if (bb_health_runs(&h, (enum bb_health_test)test)) {
            char gbps[32] = "-";

            if (isfinite(h.expected[test]))
                snprintf(gbps, sizeof gbps, "%.1f", h.expected[test] * h.share[test]);
            printf(" %-9s  %-25s %6d  %9s %-7s  %8.1f\n", bb_health_tests[test].stage, bb_health_tests[test].name,
                   bb_health_rounds(&h, (enum bb_health_test)test), gbps, bb_health_tests[test].unit,
                   bb_health_seconds(&h, o, (enum bb_health_test)test));
            all += bb_health_seconds(&h, o, (enum bb_health_test)test);
        }
    if (isfinite(h.inside) && bb_health_has_domains(&h))
        printf("# expected of pairs in an NVLink domain, which is %d nodes: %.1f GB/s\n", h.domain_nodes, h.inside);
    if (o->soak_s > 0)
        printf(" %-9s  %-25s %6s  %9s %-7s  %8.1f\n", "soak", "GEMM, all_reduce of all", "-", "-", "", o->soak_s);
    printf("# GPU memory: %s per GPU, and NCCL's buffers\n",
           bb_format_bytes(bb_health_work_bytes(o) + bb_health_size(o), memory));
    printf("# estimated time: %.0f s, without repeated tests of suspects\n", all + o->soak_s);
out:
    json_decref(baseline);
    return rc;
}

static bool is_plugin(int argc, char **argv)
{
    bool found = false;

    for (int i = 1; i < argc; i++)
        found = found || strcmp(argv[i], "--nagios") == 0;
    return found;
}

/* Returns the code of a run as the exit status of a Nagios plugin. */
static int plugin_code(int rc)
{
    switch (rc) {
    case 0:
        return 0;
    case -BB_EWARN:
        return -1;
    case -BB_EBELOW:
    case -BB_EDATA:
    case -BB_ETIMEOUT:
        return -2;
    default:
        return -3;
    }
}

int bb_health_check(int argc, char **argv)
{
    return bb_opts_check(&bb_health_set, argc, argv);
}

int bb_health_main(bb_forecast *forecast, int argc, char **argv)
{
    struct bb_results_head results = {.schema = "busbar.health/1"};
    struct bb_health_options o = {0};
    int rc = bb_opts_read(&bb_health_set, &o, argc, argv);

    if (rc < 0 && is_plugin(argc, argv) && bb_launcher_rank() <= 0) {
        printf("BUSBAR UNKNOWN - %s\n", bb_err_record()->text);
        return plugin_code(rc);
    }
    if (rc != 0)
        return rc;
    if (o.plan)
        return print_plan(&o, forecast);
    bb_results_set_targets(&results, &o.common);
    results.at_end = bb_health_end_early;
    rc = bb_supervise("health", "bb_health_run", o.common.timeout_s, o.common.gpus, &results, argc, argv);
    return o.common.nagios ? plugin_code(rc) : rc;
}
