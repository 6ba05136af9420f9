/*
 * timeline.c - time passes from event to event, for all hosts (see timeline.h). A lane that has nothing to wait for has
 * an event: its next step begins, or its kernel ends; what moves bytes has flows (timeline_meet.c). No event is let
 * happen that a host which runs could still come before.
 */
#include "timeline.h"
#include "timeline_state.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLICE_S 0.25 /* at most so long a host sleeps for news          */
#define LOOK_S  0.5  /* so often somebody looks after the hosts, at most */

/* ---- elements ---- */

int tl_take(struct emu_timeline *t, struct tl_pool *pool, void *elements, size_t bytes, int most)
{
    int at = pool->unused;
    char *element;

    if (at == 0 && pool->n + 1 >= most) {
        t->b->broken = true;
        return 0;
    }
    if (at == 0)
        at = ++pool->n;
    element = (char *)elements + (size_t)at * bytes;
    if (at == pool->unused)
        memcpy(&pool->unused, element, sizeof(pool->unused));
    memset(element, 0, bytes);
    return at;
}

void tl_give_back(struct tl_pool *pool, void *elements, size_t bytes, int at)
{
    memcpy((char *)elements + (size_t)at * bytes, &pool->unused, sizeof(pool->unused));
    pool->unused = at;
}

#define TAKE(t, what, most)    tl_take(t, &(t)->b->what, (t)->what, sizeof(*(t)->what), most)
#define GIVE_BACK(t, what, at) tl_give_back(&(t)->b->what, (t)->what, sizeof(*(t)->what), at)

/* ---- events: a heap ---- */

void tl_plan_event(struct emu_timeline *t, double when_ns, enum tl_event_kind kind, int id, unsigned epoch)
{
    struct tl_event *e = t->events;
    int at = t->b->n_events;

    if (at >= TL_EVENTS) {
        t->b->broken = true;
        return;
    }
    t->b->n_events++;
    for (; at > 0 && e[(at - 1) / 2].when_ns > when_ns; at = (at - 1) / 2)
        e[at] = e[(at - 1) / 2];
    e[at] = (struct tl_event){when_ns, id, kind, epoch};
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
    tl_plan_event(t, when_ns, TL_OF_LANE, lane, ++t->lanes[lane].epoch);
}

/* ---- hosts ---- */

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void set_host(struct emu_timeline *t, int host, enum tl_host_state state)
{
    struct tl_host *h = &t->hosts[host];

    t->b->n_live += (state != TL_GONE) - (h->state != TL_GONE);
    t->b->n_away += (state == TL_AWAY) - (h->state == TL_AWAY);
    h->state = state;
    h->heard_s = seconds();
    t->bounds[host] = state == TL_RUNS ? t->clocks[host] : INFINITY;
}

/* Gates of a host that waits may open. */
static void look_at_gates(struct emu_timeline *t, int host)
{
    if (t->hosts[host].gates > 0 && t->hosts[host].state == TL_WAITS)
        t->b->gates_due = t->b->gates_due == 0 || t->b->gates_due == host ? host : -1;
}

static void release_host(struct emu_timeline *t, int host, double when_ns)
{
    t->clocks[host] = fmax(t->clocks[host], when_ns);
    set_host(t, host, TL_RUNS);
}

/* Nothing happens after it that a host could still issue something for. */
static double horizon_ns(const struct emu_timeline *t)
{
    double ns = INFINITY;

    for (int h = 1; h <= t->b->hosts.n; h++)
        ns = t->bounds[h] < ns ? t->bounds[h] : ns;
    return ns;
}

void emu_timeline_run_host(struct emu_timeline *t, int host, double clock_ns)
{
    release_host(t, host, clock_ns);
}

static void wait_for(struct emu_timeline *t, int host, int lane, double clock_ns)
{
    t->clocks[host] = fmax(t->clocks[host], clock_ns);
    set_host(t, host, TL_WAITS);
    t->hosts[host].lane = lane;
    look_at_gates(t, host);
}

void emu_timeline_wait_moment(struct emu_timeline *t, int host, int moment, double clock_ns)
{
    if (t->moments[moment].known)
        return;
    wait_for(t, host, 0, clock_ns);
    t->moments[moment].host = host;
}

