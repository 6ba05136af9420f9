/* plan_step.c - the plan of one step: build the step, assume an optimizer or recomputation that saves memory where
 * needed, predict, print and write files. */
#include "proxies/plan_options.h"

#include "bootstrap/cli/progress.h"
#include "bootstrap/cli/report_header.h"
#include "bootstrap/results/results.h"
#include "proxies/form/author/args.h"
#include "proxies/form/models/profile.h"
#include "proxies/offline/layouts/best_order.h"
#include "proxies/offline/layouts/layouts.h"
#include "proxies/offline/layouts/recompute.h"
#include "proxies/offline/plan/plan_answer.h"
#include "proxies/simulation/simulate/graph/rank_classes.h"
#include "proxies/workloads/registry/registry.h"
#include "proxies/workloads/replicas/scaling.h"
#include "proxies/workloads/sync/sync.h"
#include "proxies/workloads/transformer/grid/pipe_split.h"
#include "proxies/workloads/transformer/memory.h"
#include "proxies/workloads/transformer/training_bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

/* The step, its plan and all results derived from the plan. A zeroed struct is valid and empty. */
struct plan_results {
    struct bb_step step;
    struct bb_plan plan;
    struct bb_prediction prediction;
    struct bb_progress progress;
    struct bb_best_order best;
    struct bb_forecast forecast;
    struct bb_training_time training; /* training.steps is 0 without --tokens and epochs */
    struct bb_jittered jittered;      /* jittered.samples is 0 if --jitter is not given */
    bool predicted;
    bool is_trial; /* only the time of a step that fits is wanted */
};

#define LARGE_EXPORT 1e6 /* number of operations; a larger export is a file of tens of megabytes */

/* Write the file of --export. Before a large file is written, print the number of its operations. */
static int write_export(const struct plan_results *f, const struct bb_plan_options *o, int argc, char **argv)
{
    double ops;

    if (!o->export || !f->plan.checks.matched || !f->plan.checks.deadlock_free)
        return 0;
    ops = bb_step_operations(&f->step);
    if (ops >= LARGE_EXPORT && !o->export_only.ranks)
        bb_warn("--export: the step has %.0f operations on %d ranks, so the export may be large", ops,
                f->step.layout.ranks);
    return bb_export_step(o->export, o->export_file, &f->step, f->predicted ? &f->prediction : NULL, o->export_only,
                          argc, argv);
}

json_t *bb_plan_options_json(const struct bb_plan_options *o)
{
    json_t *options = bb_json_options(o->option_set, o);

    if (o->rates == BB_RATES_MACHINE)
        (void)json_object_set_new(options, "tflops", json_null());
    if (o->forecast)
        (void)json_object_set_new(options, "compute", json_null());
    return options;
}

/* Write the files and, unless --quiet is given or a file goes to stdout, print the plan. verdict: result of the plan, 0
 * or a negative error code, which the JSON contains. */
static int write_results(const struct plan_results *f, const struct bb_plan_options *o, int verdict, int argc,
                         char **argv)
{
    const char *const *files = o->files;
    const bool prints = !o->quiet && !bb_results_on_stdout(files[BB_PLAN_EXPORT_json], files[BB_PLAN_EXPORT_csv]);
    struct bb_plan_report report = {.plan = &f->plan,
                                    .prediction = f->predicted ? &f->prediction : NULL,
                                    .command = bb_json_words(argc, argv),
                                    .options = bb_plan_options_json(o),
                                    .profiles = bb_profile_checksums(o->cluster, o->config.model),
                                    .best_order = f->best.n > 0 ? bb_best_order_json(&f->best) : NULL,
                                    .jittered = f->jittered.samples > 0 ? &f->jittered : NULL,
                                    .training = f->training.steps > 0 ? &f->training : NULL,
                                    .text = prints ? stdout : NULL,
                                    .ops = o->ops};
    const int exported = write_export(f, o, argc, argv);
    int rc = exported;

    if (exported == -BB_EUSAGE) /* the format does not support the step */
        goto out;
    report.rc = verdict ? verdict : exported;
    if (prints) {
        bb_print_report_header(stdout, argc, argv);
        bb_plan_print(&report, o->full, stdout);
        if (f->best.n > 0)
            bb_best_order_print(&f->best, stdout);
        fflush(stdout); /* the number of operations, before a large trace is written */
    }
    if (o->export && exported == 0)
        bb_plan_report_file(report.text, o->export, o->export_file);
    rc = bb_plan_exports_write(files, &report);
    rc = exported ? exported : rc;
out:
    json_decref(report.command);
    json_decref(report.options);
    json_decref(report.profiles);
    json_decref(report.best_order);
    return rc;
}

/*
 * Return the attention implementation that a kernel list contains: "fused" or "unfused"; NULL if it contains no
 * attention. The scan of a state-space model also has a GEMM "scores", but no softmax; it is not attention.
 */
static const char *attention_in(const struct bb_kernel_list *work)
{
    bool scores = false, softmax = false;

    for (int i = 0; i < work->n; i++) {
        const struct bb_kernel_list_item *item = &work->items[i];

        if (item->fusion == BB_KERNEL_IN_ATTENTION)
            return "fused";
        scores |= !item->is_memory_kernel && strcmp(item->name, "scores") == 0;
        softmax |= item->is_memory_kernel && strcmp(item->name, "softmax") == 0;
    }
    return scores && softmax ? "unfused" : NULL;
}

static enum bb_experts experts_of(const struct bb_step *step, int ep)
{
    enum bb_experts experts = BB_EXPERTS_NONE;

    for (int w = 0; w < step->n_kernel_lists; w++)
        for (int i = 0; i < step->kernel_lists[w]->n; i++) {
            const struct bb_kernel_list_item *item = &step->kernel_lists[w]->items[i];

            if (item->experts >= 8 || item->experts * ep >= 32 ||
                (item->is_memory_kernel && strcmp(item->name, "clamp") == 0))
                return BB_EXPERTS_MANY;
            if (item->experts * ep > 1)
                experts = BB_EXPERTS_FEW;
        }
    return experts;
}

