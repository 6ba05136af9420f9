/*
 * engine.c - the core of the emulated GPUs: start and end of the process, the host clock, and the queues of the streams
 * with their worker threads.
 */
#include "hazards.h"
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct emu_state emu = {.lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER};

static pthread_once_t started = PTHREAD_ONCE_INIT;

/* LATER_S: delay of the message of a rank other than 0 about an invalid variable. Within it also a busy machine ends the
 * job after the end of rank 0. */
enum { LATER_S = 10 };

void emu_die(const char *format, ...)
{
    char what[512];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (emu_world_rank() > 0) /* rank 0 prints the same line, and its end ends the job */
        sleep(LATER_S);
    fprintf(stderr, "emulated GPUs: %s\n", what);
    _Exit(2); /* not _exit(), which the program may have replaced */
}

void emu_give_up(const char *what)
{
    fprintf(stderr, "emulated GPUs: %s\n", what);
    _exit(1);
}

static bool env_is(const char *name, const char *word)
{
    const char *value = getenv(name);

    return value && strcmp(value, word) == 0;
}

static bool env_switch(const char *name, const char *on, const char *off)
{
    const char *value = getenv(name);

    if (!value || !*value || strcmp(value, off) == 0)
        return false;
    if (strcmp(value, on) != 0)
        emu_die("%s=%s: expected %s or %s", name, value, on, off);
    return true;
}

/* Each local rank has its own device. With more local ranks than EMU_MAX_DEVICES, ranks are placed on boards of
 * GPUS_PER_BOARD devices, as on several machines, and see the devices of their board. Ranks beyond EMU_MAX_RANKS all
 * use the last board. */
static int devices_of_ranks(int *first)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"};
    static const char *const ranks[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};
    const int n = emu_rank_from(sizes, 3, GPUS_PER_BOARD),
              at = emu_rank_from(ranks, 3, 0) / GPUS_PER_BOARD * GPUS_PER_BOARD;

    if (n <= EMU_MAX_DEVICES)
        return n < GPUS_PER_BOARD ? GPUS_PER_BOARD : n;
    *first = at < EMU_MAX_RANKS ? at : EMU_MAX_RANKS - GPUS_PER_BOARD;
    return GPUS_PER_BOARD;
}

static int requested_devices(int *first)
{
    const char *value = getenv("EMU_DEVICES");
    char *end;
    long n;

    *first = 0;
    if (!value || !*value)
        return devices_of_ranks(first);
    n = strtol(value, &end, 10);
    if (*end || n < 0 || n > EMU_MAX_DEVICES)
        emu_die("EMU_DEVICES=%s: expected 0 to %d", value, EMU_MAX_DEVICES);
    return (int)n;
}

/* At exit the workers stop. A worker that is inside an operation gets one second to finish, so that the operation
 * does not run on while the program's destructors run. */
static void stop_workers(void)
{
    struct timespec deadline;

    if (emu.is_copy)
        return;
    emu_lock();
    emu.stopping = true;
    for (struct CUstream_st *s = emu.streams; s; s = s->next)
        pthread_cond_broadcast(&s->work);
    emu_contention_end_locked();
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 1;
    while (emu.busy > 0 && pthread_cond_timedwait(&emu.idle, &emu.lock, &deadline) != ETIMEDOUT)
        ;
    emu_unlock();
}

/* A fork() child has no workers, and other processes see its parent only. */
static void be_a_copy(void)
{
    emu.is_copy = true;
}

/* Ends the program if the environment has a variable EMU_... that does not exist, for example EMU_FAULTS, which would
 * be ignored otherwise. */
