/*
 * recompute.h - the recomputation with which a layout fits into GPU memory: a set of the modules of Megatron-LM's
 * recompute_modules, single operations (PyTorch), or whole layers.
 *
 * The candidates are compared by the time of the kernels that they add to one micro-batch: of the layers that are
 * recomputed in full, or of the modules or operations in all layers. Communication that is repeated is not counted; callers
 * simulate the best candidates of both kinds. The costs are those of kernels in a step with as few layers as contain each
 * kind of layer, which is built once per micro-batch size and division of a layer (tp, cp, ep).
 */
#ifndef BB_PROXIES_OFFLINE_LAYOUTS_RECOMPUTE_H
#define BB_PROXIES_OFFLINE_LAYOUTS_RECOMPUTE_H

#include "proxies/form/author/proxy.h"
#include "proxies/simulation/machine/cluster.h"
#include "proxies/workloads/transformer/arch/arch.h"
#include "proxies/workloads/transformer/layer/layer.h"

/* A step without recomputation. config: with defaults applied; software: value of --software, NULL: Megatron-LM's;
 * usable_bytes: memory of a GPU that training may use; required: bit mask of modules that each set of modules contains. */
struct bb_recompute_subject {
    const struct bb_proxy *proxy;
    const struct bb_proxy_config *config;
    const struct bb_arch *arch;
    const char *software;
    double usable_bytes;
    unsigned required;
};

/* Costs of one division of a layer. module_ns: kernels of a module's recomputation for one micro-batch in all layers of
 * the model, on one rank; ops_ns: of single operations, NAN: the software or the model has none; layers_ns: of all layers in
 * full. known: false: the step is invalid. */
struct bb_recompute_cost {
    double module_ns[BB_MODULES], ops_ns, layers_ns;
    bool known;
};

/* A recomputation. modules: value of --recompute-modules; empty: none; layers: number of layers per chunk, 0: all;
 * ns: kernels that it adds to a micro-batch on one rank; INFINITY: training does not fit. */
struct bb_recompute_candidate {
    enum bb_recompute recompute;
    char modules[BB_MODULES_TEXT];
    int layers;
    double bytes, ns;
};

/* bb_recompute_config - returns a copy of config with a recomputation, whose modules it refers to. */
struct bb_proxy_config bb_recompute_config(const struct bb_proxy_config *config,
                                           const struct bb_recompute_candidate *candidate);
/* bb_recompute_cost_compute - computes the costs of the division of a step; threads may do so concurrently. Errors of
 * invalid steps are printed, unless the caller suppresses them (bb_err_speculative). */
void bb_recompute_cost_compute(const struct bb_recompute_subject *s, const struct bb_cluster *cluster,
                               struct bb_recompute_cost *cost);
/*
 * bb_recompute_modules - finds the set of modules, or unless modules are required the operations, with the shortest kernels
 * with which training fits.
 *   cost        NULL: unknown
 *   none_bytes  memory need without recomputation
 *   found       out
 * bb_recompute_layers - finds the smallest number of recomputed layers per chunk with which training fits; software of
 * PyTorch: all layers.
 *   found       out; if training does not fit, bytes: with all layers
 *   Returns     0, or -BB_EUSAGE for an invalid layout
 */
int bb_recompute_modules(const struct bb_recompute_subject *s, const struct bb_recompute_cost *cost, double none_bytes,
                         struct bb_recompute_candidate *found) BB_MUST_CHECK;
int bb_recompute_layers(const struct bb_recompute_subject *s, const struct bb_recompute_cost *cost,
                        struct bb_recompute_candidate *found) BB_MUST_CHECK;

#endif
