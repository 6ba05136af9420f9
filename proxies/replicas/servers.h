/*
 * servers.h - data parallelism with parameter servers: workers (training ranks) push gradients, servers run the
 * optimizer, workers pull the updated parameters. Gradients are sent in *chunks*, which are the gradient buckets of
 * sync/buckets.h, in the order in which the gradients become ready. A worker pushes a chunk as soon as the chunk's
 * gradients are ready, and pulls the chunks in the same order after the backward pass. Pushes and pulls use separate
 * communicators, so chunk k can be pulled while chunk k+1 is being pushed.
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

/* Maximum number of lanes; a lane is a pair of communicators, one for pushes and one for pulls. Server s uses lane s
 * modulo the number of lanes. */
#define BB_SERVER_LANES 12

struct bb_servers_comms {
    int push[BB_SERVER_LANES], pull[BB_SERVER_LANES]; /* [lanes] indices in the step's layout of the communicators
                                                         for pushes and for pulls; each contains all ranks */
    int lanes;   /* number of communicator pairs (for pushes and pulls) in use; 0 in a job with one rank */
    int servers; /* number of dedicated servers (K); 0 for --sync ps, where the server (rank 0) is also a worker */
    int ranks;
};

/*
 * bb_servers_layout - adds the communicators for pushes and pulls to the layout of the step.
 *   policy   selected synchronization (--sync)
 *   group    index of the group of all ranks of the step
 *   comms    out: the communicators
 *   Returns  0, or -BB_EUSAGE after printing an error message with the minimum number of ranks if no rank is left for a
 *            worker
 */
int bb_servers_layout(struct bb_step *step, const struct bb_dp_config *policy, int group,
                      struct bb_servers_comms *comms) BB_MUST_CHECK;

struct bb_servers_spec {
    const struct bb_dp_config *policy;
    struct bb_servers_comms comms;
    struct bb_step *step;
    struct bb_script *script;
    const struct bb_sync_unit *units; /* [n_units] layers of the model in forward order; must remain valid until
                                         bb_servers_release */
    int n_units;
    int server; /* number of the server whose program is built (0 to K - 1; with --sync ps, rank 0 is server 0), or
                   BB_NONE to build the program of the workers */
};

struct bb_servers; /* opaque state while the program of the workers or of one server is built */

/*
 * bb_servers_init - divides the gradients into chunks (buckets) and adds the buffers of the chunks to the program of
 * one role (the workers, or one server).
 *   s        out; the caller releases it with bb_servers_release, also after an error
 *   Returns  0, or -BB_EUSAGE after printing an error message if there are more servers than chunks
 */
int bb_servers_init(struct bb_servers **s, const struct bb_servers_spec *spec) BB_MUST_CHECK;
void bb_servers_release(struct bb_servers *s);

/*
 * The builder of the training step calls these functions:
 *   bb_servers_after_backward  for workers, after the backward of layer `unit` in the last micro-batch: adds the pushes
 *                              of all chunks (gradient buckets) whose gradients are then ready
 *   bb_servers_finish_step     for workers and servers, at the end of the step: adds the remaining pushes, the updates
 *                              and the pulls
 */
void bb_servers_after_backward(struct bb_servers *s, int unit);
void bb_servers_finish_step(struct bb_servers *s);

/*
 * bb_servers_memory - adds the training memory of one role (the workers or one server) to bytes[], in bytes for each
 * enum bb_buffer_use.
 *   Worker  all parameters and gradients
 *   Server  the parameters and the optimizer state of its chunks, and its receive buffers
 * With --sync ps, rank 0 is both: it has all parameters, gradients and optimizer states.
 */
void bb_servers_memory(const struct bb_servers *s, double bytes[BB_USES]);

#endif
