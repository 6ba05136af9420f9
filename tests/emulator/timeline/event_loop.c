/*
 * event_loop.c - the event loop of a timeline, for all its hosts. See timeline.h. A lane that waits for nothing has an
 * event: its next step begins, or its kernel ends. A flow has an event at its end. No event runs at a time that a
 * running host could still issue something before.
 */
#include "state.h"

#include <math.h>

/* ---- events: a binary heap ---- */

static bool is_stale(const struct emu_timeline *t, const struct tl_event *e)
{
    return (e->kind == TL_OF_LANE && t->lanes[e->id].epoch != e->epoch) ||
           (e->kind == TL_OF_FLOW && t->flows.flows[e->id].epoch != e->epoch);
}

static void put_event(struct emu_timeline *t, struct tl_event event)
{
    struct tl_event *e = t->events;
    int at = t->b->n_events++;

    for (; at > 0 && e[(at - 1) / 2].when_ns > event.when_ns; at = (at - 1) / 2)
        e[at] = e[(at - 1) / 2];
    e[at] = event;
}

/* Removes events whose lane or flow has been rescheduled since. */
static void drop_stale(struct emu_timeline *t)
{
    const int n = t->b->n_events;

    t->b->n_events = 0;
    for (int i = 0; i < n; i++) {
        const struct tl_event event = t->events[i];

        if (!is_stale(t, &event))
            put_event(t, event);
    }
}

void tl_add_event(struct emu_timeline *t, double when_ns, enum tl_event_kind kind, int id, unsigned epoch)
{
    if (t->b->n_events >= TL_EVENTS)
        drop_stale(t);
    if (t->b->n_events >= TL_EVENTS)
        tl_fail(t, TL_FULL, "events", TL_EVENTS);
    else
        put_event(t, (struct tl_event){when_ns, id, kind, epoch});
}

static struct tl_event take_event(struct emu_timeline *t)
{
    struct tl_event *e = t->events, first = e[0], last = e[--t->b->n_events];
    const int n = t->b->n_events;
    int at = 0;

    for (int child = 1; child < n; child = 2 * at + 1) {
        child += child + 1 < n && e[child + 1].when_ns < e[child].when_ns;
        if (e[child].when_ns >= last.when_ns)
            break;
        e[at] = e[child];
        at = child;
    }
    e[at] = last;
    return first;
}

void tl_schedule(struct emu_timeline *t, int lane, double when_ns)
{
    t->lanes[lane].scheduled = true;
    tl_add_event(t, when_ns, TL_OF_LANE, lane, ++t->lanes[lane].epoch);
}

static void begin(struct emu_timeline *t, int lane, double when_ns)
{
    struct tl_lane *l = &t->lanes[lane];
    const struct tl_step *step = &t->steps[l->first];

    l->at_ns = l->begun_ns = when_ns;
    if (step->record != 0)
        tl_reach_moment(t, step->record, when_ns);
    if (step->kind == TL_MARK) {
        tl_drop_step(t, lane);
        tl_advance_lane(t, lane);
    } else if (step->kind == TL_KERNEL)
        tl_begin_kernel(t, lane);
    else
        tl_begin_nccl(t, lane, when_ns);
}

static void run_lane_event(struct emu_timeline *t, int lane, double when_ns)
{
    struct tl_lane *l = &t->lanes[lane];

    l->scheduled = false;
    switch (l->phase) {
    case TL_IDLE:
        begin(t, lane, when_ns);
        break;
    case TL_COMPUTES:
        tl_leave_gpu(t, lane);
        tl_finish(t, lane, when_ns);
        break;
    case TL_ENDING:
        tl_end_nccl(t, lane);
        tl_finish(t, lane, l->end_ns);
        break;
    case TL_AT_START_BARRIER:
    case TL_IN_NCCL:
        break;
    }
    tl_check_start_barriers(t, l->host);
}

static void run_event(struct emu_timeline *t, const struct tl_event *e)
{
    if (is_stale(t, e))
        return;
    if (e->kind == TL_OF_LANE)
        run_lane_event(t, e->id, e->when_ns);
    else if (e->kind == TL_OF_FLOW)
        tl_end_flow(t, e->id);
    else
        tl_end_call(t, e->id);
}

static bool has_pending_updates(const struct emu_timeline *t)
{
    return t->flows.n_fresh > 0 || t->flows.n_stale > 0 || t->b->n_dirty > 0;
}

/* First all events of the current time, then new rates, then the next time. */
void tl_run_events(struct emu_timeline *t)
{
    while (t->b->failure[0] == '\0') {
        const double next_ns = t->b->n_events > 0 ? t->events[0].when_ns : INFINITY;

        if (t->b->start_barriers_due != 0)
            tl_open_start_barriers(t);
        else if (next_ns <= t->b->now_ns) {
            struct tl_event e = take_event(t);

            run_event(t, &e);
        } else if (has_pending_updates(t))
            tl_update_rates(t);
        else if (t->b->n_events > 0 && is_stale(t, &t->events[0]))
            take_event(t);
        else if (next_ns < INFINITY && next_ns <= tl_horizon_ns(t))
            t->b->now_ns = next_ns;
        else
            return;
    }
}
