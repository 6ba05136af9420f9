/*
 * layouts.h - `plan --best-layout`: searches all layouts of a transformer's training on the given ranks for the fastest
 * ones that fit into GPU memory.
 *
 * Values given by the user are fixed; the others are searched: tp (up to the GPUs of a node), cp (at least 2048 tokens
 * per rank), ep, pp, chunks and schedule (1f1b, interleaved, zb-h1), the micro-batch size (1, 2, 4, 8), recomputation,
 * and dp-sync (all_reduce, zero1, zero2, zero3, distributed). dp and the number of micro-batches follow from the ranks
 * and the batch; sequence parallelism is on if tp > 1. Of recomputation (none, selective, full with as few layers per
 * chunk as needed) only the least that fits is evaluated: more recomputation is more work and never faster.
 *
 * The search has three stages. The time of each layout that fits is first estimated from simulated steps with one and
 * two micro-batches. The best of these are estimated again from two longer steps, since each further micro-batch of a
 * full pipeline takes the same time. The best of those are simulated in full. Layouts are pruned by lower bounds
 * (search.c). Which layouts reach the next stage depends only on their times, so the result does not depend on the
 * number of threads.
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

/* Why a layout is rejected. X(reason, JSON key, text) */
#define BB_REJECTION_LIST(X)                                                                                           \
    X(SHAPE, "shape", "the model or the ranks are not divisible by the layout")                                        \
    X(BATCH, "batch", "the batch is not divisible by dp x micro-batch size, or too small for the schedule")            \
    X(MEMORY, "memory", "training does not fit into the memory of a GPU")                                              \
    X(RECOMPUTE, "recompute", "more recomputation than needed")                                                        \
    X(SIZE, "size", "too many operations to simulate")                                                                 \
    X(SLOWER, "slower", "slower, by estimate")
#define BB_REJECTION_NAME(reason, key, text) BB_REJECTED_##reason,
enum bb_rejection { BB_REJECTION_LIST(BB_REJECTION_NAME) BB_REJECTION_REASONS };

/* A layout */
struct bb_layout_choice {
    int tp, cp, ep, pp, dp, vpp, batch, micro_batches;
    enum bb_schedule_kind schedule;
    enum bb_recompute recompute;
    int recompute_layers; /* recomputed layers of each chunk, with full; 0: all */
    enum bb_sync_kind sync;
};

struct bb_layout_row {
    struct bb_layout_choice choice;
    double bytes;          /* memory of training on the rank that needs most */
    double step_ns;        /* estimated, later simulated */
    double p50_ns, p95_ns; /* percentiles of its steps with jitter; 0: not sampled */
    double baseline_ns;    /* simulated without slow parts; 0: there are none */
    int number;            /* index in the list of all layouts; ranks layouts of equal time */
    /* Of the slowest rank, once simulated in full: these parts and idle time add up to the step. */
    double operations; /* over all ranks */
    double compute_ns, transfer_ns, bubble_ns, waiting_ns, flops, tokens, samples;
};

struct bb_layout_search {
    const struct bb_proxy *proxy;
    const struct bb_proxy_config *given;  /* as given; 0: to be searched */
    const struct bb_proxy_config *config; /* with defaults, a global batch and gpus_per_node */
    const struct bb_cluster *cluster;
    const struct bb_conditions *conditions; /* slow parts */
    double gpu_bytes;                       /* memory of one GPU */
    int samples;                            /* number of samples of bb_layouts_sample */
    int top, threads;                       /* top: rows wanted; threads 0: one per processor */
    bool quiet;
};

struct bb_layouts {
    struct bb_layout_row *rows; /* layouts simulated in full, the fastest first */
    int n;
    long long evaluated, fitting; /* numbers of layouts: all; those that fit into memory */
    int refined;                  /* number that were simulated briefly (second stage) */
    long long rejected[BB_REJECTION_REASONS];
    int gpus;
    double gpu_bytes;
};

/*
 * bb_layouts_search - runs the search.
 *   Returns  0; -BB_EUSAGE, after printing an error with the smallest memory need, if no layout fits; -BB_EFAIL
 *   Owner    the caller releases found with bb_layouts_release, which also accepts a zeroed one
 */
int bb_layouts_search(const struct bb_layout_search *search, struct bb_layouts *found) BB_MUST_CHECK;
/* bb_layouts_sample - simulates the first `top` layouts with the jitter of conditions, with all their ranks, and
 * sorts them by their median. -BB_EUSAGE, after printing an error, if the samples are too many. */
int bb_layouts_sample(const struct bb_layout_search *search, const struct bb_conditions *conditions,
                      struct bb_layouts *found) BB_MUST_CHECK;
void bb_layouts_release(struct bb_layouts *found);

/* bb_layouts_config - returns config with the layout's options; its texts are borrowed from both. */
struct bb_proxy_config bb_layouts_config(const struct bb_proxy_config *config, const struct bb_layout_choice *choice);

void bb_layouts_print(const struct bb_layouts *found, int top, FILE *out);
json_t *bb_layouts_json(const struct bb_layouts *found, int top); /* NULL: out of memory */

#endif
