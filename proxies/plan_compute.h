/* plan_compute.h - `busbar plan compute`. */
#ifndef BB_PROXIES_PLAN_COMPUTE_H
#define BB_PROXIES_PLAN_COMPUTE_H

#include <stdbool.h>

/* bb_plan_compute - run `busbar plan compute`; argv[0] is "plan", the first positional argument "compute". check_only:
 * only validate the arguments. Returns 0 or a negative error. */
int bb_plan_compute(int argc, char **argv, bool check_only);

#endif
