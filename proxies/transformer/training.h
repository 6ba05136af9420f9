/*
 * training.h - one training step of a transformer while it is built: what was asked, settled, and the communicators
 * that the ranks of its grid have. Internal to the builder (transformer.c: the step; stage.c: one stage's program;
 * stage_units.c: its parameters).
 */
#ifndef BB_PROXIES_TRANSFORMER_TRAINING_H
#define BB_PROXIES_TRANSFORMER_TRAINING_H

#include "proxies/sync/sync.h"
#include "proxies/transformer/arch/arch.h"
#include "proxies/transformer/grid/grid.h"
#include "proxies/transformer/layer/layer.h"
#include "proxies/transformer/pipe.h"

/* Replicas of the dense parameters are the ranks of dp x cp, those of the experts the ranks of edp. */
enum bb_parameter_kind { BB_DENSE, BB_EXPERT, BB_PARAMETER_KINDS };

#define BB_NORMS 4

struct bb_training {
    const struct bb_proxy_config *config;
    struct bb_step *step;
    struct bb_arch arch;
    struct bb_grid grid;
    struct bb_grid_groups groups;
    struct bb_schedule schedule;
    struct bb_layers_config layers_config;
    struct bb_layers *layers;
    bool has_parameters[BB_PARAMETER_KINDS]; /* which kinds of parameters the model has */
    struct bb_dp_config policy;
    struct bb_sync_comms sync[BB_PARAMETER_KINDS];
    /* Communicators, BB_NONE where the group has one rank. */
    int pipe[BB_PIPE_FLOWS], tp, cp, ep, etp, etp_ep, ep_local, ep_cross, embedding, norms[BB_NORMS], n_norms;
};

/* ---- stage_units.c: the parts of the model that a stage holds ---- */

/* A module: a layer, or BB_ARCH_EMBEDDING, BB_ARCH_HEAD. */
struct bb_transformer_module {
    int layer, chunk;
    bool recomputed;          /* its forward pass is done again as a whole (bb_layers_is_recomputed) */
    int unit[BB_PARAMETER_KINDS]; /* in the list of units, BB_NONE: it has no such parameters */
};

/* In forward order, chunk after chunk; chunk c: list[first[c] .. first[c + 1]). */
struct bb_modules {
    struct bb_transformer_module *list;
    int n, *first;
    struct bb_sync_unit *units[BB_PARAMETER_KINDS];
    int n_units[BB_PARAMETER_KINDS];
    struct bb_tensor *tensors; /* of all units */
    size_t replicated;         /* elements that every tp rank holds, of all modules (bb_layers_replicated_elements) */
};

/* bb_modules_make - what that stage holds, on each rank of it. 0 or -BB_EFAIL; release is fine on a zeroed one. */
int bb_modules_make(struct bb_modules *modules, const struct bb_training *t, int stage) BB_MUST_CHECK;
void bb_modules_release(struct bb_modules *modules);

/* bb_stage_holds_tied_embedding - whether that stage holds the table of a tied embedding together with another one. */
bool bb_stage_holds_tied_embedding(const struct bb_training *t, int stage);

/* ---- stage.c ---- */

/* One program of a stage; variant: place in ep, see layer.h; remainder: see bb_sync_spec. */
struct bb_stage {
    int stage, ep_rank;
    bool remainder;
};

/* bb_stage_write - the program of a role. */
int bb_stage_write(const struct bb_training *t, const struct bb_stage *stage, struct bb_role *role) BB_MUST_CHECK;

#endif
