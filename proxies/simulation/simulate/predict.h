/*
 * predict.h - predicts the time of a step on a cluster, and how much of its communication is hidden by compute.
 *
 * The model of one step: at time 0 the host clocks and all streams of all ranks are at 0, and no operation is in
 * progress. The host issues the program in order. Each compute kernel costs launch_us of host time; each single NCCL
 * call and each group call costs nccl_launch_us. Waits and event records cost no host time, and a compute operation of
 * 0 us is not launched. An operation starts on the GPU when it has been issued, the previous operations on its streams
 * have ended, and the operations for which it waits have ended. Its duration follows the cost model of
 * profiles/clusters/README.md. The step of a rank ends when all its operations have ended and the host has issued the
 * whole program. The step time is that of the slowest rank. A run on emulated GPUs with the same profile gives the same
 * numbers, if the profile has no 'achieved' section.
 *
 * The interval of an operation (overlap.h) is the interval between CUDA events recorded immediately before and after
 * the operation. It begins when the previous operations on the stream have ended, the waits are over and the host is
 * about to issue the operation; it ends with the operation. The interval of a communication operation therefore
 * includes waiting for peers.
 */
#ifndef BB_PROXIES_SIMULATION_SIMULATE_PREDICT_H
#define BB_PROXIES_SIMULATION_SIMULATE_PREDICT_H

#include "bootstrap/cli/progress.h"
#include "proxies/form/step/step.h"
#include "proxies/simulation/machine/cluster.h"
#include "proxies/simulation/simulate/bottleneck.h"
#include "proxies/simulation/timeline/overlap.h"
#include "proxies/simulation/timeline/timeline.h"

struct bb_predicted_group {
    int64_t busy_ns, exposed_ns;
    int64_t exposed_transfer_ns; /* exposed_ns without the waiting */
    int64_t waiting_ns;          /* time during which a call waits (timeline/waiting.h) */
    double bytes;     /* payload bytes of this rank's collectives and messages in the group (layout.h), for example in
                         group "tp" */
    int coll;         /* the kind of collective with the most time in the group; BB_NONE: there is none */
    int variant;      /* NCCL algorithm and protocol of the largest one: index in cluster.variants; BB_NONE: the cost
                         model has none */
    int nodes;        /* number of nodes of the largest one; 0: there is none */
    double bus_bytes; /* bus bandwidth x busy_ns. For collectives: payload x bus factor of nccl-tests; for sends and
                         receives: the larger of sent and received bytes */
};

/* The prediction for one rank. It applies to all ranks of the rank's class of equivalent ranks (rank_classes.h). */
struct bb_predicted_rank {
    int rank;
    struct bb_overlap all;
    struct bb_exposure exposed; /* all.exposed_ns (communication time during which no compute kernel runs), divided
                                   by cause */
    int64_t work_ns;            /* forward and backward kernels and exposed transfers (bb_intervals.work) */
    int64_t imbalance_ns;       /* part of exposed.bubble_ns (bb_stage_imbalance) */
    int64_t issue_ns;           /* host time to enqueue all operations of the step */
    struct bb_predicted_group groups[BB_MAX_GROUPS];
};

struct bb_prediction {
    struct bb_cluster cluster;
    struct bb_conditions conditions; /* injected slow GPUs, NICs and links; jitter is ignored */
    struct bb_predicted_rank *classes;
    int n_classes;
    int *class_of;            /* [ranks] index in `classes` of each rank's class of equivalent ranks */
    struct bb_timed_op **ops; /* [classes][operations of a rank of the class] begin, end and waiting time of each
                                 operation; NULL: not requested */
    int64_t step_ns;          /* step time: that of the class that ends last */
    int slowest;              /* index in `classes` of the class that explains the step time (bb_limiting_rank) */
    int longest; /* index in `classes` of the class that computes longest: `slowest` if it is one of several */
    struct bb_bottleneck bottleneck; /* breakdown of the slowest rank's step by bottleneck; zeroed if the cluster
                                        profile has no 'sharing' section */
    int64_t launch_wait_ns; /* time for which kernels wait for their launches on the rank that computes longest, which
                               limits the step; 0 without 'sharing' */
    /* A forecast of training without CUDA graphs (bb_cluster.eager); otherwise both are 0. graph_ns: step time with them, -1 if
     * not predicted; expert_ns: how much longer kernels of experts take without, on the rank that computes longest */
    int64_t graph_ns, expert_ns;
    double link_busy, nic_busy;   /* utilization of the NVLink and of the NIC that are busy longest among all ranks, as
                                     a fraction of the step time (0 to 1) */
    double nic_bytes;             /* bytes of data of a step through the NIC with most of them, in one direction */
    double uplink_busy[BB_TIERS]; /* utilization of the busiest leaf uplinks and of the busiest pod uplinks, as a
                                     fraction of the step time; 0 if they are not oversubscribed */
    /* Step time without communication, and step time without compute. Both are -1 unless the step contains both
     * compute and communication. */
    int64_t compute_alone_ns, comm_alone_ns;
    int64_t slowest_compute_alone_ns; /* as compute_alone_ns, of the rank of classes[slowest]; only with both */
    int64_t slow_cost_ns; /* step time minus the step time without conditions.slow; 0: conditions.slow is empty */
};

/* bb_predict - predicts the step on an unperturbed cluster, including the times of each operation. Returns 0;
 * -BB_EFAIL after printing an error if operations do not match or the step deadlocks (bb_step_check); -BB_EUSAGE after
 * printing an error if too many ranks have to be simulated separately (bb_sim_init). */
