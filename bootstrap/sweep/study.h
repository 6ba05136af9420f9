/*
 * study.h - a parameter study as its file describes it, read and checked whole before anything starts.
 *
 *   {
 *     "name": "algorithms",                     of the files that are written; default: the file's own name
 *     "about": "which algorithm is best?",      one line for people
 *     "command": ["bench", "all_reduce"],       or "bench all_reduce"; a list inside the list is varied
 *     "options": {"minbytes": "1K", "datatype": ["float", "half"]},
 *     "environment": {"NCCL_ALGO": ["Ring", "Tree", null]},
 *     "ranks": [4, 8],
 *     "launch_arguments": ["--bind-to", "none"],
 *     "timeout_s": 600,
 *     "choices": {"transport": {"nvlink": {}, "host": {"environment": {"NCCL_P2P_DISABLE": 1}}}},
 *     "cases": [{"name": "small", "options": {...}}, {"name": "large", "command": [...], "ranks": 2}],
 *     "leave_out": [{"NCCL_ALGO": "Tree", "datatype": "half"}],
 *     "repeats": 3,
 *     "launch": {"with": "mpirun", "hosts": "a:4,b:4", "program": "busbar"},
 *     "slurm": {"lines": ["--partition=gpu", "--nodes={nodes}"], "setup": ["module load nccl"], "at_once": 4,
 *               "tasks_per_array": 1000, "gpus_per_node": 8},
 *     "columns": ["step_us.p50",
 *                 {"name": "E_w", "value": "scaling.images_per_s_per_rank", "relative_to": {"ranks": 1}}]
 *   }
 *
 * A *setting* is any of command, options, environment, ranks, launch_arguments, timeout_s. The file's top level is one;
 * each value of a choice and each case is another that is laid over it (options and environment key by key, the rest as
 * a whole). A value of an option, a variable or ranks that is a list is an axis: every one of its values meets every
 * value of every other axis, of every choice and every case. An option's value is a text, a number, true (given, for
 * flags), false or null (not given); a variable's a text, a number or null (not set, even where the caller has it).
 * {id} in a word or a variable is the combination's own id.
 */
#ifndef BB_BOOTSTRAP_SWEEP_STUDY_H
#define BB_BOOTSTRAP_SWEEP_STUDY_H

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stdbool.h>

#define BB_STUDY_NAME_TEXT  65
#define BB_STUDY_MAX_RANKS (1 << 24)

struct bb_study {
    char *path;                    /* the file, as the user names it                                */
    char name[BB_STUDY_NAME_TEXT]; /* letters, digits, '.', '_', '-'                                */
    json_t *root;                  /* the whole, valid: every key known, every value of its type    */
};

/* bb_study_load - read and check a file. Anything that is not as above: one line with the place in the file, what is
 * there and what was expected, or the nearest key; -BB_EUSAGE. What holds for combinations (leave_out, columns, the
 * commands themselves) is checked where they are made. release is fine on a half-read one. */
int bb_study_load(struct bb_study *study, const char *path) BB_MUST_CHECK;
void bb_study_release(struct bb_study *study);

/* bb_suggest_nccl_variable (variables.c) - whether a name is none of NCCL's variables but near one, which is then `meant`. A
 * newer NCCL may have it all the same, so this is for a warning. */
#define BB_NCCL_VARIABLE_TEXT 48
bool bb_suggest_nccl_variable(const char *name, char meant[BB_NCCL_VARIABLE_TEXT]);

#endif
