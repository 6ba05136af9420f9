/* shared_flows.c - what NCCL operations use of links, NICs, uplinks and memory, as flows. */
#include "state.h"

#include <math.h>

int tl_add_resource(struct emu_timeline *t, enum emu_part part, double gbps)
{
    int at;

    if (t->b->n_resources + 1 >= TL_RESOURCES) {
        tl_fail(t, TL_FULL, "resources", t->b->n_resources);
        return 0;
    }
    at = ++t->b->n_resources;
    t->flows.resources[at] = (struct bb_resource){.capacity = gbps, .first = -1, .is_net = part >= EMU_NIC_OUT};
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
        tl_fail(t, TL_FULL, "uses of resources", t->b->n_uses);
        return 0;
    }
    t->b->n_uses += 1 << size;
    return t->b->n_uses - (1 << size) + 1;
}

int tl_take_flow(struct emu_timeline *t, int uses)
{
    const int flow = tl_take(t, &t->b->flows, t->owners, sizeof(*t->owners), "flows", TL_FLOWS);
    int size = 4;

    while (1 << size < uses)
        size++;
    if (size >= TL_SIZES) {
        tl_fail(t, TL_FULL, "uses of a flow", 1 << (TL_SIZES - 1));
        size = 4;
    }
    t->owners[flow].size = size;
    t->flows.flows[flow].first_use = find_uses(t, size);
    t->flows.flows[flow].n_uses = 0;
    t->flows.flows[flow].bytes_per_ns = t->flows.flows[flow].net_bytes_per_ns = 0;
    return flow;
}

void tl_stop_flow(struct emu_timeline *t, int flow)
{
    const struct bb_flow *w = &t->flows.flows[flow];
    const int size = t->owners[flow].size;

    bb_flows_stop(&t->flows, flow, t->b->now_ns);
    for (int u = w->first_use; u < w->first_use + w->n_uses; u++)
        tl_invalidate(t, t->memory_of[t->flows.uses[u].resource]);
    t->flows.uses[w->first_use].next = t->b->uses_unused[size];
    t->b->uses_unused[size] = w->first_use;
    tl_give_back(&t->b->flows, t->owners, sizeof(*t->owners), flow);
}

/* Adds the uses of a step to its flow. A step without peers on the timeline uses the private resources of its GPU:
 * its weights already include the assumed use by other GPUs. */
void tl_add_uses(struct emu_timeline *t, int flow, int lane)
{
    const struct tl_step *step = &t->steps[t->lanes[lane].first];
    const struct tl_gpu *gpu = &t->gpus[t->lanes[lane].gpu];
    struct bb_flow *w = &t->flows.flows[flow];

    for (int i = 0; i < EMU_PARTS; i++) {
        const int resource = step->members > 0 ? gpu->resource[i] : gpu->own[i];
        int *at = &t->use_at[resource];

        if (step->weight[i] <= 0)
            continue;
        if (*at < w->first_use || *at >= w->first_use + w->n_uses || t->flows.uses[*at].resource != resource) {
            *at = w->first_use + w->n_uses++;
            t->flows.uses[*at] = (struct bb_flow_use){.resource = resource};
        }
        t->flows.uses[*at].weight += step->weight[i];
    }
    w->bytes_per_ns = fmax(w->bytes_per_ns, step->pace);
    w->net_bytes_per_ns = fmax(w->net_bytes_per_ns, step->net_pace);
}

void tl_hold_sms(struct emu_timeline *t, int gpu, int sms)
{
    t->gpus[gpu].held_sms += sms;
    tl_invalidate(t, gpu);
}
