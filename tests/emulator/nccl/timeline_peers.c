/*
 * timeline_peers.c - the ranks of a communicator on the timeline of a job. See timeline_peers.h.
 */
#include "timeline_peers.h"
#include "cost.h"

#include "../engine.h"

#include <stdlib.h>
#include <string.h>

void en_post_timeline_name(ncclComm_t comm)
{
    struct en_member *me = &comm->region.members[comm->rank];

    me->timeline = emu_timeline_name();
}

void en_join_timeline(ncclComm_t comm)
{
    const struct en_member *members = comm->region.members;
    const uint64_t first = members[0].timeline;

    comm->on_job_timeline = comm->size > 1 && first != 0;
    for (int i = 0; i < comm->size; i++)
        comm->on_job_timeline &= members[i].timeline == first;
}

static bool is_over(const struct emu_peers *peers)
{
    const struct ncclComm *comm = peers->owner;

    return atomic_load(&comm->stop_flag) || en_broken(&comm->region);
}

bool en_find_peers(struct en_plan *plan)
{
    ncclComm_t comm = plan->comm;
    struct emu_peers *m = &plan->peers;
    uint64_t name;

    memcpy(&name, comm->id, sizeof(name));
    *m = (struct emu_peers){.comm = name, .rank = comm->rank, .members = comm->size, .is_over = is_over, .owner = comm};
    if (plan->collectives > 0)
        return true;
    plan->messages = calloc((size_t)plan->count, sizeof(*plan->messages));
    if (plan->messages == NULL)
        return false;
    for (int i = 0; i < plan->count; i++)
        if (plan->tasks[i].root != comm->rank)
            plan->messages[m->n_messages++] =
                (struct emu_message){.peer = plan->tasks[i].root,
                                     .sends = plan->tasks[i].kind == EN_SEND,
                                     .latency_ns = (double)en_message_ns(comm, plan->tasks[i].root, 0, 0)};
    m->messages = plan->messages;
    return m->n_messages > 0;
}
