/*
 * bench_plan.h - `busbar plan COLLECTIVE`: predicts the table that `bench` prints, from a cluster profile. The columns
 * are those of bench without the values that only a run can measure. The JSON format is busbar.plan/1; the elements of
 * its results[] have the fields of bench. With jitter (random variation of times), each message size is simulated many
 * times, and the table contains the distribution of the predicted times.
 */
#ifndef BB_PROXIES_OFFLINE_BENCH_PLAN_BENCH_PLAN_H
#define BB_PROXIES_OFFLINE_BENCH_PLAN_BENCH_PLAN_H

#include "collectives/sweep/cases.h"
#include "proxies/simulation/simulate/matching/conditions.h"

#include <jansson.h>
#include <stdio.h>

/* Inputs of `busbar plan COLLECTIVE`. The caller owns everything that the pointers refer to. */
struct bb_bench_plan {
    const struct bb_cluster *cluster;
    const struct bb_sweep *sweep;
    const struct bb_conditions *conditions; /* degraded GPUs, NICs and links (--slow), and jitter */
    int samples; /* number of simulated executions with jitter per table row; 1 without jitter */
    int ranks;
    int argc; /* argc, argv: the command line, for the report */
    char **argv;
    json_t *accuracy; /* out: JSON array to which bb_bench_plan_run appends the accuracy of each collective */
};

/* bb_bench_plan_validate - rejects options that do not fit the number of ranks: a root that is not a rank, a
 * --matrix for another number of ranks, or more ranks than --slow and --jitter support. Does not use `cluster`.
 * Returns 0, or -BB_EUSAGE after printing an error message. */
int bb_bench_plan_validate(const struct bb_bench_plan *p) BB_MUST_CHECK;

/*
 * bb_bench_plan_run - predicts all rows of the table.
 *   out      destination of the printed table, or NULL
 *   rows     JSON array to which the results are appended, or NULL
 *   Returns  0 or a negative error
 */
int bb_bench_plan_run(const struct bb_bench_plan *p, FILE *out, json_t *rows) BB_MUST_CHECK;

/* bb_bench_plan_json - returns the JSON document busbar.plan/1; takes ownership of `options` and `rows`. */
json_t *bb_bench_plan_json(const struct bb_bench_plan *p, json_t *options, json_t *rows);

#endif
