/* contention_sim_resources.c - determines which links, NICs and memory of the machine an operation uses, and at
 * which rates (cost model: profiles/clusters/README.md). */
#include "bootstrap/base/alloc.h"
#include "proxies/simulate/engine/contention_sim_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

static const struct bb_sim *sim_of(const struct bb_contention_sim *s)
{
    return s->r->m;
}

/* ---- indices of the shared resources (links, NICs, uplinks, GPU memory) ---- */

static int gpu_resource_index(int class_id, int which)
{
    return class_id * BB_GPU_RESOURCES + which;
}

static int shared_resource_index(const struct bb_contention_sim *s, int class_id, enum bb_resource_kind what, int which)
{
    return s->resource_base[what] + s->gpus[class_id].at[what].number * BB_DIRECTIONS + which;
}

int bb_contention_sim_memory_class(const struct bb_contention_sim *s, int resource)
{
    bool of_gpu = resource < sim_of(s)->classes.n * BB_GPU_RESOURCES;

    return of_gpu && resource % BB_GPU_RESOURCES == BB_GPU_MEMORY ? resource / BB_GPU_RESOURCES : BB_NONE;
}

/* Sets, for each class of equivalent ranks, the number of the NIC, leaf or pod that its ranks use (`what` selects
 * the kind). This number is the lowest class index among the ranks that share the resource. If ranks of one class
 * use different NICs, class_refinement.c has ensured that these NICs are shared by ranks of the same classes; the
 * NICs then carry the same load and are modeled as one. */
static void number_shared_resources(struct bb_contention_sim *s, enum bb_resource_kind what)
{
    const struct bb_sim *m = sim_of(s);
    const int ranks = m->step->layout.ranks;
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
        struct bb_contention_attachment *at = &s->gpus[class_id].at[what];

        if (r == m->classes.rank[class_id])
            at->number = lowest[index];
        at->ranks += index == bb_resource_index(m->cluster, what, m->classes.rank[class_id]);
    }
    free(lowest);
}

/* Gives each class of equivalent ranks its own NIC, for machines on which GPUs do not share NICs. */
static void assign_private_nics(struct bb_contention_sim *s)
{
    for (int c = 0; c < sim_of(s)->classes.n; c++)
        s->gpus[c].at[BB_RESOURCE_NIC] = (struct bb_contention_attachment){c, 1};
}

/* Assigns indices in flows.resources to all links, NICs, uplinks and GPU memories (order: contention_sim_state.h).
 * Returns their number. */
static int allocate_resources(struct bb_contention_sim *s)
{
    const int classes = sim_of(s)->classes.n;
    int resources = classes * BB_GPU_RESOURCES;

    for (enum bb_resource_kind what = 0; what < BB_RESOURCE_KINDS; what++) {
        const bool shared = bb_resource_can_limit(s->cluster, what);

        s->resource_base[what] = shared || what == BB_RESOURCE_NIC ? resources : BB_NONE;
        s->has_uplinks |= shared && what != BB_RESOURCE_NIC;
        if (shared)
            number_shared_resources(s, what);
        if (!shared && what == BB_RESOURCE_NIC)
            assign_private_nics(s);
        resources += s->resource_base[what] == BB_NONE ? 0 : classes * BB_DIRECTIONS;
    }
    return resources;
}

static void set_capacities(struct bb_contention_sim *s)
{
    const double memory = bb_cluster_nccl_memory_gbps(s->cluster);
    struct bb_resource *resources = s->flows.resources;
    const struct bb_sim *m = sim_of(s);

    for (int c = 0; c < m->classes.n; c++) {
        resources[gpu_resource_index(c, BB_GPU_OUT)].capacity = s->cluster->intra.gbps;
        resources[gpu_resource_index(c, BB_GPU_IN)].capacity = s->cluster->intra.gbps;
        resources[gpu_resource_index(c, BB_GPU_MEMORY)].capacity = memory;
        for (enum bb_resource_kind what = 0; what < BB_RESOURCE_KINDS; what++)
            for (int i = 0; i < BB_DIRECTIONS && s->resource_base[what] != BB_NONE; i++)
                resources[shared_resource_index(s, c, what, i)].capacity =
                    bb_resource_gbps(s->cluster, &m->conditions.slow, what, m->classes.rank[c]);
    }
}

