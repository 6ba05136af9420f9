/*
 * p2p.c - the sends and receives of one group, which all progress together.
 *
 * The messages of an ordered pair of ranks are numbered; the k-th send matches the k-th receive. Each end posts count,
 * type, arrival time and load of message k and waits for the other end's post. Then each end posts when its links will
 * have moved the bytes of its group (done_ns); a rank that shares a NIC or uplinks with its peers can compute this once
 * it has their posts. Then the bytes go through the pair's ring.
 *
 * Posts alternate between two slots. A rank that posts message k+2 has read the other end's post k+1, which was written
 * after the other end had read post k, so that slot is free.
 */
#include "comm.h"
#include "cost.h"
#include "sharing.h"
#include "types.h"

#include "../engine.h"
#include "proxies/simulation/machine/exchanges.h"
#include "proxies/simulation/machine/fabric.h"

#include <stdlib.h>
#include <string.h>

enum phase { POST, AWAIT_POST, AWAIT_DONE, MOVE };

/* One direction between this rank and one peer: its messages in this group, in order. */
struct flow {
    int peer;
    bool sends;
    int next; /* index of the current task; n: none left */
    enum phase phase;
    size_t moved; /* bytes of the current message that have been moved */
    struct en_pair *pair;
    char *ring;
};

/* One execution of the messages of one group. */
struct exchange {
    ncclComm_t comm;
    const struct en_task *tasks;
    int n, n_flows, live;
    struct flow *flows;
    int64_t arrival_ns, end_ns;
    /* contenders: this rank, and the peers that share a NIC or uplinks with it. n_awaited: contenders that have not
     * posted yet. done_ns: valid when n_awaited is 0. */
    struct bb_exchange *contenders;
    int n_contenders, n_awaited;
    double done_ns;
};

static size_t bytes_of(const struct en_task *t)
{
    return t->count * en_type(t->dtype)->bytes;
}

static bool belongs(const struct flow *f, const struct en_task *t)
{
    return t->root == f->peer && (t->kind == EN_SEND) == f->sends;
}

static void seek(const struct exchange *x, struct flow *f, int from)
{
    f->next = from;
    while (f->next < x->n && !belongs(f, &x->tasks[f->next]))
        f->next++;
    f->phase = POST;
    f->moved = 0;
}

static void add_flow(struct exchange *x, int task)
{
    const struct en_task *t = &x->tasks[task];
    struct flow *f = x->flows;
    int me = x->comm->rank;

    while (f < x->flows + x->n_flows && !belongs(f, t))
        f++;
    if (f < x->flows + x->n_flows)
        return;
    x->n_flows++;
    bool sends = t->kind == EN_SEND;
    int src = sends ? me : t->root, dst = sends ? t->root : me;
    *f = (struct flow){.peer = t->root, .sends = sends, .pair = en_pair(&x->comm->region, src, dst)};
    f->ring = en_ring(&x->comm->region, src, dst);
    seek(x, f, task);
}

int en_sum_load(ncclComm_t comm, const struct en_task *tasks, int n, struct bb_link_load *load)
{
    int others = 0;

    *load = (struct bb_link_load){0};
    for (const struct en_task *t = tasks; t < tasks + n; t++) {
        if (t->root == comm->rank)
            continue;
        bb_fabric_add_message(emu_machine(), load, en_machine_rank(comm, comm->rank), en_machine_rank(comm, t->root),
                              (double)bytes_of(t), t->kind == EN_SEND);
        others++;
    }
    return others;
}

/* Matches the k-th send to itself with the k-th receive from itself; the counts were checked at the end of the
 * group. */
static void copy_to_self(struct exchange *x)
{
    int me = x->comm->rank, recv = -1;

    for (int send = 0; send < x->n; send++) {
        const struct en_task *s = &x->tasks[send];
        if (s->root != me || s->kind != EN_SEND)
            continue;
        do
            recv++;
        while (x->tasks[recv].root != me || x->tasks[recv].kind != EN_RECV);
        if (emu_moves_data() && s->count > 0)
            memmove(x->tasks[recv].recv, s->send, bytes_of(s));
        int64_t end = x->arrival_ns + en_copy_ns(bytes_of(s));
        x->end_ns = end > x->end_ns ? end : x->end_ns;
    }
}

static struct en_post *post_of(struct flow *f, bool senders, uint64_t turn)
{
    return senders ? &f->pair->send[turn & 1] : &f->pair->recv[turn & 1];
}

static uint64_t *turn_of(const struct exchange *x, const struct flow *f)
{
    return f->sends ? &x->comm->sent[f->peer] : &x->comm->received[f->peer];
}

