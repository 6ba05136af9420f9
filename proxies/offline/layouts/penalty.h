/*
 * penalty.h - by how much the steps of a layout may take longer than predicted, which --best-layout adds before it
 * compares layouts: published steps of such layouts took longer, or there are none.
 */
#ifndef BB_PROXIES_OFFLINE_LAYOUTS_PENALTY_H
#define BB_PROXIES_OFFLINE_LAYOUTS_PENALTY_H

#include "proxies/offline/layouts/layouts.h"

/*
 * bb_layouts_penalty - returns the time to add to the step of a layout, relative to the predicted time; 0 or more.
 *   of         model and machine of the search
 *   It depends on the schedule, and otherwise only on tp, cp, pp, ep and dp-sync: the penalty of a layout is at least that
 *   of the same layout with schedule 1f1b.
 * bb_layouts_is_published - returns whether the penalty is from published steps of such layouts.
 * bb_layouts_penalty_text - writes the reason of the penalty.
 */
double bb_layouts_penalty(const struct bb_layout_choice *c, const struct bb_layout_subject *of);
bool bb_layouts_is_published(const struct bb_layout_choice *c, const struct bb_layout_subject *of);
void bb_layouts_penalty_text(const struct bb_layout_choice *c, const struct bb_layout_subject *of, char *text,
                             size_t size);

#endif
