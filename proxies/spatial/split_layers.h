/*
 * split_layers.h - what one rank of a split computes and exchanges for one micro-batch: the layers of the split's
 * modules, on the whole map or on its tile, grouped into segments. A segment receives its halos, computes what reads
 * them (head) and what follows without any (tail); backward the other way round.
 *
 * Layer by layer, each convolution wider than 1 and each padded pool has a halo of half its window, whatever its
 * stride. Fused ("D2"), modules that follow each other share one halo, wide enough for all of them: from back to front,
 * H before a layer = stride * H behind it + half its window, from 0. They then compute what lies around their tile as
 * well. A normal cell of AmoebaNet gets one halo for each of its two inputs.
 */
#ifndef BB_PROXIES_SPATIAL_SPLIT_LAYERS_H
#define BB_PROXIES_SPATIAL_SPLIT_LAYERS_H

#include "proxies/spatial/tiles.h"
#include "proxies/step/config.h"
#include "proxies/step/step.h"

enum bb_pass_direction { BB_FORWARD, BB_BACKWARD, BB_PASS_DIRECTIONS };

/* Some layers in one kernel, of one micro-batch and rank; flops 0 and no work: nothing. */
struct bb_segment_op {
    const char *what;
    double flops[BB_PASS_DIRECTIONS];                /* that are done                                        */
    double model_flops[BB_PASS_DIRECTIONS];          /* that the network needs: without the rims of fused halos */
    struct bb_kernel_list *kernels[BB_PASS_DIRECTIONS]; /* --compute gemm, owned by the step */
};

#define BB_SEGMENT_HALOS 2
struct bb_segment {
    int module; /* of the net */
    struct bb_halo halos[BB_SEGMENT_HALOS];
    int n_halos;
    struct bb_halo outputs; /* of the gradients of the head's output: --halo-bwd dy */
    struct bb_segment_op head, tail;
    struct bb_segment_op inner, border; /* head's forward pass in what needs no halo, and the rest */
};

struct bb_split_layers {
    int first, n; /* modules */
    bool tiled;
    struct bb_slices slices; /* 1 x 1 unless tiled */
    int samples;             /* of a micro-batch that this rank computes */
    struct bb_segment *segments;
    int n_segments;
    size_t parameters;
    double activations;            /* elements of the outputs of convolutions and dense layers, of one micro-batch */
    const struct bb_map *in, *out; /* of the first and the last module, of the net; NULL: the image */
    int n_in, n_out;
    double flops[BB_PASS_DIRECTIONS], us_per_flop[BB_PASS_DIRECTIONS]; /* of one micro-batch; timed */
};

/* Everything that the layers of a split are made of. */
struct bb_split_input {
    const struct bb_proxy_config *config; /* settled: dtype, compute, tflops, tiles */
    const struct bb_net *net;
    struct bb_step *step; /* owns texts and work */
};

/*
 * bb_split_layers_make - layers->first, n, tiled, slices and samples are set; the rest is filled in. Tiles that are too
 * thin are said with the image that would do, -BB_EUSAGE. release is fine on a zeroed one.
 */
int bb_split_layers_init(const struct bb_split_input *input, struct bb_split_layers *layers) BB_MUST_CHECK;
void bb_split_layers_release(struct bb_split_layers *layers);

#endif
