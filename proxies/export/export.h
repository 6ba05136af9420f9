/*
 * export.h - writes a step in the formats of other tools: `busbar plan --export FORMAT FILE`. Each format is a row of
 * the table in export.c and a writer.
 *
 * A file contains the step program: every task (task_graph.h) of every rank, its dependencies, the time of its GPU
 * kernels and the bytes it moves. With a cluster profile the file also contains the host's kernel launches, because the
 * host may limit the step. Times of communication are left to the tool that reads the file.
 */
#ifndef BB_PROXIES_EXPORT_EXPORT_H
#define BB_PROXIES_EXPORT_EXPORT_H

#include "proxies/export/selection.h"
#include "proxies/simulate/graph/task_graph.h"
#include "proxies/simulate/predict.h"

#include <stdio.h>

/* Launch times of a task on the host: the first launch, which the task waits for, and the launches of its other
 * kernels. All 0 for a task that shares the launch of the previous task, as the messages of one NCCL group do. */
struct bb_export_launch {
    int64_t first_ns, more_ns;
};

/* The tasks of one role and their dependencies. */
struct bb_export_role {
    struct bb_task_graph graph;
    int *first_before, *before;        /* task t waits for before[first_before[t] .. first_before[t + 1]) */
    struct bb_export_launch *launches; /* [tasks] the host executes the launches one after another; NULL: no cluster
                                          profile, no host */
};

/* Parts of the step to write, as text such as "0,8-15"; NULL: chosen by the format. */
struct bb_export_selection {
    const char *ranks, *micro_batches;
};

struct bb_export {
    const struct bb_step *step;
    const struct bb_prediction *prediction; /* cluster and slowdowns; NULL: no --cluster */
    struct bb_export_role *roles;           /* [step->n_roles] */
    int host_stream; /* stream index for the host's launches: one more than the highest index of the ranks' streams */
    struct bb_export_selection only;
    int argc;
    char **argv; /* command line, for the headers of the files */
};

/*
 * bb_export_step - write `path` (Chakra: path.RANK.et for each rank). No partial file remains after an error.
 *   prediction  of the step; its cluster's rates determine compute times, and slow ranks compute longer. NULL: compute
 *               times are those of the program, and real kernels (--compute gemm) are rejected
 *   argc, argv  the command line
 *   Returns     0; -BB_EUSAGE after printing one line when the format cannot represent the step; -BB_EFAIL
 */
int bb_export_step(const char *format, const char *path, const struct bb_step *step,
                   const struct bb_prediction *prediction, struct bb_export_selection only, int argc,
                   char **argv) BB_MUST_CHECK;

/*
 * bb_export_validate - check the options before the step is built.
 *   format   NULL: no --export
 *   Returns  0; -BB_EUSAGE after printing one line when the format does not support --export-ranks or
 *            --export-micro-batches, requires --cluster, or cannot represent the slowdowns
 */
int bb_export_validate(const char *format, struct bb_export_selection only, const char *cluster,
                       const struct bb_slow *slow) BB_MUST_CHECK;

/* bb_export_check_writable - check before the work whether the file can be written. Returns 0, or -BB_EUSAGE after
 * printing one line. */
int bb_export_check_writable(const char *format, const char *path) BB_MUST_CHECK;

/* Name of the i-th format; NULL past the end. */
const char *bb_export_name_at(size_t i);

/* ---- for writers ---- */

typedef int bb_export_fn(const struct bb_export *e, FILE *out);
bb_export_fn bb_export_goal, bb_export_goal_bin, bb_export_perfetto, bb_export_simai;
int bb_export_chakra(const struct bb_export *e, const char *prefix);

const struct bb_export_role *bb_export_role_of(const struct bb_export *e, int rank);
/* bb_export_compute_ns - time of the operation's kernels without launches, on this rank. bb_export_host_ns - time of
 * all its launches; 0 without a cluster profile. */
int64_t bb_export_compute_ns(const struct bb_export *e, int rank, const struct bb_op *op);
int64_t bb_export_host_ns(const struct bb_export *e, const struct bb_op *op);
/* The i-th of the task->n operations of a task. */
const struct bb_op *bb_export_op(const struct bb_export_role *role, const struct bb_task *task, int i);
/* Number of micro-batches of the step; 1 for a step without micro-batches. */
int bb_export_micro_batches(const struct bb_step *step);
/* Formats "busbar 0.1.0: busbar plan gpt2_large --ranks 8", truncated to size. */
void bb_export_source_text(const struct bb_export *e, char *text, size_t size);

#endif
