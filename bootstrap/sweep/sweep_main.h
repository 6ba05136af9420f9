/* sweep_main.h - `busbar sweep FILE`: a parameter study, from the file to the table. */
#ifndef BB_BOOTSTRAP_SWEEP_SWEEP_MAIN_H
#define BB_BOOTSTRAP_SWEEP_SWEEP_MAIN_H

#include "bootstrap/sweep/expand.h"

/* bb_sweep_main - argv[0] is "sweep". commands[n]: what a study may run. Returns 0 or above; -BB_EFAIL also when a
 * combination failed or is missing, after the table. */
int bb_sweep_main(int argc, char **argv, const struct bb_study_command *commands, size_t n) BB_MUST_CHECK;

#endif
