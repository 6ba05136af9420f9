/* tile_stage.c - builds the operations of one rank for one micro-batch: messages between splits (pipeline stages),
 * halo exchanges, compute (see tile_stage.h). */
#include "proxies/spatial/tile_stage.h"

#include "bootstrap/base/alloc.h"
#include "cuda/work/kernel_list.h"

#include <stdlib.h>
#include <string.h>

/* ---- messages between adjacent splits (pipeline stages) ---- */

static int samples_per_micro_batch(const struct bb_tiling *t)
{
    return t->config.micro_batch_size;
}

/* Adds one message per tensor to h, the list of messages to and from one adjacent split (pipeline stage). peer: rank
 * to which and from which they are sent; maps: [n_maps] shapes of the tensors; parts: each message carries 1 / parts
 * of its tensor. */
static void add_messages(struct bb_stage_link *h, int peer, enum bb_peer_kind kind, const struct bb_map *maps,
                         int n_maps, size_t samples, int parts)
{
    for (int m = 0; m < n_maps; m++)
        h->messages[h->n++] = (struct bb_stage_message){
            .peer = peer, .peer_kind = kind, .count = samples * bb_map_elements(&maps[m]) / (size_t)parts};
}

/* Returns the communicator for messages between the splits (pipeline stages) `link` and `link` + 1: one of the group
 * `join` if split `link` works on tiles, otherwise one of the group `lp` (groups: see tiling.h). If a group has two
 * communicators, consecutive pairs of splits alternate between them. */
static int link_comm(const struct bb_tiling *t, int link, bool inverse)
{
    bool join = link < t->n_spatial;
    int slot = join ? link % t->n_join : (link - t->n_spatial) % t->n_lp;

    return join ? t->comm_join[inverse][slot] : t->comm_lp[inverse][slot];
}

/* Returns the rank, in the communicator `join` (all tiles and the ranks of the next split), of the model-parallel
 * rank mp_rank. Members are in ascending rank order, so in the inverse replica of GEMS the model-parallel ranks are
 * in reverse order. */
static int join_index(const struct bb_tiling *t, const struct bb_replica *replica, int mp_rank)
{
    return replica->inverse ? t->tiles + t->local_dp - 1 - mp_rank : mp_rank;
}

static int signed_offset(const struct bb_replica *replica, int step)
{
    return replica->inverse ? -step : step;
}

/* Adds the messages between this tile and the tiles of the adjacent spatial split (pipeline stage that works on
 * tiles). Each tile of the later split is merged from `ratio` tiles of the earlier split. previous: true: messages
 * with the previous split; false: with the next split. */
static void add_tile_messages(const struct bb_tiling *t, const struct bb_replica *replica, bool previous,
                              struct bb_stage_link *h)
{
    const struct bb_layer_split *current = replica->split, *other = previous ? current - 1 : current + 1;
    const struct bb_layer_split *wide = previous ? other : current;
    int ratio = previous ? other->width / current->width : current->width / other->width;
    int first = previous ? replica->at.index * ratio : replica->at.index / ratio;

    for (int i = 0; i < (previous ? ratio : 1); i++)
        add_messages(h, signed_offset(replica, other->base + first + i - current->base - replica->at.index),
                     BB_PEER_OFFSET, wide->layers.out, wide->layers.n_out, (size_t)samples_per_micro_batch(t),
                     wide->width);
}

/* Adds the messages between this rank and all ranks of the adjacent split, at the transition from the last split
 * (pipeline stage) on tiles to the first split on whole maps, where each whole map is joined from tiles. previous:
 * true: messages with the previous split; false: with the next split. */
static void add_join_messages(const struct bb_tiling *t, const struct bb_replica *replica, bool previous,
                              struct bb_stage_link *h)
{
    const struct bb_layer_split *current = replica->split, *other = previous ? current - 1 : current + 1;
    const struct bb_layer_split *wide = previous ? other : current;

    for (int i = 0; i < other->width; i++)
        add_messages(h, join_index(t, replica, other->base + i), BB_PEER_ABSOLUTE, wide->layers.out, wide->layers.n_out,
                     (size_t)(samples_per_micro_batch(t) / t->local_dp), wide->width);
}

static int max_messages(const struct bb_replica *replica, bool previous)
{
    const struct bb_layer_split *other = previous ? replica->split - 1 : replica->split + 1;

    return 2 * (other->width > replica->split->width ? other->width : replica->split->width);
}

