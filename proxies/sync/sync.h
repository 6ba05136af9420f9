/*
 * sync.h - how the replicas of a model are kept together: what is communicated for gradients and parameters around the
 * layers' compute. One struct bb_sync belongs to one role's program and one group of replicas (data parallel; of
 * experts the expert-data-parallel ranks): the builder calls the hooks around each unit's forward and backward, and
 * they write the operations, their waits and the optimizer through the builder's script.
 *
 * A unit is what the builder computes at once, a layer or a block; units stand in forward order, their tensors in the
 * order of registration. Gradients are ready when their unit's backward has been issued.
 *
 *   all_reduce   PyTorch DDP: buckets in reverse order of registration, one all-reduce each as soon as it is full,
 *                always in the order of the buckets, in the backward of the last micro-batch
 *   horovod      the same with tensor fusion: what became ready within a cycle, up to a threshold; copied in and out
 *                (its negotiation, and waiting for the cycle's end, are left out)
 *   zero1        DeepSpeed/ZeRO-1: reduce-scatter instead, optimizer on the own shard, all-gather of parameters
 *   zero2        the same, every micro-batch, each bucket as soon as it is full; full buckets are freed again
 *   zero3        FSDP FULL_SHARD: parameters gathered unit by unit for forward and again for backward, the next unit
 *                prefetched; the gather of unit u-1 is issued before the reduce-scatter of unit u, since both share
 *                one communicator (or have one each)
 *   hsdp         zero3 in the shard group (a node), then an all-reduce of the shard over the replica group
 *   distributed  Megatron-LM's distributed optimizer: zero1 in its buckets; with overlap_gather the parameters' gather
 *                moves under the next forward: a step begins with it, each unit waits for its own buckets
 *
 * With one replica nothing is communicated and only the optimizer is left.
 */
#ifndef BB_PROXIES_SYNC_SYNC_H
#define BB_PROXIES_SYNC_SYNC_H

#include "cuda/work/memory_kernel.h"
#include "proxies/author/script.h"
#include "proxies/models/transformer_model.h"
#include "proxies/sync/buckets.h"

enum bb_sync_kind {
    BB_SYNC_ALL_REDUCE,
    BB_SYNC_HOROVOD,
    BB_SYNC_ZERO1,
    BB_SYNC_ZERO2,
    BB_SYNC_ZERO3,
    BB_SYNC_HSDP,
    BB_SYNC_DISTRIBUTED,
    BB_SYNC_PS, /* the parameter servers of `data_parallel` (replicas/servers.h); bb_sync_init refuses them */
    BB_SYNC_PS_P2P,
    BB_SYNC_PS_SHARDED,
    BB_SYNC_KINDS
};
extern const char *const bb_sync_names[BB_SYNC_KINDS + 1]; /* by enum, NULL at the end: words of --sync              */
extern const char *const bb_dp_sync_names[BB_SYNC_PS + 1]; /* without the parameter servers: words of --dp-sync      */

/* What the options mean, without any layout. */
struct bb_dp_config {
    enum bb_sync_kind kind;
    struct bb_bucket_rule rule;
    enum bb_dtype_id params, grads; /* element types of gathered parameters and of reduced gradients    */
    enum bb_memory_kernel_kind optimizer;    /* BB_MEMORY_KERNEL_SGD, with momentum, or BB_MEMORY_KERNEL_ADAM */
    bool precision_aware;           /* distributed: no float copies of bfloat16 parameters and of gradients     */
    bool hierarchical;              /* all_reduce, horovod: inside the node, across nodes, inside the node        */
    bool reduce_whole;              /* zero1, zero2: all-reduce each bucket, keep the own slice (DeepSpeed's default) */
    bool overlap_gather;            /* distributed                                                              */
    bool own_gather_comm;           /* zero3, hsdp: gathers and reductions on communicators of their own         */
    bool no_overlap;                /* reductions only after the whole backward                                 */
    bool no_sync;                   /* zero2, zero3, hsdp: only the last micro-batch reduces                     */
    int shard;                      /* hsdp, distributed: ranks of a shard group; 0: those of a node (hsdp), all */
    int servers;                    /* ps_sharded                                                               */
};

/*
 * bb_sync_settle - the policy that the options of config->sync mean for that kind. What does not fit the kind is said,
 * -BB_EUSAGE. params, grads: types unless --grad-dtype says otherwise.
 */
int bb_sync_resolve(const struct bb_proxy_config *config, enum bb_sync_kind kind, enum bb_dtype_id params,
                    enum bb_dtype_id grads, struct bb_dp_config *policy) BB_MUST_CHECK;

/* What a kind does: optimizer and reductions on shards; parameters gathered unit by unit; reductions for each
 * micro-batch instead of once. */
bool bb_sync_is_sharded(enum bb_sync_kind kind);
bool bb_sync_gathers_parameters(enum bb_sync_kind kind);
bool bb_sync_reduces_every_micro_batch(const struct bb_dp_config *policy);

/* Communicators (indices into the layout's) and their sizes; BB_NONE where there is none. */
struct bb_sync_comms {
    int gradients, parameters; /* over the shard group, else over all replicas; parameters may be == gradients */
    int replicas;              /* between shard groups: hsdp, distributed                                 */
    int local, cross;          /* hierarchical: ranks of a node; the same place in each node              */
    int n, n_replicas, n_local, n_cross;
};

