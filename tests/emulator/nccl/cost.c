/*
 * cost.c - virtual time of NCCL operations. See cost.h.
 */
#include "cost.h"
#include "choice.h"
#include "hazards.h"
#include "sharing.h"
#include "timeline_peers.h"

#include "../engine.h"
#include "proxies/simulation/machine/fabric.h"

#include <math.h>
#include <strings.h>

enum { CHANNELS = 8 }; /* channels of a collective if the profile has no "sharing" */

/* Factors on latency and link rate in the alpha-beta model, as README.md lists them. */
struct pace {
    double latency, rate;
};

static const struct pace of_algorithms[EN_ALGORITHMS] = {
    [EN_TREE] = {0.75, 0.8},
    [EN_RING] = {1, 1},
    [EN_PAT] = {0.5, 0.8},
};

static const struct pace of_protocols[EN_PROTOCOLS] = {
    [EN_LL] = {0.4, 0.25},
    [EN_LL128] = {0.7, 0.9},
    [EN_SIMPLE] = {1, 1},
};

static const enum bb_coll_kind kinds[EN_KINDS] = {
    [EN_ALL_REDUCE] = BB_ALL_REDUCE,
    [EN_REDUCE] = BB_REDUCE,
    [EN_BROADCAST] = BB_BROADCAST,
    [EN_ALL_GATHER] = BB_ALL_GATHER,
    [EN_REDUCE_SCATTER] = BB_REDUCE_SCATTER,
    [EN_ALLTOALL] = BB_ALLTOALL,
    [EN_GATHER] = BB_GATHER,
    [EN_SCATTER] = BB_SCATTER,
};

static void find_root(ncclComm_t comm, const struct en_task *task, struct bb_collective *call)
{
    int previous = -1;

    for (int i = 0; en_kind(task->kind)->rooted && i < comm->size; i++) {
        call->root_number += comm->nodes[i] != previous && comm->nodes[i] < comm->nodes[task->root];
        previous = comm->nodes[i];
        call->members_on_root_node += comm->nodes[i] == comm->nodes[task->root];
        call->members_on_slow_paths +=
            bb_fabric_slow_member(emu_machine(), call->kind, comm->nodes[i], comm->nodes[task->root]);
    }
}

/* A slow NIC limits the transfer over a slow path, too, so the slower of both counts. */
static struct bb_collective call_of(ncclComm_t comm, const struct en_task *task)
{
    struct bb_collective call = {.kind = kinds[task->kind],
                                 .dtype = (enum bb_dtype_id)task->dtype, /* both enums have NCCL's numbers */
                                 .redop = task->op,
                                 .count = task->count,
                                 .in_place = task->send == task->recv,
                                 .ranks = comm->size,
                                 .nodes = comm->n_nodes,
                                 .placement = comm->placement};
    struct bb_slow_path_use *slow = &call.placement.slow;
    double *const on_slow_paths[] = {
        &slow->ring,     &slow->other_rings,         &slow->trees, &slow->pat[0], &slow->pat[1],
        &slow->alltoall, &call.members_on_slow_paths};

    find_root(comm, task, &call);
    for (size_t i = 0; i < sizeof(on_slow_paths) / sizeof(*on_slow_paths); i++)
        *on_slow_paths[i] *= comm->min_nic_factor;
    return call;
}

static void scale_link(struct bb_link *link, struct pace pace)
{
    link->latency_us *= pace.latency;
    link->gbps *= pace.rate;
}

/* A slow NIC leaves the rate of the uplinks unchanged. */
static struct bb_cluster machine_with(double nic_factor, double leaf_factor)
{
    struct bb_cluster c = *emu_machine();

    c.inter.gbps *= nic_factor;
    for (int tier = 0; tier < BB_TIERS; tier++)
        c.fabric.oversubscription[tier] *= nic_factor;
    c.fabric.oversubscription[BB_LEAF] /= leaf_factor;
    return c;
}

/* The machine as a collective uses it: all members need their NICs and uplinks, so the slowest member determines the
 * rate. */
static struct bb_cluster machine_of(ncclComm_t comm)
{
    return machine_with(comm->min_nic_factor, comm->min_leaf_factor);
}

