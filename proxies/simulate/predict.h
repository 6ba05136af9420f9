/*
 * predict.h - predicts the time of a step on a cluster, and the part of its communication that compute hides.
 *
 * The model of one step: at time 0 the host clocks of all ranks and all their streams are at 0, and no operation is in
 * progress. The host issues the program in order. Each compute kernel takes launch_us of host time, each single NCCL
 * call and each group call nccl_launch_us; waits and event records take none, and a compute operation of 0 us is not
 * launched. An operation starts on the GPU when it has been issued, the previous operations on its streams have ended,
 * and everything for which it waits has ended. Its duration follows the cost model of profiles/clusters/README.md. The
 * step of a rank ends when all its operations have ended and the host has issued everything; the step time is that of
 * the slowest rank. A run on emulated GPUs with the same profile gives the same numbers, if the profile has no
 * 'achieved' section.
 *
 * An interval (overlap.h) is what events around the operation would show: it begins when the previous operations on the
 * stream have ended, the waits are over and the host is about to issue the operation; it ends with the operation.
 * Communication therefore includes waiting for peers.
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
    double bytes;     /* payload of its operations */
    int variant;      /* NCCL variant of its largest collective, index in cluster.variants; BB_NONE: no choice */
    double bus_bytes; /* payload x bus factor; messages: maximum of sent and received. bus_bytes / busy_ns is the bus
                         bandwidth. */
};

/* One rank, representing its class. */
struct bb_predicted_rank {
    int rank;
    struct bb_overlap all;
    struct bb_exposure exposed; /* all.exposed_ns by cause */
    int64_t issue_ns;           /* host time to issue the step */
    struct bb_predicted_group groups[BB_MAX_GROUPS];
};

struct bb_prediction {
    struct bb_cluster cluster;
    struct bb_conditions conditions; /* slow parts; jitter is only in samples */
    struct bb_predicted_rank *classes;
    int n_classes;
    int *class_of;                   /* [ranks] */
    struct bb_timed_op **ops;        /* [classes][operations of the rank]; NULL: not kept */
    int slowest;                     /* class of the slowest rank; of several the lowest */
    struct bb_bottleneck bottleneck; /* slowest rank; zeroed if the cluster profile has no 'sharing' */
    double link_busy, nic_busy;      /* busiest NVLink and busiest NIC over all ranks: busy fraction of the step */
    double uplink_busy[BB_TIERS];    /* the same for uplinks of leaves and pods; 0 where they are not oversubscribed */
    /* Step with compute alone, and with communication alone; -1 if the step lacks either of them. */
    int64_t compute_alone_ns, comm_alone_ns;
};

/* bb_predict - predicts without perturbations and keeps the times of each operation. -BB_EFAIL, after printing an
 * error, for a step that does not match or deadlocks (bb_step_check). */
int bb_predict(const struct bb_step *step, const struct bb_cluster *cluster, struct bb_prediction *out) BB_MUST_CHECK;
/* bb_predict_step - as bb_predict_under, in half of the time: without the alone times (both -1) and without the
 * times of each operation. */
int bb_predict_step(const struct bb_step *step, const struct bb_cluster *cluster,
                    const struct bb_conditions *conditions, struct bb_prediction *out) BB_MUST_CHECK;
/* bb_predict_step_ns - predicts only the step time. */
int bb_predict_step_ns(const struct bb_step *step, const struct bb_cluster *cluster,
                       const struct bb_conditions *conditions, int64_t *step_ns) BB_MUST_CHECK;
/*
 * bb_predict_under - as bb_predict, with slow parts. conditions: NULL for none. -BB_EUSAGE, after printing an error,
 * for slow parts that the machine does not have.
 * bb_predict_validate_slow - only this check, for a job of that many ranks.
 */
int bb_predict_validate_slow(const struct bb_cluster *cluster, int ranks, const struct bb_slow *slow) BB_MUST_CHECK;
int bb_predict_under(const struct bb_step *step, const struct bb_cluster *cluster,
                     const struct bb_conditions *conditions, struct bb_prediction *out) BB_MUST_CHECK;
void bb_prediction_release(struct bb_prediction *p);

/* bb_predict_timeline - sets the predicted times of the ranks in t, which is initialised. conditions: NULL for none.
 * -BB_EFAIL as above. */
int bb_predict_timeline(const struct bb_step *step, const struct bb_cluster *cluster,
                        const struct bb_conditions *conditions, struct bb_timeline *t) BB_MUST_CHECK;
/* bb_predicted_timeline - the same for a step that has been predicted: copies the times if p kept them. */
int bb_predicted_timeline(const struct bb_step *step, const struct bb_prediction *p,
                          struct bb_timeline *t) BB_MUST_CHECK;

/* Step times with jitter, ascending. */
struct bb_jittered {
    double deviation;
    int seed, samples; /* 0: no samples */
    int64_t *step_ns;  /* [samples] */
};
/* bb_predict_validate_jitter - -BB_EUSAGE, after printing an error, if `ops` operations over all ranks are too many
 * for that many samples. */
int bb_predict_validate_jitter(int ranks, double ops, int samples) BB_MUST_CHECK;
/* bb_predict_jitter - predicts the step in each sample, with each rank executed on its own. The step must have been
 * predicted before, so that it is known to end. Errors as bb_predict_validate_jitter. */
int bb_predict_jitter(const struct bb_step *step, const struct bb_cluster *cluster,
                      const struct bb_conditions *conditions, int samples, struct bb_jittered *out) BB_MUST_CHECK;
void bb_jittered_release(struct bb_jittered *j);
/* bb_jittered_at - percentile of the step times. */
int64_t bb_jittered_at(const struct bb_jittered *j, int percent);

/* bb_predicted_efficiency - bb_overlap_efficiency of the slowest rank; NaN for a step with only compute or only
 * communication. */
double bb_predicted_efficiency(const struct bb_prediction *p);

/* bb_predicted_slowest - the class with the longest step among ranks[n]. */
const struct bb_predicted_rank *bb_predicted_slowest(const struct bb_prediction *p, const int *ranks, int n);

#endif
