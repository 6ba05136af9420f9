/* nccl_estimate.c - NCCL's own estimate of the time of an operation (bench_context.h). */
#include "collectives/measure/bench_context.h"

static bool has_estimate(const struct bb_bench_context *ctx, const struct bb_case *c)
{
    return bb_colls[c->kind].flags & BB_COLL_ESTIMATED && c->count > 0 && ctx->comm->size > 1 && ctx->comm->blocking;
}

#if NCCL_VERSION_CODE >= 22200

/* Estimates the time of one operation with ncclGroupSimulateEnd. If the operation cannot be launched, closes the
 * group and ignores the result of ncclGroupEnd. */
static int simulate_group(struct bb_bench_context *ctx, const struct bb_case *c, ncclGroupSimulateEnd_fn *end,
                          double *model_us)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    int rc;

    TRY(BB_NCCL(ncclGroupStart()));
    rc = bb_case_launch(ctx, c, 0);
    if (rc != 0)
        (void)ncclGroupEnd();
    TRY(rc);
    TRY(bb_nccl_at(end(&info), "ncclGroupSimulateEnd", __FILE__, __LINE__));
    if (info.estimatedTime > 0)
        *model_us = (double)info.estimatedTime;
out:
    return rc;
}

int bb_nccl_estimate(struct bb_bench_context *ctx, const struct bb_case *c, double *model_us)
{
    ncclGroupSimulateEnd_fn *end = NULL;

    *(void **)&end = bb_nccl_symbol("ncclGroupSimulateEnd");
    if (!end || !has_estimate(ctx, c))
        return 0;
    return BB_GUARDED(ctx->world, "NCCL's own estimate", simulate_group(ctx, c, end, model_us));
}
#else
int bb_nccl_estimate(struct bb_bench_context *ctx, const struct bb_case *c, double *model_us)
{
    (void)ctx, (void)c, (void)model_us, (void)has_estimate;
    return 0;
}
#endif
