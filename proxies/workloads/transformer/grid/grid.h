/*
 * grid.h - rank grid of a transformer: which ranks form the groups of tensor (tp), context (cp), expert (ep), data (dp)
 * and pipeline (pp) parallelism. An order string assigns ranks to axes as Megatron-LM's parallel_state does.
 *
 * In "tp-cp-ep-dp-pp" the leftmost axis varies fastest: the stride of an axis is the product of the sizes of the axes
 * before it. The same order string defines two grids over the same ranks:
 *   dense   axes tp, cp, dp, pp (ep has size 1)          ranks = tp*cp*dp*pp
 *   expert  axes etp, ep, edp, pp (cp has size 1)        ranks = etp*ep*edp*pp; etp replaces tp, edp replaces dp
 * Each pipeline must consist of the same ranks in both grids. This is always the case if pp is the last axis.
 */
#ifndef BB_PROXIES_WORKLOADS_TRANSFORMER_GRID_GRID_H
#define BB_PROXIES_WORKLOADS_TRANSFORMER_GRID_GRID_H

#include "proxies/form/step/layout.h"
#include "proxies/workloads/transformer/arch/arch.h"
#include "proxies/workloads/transformer/grid/pipe_split.h"

#include <stdbool.h>

#define BB_GRID_ORDER      "tp-cp-ep-dp-pp"
#define BB_GRID_ORDER_SIZE 16

enum { BB_GRID_DENSE = 4 }; /* number of axis sizes of the dense grid: tp, cp, dp, pp */

struct bb_grid {
    union { /* sizes of the dense grid; 0: not given (only before bb_grid_resolve) */
        struct {
            int tp, cp, dp, pp;
        };
        int dense[BB_GRID_DENSE]; /* tp, cp, dp, pp as an array */
    };
    int ep, etp, edp; /* sizes of the expert grid in ranks: expert-parallel (ep), expert-tensor-parallel (etp) and
                         expert-data-parallel (edp) group; edp is always derived */
    bool experts;     /* set by the caller: true: the model has experts; false: only the dense grid is used */
    char order[BB_GRID_ORDER_SIZE]; /* a permutation of "tp-cp-ep-dp-pp"; axes of size 1 may be omitted */
    int ranks;
    int first_layers, last_layers; /* number of layers of the first and of the last pipeline stage; 0: the same
                                      number as the other stages (pipe_split.h) */
    int table_stage;               /* stage that, with the first, forms the group "embedding"; 0: the last stage */
    const char *layout;            /* the layers of each virtual stage (pipe_layout.h); NULL: none */
    /* sizes of tp, cp, dp, pp as given by the user; 0: size not given; set by bb_grid_resolve */
    int requested[BB_GRID_DENSE];
};

/* The model, sequence lengths and model chunks against which a grid is checked (bb_grid_validate_model). */
struct bb_grid_model {
    const struct bb_arch *arch;
    int decoder_sequence; /* tokens per sample of the decoder; used only with an encoder */
    int sequence, chunks; /* sequence: tokens per sample; chunks: model chunks per pipeline stage, each of which is
                             one virtual stage; 1: the schedule is not interleaved */
    bool sequence_parallel;
    bool cp_all_to_all; /* context parallelism by all-to-all: the heads must be divisible by tp*cp */
};

/*
 * bb_grid_resolve - derive the sizes that were not given (0) and check the grid.
 *   grid     in: sizes as given, experts, first_layers, last_layers, layout; out: all sizes, order, ranks, requested
 *   ranks    ranks of the job
 *   order    order string; NULL: BB_GRID_ORDER
 *   model    NULL, or the model that a layout suggested in an error message must fit
 *   who      proxy name, printed before each message
 *   Returns  0, or -BB_EUSAGE after printing one error line with the numbers and a suggested layout
 *
 * If only one of tp, cp, dp and pp is missing, that size is derived from the number of ranks. If dp is missing, dp is
 * derived and the other missing sizes become 1. If dp is given, a missing cp becomes 1, and tp or pp is derived; if
 * both tp and pp are missing, dp x cp must equal the number of ranks. ep and etp default to 1; edp is always derived.
 * Errors: sizes that do not divide the ranks; an unknown, repeated or missing axis in the order; pipelines that differ
 * between the dense and the expert grid.
 */
