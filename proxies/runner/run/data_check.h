/*
 * data_check.h - verifies the communication of a program: each operation runs once, in program order, with known data
 * in its source and a poisoned destination. The result is compared on the GPU.
 *
 * Normally the operations run one after another and the host waits for each, so that an error message can name the
 * operation that hangs. If a step would deadlock this way, its operations run concurrently, in the order in which the
 * step issues them. Each operation's stream then writes the test data before the operation and compares the result
 * after it, and operations that use the same buffer wait for each other.
 */
#ifndef BB_PROXIES_RUNNER_RUN_DATA_CHECK_H
#define BB_PROXIES_RUNNER_RUN_DATA_CHECK_H

#include "proxies/runner/run/runner.h"

/*
 * bb_data_check - checks all communication. All ranks call this together.
 *   concurrent  false: one operation after another; true: concurrently
 *   wrong       out: number of wrong elements on this rank, plus number of overwritten bytes outside the buffers. For
 *               the first few operations with wrong data, prints the rank, the name and the index of the first wrong
 *               element.
 *   Returns     0, also if data are wrong; or an error code
 */
int bb_data_check(struct bb_runner *r, bool concurrent, unsigned long long *wrong) BB_MUST_CHECK;

#endif
