/*
 * launch_runs.h - from a combination to processes: the launcher's words, and one run under a time limit.
 */
#ifndef BB_BOOTSTRAP_SWEEP_LAUNCH_RUNS_H
#define BB_BOOTSTRAP_SWEEP_LAUNCH_RUNS_H

#include "bootstrap/sweep/expand.h"

/* How combinations are started. Texts are borrowed. */
struct bb_launch_runs {
    const char *with;         /* "mpirun", "srun", "none"; NULL: the words of `custom`            */
    const json_t *custom;        /* ["mpiexec", "-n", "{ranks}"]                                  */
    const char *hosts;        /* NULL: the launcher's choice                                   */
    struct bb_argv arguments; /* of every run, before those of the combination                 */
    char *program;            /* busbar                                                        */
};

/* bb_launch_runs_init - from the file's "launch" and the command line's words, which win (NULL: not given). with: a
 * launcher by name. arguments: split at blanks. program NULL: this one. Returns 0, -BB_EUSAGE or -BB_EFAIL (said). */
int bb_launch_runs_init(struct bb_launch_runs *s, const struct bb_study *study, const char *with, const char *hosts,
                        const char *arguments, const char *program) BB_MUST_CHECK;
void bb_launch_runs_release(struct bb_launch_runs *s);

/*
 * bb_launch_runs_argv - the whole command line of a combination, `json` the file for its result (NULL: left out).
 *   mpirun   mpirun -n RANKS [--host HOSTS] ARGUMENTS -x NAME...  (Open MPI's: variables reach other hosts by -x)
 *   srun     srun -n RANKS [--nodelist HOSTS] ARGUMENTS           (takes the environment along by itself)
 *   none     nothing; one rank only, others are -BB_EUSAGE
 * A command that needs no launcher (plan) gets none.
 */
int bb_launch_runs_argv(const struct bb_launch_runs *s, const struct bb_sweep_run *c, const char *json,
                         struct bb_argv *words) BB_MUST_CHECK;

/* How a run ended. */
struct bb_started {
    int exit_status; /* of the launcher; 124: out of time; 128 + n: by signal n; 127: cannot be started */
    double seconds;
    int stopped_by; /* a signal that this process got meanwhile; the run was ended; 0: none            */
};

/*
 * bb_launch_runs_run - run words with the combination's variables, output to the files out and err, no input, in a
 * process group of its custom. When its time is up, or SIGINT, SIGTERM or SIGHUP comes, the group gets SIGTERM and, 5
 * seconds later, SIGKILL. Should this process die, the launcher gets SIGTERM. tick(arg, seconds) is called about five
 * times a second, NULL: not. Returns 0 whatever became of the run, or -BB_EFAIL when it could not even be tried (said).
 */
int bb_launch_runs_run(const struct bb_sweep_run *c, const struct bb_argv *words, const char *out, const char *err,
                       void (*tick)(void *arg, double seconds), void *arg, struct bb_started *ended) BB_MUST_CHECK;

/* A study as Slurm array jobs: POSIX shell scripts, one task per combination, which SLURM_ARRAY_TASK_ID picks. */
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
 * them, so that combinations of different size get allocations of their custom. {nodes} is ranks over "gpus_per_node",
 * rounded up. Without such lines the array gets --ntasks of its largest combination.
 *
 * Nothing of a word or a variable is left for the shell to read. A task writes the same files as a run of the sweep
 * (state.h) and ends with the run's status. Each script's name goes to `out` as the command that submits it.
 */
int bb_slurm_write(const struct bb_slurm_plan *plan, FILE *out) BB_MUST_CHECK;

#endif
