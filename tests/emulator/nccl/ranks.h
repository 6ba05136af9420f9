/*
 * ranks.h - for the tests of the NCCL stand-in: runs a function as each rank of a job, in processes of its own.
 */
#ifndef EMU_NCCL_RANKS_H
#define EMU_NCCL_RANKS_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* What a rank's function gets. id, comm and stream belong to the harness; comm is NULL with RANKS_NO_COMM. */
struct rank {
    int rank, size;
    ncclUniqueId id;
    ncclComm_t comm;
    cudaStream_t stream;
    const void *arg;
};

enum {
    RANKS_NO_COMM = 1,    /* the function makes its own                                     */
    RANKS_ONE_DEVICE = 2, /* all ranks use device 0; default: device = rank                 */
    RANKS_ABORT = 4,      /* the communicator is aborted at the end, not destroyed          */
};

/* What all ranks printed on stderr, for reports. */
struct output {
    char text[8192];
};

/* A rank's function returns 0, or has said what is wrong (see CHECK) and returns 1. Runs in its own process. */
typedef int rank_fn(struct rank *r);

/* Fails the test (cmocka) when a rank returns other than 0, dies, or is not done after 30 s. out may be NULL. */
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

/* EMU_CLUSTER becomes a file with that text, until drop_profile, the tear-down of a test group. 0, or 1. */
int use_profile(const char *text);
int drop_profile(void **state);

void *device_buffer(size_t bytes);                       /* cudaMalloc, zeroed; NULL on failure; freed by the process */
int wait_for(ncclComm_t comm, ncclResult_t *state);      /* until nothing is in progress; 0 or 1 after 20 s           */
double stream_us(cudaStream_t stream, cudaEvent_t from); /* records, waits; the time since `from`, which it destroys  */

#endif
