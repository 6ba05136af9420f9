/*
 * slurm.h - a study as Slurm array jobs: POSIX shell scripts, one task per combination, which SLURM_ARRAY_TASK_ID
 * picks.
 */
#ifndef BB_BOOTSTRAP_SWEEP_SLURM_H
#define BB_BOOTSTRAP_SWEEP_SLURM_H

#include "bootstrap/sweep/launch_runs.h"

struct bb_slurm_plan {
    const struct bb_study *study;
    const struct bb_launch_runs *launch;
    const struct bb_sweep_run *const *wanted; /* [n] in order                                             */
    size_t n;
    const char *dir; /* of the results: absolute                                 */
};

/*
 * bb_slurm_write - dir/NAME.slurm; more than one (NAME-1.slurm, ...) when there are more combinations than
 * "tasks_per_array" (default 1000, as most sites have MaxArraySize 1001), or when "lines" have {ranks} or {nodes} in
 * them, so that combinations of different size get allocations of their own. {nodes} is ranks over "gpus_per_node",
 * rounded up. Without such lines the array gets --ntasks of its largest combination.
 *
 * Nothing of a word or a variable is left for the shell to read. A task writes the same files as a run of the sweep
 * (state.h) and ends with the run's status. Each script's name goes to `out` as the command that submits it.
 */
int bb_slurm_write(const struct bb_slurm_plan *plan, FILE *out) BB_MUST_CHECK;

#endif
