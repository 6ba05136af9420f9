/*
 * routing.h - row counts between the ranks of an expert-parallel group, computed by a simulated, seeded router. A row
 * is the activations of one token that are sent to one expert. The functions have no side effects outside their
 * arguments. Sender and receiver of a message read their counts from the same table.
 */
#ifndef BB_PROXIES_WORKLOADS_TRANSFORMER_LAYER_ROUTING_H
#define BB_PROXIES_WORKLOADS_TRANSFORMER_LAYER_ROUTING_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

struct bb_routing_config {
    int tokens, top_k;  /* tokens: number of tokens per rank; top_k: number of experts that each token chooses */
    int experts, ranks; /* experts: number of experts of a layer; ranks: number of ranks of the ep group, each of
                           which holds experts / ranks experts */
    int layers;
    int balanced; /* number of layers, from the first, with equal load on all experts whatever the imbalance */
    double capacity_factor; /* > 0: every rank sends ceil(factor * tokens * top_k / experts) rows to each expert; 0:
                               dropless, every expert gets all tokens that chose it */
    double load;            /* > 0: every rank sends this multiple of the rows of equal load to each rank */
    double imbalance; /* 0: equal load on all experts; z > 0: the k-th most popular expert of a layer has weight 1 /
                         k^z, perturbed for each rank; no expert gets more rows than there are tokens */
    unsigned seed;
};

/*
 * struct bb_expert_shares - the fractions of tokens that choose each expert, by layer and sending rank, and the row
 * counts that follow from them, kept for several steps: the search for a layout plans many steps with the same experts.
 * Steps with other experts, and those whose fractions would exceed 32 MiB, compute their own; so do steps when the row
 * counts of others fill 256 MiB.
 *
 * bb_expert_shares_new - allocate without fractions, which bb_routing_init adds. Free with bb_expert_shares_free.
 *   Threads  bb_routing_init may be called with one object by several threads at once
 * bb_expert_shares_free - call after bb_routing_release of all steps. NULL is allowed.
 */
struct bb_expert_shares;
struct bb_expert_shares *bb_expert_shares_new(void) BB_MUST_CHECK;
void bb_expert_shares_free(struct bb_expert_shares *shares);

struct bb_routing {
    struct bb_routing_config config;
    int uniform_rows; /* number of rows that each rank sends to each rank, if all pairs of ranks have equal numbers;
                         else -1 */
    int *rows;        /* [layers][sending rank][receiving rank] number of rows that are sent; NULL if all pairs of ranks
                  have equal numbers */
    long *received;   /* [layers][receiving rank] sum of rows over the sending ranks, if rows is not NULL */
    bool is_kept;     /* rows and received belong to the shares */
};

/* bb_routing_init - compute the row counts of all layers and ranks. shares: in and out; NULL: keep nothing for other
 * steps. The caller releases r with bb_routing_release. */
void bb_routing_init(struct bb_routing *r, const struct bb_routing_config *config, struct bb_expert_shares *shares);
void bb_routing_release(struct bb_routing *r);

/*
 * bb_routing_rows - returns the number of rows that rank `from` sends to the experts of rank `to`.
 * bb_routing_received - returns the number of rows that rank `to` receives from all ranks.
 *   layer     index of the layer in the whole model
 *   from, to  indices of the ranks in the expert-parallel group
 */
int bb_routing_rows(const struct bb_routing *r, int layer, int from, int to);
long bb_routing_received(const struct bb_routing *r, int layer, int to);

#endif
