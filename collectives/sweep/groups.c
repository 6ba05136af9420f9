/* groups.c - see groups.h. */
#include "collectives/sweep/groups.h"

#include <stdio.h>
#include <string.h>

enum { HOSTS_SHOWN = 4, RANKS_SHOWN = 8 };

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

/* Prints the members: "rank 5", "ranks 2-3"; members with another distance, "ranks 0,2,4". */
static void print_ranks(FILE *out, const struct bb_world *w, const int *groups, int group)
{
    const int first = bb_group_leader(groups, group);
    int last = first, n = 1;

    for (int r = first; (r = next_member(w, groups, group, r)) < w->size; n++)
        last = r;
    fprintf(out, "rank%s %d", bb_plural(n), first);
    if (n > 1 && last - first == n - 1) {
        fprintf(out, "-%d", last);
        return;
    }
    for (int r = first, shown = 1; (r = next_member(w, groups, group, r)) < w->size; shown++)
        if (n <= RANKS_SHOWN || shown < RANKS_SHOWN - 1)
            fprintf(out, ",%d", r);
    if (n > RANKS_SHOWN)
        fprintf(out, ",..,%d", last);
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

static void print_host(void *out, int i, const char *host)
{
    if (i < HOSTS_SHOWN)
        fprintf(out, "%s%s", i ? ", " : " on ", host);
}

static void append_host(void *hosts, int i, const char *host)
{
    (void)i;
    json_array_append_new(hosts, json_string(host));
}

const char *bb_group_text(const struct bb_world *w, const int *groups, int group, char text[BB_GROUP_TEXT])
{
    FILE *out = fmemopen(text, BB_GROUP_TEXT, "w"); /* text beyond the capacity is dropped */
    int hosts;

    text[0] = '\0';
    if (!out)
        return text;
    fprintf(out, "group %d (", group);
    print_ranks(out, w, groups, group);
    hosts = each_host(w, groups, group, print_host, out);
    if (hosts > HOSTS_SHOWN)
        fprintf(out, ", .. (%d hosts)", hosts);
    fputc(')', out);
    fclose(out);
    text[BB_GROUP_TEXT - 1] = '\0';
    return text;
}

json_t *bb_groups_json(const struct bb_world *w, const int *groups)
{
    json_t *list = json_array();

    for (int r = 0; r < w->size; r++) {
        json_t *ranks, *hosts;

        if (bb_group_leader(groups, groups[r]) != r)
            continue;
        ranks = json_array();
        hosts = json_array();
        for (int m = r; m < w->size; m = next_member(w, groups, groups[r], m))
            json_array_append_new(ranks, json_integer(m));
        each_host(w, groups, groups[r], append_host, hosts);
        json_array_append_new(list, json_pack("{s:i, s:o, s:o}", "group", groups[r], "ranks", ranks, "hosts", hosts));
    }
    return list;
}
