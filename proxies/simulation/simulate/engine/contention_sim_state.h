/* contention_sim_state.h - the state of the contention simulator, shared by contention_sim.c (event loop) and
 * contention_sim_resources.c (which links, NICs and memory each operation uses). */
#ifndef BB_PROXIES_SIMULATION_SIMULATE_ENGINE_CONTENTION_SIM_STATE_H
#define BB_PROXIES_SIMULATION_SIMULATE_ENGINE_CONTENTION_SIM_STATE_H

#include "bootstrap/base/key_index.h"
#include "proxies/simulation/machine/flows.h"
#include "proxies/simulation/machine/shared_resources.h"
#include "proxies/simulation/simulate/engine/contention_sim.h"
#include "proxies/simulation/simulate/engine/event_queue.h"

/* The resources that the operations of one GPU use: its outgoing link, incoming link and memory; and its NIC, leaf
 * uplinks and pod uplinks, in both directions. GPUs of different classes of equivalent ranks can share the latter. */
enum {
    BB_GPU_OUT,
    BB_GPU_IN,
    BB_GPU_MEMORY,
    BB_GPU_RESOURCES, /* number of resources of a GPU that no other GPU shares */
    BB_NIC_OUT = BB_GPU_RESOURCES,
    BB_NIC_IN,
    BB_PATH_OUT, /* slow paths of the NIC */
    BB_PATH_IN,
    BB_LEAF_UP,
    BB_LEAF_DOWN,
    BB_POD_UP,
    BB_POD_DOWN,
    BB_SLOTS
};

static inline int bb_shared_slot(enum bb_resource_kind what) /* first of the two slots of a NIC, leaf or pod */
{
    return BB_GPU_RESOURCES + 2 * (int)what;
}

struct bb_contention_gpu {
    int held_sms;           /* number of SMs that NCCL kernels occupy on this GPU */
    int running;            /* first element of the list of compute operations that run on this GPU, index in
                               bb_contention_sim.running; BB_NONE: none */
    int resource[BB_SLOTS]; /* index in flows.resources; BB_NONE: not modeled because it is never a bottleneck */
    int ranks[BB_SLOTS];    /* number of ranks of this GPU's class that share the resource */
    bool dirty;             /* true: the rates of this GPU's compute kernels must be recomputed */
};

/* A running compute operation. at: its task; class_id: its class of equivalent ranks; next: index of the next running
 * operation on the same GPU, or of the next free element. */
struct bb_running_kernel {
    int at, class_id, next;
    const struct bb_op *op;
    /* alone_ns: duration without contention; rate: current speed as a fraction of the speed without contention;
     * since_ns: time since which this rate holds; left_ns: remaining duration at time since_ns, without contention */
    double alone_ns, left_ns, rate, since_ns;
    unsigned epoch; /* version of the scheduled end; an end event with another version is ignored */
};

/* total kernel times of a kernel list on a GPU on which NCCL occupies a given number of SMs */
struct bb_kernel_sums {
    /* total time in ns of all kernels; of the memory-bound kernels; of the compute-bound kernels that take longer
     * than the minimum kernel time; of those at each place, of which memory_ns has the ones not on the GPU, too */
    double total_ns, memory_ns, arithmetic_ns, place_ns[BB_ON_HOST + 1];
};

