/*
 * export.h - a step as files that other tools read: `busbar plan --export FORMAT FILE`. A format is a row of the table
 * in export.c and a file with its writer.
 *
 * What leaves is what the step program says: every task (task_graph.h) of every rank, what it waits for, how long the
 * GPU computes and how many bytes move; of a machine also the host, which launches all of it and may be the one that is
 * waited for. How long communication lasts is for the tool that reads it.
 */
#ifndef BB_PROXIES_EXPORT_EXPORT_H
#define BB_PROXIES_EXPORT_EXPORT_H

#include "proxies/export/selection.h"
#include "proxies/simulate/graph/task_graph.h"
#include "proxies/simulate/predict.h"

#include <stdio.h>

/* The host's part in a task: its first launch, which the task waits for, and those of its other kernels. All zero where
 * it goes with the launch of the task before it, as messages of one call do. */
struct bb_export_launch {
    int64_t first_ns, more_ns;
};

/* The tasks of one role, and whom each of them waits for. */
struct bb_export_role {
    struct bb_task_graph graph;
    int *first_before, *before;        /* task t waits for before[first_before[t] .. first_before[t + 1]) */
    struct bb_export_launch *launches; /* [tasks] of the host, one after another; NULL: no machine, no host */
};

/* What of the step, as text; NULL: the format's own choice. */
struct bb_export_selection {
    const char *ranks, *micro_batches;
};

struct bb_export {
    const struct bb_step *step;
    const struct bb_prediction *prediction; /* its cluster, and what of it is slow; NULL: no cluster was named */
    struct bb_export_role *roles;           /* [step->n_roles] */
    int host_stream;                        /* the number behind those of all ranks' streams, for the host's work */
    struct bb_export_selection only;
    int argc;
    char **argv; /* the command, for the files' heads */
};

/* bb_export_step - writes `path` (Chakra: path.RANK.et for each rank). prediction: of the step; compute lasts by the
 * rates of its cluster, longer on its slow ranks; NULL: none was made, and real work (--compute gemm) is -BB_EUSAGE
 * (said). argv: the words of the command. A format that cannot hold the step is -BB_EUSAGE (said). Nothing is left
 * half-written. */
int bb_export_step(const char *format, const char *path, const struct bb_step *step,
                   const struct bb_prediction *prediction, struct bb_export_selection only, int argc,
                   char **argv) BB_MUST_CHECK;

/* bb_export_validate - before the step is built: a format that takes no part of a step, needs the cluster, or cannot say
 * what is slow (-BB_EUSAGE, said). format NULL: none was asked for. */
int bb_export_validate(const char *format, struct bb_export_selection only, const char *cluster,
                     const struct bb_slow *slow) BB_MUST_CHECK;

/* bb_export_check_writable - can its file be written there? Asked before the work: 0 or -BB_EUSAGE (said). */
int bb_export_check_writable(const char *format, const char *path) BB_MUST_CHECK;

/* The i-th name of a format, NULL past the end. */
const char *bb_export_name_at(size_t i);

/* ---- for writers ---- */

typedef int bb_export_fn(const struct bb_export *e, FILE *out);
bb_export_fn bb_export_goal, bb_export_goal_bin, bb_export_perfetto, bb_export_simai;
int bb_export_chakra(const struct bb_export *e, const char *prefix);

const struct bb_export_role *bb_export_role_of(const struct bb_export *e, int rank);
/* bb_export_compute_ns - that its kernels take, their launches not. _host_ns: all of their launches; 0 without a
 * machine. */
int64_t bb_export_compute_ns(const struct bb_export *e, int rank, const struct bb_op *op);
int64_t bb_export_host_ns(const struct bb_export *e, const struct bb_op *op);
/* The operations of a task, in order: the i-th of task->n. */
const struct bb_op *bb_export_op(const struct bb_export_role *role, const struct bb_task *task, int i);
/* How many micro-batches the step has; 1 where it has none. */
int bb_export_micro_batches(const struct bb_step *step);
/* "busbar 0.1.0: busbar plan gpt2_large --ranks 8", cut where it is long. */
void bb_export_source_text(const struct bb_export *e, char *text, size_t size);

#endif
