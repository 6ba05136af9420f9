/*
 * contention_sim.c - the event loop of the contention simulator (contention_sim.h). The loop pops an event and starts
 * or ends operations. When no event is left at the current time, the loop recomputes the rates of all transfers and
 * kernels.
 */
#include "proxies/simulation/simulate/engine/contention_sim.h"

#include "bootstrap/base/alloc.h"
#include "proxies/simulation/simulate/engine/contention_sim_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

enum event_kind { ARRIVES, FLOW_ENDS, COLLECTIVE_ENDS, EXCHANGE_ENDS, KERNEL_ENDS };

#define EPOCH_MASK ((1u << 28) - 1)

/* Tolerance for rounding errors when the progress of a transfer (bb_flow_served_ns) is compared with the progress at
 * which a message is complete. */
#define SERVED_TOLERANCE_NS 0.01

static void schedule_event(struct bb_contention_sim *s, double when_ns, enum event_kind kind, int id, unsigned epoch)
{
    bb_event_queue_push(&s->events, (struct bb_event){when_ns, id, kind, epoch & EPOCH_MASK});
}

static struct bb_sim_task *task_at(const struct bb_contention_sim *s, int at)
{
    return &s->r->c->tasks[at];
}

void bb_contention_sim_arrive(struct bb_contention_sim *s, int at)
{
    struct bb_sim_task *task = task_at(s, at);

    bb_raise_time(&task->arrival_ns, task->begin_ns);
    if ((double)task->arrival_ns <= s->events.now_ns)
        s->r->ready[s->r->n_ready++] = at;
    else
        schedule_event(s, (double)task->arrival_ns, ARRIVES, at, 0);
}

static void end_now(struct bb_contention_sim *s, int at)
{
    task_at(s, at)->end_ns = bb_round_ns(s->events.now_ns);
    bb_execution_end(s->r, at);
}

/* ---- arrays with a free list: unused elements are linked by their field `next` ---- */

static int pop_free_slot(int *unused, int next)
{
    int at = *unused;

    *unused = next;
    return at;
}

/* Evaluates to the index of a free element of `array`, or of a new, zeroed element at the end.
 * unused: index of the first free element. */
#define ALLOC_SLOT(array, n, unused)                                                                                   \
    ((unused) != BB_NONE ? pop_free_slot(&(unused), (array)[unused].next)                                              \
                         : (BB_GROW(array, n), memset(&(array)[n], 0, sizeof *(array)), (n)++))
#define FREE_SLOT(array, unused, at) ((array)[at].next = (unused), (unused) = (at))

/* ---- compute kernels ---- */

static void invalidate_kernels(struct bb_contention_sim *s, int class_id)
{
    if (!s->gpus[class_id].dirty)
        s->dirty[s->n_dirty++] = class_id;
    s->gpus[class_id].dirty = true;
}

static void schedule_kernel_end(struct bb_contention_sim *s, int slot)
{
    struct bb_running_kernel *k = &s->running[slot];

    schedule_event(s, (double)bb_round_ns(k->since_ns + k->left_ns / k->rate), KERNEL_ENDS, slot, ++k->epoch);
}

void bb_contention_sim_start_kernel(struct bb_contention_sim *s, int at, const struct bb_op *op, int64_t alone_ns)
{
    const int class_id = s->r->class_of[at], slot = ALLOC_SLOT(s->running, s->n_running, s->free_running);
    struct bb_running_kernel *k;

    k = &s->running[slot];
    s->kernels++;
    *k = (struct bb_running_kernel){.at = at,
                                    .class_id = class_id,
                                    .next = s->gpus[class_id].running,
                                    .op = op,
                                    .alone_ns = (double)alone_ns,
                                    .left_ns = (double)alone_ns,
                                    .rate = 1,
                                    .since_ns = (double)task_at(s, at)->arrival_ns,
                                    .epoch = k->epoch};
    s->gpus[class_id].running = slot;
    task_at(s, at)->alone_end_ns = task_at(s, at)->arrival_ns + alone_ns;
    schedule_kernel_end(s, slot);
    if (s->gpus[class_id].held_sms > 0 || op->concurrent)
        invalidate_kernels(s, class_id);
}

