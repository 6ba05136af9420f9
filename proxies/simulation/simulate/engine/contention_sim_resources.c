/* contention_sim_resources.c - determines which links, NICs and memory of the machine an operation uses, and at
 * which rates (cost model: profiles/clusters/README.md). */
#include "bootstrap/base/alloc.h"
#include "proxies/simulation/simulate/engine/contention_sim_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

/* ---- indices of the shared resources (links, NICs, uplinks, GPU memory) ---- */

int bb_contention_sim_memory_class(const struct bb_contention_sim *s, int resource)
{
    bool of_gpu = resource < s->r->m->classes.n * BB_GPU_RESOURCES;

    return of_gpu && resource % BB_GPU_RESOURCES == BB_GPU_MEMORY ? resource / BB_GPU_RESOURCES : BB_NONE;
}

int bb_contention_sim_exchange_flow(const struct bb_contention_sim *s, int class_id, int comm)
{
    return s->r->m->n_instances + class_id * s->r->m->step->layout.n_comms + comm;
}

/* Sets, for each class of equivalent ranks, the NIC, leaf or pod that its ranks use (`what` selects the kind). Classes
 * that share a NIC, leaf or pod use the resources that are numbered after the lowest of these classes. If ranks of one
 * class use different NICs, class_refinement.c has ensured that these NICs are shared by ranks of the same classes; the
 * NICs then carry the same load and are modeled as one. */
static void share_resources(struct bb_contention_sim *s, enum bb_resource_kind what)
{
    const struct bb_sim *m = s->r->m;
    const int ranks = m->step->layout.ranks, slot = bb_shared_slot(what);
    int *lowest, n_known = 0;

    BB_NEW(lowest, ranks);
    for (int r = ranks - 1; r >= 0; r--) {
        const int index = bb_resource_index(m->cluster, what, r);

        while (n_known <= index)
            lowest[n_known++] = m->classes.n;
        lowest[index] = m->classes.of[r] < lowest[index] ? m->classes.of[r] : lowest[index];
    }
    for (int r = 0; r < ranks; r++) {
        const int class_id = m->classes.of[r], index = bb_resource_index(m->cluster, what, r);
        const bool is_shared = index == bb_resource_index(m->cluster, what, m->classes.rank[class_id]);

        for (int i = 0; i < 2; i++) {
            if (r == m->classes.rank[class_id])
                s->gpus[class_id].resource[slot + i] = s->resource_base[what] + 2 * lowest[index] + i;
            s->gpus[class_id].ranks[slot + i] += is_shared;
        }
    }
    free(lowest);
}

/* Gives each class of equivalent ranks its resources. Without shared NICs each class has its own NIC. Returns the
 * number of resources. uses: out, maximum number of resources that one transfer uses on one GPU. */
static int allocate_resources(struct bb_contention_sim *s, int *uses)
{
    const int classes = s->r->m->classes.n;
    int resources = classes * BB_GPU_RESOURCES;

    *uses = BB_GPU_RESOURCES;
    for (int c = 0; c < classes; c++)
        for (int slot = 0; slot < BB_SLOTS; slot++) {
            s->gpus[c].resource[slot] = slot < BB_GPU_RESOURCES ? c * BB_GPU_RESOURCES + slot : BB_NONE;
            s->gpus[c].ranks[slot] = slot < BB_GPU_RESOURCES;
        }
    for (enum bb_resource_kind what = 0; what < BB_RESOURCE_KINDS; what++) {
        const bool shared = bb_resource_can_limit(s->cluster, what);

        s->resource_base[what] = shared || what == BB_RESOURCE_NIC ? resources : BB_NONE;
        if (s->resource_base[what] == BB_NONE)
            continue;
        if (shared)
            share_resources(s, what);
        for (int i = 0; !shared && i < 2 * classes; i++) {
            s->gpus[i / 2].resource[BB_NIC_OUT + i % 2] = resources + i;
            s->gpus[i / 2].ranks[BB_NIC_OUT + i % 2] = 1;
        }
        resources += 2 * classes;
        *uses += 2;
    }
    return resources;
}

