/* launch.c - the launcher of each row of the table of collectives. */
#include "collectives/launch.h"

/* The tables are numbered like NCCL's enums. */
#define SAME(ours, nccl) _Static_assert((int)(ours) == (int)(nccl), #ours)
SAME(BB_INT8, ncclInt8);
SAME(BB_UINT8, ncclUint8);
SAME(BB_INT32, ncclInt32);
SAME(BB_UINT32, ncclUint32);
SAME(BB_INT64, ncclInt64);
SAME(BB_UINT64, ncclUint64);
SAME(BB_HALF, ncclFloat16);
SAME(BB_FLOAT, ncclFloat32);
SAME(BB_DOUBLE, ncclFloat64);
SAME(BB_BFLOAT16, ncclBfloat16);
#if NCCL_VERSION_CODE >= 22400
SAME(BB_F8E4M3, ncclFloat8e4m3);
SAME(BB_F8E5M2, ncclFloat8e5m2);
#endif
SAME(BB_SUM, ncclSum);
SAME(BB_PROD, ncclProd);
SAME(BB_MAX, ncclMax);
SAME(BB_MIN, ncclMin);
SAME(BB_AVG, ncclAvg);

struct bb_native bb_native_find(void)
{
    struct bb_native n;

    *(void **)&n.alltoall = bb_nccl_symbol("ncclAlltoAll");
    *(void **)&n.gather = bb_nccl_symbol("ncclGather");
    *(void **)&n.scatter = bb_nccl_symbol("ncclScatter");
    return n;
}

static ncclDataType_t type_of(const struct bb_call *c)
{
    return (ncclDataType_t)c->dtype;
}

static ncclRedOp_t op_of(const struct bb_call *c)
{
    return (ncclRedOp_t)c->redop;
}

static int all_reduce(const struct bb_call *c)
{
    return BB_NCCL(ncclAllReduce(c->send, c->recv, c->count, type_of(c), op_of(c), c->comm->nccl, c->stream));
}

static int all_gather(const struct bb_call *c)
{
    return BB_NCCL(ncclAllGather(c->send, c->recv, c->count, type_of(c), c->comm->nccl, c->stream));
}

static int reduce_scatter(const struct bb_call *c)
{
    return BB_NCCL(ncclReduceScatter(c->send, c->recv, c->count, type_of(c), op_of(c), c->comm->nccl, c->stream));
}

static int broadcast(const struct bb_call *c)
{
    return BB_NCCL(ncclBroadcast(c->send, c->recv, c->count, type_of(c), c->root, c->comm->nccl, c->stream));
}

static int reduce(const struct bb_call *c)
{
    return BB_NCCL(ncclReduce(c->send, c->recv, c->count, type_of(c), op_of(c), c->root, c->comm->nccl, c->stream));
}

/* Slice number `i` of a buffer of slices. */
static char *slice(const void *buf, const struct bb_call *c, int i)
{
    return (char *)buf + (size_t)i * c->count * bb_dtypes[c->dtype].bytes;
}

static int send_to(const struct bb_call *c, const void *buf, int peer)
{
    return BB_NCCL(ncclSend(buf, c->count, type_of(c), peer, c->comm->nccl, c->stream));
}

static int recv_from(const struct bb_call *c, void *buf, int peer)
{
    return BB_NCCL(ncclRecv(buf, c->count, type_of(c), peer, c->comm->nccl, c->stream));
}

/* Sends and receives of `exchange` as one group. After a failure the group is closed without another word. */
static int grouped(const struct bb_call *c, int (*exchange)(const struct bb_call *))
{
    int rc;

    TRY(BB_NCCL(ncclGroupStart()));
    rc = exchange(c);
    if (rc == 0)
        rc = BB_NCCL(ncclGroupEnd());
    else
        (void)ncclGroupEnd();
out:
    return rc;
}

static int exchange_ring(const struct bb_call *c)
{
    int n = c->comm->size, rc;

    TRY(send_to(c, c->send, (c->comm->rank + 1) % n));
    TRY(recv_from(c, c->recv, (c->comm->rank + n - 1) % n));
out:
    return rc;
}

static int exchange_all(const struct bb_call *c)
{
    int rc = 0;

    for (int peer = 0; peer < c->comm->size; peer++) {
        TRY(send_to(c, slice(c->send, c, peer), peer));
        TRY(recv_from(c, slice(c->recv, c, peer), peer));
    }
out:
    return rc;
}

static int exchange_to_root(const struct bb_call *c)
{
    int rc;

    TRY(send_to(c, c->send, c->root));
    for (int peer = 0; c->comm->rank == c->root && peer < c->comm->size; peer++)
        TRY(recv_from(c, slice(c->recv, c, peer), peer));
out:
    return rc;
}

static int exchange_from_root(const struct bb_call *c)
{
    int rc = 0;

    for (int peer = 0; c->comm->rank == c->root && peer < c->comm->size; peer++)
        TRY(send_to(c, slice(c->send, c, peer), peer));
    TRY(recv_from(c, c->recv, c->root));
out:
    return rc;
}

static int sendrecv(const struct bb_call *c)
{
    return grouped(c, exchange_ring);
}

static int alltoall(const struct bb_call *c)
{
    if (c->native->alltoall)
        return BB_NCCL(c->native->alltoall(c->send, c->recv, c->count, type_of(c), c->comm->nccl, c->stream));
    return grouped(c, exchange_all);
}

static int gather(const struct bb_call *c)
{
    if (c->native->gather)
        return BB_NCCL(c->native->gather(c->send, c->recv, c->count, type_of(c), c->root, c->comm->nccl, c->stream));
    return grouped(c, exchange_to_root);
}

static int scatter(const struct bb_call *c)
{
    if (c->native->scatter)
        return BB_NCCL(c->native->scatter(c->send, c->recv, c->count, type_of(c), c->root, c->comm->nccl, c->stream));
    return grouped(c, exchange_from_root);
}

static int (*const launchers[BB_COLL_KIND_COUNT])(const struct bb_call *) = {
    [BB_ALL_REDUCE] = all_reduce, [BB_ALL_GATHER] = all_gather, [BB_REDUCE_SCATTER] = reduce_scatter,
    [BB_BROADCAST] = broadcast,   [BB_REDUCE] = reduce,         [BB_ALLTOALL] = alltoall,
    [BB_GATHER] = gather,         [BB_SCATTER] = scatter,       [BB_SENDRECV] = sendrecv,
};

int bb_launch(const struct bb_call *call)
{
    int rc = launchers[call->kind](call);

    return rc ? rc : bb_comm_poll(call->comm, bb_colls[call->kind].name);
}
