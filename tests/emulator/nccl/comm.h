/*
 * comm.h - communicators: their state in this process, their lifetime, and the order of their operations.
 */
#ifndef EMU_NCCL_COMM_H
#define EMU_NCCL_COMM_H

#include "ops.h"
#include "shm.h"

#include "proxies/simulation/machine/cluster.h"

#include <pthread.h>

enum { EN_MAX_AHEAD = 16 }; /* maximum of EMU_SEND_AHEAD */
enum {
    EN_ID_BYTES = 32
}; /* the part of a unique id that identifies a communicator; its first bytes name the shared
                              memory region */

/* An operator made by ncclRedOpCreatePreMulSum. */
struct en_redop {
    bool used;
    int dtype;
    uint64_t scalar;           /* raw bits of the type */
    const void *device_scalar; /* address of the scalar; NULL: use `scalar` */
};

/* A resource that several GPUs share: a NIC, or the oversubscribed uplinks of a leaf switch or pod; and the number
 * of GPUs that use it at the same time: members of the communicator including this rank, and others. */
enum en_shared_resource { EN_NIC, EN_PATH, EN_LEAF, EN_POD, EN_SHARED_RESOURCES };
struct en_sharers {
    int members, others;
    int no_uplink; /* members whose messages to this rank take no uplinks; for a leaf also members on its other rails */
};

struct ncclComm {
    struct ncclComm *next; /* in the list of live handles */
    atomic_int refs;       /* held by the handle, each plan, each job */
    int rank, size, device;
    struct emu_location location;        /* of this rank, inherited from a parent communicator; node -1: none */
    int *nodes, *gpus;                   /* [size] node of each member, and its GPU on that node */
    int n_nodes;                         /* number of nodes with members */
    int job_gpus;                        /* GPUs of all processes of the job */
    double nic_factor, min_nic_factor;   /* remaining fraction of the NICs' rate (EMU_SLOW): of this rank, and the
                                          minimum over the members */
    double leaf_factor, min_leaf_factor; /* the same for the uplinks of the leaf */
    struct bb_node_placement placement;  /* of its nodes in the fabric */
    struct bb_nic_members nic;           /* members on this rank's node and NIC */
    struct en_sharers sharers[EN_SHARED_RESOURCES]; /* of a collective, see sharing.h */
    uint8_t id[EN_ID_BYTES];
    ncclConfig_t config;
    struct en_region region;
    struct en_watch watch;        /* for operations: they end on abort and on revocation */
    struct en_watch manage_watch; /* for joining and splitting: a revoked communicator can still be split */
    _Atomic uint32_t stop_flag, abort_flag;
    bool revoked, finalized;
    bool on_job_timeline; /* all ranks have the same timeline, see timeline_peers.h */
    bool tuned;           /* a tuner plugin accepted the communicator and set `tuner` */
    void *tuner;
    void *profiler;     /* context of the profiler plugin; NULL: none */
    uint32_t connected; /* bit per algorithm */
    bool connecting;    /* arrived at the barrier of a first collective, in connect_generation */
    uint32_t connect_generation;
    int ahead;        /* EMU_SEND_AHEAD */
    int shm;          /* file in /dev/shm with EMU_SHM, or -1 */
    void *buffers[2]; /* device memory with EMU_NCCL_MIB: since creation, since the first operation */
    bool mixes;       /* EMU_MIXING_US: operations were captured */
    bool windows;     /* symmetric windows exist */
    struct en_window *window_list;
    uint64_t registrations;   /* number of collective registrations so far */
    void *multicast;          /* address space of multicast memory, without access; NULL: none yet */
    size_t multicast_bytes;   /* used by windows */
    size_t fifo_bytes;        /* size of the work FIFO; 0: unlimited */
    uint64_t splits, shrinks; /* numbers of splits and shrinks, from which all ranks derive the same id of a child */
    struct en_redop *redops;
    int redop_count;

    pthread_mutex_t lock; /* guards the following fields */
    pthread_cond_t changed;
    ncclResult_t async;             /* ncclInProgress while a helper thread works on the communicator */
    int in_progress;                /* number of unfinished helper calls */
    char error[EN_TEXT_BYTES];      /* text of the error in async */
    struct en_ticket *first, *last; /* issued operations that have not ended, in order */
    size_t fifo_used;               /* reserved by plans that have not ended */
    int running;                    /* 1 while an operation (queued or captured) runs */

