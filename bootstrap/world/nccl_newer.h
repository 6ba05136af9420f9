/*
 * nccl_newer.h - types of the NCCL functions that busbar looks up by name (bb_nccl_symbol), because the oldest
 * supported NCCL (2.19) or its header does not have them. tests/real_nccl compares each type with the headers of real
 * NCCL versions.
 */
#ifndef BB_NCCL_NEWER_H
#define BB_NCCL_NEWER_H

#include <nccl.h>
#include <stdbool.h>
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

/*
 * In NCCL 2.31 and later: collectives with a configuration of the single call. The struct is ncclCollConfig_t of NCCL 2.31;
 * later versions append members and accept the shorter struct by its size.
 */
struct bb_nccl_coll_config {
    size_t size;
    unsigned magic, version;
    void *ext;                                       /* NULL */
    int min_ctas, max_ctas, nvls_ctas, cluster_size; /* NCCL_CONFIG_UNDEF_INT */
    const char *selection;                           /* algorithm and protocol, for example "RING_LL128" */
    int force;                                       /* 1: an unavailable selection is an error; 0: NCCL chooses then */
    int cta_policy;                                  /* NCCL_CONFIG_UNDEF_INT */
    unsigned long long tag;
};
typedef ncclResult_t ncclAllReduceConfig_fn(const void *send, void *recv, size_t count, ncclDataType_t, ncclRedOp_t,
                                            ncclComm_t, cudaStream_t, const struct bb_nccl_coll_config *config);
typedef ncclResult_t ncclAllGatherConfig_fn(const void *send, void *recv, size_t count, ncclDataType_t, ncclComm_t,
                                            cudaStream_t, const struct bb_nccl_coll_config *config);
typedef ncclResult_t ncclReduceScatterConfig_fn(const void *send, void *recv, size_t count, ncclDataType_t, ncclRedOp_t,
                                                ncclComm_t, cudaStream_t, const struct bb_nccl_coll_config *config);
typedef ncclResult_t ncclBroadcastConfig_fn(const void *send, void *recv, size_t count, ncclDataType_t, int root,
                                            ncclComm_t, cudaStream_t, const struct bb_nccl_coll_config *config);
typedef ncclResult_t ncclReduceConfig_fn(const void *send, void *recv, size_t count, ncclDataType_t, ncclRedOp_t,
                                         int root, ncclComm_t, cudaStream_t, const struct bb_nccl_coll_config *config);

/* In NCCL 2.29 and later: properties of a communicator, as in the first version of ncclCommProperties_t. The caller sets
 * the first three fields. */
struct bb_nccl_properties {
    size_t size;
    unsigned int magic, version;
    int rank, nRanks, cudaDev, nvmlDev;
    bool deviceApiSupport, multimemSupport;
    int ginType, nLsaTeams;
    bool hostRmaSupport;
    int railedGinType;
};
#define BB_NCCL_PROPERTIES_INITIAL                                                                                     \
    {                                                                                                                  \
        .size = sizeof(struct bb_nccl_properties), .magic = 0xcafebeef, .version = 22902                               \
    }
/* In NCCL 2.28.9 and later: device communicators. The structs are those of nccl_device.h. */
typedef ncclResult_t ncclDevCommCreate_fn(ncclComm_t comm, const void *requirements, void *device_comm);
typedef ncclResult_t ncclDevCommDestroy_fn(ncclComm_t comm, const void *device_comm);
typedef ncclResult_t ncclCommQueryProperties_fn(ncclComm_t comm, void *properties);

#if NCCL_VERSION_CODE >= 22200
typedef ncclResult_t ncclGroupSimulateEnd_fn(ncclSimInfo_t *info);
#endif

#endif
