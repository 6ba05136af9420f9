/* launch.c - one launch function for each row of the table of collectives. */
#include "collectives/ops/launch.h"

#include "cuda/data/pattern.h"
#include "cuda/device/check.h"

#include <stdio.h>

/* The values of busbar's enums equal the values of NCCL's enums, so a cast converts them. */
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
#if NCCL_VERSION_CODE >= 22400 /* older headers define ncclBfloat16, with the same value, only after cuda_bf16.h is
                                  included */
SAME(BB_BFLOAT16, ncclBfloat16);
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
    struct bb_native n = {0};
    const struct {
        const char *name;
        void *to;
    } functions[] = {
        {"ncclAlltoAll", &n.alltoall},
        {"ncclGather", &n.gather},
        {"ncclScatter", &n.scatter},
        {"ncclAllReduceConfig", &n.all_reduce},
        {"ncclAllGatherConfig", &n.all_gather},
        {"ncclReduceScatterConfig", &n.reduce_scatter},
        {"ncclBroadcastConfig", &n.broadcast},
        {"ncclReduceConfig", &n.reduce},
    };

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        *(void **)functions[i].to = bb_nccl_symbol(functions[i].name);
    return n;
}

bool bb_native_select(struct bb_native *n, const char *selection)
{
    const ncclConfig_t initial = NCCL_CONFIG_INITIALIZER; /* has the magic number of all NCCL structs */

    n->config = (struct bb_nccl_coll_config){0};
    if (!selection || !n->all_reduce)
        return n->all_reduce;
    snprintf(n->selection, sizeof n->selection, "%s", selection);
    n->config = (struct bb_nccl_coll_config){.size = sizeof n->config,
                                             .magic = initial.magic,
                                             .version = NCCL_VERSION(2, 31, 2),
                                             .min_ctas = NCCL_CONFIG_UNDEF_INT,
                                             .max_ctas = NCCL_CONFIG_UNDEF_INT,
                                             .nvls_ctas = NCCL_CONFIG_UNDEF_INT,
                                             .cluster_size = NCCL_CONFIG_UNDEF_INT,
                                             .selection = n->selection,
                                             .cta_policy = NCCL_CONFIG_UNDEF_INT};
    return true;
}

