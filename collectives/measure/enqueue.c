/*
 * enqueue.c - enqueues the timed operations. An NCCL call on a blocking communicator may block, so bb_world_guard
 * applies the timeout of the run to these calls.
 */
#include "collectives/measure/bench_context.h"

#include "cuda/device/stream.h"

size_t bb_case_slots(const struct bb_bench_context *ctx, const struct bb_case *c)
{
    return ctx->arena.bytes / bb_buffer_layout_of(c, ctx->comm->rank).slot_bytes;
}

static struct bb_call call_of(struct bb_bench_context *ctx, const struct bb_case *c, const struct bb_buffer_layout *l,
                              size_t slot)
{
    unsigned char *base = ctx->arena.area + slot * l->slot_bytes;

    return (struct bb_call){.kind = c->kind,
                            .send = base + l->send_offset,
                            .recv = base + l->recv_offset,
                            .count = c->count,
                            .dtype = c->dtype,
                            .redop = c->redop,
                            .root = c->root,
                            .comm = ctx->comm,
                            .stream = ctx->stream,
                            .native = ctx->native,
                            .device = ctx->device_kernels,
                            .mulsums = ctx->mulsums,
                            .alltoallv_counts = c->alltoallv_counts};
}

int bb_case_launch(struct bb_bench_context *ctx, const struct bb_case *c, size_t slot)
{
    struct bb_buffer_layout l = bb_buffer_layout_of(c, ctx->comm->rank);
    struct bb_call call = call_of(ctx, c, &l, slot);

    return bb_launch(&call);
}

int bb_bench_context_wait(struct bb_bench_context *ctx, const char *what)
{
    return bb_comm_wait(ctx->comm, ctx->stream, what);
}

/* Enqueues iteration i (one operation, or several with -m). The operations of an iteration are one NCCL group, except
 * for collectives of several exchanges in which each exchange sends data received in the previous one
 * (BB_COLL_ROUNDS). l: layout of the buffers of one operation, which the
 * caller computes once for all iterations. */
static int enqueue_iteration(struct bb_bench_context *ctx, const struct bb_case *c, const struct bb_buffer_layout *l,
                             size_t i, bool very_last)
{
    size_t m = bb_bench_context_aggregate(ctx), slots = ctx->arena.bytes / l->slot_bytes;
    bool grouped = m > 1 && !(bb_colls[c->kind].flags & BB_COLL_ROUNDS);
    int rc = grouped ? BB_NCCL(ncclGroupStart()) : 0;

    for (size_t k = 0; k < m && rc == 0; k++) {
        struct bb_call call = call_of(ctx, c, l, bb_slot_of(i * m + k, slots, very_last && k == m - 1));
        rc = bb_launch(&call);
    }
    if (grouped && rc == 0)
        rc = BB_NCCL(ncclGroupEnd());
    return rc;
}

static int pace_iterations(struct bb_bench_context *ctx)
{
    int rc;

    TRY(bb_bench_context_wait(ctx, "an iteration (-z)"));
    if (ctx->blocking == BB_BLOCK_BARRIER)
        TRY(bb_world_barrier(ctx->world, "barrier after an iteration (-z)"));
out:
    return rc;
}

int bb_issue(struct bb_bench_context *ctx, const struct bb_case *c, size_t first, size_t n, bool ends_row)
{
    struct bb_buffer_layout l = bb_buffer_layout_of(c, ctx->comm->rank);
    int rc = bb_iteration_events_record(ctx->iteration_events, first, ctx->stream);

    bb_world_guard(ctx->world, bb_colls[c->kind].name);
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = enqueue_iteration(ctx, c, &l, first + i, ends_row && i == n - 1);
        if (rc == 0)
            rc = bb_iteration_events_record(ctx->iteration_events, first + i + 1, ctx->stream);
        if (rc == 0 && ctx->blocking != BB_BLOCK_NONE) {
            bb_world_unguard(ctx->world);
            rc = pace_iterations(ctx);
            bb_world_guard(ctx->world, bb_colls[c->kind].name);
        }
    }
    bb_world_unguard(ctx->world);
    return rc;
}
