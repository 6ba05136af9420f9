/*
 * api_comm.c - exported functions for the lifetime of communicators: unique ids, init, split, shrink, finalise,
 * destroy, abort, revoke.
 */
#include "api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define ID_MAGIC "EMU NCCL id v1 "

/* Contents of an ncclUniqueId of this library. */
struct unique_id {
    char magic[16];
    uint8_t id[EN_ID_BYTES];
};
_Static_assert(sizeof(ID_MAGIC) == 16, "the magic fills its place");
_Static_assert(sizeof(struct unique_id) <= NCCL_UNIQUE_ID_BYTES, "an id must fit");

ncclResult_t en_enter(const char *function)
{
    return emu_fault(function) ? en_fail(NULL, ncclSystemError, "%s : injected fault", function) : ncclSuccess;
}

static void sweep_once(void)
{
    static pthread_once_t swept = PTHREAD_ONCE_INIT;

    pthread_once(&swept, en_sweep);
}

EN_API(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * uniqueId))
{
    struct unique_id made = {.magic = ID_MAGIC};
    const char *fixed = getenv("NCCL_COMM_ID");
    ncclResult_t rc = en_enter("ncclGetUniqueId");

    if (rc != ncclSuccess)
        return rc;
    if (uniqueId == NULL)
        return en_fail(NULL, ncclInvalidArgument, "GetUniqueId : out argument is NULL");
    sweep_once();
    if (getrandom(uniqueId, sizeof(*uniqueId), 0) != sizeof(*uniqueId) ||
        getrandom(made.id, sizeof(made.id), 0) != sizeof(made.id))
        return en_fail(NULL, ncclSystemError, "GetUniqueId : no random numbers");
    if (fixed != NULL) /* NCCL_COMM_ID: all ranks derive the same id from the address, without exchanging it */
        en_hash(made.id, fixed, strlen(fixed));
    memcpy(uniqueId, &made, sizeof(made));
    return ncclSuccess;
}

static ncclResult_t read_id(const ncclUniqueId *given, uint8_t id[EN_ID_BYTES])
{
    struct unique_id u;

    memcpy(&u, given, sizeof(u));
    if (memcmp(u.magic, ID_MAGIC, sizeof(u.magic)) != 0)
        return en_fail(NULL, ncclInvalidArgument,
                       "CommInitRank : the unique id was not made by this library's ncclGetUniqueId");
    memcpy(id, u.id, EN_ID_BYTES);
    return ncclSuccess;
}

/* Executes a job as a group of one, or adds it to the open group. On failure job->comm is released. */
ncclResult_t en_submit(const struct en_job *job)
{
    en_group_start();
    ncclResult_t rc = en_group_note(en_group_add_job(job));
    ncclResult_t end = en_group_end();
    return rc == ncclSuccess ? end : rc;
}

static ncclResult_t new_comm(ncclComm_t *out, int device, const ncclConfig_t *config)
{
    *out = en_comm_new(device, config);
    return *out == NULL ? en_fail(NULL, ncclSystemError, "out of memory for a communicator") : ncclSuccess;
}

static ncclResult_t current_device(int *device)
{
    cudaError_t cuda = cudaGetDevice(device);

    if (cuda != cudaSuccess)
        return en_fail(NULL, ncclUnhandledCudaError, "Cuda failure '%s'", cudaGetErrorString(cuda));
    return ncclSuccess;
}

static ncclResult_t check_init(const char *call, const ncclComm_t *newcomm, int nranks, int rank)
{
    if (newcomm == NULL)
        return en_fail(NULL, ncclInvalidArgument, "%s : newcomm argument is NULL", call);
    if (nranks < 1 || rank < 0 || rank >= nranks)
        return en_fail(NULL, ncclInvalidArgument, "%s : invalid rank requested : %d/%d", call, rank, nranks);
    return ncclSuccess;
}

static ncclResult_t init_rank(const char *function, ncclComm_t *newcomm, int nranks, const ncclUniqueId *id, int rank,
                              const ncclConfig_t *given)
{
    struct en_job job = {.kind = EN_INIT, .out = newcomm};
    uint8_t bytes[EN_ID_BYTES];
    ncclConfig_t config;
    int device = 0;
    ncclResult_t rc = en_enter(function);

    if (rc == ncclSuccess)
        rc = check_init(function, newcomm, nranks, rank);
    if (rc == ncclSuccess)
        rc = read_id(id, bytes);
    if (rc == ncclSuccess)
        rc = en_check_config(given, &config, NULL);
    if (rc == ncclSuccess)
        rc = current_device(&device);
    if (rc == ncclSuccess)
        rc = new_comm(newcomm, device, &config);
    if (rc != ncclSuccess)
        return en_group_note(rc);
    sweep_once();
    job.comm = *newcomm;
    job.comm->rank = rank;
    job.comm->size = nranks;
    memcpy(job.comm->id, bytes, EN_ID_BYTES);
    return en_submit(&job);
}

