/*
 * flows.h - activities that share resources, in time: max-min fair rates by progressive filling.
 *
 * A flow has an amount of work, in nanoseconds that it takes alone, and uses resources: so much of each one's capacity at
 * full rate. Rates go from 0 to 1. Where the flows on a resource ask for more than it has, the rates of all of them are
 * raised together, each flow by as many bytes, until a resource is full or a flow has its full rate; those are then
 * frozen, the others raised further. So no flow could be faster but at the cost of one that is not faster. Flows that
 * meet on no scarce resource know nothing of each other: what is reckoned again is what hangs together by scarce ones.
 *
 * Whoever drives it keeps the time: start, stop and aim at a moment, then settle once for all that happened at it.
 */
#ifndef BB_PROXIES_MACHINE_FLOWS_H
#define BB_PROXIES_MACHINE_FLOWS_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

struct bb_flow_use {
    double weight; /* of its capacity, at full rate */
    int resource;
    int flow, prev, next; /* the resource's list; kept by bb_flows_start */
};

struct bb_flow {
    int first_use, n_uses;       /* of bb_flows.uses, filled in by the caller while the flow is stopped     */
    double bytes_per_ns;         /* at full rate: what is raised together is bytes                          */
    double served_ns, target_ns; /* work done since its start, and when it has to be told                   */
    double rate, since_ns;       /* since when it has had this rate                                         */
    int limit;                   /* the resource that held its rate down last, -1: none did                 */
    int round, changed_in_update;             /* in which reckoning, in which settling                                   */
    unsigned epoch : 28;         /* changes whenever its end does                                           */
    bool active : 1, fresh : 1, frozen : 1;
};

struct bb_resource {
    double capacity, demand; /* asked: by the flows on it, at their full rates */
    double moved;           /* in all: bb_flows_count_moved                   */
    int first;              /* of its list of uses, -1: none                  */
    bool stale;             /* something has left it while it was scarce      */
};

/* Of a resource, while rates are reckoned. */
struct bb_resource_residual {
    double residual, slope;
    int open; /* flows on it whose rate is not reckoned yet */
    int round;
};

struct bb_flows {
    struct bb_flow *flows;
    struct bb_resource *resources;
    struct bb_resource_residual *residuals; /* [n_resources] */
    struct bb_flow_use *uses;
    int n_flows, n_resources, n_uses;
    int *fresh, n_fresh;     /* flows started since the last settling                  */
    int *stale, n_stale;     /* resources                                              */
    int *component, n_component;       /* flows that hang together                               */
    int *scarce, n_scarce;   /* resources by which they do                             */
    int *changed, n_changed; /* flows whose rate changed in the last settling, each once */
    int round, update;
    int complete_from;           /* the reckonings of this settling after that one left nothing out */
    bool touches_scarce; /* a flow started since the last settling does */
};

/* bb_flows_init - none active. Capacities and uses are to be filled in. A flow's first_use is its place in uses. */
int bb_flows_init(struct bb_flows *f, int n_flows, int n_resources, int n_uses) BB_MUST_CHECK;
void bb_flows_release(struct bb_flows *f);

/* bb_flows_start - a stopped flow, whose uses stand, with so much work. _aim: another target for an active one, whose end
 * is another then. _stop: it takes nothing any more. None changes a rate before bb_flows_update_rates. */
void bb_flows_start(struct bb_flows *f, int flow, double now_ns, double work_ns);
void bb_flows_set_target(struct bb_flows *f, int flow, double target_ns);
void bb_flows_stop(struct bb_flows *f, int flow, double now_ns);

/* bb_flows_count_moved - what so much work of the flow takes of each of its resources. */
void bb_flows_count_moved(struct bb_flows *f, int flow, double work_ns);

/* bb_flows_update_rates - the rates from now on. changed[n_changed]: those whose rate is another now, and those just
 * started. */
void bb_flows_update_rates(struct bb_flows *f, double now_ns);

static inline double bb_flow_served_ns(const struct bb_flow *flow, double now_ns)
{
    return flow->active ? flow->served_ns + flow->rate * (now_ns - flow->since_ns) : flow->served_ns;
}

/* bb_flow_end_ns - if nothing changes: when it reaches its target. */
static inline double bb_flow_end_ns(const struct bb_flow *flow)
{
    const double residuals = flow->target_ns - flow->served_ns;

    return residuals <= 0 ? flow->since_ns : flow->since_ns + residuals / flow->rate;
}

/* bb_flows_used - of a resource's capacity, by the flows on it as they are. */
double bb_flows_used(const struct bb_flows *f, int resource);

#endif
