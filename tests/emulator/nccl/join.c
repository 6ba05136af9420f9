/*
 * join.c - joins the ranks of a new communicator, computes their locations, and rejects two ranks on one GPU.
 */
#include "choice.h"
#include "hazards.h"
#include "profiler.h"
#include "sharing.h"
#include "timeline_peers.h"

#include "../engine.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 64-bit FNV-1a with a different offset basis for each word, then mixed by the finaliser of splitmix64. */
static uint64_t hash64(const void *data, size_t bytes, uint64_t seed)
{
    const unsigned char *at = data;
    uint64_t h = 0xcbf29ce484222325u ^ seed * 0x9e3779b97f4a7c15u;

    for (size_t i = 0; i < bytes; i++)
        h = (h ^ at[i]) * 0x100000001b3u;
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    return h ^ h >> 31;
}

void en_hash(uint8_t out[EN_ID_BYTES], const void *data, size_t bytes)
{
    for (unsigned i = 0; i < EN_ID_BYTES / 8; i++) {
        uint64_t word = hash64(data, bytes, i + 1);
        memcpy(out + 8 * i, &word, sizeof(word));
    }
}

/* As NCCL identifies a host: NCCL_HOSTID if set, otherwise host name and boot id. */
static uint64_t host_hash(void)
{
    const char *given = getenv("NCCL_HOSTID");
    char text[256] = "";

    if (given != NULL)
        return hash64(given, strlen(given), 0) | 1; /* odd: set by the user */
    gethostname(text, sizeof(text) / 2);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        size_t at = strlen(text);
        ssize_t got = read(fd, text + at, sizeof(text) - 1 - at);
        text[at + (got > 0 ? (size_t)got : 0)] = '\0';
        close(fd);
    }
    return hash64(text, strlen(text), 0) & ~(uint64_t)1;
}

static uint64_t bus_hash(int device)
{
    char bus[64] = "";

    if (cudaDeviceGetPCIBusId(bus, sizeof(bus), device) != cudaSuccess)
        snprintf(bus, sizeof(bus), "device %d", device);
    return hash64(bus, strlen(bus), 0);
}

static ncclResult_t allocate(ncclComm_t comm)
{
    size_t n = (size_t)comm->size;

    comm->nodes = calloc(n, sizeof(*comm->nodes));
    comm->gpus = calloc(n, sizeof(*comm->gpus));
    comm->sent = calloc(n, sizeof(*comm->sent));
    comm->received = calloc(n, sizeof(*comm->received));
    comm->scalars = calloc(n, sizeof(*comm->scalars));
    comm->sources = calloc(n, sizeof(*comm->sources));
    if (!comm->nodes || !comm->gpus || !comm->sent || !comm->received || !comm->scalars || !comm->sources)
        return en_fail(comm, ncclSystemError, "out of memory for a communicator of %d ranks", comm->size);
    return ncclSuccess;
}

static ncclResult_t open_region(ncclComm_t comm)
{
    int found = 0, rc = en_region_open(&comm->region, comm->id, comm->size, &found);

    if (rc == EINVAL)
        return en_fail(comm, ncclInvalidUsage,
                       "this rank joins a communicator of %d ranks, another rank created it for %d", comm->size, found);
    if (rc)
        return en_fail(comm, ncclSystemError, "no shared memory for a communicator of %d ranks: %s", comm->size,
                       strerror(rc));
    return ncclSuccess;
}

ncclResult_t en_join_post(ncclComm_t comm)
{
    ncclResult_t rc = allocate(comm);
    uint32_t not_taken = 0;

    if (rc == ncclSuccess)
        rc = open_region(comm);
    if (rc != ncclSuccess)
        return rc;
    struct en_head *head = comm->region.head;
    struct en_member *me = &comm->region.members[comm->rank];
    if (!atomic_compare_exchange_strong(&me->taken, &not_taken, 1)) {
        en_comm_break(comm, "two ranks joined one communicator as rank %d", comm->rank);
        return ncclInvalidUsage;
    }
    me->pid = (int32_t)getpid();
    me->world_rank = emu_world_rank();
    me->device = comm->device;
    me->devices = en_devices_used();
    me->location = comm->location;
    me->host = host_hash();
    me->bus = bus_hash(comm->device);
    en_post_timeline_name(comm);
    if (atomic_fetch_add(&head->joined, 1) + 1 == (uint32_t)comm->size) {
        en_region_unlink(&comm->region);
        en_wake(&head->joined);
    }
    return ncclSuccess;
}

