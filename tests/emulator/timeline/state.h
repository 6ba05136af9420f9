/* state.h - what a timeline keeps, and what its files, nobody else, know of each other. */
#ifndef EMU_TIMELINE_STATE_H
#define EMU_TIMELINE_STATE_H

#include "proxies/machine/cluster.h"
#include "proxies/machine/flows.h"
#include "timeline.h"

#include <pthread.h>
#include <stdatomic.h>

#pragma GCC visibility push(hidden)

/* Most of each; pages are taken when they are first touched. */
enum {
    TL_HOSTS = 1 << 11,
    TL_GPUS = 1 << 12,
    TL_DEVICES = 64, /* of a host */
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
    TL_SIZES = 24 /* of pieces of the uses: powers of two */
};

/* Elements that come and go begin with `next`: of those that are not in use, or what their owner makes of it. */
struct tl_pool {
    int unused, n;
};

enum { TL_A_MOMENT = 0, TL_ALL_LANES = -1 };

enum tl_host_state { TL_GONE, TL_RUNNING, TL_WAITING, TL_AWAY, TL_LOST };

struct tl_host {
    int next;
    enum tl_host_state state;
    int pid, rank, first_lane, n_steps, start_barriers;
    int lane;      /* that it waits for, or TL_A_MOMENT, TL_ALL_LANES      */
    bool any_step; /* whose next step that ends is enough, not only all    */
    double active_s;
    int gpus[TL_DEVICES];
    _Atomic uint32_t doorbell, asleep;
};

struct tl_gpu {
    int resource[EMU_PARTS], own[EMU_PARTS]; /* own: as if nobody else had the places behind it */
    int held_sms, running;                   /* the first lane of those that compute */
    bool dirty;                             /* its kernels' rates have to be found again */
};

enum tl_phase { TL_IDLE, TL_COMPUTES, TL_AT_START_BARRIER, TL_IN_NCCL, TL_ENDING };

/* Times of a lane are its own: one that comes late, for what others did meanwhile was not kept for it, is behind. */
struct tl_lane {
    int next, host, gpu, next_of_host;
    int first, last; /* steps */
    enum tl_phase phase;
    bool scheduled;
    unsigned epoch;
    double at_ns, begun_ns, end_ns; /* end_ns: of the first step, where it is known */
    double since_ns, left_ns, rate; /* of a kernel */
    int next_waiting, next_running; /* for a moment; on its GPU */
    int call, next_member;       /* of a collective */
    int flow, open, head, tail;     /* of an exchange: messages that have not ended; endpoints that its links serve */
    double late_ns, ends_ns;        /* how far it is behind; when an exchange ends by the time of all */
};

enum tl_kind { TL_MARK, TL_KERNEL, TL_NCCL };

struct tl_step {
    int next, lane;
    enum tl_kind kind;
    bool keep, ended, waits, by_memory, has_gemm;
    int record, wait, end; /* moments: told when it begins, waited for before, told when it has ended */
    double issue_ns, alone_ns, latency_ns, transfer_ns, pace;
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
    int lanes, host; /* that wait for it */
};

struct tl_call {
    int next; /* in its bucket */
    uint64_t comm, turn;
    int lanes, arrived, flow;
    bool begun;
    double begin_ns, end_ns, latency_ns, late_ns;
};

/* One side of a message. */
struct tl_endpoint {
    int next, next_of_step; /* next_of_step: the next of its step's */
    int lane, peer, other;
    bool sends, served, queued;
    double latency_ns, target_ns, arrived_ns, late_ns;
};

/* Sides that wait for the other one, from one rank to another, all of one kind. */
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

/* What all processes see. */
struct tl_shared_state {
    pthread_mutex_t lock;
    char failure[96]; /* not empty: nothing is told any more */
    bool owner_died;     /* by a process that died               */
    int start_barriers_due;    /* of which host start_barriers may open, -1: of any */
    int n_live, n_away;
    double checked_s; /* when somebody looked after the hosts */
    double now_ns;
    int round, update, n_events, n_gpus, n_shared_resources, n_resources, n_uses, n_dirty;
    struct tl_pool hosts, lanes, steps, moments, endpoints, calls, pairs, flows;
    int uses_unused[TL_SIZES];
    int call_at[TL_BUCKETS], pair_at[TL_BUCKETS];
};

struct emu_timeline {
    struct tl_shared_state *b;
    const struct bb_cluster *machine;
    struct bb_flows flows; /* its arrays are shared; its counters are while the lock is held */
    struct tl_host *hosts;
    double *clocks, *bounds; /* [hosts] where each is; of those that run, else INFINITY */
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
    int *dirty, *use_at, *memory_of; /* GPUs; a flow's latest use of each resource; the GPU whose memory one is */
    size_t bytes;
    int fd;
};

/* shared_memory.c. An element that is not in use, zeroed; 0: there are none, and the timeline tells nothing any more. */
void tl_fail(struct emu_timeline *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
int tl_take(struct emu_timeline *t, struct tl_pool *pool, void *elements, size_t bytes, const char *what, int most);
void tl_give_back(struct tl_pool *pool, void *elements, size_t bytes, int at);

#define TL_TAKE(t, what, most)    tl_take(t, &(t)->b->what, (t)->what, sizeof(*(t)->what), #what, most)
#define TL_FULL                   "it has no more room for %s, of which it holds %d"
#define TL_GIVE_BACK(t, what, at) tl_give_back(&(t)->b->what, (t)->what, sizeof(*(t)->what), at)

/* event_loop.c */
void tl_add_event(struct emu_timeline *t, double when_ns, enum tl_event_kind kind, int id, unsigned epoch);
void tl_schedule(struct emu_timeline *t, int lane, double when_ns);
void tl_run_events(struct emu_timeline *t); /* lets happen what can */

/* host_states.c */
void tl_release_host(struct emu_timeline *t, int host, double when_ns);
double tl_horizon_ns(const struct emu_timeline *t);
void tl_check_start_barriers(struct emu_timeline *t, int host);
void tl_open_start_barriers(struct emu_timeline *t);

/* lanes.c */
void tl_advance_lane(struct emu_timeline *t, int lane);
void tl_reach_moment(struct emu_timeline *t, int moment, double when_ns);
void tl_drop_step(struct emu_timeline *t, int lane);
void tl_finish(struct emu_timeline *t, int lane, double end_ns); /* its first step; its lane goes on */

/* kernel_rates.c */
void tl_invalidate(struct emu_timeline *t, int gpu);
void tl_begin_kernel(struct emu_timeline *t, int lane);
void tl_leave_gpu(struct emu_timeline *t, int lane);
void tl_update_rates(struct emu_timeline *t);

/* shared_flows.c. A flow has room for so many uses. */
int tl_add_resource(struct emu_timeline *t, double gbps);
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
void tl_drop_endpoints(struct emu_timeline *t, int step); /* of one that has not begun */
void tl_begin_exchange(struct emu_timeline *t, int lane, double when_ns);
void tl_serve_exchange(struct emu_timeline *t, int lane); /* its flow has done for the first in line */

/* nccl_steps.c */
void tl_begin_nccl(struct emu_timeline *t, int lane, double when_ns);
void tl_end_nccl(struct emu_timeline *t, int lane); /* what it holds is free */
void tl_end_flow(struct emu_timeline *t, int flow);
void tl_leave_nccl(struct emu_timeline *t, int lane);  /* its first step, which runs, ends without whom it meets */
bool tl_moves(const struct emu_timeline *t, int lane); /* bytes, or will at a known time */

#pragma GCC visibility pop
#endif
