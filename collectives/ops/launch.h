/*
 * launch.h - launches one NCCL collective.
 */
#ifndef BB_COLLECTIVES_OPS_LAUNCH_H
#define BB_COLLECTIVES_OPS_LAUNCH_H

#include "bootstrap/world/comms.h"
#include "bootstrap/world/nccl_newer.h"
#include "collectives/ops/alltoallv_counts.h"
#include "collectives/ops/coll.h"

/* NCCL functions that are newer than the minimum version; NULL if the loaded library lacks them. The launchers then
 * use groups of sends and receives. Call bb_native_find once. */
struct bb_native {
    ncclAlltoAll_fn *alltoall;
    ncclGather_fn *gather;
    ncclScatter_fn *scatter;
};
struct bb_native bb_native_find(void);

/* Pre-multiplied sum operations (ncclRedOpCreatePreMulSum) of a communicator with this rank's scalar, one per type.
 * Zero-initialised means empty. */
struct bb_mulsums {
    ncclRedOp_t op[BB_DTYPE_COUNT];
    bool made[BB_DTYPE_COUNT];
};

/* bb_mulsums_make - create the operations for the types in dtypes[n]. Release accepts a partly created set, and must
 * precede the release of the communicator. */
int bb_mulsums_make(struct bb_mulsums *m, struct bb_comm *comm, const int *dtypes, int n) BB_MUST_CHECK;
void bb_mulsums_release(struct bb_mulsums *m, struct bb_comm *comm);

struct bb_call {
    enum bb_coll_kind kind;
    const void *send;
    void *recv;
    size_t count; /* see coll.h */
    int dtype;    /* enum bb_dtype_id */
    int redop;    /* enum bb_redop_id; ignored by kinds without reduction */
    int root;     /* ignored by kinds without a root */
    struct bb_comm *comm;
    cudaStream_t stream;
    const struct bb_native *native;
    const struct bb_mulsums *mulsums;                   /* only for BB_MULSUM */
    const struct bb_alltoallv_counts *alltoallv_counts; /* only for BB_COLL_VARIABLE_COUNTS */
};

/* bb_launch - enqueue the collective; a non-blocking communicator is polled until the call has completed. Returns 0
 * or -BB_E.... */
int bb_launch(const struct bb_call *call) BB_MUST_CHECK;

#endif
