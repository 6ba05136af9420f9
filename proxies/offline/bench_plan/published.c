/* published.c - errors of predicted collectives and kernels; see published.h. */
#include "proxies/offline/bench_plan/published.h"

#include "bootstrap/base/units.h"
#include "proxies/simulation/machine/software.h"

#include <stdio.h>
#include <string.h>

enum where { KERNEL, ONE_NODE, SEVERAL_NODES };
static const char *const where_names[] = {"", " on one node", " on several nodes"};

/* Collectives: from tests/cli/test_published.py (--rewrite-golden writes them), the logs of tests/cli/reference_data. Kernels:
 * from tests/cli/kernel_accuracy.py (test_plan_compute.py --rewrite-golden writes them), half of 611 rates of SimuMax. */
static const struct {
    const char *what;
    enum bb_gpu_generation generation;
    enum where where;
    const char *transport; /* SEVERAL_NODES; otherwise "" */
    const char *error;
} kinds[] = {
#include "proxies/offline/bench_plan/kernels.def"
#include "proxies/offline/bench_plan/published.def"
};

void bb_published_text(const struct bb_cluster *c, const char *what, int nodes, char text[BB_PUBLISHED_TEXT])
{
    const enum where where = nodes > 1 ? SEVERAL_NODES : nodes == 1 ? ONE_NODE : KERNEL;
    const enum bb_gpu_generation generation = bb_cluster_generation(c);
    const char *const transport = where == SEVERAL_NODES ? c->transport : "";
    const char *error = "no published timing of this kind";

    for (size_t i = 0; c->has_achieved && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].what, what) == 0 && kinds[i].generation == generation && kinds[i].where == where &&
            strcmp(kinds[i].transport, transport) == 0)
            error = kinds[i].error;
    snprintf(text, BB_PUBLISHED_TEXT, "%s, %s%s%s%s: %s", what,
             c->has_achieved ? bb_gpu_generations[generation] : "GPUs without measured rates", where_names[where],
             *transport ? ", " : "", transport, error);
}

void bb_collective_accuracy_text(const struct bb_cluster *c, enum bb_coll_kind kind, int ranks,
                                 char text[BB_PUBLISHED_TEXT])
{
    const int nodes = bb_cluster_nodes(c, ranks), found = bb_cluster_find_curve(c, kind, ranks, nodes);
    const bool measured = found < c->n_measured && c->measured[found].max_bytes > 0;
    const struct bb_left_out *errors = &c->left_out[measured ? BB_LEFT_OUT_SIZES : BB_LEFT_OUT_COLLECTIVES];
    char min[BB_BYTES_TEXT], max[BB_BYTES_TEXT], range[80] = "not measured on these ranks",
                                                 error[120] = "unknown error";

    if (!c->is_calibrated) {
        bb_published_text(c, bb_colls[kind].name, nodes, text);
        return;
    }
    if (measured)
        snprintf(range, sizeof(range), "measured from %s to %s",
                 bb_format_bytes((size_t)c->measured[found].min_bytes, min),
                 bb_format_bytes((size_t)c->measured[found].max_bytes, max));
    if (errors->rows > 0 && (measured || bb_colls[kind].flags & BB_COLL_ESTIMATED))
        snprintf(error, sizeof(error), "median error %.2g%%, 90%% within %.2g%%, of %s that the calibration left out",
                 errors->median_percent, errors->p90_percent, measured ? "sizes" : "collectives");
    snprintf(text, BB_PUBLISHED_TEXT, "%s, %s: %s", bb_colls[kind].name, range, error);
}