static double capacity_of(const struct bb_contention_sim *s, int class_id, int slot)
{
    if (slot >= BB_GPU_RESOURCES)
        return bb_resource_gbps(s->cluster, &s->r->m->conditions.slow,
                                (enum bb_resource_kind)((slot - BB_GPU_RESOURCES) / 2),
                                s->r->m->classes.rank[class_id]);
    return slot == BB_GPU_MEMORY ? bb_cluster_nccl_memory_gbps(s->cluster) : s->cluster->intra.gbps;
}

void bb_contention_sim_resources_init(struct bb_contention_sim *s)
{
    const struct bb_sim *m = s->r->m;
    const int n_flows = bb_contention_sim_exchange_flow(s, m->classes.n, 0);
    int resources, uses, use = 0;

    BB_NEW(s->gpus, m->classes.n);
    resources = allocate_resources(s, &uses);
    bb_flows_init(&s->flows, n_flows, resources, uses * (m->n_members + m->classes.n * m->step->layout.n_comms));
    BB_NEW(s->use_at, resources);
    s->sums_index.key_bytes = sizeof(struct {
        const void *work;
        int64_t held;
    });
    for (int c = 0; c < m->classes.n; c++) {
        s->gpus[c].running = BB_NONE;
        for (int slot = 0; slot < BB_SLOTS; slot++)
            if (s->gpus[c].resource[slot] != BB_NONE) {
                struct bb_resource *r = &s->flows.resources[s->gpus[c].resource[slot]];

                r->capacity = capacity_of(s, c, slot);
                r->is_net = slot >= BB_GPU_RESOURCES;
            }
    }
    for (int f = 0; f < n_flows; f++) {
        s->flows.flows[f].first_use = use;
        use += uses * (f < m->n_instances ? m->instances[f].n : 1);
    }
}

void bb_contention_sim_resources_release(struct bb_contention_sim *s)
{
    bb_flows_release(&s->flows);
    bb_key_index_release(&s->sums_index);
    free(s->sums);
    free(s->use_at);
    free(s->gpus);
}

/* ---- resources (links, NICs, memory) that a transfer uses ---- */

/* Adds the resources of one GPU to those that a transfer uses. rates: bytes per ns at which the transfer without
 * contention uses them. If another member of the same collective already uses an uplink, the rates are summed. */
static void use_gpu(struct bb_contention_sim *s, struct bb_flow *flow, int class_id, const double rates[BB_SLOTS])
{
    const struct bb_contention_gpu *gpu = &s->gpus[class_id];

    for (int slot = 0; slot < BB_SLOTS; slot++) {
        const int resource = gpu->resource[slot], end = flow->first_use + flow->n_uses;
        const double weight = gpu->ranks[slot] * rates[slot];
        int *latest;

        if (resource == BB_NONE || weight <= 0)
            continue;
        latest = &s->use_at[resource];
        if (slot >= BB_LEAF_UP && *latest >= flow->first_use && *latest < end &&
            s->flows.uses[*latest].resource == resource) {
            s->flows.uses[*latest].weight += weight;
            continue;
        }
        *latest = end;
        s->flows.uses[end] = (struct bb_flow_use){.resource = resource, .weight = weight};
        flow->n_uses++;
    }
}

/* Raises *times to the factor by which the NIC and the leaf of a GPU, of which --slow may have reduced the rates, lengthen a
 * transfer that uses them alone. on_nic, on_leaf: members of the transfer that use them at `rates`, each. */
static void raise_alone_times(const struct bb_contention_sim *s, int class_id, const double rates[BB_SLOTS], int on_nic,
                              int on_leaf, double *times)
{
    static const int slots[] = {BB_NIC_OUT, BB_NIC_IN, BB_LEAF_UP, BB_LEAF_DOWN};

    for (int i = 0; i < 4; i++) {
        const int resource = s->gpus[class_id].resource[slots[i]];

        if (resource != BB_NONE)
            *times = fmax(*times, rates[slots[i]] * (i < 2 ? on_nic : on_leaf) / s->flows.resources[resource].capacity);
    }
}