static void reject_unknown_variables(void)
{
    static const char *const known[] = {
#define RECORDED(variable)
#define INTERNAL(variable)
#define MASKED(variable)
#define READ(variable, text) #variable "=",
#include "bootstrap/base/environment.def"
    };
    const size_t n = sizeof known / sizeof *known;

    for (char **variable = environ; *variable; variable++) {
        size_t i = 0;

        while (i < n && strncmp(*variable, known[i], strlen(known[i])) != 0)
            i++;
        if (i == n && strncmp(*variable, "EMU_", 4) == 0)
            emu_die("unknown variable %s; busbar help environment lists the variables EMU_*", *variable);
    }
}

static void print_banner(void)
{
    if (emu_world_rank() == 0 && !env_is("EMU_QUIET", "1"))
        fprintf(
            stderr,
            "emulated GPUs: %d x Emulated GPU per process, profile %s, %s time; results are modelled, not measured%s\n",
            emu.n_devices, emu.machine.name, emu.real_time ? "real" : "virtual",
            emu.moves_data ? "; the CPU moves the data, which takes longer than without: EMU_DATA=off" : "");
}

static void start(void)
{
    int devices, first;

    reject_unknown_variables();
    emu.real_time = env_switch("EMU_TIME", "real", "virtual");
    emu.moves_data = !env_switch("EMU_DATA", "off", "on");
    emu.passes_unknown = env_switch("EMU_UNKNOWN_KERNELS", "pass", "fail");
    (void)env_switch("EMU_KERNELS", "fast", "source");
    emu.loads_lazily = env_switch("EMU_LAZY_LOADING", "1", "0");
    emu_profile_load(&emu.machine, &emu.profile);
    emu_slow_load(&emu.slow, &emu.machine);
    emu_hazards_load();
    emu_contention_load();
    emu_faults_load(emu.moves_data);
    devices = requested_devices(&first);
    emu.n_devices = emu_visible_devices(first, devices, emu.visible);
    atexit(stop_workers);
    pthread_atfork(NULL, NULL, be_a_copy);
    print_banner();
}

void emu_init(void)
{
    pthread_once(&started, start);
}

void emu_lock(void)
{
    pthread_mutex_lock(&emu.lock);
    emu_host_calls_locked();
}

void emu_unlock(void)
{
    pthread_mutex_unlock(&emu.lock);
}

/* ---- the host clock ---- */

static int64_t wall_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t emu_host_now_locked(void)
{
    return emu.real_time ? wall_ns() : emu.host_ns;
}

void emu_host_reach_locked(int64_t ns)
{
    if (emu.host_ns < ns)
        emu.host_ns = ns;
}

/* A polling host notices the end EMU_POLL_US later. */
void emu_host_poll_locked(int64_t ns)
{
    if (emu.host_ns < ns)
        emu.host_ns = ns + emu.poll_ns;
}

void emu_charge_locked(int64_t ns)
{
    emu.host_ns += ns;
}

int64_t emu_host_now_ns(void)
{
    int64_t now;

    emu_init();
    emu_lock();
    now = emu_host_now_locked();
    emu_unlock();
    return now;
}

void emu_host_advance_ns(int64_t ns)
{
    emu_init();
    emu_lock();
    emu_charge_locked(ns);
    emu_unlock();
}

void emu_host_reach_ns(int64_t ns)
{
    emu_init();
    emu_lock();
    emu_host_reach_locked(ns);
    emu_unlock();
}

bool emu_stopping(void)
{
    bool stopping;

    emu_lock();
    stopping = emu.stopping;
    emu_unlock();
    return stopping;
}

bool emu_moves_data(void)
{
    emu_init();
    return emu.moves_data;
}

const struct bb_cluster *emu_machine(void)
{
    emu_init();
    return &emu.machine;
}

/* ---- marks ---- */

struct emu_mark *emu_mark_new(void)
{
    struct emu_mark *mark = calloc(1, sizeof(*mark));

    if (!mark)
        emu_give_up("out of host memory");
    mark->refs = 1;
    pthread_cond_init(&mark->reached, NULL);
    return mark;
}

