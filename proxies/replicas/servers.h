/*
 * servers.h - data parallelism with parameter servers: workers push gradients, servers run the optimizer, workers pull
 * the updated parameters. Gradients are sent in *chunks*, which are the buckets of sync/buckets.h, in the order in
 * which the gradients become ready. A worker pushes a chunk as soon as the chunk's gradients are ready, and pulls the
 * chunks in the same order after the backward pass. Pushes and pulls use separate communicators, so chunk k can be
 * pulled while chunk k+1 is being pushed.
 *
 *   ps          rank 0 is a worker and the server: gradients are reduced to rank 0, which updates the parameters and
 *               broadcasts them
 *   ps_p2p      rank 0 is a dedicated server: in one group call it receives a chunk from all W workers (incast); then
 *               it sums the W buffers, updates the parameters, and sends them to all workers. Two sets of W receive
 *               buffers alternate
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
    int push[BB_SERVER_LANES], pull[BB_SERVER_LANES]; /* one pair of communicators per lane, each over all ranks */
    int lanes;                                        /* number of lanes in use; 0 with one rank */
    int servers; /* number of dedicated servers (K); 0 for ps, where every rank is a worker */
    int ranks;
};

/*
 * bb_servers_layout - adds the push and pull communicators to the layout of the step.
 *   group    the group of all ranks of the step
 *   comms    out
 *   Returns  0, -BB_EFAIL, or -BB_EUSAGE after printing an error message with the minimum number of ranks: all ranks
 *            are servers
 */
int bb_servers_layout(struct bb_step *step, const struct bb_dp_config *policy, int group,
                      struct bb_servers_comms *comms) BB_MUST_CHECK;

struct bb_servers_spec {
    const struct bb_dp_config *policy;
    struct bb_servers_comms comms;
    struct bb_step *step;
    struct bb_script *script;
    const struct bb_sync_unit *units; /* [n_units] in forward order; must remain valid until bb_servers_release */
    int n_units;
    int server; /* role whose program is built: number of the server (0 to K - 1; with ps, rank 0 is server 0), or
                   BB_NONE for a worker without a server */
};

struct bb_servers; /* state while the program of one role is built */

/*
 * bb_servers_init - divides the gradients into chunks and adds the buffers of the chunks to the script of one role.
 *   s        out; the caller releases it with bb_servers_release, also after an error
 *   Returns  0, -BB_EFAIL, or -BB_EUSAGE after printing an error message if there are more servers than chunks
 */
int bb_servers_init(struct bb_servers **s, const struct bb_servers_spec *spec) BB_MUST_CHECK;
void bb_servers_release(struct bb_servers *s);

/*
 * The builder of the step calls both functions:
 *   after_backward  for workers, after the backward of `unit` in the last micro-batch: adds the pushes of all chunks
 *                   whose gradients are ready
 *   finish_step     for every role, at the end of the step: adds the remaining pushes, the updates and the pulls
 */
void bb_servers_after_backward(struct bb_servers *s, int unit);
void bb_servers_finish_step(struct bb_servers *s);

/*
 * bb_servers_memory - adds the training memory of the role to bytes[], in bytes for each enum bb_buffer_use.
 *   Worker  all parameters and gradients
 *   Server  the parameters and the optimizer state of its chunks, and its receive buffers
 */
void bb_servers_memory(const struct bb_servers *s, double bytes[BB_USES]);

#endif
