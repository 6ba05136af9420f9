/* plan_layouts.c - `busbar plan --best-layout`: searches the parallel layouts (sizes of tensor, pipeline, data
 * parallelism, ...) with which a training step is fastest and fits in GPU memory; prints them as text and JSON. */
#include "proxies/plan_options.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/report_header.h"
#include "bootstrap/results/results.h"
#include "bootstrap/sweep/argv.h"
#include "proxies/form/author/args.h"
#include "proxies/form/models/profile.h"
#include "proxies/offline/layouts/layouts.h"
#include "proxies/offline/plan/plan_answer.h"
#include "proxies/workloads/registry/registry.h"
#include "proxies/workloads/transformer/training_bytes.h"

#include <stdlib.h>
#include <string.h>

/* Returns the software that plan assumes for these options without --software. */
static const struct bb_software *default_software(const struct bb_plan_options *o, const struct bb_proxy_config *c)
{
    const enum bb_sync_kind sync =
        (enum bb_sync_kind)bb_args_index(c->transformer.sync, bb_sync_names, BB_SYNC_ALL_REDUCE);

    return bb_software_of(NULL, bb_training_assumes_torch(c, sync), !o->config.sync.no_overlap);
}

const struct bb_software *bb_plan_layouts_software(const struct bb_plan_options *o)
{
    const char *software = o->given.transformer.software;

    return software ? bb_software_of(software, false, false) : default_software(o, &o->given);
}

const char *bb_plan_free_software(const struct bb_plan_options *o)
{
    struct bb_plan_options other = *o;

    other.given.transformer.sync = NULL;
    return bb_plan_layouts_software(&other)->name;
}

/* Writes an option with a text as words of a shell. value: NULL: the option is not given */
static void write_text(FILE *out, const char *name, const char *value)
{
    if (!value)
        return;
    fprintf(out, " --%s ", name);
    bb_quote(value, out);
}

static void write_option(void *out, const struct bb_opt *opt, const void *field)
{
    if (bb_opts_is_default(opt, field))
        return;
    if (opt->kind == BB_OPT_STRING || opt->kind == BB_OPT_CHOICE) {
        write_text(out, opt->name, *(const char *const *)field);
        return;
    }
    fprintf(out, " --%s", opt->name);
    if (opt->kind == BB_OPT_DOUBLE)
        fprintf(out, " %.15g", *(const double *)field);
    else if (opt->kind != BB_OPT_FLAG)
        fprintf(out, " %d", *(const int *)field);
}

/* Returns the command that plans the step in a layout, after a blank, with the options that select the layout, and those
 * given, except --jitter. gpus_per_node: of the search. The caller frees the text. */
static char *command_text(const struct bb_plan_options *o, int gpus_per_node, const struct bb_layout_choice *choice)
{
    static const struct bb_opt_table tables[] = {BB_STEP_TABLES(0), {0}};
    struct bb_proxy_config given = o->given, config;
    char *text;
    size_t size;
    FILE *out = bb_open_text(&text, &size);

    given.gpus_per_node = gpus_per_node;
    config = bb_layouts_config(&given, choice);
    config.gpus_per_node = o->given.gpus_per_node;
    config.micro_batches = 0;
    config.global_batch = o->given.global_batch;
    config.transformer.seed = o->config.transformer.seed;
    fprintf(out, " busbar plan %s --ranks %d", o->config.proxy, o->config.ranks);
    write_text(out, "cluster", o->cluster);
    for (int i = 0; i < o->changes.n; i++)
        write_text(out, "set", o->changes.text[i]);
    write_text(out, "slow", o->slow);
    write_text(out, "delay", o->delay);
    if (o->gpu_memory > 0)
        fprintf(out, " --gpu-memory %zu", o->gpu_memory);
    fputs(o->graph ? " --graph" : "", out);
    write_text(out, "cuda-graph-modules", o->config.transformer.graph_modules);
    if (o->forecast && bb_plan_layouts_software(o) != default_software(o, &config))
        fprintf(out, " --software %s", bb_plan_layouts_software(o)->name);
    write_text(out, "tokens", o->tokens);
    write_text(out, "mtbf-node", o->failures.mtbf_node);
    write_text(out, "checkpoint", o->failures.checkpoint);
    write_text(out, "restart", o->failures.restart);
    write_text(out, "spares", o->failures.spares);
    write_text(out, "repair", o->failures.repair);
    bb_opts_each(&(struct bb_opts){.tables = tables}, &config, write_option, out);
    bb_close_text(out, &text);
    return text;
}

