/* device_gin.cpp - see device_gin.h. */
#include "device_gin.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#if NCCL_VERSION_CODE >= 23007 && NCCL_VERSION_CODE < 23300 && __has_include(<nccl_device.h>)
#include "bootstrap/base/clock.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <nccl_device.h>
#include <nccl_device/gin/proxy/gin_proxy_device_host_common.h>
#pragma GCC diagnostic pop

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CONTEXTS = 2, QUEUE = 64 };

/* Words of a signal in the memory of its rank, each with an array for the signals of a context. OFFSET: value at the last
 * reset; KIND: whether additions or increments changed it since. */
enum { VALUE, OFFSET, KIND, WORDS };
enum { UNCHANGED, ADDED, INCREMENTED };

/* Requests of a queue that are being completed. */
struct batch {
    unsigned n, left; /* number of requests, and of those that are not complete */
    bool done[QUEUE];
    int64_t next_ns; /* when the next one may be completed */
};

struct en_gin {
    struct en_gin_setup setup;
    ncclGinProxyGpuCtx_t contexts[CONTEXTS];
    int n_signals;         /* of a context, with those of the barriers */
    uint64_t *shadows;     /* [CONTEXTS][n_signals] */
    struct batch *batches; /* [ranks][CONTEXTS] */
    pthread_t thread;
    bool stop;
};

bool en_has_gin(void)
{
    return true;
}

static int signals_of(const struct en_gin_setup *s)
{
    return s->signals + (s->world_barriers + s->hybrid_barriers) * s->ranks +
           s->hybrid_barriers * s->ranks / s->node_ranks;
}

size_t en_gin_bytes(const struct en_gin_setup *s)
{
    return sizeof(uint64_t) * WORDS * CONTEXTS * (size_t)signals_of(s);
}

