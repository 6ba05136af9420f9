/*
 * api_query.c - the other exported functions: versions, errors, queries, groups, memory, registration, and teams.
 */
#include "api.h"
#include "hazards.h"
#include "windows.h"

#include <stdlib.h>
#include <string.h>

EN_API(ncclResult_t, ncclGetVersion, (int *version))
{
    if (version == NULL)
        return en_fail(NULL, ncclInvalidArgument, "GetVersion : version argument is NULL");
    *version = en_window_minor() == 0 || en_window_minor() == NCCL_MINOR ? NCCL_VERSION_CODE
               : en_window_minor() == 32                                 ? 23203
                                                                         : 20009 + 100 * en_window_minor();
    return ncclSuccess;
}

EN_API(const char *, ncclGetErrorString, (ncclResult_t result))
{
    static const char *const texts[] = {
        [ncclSuccess] = "no error",
        [ncclUnhandledCudaError] = "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        [ncclSystemError] = "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        [ncclInternalError] = "internal error",
        [ncclInvalidArgument] = "invalid argument (run with NCCL_DEBUG=WARN for details)",
        [ncclInvalidUsage] = "invalid usage (run with NCCL_DEBUG=WARN for details)",
        [ncclRemoteError] = "remote process exited or there was a network error",
        [ncclInProgress] = "NCCL operation in progress",
#if NCCL_VERSION_CODE >= 23000
        [ncclTimeout] = "timeout",
#endif
    };

    return (unsigned)result < sizeof(texts) / sizeof(texts[0]) ? texts[result] : "unknown result code";
}

EN_API(const char *, ncclGetLastError, (ncclComm_t comm))
{
    return en_last_error(comm);
}

/* Newer headers define the name as an empty macro; programs built with older headers call the function. */
#undef ncclResetDebugInit
#undef pncclResetDebugInit
void ncclResetDebugInit(void);
void pncclResetDebugInit(void);
EN_API(void, ncclResetDebugInit, (void))
{
}

/* Callers poll this function in a loop: while a helper thread works, a short sleep leaves it the CPU. */
EN_API(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *asyncError))
{
    ncclResult_t rc = en_comm_check(comm, "CommGetAsyncError");

    if (rc != ncclSuccess)
        return rc;
    if (asyncError == NULL)
        return en_fail(NULL, ncclInvalidArgument, "CommGetAsyncError : asyncError argument is NULL");
    en_comm_nap(comm);
    *asyncError = en_comm_async(comm);
    return ncclSuccess;
}

static ncclResult_t query(const char *function, ncclComm_t comm, const int *value, int *out)
{
    ncclResult_t rc = en_enter(function);

    if (rc == ncclSuccess)
        rc = en_comm_check(comm, function);
    if (rc == ncclSuccess && en_comm_async(comm) == ncclInProgress)
        rc = en_comm_ready(comm, function);
    if (rc != ncclSuccess)
        return rc;
    if (out == NULL)
        return en_fail(NULL, ncclInvalidArgument, "%s : out argument is NULL", function);
    *out = *value;
    return ncclSuccess;
}

EN_API(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int *count))
{
    return query("ncclCommCount", comm, comm ? &comm->size : NULL, count);
}

EN_API(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int *device))
{
    return query("ncclCommCuDevice", comm, comm ? &comm->device : NULL, device);
}

EN_API(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int *rank))
{
    return query("ncclCommUserRank", comm, comm ? &comm->rank : NULL, rank);
}

EN_API(ncclResult_t, ncclGroupStart, (void))
{
    ncclResult_t rc = en_enter("ncclGroupStart");

    return rc == ncclSuccess ? en_group_start() : rc;
}

EN_API(ncclResult_t, ncclGroupEnd, (void))
{
    en_group_note(en_enter("ncclGroupEnd"));
    return en_group_end();
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 22, 0)
EN_API(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * simInfo))
{
    static const ncclSimInfo_t initial = NCCL_SIM_INFO_INITIALIZER;
    ncclResult_t rc = en_enter("ncclGroupSimulateEnd");
    float estimated_us = -1.0f;

    if (rc == ncclSuccess && simInfo != NULL && simInfo->magic != initial.magic)
        rc = en_fail(NULL, ncclInvalidArgument, "ncclSimInfo_t argument not initialized via NCCL_SIM_INFO_INITIALIZER");
    en_group_note(rc);
    rc = en_group_simulate(&estimated_us);
    if (rc == ncclSuccess && simInfo != NULL)
        simInfo->estimatedTime = estimated_us;
    return rc;
}
#endif

/* As in NCCL: memory that can be registered, unless the driver has no cuMem functions or NCCL_CUMEM_ENABLE=0. */
static bool wants_physical(void)
{
    const char *asked = getenv("NCCL_CUMEM_ENABLE");

    return emu_has_physical_memory() && !(asked && strcmp(asked, "0") == 0);
}

