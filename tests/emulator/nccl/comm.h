/*
 * comm.h - communicators: their state in this process, their life, and the order of their operations.
 */
#ifndef EMU_NCCL_COMM_H
#define EMU_NCCL_COMM_H

#include "ops.h"
#include "shm.h"

#include "proxies/machine/cluster.h"

#include <pthread.h>

enum { EN_MAX_AHEAD = 16 }; /* collectives that a rank which only gives may be ahead of the others, at most */
enum { EN_ID_BYTES = 32 }; /* the part of a unique id that identifies a communicator; its first bytes name the region */

/* An operator made by ncclRedOpCreatePreMulSum. */
struct en_redop {
    bool used;
    int dtype;
    uint64_t scalar;           /* raw bits of the type        */
    const void *device_scalar; /* or where they lie, NULL: no */
};

/* Where GPUs stand that share a way out: on one NIC, on a leaf switch or in a pod whose uplinks are scarce. How many of
 * them use it at once with this rank: members of the communicator, itself among them, and others. */
enum en_shared_resource { EN_NIC, EN_LEAF, EN_POD, EN_SHARED_RESOURCES };
struct en_sharers {
    int members, others;
    int no_uplink; /* members whose messages to this rank take no uplinks: of a leaf also those on its other rails */
};

struct ncclComm {
    struct ncclComm *next; /* in the list of live handles                                             */
    atomic_int refs;       /* the handle, each plan, each job                                         */
    int rank, size, device;
    struct emu_location location;        /* of this rank, as a parent communicator knew it; node -1: none did      */
    int *nodes, *gpus;                   /* [size] the node of each member, and its GPU there                       */
    int n_nodes;                         /* that its members are on                                                 */
    int job_gpus;                        /* of all processes                                                        */
    double nic_factor, min_nic_factor;   /* of the NICs' rate: of this rank, of the slowest member  */
    double leaf_factor, min_leaf_factor; /* of the rate of leaves' uplinks: the same                */
    struct bb_node_placement placement;  /* of its nodes over the fabric                */
    struct en_sharers sharers[EN_SHARED_RESOURCES]; /* of a collective, see sharing.h               */
    uint8_t id[EN_ID_BYTES];
    ncclConfig_t config;
    struct en_region region;
    struct en_watch watch;        /* of operations: they end on abort and on revocation                      */
    struct en_watch manage_watch; /* of joining and splitting: a revoked communicator can still be split     */
    _Atomic uint32_t stop_flag, abort_flag;
    bool revoked, finalized;
    bool on_job_timeline; /* its ranks have one timeline, see timeline_peers.h                                       */
    bool tuned;           /* a tuner plugin took it up, with this context                             */
    void *tuner;
    void *profiler;     /* context that a profiler plugin gave it, NULL: none                           */
    uint32_t connected; /* bit by algorithm                                                        */
    bool connecting;    /* came to the barrier of a first collective, of this generation           */
    uint32_t connect_generation;
    int ahead;                /* collectives that a rank which only gives may be ahead of the others     */
    size_t fifo_bytes;        /* of the work FIFO, 0: endless                                            */
    uint64_t splits, shrinks; /* so that children of all ranks get one id                                */
    struct en_redop *redops;
    int redop_count;

    pthread_mutex_t lock; /* guards what follows                                                     */
    pthread_cond_t changed;
    ncclResult_t async;             /* ncclInProgress while a helper thread works on it                        */
    int in_progress;                /* parts of that work that name it and are not done                        */
    char error[EN_TEXT_BYTES];      /* text of an error in async                                               */
    struct en_ticket *first, *last; /* operations issued and not done, in order                           */
    size_t fifo_used;               /* by plans that are issued and not done                                  */
    int running;                    /* 1 while one of them, or a captured one, runs                            */

