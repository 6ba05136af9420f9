/*
 * tile_stage.h - what a place of a tiling (tiling.h) does with a micro-batch, written into the program of its role.
 * Forward: receive and join, compute with halos, send. Backward: the reverse. With GEMS a rank has two places, one of
 * each replica.
 */
#ifndef BB_PROXIES_SPATIAL_TILE_STAGE_H
#define BB_PROXIES_SPATIAL_TILE_STAGE_H

#include "proxies/author/script.h"
#include "proxies/spatial/tiling.h"

/* One message of a hand-over, and its buffers; sends take turns with two, so that one can be on its way. */
struct bb_stage_message {
    int peer;
    enum bb_peer_kind peer_kind;
    size_t count;
    int send[2], recv;
};

/* All messages between a place and the split before or behind it. */
struct bb_stage_link {
    struct bb_stage_message *messages;
    int n, comm, slot;
    int sent[2]; /* the sends of either turn, BB_NONE */
};

#define BB_PACK_LISTS 6 /* kernels around exchanges: of halos, of their gradients, of outputs; before and behind each */

/* A place while its program is written. */
struct bb_replica {
    struct bb_tile_position at;
    bool inverse;
    struct bb_layer_split *split;
    unsigned neighbours; /* bits, as bb_tile_neighbours */
    struct bb_stage_link previous, next;
    int halo_send[BB_SEGMENT_HALOS][BB_DIRECTIONS], halo_recv[BB_SEGMENT_HALOS][BB_DIRECTIONS];
    struct bb_script_lane halo;
    struct bb_kernel_list **pack_lists; /* [segments * BB_PACKS], as they are needed */
};

struct bb_tile_stage {
    struct bb_tiling *tiling;
    struct bb_script script;
    struct bb_script_lane lanes[BB_MAX_COMMS]; /* as they are needed */
    bool has_lane[BB_MAX_COMMS];
    struct bb_replica replicas[BB_REPLICAS]; /* the second with GEMS only */
};

/* bb_tile_stage_init - for the rank of that place. release is fine on a half-made one. */
int bb_tile_stage_init(struct bb_tile_stage *w, struct bb_tiling *t, struct bb_program *program,
                       int mp_rank) BB_MUST_CHECK;
void bb_tile_stage_release(struct bb_tile_stage *w);

/* One micro-batch in one direction: receive it, then compute it and send it on. Labels of micro-batches are the
 * caller's. */
void bb_tile_stage_receive(struct bb_tile_stage *w, struct bb_replica *replica, enum bb_pass_direction direction);
void bb_tile_stage_compute_and_send(struct bb_tile_stage *w, struct bb_replica *replica, enum bb_pass_direction direction);

struct bb_script_lane bb_tile_stage_lane(struct bb_tile_stage *w, int comm);

/* bb_tile_stage_reduce - starts the all-reduce of that buffer, in place; of_tiles: over the tiles of a split, as
 * --spatial-gradients says. comm BB_NONE: nothing. */
int bb_tile_stage_reduce(struct bb_tile_stage *w, int comm, bool of_tiles, size_t count, int buffer);

/* bb_tile_stage_optimizer - the update of so many parameters (--compute gemm; elsewhere it takes no time). */
void bb_tile_stage_optimizer(struct bb_tile_stage *w, size_t parameters);

/* bb_tile_stage_memory - what training holds on a rank with these replicas, by formula: parameters and gradients of all
 * of them, SGD with momentum, the activations of the larger replica (one pass is over before the other begins). */
void bb_tile_stage_memory(const struct bb_tile_stage *w, double bytes[BB_USES]);

#endif