/* Return whether the precision-aware optimizer is possible and not given. */
static bool may_be_aware(const struct bb_proxy_config *config)
{
    const char *sync = config->transformer.sync;

    return !config->sync.precision_aware && sync && strcmp(sync, bb_sync_names[BB_SYNC_DISTRIBUTED]) == 0 &&
           bb_sync_uses_adam(&config->sync);
}

/*
 * Assume the precision-aware optimizer if training then fits in GPU memory. This optimizer needs less memory than the
 * default and no additional time.
 */
static int guess_optimizer(struct bb_proxy_config *config, const struct bb_arch *arch, struct bb_forecast *f)
{
    double bytes;
    int rc;

    if (!may_be_aware(config))
        return 0;
    config->sync.precision_aware = true;
    TRY(bb_training_bytes(config, arch, &bytes));
    config->sync.precision_aware = f->precision_aware = bytes <= BB_SAFE_MEMORY * f->gpu_bytes;
out:
    return rc;
}

/*
 * Return whether the experts are dropless (no capacity limit). Dropless experts may receive more tokens than the
 * average that the memory formula assumes (allow_any_load).
 */
static bool is_dropless(const struct bb_proxy_config *config, const struct bb_arch *arch)
{
    return arch->experts > 0 && config->transformer.capacity <= 0;
}

/* Predict the step of config. */
static int time_step(const struct bb_proxy *proxy, const struct bb_cluster *cluster,
                     const struct bb_proxy_config *config, int64_t *ns)
{
    struct bb_step step = {0};
    int rc;

    TRY(bb_step_build(&step, proxy, config));
    TRY(bb_predict_step_ns(&step, cluster, NULL, ns));
out:
    bb_step_release(&step);
    return rc;
}

/* Returns whether a step takes longer with the recomputation of layers than with that of modules or operations. */
static int compare_recompute(const struct bb_recompute_subject *s, const struct bb_cluster *cluster,
                             const struct bb_recompute_candidate found[2], bool *longer)
{
    int64_t ns[2] = {0};
    int rc = 0;

    for (int i = 0; i < 2 && found[1].layers > 0; i++) { /* all layers contain the modules */
        const struct bb_proxy_config as = bb_recompute_config(s->config, &found[i]);

        TRY(time_step(s->proxy, cluster, &as, &ns[i]));
    }
    *longer = ns[1] >= ns[0];
out:
    return rc;
}

/* Finds the recomputation with which training fits, with experts of equal load, and the step is shortest.
 * found: out: modules or operations, layers, and modules that store no activations of experts (ns INFINITY: do not fit);
 * fastest: out: one of the first two, with ns INFINITY if training does not fit. */
static int find_recompute(const struct bb_recompute_subject *s, const struct bb_cluster *cluster,
                          struct bb_recompute_candidate found[3], const struct bb_recompute_candidate **fastest)
{
    struct bb_recompute_subject experts = *s;
    struct bb_recompute_cost cost = {.known = false};
    double none_bytes;
    bool longer;
    int rc, modules, layers;

    TRY(bb_training_bytes(s->config, s->arch, &none_bytes));
    bb_err_speculative(true); /* other options may exclude each of them */
    bb_recompute_cost_compute(s, cluster, &cost);
    modules = bb_recompute_modules(s, &cost, none_bytes, &found[0]);
    layers = bb_recompute_layers(s, &cost, &found[1]);
    experts.required = 1u << BB_MODULE_NORM | 1u << BB_MODULE_MOE; /* as in Megatron-LM's recipes for long samples */
    if (bb_recompute_modules(&experts, &cost, none_bytes, &found[2]))
        found[2].ns = INFINITY;
    bb_err_speculative(false);
    if (strcmp(found[0].modules, bb_recompute_module_names[BB_MODULE_CORE]) == 0)
        found[0].modules[0] = '\0'; /* the default of --recompute selective */
    longer = layers || isinf(found[1].ns);
    if (!longer && !modules && isfinite(found[0].ns))
        TRY(compare_recompute(s, cluster, found, &longer));
    *fastest = &found[!longer];
out:
    return rc;
}

/* Number of experts of a model above which the assumed recomputation stores no activations of experts: the published
 * steps of such models, most of which do not name theirs, take that time. */
#define MANY_EXPERTS 32

/*
 * Replaces the fastest recomputation of dropless experts, some of which may get more tokens than the average, by one that
 * stores none of their activations: of many experts if training does not fit at all without recomputation, of few if no
 * modules fit. many: the former; found: of find_recompute; added: in: the fastest; out.
 */
static void allow_any_load(bool many, const struct bb_recompute_candidate found[3],
                           struct bb_recompute_candidate *added)
{
    if (many && isfinite(found[2].ns))
        *added = found[2];
    else if (isfinite(found[1].ns) && (many || isinf(found[0].ns)))
        *added = (struct bb_recompute_candidate){.recompute = BB_RECOMPUTE_FULL};
}

/* Stores the assumed recomputation and the fastest one with experts of equal load. */
static void note_recompute(const struct bb_recompute_candidate *added, const struct bb_recompute_candidate *fastest,
                           struct bb_forecast *f)
{
    snprintf(f->modules_text[0], BB_MODULES_TEXT, "%s", added->modules);
    snprintf(f->modules_text[1], BB_MODULES_TEXT, "%s", fastest->modules);
    f->recompute = bb_recompute_names[added->recompute];
    f->recompute_modules = added->modules[0] ? f->modules_text[0] : NULL;
    f->recompute_layers = added->layers;
    f->faster_modules =
        fastest->modules[0] && strcmp(fastest->modules, added->modules) != 0 ? f->modules_text[1] : NULL;
    f->fewest_layers = fastest->layers != added->layers ? fastest->layers : 0;
}

/*
 * Assume the fastest recomputation with which training fits in BB_SAFE_MEMORY of the GPU memory (dropless experts: with any
 * load, and name the fastest with equal load). If training does not fit even with recomputation of all layers, assume none.
 */
static int guess_recompute(const struct bb_proxy *proxy, const struct bb_cluster *cluster,
                           struct bb_proxy_config *config, const struct bb_arch *arch, struct bb_forecast *f)
{
    const struct bb_proxy_config without = *config;
    const struct bb_recompute_subject s = {proxy, &without, arch, f->software->name, BB_SAFE_MEMORY * f->gpu_bytes, 0};
    const bool many =
        arch->experts >= MANY_EXPERTS && f->without_bytes > f->gpu_bytes && !config->transformer.moe_overlap;
    struct bb_recompute_candidate found[3], added;
    const struct bb_recompute_candidate *fastest;
    int rc;

