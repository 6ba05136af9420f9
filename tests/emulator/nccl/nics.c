/*
 * nics.c - who else uses this rank's NIC. See nics.h. GPUs have places in the job, node after node; a shift is how far
 * another GPU stands from this rank's.
 */
#include "nics.h"

#include "../engine.h"
#include "proxies/machine/cluster.h"

struct exchange {
    const struct en_task *tasks;
    int n;
};

typedef bool does_alike(ncclComm_t comm, int shift, const struct exchange *x);

static int place_of(ncclComm_t comm, int member)
{
    return emu_place_of((struct emu_seat){comm->nodes[member], comm->gpus[member]}, comm->job_gpus);
}

/* -1: the job has no GPU there. */
static int node_beside(ncclComm_t comm, int member, int shift)
{
    const int at = place_of(comm, member) + shift;

    return at < 0 || at >= comm->job_gpus ? -1 : emu_seat_of(at, comm->job_gpus).node;
}

static int nic_of(int gpu)
{
    int first, end;

    bb_cluster_gpu_nics(emu_machine(), gpu, &first, &end);
    return first;
}

static int count_users(ncclComm_t comm, does_alike *alike, const struct exchange *x)
{
    const int gpu = comm->gpus[comm->rank], node = comm->nodes[comm->rank];
    int users = 1;

    if (!emu_machine()->shares || !bb_cluster_gpus_share_nics(emu_machine()))
        return 1;
    for (int other = 0; node_beside(comm, comm->rank, other - gpu) == node; other++)
        users += other != gpu && nic_of(other) == nic_of(gpu) && alike(comm, other - gpu, x);
    return users;
}

static bool calls_alike(ncclComm_t comm, int shift, const struct exchange *x)
{
    const int place = place_of(comm, comm->rank) + shift, node = comm->nodes[comm->rank];
    bool leaves = false;

    (void)x;
    for (int i = 0; i < comm->size; i++)
        if (place_of(comm, i) == place)
            return true;
    for (int i = 0; i < comm->size; i++) {
        const int beside = node_beside(comm, i, shift);

        if (beside < 0)
            return false;
        leaves |= beside != node;
    }
    return leaves;
}

static bool sends_alike(ncclComm_t comm, int shift, const struct exchange *x)
{
    const int node = comm->nodes[comm->rank];
    double between = 0, alike = 0;

    for (const struct en_task *t = x->tasks; t < x->tasks + x->n; t++) {
        const double bytes = comm->nodes[t->root] == node ? 0 : (double)(t->count * en_element_bytes(t));
        const int beside = node_beside(comm, t->root, shift);

        between += bytes;
        alike += beside >= 0 && beside != node ? bytes : 0;
    }
    return between > 0 && 2 * alike >= between;
}

int en_count_callers(ncclComm_t comm)
{
    return count_users(comm, calls_alike, NULL);
}

int en_count_senders(ncclComm_t comm, const struct en_task *tasks, int n)
{
    return count_users(comm, sends_alike, &(struct exchange){tasks, n});
}
