/*
 * health_report.h - prints the verdicts of `busbar health` and saves them in the results (schema busbar.health/1).
 */
#ifndef BB_COLLECTIVES_HEALTH_HEALTH_REPORT_H
#define BB_COLLECTIVES_HEALTH_HEALTH_REPORT_H

#include "collectives/health/health_options.h"
#include "collectives/health/matrix.h"
#include "collectives/health/soak.h"
#include "collectives/health/summary.h"
#include "collectives/health/tables.h"
#include "collectives/session/session.h"
#include "cuda/device/nics.h"

struct bb_health_report {
    struct bb_session *session;
    const struct bb_health_options *options;
    struct bb_health *health;
    char (*hosts)[BB_HOST_TEXT];     /* [nodes] */
    char (*slurm)[BB_HOST_TEXT];     /* [nodes] their names for Slurm */
    char (*nics)[BB_NICS_TEXT];      /* [ranks] names of the NICs near each GPU, "": unknown; NULL: likewise */
    struct bb_health_matrix *matrix; /* filled on rank 0; printed with --full */
    const char *source;              /* of the expectations; "": unknown */
    const json_t *baseline;          /* the earlier result of --expect; NULL: none */
    json_t *inventory;               /* on rank 0: entries of `inventory` */
    json_t *lost_ranks;              /* on rank 0: of the nodes without which the run went on; NULL: none */
    const struct bb_soak *soak;      /* [BB_SOAK_TESTS]; NULL: no soak */
    json_t *soak_before;             /* on rank 0: rows of `soak` before nodes were lost; NULL: none */
    struct bb_health_tables *tables; /* filled on rank 0; NULL: none, for busbar health */
};

/*
 * bb_health_print_head - print the machine and the planned seconds of each stage, and add a finding about nodes of the
 *                        baseline that are missing. Rank 0 only.
 * bb_health_print_inventory - print the number of items with each verdict, with --full the items. Rank 0 only.
 * bb_health_save_row   - save one value of a measurement; partner: the node at the other end, -1: none; share:
 *                        as of bb_health_matrix_add. Rank 0 only.
 * bb_health_soak_json  - return the list `soak`, which the caller owns.
 * bb_health_save_verdicts - save the verdicts so far, which remain if the run ends early in this stage; NULL: all are
 *                        done. Rank 0 only.
 * bb_health_stop       - save the verdicts like bb_health_save_verdicts, and return -BB_EBELOW after printing one error
 *                        line about the first part that fails: the run ends in this stage. Rank 0 only.
 * bb_health_print_tests - print the medians of tests `first` to `end` - 1, when they have ended. Rank 0 only.
 * bb_health_finish     - print and save the verdicts; last: the first test that is not printed yet. Returns 0, or
 *                        -BB_EBELOW after printing one error line if a part fails. Rank 0 only.
 */
void bb_health_print_head(const struct bb_health_report *r);
void bb_health_print_inventory(const struct bb_health_report *r);
int bb_health_save_row(const struct bb_health_report *r, enum bb_health_test test, int node, int gpu, int partner,
                       double share, double value) BB_MUST_CHECK;
json_t *bb_health_soak_json(const struct bb_health_report *r) BB_MUST_CHECK;
int bb_health_save_verdicts(const struct bb_health_report *r, const char *stage) BB_MUST_CHECK;
int bb_health_stop(const struct bb_health_report *r, const char *stage) BB_MUST_CHECK;
void bb_health_print_tests(const struct bb_health_report *r, int first, int end);
int bb_health_finish(const struct bb_health_report *r, int last) BB_MUST_CHECK;

#endif
