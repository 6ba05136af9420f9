/*
 * layout.h - the ranks of a job, the groups that they form, and the communicators of each group.
 *
 * Most layouts are grids, as in Megatron-LM: rank = i0 + n0*(i1 + n1*(i2 + ...)), where axis 0 varies fastest. A group
 * splits the job into disjoint sets of ranks of equal size, the instances of the group: with 64 ranks and tensor
 * parallel size 8, the group "tp" has 8 instances of 8 ranks. A grid group is defined by the axes along which the
 * members of an instance differ (a bit mask); an irregular group lists its members. A rank belongs to at most one
 * instance of a group. The rank's index in the instance is its rank in the instance's communicator.
 */
#ifndef BB_PROXIES_FORM_STEP_LAYOUT_H
#define BB_PROXIES_FORM_STEP_LAYOUT_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define BB_MAX_AXES   8
#define BB_MAX_GROUPS 24
#define BB_MAX_COMMS  32

struct bb_axis {
    const char *name; /* name of the parallelism axis: "pp", "tp", "dp", ... */
    int size;
};

struct bb_group {
    const char *name;
    unsigned axes; /* grid groups: bit a is set if the members of an instance differ along axis a */
    int size;      /* number of ranks in each instance of the group */
    /* Irregular groups only, otherwise NULL; owned by the layout. An instance is one of the group's disjoint sets of
     * ranks. instance_of: [ranks] instance to which each world rank belongs. index_of: [ranks] index of each world
     * rank in its instance. Both are -1 for a rank that belongs to no instance. members: [instances * size] world
     * ranks of the first instance, then of the second instance, and so on. */
    int *instance_of, *index_of, *members;
    int instances; /* number of instances, the disjoint sets of ranks of the group */
};

/* One communicator for each instance (disjoint set of ranks) of a group. A group may have several sets of such
 * communicators, for example one set for each direction of a pipeline, so that the operations of both directions can
 * run concurrently. */
struct bb_comm_spec {
    const char *name; /* name in reports, for example "pp" or "pp forward" */
    int group;
    bool between_stages; /* true: carries messages between pipeline stages, so that time spent waiting for them
                            counts as pipeline bubble */
};

struct bb_layout {
    int ranks;
    struct bb_axis axes[BB_MAX_AXES];
    int n_axes;
    struct bb_group groups[BB_MAX_GROUPS];
    int n_groups;
    struct bb_comm_spec comms[BB_MAX_COMMS];
    int n_comms;
    int rc; /* 0, or the error (-BB_EFAIL, -BB_EUSAGE) of the first call that failed to add a group or a communicator;
               that call has printed an error line */
};

/*
 * bb_layout_init - make a layout whose ranks form a grid.
 *   axes     [n_axes] axis 0 varies fastest; the product of the sizes must equal ranks
 *   Returns  0, or -BB_EUSAGE after printing an error line
 *   Owner    the caller releases the layout with bb_layout_release
 */
int bb_layout_init(struct bb_layout *l, int ranks, const struct bb_axis *axes, int n_axes) BB_MUST_CHECK;
void bb_layout_release(struct bb_layout *l);

/*
 * The functions below add a group or a communicator and return its index. Errors are sticky: the first error (too many
 * groups or communicators, invalid members) prints an error line and sets l->rc, which bb_step_add_roles returns. After
 * an error, the returned index is valid but may be that of another group or communicator.
 *
 * bb_layout_add_group - add a group whose instances (sets of ranks) contain the ranks that differ only along `axes`
 * (bit mask: bit a for axis a).
 */
int bb_layout_add_group(struct bb_layout *l, const char *name, unsigned axes);
/*
 * bb_layout_add_irregular - add a group whose instances (disjoint sets of ranks) are listed explicitly.
 *   members  [instances * size] world ranks of the first instance, then of the second instance, and so on; copied. Each
 *            rank occurs at most once
 */
int bb_layout_add_irregular(struct bb_layout *l, const char *name, const int *members, int instances, int size);
int bb_layout_add_comm(struct bb_layout *l, const char *name, int group);
/* bb_layout_add_stage_comm - add a communicator for messages between pipeline stages: bb_layout_add_comm with
 * bb_comm_spec.between_stages set. */
int bb_layout_add_stage_comm(struct bb_layout *l, const char *name, int group);

/* returns the index of the group's instance (disjoint set of ranks) to which the rank belongs; BB_NONE (-1) if the
 * rank belongs to no instance */
int bb_group_instance(const struct bb_layout *l, int group, int rank);
/* returns the rank's index in its instance of the group, which is its rank in the communicator */
int bb_group_index(const struct bb_layout *l, int group, int rank);
/* returns the world rank of member `index` of the instance */
int bb_group_member(const struct bb_layout *l, int group, int instance, int index);

#endif
