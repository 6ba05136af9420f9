/* plan_main.c - `busbar plan`: options to step, step to plan, plan to text and JSON. */
#include "proxies/plan_main.h"

#include "bootstrap/base/outfile.h"
#include "bootstrap/base/units.h"
#include "bootstrap/results/flat_table.h"
#include "bootstrap/results/results.h"
#include "collectives/sweep/bench_options.h"
#include "proxies/bench_plan/bench_plan.h"
#include "proxies/export/export.h"
#include "proxies/layouts/layouts.h"
#include "proxies/models/profile.h"
#include "proxies/plan/forecast.h"
#include "proxies/plan/plan_export.h"
#include "proxies/registry/best_order.h"
#include "proxies/registry/registry.h"

#include <string.h>

#define MOST_RANKS (1 << 24)

struct plan_options {
    struct bb_proxy_config config;
    const char *cluster, *tokens, *files[BB_N_PLAN_EXPORTS];
    const char *export, *export_file; /* its format, and the last word */
    struct bb_export_only export_only;
    bool ops, best_order, best_layout, must_fit;
    size_t gpu_memory;
    enum bb_rates rates;           /* no option: whose */
    int top, threads;              /* of --best-layout */
    struct bb_bench_options bench; /* of a collective: which rows */
};

#define FIELD(name) offsetof(struct plan_options, name)

