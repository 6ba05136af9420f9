/*
 * flows.h - rates of concurrent transfers (flows) that share resources such as links, NICs and memory: max-min fair
 * sharing by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2), updated incrementally.
 *
 * The work of a flow is measured as the ns that it takes without contention. At full rate a flow uses a fixed amount of
 * each of its resources' capacity, called the weight. A rate of 1 is the full rate, 0 is none. A resource is *scarce*
 * if its flows at full rate would need more than its capacity. Progressive filling then raises the bytes per second of
 * all connected flows equally until a resource is full or a flow reaches its full rate. If the resource with the
 * highest demand is part of the network, these are the bytes of each flow that pass through the network. The rates of
 * the flows on the full resource, or of the flow at full rate, are then fixed; the remaining flows are raised further.
 * In the result, a flow can only become faster if a flow that is at most as fast becomes slower. Flows that share no
 * scarce resource are independent: an update recomputes only the connected components (flows connected by scarce
 * resources) in which something changed.
 *
 * The module has no clock: at one simulated time, the caller starts and stops flows and changes their targets, then
 * calls bb_flows_update_rates once.
 */
#ifndef BB_PROXIES_SIMULATION_MACHINE_FLOWS_H
#define BB_PROXIES_SIMULATION_MACHINE_FLOWS_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

struct bb_flow_use {
    double weight; /* capacity of the resource that the flow uses at full rate, in the unit of bb_resource.capacity */
    int resource;
    int flow, prev, next; /* flow: index of the flow; prev, next: neighbors in the linked list of all uses of the
                             resource. bb_flows_start sets these fields */
};

struct bb_flow {
    int first_use, n_uses;   /* resources that the flow uses: bb_flows.uses[first_use .. first_use + n_uses); set by
                                    the caller while the flow is stopped */
    double bytes_per_ns;     /* bytes per ns at full rate, over the resource that transfers most of them */
    double net_bytes_per_ns; /* bytes per ns at full rate through the network; 0: as bytes_per_ns */
    double data_part;        /* part of the weights that is data, not time lost to the protocol; for bb_resource.data */
    double filled_per_ns;    /* which of the two progressive filling raises equally for all flows of the component */
    double served_ns, target_ns; /* served_ns: work completed at time since_ns, in ns at full rate; target_ns: amount
                                    of work for which bb_flow_end_ns predicts the completion time */
    double rate, since_ns;       /* rate: current rate as a fraction (0 to 1) of the rate without contention; since_ns:
                                    time since which the flow has had this rate */
    int limit; /* index of the resource that last limited the flow's rate; -1: none since the flow started */
    /* round: number of the latest computation of one component's rates that included this flow; changed_in_update:
     * number of the latest bb_flows_update_rates that changed its rate */
    int round, changed_in_update;
    unsigned epoch : 28; /* version of the predicted end of the flow, incremented whenever the predicted end changes */
    bool active : 1, fresh : 1, frozen : 1;
};

struct bb_resource {
    double capacity, demand; /* capacity: in units chosen by the caller, for example bytes per ns; demand: sum of the
                                weights of the flows that use the resource */
    double moved;            /* traffic counter, in capacity x ns: sum of weight x work over the flows, as added by
                                bb_flows_count_moved */
    double data;             /* the same, times data_part of each flow */
    int first;   /* first element of the resource's list of uses, index in bb_flows.uses; -1: the list is empty */
    bool stale;  /* true: a flow that used this resource has stopped since the last update, and the resource was
                   scarce (overloaded) then */
    bool is_net; /* the resource is part of the network between nodes, such as a NIC */
};

/* State of a resource during progressive filling. residual: capacity that is still free. slope: capacity that the
 * flows whose rates are not fixed yet use together if each of them has 1 byte/ns. */
struct bb_resource_residual {
    double residual, slope;
    int open; /* number of flows of the component that use the resource and whose rates are not fixed yet */
    int round;
};

struct bb_flows {
    struct bb_flow *flows;
    struct bb_resource *resources;
    struct bb_resource_residual *residuals; /* [n_resources] */
    struct bb_flow_use *uses;
    int n_flows, n_resources, n_uses;
    int *fresh, n_fresh;         /* indices of the flows started since the last update */
    int *stale, n_stale;         /* indices of the resources whose field `stale` is true */
    int *component, n_component; /* indices of the flows in the connected component whose rates are being computed */
    int *scarce, n_scarce;       /* indices of the scarce (overloaded) resources of this connected component */
    int *changed, n_changed;     /* out: indices of the flows whose rate the last update changed, each once */
    int round, update;   /* number of the current computation of one component's rates (round), and of the current
                            bb_flows_update_rates (update) */
    int complete_from;   /* number of a round (computation of one component's rates); all rounds of this update with a
                            higher number covered whole components, not truncated by MAX_COMPONENT */
    bool touches_scarce; /* true: a flow that was started since the last update uses a scarce (overloaded) resource */
};

/* bb_flows_init - allocates the arrays; all flows are stopped. The caller then sets the capacities of the resources
 * and, for each flow, the resources that it uses (bb_flow.first_use) and their weights. */
void bb_flows_init(struct bb_flows *f, int n_flows, int n_resources, int n_uses);
void bb_flows_release(struct bb_flows *f);

/*
 * bb_flows_start       starts a stopped flow with work_ns of work; the resources that it uses must be set before
 * bb_flows_set_target  changes target_ns of an active flow, and with it the predicted end
 * bb_flows_stop        stops a flow, which then uses no resources
 * The rates of all flows change only in bb_flows_update_rates.
 */
void bb_flows_start(struct bb_flows *f, int flow, double now_ns, double work_ns);
void bb_flows_set_target(struct bb_flows *f, int flow, double target_ns);
void bb_flows_stop(struct bb_flows *f, int flow, double now_ns);

/* bb_flows_count_moved - adds weight x work_ns to the traffic counters `moved` and `data` of each resource that the flow
 * uses. */
void bb_flows_count_moved(struct bb_flows *f, int flow, double work_ns);

/* bb_flows_update_rates - computes the rates of all flows from now_ns on. changed[n_changed] then lists the flows
 * that were started or whose rate changed. */
void bb_flows_update_rates(struct bb_flows *f, double now_ns);

static inline double bb_flow_served_ns(const struct bb_flow *flow, double now_ns)
{
    return flow->active ? flow->served_ns + flow->rate * (now_ns - flow->since_ns) : flow->served_ns;
}

/* bb_flow_end_ns - returns the predicted time at which the flow reaches target_ns if its current rate does not
 * change. */
static inline double bb_flow_end_ns(const struct bb_flow *flow)
{
    const double remaining = flow->target_ns - flow->served_ns;

    return remaining <= 0 ? flow->since_ns : flow->since_ns + remaining / flow->rate;
}

/* bb_flows_used - returns the capacity of a resource that its flows use at their current rates, in the unit of
 * bb_resource.capacity. */
double bb_flows_used(const struct bb_flows *f, int resource);

#endif
