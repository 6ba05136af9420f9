/* tiles_options.c - the rows (see step/config.h). */
#include "proxies/step/config.h"

static const char *const slice_choices[] = {"vertical", "horizontal", "square", NULL};
static const char *const backward_choices[] = {"none", "dx", "dy", NULL};
static const char *const gradient_choices[] = {"sum", "mean", NULL};

#define FIELD(name) offsetof(struct bb_tiles_options, name)

const struct bb_opt bb_tiles_options[] = {
    OPT_INT(0, "image-size", FIELD(image_size), NULL, "N", 1, 1e9,
            "images of N x N, a power of two (default: the model's)"),
    OPT_INT(0, "filters", FIELD(filters), NULL, "F", 1, 1e5,
            "amoebanet_d: filters (default: the model's); its cells are --layers"),
    OPT_CHOICE(0, "slice", FIELD(slice), NULL, "HOW", slice_choices,
             "tiles are vertical strips, horizontal strips or a square grid (default: square where P is a square)"),
    OPT_STRING(0, "spatial-parts", FIELD(spatial_parts), NULL, "P[,P...]",
               "tiles of an image: one number, or one for each spatial split (default: 4, or 2; gems: no tiles)"),
    OPT_INT(0, "splits", FIELD(splits), NULL, "S", 1, 1e6,
            "splits of the layers (default: the smallest number that fits the ranks)"),
    OPT_INT(0, "spatial-splits", FIELD(spatial_splits), NULL, "Q", 1, 1e6,
            "how many of the first splits work on tiles (default: 1)"),
    OPT_STRING(0, "balance", FIELD(balance), NULL, "N,N,...",
               "modules of each split (default: equal, the rest to the last)"),
    OPT_FLAG(0, "halo-d2", FIELD(halo_d2), "one wide halo for several layers instead of one for each"),
    OPT_INT(0, "fused-layers", FIELD(fused_layers), NULL, "F", 1, 1e6,
            "--halo-d2: blocks that share a halo (default: 1)"),
    OPT_CHOICE(0, "halo-bwd", FIELD(halo_bwd), NULL, "HOW", backward_choices,
             "backward: no halos, as MPI4DL does; dx: gradients of received halos go back and are added; dy: halos "
             "of the gradients of outputs (default: none)"),
    OPT_FLAG(0, "halo-overlap", FIELD(halo_overlap),
             "forward: the inside of a tile is computed while its halo is on its way"),
    OPT_INT(0, "local-dp", FIELD(local_dp), NULL, "D", 1, 1e6,
            "data-parallel ranks of each split behind the spatial ones; they take their parts of a batch by messages, "
            "where MPI4DL scatters and gathers (default: 1)"),
    OPT_CHOICE(0, "spatial-gradients", FIELD(spatial_gradients), NULL, "HOW", gradient_choices,
             "weight gradients of tiles are added (sum), or divided by P as well (mean, as MPI4DL does) (default: "
             "sum)"),
    OPT_INT(0, "replications", FIELD(replications), NULL, "ETA", 1, 1e6,
            "gems: passes of a step, an even number, in turn over both replicas (default: 2)"),
    OPT_FLAG(
        0, "comm-opt", FIELD(comm_opt),
        "gems: parameters and gradients go from one replica to the other under the passes, with no all-reduce between "
        "them (tiles of one replica add theirs)"),
    OPT_FLAG(0, "odd-step", FIELD(odd_step), "gems --comm-opt: a step in which the replicas have changed places"),
    {0},
};
