/* layout.c - rank grids, groups of ranks and their members (see layout.h). Members of grid groups are computed;
 * members of irregular groups are stored in tables. */
#include "proxies/form/step/layout.h"

#include "bootstrap/base/alloc.h"
#include "proxies/form/step/program.h"

#include <stdlib.h>
#include <string.h>

int bb_layout_init(struct bb_layout *l, int ranks, const struct bb_axis *axes, int n_axes)
{
    long long product = 1;

    *l = (struct bb_layout){.ranks = ranks, .n_axes = n_axes};
    if (ranks < 1 || n_axes < 0 || n_axes > BB_MAX_AXES)
        return bb_err(BB_EUSAGE, "invalid layout: %d ranks and %d axes; expected at least 1 rank and at most %d axes",
                      ranks, n_axes, BB_MAX_AXES);
    for (int a = 0; a < n_axes; a++) {
        if (axes[a].size < 1)
            return bb_err(BB_EUSAGE, "axis '%s' has size %d, expected 1 or more", axes[a].name, axes[a].size);
        l->axes[a] = axes[a];
        product *= axes[a].size;
        if (product > ranks)
            break;
    }
    if (product != ranks)
        return bb_err(BB_EUSAGE, "the product of the layout's axis sizes is %lld, but there are %d ranks", product,
                      ranks);
    return 0;
}

void bb_layout_release(struct bb_layout *l)
{
    for (int g = 0; g < l->n_groups; g++) {
        free(l->groups[g].instance_of);
        free(l->groups[g].index_of);
        free(l->groups[g].members);
    }
    *l = (struct bb_layout){0};
}

/* Return whether an array of at most `most` groups or communicators (`what`), n of which are used, has space for one
 * more. If not, print an error line and set l->rc, unless an earlier error has set l->rc. */
static bool has_space(struct bb_layout *l, int n, int most, const char *what)
{
    if (n == most && !l->rc)
        l->rc = bb_err(BB_EFAIL, "a layout has at most %d %s", most, what);
    return n < most;
}

int bb_layout_add_group(struct bb_layout *l, const char *name, unsigned axes)
{
    struct bb_group group = {.name = name, .axes = axes, .size = 1};

    if (!has_space(l, l->n_groups, BB_MAX_GROUPS, "groups"))
        return BB_MAX_GROUPS - 1;
    for (int a = 0; a < l->n_axes; a++)
        if (axes & 1u << a)
            group.size *= l->axes[a].size;
    group.instances = l->ranks / group.size;
    l->groups[l->n_groups] = group;
    return l->n_groups++;
}

/* Fill instance_of and index_of of group g (see struct bb_group) from its member list. Reject a rank that is out of
 * range or occurs twice. */
static int index_members(struct bb_group *g, int ranks)
{
    for (int r = 0; r < ranks; r++)
        g->instance_of[r] = g->index_of[r] = BB_NONE;
    for (int m = 0; m < g->instances * g->size; m++) {
        int rank = g->members[m];

        if (rank < 0 || rank >= ranks)
            return bb_err(BB_EUSAGE, "group '%s' contains rank %d, but ranks are 0 to %d", g->name, rank, ranks - 1);
        if (g->instance_of[rank] != BB_NONE)
            return bb_err(BB_EUSAGE, "group '%s' contains rank %d twice", g->name, rank);
        g->instance_of[rank] = m / g->size;
        g->index_of[rank] = m % g->size;
    }
    return 0;
}

int bb_layout_add_irregular(struct bb_layout *l, const char *name, const int *members, int instances, int size)
{
    size_t cells = (size_t)instances * (size_t)size;
    struct bb_group *g = &l->groups[l->n_groups];
    int rc;

    if (!has_space(l, l->n_groups, BB_MAX_GROUPS, "groups"))
        return BB_MAX_GROUPS - 1;
    *g = (struct bb_group){.name = name, .size = size, .instances = instances};
    BB_NEW(g->instance_of, l->ranks);
    BB_NEW(g->index_of, l->ranks);
    BB_NEW(g->members, cells);
    memcpy(g->members, members, sizeof(int) * cells);
    rc = index_members(g, l->ranks);
    l->rc = l->rc ? l->rc : rc;
    return l->n_groups++;
}

int bb_layout_add_comm(struct bb_layout *l, const char *name, int group)
{
    if (!has_space(l, l->n_comms, BB_MAX_COMMS, "communicators"))
        return BB_MAX_COMMS - 1;
    l->comms[l->n_comms] = (struct bb_comm_spec){.name = name, .group = group};
    return l->n_comms++;
}

int bb_layout_add_stage_comm(struct bb_layout *l, const char *name, int group)
{
    int comm = bb_layout_add_comm(l, name, group);

    l->comms[comm].between_stages = true;
    return comm;
}

/* Return the index of `rank` among all combinations of coordinates along the axes in the bit mask `axes`, where the
 * axis with the lowest index varies fastest. */
static int linear_index(const struct bb_layout *l, unsigned axes, int rank)
{
    int number = 0, stride = 1;

    for (int a = 0; a < l->n_axes; a++) {
        int size = l->axes[a].size;

        if (axes & 1u << a) {
            number += stride * (rank % size);
            stride *= size;
        }
        rank /= size;
    }
    return number;
}

int bb_group_instance(const struct bb_layout *l, int group, int rank)
{
    const struct bb_group *g = &l->groups[group];

    return g->instance_of ? g->instance_of[rank] : linear_index(l, ~g->axes, rank);
}

int bb_group_index(const struct bb_layout *l, int group, int rank)
{
    const struct bb_group *g = &l->groups[group];

    return g->index_of ? g->index_of[rank] : linear_index(l, g->axes, rank);
}

int bb_group_member(const struct bb_layout *l, int group, int instance, int index)
{
    const struct bb_group *g = &l->groups[group];
    int rank = 0, stride = 1;

    if (g->members)
        return g->members[instance * g->size + index];
    for (int a = 0; a < l->n_axes; a++) {
        int size = l->axes[a].size, *from = g->axes & 1u << a ? &index : &instance;

        rank += stride * (*from % size);
        *from /= size;
        stride *= size;
    }
    return rank;
}
