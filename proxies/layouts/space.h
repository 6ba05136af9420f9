/* space.h - lists all layouts: every combination of the values that are not given, and the number of invalid ones by
 * reason. */
#ifndef BB_PROXIES_LAYOUTS_SPACE_H
#define BB_PROXIES_LAYOUTS_SPACE_H

#include "proxies/layouts/layouts.h"

/* Layouts without their recomputation; each has a valid grid and a batch that divides. */
struct bb_layout_space {
    struct bb_layout_choice *list;
    int n;
    long long evaluated, rejected[BB_REJECTION_REASONS]; /* numbers of layouts, counting each kind of recomputation */
    int recomputes[BB_RECOMPUTES], n_recomputes;         /* kinds of recomputation that are searched, the least first */
};

int bb_layout_space_init(struct bb_layout_space *space, const struct bb_layout_search *search,
                         const struct bb_arch *arch) BB_MUST_CHECK;
void bb_layout_space_release(struct bb_layout_space *space);

#endif
