/*
 * internal.h - definitions shared by the source files of the emulated libcudart, and included only there.
 *
 * One mutex guards all state. Operations run without the mutex, on the worker thread of their stream. Functions whose
 * name ends in _locked must be called with the mutex locked.
 *
 *   mark    a point in a stream whose time is unknown until the stream reaches it; used for events, waits and joins
 *   item    an entry of a stream's queue: an operation, a mark to set, or a mark to wait for
 *   track   a chain of graph nodes that run in order; each launch of a graph assigns an internal stream to each track
 *   lane    a stream as an object of the timeline (timeline/timeline.h), which computes contention
 *   moment  a mark as an object of the timeline
 *   step    an item as an object of the timeline
 */
#ifndef EMU_INTERNAL_H
#define EMU_INTERNAL_H

#include "engine.h"
#include "proxies/simulation/machine/slow.h"
#include <pthread.h>

#pragma GCC visibility push(hidden) /* functions that the library exports in addition to CUDA's are in engine.h */

enum { EMU_MAX_DEVICES = 64, GPUS_PER_BOARD = 8, EMU_MAX_RANKS = 1024, EMU_MAX_QUEUES = 32 };

struct emu_mark {
    int refs, waiters;
    bool done;
    int64_t time_ns;
    pthread_cond_t reached;
    int moment; /* moment of the timeline for this mark; 0: none */
};

enum emu_item_kind { EMU_ITEM_OP, EMU_ITEM_RECORD, EMU_ITEM_WAIT };

struct emu_graph_body; /* nodes shared by a graph and the executable graphs instantiated from it; graphs.h */

struct emu_item {
    struct emu_item *next;
    enum emu_item_kind kind;
    int64_t issue_ns;            /* host clock when the item was issued */
    uint64_t position;           /* position in the stream's hardware queue */
    int entries;                 /* entries that the item occupies in the launch queue */
    bool loss_known;             /* the delay of the operation by contention is known */
    int64_t extra_ns, end_ns;    /* delay by contention and end time of this run, in ns; stored per item and not per
                                 operation, because a graph runs an operation several times */
    int step;                    /* step of the timeline for this item */
    struct emu_op op;            /* operation of an EMU_ITEM_OP */
    struct emu_mark *mark;       /* mark of the other kinds of items; the item holds one reference */
    struct emu_graph_body *body; /* graph body that owns op, or NULL if the item owns op; the item holds one
                                    reference */
};

enum emu_stream_kind { EMU_STREAM_LEGACY, EMU_STREAM_PER_THREAD, EMU_STREAM_USER, EMU_STREAM_LANE };

struct emu_capture;    /* a capture in progress; graphs.h */
struct CUgraphNode_st; /* a node of a graph; graphs.h */

/* A set of graph nodes on which the next captured operation of a stream, or the next operation that waits for a
 * captured event, depends. */
struct emu_front {
    struct CUgraphNode_st **nodes;
    int n;
};

/* A hardware queue of a device (hazards.c). */
struct emu_queue {
    uint64_t given, begun; /* number of items that entered the queue, and that have begun */
    int64_t clock_ns;      /* time at which the latest item began */
    pthread_cond_t turn;
};

struct CUstream_st {
    struct CUstream_st *next;
    enum emu_stream_kind kind;
    int device, priority;
    unsigned flags;
    unsigned long long id;
    struct emu_item *head, **tail;
    uint64_t issued, done;  /* number of items issued, and of items that have ended */
    uint64_t legacy_joined; /* number of items of the legacy stream that this stream has already waited for */
    uint64_t legacy_done;   /* number of items of this stream that the legacy stream has already waited for */
    int64_t clock_ns;
    bool has_worker, busy, closing;
    pthread_cond_t work;
    struct emu_queue *queue; /* the stream's hardware queue; NULL: hardware queues are not modelled */
    int entries;             /* occupied entries of the launch queue */
    pthread_cond_t has_space;
    struct emu_capture *capture;
    struct emu_front front; /* nodes on which the next captured operation depends; valid during a capture */
    int lane;               /* lane of the timeline for this stream; 0: none yet */
};

struct CUevent_st {
    uint64_t magic;
    int device;
    unsigned flags;
    struct emu_mark *mark;       /* mark of the latest record; NULL before the first record */
    unsigned long long captured; /* id of the capture during which the event was recorded */
    struct emu_front front;
};

struct emu_device {
    struct CUstream_st *legacy;
    size_t used_bytes;
    cudaError_t sticky;
    unsigned flags;
    size_t limits[16];
    uint64_t peers; /* bit d is set if peer access to device d was enabled */
    struct emu_queue queues[EMU_MAX_QUEUES];
    unsigned queues_given;
};

