/*
 * sync.c - adds the communication between replicas, and the optimizer, before and after the compute of a step's units
 * (layers). sync.h describes the kinds of synchronization and the order of calls.
 *
 * Gradients and parameters are communicated in buckets; with zero3 and hsdp each unit is one bucket. Buckets are
 * numbered in the order in which backward fills them. Each bucket has its own buffer for full gradients, unless every
 * micro-batch reduces gradients: then a few shared buffers are used in turn. With sharding, each bucket also has a
 * buffer for the local shard of its gradients.
 *
 * States of a bucket, for each reduction:
 *
 *   filling   ready < units         bb_sync_after_backward counts the units that have finished
 *   complete  ready == units        waits for its turn in bucket order, unless every micro-batch reduces gradients
 *   reducing  ready = 0             reduce_bucket has started the collectives; `reduced` is the last one
 *   done      after the wait for `reduced` (bb_sync_wait_reductions)
 *
 * With parameter servers, `reduced` is the push of the bucket, and a bucket is done after its pull (servers.c).
 *
 * States of a buffer for gathered parameters (zero3, hsdp): free (unit BB_NONE); all-gather for `unit` started, from
 * ensure_gathered on; complete, after the wait for `op` (use_unit); free again after release_unit, or when take_slot
 * gives the less recently used buffer to another unit.
 */
#include "proxies/workloads/sync/sync_state.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"

#include <math.h>
#include <stdlib.h>

/* Horovod's constant FUSION_BUFFER_ATOMIC_UNIT. For hierarchical all-reduces, Horovod pads the fusion buffer to a
 * multiple of FUSION_UNIT elements for each rank of a node. */
#define FUSION_UNIT 64

/* ---- lookup of buckets, labels of operations, memory-bound kernels ---- */

static int bucket_of_unit(const struct bb_sync *s, int unit)
{
    for (int b = 0; b < s->n; b++)
        if (s->buckets[b].first_unit == unit)
            return b;
    return BB_NONE;
}

struct labels {
    enum bb_phase phase;
    enum bb_dtype_id dtype;
    int layer;
};

static struct labels set_labels(struct bb_script *s, enum bb_phase phase, enum bb_dtype_id dtype, int layer)
{
    struct labels before = {s->phase, s->dtype, s->layer};

    s->phase = phase;
    s->dtype = dtype;
    s->layer = layer;
    return before;
}

static void restore_labels(struct bb_script *s, struct labels before)
{
    s->phase = before.phase;
    s->dtype = before.dtype;
    s->layer = before.layer;
}

void bb_sync_memory_kernel(struct bb_sync *s, const char *what, enum bb_memory_kernel_kind kind, size_t count,
                           int times, int src, int dst)
{
    const struct bb_memory_kernel p = {.kind = kind, .dtype = s->script->dtype, .rows = 1, .cols = count};

    if (s->script->real)
        bb_script_memory_kernel(s->script, s->spec.step, what, kind, count, times, src, dst);
    else
        bb_script_compute(s->script, what, times * (double)bb_memory_kernel_bytes(&p) / s->script->memory_gbps * 1e-3,
                          0, src, dst);
}

static bool has_peers(const struct bb_sync *s)
{
    return s->spec.comms.n > 1 || s->spec.comms.n_replicas > 1;
}

/* ---- assignment of gradients to buckets ---- */

int bb_sync_arrivals(const struct bb_sync_unit *units, int n_units, bool per_unit,
                     struct bb_gradient_arrival **arrivals)
{
    double now_us = 0;
    int n = 0;

    for (int u = 0; u < n_units; u++)
        n += units[u].n;
    BB_NEW(*arrivals, n);
    n = 0;
    for (int u = n_units - 1; u >= 0; u--) {
        now_us += units[u].backward_us;
        for (int t = units[u].n - 1; t >= 0; t--)
            (*arrivals)[n++] =
                (struct bb_gradient_arrival){.count = units[u].tensors[t].count,
                                             .ready_us = now_us,
                                             .unit = u,
                                             .type = per_unit ? u : 2 * units[u].chunk + units[u].unquantized};
    }
    return n;
}

