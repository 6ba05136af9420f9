/* shared_gpus.c - which parts of the machine an activity takes, and how much of them (profiles/clusters/README.md). */
#include "bootstrap/base/grow.h"
#include "proxies/simulate/shared_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct bb_sim *sim_of(const struct bb_shared *s)
{
    return s->r->m;
}

/* ---- resources ---- */

static int gpu_resource(int class_id, int which)
{
    return class_id * BB_GPU_RESOURCES + which;
}

static int nic_resource(const struct bb_shared *s, int class_id, int which)
{
    return sim_of(s)->classes.n * BB_GPU_RESOURCES + s->gpus[class_id].nic * BB_NIC_RESOURCES + which;
}

int bb_shared_memory_class(const struct bb_shared *s, int resource)
{
    bool of_gpu = resource < sim_of(s)->classes.n * BB_GPU_RESOURCES;

    return of_gpu && resource % BB_GPU_RESOURCES == BB_GPU_MEMORY ? resource / BB_GPU_RESOURCES : BB_NONE;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* GPUs of a node that may be on one NIC. */
static int most_mates(const struct bb_cluster *c)
{
    return (c->gpus_per_node + bb_cluster_nics(c) - 1) / bb_cluster_nics(c);
}

/* The classes of those on the NIC of a class's rank, sorted, BB_NONE behind them; how many are of the class itself. */
static int list_mates(const struct bb_shared *s, int class_id, int *mates)
{
    const struct bb_sim *m = sim_of(s);
    const int rank = m->classes.rank[class_id], nic = bb_cluster_rank_nic(s->cluster, rank);
    int first = rank, n = 0, own = 0;

    while (first > 0 && bb_cluster_rank_nic(s->cluster, first - 1) == nic)
        first--;
    for (int r = first; r < m->step->layout.ranks && bb_cluster_rank_nic(s->cluster, r) == nic; r++) {
        mates[n++] = m->classes.of[r];
        own += m->classes.of[r] == class_id;
    }
    qsort(mates, (size_t)n, sizeof(*mates), by_number);
    return own;
}

/* NICs with the same classes on them are one; returns how many there are, or -BB_EFAIL. */
static int find_nics(struct bb_shared *s)
{
    const int most = most_mates(s->cluster);
    struct bb_key_index nics = {.key_bytes = sizeof(int) * (size_t)most};
    int *mates, n = -BB_EFAIL;

    if (BB_NEW(mates, most))
        return -BB_EFAIL;
    for (int c = 0; c < sim_of(s)->classes.n; c++) {
        memset(mates, -1, sizeof(int) * (size_t)most);
        s->gpus[c].nic_ranks = list_mates(s, c, mates);
        s->gpus[c].nic = bb_key_index_add(&nics, mates);
        if (s->gpus[c].nic < 0)
            goto out;
    }
    n = nics.n;
out:
    free(mates);
    bb_key_index_release(&nics);
    return n;
}

/* Without mates a class has a NIC of its own, whoever else has one that is alike. */
static int own_nics(struct bb_shared *s)
{
    for (int c = 0; c < sim_of(s)->classes.n; c++) {
        s->gpus[c].nic = c;
        s->gpus[c].nic_ranks = 1;
    }
    return sim_of(s)->classes.n;
}

static void set_capacities(struct bb_shared *s)
{
    const double memory = bb_cluster_nccl_memory_gbps(s->cluster);
    const struct bb_sim *m = sim_of(s);

    for (int c = 0; c < m->classes.n; c++) {
        double nic = bb_slow_nics_gbps(&m->conditions.slow, s->cluster, m->classes.rank[c]);

        s->flows.resources[gpu_resource(c, BB_GPU_OUT)].capacity = s->cluster->intra.gbps;
        s->flows.resources[gpu_resource(c, BB_GPU_IN)].capacity = s->cluster->intra.gbps;
        s->flows.resources[gpu_resource(c, BB_GPU_MEMORY)].capacity = memory;
        s->flows.resources[nic_resource(s, c, BB_NIC_OUT)].capacity = nic;
        s->flows.resources[nic_resource(s, c, BB_NIC_IN)].capacity = nic;
    }
}

int bb_shared_exchange_flow(const struct bb_shared *s, int class_id, int comm)
{
    return sim_of(s)->n_rendezvous + class_id * sim_of(s)->step->layout.n_comms + comm;
}

static void place_uses(struct bb_shared *s)
{
    int use = 0;

    for (int f = 0; f < s->flows.n_flows; f++) {
        s->flows.flows[f].first_use = use;
        use += BB_USES_OF_GPU * (f < sim_of(s)->n_rendezvous ? sim_of(s)->rendezvous[f].n : 1);
    }
}

int bb_shared_gpus_init(struct bb_shared *s)
{
    const struct bb_sim *m = sim_of(s);
    const int n_flows = bb_shared_exchange_flow(s, m->classes.n, 0);
    int uses = BB_USES_OF_GPU * (m->n_members + m->classes.n * m->step->layout.n_comms), nics, resources, rc;

    TRY(BB_NEW(s->gpus, m->classes.n));
    nics = bb_cluster_gpus_share_nics(s->cluster) ? find_nics(s) : own_nics(s);
    if (nics < 0)
        return nics;
    resources = m->classes.n * BB_GPU_RESOURCES + nics * BB_NIC_RESOURCES;
    TRY(bb_flows_init(&s->flows, n_flows, resources, uses));
    TRY(BB_NEW(s->moved, resources));
    s->sums_index.key_bytes = sizeof(struct {
        const void *work;
        int64_t held;
    });
    set_capacities(s);
    place_uses(s);
    for (int c = 0; c < m->classes.n; c++)
        s->gpus[c].running = BB_NONE;
out:
    return rc;
}

void bb_shared_gpus_release(struct bb_shared *s)
{
    bb_flows_release(&s->flows);
    bb_key_index_release(&s->sums_index);
    free(s->sums);
    free(s->moved);
    free(s->gpus);
}

/* ---- uses ---- */

/* What a GPU gives to an activity at full rate, in bytes per nanosecond. */
struct rates {
    double out, in, memory, nic_out, nic_in;
};

static void add_use(struct bb_shared *s, struct bb_flow *flow, int resource, double weight)
{
    if (weight > 0)
        s->flows.uses[flow->first_use + flow->n_uses++] = (struct bb_flow_use){.resource = resource, .weight = weight};
}

static void use_gpu(struct bb_shared *s, struct bb_flow *flow, int class_id, const struct rates *rates)
{
    const double ranks = s->gpus[class_id].nic_ranks;

    add_use(s, flow, gpu_resource(class_id, BB_GPU_OUT), rates->out);
    add_use(s, flow, gpu_resource(class_id, BB_GPU_IN), rates->in);
    add_use(s, flow, gpu_resource(class_id, BB_GPU_MEMORY),
            fmin(rates->memory, bb_cluster_nccl_memory_gbps(s->cluster)));
    add_use(s, flow, nic_resource(s, class_id, BB_NIC_OUT), ranks * rates->nic_out);
    add_use(s, flow, nic_resource(s, class_id, BB_NIC_IN), ranks * rates->nic_in);
}

static void count_moved(struct bb_shared *s, const struct bb_flow *flow, double work_ns)
{
    for (int u = flow->first_use; u < flow->first_use + flow->n_uses; u++)
        s->moved[s->flows.uses[u].resource] += s->flows.uses[u].weight * work_ns;
}

void bb_shared_use_collective(struct bb_shared *s, int rendezvous, const struct bb_cost *cost)
{
    const struct bb_rendezvous *one = &sim_of(s)->rendezvous[rendezvous];
    struct bb_flow *flow = &s->flows.flows[rendezvous];
    double link = cost->link_ns / cost->transfer_ns * s->cluster->intra.gbps;
    double nic = cost->nic_ns / cost->transfer_ns * bb_cluster_nic_of_gbps(s->cluster, (double)one->size / one->nodes);
    double memory = 2 * cost->bytes * s->cluster->sharing.memory_bytes / cost->transfer_ns;

    flow->n_uses = 0;
    flow->bytes_per_ns = cost->link_ns > cost->nic_ns ? link : nic;
    for (int i = 0; i < one->n; i++)
        use_gpu(s, flow, sim_of(s)->members[one->first + i].class_id, &(struct rates){link, link, memory, nic, nic});
    count_moved(s, flow, cost->transfer_ns);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Whether the links within the node need longer than the NIC. */
static bool is_within_longer(const struct bb_shared *s, const struct bb_load *load)
{
    const double between = larger(load->out[0], load->in[0]) / bb_cluster_nic_of_gbps(s->cluster, 1);

    return larger(load->out[1], load->in[1]) / s->cluster->intra.gbps > between;
}

void bb_shared_use_exchange(struct bb_shared *s, int flow_id, int class_id, const struct bb_load *load)
{
    struct bb_shared_exchange *x = &s->exchanges[flow_id - sim_of(s)->n_rendezvous];
    struct bb_flow *flow = &s->flows.flows[flow_id];
    struct rates rates;
    double ns = bb_cluster_load_ns(s->cluster, load, 1);

    x->load_ns = ns;
    flow->n_uses = 0;
    if (ns <= 0)
        return;
    rates = (struct rates){.out = load->out[1] / ns,
                           .in = load->in[1] / ns,
                           .nic_out = load->out[0] / ns,
                           .nic_in = load->in[0] / ns,
                           .memory = (load->out[0] + load->out[1] + load->in[0] + load->in[1]) / ns *
                                     s->cluster->sharing.memory_bytes};
    x->limit = is_within_longer(s, load) ? BB_LIMIT_LINK : BB_LIMIT_NIC;
    flow->bytes_per_ns = larger(larger(rates.out, rates.in), larger(rates.nic_out, rates.nic_in));
    use_gpu(s, flow, class_id, &rates);
    count_moved(s, flow, ns);
}

enum bb_limit bb_shared_limit(const struct bb_shared *s, int flow, enum bb_limit alone)
{
    const int resource = s->flows.flows[flow].limit;

    if (resource < 0)
        return alone;
    if (resource >= sim_of(s)->classes.n * BB_GPU_RESOURCES)
        return BB_LIMIT_NIC;
    return resource % BB_GPU_RESOURCES == BB_GPU_MEMORY ? BB_LIMIT_MEMORY : BB_LIMIT_LINK;
}

/* ---- kernels ---- */

/* The kernels of a work list beside an NCCL that holds so many multiprocessors; NULL: no memory. */
static const struct bb_kernel_sums *sum_kernels(struct bb_shared *s, const struct bb_kernel_list *work, int held)
{
    struct {
        const void *work;
        int64_t held;
    } key = {work, held};
    struct bb_kernel_sums sums = {0};
    int known = s->sums_index.n, place = bb_key_index_add(&s->sums_index, &key);

    if (place < 0 || (place == known && BB_GROW(s->sums, known))) {
        s->rc = -BB_EFAIL;
        return NULL;
    }
    if (place < known)
        return &s->sums[place];
    for (int i = 0; i < work->n; i++) {
        bool by_memory;
        double ns =
            (double)bb_cluster_kernel_on_ns(s->cluster, &work->items[i], s->cluster->sm_count - held, &by_memory);

        sums.total_ns += ns;
        sums.memory_ns += by_memory ? ns : 0;
        sums.arithmetic_ns += !by_memory && ns > s->cluster->kernel_us * 1e3 ? ns : 0;
    }
    s->sums[place] = sums;
    return &s->sums[place];
}

enum bb_limit bb_shared_kernel_limit(struct bb_shared *s, const struct bb_running *running)
{
    const struct bb_kernel_sums *sums = running->op->work ? sum_kernels(s, running->op->work, 0) : NULL;
    double times = running->op->work_times;

    if (!sums)
        return BB_LIMIT_ARITHMETIC;
    if (2 * times * sums->memory_ns > running->alone_ns)
        return BB_LIMIT_MEMORY;
    return 2 * times * sums->arithmetic_ns > running->alone_ns ? BB_LIMIT_ARITHMETIC : BB_LIMIT_LAUNCH;
}

/* What the multiprocessors that NCCL holds and the memory's rate that it takes add to the time alone. */
double bb_shared_rate(struct bb_shared *s, const struct bb_running *running)
{
    const int held = bb_cluster_held_sms(s->cluster, s->gpus[running->class_id].held_sms);
    const double taken =
        bb_flows_taken(&s->flows, gpu_resource(running->class_id, BB_GPU_MEMORY)) / bb_cluster_memory_gbps(s->cluster);
    const struct bb_kernel_sums *sums;
    double whole_ns, memory_ns, more_ns;

    if (!running->op->work || (held == 0 && taken <= 0))
        return 1;
    sums = sum_kernels(s, running->op->work, 0);
    whole_ns = sums ? sums->total_ns : 0;
    memory_ns = sums ? sums->memory_ns : 0;
    sums = sum_kernels(s, running->op->work, held);
    if (!sums)
        return 1;
    more_ns = running->op->work_times * (sums->total_ns - whole_ns + memory_ns * taken / (1 - taken));
    return running->alone_ns / (running->alone_ns + larger(0, more_ns));
}

/* ---- afterwards ---- */

void bb_shared_read_busy(const struct bb_shared *s)
{
    for (int c = 0; c < sim_of(s)->classes.n; c++) {
        const int resources[] = {gpu_resource(c, BB_GPU_OUT), gpu_resource(c, BB_GPU_IN),
                                 nic_resource(s, c, BB_NIC_OUT), nic_resource(s, c, BB_NIC_IN)};
        double ns[4];

        for (int i = 0; i < 4; i++)
            ns[i] = s->moved[resources[i]] / s->flows.resources[resources[i]].capacity;
        s->r->c->busy[c] = (struct bb_sim_busy){.link_ns = larger(ns[0], ns[1]), .nic_ns = larger(ns[2], ns[3])};
    }
}
