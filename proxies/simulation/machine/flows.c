/* flows.c - computes max-min fair rates by progressive filling, separately for each connected component of flows
 * (see flows.h). */
#include "proxies/simulation/machine/flows.h"

#include "bootstrap/base/alloc.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#define RELATIVE_TOLERANCE 1e-9 /* for rounding errors in sums of weights; fraction of the compared capacity or rate */
#define MAX_COMPONENT      4096 /* maximum number of flows in a connected component; all others keep their rates */

double bb_flows_used(const struct bb_flows *f, int resource)
{
    double taken = 0;

    for (int u = f->resources[resource].first; u >= 0; u = f->uses[u].next)
        taken += f->uses[u].weight * f->flows[f->uses[u].flow].rate;
    return taken;
}

void bb_flows_count_moved(struct bb_flows *f, int flow, double work_ns)
{
    const struct bb_flow *w = &f->flows[flow];

    for (int u = w->first_use; u < w->first_use + w->n_uses; u++) {
        f->resources[f->uses[u].resource].moved += f->uses[u].weight * work_ns;
        f->resources[f->uses[u].resource].data += f->uses[u].weight * work_ns * w->data_part;
    }
}

static bool is_scarce(const struct bb_resource *r)
{
    return r->demand > r->capacity * (1 + RELATIVE_TOLERANCE);
}

/* ---- linked list of the flows that use each resource ---- */

static void link_use(struct bb_flows *f, int flow, int u)
{
    struct bb_flow_use *use = &f->uses[u];
    struct bb_resource *r = &f->resources[use->resource];

    use->flow = flow;
    use->prev = -1;
    use->next = r->first;
    if (r->first >= 0)
        f->uses[r->first].prev = u;
    r->first = u;
    r->demand += use->weight;
    f->touches_scarce |= is_scarce(r);
}

static void unlink_use(struct bb_flows *f, int u)
{
    struct bb_flow_use *use = &f->uses[u];
    struct bb_resource *r = &f->resources[use->resource];

    if (is_scarce(r) && !r->stale) {
        r->stale = true;
        f->stale[f->n_stale++] = use->resource;
    }
    if (use->next >= 0)
        f->uses[use->next].prev = use->prev;
    if (use->prev >= 0)
        f->uses[use->prev].next = use->next;
    else
        r->first = use->next;
    r->demand = r->first >= 0 ? r->demand - use->weight : 0;
}

void bb_flows_start(struct bb_flows *f, int flow, double now_ns, double work_ns)
{
    struct bb_flow *w = &f->flows[flow];

    w->active = true;
    w->rate = 0;
    w->served_ns = 0;
    w->target_ns = work_ns;
    w->since_ns = now_ns;
    w->limit = -1;
    for (int u = w->first_use; u < w->first_use + w->n_uses; u++)
        link_use(f, flow, u);
    if (!w->fresh)
        f->fresh[f->n_fresh++] = flow;
    w->fresh = true;
}

void bb_flows_set_target(struct bb_flows *f, int flow, double target_ns)
{
    f->flows[flow].target_ns = target_ns;
    f->flows[flow].epoch++;
}

void bb_flows_stop(struct bb_flows *f, int flow, double now_ns)
{
    struct bb_flow *w = &f->flows[flow];

    w->served_ns = bb_flow_served_ns(w, now_ns);
    w->active = false;
    w->epoch++;
    for (int u = w->first_use; u < w->first_use + w->n_uses; u++)
        unlink_use(f, u);
}

/* ---- search for the flows and scarce resources of a connected component (flows.h) ---- */

static void visit_flow(struct bb_flows *f, int flow)
{
    if (f->flows[flow].round == f->round || f->n_component >= MAX_COMPONENT)
        return;
    f->flows[flow].round = f->round;
    f->flows[flow].frozen = false;
    f->component[f->n_component++] = flow;
}

static void visit_resource(struct bb_flows *f, int resource)
{
    if (f->residuals[resource].round == f->round)
        return;
    f->residuals[resource].round = f->round;
    f->scarce[f->n_scarce++] = resource;
    for (int u = f->resources[resource].first; u >= 0; u = f->uses[u].next)
        visit_flow(f, f->uses[u].flow);
}

static void visit_scarce(struct bb_flows *f, int first)
{
    for (int i = first; i < f->n_component; i++) {
        const struct bb_flow *w = &f->flows[f->component[i]];

        for (int u = w->first_use; u < w->first_use + w->n_uses; u++)
            if (is_scarce(&f->resources[f->uses[u].resource]))
                visit_resource(f, f->uses[u].resource);
    }
}

/* ---- progressive filling ---- */

