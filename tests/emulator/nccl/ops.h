/*
 * ops.h - NCCL operations as data: the kinds, one call (a task), and all that one group does on one communicator (a
 * plan).
 */
#ifndef EMU_NCCL_OPS_H
#define EMU_NCCL_OPS_H

#include "../engine.h"

#include <nccl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum en_kind {
    EN_ALL_REDUCE,
    EN_REDUCE,
    EN_BROADCAST,
    EN_ALL_GATHER,
    EN_REDUCE_SCATTER,
    EN_ALLTOALL,
    EN_GATHER,
    EN_SCATTER,
    EN_SEND,
    EN_RECV,
    EN_KINDS
};

/* NCCL's numbers. */
enum en_algorithm { EN_TREE, EN_RING, EN_NVLS = 4, EN_NVLS_TREE, EN_PAT, EN_ALGORITHMS };
enum en_protocol { EN_LL, EN_LL128, EN_SIMPLE, EN_PROTOCOLS };

/* Properties of a kind of operation. A "many" side has one block of `count` elements per rank, another side one
 * block. */
struct en_kind_row {
    const char *name; /* in messages */
    const char *call; /* the function's name in NCCL's own messages */
    bool reduces, rooted;
    bool send_many, recv_many;
    bool only_root_sends, only_root_receives;
    bool pays_per_block; /* the payload is one block per rank instead of one block */
};
const struct en_kind_row *en_kind(enum en_kind kind);

/* One call. */
struct en_task {
    enum en_kind kind;
    const void *send;
    void *recv;
    size_t count;
    int dtype;
    int op;                    /* an enum en_op */
    uint64_t scalar;           /* of a pre-multiplied sum: raw bits of the type */
    const void *device_scalar; /* address of the scalar, read when the operation runs; NULL: use `scalar` */
    int root;                  /* root, or peer of a message */
    int algorithm, protocol;   /* of a collective, see choice.h */
    char selection[32];        /* algSelection of a configured call: one algorithm and protocol; "": none */
    const char *function;      /* name of the exported function */
    bool corrupt;              /* an injected fault: one bit of the delivered data flips */
    cudaStream_t stream;
};

/* A position in the issue order of a communicator's operations. */
struct en_ticket {
    struct en_ticket *next;
    bool queued, running;
};

/* All that one group does on one communicator. The arg of the stream operation; owned by the stream, or by the
 * graph. */
struct en_plan {
    ncclComm_t comm;       /* holds a reference */
    struct en_task *tasks; /* collectives first, then sends and receives, each in issue order */
    int collectives, count;
    bool mixes;            /* takes EMU_MIXING_US longer */
    cudaStream_t *streams; /* without duplicates */
    int n_streams;
    size_t fifo_bytes; /* reserved in the work FIFO */
    uint64_t launch;   /* EMU_SMS: number of the launch on its device, from 1; 0: captured */
    struct emu_demand demand;
    struct emu_peers peers; /* valid if comm->on_job_timeline */
    struct emu_message *messages;
    struct en_ticket ticket; /* not queued for a captured plan, which runs repeatedly */
};

/* Makes a plan from copies of the tasks. Takes a reference on the communicator. NULL: out of memory. */
struct en_plan *en_plan_new(ncclComm_t comm, const struct en_task *tasks, int count);
void en_plan_free(struct en_plan *plan);
ncclResult_t en_plan_enqueue(struct en_plan *plan, int64_t host_ns); /* takes ownership of the plan */

/* These run on a stream's worker thread. Each moves *now_ns from this rank's arrival to its end of the operation.
 * They return an enum en_end. */
int en_run_collective(ncclComm_t comm, const struct en_task *task, int64_t *now_ns);
/* Sums the bytes that messages move over the links of this rank. Returns the number of messages to and from other
 * ranks. */
struct bb_link_load;
int en_sum_load(ncclComm_t comm, const struct en_task *tasks, int n, struct bb_link_load *load);
int en_run_exchange(ncclComm_t comm, const struct en_task *tasks, int count, int64_t *now_ns);

void en_describe(char *text, size_t size, int kind, uint64_t count, int dtype, int op, int root);
void en_corrupt(ncclComm_t comm, const struct en_task *task);
bool en_has_algorithm(const struct en_task *task); /* false: the operation is made of messages */
size_t en_element_bytes(const struct en_task *task);
bool en_receives(const struct en_task *task, int rank);

#endif