    /* Only the running operation touches these. */
    int64_t last_end_ns;            /* virtual end of the latest operation                                     */
    int64_t extra_ns;               /* that the next one loses to others on this GPU                           */
    int64_t arrivals[EN_MAX_AHEAD]; /* the last one's of each of the latest collectives */
    uint64_t n_arrivals;
    struct emu_order order;       /* of what was issued, where operations share                               */
    uint32_t step;                /* steps of collectives so far: even and odd buffers                       */
    uint64_t *sent, *received;    /* [size] messages so far                                                  */
    uint64_t *scalars;            /* [size] scratch                                                          */
    const void **sources;         /* [size] scratch                                                          */
    cudaStream_t captured_stream; /* of the latest captured operation, and in which capture      */
    unsigned long long capture_id;
};

/* Life. A new one has one reference (the handle's) and is in the list of live handles. */
ncclComm_t en_comm_new(int device, const ncclConfig_t *config);
void en_comm_ref(ncclComm_t comm);
void en_comm_unref(ncclComm_t comm);
void en_comm_retire(ncclComm_t comm); /* the handle is no longer valid; drops its reference */
void en_comm_stop(ncclComm_t comm);   /* its operations end, now and later                  */
void en_comm_abort(ncclComm_t comm);  /* and so does joining and splitting                  */
void en_comm_wait_running(ncclComm_t comm);
int en_devices_used(void); /* distinct devices that this process made communicators on */

/* Joining the other ranks in two halves, so that one thread can join several ranks: post, then wait.
 * id, rank and size are set. */
ncclResult_t en_join_post(ncclComm_t comm);
ncclResult_t en_join_wait(ncclComm_t comm);

/* Is this a live handle that may be used now? */
ncclResult_t en_comm_check(ncclComm_t comm, const char *call); /* live                              */
ncclResult_t en_comm_ready(ncclComm_t comm, const char *call); /* live, nothing in progress, sound  */
ncclResult_t en_comm_open(ncclComm_t comm, const char *call);  /* ready, and takes operations       */
void en_comm_begin(ncclComm_t comm);                           /* work on it begins: it is in progress        */
void en_comm_end(ncclComm_t comm, ncclResult_t state);         /* ... and ends; the last one leaves its state */
ncclResult_t en_comm_async(ncclComm_t comm);
void en_comm_nap(ncclComm_t comm);       /* while something is in progress: until it is not, 0.2 ms at most */
void en_comm_wait_jobs(ncclComm_t comm); /* until no helper works on it */

/* Order. A queued plan runs when all that were issued before it are done; a captured one when none runs. */
void en_order_append(ncclComm_t comm, struct en_ticket *t);
enum en_end en_order_enter(ncclComm_t comm, struct en_ticket *t); /* EN_GO: the plan runs, leave afterwards */
void en_order_leave(ncclComm_t comm, struct en_ticket *t);
void en_order_cancel(ncclComm_t comm, struct en_ticket *t); /* never ran, never will                  */
void en_wait_briefly(ncclComm_t comm);                      /* the same, 1 ms at most */
enum en_end en_wait_slice(ncclComm_t comm);                 /* of a wait on changed; the lock is held */
void en_order_drain(ncclComm_t comm);                       /* until all that were issued are done    */

/* Error texts. en_fail remembers the text for ncclGetLastError and returns rc. comm may be NULL. */
ncclResult_t en_fail(ncclComm_t comm, ncclResult_t rc, const char *format, ...) __attribute__((format(printf, 3, 4)));
const char *en_last_error(ncclComm_t comm);
/* Breaks the communicator on all ranks; the first one to say so prints it. */
void en_comm_break(ncclComm_t comm, const char *format, ...) __attribute__((format(printf, 2, 3)));

ncclResult_t en_report_broken(ncclComm_t comm); /* remembers its text; returns ncclInvalidUsage */

/* Argument checks, see checks.c. */
ncclResult_t en_check_task(ncclComm_t comm, const struct en_task *task);
ncclResult_t en_check_self_messages(ncclComm_t comm, const struct en_task *tasks, int count);
ncclResult_t en_check_config(const ncclConfig_t *given, ncclConfig_t *config, const ncclConfig_t *inherited);

void en_hash(uint8_t out[EN_ID_BYTES], const void *data, size_t bytes);

#endif