EN_API(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank))
{
    return init_rank("ncclCommInitRank", comm, nranks, &commId, rank, NULL);
}

EN_API(ncclResult_t, ncclCommInitRankConfig,
       (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config))
{
    return init_rank("ncclCommInitRankConfig", comm, nranks, &commId, rank, config);
}

/* In NCCL several ids distribute the load of the bootstrap; here the first one is enough. */
EN_API(ncclResult_t, ncclCommInitRankScalable,
       (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId *commIds, ncclConfig_t *config))
{
    if (commIds == NULL || nId < 1 || nId > nranks)
        return en_group_note(en_fail(NULL, ncclInvalidArgument, "CommInitRankScalable : %d unique ids for %d ranks",
                                     commIds ? nId : 0, nranks));
    return init_rank("ncclCommInitRankScalable", newcomm, nranks, commIds, myrank, config);
}

static ncclResult_t check_devices(int ndev, const int *devlist)
{
    int present = 0;

    if (cudaGetDeviceCount(&present) != cudaSuccess)
        return en_fail(NULL, ncclUnhandledCudaError, "CommInitAll : no device");
    if (ndev < 1 || (devlist == NULL && ndev > present))
        return en_fail(NULL, ncclInvalidArgument, "CommInitAll : invalid device count requested : %d of %d", ndev,
                       present);
    for (int i = 0; devlist != NULL && i < ndev; i++) {
        if (devlist[i] < 0 || devlist[i] >= present)
            return en_fail(NULL, ncclInvalidArgument, "CommInitAll : invalid device %d of %d", devlist[i], present);
        for (int j = 0; j < i; j++)
            if (devlist[j] == devlist[i])
                return en_fail(NULL, ncclInvalidUsage, "CommInitAll : device %d is twice in the list", devlist[i]);
    }
    return ncclSuccess;
}

static ncclResult_t init_all(ncclComm_t *comms, int ndev, const int *devlist, const ncclUniqueId *id)
{
    ncclResult_t rc = ncclSuccess;

    en_group_start();
    for (int i = 0; i < ndev && rc == ncclSuccess; i++) {
        if (cudaSetDevice(devlist ? devlist[i] : i) != cudaSuccess)
            rc = en_group_note(en_fail(NULL, ncclUnhandledCudaError, "CommInitAll : no device %d", i));
        else
            rc = init_rank("ncclCommInitRank", &comms[i], ndev, id, i, NULL);
    }
    ncclResult_t end = en_group_end();
    return rc == ncclSuccess ? end : rc;
}

EN_API(ncclResult_t, ncclCommInitAll, (ncclComm_t * comm, int ndev, const int *devlist))
{
    ncclUniqueId id;
    int device = 0;
    ncclResult_t rc = en_enter("ncclCommInitAll");

    if (rc == ncclSuccess && comm == NULL)
        rc = en_fail(NULL, ncclInvalidArgument, "CommInitAll : comms argument is NULL");
    if (rc == ncclSuccess)
        rc = check_devices(ndev, devlist);
    if (rc == ncclSuccess)
        rc = current_device(&device);
    if (rc == ncclSuccess)
        rc = pncclGetUniqueId(&id);
    if (rc != ncclSuccess)
        return rc;
    rc = init_all(comm, ndev, devlist, &id);
    cudaSetDevice(device);
    return rc;
}

EN_API(ncclResult_t, ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *given))
{
    struct en_job job = {.kind = EN_SPLIT, .parent = comm, .out = newcomm, .color = color, .key = key};
    ncclConfig_t config;
    ncclResult_t rc = en_enter("ncclCommSplit");

    if (rc == ncclSuccess)
        rc = en_comm_ready(comm, "CommSplit");
    if (rc == ncclSuccess && newcomm == NULL)
        rc = en_fail(NULL, ncclInvalidArgument, "CommSplit : newcomm argument is NULL");
    if (rc == ncclSuccess && color < 0 && color != NCCL_SPLIT_NOCOLOR)
        rc = en_fail(NULL, ncclInvalidArgument, "CommSplit : colour %d is neither >= 0 nor NCCL_SPLIT_NOCOLOR", color);
    if (rc == ncclSuccess)
        rc = en_check_config(given, &config, &comm->config);
    if (rc != ncclSuccess)
        return en_group_note(rc);
    *newcomm = NULL;
    if (color != NCCL_SPLIT_NOCOLOR)
        rc = new_comm(newcomm, comm->device, &config);
    if (rc != ncclSuccess)
        return en_group_note(rc);
    job.comm = *newcomm;
    job.serial = comm->splits++;
    return en_submit(&job);
}

