/* op_time.h - durations of the operations of a step program (proxies/form/step/program.h) on a cluster. */
#ifndef BB_PROXIES_SIMULATION_SIMULATE_ENGINE_OP_TIME_H
#define BB_PROXIES_SIMULATION_SIMULATE_ENGINE_OP_TIME_H

#include "bootstrap/base/key_index.h"
#include "proxies/form/step/program.h"
#include "proxies/simulation/machine/cluster.h"

/* bb_op_kernels_ns - returns the total time of the operation's kernels, without launch overhead; 0 for
 * communication. */
int64_t bb_op_kernels_ns(const struct bb_cluster *c, const struct bb_op *op);

/*
 * The time of a compute operation, in ns. In a program with real kernels, the host launches each GEMM and each
 * memory-bound kernel separately, and no kernel starts before its launch.
 *   gpu_ns    duration on the GPU if no kernel waits for its launch
 *   host_ns   shortest time from the begin of the first launch on the host to the end of the operation on the GPU
 *   issue_ns  host time to launch all kernels of the operation
 *   first_ns  host time to launch the first kernel
 */
struct bb_work_time {
    int64_t gpu_ns, host_ns, issue_ns, first_ns;
};
struct bb_work_time bb_op_work_time(const struct bb_cluster *c, const struct bb_op *op);
/* bb_work_end_ns - returns the time at which an operation ends. start_ns: time at which the GPU can start it;
 * host_ns: host time at which its first launch begins. */
static inline int64_t bb_work_end_ns(const struct bb_work_time *work, int64_t start_ns, int64_t host_ns)
{
    const int64_t gpu = start_ns + work->gpu_ns, host = host_ns + work->host_ns;

    return gpu > host ? gpu : host;
}

int64_t bb_op_slowed_ns(int64_t ns, double times); /* returns ns x times, rounded; times: slowdown factor of the
                                                      GPU's kernels, 1: not slowed */

/* bb_op_collective - returns a collective operation of a step program as input of the cost model (cluster.h). ranks,
 * nodes, placement: of the communicator. The members with respect to the root are 0 in the result. */
struct bb_collective bb_op_collective(const struct bb_op *op, int ranks, int nodes,
                                      const struct bb_node_placement *placement);

/* A cache of operation times: a step has few distinct kernel lists and collective calls, and uses each many times.
 * BB_OP_TIMES(c) initializes an empty cache. */
#define BB_OP_TIMES(c)                                                                                                 \
    {                                                                                                                  \
        .cluster = (c), .kernel_lists = {.key_bytes = sizeof(void *) + sizeof(int64_t)}, .calls = {                    \
            .key_bytes = 6 * sizeof(int) + sizeof(size_t)                                                              \
        }                                                                                                              \
    }
struct bb_op_times {
    const struct bb_cluster *cluster;
    struct bb_key_index kernel_lists, calls;
    struct bb_work_time *of_work; /* [kernel_lists.n] duration of each pair of a kernel list and its number of
                                     executions (bb_op.work_times) */
    struct bb_cost *of_call;      /* [calls.n] cost of each collective call */
};
/*
 * bb_op_times_work - returns the time of a compute operation.
 * bb_op_times_call - stores the cost of a collective call in *cost.
 *   comm_key  number of the communicator; calls with the same comm_key have the same ranks, nodes and placement
 *   Returns   index in t->of_call, equal for equal calls with equal comm_key
 */
struct bb_work_time bb_op_times_work(struct bb_op_times *t, const struct bb_op *op);
int bb_op_times_call(struct bb_op_times *t, int comm_key, const struct bb_collective *call, struct bb_cost *cost);
void bb_op_times_release(struct bb_op_times *t);

#endif