[[noreturn]] static void __attribute__((format(printf, 1, 2))) die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("emulated GPUs: GIN: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

static int64_t now_ns()
{
    return (int64_t)(1e9 * bb_now_s());
}

/* ---- requests ---- */

static char *memory_at(uint64_t window, int rank, uint64_t offset, uint64_t bytes)
{
    const struct en_gin_memory *m = reinterpret_cast<const struct en_gin_memory *>(window);

    if (offset + bytes > m->bytes)
        die("a put of %llu bytes at offset %llu is outside of its window of %zu bytes", (unsigned long long)bytes,
            (unsigned long long)offset, m->bytes);
    return m->base + (size_t)rank * m->stride + offset;
}

static uint64_t *words_of(const struct en_gin *g, int rank, int context, int word)
{
    const struct en_gin_memory *m = &g->setup.memory;

    return reinterpret_cast<uint64_t *>(m->base + (size_t)rank * m->stride) +
           (size_t)(context * WORDS + word) * (size_t)g->n_signals;
}

/* NCCL: "Inc may not be mixed with other signal operators without an intervening reset()". */
static void check_kind(const struct en_gin *g, int context, int peer, unsigned id, bool increment)
{
    uint64_t *kind = &words_of(g, peer, context, KIND)[id];
    const uint64_t now = increment ? INCREMENTED : ADDED, before = __atomic_exchange_n(kind, now, __ATOMIC_SEQ_CST);

    if (before != UNCHANGED && before != now &&
        __atomic_load_n(&words_of(g, peer, context, VALUE)[id], __ATOMIC_SEQ_CST) !=
            __atomic_load_n(&words_of(g, peer, context, OFFSET)[id], __ATOMIC_SEQ_CST))
        die("signal %u of rank %d: increments and additions without a reset between them", id, peer);
}

static void add_to_signal(const struct en_gin *g, int context, int peer, const ncclGinProxyQword_t *q, bool increment)
{
    const unsigned id = q[ncclGinProxyGfdCompletion].completion.signalId;
    const uint64_t value = (uint64_t)q[ncclGinProxyGfdCompletion].completion.signalValLow |
                           (uint64_t)q[ncclGinProxyGfdSignalVal].signalVal.signalValLow2 << 16 |
                           (uint64_t)q[ncclGinProxyGfdSignalVal].signalVal.signalValHigh << 32;

    if (id >= (unsigned)g->n_signals)
        die("signal %u of %d", id, g->n_signals);
    check_kind(g, context, peer, id, increment);
    __atomic_fetch_add(&words_of(g, peer, context, VALUE)[id], increment ? 1 : value, __ATOMIC_SEQ_CST);
}

static void complete(const struct en_gin *g, int context, int peer, const ncclGinProxyGfd_t *request)
{
    const ncclGinProxyQword_t *q = request->qword;
    const unsigned op = q[ncclGinProxyGfdHeaderExt].headerExt.op;
    const uint64_t bytes = q[ncclGinProxyGfdHeader].header.size;

    if (op & ~(unsigned)(ncclGinProxyOpPut | ncclGinProxyOpWithSignalInc | ncclGinProxyOpWithSignalAdd))
        die("operation %u is not emulated", op);
    if (bytes > 0) {
        const char *from = memory_at(q[ncclGinProxyGfdSrcHandle].srcHandle.srcHandle, g->setup.rank,
                                     q[ncclGinProxyGfdSrcOff].srcOff.srcOff, bytes);
        memcpy(memory_at(q[ncclGinProxyGfdDstHandle].dstHandle.dstHandle, peer, q[ncclGinProxyGfdDstOff].dstOff.dstOff,
                         bytes),
               from, bytes);
    }
    if (op & (ncclGinProxyOpWithSignalInc | ncclGinProxyOpWithSignalAdd))
        add_to_signal(g, context, peer, q, op & ncclGinProxyOpWithSignalInc);
}

static bool is_strong(const ncclGinProxyGfd_t *request)
{
    return request->qword[ncclGinProxyGfdSignalVal].signalVal.isStrongSignal;
}

/* Each word of a request that is written completely has its flag. */
static bool is_written(const ncclGinProxyGfd_t *request)
{
    uint64_t flags = 1;

    for (int i = 0; i < ncclGinProxyGfdQwords; i++)
        flags &= __atomic_load_n(&reinterpret_cast<const uint64_t *>(request)[i], __ATOMIC_SEQ_CST);
    return flags;
}

/* A late network is later to ranks with an odd number, so that messages of several ranks come in any order. */
static int64_t late_ns(const struct en_gin *g, int peer)
{
    return g->setup.late_ns * (1 + peer % 2);
}

/* Completes the first or, with a late network, the last request of a batch that is not complete. A strong signal requires
 * all earlier requests. */
static void complete_next(const struct en_gin *g, int context, int peer, struct batch *b,
                          const ncclGinProxyGfd_t *queue, uint32_t first)
{
    unsigned i = g->setup.late_ns > 0 ? b->n - 1 : 0;

    while (b->done[i])
        i += g->setup.late_ns > 0 ? -1u : 1;
    for (unsigned j = is_strong(&queue[(first + i) % QUEUE]) ? 0 : i; j <= i; j++)
        if (!b->done[j]) {
            complete(g, context, peer, &queue[(first + j) % QUEUE]);
            b->done[j] = true;
            b->left--;
        }
    b->next_ns = now_ns() + late_ns(g, peer);
}

static unsigned count_written(const ncclGinProxyGfd_t *queue, uint32_t first, uint32_t past)
{
    unsigned n = 0;

    while (first + n != past && n < QUEUE && is_written(&queue[(first + n) % QUEUE]))
        n++;
    return n;
}

/* Serves one queue: the requests that it contains are a batch. A late network completes one at a time. */
static void serve(struct en_gin *g, int context, int peer)
{
    ncclGinProxyGpuCtx_t *c = &g->contexts[context];
    ncclGinProxyGfd_t *queue = &c->queues[(size_t)peer * QUEUE];
    struct batch *b = &g->batches[peer * CONTEXTS + context];
    const uint32_t first = c->cis[peer];

    if (b->n == 0) {
        *b = {};
        b->n = b->left = count_written(queue, first, __atomic_load_n(&c->pis[peer], __ATOMIC_SEQ_CST));
        b->next_ns = now_ns() + late_ns(g, peer);
    }
    while (b->left > 0 && now_ns() >= b->next_ns)
        complete_next(g, context, peer, b, queue, first);
    if (b->n == 0 || b->left > 0)
        return;
    for (unsigned i = 0; i < b->n; i++)
        memset(&queue[(first + i) % QUEUE], 0, sizeof *queue);
    __atomic_store_n(&c->cis[peer], first + b->n, __ATOMIC_SEQ_CST);
    b->n = 0;
}

static void *run_proxy(void *arg)
{
    struct en_gin *g = static_cast<struct en_gin *>(arg);
    const struct timespec pause = {0, 20000};

    while (!__atomic_load_n(&g->stop, __ATOMIC_SEQ_CST)) {
        for (int context = 0; context < CONTEXTS; context++)
            for (int peer = 0; peer < g->setup.ranks; peer++)
                serve(g, context, peer);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* ---- lifetime ---- */

template <typename T> static bool make(T **out, size_t n)
{
    *out = static_cast<T *>(calloc(n, sizeof(T)));
    return *out;
}

static bool make_context(struct en_gin *g, int context)
{
    ncclGinProxyGpuCtx_t *c = &g->contexts[context];
    const size_t ranks = (size_t)g->setup.ranks;

    c->nranks = g->setup.ranks;
    c->queueSize = QUEUE;
    c->signals = words_of(g, g->setup.rank, context, VALUE);
    c->signalOffsets = words_of(g, g->setup.rank, context, OFFSET);
    c->queues =
        static_cast<ncclGinProxyGfd_t *>(aligned_alloc(alignof(ncclGinProxyGfd_t), ranks * QUEUE * sizeof *c->queues));
    if (c->queues)
        memset(c->queues, 0, ranks * QUEUE * sizeof *c->queues);
    return c->queues && make(&c->pis, ranks) && make(&c->cis, ranks) && make(&c->lastIssuedGet, ranks) &&
           make(&c->lastVisibleGet, ranks) && make(&c->counters, 1);
}

void en_gin_free(struct en_gin *g)
{
    if (!g)
        return;
    if (g->thread) {
        __atomic_store_n(&g->stop, true, __ATOMIC_SEQ_CST);
        pthread_join(g->thread, NULL);
    }
    for (ncclGinProxyGpuCtx_t &c : g->contexts)
        for (void *p : {(void *)c.queues, (void *)c.pis, (void *)c.cis, (void *)c.lastIssuedGet,
                        (void *)c.lastVisibleGet, (void *)c.counters})
            free(p);
    free(g->shadows);
    free(g->batches);
    free(g);
}

struct en_gin *en_gin_new(const struct en_gin_setup *setup)
{
    struct en_gin *g;
    bool ok = make(&g, 1);

    if (!ok)
        return NULL;
    g->setup = *setup;
    g->n_signals = signals_of(setup);
    ok = make(&g->shadows, (size_t)(CONTEXTS * g->n_signals)) && make(&g->batches, (size_t)(CONTEXTS * setup->ranks));
    for (int i = 0; i < CONTEXTS && ok; i++)
        ok = make_context(g, i);
    if (ok && pthread_create(&g->thread, NULL, run_proxy, g) == 0)
        return g;
    g->thread = 0;
    en_gin_free(g);
    return NULL;
}

/* The program's signals begin at 0, those of the barriers follow. */
void en_gin_write(const struct en_gin *g, void *device_comm)
{
    struct ncclDevComm *c = static_cast<struct ncclDevComm *>(device_comm);
    const struct en_gin_setup *s = &g->setup;

    c->ginConnectionCount = 1;
    c->ginNetDeviceTypes[0] = NCCL_NET_DEVICE_GIN_PROXY;
    c->ginHandles[0] = const_cast<ncclGinProxyGpuCtx_t *>(g->contexts);
    c->ginSignalCount = g->n_signals;
    c->ginSignalShadows = g->shadows;
    c->ginContextCount = CONTEXTS;
    c->ginStrongLegacySignals = true;
    c->worldGinBarrier.signal0 = (ncclGinSignal_t)s->signals;
    c->hybridRailGinBarrier.signal0 =
        c->worldGinBarrier.signal0 + (ncclGinSignal_t)((s->world_barriers + s->hybrid_barriers) * s->ranks);
#if NCCL_VERSION_CODE >= 23100
    c->ginConnectionStride = c->ginContextStride = 1;
    c->ginConnectionStride_rcp32 = nccl::utility::idivRcp32(1);
    c->hybridDenseGinBarrier.signal0 = c->worldGinBarrier.signal0 + (ncclGinSignal_t)(s->world_barriers * s->ranks);
#else
    c->hybridWorldGinBarrier.signal0 = c->worldGinBarrier.signal0 + (ncclGinSignal_t)(s->world_barriers * s->ranks);
#endif
}
#else
bool en_has_gin(void)
{
    return false;
}

size_t en_gin_bytes(const struct en_gin_setup *)
{
    return 0;
}

struct en_gin *en_gin_new(const struct en_gin_setup *)
{
    return NULL;
}

void en_gin_free(struct en_gin *)
{
}

void en_gin_write(const struct en_gin *, void *)
{
}
#endif
