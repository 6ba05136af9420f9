/*
 * step_issue.c - runs a step of a program on the GPU (see step_issue.h).
 */
#include "proxies/runner/run/step_issue.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/clock.h"
#include "collectives/ops/launch.h"
#include "cuda/device/check.h"
#include "cuda/device/stream.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- launch of a single operation ---- */

/* Occupies a stream for `ns`; 0: enqueues nothing. */
static int occupy_stream(int sms, int64_t ns, cudaStream_t stream)
{
    const struct bb_busy busy = {.sms = sms, .ns = ns};

    return ns > 0 ? bb_busy_run(&busy, stream) : 0;
}

static int launch_work(struct bb_runner *r, const struct bb_op *op)
{
    int which = 0, rc = 0;

    while (r->kernel_lists[which] != op->work)
        which++;
    for (int i = 0; rc == 0 && i < op->work_times; i++)
        rc = bb_kernel_runner_run(&r->worker, which, r->streams[op->stream]);
    if (rc == 0 && r->list_ns)
        rc = occupy_stream(r->busy.sms, llround((r->slowdown - 1) * op->work_times * (double)r->list_ns[which]),
                           r->streams[op->stream]);
    return rc;
}

static int launch_compute(struct bb_runner *r, const struct bb_op *op)
{
    struct bb_busy busy = r->busy;

    if (op->work)
        return launch_work(r, op);
    busy.ns = llround(r->slowdown * op->compute_us * 1e3);
    return busy.ns > 0 ? bb_busy_run(&busy, r->streams[op->stream]) : 0;
}

static int launch_collective(struct bb_runner *r, const struct bb_op *op)
{
    const struct bb_call call = {
        .kind = op->coll,
        .send = bb_runner_src(r, op),
        .recv = bb_runner_dst(r, op),
        .count = op->count,
        .dtype = (int)op->dtype,
        .redop = (int)op->redop,
        .root = bb_runner_peer(r, op),
        .comm = &r->comms[op->comm],
        .stream = r->streams[op->stream],
        .native = &r->native,
    };

    return bb_launch(&call);
}

/* op->dtype can be cast to ncclDataType_t, because the values are equal (asserted in collectives/ops/launch.c). */
static int launch_message(struct bb_runner *r, const struct bb_op *op)
{
    const ncclDataType_t type = (ncclDataType_t)op->dtype;
    const ncclComm_t comm = r->comms[op->comm].nccl;
    const cudaStream_t stream = r->streams[op->stream];

    if (op->kind == BB_OP_SEND)
        return BB_NCCL(ncclSend(bb_runner_src(r, op), op->count, type, bb_runner_peer(r, op), comm, stream));
    return BB_NCCL(ncclRecv(bb_runner_dst(r, op), op->count, type, bb_runner_peer(r, op), comm, stream));
}

static int (*const launchers[])(struct bb_runner *, const struct bb_op *) = {
    [BB_OP_COMPUTE] = launch_compute,
    [BB_OP_COLLECTIVE] = launch_collective,
    [BB_OP_SEND] = launch_message,
    [BB_OP_RECV] = launch_message,
};

static int launch_op(struct bb_runner *r, int i)
{
    const struct bb_op *op = &r->program->ops[i];
    int rc;

    bb_range_push(&r->nvtx, &r->op_ranges[i]);
    rc = launchers[op->kind](r, op);
    if (rc == 0 && op->comm != BB_NONE && op->call == BB_NONE)
        rc = bb_comm_poll(&r->comms[op->comm], "an operation");
    bb_range_pop(&r->nvtx);
    return rc;
}

/* Launches an NCCL group call. NCCL launches the operations in ncclGroupEnd, inside the NVTX range of the group
 * call. ncclGroupEnd is also called after an error. */
static int launch_group(struct bb_runner *r, const struct bb_batch *batch)
{
    int rc, end_rc;

    bb_range_push(&r->nvtx, &batch->range);
    TRY(BB_NCCL(ncclGroupStart()));
    for (int i = batch->first; rc == 0 && i < batch->first + batch->n; i++)
        rc = launch_op(r, i);
    end_rc = BB_NCCL(ncclGroupEnd());
    TRY(rc ? rc : end_rc);
    for (int i = 0; i < batch->lanes; i++)
        TRY(bb_comm_poll(&r->comms[r->lanes[batch->lane + i].comm], "a group of sends and receives"));
out:
    bb_range_pop(&r->nvtx);
    return rc;
}

