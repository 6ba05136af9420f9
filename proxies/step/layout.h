/*
 * layout.h - who is who: the ranks of a job, the groups that they form, the communicators of each group, and the roles.
 *
 * Most layouts are grids: rank = i0 + n0*(i1 + n1*(i2 + ...)), axis 0 fastest, and a group is the ranks that differ
 * only along some axes (a bit mask). Irregular groups give their members explicitly. An instance is one such set of
 * ranks; a rank is in at most one instance of a group, at an index that is its rank inside the communicator.
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
    const char *name; /* "pp", "tp", "dp", ...                */
    int size;
};

struct bb_group {
    const char *name;
    unsigned axes; /* grid group: bit a = axis a varies    */
    int size;      /* members of an instance               */
    /* Irregular groups only (otherwise NULL), owned by the layout: instance and index of each rank (-1: in none), and
     * members[instance * size + index]. */
    int *instance_of, *index_of, *members;
    int instances;
};

/* A communicator: one group used for one purpose. Several of one group (two directions of a pipeline) run concurrently.
 */
struct bb_comm_spec {
    const char *name; /* "pp", "pp forward", ...              */
    int group;
    bool between_stages; /* waiting in its messages is the pipeline's bubble */
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

/* bb_layout_init - a grid; the product of the axes must be ranks (else -BB_EUSAGE, said). */
int bb_layout_init(struct bb_layout *l, int ranks, const struct bb_axis *axes, int n_axes) BB_MUST_CHECK;
void bb_layout_release(struct bb_layout *l);

int bb_layout_add_group(struct bb_layout *l, const char *name, unsigned axes); /* its index */
/* members[instances*size]: world ranks, copied. */
int bb_layout_add_irregular(struct bb_layout *l, const char *name, const int *members, int instances, int size);
int bb_layout_add_comm(struct bb_layout *l, const char *name, int group); /* its index */
/* bb_layout_add_stage_comm - of messages between the stages of a pipeline. */
int bb_layout_add_stage_comm(struct bb_layout *l, const char *name, int group);

int bb_group_instances(const struct bb_layout *l, int group);
int bb_group_instance(const struct bb_layout *l, int group, int rank);              /* BB_NONE (-1) when in none */
int bb_group_index(const struct bb_layout *l, int group, int rank);                 /* rank inside the communicator */
int bb_group_member(const struct bb_layout *l, int group, int instance, int index); /* the world rank */

#endif
