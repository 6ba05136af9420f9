/*
 * tiling.h - placement of a network on the ranks of a job, for the proxies `layer_parallel`, `spatial` and `gems`. The
 * functions have no side effects except error messages.
 *
 * A *split* is a range of consecutive modules of the network, that is, a pipeline stage. The first Q of S splits are
 * spatial: each has P model-parallel ranks, one per tile. Every other split works on whole maps (tensors that are not
 * tiled) and has D model-parallel ranks, called local replicas, which are data parallel. Model-parallel ranks are
 * numbered as in MPI4DL: those of split 0, then those of split 1, and so on. A replica has mp ranks: P for each spatial
 * split and (S - Q) D for the other splits. Q is 0 for `layer_parallel`. rank = replica * mp + mp_rank. GEMS runs a
 * second, inverse replica on the same ranks: its model-parallel rank p is on rank mp - 1 - p.
 *
 * Groups of ranks. Members are always in ascending rank order; in an inverse replica, tiles and splits are therefore
 * numbered backwards:
 *   halo       the tiles of a split; splits with different numbers of tiles have separate groups
 *   join       all tiles and the D ranks of the next split, for activations between spatial splits and for joining
 *              tiles to whole maps
 *   lp         one rank of each split that works on whole maps: a layer-parallel pipeline
 *   spatial    the tiles whose weight gradients are summed
 *   local_dp   the D ranks of a split
 *   batch norm the ranks of a split in all replicas, with --sync-bn
 *   dp         the ranks with the same model-parallel rank in all replicas
 *   pair       GEMS: ranks r and mp - 1 - r (of all replicas), which have the same two splits
 *   middle     GEMS with odd mp: rank (mp - 1) / 2 of all replicas, which has the same split in both directions
 * A link is the connection of two adjacent splits. Consecutive links of join and lp alternate between two
 * communicators, so a receive does not queue after a send.
 */
#ifndef BB_PROXIES_WORKLOADS_SPATIAL_TILING_H
#define BB_PROXIES_WORKLOADS_SPATIAL_TILING_H

#include "proxies/form/author/args.h"
#include "proxies/form/author/proxy.h"
#include "proxies/workloads/spatial/split_layers.h"
#include "proxies/workloads/transformer/schedule.h"

/* Features (enum bb_proxy_feature) of the proxies `layer_parallel`, `spatial` and `gems`. */
#define BB_FEATURE_TILED                                                                                               \
    (BB_FEATURE_TILES | BB_FEATURE_MODEL | BB_FEATURE_LAYERS | BB_FEATURE_STAGES | BB_FEATURE_SCHEDULE |               \
     BB_FEATURE_IMAGES | BB_FEATURE_MICRO_BATCHES | BB_FEATURE_MICRO_BATCH_SIZE | BB_FEATURE_GLOBAL_BATCH |            \
     BB_FEATURE_TIMED | BB_FEATURE_GEMM | BB_FEATURE_TFLOPS | BB_FEATURE_LAYER_US)

enum bb_tiling_kind { BB_TILING_LAYERS, BB_TILING_SPATIAL, BB_TILING_GEMS }; /* proxies layer_parallel, spatial, gems */

/* Indices of the two replicas of GEMS on the same ranks. Other proxies have only the direct replica. */
enum { BB_DIRECT, BB_INVERSE, BB_REPLICAS };

struct bb_layer_split {
    struct bb_split_layers layers;
    int base, width; /* the model-parallel ranks of the split are base to base + width - 1 */
    int comm_halo, comm_spatial;
    int comm_norm, n_norm; /* communicator of --sync-bn, or BB_NONE, and the number of its ranks */
};

struct bb_tiling {
    struct bb_proxy_config config; /* configuration of the proxy, with all options resolved */
    struct bb_net net;
    struct bb_step *step;
    bool gems, layers_only; /* layers_only: proxy layer_parallel */
    struct bb_schedule schedule;
    struct bb_batches batches; /* sizes of the micro-batches of the replicas (GEMS: of pairs of replicas) */
    struct bb_layer_split *splits;
    int n_splits, n_spatial, local_dp;
    int tiles, mp, replicas; /* tiles: number of ranks of all spatial splits (one per tile); mp: ranks per replica;
                                replicas: number of replicas (GEMS: of pairs of replicas) */
    /* comm_join, comm_lp: indices of the communicators for messages between adjacent splits (pipeline stages),
     * [direct or inverse replica of GEMS][number of the earlier split in its group, modulo 2]; n_join, n_lp: number
     * of communicators per replica, 0 to 2. */
    int comm_join[BB_REPLICAS][2], comm_lp[BB_REPLICAS][2], n_join, n_lp;
    /* indices of the communicators of the groups local_dp, dp, pair and middle (defined at the top of tiling.h);
     * BB_NONE: unused */
    int comm_local_dp, comm_dp, comm_pair, comm_middle;
};

extern const struct bb_proxy bb_layer_parallel_proxy, bb_spatial_proxy;

/* Position of a model-parallel rank in its replica. split: index of its split (pipeline stage); index: number of its
 * tile in a spatial split; in other splits, its number among the D local replicas. */
struct bb_tile_position {
    int split, index;
};
struct bb_tile_position bb_tiling_position(const struct bb_tiling *t, int mp_rank);

/*
 * bb_resolve_tiles - resolves the options. Defaults: 4 tiles per spatial split, or 2 if 4 do not fit the number of
 * ranks (layer_parallel, gems: no tiles), and the smallest number of splits (pipeline stages) that fits the ranks
 * (without tiles: 4 if possible).
 *   t        in: config, net, gems and layers_only; out: config with a value for every option, schedule, n_splits,
 *            n_spatial, local_dp and, of each split, the number of modules and, if it is spatial, its tiles.
 *            The caller frees t->splits, also after an error
 *   Returns  0, or -BB_EUSAGE after printing an error message with the nearest valid value
 */
int bb_resolve_tiles(struct bb_tiling *t) BB_MUST_CHECK;

/*
 * bb_tiling_step - builds the step: splits, groups and roles. A role is a set of ranks with the same program.
 *   build    function that builds the program of one role; mp_rank is the lowest model-parallel rank of the role
 *   Returns  0, -BB_EFAIL, or -BB_EUSAGE after printing an error message with the nearest valid layout
 */
int bb_tiling_step(const struct bb_proxy_config *config, enum bb_tiling_kind kind, struct bb_step *step,
                   int (*build)(struct bb_tiling *t, struct bb_role *role, int mp_rank)) BB_MUST_CHECK;

#endif
