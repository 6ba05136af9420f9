/*
 * api.h - how an exported function is written: EN_API(type, ncclName, (parameters)) { body } defines pncclName and
 * makes ncclName a weak alias of it, as in the real library, so that a profiler may put its own ncclName in front.
 */
#ifndef EMU_NCCL_API_H
#define EMU_NCCL_API_H

#include "group.h"

#include "../engine.h"

#ifndef NCCL_SHRINK_DEFAULT /* headers before 2.27 */
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT   0x01
#endif

#define EN_API(type, name, parameters)                                                                                 \
    type name parameters __attribute__((weak, alias("p" #name), visibility("default")));                               \
    type p##name parameters __attribute__((visibility("default")));                                                    \
    type p##name parameters

/* Entry of a call on a communicator: a planted fault, then the handle. */
ncclResult_t en_enter(const char *function);

#endif
