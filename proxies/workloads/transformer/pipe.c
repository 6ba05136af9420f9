/* pipe.c - sends, receives and their NCCL group calls between pipeline stages (see pipe.h). */
#include "proxies/workloads/transformer/pipe.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>

static const char *const comm_names[BB_PIPE_FLOWS] = {"pp forward", "pp backward", "pp forward reverse",
                                                      "pp backward reverse"};
static const char *const message_names[] = {"activations", "activation gradients"};
static const enum bb_phase phases[] = {BB_PHASE_FORWARD, BB_PHASE_BACKWARD};

void bb_pipe_comms(struct bb_layout *l, int group, bool bidirectional, int comms[BB_PIPE_FLOWS])
{
    for (int d = 0; d < BB_PIPE_FLOWS; d++) {
        comms[d] = BB_NONE;
        if (d < 2 || bidirectional)
            comms[d] = bb_layout_add_stage_comm(l, comm_names[d], group);
    }
}

/* ---- messages of a slot (forward or backward of a model chunk) ---- */

enum message { SENDS, RECEIVES };

/* Returns whether a slot (forward or backward of one model chunk) receives its input from an adjacent stage (RECEIVES)
 * or sends its output to an adjacent stage (SENDS). No input is received by the forward of the model's first layers and
 * the backward of its last layers; no output is sent by the forward of the last layers and the backward of the first
 * layers. WEIGHTS slots (weight gradients) exchange no messages. */
static bool slot_has(const struct bb_pipe *p, const struct bb_slot *t, enum message message)
{
    int part = bb_schedule_part(p->schedule, p->stage, t->chunk), last = bb_schedule_parts(p->schedule) - 1;
    bool at_first = (message == RECEIVES) == (t->kind == BB_SLOT_FORWARD);

    return t->kind != BB_SLOT_WEIGHTS && part != (at_first ? 0 : last);
}

/* Returns the number of elements of the message that a slot sends or receives. */
static size_t elements(const struct bb_pipe *p, const struct bb_slot *t, enum message message)
{
    const int part = bb_schedule_part(p->schedule, p->stage, t->chunk);
    const bool before = (message == RECEIVES) == (t->kind == BB_SLOT_FORWARD); /* from or to the virtual stage before */

    return p->count * (size_t)(part - before == bb_schedule_parts(p->schedule) - 2 ? p->last_factor : 1);
}

static int flow_index(const struct bb_pipe *p, const struct bb_slot *t)
{
    int second = bb_schedule_direction(p->schedule, p->stage, t->chunk) < 0 ? 2 : 0;

    return second + (t->kind == BB_SLOT_FORWARD ? 0 : 1);
}

static struct bb_pipe_flow *flow_of(struct bb_pipe *p, const struct bb_slot *t)
{
    return &p->flows[flow_index(p, t)];
}

/* Returns 1 if the messages of flow d go to the next pipeline stage, -1 if they go to the previous stage. A flow is
 * all activations, or all gradients, in one direction of the pipeline. Activations go to the next stage and
 * gradients to the previous stage; in the second direction of dualpipe, activations go to the previous stage and
 * gradients to the next stage. */
static int flow_offset(int d)
{
    return (d % 2 == 0) == (d < 2) ? 1 : -1;
}

/* ---- open and close ---- */

/* Number of receive buffers of flow d (all activations, or all gradients, in one direction of the pipeline). With
 * several model chunks per stage, messages between the first and the last stage arrive g - p slots (forwards or
 * backwards) before they are used (p: stages; g: micro-batches per group, see schedule.h). */
static int receive_buffers(const struct bb_pipe *p, int d)
{
    int wraps = d == 0 ? 0 : p->schedule->stages - 1;

    return bb_schedule_row(p->schedule)->chunked && p->stage == wraps ? p->schedule->group - p->schedule->stages + 2
                                                                      : 2;
}

