/*
 * net_amoebanet.c - AmoebaNet-D as in MPI4DL (models/amoebanet.py) and GPipe: a stem of one convolution and two
 * reduction cells; three groups of normal cells with a reduction cell after the first and the second group; a
 * classifier. Each group has a third of the --layers normal cells.
 *
 * A cell reads the outputs of the two previous cells and maps both to its c channels (states 0 and 1). Each of its
 * states 2 to 6 is the sum of two operations on earlier states. The output of the cell is the concatenation of some
 * states: 4 c channels for a normal cell, 3 c channels at half the side for a reduction cell. A cell also passes on the
 * first of its inputs, so two tensors are passed from cell to cell. Convolutions have no bias; the output of each
 * convolution has a batch norm.
 */
#include "proxies/workloads/spatial/net/net.h"
#include "proxies/form/models/model_file.h"

#define MAX_CELLS 9999

/* An AmoebaNet cell that is being built: the channels of its states (intermediate tensors), and the shapes of the
 * outputs of the two previous cells. States 0 and 1 have the side of the previous cell's output. */
struct cell {
    struct bb_net *net;
    int c; /* number of channels of each state (intermediate tensor) of the cell */
    bool reduces;
    struct bb_map previous, before;
};

/* A pool of all c channels, or a convolution from c / in to c / out channels, of a cell. Its padding keeps the size of
 * its input with stride 1. (1x7, 7x1) stands for four convolutions: 1x1, which reduces the channels to a quarter, 1x7,
 * 7x1, and 1x1, which restores the channels. */
struct cell_layer {
    const char *name;
    enum bb_net_kind kind;
    int in, out, h, w, stride;
    bool half;         /* the input has half of the side of states 0 and 1, because an earlier layer has stride 2 */
    int fused_halo[2]; /* number of rows and of columns around the tile in which the rank also computes this layer's
                          output if halos are fused */
};

/* The layers of a normal cell after its input layers. When halos are fused (--halo-d2), the halo of state 0 (first
 * input) is 3 rows and columns wide and that of state 1 (second input) is 2 wide. */
static const struct cell_layer normal[] = {
    /* cell state (intermediate tensor) 2 = conv 1x1 of state 1 + pool 3x3 of state 1 */
    {"conv 1x1", BB_NET_CONV, 1, 1, 1, 1, 1, false, {1, 1}},
    {"pool 3x3", BB_NET_POOL, 1, 1, 3, 3, 1, false, {1, 1}},
    /* cell state 3 = state 1 + (1x7, 7x1) of state 0 */
    {"conv 1x1 down", BB_NET_CONV, 1, 4, 1, 1, 1, false, {3, 3}},
    {"conv 1x7", BB_NET_CONV, 4, 4, 1, 7, 1, false, {3}},
    {"conv 7x1", BB_NET_CONV, 4, 4, 7, 1, 1, false, {0}},
    {"conv 1x1 up", BB_NET_CONV, 4, 1, 1, 1, 1, false, {0}},
    /* cell state 4 = conv 1x1 of state 0 + (1x7, 7x1) of state 0 */
    {"conv 1x1", BB_NET_CONV, 1, 1, 1, 1, 1, false, {0}},
    {"conv 1x1 down", BB_NET_CONV, 1, 4, 1, 1, 1, false, {3, 3}},
    {"conv 1x7", BB_NET_CONV, 4, 4, 1, 7, 1, false, {3}},
    {"conv 7x1", BB_NET_CONV, 4, 4, 7, 1, 1, false, {0}},
    {"conv 1x1 up", BB_NET_CONV, 4, 1, 1, 1, 1, false, {0}},
    /* cell state 5 = pool 3x3 of state 2 + state 2 */
    {"pool 3x3", BB_NET_POOL, 1, 1, 3, 3, 1, false, {0}},
    /* cell state 6 = average 3x3 of state 1 + conv 1x1 of state 5 */
    {"average 3x3", BB_NET_POOL, 1, 1, 3, 3, 1, false, {0}},
    {"conv 1x1", BB_NET_CONV, 1, 1, 1, 1, 1, false, {0}},
};

