/* shared_flows.c - what NCCL's operations take of their GPUs and of the places behind them, as flows. */
#include "state.h"

#include <math.h>

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
int tl_take_flow(struct emu_timeline *t, int uses)
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

void tl_stop_flow(struct emu_timeline *t, int flow)
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
void tl_add_uses(struct emu_timeline *t, int flow, int lane)
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

void tl_hold_sms(struct emu_timeline *t, int gpu, int sms)
{
    t->gpus[gpu].held_sms += sms;
    tl_disturb(t, gpu);
}
