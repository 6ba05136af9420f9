/*
 * contention.c - what the operations on one GPU take from each other, where the machine's profile has "sharing" (the
 * law: profiles/clusters/README.md). It reckons ahead what each operation loses; that much longer the operation lasts.
 *
 * The streams of this process are gone through in the order of time, as if every peer came when this rank does: so what
 * an operation loses follows from what the host issued and when, whatever the load of this machine. No moment is passed
 * that the host could still issue something for: not its clock, unless it waits for something, and then not the moment
 * that it waits for. Until its loss is known an operation is held back; that takes no virtual time.
 */
#include "internal.h"
#include "proxies/machine/fabric.h"
#include "proxies/machine/flows.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

enum { MOST_FLOWS = 1024, PATIENCE_S = 1 };

struct emu_step {
    struct emu_step *next;
    double issue_ns;
    struct emu_mark *record, *wait; /* one reference */
    struct emu_item *item;          /* an operation that is held back: it waits for its loss */
    const struct emu_effort *effort;
    struct emu_effort own; /* effort, of an operation that may end and be freed before this step has happened */
};

static struct {
    struct bb_flows flows; /* one of each stream, the parts of each device */
    int unused[MOST_FLOWS], n_unused;
    double now_ns;
} ahead;

/* ---- the machine ---- */

static int machine_rank(int device)
{
    const int size = emu_world_size();
    struct emu_seat seat = emu_seat_of(size > 1 ? emu_world_rank() : device, size > 1 ? size : EMU_MAX_DEVICES);
    const int per_node = emu.machine.gpus_per_node;

    return seat.node * per_node + seat.gpu % per_node;
}

/* Where they are not scarce, nothing is said to use them. */
static double uplink_gbps(enum bb_tier tier, int rank)
{
    if (!bb_fabric_is_scarce(&emu.machine, tier))
        return 0;
    return bb_fabric_uplink_gbps(&emu.machine, tier) * (tier == BB_LEAF ? emu_leaf_part(rank) : 1);
}

void emu_contention_load(void)
{
    emu.contends = emu.machine.shares && !emu.real_time;
    if (!emu.contends)
        return;
    if (bb_flows_init(&ahead.flows, MOST_FLOWS, EMU_MAX_DEVICES * EMU_PARTS, MOST_FLOWS * EMU_PARTS) != 0)
        emu_die("out of host memory");
    for (int f = MOST_FLOWS - 1; f > 0; f--)
        ahead.unused[ahead.n_unused++] = f;
    for (int d = 0; d < EMU_MAX_DEVICES; d++) {
        struct bb_resource *of = &ahead.flows.resources[d * EMU_PARTS];
        const int rank = machine_rank(d);

        of[EMU_LINK_OUT].capacity = of[EMU_LINK_IN].capacity = emu.machine.intra.gbps;
        of[EMU_NIC_OUT].capacity = of[EMU_NIC_IN].capacity = bb_slow_nics_gbps(&emu.slow, &emu.machine, rank);
        of[EMU_LEAF_OUT].capacity = of[EMU_LEAF_IN].capacity = uplink_gbps(BB_LEAF, rank);
        of[EMU_POD_OUT].capacity = of[EMU_POD_IN].capacity = uplink_gbps(BB_POD, rank);
        of[EMU_MEMORY].capacity = bb_cluster_nccl_memory_gbps(&emu.machine);
    }
}

/* ---- kernels ---- */

static int held_sms(int device)
{
    int held = 0;

    for (struct CUstream_st *s = emu.streams; s; s = s->next)
        if (s->device == device && s->ahead.phase != EMU_AHEAD_IDLE)
            held += s->ahead.first->effort->sms;
    return bb_cluster_held_sms(&emu.machine, held);
}

/* What the multiprocessors that NCCL holds and the memory's rate that it takes leave of a kernel's rate. */
static double rate_of(const struct CUstream_st *s)
{
    const struct emu_effort *e = s->ahead.first->effort;
    const double taken =
        bb_flows_taken(&ahead.flows, s->device * EMU_PARTS + EMU_MEMORY) / bb_cluster_memory_gbps(&emu.machine);
    const int held = held_sms(s->device);
    double alone_ns = e->alone_ns, more_ns = 0;
    bool by_memory = e->by_memory, any;

    if (alone_ns <= 0)
        return 1;
    if (e->product) {
        alone_ns = (double)bb_cluster_kernel_on_ns(&emu.machine, e->product, emu.machine.sm_count, &by_memory);
        more_ns =
            (double)bb_cluster_kernel_on_ns(&emu.machine, e->product, emu.machine.sm_count - held, &any) - alone_ns;
    }
    more_ns += by_memory ? alone_ns * taken / (1 - taken) : 0;
    return alone_ns / (alone_ns + fmax(0, more_ns));
}

/* Something began or ended: all go on at the rates that they have now. */
static void settle(void)
{
    bb_flows_settle(&ahead.flows, ahead.now_ns);
    for (struct CUstream_st *s = emu.streams; s; s = s->next) {
        struct emu_ahead *a = &s->ahead;

        if (a->phase != EMU_AHEAD_COMPUTES)
            continue;
        a->left_ns = fmax(0, a->left_ns - a->rate * (ahead.now_ns - a->since_ns));
        a->since_ns = ahead.now_ns;
        a->rate = rate_of(s);
    }
}