/* Adds to the JSON of a layout the software whose rates it has, and the command that plans it. */
static void add_command(json_t *layout, const struct bb_plan_options *o, const struct bb_layout_search *search,
                        const struct bb_layout_choice *choice)
{
    char *command = command_text(o, search->config->gpus_per_node, choice);

    if (o->forecast && search->cluster->has_achieved)
        json_object_set_new(layout, "software", json_string(bb_plan_layouts_software(o)->name));
    json_object_set_new(layout, "command", json_string(command + 1));
    free(command);
}

static json_t *layouts_json(const struct bb_plan_options *o, const struct bb_layout_search *search,
                            const struct bb_conditions *conditions, const struct bb_layouts *found, json_t *command)
{
    size_t i;
    json_t *layout;
    json_t *root = json_pack(
        "{s:s, s:s, s:o, s:s, s:o, s:i, s:i, s:{s:s, s:o, s:f, s:f}, s:o}", "schema", "busbar.plan/1", "busbar",
        BUSBAR_VERSION, "command", command, "proxy", o->config.proxy, "options", bb_plan_options_json(o), "ranks",
        o->config.ranks, "nodes", bb_cluster_nodes(search->cluster, o->config.ranks), "predicted", "cluster",
        search->cluster->name, "slow", bb_slow_json(&search->conditions->slow), "step_us", found->rows[0].step_ns / 1e3,
        "tokens_per_s", found->rows[0].tokens / (found->rows[0].step_ns / 1e9), "best_layout",
        bb_layouts_json(found, o->top));

    json_array_foreach(json_object_get(json_object_get(root, "best_layout"), "layouts"), i, layout)
        add_command(layout, o, search, &found->rows[i].choice);
    if (conditions->jitter > 0)
        json_object_set_new(json_object_get(root, "predicted"), "jitter",
                            json_pack("{s:f, s:I, s:i}", "deviation", conditions->jitter, "seed",
                                      (json_int_t)conditions->seed, "samples", search->samples));
    json_object_set_new(root, "profiles", bb_profile_checksums(o->cluster, o->config.model));
    bb_results_set_end(root, 0, NULL);
    return root;
}

/* Sets the fields of the forecast that describe the step of layout 1. */
static int describe_best(const struct bb_plan_options *o, const struct bb_layout_search *search,
                         const struct bb_layouts *found, struct bb_forecast *f)
{
    struct bb_proxy_config best = bb_layouts_config(search->config, &found->rows[0].choice);
    struct bb_step step = {0};
    int rc;

    TRY(bb_step_build(&step, search->proxy, &best));
    bb_plan_describe_step(o, &step, &best, f);
out:
    bb_step_release(&step);
    return rc;
}

/* Prints the error of predictions of the kind of the layouts, and which of the first `top` differ by less. */
static void print_accuracy(const struct bb_layout_search *search, const struct bb_layouts *found,
                           const struct bb_forecast *f, int top, FILE *out)
{
    const double error = bb_forecast_error(f, search->cluster);
    char text[400];
    bool penalized = found->rows[0].penalty > 0;
    int alike = 1;

    bb_forecast_accuracy_text(f, search->cluster, text, sizeof(text));
    fprintf(out, "# accuracy: %s\n", text);
    while (alike < found->n && alike < top &&
           bb_layouts_ranked_ns(&found->rows[alike]) <= (1 + error) * bb_layouts_ranked_ns(&found->rows[0]))
        penalized |= found->rows[alike++].penalty > 0;
    if (alike > 1)
        fprintf(out, "# %s of layouts 1 %s %d differ by less than the error of the forecast\n",
                penalized ? "step + penalty" : "the step times", alike == 2 ? "and" : "to", alike);
}

