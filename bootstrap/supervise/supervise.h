/*
 * supervise.h - runs the ranks of this process under supervision. The launcher starts one supervisor (busbar) per MPI
 * rank, which starts the rank (busbar-rank) and reports how it ends: the process that reports a failure is not the
 * process that fails. The supervisor has one thread and one poll loop, and uses neither CUDA, NCCL nor MPI.
 *
 * A supervisor observes the end of its rank, signals, the end of its launcher, missing signs of life, and the
 * supervisors of the other ranks (star.h, local_job.h). A table (state_machine.h) decides how it reacts.
 *
 * After the loss of a node, a command that keeps records (bb_world_restart_after_loss) goes on with the other nodes
 * (restart.c).
 *
 * Normally exactly one error line is printed for the whole job. Exceptions:
 * - Two lines: if two running hosts cannot reach each other, each reports the other as lost.
 * - No line: if the launcher has ended, stderr is a pipe without a reader. The results contain the cause.
 */
#ifndef BB_BOOTSTRAP_SUPERVISE_SUPERVISE_H
#define BB_BOOTSTRAP_SUPERVISE_SUPERVISE_H

#include "bootstrap/results/results.h"
#include "bootstrap/supervise/child.h"

/*
 * bb_supervise - run `ranks` ranks of busbar-rank and wait for the end of the job.
 *   command    name of the command in messages
 *   entry      entry point in busbar-rank
 *   timeout_s  time limit in seconds for loading the libraries; the rank sets the limit of the run
 *   ranks      number of ranks of this supervisor: 1, or more with the options -g and -t
 *   results    schema, paths and no_rows of the results, which are written if the run fails before rank 0 opens them,
 *              except after a usage error; NULL: none
 *   argc, argv arguments of the entry point; argv[0] is the command
 *   Returns    0, or the negative error code with which the job ended; one process of the job has printed the error
 * With the option --no-supervisor in argv, the process becomes the rank itself (exec), for debuggers; only the launcher
 * then reports how it ends.
 */
int bb_supervise(const char *command, const char *entry, double timeout_s, int ranks,
                 const struct bb_results_head *results, int argc, char **argv) BB_MUST_CHECK;

/* bb_supervise_program - like bb_supervise, for any program that calls bb_supervised_begin and bb_supervised_end
 * (rank.h) instead of busbar-rank. */
int bb_supervise_program(const struct bb_rank_program *program, double timeout_s, int ranks) BB_MUST_CHECK;

#endif