static void end_kernel(struct bb_contention_sim *s, int slot)
{
    struct bb_running_kernel *k = &s->running[slot];
    int *link = &s->gpus[k->class_id].running, at = k->at;

    while (*link != slot)
        link = &s->running[*link].next;
    *link = k->next;
    s->kernels--;
    k->epoch++;
    FREE_SLOT(s->running, s->free_running, slot);
    task_at(s, at)->limit = bb_contention_sim_kernel_limit(s, k->op);
    end_now(s, at);
}

static void update_kernel_rates(struct bb_contention_sim *s)
{
    for (int i = 0; i < s->n_dirty; i++) {
        struct bb_contention_gpu *gpu = &s->gpus[s->dirty[i]];

        gpu->dirty = false;
        for (int slot = gpu->running; slot != BB_NONE; slot = s->running[slot].next) {
            struct bb_running_kernel *k = &s->running[slot];
            double rate = bb_contention_sim_kernel_rate(s, k);

            if (rate == k->rate)
                continue;
            k->left_ns -= k->rate * (s->events.now_ns - k->since_ns);
            k->left_ns = k->left_ns > 0 ? k->left_ns : 0;
            k->since_ns = s->events.now_ns;
            k->rate = rate;
            schedule_kernel_end(s, slot);
        }
    }
    s->n_dirty = 0;
}

/* Adds `sms` to the number of SMs that NCCL kernels occupy on the GPUs of the rank class class_id. A negative `sms`
 * releases SMs. */
static void hold_sms(struct bb_contention_sim *s, int class_id, int sms)
{
    s->gpus[class_id].held_sms += sms;
    if (sms != 0 && s->gpus[class_id].running != BB_NONE)
        invalidate_kernels(s, class_id);
}

/* ---- start and stop of transfers, modeled as flows (proxies/simulation/machine/flows.h: transfers that share links) ---- */

static void invalidate_flow_users(struct bb_contention_sim *s, int flow)
{
    const struct bb_flow *w = &s->flows.flows[flow];

    for (int u = w->first_use; s->kernels > 0 && u < w->first_use + w->n_uses; u++) {
        int class_id = bb_contention_sim_memory_class(s, s->flows.uses[u].resource);

        if (class_id != BB_NONE && s->gpus[class_id].running != BB_NONE)
            invalidate_kernels(s, class_id);
    }
}

static void schedule_flow_end(struct bb_contention_sim *s, int flow)
{
    const struct bb_flow *w = &s->flows.flows[flow];

    schedule_event(s, bb_flow_end_ns(w), FLOW_ENDS, flow, w->epoch);
}

static void update_rates(struct bb_contention_sim *s)
{
    bb_flows_update_rates(&s->flows, s->events.now_ns);
    for (int i = 0; i < s->flows.n_changed; i++) {
        schedule_flow_end(s, s->flows.changed[i]);
        invalidate_flow_users(s, s->flows.changed[i]);
    }
    update_kernel_rates(s);
}

static void stop_flow(struct bb_contention_sim *s, int flow)
{
    bb_flows_stop(&s->flows, flow, s->events.now_ns);
    invalidate_flow_users(s, flow);
}

/* ---- collectives ---- */

void bb_contention_sim_join_collective(struct bb_contention_sim *s, int class_id)
{
    hold_sms(s, class_id, s->cluster->sharing.collective_sms);
}

static void schedule_collective_end(struct bb_contention_sim *s, int instance)
{
    schedule_event(s, (double)bb_round_ns(s->events.now_ns + s->collectives[instance].latency_ns), COLLECTIVE_ENDS,
                   instance, 0);
}

