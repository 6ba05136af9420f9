/* pipe.c - sends, receives and their group calls (see pipe.h). */
#include "proxies/transformer/pipe.h"

#include <stdlib.h>

static const char *const way_names[] = {"pp forward", "pp backward"};
static const char *const whats[] = {"activations", "activation gradients"};
static const enum bb_phase phases[] = {BB_PHASE_FORWARD, BB_PHASE_BACKWARD};

int bb_pipe_comms(struct bb_layout *l, int group, int comms[2])
{
    for (int w = 0; w < 2; w++) {
        comms[w] = bb_layout_add_comm(l, way_names[w], group);
        if (comms[w] < 0)
            return comms[w];
    }
    return 0;
}

/* ---- who is before and behind ---- */

static int count_parts(const struct bb_pipe *p)
{
    return p->schedule->stages * p->schedule->chunks;
}

static bool slot_receives(const struct bb_pipe *p, const struct bb_slot *t)
{
    int part = t->chunk * p->schedule->stages + p->stage;

    return t->kind != BB_SLOT_WEIGHTS && part != (t->kind == BB_SLOT_FORWARD ? 0 : count_parts(p) - 1);
}

static bool slot_sends(const struct bb_pipe *p, const struct bb_slot *t)
{
    int part = t->chunk * p->schedule->stages + p->stage;

    return t->kind != BB_SLOT_WEIGHTS && part != (t->kind == BB_SLOT_FORWARD ? count_parts(p) - 1 : 0);
}

static struct bb_pipe_way *way_of(struct bb_pipe *p, const struct bb_slot *t)
{
    return &p->ways[t->kind == BB_SLOT_FORWARD ? 0 : 1];
}

/* ---- life ---- */

/* What comes round from the other end of the pipeline comes g - p turns before it is needed. */
static int receive_buffers(const struct bb_pipe *p, int way)
{
    int wraps = way == 0 ? 0 : p->schedule->stages - 1;

    return p->schedule->chunks > 1 && p->stage == wraps ? p->schedule->group - p->schedule->stages + 2 : 2;
}

static int open_way(struct bb_pipe *p, const struct bb_layout *l, int w, int comm)
{
    struct bb_pipe_way *way = &p->ways[w];
    struct bb_script *s = p->script;

    way->n_recv = receive_buffers(p, w);
    way->recv = calloc((size_t)way->n_recv, sizeof(int));
    way->recv_op = calloc((size_t)way->n_recv, sizeof(int));
    way->sources = calloc((size_t)p->n_turns, sizeof(int));
    if (!way->recv || !way->recv_op || !way->sources)
        return bb_err(BB_EFAIL, "out of memory for the messages of a stage");
    for (int t = 0; t < p->n_turns; t++)
        if (way_of(p, &p->turns[t]) == way && slot_receives(p, &p->turns[t]))
            way->sources[way->n_sources++] = p->turns[t].micro_batch;
    if (comm == BB_NONE)
        return 0;
    way->lane = bb_script_lane(s, l, comm);
    for (int i = 0; i < way->n_recv && way->n_sources > 0; i++)
        way->recv[i] = bb_script_buffer(s, "receive", BB_USE_COMMUNICATION, p->count);
    for (int i = 0; i < 2; i++)
        way->send[i] = bb_script_buffer(s, "send", BB_USE_COMMUNICATION, p->count);
    return bb_script_result(s);
}

int bb_pipe_open(struct bb_pipe *p, const struct bb_schedule *schedule, struct bb_script *script,
                 const struct bb_layout *l, const int comms[2], int stage, size_t count)
{
    int rc = 0;

    *p = (struct bb_pipe){.schedule = schedule, .script = script, .stage = stage, .count = count};
    p->n_turns = bb_schedule_slots(schedule);
    p->turns = calloc((size_t)p->n_turns, sizeof(*p->turns));
    if (!p->turns)
        return bb_err(BB_EFAIL, "out of memory for %d turns of a schedule", p->n_turns);
    bb_schedule_make(schedule, stage, p->turns);
    for (int w = 0; w < 2 && rc == 0; w++)
        rc = open_way(p, l, w, schedule->stages > 1 ? comms[w] : BB_NONE);
    if (rc)
        bb_pipe_close(p);
    return rc;
}

void bb_pipe_close(struct bb_pipe *p)
{
    for (int w = 0; w < 2; w++) {
        free(p->ways[w].recv);
        free(p->ways[w].recv_op);
        free(p->ways[w].sources);
    }
    free(p->turns);
    *p = (struct bb_pipe){0};
}

/* ---- messages ---- */

static void set_labels(struct bb_pipe *p, int w, int micro_batch)
{
    p->script->phase = phases[w];
    p->script->micro_batch = micro_batch;
}

