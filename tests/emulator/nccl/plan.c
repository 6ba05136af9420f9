/*
 * plan.c - all that one group does on one communicator: built from tasks, put on the streams, executed by a stream's
 * worker.
 */
#include "comm.h"
#include "cost.h"
#include "hazards.h"
#include "types.h"

#include "../engine.h"

#include <stdlib.h>
#include <string.h>

static void add_stream(struct en_plan *plan, cudaStream_t stream)
{
    for (int i = 0; i < plan->n_streams; i++)
        if (plan->streams[i] == stream)
            return;
    plan->streams[plan->n_streams++] = stream;
}

static bool is_message(const struct en_task *t)
{
    return t->kind == EN_SEND || t->kind == EN_RECV;
}

struct en_plan *en_plan_new(ncclComm_t comm, const struct en_task *tasks, int count)
{
    struct en_plan *plan = calloc(1, sizeof(*plan));
    int at = 0;

    if (plan == NULL)
        return NULL;
    en_comm_ref(comm);
    plan->comm = comm;
    plan->tasks = calloc((size_t)count, sizeof(*plan->tasks));
    plan->streams = calloc((size_t)count, sizeof(*plan->streams));
    if (plan->tasks == NULL || plan->streams == NULL) {
        en_plan_free(plan);
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        plan->collectives += !is_message(&tasks[i]);
        add_stream(plan, tasks[i].stream);
    }
    for (int messages = 0; messages <= 1; messages++)
        for (int i = 0; i < count; i++)
            if (is_message(&tasks[i]) == messages)
                plan->tasks[at++] = tasks[i];
    plan->count = count;
    return plan;
}

void en_plan_free(struct en_plan *plan)
{
    en_comm_unref(plan->comm);
    free(plan->messages);
    free(plan->tasks);
    free(plan->streams);
    free(plan);
}

static enum en_end run_tasks(struct en_plan *plan, int64_t *now_ns)
{
    int end = EN_GO, messages = plan->count - plan->collectives;

    for (int i = 0; end == EN_GO && i < plan->collectives; i++)
        end = en_run_collective(plan->comm, &plan->tasks[i], now_ns);
    if (end == EN_GO && messages > 0)
        end = en_run_exchange(plan->comm, plan->tasks + plan->collectives, messages, now_ns);
    return (enum en_end)end;
}

/* An aborted operation ends, and the stream continues, as with a kernel that reads the abort flag. */
static int64_t run_plan(void *arg, int64_t ready_ns)
{
    struct en_plan *plan = arg;
    ncclComm_t comm = plan->comm;
    int64_t now = ready_ns;
    enum en_end end = en_order_enter(comm, &plan->ticket);

    if (end == EN_STOPPING)
        return EMU_FAILED;
    if (atomic_load(&comm->stop_flag))
        end = EN_ABORTED;
    else if (en_broken(&comm->region))
        end = EN_BROKEN;
    now = comm->last_end_ns > now ? comm->last_end_ns : now;
    comm->extra_ns = plan->demand.extra_ns;
    now += en_mixing_ns(plan);
    const enum en_end fits = en_sms_take(plan);
    end = end == EN_GO ? fits : end;
    if (end == EN_GO)
        end = run_tasks(plan, &now);
    en_sms_free(plan);
    if (end == EN_BROKEN)
        en_report_broken(comm);
    if (plan->demand.peers != NULL) {
        const int64_t timeline_end_ns = emu_end_ns();

        now = end == EN_GO && timeline_end_ns > 0 ? timeline_end_ns : now;
    }
    comm->last_end_ns = now;
    en_fifo_free(plan);
    en_order_leave(comm, &plan->ticket);
    return end == EN_GO || end == EN_ABORTED ? now : EMU_FAILED;
}

static void release_plan(void *arg)
{
    struct en_plan *plan = arg;

    en_fifo_free(plan);
    en_order_cancel(plan->comm, &plan->ticket); /* if a failed stream never ran it */
    en_plan_free(plan);
}

/* All streams of one group are captured, or none. */
static ncclResult_t find_capture(const struct en_plan *plan, bool *captured)
{
    *captured = emu_capturing(plan->streams[0]);
    for (int i = 1; i < plan->n_streams; i++)
        if (emu_capturing(plan->streams[i]) != *captured)
            return en_fail(plan->comm, ncclInvalidUsage,
                           "either all or none of the streams of a group may be captured");
    return ncclSuccess;
}

/* In a capture the operations of one communicator are chained, even on different streams. */
static cudaError_t chain_captured(struct en_plan *plan)
{
    ncclComm_t comm = plan->comm;
    enum cudaStreamCaptureStatus status;
    unsigned long long id = 0;
    cudaEvent_t event;
#if CUDART_VERSION >= 13000
    cudaError_t rc = cudaStreamGetCaptureInfo(plan->streams[0], &status, &id, NULL, NULL, NULL, NULL);
#else
    cudaError_t rc = cudaStreamGetCaptureInfo(plan->streams[0], &status, &id, NULL, NULL, NULL);
#endif

    if (rc == cudaSuccess && comm->capture_id == id && comm->captured_stream != plan->streams[0]) {
        rc = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
        if (rc == cudaSuccess)
            rc = cudaEventRecord(event, comm->captured_stream);
        if (rc == cudaSuccess)
            rc = cudaStreamWaitEvent(plan->streams[0], event, 0);
        if (rc == cudaSuccess)
            rc = cudaEventDestroy(event);
    }
    comm->capture_id = id;
    comm->captured_stream = plan->streams[0];
    return rc;
}

static bool names_no_device(cudaStream_t stream)
{
    return stream == NULL || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

/* Default streams belong to the current device, which may differ from the communicator's. */
static cudaError_t enqueue_on_device(struct en_plan *plan, const struct emu_op *op)
{
    int device = plan->comm->device, current = device;
    bool move = false;
    cudaError_t rc = cudaSuccess;

    for (int i = 0; i < plan->n_streams; i++)
        move |= names_no_device(plan->streams[i]);
    if (move)
        rc = cudaGetDevice(&current);
    if (rc == cudaSuccess && current != device)
        rc = cudaSetDevice(device);
    if (rc == cudaSuccess)
        rc = plan->n_streams == 1 ? emu_enqueue(plan->streams[0], op)
                                  : emu_enqueue_joined(plan->streams, plan->n_streams, op);
    if (current != device)
        cudaSetDevice(current);
    return rc;
}

ncclResult_t en_plan_enqueue(struct en_plan *plan, int64_t host_ns)
{
    struct emu_op op = {.name = "nccl",
                        .run = run_plan,
                        .release = release_plan,
                        .arg = plan,
                        .host_ns = host_ns,
                        .entries = en_queue_entries(plan)};
    cudaError_t cuda = cudaSuccess;
    bool captured = false;
    ncclResult_t rc = find_capture(plan, &captured);

    op.demand = en_find_demand(plan) ? &plan->demand : NULL;
    if (rc == ncclSuccess) {
        plan->mixes = !captured && plan->comm->mixes;
        if (captured)
            en_mixing_capture(plan->comm);
        if (captured)
            cuda = chain_captured(plan);
        else
            en_fifo_take(plan);
        if (!captured) {
            en_order_append(plan->comm, &plan->ticket);
            en_sms_issue(plan);
        }
        if (cuda == cudaSuccess)
            cuda = enqueue_on_device(plan, &op);
        if (cuda != cudaSuccess)
            rc = en_fail(plan->comm, ncclUnhandledCudaError, "Cuda failure '%s'", cudaGetErrorString(cuda));
    }
    if (rc != ncclSuccess)
        release_plan(plan);
    return rc;
}
