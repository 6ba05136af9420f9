/*
 * tile_stage.h - adds the operations of one model-parallel rank (a rank's number in its replica, tiling.h) for a
 * micro-batch to the program of its role (ranks with the same program). In the forward pass the rank receives its
 * inputs (joining tiles if necessary), computes with halo exchanges, and sends its outputs. The backward pass is the
 * reverse. With GEMS a rank belongs to two replicas of the network.
 */
#ifndef BB_PROXIES_WORKLOADS_SPATIAL_TILE_STAGE_H
#define BB_PROXIES_WORKLOADS_SPATIAL_TILE_STAGE_H

#include "proxies/form/author/script.h"
#include "proxies/workloads/spatial/tiling.h"

/* A message to one rank of an adjacent split (pipeline stage), the message from this rank in the opposite direction,
 * and their buffers. Two send buffers alternate, so that a send overlaps with the next compute operation. */
struct bb_stage_message {
    int peer;
    enum bb_peer_kind peer_kind;
    size_t count;
    int send[2], recv;
};

/* All messages between a rank and the previous or the next split (pipeline stage). slot: index (0 or 1) of the send
 * buffer that the next send uses. */
struct bb_stage_link {
    struct bb_stage_message *messages;
    int n, comm, slot;
    int sent[2]; /* [send buffer] index of the last send operation from this buffer; BB_NONE: no send to wait for */
};

/* Number of kernel lists per segment (layers with one halo exchange): packing and unpacking, each for halos, for
 * gradients of halos and for gradients of outputs. */
#define BB_PACK_LISTS 6

/* State of one rank in one replica of the network while the program is built. */
struct bb_replica {
    struct bb_tile_position at;
    bool inverse;
    struct bb_layer_split *split;
    unsigned neighbours; /* bit d: the tile has a neighbour in direction d (bb_tile_neighbour_mask) */
    struct bb_stage_link previous, next;
    int halo_send[BB_SEGMENT_HALOS][BB_DIRECTIONS], halo_recv[BB_SEGMENT_HALOS][BB_DIRECTIONS];
    struct bb_script_lane halo;
    struct bb_script_norm norm;
    /* [segments * BB_PACK_LISTS] lists of the kernels that pack or unpack halos, created at first use (NULL before)
     * and owned by the step; a segment is a group of layers with one halo exchange */
    struct bb_kernel_list **pack_lists;
};

struct bb_tile_stage {
    struct bb_tiling *tiling;
    struct bb_script script;
    struct bb_replica replicas[BB_REPLICAS]; /* state of this rank in the direct replica [BB_DIRECT] and, with GEMS,
                                                in the inverse replica [BB_INVERSE] */
};

/*
 * bb_tile_stage_init - begins the program of a model-parallel rank.
 *   w        out: state of the rank; the caller releases it with bb_tile_stage_release
 *   program  program to which the operations are added
 *   mp_rank  number of the model-parallel rank in its replica (tiling.h)
 */
void bb_tile_stage_init(struct bb_tile_stage *w, struct bb_tiling *t, struct bb_program *program, int mp_rank);
void bb_tile_stage_release(struct bb_tile_stage *w);

/*
 * bb_tile_stage_receive and bb_tile_stage_compute_and_send add the operations of one micro-batch in one direction
 * (forward or backward). The caller first sets script.micro_batch, and then calls both functions in this order.
 *   paired   1F1B: micro-batch whose inputs of the opposite direction are received in the same NCCL group call as the
 *            send, from the same ranks, so that adjacent splits do not wait for each other; no call of
 *            bb_tile_stage_receive follows for these inputs. BB_NONE: only sends
 */
void bb_tile_stage_receive(struct bb_tile_stage *w, struct bb_replica *replica, enum bb_pass_direction direction);
void bb_tile_stage_compute_and_send(struct bb_tile_stage *w, struct bb_replica *replica,
                                    enum bb_pass_direction direction, int paired);

struct bb_script_lane bb_tile_stage_lane(struct bb_tile_stage *w, int comm);

/*
 * bb_tile_stage_reduce - adds an in-place all-reduce of a gradient buffer.
 *   comm      index of the communicator; BB_NONE: nothing is added
 *   of_tiles  true: reduction over the tiles of a split, as --spatial-gradients selects (sum or mean); false: sum
 *   count     number of elements
 *   buffer    index of the buffer
 *   Returns   index of the operation, or BB_NONE
 */
int bb_tile_stage_reduce(struct bb_tile_stage *w, int comm, bool of_tiles, size_t count, int buffer);

/* bb_tile_stage_optimizer - adds the SGD kernel that updates `parameters` parameters; without --compute gemm it adds
 * nothing. */
void bb_tile_stage_optimizer(struct bb_tile_stage *w, size_t parameters);

/*
 * bb_tile_stage_memory - estimates the training memory of the rank in bytes: parameters, gradients and momentum (SGD)
 * of all its replicas, and the activations of the replica with more activations, because the backward of one replica
 * ends before the forward of the other begins.
 */
void bb_tile_stage_memory(const struct bb_tile_stage *w, double bytes[BB_USES]);

#endif
