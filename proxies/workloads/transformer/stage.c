/*
 * stage.c - generates the program of one pipeline stage. Each slot of the schedule (forward or backward of one model
 * chunk for one micro-batch) becomes a pipeline receive, the layers of the chunk, and a pipeline send. Hooks of the
 * data-parallel synchronization run before and after each layer. The step ends with these operations, in this order:
 *
 *   wait for the data-parallel gradient reductions (issued during the last backward)
 *   reduce the gradients of parameters that every tp rank holds in full (sequence parallelism)
 *   reduce the gradient of a tied embedding over the first and the last stage
 *   gradient norm, optimizer, all-gather of parameters
 */
#include "proxies/workloads/transformer/training.h"

#include <math.h>

/* State while the program of one stage is generated. */
struct writer {
    const struct bb_training *t;
    const struct bb_modules *modules;
    struct bb_script script;
    struct bb_pipe pipe;
    /* generators of the operations of layers. Schedules that run a forward and a backward concurrently use [0] for forwards
     * and [1] for backwards; other schedules use only [0] */
    struct bb_block blocks[2];
    struct bb_sync *sync[BB_PARAMETER_KINDS];
    int copy, copied; /* offload of activations: the latest copy and its layer, see copy_activations */
};

/* ---- data-parallel synchronization ---- */

typedef void hook_fn(struct bb_sync *, int unit);

static void call_hooks(struct writer *w, const struct bb_transformer_module *module, hook_fn *hook)
{
    for (int s = 0; s < BB_PARAMETER_KINDS; s++)
        if (module->unit[s] != BB_NONE)
            hook(w->sync[s], module->unit[s]);
}

static void for_each_sync(struct writer *w, void (*call)(struct bb_sync *))
{
    for (int s = 0; s < BB_PARAMETER_KINDS; s++)
        if (w->sync[s])
            call(w->sync[s]);
}

/* Returns the activation bytes that a module stores from its forward to its backward. backward: out: bytes that the
 * module holds during its backward, which recomputes a part of them. */
static double stored_bytes(const struct writer *w, const struct bb_transformer_module *module, double *backward)
{
    const struct bb_memory m = bb_training_memory(w->t, w->blocks[0].ep_rank);
    const double stored = bb_memory_module(&m, module->layer, module->recomputed, backward);

    *backward = fmax(*backward, stored);
    return stored;
}

/* ---- activations in host memory (--cpu-offloading-num-layers) ---- */

/* Layer after whose forward the copy of layer `copied` must have ended, and before whose backward its copy back starts: the
 * copies are spread over all layers (Transformer Engine, cpu_offload.py, layer_window_map). */
static int end_of_window(const struct writer *w, int copied)
{
    const int layers = w->t->arch.layers, n = w->t->layers_config.offload_layers, more = layers % n;

    return layers / n * (copied + 1) - 1 + (copied < more ? copied + 1 : more);
}

static void copy_activations(struct writer *w, int layer, bool to_host)
{
    const struct bb_memory m = bb_training_memory(w->t, w->blocks[0].ep_rank);
    const double bytes = bb_memory_layer(&m, layer);
    struct bb_kernel_list *work = bb_step_add_kernel_list(w->t->step);

    bb_kernel_list_host(work, to_host ? "activations to host" : "activations to GPU", BB_ON_HOST_LINK, (uint64_t)bytes,
                        BB_INT8);
    bb_script_store(&w->script, to_host ? 0 : bytes);
    w->copy = bb_script_host_copy(&w->script, work->items[0].name, work);
    w->copied = layer;
    if (to_host)
        bb_script_release_stored(&w->script, bytes);
}

/* After the forward of a layer: starts the copy of the first layer, or waits for a copy and starts the next. */
static void offload_after_forward(struct writer *w, int layer)
{
    const int n = w->t->layers_config.offload_layers;
    const bool ends = n > 0 && layer > 0 && w->copied < n && layer == end_of_window(w, w->copied);

    if (n > 0 && layer == 0)
        copy_activations(w, 0, true);
    if (!ends)
        return;
    bb_script_wait(&w->script, w->copy);
    w->copied++;
    if (w->copied < n)
        copy_activations(w, w->copied, true);
}

/* Before the backward of a layer: waits for the copy back of the layer, and starts those of its window. */
static void reload_before_backward(struct writer *w, int layer)
{
    if (w->t->layers_config.offload_layers == 0)
        return;
    if (w->copied > 0 && layer == end_of_window(w, w->copied - 1)) {
        bb_script_wait(&w->script, w->copy);
        copy_activations(w, w->copied - 1, false);
    }
    if (layer == w->copied)
        bb_script_wait(&w->script, w->copy);
}

/* ---- forwards and backwards of model chunks (slots of the schedule) ---- */

static struct bb_block *block_of(struct writer *w, const struct bb_slot *slot)
{
    bool own_block = bb_schedule_pairs_slots(&w->t->schedule) && slot->kind != BB_SLOT_FORWARD;

    return &w->blocks[own_block ? 1 : 0];
}

