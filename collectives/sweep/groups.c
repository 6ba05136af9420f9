/* groups.c - see groups.h. */
#include "collectives/sweep/groups.h"

#include <stdio.h>
#include <string.h>

int bb_group_leader(const int *groups, int group)
{
    int rank = 0;

    while (groups[rank] != group)
        rank++;
    return rank;
}

/* Returns the next member of the group after `rank`; w->size: there is none. */
static int next_member(const struct bb_world *w, const int *groups, int group, int rank)
{
    do
        rank++;
    while (rank < w->size && groups[rank] != group);
    return rank;
}

/* Calls fn, if any, for each host of the group once, in the order of the ranks. Returns the number of hosts. */
static int each_host(const struct bb_world *w, const int *groups, int group, void (*fn)(void *, int, const char *),
                     void *arg)
{
    int n = 0;

    for (int r = bb_group_leader(groups, group); r < w->size; r = next_member(w, groups, group, r)) {
        int same = bb_group_leader(groups, group);

        while (w->node_of[same] != w->node_of[r])
            same = next_member(w, groups, group, same);
        if (same == r && fn)
            fn(arg, n, w->hosts[r]);
        n += same == r;
    }
    return n;
}

int bb_group_node_count(const struct bb_world *w, const int *groups, int group)
{
    return each_host(w, groups, group, NULL, NULL);
}

static void append_host(void *hosts, int i, const char *host)
{
    (void)i;
    json_array_append_new(hosts, json_string(host));
}

static json_t *group_json(const struct bb_world *w, const int *groups, int group)
{
    json_t *ranks = json_array(), *hosts = json_array();

    for (int r = bb_group_leader(groups, group); r < w->size; r = next_member(w, groups, group, r))
        json_array_append_new(ranks, json_integer(r));
    each_host(w, groups, group, append_host, hosts);
    return json_pack("{s:i, s:o, s:o}", "group", group, "ranks", ranks, "hosts", hosts);
}

const char *bb_group_text(const struct bb_world *w, const int *groups, int group, char text[BB_GROUP_TEXT])
{
    json_t *entry = group_json(w, groups, group);
    char members[BB_GROUP_TEXT];

    snprintf(text, BB_GROUP_TEXT, "group %d (%.480s)", group, bb_group_members_text(entry, members));
    json_decref(entry);
    return text;
}

json_t *bb_groups_json(const struct bb_world *w, const int *groups)
{
    json_t *list = json_array();

    for (int r = 0; r < w->size; r++)
        if (bb_group_leader(groups, groups[r]) == r)
            json_array_append_new(list, group_json(w, groups, groups[r]));
    return list;
}
