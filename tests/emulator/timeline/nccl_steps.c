/* nccl_steps.c - an NCCL operation on a timeline: it begins, moves bytes, alone or with its peers, and ends. See
 * timeline.h. */
#include "state.h"

#include <math.h>

static void begin_alone(struct emu_timeline *t, int lane, double when_ns)
{
    struct tl_lane *l = &t->lanes[lane];
    const struct tl_step *step = &t->steps[l->first];

    l->late_ns = fmax(0, t->b->now_ns - when_ns);
    if (step->transfer_ns <= 0) {
        l->phase = TL_ENDING;
        l->end_ns = when_ns + step->latency_ns;
        tl_schedule(t, lane, l->end_ns);
        return;
    }
    l->flow = tl_take_flow(t, EMU_PARTS);
    t->owners[l->flow].lane = lane;
    tl_add_uses(t, l->flow, lane);
    bb_flows_start(&t->flows, l->flow, t->b->now_ns, step->transfer_ns);
}

void tl_begin_nccl(struct emu_timeline *t, int lane, double when_ns)
{
    const struct tl_step *step = &t->steps[t->lanes[lane].first];

    t->lanes[lane].phase = TL_IN_NCCL;
    tl_hold_sms(t, t->lanes[lane].gpu, step->sms);
    if (step->members == 0)
        begin_alone(t, lane, when_ns);
    else if (step->endpoints != 0)
        tl_begin_exchange(t, lane, when_ns);
    else
        tl_arrive_at_call(t, lane, when_ns);
}

void tl_end_nccl(struct emu_timeline *t, int lane)
{
    const int step = t->lanes[lane].first;

    tl_hold_sms(t, t->lanes[lane].gpu, -t->steps[step].sms);
    tl_drop_endpoints(t, step);
}

void tl_end_flow(struct emu_timeline *t, int flow)
{
    const int call = t->owners[flow].call, lane = t->owners[flow].lane;
    struct tl_lane *l = &t->lanes[lane];

    if (call != 0) {
        struct tl_call *m = &t->calls[call];

        tl_stop_flow(t, flow);
        m->flow = 0;
        m->end_ns = t->b->now_ns - m->late_ns + m->latency_ns;
        tl_add_event(t, t->b->now_ns + m->latency_ns, TL_OF_CALL, call, 0);
    } else if (t->steps[l->first].members > 0)
        tl_serve_exchange(t, lane);
    else {
        tl_stop_flow(t, flow);
        l->flow = 0;
        l->phase = TL_ENDING;
        l->end_ns = t->b->now_ns - l->late_ns + t->steps[l->first].latency_ns;
        tl_schedule(t, lane, t->b->now_ns + t->steps[l->first].latency_ns);
    }
}

void tl_leave_nccl(struct emu_timeline *t, int lane)
{
    struct tl_lane *l = &t->lanes[lane];

    if (l->call != 0)
        tl_leave_call(t, lane);
    if (l->flow != 0)
        tl_stop_flow(t, l->flow);
    l->flow = l->head = l->open = 0;
}

bool tl_moves(const struct emu_timeline *t, int lane)
{
    const struct tl_lane *l = &t->lanes[lane];

    return l->phase == TL_IN_NCCL && (l->flow != 0 || (l->call != 0 && t->calls[l->call].begun));
}