/* Launches the operations of `batch`: a single operation or a group call. The first NCCL call that uses a connection
 * may block the host until the peers make their calls. A guard (time limit checked by another thread) ends the run
 * if the call exceeds the timeout; it stays active until the next guard or bb_world_unguard. */
static int launch_batch(struct bb_runner *r, const struct bb_batch *batch)
{
    const struct bb_op *op = &r->program->ops[batch->first];

    if (bb_op_is_comm(op))
        bb_world_guard(r->world, batch->what);
    return op->call == BB_NONE ? launch_op(r, batch->first) : launch_group(r, batch);
}

int bb_runner_batch(struct bb_runner *r, const struct bb_batch *batch)
{
    int rc = launch_batch(r, batch);

    bb_world_unguard(r->world);
    return rc;
}

/* ---- point-to-point connections ---- */

enum { SENDS = 1, RECEIVES = 2 };

/* Sets peers[p], for each rank p of the communicator, to whether the program sends to p (SENDS) and receives from p
 * (RECEIVES). */
static void mark_peers(const struct bb_runner *r, int comm, unsigned char *peers)
{
    memset(peers, 0, (size_t)r->world->size);
    for (size_t i = 0; i < r->program->n_ops; i++) {
        const struct bb_op *op = &r->program->ops[i];

        if (op->comm == comm && (op->kind == BB_OP_SEND || op->kind == BB_OP_RECV))
            peers[bb_runner_peer(r, op)] |= op->kind == BB_OP_SEND ? SENDS : RECEIVES;
    }
}

/* Sends one element to each rank, and receives one element from each rank, as marked in `peers`. All messages
 * use the same buffer element, which is 0 on all ranks, so the order of concurrent writes does not matter. */
static int connect_peers(struct bb_runner *r, const struct bb_comm *c, const unsigned char *peers)
{
    int rc, end_rc;

    TRY(BB_NCCL(ncclGroupStart()));
    for (int p = 0; rc == 0 && p < c->size; p++) {
        if (peers[p] & SENDS)
            rc = BB_NCCL(ncclSend(r->start_element, 1, ncclFloat, p, c->nccl, r->join));
        if ((peers[p] & RECEIVES) && rc == 0)
            rc = BB_NCCL(ncclRecv(r->start_element, 1, ncclFloat, p, c->nccl, r->join));
    }
    end_rc = BB_NCCL(ncclGroupEnd());
    rc = rc ? rc : end_rc;
out:
    return rc;
}

/* Adds the environment variables that a step with concurrent streams requires, with their current values, to the texts of
 * timeout messages, because a step can hang if the user has set different values. */
static void add_requirements(struct bb_runner *r)
{
    const char *queues = getenv("CUDA_DEVICE_MAX_CONNECTIONS"), *at_first_use = getenv("NCCL_RUNTIME_CONNECT");

    snprintf(r->requirements, sizeof(r->requirements),
             " (requires concurrent streams: CUDA_DEVICE_MAX_CONNECTIONS=%.4s, NCCL_RUNTIME_CONNECT=%.4s)",
             queues ? queues : "8", at_first_use ? at_first_use : "1");
}

int bb_runner_connect(struct bb_runner *r)
{
    static const char what[] = "the point-to-point connections";
    unsigned char *peers;
    int rc = 0;

    BB_NEW(peers, r->world->size);
    add_requirements(r);
    for (int c = 0; c < r->layout->n_comms; c++) {
        if (!r->comms[c].nccl)
            continue;
        mark_peers(r, c, peers);
        TRY(BB_GUARDED(r->world, what, connect_peers(r, &r->comms[c], peers)));
        TRY(bb_comm_poll(&r->comms[c], what));
        TRY(bb_runner_wait(r, r->join, what));
    }
out:
    free(peers);
    return rc;
}

/* ---- enqueueing one step ---- */

/* Makes the streams of the operations in `batch` (single operation or group call) wait for the operations on other
 * streams on which they depend. This is done even if nothing in `batch` is launched, because these waits also order
 * later operations. */
static int wait_for_dependencies(struct bb_runner *r, const struct bb_batch *batch)
{
    const struct bb_program *p = r->program;
    int rc = 0;

    for (int i = batch->first; i < batch->first + batch->n; i++)
        for (int w = 0; w < p->ops[i].waits; w++)
            TRY(BB_CUDA(
                cudaStreamWaitEvent(r->streams[p->ops[i].stream], r->done[p->wait_list[p->ops[i].first_wait + w]], 0)));
out:
    return rc;
}

