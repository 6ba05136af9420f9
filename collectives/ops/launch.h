/*
 * launch.h - one collective call of NCCL from its description.
 */
#ifndef BB_COLLECTIVES_OPS_LAUNCH_H
#define BB_COLLECTIVES_OPS_LAUNCH_H

#include "bootstrap/world/comms.h"
#include "bootstrap/world/nccl_newer.h"
#include "collectives/ops/alltoallv_counts.h"
#include "collectives/ops/coll.h"

/* Functions newer than the minimum version, NULL where the running library lacks them; groups of sends and receives
 * take their place. Looked up once, by bb_native_find. */
struct bb_native {
    ncclAlltoAll_fn *alltoall;
    ncclGather_fn *gather;
    ncclScatter_fn *scatter;
};
struct bb_native bb_native_find(void);

/* The pre-multiplied sums of a communicator: this rank's scalar, per type. Zeroed is empty. */
struct bb_mulsums {
    ncclRedOp_t op[BB_DTYPE_COUNT];
    bool made[BB_DTYPE_COUNT];
};

/* bb_mulsums_make - for the types listed in dtypes[n]. Release works on a half-made one, before the communicator's. */
int bb_mulsums_make(struct bb_mulsums *m, struct bb_comm *comm, const int *dtypes, int n) BB_MUST_CHECK;
void bb_mulsums_release(struct bb_mulsums *m, struct bb_comm *comm);

struct bb_call {
    enum bb_coll_kind kind;
    const void *send;
    void *recv;
    size_t count; /* as coll.h */
    int dtype;    /* enum bb_dtype_id */
    int redop;    /* enum bb_redop_id, ignored by kinds that do not reduce */
    int root;     /* ignored by kinds without */
    struct bb_comm *comm;
    cudaStream_t stream;
    const struct bb_native *native;
    const struct bb_mulsums *mulsums;                   /* needed by BB_MULSUM alone      */
    const struct bb_alltoallv_counts *alltoallv_counts; /* needed by BB_COLL_VARIABLE_COUNTS alone */
};

/* bb_launch - enqueue it. Returns 0 or -BB_E..., after polling a non-blocking communicator. */
int bb_launch(const struct bb_call *call) BB_MUST_CHECK;

#endif