#define EXPORT_OPTION(word, what, to_stdout, text)                                                                     \
    OPT_STRING(0, #word, FIELD(files[BB_PLAN_EXPORT_##word]), NULL, "FILE", text),

static const struct bb_opt plan_options[] = {
    OPT_INT(0, "ranks", FIELD(config.ranks), NULL, "N", 1, MOST_RANKS, "ranks of the job: needed"),
    OPT_STRING(0, "cluster", FIELD(cluster), NULL, "NAME|FILE",
               "predict the step's time on this cluster ('busbar list clusters')", .word_at = bb_cluster_name_at),
    OPT_SIZE(0, "gpu-memory", FIELD(gpu_memory), NULL, "BYTES", 1, 1e15,
             "memory of a GPU, for the verdict on it (default: of --cluster)"),
    OPT_FLAG(0, "must-fit", FIELD(must_fit), "exit 5 where training would not hold in a GPU's memory"),
    OPT_STRING(0, "tokens", FIELD(tokens), NULL, "COUNT",
               "with --cluster: how many steps, days and GPU hours a training on so many tokens takes (15T, 300B)"),
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
    OPT_WORD_AT(0, "export", FIELD(export), NULL, "FORMAT", bb_export_name_at,
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
static const char *word_at(size_t i)
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
    .word_at = word_at,
    .after =
        "Exit status: 0 ok, 1 the step is not sound, 2 usage or a layout that cannot be, 5 --must-fit and it does\n"
        "not.",
    .tables = tables,
};

/* What the options of a plan's JSON are: those that mean something to it. */
static const struct bb_opts step_set = {.tables = step_tables};
static const struct bb_opts collective_set = {.tables = collective_tables};

/* The plan and what was computed from it; zeroed is empty. */
struct findings {
    struct bb_step step;
    struct bb_plan plan;
    struct bb_prediction prediction;
    struct bb_best_order best;
    struct bb_forecast forecast;
    struct bb_training_time training; /* tokens 0: was not asked for */
    bool predicted;
};

static void print_command(int argc, char **argv)
{
    printf("# busbar %s  busbar", BUSBAR_VERSION);
    for (int i = 0; i < argc; i++)
        printf(" %s", argv[i]);
    putchar('\n');
}

static void print_findings(const struct findings *f, bool ops, int argc, char **argv)
{
    print_command(argc, argv);
    bb_plan_print(&f->plan, f->predicted ? &f->prediction : NULL, ops, stdout);
    if (f->training.tokens > 0)
        bb_training_time_print(&f->training, stdout);
    if (f->best.n > 0)
        bb_best_order_print(&f->best, stdout);
}

static int write_files(const struct findings *f, const struct plan_options *o)
{
    struct bb_plan_report report = {.plan = &f->plan,
                                    .prediction = f->predicted ? &f->prediction : NULL,
                                    .options = bb_json_options(&step_set, o),
                                    .best_order = f->best.n > 0 ? bb_best_order_json(&f->best) : NULL,
                                    .training = f->training.tokens > 0 ? &f->training : NULL,
                                    .ops = o->ops};
    int rc = f->best.n > 0 && !report.best_order ? bb_err(BB_EFAIL, "out of memory for the plan's JSON")
                                                 : bb_plan_exports_write(o->files, &report);

    json_decref(report.options);
    json_decref(report.best_order);
    return rc;
}

/* ---- what the forecast rests on ---- */

static void settle_forecast(const struct plan_options *o, const struct bb_cluster *cluster,
                            struct bb_proxy_config *config, struct bb_forecast *f)
{
    struct bb_transformer_options *t = &config->transformer;

    f->rates = o->rates;
    f->tflops = o->rates != BB_RATES_MACHINE && config->forward_us <= 0 ? config->tflops : 0;
    f->gpu_bytes = o->gpu_memory > 0 ? (double)o->gpu_memory : o->cluster ? cluster->memory_bytes : 0;
    f->float8 = t->float8;
    if (!o->cluster || !cluster->achieves)
        return;
    t->unfused_dropout = !cluster->achieved.fuses_dropout;
    if (!t->attention && cluster->achieved.fuses_dropout)
        t->attention = "fused";
}

/* The cluster of --cluster, nominal without one, and what it means for the step. */
static int settle_cluster(const struct plan_options *o, struct bb_cluster *cluster, struct bb_proxy_config *config,
                          struct bb_forecast *f)
{
    int rc = 0;

    *cluster = (struct bb_cluster){0};
    if (o->cluster)
        TRY(bb_cluster_load(o->cluster, cluster));
    if (o->cluster && config->gpus_per_node == 0)
        config->gpus_per_node = cluster->gpus_per_node;
    if (o->cluster && config->transformer.float8 && cluster->tflops_float8 <= 0)
        return bb_err(BB_EUSAGE,
                      "--fp8: cluster '%s' has no rate of 8-bit floats ('tflops.float8' above 0); leave it out",
                      cluster->name);
    settle_forecast(o, cluster, config, f);
out:
    return rc;
}

/* Of a step with real work: do its products of attention belong to a fused kernel? */
static bool fuses_attention(const struct bb_step *step)
{
    for (int w = 0; w < step->n_works; w++)
        for (int i = 0; i < step->works[w]->n; i++)
            if (step->works[w]->items[i].fusion == BB_KERNEL_IN_ATTENTION)
                return true;
    return false;
}

/* A layout whose training does not hold is not one that anybody ran: a forecast that is not told what is computed again
 * takes the least that makes it hold. Builds the step, once or more often. */
static int build_step(const struct plan_options *o, const struct bb_proxy *proxy, const struct bb_cluster *cluster,
                      struct bb_proxy_config *config, struct findings *f)
{
    static const char *const more[] = {"selective", "full", NULL};
    bool guesses = cluster->achieves && o->rates == BB_RATES_MACHINE && !o->must_fit &&
                   !config->transformer.recompute && proxy->takes & BB_TAKES_TRANSFORMER;
    int rc;

    TRY(bb_step_build(&f->step, proxy, config));
    f->forecast.without_bytes = bb_forecast_needs(&f->step);
    for (int i = 0; guesses && i < 3 && bb_forecast_needs(&f->step) > f->forecast.gpu_bytes; i++) {
        config->transformer.recompute = f->forecast.recompute = more[i];
        bb_step_release(&f->step);
        TRY(bb_step_build(&f->step, proxy, config));
    }
    if (o->rates == BB_RATES_MACHINE && proxy->takes & BB_TAKES_TRANSFORMER)
        f->forecast.attention = fuses_attention(&f->step) ? "fused" : "unfused";
    f->forecast.attention_guessed =
        f->forecast.attention && strcmp(f->forecast.attention, "unfused") == 0 && !o->config.transformer.attention;
out:
    return rc;
}

static int refuse_memory(const struct plan_options *o, const struct findings *f)
{
    char need[BB_BYTES_TEXT], have[BB_BYTES_TEXT];

    if (!o->must_fit || bb_forecast_fits(&f->plan, &f->forecast))
        return 0;
    return bb_err(BB_EBELOW, "--must-fit: training would hold %s, a GPU has %s",
                  bb_format_bytes((size_t)bb_forecast_needs(&f->step), need),
                  bb_format_bytes((size_t)f->forecast.gpu_bytes, have));
}

/* The training of --tokens, from the step as it is predicted. */
static int count_training(struct findings *f, const char *text)
{
    const struct bb_prediction *p = &f->prediction;
    double tokens;
    int rc = bb_tokens_parse(text, &tokens);

    if (rc)
        return rc;
    if (f->step.tokens <= 0)
        return bb_err(BB_EUSAGE, "%s: --tokens means nothing here: its samples are not counted in tokens; leave it out",
                      f->step.proxy);
    if (f->predicted)
        f->training = bb_training_time(&f->step, (double)p->classes[p->slowest].all.step_ns, tokens);
    return 0;
}

static int make_plan(const struct plan_options *o, const struct bb_proxy *proxy, int argc, char **argv)
{
    struct bb_proxy_config config = o->config;
    struct bb_cluster cluster;
    struct findings f = {0};
    int rc;

    TRY(settle_cluster(o, &cluster, &config, &f.forecast));
    TRY(build_step(o, proxy, &cluster, &config, &f));
    TRY(bb_plan_count(&f.plan, &f.step, o->ops));
    f.plan.forecast = &f.forecast;
    f.predicted = o->cluster && f.plan.checks.matched && f.plan.checks.deadlock_free;
    if (f.predicted)
        TRY(bb_predict(&f.step, &cluster, &f.prediction));
    if (o->tokens)
        TRY(count_training(&f, o->tokens));
    if (o->best_order)
        TRY(bb_best_order(proxy, &config, config.gpus_per_node, &f.best));
    if (o->export && f.plan.checks.matched && f.plan.checks.deadlock_free)
        TRY(bb_export_step(o->export, o->export_file, &f.step, o->cluster ? &cluster : NULL, o->export_only, argc,
                           argv));
    if (!bb_plan_exports_to_stdout(o->files))
        print_findings(&f, o->ops, argc, argv);
    TRY(write_files(&f, o));
    TRY(bb_checks_refuse(&f.plan.checks));
    rc = refuse_memory(o, &f);
out:
    bb_best_order_release(&f.best);
    bb_prediction_release(&f.prediction);
    bb_plan_release(&f.plan);
    bb_step_release(&f.step);
    return rc;
}

/* --export goal step.goal: the option takes the format, and the file is the last word. */
static int take_export_file(struct plan_options *o, struct bb_words *words)
{
    const char *last = words->n > 1 ? words->word[words->n - 1] : "";
    int number;

    if (!o->export)
        return 0;
    if (!*last || bb_parse_int(last, INT_MIN, INT_MAX, &number) == 0)
        return bb_err(BB_EUSAGE, "--export needs the name of a file: --export %s FILE%s%s", o->export,
                      *last ? "; for a file of this name write ./" : "", last);
    o->export_file = last;
    words->n--;
    return 0;
}

static int refuse_tokens(const char *text, const char *cluster)
{
    double tokens;

    if (!cluster)
        return bb_err(BB_EUSAGE, "--tokens needs the cluster to predict for; nearest: --cluster h100-sxm-ib");
    return bb_tokens_parse(text, &tokens);
}

/* A forecast takes the machine's own rates, unless it is told others. Before the proxy's defaults come in. */
static int configure(struct plan_options *o, const struct bb_words *words, const struct bb_proxy **proxy)
{
    const bool given = o->config.tflops > 0 || o->config.forward_us > 0 || o->config.backward_us > 0;
    const bool bare = !given && !o->config.compute;
    int rc;

    TRY(bb_proxy_configure(&o->config, words, proxy));
    if (o->cluster && bare && (*proxy)->takes & BB_TAKES_TRANSFORMER)
        o->config.compute = "gemm";
    o->rates = strcmp(o->config.compute, "gemm") == 0 ? BB_RATES_MACHINE : given ? BB_RATES_GIVEN : BB_RATES_PROXY;
out:
    return rc;
}

/* Words of the wrong kind get the nearest of the right one. */
static int find_proxy(struct plan_options *o, struct bb_words *words, const struct bb_proxy **proxy)
{
    const char *names[BB_COLL_KIND_COUNT + 64], *near, *changed;
    const struct bb_opt_table *collective = &tables[1];
    size_t n = 0;
    int rc;

    while (n < sizeof(names) / sizeof(names[0]) && (names[n] = word_at(n)))
        n++;
    near = words->n > 0 && !bb_proxy_knows(words->word[0]) ? bb_nearest(words->word[0], names, n) : NULL;
    if (near && bb_coll_find(near) >= 0)
        return bb_err(BB_EUSAGE, "unknown proxy or collective '%s', did you mean '%s'?", words->word[0], near);
    TRY(take_export_file(o, words));
    TRY(configure(o, words, proxy));
    changed = bb_opts_changed(collective, o);
    if (changed)
        return bb_err(BB_EUSAGE, "%s: --%s is of collectives; leave it out", (*proxy)->name, changed);
out:
    return rc;
}

static int refuse_best_layout(const struct plan_options *o, const struct bb_proxy *proxy);

static int refuse_step(const struct plan_options *o, const struct bb_proxy *proxy)
{
    int rc = 0;

    if (o->config.ranks == 0)
        return bb_err(BB_EUSAGE, "%s: plan needs --ranks N, how many ranks the job has", proxy->name);
    TRY(bb_plan_exports_refuse(o->files, o->cluster));
    TRY(refuse_best_layout(o, proxy));
    TRY(bb_export_refuse(o->export, o->export_only, o->cluster));
    if (o->tokens)
        TRY(refuse_tokens(o->tokens, o->cluster));
    if (o->config.scaling.baseline)
        return bb_err(BB_EUSAGE, "--baseline is for what a run measures, and a plan measures nothing; leave it out");
    if (o->must_fit && !o->cluster && o->gpu_memory == 0)
        return bb_err(BB_EUSAGE, "--must-fit needs a GPU's memory: --cluster NAME or --gpu-memory BYTES; nearest: "
                                 "--gpu-memory 80G");
    if (o->best_order && !(proxy->takes & BB_TAKES_TRANSFORMER))
        return bb_err(BB_EUSAGE, "%s: --best-order is about the axes of transformer; leave it out", proxy->name);
    if (o->best_order && !o->cluster && o->config.gpus_per_node == 0)
        return bb_err(BB_EUSAGE, "--best-order needs the nodes: --gpus-per-node N or --cluster NAME; nearest: "
                                 "--gpus-per-node 8");
out:
    return rc;
}

/* A document of a plan, taken over; NULL: there was no memory for it. */
static int write_json(const char *path, json_t *root)
{
    struct bb_outfile file = {.out = stdout};
    bool to_stdout = strcmp(path, "-") == 0;
    int rc = root ? 0 : bb_err(BB_EFAIL, "out of memory for the plan's JSON");

    if (rc == 0 && !to_stdout)
        rc = bb_outfile_open(&file, path, "the plan");
    if (rc == 0 && (json_dumpf(root, file.out, JSON_INDENT(1)) || fputc('\n', file.out) == EOF) && !ferror(file.out))
        rc = bb_err(BB_EFAIL, "out of memory for the plan's JSON");
    if (file.path)
        rc = bb_outfile_close(&file, "the plan", rc);
    json_decref(root);
    return rc;
}

/* ---- the best layout ---- */

static int refuse_best_layout(const struct plan_options *o, const struct bb_proxy *proxy)
{
    const char *beside = o->ops                           ? "ops"
                         : o->best_order                  ? "best-order"
                         : o->tokens                      ? "tokens"
                         : o->must_fit                    ? "must-fit"
                         : o->export                      ? "export"
                         : o->files[BB_PLAN_EXPORT_trace] ? "trace"
                                                          : NULL;

    if (!o->best_layout && (o->threads || o->top != 10))
        return bb_err(BB_EUSAGE, "--%s is of --best-layout; leave it out", o->threads ? "threads" : "top");
    if (!o->best_layout)
        return 0;
    if (!(proxy->takes & BB_TAKES_TRANSFORMER))
        return bb_err(BB_EUSAGE, "%s: --best-layout is about the layouts of transformer; leave it out", proxy->name);
    if (!o->cluster)
        return bb_err(BB_EUSAGE, "--best-layout needs the cluster to predict for; nearest: --cluster h100-sxm-ib");
    if (!o->config.global_batch)
        return bb_err(BB_EUSAGE,
                      "--best-layout needs --global-batch-size N, the samples of a step, which all layouts "
                      "have in common; nearest: --global-batch-size %d",
                      o->config.ranks);
    if (beside)
        return bb_err(BB_EUSAGE, "--%s is of one plan, and --best-layout looks at many; leave one out", beside);
    return 0;
}

static json_t *layouts_json(const struct plan_options *o, const struct bb_cluster *cluster,
                            const struct bb_layouts *found)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:i, s:{s:s, s:f, s:f}, s:o}", "schema", "busbar.plan/1", "busbar",
                     BUSBAR_VERSION, "proxy", o->config.proxy, "options", bb_json_options(&step_set, o), "ranks",
                     o->config.ranks, "predicted", "cluster", cluster->name, "step_us", found->rows[0].step_ns / 1e3,
                     "tokens_per_s", found->rows[0].tokens / (found->rows[0].step_ns / 1e9), "best_layout",
                     bb_layouts_json(found, o->top));
}