/* The rank and size without the excluded ranks. The list may contain duplicates. */
static ncclResult_t rank_without(ncclComm_t comm, const int *excluded, int count, int *rank, int *size)
{
    bool *gone = calloc((size_t)comm->size, sizeof(*gone));
    ncclResult_t rc = gone == NULL ? en_fail(NULL, ncclSystemError, "out of memory for a communicator") : ncclSuccess;

    for (int i = 0; rc == ncclSuccess && i < count; i++) {
        if (excluded[i] < 0 || excluded[i] >= comm->size)
            rc = en_fail(NULL, ncclInvalidArgument, "CommShrink : excluded rank %d is not in 0..%d", excluded[i],
                         comm->size - 1);
        else
            gone[excluded[i]] = true;
    }
    if (rc == ncclSuccess && gone[comm->rank])
        rc = en_fail(NULL, ncclInvalidArgument, "CommShrink : called by rank %d, which is excluded", comm->rank);
    *rank = *size = 0;
    for (int r = 0; rc == ncclSuccess && r < comm->size; r++) {
        *size += !gone[r];
        *rank += !gone[r] && r < comm->rank;
    }
    free(gone);
    return rc;
}

static ncclResult_t check_shrink(ncclComm_t comm, const int *excluded, int count, const ncclComm_t *newcomm, int flags)
{
    ncclResult_t rc =
        flags == NCCL_SHRINK_ABORT ? en_comm_check(comm, "CommShrink") : en_comm_ready(comm, "CommShrink");

    if (rc == ncclSuccess && (newcomm == NULL || excluded == NULL || count < 1))
        rc = en_fail(NULL, ncclInvalidArgument, "CommShrink : newcomm or list of excluded ranks is missing");
    if (rc == ncclSuccess && flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT)
        rc = en_fail(NULL, ncclInvalidArgument, "CommShrink : invalid flags %d", flags);
    return rc;
}

EN_API(ncclResult_t, ncclCommShrink,
       (ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm, ncclConfig_t *given,
        int shrinkFlags))
{
    struct en_job job = {.kind = EN_SHRINK, .parent = comm, .out = newcomm};
    ncclConfig_t config;
    int rank = 0, size = 0;
    ncclResult_t rc = en_enter("ncclCommShrink");

    if (rc == ncclSuccess)
        rc = check_shrink(comm, excludeRanksList, excludeRanksCount, newcomm, shrinkFlags);
    if (rc == ncclSuccess)
        rc = rank_without(comm, excludeRanksList, excludeRanksCount, &rank, &size);
    if (rc == ncclSuccess)
        rc = en_check_config(given, &config, &comm->config);
    if (rc == ncclSuccess)
        rc = new_comm(newcomm, comm->device, &config);
    if (rc != ncclSuccess)
        return en_group_note(rc);
    if (shrinkFlags == NCCL_SHRINK_ABORT) {
        en_comm_stop(comm);
        en_comm_wait_running(comm);
    }
    job.comm = *newcomm;
    job.comm->rank = rank;
    job.comm->size = size;
    job.serial = comm->shrinks++;
    return en_submit(&job);
}

EN_API(ncclResult_t, ncclCommFinalize, (ncclComm_t comm))
{
    struct en_job job = {.kind = EN_FINALIZE, .comm = comm};
    ncclResult_t rc = en_enter("ncclCommFinalize");

    if (rc == ncclSuccess)
        rc = en_comm_ready(comm, "CommFinalize");
    if (rc == ncclSuccess && comm->revoked)
        rc = en_fail(NULL, ncclInvalidUsage, "CommFinalize : the communicator was revoked");
    if (rc != ncclSuccess)
        return en_group_note(rc);
    comm->finalized = true;
    return en_submit(&job);
}

EN_API(ncclResult_t, ncclCommDestroy, (ncclComm_t comm))
{
    ncclResult_t rc = en_enter("ncclCommDestroy");

    if (rc != ncclSuccess || comm == NULL)
        return rc;
    rc = en_comm_check(comm, "CommDestroy");
    if (rc != ncclSuccess)
        return rc;
    en_comm_wait_jobs(comm);
    en_order_drain(comm);
    en_comm_retire(comm);
    return ncclSuccess;
}

EN_API(ncclResult_t, ncclCommAbort, (ncclComm_t comm))
{
    ncclResult_t rc = en_enter("ncclCommAbort");

    if (rc != ncclSuccess || comm == NULL)
        return rc;
    rc = en_comm_check(comm, "CommAbort");
    if (rc != ncclSuccess)
        return rc;
    en_comm_abort(comm);
    en_comm_wait_jobs(comm);
    en_comm_wait_running(comm);
    en_comm_retire(comm);
    return ncclSuccess;
}

EN_API(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int revokeFlags))
{
    ncclResult_t rc = en_enter("ncclCommRevoke");

    if (rc == ncclSuccess)
        rc = en_comm_ready(comm, "CommRevoke");
    if (rc == ncclSuccess && revokeFlags != 0)
        rc = en_fail(NULL, ncclInvalidArgument, "CommRevoke : invalid flags %d", revokeFlags);
    if (rc != ncclSuccess)
        return rc;
    comm->revoked = true;
    en_comm_stop(comm);
    en_comm_wait_running(comm);
    return ncclSuccess;
}
