/*
 * flows.h - rates of concurrent activities that share resources: max-min fair sharing by progressive filling (Bertsekas
 * and Gallager, Data Networks, 6.5.2), updated incrementally.
 *
 * A flow has an amount of work, measured as the nanoseconds that the work takes alone, and uses resources. At full rate
 * it uses a part of each resource's capacity, called the weight. Rates are between 0 and 1. A resource is *scarce* if
 * its flows at full rate would need more than its capacity. Progressive filling then raises the bytes per second of all
 * connected flows equally until a resource is full or a flow reaches its full rate. The flows on the full resource, or
 * the flow at full rate, are frozen; the others are raised further. In the result, a flow can only become faster if a
 * flow that is at most as fast becomes slower. Flows that share no scarce resource are independent: an update
 * recomputes only the connected components (flows connected by scarce resources) in which something changed.
 *
 * The module has no clock: at one moment, the caller starts, stops and retargets flows, then calls
 * bb_flows_update_rates once.
 */
#ifndef BB_PROXIES_MACHINE_FLOWS_H
#define BB_PROXIES_MACHINE_FLOWS_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

struct bb_flow_use {
    double weight; /* the part of bb_resource.capacity that the flow uses at full rate */
    int resource;
    int flow, prev, next; /* flow: index of the flow; prev, next: linked list of all uses of the resource;
                             bb_flows_start sets these fields */
};

struct bb_flow {
    int first_use, n_uses;       /* bb_flows.uses[first_use .. first_use + n_uses) are the uses of this flow; set by the
                                    caller while the flow is stopped */
    double bytes_per_ns;         /* bytes per ns at full rate; progressive filling raises the bytes per ns of all flows
                                    equally */
    double served_ns, target_ns; /* served_ns: work done until since_ns; target_ns: amount of work whose completion
                                    time bb_flow_end_ns predicts */
    double rate, since_ns;       /* rate: current rate, 0 to 1; since_ns: time at which this rate began */
    int limit;                   /* resource that most recently limited the rate since the start; -1: none */
    /* round: number of the latest filling round (computes the rates of one connected component) that included the
     * flow; changed_in_update: number of the latest bb_flows_update_rates that changed the rate of the flow */
    int round, changed_in_update;
    unsigned epoch : 28; /* version of the predicted end of the flow: incremented whenever the predicted end changes */
    bool active : 1, fresh : 1, frozen : 1;
};

struct bb_resource {
    double capacity, demand; /* demand: sum of the weights of the flows that use the resource */
    double moved;            /* sum of work x weight over the flows, as added by bb_flows_count_moved */
    int first;               /* index of the first entry in the list of uses; -1: the list is empty */
    bool stale; /* a flow that used this resource has stopped since the last update, and the resource was scarce at
                   that time */
};

/* A resource during progressive filling. residual: capacity that is still free. slope: capacity that the open flows
 * (flows whose rate is not final) use together if each of them has 1 byte/ns. */
struct bb_resource_residual {
    double residual, slope;
    int open; /* number of flows of the component that use the resource and are open, that is, not frozen yet */
    int round;
};

struct bb_flows {
    struct bb_flow *flows;
    struct bb_resource *resources;
    struct bb_resource_residual *residuals; /* [n_resources] */
    struct bb_flow_use *uses;
    int n_flows, n_resources, n_uses;
    int *fresh, n_fresh;         /* flows started since the last update */
    int *stale, n_stale;         /* indices of the resources with `stale` set */
    int *component, n_component; /* flows of the connected component whose rates are being computed */
    int *scarce, n_scarce;       /* indices of the scarce resources of this connected component */
    int *changed, n_changed;     /* out: flows whose rate changed in the last update; each is listed once */
    int round, update;
    int complete_from;   /* number of a filling round; all rounds of this update with a higher number included whole
                            components, which MAX_COMPONENT did not truncate */
    bool touches_scarce; /* at least one flow that was started since the last update uses a scarce resource */
};

/* bb_flows_init - allocates the arrays; all flows are stopped. The caller then sets the capacities of the resources,
 * and for each flow its range of uses (bb_flow.first_use) and their weights. Returns 0, or -BB_EFAIL if memory is
 * exhausted. */
int bb_flows_init(struct bb_flows *f, int n_flows, int n_resources, int n_uses) BB_MUST_CHECK;
void bb_flows_release(struct bb_flows *f);

/*
 * bb_flows_start       starts a stopped flow with work_ns of work; its uses must be set before
 * bb_flows_set_target  changes target_ns of an active flow, and with it the predicted end
 * bb_flows_stop        stops a flow and releases its resources
 * Rates change only in bb_flows_update_rates.
 */
void bb_flows_start(struct bb_flows *f, int flow, double now_ns, double work_ns);
void bb_flows_set_target(struct bb_flows *f, int flow, double target_ns);
void bb_flows_stop(struct bb_flows *f, int flow, double now_ns);

/* bb_flows_count_moved - adds weight x work_ns to the traffic counter `moved` of each resource that the flow uses. */
void bb_flows_count_moved(struct bb_flows *f, int flow, double work_ns);

/* bb_flows_update_rates - computes the rates from now_ns on. changed[n_changed] lists the flows that were started or
 * whose rate changed. */
void bb_flows_update_rates(struct bb_flows *f, double now_ns);

static inline double bb_flow_served_ns(const struct bb_flow *flow, double now_ns)
{
    return flow->active ? flow->served_ns + flow->rate * (now_ns - flow->since_ns) : flow->served_ns;
}

/* bb_flow_end_ns - predicted time at which the flow reaches its target at its current rate. */
static inline double bb_flow_end_ns(const struct bb_flow *flow)
{
    const double remaining = flow->target_ns - flow->served_ns;

    return remaining <= 0 ? flow->since_ns : flow->since_ns + remaining / flow->rate;
}

/* bb_flows_used - part of a resource's capacity that its flows use at their current rates. */
double bb_flows_used(const struct bb_flows *f, int resource);

#endif
