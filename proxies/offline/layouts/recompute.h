/*
 * recompute.h - the recomputation with which a layout fits into GPU memory: nothing, a set of the modules of
 * Megatron-LM's recompute_modules, or whole layers.
 *
 * The candidates are compared by the time of the kernels that they add to one micro-batch: of the layers that are
 * recomputed in full, or of the modules in all layers. Communication that is repeated is not counted; search.c simulates
 * the best layouts of both kinds. The costs are those of kernels in a step with as few layers as contain each kind of
 * layer, which is built once per micro-batch size and division of a layer (tp, cp, ep).
 */
#ifndef BB_PROXIES_OFFLINE_LAYOUTS_RECOMPUTE_H
#define BB_PROXIES_OFFLINE_LAYOUTS_RECOMPUTE_H

#include "proxies/offline/layouts/space.h"

/* Costs of one division of a layer. module_ns: kernels of a module's recomputation for one micro-batch in all layers of
 * the model, on one rank; layers_ns: of all layers in full. known: false: the step is invalid. */
struct bb_recompute_cost {
    struct bb_layout_choice of;
    double module_ns[BB_MODULES], layers_ns;
    bool known;
};

struct bb_recompute_costs {
    struct bb_recompute_cost *list;
    int n;
    unsigned modules; /* of the model */
};

/* bb_recompute_costs_list - lists the divisions of the layouts of a space. The caller releases the list with free().
 * bb_recompute_cost_compute - computes the costs of one of them; threads may do so concurrently. */
void bb_recompute_costs_list(struct bb_recompute_costs *costs, const struct bb_layout_space *space,
                             const struct bb_arch *arch);
void bb_recompute_cost_compute(const struct bb_layout_search *search, const struct bb_arch *arch,
                               const struct bb_recompute_costs *costs, struct bb_recompute_cost *cost);

/* A recomputation of a layout. ns: kernels that it adds to a micro-batch on one rank; INFINITY: the layout does not fit. */
struct bb_recompute_candidate {
    struct bb_layout_choice choice;
    double bytes, ns;
};

/*
 * bb_recompute_modules - finds the set of modules with the shortest kernels with which a layout fits.
 *   none_bytes  memory need without recomputation
 *   found       in: choice: the layout; out
 * bb_recompute_layers - finds the smallest number of recomputed layers per chunk with which a layout fits.
 *   found       in: choice: the layout; out; if the layout does not fit, bytes: with all layers
 *   Returns     0, or -BB_EUSAGE for an invalid layout
 */
int bb_recompute_modules(const struct bb_layout_search *search, const struct bb_arch *arch,
                         const struct bb_recompute_costs *costs, double none_bytes,
                         struct bb_recompute_candidate *found) BB_MUST_CHECK;
int bb_recompute_layers(const struct bb_layout_search *search, const struct bb_arch *arch,
                        const struct bb_recompute_costs *costs, struct bb_recompute_candidate *found) BB_MUST_CHECK;

#endif
