/* exchanges.c - models the messages of each rank as one flow (transfer) over the NICs and uplinks that ranks share
 * (see exchanges.h). */
#include "proxies/simulation/machine/exchanges.h"

#include "proxies/simulation/machine/flows.h"
#include "proxies/simulation/machine/shared_resources.h"

#include <math.h>

/* Each NIC, slow path, leaf or pod is two resources of flows.h: one for sent and one for received bytes. */
enum { DIRECTIONS = 2, USES = BB_RESOURCE_KINDS * DIRECTIONS };

struct sharing {
    const struct bb_cluster *c;
    const struct bb_slow *slow;
    struct bb_exchange *exchanges;
    int n;
    struct bb_flows flows;
};

static double bytes_through(const struct bb_link_load *load, enum bb_resource_kind what, int in)
{
    if (what == BB_RESOURCE_NIC)
        return in ? load->in[0] : load->out[0];
    if (what == BB_RESOURCE_PATH)
        return in ? load->slow_in : load->slow_out;
    return in ? load->down[bb_resource_tier(what)] : load->up[bb_resource_tier(what)];
}

/* Returns whether NICs, slow paths, leaf uplinks or pod uplinks (`what`) are modeled as shared resources (flows.h). If each NIC
 * belongs to only one GPU, NICs are modeled only if the list of degraded hardware (slow.h) is not empty. */
static bool is_modelled(const struct sharing *s, enum bb_resource_kind what)
{
    return bb_resource_can_limit(s->c, what) || (what == BB_RESOURCE_NIC && s->c->has_sharing && s->slow->n > 0);
}

static int count_resources(const struct sharing *s)
{
    int n_resources = 0;

    for (enum bb_resource_kind what = 0; what < BB_RESOURCE_KINDS; what++)
        for (int i = 0; is_modelled(s, what) && i < s->n; i++)
            n_resources = (int)fmax(n_resources, 1 + bb_resource_index(s->c, what, s->exchanges[i].rank));
    return n_resources;
}

static void start_flow(struct sharing *s, int i)
{
    const struct bb_exchange *x = &s->exchanges[i];
    const struct bb_link_load *load = &x->load;
    struct bb_flow *flow = &s->flows.flows[i];

    flow->first_use = i * USES;
    flow->bytes_per_ns = fmax(fmax(load->out[0], load->in[0]), fmax(load->out[1], load->in[1])) / x->done_ns;
    for (int use = 0; use < USES; use++) {
        const enum bb_resource_kind what = (enum bb_resource_kind)(use / DIRECTIONS);
        const double bytes = is_modelled(s, what) ? bytes_through(load, what, use % DIRECTIONS) : 0;

        if (bytes <= 0)
            continue;
        s->flows.uses[flow->first_use + flow->n_uses] = (struct bb_flow_use){
            .resource = bb_resource_index(s->c, what, x->rank) * USES + use, .weight = bytes / x->done_ns};
        s->flows.resources[s->flows.uses[flow->first_use + flow->n_uses++].resource].capacity =
            bb_resource_gbps(s->c, s->slow, what, x->rank);
    }
    bb_flows_start(&s->flows, i, 0, x->done_ns);
}

static double next_end_ns(const struct sharing *s)
{
    double ns = INFINITY;

    for (int i = 0; i < s->n; i++)
        if (s->flows.flows[i].active && bb_flow_end_ns(&s->flows.flows[i]) < ns)
            ns = bb_flow_end_ns(&s->flows.flows[i]);
    return ns;
}

static void run_flows(struct sharing *s)
{
    bb_flows_update_rates(&s->flows, 0);
    for (double now_ns; (now_ns = next_end_ns(s)) < INFINITY; bb_flows_update_rates(&s->flows, now_ns))
        for (int i = 0; i < s->n; i++)
            if (s->flows.flows[i].active && bb_flow_end_ns(&s->flows.flows[i]) <= now_ns) {
                bb_flows_stop(&s->flows, i, now_ns);
                s->exchanges[i].done_ns = now_ns;
            }
}

void bb_exchanges_run(const struct bb_cluster *c, const struct bb_slow *slow, struct bb_exchange *exchanges, int n)
{
    static const struct bb_slow none;
    struct sharing s = {.c = c, .slow = slow ? slow : &none, .exchanges = exchanges, .n = n};
    int n_resources;

    for (int i = 0; i < n; i++)
        exchanges[i].done_ns = bb_cluster_link_load_ns(c, &exchanges[i].load, 1);
    n_resources = count_resources(&s);
    if (n_resources == 0)
        return;
    bb_flows_init(&s.flows, n, n_resources * USES, n * USES);
    for (int i = 0; i < n; i++)
        if (exchanges[i].done_ns > 0)
            start_flow(&s, i);
    run_flows(&s);
    bb_flows_release(&s.flows);
}

bool bb_exchanges_can_contend(const struct bb_cluster *c, int rank, int other)
{
    for (enum bb_resource_kind what = 0; what < BB_RESOURCE_KINDS; what++)
        if (bb_resource_can_limit(c, what) && bb_resource_index(c, what, rank) == bb_resource_index(c, what, other))
            return true;
    return false;
}
