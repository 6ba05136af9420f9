/*
 * servers.h - data parallelism by parameter servers: workers push gradients, servers update, workers pull parameters.
 * Gradients travel in chunks, by the rules of buckets, in the order of arrival: pushed as soon as they are there,
 * pulled in the same order after the backward. Pushes and pulls have a communicator each, so that chunk k comes back
 * while chunk k+1 is still under way.
 *
 *   ps          reduce to rank 0, which also works; it updates and broadcasts
 *   ps_p2p      rank 0 serves alone: it receives a chunk from all W workers in one group call (the incast), adds them
 *               up, updates, and sends to all of them; two sets of W buffers in turn
 *   ps_sharded  the first K ranks serve, chunk i on server i mod K
 *
 * A server starts to receive all its chunks before it answers the first: the answers wait for their own update only.
 */
#ifndef BB_PROXIES_REPLICAS_SERVERS_H
#define BB_PROXIES_REPLICAS_SERVERS_H

#include "proxies/sync/sync.h"

#define BB_SERVER_LANES 12 /* server s has lane s mod that */

struct bb_servers_comms {
    int push[BB_SERVER_LANES], pull[BB_SERVER_LANES]; /* communicators over all ranks */
    int lanes;                                        /* of them; 0: one rank alone   */
    int servers;                                      /* K; of ps 0: all ranks work   */
    int ranks;
};

/* bb_servers_layout - communicators over `group`, all ranks of the step. Too few ranks for the servers: said with the
 * nearest, -BB_EUSAGE. */
int bb_servers_layout(struct bb_step *step, const struct bb_dp_config *policy, int group,
                      struct bb_servers_comms *comms) BB_MUST_CHECK;

struct bb_servers_spec {
    const struct bb_dp_config *policy;
    struct bb_servers_comms comms;
    struct bb_step *step;
    struct bb_script *script;
    const struct bb_sync_unit *units; /* outlive it; in forward order */
    int n_units;
    int server; /* the role: server 0 .. K-1 (of ps: 0 is the root), BB_NONE: a worker */
};

struct bb_servers; /* opaque */

/* See bb_sync_init. More servers than chunks: said, -BB_EUSAGE. */
int bb_servers_init(struct bb_servers **s, const struct bb_servers_spec *spec) BB_MUST_CHECK;
void bb_servers_release(struct bb_servers *s);

/* Who works: after a unit's backward in the last micro-batch. All: the rest of the step. */
void bb_servers_after_backward(struct bb_servers *s, int unit);
void bb_servers_finish_step(struct bb_servers *s);

/* bb_servers_memory - adds what such a role holds for so many parameters: a worker parameters and gradients, a server
 * its part of the parameters, the optimizer's states, and receive buffers. */
void bb_servers_memory(const struct bb_servers *s, double bytes[BB_USES]);

#endif
