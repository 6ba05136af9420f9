/* tiles_options.h - options of `busbar proxy` and `busbar plan`: how images and layers are cut. */
#ifndef BB_PROXIES_SPATIAL_TILES_OPTIONS_H
#define BB_PROXIES_SPATIAL_TILES_OPTIONS_H

#include "bootstrap/cli/opts.h"

/* 0, false and NULL: not given. Nothing has a default text, so that what a proxy does not know can be refused. */
struct bb_tiles_options {
    int image_size, filters;
    const char *slice;         /* "vertical", "horizontal", "square"                        */
    const char *spatial_parts; /* "4", or one number for each spatial split: "8,4"          */
    int splits, spatial_splits;
    const char *balance; /* modules of each split: "20,18"                            */
    bool halo_d2;
    int fused_layers;     /* modules that share a halo                                 */
    const char *halo_bwd; /* "none", "dx", "dy"                                        */
    bool halo_overlap;
    int local_dp;
    const char *spatial_gradients; /* "sum", "mean"                                     */
    int replications;
    bool comm_opt, odd_step;
};

extern const struct bb_opt bb_tiles_options[];

#endif
