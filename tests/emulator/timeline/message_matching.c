/*
 * message_matching.c - messages of send/receive exchanges. All messages of one step of a lane share one flow. A message
 * starts when both endpoints have arrived, and ends when the flows of both endpoints have moved the bytes of their
 * steps since then. This is the model of `busbar plan` (proxies/simulation/simulate/engine/contention_sim.c).
 */
#include "state.h"

#include <math.h>

#define SERVED 0.01 /* ns: rounding error allowed at the end of a message */

static int *find_pair(struct emu_timeline *t, uint64_t comm, int from, int to)
{
    int *at = &t->b->pair_at[tl_bucket_of(comm, (uint64_t)from, (uint64_t)to)];

    while (*at != 0 && (t->pairs[*at].comm != comm || t->pairs[*at].from != from || t->pairs[*at].to != to))
        at = &t->pairs[*at].next;
    return at;
}

void tl_add_endpoints(struct emu_timeline *t, int step, const struct emu_peers *peers)
{
    int *last = &t->steps[step].endpoints;

    for (int i = 0; i < peers->n_messages; i++) {
        const int at = TL_TAKE(t, endpoints, TL_ENDPOINTS);
        const struct emu_message *message = &peers->messages[i];

        t->endpoints[at] = (struct tl_endpoint){.lane = t->steps[step].lane,
                                                .peer = message->peer,
                                                .sends = message->sends,
                                                .latency_ns = message->latency_ns};
        *last = at;
        last = &t->endpoints[at].next_of_step;
    }
    t->steps[step].turn = peers->n_messages > 0 ? (uint64_t)peers->rank : t->steps[step].turn;
}

/* Ends one message of a step. The last message ends the exchange: at end_ns in lane time, at ends_ns in simulated
 * time. */
static void finish_endpoint(struct emu_timeline *t, const struct tl_endpoint *c)
{
    struct tl_lane *l = &t->lanes[c->lane];

    l->ends_ns = fmax(l->ends_ns, t->b->now_ns + c->latency_ns);
    l->end_ns = fmax(l->end_ns, t->b->now_ns + c->latency_ns - c->late_ns);
    if (--l->open > 0)
        return;
    l->phase = TL_ENDING;
    tl_schedule(t, c->lane, l->ends_ns);
}

/* other -1: the opposite endpoint was dropped. */
static void serve_endpoint(struct emu_timeline *t, int endpoint)
{
    struct tl_endpoint *c = &t->endpoints[endpoint];

    c->served = true;
    c->queued = false;
    if (c->other > 0 && !t->endpoints[c->other].served)
        return;
    finish_endpoint(t, c);
    if (c->other > 0)
        finish_endpoint(t, &t->endpoints[c->other]);
}

static void queue_endpoint(struct emu_timeline *t, int endpoint)
{
    struct tl_endpoint *c = &t->endpoints[endpoint];
    struct tl_lane *l = &t->lanes[c->lane];
    const double load_ns = t->steps[l->first].transfer_ns;

    if (load_ns <= 0) {
        serve_endpoint(t, endpoint);
        return;
    }
    c->next = 0;
    c->queued = true;
    c->target_ns = load_ns + (l->flow != 0 ? bb_flow_served_ns(&t->flows.flows[l->flow], t->b->now_ns) : 0);
    if (l->head == 0)
        l->head = endpoint;
    else
        t->endpoints[l->tail].next = endpoint;
    l->tail = endpoint;
    if (l->flow != 0)
        return;
    l->flow = tl_take_flow(t, EMU_PARTS);
    t->owners[l->flow].lane = c->lane;
    tl_add_uses(t, l->flow, c->lane);
    bb_flows_start(&t->flows, l->flow, t->b->now_ns, load_ns);
}

static void match_endpoints(struct emu_timeline *t, int a, int b)
{
    const double late_ns = fmax(0, t->b->now_ns - fmax(t->endpoints[a].arrived_ns, t->endpoints[b].arrived_ns));
    const double latency_ns = fmax(t->endpoints[a].latency_ns, t->endpoints[b].latency_ns);

    t->endpoints[a].other = b;
    t->endpoints[b].other = a;
    t->endpoints[a].late_ns = t->endpoints[b].late_ns = late_ns;
    t->endpoints[a].latency_ns = t->endpoints[b].latency_ns = latency_ns;
    queue_endpoint(t, a);
    queue_endpoint(t, b);
}

