/* op_time.c - see op_time.h. */
#include "proxies/simulate/op_time.h"

#include <math.h>

static int64_t stand_in_ns(const struct bb_op *op)
{
    return llround(op->compute_us * 1e3);
}

int bb_op_kernels(const struct bb_op *op)
{
    return op->work ? op->work->n * op->work_times : stand_in_ns(op) > 0;
}

int64_t bb_op_kernels_ns(const struct bb_cluster *c, const struct bb_op *op)
{
    int64_t ns = 0;

    if (op->kind != BB_OP_COMPUTE)
        return 0;
    for (int i = 0; op->work && i < op->work->n; i++)
        ns += bb_cluster_kernel_ns(c, &op->work->items[i]);
    return op->work ? ns * op->work_times : stand_in_ns(op);
}

int64_t bb_op_compute_end_ns(const struct bb_cluster *c, const struct bb_op *op, int64_t start_ns, int64_t host_ns)
{
    int64_t end = start_ns, launch_ns = bb_cluster_issue_ns(c, true);

    if (!op->work)
        return start_ns + stand_in_ns(op);
    for (int i = 0; i < op->work->n * op->work_times; i++) {
        host_ns += launch_ns;
        end = (end > host_ns ? end : host_ns) + bb_cluster_kernel_ns(c, &op->work->items[i % op->work->n]);
    }
    return end;
}

struct bb_collective bb_op_collective(const struct bb_op *op, int ranks, int nodes, const struct bb_spread *spread)
{
    return (struct bb_collective){.kind = op->coll,
                                  .dtype = op->dtype,
                                  .count = op->count,
                                  .in_place = op->src != BB_NONE && op->src == op->dst,
                                  .ranks = ranks,
                                  .nodes = nodes,
                                  .spread = *spread};
}
