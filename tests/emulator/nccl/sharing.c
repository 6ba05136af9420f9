/*
 * sharing.c - the GPUs that share a NIC or uplinks with this rank. See sharing.h. The job's GPUs are numbered node by
 * node; a shift is the distance of another GPU's number from this rank's.
 */
#include "sharing.h"

#include "../engine.h"
#include "proxies/simulation/machine/fabric.h"
#include "proxies/simulation/machine/shared_resources.h"

#include <stdlib.h>

struct exchange {
    const struct en_task *tasks;
    int n;
};

static int machine_rank(struct emu_location location)
{
    const int per_node = emu_machine()->gpus_per_node;

    return location.node * per_node + location.gpu % per_node;
}

static int number_of(ncclComm_t comm, int member)
{
    return emu_gpu_number((struct emu_location){comm->nodes[member], comm->gpus[member]}, comm->job_gpus);
}

int en_machine_rank(ncclComm_t comm, int member)
{
    return machine_rank((struct emu_location){comm->nodes[member], comm->gpus[member]});
}

/* The machine rank of the GPU at this shift from a member; -1 if the job has no such GPU. */
static int rank_at_shift(ncclComm_t comm, int member, int shift)
{
    const int number = number_of(comm, member) + shift;

    return number < 0 || number >= comm->job_gpus ? -1 : machine_rank(emu_location_of(number, comm->job_gpus));
}

bool en_is_shared(enum en_shared_resource resource)
{
    const struct bb_cluster *c = emu_machine();

    return c->has_sharing &&
           (resource == EN_NIC    ? bb_cluster_gpus_share_nics(c)
            : resource == EN_PATH ? bb_resource_can_limit(c, BB_RESOURCE_PATH)
                                  : bb_fabric_is_oversubscribed(c, resource == EN_LEAF ? BB_LEAF : BB_POD));
}

static bool leaves_through(enum en_shared_resource resource, int from, int to)
{
    const struct bb_cluster *c = emu_machine();

    return resource <= EN_PATH ? from / c->gpus_per_node != to / c->gpus_per_node
                               : bb_fabric_takes_uplinks(c, resource == EN_LEAF ? BB_LEAF : BB_POD, from, to);
}

static bool is_same_resource(enum en_shared_resource resource, int a, int b)
{
    const struct bb_cluster *c = emu_machine();

    if (resource <= EN_PATH)
        return bb_cluster_rank_nic(c, a) == bb_cluster_rank_nic(c, b);
    return bb_fabric_switch(c, resource == EN_LEAF ? BB_LEAF : BB_POD, a) ==
           bb_fabric_switch(c, resource == EN_LEAF ? BB_LEAF : BB_POD, b);
}

/* ---- GPUs that do the same as this rank ---- */

static bool is_member(ncclComm_t comm, int number)
{
    for (int i = 0; i < comm->size; i++)
        if (number_of(comm, i) == number)
            return true;
    return false;
}

static bool calls_same(ncclComm_t comm, enum en_shared_resource resource, int shift)
{
    const int caller = rank_at_shift(comm, comm->rank, shift);
    bool leaves = false;

    for (int i = 0; i < comm->size; i++) {
        const int other = rank_at_shift(comm, i, shift);

        if (other < 0)
            return false;
        leaves |= leaves_through(resource, caller, other);
    }
    return leaves;
}

/* A peer's load is known from its post (p2p.c). */
static bool is_peer(ncclComm_t comm, int rank, const struct exchange *x)
{
    for (const struct en_task *t = x->tasks; t < x->tasks + x->n; t++)
        if (en_machine_rank(comm, t->root) == rank)
            return true;
    return false;
}

static bool sends_same(ncclComm_t comm, enum en_shared_resource resource, int shift, const struct exchange *x)
{
    const int own = en_machine_rank(comm, comm->rank), sender = rank_at_shift(comm, comm->rank, shift);
    double out = 0, same_bytes = 0;

    if (is_peer(comm, sender, x))
        return false;
    for (const struct en_task *t = x->tasks; t < x->tasks + x->n; t++) {
        const bool leaves = leaves_through(resource, own, en_machine_rank(comm, t->root));
        const double bytes = leaves ? (double)(t->count * en_element_bytes(t)) : 0;
        const int other = rank_at_shift(comm, t->root, shift);

        out += bytes;
        same_bytes += other >= 0 && leaves_through(resource, sender, other) ? bytes : 0;
    }
    return out > 0 && 2 * same_bytes >= out;
}

