/*
 * timeline_meet.c - what NCCL's operations move, and whom they meet (see timeline.h). A collective is one flow over the
 * parts of all its members, from when the last of them has come. An exchange is one flow for all messages of a lane's
 * step; a message ends when the flows of both its sides have done, from when both had come, as much as each has to do.
 * So plan has it (proxies/simulate/shared.c).
 */
#include "timeline_state.h"

#include <math.h>

#define TAKE(t, what, most)    tl_take(t, &(t)->b->what, (t)->what, sizeof(*(t)->what), most)
#define GIVE_BACK(t, what, at) tl_give_back(&(t)->b->what, (t)->what, sizeof(*(t)->what), at)

#define SERVED 0.01 /* ns: what rounding leaves of a message at its end */

/* ---- flows ---- */

int tl_add_resource(struct emu_timeline *t, double gbps)
{
    const int at = ++t->b->n_resources;

    if (at >= TL_RESOURCES) {
        t->b->broken = true;
        t->b->n_resources--;
        return 0;
    }
    t->flows.resources[at] = (struct bb_resource){.capacity = gbps, .first = -1};
    return at;
}

static int find_uses(struct emu_timeline *t, int size)
{
    const int first = t->b->uses_unused[size];

    if (first != 0) {
        t->b->uses_unused[size] = t->flows.uses[first].next;
        return first;
    }
    if (t->b->n_uses + (1 << size) + 1 >= TL_USES) {
        t->b->broken = true;
        return 0;
    }
    t->b->n_uses += 1 << size;
    return t->b->n_uses - (1 << size) + 1;
}

/* With room for so many uses. */
static int take_flow(struct emu_timeline *t, int uses)
{
    const int flow = tl_take(t, &t->b->flows, t->owners, sizeof(*t->owners), TL_FLOWS);
    int size = 4;

    while (1 << size < uses)
        size++;
    if (size >= TL_SIZES) {
        t->b->broken = true;
        size = 4;
    }
    t->owners[flow].size = size;
    t->flows.flows[flow].first_use = find_uses(t, size);
    t->flows.flows[flow].n_uses = 0;
    t->flows.flows[flow].bytes_per_ns = 0;
    return flow;
}

static void stop_flow(struct emu_timeline *t, int flow)
{
    const struct bb_flow *w = &t->flows.flows[flow];
    const int size = t->owners[flow].size;

    bb_flows_stop(&t->flows, flow, t->b->now_ns);
    for (int u = w->first_use; u < w->first_use + w->n_uses; u++)
        tl_disturb(t, t->memory_of[t->flows.uses[u].resource]);
    t->flows.uses[w->first_use].next = t->b->uses_unused[size];
    t->b->uses_unused[size] = w->first_use;
    tl_give_back(&t->b->flows, t->owners, sizeof(*t->owners), flow);
}

/* What a step takes of its GPU and of the places behind it. */
static void add_uses(struct emu_timeline *t, int flow, int lane)
{
    const struct tl_step *step = &t->steps[t->lanes[lane].first];
    const struct tl_gpu *gpu = &t->gpus[t->lanes[lane].gpu];
    struct bb_flow *w = &t->flows.flows[flow];

    for (int i = 0; i < EMU_PARTS; i++) {
        int *at = &t->use_at[gpu->resource[i]];

        if (step->weight[i] <= 0)
            continue;
        if (*at < w->first_use || *at >= w->first_use + w->n_uses || t->flows.uses[*at].resource != gpu->resource[i]) {
            *at = w->first_use + w->n_uses++;
            t->flows.uses[*at] = (struct bb_flow_use){.resource = gpu->resource[i]};
        }
        t->flows.uses[*at].weight += step->weight[i];
    }
    w->bytes_per_ns = fmax(w->bytes_per_ns, step->pace);
}

static void hold_sms(struct emu_timeline *t, int gpu, int sms)
{
    t->gpus[gpu].held_sms += sms;
    tl_disturb(t, gpu);
}

/* ---- numbers of ranks and turns ---- */

static unsigned bucket_of(uint64_t comm, uint64_t a, uint64_t b)
{
    uint64_t h = comm ^ (a * 0x9e3779b97f4a7c15u + b + 1) * 0xbf58476d1ce4e5b9u;

    h = (h ^ h >> 30) * 0x94d049bb133111ebu;
    return (unsigned)((h ^ h >> 31) % TL_BUCKETS);
}

