/*
 * net.h - a convolutional network as a chain of modules (blocks of a ResNet, cells of an AmoebaNet), each with its
 * layers, and the tensor shapes that follow from the image size. Spatial parallelism and GEMS divide this chain into
 * splits (pipeline stages). The functions have no side effects except error messages.
 *
 * Supported models of profiles/models are "resnet110_v2" (pre-activated bottleneck ResNet) and "amoebanet_d"
 * (AmoebaNet-D), both as in MPI4DL, and "cosmoflow" (the network of MLPerf HPC; three-dimensional, tiled in height and
 * width). Only parameters with a gradient are counted.
 */
#ifndef BB_PROXIES_WORKLOADS_SPATIAL_NET_NET_H
#define BB_PROXIES_WORKLOADS_SPATIAL_NET_NET_H

#include "bootstrap/base/err.h"
#include "cuda/work/kernel_list.h"

#include <stdbool.h>
#include <stddef.h>

enum bb_net_kind { BB_NET_CONV, BB_NET_POOL, BB_NET_DENSE };

/* One layer. Its input has `in` channels of depth x side x side elements. The stride divides height and width, and
 * also the depth if the depth is above 1. With stride 1 the padding keeps the size; pools with an even window have
 * no padding. */
struct bb_net_layer {
    const char *name;
    enum bb_net_kind kind;
    int in, out;   /* number of channels of the input and of the output; for dense layers the input and output width */
    int kernel[3]; /* depth, height and width of the kernel */
    int stride;    /* stride of the kernel; 1 for dense layers */
    int depth, side; /* depth, and height (= width), of the input; 1 for dense layers */
    int norm; /* number of channels (2 parameters each) of the batch norm that belongs to the layer; 0: the layer has
                   no batch norm */
    bool norms_input;  /* the batch norm precedes the layer (pre-activation); false: it follows the layer */
    bool bias;         /* the layer has one bias per output channel */
    bool first;        /* first layer of the network, whose input needs no gradient */
    bool is_shortcut;  /* the layer is on the module's shortcut (for example a projection), not in the chain of layers
                          between input and output */
    int halo[2];       /* number of rows [0] and of columns [1] that the layer reads from each neighbouring tile */
    int fused_halo[2]; /* with BB_FUSE_STATES: number of rows [0] and of columns [1] around the rank's tile (margin)
                          in which the rank also computes this layer's output */
};

/* Shape of a tensor between two modules: channels x depth x side x side elements. */
struct bb_map {
    int channels, depth, side;
};

/* How one wide halo replaces the separate halos of several layers (--halo-d2). Halo: the rows and columns that a
 * tile receives from its neighbours. */
enum bb_halo_fusion {
    BB_FUSE_NONE,
    BB_FUSE_CHAIN, /* one halo at the input of a chain of layers, which may continue in the following modules */
    /* normal cell of AmoebaNet: one halo for each of the cell's two inputs, listed in bb_module.states;
     * bb_net_layer.fused_halo is the width of the margin around the tile that the rank also computes */
    BB_FUSE_STATES,
};

#define BB_NET_STATES 2
struct bb_state_halo {
    const char *what;
    struct bb_map map;
    int halo;
};

struct bb_module {
    const char *name; /* name of the module; the net owns the string */
    int first, n;     /* the module consists of net.layers[first .. first + n) */
    bool tiled; /* true: the module can work on tiles of its input; false: it needs the whole input (global pooling,
                   dense layers) */
    enum bb_halo_fusion fusion;
    struct bb_state_halo states[BB_NET_STATES];
    int states_at; /* with BB_FUSE_STATES: index in the module of the layer before which the halos are exchanged */
    struct bb_map out[2]; /* shapes of the module's output tensors, which are the inputs of the next module */
    int n_out;
    size_t parameters;
};

struct bb_net {
    const char *name; /* name of the model in the model file; the net owns the string */
    int image, depth; /* image: height = width of the input in elements; depth: depth of the input of a
                         three-dimensional network */
    struct bb_module *modules;
    struct bb_net_layer *layers;
    int n_modules, n_layers;
    double parameters, forward_flops; /* totals of the network; forward_flops: FLOPs of the forward pass of one
                                         sample */
    char **texts;
    int n_texts;
};

