/*
 * grid.h - which rank does what: tensor (tp), context (cp), expert (ep), data (dp) and pipeline (pp) parallelism laid
 * over the ranks by an order string, as Megatron-LM's parallel_state does it.
 *
 * "tp-cp-ep-dp-pp": the leftmost axis varies fastest, stride_i is the product of the sizes before. Two grids are laid
 * over the same ranks with the same string. Dense: tp, cp, dp, pp (ep counts 1), ranks = tp*cp*dp*pp. Expert: tp is
 * etp, cp counts 1, dp is edp, ranks = etp*ep*edp*pp. Both must have the same pipelines (sure when pp stands last).
 */
#ifndef BB_PROXIES_TRANSFORMER_GRID_GRID_H
#define BB_PROXIES_TRANSFORMER_GRID_GRID_H

#include "proxies/step/layout.h"
#include "proxies/transformer/arch/arch.h"
#include "proxies/transformer/grid/pipe_split.h"

#include <stdbool.h>

#define BB_GRID_ORDER   "tp-cp-ep-dp-pp"
#define BB_GRID_ORDER_SIZE 16

struct bb_grid {
    int tp, cp, dp, pp;          /* dense grid                                                                      */
    int ep, etp, edp;            /* expert grid                                                                     */
    bool experts;                /* the model has experts: told by the caller; without, only the dense grid is used */
    char order[BB_GRID_ORDER_SIZE]; /* a permutation of "tp-cp-ep-dp-pp"; axes of size 1 may be left out      */
    int ranks;
    int first_layers, last_layers; /* of the first and the last stage, 0: as the others have (pipe_split.h) */
    int requested[4];                  /* tp, cp, dp, pp as they were given, 0: followed; set by bb_grid_settle */
};

/* The model that is to be cut. */
struct bb_grid_model {
    const struct bb_arch *arch;
    int decoder_sequence; /* of a model with an encoder: tokens of a sample that its decoder makes      */
    int sequence, chunks; /* tokens of a sample; model chunks of a pipeline rank (1 unless interleaved) */
    bool sequence_parallel;
    bool cp_all_to_all; /* context parallelism by all-to-all: heads must divide by tp*cp too              */
};

/*
 * bb_grid_settle - 0 means not given. The one of tp, cp, dp and pp that is left out follows from the ranks; of several
 * it is dp, else pp, and the others are 1. ep and etp are 1, edp follows always. order: a string, NULL for the usual
 * one. model: NULL, or for what model the layouts that are named must be valid. What does not divide, an unknown or
 * missing axis in the order, pipelines that differ between both grids: said with the numbers and the nearest valid
 * layout, -BB_EUSAGE. `who` leads the messages (the proxy's name).
 */
int bb_grid_resolve(struct bb_grid *grid, int ranks, const char *order, const struct bb_grid_model *model,
                    const char *who) BB_MUST_CHECK;

/* bb_grid_validate_model - whether the model can be cut so: heads, key heads and widths by tp, experts by ep, at least one layer
 * for each of pp x chunks, the sequence by cp (2 cp pieces, which balance a causal mask) and by tp with sequence
 * parallelism. Said with the numbers and the nearest valid layout, -BB_EUSAGE. */
int bb_grid_validate_model(const struct bb_grid *grid, const struct bb_grid_model *model, const char *who) BB_MUST_CHECK;

/* bb_grid_suggest - "--tp 4 --dp 2": the options to change for the layout of as many ranks that is nearest to what was
 * asked for and, unless model is NULL, cuts the model evenly (bb_pipe_split_is_valid). Empty where there is none. */
#define BB_GRID_SUGGESTION 128
const char *bb_grid_suggest(const struct bb_grid *grid, const struct bb_grid_model *model, char text[BB_GRID_SUGGESTION]);

/* bb_grid_layers_divide - whether so many parts get as many layers each, or do when embedding and head count as a layer each. */
bool bb_grid_layers_divide(int layers, int parts);