struct bb_contention_sim {
    struct bb_execution *r;
    const struct bb_cluster *cluster;
    /* transfers that share links: first one flow (flows.h) per communicator for its collectives, then one flow per
     * rank class and communicator for the class's sends, receives and alltoallvs */
    struct bb_flows flows;
    struct bb_event_queue events;
    struct bb_contention_gpu *gpus;
    /* index in flows.resources of the first NIC, leaf or pod; BB_NONE: this kind is not modeled. The links and the
     * memory of the GPU of class c have the indices BB_GPU_RESOURCES x c + slot. */
    int resource_base[BB_RESOURCE_KINDS];
    int *use_at; /* [resources] index in flows.uses of the element added last for this resource; use_gpu increases its
                    weight if the same transfer uses an uplink again */
    int *dirty, n_dirty; /* classes of ranks whose compute kernels need new rates (gpus[].dirty) */
    struct bb_contention_collective {
        /* order: sequence number of the collective in progress. uses_call: index (bb_op_times_call) of the
         * collective cost for which the flow's used resources were computed; BB_NONE: none */
        int order, uses_call;
        double latency_ns;
        double alone_times;  /* as in the exchange */
        enum bb_limit limit; /* bottleneck of the collective without contention */
    } * collectives;         /* [bb_sim.n_instances] one per communicator */
    struct bb_contention_exchange {
        /* at: task of the exchange. head, tail: first and last message side (2 * message index + side) in the queue
         * of messages that wait for their transfer. sms: number of SMs that the exchange occupies */
        int at, head, tail, sms;
        double load_ns;      /* duration of the transfer of all messages without contention */
        double alone_times;  /* factor by which slow NICs and uplinks (--slow) lengthen this time */
        enum bb_limit limit; /* bottleneck of the exchange without contention */
    } * exchanges; /* [classes of ranks][n_comms] the group call's sends and receives, or the alltoallv, that are in
                      progress */
    struct bb_contention_message { /* a message in progress. Side s (0 or 1: one of its two ranks) of message i has
                                      the index 2 i + s, called a cell */
        struct bb_contention_message_side {
            double target_ns; /* progress of the exchange's transfer, in ns of transfer without contention, at which
                                 this message is complete at this rank */
            int at, next;     /* at: task of this rank; next: next cell in the queue of the task's exchange */
        } sides[2];
        int64_t latency_ns;
        int served, next; /* served: number of sides (0 to 2 ranks) at which the transfer is complete; next: index of
                             the next free element */
    } * messages;
    int n_messages, free_message; /* free_message: index of the first free element of messages[]; BB_NONE: none is
                                     free */
    struct bb_running_kernel *running;
    int n_running, free_running, kernels; /* kernels: number of compute operations that are running; n_running:
                                             length of running[]; free_running: first free element, BB_NONE: none */
    struct bb_key_index sums_index;       /* maps a kernel list and a number of occupied SMs to an index in `sums` */
    struct bb_kernel_sums *sums;
};

/* Functions of contention_sim_resources.c. */
void bb_contention_sim_resources_init(struct bb_contention_sim *s);
void bb_contention_sim_resources_release(struct bb_contention_sim *s);
int bb_contention_sim_exchange_flow(const struct bb_contention_sim *s, int class_id, int comm);
/* set_collective_uses, set_exchange_uses - store which links, NICs and memory the transfer of a collective or
 * exchange uses, and at which rates without contention. ns: duration of the transfer without contention, above 0.
 * set_exchange_uses returns the bottleneck of the exchange without contention. */
void bb_contention_sim_set_collective_uses(struct bb_contention_sim *s, int instance, const struct bb_cost *cost);
enum bb_limit bb_contention_sim_set_exchange_uses(struct bb_contention_sim *s, int flow_id, int class_id,
                                                  const struct bb_link_load *load, double ns);
/*
 * slowest_resource - returns the bottleneck (link, NIC, leaf or pod) with the largest of the four times.
 * flow_limit - returns the resource whose contention slowed the transfer; `alone` (the bottleneck without contention)
 * if no contention occurred.
 */
enum bb_limit bb_contention_sim_slowest_resource(double link_ns, double nic_ns, double leaf_ns, double pod_ns);
enum bb_limit bb_contention_sim_flow_limit(const struct bb_contention_sim *s, int flow, enum bb_limit alone);
/* kernel_rate - returns the current rate of a compute kernel as a fraction of its rate without contention. */
double bb_contention_sim_kernel_rate(struct bb_contention_sim *s, const struct bb_running_kernel *running);
enum bb_limit bb_contention_sim_kernel_limit(struct bb_contention_sim *s, const struct bb_op *op);
/* memory_class - returns the class of equivalent ranks whose GPU memory the resource is; BB_NONE for any other
 * resource. */
int bb_contention_sim_memory_class(const struct bb_contention_sim *s, int resource);
/* report_busy - stores in bb_sim_run.busy for how many ns traffic keeps the links, NICs and uplinks of each rank
 * class busy. */
void bb_contention_sim_report_busy(const struct bb_contention_sim *s);

#endif
