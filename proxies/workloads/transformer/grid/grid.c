/* grid.c - process groups and coordinates of the dense and the expert grid (see grid.h). */
#include "proxies/workloads/transformer/grid/grid.h"

#include "bootstrap/base/alloc.h"
#include "proxies/form/step/program.h"

#include <stdlib.h>
#include <string.h>

/* ---- coordinates ---- */

/* The axes of the dense or of the expert grid with their sizes, in the order of the order string. */
struct grid_axes {
    enum bb_grid_axis axis[BB_GRID_AXES];
    int size[BB_GRID_AXES];
    int n;
};

int bb_grid_size(const struct bb_grid *g, enum bb_grid_axis axis, bool expert)
{
    const int sizes[2][BB_GRID_AXES] = {{g->tp, g->cp, 1, g->dp, g->pp}, {g->etp, 1, g->ep, g->edp, g->pp}};

    return sizes[expert][axis];
}

static struct grid_axes grid_axes_of(const struct bb_grid *g, bool expert)
{
    struct grid_axes s = {0};

    s.n = bb_grid_parse_order(g->order, s.axis);
    for (int a = 0; a < s.n; a++)
        s.size[a] = bb_grid_size(g, s.axis[a], expert);
    return s;
}

static int axis_coord(const struct grid_axes *s, int rank, enum bb_grid_axis axis)
{
    for (int a = 0; a < s->n; a++) {
        if (s->axis[a] == axis)
            return rank % s->size[a];
        rank /= s->size[a];
    }
    return 0; /* the order string omits this axis, which has size 1 */
}

int bb_grid_coord(const struct bb_grid *grid, int rank, enum bb_grid_axis axis, bool expert)
{
    struct grid_axes s = grid_axes_of(grid, expert);

    return axis_coord(&s, rank, axis);
}

/* ---- process groups ---- */

enum {
    TP = 1u << BB_AXIS_TP,
    CP = 1u << BB_AXIS_CP,
    EP = 1u << BB_AXIS_EP,
    DP = 1u << BB_AXIS_DP,
    PP = 1u << BB_AXIS_PP
};

static const struct group_spec {
    const char *name;
    unsigned axes; /* bit mask of the axes along which the members differ; bit a stands for value a of enum
                      bb_grid_axis */
    bool expert;   /* true: group of the expert grid; false: group of the dense grid */
} group_specs[BB_GRID_GROUPS] = {
    [BB_GRID_TP] = {"tp", TP, false},
    [BB_GRID_CP] = {"cp", CP, false},
    [BB_GRID_EP] = {"ep", EP, true},
    [BB_GRID_EDP] = {"edp", DP, true},
    [BB_GRID_DP] = {"dp", DP, false},
    [BB_GRID_PP] = {"pp", PP, false},
    [BB_GRID_EMBEDDING] = {"embedding", 0, false},
    [BB_GRID_DP_CP] = {"dp_cp", DP | CP, false},
    [BB_GRID_TP_PP] = {"tp_pp", TP | PP, false},
    [BB_GRID_TP_CP] = {"tp_cp", TP | CP, false},
    [BB_GRID_TP_DP_CP] = {"tp_dp_cp", TP | DP | CP, false},
    [BB_GRID_ETP] = {"etp", TP, true},
    [BB_GRID_TP_EP] = {"tp_ep", TP | EP, true},
};

/* The ranks of a process group, as sizes and strides. Process groups with equal sizes and strides have the same
 * ranks. Elements from index n on are 0. */
struct shape {
    int size[BB_GRID_AXES], stride[BB_GRID_AXES];
    int n, members;
};

/* Returns sizes and strides of the process groups along the axes in the bit mask `axes`. Adjacent axes are merged:
 * (size 2, stride 1) and (size 4, stride 2) become (size 8, stride 1). */
static struct shape shape_of(const struct grid_axes *s, unsigned axes)
{
    struct shape shape = {.members = 1};
    int stride = 1;

    for (int a = 0; a < s->n; stride *= s->size[a], a++) {
        if (!(axes & 1u << s->axis[a]) || s->size[a] == 1)
            continue;
        if (shape.n > 0 && shape.stride[shape.n - 1] * shape.size[shape.n - 1] == stride) {
            shape.size[shape.n - 1] *= s->size[a];
        } else {
            shape.stride[shape.n] = stride;
            shape.size[shape.n++] = s->size[a];
        }
        shape.members *= s->size[a];
    }
    return shape;
}

/* Converts a bit mask of axes (bit a for value a of enum bb_grid_axis) to the axis mask of bb_layout_add_group,
 * whose bit i stands for the i-th axis of the layout. The layout has the axes of the dense grid, in the order of the
 * order string. */
static unsigned layout_mask(const struct grid_axes *dense, unsigned axes)
{
    unsigned mask = 0;

    for (int a = 0; a < dense->n; a++)
        if (axes & 1u << dense->axis[a])
            mask |= 1u << a;
    return mask;
}

