/* tiling.c - places a network on the ranks: computes the splits (pipeline stages), the model-parallel ranks, the
 * groups and the roles (see tiling.h). */
#include "proxies/workloads/spatial/tiling.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- splits (pipeline stages) ---- */

/* Sets ranks and layers of all splits for micro-batches of `samples` samples; replaces those of an earlier call. */
static int make_splits(struct bb_tiling *t, int samples)
{
    struct bb_proxy_config config = t->config;
    int module = 0, base = 0, rc = 0;

    config.forward_us *= (double)samples / t->batches.sizes[0]; /* the given times are those of the first size */
    config.backward_us *= (double)samples / t->batches.sizes[0];
    for (int i = 0; i < t->n_splits; i++) {
        struct bb_layer_split *split = &t->splits[i];
        const struct bb_split_layers resolved = {.n = split->layers.n, .slices = split->layers.slices};
        bool tiled = i < t->n_spatial;

        bb_split_layers_release(&split->layers);
        split->layers = resolved;
        if (!tiled) {
            split->width = t->local_dp;
            split->layers.slices = (struct bb_slices){1, 1};
        }
        split->base = base;
        split->layers.first = module;
        split->layers.tiled = tiled;
        split->layers.samples = samples / (tiled ? 1 : t->local_dp);
        TRY(bb_split_layers_init(&config, &t->net, t->step, &split->layers));
        base += split->width;
        module += split->layers.n;
    }
    t->tiles = base - (t->n_splits - t->n_spatial) * t->local_dp;
    t->mp = base;
    t->replicas = t->config.ranks / t->mp;
out:
    return rc;
}

struct bb_tile_position bb_tiling_position(const struct bb_tiling *t, int mp_rank)
{
    int split = t->n_splits - 1;

    while (t->splits[split].base > mp_rank)
        split--;
    return (struct bb_tile_position){split, mp_rank - t->splits[split].base};
}

/* ---- groups and communicators ---- */

/* The ranks of a group that is being built, listed one communicator after another. */
struct listing {
    int *members;
    int n;
};

static void list_rank(struct listing *l, int rank)
{
    BB_GROW(l->members, l->n);
    l->members[l->n++] = rank;
}

/* Appends n model-parallel ranks (numbers of ranks in a replica) to the list: first, first + stride, first + 2 *
 * stride and so on. direction: BB_DIRECT or BB_INVERSE replica of GEMS. The world ranks are appended in ascending
 * order. */
static void list_mp_ranks(const struct bb_tiling *t, struct listing *l, int replica, int direction, int first, int n,
                          int stride)
{
    for (int i = 0; i < n; i++) {
        int mp_rank = first + stride * (direction == BB_INVERSE ? n - 1 - i : i);

        list_rank(l, replica * t->mp + (direction == BB_INVERSE ? t->mp - 1 - mp_rank : mp_rank));
    }
}

/* Adds communicators of a group for messages between adjacent splits (pipeline stages) and stores their indices in
 * comms[]. links: number of communicators; consecutive pairs of splits alternate between them. A single communicator
 * has the name of the group; two have the suffixes 0 and 1, for example "lp 0" and "lp 1". */
static void add_comms(struct bb_tiling *t, int group, const char *name, int links, int *comms)
{
    for (int i = 0; i < links; i++) {
        const char *text = links == 1 ? name : bb_step_text(t->step, "%s %d", name, i);

        comms[i] = bb_layout_add_comm(&t->step->layout, text, group);
    }
}

/* Adds the group `name` with the listed ranks, in which each `size` consecutive ranks form an instance, and its
 * communicators (see add_comms). Frees the list. */
static void add_listed_group(struct bb_tiling *t, struct listing *l, const char *name, int size, int links, int *comms)
{
    add_comms(t, bb_layout_add_irregular(&t->step->layout, name, l->members, l->n / size, size), name, links, comms);
    free(l->members);
    *l = (struct listing){0};
}

/* Returns whether the gradients of a split (pipeline stage) are summed over both replicas of GEMS, and over all pairs
 * of replicas. */
static bool sums_replicas(const struct bb_tiling *t)
{
    return t->gems && !t->config.tiles.comm_opt;
}

/* Appends the ranks of the tiles of split i (a pipeline stage) and of the following splits with the same number of
 * tiles: for each split, the tiles of each replica in each direction of GEMS. */