/*
 * bb_sync_add_comms - adds what the policy needs over `group` of the step's layout: "dp shard" and "dp replica", "dp
 * local" and "dp cross" are cut out of it in runs of policy->shard or gpus_per_node ranks, named after the group.
 * group BB_NONE, or of size 1: no communicators. Ranks that don't divide: said with the nearest, -BB_EUSAGE.
 */
int bb_sync_add_comms(struct bb_step *step, const struct bb_dp_config *policy, int group, int gpus_per_node,
                   struct bb_sync_comms *comms) BB_MUST_CHECK;

/* bb_sync_hierarchy_comms - "ep local" and "ep cross" of a group "ep", cut out by nodes as for a hierarchical sum: sets
 * comms->local, cross, n_local, n_cross. `option`: what needs several nodes with several of the group's ranks, as many
 * on each; without them said, -BB_EUSAGE. */
int bb_sync_hierarchy_comms(struct bb_step *step, int group, int gpus_per_node, const char *option,
                   struct bb_sync_comms *comms) BB_MUST_CHECK;

struct bb_sync_unit {
    const char *name;                /* outlives the program                                                     */
    const struct bb_tensor *tensors; /* what this rank holds before sharding over the replicas; outlive the sync  */
    int n;
    bool tied;     /* the last unit needs its parameters, too (a tied table); of one unit at most. zero3, hsdp: it
                           stays gathered from its forward to the last's, and from the last's backward to its own */
    int chunk;          /* units of other chunks are not prefetched (interleaved pipelines)                     */
    double backward_us; /* horovod: time of its backward for one micro-batch; 0 everywhere: all ready at once   */
};

struct bb_sync_spec {
    const struct bb_dp_config *policy;
    struct bb_sync_comms comms;
    struct bb_step *step; /* for texts and works                                                                */
    struct bb_script *script;
    const struct bb_sync_unit *units; /* outlive the sync; in forward order                                    */
    int n_units;
    bool holds_remainder; /* hierarchical: this role is the last of its node's ranks, which sums what does not divide */
};

struct bb_sync; /* opaque */

/* bb_sync_init - *s with its streams and buffers added to the script's program. It is to be released also after an
 * error; release is fine on NULL. */
int bb_sync_init(struct bb_sync **s, const struct bb_sync_spec *spec) BB_MUST_CHECK;
void bb_sync_release(struct bb_sync *s);

/* Around each unit and micro-batch; they set the script's phase for their own operations and put it back. Failures
 * stick in the script. `last`: of the step's micro-batches on this rank, whose gradients are then complete. */
void bb_sync_begin_step(struct bb_sync *s);                           /* before the first operation of the step         */
void bb_sync_before_forward(struct bb_sync *s, int unit);               /* before its forward: parameters are there       */
void bb_sync_after_forward(struct bb_sync *s, int unit);             /* after it                                       */
void bb_sync_before_backward(struct bb_sync *s, int unit);              /* before its backward                            */
void bb_sync_after_backward(struct bb_sync *s, int unit, bool last); /* after it (its weights' gradients): may reduce */
void bb_sync_wait_reductions(struct bb_sync *s);                         /* waits for all reductions; before a gradient norm */
void bb_sync_finish_step(struct bb_sync *s);                          /* bb_sync_wait_reductions, optimizer, gathers             */

/* ---- what servers.h needs as well ---- */

/* bb_sync_arrivals - the tensors in the order in which their gradients come: units and their tensors backwards. What
 * must not share a bucket is of another type: apart, each unit; else chunks. Returns their number, or -BB_EFAIL. */
int bb_sync_arrivals(const struct bb_sync_unit *units, int n_units, bool apart, struct bb_gradient_arrival **arrivals);

/* bb_sync_memory_kernel - a pass over memory on the compute stream: as real work, or as long as it would take at least. */
void bb_sync_memory_kernel(struct bb_script *s, struct bb_step *step, const char *what, const struct bb_script_memory_kernel *how);

/* bb_sync_memory - what training holds for `parameters` local parameters over comms->n ranks, by formula:
 * bytes[BB_USE_PARAMETERS], [BB_USE_GRADIENTS], [BB_USE_OPTIMIZER] are added to (ZeRO paper; Megatron-LM's
 * dist_optimizer: 16-bit parameters keep a float copy in the optimizer). */
void bb_sync_memory(const struct bb_dp_config *policy, const struct bb_sync_comms *comms, double parameters,
                    double bytes[BB_USES]);

/* bb_sync_update_peak_bytes - what the update has beside that, when no activations are there: Megatron-LM's float copy of a
 * shard of 16-bit gradients, which it lets go of behind the update (distrib_optimizer.py, zero_grad). */
double bb_sync_update_peak_bytes(const struct bb_dp_config *policy, const struct bb_sync_comms *comms, double parameters);

/* bb_sync_add_update_peak - the same is added to bytes[BB_USE_OPTIMIZER], as far as the activations leave it no room. */
void bb_sync_add_update_peak(double update_bytes, double bytes[BB_USES]);

#endif