static int find_best_layout(const struct plan_options *o, const struct bb_proxy_config *asked,
                            const struct bb_proxy *proxy, int argc, char **argv)
{
    struct bb_proxy_config config = o->config;
    struct bb_cluster cluster;
    struct bb_layout_search search = {proxy, asked, &config, &cluster, 0, o->top, o->threads, false};
    struct bb_layouts found = {0};
    struct bb_forecast forecast = {0};
    const char *json = o->files[BB_PLAN_EXPORT_json];
    int rc;

    TRY(settle_cluster(o, &cluster, &config, &forecast));
    search.gpu_bytes = forecast.gpu_bytes;
    TRY(bb_layouts_search(&search, &found));
    if (!json || strcmp(json, "-") != 0) {
        print_command(argc, argv);
        printf("# the best layouts of %d ranks, predicted for %s (modelled, not measured)\n", config.ranks,
               cluster.name);
        bb_layouts_print(&found, o->top, stdout);
    }
    if (json)
        TRY(write_json(json, layouts_json(o, &cluster, &found)));
out:
    bb_layouts_release(&found);
    return rc;
}

/* ---- collectives ---- */

static bool is_collective(const struct bb_words *words)
{
    return words->n > 0 && (strcmp(words->word[0], "all") == 0 || bb_coll_find(words->word[0]) >= 0);
}

