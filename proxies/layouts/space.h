/* space.h - which layouts there are: every choice of what was left open, and why it cannot be. */
#ifndef BB_PROXIES_LAYOUTS_SPACE_H
#define BB_PROXIES_LAYOUTS_SPACE_H

#include "proxies/layouts/layouts.h"

/* A choice but for recompute; its grid can be and the batch divides. */
struct bb_layout_space {
    struct bb_layout_choice *list;
    int n;
    long long evaluated, rejected[BB_REJECTION_REASONS]; /* in layouts: of each recompute one */
    int recomputes[BB_RECOMPUTES], n_recomputes;         /* that are looked at, the least first */
};

int bb_layout_space_init(struct bb_layout_space *space, const struct bb_layout_search *search,
                         const struct bb_arch *arch) BB_MUST_CHECK;
void bb_layout_space_release(struct bb_layout_space *space);

#endif
