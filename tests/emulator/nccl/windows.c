/* windows.c - see windows.h. */
#include "windows.h"
#include "api.h"
#include "hazards.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 4096, GIN_PROXY = 2 };        /* NCCL_WIN_REQUIRED_ALIGNMENT; NCCL_GIN_TYPE_PROXY */
static const size_t UNIT = (size_t)1 << 32;      /* of ncclWindow_vidmem.stride4G */
static const size_t MULTICAST = (size_t)1 << 40; /* address space of a communicator's multicast memory */

bool en_windows_possible(ncclComm_t comm)
{
    return en_window_minor() > 0 && (comm->n_nodes == 1 || en_gin() != EN_GIN_NONE) && emu_has_physical_memory() &&
           !en_is_off("NCCL_WIN_ENABLE") && !en_is_off("NCCL_CUMEM_ENABLE");
}

/* ---- mapping ---- */

static void unmap(struct en_window *w)
{
    en_gin_free(w->gin);
    if (w->all)
        munmap(w->all, w->lsa.stride_4g * UNIT * (size_t)w->lsa.world_ranks);
    free(w->handle);
    w->gin = NULL;
    w->all = w->handle = NULL;
}

static void release(struct en_window *w)
{
    unmap(w);
    if (w->owned)
        cudaFree(w->base);
    free(w);
}

static void remove_window(struct en_window *w)
{
    for (struct en_window **link = &w->comm->window_list; *link; link = &(*link)->next)
        if (*link == w) {
            *link = w->next;
            release(w);
            return;
        }
}

void en_windows_release(ncclComm_t comm)
{
    while (comm->window_list)
        remove_window(comm->window_list);
    if (comm->multicast)
        munmap(comm->multicast, MULTICAST);
}

ncclResult_t en_window_post(struct en_window *w)
{
    struct en_region *region = &w->comm->region;
    struct en_shared *mine = &region->members[w->comm->rank].shared[w->serial & 1];
    size_t offset = 0;

    mine->file = emu_physical_file(w->base, w->bytes, &offset);
    mine->offset = offset;
    mine->bytes = w->bytes;
    w->generation = en_barrier_arrive(&region->head->manage, w->comm->size);
    return ncclSuccess;
}

/* Maps a rank's memory at its place. The rank may be another process. */
static bool map_rank(const struct en_window *w, int rank)
{
    const struct en_member *m = &w->comm->region.members[rank];
    const struct en_shared *shared = &m->shared[w->serial & 1];
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)m->pid, (int)shared->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    void *at = w->all + (size_t)rank * w->lsa.stride_4g * UNIT;
    bool ok = file >= 0 && mmap(at, shared->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file,
                                (off_t)shared->offset) == at;
    if (file >= 0)
        close(file);
    return ok;
}

static ncclResult_t map_all(struct en_window *w)
{
    const size_t stride = w->lsa.stride_4g * UNIT, bytes = stride * (size_t)w->lsa.world_ranks;

    w->all = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (w->all == MAP_FAILED) {
        w->all = NULL;
        return en_fail(w->comm, ncclSystemError, "window : no address space for %zu bytes", bytes);
    }
    w->lsa.flat = w->all + (size_t)(w->lsa.world_rank - w->lsa.rank) * stride;
    w->lsa.gin = (struct en_gin_memory){w->all, stride, w->bytes};
    for (int r = 0; r < w->lsa.world_ranks; r++)
        if (!map_rank(w, r))
            return en_fail(w->comm, ncclSystemError, "window : memory of rank %d cannot be mapped: %s", r,
                           strerror(errno));
    w->handle = en_new_window(&w->lsa, w);
    return w->handle ? ncclSuccess : en_fail(w->comm, ncclSystemError, "out of memory for a window");
}

/* Number of ranks on this rank's node, and this rank's index among them. */
static int node_ranks(ncclComm_t comm, int *index)
{
    int n = 0;

    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank)
            *index = n;
        n += comm->nodes[r] == comm->nodes[comm->rank];
    }
    return n;
}