    TRY(find_recompute(&s, cluster, found, &fastest));
    f->none_fits = isinf(fastest->ns);
    f->full_bytes = f->full_bytes > 0 ? f->full_bytes : found[1].bytes;
    if (f->none_fits)
        goto out;
    added = *fastest;
    if (is_dropless(config, arch) && (added.recompute == BB_RECOMPUTE_FULL || added.modules[0]))
        allow_any_load(many, found, &added);
    note_recompute(&added, fastest, f);
    config->transformer.recompute = f->recompute;
    config->transformer.recompute_modules = f->recompute_modules;
    config->transformer.recompute_layers = f->recompute_layers;
out:
    return rc;
}

/* Returns whether training with these options fits, and sets f->saving_bytes. Options that exclude each other do not fit. */
static bool fits_changed(const struct bb_proxy_config *changed, struct bb_forecast *f)
{
    struct bb_arch arch;
    int muted = bb_err_is_mute(), rc;

    bb_err_mute(1);
    TRY(bb_training_load_arch(changed, &arch));
    TRY(bb_training_bytes(changed, &arch, &f->saving_bytes));
out:
    bb_err_mute(muted);
    return rc == 0 && f->saving_bytes <= BB_SAFE_MEMORY * f->gpu_bytes;
}

/* Finds options with which training fits: recomputation, for replicas of one GPU also sharded parameters, and, if `lora`,
 * LoRA. */
static void guess_options(const struct bb_proxy_config *config, bool lora, struct bb_forecast *f)
{
    static const struct {
        int lora_rank;
        const char *sync, *recompute, *options;
    } rows[] = {{0, NULL, "full", "--recompute full"},
                {0, "zero3", NULL, "--dp-sync zero3"},
                {0, "zero3", "full", "--dp-sync zero3 --recompute full"},
                {16, NULL, NULL, "--lora-rank 16"},
                {16, NULL, "full", "--lora-rank 16 --recompute full"},
                {16, "zero3", NULL, "--lora-rank 16 --dp-sync zero3"},
                {16, "zero3", "full", "--lora-rank 16 --dp-sync zero3 --recompute full"}};
    const struct bb_transformer_options *given = &config->transformer;
    const bool splits = given->tp > 1 || given->pp > 1 || given->cp > 1 || given->ep > 1 || given->sync;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && !f->savings && !given->offload_layers; i++) {
        struct bb_proxy_config changed = *config;
        struct bb_transformer_options *t = &changed.transformer;

        if ((rows[i].sync && (splits || config->ranks < 2)) || (rows[i].recompute && given->recompute) ||
            (rows[i].lora_rank && (!lora || given->lora_rank)))
            continue;
        t->sync = rows[i].sync ? rows[i].sync : t->sync;
        t->recompute = rows[i].recompute ? rows[i].recompute : t->recompute;
        t->lora_rank = rows[i].lora_rank ? rows[i].lora_rank : t->lora_rank;
        f->savings = fits_changed(&changed, f) ? rows[i].options : NULL;
    }
}

/* Finds the memory that training needs with all layers recomputed; 0: more than fits. changed: a copy of the configuration */
static int find_recomputed_bytes(struct bb_proxy_config *changed, const struct bb_arch *arch, double gpu_bytes,
                                 double *bytes)
{
    double needed;
    int rc;

    changed->transformer.recompute = "full";
    changed->transformer.recompute_modules = NULL;
    TRY(bb_training_bytes(changed, arch, &needed));
    *bytes = needed <= BB_SAFE_MEMORY * gpu_bytes ? needed : 0;
out:
    return rc;
}

/* Finds whether training fits with all layers recomputed and a fused loss. */
static int guess_loss(const struct bb_proxy_config *config, const struct bb_arch *arch, struct bb_forecast *f)
{
    struct bb_proxy_config fused = *config;

    if (config->transformer.loss || f->full_bytes == 0)
        return 0;
    fused.transformer.loss = "fused";
    return find_recomputed_bytes(&fused, arch, f->gpu_bytes, &f->fused_bytes);
}

/* Finds whether training fits with all layers recomputed without the overlap of the experts' dispatch, which excludes that. */
static int guess_serial(const struct bb_proxy_config *config, const struct bb_arch *arch, struct bb_forecast *f)
{
    struct bb_proxy_config serial = *config;

    if (!config->transformer.moe_overlap)
        return 0;
    serial.transformer.moe_overlap = false;
    return find_recomputed_bytes(&serial, arch, f->gpu_bytes, &f->serial_bytes);
}

/* Assume the precision-aware optimizer if training then fits in GPU memory; otherwise, or with dropless experts,
 * assume recomputation instead, or if neither suffices both. config: in/out. */
static int guess_memory(const struct bb_proxy *proxy, const struct bb_cluster *cluster, struct bb_proxy_config *config,
                        struct bb_forecast *f)
{
    struct bb_arch arch;
    int rc;

    TRY(bb_training_load_arch(config, &arch));
    if (!is_dropless(config, &arch))
        TRY(guess_optimizer(config, &arch, f));
    if (!f->precision_aware && config->transformer.offload_layers == 0) /* which excludes recomputation */
        TRY(guess_recompute(proxy, cluster, config, &arch, f));
    if (f->none_fits && may_be_aware(config)) {
        config->sync.precision_aware = true;
        config->transformer.recompute_layers = 0;
        TRY(guess_recompute(proxy, cluster, config, &arch, f));
        config->sync.precision_aware = f->precision_aware = !f->none_fits;
    }
    if (f->none_fits) {
        guess_options(config, false, f);
        TRY(guess_loss(config, &arch, f));
        TRY(guess_serial(config, &arch, f));
    }
out:
    return rc;
}

/* What add_excluded reads and writes. */
struct excluding {
    const struct bb_plan_options *options;
    struct bb_forecast *forecast;
};