/* Lists the messages to and from the previous split (pipeline stage; previous: true) or the next split. The list is
 * empty if there is no such split. */
static void find_link_messages(struct bb_tile_stage *w, struct bb_replica *replica, bool previous)
{
    const struct bb_tiling *t = w->tiling;
    int split = replica->at.split, link = previous ? split - 1 : split;
    struct bb_stage_link *h = previous ? &replica->previous : &replica->next;

    *h = (struct bb_stage_link){.sent = {BB_NONE, BB_NONE}, .comm = BB_NONE};
    if (link < 0 || link >= t->n_splits - 1)
        return;
    BB_NEW(h->messages, max_messages(replica, previous));
    h->comm = link_comm(t, link, replica->inverse);
    (void)bb_tile_stage_lane(w, h->comm);
    if (link < t->n_spatial - 1)
        add_tile_messages(t, replica, previous, h);
    else if (link == t->n_spatial - 1)
        add_join_messages(t, replica, previous, h);
    else
        add_messages(h, signed_offset(replica, previous ? -1 : 1), BB_PEER_OFFSET,
                     previous ? replica->split->layers.in : replica->split->layers.out,
                     previous ? replica->split->layers.n_in : replica->split->layers.n_out,
                     (size_t)replica->split->layers.samples, 1);
}

static bool double_buffers(const struct bb_tiling *t)
{
    return t->config.micro_batches * t->config.tiles.replications > (t->gems ? 2 : 1);
}

static void add_message_buffers(struct bb_tile_stage *w, struct bb_stage_link *h)
{
    for (int i = 0; i < h->n; i++) {
        struct bb_stage_message *message = &h->messages[i];

        message->recv = bb_script_buffer(&w->script, "receive", BB_USE_COMMUNICATION, message->count);
        message->send[0] = bb_script_buffer(&w->script, "send", BB_USE_COMMUNICATION, message->count);
        message->send[1] = double_buffers(w->tiling)
                               ? bb_script_buffer(&w->script, "send", BB_USE_COMMUNICATION, message->count)
                               : message->send[0];
    }
}

static const char *message_name(const struct bb_tile_stage *w)
{
    return w->script.phase == BB_PHASE_FORWARD ? "activations" : "activation gradients";
}

/* Adds all sends (send: true) or all receives to and from one adjacent split (pipeline stage) to the program.
 * Several messages share one group call. Returns the index of the last operation. */
static int move_activations(struct bb_tile_stage *w, struct bb_stage_link *h, bool send)
{
    struct bb_script *s = &w->script;
    int last = BB_NONE;

    if (h->n > 1)
        bb_script_group_start(s);
    for (int i = 0; i < h->n; i++) {
        const struct bb_stage_message *message = &h->messages[i];
        struct bb_script_lane lane = bb_tile_stage_lane(w, h->comm);

        s->peer_kind = message->peer_kind;
        last = send ? bb_script_send(s, lane, message_name(w), message->peer, message->count, message->send[h->slot])
                    : bb_script_recv(s, lane, message_name(w), message->peer, message->count, message->recv);
    }
    s->peer_kind = BB_PEER_OFFSET;
    if (h->n > 1)
        bb_script_group_end(s);
    return last;
}

/* Adds a wait for the last send from those send buffers that the next compute operation overwrites. */
static void wait_for_send_buffers(struct bb_tile_stage *w, struct bb_stage_link *h)
{
    bb_script_wait(&w->script, h->sent[h->slot]);
    h->sent[h->slot] = BB_NONE;
}

static void send_activations(struct bb_tile_stage *w, struct bb_stage_link *h)
{
    h->sent[h->slot] = move_activations(w, h, true);
    h->slot = double_buffers(w->tiling) ? 1 - h->slot : 0;
}

/* ---- halo exchange ---- */

/* Adds a send and a receive buffer for each direction in which this tile has a neighbour, separately for each input
 * of a segment (layers with one halo exchange) that has a halo. All segments use these buffers, so each buffer has
 * the size of the largest message of all segments. */
