/*
 * tiling.h - a network on the ranks of a job: its splits, their tiles, the places of a replica, and the groups that
 * they form. Shared by `spatial` and `gems`. Pure.
 *
 * Places, as in MPI4DL: those of split 0, then those of split 1, ...; a spatial split has P places, one for each tile,
 * every other one D (local data parallelism). A replica has mp = sum of P + (S - Q) D of them, and rank = replica * mp
 * + place. GEMS runs a second, inverse replica on the same ranks: its place p is on rank mp - 1 - p.
 *
 * Groups (an inverse replica's have their members in ascending ranks as well, so its tiles and splits count backwards):
 *   halo       the tiles of a split; where splits have different numbers of tiles, one group for each number
 *   join       all tiles and the D places behind them: hand-over from split to split until maps are whole again
 *   lp         one place of each split that works on whole maps: a pipeline
 *   spatial    tiles whose weight gradients are added
 *   local_dp   the D places of a split        dp   the same place of all replicas
 *   pair       GEMS: ranks r and mp - 1 - r (of all replicas): both have both of their splits
 * Neighbouring links of join and lp use two communicators in turn, so that a receive does not queue behind a send.
 */
#ifndef BB_PROXIES_SPATIAL_TILING_H
#define BB_PROXIES_SPATIAL_TILING_H

#include "proxies/spatial/split_layers.h"

/* What both proxies take (enum bb_proxy_feature). */
#define BB_FEATURE_TILED                                                                                                 \
    (BB_FEATURE_TILES | BB_FEATURE_MODEL | BB_FEATURE_LAYERS | BB_FEATURE_MICRO_BATCHES | BB_FEATURE_MICRO_BATCH_SIZE |          \
     BB_FEATURE_GLOBAL_BATCH | BB_FEATURE_TIMED | BB_FEATURE_GEMM | BB_FEATURE_TFLOPS | BB_FEATURE_LAYER_US)

enum { BB_DIRECT, BB_INVERSE, BB_REPLICAS }; /* the two replicas of GEMS; others have the usual one */

struct bb_layer_split {
    struct bb_split_layers layers;
    int base, width; /* places base .. base + width - 1 */
    int comm_halo, comm_spatial;
};

struct bb_tiling {
    struct bb_proxy_config config; /* with everything settled */
    struct bb_net net;
    struct bb_step *step;
    bool gems;
    struct bb_layer_split *splits;
    int n_splits, n_spatial, local_dp;
    int tiles, mp, replicas; /* places of spatial splits; places in all; copies of them all */
    int comm_join[BB_REPLICAS][2], comm_lp[BB_REPLICAS][2], n_join, n_lp; /* links take turns */
    int comm_local_dp, comm_dp, comm_pair, comm_middle;                   /* BB_NONE: none    */
};

/* A place: its split, and which tile or local replica it is there. */
struct bb_tile_position {
    int split, index;
};
struct bb_tile_position bb_tiling_position(const struct bb_tiling *t, int mp_rank);

/*
 * bb_tiling_step - the step: splits, groups, and its roles, each written by `build` for its lowest place; places of
 * equal programs share one. Refusals name the nearest valid layout, -BB_EUSAGE.
 */
int bb_tiling_step(const struct bb_proxy_config *config, bool gems, struct bb_step *step,
                   int (*build)(struct bb_tiling *t, struct bb_role *role, int mp_rank)) BB_MUST_CHECK;

#endif
