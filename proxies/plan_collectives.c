/* plan_collectives.c - `busbar plan COLLECTIVE`: predict the table that `busbar bench` prints, as text, JSON and
 * CSV. */
#include "proxies/plan_options.h"

#include "bootstrap/results/results.h"
#include "proxies/form/models/profile.h"
#include "proxies/offline/bench_plan/bench_plan.h"
#include "proxies/workloads/registry/registry.h"

#include <string.h>

/* An option of `busbar plan` is accepted for a collective if it needs (bb_opt.needs) no other features than these.
 * Options that need BB_PLAN_STEP are therefore rejected. */
#define COLLECTIVE_FEATURES (BB_FEATURE_NODES | BB_PLAN_CLUSTER | BB_PLAN_JITTER | BB_PLAN_SINGLE)

/* Reject options that apply only to training steps, and report missing options that a collective requires. */
static int validate_collective(const struct bb_plan_options *o, const struct bb_positionals *line)
{
    const char *option = bb_proxy_unsupported_option(&o->config, line, BB_FEATURE_NODES), *name = line->word[0];

    option = option ? option : bb_opts_find_unsupported(bb_plan_tables, o, line, COLLECTIVE_FEATURES);
    if (option)
        return bb_err(BB_EUSAGE, "%s: --%s applies only to training steps%s", name, option,
                      strcmp(option, "dtype") == 0 ? "; collectives have --datatype" : "");
    if (o->seed != 0 && !o->jitter)
        return bb_err(BB_EUSAGE, "%s: --seed requires --jitter (for example --jitter 3%%)", name);
    if (o->config.ranks == 0)
        return bb_err(BB_EUSAGE, "%s: plan requires --ranks N, the number of ranks of the job (for example --ranks 64)",
                      name);
    if (!o->cluster)
        return bb_err(BB_EUSAGE, "%s: plan of a collective requires --cluster (for example --cluster h100-sxm-ib)",
                      name);
    return 0;
}

/* Reject --slow rank=: a slow rank has slower compute kernels, and a collective has no compute kernels. */
static int validate_slow(const struct bb_slow *slow, const char *name)
{
    for (int i = 0; i < slow->n; i++)
        if (slow->items[i].kind == BB_SLOW_RANK)
            return bb_err(BB_EUSAGE,
                          "%s: --slow rank=%d:%g slows down compute kernels, and a collective has none; try: --slow "
                          "link=node0-nic0:0.5",
                          name, slow->items[i].number, slow->items[i].factor);
    return 0;
}

int bb_plan_collectives(struct bb_plan_options *o, const struct bb_positionals *positionals, bool check_only, int argc,
                        char **argv)
{
    struct bb_cluster cluster;
    struct bb_sweep sweep = {0};
    struct bb_bench_plan p = {&cluster, &sweep, &o->conditions, 1, o->config.ranks, argc, argv, json_array()};
    const char *json = o->files[BB_PLAN_EXPORT_json], *csv = o->files[BB_PLAN_EXPORT_csv];
    json_t *rows = json || csv ? json_array() : NULL, *root = NULL;
    int rc;

    TRY(validate_collective(o, positionals));
    TRY(bb_plan_validate_requirements(o, positionals, NULL));
    TRY(bb_plan_parse_conditions(o));
    if (o->conditions.jitter > 0)
        p.samples = o->samples > 0 ? o->samples : BB_JITTER_SAMPLES;
    TRY(validate_slow(&o->conditions.slow, positionals->word[0]));
    TRY(bb_results_validate(json, csv));
    TRY(bb_bench_resolve_cases(&o->bench, &sweep, positionals));
    TRY(bb_bench_plan_validate(&p));
    if (check_only)
        goto out;
    TRY(bb_plan_load_cluster(o, o->config.gpus_per_node, &cluster));
    TRY(bb_predict_validate_slow(&cluster, o->config.ranks, &o->conditions.slow));
    TRY(bb_plan_exports_check_writable(o->files));
    TRY(bb_bench_plan_run(&p, o->quiet || bb_results_on_stdout(json, csv) ? NULL : stdout, rows));
    if (rows) {
        root = bb_bench_plan_json(&p, bb_json_options(o->option_set, o), rows);
        json_object_set_new(root, "profiles", bb_profile_checksums(o->cluster, NULL));
    }
    if (csv)
        TRY(bb_plan_write_rows(csv, rows, root));
    if (json)
        TRY(bb_json_save(json, "the plan's JSON", json_incref(root), 0));
out:
    json_decref(root ? root : rows);
    json_decref(p.accuracy);
    bb_bench_release_sweep(&sweep);
    return rc;
}