static void add_halo_buffers(struct bb_tile_stage *w, struct bb_replica *replica)
{
    const struct bb_split_layers *layers = &replica->split->layers;
    bool backward = strcmp(w->tiling->config.tiles.halo_bwd, "dy") == 0;

    for (int h = 0; h < BB_SEGMENT_HALOS; h++)
        for (int d = 0; d < BB_DIRECTIONS; d++) {
            size_t max = 0, count;

            for (int i = 0; i < layers->n_segments; i++) {
                const struct bb_segment *s = &layers->segments[i];

                count = h < s->n_halos ? bb_halo_count(&s->halos[h], &layers->slices, layers->samples, d) : 0;
                max = count > max ? count : max;
                count = h == 0 && backward && s->n_halos
                            ? bb_halo_count(&s->outputs, &layers->slices, layers->samples, d)
                            : 0;
                max = count > max ? count : max;
            }
            replica->halo_send[h][d] = replica->halo_recv[h][d] = BB_NONE;
            if (max == 0 || !(replica->neighbours & 1u << d))
                continue;
            replica->halo_send[h][d] = bb_script_buffer(&w->script, "halo send", BB_USE_COMMUNICATION, max);
            replica->halo_recv[h][d] = bb_script_buffer(&w->script, "halo receive", BB_USE_COMMUNICATION, max);
        }
}

/*
 * One halo exchange of a segment (a sequence of layers that share this exchange, see split_layers.h).
 *   halos    [n] halos that are exchanged together
 *   segment  index in bb_split_layers.segments
 */
struct halo_exchange {
    const struct bb_halo *halos;
    int n;
    /* data that is exchanged. HALOS: inputs of the layers; GRADIENTS: gradients of the received halos, which are sent
     * back and added to the gradients of the tile that owns the elements; OUTPUTS: gradients of the layers' outputs */
    enum { HALOS, GRADIENTS, OUTPUTS } kind;
    int segment;
};

/* Creates the list of the kernels that pack (packs: true) or unpack the messages of a halo exchange. For the kind
 * GRADIENTS they pack the halo area around the tile, and the receiving rank adds these gradients to the inner area
 * of its tile. */
static struct bb_kernel_list *make_pack_list(struct bb_tile_stage *w, const struct bb_replica *replica,
                                             const struct halo_exchange *x, bool packs)
{
    const struct bb_split_layers *layers = &replica->split->layers;
    struct bb_kernel_list *kernels = bb_step_add_kernel_list(w->tiling->step);

    for (int h = 0; h < x->n; h++) {
        const struct bb_halo *halo = &x->halos[h];
        const uint64_t rows = (uint64_t)layers->samples * (uint64_t)halo->map.channels;
        const uint32_t interior[3] = {(uint32_t)halo->map.depth, (uint32_t)(halo->map.side / layers->slices.rows),
                                      (uint32_t)(halo->map.side / layers->slices.cols)};
        const uint32_t width[3] = {0, (uint32_t)halo->width[0], (uint32_t)halo->width[1]};

        for (int d = 0; d < BB_DIRECTIONS; d++) {
            const int direction[3] = {0, bb_direction_row(d), bb_direction_col(d)};

            if (replica->neighbours & 1u << d) /* the call adds nothing if no elements are exchanged in direction d */
                (void)bb_kernel_list_halo_side(kernels, rows, interior, width, direction, !packs, x->kind == GRADIENTS,
                                               w->script.dtype);
        }
    }
    return kernels;
}

/* Adds the kernels that pack (packs: true) or unpack the messages of a halo exchange to the program. Their list is
 * created at first use and shared by all micro-batches. */
static void write_pack(struct bb_tile_stage *w, const struct bb_replica *replica, const struct halo_exchange *x,
                       bool packs)
{
    struct bb_kernel_list **kernels = &replica->pack_lists[x->segment * BB_PACK_LISTS + 2 * (int)x->kind + packs];

    if (strcmp(w->tiling->config.compute, "gemm") != 0)
        return;
    *kernels = *kernels ? *kernels : make_pack_list(w, replica, x, packs);
    if ((*kernels)->n > 0)
        bb_script_work(&w->script, (*kernels)->items[0].name, *kernels, 1, BB_NONE, BB_NONE);
}

/* Adds all messages of a halo exchange in one group call: a send to and a receive from each neighbour. Returns the
 * index of the last operation. */
