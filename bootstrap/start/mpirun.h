/*
 * mpirun.h - path and options of the MPI launcher, for commands that start ranks (sweep). Needs no MPI library.
 */
#ifndef BB_BOOTSTRAP_START_MPIRUN_H
#define BB_BOOTSTRAP_START_MPIRUN_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stdio.h>

/*
 * bb_mpirun - returns the launcher of the MPI library that busbar was built with: "mpirun" if that launcher was the
 * first mpirun in PATH at build time, else its absolute path (for example "/usr/bin/mpiexec.mpich" on a system with
 * Open MPI in PATH). Returns "mpirun" if the file at the absolute path no longer exists.
 */
const char *bb_mpirun(void);

/* bb_mpirun_hosts - returns the launcher's option for a list of hosts ("--host"). */
const char *bb_mpirun_hosts(void);

/* bb_mpirun_export - returns the launcher's option that exports a variable to all ranks ("-x"), or NULL if the
 * launcher exports the whole environment. */
const char *bb_mpirun_export(void);

/* Prints a word for a shell: bb_quote of the module sweep. */
typedef void bb_print_word(const char *word, FILE *out);

/*
 * bb_mpirun_print_options - print the options of the mpirun that started this process, each after a blank, except those that
 * set hosts and numbers of processes. Prints nothing if mpirun is not among the ancestors of this process (its daemon on
 * another host starts it), if the command line has another program before busbar, or if a word of it is not printable ASCII
 * or names a secret. command: the word after busbar.
 */
void bb_mpirun_print_options(const char *command, bb_print_word *print, FILE *out);

/* bb_mpirun_started_us - returns whether this process is a rank started by mpirun. */
bool bb_mpirun_started_us(void);

/* bb_mpirun_per_node - returns the start of a command with `each` processes on each of `nodes` nodes: "srun ..." for a process
 * that srun started, else "mpirun ...". The caller frees it. */
char *bb_mpirun_per_node(int nodes, int each) BB_MUST_CHECK;

#endif
