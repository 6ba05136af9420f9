/*
 * comms.h - NCCL communicators for the ranks of the run: exchange of the unique id, polling with a timeout, finalize
 * and abort, and support for several ranks on one GPU. A rank has a separate communicator for each group and purpose
 * (for example "dp"), and uses it from one host thread only.
 */
#ifndef BB_BOOTSTRAP_WORLD_COMMS_H
#define BB_BOOTSTRAP_WORLD_COMMS_H

#include "bootstrap/world/world.h"

#include <nccl.h>

#define BB_COMM_NAME 32

/* Options of a communicator. Zero-initialized: a non-blocking communicator with NCCL's defaults. */
struct bb_comm_opts {
    bool blocking; /* true: NCCL calls return only when their operation is enqueued, so measured latencies do not
                      include the time of NCCL's helper thread; the communicator cannot be aborted while a call runs */
    int min_ctas, max_ctas; /* minimum and maximum number of CTAs per operation; 0: NCCL's choice */
    int cta_policy;         /* CTA policy: value of NCCL_CTA_POLICY_... plus 1; 0: NCCL's choice; requires NCCL 2.27 */
    bool nvlink_centric_sched; /* sets nvlinkCentricSched; requires NCCL 2.28 */
    int max_p2p_peers;    /* maximum number of concurrent point-to-point peers of a rank; 0: NCCL's choice; requires
                          NCCL 2.30 */
    int cga_cluster_size; /* size of the thread block clusters; 0: NCCL's choice; -1: no clusters (0 in NCCL's
                             config) */
};

struct bb_comm {
    ncclComm_t nccl; /* NULL: this rank is in no group (set of ranks that share a communicator) of this name, or the
                        communicator was released */
    struct bb_world *world;
    int rank, size; /* rank in the group and number of ranks in the group; size is 0 if this rank is in no group */
    bool blocking;  /* NCCL calls return only when their operation is enqueued (bb_comm_opts) */
    char name[BB_COMM_NAME]; /* name of the group in messages, NVTX ranges and results, for example "dp" */
};

/*
 * bb_comm_init - create a communicator per group (set of ranks that share a communicator). Collective over all ranks of
 * the run.
 *   c        out; empty (c->nccl is NULL) after an error and on ranks in no group. Must not move in memory until it is
 *            released.
 *   name     common name of the groups, for example "dp"; copied
 *   members  [size] ranks of this rank's group in group order, this rank included; NULL: the first `size` ranks of the
 *            run
 *   size     number of ranks in this rank's group; 0: this rank is in no group of this name
 *   opts     options; zero-initialized: NCCL's defaults
 *   Returns  0 or a negative error. If the ranks of a group pass different members, the message names two of these
 *            ranks.
 * The groups of one call are disjoint. Uses the current CUDA device.
 */
int bb_comm_init(struct bb_comm *c, struct bb_world *w, const char *name, const int *members, int size,
                 const struct bb_comm_opts *opts) BB_MUST_CHECK;

/*
 * bb_comm_split - split `parent` (ncclCommSplit). Collective over the group of `parent`.
 *   c      out; empty (c->nccl is NULL) after an error and for color -1. Must not move in memory until it is released.
 *   color  ranks with equal color >= 0 form a new communicator; -1: this rank joins none
 *   key    order of the ranks in the new communicator; ranks with equal keys keep the order of the parent
 *   opts   options; NULL: NCCL's defaults, blocking like the parent
 */
int bb_comm_split(struct bb_comm *c, struct bb_comm *parent, const char *name, int color, int key,
                  const struct bb_comm_opts *opts) BB_MUST_CHECK;

/*
 * bb_comm_poll - wait until the state of a non-blocking communicator is no longer ncclInProgress. Call it after each
 * operation and each ncclGroupEnd, before the next NCCL call, event record or wait for the stream. Returns at once for
 * a blocking communicator and if c->nccl is NULL.
 *   what     name of the operation in messages
 *   Returns  0 or a negative error
 */
