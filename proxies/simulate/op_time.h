/* op_time.h - times of the operations of a step program on a machine. */
#ifndef BB_PROXIES_SIMULATE_OP_TIME_H
#define BB_PROXIES_SIMULATE_OP_TIME_H

#include "bootstrap/base/key_index.h"
#include "proxies/machine/cluster.h"
#include "proxies/step/program.h"

/* bb_op_kernels_ns - time of the operation's kernels, without launch overhead; 0 for communication. */
int64_t bb_op_kernels_ns(const struct bb_cluster *c, const struct bb_op *op);

/*
 * The time of a compute operation. With real kernels, each GEMM and each memory-bound kernel is launched separately,
 * and no kernel starts before its launch.
 *   gpu_ns    from its start, if the host is always ahead
 *   host_ns   the operation ends at least this long after the host begins its first launch
 *   issue_ns  the host needs to issue the operation
 *   first_ns  the host needs to issue the first kernel
 */
struct bb_work_time {
    int64_t gpu_ns, host_ns, issue_ns, first_ns;
};
struct bb_work_time bb_op_work_time(const struct bb_cluster *c, const struct bb_op *op);
/* bb_work_end_ns - the end of an operation that may start at start_ns and whose first launch begins at host_ns. */
static inline int64_t bb_work_end_ns(const struct bb_work_time *work, int64_t start_ns, int64_t host_ns)
{
    const int64_t gpu = start_ns + work->gpu_ns, host = host_ns + work->host_ns;

    return gpu > host ? gpu : host;
}

int64_t bb_op_slowed_ns(int64_t ns, double times); /* the time on a GPU that is slower by this factor */

/* bb_op_collective - the collective call of the operation, on a communicator of that many ranks and nodes with this
 * placement. */
struct bb_collective bb_op_collective(const struct bb_op *op, int ranks, int nodes,
                                      const struct bb_node_placement *placement);

/* A cache: a step has few distinct kernel lists and calls, each used many times. BB_OP_TIMES(c) is an empty one. */
#define BB_OP_TIMES(c)                                                                                                 \
    {                                                                                                                  \
        .cluster = (c), .kernel_lists = {.key_bytes = sizeof(void *) + sizeof(int64_t)}, .calls = {                    \
            .key_bytes = 6 * sizeof(int) + sizeof(size_t)                                                              \
        }                                                                                                              \
    }
struct bb_op_times {
    const struct bb_cluster *cluster;
    struct bb_key_index kernel_lists, calls;
    struct bb_work_time *of_work; /* [n_kernel_lists] */
    struct bb_cost *of_call;      /* [n_calls] */
    int n_kernel_lists, n_calls;  /* equal to the sizes of the indices, unless memory ran out */
};
/*
 * bb_op_times_work - *work: out, the time of a compute operation. Returns 0 or -BB_EFAIL.
 * bb_op_times_call - *cost: out, the cost of a collective call. comm_key identifies its communicator
 * instance, and so its ranks, nodes and placement. Returns the index of this call, which is unique for its arguments,
 * or -BB_EFAIL.
 */
int bb_op_times_work(struct bb_op_times *t, const struct bb_op *op, struct bb_work_time *work) BB_MUST_CHECK;
int bb_op_times_call(struct bb_op_times *t, int comm_key, const struct bb_collective *call,
                     struct bb_cost *cost) BB_MUST_CHECK;
void bb_op_times_release(struct bb_op_times *t);

#endif
