/*
 * comms.h - NCCL communicators for the ranks of the world: unique-id exchange, polling with a timeout, finalize and
 * abort, and support for several ranks on one GPU. One communicator per (group, purpose), used by one host thread.
 */
#ifndef BB_BOOTSTRAP_WORLD_COMMS_H
#define BB_BOOTSTRAP_WORLD_COMMS_H

#include "bootstrap/world/world.h"

#include <nccl.h>
#include <stdatomic.h>

#define BB_COMM_NAME 32

/* Options of a communicator. Zero-initialised: NCCL's defaults, non-blocking. */
struct bb_comm_opts {
    bool blocking; /* calls return when enqueued, without NCCL's helper thread in the latency; such a communicator
                      cannot be aborted during a call */
    int min_ctas, max_ctas;    /* limits of CTAs (channels) per operation; 0: NCCL's choice */
    int cta_policy;            /* NCCL's policy number plus 1; 0: NCCL's choice; requires NCCL 2.27 */
    bool nvlink_centric_sched; /* requires NCCL 2.28 */
    int max_p2p_peers;    /* maximum number of concurrent point-to-point peers of a rank; 0: NCCL's choice; requires
                          NCCL 2.30 */
    int cga_cluster_size; /* size of thread block clusters; 0: NCCL's choice; -1: set 0 in NCCL's config (no
                             clusters) */
};

struct bb_comm {
    /* NULL: this rank is in no group of that name, or the communicator was released. The abort hook may take it from
     * any thread. */
    _Atomic(ncclComm_t) nccl;
    struct bb_world *world;
    int rank, size; /* in the group; size 0 if this rank is in no group */
    bool blocking;
    bool asked;              /* the main thread is in an NCCL call; the abort hook waits for its end */
    char name[BB_COMM_NAME]; /* name of the group in messages, NVTX and results, for example "dp" */
    double init_ms;          /* host time in ms of init or split on this rank */
};

/*
 * bb_comm_init - create a communicator per group; collective over the world.
 *   c        out; empty on an error, and for ranks in no group. Must not move until released.
 *   name     name of the groups; copied
 *   members  [size] world ranks in group order, this rank included; NULL: the first `size` ranks of the world
 *   size     0: this rank is in no group of this name
 *   opts     zero-initialised: NCCL's defaults
 *   Returns  0 or a negative error; also if members disagree on their group (the message names both ranks)
 * Groups of one name are disjoint. Uses the current CUDA device.
 */
int bb_comm_init(struct bb_comm *c, struct bb_world *w, const char *name, const int *members, int size,
                 const struct bb_comm_opts *opts) BB_MUST_CHECK;

/*
 * bb_comm_split - split `parent`; collective over its group. Ranks with equal color >= 0 form a new communicator,
 * ordered by key, then by parent rank. color -1: this rank does not take part, and c is empty. opts as for
 * bb_comm_init; NULL: those of the parent.
 */
int bb_comm_split(struct bb_comm *c, struct bb_comm *parent, const char *name, int color, int key,
                  const struct bb_comm_opts *opts) BB_MUST_CHECK;

/*
 * bb_comm_poll - wait until a non-blocking communicator is no longer "in progress". Required after operations and
 * ncclGroupEnd, before the next call, event record or wait for the stream. Returns at once for blocking and empty
 * communicators.
 */
int bb_comm_poll(struct bb_comm *c, const char *what) BB_MUST_CHECK;

/* bb_comm_check - check the communicator's asynchronous error once. Returns 0 (also while in progress), or -BB_EFAIL
 * after an error message. */
int bb_comm_check(struct bb_comm *c) BB_MUST_CHECK;

/* bb_comm_sendrecv - send to rank `to` and receive from rank `from` in one NCCL group. After a failure the group is
 * closed, without a second error message. */
int bb_comm_sendrecv(struct bb_comm *c, const void *send, int to, void *recv, int from, size_t count,
                     ncclDataType_t type, cudaStream_t stream) BB_MUST_CHECK;

/* bb_comm_finalize - finalize and destroy; collective over the group. c is empty afterwards, also after an error. */
int bb_comm_finalize(struct bb_comm *c) BB_MUST_CHECK;

/* bb_comm_abort - abort and destroy without the other ranks. Allowed on an empty communicator and more than once.
 * Prints nothing, cannot fail. */
void bb_comm_abort(struct bb_comm *c);

/* BB_NCCL(call) - returns 0, or -BB_EFAIL after printing the call and NCCL's error text. ncclInProgress counts as 0:
 * call bb_comm_poll afterwards. */
#define BB_NCCL(call) bb_nccl_at((call), #call, __FILE__, __LINE__)
int bb_nccl_at(ncclResult_t result, const char *call, const char *file, int line) BB_MUST_CHECK;

/* bb_nccl_version - version codes (22809 for 2.28.9) of the header at compile time and of the loaded library. Warns
 * once if the minor version of the library is older than that of the header. */
int bb_nccl_version(int *header, int *runtime) BB_MUST_CHECK;

/* bb_nccl_version_text - version as text, for example "2.28.9". Returns buf. */
#define BB_NCCL_VERSION_TEXT 16
const char *bb_nccl_version_text(int version, char buf[BB_NCCL_VERSION_TEXT]);

/*
 * bb_nccl_symbol - a function of the loaded library that the minimum version (2.19) does not have; NULL if it is
 * missing:
 *   ncclResult_t (*reg)(...) = (ncclResult_t (*)(...))bb_nccl_symbol("ncclCommWindowRegister");
 */
void *bb_nccl_symbol(const char *name);

/*
 * bb_comms_share_gpu_env - set NCCL variables so that several processes can use one GPU (for tests; timings are
 * meaningless).
 *   rank       of this process; becomes part of a distinct host id per rank before NCCL 2.30.3
 *   instances  the processes use MIG instances of one GPU. NCCL's own switch does not support them, so sockets are
 *              used.
 *   Returns    0 or -BB_EFAIL
 * Variables set by the user are kept. Call before the first NCCL call other than ncclGetVersion. From NCCL 2.30.3 on
 * NCCL's own switch is used; before, a host id per rank and sockets on the loopback interface.
 */
int bb_comms_share_gpu_env(int rank, bool instances) BB_MUST_CHECK;

#endif
