/*
 * plan_options.h - the options of `busbar plan`, and the entry points of its three uses: the plan of one step, the
 * search for the best layouts (--best-layout), and the table of a collective. Internal to plan_*.c.
 */
#ifndef BB_PROXIES_OFFLINE_PLAN_OPTIONS_H
#define BB_PROXIES_OFFLINE_PLAN_OPTIONS_H

#include "bootstrap/cli/opts.h"
#include "collectives/sweep/bench_options.h"
#include "proxies/form/author/proxy.h"
#include "proxies/offline/export/export.h"
#include "proxies/offline/plan/forecast.h"
#include "proxies/offline/plan/plan_export.h"
#include "proxies/offline/plan/training_time.h"

#include <jansson.h>

/*
 * Conditions that an option of `busbar plan` may require (bb_opt.needs), in addition to enum bb_proxy_feature.
 * features_of() in plan_resolve.c determines which of them a command line meets.
 */
enum bb_plan_feature {
    BB_PLAN_CLUSTER = 1 << 20,                  /* --cluster is given */
    BB_PLAN_JITTER = 1 << 21,                   /* --jitter is given */
    BB_PLAN_LAYOUTS = 1 << 22,                  /* --best-layout is given */
    BB_PLAN_SINGLE = 1 << 23,                   /* --best-layout is not given */
    BB_PLAN_FORECAST = 1 << 24,                 /* the plan predicts real training */
    BB_PLAN_MEMORY = 1 << 25,                   /* the size of the GPU memory is known */
    BB_PLAN_NODES = 1 << 26,                    /* the number of GPUs per node is known */
    BB_PLAN_FAILURES = 1 << 27,                 /* --mtbf-node is given */
    BB_PLAN_CONDITIONS = (1 << 28) - (1 << 20), /* all of the above */
    BB_PLAN_COLLECTIVE = 1 << 28,               /* the plan is for a collective */
    BB_PLAN_STEP = BB_FEATURE_STEP,             /* the plan is for a training step, not for a collective */
    BB_PLAN_ONE_STEP = BB_PLAN_STEP | BB_PLAN_SINGLE
};
_Static_assert(((BB_PLAN_CONDITIONS | BB_PLAN_COLLECTIVE) & BB_FEATURE_OWN_AXES) == 0, "no bit has two meanings");

/* The options of plan itself, without those that describe the step or the collective; an element with opts NULL ends
 * the array. */
extern const struct bb_opt_table bb_plan_tables[];

#define BB_DEFAULT_TOP "10" /* default of --top */

struct bb_plan_options {
    const struct bb_opts *option_set; /* the option tables that apply to this use of `busbar plan` (step or
                                         collective); the JSON output lists their options */
    struct bb_proxy_config config;
    struct bb_proxy_config given; /* not an option: config before the proxy's defaults are applied */
    const char *cluster, *tokens, *files[BB_N_PLAN_EXPORTS];
    struct bb_failure_options failures;
    struct bb_opt_texts changes;      /* --set */
    const char *export, *export_file; /* format and file name of --export */
    struct bb_export_selection export_only;
    bool ops, best_order, best_layout, must_fit, graph, full, quiet;
    bool forecast; /* not an option: true: the plan predicts real training with the compute rates of the cluster
                      profile; false: the plan predicts what `busbar proxy` would measure */
    size_t gpu_memory;
    enum bb_rates rates; /* not an option: source of the compute rates (forecast.h) */
    int top, threads;    /* with --best-layout: number of layouts to print, and number of threads of the search */
    const char *slow, *delay, *jitter; /* values of the options as given, not yet parsed */
    const char *memory_margin;         /* value of the option as given */
    const char *explain;               /* options of the layout to explain; NULL: none */
    /* not options: their values, set by bb_plan_parse_conditions and bb_plan_validate_step */
    struct bb_conditions conditions; /* of --slow, --delay, --jitter and --seed */
    struct bb_training_plan training;
    double margin;     /* of --memory-margin: part of the GPU memory */
    int seed, samples; /* seed: for --jitter and --moe-imbalance; samples: number of simulated steps with --jitter */
    struct bb_bench_options bench; /* only for the plan of a collective: options of `busbar bench`, which determine
                                      the rows of the table */
};

/* The options that set a condition for exit status 0: rows of an option table. plan_step.c checks the conditions. */
#define BB_PLAN_EXIT_OPTIONS                                                                                           \
    OPT_FLAG(0, "must-fit", offsetof(struct bb_plan_options, must_fit),                                                \
             "exit 5 if training does not fit in 95% of the GPU memory", .needs = BB_PLAN_ONE_STEP | BB_PLAN_MEMORY)

