/*
 * perf_nccl.c - wall clock time of the NCCL stand-in itself. A manual benchmark, not a test:
 *
 *   mpirun -n 8 build/emulator/run build/tests/emulator/nccl/perf_nccl
 *
 * One rank per process. The unique id is derived from a fixed address, so MPI is only the launcher.
 */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct bench {
    int rank, size;
    ncclComm_t comm;
    cudaStream_t stream;
    char *send, *recv;
};

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text ? atoi(text) : otherwise;
}

/* Polls until a non-blocking communicator (NCCL_COMM_BLOCKING=0) has finished the call. */
static int finish(struct bench *b, ncclResult_t rc)
{
    while (rc == ncclInProgress)
        if (ncclCommGetAsyncError(b->comm, &rc) != ncclSuccess)
            return 1;
    return rc != ncclSuccess;
}

static int all_reduce(struct bench *b, size_t bytes)
{
    return finish(b, ncclAllReduce(b->send, b->recv, bytes / 4, ncclFloat, ncclSum, b->comm, b->stream));
}

static int ring(struct bench *b, size_t bytes)
{
    int next = (b->rank + 1) % b->size, before = (b->rank + b->size - 1) % b->size, rc;

    rc = ncclGroupStart() != ncclSuccess;
    rc |= ncclSend(b->send, bytes, ncclInt8, next, b->comm, b->stream) != ncclSuccess;
    rc |= ncclRecv(b->recv, bytes, ncclInt8, before, b->comm, b->stream) != ncclSuccess;
    return rc | finish(b, ncclGroupEnd());
}

/* Measures operations issued back to back, and operations that are waited for one by one. */
static int measure(struct bench *b, const char *name, int (*op)(struct bench *, size_t), size_t bytes, int iterations)
{
    double us[2];
    int rc = 0;

    for (int waits = 0; waits < 2; waits++) {
        rc |= op(b, bytes) | (cudaStreamSynchronize(b->stream) != cudaSuccess);
        double start = now_us();
        for (int i = 0; i < iterations && rc == 0; i++) {
            rc |= op(b, bytes);
            if (waits)
                rc |= cudaStreamSynchronize(b->stream) != cudaSuccess;
        }
        rc |= cudaStreamSynchronize(b->stream) != cudaSuccess;
        us[waits] = (now_us() - start) / iterations;
    }
    if (b->rank == 0)
        printf("%-10s %10zu bytes  %10.1f us back to back  %10.1f us waited for\n", name, bytes, us[0], us[1]);
    return rc;
}

static int run(struct bench *b)
{
    static const struct {
        size_t bytes;
        int iterations;
    } rows[] = {{8, 2000}, {4096, 2000}, {65536, 500}, {1 << 20, 100}, {64 << 20, 4}};
    int rc = 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && rc == 0; i++) {
        rc |= measure(b, "all_reduce", all_reduce, rows[i].bytes, rows[i].iterations);
        rc |= measure(b, "ring", ring, rows[i].bytes, rows[i].iterations);
    }
    return rc;
}

int main(void)
{
    struct bench b = {.rank = number("OMPI_COMM_WORLD_RANK", 0), .size = number("OMPI_COMM_WORLD_SIZE", 1)};
    char job[64];
    ncclUniqueId id;

    snprintf(job, sizeof(job), "perf %d",
             (int)getppid()); /* pid of the launcher: equal on all ranks, which run on one host */
    setenv("NCCL_COMM_ID", job, 0);
    if (cudaSetDevice(b.rank) || cudaStreamCreate(&b.stream) || ncclGetUniqueId(&id) != ncclSuccess ||
        finish(&b, ncclCommInitRank(&b.comm, b.size, id, b.rank)) || cudaMalloc((void **)&b.send, 64 << 20) ||
        cudaMalloc((void **)&b.recv, 64 << 20))
        return 1;
    if (run(&b))
        return 1;
    return ncclCommDestroy(b.comm) != ncclSuccess;
}