static void add_excluded(void *context, const struct bb_opt *opt, const void *field)
{
    const struct excluding *e = context;
    struct bb_forecast *f = e->forecast;
    const size_t length = strlen(f->excluded);

    if (strcmp(opt->name, "recompute") == 0 && !e->options->given.transformer.recompute)
        return; /* --recompute-modules implies it */
    if ((opt->needs & BB_PLAN_SINGLE || strcmp(opt->name, "micro-batches") == 0 ||
         strncmp(opt->name, "recompute", strlen("recompute")) == 0) &&
        !bb_opts_is_default(opt, field))
        snprintf(f->excluded + length, sizeof(f->excluded) - length, " without --%s", opt->name);
}

/* Sets which options of the proxy change the numbers of stages and of micro-batches. */
static void note_pipeline(const struct bb_plan_options *o, bool transformer, struct bb_forecast *f)
{
    const struct bb_proxy_config *given = &o->config;

    f->stages_option = transformer ? "pp" : "stages";
    f->batches_option = given->scale > 0                                                        ? "scale"
                        : given->global_batch > 0 || (transformer && given->micro_batches == 0) ? "global-batch-size"
                                                                                                : "micro-batches";
}

static void forget_recompute(struct bb_proxy_config *config)
{
    config->transformer.recompute = config->transformer.recompute_modules = NULL;
    config->transformer.recompute_layers = 0;
}

/* Returns whether training fits with changed options, with all layers recomputed unless --recompute is given. Invalid options do
 * not fit. */
static bool fits_recomputed(const struct bb_plan_options *o, struct bb_proxy_config changed, const struct bb_arch *arch,
                            double gpu_bytes)
{
    struct bb_transformer_options *t = &changed.transformer;
    const int muted = bb_err_is_mute();
    double bytes = 0;
    int rc;

    if (!o->config.transformer.recompute && !t->moe_overlap && !t->offload_layers) {
        forget_recompute(&changed);
        t->recompute = "full";
    }
    bb_err_mute(1);
    rc = bb_training_bytes(&changed, arch, &bytes);
    bb_err_mute(muted);
    return rc == 0 && bytes <= BB_SAFE_MEMORY * gpu_bytes;
}

static int micro_batches_of(const struct bb_step *step, const struct bb_proxy_config *config)
{
    const struct bb_transformer_options *t = &config->transformer;
    const int replicas = step->layout.ranks / (MAX(t->tp, 1) * MAX(t->cp, 1) * MAX(t->pp, 1));

    return (int)(step->samples / replicas / MAX(config->micro_batch_size, 1));
}

/* Set which options of the batch and of the pipeline could be added to those given. layers: of the model */
static void note_batch(const struct bb_plan_options *o, const struct bb_proxy_config *config,
                       const struct bb_step *step, const struct bb_arch *arch, struct bb_forecast *f)
{
    const struct bb_transformer_options *t = &config->transformer;
    const int pp = MAX(t->pp, 1), batches = micro_batches_of(step, config);
    struct bb_proxy_config larger = *config, chunked = *config, fewer = *config;

    f->default_batch = !o->config.global_batch && !o->config.micro_batches;
    chunked.transformer.schedule = "interleaved";
    chunked.transformer.vpp =
        bb_pipe_split_chunks(&(struct bb_pipe_split){arch->layers, pp, 1, t->first_layers, t->last_layers, NULL});
    if (!o->given.transformer.schedule && t->vpp <= 1 && batches % pp == 0 && !t->pipeline_layout &&
        chunked.transformer.vpp > 1 && fits_recomputed(o, chunked, arch, f->gpu_bytes))
        f->chunks = chunked.transformer.vpp;
    larger.micro_batch_size = 2 * MAX(config->micro_batch_size, 1);
    fewer.transformer.pp = pp / 2;
    if (pp == 2)
        fewer.transformer.schedule = NULL, fewer.transformer.vpp = 1;
    if (o->config.global_batch)
        larger.micro_batches = fewer.micro_batches = MAX(config->micro_batches / 2, 1);
    f->accepts_larger_batch = (!o->config.global_batch || batches % (t->vpp > 1 ? 2 * pp : 2) == 0) &&
                              fits_recomputed(o, larger, arch, f->gpu_bytes);
    if (pp > 1 && !fits_recomputed(o, fewer, arch, f->gpu_bytes))
        f->stages_option = NULL;
}

/* Returns whether --moe-dispatch dedup could be added, also with --moe-node-limit. */
static bool accepts_dedup(const struct bb_proxy_config *config, const struct bb_arch *arch, int node_limit)
{
    struct bb_proxy_config changed = *config;
    const int muted = bb_err_is_mute();
    double bytes;
    int rc;

    changed.transformer.dispatch = "dedup";
    changed.transformer.node_limit = node_limit;
    bb_err_mute(1);
    rc = bb_training_bytes(&changed, arch, &bytes);
    bb_err_mute(muted);
    return rc == 0;
}

/* Set the notes of the report about options that were not given: the batch, the dispatch to experts, the rate of the head. */
static int note_defaults(const struct bb_plan_options *o, const struct bb_proxy_config *config,
                         const struct bb_step *step, struct bb_forecast *f)
{
    const struct bb_transformer_options *t = &config->transformer;
    const int ep_nodes = config->gpus_per_node > 0 ? t->ep / config->gpus_per_node : 0;
    struct bb_arch arch;
    int rc;

    f->head_tflops = o->rates == BB_RATES_GIVEN && config->forward_us > 0 ? config->tflops : 0;
    TRY(bb_training_load_arch(config, &arch));
    note_batch(o, config, step, &arch, f);
    if (arch.expert_groups > 1 && ep_nodes > arch.expert_groups && !t->dispatch &&
        accepts_dedup(config, &arch, arch.expert_groups))
        f->node_limit = arch.expert_groups;
    f->experts_leave_nodes = ep_nodes > 1;
    f->accepts_dedup = ep_nodes > 1 && !t->dispatch && !t->moe_overlap && accepts_dedup(config, &arch, 0);
out:
    return rc;
}

/* Lists the given options that none of the published steps has whose error is reported. */
static void add_perturbed(void *forecast, const struct bb_opt *opt, const void *field)
{
    static const char *const names[] = {"slow", "delay", "set", "moe-imbalance", "lora-rank", "optimizer-cpu-offload"};
    struct bb_forecast *f = forecast;
    const size_t length = strlen(f->perturbed);

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(opt->name, names[i]) == 0 && !bb_opts_is_default(opt, field))
            snprintf(f->perturbed + length, sizeof(f->perturbed) - length, " %s--%s",
                     strcmp(opt->name, "set") == 0 ? "this " : "", opt->name); /* some steps have another --set */
}

