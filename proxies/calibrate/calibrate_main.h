/* calibrate_main.h - `busbar calibrate RESULT.json... -o FILE`: a cluster profile from measurements. No MPI, no GPU. */
#ifndef BB_PROXIES_CALIBRATE_CALIBRATE_MAIN_H
#define BB_PROXIES_CALIBRATE_CALIBRATE_MAIN_H

/* bb_calibrate_main - argv[0] is "calibrate". sweep: the command `busbar sweep`, by which --measure runs its benches.
 * Returns 0 or above, or a negative error. */
int bb_calibrate_main(int argc, char **argv, int (*sweep)(int argc, char **argv));

#endif
