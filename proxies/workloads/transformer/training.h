/*
 * training.h - struct bb_training: the resolved options and the communicators of one training step of a transformer.
 * The step programs are generated from this struct. Internal to transformer.c (the step), stage.c (the program of one
 * pipeline stage) and stage_units.c (the modules and parameters of one stage).
 */
#ifndef BB_PROXIES_WORKLOADS_TRANSFORMER_TRAINING_H
#define BB_PROXIES_WORKLOADS_TRANSFORMER_TRAINING_H

#include "proxies/workloads/sync/sync.h"
#include "proxies/workloads/transformer/arch/arch.h"
#include "proxies/workloads/transformer/grid/grid.h"
#include "proxies/workloads/transformer/layer/layer.h"
#include "proxies/workloads/transformer/memory.h"
#include "proxies/workloads/transformer/pipe.h"

/* Kinds of parameters. BB_EXPERT: the weights of MoE experts, replicated over the expert-data-parallel (edp) ranks.
 * BB_DENSE: all other parameters, replicated over the dp x cp ranks. */
enum bb_parameter_kind { BB_DENSE, BB_EXPERT, BB_PARAMETER_KINDS };

#define BB_NORMS 3

struct bb_training {
    const struct bb_proxy_config *config;
    struct bb_step *step;
    struct bb_arch arch;
    struct bb_grid grid;
    struct bb_grid_groups groups;
    struct bb_schedule schedule;
    struct bb_pipe_split split; /* the division of the layers among the pipeline stages */
    struct bb_layers_config layers_config;
    struct bb_layers *layers;
    bool has_parameters[BB_PARAMETER_KINDS]; /* true for each kind of parameters (dense, expert) that the model has */
    struct bb_dp_config policy;
    struct bb_sync_comms sync[BB_PARAMETER_KINDS];
    /* Indices of communicators in step->layout; BB_NONE: no communicator, for example because the group has one
     * rank. pipe: one per kind of message (activations, gradients) and direction of the pipeline. ep_local,
     * ep_cross: dedup dispatch inside and between nodes. norms: communicators over which the gradient norm is
     * summed. */
    int pipe[BB_PIPE_FLOWS], tp, cp, ep, etp, etp_ep, ep_local, ep_cross, embedding, norms[BB_NORMS];
};

/* bb_training_memory - returns the inputs of the memory formulas for the ranks with this index in their ep group; they
 * refer to `t`. */
struct bb_memory bb_training_memory(const struct bb_training *t, int ep_rank);

/* ---- stage_units.c: the modules of a stage ---- */

/* A module of a pipeline stage: a layer, the embedding or the output head. layer: index of the layer in the model,
 * BB_ARCH_EMBEDDING, BB_ARCH_HEAD or BB_ARCH_MTP. chunk: index of the module's model chunk (virtual pipeline stage) in the stage. */
struct bb_transformer_module {
    int layer, chunk;
    bool recomputed;              /* true: the backward pass recomputes the whole layer (bb_layers_is_recomputed) */
    int unit[BB_PARAMETER_KINDS]; /* for each kind of parameters (dense, expert): index into bb_modules.units[kind]
                                     of the module's parameters of this kind; BB_NONE: the module has none */
};

/* The modules of a pipeline stage in forward order, sorted by model chunk (virtual pipeline stage). Chunk c consists
 * of list[first[c]] to list[first[c + 1] - 1]. */
struct bb_modules {
    struct bb_transformer_module *list;
    int n, *first;
    struct bb_sync_unit *units[BB_PARAMETER_KINDS];
    int n_units[BB_PARAMETER_KINDS];
    struct bb_tensor *tensors; /* storage of the parameter tensors to which all `units` point */
    size_t replicated; /* number of parameters that the tp ranks replicate and whose gradients are summed over tp:
                          the sum of bb_layers_replicated_elements over the modules */
};

/*
 * bb_modules_make - list the modules (layers, embedding, head) and parameters of a pipeline stage, which are equal on
 * all ranks of the stage.
 *   Owner    the caller releases modules with bb_modules_release, which accepts a zeroed struct
 */
void bb_modules_make(struct bb_modules *modules, const struct bb_training *t, int stage);
void bb_modules_release(struct bb_modules *modules);

/* bb_stage_holds_tied_embedding - returns whether the stage holds one of two copies of the embedding table, of tied
 * embeddings or for multi-token prediction, whose gradient is summed over both: the first stage and
 * bb_memory_table_stage; false with LoRA. */
bool bb_stage_holds_tied_embedding(const struct bb_training *t, int stage);

/*
 * Selects one of the programs of a pipeline stage. Ranks of one stage run different programs only in two cases:
 * dropless experts receive different numbers of rows, or a hierarchical reduction has a remainder.
 *   stage      index of the pipeline stage
 *   ep_rank    the rank's index in its expert-parallel (ep) group if the ep ranks process different numbers of rows
 *              (see layer.h); else 0
 *   remainder  true: the program also reduces the remainder of a hierarchical all-reduce (see bb_sync_spec in sync.h)
 */
struct bb_stage {
    int stage, ep_rank;
    bool remainder;
};

/* bb_stage_write - generate the program that `stage` selects, and store it in role->program. Returns 0, or a
 * negative error after printing one error line. */
int bb_stage_write(const struct bb_training *t, const struct bb_stage *stage, struct bb_role *role) BB_MUST_CHECK;

#endif
