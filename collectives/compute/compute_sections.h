/*
 * compute_sections.h - the three sections of `busbar bench compute`: what they measure, and their rows as text and
 * JSON.
 */
#ifndef BB_COLLECTIVES_COMPUTE_COMPUTE_SECTIONS_H
#define BB_COLLECTIVES_COMPUTE_COMPUTE_SECTIONS_H

#include "collectives/compute/compute_measure.h"
#include "collectives/compute/compute_options.h"
#include "collectives/session/session.h"

/* Everything that a run holds; zeroed is empty, so one release fits every state. */
struct bb_compute {
    struct bb_bench_compute_options options;
    struct bb_session session;
    struct bb_compute_context ctx;
    double copy_gbps; /* the device's measured limits: */
    double best_tflops[BB_COMPUTE_TYPES];
    double worst_error;  /* of the timed kernel at 100 us and above, percent */
    double judged_error; /* the same, less what no kernel can do better; percent */
};

/* bb_compute_type_wanted - whether the options ask for the type bb_compute_types[type]. */
bool bb_compute_type_wanted(const struct bb_compute *b, int type);

/* bb_compute_run - measure the copy limit and the wanted sections, print and save their rows and the limits. Returns 0,
 * an error, or -BB_EBELOW when the timed kernel errs by more than the options allow. */
int bb_compute_run(struct bb_compute *b) BB_MUST_CHECK;

#endif
