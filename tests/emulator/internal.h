/*
 * internal.h - what the files of the libcudart stand-in share. Nobody else includes it.
 *
 * One mutex guards all state. Operations run without it, on the worker thread of their stream.
 *
 *   mark    a moment of a stream: unknown until the stream gets there, then a time. Events, waits and joins are marks.
 *   item    what a stream's queue holds: an operation, a mark to set, or a mark to wait for
 *   track   the part of a graph that runs in order on one stream; a launch puts each track on a stream
 */
#ifndef EMU_INTERNAL_H
#define EMU_INTERNAL_H

#include "engine.h"
#include "proxies/machine/slow.h"
#include <pthread.h>

#pragma GCC visibility push(hidden) /* engine.h is what the library shows of itself beside CUDA */

enum { EMU_MAX_DEVICES = 64, GPUS_PER_BOARD = 8, EMU_MAX_RANKS = 1024, EMU_MAX_QUEUES = 32 };

struct emu_mark {
    int refs, waiters;
    bool done;
    int64_t time_ns;
    pthread_cond_t reached;
    int moment; /* of the timeline, 0: none */
};

enum emu_item_kind { EMU_ITEM_OP, EMU_ITEM_RECORD, EMU_ITEM_WAIT };

struct emu_graph_body; /* what a graph and its executable forms share; graphs.c */

struct emu_item {
    struct emu_item *next;
    enum emu_item_kind kind;
    int64_t issue_ns;            /* host clock when it was issued              */
    uint64_t device;              /* in its stream's hardware queue             */
    int entries;                 /* of the launch queue                        */
    bool loss_known;                /* it is known what its operation loses       */
    int64_t extra_ns, end_ns;    /* to others; of this run: a graph has many   */
    int step;                    /* there                                      */
    struct emu_op op;            /* EMU_ITEM_OP                                */
    struct emu_mark *mark;       /* the other kinds, one reference             */
    struct emu_graph_body *body; /* set when a graph owns op, one reference    */
};

enum emu_stream_kind { EMU_STREAM_LEGACY, EMU_STREAM_PER_THREAD, EMU_STREAM_USER, EMU_STREAM_LANE };

struct emu_capture;    /* a capture in progress; capture.c */
struct CUgraphNode_st; /* a node of a graph; graphs.h */

/* The set of nodes that the next captured operation of a stream, or the waiter of a captured event, depends on. */
struct emu_front {
    struct CUgraphNode_st **nodes;
    int n;
};

/* A hardware queue of a device; hazards.c. */
struct emu_queue {
    uint64_t given, begun; /* items */
    int64_t clock_ns;      /* when the latest began */
    pthread_cond_t turn;
};

struct CUstream_st {
    struct CUstream_st *next;
    enum emu_stream_kind kind;
    int device, priority;
    unsigned flags;
    unsigned long long id;
    struct emu_item *head, **tail;
    uint64_t issued, done; /* items                                                                  */
    uint64_t legacy_joined;   /* items of the legacy stream that this one waits for               */
    uint64_t legacy_done;  /* own items that the legacy stream waits for                       */
    int64_t clock_ns;
    bool has_worker, busy, closing;
    pthread_cond_t work;
    struct emu_queue *queue; /* NULL: its own                  */
    int entries;             /* of the launch queue, in use    */
    pthread_cond_t has_space;
    struct emu_capture *capture;
    struct emu_front front; /* in capture */
    int lane;               /* in the timeline, 0: none yet            */
};