static bool is_null_or(const char *text, const char *word)
{
    return !text || strcmp(text, word) == 0;
}

/* Returns whether --overlap-moe-expert-parallel-comm could be added to these options. */
static bool accepts_moe_overlap(const struct bb_transformer_options *t)
{
    const bool recomputes = t->recompute && strcmp(t->recompute, "full") == 0;

    return t->ep > 1 && (t->pp <= 1 || t->vpp > 1) && is_null_or(t->schedule, t->pp > 1 ? "interleaved" : "1f1b") &&
           is_null_or(t->dispatch, "alltoall") && is_null_or(t->sync, "distributed") && !t->offload_layers &&
           !recomputes;
}

void bb_plan_describe_step(const struct bb_plan_options *o, const struct bb_step *step,
                           const struct bb_proxy_config *config, struct bb_forecast *f)
{
    const struct bb_transformer_options *t = &config->transformer;
    struct bb_arch arch;

    for (int w = 0; o->forecast && w < step->n_kernel_lists && !f->attention; w++)
        f->attention = attention_in(step->kernel_lists[w]);
    f->long_context = step->samples > 0 && step->tokens / step->samples >= BB_LONG_CONTEXT;
    f->experts = experts_of(step, t->ep);
    f->offloaded = step->host_bytes <= 0             ? "the optimizer needs"
                   : step->host_optimizer_bytes <= 0 ? "activations need"
                                                     : "activations and optimizer need";
    f->node_bytes = (step->host_bytes + step->host_optimizer_bytes) * MIN(config->gpus_per_node, step->layout.ranks);
    f->graphs_modules = t->graph_modules;
    f->lacks_tp_overlap = t->tp > 1 && t->sequence_parallel && !t->tp_overlap;
    f->lacks_moe_overlap = !t->moe_overlap && accepts_moe_overlap(t) && micro_batches_of(step, config) > 1;
    bb_opts_each(o->option_set, o, add_perturbed, f);
    if (!o->forecast || bb_training_load_arch(config, &arch) != 0)
        arch = (struct bb_arch){0};
    f->mamba = arch.scan.heads > 0 && !arch.scan.delta;
    f->is_dropless = is_dropless(config, &arch);
    if (arch.streams > 0)
        snprintf(f->perturbed + strlen(f->perturbed), sizeof(f->perturbed) - strlen(f->perturbed),
                 " hyper-connections");
    f->saves_nothing = t->recompute && strcmp(t->recompute, "selective") == 0 && !t->recompute_modules &&
                       f->attention && strcmp(f->attention, "fused") == 0;
    f->recomputes_less = f->software && bb_software_is_torch(f->software->name) &&
                         strcmp(f->software->name, "torch-te") != 0 && !t->recompute && t->lora_rank == 0 &&
                         f->experts == BB_EXPERTS_NONE && !f->mamba;
    f->attention_guessed = f->attention && strcmp(f->attention, "unfused") == 0 && !o->config.transformer.attention;
}

/* Minimum bytes of a 16-bit gradient and of the optimizer per parameter: the precision-aware one of Adam, or another (sync.h). */
static double trained_bytes(const struct bb_sync_options *o)
{
    const double offloaded = !o->cpu_offload ? 0 : o->offload_fraction > 0 ? o->offload_fraction : 1;

    return 2 + bb_sync_min_state_bytes(o) * (1 - offloaded);
}

/* Find the next number of GPUs, from those of the plan on, on which the model fits in a layout with the given options that
 * --best-layout keeps. */
static int find_ranks(const struct bb_plan_options *o, const struct bb_proxy *proxy, const struct bb_cluster *cluster,
                      const struct bb_proxy_config *config, struct plan_results *f)
{
    struct bb_proxy_config given = o->given, free = *config;
    struct bb_layout_search search = {.proxy = proxy,
                                      .given = &given,
                                      .config = &free,
                                      .cluster = cluster,
                                      .free_software = bb_plan_free_software(o)};
    const int min = (int)fmin(bb_forecast_min_gpus(&f->step, &f->forecast), 1 << 20);

    forget_recompute(&given); /* add_excluded */
    forget_recompute(&free);
    search.usable_bytes = (1 - o->margin) * f->forecast.gpu_bytes;
    search.quiet = true;
    free.transformer.software = bb_plan_layouts_software(o)->name;
    free.global_batch = (int)f->step.samples;
    return bb_layouts_fitting_ranks(&search, min, &f->forecast.fitting);
}

/* Part of the GPU memory up to which the step without the assumed memory savings is predicted too: users may save the
 * rest otherwise. */
#define LITTLE_MISSING 1.1

/*
 * Build the step. If the plan is a forecast, and training exceeds the GPU memory, find the smallest memory savings with
 * which training fits. Unless --recompute is given, assume them and build the step again.
 */
static int build_step(const struct bb_plan_options *o, const struct bb_proxy *proxy, const struct bb_cluster *cluster,
                      struct bb_proxy_config *config, struct plan_results *f)
{
    const bool may_search = o->cluster && proxy->features & BB_FEATURE_TRANSFORMER;
    const bool may_guess = may_search && o->forecast && cluster->has_achieved;
    const bool assumes = !config->transformer.recompute;
    struct bb_proxy_config guessed = *config;
    int rc;

