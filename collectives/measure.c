/*
 * measure.c - the timed loop.
 *
 * stream: a sample is `iterations` operations back to back on one stream between two events, divided by their number.
 * One operation runs before the first event: it gathers the ranks, so that a late rank costs no sample its time, and
 * fills the launch queue. Per sample the slowest rank counts, since a collective is done when all are.
 */
#include "collectives/measure.h"

#include "bootstrap/units.h"
#include "collectives/verify.h"
#include "cuda/check.h"
#include "cuda/stream.h"

#include <math.h>
#include <stdio.h>

size_t bb_case_slots(const struct bb_rig *rig, const struct bb_case *c)
{
    return rig->arena.bytes / bb_layout_of(c, rig->comm->rank).slot_bytes;
}

int bb_case_launch(struct bb_rig *rig, const struct bb_case *c, size_t slot)
{
    struct bb_layout l = bb_layout_of(c, rig->comm->rank);
    unsigned char *base = rig->arena.area + slot * l.slot_bytes;
    struct bb_call call = {.kind = c->kind,
                           .send = base + l.send_offset,
                           .recv = base + l.recv_offset,
                           .count = c->count,
                           .dtype = c->dtype,
                           .redop = c->redop,
                           .root = c->root,
                           .comm = rig->comm,
                           .stream = rig->stream,
                           .native = rig->native};

    return bb_launch(&call);
}

static int comm_health(void *arg)
{
    return bb_comm_check(arg);
}

int bb_rig_wait(struct bb_rig *rig, const char *what)
{
    return bb_stream_wait(rig->world, rig->stream, what, comm_health, rig->comm);
}

/* n operations from slot to slot; the very last one of the row goes to the last slot. */
static int enqueue(struct bb_rig *rig, const struct bb_case *c, size_t n, bool ends_row)
{
    size_t slots = bb_case_slots(rig, c);
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = bb_case_launch(rig, c, bb_slot_of(i, slots, ends_row && i == n - 1));
    return rc;
}

/* A blocking communicator may block inside a call: the guard is what ends the run then. */
static int enqueue_guarded(struct bb_rig *rig, const struct bb_case *c, size_t n)
{
    int rc;

    bb_world_guard(rig->world, bb_colls[c->kind].name);
    rc = enqueue(rig, c, n, false);
    bb_world_unguard(rig->world);
    return rc;
}

static int enqueue_sample(struct bb_rig *rig, const struct bb_case *c, bool ends_row)
{
    int rc;

    TRY(enqueue(rig, c, 1, false));
    TRY(BB_CUDA(cudaEventRecord(rig->start, rig->stream)));
    TRY(enqueue(rig, c, (size_t)rig->iterations, ends_row));
    TRY(BB_CUDA(cudaEventRecord(rig->stop, rig->stream)));
out:
    return rc;
}

static int one_sample(struct bb_rig *rig, const struct bb_case *c, bool ends_row, double *sample)
{
    float ms;
    int rc;

    TRY(bb_world_barrier(rig->world, "start of a sample"));
    bb_world_guard(rig->world, bb_colls[c->kind].name);
    rc = enqueue_sample(rig, c, ends_row);
    bb_world_unguard(rig->world);
    TRY(rc);
    TRY(bb_rig_wait(rig, "timed operations"));
    TRY(BB_CUDA(cudaEventElapsedTime(&ms, rig->start, rig->stop)));
    *sample = ms * 1e3 / rig->iterations;
out:
    return rc;
}

static int time_stream(struct bb_rig *rig, const struct bb_case *c, double *samples)
{
    int rc = 0;

    for (int r = 0; r < rig->repeats && rc == 0; r++)
        rc = one_sample(rig, c, r == rig->repeats - 1, &samples[r]);
    return rc;
}

const struct bb_mode bb_mode_stream = {
    .name = "stream", .help = "operations back to back on one stream", .time = time_stream};

/* Each sample becomes that of the slowest rank. */
static int slowest(struct bb_rig *rig)
{
    size_t n = (size_t)rig->repeats;
    int rc = bb_world_allgather(rig->world, rig->samples, rig->all_samples, n * sizeof *rig->samples);

    for (size_t r = 0; rc == 0 && r < (size_t)rig->world->size; r++)
        for (size_t i = 0; i < n; i++)
            rig->samples[i] = fmax(rig->samples[i], rig->all_samples[r * n + i]);
    return rc;
}

static void bandwidths(const struct bb_case *c, struct bb_figures *f)
{
    double median = f->time_us.p50;

    f->bytes = bb_case_bytes(c);
    f->factor = bb_colls[c->kind].bus_factor(c->ranks);
    f->algbw_gbps = median > 0 ? (double)f->bytes / median / 1e3 : NAN;
    f->busbw_gbps = c->ranks > 1 ? f->algbw_gbps * f->factor : NAN;
}

/* Pass 1 looks at the last timed operation, which is done; further ones run one operation each. */
static int verified_passes(struct bb_rig *rig, const struct bb_case *c, struct bb_figures *f)
{
    int rc = 0;

    for (int pass = 0; pass < rig->checks && f->wrong == 0; pass++) {
        if (pass > 0) {
            TRY(bb_verify_prepare(rig, c));
            TRY(bb_rig_wait(rig, "data for a check"));
            TRY(bb_case_launch(rig, c, bb_case_slots(rig, c) - 1));
        }
        TRY(bb_verify(rig, c, f));
    }
out:
    return rc;
}

static int measure_row(struct bb_rig *rig, const struct bb_case *c, struct bb_figures *f)
{
    int rc;

    if (rig->checks > 0)
        TRY(bb_verify_prepare(rig, c));
    TRY(enqueue_guarded(rig, c, (size_t)rig->warmup));
    TRY(bb_rig_wait(rig, "warm-up"));
    TRY(rig->mode->time(rig, c, rig->samples));
    TRY(slowest(rig));
    TRY(bb_stats_of(rig->samples, (size_t)rig->repeats, &f->time_us));
    bandwidths(c, f);
    TRY(verified_passes(rig, c, f));
out:
    return rc;
}

int bb_measure(struct bb_rig *rig, const struct bb_case *c, struct bb_figures *f)
{
    const char *op = c->redop == BB_COPY ? "" : bb_redops[c->redop].name, *space = c->redop == BB_COPY ? "" : " ";
    const char *where = c->in_place ? "in_place" : "out_of_place";
    char size[BB_BYTES_TEXT], text[96];
    struct bb_range range;
    int rc;

    *f = (struct bb_figures){0};
    snprintf(text, sizeof text, "%s %s %s%s%s %s", bb_colls[c->kind].name, bb_format_bytes(bb_case_bytes(c), size),
             bb_dtypes[c->dtype].name, space, op, where);
    bb_world_reached(rig->world, "bench %s", text);
    bb_range_init(&rig->nvtx, &range, BB_NVTX_WORLD, bb_case_bytes(c), "%s", text);
    bb_range_push(&rig->nvtx, &range);
    rc = measure_row(rig, c, f);
    bb_range_pop(&rig->nvtx);
    return rc;
}
