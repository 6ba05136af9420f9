/*
 * data_check.h - does the communication of a program deliver what it should? Every operation runs once, in program
 * order, with known data in its source and a poisoned destination, and its result is compared on the GPU.
 *
 * Usually one operation runs after another and the host waits for each, so that one that hangs is named. Steps that
 * cannot be serialised run at once, as the step issues them: an operation's data are written, and compared, on its own
 * stream before and behind it, and operations on one buffer wait for each other.
 */
#ifndef BB_PROXIES_RUN_DATA_CHECK_H
#define BB_PROXIES_RUN_DATA_CHECK_H

#include "proxies/run/runner.h"

/*
 * bb_data_check - collective over the world; compute is left out. *wrong: elements that differ on this rank, plus bytes
 * outside of the buffers that were written. The first few wrong operations are said with rank, name, index of the
 * first wrong element. Returns 0 also when data are wrong.
 */
int bb_data_check(struct bb_runner *r, unsigned long long *wrong) BB_MUST_CHECK;
int bb_data_check_concurrent(struct bb_runner *r, unsigned long long *wrong) BB_MUST_CHECK;

#endif
