/*
 * flows.h - rates of concurrent activities that share resources: max-min fair sharing by progressive filling (Bertsekas
 * &
 * Gallager, Data Networks, 6.5.2), updated incrementally.
 *
 * A flow has an amount of work, in nanoseconds that it would take alone, and uses resources: at full rate, a weight of
 * the capacity of each. Rates are between 0 and 1. If the flows of a resource demand more than its capacity, the
 * resource is scarce: the bytes per second of all its flows are raised together until a resource is full or a flow
 * reaches its full rate. These flows are frozen, and the others are raised further. In the result no flow can be faster
 * without slowing a flow that is not faster than itself. Flows that share no scarce resource are independent: an update
 * recomputes only the connected components (flows connected by scarce resources) in which something changed.
 *
 * The caller keeps the time: it starts, stops and retargets flows at a moment, then calls bb_flows_update_rates once.
 */
#ifndef BB_PROXIES_MACHINE_FLOWS_H
#define BB_PROXIES_MACHINE_FLOWS_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

struct bb_flow_use {
    double weight; /* of the resource's capacity, at full rate */
    int resource;
    int flow, prev, next; /* the user, and the doubly linked list of the resource's uses; set by bb_flows_start */
};

struct bb_flow {
    int first_use, n_uses;        /* range in bb_flows.uses; the caller fills it in while the flow is stopped */
    double bytes_per_ns;          /* at full rate; progressive filling raises bytes, not rates */
    double served_ns, target_ns;  /* work done since the start; work at which the caller needs an event */
    double rate, since_ns;        /* current rate, and the time since when it applies */
    int limit;                    /* resource that limited the rate in the latest filling, -1: none */
    int round, changed_in_update; /* filling round that visited the flow last; update that changed it last */
    unsigned epoch : 28;          /* incremented whenever the predicted end changes */
    bool active : 1, fresh : 1, frozen : 1;
};

struct bb_resource {
    double capacity, demand; /* sum of the weights of the flows that use the resource */
    double moved;            /* sum that bb_flows_count_moved has added */
    int first;               /* head of the list of uses, -1: empty */
    bool stale;              /* a flow has left the resource while the resource was scarce */
};

/* State of a resource within one filling round. */
struct bb_resource_residual {
    double residual, slope;
    int open; /* flows on the resource that are not frozen yet */
    int round;
};

struct bb_flows {
    struct bb_flow *flows;
    struct bb_resource *resources;
    struct bb_resource_residual *residuals; /* [n_resources] */
    struct bb_flow_use *uses;
    int n_flows, n_resources, n_uses;
    int *fresh, n_fresh;         /* flows started since the last update */
    int *stale, n_stale;         /* stale resources */
    int *component, n_component; /* flows of the connected component that is being filled */
    int *scarce, n_scarce;       /* scarce resources of this component */
    int *changed, n_changed;     /* out: flows whose rate changed in the last update, each once */
    int round, update;
    int complete_from;   /* filling rounds of this update after this number covered their whole component */
    bool touches_scarce; /* a flow that was started since the last update uses a scarce resource */
};

/* bb_flows_init - allocate; no flow is active. The caller fills in capacities and uses; bb_flow.first_use is an
 * index into uses. Returns 0, or -BB_EFAIL without memory. */
int bb_flows_init(struct bb_flows *f, int n_flows, int n_resources, int n_uses) BB_MUST_CHECK;
void bb_flows_release(struct bb_flows *f);

/*
 * bb_flows_start       start a stopped flow whose uses are filled in, with work_ns of work
 * bb_flows_set_target  set another target for an active flow; this changes its predicted end
 * bb_flows_stop        stop a flow and release its resources
 * Rates change only in bb_flows_update_rates.
 */
void bb_flows_start(struct bb_flows *f, int flow, double now_ns, double work_ns);
void bb_flows_set_target(struct bb_flows *f, int flow, double target_ns);
void bb_flows_stop(struct bb_flows *f, int flow, double now_ns);

/* bb_flows_count_moved - add what `work_ns` of the flow's work moves to `moved` of each of its resources. */
void bb_flows_count_moved(struct bb_flows *f, int flow, double work_ns);

/* bb_flows_update_rates - compute the rates from now on. changed[n_changed] lists the flows that were started or
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

/* bb_flows_used - capacity of a resource that its flows use at their current rates. */
double bb_flows_used(const struct bb_flows *f, int resource);

#endif
