/* split_layers.c - groups the layers of a split (pipeline stage) into segments, each with one halo exchange (see
 * split_layers.h). */
#include "proxies/workloads/spatial/split_layers.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The first map (tensor between layers) of the split for which the image is too small to be tiled. module: index of
 * its module; side: height (= width) of the whole map; lines: "rows" or "columns"; tile: number of these rows or
 * columns in a tile; needed: number that the halo or the stride requires. scale: factor by which the image must be
 * enlarged so that the tiles of all maps of the split are large enough. */
struct thin_tiles {
    int scale; /* 1: all tiles are large enough, and the other fields are unused */
    int module, side, tile, needed;
    const char *lines;
};

/* State while the modules (blocks or cells) of a split (pipeline stage) are divided into segments, which are layers
 * with one halo exchange. */
struct segment_builder {
    const struct bb_proxy_config *config;
    const struct bb_net *net;
    struct bb_step *step;
    struct bb_split_layers *layers;
    struct thin_tiles thin_tiles;
    enum bb_dtype_id dtype;
    bool gemm;
};

static const int none[2]; /* rows and columns (0, 0) of a halo or margin that does not exist */

/* ---- operations of a segment (layers with one halo exchange) ---- */

/* Number of rows and columns of a layer's output that this rank computes: those of its tile and, with fused halos,
 * of the margin around the tile, which neighbours compute, too. */
struct extent {
    int rows, cols;
};

static struct extent get_extent(const struct segment_builder *c, const struct bb_net_layer *l, const int margin[2])
{
    int side = bb_net_layer_out_side(l);

    return (struct extent){side / c->layers->slices.rows + 2 * margin[0],
                           side / c->layers->slices.cols + 2 * margin[1]};
}

/* Appends layer l to the compute operation p of a segment (layers with one halo exchange). e: rows and columns of
 * the layer's output that this rank computes, including the margin around its tile. */
static int add_to_op(const struct segment_builder *c, struct bb_segment_op *p, const struct bb_net_layer *l,
                     struct extent e)
{
    const struct extent tile = get_extent(c, l, none);
    double flops = bb_net_layer_flops(l, e.rows, e.cols) * c->layers->samples;
    double needed = fmin(flops, bb_net_layer_flops(l, tile.rows, tile.cols) * c->layers->samples);

    if (c->thin_tiles.scale > 1)
        return 0; /* the tiles are too small, which check_thin_tiles reports later */
    p->what = p->what ? p->what : l->name;
    p->flops[BB_FORWARD] += flops;
    p->flops[BB_BACKWARD] += (l->first ? 1 : 2) * flops;
    p->model_flops[BB_FORWARD] += needed;
    p->model_flops[BB_BACKWARD] += (l->first ? 1 : 2) * needed;
    for (int direction = 0; c->gemm && direction < BB_PASS_DIRECTIONS; direction++) {
        struct bb_kernel_list *kernels = p->kernels[direction];

        kernels = kernels ? kernels : bb_step_add_kernel_list(c->step);
        p->kernels[direction] = kernels;
        if (!bb_net_layer_kernels(kernels, l, c->layers->samples, e.rows, e.cols, c->dtype, direction == BB_BACKWARD) ||
            kernels->overflowed)
            return bb_err(BB_EFAIL, "%s: layer '%s' exceeds the supported sizes", c->net->name, l->name);
    }
    return 0;
}

/* ---- segments without fused halos: one halo exchange per layer ---- */

static struct bb_segment *open_segment(const struct segment_builder *c, int module)
{
    struct bb_split_layers *layers = c->layers;

    BB_GROW(layers->segments, layers->n_segments);
    layers->segments[layers->n_segments] = (struct bb_segment){.module = module};
    return &layers->segments[layers->n_segments++];
}

/* Checks whether the tiles of a map (tensor between layers) have at least `stride` rows and columns, and at least
 * the width[0] rows and width[1] columns that a tile sends to each neighbour. If not, stores in c->thin_tiles the
 * first such map and the factor by which the image must be enlarged. */
