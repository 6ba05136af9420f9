/*
 * comms.c - NCCL communicators of the ranks. Calls on non-blocking communicators are polled with the run's timeout.
 * Calls on blocking communicators cannot be polled, so the supervisor checks their timeout, and ends the job if a call
 * exceeds it.
 */
#include "bootstrap/world/comms.h"

#include "bootstrap/base/clock.h"
#include "bootstrap/base/environment.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- NCCL errors and versions ---- */

enum { NCCL_ERROR_TEXT = 1024 };

/*
 * Returns NCCL's last error. After an ncclSystemError that names shared memory (shmutils.cc), or with too little free memory,
 * the text also has the space in /dev/shm: proxy.cc reserves 34.2 MB there for each rank and communicator that uses a
 * network, and a container has 64 MiB by default. When this rank prints its error, other ranks may have freed theirs.
 */
static const char *last_error(ncclResult_t result, char buf[NCCL_ERROR_TEXT])
{
    enum { POOL_MIB = 35 };
    const char *detail = ncclGetLastError(NULL);
    struct statvfs shm;
    unsigned long long free_mib, mib;

    if (result != ncclSystemError || statvfs("/dev/shm", &shm) != 0)
        return detail;
    free_mib = (unsigned long long)shm.f_bavail * shm.f_frsize >> 20;
    mib = (unsigned long long)shm.f_blocks * shm.f_frsize >> 20;
    if (free_mib >= POOL_MIB && !(detail && strstr(detail, "shared memory segment")))
        return detail;
    snprintf(buf, NCCL_ERROR_TEXT,
             "%s; now %llu of %llu MiB of /dev/shm are free, NCCL takes %d MiB for each rank and communicator over a "
             "network; try: docker run --shm-size=8g, or mount -o remount,size=8g /dev/shm",
             detail, free_mib, mib, POOL_MIB);
    return buf;
}

int bb_nccl_at(ncclResult_t result, const char *call, const char *file, int line)
{
    char buf[NCCL_ERROR_TEXT];

    if (result == ncclSuccess || result == ncclInProgress)
        return 0;
    return bb_err_call(call, ncclGetErrorString(result), last_error(result, buf), file, line);
}

int bb_nccl_version(int *header, int *runtime)
{
    int rc;

    *header = NCCL_VERSION_CODE;
    TRY(BB_NCCL(ncclGetVersion(runtime)));
    if (*runtime / 100 < *header / 100) {
        char built[BB_NCCL_VERSION_TEXT], runs[BB_NCCL_VERSION_TEXT];

        bb_warn("built with NCCL %s, but the loaded library is %s: newer features are not used",
                bb_nccl_version_text(*header, built), bb_nccl_version_text(*runtime, runs));
    }
out:
    return rc;
}

const char *bb_nccl_version_text(int version, char buf[BB_NCCL_VERSION_TEXT])
{
    snprintf(buf, BB_NCCL_VERSION_TEXT, "%d.%d.%d", version / 10000 % 1000, version / 100 % 100, version % 100);
    return buf;
}

