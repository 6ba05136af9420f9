/*
 * network.h - a model as data parallelism sees it: its layers in forward order, with the tensors and the compute of
 * each layer for one sample. Two families:
 *   residual networks   the object "network" of a model file (profiles/models): blocks, stem, classes. One unit per
 *                       convolution with its batch norm, in the registration order of torchvision's resnet.py: stem;
 *                       per block its convolutions, then its projection; head
 *   transformers        every model that transformer/arch/arch.h reads: embedding, layers, head
 * bb_network_load compares the totals of the model file (parameters, tensors, convolution outputs, multiply-accumulates
 * per sample) with the sums over the layers.
 */
#ifndef BB_PROXIES_REPLICAS_NETWORK_H
#define BB_PROXIES_REPLICAS_NETWORK_H

#include "cuda/work/kernel_list.h"
#include "proxies/models/transformer_model.h"
#include "proxies/transformer/arch/arch.h"

struct bb_network_unit {
    char *name;                /* owned by the network */
    struct bb_tensor *tensors; /* in registration order; their names are owned by the network */
    int n;
    double sample_flops;         /* FLOPs of the forward pass of one sample; the backward pass takes twice as many */
    struct bb_conv conv;         /* convolution, with n and dtype 0; k == 0: the unit is none */
    int64_t rows, in, out;       /* dense layer: rows per sample, input and output width; rows == 0: the unit is none */
    struct bb_transformer layer; /* transformer layer, with batch and dtype 0; heads == 0: the unit is none */
    uint64_t tokens;             /* embedding: tokens per sample; 0: the unit is none */
};

struct bb_network {
    struct bb_network_unit *units; /* in forward order; owned */
    int n;
    double parameters, sample_flops; /* totals of all units; FLOPs of the forward pass of one sample */
    int n_tensors;
    int batch;           /* default number of samples per rank and micro-batch */
    double outputs;      /* output elements of all convolutions for one sample */
    struct bb_arch arch; /* transformers only */
    bool images;         /* residual network, trained with SGD by default; false: transformer */
    bool has_kernels;    /* bb_network_add_kernels supports every unit */
};

/*
 * bb_network_load - read a model by name (profiles/models) or path.
 *   network  out; the caller releases it with bb_network_release, which also accepts a partly filled network
 *   Returns  0, -BB_EFAIL, or -BB_EUSAGE, after an error line, if the file is unreadable or describes no model that
 *            fits this proxy
 */
int bb_network_load(const char *word, struct bb_network *network) BB_MUST_CHECK;
void bb_network_release(struct bb_network *network);

/* bb_network_activations - bytes of activations stored for the backward pass of `samples` samples: the outputs of
 * convolutions and norms, or for transformers the estimate of transformer/memory.h. */
double bb_network_activations(const struct bb_network *network, int samples, enum bb_dtype_id dtype);

/*
 * bb_network_add_kernels - append the GEMMs and memory-bound kernels of a unit to a kernel list.
 *   samples   samples of the micro-batch
 *   backward  false: forward pass, true: backward pass
 *   Returns   false if a size overflows
 */
bool bb_network_add_kernels(const struct bb_network *network, int unit, int64_t samples, enum bb_dtype_id dtype,
                            bool backward, struct bb_kernel_list *w);

#endif