static void wake_peer(const struct exchange *x, const struct flow *f)
{
    en_ring_doorbell(&x->comm->region.members[f->peer]);
}

static void post_done(const struct exchange *x, struct flow *f)
{
    struct en_post *p = post_of(f, f->sends, *turn_of(x, f));

    if (x->n_awaited > 0)
        return;
    p->done_ns = x->done_ns;
    atomic_store(&p->done_turn, *turn_of(x, f) + 1);
}

static void post(struct exchange *x, struct flow *f)
{
    const struct en_task *t = &x->tasks[f->next];
    uint64_t turn = *turn_of(x, f);
    struct en_post *p = post_of(f, f->sends, turn);

    p->count = t->count;
    p->dtype = t->dtype;
    p->arrival_ns = x->arrival_ns;
    p->load = x->contenders[0].load;
    atomic_store(&p->turn, turn + 1);
    f->phase = AWAIT_POST;
    post_done(x, f);
    wake_peer(x, f);
}

static void report_mismatch(const struct exchange *x, const struct flow *f, const struct en_post *other)
{
    const struct en_task *t = &x->tasks[f->next];
    int src = f->sends ? x->comm->rank : f->peer, dst = f->sends ? f->peer : x->comm->rank;
    uint64_t send_count = f->sends ? t->count : other->count, recv_count = f->sends ? other->count : t->count;
    int send_type = f->sends ? t->dtype : other->dtype, recv_type = f->sends ? other->dtype : t->dtype;

    en_comm_break(
        x->comm,
        "mismatch between ranks of a communicator: rank %d: send count %llu %s to rank %d; rank %d: recv count "
        "%llu %s from rank %d (message %llu of this pair)",
        src, (unsigned long long)send_count, en_type(send_type)->name, dst, dst, (unsigned long long)recv_count,
        en_type(recv_type)->name, src, (unsigned long long)*turn_of(x, f) + 1);
}

static void find_done(struct exchange *x)
{
    if (x->n_contenders == 1) {
        x->done_ns = en_load_ns(x->comm, &x->contenders[0].load);
    } else {
        bb_exchanges_run(emu_machine(), emu_slow(), x->contenders, x->n_contenders);
        x->done_ns = x->contenders[0].done_ns;
    }
    x->done_ns += (double)x->comm->extra_ns;
    x->comm->extra_ns = 0;
}

/* Stores the load of a peer that shares a NIC or uplinks with this rank. After the last one, computes done_ns and
 * posts it for all waiting messages. */
static void note_contender(struct exchange *x, int peer, const struct bb_link_load *load)
{
    struct bb_exchange *one = x->contenders + 1;

    while (one < x->contenders + x->n_contenders && one->rank != en_machine_rank(x->comm, peer))
        one++;
    if (one == x->contenders + x->n_contenders || one->done_ns >= 0)
        return;
    one->load = *load;
    one->done_ns = 0;
    if (--x->n_awaited > 0)
        return;
    find_done(x);
    for (struct flow *f = x->flows; f < x->flows + x->n_flows; f++)
        if (f->phase == AWAIT_POST || f->phase == AWAIT_DONE) {
            post_done(x, f);
            wake_peer(x, f);
        }
}

/* Whether the other end has posted the current message; compares count and type. */
static bool match_post(struct exchange *x, struct flow *f, enum en_end *end)
{
    const struct en_task *t = &x->tasks[f->next];
    uint64_t turn = *turn_of(x, f);
    struct en_post *other = post_of(f, !f->sends, turn);

    if (atomic_load(&other->turn) != turn + 1)
        return false;
    if (other->count != t->count || other->dtype != t->dtype) {
        report_mismatch(x, f, other);
        *end = EN_BROKEN;
        return false;
    }
    note_contender(x, f->peer, &other->load);
    f->phase = AWAIT_DONE;
    return true;
}

/* Whether the other end has posted its done_ns; computes the end of the message. */
static bool match_done(struct exchange *x, struct flow *f)
{
    struct en_post *other = post_of(f, !f->sends, *turn_of(x, f));

    if (x->n_awaited > 0 || atomic_load(&other->done_turn) != *turn_of(x, f) + 1)
        return false;
    int64_t start = other->arrival_ns > x->arrival_ns ? other->arrival_ns : x->arrival_ns;
    int messages = bb_group_messages(&x->contenders[0].load), others = bb_group_messages(&other->load);
    int64_t message_end =
        start + en_message_ns(x->comm, f->peer, x->done_ns, other->done_ns, messages > others ? messages : others);
    x->end_ns = message_end > x->end_ns ? message_end : x->end_ns;
    f->phase = MOVE;
    return true;
}

