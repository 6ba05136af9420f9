/*
 * engine.h - the engine of the emulated GPUs, which the stand-in libraries share: devices, virtual time, streams served
 * by worker threads, the cluster profile, and fault injection.
 *
 * The libcudart stand-in implements and exports these functions under the version node EMU_1, next to the public CUDA
 * symbols. The NCCL and cuBLASLt stand-ins link against it.
 *
 * Times are int64 nanoseconds. With EMU_TIME=virtual (the default) issuing an operation advances the host clock of the
 * process by the modelled cost only. With EMU_TIME=real an operation also occupies its stream for its duration in wall
 * clock time.
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
 * called several times with the same arg, but never concurrently. `release` is called once, when the operation can
 * never run again. */
struct emu_op {
    const char *name; /* for error messages; static storage */
    /* Runs on the stream's worker thread and does the work; it may block on peers. Returns its end time, at least
     * ready_ns, or EMU_FAILED. */
    int64_t (*run)(void *arg, int64_t ready_ns);
    void (*release)(void *arg); /* may be NULL */
    void *arg;
    int64_t host_ns;           /* host time that issuing the operation takes */
    int entries;               /* extra launch queue entries: the events around it */
    struct emu_demand *demand; /* what it takes from shared resources, with the lifetime of arg; NULL: nothing */
};

/* The resources that move an operation's bytes: links within the node, the device's memory, its NICs, and the
 * uplinks of its leaf and of its pod. NICs and uplinks may be shared with other GPUs. */
enum emu_part {
    EMU_LINK_OUT,
    EMU_LINK_IN,
    EMU_MEMORY,
    EMU_NIC_OUT,
    EMU_NIC_IN,
    EMU_LEAF_OUT,
    EMU_LEAF_IN,
    EMU_POD_OUT,
    EMU_POD_IN,
    EMU_PARTS
};

struct bb_kernel_list_item;

/* One message of a send/receive exchange. */
struct emu_message {
    int peer;
    bool sends;
    double latency_ns;
};

/* The issue order of the operations of one communicator. Owned by the communicator. */
struct emu_order {
    uint64_t turn;    /* number of collectives issued so far */
    int lane, moment; /* timeline lane of the latest operation, and the moment at which that operation ends; 0: none */
};
void emu_order_release(struct emu_order *order);

/* The communicator and the peers of an NCCL operation, for a timeline that all processes of a job share
 * (timeline.h). A collective waits for all members of the communicator, an exchange for the peers of its messages. */
struct emu_peers {
    uint64_t comm; /* id of the communicator, equal on all its ranks */
    int rank, members;
    bool (*is_over)(const struct emu_peers *peers); /* true when the communicator was aborted, so that missing peers
                                                       may never arrive */
    const void *owner;
    const struct emu_message *messages; /* [n_messages] of an exchange */
    int n_messages;                     /* 0: a collective */
};

/* The demand of an operation on resources that other operations use at the same time, for machines whose profile has
 * "sharing" (contention.c). A kernel has a duration; an NCCL operation holds SMs from its launch on and moves bytes
 * while it transfers. */
struct emu_demand {
    double alone_ns; /* a kernel: its duration; an exchange: duration of its copies to the own rank */
    const struct bb_kernel_list_item *gemm; /* a GEMM kernel, which slows down when NCCL holds SMs; NULL: any other
                                               operation */
    bool by_memory;                 /* a memory-bound kernel, which slows down when NCCL uses memory bandwidth */
    bool waits;                     /* a start barrier kernel, which runs until the host lets it end */
    int sms;                        /* SMs that the NCCL operation holds from its launch on; 0: a kernel */
    double latency_ns, transfer_ns; /* of the NCCL operation when it runs alone */
    double bytes[EMU_PARTS];        /* bytes that each resource moves for this operation */
    double others[EMU_PARTS];       /* bytes that other GPUs are assumed to move over each resource at the same time */
    double pace_gbps;        /* rate of the bottleneck in GB/s; 0: the highest rate over all resources but memory */
    struct emu_order *order; /* the operation begins after the communicator's previous one; NULL: no such order */
    const struct emu_peers *peers; /* NULL: the operation does not wait for peers on this timeline */
    int64_t extra_ns;              /* out: delay of this run by contention, in ns; set before the run */
};
void emu_host_waits_for_all(void); /* The host thread waits until all operations of this process have ended (without
                                      a CUDA call). */
/* Call inside run() of an operation with peers. Waits until the timeline knows when the operation ends. Returns the
 * end time, or 0 when it cannot be known. */
int64_t emu_end_ns(void);

/* Id of the timeline that this process shares with other processes of its job; 0: its own timeline. The ranks of a
 * communicator synchronize on the timeline if all of them have the same id. */
uint64_t emu_timeline_name(void);
/* Report the start and the end of a wait for other processes outside CUDA and NCCL (MPI). emu_host_lost: the start
 * of a wait whose partners are unknown to the timeline. */
