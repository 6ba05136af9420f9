/* bottleneck.h - breakdown of one rank's predicted step by bottleneck (compute, memory, link, NIC, ...), and the
 * time that contention adds. */
#ifndef BB_PROXIES_SIMULATE_BOTTLENECK_H
#define BB_PROXIES_SIMULATE_BOTTLENECK_H

#include "proxies/simulate/match.h"

/*
 * Time per phase and per limiting resource, summed over the operations of one rank. A compute operation counts with its
 * full time. A communication operation counts only with the time that no kernel overlaps; this time is split into
 * waiting for the last rank and the transfer.
 */
struct bb_bottleneck {
    int64_t ns[BB_PHASES][BB_LIMITS];
    int64_t compute_slowed_ns, comm_slowed_ns; /* time that contention adds to the compute operations and to the
                                                  communication operations */
    int64_t link_busy_ns, nic_busy_ns; /* time for which traffic keeps the rank's links and its NIC busy; of the two
                                          directions, the busier one counts */
};

/* bb_bottleneck_find - computes the breakdown for the ranks of class class_id from the completed execution `run` of
 * m. Returns 0 or -BB_EFAIL. */
int bb_bottleneck_find(const struct bb_sim *m, const struct bb_sim_run *run, int class_id,
                       struct bb_bottleneck *out) BB_MUST_CHECK;

/* bb_bottleneck_of - returns the limit with the largest time in this phase; BB_LIMIT_NONE if the phase has no time. */
enum bb_limit bb_bottleneck_of(const struct bb_bottleneck *b, enum bb_phase phase);

#endif