/* Initializes a resource for one run of progressive filling. residual: capacity not used by flows outside the
 * component. slope: capacity that the component's flows use per unit of level, where the level is the rate in
 * bytes/ns that each flow has so far. */
static void begin_resource(const struct bb_flows *f, int resource)
{
    struct bb_resource_residual *r = &f->residuals[resource];

    r->residual = f->resources[resource].capacity;
    r->slope = 0;
    r->open = 0;
    for (int u = f->resources[resource].first; u >= 0; u = f->uses[u].next) {
        const struct bb_flow *w = &f->flows[f->uses[u].flow];

        if (w->round == f->round) {
            r->slope += f->uses[u].weight / w->filled_per_ns;
            r->open++;
        } else
            r->residual -= f->uses[u].weight * w->rate;
    }
}

static double full_at(const struct bb_resource_residual *r)
{
    return r->open == 0 ? INFINITY : r->residual <= 0 ? 0 : r->residual / r->slope;
}

static void change_rate(struct bb_flows *f, int flow, double rate, double now_ns)
{
    struct bb_flow *w = &f->flows[flow];

    w->served_ns = bb_flow_served_ns(w, now_ns);
    w->since_ns = now_ns;
    w->rate = rate;
    w->epoch++;
    if (w->changed_in_update != f->update)
        f->changed[f->n_changed++] = flow;
    w->changed_in_update = f->update;
}

static void set_rate(struct bb_flows *f, int flow, double rate, double now_ns, int limit)
{
    struct bb_flow *w = &f->flows[flow];

    w->frozen = true;
    for (int u = w->first_use; u < w->first_use + w->n_uses; u++) {
        struct bb_resource_residual *r = &f->residuals[f->uses[u].resource];

        if (r->round == f->round) {
            r->residual -= f->uses[u].weight * rate;
            r->slope -= f->uses[u].weight / w->filled_per_ns;
            r->open--;
        }
    }
    if (limit >= 0)
        w->limit = limit;
    if (fabs(rate - w->rate) > RELATIVE_TOLERANCE * rate || w->fresh)
        change_rate(f, flow, rate, now_ns);
}

/* Fixes the rates of those flows of the component that use the resource, which is full when each flow has `level`
 * bytes per ns. Returns the number of these flows. */
static int freeze_users(struct bb_flows *f, int resource, double level, double now_ns)
{
    int frozen = 0;

    for (int u = f->resources[resource].first, next; u >= 0; u = next) {
        const struct bb_flow *w = &f->flows[f->uses[u].flow];

        next = f->uses[u].next;
        if (w->round != f->round || w->frozen)
            continue;
        set_rate(f, f->uses[u].flow, fmin(1, fmax(level / w->filled_per_ns, RELATIVE_TOLERANCE)), now_ns, resource);
        frozen++;
    }
    return frozen;
}

/* Returns the lowest level (bytes per ns of each flow whose rate is not fixed yet) at which a resource is full or a
 * flow reaches its full rate. */
static double next_level(const struct bb_flows *f)
{
    double level = INFINITY;

    for (int i = 0; i < f->n_component; i++) {
        const struct bb_flow *w = &f->flows[f->component[i]];

        if (!w->frozen && w->filled_per_ns < level)
            level = w->filled_per_ns;
    }
    for (int i = 0; i < f->n_scarce; i++) {
        double full = full_at(&f->residuals[f->scarce[i]]);

        if (full < level)
            level = full;
    }
    return level;
}

/* Chooses the bytes that progressive filling raises equally: concurrent transfers share a NIC by the bytes that pass
 * through this NIC, whatever they transfer within the node, and the links of a node by the bytes within the node. Flows with
 * scarce resources of both kinds share by the one with the highest demand. */
static void choose_bytes(struct bb_flows *f)
{
    double demand[2] = {0, 0};

    for (int i = 0; i < f->n_scarce; i++) {
        const struct bb_resource *r = &f->resources[f->scarce[i]];

        demand[r->is_net] = fmax(demand[r->is_net], r->demand / r->capacity);
    }
    for (int i = 0; i < f->n_component; i++) {
        struct bb_flow *w = &f->flows[f->component[i]];
        const bool by_net = w->net_bytes_per_ns > 0 && demand[true] >= demand[false] * (1 - RELATIVE_TOLERANCE);

        w->filled_per_ns = by_net ? w->net_bytes_per_ns : w->bytes_per_ns;
    }
}

