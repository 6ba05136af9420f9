/*
 * nccl_newer.h - types of the NCCL functions that busbar looks up by name (bb_nccl_symbol), because the oldest
 * supported NCCL (2.19) or its header does not have them. tests/real_nccl compares each type with the headers of real
 * NCCL versions.
 */
#ifndef BB_NCCL_NEWER_H
#define BB_NCCL_NEWER_H

#include <nccl.h>
#include <stddef.h>

/* In NCCL 2.19 and later: registration of a user buffer. *handle: out, argument of ncclCommDeregister. */
typedef ncclResult_t ncclCommRegister_fn(ncclComm_t comm, void *memory, size_t bytes, void **handle);
typedef ncclResult_t ncclCommDeregister_fn(ncclComm_t comm, void *handle);

/* In NCCL 2.27 and later: symmetric memory windows and ncclCommShrink. *window is NULL if the GPUs do not support
 * windows. */
enum { BB_NCCL_WIN_COLL_SYMMETRIC = 1 };
typedef ncclResult_t ncclCommWindowRegister_fn(ncclComm_t comm, void *memory, size_t bytes, void **window, int flags);
typedef ncclResult_t ncclCommWindowDeregister_fn(ncclComm_t comm, void *window);
typedef ncclResult_t ncclCommShrink_fn(ncclComm_t comm, int *excluded, int n, ncclComm_t *rest, ncclConfig_t *config,
                                       int flags);

/* In NCCL 2.28 and later: collectives that older versions do not have. */
typedef ncclResult_t ncclAlltoAll_fn(const void *send, void *recv, size_t count, ncclDataType_t, ncclComm_t,
                                     cudaStream_t);
typedef ncclResult_t ncclGather_fn(const void *send, void *recv, size_t count, ncclDataType_t, int root, ncclComm_t,
                                   cudaStream_t);
typedef ncclResult_t ncclScatter_fn(const void *send, void *recv, size_t count, ncclDataType_t, int root, ncclComm_t,
                                    cudaStream_t);

#if NCCL_VERSION_CODE >= 22200
typedef ncclResult_t ncclGroupSimulateEnd_fn(ncclSimInfo_t *info);
#endif

#endif
