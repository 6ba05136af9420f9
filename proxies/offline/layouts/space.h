/* space.h - lists the layouts to search: all combinations of values for the options that the user has not set.
 * Counts the invalid combinations by reason. */
#ifndef BB_PROXIES_OFFLINE_LAYOUTS_SPACE_H
#define BB_PROXIES_OFFLINE_LAYOUTS_SPACE_H

#include "proxies/offline/layouts/layouts.h"

#define BB_MAX_MICRO_BATCH 8 /* the largest micro-batch size that a search tries; the smaller ones divide it */

/* The valid layouts. Layouts that differ only in the kind of recomputation are stored once. In each layout, tp x cp
 * x pp x dp is the number of ranks, and the global batch size is divisible by dp x micro-batch size. */
struct bb_layout_space {
    struct bb_layout_choice *list;
    int n;
    /* evaluated: number of combinations of option values; rejected: number of invalid combinations per reason.
     * Combinations that differ only in the kind of recomputation are counted separately. */
    long long evaluated, rejected[BB_REJECTION_REASONS];
    int recomputes[BB_RECOMPUTES], n_recomputes; /* kinds of recomputation to search, from the least to the most
                                                    recomputed FLOPs */
};

/* bb_layout_divide - divides the layers among the stages and chunks of a layout: evenly if pp divides the layers or as given,
 * else with other numbers of layers on the first and the last stage, or with a pipeline layout if its longest stage has fewer.
 *   c        in: pp, vpp; out: first_layers, last_layers, pipeline_layout
 *   Returns  false: there is no such division */
bool bb_layout_divide(const struct bb_transformer_options *given, const struct bb_arch *arch,
                      struct bb_layout_choice *c);
void bb_layout_space_init(struct bb_layout_space *space, const struct bb_layout_search *search,
                          const struct bb_arch *arch);
void bb_layout_space_release(struct bb_layout_space *space);

#endif
