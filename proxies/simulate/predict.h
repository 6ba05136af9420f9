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
#ifndef BB_PROXIES_SIMULATE_PREDICT_H
#define BB_PROXIES_SIMULATE_PREDICT_H

#include "proxies/machine/cluster.h"
#include "proxies/simulate/bottleneck.h"
#include "proxies/step/step.h"
#include "proxies/timeline/overlap.h"
#include "proxies/timeline/timeline.h"

struct bb_predicted_group {
    int64_t busy_ns, exposed_ns;
    double bytes;     /* payload bytes of this rank's operations on the communicators of the group (layout.h), for
                         example of group "tp" */
    int variant;      /* NCCL variant (algorithm and protocol) of the group's largest collective, index in
                         cluster.variants; BB_NONE: no variant */
    double bus_bytes; /* numerator of the bus bandwidth, which is bus_bytes / busy_ns. For collectives: payload x bus
                         factor; for messages: the larger of sent and received bytes. */
};

/* The prediction for one rank. It applies to all ranks of the rank's class (rank_classes.h: ranks that behave
 * identically). */
struct bb_predicted_rank {
    int rank;
    struct bb_overlap all;
    struct bb_exposure exposed; /* all.exposed_ns (communication time without concurrent compute), split by cause */
    int64_t issue_ns;           /* host time to issue the step */
    struct bb_predicted_group groups[BB_MAX_GROUPS];
};

struct bb_prediction {
    struct bb_cluster cluster;
    struct bb_conditions conditions; /* injected slow GPUs, NICs and links; jitter is ignored */
    struct bb_predicted_rank *classes;
    int n_classes;
    int *class_of;            /* [ranks] index in `classes` of each rank's class */
    struct bb_timed_op **ops; /* [classes][operations of the class's rank] begin, end and waiting time of each
                                 operation; NULL: not requested */
    int slowest; /* index in `classes` of the slowest class; if several classes are equally slow, the lowest index */
    struct bb_bottleneck bottleneck; /* breakdown of the slowest rank's step by bottleneck; zeroed if the cluster
                                        profile has no 'sharing' section */
    double link_busy, nic_busy;      /* utilization of the busiest NVLink and of the busiest NIC of all ranks: the
                                        fraction of the step for which it is busy */
    double uplink_busy[BB_TIERS];    /* utilization of the busiest leaf uplinks and pod uplinks; 0 if they are not
                                        oversubscribed */
    /* Step time with only the compute operations, and with only the communication operations. Both are -1 if the
     * step does not contain both kinds of operations. */
    int64_t compute_alone_ns, comm_alone_ns;
};

/* bb_predict - predicts the step without perturbations, including the times of each operation. Returns 0, or
 * -BB_EFAIL after printing an error, for example if operations do not match or the step deadlocks (bb_step_check). */
int bb_predict(const struct bb_step *step, const struct bb_cluster *cluster, struct bb_prediction *out) BB_MUST_CHECK;
/* bb_predict_step - predicts the step like bb_predict_under, but computes neither compute_alone_ns and comm_alone_ns
 * (both -1) nor the times of each operation. This halves the run time. */
int bb_predict_step(const struct bb_step *step, const struct bb_cluster *cluster,
                    const struct bb_conditions *conditions, struct bb_prediction *out) BB_MUST_CHECK;
/* bb_predict_step_ns - predicts only the step time of the slowest rank, in ns. conditions: perturbations, including
 * the jitter of sample conditions->sample; NULL: none. Returns 0, or -BB_EFAIL after printing an error. */
int bb_predict_step_ns(const struct bb_step *step, const struct bb_cluster *cluster,
                       const struct bb_conditions *conditions, int64_t *step_ns) BB_MUST_CHECK;
/*
 * bb_predict_under - predicts the step like bb_predict, with injected slow GPUs, NICs and links.
 *   conditions  NULL: none
 *   Returns     like bb_predict, and -BB_EUSAGE, after printing an error, if a GPU, NIC or link in conditions does not
 *               exist on the cluster
 * bb_predict_validate_slow - performs only the check of `slow` for a job of `ranks` ranks; returns 0 or -BB_EUSAGE.
 */
int bb_predict_validate_slow(const struct bb_cluster *cluster, int ranks, const struct bb_slow *slow) BB_MUST_CHECK;
int bb_predict_under(const struct bb_step *step, const struct bb_cluster *cluster,
                     const struct bb_conditions *conditions, struct bb_prediction *out) BB_MUST_CHECK;
void bb_prediction_release(struct bb_prediction *p);

/* bb_predict_timeline - predicts the step and stores the times of the ranks selected in t, which must be
 * initialized. conditions: NULL for none. Returns 0, or -BB_EFAIL after printing an error. */
int bb_predict_timeline(const struct bb_step *step, const struct bb_cluster *cluster,
                        const struct bb_conditions *conditions, struct bb_timeline *t) BB_MUST_CHECK;
/* bb_predicted_timeline - stores the times of a predicted step in t. Copies the times of operations from p if p
 * contains them; otherwise predicts the step again. */
int bb_predicted_timeline(const struct bb_step *step, const struct bb_prediction *p,
                          struct bb_timeline *t) BB_MUST_CHECK;

/* Predicted step times with jitter (random variation of kernel times). */
struct bb_jittered {
    double deviation;
    int seed, samples; /* samples: number of predicted step times; 0: none */
    int64_t *step_ns;  /* [samples] in ascending order */
};
/* bb_predict_validate_jitter - checks that `ops` operations, summed over all ranks, are not too many for this number
 * of samples. Returns 0, or -BB_EUSAGE after printing an error. */
int bb_predict_validate_jitter(int ranks, double ops, int samples) BB_MUST_CHECK;
/* bb_predict_jitter - predicts the step time in each sample, executing every rank separately. The step must be free
 * of deadlock, that is, an earlier prediction of the step has succeeded. Returns -BB_EUSAGE like
 * bb_predict_validate_jitter. */
int bb_predict_jitter(const struct bb_step *step, const struct bb_cluster *cluster,
                      const struct bb_conditions *conditions, int samples, struct bb_jittered *out) BB_MUST_CHECK;
void bb_jittered_release(struct bb_jittered *j);
/* bb_jittered_at - returns the percentile `percent` (0 to 100) of the step times. */
int64_t bb_jittered_at(const struct bb_jittered *j, int percent);

/* bb_predicted_efficiency - returns bb_overlap_efficiency (overlap.h) of the slowest rank. Returns NaN if
 * p->compute_alone_ns is -1, for example for a step with only compute or only communication. */
double bb_predicted_efficiency(const struct bb_prediction *p);

/* bb_predicted_slowest - returns the prediction for the class of the slowest of the ranks ranks[0 .. n). */
const struct bb_predicted_rank *bb_predicted_slowest(const struct bb_prediction *p, const int *ranks, int n);

#endif
