/*
 * measure_machine.h - `calibrate --measure`: runs the benches that a profile needs as a study (bootstrap/sweep), which
 * starts them under a launcher, records the results, and continues after an interruption.
 */
#ifndef BB_PROXIES_CALIBRATE_MEASURE_MACHINE_H
#define BB_PROXIES_CALIBRATE_MEASURE_MACHINE_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define BB_MEASURED_FILES 8

/* Options of --measure. Texts are borrowed; NULL: not given. */
struct bb_measure_options {
    int ranks;
    const char *launcher, *hosts, *launch_arguments, *program; /* as for `busbar sweep` */
    double timeout_s;                                          /* per bench; 0: not given */
    bool restart, quiet;
    const char *const *bench_options; /* [n_bench_options] additional options for the bench of collectives */
    int n_bench_options;
};

/* Result files of the benches; all zero is empty. */
struct bb_measured_files {
    char *paths[BB_MEASURED_FILES];
    size_t n;
};

/*
 * bb_measure_machine - run the benches for the profile STEM.json. Creates STEM.study.json, and the folder STEM.sweep
 * with one result file per bench.
 *   sweep    the command `busbar sweep`; its argv[0] is "sweep"
 *   files    out; release with bb_measured_files_release
 *   Returns  0, or a negative error after printing one line
 */
int bb_measure_machine(const struct bb_measure_options *o, const char *profile, int (*sweep)(int argc, char **argv),
                       struct bb_measured_files *files) BB_MUST_CHECK;
void bb_measured_files_release(struct bb_measured_files *files);

#endif