void emu_mark_unref_locked(struct emu_mark *mark)
{
    if (!mark || --mark->refs > 0)
        return;
    emu_contention_drop_mark_locked(mark);
    pthread_cond_destroy(&mark->reached);
    free(mark);
}

static void mark_set_locked(struct emu_mark *mark, int64_t time_ns)
{
    mark->done = true;
    mark->time_ns = time_ns;
    if (mark->waiters > 0)
        pthread_cond_broadcast(&mark->reached);
}

static void mark_wait_locked(struct emu_mark *mark)
{
    mark->waiters++;
    while (!mark->done && !emu.stopping) /* after the process end no worker sets the mark */
        pthread_cond_wait(&mark->reached, &emu.lock);
    mark->waiters--;
}

cudaError_t emu_await_locked(struct emu_mark *mark)
{
    emu_contention_host_waits_locked(mark, NULL);
    mark_wait_locked(mark);
    emu_host_reach_locked(mark->time_ns);
    return cudaSuccess;
}

/* ---- the worker of a stream ---- */

static struct timespec at_ns(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

/* Real time: the worker sleeps until the operation's end on the wall clock. */
static void last_until_locked(struct CUstream_st *s, int64_t end_ns)
{
    struct timespec deadline = at_ns(end_ns);

    while (!emu.stopping && wall_ns() < end_ns)
        pthread_cond_clockwait(&s->work, &emu.lock, CLOCK_MONOTONIC, &deadline);
}

static void op_dispose_locked(struct emu_item *item)
{
    if (item->body) {
        emu_body_unref_locked(item->body);
        return;
    }
    if (item->op.release) {
        emu_unlock();
        item->op.release(item->op.arg);
        emu_lock();
    }
}

static void fail_device_locked(struct CUstream_st *s)
{
    struct emu_device *device = &emu.devices[s->device];

    if (device->sticky == cudaSuccess)
        device->sticky = cudaErrorLaunchFailure;
}

static _Thread_local struct emu_item *running;

int64_t emu_end_ns(void)
{
    int64_t end_ns;

    emu_lock();
    emu_contention_await_loss_locked(running);
    end_ns = running->end_ns;
    emu_unlock();
    return end_ns;
}

static void run_op_locked(struct CUstream_st *s, struct emu_item *item)
{
    int64_t end_ns;

    if (emu.devices[s->device].sticky == cudaSuccess) {
        emu.busy++;
        running = item;
        emu_unlock();
        end_ns = item->op.run(item->op.arg, s->clock_ns);
        emu_lock();
        if (--emu.busy == 0 && emu.stopping)
            pthread_cond_broadcast(&emu.idle);
        if (end_ns == EMU_FAILED)
            fail_device_locked(s);
        else
            s->clock_ns = end_ns;
        if (emu.real_time)
            last_until_locked(s, s->clock_ns);
    }
    op_dispose_locked(item);
}

/* An operation with extra entries has an event after it, which begins when the operation has ended. The hardware
 * queue is occupied until then. */
static void serve_item_locked(struct CUstream_st *s, struct emu_item *item)
{
    emu_queue_await_locked(s, item);
    if (s->clock_ns < item->issue_ns)
        s->clock_ns = item->issue_ns;
    switch (item->kind) {
    case EMU_ITEM_OP:
        if (item->op.entries == 0)
            emu_queue_begin_locked(s, item);
        if (item->op.demand && !item->op.demand->peers) {
            emu_contention_await_loss_locked(item);
            item->op.demand->extra_ns = item->extra_ns;
        }
        run_op_locked(s, item);
        break;
    case EMU_ITEM_RECORD:
        mark_set_locked(item->mark, s->clock_ns);
        emu_mark_unref_locked(item->mark);
        break;
    case EMU_ITEM_WAIT:
        mark_wait_locked(item->mark);
        if (s->clock_ns < item->mark->time_ns)
            s->clock_ns = item->mark->time_ns;
        emu_mark_unref_locked(item->mark);
        break;
    }
    if (item->kind != EMU_ITEM_OP || item->op.entries > 0)
        emu_queue_begin_locked(s, item);
}

static void stream_free_locked(struct CUstream_st *s)
{
    struct CUstream_st **link = &emu.streams;

    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
    emu_front_clear(&s->front);
    emu_contention_close_stream_locked(s);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->has_space);
    free(s);
}

