/*
 * contention_sim.h - discrete-event simulation of a training step on a machine with contention: concurrent operations
 * share links, NICs, memory bandwidth and SMs (cost model: profiles/clusters/README.md). simulate.c uses this module
 * for cluster profiles with a 'sharing' section, and closed-form times for all other profiles.
 *
 * One rank represents all ranks of its class of equivalent ranks (rank_classes.h). The links of this rank represent the
 * links of each rank of the class. A NIC shared by several GPUs is one resource; the traffic of a class on this NIC is
 * multiplied by the number of its ranks that use the NIC. The uplinks of leaf switches and pods are modeled in the same
 * way. class_refinement.c puts two ranks in different classes if their leaves or pods contain ranks of different
 * classes, or if the members of their collectives are distributed differently. The result is therefore the same as with
 * a separate simulation of every rank.
 *
 * In all functions, `at` is the index of a task in bb_sim_run.tasks.
 */
#ifndef BB_PROXIES_SIMULATION_SIMULATE_ENGINE_CONTENTION_SIM_H
#define BB_PROXIES_SIMULATION_SIMULATE_ENGINE_CONTENTION_SIM_H

#include "proxies/simulation/simulate/engine/execution.h"

/* bb_contention_sim_new - creates the simulator for the execution r. The caller releases it with
 * bb_contention_sim_release. */
struct bb_contention_sim *bb_contention_sim_new(struct bb_execution *r);
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
 *   join_collective    a member has called the collective: its NCCL kernel occupies SMs from now on
 *   start_collective   the last member has called the collective. instance: the communicator, index in
 *                      bb_sim.instances; order: sequence number of the collective on this communicator; call: index of
 *                      its cost (bb_op_times_call), equal for collectives with equal cost. Returns its duration in ns
 *                      if it runs alone
 *   start_exchange     starts the sends and receives of one group call. load: bytes of all these messages; messages:
 *                      number of messages to and from other ranks
 */
void bb_contention_sim_start_kernel(struct bb_contention_sim *s, int at, const struct bb_op *op, int64_t alone_ns);
void bb_contention_sim_join_collective(struct bb_contention_sim *s, int class_id);
double bb_contention_sim_start_collective(struct bb_contention_sim *s, int instance, int order, int call,
                                          const struct bb_cost *cost);
void bb_contention_sim_start_exchange(struct bb_contention_sim *s, int at, int comm, const struct bb_link_load *load,
                                      int messages);

/*
 * bb_contention_sim_start_message - starts a message. Call once per message, when both ranks have started their tasks.
 *   mine, theirs  tasks of the two ranks, indices in bb_sim_run.tasks
 *   latency_ns    latency of the path between the two ranks; for a message of a rank to itself, the time of the copy
 *   itself        true: a message of a rank to itself, which uses no link
 */
void bb_contention_sim_start_message(struct bb_contention_sim *s, int mine, int theirs, int64_t latency_ns,
                                     bool itself);

/* bb_contention_sim_run - processes events until the queue is empty. */
void bb_contention_sim_run(struct bb_contention_sim *s);

#endif
