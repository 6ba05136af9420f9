/*
 * spatial.c - the proxies layer_parallel and spatial: layer (pipeline) and spatial parallelism as in MPI4DL. A network
 * is divided into splits (pipeline stages). With `spatial`, the first splits work on tiles of the image and exchange
 * halos. The remaining splits form a pipeline on whole maps (tensors that are not tiled); replicas of the network are
 * data parallel.
 *
 * The step of one rank, in GPipe's order: for each micro-batch receive (and join tiles), forward, send; then for each
 * micro-batch receive gradients, backward, send. --schedule 1f1b selects the order of 1F1B. Then follow all-reduces of the
 * weight gradients, first over the tiles of a split or, in a split on whole maps, over its D data-parallel ranks, then
 * over the replicas of the whole network. All tiles read the same image and select their tile, so the image is not
 * scattered.
 */
#include "bootstrap/base/alloc.h"
#include "proxies/form/author/proxy.h"
#include "proxies/workloads/spatial/tile_stage.h"

#include <stdlib.h>

/* Adds the forwards and backwards of all micro-batches in the order of the schedule. With 1F1B, a forward and the
 * backward after it, or the reverse, exchange messages with the same split, in one NCCL group call. */
static void micro_batches(struct bb_tile_stage *w)
{
    const struct bb_schedule *schedule = &w->tiling->schedule;
    struct bb_replica *replica = &w->replicas[BB_DIRECT];
    struct bb_slot *slots;
    int n;

    BB_NEW(slots, bb_schedule_max_slots(schedule));
    n = bb_schedule_make(schedule, replica->at.split, slots);
    for (int t = 0, paired = BB_NONE; t < n; t++) {
        enum bb_pass_direction direction = slots[t].kind == BB_SLOT_FORWARD ? BB_FORWARD : BB_BACKWARD;

        w->script.micro_batch = slots[t].micro_batch;
        if (paired == BB_NONE)
            bb_tile_stage_receive(w, replica, direction);
        paired = schedule->kind == BB_1F1B && t + 1 < n && slots[t + 1].kind != slots[t].kind ? slots[t + 1].micro_batch
                                                                                              : BB_NONE;
        bb_tile_stage_compute_and_send(w, replica, direction, paired);
    }
    w->script.micro_batch = BB_NONE;
    free(slots);
}

/* Adds two all-reduces of the weight gradients of the rank's pipeline stage ("split"). The first is over the ranks of
 * the stage: they hold tiles of the image or, in a stage without tiles, are data parallel. The second is over the
 * replicas of the network. An all-reduce over a single rank is omitted. */
static void reduce_gradients(struct bb_tile_stage *w)
{
    const struct bb_tiling *t = w->tiling;
    const struct bb_layer_split *split = w->replicas[BB_DIRECT].split;
    size_t count = split->layers.parameters;
    int buffer = bb_script_buffer(&w->script, "gradients", BB_USE_GRADIENTS, count);

    w->script.phase = BB_PHASE_GRADIENTS;
    bb_script_wait(&w->script, bb_tile_stage_reduce(w, split->layers.tiled ? split->comm_spatial : t->comm_local_dp,
                                                    split->layers.tiled, count, buffer));
    bb_script_wait(&w->script, bb_tile_stage_reduce(w, t->comm_dp, false, count, buffer));
    bb_tile_stage_optimizer(w, count);
}

static int build_role(struct bb_tiling *t, struct bb_role *role, int mp_rank)
{
    struct bb_tile_position at = bb_tiling_position(t, mp_rank);
    struct bb_tile_stage w;
    int rc;

    role->name = at.split < t->n_spatial ? bb_step_text(t->step, "split %d, tile %d", at.split, at.index)
                                         : bb_step_text(t->step, "split %d", at.split);
    bb_tile_stage_init(&w, t, &role->program, mp_rank);
    micro_batches(&w);
    reduce_gradients(&w);
    bb_tile_stage_memory(&w, role->training_bytes);
    rc = bb_script_result(&w.script);
    bb_tile_stage_release(&w);
    return rc;
}

static int build_layers(const struct bb_proxy_config *config, struct bb_step *step)
{
    return bb_tiling_step(config, BB_TILING_LAYERS, step, build_role);
}

static int build_spatial(const struct bb_proxy_config *config, struct bb_step *step)
{
    return bb_tiling_step(config, BB_TILING_SPATIAL, step, build_role);
}

const struct bb_proxy bb_layer_parallel_proxy = {
    .name = "layer_parallel",
    .help = "a convolutional network in pipeline stages (GPipe, 1F1B), without tiles, and its replicas",
    .features = BB_FEATURE_TILED,
    .compute = "timed",
    .build = build_layers};

const struct bb_proxy bb_spatial_proxy = {
    .name = "spatial",
    .help = "spatial parallelism: tiles of large images with halo exchange, then a pipeline on whole maps",
    .features = BB_FEATURE_TILED,
    .compute = "timed",
    .build = build_spatial};