/* Calls the NCCL collective, or, if an algorithm is selected, its variant with a configuration. */
#define CALL(c, name, configured, ...)                                                                                 \
    ((c)->native->config.size > 0                                                                                      \
         ? bb_nccl_at((c)->native->configured(__VA_ARGS__, &(c)->native->config), #name "Config", __FILE__, __LINE__)  \
         : BB_NCCL(name(__VA_ARGS__)))

static ncclDataType_t type_of(const struct bb_call *c)
{
    return (ncclDataType_t)c->dtype;
}

static ncclRedOp_t op_of(const struct bb_call *c)
{
    return c->redop == BB_MULSUM ? c->mulsums->op[c->dtype] : (ncclRedOp_t)c->redop;
}

static int make_mulsum(struct bb_mulsums *m, struct bb_comm *comm, int dtype)
{
    struct bb_pattern p = bb_pattern_of(&bb_dtypes[dtype], BB_MULSUM, comm->size, 0);
    int scalar = bb_mulsum_scalar(comm->rank), rc;
    uint64_t bits = p.number_class == BB_FLOATING ? bb_float_bits(&p, scalar) : (uint64_t)scalar;

    TRY(BB_NCCL(
        ncclRedOpCreatePreMulSum(&m->op[dtype], &bits, (ncclDataType_t)dtype, ncclScalarHostImmediate, comm->nccl)));
    m->made[dtype] = true;
out:
    return rc;
}

int bb_mulsums_make(struct bb_mulsums *m, struct bb_comm *comm, const int *dtypes, int n)
{
    int rc = 0;

    for (int i = 0; i < n && rc == 0; i++)
        rc = make_mulsum(m, comm, dtypes[i]);
    return rc;
}

void bb_mulsums_release(struct bb_mulsums *m, struct bb_comm *comm)
{
    for (int d = 0; d < BB_DTYPE_COUNT; d++)
        if (m->made[d] && comm->nccl)
            (void)ncclRedOpDestroy(m->op[d], comm->nccl);
    *m = (struct bb_mulsums){0};
}

static int launch_all_reduce(const struct bb_call *c)
{
    return CALL(c, ncclAllReduce, all_reduce, c->send, c->recv, c->count, type_of(c), op_of(c), c->comm->nccl,
                c->stream);
}

static int launch_all_gather(const struct bb_call *c)
{
    return CALL(c, ncclAllGather, all_gather, c->send, c->recv, c->count, type_of(c), c->comm->nccl, c->stream);
}

static int launch_reduce_scatter(const struct bb_call *c)
{
    return CALL(c, ncclReduceScatter, reduce_scatter, c->send, c->recv, c->count, type_of(c), op_of(c), c->comm->nccl,
                c->stream);
}

static int launch_broadcast(const struct bb_call *c)
{
    return CALL(c, ncclBroadcast, broadcast, c->send, c->recv, c->count, type_of(c), c->root, c->comm->nccl, c->stream);
}

static int launch_reduce(const struct bb_call *c)
{
    return CALL(c, ncclReduce, reduce, c->send, c->recv, c->count, type_of(c), op_of(c), c->root, c->comm->nccl,
                c->stream);
}

/* Returns the start of slice `i` in a buffer of slices with c->count elements each. */
static char *slice_at(const void *buf, const struct bb_call *c, int i)
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

/* Calls `exchange`, which enqueues sends and receives, inside one NCCL group. If `exchange` fails, the group is
 * closed and the result of closing it is ignored. */
static int launch_group(const struct bb_call *c, int (*exchange)(const struct bb_call *))
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

static int exchange_all(const struct bb_call *c)
{
    int rc = 0;

    for (int peer = 0; peer < c->comm->size; peer++) {
        TRY(send_to(c, slice_at(c->send, c, peer), peer));
        TRY(recv_from(c, slice_at(c->recv, c, peer), peer));
    }
out:
    return rc;
}

static int exchange_to_root(const struct bb_call *c)
{
    int rc;

    TRY(send_to(c, c->send, c->root));
    for (int peer = 0; c->comm->rank == c->root && peer < c->comm->size; peer++)
        TRY(recv_from(c, slice_at(c->recv, c, peer), peer));
out:
    return rc;
}

static int exchange_from_root(const struct bb_call *c)
{
    int rc = 0;

    for (int peer = 0; c->comm->rank == c->root && peer < c->comm->size; peer++)
        TRY(send_to(c, slice_at(c->send, c, peer), peer));
    TRY(recv_from(c, c->recv, c->root));
out:
    return rc;
}

/* Returns the number of elements that rank `from` sends to rank `to` in alltoallv. */
static size_t pair_count(const struct bb_call *c, int from, int to)
{
    return bb_alltoallv_counts_count(c->alltoallv_counts, c->count, bb_dtypes[c->dtype].bytes, c->comm->size, from, to);
}

static int exchange_variable_counts(const struct bb_call *c)
{
    const struct bb_comm *comm = c->comm;
    const char *send = c->send;
    char *recv = c->recv;
    int rc = 0;

    for (int peer = 0; peer < comm->size; peer++) {
        size_t out_count = pair_count(c, comm->rank, peer), in_count = pair_count(c, peer, comm->rank);

        if (out_count > 0)
            TRY(BB_NCCL(ncclSend(send, out_count, type_of(c), peer, comm->nccl, c->stream)));
        if (in_count > 0)
            TRY(BB_NCCL(ncclRecv(recv, in_count, type_of(c), peer, comm->nccl, c->stream)));
        send += out_count * bb_dtypes[c->dtype].bytes;
        recv += in_count * bb_dtypes[c->dtype].bytes;
    }
out:
    return rc;
}

static int launch_alltoallv(const struct bb_call *c)
{
    return launch_group(c, exchange_variable_counts);
}

/* Runs one exchange of the hypercube all-gather: this rank sends the `width` slices that it has gathered so far to
 * its partner, and receives the partner's `width` slices. */
static int exchange_halves(const struct bb_call *c, int width)
{
    int mine = c->comm->rank & ~(width - 1), partner = c->comm->rank ^ width, rc;
    size_t count = c->count * (size_t)width;

    rc = bb_comm_sendrecv(c->comm, slice_at(c->recv, c, mine), partner, slice_at(c->recv, c, mine ^ width), partner,
                          count, type_of(c), c->stream);
    return rc ? rc : bb_comm_poll(c->comm, "hypercube");
}

static int launch_hypercube(const struct bb_call *c)
{
    size_t bytes = c->count * bb_dtypes[c->dtype].bytes;
    char *own = slice_at(c->recv, c, c->comm->rank);
    int rc = 0;

    if (own != c->send && bytes > 0)
        TRY(BB_CUDA(cudaMemcpyAsync(own, c->send, bytes, cudaMemcpyDeviceToDevice, c->stream)));
    for (int width = 1; width < c->comm->size; width *= 2)
        TRY(exchange_halves(c, width));
out:
    return rc;
}

static int launch_sendrecv(const struct bb_call *c)
{
    int n = c->comm->size;

    return bb_comm_sendrecv(c->comm, c->send, (c->comm->rank + 1) % n, c->recv, (c->comm->rank + n - 1) % n, c->count,
                            type_of(c), c->stream);
}

static int launch_alltoall(const struct bb_call *c)
{
    if (c->native->alltoall)
        return bb_nccl_at(c->native->alltoall(c->send, c->recv, c->count, type_of(c), c->comm->nccl, c->stream),
                          "ncclAlltoAll", __FILE__, __LINE__);
    return launch_group(c, exchange_all);
}

static int launch_gather(const struct bb_call *c)
{
    if (c->native->gather)
        return bb_nccl_at(c->native->gather(c->send, c->recv, c->count, type_of(c), c->root, c->comm->nccl, c->stream),
                          "ncclGather", __FILE__, __LINE__);
    return launch_group(c, exchange_to_root);
}

static int launch_scatter(const struct bb_call *c)
{
    if (c->native->scatter)
        return bb_nccl_at(c->native->scatter(c->send, c->recv, c->count, type_of(c), c->root, c->comm->nccl, c->stream),
                          "ncclScatter", __FILE__, __LINE__);
    return launch_group(c, exchange_from_root);
}

#define COLL(kind, name, ...) [kind] = launch_##name,
static int (*const launchers[BB_COLL_KIND_COUNT])(const struct bb_call *) = {
#include "collectives/ops/colls.def"
};

int bb_launch(const struct bb_call *call)
{
    int rc = call->device ? bb_device_launch(call->device, call) : launchers[call->kind](call);

    return rc ? rc : bb_comm_poll(call->comm, bb_colls[call->kind].name);
}