static int issue_halo_exchange(struct bb_tile_stage *w, struct bb_replica *replica, const struct halo_exchange *x)
{
    const struct bb_split_layers *layers = &replica->split->layers;
    struct bb_script *s = &w->script;
    int last = BB_NONE;

    bb_script_group_start(s);
    for (int send = 1; send >= 0; send--)
        for (int h = 0; h < x->n; h++)
            for (int d = 0; d < BB_DIRECTIONS; d++) {
                size_t count = bb_halo_count(&x->halos[h], &layers->slices, layers->samples, d);
                int to = signed_offset(replica, bb_tile_offset(&layers->slices, d));

                if (count == 0 || !(replica->neighbours & 1u << d))
                    continue;
                last = send ? bb_script_send(s, replica->halo, x->halos[h].what, to, count, replica->halo_send[h][d])
                            : bb_script_recv(s, replica->halo, x->halos[h].what, to, count, replica->halo_recv[h][d]);
            }
    bb_script_group_end(s);
    return last;
}

static void exchange_halos(struct bb_tile_stage *w, struct bb_replica *replica, const struct halo_exchange *x)
{
    write_pack(w, replica, x, true);
    bb_script_wait(&w->script, issue_halo_exchange(w, replica, x));
    write_pack(w, replica, x, false);
}

/* ---- compute of segments (layers with one halo exchange) ---- */

static void write_segment_op(struct bb_tile_stage *w, const struct bb_replica *replica, const struct bb_segment_op *p,
                             enum bb_pass_direction direction)
{
    double us = p->flops[direction] * replica->split->layers.us_per_flop[direction];

    if (p->kernels[direction]) {
        bb_script_work(&w->script, p->what, p->kernels[direction], 1, BB_NONE, BB_NONE);
        if (!bb_script_result(&w->script))
            bb_script_newest_op(&w->script)->flops = p->model_flops[direction];
    } else if (us > 0) {
        bb_script_compute(&w->script, p->what, us, p->model_flops[direction], BB_NONE, BB_NONE);
    }
}

static int segment_index(const struct bb_replica *replica, const struct bb_segment *g)
{
    return (int)(g - replica->split->layers.segments);
}

static void forward_segment(struct bb_tile_stage *w, struct bb_replica *replica, const struct bb_segment *g)
{
    const struct halo_exchange x = {g->halos, g->n_halos, HALOS, segment_index(replica, g)};
    int op;

    w->script.layer = g->module;
    if (g->n_halos && w->tiling->config.tiles.halo_overlap) {
        write_pack(w, replica, &x, true);
        op = issue_halo_exchange(w, replica, &x);
        write_segment_op(w, replica, &g->inner, BB_FORWARD);
        bb_script_wait(&w->script, op);
        write_pack(w, replica, &x, false);
        write_segment_op(w, replica, &g->border, BB_FORWARD);
    } else {
        if (g->n_halos)
            exchange_halos(w, replica, &x);
        write_segment_op(w, replica, &g->head, BB_FORWARD);
    }
    write_segment_op(w, replica, &g->tail, BB_FORWARD);
}

static void backward_segment(struct bb_tile_stage *w, struct bb_replica *replica, const struct bb_segment *g)
{
    const char *how = w->tiling->config.tiles.halo_bwd;
    bool image = g->module == 0 && replica->at.split == 0; /* true: the layers read the image, which needs no
                                                              gradient */

    w->script.layer = g->module;
    write_segment_op(w, replica, &g->tail, BB_BACKWARD);
    if (g->n_halos && !image && strcmp(how, "dy") == 0)
        exchange_halos(w, replica, &(struct halo_exchange){&g->outputs, 1, OUTPUTS, segment_index(replica, g)});
    write_segment_op(w, replica, &g->head, BB_BACKWARD);
    if (g->n_halos && strcmp(how, "dx") == 0)
        exchange_halos(w, replica, &(struct halo_exchange){g->halos, g->n_halos, GRADIENTS, segment_index(replica, g)});
}

void bb_tile_stage_receive(struct bb_tile_stage *w, struct bb_replica *replica, enum bb_pass_direction direction)
{
    w->script.phase = direction == BB_FORWARD ? BB_PHASE_FORWARD : BB_PHASE_BACKWARD;
    bb_script_wait(&w->script,
                   move_activations(w, direction == BB_FORWARD ? &replica->previous : &replica->next, false));
}

void bb_tile_stage_compute_and_send(struct bb_tile_stage *w, struct bb_replica *replica,
                                    enum bb_pass_direction direction)
{
    struct bb_stage_link *to = direction == BB_FORWARD ? &replica->next : &replica->previous;
    const struct bb_split_layers *layers = &replica->split->layers;

    for (int i = 0; i < layers->n_segments; i++) {
        if (i == layers->n_segments - 1)
            wait_for_send_buffers(w, to);
        if (direction == BB_FORWARD)
            forward_segment(w, replica, &layers->segments[i]);
        else
            backward_segment(w, replica, &layers->segments[layers->n_segments - 1 - i]);
    }
    w->script.layer = BB_NONE;
    send_activations(w, to);
}

