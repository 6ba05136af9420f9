/*
 * inventory_changes.h - the inventory of a result of health: texts of its items for a GPU, and what differs between two
 * results. The differences of two results are those that `busbar health --expect` reports.
 */
#ifndef BB_COLLECTIVES_COMPARE_INVENTORY_CHANGES_H
#define BB_COLLECTIVES_COMPARE_INVENTORY_CHANGES_H

#include <jansson.h>

/* bb_inventory_entry - return the entry of an item in a result; NULL: there is none.
 * bb_inventory_text - return the text of a GPU: that of the same host, "" if it was unknown there, or else the usual one. NULL:
 *   unknown on most hosts, or different, so that a change is unknown. */
const json_t *bb_inventory_entry(const json_t *root, const char *item);
const char *bb_inventory_text(const json_t *entry, const char *host, int gpu);

/* bb_inventory_differences - return a new array with one object {what, a, b} for each difference of b's nodes from a, without
 * counters: "numa_balancing of node0 and 1 more", "0", "1". */
json_t *bb_inventory_differences(const json_t *a, const json_t *b);

#endif
