/*
 * api_ops.c - the exported operations: collectives, send and receive, operators. Each function fills a task and adds it
 * to the group.
 */
#include "api.h"
#include "reduce.h"
#include "types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Replaces the caller's operator by one of enum en_op and its factor. */
static void resolve_op(ncclComm_t comm, struct en_task *t)
{
    if (!en_kind(t->kind)->reduces) {
        t->op = EN_SUM;
        return;
    }
    if (t->op < ncclNumOps)
        return;
    const struct en_redop *op = &comm->redops[t->op - ncclNumOps];
    t->op = EN_PREMULSUM;
    t->scalar = op->scalar;
    t->device_scalar = op->device_scalar;
}

static ncclResult_t prepare(const char *function, ncclComm_t comm, struct en_task *t)
{
    ncclResult_t rc = en_enter(function);

    if (rc == ncclSuccess)
        rc = en_comm_open(comm, en_kind(t->kind)->call);
    if (rc == ncclSuccess)
        rc = en_check_task(comm, t);
    if (rc == ncclSuccess)
        resolve_op(comm, t);
    return en_group_note(rc);
}

/* A collective of count 0 is dropped, as in NCCL; a message of count 0 still matches its other end. */
static bool is_nothing(const struct en_task *t)
{
    return t->count == 0 && t->kind != EN_SEND && t->kind != EN_RECV;
}

static ncclResult_t issue(const char *function, ncclComm_t comm, struct en_task t)
{
    ncclResult_t rc = prepare(function, comm, &t);

    if (rc != ncclSuccess)
        return rc;
    t.function = function;
    if (is_nothing(&t))
        return ncclSuccess;
    en_group_start();
    rc = en_group_note(en_group_add_task(comm, &t));
    ncclResult_t end = en_group_end();
    return rc == ncclSuccess ? end : rc;
}

/* Defines an exported operation with the given parameters. The last arguments are the fields of its task in addition to
 * the count, the data type and the stream, which all operations have. */
#define OPERATION(name, operation, parameters, ...)                                                                    \
    EN_API(ncclResult_t, name, parameters)                                                                             \
    {                                                                                                                  \
        return issue(#name, comm,                                                                                      \
                     (struct en_task){                                                                                 \
                         .kind = operation, .count = count, .dtype = (int)datatype, .stream = stream, __VA_ARGS__});   \
    }

OPERATION(ncclReduce, EN_REDUCE,
          (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
           ncclComm_t comm, cudaStream_t stream),
          .send = sendbuff, .recv = recvbuff, .op = (int)op, .root = root)

OPERATION(ncclBcast, EN_BROADCAST,
          (void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream),
          .send = buff, .recv = buff, .root = root)

OPERATION(ncclBroadcast, EN_BROADCAST,
          (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
           cudaStream_t stream),
          .send = sendbuff, .recv = recvbuff, .root = root)

OPERATION(ncclAllReduce, EN_ALL_REDUCE,
          (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
           cudaStream_t stream),
          .send = sendbuff, .recv = recvbuff, .op = (int)op)

OPERATION(ncclReduceScatter, EN_REDUCE_SCATTER,
          (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
           cudaStream_t stream),
          .send = sendbuff, .recv = recvbuff, .op = (int)op)

OPERATION(ncclAllGather, EN_ALL_GATHER,
          (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
           cudaStream_t stream),
          .send = sendbuff, .recv = recvbuff)

OPERATION(ncclAlltoAll, EN_ALLTOALL,
          (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
           cudaStream_t stream),
          .send = sendbuff, .recv = recvbuff)

OPERATION(ncclGather, EN_GATHER,
          (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
           cudaStream_t stream),
          .send = sendbuff, .recv = recvbuff, .root = root)

OPERATION(ncclScatter, EN_SCATTER,
          (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
           cudaStream_t stream),
          .send = sendbuff, .recv = recvbuff, .root = root)

OPERATION(ncclSend, EN_SEND,
          (const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream),
          .send = sendbuff, .root = peer)

OPERATION(ncclRecv, EN_RECV,
          (void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream),
          .recv = recvbuff, .root = peer)

/* ---- NCCL 2.31 and later: collectives with a configuration ---- */

#if NCCL_VERSION_CODE < 23100
typedef struct {
    size_t size;
    unsigned magic, version;
    void *ext;
    int minCTAs, maxCTAs, nvlsCTAs, cgaClusterSize;
    const char *algSelection;
    int forceAlgSelection, CTAPolicy;
    uint64_t userProfilerTag;
} ncclCollConfig_t;
#endif

