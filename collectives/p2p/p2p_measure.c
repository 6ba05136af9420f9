/*
 * p2p_measure.c - the timed loop of a pair.
 *
 * A sample is `iterations` operations back to back on one stream between two events; one operation before the first
 * event gathers the two ranks. The slower of the two counts. The very last message goes to an area of its own that held
 * no data before, so what is verified is a timed message.
 */
#include "collectives/p2p/p2p_measure.h"

#include "bootstrap/base/units.h"
#include "cuda/device/check.h"
#include "cuda/device/stream.h"

#include <math.h>
#include <stdlib.h>

enum { GUARD = 512, CANARY = 0x5a }; /* bytes behind a message that must stay, and what they hold */

const struct bb_p2p_figure bb_p2p_figures[BB_P2P_KINDS] = {
    [BB_P2P_LATENCY_ONE] =
        {.figure = "latency", .direction = "one", .title = "latency, half a round trip", .unit = "us", .messages = 2},
    [BB_P2P_LATENCY_BOTH] =
        {.figure = "latency", .direction = "both", .title = "latency, both send at once", .unit = "us", .messages = 1},
    [BB_P2P_BANDWIDTH_ONE] = {.figure = "bandwidth",
                              .direction = "one",
                              .title = "bandwidth, one direction, from the row to the column",
                              .unit = "GB/s",
                              .is_bandwidth = true,
                              .is_directed = true,
                              .messages = 1,
                              .bytes_factor = 1},
    [BB_P2P_BANDWIDTH_BOTH] = {.figure = "bandwidth",
                               .direction = "both",
                               .title = "bandwidth, both directions at once, their sum",
                               .unit = "GB/s",
                               .is_bandwidth = true,
                               .messages = 1,
                               .bytes_factor = 2},
};

/* ---- the rig ---- */

size_t bb_p2p_context_bytes(size_t bytes)
{
    return 3 * bb_guarded_cost(bytes + GUARD);
}

static int wait_for_stream(struct bb_p2p_context *rig, const char *what)
{
    return bb_stream_wait(rig->world, rig->stream, what, NULL, NULL);
}

int bb_p2p_context_init(struct bb_p2p_context *rig, size_t bytes)
{
    size_t size = (size_t)rig->world->size, repeats = (size_t)rig->repeats;
    int rc;

    bb_nvtx_init(&rig->nvtx);
    rig->samples = calloc(repeats, sizeof *rig->samples);
    rig->gathered = calloc(size * repeats, sizeof *rig->gathered);
    rig->findings = calloc(size, sizeof *rig->findings);
    if (!rig->samples || !rig->gathered || !rig->findings)
        return bb_err(BB_EFAIL, "no memory for %zu samples of %zu ranks", repeats, size);
    TRY(BB_CUDA(cudaStreamCreateWithFlags(&rig->stream, cudaStreamNonBlocking)));
    TRY(BB_CUDA(cudaEventCreate(&rig->start)));
    TRY(BB_CUDA(cudaEventCreate(&rig->stop)));
    TRY(BB_CUDA(cudaMalloc((void **)&rig->verdict, sizeof *rig->verdict)));
    TRY(bb_guarded_init(&rig->send, bytes + GUARD, rig->stream));
    TRY(bb_guarded_init(&rig->recv, bytes + GUARD, rig->stream));
    TRY(bb_guarded_init(&rig->last, bytes + GUARD, rig->stream));
    bb_nvtx_name_stream(&rig->nvtx, rig->stream, "p2p");
    TRY(wait_for_stream(rig, "preparation of buffers"));
out:
    return rc;
}

void bb_p2p_context_release(struct bb_p2p_context *rig)
{
    bb_guarded_release(&rig->last);
    bb_guarded_release(&rig->recv);
    bb_guarded_release(&rig->send);
    if (rig->verdict)
        (void)cudaFree(rig->verdict);
    bb_event_destroy(rig->stop);
    bb_event_destroy(rig->start);
    bb_stream_destroy(rig->stream);
    bb_nvtx_release(&rig->nvtx);
    free(rig->findings);
    free(rig->gathered);
    free(rig->samples);
    *rig = (struct bb_p2p_context){0};
}

