/*
 * copy_measure.c - see copy_measure.h. A sample is the time of several copies back to back on one stream between two CUDA
 * events; the second direction runs on a second stream, which the last event waits for.
 */
#include "collectives/copy/copy_measure.h"

#include "bootstrap/base/alloc.h"
#include "collectives/p2p/pair_schedule.h"
#include "cuda/compute/layer_memory_kernels.h"
#include "cuda/data/kernels.h"
#include "cuda/device/check.h"
#include "cuda/device/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#define HOST .link = "host"
#define PEER .link = "peer", .memory = "device"
#define IN   .direction = "to_gpu", .into = true
#define OUT  .direction = "from_gpu", .out = true

const struct bb_copy_case bb_copy_cases[BB_COPIES] = {
    [BB_COPY_TO_GPU] = {"host to GPU", HOST, IN, .engine = "copy", .memory = "pinned"},
    [BB_COPY_FROM_GPU] = {"GPU to host", HOST, OUT, .engine = "copy", .memory = "pinned"},
    [BB_COPY_BOTH] = {"host, both directions, sum", HOST, .direction = "both", .into = true, .out = true,
                      .engine = "copy", .memory = "pinned"},
    [BB_COPY_PAGEABLE_TO_GPU] = {"host to GPU, pageable", HOST, IN, .engine = "copy", .memory = "pageable",
                                 .unjudged = true},
    [BB_COPY_PAGEABLE_FROM_GPU] = {"GPU to host, pageable", HOST, OUT, .engine = "copy", .memory = "pageable",
                                   .unjudged = true},
    [BB_COPY_KERNEL_TO_GPU] = {"host to GPU, kernel", HOST, IN, .engine = "kernel", .memory = "pinned"},
    [BB_COPY_KERNEL_FROM_GPU] = {"GPU to host, kernel", HOST, OUT, .engine = "kernel", .memory = "pinned"},
    [BB_COPY_ALL_TO_GPU] = {"host to all GPUs", HOST, IN, .engine = "copy", .memory = "pinned", .concurrent = true,
                            .unjudged = true},
    [BB_COPY_ALL_FROM_GPU] = {"all GPUs to host", HOST, OUT, .engine = "copy", .memory = "pinned", .concurrent = true,
                              .unjudged = true},
    [BB_COPY_PEER_WRITE] = {"GPU to GPU, write", PEER, .direction = "write", .out = true, .engine = "copy"},
    [BB_COPY_PEER_READ] = {"GPU to GPU, read", PEER, .direction = "read", .into = true, .engine = "copy"},
    [BB_COPY_PEER_KERNEL_WRITE] = {"GPU to GPU, kernel writes", PEER, .direction = "write", .out = true,
                                   .engine = "kernel"},
    [BB_COPY_PEER_KERNEL_READ] = {"GPU to GPU, kernel reads", PEER, .direction = "read", .into = true,
                                  .engine = "kernel"},
    [BB_COPY_PEER_BOTH] = {"GPU to GPU, while both write", PEER, .direction = "both", .out = true, .engine = "copy",
                           .concurrent = true},
};

bool bb_copy_has_peer(const struct bb_copy_case *k)
{
    return strcmp(k->link, "peer") == 0;
}

/* ---- init and release ---- */

size_t bb_copies_bytes(size_t bytes)
{
    return 2 * bytes;
}

static void number_gpus(struct bb_copies *c)
{
    const struct bb_world *w = &c->session->world;
    int *n;

    BB_NEW(n, w->nodes);
    BB_NEW(c->index, w->size);
    for (int r = 0; r < w->size; r++) {
        c->index[r] = n[w->node_of[r]]++;
        c->gpus = MAX(c->gpus, n[w->node_of[r]]);
    }
    BB_NEW(c->rank_at, w->nodes * c->gpus);
    memset(c->rank_at, -1, (size_t)(w->nodes * c->gpus) * sizeof *c->rank_at);
    for (int r = 0; r < w->size; r++)
        c->rank_at[w->node_of[r] * c->gpus + c->index[r]] = r;
    free(n);
}

/* The exported memory of a rank; is_valid: false where the GPU has no such handles (MIG, some virtual machines). */
struct handle {
    cudaIpcMemHandle_t memory;
    bool is_valid;
};

