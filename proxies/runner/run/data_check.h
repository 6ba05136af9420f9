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

/* Numbers of elements of one rank. compared is 0 on emulated GPUs with EMU_DATA=off, which move no data. */
struct bb_data_finding {
    unsigned long long expected; /* received by the operations of the step */
    unsigned long long compared; /* of these, compared on the GPU */
    unsigned long long wrong;    /* wrong elements, plus overwritten bytes outside the buffers */
    char first[BB_OP_NAME];      /* name of the first operation with wrong elements; "": none */
};

/*
 * bb_data_check - checks all communication. All ranks call this together.
 *   concurrent  false: one operation after another; true: concurrently
 *   found       out: what this rank found. For the first few operations with wrong data, prints the rank, the name and
 *               the index of the first wrong element.
 *   Returns     0, also if data are wrong; or an error code
 */
int bb_data_check(struct bb_runner *r, bool concurrent, struct bb_data_finding *found) BB_MUST_CHECK;

#endif