/*
 * Return the number of elements to a multiple of which buckets are padded. With sharding, this is the least common
 * multiple of the bucketing rule's `pad` and the number of ranks of the shard group, so that the ranks have equal
 * shares. With Horovod's hierarchical all-reduce, it is 64 elements (Horovod's atomic unit) for each rank of the node.
 */
static size_t bucket_multiple(const struct bb_sync *s)
{
    const struct bb_sync_comms *c = &s->spec.comms;
    size_t multiple = (size_t)c->n;

    if (s->policy.options.hierarchical)
        return s->policy.kind == BB_SYNC_HOROVOD ? (size_t)c->n_local * FUSION_UNIT : 1;
    if (!bb_sync_is_sharded(s->policy.kind))
        return 1;
    while (s->policy.rule.pad && multiple % s->policy.rule.pad)
        multiple += (size_t)c->n;
    return multiple;
}

/* Return whether the parameters of a unit are gathered in 8 bits. */
static bool is_quantized(const struct bb_sync *s, int unit)
{
    return s->policy.options.float8_gather && !s->spec.units[unit].unquantized;
}

/* Return the size of the gathered parameters of a bucket in elements of policy.params. */
static size_t gathered_elements(const struct bb_sync *s, const struct bb_bucket_state *b)
{
    const size_t bytes = bb_dtypes[s->policy.params].bytes;

    return (b->params * bb_dtypes[b->gathered_dtype].bytes + bytes - 1) / bytes;
}

static void init_bucket(struct bb_sync *s, struct bb_bucket_state *b, int index, size_t multiple)
{
    const struct bb_sync_bucket *bucketing = &s->bucketing.list[index];
    int last = BB_NONE;

    *b = (struct bb_bucket_state){.count = bb_round_up(bucketing->count, multiple),
                                  .fused = s->policy.kind == BB_SYNC_HOROVOD && bucketing->n > 1,
                                  .full = BB_NONE,
                                  .shard = BB_NONE,
                                  .param_shard = BB_NONE,
                                  .param_full = BB_NONE,
                                  .reduced = BB_NONE,
                                  .gathered = BB_NONE,
                                  .first_unit = s->spec.n_units};
    for (int i = bucketing->first; i < bucketing->first + bucketing->n; i++) {
        int unit = s->arrivals[s->bucketing.members[i]].unit;

        b->units += unit != last;
        b->first_unit = unit < b->first_unit ? unit : b->first_unit;
        last = unit;
    }
    b->params = bb_round_up(bucketing->count + (s->gathers ? s->spec.units[last].frozen : 0), multiple);
    b->gathered_dtype = is_quantized(s, last) ? BB_F8E4M3 : s->policy.params;
    s->largest = b->count > s->largest ? b->count : s->largest;
    s->largest_params = gathered_elements(s, b) > s->largest_params ? gathered_elements(s, b) : s->largest_params;
    if (s->gathers) {
        b->what = bb_step_text(s->spec.step, "gradients of %s", s->spec.units[last].name);
        b->gather_what = bb_step_text(s->spec.step, "parameters of %s", s->spec.units[last].name);
    } else if (bb_sync_has_servers(s->policy.kind)) {
        b->what = bb_step_text(s->spec.step, "gradients %d", index);
        b->gather_what = bb_step_text(s->spec.step, "parameters %d", index);
    } else {
        b->what = bb_step_text(s->spec.step, "bucket %d", index);
        b->gather_what = bb_step_text(s->spec.step, "parameters of bucket %d", index);
    }
}

/*
 * Assign the gradients to buckets. For a hierarchical all-reduce, Horovod rounds its fusion threshold up so that every
 * rank of a node has a whole number of atomic units (64 elements of up to 8 bytes).
 */
