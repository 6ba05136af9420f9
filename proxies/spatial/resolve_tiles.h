/*
 * resolve_tiles.h - the options of `spatial` and `gems` as numbers that fit together and fit the ranks. Pure.
 */
#ifndef BB_PROXIES_SPATIAL_RESOLVE_TILES_H
#define BB_PROXIES_SPATIAL_RESOLVE_TILES_H

#include "proxies/spatial/tiles.h"
#include "proxies/step/config.h"
#include "proxies/step/step.h"

#define BB_MAX_SPATIAL_SPLITS 64

struct bb_resolved_tiles {
    bool gems;
    int n_splits, n_spatial, local_dp;
    int parts[BB_MAX_SPATIAL_SPLITS]; /* tiles of each spatial split       */
    struct bb_slices slices[BB_MAX_SPATIAL_SPLITS];
    bool default_parts; /* the user did not say how many     */
    int *modules;    /* of each split; room for all of net */
};

/*
 * bb_settle - fills s, and in config what its user left open. Splits and tiles that nobody asked for are the smallest
 * that fit the ranks. What cannot be is said with the nearest that can, -BB_EUSAGE. release is fine on a zeroed one.
 */
int bb_resolve_tiles(struct bb_resolved_tiles *s, struct bb_proxy_config *config, const struct bb_net *net, bool gems) BB_MUST_CHECK;
void bb_resolved_tiles_release(struct bb_resolved_tiles *s);

#endif
