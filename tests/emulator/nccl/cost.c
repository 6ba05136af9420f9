/*
 * cost.c - NCCL operations as the machine knows them. See cost.h.
 */
#include "cost.h"
#include "choice.h"

#include "../engine.h"
#include "proxies/machine/cluster.h"

#include <math.h>
#include <strings.h>

/* What a step's latency and a link's rate are multiplied by in the simple law, see README.md. */
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

static struct bb_collective call_of(ncclComm_t comm, const struct en_task *task)
{
    return (struct bb_collective){.kind = kinds[task->kind],
                                  .dtype = BB_INT8,
                                  .count = task->count * en_element_bytes(task),
                                  .in_place = task->send == task->recv,
                                  .ranks = comm->size,
                                  .nodes = comm->n_nodes};
}

static void quicken(struct bb_link *link, struct pace pace)
{
    link->latency_us *= pace.latency;
    link->gbps *= pace.rate;
}

/* What a collective finds: of NICs that all members need, the slowest holds up all. */
static struct bb_cluster machine_of(ncclComm_t comm)
{
    struct bb_cluster c = *emu_machine();

    c.inter.gbps *= comm->least_nic_part;
    return c;
}

static int64_t paced_ns(struct bb_cluster c, const struct bb_collective *call, const struct en_task *task)
{
    const struct pace *a = &of_algorithms[task->algorithm], *p = &of_protocols[task->protocol];
    const struct pace pace = {a->latency * p->latency, a->rate * p->rate};

    if (pace.rate == 0)
        return -1;
    quicken(&c.intra, pace);
    quicken(&c.inter, pace);
    return bb_cluster_collective_ns(&c, call, NULL);
}

bool en_has_ways(void)
{
    return emu_machine()->n_ways > 0;
}

static bool is_way(const struct bb_nccl_way *way, int algorithm, int protocol)
{
    return strcasecmp(bb_nccl_algorithms[way->algorithm], en_algorithm_name(algorithm)) == 0 &&
           strcasecmp(way->protocol, en_protocol_name(protocol)) == 0;
}

static int64_t by_way_ns(const struct bb_cluster *c, const struct bb_collective *call, const struct en_task *task)
{
    double best = INFINITY;
    struct bb_cost cost;

    for (int i = 0; i < c->n_ways; i++)
        if (is_way(&c->ways[i], task->algorithm, task->protocol) && bb_cluster_way_cost(c, call, &c->ways[i], &cost))
            best = fmin(best, cost.latency_ns + cost.transfer_ns);
    return best < INFINITY ? llround(best) : -1;
}

int64_t en_collective_ns(ncclComm_t comm, const struct en_task *task)
{
    const struct bb_collective call = call_of(comm, task);
    const struct bb_cluster c = machine_of(comm);

    if (comm->size == 1 || !en_has_algorithm(task))
        return bb_cluster_collective_ns(&c, &call, NULL);
    return en_has_ways() ? by_way_ns(&c, &call, task) : paced_ns(c, &call, task);
}

/* NCCL chooses by its own constants: it knows of no slow link. */
void en_take_quickest(ncclComm_t comm, struct en_task *task)
{
    const struct bb_collective call = call_of(comm, task);
    const struct bb_nccl_way *way = NULL;

    task->algorithm = EN_RING;
    task->protocol = EN_SIMPLE;
    if (comm->size > 1 && en_has_algorithm(task) && en_has_ways())
        bb_cluster_collective_ns(emu_machine(), &call, &way);
    for (int i = 0; way != NULL && i < EN_ALGORITHMS * EN_PROTOCOLS; i++)
        if (is_way(way, i / EN_PROTOCOLS, i % EN_PROTOCOLS)) {
            task->algorithm = i / EN_PROTOCOLS;
            task->protocol = i % EN_PROTOCOLS;
        }
}

int64_t en_copy_ns(size_t bytes)
{
    return bb_cluster_self_ns(emu_machine(), (double)bytes);
}

double en_load_ns(ncclComm_t comm, const struct bb_load *load)
{
    struct bb_cluster c = *emu_machine();

    c.inter.gbps *= comm->nic_part;
    return bb_cluster_load_ns(&c, load);
}

int64_t en_message_ns(bool same_node, double load_a_ns, double load_b_ns)
{
    return bb_cluster_message_ns(emu_machine(), same_node, fmax(load_a_ns, load_b_ns));
}
