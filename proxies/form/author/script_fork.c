/*
 * script_fork.c - two concurrent logical threads of a rank (see script.h). Their operations are deferred: they are
 * stored until the join, which appends the operations of both threads to the program alternately. Each thread appends
 * operations until its next kernel would have to wait for communication that it has just appended; this is a turn. Then
 * the turn passes to the other thread.
 */
#include "proxies/form/author/script_fork.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>

#define FIRST_DEFERRED (1 << 30)

/* An operation stored between fork and join. */
struct deferred {
    struct bb_op op;
    int thread, issued; /* thread: logical thread (0 or 1) that started the operation; issued: index of the operation
                           in the program, BB_NONE: not appended to the program yet */
    int turn;           /* number of earlier turns (see the top of this file) of the same thread when the operation was
                 appended */
    struct bb_script_waits after; /* operations that the logical thread had waited for when it started this operation */
};

struct thread {
    int next, end; /* the thread's operations that are not in the program yet are deferred[next .. end) */
    int turns;
    struct bb_script_waits after; /* operations that the thread had waited for when it ended */
};

struct bb_script_fork {
    struct deferred *deferred; /* deferred operations of all forks of the program, including joined forks, because
                                  later calls may refer to their numbers */
    int n;
    bool open;
    int current; /* logical thread (0 or 1) to which new operations belong */
    struct thread threads[2];
    struct bb_script_waits after; /* operations that the script had waited for before the fork */
    int deferred_call, call;      /* only during the join, for the NCCL group call appended most recently: its number
                                among the deferred operations (deferred_call) and in the program (call) */
};

bool bb_script_is_forked(const struct bb_script *s)
{
    return s->fork && s->fork->open;
}

int bb_script_fork_next_index(const struct bb_script *s)
{
    return FIRST_DEFERRED + s->fork->n;
}

struct bb_op *bb_script_op_at(const struct bb_script *s, int op)
{
    return op >= FIRST_DEFERRED ? &s->fork->deferred[op - FIRST_DEFERRED].op : &s->program->ops[op];
}

int bb_script_fork_resolve(const struct bb_script *s, int op)
{
    if (op < FIRST_DEFERRED || s->fork->deferred[op - FIRST_DEFERRED].issued == BB_NONE)
        return op;
    return s->fork->deferred[op - FIRST_DEFERRED].issued;
}

int bb_script_fork_add(struct bb_script *s, const struct bb_op *op)
{
    struct bb_script_fork *f = s->fork;

    BB_GROW(f->deferred, f->n);
    f->deferred[f->n] = (struct deferred){.op = *op, .thread = f->current, .issued = BB_NONE, .after = s->after};
    f->deferred[f->n].op.concurrent = true;
    return FIRST_DEFERRED + f->n++;
}

struct bb_op *bb_script_newest_op(struct bb_script *s)
{
    if (bb_script_is_forked(s))
        return s->fork->n > s->fork->threads[s->fork->current].next ? &s->fork->deferred[s->fork->n - 1].op : NULL;
    return s->program->n_ops ? &s->program->ops[s->program->n_ops - 1] : NULL;
}

/* ---- fork: store operations ---- */

static void begin_thread(struct bb_script *s, int thread)
{
    struct bb_script_fork *f = s->fork;

    f->current = thread;
    f->threads[thread] = (struct thread){.next = f->n};
    s->after = f->after;
    s->newest = BB_NONE;
}

static void end_thread(struct bb_script *s)
{
    struct thread *t = &s->fork->threads[s->fork->current];

    t->end = s->fork->n;
    t->after = s->after;
}

void bb_script_fork(struct bb_script *s)
{
    if (!s->fork)
        BB_NEW(s->fork, 1);
    s->fork->open = true;
    s->fork->after = s->after;
    begin_thread(s, 0);
}

void bb_script_fork_second(struct bb_script *s)
{
    end_thread(s);
    begin_thread(s, 1);
}

/* ---- join: append the stored operations to the program ---- */

/* Return whether the operation is a kernel that would wait for communication which its own thread appended to the
 * program in the current turn. The other thread then takes its turn. */
static bool must_yield(const struct bb_script_fork *f, const struct deferred *k)
{
    for (int w = 0; w < k->after.n && k->op.kind == BB_OP_COMPUTE; w++)
        if (k->after.ops[w] >= FIRST_DEFERRED) {
            const struct deferred *on = &f->deferred[k->after.ops[w] - FIRST_DEFERRED];

            if (on->op.kind != BB_OP_COMPUTE && on->turn == f->threads[k->thread].turns)
                return true;
        }
    return false;
}

/* Append a deferred operation to the program. The first operation of an NCCL group call determines the program's number
 * for the group call. */
static void start_deferred(struct bb_script *s, struct deferred *k)
{
    struct bb_script_fork *f = s->fork;
    struct bb_op op = k->op;
    int after[BB_MAX_STREAMS];

    for (int w = 0; w < k->after.n; w++)
        after[w] = bb_script_fork_resolve(s, k->after.ops[w]);
    if (op.call >= FIRST_DEFERRED && op.call != f->deferred_call) {
        f->deferred_call = op.call;
        f->call = (int)s->program->n_ops;
    }
    op.call = op.call >= FIRST_DEFERRED ? f->call : op.call;
    k->issued = bb_program_add_dataflow(s->program, &op, after, k->after.n);
    k->turn = f->threads[k->thread].turns;
}

/* Append operations of a thread to the program, up to the first kernel that must wait for communication which the
 * thread appended in this turn. An NCCL group call contains no kernel, so a turn never ends within a group call. */
static void take_turn(struct bb_script *s, int thread)
{
    struct bb_script_fork *f = s->fork;
    struct thread *t = &f->threads[thread], *other = &f->threads[1 - thread];

    while (t->next < t->end) {
        if (must_yield(f, &f->deferred[t->next]) && other->next < other->end)
            break;
        start_deferred(s, &f->deferred[t->next++]);
    }
    t->turns++;
}

void bb_script_join(struct bb_script *s)
{
    struct bb_script_fork *f = s->fork;

    end_thread(s);
    f->deferred_call = BB_NONE;
    for (int thread = 0; f->threads[0].next < f->threads[0].end || f->threads[1].next < f->threads[1].end;
         thread = 1 - thread)
        take_turn(s, thread);
    f->open = false;
    s->after = f->after;
    s->newest = BB_NONE;
    for (int thread = 0; thread < 2; thread++)
        for (int w = 0; w < f->threads[thread].after.n; w++)
            bb_script_wait(s, f->threads[thread].after.ops[w]);
}

void bb_script_release(struct bb_script *s)
{
    if (s->fork)
        free(s->fork->deferred);
    free(s->fork);
    s->fork = NULL;
}
