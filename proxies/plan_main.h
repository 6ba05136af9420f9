/* plan_main.h - `busbar plan`. */
#ifndef BB_PROXIES_PLAN_MAIN_H
#define BB_PROXIES_PLAN_MAIN_H

/* argv[0] is the subcommand's own name. Return 0 or a negative error. */
int bb_plan_main(int argc, char **argv);
int bb_plan_check(int argc, char **argv); /* the words alone: 0 or -BB_EUSAGE (said) */

#endif
