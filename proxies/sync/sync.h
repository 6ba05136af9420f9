/*
 * sync.h - data-parallel synchronisation: the communication of gradients and parameters between the replicas of a
 * model, and the optimizer. PyTorch DDP, Horovod, ZeRO-1/2/3 (DeepSpeed, FSDP), HSDP and Megatron-LM's distributed
 * optimizer.
 *
 * A struct bb_sync belongs to one role's program and one group of replicas (the data-parallel group; for experts the
 * expert-data-parallel group). A unit is what the builder computes at once: a layer or a block. Units are numbered in
 * forward order. The builder writes the compute of each unit and calls the hooks below around it; the hooks append the
 * collectives, their waits and the optimizer through the builder's script.
 *
 * Call order for one step with units 0 .. n-1 and micro-batches 0 .. m-1, without pipelining:
 *
 *     bb_sync_init
 *     bb_sync_begin_step
 *     for each micro-batch:
 *         for unit = 0 .. n-1:
 *             bb_sync_before_forward(unit)                 forward compute   bb_sync_after_forward(unit)
 *         for unit = n-1 .. 0:
 *             bb_sync_before_backward(unit)                backward compute  bb_sync_after_backward(unit, last)
 *     bb_sync_wait_reductions                              only for work that needs all gradients, such as their norm
 *     bb_sync_finish_step bb_sync_release
 *
 * The builder may interleave micro-batches as a pipeline schedule does. The gradients of a unit are ready when its
 * backward kernels have been issued. They are reduced in buckets (buckets.h).
 *
 *   all_reduce   PyTorch DDP. One all-reduce per bucket, issued as soon as the bucket is full, always in bucket order,
 *                during the backward of the last micro-batch.
 *   horovod      all_reduce with tensor fusion: gradients that become ready within a cycle are fused up to a threshold
 *                and copied in and out of the fusion buffer. Negotiation, and waiting for the end of the cycle, are not
 *                modelled.
 *   zero1        ZeRO-1 (DeepSpeed). Reduce-scatter of gradients, optimizer on the local shard, all-gather of
 *                parameters.
 *   zero2        ZeRO-2. Like zero1, but each micro-batch reduces each bucket as soon as it is full, and the buffer of
 *                the full gradients is reused afterwards.
 *   zero3        ZeRO-3, FSDP FULL_SHARD. Parameters are gathered unit by unit before forward and again before
 *                backward. The next unit is prefetched. In backward the gather of unit u-1 is issued before the
 *                reduce-scatter of unit u, since both use one communicator unless own_gather_comm is set.
 *   hsdp         zero3 within a shard group (one node), then an all-reduce of the gradient shards over the replica
 *                group.
 *   distributed  Megatron-LM's distributed optimizer: zero1 with Megatron's buckets. With overlap_gather the step
 *                begins with the all-gather of parameters, which overlaps the forward: each unit waits for its own
 *                buckets.
 *
 * With one replica there is no communication; only the optimizer is written.
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
    BB_SYNC_PS, /* parameter servers of the proxy data_parallel (replicas/servers.h); bb_sync_init rejects them */
    BB_SYNC_PS_P2P,
    BB_SYNC_PS_SHARDED,
    BB_SYNC_KINDS
};
extern const char *const bb_sync_names[BB_SYNC_KINDS + 1]; /* values of --sync, indexed by the enum, NULL-terminated */
extern const char *const bb_dp_sync_names[BB_SYNC_PS + 1]; /* values of --dp-sync: without the parameter servers */

