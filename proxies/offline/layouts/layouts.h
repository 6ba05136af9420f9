/*
 * layouts.h - `plan --best-layout`: searches the layouts of transformer training on a given number of ranks for the
 * fastest layouts that fit into GPU memory.
 *
 * Options set by the user are fixed. The search varies the others: tp (up to the GPUs of a node), cp (with at least
 * 4096 tokens per rank, as all published steps have), ep, pp, model chunks per stage and schedule (1f1b, interleaved,
 * zb-h1), the micro-batch size (1, 2, 4, 8), recomputation, and dp-sync (all_reduce, zero1, zero2, zero3, distributed;
 * zero2 only without a pipeline, as DeepSpeed; a given kind that shards only with replicas to shard over, unless the other
 * given options leave none). dp and the number of micro-batches follow from the number of ranks and
 * the global batch size; sequence parallelism is on if tp > 1, and
 * overlap-param-gather with distributed. If the recipes of the software have tp-comm-overlap, so have layouts with tp > 1, but
 * for the best layouts whose steps are longer with it. If pp does not divide the layers, the first and the last stage have fewer or more
 * layers, or the stages are those of a pipeline layout (bb_layout_divide), with at most 4 chunks unless vpp is given.
 * Layouts with equal tp, cp, ep, pp and dp are one grid, of which only the fastest is reported.
 * Recomputation is none, or the recomputation with which a layout fits that adds the shortest kernels: a set of modules
 * (with the software of PyTorch: single operations), or full with as few layers per chunk as needed (recompute.h). More recomputation is never faster.
 * If few layouts fit, those with distributed that do not fit without recomputation get the precision-aware optimizer.
 *
 * The search has three stages. First, the step time of each layout that fits is estimated from simulated steps with few
 * micro-batches. Second, the layouts with the lowest estimates are simulated with more micro-batches, and the step time
 * is extrapolated, because each additional micro-batch of a full pipeline takes the same time. Third, the best layout
 * of each of the best grids is simulated in full, or extrapolated in the same way if a step has very many operations. Lower bounds prune the search (search.c). Only the estimated times
 * determine which layouts reach the next stage, so the result does not depend on the number of threads.
 *
 * Layouts are compared by the step time with a penalty: how much longer published steps of such layouts took than
 * predicted, or the error of the others if there are none (penalty.h).
 */
#ifndef BB_PROXIES_OFFLINE_LAYOUTS_LAYOUTS_H
#define BB_PROXIES_OFFLINE_LAYOUTS_LAYOUTS_H

#include "proxies/form/author/proxy.h"
#include "proxies/offline/plan/forecast.h"
#include "proxies/simulation/simulate/matching/conditions.h"
#include "proxies/workloads/sync/sync.h"
#include "proxies/workloads/transformer/arch/arch.h"
#include "proxies/workloads/transformer/grid/pipe_layout.h"
#include "proxies/workloads/transformer/layer/layer.h"
#include "proxies/workloads/transformer/schedule.h"

#include <jansson.h>
#include <stdio.h>

/* Reasons to reject a layout: X(constant of the enum, JSON key, text for the user). */
#define BB_REJECTION_LIST(X)                                                                                           \
    X(SHAPE, "shape", "the parallel sizes do not divide the model or the number of ranks")                             \
    X(BATCH, "batch", "the global batch is not divisible by dp x micro-batch size, or too small for the schedule")     \
    X(MEMORY, "memory", "training does not fit into the memory of a GPU")                                              \
    X(RECOMPUTE, "recompute", "recompute more than another layout that fits")                                          \
    X(SIZE, "size", "too many operations to simulate")                                                                 \
    X(SLOWER, "slower", "estimated to be slower than the layouts above")
#define BB_REJECTION_NAME(reason, key, text) BB_REJECTED_##reason,
enum bb_rejection { BB_REJECTION_LIST(BB_REJECTION_NAME) BB_REJECTION_REASONS };

/* One layout. tp, cp, ep, pp, dp: sizes of tensor, context, expert, pipeline and data parallelism; vpp: model chunks
 * per pipeline stage (virtual pipeline); batch: micro-batch size in samples. */
