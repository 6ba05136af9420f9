/* modes.c - see modes.h. A new mode is a row here and a file of its own. */
#include "collectives/modes.h"

#include "collectives/comm/comm_options.h"
#include "collectives/compute/compute_options.h"
#include "collectives/overlap/overlap_options.h"
#include "collectives/p2p/p2p_options.h"

#include <string.h>

static const struct bb_bench_mode modes[] = {
    {"compute", "what the GPUs compute: products, memory-bound passes, the timed stand-in", bb_bench_compute_check,
     "bb_bench_compute_run", &bb_bench_compute_set},
    {"p2p", "latency and bandwidth between every two ranks, the slow links named", bb_bench_p2p_check,
     "bb_bench_p2p_run", &bb_bench_p2p_set},
    {"comm", "what communicators cost: init, first use, registration, split, shrink, end", bb_bench_comm_check,
     "bb_bench_comm_run", &bb_bench_comm_set},
    {"overlap", "a product and a collective alone and together, by size and CTA limit", bb_bench_overlap_check,
     "bb_bench_overlap_run", &bb_bench_overlap_set},
};

const struct bb_bench_mode *bb_bench_mode_at(size_t i)
{
    return i < sizeof modes / sizeof *modes ? &modes[i] : NULL;
}

const struct bb_bench_mode *bb_bench_mode_find(const char *name)
{
    const struct bb_bench_mode *mode;

    for (size_t i = 0; (mode = bb_bench_mode_at(i)) != NULL; i++)
        if (strcmp(mode->name, name) == 0)
            return mode;
    return NULL;
}
