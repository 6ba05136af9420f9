/* routing.c - a simulated router: determines the popularity of experts by Zipf's law, and converts it to the number
 * of rows (one token for one expert) between each pair of ranks (see routing.h). */
#include "proxies/workloads/transformer/layer/routing.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

/* Returns a pseudo-random number in [0, 1) that depends only on the arguments (a hash with the finalizer of
 * splitmix64). */
static double random_fraction(unsigned seed, int layer, int rank, int expert)
{
    uint64_t x = seed;

    x = x * 0x9e3779b97f4a7c15u + (uint64_t)layer + 1;
    x = x * 0x9e3779b97f4a7c15u + (uint64_t)(rank + 2);
    x = x * 0x9e3779b97f4a7c15u + (uint64_t)expert + 1;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0;
}

/* Sets popularity_rank[expert] for each expert of a layer, 1 for the most popular expert. A seeded Fisher-Yates
 * shuffle determines the order, which is equal on all ranks of the job. */
static void rank_experts(const struct bb_routing_config *c, int layer, double *popularity_rank)
{
    for (int e = 0; e < c->experts; e++)
        popularity_rank[e] = e + 1;
    for (int e = c->experts - 1; e > 0; e--) {
        int other = (int)(random_fraction(c->seed, layer, -1, e) * (e + 1));
        double swapped = popularity_rank[e];

        popularity_rank[e] = popularity_rank[other];
        popularity_rank[other] = swapped;
    }
}

/* Converts weights (below 1) to the fraction of tokens that choose each expert. The fractions sum to top_k, and none
 * exceeds 1. Fractions above 1 are set to 1, and the excess is distributed over the remaining experts, whose
 * fractions may then exceed 1, so the loop repeats until no fraction exceeds 1. */
static void weights_to_shares(double *weight, int experts, int top_k)
{
    int full = 0, before;

    do {
        double sum = 0;

        before = full;
        full = 0;
        for (int e = 0; e < experts; e++)
            sum += weight[e] < 1 ? weight[e] : 0;
        for (int e = 0; e < experts; e++) {
            double part = weight[e] < 1 ? weight[e] / sum * (top_k - before) : 1;

            weight[e] = part < 1 ? part : 1;
            full += part >= 1;
        }
    } while (full != before);
}

static void weigh_experts(const struct bb_routing_config *c, int layer, int from, const double *popularity_rank,
                          double *weight)
{
    double max = 0;

    for (int e = 0; e < c->experts; e++) {
        weight[e] = pow((0.5 + random_fraction(c->seed, layer, from, e)) / popularity_rank[e],
                        layer < c->balanced ? 0 : c->imbalance);
        max = fmax(max, weight[e]);
    }
    for (int e = 0; e < c->experts; e++)
        weight[e] /= 2 * max;
}

/* sums: [experts] out: the sums of the fractions of the experts up to each. scratch: [experts] */
static void sum_shares(const struct bb_routing_config *c, int layer, int from, const double *popularity_rank,
                       double *scratch, double *sums)
{
    double sum = 0;

    weigh_experts(c, layer, from, popularity_rank, scratch);
    weights_to_shares(scratch, c->experts, c->top_k);
    for (int e = 0; e < c->experts; e++)
        sums[e] = sum += scratch[e];
}

/* Sets the sums of the sending ranks first to last - 1 of all layers. sums: [layers][senders][experts] */
static void sum_all_shares(const struct bb_routing_config *c, int first, int last, int senders, double *sums)
{
    double *popularity_rank = NULL;

    BB_NEW(popularity_rank, 2 * c->experts);
    for (int layer = 0; layer < c->layers; layer++) {
        rank_experts(c, layer, popularity_rank);
        for (int from = first; from < last; from++)
            sum_shares(c, layer, from, popularity_rank, popularity_rank + c->experts,
                       sums + ((size_t)layer * (size_t)senders + (size_t)from) * (size_t)c->experts);
    }
    free(popularity_rank);
}

/* Converts the fractions of tokens that choose each expert to numbers of rows (one token for one expert) for each
 * destination rank. The numbers are differences of rounded prefix sums, so that they sum exactly to tokens x top_k. */
static void round_rows(const struct bb_routing_config *c, const double *sums, int *rows)
{
    int each = c->experts / c->ranks;
    long given = 0;

    for (int to = 0; to < c->ranks; to++) {
        const double sum = sums[(to + 1) * each - 1];
        const long until = to == c->ranks - 1 ? (long)c->tokens * c->top_k : lround(sum * c->tokens);

        rows[to] = (int)(until - given);
        given = until;
    }
}

struct bb_expert_shares {
    pthread_mutex_t lock;
    struct bb_routing_config config; /* of the first step; without experts: none yet */
    int senders, known;              /* number of sending ranks in sums; of those with sums */
    double *sums;
    struct bb_routing *tables; /* [n_tables] the row counts of steps, by tokens and ranks */
    size_t n_tables, entries;  /* entries: numbers in all tables */
};

struct bb_expert_shares *bb_expert_shares_new(void)
{
    struct bb_expert_shares *shares;

    BB_NEW(shares, 1);
    pthread_mutex_init(&shares->lock, NULL);
    return shares;
}

void bb_expert_shares_free(struct bb_expert_shares *shares)
{
    if (!shares)
        return;
    pthread_mutex_destroy(&shares->lock);
    for (size_t i = 0; i < shares->n_tables; i++) {
        free(shares->tables[i].rows);
        free(shares->tables[i].received);
    }
    free(shares->tables);
    free(shares->sums);
    free(shares);
}