/*
 * bb_grid_layers - layers of part `part` of `parts` (pp, or pp x chunks): *first and the number. Even where they
 * divide; else embedding and head count as one layer each (126 layers in 16 parts: 7, 8, ..., 8, 7), and what then is
 * left over goes to the parts after the first.
 */
int bb_grid_layers(int layers, int parts, int part, int *first);

/* bb_grid_pipe_split - how its stages share that many layers, in so many chunks each. */
struct bb_pipe_split bb_grid_pipe_split(const struct bb_grid *grid, int layers, int chunks);

/* ---- the layout ---- */

enum bb_grid_group {
    BB_GRID_TP,        /* "tp"                                                                             */
    BB_GRID_CP,        /* "cp"                                                                             */
    BB_GRID_EP,        /* "ep": one expert grid's tokens change places in it                               */
    BB_GRID_EDP,       /* "edp": same experts, gradients reduced over it                                   */
    BB_GRID_DP,        /* "dp"                                                                             */
    BB_GRID_PP,        /* "pp"                                                                             */
    BB_GRID_EMBEDDING, /* "embedding": first and last stage of each pipeline                               */
    BB_GRID_DP_CP,     /* "dp_cp": same dense parameters, gradients reduced over it                        */
    BB_GRID_TP_PP,     /* "tp_pp": one whole model (gradient norm)                                         */
    BB_GRID_TP_CP,     /* "tp_cp"                                                                          */
    BB_GRID_TP_DP_CP,  /* "tp_dp_cp": all ranks of a stage                                                 */
    BB_GRID_ETP,       /* "etp": the same as tp when both grids have the same                              */
    BB_GRID_TP_EP,     /* "tp_ep": etp x ep of the expert grid, where tokens are gathered                  */
    BB_GRID_GROUPS
};

/* Which group of the layout that is; BB_NONE (-1) where it has one member, was not wanted, or is of experts that there
 * are none of. Combinations (from dp_cp on) that are the same ranks as a group before are that group: dp_cp is dp when
 * cp is 1, so ask for the latter too. */
struct bb_grid_groups {
    int of[BB_GRID_GROUPS];
};

#define BB_GRID_GROUP_BIT(group) (1u << (group))
#define BB_GRID_ALL_GROUPS         ((1u << BB_GRID_GROUPS) - 1)

/*
 * bb_grid_layout - a layout with the groups of `wanted` (bits, BB_GRID_GROUP_BIT), in the order of the enumeration; no
 * communicators. Groups of the dense grid are computed, the others are tables of 12 bytes per rank. The layout is
 * released by the caller, also after an error. Its axes are the dense ones in the order of the string: bb_grid_coord.
 */
int bb_grid_layout(const struct bb_grid *grid, unsigned wanted, struct bb_layout *layout,
                   struct bb_grid_groups *groups) BB_MUST_CHECK;

enum bb_grid_axis { BB_AXIS_TP, BB_AXIS_CP, BB_AXIS_EP, BB_AXIS_DP, BB_AXIS_PP, BB_GRID_AXES };

extern const char *const bb_grid_axis_names[BB_GRID_AXES]; /* "tp", "cp", "ep", "dp", "pp" */

/* bb_grid_size - ranks along an axis of the dense grid, or of the expert grid. */
int bb_grid_size(const struct bb_grid *grid, enum bb_grid_axis axis, bool expert);

/* bb_grid_parse_order - the axes of an order string that bb_grid_settle has passed. Returns their number. */
int bb_grid_parse_order(const char *order, enum bb_grid_axis axes[BB_GRID_AXES]);

/* bb_grid_coord - where a rank stands on an axis of the dense grid (ep: always 0), or of the expert grid (cp: always 0,
 * tp: etp, dp: edp). */
int bb_grid_coord(const struct bb_grid *grid, int rank, enum bb_grid_axis axis);
int bb_grid_expert_coord(const struct bb_grid *grid, int rank, enum bb_grid_axis axis);

#endif
