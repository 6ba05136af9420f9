/*
 * sync.h - data-parallel synchronization: the communication of gradients and parameters between the replicas of a
 * model, and the optimizer. Models PyTorch DDP, Horovod, ZeRO-1/2/3 (DeepSpeed, FSDP), HSDP and Megatron-LM's
 * distributed optimizer.
 *
 * A struct bb_sync belongs to the program of one role (ranks with the same program) and to one group of replicas: the
 * data-parallel group, or for experts the expert-data-parallel group. The builder, the code that generates the program
 * of a proxy, divides the model into units, for example layers or blocks (compare FSDP units). Units are numbered in
 * forward order. The builder calls the hooks below before and after the compute of each unit. The hooks append the
 * collectives, the waits for them and the optimizer to the builder's script.
 *
 * Order of calls for one step with units 0 .. n-1 and micro-batches 0 .. m-1, without pipelining:
 *
 *     bb_sync_init
 *     bb_sync_begin_step
 *     for each micro-batch:
 *         for unit = 0 .. n-1:
 *             bb_sync_before_forward(unit)
 *             forward compute of the unit
 *             bb_sync_after_forward(unit)
 *         for unit = n-1 .. 0:
 *             bb_sync_before_backward(unit)
 *             backward compute of the unit
 *             bb_sync_after_backward(unit, last)
 *     bb_sync_wait_reductions    (only before work that needs all gradients, such as their norm)
 *     bb_sync_finish_step
 *     bb_sync_release
 *
 * A builder with a pipeline schedule may interleave the calls of several micro-batches. The gradients of a unit are
 * ready when its backward kernels have been issued. The hooks reduce gradients in buckets (buckets.h).
 *
 *   all_reduce   PyTorch DDP. One all-reduce per bucket, issued during the backward of the last micro-batch as soon as
 *                the bucket is full, always in bucket order.
 *   horovod      all_reduce with tensor fusion: gradients that become ready within a cycle are fused up to a threshold
 *                and copied into and out of the fusion buffer. Horovod's negotiation, and the wait for the end of the
 *                cycle, are not modeled.
 *   zero1        ZeRO-1 (DeepSpeed). Reduce-scatter of gradients, optimizer on the local shard, all-gather of
 *                parameters.
 *   zero2        ZeRO-2. Like zero1, but every micro-batch reduces each bucket as soon as the bucket is full, and the
 *                buffer of the full gradients is reused afterwards.
 *   zero3        ZeRO-3, FSDP FULL_SHARD. The parameters of each unit are gathered before its forward and again before
 *                its backward; the next unit is prefetched. In backward, the gather of unit u-1 is issued before the
 *                reduce-scatter of unit u, because both use one communicator unless own_gather_comm is set.
 *   hsdp         zero3 within a shard group (one node), then an all-reduce of the gradient shards over the replica
 *                group.
 *   distributed  Megatron-LM's distributed optimizer: zero1 with Megatron's buckets. With overlap_param_gather the step
 *                begins with the all-gather of parameters, which overlaps the forward: each unit waits only for the
 *                buckets that contain its parameters.
 *   ps, ps_p2p, ps_sharded
 *                Parameter servers: workers (training ranks) push gradients, servers run the optimizer, workers pull
 *                the updated parameters. A worker pushes a bucket as soon as the bucket's gradients are ready, and
 *                pulls the buckets in the same order after the backward pass. Pushes and pulls use separate
 *                communicators, so bucket k can be pulled while bucket k+1 is being pushed.
 *                ps: rank 0 is a worker and the server: gradients are reduced to rank 0, which updates the parameters
 *                and broadcasts them. ps_p2p: rank 0 is a dedicated server: in one group call it receives a bucket from
 *                all W workers (incast); then it sums the W buffers, updates the parameters, and sends them to all
 *                workers. Two sets of W receive buffers alternate. ps_sharded: the first K ranks are dedicated servers;
 *                server i mod K owns bucket i.
 *                A dedicated server posts the receives of all its buckets before it sends the first parameters. Each
 *                send waits only for the update of its own bucket.
 *
 * With a single replica there is no communication; only the optimizer is added.
 */
