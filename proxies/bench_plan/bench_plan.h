/*
 * bench_plan.h - `busbar plan COLLECTIVE`: the table that `bench` would print, predicted from a cluster profile. The
 * columns are bench's, without what only a run can tell; the JSON is busbar.plan/1 with results[] as bench has them.
 * With jitter a row's time is a distribution over samples, as that of a run.
 */
#ifndef BB_PROXIES_BENCH_PLAN_BENCH_PLAN_H
#define BB_PROXIES_BENCH_PLAN_BENCH_PLAN_H

#include "collectives/sweep/cases.h"
#include "proxies/simulate/conditions.h"

#include <jansson.h>
#include <stdio.h>

/* Everything is borrowed. */
struct bb_bench_plan {
    const struct bb_cluster *cluster;
    const struct bb_sweep *sweep;
    const struct bb_conditions *conditions; /* what is slow, and jitter */
    int samples;                            /* of the jitter            */
    int ranks;
    int argc; /* the command */
    char **argv;
};

/* bb_bench_plan_validate - what these ranks cannot do (a root that is none of them, a matrix of other ranks, too many ranks
 * for what is slow): said, -BB_EUSAGE; the cluster is not looked at. */
int bb_bench_plan_validate(const struct bb_bench_plan *p) BB_MUST_CHECK;

/* bb_bench_plan_run - every row: text to out (NULL: none), results to rows (NULL: none). 0 or -BB_EFAIL. */
int bb_bench_plan_run(const struct bb_bench_plan *p, FILE *out, json_t *rows) BB_MUST_CHECK;

/* bb_bench_plan_json - busbar.plan/1; options and rows are taken over. NULL without memory. */
json_t *bb_bench_plan_json(const struct bb_bench_plan *p, json_t *options, json_t *rows);

#endif
