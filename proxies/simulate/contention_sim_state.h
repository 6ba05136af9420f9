/* contention_sim_state.h - the state of the contention simulator, shared by contention_sim.c (event loop) and
 * contention_sim_resources.c (which resources an operation uses). */
#ifndef BB_PROXIES_SIMULATE_CONTENTION_SIM_STATE_H
#define BB_PROXIES_SIMULATE_CONTENTION_SIM_STATE_H

#include "bootstrap/base/key_index.h"
#include "proxies/machine/flows.h"
#include "proxies/machine/shared_resources.h"
#include "proxies/simulate/contention_sim.h"
#include "proxies/simulate/event_queue.h"

/* Layout of the resources: those of each class's GPU, then of each NIC, then of the uplinks of each leaf and of each
 * pod, where these are oversubscribed. */
enum { BB_GPU_OUT, BB_GPU_IN, BB_GPU_MEMORY, BB_GPU_RESOURCES };
enum { BB_DIRECTION_OUT, BB_DIRECTION_IN, BB_DIRECTIONS };

struct bb_contention_gpu {
    int held_sms;
    int running;                      /* first of its running kernels; BB_NONE: none */
    struct bb_contention_attachment { /* its NIC, leaf or pod: index, and number of ranks of the class on it */
        int number, ranks;
    } at[BB_RESOURCE_KINDS];
    bool dirty; /* the rates of its kernels must be computed again */
};

struct bb_running_kernel { /* a running compute operation; next: on the same GPU, or in the free list */
    int at, class_id, next;
    const struct bb_op *op;
    double alone_ns, left_ns, rate, since_ns;
    unsigned epoch;
};

/* Sums over a kernel list, on a GPU of which NCCL holds some SMs. */
struct bb_kernel_sums {
    double total_ns, memory_ns, arithmetic_ns; /* all kernels; memory-bound kernels; compute-bound kernels */
};

struct bb_contention_sim {
    struct bb_execution *r;
    const struct bb_cluster *cluster;
    struct bb_flows flows; /* one for each communicator instance, then one for each class and communicator */
    struct bb_event_queue events;
    int rc; /* first error */
    struct bb_contention_gpu *gpus;
    int resource_base[BB_RESOURCE_KINDS]; /* first resource of each kind; BB_NONE: this kind never limits */
    bool has_uplinks;                     /* some uplinks are oversubscribed */
    int *use_at;                          /* [resources] index of the newest use of each, to merge uses of one flow */
    int *dirty, n_dirty;
    struct bb_contention_collective {
        int order, uses_call; /* uses_call: the call for which the flow's uses were computed; BB_NONE: none */
        double latency_ns;
        enum bb_limit limit; /* without contention */
    } * collectives;         /* [instances] */
    struct bb_contention_exchange {
        int at, head, tail, sms; /* head, tail: queue of message sides that its flow serves, in order */
        double load_ns;
        enum bb_limit limit;
    } * exchanges;                 /* [classes][comms] */
    struct bb_contention_message { /* a message in progress; its sides have the cell numbers 2 i and 2 i + 1 */
        struct bb_contention_message_side {
            double target_ns; /* work of the exchange flow (ns at full rate) at which this side is done */
            int at, next;
        } sides[2];
        int64_t latency_ns;
        int served, next; /* served: sides that are done; next: free list */
    } * messages;
    int n_messages, free_message; /* free_message: head of the free list, BB_NONE: empty */
    struct bb_running_kernel *running;
    int n_running, free_running, kernels; /* kernels: entries of `running` in use */
    struct bb_key_index sums_index;
    struct bb_kernel_sums *sums;
};

/* contention_sim_resources.c */
int bb_contention_sim_resources_init(struct bb_contention_sim *s) BB_MUST_CHECK;
void bb_contention_sim_resources_release(struct bb_contention_sim *s);
int bb_contention_sim_exchange_flow(const struct bb_contention_sim *s, int class_id, int comm);
/* Sets the resources that a flow uses while it runs. */
void bb_contention_sim_set_collective_uses(struct bb_contention_sim *s, int instance, const struct bb_cost *cost);
void bb_contention_sim_set_exchange_uses(struct bb_contention_sim *s, int flow, int class_id,
                                         const struct bb_link_load *load);
/* slowest_resource: the resource that takes longest. flow_limit: what limited the flow under contention, or `alone`
 * if nothing did. */
enum bb_limit bb_contention_sim_slowest_resource(double link_ns, double nic_ns, double leaf_ns, double pod_ns);
enum bb_limit bb_contention_sim_flow_limit(const struct bb_contention_sim *s, int flow, enum bb_limit alone);
double bb_contention_sim_kernel_rate(struct bb_contention_sim *s,
                                     const struct bb_running_kernel *running); /* rate of a kernel under the present
                                                                           contention on its GPU; 1: full speed */
enum bb_limit bb_contention_sim_kernel_limit(struct bb_contention_sim *s, const struct bb_running_kernel *running);
int bb_contention_sim_memory_class(const struct bb_contention_sim *s,
                                   int resource); /* the class whose memory the resource is; BB_NONE: no memory
                                                     resource */
/* Writes to the run how long the traffic of each class keeps its links busy. */
void bb_contention_sim_report_busy(const struct bb_contention_sim *s);

#endif