int bb_grid_resolve(struct bb_grid *grid, int ranks, const char *order, const struct bb_grid_model *model,
                    const char *who) BB_MUST_CHECK;

/* bb_grid_validate_ep - returns 0, or -BB_EUSAGE after printing an error line if ep is above 1 for a model without
 * experts. */
int bb_grid_validate_ep(int ep, bool experts, const char *who) BB_MUST_CHECK;

/*
 * bb_grid_validate_model - check that the grid can split the model.
 *   Returns  0, or -BB_EUSAGE after printing one error line with the numbers and a valid layout
 *
 * Heads, KV heads and widths must be divisible by tp, experts by ep, the sequence by 2 cp (two slices per rank, which
 * balance a causal mask) and, with sequence parallelism, by tp. Each of the pp x chunks virtual stages needs a layer.
 */
int bb_grid_validate_model(const struct bb_grid *grid, const struct bb_grid_model *model,
                           const char *who) BB_MUST_CHECK;

/*
 * bb_grid_suggest - find options that turn the requested layout into the closest valid layout, such as "--tp 4 --dp 2".
 *   model    NULL, or a model whose layers the suggested layout must be able to split (bb_pipe_split_is_valid)
 *   text     out: the options, with ep and etp if no layout suits the requested ones. If no layout is valid for the model,
 *            options whose sizes only match the number of ranks; empty if the requested sizes match already
 *   Returns  text
 */
#define BB_GRID_SUGGESTION 128
const char *bb_grid_suggest(const struct bb_grid *grid, const struct bb_grid_model *model,
                            char text[BB_GRID_SUGGESTION]);

/* bb_grid_min_ranks - returns the smallest number of ranks with which the sizes of the grid suit the model; 0: none.
 *   axis     the size that the number of ranks determines
 *   others   product of the other sizes
 *   model    NULL: any */
long long bb_grid_min_ranks(const struct bb_grid *grid, const struct bb_grid_model *model, int axis, long long others);

/* bb_grid_nearest_divisor - returns the divisor of n whose ratio to `want` is closest to 1. */
int bb_grid_nearest_divisor(int n, int want);

/* bb_grid_nearest_common_divisor - likewise, of the common divisors of a and b; b 0: of the divisors of a. */
int bb_grid_nearest_common_divisor(int a, int b, int want);

/* bb_grid_layers_divide - returns whether `layers` layers can be divided equally among `parts` virtual pipeline
 * stages: `parts` divides `layers`, or `layers` + 2 with embedding and head counted as one layer each, and each
 * virtual stage has a layer. */
bool bb_grid_layers_divide(int layers, int parts);

/*
 * bb_grid_layers - returns the number of layers of one virtual pipeline stage when the layers are divided evenly.
 *   parts    number of virtual stages: pp, or pp x chunks
 *   part     index of the virtual stage, from 0
 *   first    out: index of the first layer of the virtual stage
 *
 * If the layers are not divisible by `parts`, embedding and head count as one layer each (126 layers in 16 stages: 7,
 * 8, ..., 8, 7). If `layers` + 2 is not divisible either, the virtual stages from 1 on get one of the remaining layers
 * each.
 */
int bb_grid_layers(int layers, int parts, int part, int *first);

/* bb_grid_pipe_split - returns how `layers` layers are split over the pipeline stages of the grid, with `chunks`
 * model chunks per stage. */
struct bb_pipe_split bb_grid_pipe_split(const struct bb_grid *grid, int layers, int chunks);

/* ---- process groups ---- */