/* Writes how much launches by the host cost in layout 1: its step with CUDA graphs is simulated, too. */
static int predict_host(const struct bb_layout_search *search, const struct bb_forecast *f, char host[BB_LAUNCH_TEXT],
                        char experts[BB_LAUNCH_TEXT], struct bb_layouts *found)
{
    struct bb_proxy_config best = bb_layouts_config(search->config, &found->rows[0].choice);
    struct bb_step step = {0};
    struct bb_prediction p = {0};
    int rc = 0;

    if (!search->cluster->eager || found->rows[0].extrapolated)
        return 0;
    TRY(bb_step_build(&step, search->proxy, &best));
    TRY(bb_predict_step(&step, search->cluster, search->conditions, &p));
    TRY(bb_predict_graph(&step, &p));
    bb_plan_host_text(&p, f, false, host, experts);
    found->host = host;
    found->experts = experts;
    found->accepts_graph = !f->graphs_modules && bb_forecast_captures(f, &p.cluster);
out:
    bb_prediction_release(&p);
    bb_step_release(&step);
    return rc;
}

/* Load the cluster with the rates of the software of all layouts. */
static int resolve_cluster(const struct bb_plan_options *o, struct bb_cluster *cluster, struct bb_proxy_config *config,
                           struct bb_forecast *forecast)
{
    if (o->forecast)
        config->transformer.software = bb_plan_layouts_software(o)->name;
    return bb_plan_resolve_cluster(o, cluster, config, forecast);
}

/* Results of a search, and of --explain. */
struct results {
    struct bb_layouts found, explained;
    struct bb_plan_options other; /* with the options of --explain, which refer to `words` */
    struct bb_argv words;
    struct bb_cluster cluster;                          /* of `other` */
    const struct bb_proxy *proxy;                       /* of `other` */
    struct bb_err_record reason;                        /* why --explain has no layout; code 0: it has one */
    struct bb_training_time training;                   /* in layout 1, with --tokens */
    char host[BB_LAUNCH_TEXT], experts[BB_LAUNCH_TEXT]; /* of layout 1 */
};

/* Rejects options of --explain that change the batch, the machine, or what is written: the layouts of both searches are
 * compared. words: [n] */
static int validate_explained(char *const *words, size_t n)
{
    static const char *const others[] = {
        "--ranks",   "--cluster", "--set", "--gpus-per-node", "--slow",  "--delay", "--jitter", "--global-batch-size",
        "--explain", "--json",    "--csv", "--trace",         "--export"};

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof(others) / sizeof(others[0]); k++) {
            const size_t length = strlen(others[k]);

            if (strncmp(words[i], others[k], length) == 0 && (words[i][length] == '\0' || words[i][length] == '='))
                return bb_err(BB_EUSAGE, "%s is no option of a layout; give it to the whole search", others[k]);
        }
    return 0;
}

/* Parses the options of --explain, which have the software of the search unless they include --software. r: out: other. */
static int parse_explained(const struct bb_plan_options *o, int argc, char **argv, struct results *r)
{
    struct bb_plan_options *other = &r->other;
    struct bb_positionals positionals;
    struct bb_forecast unused = {0};
    int rc;

    *other = *o;
    for (int i = 0; i < argc; i++)
        bb_argv_add(&r->words, "%s", argv[i]);
    bb_argv_add_split(&r->words, o->explain);
    bb_err_context("--explain: ");
    TRY(validate_explained(r->words.word + argc, r->words.n - (size_t)argc));
    TRY(bb_opts_parse(o->option_set, other, (int)r->words.n, r->words.word, &positionals, stdout));
    if (o->forecast && !other->config.transformer.software)
        other->config.transformer.software = bb_plan_layouts_software(o)->name;
    other->given = other->config;
    other->config.gpus_per_node = 0;
    TRY(bb_proxy_configure(&other->config, &positionals, &r->proxy));
    other->config.compute = o->config.compute;
    other->config.gpus_per_node = o->config.gpus_per_node;
    bb_err_mute(BB_MUTE_WARNINGS);
    rc = resolve_cluster(other, &r->cluster, &other->config, &unused);
    bb_err_mute(0);
out:
    bb_err_context(NULL);
    return rc;
}

