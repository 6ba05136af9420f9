/* kernel_rates.c - the rates of kernels on a timeline, given the SMs and the memory bandwidth that NCCL uses, and
 * the resulting end times. */
#include "state.h"

#include <math.h>

void tl_invalidate(struct emu_timeline *t, int gpu)
{
    if (!t->gpus[gpu].dirty && t->gpus[gpu].running != 0)
        t->dirty[t->b->n_dirty++] = gpu;
    t->gpus[gpu].dirty |= t->gpus[gpu].running != 0;
}

/* Rate of a kernel relative to running alone, given the SMs that NCCL holds and the memory bandwidth that it uses. */
static double rate_of(const struct emu_timeline *t, const struct tl_lane *lane)
{
    const struct tl_step *step = &t->steps[lane->first];
    const struct tl_gpu *gpu = &t->gpus[lane->gpu];
    const struct bb_cluster *c = t->machine;
    const double taken = bb_flows_used(&t->flows, gpu->resource[EMU_MEMORY]) / bb_cluster_memory_gbps(c);
    const int held = bb_cluster_held_sms(c, gpu->held_sms);
    double alone_ns = step->alone_ns, more_ns = 0;
    bool by_memory = step->by_memory, any;

    if (alone_ns <= 0 || (held == 0 && taken == 0))
        return 1;
    if (step->has_gemm) {
        alone_ns = (double)bb_cluster_kernel_on_sms_ns(c, &step->gemm, c->sm_count, &by_memory);
        more_ns = (double)bb_cluster_kernel_on_sms_ns(c, &step->gemm, c->sm_count - held, &any) - alone_ns;
    }
    more_ns += by_memory ? alone_ns * taken / (1 - taken) : 0;
    return alone_ns / (alone_ns + fmax(0, more_ns));
}

void tl_begin_kernel(struct emu_timeline *t, int at)
{
    struct tl_lane *l = &t->lanes[at];
    const struct tl_step *step = &t->steps[l->first];

    if (step->waits) {
        l->phase = TL_AT_START_BARRIER;
        t->hosts[l->host].start_barriers++;
        tl_check_start_barriers(t, l->host);
        return;
    }
    l->phase = TL_COMPUTES;
    l->since_ns = l->begun_ns;
    l->left_ns = step->alone_ns;
    l->rate = 1;
    l->next_running = t->gpus[l->gpu].running;
    t->gpus[l->gpu].running = at;
    tl_schedule(t, at, l->since_ns + l->left_ns);
    tl_invalidate(t, l->gpu);
}

void tl_leave_gpu(struct emu_timeline *t, int lane)
{
    int *link = &t->gpus[t->lanes[lane].gpu].running;

    while (*link != lane)
        link = &t->lanes[*link].next_running;
    *link = t->lanes[lane].next_running;
}

static void update_kernel_rate(struct emu_timeline *t, int lane)
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

/* After operations began or ended: recomputes the rates and end times of flows and kernels. */
void tl_update_rates(struct emu_timeline *t)
{
    t->flows.n_flows = t->b->flows.n + 1;
    t->flows.n_resources = t->b->n_resources + 1;
    bb_flows_update_rates(&t->flows, t->b->now_ns);
    for (int i = 0; i < t->flows.n_changed; i++) {
        const int flow = t->flows.changed[i];
        const struct bb_flow *w = &t->flows.flows[flow];

        if (!w->active)
            continue;
        tl_add_event(t, bb_flow_end_ns(w), TL_OF_FLOW, flow, w->epoch);
        for (int u = w->first_use; u < w->first_use + w->n_uses; u++)
            tl_invalidate(t, t->memory_of[t->flows.uses[u].resource]);
    }
    for (int i = 0; i < t->b->n_dirty; i++) {
        struct tl_gpu *gpu = &t->gpus[t->dirty[i]];

        gpu->dirty = false;
        for (int lane = gpu->running; lane != 0; lane = t->lanes[lane].next_running)
            update_kernel_rate(t, lane);
    }
    t->b->n_dirty = 0;
}