/* Slow NICs of a node lengthen the rounds that fill a pipeline. */
static double slow_fill_ns(const struct bb_contention_sim *s, int instance, const struct bb_cost *cost)
{
    const struct bb_sim *m = s->r->m;
    const struct bb_sim_instance *inst = &m->instances[instance];
    double part = 1;

    for (int i = 0; i < inst->n && cost->fill_nic_ns > 0 && m->conditions.slow.n > 0; i++) {
        const int rank = m->classes.rank[m->members[inst->first + i].class_id];

        part = fmin(part, bb_slow_nic_factor(&m->conditions.slow, s->cluster, rank / s->cluster->gpus_per_node,
                                             rank % s->cluster->gpus_per_node));
    }
    return bb_cost_slow_fill_ns(cost, part);
}

double bb_contention_sim_start_collective(struct bb_contention_sim *s, int instance, int order, int call,
                                          const struct bb_cost *cost)
{
    struct bb_contention_collective *g = &s->collectives[instance];
    bool short_one = cost->latency_ns > cost->transfer_ns;

    g->order = order;
    g->latency_ns = cost->latency_ns + slow_fill_ns(s, instance, cost);
    g->limit = short_one ? BB_LIMIT_LATENCY
                         : bb_contention_sim_slowest_resource(cost->link_ns, cost->nic_ns, cost->uplink_ns[BB_LEAF],
                                                              cost->uplink_ns[BB_POD]);
    if (cost->transfer_ns <= 0) {
        schedule_collective_end(s, instance);
        return g->latency_ns;
    }
    if (g->uses_call != call)
        bb_contention_sim_set_collective_uses(s, instance, cost);
    g->uses_call = call;
    bb_flows_count_moved(&s->flows, instance, cost->transfer_ns);
    bb_flows_start(&s->flows, instance, s->events.now_ns, cost->transfer_ns);
    return g->latency_ns + cost->transfer_ns * g->alone_times;
}

static void end_collective(struct bb_contention_sim *s, int instance)
{
    const struct bb_sim *m = s->r->m;
    const struct bb_sim_instance *inst = &m->instances[instance];
    const int order = s->collectives[instance].order;
    enum bb_limit limit = bb_contention_sim_flow_limit(s, instance, s->collectives[instance].limit);

    for (int i = 0; i < inst->n; i++) {
        int at = bb_sim_member_task(m, inst, i, order);

        task_at(s, at)->limit = limit;
        if (inst->size > 1)
            hold_sms(s, m->members[inst->first + i].class_id, -s->cluster->sharing.collective_sms);
        end_now(s, at);
    }
}

/* ---- exchanges: all messages of one group call of a rank. One flow (transfer) carries all messages of an exchange and
 * completes them in the order in which they started ---- */

static struct bb_contention_exchange *exchange_of(const struct bb_contention_sim *s, int at)
{
    return &s->exchanges[task_at(s, at)->flow - s->r->m->n_instances];
}

void bb_contention_sim_start_exchange(struct bb_contention_sim *s, int at, int comm, const struct bb_link_load *load,
                                      int messages)
{
    const int class_id = s->r->class_of[at];
    const int flow = bb_contention_sim_exchange_flow(s, class_id, comm);
    struct bb_contention_exchange *x = &s->exchanges[flow - s->r->m->n_instances];

    *x = (struct bb_contention_exchange){.at = at,
                                         .head = BB_NONE,
                                         .tail = BB_NONE,
                                         .sms = bb_cluster_exchange_sms(s->cluster, messages),
                                         .load_ns = bb_cluster_link_load_ns(s->cluster, load, 1),
                                         .alone_times = 1};
    s->flows.flows[flow].limit = -1;
    if (x->load_ns > 0)
        x->limit = bb_contention_sim_set_exchange_uses(s, flow, class_id, load, x->load_ns);
    task_at(s, at)->load_ns = x->load_ns * x->alone_times;
    task_at(s, at)->flow = flow;
    task_at(s, at)->alone_end_ns = task_at(s, at)->arrival_ns;
    hold_sms(s, class_id, x->sms);
}

static void end_exchange(struct bb_contention_sim *s, int at)
{
    const struct bb_contention_exchange *x = exchange_of(s, at);

    task_at(s, at)->limit = bb_contention_sim_flow_limit(s, task_at(s, at)->flow, x->limit);
    hold_sms(s, s->r->class_of[at], -x->sms);
    end_now(s, at);
}

