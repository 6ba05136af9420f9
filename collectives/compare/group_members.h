/* group_members.h - the members of a group of --split as text, from the results. Needs neither MPI nor a GPU. */
#ifndef BB_COLLECTIVES_COMPARE_GROUP_MEMBERS_H
#define BB_COLLECTIVES_COMPARE_GROUP_MEMBERS_H

#include <jansson.h>

/* bb_group_members_text - write the members of an entry of bb_groups_json to text: "ranks 2-3 on node2, node3". Long lists
 * of ranks and hosts are abbreviated. Returns text. */
enum { BB_GROUP_TEXT = 512 };
const char *bb_group_members_text(const json_t *entry, char text[BB_GROUP_TEXT]);

#endif