/* Whether every rank's memory can be mapped; computes the layout, which is equal on all ranks. */
static bool lay_out(struct en_window *w)
{
    size_t most = 1;
    int index = 0;
    const int ranks = node_ranks(w->comm, &index);

    for (int r = 0; r < w->comm->size; r++) {
        const struct en_shared *shared = &w->comm->region.members[r].shared[w->serial & 1];

        if (shared->file < 0 || shared->offset % ALIGNMENT)
            return false;
        most = shared->bytes > most ? shared->bytes : most;
    }
    w->lsa = (struct en_lsa){.stride_4g = (uint32_t)((most + UNIT - 1) / UNIT),
                             .multicast_4k = (uint32_t)(w->comm->multicast_bytes / ALIGNMENT),
                             .rank = index,
                             .ranks = ranks,
                             .world_rank = w->comm->rank,
                             .world_ranks = w->comm->size};
    w->comm->multicast_bytes += (most + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return true;
}

static void *multicast_of(ncclComm_t comm)
{
    if (!comm->multicast)
        comm->multicast = mmap(NULL, MULTICAST, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return comm->multicast;
}

/* GIN's signals follow the barriers in the resource buffer. */
static struct en_gin_setup gin_setup_of(ncclComm_t comm, const struct en_requirements *wanted)
{
    int index;

    return (struct en_gin_setup){.rank = comm->rank,
                                 .ranks = comm->size,
                                 .node_ranks = node_ranks(comm, &index),
                                 .signals = wanted->signals,
                                 .world_barriers = wanted->world_barriers,
                                 .hybrid_barriers = wanted->hybrid_barriers,
                                 .late_ns = en_gin() == EN_GIN_LATE ? 300000 : 0};
}

static void start_gin(struct en_window *w)
{
    struct en_gin_setup setup = gin_setup_of(w->comm, &w->wanted);
    const size_t bytes = en_gin_bytes(&setup);

    setup.memory = (struct en_gin_memory){w->all + w->bytes - bytes, w->lsa.gin.stride, bytes};
    w->gin = en_gin_new(&setup);
    if (w->gin)
        en_gin_write(w->gin, w->device_comm);
}

/* Only the windows of programs built with the header of the stand-in have the structs that kernels read. */
static void hand_out(struct en_window *w)
{
    ncclComm_t comm = w->comm;

    if (w->device_comm)
        en_write_device_comm(w->device_comm, &w->lsa, w->handle, w->wanted.barriers,
                             w->wanted.multimem ? multicast_of(comm) : NULL, (uint32_t *)&comm->abort_flag);
    if (w->device_comm && w->wanted.gin)
        start_gin(w);
    if (!w->device_comm)
        *w->out = w->handle;
    comm->windows = true;
    w->next = comm->window_list;
    comm->window_list = w;
}

ncclResult_t en_window_wait(struct en_window *w)
{
    ncclComm_t comm = w->comm;

    emu_host_lost();
    enum en_end end = en_barrier_wait(&comm->manage_watch, &comm->region.head->manage, w->generation);
    ncclResult_t rc = ncclSuccess;
    if (end != EN_GO)
        rc = en_fail(comm, end == EN_BROKEN ? ncclInvalidUsage : ncclInternalError,
                     "rank %d of %d: registration ended while waiting for the other ranks", comm->rank, comm->size);
    else if (lay_out(w))
        rc = map_all(w);
    if (rc == ncclSuccess && w->handle)
        hand_out(w);
    else
        release(w);
    return rc;
}

/* ---- windows ---- */

static ncclResult_t start(ncclComm_t comm, const struct en_window *given)
{
    struct en_window *w = malloc(sizeof(*w));

    if (!w)
        return en_fail(comm, ncclSystemError, "out of memory for a window");
    *w = *given;
    w->comm = comm;
    w->serial = comm->registrations++;
    return en_submit(&(struct en_job){.kind = EN_WINDOW, .parent = comm, .window = w});
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
/* Where windows are not supported, the window is NULL since NCCL 2.29; before, the local handle takes its place. */
EN_API(ncclResult_t, ncclCommWindowRegister,
       (ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags))
{
    ncclResult_t rc = en_enter("ncclCommWindowRegister");

    (void)winFlags;
    if (rc == ncclSuccess)
        rc = en_comm_ready(comm, "CommWindowRegister");
    if (rc == ncclSuccess && (win == NULL || (buff == NULL && size > 0)))
        rc = en_fail(NULL, ncclInvalidArgument, "CommWindowRegister : buff %p, win %p", buff, (void *)win);
    if (rc != ncclSuccess)
        return rc;
    *win = en_window_minor() > 0 && en_window_minor() < 29 ? buff : NULL;
    if (!en_windows_possible(comm))
        return ncclSuccess;
    return start(comm, &(struct en_window){.base = buff, .bytes = size, .out = (void **)win});
}

static struct en_window *find(ncclComm_t comm, const void *handle)
{
    struct en_window *w = comm->window_list;

    while (w && w->handle != handle)
        w = w->next;
    return w;
}

EN_API(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win))
{
    ncclResult_t rc = en_enter("ncclCommWindowDeregister");

    if (rc == ncclSuccess)
        rc = en_comm_check(comm, "CommWindowDeregister");
    if (rc != ncclSuccess || win == NULL)
        return rc;
    struct en_window *w = find(comm, win);
    if (w)
        remove_window(w);
    else if (!en_window_minor())
        rc = en_fail(NULL, ncclInvalidArgument, "CommWindowDeregister : not a window of this communicator");
    return rc;
}

/* Since NCCL 2.29, whose header declares them. */
ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void **out);
ncclResult_t pncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void **out);
EN_API(ncclResult_t, ncclGetLsaDevicePointer, (ncclWindow_t window, size_t offset, int rank, void **out))
{
    const struct en_window *w = window ? en_window_owner(window) : NULL;

    if (!w || !out || rank < 0 || rank >= w->lsa.ranks || offset > w->bytes)
        return en_fail(NULL, ncclInvalidArgument, "GetLsaDevicePointer : window %p, rank %d", (void *)window, rank);
    *out = w->lsa.flat + (size_t)rank * w->lsa.stride_4g * UNIT + offset;
    return ncclSuccess;
}

ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **out);
ncclResult_t pncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **out);
EN_API(ncclResult_t, ncclGetLsaMultimemDevicePointer, (ncclWindow_t window, size_t offset, void **out))
{
    const struct en_window *w = window ? en_window_owner(window) : NULL;

    if (!w || !out || offset > w->bytes)
        return en_fail(NULL, ncclInvalidArgument, "GetLsaMultimemDevicePointer : window %p", (void *)window);
    *out = en_has_multicast() ? (char *)multicast_of(w->comm) + (size_t)w->lsa.multicast_4k * ALIGNMENT + offset : NULL;
    return ncclSuccess;
}
#endif