static struct bb_contention_message_side *cell_at(const struct bb_contention_sim *s, int cell)
{
    return &s->messages[cell / 2].sides[cell % 2];
}

static void finish_side(struct bb_contention_sim *s, int cell, int64_t end_ns)
{
    const int at = cell_at(s, cell)->at;
    struct bb_sim_task *task = task_at(s, at);

    bb_raise_time(&task->end_ns, end_ns);
    if (--task->open == 0)
        schedule_event(s, (double)task->end_ns, EXCHANGE_ENDS, at, 0);
}

/* Marks the transfer of a message as complete at one of its two GPUs (sender or receiver). When it is complete at
 * both GPUs, the message ends after its latency. cell: 2 * index of the message + side (0 or 1). */
static void serve_side(struct bb_contention_sim *s, int cell)
{
    struct bb_contention_message *m = &s->messages[cell / 2];
    const int64_t end_ns = bb_round_ns(s->events.now_ns + (double)m->latency_ns);

    if (++m->served < 2)
        return;
    finish_side(s, cell, end_ns);
    finish_side(s, cell ^ 1, end_ns);
    FREE_SLOT(s->messages, s->free_message, cell / 2);
}

/* Starts one side of a message: adds it to the queue of its exchange (the messages of one group call) on this side's
 * GPU. cell: 2 * index of the message + side (0 or 1). A message of a rank to itself is a copy in GPU memory, which is
 * not queued. If the latency of the message, or the time of the copy, exceeds the transfer time of the exchange, it is
 * the bottleneck of the exchange. */
static void start_side(struct bb_contention_sim *s, int cell, int64_t latency_ns, bool itself)
{
    struct bb_contention_message_side *side = cell_at(s, cell);
    struct bb_contention_exchange *x = exchange_of(s, side->at);
    const int flow = task_at(s, side->at)->flow;
    const struct bb_flow *w = &s->flows.flows[flow];

    if ((double)latency_ns > x->load_ns)
        x->limit = itself ? BB_LIMIT_MEMORY : BB_LIMIT_LATENCY;
    if (itself || x->load_ns <= 0) {
        serve_side(s, cell);
        return;
    }
    side->next = BB_NONE;
    side->target_ns = x->load_ns + (w->active ? bb_flow_served_ns(w, s->events.now_ns) : 0);
    if (x->head == BB_NONE)
        x->head = cell;
    else
        cell_at(s, x->tail)->next = cell;
    x->tail = cell;
    if (!w->active)
        bb_flows_start(&s->flows, flow, s->events.now_ns, x->load_ns);
}

void bb_contention_sim_start_message(struct bb_contention_sim *s, int mine, int theirs, int64_t latency_ns, bool itself)
{
    struct bb_sim_task *sides[] = {task_at(s, mine), task_at(s, theirs)};
    const int message = ALLOC_SLOT(s->messages, s->n_messages, s->free_message);
    const double load_ns = itself ? 0 : MAX(sides[0]->load_ns, sides[1]->load_ns);
    const int64_t alone_ns = bb_round_ns(s->events.now_ns + load_ns + (double)latency_ns);

    s->messages[message] =
        (struct bb_contention_message){.sides = {{.at = mine}, {.at = theirs}}, .latency_ns = latency_ns};
    for (int i = 0; i < 2; i++)
        bb_raise_time(&sides[i]->alone_end_ns, alone_ns);
    for (int i = 0; i < 2; i++)
        start_side(s, 2 * message + i, latency_ns, itself);
}

/* Completes the first message in the queue of an exchange (the messages of one group call on one GPU), and all
 * following messages whose target_ns has been reached. The transfer (flow) then continues with the next message in
 * the queue, or stops if the queue is empty. */