/* ---- messages ---- */

/* A pair's operation from the side of one rank. */
struct side {
    struct bb_p2p_context *rig;
    const struct bb_p2p_run *run;
    int partner;
    bool begins;
};

static int send_one(const struct side *s)
{
    return BB_NCCL(
        ncclSend(s->rig->send.area, s->run->bytes, ncclInt8, s->partner, s->rig->comm->nccl, s->rig->stream));
}

static int recv_one(const struct side *s, void *to)
{
    return BB_NCCL(ncclRecv(to, s->run->bytes, ncclInt8, s->partner, s->rig->comm->nccl, s->rig->stream));
}

static int one_way(const struct side *s, void *to)
{
    return s->begins ? send_one(s) : recv_one(s, to);
}

static int ping_pong(const struct side *s, void *to)
{
    int rc;

    TRY(s->begins ? send_one(s) : recv_one(s, to));
    TRY(bb_comm_poll(s->rig->comm, "ping"));
    TRY(s->begins ? recv_one(s, to) : send_one(s));
out:
    return rc;
}

static int exchange_messages(const struct side *s, void *to)
{
    int rc;

    TRY(BB_NCCL(ncclGroupStart()));
    rc = send_one(s);
    if (rc == 0)
        rc = recv_one(s, to);
    if (rc == 0)
        rc = BB_NCCL(ncclGroupEnd());
    else
        (void)ncclGroupEnd();
out:
    return rc;
}

static int (*const operations[BB_P2P_KINDS])(const struct side *, void *) = {
    [BB_P2P_LATENCY_ONE] = ping_pong,
    [BB_P2P_LATENCY_BOTH] = exchange_messages,
    [BB_P2P_BANDWIDTH_ONE] = one_way,
    [BB_P2P_BANDWIDTH_BOTH] = exchange_messages,
};

/* ends_run: the last of them goes to the area that is verified. A blocking call is watched by the watchdog. */
static int issue_messages(const struct side *s, int n, bool ends_run)
{
    struct bb_p2p_context *rig = s->rig;
    int rc = 0;

    bb_world_guard(rig->world, "messages of a pair");
    for (int i = 0; i < n && rc == 0; i++) {
        rc = operations[s->run->kind](s, ends_run && i == n - 1 ? rig->last.area : rig->recv.area);
        if (rc == 0)
            rc = bb_comm_poll(rig->comm, "messages of a pair");
    }
    bb_world_unguard(rig->world);
    return rc;
}

static int take_sample(const struct side *s, bool ends_run, double *us)
{
    struct bb_p2p_context *rig = s->rig;
    int rc;

    TRY(issue_messages(s, 1, false));
    TRY(BB_CUDA(cudaEventRecord(rig->start, rig->stream)));
    TRY(issue_messages(s, rig->iterations, ends_run));
    TRY(BB_CUDA(cudaEventRecord(rig->stop, rig->stream)));
    TRY(bb_comm_wait(rig->comm, rig->stream, "timed messages"));
    TRY(bb_event_us(rig->start, rig->stop, us));
    *us /= rig->iterations * bb_p2p_figures[s->run->kind].messages;
out:
    return rc;
}

/* ---- data ---- */

/* Whole words where the message has them. */
static const struct bb_dtype *element_of(size_t bytes)
{
    return &bb_dtypes[bytes % 8 == 0 ? BB_UINT64 : BB_UINT8];
}

static struct bb_pattern pattern_of(const struct side *s)
{
    return bb_pattern_of(element_of(s->run->bytes), BB_COPY, s->rig->world->size, bb_mix(s->rig->passes + 1));
}

static bool is_receiver(const struct side *s)
{
    return s->run->kind != BB_P2P_BANDWIDTH_ONE || !s->begins;
}

static int prepare_data(const struct side *s)
{
    struct bb_p2p_context *rig = s->rig;
    const size_t count = s->run->bytes / element_of(s->run->bytes)->bytes;
    const struct bb_pattern pattern = pattern_of(s);
    int rc;

    TRY(bb_fill(rig->send.area, count, &pattern, rig->world->rank, 0, rig->stream));
    TRY(BB_CUDA(cudaMemsetAsync(rig->last.area, CANARY, s->run->bytes + GUARD, rig->stream)));
out:
    return rc;
}

