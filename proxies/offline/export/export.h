/*
 * export.h - writes a training step in the formats of other tools: `busbar plan --export FORMAT FILE`. Each format is
 * an element of the table in export.c and has a writer.
 *
 * A file contains the step program of the ranks: every task (an operation or a group call, see task_graph.h), its
 * dependencies, the time of its GPU kernels and the bytes that it sends. With a cluster profile, the file also contains
 * the kernel launches of the host, because the host may limit the speed of the step. The tool that reads the file
 * computes the times of communication.
 */
#ifndef BB_PROXIES_OFFLINE_EXPORT_EXPORT_H
#define BB_PROXIES_OFFLINE_EXPORT_EXPORT_H

#include "proxies/simulation/simulate/graph/task_graph.h"
#include "proxies/simulation/simulate/predict.h"

#include <stdio.h>

/*
 * A task of a role (operation or NCCL group call), in the order in which the host launches the tasks.
 *   before    [n_before] indices of the tasks for which this task waits
 *   first_ns  host time in ns of the launch of the task's first kernel, for which the task waits
 *   more_ns   host time in ns of the launches of the task's other kernels
 * Both times are 0 without a cluster profile, and for a task that shares the launch of the previous task, for example
 * in one NCCL group call.
 */
struct bb_export_task {
    int *before, n_before;
    int64_t first_ns, more_ns;
};

/* The tasks of one role (a set of ranks that run the same program), with their dependencies and launches. */
struct bb_export_role {
    struct bb_task_graph graph;
    struct bb_export_task *tasks; /* [graph.n_tasks] */
};

/* The ranks and micro-batches of the step to write, as lists such as "0,8-15"; NULL: the default of the format. */
struct bb_export_selection {
    const char *ranks, *micro_batches;
};

struct bb_export {
    const struct bb_step *step;
    const struct bb_prediction *prediction; /* prediction whose cluster profile and slow ranks determine the compute
                                               times; NULL: --cluster is not given */
    struct bb_export_role *roles; /* [step->n_roles] tasks of each role (set of ranks that run the same program) */
    int host_stream; /* stream number for the host's kernel launches in the file: one above the highest stream number
                        of all ranks */
    struct bb_export_selection only;
    int argc;
    char **argv; /* the command line, a copy of which is written to the file */
};

/*
 * bb_export_step - write a training step to `path` (Chakra: one file path.RANK.et per rank). Removes partial files
 * after an error.
 *   format      name of the format
 *   prediction  prediction of the step, whose cluster profile and slow ranks determine compute times. NULL: compute
 *               times are the durations in the program, and real kernels (--compute gemm) are rejected
 *   only        the ranks and micro-batches to write
 *   argc, argv  the command line
 *   Returns     0; -BB_EUSAGE after printing an error line when the format cannot represent the step; -BB_EFAIL
 */
int bb_export_step(const char *format, const char *path, const struct bb_step *step,
                   const struct bb_prediction *prediction, struct bb_export_selection only, int argc,
                   char **argv) BB_MUST_CHECK;

/*
 * bb_export_validate - validate the export options before the training step is built.
 *   format   name of the format; NULL: --export is not given
 *   only     values of --export-ranks and --export-micro-batches
 *   cluster  value of --cluster, or NULL
 *   Returns  0; -BB_EUSAGE after printing an error line when the format does not support --export-ranks or
 *            --export-micro-batches, requires --cluster, or cannot represent the slowdowns of --slow
 */
int bb_export_validate(const char *format, struct bb_export_selection only, const char *cluster,
                       const struct bb_slow *slow) BB_MUST_CHECK;

/*
 * bb_export_check_writable - check that the file (Chakra: the file of rank 0) can be written; called before the
 * training step is built. Returns 0, or -BB_EUSAGE after printing an error line.
 */
int bb_export_check_writable(const char *format, const char *path) BB_MUST_CHECK;

/* Returns the name of the i-th export format; NULL if i is past the end of the table. */
const char *bb_export_name_at(size_t i);

/* ---- functions for the writers of the formats ---- */

typedef int bb_export_fn(const struct bb_export *e, FILE *out);
bb_export_fn bb_export_goal, bb_export_goal_bin, bb_export_perfetto, bb_export_simai;
int bb_export_chakra(const struct bb_export *e, const char *prefix);
/* Type of the functions that return whether a format can represent a collective (op->kind is BB_OP_COLLECTIVE). */
typedef bool bb_export_supports_fn(const struct bb_layout *l, const struct bb_op *op);
bb_export_supports_fn bb_goal_supports, bb_chakra_supports;

const struct bb_export_role *bb_export_role_of(const struct bb_export *e, int rank);
/*
 * bb_export_compute_ns - return the time in ns of an operation's kernels on a rank, without kernel launches.
 * bb_export_host_ns - return the host time in ns of all kernel launches of an operation; 0 without a cluster profile.
 */
int64_t bb_export_compute_ns(const struct bb_export *e, int rank, const struct bb_op *op);
int64_t bb_export_host_ns(const struct bb_export *e, const struct bb_op *op);
/* Returns the i-th operation of a task, 0 <= i < task->n. */
const struct bb_op *bb_export_op(const struct bb_export_role *role, const struct bb_task *task, int i);
/* Returns the number of micro-batches in the training step; 1 for a step without micro-batches. */
int bb_export_micro_batches(const struct bb_step *step);
/* Formats the version and the command line as "busbar 0.1.0: busbar plan gpt2_large --ranks 8", truncated to size -
 * 1 characters. */
void bb_export_source_text(const struct bb_export *e, char *text, size_t size);

#endif
