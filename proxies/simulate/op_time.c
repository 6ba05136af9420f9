/* op_time.c - see op_time.h. */
#include "proxies/simulate/op_time.h"

#include "bootstrap/base/grow.h"

#include <math.h>
#include <stdlib.h>

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

/* Kernel j of the list ends last of what it waits for, so all end with the longest of: its launch, and all from it on. Of
 * a list that is done several times that is in the first or the last of them. */
static struct bb_work_time time_work(const struct bb_cluster *c, const struct bb_op *op)
{
    const int64_t launch_ns = bb_cluster_issue_ns(c, true), once_ns = bb_op_kernels_ns(c, op) / op->work_times;
    const int n = op->work->n, again = op->work_times - 1;
    struct bb_work_time work = {.gpu_ns = once_ns * op->work_times};
    int64_t left_ns = once_ns;

    for (int j = 0; j < n; j++) {
        const int64_t first_ns = (j + 1) * launch_ns + again * once_ns + left_ns;
        const int64_t last_ns = ((int64_t)again * n + j + 1) * launch_ns + left_ns;

        work.host_ns = first_ns > work.host_ns ? first_ns : work.host_ns;
        work.host_ns = last_ns > work.host_ns ? last_ns : work.host_ns;
        left_ns -= bb_cluster_kernel_ns(c, &op->work->items[j]);
    }
    return work;
}

struct bb_work_time bb_op_work_time(const struct bb_cluster *c, const struct bb_op *op)
{
    if (op->work && op->work_times > 0)
        return time_work(c, op);
    return (struct bb_work_time){.gpu_ns = op->work ? 0 : stand_in_ns(op)};
}

int64_t bb_op_compute_end_ns(const struct bb_cluster *c, const struct bb_op *op, int64_t start_ns, int64_t host_ns)
{
    const struct bb_work_time work = bb_op_work_time(c, op);

    return bb_work_end_ns(&work, start_ns, host_ns);
}

int64_t bb_op_slowed_ns(int64_t ns, double times)
{
    return times == 1 ? ns : llround((double)ns * times);
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

/* ---- what was reckoned before ---- */

int bb_op_times_work(struct bb_op_times *t, const struct bb_op *op, struct bb_work_time *work)
{
    const struct {
        const void *work;
        int64_t times;
    } key = {op->work, op->work_times};
    const int known = t->works.n, at = op->work ? bb_key_index_add(&t->works, &key) : BB_NONE;

    *work = at >= 0 && at < known ? t->of_work[at] : bb_op_work_time(t->cluster, op);
    if (at < known)
        return op->work && at < 0 ? at : 0;
    if (BB_GROW(t->of_work, known))
        return -BB_EFAIL;
    t->of_work[known] = *work;
    return 0;
}

int bb_op_times_call(struct bb_op_times *t, int where, const struct bb_collective *call, struct bb_cost *cost)
{
    const struct {
        int where, kind, dtype, in_place;
        size_t count;
    } key = {where, (int)call->kind, (int)call->dtype, call->in_place, call->count};
    const int known = t->calls.n, at = bb_key_index_add(&t->calls, &key);

    if (at >= 0 && at < known) {
        *cost = t->of_call[at];
        return at;
    }
    bb_cluster_collective_cost(t->cluster, call, cost);
    if (at < 0 || BB_GROW(t->of_call, known))
        return -BB_EFAIL;
    t->of_call[known] = *cost;
    return at;
}

void bb_op_times_release(struct bb_op_times *t)
{
    bb_key_index_release(&t->works);
    bb_key_index_release(&t->calls);
    free(t->of_work);
    free(t->of_call);
}
