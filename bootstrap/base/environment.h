/*
 * environment.h - selects the environment variables that result files record. environment.def lists the known
 * variables. For most of them the files contain the value; a value that may be private is recorded only as "set". Any
 * other variable whose name begins with NCCL_, CUDA_, BUSBAR_ or EMU_ is also recorded only as "set", so misspelled
 * variables and variables of newer NCCL versions appear in the files.
 */
#ifndef BB_BOOTSTRAP_BASE_ENVIRONMENT_H
#define BB_BOOTSTRAP_BASE_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/* bb_environment_is_recorded - return true if the name is in environment.def or begins with NCCL_, CUDA_, BUSBAR_ or
 * EMU_; false for the variables that busbar sets for busbar-rank. */
bool bb_environment_is_recorded(const char *name);

/* bb_environment_value - return the text to record: `value` if environment.def permits the value of this variable,
 * else "set". */
const char *bb_environment_value(const char *name, const char *value);

/* bb_environment_is_emulated - return whether busbar-emulated started this program. */
bool bb_environment_is_emulated(void);

/* bb_environment_has_nodes - return whether the nodes are those of EMU_NODES, which NICs connect, also on a machine whose NVLink
 * domains span hosts. */
bool bb_environment_has_nodes(void);

/* BB_OWN_HOST_ID - begin of the value of NCCL_HOSTID that busbar sets for ranks that share a GPU or use MIG instances, by
 * which results recognize that busbar also set the other variables of bb_comms_share_gpu_env. */
#define BB_OWN_HOST_ID "busbar-"

/* bb_environment_program - return the program that the reader can type: "busbar-emulated", or "busbar". */
const char *bb_environment_program(void);

/* bb_environment_read_at - return the name of the i-th variable that busbar, its scripts or the emulated GPUs read; NULL
 * past the end. text: out, its effect. */
const char *bb_environment_read_at(size_t i, const char **text);

/* A variable that can lower the bandwidth, because it restricts what NCCL may use. */
struct bb_restriction {
    const char *name;
    const char *only, *except; /* the only value that does so; the value that does not; NULL: each one does */
    bool choice;               /* it restricts the choice of algorithm and protocol */
    bool modelled;             /* it has this effect on emulated GPUs, too */
};
/* bb_environment_restriction_at - return the i-th one; NULL past the end.
 * bb_environment_restricts      - return whether this value of the variable does so; NULL: the variable is not set. */
bool bb_environment_restricts(const struct bb_restriction *r, const char *value);
const struct bb_restriction *bb_environment_restriction_at(size_t i);

/*
 * bb_environment_suggest - detect a misspelled variable of NCCL, busbar or the emulated GPUs, which would be ignored.
 *   Returns  the known variable with the most similar name, if `name` begins with NCCL_, BUSBAR_ or EMU_ and is not in
 *            environment.def; NULL if it is, or if no name is similar. A newer NCCL may have the variable, so callers
 *            only print a warning.
 * bb_environment_warn - print a warning for each misspelled variable of this process.
 */
const char *bb_environment_suggest(const char *name);
void bb_environment_warn(void);

#endif