void emu_host_away(void);
void emu_host_back(void);
void emu_host_lost(void);
void emu_host_waits_for_one(void); /* the host thread waits until one operation of this process has ended */
/* Report the position of a device in the machine, which NCCL knows: its rank if every node had the profile's
 * gpus_per_node GPUs. */
void emu_set_machine_rank(int device, int machine_rank);
#define EMU_FAILED INT64_MIN /* returned by run(): the operation failed, and its device gets a sticky error */

/*
 * emu_enqueue - put an operation on a stream (0, legacy and per-thread handles as in CUDA), or into the graph that is
 * being captured.
 *   op       copied; in capture the graph takes over `release`
 *   Returns  a CUDA error as the public calls do; after an error arg still belongs to the caller
 */
cudaError_t emu_enqueue(cudaStream_t stream, const struct emu_op *op);

/*
 * emu_enqueue_joined - put one operation on several streams (an NCCL group over several user streams). It is queued on
 * streams[0], starts when all streams reach it, and the other streams wait for its end.
 *   streams  [n] streams of this process
 */
cudaError_t emu_enqueue_joined(const cudaStream_t *streams, int n, const struct emu_op *op);

/* The name of a kernel that is not loaded on the device yet (EMU_LAZY_LOADING); a query of its attributes or a
 * launch loads it. NULL: all kernels are loaded. */
const char *emu_unloaded_kernel(int device);

bool emu_capturing(cudaStream_t stream);
void emu_skip_streams(int device, int n);   /* a library created n internal streams, which take hardware queues */
int emu_stream_device(cudaStream_t stream); /* the device that the stream was created on, -1 for an invalid handle */
int64_t emu_host_now_ns(void);              /* the host clock of this process */
void emu_host_advance_ns(int64_t ns);       /* adds the host time of issuing something */
void emu_host_reach_ns(int64_t ns);         /* a synchronising call moves the host clock forward to ns, never back */

/* True at process exit or after a device failure. A wait for peers inside run() must then end: poll this function at
 * least every 100 ms. */
bool emu_stopping(void);

/* The machine (proxies/machine/cluster.h), read once per process from the profile $EMU_CLUSTER, and the slow parts
 * of EMU_SLOW. */
struct bb_cluster;
const struct bb_cluster *emu_machine(void);
struct bb_slow;
const struct bb_slow *emu_slow(void);

/* The location of GPU number `at` of a job with `all` GPUs. GPUs fill nodes in order: EMU_NODES nodes of equal size,
 * or nodes of the profile's gpus_per_node. */
struct emu_location {
    int node, gpu; /* gpu: index within its node */
};
struct emu_location emu_location_of(int at, int all);
int emu_gpu_number(struct emu_location location, int all); /* the inverse of emu_location_of */
/* EMU_SLOW: the remaining fraction (0 to 1) of the rate of a GPU's NICs; the same for the leaf uplinks of a machine
 * rank; and the duration on this device of a kernel that takes ns on a normal one. */
double emu_nic_factor(struct emu_location location);
double emu_leaf_factor(int machine_rank);
int64_t emu_slowed_ns(int device, int64_t ns);

/* Rates for the duration of a kernel in a CPU twin: achieved rates of the machine, nominal ones where the profile
 * has no achieved rate. */
struct emu_profile {
    int sm_count;
    double kernel_us, memory_gbps;
    double tflops_float32, tflops_float16, tflops_bfloat16, tflops_float64;
};
int emu_env_number(const char *name, int max); /* value of an environment variable, 0 to max; 0 if unset; ends the
                                                   process if invalid */
bool emu_moves_data(void); /* false with EMU_DATA=off: no data is read or written, only time passes */
int emu_world_rank(void);  /* from the launcher's environment; 0 without a launcher */
int emu_world_size(void);

/* Memory as cuMemCreate allocates it, in whole units of the granularity; cudaFree releases it.
 * emu_has_physical_memory: whether the driver has the cuMem functions. */
cudaError_t emu_alloc_physical(void **out, size_t bytes);
bool emu_has_physical_memory(void);

/*
 * emu_fault - fault injection: decide the fate of one call. Every public CUDA and NCCL function that can fail calls
 * this first. $EMU_FAULT is parsed once, for example "die:rank=2,call=5", "stall:rank=1,call=3", "fail:rank=0,call=7"
 * (several are separated by ';'; name=FUNCTION counts calls of that function only). A die or stall fault takes effect
 * inside.
 *   Returns  true when this call must report failure
 */
bool emu_fault(const char *function);
/* True when one byte of the data that this operation delivers must be corrupted ("corrupt:rank=0,call=1"; counts
 * NCCL operations). */
bool emu_fault_corrupts(const char *function);

#ifdef __cplusplus
}
#endif
#endif