void bb_contention_sim_set_collective_uses(struct bb_contention_sim *s, int instance, const struct bb_cost *cost)
{
    const struct bb_sim_instance *inst = &s->r->m->instances[instance];
    struct bb_flow *flow = &s->flows.flows[instance];
    double link = cost->link_ns / cost->transfer_ns * s->cluster->intra.gbps;
    double nic = cost->nic_bytes / cost->transfer_ns;
    double memory = 2 * cost->bytes * s->cluster->sharing.memory_bytes / cost->transfer_ns;
    double path = cost->path_bytes / cost->transfer_ns;
    double rates[BB_SLOTS] = {link, link, fmin(memory, bb_cluster_nccl_memory_gbps(s->cluster))};

    flow->n_uses = 0;
    s->collectives[instance].alone_times = 1;
    flow->bytes_per_ns = MAX(link, nic);
    flow->net_bytes_per_ns = nic;
    flow->data_part = cost->data_part;
    for (int i = 0; i < inst->n; i++) {
        const struct bb_member *member = &s->r->m->members[inst->first + i];
        const struct bb_nic_members *on = &member->tier_members.nic;
        const double part = bb_cost_nic_part(cost, &inst->placement, on->on_nic);

        rates[BB_NIC_OUT] = rates[BB_NIC_IN] = part * nic;
        flow->net_bytes_per_ns = fmax(flow->net_bytes_per_ns, part * nic);
        flow->bytes_per_ns = fmax(flow->bytes_per_ns, part * nic);
        rates[BB_PATH_OUT] = rates[BB_PATH_IN] = part * path;
        for (enum bb_resource_kind what = BB_RESOURCE_LEAF; what < BB_RESOURCE_KINDS; what++)
            if (s->resource_base[what] != BB_NONE) {
                const enum bb_tier tier = bb_resource_tier(what);
                double *both = &rates[bb_shared_slot(what)];

                both[0] = both[1] = bb_fabric_member_bytes(cost, tier, inst->size, member->tier_members.ranks[tier],
                                                           bb_uplink_part(on)) /
                                    cost->transfer_ns;
            }
        use_gpu(s, flow, member->class_id, rates);
        raise_alone_times(s, member->class_id, rates, on->on_nic, member->tier_members.ranks[BB_LEAF],
                          &s->collectives[instance].alone_times);
    }
}

enum bb_limit bb_contention_sim_slowest_resource(double link_ns, double nic_ns, double leaf_ns, double pod_ns)
{
    const double uplinks_ns = MAX(leaf_ns, pod_ns) * (1 - 1e-9); /* the factor selects the NIC as the bottleneck
                                                                       if NIC and uplinks take the same time */

    if (uplinks_ns > MAX(link_ns, nic_ns))
        return leaf_ns > pod_ns ? BB_LIMIT_LEAF : BB_LIMIT_POD;
    return link_ns > nic_ns ? BB_LIMIT_LINK : BB_LIMIT_NIC;
}

static enum bb_limit limit_of_load(const struct bb_contention_sim *s, const struct bb_link_load *load)
{
    double uplink_ns[BB_TIERS] = {0};

    for (int tier = 0; tier < BB_TIERS; tier++)
        if (bb_fabric_is_oversubscribed(s->cluster, (enum bb_tier)tier))
            uplink_ns[tier] =
                MAX(load->up[tier], load->down[tier]) / bb_fabric_uplink_gbps(s->cluster, (enum bb_tier)tier);
    return bb_contention_sim_slowest_resource(MAX(load->out[1], load->in[1]) / s->cluster->intra.gbps,
                                              MAX(load->out[0], load->in[0]) / bb_cluster_nic_share_gbps(s->cluster, 1),
                                              uplink_ns[BB_LEAF], uplink_ns[BB_POD]);
}

