/*
 * streams.c - public stream functions: create, wait, query, host functions. engine.c has the queues.
 */
#include "hazards.h"
#include <stdlib.h>
#include <string.h>

static pthread_key_t own_streams_key; /* thread-local: the per-thread default streams of a thread, one per device */
static pthread_once_t own_streams_once = PTHREAD_ONCE_INIT;

static void close_own_streams(void *arg)
{
    struct CUstream_st **own = arg;

    emu_lock();
    for (int d = 0; d < EMU_MAX_DEVICES; d++)
        if (own[d])
            emu_stream_close_locked(own[d]);
    emu_unlock();
    free(own);
}

static void make_own_streams_key(void)
{
    pthread_key_create(&own_streams_key, close_own_streams);
}

struct CUstream_st *emu_stream_new_locked(enum emu_stream_kind kind, int device, unsigned flags, int priority)
{
    struct CUstream_st *s = calloc(1, sizeof(*s));

    if (!s)
        emu_give_up("out of host memory");
    s->kind = kind;
    s->device = device;
    s->flags = flags;
    s->priority = priority;
    s->id = ++emu.next_id;
    s->tail = &s->head;
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->has_space, NULL);
    emu_queue_assign_locked(s);
    s->next = emu.streams;
    emu.streams = s;
    return s;
}

static struct CUstream_st *legacy_stream_locked(int device)
{
    struct emu_device *d = &emu.devices[device];

    if (!d->legacy)
        d->legacy = emu_stream_new_locked(EMU_STREAM_LEGACY, device, 0, 0);
    return d->legacy;
}

static struct CUstream_st *own_stream_locked(int device)
{
    struct CUstream_st **own;

    pthread_once(&own_streams_once, make_own_streams_key);
    own = pthread_getspecific(own_streams_key);
    if (!own) {
        own = calloc(EMU_MAX_DEVICES, sizeof(*own));
        if (!own)
            emu_give_up("out of host memory");
        pthread_setspecific(own_streams_key, own);
    }
    if (!own[device])
        own[device] = emu_stream_new_locked(EMU_STREAM_PER_THREAD, device, 0, 0);
    return own[device];
}

/* The stream of a handle. Handles are searched in the list of live streams, so a destroyed handle gives an error
 * instead of a crash. */
cudaError_t emu_stream_of_locked(cudaStream_t handle, struct CUstream_st **out)
{
    int device = emu_current_device();

    if (emu.n_devices == 0)
        return cudaErrorNoDevice;
    if (handle == NULL || handle == cudaStreamLegacy) {
        *out = legacy_stream_locked(device);
        return cudaSuccess;
    }
    if (handle == cudaStreamPerThread) {
        *out = own_stream_locked(device);
        return cudaSuccess;
    }
    for (struct CUstream_st *s = emu.streams; s; s = s->next)
        if (s == handle && !s->closing && s->kind == EMU_STREAM_USER) {
            *out = s;
            return cudaSuccess;
        }
    return cudaErrorInvalidResourceHandle;
}

int emu_stream_device(cudaStream_t stream)
{
    struct CUstream_st *s;
    int device = -1;

    emu_init();
    emu_lock();
    if (emu_stream_of_locked(stream, &s) == cudaSuccess)
        device = s->device;
    emu_unlock();
    return device;
}

bool emu_capturing(cudaStream_t stream)
{
    struct CUstream_st *s;
    bool capturing;

    emu_init();
    emu_lock();
    capturing = emu_stream_of_locked(stream, &s) == cudaSuccess && s->capture;
    emu_unlock();
    return capturing;
}

