/* bottleneck.h - of one rank's step on a machine that shares: what each phase's time went to, and what sharing cost. */
#ifndef BB_PROXIES_SIMULATE_BOTTLENECK_H
#define BB_PROXIES_SIMULATE_BOTTLENECK_H

#include "proxies/simulate/match.h"

/*
 * The time of a phase, by what held its operations up: of compute all of its time, of communication what no kernel
 * covers, split into waiting for who comes last and its transfer. Sums over operations.
 */
struct bb_bottleneck {
    int64_t ns[BB_PHASES][BB_LIMITS];
    int64_t compute_slowed_ns,
        comm_slowed_ns;                /* by what ran beside: longer than each operation would have lasted alone */
    int64_t link_busy_ns, nic_busy_ns; /* that all its bytes keep its busier direction busy                      */
};

/* bb_bottleneck_find - of a class, after its run. */
int bb_bottleneck_find(const struct bb_sim *m, const struct bb_sim_run *run, int class_id,
                       struct bb_bottleneck *out) BB_MUST_CHECK;

/* bb_bottleneck_of - what a phase spent most of its time on; BB_LIMIT_NONE: it has no time. */
enum bb_limit bb_bottleneck_of(const struct bb_bottleneck *b, enum bb_phase phase);

#endif
