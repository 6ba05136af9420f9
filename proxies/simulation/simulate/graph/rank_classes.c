/* rank_classes.c - finds classes of equivalent ranks by color refinement (rank_classes.h). The "color" of a rank is a
 * hash that identifies its class; each iteration hashes it with the colors of the rank's peers. */
#include "proxies/simulation/simulate/graph/rank_classes.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/key_index.h"

#include <stdlib.h>
#include <string.h>

/* Maximum of (number of ranks) x (iterations of color refinement, rank_classes.h). If more iterations are needed,
 * each rank gets a separate class. */
#define MAX_RANK_ROUNDS 60000000L
/* After this number of iterations of color refinement (rank_classes.h), each rank's index in its communicators is
 * hashed into the rank's color (class hash), so that refinement ends sooner. */
#define ROUNDS_WITHOUT_INDEX 8

/* ---- ranks and their peers ---- */

int bb_comm_size(const struct bb_layout *l, int comm)
{
    return l->groups[l->comms[comm].group].size;
}

int bb_comm_instance(const struct bb_layout *l, int comm, int rank)
{
    return bb_group_instance(l, l->comms[comm].group, rank);
}

int bb_comm_index(const struct bb_layout *l, int comm, int rank)
{
    return bb_group_index(l, l->comms[comm].group, rank);
}

int bb_channel_rank(const struct bb_layout *l, const struct bb_channel *channel, int rank)
{
    const struct bb_op op = {.comm = channel->comm, .peer = channel->peer, .peer_kind = channel->peer_kind};

    return bb_op_peer_rank(l, &op, rank);
}

struct bb_channels_to bb_channels_to(const struct bb_layout *l, const struct bb_task_graph *graph, int comm, int from,
                                     int to)
{
    int n = bb_comm_size(l, comm), index = bb_comm_index(l, comm, to);
    long long away = (long long)index - bb_comm_index(l, comm, from), min = graph->min_offset[comm];

    /* offset: the smallest relative peer number that addresses rank `to` and is not below `min`, the smallest
     * relative peer number in the role's program */
    return (struct bb_channels_to){graph, comm, index, min + ((away - min) % n + n) % n, n};
}

int bb_channels_to_next(struct bb_channels_to *m)
{
    int c = BB_NONE;

    if (m->absolute != BB_NONE)
        c = bb_task_graph_channel(m->graph, m->comm, BB_PEER_ABSOLUTE, m->absolute);
    m->absolute = BB_NONE;
    for (; c == BB_NONE && m->offset <= m->graph->max_offset[m->comm]; m->offset += m->size)
        c = bb_task_graph_channel(m->graph, m->comm, BB_PEER_OFFSET, (int)m->offset);
    return c;
}

static void check_rank(const struct bb_step *step, const struct bb_task_graph *graph, int rank,
                       struct bb_faults *faults)
{
    const struct bb_layout *l = &step->layout;

    for (int c = 0; c < l->n_comms; c++)
        if (graph->uses[c] && bb_comm_instance(l, c, rank) == BB_NONE)
            bb_fault(faults, "rank %d uses communicator '%s' but is not a member of group '%s'", rank, l->comms[c].name,
                     l->groups[l->comms[c].group].name);
    for (int i = 0; i < graph->n_channels; i++) {
        const struct bb_channel *c = &graph->channels[i];

        if (c->peer_kind == BB_PEER_ABSOLUTE && (c->peer < 0 || c->peer >= bb_comm_size(l, c->comm)))
            bb_fault(faults, "rank %d: peer %d does not exist on communicator '%s', whose ranks are 0 to %d", rank,
                     c->peer, l->comms[c->comm].name, bb_comm_size(l, c->comm) - 1);
    }
}

/* ---- color refinement (rank_classes.h) ---- */