/* Matches the endpoint with the opposite one if that has arrived, otherwise queues it. */
static void match_or_queue(struct emu_timeline *t, const struct tl_step *step, int endpoint, double when_ns)
{
    struct tl_endpoint *c = &t->endpoints[endpoint];
    const int me = (int)step->turn, from = c->sends ? me : c->peer, to = c->sends ? c->peer : me;
    int *at = find_pair(t, step->comm, from, to), pair = *at, other;
    struct tl_pair *p;

    c->arrived_ns = when_ns;
    if (pair == 0) {
        pair = TL_TAKE(t, pairs, TL_PAIRS);
        t->pairs[pair] = (struct tl_pair){.comm = step->comm, .from = from, .to = to};
        *at = pair;
    }
    p = &t->pairs[pair];
    other = p->head;
    if (other == 0 || t->endpoints[other].sends == c->sends) {
        if (p->head == 0)
            p->head = endpoint;
        else
            t->endpoints[p->tail].next = endpoint;
        p->tail = endpoint;
        return;
    }
    p->head = t->endpoints[other].next;
    if (p->head == 0) {
        *at = p->next;
        TL_GIVE_BACK(t, pairs, pair);
    }
    match_endpoints(t, endpoint, other);
}

void tl_begin_exchange(struct emu_timeline *t, int lane, double when_ns)
{
    struct tl_lane *l = &t->lanes[lane];
    const struct tl_step *step = &t->steps[l->first];

    l->end_ns = when_ns + step->alone_ns;
    l->ends_ns = fmax(t->b->now_ns, l->end_ns);
    l->open = 0;
    for (int c = step->endpoints; c != 0; c = t->endpoints[c].next_of_step)
        l->open++;
    for (int c = step->endpoints; c != 0; c = t->endpoints[c].next_of_step)
        match_or_queue(t, step, c, when_ns);
}

/* Ends the first endpoint in the queue and all others whose bytes have been moved; the flow continues for the next
 * one. */
void tl_serve_exchange(struct emu_timeline *t, int lane)
{
    struct tl_lane *l = &t->lanes[lane];
    const int flow = l->flow;
    const double served = bb_flow_served_ns(&t->flows.flows[flow], t->b->now_ns) + SERVED;
    int endpoint = l->head;

    do {
        l->head = t->endpoints[endpoint].next;
        if (l->head == 0)
            l->flow = 0;
        serve_endpoint(t, endpoint);
        endpoint = l->head;
    } while (endpoint != 0 && t->endpoints[endpoint].target_ns <= served);
    if (endpoint == 0) {
        tl_stop_flow(t, flow);
        return;
    }
    bb_flows_set_target(&t->flows, flow, t->endpoints[endpoint].target_ns);
    tl_add_event(t, bb_flow_end_ns(&t->flows.flows[flow]), TL_OF_FLOW, flow, t->flows.flows[flow].epoch);
}

static void unlink_waiting(struct emu_timeline *t, const struct tl_step *step, int endpoint)
{
    const struct tl_endpoint *c = &t->endpoints[endpoint];
    const int me = (int)step->turn;
    int *at = find_pair(t, step->comm, c->sends ? me : c->peer, c->sends ? c->peer : me), last = 0;
    struct tl_pair *p = &t->pairs[*at];
    int *link = &p->head;

    if (*at == 0)
        return;
    while (*link != 0 && *link != endpoint) {
        last = *link;
        link = &t->endpoints[*link].next;
    }
    if (*link != endpoint)
        return;
    *link = c->next;
    if (p->tail == endpoint)
        p->tail = last;
    if (p->head == 0) {
        const int pair = *at;

        *at = p->next;
        TL_GIVE_BACK(t, pairs, pair);
    }
}

/* Dropping an endpoint lets the opposite endpoint end as if this one had been served. */
void tl_drop_endpoints(struct emu_timeline *t, int at)
{
    struct tl_step *step = &t->steps[at];

    for (int endpoint = step->endpoints, next; endpoint != 0; endpoint = next) {
        const int other = t->endpoints[endpoint].other;

        next = t->endpoints[endpoint].next_of_step;
        if (other == 0)
            unlink_waiting(t, step, endpoint);
        else if (other > 0) {
            t->endpoints[other].other = -1;
            if (t->endpoints[other].served && !t->endpoints[endpoint].served)
                finish_endpoint(t, &t->endpoints[other]);
        }
        TL_GIVE_BACK(t, endpoints, endpoint);
    }
    step->endpoints = 0;
}