/* The synchronisation policy, independent of the layout. */
struct bb_dp_config {
    enum bb_sync_kind kind;
    struct bb_bucket_rule rule;
    enum bb_dtype_id params, grads;       /* element types of gathered parameters and of reduced gradients */
    enum bb_memory_kernel_kind optimizer; /* memory-bound kernel of the optimizer: SGD with momentum, or Adam */
    bool precision_aware; /* distributed: no float copies of bfloat16 parameters and gradients (Transformer Engine's
                             precision-aware FusedAdam) */
    bool hierarchical;    /* all_reduce, horovod: reduce-scatter in the node, all-reduce across nodes, all-gather in the
                          node */
    bool reduce_whole;    /* zero1, zero2: all-reduce each bucket and use only the local slice */
    bool overlap_gather;  /* distributed: all-gather of parameters overlaps the next forward */
    bool own_gather_comm; /* zero3, hsdp: gathers and reductions use separate communicators */
    bool no_overlap;      /* reductions start after the whole backward */
    bool no_sync;         /* zero2, zero3, hsdp: reduce only in the last micro-batch */
    int shard;   /* hsdp, distributed: ranks per shard group; 0: those of a node (hsdp), all replicas (distributed) */
    int servers; /* ps_sharded: number of parameter servers */
};

/*
 * bb_sync_resolve - resolve the options of config->sync for a kind of synchronisation.
 *   params, grads  element types; --grad-dtype takes precedence over grads
 *   policy         out
 *   Returns        0, or -BB_EUSAGE, after an error line, for an option that the kind does not support
 */
int bb_sync_resolve(const struct bb_proxy_config *config, enum bb_sync_kind kind, enum bb_dtype_id params,
                    enum bb_dtype_id grads, struct bb_dp_config *policy) BB_MUST_CHECK;

/* Properties of a kind: whether optimizer and reductions work on shards; whether parameters are gathered unit by
 * unit; whether every micro-batch reduces its gradients. */
bool bb_sync_is_sharded(enum bb_sync_kind kind);
bool bb_sync_gathers_parameters(enum bb_sync_kind kind);
bool bb_sync_reduces_every_micro_batch(const struct bb_dp_config *policy);

/* The communicators of a policy, as indices into the layout's communicators (BB_NONE: unused), and their sizes. */
struct bb_sync_comms {
    int gradients, parameters; /* shard group, or all replicas without one; may be the same communicator */
    int replicas;              /* hsdp, distributed: replica group, one rank of each shard group */
    int local, cross;          /* hierarchical: the ranks of a node; the ranks with the same index in their node */
    int n, n_replicas, n_local, n_cross;
};

/*
 * bb_sync_add_comms - add the groups and communicators of a policy to the step's layout.
 *   group    the group of replicas; BB_NONE or size 1: nothing is added
 *   comms    out
 *   Returns  0, -BB_EFAIL, or -BB_EUSAGE, after an error line with the nearest valid value, if shards do not divide the
 *            group
 *
 * The groups "dp shard" and "dp replica" split `group` into runs of policy->shard ranks, "dp local" and "dp cross" into
 * runs of the ranks on one node. Their names begin with the name of `group`.
 */
int bb_sync_add_comms(struct bb_step *step, const struct bb_dp_config *policy, int group, int gpus_per_node,
                      struct bb_sync_comms *comms) BB_MUST_CHECK;

/*
 * bb_sync_hierarchy_comms - split a group by nodes, for a hierarchical reduction: adds "<group> local" and "<group>
 * cross", and sets comms->local, cross, n_local and n_cross.
 *   option   the option that needs this, for the error line
 *   Returns  0, -BB_EFAIL, or -BB_EUSAGE, after an error line, unless the group has several nodes with the same number,
 *            above 1, of its ranks
 */
int bb_sync_hierarchy_comms(struct bb_step *step, int group, int gpus_per_node, const char *option,
                            struct bb_sync_comms *comms) BB_MUST_CHECK;

struct bb_sync_unit {
    const char *name;                /* must outlive the program */
    const struct bb_tensor *tensors; /* tensors that this rank has before sharding over the replicas, in registration
                                        order; must outlive the sync */
    int n;
    /* tied embeddings: the last unit uses this unit's parameters too; at most one unit. With zero3 and hsdp it stays
     * gathered from its forward to the last unit's forward, and from the last unit's backward to its own backward */
    bool tied;
    int chunk;          /* units of other chunks are not prefetched (virtual pipeline stages) */
    double backward_us; /* horovod: backward time per micro-batch; 0 for all units: all gradients are ready at once */
};