/* ---- NCCL ---- */

static void add_use(struct bb_flow *flow, int resource, double weight)
{
    if (weight > 0)
        ahead.flows.uses[flow->first_use + flow->n_uses++] =
            (struct bb_flow_use){.resource = resource, .weight = weight};
}

static void start_flow(struct CUstream_st *s)
{
    const struct emu_effort *e = s->ahead.first->effort;
    struct bb_flow *flow = &ahead.flows.flows[s->ahead.flow];
    const int base = s->device * EMU_PARTS;

    flow->first_use = s->ahead.flow * EMU_PARTS;
    flow->n_uses = 0;
    flow->bytes_per_ns = 0;
    for (int i = 0; i < EMU_PARTS; i++) {
        const double rate = e->bytes[i] / e->transfer_ns;

        if (i == EMU_MEMORY) {
            add_use(flow, base + i, fmin(rate, bb_cluster_nccl_memory_gbps(&emu.machine)));
            continue;
        }
        add_use(flow, base + i, rate + e->others[i] / e->transfer_ns);
        flow->bytes_per_ns = fmax(flow->bytes_per_ns, rate);
    }
    bb_flows_start(&ahead.flows, s->ahead.flow, ahead.now_ns, e->transfer_ns);
}

/* ---- steps ---- */

static bool is_known(const struct emu_mark *mark)
{
    return mark->ahead == EMU_MARK_KNOWN || (mark->ahead == EMU_MARK_UNSEEN && mark->done);
}

static double time_of(const struct emu_mark *mark)
{
    return mark->ahead == EMU_MARK_KNOWN ? mark->ahead_ns : (double)mark->time_ns;
}

/* When the next thing happens on a stream, INFINITY: nothing that can be told. */
static double next_ns(const struct CUstream_st *s)
{
    const struct emu_ahead *a = &s->ahead;
    const struct emu_step *step = a->first;

    switch (a->phase) {
    case EMU_AHEAD_COMPUTES:
        return step->effort->waits ? INFINITY : a->since_ns + a->left_ns / a->rate;
    case EMU_AHEAD_TRANSFERS:
        return bb_flow_end_ns(&ahead.flows.flows[a->flow]);
    case EMU_AHEAD_ENDS:
        return a->end_ns;
    case EMU_AHEAD_IDLE:
        break;
    }
    if (!step || (step->wait && !is_known(step->wait)))
        return INFINITY;
    return fmax(fmax(a->at_ns, step->issue_ns), step->wait ? time_of(step->wait) : 0);
}

static void drop_step(struct CUstream_st *s)
{
    struct emu_step *step = s->ahead.first;

    s->ahead.first = step->next;
    if (!s->ahead.first)
        s->ahead.last = &s->ahead.first;
    emu_mark_unref_locked(step->record);
    emu_mark_unref_locked(step->wait);
    free(step);
}

static void begin(struct CUstream_st *s, double ready_ns)
{
    struct emu_ahead *a = &s->ahead;
    struct emu_step *step = a->first;

    a->at_ns = ready_ns;
    if (step->record) {
        step->record->ahead = EMU_MARK_KNOWN;
        step->record->ahead_ns = ready_ns;
    }
    if (!step->effort) {
        drop_step(s);
        return;
    }
    a->begun_ns = a->since_ns = ahead.now_ns;
    a->left_ns = step->effort->alone_ns;
    a->rate = 1;
    a->end_ns = ahead.now_ns + step->effort->latency_ns;
    a->phase = step->effort->transfer_ns > 0 ? EMU_AHEAD_TRANSFERS
               : step->effort->sms > 0       ? EMU_AHEAD_ENDS
                                             : EMU_AHEAD_COMPUTES;
    if (a->phase == EMU_AHEAD_TRANSFERS)
        start_flow(s);
    settle();
}

static void finish(struct CUstream_st *s)
{
    const struct emu_effort *e = s->ahead.first->effort;
    struct emu_item *item = s->ahead.first->item;
    const double lasted_ns = ahead.now_ns - s->ahead.begun_ns;
    const int64_t extra_ns = llround(lasted_ns - e->alone_ns - e->latency_ns - e->transfer_ns);

    if (item) {
        item->extra_ns = extra_ns > 0 ? extra_ns : 0;
        item->settled = true;
        pthread_cond_broadcast(&s->work);
    }
    s->ahead.phase = EMU_AHEAD_IDLE;
    s->ahead.at_ns = ahead.now_ns;
    drop_step(s);
    settle();
}

