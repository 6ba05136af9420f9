/*
 * expand.h - expands a study (parameter sweep) into its combinations, one per run: the Cartesian product of cases,
 * choices and axes (study.h), as validated command lines.
 */
#ifndef BB_BOOTSTRAP_SWEEP_EXPAND_H
#define BB_BOOTSTRAP_SWEEP_EXPAND_H

#include "bootstrap/sweep/argv.h"
#include "bootstrap/sweep/study.h"

#include <stdbool.h>
#include <stdint.h>

/* A command that a study may run. busbar.c passes the commands to the sweep, because modules in bootstrap/ do not
 * depend on the modules of the commands. */
struct bb_study_command {
    const char *name; /* name of the command, for example "bench" */
    bool launched;    /* true: a launcher (mpirun, srun) starts the ranks; false: the command runs without a launcher
                      and takes the number of ranks from its option --ranks */
    int (*check)(int argc, char **argv); /* validates a command line without running it; returns 0, or -BB_EUSAGE
                                            after an error message */
};

#define BB_SWEEP_RUN_ID 17

struct bb_sweep_run {
    char id[BB_SWEEP_RUN_ID];   /* hash of command line, variables, launcher arguments, ranks and repeat number; adding
                                 or removing other combinations does not change it */
    json_t *settings;           /* JSON object: axis -> value of this combination, in the order of the axes */
    struct bb_argv words;       /* arguments after "busbar", except --json; or the command line of another program, in
                                 which {json} is not yet replaced */
    struct bb_argv environment; /* environment variables of the run: "NAME=value" sets a variable, "NAME" unsets it */
    struct bb_argv launch_arguments; /* arguments for the launcher (mpirun, srun), from the study file */
    bool launched;                   /* true: a launcher starts the ranks (bb_study_command.launched) */
    bool is_program;                 /* true: a program other than busbar (study.h) */
    bool takes_ranks, writes_json;   /* programs: whether {ranks} and {json} are in the command */
    json_t *metrics;                 /* programs: "metrics" of the study file; NULL: none */
    int ranks;        /* number of ranks that the launcher starts; 1 for a command that runs without a launcher */
    double timeout_s; /* time limit of the run in seconds; 0: no limit */
};

struct bb_sweep_runs {
    struct bb_sweep_run *one; /* [n] the combinations */
    size_t n;
    json_t *axes; /* JSON object: axis -> list of its values, in the order of the study file */
};

struct bb_expand_plan {
    const struct bb_study_command *commands;
    size_t n_commands;
    const char *ranks;       /* value of --ranks, for example "2,4,8", which replaces the top-level "ranks" of the study
                          file; NULL: not given */
    double timeout_s;        /* time limit in seconds for runs without "timeout_s" in the study file; 0: no limit */
    size_t max_combinations; /* maximum number of combinations; more are an error */
};

/*
 * bb_expand - generate all combinations in the order of the study file; the last axis varies fastest.
 *   c        out: the combinations
 *   study    validated study file
 *   plan     known commands, limits and overrides
 *   Returns  0, or -BB_EUSAGE after printing one error line for:
 *              - more than plan->max_combinations, or two identical combinations
 *              - an unknown command, argument, option or value (plan->commands), or missing ranks
 *              - an unknown axis or value in leave_out or relative_to
 *              - a leave_out rule that excludes nothing, or rules that exclude everything
 *   Owner    the caller releases c with bb_sweep_runs_release, also after an error
 */
int bb_expand(struct bb_sweep_runs *c, const struct bb_study *study, const struct bb_expand_plan *plan) BB_MUST_CHECK;
void bb_sweep_runs_release(struct bb_sweep_runs *c);

/* bb_sweep_hash - return the 64-bit FNV-1a hash `hash` extended by data; BB_SWEEP_HASH is that of no data. */
#define BB_SWEEP_HASH 0xcbf29ce484222325u
uint64_t bb_sweep_hash(uint64_t hash, const void *data, size_t bytes);

/* bb_setting_text - format an axis value: "Ring", "1.5", "yes" for true, "-" for false and null. Control characters
 * become blanks. Returns text. */
#define BB_SETTING_TEXT 256
const char *bb_setting_text(const json_t *value, char text[BB_SETTING_TEXT]);

/* bb_settings_text - write the settings of a combination to text[size], for example "NCCL_ALGO=Ring ranks=4", or
 * "the only combination" if the study has no axes. Returns text. */
const char *bb_settings_text(const struct bb_sweep_run *c, char *text, size_t size);

#endif
