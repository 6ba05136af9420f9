/*
 * study.h - a parameter study: the file is read and validated completely before anything starts.
 *
 *   {
 *     "name": "algorithms",                     base name of output files; default: name of the study file
 *     "about": "which algorithm is best?",      one line of description
 *     "command": ["bench", "all_reduce"],       or "bench all_reduce"; a list inside the list is an axis
 *     "values": {"limit": ["256M", "1G"]},      {limit} in the command, options, ... is replaced
 *     "options": {"minbytes": "1K", "datatype": ["float", "half"]},
 *     "environment": {"NCCL_ALGO": ["Ring", "Tree", null]},
 *     "ranks": [4, 8],
 *     "launch_arguments": "--bind-to none",     or a list of words
 *     "timeout_s": 600,
 *     "choices": {"transport": {"nvlink": {}, "host": {"environment": {"NCCL_P2P_DISABLE": 1}}}},
 *     "cases": [{"name": "small", "options": {...}}, {"name": "large", "command": [...], "ranks": 2}],
 *     "leave_out": [{"NCCL_ALGO": "Tree", "datatype": "half"}],
 *     "repeats": 3,
 *     "launch": {"with": "mpirun", "hosts": "a:4,b:4", "program": "busbar"},
 *     "slurm": {"lines": ["--partition=gpu"], "setup": ["module load nccl"], "at_once": 4,
 *               "tasks_per_array": 1000, "gpus_per_node": 8},
 *     "columns": ["step_us.p50",
 *                 {"name": "E_w", "value": "scaling.images_per_s_per_rank", "relative_to": {"ranks": 1}}],
 *     "charts": [{"x": "ranks", "y": "E_w", "lines": ["datatype"], "for_each": ["transport"]}]
 *   }
 *
 * A *setting* is any subset of command, values, options, environment, ranks, metrics, launch_arguments, timeout_s. The
 * top level of the file is a setting. A *choice* ("transport" in the example) gives names ("nvlink", "host") to
 * alternative settings. A *case* is one of the named settings in "cases". Each value of a choice and each case
 * overrides the setting at the top level (values, options, environment and metrics key by key, other keys as a whole).
 * An *axis* is a list of values for a placeholder, an option, a variable, ranks or a word of the command. With
 * "repeats", the repeat number is one more axis. The *combinations* are the Cartesian product of all axes, choices and
 * cases; each combination is one run.
 *
 * The value of an option is a text, a number, true (the flag is given), or false or null (the option is not given). The
 * value of a variable is a text, a number, or null (the variable is removed from the environment).
 *
 * A *placeholder* is {NAME} in a word of the command, an option, a variable or a launcher argument. It is replaced by
 * the value of NAME in "values", by the combination's id ({id}), by its number of ranks ({ranks}), or by the path of
 * its JSON result ({json}, only for programs other than busbar). ${NAME} is no placeholder.
 *
 * A command whose first word contains a slash, or any unknown command of a setting with "metrics", is a *program other
 * than busbar*. Without "ranks" it is started directly. "metrics" names the numbers of its result: as POSIX extended
 * regular expressions, whose first group is the number in a line of its output; with {json}, as JSON paths in the file
 * that the program writes.
 */
#ifndef BB_BOOTSTRAP_SWEEP_STUDY_H
#define BB_BOOTSTRAP_SWEEP_STUDY_H

#include "bootstrap/base/err.h"

#include <jansson.h>

/* Names of the launchers of studies; ends with NULL. */
extern const char *const bb_study_launchers[];

#define BB_STUDY_NAME_TEXT 65
#define BB_STUDY_MAX_RANKS (1 << 24)

struct bb_study {
    const char *path; /* path as given by the user, borrowed; or that of the installed study of this name */
    char *installed;  /* path of the installed study; NULL: a file of the user */
    char name[BB_STUDY_NAME_TEXT]; /* letters, digits, '.', '_', '-' */
    json_t *root; /* parsed and validated file: all keys are known and all values have the right type */
};

/*
 * bb_study_load - read and validate a study file.
 *   path     file; "-": stdin; or the name of an installed study (profiles/studies), if no file has this name
 *   Returns  0, or -BB_EUSAGE after printing one error line with the position in the file, the value found, and the
 *            accepted values or the known key of the closest spelling
 *   Owner    the caller releases study with bb_study_release, also after an error; path must outlive study
 *
 * bb_expand checks what depends on the combinations (leave_out, relative_to, the command lines).
 */
int bb_study_load(struct bb_study *study, const char *path) BB_MUST_CHECK;
void bb_study_release(struct bb_study *study);

#endif
