/*
 * net.h - a convolutional network as a chain of modules, layer by layer, with the shapes that follow from the image
 * size. Spatial parallelism and GEMS split this chain. Pure functions.
 *
 * Supported models of profiles/models: "resnet110_v2" (pre-activated bottleneck ResNet) and "amoebanet_d"
 * (AmoebaNet-D), both as MPI4DL trains them, and "cosmoflow" (the network of MLPerf HPC; three-dimensional, tiled in
 * height and width). Only parameters with a gradient are counted.
 */
#ifndef BB_PROXIES_SPATIAL_NET_NET_H
#define BB_PROXIES_SPATIAL_NET_NET_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum bb_net_kind { BB_NET_CONV, BB_NET_POOL, BB_NET_DENSE };

/* One layer. Its input has in channels x depth x side x side elements. The stride divides height and width, and a
 * depth above 1. Padding keeps the size; pools with an even window have no padding. */
struct bb_net_layer {
    const char *name;
    enum bb_net_kind kind;
    int in, out;       /* channels; dense: width of a row */
    int kernel[3];     /* depth, height, width */
    int stride;        /* dense: 1 */
    int depth, side;   /* of the input; dense: 1, 1 */
    int norm;          /* channels of the batch norm next to the layer, 2 parameters each; 0: no norm */
    bool bias;         /* one bias per output channel */
    bool first;        /* first layer of the network: its input needs no gradient */
    bool is_shortcut;  /* on the shortcut of its module, such as a projection; not part of the main chain */
    int halo[2];       /* height, width: rows and columns that the layer reads from neighbouring tiles */
    int fused_halo[2]; /* BB_FUSE_STATES: height, width of the margin around the output tile that must be computed as
                          well */
};

/* A tensor between two modules: channels x depth x side x side elements. */
struct bb_map {
    int channels, depth, side;
};

/* How one fused halo, received before several layers, replaces their separate halos. */
enum bb_halo_fusion {
    BB_FUSE_NONE,
    BB_FUSE_CHAIN,  /* layer after layer, also across modules */
    BB_FUSE_STATES, /* AmoebaNet cell: its inputs have the halos listed in `states`; the layers use fused_halo */
};

#define BB_NET_STATES 2
struct bb_state_halo {
    const char *what;
    struct bb_map map;
    int halo;
};

struct bb_module {
    const char *name; /* owned by the net */
    int first, n;     /* net.layers[first .. first + n) */
    bool tiled;       /* can work on tiles of the map; false for dense layers */
    enum bb_halo_fusion fusion;
    struct bb_state_halo states[BB_NET_STATES];
    int states_at;        /* BB_FUSE_STATES: index of the layer in the module that follows the exchange of the halos */
    struct bb_map out[2]; /* inputs of the next module */
    int n_out;
    size_t parameters;
};

struct bb_net {
    const char *name; /* of the model file; owned */
    int image, depth; /* the input has image x image (x depth) elements per channel */
    struct bb_module *modules;
    struct bb_net_layer *layers;
    int n_modules, n_layers;
    double parameters, forward_flops; /* FLOPs of the forward pass of one sample */
    char **texts;
    int n_texts;
    bool failed; /* out of memory during construction */
};

/* Options that change the model; 0: value of the model file. */
struct bb_net_options {
    int image;   /* side of the image, a power of two */
    int layers;  /* resnet: depth, 9 n + 2; amoebanet: cells, 3 n */
    int filters; /* amoebanet only */
};

/*
 * bb_net_load - build a network from a model file, by name (profiles/models) or path. Totals of the file must equal the
 * sums over the layers.
 *   net      out; the caller releases it with bb_net_release, also after an error
 *   Returns  0, -BB_EFAIL, or -BB_EUSAGE, after an error line with the nearest valid value
 */
int bb_net_load(const char *word, const struct bb_net_options *options, struct bb_net *net) BB_MUST_CHECK;
void bb_net_release(struct bb_net *net);

size_t bb_net_layer_parameters(const struct bb_net_layer *l);
/* FLOPs (multiplications and additions) of the forward pass of one sample, for rows x cols elements of the output. */
double bb_net_layer_flops(const struct bb_net_layer *l, int rows, int cols);
int bb_net_layer_out_side(const struct bb_net_layer *l);
int bb_net_layer_out_depth(const struct bb_net_layer *l);
size_t bb_map_elements(const struct bb_map *map);

/* ---- interface of the network builders (net_*.c); a failure sets net->failed and makes later calls no-ops ---- */

struct bb_model_file;

/* Open a module with the attributes tiled, fusion, states and states_at; layers added afterwards belong to it. Close
 * computes its totals and sets its outputs: out, and skipped, an earlier tensor that is passed on (NULL: none). */
void bb_net_open_module(struct bb_net *net, const struct bb_module *attributes, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void bb_net_add_layer(struct bb_net *net, const struct bb_net_layer *layer);

/* Return a two-dimensional layer that the caller can change and then add. Convolution: kernel x kernel with the
 * matching halo, without bias and norm. Pool: without halo. */
struct bb_net_layer bb_net_conv(const char *name, int in, int out, int kernel, int stride, int side);
struct bb_net_layer bb_net_pool(const char *name, int channels, int window, int stride, int side);

void bb_net_add_dense(struct bb_net *net, int in, int out); /* add a dense layer with biases for whole samples */
void bb_net_close_module(struct bb_net *net, const struct bb_map *out, const struct bb_map *skipped);

typedef int bb_net_builder(struct bb_net *net, struct bb_model_file *file, const struct bb_net_options *options);
bb_net_builder bb_net_build_resnet, bb_net_build_amoebanet, bb_net_build_cosmoflow;

#endif