/* The layers of a reduction cell after its input layers. Operations on states 0 and 1 (the cell's inputs) have stride
 * 2. */
static const struct cell_layer reduction[] = {
    /* cell state (intermediate tensor) 2 = max 2x2 of state 0 + pool 3x3 of state 0 */
    {"max 2x2", BB_NET_POOL, 1, 1, 2, 2, 2, false, {0}},
    {"pool 3x3", BB_NET_POOL, 1, 1, 3, 3, 2, false, {0}},
    /* cell state 3 = state 2 + conv 3x3 of state 1 */
    {"conv 1x1 down", BB_NET_CONV, 1, 4, 1, 1, 1, false, {0}},
    {"conv 3x3", BB_NET_CONV, 4, 4, 3, 3, 2, false, {0}},
    {"conv 1x1 up", BB_NET_CONV, 4, 1, 1, 1, 1, true, {0}},
    /* cell state 4 = (1x7, 7x1) of state 2 + pool 3x3 of state 2 */
    {"conv 1x1 down", BB_NET_CONV, 1, 4, 1, 1, 1, true, {3, 3}},
    {"conv 1x7", BB_NET_CONV, 4, 4, 1, 7, 1, true, {3}},
    {"conv 7x1", BB_NET_CONV, 4, 4, 7, 1, 1, true, {0}},
    {"conv 1x1 up", BB_NET_CONV, 4, 1, 1, 1, 1, true, {0}},
    {"pool 3x3", BB_NET_POOL, 1, 1, 3, 3, 1, true, {0}},
    /* cell state 5 = state 3 + max 2x2 of state 1 */
    {"max 2x2", BB_NET_POOL, 1, 1, 2, 2, 2, false, {0}},
    /* cell state 6 = average 3x3 of state 2 + conv 1x1 of state 3 */
    {"average 3x3", BB_NET_POOL, 1, 1, 3, 3, 1, true, {0}},
    {"conv 1x1", BB_NET_CONV, 1, 1, 1, 1, 1, true, {0}},
};

/* Adds a convolution with a batch norm of `norm` channels. */
static void add_conv(const struct cell *cell, const char *name, int in, int out, int kernel, int stride, int side,
                     int norm)
{
    struct bb_net_layer l = bb_net_conv(name, in, out, kernel, stride, side);

    l.norm = norm;
    bb_net_add_layer(cell->net, &l);
}

static void add_layer(const struct cell *cell, const struct cell_layer *row)
{
    const int side = cell->previous.side;
    struct bb_net_layer l =
        bb_net_conv(row->name, cell->c / row->in, cell->c / row->out, 1, row->stride, row->half ? side / 2 : side);

    l.kind = row->kind;
    l.kernel[1] = row->h;
    l.kernel[2] = row->w;
    l.halo[0] = (row->h - 1) / 2;
    l.halo[1] = (row->w - 1) / 2;
    l.fused_halo[0] = row->fused_halo[0];
    l.fused_halo[1] = row->fused_halo[1];
    l.norm = row->kind == BB_NET_CONV ? l.out : 0;
    bb_net_add_layer(cell->net, &l);
}

/* Adds the layers that map both inputs of the cell to c channels and to the same side. If the previous cell was a
 * reduction cell, input 1 is reduced by two convolutions with stride 2, each of which computes half of the channels; both share
 * a batch norm. */
static void add_inputs(const struct cell *cell)
{
    const struct bb_map *b = &cell->before;

    add_conv(cell, "conv of input 0", cell->previous.channels, cell->c, 1, 1, cell->previous.side, cell->c);
    for (int i = 0; i < 2 && b->side != cell->previous.side; i++)
        add_conv(cell, "reduce input 1", b->channels, cell->c / 2, 1, 2, b->side, i * cell->c);
    if (b->side == cell->previous.side && b->channels != cell->c)
        add_conv(cell, "conv of input 1", b->channels, cell->c, 1, 1, b->side, cell->c);
}