#ifndef BB_PROXIES_WORKLOADS_SYNC_SYNC_H
#define BB_PROXIES_WORKLOADS_SYNC_SYNC_H

#include "cuda/work/memory_kernel.h"
#include "proxies/form/author/script.h"
#include "proxies/form/models/transformer_model.h"
#include "proxies/workloads/sync/buckets.h"

enum bb_sync_kind {
    BB_SYNC_ALL_REDUCE,
    BB_SYNC_HOROVOD,
    BB_SYNC_ZERO1,
    BB_SYNC_ZERO2,
    BB_SYNC_ZERO3,
    BB_SYNC_HSDP,
    BB_SYNC_DISTRIBUTED,
    BB_SYNC_PS, /* Parameter servers begin with this kind. Only the proxy data_parallel supports them. */
    BB_SYNC_PS_P2P,
    BB_SYNC_PS_SHARDED,
    BB_SYNC_KINDS
};
extern const char *const bb_sync_names[BB_SYNC_KINDS + 1]; /* values of --sync, indexed by enum bb_sync_kind and
                                                              NULL-terminated */
extern const char *const bb_dp_sync_names[BB_SYNC_PS + 1]; /* values of --dp-sync: bb_sync_names without the
                                                              parameter servers */

extern const char *const bb_bucket_rule_names[]; /* values of --bucket-rule, indexed by enum bb_bucket_kind and
                                                    NULL-terminated */

/* How replicas are synchronized, resolved from the command-line options. Independent of the layout of the ranks. */
struct bb_dp_config {
    enum bb_sync_kind kind;
    struct bb_bucket_rule rule;
    enum bb_dtype_id params, grads; /* params: element type of the parameters that are all-gathered; grads: element
                                       type of the gradients that are reduced */
    enum bb_memory_kernel_kind optimizer; /* memory-bound kernel that the optimizer runs: SGD with momentum, or Adam */
    bool reduce_whole; /* zero1, zero2: true: each bucket is all-reduced instead of reduce-scattered, and each rank
                          uses only its shard of the result */
    struct bb_sync_options options; /* the options themselves; an option that the kind does not support is 0 */
};

/*
 * bb_sync_resolve - validate the options in config->sync and convert them to a struct bb_dp_config.
 *   kind           the kind of synchronization
 *   params, grads  default element types of parameters and gradients; --grad-dtype overrides grads
 *   policy         out: the resolved options
 *   Returns        0, or -BB_EUSAGE after printing an error line for an option that the kind does not support
 */
int bb_sync_resolve(const struct bb_proxy_config *config, enum bb_sync_kind kind, enum bb_dtype_id params,
                    enum bb_dtype_id grads, struct bb_dp_config *policy) BB_MUST_CHECK;

/*
 * Properties of a kind of synchronization (enum bb_sync_kind) or of resolved options (struct bb_dp_config):
 * bb_sync_is_sharded                 - return whether gradient reductions and the optimizer work on shards.
 * bb_sync_gathers_parameters         - return whether the parameters of each unit (layer) are all-gathered before use.
 * bb_sync_reduces_every_micro_batch  - return whether every micro-batch reduces its gradients, not only the last one.
 * bb_sync_reduces_once               - return whether gradients are reduced once per step, as by all_reduce; horovod is not
 *                                      among them.
 * bb_sync_offloaded_part             - return the part of the optimizer states in host memory, 0 to 1.
 * bb_sync_host_bytes                 - return the bytes in host memory per parameter of a shard (Megatron-LM,
 *                                      HybridDeviceOptimizer): float moments, parameter and gradient.
 * bb_sync_has_servers                - return whether parameter servers update the parameters.
 */
