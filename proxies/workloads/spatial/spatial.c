/*
 * spatial.c - the proxy spatial: spatial parallelism as in MPI4DL. A network is divided into splits (pipeline stages).
 * The first splits work on tiles of the image and exchange halos; the remaining splits form a pipeline on whole maps
 * (tensors that are not tiled); replicas of the network are data parallel.
 *
 * The step of one rank, in GPipe's order: for each micro-batch receive (and join tiles), forward, send; then for each
 * micro-batch receive gradients, backward, send; then all-reduces of the weight gradients, first over the tiles of a
 * split or, in a split on whole maps, over its D data-parallel ranks, then over the replicas of the whole network. All
 * tiles read the same image and select their tile, so the image is not scattered.
 */
#include "proxies/form/author/proxy.h"
#include "proxies/workloads/spatial/tile_stage.h"

static void micro_batches(struct bb_tile_stage *w, enum bb_pass_direction direction)
{
    struct bb_script *s = &w->script;

    for (s->micro_batch = 0; s->micro_batch < w->tiling->config.micro_batches; s->micro_batch++) {
        bb_tile_stage_receive(w, &w->replicas[BB_DIRECT], direction);
        bb_tile_stage_compute_and_send(w, &w->replicas[BB_DIRECT], direction);
    }
    s->micro_batch = BB_NONE;
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
    micro_batches(&w, BB_FORWARD);
    micro_batches(&w, BB_BACKWARD);
    reduce_gradients(&w);
    bb_tile_stage_memory(&w, role->training_bytes);
    rc = bb_script_result(&w.script);
    bb_tile_stage_release(&w);
    return rc;
}

static int build_step(const struct bb_proxy_config *config, struct bb_step *step)
{
    return bb_tiling_step(config, false, step, build_role);
}

const struct bb_proxy bb_spatial_proxy = {
    .name = "spatial",
    .help = "spatial parallelism: tiles of large images with halo exchange, then a pipeline on whole maps",
    .features = BB_FEATURE_TILED,
    .compute = "timed",
    .build = build_step};
