/* bottleneck.h - where the time of one rank's step goes on a machine with contention, and what contention costs. */
#ifndef BB_PROXIES_SIMULATE_BOTTLENECK_H
#define BB_PROXIES_SIMULATE_BOTTLENECK_H

#include "proxies/simulate/match.h"

/*
 * Time of each phase by what limited its operations, summed over operations. Compute counts with its full time;
 * communication with the time not covered by a kernel, split into waiting for the last rank and the transfer.
 */
struct bb_bottleneck {
    int64_t ns[BB_PHASES][BB_LIMITS];
    int64_t compute_slowed_ns, comm_slowed_ns; /* increase of time by contention, summed over operations */
    int64_t link_busy_ns, nic_busy_ns;         /* time that all traffic needs in the busier direction */
};

/* bb_bottleneck_find - fills *out for a class, after its execution. Returns 0 or -BB_EFAIL. */
int bb_bottleneck_find(const struct bb_sim *m, const struct bb_sim_run *run, int class_id,
                       struct bb_bottleneck *out) BB_MUST_CHECK;

/* bb_bottleneck_of - the limit with the largest time of the phase; BB_LIMIT_NONE if the phase has no time. */
enum bb_limit bb_bottleneck_of(const struct bb_bottleneck *b, enum bb_phase phase);

#endif
