/* bench_context.c - names and numbers of a rig (see bench_context.h). */
#include "collectives/measure/bench_context.h"

size_t bb_bench_context_aggregate(const struct bb_bench_context *rig)
{
    return rig->aggregate > 1 ? (size_t)rig->aggregate : 1;
}