bool bb_sync_is_sharded(enum bb_sync_kind kind);
double bb_sync_offloaded_part(const struct bb_dp_config *policy);
double bb_sync_host_bytes(const struct bb_dp_config *policy);
bool bb_sync_gathers_parameters(enum bb_sync_kind kind);
/* bb_sync_uses_adam - return whether the optimizer of a transformer is Adam with float states, which is its default. */
bool bb_sync_uses_adam(const struct bb_sync_options *o);

extern const char *const bb_optimizer_names[]; /* values of --optimizer, NULL-terminated */

/*
 * bb_sync_accepts_optimizer - return whether a kind of synchronization has the optimizer.
 * bb_sync_min_state_bytes   - return the minimum bytes of the optimizer per 16-bit parameter of a transformer.
 * bb_sync_update_count      - return the number of parameters whose update with the optimizer's kernel, which has float
 *                             states and copies, moves as many bytes as that of `parameters` with the states of --optimizer.
 */
bool bb_sync_accepts_optimizer(const struct bb_sync_options *o, enum bb_sync_kind kind);
double bb_sync_min_state_bytes(const struct bb_sync_options *o);
size_t bb_sync_update_count(const struct bb_dp_config *p, size_t parameters);
bool bb_sync_reduces_once(enum bb_sync_kind kind);
bool bb_sync_reduces_every_micro_batch(const struct bb_dp_config *policy);
bool bb_sync_has_servers(enum bb_sync_kind kind);

/* Maximum number of lanes of parameter servers; a lane is a pair of communicators, one for pushes and one for pulls.
 * Server s uses lane s modulo the number of lanes. */
#define BB_SERVER_LANES 12

/* Communicators for the synchronization of one program, as indices into bb_layout.comms (BB_NONE: unused), and the
 * number of ranks of each communicator. */
struct bb_sync_comms {
    /* gradients: communicator for reductions of gradients; parameters: communicator for all-gathers of parameters.
     * Each contains the ranks of one shard group, or all replicas without sharding; the two may be the same
     * communicator */
    int gradients, parameters;
    int replicas;     /* hsdp, distributed with --shard-size: communicator of the ranks that store the same shard, one
                     rank of each shard group */
    int local, cross; /* hierarchical all-reduce: local: communicator of the ranks of a node; cross: communicator of
                         the ranks with the same index in each node */
    int n, n_replicas, n_local, n_cross;
    int push[BB_SERVER_LANES], pull[BB_SERVER_LANES]; /* parameter servers: [lanes] communicators for pushes and for
                                                         pulls; each contains all ranks */
    int lanes;   /* number of communicator pairs (for pushes and pulls) in use; 0 in a job with one rank */
    int servers; /* number of dedicated servers (K); 0 for ps, where the server (rank 0) is also a worker */
};

/*
 * bb_sync_add_comms - add the groups and communicators that the synchronization needs to the step's layout.
 *   policy   the resolved synchronization options
 *   group    index of the group of replicas; BB_NONE or a group of size 1: nothing is added
 *   comms    out: the communicators
 *   Returns  0, or -BB_EUSAGE after printing an error line with the nearest valid value if the group cannot be divided
 *            into shards of the requested size, or the parameter servers leave no rank for a worker
 *
 * With shard groups (hsdp, distributed with --shard-size), `group` is divided into shard groups of consecutive ranks:
 * "<group> shard" contains the ranks of one shard group, "<group> replica" the ranks with the same index in all shard
 * groups. With a hierarchical all-reduce, `group` is divided by node: "<group> local" contains the ranks of one node,
 * "<group> cross" the ranks with the same index in all nodes.
 */
int bb_sync_add_comms(struct bb_step *step, const struct bb_dp_config *policy, int group, int gpus_per_node,
                      struct bb_sync_comms *comms) BB_MUST_CHECK;