static void *serve(void *arg)
{
    struct CUstream_st *s = arg;
    struct emu_item *item;

    emu_lock();
    while (!emu.stopping) {
        if (!s->head && s->closing) {
            stream_free_locked(s);
            break;
        }
        if (!s->head) {
            pthread_cond_wait(&s->work, &emu.lock);
            continue;
        }
        item = s->head;
        if (!(s->head = item->next))
            s->tail = &s->head;
        s->busy = true;
        serve_item_locked(s, item);
        s->busy = false;
        s->done++;
        emu_launch_queue_free_locked(s, item);
        free(item);
    }
    emu_unlock();
    return NULL;
}

/* External signals are for the program's threads: their handlers must not run on a worker. Fault signals stay
 * enabled. */
static void start_worker_locked(struct CUstream_st *s)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;

    sigfillset(&all);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, serve, s) != 0)
        emu_give_up("cannot start a thread for a stream");
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    s->has_worker = true;
}

void emu_stream_close_locked(struct CUstream_st *s)
{
    s->closing = true;
    if (s->has_worker)
        pthread_cond_signal(&s->work);
    else
        stream_free_locked(s);
}

/* ---- queues ---- */

static struct emu_item *push_locked(struct CUstream_st *s, enum emu_item_kind kind, int entries)
{
    struct emu_item *item = calloc(1, sizeof(*item));

    if (!item)
        emu_give_up("out of host memory");
    emu_launch_queue_await_locked(s, entries);
    s->entries += entries;
    item->entries = entries;
    item->kind = kind;
    emu_queue_take_locked(s, item);
    item->issue_ns = emu_host_now_locked();
    *s->tail = item;
    s->tail = &item->next;
    s->issued++;
    if (!s->has_worker)
        start_worker_locked(s);
    else if (!s->busy)
        pthread_cond_signal(&s->work);
    return item;
}

void emu_record_locked(struct CUstream_st *s, struct emu_mark *mark)
{
    mark->refs++;
    push_locked(s, EMU_ITEM_RECORD, 1)->mark = mark;
    emu_contention_mark_locked(s, mark, true);
}

void emu_wait_locked(struct CUstream_st *s, struct emu_mark *mark)
{
    mark->refs++;
    push_locked(s, EMU_ITEM_WAIT, 1)->mark = mark;
    emu_contention_mark_locked(s, mark, false);
}

struct emu_mark *emu_mark_here_locked(struct CUstream_st *s)
{
    struct emu_mark *mark = emu_mark_new();

    if (s->issued == s->done && !emu.contends) { /* idle stream: its time is known now */
        mark->done = true;
        mark->time_ns = s->clock_ns;
    } else {
        emu_record_locked(s, mark);
    }
    return mark;
}

void emu_push_op_locked(struct CUstream_st *s, const struct emu_op *op, struct emu_graph_body *body)
{
    struct emu_item *item = push_locked(s, EMU_ITEM_OP, 1 + op->entries);

    item->op = *op;
    item->body = body;
    emu_contention_op_locked(s, item);
}

static void follow_locked(struct CUstream_st *s, struct CUstream_st *before)
{
    struct emu_mark *mark = emu_mark_here_locked(before);

    emu_wait_locked(s, mark);
    emu_mark_unref_locked(mark);
}

static bool meets_legacy(const struct CUstream_st *s)
{
    return s->kind == EMU_STREAM_PER_THREAD || (s->kind == EMU_STREAM_USER && !(s->flags & cudaStreamNonBlocking));
}