static void find_thin_tiles(struct segment_builder *c, const struct bb_map *map, const int width[2], int stride,
                            int module)
{
    int parts[2] = {c->layers->slices.rows, c->layers->slices.cols};

    for (int i = 0; i < 2; i++) {
        int needed = width[i] > stride ? width[i] : stride, scale = 1;

        while (parts[i] > 1 && (int64_t)map->side * scale / parts[i] < needed && scale < 1 << 20)
            scale *= 2;
        if (c->thin_tiles.scale == 1 && scale > 1)
            c->thin_tiles =
                (struct thin_tiles){1, module, map->side, map->side / parts[i], needed, i ? "columns" : "rows"};
        c->thin_tiles.scale = scale > c->thin_tiles.scale ? scale : c->thin_tiles.scale;
    }
}

static int check_thin_tiles(const struct segment_builder *c)
{
    const struct bb_net *net = c->net;
    const struct thin_tiles *t = &c->thin_tiles;

    if (t->scale == 1)
        return 0;
    return bb_err(BB_EUSAGE,
                  "%s: '%s' has a map of %d x %d, whose tiles of %d %s are smaller than the halo or stride of %d; "
                  "try: --image-size %lld, or fewer parts or spatial splits",
                  net->name, net->modules[t->module].name, t->side, t->side, t->tile, t->lines, t->needed,
                  (long long)net->image * t->scale);
}

static void add_halo(struct segment_builder *c, struct bb_segment *s, const struct bb_halo *halo, int stride)
{
    find_thin_tiles(c, &halo->map, halo->width, stride, s->module);
    if (bb_halo_is_exchanged(halo->width, &c->layers->slices))
        s->halos[s->n_halos++] = *halo;
}

static struct bb_map input_of(const struct bb_net_layer *l)
{
    return (struct bb_map){l->in, l->depth, l->side};
}

/* For --halo-overlap: divides the forward pass of l, the only layer that reads the segment's halo, into two
 * operations: the inner area of the tile, and the border at edges with neighbours. Only the border waits for the
 * halo. */
static int split_head(const struct segment_builder *c, struct bb_segment *s, const struct bb_net_layer *l)
{
    struct extent all = get_extent(c, l, none);
    int vertical = c->layers->slices.rows > 1 ? (l->halo[0] + l->stride - 1) / l->stride : 0;
    int horizontal = c->layers->slices.cols > 1 ? (l->halo[1] + l->stride - 1) / l->stride : 0;
    struct extent inner = {all.rows - 2 * vertical, all.cols - 2 * horizontal};
    int rc = 0;

    if (inner.rows < 1 || inner.cols < 1)
        return add_to_op(c, &s->border, l, all);
    TRY(add_to_op(c, &s->inner, l, inner));
    for (int i = 0; i < 2 && vertical; i++)
        TRY(add_to_op(c, &s->border, l, (struct extent){vertical, all.cols}));
    for (int i = 0; i < 2 && horizontal; i++)
        TRY(add_to_op(c, &s->border, l, (struct extent){inner.rows, horizontal}));
out:
    return rc;
}

/* Adds the segment (layers with one halo exchange) of layer l: the halo exchange and the layer's compute. */
static int add_halo_segment(struct segment_builder *c, int module, const struct bb_net_layer *l)
{
    struct bb_halo halo = {"halo", input_of(l), {l->halo[0], l->halo[1]}};
    struct bb_segment *s = open_segment(c, module);
    int rc;

    add_halo(c, s, &halo, l->stride);
    TRY(add_to_op(c, &s->head, l, get_extent(c, l, none)));
    s->outputs = halo;
    s->outputs.map = (struct bb_map){l->out, bb_net_layer_out_depth(l), bb_net_layer_out_side(l)};
    if (c->config->tiles.halo_overlap)
        TRY(split_head(c, s, l));
out:
    return rc;
}