/* ---- counting ---- */

/* Counts one GPU at this shift if it has the same resource. x: an exchange; NULL: a collective. */
static void count_one(ncclComm_t comm, enum en_shared_resource resource, int shift, const struct exchange *x,
                      struct en_sharers *sharers)
{
    if (!is_same_resource(resource, rank_at_shift(comm, comm->rank, shift), en_machine_rank(comm, comm->rank)))
        return;
    if (x)
        sharers->others += sends_same(comm, resource, shift, x);
    else if (is_member(comm, number_of(comm, comm->rank) + shift))
        sharers->members++;
    else
        sharers->others += calls_same(comm, resource, shift);
}

/* GPUs below the same switch (or on the same node) as this rank have consecutive numbers. */
static struct en_sharers count_sharers(ncclComm_t comm, enum en_shared_resource resource, const struct exchange *x)
{
    const int own = en_machine_rank(comm, comm->rank);
    struct en_sharers sharers = {1, 0, 0};

    if (!en_is_shared(resource))
        return sharers;
    for (int step = -1; step <= 1; step += 2)
        for (int shift = step;; shift += step) {
            const int other = rank_at_shift(comm, comm->rank, shift);

            if (other < 0 || leaves_through(resource, own, other))
                break;
            count_one(comm, resource, shift, x, &sharers);
        }
    return sharers;
}

/* Each node once, in rank order. */
static void find_node_placement(ncclComm_t comm)
{
    int *nodes = calloc((size_t)comm->n_nodes, sizeof(*nodes)), n = 0;

    for (int i = 0; nodes != NULL && i < comm->size; i++) {
        int known = 0;

        while (known < n && nodes[known] != comm->nodes[i])
            known++;
        nodes[known] = comm->nodes[i];
        n += known == n;
    }
    if (nodes != NULL)
        bb_fabric_placement_of_nodes(emu_machine(), nodes, n, &comm->placement);
    free(nodes);
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void find_rank_placement(ncclComm_t comm)
{
    int *ranks = calloc((size_t)comm->size, sizeof(*ranks));

    for (int i = 0; ranks != NULL && i < comm->size; i++)
        ranks[i] = en_machine_rank(comm, i);
    if (ranks != NULL) {
        qsort(ranks, (size_t)comm->size, sizeof(*ranks), by_number);
        bb_cluster_placement_of_ranks(emu_machine(), ranks, comm->size, &comm->placement);
        for (int i = 0; i < comm->size; i++)
            if (ranks[i] == en_machine_rank(comm, comm->rank))
                comm->nic = bb_cluster_nic_members(emu_machine(), ranks, comm->size, i);
    }
    free(ranks);
}

void en_find_sharers(ncclComm_t comm)
{
    find_rank_placement(comm);
    if (bb_fabric_has_oversubscribed_tier(emu_machine()))
        find_node_placement(comm);
    for (int i = EN_NIC; i < EN_SHARED_RESOURCES; i++) {
        const enum en_shared_resource resource = (enum en_shared_resource)i;

        comm->sharers[i] = count_sharers(comm, resource, NULL);
        for (int m = 0; en_is_shared(resource) && m < comm->size; m++)
            comm->sharers[i].no_uplink +=
                !leaves_through(resource, en_machine_rank(comm, comm->rank), en_machine_rank(comm, m));
    }
}

bool en_shares_with_peers(const struct bb_link_load *load)
{
    const bool leaves = load->up[BB_LEAF] + load->down[BB_LEAF] > 0, pods = load->up[BB_POD] + load->down[BB_POD] > 0;

    return (en_is_shared(EN_NIC) && load->out[0] + load->in[0] > 0) || (en_is_shared(EN_LEAF) && leaves) ||
           (en_is_shared(EN_POD) && pods);
}

int en_count_senders(ncclComm_t comm, enum en_shared_resource resource, const struct en_task *tasks, int n)
{
    return count_sharers(comm, resource, &(struct exchange){tasks, n}).others;
}
