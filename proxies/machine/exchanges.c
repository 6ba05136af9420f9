/* exchanges.c - see exchanges.h. Each rank's exchange is a flow over what it shares with others. */
#include "proxies/machine/exchanges.h"

#include "proxies/machine/fabric.h"
#include "proxies/machine/flows.h"

#include <math.h>

/* What ranks share, each way out and in: NICs, then the uplinks of leaves and of pods. */
enum { NIC, WAYS = 1 + BB_TIERS, DIRECTIONS = 2, USES = WAYS * DIRECTIONS };

struct sharing {
    const struct bb_cluster *c;
    const struct bb_slow *slow;
    struct bb_exchange *exchanges;
    int n;
    struct bb_flows flows;
};

static enum bb_tier tier_of(int way)
{
    return (enum bb_tier)(way - 1);
}

static bool is_shared(const struct bb_cluster *c, int way)
{
    if (!c->shares)
        return false;
    return way == NIC ? bb_cluster_gpus_share_nics(c) : bb_fabric_is_scarce(c, tier_of(way));
}

static int place_of(const struct bb_cluster *c, int way, int rank)
{
    return way == NIC ? bb_cluster_rank_nic(c, rank) : bb_fabric_place(c, tier_of(way), rank);
}

static double place_gbps(const struct sharing *s, int way, int rank)
{
    if (way == NIC)
        return bb_slow_nics_gbps(s->slow, s->c, rank);
    return bb_fabric_uplink_gbps(s->c, tier_of(way)) *
           (tier_of(way) == BB_LEAF ? bb_slow_leaf_part(s->slow, s->c, rank) : 1);
}

static double bytes_over(const struct bb_load *load, int way, int in)
{
    if (way == NIC)
        return in ? load->in[0] : load->out[0];
    return in ? load->down[tier_of(way)] : load->up[tier_of(way)];
}

/* A slow NIC is one more to be looked at. */
static bool counts(const struct sharing *s, int way)
{
    return is_shared(s->c, way) || (way == NIC && s->c->shares && s->slow->n > 0);
}

static int count_places(const struct sharing *s)
{
    int places = 0;

    for (int way = 0; way < WAYS; way++)
        for (int i = 0; counts(s, way) && i < s->n; i++)
            places = (int)fmax(places, 1 + place_of(s->c, way, s->exchanges[i].rank));
    return places;
}

static void start_flow(struct sharing *s, int i)
{
    const struct bb_exchange *x = &s->exchanges[i];
    const struct bb_load *load = &x->load;
    struct bb_flow *flow = &s->flows.flows[i];

    flow->first_use = i * USES;
    flow->bytes_per_ns = fmax(fmax(load->out[0], load->in[0]), fmax(load->out[1], load->in[1])) / x->done_ns;
    for (int use = 0; use < USES; use++) {
        const int way = use / DIRECTIONS;
        const double bytes = counts(s, way) ? bytes_over(load, way, use % DIRECTIONS) : 0;

        if (bytes <= 0)
            continue;
        s->flows.uses[flow->first_use + flow->n_uses] =
            (struct bb_flow_use){.resource = place_of(s->c, way, x->rank) * USES + use, .weight = bytes / x->done_ns};
        s->flows.resources[s->flows.uses[flow->first_use + flow->n_uses++].resource].capacity =
            place_gbps(s, way, x->rank);
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
    bb_flows_settle(&s->flows, 0);
    for (double now_ns; (now_ns = next_end_ns(s)) < INFINITY; bb_flows_settle(&s->flows, now_ns))
        for (int i = 0; i < s->n; i++)
            if (s->flows.flows[i].active && bb_flow_end_ns(&s->flows.flows[i]) <= now_ns) {
                bb_flows_stop(&s->flows, i, now_ns);
                s->exchanges[i].done_ns = now_ns;
            }
}

int bb_exchanges_share(const struct bb_cluster *c, const struct bb_slow *slow, struct bb_exchange *exchanges, int n)
{
    static const struct bb_slow none;
    struct sharing s = {.c = c, .slow = slow ? slow : &none, .exchanges = exchanges, .n = n};
    int places, rc;

    for (int i = 0; i < n; i++)
        exchanges[i].done_ns = bb_cluster_load_ns(c, &exchanges[i].load, 1);
    places = count_places(&s);
    if (places == 0)
        return 0;
    TRY(bb_flows_init(&s.flows, n, places * USES, n * USES));
    for (int i = 0; i < n; i++)
        if (exchanges[i].done_ns > 0)
            start_flow(&s, i);
    run_flows(&s);
    bb_flows_release(&s.flows);
out:
    return rc;
}

bool bb_exchanges_meet(const struct bb_cluster *c, int rank, int other)
{
    for (int way = 0; way < WAYS; way++)
        if (is_shared(c, way) && place_of(c, way, rank) == place_of(c, way, other))
            return true;
    return false;
}