/* Starts the next receive of that way. */
static void post_receive(struct bb_pipe *p, int w)
{
    struct bb_pipe_way *way = &p->ways[w];
    int slot = way->posted % way->n_recv;

    set_labels(p, w, way->sources[way->posted]);
    way->recv_op[slot] = bb_script_recv(p->script, way->lane, whats[w], w == 0 ? -1 : 1, p->count, way->recv[slot]);
    way->posted++;
}

static void send_message(struct bb_pipe *p, const struct bb_slot *t)
{
    int w = t->kind == BB_SLOT_FORWARD ? 0 : 1;
    struct bb_pipe_way *way = &p->ways[w];

    set_labels(p, w, t->micro_batch);
    bb_script_send(p->script, way->lane, whats[w], w == 0 ? 1 : -1, p->count, way->send[way->sent++ % 2]);
}

/* What is started after a turn: its send, the receives of some ways. Activations stand first, on both sides. */
static void exchange_messages(struct bb_pipe *p, const struct bb_slot *t, bool sending, const bool posting[2])
{
    int sent = t->kind == BB_SLOT_FORWARD ? 0 : 1, n = sending + posting[0] + posting[1];

    if (n > 1)
        bb_script_group_start(p->script);
    for (int w = 0; w < 2; w++) {
        if (sending && w == sent)
            send_message(p, t);
        if (posting[w])
            post_receive(p, w);
    }
    if (n > 1)
        bb_script_group_end(p->script);
}

/* ---- when they are started ---- */

/* The receive of the next turn belongs into the same group call when it goes the other way. */
static void turned_flat(struct bb_pipe *p, int t)
{
    const struct bb_slot *turn = &p->turns[t], *next = NULL;
    bool posting[2] = {false, false};

    for (int i = t + 1; i < p->n_turns && !next; i++)
        next = p->turns[i].kind == BB_SLOT_WEIGHTS ? NULL : &p->turns[i];
    if (next && next->kind != turn->kind && slot_receives(p, next))
        posting[next->kind == BB_SLOT_FORWARD ? 0 : 1] = true;
    exchange_messages(p, turn, slot_sends(p, turn), posting);
}

/* Whether the round of this rank's k-th turn of a way has a receive: of what the neighbour worked on in that round, one
 * turn ahead or, where it comes from the other end of the pipeline, p - 1 turns back. */
static bool round_receives(const struct bb_pipe *p, int w, int k)
{
    const struct bb_schedule *s = p->schedule;
    bool wraps = p->stage == (w == 0 ? 0 : s->stages - 1);
    int all = s->micro_batches * s->chunks, theirs = wraps ? k - (s->stages - 1) : k + 1;
    int group = s->group * s->chunks, first, size;

    if (!wraps || theirs < 0)
        return !wraps && theirs < all;
    first = theirs / group * s->group; /* the last chunk of each group of micro-batches does not go round */
    size = s->micro_batches - first < s->group ? s->micro_batches - first : s->group;
    return (theirs - first * s->chunks) / size < s->chunks - 1;
}

static void turned_interleaved(struct bb_pipe *p, int t)
{
    const struct bb_slot *turn = &p->turns[t];
    int w = turn->kind == BB_SLOT_FORWARD ? 0 : 1, k = p->ways[w].turned++;
    bool posting[2] = {false, false};
    bool ends_warm_up = w == 0 && k + 1 == bb_schedule_warm_up(p->schedule, p->stage);

    posting[w] = round_receives(p, w, k);
    exchange_messages(p, turn, slot_sends(p, turn), posting);
    if (ends_warm_up && p->stage < p->schedule->stages - 1)
        post_receive(p, 1);
}

void bb_pipe_turned(struct bb_pipe *p, int t)
{
    struct bb_script *s = p->script;
    enum bb_phase phase = s->phase;
    int micro_batch = s->micro_batch;

    if (p->turns[t].kind == BB_SLOT_WEIGHTS || p->schedule->stages == 1)
        return;
    if (bb_schedule_row(p->schedule)->chunked)
        turned_interleaved(p, t);
    else
        turned_flat(p, t);
    s->phase = phase;
    s->micro_batch = micro_batch;
}

int bb_pipe_input(struct bb_pipe *p, int t)
{
    const struct bb_slot *turn = &p->turns[t];
    struct bb_pipe_way *way = way_of(p, turn);
    int slot = way->taken % way->n_recv, micro_batch = p->script->micro_batch;
    enum bb_phase phase = p->script->phase;

    if (!slot_receives(p, turn))
        return BB_NONE;
    if (way->posted == way->taken)
        post_receive(p, turn->kind == BB_SLOT_FORWARD ? 0 : 1);
    p->script->phase = phase;
    p->script->micro_batch = micro_batch;
    way->taken++;
    bb_script_wait(p->script, way->recv_op[slot]);
    return way->recv[slot];
}

int bb_pipe_output(struct bb_pipe *p, int t)
{
    const struct bb_slot *turn = &p->turns[t];
    const struct bb_pipe_way *way = way_of(p, turn);

    return slot_sends(p, turn) ? way->send[way->sent % 2] : BB_NONE;
}
