/*
 * tiling.h - placement of a network on the ranks of a job: splits, tiles, the model-parallel ranks of a replica, and
 * the communication groups. Shared by `spatial` and `gems`. Pure functions.
 *
 * Model-parallel ranks are numbered as in MPI4DL: those of split 0, then those of split 1, and so on. A spatial split
 * has P model-parallel ranks, one per tile; every other split has D (local data parallelism). With S splits, Q of them
 * spatial, a replica has mp = sum of P + (S - Q) D ranks, and rank = replica * mp + mp_rank. GEMS runs a second,
 * inverse replica on the same ranks: its model-parallel rank p is on rank mp - 1 - p.
 *
 * Groups (members are in ascending rank order also for an inverse replica, so its tiles and splits are numbered
 * backwards):
 *   halo       the tiles of a split; splits with different numbers of tiles have separate groups
 *   join       all tiles and the D ranks of the next split: activations between spatial splits, and the join to whole
 *              maps
 *   lp         one rank of each split that works on whole maps: a layer-parallel pipeline
 *   spatial    the tiles whose weight gradients are summed
 *   local_dp   the D ranks of a split
 *   dp         the same model-parallel rank of all replicas
 *   pair       GEMS: ranks r and mp - 1 - r (of all replicas), which hold the same two splits
 * Consecutive links of join and lp alternate between two communicators, so a receive does not queue after a send.
 */
#ifndef BB_PROXIES_SPATIAL_TILING_H
#define BB_PROXIES_SPATIAL_TILING_H

#include "proxies/spatial/split_layers.h"

/* Features that both proxies support (enum bb_proxy_feature). */
#define BB_FEATURE_TILED                                                                                               \
    (BB_FEATURE_TILES | BB_FEATURE_MODEL | BB_FEATURE_LAYERS | BB_FEATURE_MICRO_BATCHES |                              \
     BB_FEATURE_MICRO_BATCH_SIZE | BB_FEATURE_GLOBAL_BATCH | BB_FEATURE_TIMED | BB_FEATURE_GEMM | BB_FEATURE_TFLOPS |  \
     BB_FEATURE_LAYER_US)

enum { BB_DIRECT, BB_INVERSE, BB_REPLICAS }; /* the two replicas of GEMS; other proxies have only the direct one */

struct bb_layer_split {
    struct bb_split_layers layers;
    int base, width; /* model-parallel ranks base .. base + width - 1 */
    int comm_halo, comm_spatial;
};

struct bb_tiling {
    struct bb_proxy_config config; /* with all options resolved */
    struct bb_net net;
    struct bb_step *step;
    bool gems;
    struct bb_layer_split *splits;
    int n_splits, n_spatial, local_dp;
    int tiles, mp, replicas; /* ranks of spatial splits; ranks per replica; number of replicas (GEMS: of the pair of
                                replicas) */
    int comm_join[BB_REPLICAS][2], comm_lp[BB_REPLICAS][2], n_join, n_lp; /* [replica][link modulo 2]; number of
                                                                             communicators in use, 0 to 2 */
    int comm_local_dp, comm_dp, comm_pair, comm_middle;                   /* BB_NONE: unused */
};

/* The split of a model-parallel rank, and its tile or local replica in that split. */
struct bb_tile_position {
    int split, index;
};
struct bb_tile_position bb_tiling_position(const struct bb_tiling *t, int mp_rank);

/*
 * bb_tiling_step - build the step: splits, groups and roles.
 *   gems     false: proxy spatial; true: proxy gems
 *   build    writes one role, for the lowest model-parallel rank with this program; ranks with equal programs share a
 *            role
 *   Returns  0, -BB_EFAIL, or -BB_EUSAGE after an error line with the nearest valid layout
 */
int bb_tiling_step(const struct bb_proxy_config *config, bool gems, struct bb_step *step,
                   int (*build)(struct bb_tiling *t, struct bb_role *role, int mp_rank)) BB_MUST_CHECK;

#endif
