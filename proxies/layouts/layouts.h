/*
 * layouts.h - `plan --best-layout`: of all ways to lay a transformer's training over the ranks those that fit in a
 * GPU's memory and take the least time.
 *
 * What the user gives stays; what is left open is searched: tp (to the GPUs of a node), cp (to 2048 tokens a rank), ep,
 * pp, chunks and schedule (1f1b, interleaved, zb-h1), the micro-batch (1, 2, 4, 8), recompute, dp-sync (all_reduce,
 * zero1, zero2, zero3, distributed). dp and the micro-batches follow from the ranks and the batch; sequence parallelism
 * goes with tp. Of recompute only the least that fits is looked at (none, selective, the fewest layers of each chunk
 * that it takes): more does more work and is never quicker.
 *
 * The time of a layout that fits is estimated from steps of one and two micro-batches; the best of these from two longer
 * ones, since a pipeline that is full takes as long for each further micro-batch; the best of those are built and
 * predicted in full. No step is shorter than the kernels of all its micro-batches on the rank that has most of them: a
 * layout for which that alone is longer than the best take is left out without more. Which layouts go on depends on
 * their times alone, so the answer is the same on any number of threads.
 */
#ifndef BB_PROXIES_LAYOUTS_LAYOUTS_H
#define BB_PROXIES_LAYOUTS_LAYOUTS_H

#include "proxies/author/proxy.h"
#include "proxies/simulate/conditions.h"
#include "proxies/sync/sync.h"
#include "proxies/transformer/arch/arch.h"
#include "proxies/transformer/layer/layer.h"
#include "proxies/transformer/schedule.h"

#include <jansson.h>
#include <stdio.h>

/* Why a layout is left out. X(reason, its key in JSON, text) */
#define BB_REJECTION_LIST(X)                                                                                           \
    X(SHAPE, "shape", "the model or the ranks do not divide so")                                                       \
    X(BATCH, "batch", "the batch does not divide by replicas and micro-batch, or is too short for the schedule")       \
    X(MEMORY, "memory", "training would not hold in the memory of a GPU")                                              \
    X(RECOMPUTE, "recompute", "it fits with less recomputation")                                                       \
    X(SIZE, "size", "too many operations to be built")                                                                 \
    X(SLOWER, "slower", "slower, by an estimate")
#define BB_REJECTION_NAME(reason, key, text) BB_REJECTED_##reason,
enum bb_rejection { BB_REJECTION_LIST(BB_REJECTION_NAME) BB_REJECTION_REASONS };

/* One way to lay it out. */
struct bb_layout_choice {
    int tp, cp, ep, pp, dp, vpp, batch, micro_batches;
    enum bb_schedule_kind schedule;
    enum bb_recompute recompute;
    int recompute_layers; /* of each chunk, with full; 0: all */
    enum bb_sync_kind sync;
};

struct bb_layout_row {
    struct bb_layout_choice choice;
    double bytes;          /* that training holds on the rank with most        */
    double step_ns;        /* estimated, then predicted                        */
    double p50_ns, p95_ns; /* of its steps with jitter; 0: was not asked for */
    double baseline_ns;    /* predicted for a machine without slow parts; 0: it has none */
    int number;            /* its place in the order in which they were listed */
    /* Of the slowest rank, when predicted: these and the rest (idle) make the step. */
    double operations; /* of all ranks */
    double compute_ns, transfer_ns, bubble_ns, waiting_ns, flops, tokens, samples;
};

struct bb_layout_search {
    const struct bb_proxy *proxy;
    const struct bb_proxy_config *asked;  /* as it was given: what is 0 is searched              */
    const struct bb_proxy_config *config; /* with its defaults, a global batch and gpus_per_node */
    const struct bb_cluster *cluster;
    const struct bb_conditions *conditions; /* its slow parts */
    double gpu_bytes;                       /* memory of a GPU */
    int samples;                            /* of bb_layouts_sample */
    int top, threads;                       /* rows wanted; threads 0: as many as there are processors */
    bool quiet;
};

struct bb_layouts {
    struct bb_layout_row *rows; /* the quickest first; all that were predicted */
    int n;
    long long evaluated, fitting; /* layouts; those that fit          */
    int refined;                  /* looked at by longer steps        */
    long long rejected[BB_REJECTION_REASONS];
    int gpus;
    double gpu_bytes;
};

/* bb_layouts_search - 0, -BB_EUSAGE where no layout fits (said, with the nearest to fit), or -BB_EFAIL. release is fine
 * on a zeroed one. */
int bb_layouts_search(const struct bb_layout_search *search, struct bb_layouts *found) BB_MUST_CHECK;
/* bb_layouts_sample - executes the `top` first of them with the jitter of conditions, all ranks of each, and sorts these
 * by their median. -BB_EUSAGE, said, where that is too much. */
int bb_layouts_sample(const struct bb_layout_search *search, const struct bb_conditions *conditions,
                      struct bb_layouts *found) BB_MUST_CHECK;
void bb_layouts_release(struct bb_layouts *found);

/* bb_layouts_config - config with that choice made; it borrows the texts of both. */
struct bb_proxy_config bb_layouts_config(const struct bb_proxy_config *config, const struct bb_layout_choice *choice);

void bb_layouts_print(const struct bb_layouts *found, int top, FILE *out);
json_t *bb_layouts_json(const struct bb_layouts *found, int top); /* NULL without memory */

#endif