/* ---- device communicators ---- */

bool en_has_multicast(void)
{
    return emu_env_number("EMU_MULTICAST_MIB", 1 << 20) > 0;
}

static ncclResult_t check_wanted(ncclComm_t comm, const void *requirements, struct en_requirements *wanted)
{
    if (!en_has_device_structs())
        return en_fail(comm, ncclInvalidUsage,
                       "DevCommCreate : emulated GPUs require a build with NCCL 2.28.9 to 2.32");
    if (!en_read_requirements(requirements, wanted))
        return en_fail(comm, ncclInvalidUsage, "DevCommCreate : the program is built with another NCCL header");
    if (wanted->unsupported)
        return en_fail(comm, ncclInvalidUsage, "DevCommCreate : emulated GPUs do not support %s", wanted->unsupported);
    if (wanted->gin && en_gin() == EN_GIN_NONE)
        return en_fail(comm, ncclInvalidUsage, "DevCommCreate : GIN is not supported on this system");
    if (!en_windows_possible(comm))
        return en_fail(comm, ncclInvalidUsage, "DevCommCreate : symmetric memory is not supported");
    if (wanted->multimem && !en_has_multicast())
        return en_fail(comm, ncclInvalidArgument, "DevCommCreate : multicast is not available on this system");
    return ncclSuccess;
}

