/* sweep_main.h - `busbar sweep FILE`: run a parameter study and print its table. */
#ifndef BB_BOOTSTRAP_SWEEP_SWEEP_MAIN_H
#define BB_BOOTSTRAP_SWEEP_SWEEP_MAIN_H

#include "bootstrap/sweep/expand.h"

/*
 * bb_sweep_main - run the command `busbar sweep`.
 *   argv      argv[0] is "sweep"
 *   commands  [n] commands that a study may run
 *   ran       out: number of combinations that this call has run; results of the others are of an earlier call. NULL: not
 *             needed
 *   Returns   0; -BB_EUSAGE for invalid arguments or an invalid study; or -BB_EFAIL. A sweep that runs combinations or
 *             collects their results returns -BB_EFAIL, after printing the table, also if a combination failed or did
 *             not run
 */
int bb_sweep_main(int argc, char **argv, const struct bb_study_command *commands, size_t n, size_t *ran) BB_MUST_CHECK;

#endif