static bool paced_cost(struct bb_cluster c, const struct bb_collective *call, const struct en_task *task,
                       struct bb_cost *cost)
{
    const struct pace *a = &of_algorithms[task->algorithm], *p = &of_protocols[task->protocol];
    const struct pace pace = {a->latency * p->latency, a->rate * p->rate};

    if (pace.rate == 0)
        return false;
    scale_link(&c.intra, pace);
    scale_link(&c.inter, pace);
    bb_cluster_collective_cost(&c, call, cost);
    return true;
}

bool en_has_variants(void)
{
    return emu_machine()->n_variants > 0;
}

static bool is_variant(const struct bb_nccl_variant *variant, int algorithm, int protocol)
{
    return strcasecmp(bb_nccl_algorithms[variant->algorithm], en_algorithm_name(algorithm)) == 0 &&
           strcasecmp(variant->protocol, en_protocol_name(protocol)) == 0;
}

static bool cost_by_variant(const struct bb_cluster *c, const struct bb_collective *call, const struct en_task *task,
                            struct bb_cost *best)
{
    struct bb_cost cost;
    bool found = false;

    for (int i = 0; i < c->n_variants; i++) {
        if (!is_variant(&c->variants[i], task->algorithm, task->protocol) ||
            !bb_cluster_variant_cost(c, call, &c->variants[i], &cost))
            continue;
        if (!found || cost.latency_ns + cost.transfer_ns < best->latency_ns + best->transfer_ns)
            *best = cost;
        found = true;
    }
    return found;
}

int en_channels(ncclComm_t comm)
{
    const int most = comm->config.maxCTAs, least = comm->config.minCTAs;
    int n = emu_machine()->has_sharing ? emu_machine()->sharing.collective_sms : CHANNELS;

    n = most != NCCL_CONFIG_UNDEF_INT && most < n ? most : n;
    n = least != NCCL_CONFIG_UNDEF_INT && least > n ? least : n;
    return n < 1 ? 1 : n;
}

/* With fewer SMs than the profile gives NCCL, the rate falls in proportion; with more SMs it stays the same. */
static double slower_by_ctas(ncclComm_t comm)
{
    const struct bb_cluster *c = emu_machine();
    const int n = en_channels(comm);

    return c->has_sharing && n < c->sharing.collective_sms ? (double)c->sharing.collective_sms / n : 1;
}

/* Lower bound of the time in which sends and receives move these bytes: with limited CTAs, each channel has its part of the
 * rate within a node, also to other nodes. 0: not limited */
static double channels_ns(ncclComm_t comm, double bytes)
{
    const double slower = slower_by_ctas(comm);

    return slower > 1 ? slower * bytes / emu_machine()->intra.gbps : 0;
}

static bool cost_on(const struct bb_cluster *c, ncclComm_t comm, const struct en_task *task, struct bb_cost *cost)
{
    const struct bb_collective call = call_of(comm, task);

    if (comm->size > 1 && en_has_algorithm(task))
        return en_has_variants() ? cost_by_variant(c, &call, task, cost) : paced_cost(*c, &call, task, cost);
    bb_cluster_collective_cost(c, &call, cost);
    return true;
}

/* Slow links lengthen the transfer and the rounds that fill a pipeline, but not the latency, as in `busbar plan`. */
static bool cost_alone(ncclComm_t comm, const struct en_task *task, struct bb_cost *cost)
{
    const struct bb_cluster c = machine_of(comm);
    struct bb_cost even;

    if (!cost_on(&c, comm, task, cost) || !cost_on(emu_machine(), comm, task, &even))
        return false;
    cost->latency_ns = even.latency_ns + bb_cost_slow_fill_ns(&even, comm->min_nic_factor);
    return true;
}

/* Symmetric kernels and copies move the same bytes, for which the links of a machine with a contention model take the same
 * time, although copies do not run on its timeline. */