static void open_flow(struct bb_pipe *p, const struct bb_layout *l, int d, int comm)
{
    struct bb_pipe_flow *flow = &p->flows[d];
    struct bb_script *s = p->script;

    flow->n_recv = receive_buffers(p, d);
    BB_NEW(flow->recv, flow->n_recv);
    BB_NEW(flow->recv_op, flow->n_recv);
    BB_NEW(flow->arrivals, p->n_slots);
    for (int t = 0; t < p->n_slots; t++)
        if (flow_of(p, &p->slots[t]) == flow && slot_has(p, &p->slots[t], RECEIVES))
            flow->arrivals[flow->n_arrivals++] = &p->slots[t];
    if (comm == BB_NONE)
        return;
    flow->lane = bb_script_lane(s, l, comm);
    for (int i = 0; i < flow->n_recv && flow->n_arrivals > 0; i++)
        flow->recv[i] = bb_script_buffer(s, "receive", BB_USE_COMMUNICATION, p->count * (size_t)p->last_factor);
    for (int i = 0; i < 2; i++)
        flow->send[i] = bb_script_buffer(s, "send", BB_USE_COMMUNICATION, p->count * (size_t)p->last_factor);
}

void bb_pipe_open(struct bb_pipe *p, const struct bb_schedule *schedule, struct bb_script *script,
                  const struct bb_layout *l, const int comms[BB_PIPE_FLOWS], int stage, size_t count, int last_factor)
{
    *p = (struct bb_pipe){
        .schedule = schedule, .script = script, .stage = stage, .count = count, .last_factor = last_factor};
    p->n_slots = bb_schedule_max_slots(schedule);
    BB_NEW(p->slots, p->n_slots);
    p->n_slots = bb_schedule_make(schedule, stage, p->slots);
    for (int d = 0; d < BB_PIPE_FLOWS; d++)
        open_flow(p, l, d, schedule->stages > 1 ? comms[d] : BB_NONE);
}

void bb_pipe_close(struct bb_pipe *p)
{
    for (int d = 0; d < BB_PIPE_FLOWS; d++) {
        free(p->flows[d].recv);
        free(p->flows[d].recv_op);
        free(p->flows[d].arrivals);
    }
    free(p->slots);
    *p = (struct bb_pipe){0};
}

/* ---- messages ---- */

static void set_labels(struct bb_pipe *p, int d, int micro_batch)
{
    p->script->phase = phases[d % 2];
    p->script->micro_batch = micro_batch;
}

/* Posts the next receive of flow d (all activations, or all gradients, in one direction) into the flow's next
 * buffer. */
static void post_receive(struct bb_pipe *p, int d)
{
    struct bb_pipe_flow *flow = &p->flows[d];
    int buffer = flow->posted % flow->n_recv;

    set_labels(p, d, flow->arrivals[flow->posted]->micro_batch);
    flow->recv_op[buffer] = bb_script_recv(p->script, flow->lane, message_names[d % 2], -flow_offset(d),
                                           elements(p, flow->arrivals[flow->posted], RECEIVES), flow->recv[buffer]);
    flow->posted++;
}

/* If `sending`, adds the send of slot t (forward or backward of one model chunk). Adds one receive for each flow d
 * for which receives[d] is true. A flow is all activations, or all gradients, in one direction. Two or more operations
 * form one NCCL group call. All stages add the operations in the order of the flow indices, to avoid deadlock. */
static void exchange_messages(struct bb_pipe *p, const struct bb_slot *t, bool sending,
                              const bool receives[BB_PIPE_FLOWS])
{
    int sent = flow_index(p, t), n = sending;
    struct bb_pipe_flow *flow = &p->flows[sent];

    for (int d = 0; d < BB_PIPE_FLOWS; d++)
        n += receives[d];
    if (n > 1)
        bb_script_group_start(p->script);
    for (int d = 0; d < BB_PIPE_FLOWS; d++) {
        if (sending && d == sent) {
            set_labels(p, d, t->micro_batch);
            bb_script_send(p->script, flow->lane, message_names[d % 2], flow_offset(d), elements(p, t, SENDS),
                           flow->send[flow->sent++ % 2]);
        }
        if (receives[d])
            post_receive(p, d);
    }
    if (n > 1)
        bb_script_group_end(p->script);
}

/* ---- sends and receives after a slot (forward or backward of one model chunk) ---- */

/* Adds the send of slot t (forward or backward of one model chunk). If slot t is a forward and the next slot a
 * backward, or the reverse, the NCCL group call also contains the receive of the next slot. WEIGHTS slots (weight
 * gradients) do not count as next slot. */
