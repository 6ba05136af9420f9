/*
 * profiler.c - calls a profiler plugin as NCCL does. See profiler.h. The structures follow versions 5 to 7 of the
 * plugin interface, as far as they are filled here.
 */
#include "profiler.h"

#include "choice.h"
#include "cost.h"
#include "hazards.h"
#include "types.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { COLL = 2, P2P = 4, COPIES = 4096, WARPS = 16 };

struct event {
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct {
            uint64_t sequence;
            const char *function;
            const void *send;
            void *recv;
            size_t count;
            int root;
            const char *dtype;
            uint8_t channels, warps;
            const char *algorithm, *protocol;
            void *group;
            const char *kernel; /* version 7 */
            bool symmetric;     /* version 7 */
        } coll;
        struct {
            const char *function;
            void *buffer;
            const char *dtype;
            size_t count;
            int peer;
            uint8_t channels;
            void *group;
        } p2p;
        uint64_t room[16]; /* size of the event kinds that are not reported here */
    };
};

struct plugin {
    const char *name;
    ncclResult_t (*init)(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank,
                         void (*log)(int, unsigned long, const char *, int, const char *, ...));
    ncclResult_t (*start)(void *context, void **handle, struct event *event);
    ncclResult_t (*stop)(void *handle);
    ncclResult_t (*state)(void *handle, int state, void *arguments);
    ncclResult_t (*finalize)(void *context);
};

static int mask; /* one per process, as in NCCL; the plugin may change it at any time */

static const struct plugin *plugin(void)
{
    const char *name = getenv("NCCL_PROFILER_PLUGIN");

    return name == NULL || strcmp(name, "STATIC_PLUGIN") != 0
               ? NULL
               : dlsym(RTLD_DEFAULT, en_window_minor() >= 32 ? "ncclProfiler_v7" : "ncclProfiler_v5");
}

static void no_log(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
    (void)level, (void)flags, (void)file, (void)line, (void)format;
}

void en_profiler_join(ncclComm_t comm)
{
    const struct plugin *p = plugin();
    uint64_t id;

    memcpy(&id, comm->id, sizeof(id));
    if (p != NULL)
        p->init(&comm->profiler, id, &mask, NULL, comm->n_nodes, comm->size, comm->rank, no_log);
}

void en_profiler_leave(ncclComm_t comm)
{
    const struct plugin *p = plugin();

    if (p != NULL && comm->profiler != NULL)
        p->finalize(comm->profiler);
    comm->profiler = NULL;
}

static void send_event(const struct plugin *p, ncclComm_t comm, struct event *event)
{
    void *handle = NULL;

    event->rank = comm->rank;
    p->start(comm->profiler, &handle, event);
    if (handle != NULL)
        p->stop(handle);
}

static void report_message(const struct plugin *p, ncclComm_t comm, const struct en_task *task, bool sends, int peer)
{
    struct event event = {.type = P2P};

    event.p2p.function = sends ? "Send" : "Recv";
    event.p2p.buffer = sends ? (void *)(uintptr_t)task->send : task->recv;
    event.p2p.dtype = en_type(task->dtype)->name;
    event.p2p.count = task->count;
    event.p2p.peer = peer;
    event.p2p.channels = (uint8_t)en_channels(comm);
    send_event(p, comm, &event);
}

/* Whether this rank has a message to, or from, the peer. */
static bool has_message(ncclComm_t comm, const struct en_task *task, bool only_root, int peer)
{
    if (only_root)
        return comm->rank == task->root;
    return !en_kind(task->kind)->rooted || peer == task->root;
}

/* An operation made of messages: reports this rank's ends of all of them. */
static void report_messages(const struct plugin *p, ncclComm_t comm, const struct en_task *task)
{
    const struct en_kind_row *kind = en_kind(task->kind);

    for (int peer = 0; peer < comm->size; peer++) {
        if (has_message(comm, task, kind->only_root_sends, peer))
            report_message(p, comm, task, true, peer);
        if (has_message(comm, task, kind->only_root_receives, peer))
            report_message(p, comm, task, false, peer);
    }
}

static void report_collective(const struct plugin *p, ncclComm_t comm, const struct en_task *task)
{
    struct event event = {.type = COLL};

    event.coll.function = en_kind(task->kind)->call;
    event.coll.send = task->send;
    event.coll.recv = task->recv;
    event.coll.count = task->count;
    event.coll.root = task->root;
    event.coll.dtype = en_type(task->dtype)->name;
    event.coll.channels = (uint8_t)en_channels(comm);
    event.coll.warps = WARPS;
    event.coll.algorithm = en_algorithm_name(task->algorithm);
    event.coll.protocol = en_protocol_name(task->protocol);
    send_event(p, comm, &event);
}

void en_profiler_report(ncclComm_t comm, const struct en_task *task)
{
    bool asked = (__atomic_load_n(&mask, __ATOMIC_RELAXED) & (COLL | P2P)) != 0;
    const struct plugin *p = asked && comm->profiler != NULL && comm->size > 1 ? plugin() : NULL;

    if (p == NULL)
        return;
    if (en_symmetric_percent(comm, task->kind) > 0) {
        struct event copies = {.type = COPIES}, kernel = {.type = COLL};

        kernel.coll.kernel = "SymmetricKernel_LSA";
        kernel.coll.symmetric = true;
        if (!en_is_by_copies(comm, task->kind) && en_window_minor() >= 32)
            send_event(p, comm, &kernel);
        if (en_is_by_copies(comm, task->kind) && en_window_minor() >= 30 && (mask & COPIES) != 0)
            send_event(p, comm, &copies);
        return;
    }
    if (task->kind == EN_SEND || task->kind == EN_RECV)
        report_message(p, comm, task, task->kind == EN_SEND, task->root);
    else if (!en_has_algorithm(task))
        report_messages(p, comm, task);
    else
        report_collective(p, comm, task);
}
