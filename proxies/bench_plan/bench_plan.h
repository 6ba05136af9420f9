/*
 * bench_plan.h - `busbar plan COLLECTIVE`: the table that `bench` prints, predicted from a cluster profile. The columns
 * are those of bench without the values that only a run can measure. The JSON is busbar.plan/1; its results[] have the
 * fields of bench. With jitter the time of a row is a distribution over samples.
 */
#ifndef BB_PROXIES_BENCH_PLAN_BENCH_PLAN_H
#define BB_PROXIES_BENCH_PLAN_BENCH_PLAN_H

#include "collectives/sweep/cases.h"
#include "proxies/simulate/conditions.h"

#include <jansson.h>
#include <stdio.h>

/* All pointers are borrowed. */
struct bb_bench_plan {
    const struct bb_cluster *cluster;
    const struct bb_sweep *sweep;
    const struct bb_conditions *conditions; /* slow parts and jitter */
    int samples;                            /* of the jitter */
    int ranks;
    int argc; /* the command line */
    char **argv;
};

/* bb_bench_plan_validate - reject what the ranks cannot do: a root that is no rank, a --matrix for another number of
 * ranks, too many ranks for --slow or --jitter. Does not read the cluster. Returns 0, or -BB_EUSAGE after printing
 * one line. */
int bb_bench_plan_validate(const struct bb_bench_plan *p) BB_MUST_CHECK;

/*
 * bb_bench_plan_run - predict every row.
 *   out      text, or NULL
 *   rows     JSON array that receives the results, or NULL
 *   Returns  0, or -BB_EFAIL after printing one line
 */
int bb_bench_plan_run(const struct bb_bench_plan *p, FILE *out, json_t *rows) BB_MUST_CHECK;

/* bb_bench_plan_json - the document busbar.plan/1; takes ownership of options and rows. NULL without memory. */
json_t *bb_bench_plan_json(const struct bb_bench_plan *p, json_t *options, json_t *rows);

#endif
