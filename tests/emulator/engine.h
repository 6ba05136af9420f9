/*
 * engine.h - the part of the emulated GPUs that all three emulated libraries use: devices, virtual time, streams with
 * worker threads, the cluster profile, and fault injection.
 *
 * The emulated libcudart implements these functions and exports them under the version node EMU_1, in addition to the
 * public CUDA symbols. The emulated libnccl and libcublasLt link against it.
 *
 * Times are int64 nanoseconds. With EMU_TIME=virtual (the default), issuing an operation only advances the host clock
 * of the process by the modelled cost of the call. With EMU_TIME=real, an operation also occupies its stream for its
 * modelled duration in wall clock time.
 */
#ifndef EMU_ENGINE_H
#define EMU_ENGINE_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An asynchronous operation on a stream. A graph replays a captured operation at every launch, so `run` may be
 * called several times with the same arg, but never concurrently. `release` is called once, after the last call of
 * `run`. */
struct emu_op {
    const char *name; /* for error messages; static storage */
    /* Does the work of the operation; called on the stream's worker thread. May block until peers arrive. ready_ns:
     * time at which the operation may start. Returns the operation's end time (at least ready_ns), or EMU_FAILED. */
    int64_t (*run)(void *arg, int64_t ready_ns);
    void (*release)(void *arg); /* may be NULL */
    void *arg;
    int64_t host_ns; /* host time for issuing the operation */
    int entries; /* entries of the launch queue that the operation occupies in addition to its own (the events around
                    an NCCL operation) */
    struct emu_demand *demand; /* demand on shared resources, valid as long as arg; NULL: none */
};

/* The resources that transfer the bytes of an operation, per direction: links within the node, device memory, NICs,
 * slow paths between nodes, and the uplinks of the leaf and of the pod. Other GPUs may share the NICs and uplinks. */
enum emu_part {
    EMU_LINK_OUT,
    EMU_LINK_IN,
    EMU_MEMORY,
    EMU_NIC_OUT,
    EMU_NIC_IN,
    EMU_PATH_OUT, /* slow paths of the NIC */
    EMU_PATH_IN,
    EMU_LEAF_OUT,
    EMU_LEAF_IN,
    EMU_POD_OUT,
    EMU_POD_IN,
    EMU_PARTS
};

struct bb_kernel_list_item;

/* One message of a send/receive group. */
struct emu_message {
    int peer;
    bool sends;
    double latency_ns;
};

/* State that makes the operations of a communicator run in the order in which they were issued. Owned by the
 * communicator. */
struct emu_order {
    uint64_t turn;    /* number of collectives issued so far */
    int lane, moment; /* lane (stream) of the latest operation in the timeline, and the moment at which that
                         operation ends; 0: none */
};
void emu_order_release(struct emu_order *order);

/* Communicator and peers of an NCCL operation, for a timeline that all processes of a job share (timeline.h). A
 * collective waits for all members of the communicator, a send/receive group for the peers of its messages. */
struct emu_peers {
    uint64_t comm; /* id of the communicator, equal on all its ranks */
    int rank, members;
    bool (*is_over)(const struct emu_peers *peers); /* returns true after the communicator was aborted, when missing
                                                       peers may never arrive */
    const void *owner;
    const struct emu_message *messages; /* [n_messages] messages of a send/receive group */
    int n_messages;                     /* 0: the operation is a collective */
};

/* Demand of an operation on resources that concurrent operations also use. Only for machines whose profile has
 * "sharing" (contention.c). A kernel has a duration. An NCCL operation occupies SMs from its launch on, and
 * transfers bytes after its latency. */
