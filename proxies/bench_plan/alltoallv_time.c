/* alltoallv_time.c - sums the bytes of each rank and computes when the last message ends (see alltoallv_time.h). */
#include "proxies/bench_plan/alltoallv_time.h"

#include "bootstrap/base/alloc.h"
#include "proxies/machine/exchanges.h"
#include "proxies/machine/fabric.h"

#include <math.h>
#include <stdlib.h>

static double pair_bytes(const struct bb_case *c, int from, int to)
{
    size_t bytes = bb_dtypes[c->dtype].bytes;

    return (double)(bb_alltoallv_counts_count(c->alltoallv_counts, c->count, bytes, c->ranks, from, to) * bytes);
}

static void sum_loads(const struct bb_cluster *cl, const struct bb_case *c, struct bb_exchange *exchanges)
{
    for (int i = 0; i < c->ranks; i++)
        for (int j = 0; j < c->ranks; j++) {
            double bytes = i == j ? 0 : pair_bytes(c, i, j);

            exchanges[i].rank = i;
            bb_fabric_add_message(cl, &exchanges[i].load, i, j, bytes, true);
            bb_fabric_add_message(cl, &exchanges[j].load, j, i, bytes, false);
        }
}

/* Returns the time in ns at which the last message ends. A message ends when the links of both of its ranks have
 * transferred all their bytes and one latency has passed. */
static int64_t last_end_ns(const struct bb_cluster *cl, const struct bb_case *c, const struct bb_exchange *exchanges)
{
    int64_t last_ns = 0;

    for (int i = 0; i < c->ranks; i++)
        for (int j = 0; j < c->ranks; j++) {
            const double bytes = pair_bytes(c, i, j), done_ns = fmax(exchanges[i].done_ns, exchanges[j].done_ns);
            const int64_t ns = bytes <= 0 ? 0
                               : i == j   ? bb_cluster_self_message_ns(cl, bytes)
                                          : bb_fabric_message_ns(cl, i, j, done_ns);

            last_ns = ns > last_ns ? ns : last_ns;
        }
    return last_ns;
}

void bb_alltoallv_time_ns(const struct bb_cluster *cluster, const struct bb_case *c, int64_t *ns)
{
    struct bb_exchange *exchanges;

    BB_NEW(exchanges, c->ranks);
    sum_loads(cluster, c, exchanges);
    bb_exchanges_run(cluster, NULL, exchanges, c->ranks);
    *ns = last_end_ns(cluster, c, exchanges);
    free(exchanges);
}