/* Records the trace event `begin` or `end` of each lane of the batch. */
static int record_lane_events(struct bb_runner *r, const struct bb_batch *batch, bool end)
{
    int rc = 0;

    for (int i = batch->lane; i < batch->lane + batch->lanes; i++) {
        struct bb_lane *lane = &r->lanes[i];

        TRY(BB_CUDA(cudaEventRecord(end ? lane->end : lane->begin, r->streams[lane->stream])));
    }
out:
    return rc;
}

static int issue_batch(struct bb_runner *r, const struct bb_batch *batch, unsigned what, bool trace)
{
    const struct bb_op *ops = r->program->ops;
    int rc;

    TRY(wait_for_dependencies(r, batch));
    if (trace)
        TRY(record_lane_events(r, batch, false));
    if (what & (bb_op_is_comm(&ops[batch->first]) ? BB_ISSUE_COMM : BB_ISSUE_COMPUTE))
        TRY(launch_batch(r, batch));
    if (trace)
        TRY(record_lane_events(r, batch, true));
    for (int i = batch->first; i < batch->first + batch->n; i++)
        if (r->done[i])
            TRY(BB_CUDA(cudaEventRecord(r->done[i], r->streams[ops[i].stream])));
out:
    return rc;
}

static int issue_all(struct bb_runner *r, unsigned what, bool trace)
{
    int rc = 0, section = BB_NONE;

    for (int c = 0; c < r->n_batches; c++) {
        const struct bb_batch *batch = &r->batches[c];

        if (batch->section != section) {
            if (section != BB_NONE)
                bb_range_pop(&r->nvtx);
            section = batch->section;
            bb_range_push(&r->nvtx, &r->section_ranges[section]);
        }
        TRY(issue_batch(r, batch, what, trace));
    }
out:
    bb_world_unguard(r->world);
    if (section != BB_NONE)
        bb_range_pop(&r->nvtx);
    return rc;
}

/* Makes the stream `join` wait for all streams of the step, because the step ends when all its streams end. */
static int join_streams(struct bb_runner *r)
{
    int rc = 0;

    for (int i = 0; i < r->program->n_streams; i++) {
        TRY(BB_CUDA(cudaEventRecord(r->last[i], r->streams[i])));
        TRY(BB_CUDA(cudaStreamWaitEvent(r->join, r->last[i], 0)));
    }
out:
    return rc;
}

/* ---- CUDA graph of the step ---- */

static int fork_streams(struct bb_runner *r)
{
    int rc;

    TRY(BB_CUDA(cudaEventRecord(r->fork, r->join)));
    for (int i = 0; i < r->program->n_streams; i++)
        TRY(BB_CUDA(cudaStreamWaitEvent(r->streams[i], r->fork, 0)));
out:
    return rc;
}

/* Uses relaxed capture mode because NCCL may allocate memory on another thread during the capture. Ends the capture
 * even after an error. */
int bb_runner_capture(struct bb_runner *r)
{
    cudaGraph_t graph = NULL;
    int rc, end_rc;

    TRY(bb_world_barrier(r->world, "the capture of a step"));
    bb_world_reached(r->world, "capture of a step");
    TRY(BB_CUDA(cudaStreamBeginCapture(r->join, cudaStreamCaptureModeRelaxed)));
    rc = fork_streams(r);
    rc = rc ? rc : issue_all(r, BB_ISSUE_ALL, false);
    rc = rc ? rc : join_streams(r);
    end_rc = BB_CUDA(cudaStreamEndCapture(r->join, &graph));
    TRY(rc ? rc : end_rc);
    TRY(BB_CUDA(cudaGraphInstantiate(&r->graph, graph, 0)));
out:
    if (graph)
        (void)cudaGraphDestroy(graph);
    return rc;
}

static int sync_ranks(struct bb_runner *r)
{
    int rc =
        BB_NCCL(ncclAllReduce(r->start_element, r->start_element, 1, ncclFloat, ncclSum, r->all_ranks.nccl, r->join));

    return rc ? rc : bb_comm_poll(&r->all_ranks, "the common start");
}

/*
 * Starts all ranks at the same time, as precisely as the GPUs allow. After the host barrier all ranks issue the
 * all_reduce at almost the same time. The all_reduce is therefore short, and when it ends, every host is still polling
 * and has not begun to sleep. Traced steps have two all_reduces: when the second one begins, all ranks have started the
 * first one, so the duration of the second one is an upper bound of the difference between the start times of the
 * ranks.
 *
 * In contrast to `busbar bench`, no start barrier blocks the operations until all of them are issued: the step time
 * includes the time in which the host issues the step, as in predictions. The time until the host reacts to the common
 * start is part of the step and is reported (bb_step_time). --start-barrier (for steps that fit into the launch queues)
 * and --graph measure the step without these host times.
 */