/* Options that change the model. The value 0 selects the value of the model file. */
struct bb_net_options {
    int image;   /* side of the square image in pixels, a power of two */
    int layers;  /* resnet: number of layers, of the form 9 n + 2; amoebanet: number of normal cells, a multiple of 3 */
    int filters; /* amoebanet: number of filters, a multiple of 8 */
};

/*
 * bb_net_load - builds a network from a model file. The number of parameters in the file must equal the sum over the
 * layers.
 *   word     name of a model in profiles/models, or path of a model file
 *   options  values that replace those of the model file
 *   net      out; the caller releases it with bb_net_release, also after an error
 *   Returns  0, -BB_EFAIL, or -BB_EUSAGE after printing an error message with the nearest valid value
 */
int bb_net_load(const char *word, const struct bb_net_options *options, struct bb_net *net) BB_MUST_CHECK;
void bb_net_release(struct bb_net *net);

bool bb_net_has_family(const char *name); /* returns whether bb_net_load supports model files with this "family"; name
                                             may be NULL */

/*
 * bb_net_layer_kernels - appends the kernels of one layer for rows x cols output elements per channel and depth
 * position: GEMMs and batch norm of a convolution, GEMMs of a dense layer, a copy for a pooling layer.
 *   Returns  false if the size of a kernel overflows
 */
bool bb_net_layer_kernels(struct bb_kernel_list *w, const struct bb_net_layer *l, int64_t samples, int rows, int cols,
                          enum bb_dtype_id dtype, bool backward);

size_t bb_net_layer_parameters(const struct bb_net_layer *l);
/* bb_net_layer_flops - returns the FLOPs (multiplications plus additions) of the forward pass of one sample for rows
 * x cols output elements per channel and depth position; 0 for pooling layers. */
double bb_net_layer_flops(const struct bb_net_layer *l, int rows, int cols);
int bb_net_layer_out_side(const struct bb_net_layer *l);
/* bb_net_layer_activations - returns the number of elements that training stores for the backward pass of one sample:
 * the output of the convolution or dense layer, and the output of the layer's batch norm. The activation function is
 * computed in place. */
double bb_net_layer_activations(const struct bb_net_layer *l);
int bb_net_layer_out_depth(const struct bb_net_layer *l);
size_t bb_map_elements(const struct bb_map *map);

/* ---- functions for the network builders (net_*.c) ---- */

struct bb_model_file;

/* bb_net_open_module begins a module (block or cell) whose name is the formatted text, cut at 63 characters; the
 * layers added afterwards belong to it. In `attributes` the caller sets tiled, fusion, states and states_at.
 * bb_net_close_module computes the totals of the module and sets the shapes of its outputs: `out`, and `skipped`, an
 * earlier tensor that the module passes on unchanged (NULL: none). */
void bb_net_open_module(struct bb_net *net, const struct bb_module *attributes, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void bb_net_add_layer(struct bb_net *net, const struct bb_net_layer *layer);

/* bb_net_conv and bb_net_pool return a two-dimensional layer. The caller can change its fields and then passes it to
 * bb_net_add_layer. bb_net_conv: kernel x kernel convolution with a halo of (kernel - 1) / 2, without bias and batch
 * norm; bb_net_pool: pooling layer without halo. */
struct bb_net_layer bb_net_conv(const char *name, int in, int out, int kernel, int stride, int side);
struct bb_net_layer bb_net_pool(const char *name, int channels, int window, int stride, int side);

void bb_net_add_dense(struct bb_net *net, int in, int out); /* adds a dense layer with biases, which works on whole
                                                               samples (not on tiles) */
void bb_net_close_module(struct bb_net *net, const struct bb_map *out, const struct bb_map *skipped);

typedef int bb_net_builder(struct bb_net *net, struct bb_model_file *file, const struct bb_net_options *options);
bb_net_builder bb_net_build_resnet, bb_net_build_amoebanet, bb_net_build_cosmoflow;

#endif