/* The place that names it, 0 in it: there is none. */
static int *find_meeting(struct emu_timeline *t, uint64_t comm, uint64_t turn)
{
    int *at = &t->b->meeting_at[bucket_of(comm, turn, 0)];

    while (*at != 0 && (t->meetings[*at].comm != comm || t->meetings[*at].turn != turn))
        at = &t->meetings[*at].next;
    return at;
}

static int *find_pair(struct emu_timeline *t, uint64_t comm, int from, int to)
{
    int *at = &t->b->pair_at[bucket_of(comm, (uint64_t)from, (uint64_t)to)];

    while (*at != 0 && (t->pairs[*at].comm != comm || t->pairs[*at].from != from || t->pairs[*at].to != to))
        at = &t->pairs[*at].next;
    return at;
}

/* ---- collectives ---- */

static void begin_meeting(struct emu_timeline *t, int at)
{
    struct tl_meeting *m = &t->meetings[at];
    double transfer_ns = 0;

    m->begun = true;
    m->late_ns = fmax(0, t->b->now_ns - m->begin_ns);
    for (int lane = m->lanes; lane != 0; lane = t->lanes[lane].next_member) {
        const struct tl_step *step = &t->steps[t->lanes[lane].first];

        m->latency_ns = fmax(m->latency_ns, step->latency_ns);
        transfer_ns = fmax(transfer_ns, step->transfer_ns);
    }
    if (transfer_ns <= 0) {
        m->end_ns = m->begin_ns + m->latency_ns;
        tl_plan_event(t, m->end_ns, TL_OF_MEETING, at, 0);
        return;
    }
    m->flow = take_flow(t, m->arrived * EMU_PARTS);
    t->owners[m->flow].meeting = at;
    for (int lane = m->lanes; lane != 0; lane = t->lanes[lane].next_member)
        add_uses(t, m->flow, lane);
    bb_flows_start(&t->flows, m->flow, t->b->now_ns, transfer_ns);
}

static void come_to_meeting(struct emu_timeline *t, int lane, double when_ns)
{
    struct tl_lane *l = &t->lanes[lane];
    const struct tl_step *step = &t->steps[l->first];
    int *at = find_meeting(t, step->comm, step->turn), meeting = *at;
    struct tl_meeting *m;

    if (meeting == 0) {
        meeting = TAKE(t, meetings, TL_MEETINGS);
        t->meetings[meeting].comm = step->comm;
        t->meetings[meeting].turn = step->turn;
        *at = meeting;
    }
    m = &t->meetings[meeting];
    l->meeting = meeting;
    l->next_member = m->lanes;
    m->lanes = lane;
    m->begin_ns = fmax(m->begin_ns, when_ns);
    if (++m->arrived == step->members)
        begin_meeting(t, meeting);
}

void tl_end_meeting(struct emu_timeline *t, int meeting)
{
    struct tl_meeting *m = &t->meetings[meeting];
    int *at = find_meeting(t, m->comm, m->turn), lane = m->lanes;
    const double end_ns = m->end_ns;

    *at = m->next;
    GIVE_BACK(t, meetings, meeting);
    while (lane != 0) {
        const int next = t->lanes[lane].next_member;

        t->lanes[lane].meeting = 0;
        /* From its own coming on, it lasts as long as from the last one's. */
        tl_end_nccl(t, lane);
        tl_finish(t, lane, end_ns);
        lane = next;
    }
}

/* ---- messages ---- */

void tl_take_cells(struct emu_timeline *t, int step, const struct emu_meeting *meeting)
{
    int *last = &t->steps[step].cells;

    for (int i = 0; i < meeting->n_messages; i++) {
        const int at = TAKE(t, cells, TL_CELLS);
        const struct emu_message *message = &meeting->messages[i];

        t->cells[at] = (struct tl_cell){.lane = t->steps[step].lane,
                                        .peer = message->peer,
                                        .sends = message->sends,
                                        .latency_ns = message->latency_ns};
        *last = at;
        last = &t->cells[at].of_step;
    }
    t->steps[step].turn = meeting->n_messages > 0 ? (uint64_t)meeting->rank : t->steps[step].turn;
}

/* When an exchange that is done ends: by its own time, and by the time of all. */
static void finish_side(struct emu_timeline *t, const struct tl_cell *c)
{
    struct tl_lane *l = &t->lanes[c->lane];

    l->ends_ns = fmax(l->ends_ns, t->b->now_ns + c->latency_ns);
    l->end_ns = fmax(l->end_ns, t->b->now_ns + c->latency_ns - c->late_ns);
    if (--l->open > 0)
        return;
    l->phase = TL_ENDS;
    tl_schedule(t, c->lane, l->ends_ns);
}