static void list_all_tiles(const struct bb_tiling *t, struct listing *l, int i)
{
    for (int s = i; s < t->n_spatial && t->splits[s].width == t->splits[i].width; s++)
        for (int r = 0; r < t->replicas; r++)
            for (int direction = 0; direction < (t->gems ? BB_REPLICAS : 1); direction++)
                list_mp_ranks(t, l, r, direction, t->splits[s].base, t->splits[s].width, 1);
}

/* Adds the groups `halo` (tiles that exchange halos) and `spatial` (tiles whose weight gradients are summed) for
 * split i and the following splits with the same number of tiles. */
static void add_tile_groups(struct bb_tiling *t, int i)
{
    int width = t->splits[i].width, whole = sums_replicas(t) ? BB_REPLICAS * width * t->replicas : width, halo_comm,
        spatial_comm;
    bool same_width = t->splits[0].width == t->splits[t->n_spatial - 1].width;
    const char *halo = same_width ? "halo" : bb_step_text(t->step, "halo of %d", width);
    const char *spatial = same_width ? "spatial" : bb_step_text(t->step, "spatial of %d", width);
    struct listing l = {0};

    list_all_tiles(t, &l, i);
    add_listed_group(t, &l, halo, width, 1, &halo_comm);
    list_all_tiles(t, &l, i);
    add_listed_group(t, &l, spatial, whole, 1, &spatial_comm);
    for (int s = i; s < t->n_spatial && t->splits[s].width == width; s++) {
        t->splits[s].comm_halo = halo_comm;
        t->splits[s].comm_spatial = spatial_comm;
    }
}

/* The communicators of a group in one replica: communicator i, 0 <= i < instances, contains the n model-parallel ranks
 * first + i * step + k * stride, 0 <= k < n. */
struct subgroups {
    int instances, first, step, n, stride;
};

/* Adds the group `name` with the communicators that p describes, in each replica. direction: BB_DIRECT or BB_INVERSE
 * replica of GEMS; links: number of communicators of each member set, between which consecutive pairs of adjacent
 * splits alternate; comms: out: [links] their indices. */
static void add_subgroups(struct bb_tiling *t, int direction, const char *name, struct subgroups p, int links,
                          int *comms)
{
    struct listing l = {0};

    for (int r = 0; r < t->replicas; r++)
        for (int i = 0; i < p.instances; i++)
            list_mp_ranks(t, &l, r, direction, p.first + i * p.step, p.n, p.stride);
    add_listed_group(t, &l, name, p.n, links, comms);
}

/* Adds the groups `join` (tiles and the ranks that join them to whole maps) and `lp` (pipeline of splits on whole
 * maps). Without tiles, both replicas of GEMS share the group `lp`, because their pipelines have the same members
 * and use the connections between adjacent splits in the same order. */
static void add_pipelines(struct bb_tiling *t)
{
    int links = t->n_splits - t->n_spatial - 1, d = t->local_dp;

    t->n_join = t->n_spatial > 1 ? 2 : t->n_spatial;
    t->n_lp = links > 1 ? 2 : links;
    for (int direction = 0; direction < (t->gems ? BB_REPLICAS : 1); direction++) {
        const struct subgroups whole = {.instances = 1, .n = t->tiles + d, .stride = 1};
        const struct subgroups chain = {.instances = d, .first = t->tiles, .step = 1, .n = links + 1, .stride = d};
        bool inverse = direction == BB_INVERSE;

        if (t->n_join)
            add_subgroups(t, direction, inverse ? "join inverse" : "join", whole, t->n_join, t->comm_join[direction]);
        if (t->n_lp && inverse && !t->n_spatial)
            memcpy(t->comm_lp[direction], t->comm_lp[BB_DIRECT], sizeof(t->comm_lp[direction]));
        else if (t->n_lp)
            add_subgroups(t, direction, inverse ? "lp inverse" : "lp", chain, t->n_lp, t->comm_lp[direction]);
        for (int i = 0; i < t->n_join; i++)
            t->step->layout.comms[t->comm_join[direction][i]].between_stages = true;
        for (int i = 0; i < t->n_lp; i++)
            t->step->layout.comms[t->comm_lp[direction][i]].between_stages = true;
    }
}

/* Adds the group `pair` of GEMS. With --comm-opt, a communicator has the ranks r and mp - 1 - r of one pair of
 * replicas, otherwise these two ranks of all pairs of replicas. */