/* What is of steps. */
static int refuse_collective(const struct plan_options *o, const char *name)
{
    const char *beyond = bb_proxy_beyond(&o->config, 0);
    const struct {
        bool given;
        const char *option;
    } of_steps[] = {{beyond != NULL, beyond},
                    {o->config.dtype != NULL, "dtype"},
                    {o->config.compute != NULL, "compute"},
                    {o->config.scale_counts > 0, "scale-counts"},
                    {o->tokens != NULL, "tokens"},
                    {o->ops, "ops"},
                    {o->best_order, "best-order"},
                    {o->best_layout, "best-layout"},
                    {o->threads > 0, "threads"},
                    {o->export != NULL, "export"},
                    {o->export_only.ranks != NULL, "export-ranks"},
                    {o->export_only.micro_batches != NULL, "export-micro-batches"},
                    {o->must_fit, "must-fit"},
                    {o->gpu_memory > 0, "gpu-memory"},
                    {o->files[BB_PLAN_EXPORT_trace] != NULL, "trace"}};

    for (size_t i = 0; i < sizeof(of_steps) / sizeof(of_steps[0]); i++)
        if (of_steps[i].given)
            return bb_err(BB_EUSAGE, "%s: --%s is of training steps; leave it out%s", name, of_steps[i].option,
                          strcmp(of_steps[i].option, "dtype") == 0 ? ", or --datatype" : "");
    if (o->config.ranks == 0)
        return bb_err(BB_EUSAGE, "%s: plan needs --ranks N, how many ranks the job has", name);
    if (!o->cluster)
        return bb_err(BB_EUSAGE, "%s: plan needs the cluster to predict for; nearest: --cluster h100-sxm-ib", name);
    return 0;
}