static void fill_buckets(struct bb_sync *s)
{
    size_t multiple = bucket_multiple(s);
    double unit = s->policy.options.hierarchical ? s->spec.comms.n_local * 8.0 * FUSION_UNIT : 1;
    struct bb_bucket_rule rule = s->policy.rule;
    int n = bb_sync_arrivals(s->spec.units, s->spec.n_units, bb_sync_gathers_parameters(s->policy.kind), &s->arrivals);

    for (int i = 0; i < n; i++)
        s->n_elements += s->arrivals[i].count;
    if (bb_sync_gathers_parameters(s->policy.kind))
        rule = (struct bb_bucket_rule){.kind = BB_BUCKETS_SINGLE};
    rule.threshold_bytes = ceil(rule.threshold_bytes / unit) * unit;
    bb_buckets_make(&s->bucketing, &rule, s->arrivals, n, bb_dtypes[s->policy.grads].bytes, s->spec.comms.n);
    s->n = s->bucketing.n;
    BB_NEW(s->buckets, s->n);
    for (int b = 0; b < s->n; b++)
        init_bucket(s, &s->buckets[b], b, multiple);
}

/* Return whether a bucket contains gradient tensors of a unit (layer of the model). */
static bool bucket_holds_unit(const struct bb_sync *s, int bucket, int unit)
{
    const struct bb_sync_bucket *bucketing = &s->bucketing.list[bucket];

    for (int i = bucketing->first; i < bucketing->first + bucketing->n; i++)
        if (s->arrivals[s->bucketing.members[i]].unit == unit)
            return true;
    return false;
}

/* ---- gradient and parameter buffers ---- */

/*
 * Return the number of shared gradient buffers: the maximum, over all units (layers), of the number of buckets with
 * tensors of the unit, plus one. With the additional buffer, the backward of the next unit can start while the buckets
 * of the previous unit are reduced. The result is at most the number of buckets.
 */
static int count_shared_buffers(const struct bb_sync *s)
{
    int most = 0;

    for (int u = 0; u < s->spec.n_units; u++) {
        int touched = 0;

        for (int b = 0; b < s->n; b++)
            touched += bucket_holds_unit(s, b, u);
        most = touched > most ? touched : most;
    }
    return most + 1 < s->n ? most + 1 : s->n;
}

static void add_own(struct bb_sync *s, struct bb_bucket_state *b)
{
    size_t shard = b->count / (size_t)s->spec.comms.n;
    bool gathers = s->spec.comms.n > 1 && bb_sync_is_sharded(s->policy.kind);

    b->shard = b->full;
    if (s->policy.options.hierarchical)
        b->shard =
            bb_script_buffer(s->script, "local shard", BB_USE_COMMUNICATION,
                             b->count / (size_t)s->spec.comms.n_local + b->count % (size_t)s->spec.comms.n_local);
    else if (gathers && !s->policy.reduce_whole)
        b->shard = bb_script_buffer(s->script, "gradient shard", BB_USE_GRADIENTS, shard);
    if (!gathers)
        return;
    s->script->dtype = b->gathered_dtype;
    b->param_shard =
        bb_script_buffer(s->script, "parameter shard", BB_USE_PARAMETERS, b->params / (size_t)s->spec.comms.n);
    if (!s->gathers)
        b->param_full = bb_script_buffer(s->script, "parameters", BB_USE_PARAMETERS, b->params);
    s->script->dtype = s->policy.grads;
}

