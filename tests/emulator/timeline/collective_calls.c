/* collective_calls.c - matches the members of a collective. A collective is one flow over the resources of all its
 * members and starts when the last member has arrived. */
#include "state.h"

#include <math.h>

unsigned tl_bucket_of(uint64_t comm, uint64_t a, uint64_t b)
{
    uint64_t h = comm ^ (a * 0x9e3779b97f4a7c15u + b + 1) * 0xbf58476d1ce4e5b9u;

    h = (h ^ h >> 30) * 0x94d049bb133111ebu;
    return (unsigned)((h ^ h >> 31) % TL_BUCKETS);
}

/* The link that holds the id of the call; 0 in it if there is no such call. */
static int *find_call(struct emu_timeline *t, uint64_t comm, uint64_t turn)
{
    int *at = &t->b->call_at[tl_bucket_of(comm, turn, 0)];

    while (*at != 0 && (t->calls[*at].comm != comm || t->calls[*at].turn != turn))
        at = &t->calls[*at].next;
    return at;
}

static void begin_call(struct emu_timeline *t, int at)
{
    struct tl_call *m = &t->calls[at];
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
        tl_add_event(t, m->end_ns, TL_OF_CALL, at, 0);
        return;
    }
    m->flow = tl_take_flow(t, m->arrived * EMU_PARTS);
    t->owners[m->flow].call = at;
    for (int lane = m->lanes; lane != 0; lane = t->lanes[lane].next_member)
        tl_add_uses(t, m->flow, lane);
    bb_flows_start(&t->flows, m->flow, t->b->now_ns, transfer_ns);
}

void tl_arrive_at_call(struct emu_timeline *t, int lane, double when_ns)
{
    struct tl_lane *l = &t->lanes[lane];
    const struct tl_step *step = &t->steps[l->first];
    int *at = find_call(t, step->comm, step->turn), call = *at;
    struct tl_call *m;

    if (call == 0) {
        call = TL_TAKE(t, calls, TL_CALLS);
        t->calls[call].comm = step->comm;
        t->calls[call].turn = step->turn;
        *at = call;
    }
    m = &t->calls[call];
    l->call = call;
    l->next_member = m->lanes;
    m->lanes = lane;
    m->begin_ns = fmax(m->begin_ns, when_ns);
    if (++m->arrived == step->members)
        begin_call(t, call);
}

void tl_end_call(struct emu_timeline *t, int call)
{
    struct tl_call *m = &t->calls[call];
    int *at = find_call(t, m->comm, m->turn), lane = m->lanes;
    const double end_ns = m->end_ns;

    *at = m->next;
    TL_GIVE_BACK(t, calls, call);
    while (lane != 0) {
        const int next = t->lanes[lane].next_member;

        t->lanes[lane].call = 0;
        tl_end_nccl(t, lane);
        tl_finish(t, lane, end_ns);
        lane = next;
    }
}

/* The call ends when its last member has left, or at its planned end if that is known already. */
void tl_leave_call(struct emu_timeline *t, int lane)
{
    struct tl_lane *l = &t->lanes[lane];
    struct tl_call *m = &t->calls[l->call];
    int *link = &m->lanes;

    while (*link != lane)
        link = &t->lanes[*link].next_member;
    *link = l->next_member;
    m->arrived--;
    if (m->lanes == 0 && m->flow != 0)
        tl_stop_flow(t, m->flow);
    if (m->lanes == 0 && (!m->begun || m->flow != 0)) {
        *find_call(t, m->comm, m->turn) = m->next;
        TL_GIVE_BACK(t, calls, l->call);
    }
    l->call = 0;
}
