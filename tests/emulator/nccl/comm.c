/*
 * comm.c - the lifetime of a communicator in this process, and the order of its operations. See comm.h.
 */
#include "choice.h"
#include "hazards.h"
#include "profiler.h"

#include "../engine.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEVICES_MAX = 256 };

/* State of the process: the list of live handles, so that an invalid handle gives an error instead of a crash, and
 * the devices in use. */
static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm *live;
static bool device_used[DEVICES_MAX];

static void remember_device(int device)
{
    if (device >= 0 && device < DEVICES_MAX)
        device_used[device] = true;
}

int en_devices_used(void)
{
    int used = 0;

    pthread_mutex_lock(&live_lock);
    for (int i = 0; i < DEVICES_MAX; i++)
        used += device_used[i];
    pthread_mutex_unlock(&live_lock);
    return used;
}

ncclComm_t en_comm_new(int device, const ncclConfig_t *config)
{
    struct ncclComm *comm = calloc(1, sizeof(*comm));
    pthread_condattr_t monotonic;

    if (comm == NULL)
        return NULL;
    comm->refs = 1;
    comm->device = device;
    comm->config = *config;
    comm->location.node = -1;
    comm->region.lock_fd = -1;
    comm->watch = (struct en_watch){.region = &comm->region, .abort_flag = &comm->stop_flag};
    comm->manage_watch = (struct en_watch){.region = &comm->region, .abort_flag = &comm->abort_flag};
    pthread_mutex_init(&comm->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&comm->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_lock(&live_lock);
    remember_device(device);
    comm->next = live;
    live = comm;
    pthread_mutex_unlock(&live_lock);
    return comm;
}

void en_comm_ref(ncclComm_t comm)
{
    atomic_fetch_add(&comm->refs, 1);
}

void en_comm_unref(ncclComm_t comm)
{
    if (atomic_fetch_sub(&comm->refs, 1) != 1)
        return;
    emu_order_release(&comm->order);
    en_hazards_leave(comm);
    en_region_close(&comm->region);
    pthread_cond_destroy(&comm->changed);
    pthread_mutex_destroy(&comm->lock);
    free(comm->nodes);
    free(comm->gpus);
    free(comm->sent);
    free(comm->received);
    free(comm->scalars);
    free(comm->sources);
    free(comm->redops);
    free(comm);
}

void en_comm_retire(ncclComm_t comm)
{
    en_profiler_leave(comm);
    en_tuner_leave(comm);
    pthread_mutex_lock(&live_lock);
    for (struct ncclComm **at = &live; *at != NULL; at = &(*at)->next)
        if (*at == comm) {
            *at = comm->next;
            break;
        }
    pthread_mutex_unlock(&live_lock);
    en_comm_unref(comm);
}

static void announce(ncclComm_t comm)
{
    pthread_mutex_lock(&comm->lock);
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
}

void en_comm_stop(ncclComm_t comm)
{
    atomic_store(&comm->stop_flag, 1);
    en_wake_all(&comm->region);
    announce(comm);
}

void en_comm_abort(ncclComm_t comm)
{
    atomic_store(&comm->abort_flag, 1);
    en_comm_stop(comm);
}

/* At process exit: removes the names of regions that not all ranks have joined. */
__attribute__((destructor)) static void leave(void)
{
    for (struct ncclComm *at = live; at != NULL; at = at->next)
        en_region_unlink(&at->region);
}

ncclResult_t en_comm_check(ncclComm_t comm, const char *call)
{
    struct ncclComm *at;

    if (comm == NULL)
        return en_fail(NULL, ncclInvalidArgument, "%s : comm argument is NULL", call);
    pthread_mutex_lock(&live_lock);
    for (at = live; at != NULL && at != comm; at = at->next)
        ;
    pthread_mutex_unlock(&live_lock);
    if (at == NULL)
        return en_fail(NULL, ncclInvalidArgument, "%s : comm is corrupted, or was destroyed", call);
    return ncclSuccess;
}

ncclResult_t en_comm_async(ncclComm_t comm)
{
    pthread_mutex_lock(&comm->lock);
    ncclResult_t state = comm->async;
    pthread_mutex_unlock(&comm->lock);
    if (state == ncclSuccess && en_broken(&comm->region))
        return en_report_broken(comm);
    return state;
}

ncclResult_t en_comm_ready(ncclComm_t comm, const char *call)
{
    ncclResult_t state = en_comm_check(comm, call);

    if (state != ncclSuccess)
        return state;
    state = en_comm_async(comm);
    if (state == ncclInProgress)
        return en_fail(NULL, ncclInvalidArgument,
                       "%s : attempt to use a communicator before its previous operation returned ncclSuccess", call);
    if (state != ncclSuccess)
        return state;
    if (comm->finalized)
        return en_fail(NULL, ncclInvalidUsage, "%s : the communicator was finalized", call);
    return ncclSuccess;
}

ncclResult_t en_comm_open(ncclComm_t comm, const char *call)
{
    ncclResult_t rc = en_comm_ready(comm, call);

    if (rc == ncclSuccess && atomic_load(&comm->stop_flag))
        return en_fail(NULL, ncclInvalidUsage, "%s : the communicator was revoked, or aborted by a shrink", call);
    return rc;
}

void en_comm_begin(ncclComm_t comm)
{
    pthread_mutex_lock(&comm->lock);
    comm->async = ncclInProgress;
    comm->in_progress++;
    pthread_mutex_unlock(&comm->lock);
}

void en_comm_end(ncclComm_t comm, ncclResult_t state)
{
    pthread_mutex_lock(&comm->lock);
    if (--comm->in_progress == 0) {
        comm->async = state;
        pthread_cond_broadcast(&comm->changed);
    }
    pthread_mutex_unlock(&comm->lock);
}

void en_comm_wait_jobs(ncclComm_t comm)
{
    pthread_mutex_lock(&comm->lock);
    while (comm->async == ncclInProgress)
        pthread_cond_wait(&comm->changed, &comm->lock);
    pthread_mutex_unlock(&comm->lock);
}

/* Waits for comm->changed, at most ns. The lock is held. */
static void wait_up_to(ncclComm_t comm, long ns)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ns;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    pthread_cond_timedwait(&comm->changed, &comm->lock, &until);
}