static int write_collectives_csv(const char *path, const json_t *rows)
{
    struct bb_flat_table table = {0};
    struct bb_outfile file;
    const json_t *row;
    size_t i;
    int rc;

    json_array_foreach(rows, i, row)
    {
        bb_flat_table_add(&table, row, NULL);
    }
    if (strcmp(path, "-") == 0) {
        rc = bb_flat_table_write(&table, stdout);
    } else {
        TRY(bb_outfile_open(&file, path, "the table"));
        rc = bb_outfile_close(&file, "the table", bb_flat_table_write(&table, file.out));
    }
out:
    bb_flat_table_release(&table);
    return rc;
}

static int plan_collectives(struct plan_options *o, const struct bb_words *words, bool check_only, int argc,
                            char **argv)
{
    struct bb_cluster cluster;
    struct bb_sweep sweep = {0};
    struct bb_bench_plan p = {&cluster, &sweep, o->config.ranks, argc, argv};
    const char *json = o->files[BB_PLAN_EXPORT_json], *csv = o->files[BB_PLAN_EXPORT_csv];
    json_t *rows = json || csv ? json_array() : NULL;
    int rc;

    TRY(refuse_collective(o, words->word[0]));
    TRY(bb_results_refuse(json, csv));
    TRY(bb_bench_settle_cases(&o->bench, &sweep, words));
    TRY(bb_bench_plan_refuse(&p));
    if (check_only)
        goto out;
    TRY(bb_cluster_load(o->cluster, &cluster));
    TRY(bb_plan_exports_check(o->files));
    TRY(bb_bench_plan_run(&p, bb_results_on_stdout(json, csv) ? NULL : stdout, rows));
    if (csv)
        TRY(write_collectives_csv(csv, rows));
    if (json)
        TRY(write_json(json, bb_bench_plan_json(&p, bb_json_options(&collective_set, o), json_incref(rows))));
out:
    json_decref(rows);
    bb_bench_release_sweep(&sweep);
    return rc;
}

