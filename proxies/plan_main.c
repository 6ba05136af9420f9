/* plan_main.c - `busbar plan`: its options, and which of the plans is asked for. */
#include "proxies/plan_main.h"

#include "proxies/models/profile.h"
#include "proxies/plan_options.h"
#include "proxies/registry/registry.h"

#include <limits.h>
#include <string.h>

#define MAX_RANKS (1 << 24)

#define FIELD(name) offsetof(struct bb_plan_options, name)

#define EXPORT_OPTION(word, what, to_stdout, text)                                                                     \
    OPT_STRING(0, #word, FIELD(files[BB_PLAN_EXPORT_##word]), NULL, "FILE", text),

static const struct bb_opt plan_options[] = {
    OPT_INT(0, "ranks", FIELD(config.ranks), NULL, "N", 1, MAX_RANKS, "ranks of the job: needed"),
    OPT_STRING(0, "cluster", FIELD(cluster), NULL, "NAME|FILE",
               "predict the step's time on this cluster ('busbar list clusters')", .choice_at = bb_cluster_name_at),
    OPT_SIZE(0, "gpu-memory", FIELD(gpu_memory), NULL, "BYTES", 1, 1e15,
             "memory of a GPU, for the verdict on it (default: of --cluster)"),
    OPT_FLAG(0, "must-fit", FIELD(must_fit), "exit 5 where training would not hold in a GPU's memory"),
    OPT_FLAG('G', "graph", FIELD(graph),
             "of transformer, with --cluster: the step is launched as CUDA graphs, and the host keeps nothing waiting"),
    OPT_STRING(0, "tokens", FIELD(tokens), NULL, "COUNT",
               "with --cluster: how many steps, days and GPU hours a training on so many tokens takes (15T, 300B)"),
    OPT_STRING(0, "slow", FIELD(slow), NULL, "LIST",
               "with --cluster: what is slower than the rest: rank=5:1.1 (its kernels last 1.1 times as long; of "
               "steps), link=node3-nic2:0.5 (the NIC has half its rate; at most 1), link=leaf3:0.5 (the uplinks of a "
               "leaf of the profile's fabric); several with commas"),
    OPT_STRING(0, "jitter", FIELD(jitter), NULL, "PERCENT",
               "with --cluster: also steps in which the time of each compute operation varies on every rank (of a "
               "collective each rank's part of it): normally distributed, with this standard deviation (3%), cut at "
               "three of them"),
    OPT_INT(0, "seed", FIELD(seed), NULL, "N", 1, INT_MAX,
            "of --jitter: the same seed, the same steps (default: 1); and of --moe-imbalance"),
    OPT_INT(0, "samples", FIELD(samples), "100", "N", 1, 100000, "of --jitter: how many steps or operations"),
    BB_PREDICTION_EXPORTS(EXPORT_OPTION)
        OPT_FLAG(0, "ops", FIELD(ops), "also every operation of each role, in the order in which the host issues them"),
    OPT_FLAG(0, "best-order", FIELD(best_order),
             "of transformer: also every order of the axes (--order), by the bytes that cross nodes in a step; nodes "
             "from --gpus-per-node or --cluster"),
    OPT_FLAG(
        0, "best-layout", FIELD(best_layout),
        "of transformer, with --cluster and --global-batch-size: instead of one plan the quickest layouts that fit "
        "in a GPU's memory; of tp, cp, ep, pp, chunks, schedule, micro-batch, recompute and dp-sync what is given "
        "stays, the rest is searched"),
    OPT_INT(0, "top", FIELD(top), "10", "N", 1, 1000, "with --best-layout: how many are shown"),
    OPT_INT(0, "threads", FIELD(threads), NULL, "N", 1, 256,
            "with --best-layout: threads (default: one for each processor); the answer is the same"),
    OPT_CHOICE_AT(0, "export", FIELD(export), NULL, "FORMAT", bb_export_name_at,
                "write the step to a file for another tool; its name is the last word (--export goal step.goal; of "
                "chakra step.RANK.et)"),
    OPT_STRING(0, "export-ranks", FIELD(export_only.ranks), NULL, "LIST",
               "of --export perfetto: these ranks, as 0,8-15 (default: the first of each role)"),
    OPT_STRING(0, "export-micro-batches", FIELD(export_only.micro_batches), NULL, "LIST",
               "of --export perfetto: operations of these micro-batches, and those of none (default: all)"),
    BB_PLAN_EXPORTS(EXPORT_OPTION){0},
};

#define PLAN_TABLE                                                                                                     \
    {                                                                                                                  \
        .title = "The plan", .opts = plan_options                                                                      \
    }
#define COLLECTIVE_TABLE                                                                                               \
    {                                                                                                                  \
        .title = "Of collectives", .opts = bb_bench_case_rows, .base = FIELD(bench)                                    \
    }

static const struct bb_opt_table tables[] = {PLAN_TABLE, COLLECTIVE_TABLE, BB_STEP_TABLES(FIELD(config)), {0}};
static const struct bb_opt_table step_tables[] = {PLAN_TABLE, BB_STEP_TABLES(FIELD(config)), {0}};
static const struct bb_opt_table collective_tables[] = {PLAN_TABLE, COLLECTIVE_TABLE, {0}};

/* Proxies, then collectives. */
static const char *choice_at(size_t i)
{
    size_t n = (size_t)bb_n_proxies;

    return i < n ? bb_proxy_name_at(i) : i - n < BB_COLL_KIND_COUNT ? bb_colls[i - n].name : NULL;
}

static const struct bb_opts set = {
    .usage = "busbar plan NAME [WORD...] --ranks N [OPTION...]\n       busbar plan COLLECTIVE... --ranks N --cluster "
             "NAME|FILE [OPTION...]",
    .doc = "Builds the step of a proxy for any number of ranks, without GPU and MPI: who moves what, how much memory\n"
           "its buffers take, whether every message meets its other side and nothing can deadlock, and, from the cost\n"
           "model of a cluster profile, how long it would take. NAME is a name of `busbar list proxies`; some take\n"
           "numbers after it: busbar plan gpt2_large 64 8 --ranks 32\n"
           "Of a COLLECTIVE (`busbar list collectives`, or all) the table that `busbar bench` would print, predicted.",
    .choice_at = choice_at,
    .after =
        "Exit status: 0 ok, 1 the step is not sound, 2 usage or a layout that cannot be, 5 --must-fit and it does\n"
        "not.",
    .tables = tables,
};

static const struct bb_opts step_option_set = {.tables = step_tables};
static const struct bb_opts collective_option_set = {.tables = collective_tables};

/* --export goal step.goal: the option takes the format, and the file is the last word. */
static int parse_export_file(struct bb_plan_options *o, struct bb_positionals *positionals)
{
    const char *last = positionals->n > 1 ? positionals->word[positionals->n - 1] : "";
    int number;

    if (!o->export)
        return 0;
    if (!*last || bb_parse_int(last, INT_MIN, INT_MAX, &number) == 0)
        return bb_err(BB_EUSAGE, "--export needs the name of a file: --export %s FILE%s%s", o->export,
                      *last ? "; for a file of this name write ./" : "", last);
    o->export_file = last;
    positionals->n--;
    return 0;
}

/* A forecast takes the machine's own rates, unless it is told others. Before the proxy's defaults come in. */
static int configure(struct bb_plan_options *o, const struct bb_positionals *positionals, const struct bb_proxy **proxy)
{
    const bool given = o->config.tflops > 0 || o->config.forward_us > 0 || o->config.backward_us > 0;
    const bool bare = !given && !o->config.compute;
    const int gpus_per_node = o->config.gpus_per_node;
    int rc;

    if (o->seed != 0 && !o->jitter && o->config.transformer.imbalance <= 0)
        return bb_err(BB_EUSAGE,
                      "--seed is of --jitter and of --moe-imbalance; leave it out, or nearest: --jitter 3%%");
    /* One --seed for all that draws numbers: it comes here, before the transformer's row of this name. */
    if (o->config.transformer.imbalance > 0 || !o->jitter)
        o->config.transformer.seed = o->seed;
    if (o->cluster) /* which has nodes, whatever the step is made of */
        o->config.gpus_per_node = 0;
    TRY(bb_proxy_configure(&o->config, positionals, proxy));
    o->config.gpus_per_node = gpus_per_node;
    o->forecast = o->cluster && bare && (*proxy)->features & BB_FEATURE_TRANSFORMER;
    if (o->forecast)
        o->config.compute = "gemm";
    o->rates = strcmp(o->config.compute, "gemm") == 0 ? BB_RATES_MACHINE : given ? BB_RATES_GIVEN : BB_RATES_PROXY;
out:
    return rc;
}

/* Words of the wrong kind get the nearest of the right one. */
static int find_proxy(struct bb_plan_options *o, struct bb_positionals *positionals, const struct bb_proxy **proxy)
{
    const char *names[BB_COLL_KIND_COUNT + 64], *near, *changed;
    const struct bb_opt_table *collective = &tables[1];
    size_t n = 0;
    int rc;

    while (n < sizeof(names) / sizeof(names[0]) && (names[n] = choice_at(n)))
        n++;
    near = positionals->n > 0 && !bb_proxy_exists(positionals->word[0]) ? bb_nearest_word(positionals->word[0], names, n)
                                                                        : NULL;
    if (near && bb_coll_find(near) >= 0)
        return bb_err(BB_EUSAGE, "unknown proxy or collective '%s', did you mean '%s'?", positionals->word[0], near);
    TRY(parse_export_file(o, positionals));
    TRY(configure(o, positionals, proxy));
    changed = bb_opts_find_changed(collective, o);
    if (changed)
        return bb_err(BB_EUSAGE, "%s: --%s is of collectives; leave it out", (*proxy)->name, changed);
out:
    return rc;
}

static int validate_plan(const struct bb_plan_options *o, const struct bb_proxy *proxy)
{
    int rc;

    if (o->config.ranks == 0)
        return bb_err(BB_EUSAGE, "%s: plan needs --ranks N, how many ranks the job has", proxy->name);
    TRY(bb_plan_validate_layouts(o, proxy));
    TRY(bb_plan_validate_step(o, proxy));
out:
    return rc;
}

static bool is_collective(const struct bb_positionals *positionals)
{
    return positionals->n > 0 && (strcmp(positionals->word[0], "all") == 0 || bb_coll_find(positionals->word[0]) >= 0);
}

int bb_plan_main(int argc, char **argv)
{
    const struct bb_proxy *proxy;
    struct bb_plan_options o = {0};
    struct bb_proxy_config asked;
    struct bb_positionals positionals;
    int rc;

    TRY(bb_opts_parse(&set, &o, argc, argv, &positionals, stdout));
    o.option_set = is_collective(&positionals) ? &collective_option_set : &step_option_set;
    if (is_collective(&positionals))
        return bb_plan_collectives(&o, &positionals, false, argc, argv);
    asked = o.config;
    TRY(find_proxy(&o, &positionals, &proxy));
    TRY(validate_plan(&o, proxy));
    TRY(bb_plan_exports_check_writable(o.files));
    if (o.export)
        TRY(bb_export_check(o.export, o.export_file));
    if (o.best_layout)
        TRY(bb_plan_layouts(&o, &asked, proxy, argc, argv));
    else
        TRY(bb_plan_step(&o, proxy, argc, argv));
out:
    return rc;
}

int bb_plan_check(int argc, char **argv)
{
    const struct bb_proxy *proxy;
    struct bb_plan_options o = {0};
    struct bb_positionals positionals;
    int rc = bb_opts_check(&set, argc, argv);

    TRY(rc);
    TRY(bb_opts_parse(&set, &o, argc, argv, &positionals, stdout));
    if (is_collective(&positionals)) {
        TRY(bb_plan_collectives(&o, &positionals, true, argc, argv));
    } else {
        TRY(find_proxy(&o, &positionals, &proxy));
        TRY(validate_plan(&o, proxy));
    }
    if (o.config.model)
        TRY(bb_profile_validate_name("models", o.config.model));
    if (o.cluster)
        TRY(bb_profile_validate_name("clusters", o.cluster));
out:
    return rc;
}