static void add_buffers(struct bb_sync *s)
{
    struct labels before = set_labels(s->script, s->script->phase, s->policy.grads, BB_NONE);

    s->n_shared = s->every_micro_batch ? count_shared_buffers(s) : 0;
    BB_NEW(s->shared, s->n_shared);
    for (int i = 0; i < s->n_shared; i++)
        s->shared[i] = (struct bb_shared_gradients){
            bb_script_buffer(s->script, "gradients", BB_USE_GRADIENTS, s->largest), BB_NONE};
    for (int i = 0; i < s->n; i++) {
        struct bb_bucket_state *b = &s->buckets[i];

        b->full = s->n_shared ? s->shared[i % s->n_shared].buffer
                              : bb_script_buffer(s->script, b->fused ? "fused gradients" : "gradients",
                                                 BB_USE_GRADIENTS, b->count);
        add_own(s, b);
    }
    s->script->dtype = s->policy.params;
    for (int i = 0; i <= BB_SYNC_SLOTS; i++) {
        bool used = s->gathers && (i < BB_SYNC_SLOTS || s->tied != BB_NONE);
        size_t count = i < BB_SYNC_SLOTS ? s->largest_params
                       : used            ? gathered_elements(s, &s->buckets[bucket_of_unit(s, s->tied)])
                                         : 0;

        s->slots[i] = (struct bb_sync_slot){BB_NONE, BB_NONE, BB_NONE};
        if (used)
            s->slots[i].buffer = bb_script_buffer(s->script, "gathered parameters", BB_USE_PARAMETERS, count);
    }
    restore_labels(s->script, before);
}

/* ---- allocation and release of a struct bb_sync ---- */

void bb_sync_init(struct bb_sync **sync, const struct bb_sync_spec *spec)
{
    const struct bb_layout *l = &spec->step->layout;
    struct bb_sync *s;

    BB_NEW(s, 1);
    *sync = s;
    s->spec = *spec;
    s->policy = *spec->policy;
    s->script = spec->script;
    s->gathers = bb_sync_gathers_parameters(s->policy.kind) && spec->comms.n > 1;
    s->tied = BB_NONE;
    fill_buckets(s);
    for (int u = 0; u < spec->n_units && s->gathers && s->tied == BB_NONE; u++)
        if (spec->units[u].tied && bucket_of_unit(s, u) != BB_NONE)
            s->tied = u;
    if (bb_sync_has_servers(s->policy.kind)) {
        bb_server_buffers(s);
    } else if (has_peers(s)) {
        s->every_micro_batch = bb_sync_reduces_every_micro_batch(&s->policy);
        s->local = bb_script_lane(s->script, l, spec->comms.local);
        s->cross = bb_script_lane(s->script, l, spec->comms.cross);
        s->gradients = bb_script_lane(s->script, l, spec->comms.gradients);
        s->parameters = bb_script_lane(s->script, l, spec->comms.parameters);
        s->replicas = bb_script_lane(s->script, l, spec->comms.replicas);
        add_buffers(s);
    }
}

void bb_sync_release(struct bb_sync *s)
{
    if (!s)
        return;
    bb_buckets_release(&s->bucketing);
    free(s->arrivals);
    free(s->buckets);
    free(s->shared);
    free(s->receive);
    free(s);
}

/* ---- gradient reductions ---- */

/*
 * Hierarchical all-reduce: add the operation that reduces or broadcasts the remainder, the elements that are left when
 * a bucket is divided equally among the ranks of a node. In the full gradient buffer, the remainder follows the equal
 * shares. The root is the last rank of the node.
 *   kind   BB_REDUCE: reduce the remainder to the root; BB_BROADCAST: broadcast the remainder from the root
 *   share  number of elements of each rank's equal share
 *   rest   number of elements of the remainder
 */
static int start_remainder(struct bb_sync *s, const struct bb_bucket_state *b, enum bb_coll_kind kind, size_t share,
                           size_t rest)
{
    struct bb_op op = bb_script_op(s->script, s->local, b->what);
    size_t shares = share * (size_t)s->spec.comms.n_local;
    bool there = kind == BB_REDUCE;

    op.kind = BB_OP_COLLECTIVE;
    op.coll = kind;
    op.redop = s->script->redop;
    op.peer = s->spec.comms.n_local - 1;
    op.count = rest;
    op.src = there ? b->full : b->shard;
    op.dst = there ? b->shard : b->full;
    op.src_offset = there ? shares : share;
    op.dst_offset = there ? share : shares;
    return bb_script_start(s->script, &op);
}

/*
 * Add the hierarchical all-reduce of a bucket: reduce-scatter within the node, all-reduce across nodes, all-gather
 * within the node. A remainder that the node's ranks cannot share equally is reduced to the node's last rank. That rank
 * all-reduces the remainder together with its own share and then broadcasts the remainder within the node.
 */
