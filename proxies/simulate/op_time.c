/* op_time.c - see op_time.h. */
#include "proxies/simulate/op_time.h"

#include <math.h>

static int64_t stand_in_ns(const struct bb_op *op)
{
    return llround(op->compute_us * 1e3);
}

int64_t bb_op_issue_ns(const struct bb_cluster *c, const struct bb_op *op, int64_t *first_ns)
{
    int64_t all_ns = 0;
    int n;

    *first_ns = 0;
    if (!op->work)
        return *first_ns = stand_in_ns(op) > 0 ? bb_cluster_issue_ns(c, true) : 0;
    for (int i = 0; i < op->work->n; i++) {
        const int64_t one_ns = bb_cluster_kernel_issue_ns(c, &op->work->items[i], &n);

        if (all_ns == 0 && n > 0)
            *first_ns = one_ns;
        all_ns += n * one_ns;
    }
    return all_ns * op->work_times;
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

/* When an item ends that may start when the one before it has ended. Of several kernels the last one does not start
 * before it is launched. */
static int64_t item_end_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item, int64_t before_ns,
                           int64_t *host_ns)
{
    const int64_t ns = bb_cluster_kernel_ns(c, item);
    int64_t one_ns, end_ns, last_ns;
    int n;

    one_ns = bb_cluster_kernel_issue_ns(c, item, &n);
    end_ns = (n > 0 && *host_ns + one_ns > before_ns ? *host_ns + one_ns : before_ns) + ns;
    *host_ns += n * one_ns;
    last_ns = n > 1 ? *host_ns + ns / n : end_ns;
    return end_ns > last_ns ? end_ns : last_ns;
}

int64_t bb_op_compute_end_ns(const struct bb_cluster *c, const struct bb_op *op, int64_t start_ns, int64_t host_ns)
{
    int64_t end_ns = start_ns;

    if (!op->work)
        return start_ns + stand_in_ns(op);
    for (int i = 0; i < op->work->n * op->work_times; i++)
        end_ns = item_end_ns(c, &op->work->items[i % op->work->n], end_ns, &host_ns);
    return end_ns;
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