EN_API(ncclResult_t, ncclDevCommCreate, (ncclComm_t comm, const void *requirements, void *out))
{
    struct en_window w = {.owned = true, .device_comm = out};
    ncclResult_t rc = en_enter("ncclDevCommCreate");
    void *memory = NULL;

    if (rc == ncclSuccess)
        rc = en_comm_ready(comm, "DevCommCreate");
    if (rc == ncclSuccess && (requirements == NULL || out == NULL))
        rc = en_fail(NULL, ncclInvalidArgument, "DevCommCreate : requirements %p, out %p", requirements, out);
    if (rc == ncclSuccess)
        rc = check_wanted(comm, requirements, &w.wanted);
    if (rc != ncclSuccess)
        return en_group_note(rc);
    const struct en_gin_setup setup = gin_setup_of(comm, &w.wanted);
    w.bytes =
        (en_barrier_bytes(w.wanted.barriers, comm->size) + 15) / 16 * 16 + (w.wanted.gin ? en_gin_bytes(&setup) : 0);
    w.bytes = w.bytes > 0 ? w.bytes : 1;
    if (emu_alloc_physical(&memory, w.bytes) != cudaSuccess)
        return en_group_note(en_fail(comm, ncclUnhandledCudaError, "DevCommCreate : out of device memory"));
    w.base = memory;
    return start(comm, &w);
}

EN_API(ncclResult_t, ncclDevCommDestroy, (ncclComm_t comm, const void *device_comm))
{
    ncclResult_t rc = en_enter("ncclDevCommDestroy");

    if (rc == ncclSuccess)
        rc = en_comm_check(comm, "DevCommDestroy");
    if (rc != ncclSuccess || device_comm == NULL || !en_has_device_structs())
        return rc;
    void *window = en_device_comm_window(device_comm);
    if (window)
        remove_window(en_window_owner(window));
    return ncclSuccess;
}

/* ncclCommProperties_t of NCCL 2.29 and 2.30; later versions are larger. */
struct properties {
    size_t size;
    unsigned magic, version;
    int rank, ranks, cuda_device, nvml_device;
    bool device_api, multimem;
    int gin_type, lsa_teams;
    bool host_rma;
    int railed_gin_type;
};

ncclResult_t ncclCommQueryProperties(ncclComm_t comm, void *properties);
ncclResult_t pncclCommQueryProperties(ncclComm_t comm, void *properties);
EN_API(ncclResult_t, ncclCommQueryProperties, (ncclComm_t comm, void *properties))
{
    struct properties *p = properties;
    ncclResult_t rc = en_enter("ncclCommQueryProperties");

    if (rc == ncclSuccess && en_window_minor() > 0 && en_window_minor() < 29)
        rc = en_fail(NULL, ncclInvalidUsage, "CommQueryProperties : requires NCCL 2.29");
    if (rc == ncclSuccess)
        rc = en_comm_ready(comm, "CommQueryProperties");
    if (rc == ncclSuccess && (p == NULL || p->size < sizeof(*p)))
        rc = en_fail(NULL, ncclInvalidArgument, "CommQueryProperties : not initialized");
    if (rc != ncclSuccess)
        return rc;
    p->rank = comm->rank;
    p->ranks = comm->size;
    p->cuda_device = p->nvml_device = comm->device;
    p->device_api = en_windows_possible(comm);
    p->multimem = p->device_api && en_has_multicast();
    p->lsa_teams = p->device_api ? comm->n_nodes : comm->size;
    p->gin_type = p->railed_gin_type = en_gin() != EN_GIN_NONE ? GIN_PROXY : 0;
    p->host_rma = false;
    return ncclSuccess;
}
