/* tile_stage.c - builds the operations of one rank for one micro-batch: messages between splits (pipeline stages),
 * halo exchanges, compute (see tile_stage.h). */
#include "proxies/workloads/spatial/tile_stage.h"

#include "bootstrap/base/alloc.h"
#include "cuda/work/kernel_list.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

/* ---- messages between adjacent splits (pipeline stages) ---- */

static int signed_offset(const struct bb_replica *replica, int step)
{
    return replica->inverse ? -step : step;
}

static bool double_buffers(const struct bb_tiling *t)
{
    return t->config.micro_batches * t->config.tiles.replications > (t->gems ? 2 : 1);
}

/* Adds one message to `link`, to and from the rank `peer` of the adjacent split (pipeline stage), and its buffers. */
static void add_message(struct bb_tile_stage *w, struct bb_stage_link *link, int peer, enum bb_peer_kind kind,
                        size_t count)
{
    struct bb_stage_message *message = &link->messages[link->n++];
    struct bb_script *s = &w->script;

    *message = (struct bb_stage_message){.peer = peer, .peer_kind = kind, .count = count};
    message->recv = bb_script_buffer(s, "receive", BB_USE_COMMUNICATION, count);
    message->send[0] = bb_script_buffer(s, "send", BB_USE_COMMUNICATION, count);
    message->send[1] =
        double_buffers(w->tiling) ? bb_script_buffer(s, "send", BB_USE_COMMUNICATION, count) : message->send[0];
}

/*
 * Makes the messages to and from the ranks of the previous split (pipeline stage; previous: true) or of the next
 * split: one message per rank and tensor, in the communicator `join` if the earlier split works on tiles, otherwise
 * in `lp` (groups: see tiling.h). There are three cases:
 *   both splits on tiles   each tile of the later split is merged from `ratio` tiles of the earlier split
 *   tiles, then whole maps each rank of the later split joins its maps from all tiles. Members of `join` are in
 *                          ascending rank order, so in the inverse replica of GEMS the model-parallel ranks are in
 *                          reverse order
 *   both on whole maps     one rank before or after this one in the pipeline `lp`
 */
static void make_link_messages(struct bb_tile_stage *w, struct bb_replica *replica, bool previous,
                               struct bb_stage_link *link)
{
    const struct bb_tiling *t = w->tiling;
    const struct bb_layer_split *here = replica->split, *there = previous ? here - 1 : here + 1;
    const struct bb_split_layers *from = previous ? &there->layers : &here->layers;
    bool later_tiled = (previous ? here : there)->layers.tiled, joins = from->tiled && !later_tiled;
    int samples = (previous ? here : there)->layers.samples, parts = from->slices.rows * from->slices.cols;
    int ratio = previous ? there->width / here->width : here->width / there->width, first = 0, n = 1;

    if (joins) {
        n = there->width;
    } else if (later_tiled) {
        n = previous ? ratio : 1;
        first = previous ? replica->at.index * ratio : replica->at.index / ratio;
    }
    BB_NEW(link->messages, n * from->n_out);
    for (int i = 0; i < n; i++) {
        int mp_rank = there->base + first + i, peer;

        if (joins)
            peer = replica->inverse ? t->tiles + t->local_dp - 1 - mp_rank : mp_rank;
        else if (later_tiled)
            peer = signed_offset(replica, mp_rank - here->base - replica->at.index);
        else
            peer = signed_offset(replica, previous ? -1 : 1);
        for (int m = 0; m < from->n_out; m++)
            add_message(w, link, peer, joins ? BB_PEER_ABSOLUTE : BB_PEER_OFFSET,
                        (size_t)samples * bb_map_elements(&from->out[m]) / (size_t)parts);
    }
}

/* Makes the link to the previous split (pipeline stage; previous: true) or to the next split; without messages if
 * there is no such split. If a group has two communicators, consecutive pairs of splits alternate between them. */
