/* lanes.c - the lanes of a timeline, their steps, and the moments that they record and wait for. See timeline.h. */
#include "state.h"

#include <math.h>

/* ---- progress of a lane ---- */

/* Schedules the start of the first step, or queues the lane at the moment that the step waits for. */
void tl_advance_lane(struct emu_timeline *t, int lane)
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

void tl_reach_moment(struct emu_timeline *t, int at, double when_ns)
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

        tl_advance_lane(t, lane);
        lane = next;
    }
    if (moment->host != 0 && t->hosts[moment->host].state == TL_WAITING && t->hosts[moment->host].lane == TL_A_MOMENT)
        tl_release_host(t, moment->host, when_ns);
}

/* Whether the step that has just ended on this lane ends the wait of the host. */
static bool has_waited(const struct emu_timeline *t, const struct tl_host *host, int lane)
{
    if (host->state != TL_WAITING || host->lane == TL_A_MOMENT || (host->lane != lane && host->lane != TL_ALL_LANES))
        return false;
    return host->any_step || (host->lane == lane ? t->lanes[lane].first == 0 : host->n_steps == 0);
}

void tl_drop_step(struct emu_timeline *t, int lane)
{
    struct tl_lane *l = &t->lanes[lane];
    struct tl_host *host = &t->hosts[l->host];
    const int at = l->first;
    struct tl_step *step = &t->steps[at];

    l->first = step->next;
    l->last = l->first != 0 ? l->last : 0;
    emu_timeline_drop_moment(t, step->record);
    emu_timeline_drop_moment(t, step->wait);
    if (step->end != 0)
        tl_reach_moment(t, step->end, l->at_ns);
    emu_timeline_drop_moment(t, step->end);
    step->record = step->wait = step->end = 0;
    host->n_steps--;
    step->ended = true;
    if (step->keep)
        emu_timeline_wake(t, l->host);
    else
        TL_GIVE_BACK(t, steps, at);
    if (has_waited(t, host, lane))
        tl_release_host(t, l->host, l->at_ns);
}

void tl_finish(struct emu_timeline *t, int lane, double end_ns)
{
    struct tl_lane *l = &t->lanes[lane];
    struct tl_step *step = &t->steps[l->first];

    step->extra_ns = llround(fmax(0, end_ns - l->begun_ns - step->alone_ns - step->latency_ns - step->transfer_ns));
    step->end_ns = llround(end_ns);
    l->phase = TL_IDLE;
    l->at_ns = end_ns;
    tl_drop_step(t, lane);
    tl_advance_lane(t, lane);
}

/* ---- interface for the hosts ---- */

/* The shared resource of this kind and number; created by the first GPU that uses it. */
static int find_shared_resource(struct emu_timeline *t, int part, int number, double gbps)
{
    int at = 0;

    while (at < t->b->n_shared_resources &&
           (t->shared_resources[at].part != part || t->shared_resources[at].number != number))
        at++;
    if (at == TL_SHARED_RESOURCES) {
        tl_fail(t, TL_FULL, "NICs and uplinks", TL_SHARED_RESOURCES);
        return 0;
    }
    if (at == t->b->n_shared_resources)
        t->shared_resources[t->b->n_shared_resources++] =
            (struct tl_shared_resource){part, number, tl_add_resource(t, (enum emu_part)part, gbps)};
    return t->shared_resources[at].resource;
}

void emu_timeline_set_gpu_parts(struct emu_timeline *t, int host, int device, const struct emu_gpu_parts *parts)
{
    struct tl_gpu *gpu = &t->gpus[t->hosts[host].gpus[device % TL_DEVICES]];

    for (int i = 0; i < EMU_PARTS; i++)
        gpu->resource[i] =
            parts->shared[i] < 0 ? gpu->own[i] : find_shared_resource(t, i, parts->shared[i], parts->gbps[i]);
}

static int find_gpu(struct emu_timeline *t, int host, int device, const struct emu_gpu_parts *parts)
{
    int *known = &t->hosts[host].gpus[device % TL_DEVICES];
    struct tl_gpu *gpu;

    if (*known != 0)
        return *known;
    if (t->b->n_gpus + 1 >= TL_GPUS) {
        tl_fail(t, TL_FULL, "GPUs", t->b->n_gpus);
        return 0;
    }
    *known = ++t->b->n_gpus;
    gpu = &t->gpus[*known];
    for (int i = 0; i < EMU_PARTS; i++)
        gpu->own[i] = tl_add_resource(t, (enum emu_part)i, parts->gbps[i]);
    t->memory_of[gpu->own[EMU_MEMORY]] = *known;
    emu_timeline_set_gpu_parts(t, host, device, parts);
    return *known;
}

int emu_timeline_add_lane(struct emu_timeline *t, int host, int device, const struct emu_gpu_parts *parts)
{
    const int gpu = find_gpu(t, host, device, parts);
    const int fresh = t->b->lanes.unused;
    const unsigned epoch = fresh != 0 ? t->lanes[fresh].epoch : 0;
    const int lane = TL_TAKE(t, lanes, TL_LANES);

    t->lanes[lane].host = host;
    t->lanes[lane].gpu = gpu;
    t->lanes[lane].epoch = epoch + 1;
    t->lanes[lane].next_of_host = t->hosts[host].first_lane;
    t->hosts[host].first_lane = lane;
    return lane;
}