static void exchange_paired(struct bb_pipe *p, int t)
{
    const struct bb_slot *slot = &p->slots[t], *next = NULL;
    bool receives[BB_PIPE_FLOWS] = {false};

    for (int i = t + 1; i < p->n_slots && !next; i++)
        next = p->slots[i].kind == BB_SLOT_WEIGHTS ? NULL : &p->slots[i];
    if (next && next->kind != slot->kind && slot_has(p, next, RECEIVES))
        receives[flow_index(p, next)] = true;
    exchange_messages(p, slot, slot_has(p, slot, SENDS), receives);
}

/* Flow d is all activations, or all gradients, in one direction of the pipeline. Returns whether this stage posts a
 * receive of flow d after its k-th slot (forward or backward) of that flow, k from 0. The sender adds the matching
 * send after its slot k + 1 of flow d. For messages between the last and the first stage, it adds the send after its
 * slot k - (p - 1), where p is the number of stages. */
static bool round_receives(const struct bb_pipe *p, int d, int k)
{
    const struct bb_schedule *s = p->schedule;
    bool bidirectional = bb_schedule_is_bidirectional(s);
    bool wraps = p->stage == (flow_offset(d) > 0 ? 0 : s->stages - 1);
    int all = s->micro_batches * s->chunks, peer_slot = wraps ? k - (s->stages - 1) : k + 1;
    int group = s->group * s->chunks, first, size;

    if (bidirectional)
        return !wraps && k + 1 < s->micro_batches / 2;
    if (!wraps || peer_slot < 0 || s->chunks == 1)
        return !wraps && peer_slot < all;
    /* first: index of the first micro-batch in the sender's group of micro-batches (schedule.h). The sender
     * processes a group with one model chunk after another. It does not send the outputs of the last of these
     * chunks, because the model ends (activations) or begins (gradients) there */
    first = peer_slot / group * s->group;
    size = s->micro_batches - first < s->group ? s->micro_batches - first : s->group;
    return (peer_slot - first * s->chunks) / size < s->chunks - 1;
}

static void exchange_overlapped(struct bb_pipe *p, int t)
{
    const struct bb_slot *slot = &p->slots[t];
    int d = flow_index(p, slot), k = p->flows[d].slots_done++;
    bool receives[BB_PIPE_FLOWS] = {false}, bidirectional = bb_schedule_is_bidirectional(p->schedule);
    bool ends_warm_up = d == 0 && !bidirectional && k + 1 == bb_schedule_warm_up(p->schedule, p->stage);

    receives[d] = round_receives(p, d, k);
    exchange_messages(p, slot, slot_has(p, slot, SENDS), receives);
    if (ends_warm_up && p->stage < p->schedule->stages - 1)
        post_receive(p, 1);
}

void bb_pipe_slot_done(struct bb_pipe *p, int t)
{
    struct bb_script *s = p->script;
    enum bb_phase phase = s->phase;
    int micro_batch = s->micro_batch;

    if (p->slots[t].kind == BB_SLOT_WEIGHTS || p->schedule->stages == 1)
        return;
    if (bb_schedule_row(p->schedule)->overlaps_p2p)
        exchange_overlapped(p, t);
    else
        exchange_paired(p, t);
    s->phase = phase;
    s->micro_batch = micro_batch;
}

int bb_pipe_input(struct bb_pipe *p, int t)
{
    const struct bb_slot *slot = &p->slots[t];
    struct bb_pipe_flow *flow = flow_of(p, slot);
    int buffer = flow->consumed % flow->n_recv, micro_batch = p->script->micro_batch;
    enum bb_phase phase = p->script->phase;

    if (!slot_has(p, slot, RECEIVES))
        return BB_NONE;
    if (flow->posted == flow->consumed)
        post_receive(p, flow_index(p, slot));
    p->script->phase = phase;
    p->script->micro_batch = micro_batch;
    flow->consumed++;
    bb_script_wait(p->script, flow->recv_op[buffer]);
    return flow->recv[buffer];
}

int bb_pipe_output(struct bb_pipe *p, int t)
{
    const struct bb_slot *slot = &p->slots[t];
    const struct bb_pipe_flow *flow = flow_of(p, slot);

    return slot_has(p, slot, SENDS) ? flow->send[flow->sent % 2] : BB_NONE;
}