static void make_link(struct bb_tile_stage *w, struct bb_replica *replica, bool previous)
{
    const struct bb_tiling *t = w->tiling;
    int number = previous ? replica->at.split - 1 : replica->at.split, whole = number - t->n_spatial;
    struct bb_stage_link *link = previous ? &replica->previous : &replica->next;

    *link = (struct bb_stage_link){.sent = {BB_NONE, BB_NONE}, .comm = BB_NONE};
    if (number < 0 || number >= t->n_splits - 1)
        return;
    link->comm =
        whole < 0 ? t->comm_join[replica->inverse][number % t->n_join] : t->comm_lp[replica->inverse][whole % t->n_lp];
    (void)bb_tile_stage_lane(w, link->comm);
    make_link_messages(w, replica, previous, link);
}

/* Adds all sends (send: true) or all receives to and from one adjacent split (pipeline stage) to the program.
 * Returns the index of the last operation. */
static int move_activations(struct bb_tile_stage *w, struct bb_stage_link *h, bool send)
{
    struct bb_script *s = &w->script;
    const char *what = s->phase == BB_PHASE_FORWARD ? "activations" : "activation gradients";
    int last = BB_NONE;

    for (int i = 0; i < h->n; i++) {
        const struct bb_stage_message *message = &h->messages[i];
        struct bb_script_lane lane = bb_tile_stage_lane(w, h->comm);

        s->peer_kind = message->peer_kind;
        last = send ? bb_script_send(s, lane, what, message->peer, message->count, message->send[h->slot])
                    : bb_script_recv(s, lane, what, message->peer, message->count, message->recv);
    }
    s->peer_kind = BB_PEER_OFFSET;
    return last;
}

/* Adds the sends (sends: true) to one adjacent split, and the receives from this split that belong to micro-batch
 * `received` (BB_NONE: no receives). Several messages share one group call. Receives that accompany sends have the
 * opposite direction, forward or backward. Stores the last send in h->sent and returns the last receive. */