    TRY(bb_step_build(&f->step, proxy, config));
    bb_err_mute(BB_MUTE_WARNINGS); /* those of the model file are printed once */
    f->forecast.without_bytes = bb_step_training_bytes(&f->step);
    f->forecast.trained_bytes = trained_bytes(&config->sync);
    bb_opts_each(o->option_set, o, add_excluded, &(struct excluding){o, &f->forecast});
    forget_recompute(&guessed);
    if (may_guess && f->forecast.without_bytes > BB_SAFE_MEMORY * f->forecast.gpu_bytes)
        TRY(guess_memory(proxy, cluster, &guessed, &f->forecast));
    f->forecast.is_assumed = assumes && (f->forecast.recompute || f->forecast.precision_aware);
    f->forecast.none_fits &= assumes;
    f->forecast.savings = assumes ? f->forecast.savings : NULL;
    if (f->forecast.is_assumed) {
        if (f->forecast.without_bytes < LITTLE_MISSING * f->forecast.gpu_bytes && o->conditions.slow.n == 0)
            TRY(bb_predict_step_ns(&f->step, cluster, NULL, &f->forecast.without_ns));
        *config = guessed;
        bb_step_release(&f->step);
        if (f->forecast.fewest_layers > 0 || f->forecast.faster_modules) {
            guessed.transformer.recompute = f->forecast.fewest_layers > 0 ? "full" : "selective";
            guessed.transformer.recompute_modules = f->forecast.faster_modules;
            guessed.transformer.recompute_layers = f->forecast.fewest_layers;
            TRY(time_step(proxy, cluster, &guessed, &f->forecast.fewest_ns));
        }
        TRY(bb_step_build(&f->step, proxy, config));
    }
    bb_plan_describe_step(o, &f->step, config, &f->forecast);
    if (may_search && bb_step_training_bytes(&f->step) > f->forecast.gpu_bytes && !f->is_trial)
        TRY(find_ranks(o, proxy, cluster, config, f));
    else if (!o->cluster && proxy->features & BB_FEATURE_TRANSFORMER &&
             bb_step_training_bytes(&f->step) > f->forecast.gpu_bytes && f->forecast.gpu_bytes > 0)
        guess_options(config, true, &f->forecast);
    f->forecast.with_compute = proxy->with_compute;
    note_pipeline(o, proxy->features & BB_FEATURE_TRANSFORMER, &f->forecast);
    if (proxy->features & BB_FEATURE_TRANSFORMER)
        TRY(note_defaults(o, config, &f->step, &f->forecast));
out:
    bb_err_mute(0);
    return rc;
}

/* Predicts the step with other options, and assumes memory savings for them. Returns INT64_MAX if training does not fit, or
 * the options are invalid. */
static int64_t time_trial(const struct bb_plan_options *o, const struct bb_proxy *proxy)
{
    struct bb_proxy_config config = o->config;
    struct plan_results f = {.is_trial = true};
    struct bb_cluster cluster;
    int64_t ns = INT64_MAX;
    int rc;

    bb_err_mute(1);
    TRY(bb_plan_resolve_cluster(o, &cluster, &config, &f.forecast));
    TRY(build_step(o, proxy, &cluster, &config, &f));
    if (f.forecast.gpu_bytes == 0 || bb_step_training_bytes(&f.step) <= f.forecast.gpu_bytes)
        TRY(bb_predict_step_ns(&f.step, &cluster, NULL, &ns));
out:
    bb_err_mute(0);
    bb_step_release(&f.step);
    return rc ? INT64_MAX : ns;
}

/* Predicts the step of the options with one overlap more, `option`. Returns whether it is shorter than *ns, which is then its
 * time; otherwise resets the option. */
static bool shortens(struct bb_plan_options *o, const struct bb_proxy *proxy, bool *option, int64_t *ns)
{
    int64_t trial_ns;

    *option = true;
    trial_ns = time_trial(o, proxy);
    *option = trial_ns < *ns;
    *ns = *option ? trial_ns : *ns;
    return *option;
}

/* Advises each overlap that recipes have only if the step with all advised options is then shorter. */
static void check_recipes(const struct bb_plan_options *o, const struct bb_proxy *proxy,
                          const struct bb_cluster *cluster, struct bb_forecast *f)
{
    struct bb_plan_options trial = *o;
    struct bb_transformer_options *t = &trial.config.transformer;
    char recipes[256] = "";
    bool tp, experts;
    int64_t ns;

    bb_forecast_recipes_text(f, cluster, recipes, sizeof(recipes));
    tp = strstr(recipes, "--tp-comm-overlap");
    experts = strstr(recipes, "--overlap-moe-expert-parallel-comm");
    if (!tp && !experts)
        return;
    trial.graph |= strstr(recipes, "--graph") != NULL;
    if (f->is_assumed) { /* not searched again */
        t->recompute = f->recompute ? f->recompute : bb_recompute_names[BB_RECOMPUTE_NONE];
        t->recompute_modules = f->recompute_modules;
        t->recompute_layers = f->recompute_layers;
        trial.config.sync.precision_aware |= f->precision_aware;
    }
    ns = time_trial(&trial, proxy);
    f->lacks_tp_overlap = tp && shortens(&trial, proxy, &t->tp_overlap, &ns);
    if (f->is_assumed) { /* the overlap of experts excludes some */
        forget_recompute(&trial.config);
        trial.config.sync.precision_aware = o->config.sync.precision_aware;
    }
    f->lacks_moe_overlap = experts && shortens(&trial, proxy, &t->moe_overlap, &ns);
}

#define HUGE_EXPERTS 0.2 /* part of the step */

/* If exposed traffic of experts takes a large part of the step: advises the first change with which training fits and the step
 * is shorter. */
static void check_dispatch(const struct bb_plan_options *o, const struct bb_proxy *proxy, const struct bb_step *step,
                           const struct bb_prediction *p, struct bb_forecast *f)
{
    struct bb_plan_options dedup = *o, overlap = *o, fewer = *o;
    const struct bb_predicted_rank *slowest = &p->classes[p->slowest];
    const int group = bb_plan_most_exposed_group(p, &step->layout);
    const char *name = group == BB_NONE ? "" : step->layout.groups[group].name;
    int64_t ns;

    if (f->node_limit > 0 || !(bb_begins_with(name, "ep") || strcmp(name, "tp_ep") == 0)) /* tp_ep: with etp above 1 */
        return;
    f->exposed_experts = (double)slowest->groups[group].exposed_transfer_ns / (double)slowest->all.step_ns;
    if (f->exposed_experts < HUGE_EXPERTS || !(f->accepts_dedup || f->lacks_moe_overlap || f->experts_leave_nodes))
        return;
    ns = time_trial(o, proxy);
    dedup.config.transformer.dispatch = "dedup";
    overlap.config.transformer.moe_overlap = true;
    fewer.config.transformer.ep /= 2;
    if (f->accepts_dedup && time_trial(&dedup, proxy) < ns)
        f->dispatch_advice = ", each token is sent to each of its experts; try: --moe-dispatch dedup";
    else if (f->lacks_moe_overlap && time_trial(&overlap, proxy) < ns)
        f->dispatch_advice = "; try: --overlap-moe-expert-parallel-comm";
    else if (f->experts_leave_nodes && time_trial(&fewer, proxy) < ns)
        f->dispatch_advice = "; with a smaller --ep, more of it stays within nodes";
}

