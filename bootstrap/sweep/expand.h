/*
 * expand.h - the combinations of a study: every case with every value of every axis, as command lines that are known
 * to be good.
 */
#ifndef BB_BOOTSTRAP_SWEEP_EXPAND_H
#define BB_BOOTSTRAP_SWEEP_EXPAND_H

#include "bootstrap/sweep/argv.h"
#include "bootstrap/sweep/study.h"

/* A command that a study may run. Who has it is above this folder, so it is handed in (busbar.c). */
struct bb_study_command {
    const char *name;                    /* "bench"                                                         */
    bool launched;                       /* ranks are started by a launcher; else --ranks is an option      */
    int (*check)(int argc, char **argv); /* 0 when the words can be run as they are; else said, -BB_EUSAGE  */
};

#define BB_SWEEP_RUN_ID 17

struct bb_sweep_run {
    char id[BB_SWEEP_RUN_ID];   /* of its content: the same in every study and order              */
    json_t *settings;           /* axis -> value, in the order of the axes                        */
    struct bb_argv words;       /* the command behind "busbar", without --json                    */
    struct bb_argv environment; /* "NAME=value", or "NAME": is not set                            */
    struct bb_argv launch_arguments;
    bool launched;
    int ranks;        /* 1 unless launched                                              */
    double timeout_s; /* 0: none                                                        */
};

struct bb_sweep_runs {
    struct bb_sweep_run *one;
    size_t n;
    json_t *axes; /* axis -> list of its values, in the order of the file           */
};

struct bb_expand_plan {
    const struct bb_study_command *commands;
    size_t n_commands;
    const char *ranks; /* "2,4,8" in place of the file's top level, NULL                 */
    double timeout_s;  /* where the file has none, 0: none                               */
    size_t max_combinations;       /* combinations                                                   */
};

/*
 * bb_expand - all combinations, in the order of the file, the last axis fastest. Refused, with -BB_EUSAGE and one
 * line: more than plan->max_combinations; two that are the same; a command, word, option or value that busbar does not know (by
 * plan->commands); an unknown axis or value in leave_out or relative_to, a leave_out that leaves out nothing or
 * everything; ranks missing. release is fine on half-made ones.
 */
int bb_expand(struct bb_sweep_runs *c, const struct bb_study *study, const struct bb_expand_plan *plan) BB_MUST_CHECK;
void bb_sweep_runs_release(struct bb_sweep_runs *c);

/* bb_setting_text - a value of an axis for people and tables: "Ring", "1.5", "yes" for true, "-" for false and null;
 * control characters become blanks. */
#define BB_SETTING_TEXT 256
const char *bb_setting_text(const json_t *value, char text[BB_SETTING_TEXT]);

/* bb_settings_text - "NCCL_ALGO=Ring ranks=4"; "the only one" without axes. */
const char *bb_settings_text(const struct bb_sweep_run *c, char *text, size_t size);

#endif
