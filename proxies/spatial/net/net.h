/*
 * net.h - a convolutional network as a chain of modules, layer by layer, with the shapes that follow from the size of
 * its image: what spatial parallelism and GEMS cut. Pure.
 *
 * The models of profiles/models that can be read so: "resnet110_v2" (ResNet of pre-activated bottlenecks),
 * "amoebanet_d" (AmoebaNet-D), both as MPI4DL trains them, and "cosmoflow" (the network of MLPerf HPC;
 * three-dimensional, tiled in height and width). Parameters are those that get a gradient.
 */
#ifndef BB_PROXIES_SPATIAL_NET_NET_H
#define BB_PROXIES_SPATIAL_NET_NET_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum bb_net_kind { BB_NET_CONV, BB_NET_POOL, BB_NET_DENSE };

/* One layer. Its input is in channels x depth x side x side; height and width shrink by the stride, and so does a depth
 * above 1. Padding keeps the size; only pools with an even window have none. */
struct bb_net_layer {
    const char *name;
    enum bb_net_kind kind;
    int in, out;       /* channels; dense: width of a row                                         */
    int kernel[3];     /* depth, height, width                                                    */
    int stride;        /* dense: 1                                                                */
    int depth, side;   /* of the input; dense: 1, 1                                               */
    int norm;          /* channels of the batch norm next to it, 2 parameters each; 0: none       */
    bool bias;         /* one for each output channel                                             */
    bool first;        /* of the network: its input has no gradient                               */
    bool is_shortcut;        /* lies beside the chain of its module, as a projection does               */
    int halo[2];       /* height, width: rows and columns of the neighbours' tiles that it reads  */
    int fused_halo[2]; /* in a module that fuses by states: what has to be right around the output */
};

/* A tensor that goes from one module to the next: channels x depth x side x side. */
struct bb_map {
    int channels, depth, side;
};

/* How halos of several layers become one, received before the first of them. */
enum bb_halo_fusion {
    BB_FUSE_NONE,
    BB_FUSE_CHAIN,  /* layer after layer, also over several modules                             */
    BB_FUSE_STATES, /* a cell: its inputs get halos of `states` each, the layers stand as given */
};

#define BB_NET_STATES 2
struct bb_state_halo {
    const char *what;
    struct bb_map map;
    int halo;
};

struct bb_module {
    const char *name; /* owned by the net                                              */
    int first, n;     /* net.layers[first .. first + n)                                */
    bool tiled;       /* works on tiles of the map: not dense layers                   */
    enum bb_halo_fusion fusion;
    struct bb_state_halo states[BB_NET_STATES];
    int states_at;        /* states: the layer (in the module) that they are received before */
    struct bb_map out[2]; /* what the next module gets                                     */
    int n_out;
    size_t parameters;
};

struct bb_net {
    const char *name; /* of the file, owned */
    int image, depth; /* the input is image x image (x depth) */
    struct bb_module *modules;
    struct bb_net_layer *layers;
    int n_modules, n_layers;
    double parameters, forward_flops; /* of one sample */
    char **texts;
    int n_texts;
    bool failed; /* out of memory while it was made */
};

/* What is asked of the model; 0: as its file says. */
struct bb_net_options {
    int image;   /* a power of two                                     */
    int layers;  /* resnet: depth 9 n + 2; amoebanet: cells, 3 n       */
    int filters; /* amoebanet                                          */
};

/*
 * bb_net_load - by name or path. The sums that the file states are held against the layers, so that no size can drift.
 * What cannot be is said with the nearest that can, -BB_EUSAGE. release is fine on a half-read one.
 */
int bb_net_load(const char *word, const struct bb_net_options *options, struct bb_net *net) BB_MUST_CHECK;
void bb_net_release(struct bb_net *net);

size_t bb_net_layer_parameters(const struct bb_net_layer *l);
/* Multiplications and additions of the forward pass of one sample on rows x cols of its output. */
double bb_net_layer_flops(const struct bb_net_layer *l, int rows, int cols);
int bb_net_layer_out_side(const struct bb_net_layer *l);
int bb_net_layer_out_depth(const struct bb_net_layer *l);
size_t bb_map_elements(const struct bb_map *map);

/* ---- for the makers of nets (net_*.c): a failure sticks in net->failed ---- */

struct bb_model_file;

/* A new module like `like` (tiled, fusing, states); the layers that are added next are its own. close: its sums, and
 * what goes on to the next one; `skipped` goes there as well (NULL: nothing). */
void bb_net_open_module(struct bb_net *net, const struct bb_module *attributes, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void bb_net_add_layer(struct bb_net *net, const struct bb_net_layer *layer);

/* Flat layers to be added, and to be changed before: a convolution without bias and norm, its window kernel x kernel
 * with the halo that goes with it; a pool without a halo. */
struct bb_net_layer bb_net_conv(const char *name, int in, int out, int kernel, int stride, int side);
struct bb_net_layer bb_net_pool(const char *name, int channels, int window, int stride, int side);

void bb_net_add_dense(struct bb_net *net, int in, int out); /* a dense layer with biases, of a whole sample */
void bb_net_close_module(struct bb_net *net, const struct bb_map *out, const struct bb_map *skipped);

typedef int bb_net_builder(struct bb_net *net, struct bb_model_file *file, const struct bb_net_options *options);
bb_net_builder bb_net_build_resnet, bb_net_build_amoebanet, bb_net_build_cosmoflow;

#endif
