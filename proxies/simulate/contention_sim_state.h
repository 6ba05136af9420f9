/* contention_sim_state.h - the state of the contention simulator, shared by contention_sim.c (event loop) and
 * contention_sim_resources.c (the resources that each operation uses). */
#ifndef BB_PROXIES_SIMULATE_CONTENTION_SIM_STATE_H
#define BB_PROXIES_SIMULATE_CONTENTION_SIM_STATE_H

#include "bootstrap/base/key_index.h"
#include "proxies/machine/flows.h"
#include "proxies/machine/shared_resources.h"
#include "proxies/simulate/contention_sim.h"
#include "proxies/simulate/event_queue.h"

/* Order of the resources in flows.resources: three per rank class (outgoing link, incoming link and memory of its
 * GPU). Then follow two per class (directions out and in) for NICs and for each tier of oversubscribed uplinks, leaf
 * and pod. Classes that share a NIC, leaf or pod use the two resources of the lowest of these classes. */
enum { BB_GPU_OUT, BB_GPU_IN, BB_GPU_MEMORY, BB_GPU_RESOURCES };
enum { BB_DIRECTION_OUT, BB_DIRECTION_IN, BB_DIRECTIONS };

struct bb_contention_gpu {
    int held_sms;
    int running; /* index in bb_contention_sim.running of the first kernel in the list of kernels that run on this
                    GPU; BB_NONE: none */
    struct bb_contention_attachment { /* the NIC, leaf or pod that the GPU uses. number: the lowest class that uses
                                         it; ranks: number of ranks of the GPU's class that share it */
        int number, ranks;
    } at[BB_RESOURCE_KINDS];
    bool dirty; /* the rates of this GPU's kernels must be recomputed */
};

struct bb_running_kernel { /* a running compute operation; next: index of the next running operation on the same GPU,
                              or of the next free entry */
    int at, class_id, next;
    const struct bb_op *op;
    double alone_ns, left_ns, rate, since_ns;
    unsigned epoch;
};

/* Sums of the times of a kernel list on a GPU on which NCCL occupies a given number of SMs. */
struct bb_kernel_sums {
    double total_ns, memory_ns, arithmetic_ns; /* times of all kernels, of the memory-bound kernels, and of the
                                                  compute-bound kernels that last longer than the minimum kernel time */
};

struct bb_contention_sim {
    struct bb_execution *r;
    const struct bb_cluster *cluster;
    struct bb_flows flows; /* one flow (flows.h) per communicator instance, for its collectives; then one flow per
                              class and communicator, for the exchanges and alltoallvs of the class */
    struct bb_event_queue events;
    int rc; /* return code of the first error */
    struct bb_contention_gpu *gpus;
    int resource_base[BB_RESOURCE_KINDS]; /* index of the first resource of each kind; BB_NONE: this kind is not
                                             modeled because it is never a bottleneck */
    bool has_uplinks;                     /* true: leaf or pod uplinks can be a bottleneck */
    int *use_at; /* [resources] index in flows.uses of the latest entry for each resource; add_uplink_use adds the
                    weight of a repeated use by the same flow to this entry */
    int *dirty, n_dirty;
    struct bb_contention_collective {
        /* order: sequence number of the collective in progress; uses_call: index (bb_op_times_call) of the call for
         * which the flow's uses of resources were computed, BB_NONE: none */
        int order, uses_call;
        double latency_ns;
        enum bb_limit limit; /* what limits the speed of the collective without contention */
    } * collectives;         /* [bb_sim.n_instances] one per communicator instance */
    struct bb_contention_exchange {
        /* at: task of the exchange; head, tail: first and last cell (message side, see bb_contention_message) of the
         * queue in which sides wait for their transfer; sms: number of SMs that the exchange occupies */
        int at, head, tail, sms;
        double load_ns;
        enum bb_limit limit;
    } * exchanges;                 /* [classes][n_comms] the exchange or alltoallv that is in progress */
    struct bb_contention_message { /* a message in progress; side s (0 or 1) of message i has the index 2 i + s,
                                      called a cell */
        struct bb_contention_message_side {
            double target_ns; /* progress of the exchange's flow (ns of transfer at full rate) at which this side has
                                 been transferred */
            int at, next;
        } sides[2];
        int64_t latency_ns;
        int served, next; /* served: number of sides (0 to 2) that have been transferred; next: index of the next
                             free entry */
    } * messages;
    int n_messages, free_message; /* free_message: head of the free list; BB_NONE: empty list */
    struct bb_running_kernel *running;
    int n_running, free_running, kernels; /* kernels: number of compute operations that are running */
    struct bb_key_index sums_index;
    struct bb_kernel_sums *sums;
};

/* Functions of contention_sim_resources.c. */
int bb_contention_sim_resources_init(struct bb_contention_sim *s) BB_MUST_CHECK;
void bb_contention_sim_resources_release(struct bb_contention_sim *s);
int bb_contention_sim_exchange_flow(const struct bb_contention_sim *s, int class_id, int comm);
/* set_collective_uses, set_exchange_uses - set which resources a flow (flows.h) uses while the collective or the
 * exchange runs, and at which rates. */
void bb_contention_sim_set_collective_uses(struct bb_contention_sim *s, int instance, const struct bb_cost *cost);
void bb_contention_sim_set_exchange_uses(struct bb_contention_sim *s, int flow, int class_id,
                                         const struct bb_link_load *load);
/*
 * slowest_resource - returns the limit (link, NIC, leaf or pod) with the largest of the four times.
 * flow_limit - returns the resource that slowed the flow by contention, or `alone` if contention did not slow the flow.
 */
enum bb_limit bb_contention_sim_slowest_resource(double link_ns, double nic_ns, double leaf_ns, double pod_ns);
enum bb_limit bb_contention_sim_flow_limit(const struct bb_contention_sim *s, int flow, enum bb_limit alone);
/* kernel_rate - returns the rate of a kernel under the present contention on its GPU; 1: full speed. */
double bb_contention_sim_kernel_rate(struct bb_contention_sim *s, const struct bb_running_kernel *running);
enum bb_limit bb_contention_sim_kernel_limit(struct bb_contention_sim *s, const struct bb_running_kernel *running);
/* memory_class - returns class c if the resource is the GPU memory of class c; BB_NONE for any other resource. */
int bb_contention_sim_memory_class(const struct bb_contention_sim *s, int resource);
/* report_busy - stores in bb_sim_run.busy how long traffic keeps the links, NICs and uplinks of each class busy. */
void bb_contention_sim_report_busy(const struct bb_contention_sim *s);

#endif
