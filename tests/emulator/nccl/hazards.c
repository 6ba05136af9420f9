/* hazards.c - see hazards.h. The numbers are those of NCCL 2.30. */
#include "hazards.h"

#include "choice.h"
#include "cost.h"
#include "windows.h"

#include "../engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    STREAMS_OF_A_COMM = 2, /* deviceStream and hostStream, init.cc */
    ARGUMENT_BYTES = 4096, /* work that fits into a kernel's arguments uses no FIFO, include/device.h */
    WORK_P2P_BYTES = 48,   /* ncclDevWorkP2p, one per peer */
    WORK_COLL_BYTES = 128, /* ncclDevWorkColl */
};

static const uint32_t all_connected = ~0u;

/* proxy.cc, proxyProgressInit: the pool of proxy operations, for transports over a network. */
static ncclResult_t take_shm(ncclComm_t comm)
{
    const char *no_shm = getenv("NCCL_SHM_DISABLE");
    const int bytes = emu_env_number("EMU_SHM", 1 << 30);

    comm->shm = -1;
    if (bytes == 0 || comm->size == 1 || (comm->n_nodes == 1 && !(no_shm && atoi(no_shm) == 1)))
        return ncclSuccess;
    comm->shm = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (comm->shm >= 0 && fallocate(comm->shm, 0, 0, bytes) == 0)
        return ncclSuccess;
    return en_fail(comm, ncclSystemError, "Error while creating shared memory segment (size %d), error: %s", bytes,
                   strerror(errno));
}

/* The first operation connects channels, whose buffers NCCL allocates then (NCCL_RUNTIME_CONNECT=1). */
static ncclResult_t take_buffers(ncclComm_t comm, int use)
{
    const int mib = emu_env_number("EMU_NCCL_MIB", 1 << 20);

    if (mib == 0 || comm->size == 1 || comm->buffers[use] ||
        emu_alloc_physical(&comm->buffers[use], (size_t)mib << 20) == cudaSuccess)
        return ncclSuccess;
    return en_fail(comm, ncclUnhandledCudaError, "Failed to CUDA calloc %d MiB", mib);
}

void en_hazards_leave(ncclComm_t comm)
{
    en_windows_release(comm);
    if (comm->shm > 0)
        close(comm->shm);
    for (int use = 0; use < 2; use++)
        if (comm->buffers[use])
            cudaFree(comm->buffers[use]);
}

ncclResult_t en_hazards_join(ncclComm_t comm)
{
    const char *at_first_use = getenv("NCCL_RUNTIME_CONNECT"), *fifo = getenv("NCCL_WORK_FIFO_BYTES");

    (void)en_gin(); /* rejects an invalid value */
    emu_skip_streams(comm->device, STREAMS_OF_A_COMM);
    comm->fifo_bytes = (size_t)emu_env_number("EMU_WORK_FIFO", 1 << 30);
    if (comm->fifo_bytes && fifo)
        comm->fifo_bytes = strtoul(fifo, NULL, 0);
    comm->ahead = emu_env_number("EMU_SEND_AHEAD", EN_MAX_AHEAD);
    comm->connected = all_connected;
    if (emu_env_number("EMU_RUNTIME_CONNECT", 1) && !(at_first_use && atoi(at_first_use) == 0))
        comm->connected = 0;
    ncclResult_t rc = take_shm(comm);
    return rc == ncclSuccess ? take_buffers(comm, 0) : rc;
}

/* ---- symmetric windows ---- */

int en_window_minor(void)
{
    const char *asked = getenv("EMU_NCCL_WINDOW");

    return asked && *asked ? emu_env_number("EMU_NCCL_WINDOW", 99) : NCCL_MINOR;
}

enum en_gin_kind en_gin(void)
{
    const char *asked = getenv("EMU_GIN");

    if (!asked || strcmp(asked, "off") == 0)
        return EN_GIN_NONE;
    if (strcmp(asked, "on") == 0 || strcmp(asked, "late") == 0)
        return *asked == 'l' ? EN_GIN_LATE : EN_GIN_ORDERED;
    emu_die("EMU_GIN=%s: expected off, on or late", asked);
}

bool en_is_off(const char *variable)
{
    const char *value = getenv(variable);

    return value && atoi(value) == 0;
}

