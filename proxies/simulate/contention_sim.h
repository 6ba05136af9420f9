/*
 * contention_sim.h - discrete-event simulation of a step on a machine with contention: concurrent operations share
 * links, NICs, memory bandwidth and SMs (cost model: profiles/clusters/README.md). simulate.c uses this module for
 * cluster profiles with a 'sharing' section, and closed-form times for the other profiles.
 *
 * One rank represents all ranks of its class (rank_classes.h), and its links represent the links of each of these
 * ranks. A NIC shared by several GPUs is one resource for all classes of these GPUs: the traffic of a class on this NIC
 * is multiplied by the number of its ranks there. The uplinks of a leaf and of a pod are modeled in the same way.
 * class_refinement.c puts ranks in different classes if the other ranks on their leaf or pod differ, or if their
 * collectives are placed differently. The result is therefore the same as with one class per rank.
 *
 * In all functions, `at` is the index of a task in bb_sim_run.tasks.
 */
#ifndef BB_PROXIES_SIMULATE_CONTENTION_SIM_H
#define BB_PROXIES_SIMULATE_CONTENTION_SIM_H

#include "proxies/simulate/execution.h"

/* bb_contention_sim_init - creates the simulator for the execution r. The caller releases *out with
 * bb_contention_sim_release, also after an error. */
int bb_contention_sim_init(struct bb_contention_sim **out, struct bb_execution *r) BB_MUST_CHECK;
void bb_contention_sim_release(struct bb_contention_sim *s);
/* bb_contention_sim_reset - prepares another execution of the same step. Call only after an execution in which every
 * task ended. */
void bb_contention_sim_reset(struct bb_contention_sim *s);

/* bb_contention_sim_arrive - schedules the start of a task at its arrival_ns. All dependencies of the task must have
 * ended. */
void bb_contention_sim_arrive(struct bb_contention_sim *s, int at);

/*
 * Called by bb_execution_start when a task starts:
 *   start_kernel       alone_ns: duration without contention
 *   join_collective    a member reached its collective: its NCCL kernel occupies SMs from now on
 *   start_collective   the last member reached the collective. instance: index in bb_sim.instances; order: number of
 *                      the collective in this instance; call: index of the call's cost (bb_op_times_call); equal
 *                      indices mean equal calls
 *   start_exchange     load: bytes of all messages of the exchange; messages: number of messages that leave or enter
 *                      the GPU
 */
void bb_contention_sim_start_kernel(struct bb_contention_sim *s, int at, const struct bb_op *op, int64_t alone_ns);
void bb_contention_sim_join_collective(struct bb_contention_sim *s, int class_id);
void bb_contention_sim_start_collective(struct bb_contention_sim *s, int instance, int order, int call,
                                        const struct bb_cost *cost);
void bb_contention_sim_start_exchange(struct bb_contention_sim *s, int at, int comm, const struct bb_link_load *load,
                                      int messages);

/*
 * bb_contention_sim_start_message - starts a message when the tasks of both sides have started; called once per
 * message.
 *   mine, theirs  the tasks of the two sides
 *   latency_ns    latency of the path between the two ranks; for a message of a rank to itself, the time of the copy
 *   itself        true: a message of a rank to itself, which uses no link
 */
void bb_contention_sim_start_message(struct bb_contention_sim *s, int mine, int theirs, int64_t latency_ns,
                                     bool itself);

/* bb_contention_sim_run - processes events until the queue is empty. Returns 0 or -BB_EFAIL. */
int bb_contention_sim_run(struct bb_contention_sim *s) BB_MUST_CHECK;

#endif