static void serve_exchange(struct bb_contention_sim *s, int flow)
{
    struct bb_contention_exchange *x = &s->exchanges[flow - s->r->m->n_instances];
    const double served = bb_flow_served_ns(&s->flows.flows[flow], s->events.now_ns) + SERVED_TOLERANCE_NS;

    do {
        int cell = x->head;

        x->head = cell_at(s, cell)->next;
        serve_side(s, cell);
    } while (x->head != BB_NONE && cell_at(s, x->head)->target_ns <= served);
    if (x->head == BB_NONE) {
        stop_flow(s, flow);
        return;
    }
    bb_flows_set_target(&s->flows, flow, cell_at(s, x->head)->target_ns);
    schedule_flow_end(s, flow);
}

/* ---- event loop ---- */

static void end_flow(struct bb_contention_sim *s, const struct bb_event *entry)
{
    if ((s->flows.flows[entry->id].epoch & EPOCH_MASK) != entry->epoch)
        return;
    if (entry->id >= s->r->m->n_instances) {
        serve_exchange(s, entry->id);
        return;
    }
    stop_flow(s, entry->id);
    schedule_collective_end(s, entry->id);
}

static void handle_event(struct bb_contention_sim *s, const struct bb_event *entry)
{
    switch ((enum event_kind)entry->kind) {
    case ARRIVES:
        bb_execution_start(s->r, entry->id);
        break;
    case FLOW_ENDS:
        end_flow(s, entry);
        break;
    case COLLECTIVE_ENDS:
        end_collective(s, entry->id);
        break;
    case EXCHANGE_ENDS:
        end_exchange(s, entry->id);
        break;
    case KERNEL_ENDS:
        if ((s->running[entry->id].epoch & EPOCH_MASK) == entry->epoch)
            end_kernel(s, entry->id);
        break;
    }
}

void bb_contention_sim_run(struct bb_contention_sim *s)
{
    struct bb_event entry;
    bool has_events = true;

    while (has_events) {
        while (s->r->n_ready > 0)
            bb_execution_start(s->r, s->r->ready[--s->r->n_ready]);
        if (bb_event_queue_pop(&s->events, &entry))
            handle_event(s, &entry);
        else if (s->flows.n_fresh > 0 || s->flows.n_stale > 0 || s->n_dirty > 0)
            update_rates(s);
        else
            has_events = bb_event_queue_advance(&s->events);
    }
    bb_contention_sim_report_busy(s);
}

/* ---- initialization and release ---- */

struct bb_contention_sim *bb_contention_sim_new(struct bb_execution *r)
{
    struct bb_contention_sim *s;

    BB_NEW(s, 1);
    s->r = r;
    s->cluster = r->m->cluster;
    s->free_running = s->free_message = BB_NONE;
    bb_contention_sim_resources_init(s);
    BB_NEW(s->dirty, r->m->classes.n);
    BB_NEW(s->collectives, r->m->n_instances);
    for (int i = 0; i < r->m->n_instances; i++)
        s->collectives[i].uses_call = BB_NONE;
    BB_NEW(s->exchanges, (size_t)r->m->classes.n * (size_t)r->m->step->layout.n_comms);
    BB_NEW(r->c->busy, r->m->classes.n);
    return s;
}

/* bb_contention_sim_reset - resets the time, the free list of messages and the traffic counters of links, NICs and
 * memory. Requires that all operations have ended, so no other state has to be reset. */
void bb_contention_sim_reset(struct bb_contention_sim *s)
{
    s->events.now_ns = 0;
    s->free_message = BB_NONE;
    for (int i = s->n_messages - 1; i >= 0; i--) /* descending order, so that the next allocation returns index 0 */
        FREE_SLOT(s->messages, s->free_message, i);
    for (int i = 0; i < s->flows.n_resources; i++)
        s->flows.resources[i].moved = 0;
}

void bb_contention_sim_release(struct bb_contention_sim *s)
{
    if (!s)
        return;
    bb_contention_sim_resources_release(s);
    bb_event_queue_release(&s->events);
    free(s->dirty);
    free(s->collectives);
    free(s->exchanges);
    free(s->messages);
    free(s->running);
    free(s);
}