bool en_is_by_copies(ncclComm_t comm, enum en_kind kind)
{
    const char *ignored = getenv("EMU_NCCL_IGNORE");

    return !(ignored && strcmp(ignored, "COPIES") == 0) && comm->windows && comm->config.CTAPolicy == 2 &&
           kind != EN_SEND && kind != EN_RECV && !en_kind(kind)->reduces;
}

int en_symmetric_percent(ncclComm_t comm, enum en_kind kind)
{
    const bool has_kernel = kind == EN_ALL_REDUCE || kind == EN_ALL_GATHER || kind == EN_REDUCE_SCATTER;

    if (!comm->windows || !(has_kernel || en_is_by_copies(comm, kind)))
        return 0;
    return emu_env_number("EMU_SYMMETRIC_PERCENT", 1000);
}

/* Copy engines run the collectives without reduction if the CTA policy is 2. An operation has two synchronizations of
 * n - 1 copies, a write and a batch of waits, and n copies (ce_coll.cc, without multicast). */
int en_queue_entries(const struct en_plan *plan)
{
    ncclComm_t comm = plan->comm;

    if (plan->collectives > 0 && en_is_by_copies(comm, plan->tasks[0].kind))
        return 3 * comm->size + 1;
    return comm->mixes ? 4 : 2;
}

/* ---- graphs ---- */

void en_mixing_capture(ncclComm_t comm)
{
    comm->mixes = emu_env_number("EMU_MIXING_US", 1000000) > 0 && !en_is_off("NCCL_GRAPH_MIXING_SUPPORT");
}

int64_t en_mixing_ns(const struct en_plan *plan)
{
    return plan->mixes ? 1000 * (int64_t)emu_env_number("EMU_MIXING_US", 1000000) : 0;
}

/* ---- first collectives ---- */

/* All ranks of a communicator make the same calls, so all new algorithms of one group share one barrier. */
void en_connect_post(ncclComm_t comm, const struct en_task *task)
{
    uint32_t algorithm = 1u << task->algorithm;

    if (!en_has_algorithm(task) || comm->size == 1 || comm->connected & algorithm)
        return;
    comm->connected |= algorithm;
    if (!comm->connecting)
        comm->connect_generation = en_barrier_arrive(&comm->region.head->connect, comm->size);
    comm->connecting = true;
}

ncclResult_t en_connect_wait(ncclComm_t comm)
{
    enum en_end end = EN_GO;

    if (comm->connecting) {
        emu_host_lost();
        end = en_barrier_wait(&comm->watch, &comm->region.head->connect, comm->connect_generation);
        emu_host_found();
    }
    comm->connecting = false;
    return end == EN_GO ? take_buffers(comm, 1)
                        : en_fail(comm, ncclInternalError, "the connection of a collective was aborted");
}

/* ---- work FIFO ---- */

/* A send and a receive with the same peer are one work item. */
static size_t work_bytes(const struct en_plan *plan)
{
    size_t sends = 0, receives = 0, bytes = 0;

    for (int i = 0; i < plan->collectives; i++)
        bytes += en_has_algorithm(&plan->tasks[i]) ? WORK_COLL_BYTES : (size_t)plan->comm->size * WORK_P2P_BYTES;
    for (int i = plan->collectives; i < plan->count; i++)
        *(plan->tasks[i].kind == EN_SEND ? &sends : &receives) += 1;
    return bytes + (sends > receives ? sends : receives) * WORK_P2P_BYTES;
}

/* Each ending plan signals comm->changed. A plan runs without waiting when no other plan uses the FIFO, even if it
 * is larger than the FIFO: NCCL splits such work. */
void en_fifo_take(struct en_plan *plan)
{
    ncclComm_t comm = plan->comm;
    size_t bytes = work_bytes(plan);
    bool waited = false;

    if (comm->fifo_bytes == 0 || bytes <= ARGUMENT_BYTES)
        return;
    pthread_mutex_lock(&comm->lock);
    while (comm->fifo_used > 0 && comm->fifo_used + bytes > comm->fifo_bytes && !emu_stopping()) {
        emu_host_waits_for_one();
        en_wait_briefly(comm);
        waited = true;
    }
    comm->fifo_used += bytes;
    plan->fifo_bytes = bytes;
    int64_t end_ns = comm->last_end_ns;
    pthread_mutex_unlock(&comm->lock);
    if (waited)
        emu_host_reach_ns(end_ns);
}

