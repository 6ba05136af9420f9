/*
 * launch.h - enqueues one collective of the table in coll.h: an NCCL call, or a group of sends and receives.
 */
#ifndef BB_COLLECTIVES_OPS_LAUNCH_H
#define BB_COLLECTIVES_OPS_LAUNCH_H

#include "bootstrap/world/comms.h"
#include "bootstrap/world/nccl_newer.h"
#include "collectives/ops/alltoallv_counts.h"
#include "collectives/ops/coll.h"
#include "collectives/ops/device.h"

/* NCCL functions that are newer than the oldest NCCL version that busbar supports. NULL: the loaded library lacks
 * the function, and the collective is built from sends and receives, or no configuration is possible. Call bb_native_find
 * once per run. */
struct bb_native {
    ncclAlltoAll_fn *alltoall;
    ncclGather_fn *gather;
    ncclScatter_fn *scatter;
    ncclAllReduceConfig_fn *all_reduce;
    ncclAllGatherConfig_fn *all_gather;
    ncclReduceScatterConfig_fn *reduce_scatter;
    ncclBroadcastConfig_fn *broadcast;
    ncclReduceConfig_fn *reduce;
    struct bb_nccl_coll_config config; /* of the five collectives above; size 0: none */
    char selection[32];                /* the text that config refers to */
};
struct bb_native bb_native_find(void);

/* bb_native_select - let NCCL 2.31 or later run collectives with this algorithm and protocol ("RING_LL128") if it offers
 * them; NULL: with NCCL's own choice. Returns whether the loaded library can. */
bool bb_native_select(struct bb_native *n, const char *selection);

/* Pre-multiplied sum operations (ncclRedOpCreatePreMulSum) of a communicator, one per data type, with this rank's
 * scalar. A zero-initialized struct is empty. */
struct bb_mulsums {
    ncclRedOp_t op[BB_DTYPE_COUNT];
    bool made[BB_DTYPE_COUNT];
};

/*
 * bb_mulsums_make    - create the pre-multiplied sum operations for the data types in dtypes[n].
 * bb_mulsums_release - destroy the operations. Accepts a partly initialized struct. Call before the communicator is
 *                      destroyed.
 */
int bb_mulsums_make(struct bb_mulsums *m, struct bb_comm *comm, const int *dtypes, int n) BB_MUST_CHECK;
void bb_mulsums_release(struct bb_mulsums *m, struct bb_comm *comm);

struct bb_call {
    enum bb_coll_kind kind;
    const void *send;
    void *recv;
    size_t count; /* count argument of the NCCL call, in elements (coll.h) */
    int dtype;    /* enum bb_dtype_id */
    int redop;    /* enum bb_redop_id; ignored by collectives without a reduction operation */
    int root;     /* ignored by collectives without a root */
    struct bb_comm *comm;
    cudaStream_t stream;
    const struct bb_native *native;
    const struct bb_device *device;   /* kernels on NCCL's device API (device.h); NULL: NCCL's own implementation */
    const struct bb_mulsums *mulsums; /* pre-multiplied sum operations; used only if redop is BB_MULSUM */
    const struct bb_alltoallv_counts *alltoallv_counts; /* element counts of alltoallv; used only by collectives with
                                                           BB_COLL_VARIABLE_COUNTS */
};

/* bb_launch - enqueue the collective on the stream. For a non-blocking communicator, wait until the NCCL call has
 * completed. Returns 0 or -BB_E.... */
int bb_launch(const struct bb_call *call) BB_MUST_CHECK;

#endif
