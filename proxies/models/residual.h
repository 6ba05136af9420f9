/*
 * residual.h - a residual network of bottleneck blocks (ResNet-50, ResNet-152) as its file in profiles/models describes
 * it: the list of its tensors in the order in which data parallelism reduces them, and the buckets that it is cut into.
 *
 * Created are: stem, then stage s = 1.. with blocks[s-1] blocks of width w = width * 2^(s-1), then head. A block brings
 * from `in` channels to 4w; the first of each stage has a projection besides, created before or after its convolutions
 * (`projection`). Gradients are reduced in reverse order of creation; a bucket is a run of that list.
 */
#ifndef BB_PROXIES_MODELS_RESIDUAL_H
#define BB_PROXIES_MODELS_RESIDUAL_H

#include "cuda/work/kernel_list.h"
#include "proxies/models/transformer_model.h"

#define BB_RESIDUAL_BUCKETS 16
#define BB_RESIDUAL_BATCHES 8

struct bb_bucket {
    int first, n; /* tensors[first .. first + n) */
    size_t count; /* their sum                   */
};

/* How long the network takes with so many samples on each rank. */
struct bb_local_batch {
    double samples;
    double forward_us;         /* the whole network */
    double bucket_backward_us; /* per bucket        */
};

/*
 * A layer with weights, for one image: a convolution with its norm and activation, or a dense layer (kernel 0). What
 * has no weights (pooling, the sums of shortcuts) is left out: kernels of today do it in the pass of a norm.
 */
struct bb_residual_layer {
    int tensor; /* its weights: tensors[tensor], of in * out * kernel^2 elements */
    int in, out, kernel, edge, stride;
};

struct bb_residual {
    struct bb_tensor *tensors; /* in reduction order, names owned */
    int n_tensors;
    struct bb_residual_layer *layers; /* in the order of the forward pass */
    int n_layers;                     /* 0: the file does not have them   */
    int batch;                        /* samples of a rank where no times say it, 0: none */
    double parameters, sample_flops;  /* of the forward pass of one image */
    struct bb_bucket buckets[BB_RESIDUAL_BUCKETS];
    int n_buckets;
    struct bb_local_batch batches[BB_RESIDUAL_BATCHES]; /* the first is the usual one */
    int n_batches;                                      /* 0: no times are known      */
    int global_batch;                                   /* of the strong-scaling study, 0: none */
};

/* See bb_model_load. release is fine on a half-read one. */
int bb_residual_load(const char *name_or_path, struct bb_residual *model) BB_MUST_CHECK;
void bb_residual_release(struct bb_residual *model);

/* bb_residual_forward - the whole forward pass over so many images, appended to *w. _backward: that of the layers with
 * weights among tensors[first .. first + n), in their order. False where the numbers don't fit. */
bool bb_residual_forward(const struct bb_residual *model, int64_t images, enum bb_dtype_id dtype,
                         struct bb_kernel_list *w);
bool bb_residual_backward(const struct bb_residual *model, int first, int n, int64_t images, enum bb_dtype_id dtype,
                          struct bb_kernel_list *w);

#endif
