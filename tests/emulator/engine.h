/*
 * engine.h - what the stand-in libraries share: devices, virtual time, streams served by worker threads, the cluster
 * profile and the planted faults. Implemented in the libcudart stand-in, which exports these functions under the
 * version node EMU_1 beside the public CUDA symbols; the NCCL and cuBLASLt stand-ins link against it.
 *
 * Time is int64 nanoseconds. In virtual mode every host thread's issue advances the process's host clock by modelled
 * costs only; in real mode (EMU_TIME=real) an operation also occupies its stream for its duration on the wall clock.
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

/* One asynchronous operation on a stream. Captured operations are replayed at every graph launch, so `run` may be
 * called several times with the same arg, never twice at once; `release` is called once, when the operation can never
 * run again. */
struct emu_op {
    const char *name;                            /* for traces and error messages, static storage                  */
    int64_t (*run)(void *arg, int64_t ready_ns); /* on the stream's worker thread; does the work (may block on     */
                                                 /* peers), returns its end time >= ready_ns, or EMU_FAILED        */
    void (*release)(void *arg);                  /* may be NULL                                                    */
    void *arg;
    int64_t host_ns;           /* the host clock's advance for issuing it                        */
    int entries;               /* of the launch queue, beside its own: events that come with it   */
    struct emu_demand *demand; /* lives as long as arg; NULL: it takes nothing that others miss */
};

/* The parts of a machine that move an operation's bytes: links within the node, the device's memory, its NICs, and the
 * uplinks of its leaf and its pod, which other GPUs use, too. */
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

/* What an operation takes of a machine whose profile has "sharing", and what it loses there (contention.c): a kernel's
 * duration, or what NCCL's does, which holds multiprocessors from its launch on and moves bytes while it transfers. */
struct bb_kernel_list_item;

/* A message of an exchange: to or from a member, and what it takes beside what its two ends' links do. */
struct emu_message {
    int peer;
    bool sends;
    double latency_ns;
};

/* Operations of one communicator, in the order of issue; kept by whoever owns it. */
struct emu_order {
    uint64_t turn;    /* collectives so far         */
    int lane, moment; /* of the latest one, its end */
};
void emu_order_release(struct emu_order *order);

/* Whom an operation of NCCL on_job_timeline, where one view is taken of all processes of a job (timeline.h): the other members of
 * a communicator, or the peers of its messages. */
struct emu_peers {
    uint64_t comm; /* the same number on all of its ranks */
    int rank, members;
    bool (*is_over)(const struct emu_peers *peers); /* it was aborted: nobody else may come */
    const void *owner;
    const struct emu_message *messages; /* of an exchange */
    int n_messages;                     /* 0: a collective */
};

struct emu_demand {
    double alone_ns;                           /* of a kernel; of what an exchange copies      */
    const struct bb_kernel_list_item *gemm; /* a kernel that takes multiprocessors; NULL: none               */
    bool by_memory;                            /* a kernel that takes memory                                    */
    bool waits;                                /* for the host to let it end                                    */
    int sms;                                   /* that NCCL holds, 0: a kernel                                  */
    double latency_ns, transfer_ns;            /* of NCCL's, alone                                              */
    double bytes[EMU_PARTS];                   /* that each part moves for it                                   */
    double others[EMU_PARTS];                  /* that they are taken to move for other GPUs at the same time   */
    double pace_gbps;                          /* of the part that bounds it; 0: of the busiest one             */
    struct emu_order *order;                   /* it begins when the one before has ended; NULL: whenever       */
    const struct emu_peers *peers;         /* NULL: it on_job_timeline nobody here                                    */
    int64_t extra_ns;                          /* what this run of it loses; there when it runs                 */
};
void emu_host_waits_for_all(void); /* the host waits for operations by itself */
/* Inside run() of an operation that on_job_timeline others: waits until it is known when it ends; 0: nobody knows. */
int64_t emu_end_ns(void);

/* Of the timeline that this process has with others of its job, 0: it has its own. Where all members of a communicator
 * have the same, their operations meet in it. */