void *bb_nccl_symbol(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

/* ---- several ranks on one GPU ---- */

/* Sets an environment variable, unless the user has set it. value NULL: does nothing. */
static int set_variable(const char *name, const char *value)
{
    return value && setenv(name, value, 0) ? bb_err(BB_EFAIL, "setenv: %s", strerror(errno)) : 0;
}

/*
 * Values of NCCL's environment variables for several ranks on one GPU; NULL: the variable is not set.
 * own_switch: value for NCCL 2.30.3 and later, which supports several ranks per GPU after NCCL_MULTI_RANK_GPU_ENABLE=1.
 * NVLS is not supported then, and few CTAs are used, because the kernels of all ranks must run on the GPU at the same
 * time.
 * sockets: value for older versions, which reject two ranks on the same GPU of one host. Each rank therefore gets a
 * different host id (NCCL_HOSTID), so that NCCL uses only sockets between the ranks. Few channels and threads are used,
 * because the ranks also share the host's cores.
 */
static const struct {
    const char *name, *own_switch, *sockets;
} sharing[] = {
    {"NCCL_MULTI_RANK_GPU_ENABLE", "1", NULL}, /* NCCL calls this variable experimental */
    {"NCCL_MAX_CTAS", "2", NULL},
    {"NCCL_NVLS_ENABLE", "0", "0"},
    {"NCCL_RAS_ENABLE", "0", "0"},
    {"NCCL_NET", NULL, "Socket"},
    {"NCCL_NET_PLUGIN", NULL, "none"},
    {"NCCL_IB_DISABLE", NULL, "1"},
    {"NCCL_SOCKET_IFNAME", NULL, "lo"},
    {"NCCL_P2P_DISABLE", NULL, "1"},
    {"NCCL_SHM_DISABLE", NULL, "1"},
    {"NCCL_MNNVL_ENABLE", NULL, "0"},
    {"NCCL_COLLNET_ENABLE", NULL, "0"},
    {"NCCL_CUMEM_ENABLE", NULL, "0"},
    {"NCCL_CUMEM_HOST_ENABLE", NULL, "0"},
    {"NCCL_MAX_NCHANNELS", NULL, "2"},
    {"NCCL_MAX_P2P_NCHANNELS", NULL, "2"},
    {"NCCL_PROTO", NULL, "Simple"},
    {"NCCL_BUFFSIZE", NULL, "1048576"},
    {"NCCL_SOCKET_NTHREADS", NULL, "1"},
    {"NCCL_NSOCKS_PERTHREAD", NULL, "1"},
};

int bb_comms_share_gpu_env(int rank, bool instances)
{
    enum { OWN_SWITCH_SINCE = 23003 };
    char host_id[32];
    int runtime, rc;
    bool own_switch;

    TRY(BB_NCCL(ncclGetVersion(&runtime)));
    own_switch = runtime >= OWN_SWITCH_SINCE && !instances;
    snprintf(host_id, sizeof(host_id), BB_OWN_HOST_ID "%d-%d", rank,
             (int)getpid()); /* includes the process id, because the
                                                                                rank may still be unknown (0) */
    TRY(set_variable("NCCL_HOSTID", own_switch ? NULL : host_id));
    for (size_t i = 0; i < sizeof(sharing) / sizeof(*sharing); i++)
        TRY(set_variable(sharing[i].name, own_switch ? sharing[i].own_switch : sharing[i].sockets));
out:
    return rc;
}

int bb_comms_max_p2p_peers_env(int peers)
{
#ifndef BB_NCCL_HAS_MAX_P2P_PEERS
    char text[16];

    snprintf(text, sizeof(text), "%d", peers);
    if (peers > 0)
        return set_variable("NCCL_P2P_MAX_PEERS", text);
#endif
    (void)peers;
    return 0;
}

/* ---- polling the communicator's state ---- */

/* Returns 1 if the communicator has no operation in progress, 0 if an operation is in progress, < 0 after an error. A
 * function for bb_world_wait. */
static int is_settled(void *comm)
{
    const struct bb_comm *c = comm;
    ncclResult_t state = ncclSuccess;
    char buf[NCCL_ERROR_TEXT];
    int rc;

    if (!c->nccl)
        return 1;
    TRY(BB_NCCL(ncclCommGetAsyncError(c->nccl, &state)));
    if (state != ncclSuccess && state != ncclInProgress)
        return bb_err(BB_EFAIL, "communicator %s: %s: %s", c->name, ncclGetErrorString(state), last_error(state, buf));
    return state == ncclSuccess;
out:
    return rc;
}

int bb_comm_poll(struct bb_comm *c, const char *what)
{
    char wait[160];
    int rc;

    if (!c->nccl || c->blocking)
        return 0;
    rc = is_settled(c); /* usually the operation is already complete; then the text that names the wait in messages
                           is not needed */
    if (rc)
        return rc < 0 ? rc : 0;
    snprintf(wait, sizeof(wait), "%s (communicator %s, %d ranks)", what, c->name, c->size);
    return bb_world_wait(c->world, wait, is_settled, c);
}

int bb_comm_check(struct bb_comm *c)
{
    int rc = is_settled(c);

    return rc < 0 ? rc : 0;
}

/* Makes an NCCL call on communicator c. If c is blocking, the supervisor checks the timeout of the call. */
#define GUARDED(c, what, call) ((c)->blocking ? BB_GUARDED((c)->world, what, call) : (call))

/* ---- creating and splitting communicators ---- */

/* The group (ranks that form one communicator) that a rank passed to bb_comm_init. The members of a group compare their
 * claims before the communicator is created. */
struct claim {
    int size;         /* number of ranks in the group; 0: this rank is in no group */
    int leader;       /* rank, in the run, of the first member of the group, which creates the unique id */
    uint64_t members; /* hash of the member list */
    ncclUniqueId id;  /* unique id of the communicator; set by the leader only */
};

/* Returns the rank, in the run, of member i of a group. members NULL: the group consists of the first ranks of the
 * run. */
static int member_at(const int *members, int i)
{
    return members ? members[i] : i;
}

static uint64_t hash_of(const int *members, int size)
{
    uint64_t hash = 14695981039346656037u;

    for (int i = 0; i < size; i++)
        hash = (hash ^ (uint32_t)member_at(members, i)) * 1099511628211u;
    return hash;
}

/* Checks that the members of this rank's group are valid and finds this rank among them. place: out, index of this
 * rank in the group. */
static int find_self(const struct bb_comm *c, const int *members, int *place)
{
    int found = 0;

    for (int i = 0; i < c->size; i++) {
        int rank = member_at(members, i);

        if (rank < 0 || rank >= c->world->size)
            return bb_err(BB_EFAIL, "communicator %s: invalid rank %d, the run has %d ranks", c->name, rank,
                          c->world->size);
        if (rank == c->world->rank) {
            *place = i;
            found++;
        }
    }
    if (c->size > 0 && found != 1)
        return bb_err(BB_EFAIL, "communicator %s: this rank occurs %d times in its own group, not once", c->name,
                      found);
    return 0;
}

static int make_claim(struct bb_comm *c, const int *members, struct claim *mine)
{
    int rc;

    memset(mine, 0, sizeof(*mine));
    TRY(find_self(c, members, &c->rank));
    if (c->size == 0)
        return 0;
    mine->size = c->size;
    mine->leader = member_at(members, 0);
    mine->members = hash_of(members, c->size);
    rc = c->rank == 0 ? BB_NCCL(ncclGetUniqueId(&mine->id)) : 0;
out:
    return rc;
}

static int compare_claims(const struct bb_comm *c, const int *members, const struct claim *mine,
                          const struct claim *all)
{
    for (int i = 0; i < c->size; i++) {
        const struct claim *other = &all[member_at(members, i)];

        if (other->size != mine->size || other->leader != mine->leader || other->members != mine->members)
            return bb_err(BB_EFAIL,
                          "communicator %s: ranks disagree about the group: on rank %d it has %d members and begins "
                          "with rank %d, on rank %d it has %d members and begins with rank %d",
                          c->name, c->world->rank, mine->size, mine->leader, member_at(members, i), other->size,
                          other->leader);
    }
    return 0;
}

/* Exchanges the claims of all ranks and compares those of this rank's group. members: as in bb_comm_init. id: out,
 * unique id of the communicator of this rank's group. Returns an error on all ranks if any rank has an error. */
static int exchange_claims(struct bb_comm *c, const int *members, ncclUniqueId *id)
{
    struct claim mine, *all;
    int own = make_claim(c, members, &mine), rc;

    all = bb_world_gather(c->world, &mine, sizeof(mine), &rc);
    TRY(rc);
    own = own ? own : compare_claims(c, members, &mine, all);
    TRY(bb_world_agree(c->world, own, "agreement on a communicator"));
    if (c->size > 0)
        *id = all[mine.leader].id;
out:
    free(all);
    return rc;
}

/* Sets the members of a communicator that its options determine, and returns its configuration. c: must not move in
 * memory until the communicator is created, because the configuration points to the name. */
static ncclConfig_t configure(struct bb_comm *c, struct bb_world *w, const char *name, const struct bb_comm_opts *opts)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    *c = (struct bb_comm){.world = w, .blocking = opts->blocking};
    snprintf(c->name, sizeof(c->name), "%s", name);
    config.blocking = opts->blocking;
    if (opts->min_ctas > 0)
        config.minCTAs = opts->min_ctas;
    if (opts->max_ctas > 0)
        config.maxCTAs = opts->max_ctas;
    if (opts->cga_cluster_size != 0)
        config.cgaClusterSize = opts->cga_cluster_size < 0 ? 0 : opts->cga_cluster_size;
#if NCCL_VERSION_CODE >= 22700
    if (opts->cta_policy > 0)
        config.CTAPolicy = opts->cta_policy - 1;
#endif
#ifdef BB_NCCL_HAS_NVLINK_CENTRIC_SCHED
    if (opts->nvlink_centric_sched)
        config.nvlinkCentricSched = 1;
#endif
#ifdef BB_NCCL_HAS_MAX_P2P_PEERS
    if (opts->max_p2p_peers > 0)
        config.maxP2pPeers = opts->max_p2p_peers;
#endif
#ifdef BB_NCCL_HAS_COMM_NAME
    config.commName = c->name; /* a library older than the header does not read this field */
#endif
    return config;
}