struct refinement {
    const struct bb_step *step;
    const struct bb_task_graph *graphs;
    int gpus_per_node;
    const struct bb_rank_marks *marks;
    uint64_t *resource_sums[BB_RANK_RESOURCES]; /* [NICs, leaves or pods] sum of the hashes that identify the
                                                   classes of the ranks that share the resource */
    bool collective[BB_MAX_COMMS]; /* true: the program of at least one role runs collectives on this communicator */
    size_t *first_edge; /* [ranks + 1] first element of peer[] and edge[] for each rank; a rank has one element for
                           each distinct combination of communicator and peer in its program (struct bb_channel) */
    int *peer;          /* [first_edge[ranks]] world rank that the peer address leads to */
    uint64_t *edge;     /* [first_edge[ranks]] hash of the properties that no iteration changes: the peer addresses from
                           the rank to the peer and back, and the kind of link */
    uint64_t *color, *next; /* [ranks] hash that identifies the class of each rank, in this iteration and in the next */
    uint64_t *sums[BB_MAX_COMMS]; /* [communicators of the group] sum of the hashes that identify the classes of the
                                     members; only for communicators that run collectives */
    int *instance[BB_MAX_GROUPS]; /* [ranks] index of the group's communicator (for example which tensor-parallel
                                     group) to which the rank belongs; computed once, used in every iteration */
    /* maps the hash of a class to the index of the class; classes are numbered in ascending order of lowest ranks */
    struct bb_key_index classes;
};