static int exchange_activations(struct bb_tile_stage *w, struct bb_stage_link *h, bool sends, int received)
{
    struct bb_script *s = &w->script;
    enum bb_phase phase = s->phase;
    int micro_batch = s->micro_batch, last = BB_NONE, calls = h->n * (sends + (received != BB_NONE));

    if (calls > 1)
        bb_script_group_start(s);
    if (sends)
        h->sent[h->slot] = move_activations(w, h, true);
    if (received != BB_NONE) {
        s->micro_batch = received;
        if (sends)
            s->phase = phase == BB_PHASE_FORWARD ? BB_PHASE_BACKWARD : BB_PHASE_FORWARD;
        last = move_activations(w, h, false);
    }
    s->phase = phase;
    s->micro_batch = micro_batch;
    if (calls > 1)
        bb_script_group_end(s);
    return last;
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
            size_t max = 0;

            for (int i = 0; i < layers->n_segments; i++) {
                const struct bb_segment *s = &layers->segments[i];

                if (h < s->n_halos)
                    max = MAX(max, bb_halo_count(&s->halos[h], &layers->slices, layers->samples, d));
                if (h == 0 && backward && s->n_halos)
                    max = MAX(max, bb_halo_count(&s->outputs, &layers->slices, layers->samples, d));
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
 */
struct halo_exchange {
    const struct bb_segment *segment;
    const struct bb_halo *halos;
    int n;
    /* data that is exchanged. HALOS: inputs of the layers; GRADIENTS: gradients of the received halos, which are sent
     * back and added to the gradients of the tile that owns the elements; OUTPUTS: gradients of the layers' outputs */
    enum { HALOS, GRADIENTS, OUTPUTS } kind;
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
    const ptrdiff_t segment = x->segment - replica->split->layers.segments;
    struct bb_kernel_list **kernels = &replica->pack_lists[segment * BB_PACK_LISTS + 2 * (int)x->kind + packs];

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

static void forward_segment(struct bb_tile_stage *w, struct bb_replica *replica, const struct bb_segment *g)
{
    const struct halo_exchange x = {g, g->halos, g->n_halos, HALOS};
    int op;

    w->script.layer = g->module;
    bb_script_store(&w->script, g->activations * (double)bb_dtypes[w->script.dtype].bytes);
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
    bb_script_norm_exchange(&replica->norm, &w->script, g->norm, false);
}

static void backward_segment(struct bb_tile_stage *w, struct bb_replica *replica, const struct bb_segment *g)
{
    const char *how = w->tiling->config.tiles.halo_bwd;
    bool image = g->module == 0 && replica->at.split == 0; /* true: the layers read the image, which needs no
                                                              gradient */

    w->script.layer = g->module;
    bb_script_norm_exchange(&replica->norm, &w->script, g->norm, true);
    write_segment_op(w, replica, &g->tail, BB_BACKWARD);
    if (g->n_halos && !image && strcmp(how, "dy") == 0)
        exchange_halos(w, replica, &(struct halo_exchange){g, &g->outputs, 1, OUTPUTS});
    write_segment_op(w, replica, &g->head, BB_BACKWARD);
    if (g->n_halos && strcmp(how, "dx") == 0)
        exchange_halos(w, replica, &(struct halo_exchange){g, g->halos, g->n_halos, GRADIENTS});
    bb_script_release_stored(&w->script, g->activations * (double)bb_dtypes[w->script.dtype].bytes);
}

void bb_tile_stage_receive(struct bb_tile_stage *w, struct bb_replica *replica, enum bb_pass_direction direction)
{
    w->script.phase = direction == BB_FORWARD ? BB_PHASE_FORWARD : BB_PHASE_BACKWARD;
    bb_script_wait(&w->script, exchange_activations(w, direction == BB_FORWARD ? &replica->previous : &replica->next,
                                                    false, w->script.micro_batch));
}

void bb_tile_stage_compute_and_send(struct bb_tile_stage *w, struct bb_replica *replica,
                                    enum bb_pass_direction direction, int paired)
{
    struct bb_stage_link *to = direction == BB_FORWARD ? &replica->next : &replica->previous;
    const struct bb_split_layers *layers = &replica->split->layers;

    w->script.phase = direction == BB_FORWARD ? BB_PHASE_FORWARD : BB_PHASE_BACKWARD;
    for (int i = 0; i < layers->n_segments; i++) {
        if (i == layers->n_segments - 1) { /* its compute overwrites the send buffers: wait for their last send */
            bb_script_wait(&w->script, to->sent[to->slot]);
            to->sent[to->slot] = BB_NONE;
        }
        if (direction == BB_FORWARD)
            forward_segment(w, replica, &layers->segments[i]);
        else
            backward_segment(w, replica, &layers->segments[layers->n_segments - 1 - i]);
    }
    w->script.layer = BB_NONE;
    bb_script_wait(&w->script, exchange_activations(w, to, true, paired));
    to->slot = double_buffers(w->tiling) ? 1 - to->slot : 0;
}

/* ---- reduction of gradients, optimizer and training memory ---- */

struct bb_script_lane bb_tile_stage_lane(struct bb_tile_stage *w, int comm)
{
    return bb_script_lane(&w->script, &w->tiling->step->layout, comm);
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
        bb_script_memory_kernel(&w->script, w->tiling->step, "optimizer", BB_MEMORY_KERNEL_SGD, parameters, 1, BB_NONE,
                                BB_NONE);
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
    bytes[BB_USE_ACTIVATIONS] =
        activations * bb_schedule_live(&w->tiling->schedule, w->replicas[BB_DIRECT].at.split) * (double)e;
    bytes[BB_USE_COMMUNICATION] = (double)bb_program_bytes(w->script.program, BB_USE_COMMUNICATION);
}

/* ---- initialization of the state of a rank ---- */

static void init_replica(struct bb_tile_stage *w, struct bb_replica *replica, int mp_rank, bool inverse)
{
    struct bb_tiling *t = w->tiling;
    int channels = 0;

    replica->at = bb_tiling_position(t, mp_rank);
    replica->inverse = inverse;
    replica->split = &t->splits[replica->at.split];
    if (replica->split->layers.tiled) {
        replica->neighbours = bb_tile_neighbour_mask(&replica->split->layers.slices, replica->at.index);
        replica->halo = bb_tile_stage_lane(w, replica->split->comm_halo);
    }
    BB_NEW(replica->pack_lists, replica->split->layers.n_segments * BB_PACK_LISTS);
    for (int i = 0; i < replica->split->layers.n_segments; i++)
        channels = MAX(channels, replica->split->layers.segments[i].norm);
    bb_script_norm_open(&replica->norm, &w->script, &t->step->layout, replica->split->comm_norm, replica->split->n_norm,
                        channels);
    make_link(w, replica, true);
    make_link(w, replica, false);
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