enum bb_limit bb_contention_sim_set_exchange_uses(struct bb_contention_sim *s, int flow_id, int class_id,
                                                  const struct bb_link_load *load, double ns)
{
    struct bb_flow *flow = &s->flows.flows[flow_id];
    const double memory =
        (load->out[0] + load->out[1] + load->in[0] + load->in[1]) / ns * s->cluster->sharing.memory_bytes;
    const double rates[BB_SLOTS] = {[BB_GPU_OUT] = load->out[1] / ns,
                                    [BB_GPU_IN] = load->in[1] / ns,
                                    [BB_GPU_MEMORY] = fmin(memory, bb_cluster_nccl_memory_gbps(s->cluster)),
                                    [BB_NIC_OUT] = load->out[0] / ns,
                                    [BB_NIC_IN] = load->in[0] / ns,
                                    [BB_PATH_OUT] = load->slow_out / ns,
                                    [BB_PATH_IN] = load->slow_in / ns,
                                    [BB_LEAF_UP] = load->up[BB_LEAF] / ns,
                                    [BB_LEAF_DOWN] = load->down[BB_LEAF] / ns,
                                    [BB_POD_UP] = load->up[BB_POD] / ns,
                                    [BB_POD_DOWN] = load->down[BB_POD] / ns};

    flow->n_uses = 0;
    flow->net_bytes_per_ns = MAX(rates[BB_NIC_OUT], rates[BB_NIC_IN]);
    flow->data_part = 1;
    flow->bytes_per_ns = MAX(MAX(rates[BB_GPU_OUT], rates[BB_GPU_IN]), flow->net_bytes_per_ns);
    use_gpu(s, flow, class_id, rates);
    raise_alone_times(s, class_id, rates, 1, 1, &s->exchanges[flow_id - s->r->m->n_instances].alone_times);
    bb_flows_count_moved(&s->flows, flow_id, ns);
    return limit_of_load(s, load);
}

enum bb_limit bb_contention_sim_flow_limit(const struct bb_contention_sim *s, int flow, enum bb_limit alone)
{
    const int resource = s->flows.flows[flow].limit;

    if (resource < 0)
        return alone;
    for (int what = BB_RESOURCE_KINDS - 1; what >= 0; what--)
        if (s->resource_base[what] != BB_NONE && resource >= s->resource_base[what])
            return (enum bb_limit)(BB_LIMIT_NIC + what - (what > BB_RESOURCE_NIC)); /* a slow path limits as a NIC */
    return resource % BB_GPU_RESOURCES == BB_GPU_MEMORY ? BB_LIMIT_MEMORY : BB_LIMIT_LINK;
}

/* ---- compute kernels ---- */

/* Returns the total times of a kernel list on a GPU on which NCCL occupies `held` SMs; the result is cached. */
static struct bb_kernel_sums sum_kernels(struct bb_contention_sim *s, const struct bb_kernel_list *work, int held)
{
    struct {
        const void *work;
        int64_t held;
    } key = {work, held};
    struct bb_kernel_sums sums = {0};
    const int known = s->sums_index.n, index = bb_key_index_add(&s->sums_index, &key);

    if (index < known)
        return s->sums[index];
    BB_GROW(s->sums, known);
    for (int i = 0; i < work->n; i++) {
        bool by_memory;
        double ns =
            (double)bb_cluster_kernel_on_sms_ns(s->cluster, &work->items[i], s->cluster->sm_count - held, &by_memory);

        sums.total_ns += ns;
        sums.place_ns[work->items[i].place] += ns;
        sums.memory_ns += by_memory ? ns : 0;
        sums.arithmetic_ns += !by_memory && ns > s->cluster->kernel_us * 1e3 ? ns : 0;
    }
    s->sums[index] = sums;
    return sums;
}

enum bb_limit bb_contention_sim_kernel_limit(struct bb_contention_sim *s, const struct bb_op *op)
{
    struct bb_kernel_sums sums;

