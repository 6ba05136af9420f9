/*
 * contention_sim.h - execution in the order of time on a machine that shares: activities take links, NICs, memory and
 * multiprocessors from each other (profiles/clusters/README.md says how). One of simulate.c's two ways to let time
 * pass.
 *
 * A class stands for all of its ranks: its links for those of each of them. A NIC that several GPUs use is used by all
 * their classes, by each as often as it has ranks there; so are the uplinks of a leaf and of a pod. Ranks of which
 * one's leaf or pod has others on it, or whose collective lies otherwise, are of different classes (class_refinement.c), so that
 * what is folded takes as long as what is not.
 */
#ifndef BB_PROXIES_SIMULATE_CONTENTION_SIM_H
#define BB_PROXIES_SIMULATE_CONTENTION_SIM_H

#include "proxies/simulate/execution.h"

/* bb_contention_sim_init - *out: to be released, whatever it returns. */
int bb_contention_sim_init(struct bb_contention_sim **out, struct bb_execution *r) BB_MUST_CHECK;
void bb_contention_sim_release(struct bb_contention_sim *s);
/* bb_contention_sim_reset - for another execution of the same, after one in which every task ended. */
void bb_contention_sim_reset(struct bb_contention_sim *s);

/* bb_contention_sim_arrive - all that the task waits for has ended: it starts at its arrival. */
void bb_contention_sim_arrive(struct bb_contention_sim *s, int at);

/* What has arrived now: a kernel that would last so long alone; a member of a collective, and the last of them, with a
 * number for each different call there; an exchange with the sum of its messages, of which so many leave the GPU. */
void bb_contention_sim_start_kernel(struct bb_contention_sim *s, int at, const struct bb_op *op, int64_t alone_ns);
void bb_contention_sim_join_collective(struct bb_contention_sim *s, int class_id);
void bb_contention_sim_start_collective(struct bb_contention_sim *s, int instance, int order, int call, const struct bb_cost *cost);
void bb_contention_sim_start_exchange(struct bb_contention_sim *s, int at, int comm, const struct bb_link_load *load, int messages);

/* bb_contention_sim_start_message - both sides, each by its task, have come; told once. itself: to oneself, which takes latency_ns and
 * no link. */
void bb_contention_sim_start_message(struct bb_contention_sim *s, int mine, int theirs, int64_t latency_ns, bool itself);

/* bb_contention_sim_run - until nothing happens any more. */
int bb_contention_sim_run(struct bb_contention_sim *s) BB_MUST_CHECK;

#endif
