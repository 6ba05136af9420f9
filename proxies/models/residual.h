/*
 * residual.h - a ResNet with bottleneck blocks (ResNet-50, ResNet-152) as described by its file in profiles/models: its
 * gradient tensors in the order of reduction, and the buckets in which data parallelism reduces them.
 *
 * Tensors are created in this order: stem; stages s = 1, 2, ..., each with blocks[s-1] blocks of width w = width *
 * 2^(s-1); head. A block maps `in` channels to 4w. The first block of each stage also has a projection, created before
 * or after its convolutions (`projection`). Gradients are reduced in reverse order of creation; a bucket is a range of
 * that order.
 */
#ifndef BB_PROXIES_MODELS_RESIDUAL_H
#define BB_PROXIES_MODELS_RESIDUAL_H

#include "cuda/work/kernel_list.h"
#include "proxies/models/transformer_model.h"

#define BB_RESIDUAL_BUCKETS 16
#define BB_RESIDUAL_BATCHES 8

struct bb_bucket {
    int first, n; /* the range tensors[first .. first + n) */
    size_t count; /* elements of these tensors */
};

/* Measured times of the network for a number of samples per rank. */
struct bb_local_batch {
    double samples;
    double forward_us;         /* forward pass of the whole network */
    double bucket_backward_us; /* backward pass of one bucket */
};

/*
 * A layer with weights, for one image: a convolution with its normalization and activation, or a dense layer (kernel
 * 0). Layers without weights (pooling, sums of shortcuts) are left out: current kernels fuse them into the kernel of
 * the normalization.
 */
struct bb_residual_layer {
    int tensor; /* index of its weights, which have in * out * kernel^2 elements */
    int in, out, kernel, edge, stride;
};

struct bb_residual {
    struct bb_tensor *tensors; /* in order of reduction; the names are owned */
    int n_tensors;
    struct bb_residual_layer *layers; /* in order of the forward pass */
    int n_layers;                     /* 0: the file has no layers */
    int batch;                        /* samples per rank if n_batches is 0; 0: none */
    double parameters, sample_flops;  /* FLOP of the forward pass of one image */
    struct bb_bucket buckets[BB_RESIDUAL_BUCKETS];
    int n_buckets;
    struct bb_local_batch batches[BB_RESIDUAL_BATCHES]; /* the first is the default */
    int n_batches;                                      /* 0: no measured times */
    int global_batch;                                   /* of strong scaling, 0: none */
};

/* See bb_model_load. bb_residual_release also accepts a partly loaded model. */
int bb_residual_load(const char *name_or_path, struct bb_residual *model) BB_MUST_CHECK;
void bb_residual_release(struct bb_residual *model);

/*
 * Append the kernels of a pass over `images` images to *w.
 *   _forward   the whole network
 *   _backward  the layers whose weights are tensors[first .. first + n), in the order of the tensors
 *   Returns    false if a size is out of range
 */
bool bb_residual_forward(const struct bb_residual *model, int64_t images, enum bb_dtype_id dtype,
                         struct bb_kernel_list *w);
bool bb_residual_backward(const struct bb_residual *model, int first, int n, int64_t images, enum bb_dtype_id dtype,
                          struct bb_kernel_list *w);

#endif
