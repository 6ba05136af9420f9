/*
 * launch_runs.h - starts the combinations of a study (expand.h): builds the launcher's command line, runs it with a
 * time limit, or writes Slurm array jobs.
 */
#ifndef BB_BOOTSTRAP_SWEEP_LAUNCH_RUNS_H
#define BB_BOOTSTRAP_SWEEP_LAUNCH_RUNS_H

#include "bootstrap/sweep/state.h"

/* How the runs of a study are started. The pointers other than `program` point to memory of the caller. */
struct bb_launch_runs {
    const struct bb_study *study;
    const char *here, *dir;   /* absolute paths of the folder in which the runs start, and of the results folder */
    const char *with;         /* "mpirun", "srun" or "none"; NULL: the launcher in `custom` */
    const json_t *custom;     /* custom launcher, for example ["mpiexec", "-n", "{ranks}"] */
    const char *hosts;        /* hosts for mpirun --host or srun --nodelist; NULL: the launcher's default */
    struct bb_argv arguments; /* launcher arguments for all combinations (--launch-arguments); the combination's own
                                 launch_arguments follow them on the command line */
    char *program;            /* path of the busbar executable; owned */
};

/*
 * bb_launch_runs_init - set up the launcher from "launch" in the study file and from command line options. Options take
 * precedence over the file; NULL: the option is not given. The caller sets s->study, s->here and s->dir first.
 *   with       name of a launcher
 *   hosts      hosts for the launcher
 *   arguments  launcher arguments, split at blanks
 *   program    busbar executable; default: the running executable
 *   Returns    0, or -BB_EFAIL after an error message
 */
int bb_launch_runs_init(struct bb_launch_runs *s, const char *with, const char *hosts, const char *arguments,
                        const char *program) BB_MUST_CHECK;
void bb_launch_runs_release(struct bb_launch_runs *s);

/* bb_launch_runs_check - check that the launcher can start all combinations: "none" starts one rank, unless the command
 * is a program that starts its ranks itself ({ranks} is among its words). Returns 0, or -BB_EUSAGE after an error
 * message. */
int bb_launch_runs_check(const struct bb_launch_runs *s, const struct bb_sweep_runs *combinations) BB_MUST_CHECK;

/*
 * bb_launch_runs_argv - return the complete command line of a combination, owned by the caller.
 *   saves    whether the run writes its result to the results folder (--json)
 *
 *   mpirun   mpirun -n RANKS [--host HOSTS] ARGUMENTS -x NAME...  (Open MPI exports variables to other hosts only with
 *            -x)
 *   srun     srun -n RANKS [--nodelist HOSTS] ARGUMENTS           (srun exports the whole environment)
 *   none     no launcher
 * A command that needs no launcher (plan) and a program without "ranks" are started directly. A program other than
 * busbar receives none of busbar's options.
 */
struct bb_argv bb_launch_runs_argv(const struct bb_launch_runs *s, const struct bb_sweep_run *c, bool saves);

/* How a run ended. */
struct bb_started {
    int exit_status; /* exit status of the launcher, or of the command if there is no launcher; 124: timeout; 128 +
                        n: killed by signal n; 127: could not be started */
    double seconds;
    int stopped_by; /* signal that this process received and that ended the run; 0: none */
};

/*
 * bb_launch_runs_run - run a combination with its environment, in its own process group, with /dev/null as stdin.
 * Result, stdout and stderr go to the combination's files in the results folder (state.h).
 *   tick      progress callback tick(arg, seconds), about five times per second; NULL: none
 *   ended     out: how the run ended
 *   Returns   0 however the run ended; -BB_EFAIL after an error message if the run could not be started
 *
 * At the time limit, or on SIGINT, SIGTERM or SIGHUP, the process group receives SIGTERM, and SIGKILL 5 seconds later.
 * If this process dies, the kernel sends SIGTERM to the launcher.
 */
int bb_launch_runs_run(const struct bb_launch_runs *s, const struct bb_sweep_run *c,
                       void (*tick)(void *arg, double seconds), void *arg, struct bb_started *ended) BB_MUST_CHECK;

enum bb_slurm_action { BB_SLURM_WRITE, BB_SLURM_SUBMIT, BB_SLURM_PRINT };

/*
 * bb_slurm_write - write a study as Slurm array jobs: POSIX shell scripts with one array task per combination, selected
 * by SLURM_ARRAY_TASK_ID.
 *   wanted   [n] the combinations to run, in order
 *   action   WRITE: write the scripts; SUBMIT: also submit each script with sbatch; PRINT: write no file
 *   gather   command line that gathers the results in the folder `here`, for a comment of the scripts
 *   out      receives the sbatch command line for each script (WRITE), the id of each array job (SUBMIT), or the scripts,
 *            each after its file name (PRINT)
 *   Returns  0; -BB_EFAIL after an error message, also if sbatch fails
 *
 * The script is dir/NAME.slurm. Several scripts (NAME-1.slurm, ...) are written in two cases ("slurm" is the key of the
 * study file):
 *   - There are more combinations than slurm.tasks_per_array (default 1000, because many sites have MaxArraySize 1001).
 *   - slurm.gpus_per_node is given, or slurm.lines contains {ranks} or {nodes}. Combinations of different size then get
 *     separate allocations; {nodes} is ranks / slurm.gpus_per_node, rounded up. Otherwise the array requests --ntasks of
 *     its largest combination.
 * With slurm.gpus_per_node, the script requests --nodes, --ntasks-per-node and --gpus-per-node, unless slurm.lines
 * contains {nodes}; --gpus-per-node also not if slurm.lines requests GPUs.
 *
 * All words and variables are quoted, so that the shell expands nothing in them. A task writes the same files as a run
 * of the sweep (state.h) and exits with the run's status.
 */
int bb_slurm_write(const struct bb_launch_runs *s, const struct bb_sweep_run *const wanted[], size_t n,
                   enum bb_slurm_action action, const struct bb_argv *gather, FILE *out) BB_MUST_CHECK;

#endif