static int segment_module(struct segment_builder *c, int module)
{
    const struct bb_module *m = &c->net->modules[module];
    bool open = false;
    int rc = 0;

    for (int i = m->first; i < m->first + m->n; i++, open = true) {
        const struct bb_net_layer *l = &c->net->layers[i];
        const struct bb_map in = input_of(l);

        if (bb_halo_is_exchanged(l->halo, &c->layers->slices)) {
            TRY(add_halo_segment(c, module, l));
        } else {
            if (!open || c->layers->segments[c->layers->n_segments - 1].norm)
                (void)open_segment(c, module);
            find_thin_tiles(c, &in, none, l->stride, module);
            TRY(add_to_op(c, &c->layers->segments[c->layers->n_segments - 1].tail, l, get_extent(c, l, none)));
        }
        c->layers->segments[c->layers->n_segments - 1].norm = c->config->sync.sync_bn ? l->norm : 0;
    }
out:
    return rc;
}

/* ---- segments with fused halos: one halo exchange for several layers ---- */

/* Adds the segments of a chain of n modules, beginning with `module`, that share one halo exchange before the first.
 * Around its tile, the rank computes the margin of each layer's output that the later layers of the chain read. */
static int segment_chain(struct segment_builder *c, int module, int n)
{
    const struct bb_module *modules = c->net->modules, *last = &modules[module + n - 1];
    int first = modules[module].first, layers = last->first + last->n - first, *margins, halo = 0, rc = 0;

    BB_NEW(margins, layers);
    for (int i = layers - 1; i >= 0; i--) {
        const struct bb_net_layer *l = &c->net->layers[first + i];

        margins[i] = halo;
        if (!l->is_shortcut)
            halo = l->stride * halo + l->halo[0];
    }
    for (int m = module; m < module + n; m++) {
        struct bb_segment *s = open_segment(c, m);
        const struct bb_net_layer *l = &c->net->layers[modules[m].first], *end = l + modules[m].n;

        if (m == module)
            add_halo(c, s, &(struct bb_halo){"fused halo", input_of(l), {halo, halo}}, l->stride);
        for (int i = modules[m].first - first; l < end; l++, i++)
            TRY(add_to_op(c, &s->head, l, get_extent(c, l, (const int[]){margins[i], margins[i]})));
    }
out:
    free(margins);
    return rc;
}

static int segment_states(struct segment_builder *c, int module)
{
    const struct bb_module *m = &c->net->modules[module];
    struct bb_segment *s = open_segment(c, module);
    int rc = 0;

    for (int i = 0; i < m->n; i++) {
        const struct bb_net_layer *l = &c->net->layers[m->first + i];

        if (i == m->states_at)
            s = open_segment(c, module);
        for (int h = 0; i == m->states_at && h < BB_NET_STATES; h++) {
            const struct bb_state_halo *state = &m->states[h];

            add_halo(c, s, &(struct bb_halo){state->what, state->map, {state->halo, state->halo}}, 1);
        }
        TRY(add_to_op(c, i < m->states_at ? &s->tail : &s->head, l,
                      get_extent(c, l, i < m->states_at ? none : l->fused_halo)));
    }
out:
    return rc;
}

/* Builds the segments of `module` and of the following modules that share a halo exchange with it. n: out: number of
 * these modules including `module`. */
static int segment_next_modules(struct segment_builder *c, int module, int *n)
{
    const struct bb_module *modules = c->net->modules;
    bool fuses = c->layers->tiled && c->config->tiles.halo_d2;
    int max = fuses ? c->config->tiles.fused_layers : 0, end = c->layers->first + c->layers->n;

    *n = 0;
    while (*n < max && module + *n < end && modules[module + *n].fusion == BB_FUSE_CHAIN)
        ++*n;
    if (*n > 0)
        return segment_chain(c, module, *n);
    *n = 1;
    if (fuses && modules[module].fusion == BB_FUSE_STATES)
        return segment_states(c, module);
    return segment_module(c, module);
}

/* ---- totals and checks of the whole split (pipeline stage) ---- */

