/*
 * net_cosmoflow.c - the network of MLPerf HPC's CosmoFlow for the proxies spatial and gems: 3x3x3 convolutions, each
 * followed by a max pool of 2, then dense layers. The shapes are those of profiles/models/cosmoflow.json. Tiles divide
 * height and width. The halo of a convolution is that of the pooled map that the convolution reads. The proxy
 * `cosmoflow` (seeds/cosmoflow.c) sends four times as many bytes, because it exchanges halos of the maps before
 * pooling, like the published application.
 */
#include "proxies/form/models/model_file.h"
#include "proxies/workloads/spatial/net/net.h"

static void add_convolution(struct bb_net *net, int number, int in, int out, int kernel, int side)
{
    const struct bb_map map = {out, side / 2, side / 2};
    struct bb_net_layer conv = bb_net_conv("conv 3x3x3", in, out, kernel, 1, side);
    struct bb_net_layer pool = bb_net_pool("max pool", out, 2, 2, side);

    conv.kernel[0] = kernel;
    conv.bias = true;
    pool.kernel[0] = 2;
    conv.depth = pool.depth = side;
    bb_net_open_module(net, &(struct bb_module){.tiled = true, .fusion = BB_FUSE_CHAIN}, "conv %d", number);
    bb_net_add_layer(net, &conv);
    bb_net_add_layer(net, &pool);
    bb_net_close_module(net, &map, NULL);
}

static int read_width(const struct bb_model_file *file, const json_t *list, int i, int *width)
{
    size_t count;
    int rc;

    TRY(bb_model_file_count_in(file, list, "dense_widths", i, &count));
    if (count > 1u << 30)
        return bb_err(BB_EUSAGE, "%s: element %d of 'dense_widths' is %zu, expected at most %u", file->where, i, count,
                      1u << 30);
    *width = (int)count;
out:
    return rc;
}

static int add_dense_layers(struct bb_net *net, struct bb_model_file *file)
{
    int n, in = 0, out = 0, rc;
    const json_t *list;

    TRY(bb_model_file_set(file, "image", net->image));
    TRY(bb_json_list_at(file->root, "dense_widths", file->where, -8, &list, &n));
    TRY(read_width(file, list, 0, &in));
    for (int i = 1; i < n; i++, in = out) {
        TRY(read_width(file, list, i, &out));
        bb_net_open_module(net, &(struct bb_module){.tiled = false}, "dense %d", i - 1);
        bb_net_add_dense(net, in, out);
        bb_net_close_module(net, &(struct bb_map){out, 1, 1}, NULL);
    }
out:
    return rc;
}

int bb_net_build_cosmoflow(struct bb_net *net, struct bb_model_file *file, const struct bb_net_options *options)
{
    int in, out, kernel, convolutions, rc, side = net->image;

    if (options->layers || options->filters)
        return bb_err(BB_EUSAGE, "%s: --%s is not supported for this model; leave it out", net->name,
                      options->layers ? "layers" : "filters");
    TRY(bb_model_file_shape(file, "input_channels", &in));
    TRY(bb_model_file_shape(file, "channels", &out));
    TRY(bb_model_file_shape(file, "kernel", &kernel));
    TRY(bb_model_file_shape(file, "convolutions", &convolutions));
    net->depth = net->image;
    if (kernel % 2 == 0 || convolutions > 12 || net->image >> convolutions < 1)
        return bb_err(BB_EUSAGE, "%s: %d convolutions (at most 12) of width %d (odd) do not fit an image of %d",
                      net->name, convolutions, kernel, net->image);
    for (int l = 0; l < convolutions; l++, in = out, out *= 2, side /= 2)
        add_convolution(net, l, in, out, kernel, side);
    TRY(add_dense_layers(net, file));
out:
    return rc;
}