/* forceAlgSelection has no effect: an unavailable selection leaves the choice to NCCL. */
static ncclResult_t issue_configured(const char *function, ncclComm_t comm, struct en_task t,
                                     const ncclCollConfig_t *config)
{
    const ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;

    if (config != NULL && (config->size < 64 || config->magic != initial.magic || config->forceAlgSelection < 0 ||
                           config->forceAlgSelection > 1))
        return en_group_note(en_fail(NULL, ncclInvalidArgument, "%s : invalid configuration", function));
    if (config != NULL && config->algSelection != NULL)
        snprintf(t.selection, sizeof(t.selection), "%s", config->algSelection);
    return issue(function, comm, t);
}

#define CONFIGURED(name, operation, parameters, ...)                                                                   \
    EN_API(ncclResult_t, name, parameters)                                                                             \
    {                                                                                                                  \
        return issue_configured(                                                                                       \
            #name, comm,                                                                                               \
            (struct en_task){                                                                                          \
                .kind = operation, .count = count, .dtype = (int)datatype, .stream = stream, __VA_ARGS__},             \
            config);                                                                                                   \
    }

CONFIGURED(ncclAllReduceConfig, EN_ALL_REDUCE,
           (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
            ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config),
           .send = sendbuff, .recv = recvbuff, .op = (int)op)

CONFIGURED(ncclReduceScatterConfig, EN_REDUCE_SCATTER,
           (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
            ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config),
           .send = sendbuff, .recv = recvbuff, .op = (int)op)

CONFIGURED(ncclAllGatherConfig, EN_ALL_GATHER,
           (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
            cudaStream_t stream, const ncclCollConfig_t *config),
           .send = sendbuff, .recv = recvbuff)

CONFIGURED(ncclBroadcastConfig, EN_BROADCAST,
           (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
            cudaStream_t stream, const ncclCollConfig_t *config),
           .send = sendbuff, .recv = recvbuff, .root = root)

CONFIGURED(ncclReduceConfig, EN_REDUCE,
           (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
            ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config),
           .send = sendbuff, .recv = recvbuff, .op = (int)op, .root = root)

/* A free entry of the communicator's operator table; -1: out of memory. */
static int free_redop(ncclComm_t comm)
{
    int i = 0;

    while (i < comm->redop_count && comm->redops[i].used)
        i++;
    if (i < comm->redop_count)
        return i;
    struct en_redop *more = realloc(comm->redops, (size_t)(i + 1) * sizeof(*more));
    if (more == NULL)
        return -1;
    comm->redops = more;
    comm->redop_count = i + 1;
    return i;
}

EN_API(ncclResult_t, ncclRedOpCreatePreMulSum,
       (ncclRedOp_t * op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm))
{
    const char *call = "ncclRedOpCreatePreMulSum";
    ncclResult_t rc = en_enter(call);

    if (rc == ncclSuccess)
        rc = en_comm_open(comm, call);
    if (rc != ncclSuccess)
        return rc;
    if (op == NULL || scalar == NULL || en_type((int)datatype) == NULL)
        return en_fail(NULL, ncclInvalidArgument, "%s : op %p, scalar %p, type %d", call, (void *)op, scalar,
                       (int)datatype);
    if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
        return en_fail(NULL, ncclInvalidArgument, "%s : invalid residence %d", call, (int)residence);
    int at = free_redop(comm);
    if (at < 0)
        return en_fail(NULL, ncclSystemError, "%s : out of memory", call);
    struct en_redop *made = &comm->redops[at];
    *made = (struct en_redop){.used = true, .dtype = (int)datatype};
    if (residence == ncclScalarDevice)
        made->device_scalar = scalar;
    else
        memcpy(&made->scalar, scalar, en_type((int)datatype)->bytes);
    *op = (ncclRedOp_t)(ncclNumOps + at);
    return ncclSuccess;
}

EN_API(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm))
{
    ncclResult_t rc = en_enter("ncclRedOpDestroy");
    int at = (int)op - ncclNumOps;

    if (rc == ncclSuccess)
        rc = en_comm_check(comm, "ncclRedOpDestroy");
    if (rc != ncclSuccess)
        return rc;
    if (at < 0)
        return en_fail(NULL, ncclInvalidArgument, "ncclRedOpDestroy : operator %d is a NCCL builtin", (int)op);
    if (at >= comm->redop_count || !comm->redops[at].used)
        return en_fail(NULL, ncclInvalidArgument, "ncclRedOpDestroy : operator %d was destroyed or never made",
                       (int)op);
    comm->redops[at].used = false;
    return ncclSuccess;
}