static int reduce_hierarchically(struct bb_sync *s, const struct bb_bucket_state *b)
{
    size_t ranks = (size_t)s->spec.comms.n_local, share = b->count / ranks, rest = b->count % ranks;
    size_t across = share + (s->spec.holds_remainder ? rest : 0);
    int op = BB_NONE;

    if (share)
        bb_script_collective(s->script, s->local, b->what, BB_REDUCE_SCATTER, share, b->full, b->shard);
    if (rest)
        start_remainder(s, b, BB_REDUCE, share, rest);
    if (across)
        op = bb_script_collective(s->script, s->cross, b->what, BB_ALL_REDUCE, across, b->shard, b->shard);
    if (share)
        op = bb_script_collective(s->script, s->local, b->what, BB_ALL_GATHER, share, b->shard, b->full);
    if (rest)
        op = start_remainder(s, b, BB_BROADCAST, share, rest);
    return op;
}

/*
 * Add the reduction of a bucket without hierarchical all-reduce. Sets b->reduced, the last operation of the reduction.
 * Returns the last operation that reads the full gradients.
 */
static int start_reduction(struct bb_sync *s, struct bb_bucket_state *b)
{
    const struct bb_sync_comms *c = &s->spec.comms;
    size_t shard = b->count / (size_t)c->n;
    int op = BB_NONE, last_read;

    if (b->count == 0) /* all parameters are frozen */
        return BB_NONE;
    if (c->n > 1 && b->shard != b->full)
        op = bb_script_collective(s->script, s->gradients, b->what, BB_REDUCE_SCATTER, shard, b->full, b->shard);
    else if (c->n > 1)
        op = bb_script_collective(s->script, s->gradients, b->what, BB_ALL_REDUCE, b->count, b->full, b->full);
    last_read = op;
    if (c->n_replicas > 1)
        op = bb_script_collective(s->script, s->replicas, b->what, BB_ALL_REDUCE, shard, b->shard, b->shard);
    b->reduced = op;
    return b->shard == b->full ? op : last_read;
}

static void reduce_bucket(struct bb_sync *s, int index)
{
    struct bb_bucket_state *b = &s->buckets[index];
    struct labels before = set_labels(s->script, BB_PHASE_GRADIENTS, s->policy.grads, b->first_unit);
    int last_read = BB_NONE;

    b->ready = 0;
    if (b->fused)
        bb_sync_memory_kernel(s, "copy in", BB_MEMORY_KERNEL_COPY, b->count, 1, BB_NONE, b->full);
    if (bb_sync_has_servers(s->policy.kind))
        bb_server_push(s, index);
    else if (s->policy.options.hierarchical)
        b->reduced = reduce_hierarchically(s, b);
    else
        last_read = start_reduction(s, b);
    if (s->n_shared)
        s->shared[index % s->n_shared].last_read = last_read;
    restore_labels(s->script, before);
}

/* Add the reductions of the buckets whose gradients are complete, in order of bucket index, up to the first
 * incomplete bucket. */
static void reduce_in_order(struct bb_sync *s)
{
    for (; s->next < s->n && s->buckets[s->next].ready == s->buckets[s->next].units; s->next++)
        reduce_bucket(s, s->next);
}

/* ---- all-gathers of parameters: zero3, hsdp, distributed ---- */

static struct bb_sync_slot *slot_of(struct bb_sync *s, int unit)
{
    for (int i = 0; i < BB_SYNC_SLOTS + (unit != BB_NONE); i++)
        if (s->slots[i].unit == unit)
            return &s->slots[i];
    return NULL;
}

/* Return a buffer for the gathered parameters of the next unit (layer): a free buffer if there is one, else the less
 * recently used of the BB_SYNC_SLOTS shared buffers. */
static struct bb_sync_slot *take_slot(struct bb_sync *s)
{
    struct bb_sync_slot *slot = slot_of(s, BB_NONE);

