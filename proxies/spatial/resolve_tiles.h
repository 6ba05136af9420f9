/*
 * resolve_tiles.h - resolves the command-line options of the proxies `spatial` and `gems` into numbers that are
 * consistent with each other and with the number of ranks. The functions have no side effects except error messages.
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
    int parts[BB_MAX_SPATIAL_SPLITS]; /* [n_spatial] number of tiles of each spatial split (pipeline stage that works
                                         on tiles) */
    struct bb_slices slices[BB_MAX_SPATIAL_SPLITS];
    bool default_parts; /* true: the user has not set --spatial-parts, so the numbers of tiles are defaults */
    int *modules;       /* [n_splits] number of modules (blocks or cells) of each split (pipeline stage);
                           bb_resolved_tiles_release frees the array */
};

/*
 * bb_resolve_tiles - resolves the options. Defaults: 4 tiles per spatial split, or 2 if 4 do not fit the number of
 * ranks (gems: no tiles), and the smallest number of splits (pipeline stages) that fits the ranks (gems without tiles:
 * 4 if possible).
 *   s        out; the caller releases it with bb_resolved_tiles_release, also after an error
 *   config   in and out: options without a value are filled in
 *   Returns  0, or -BB_EUSAGE after printing an error message with the nearest valid value
 */
int bb_resolve_tiles(struct bb_resolved_tiles *s, struct bb_proxy_config *config, const struct bb_net *net,
                     bool gems) BB_MUST_CHECK;
void bb_resolved_tiles_release(struct bb_resolved_tiles *s);

#endif