/* Opens the memory of the other GPUs of the node. GPUs without a path between them have none. */
static int open_peers(struct bb_copies *c)
{
    struct bb_world *w = &c->session->world;
    struct handle own = {0}, *all;
    int rc;

    own.is_valid = cudaIpcGetMemHandle(&own.memory, c->exported) == cudaSuccess;
    all = bb_world_gather(w, &own, sizeof own, &rc);
    TRY(rc);
    BB_NEW(c->peer, w->local_size);
    for (int r = 0; r < w->size; r++) {
        void *at = NULL;

        if (r != w->rank && w->node_of[r] == w->node_of[w->rank] && all[r].is_valid && !c->session->shared_gpu &&
            cudaIpcOpenMemHandle(&at, all[r].memory, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess)
            c->peer[c->index[r]] = at;
    }
    (void)cudaGetLastError(); /* an error of the two calls is an answer */
out:
    free(all);
    return rc;
}

int bb_copies_init(struct bb_copies *c, struct bb_session *s, size_t bytes, int iterations, int repeats, int warmup)
{
    int rc;

    *c = (struct bb_copies){
        .session = s, .bytes = bytes, .iterations = iterations, .repeats = repeats, .warmup = warmup};
    number_gpus(c);
    BB_NEW(c->samples, repeats);
    TRY(BB_CUDA(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking)));
    TRY(BB_CUDA(cudaStreamCreateWithFlags(&c->second, cudaStreamNonBlocking)));
    TRY(BB_CUDA(cudaEventCreate(&c->start)));
    TRY(BB_CUDA(cudaEventCreate(&c->stop)));
    TRY(BB_CUDA(cudaEventCreate(&c->joined)));
    TRY(BB_CUDA(cudaMalloc((void **)&c->exported, bytes)));
    TRY(BB_CUDA(cudaMalloc((void **)&c->device, bytes)));
    TRY(BB_CUDA(cudaMalloc((void **)&c->verdict, sizeof *c->verdict)));
    TRY(BB_CUDA(cudaHostAlloc((void **)&c->pinned, 2 * bytes, cudaHostAllocMapped)));
    TRY(open_peers(c));
out:
    return rc;
}

int bb_copies_release(struct bb_copies *c)
{
    int rc = 0;

    for (int i = 0; c->peer && i < c->session->world.local_size; i++)
        if (c->peer[i])
            (void)cudaIpcCloseMemHandle(c->peer[i]);
    if (c->pinned)
        (void)cudaFreeHost(c->pinned);
    if (c->device)
        (void)cudaFree(c->device);
    if (c->verdict)
        (void)cudaFree(c->verdict);
    if (c->peer)
        rc = bb_world_barrier(&c->session->world, "closing the memory of other GPUs");
    if (c->exported)
        (void)cudaFree(c->exported);
    bb_event_destroy(c->joined);
    bb_event_destroy(c->stop);
    bb_event_destroy(c->start);
    bb_stream_destroy(c->second);
    bb_stream_destroy(c->stream);
    free(c->peer);
    free(c->pageable);
    free(c->samples);
    free(c->rank_at);
    free(c->index);
    *c = (struct bb_copies){0};
    return rc;
}

/* ---- one GPU ---- */

static int enqueue_copy(const struct bb_copies *c, const struct bb_copy_case *k, char *to, const char *from,
                        cudaStream_t stream)
{
    const struct bb_memory_kernel kernel = {.kind = BB_MEMORY_KERNEL_COPY,
                                            .dtype = BB_FLOAT,
                                            .rows = 1,
                                            .cols = c->bytes / sizeof(float),
                                            .in = from,
                                            .out = to};

    if (strcmp(k->engine, "kernel") == 0)
        return bb_memory_kernel_run(&kernel, stream);
    return BB_CUDA(cudaMemcpyAsync(to, from, c->bytes, cudaMemcpyDefault, stream));
}

/* Enqueues n copies of each direction. far: memory of the host or of the other GPU. */
static int enqueue_copies(const struct bb_copies *c, const struct bb_copy_case *k, char *far, int n)
{
    const bool both = k->into && k->out;
    int rc = 0;

    for (int i = 0; i < n; i++) {
        if (k->into)
            TRY(enqueue_copy(c, k, c->device, far, c->stream));
        if (k->out)
            TRY(enqueue_copy(c, k, both ? far + c->bytes : far, both ? c->exported : c->device,
                             both ? c->second : c->stream));
    }
out:
    return rc;
}