struct CUevent_st {
    uint64_t magic;
    int device;
    unsigned flags;
    struct emu_mark *mark;       /* the latest record, NULL before it          */
    unsigned long long captured; /* id of the capture that it was recorded in  */
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

/* A device of the machine, or a MIG instance of it (from 1 on; 0: all of the device). */
struct emu_device_id {
    int number, instance;
};

struct emu_state {
    pthread_mutex_t lock;
    pthread_cond_t idle; /* the last busy worker is done        */
    bool stopping, real_time, moves_data, passes_unknown, loads_lazily;
    bool contends; /* operations take from each other   */
    bool is_copy;  /* of a process, by fork()           */
    int busy, n_devices;
    int n_queues, launch_queue; /* 0: endless */
    int64_t host_ns, poll_ns;
    unsigned long long next_id;
    struct CUstream_st *streams; /* all of them                         */
    struct emu_device devices[EMU_MAX_DEVICES];
    struct emu_device_id visible[EMU_MAX_DEVICES]; /* [n_devices] what the numbers of this process stand for */
    struct emu_capture *captures;
    struct bb_cluster machine;
    struct emu_profile profile; /* what twins see of it */
    struct bb_slow slow;        /* EMU_SLOW             */
};
extern struct emu_state emu;

/* engine.c: start of the process, clock, queues. Names ending in _locked want the mutex held. */
cudaError_t emu_enter(const char *function); /* first line of every public call that can fail: faults, sticky errors */
cudaError_t emu_enter_any(const char *function); /* the same for calls that a sticky error does not concern */
cudaError_t emu_report(cudaError_t rc); /* last line: remembers an error for cudaGetLastError, returns rc       */
void emu_init(void);
void emu_lock(void);
void emu_unlock(void);
int64_t emu_host_now_locked(void);
void emu_host_reach_locked(int64_t ns);
void emu_host_poll_locked(int64_t ns); /* a query finds that something ended then */
void emu_charge_locked(int64_t ns);
struct emu_mark *emu_mark_new(void);
void emu_mark_unref_locked(struct emu_mark *mark);
struct emu_mark *emu_mark_here_locked(struct CUstream_st *s);         /* one reference for the caller      */
void emu_record_locked(struct CUstream_st *s, struct emu_mark *mark); /* takes its own reference           */
void emu_wait_locked(struct CUstream_st *s, struct emu_mark *mark);   /* the stream waits; own reference   */
cudaError_t emu_await_locked(struct emu_mark *mark);                  /* the calling thread waits          */
void emu_push_op_locked(struct CUstream_st *s, const struct emu_op *op, struct emu_graph_body *body);
void emu_join_default_locked(struct CUstream_st *s);
cudaError_t emu_drain_device_locked(int device);
cudaError_t emu_drain_stream_locked(struct CUstream_st *s);
void emu_forget_captures_locked(struct CUstream_st *s);

/* contention.c: what is issued; what the host waits for, a mark or all of a stream; the operation waits for its loss */
void emu_contention_load(void);
void emu_contention_mark_locked(struct CUstream_st *s, struct emu_mark *mark, bool record);
void emu_contention_op_locked(struct CUstream_st *s, struct emu_item *item);
void emu_contention_host_waits_locked(const struct emu_mark *mark, const struct CUstream_st *s);
void emu_contention_host_waits_one_locked(const struct CUstream_st *s); /* it waits until something there has ended */
void emu_contention_await_loss_locked(struct emu_item *item);
void emu_contention_drop_mark_locked(struct emu_mark *mark); /* nobody asks any more */
void emu_contention_close_stream_locked(struct CUstream_st *s);
void emu_contention_end_locked(void); /* the process goes */

/* timeline/job_timeline.c: the one that all processes of the job have; name: the process that made it. NULL: there is
 * none for this one, which was said. */
struct emu_timeline *emu_timeline_of_job(uint64_t *name, int *host);

/* streams.c */
struct CUstream_st *emu_stream_new_locked(enum emu_stream_kind kind, int device, unsigned flags, int priority);
void emu_stream_close_locked(struct CUstream_st *s);
cudaError_t emu_stream_of_locked(cudaStream_t handle, struct CUstream_st **out);
cudaError_t emu_run_sync(cudaStream_t stream, const struct emu_op *op); /* enqueue and wait, as cudaMemcpy does      */
cudaStream_t emu_ptsz(cudaStream_t stream);                             /* stream 0 of code with per-thread streams */

/* devices.c */
int emu_current_device(void);

/* visible.c: what CUDA_VISIBLE_DEVICES leaves of so many devices from the first on; their number is returned */
int emu_visible_devices(int first, int devices, struct emu_device_id visible[EMU_MAX_DEVICES]);
void emu_uuid_of(struct emu_device_id device, unsigned char uuid[16]);

/* capture.c, graphs.c: streams that are being captured */
cudaError_t emu_capture_op_locked(struct CUstream_st *s, const struct emu_op *op);
cudaError_t emu_capture_joined_locked(struct CUstream_st *const *s, int n, const struct emu_op *op);
cudaError_t emu_capture_record_locked(struct CUstream_st *s, cudaEvent_t event, bool external);
cudaError_t emu_capture_wait_locked(struct CUstream_st *s, cudaEvent_t event, bool external);
cudaError_t emu_capture_refuses_locked(struct CUstream_st *s); /* s is synchronised or queried: an error in capture */
cudaError_t emu_capture_unsafe(void);                    /* a call that no capture allows: cudaMalloc and the like */
bool emu_capture_implicit_locked(struct CUstream_st *s); /* use of the legacy stream would touch a capture: ends it */
void emu_front_clear(struct emu_front *front);
void emu_body_unref_locked(struct emu_graph_body *body);

/* profile.c, job.c, faults.c */
void emu_profile_load(struct bb_cluster *machine, struct emu_profile *profile);
void emu_slow_load(struct bb_slow *slow, struct bb_cluster *machine);
void emu_faults_load(void);
int64_t emu_ns_of_us(double us);
int emu_rank_from(const char *const *names, int n, int fallback);
int emu_nodes(void);              /* EMU_NODES, 0: as the machine's nodes are  */
int emu_node_of(int at, int all); /* of so many, on EMU_NODES of equal size     */
void emu_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn)); /* bad environment: exit 2 */
void emu_give_up(const char *what) __attribute__((noreturn)); /* the host has no more of it: exit 1 */

/* memory.c */
enum emu_space { EMU_PAGEABLE, EMU_PINNED, EMU_DEVICE, EMU_MANAGED };
enum emu_space emu_space_of(const void *pointer, int *device); /* device may be NULL */
bool emu_inside_block(const void *pointer, size_t bytes);      /* of one block to its end; true for pageable memory */
cudaError_t emu_alloc_device(void **out, size_t bytes, int device, enum emu_space space);
void emu_adopt_block(void *base, size_t bytes, enum emu_space space); /* memory of the program itself: a variable */
size_t emu_block_bytes(const void *base);                             /* 0 when no block begins there            */
void emu_free_block(void *base);
bool emu_is_physical(const void *pointer); /* of emu_alloc_physical */

/* driver.c: what the driver says of memory */
size_t emu_granularity(void);

/* copies.c: cudaMemcpy and cudaMemcpyAsync without their entry */
cudaError_t emu_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream,
                     bool async);

void emu_free_device_memory(int device);

#pragma GCC visibility pop
#endif