/* other -1: that side has ended without it. */
static void serve_side(struct emu_timeline *t, int cell)
{
    struct tl_cell *c = &t->cells[cell];

    c->served = true;
    c->queued = false;
    if (c->other > 0 && !t->cells[c->other].served)
        return;
    finish_side(t, c);
    if (c->other > 0)
        finish_side(t, &t->cells[c->other]);
}

static void queue_side(struct emu_timeline *t, int cell)
{
    struct tl_cell *c = &t->cells[cell];
    struct tl_lane *l = &t->lanes[c->lane];
    const double load_ns = t->steps[l->first].transfer_ns;

    if (load_ns <= 0) {
        serve_side(t, cell);
        return;
    }
    c->next = 0;
    c->queued = true;
    c->target_ns = load_ns + (l->flow != 0 ? bb_flow_served_ns(&t->flows.flows[l->flow], t->b->now_ns) : 0);
    if (l->head == 0)
        l->head = cell;
    else
        t->cells[l->tail].next = cell;
    l->tail = cell;
    if (l->flow != 0)
        return;
    l->flow = take_flow(t, EMU_PARTS);
    t->owners[l->flow].lane = c->lane;
    add_uses(t, l->flow, c->lane);
    bb_flows_start(&t->flows, l->flow, t->b->now_ns, load_ns);
}

static void meet_side(struct emu_timeline *t, int a, int b)
{
    const double late_ns = fmax(0, t->b->now_ns - fmax(t->cells[a].came_ns, t->cells[b].came_ns));

    t->cells[a].other = b;
    t->cells[b].other = a;
    t->cells[a].late_ns = t->cells[b].late_ns = late_ns;
    queue_side(t, a);
    queue_side(t, b);
}

/* The other side, if it has come; else the cell waits for it. */
static void come_to_message(struct emu_timeline *t, const struct tl_step *step, int cell, double when_ns)
{
    struct tl_cell *c = &t->cells[cell];
    const int me = (int)step->turn, from = c->sends ? me : c->peer, to = c->sends ? c->peer : me;
    int *at = find_pair(t, step->comm, from, to), pair = *at, other;
    struct tl_pair *p;

    c->came_ns = when_ns;
    if (pair == 0) {
        pair = TAKE(t, pairs, TL_PAIRS);
        t->pairs[pair] = (struct tl_pair){.comm = step->comm, .from = from, .to = to};
        *at = pair;
    }
    p = &t->pairs[pair];
    other = p->head;
    if (other == 0 || t->cells[other].sends == c->sends) {
        if (p->head == 0)
            p->head = cell;
        else
            t->cells[p->tail].next = cell;
        p->tail = cell;
        return;
    }
    p->head = t->cells[other].next;
    if (p->head == 0) {
        *at = p->next;
        GIVE_BACK(t, pairs, pair);
    }
    meet_side(t, cell, other);
}

static void begin_exchange(struct emu_timeline *t, int lane, double when_ns)
{
    struct tl_lane *l = &t->lanes[lane];
    const struct tl_step *step = &t->steps[l->first];

    l->end_ns = when_ns + step->alone_ns;
    l->ends_ns = fmax(t->b->now_ns, l->end_ns);
    l->open = 0;
    for (int c = step->cells; c != 0; c = t->cells[c].of_step)
        l->open++;
    for (int c = step->cells; c != 0; c = t->cells[c].of_step)
        come_to_message(t, step, c, when_ns);
}

/* The first in line is done, and whoever is by now; the next has the flow on. */
static void serve_exchange(struct emu_timeline *t, int lane)
{
    struct tl_lane *l = &t->lanes[lane];
    const int flow = l->flow;
    const double served = bb_flow_served_ns(&t->flows.flows[flow], t->b->now_ns) + SERVED;
    int cell = l->head;

    do {
        l->head = t->cells[cell].next;
        if (l->head == 0)
            l->flow = 0;
        serve_side(t, cell);
        cell = l->head;
    } while (cell != 0 && t->cells[cell].target_ns <= served);
    if (cell == 0) {
        stop_flow(t, flow);
        return;
    }
    bb_flows_aim(&t->flows, flow, t->cells[cell].target_ns);
    tl_plan_event(t, bb_flow_end_ns(&t->flows.flows[flow]), TL_OF_FLOW, flow, t->flows.flows[flow].epoch);
}

