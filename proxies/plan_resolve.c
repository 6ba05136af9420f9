/* plan_resolve.c - code common to all uses of plan: cluster, requirements between options, injected slowdowns and
 * jitter, CSV output. */
#include "proxies/plan_options.h"

#include "bootstrap/base/outfile.h"
#include "bootstrap/results/flat_table.h"
#include "proxies/form/author/args.h"
#include "proxies/workloads/sync/sync.h"
#include "proxies/workloads/transformer/training_bytes.h"

#include <stdlib.h>
#include <string.h>

/*
 * Set the launch overhead in `cluster`, and return the launch mode for reports: "graph" with --graph (the step runs as
 * CUDA graphs, and their launch overhead is modeled as zero); "eager" if the forecast includes the host time to launch
 * each operation separately; else NULL.
 */
static const char *resolve_host(const struct bb_plan_options *o, struct bb_cluster *cluster)
{
    cluster->eager = o->forecast && cluster->has_host && !o->graph;
    if (o->graph)
        bb_cluster_launch_graphs(cluster);
    return cluster->eager ? "eager" : o->graph ? "graph" : NULL;
}

/* Set the rates and the overlap of the software. config: out: whether the software overlaps, without and with
 * sharded parameters. */
static void resolve_software(struct bb_cluster *cluster, struct bb_proxy_config *config, struct bb_forecast *f)
{
    struct bb_transformer_options *t = &config->transformer;
    const enum bb_sync_kind sync = (enum bb_sync_kind)bb_args_index(t->sync, bb_sync_names, BB_SYNC_ALL_REDUCE);
    const bool shards = bb_sync_gathers_parameters(sync);

    for (int sharded = 0; sharded < 2; sharded++) {
        const struct bb_software *s =
            bb_software_of(t->software, sharded || bb_training_assumes_torch(config, sync), !config->sync.no_overlap);

        t->serial[sharded] = !s->overlaps;
        if (sharded == shards)
            f->software = s;
    }
    f->default_note = t->software ? NULL
                      : t->sync && strncmp(t->sync, "zero", 4) == 0 && strcmp(f->software->name, "torch") != 0
                          ? " by default; for DeepSpeed or PyTorch: --software torch"
                          : " by default, see --software";
    bb_software_apply(f->software, cluster);
}

static void resolve_forecast(const struct bb_plan_options *o, struct bb_cluster *cluster,
                             struct bb_proxy_config *config, struct bb_forecast *f)
{
    struct bb_transformer_options *t = &config->transformer;

    f->rates = o->rates;
    f->tflops = o->rates != BB_RATES_MACHINE && config->forward_us <= 0 ? config->tflops : 0;
    f->gpu_bytes = o->gpu_memory > 0 ? (double)o->gpu_memory : o->cluster ? cluster->memory_bytes : 0;
    f->precision = bb_gemm_precision_of(bb_precision_word(t));
    f->dtype = (enum bb_dtype_id)bb_dtype_find(config->dtype);
    if (!o->forecast || !cluster->has_achieved)
        return;
    resolve_software(cluster, config, f);
    t->unfused_dropout = !cluster->achieved.fuses_dropout;
    if (!t->attention && cluster->achieved.fuses_dropout)
        t->attention = "fused";
}

/* Warn that predictions ignore NCCL's variables: the cost model always takes NCCL's fastest variant of the profile. */
static void warn_nccl_variables(const struct bb_cluster *cluster)
{
    static const char *const names[] = {"NCCL_ALGO", "NCCL_PROTO"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);

        if (value && *value && cluster->n_variants > 0)
            bb_warn(
                "%s=%s does not change a prediction, which assumes NCCL's fastest algorithm and protocol; with this "
                "variable: busbar-emulated bench",
                names[i], value);
    }
}

/* A node of gb200-nvl72 is 64 of the 72 GPUs of an NVLink domain, which jobs with a power of two of ranks use. Without
 * --gpus-per-node, ranks that fill whole domains use all. Warns if the ranks fill more than one node, but fit in a domain. */
static void use_nvlink_domains(const struct bb_plan_options *o, int ranks, struct bb_cluster *cluster)
{
    const int gpus = cluster->domain_gpus;
    bool is_given = false;

    for (int i = 0; i < o->changes.n; i++)
        is_given |= strncmp(o->changes.text[i], "gpus_per_node=", strlen("gpus_per_node=")) == 0;
    if (gpus > 0 && ranks % gpus == 0 && !is_given)
        bb_cluster_set_gpus_per_node(cluster, gpus);
    else if (ranks > cluster->gpus_per_node && ranks <= gpus)
        bb_warn(
            "%d ranks are planned as 2 nodes, since %s has %d GPUs per node; all %d GPUs of its NVLink domain: try: "
            "--gpus-per-node %d",
            ranks, cluster->name, cluster->gpus_per_node, gpus, gpus);
}