void en_comm_nap(ncclComm_t comm)
{
    pthread_mutex_lock(&comm->lock);
    if (comm->async == ncclInProgress)
        wait_up_to(comm, 200000);
    pthread_mutex_unlock(&comm->lock);
}

void en_wait_briefly(ncclComm_t comm)
{
    wait_up_to(comm, 1000000);
}

enum en_end en_wait_slice(ncclComm_t comm)
{
    wait_up_to(comm, EN_WAIT_SLICE_MS * 1000000L);
    return emu_stopping() ? EN_STOPPING : EN_GO;
}

void en_comm_wait_running(ncclComm_t comm)
{
    pthread_mutex_lock(&comm->lock);
    while (comm->running && en_wait_slice(comm) == EN_GO)
        ;
    pthread_mutex_unlock(&comm->lock);
}

void en_order_append(ncclComm_t comm, struct en_ticket *t)
{
    pthread_mutex_lock(&comm->lock);
    *t = (struct en_ticket){.queued = true};
    if (comm->first == NULL)
        comm->first = t;
    else
        comm->last->next = t;
    comm->last = t;
    pthread_mutex_unlock(&comm->lock);
}

/* The lock is held. */
static void unlink_ticket(ncclComm_t comm, struct en_ticket *t)
{
    struct en_ticket *before = NULL;

    for (struct en_ticket *at = comm->first; at != t; at = at->next)
        before = at;
    if (before == NULL)
        comm->first = t->next;
    else
        before->next = t->next;
    if (comm->last == t)
        comm->last = before;
    t->queued = false;
}

enum en_end en_order_enter(ncclComm_t comm, struct en_ticket *t)
{
    enum en_end end = EN_GO;

    pthread_mutex_lock(&comm->lock);
    while (end == EN_GO && (comm->running || (t->queued && comm->first != t)))
        end = en_wait_slice(comm);
    if (end == EN_GO)
        comm->running = 1;
    pthread_mutex_unlock(&comm->lock);
    return end;
}

void en_order_leave(ncclComm_t comm, struct en_ticket *t)
{
    pthread_mutex_lock(&comm->lock);
    comm->running = 0;
    if (t->queued)
        unlink_ticket(comm, t);
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
}

void en_order_cancel(ncclComm_t comm, struct en_ticket *t)
{
    pthread_mutex_lock(&comm->lock);
    if (t->queued) {
        unlink_ticket(comm, t);
        pthread_cond_broadcast(&comm->changed);
    }
    pthread_mutex_unlock(&comm->lock);
}

void en_order_drain(ncclComm_t comm)
{
    emu_host_waits_for_all();
    pthread_mutex_lock(&comm->lock);
    while ((comm->first != NULL || comm->running) && en_wait_slice(comm) == EN_GO)
        ;
    int64_t end = comm->last_end_ns;
    pthread_mutex_unlock(&comm->lock);
    emu_host_reach_ns(end);
}