static bool cost_of(ncclComm_t comm, const struct en_task *task, struct bb_cost *cost)
{
    double links_ns;

    if (!cost_alone(comm, task, cost))
        return false;
    links_ns = emu_machine()->has_sharing ? cost->transfer_ns : 0;
    if (comm->size > 1 && en_has_algorithm(task))
        cost->transfer_ns *= slower_by_ctas(comm);
    else if (comm->size > 1)
        cost->transfer_ns = fmax(cost->transfer_ns, channels_ns(comm, cost->bytes));
    if (en_symmetric_percent(comm, task->kind) > 0) {
        cost->transfer_ns = fmax(links_ns, cost->transfer_ns * en_symmetric_percent(comm, task->kind) / 100.0);
        cost->latency_ns *= en_symmetric_percent(comm, task->kind) / 100.0;
    }
    return true;
}

int64_t en_collective_ns(ncclComm_t comm, const struct en_task *task)
{
    struct bb_cost cost;

    return cost_of(comm, task, &cost) ? llround(cost.latency_ns + cost.transfer_ns) : -1;
}

double en_choice_factor(ncclComm_t comm, const struct en_task *task)
{
    const struct bb_collective call = call_of(comm, task);

    return task->algorithm == EN_RING ? bb_nccl_choice_factor(BB_NCCL_RING, &call) : 1;
}

/* NCCL chooses by its own constants, which do not include slow links. */
void en_choose_fastest(ncclComm_t comm, struct en_task *task)
{
    const struct bb_collective call = call_of(comm, task);
    const struct bb_nccl_variant *variant = NULL;

    task->algorithm = EN_RING;
    task->protocol = EN_SIMPLE;
    if (comm->size > 1 && en_has_algorithm(task) && en_has_variants())
        bb_cluster_collective_ns(emu_machine(), &call, &variant);
    for (int i = 0; variant != NULL && i < EN_ALGORITHMS * EN_PROTOCOLS; i++)
        if (is_variant(variant, i / EN_PROTOCOLS, i % EN_PROTOCOLS)) {
            task->algorithm = i / EN_PROTOCOLS;
            task->protocol = i % EN_PROTOCOLS;
        }
}

int64_t en_copy_ns(size_t bytes)
{
    return bb_cluster_self_message_ns(emu_machine(), (double)bytes);
}

double en_load_ns(ncclComm_t comm, const struct bb_link_load *load)
{
    const struct bb_cluster c = machine_with(comm->nic_factor, comm->leaf_factor);

    return fmax(bb_cluster_link_load_ns(&c, load, 1),
                channels_ns(comm, fmax(load->out[0] + load->out[1], load->in[0] + load->in[1])));
}

int64_t en_message_ns(ncclComm_t comm, int peer, double load_a_ns, double load_b_ns, int messages)
{
    return bb_fabric_message_ns(emu_machine(), en_machine_rank(comm, comm->rank), en_machine_rank(comm, peer),
                                fmax(load_a_ns, load_b_ns) + bb_cluster_group_ns(emu_machine(), messages));
}

/* ---- demand on shared resources ---- */

/* Adds bytes to a shared resource, in both directions, and the same bytes for each of `others` other GPUs. */
static void add_shared_bytes(struct emu_demand *e, enum en_shared_resource resource, double out, double in, int others)
{
    double *bytes = &e->bytes[EMU_NIC_OUT + 2 * resource], *others_bytes = &e->others[EMU_NIC_OUT + 2 * resource];

    bytes[0] += out;
    bytes[1] += in;
    others_bytes[0] += others * out;
    others_bytes[1] += others * in;
}

/* Bytes of one member of a collective over the resource, per direction. */
static double member_bytes(ncclComm_t comm, const struct bb_cost *cost, enum en_shared_resource resource)
{
    const double part = bb_cost_nic_part(cost, &comm->placement, comm->nic.on_nic);

    if (resource == EN_NIC)
        return part * cost->nic_bytes;
    if (!en_is_shared(resource))
        return 0;
    if (resource == EN_PATH) /* call_of divided by the factor of the NIC */
        return part * cost->path_bytes / comm->min_nic_factor;
    return bb_fabric_member_bytes(cost, resource == EN_LEAF ? BB_LEAF : BB_POD, comm->size,
                                  comm->sharers[resource].no_uplink, bb_uplink_part(&comm->nic));
}

