/*
 * ras.h - asks NCCL's RAS service (NCCL 2.24 and newer) for its view of a job that hangs. Each host with an NCCL process
 * serves RAS at localhost:28028, or at the address in NCCL_RAS_ADDR, unless NCCL_RAS_ENABLE is 0.
 */
#ifndef BB_BOOTSTRAP_SUPERVISE_RAS_H
#define BB_BOOTSTRAP_SUPERVISE_RAS_H

#include <stddef.h>

/* bb_ras_ask - store the answer to VERBOSE STATUS, cut to `capacity` with its final 0. "": no service answers within
 * half a second, or NCCL_RAS_ADDR contains a name other than localhost, because resolving a name may block. */
void bb_ras_ask(char *answer, size_t capacity);

#endif