/* A device of the machine. instance: 0 for the whole device; 1 to 7: number of a MIG instance. */
struct emu_device_id {
    int number, instance;
};

struct emu_state {
    pthread_mutex_t lock;
    pthread_cond_t idle; /* signalled when the last busy worker thread has finished its operation */
    bool stopping, real_time, moves_data, passes_unknown, loads_lazily;
    bool contends; /* concurrent operations slow each other down (the profile has "sharing") */
    bool is_copy;  /* this process is a fork() child of the process that initialized the emulator */
    int busy, n_devices;
    int n_queues, launch_queue; /* n_queues: hardware queues per device, 0: not modelled; launch_queue: entries of a
                                   launch queue, 0: unlimited */
    cudaError_t
        start_result; /* of every call: cudaSuccess, or the error of a driver or MPS server that cannot be used */
    int64_t host_ns, poll_ns;
    unsigned long long next_id;
    struct CUstream_st *streams; /* linked list of all streams */
    struct emu_device devices[EMU_MAX_DEVICES];
    struct emu_device_id visible[EMU_MAX_DEVICES]; /* [n_devices] device of the machine for each CUDA device number */
    struct emu_capture *captures;
    struct bb_cluster machine;
    struct emu_profile profile; /* the rates of the machine that CPU twins use */
    struct bb_slow slow;        /* slow parts of the machine (EMU_SLOW) */
};
extern struct emu_state emu;

/* engine.c: initialization, clocks, queues */
cudaError_t emu_enter(const char *function);     /* first call of every public function that can fail: applies injected
                                                faults, then returns a sticky error */
cudaError_t emu_enter_any(const char *function); /* like emu_enter, for functions that ignore sticky errors */
cudaError_t emu_report(cudaError_t rc);          /* last call of every public function that can fail: stores rc for
                                           cudaGetLastError and returns rc */
void emu_init(void);
void emu_lock(void);
void emu_unlock(void);
int64_t emu_host_now_locked(void);
void emu_host_reach_locked(int64_t ns);
void emu_host_poll_locked(int64_t ns); /* a query found that work that ended at ns is done: advances the host clock
                                          to ns + EMU_POLL_US */
void emu_charge_locked(int64_t ns);
struct emu_mark *emu_mark_new(void);
void emu_mark_unref_locked(struct emu_mark *mark);
struct emu_mark *emu_mark_here_locked(struct CUstream_st *s); /* returns a mark at the end of the stream's queue; the
                                                                 caller owns one reference */
void emu_record_locked(struct CUstream_st *s, struct emu_mark *mark); /* appends an item that sets the mark; holds
                                                                         its own reference */
void emu_wait_locked(struct CUstream_st *s, struct emu_mark *mark);   /* appends an item that waits for the mark; holds
                                                                       its own reference */
cudaError_t emu_await_locked(struct emu_mark *mark); /* blocks the calling thread until the mark is reached */
void emu_push_op_locked(struct CUstream_st *s, const struct emu_op *op, struct emu_graph_body *body);
void emu_join_default_locked(struct CUstream_st *s);
cudaError_t emu_drain_device_locked(int device);
cudaError_t emu_drain_stream_locked(struct CUstream_st *s);
void emu_forget_captures_locked(struct CUstream_st *s);

/* contention.c: informs the timeline which operations and marks the host issues and what the host waits for (a mark,
 * or all items of a stream), and delays an operation until its delay by contention is known */
void emu_contention_load(void);
void emu_contention_mark_locked(struct CUstream_st *s, struct emu_mark *mark, bool record);
void emu_contention_op_locked(struct CUstream_st *s, struct emu_item *item);
void emu_contention_host_waits_locked(const struct emu_mark *mark, const struct CUstream_st *s);
/* the host waits until any item of s has ended; s NULL: until any item of any stream has ended */
void emu_contention_host_waits_one_locked(const struct CUstream_st *s);
void emu_contention_await_loss_locked(struct emu_item *item);
void emu_contention_drop_mark_locked(struct emu_mark *mark); /* releases the moment of the mark */
void emu_contention_close_stream_locked(struct CUstream_st *s);
void emu_contention_end_locked(void); /* called at process exit */

/* timeline/job_timeline.c: opens the timeline that all processes of the job share. name: out, id of the timeline
 * (process id of its creator). host: out, id of this process in the timeline. Returns NULL, after printing the
 * reason, if the processes cannot find each other. */