int bb_contention_sim_exchange_flow(const struct bb_contention_sim *s, int class_id, int comm)
{
    return sim_of(s)->n_instances + class_id * sim_of(s)->step->layout.n_comms + comm;
}

/* Returns the maximum number of resources (links, memory, NIC, uplinks) that one transfer uses on one GPU. */
static int count_uses(const struct bb_contention_sim *s)
{
    int uses = BB_GPU_RESOURCES;

    for (enum bb_resource_kind what = 0; what < BB_RESOURCE_KINDS; what++)
        uses += s->resource_base[what] == BB_NONE ? 0 : BB_DIRECTIONS;
    return uses;
}

static void allocate_uses(struct bb_contention_sim *s)
{
    int use = 0, of_gpu = count_uses(s);

    for (int f = 0; f < s->flows.n_flows; f++) {
        s->flows.flows[f].first_use = use;
        use += of_gpu * (f < sim_of(s)->n_instances ? sim_of(s)->instances[f].n : 1);
    }
}

void bb_contention_sim_resources_init(struct bb_contention_sim *s)
{
    const struct bb_sim *m = sim_of(s);
    const int n_flows = bb_contention_sim_exchange_flow(s, m->classes.n, 0);
    int resources;

    BB_NEW(s->gpus, m->classes.n);
    resources = allocate_resources(s);
    bb_flows_init(&s->flows, n_flows, resources,
                  count_uses(s) * (m->n_members + m->classes.n * m->step->layout.n_comms));
    BB_NEW(s->use_at, resources);
    s->sums_index.key_bytes = sizeof(struct {
        const void *work;
        int64_t held;
    });
    set_capacities(s);
    allocate_uses(s);
    for (int c = 0; c < m->classes.n; c++)
        s->gpus[c].running = BB_NONE;
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

/* Rates, in bytes per ns, at which a transfer without contention uses the resources of one GPU. out, in: the GPU's
 * intra-node links; memory: GPU memory; shared: the GPU's NIC, leaf uplinks and pod uplinks, in each direction. */
struct rates {
    double out, in, memory, shared[BB_RESOURCE_KINDS][BB_DIRECTIONS];
};

static void add_use(struct bb_contention_sim *s, struct bb_flow *flow, int resource, double weight)
{
    if (weight > 0)
        s->flows.uses[flow->first_use + flow->n_uses++] = (struct bb_flow_use){.resource = resource, .weight = weight};
}

/* Adds `weight` bytes per ns on an uplink to the resources that a transfer uses. If another member of the same
 * collective already uses this uplink, the weights are summed. */
static void add_uplink_use(struct bb_contention_sim *s, struct bb_flow *flow, int resource, double weight)
{
    const int latest = s->use_at[resource];
    struct bb_flow_use *use = &s->flows.uses[latest];

    if (latest >= flow->first_use && latest < flow->first_use + flow->n_uses && use->resource == resource) {
        use->weight += weight;
        return;
    }
    s->use_at[resource] = flow->first_use + flow->n_uses;
    add_use(s, flow, resource, weight);
}

static void use_gpu(struct bb_contention_sim *s, struct bb_flow *flow, int class_id, const struct rates *rates)
{
    const struct bb_contention_attachment *at = s->gpus[class_id].at;

    add_use(s, flow, gpu_resource_index(class_id, BB_GPU_OUT), rates->out);
    add_use(s, flow, gpu_resource_index(class_id, BB_GPU_IN), rates->in);
    add_use(s, flow, gpu_resource_index(class_id, BB_GPU_MEMORY),
            fmin(rates->memory, bb_cluster_nccl_memory_gbps(s->cluster)));
    add_use(s, flow, shared_resource_index(s, class_id, BB_RESOURCE_NIC, BB_DIRECTION_OUT),
            at[BB_RESOURCE_NIC].ranks * rates->shared[BB_RESOURCE_NIC][BB_DIRECTION_OUT]);
    add_use(s, flow, shared_resource_index(s, class_id, BB_RESOURCE_NIC, BB_DIRECTION_IN),
            at[BB_RESOURCE_NIC].ranks * rates->shared[BB_RESOURCE_NIC][BB_DIRECTION_IN]);
    for (enum bb_resource_kind what = BB_RESOURCE_LEAF; s->has_uplinks && what < BB_RESOURCE_KINDS; what++)
        for (int i = 0; i < BB_DIRECTIONS && s->resource_base[what] != BB_NONE; i++)
            add_uplink_use(s, flow, shared_resource_index(s, class_id, what, i),
                           at[what].ranks * rates->shared[what][i]);
}

void bb_contention_sim_set_collective_uses(struct bb_contention_sim *s, int instance, const struct bb_cost *cost)
{
    const struct bb_sim_instance *inst = &sim_of(s)->instances[instance];
    struct bb_flow *flow = &s->flows.flows[instance];
    double link = cost->link_ns / cost->transfer_ns * s->cluster->intra.gbps;
    double nic = cost->nic_bytes / cost->transfer_ns;
    struct rates rates = {
        link, link, 2 * cost->bytes * s->cluster->sharing.memory_bytes / cost->transfer_ns, {{nic, nic}}};

    flow->n_uses = 0;
    flow->bytes_per_ns = cost->link_ns > cost->nic_ns ? link : nic;
    for (int i = 0; i < inst->n; i++) {
        const struct bb_member *member = &sim_of(s)->members[inst->first + i];

        for (enum bb_resource_kind what = BB_RESOURCE_LEAF; what < BB_RESOURCE_KINDS; what++)
            if (s->resource_base[what] != BB_NONE) {
                const enum bb_tier tier = bb_resource_tier(what);

                rates.shared[what][BB_DIRECTION_OUT] = rates.shared[what][BB_DIRECTION_IN] =
                    bb_fabric_member_bytes(cost, tier, inst->size, member->tier_members.ranks[tier]) /
                    cost->transfer_ns;
            }
        use_gpu(s, flow, member->class_id, &rates);
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

    if (load->out[0] + load->in[0] <= 0)
        return BB_LIMIT_LINK;
    if (load->out[1] + load->in[1] <= 0 && !s->has_uplinks)
        return BB_LIMIT_NIC;
    for (int tier = 0; tier < BB_TIERS; tier++)
        if (bb_fabric_is_oversubscribed(s->cluster, (enum bb_tier)tier))
            uplink_ns[tier] =
                MAX(load->up[tier], load->down[tier]) / bb_fabric_uplink_gbps(s->cluster, (enum bb_tier)tier);
    return bb_contention_sim_slowest_resource(MAX(load->out[1], load->in[1]) / s->cluster->intra.gbps,
                                              MAX(load->out[0], load->in[0]) / bb_cluster_nic_share_gbps(s->cluster, 1),
                                              uplink_ns[BB_LEAF], uplink_ns[BB_POD]);
}

void bb_contention_sim_set_exchange_uses(struct bb_contention_sim *s, int flow_id, int class_id,
                                         const struct bb_link_load *load)
{
    struct bb_contention_exchange *x = &s->exchanges[flow_id - sim_of(s)->n_instances];
    struct bb_flow *flow = &s->flows.flows[flow_id];
    const double ns = bb_cluster_link_load_ns(s->cluster, load, 1);
    struct rates rates;

    x->load_ns = ns;
    flow->n_uses = 0;
    if (ns <= 0)
        return;
    rates = (struct rates){.out = load->out[1] / ns,
                           .in = load->in[1] / ns,
                           .shared = {{load->out[0] / ns, load->in[0] / ns},
                                      {load->up[BB_LEAF] / ns, load->down[BB_LEAF] / ns},
                                      {load->up[BB_POD] / ns, load->down[BB_POD] / ns}},
                           .memory = (load->out[0] + load->out[1] + load->in[0] + load->in[1]) / ns *
                                     s->cluster->sharing.memory_bytes};
    x->limit = limit_of_load(s, load);
    flow->bytes_per_ns =
        MAX(MAX(rates.out, rates.in), MAX(rates.shared[BB_RESOURCE_NIC][0], rates.shared[BB_RESOURCE_NIC][1]));
    use_gpu(s, flow, class_id, &rates);
    bb_flows_count_moved(&s->flows, flow_id, ns);
}

enum bb_limit bb_contention_sim_flow_limit(const struct bb_contention_sim *s, int flow, enum bb_limit alone)
{
    const int resource = s->flows.flows[flow].limit;

    if (resource < 0)
        return alone;
    for (int what = BB_RESOURCE_KINDS - 1; what >= 0; what--)
        if (s->resource_base[what] != BB_NONE && resource >= s->resource_base[what])
            return (enum bb_limit)(BB_LIMIT_NIC + what);
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
        sums.memory_ns += by_memory ? ns : 0;
        sums.arithmetic_ns += !by_memory && ns > s->cluster->kernel_us * 1e3 ? ns : 0;
    }
    s->sums[index] = sums;
    return sums;
}

enum bb_limit bb_contention_sim_kernel_limit(struct bb_contention_sim *s, const struct bb_running_kernel *running)
{
    double times = running->op->work_times;
    struct bb_kernel_sums sums;

    if (!running->op->work)
        return BB_LIMIT_ARITHMETIC;
    sums = sum_kernels(s, running->op->work, 0);
    if (2 * times * sums.memory_ns > running->alone_ns)
        return BB_LIMIT_MEMORY;
    return 2 * times * sums.arithmetic_ns > running->alone_ns ? BB_LIMIT_ARITHMETIC : BB_LIMIT_LAUNCH;
}

/*
 * Returns the number of SMs that a compute kernel cannot use: the SMs that NCCL occupies now, or the SMs reserved for
 * communication, whichever number is larger. A training framework that runs two micro-batches concurrently, to hide
 * their communication, can reserve SMs for communication during all GEMMs, even while no communication is in progress:
 * DeepSeek-V3 reserves 20 of 132 SMs, so GEMMs run on 112 (technical report, section 3.2.2).
 */
static int count_unavailable_sms(const struct bb_contention_sim *s, const struct bb_running_kernel *running)
{
    const int held = bb_cluster_held_sms(s->cluster, s->gpus[running->class_id].held_sms);
    const int left = s->cluster->models_training && running->op->concurrent ? s->cluster->sharing.collective_sms : 0;

    return held > left ? held : left;
}

/* Returns the rate of a compute kernel as a fraction of its rate without contention: the time without contention
 * divided by the time with contention. Contention adds the time lost to occupied SMs and to memory bandwidth that
 * NCCL uses. */
double bb_contention_sim_kernel_rate(struct bb_contention_sim *s, const struct bb_running_kernel *running)
{
    const int held = count_unavailable_sms(s, running);
    const double taken = bb_flows_used(&s->flows, gpu_resource_index(running->class_id, BB_GPU_MEMORY)) /
                         bb_cluster_memory_gbps(s->cluster);
    struct bb_kernel_sums whole, slowed;
    double more_ns;

    if (!running->op->work || (held == 0 && taken <= 0))
        return 1;
    whole = sum_kernels(s, running->op->work, 0);
    slowed = sum_kernels(s, running->op->work, held);
    more_ns = running->op->work_times * (slowed.total_ns - whole.total_ns + whole.memory_ns * taken / (1 - taken));
    return running->alone_ns / (running->alone_ns + MAX(0, more_ns));
}

/* ---- time for which links, NICs and uplinks are busy ---- */

static double busy_ns(const struct bb_contention_sim *s, int out, int in)
{
    const struct bb_resource *resources = s->flows.resources;

    return MAX(resources[out].moved / resources[out].capacity, resources[in].moved / resources[in].capacity);
}

void bb_contention_sim_report_busy(const struct bb_contention_sim *s)
{
    for (int c = 0; c < sim_of(s)->classes.n; c++) {
        double ns[BB_RESOURCE_KINDS] = {0};

        for (enum bb_resource_kind what = 0; what < BB_RESOURCE_KINDS; what++)
            if (s->resource_base[what] != BB_NONE)
                ns[what] = busy_ns(s, shared_resource_index(s, c, what, BB_DIRECTION_OUT),
                                   shared_resource_index(s, c, what, BB_DIRECTION_IN));
        s->r->c->busy[c] = (struct bb_sim_busy){
            .link_ns = busy_ns(s, gpu_resource_index(c, BB_GPU_OUT), gpu_resource_index(c, BB_GPU_IN)),
            .nic_ns = ns[BB_RESOURCE_NIC],
            .uplink_ns = {ns[BB_RESOURCE_LEAF], ns[BB_RESOURCE_POD]}};
    }
}