static void happen(struct CUstream_st *s, double when_ns)
{
    ahead.now_ns = fmax(ahead.now_ns, when_ns);
    switch (s->ahead.phase) {
    case EMU_AHEAD_IDLE:
        begin(s, when_ns);
        break;
    case EMU_AHEAD_TRANSFERS:
        bb_flows_stop(&ahead.flows, s->ahead.flow, ahead.now_ns);
        s->ahead.end_ns = ahead.now_ns + s->ahead.first->effort->latency_ns;
        s->ahead.phase = EMU_AHEAD_ENDS;
        settle();
        break;
    case EMU_AHEAD_COMPUTES:
    case EMU_AHEAD_ENDS:
        finish(s);
        break;
    }
}

/* The host waits: what waited for it to go on does so now. */
static bool open_gate(void)
{
    for (struct CUstream_st *s = emu.streams; s; s = s->next)
        if (s->ahead.phase == EMU_AHEAD_COMPUTES && s->ahead.first->effort->waits) {
            happen(s, (double)emu.host_ns);
            return true;
        }
    return false;
}

static struct CUstream_st *next_stream(double *when_ns)
{
    struct CUstream_st *next = NULL;

    *when_ns = INFINITY;
    for (struct CUstream_st *s = emu.streams; s; s = s->next) {
        double ns = next_ns(s);

        if (ns < *when_ns) {
            *when_ns = ns;
            next = s;
        }
    }
    return next;
}

static bool is_reached(const struct emu_mark *mark, const struct CUstream_st *s, const struct emu_item *item)
{
    return mark ? is_known(mark) : s ? !s->ahead.first : item && item->settled;
}

/* Lets happen what happens before limit_ns, until the mark, the end of the stream, or the item is reached. */
static void go_on(double limit_ns, const struct emu_mark *mark, const struct CUstream_st *s,
                  const struct emu_item *item)
{
    double when_ns;

    while (!is_reached(mark, s, item)) {
        struct CUstream_st *next = next_stream(&when_ns);

        if (next && when_ns <= limit_ns)
            happen(next, when_ns);
        else if (next || limit_ns < INFINITY || !open_gate())
            return;
    }
}

/* ---- what the engine tells and asks ---- */

static struct emu_step *add_step(struct CUstream_st *s)
{
    struct emu_step *step = calloc(1, sizeof(*step));

    if (!step)
        emu_die("out of host memory");
    step->issue_ns = (double)emu_host_now_locked();
    if (!s->ahead.last)
        s->ahead.last = &s->ahead.first;
    *s->ahead.last = step;
    s->ahead.last = &step->next;
    return step;
}

void emu_ahead_mark_locked(struct CUstream_st *s, struct emu_mark *mark, bool record)
{
    struct emu_step *step;

    if (!emu.contends)
        return;
    step = add_step(s);
    mark->refs++;
    *(record ? &step->record : &step->wait) = mark;
    if (record)
        mark->ahead = EMU_MARK_UNKNOWN;
    go_on((double)emu.host_ns, NULL, NULL, NULL);
}

/* The worker lets an operation that waits for the host run at once, and frees it whenever it ends. */
void emu_ahead_op_locked(struct CUstream_st *s, struct emu_item *item)
{
    const struct emu_effort *e = item->op.effort;
    struct emu_step *step;

    item->settled = !emu.contends || !e || e->waits;
    if (!emu.contends || !e)
        return;
    if (e->sms > 0 && s->ahead.flow == 0)
        s->ahead.flow = ahead.n_unused > 0 ? ahead.unused[--ahead.n_unused] : 0;
    if (e->sms > 0 && s->ahead.flow == 0) { /* more streams than are followed */
        item->settled = true;
        return;
    }
    step = add_step(s);
    step->own = *e;
    step->effort = e->waits ? &step->own : e;
    step->item = e->waits ? NULL : item;
    go_on((double)emu.host_ns, NULL, NULL, NULL);
}

void emu_ahead_until_locked(const struct emu_mark *mark, const struct CUstream_st *s)
{
    if (emu.contends && (mark || s))
        go_on(INFINITY, mark, s, NULL);
}

/* A host that waits outside CUDA does not say so: after a while it is taken to. */
void emu_ahead_hold_locked(struct CUstream_st *s, const struct emu_item *item)
{
    struct timespec deadline;

    while (!item->settled && !emu.stopping) {
        clock_gettime(CLOCK_REALTIME, &deadline);
        deadline.tv_sec += PATIENCE_S;
        if (pthread_cond_timedwait(&s->work, &emu.lock, &deadline) == ETIMEDOUT)
            go_on(INFINITY, NULL, NULL, item);
    }
}

void emu_settle(void)
{
    emu_lock();
    for (struct CUstream_st *s = emu.streams; s && emu.contends; s = s->next)
        go_on(INFINITY, NULL, s, NULL);
    emu_unlock();
}

/* What is left is done for real: nobody waits any more for when it was reckoned to be. Nothing of it transfers, since
 * the worker has waited for each loss. */
void emu_ahead_close_locked(struct CUstream_st *s)
{
    while (s->ahead.first) {
        if (s->ahead.first->record)
            s->ahead.first->record->ahead = EMU_MARK_UNSEEN;
        drop_step(s);
    }
    if (s->ahead.flow > 0)
        ahead.unused[ahead.n_unused++] = s->ahead.flow;
    s->ahead.flow = 0;
}