static uint64_t mix_hash(uint64_t a, uint64_t b)
{
    uint64_t x = a + 0x9e3779b97f4a7c15u + b * 0xd6e8feb86659fd93u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static const struct bb_task_graph *graph_of(const struct refinement *p, int rank)
{
    return &p->graphs[p->step->role_of[rank]];
}

/* Returns a hash of all peer addresses (struct bb_channel) by which rank `from` addresses rank `to` on this
 * communicator. Their order does not affect the hash. */
static uint64_t hash_channels_to(const struct refinement *p, int from, int comm, int to)
{
    struct bb_channels_to m = bb_channels_to(&p->step->layout, graph_of(p, from), comm, from, to);
    uint64_t set = 0;

    for (int c; (c = bb_channels_to_next(&m)) != BB_NONE;)
        set += mix_hash(1, (uint64_t)c);
    return set;
}

static void add_edges(struct refinement *p, int rank, size_t edge)
{
    const struct bb_task_graph *s = graph_of(p, rank);

    for (int c = 0; c < s->n_channels; c++, edge++) {
        int comm = s->channels[c].comm, peer = bb_channel_rank(&p->step->layout, &s->channels[c], rank);
        bool known = bb_comm_instance(&p->step->layout, comm, peer) != BB_NONE && graph_of(p, peer)->uses[comm];
        uint64_t back = known ? hash_channels_to(p, peer, comm, rank) : 0;
        int link = p->marks->link_kind ? p->marks->link_kind(p->marks->arg, rank, peer)
                                       : bb_same_node(p->gpus_per_node, rank, peer);

        p->peer[edge] = peer;
        p->edge[edge] = mix_hash(mix_hash(back, hash_channels_to(p, rank, comm, peer)),
                                 mix_hash((uint64_t)link, (uint64_t)(peer == rank)));
    }
}

static int instance_of(const struct refinement *p, int comm, int rank)
{
    return p->instance[p->step->layout.comms[comm].group][rank];
}

/* Computes p->sums[comm]: for each communicator of this name (for example each tensor-parallel group), the sum of
 * the hashed colors (class hashes) of its members, which does not depend on their order. */
static void sum_instances(struct refinement *p, int comm)
{
    const struct bb_layout *l = &p->step->layout;
    const int group = l->comms[comm].group, *instance = p->instance[group];

    memset(p->sums[comm], 0, sizeof(uint64_t) * (size_t)l->groups[group].instances);
    for (int r = 0; r < l->ranks; r++)
        if (instance[r] != BB_NONE)
            p->sums[comm][instance[r]] += mix_hash(2, p->color[r]);
}

static uint64_t refine_rank(const struct refinement *p, int rank)
{
    const struct bb_layout *l = &p->step->layout;
    uint64_t color = p->color[rank];

    for (size_t e = p->first_edge[rank]; e < p->first_edge[rank + 1]; e++)
        color = mix_hash(color, mix_hash(p->edge[e], p->color[p->peer[e]]));
    for (int c = 0; c < l->n_comms; c++)
        if (p->collective[c]) {
            int instance = instance_of(p, c, rank);

            color = mix_hash(color, instance == BB_NONE ? 0 : p->sums[c][instance]);
        }
    for (int i = 0; i < p->marks->n_resources; i++)
        color = mix_hash(color, p->resource_sums[i][p->marks->resources[i].of[rank]]);
    return color;
}

static int count_colors(struct refinement *p)
{
    bb_key_index_clear(&p->classes);
    for (int r = 0; r < p->step->layout.ranks; r++)
        bb_key_index_add(&p->classes, &p->color[r]);
    return p->classes.n;
}

static void refine_round(struct refinement *p)
{
    const struct bb_layout *l = &p->step->layout;
    uint64_t *swap = p->color;

    for (int c = 0; c < l->n_comms; c++)
        if (p->collective[c])
            sum_instances(p, c);
    for (int i = 0; i < p->marks->n_resources; i++) {
        const struct bb_rank_resource *resources = &p->marks->resources[i];

        memset(p->resource_sums[i], 0, sizeof(uint64_t) * (size_t)resources->n);
        for (int r = 0; r < l->ranks; r++)
            p->resource_sums[i][resources->of[r]] += mix_hash(4, p->color[r]);
    }
    for (int r = 0; r < l->ranks; r++)
        p->next[r] = refine_rank(p, r);
    p->color = p->next;
    p->next = swap;
}

int bb_group_nodes(const struct bb_layout *l, int group, int instance, int gpus_per_node)
{
    int nodes = 1;

    for (int i = 1; i < l->groups[group].size; i++)
        nodes += !bb_same_node(gpus_per_node, bb_group_member(l, group, instance, i - 1),
                               bb_group_member(l, group, instance, i));
    return nodes;
}

/* Sets the initial color (class hash) of each rank: a hash of the rank's role (its program), its mark (bb_rank_marks),
 * and the number of nodes of each of its communicators that runs collectives. If the role's program gives the root of a
 * collective relative to the calling rank, the rank's index in the communicator is hashed, too. */
static void set_first_colors(struct refinement *p)
{
    const struct bb_layout *l = &p->step->layout;

    for (int c = 0; c < l->n_comms; c++)
        for (int i = 0; p->collective[c] && i < l->groups[l->comms[c].group].instances; i++)
            p->sums[c][i] = (uint64_t)bb_group_nodes(l, l->comms[c].group, i, p->gpus_per_node) + 2;
    for (int r = 0; r < l->ranks; r++) {
        p->color[r] = mix_hash(3, (uint64_t)p->step->role_of[r]);
        if (p->marks->mark)
            p->color[r] = mix_hash(p->color[r], p->marks->mark[r]);
        for (int c = 0; c < l->n_comms; c++) {
            int instance = p->collective[c] ? instance_of(p, c, r) : BB_NONE;

            p->color[r] = mix_hash(p->color[r], instance == BB_NONE ? 2 : p->sums[c][instance]);
            if (graph_of(p, r)->rooted_by_offset && instance != BB_NONE)
                p->color[r] = mix_hash(p->color[r], (uint64_t)bb_comm_index(l, c, r));
        }
    }
}

static void make_singletons(struct refinement *p)
{
    for (int r = 0; r < p->step->layout.ranks; r++)
        p->color[r] = (uint64_t)r;
    count_colors(p);
}

static void refine_classes(struct refinement *p)
{
    const struct bb_layout *l = &p->step->layout;
    long work = 0;
    int now;

    if (p->marks->all_distinct) {
        make_singletons(p);
        return;
    }
    set_first_colors(p);
    now = count_colors(p);
    for (int round = 1; work <= MAX_RANK_ROUNDS; round++, work += l->ranks) {
        int before = now;

        refine_round(p);
        now = count_colors(p);
        if (now == before || now == l->ranks)
            return;
        /* Without this shortcut, each iteration separates only one more rank of a long chain of ranks from the
         * others. */
        for (int r = 0; round == ROUNDS_WITHOUT_INDEX && r < l->ranks; r++)
            for (int c = 0; c < graph_of(p, r)->n_channels; c++)
                p->color[r] = mix_hash(p->color[r], (uint64_t)bb_comm_index(l, graph_of(p, r)->channels[c].comm, r));
    }
    make_singletons(p);
}

/* ---- result: classes of equivalent ranks ---- */

static void refinement_init(struct refinement *p)
{
    const struct bb_layout *l = &p->step->layout;
    size_t ranks = (size_t)l->ranks, edges = 0;

    BB_NEW(p->first_edge, ranks);
    for (int r = 0; r < l->ranks; r++)
        p->first_edge[r + 1] = edges += (size_t)graph_of(p, r)->n_channels;
    p->classes.key_bytes = sizeof(uint64_t);
    BB_NEW(p->peer, edges);
    BB_NEW(p->edge, edges);
    BB_NEW(p->color, ranks);
    BB_NEW(p->next, ranks);
    for (int i = 0; i < p->marks->n_resources; i++)
        BB_NEW(p->resource_sums[i], p->marks->resources[i].n);
    for (int c = 0; c < l->n_comms; c++) {
        int **instance;

        for (int r = 0; r < p->step->n_roles; r++)
            p->collective[c] |= p->graphs[r].n_collectives[c] > 0;
        BB_NEW(p->sums[c], l->groups[l->comms[c].group].instances);
        instance = &p->instance[l->comms[c].group];
        if (!p->collective[c] || *instance)
            continue;
        BB_NEW(*instance, l->ranks);
        for (int r = 0; r < l->ranks; r++)
            (*instance)[r] = bb_group_instance(l, l->comms[c].group, r);
    }
}

static void refinement_release(struct refinement *p)
{
    for (int c = 0; c < BB_MAX_COMMS; c++)
        free(p->sums[c]);
    for (int g = 0; g < BB_MAX_GROUPS; g++)
        free(p->instance[g]);
    free(p->first_edge);
    free(p->peer);
    free(p->edge);
    free(p->color);
    free(p->next);
    for (int i = 0; i < BB_RANK_RESOURCES; i++)
        free(p->resource_sums[i]);
    bb_key_index_release(&p->classes);
}

static void list_classes(struct bb_rank_classes *c, const struct refinement *p)
{
    const int ranks = p->step->layout.ranks;

    BB_NEW(c->of, ranks);
    BB_NEW(c->rank, p->classes.n);
    BB_NEW(c->ranks, p->classes.n);
    for (int r = 0; r < ranks; r++) {
        c->of[r] = bb_key_index_find(&p->classes, &p->color[r]);
        if (c->of[r] == c->n)
            c->rank[c->n++] = r;
        c->ranks[c->of[r]]++;
    }
}

void bb_rank_classes_init(struct bb_rank_classes *c, const struct bb_step *step, const struct bb_task_graph *graphs,
                          int gpus_per_node, const struct bb_rank_marks *marks, struct bb_faults *faults)
{
    struct refinement p = {.step = step, .graphs = graphs, .gpus_per_node = gpus_per_node, .marks = marks};
    int found = faults->n;

    *c = (struct bb_rank_classes){0};
    for (int r = 0; r < step->layout.ranks; r++)
        check_rank(step, &graphs[step->role_of[r]], r, faults);
    if (faults->n > found)
        return;
    refinement_init(&p);
    for (int r = 0; r < step->layout.ranks; r++)
        add_edges(&p, r, p.first_edge[r]);
    refine_classes(&p);
    list_classes(c, &p);
    refinement_release(&p);
}

void bb_rank_classes_release(struct bb_rank_classes *c)
{
    free(c->of);
    free(c->rank);
    free(c->ranks);
    *c = (struct bb_rank_classes){0};
}
