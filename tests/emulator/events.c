/*
 * events.c - events. Each record creates a new mark, so a later record does not affect earlier waits.
 */
#include "internal.h"
#include <stdlib.h>

#define EVENT_MAGIC 0x656d755f65766e74u /* "emu_evnt" */

static bool is_event(cudaEvent_t event)
{
    return event && event->magic == EVENT_MAGIC;
}

/* Begins a call on an event whose other arguments are `valid`. */
static cudaError_t enter(const char *function, cudaEvent_t event, bool valid)
{
    cudaError_t rc = emu_enter(function);

    if (rc == cudaSuccess && !is_event(event))
        return cudaErrorInvalidResourceHandle;
    return rc || valid ? rc : cudaErrorInvalidValue;
}

static cudaError_t create(const char *function, cudaEvent_t *event, unsigned flags)
{
    const unsigned known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
    struct CUevent_st *e;
    cudaError_t rc;

    TRY(emu_enter(function));
    if (!event || (flags & ~known) || ((flags & cudaEventInterprocess) && !(flags & cudaEventDisableTiming))) {
        rc = cudaErrorInvalidValue;
        goto out;
    }
    e = calloc(1, sizeof(*e));
    if (!e)
        emu_give_up("out of host memory");
    *e = (struct CUevent_st){.magic = EVENT_MAGIC, .device = emu_current_device(), .flags = flags};
    *event = e;
out:
    return emu_report(rc);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    return create(__func__, event, flags);
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return create(__func__, event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    cudaError_t rc;

    TRY(enter(__func__, event, true));
    emu_lock();
    emu_mark_unref_locked(event->mark);
    emu_front_clear(&event->front);
    event->magic = 0;
    emu_unlock();
    free(event);
out:
    return emu_report(rc);
}

static cudaError_t record_locked(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    struct CUstream_st *s;
    cudaError_t rc;

    TRY(emu_stream_of_locked(stream, &s));
    TRY(emu.devices[s->device].sticky);
    if (s->device != event->device)
        return cudaErrorInvalidResourceHandle;
    if (s->capture)
        return emu_capture_record_locked(s, event, flags & cudaEventRecordExternal);
    if (flags & cudaEventRecordExternal)
        return cudaErrorIllegalState;
    if (emu_capture_implicit_locked(s))
        return cudaErrorStreamCaptureImplicit;
    emu_join_default_locked(s);
    emu_mark_unref_locked(event->mark);
    emu_front_clear(&event->front);
    event->captured = 0;
    event->mark = emu_mark_new();
    emu_record_locked(s, event->mark);
out:
    return rc;
}

static cudaError_t record(const char *function, cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    cudaError_t rc;

    TRY(enter(function, event, !(flags & ~cudaEventRecordExternal)));
    emu_lock();
    rc = record_locked(event, stream, flags);
    emu_unlock();
out:
    return emu_report(rc);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
    return record(__func__, event, stream, flags);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return record(__func__, event, stream, cudaEventRecordDefault);
}

static cudaError_t wait_locked(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    struct CUstream_st *s;
    cudaError_t rc;

    TRY(emu_stream_of_locked(stream, &s));
    TRY(emu.devices[s->device].sticky);
    if (s->capture || event->captured)
        return emu_capture_wait_locked(s, event, flags & cudaEventWaitExternal);
    if (flags & cudaEventWaitExternal)
        return cudaErrorIllegalState;
    if (emu_capture_implicit_locked(s))
        return cudaErrorStreamCaptureImplicit;
    emu_join_default_locked(s);
    if (event->mark)
        emu_wait_locked(s, event->mark);
out:
    return rc;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    cudaError_t rc;

    TRY(enter(__func__, event, !(flags & ~cudaEventWaitExternal)));
    emu_lock();
    rc = wait_locked(stream, event, flags);
    emu_unlock();
out:
    return emu_report(rc);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    struct emu_mark *mark;
    cudaError_t rc;

    TRY(enter(__func__, event, true));
    TRY(emu_capture_unsafe());
    emu_lock();
    if (event->captured) {
        rc = cudaErrorCapturedEvent;
    } else if ((mark = event->mark)) {
        mark->refs++;
        rc = emu_await_locked(mark);
        emu_mark_unref_locked(mark);
        if (rc == cudaSuccess)
            rc = emu.devices[event->device].sticky;
    }
    emu_unlock();
out:
    return emu_report(rc);
}

static bool is_done_locked(const struct emu_mark *mark)
{
    emu_contention_host_waits_locked(mark, NULL);
    return mark->done;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t rc;

    TRY(enter(__func__, event, true));
    TRY(emu_capture_unsafe());
    emu_lock();
    if (event->captured)
        rc = cudaErrorCapturedEvent;
    else if (event->mark && !is_done_locked(event->mark))
        rc = emu_host_queries_again();
    else if (event->mark)
        emu_host_poll_locked(event->mark->time_ns);
    if (rc == cudaSuccess)
        rc = emu.devices[event->device].sticky;
    emu_unlock();
out:
    return rc == cudaErrorNotReady ? rc : emu_report(rc);
}

static cudaError_t elapsed_locked(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    if (start->captured || end->captured)
        return cudaErrorCapturedEvent;
    if (!start->mark || !end->mark || ((start->flags | end->flags) & cudaEventDisableTiming) ||
        start->device != end->device)
        return cudaErrorInvalidResourceHandle;
    if (!start->mark->done || !end->mark->done)
        return cudaErrorNotReady;
    *ms = (float)((double)(end->mark->time_ns - start->mark->time_ns) / 1e6);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    cudaError_t rc;

    TRY(emu_enter(__func__));
    if (!ms || !is_event(start) || !is_event(end)) {
        rc = ms ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
        goto out;
    }
    emu_lock();
    rc = elapsed_locked(ms, start, end);
    emu_unlock();
out:
    return rc == cudaErrorNotReady ? rc : emu_report(rc);
}
