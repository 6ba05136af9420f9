/*
 * exchanges.h - durations of exchanges that begin at the same time on several ranks. An exchange is all messages of one
 * rank in one group call. Ranks share NICs and the uplinks of leaves and pods; while a rank sends, it gets its max-min
 * fair share of their bandwidth (flows.h).
 */
#ifndef BB_PROXIES_SIMULATION_MACHINE_EXCHANGES_H
#define BB_PROXIES_SIMULATION_MACHINE_EXCHANGES_H

#include "proxies/simulation/machine/slow.h"

struct bb_exchange {
    int rank;
    struct bb_link_load load; /* bytes of this rank's messages */
    double done_ns; /* out: ns from the common start until this rank's links have transferred `load`; 0: no load */
};

/*
 * bb_exchanges_run - computes done_ns of each exchange.
 *   slow       degraded NICs and leaf uplinks, or NULL; slow GPUs in this list are ignored
 *   exchanges  [n] one per rank
 */
void bb_exchanges_run(const struct bb_cluster *c, const struct bb_slow *slow, struct bb_exchange *exchanges, int n);

/* bb_exchanges_can_contend - returns whether the GPUs of two ranks share a NIC, or share uplinks that can be a
 * bottleneck. */
bool bb_exchanges_can_contend(const struct bb_cluster *c, int rank, int other);

#endif