void emu_timeline_wait_lane(struct emu_timeline *t, int host, int lane, double clock_ns)
{
    if (lane > 0 ? t->lanes[lane].first != 0 : t->hosts[host].n_steps > 0)
        wait_for(t, host, lane > 0 ? lane : -1, clock_ns);
}

void emu_timeline_meet_hosts(struct emu_timeline *t, int host)
{
    set_host(t, host, TL_AWAY);
    if (t->b->n_away < t->b->n_live || t->b->n_live == 1)
        return;
    for (int h = 1; h <= t->b->hosts.n; h++)
        if (t->hosts[h].state == TL_AWAY)
            set_host(t, h, TL_RUNS);
}

void emu_timeline_lose_host(struct emu_timeline *t, int host)
{
    set_host(t, host, TL_LOST);
}

int emu_timeline_add_host(struct emu_timeline *t, int pid)
{
    int host = TAKE(t, hosts, TL_HOSTS);

    t->hosts[host].pid = pid;
    set_host(t, host, TL_RUNS);
    return host;
}

void emu_timeline_remove_host(struct emu_timeline *t, int host)
{
    while (t->hosts[host].first_lane != 0)
        emu_timeline_remove_lane(t, t->hosts[host].first_lane);
    set_host(t, host, TL_GONE);
}

void emu_timeline_look_after(struct emu_timeline *t, double patience_s)
{
    const double now_s = seconds();

    if (now_s - t->b->looked_s < LOOK_S)
        return;
    t->b->looked_s = now_s;
    for (int h = 1; h <= t->b->hosts.n; h++) {
        const struct tl_host *host = &t->hosts[h];

        if (host->state == TL_GONE)
            continue;
        if (kill(host->pid, 0) != 0 && errno == ESRCH)
            emu_timeline_remove_host(t, h);
        else if (host->state == TL_RUNS && now_s - host->heard_s > patience_s)
            emu_timeline_lose_host(t, h);
    }
}

bool emu_timeline_is_stuck(const struct emu_timeline *t)
{
    return t->b->n_events == 0 && horizon_ns(t) == INFINITY;
}

uint32_t emu_timeline_news(struct emu_timeline *t, int host)
{
    return atomic_load(&t->hosts[host].bell);
}

void emu_timeline_sleep(struct emu_timeline *t, int host, uint32_t seen)
{
    struct tl_host *h = &t->hosts[host];
    const struct timespec slice = {.tv_nsec = (long)(SLICE_S * 1e9)};

    atomic_fetch_add(&h->asleep, 1);
    if (atomic_load(&h->bell) == seen)
        syscall(SYS_futex, (uint32_t *)&h->bell, FUTEX_WAIT, seen, &slice, NULL, 0);
    atomic_fetch_sub(&h->asleep, 1);
}