#define MAX_SHARES  ((size_t)4 << 20)
#define MAX_ENTRIES ((size_t)64 << 20)

/* Returns whether the fractions of tokens are those of the kept ones. */
static bool has_same_experts(const struct bb_expert_shares *shares, const struct bb_routing_config *c)
{
    const struct bb_routing_config *kept = &shares->config;

    return kept->experts == c->experts && kept->top_k == c->top_k && kept->layers == c->layers &&
           kept->balanced == c->balanced && kept->imbalance == c->imbalance && kept->seed == c->seed;
}

/* Sets the row counts of r to those that are kept for its tokens and ranks. Returns false if there are none. */
static bool take_rows(struct bb_routing *r, struct bb_expert_shares *shares)
{
    pthread_mutex_lock(&shares->lock);
    for (size_t i = 0; i < shares->n_tables && !r->is_kept && has_same_experts(shares, &r->config); i++) {
        const struct bb_routing *table = &shares->tables[i];

        if (table->config.tokens != r->config.tokens || table->config.ranks != r->config.ranks)
            continue;
        r->rows = table->rows;
        r->received = table->received;
        r->is_kept = true;
    }
    pthread_mutex_unlock(&shares->lock);
    return r->is_kept;
}

/* Keeps the row counts of r for other steps. Another thread may have kept equal ones at the same time. */
static void keep_rows(struct bb_routing *r, struct bb_expert_shares *shares)
{
    const size_t ranks = (size_t)r->config.ranks, entries = (size_t)r->config.layers * ranks * (ranks + 2);

    pthread_mutex_lock(&shares->lock);
    if (has_same_experts(shares, &r->config) && entries <= MAX_ENTRIES - shares->entries) {
        BB_GROW(shares->tables, shares->n_tables);
        r->is_kept = true;
        shares->tables[shares->n_tables++] = *r;
        shares->entries += entries;
    }
    pthread_mutex_unlock(&shares->lock);
}

/* Returns the sums of a step, or NULL if `shares` keeps those of other experts or has no space for them. */
static const double *find_shares(struct bb_expert_shares *shares, const struct bb_routing_config *c)
{
    const struct bb_routing_config *kept = &shares->config;
    const double *found = NULL;

    pthread_mutex_lock(&shares->lock);
    if (!kept->experts) {
        const size_t each = (size_t)c->layers * (size_t)c->experts;

        shares->config = *c;
        shares->senders = (int)(MAX_SHARES / each < (size_t)c->experts ? MAX_SHARES / each : (size_t)c->experts);
        BB_NEW(shares->sums, each * (size_t)shares->senders);
    }
    if (has_same_experts(shares, c) && c->ranks <= shares->senders) {
        sum_all_shares(c, shares->known, c->ranks, shares->senders, shares->sums);
        shares->known = c->ranks > shares->known ? c->ranks : shares->known;
        found = shares->sums;
    }
    pthread_mutex_unlock(&shares->lock);
    return found;
}

static void build_rows(struct bb_routing *r, struct bb_expert_shares *shares)
{
    const struct bb_routing_config *c = &r->config;
    const size_t ranks = (size_t)c->ranks, experts = (size_t)c->experts;
    const double *kept = shares ? find_shares(shares, c) : NULL;
    const size_t senders = kept ? (size_t)shares->senders : ranks;
    double *own = NULL;

    if (!kept) {
        BB_NEW(own, (size_t)c->layers * ranks * experts);
        sum_all_shares(c, 0, c->ranks, c->ranks, own);
    }
    BB_NEW(r->rows, (size_t)c->layers * ranks * ranks);
    BB_NEW(r->received, (size_t)c->layers * ranks);
    for (size_t layer = 0; layer < (size_t)c->layers; layer++) {
        for (size_t from = 0; from < ranks; from++) {
            int *rows = r->rows + (layer * ranks + from) * ranks;

            round_rows(c, (kept ? kept : own) + (layer * senders + from) * experts, rows);
            for (size_t to = 0; to < ranks; to++)
                r->received[layer * ranks + to] += rows[to];
        }
    }
    free(own);
}

void bb_routing_init(struct bb_routing *r, const struct bb_routing_config *c, struct bb_expert_shares *shares)
{
    int choices = c->tokens * c->top_k;

    *r = (struct bb_routing){.config = *c, .uniform_rows = -1};
    if (c->capacity_factor > 0)
        r->uniform_rows = (int)ceil(c->capacity_factor * choices / c->experts) * (c->experts / c->ranks);
    else if (c->load > 0)
        r->uniform_rows = (int)lround(c->load * choices / c->ranks);
    else if (c->imbalance == 0 && choices % c->ranks == 0)
        r->uniform_rows = choices / c->ranks;
    if (r->uniform_rows >= 0 || (shares && take_rows(r, shares)))
        return;
    build_rows(r, shares);
    if (shares)
        keep_rows(r, shares);
}

void bb_routing_release(struct bb_routing *r)
{
    if (!r->is_kept) {
        free(r->rows);
        free(r->received);
    }
    *r = (struct bb_routing){0};
}

int bb_routing_rows(const struct bb_routing *r, int layer, int from, int to)
{
    size_t ranks = (size_t)r->config.ranks;

    return r->rows ? r->rows[((size_t)layer * ranks + (size_t)from) * ranks + (size_t)to] : r->uniform_rows;
}

long bb_routing_received(const struct bb_routing *r, int layer, int to)
{
    const size_t ranks = (size_t)r->config.ranks;

    return r->rows ? r->received[(size_t)layer * ranks + (size_t)to] : (long)ranks * r->uniform_rows;
}