int bb_comm_init(struct bb_comm *c, struct bb_world *w, const char *name, const int *members, int size,
                 const struct bb_comm_opts *opts)
{
    ncclConfig_t config = configure(c, w, name, opts);
    ncclUniqueId id;
    int rc;

    c->size = size;
    bb_world_reached(w, "the unique id of communicator %s", name);
    TRY(exchange_claims(c, members, &id));
    bb_world_reached(w, "creating communicator %s", name);
    if (size == 0)
        return 0;
    TRY(GUARDED(c, "init of a communicator", BB_NCCL(ncclCommInitRankConfig(&c->nccl, size, id, c->rank, &config))));
    TRY(bb_comm_poll(c, "init"));
    return 0;
out:
    bb_comm_abort(c);
    return rc;
}

int bb_comm_split(struct bb_comm *c, struct bb_comm *parent, const char *name, int color, int key,
                  const struct bb_comm_opts *opts)
{
    const struct bb_comm_opts as_parent = {.blocking = parent->blocking};
    ncclConfig_t config = configure(c, parent->world, name, opts ? opts : &as_parent);
    int rc;

    TRY(GUARDED(parent, "split of a communicator",
                BB_NCCL(ncclCommSplit(parent->nccl, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &c->nccl, &config))));
    TRY(bb_comm_poll(parent, "split"));
    TRY(bb_comm_poll(c, "init after split"));
    if (c->nccl) {
        TRY(BB_NCCL(ncclCommUserRank(c->nccl, &c->rank)));
        TRY(BB_NCCL(ncclCommCount(c->nccl, &c->size)));
    }
    return 0;
out:
    bb_comm_abort(c);
    return rc;
}