/* Warns if the ranks do not fill the last node. given: --gpus-per-node, or 0 */
static void warn_partial_node(int given, int ranks)
{
    if (given > 0 && ranks > given && ranks % given != 0)
        bb_warn(
            "%d ranks are not a multiple of --gpus-per-node %d, so the last node has %d; try: --ranks %d or --ranks "
            "%d",
            ranks, given, ranks % given, ranks - ranks % given, ranks - ranks % given + given);
}

int bb_plan_load_cluster(const struct bb_plan_options *o, int gpus_per_node, struct bb_cluster *cluster)
{
    int rc;

    TRY(bb_cluster_load_changed(o->cluster, &o->changes, cluster));
    bb_cluster_warn_units(cluster);
    warn_nccl_variables(cluster);
    if (cluster->domain_gpus > 0 && gpus_per_node > cluster->domain_gpus)
        return bb_err(BB_EUSAGE, "--gpus-per-node is %d, but an NVLink domain of %s, which is a node, has %d GPUs",
                      gpus_per_node, cluster->name, cluster->domain_gpus);
    if (gpus_per_node > 0)
        bb_cluster_set_gpus_per_node(cluster, gpus_per_node);
    else
        use_nvlink_domains(o, o->config.ranks, cluster);
    warn_partial_node(o->given.gpus_per_node, o->config.ranks);
out:
    return rc;
}

int bb_plan_validate_precision(const struct bb_cluster *cluster, const char *precision)
{
    if (!precision || bb_cluster_low_precision_tflops(cluster, bb_gemm_precision_of(precision)) > 0)
        return 0;
    if (strcmp(precision, "fp8") == 0)
        return bb_err(BB_EUSAGE,
                      "--fp8: %s: its GPU has no FP8 (no 'tflops.float8' in the profile); leave out --fp8, or try a "
                      "cluster of Hopper or Blackwell: --cluster h100-sxm-ib",
                      cluster->name);
    return bb_err(BB_EUSAGE,
                  "--gemm-precision %s: the GPUs of cluster '%s' have no MXFP8 and NVFP4, which Blackwell has "
                  "('tflops.float4' of the profile)%s",
                  precision, cluster->name, cluster->tflops_float8 > 0 ? "; try: --gemm-precision fp8" : "");
}

int bb_plan_resolve_cluster(const struct bb_plan_options *o, struct bb_cluster *cluster, struct bb_proxy_config *config,
                            struct bb_forecast *f)
{
    int rc = 0;

    *cluster = (struct bb_cluster){0};
    if (o->cluster)
        TRY(bb_plan_load_cluster(o, config->gpus_per_node, cluster));
    if (o->cluster)
        config->gpus_per_node = cluster->gpus_per_node;
    if (o->cluster)
        TRY(bb_plan_validate_precision(cluster, bb_precision_word(&config->transformer)));
    if (o->cluster && cluster->pcie_gbps <= 0 && (config->sync.cpu_offload || config->transformer.offload_layers))
        return bb_err(BB_EUSAGE,
                      "--%s: cluster '%s' has no rate of the host link ('pcie_gbps'); try: --set pcie_gbps=52",
                      config->sync.cpu_offload ? "optimizer-cpu-offload" : "cpu-offloading-num-layers", cluster->name);
    cluster->models_training = o->forecast;
    cluster->gradient_bytes =
        bb_dtypes[config->sync.grad_dtype ? bb_dtype_find(config->sync.grad_dtype) : BB_FLOAT].bytes;
    f->host = resolve_host(o, cluster);
    if (o->cluster && o->rates == BB_RATES_GIVEN)
        config->memory_gbps = bb_cluster_memory_gbps(cluster);
    resolve_forecast(o, cluster, config, f);
    if (o->graph && !cluster->graphs_fuse_experts)
        TRY(bb_training_validate_graph(config, true));
out:
    return rc;
}

/* ---- options that require or exclude other options ---- */

/* Return which conditions of enum bb_plan_feature the command line meets, and the features of the proxy. proxy: NULL
 * for a collective. */
