/* sweep_main.h - `busbar sweep FILE`: run a parameter study and print its table. */
#ifndef BB_BOOTSTRAP_SWEEP_SWEEP_MAIN_H
#define BB_BOOTSTRAP_SWEEP_SWEEP_MAIN_H

#include "bootstrap/sweep/expand.h"

/*
 * bb_sweep_main - run the command `busbar sweep`.
 *   argv      argv[0] is "sweep"
 *   commands  [n] commands that a study may run
 *   Returns   0, -BB_EFAIL, or -BB_EUSAGE for invalid arguments or an invalid study. A sweep that ran or gathered
 *             combinations returns -BB_EFAIL also if one of them failed or did not run, after printing the table
 */
int bb_sweep_main(int argc, char **argv, const struct bb_study_command *commands, size_t n) BB_MUST_CHECK;

#endif