enum bb_grid_group {
    BB_GRID_TP,        /* "tp": tensor-parallel ranks */
    BB_GRID_CP,        /* "cp": context-parallel ranks */
    BB_GRID_EP,        /* "ep": ranks that together hold all experts and exchange tokens */
    BB_GRID_EDP,       /* "edp": ranks with the same experts, over which expert gradients are reduced */
    BB_GRID_DP,        /* "dp": ranks with the same tp, cp and pp coordinates, which process different samples */
    BB_GRID_PP,        /* "pp": ranks of one pipeline */
    BB_GRID_EMBEDDING, /* "embedding": the stages of each pipeline that hold the embedding table: the first and the last, or
                          table_stage */
    BB_GRID_DP_CP,     /* "dp_cp": ranks with the same dense parameters, over which dense gradients are reduced */
    BB_GRID_TP_PP, /* "tp_pp": all ranks that together hold one model replica; the gradient norm is summed over them */
    BB_GRID_TP_CP, /* "tp_cp": the tp x cp ranks of one model replica and pipeline stage */
    BB_GRID_TP_DP_CP, /* "tp_dp_cp": all ranks of one pipeline stage */
    BB_GRID_ETP,      /* "etp": expert-tensor-parallel ranks, which shard each expert; equal to the group tp if both
                    groups have the same ranks */
    BB_GRID_TP_EP,    /* "tp_ep": etp x ep ranks of the expert grid; all_gather dispatch gathers the tokens of these
                      ranks */
    BB_GRID_GROUPS
};

/*
 * Index in the layout of each process group, by enum bb_grid_group. BB_NONE (-1): the group has one member, was not
 * requested, or is an expert group of a model without experts. A combined group (BB_GRID_DP_CP and later enumerators)
 * with the same ranks as an earlier requested group has the index of that group: with cp 1, dp_cp has the index of dp
 * if dp was requested.
 */
struct bb_grid_groups {
    int of[BB_GRID_GROUPS];
};

#define BB_GRID_GROUP_BIT(group) (1u << (group))
#define BB_GRID_ALL_GROUPS       ((1u << BB_GRID_GROUPS) - 1)

/*
 * bb_grid_layout - build a layout with the requested process groups, without communicators.
 *   wanted   bit mask of BB_GRID_GROUP_BIT(group)
 *   layout   out: axes of the dense grid in the order of the order string, groups in the order of the enumeration
 *   groups   out: index of each process group in layout
 *   Returns  0, or -BB_EUSAGE after printing an error line. Errors of adding a group set layout->rc (step/layout.h)
 *   Owner    the caller releases layout, also after an error
 *
 * Groups of the dense grid are stored as axes, without a list of ranks. Each group of the expert grid, and the group
 * "embedding", needs tables of 12 bytes per rank.
 */
int bb_grid_layout(const struct bb_grid *grid, unsigned wanted, struct bb_layout *layout,
                   struct bb_grid_groups *groups) BB_MUST_CHECK;

enum bb_grid_axis { BB_AXIS_TP, BB_AXIS_CP, BB_AXIS_EP, BB_AXIS_DP, BB_AXIS_PP, BB_GRID_AXES };

extern const char *const bb_grid_axis_names[BB_GRID_AXES]; /* "tp", "cp", "ep", "dp", "pp" */

extern const char *const bb_grid_dense_names[BB_GRID_DENSE]; /* "tp", "cp", "dp", "pp": the order of bb_grid.dense */

/* bb_grid_size - returns the size of an axis in the dense grid, or (expert: true) in the expert grid, where
 * BB_AXIS_TP means etp and BB_AXIS_DP means edp. */
int bb_grid_size(const struct bb_grid *grid, enum bb_grid_axis axis, bool expert);

/* bb_grid_parse_order - split an order string that bb_grid_resolve accepted into axes. Returns the number of axes. */
int bb_grid_parse_order(const char *order, enum bb_grid_axis axes[BB_GRID_AXES]);

/* bb_grid_coord - returns the coordinate of a rank on an axis in the dense grid (ep: always 0), or (expert: true) in
 * the expert grid (cp: always 0; BB_AXIS_TP means etp, BB_AXIS_DP means edp). */
int bb_grid_coord(const struct bb_grid *grid, int rank, enum bb_grid_axis axis, bool expert);

#endif