static unsigned features_of(const struct bb_plan_options *o, const struct bb_proxy *proxy)
{
    unsigned features = proxy ? proxy->features : 0;

    features |= o->best_layout ? BB_PLAN_LAYOUTS : BB_PLAN_SINGLE;
    if (o->cluster)
        features |= BB_PLAN_CLUSTER | BB_PLAN_MEMORY | BB_PLAN_NODES;
    if (o->jitter)
        features |= BB_PLAN_JITTER;
    if (o->failures.mtbf_node)
        features |= BB_PLAN_FAILURES;
    if (o->forecast)
        features |= BB_PLAN_FORECAST;
    if (o->gpu_memory > 0)
        features |= BB_PLAN_MEMORY;
    if (o->config.gpus_per_node > 0)
        features |= BB_PLAN_NODES;
    return features;
}

int bb_plan_validate_requirements(const struct bb_plan_options *o, const struct bb_positionals *line,
                                  const struct bb_proxy *proxy)
{
    static const struct {
        unsigned feature;
        const char *requirement;
    } rows[] = {
        {BB_PLAN_LAYOUTS, "requires --best-layout"},
        {BB_PLAN_CLUSTER, "requires --cluster (for example --cluster h100-sxm-ib)"},
        {BB_PLAN_JITTER, "requires --jitter (for example --jitter 3%)"},
        {BB_PLAN_FAILURES, "requires --mtbf-node (for example --mtbf-node 1500d)"},
        {BB_PLAN_SINGLE, "applies to one plan, but --best-layout compares many; leave one out"},
        {BB_PLAN_FORECAST, "only applies to transformer forecasts: it requires --cluster, and no --compute, "
                           "--tflops, --forward-us or --backward-us"},
        {BB_PLAN_MEMORY, "requires --cluster NAME or --gpu-memory BYTES (for example --gpu-memory 80G)"},
        {BB_PLAN_NODES, "requires --gpus-per-node N or --cluster NAME (for example --gpus-per-node 8)"},
    };
    const unsigned features = features_of(o, proxy);
    /* each search treats all features but one as present, so it finds only options that lack this one */
    const char *option =
        bb_opts_find_unsupported(bb_plan_tables, o, line, features | ~(unsigned)BB_FEATURE_TRANSFORMER);

    if (option && proxy)
        return bb_err(BB_EUSAGE, "%s: --%s applies only to transformer", proxy->name, option);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        option = bb_opts_find_unsupported(bb_plan_tables, o, line, features | ~rows[i].feature);
        if (option)
            return bb_err(BB_EUSAGE, "--%s %s", option, rows[i].requirement);
    }
    return 0;
}

/* ---- injected slowdowns and jitter ---- */

/* Converts the value of an option, for example "3%", to the fraction 0.03. */
static int parse_percent(const char *option, const char *text, double *part)
{
    char *end;
    double percent = strtod(text, &end);
    const bool lacks_unit = end != text && !*end && percent > 0 && percent <= 100;

    if (end == text || strcmp(end, "%") != 0 || !(percent >= 0 && percent <= 100))
        return bb_err(BB_EUSAGE, "--%s: '%s' is not a percentage from 0%% to 100%%; try: --%s %g%%", option, text,
                      option,
                      !lacks_unit   ? 3
                      : percent < 1 ? 100 * percent
                                    : percent);
    *part = percent / 100;
    return 0;
}

int bb_plan_parse_conditions(struct bb_plan_options *o)
{
    struct bb_conditions *conditions = &o->conditions;
    int rc = 0;

    *conditions = (struct bb_conditions){.seed = o->seed ? (uint64_t)o->seed : 1};
    if (o->slow)
        TRY(bb_slow_parse(&conditions->slow, "--slow", o->slow));
    if (o->delay)
        TRY(bb_slow_parse_delays(&conditions->slow, "--delay", o->delay));
    if (o->jitter)
        TRY(parse_percent("jitter", o->jitter, &conditions->jitter));
    TRY(parse_percent("memory-margin", o->memory_margin, &o->margin));
out:
    return rc;
}

/* ---- CSV ---- */

int bb_plan_write_rows(const char *path, const json_t *rows, const json_t *root)
{
    struct bb_outfile file;
    int rc;

    if (bb_outfile_is_stdout(path)) {
        bb_flat_table_write(rows, root, stdout);
        return 0;
    }
    TRY(bb_outfile_open(&file, path, "the table"));
    bb_flat_table_write(rows, root, file.out);
    rc = bb_outfile_close(&file, "the table", 0);
out:
    return rc;
}