static void add_collective(ncclComm_t comm, const struct en_task *task, struct emu_demand *e)
{
    const struct bb_cluster c = machine_of(comm);
    struct bb_cost cost;
    double links;

    if (!cost_of(comm, task, &cost))
        return;
    links = cost.link_ns * c.intra.gbps;
    e->latency_ns += cost.latency_ns;
    e->transfer_ns += cost.transfer_ns;
    e->bytes[EMU_LINK_OUT] += links;
    e->bytes[EMU_LINK_IN] += links;
    for (int i = EN_NIC; i < EN_SHARED_RESOURCES; i++) {
        const double bytes = member_bytes(comm, &cost, (enum en_shared_resource)i);

        add_shared_bytes(e, (enum en_shared_resource)i, bytes, bytes,
                         comm->on_job_timeline ? 0 : comm->sharers[i].members + comm->sharers[i].others - 1);
    }
    e->bytes[EMU_MEMORY] += 2 * cost.bytes * c.sharing.memory_bytes;
    e->sms = en_symmetric_percent(comm, task->kind) > 0 && en_is_by_copies(comm, task->kind) ? 0 : en_channels(comm);
}

/* On a common timeline each rank adds its own bytes. */
static int count_senders(ncclComm_t comm, enum en_shared_resource resource, const struct en_task *tasks, int n)
{
    return comm->on_job_timeline ? 0 : en_count_senders(comm, resource, tasks, n);
}

static void add_exchange(ncclComm_t comm, const struct en_task *tasks, int n, struct emu_demand *e)
{
    const struct bb_cluster *c = emu_machine();
    struct bb_link_load load;
    const int others = en_sum_load(comm, tasks, n, &load), sms = bb_cluster_exchange_sms(c, others);
    const double between = load.out[0] + load.in[0], within = load.out[1] + load.in[1];

    if (others == 0)
        return;
    e->latency_ns +=
        (between > 0 ? &c->inter : &c->intra)->latency_us * 1e3 + bb_cluster_group_ns(c, bb_group_messages(&load));
    e->transfer_ns += en_load_ns(comm, &load);
    e->bytes[EMU_LINK_OUT] += load.out[1];
    e->bytes[EMU_LINK_IN] += load.in[1];
    add_shared_bytes(e, EN_NIC, load.out[0], load.in[0], count_senders(comm, EN_NIC, tasks, n));
    if (en_is_shared(EN_PATH))
        add_shared_bytes(e, EN_PATH, load.slow_out, load.slow_in, count_senders(comm, EN_PATH, tasks, n));
    for (int tier = 0; tier < BB_TIERS; tier++)
        if (bb_fabric_is_oversubscribed(c, (enum bb_tier)tier))
            add_shared_bytes(e, (enum en_shared_resource)(EN_LEAF + tier), load.up[tier], load.down[tier],
                             count_senders(comm, (enum en_shared_resource)(EN_LEAF + tier), tasks, n));
    e->bytes[EMU_MEMORY] += (between + within) * c->sharing.memory_bytes;
    e->sms = (int)fmax(e->sms, fmin(sms, en_channels(comm)));
    for (int i = 0; i < n && comm->on_job_timeline; i++)
        if (tasks[i].root == comm->rank)
            e->alone_ns = fmax(e->alone_ns, (double)en_copy_ns(tasks[i].count * en_element_bytes(&tasks[i])));
}

bool en_find_demand(struct en_plan *plan)
{
    plan->demand = (struct emu_demand){0};
    if (!emu_machine()->has_sharing || plan->comm->size == 1)
        return false;
    for (int i = 0; i < plan->collectives; i++)
        add_collective(plan->comm, &plan->tasks[i], &plan->demand);
    add_exchange(plan->comm, plan->tasks + plan->collectives, plan->count - plan->collectives, &plan->demand);
    plan->demand.order = &plan->comm->order;
    if (plan->comm->on_job_timeline && plan->demand.sms > 0 && en_find_peers(plan))
        plan->demand.peers = &plan->peers;
    return plan->demand.sms > 0;
}