/* ---- plan of one step: plan_step.c ---- */

int bb_plan_validate_step(struct bb_plan_options *o) BB_MUST_CHECK;
/* bb_plan_options_json - return the options, with null for those that a forecast does not use, so that the command of these
 * options gives the same plan. A new reference. */
json_t *bb_plan_options_json(const struct bb_plan_options *o);

int bb_plan_step(const struct bb_plan_options *o, const struct bb_proxy *proxy, int argc, char **argv) BB_MUST_CHECK;

/* ---- search for the best layouts (--best-layout): plan_layouts.c ---- */

int bb_plan_layouts(const struct bb_plan_options *o, const struct bb_proxy *proxy, int argc, char **argv) BB_MUST_CHECK;

/*
 * ---- table of a collective: plan_collectives.c ----
 *
 * check_only (parameter): if true, only validate the arguments
 */

int bb_plan_collectives(struct bb_plan_options *o, const struct bb_positionals *positionals, bool check_only, int argc,
                        char **argv) BB_MUST_CHECK;

/* bb_plan_layouts_software - return the software of all layouts of a search: without --software the default with the given
 * --dp-sync, and without --dp-sync Megatron-LM, which has FSDP of its own. */
const struct bb_software *bb_plan_layouts_software(const struct bb_plan_options *o);
/* bb_plan_free_software - return its name without --dp-sync. */
const char *bb_plan_free_software(const struct bb_plan_options *o);

/* ---- functions for all uses of plan: plan_resolve.c ---- */

/* bb_plan_parse_conditions - set o->conditions and o->margin. Returns 0, or -BB_EUSAGE after printing an error line. */
int bb_plan_parse_conditions(struct bb_plan_options *o) BB_MUST_CHECK;

/* bb_plan_training_time - predict the duration of training on --tokens tokens, also with failures.
 *   step_tokens, step_ns  tokens of a step and its predicted time; 0 ns: not predicted, t is unchanged
 *   Returns               0, or -BB_EUSAGE after printing an error line */
int bb_plan_training_time(const struct bb_plan_options *o, const struct bb_cluster *cluster, double step_tokens,
                          double step_ns, struct bb_training_time *t) BB_MUST_CHECK;

/* bb_plan_describe_step - set the fields of a forecast that describe the kind of the step: attention, length of the
 * samples, experts. config: the options of the step */
void bb_plan_describe_step(const struct bb_plan_options *o, const struct bb_step *step,
                           const struct bb_proxy_config *config, struct bb_forecast *f);

/*
 * bb_plan_validate_requirements - reject an option of plan (bb_plan_tables) whose conditions (enum bb_plan_feature) are
 * not met, for example --top without --best-layout.
 *   line     the parsed command line
 *   proxy    NULL: the plan of a collective
 *   Returns  0, or -BB_EUSAGE after printing an error line
 */
int bb_plan_validate_requirements(const struct bb_plan_options *o, const struct bb_positionals *line,
                                  const struct bb_proxy *proxy) BB_MUST_CHECK;

/*
 * bb_plan_write_rows - write a CSV file.
 *   path  '-': stdout
 *   rows  JSON array with one object per row
 *   root  the JSON document that contains the rows
 */
int bb_plan_write_rows(const char *path, const json_t *rows, const json_t *root) BB_MUST_CHECK;

/* bb_plan_validate_precision - return 0, or -BB_EUSAGE after printing an error if the cluster's GPUs have no GEMMs of
 * --gemm-precision. */
int bb_plan_validate_precision(const struct bb_cluster *cluster, const char *precision) BB_MUST_CHECK;

/*
 * bb_plan_load_cluster - load the cluster profile of --cluster with the changes of --set, and warn about values that
 * seem to have the wrong unit.
 *   gpus_per_node  use only this number of GPUs of each node; 0: all
 */
int bb_plan_load_cluster(const struct bb_plan_options *o, int gpus_per_node, struct bb_cluster *cluster) BB_MUST_CHECK;

/*
 * bb_plan_resolve_cluster - load the cluster of --cluster, and set everything in the config and the forecast that
 * depends on the cluster.
 *   cluster  out: zeroed without --cluster
 *   config   in/out: gpus_per_node and attention are set
 *   f        out: rates, launch mode, GPU memory
 *   Returns  0 or a negative error
 */
int bb_plan_resolve_cluster(const struct bb_plan_options *o, struct bb_cluster *cluster, struct bb_proxy_config *config,
                            struct bb_forecast *f) BB_MUST_CHECK;

#endif