    if (!op->work)
        return BB_LIMIT_ARITHMETIC;
    sums = sum_kernels(s, op->work, 0);
    if (2 * sums.place_ns[BB_ON_GPU] < sums.total_ns)
        return sums.place_ns[BB_ON_HOST] > sums.place_ns[BB_ON_HOST_LINK] ? BB_LIMIT_HOST : BB_LIMIT_HOST_LINK;
    if (2 * sums.memory_ns > sums.total_ns)
        return BB_LIMIT_MEMORY;
    return 2 * sums.arithmetic_ns > sums.total_ns ? BB_LIMIT_ARITHMETIC : BB_LIMIT_LAUNCH;
}

/*
 * Contention adds the time lost to SMs that the kernel cannot use and to memory bandwidth that NCCL uses. The kernel
 * cannot use the SMs that NCCL occupies now, or the SMs reserved for communication, whichever number is larger. A
 * training framework that runs two micro-batches concurrently, to hide their communication, can reserve SMs for
 * communication during all GEMMs, even while no communication is in progress: DeepSeek-V3 reserves 20 of 132 SMs, so
 * GEMMs run on 112 (technical report, section 3.2.2).
 */
double bb_contention_sim_kernel_rate(struct bb_contention_sim *s, const struct bb_running_kernel *running)
{
    const struct bb_op *op = running->op;
    const bool reserves = s->cluster->models_training && op->concurrent;
    const int reserved = reserves ? s->cluster->sharing.collective_sms : 0;
    /* `used` can be more than half of what the kernels of a slow software reach */
    const double used = bb_flows_used(&s->flows, s->gpus[running->class_id].resource[BB_GPU_MEMORY]);
    const double taken = fmin(used / bb_cluster_memory_gbps(s->cluster), 0.5);
    int held = bb_cluster_held_sms(s->cluster, s->gpus[running->class_id].held_sms);
    struct bb_kernel_sums whole, slowed;
    double more_ns;

    held = held > reserved ? held : reserved;
    if (!op->work || (held == 0 && taken <= 0))
        return 1;
    whole = sum_kernels(s, op->work, 0);
    slowed = sum_kernels(s, op->work, held);
    more_ns = op->work_times * (slowed.total_ns - whole.total_ns + whole.memory_ns * taken / (1 - taken));
    return running->alone_ns / (running->alone_ns + MAX(0, more_ns));
}

/* ---- time for which links, NICs and uplinks are busy ---- */

/* Returns the longer of the times for which the two directions of a resource are busy. slot: the first direction. */
static double busy_ns(const struct bb_contention_sim *s, int class_id, int slot)
{
    const int *resource = &s->gpus[class_id].resource[slot];
    const struct bb_resource *resources = s->flows.resources;

    if (resource[0] == BB_NONE)
        return 0;
    return MAX(resources[resource[0]].moved / resources[resource[0]].capacity,
               resources[resource[1]].moved / resources[resource[1]].capacity);
}

/* Returns the bytes of data through the NIC of a GPU in the direction with more of them. */
static double nic_data(const struct bb_contention_sim *s, int class_id)
{
    const int *nic = &s->gpus[class_id].resource[BB_NIC_OUT];

    return nic[0] == BB_NONE ? 0 : MAX(s->flows.resources[nic[0]].data, s->flows.resources[nic[1]].data);
}

void bb_contention_sim_report_busy(const struct bb_contention_sim *s)
{
    for (int c = 0; c < s->r->m->classes.n; c++)
        s->r->c->busy[c] = (struct bb_sim_busy){.link_ns = busy_ns(s, c, BB_GPU_OUT),
                                                .nic_ns = busy_ns(s, c, BB_NIC_OUT),
                                                .nic_bytes = nic_data(s, c),
                                                .uplink_ns = {busy_ns(s, c, BB_LEAF_UP), busy_ns(s, c, BB_POD_UP)}};
}