static int begin_on_all_ranks(struct bb_runner *r, bool trace)
{
    int rc;

    TRY(bb_world_barrier(r->world, "the start of a step"));
    if (r->all_ranks.nccl && trace) {
        TRY(sync_ranks(r));
        TRY(BB_CUDA(cudaEventRecord(r->ready, r->join)));
    }
    if (r->all_ranks.nccl)
        TRY(sync_ranks(r));
    TRY(BB_CUDA(cudaEventRecord(r->begin, r->join)));
    TRY(bb_runner_wait_event(r, r->begin, "the common start of a step"));
out:
    return rc;
}

/* Closes the start barrier (a kernel that blocks the GPU) on the stream `join` and then enqueues the all_reduce that
 * synchronizes all ranks (the common start). All streams of the step wait for both. */
static int begin_with_start_barrier(struct bb_runner *r)
{
    int rc;

    TRY(bb_world_barrier(r->world, "the start of a step"));
    TRY(bb_start_barrier_close(&r->start_barrier, r->join));
    if (r->all_ranks.nccl)
        TRY(sync_ranks(r));
    TRY(BB_CUDA(cudaEventRecord(r->begin, r->join)));
    TRY(BB_CUDA(cudaEventRecord(r->first, r->join)));
    TRY(fork_streams(r));
out:
    return rc;
}

/* Makes all streams of a delayed rank (--delay) start late. A CUDA graph starts late because the stream `join`, on
 * which it is launched, does. */
static int delay_streams(struct bb_runner *r, unsigned what)
{
    int rc;

    TRY(occupy_stream(1, r->delay_ns, r->join));
    if (r->delay_ns > 0 && what != BB_ISSUE_GRAPH)
        TRY(fork_streams(r));
out:
    return rc;
}

/* Opens the start barrier, if the step has one, after all ranks have issued the step, and waits for the end of the
 * step. join_streams() is not called for a CUDA graph, because the graph already contains these waits. */
static int finish_step(struct bb_runner *r, unsigned what, const char *name)
{
    int rc;

    if (what != BB_ISSUE_GRAPH)
        TRY(join_streams(r));
    TRY(BB_CUDA(cudaEventRecord(r->end, r->join)));
    if (what & BB_ISSUE_START_BARRIER) {
        TRY(bb_world_barrier(r->world, "the opening of the start barrier"));
        bb_start_barrier_open(&r->start_barrier);
    }
    TRY(bb_runner_wait_event(r, r->end, name));
out:
    return rc;
}

int bb_runner_step(struct bb_runner *r, const char *name, unsigned what, bool trace, struct bb_step_time *t)
{
    double start_s, issued_s;
    double step_us, reaction_us, start_sync_us = 0;
    int rc;

    /* The step time includes the time until the host observes the common start (the all_reduce that synchronizes all
     * ranks), so the host polls without sleeping to keep this time short. */
    bb_world_prompt(r->world, true);
    TRY(what & BB_ISSUE_START_BARRIER ? begin_with_start_barrier(r) : begin_on_all_ranks(r, trace));
    bb_world_reached(r->world, "%s", name);
    bb_range_push_once(&r->nvtx, 0, 0, "%s", name);
    start_s = bb_now_s();
    rc = what & BB_ISSUE_START_BARRIER ? 0 : BB_CUDA(cudaEventRecord(r->first, r->join));
    rc = rc ? rc : delay_streams(r, what);
    if (rc == 0)
        rc = what == BB_ISSUE_GRAPH ? BB_CUDA(cudaGraphLaunch(r->graph, r->join)) : issue_all(r, what, trace);
    issued_s = bb_now_s();
    rc = rc ? rc : finish_step(r, what, name);
    bb_range_pop(&r->nvtx);
    TRY(rc);
    TRY(bb_event_us(r->begin, r->end, &step_us));
    TRY(bb_event_difference_us(r->begin, r->first, &reaction_us));
    if (trace && r->all_ranks.nccl)
        TRY(bb_event_difference_us(r->ready, r->begin, &start_sync_us));
    *t = (struct bb_step_time){.step_us = step_us,
                               .reaction_us = reaction_us,
                               .issue_us = (issued_s - start_s) * 1e6,
                               .wall_us = (bb_now_s() - start_s) * 1e6,
                               .start_sync_us = start_sync_us};
out:
    bb_world_prompt(r->world, false);
    return rc;
}