static cudaError_t create(const char *function, cudaStream_t *stream, unsigned flags, int priority)
{
    cudaError_t rc;

    TRY(emu_enter(function));
    if (!stream || (flags & ~cudaStreamNonBlocking)) {
        rc = cudaErrorInvalidValue;
        goto out;
    }
    priority = priority < -5 ? -5 : priority > 0 ? 0 : priority;
    emu_lock();
    *stream = emu_stream_new_locked(EMU_STREAM_USER, emu_current_device(), flags, priority);
    emu_unlock();
out:
    return emu_report(rc);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
    return create(__func__, stream, flags, priority);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    return create(__func__, stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return create(__func__, stream, cudaStreamDefault, 0);
}

/* Runs one function on the stream of a handle, with the lock held. cudaErrorNotReady is a result and does not become
 * the last error. */
static cudaError_t with_stream(const char *function, cudaStream_t handle, cudaError_t (*run_locked)(cudaStream_t))
{
    struct CUstream_st *s;
    cudaError_t rc;

    TRY(emu_enter(function));
    emu_lock();
    rc = emu_stream_of_locked(handle, &s);
    if (rc == cudaSuccess)
        rc = run_locked(s);
    emu_unlock();
out:
    return rc == cudaErrorNotReady ? rc : emu_report(rc);
}

static cudaError_t destroy_locked(struct CUstream_st *s)
{
    if (s->kind != EMU_STREAM_USER)
        return cudaErrorInvalidResourceHandle;
    emu_forget_captures_locked(s);
    emu_stream_close_locked(s);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return with_stream(__func__, stream, destroy_locked);
}

static cudaError_t synchronize_locked(struct CUstream_st *s)
{
    cudaError_t rc = emu_capture_refuses_locked(s);

    if (rc != cudaSuccess)
        return rc;
    emu_join_default_locked(s);
    return emu_drain_stream_locked(s);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return with_stream(__func__, stream, synchronize_locked);
}

/* A query that finds the work done moves the host clock to its end, as a synchronising call does. */
static cudaError_t query_locked(struct CUstream_st *s)
{
    cudaError_t rc = emu_capture_refuses_locked(s);

    if (rc != cudaSuccess)
        return rc;
    emu_contention_host_waits_locked(NULL, s);
    if (s->issued != s->done)
        return emu_host_queries_again();
    emu_host_poll_locked(s->clock_ns);
    return emu.devices[s->device].sticky;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return with_stream(__func__, stream, query_locked);
}

cudaError_t emu_run_sync(cudaStream_t stream, const struct emu_op *op)
{
    struct CUstream_st *s;
    cudaError_t rc;

    emu_lock();
    rc = emu_stream_of_locked(stream, &s);
    if (rc == cudaSuccess)
        rc = emu_capture_refuses_locked(s);
    emu_unlock();
    if (rc == cudaSuccess)
        rc = emu_enqueue(stream, op);
    if (rc != cudaSuccess) {
        if (op->release)
            op->release(op->arg);
        return rc;
    }
    emu_lock();
    rc = emu_drain_stream_locked(s);
    emu_unlock();
    return rc;
}

/* ---- stream properties ---- */

static cudaError_t look_up(const char *function, cudaStream_t stream, const void *out, struct CUstream_st *copy)
{
    struct CUstream_st *s;
    cudaError_t rc;

    TRY(emu_enter(function));
    emu_lock();
    rc = out ? emu_stream_of_locked(stream, &s) : cudaErrorInvalidValue;
    if (rc == cudaSuccess)
        *copy = *s;
    emu_unlock();
out:
    return emu_report(rc);
}

/* Defines a function that stores a field of a stream. */
#define GET_FIELD(function, type, field)                                                                               \
    cudaError_t function(cudaStream_t stream, type *out)                                                               \
    {                                                                                                                  \
        struct CUstream_st s = {0};                                                                                    \
        cudaError_t rc = look_up(__func__, stream, out, &s);                                                           \
                                                                                                                       \
        if (rc == cudaSuccess)                                                                                         \
            *out = s.field;                                                                                            \
        return rc;                                                                                                     \
    }

GET_FIELD(cudaStreamGetFlags, unsigned int, flags)
GET_FIELD(cudaStreamGetPriority, int, priority)
GET_FIELD(cudaStreamGetId, unsigned long long, id)
GET_FIELD(cudaStreamGetDevice, int, device)

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    cudaError_t rc;

    TRY(emu_enter(__func__));
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
out:
    return emu_report(rc);
}

/* ---- host functions ---- */

struct host_call {
    cudaHostFn_t fn;
    cudaStreamCallback_t callback;
    cudaStream_t stream;
    void *data;
};

static int64_t run_host_call(void *arg, int64_t ready_ns)
{
    struct host_call *call = arg;

    if (call->fn)
        call->fn(call->data);
    else
        call->callback(call->stream, cudaSuccess, call->data);
    return ready_ns;
}

static cudaError_t add_host_call(const char *function, cudaStream_t stream, struct host_call call)
{
    struct host_call *copy;
    cudaError_t rc;

    TRY(emu_enter(function));
    if (!call.fn && !call.callback) {
        rc = cudaErrorInvalidValue;
        goto out;
    }
    copy = malloc(sizeof(*copy));
    if (!copy)
        emu_give_up("out of host memory");
    *copy = call;
    rc = emu_enqueue(stream, &(struct emu_op){.name = "host function",
                                              .run = run_host_call,
                                              .release = free,
                                              .arg = copy,
                                              .host_ns = emu_ns_of_us(emu.machine.launch_us)});
    if (rc != cudaSuccess)
        free(copy);
out:
    return emu_report(rc);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *data)
{
    return add_host_call(__func__, stream, (struct host_call){.fn = fn, .stream = stream, .data = data});
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *data, unsigned int flags)
{
    if (flags)
        return emu_report(cudaErrorInvalidValue);
    if (emu_capturing(stream))
        return emu_report(cudaErrorStreamCaptureUnsupported);
    return add_host_call(__func__, stream, (struct host_call){.callback = callback, .stream = stream, .data = data});
}

/* ---- attributes: not stored, because none has an effect here ---- */

cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID id, const cudaStreamAttrValue *value)
{
    struct CUstream_st s = {0};

    (void)id;
    return look_up(__func__, stream, value, &s);
}

cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID id, cudaStreamAttrValue *value)
{
    struct CUstream_st s = {0};
    cudaError_t rc = look_up(__func__, stream, value, &s);

    if (rc != cudaSuccess)
        return rc;
    memset(value, 0, sizeof(*value));
    if (id == cudaLaunchAttributePriority)
        value->priority = s.priority;
    return cudaSuccess;
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from)
{
    struct CUstream_st s = {0};
    cudaError_t rc = look_up(__func__, to, &s, &s);

    return rc ? rc : look_up(__func__, from, &s, &s);
}
