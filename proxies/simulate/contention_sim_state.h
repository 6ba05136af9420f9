/* contention_sim_state.h - what contention_sim.c, which lets time pass, and contention_sim_resources.c, which knows the machine's parts, keep. */
#ifndef BB_PROXIES_SIMULATE_CONTENTION_SIM_STATE_H
#define BB_PROXIES_SIMULATE_CONTENTION_SIM_STATE_H

#include "bootstrap/base/key_index.h"
#include "proxies/machine/flows.h"
#include "proxies/machine/shared_resources.h"
#include "proxies/simulate/event_queue.h"
#include "proxies/simulate/contention_sim.h"

/* Resources of each class's GPU, then of each NIC, then of each leaf's and each pod's uplinks where they can be
 * scarce. */
enum { BB_GPU_OUT, BB_GPU_IN, BB_GPU_MEMORY, BB_GPU_RESOURCES };
enum { BB_DIRECTION_OUT, BB_DIRECTION_IN, BB_DIRECTIONS };

struct bb_contention_gpu {
    int held_sms;
    int running;             /* the first of its kernels, BB_NONE        */
    struct bb_contention_attachment { /* which NIC, leaf and pod; how many ranks of the class use it */
        int number, ranks;
    } at[BB_RESOURCE_KINDS];
    bool dirty; /* its kernels' rates have to be found again */
};

struct bb_running_kernel { /* a compute operation */
    int at, class_id, next;
    const struct bb_op *op;
    double alone_ns, left_ns, rate, since_ns;
    unsigned epoch;
};

/* A work list on a GPU of which NCCL holds some multiprocessors. */
struct bb_kernel_sums {
    double total_ns, memory_ns, arithmetic_ns; /* of all; of those that memory bounds, that their products do */
};

struct bb_contention_sim {
    struct bb_execution *r;
    const struct bb_cluster *cluster;
    struct bb_flows flows; /* of each rendezvous, then of each class and communicator */
    struct bb_event_queue events;
    int rc; /* the first failure */
    struct bb_contention_gpu *gpus;
    int resource_base[BB_RESOURCE_KINDS]; /* the first resource of these, BB_NONE: they are never scarce */
    bool has_uplinks;          /* that can be scarce */
    int *use_at;               /* [resources] a flow's latest use of it */
    int *dirty, n_dirty;
    struct bb_contention_collective {
        int order, uses_call; /* uses_of: whose uses the flow has, of the calls there; BB_NONE */
        double latency_ns;
        enum bb_limit limit; /* alone */
    } * collectives;          /* [rendezvous] */
    struct bb_contention_exchange {
        int at, head, tail, sms; /* head, tail: cells that its links serve, in the order in which they will be done */
        double load_ns;
        enum bb_limit limit;
    } * exchanges;             /* [classes][comms] */
    struct bb_contention_message { /* of the two sides of a message that is under way: cells 2 x its number, and + 1 */
        struct bb_contention_message_side {
            double target_ns; /* of its exchange's flow, when it has been served */
            int at, next;
        } sides[2];
        int64_t latency_ns;
        int served, next; /* served: how many sides have been */
    } * messages;
    int n_messages, free_message; /* unused_: the first that is not in use, BB_NONE */
    struct bb_running_kernel *running;
    int n_running, free_running, kernels; /* kernels: of them in use */
    struct bb_key_index sums_index;
    struct bb_kernel_sums *sums;
};

/* contention_sim_resources.c */
int bb_contention_sim_resources_init(struct bb_contention_sim *s) BB_MUST_CHECK;
void bb_contention_sim_resources_release(struct bb_contention_sim *s);
int bb_contention_sim_exchange_flow(const struct bb_contention_sim *s, int class_id, int comm);
/* Uses of a flow while it lasts. */
void bb_contention_sim_set_collective_uses(struct bb_contention_sim *s, int instance, const struct bb_cost *cost);
void bb_contention_sim_set_exchange_uses(struct bb_contention_sim *s, int flow, int class_id, const struct bb_link_load *load);
/* What bounds what takes these as long, by itself; and what bounded a flow among others, else what does it alone. */
enum bb_limit bb_contention_sim_slowest_resource(double link_ns, double nic_ns, double leaf_ns, double pod_ns);
enum bb_limit bb_contention_sim_flow_limit(const struct bb_contention_sim *s, int flow, enum bb_limit alone);
double bb_contention_sim_kernel_rate(struct bb_contention_sim *s,
                      const struct bb_running_kernel *running); /* of a kernel beside what is on its GPU */
enum bb_limit bb_contention_sim_kernel_limit(struct bb_contention_sim *s, const struct bb_running_kernel *running);
int bb_contention_sim_memory_class(const struct bb_contention_sim *s, int resource); /* whose memory it is, BB_NONE: no memory */
/* Into the run: how long each class's links would be busy with all that went over them. */
void bb_contention_sim_report_busy(const struct bb_contention_sim *s);

#endif