struct emu_demand {
    double alone_ns; /* kernel: duration in ns when it runs alone; send/receive group: duration of the copies to the
                        rank itself */
    const struct bb_kernel_list_item *gemm; /* the GEMM, which is slower when NCCL occupies SMs; NULL: not a GEMM */
    bool by_memory;                         /* memory-bound kernel, which is slower when NCCL uses memory bandwidth */
    bool waits;                             /* start barrier kernel, which runs until the host releases it */
    int sms; /* SMs that the NCCL operation occupies from its launch on; 0: not an NCCL operation */
    double latency_ns, transfer_ns; /* NCCL operation: latency and transfer time in ns when the operation runs alone */
    double bytes[EMU_PARTS];        /* bytes that this operation transfers over each resource */
    double others[EMU_PARTS]; /* bytes that other GPUs are assumed to transfer over each resource at the same time */
    struct emu_order *order;  /* the operation begins after the previous operation of this communicator; NULL: no
                                order */
    const struct emu_peers *peers; /* peers that the operation waits for on the timeline; NULL: none */
    int64_t extra_ns;              /* out: delay in ns that contention adds to this run; set before `run` is called */
};
void emu_host_waits_for_all(void); /* reports that the host waits for all operations of this process */
/* Returns the end time of the current operation, for use inside run() of an operation with peers. Waits until the
 * timeline knows the end time. Returns 0 if the end time cannot be determined. */
int64_t emu_end_ns(void);

/* Returns the id of the timeline that this process shares with other processes of its job, or 0 if its timeline is
 * its own. The ranks of a communicator synchronize on the timeline if all of them have the same id. */
uint64_t emu_timeline_name(void);
/* Report to the timeline that the host waits for other processes outside CUDA and NCCL, for example in MPI
 * (emu_host_away), and that this wait has ended (emu_host_back). emu_host_lost: like emu_host_away, for a wait on
 * processes that the timeline does not know, until emu_host_found. */
void emu_host_away(void);
void emu_host_back(void);
void emu_host_lost(void);
void emu_host_found(void);
/* Reports that the host polls for the end of a wait for other processes; emu_host_back reports the end. */
void emu_host_polls(void);
/* Reports that the host yields its CPU or sleeps. If it does not wait for its GPU, this has the effect of emu_host_polls,
 * and the next call of CUDA or NCCL (emu_host_calls_locked, from emu_lock) that of emu_host_back. A query of work that has
 * not ended calls emu_host_queries_again, which returns cudaErrorNotReady: the next pause belongs to the query. */
void emu_host_pauses(void);
cudaError_t emu_host_queries_again(void);
void emu_host_calls_locked(void);
void emu_host_waits_for_one(void); /* reports that the host waits for any one operation */
/* Reports the position of a device in the machine, which only NCCL knows. machine_rank: rank that the device's GPU
 * would have if every node had the profile's gpus_per_node GPUs. */
void emu_set_machine_rank(int device, int machine_rank);
#define EMU_FAILED INT64_MIN /* return value of run(): the operation failed, and its device gets a sticky error */

/*
 * emu_enqueue - add an operation to a stream (0, legacy and per-thread handles as in CUDA), or to the graph that the
 * stream is captured into.
 *   op       copied; during a capture the graph becomes the owner of arg and calls `release`
 *   Returns  the same CUDA errors as the public calls; after an error the caller still owns arg
 */
cudaError_t emu_enqueue(cudaStream_t stream, const struct emu_op *op);

/*
 * emu_enqueue_joined - add one operation to several streams (an NCCL group over several user streams). The operation is
 * queued on streams[0] and starts when all streams have reached it; the other streams wait for its end.
 *   streams  [n] streams of this process
 */
cudaError_t emu_enqueue_joined(const cudaStream_t *streams, int n, const struct emu_op *op);

/* Returns the name of a kernel that is not loaded on the device yet (EMU_LAZY_LOADING), or NULL if all kernels are
 * loaded. A query of a kernel's attributes or a launch loads the kernel. */
const char *emu_unloaded_kernel(int device);

bool emu_capturing(cudaStream_t stream);
void emu_skip_streams(int device, int n);   /* accounts for n internal streams that a library created, which occupy
                                             hardware queues */
int emu_stream_device(cudaStream_t stream); /* returns the device on which the stream was created, -1 for an invalid
                                               handle */
