/*
 * bench_plan.h - `busbar plan COLLECTIVE`: the table that `bench` would print, predicted from a cluster profile. The
 * columns are bench's, without what only a run can tell; the JSON is busbar.plan/1 with results[] as bench has them.
 */
#ifndef BB_PROXIES_BENCH_PLAN_BENCH_PLAN_H
#define BB_PROXIES_BENCH_PLAN_BENCH_PLAN_H

#include "collectives/sweep/cases.h"
#include "proxies/machine/cluster.h"

#include <jansson.h>
#include <stdio.h>

/* Everything is borrowed. */
struct bb_bench_plan {
    const struct bb_cluster *cluster;
    const struct bb_sweep *sweep;
    int ranks;
    int argc; /* the command */
    char **argv;
};

/* bb_bench_plan_refuse - what these ranks cannot do (a root that is none of them, a matrix of other ranks): said,
 * -BB_EUSAGE. */
int bb_bench_plan_refuse(const struct bb_bench_plan *p) BB_MUST_CHECK;

/* bb_bench_plan_run - every row: text to out (NULL: none), results to rows (NULL: none). 0 or -BB_EFAIL. */
int bb_bench_plan_run(const struct bb_bench_plan *p, FILE *out, json_t *rows) BB_MUST_CHECK;

/* bb_bench_plan_json - busbar.plan/1; options and rows are taken over. NULL without memory. */
json_t *bb_bench_plan_json(const struct bb_bench_plan *p, json_t *options, json_t *rows);

#endif