/* Adds the activations of module `m` to the split and, in equal parts, to the segments that compute the module: those
 * of the last module up to `m`, because a segment may contain several modules. */
static void add_activations(struct bb_split_layers *layers, int m, double activations)
{
    int first = layers->n_segments, n = 0;

    for (int s = 0; s < layers->n_segments && layers->segments[s].module <= m; s++) {
        n = s > 0 && n > 0 && layers->segments[s].module == layers->segments[s - 1].module ? n + 1 : 1;
        first = s + 1 - n;
    }
    for (int s = first; s < first + n; s++)
        layers->segments[s].activations += activations / n;
    layers->activations += activations;
}

static void add_totals(const struct segment_builder *c)
{
    struct bb_split_layers *layers = c->layers;
    const struct bb_net *net = c->net;

    for (int s = 0; s < layers->n_segments; s++)
        for (int direction = 0; direction < BB_PASS_DIRECTIONS; direction++)
            layers->flops[direction] +=
                layers->segments[s].head.flops[direction] + layers->segments[s].tail.flops[direction];
    for (int m = layers->first; m < layers->first + layers->n; m++) {
        double activations = 0;

        layers->parameters += net->modules[m].parameters;
        for (int i = net->modules[m].first; i < net->modules[m].first + net->modules[m].n; i++)
            activations += bb_net_layer_activations(&net->layers[i]) * layers->samples /
                           (layers->slices.rows * layers->slices.cols);
        add_activations(layers, m, activations);
    }
}

/* Computes the microseconds per FLOP for --compute timed: from --forward-us and --backward-us, which are times of
 * the whole split (pipeline stage), or otherwise from --tflops. If only --forward-us is set, the backward pass takes
 * twice this time. */
static void resolve_times(const struct bb_proxy_config *config, struct bb_split_layers *layers)
{
    const double given[BB_PASS_DIRECTIONS] = {config->forward_us, config->backward_us};

    for (int direction = 0; direction < BB_PASS_DIRECTIONS; direction++)
        layers->us_per_flop[direction] =
            given[direction] > 0 ? given[direction] / layers->flops[direction] : 1e-6 / config->tflops;
    if (given[BB_FORWARD] > 0 && given[BB_BACKWARD] <= 0)
        layers->us_per_flop[BB_BACKWARD] = 2 * given[BB_FORWARD] / layers->flops[BB_BACKWARD];
}

int bb_split_layers_init(const struct bb_proxy_config *config, const struct bb_net *net, struct bb_step *step,
                         struct bb_split_layers *layers)
{
    struct segment_builder c = {.config = config,
                                .net = net,
                                .step = step,
                                .layers = layers,
                                .thin_tiles = {.scale = 1},
                                .dtype = (enum bb_dtype_id)bb_dtype_find(config->dtype),
                                .gemm = strcmp(config->compute, "gemm") == 0};
    int rc = 0;

    layers->out = net->modules[layers->first + layers->n - 1].out;
    layers->n_out = net->modules[layers->first + layers->n - 1].n_out;
    for (int m = layers->first, n; m < layers->first + layers->n; m += n) {
        if (layers->tiled && !net->modules[m].tiled)
            return bb_err(BB_EUSAGE,
                          "%s: '%s' requires the whole map, but is in a spatial split (modules %d to %d); try: fewer "
                          "--spatial-splits, or a --balance that puts it into a later split",
                          net->name, net->modules[m].name, layers->first, layers->first + layers->n - 1);
        TRY(segment_next_modules(&c, m, &n));
    }
    for (int t = 0; layers->tiled && t < layers->n_out; t++)
        find_thin_tiles(&c, &layers->out[t], none, 1, layers->first + layers->n - 1);
    TRY(check_thin_tiles(&c));
    add_totals(&c);
    resolve_times(config, layers);
out:
    return rc;
}

void bb_split_layers_release(struct bb_split_layers *layers)
{
    free(layers->segments);
    *layers = (struct bb_split_layers){0};
}
