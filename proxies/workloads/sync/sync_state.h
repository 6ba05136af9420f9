/*
 * sync_state.h - the state of the synchronization of one role, which sync.c and servers.c share while the role's
 * program is generated. Internal to proxies/workloads/sync.
 */
#ifndef BB_PROXIES_WORKLOADS_SYNC_SYNC_STATE_H
#define BB_PROXIES_WORKLOADS_SYNC_SYNC_STATE_H

#include "proxies/workloads/sync/sync.h"

/* Number of buffers for gathered parameters that all units (layers) use in turn: one for the current unit and one
 * for the prefetched unit. */
#define BB_SYNC_SLOTS 2

struct bb_bucket_state {
    size_t count;                    /* number of gradient elements in the bucket, including padding */
    size_t params;                   /* number of elements of its parameters, with the frozen ones and padding */
    enum bb_dtype_id gathered_dtype; /* element type in which its parameters are gathered */
    int first_unit;                  /* lowest index of a unit (layer of the model) that has tensors in the bucket */
    int units, ready; /* units: number of units (layers) with tensors in the bucket; ready: how many of them have
                         finished their backward since the bucket's last reduction */
    bool fused;       /* true: the bucket has several tensors, which Horovod copies into the fusion buffer before the
                   reduction and back after it */
    int full, shard;  /* indices of the bucket's gradient buffers: `full` for the full gradients, `shard` for this
                        rank's shard of them (equal to `full` without sharding) */
    int param_shard, param_full; /* indices of the bucket's parameter buffers: this rank's shard, and all parameters;
                                    BB_NONE: no such buffer */
    /* Indices of operations in the program; BB_NONE: not added yet. reduced: the last operation of the bucket's
     * reduction, or of its push to a parameter server; gathered: the all-gather of the bucket's parameters. */
    int reduced, gathered;
    const char *what, *gather_what;
};

/* A buffer for full gradients that several buckets use in turn. last_read: index of the last operation that reads the
 * buffer; BB_NONE: the buffer is free. */
struct bb_shared_gradients {
    int buffer, last_read;
};

/* A buffer for gathered parameters. unit: the unit (layer) whose parameters it contains, BB_NONE: free; op: index of
 * the all-gather in the program; buffer: index of the buffer in the program. */
struct bb_sync_slot {
    int unit, op, buffer;
};

struct bb_sync {
    struct bb_sync_spec spec;
    struct bb_dp_config policy;
    struct bb_script *script;
    struct bb_script_lane gradients, parameters, replicas, local, cross;
    struct bb_gradient_arrival *arrivals;
    struct bb_buckets bucketing;
    struct bb_bucket_state *buckets;
    int n;
    /* n_elements: number of gradient elements, summed over all units; largest: number of gradient elements of the
     * largest bucket; largest_params: its gathered parameters in elements of policy.params */
    size_t n_elements, largest, largest_params;
    /* gathers: the parameters of each unit (layer) are all-gathered before the unit uses them (zero3, hsdp);
     * every_micro_batch: every micro-batch reduces its gradients, not only the last one. */
    bool gathers, every_micro_batch;
    int next;     /* index of the next bucket to reduce, if the buckets are reduced in order of their indices */
    int n_shared; /* number of buffers for full gradients that the buckets share in turn; 0: each bucket has its own
                     buffer */
    struct bb_shared_gradients *shared; /* [n_shared] */
    /* Buffers for gathered parameters, each of which holds the parameters of one unit (layer) at a time. Units use
     * the first BB_SYNC_SLOTS buffers in turn. The last buffer is reserved for the unit with tied embeddings. */
    struct bb_sync_slot slots[BB_SYNC_SLOTS + 1];
    int latest_slot, tied; /* latest_slot: index in `slots` of the parameter buffer that was used most recently;
                              tied: index of the unit (layer) with tied embeddings, BB_NONE: there is none */
    struct bb_script_lane push[BB_SERVER_LANES], pull[BB_SERVER_LANES]; /* parameter servers: lanes of this role */
    int *receive; /* [2 sets][workers] indices of the receive buffers of a dedicated parameter server, else NULL */
};

/*
 * bb_sync_memory_kernel - add a memory-bound kernel over `count` elements to the compute stream, executed `times`
 * times. With --compute timed, its duration is its memory traffic in bytes divided by bb_script.memory_gbps.
 *   src, dst  the buffers that the kernel reads and writes, or BB_NONE
 */
void bb_sync_memory_kernel(struct bb_sync *s, const char *what, enum bb_memory_kernel_kind kind, size_t count,
                           int times, int src, int dst);

/*
 * Parameter servers (servers.c):
 * bb_server_buffers  - add the lanes and buffers of one role, the workers or one server. If there are more servers than
 *                      buckets, print an error line and set the error of the program, which bb_script_result returns.
 * bb_server_push     - workers: add the push of the gradients of bucket b.
 * bb_server_finish   - workers: add the pulls after all pushes have been added; servers: add the whole program.
 */
void bb_server_buffers(struct bb_sync *s);
void bb_server_push(struct bb_sync *s, int b);
void bb_server_finish(struct bb_sync *s);

/*
 * bb_server_comms - add the communicators for pushes and pulls to the layout of the step.
 *   group    index of the group of all ranks of the step
 *   comms    in/out: n is set; sets push, pull, lanes and servers
 *   Returns  0, or -BB_EUSAGE after printing an error line with the minimum number of ranks if no rank is left for a
 *            worker
 */
int bb_server_comms(struct bb_step *step, const struct bb_dp_config *policy, int group,
                    struct bb_sync_comms *comms) BB_MUST_CHECK;

#endif
