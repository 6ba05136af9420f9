/*
 * groups.h - the groups of ranks of --split as text and JSON, so that a verdict names the ranks and hosts of a group.
 * A group is identified by its number (bb_split_group). groups: [w->size] number of each rank's group.
 */
#ifndef BB_COLLECTIVES_SWEEP_GROUPS_H
#define BB_COLLECTIVES_SWEEP_GROUPS_H

#include "bootstrap/world/world.h"
#include "collectives/compare/group_members.h"

#include <jansson.h>

/* bb_group_leader - return the first rank of a group. */
int bb_group_leader(const int *groups, int group);

/* bb_group_node_count - return the number of nodes that the ranks of a group are on. */
int bb_group_node_count(const struct bb_world *w, const int *groups, int group);

/* bb_group_text - write the number and the members of a group to text: "group 1 (ranks 2-3 on node2, node3)". Returns text. */
const char *bb_group_text(const struct bb_world *w, const int *groups, int group, char text[BB_GROUP_TEXT]);

/* bb_groups_json - return the list of groups: [{group, ranks[], hosts[]}], owned by the caller. */
json_t *bb_groups_json(const struct bb_world *w, const int *groups);

#endif
