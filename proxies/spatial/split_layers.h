/*
 * split_layers.h - compute and halo exchange of one rank for one micro-batch: the layers of the split's modules, on the
 * whole map or on the rank's tile, grouped into segments. Forward, a segment exchanges its halos, computes the layers
 * that read them (head), and then the layers that need no halo (tail). Backward runs in reverse.
 *
 * Layer by layer: each convolution with a kernel above 1, and each padded pool, has a halo of half its kernel, whatever
 * its stride. Fused halos (MPI4DL's D2): consecutive modules share one halo that is wide enough for all of them. The
 * width is computed from the last layer to the first: halo before a layer = stride * halo after the layer + half its
 * kernel, starting with 0. The rank then also computes the margin around its tile. A normal cell of AmoebaNet has one
 * halo for each of its two inputs.
 */
#ifndef BB_PROXIES_SPATIAL_SPLIT_LAYERS_H
#define BB_PROXIES_SPATIAL_SPLIT_LAYERS_H

#include "proxies/spatial/tiles.h"
#include "proxies/step/config.h"
#include "proxies/step/step.h"

enum bb_pass_direction { BB_FORWARD, BB_BACKWARD, BB_PASS_DIRECTIONS };

/* Consecutive layers that run as one operation of a rank, for one micro-batch. flops 0 and kernels NULL: no
 * operation. */
struct bb_segment_op {
    const char *what;
    double flops[BB_PASS_DIRECTIONS];       /* executed FLOPs */
    double model_flops[BB_PASS_DIRECTIONS]; /* FLOPs that the network needs: executed FLOPs without the margins of
                                               fused halos */
    struct bb_kernel_list *kernels[BB_PASS_DIRECTIONS]; /* --compute gemm: kernel lists, owned by the step; else NULL */
};

#define BB_SEGMENT_HALOS 2
struct bb_segment {
    int module; /* index in the net */
    struct bb_halo halos[BB_SEGMENT_HALOS];
    int n_halos;
    struct bb_halo outputs; /* --halo-bwd dy: halo of the gradients of the head's output */
    struct bb_segment_op head, tail;
    struct bb_segment_op inner, border; /* forward pass of the head with --halo-overlap: interior of the tile, which
                                           needs no halo, and its border */
};

struct bb_split_layers {
    int first, n; /* first module in the net; number of modules */
    bool tiled;
    struct bb_slices slices; /* 1 x 1 unless tiled */
    int samples;             /* samples of a micro-batch that this rank computes */
    struct bb_segment *segments;
    int n_segments;
    size_t parameters;
    double activations;            /* output elements of convolutions and dense layers, per micro-batch */
    const struct bb_map *in, *out; /* tensors before the first and after the last module, owned by the net; in is
                                      NULL for the image */
    int n_in, n_out;
    double flops[BB_PASS_DIRECTIONS], us_per_flop[BB_PASS_DIRECTIONS]; /* per micro-batch; microseconds per FLOP for
                                                                          --compute timed */
};

/* Inputs of bb_split_layers_init. */
struct bb_split_input {
    const struct bb_proxy_config *config; /* resolved: dtype, compute, tflops, tiles */
    const struct bb_net *net;
    struct bb_step *step; /* owns the strings and kernel lists */
};

/*
 * bb_split_layers_init - build the segments and totals of one split.
 *   layers   in: first, n, tiled, slices, samples; out: everything else. The caller releases it with
 *            bb_split_layers_release, also after an error; a zeroed struct is accepted
 *   Returns  0, -BB_EFAIL, or -BB_EUSAGE, after an error line with the smallest sufficient image, if tiles are too
 *            small
 */
int bb_split_layers_init(const struct bb_split_input *input, struct bb_split_layers *layers) BB_MUST_CHECK;
void bb_split_layers_release(struct bb_split_layers *layers);

#endif
