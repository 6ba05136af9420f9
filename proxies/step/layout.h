/*
 * layout.h - the ranks of a job, the groups that they form, and the communicators of each group.
 *
 * Most layouts are grids, as in Megatron-LM: rank = i0 + n0*(i1 + n1*(i2 + ...)), where axis 0 varies fastest. A group
 * is given by the axes along which its members differ (a bit mask); irregular groups list their members. An instance of
 * a group is one set of such ranks. A rank is in at most one instance of a group; its index in the instance is its rank
 * inside the communicator.
 */
#ifndef BB_PROXIES_STEP_LAYOUT_H
#define BB_PROXIES_STEP_LAYOUT_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define BB_MAX_AXES   8
#define BB_MAX_GROUPS 24
#define BB_MAX_COMMS  32

struct bb_axis {
    const char *name; /* "pp", "tp", "dp", ... */
    int size;
};

struct bb_group {
    const char *name;
    unsigned axes; /* grid groups: bit a is set when axis a varies inside the group */
    int size;      /* members per instance */
    /* Irregular groups only, otherwise NULL; owned by the layout. instance_of[rank] and index_of[rank] are -1 for a
     * rank that is in no instance; members[instance * size + index] is a world rank. */
    int *instance_of, *index_of, *members;
    int instances;
};

/* A communicator: one group used for one purpose. Several communicators of one group (for example the two directions
 * of a pipeline) run concurrently. */
struct bb_comm_spec {
    const char *name; /* "pp", "pp forward", ... */
    int group;
    bool between_stages; /* true: time spent waiting for its messages counts as pipeline bubble */
};

struct bb_layout {
    int ranks;
    struct bb_axis axes[BB_MAX_AXES];
    int n_axes;
    struct bb_group groups[BB_MAX_GROUPS];
    int n_groups;
    struct bb_comm_spec comms[BB_MAX_COMMS];
    int n_comms;
};

/*
 * bb_layout_init - make a grid layout.
 *   axes     [n_axes] axis 0 varies fastest; the product of the sizes must be ranks
 *   Returns  0, or -BB_EUSAGE after an error line
 *   Owner    the caller releases the layout with bb_layout_release
 */
int bb_layout_init(struct bb_layout *l, int ranks, const struct bb_axis *axes, int n_axes) BB_MUST_CHECK;
void bb_layout_release(struct bb_layout *l);

/* returns the group's index or -BB_EFAIL */
int bb_layout_add_group(struct bb_layout *l, const char *name, unsigned axes);
/*
 * bb_layout_add_irregular - add a group with listed members.
 *   members  [instances*size] world ranks, copied; no rank may occur twice
 *   Returns  the group's index, -BB_EUSAGE or -BB_EFAIL
 */
int bb_layout_add_irregular(struct bb_layout *l, const char *name, const int *members, int instances, int size);
int bb_layout_add_comm(struct bb_layout *l, const char *name, int group); /* returns the communicator's index or
                                                                             -BB_EFAIL */
/* bb_layout_add_stage_comm - bb_layout_add_comm for messages between pipeline stages (between_stages is set). */
int bb_layout_add_stage_comm(struct bb_layout *l, const char *name, int group);

int bb_group_instances(const struct bb_layout *l, int group);
int bb_group_instance(const struct bb_layout *l, int group, int rank); /* BB_NONE (-1) if the rank is in no instance */
int bb_group_index(const struct bb_layout *l, int group, int rank);    /* rank inside the communicator */
int bb_group_member(const struct bb_layout *l, int group, int instance, int index); /* returns the world rank */

#endif
