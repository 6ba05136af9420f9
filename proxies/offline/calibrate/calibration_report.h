/* calibration_report.h - output of a calibration: text, the JSON document busbar.calibration/1, and the new profile. */
#ifndef BB_PROXIES_OFFLINE_CALIBRATE_CALIBRATION_REPORT_H
#define BB_PROXIES_OFFLINE_CALIBRATE_CALIBRATION_REPORT_H

#include "bootstrap/base/stats.h"
#include "proxies/offline/calibrate/parameters/calibration.h"

#include <stdio.h>

/* Input of the report functions. The caller owns everything that the pointers refer to. */
struct bb_calibration_report {
    const struct bb_calibration *calibration;
    struct bb_stats left_out[BB_LEFT_OUT_KINDS]; /* of bb_cross_validate */
    const json_t *base_root;                     /* JSON of the starting profile */
    const char *profile;                         /* path of the new profile */
    const char *selected_by;        /* what selected the starting profile, "the GPU" for example; NULL: --from */
    struct bb_better_start better;  /* than the selected profile: the starting profile if the GPU selected it */
    char selected[BB_CLUSTER_NAME]; /* the selected profile */
    int argc;                       /* argc, argv: the command line */
    char **argv;
};

/* bb_calibration_doubtful - returns the name of the fit whose times are farthest from the measurements, and their sizes, if
 * it does not hold; otherwise NULL. The caller owns the text. */
json_t *bb_calibration_doubtful(const struct bb_calibration *c);

/* bb_calibration_warn - warns of a starting profile that another one is better than, and of a fit that does not hold, with the
 * measurement that differs most. */
void bb_calibration_warn(const struct bb_calibration_report *r);
void bb_calibration_print(const struct bb_calibration_report *r, FILE *out);
json_t *bb_calibration_json(const struct bb_calibration_report *r); /* NULL if a text is not valid UTF-8 */

/* bb_next_measurements - returns a list of texts: measurements that would determine what this calibration could not. */
json_t *bb_next_measurements(const struct bb_calibration *c);

/* bb_calibration_profile - returns the JSON of the new profile: the starting profile with the fitted values. The key
 * "source" contains a text that lists the origin of all values. */
json_t *bb_calibration_profile(const struct bb_calibration_report *r); /* NULL if a text is not valid UTF-8 */

#endif
