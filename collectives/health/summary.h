/*
 * summary.h - the last lines of the report of `busbar health`: findings, lines for scontrol, and the verdict. The lines
 * are made from the results (schema busbar.health/1), so that a run that ends early prints the same lines as a complete
 * run.
 */
#ifndef BB_COLLECTIVES_HEALTH_SUMMARY_H
#define BB_COLLECTIVES_HEALTH_SUMMARY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#define BB_HEALTH_START "start" /* the stage before the inventory, in which all nodes are unknown */

/* Options of the run. */
struct bb_health_scope {
    const char *only, *from; /* values of --only ("all" is its default) and --from (NULL or "": not given) */
    bool full;               /* print all findings */
    bool drain;       /* also a line for scontrol for each node that fails, which the administrator may execute */
    int rounds;       /* value of --rounds; 0: not given */
    int lines;        /* of the screen that are left for findings; a few are printed anyway */
    bool ended_early; /* more rounds are no remedy for missing pairs */
};

/* bb_health_print_summary - print the findings, worst first, and the verdict. */
void bb_health_print_summary(const json_t *root, const struct bb_health_scope *scope, FILE *out);

/* bb_health_print_drain - print a line for scontrol for each node that fails; if none does although a part fails, a
 * comment with the cause. */
enum { BB_DRAIN_REASON = 240 }; /* longest reason of a node: Slurm's database keeps 255 characters */
void bb_health_print_drain(const json_t *root, FILE *out);

/* bb_health_print_soak - print what the stage soak has measured. planned_s: of a run that was interrupted; else 0 */
void bb_health_print_soak(const json_t *root, double planned_s, FILE *out);

/* bb_health_count_failed - return the number of parts that fail; the link of two GPUs is one part. findings: of the
 *   results */
int bb_health_count_failed(const json_t *findings);

/* bb_health_end_early - complete the results of a run that has ended early (bb_results_at_end), and print the report:
 * the nodes of lost ranks fail in `findings`, `verdicts` and `checks`. The report has the command that continues
 * without failed nodes. Nodes without which the run went on by itself are in the findings already. */
void bb_health_end_early(json_t *root, const json_t *rows);

#endif
