/* calibrate_main.h - `busbar calibrate RESULT.json... -o FILE`: fits a cluster profile to measurements, without MPI
 * and without a GPU. */
#ifndef BB_PROXIES_OFFLINE_CALIBRATE_CALIBRATE_MAIN_H
#define BB_PROXIES_OFFLINE_CALIBRATE_CALIBRATE_MAIN_H

#include <stddef.h>

/*
 * bb_calibrate_main - runs `busbar calibrate`; argv[0] is "calibrate".
 *   sweep    main function of `busbar sweep`, which runs the benchmarks of --measure
 *   Returns  0 or an exit status above 0, or a negative error
 */
int bb_calibrate_main(int argc, char **argv, int (*sweep)(int argc, char **argv, size_t *ran));

#endif