    slot = slot ? slot : &s->slots[1 - s->latest_slot];
    s->latest_slot = (int)(slot - s->slots);
    return slot;
}

static int gather_bucket(struct bb_sync *s, int bucket, int full)
{
    struct bb_bucket_state *b = &s->buckets[bucket];
    struct labels before = set_labels(s->script, s->script->phase, b->gathered_dtype, b->first_unit);

    b->gathered = bb_script_collective(s->script, s->parameters, b->gather_what, BB_ALL_GATHER,
                                       b->params / (size_t)s->spec.comms.n, b->param_shard, full);
    restore_labels(s->script, before);
    return b->gathered;
}

/*
 * Add the all-gather of the parameters of a unit (layer), unless a buffer already contains them or the all-gather has
 * already been added. Returns the buffer; NULL if the unit has no parameters.
 */
static struct bb_sync_slot *ensure_gathered(struct bb_sync *s, int unit)
{
    struct bb_sync_slot *slot = slot_of(s, unit);
    int bucket = slot ? BB_NONE : bucket_of_unit(s, unit);

    if (slot || bucket == BB_NONE)
        return slot;
    slot = unit == s->tied ? &s->slots[BB_SYNC_SLOTS] : take_slot(s);
    slot->unit = unit;
    slot->op = gather_bucket(s, bucket, slot->buffer);
    return slot;
}

/*
 * Wait for the parameters of the unit (layer) `unit`. Then start the all-gather of the parameters of unit `next`, if
 * that unit exists and belongs to the same model chunk.
 */
static void use_unit(struct bb_sync *s, int unit, int next)
{
    const struct bb_sync_slot *slot = ensure_gathered(s, unit);

    if (slot)
        bb_script_wait(s->script, slot->op);
    if (next >= 0 && next < s->spec.n_units && s->spec.units[next].chunk == s->spec.units[unit].chunk) {
        if (slot && slot < &s->slots[BB_SYNC_SLOTS])
            s->latest_slot = (int)(slot - s->slots); /* take_slot() for `next` must not reuse the parameter buffer of
                                                        the current unit */
        (void)ensure_gathered(s, next);
    }
}

static void release_unit(struct bb_sync *s, int unit)
{
    struct bb_sync_slot *slot = slot_of(s, unit);

    if (slot)
        slot->unit = BB_NONE;
}

/* Add the all-gathers of the parameters of all buckets, in the order in which the forward pass needs them. */
static void gather_buckets(struct bb_sync *s)
{
    if (s->gathers || !bb_sync_is_sharded(s->policy.kind) || s->spec.comms.n == 1)
        return;
    for (int b = s->n - 1; b >= 0; b--)
        (void)gather_bucket(s, b, s->buckets[b].param_full);
}

/* ---- functions that the builder of a step calls before and after each unit (layer) ---- */

void bb_sync_begin_step(struct bb_sync *s)
{
    struct labels before = set_labels(s->script, BB_PHASE_FORWARD, s->script->dtype, s->script->layer);

    if (s->policy.options.overlap_param_gather)
        gather_buckets(s);
    restore_labels(s->script, before);
}

void bb_sync_before_forward(struct bb_sync *s, int unit)
{
    if (s->gathers)
        use_unit(s, unit, unit + 1);
    for (int b = 0; b < s->n && s->policy.options.overlap_param_gather; b++)
        if (s->buckets[b].gathered != BB_NONE && bucket_holds_unit(s, b, unit)) {
            bb_script_wait(s->script, s->buckets[b].gathered);
            s->buckets[b].gathered = BB_NONE; /* of the units in the bucket, only the first one to run waits for the
                                                 bucket's all-gather */
        }
}

void bb_sync_after_forward(struct bb_sync *s, int unit)
{
    bool last = unit == s->spec.n_units - 1;

    if (s->gathers && (unit != s->tied || last))
        release_unit(s, unit);
    if (s->tied != BB_NONE && last)
        release_unit(s, s->tied);
}