/* Aborts the first step, in whatever phase. */
static void abort_first_step(struct emu_timeline *t, int lane)
{
    struct tl_lane *l = &t->lanes[lane];
    struct tl_moment *moment = &t->moments[t->steps[l->first].wait];
    int *link = &moment->lanes;

    l->scheduled = false;
    l->epoch++;
    if (l->phase == TL_COMPUTES)
        tl_leave_gpu(t, lane);
    if (l->phase == TL_IN_NCCL)
        tl_leave_nccl(t, lane);
    if (l->phase == TL_IN_NCCL || l->phase == TL_ENDING)
        tl_end_nccl(t, lane);
    t->hosts[l->host].start_barriers -= l->phase == TL_AT_START_BARRIER;
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
        abort_first_step(t, lane);
        tl_drop_endpoints(t, l->first);
        if (t->steps[l->first].record != 0)
            tl_reach_moment(t, t->steps[l->first].record, l->at_ns);
        tl_drop_step(t, lane);
    }
    l->epoch++;
    while (*link != lane)
        link = &t->lanes[*link].next_of_host;
    *link = l->next_of_host;
    TL_GIVE_BACK(t, lanes, lane);
}

double emu_timeline_lane_ns(const struct emu_timeline *t, int lane)
{
    return t->lanes[lane].at_ns;
}

int emu_timeline_add_moment(struct emu_timeline *t)
{
    int moment = TL_TAKE(t, moments, TL_MOMENTS);

    t->moments[moment].refs = 1;
    return moment;
}

void emu_timeline_drop_moment(struct emu_timeline *t, int moment)
{
    if (moment != 0 && --t->moments[moment].refs == 0)
        TL_GIVE_BACK(t, moments, moment);
}

bool emu_timeline_knows(const struct emu_timeline *t, int moment, double *when_ns)
{
    *when_ns = t->moments[moment].when_ns;
    return t->moments[moment].known;
}

static int add_step(struct emu_timeline *t, int lane, double issue_ns)
{
    struct tl_lane *l = &t->lanes[lane];
    const int step = TL_TAKE(t, steps, TL_STEPS);

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

void emu_timeline_record(struct emu_timeline *t, int lane, double issue_ns, int moment)
{
    const int step = add_step(t, lane, issue_ns);

    t->steps[step].record = moment;
    t->moments[moment].refs++;
    if (t->lanes[lane].first == step)
        tl_advance_lane(t, lane);
}

void emu_timeline_wait(struct emu_timeline *t, int lane, double issue_ns, int moment)
{
    const int step = add_step(t, lane, issue_ns);

    t->steps[step].wait = moment;
    t->moments[moment].refs++;
    if (t->lanes[lane].first == step)
        tl_advance_lane(t, lane);
}

static void set_demand(struct emu_timeline *t, struct tl_step *step, const struct emu_demand *e)
{
    step->kind = e->sms > 0 ? TL_NCCL : TL_KERNEL;
    step->waits = e->waits;
    step->by_memory = e->by_memory;
    step->alone_ns = e->alone_ns;
    step->latency_ns = e->latency_ns;
    step->transfer_ns = e->transfer_ns;
    step->sms = e->sms;
    step->has_gemm = e->gemm != NULL;
    if (e->gemm != NULL)
        step->gemm = *e->gemm;
    for (int i = 0; e->transfer_ns > 0 && i < EMU_PARTS; i++) {
        const double rate = e->bytes[i] / e->transfer_ns;

        step->weight[i] = i == EMU_MEMORY ? fmin(rate, bb_cluster_nccl_memory_gbps(t->machine))
                                          : rate + e->others[i] / e->transfer_ns;
        step->pace = i == EMU_MEMORY || i == EMU_PATH_OUT || i == EMU_PATH_IN ? step->pace : fmax(step->pace, rate);
        step->net_pace = i == EMU_NIC_OUT || i == EMU_NIC_IN ? fmax(step->net_pace, rate) : step->net_pace;
    }
}

int emu_timeline_add(struct emu_timeline *t, int lane, double issue_ns, const struct emu_demand *demand, uint64_t turn,
                     bool keep)
{
    const int at = add_step(t, lane, issue_ns);
    struct tl_step *step = &t->steps[at];

    set_demand(t, step, demand);
    step->keep = keep;
    if (demand->peers != NULL) {
        step->comm = demand->peers->comm;
        step->members = demand->peers->members;
        step->turn = turn;
        tl_add_endpoints(t, at, demand->peers);
    }
    if (t->lanes[lane].first == at)
        tl_advance_lane(t, lane);
    return keep ? at : 0;
}

int emu_timeline_end_of(struct emu_timeline *t, int step)
{
    if (t->steps[step].end == 0)
        t->steps[step].end = emu_timeline_add_moment(t);
    t->moments[t->steps[step].end].refs++;
    return t->steps[step].end;
}

bool emu_timeline_collect(struct emu_timeline *t, int step, int64_t *extra_ns, int64_t *end_ns)
{
    if (!t->steps[step].ended)
        return false;
    *extra_ns = t->steps[step].extra_ns;
    *end_ns = t->steps[step].members > 0 ? t->steps[step].end_ns : 0;
    TL_GIVE_BACK(t, steps, step);
    return true;
}

void emu_timeline_abandon(struct emu_timeline *t, int step)
{
    struct tl_step *s = &t->steps[step];

    if (s->ended) {
        TL_GIVE_BACK(t, steps, step);
        return;
    }
    s->keep = false;
    if (t->lanes[s->lane].first != step) {
        tl_drop_endpoints(t, step);
        s->kind = TL_MARK;
        return;
    }
    abort_first_step(t, s->lane);
    tl_drop_endpoints(t, step);
    tl_finish(t, s->lane, fmax(t->lanes[s->lane].at_ns, t->b->now_ns));
}
