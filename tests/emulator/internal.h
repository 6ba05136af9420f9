/*
 * internal.h - definitions shared by the source files of the libcudart stand-in, and included only there.
 *
 * One mutex guards all state. Operations run without the mutex, on the worker thread of their stream. Functions whose
 * name ends in _locked require the mutex.
 *
 *   mark    a point in a stream whose time is unknown until the stream reaches it. Events, waits and joins are marks.
 *   item    an entry of a stream's queue: an operation, a mark to set, or a mark to wait for
 *   track   a part of a graph that runs in order on one internal stream (a lane); a launch gives each track a stream
 */
#ifndef EMU_INTERNAL_H
#define EMU_INTERNAL_H

#include "engine.h"
#include "proxies/machine/slow.h"
#include <pthread.h>

#pragma GCC visibility push(hidden) /* engine.h has the functions that the library exports in addition to CUDA's */

enum { EMU_MAX_DEVICES = 64, GPUS_PER_BOARD = 8, EMU_MAX_RANKS = 1024, EMU_MAX_QUEUES = 32 };

struct emu_mark {
    int refs, waiters;
    bool done;
    int64_t time_ns;
    pthread_cond_t reached;
    int moment; /* of the timeline; 0: none */
};

enum emu_item_kind { EMU_ITEM_OP, EMU_ITEM_RECORD, EMU_ITEM_WAIT };

struct emu_graph_body; /* shared by a graph and its executable forms; graphs.c */

struct emu_item {
    struct emu_item *next;
    enum emu_item_kind kind;
    int64_t issue_ns;            /* host clock at the issue */
    uint64_t position;           /* in the stream's hardware queue */
    int entries;                 /* in the launch queue */
    bool loss_known;             /* the contention loss of the operation is known */
    int64_t extra_ns, end_ns;    /* contention loss and end time of this run; per run, because a graph runs several
                                 times */
    int step;                    /* of the timeline */
    struct emu_op op;            /* EMU_ITEM_OP */
    struct emu_mark *mark;       /* the other kinds; holds one reference */
    struct emu_graph_body *body; /* set when a graph owns op; holds one reference */
};

enum emu_stream_kind { EMU_STREAM_LEGACY, EMU_STREAM_PER_THREAD, EMU_STREAM_USER, EMU_STREAM_LANE };

struct emu_capture;    /* a capture in progress; graphs.h */
struct CUgraphNode_st; /* a node of a graph; graphs.h */

/* The set of nodes that the next captured operation of a stream, or a waiter of a captured event, depends on. */
struct emu_front {
    struct CUgraphNode_st **nodes;
    int n;
};

/* A hardware queue of a device; hazards.c. */
struct emu_queue {
    uint64_t given, begun; /* number of items */
    int64_t clock_ns;      /* when the latest item began */
    pthread_cond_t turn;
};

struct CUstream_st {
    struct CUstream_st *next;
    enum emu_stream_kind kind;
    int device, priority;
    unsigned flags;
    unsigned long long id;
    struct emu_item *head, **tail;
    uint64_t issued, done;  /* number of items */
    uint64_t legacy_joined; /* items of the legacy stream that this stream has already waited for */
    uint64_t legacy_done;   /* items of this stream that the legacy stream has already waited for */
    int64_t clock_ns;
    bool has_worker, busy, closing;
    pthread_cond_t work;
    struct emu_queue *queue; /* NULL: hardware queues are not modelled */
    int entries;             /* occupied entries of the launch queue */
    pthread_cond_t has_space;
    struct emu_capture *capture;
    struct emu_front front; /* valid during a capture */
    int lane;               /* in the timeline; 0: none yet */
};

struct CUevent_st {
    uint64_t magic;
    int device;
    unsigned flags;
    struct emu_mark *mark;       /* of the latest record; NULL before the first one */
    unsigned long long captured; /* id of the capture that recorded the event */
    struct emu_front front;
};