#define MAX_CHUNKS 8 /* more only add messages between stages */

/* Returns the chunks of a stage, from `least` to MAX_CHUNKS, with the shortest step; 0: none is shorter than ns. */
static int find_chunks(const struct bb_plan_options *o, const struct bb_proxy *proxy, int least, int64_t ns)
{
    struct bb_plan_options chunked = *o;
    int found = 0;

    chunked.config.transformer.schedule = "interleaved";
    for (int n = least; n <= MAX(least, MAX_CHUNKS); n++) {
        int64_t trial_ns;

        chunked.config.transformer.vpp = n;
        trial_ns = time_trial(&chunked, proxy);
        found = trial_ns < ns ? n : found;
        ns = MIN(ns, trial_ns);
    }
    return found;
}

/* If the pipeline bubble takes a large part of the step: advises chunks or fewer stages only if samples then take less time. With
 * given micro-batches, half of the stages have twice the samples. */
static void check_pipeline(const struct bb_plan_options *o, const struct bb_proxy *proxy, const struct bb_prediction *p,
                           struct bb_forecast *f)
{
    struct bb_plan_options fewer = *o;
    const struct bb_predicted_rank *slowest = &p->classes[p->slowest];
    int64_t ns;

    if (!(proxy->features & BB_FEATURE_TRANSFORMER) || o->config.transformer.pp < 2 ||
        (double)slowest->exposed.bubble_ns < BB_HUGE_BUBBLE * (double)slowest->all.step_ns)
        return;
    ns = time_trial(o, proxy);
    fewer.config.transformer.pp /= 2;
    if (fewer.config.transformer.pp == 1)
        fewer.config.transformer.schedule = NULL, fewer.config.transformer.vpp = 1;
    f->chunks = f->chunks ? find_chunks(o, proxy, f->chunks, ns) : 0;
    if (time_trial(&fewer, proxy) / (o->config.global_batch ? 1 : 2) >= ns)
        f->stages_option = NULL;
}

/* Report on stderr that training does not fit in GPU memory: with --must-fit an error, else a warning. */
static int check_memory(const struct bb_plan_options *o, const struct plan_results *f)
{
    char misfit[BB_MISFIT_TEXT];

    if (!bb_forecast_misfit_text(&f->plan, &f->forecast, f->predicted, misfit)) {
        bb_forecast_memory_text(&f->plan, &f->forecast, misfit, sizeof(misfit));
        return o->must_fit && bb_forecast_is_tight(&f->plan, &f->forecast) ? bb_err(BB_EBELOW, "--must-fit: %s", misfit)
                                                                           : 0;
    }
    if (o->must_fit)
        return bb_err(BB_EBELOW, "--must-fit: training %s", misfit);
    bb_warn("training does not fit in GPU memory: %s", misfit);
    return 0;
}

int bb_plan_training_time(const struct bb_plan_options *o, const struct bb_cluster *cluster, double step_tokens,
                          double step_ns, struct bb_training_time *t)
{
    const struct bb_failures *failures = &o->training.failures;

    if (step_tokens <= 0)
        return bb_err(BB_EUSAGE, "%s: --tokens is not supported for this proxy (its samples have no tokens)",
                      o->config.proxy);
    if (o->training.tokens < step_tokens)
        bb_warn("--tokens %s is less than the %.0f tokens of one step; with a unit, for example: --tokens 15T",
                o->tokens, step_tokens);
    if (step_ns == 0)
        return 0;
    *t = bb_training_time(step_tokens, o->config.ranks, step_ns, o->training.tokens);
    if (failures->mtbf_node_s == 0)
        return 0;
    return bb_reliability(failures, bb_cluster_hosts(cluster, o->config.ranks), t, &t->with_failures);
}

/* Predicts the duration of the epochs of the proxy scaling. The last step of an epoch may have fewer samples. */
static int time_epochs(const struct bb_proxy *proxy, struct bb_proxy_config config, const struct bb_cluster *cluster,
                       const struct bb_conditions *conditions, double step_ns, struct bb_training_time *t)
{
    struct bb_prediction last = {0};
    struct bb_step step = {0};
    struct bb_scaling s;
    double epoch_ns, steps;
    int rc;

    TRY(bb_scaling_resolve(&config, &s));
    if (s.synthetic)
        goto out;
    config.scaling.part = BB_SCALING_LAST;
    if (s.last_batch > 0) {
        TRY(bb_step_build(&step, proxy, &config));
        TRY(bb_predict_under(&step, cluster, conditions, &last));
    }
    steps = s.full_steps + (s.last_batch > 0);
    epoch_ns = s.full_steps * step_ns + (double)last.step_ns;
    *t = bb_training_time(1, s.ranks, epoch_ns / steps, s.rounds * steps);
    t->tokens = 0;
    t->samples = s.images;
    t->epochs = s.rounds;
out:
    bb_prediction_release(&last);
    bb_step_release(&step);
    return rc;
}

static void warn_unmeasured(const struct bb_prediction *p, const struct bb_layout *l)
{
    bool is_used[BB_NCCL_VARIANTS + 1][2] = {{false}};

    for (int g = 0; g < l->n_groups; g++) {
        const struct bb_predicted_group *group = &p->classes[p->slowest].groups[g];

        if (group->busy_ns > 0)
            is_used[group->variant == BB_NONE ? BB_NCCL_VARIANTS : group->variant]
                   [bb_group_nodes(l, g, 0, p->cluster.gpus_per_node) > 1] = true;
    }
    bb_cluster_warn_unmeasured(&p->cluster, is_used);
}

