/* bottleneck.h - breakdown of one rank's predicted step by bottleneck (compute, memory, link, NIC, ...), and the
 * time that contention adds. */
#ifndef BB_PROXIES_SIMULATION_SIMULATE_BOTTLENECK_H
#define BB_PROXIES_SIMULATION_SIMULATE_BOTTLENECK_H

#include "proxies/simulation/simulate/engine/simulate.h"

/*
 * Time per training phase (enum bb_phase: forward, backward, ...) and per limiting resource, summed over the operations
 * of one rank. Of a compute operation, the time for which its kernels wait for their launches counts as launch, because
 * faster launches would save no more, and the rest as limited by what limits its kernels. A communication operation
 * counts only with the time during which no compute kernel runs on the rank; this time consists of waiting for the last
 * rank to arrive and of the data transfer.
 */
struct bb_bottleneck {
    int64_t ns[BB_PHASES][BB_LIMITS];
    int64_t compute_slowed_ns, comm_slowed_ns; /* additional time caused by contention: of all compute operations,
                                                  and of all communication operations */
    int64_t launch_ns; /* time for which compute operations wait for the launches of their kernels */
};

/* bb_bottleneck_find - computes the breakdown for one rank of the class class_id of equivalent ranks
 * (rank_classes.h) from `run`, a completed execution of m. */
void bb_bottleneck_find(const struct bb_sim *m, const struct bb_sim_run *run, int class_id, struct bb_bottleneck *out);

/* bb_bottleneck_of - returns the limiting resource with the largest time in this training phase; BB_LIMIT_NONE if no
 * time was recorded for the phase. */
enum bb_limit bb_bottleneck_of(const struct bb_bottleneck *b, enum bb_phase phase);

#endif