static int take_sample(const struct bb_copies *c, const struct bb_copy_case *k, char *far, int n, double *us)
{
    const bool both = k->into && k->out;
    int rc;

    TRY(BB_CUDA(cudaEventRecord(c->start, c->stream)));
    if (both)
        TRY(BB_CUDA(cudaStreamWaitEvent(c->second, c->start, 0)));
    TRY(enqueue_copies(c, k, far, n));
    if (both) {
        TRY(BB_CUDA(cudaEventRecord(c->joined, c->second)));
        TRY(BB_CUDA(cudaStreamWaitEvent(c->stream, c->joined, 0)));
    }
    TRY(BB_CUDA(cudaEventRecord(c->stop, c->stream)));
    TRY(bb_event_wait(&c->session->world, c->stop, k->name, NULL, NULL));
    TRY(bb_event_us(c->start, c->stop, us));
out:
    return rc;
}

/* ---- verification ---- */

/* What one rank measured with one partner. */
struct result {
    struct bb_stats time_us;  /* of one copy, or of one in each direction */
    unsigned long long wrong; /* elements of the last copy that differ */
};

/* Returns the test data of the next measurement, which differ from those of all earlier ones. */
static struct bb_pattern next_pattern(struct bb_copies *c)
{
    const struct bb_world *w = &c->session->world;

    return bb_pattern_of(&bb_dtypes[BB_FLOAT], BB_COPY, w->size, bb_mix(++c->measured));
}

/* Writes the test data to the sources. Pageable memory, which kernels cannot access, gets them from pinned memory. */
static int fill_sources(const struct bb_copies *c, const struct bb_copy_case *k, char *far,
                        const struct bb_pattern *pattern)
{
    const size_t count = c->bytes / sizeof(float);
    const bool both = k->into && k->out;
    int rc = 0;

    if (k->into)
        TRY(bb_fill(far == c->pageable ? c->pinned : far, count, pattern, 0, 0, c->stream));
    if (k->out)
        TRY(bb_fill(both ? c->exported : c->device, count, pattern, 1, 0, c->stream));
    TRY(bb_stream_wait(&c->session->world, c->stream, "the test data", NULL, NULL));
    if (k->into && far == c->pageable)
        memcpy(c->pageable, c->pinned, c->bytes);
out:
    return rc;
}

/* Compares the destinations with the sources. wrong: out */
static int check_copies(const struct bb_copies *c, const struct bb_copy_case *k, char *far,
                        const struct bb_pattern *pattern, unsigned long long *wrong)
{
    const size_t count = c->bytes / sizeof(float);
    char *to = far == c->pageable ? c->pinned : k->into ? far + c->bytes : far;
    struct bb_verdict verdict;
    int rc;

    if (far == c->pageable && k->out)
        memcpy(c->pinned, c->pageable, c->bytes);
    TRY(bb_verdict_clear(c->verdict, c->stream));
    if (k->into)
        TRY(bb_check(c->device, count, pattern, &(struct bb_expect){.source = 0, .block = count}, c->verdict,
                     c->stream));
    if (k->out)
        TRY(bb_check(to, count, pattern, &(struct bb_expect){.source = 1, .block = count}, c->verdict, c->stream));
    TRY(bb_stream_wait(&c->session->world, c->stream, "the check of the copied data", NULL, NULL));
    TRY(BB_CUDA(cudaMemcpy(&verdict, c->verdict, sizeof verdict, cudaMemcpyDeviceToHost)));
    if (verdict.checked != count * ((k->into ? 1 : 0) + (k->out ? 1 : 0)))
        rc = bb_err(BB_EFAIL, "verification compared only %llu elements of %s", verdict.checked, k->name);
    *wrong = verdict.wrong;
out:
    return rc;
}

/* Measures with one partner, and verifies the last copy. */
static int measure_here(struct bb_copies *c, const struct bb_copy_case *k, char *far, struct result *result)
{
    const struct bb_pattern pattern = next_pattern(c);
    const bool moves_data = bb_session_moves_data(c->session);
    double us;
    int rc = 0;

    if (moves_data)
        TRY(fill_sources(c, k, far, &pattern));
    if (c->warmup > 0)
        TRY(take_sample(c, k, far, c->warmup, &us));
    for (int i = 0; i < c->repeats; i++) {
        TRY(take_sample(c, k, far, c->iterations, &us));
        c->samples[i] = us / c->iterations;
    }
    bb_stats_compute(c->samples, (size_t)c->repeats, &result->time_us);
    if (moves_data)
        TRY(check_copies(c, k, far, &pattern, &result->wrong));
out:
    return rc;
}

