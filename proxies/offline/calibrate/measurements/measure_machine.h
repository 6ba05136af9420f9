/*
 * measure_machine.h - `calibrate --measure`: runs the benchmarks that a profile requires, as a study of `busbar sweep`
 * (bootstrap/sweep), which starts them with a launcher, records the results, and continues after an interruption.
 */
#ifndef BB_PROXIES_OFFLINE_CALIBRATE_MEASUREMENTS_MEASURE_MACHINE_H
#define BB_PROXIES_OFFLINE_CALIBRATE_MEASUREMENTS_MEASURE_MACHINE_H

#include "bootstrap/sweep/argv.h"

#include <stdbool.h>

/* Options of --measure. The caller owns the strings; NULL: option not specified. */
struct bb_measure_options {
    int ranks;
    int node_ranks; /* GPUs of a node; fewer than ranks: the collectives also run on one node */
    const char *launcher, *hosts, *launch_arguments, *program; /* options of `busbar sweep` with these names */
    double timeout_s; /* timeout of each benchmark in seconds; 0: the default of `busbar bench` */
    bool restart, quiet;
    const char *const *bench_options; /* [n_bench_options] additional options for the benchmark of collectives */
    int n_bench_options;
};

/*
 * bb_measure_machine - runs the benchmarks for the profile STEM.json. Creates STEM.study.json, and the folder
 * STEM.sweep with one result file per benchmark.
 *   profile  path of the profile, which ends in .json
 *   sweep    main function of `busbar sweep`; its argv[0] is "sweep", and *ran the number of combinations that it has run
 *   files    in: empty; out: paths of the result files; the caller releases it, also after an error
 *   Returns  0, or a negative error after printing an error message
 */
int bb_measure_machine(const struct bb_measure_options *o, const char *profile,
                       int (*sweep)(int argc, char **argv, size_t *ran), struct bb_argv *files) BB_MUST_CHECK;

#endif