int64_t emu_host_now_ns(void);              /* returns the host clock of this process */
void emu_host_advance_ns(int64_t ns);       /* advances the host clock by the cost of issuing an operation */
void emu_host_reach_ns(int64_t ns); /* sets the host clock to ns after a synchronising call, unless it is already
                                       later */

/* Returns true at process exit and after a device failure. A wait for peers inside run() must then end, so it must
 * call this function at least every 100 ms. */
bool emu_stopping(void);

/* emu_machine - the machine (proxies/simulation/machine/cluster.h), read once per process from the profile
 * $EMU_CLUSTER.
 * emu_slow - the slow parts of the machine ($EMU_SLOW). */
struct bb_cluster;
const struct bb_cluster *emu_machine(void);
struct bb_slow;
const struct bb_slow *emu_slow(void);

/* Returns the location of GPU number `at` of a job with `all` GPUs. The GPUs fill the nodes in order. There are
 * EMU_NODES nodes of equal size or, if EMU_NODES is 0, nodes with the profile's gpus_per_node GPUs. */
struct emu_location {
    int node, gpu; /* gpu: index of the GPU within its node */
};
struct emu_location emu_location_of(int at, int all);
/* Returns the node of rank `at` of `all` by the profile's gpus_per_node, for host names; -1: all are on one node. */
int emu_profile_node(int at, int all);
int emu_gpu_number(struct emu_location location, int all); /* the inverse of emu_location_of: returns the number of
                                                              the GPU */
/* Effects of EMU_SLOW. emu_nic_factor, emu_leaf_factor - return the remaining fraction (0 to 1) of the rate of a
 * GPU's NICs and of the leaf uplinks of a machine rank. emu_slowed_ns - returns the duration on this device of a
 * kernel that takes ns on a device of normal speed. */
double emu_nic_factor(struct emu_location location);
double emu_leaf_factor(int machine_rank);
int64_t emu_slowed_ns(int device, int64_t ns);

/* Rates from which CPU twins compute the duration of a kernel: achieved rates of the machine, or nominal rates if
 * the profile has no achieved rates. tflops_*: TFLOP/s. */
struct emu_profile {
    int sm_count;
    double kernel_us, memory_gbps;
    double tflops_float32, tflops_float16, tflops_bfloat16, tflops_float64;
};
/* prints one line about an invalid environment variable, on ranks other than 0 after 2 s, and exits with status 2 */
void emu_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
int emu_env_number(const char *name, int max); /* returns the value (0 to max) of an environment variable, 0 if
                                                  unset; ends the process if the value is invalid */
bool emu_moves_data(void); /* returns false with EMU_DATA=off: no data is read or written, only time passes */
int emu_world_rank(void);  /* rank from the launcher's environment; 0 without a launcher */
int emu_world_size(void);

/* emu_alloc_physical - allocate memory like cuMemCreate, with a size rounded up to the granularity; cudaFree
 * releases it. emu_has_physical_memory - return whether the driver has the cuMem functions. emu_physical_file - return
 * the file descriptor of the physical memory that contains `bytes` bytes at the pointer, and their offset in the file;
 * -1: not in one such allocation. Another process maps the file through /proc/PID/fd. */
cudaError_t emu_alloc_physical(void **out, size_t bytes);
int emu_physical_file(const void *pointer, size_t bytes, size_t *offset);
bool emu_has_physical_memory(void);

/*
 * emu_fault - fault injection: apply a fault to the current call. Every public CUDA and NCCL function that can fail
 * calls emu_fault first. $EMU_FAULT is parsed once, for example "die:rank=2,call=5", "stall:rank=1,call=3" or
 * "fail:rank=0,call=7". Several faults are separated by ';'. name=FUNCTION counts only calls of that function. The
 * faults `die` and `stall` take effect inside emu_fault, which then does not return.
 *   Returns  true if the call must report a failure
 */
bool emu_fault(const char *function);
/* Returns true if one byte of the data that this NCCL operation delivers must be corrupted, for example with
 * "corrupt:rank=0,call=1". `call` counts NCCL operations. */
bool emu_fault_corrupts(const char *function);

#ifdef __cplusplus
}
#endif
#endif
