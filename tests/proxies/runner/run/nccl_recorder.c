/*
 * nccl_recorder.c - library for LD_PRELOAD: records every NCCL transfer of a program and then calls the real function.
 * The tests compare these records with the plan, independently of the program's own output.
 *
 * One line per call in $NCCL_RECORD.<world rank>: function, ranks of the communicator, rank in the communicator, peer
 * or root (-1: none), count, data type as ncclDataType_t. With MPI_RECORD=1 the file also contains, in the order of the
 * calls, the MPI calls that move data or synchronize: function, and bytes that this rank contributes.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *record_file(void)
{
    static FILE *file;
    const char *prefix = getenv("NCCL_RECORD"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    char path[512];

    if (!file && prefix) {
        snprintf(path, sizeof(path), "%s.%s", prefix, rank ? rank : "0");
        file = fopen(path, "w");
    }
    return file;
}

static void record(const char *function, ncclComm_t comm, int peer, size_t count, ncclDataType_t dtype)
{
    FILE *file = record_file();
    int ranks = -1, rank = -1;

    if (!file)
        return;
    ncclCommCount(comm, &ranks);
    ncclCommUserRank(comm, &rank);
    fprintf(file, "%s %d %d %d %zu %d\n", function, ranks, rank, peer, count, (int)dtype);
    fflush(file);
}

#define NEXT(function) ((__typeof__(&(function)))dlsym(RTLD_NEXT, #function))

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    record(__func__, comm, peer, count, dtype);
    return NEXT(ncclSend)(send, count, dtype, peer, comm, stream);
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm, cudaStream_t stream)
{
    record(__func__, comm, peer, count, dtype);
    return NEXT(ncclRecv)(recv, count, dtype, peer, comm, stream);
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream)
{
    record(__func__, comm, -1, count, dtype);
    return NEXT(ncclAllReduce)(send, recv, count, dtype, op, comm, stream);
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclComm_t comm,
                           cudaStream_t stream)
{
    record(__func__, comm, -1, count, dtype);
    return NEXT(ncclAllGather)(send, recv, count, dtype, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    record(__func__, comm, -1, count, dtype);
    return NEXT(ncclReduceScatter)(send, recv, count, dtype, op, comm, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t dtype, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
    record(__func__, comm, root, count, dtype);
    return NEXT(ncclBroadcast)(send, recv, count, dtype, root, comm, stream);
}

#if NCCL_VERSION_CODE >= 22803
ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclComm_t comm,
                          cudaStream_t stream)
{
    record(__func__, comm, -1, count, dtype);
    return NEXT(ncclAlltoAll)(send, recv, count, dtype, comm, stream);
}
#endif

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    record(__func__, comm, root, count, dtype);
    return NEXT(ncclReduce)(send, recv, count, dtype, op, root, comm, stream);
}

/* ---- MPI: the only calls of the program that send anything (test_mpi.py compares them with its symbols) ---- */

static void record_mpi(const char *function, int count, MPI_Datatype type)
{
    FILE *file = getenv("MPI_RECORD") ? record_file() : NULL;
    int size = 0;

    if (!file)
        return;
    if (count)
        NEXT(MPI_Type_size)(type, &size);
    fprintf(file, "%s %lld\n", function, (long long)count * size);
    fflush(file);
}

int MPI_Iallgather(const void *send, int n_send, MPI_Datatype send_type, void *recv, int n_recv, MPI_Datatype type,
                   MPI_Comm comm, MPI_Request *request)
{
    record_mpi(__func__, n_recv, type);
    return NEXT(MPI_Iallgather)(send, n_send, send_type, recv, n_recv, type, comm, request);
}

int MPI_Ibcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request)
{
    record_mpi(__func__, count, type);
    return NEXT(MPI_Ibcast)(data, count, type, root, comm, request);
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
    record_mpi(__func__, 0, MPI_DATATYPE_NULL);
    return NEXT(MPI_Ibarrier)(comm, request);
}
