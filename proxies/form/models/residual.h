/*
 * residual.h - a ResNet with bottleneck blocks (ResNet-50, ResNet-152), read from its file in profiles/models: the
 * gradient tensors in the order in which data parallelism reduces them, and the buckets into which data parallelism
 * groups them.
 *
 * The order of the network is: stem; stages s = 1, 2, ..., each with blocks[s-1] blocks of width w = width * 2^(s-1);
 * head. A block maps `in` channels to 4w. The first block of each stage also has a projection, before or after its
 * convolutions (key "projection" of the file). Gradients are reduced in the reverse of this order; a bucket is a range
 * of consecutive tensors.
 */
#ifndef BB_PROXIES_FORM_MODELS_RESIDUAL_H
#define BB_PROXIES_FORM_MODELS_RESIDUAL_H

#include "cuda/work/kernel_list.h"
#include "proxies/form/models/transformer_model.h"

#define BB_RESIDUAL_BUCKETS 16
#define BB_RESIDUAL_BATCHES 8

struct bb_bucket {
    int first, n; /* the bucket consists of the gradients of bb_residual.tensors[first .. first + n) */
    size_t count; /* total number of elements of the bucket's tensors */
};

/* Measured times of the network for one number of samples per rank. */
struct bb_local_batch {
    double samples;
    double forward_us;         /* time in microseconds of the forward pass of the whole network */
    double bucket_backward_us; /* time in microseconds of the backward pass of the layers in one bucket; equal for
                                  all buckets */
};

/*
 * A layer with weights and its sizes for one image: a convolution with its normalization and activation, or a dense
 * layer (kernel = 0). Layers without weights (pooling, sums of shortcuts) are not listed, because current libraries
 * fuse them into the normalization kernel.
 */
struct bb_residual_layer {
    int tensor; /* index in bb_residual.tensors of the layer's weights, which have in * out * kernel^2 elements
                   (dense: in * out) */
    int in, out, kernel, edge, stride; /* in, out: channels (dense layer: features); edge: height and width of the
                                          input in pixels */
};

struct bb_residual {
    struct bb_tensor *tensors; /* [n_tensors] in the order of gradient reduction; the struct owns the names */
    int n_tensors;
    struct bb_residual_layer *layers; /* [n_layers] in order of the forward pass */
    int n_layers;                     /* 0: the file describes no layers */
    int batch; /* default samples per rank if the file has no measured times (n_batches 0); 0: no default */
    double parameters, sample_flops; /* number of parameters of the whole network; FLOPs of the forward pass for one
                                        image */
    struct bb_bucket buckets[BB_RESIDUAL_BUCKETS];
    int n_buckets;
    struct bb_local_batch batches[BB_RESIDUAL_BATCHES]; /* [n_batches] times measured with different numbers of
                                                           samples per rank; batches[0].samples is the default number */
    int n_batches;                                      /* 0: no measured times */
    int global_batch; /* total number of samples on all ranks, for strong scaling; 0: not in the file */
};

/* bb_residual_load - loads a ResNet. Returns 0, or -BB_EUSAGE after printing an error message.
 * bb_residual_release also accepts a partly loaded model. */
int bb_residual_load(const char *name_or_path, struct bb_residual *model) BB_MUST_CHECK;
void bb_residual_release(struct bb_residual *model);

/*
 * bb_residual_forward, bb_residual_backward - append the kernels of a forward or backward pass over `images` images to
 * *w.
 *   _forward   all layers
 *   _backward  only the layers of the weights tensors[first .. first + n), in the order of these tensors
 *   Returns    false if a size is out of range; _forward also if the file describes no layers
 */
bool bb_residual_forward(const struct bb_residual *model, int64_t images, enum bb_dtype_id dtype,
                         struct bb_kernel_list *w);
bool bb_residual_backward(const struct bb_residual *model, int first, int n, int64_t images, enum bb_dtype_id dtype,
                          struct bb_kernel_list *w);

#endif
