/*
 * comms.h - NCCL communicators made from the MPI world: unique-id exchange, polling under the deadline, orderly end and
 * abort, and what several ranks on one GPU need. One communicator per (group, purpose), used from one host thread.
 */
#ifndef BB_BOOTSTRAP_WORLD_COMMS_H
#define BB_BOOTSTRAP_WORLD_COMMS_H

#include "bootstrap/world/world.h"

#include <nccl.h>
#include <stdatomic.h>

#define BB_COMM_NAME 32

/* 0 everywhere: NCCL's own choice, non-blocking. */
struct bb_comm_opts {
    bool blocking; /* calls return when enqueued: no helper thread in the latency; cannot be aborted while inside */
    int min_ctas, max_ctas;    /* CTAs (channels) per operation, 0: NCCL's choice                       */
    int cta_policy;            /* NCCL's number of the policy plus 1, 0: NCCL's choice; from NCCL 2.27 on           */
    bool nvlink_centric_sched; /* from NCCL 2.28 on                                                   */
    int max_p2p_peers;         /* peers that one rank exchanges with at a time, 0: NCCL's choice; from 2.30 on       */
    int cga_cluster_size;      /* -1: NCCL's choice is overridden with 0 (no clusters); 0: NCCL's choice */
};

struct bb_comm {
    /* NULL: this rank is not in a group of that name, or released. The hook of an early end takes it from any thread. */
    _Atomic(ncclComm_t) nccl;
    struct bb_world *world;
    int rank, size; /* in the group; size 0 when this rank is in none                                  */
    bool blocking;
    bool asked;              /* by the main thread, just now: the hook that aborts at an early end waits for it */
    char name[BB_COMM_NAME]; /* "dp": the name of the group in messages, NVTX and results              */
    double init_ms;          /* host time of init or split on this rank                                */
};

/*
 * bb_comm_init - collective over the WORLD: every rank calls with its own group of that name (members: world ranks in
 * group order, this rank among them; NULL: the first `size` of the world), or with size 0. Groups of one name are
 * disjoint; members that do not agree on the group are refused with both ranks named. The current CUDA device is the
 * one that it is for. name is copied. On an error c is empty and needs no release. c must stay where it is until it is
 * released.
 */
int bb_comm_init(struct bb_comm *c, struct bb_world *w, const char *name, const int *members, int size,
                 const struct bb_comm_opts *opts) BB_MUST_CHECK;

/*
 * bb_comm_split - collective over the group of `parent`: ranks of equal color >= 0 form a new communicator, ordered by
 * key, then by parent rank; color -1 takes no part (c is then empty). opts as at init, NULL: the parent's.
 */
int bb_comm_split(struct bb_comm *c, struct bb_comm *parent, const char *name, int color, int key,
                  const struct bb_comm_opts *opts) BB_MUST_CHECK;

/*
 * bb_comm_poll - after a call that may have left a non-blocking communicator "in progress" (operations, ncclGroupEnd):
 * wait until it is not. Needed before any wait for the stream, event record or next call. Returns at once when blocking
 * or empty.
 */
int bb_comm_poll(struct bb_comm *c, const char *what) BB_MUST_CHECK;

/* bb_comm_check - one look at the communicator's asynchronous error: 0 (also while in progress) or -BB_EFAIL, printed.
 */
int bb_comm_check(struct bb_comm *c) BB_MUST_CHECK;

/* bb_comm_sendrecv - a send to rank `to` and a receive from rank `from`, as one group. After a failure the group is
 * closed without another word. */
int bb_comm_sendrecv(struct bb_comm *c, const void *send, int to, void *recv, int from, size_t count,
                     ncclDataType_t type, cudaStream_t stream) BB_MUST_CHECK;

/* bb_comm_finalize - the orderly end, collective over the group. c is empty afterwards, also after an error. */
int bb_comm_finalize(struct bb_comm *c) BB_MUST_CHECK;

/* bb_comm_abort - the end without the others. Fine on an empty one, and a second time. Prints nothing, cannot fail. */
void bb_comm_abort(struct bb_comm *c);

/* BB_NCCL(call) - 0, or -BB_EFAIL after printing the call and NCCL's words. ncclInProgress is 0: poll afterwards. */
#define BB_NCCL(call) bb_nccl_at((call), #call, __FILE__, __LINE__)
int bb_nccl_at(ncclResult_t result, const char *call, const char *file, int line) BB_MUST_CHECK;

/* bb_nccl_version - version codes (22809 for 2.28.9) of the header that busbar was built with and of the library that
 * runs; warns once when the library is older than the header's minor version. */
int bb_nccl_version(int *header, int *runtime) BB_MUST_CHECK;

/* bb_nccl_version_text - "2.28.9". Returns buf. */
#define BB_NCCL_VERSION_TEXT 16
const char *bb_nccl_version_text(int version, char buf[BB_NCCL_VERSION_TEXT]);

/*
 * bb_nccl_symbol - a function of the running library that the minimum (2.19) does not have, or NULL:
 *   ncclResult_t (*reg)(...) = (ncclResult_t (*)(...))bb_nccl_symbol("ncclCommWindowRegister");
 */
void *bb_nccl_symbol(const char *name);

/*
 * bb_comms_share_gpu_env - let several processes use one GPU (for tests: timings mean nothing then). Sets variables
 * that the user has not set; must come before the process's first NCCL call other than the version. From NCCL 2.30.3
 * its own switch, before that a host id per rank and sockets on loopback.
 * instances: they are parts of one GPU (MIG), between which the switch, made for one memory, has no way: sockets always.
 */
int bb_comms_share_gpu_env(int rank, bool instances) BB_MUST_CHECK;

#endif