    /* The following fields are used by the running operation only. */
    int64_t last_end_ns;            /* virtual end of the latest operation */
    int64_t extra_ns;               /* contention loss of the next operation */
    int64_t arrivals[EN_MAX_AHEAD]; /* latest arrival at each of the last collectives */
    uint64_t n_arrivals;
    struct emu_order order;       /* issue order, for contention */
    uint32_t step;                /* steps of collectives so far; its parity selects the buffers */
    uint64_t *sent, *received;    /* [size] messages so far, per peer */
    uint64_t *scalars;            /* [size] scratch */
    const void **sources;         /* [size] scratch */
    cudaStream_t captured_stream; /* stream and capture id of the latest captured operation */
    unsigned long long capture_id;
};

/* Lifetime. A new communicator has one reference (the handle's) and is in the list of live handles. */
ncclComm_t en_comm_new(int device, const ncclConfig_t *config);
void en_comm_ref(ncclComm_t comm);
void en_comm_unref(ncclComm_t comm);
void en_comm_retire(ncclComm_t comm); /* invalidates the handle and drops its reference */
void en_comm_stop(ncclComm_t comm);   /* ends its operations, now and in future */
void en_comm_abort(ncclComm_t comm);  /* the same, and ends joining and splitting */
void en_comm_wait_running(ncclComm_t comm);
int en_devices_used(void); /* number of devices on which this process created communicators */

/* Joins the other ranks, in two calls, so that one thread can join several ranks: first post for each, then wait for
 * each. Requires id, rank and size. */
ncclResult_t en_join_post(ncclComm_t comm);
ncclResult_t en_join_wait(ncclComm_t comm);

/* Checks of a handle, from weakest to strictest; `call` is the function's name in messages. */
ncclResult_t en_comm_check(ncclComm_t comm, const char *call); /* live */
ncclResult_t en_comm_ready(ncclComm_t comm, const char *call); /* live, nothing in progress, no error */
ncclResult_t en_comm_open(ncclComm_t comm, const char *call);  /* ready, and accepts operations */
void en_comm_begin(ncclComm_t comm);                           /* sets ncclInProgress */
void en_comm_end(ncclComm_t comm, ncclResult_t state); /* ends one piece of work; the last one sets the final state */
ncclResult_t en_comm_async(ncclComm_t comm);
void en_comm_nap(ncclComm_t comm);       /* waits while something is in progress, at most 0.2 ms */
void en_comm_wait_jobs(ncclComm_t comm); /* waits until no helper thread works on it */

/* Issue order. A queued plan runs when all plans issued before it have ended; a captured plan runs when none runs. */
void en_order_append(ncclComm_t comm, struct en_ticket *t);
enum en_end en_order_enter(ncclComm_t comm, struct en_ticket *t); /* EN_GO: the plan runs; call en_order_leave
                                                                     afterwards */
void en_order_leave(ncclComm_t comm, struct en_ticket *t);
void en_order_cancel(ncclComm_t comm, struct en_ticket *t); /* for a plan that will never run */
void en_wait_briefly(ncclComm_t comm);      /* waits for comm->changed, at most 1 ms; the lock is held */
enum en_end en_wait_slice(ncclComm_t comm); /* one slice of a wait for comm->changed; the lock is held */
void en_order_drain(ncclComm_t comm);       /* waits until all issued operations have ended */

/* Error texts. en_fail stores the text for ncclGetLastError and returns rc. comm may be NULL. */
ncclResult_t en_fail(ncclComm_t comm, ncclResult_t rc, const char *format, ...) __attribute__((format(printf, 3, 4)));
const char *en_last_error(ncclComm_t comm);
/* Breaks the communicator on all ranks. Only the first caller prints the text. */
void en_comm_break(ncclComm_t comm, const char *format, ...) __attribute__((format(printf, 2, 3)));

ncclResult_t en_report_broken(ncclComm_t comm); /* stores the communicator's text as the last error; returns
                                                   ncclInvalidUsage */

/* Argument checks, see checks.c. */
ncclResult_t en_check_task(ncclComm_t comm, const struct en_task *task);
ncclResult_t en_check_self_messages(ncclComm_t comm, const struct en_task *tasks, int count);
ncclResult_t en_check_config(const ncclConfig_t *given, ncclConfig_t *config, const ncclConfig_t *inherited);

void en_hash(uint8_t out[EN_ID_BYTES], const void *data, size_t bytes);

#endif