struct bb_layout_choice {
    int tp, cp, ep, pp, dp, vpp, batch, micro_batches;
    enum bb_schedule_kind schedule;
    /* uneven stages (bb_layout_divide): layers of the first and of the last stage, or --pipeline-layout; 0 or empty: as given.
     * The rest of the array is zeros. */
    int first_layers, last_layers;
    char pipeline_layout[BB_PIPE_LAYOUT_TEXT];
    char modules[BB_MODULES_TEXT]; /* value of --recompute-modules; empty: as given. The rest of the array is zeros. */
    enum bb_recompute recompute;
    int recompute_layers; /* full recomputation: number of layers of each model chunk that are recomputed in the
                             backward pass; 0: all */
    enum bb_sync_kind sync;
    int tp_overlap; /* 1: chosen by the search: collectives of tensor parallelism overlap the GEMMs (--tp-comm-overlap) */
    int precision_aware; /* 1: chosen by the search: the optimizer with states of lower precision, which takes no time */
};

struct bb_layout_row {
    struct bb_layout_choice choice;
    double bytes;          /* bytes of GPU memory that training needs, on the rank with the largest need */
    double penalty;        /* time added to step_ns, relative to it, to compare layouts (penalty.h) */
    double step_ns;        /* time of one training step in ns; the first two search stages store an estimate, the third
                       stage the time of a full simulation */
    double p50_ns, p95_ns; /* median and 95th percentile of the training step's time in ns over several simulations
                              with random jitter; 0: not simulated with jitter */
    double baseline_ns;    /* time in ns of the training step simulated without the injected slow GPUs, NICs and links;
                           0: none were injected */
    int number;         /* index in the list of all valid layouts; layouts with equal times are sorted by this index */
    int grid, variants; /* index of the layout's grid; number of layouts of this grid that fit */
    int base;           /* index of the layout from which its time is estimated (search.c) */
    /* Set by the third stage of the search. compute_ns, transfer_ns, bubble_ns and waiting_ns are times of the
     * slowest rank, `rank`; together with the idle time of this rank they add up to the step time. */
    double operations; /* number of operations (kernels, NCCL calls, ...) in one training step, summed over all ranks */
    int rank;
    double compute_ns, transfer_ns, bubble_ns, waiting_ns, flops, tokens, samples;
    double launch_wait_ns; /* part of compute_ns in which kernels wait for the host to launch them */
    bool tp_comm_overlap, overlap_param_gather, precision_aware;
    bool extrapolated;                /* these values are extrapolated from steps of fewer micro-batches */
    double utilisation, causal_share; /* bb_predicted_utilisation, bb_step_causal_share */
    const char *flops_note;           /* bb_step_flops_note */
};

struct bb_layout_search {
    const struct bb_proxy *proxy;
    const struct bb_proxy_config *given;    /* options set by the user; 0 or NULL: not set, so the search tries all
                                            values */
    const struct bb_proxy_config *config;   /* `given` completed with defaults, global batch size and gpus_per_node */
    const struct bb_cluster *cluster;       /* with the rates of the software of all layouts */
    const char *free_software;              /* default without --dp-sync; NULL: that of config */
    const struct bb_conditions *conditions; /* injected slow GPUs, NICs and links */
    double gpu_bytes, usable_bytes;         /* memory of one GPU in bytes; the part of it that training may use */
    int samples;      /* number of simulations with random jitter per layout in bb_layouts_sample */
    bool overlaps_tp; /* layouts with tp > 1 have --tp-comm-overlap, except where it makes a step longer */
    bool penalizes;   /* layouts are compared with penalties (penalty.h), as those of Megatron-LM */
    int top, threads; /* top: number of layouts to report; threads: number of threads, 0 for one per processor */
    bool quiet;
    enum {
        BB_OPTIMIZER_IF_FEW,
        BB_OPTIMIZER_GIVEN,
        BB_OPTIMIZER_ADDED
    } optimizer; /* when to add the precision-aware
                     optimizer to layouts that do not fit without recomputation: if few layouts fit, never, always */
};

/* What layouts are compared for. experts: of a layer, 0 without experts; tokens: of a sample. */
struct bb_layout_subject {
    int experts, tokens;
    bool several_nodes;
};

