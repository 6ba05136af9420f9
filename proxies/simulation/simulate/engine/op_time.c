/* op_time.c - computes operation times (see op_time.h). */
#include "proxies/simulation/simulate/engine/op_time.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <sys/param.h>

static int64_t stand_in_ns(const struct bb_op *op)
{
    return llround(op->compute_us * 1e3);
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

/* Returns the time of one execution of the kernel list. Each kernel starts after the previous kernel on the GPU and
 * after its launch by the host. A list item may stand for several kernels; it ends no earlier than the launch of its
 * last kernel plus the duration of this kernel. */
static struct bb_work_time time_list(const struct bb_cluster *c, const struct bb_kernel_list *list)
{
    struct bb_work_time once = {0};
    bool in_graph = false;

    for (int i = 0; i < list->n; i++) {
        const int64_t ns = bb_cluster_kernel_ns(c, &list->items[i]);
        int n;
        const int64_t one_ns = bb_cluster_kernel_issue_ns(c, &list->items[i], &n);

        if (in_graph && list->items[i].captured)
            n = 0; /* of the graph that has been launched */
        else
            in_graph = list->items[i].captured && c->eager && n > 0;
        if (n > 0)
            once.host_ns = MAX(once.host_ns, once.issue_ns + one_ns);
        if (n > 0 && once.issue_ns == 0)
            once.first_ns = one_ns;
        once.gpu_ns += ns;
        once.host_ns += ns;
        once.issue_ns += n * one_ns;
        if (n > 1)
            once.host_ns = MAX(once.host_ns, once.issue_ns + ns / n);
    }
    return once;
}

struct bb_work_time bb_op_work_time(const struct bb_cluster *c, const struct bb_op *op)
{
    const int64_t alone_ns = op->work ? 0 : stand_in_ns(op),
                  launch_ns = alone_ns > 0 ? bb_cluster_issue_ns(c, true) : 0;
    struct bb_work_time once, all;

    if (!op->work || op->work_times == 0)
        return (struct bb_work_time){.gpu_ns = alone_ns, .issue_ns = launch_ns, .first_ns = launch_ns};
    once = all = time_list(c, op->work);
    for (int i = 1; i < op->work_times; i++) {
        all.host_ns = MAX(all.host_ns + once.gpu_ns, all.issue_ns + once.host_ns);
        all.gpu_ns += once.gpu_ns;
        all.issue_ns += once.issue_ns;
    }
    return all;
}

int64_t bb_op_slowed_ns(int64_t ns, double times)
{
    return times == 1 ? ns : llround((double)ns * times);
}

struct bb_collective bb_op_collective(const struct bb_op *op, int ranks, int nodes,
                                      const struct bb_node_placement *placement)
{
    return (struct bb_collective){.kind = op->coll,
                                  .dtype = op->dtype,
                                  .redop = (int)op->redop,
                                  .count = op->count,
                                  .in_place = op->src != BB_NONE && op->src == op->dst,
                                  .ranks = ranks,
                                  .nodes = nodes,
                                  .placement = *placement};
}

/* ---- cache of operation times ---- */

struct bb_work_time bb_op_times_work(struct bb_op_times *t, const struct bb_op *op)
{
    const struct {
        const void *work;
        int64_t times;
    } key = {op->work, op->work_times};
    const int known = t->kernel_lists.n;
    int at;

    if (!op->work)
        return bb_op_work_time(t->cluster, op);
    at = bb_key_index_add(&t->kernel_lists, &key);
    if (at == known) {
        BB_GROW(t->of_work, at);
        t->of_work[at] = bb_op_work_time(t->cluster, op);
    }
    return t->of_work[at];
}

int bb_op_times_call(struct bb_op_times *t, int comm_key, const struct bb_collective *call, struct bb_cost *cost)
{
    const struct {
        int comm_key, kind, dtype, redop, in_place, root; /* root: one of two numbers, the other is 0 */
        size_t count;
        double members_on_slow_paths;
    } key = {comm_key,         (int)call->kind,
             (int)call->dtype, call->redop,
             call->in_place,   call->members_on_root_node + call->root_number,
             call->count,      call->members_on_slow_paths};
    const int known = t->calls.n, at = bb_key_index_add(&t->calls, &key);

    if (at == known) {
        BB_GROW(t->of_call, at);
        bb_cluster_collective_cost(t->cluster, call, &t->of_call[at]);
    }
    *cost = t->of_call[at];
    return at;
}

void bb_op_times_release(struct bb_op_times *t)
{
    bb_key_index_release(&t->kernel_lists);
    bb_key_index_release(&t->calls);
    free(t->of_work);
    free(t->of_call);
}
