/* plan_main.h - `busbar plan`. */
#ifndef BB_PROXIES_PLAN_MAIN_H
#define BB_PROXIES_PLAN_MAIN_H

/* The commands `busbar plan` and its argument check. argv[0] is the subcommand's name. Return 0 or a negative error. */
int bb_plan_main(int argc, char **argv);
int bb_plan_check(int argc, char **argv); /* checks only the arguments; 0, or -BB_EUSAGE after an error line */

#endif