static void fill(struct bb_flows *f, double now_ns)
{
    choose_bytes(f);
    for (int i = 0; i < f->n_scarce; i++)
        begin_resource(f, f->scarce[i]);
    for (int unfrozen = f->n_component; unfrozen > 0;) {
        double level = next_level(f);
        int before = unfrozen;

        for (int i = 0; i < f->n_component; i++)
            if (!f->flows[f->component[i]].frozen && f->flows[f->component[i]].filled_per_ns <= level) {
                set_rate(f, f->component[i], 1, now_ns, -1);
                unfrozen--;
            }
        for (int i = 0; i < f->n_scarce; i++)
            if (full_at(&f->residuals[f->scarce[i]]) <= level * (1 + RELATIVE_TOLERANCE))
                unfrozen -= freeze_users(f, f->scarce[i], level, now_ns);
        if (unfrozen == before) /* unreachable: the resource or flow that determines the level can always be fixed,
                                   so each iteration fixes the rate of a flow */
            return;
    }
}

/* Adds to component[] all flows that share scarce (overloaded) resources with the flows in component[], directly or
 * through other flows, and computes the rates of this connected component. */
static void fill_component(struct bb_flows *f, double now_ns)
{
    visit_scarce(f, 0);
    fill(f, now_ns);
    if (f->n_component >= MAX_COMPONENT)
        f->complete_from = f->round;
    for (int i = 0; i < f->n_component; i++)
        f->flows[f->component[i]].fresh = false;
}

static void begin_round(struct bb_flows *f)
{
    f->round++;
    f->n_component = 0;
    f->n_scarce = 0;
}

static bool touches_scarce(const struct bb_flows *f, const struct bb_flow *w)
{
    for (int u = w->first_use; u < w->first_use + w->n_uses; u++)
        if (is_scarce(&f->resources[f->uses[u].resource]))
            return true;
    return false;
}

/* Computes the rate of a flow that was started since the last update. If it uses no scarce (overloaded) resource,
 * which is the usual case, it runs at full rate and affects no other flow. */
static void resolve_fresh(struct bb_flows *f, int flow, double now_ns)
{
    struct bb_flow *w = &f->flows[flow];

    if (w->fresh && w->active && f->touches_scarce && touches_scarce(f, w)) {
        begin_round(f);
        visit_flow(f, flow);
        fill_component(f, now_ns);
    } else if (w->fresh && w->active)
        change_rate(f, flow, 1, now_ns);
    w->fresh = false;
}

static void resolve_stale(struct bb_flows *f, int resource, double now_ns)
{
    begin_round(f);
    visit_resource(f, resource);
    fill_component(f, now_ns);
}

/* Resets the counters of rounds (a round computes the rates of one connected component) and of updates before they
 * overflow. One update has at most n_fresh + n_stale rounds. */
static void restart_counters(struct bb_flows *f)
{
    if (f->round < INT_MAX - f->n_fresh - f->n_stale && f->update < INT_MAX)
        return;
    for (int i = 0; i < f->n_flows; i++)
        f->flows[i].round = f->flows[i].changed_in_update = 0;
    for (int i = 0; i < f->n_resources; i++)
        f->residuals[i].round = 0;
    f->round = f->update = 0;
}

void bb_flows_update_rates(struct bb_flows *f, double now_ns)
{
    restart_counters(f);
    f->n_changed = 0;
    f->update++;
    f->complete_from = f->round;
    for (int i = 0; i < f->n_fresh; i++)
        resolve_fresh(f, f->fresh[i], now_ns);
    f->touches_scarce = false;
    for (int i = 0; i < f->n_stale; i++)
        /* otherwise an earlier round of this update (a computation of one component's rates) has already recomputed
         * the flows on this resource */
        if (f->residuals[f->stale[i]].round <= f->complete_from)
            resolve_stale(f, f->stale[i], now_ns);
    for (int i = 0; i < f->n_stale; i++)
        f->resources[f->stale[i]].stale = false;
    f->n_fresh = f->n_stale = 0;
}

/* ---- allocation ---- */

void bb_flows_init(struct bb_flows *f, int n_flows, int n_resources, int n_uses)
{
    *f = (struct bb_flows){.n_flows = n_flows, .n_resources = n_resources, .n_uses = n_uses};
    BB_NEW_ALIGNED(f->flows, n_flows);
    BB_NEW_ALIGNED(f->resources, n_resources);
    BB_NEW(f->residuals, n_resources);
    BB_NEW(f->uses, n_uses);
    BB_NEW(f->fresh, n_flows);
    BB_NEW(f->stale, n_resources);
    BB_NEW(f->component, n_flows);
    BB_NEW(f->scarce, n_resources);
    BB_NEW(f->changed, n_flows);
    for (int r = 0; r < n_resources; r++)
        f->resources[r].first = -1;
}

void bb_flows_release(struct bb_flows *f)
{
    free(f->flows);
    free(f->resources);
    free(f->residuals);
    free(f->uses);
    free(f->fresh);
    free(f->stale);
    free(f->component);
    free(f->scarce);
    free(f->changed);
    *f = (struct bb_flows){0};
}
