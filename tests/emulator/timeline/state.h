/* state.h - the state of a timeline and the internal interface of its source files. */
#ifndef EMU_TIMELINE_STATE_H
#define EMU_TIMELINE_STATE_H

#include "proxies/simulation/machine/cluster.h"
#include "proxies/simulation/machine/flows.h"
#include "timeline.h"

#include <pthread.h>
#include <stdatomic.h>

#pragma GCC visibility push(hidden)

/* Capacities. The kernel allocates a page when it is first touched. */
enum {
    TL_HOSTS = 1 << 11,
    TL_GPUS = 1 << 12,
    TL_DEVICES = 64, /* per host */
    TL_SHARED_RESOURCES = 1 << 12,
    TL_RESOURCES = 1 << 16,
    TL_LANES = 1 << 14,
    TL_STEPS = 1 << 21,
    TL_MOMENTS = 1 << 20,
    TL_ENDPOINTS = 1 << 21,
    TL_CALLS = 1 << 17,
    TL_PAIRS = 1 << 20,
    TL_FLOWS = 1 << 16,
    TL_USES = 1 << 22,
    TL_EVENTS = 1 << 20,
    TL_BUCKETS = 1 << 14,
    TL_SIZES = 24 /* size classes of blocks of uses: powers of two */
};

/* A pool of elements. Each element begins with `next`, which links the unused elements; elements in use may use it
 * otherwise. */
struct tl_pool {
    int unused, n;
};

enum { TL_A_MOMENT = 0, TL_ALL_LANES = -1 };

enum tl_host_state { TL_GONE, TL_RUNNING, TL_WAITING, TL_AWAY, TL_LOST };

struct tl_host {
    int next;
    enum tl_host_state state;
    int pid, rank, first_lane, n_steps, start_barriers;
    int lane;      /* the lane that it waits for, or TL_A_MOMENT, or TL_ALL_LANES */
    bool polls;    /* reports again that it is away when `returns` of the shared state changes */
    bool any_step; /* any step of that lane ends the wait, not only the last one */
    double active_s;
    /* host_checks.c: active_s and processor time at the last check; processor time at the first check with this active_s;
     * number of checks in a row since then that found the host asleep */
    double checked_active_s, cpu_s, first_cpu_s;
    int idle_checks;
    int gpus[TL_DEVICES];
    _Atomic uint32_t doorbell, asleep;
};

struct tl_gpu {
    int resource[EMU_PARTS], own[EMU_PARTS]; /* own: private resources of this GPU, used when no other GPU's
                                                operations are simulated */
    int held_sms, running;                   /* running: head of the list of lanes that compute */
    bool dirty;                              /* the rates of its kernels must be recomputed */
};

enum tl_phase { TL_IDLE, TL_COMPUTES, TL_AT_START_BARRIER, TL_IN_NCCL, TL_ENDING };

/* Each lane has its own time. A lane whose host issues late (for example a lost host) lags the simulated
 * time, because past events are not repeated for it; late_ns is the difference. */
struct tl_lane {
    int next, host, gpu, next_of_host;
    int first, last; /* steps */
    enum tl_phase phase;
    bool scheduled;
    unsigned epoch;
    double at_ns, begun_ns, end_ns; /* end_ns: of the first step, once known */
    double since_ns, left_ns, rate; /* of a kernel: time of the last rate change, remaining work in ns at full rate,
                                       rate relative to full speed */
    int next_waiting, next_running; /* links of the lists of waiters for a moment, and of running kernels of the GPU */
    int call, next_member;          /* of a collective: its call, and the next member in it */
    int flow, open, head, tail;     /* of an exchange: its flow, the number of messages that have not ended, and the
                                   queue of endpoints that the flow serves */
    double late_ns, ends_ns;        /* simulated time minus lane time; end of an exchange in simulated time */
};

enum tl_kind { TL_MARK, TL_KERNEL, TL_NCCL };

struct tl_step {
    int next, lane;
    enum tl_kind kind;
    bool keep, ended, waits, by_memory, has_gemm;
    int record, wait, end; /* moments (0: none): recorded when the step begins, waited for before it, reached at its
                              end */
    double issue_ns, alone_ns, latency_ns, transfer_ns;
    double pace, net_pace; /* of its flow: bytes_per_ns and net_bytes_per_ns */
    double weight[EMU_PARTS];
    int sms, members, endpoints;
    uint64_t comm, turn;
    int64_t extra_ns, end_ns;
    struct bb_kernel_list_item gemm;
};

struct tl_moment {
    int next, refs;
    bool known;
    double when_ns;
    int lanes, host; /* waiters: head of the list of lanes, and a host */
};

/* A collective call, identified by communicator and turn. */
struct tl_call {
    int next; /* in its hash bucket */
    uint64_t comm, turn;
    int lanes, arrived, flow; /* head of the list of members that have arrived; their number; 0: no flow */
    bool begun;
    double begin_ns, end_ns, latency_ns, late_ns;
};

/* One endpoint of a message. */
struct tl_endpoint {
    int next, next_of_step; /* next in a queue; next endpoint of the same step */
    int lane, peer, other;  /* other: the opposite endpoint; 0: not matched yet, -1: dropped */
    bool sends, served, queued;
    double latency_ns, arrived_ns, late_ns;
    double target_ns; /* progress of the lane's flow at which the bytes of this endpoint have been moved */
};

/* Endpoints from rank `from` to rank `to` that wait for the opposite endpoint; all of them sends, or all of them
 * receives. */
struct tl_pair {
    int next;
    uint64_t comm;
    int from, to, head, tail;
};

struct tl_flow_owner {
    int next, lane, call, size;
};