static ncclResult_t wait_for_all(ncclComm_t comm)
{
    struct en_head *head = comm->region.head;
    enum en_end end = EN_GO;

    emu_host_lost();
    for (uint32_t n = atomic_load(&head->joined); end == EN_GO && n < (uint32_t)comm->size;
         n = atomic_load(&head->joined))
        end = en_wait(&comm->manage_watch, &head->joined, n);
    emu_host_found();
    if (end == EN_BROKEN)
        return en_fail(comm, ncclInvalidUsage, "%s", en_last_error(comm));
    if (end != EN_GO) {
        en_region_unlink(&comm->region); /* no process may join an incomplete communicator */
        return en_fail(comm, ncclInternalError, "rank %d of %d: aborted while waiting for the other ranks", comm->rank,
                       comm->size);
    }
    return ncclSuccess;
}

/* Number of GPUs of the process of a rank, as far as the communicator's ranks know. */
static int devices_of(const struct en_region *r, int rank)
{
    const struct en_member *me = &r->members[rank];
    int here = 0, devices = 1;

    for (int i = 0; i < r->head->members; i++) {
        const struct en_member *m = &r->members[i];
        if (m->pid != me->pid || m->host != me->host)
            continue;
        here++;
        devices = m->devices > devices ? m->devices : devices;
    }
    return here > devices ? here : devices;
}

/* Ranks fill nodes in the launcher's order; within a process in the order of its devices. */
static struct emu_location location_of(const struct en_region *r, int rank)
{
    const struct en_member *m = &r->members[rank];
    int devices = devices_of(r, rank);

    if (m->location.node >= 0)
        return m->location;
    return emu_location_of(m->world_rank * devices + m->device % devices, emu_world_size() * devices);
}

static void locate_ranks(ncclComm_t comm)
{
    comm->n_nodes = 0;
    comm->min_nic_factor = comm->min_leaf_factor = INFINITY;
    for (int i = 0; i < comm->size; i++) {
        struct emu_location location = location_of(&comm->region, i);
        int first = 0;

        comm->nodes[i] = location.node;
        comm->gpus[i] = location.gpu;
        while (comm->nodes[first] != location.node)
            first++;
        comm->n_nodes += first == i;
        comm->min_nic_factor = fmin(comm->min_nic_factor, emu_nic_factor(location));
        comm->min_leaf_factor = fmin(comm->min_leaf_factor, emu_leaf_factor(en_machine_rank(comm, i)));
        if (i == comm->rank)
            comm->location = location;
    }
    comm->nic_factor = emu_nic_factor(comm->location);
    comm->leaf_factor = emu_leaf_factor(en_machine_rank(comm, comm->rank));
    comm->job_gpus = emu_world_size() * devices_of(&comm->region, comm->rank);
    en_find_sharers(comm);
}

/* Emulated nodes are different hosts, although all ranks run on one machine, unless NCCL_HOSTID names the hosts. */
static bool share_gpu(ncclComm_t comm, int a, int b)
{
    const struct en_member *x = &comm->region.members[a], *y = &comm->region.members[b];

    return x->host == y->host && x->bus == y->bus && ((x->host & 1) || comm->nodes[a] == comm->nodes[b]);
}

/* NCCL 2.30.3 introduced the variable. */
static bool sharing_is_on(void)
{
    const char *text = getenv("NCCL_MULTI_RANK_GPU_ENABLE");

    return NCCL_VERSION_CODE >= 23003 && text && atoi(text) == 1;
}

static ncclResult_t refuse_shared_gpus(ncclComm_t comm)
{
    if (sharing_is_on())
        return ncclSuccess;
    for (int a = 0; a < comm->size; a++)
        for (int b = a + 1; b < comm->size; b++)
            if (share_gpu(comm, a, b))
                return en_fail(comm, ncclInvalidUsage,
                               "Duplicate GPU detected : rank %d and rank %d both on CUDA device %d", a, b,
                               comm->region.members[a].device);
    return ncclSuccess;
}

ncclResult_t en_join_wait(ncclComm_t comm)
{
    ncclResult_t rc = wait_for_all(comm);

    if (rc != ncclSuccess)
        return rc;
    if (comm->region.lock_fd >= 0) { /* the last rank to join has removed the name */
        close(comm->region.lock_fd);
        comm->region.lock_fd = -1;
    }
    locate_ranks(comm);
    emu_set_machine_rank(comm->device, en_machine_rank(comm, comm->rank));
    en_join_timeline(comm);
    rc = refuse_shared_gpus(comm);
    if (rc == ncclSuccess)
        rc = en_check_settings(comm);
    if (rc == ncclSuccess)
        en_tuner_join(comm);
    if (rc == ncclSuccess)
        en_profiler_join(comm);
    return rc == ncclSuccess ? en_hazards_join(comm) : rc;
}
