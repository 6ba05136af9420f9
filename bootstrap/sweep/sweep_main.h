/* sweep_main.h - `busbar sweep FILE`: run a parameter study and print its table. */
#ifndef BB_BOOTSTRAP_SWEEP_SWEEP_MAIN_H
#define BB_BOOTSTRAP_SWEEP_SWEEP_MAIN_H

#include "bootstrap/sweep/expand.h"

/*
 * bb_sweep_main - run the command `busbar sweep`.
 *   argv      argv[0] is "sweep"
 *   commands  [n] commands that a study may run
 *   Returns   0; or an error code, which is -BB_EFAIL also if a combination failed or did not run; in that case the
 *             table was printed
 */
int bb_sweep_main(int argc, char **argv, const struct bb_study_command *commands, size_t n) BB_MUST_CHECK;

#endif