void bb_sync_before_backward(struct bb_sync *s, int unit)
{
    const struct bb_sync_slot *kept =
        s->tied != BB_NONE && unit == s->spec.n_units - 1 ? ensure_gathered(s, s->tied) : NULL;

    if (kept)
        bb_script_wait(s->script, kept->op);
    if (s->gathers)
        use_unit(s, unit, unit - 1);
    for (int b = 0; b < s->n && s->n_shared; b++) /* wait until the buffers to which this backward writes are free */
        if (s->buckets[b].ready == 0 && bucket_holds_unit(s, b, unit)) {
            bb_script_wait(s->script, s->shared[b % s->n_shared].last_read);
            s->shared[b % s->n_shared].last_read = BB_NONE;
        }
}

void bb_sync_after_backward(struct bb_sync *s, int unit, bool last)
{
    if (s->gathers)
        release_unit(s, unit);
    if (!has_peers(s) || !(last || s->every_micro_batch))
        return;
    for (int b = 0; b < s->n; b++) {
        s->buckets[b].ready += bucket_holds_unit(s, b, unit);
        if (s->every_micro_batch && s->buckets[b].ready == s->buckets[b].units)
            reduce_bucket(s, b);
    }
    if (!s->every_micro_batch && !s->policy.options.no_overlap)
        reduce_in_order(s);
}

void bb_sync_wait_reductions(struct bb_sync *s)
{
    if (!has_peers(s))
        return;
    if (!s->every_micro_batch)
        reduce_in_order(s);
    for (int b = 0; b < s->n; b++)
        bb_script_wait(s->script, s->buckets[b].reduced);
}

/* Adam on the host for `count` parameters of this rank (--optimizer-cpu-offload). */
static void update_on_host(struct bb_sync *s, size_t count)
{
    struct bb_kernel_list *work = bb_step_add_kernel_list(s->spec.step);

    bb_kernel_list_host(work, "gradients to host", BB_ON_HOST_LINK, count, s->policy.grads);
    bb_kernel_list_host(work, "Adam on host", BB_ON_HOST, count, BB_FLOAT);
    bb_kernel_list_host(work, "parameters to GPU", BB_ON_HOST_LINK, count, s->policy.params);
    bb_script_real_work(s->script, "optimizer on host", work, 1, BB_NONE, BB_NONE);
}

/* Add the end of a step without parameter servers: the wait for the reductions, the optimizer, the all-gathers. */
static void finish_reductions(struct bb_sync *s)
{
    size_t shard = s->n_elements, on_host;

    bb_sync_wait_reductions(s);
    for (int b = 0; b < s->n && has_peers(s); b++)
        if (s->buckets[b].fused)
            bb_sync_memory_kernel(s, "copy out", BB_MEMORY_KERNEL_COPY, s->buckets[b].count, 1, s->buckets[b].full,
                                  BB_NONE);
    if (bb_sync_is_sharded(s->policy.kind))
        shard = (shard + (size_t)s->spec.comms.n - 1) / (size_t)s->spec.comms.n;
    s->script->phase = BB_PHASE_OPTIMIZER;
    s->script->dtype = s->policy.params;
    on_host = (size_t)(bb_sync_offloaded_part(&s->policy) * (double)shard);
    if (shard > on_host)
        bb_sync_memory_kernel(s, "optimizer", s->policy.optimizer, bb_sync_update_count(&s->policy, shard - on_host), 1,
                              BB_NONE, BB_NONE);
    if (on_host)
        update_on_host(s, on_host);
    if (!s->policy.options.overlap_param_gather)
        gather_buckets(s);
}

void bb_sync_finish_step(struct bb_sync *s)
{
    struct labels before = set_labels(s->script, BB_PHASE_GRADIENTS, s->policy.grads, BB_NONE);

    if (bb_sync_has_servers(s->policy.kind)) {
        reduce_in_order(s);
        bb_server_finish(s);
    } else {
        finish_reductions(s);
    }
    restore_labels(s->script, before);
}
