/*
 * layout.h - the ranks of a job, the groups that they form, and the communicators of each group.
 *
 * Most layouts are grids, as in Megatron-LM: rank = i0 + n0*(i1 + n1*(i2 + ...)), where axis 0 varies fastest. A group
 * splits the job into disjoint sets of ranks of equal size, the instances of the group: with 64 ranks and tensor
 * parallel size 8, the group "tp" has 8 instances of 8 ranks. A grid group is defined by the axes along which the
 * members of an instance differ (a bit mask); an irregular group lists its members. A rank belongs to at most one
 * instance of a group; its index in the instance is its rank in the communicator.
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
    unsigned axes; /* grid groups: bit a is set when axis a varies within an instance */
    int size;      /* ranks in each instance */
    /* Irregular groups only, otherwise NULL; owned by the layout. instance_of[rank] and index_of[rank] are -1 for a
     * rank that belongs to no instance; members[instance * size + index] is a world rank. */
    int *instance_of, *index_of, *members;
    int instances;
};

/* One communicator per instance of a group, used for one purpose. A group may have several of these specifications,
 * for example one for each direction of a pipeline, so that their operations can run concurrently. */
struct bb_comm_spec {
    const char *name; /* "pp", "pp forward", ... */
    int group;
    bool between_stages; /* true: time spent waiting for this communicator's messages counts as pipeline bubble */
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
 *   axes     [n_axes] axis 0 varies fastest; the product of the sizes must equal ranks
 *   Returns  0, or -BB_EUSAGE after printing an error line
 *   Owner    the caller releases the layout with bb_layout_release
 */
int bb_layout_init(struct bb_layout *l, int ranks, const struct bb_axis *axes, int n_axes) BB_MUST_CHECK;
void bb_layout_release(struct bb_layout *l);

/* bb_layout_add_group - add a grid group; returns its index, or -BB_EFAIL. */
int bb_layout_add_group(struct bb_layout *l, const char *name, unsigned axes);
/*
 * bb_layout_add_irregular - add a group with listed members.
 *   members  [instances*size] world ranks, copied; each rank occurs at most once
 *   Returns  the group's index, -BB_EUSAGE or -BB_EFAIL
 */
int bb_layout_add_irregular(struct bb_layout *l, const char *name, const int *members, int instances, int size);
int bb_layout_add_comm(struct bb_layout *l, const char *name, int group); /* returns the communicator's index, or
                                                                             -BB_EFAIL */
/* bb_layout_add_stage_comm - like bb_layout_add_comm, for messages between pipeline stages (sets between_stages). */
int bb_layout_add_stage_comm(struct bb_layout *l, const char *name, int group);

int bb_group_instances(const struct bb_layout *l, int group);
/* returns the index of the rank's instance of the group; -1 (BB_NONE) if the rank belongs to no instance */
int bb_group_instance(const struct bb_layout *l, int group, int rank);
int bb_group_index(const struct bb_layout *l, int group, int rank); /* returns the rank's index in its instance,
                                                                       which is its rank in the communicator */
/* returns the world rank of the member */
int bb_group_member(const struct bb_layout *l, int group, int instance, int index);

#endif