static void unlink_waiting(struct emu_timeline *t, const struct tl_step *step, int cell)
{
    const struct tl_cell *c = &t->cells[cell];
    const int me = (int)step->turn;
    int *at = find_pair(t, step->comm, c->sends ? me : c->peer, c->sends ? c->peer : me), last = 0;
    struct tl_pair *p = &t->pairs[*at];
    int *link = &p->head;

    if (*at == 0)
        return;
    while (*link != 0 && *link != cell) {
        last = *link;
        link = &t->cells[*link].next;
    }
    if (*link != cell)
        return;
    *link = c->next;
    if (p->tail == cell)
        p->tail = last;
    if (p->head == 0) {
        const int pair = *at;

        *at = p->next;
        GIVE_BACK(t, pairs, pair);
    }
}

/* A side that goes lets the other one end as if it had been served. */
void tl_drop_cells(struct emu_timeline *t, int at)
{
    struct tl_step *step = &t->steps[at];

    for (int cell = step->cells, next; cell != 0; cell = next) {
        const int other = t->cells[cell].other;

        next = t->cells[cell].of_step;
        if (other == 0)
            unlink_waiting(t, step, cell);
        else if (other > 0) {
            t->cells[other].other = -1;
            if (t->cells[other].served && !t->cells[cell].served)
                finish_side(t, &t->cells[other]);
        }
        GIVE_BACK(t, cells, cell);
    }
    step->cells = 0;
}

/* ---- what the lanes see ---- */

static void begin_alone(struct emu_timeline *t, int lane, double when_ns)
{
    struct tl_lane *l = &t->lanes[lane];
    const struct tl_step *step = &t->steps[l->first];

    l->late_ns = fmax(0, t->b->now_ns - when_ns);
    if (step->transfer_ns <= 0) {
        l->phase = TL_ENDS;
        l->end_ns = when_ns + step->latency_ns;
        tl_schedule(t, lane, l->end_ns);
        return;
    }
    l->flow = take_flow(t, EMU_PARTS);
    t->owners[l->flow].lane = lane;
    add_uses(t, l->flow, lane);
    bb_flows_start(&t->flows, l->flow, t->b->now_ns, step->transfer_ns);
}

void tl_begin_nccl(struct emu_timeline *t, int lane, double when_ns)
{
    const struct tl_step *step = &t->steps[t->lanes[lane].first];

    t->lanes[lane].phase = TL_MEETS;
    hold_sms(t, t->lanes[lane].gpu, step->sms);
    if (step->members == 0)
        begin_alone(t, lane, when_ns);
    else if (step->cells != 0)
        begin_exchange(t, lane, when_ns);
    else
        come_to_meeting(t, lane, when_ns);
}

void tl_end_nccl(struct emu_timeline *t, int lane)
{
    const int step = t->lanes[lane].first;

    hold_sms(t, t->lanes[lane].gpu, -t->steps[step].sms);
    tl_drop_cells(t, step);
}

void tl_end_flow(struct emu_timeline *t, int flow)
{
    const int meeting = t->owners[flow].meeting, lane = t->owners[flow].lane;
    struct tl_lane *l = &t->lanes[lane];

    if (meeting != 0) {
        struct tl_meeting *m = &t->meetings[meeting];

        stop_flow(t, flow);
        m->flow = 0;
        m->end_ns = t->b->now_ns - m->late_ns + m->latency_ns;
        tl_plan_event(t, t->b->now_ns + m->latency_ns, TL_OF_MEETING, meeting, 0);
    } else if (t->steps[l->first].members > 0)
        serve_exchange(t, lane);
    else {
        stop_flow(t, flow);
        l->flow = 0;
        l->phase = TL_ENDS;
        l->end_ns = t->b->now_ns - l->late_ns + t->steps[l->first].latency_ns;
        tl_schedule(t, lane, t->b->now_ns + t->steps[l->first].latency_ns);
    }
}

void tl_leave_nccl(struct emu_timeline *t, int lane)
{
    struct tl_lane *l = &t->lanes[lane];

    if (l->meeting != 0) {
        struct tl_meeting *m = &t->meetings[l->meeting];
        int *link = &m->lanes;

        while (*link != lane)
            link = &t->lanes[*link].next_member;
        *link = l->next_member;
        m->arrived--;
        if (m->lanes == 0 && !m->begun) {
            *find_meeting(t, m->comm, m->turn) = m->next;
            GIVE_BACK(t, meetings, l->meeting);
        }
        l->meeting = 0;
    }
    if (l->flow != 0)
        stop_flow(t, l->flow);
    l->flow = l->head = l->open = 0;
}

bool tl_moves(const struct emu_timeline *t, int lane)
{
    const struct tl_lane *l = &t->lanes[lane];

    return l->phase == TL_MEETS && (l->flow != 0 || (l->meeting != 0 && t->meetings[l->meeting].begun));
}