/* ---- reduction of gradients, optimizer and training memory ---- */

struct bb_script_lane bb_tile_stage_lane(struct bb_tile_stage *w, int comm)
{
    if (!w->has_lane[comm])
        w->lanes[comm] = bb_script_lane(&w->script, &w->tiling->step->layout, comm);
    w->has_lane[comm] = true;
    return w->lanes[comm];
}

int bb_tile_stage_reduce(struct bb_tile_stage *w, int comm, bool of_tiles, size_t count, int buffer)
{
    const char *how = w->tiling->config.tiles.spatial_gradients;
    int op;

    if (comm == BB_NONE)
        return BB_NONE;
    w->script.redop = of_tiles && how && strcmp(how, "mean") == 0 ? BB_AVG : BB_SUM;
    op = bb_script_collective(&w->script, bb_tile_stage_lane(w, comm),
                              of_tiles ? "gradients of tiles" : "weight gradients", BB_ALL_REDUCE, count, buffer,
                              buffer);
    w->script.redop = BB_SUM;
    return op;
}

void bb_tile_stage_optimizer(struct bb_tile_stage *w, size_t parameters)
{
    w->script.phase = BB_PHASE_OPTIMIZER;
    if (w->script.real && parameters > 0)
        bb_script_memory_kernel(
            &w->script, w->tiling->step, "optimizer",
            &(struct bb_script_memory_kernel){BB_MEMORY_KERNEL_SGD, parameters, 1, BB_NONE, BB_NONE});
}

void bb_tile_stage_memory(const struct bb_tile_stage *w, double bytes[BB_USES])
{
    size_t e = bb_dtypes[w->script.dtype].bytes;
    double parameters = 0, activations = 0;

    for (int i = 0; i < (w->tiling->gems ? BB_REPLICAS : 1); i++) {
        const struct bb_split_layers *layers = &w->replicas[i].split->layers;

        parameters += (double)layers->parameters;
        activations = layers->activations > activations ? layers->activations : activations;
    }
    bytes[BB_USE_PARAMETERS] = bytes[BB_USE_GRADIENTS] = parameters * (double)e;
    bytes[BB_USE_OPTIMIZER] = parameters * (e == 4 ? 4 : 8); /* SGD momentum in float; for 16-bit parameters also a
                                                                float copy of the parameters */
    bytes[BB_USE_ACTIVATIONS] = activations * w->tiling->config.micro_batches * (double)e;
    bytes[BB_USE_COMMUNICATION] = (double)bb_program_bytes(w->script.program, BB_USE_COMMUNICATION);
}

/* ---- initialization of the state of a rank ---- */

static void init_replica(struct bb_tile_stage *w, struct bb_replica *replica, int mp_rank, bool inverse)
{
    struct bb_tiling *t = w->tiling;

    replica->at = bb_tiling_position(t, mp_rank);
    replica->inverse = inverse;
    replica->split = &t->splits[replica->at.split];
    if (replica->split->layers.tiled) {
        replica->neighbours = bb_tile_neighbour_mask(&replica->split->layers.slices, replica->at.index);
        replica->halo = bb_tile_stage_lane(w, replica->split->comm_halo);
    }
    BB_NEW(replica->pack_lists, replica->split->layers.n_segments * BB_PACK_LISTS);
    find_link_messages(w, replica, true);
    find_link_messages(w, replica, false);
    add_message_buffers(w, &replica->previous);
    add_message_buffers(w, &replica->next);
    add_halo_buffers(w, replica);
}

void bb_tile_stage_init(struct bb_tile_stage *w, struct bb_tiling *t, struct bb_program *program, int mp_rank)
{
    *w = (struct bb_tile_stage){.tiling = t};
    bb_script_init(&w->script, program, &t->config);
    init_replica(w, &w->replicas[BB_DIRECT], mp_rank, false);
    if (t->gems)
        init_replica(w, &w->replicas[BB_INVERSE], t->mp - 1 - mp_rank, true);
}

void bb_tile_stage_release(struct bb_tile_stage *w)
{
    for (int i = 0; i < BB_REPLICAS; i++) {
        free(w->replicas[i].pack_lists);
        free(w->replicas[i].previous.messages);
        free(w->replicas[i].next.messages);
    }
}