static void add_pairs(struct bb_tiling *t)
{
    bool per_replica = t->config.tiles.comm_opt;
    struct listing l = {0};

    for (int i = 0; i < (per_replica ? t->replicas : 1) * (t->mp / 2); i++)
        for (int r = 0; r < (per_replica ? 1 : t->replicas); r++) {
            int replica = per_replica ? i / (t->mp / 2) : r, mp_rank = i % (t->mp / 2);

            list_rank(&l, replica * t->mp + mp_rank);
            list_rank(&l, replica * t->mp + t->mp - 1 - mp_rank);
        }
    add_listed_group(t, &l, "pair", 2 * (per_replica ? 1 : t->replicas), 1, &t->comm_pair);
}

/* Adds the groups `batch norm` of --sync-bn: the ranks of a split in all replicas, which normalize parts of the same
 * batch. Consecutive splits with the same number of ranks share a group. */
static void add_norm_groups(struct bb_tiling *t)
{
    struct listing l = {0};

    for (int i = 0, end; i < t->n_splits; i = end) {
        int width = t->splits[i].width, size = width * t->replicas, comm = BB_NONE;

        for (end = i; end < t->n_splits && t->splits[end].width == width; end++)
            for (int r = 0; r < t->replicas && t->config.sync.sync_bn && size > 1; r++)
                list_mp_ranks(t, &l, r, BB_DIRECT, t->splits[end].base, width, 1);
        if (l.n)
            add_listed_group(t, &l, i == 0 ? "batch norm" : bb_step_text(t->step, "batch norm of %d", size), size, 1,
                             &comm);
        for (int s = i; s < end; s++) {
            t->splits[s].comm_norm = comm;
            t->splits[s].n_norm = size;
        }
    }
}

static int add_groups(struct bb_tiling *t)
{
    struct bb_layout *l = &t->step->layout;
    const struct bb_axis axes[] = {{"mp", t->mp}, {"dp", t->replicas}};
    bool sums_all = sums_replicas(t);
    int d = t->local_dp, rc;
    const struct subgroups local_replicas = {
        .instances = t->n_splits - t->n_spatial, .first = t->tiles, .step = d, .n = d, .stride = 1};

    TRY(bb_layout_init(l, t->config.ranks, axes, 2));
    for (int i = 0; i < t->n_spatial; i++)
        if (i == 0 || t->splits[i].width != t->splits[i - 1].width)
            add_tile_groups(t, i);
    add_pipelines(t);
    add_norm_groups(t);
    if (d > 1)
        add_subgroups(t, BB_DIRECT, "local_dp", local_replicas, 1, &t->comm_local_dp);
    if (t->gems)
        add_pairs(t);
    if (sums_all && t->mp % 2 && t->replicas > 1) {
        struct listing middle = {0};

        for (int r = 0; r < t->replicas; r++)
            list_rank(&middle, r * t->mp + t->mp / 2);
        add_listed_group(t, &middle, "middle", t->replicas, 1, &t->comm_middle);
    }
    if (!sums_all && t->replicas > 1)
        add_comms(t, bb_layout_add_group(l, "dp", 1u << 1), "dp", 1, &t->comm_dp);
out:
    return rc;
}

/* ---- roles (ranks with the same program) ---- */

/* Returns whether model-parallel ranks a and b run the same program. Two tiles of one split (pipeline stage) do if
 * they have neighbours in the same directions and all spatial splits have the same number of tiles; with different
 * numbers of tiles, the offsets to their peers in the next split differ. */
static bool same_program(const struct bb_tiling *t, int a, int b)
{
    struct bb_tile_position p = bb_tiling_position(t, a), q = bb_tiling_position(t, b);
    const struct bb_layer_split *s = &t->splits[p.split];

    if (p.split != q.split)
        return false;
    if (p.split >= t->n_spatial)
        return true; /* the split works on whole maps, so all its ranks are data parallel and run the same program */
    return t->splits[0].width == t->splits[t->n_spatial - 1].width &&
           bb_tile_neighbour_mask(&s->layers.slices, p.index) == bb_tile_neighbour_mask(&s->layers.slices, q.index);
}

/* Computes the roles (ranks with the same program). role_of: out: [mp] index of the role of each model-parallel
 * rank; first: out: [role] lowest model-parallel rank of each role. Returns the number of roles. */
static int find_roles(const struct bb_tiling *t, int *role_of, int *first)
{
    int n = 0;

    for (int mp_rank = 0; mp_rank < t->mp; mp_rank++) {
        int role = 0;

        while (role < n && !(same_program(t, mp_rank, first[role]) &&
                             (!t->gems || same_program(t, t->mp - 1 - mp_rank, t->mp - 1 - first[role]))))
            role++;
        if (role == n)
            first[n++] = mp_rank;
        role_of[mp_rank] = role;
    }
    return n;
}