int bb_comm_poll(struct bb_comm *c, const char *what) BB_MUST_CHECK;

/* bb_comm_check - query the communicator's asynchronous error once. Returns 0 (also while an operation is in
 * progress), or -BB_EFAIL after printing one error line. */
int bb_comm_check(struct bb_comm *c) BB_MUST_CHECK;

/* bb_comm_sendrecv - send to rank `to` and receive from rank `from` in one NCCL group. After a failure inside the
 * group, the function still calls ncclGroupEnd but prints only the first error. */
int bb_comm_sendrecv(struct bb_comm *c, const void *send, int to, void *recv, int from, size_t count,
                     ncclDataType_t type, cudaStream_t stream) BB_MUST_CHECK;

/* bb_comm_finalize - finalize and destroy the communicator. Collective over its group. c->nccl is NULL afterwards,
 * also after an error. */
int bb_comm_finalize(struct bb_comm *c) BB_MUST_CHECK;

/* bb_comm_abort - abort and destroy the communicator; the other ranks need not call it. c->nccl may be NULL. Prints
 * nothing, cannot fail. */
void bb_comm_abort(struct bb_comm *c);

/* BB_NCCL(call) - evaluate an NCCL call. Returns 0, or -BB_EFAIL after printing the function's name and NCCL's error text.
 * ncclInProgress counts as success: call bb_comm_poll afterwards. */
#define BB_NCCL(call) bb_nccl_at((call), #call, __FILE__, __LINE__)
int bb_nccl_at(ncclResult_t result, const char *call, const char *file, int line) BB_MUST_CHECK;

/* bb_nccl_version - store the version codes (22809 for 2.28.9) of the NCCL header at compile time and of the loaded
 * library. Warns if the library is older than the header (major or minor version). Returns 0 or -BB_EFAIL. */
int bb_nccl_version(int *header, int *runtime) BB_MUST_CHECK;

/* bb_nccl_version_text - write a version code as text, for example "2.28.9". Returns buf. */
#define BB_NCCL_VERSION_TEXT 16
const char *bb_nccl_version_text(int version, char buf[BB_NCCL_VERSION_TEXT]);

/*
 * bb_nccl_symbol - look up a function of the loaded NCCL library by name. Used for functions that the minimum NCCL
 * version (2.19) does not have. Returns NULL if the library does not have the function. Example:
 *   ncclResult_t (*reg)(...) = (ncclResult_t (*)(...))bb_nccl_symbol("ncclCommWindowRegister");
 */
void *bb_nccl_symbol(const char *name);

/*
 * bb_comms_share_gpu_env - set NCCL's environment variables so that several ranks can use one GPU. Only for tests,
 * because the timings are meaningless.
 *   rank       rank of this process; makes the host id of this process unique (see below)
 *   instances  true: the ranks use MIG instances of one GPU
 *   Returns    0 or -BB_EFAIL
 * From NCCL 2.30.3 on, sets NCCL_MULTI_RANK_GPU_ENABLE, which does not support MIG instances before NCCL 2.31. For an
 * older NCCL and for MIG instances, sets a different host id for each rank and sockets on the loopback interface
 * instead. Variables that the user has set are not changed. Call before the first NCCL call other than ncclGetVersion.
 */
int bb_comms_share_gpu_env(int rank, bool instances) BB_MUST_CHECK;

/*
 * bb_comms_max_p2p_peers_env - set the maximum number of concurrent point-to-point peers by the environment variable
 * NCCL_P2P_MAX_PEERS, if busbar was built with an NCCL header before 2.30: its ncclConfig_t has no field maxP2pPeers.
 *   peers    maximum; 0: NCCL's choice
 *   Returns  0 or -BB_EFAIL
 * Call while the process has only one thread, because the function changes the environment.
 */
int bb_comms_max_p2p_peers_env(int peers) BB_MUST_CHECK;

#endif