/* Adds a group of the expert grid as an explicit table of member ranks. The coordinates of a rank on `axes`
 * determine its index in its group, and the other coordinates determine to which group the rank belongs. */
static int add_irregular_group(struct bb_layout *l, const char *name, const struct grid_axes *s, unsigned axes,
                               int size)
{
    int *members, group;

    BB_NEW(members, l->ranks);
    for (int rank = 0; rank < l->ranks; rank++) {
        int instance = 0, index = 0, instances = 1, index_stride = 1, rest = rank;

        for (int a = 0; a < s->n; rest /= s->size[a], a++) {
            bool inside = axes & 1u << s->axis[a];
            int *number = inside ? &index : &instance, *stride = inside ? &index_stride : &instances;

            *number += *stride * (rest % s->size[a]);
            *stride *= s->size[a];
        }
        members[instance * size + index] = rank;
    }
    group = bb_layout_add_irregular(l, name, members, l->ranks / size, size);
    free(members);
    return group;
}

/* Adds the "embedding" groups, each of which consists of the first rank of a pipeline and that of last_stage. */
static int add_embedding(struct bb_layout *l, const struct grid_axes *dense, int pp, int last_stage)
{
    int n = l->ranks / pp, *members, group, instance = 0, last = 0;

    BB_NEW(members, 2 * n);
    for (int rank = 0; rank < l->ranks; rank++) {
        int stage = axis_coord(dense, rank, BB_AXIS_PP);

        if (stage == 0)
            members[2 * instance++] = rank;
        else if (stage == last_stage)
            members[2 * last++ + 1] = rank; /* pipelines occur in the same order among the last ranks as among the
                                               first ranks, so that the counter `last` is the index of the pipeline */
    }
    group = bb_layout_add_irregular(l, "embedding", members, n, 2);
    free(members);
    return group;
}

struct layout_builder {
    struct bb_layout *layout;
    struct grid_axes dense, expert;
    struct shape shapes[BB_GRID_GROUPS]; /* for each process group added so far, its ranks as sizes and strides */
    struct bb_grid_groups *groups;
    int pp, table_stage;
};

/* Adds a process group to the layout and sets groups->of[group] to its index. Adds nothing if the group has one
 * rank, or the same ranks as an earlier group. */
static void add_group(struct layout_builder *m, int group)
{
    const struct group_spec *group_spec = &group_specs[group];
    const struct grid_axes *grid_axes = group_spec->expert ? &m->expert : &m->dense;
    int *of = &m->groups->of[group];

    m->shapes[group] = shape_of(grid_axes, group_spec->axes);
    if (group == BB_GRID_EMBEDDING ? m->pp == 1 : m->shapes[group].members == 1)
        return;
    /* a combined group (BB_GRID_DP_CP or a later enumerator) may have the same ranks as a group added earlier */
    for (int before = 0; group >= BB_GRID_DP_CP && before < group; before++)
        if (before != BB_GRID_EMBEDDING && m->groups->of[before] != BB_NONE &&
            memcmp(&m->shapes[before], &m->shapes[group], sizeof(m->shapes[group])) == 0) {
            *of = m->groups->of[before];
            return;
        }
    if (group == BB_GRID_EMBEDDING)
        *of = add_embedding(m->layout, &m->dense, m->pp, m->table_stage);
    else if (group_spec->expert)
        *of = add_irregular_group(m->layout, group_spec->name, grid_axes, group_spec->axes, m->shapes[group].members);
    else
        *of = bb_layout_add_group(m->layout, group_spec->name, layout_mask(grid_axes, group_spec->axes));
}

int bb_grid_layout(const struct bb_grid *grid, unsigned wanted, struct bb_layout *layout, struct bb_grid_groups *groups)
{
    struct layout_builder m = {.layout = layout,
                               .dense = grid_axes_of(grid, false),
                               .expert = grid_axes_of(grid, true),
                               .groups = groups,
                               .pp = grid->pp,
                               .table_stage = grid->table_stage ? grid->table_stage : grid->pp - 1};
    struct bb_axis axes[BB_GRID_AXES];
    int rc;

    for (int a = 0; a < m.dense.n; a++)
        axes[a] = (struct bb_axis){bb_grid_axis_names[m.dense.axis[a]], m.dense.size[a]};
    for (int g = 0; g < BB_GRID_GROUPS; g++)
        groups->of[g] = BB_NONE;
    TRY(bb_layout_init(layout, grid->ranks, axes, m.dense.n));
    for (int g = 0; g < BB_GRID_GROUPS; g++)
        if (wanted & BB_GRID_GROUP_BIT(g) && (grid->experts || !group_specs[g].expert))
            add_group(&m, g);
out:
    return rc;
}