/* Searches the layouts with the options of --explain. r: in: found, other; out: explained, or reason: why no such layout is
 * valid or fits. */
static int explain(const struct bb_layout_search *search, struct results *r)
{
    struct bb_layout_search others = *search;
    int rc;

    others.proxy = r->proxy;
    others.given = &r->other.given;
    others.config = &r->other.config;
    others.cluster = &r->cluster;
    others.optimizer = r->found.added_optimizer ? BB_OPTIMIZER_ADDED : BB_OPTIMIZER_GIVEN;
    bb_err_record_in(&r->reason);
    bb_err_mute(1);
    rc = bb_layouts_search(&others, &r->explained);
    bb_err_mute(0);
    bb_err_record_in(NULL);
    return rc == -BB_EUSAGE && r->reason.code ? 0 : rc;
}

/* penalty: of layout 1 */
static void print_training(const struct bb_training_time *t, double penalty, FILE *out)
{
    char text[256], failures[256], lost[256];

    bb_training_time_text(t, text, sizeof(text));
    fprintf(out, "# training in layout 1: %s", text);
    if (penalty > 0)
        fprintf(out, "; %.1f%% longer with the penalty of layout 1", 100 * penalty);
    bb_reliability_text(t, failures, lost, sizeof(text));
    if (failures[0])
        fprintf(out, "\n#   failures: %s\n#   lost: %s", failures, lost);
    fputc('\n', out);
}

/* Prints the software of all layouts. */
static void print_software(const struct bb_plan_options *o, const struct bb_layouts *found, FILE *out)
{
    const struct bb_software *s = bb_plan_layouts_software(o);
    bool differs = false;

    for (int i = 0; i < found->n && i < o->top && !bb_software_is_torch(s->name); i++) {
        const struct bb_proxy_config config = bb_layouts_config(&o->given, &found->rows[i].choice);

        differs |= s != default_software(o, &config);
    }
    fprintf(out, "# software: %s in all layouts%s\n", s->name,
            o->given.transformer.software ? ""
            : differs                     ? "; zero3 as FSDP of Megatron-LM; for that of PyTorch: --software torch"
                                          : ", see --software");
}

/* Prints the commands of the layouts after the first, whose command is printed in any case. */
static void print_commands(const struct bb_plan_options *o, const struct bb_layout_search *search,
                           const struct bb_layouts *found, FILE *out)
{
    for (int i = 1; i < found->n && i < o->top; i++) {
        char *command = command_text(o, search->config->gpus_per_node, &found->rows[i].choice);

        fprintf(out, "# command of layout %d:%s\n", i + 1, command);
        free(command);
    }
}

static void print_explained(const struct bb_plan_options *o, const struct bb_layout_search *search,
                            const struct results *r, FILE *out)
{
    char *command;

    if (r->reason.code) {
        fprintf(out, "# --explain \"%s\": %s\n", o->explain, r->reason.text);
        return;
    }
    command = command_text(&r->other, search->config->gpus_per_node, &r->explained.rows[0].choice);
    bb_layouts_print_explained(&r->found, &r->explained, o->explain, command, o->top, out);
    if (o->forecast && bb_plan_layouts_software(&r->other) != bb_plan_layouts_software(o))
        fprintf(out, "#   software %s; the layouts above have software %s\n", bb_plan_layouts_software(&r->other)->name,
                bb_plan_layouts_software(o)->name);
    free(command);
}

/* Prints the odd factor of the ranks that no dp contains because the global batch size is no multiple of it, and the nearest
 * ones that are: multiples of it times the largest power of two for which both differ by at most 5 %. */