static void write_forward(struct writer *w, const struct bb_slot *slot, int in, int out)
{
    int first = w->modules->first[slot->chunk], end = w->modules->first[slot->chunk + 1];
    struct bb_block *block = block_of(w, slot);
    double backward;

    for (int i = first; i < end; i++) {
        const struct bb_transformer_module *module = &w->modules->list[i];
        int from = i == first ? in : BB_NONE, to = i == end - 1 ? out : BB_NONE;

        call_hooks(w, module, bb_sync_before_forward);
        bb_script_store(&w->script, stored_bytes(w, module, &backward));
        if (module->layer == BB_ARCH_EMBEDDING)
            bb_block_embedding_forward(block, to);
        else if (module->layer == BB_ARCH_HEAD)
            for (int k = 0; k <= w->t->arch.mtp; k++)
                bb_block_head_forward(block, from);
        else if (module->layer == BB_ARCH_MTP)
            bb_block_mtp_forward(block, from, to);
        else
            bb_block_forward(block, module->layer, from, to);
        if (module->layer >= 0)
            offload_after_forward(w, module->layer);
        call_hooks(w, module, bb_sync_after_forward);
    }
}

/* Generates a backward (BACKWARD or WEIGHTS slot of the schedule) of a model chunk: the gradients of the
 * activations, of the weights, or both, for all modules (layers, embedding, head) of the chunk. */
static void write_backward(struct writer *w, const struct bb_slot *slot, int in, int out)
{
    int first = w->modules->first[slot->chunk], end = w->modules->first[slot->chunk + 1];
    bool data = slot->kind == BB_SLOT_BACKWARD, weights = !data || !slot->split;
    struct bb_block *block = block_of(w, slot);

    for (int i = end - 1; i >= first; i--) {
        const struct bb_transformer_module *module = &w->modules->list[i];
        int from = i == end - 1 ? in : BB_NONE, to = i == first ? out : BB_NONE, layer = module->layer;
        double backward, stored = stored_bytes(w, module, &backward);

        block->skip_recompute = !module->recomputed;
        if (data && layer >= 0)
            reload_before_backward(w, layer);
        if (data)
            call_hooks(w, module, bb_sync_before_backward);
        bb_script_store(&w->script, data ? backward - stored : 0);
        if (data && layer == BB_ARCH_EMBEDDING)
            bb_block_embedding_backward(block, from);
        else if (data && layer == BB_ARCH_HEAD)
            for (int k = 0; k <= w->t->arch.mtp; k++)
                bb_block_head_backward(block, to, weights);
        else if (data && layer == BB_ARCH_MTP)
            bb_block_mtp_backward(block, from, to, weights);
        else if (data)
            bb_block_backward(block, layer, from, to, weights);
        else if (layer == BB_ARCH_HEAD)
            for (int k = 0; k <= w->t->arch.mtp; k++)
                bb_block_head_weights(block);
        else if (layer == BB_ARCH_MTP)
            bb_block_mtp_weights(block);
        else if (layer != BB_ARCH_EMBEDDING)
            bb_block_weights(block, layer);
        bb_script_release_stored(&w->script, weights ? backward : 0);
        for (int s = BB_PARAMETER_KINDS - 1; s >= 0; s--)
            if (weights && module->unit[s] != BB_NONE)
                bb_sync_after_backward(w->sync[s], module->unit[s],
                                       bb_schedule_is_last(&w->t->schedule, w->pipe.stage, slot));
    }
}

static void write_slot(struct writer *w, int t)
{
    const struct bb_slot *slot = &w->pipe.slots[t];
    int in = BB_NONE, out = BB_NONE;

    w->script.micro_batch = slot->micro_batch;
    w->script.phase = slot->kind == BB_SLOT_FORWARD ? BB_PHASE_FORWARD : BB_PHASE_BACKWARD;
    if (slot->kind != BB_SLOT_WEIGHTS) {
        in = bb_pipe_input(&w->pipe, t);
        out = bb_pipe_output(&w->pipe, t);
    }
    if (slot->kind == BB_SLOT_FORWARD)
        write_forward(w, slot, in, out);
    else
        write_backward(w, slot, in, out);
}

/* Generates slot t of the schedule (forward or backward of one model chunk). If slot t is a forward that runs
 * concurrently with the next slot, a backward, also generates the next slot. Returns the number of slots generated. */
static int write_slots(struct writer *w, int t)
{
    if (!w->pipe.slots[t].with_next) {
        write_slot(w, t);
        bb_pipe_slot_done(&w->pipe, t);
        return 1;
    }
    bb_script_fork(&w->script);
    write_slot(w, t);
    bb_script_fork_second(&w->script);
    write_slot(w, t + 1);
    bb_script_join(&w->script);
    bb_pipe_slot_done(&w->pipe, t);
    bb_pipe_slot_done(&w->pipe, t + 1);
    return 2;
}

