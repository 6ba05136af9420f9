/*
 * ranks.h - test harness of the NCCL stand-in: runs a function as each rank of a job, in forked processes.
 */
#ifndef EMU_NCCL_RANKS_H
#define EMU_NCCL_RANKS_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The argument of a rank's function. The harness owns id, comm and stream; comm is NULL with RANKS_NO_COMM. */
struct rank {
    int rank, size;
    ncclUniqueId id;
    ncclComm_t comm;
    cudaStream_t stream;
    const void *arg;
};

enum {
    RANKS_NO_COMM = 1,    /* the function creates its own communicator */
    RANKS_ONE_DEVICE = 2, /* all ranks use device 0; default: device = rank */
    RANKS_ABORT = 4,      /* the communicator is aborted at the end instead of destroyed */
    RANKS_OF_JOBS = 8,    /* each rank is of another job, as a rank on another host: they have no common timeline */
};

/* The stderr of all ranks. */
struct output {
    char text[8192];
};

/* A rank's function runs in its own process and returns 0, or 1 after printing what failed (CHECK). */
typedef int rank_fn(struct rank *r);

/* Fails the cmocka test when a rank returns another value than 0, dies, or runs longer than 30 s. out may be NULL. */
void run_ranks(int size, rank_fn *fn, const void *arg, int flags, struct output *out);

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stdout, "%s:%d: rank %d of %d: %s\n", __FILE__, __LINE__, r->rank, r->size, #condition);           \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)
#define CHECK_EQ(a, b)                                                                                                 \
    do {                                                                                                               \
        long long a_ = (long long)(a), b_ = (long long)(b);                                                            \
        if (a_ != b_) {                                                                                                \
            fprintf(stdout, "%s:%d: rank %d of %d: %s is %lld, expected %s = %lld\n", __FILE__, __LINE__, r->rank,     \
                    r->size, #a, a_, #b, b_);                                                                          \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

/* use_profile points EMU_CLUSTER to a file with this text and returns 0 or 1; drop_profile, the teardown of a test
 * group, deletes the file. */
int use_profile(const char *text);
int drop_profile(void **state);

void *device_buffer(size_t bytes);                  /* cudaMalloc, zeroed; NULL on failure; freed at process exit */
int wait_for(ncclComm_t comm, ncclResult_t *state); /* polls until nothing is in progress; returns 1 after 20 s */
double stream_us(cudaStream_t stream, cudaEvent_t from); /* records an event, waits for it, and returns the time
                                                            since `from`, which it destroys */

#endif
