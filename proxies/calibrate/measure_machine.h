/*
 * measure_machine.h - `calibrate --measure`: the benches that a profile needs, run as a study (bootstrap/sweep), so
 * that they are started under the launcher, recorded and, when stopped, gone on with like any other.
 */
#ifndef BB_PROXIES_CALIBRATE_MEASURE_MACHINE_H
#define BB_PROXIES_CALIBRATE_MEASURE_MACHINE_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define BB_MEASURED_FILES 8

/* What is asked. Texts are borrowed; NULL: not given. */
struct bb_measure_options {
    int ranks;
    const char *launcher, *hosts, *launch_arguments, *program; /* as of sweep */
    double timeout_s;                                          /* of each bench; 0: not given */
    bool restart, quiet;
    const char *const *bench_options; /* [n_words] further options of the bench of collectives */
    int n_bench_options;
};

/* The files that were made; zeroed is empty. */
struct bb_measured_files {
    char *paths[BB_MEASURED_FILES];
    size_t n;
};

/*
 * bb_measure_machine - for the profile STEM.json: STEM.study.json and the folder STEM.sweep with a result file of each
 * bench. sweep: `busbar sweep`, argv[0] is "sweep". Returns 0 or a negative error, said.
 */
int bb_measure_machine(const struct bb_measure_options *o, const char *profile, int (*sweep)(int argc, char **argv),
                       struct bb_measured_files *files) BB_MUST_CHECK;
void bb_measured_files_release(struct bb_measured_files *files);

#endif