void en_fifo_free(struct en_plan *plan)
{
    pthread_mutex_lock(&plan->comm->lock);
    plan->comm->fifo_used -= plan->fifo_bytes;
    plan->fifo_bytes = 0;
    pthread_cond_broadcast(&plan->comm->changed);
    pthread_mutex_unlock(&plan->comm->lock);
}

/* ---- CTAs against SMs ---- */

enum { DEVICES = 64, OVERTAKING_MS = 20 };

/* The devices of this process. begun: the latest launch that has begun. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct {
        int used;
        uint64_t issued, begun;
    } device[DEVICES];
} sms = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int sms_of_device(void)
{
    return emu_env_number("EMU_SMS", 1024);
}

static bool launches_in_order(void)
{
    const char *value = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");

    return value && atoi(value) != 0;
}

void en_sms_issue(struct en_plan *plan)
{
    if (sms_of_device() == 0)
        return;
    pthread_mutex_lock(&sms.lock);
    plan->launch = ++sms.device[plan->comm->device].issued;
    pthread_mutex_unlock(&sms.lock);
}

/* Without order, GPUs may begin launches of different streams in any order: on odd ranks a launch lets later ones begin
 * before it. An operation that is larger than the GPU begins when nothing else runs. */
static bool may_begin(const struct en_plan *plan, int waited_ms)
{
    const int device = plan->comm->device, used = sms.device[device].used;
    const uint64_t issued = sms.device[device].issued, begun = sms.device[device].begun;

    if (used > 0 && used + en_channels(plan->comm) > sms_of_device())
        return false;
    if (plan->launch == 0)
        return true;
    if (launches_in_order())
        return plan->launch <= begun + 1;
    return emu_world_rank() % 2 == 0 || plan->launch == issued || begun > plan->launch || waited_ms >= OVERTAKING_MS;
}

enum en_end en_sms_take(struct en_plan *plan)
{
    ncclComm_t comm = plan->comm;
    const int device = comm->device;
    enum en_end end = EN_GO;

    if (sms_of_device() == 0)
        return EN_GO;
    pthread_mutex_lock(&sms.lock);
    for (int ms = 0; end == EN_GO && !may_begin(plan, ms); ms++) {
        struct timespec at;

        clock_gettime(CLOCK_REALTIME, &at);
        at.tv_nsec += 1000000;
        at.tv_sec += at.tv_nsec / 1000000000;
        at.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&sms.changed, &sms.lock, &at);
        end = emu_stopping() ? EN_STOPPING : atomic_load(&comm->stop_flag) ? EN_ABORTED : EN_GO;
    }
    sms.device[device].used += en_channels(comm);
    if (plan->launch > sms.device[device].begun)
        sms.device[device].begun = plan->launch;
    pthread_cond_broadcast(&sms.changed);
    pthread_mutex_unlock(&sms.lock);
    return end;
}

void en_sms_free(struct en_plan *plan)
{
    if (sms_of_device() == 0)
        return;
    pthread_mutex_lock(&sms.lock);
    sms.device[plan->comm->device].used -= en_channels(plan->comm);
    pthread_cond_broadcast(&sms.changed);
    pthread_mutex_unlock(&sms.lock);
}

/* ---- ranks that only send ---- */

static bool only_sends(ncclComm_t comm, const struct en_task *task)
{
    const struct en_kind_row *kind = en_kind(task->kind);

    return kind->only_root_sends ? comm->rank == task->root : kind->only_root_receives && comm->rank != task->root;
}

int64_t en_begin_ns(ncclComm_t comm, const struct en_task *task, int64_t own_ns, int64_t latest_ns)
{
    uint64_t n = comm->n_arrivals++;
    int64_t space_ns =
        comm->ahead > 0 && n >= (uint64_t)comm->ahead ? comm->arrivals[(n - comm->ahead) % EN_MAX_AHEAD] : 0;

    comm->arrivals[n % EN_MAX_AHEAD] = latest_ns;
    if (comm->ahead == 0 || !only_sends(comm, task))
        return latest_ns;
    return own_ns > space_ns ? own_ns : space_ns;
}
