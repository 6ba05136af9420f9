/* modes.c - see modes.h. A new mode is a row here and a file of its own. */
#include "collectives/modes.h"

#include "collectives/comm/comm_options.h"
#include "collectives/compute/compute_options.h"
#include "collectives/overlap/overlap_options.h"
#include "collectives/p2p/p2p_options.h"

#include <string.h>

static const struct bb_bench_mode modes[] = {
    {"compute", "bb_bench_compute_run", &bb_bench_compute_set},
    {"p2p", "bb_bench_p2p_run", &bb_bench_p2p_set},
    {"comm", "bb_bench_comm_run", &bb_bench_comm_set},
    {"overlap", "bb_bench_overlap_run", &bb_bench_overlap_set},
};

const struct bb_bench_mode *bb_bench_mode_find(const char *name)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(modes[i].name, name) == 0)
            return &modes[i];
    return NULL;
}
