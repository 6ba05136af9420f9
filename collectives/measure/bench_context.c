/* bench_context.c - names and numbers of a rig (see bench_context.h). */
#include "collectives/measure/bench_context.h"

size_t bb_rig_aggregate(const struct bb_rig *rig)
{
    return rig->aggregate > 1 ? (size_t)rig->aggregate : 1;
}
