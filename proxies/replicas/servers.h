/*
 * servers.h - data parallelism with parameter servers: workers push gradients, servers apply the optimizer, workers
 * pull the updated parameters. Gradients travel in chunks. The bucket rules (sync/buckets.h) cut the chunks, in the
 * order in which the gradients become ready. A worker pushes a chunk as soon as its gradients are ready, and pulls the
 * chunks in the same order after the backward pass. Pushes and pulls use separate communicators, so chunk k can be
 * pulled while chunk k+1 is still being pushed.
 *
 *   ps          reduce to rank 0, which is a worker too; rank 0 updates and broadcasts
 *   ps_p2p      rank 0 is a dedicated server: it receives a chunk from all W workers in one group call (incast), sums
 *               the W buffers, updates, and sends the parameters to all workers; two sets of W receive buffers
 *               alternate
 *   ps_sharded  the first K ranks are dedicated servers; server i mod K owns chunk i
 *
 * A dedicated server posts the receives of all its chunks before it sends the first parameters. Each send waits only
 * for the update of its own chunk.
 */
#ifndef BB_PROXIES_REPLICAS_SERVERS_H
#define BB_PROXIES_REPLICAS_SERVERS_H

#include "proxies/sync/sync.h"

#define BB_SERVER_LANES 12 /* maximum number of communicator pairs (lanes); server s uses lane s mod lanes */

struct bb_servers_comms {
    int push[BB_SERVER_LANES], pull[BB_SERVER_LANES]; /* communicators over all ranks, one per lane */
    int lanes;                                        /* lanes in use; 0 with one rank */
    int servers;                                      /* dedicated servers, K; 0 for ps, where every rank is a worker */
    int ranks;
};

/*
 * bb_servers_layout - add the push and pull communicators to the layout of the step.
 *   group    the group of all ranks of the step
 *   comms    out
 *   Returns  0, -BB_EFAIL, or -BB_EUSAGE, after an error line with the smallest valid number of ranks, when no rank is
 *            left for the workers
 */
int bb_servers_layout(struct bb_step *step, const struct bb_dp_config *policy, int group,
                      struct bb_servers_comms *comms) BB_MUST_CHECK;

struct bb_servers_spec {
    const struct bb_dp_config *policy;
    struct bb_servers_comms comms;
    struct bb_step *step;
    struct bb_script *script;
    const struct bb_sync_unit *units; /* in forward order; the caller keeps the array until bb_servers_release */
    int n_units;
    int server; /* role to write: server 0 .. K-1 (ps: 0 is the root), or BB_NONE for a worker */
};

struct bb_servers; /* program state of one role; opaque */

/*
 * bb_servers_init - cut the chunks and add their buffers to the script of one role.
 *   s        out; the caller releases it with bb_servers_release, also after an error
 *   Returns  0, -BB_EFAIL, or -BB_EUSAGE, after an error line, with more servers than chunks
 */
int bb_servers_init(struct bb_servers **s, const struct bb_servers_spec *spec) BB_MUST_CHECK;
void bb_servers_release(struct bb_servers *s);

/*
 * Hooks of the builder.
 *   after_backward  a worker calls it after the backward of a unit in the last micro-batch
 *   finish_step     every role calls it once, at the end of the step: remaining pushes, updates, pulls
 */
void bb_servers_after_backward(struct bb_servers *s, int unit);
void bb_servers_finish_step(struct bb_servers *s);

/*
 * bb_servers_memory - add the training memory of the role to bytes[].
 *   Worker  all parameters and gradients
 *   Server  its share of the parameters and of the optimizer state, and its receive buffers
 */
void bb_servers_memory(const struct bb_servers *s, double bytes[BB_USES]);

#endif