/* ---- all GPUs, in turns ---- */

static int measure_host(struct bb_copies *c, const struct bb_copy_case *k, struct result *own)
{
    const bool is_pageable = strcmp(k->memory, "pageable") == 0;
    struct bb_world *w = &c->session->world;
    int rc = 0;

    if (is_pageable && !c->pageable) {
        BB_NEW(c->pageable, c->bytes);
        memset(c->pageable, 1, c->bytes); /* allocates the pages */
    }
    for (int turn = 0; turn < (k->concurrent ? 1 : c->gpus); turn++) {
        TRY(bb_world_barrier(w, "the next GPU"));
        if (k->concurrent || turn == w->local_rank)
            TRY(measure_here(c, k, is_pageable ? c->pageable : c->pinned, &own[0]));
    }
out:
    return rc;
}

/* Each pair of a node has two turns, one of each GPU, or one in which both copy. */
static int measure_peers(struct bb_copies *c, const struct bb_copy_case *k, struct result *own)
{
    struct bb_world *w = &c->session->world;
    const struct bb_pair_schedule pairs = {w->local_size, true}, most = {c->gpus, true};
    const int index = w->local_rank;
    int rc = 0;

    for (int round = 0; round < bb_pair_schedule_rounds(&most); round++) {
        const int other = round < bb_pair_schedule_rounds(&pairs) ? bb_pair_schedule_partner(&pairs, round, index) : -1;

        for (int turn = 0; turn < (k->concurrent ? 1 : 2); turn++) {
            TRY(bb_world_barrier(w, "the next pair of GPUs"));
            if (other >= 0 && c->peer[other] && (k->concurrent || (index < other) == (turn == 0)))
                TRY(measure_here(c, k, c->peer[other], &own[other]));
        }
    }
out:
    return rc;
}

/* at: index of a rank and a partner, as for bb_copies_measure. Returns -BB_EDATA. */
static int report_wrong(struct bb_copies *c, const struct bb_copy_case *k, size_t at, unsigned long long wrong)
{
    const struct bb_world *w = &c->session->world;
    const int rank = c->wrong = (int)at / c->gpus;
    char peer[32] = "";

    if (bb_copy_has_peer(k))
        snprintf(peer, sizeof peer, " with GPU %d", (int)at % c->gpus);
    return BB_WORLD_ERR(w, BB_EDATA, "wrong data: %llu of %zu elements of the copy %s, GPU %d (%s) of %s%s", wrong,
                        c->bytes / sizeof(float) * (size_t)(k->into + k->out), k->name, c->index[rank],
                        c->session->devices[rank].pci, w->hosts[rank], peer);
}

int bb_copies_measure(struct bb_copies *c, enum bb_copy_id id, double *gbps, struct bb_stats *time_us)
{
    const struct bb_copy_case *k = &bb_copy_cases[id];
    const double bytes = (double)c->bytes * ((k->into ? 1 : 0) + (k->out ? 1 : 0));
    struct bb_world *w = &c->session->world;
    const size_t n = (size_t)w->size * (size_t)c->gpus;
    struct result *own, *all;
    int rc;

    BB_NEW(own, c->gpus);
    BB_NEW(all, n);
    for (int i = 0; i < c->gpus; i++)
        bb_stats_compute(NULL, 0, &own[i].time_us);
    bb_world_reached(w, "copies: %s", k->name);
    bb_progress_show(&c->session->progress, "%s", k->name);
    TRY(bb_copy_has_peer(k) ? measure_peers(c, k, own) : measure_host(c, k, own));
    TRY(bb_world_allgather(w, own, all, (size_t)c->gpus * sizeof *own));
    bb_progress_clear(&c->session->progress);
    for (size_t i = 0; i < n; i++) {
        gbps[i] = all[i].time_us.p50 > 0 ? bytes / all[i].time_us.p50 / 1e3 : NAN;
        if (time_us)
            time_us[i] = all[i].time_us;
        if (all[i].wrong > 0 && rc == 0)
            rc = report_wrong(c, k, i, all[i].wrong);
    }
out:
    free(all);
    free(own);
    return rc;
}
