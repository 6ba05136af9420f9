/*
 * predict.h - how long a step would take on a cluster, and how much of its communication would be hidden.
 *
 * What is predicted: one step. At time 0 every rank's host clock and all its streams stand at 0 and nothing is in
 * flight. The host issues the program in order; each compute kernel costs it launch_us, each NCCL call that stands
 * alone and each group call nccl_launch_us; waits and event records cost nothing, and a compute of 0 us is not
 * launched. An operation starts on the GPU when it has been issued, its streams have come to it and all that it waits
 * for has ended; how long it takes is the cost model of profiles/clusters/README.md. The step of a rank ends when all
 * its operations have ended and the host has issued everything; the step is as long as that of its slowest rank. A run
 * on emulated GPUs with the same profile gives the same numbers, where the profile has no achieved figures.
 *
 * Intervals (overlap.h) are as events show them: from when the stream has come to the operation and its waits are over
 * and the host is about to issue it, to its end. Communication therefore includes waiting for peers.
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
    double bytes;     /* payload of its operations                                                          */
    int variant;          /* NCCL's way for its largest collective, of cluster.ways; BB_NONE: there is no choice */
    double bus_bytes; /* payload x bus factor; of messages the larger of sent and received: / busy_ns = busbw */
};

/* One rank, standing for all of its class. */
struct bb_predicted_rank {
    int rank;
    struct bb_overlap all;
    struct bb_exposure exposed; /* all.exposed_ns by cause */
    int64_t issue_ns;           /* host */
    struct bb_predicted_group groups[BB_MAX_GROUPS];
};

struct bb_prediction {
    struct bb_cluster cluster;
    struct bb_conditions conditions; /* its slow parts; jitter is of samples alone */
    struct bb_predicted_rank *classes;
    int n_classes;
    int *class_of;                   /* [ranks]                                              */
    struct bb_timed_op **ops;        /* [classes][operations of its rank], NULL: not kept    */
    int slowest;                     /* class of the slowest rank, the lowest of several     */
    struct bb_bottleneck bottleneck; /* of the slowest rank; all zero where the cluster shares nothing              */
    double link_busy, nic_busy;      /* part of the step, of the busiest link within a node and NIC of all ranks    */
    double uplink_busy[BB_TIERS];    /* the same, of a leaf's and a pod's uplinks that can be scarce                */
    /* The same step with compute alone and with communication alone; -1 where the step has only one of them. */
    int64_t compute_alone_ns, comm_alone_ns;
};

/* bb_predict - keeps the times of each operation. -BB_EFAIL, said, for a step that does not pass bb_step_check. */
int bb_predict(const struct bb_step *step, const struct bb_cluster *cluster, struct bb_prediction *out) BB_MUST_CHECK;
/* bb_predict_step - bb_predict_under without the step's halves alone (both -1), in half of the time, and without the
 * times of each operation. */
int bb_predict_step(const struct bb_step *step, const struct bb_cluster *cluster,
                    const struct bb_conditions *conditions, struct bb_prediction *out) BB_MUST_CHECK;
/* bb_predict_step_ns - only how long it is. */
int bb_predict_step_ns(const struct bb_step *step, const struct bb_cluster *cluster,
                       const struct bb_conditions *conditions, int64_t *step_ns) BB_MUST_CHECK;
/* bb_predict_under - bb_predict on a machine that is not even: its slow parts; NULL: even. -BB_EUSAGE, said, for slow
 * parts that it does not have. bb_predict_validate_slow: only that, of so many ranks. */
int bb_predict_validate_slow(const struct bb_cluster *cluster, int ranks, const struct bb_slow *slow) BB_MUST_CHECK;
int bb_predict_under(const struct bb_step *step, const struct bb_cluster *cluster,
                     const struct bb_conditions *conditions, struct bb_prediction *out) BB_MUST_CHECK;
void bb_prediction_release(struct bb_prediction *p);

/* bb_predict_timeline - the predicted times of the ranks that an initialised timeline shows. conditions: NULL for an
 * even machine. -BB_EFAIL as above. */
int bb_predict_timeline(const struct bb_step *step, const struct bb_cluster *cluster,
                        const struct bb_conditions *conditions, struct bb_timeline *t) BB_MUST_CHECK;
/* bb_predicted_timeline - the same of a step that has been predicted: where the times were kept, from these. */
int bb_predicted_timeline(const struct bb_step *step, const struct bb_prediction *p,
                          struct bb_timeline *t) BB_MUST_CHECK;

/* Steps with jitter, from the quickest to the slowest. */
struct bb_jittered {
    double deviation;
    int seed, samples; /* samples 0: none */
    int64_t *step_ns;  /* [samples] */
};
/* bb_predict_validate_jitter - what is too much: so many operations on all ranks together, so many times. */
int bb_predict_validate_jitter(int ranks, double ops, int samples) BB_MUST_CHECK;
/* bb_predict_jitter - of each sample the step, every rank for itself; the step has been predicted before. -BB_EUSAGE,
 * said, where that is too much. */
int bb_predict_jitter(const struct bb_step *step, const struct bb_cluster *cluster,
                      const struct bb_conditions *conditions, int samples, struct bb_jittered *out) BB_MUST_CHECK;
void bb_jittered_release(struct bb_jittered *j);
/* bb_jittered_at - the step that so many in a hundred are not longer than. */
int64_t bb_jittered_at(const struct bb_jittered *j, int percent);

/* bb_predicted_efficiency - bb_overlap_efficiency of the slowest rank; NaN for a step of one kind of operations. */
double bb_predicted_efficiency(const struct bb_prediction *p);

/* bb_predicted_slowest - the class with the longest step among ranks[n]. */
const struct bb_predicted_rank *bb_predicted_slowest(const struct bb_prediction *p, const int *ranks, int n);

#endif
