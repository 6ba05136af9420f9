/*
 * training_bytes.h - validate the parallel layout of a transformer training and compute the GPU memory that the
 * training needs, without generating the step programs. This is fast enough for a search over thousands of layouts.
 */
#ifndef BB_PROXIES_WORKLOADS_TRANSFORMER_TRAINING_BYTES_H
#define BB_PROXIES_WORKLOADS_TRANSFORMER_TRAINING_BYTES_H

#include "proxies/form/step/config.h"
#include "proxies/workloads/sync/sync.h"
#include "proxies/workloads/transformer/arch/arch.h"

/* bb_training_assumes_torch - return whether a step without --software is one of PyTorch: with sharded parameters, or with
 * adapters (--lora-rank) and without what only Megatron-LM has. */
bool bb_training_assumes_torch(const struct bb_proxy_config *config, enum bb_sync_kind sync);

/*
 * bb_training_load_arch - load the architecture of --model and apply --layers.
 *   Returns  0, or -BB_EUSAGE after printing one error line
 */
int bb_training_load_arch(const struct bb_proxy_config *config, struct bb_arch *arch) BB_MUST_CHECK;

/*
 * bb_training_validate_graph - reject a CUDA graph of the whole step of a model whose experts have no capacity factor: only
 * the GPU knows how many tokens each expert gets.
 *   config   of a transformer; without --model it is accepted
 *   modules  --cuda-graph-modules is an alternative
 *   Returns  0, or -BB_EUSAGE after printing one error line
 */
int bb_training_validate_graph(const struct bb_proxy_config *config, bool modules) BB_MUST_CHECK;

/*
 * bb_training_bytes - compute the bytes of GPU memory that training needs on the rank that needs most. The result
 * equals the maximum of bb_role.training_bytes over the roles (sets of ranks with the same program) of the generated
 * step.
 *   config     options with defaults applied (bb_proxy_configure)
 *   arch       the model of config, loaded by bb_training_load_arch
 *   max_bytes  out: bytes
 *   Returns    0, or -BB_EUSAGE after printing one error line when the layout is invalid
 */
int bb_training_bytes(const struct bb_proxy_config *config, const struct bb_arch *arch,
                      double *max_bytes) BB_MUST_CHECK;

/* Number of rows (one token for one expert) of the rank of ep with most rows, relative to equal load. of_layers: the mean over
 * the layers, in each of which the other ranks wait for it; of_stage: of one rank in the layers of its stage, whose
 * activations it stores. */
struct bb_expert_load {
    double of_layers, of_stage;
};

/* bb_training_rank_loads - compute the rows of each rank of ep, relative to equal load; up to rounding, they do not depend on
 * the number of tokens. loads: [layers][ep] out. Returns as bb_training_bytes.
 * bb_training_expert_load - compute the load of a layout with these loads of its ep. load: out. Returns as bb_training_bytes. */
int bb_training_rank_loads(const struct bb_proxy_config *config, const struct bb_arch *arch,
                           double *loads) BB_MUST_CHECK;
int bb_training_expert_load(const struct bb_proxy_config *config, const struct bb_arch *arch, const double *loads,
                            struct bb_expert_load *load) BB_MUST_CHECK;

/*
 * bb_training_min_recompute_layers - find the smallest --recompute-num-layers (number of layers per model chunk whose
 * activations are recomputed with --recompute full) with which training fits in GPU memory. A model chunk is a virtual
 * pipeline stage. The recomputation options of config are ignored.
 *   gpu_bytes  memory of one GPU
 *   layers     out: 1 to (layers of the largest model chunk - 1); 0: training does not fit with any of these numbers
 *   bytes      out: bytes of the rank with the largest need when *layers layers per chunk are recomputed; if *layers is
 *              0, when all layers are recomputed
 *   Returns    0, or -BB_EUSAGE after printing one error line when the layout is invalid
 */
int bb_training_min_recompute_layers(const struct bb_proxy_config *config, const struct bb_arch *arch, double gpu_bytes,
                                     int *layers, double *bytes) BB_MUST_CHECK;

#endif