/*
 * bb_sync_hierarchy_comms - divide a group by node, for a hierarchical reduction. Adds the groups "<group> local" (the
 * ranks of a node) and "<group> cross" (the ranks with the same index in all nodes), and sets comms->local, cross,
 * n_local and n_cross.
 *   option   the option that requests the hierarchical reduction, for the error line
 *   Returns  0, or -BB_EUSAGE after printing an error line if the group is on one node only, or does not have the same
 *            number of ranks, at least 2, on every node
 */
struct bb_hierarchy_option {
    const char *name, *instead; /* without dashes; what to type where it is not possible */
};
int bb_sync_hierarchy_comms(struct bb_step *step, int group, int gpus_per_node,
                            const struct bb_hierarchy_option *option, struct bb_sync_comms *comms) BB_MUST_CHECK;

struct bb_sync_unit {
    const char *name;                /* name of the unit (layer) in labels of operations; must outlive the program */
    const struct bb_tensor *tensors; /* [n] the unit's parameter tensors in registration order, with this rank's
                                        sizes before sharding over the replicas; must outlive the struct bb_sync */
    int n;
    /* number of parameters without gradients, which zero3 and hsdp only gather; a unit with no other parameters has one
     * tensor of 0 elements */
    size_t frozen;
    /* true: tied embeddings, that is, the last unit (layer) also uses the parameters of this unit. Only one unit may
     * have this flag. With zero3 and hsdp, these parameters stay gathered from this unit's forward to the last
     * unit's forward, and from the last unit's backward to this unit's backward. */
    bool tied;
    bool unquantized; /* true: its parameters are not gathered in 8 bits (--fp8-param-gather) */
    int chunk;        /* index of the model chunk (virtual pipeline stage) of the unit. The prefetch of parameters never
                  crosses a chunk boundary */
    double backward_us; /* horovod: duration of the unit's backward for one micro-batch in microseconds; 0 for all
                           units: all gradients become ready at the same time */
};

struct bb_sync_spec {
    const struct bb_dp_config *policy;
    struct bb_sync_comms comms;
    struct bb_step *step; /* the step that owns the strings and kernel lists that the hooks create */
    struct bb_script *script;
    const struct bb_sync_unit *units; /* [n_units] units (layers) in forward order; must outlive the struct bb_sync */
    int n_units;
    /* hierarchical all-reduce: true: the ranks that run this program are the last ranks of their nodes, which also
     * reduce the remainder when the ranks of a node cannot divide a bucket evenly */
    bool holds_remainder;
    int server; /* parameter servers: number of the server whose program is built (0 to K - 1; with ps, rank 0 is
                   server 0), or BB_NONE to build the program of the workers */
};

struct bb_sync; /* opaque state of the synchronization; exists while the program of one role is generated */

/*
 * bb_sync_init - assign gradients to buckets, and add streams and buffers to the program of spec->script.
 *   s        out: the synchronization's state; the caller releases it with bb_sync_release, which accepts NULL
 *
 * If there are more parameter servers than buckets, bb_sync_init prints an error line, and bb_script_result returns the
 * error.
 */
void bb_sync_init(struct bb_sync **s, const struct bb_sync_spec *spec);
void bb_sync_release(struct bb_sync *s);

/*
 * Hooks that add operations to the script, in the order of calls (see the top of this file). Each hook labels its
 * operations with a training phase of its own and then restores the script's labels. If the program is full, the hooks
 * add nothing and bb_script_result returns the error.
 *   unit  index of the unit (layer)
 *   last  true in the rank's last micro-batch of the step, after which the gradients are complete
 */
void bb_sync_begin_step(struct bb_sync *s); /* call before the first operation of the step; with overlap_param_gather,
                                               starts the all-gather of parameters */
/* waits for the parameters of the unit (layer); with zero3 and hsdp, also starts the all-gather of the next unit's
 * parameters */