int bb_plan_main(int argc, char **argv)
{
    const struct bb_proxy *proxy;
    struct plan_options o = {0};
    struct bb_proxy_config asked;
    struct bb_words words;
    int rc;

    TRY(bb_opts_parse(&set, &o, argc, argv, &words, stdout));
    if (is_collective(&words))
        return plan_collectives(&o, &words, false, argc, argv);
    asked = o.config;
    TRY(find_proxy(&o, &words, &proxy));
    TRY(refuse_step(&o, proxy));
    TRY(bb_plan_exports_check(o.files));
    if (o.best_layout)
        TRY(find_best_layout(&o, &asked, proxy, argc, argv));
    else
        TRY(make_plan(&o, proxy, argc, argv));
out:
    return rc;
}

int bb_plan_check(int argc, char **argv)
{
    const struct bb_proxy *proxy;
    struct plan_options o = {0};
    struct bb_words words;
    int rc = bb_opts_check(&set, argc, argv);

    TRY(rc);
    TRY(bb_opts_parse(&set, &o, argc, argv, &words, stdout));
    if (is_collective(&words)) {
        TRY(plan_collectives(&o, &words, true, argc, argv));
    } else {
        TRY(find_proxy(&o, &words, &proxy));
        TRY(refuse_step(&o, proxy));
    }
    if (o.config.model)
        TRY(bb_profile_refuse_unknown("models", o.config.model));
    if (o.cluster)
        TRY(bb_profile_refuse_unknown("clusters", o.cluster));
out:
    return rc;
}
