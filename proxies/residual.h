/*
 * residual.h - a residual network of bottleneck blocks (ResNet-50, ResNet-152) as its file in profiles/models describes
 * it: the list of its tensors in the order in which data parallelism reduces them, and the buckets that it is cut into.
 *
 * Created are: stem, then stage s = 1.. with blocks[s-1] blocks of width w = width * 2^(s-1), then head. A block brings
 * from `in` channels to 4w; the first of each stage has a projection besides, created before or after its convolutions
 * (`projection`). Gradients are reduced in reverse order of creation; a bucket is a run of that list.
 */
#ifndef BB_PROXIES_RESIDUAL_H
#define BB_PROXIES_RESIDUAL_H

#include "proxies/model.h"

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

struct bb_residual {
    struct bb_tensor *tensors; /* in reduction order, names owned */
    int n_tensors;
    double parameters, sample_flops; /* of the forward pass of one image */
    struct bb_bucket buckets[BB_RESIDUAL_BUCKETS];
    int n_buckets;
    struct bb_local_batch batches[BB_RESIDUAL_BATCHES]; /* the first is the usual one */
    int n_batches;                                      /* 0: no times are known      */
    int global_batch;                                   /* of the strong-scaling study, 0: none */
};

/* See bb_model_load. release is fine on a half-read one. */
int bb_residual_load(const char *word, struct bb_residual *model) BB_MUST_CHECK;
void bb_residual_release(struct bb_residual *model);

#endif
