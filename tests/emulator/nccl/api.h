/*
 * api.h - the form of an exported function: EN_API(type, ncclName, (parameters)) { body } defines pncclName and makes
 * ncclName a weak alias of it, as in the real library, so that a profiler can interpose ncclName.
 */
#ifndef EMU_NCCL_API_H
#define EMU_NCCL_API_H

#include "group.h"

#include "../engine.h"

#ifndef NCCL_SHRINK_DEFAULT /* headers before NCCL 2.27 */
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT   0x01
#endif

#define EN_API(type, name, parameters)                                                                                 \
    type name parameters __attribute__((weak, alias("p" #name), visibility("default")));                               \
    type p##name parameters __attribute__((visibility("default")));                                                    \
    type p##name parameters

/* First line of every exported call: returns an error if a fault is injected. */
ncclResult_t en_enter(const char *function);

/* Executes a job as a group of one, or adds it to the open group. On failure a new communicator is released. */
ncclResult_t en_submit(const struct en_job *job);

#endif