/* Copies between the user's buffer and the ring. at: bytes that went through the ring before. */
static void ring_copy(struct exchange *x, struct flow *f, uint64_t at, size_t n)
{
    const struct en_task *t = &x->tasks[f->next];
    size_t size = x->comm->region.head->ring_bytes;

    for (size_t done = 0; done < n;) {
        size_t offset = (size_t)((at + done) % size), part = n - done < size - offset ? n - done : size - offset;
        if (f->sends)
            memcpy(f->ring + offset, (const char *)t->send + f->moved + done, part);
        else
            memcpy((char *)t->recv + f->moved + done, f->ring + offset, part);
        done += part;
    }
}

static bool move(struct exchange *x, struct flow *f)
{
    size_t bytes = emu_moves_data() ? bytes_of(&x->tasks[f->next]) : 0;
    uint64_t head = atomic_load(&f->pair->head), tail = atomic_load(&f->pair->tail);
    size_t space = f->sends ? x->comm->region.head->ring_bytes - (size_t)(head - tail) : (size_t)(head - tail);
    size_t n = bytes - f->moved < space ? bytes - f->moved : space;

    if (n == 0 && f->moved < bytes)
        return false;
    if (n > 0) {
        ring_copy(x, f, f->sends ? head : tail, n);
        f->moved += n;
        atomic_fetch_add(f->sends ? &f->pair->head : &f->pair->tail, n);
        wake_peer(x, f);
    }
    if (f->moved == bytes) {
        ++*turn_of(x, f);
        seek(x, f, f->next + 1);
        x->live -= f->next == x->n;
    }
    return true;
}

/* Advances one flow by one phase if possible. Returns whether it advanced. */
static bool advance(struct exchange *x, struct flow *f, enum en_end *end)
{
    if (f->next == x->n)
        return false;
    if (f->phase == POST) {
        post(x, f);
        return true;
    }
    return f->phase == AWAIT_POST ? match_post(x, f, end) : f->phase == AWAIT_DONE ? match_done(x, f) : move(x, f);
}

static enum en_end progress(struct exchange *x)
{
    struct en_member *me = &x->comm->region.members[x->comm->rank];
    enum en_end end = EN_GO;

    while (x->live > 0 && end == EN_GO) {
        uint32_t doorbell = atomic_load(&me->doorbell);
        bool moved = false;
        for (int i = 0; i < x->n_flows && end == EN_GO; i++)
            moved |= advance(x, &x->flows[i], &end);
        if (!moved && end == EN_GO && x->live > 0)
            end = en_sleep_on_doorbell(&x->comm->watch, me, doorbell);
    }
    return end;
}

/* Finds the peers that share a NIC or uplinks with this rank. done_ns -1: no post yet. */
static void find_contenders(struct exchange *x)
{
    const int own = en_machine_rank(x->comm, x->comm->rank);

    x->n_contenders = 1;
    x->contenders[0] = (struct bb_exchange){.rank = own};
    en_sum_load(x->comm, x->tasks, x->n, &x->contenders[0].load);
    for (int i = 0; i < x->n && !x->comm->on_job_timeline && en_shares_with_peers(&x->contenders[0].load); i++) {
        const int other = en_machine_rank(x->comm, x->tasks[i].root);
        int known = 0;

        while (known < x->n_contenders && x->contenders[known].rank != other)
            known++;
        if (known == x->n_contenders && bb_exchanges_can_contend(emu_machine(), own, other))
            x->contenders[x->n_contenders++] = (struct bb_exchange){.rank = other, .done_ns = -1};
    }
    x->n_awaited = x->n_contenders - 1;
    if (x->n_awaited == 0)
        find_done(x);
}

int en_run_exchange(ncclComm_t comm, const struct en_task *tasks, int count, int64_t *now_ns)
{
    struct exchange x = {.comm = comm, .tasks = tasks, .n = count, .arrival_ns = *now_ns, .end_ns = *now_ns};

    x.flows = calloc((size_t)count, sizeof(*x.flows));
    x.contenders = calloc((size_t)count + 1, sizeof(*x.contenders));
    if (x.flows == NULL || x.contenders == NULL) {
        free(x.flows);
        free(x.contenders);
        return EN_STOPPING;
    }
    find_contenders(&x);
    for (int i = 0; i < count; i++)
        if (tasks[i].root != comm->rank)
            add_flow(&x, i);
    x.live = x.n_flows;
    copy_to_self(&x);
    enum en_end end = progress(&x);
    free(x.flows);
    free(x.contenders);
    for (int i = 0; end == EN_GO && emu_moves_data() && i < count; i++)
        en_corrupt(comm, &tasks[i]);
    *now_ns = x.end_ns;
    return end;
}