struct emu_device {
    struct CUstream_st *legacy;
    size_t used_bytes;
    cudaError_t sticky;
    unsigned flags;
    size_t limits[16];
    uint64_t peers; /* bit d: access to device d was enabled */
    struct emu_queue queues[EMU_MAX_QUEUES];
    unsigned queues_given;
};

/* A device of the machine. instance: 0 for the whole device, from 1 on a MIG instance. */
struct emu_device_id {
    int number, instance;
};

struct emu_state {
    pthread_mutex_t lock;
    pthread_cond_t idle; /* signalled when the last busy worker has finished its operation */
    bool stopping, real_time, moves_data, passes_unknown, loads_lazily;
    bool contends; /* operations slow each other down (the profile has "sharing") */
    bool is_copy;  /* this process is a fork() child of the one that started the emulator */
    int busy, n_devices;
    int n_queues, launch_queue; /* 0: unlimited */
    int64_t host_ns, poll_ns;
    unsigned long long next_id;
    struct CUstream_st *streams; /* list of all streams */
    struct emu_device devices[EMU_MAX_DEVICES];
    struct emu_device_id visible[EMU_MAX_DEVICES]; /* [n_devices] the machine's device for each CUDA device number */
    struct emu_capture *captures;
    struct bb_cluster machine;
    struct emu_profile profile; /* the part of the machine that CPU twins see */
    struct bb_slow slow;        /* EMU_SLOW */
};
extern struct emu_state emu;

/* engine.c: process start, clock, queues */
cudaError_t emu_enter(const char *function);     /* first line of every public call that can fail: injected faults, then
                                                sticky errors */
cudaError_t emu_enter_any(const char *function); /* like emu_enter, for calls that ignore sticky errors */
cudaError_t emu_report(cudaError_t rc); /* last line of such a call: stores an error for cudaGetLastError and returns
                                           rc */
void emu_init(void);
void emu_lock(void);
void emu_unlock(void);
int64_t emu_host_now_locked(void);
void emu_host_reach_locked(int64_t ns);
void emu_host_poll_locked(int64_t ns); /* a successful query of something that ended at ns; adds EMU_POLL_US */
void emu_charge_locked(int64_t ns);
struct emu_mark *emu_mark_new(void);
void emu_mark_unref_locked(struct emu_mark *mark);
struct emu_mark *emu_mark_here_locked(struct CUstream_st *s);         /* the caller owns one reference */
void emu_record_locked(struct CUstream_st *s, struct emu_mark *mark); /* takes its own reference */
void emu_wait_locked(struct CUstream_st *s, struct emu_mark *mark);   /* the stream waits for the mark; takes its own
                                                                       reference */
cudaError_t emu_await_locked(struct emu_mark *mark);                  /* the calling thread waits for the mark */
void emu_push_op_locked(struct CUstream_st *s, const struct emu_op *op, struct emu_graph_body *body);
void emu_join_default_locked(struct CUstream_st *s);
cudaError_t emu_drain_device_locked(int device);
cudaError_t emu_drain_stream_locked(struct CUstream_st *s);
void emu_forget_captures_locked(struct CUstream_st *s);

/* contention.c: reports to the timeline what the host issues, and what the host waits for (a mark, or all of a
 * stream); delays an operation until its loss is known */
void emu_contention_load(void);
void emu_contention_mark_locked(struct CUstream_st *s, struct emu_mark *mark, bool record);
void emu_contention_op_locked(struct CUstream_st *s, struct emu_item *item);
void emu_contention_host_waits_locked(const struct emu_mark *mark, const struct CUstream_st *s);
void emu_contention_host_waits_one_locked(const struct CUstream_st *s); /* the host waits until any item of s has
                                                                           ended; s NULL: an item of any stream */
void emu_contention_await_loss_locked(struct emu_item *item);
void emu_contention_drop_mark_locked(struct emu_mark *mark); /* drops the mark's moment */
void emu_contention_close_stream_locked(struct CUstream_st *s);
void emu_contention_end_locked(void); /* at process exit */

/* timeline/job_timeline.c: the timeline shared by all processes of the job. name (out): pid of the process that
 * created it. host (out): this process on it. Returns NULL, after printing why, if the processes do not find each
 * other. */
