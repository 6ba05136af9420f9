/*
 * net_resnet.c - the pre-activated ResNet of MPI4DL (models/resnet.py, version 2): an initial convolution, 3 stages of
 * n blocks (depth = 9 n + 2), then average pooling of 8 x 8 and a dense layer, whose input grows with the image. A
 * block has two 3x3 convolutions and a 1x1 convolution. The first block of each stage also has a 1x1 projection on its
 * shortcut. All convolutions have biases. Each of a block's three convolutions follows a batch norm. The only exception
 * is the first convolution of the first block, because a batch norm already follows the initial convolution.
 */
#include "proxies/workloads/spatial/net/net.h"
#include "proxies/form/models/model_file.h"

#define POOLED    8     /* height (= width) of the input area of the final average pooling */
#define MAX_DEPTH 90002 /* maximum number of layers, of the form 9 n + 2 */

struct stage {
    /* channels of a block's input, of the tensors inside the block, and of its output; stride of its first
     * convolution; side: height (= width) of its input */
    int in, mid, out, stride, side;
};

static void add_conv(struct bb_net *net, struct bb_net_layer layer, int norm, bool is_shortcut)
{
    layer.bias = true;
    layer.norm = norm;
    layer.norms_input = norm == layer.in; /* false: the initial convolution, whose batch norm follows it */
    layer.is_shortcut = is_shortcut;
    bb_net_add_layer(net, &layer);
}

static void add_block(struct bb_net *net, const struct stage *s, int number, bool first_in_net, bool first_in_stage)
{
    const struct bb_map out = {s->out, 1, s->side / s->stride};

    bb_net_open_module(net, &(struct bb_module){.tiled = true, .fusion = BB_FUSE_CHAIN}, "block %d", number);
    add_conv(net, bb_net_conv("conv 3x3 a", s->in, s->mid, 3, s->stride, s->side), first_in_net ? 0 : s->in, false);
    add_conv(net, bb_net_conv("conv 3x3 b", s->mid, s->mid, 3, 1, out.side), s->mid, false);
    add_conv(net, bb_net_conv("conv 1x1", s->mid, s->out, 1, 1, out.side), s->mid, false);
    if (first_in_stage)
        add_conv(net, bb_net_conv("projection", s->in, s->out, 1, s->stride, s->side), 0, true);
    bb_net_close_module(net, &out, NULL);
}

static void add_end(struct bb_net *net, int channels, int side, int classes)
{
    int pooled = side / POOLED, width = channels * pooled * pooled;
    struct bb_net_layer pool = bb_net_pool("average pool", channels, POOLED, POOLED, side);

    pool.norm = channels;
    pool.norms_input = true;
    bb_net_open_module(net, &(struct bb_module){.tiled = false}, "end");
    bb_net_add_layer(net, &pool);
    bb_net_add_dense(net, width, classes);
    bb_net_close_module(net, &(struct bb_map){classes, 1, 1}, NULL);
}

static int check_depth(const struct bb_net *net, int depth)
{
    int lower = (depth - 2) / 9 * 9 + 2, nearest = depth - lower > 4 ? lower + 9 : lower;

    if (depth >= 11 && depth <= MAX_DEPTH && lower == depth)
        return 0;
    return bb_err(
        BB_EUSAGE,
        "%s: %d layers, expected 9 n + 2 up to %d (3 stages, n blocks each, 3 layers per block); try: --layers %d",
        net->name, depth, MAX_DEPTH,
        nearest < 11          ? 11
        : nearest > MAX_DEPTH ? MAX_DEPTH
                              : nearest);
}

int bb_net_build_resnet(struct bb_net *net, struct bb_model_file *file, const struct bb_net_options *options)
{
    int depth, width, classes, channels, rc, number = 0;
    struct bb_map map;

    TRY(bb_model_file_shape(file, "depth", &depth));
    TRY(bb_model_file_shape(file, "width", &width));
    TRY(bb_model_file_shape(file, "classes", &classes));
    TRY(bb_model_file_shape(file, "input_channels", &channels));
    depth = options->layers ? options->layers : depth;
    TRY(check_depth(net, depth));
    if (options->filters)
        return bb_err(BB_EUSAGE, "%s: --filters is not supported for this model; leave it out", net->name);
    map = (struct bb_map){width, 1, net->image};
    bb_net_open_module(net, &(struct bb_module){.tiled = true}, "conv 0");
    add_conv(net, bb_net_conv("conv 3x3", channels, width, 3, 1, net->image), width, false);
    bb_net_close_module(net, &map, NULL);
    for (int s = 0; s < 3; s++)
        for (int b = 0; b < (depth - 2) / 9; b++, number++) {
            const struct stage stage = {.in = map.channels,
                                        .mid = s == 0 ? width : width << (s + 1),
                                        .out = width << (s + 2),
                                        .stride = s > 0 && b == 0 ? 2 : 1,
                                        .side = map.side};

            add_block(net, &stage, number, number == 0, b == 0);
            map = (struct bb_map){stage.out, 1, map.side / stage.stride};
        }
    add_end(net, map.channels, map.side, classes);
out:
    return rc;
}