struct bb_sync_spec {
    const struct bb_dp_config *policy;
    struct bb_sync_comms comms;
    struct bb_step *step; /* owner of strings and kernel lists */
    struct bb_script *script;
    const struct bb_sync_unit *units; /* in forward order; must outlive the sync */
    int n_units;
    bool holds_remainder; /* hierarchical: this role is the last rank of its node, which reduces the remainder of a
                             division by the node's ranks */
};

struct bb_sync; /* opaque: state while the program of one role is written */

/*
 * bb_sync_init - make the buckets and add streams and buffers to the script's program.
 *   s        out: to be released with bb_sync_release also after an error; NULL is accepted there
 *   Returns  0 or a negative error
 */
int bb_sync_init(struct bb_sync **s, const struct bb_sync_spec *spec) BB_MUST_CHECK;
void bb_sync_release(struct bb_sync *s);

/* The hooks, in call order (see the top of this file). They label their operations with their own phase and restore
 * the script's labels. Errors are sticky in the script. `last`: this is the rank's last micro-batch of the step,
 * after which the gradients are complete. */
void bb_sync_begin_step(struct bb_sync *s);                /* before the first operation of the step */
void bb_sync_before_forward(struct bb_sync *s, int unit);  /* waits for the unit's parameters; zero3, hsdp: prefetches
                                                             the next unit */
void bb_sync_after_forward(struct bb_sync *s, int unit);   /* releases the unit's gathered parameters (zero3, hsdp) */
void bb_sync_before_backward(struct bb_sync *s, int unit); /* like bb_sync_before_forward; waits for gradient buffers
                                                              that are reused (zero2) */
void bb_sync_after_backward(struct bb_sync *s, int unit, bool last); /* releases gathered parameters; starts
                                                                        reductions */
void bb_sync_wait_reductions(struct bb_sync *s);                     /* waits for all reductions */
void bb_sync_finish_step(struct bb_sync *s); /* bb_sync_wait_reductions, then the optimizer and the all-gather */

/* ---- shared with replicas/servers.h ---- */

/*
 * bb_sync_arrivals - list the tensors in the order in which their gradients become ready: units and tensors in reverse.
 *   per_unit true: tensors of different units may not share a bucket; false: tensors of different chunks may not
 *   arrivals out: the caller frees it
 *   Returns  their number, or -BB_EFAIL
 */
int bb_sync_arrivals(const struct bb_sync_unit *units, int n_units, bool per_unit,
                     struct bb_gradient_arrival **arrivals);

/* bb_sync_memory_kernel - add a memory-bound kernel to the compute stream. With timed compute its duration is its
 * bytes divided by the memory bandwidth. */
void bb_sync_memory_kernel(struct bb_script *s, struct bb_step *step, const char *what,
                           const struct bb_script_memory_kernel *how);

/*
 * bb_sync_memory - add the training memory of parameters, gradients and optimizer, by formula, to
 * bytes[BB_USE_PARAMETERS], [BB_USE_GRADIENTS] and [BB_USE_OPTIMIZER]. Sources: the ZeRO paper; Megatron-LM's
 * dist_optimizer, where 16-bit parameters have a float copy in the optimizer.
 *   parameters  of this rank before sharding
 *   bytes       [BB_USES] in/out
 */
void bb_sync_memory(const struct bb_dp_config *policy, const struct bb_sync_comms *comms, double parameters,
                    double bytes[BB_USES]);

/* bb_sync_update_peak_bytes - return the additional bytes during the optimizer step, when activations are free:
 * Megatron-LM's float copy of a shard of 16-bit gradients, which it frees after the update (distrib_optimizer.py,
 * zero_grad). */
double bb_sync_update_peak_bytes(const struct bb_dp_config *policy, const struct bb_sync_comms *comms,
                                 double parameters);

/* bb_sync_add_update_peak - add the part of update_bytes that does not fit into the memory of the activations to
 * bytes[BB_USE_OPTIMIZER]. */
void bb_sync_add_update_peak(double update_bytes, double bytes[BB_USES]);

#endif