struct emu_timeline *emu_timeline_of_job(uint64_t *name, int *host);

/* streams.c */
struct CUstream_st *emu_stream_new_locked(enum emu_stream_kind kind, int device, unsigned flags, int priority);
void emu_stream_close_locked(struct CUstream_st *s);
cudaError_t emu_stream_of_locked(cudaStream_t handle, struct CUstream_st **out);
/* enqueues the operation and waits for its end, like cudaMemcpy; calls op->release also after an error */
cudaError_t emu_run_sync(cudaStream_t stream, const struct emu_op *op);
cudaStream_t emu_ptsz(cudaStream_t stream); /* replaces stream 0 by the handle of the per-thread default stream */

/* devices.c */
int emu_current_device(void);

/* visible.c: selects the devices that CUDA_VISIBLE_DEVICES names among `devices` devices starting with `first`.
 * visible: out, [returned number] devices. Returns their number. */
int emu_visible_devices(int first, int devices, struct emu_device_id visible[EMU_MAX_DEVICES]);
void emu_uuid_of(struct emu_device_id device, unsigned char uuid[16]);

/* capture.c, graphs.c: streams that are being captured */
cudaError_t emu_capture_op_locked(struct CUstream_st *s, const struct emu_op *op);
cudaError_t emu_capture_joined_locked(struct CUstream_st *const *s, int n, const struct emu_op *op);
cudaError_t emu_capture_record_locked(struct CUstream_st *s, cudaEvent_t event, bool external);
cudaError_t emu_capture_wait_locked(struct CUstream_st *s, cudaEvent_t event, bool external);
cudaError_t emu_capture_refuses_locked(struct CUstream_st *s); /* returns an error if s is being captured, so that
                                                                  the program may not synchronise or query it */
cudaError_t emu_capture_unsafe(void); /* returns an error during a capture; for functions that are forbidden then,
                                         for example cudaMalloc */
bool emu_capture_implicit_locked(struct CUstream_st *s); /* if using the legacy stream would make it depend on a
                                                            captured stream: invalidates the capture and returns true */
void emu_front_clear(struct emu_front *front);
void emu_body_unref_locked(struct emu_graph_body *body);

/* links.c: the rate in 1e9 bytes/s between this process's GPU and memory of the host or of another GPU; 0: memory of this GPU,
 * or the profile has no such rate. $EMU_SLOW_LINKS lowers it. */
double emu_link_gbps(const void *pointer, bool by_kernel);

/* profile.c, job.c, faults.c */
void emu_profile_load(struct bb_cluster *machine, struct emu_profile *profile);
void emu_slow_load(struct bb_slow *slow, struct bb_cluster *machine);
void emu_faults_load(bool moves_data);
int64_t emu_ns_of_us(double us);
int emu_rank_from(const char *const *names, int n, int fallback);
int emu_nodes(void);              /* returns EMU_NODES; 0: nodes with the profile's gpus_per_node GPUs */
int emu_node_of(int at, int all); /* returns the node of GPU number `at` of `all`, with EMU_NODES nodes of equal size */
void emu_give_up(const char *what) __attribute__((noreturn)); /* prints one line about an exhausted resource of the
                                                                 host and exits with status 1 */

/* memory.c */
enum emu_space { EMU_PAGEABLE, EMU_PINNED, EMU_DEVICE, EMU_MANAGED };
enum emu_space emu_space_of(const void *pointer, int *device); /* returns the kind of memory; *device: out, its
                                                                  device; may be NULL */
bool emu_inside_block(const void *pointer, size_t bytes);      /* returns whether the range lies inside one allocated
                                                             block; always true for pageable memory */
int emu_peer_of(
    const void *pointer); /* returns the rank whose GPU has the memory, if cudaIpcOpenMemHandle mapped it; else -1 */
cudaError_t emu_alloc_device(void **out, size_t bytes, int device, enum emu_space space);
void emu_adopt_block(void *base, size_t bytes, enum emu_space space); /* registers memory that the program contains:
                                                                         a __device__ or __constant__ variable */
size_t emu_block_bytes(const void *base); /* returns the size of the block that begins at base, 0 if there is none */
void emu_free_block(void *base);
bool emu_is_physical(const void *pointer); /* returns whether emu_alloc_physical allocated the memory */

/* driver.c: returns the granularity of physical memory in bytes */
size_t emu_granularity(void);

/* copies.c: implementation of cudaMemcpy and cudaMemcpyAsync, without the call of emu_enter */
cudaError_t emu_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream,
                     bool async);

void emu_free_device_memory(int device);

#pragma GCC visibility pop
#endif