EN_API(ncclResult_t, ncclMemAlloc, (void **ptr, size_t size))
{
    ncclResult_t rc = en_enter("ncclMemAlloc");

    if (rc != ncclSuccess)
        return rc;
    if (ptr == NULL)
        return en_fail(NULL, ncclInvalidArgument, "MemAlloc : ptr argument is NULL");
    *ptr = NULL;
    cudaError_t cuda = size == 0          ? cudaSuccess
                       : wants_physical() ? emu_alloc_physical(ptr, size)
                                          : cudaMalloc(ptr, size);
    if (cuda != cudaSuccess)
        return en_fail(NULL, ncclUnhandledCudaError, "MemAlloc : Cuda failure '%s'", cudaGetErrorString(cuda));
    return ncclSuccess;
}

EN_API(ncclResult_t, ncclMemFree, (void *ptr))
{
    ncclResult_t rc = en_enter("ncclMemFree");

    if (rc != ncclSuccess)
        return rc;
    cudaError_t cuda = ptr == NULL ? cudaSuccess : cudaFree(ptr);
    if (cuda != cudaSuccess)
        return en_fail(NULL, ncclUnhandledCudaError, "MemFree : Cuda failure '%s'", cudaGetErrorString(cuda));
    return ncclSuccess;
}

/* Registration has no effect: the handle is the buffer, or NULL with NCCL_LOCAL_REGISTER=0. */
EN_API(ncclResult_t, ncclCommRegister, (const ncclComm_t comm, void *buff, size_t size, void **handle))
{
    ncclResult_t rc = en_enter("ncclCommRegister");

    if (rc == ncclSuccess)
        rc = en_comm_ready(comm, "CommRegister");
    if (rc == ncclSuccess && (buff == NULL || size == 0 || handle == NULL))
        rc = en_fail(NULL, ncclInvalidArgument, "CommRegister : buff %p, size %zu, handle %p", buff, size,
                     (void *)handle);
    if (rc == ncclSuccess)
        *handle = en_is_off("NCCL_LOCAL_REGISTER") ? NULL : buff;
    return rc;
}

EN_API(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void *handle))
{
    ncclResult_t rc = en_enter("ncclCommDeregister");

    if (rc == ncclSuccess)
        rc = en_comm_check(comm, "CommDeregister");
    if (rc == ncclSuccess && handle == NULL)
        rc = en_fail(NULL, ncclInvalidArgument, "CommDeregister : handle argument is NULL");
    return rc;
}

/* The host functions of the device API (nccl_device.h, C++), with opaque types. */
struct ncclTeam {
    int nRanks, rank, stride;
};

static ncclResult_t no_device_api(const char *call)
{
    return en_fail(NULL, ncclInvalidUsage, "%s : emulated GPUs support no resources other than barriers", call);
}

EN_API(struct ncclTeam, ncclTeamWorld, (ncclComm_t comm))
{
    return (struct ncclTeam){.nRanks = comm->size, .rank = comm->rank, .stride = 1};
}

/* The GPUs of a communicator on one node access each other's memory. Otherwise each GPU is alone in its team. */
EN_API(struct ncclTeam, ncclTeamLsa, (ncclComm_t comm))
{
    return en_windows_possible(comm) ? pncclTeamWorld(comm) : (struct ncclTeam){.nRanks = 1, .rank = 0, .stride = 1};
}

EN_API(struct ncclTeam, ncclTeamRail, (ncclComm_t comm))
{
    return pncclTeamWorld(comm);
}

EN_API(int, ncclTeamRankToWorld, (ncclComm_t comm, struct ncclTeam team, int rank))
{
    return comm->rank + (rank - team.rank) * team.stride;
}

EN_API(int, ncclTeamRankToLsa, (ncclComm_t comm, struct ncclTeam team, int rank))
{
    (void)comm;
    return (rank - team.rank) * team.stride;
}

EN_API(int, ncclLLA2ACalcSlots, (int max_elements, int max_element_bytes))
{
    return max_elements * ((max_element_bytes + 7) / 8);
}

EN_API(ncclResult_t, ncclLLA2ACreateRequirement, (int blocks, int slots, void *handle, void *requirement))
{
    (void)blocks, (void)slots, (void)handle, (void)requirement;
    return no_device_api("LLA2ACreateRequirement");
}

EN_API(ncclResult_t, ncclLsaBarrierCreateRequirement,
       (struct ncclTeam team, int barriers, void *handle, void *requirement))
{
    (void)team, (void)barriers, (void)handle, (void)requirement;
    return no_device_api("LsaBarrierCreateRequirement");
}

EN_API(ncclResult_t, ncclGinBarrierCreateRequirement,
       (ncclComm_t comm, struct ncclTeam team, int barriers, void *handle, void *requirement))
{
    (void)comm, (void)team, (void)barriers, (void)handle, (void)requirement;
    return no_device_api("GinBarrierCreateRequirement");
}
