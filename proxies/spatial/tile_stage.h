/*
 * tile_stage.h - operations of one model-parallel rank (tiling.h) for a micro-batch, written into the program of its
 * role. Forward: receive and join, compute with halo exchange, send. Backward: the reverse. With GEMS a rank belongs to
 * two replicas.
 */
#ifndef BB_PROXIES_SPATIAL_TILE_STAGE_H
#define BB_PROXIES_SPATIAL_TILE_STAGE_H

#include "proxies/author/script.h"
#include "proxies/spatial/tiling.h"

/* One message to or from an adjacent split, and its buffers. Two send buffers alternate, so a send can overlap with
 * the next compute. */
struct bb_stage_message {
    int peer;
    enum bb_peer_kind peer_kind;
    size_t count;
    int send[2], recv;
};

/* All messages between a rank and the previous or the next split. */
struct bb_stage_link {
    struct bb_stage_message *messages;
    int n, comm, slot;
    int sent[2]; /* latest send from each of the two buffers, or BB_NONE */
};

/* Pack kernel lists per segment: halos, halo gradients, output gradients; before and after each exchange. */
#define BB_PACK_LISTS 6

/* A rank's part of one replica, while its program is written. */
struct bb_replica {
    struct bb_tile_position at;
    bool inverse;
    struct bb_layer_split *split;
    unsigned neighbours; /* bit mask of bb_tile_neighbour_mask */
    struct bb_stage_link previous, next;
    int halo_send[BB_SEGMENT_HALOS][BB_DIRECTIONS], halo_recv[BB_SEGMENT_HALOS][BB_DIRECTIONS];
    struct bb_script_lane halo;
    struct bb_kernel_list **pack_lists; /* [segments * BB_PACK_LISTS]; created on first use, owned by the step */
};

struct bb_tile_stage {
    struct bb_tiling *tiling;
    struct bb_script script;
    struct bb_script_lane lanes[BB_MAX_COMMS]; /* created on first use */
    bool has_lane[BB_MAX_COMMS];
    struct bb_replica replicas[BB_REPLICAS]; /* [BB_DIRECT], and with GEMS [BB_INVERSE] */
};

/*
 * bb_tile_stage_init - start the program of a model-parallel rank.
 *   w        out; the caller releases it with bb_tile_stage_release, also after an error
 *   Returns  0 or -BB_EFAIL
 */
int bb_tile_stage_init(struct bb_tile_stage *w, struct bb_tiling *t, struct bb_program *program,
                       int mp_rank) BB_MUST_CHECK;
void bb_tile_stage_release(struct bb_tile_stage *w);

/* Write one micro-batch in one direction: receive the inputs; then compute, and send the outputs. The caller sets
 * the micro-batch label of the script. */
void bb_tile_stage_receive(struct bb_tile_stage *w, struct bb_replica *replica, enum bb_pass_direction direction);
void bb_tile_stage_compute_and_send(struct bb_tile_stage *w, struct bb_replica *replica,
                                    enum bb_pass_direction direction);

struct bb_script_lane bb_tile_stage_lane(struct bb_tile_stage *w, int comm);

/*
 * bb_tile_stage_reduce - start an in-place all-reduce of a gradient buffer.
 *   comm      communicator; BB_NONE: no operation
 *   of_tiles  true: reduce over the tiles of a split, with the operation of --spatial-gradients (sum or mean)
 *   Returns   the operation, or BB_NONE
 */
int bb_tile_stage_reduce(struct bb_tile_stage *w, int comm, bool of_tiles, size_t count, int buffer);

/* bb_tile_stage_optimizer - update `parameters` parameters with SGD. Only --compute gemm has this kernel. */
void bb_tile_stage_optimizer(struct bb_tile_stage *w, size_t parameters);

/*
 * bb_tile_stage_memory - estimate the training memory of the rank: parameters and gradients of all its replicas, SGD
 * with momentum, and the activations of the larger replica, because one pass ends before the next begins.
 */
void bb_tile_stage_memory(const struct bb_tile_stage *w, double bytes[BB_USES]);

#endif