/* Adds a cell to the network. Its output and its first input become the two inputs of the next cell. */
static void add_cell(struct cell *cell, const char *what, int number)
{
    const struct bb_map state = {cell->c, 1, cell->previous.side};
    const struct bb_module attributes = {.tiled = true,
                                         .fusion = cell->reduces ? BB_FUSE_NONE : BB_FUSE_STATES,
                                         .states = {{"halo of state 0", state, 3}, {"halo of state 1", state, 2}}};
    struct bb_map out = {(cell->reduces ? 3 : 4) * cell->c, 1, state.side / (cell->reduces ? 2 : 1)};
    const struct cell_layer *layers = cell->reduces ? reduction : normal;
    size_t n = (cell->reduces ? sizeof(reduction) : sizeof(normal)) / sizeof(*layers);
    struct bb_module *module;

    if (number >= 0)
        bb_net_open_module(cell->net, &attributes, "%s %d", what, number);
    else
        bb_net_open_module(cell->net, &attributes, "%s", what);
    add_inputs(cell);
    module = &cell->net->modules[cell->net->n_modules - 1];
    module->states_at = cell->net->n_layers - module->first;
    for (size_t i = 0; i < n; i++)
        add_layer(cell, &layers[i]);
    bb_net_close_module(cell->net, &out, &cell->previous);
    cell->before = cell->previous;
    cell->previous = out;
}

static void add_stem(struct cell *cell, int channels)
{
    int image = cell->net->image;

    bb_net_open_module(cell->net, &(struct bb_module){.tiled = true}, "stem 1");
    add_conv(cell, "conv 3x3", channels, cell->c, 3, 2, image, cell->c);
    cell->previous = cell->before = (struct bb_map){cell->c, 1, image / 2};
    bb_net_close_module(cell->net, &cell->previous, NULL);
    cell->reduces = true;
    for (int i = 2; i <= 3; i++) {
        cell->c *= 2;
        add_cell(cell, "stem", i);
    }
}

static void add_classifier(struct cell *cell, int classes)
{
    const struct bb_map *in = &cell->previous;
    const struct bb_net_layer pool = bb_net_pool("average pool", in->channels, in->side, in->side, in->side);

    bb_net_open_module(cell->net, &(struct bb_module){.tiled = false}, "classifier");
    bb_net_add_layer(cell->net, &pool);
    bb_net_add_dense(cell->net, in->channels, classes);
    bb_net_close_module(cell->net, &(struct bb_map){classes, 1, 1}, NULL);
}

static int check_size(const struct bb_net *net, int layers, int filters)
{
    if (layers < 3 || layers > MAX_CELLS || layers % 3)
        return bb_err(
            BB_EUSAGE,
            "%s: %d layers, expected a multiple of 3 up to %d (three groups of normal cells); try: --layers %d",
            net->name, layers, MAX_CELLS,
            layers > MAX_CELLS ? MAX_CELLS
            : layers < 4       ? 3
                               : (layers + 1) / 3 * 3);
    if (filters % 8)
        return bb_err(BB_EUSAGE,
                      "%s: %d filters, expected a multiple of 8 (the stem uses filters / 8 channels); try: "
                      "--filters %d",
                      net->name, filters, filters < 12 ? 8 : (filters + 4) / 8 * 8);
    return 0;
}

int bb_net_build_amoebanet(struct bb_net *net, struct bb_model_file *file, const struct bb_net_options *options)
{
    struct cell cell = {.net = net};
    int layers, filters, classes, channels, rc, number = 0;

    TRY(bb_model_file_shape(file, "layers", &layers));
    TRY(bb_model_file_shape(file, "filters", &filters));
    TRY(bb_model_file_shape(file, "classes", &classes));
    TRY(bb_model_file_shape(file, "input_channels", &channels));
    layers = options->layers ? options->layers : layers;
    filters = options->filters ? options->filters : filters;
    TRY(check_size(net, layers, filters));
    cell.c = filters / 4;
    add_stem(&cell, channels);
    for (int row = 0; row < 3; row++) {
        if (row > 0) {
            cell.c *= 2;
            cell.reduces = true;
            add_cell(&cell, "reduction", row);
        }
        cell.reduces = false;
        for (int i = 0; i < layers / 3; i++)
            add_cell(&cell, "normal", number++);
    }
    add_classifier(&cell, classes);
out:
    return rc;
}
