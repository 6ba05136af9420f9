/*
 * api_ops.c - the exported operations: collectives, send and receive, operators. Each function fills a task and adds it
 * to the group.
 */
#include "api.h"
#include "reduce.h"
#include "types.h"

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

EN_API(ncclResult_t, ncclReduce,
       (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
        ncclComm_t comm, cudaStream_t stream))
{
    return issue("ncclReduce", comm,
                 (struct en_task){.kind = EN_REDUCE,
                                  .send = sendbuff,
                                  .recv = recvbuff,
                                  .count = count,
                                  .dtype = (int)datatype,
                                  .op = (int)op,
                                  .root = root,
                                  .stream = stream});
}

static ncclResult_t broadcast(const char *function, const void *send, void *recv, size_t count, ncclDataType_t dtype,
                              int root, ncclComm_t comm, cudaStream_t stream)
{
    return issue(function, comm,
                 (struct en_task){.kind = EN_BROADCAST,
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .dtype = (int)dtype,
                                  .root = root,
                                  .stream = stream});
}

EN_API(ncclResult_t, ncclBcast,
       (void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream))
{
    return broadcast("ncclBcast", buff, buff, count, datatype, root, comm, stream);
}

EN_API(ncclResult_t, ncclBroadcast,
       (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
        cudaStream_t stream))
{
    return broadcast("ncclBroadcast", sendbuff, recvbuff, count, datatype, root, comm, stream);
}

EN_API(ncclResult_t, ncclAllReduce,
       (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
        cudaStream_t stream))
{
    return issue("ncclAllReduce", comm,
                 (struct en_task){.kind = EN_ALL_REDUCE,
                                  .send = sendbuff,
                                  .recv = recvbuff,
                                  .count = count,
                                  .dtype = (int)datatype,
                                  .op = (int)op,
                                  .stream = stream});
}

EN_API(ncclResult_t, ncclReduceScatter,
       (const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
        ncclComm_t comm, cudaStream_t stream))
{
    return issue("ncclReduceScatter", comm,
                 (struct en_task){.kind = EN_REDUCE_SCATTER,
                                  .send = sendbuff,
                                  .recv = recvbuff,
                                  .count = recvcount,
                                  .dtype = (int)datatype,
                                  .op = (int)op,
                                  .stream = stream});
}

EN_API(ncclResult_t, ncclAllGather,
       (const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
        cudaStream_t stream))
{
    return issue("ncclAllGather", comm,
                 (struct en_task){.kind = EN_ALL_GATHER,
                                  .send = sendbuff,
                                  .recv = recvbuff,
                                  .count = sendcount,
                                  .dtype = (int)datatype,
                                  .stream = stream});
}

EN_API(ncclResult_t, ncclAlltoAll,
       (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
        cudaStream_t stream))
{
    return issue("ncclAlltoAll", comm,
                 (struct en_task){.kind = EN_ALLTOALL,
                                  .send = sendbuff,
                                  .recv = recvbuff,
                                  .count = count,
                                  .dtype = (int)datatype,
                                  .stream = stream});
}

EN_API(ncclResult_t, ncclGather,
       (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
        cudaStream_t stream))
{
    return issue("ncclGather", comm,
                 (struct en_task){.kind = EN_GATHER,
                                  .send = sendbuff,
                                  .recv = recvbuff,
                                  .count = count,
                                  .dtype = (int)datatype,
                                  .root = root,
                                  .stream = stream});
}

EN_API(ncclResult_t, ncclScatter,
       (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
        cudaStream_t stream))
{
    return issue("ncclScatter", comm,
                 (struct en_task){.kind = EN_SCATTER,
                                  .send = sendbuff,
                                  .recv = recvbuff,
                                  .count = count,
                                  .dtype = (int)datatype,
                                  .root = root,
                                  .stream = stream});
}

EN_API(ncclResult_t, ncclSend,
       (const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream))
{
    return issue(
        "ncclSend", comm,
        (struct en_task){
            .kind = EN_SEND, .send = sendbuff, .count = count, .dtype = (int)datatype, .root = peer, .stream = stream});
}

EN_API(ncclResult_t, ncclRecv,
       (void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream))
{
    return issue(
        "ncclRecv", comm,
        (struct en_task){
            .kind = EN_RECV, .recv = recvbuff, .count = count, .dtype = (int)datatype, .root = peer, .stream = stream});
}

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