static int predict(const struct bb_plan_options *o, const struct bb_cluster *cluster, struct plan_results *f)
{
    const int samples = o->samples > 0 ? o->samples : bb_jitter_default_samples(bb_step_operations(&f->step));
    int rc;

    TRY(bb_predict_under(&f->step, cluster, &o->conditions, &f->prediction));
    bb_progress_clear(&f->progress);
    warn_unmeasured(&f->prediction, &f->step.layout);
    if (o->conditions.jitter > 0) {
        bb_progress_show(&f->progress, "simulating %d steps with jitter", samples);
        bb_progress_expect(&f->progress, samples);
        TRY(bb_predict_jitter(&f->step, cluster, &o->conditions, samples, &f->progress, &f->jittered));
    }
out:
    return rc;
}

/* Warn if tensor-parallel groups span several nodes: their communication is on the critical path of every layer. */
static void warn_inter_node_tp(const struct bb_proxy *proxy, const struct bb_proxy_config *config,
                               const struct bb_layout *l)
{
    const int gpus = config->gpus_per_node;
    const char *order = config->transformer.order;
    char advice[64] = "";

    for (int g = 0; g < l->n_groups && gpus > 0; g++) {
        if (strcmp(l->groups[g].name, "tp") != 0 || bb_group_nodes(l, g, 0, gpus) <= 1)
            continue;
        if (!(proxy->features & BB_FEATURE_TRANSFORMER))
            advice[0] = '\0';
        else if (l->groups[g].size > gpus)
            snprintf(advice, sizeof(advice), "; to stay within a node, try: --tp %d", gpus);
        else if (order && strncmp(order, "tp", 2) != 0)
            snprintf(advice, sizeof(advice), "; to stay within a node, begin --order with tp");
        bb_warn("tensor parallelism of %d ranks spans several nodes of %d GPU%s%s", l->groups[g].size, gpus,
                bb_plural(gpus), advice);
    }
}

int bb_plan_step(const struct bb_plan_options *o, const struct bb_proxy *proxy, int argc, char **argv)
{
    struct bb_proxy_config config = o->config;
    struct bb_cluster cluster;
    struct plan_results f = {0};
    double step_ns = 0;
    int rc, written;

    TRY(bb_plan_resolve_cluster(o, &cluster, &config, &f.forecast));
    TRY(build_step(o, proxy, &cluster, &config, &f));
    if (o->export || o->files[BB_PLAN_EXPORT_trace])
        TRY(bb_step_expand(&f.step)); /* converts each alltoallv to the sends and receives that the trace and the
                                         exports show */
    warn_inter_node_tp(proxy, &config, &f.step.layout);
    bb_progress_init(&f.progress, 0, o->quiet);
    bb_progress_show(&f.progress, "planning %d ranks", config.ranks);
    TRY(bb_plan_count(&f.plan, &f.step, o->ops));
    f.plan.forecast = &f.forecast;
    f.predicted = o->cluster && f.plan.checks.matched && f.plan.checks.deadlock_free;
    if (f.predicted)
        TRY(predict(o, &cluster, &f));
    if (f.predicted) {
        check_recipes(o, proxy, &cluster, &f.forecast);
        check_dispatch(o, proxy, &f.step, &f.prediction, &f.forecast);
        check_pipeline(o, proxy, &f.prediction, &f.forecast);
    }
    bb_progress_end(&f.progress);
    if (f.predicted)
        step_ns = f.jittered.samples > 0 ? bb_jittered_at(&f.jittered, 50) : (double)f.prediction.step_ns;
    if (o->tokens)
        TRY(bb_plan_training_time(o, &cluster, f.step.tokens, step_ns, &f.training));
    else if (f.predicted && proxy->features & BB_FEATURE_SCALING)
        TRY(time_epochs(proxy, config, &cluster, &o->conditions, step_ns, &f.training));
    if (o->best_order)
        TRY(bb_best_order(proxy, &config, config.gpus_per_node, &f.best));
    bb_err_mute(BB_MUTE_WARNINGS); /* of a deadlock that the line `checks` names */
    rc = bb_checks_report(f.step.proxy, &f.plan.checks);
    bb_err_mute(0);
    rc = rc ? rc : check_memory(o, &f);
    written = write_results(&f, o, rc, argc, argv);
    rc = rc ? rc : written;
out:
    bb_progress_end(&f.progress);
    bb_best_order_release(&f.best);
    bb_prediction_release(&f.prediction);
    bb_jittered_release(&f.jittered);
    bb_plan_release(&f.plan);
    bb_step_release(&f.step);
    return rc;
}

int bb_plan_validate_step(struct bb_plan_options *o)
{
    int rc;

    TRY(bb_plan_parse_conditions(o));
    TRY(bb_results_validate(o->files[BB_PLAN_EXPORT_json], o->files[BB_PLAN_EXPORT_csv]));
    TRY(bb_export_validate(o->export, o->export_only, o->cluster, &o->conditions.slow));
    if (o->tokens)
        TRY(bb_tokens_parse(o->tokens, &o->training.tokens));
    else if (o->failures.mtbf_node)
        return bb_err(BB_EUSAGE, "--mtbf-node requires --tokens (for example --tokens 15T)");
    TRY(bb_failures_parse(&o->failures, &o->training.failures));
    if (bb_precision_word(&o->config.transformer) && o->cluster && o->rates == BB_RATES_MACHINE && !o->forecast)
        return bb_err(BB_EUSAGE,
                      "--%s only applies to forecasts; --compute gemm predicts the proxy's own run, which has GEMMs of "
                      "--dtype; leave one out",
                      o->config.transformer.precision ? "gemm-precision" : "fp8");
    if ((o->config.sync.cpu_offload || o->config.transformer.offload_layers) && !o->forecast)
        return bb_err(BB_EUSAGE,
                      "--%s only applies to transformer forecasts: it requires --cluster, and no --compute, "
                      "--tflops, --forward-us or --backward-us",
                      o->config.sync.cpu_offload ? "optimizer-cpu-offload" : "cpu-offloading-num-layers");
    if (o->graph && o->config.transformer.graph_modules)
        return bb_err(BB_EUSAGE, "--graph captures the whole step; leave out --cuda-graph-modules");
    if (o->config.scaling.baseline)
        return bb_err(BB_EUSAGE,
                      "--baseline applies only to a run (busbar proxy); a plan has no measurements to compare");
    if (o->config.scaling.epoch_steps)
        return bb_err(BB_EUSAGE,
                      "--epoch-steps applies only to a run (busbar proxy); a plan predicts each step; leave it out");
out:
    return rc;
}