uint64_t emu_timeline_name(void);
/* The host waits for other processes by other means, and has waited; nobody knows what it waits for. */
void emu_host_away(void);
void emu_host_back(void);
void emu_host_lost(void);
void emu_host_waits_for_one(void); /* until an operation of its own has ended */
/* NCCL knows where a device of this process is: its rank where all nodes have the profile's GPUs. */
void emu_set_machine_rank(int device, int machine_rank);
#define EMU_FAILED INT64_MIN /* the operation failed: the stream gets a sticky error                               */

/* Put op on a stream (0 / legacy / per-thread handles as in CUDA), or into the graph being captured. In capture,
 * release moves to the graph. Returns a CUDA error as the public calls do; on an error arg stays the caller's. */
cudaError_t emu_enqueue(cudaStream_t stream, const struct emu_op *op);

/* One operation that occupies several streams (an NCCL group over several user streams): it is put on streams[0],
 * starts when all of them are free, and the others wait for it. All streams belong to this process. */
cudaError_t emu_enqueue_joined(const cudaStream_t *streams, int n, const struct emu_op *op);

/* The name of a kernel of the program that was not loaded on the device, by its attributes or a launch; NULL: none. */
const char *emu_unloaded_kernel(int device);

bool emu_capturing(cudaStream_t stream);
void emu_skip_streams(int device, int n);   /* a library made n streams of its own: they take hardware queues       */
int emu_stream_device(cudaStream_t stream); /* device the stream was made on                                    */
int64_t emu_host_now_ns(void);              /* the process's host clock                                         */
void emu_host_advance_ns(int64_t ns);       /* issuing something costs host time                                */
void emu_host_reach_ns(int64_t ns);         /* a synchronising call moves the host clock forward, never back    */

/* A wait inside run() on peers must end when the process tears down or a device fails; poll this at least every 100 ms.
 */
bool emu_stopping(void);

/* The machine (proxies/machine/cluster.h), read once per process from the profile that $EMU_CLUSTER names. */
struct bb_cluster;
const struct bb_cluster *emu_machine(void);
struct bb_slow;
const struct bb_slow *emu_slow(void);

/* Where the at-th of a job's GPUs is: on one of EMU_NODES nodes of consecutive ones, or of gpus_per_node each. */
struct emu_location {
    int node, gpu; /* gpu: of its node */
};
struct emu_location emu_location_of(int at, int all);
int emu_gpu_number(struct emu_location location, int all); /* the other way round */
/* EMU_SLOW: what is left of the rate of a GPU's NICs; of its leaf's uplinks, by the rank that it has where all nodes are
 * full; how long a kernel lasts there that takes so long elsewhere. */
double emu_nic_factor(struct emu_location location);
double emu_leaf_factor(int machine_rank);
int64_t emu_slowed_ns(int device, int64_t ns);

/* What a twin reckons with: the rates that kernels of that machine reach, nominal ones where nothing else is known. */
struct emu_profile {
    int sm_count;
    double kernel_us, memory_gbps;
    double tflops_float32, tflops_float16, tflops_bfloat16, tflops_float64;
};
int emu_env_number(const char *name, int most); /* 0 without it; ends the process when it is none of 0 to most */
bool emu_moves_data(void);                      /* false with EMU_DATA=off: no byte is touched, only time passes     */
int emu_world_rank(void);                       /* from the launcher's environment, 0 without one                   */
int emu_world_size(void);

/* Memory as cuMemCreate makes it, in whole units of its granularity, freed by cudaFree; whether the driver has such. */
cudaError_t emu_alloc_physical(void **out, size_t bytes);
bool emu_has_physical_memory(void);

/* Planted faults, parsed once from $EMU_FAULT: "die:rank=2,call=5", "stall:rank=1,call=3", "corrupt:rank=0,call=1",
 * "fail:rank=0,call=7" (several with ';'; optional name=FUNCTION restricts the count to calls of that function).
 * Every public CUDA and NCCL entry point that can fail calls emu_fault first; die and stall happen inside.
 * Returns true when this call must report failure. */
bool emu_fault(const char *function);
/* true when the data that this operation delivers must be corrupted by one byte (counted per NCCL operation). */
bool emu_fault_corrupts(const char *function);

#ifdef __cplusplus
}
#endif
#endif