void bb_sync_before_forward(struct bb_sync *s, int unit);
void bb_sync_after_forward(struct bb_sync *s, int unit); /* releases the buffer of the unit's gathered parameters
                                                            (zero3, hsdp) */
/* waits for the parameters of the unit (layer) and starts the all-gather of the previous unit's parameters (zero3,
 * hsdp); if every micro-batch reduces gradients, also waits until the shared gradient buffers of the unit are free */
void bb_sync_before_backward(struct bb_sync *s, int unit);
/* releases the buffer of the unit's gathered parameters (zero3, hsdp) and starts the reductions of complete buckets */
void bb_sync_after_backward(struct bb_sync *s, int unit, bool last);
void bb_sync_wait_reductions(struct bb_sync *s); /* starts the reductions that have not started yet, and waits for
                                                    all reductions */
/* calls bb_sync_wait_reductions, then adds the optimizer and, if the optimizer works on shards and
 * overlap_param_gather is false, the all-gather of parameters. Parameter servers: adds the pushes that have not started
 * yet and the pulls of a worker, or the whole program of a dedicated server */
void bb_sync_finish_step(struct bb_sync *s);

/*
 * bb_sync_arrivals - list the gradient tensors in the order in which they become ready: from the last tensor of the
 * last unit (layer) to the first tensor of the first unit.
 *   per_unit  true: only tensors of one unit may share a bucket; false: only tensors of one model chunk may share one
 *   arrivals  out: the list; the caller frees it
 *   Returns   the number of tensors
 */
int bb_sync_arrivals(const struct bb_sync_unit *units, int n_units, bool per_unit,
                     struct bb_gradient_arrival **arrivals);

/*
 * bb_sync_memory - add the memory that real training needs for parameters, gradients and optimizer state to
 * bytes[BB_USE_PARAMETERS], bytes[BB_USE_GRADIENTS] and bytes[BB_USE_OPTIMIZER]. Sources of the formulas: the ZeRO
 * paper; Megatron-LM's dist_optimizer, where the optimizer has a float copy of 16-bit parameters.
 *   parameters  number of parameters on this rank before sharding over the replicas
 *   bytes       [BB_USES] in/out: bytes on one rank
 */
void bb_sync_memory(const struct bb_dp_config *policy, const struct bb_sync_comms *comms, double parameters,
                    double bytes[BB_USES]);

/* bb_sync_has_float_copy - returns whether the optimizer has a whole float copy of 16-bit parameters. */
bool bb_sync_has_float_copy(const struct bb_dp_config *policy);

/*
 * bb_sync_role_memory - add the training memory of the role whose program is built to bytes[BB_USES], to which the
 * caller has already added the activations.
 *   Parameter servers: a worker has all parameters and gradients; a server has the parameters and the optimizer state
 *   of its buckets, and its receive buffers. With ps, rank 0 is both. Other kinds: bb_sync_memory, the buffers for full
 *   gradients that buckets share, and the peak during the optimizer step.
 */
void bb_sync_role_memory(const struct bb_sync *s, double bytes[BB_USES]);

/* bb_sync_update_peak_bytes - return the bytes per rank that are needed only during the optimizer step, when the
 * memory of the activations is free: Megatron-LM's distributed optimizer then has a float copy of the rank's shard
 * of 16-bit gradients, which it frees after the update (distrib_optimizer.py, zero_grad). 0 for other kinds of
 * synchronization. */
double bb_sync_update_peak_bytes(const struct bb_dp_config *policy, const struct bb_sync_comms *comms,
                                 double parameters);

/*
 * bb_sync_add_update_peak - add to bytes[BB_USE_OPTIMIZER] those of the update_bytes (bb_sync_update_peak_bytes) that
 * do not fit in the memory of the activations, which is free during the optimizer step.
 */
void bb_sync_add_update_peak(double update_bytes, double bytes[BB_USES]);

#endif
