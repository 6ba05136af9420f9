/* plan_main.c - `busbar plan`: its options, and the dispatch to the plan of one step, the layout search or a
 * collective. */
#include "proxies/plan_main.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/outfile.h"
#include "proxies/form/models/profile.h"
#include "proxies/plan_compute.h"
#include "proxies/plan_options.h"
#include "proxies/simulation/machine/software.h"
#include "proxies/workloads/registry/registry.h"
#include "proxies/workloads/transformer/layer/routing.h"
#include "proxies/workloads/transformer/training_bytes.h"

#include <limits.h>
#include <string.h>

#define MAX_RANKS      (1 << 24)
#define MIN_GPU_MEMORY (1 << 20)

#define FIELD(name) offsetof(struct bb_plan_options, name)

#define EXPORT_OPTION(word, what, text)                                                                                \
    OPT_OUTPUT_DASH(0, #word, FIELD(files[BB_PLAN_EXPORT_##word]), text,                                               \
                    .everyday = BB_PLAN_EXPORT_##word == BB_PLAN_EXPORT_json),
#define PREDICTION_OPTION(word, what, text)                                                                            \
    OPT_OUTPUT(0, #word, FIELD(files[BB_PLAN_EXPORT_##word]), text, .needs = BB_PLAN_ONE_STEP | BB_PLAN_CLUSTER),

static const struct bb_opt plan_options[] = {
    OPT_INT(0, "ranks", FIELD(config.ranks), NULL, "N", 1, MAX_RANKS, "number of ranks of the job (required)",
            .everyday = true),
    OPT_STRING(0, "cluster", FIELD(cluster), NULL, "NAME|FILE",
               "predict the step's time and FLOP utilization (MFU) on this cluster ('busbar list clusters')",
               .choice_at = bb_cluster_name_at, .everyday = true),
    OPT_TEXTS(0, "set", FIELD(changes), "KEY=VALUE", BB_SET_HELP, .needs = BB_PLAN_CLUSTER),
    OPT_SIZE(
        0, "gpu-memory", FIELD(gpu_memory), NULL, "BYTES", 1, 1e15,
        "size of the GPU memory that the step must fit; 80G, 80GB and 80GiB are 80 GiB (2^30 bytes), because GPUs have "
        "about as many GiB as their names have GB (default: from --cluster)",
        .needs = BB_PLAN_STEP),
    OPT_FLAG(
        0, "full", FIELD(full),
        "print everything: also traffic, memory and times of each role and group, checks (default: the answer in at "
        "most 25 lines)"),
    OPT_QUIET(FIELD(quiet)),
    BB_PLAN_EXIT_OPTIONS,
    OPT_CHOICE(
        0, "software", FIELD(config.transformer.software), NULL, "NAME", bb_software_names,
        "the training framework, whose rates and overlap a forecast assumes: megatron (Megatron-LM with the "
        "kernels and overlaps of NVIDIA's recipes), megatron-flash2 (the same with FlashAttention-2), megatron-plain "
        "(without them), torch (PyTorch), torch-compile (with torch.compile, which fuses memory-bound kernels), "
        "torch-te (PyTorch with the layers of Transformer "
        "Engine), jax (as megatron) (default: torch with --dp-sync "
        "zero3 or hsdp, and with --lora-rank unless with --pp, --sequence-parallel or --dp-sync distributed, "
        "megatron-plain with --no-overlap, "
        "else megatron)",
        .needs = BB_PLAN_STEP | BB_PLAN_FORECAST),
    OPT_FLAG('G', "graph", FIELD(graph), "model CUDA-graph launch: no host overhead (transformer, --cluster)",
             .needs = BB_PLAN_STEP | BB_PLAN_FORECAST),
    OPT_STRING(0, "cuda-graph-modules", FIELD(config.transformer.graph_modules), NULL, "LIST",
               "modules of layers that the host launches as one CUDA graph each, separated by commas, as Megatron-LM's "
               "transformer_engine: attn, mlp, moe (requires --capacity-factor), moe_router (with shared experts), "
               "moe_preprocess (requires moe_router), mamba",
               .needs = BB_PLAN_STEP | BB_PLAN_FORECAST),
    OPT_STRING(0, "tokens", FIELD(tokens), NULL, "COUNT",
               "with --cluster: predict steps, days and GPU hours of training on COUNT tokens (15T, 300B)",
               .needs = BB_PLAN_STEP | BB_PLAN_CLUSTER),
    OPT_STRING(
        0, "mtbf-node", FIELD(failures.mtbf_node), NULL, "TIME",
        "with --tokens: mean time between failures of a node (in NVLink domains: of a host; 1500d, 40h); also predict "
        "the best checkpoint interval, goodput and days with failures; requires --checkpoint and --restart",
        .needs = BB_PLAN_STEP | BB_PLAN_CLUSTER),
    OPT_STRING(0, "checkpoint", FIELD(failures.checkpoint), NULL, "TIME",
               "with --mtbf-node: time for which a checkpoint stops training (40s)",
               .needs = BB_PLAN_STEP | BB_PLAN_FAILURES),
    OPT_STRING(0, "restart", FIELD(failures.restart), NULL, "TIME",
               "with --mtbf-node: time from a failure until training goes on from the last checkpoint (10m)",
               .needs = BB_PLAN_STEP | BB_PLAN_FAILURES),
    OPT_STRING(
        0, "spares", FIELD(failures.spares), NULL, "N",
        "with --mtbf-node: number of spare nodes (with NVLink domains: hosts), which GPU hours include; the job waits "
        "while more nodes than this are in repair (default: a failed node is always replaced within --restart)",
        .needs = BB_PLAN_STEP | BB_PLAN_FAILURES),
    OPT_STRING(0, "repair", FIELD(failures.repair), NULL, "TIME",
               "with --spares: mean time until a failed node can be used again (default: 1d)",
               .needs = BB_PLAN_STEP | BB_PLAN_FAILURES),
    OPT_STRING(0, "slow", FIELD(slow), NULL, "LIST",
               "with --cluster: inject slowdowns (stragglers), separated by commas: rank=5:1.1 makes rank 5's kernels "
               "1.1x slower "
               "(steps only); node3:0.5 halves the speed of the node: kernels of all its GPUs take twice as long, and "
               "all its NICs have half of their bandwidth (factor at most 1); link=node3-nic2:0.5 halves the bandwidth "
               "of one NIC; link=node3-node7:0.5 that of the path between two nodes (link=node3-to-node7: in one "
               "direction; concurrent "
               "transfers over several slow paths of one NIC share the bandwidth of one path); "
               "link=leaf3:0.5 halves the uplinks of a leaf switch in the profile's fabric",
               .needs = BB_PLAN_CLUSTER),
    OPT_STRING(0, "delay", FIELD(delay), NULL, "LIST",
               "with --cluster: ranks that start each step late, separated by commas: rank=1:100us (us, ms or s)",
               .needs = BB_PLAN_STEP | BB_PLAN_CLUSTER),
    OPT_STRING(0, "jitter", FIELD(jitter), NULL, "PERCENT",
               "with --cluster: also simulate steps with random compute times: the duration of each compute operation "
               "on each rank (for collectives: of each rank's contribution) has a normal distribution with this "
               "relative standard deviation (e.g. 3%); factors beyond 3 sigma or below 0 are set to that limit, so "
               "above 33% the mean increases",
               .needs = BB_PLAN_CLUSTER),
    OPT_INT(0, "seed", FIELD(seed), NULL, "N", 1, INT_MAX, "random seed for --jitter (default: 1) and --moe-imbalance"),
    OPT_INT(0, "samples", FIELD(samples), NULL, "N", 1, 100000,
            "with --jitter: number of steps or operations to simulate (default: 100, or fewer of a long step)",
            .needs = BB_PLAN_JITTER),
    BB_PREDICTION_EXPORTS(PREDICTION_OPTION)
        OPT_FLAG(0, "ops", FIELD(ops),
                 "also list every operation of each role (ranks with the same program), in host issue order",
                 .needs = BB_PLAN_ONE_STEP),
    OPT_FLAG(0, "best-order", FIELD(best_order),
             "transformer: also list every order of the axes (--order), sorted by inter-node bytes per step; requires "
             "--gpus-per-node or --cluster",
             .needs = BB_PLAN_ONE_STEP | BB_FEATURE_TRANSFORMER | BB_PLAN_NODES),
    OPT_FLAG(
        0, "best-layout", FIELD(best_layout),
        "transformer, with --cluster and --global-batch-size: instead of one plan, search for the fastest layouts "
        "that fit in GPU memory; given values of tp, cp, ep, pp, vpp, schedule, micro-batch size, recompute and "
        "dp-sync are kept, the others are searched (with a given dp-sync that shards, only layouts with replicas); not "
        "searched: tp above 1 without --sequence-parallel; --tp-comm-overlap, except for megatron on Hopper and "
        "Blackwell with NVLink "
        "(a given one is kept)",
        .needs = BB_PLAN_STEP | BB_FEATURE_TRANSFORMER | BB_PLAN_CLUSTER, .everyday = true),
    OPT_STRING(
        0, "memory-margin", FIELD(memory_margin), "5%", "PERCENT",
        "with --best-layout: part of the GPU memory that stays free, for the CUDA context, NCCL and fragmentation",
        .needs = BB_PLAN_STEP | BB_PLAN_LAYOUTS),
    OPT_STRING(
        0, "explain", FIELD(explain), NULL, "OPTIONS",
        "with --best-layout: also report the place of the layout with these options, e.g. \"--tp 4 --pp 8\", and why "
        "it is not first, is invalid or does not fit",
        .needs = BB_PLAN_STEP | BB_PLAN_LAYOUTS),
    OPT_INT(0, "top", FIELD(top), BB_DEFAULT_TOP, "N", 1, 1000,
            "with --best-layout: number of layouts to show, each the fastest of its tp, cp, ep, pp and dp; by default "
            "fewer in the text if it has more than 25 lines without --full",
            .needs = BB_PLAN_STEP | BB_PLAN_LAYOUTS),
    OPT_INT(0, "threads", FIELD(threads), NULL, "N", 1, 256,
            "with --best-layout: number of threads (default: one per processor); does not change the result",
            .needs = BB_PLAN_STEP | BB_PLAN_LAYOUTS),
    OPT_CHOICE_AT(
        0, "export", FIELD(export), NULL, "FORMAT", bb_export_name_at,
        "write the step to a file for another tool; the file name is the last argument (--export goal "
        "step.goal; chakra writes step.RANK.et; perfetto: the predicted timeline in Perfetto's binary format, "
        "a tenth of the size of --trace: step.pftrace)",
        .needs = BB_PLAN_ONE_STEP),
    OPT_STRING(0, "export-ranks", FIELD(export_only.ranks), NULL, "LIST",
               "with --export perfetto: ranks to write, e.g. 0,8-15 (default: the first rank of each role)",
               .needs = BB_PLAN_STEP),
    OPT_STRING(0, "export-micro-batches", FIELD(export_only.micro_batches), NULL, "LIST",
               "with --export perfetto: micro-batches to write; operations without a micro-batch are always written "
               "(default: all)",
               .needs = BB_PLAN_STEP),
    BB_PLAN_EXPORTS(EXPORT_OPTION){0},
};

#define PLAN_TABLE                                                                                                     \
    {                                                                                                                  \
        .title = "The plan", .opts = plan_options                                                                      \
    }
#define COLLECTIVE_TABLE                                                                                               \
    {                                                                                                                  \
        .title = "Collectives", .opts = bb_bench_case_rows, .base = FIELD(bench), .needs = BB_PLAN_COLLECTIVE          \
    }

const struct bb_opt_table bb_plan_tables[] = {PLAN_TABLE, {0}};
static const struct bb_opt_table tables[] = {PLAN_TABLE, BB_STEP_TABLES(FIELD(config)), COLLECTIVE_TABLE, {0}};
static const struct bb_opt_table step_tables[] = {PLAN_TABLE, BB_STEP_TABLES(FIELD(config)), {0}};
static const struct bb_opt_table collective_tables[] = {PLAN_TABLE, COLLECTIVE_TABLE, {0}};

/*
 * Return name i of the names that the first positional argument may have: first all proxies, then all collectives. NULL
 * past the last name. Used for shell completion and for spelling suggestions.
 */
static const char *choice_at(size_t i)
{
    size_t n = (size_t)bb_n_proxies;

    return i < n ? bb_proxy_name_at(i) : i - n < BB_COLL_KIND_COUNT ? bb_colls[i - n].name : NULL;
}

/* The conditions of options (enum bb_plan_feature) hold in the help of every subject. */
static bool find_subject(const char *word, struct bb_opt_subject *subject)
{
    const int kind = bb_coll_find(word);

    if (bb_proxy_find_subject(word, subject)) {
        subject->features |= subject->features & BB_FEATURE_TRANSFORMER
                                 ? BB_PLAN_CONDITIONS
                                 : BB_PLAN_CONDITIONS & ~(BB_PLAN_FORECAST | BB_PLAN_LAYOUTS);
        return true;
    }
    if (kind >= 0)
        *subject = (struct bb_opt_subject){word, bb_colls[kind].help, "--cluster NAME|FILE",
                                           BB_PLAN_CONDITIONS | BB_PLAN_COLLECTIVE};
    return kind >= 0;
}

static int layers_of(const char *model, bool *is_dense)
{
    const struct bb_proxy_config config = {.model = model};
    const int muted = bb_err_is_mute();
    struct bb_arch arch;
    int rc;

    bb_err_mute(1);
    rc = bb_training_load_arch(&config, &arch);
    bb_err_mute(muted);
    if (is_dense && rc == 0)
        *is_dense = arch.experts == 0 && arch.mtp == 0;
    return rc ? 0 : arch.layers;
}

static const struct bb_opts set = {
    .usage = "busbar plan NAME [ARG...] --ranks N [OPTION...]\n       busbar plan COLLECTIVE... --ranks N --cluster "
             "NAME|FILE [OPTION...]",
    .doc =
        "Builds the training step of a proxy for any number of ranks, without GPU and MPI. Reports its traffic and\n"
        "memory, checks that all ranks call matching operations and that no deadlock is possible, and predicts\n"
        "its time with the cost model of a cluster profile. NAME is a name from `busbar list proxies`; some proxies\n"
        "accept numbers after the name: busbar plan gpt2_large 64 8 --ranks 32\n"
        "With a COLLECTIVE (`busbar list collectives`, or all): predicts the table that `busbar bench` prints.\n"
        "Command lines of Megatron-LM, DeepSpeed, torchtitan and Hugging Face are translated: busbar plan torchrun "
        "...\n"
        "(in a launch script, replace torchrun by busbar plan torchrun, and run the script)\n"
        "plan compute --cluster NAME|FILE predicts kernels: GEMMs, attention, memory-bound kernels (plan compute "
        "--help).\n"
        "If your training step takes longer than predicted: fit a profile to your cluster (busbar calibrate), time the "
        "same step on it (busbar proxy --compute gemm, with --cluster next to its prediction), and plan the possible "
        "causes: --set "
        "achieved.gemm=0.6, --slow, --jitter (busbar compare shows them side by side).",
    .examples = "  busbar plan all_reduce --ranks 512 --cluster h100-sxm-ib -b 1M -e 8G\n"
                "  busbar plan transformer --model llama3_8b --ranks 64 --tp 4 --cluster h100-sxm-ib\n"
                "  busbar plan transformer --model llama3_70b --ranks 1024 --tp 8 --pp 4 --dp-sync distributed "
                "--global-batch-size "
                "2048 --tokens 15T --cluster b200-sxm-ib\n"
                "  busbar plan transformer --model llama3_8b --ranks 16 --best-layout --global-batch-size 64 --cluster "
                "h100-sxm-ib\n"
                "  busbar plan gpt2_large 64 8 --ranks 32\n",
    .choice_at = choice_at,
    .find_subject = find_subject,
    .foreign = bb_foreign_options,
    .programs = bb_foreign_programs,
    .layers_of = layers_of,
    .after = BB_LOCK_STEP_NOTE,
    .exits = {[0] = "ok",
              [1] = "invalid step (unmatched operation or deadlock), or an output cannot be written",
              [2] = "usage error, invalid input or invalid layout",
              [5] = "an exit condition is not met (options with \"exit 5\")"},
    .tables = tables,
};

static const struct bb_opts step_option_set = {.tables = step_tables};
static const struct bb_opts collective_option_set = {.tables = collective_tables};

/* Returns whether --export chakra FILE may write the file `path`: FILE.RANK.et or FILE.groups.json. */
static bool is_trace_of(const struct bb_plan_options *o, const char *path)
{
    const char *name = basename(path), *dot = strrchr(name, '.');
    const size_t length = strlen(basename(o->export_file));
    char *trace;
    bool same;

    if (strcmp(o->export, "chakra") != 0 || strlen(name) <= length || !dot || dot <= name + length)
        return false;
    trace = bb_format("%s%s", o->export_file, name + length);
    same = (strcmp(dot, ".et") == 0 || strcmp(name + length, ".groups.json") == 0) && bb_outfile_replaces(path, trace);
    free(trace);
    return same;
}

/* Parse "--export goal step.goal": the option's value is the format; the last positional argument is the file name. */
static int parse_export_file(struct bb_plan_options *o, struct bb_positionals *positionals)
{
    const char *last = positionals->n > 1 ? positionals->word[positionals->n - 1] : "";
    int number;

    if (!o->export)
        return 0;
    if (!*last || strcmp(last, "-") == 0 || bb_parse_int(last, INT_MIN, INT_MAX, &number) == 0)
        return bb_err(BB_EUSAGE, "--export requires a file name: --export %s FILE%s%s", o->export,
                      *last ? "; for a file of this name, write ./" : "", last);
    o->export_file = last;
    positionals->n--;
    for (int i = 0; i < BB_N_PLAN_EXPORTS; i++)
        if (o->files[i] && is_trace_of(o, o->files[i]))
            return bb_err(BB_EUSAGE, "--export %s writes %s; try: another file name", o->export, o->files[i]);
    return bb_opts_check_file(&step_option_set, o, "export", last);
}

/*
 * Complete the proxy's config, and decide whether the plan is a forecast of real training (o->forecast): true for a
 * transformer proxy with --cluster and with none of --compute, --tflops, --forward-us and --backward-us. Must run
 * before the proxy's defaults are applied.
 */
static int configure(struct bb_plan_options *o, const struct bb_positionals *positionals, const struct bb_proxy **proxy)
{
    const bool given = o->config.tflops > 0 || o->config.forward_us > 0 || o->config.backward_us > 0;
    const bool bare = !given && !o->config.compute;
    const int gpus_per_node = o->config.gpus_per_node;
    int rc;

    if (o->seed != 0 && !o->jitter && o->config.transformer.imbalance <= 0)
        return bb_err(BB_EUSAGE, "--seed requires --jitter or --moe-imbalance (for example --jitter 3%%)");
    /* --seed is an option of `busbar plan` (for --jitter) and of the proxy transformer (for --moe-imbalance). The
     * parser stores the seed only in the options of plan. The seed is copied to the proxy's options unless only
     * --jitter uses it. */
    if (o->config.transformer.imbalance > 0 || !o->jitter)
        o->config.transformer.seed = o->seed;
    /* With --cluster, --gpus-per-node is valid for every proxy, because the cluster has nodes. bb_proxy_configure()
     * rejects the option for some proxies, so the field is 0 (option not given) during that call and is restored
     * after it. */
    if (o->cluster)
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

/* Select the proxy with the given name. If no proxy has this name, and a collective has the most similar name, print
 * an error that suggests the collective. */
static int find_proxy(struct bb_plan_options *o, struct bb_positionals *positionals, const struct bb_proxy **proxy)
{
    const char *names[BB_COLL_KIND_COUNT + 64], *near, *changed;
    const struct bb_opt_table *collective = &collective_tables[1];
    size_t n = 0;
    int rc;

    while (n < sizeof(names) / sizeof(names[0]) && (names[n] = choice_at(n)))
        n++;
    if (positionals->n > 0 && !bb_proxy_exists(positionals->word[0]))
        TRY(bb_reject_foreign_program(positionals->word[0], ""));
    near = positionals->n > 0 && !bb_proxy_exists(positionals->word[0])
               ? bb_nearest_word(positionals->word[0], names, n)
               : NULL;
    if (near && bb_coll_find(near) >= 0)
        return bb_err(BB_EUSAGE, "unknown proxy or collective '%s', did you mean '%s'?", positionals->word[0], near);
    TRY(parse_export_file(o, positionals));
    TRY(configure(o, positionals, proxy));
    changed = bb_opts_find_changed(collective, o, positionals);
    if (changed)
        return bb_err(BB_EUSAGE, "%s: --%s applies only to collectives", (*proxy)->name, changed);
out:
    return rc;
}

static bool is_collective(const struct bb_positionals *positionals)
{
    return positionals->n > 0 && (strcmp(positionals->word[0], "all") == 0 || bb_coll_find(positionals->word[0]) >= 0);
}

/*
 * Parse and validate the command line.
 *   proxy  out: NULL for a collective, whose options bb_plan_collectives validates
 */
static int parse_plan(struct bb_plan_options *o, struct bb_positionals *positionals, const struct bb_proxy **proxy,
                      int argc, char **argv)
{
    int rc;

    *proxy = NULL;
    TRY(bb_opts_parse(&set, o, argc, argv, positionals, stdout));
    o->given = o->config;
    o->option_set = is_collective(positionals) ? &collective_option_set : &step_option_set;
    if (is_collective(positionals))
        return 0;
    TRY(find_proxy(o, positionals, proxy));
    if (o->config.ranks == 0)
        return bb_err(BB_EUSAGE, "%s: plan requires --ranks N, the number of ranks of the job (for example --ranks 64)",
                      (*proxy)->name);
    TRY(bb_plan_validate_requirements(o, positionals, *proxy));
    if (o->gpu_memory > 0 && o->gpu_memory < MIN_GPU_MEMORY)
        return bb_err(BB_EUSAGE, "--gpu-memory %zu: a GPU has more than %zu bytes; try: --gpu-memory %zu%c",
                      o->gpu_memory, o->gpu_memory, o->gpu_memory, o->gpu_memory < 1000 ? 'G' : 'M');
    if (o->best_layout && !o->config.global_batch)
        return bb_err(BB_EUSAGE,
                      "--best-layout requires --global-batch-size N, the samples per step of every layout; try: "
                      "--global-batch-size %d%s",
                      o->config.ranks, o->config.micro_batches ? " instead of --micro-batches" : "");
    TRY(bb_plan_validate_step(o));
out:
    return rc;
}

static bool is_compute(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "compute") == 0;
}

int bb_plan_main(int argc, char **argv)
{
    const struct bb_proxy *proxy;
    struct bb_plan_options o = {0};
    struct bb_positionals positionals;
    int rc;

    if (is_compute(argc, argv))
        return bb_plan_compute(argc, argv, false);
    TRY(parse_plan(&o, &positionals, &proxy, argc, argv));
    if (!proxy)
        return bb_plan_collectives(&o, &positionals, false, argc, argv);
    TRY(bb_plan_exports_check_writable(o.files));
    if (o.export)
        TRY(bb_export_check_writable(o.export, o.export_file));
    o.config.transformer.shares = bb_expert_shares_new();
    o.given.transformer.shares = o.config.transformer.shares;
    if (o.best_layout)
        TRY(bb_plan_layouts(&o, proxy, argc, argv));
    else
        TRY(bb_plan_step(&o, proxy, argc, argv));
out:
    bb_expert_shares_free(o.config.transformer.shares);
    return rc;
}

int bb_plan_check(int argc, char **argv)
{
    const struct bb_proxy *proxy;
    struct bb_plan_options o = {0};
    struct bb_positionals positionals;
    int rc;

    if (is_compute(argc, argv))
        return bb_plan_compute(argc, argv, true);
    TRY(bb_opts_check(&set, argc, argv));
    TRY(parse_plan(&o, &positionals, &proxy, argc, argv));
    if (!proxy)
        TRY(bb_plan_collectives(&o, &positionals, true, argc, argv));
    if (o.config.model)
        TRY(bb_profile_validate_name("models", o.config.model));
    if (o.cluster)
        TRY(bb_profile_validate_name("clusters", o.cluster));
out:
    return rc;
}
