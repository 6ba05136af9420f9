/*
 * profiler.c - the profiler plugin, see profiler.h.
 *
 * NCCL calls the plugin from several threads: the caller's thread, helper threads of non-blocking communicators,
 * callbacks of CUDA graphs. The plugin therefore uses neither locks nor allocations. To record an event, a thread
 * increments the event counter to obtain a sequence number, writes the event to array element number % SLOTS, and then
 * stores the sequence number in the element. The state is global, because NCCL finds a plugin by its symbol name and
 * all communicators share one event mask.
 */
#include "collectives/session/profiler.h"

#include "collectives/session/profiler_plugin.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    WANTED = BB_EVENT_COLL | BB_EVENT_P2P | BB_EVENT_COPIES,
    SLOTS = 256 /* maximum number of events recorded between bb_profiler_begin and bb_profiler_end; later events are
                   dropped */
};

/* Size of a struct bb_choice in 64-bit words, each of which is read and written atomically. */
enum { WORDS = (sizeof(struct bb_choice) + sizeof(uint64_t) - 1) / sizeof(uint64_t) };

struct slot {
    _Atomic uint64_t whole; /* sequence number + 1 of the event in `words`; 0 while `words` is being written */
    _Atomic uint64_t words[WORDS];
};

static struct {
    _Atomic(int *) mask; /* NCCL's event mask; valid while NCCL is loaded */
    atomic_int comms;
    atomic_bool active;
    _Atomic uint64_t taken; /* number of events so far, which is the sequence number of the next event */
    _Atomic uint64_t first; /* sequence number of the first event after bb_profiler_begin */
    struct slot slots[SLOTS];
} plugin;

static void record_choice(const struct bb_choice *choice)
{
    uint64_t words[WORDS] = {0}, number, first;

    if (!atomic_load(&plugin.active))
        return;
    first = atomic_load(&plugin.first);
    number = atomic_fetch_add(&plugin.taken, 1);
    if (number - first >= SLOTS)
        return;
    struct slot *slot = &plugin.slots[number % SLOTS];
    memcpy(words, choice, sizeof(*choice));
    atomic_store(&slot->whole, 0);
    for (int i = 0; i < WORDS; i++)
        atomic_store_explicit(&slot->words[i], words[i], memory_order_relaxed);
    atomic_store(&slot->whole, number + 1);
}

/* Reads the event with this sequence number. Returns false if the event is still being written. */
static bool read_slot(uint64_t number, struct bb_choice *choice)
{
    struct slot *slot = &plugin.slots[number % SLOTS];
    uint64_t words[WORDS];

    if (atomic_load(&slot->whole) != number + 1)
        return false;
    for (int i = 0; i < WORDS; i++)
        words[i] = atomic_load_explicit(&slot->words[i], memory_order_relaxed);
    memcpy(choice, words, sizeof(*choice));
    return true;
}

static void copy_string(char *to, size_t size, const char *from)
{
    size_t n = from ? strnlen(from, size - 1) : 0;

    memcpy(to, from ? from : "", n);
    to[n] = '\0';
}

/* ---- functions that NCCL calls ---- */

static ncclResult_t attach_plugin(void **context, int *mask)
{
    atomic_store(&plugin.mask, mask);
    __atomic_store_n(mask, atomic_load(&plugin.active) ? WANTED : 0, __ATOMIC_SEQ_CST);
    atomic_fetch_add(&plugin.comms, 1);
    *context = &plugin; /* NCCL calls finalize only if the context is not NULL */
    return ncclSuccess;
}

static ncclResult_t init_v4(void **context, int *mask, const char *comm_name, uint64_t comm_id, int nodes, int ranks,
                            int rank, bb_profiler_log *log)
{
    (void)comm_name, (void)comm_id, (void)nodes, (void)ranks, (void)rank, (void)log;
    return attach_plugin(context, mask);
}

static ncclResult_t init_v5(void **context, uint64_t comm_id, int *mask, const char *comm_name, int nodes, int ranks,
                            int rank, bb_profiler_log *log)
{
    (void)comm_name, (void)comm_id, (void)nodes, (void)ranks, (void)rank, (void)log;
    return attach_plugin(context, mask);
}

/* Records an event. Sets the event's handle to NULL, so that NCCL does not call stop for the event. */
static ncclResult_t start_event(void **handle, uint64_t type, const struct bb_event_coll *coll,
                                const struct bb_event_p2p *p2p)
{
    struct bb_choice c = {.kind = BB_CHOICE_P2P};

    *handle = NULL;
    if (type == BB_EVENT_COLL) {
        c = (struct bb_choice){.kind = BB_CHOICE_COLLECTIVE, .channels = coll->channels, .warps = coll->warps};
        copy_string(c.algorithm, sizeof(c.algorithm), coll->algorithm);
        copy_string(c.protocol, sizeof(c.protocol), coll->protocol);
    } else if (type == BB_EVENT_P2P) {
        c.channels = p2p->channels;
    } else if (type == BB_EVENT_COPIES) {
        c = (struct bb_choice){.kind = BB_CHOICE_NONE, .copies = true};
    } else {
        return ncclSuccess;
    }
    record_choice(&c);
    return ncclSuccess;
}

