/*
 * network.h - a model for data parallelism, read from a model file (profiles/models): a list of *units* (layers) in
 * forward order, each with its parameter tensors and its compute for one sample. There are three families of models:
 *   residual networks   described by the object "network" of the model file. A unit is a convolution with its batch
 *                       norm, or the final dense layer. Units are in the registration order of torchvision's resnet.py:
 *                       the stem; for each block its convolutions, then its projection; the final dense layer
 *   large-image CNNs    the networks of layer and spatial parallelism (spatial/net/net.h). A unit is a convolution or
 *                       dense layer with its batch norm, and the pooling layers before it
 *   transformers        every model that transformer/arch/arch.h reads. A unit is the embedding, a layer or the output
 *                       layer
 * For residual networks, bb_network_load compares the totals in the model file (parameters, tensors, convolution
 * outputs, multiply-accumulates per sample) with the sums over the units.
 */
#ifndef BB_PROXIES_WORKLOADS_REPLICAS_NETWORK_H
#define BB_PROXIES_WORKLOADS_REPLICAS_NETWORK_H

#include "cuda/work/kernel_list.h"
#include "proxies/form/models/transformer_model.h"
#include "proxies/form/step/config.h"
#include "proxies/workloads/spatial/net/net.h"
#include "proxies/workloads/transformer/arch/arch.h"

struct bb_network_unit {
    char *name;                /* name of the layer; struct bb_network owns the string */
    struct bb_tensor *tensors; /* [n] parameter tensors in the model's registration order; struct bb_network owns
                                  their names */
    int n;
    int norm;              /* channels of the unit's batch norm; 0: none */
    double stored;         /* convolutional networks: elements stored for the backward of one sample: the outputs of the
                              convolution and of its batch norm (spatial/net/net.h) */
    double sample_flops;   /* FLOPs of the forward pass of one sample; the backward pass has twice as many FLOPs */
    bool joins;            /* last convolution of a residual block: the output is added to the shortcut */
    struct bb_conv conv;   /* shape of the layer's convolution. Its fields n (batch size) and dtype are 0, because they
                              depend on the run. k == 0 (no output channels): the layer is not a convolution */
    int64_t rows, in, out; /* shape of a dense layer: input rows per sample, input width and output width. rows == 0:
                              not a dense layer */
    struct bb_transformer layer;       /* shape of a transformer layer; its fields batch and dtype are 0, because they
                                    depend on the run. heads == 0: not a transformer layer */
    const struct bb_net_layer *layers; /* [n_layers] layers of a large-image CNN, owned by bb_network.net */
    int n_layers;
    uint64_t tokens; /* embedding: number of tokens per sample; `in` is then the vocabulary size and `out` the width
                        of a table row. 0: not an embedding */
};

struct bb_network {
    struct bb_network_unit *units; /* [n] units (layers of the network) in forward order; owned by this struct */
    int n;
    double parameters, sample_flops; /* sums over all layers; sample_flops: FLOPs of the forward pass of one sample */
    int n_tensors;
    int batch;           /* default number of samples per rank and micro-batch */
    double outputs;      /* number of output elements of all convolutions for one sample; 0 for other models */
    struct bb_arch arch; /* architecture of a transformer model; unused for other models */
    struct bb_net net;   /* large-image CNN; unused for other models */
    bool images;         /* true: convolutional network, trained with SGD by default; false: transformer */
    bool has_kernels;    /* true: bb_network_add_kernels supports every unit (layer) of this model */
};

/*
 * bb_network_load - reads a model file.
 *   config   model: name of a model in profiles/models, or path of a model file; tiles.image_size, layers and
 *            tiles.filters replace values of a large-image CNN
 *   network  out; the caller releases it with bb_network_release, which also accepts a partly loaded network
 *   Returns  0, -BB_EFAIL, or -BB_EUSAGE after printing an error message: unreadable file, a model that belongs to no
 *            family, or an option that the model does not support
 */
int bb_network_load(const struct bb_proxy_config *config, struct bb_network *network) BB_MUST_CHECK;
void bb_network_release(struct bb_network *network);

/* bb_network_activations - returns the bytes of the activations that the forward pass stores for the backward pass
 * of `samples` samples. Convolutional networks: the outputs of convolutions and batch norms; transformers: the estimate
 * of transformer/memory.h. */
double bb_network_activations(const struct bb_network *network, int samples, enum bb_dtype_id dtype);
/* bb_network_unit_activations - returns the part of these bytes that one unit (layer) stores. */
double bb_network_unit_activations(const struct bb_network *network, int unit, int samples, enum bb_dtype_id dtype);

/*
 * bb_network_add_kernels - appends the GEMMs and memory-bound kernels of one unit (layer) to a kernel list.
 *   unit      index of the unit in network->units
 *   samples   number of samples of the micro-batch
 *   backward  false: forward pass, true: backward pass
 *   w         in and out: the kernel list
 *   Returns   false if the size of a kernel overflows
 */
bool bb_network_add_kernels(const struct bb_network *network, int unit, int64_t samples, enum bb_dtype_id dtype,
                            bool backward, struct bb_kernel_list *w);

#endif