/* The message that the partner sent, and behind it what was there before. */
static int verify_message(const struct side *s, struct bb_p2p_finding *finding)
{
    struct bb_p2p_context *rig = s->rig;
    const size_t count = s->run->bytes / element_of(s->run->bytes)->bytes;
    const struct bb_pattern pattern = pattern_of(s);
    const struct bb_expect expect = {.source = s->partner, .block = count};
    struct bb_verdict verdict = {0};
    int rc;

    TRY(bb_verdict_clear(rig->verdict, rig->stream));
    TRY(bb_check(rig->last.area, count, &pattern, &expect, rig->verdict, rig->stream));
    TRY(bb_check_bytes(rig->last.area + s->run->bytes, GUARD, CANARY, rig->verdict, rig->stream));
    TRY(wait_for_stream(rig, "check of a message"));
    TRY(BB_CUDA(cudaMemcpy(&verdict, rig->verdict, sizeof verdict, cudaMemcpyDeviceToHost)));
    finding->wrong = verdict.wrong;
    finding->checked = verdict.checked == count + GUARD;
    if (!finding->checked && !(rig->device->emulated && verdict.checked == 0)) /* emulated GPUs without data */
        rc = bb_err(BB_EFAIL, "the check compared %llu of %zu elements", verdict.checked, count + GUARD);
out:
    return rc;
}

/* ---- a run of all pairs ---- */

static int measure_pair(const struct side *s, struct bb_p2p_finding *finding)
{
    struct bb_p2p_context *rig = s->rig;
    int rc;

    if (rig->check)
        TRY(prepare_data(s));
    bb_telemetry_warmup(rig->observer);
    TRY(issue_messages(s, rig->warmup, false));
    bb_telemetry_start(rig->observer, &finding->seen);
    for (int i = 0; i < rig->repeats; i++)
        TRY(take_sample(s, i == rig->repeats - 1, &rig->samples[i]));
    bb_telemetry_stop(rig->observer, &finding->seen);
    if (rig->check && is_receiver(s))
        TRY(verify_message(s, finding));
out:
    return rc;
}

static int measure_side(const struct side *s, struct bb_p2p_finding *finding)
{
    char size[BB_BYTES_TEXT];
    const struct bb_p2p_figure *f = &bb_p2p_figures[s->run->kind];
    struct bb_range range;
    int rc;

    bb_range_init(&s->rig->nvtx, &range, 0, s->run->bytes, "p2p %s %s %s with %d", f->figure, f->direction,
                  bb_format_bytes(s->run->bytes, size), s->partner);
    bb_range_push(&s->rig->nvtx, &range);
    rc = measure_pair(s, finding);
    bb_range_pop(&s->rig->nvtx);
    return rc;
}

int bb_p2p_measure(struct bb_p2p_context *rig, const struct bb_p2p_run *run, int partner)
{
    const struct side side = {rig, run, partner, (rig->world->rank < partner) != run->reversed};
    struct bb_p2p_finding finding = {0};
    int rc;

    rig->passes++;
    for (int i = 0; i < rig->repeats; i++)
        rig->samples[i] = NAN;
    TRY(bb_world_barrier(rig->world, "start of a round"));
    if (partner >= 0)
        TRY(measure_side(&side, &finding));
    TRY(bb_world_allgather(rig->world, rig->samples, rig->gathered, (size_t)rig->repeats * sizeof *rig->samples));
    TRY(bb_world_allgather(rig->world, &finding, rig->findings, sizeof finding));
out:
    return rc;
}

void bb_p2p_pair(const struct bb_p2p_context *rig, int a, int b, double *samples)
{
    const size_t repeats = (size_t)rig->repeats;

    for (size_t i = 0; i < repeats; i++)
        samples[i] = fmax(rig->gathered[(size_t)a * repeats + i], rig->gathered[(size_t)b * repeats + i]);
}
