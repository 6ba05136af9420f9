/* calibration_report.h - a calibration as text, as busbar.calibration/1, and as the profile that it makes. */
#ifndef BB_PROXIES_CALIBRATE_CALIBRATION_REPORT_H
#define BB_PROXIES_CALIBRATE_CALIBRATION_REPORT_H

#include "proxies/calibrate/calibration.h"

#include <stdio.h>

/* Everything is borrowed. */
struct bb_calibration_report {
    const struct bb_calibration *calibration;
    const struct bb_measurements *measurements;
    const struct bb_cluster *base;
    const json_t *base_root; /* its file      */
    const char *profile;     /* what is written */
    bool by_device;          /* the base was chosen by the GPUs' name */
    int argc;                /* the command */
    char **argv;
};

void bb_calibration_print(const struct bb_calibration_report *r, FILE *out);
json_t *bb_calibration_json(const struct bb_calibration_report *r); /* NULL without memory */

/* bb_calibration_profile - the base's file with the figures that were told, and where each comes from. */
json_t *bb_calibration_profile(const struct bb_calibration_report *r); /* NULL without memory */

#endif