/* ---- point-to-point operations ---- */

int bb_comm_sendrecv(struct bb_comm *c, const void *send, int to, void *recv, int from, size_t count,
                     ncclDataType_t type, cudaStream_t stream)
{
    int rc;

    TRY(BB_NCCL(ncclGroupStart()));
    rc = BB_NCCL(ncclSend(send, count, type, to, c->nccl, stream));
    if (rc == 0)
        rc = BB_NCCL(ncclRecv(recv, count, type, from, c->nccl, stream));
    if (rc == 0)
        rc = BB_NCCL(ncclGroupEnd());
    else
        (void)ncclGroupEnd();
out:
    return rc;
}

/* ---- finalize and abort ---- */

static int finalize_and_destroy(struct bb_comm *c)
{
    ncclComm_t nccl = c->nccl;
    int rc;

    TRY(BB_NCCL(ncclCommFinalize(nccl)));
    TRY(bb_comm_poll(c, "finalize"));
    c->nccl = NULL;
    rc = BB_NCCL(ncclCommDestroy(nccl));
out:
    return rc;
}

int bb_comm_finalize(struct bb_comm *c)
{
    int rc;

    if (!c->nccl)
        return 0;
    rc = GUARDED(c, "finalize of a communicator", finalize_and_destroy(c));
    bb_comm_abort(c);
    return rc;
}

void bb_comm_abort(struct bb_comm *c)
{
    const ncclComm_t nccl = c->nccl;

    c->nccl = NULL;
    c->size = 0;
    if (nccl)
        ncclCommAbort(nccl);
}