struct emu_timeline *emu_timeline_of_job(uint64_t *name, int *host);

/* streams.c */
struct CUstream_st *emu_stream_new_locked(enum emu_stream_kind kind, int device, unsigned flags, int priority);
void emu_stream_close_locked(struct CUstream_st *s);
cudaError_t emu_stream_of_locked(cudaStream_t handle, struct CUstream_st **out);
cudaError_t emu_run_sync(cudaStream_t stream, const struct emu_op *op); /* enqueue and wait, as cudaMemcpy does;
                                                                           releases op on an error too */
cudaStream_t emu_ptsz(cudaStream_t stream); /* the handle that stream 0 means in code compiled for per-thread default
                                               streams */

/* devices.c */
int emu_current_device(void);

/* visible.c: fills `visible` with the devices that CUDA_VISIBLE_DEVICES selects from `devices` devices starting with
 * `first`. Returns their number. */
int emu_visible_devices(int first, int devices, struct emu_device_id visible[EMU_MAX_DEVICES]);
void emu_uuid_of(struct emu_device_id device, unsigned char uuid[16]);

/* capture.c, graphs.c: streams that are being captured */
cudaError_t emu_capture_op_locked(struct CUstream_st *s, const struct emu_op *op);
cudaError_t emu_capture_joined_locked(struct CUstream_st *const *s, int n, const struct emu_op *op);
cudaError_t emu_capture_record_locked(struct CUstream_st *s, cudaEvent_t event, bool external);
cudaError_t emu_capture_wait_locked(struct CUstream_st *s, cudaEvent_t event, bool external);
cudaError_t emu_capture_refuses_locked(struct CUstream_st *s); /* error if s, which is synchronised or queried, is
                                                                  being captured */
cudaError_t emu_capture_unsafe(void); /* for calls that are forbidden during a capture, such as cudaMalloc */
bool emu_capture_implicit_locked(struct CUstream_st *s); /* use of the legacy stream would depend on a captured
                                                            stream: invalidates the capture and returns true */
void emu_front_clear(struct emu_front *front);
void emu_body_unref_locked(struct emu_graph_body *body);

/* profile.c, job.c, faults.c */
void emu_profile_load(struct bb_cluster *machine, struct emu_profile *profile);
void emu_slow_load(struct bb_slow *slow, struct bb_cluster *machine);
void emu_faults_load(void);
int64_t emu_ns_of_us(double us);
int emu_rank_from(const char *const *names, int n, int fallback);
int emu_nodes(void);              /* EMU_NODES; 0: nodes of the profile's gpus_per_node */
int emu_node_of(int at, int all); /* the node of number `at` of `all`, on EMU_NODES nodes of equal size */
/* invalid environment: prints one line, exit status 2 */
void emu_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void emu_give_up(const char *what) __attribute__((noreturn)); /* out of a host resource: prints one line, exit status
                                                                 1 */

/* memory.c */
enum emu_space { EMU_PAGEABLE, EMU_PINNED, EMU_DEVICE, EMU_MANAGED };
enum emu_space emu_space_of(const void *pointer, int *device); /* device may be NULL */
bool emu_inside_block(const void *pointer, size_t bytes); /* whether the range is inside one block; true for pageable
                                                             memory */
cudaError_t emu_alloc_device(void **out, size_t bytes, int device, enum emu_space space);
void emu_adopt_block(void *base, size_t bytes, enum emu_space space); /* registers memory of the program itself: a
                                                                         __device__ or __constant__ variable */
size_t emu_block_bytes(const void *base);                             /* 0 if no block begins at base */
void emu_free_block(void *base);
bool emu_is_physical(const void *pointer); /* allocated by emu_alloc_physical */

/* driver.c: granularity of physical memory, in bytes */
size_t emu_granularity(void);

/* copies.c: cudaMemcpy and cudaMemcpyAsync without emu_enter */
cudaError_t emu_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream,
                     bool async);

void emu_free_device_memory(int device);

#pragma GCC visibility pop
#endif
