/*
 * cost.c - the cost model of NCCL operations. See cost.h and the definition in profiles/clusters.
 */
#include "cost.h"

#include "../engine.h"
#include "types.h"

#include <math.h>

static const struct emu_link *link_of(bool same_node)
{
    return same_node ? &emu_profile()->intra : &emu_profile()->inter;
}

static int log2_up(int n)
{
    int steps = 0;

    while ((1 << steps) < n)
        steps++;
    return steps;
}

int64_t en_copy_ns(size_t bytes)
{
    return llround(2.0 * (double)bytes / emu_profile()->memory_gbps);
}

/* What a step's latency and a link's rate are multiplied by, see README.md. */
struct pace {
    double latency, rate;
};

static const struct pace of_algorithms[EN_ALGORITHMS] = {
    [EN_TREE] = {0.75, 0.8},
    [EN_RING] = {1, 1},
    [EN_PAT] = {0.5, 0.8},
};

static const struct pace of_protocols[EN_PROTOCOLS] = {
    [EN_LL] = {0.4, 0.25},
    [EN_LL128] = {0.7, 0.9},
    [EN_SIMPLE] = {1, 1},
};

static struct pace pace_of(const struct en_task *task)
{
    const struct pace *a = &of_algorithms[task->algorithm], *p = &of_protocols[task->protocol];

    return en_has_algorithm(task) ? (struct pace){a->latency * p->latency, a->rate * p->rate} : (struct pace){1, 1};
}

int64_t en_collective_ns(const struct en_task *task, int n, bool same_node)
{
    const struct en_kind_row *kind = en_kind(task->kind);
    const struct emu_link *link = link_of(same_node);
    double payload = (double)task->count * (double)en_type(task->dtype)->bytes * (kind->pays_per_block ? n : 1);

    if (n == 1)
        return task->send == task->recv ? 0 : en_copy_ns((size_t)payload);
    int ways = kind->both_ways ? 2 : 1;
    double factor = kind->full_payload ? 1.0 : ways * (double)(n - 1) / n;
    struct pace pace = pace_of(task);
    return llround(pace.latency * ways * log2_up(n) * link->latency_us * 1e3 +
                   factor * payload / (pace.rate * link->gbps));
}

double en_load_ns(const struct en_load *l)
{
    const struct emu_profile *p = emu_profile();
    double out = l->out_intra / p->intra.gbps + l->out_inter / p->inter.gbps;
    double in = l->in_intra / p->intra.gbps + l->in_inter / p->inter.gbps;

    return fmax(out, in);
}

int64_t en_message_ns(bool same_node, double load_a_ns, double load_b_ns)
{
    return llround(link_of(same_node)->latency_us * 1e3 + fmax(load_a_ns, load_b_ns));
}
