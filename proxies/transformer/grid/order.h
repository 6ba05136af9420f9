/*
 * order.h - the order strings of grid.h: "tp-cp-ep-dp-pp", leftmost fastest.
 */
#ifndef BB_PROXIES_TRANSFORMER_GRID_ORDER_H
#define BB_PROXIES_TRANSFORMER_GRID_ORDER_H

#include "proxies/transformer/grid/grid.h"

extern const char *const bb_grid_axis_names[BB_GRID_AXES]; /* "tp", "cp", "ep", "dp", "pp" */

/* bb_order_read - the axes of a string that bb_order_check has passed. Returns their number. */
int bb_order_read(const char *order, enum bb_grid_axis axes[BB_GRID_AXES]);

/* bb_order_check - every word an axis, none twice. Said, -BB_EUSAGE. */
int bb_order_check(const char *order, const char *who) BB_MUST_CHECK;

#endif
