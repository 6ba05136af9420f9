/*
 * timeline_peers.c - the ranks of a communicator on the timeline of a job. See timeline_peers.h.
 */
#include "timeline_peers.h"
#include "cost.h"

#include "../engine.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void en_post_timeline_name(ncclComm_t comm)
{
    struct en_member *me = &comm->region.members[comm->rank];

    me->timeline = emu_timeline_name();
}

/* Processes of several hosts have different timelines, because the name of a timeline is known on its host only. */
static void warn_of_several_timelines(const struct ncclComm *comm)
{
    static atomic_bool has_warned;

    if (comm->rank != 0 || emu_world_rank() != 0 || atomic_exchange(&has_warned, true))
        return;
    fprintf(stderr, "emulated GPUs: the ranks of a communicator are on several hosts or in several jobs, which have no "
                    "common time: GPUs that share a NIC or leaf are assumed to do the same at the same time, so that "
                    "operations of one of them alone are too slow; run all ranks on one host, with EMU_NODES\n");
}

void en_join_timeline(ncclComm_t comm)
{
    const struct en_member *members = comm->region.members;
    const uint64_t first = members[0].timeline;
    bool is_one = true;

    for (int i = 0; i < comm->size; i++)
        is_one &= members[i].timeline == first;
    comm->on_job_timeline = comm->size > 1 && first != 0 && is_one;
    if (!is_one && first != 0)
        warn_of_several_timelines(comm);
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
    struct bb_link_load load;
    uint64_t name;
    int messages;

    memcpy(&name, comm->id, sizeof(name));
    *m = (struct emu_peers){.comm = name, .rank = comm->rank, .members = comm->size, .is_over = is_over, .owner = comm};
    if (plan->collectives > 0)
        return true;
    plan->messages = calloc((size_t)plan->count, sizeof(*plan->messages));
    if (plan->messages == NULL)
        return false;
    en_sum_load(comm, plan->tasks, plan->count, &load);
    messages = bb_group_messages(&load);
    for (int i = 0; i < plan->count; i++)
        if (plan->tasks[i].root != comm->rank)
            plan->messages[m->n_messages++] =
                (struct emu_message){.peer = plan->tasks[i].root,
                                     .sends = plan->tasks[i].kind == EN_SEND,
                                     .latency_ns = (double)en_message_ns(comm, plan->tasks[i].root, 0, 0, messages)};
    m->messages = plan->messages;
    return m->n_messages > 0;
}
