/*
 * data_check.h - verifies the communication of a program: each operation runs once, in program order, with known data
 * in its source and a poisoned destination, and the result is compared on the GPU.
 *
 * Normally one operation runs after another and the host waits for each, so that an operation that hangs is named.
 * Steps that cannot be serialised run concurrently, as the step issues them: the data of an operation are written and
 * compared on its stream, before and after the operation, and operations on the same buffer wait for each other.
 */
#ifndef BB_PROXIES_RUN_DATA_CHECK_H
#define BB_PROXIES_RUN_DATA_CHECK_H

#include "proxies/run/runner.h"

/*
 * bb_data_check, bb_data_check_concurrent - check all communication, one operation after another or concurrently;
 * collective over the world.
 *   wrong    out: wrong elements on this rank, plus overwritten bytes outside of the buffers. The first few wrong
 *            operations are printed with rank, name and index of the first wrong element.
 *   Returns  0, also with wrong data; or an error
 */
int bb_data_check(struct bb_runner *r, unsigned long long *wrong) BB_MUST_CHECK;
int bb_data_check_concurrent(struct bb_runner *r, unsigned long long *wrong) BB_MUST_CHECK;

#endif
