/*
 * split_layers.h - compute and halo exchange of one rank for one micro-batch: the layers of a split (pipeline stage),
 * on the whole map (tensor between layers) or on the rank's tile, grouped into *segments*. In the forward pass, a
 * segment exchanges its halos, computes the layers that read the halos (head), and then the layers that read no halo
 * (tail). The backward pass runs in reverse.
 *
 * Without fused halos, each convolution with a kernel above 1 and each padded pool has its own halo, whose width is
 * half the kernel, for any stride. With fused halos (MPI4DL's D2), consecutive modules share one halo that is wide
 * enough for all of them, and each rank also computes a margin around its tile. The width is computed from the last
 * layer to the first, starting with 0: halo before a layer = stride * halo after the layer + half the kernel. A normal
 * cell of AmoebaNet has one halo for each of its two inputs.
 */
#ifndef BB_PROXIES_WORKLOADS_SPATIAL_SPLIT_LAYERS_H
#define BB_PROXIES_WORKLOADS_SPATIAL_SPLIT_LAYERS_H

#include "proxies/form/step/config.h"
#include "proxies/form/step/step.h"
#include "proxies/workloads/spatial/tiles.h"

enum bb_pass_direction { BB_FORWARD, BB_BACKWARD, BB_PASS_DIRECTIONS };

/* One compute operation of a segment: consecutive layers that a rank computes together, once in the forward and once
 * in the backward of each micro-batch. For an empty operation (no layers) flops are 0 and kernels are NULL. */
struct bb_segment_op {
    const char *what;
    double flops[BB_PASS_DIRECTIONS]; /* [forward, backward] FLOPs that the rank executes per micro-batch, including
                                         those of the margins around its tile */
    double model_flops[BB_PASS_DIRECTIONS]; /* [forward, backward] FLOPs that the network requires: those of `flops`
                                               without the margins around the tile */
    struct bb_kernel_list *kernels[BB_PASS_DIRECTIONS]; /* [forward, backward] kernel lists of --compute gemm, owned
                                                           by the step; NULL with other kinds of compute */
};

#define BB_SEGMENT_HALOS 2
struct bb_segment {
    int module; /* index in bb_net.modules of the module (block or cell) to which the segment belongs */
    struct bb_halo halos[BB_SEGMENT_HALOS];
    int n_halos;
    struct bb_halo outputs; /* for --halo-bwd dy: shape of the halo of the output gradients of `head`, the layers
                               that read the halo */
    struct bb_segment_op head, tail;
    /* with --halo-overlap the forward computes these two operations instead of `head`: inner, the area of the tile
     * that needs no halo, and border, which waits for the halo */
    struct bb_segment_op inner, border;
    double
        activations; /* the segment's part of bb_split_layers.activations; the segments of a module have equal parts */
    int norm; /* with --sync-bn: channels of the batch norm that ends the segment, whose statistics are exchanged; 0: none */
};

struct bb_split_layers {
    int first, n; /* first: index of the split's first module in bb_net.modules; n: number of its modules */
    bool tiled;
    struct bb_slices slices; /* grid of tiles; 1 x 1 if the split works on whole maps */
    int samples;             /* number of samples of each micro-batch that this rank computes */
    struct bb_segment *segments;
    int n_segments;
    size_t parameters;
    double activations;       /* number of elements that this rank stores for the backward of one micro-batch
                           (bb_net_layer_activations) */
    const struct bb_map *out; /* [n_out] shapes of the tensors that the split (pipeline stage) writes, owned by the
                                 net */
    int n_out;
    /* flops: [forward, backward] FLOPs of one micro-batch; us_per_flop: microseconds per FLOP with --compute timed */
    double flops[BB_PASS_DIRECTIONS], us_per_flop[BB_PASS_DIRECTIONS];
};

/*
 * bb_split_layers_init - builds the segments of one split (pipeline stage) and computes its totals.
 *   config   configuration of the proxy, with all options resolved
 *   step     the step that owns the strings and kernel lists that are created
 *   layers   in: first, n, tiled, slices, samples, other fields 0; out: all other fields. The caller releases it with
 *            bb_split_layers_release, also after an error
 *   Returns  0, -BB_EFAIL, or -BB_EUSAGE after printing an error message: the tiles are too small (with the smallest
 *            sufficient image), or a module cannot be tiled
 */
int bb_split_layers_init(const struct bb_proxy_config *config, const struct bb_net *net, struct bb_step *step,
                         struct bb_split_layers *layers) BB_MUST_CHECK;
void bb_split_layers_release(struct bb_split_layers *layers);

#endif