static void finish_step(struct writer *w, int stage)
{
    const struct bb_training *t = w->t;
    /* Number of ranks over which the data-parallel reduction shards a gradient. Megatron-LM's distributed optimizer and
     * ZeRO-1 keep the full gradient buffer on each rank. */
    bool is_sharded = t->policy.kind == BB_SYNC_ZERO2 || bb_sync_gathers_parameters(t->policy.kind);
    size_t shards = is_sharded ? (size_t)t->sync[BB_DENSE].n : 1;

    w->script.micro_batch = BB_NONE;
    w->script.phase = BB_PHASE_GRADIENTS;
    for_each_sync(w, bb_sync_wait_reductions);
    bb_block_reduce_replicated(&w->blocks[0], (w->modules->replicated + shards - 1) / shards);
    if (bb_stage_holds_tied_embedding(t, stage))
        bb_block_reduce_tied(&w->blocks[0], (int)shards);
    bb_block_gradient_norm(&w->blocks[0]);
    for_each_sync(w, bb_sync_finish_step);
}

/* ---- program of a stage ---- */

static struct bb_script_lane open_lane(struct writer *w, int comm)
{
    return bb_script_lane(&w->script, &w->t->step->layout, comm);
}

static void open_lanes(struct writer *w, int stage, struct bb_block_lanes *lanes)
{
    const struct bb_training *t = w->t;

    *lanes = (struct bb_block_lanes){.tp = open_lane(w, t->tp), .cp = open_lane(w, t->cp), .ep = open_lane(w, t->ep)};
    lanes->ep_local = open_lane(w, t->ep_local);
    lanes->ep_cross = open_lane(w, t->ep_cross);
    lanes->etp = open_lane(w, t->etp);
    lanes->etp_ep = open_lane(w, t->etp_ep);
    lanes->embedding = bb_stage_holds_tied_embedding(t, stage) ? open_lane(w, t->embedding) : bb_no_lane();
    for (int i = 0; i < BB_NORMS; i++)
        lanes->norm[i] = open_lane(w, t->norms[i]);
}

static void open_sync(struct writer *w, bool remainder)
{
    for (int s = 0; s < BB_PARAMETER_KINDS; s++)
        if (w->modules->n_units[s] > 0)
            bb_sync_init(&w->sync[s], &(struct bb_sync_spec){.policy = &w->t->policy,
                                                             .comms = w->t->sync[s],
                                                             .step = w->t->step,
                                                             .script = &w->script,
                                                             .units = w->modules->units[s],
                                                             .n_units = w->modules->n_units[s],
                                                             .holds_remainder = remainder});
}

static int validate_program_size(const struct writer *w, int slots_done)
{
    const struct bb_schedule *s = &w->t->schedule;
    int programs = w->t->step->n_roles, fewer;

    if (w->script.program->n_ops * (size_t)programs <= BB_MAX_OPERATIONS)
        return 0;
    /* The operations after the slots (gradients, optimizer) are not written yet: a margin of 1 %. tests/cli/test_suggestions.py
     * runs the suggested number. */
    fewer = (int)(0.99 * s->micro_batches * slots_done / w->pipe.n_slots);
    fewer = bb_schedule_row(s)->chunked ? fewer / s->stages * s->stages : fewer;
    return bb_err(BB_EUSAGE,
                  "%s: %d micro-batches require %d programs of more than %zu operations each; at most %d operations "
                  "in total are supported; try: --micro-batches %d",
                  w->t->config->proxy, s->micro_batches, programs, w->script.program->n_ops, BB_MAX_OPERATIONS,
                  fewer > 0 ? fewer : 1);
}

static int write_stage(struct writer *w, const struct bb_stage *stage)
{
    struct bb_block_lanes lanes;
    int rc;

    open_lanes(w, stage->stage, &lanes);
    for (int i = 0; i < 2; i++)
        bb_block_init(&w->blocks[i], w->t->layers, &w->script, &lanes, stage->ep_rank);
    open_sync(w, stage->remainder);
    bb_pipe_open(&w->pipe, &w->t->schedule, &w->script, &w->t->step->layout, w->t->pipe, stage->stage,
                 bb_layers_boundary_elements(w->t->layers),
                 bb_pipe_split_mtp_part(&w->t->split) < bb_schedule_parts(&w->t->schedule) - 1 ? 1 + w->t->arch.mtp
                                                                                               : 1);
    for_each_sync(w, bb_sync_begin_step);
    for (int i = 0; i < w->pipe.n_slots;) {
        i += write_slots(w, i);
        TRY(validate_program_size(w, i));
    }
    finish_step(w, stage->stage);
    rc = bb_script_result(&w->script);
out:
    return rc;
}

int bb_stage_write(const struct bb_training *t, const struct bb_stage *stage, struct bb_role *role)
{
    struct bb_modules modules;
    struct writer w = {.t = t, .modules = &modules};
    int rc;

    bb_modules_make(&modules, t, stage->stage);
    bb_script_init(&w.script, &role->program, t->config);
    rc = write_stage(&w, stage);
    for (int s = 0; s < BB_PARAMETER_KINDS; s++)
        bb_sync_release(w.sync[s]);
    bb_pipe_close(&w.pipe);
    bb_script_release(&w.script);
    bb_modules_release(&modules);
    return rc;
}