/* Builds the roles: for each size of micro-batches, one role for each set of model-parallel ranks with the same
 * program. */
static int build_roles(struct bb_tiling *t, int (*build)(struct bb_tiling *t, struct bb_role *role, int mp_rank))
{
    const struct bb_batches *b = &t->batches;
    int *role_of = NULL, *first = NULL, n, rc;

    BB_NEW(role_of, t->mp);
    BB_NEW(first, t->mp);
    n = find_roles(t, role_of, first);
    TRY(bb_step_add_roles(t->step, n * b->n_sizes));
    for (int i = 0; i < n * b->n_sizes; i++) {
        struct bb_role *role = &t->step->roles[i];

        if (i > 0 && i % n == 0)
            TRY(make_splits(t, b->sizes[i / n]));
        TRY(build(t, role, first[i % n]));
        if (b->n_sizes > 1)
            role->name = bb_step_text(t->step, "%s, micro-batches of %d", role->name, b->sizes[i / n]);
    }
    for (int r = 0; r < t->config.ranks; r++)
        t->step->role_of[r] = b->index[r / t->mp % b->n] * n + role_of[r % t->mp];
out:
    free(role_of);
    free(first);
    return rc;
}

/* ---- summary line of the step ---- */

static void describe_step(struct bb_tiling *t)
{
    const struct bb_proxy_config *c = &t->config;
    const struct bb_layer_split *first = &t->splits[0], *last = &t->splits[t->n_spatial ? t->n_spatial - 1 : 0];
    const char *parity = c->tiles.odd_step ? "odd" : "even", *tiles = "", *local = "", *passes = "", *exchange = "";
    const char *schedule = t->schedule.kind == BB_1F1B ? " in 1F1B order" : "";
    const char *width = bb_step_text(t->step, "%d", first->width);

    if (first->width != last->width)
        width = bb_step_text(t->step, "%d to %d", first->width, last->width);
    if (t->n_spatial)
        tiles = bb_step_text(t->step, ", %d of them on %s %s tiles%s", t->n_spatial, width,
                             bb_slices_name(&first->layers.slices), c->tiles.halo_d2 ? ", fused halos" : "");
    if (t->local_dp > 1)
        local = bb_step_text(t->step, ", %d local replicas", t->local_dp);
    if (c->tiles.comm_opt)
        exchange = bb_step_text(t->step, " comm-opt (%s step, no all-reduce between replicas)", parity);
    if (t->gems)
        passes =
            bb_step_text(t->step, ", %d replications: %s%s%s", c->tiles.replications,
                         c->tiles.replications > 2 ? "MASTER" : "MAST", t->replicas > 1 ? " Hybrid" : "", exchange);
    t->step->parameters = t->net.parameters;
    t->step->samples = (double)c->tiles.replications * c->micro_batches * (double)t->batches.samples;
    t->step->summary =
        bb_step_text(t->step, "%s at %d, %d split%s%s%s%s, %d micro-batch%s of %s%s, %d replica%s%s", t->net.name,
                     t->net.image, t->n_splits, bb_plural(t->n_splits), tiles, local, passes, c->micro_batches,
                     c->micro_batches == 1 ? "" : "es", bb_batches_text(t->step, &t->batches), schedule, t->replicas,
                     bb_plural(t->replicas), bb_batches_weights(&t->batches));
}

int bb_tiling_step(const struct bb_proxy_config *config, enum bb_tiling_kind kind, struct bb_step *step,
                   int (*build)(struct bb_tiling *t, struct bb_role *role, int mp_rank))
{
    const struct bb_net_options options = {config->tiles.image_size, config->layers, config->tiles.filters};
    struct bb_tiling t = {.config = *config,
                          .step = step,
                          .gems = kind == BB_TILING_GEMS,
                          .layers_only = kind == BB_TILING_LAYERS,
                          .comm_local_dp = BB_NONE,
                          .comm_dp = BB_NONE,
                          .comm_pair = BB_NONE,
                          .comm_middle = BB_NONE};
    int rc;

    TRY(bb_net_load(config->model ? config->model : "resnet110_v2", &options, &t.net));
    TRY(bb_resolve_tiles(&t));
    TRY(make_splits(&t, t.batches.sizes[0]));
    describe_step(&t);
    TRY(add_groups(&t));
    TRY(build_roles(&t, build));
out:
    for (int i = 0; t.splits && i < t.net.n_modules; i++) /* after an error, n_splits may exceed the array */
        bb_split_layers_release(&t.splits[i].layers);
    free(t.splits);
    bb_net_release(&t.net);
    return rc;
}