enum tl_event_kind { TL_OF_LANE, TL_OF_FLOW, TL_OF_CALL };

struct tl_event {
    double when_ns;
    int id, kind;
    unsigned epoch;
};

struct tl_shared_resource {
    int part, number, resource;
};

/* The state that all processes share. */
struct tl_shared_state {
    pthread_mutex_t lock;
    char failure[96];       /* not empty: the timeline has failed */
    bool owner_died;        /* a process died while it held the lock */
    int start_barriers_due; /* host whose start barrier kernels may end; 0: none, -1: check all hosts */
    int n_live, n_away;
    _Atomic uint32_t returns; /* number of waits outside the timeline that have ended */
    double checked_s;         /* when the hosts were last checked */
    double now_ns;
    int round, update, n_events, n_gpus, n_shared_resources, n_resources, n_uses, n_dirty;
    struct tl_pool hosts, lanes, steps, moments, endpoints, calls, pairs, flows;
    int uses_unused[TL_SIZES];
    int call_at[TL_BUCKETS], pair_at[TL_BUCKETS];
};

struct emu_timeline {
    struct tl_shared_state *b;
    const struct bb_cluster *machine;
    struct bb_flows flows; /* the arrays are shared; the counters are copied from and to the shared state while the
                              lock is held */
    struct tl_host *hosts;
    double *clocks, *bounds; /* [hosts] clock of each host; the same for running hosts and INFINITY for others */
    struct tl_gpu *gpus;
    struct tl_shared_resource *shared_resources;
    struct tl_lane *lanes;
    struct tl_step *steps;
    struct tl_moment *moments;
    struct tl_endpoint *endpoints;
    struct tl_call *calls;
    struct tl_pair *pairs;
    struct tl_flow_owner *owners;
    struct tl_event *events;
    int *dirty, *use_at, *memory_of; /* GPUs with dirty rates; index of a flow's latest use of each resource; GPU
                                        that a memory resource belongs to */
    size_t bytes;
    int fd;
};

/* shared_memory.c. tl_take returns an unused element, zeroed; 0, after tl_fail, if the pool is full. */
void tl_fail(struct emu_timeline *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
int tl_take(struct emu_timeline *t, struct tl_pool *pool, void *elements, size_t bytes, const char *what, int most);
void tl_give_back(struct tl_pool *pool, void *elements, size_t bytes, int at);

#define TL_TAKE(t, what, most)    tl_take(t, &(t)->b->what, (t)->what, sizeof(*(t)->what), #what, most)
#define TL_FULL                   "too many %s, at most %d"
#define TL_GIVE_BACK(t, what, at) tl_give_back(&(t)->b->what, (t)->what, sizeof(*(t)->what), at)

/* event_loop.c */
void tl_add_event(struct emu_timeline *t, double when_ns, enum tl_event_kind kind, int id, unsigned epoch);
void tl_schedule(struct emu_timeline *t, int lane, double when_ns);
void tl_run_events(struct emu_timeline *t); /* runs all due events */

/* host_states.c */
void tl_release_host(struct emu_timeline *t, int host, double when_ns);
double tl_horizon_ns(const struct emu_timeline *t);
void tl_check_start_barriers(struct emu_timeline *t, int host);
void tl_open_start_barriers(struct emu_timeline *t);

/* host_checks.c */
bool tl_has_ended(const struct tl_host *host); /* its process has ended */

/* lanes.c */
void tl_advance_lane(struct emu_timeline *t, int lane);
void tl_reach_moment(struct emu_timeline *t, int moment, double when_ns);
void tl_drop_step(struct emu_timeline *t, int lane);
void tl_finish(struct emu_timeline *t, int lane, double end_ns); /* ends the first step of the lane and advances the
                                                                    lane */

/* kernel_rates.c */
void tl_invalidate(struct emu_timeline *t, int gpu);
void tl_begin_kernel(struct emu_timeline *t, int lane);
void tl_leave_gpu(struct emu_timeline *t, int lane);
void tl_update_rates(struct emu_timeline *t);

/* shared_flows.c. uses: capacity of the flow. */
int tl_add_resource(struct emu_timeline *t, enum emu_part part, double gbps);
int tl_take_flow(struct emu_timeline *t, int uses);
void tl_add_uses(struct emu_timeline *t, int flow, int lane);
void tl_stop_flow(struct emu_timeline *t, int flow);
void tl_hold_sms(struct emu_timeline *t, int gpu, int sms);

/* collective_calls.c, message_matching.c */
unsigned tl_bucket_of(uint64_t comm, uint64_t a, uint64_t b);
void tl_arrive_at_call(struct emu_timeline *t, int lane, double when_ns);
void tl_leave_call(struct emu_timeline *t, int lane);
void tl_end_call(struct emu_timeline *t, int call);
void tl_add_endpoints(struct emu_timeline *t, int step, const struct emu_peers *call);
void tl_drop_endpoints(struct emu_timeline *t, int step); /* also for a step that has not begun */
void tl_begin_exchange(struct emu_timeline *t, int lane, double when_ns);
void tl_serve_exchange(struct emu_timeline *t, int lane); /* the flow has moved the bytes of the first endpoint in
                                                             its queue */

/* nccl_steps.c */
void tl_begin_nccl(struct emu_timeline *t, int lane, double when_ns);
void tl_end_nccl(struct emu_timeline *t, int lane); /* releases what the operation holds */
void tl_end_flow(struct emu_timeline *t, int flow);
void tl_leave_nccl(struct emu_timeline *t, int lane);  /* ends the running first step without its peers */
bool tl_moves(const struct emu_timeline *t, int lane); /* whether the operation moves bytes, or ends at a known time */

#pragma GCC visibility pop
#endif
