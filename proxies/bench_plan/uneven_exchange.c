/* uneven_exchange.c - see uneven_exchange.h. Each rank's exchange is a flow over what it shares with others. */
#include "proxies/bench_plan/uneven_exchange.h"

#include "bootstrap/base/grow.h"
#include "proxies/machine/fabric.h"
#include "proxies/machine/flows.h"

#include <math.h>
#include <stdlib.h>

/* What ranks share, each way out and in: NICs, then the uplinks of leaves and of pods. */
enum { NIC, WAYS = 1 + BB_TIERS, DIRECTIONS = 2, USES = WAYS * DIRECTIONS };

struct exchange {
    const struct bb_cluster *cl;
    int ranks;
    struct bb_load *loads;
    double *done_ns; /* when a rank's links have done their part */
    struct bb_flows flows;
};

static enum bb_tier tier_of(int way)
{
    return (enum bb_tier)(way - 1);
}

static bool is_shared(const struct bb_cluster *cl, int way)
{
    if (!cl->shares)
        return false;
    return way == NIC ? bb_cluster_gpus_share_nics(cl) : bb_fabric_is_scarce(cl, tier_of(way));
}

static int place_of(const struct bb_cluster *cl, int way, int rank)
{
    return way == NIC ? bb_cluster_rank_nic(cl, rank) : bb_fabric_place(cl, tier_of(way), rank);
}

static double bytes_over(const struct bb_load *load, int way, int in)
{
    if (way == NIC)
        return in ? load->in[0] : load->out[0];
    return in ? load->down[tier_of(way)] : load->up[tier_of(way)];
}

/* ---- loads ---- */

static double pair_bytes(const struct bb_case *c, int from, int to)
{
    size_t bytes = bb_dtypes[c->dtype].bytes;

    return (double)(bb_alltoallv_counts_count(c->amounts, c->count, bytes, c->ranks, from, to) * bytes);
}

static void sum_loads(struct exchange *x, const struct bb_case *c)
{
    for (int i = 0; i < c->ranks; i++)
        for (int j = 0; j < c->ranks; j++) {
            double bytes = i == j ? 0 : pair_bytes(c, i, j);

            bb_fabric_add_message(x->cl, &x->loads[i], i, j, bytes, true);
            bb_fabric_add_message(x->cl, &x->loads[j], j, i, bytes, false);
        }
    for (int r = 0; r < c->ranks; r++)
        x->done_ns[r] = bb_cluster_load_ns(x->cl, &x->loads[r], 1);
}

/* ---- what they take from each other ---- */

static int count_places(const struct exchange *x)
{
    int n = 0;

    for (int way = 0; way < WAYS; way++)
        for (int r = 0; is_shared(x->cl, way) && r < x->ranks; r++)
            n = place_of(x->cl, way, r) >= n ? place_of(x->cl, way, r) + 1 : n;
    return n;
}

static void start_flow(struct exchange *x, int rank)
{
    struct bb_flow *flow = &x->flows.flows[rank];
    const struct bb_load *load = &x->loads[rank];
    const double alone_ns = x->done_ns[rank];

    flow->first_use = rank * USES;
    flow->bytes_per_ns = fmax(fmax(load->out[0], load->in[0]), fmax(load->out[1], load->in[1])) / alone_ns;
    for (int use = 0; use < USES; use++) {
        const int way = use / DIRECTIONS, in = use % DIRECTIONS;
        const double bytes = is_shared(x->cl, way) ? bytes_over(load, way, in) : 0;

        if (bytes > 0)
            x->flows.uses[flow->first_use + flow->n_uses++] =
                (struct bb_flow_use){.resource = place_of(x->cl, way, rank) * USES + use, .weight = bytes / alone_ns};
    }
    bb_flows_start(&x->flows, rank, 0, alone_ns);
}

static double next_end_ns(const struct exchange *x)
{
    double ns = INFINITY;

    for (int r = 0; r < x->ranks; r++)
        if (x->flows.flows[r].active && bb_flow_end_ns(&x->flows.flows[r]) < ns)
            ns = bb_flow_end_ns(&x->flows.flows[r]);
    return ns;
}

static void run_flows(struct exchange *x)
{
    bb_flows_settle(&x->flows, 0);
    for (double now_ns; (now_ns = next_end_ns(x)) < INFINITY; bb_flows_settle(&x->flows, now_ns))
        for (int r = 0; r < x->ranks; r++)
            if (x->flows.flows[r].active && bb_flow_end_ns(&x->flows.flows[r]) <= now_ns) {
                bb_flows_stop(&x->flows, r, now_ns);
                x->done_ns[r] = now_ns;
            }
}

static int share(struct exchange *x)
{
    const int places = count_places(x);
    int rc = 0;

    if (places == 0)
        return 0;
    TRY(bb_flows_init(&x->flows, x->ranks, places * USES, x->ranks * USES));
    for (int i = 0; i < places * USES; i++) {
        const int way = i % USES / DIRECTIONS;

        x->flows.resources[i].capacity = way == NIC ? x->cl->inter.gbps
                                         : bb_fabric_is_scarce(x->cl, tier_of(way))
                                             ? bb_fabric_uplink_gbps(x->cl, tier_of(way))
                                             : 0;
    }
    for (int r = 0; r < x->ranks; r++)
        if (x->done_ns[r] > 0)
            start_flow(x, r);
    run_flows(x);
    bb_flows_release(&x->flows);
out:
    return rc;
}

/* A message ends when both its sides have done, and after its latency. */
static int64_t last_end_ns(const struct exchange *x, const struct bb_case *c)
{
    int64_t last_ns = 0;

    for (int i = 0; i < c->ranks; i++)
        for (int j = 0; j < c->ranks; j++) {
            const double bytes = pair_bytes(c, i, j);
            const int64_t ns = bytes <= 0 ? 0
                               : i == j   ? bb_cluster_self_ns(x->cl, bytes)
                                          : bb_fabric_message_ns(x->cl, i, j, fmax(x->done_ns[i], x->done_ns[j]));

            last_ns = ns > last_ns ? ns : last_ns;
        }
    return last_ns;
}

int bb_uneven_exchange_ns(const struct bb_cluster *cluster, const struct bb_case *c, int64_t *ns)
{
    struct exchange x = {.cl = cluster, .ranks = c->ranks};
    int rc;

    TRY(BB_NEW(x.loads, c->ranks));
    TRY(BB_NEW(x.done_ns, c->ranks));
    sum_loads(&x, c);
    TRY(share(&x));
    *ns = last_end_ns(&x, c);
out:
    free(x.loads);
    free(x.done_ns);
    return rc;
}