static void print_batch(const struct bb_layout_search *search, FILE *out)
{
    const struct bb_transformer_options *t = &search->given->transformer;
    const long long batch = search->config->global_batch, most = batch / 20;
    const long long samples = search->given->micro_batch_size ? search->given->micro_batch_size : 1;
    const long long ranks = search->config->ranks / (t->tp ? t->tp : 1) / (t->cp ? t->cp : 1) / (t->pp ? t->pp : 1);
    long long factor = ranks, unit;
    char near[BB_MULTIPLES_TEXT];

    while (factor % 2 == 0)
        factor /= 2;
    unit = factor * samples;
    if (t->dp || batch % factor == 0 || batch < unit || (batch % unit > most && unit - batch % unit > most))
        return;
    while (ranks * samples % (2 * unit) == 0 && batch % (2 * unit) <= most && 2 * unit - batch % (2 * unit) <= most)
        unit *= 2;
    fprintf(out,
            "# the batch of %lld is no multiple of %lld, a factor of the %d ranks, so that dp cannot contain it; "
            "try: --global-batch-size %s\n",
            batch, factor, search->config->ranks, bb_multiples(batch, unit, near));
}

/* Returns the answer with `top` rows of the table; the caller frees it. */
static char *results_text(const struct bb_plan_options *o, const struct bb_layout_search *search,
                          const struct results *r, const struct bb_forecast *forecast, int argc, char **argv, int top)
{
    const struct bb_conditions *conditions = &o->conditions;
    const int shown = r->found.n < o->top ? r->found.n : o->top;
    char *options = command_text(o, search->config->gpus_per_node, &r->found.rows[0].choice), *text;
    size_t size;
    FILE *out = bb_open_text(&text, &size);

    bb_print_report_header(out, argc, argv);
    if (o->full) /* the line above has them, too */
        bb_slow_print(&conditions->slow, "# ", out);
    if (conditions->jitter > 0)
        fprintf(out,
                "# p50: the median of %d steps with %g%% jitter (seed %llu); the time of training is that of the p50, "
                "other columns are without jitter\n",
                search->samples, 100 * conditions->jitter, (unsigned long long)conditions->seed);
    fprintf(out, "# the best layouts of %d rank%s, predicted for %s (modelled, not measured)", search->config->ranks,
            bb_plural(search->config->ranks), search->cluster->name);
    bb_layouts_print(&r->found, options, top, shown > top ? shown - top : 0, o->full, out);
    free(options);
    if (o->full)
        print_commands(o, search, &r->found, out);
    if (o->forecast && search->cluster->has_achieved)
        print_software(o, &r->found, out);
    if (o->tokens)
        print_training(&r->training, r->found.rows[0].penalty, out);
    if (o->explain)
        print_explained(o, search, r, out);
    print_batch(search, out);
    print_accuracy(search, &r->found, forecast, top, out);
    bb_close_text(out, &text);
    return text;
}

