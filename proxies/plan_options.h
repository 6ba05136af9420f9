/*
 * plan_options.h - what `busbar plan` was asked, and what it may be asked for: a step, the best layouts of one, or the
 * table of collectives. Internal to plan_*.c.
 */
#ifndef BB_PROXIES_PLAN_OPTIONS_H
#define BB_PROXIES_PLAN_OPTIONS_H

#include "bootstrap/cli/opts.h"
#include "collectives/sweep/bench_options.h"
#include "proxies/author/proxy.h"
#include "proxies/export/export.h"
#include "proxies/plan/forecast.h"
#include "proxies/plan/plan_export.h"

#include <jansson.h>

struct bb_plan_options {
    const struct bb_opts *option_set; /* what the options of its JSON are: those that mean something to it */
    struct bb_proxy_config config;
    const char *cluster, *tokens, *files[BB_N_PLAN_EXPORTS];
    const char *export, *export_file; /* its format, and the last word */
    struct bb_export_only export_only;
    bool ops, best_order, best_layout, must_fit, graph;
    bool forecast; /* no option: of training by the machine's rates, and not of the proxy's own run */
    size_t gpu_memory;
    enum bb_rates rates;           /* no option: whose */
    int top, threads;              /* of --best-layout */
    const char *slow, *jitter;     /* as they are written */
    int seed, samples;             /* of the jitter */
    struct bb_bench_options bench; /* of a collective: which rows */
};

/* ---- a plan of one step: plan_step.c ---- */

int bb_plan_validate_step(const struct bb_plan_options *o, const struct bb_proxy *proxy) BB_MUST_CHECK;
int bb_plan_step(const struct bb_plan_options *o, const struct bb_proxy *proxy, int argc, char **argv) BB_MUST_CHECK;

/* ---- --best-layout: plan_layouts.c. asked: what was given, before the proxy's defaults ---- */

int bb_plan_validate_layouts(const struct bb_plan_options *o, const struct bb_proxy *proxy) BB_MUST_CHECK;
int bb_plan_layouts(const struct bb_plan_options *o, const struct bb_proxy_config *asked, const struct bb_proxy *proxy,
                    int argc, char **argv) BB_MUST_CHECK;

/* ---- collectives: plan_collectives.c. check_only: the words alone ---- */

int bb_plan_collectives(struct bb_plan_options *o, const struct bb_positionals *positionals, bool check_only, int argc,
                        char **argv) BB_MUST_CHECK;

/* ---- what they share: plan_resolve.c ---- */

/* bb_plan_conditions - what --slow, --jitter and --seed say; refused without a cluster. */
int bb_plan_conditions(const struct bb_plan_options *o, struct bb_conditions *conditions) BB_MUST_CHECK;

/* bb_plan_write_rows - rows of the JSON as CSV, '-' for stdout. */
int bb_plan_write_rows(const char *path, const json_t *rows) BB_MUST_CHECK;

/* bb_plan_load_cluster - of a job that has so many GPUs of each node (0: all of them); warns of unlikely units. */
int bb_plan_load_cluster(const char *word, int gpus_per_node, struct bb_cluster *cluster) BB_MUST_CHECK;

/* bb_plan_resolve_cluster - the cluster of --cluster, nominal without one, and what it means for the step. */
int bb_plan_resolve_cluster(const struct bb_plan_options *o, struct bb_cluster *cluster, struct bb_proxy_config *config,
                            struct bb_forecast *f) BB_MUST_CHECK;

#endif
