/*
 * exchanges.h - exchanges of several ranks that begin at once, each with its own messages: when each rank's links have done
 * their part, where ranks have a NIC, a leaf's or a pod's uplinks between them. All have their max-min fair part of it
 * for as long as they send (flows.h).
 */
#ifndef BB_PROXIES_MACHINE_EXCHANGES_H
#define BB_PROXIES_MACHINE_EXCHANGES_H

#include "proxies/machine/slow.h"

struct bb_exchange {
    int rank;
    struct bb_link_load load; /* of its own messages */
    double done_ns;      /* the answer          */
};

/* bb_exchanges_run - of n ranks, each once; slow: NULL for none. Returns 0 or -BB_EFAIL (no memory). */
int bb_exchanges_run(const struct bb_cluster *c, const struct bb_slow *slow, struct bb_exchange *exchanges,
                       int n) BB_MUST_CHECK;

/* bb_exchanges_can_contend - whether what two ranks send or receive may take one NIC or uplink. */
bool bb_exchanges_can_contend(const struct bb_cluster *c, int rank, int other);

#endif