int bb_predict(const struct bb_step *step, const struct bb_cluster *cluster, struct bb_prediction *out) BB_MUST_CHECK;
/* bb_predict_step - equals bb_predict_under (below) without the times of each operation and without compute_alone_ns
 * and comm_alone_ns, which are set to -1. This halves the run time. */
int bb_predict_step(const struct bb_step *step, const struct bb_cluster *cluster,
                    const struct bb_conditions *conditions, struct bb_prediction *out) BB_MUST_CHECK;
/* bb_predict_graph - sets graph_ns and expert_ns of a prediction of the step; without jitter. Returns 0 or the error of the
 * simulation. */
int bb_predict_graph(const struct bb_step *step, struct bb_prediction *p) BB_MUST_CHECK;
/* bb_predict_step_ns - predicts only the step time of the slowest rank, in ns. conditions: slow GPUs, NICs and
 * links, and jitter with the random numbers of execution conditions->sample; NULL: none. Returns 0, -BB_EFAIL or
 * -BB_EUSAGE (see bb_predict). */
int bb_predict_step_ns(const struct bb_step *step, const struct bb_cluster *cluster,
                       const struct bb_conditions *conditions, int64_t *step_ns) BB_MUST_CHECK;
/*
 * bb_predict_under - predicts the step, including the times of each operation, with injected slow GPUs, NICs and links.
 *   conditions  perturbations; NULL: none
 *   Returns     0, -BB_EFAIL or -BB_EUSAGE (see bb_predict); -BB_EUSAGE after printing an error if a GPU, NIC or link
 *               in `conditions` does not exist on the cluster
 * bb_predict_validate_slow - only checks that each GPU, NIC and link in `slow` exists for a job of `ranks` ranks;
 * returns 0 or -BB_EUSAGE.
 */
int bb_predict_validate_slow(const struct bb_cluster *cluster, int ranks, const struct bb_slow *slow) BB_MUST_CHECK;
int bb_predict_under(const struct bb_step *step, const struct bb_cluster *cluster,
                     const struct bb_conditions *conditions, struct bb_prediction *out) BB_MUST_CHECK;
void bb_prediction_release(struct bb_prediction *p);

/* bb_predicted_timeline - stores the operation times of a predicted step (bb_predict_under) for the ranks that the
 * initialized timeline t selects. */
void bb_predicted_timeline(const struct bb_step *step, const struct bb_prediction *p, struct bb_timeline *t);

/* Predicted step times with jitter (random variation of kernel times). */
struct bb_jittered {
    double deviation;
    int seed, samples; /* samples: number of predicted step times, one per simulated execution with random kernel
                          times; 0: none */
    int64_t *step_ns;  /* [samples] in ascending order */
};
#define BB_JITTER_SAMPLES 100 /* default number of simulated executions */
/* bb_jitter_default_samples - returns the default number of samples of a step with `ops` operations, summed over all
 * ranks: BB_JITTER_SAMPLES, or fewer, at least 1, within the limit of bb_predict_validate_jitter. */
int bb_jitter_default_samples(double ops);
/* bb_predict_validate_jitter - checks that simulating `ops` operations (summed over all ranks) `samples` times does
 * not exceed the limits on run time and memory. replicas: number of data-parallel replicas, for the suggested number of
 * ranks. Returns 0, or -BB_EUSAGE after printing an error. */
int bb_predict_validate_jitter(int ranks, int replicas, double ops, int samples) BB_MUST_CHECK;
/* bb_predict_jitter - predicts the step time `samples` times with different random kernel times, simulating every
 * rank separately. Requires that an earlier prediction of the step has succeeded, so that the step is free of
 * deadlock. progress: advanced by 1 per sample; NULL: none. Returns 0, or -BB_EUSAGE if bb_predict_validate_jitter rejects the number of operations. */
int bb_predict_jitter(const struct bb_step *step, const struct bb_cluster *cluster,
                      const struct bb_conditions *conditions, int samples, struct bb_progress *progress,
                      struct bb_jittered *out) BB_MUST_CHECK;
void bb_jittered_release(struct bb_jittered *j);
/* bb_jittered_at - returns the percentile `percent` (0 to 100) of the step times, in ns. NaN: there are fewer than 20 samples,
 * whose percentiles 5 and 95 are the extremes. */
double bb_jittered_at(const struct bb_jittered *j, int percent);

/* bb_predicted_efficiency - returns the overlap efficiency (bb_overlap_efficiency, overlap.h) of the slowest rank.
 * Returns NaN if p->compute_alone_ns is -1, for example for a step with only compute or only communication. */
double bb_predicted_efficiency(const struct bb_prediction *p);

/*
 * bb_predicted_utilisation - returns the model FLOPs utilization (MFU) of a predicted step: FLOPs of the step / (peak
 * FLOP/s of all GPUs x step time); NaN for a step without kernel lists (GEMMs and memory-bound kernels). The peak is that of
 * the GEMMs with the fewest bits. Attention counts in full (bb_step_flops).
 */
double bb_predicted_utilisation(const struct bb_step *step, const struct bb_prediction *p);

/* bb_predicted_slowest - returns the prediction of the class of equivalent ranks that contains the limiting one
 * (bb_limiting_rank) of ranks[0 .. n). */
const struct bb_predicted_rank *bb_predicted_slowest(const struct bb_prediction *p, const int *ranks, int n);

#endif
