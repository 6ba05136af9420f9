/* plan_main.h - `busbar plan`. */
#ifndef BB_PROXIES_OFFLINE_PLAN_MAIN_H
#define BB_PROXIES_OFFLINE_PLAN_MAIN_H

/*
 * bb_plan_main - run `busbar plan`; argv[0] is "plan". Returns 0 or a negative error.
 * bb_plan_check - only validate the arguments. Returns 0, or -BB_EUSAGE after printing an error line.
 */
int bb_plan_main(int argc, char **argv);
int bb_plan_check(int argc, char **argv);

#endif
