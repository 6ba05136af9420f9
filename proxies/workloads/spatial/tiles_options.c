/* tiles_options.c - options of the proxies layer_parallel, spatial and gems (see step/config.h). */
#include "proxies/form/step/config.h"

static const char *const slice_choices[] = {"vertical", "horizontal", "square", NULL};
static const char *const backward_choices[] = {"none", "dx", "dy", NULL};
static const char *const gradient_choices[] = {"sum", "mean", NULL};

#define FIELD(name) offsetof(struct bb_tiles_options, name)

const struct bb_opt bb_tiles_options[] = {
    OPT_CHOICE(
        0, "slice", FIELD(slice), NULL, "HOW", slice_choices,
        "tile shape: vertical strips, horizontal strips or a square grid (default: square if P is a square number)"),
    OPT_STRING(0, "spatial-parts", FIELD(spatial_parts), NULL, "P[,P...]",
               "tiles per image: one number, or a list with one number per spatially split pipeline stage; 1: no "
               "tiles (default: 4, or 2 if the number of ranks does not allow 4; gems: no tiles)"),
    OPT_INT(
        0, "splits", FIELD(splits), NULL, "S", 1, 1e6,
        "pipeline splits of the layers, as --stages (default: the smallest number that fits the ranks; without tiles 4 "
        "if possible)"),
    OPT_INT(0, "spatial-splits", FIELD(spatial_splits), NULL, "Q", 1, 1e6,
            "number of leading splits that work on tiles (default: 1)"),
    OPT_STRING(0, "balance", FIELD(balance), NULL, "N,N,...",
               "modules per split (default: equal shares, remainder in the last split)"),
    OPT_FLAG(0, "halo-d2", FIELD(halo_d2),
             "fused halos (MPI4DL's D2): one wide halo for several layers instead of one per layer"),
    OPT_INT(0, "fused-layers", FIELD(fused_layers), NULL, "F", 1, 1e6,
            "with --halo-d2: number of blocks that share a halo (default: 1)"),
    OPT_CHOICE(0, "halo-bwd", FIELD(halo_bwd), NULL, "HOW", backward_choices,
               "halo exchange in the backward pass. none: as MPI4DL; dx: return the gradients of received halos and "
               "add them; dy: exchange halos of the output gradients (default: none)"),
    OPT_FLAG(0, "halo-overlap", FIELD(halo_overlap),
             "forward: compute the interior of a tile during its halo exchange"),
    OPT_INT(0, "local-dp", FIELD(local_dp), NULL, "D", 1, 1e6,
            "data-parallel ranks of each split after the spatial splits; point-to-point messages distribute the batch, "
            "where MPI4DL uses scatter and gather (default: 1)"),
    OPT_CHOICE(0, "spatial-gradients", FIELD(spatial_gradients), NULL, "HOW", gradient_choices,
               "all-reduce of the tiles' weight gradients: sum, or mean (sum / P, as MPI4DL does) (default: sum)"),
    OPT_INT(0, "replications", FIELD(replications), NULL, "ETA", 1, 1e6,
            "gems: passes per step, an even number, alternating between both replicas; 2: MAST, more: MASTER; 1: a "
            "pipeline of one replica (default: 2)"),
    OPT_FLAG(0, "comm-opt", FIELD(comm_opt),
             "gems: exchange parameters and gradients between the replicas during the passes, without an all-reduce "
             "(tiles of one replica still reduce their gradients)"),
    OPT_FLAG(0, "odd-step", FIELD(odd_step),
             "with gems --comm-opt: model an odd-numbered step (replica roles swapped)"),
    {0},
};