static int count_lines(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

enum { MOST_LINES = 25, LEAST_ROWS = 2 };

/* Without --full and with the default of --top, lines beyond MOST_LINES shorten the table. */
static void print_results(const struct bb_plan_options *o, const struct bb_layout_search *search,
                          const struct results *r, const struct bb_forecast *forecast, int argc, char **argv)
{
    int top = r->found.n < o->top ? r->found.n : o->top, more;
    char *text = results_text(o, search, r, forecast, argc, argv, top);

    while (!o->full && o->top == atoi(BB_DEFAULT_TOP) && top > LEAST_ROWS &&
           (more = count_lines(text) - MOST_LINES) > 0) {
        free(text);
        top = top - more > LEAST_ROWS ? top - more : LEAST_ROWS;
        text = results_text(o, search, r, forecast, argc, argv, top);
    }
    fputs(text, stdout);
    free(text);
}

static int write_results(const struct bb_plan_options *o, const struct bb_layout_search *search,
                         const struct results *r, const struct bb_forecast *forecast, int argc, char **argv)
{
    const char *json = o->files[BB_PLAN_EXPORT_json], *csv = o->files[BB_PLAN_EXPORT_csv];
    json_t *root, *layouts, *explained;
    int rc = 0;

    if (!json && !csv)
        return 0;
    root = layouts_json(o, search, &o->conditions, &r->found, bb_json_words(argc, argv));
    layouts = json_object_get(root, "best_layout");
    json_object_set_new(json_object_get(root, "predicted"), "model_error",
                        bb_forecast_model_error(forecast, search->cluster));
    if (o->tokens)
        json_object_set_new(json_object_get(root, "predicted"), "training", bb_training_time_json(&r->training));
    if (r->reason.code)
        json_object_set_new(layouts, "explained_reason", json_string(r->reason.text));
    else if (o->explain) {
        explained = bb_layouts_explained_json(&r->found, &r->explained);
        add_command(explained, &r->other, search, &r->explained.rows[0].choice);
        json_object_set_new(layouts, "explained", explained);
    }
    if (csv)
        TRY(bb_plan_write_rows(csv, json_object_get(layouts, "layouts"), root));
    if (json)
        TRY(bb_json_save(json, "the plan's JSON", json_incref(root), 0));
out:
    json_decref(root);
    return rc;
}

int bb_plan_layouts(const struct bb_plan_options *o, const struct bb_proxy *proxy, int argc, char **argv)
{
    struct bb_proxy_config config = o->config;
    const struct bb_conditions *conditions = &o->conditions;
    struct bb_conditions without_jitter = *conditions;
    struct bb_cluster cluster;
    struct bb_layout_search search = {.proxy = proxy,
                                      .given = &o->given,
                                      .config = &config,
                                      .cluster = &cluster,
                                      .free_software = o->forecast ? bb_plan_free_software(o) : NULL,
                                      .conditions = &without_jitter,
                                      .samples = o->samples > 0 ? o->samples : BB_JITTER_SAMPLES,
                                      .top = o->top,
                                      .threads = o->threads,
                                      .quiet = o->quiet};
    struct results r = {.reason.code = 0};
    struct bb_forecast forecast = {0};
    int rc;

    TRY(resolve_cluster(o, &cluster, &config, &forecast));
    TRY(bb_predict_validate_slow(&cluster, config.ranks, &conditions->slow));
    search.gpu_bytes = forecast.gpu_bytes;
    search.usable_bytes = (1 - o->margin) * forecast.gpu_bytes;
    search.penalizes =
        o->forecast && cluster.has_achieved && strncmp(bb_plan_layouts_software(o)->name, "megatron", 8) == 0;
    search.overlaps_tp = bb_forecast_overlaps_tp(&forecast, &cluster);
    without_jitter.jitter = 0;
    if (o->explain)
        TRY(parse_explained(o, argc, argv, &r));
    TRY(bb_layouts_search(&search, &r.found));
    TRY(describe_best(o, &search, &r.found, &forecast));
    r.found.peak_tflops = bb_forecast_peak_tflops(&forecast, &cluster, &r.found.peak_type);
    if (o->explain)
        TRY(explain(&search, &r));
    if (conditions->jitter > 0)
        TRY(bb_layouts_sample(&search, conditions, &r.found));
    if (o->tokens)
        TRY(bb_plan_training_time(o, &cluster, r.found.rows[0].tokens,
                                  conditions->jitter > 0 ? r.found.rows[0].p50_ns : (double)r.found.rows[0].step_ns,
                                  &r.training));
    if (!o->quiet && !bb_results_on_stdout(o->files[BB_PLAN_EXPORT_json], o->files[BB_PLAN_EXPORT_csv])) {
        TRY(predict_host(&search, &forecast, r.host, r.experts, &r.found));
        print_results(o, &search, &r, &forecast, argc, argv);
    }
    TRY(write_results(o, &search, &r, &forecast, argc, argv));
out:
    bb_argv_release(&r.words);
    bb_layouts_release(&r.explained);
    bb_layouts_release(&r.found);
    return rc;
}