struct bb_layouts {
    struct bb_layout_row *rows; /* the fastest layout of each of the fastest grids, the fastest first */
    int n;
    long long evaluated, fitting; /* evaluated: number of layouts, including the rejected ones; fitting: number of
                                     layouts that fit into memory */
    int refined;                  /* number of layouts that the second search stage simulated */
    long long rejected[BB_REJECTION_REASONS];
    bool penalized;            /* bb_layout_search.penalizes */
    bool added_optimizer;      /* layouts that do not fit without recomputation got the precision-aware optimizer */
    bool assumes_equal_load;   /* of dropless experts */
    const char *given_modules; /* --recompute-modules; NULL: not given */
    double peak_tflops; /* of the MFU, and its type (bb_forecast_peak_tflops); set by the caller before printing */
    const char *peak_type;
    const char *host, *experts; /* bb_plan_host_text of the first layout; NULL or empty: none; set by the caller */
    bool accepts_graph;         /* --graph can be added; set by the caller */
    int gpus;
    struct bb_layout_subject subject;
    double gpu_bytes, usable_bytes; /* as in struct bb_layout_search */
};

/*
 * bb_layouts_search - searches for the fastest layouts that fit into GPU memory.
 *   found    out: the layouts; the caller releases them with bb_layouts_release, which also accepts a zeroed object
 *   Returns  0; -BB_EUSAGE, after printing an error, if an option is invalid or no layout fits; -BB_EFAIL
 */
int bb_layouts_search(const struct bb_layout_search *search, struct bb_layouts *found) BB_MUST_CHECK;
/* bb_layouts_fitting_ranks - finds the next number of ranks on which a layout fits: that of the config of `search`, or in
 * whole nodes from the larger one of `ranks` and that on; with the given global batch size, otherwise or if none fits with
 * any. search: gpu_bytes is not used. fit: out. Returns 0, or -BB_EUSAGE after printing an error. */
int bb_layouts_fitting_ranks(const struct bb_layout_search *search, int ranks, struct bb_fitting *fit) BB_MUST_CHECK;
/* bb_layouts_sample - simulates the training step of each of the first `top` layouts search->samples times with
 * random jitter on every rank, and sorts these layouts by their median step time. Returns 0; -BB_EUSAGE, after
 * printing an error, if the simulations have too many operations; -BB_EFAIL. */
int bb_layouts_sample(const struct bb_layout_search *search, const struct bb_conditions *conditions,
                      struct bb_layouts *found) BB_MUST_CHECK;
void bb_layouts_release(struct bb_layouts *found);

/* bb_layouts_config - returns a copy of config in which the options are those of the layout `choice`. The copy
 * points to the same strings as config, and to those of `choice`. */
struct bb_proxy_config bb_layouts_config(const struct bb_proxy_config *config, const struct bb_layout_choice *choice);

/* bb_layouts_print - prints the batch and the memory after the machine, the best layout, its command (after a blank) and
 * the table of layouts.
 *   top     rows of the table; hidden: further layouts, which --full prints
 *   full    also how the next layouts differ, and why layouts were rejected */
void bb_layouts_print(const struct bb_layouts *found, const char *command, int top, int hidden, bool full, FILE *out);
json_t *bb_layouts_json(const struct bb_layouts *found, int top);

/* bb_layouts_ranked_ns - returns the step time with the penalty, by which layouts are compared. */
double bb_layouts_ranked_ns(const struct bb_layout_row *row);
/* bb_layouts_are_of_one_grid - returns whether two layouts have equal tp, cp, ep, pp and dp. */
bool bb_layouts_are_of_one_grid(const struct bb_layout_choice *a, const struct bb_layout_choice *b);
/* bb_layouts_print_explained - prints the place, step and memory of a layout and how it differs from the best.
 *   explained  a search in which the options of --explain are given; its first layout is explained
 *   given      value of --explain; command: of the layout, after a blank; top: rows of the table */
void bb_layouts_print_explained(const struct bb_layouts *found, const struct bb_layouts *explained, const char *given,
                                const char *command, int top, FILE *out);
json_t *bb_layouts_explained_json(const struct bb_layouts *found, const struct bb_layouts *explained);

#endif