/* The legacy default stream runs after all work issued earlier to the blocking streams of its device, and their
 * later work runs after it. Both sides remember the last join, so that a program with only one kind of stream pays
 * nothing. */
void emu_join_default_locked(struct CUstream_st *s)
{
    struct CUstream_st *legacy = emu.devices[s->device].legacy;

    if (!legacy)
        return;
    if (s == legacy) {
        for (struct CUstream_st *t = emu.streams; t; t = t->next)
            if (t->device == s->device && meets_legacy(t) && !t->capture && t->issued != t->legacy_done) {
                follow_locked(s, t);
                t->legacy_done = t->issued;
            }
    } else if (meets_legacy(s) && s->legacy_joined != legacy->issued) {
        follow_locked(s, legacy);
        s->legacy_joined = legacy->issued;
    }
}

cudaError_t emu_drain_stream_locked(struct CUstream_st *s)
{
    int device = s->device; /* a destroyed stream is freed while the host waits for it */
    struct emu_mark *mark = emu_mark_here_locked(s);
    cudaError_t rc = emu_await_locked(mark);

    emu_mark_unref_locked(mark);
    return rc ? rc : emu.devices[device].sticky;
}

/* The next stream of the device by id; the list may change between two calls. */
static struct CUstream_st *stream_after_locked(int device, unsigned long long after)
{
    struct CUstream_st *found = NULL;

    for (struct CUstream_st *s = emu.streams; s; s = s->next)
        if (s->device == device && s->kind != EMU_STREAM_LANE && s->id > after && (!found || s->id < found->id))
            found = s;
    return found;
}

cudaError_t emu_drain_device_locked(int device)
{
    struct CUstream_st *s;
    unsigned long long id = 0;

    while ((s = stream_after_locked(device, id))) {
        id = s->id;
        emu_drain_stream_locked(s);
    }
    return emu.devices[device].sticky;
}

static cudaError_t put_locked(cudaStream_t stream, const struct emu_op *op)
{
    struct CUstream_st *s;
    cudaError_t rc;

    TRY(emu_stream_of_locked(stream, &s));
    TRY(emu.devices[s->device].sticky);
    emu_charge_locked(op->host_ns);
    if (s->capture)
        return emu_capture_op_locked(s, op);
    if (emu_capture_implicit_locked(s))
        return cudaErrorStreamCaptureImplicit;
    emu_join_default_locked(s);
    emu_push_op_locked(s, op, NULL);
out:
    return rc;
}

cudaError_t emu_enqueue(cudaStream_t stream, const struct emu_op *op)
{
    cudaError_t rc;

    emu_init();
    emu_lock();
    rc = put_locked(stream, op);
    emu_unlock();
    return rc;
}

cudaError_t emu_enqueue_joined(const cudaStream_t *streams, int n, const struct emu_op *op)
{
    struct CUstream_st *s[EMU_MAX_DEVICES];
    struct emu_mark *end;
    cudaError_t rc;

    emu_init();
    if (n < 1 || n > EMU_MAX_DEVICES)
        return cudaErrorInvalidValue;
    if (n == 1)
        return emu_enqueue(streams[0], op);
    emu_lock();
    for (int i = 0; i < n; i++) {
        TRY(emu_stream_of_locked(streams[i], &s[i]));
        TRY(emu.devices[s[i]->device].sticky);
    }
    emu_charge_locked(op->host_ns);
    if (s[0]->capture) {
        rc = emu_capture_joined_locked(s, n, op);
        goto out;
    }
    for (int i = 0; i < n; i++)
        emu_join_default_locked(s[i]);
    for (int i = 1; i < n; i++)
        follow_locked(s[0], s[i]);
    emu_push_op_locked(s[0], op, NULL);
    end = emu_mark_here_locked(s[0]);
    for (int i = 1; i < n; i++)
        emu_wait_locked(s[i], end);
    emu_mark_unref_locked(end);
out:
    emu_unlock();
    return rc;
}