static ncclResult_t start_v4(void *context, void **handle, struct bb_event_v4 *event)
{
    (void)context;
    return start_event(handle, event->type, &event->coll, &event->p2p);
}

static ncclResult_t start_v5(void *context, void **handle, struct bb_event_v5 *event)
{
    (void)context;
    return start_event(handle, event->type, &event->coll, &event->p2p);
}

static ncclResult_t start_v7(void *context, void **handle, struct bb_event_v5 *event)
{
    struct bb_choice c = {.kind = BB_CHOICE_NONE, .symmetric = true};

    if (event->type != BB_EVENT_COLL || !event->coll.symmetric)
        return start_v5(context, handle, event);
    *handle = NULL;
    copy_string(c.algorithm, sizeof(c.algorithm), event->coll.kernel);
    record_choice(&c);
    return ncclSuccess;
}

static ncclResult_t stop_event(void *handle)
{
    (void)handle;
    return ncclSuccess;
}

static ncclResult_t change_state(void *handle, int state, union bb_event_state *arguments)
{
    (void)handle, (void)state, (void)arguments;
    return ncclSuccess;
}

static ncclResult_t finalize_plugin(void *context)
{
    (void)context;
    atomic_fetch_sub(&plugin.comms, 1);
    return ncclSuccess;
}

const struct bb_profiler_v4 ncclProfiler_v4 = {.name = "busbar",
                                               .init = init_v4,
                                               .start = start_v4,
                                               .stop = stop_event,
                                               .state = change_state,
                                               .finalize = finalize_plugin};
const struct bb_profiler_v5 ncclProfiler_v5 = {.name = "busbar",
                                               .init = init_v5,
                                               .start = start_v5,
                                               .stop = stop_event,
                                               .state = change_state,
                                               .finalize = finalize_plugin};
extern const struct bb_profiler_v5 ncclProfiler_v6 __attribute__((alias("ncclProfiler_v5")));
const struct bb_profiler_v5 ncclProfiler_v7 = {.name = "busbar",
                                               .init = init_v5,
                                               .start = start_v7,
                                               .stop = stop_event,
                                               .state = change_state,
                                               .finalize = finalize_plugin};

/* ---- functions that busbar calls ---- */

const char *bb_profiler_enable(void)
{
    const char *given = getenv("NCCL_PROFILER_PLUGIN");
    void *other = given ? NULL : dlopen("libnccl-profiler.so", RTLD_LAZY);

    if ((given && strcmp(given, "STATIC_PLUGIN") != 0) || setenv("NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN", 1) != 0)
        return "algorithm and protocol are not reported: NCCL_PROFILER_PLUGIN names another plugin";
    if (!other)
        return NULL;
    dlclose(other);
    return "libnccl-profiler.so is not used: busbar is NCCL's profiler plugin, to report algorithm and protocol; to "
           "use the library instead: NCCL_PROFILER_PLUGIN=libnccl-profiler.so";
}

int bb_profiler_attached(void)
{
    return atomic_load(&plugin.comms);
}

static void set_event_mask(int events)
{
    int *mask = atomic_load(&plugin.mask);

    if (mask)
        __atomic_store_n(mask, events, __ATOMIC_SEQ_CST);
}

void bb_profiler_begin(void)
{
    atomic_store(&plugin.first, atomic_load(&plugin.taken));
    if (bb_profiler_attached() == 0)
        return;
    atomic_store(&plugin.active, true);
    set_event_mask(WANTED);
}

/* Of several events, the last collective counts. Without a collective, the last of the sends and receives with the most
 * channels counts. */
void bb_profiler_end(struct bb_choice *choice)
{
    uint64_t first = atomic_load(&plugin.first), last;
    struct bb_choice event;

    *choice = (struct bb_choice){.kind = BB_CHOICE_NONE};
    if (!atomic_exchange(&plugin.active, false))
        return;
    set_event_mask(0);
    last = atomic_load(&plugin.taken);
    for (uint64_t i = first; i < last && i < first + SLOTS; i++)
        if (read_slot(i, &event) && (event.kind == BB_CHOICE_COLLECTIVE ||
                                     (choice->kind != BB_CHOICE_COLLECTIVE && event.channels >= choice->channels)))
            *choice = event;
}