void emu_timeline_wake(struct emu_timeline *t, int host)
{
    struct tl_host *h = &t->hosts[host];

    atomic_fetch_add(&h->bell, 1);
    if (atomic_load(&h->asleep) > 0)
        syscall(SYS_futex, (uint32_t *)&h->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- lanes go on ---- */

/* Its first step begins when it can. */
static void go_on(struct emu_timeline *t, int lane)
{
    struct tl_lane *l = &t->lanes[lane];
    const struct tl_step *step = &t->steps[l->first];
    struct tl_moment *moment;

    if (l->first == 0)
        return;
    moment = &t->moments[step->wait];
    if (step->wait != 0 && !moment->known) {
        l->next_waiting = moment->lanes;
        moment->lanes = lane;
        return;
    }
    tl_schedule(t, lane, fmax(fmax(l->at_ns, step->issue_ns), step->wait != 0 ? moment->when_ns : 0));
}

static void tell_moment(struct emu_timeline *t, int at, double when_ns)
{
    struct tl_moment *moment = &t->moments[at];
    int lane = moment->lanes;

    if (moment->known)
        return;
    moment->known = true;
    moment->when_ns = when_ns;
    moment->lanes = 0;
    while (lane != 0) {
        const int next = t->lanes[lane].next_waiting;

        go_on(t, lane);
        lane = next;
    }
    if (moment->host != 0 && t->hosts[moment->host].state == TL_WAITS && t->hosts[moment->host].lane == 0)
        release_host(t, moment->host, when_ns);
}

/* A host that waits for a lane, or for all of its, has waited for this. */
static void drop_step(struct emu_timeline *t, int lane)
{
    struct tl_lane *l = &t->lanes[lane];
    struct tl_host *host = &t->hosts[l->host];
    const int at = l->first;
    struct tl_step *step = &t->steps[at];

    l->first = step->next;
    l->last = l->first != 0 ? l->last : 0;
    emu_timeline_drop_moment(t, step->tell);
    emu_timeline_drop_moment(t, step->wait);
    step->tell = step->wait = 0;
    host->n_steps--;
    step->ended = true;
    if (step->keep)
        emu_timeline_wake(t, l->host);
    else
        GIVE_BACK(t, steps, at);
    if (host->state == TL_WAITS && l->first == 0 && (host->lane == lane || (host->lane == -1 && host->n_steps == 0)))
        release_host(t, l->host, l->at_ns);
}

void tl_finish(struct emu_timeline *t, int lane, double end_ns)
{
    struct tl_lane *l = &t->lanes[lane];
    struct tl_step *step = &t->steps[l->first];

    step->extra_ns = llround(fmax(0, end_ns - l->begun_ns - step->alone_ns - step->latency_ns - step->transfer_ns));
    step->end_ns = llround(end_ns);
    l->phase = TL_IDLE;
    l->at_ns = end_ns;
    drop_step(t, lane);
    go_on(t, lane);
}

/* ---- kernels ---- */

void tl_disturb(struct emu_timeline *t, int gpu)
{
    if (!t->gpus[gpu].uneasy && t->gpus[gpu].running != 0)
        t->uneasy[t->b->n_uneasy++] = gpu;
    t->gpus[gpu].uneasy |= t->gpus[gpu].running != 0;
}

/* What the multiprocessors that NCCL holds and the memory's rate that it takes leave of a kernel's rate. */
static double rate_of(const struct emu_timeline *t, const struct tl_lane *lane)
{
    const struct tl_step *step = &t->steps[lane->first];
    const struct tl_gpu *gpu = &t->gpus[lane->gpu];
    const struct bb_cluster *c = t->machine;
    const double taken = bb_flows_taken(&t->flows, gpu->resource[EMU_MEMORY]) / bb_cluster_memory_gbps(c);
    const int held = bb_cluster_held_sms(c, gpu->held_sms);
    double alone_ns = step->alone_ns, more_ns = 0;
    bool by_memory = step->by_memory, any;

    if (alone_ns <= 0 || (held == 0 && taken == 0))
        return 1;
    if (step->has_product) {
        alone_ns = (double)bb_cluster_kernel_on_ns(c, &step->product, c->sm_count, &by_memory);
        more_ns = (double)bb_cluster_kernel_on_ns(c, &step->product, c->sm_count - held, &any) - alone_ns;
    }
    more_ns += by_memory ? alone_ns * taken / (1 - taken) : 0;
    return alone_ns / (alone_ns + fmax(0, more_ns));
}

static void begin_kernel(struct emu_timeline *t, int at)
{
    struct tl_lane *l = &t->lanes[at];
    const struct tl_step *step = &t->steps[l->first];

    if (step->waits) {
        l->phase = TL_GATED;
        t->hosts[l->host].gates++;
        look_at_gates(t, l->host);
        return;
    }
    l->phase = TL_COMPUTES;
    l->since_ns = l->begun_ns;
    l->left_ns = step->alone_ns;
    l->rate = 1;
    l->next_running = t->gpus[l->gpu].running;
    t->gpus[l->gpu].running = at;
    tl_schedule(t, at, l->since_ns + l->left_ns);
    tl_disturb(t, l->gpu);
}

static void leave_gpu(struct emu_timeline *t, int lane)
{
    int *link = &t->gpus[t->lanes[lane].gpu].running;

    while (*link != lane)
        link = &t->lanes[*link].next_running;
    *link = t->lanes[lane].next_running;
}

static void settle_kernel(struct emu_timeline *t, int lane)
{
    struct tl_lane *l = &t->lanes[lane];
    const double rate = rate_of(t, l);

    if (rate == l->rate)
        return;
    if (t->b->now_ns > l->since_ns) {
        l->left_ns = fmax(0, l->left_ns - l->rate * (t->b->now_ns - l->since_ns));
        l->since_ns = t->b->now_ns;
    }
    l->rate = rate;
    tl_schedule(t, lane, l->since_ns + l->left_ns / rate);
}

/* Something began or ended: all go on at the rates that they have now. */
static void settle(struct emu_timeline *t)
{
    bb_flows_settle(&t->flows, t->b->now_ns);
    for (int i = 0; i < t->flows.n_changed; i++) {
        const int flow = t->flows.changed[i];
        const struct bb_flow *w = &t->flows.flows[flow];

        if (!w->active)
            continue;
        tl_plan_event(t, bb_flow_end_ns(w), TL_OF_FLOW, flow, w->epoch);
        for (int u = w->first_use; u < w->first_use + w->n_uses; u++)
            tl_disturb(t, t->memory_of[t->flows.uses[u].resource]);
    }
    for (int i = 0; i < t->b->n_uneasy; i++) {
        struct tl_gpu *gpu = &t->gpus[t->uneasy[i]];

        gpu->uneasy = false;
        for (int lane = gpu->running; lane != 0; lane = t->lanes[lane].next_running)
            settle_kernel(t, lane);
    }
    t->b->n_uneasy = 0;
}

/* ---- gates: kernels that wait for the host ---- */

static bool is_still(const struct emu_timeline *t, int host)
{
    for (int lane = t->hosts[host].first_lane; lane != 0; lane = t->lanes[lane].next_of_host)
        if (t->lanes[lane].scheduled || tl_moves(t, lane))
            return false;
    return true;
}

/* A host that waits while nothing of its own can happen has let go on what waited for it. */
static void open_gates_of(struct emu_timeline *t, int host)
{
    if (t->hosts[host].gates == 0 || t->hosts[host].state != TL_WAITS || !is_still(t, host))
        return;
    for (int lane = t->hosts[host].first_lane, next; lane != 0; lane = next) {
        next = t->lanes[lane].next_of_host;
        if (t->lanes[lane].phase != TL_GATED)
            continue;
        t->hosts[host].gates--;
        tl_finish(t, lane, fmax(t->lanes[lane].begun_ns, t->clocks[host]));
    }
}

static void open_gates(struct emu_timeline *t)
{
    const int due = t->b->gates_due;

    t->b->gates_due = 0;
    if (due > 0)
        open_gates_of(t, due);
    for (int h = 1; due < 0 && h <= t->b->hosts.n; h++)
        open_gates_of(t, h);
}

/* ---- time ---- */

static void begin(struct emu_timeline *t, int lane, double when_ns)
{
    struct tl_lane *l = &t->lanes[lane];
    const struct tl_step *step = &t->steps[l->first];

    l->at_ns = l->begun_ns = when_ns;
    if (step->tell != 0)
        tell_moment(t, step->tell, when_ns);
    if (step->kind == TL_MARK) {
        drop_step(t, lane);
        go_on(t, lane);
    } else if (step->kind == TL_KERNEL)
        begin_kernel(t, lane);
    else
        tl_begin_nccl(t, lane, when_ns);
}

static void let_lane_happen(struct emu_timeline *t, int lane, double when_ns)
{
    struct tl_lane *l = &t->lanes[lane];

    l->scheduled = false;
    switch (l->phase) {
    case TL_IDLE:
        begin(t, lane, when_ns);
        break;
    case TL_COMPUTES:
        leave_gpu(t, lane);
        tl_finish(t, lane, when_ns);
        break;
    case TL_ENDS:
        tl_end_nccl(t, lane);
        tl_finish(t, lane, l->end_ns);
        break;
    case TL_GATED:
    case TL_MEETS:
        break;
    }
    look_at_gates(t, l->host);
}

static bool is_stale(const struct emu_timeline *t, const struct tl_event *e)
{
    return (e->kind == TL_OF_LANE && t->lanes[e->id].epoch != e->epoch) ||
           (e->kind == TL_OF_FLOW && t->flows.flows[e->id].epoch != e->epoch);
}

static void let_happen(struct emu_timeline *t, const struct tl_event *e)
{
    if (is_stale(t, e))
        return;
    if (e->kind == TL_OF_LANE)
        let_lane_happen(t, e->id, e->when_ns);
    else if (e->kind == TL_OF_FLOW)
        tl_end_flow(t, e->id);
    else
        tl_end_meeting(t, e->id);
}

static bool is_unsettled(const struct emu_timeline *t)
{
    return t->flows.n_fresh > 0 || t->flows.n_stale > 0 || t->b->n_uneasy > 0;
}

/* All of a moment, then the rates from then on, then the next one. */
static void pass_time(struct emu_timeline *t)
{
    while (!t->b->broken) {
        const double next_ns = t->b->n_events > 0 ? t->events[0].when_ns : INFINITY;

        if (t->b->gates_due != 0)
            open_gates(t);
        else if (next_ns <= t->b->now_ns) {
            struct tl_event e = take_event(t);

            let_happen(t, &e);
        } else if (is_unsettled(t))
            settle(t);
        else if (t->b->n_events > 0 && is_stale(t, &t->events[0]))
            take_event(t);
        else if (next_ns < INFINITY && next_ns <= horizon_ns(t))
            t->b->now_ns = next_ns;
        else
            return;
    }
}

/* ---- what hosts give and ask ---- */

static int parts_of(struct emu_timeline *t, int host, int device, const struct emu_gpu_parts *parts)
{
    int *known = &t->hosts[host].gpus[device % TL_DEVICES];
    struct tl_gpu *gpu;

    if (*known != 0 || t->b->n_gpus + 1 >= TL_GPUS)
        return *known;
    *known = ++t->b->n_gpus;
    gpu = &t->gpus[*known];
    for (int i = 0; i < EMU_PARTS; i++) {
        int at = 0;

        while (at < t->b->n_places && (t->places[at].part != i || t->places[at].number != parts->place[i]))
            at++;
        if (parts->place[i] >= 0 && at < t->b->n_places) {
            gpu->resource[i] = t->places[at].resource;
            continue;
        }
        gpu->resource[i] = tl_add_resource(t, parts->gbps[i]);
        if (parts->place[i] >= 0 && t->b->n_places < TL_PLACES)
            t->places[t->b->n_places++] = (struct tl_place){i, parts->place[i], gpu->resource[i]};
    }
    t->memory_of[gpu->resource[EMU_MEMORY]] = *known;
    return *known;
}

int emu_timeline_add_lane(struct emu_timeline *t, int host, int device, const struct emu_gpu_parts *parts)
{
    const int gpu = parts_of(t, host, device, parts);
    const int fresh = t->b->lanes.unused;
    const unsigned epoch = fresh != 0 ? t->lanes[fresh].epoch : 0;
    const int lane = TAKE(t, lanes, TL_LANES);

    t->lanes[lane].host = host;
    t->lanes[lane].gpu = gpu;
    t->lanes[lane].epoch = epoch + 1;
    t->lanes[lane].next_of_host = t->hosts[host].first_lane;
    t->hosts[host].first_lane = lane;
    return lane;
}

/* The first step, wherever it is. */
static void leave(struct emu_timeline *t, int lane)
{
    struct tl_lane *l = &t->lanes[lane];
    struct tl_moment *moment = &t->moments[t->steps[l->first].wait];
    int *link = &moment->lanes;

    l->scheduled = false;
    l->epoch++;
    if (l->phase == TL_COMPUTES)
        leave_gpu(t, lane);
    if (l->phase == TL_MEETS)
        tl_leave_nccl(t, lane);
    if (l->phase == TL_MEETS || l->phase == TL_ENDS)
        tl_end_nccl(t, lane);
    t->hosts[l->host].gates -= l->phase == TL_GATED;
    while (l->phase == TL_IDLE && *link != 0 && *link != lane)
        link = &t->lanes[*link].next_waiting;
    if (l->phase == TL_IDLE && *link == lane)
        *link = l->next_waiting;
    l->phase = TL_IDLE;
}

void emu_timeline_remove_lane(struct emu_timeline *t, int lane)
{
    struct tl_lane *l = &t->lanes[lane];
    int *link = &t->hosts[l->host].first_lane;

    while (l->first != 0) {
        leave(t, lane);
        tl_drop_cells(t, l->first);
        if (t->steps[l->first].tell != 0)
            tell_moment(t, t->steps[l->first].tell, l->at_ns);
        drop_step(t, lane);
    }
    l->epoch++;
    while (*link != lane)
        link = &t->lanes[*link].next_of_host;
    *link = l->next_of_host;
    GIVE_BACK(t, lanes, lane);
}

double emu_timeline_lane_ns(const struct emu_timeline *t, int lane)
{
    return t->lanes[lane].at_ns;
}

int emu_timeline_add_moment(struct emu_timeline *t)
{
    int moment = TAKE(t, moments, TL_MOMENTS);

    t->moments[moment].refs = 1;
    return moment;
}

void emu_timeline_drop_moment(struct emu_timeline *t, int moment)
{
    if (moment != 0 && --t->moments[moment].refs == 0)
        GIVE_BACK(t, moments, moment);
}

bool emu_timeline_knows(const struct emu_timeline *t, int moment, double *when_ns)
{
    *when_ns = t->moments[moment].when_ns;
    return t->moments[moment].known;
}

static int add_step(struct emu_timeline *t, int lane, double issue_ns)
{
    struct tl_lane *l = &t->lanes[lane];
    const int step = TAKE(t, steps, TL_STEPS);

    t->steps[step].lane = lane;
    t->steps[step].issue_ns = issue_ns;
    if (l->first == 0)
        l->first = step;
    else
        t->steps[l->last].next = step;
    l->last = step;
    t->hosts[l->host].n_steps++;
    return step;
}

void emu_timeline_tell(struct emu_timeline *t, int lane, double issue_ns, int moment)
{
    const int step = add_step(t, lane, issue_ns);

    t->steps[step].tell = moment;
    t->moments[moment].refs++;
    if (t->lanes[lane].first == step)
        go_on(t, lane);
}

void emu_timeline_wait(struct emu_timeline *t, int lane, double issue_ns, int moment)
{
    const int step = add_step(t, lane, issue_ns);

    t->steps[step].wait = moment;
    t->moments[moment].refs++;
    if (t->lanes[lane].first == step)
        go_on(t, lane);
}

static void set_effort(struct emu_timeline *t, struct tl_step *step, const struct emu_effort *e)
{
    step->kind = e->sms > 0 ? TL_NCCL : TL_KERNEL;
    step->waits = e->waits;
    step->by_memory = e->by_memory;
    step->alone_ns = e->alone_ns;
    step->latency_ns = e->latency_ns;
    step->transfer_ns = e->transfer_ns;
    step->sms = e->sms;
    step->has_product = e->product != NULL;
    if (e->product != NULL)
        step->product = *e->product;
    for (int i = 0; e->transfer_ns > 0 && i < EMU_PARTS; i++) {
        const double rate = e->bytes[i] / e->transfer_ns;

        step->weight[i] = i == EMU_MEMORY ? fmin(rate, bb_cluster_nccl_memory_gbps(t->machine))
                                          : rate + e->others[i] / e->transfer_ns;
        step->pace = i == EMU_MEMORY ? step->pace : fmax(step->pace, rate);
    }
    step->pace = e->pace_gbps > 0 ? e->pace_gbps : step->pace;
}

int emu_timeline_add(struct emu_timeline *t, int lane, double issue_ns, const struct emu_effort *effort, uint64_t turn,
                     bool keep)
{
    const int at = add_step(t, lane, issue_ns);
    struct tl_step *step = &t->steps[at];

    set_effort(t, step, effort);
    step->keep = keep;
    if (effort->meeting != NULL) {
        step->comm = effort->meeting->comm;
        step->members = effort->meeting->members;
        step->turn = turn;
        tl_take_cells(t, at, effort->meeting);
    }
    if (t->lanes[lane].first == at)
        go_on(t, lane);
    return keep ? at : 0;
}

bool emu_timeline_take(struct emu_timeline *t, int step, int64_t *extra_ns, int64_t *end_ns)
{
    if (!t->steps[step].ended)
        return false;
    *extra_ns = t->steps[step].extra_ns;
    *end_ns = t->steps[step].members > 0 ? t->steps[step].end_ns : 0;
    GIVE_BACK(t, steps, step);
    return true;
}

void emu_timeline_abandon(struct emu_timeline *t, int step)
{
    struct tl_step *s = &t->steps[step];

    if (s->ended) {
        GIVE_BACK(t, steps, step);
        return;
    }
    s->keep = false;
    if (t->lanes[s->lane].first != step) {
        tl_drop_cells(t, step);
        s->kind = TL_MARK;
        return;
    }
    leave(t, s->lane);
    tl_drop_cells(t, step);
    tl_finish(t, s->lane, fmax(t->lanes[s->lane].at_ns, t->b->now_ns));
}

/* ---- life ---- */

void emu_timeline_lock(struct emu_timeline *t)
{
    if (pthread_mutex_lock(&t->b->lock) == EOWNERDEAD) {
        t->b->broken = true;
        pthread_mutex_consistent(&t->b->lock);
    }
    t->flows.visit = t->b->visit;
    t->flows.settling = t->b->settling;
}

void emu_timeline_unlock(struct emu_timeline *t)
{
    pass_time(t);
    t->b->visit = t->flows.visit;
    t->b->settling = t->flows.settling;
    pthread_mutex_unlock(&t->b->lock);
}

bool emu_timeline_is_sound(const struct emu_timeline *t)
{
    return !t->b->broken;
}

/* Gives an array its place behind those before it; base NULL: counts. */
#define PLACE(array, n)                                                                                                \
    do {                                                                                                               \
        at = (at + 63) / 64 * 64;                                                                                      \
        (array) = base == NULL ? NULL : (void *)(base + at);                                                           \
        at += (size_t)(n) * sizeof(*(array));                                                                          \
    } while (0)

static size_t place_arrays(struct emu_timeline *t, char *base)
{
    size_t at = 0;

    PLACE(t->b, 1);
    PLACE(t->hosts, TL_HOSTS);
    PLACE(t->clocks, TL_HOSTS);
    PLACE(t->bounds, TL_HOSTS);
    PLACE(t->gpus, TL_GPUS);
    PLACE(t->places, TL_PLACES);
    PLACE(t->lanes, TL_LANES);
    PLACE(t->steps, TL_STEPS);
    PLACE(t->moments, TL_MOMENTS);
    PLACE(t->cells, TL_CELLS);
    PLACE(t->meetings, TL_MEETINGS);
    PLACE(t->pairs, TL_PAIRS);
    PLACE(t->owners, TL_FLOWS);
    PLACE(t->events, TL_EVENTS);
    PLACE(t->uneasy, TL_GPUS);
    PLACE(t->use_at, TL_RESOURCES);
    PLACE(t->memory_of, TL_RESOURCES);
    PLACE(t->flows.flows, TL_FLOWS);
    PLACE(t->flows.resources, TL_RESOURCES);
    PLACE(t->flows.left, TL_RESOURCES);
    PLACE(t->flows.uses, TL_USES);
    PLACE(t->flows.fresh, TL_FLOWS);
    PLACE(t->flows.stale, TL_RESOURCES);
    PLACE(t->flows.part, TL_FLOWS);
    PLACE(t->flows.scarce, TL_RESOURCES);
    PLACE(t->flows.changed, TL_FLOWS);
    return (at + 4095) / 4096 * 4096;
}

static void init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(lock, &attr);
    pthread_mutexattr_destroy(&attr);
}

struct emu_timeline *emu_timeline_open(const struct bb_cluster *machine, int fd)
{
    struct emu_timeline *t = calloc(1, sizeof(*t));
    const bool is_new = fd < 0;
    struct stat st;
    void *base;

    if (t == NULL)
        return NULL;
    t->machine = machine;
    t->bytes = place_arrays(t, NULL);
    t->fd = is_new ? memfd_create(EMU_TIMELINE, MFD_CLOEXEC) : fd;
    if (t->fd < 0 || (is_new && ftruncate(t->fd, (off_t)t->bytes) != 0) || fstat(t->fd, &st) != 0 ||
        (size_t)st.st_size != t->bytes)
        goto failed;
    base = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, t->fd, 0);
    if (base == MAP_FAILED)
        goto failed;
    place_arrays(t, base);
    if (is_new)
        init_lock(&t->b->lock);
    return t;
failed:
    if (t->fd >= 0)
        close(t->fd);
    free(t);
    return NULL;
}

void emu_timeline_close(struct emu_timeline *t)
{
    munmap(t->b, t->bytes);
    close(t->fd);
    free(t);
}
