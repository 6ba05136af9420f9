/* script_fork.c - two threads, kept apart and joined into one order (see script.h). */
#include "proxies/author/script_fork.h"

#include "bootstrap/base/grow.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_KEPT (1 << 30)

/* An operation of a thread, with what its thread had waited for. */
struct kept {
    struct bb_op op;
    int thread, real;                   /* in the program, BB_NONE: not yet                 */
    int turn;                           /* of its thread, in which it came into the program */
    int after[BB_MAX_STREAMS], n_after; /* kept ones or of the program                      */
};

struct thread {
    int first, end, at; /* of kept */
    int turns;
    int after[BB_MAX_STREAMS], n_after; /* when it ended */
};

struct bb_script_fork {
    struct kept *kept; /* of all forks of the program: their numbers may be waited for later */
    int n;
    bool open;
    int now; /* the thread that is written */
    struct thread threads[2];
    int after[BB_MAX_STREAMS], n_after; /* where both begin */
    int kept_call, call;                /* the group call that is joined now */
};

bool bb_script_is_forked(const struct bb_script *s)
{
    return s->fork && s->fork->open;
}

int bb_script_fork_next_index(const struct bb_script *s)
{
    return FIRST_KEPT + s->fork->n;
}

const struct bb_op *bb_script_op_at(const struct bb_script *s, int op)
{
    return op >= FIRST_KEPT ? &s->fork->kept[op - FIRST_KEPT].op : &s->program->ops[op];
}

int bb_script_fork_resolve(const struct bb_script *s, int op)
{
    if (op < FIRST_KEPT || s->fork->kept[op - FIRST_KEPT].real == BB_NONE)
        return op;
    return s->fork->kept[op - FIRST_KEPT].real;
}

int bb_script_fork_add(struct bb_script *s, const struct bb_op *op)
{
    struct bb_script_fork *f = s->fork;
    struct kept *k;

    if (BB_GROW(f->kept, f->n))
        return -BB_EFAIL;
    k = &f->kept[f->n++];
    *k = (struct kept){.op = *op, .thread = f->now, .real = BB_NONE, .n_after = s->n_after};
    k->op.beside = true;
    memcpy(k->after, s->after, sizeof(k->after));
    return FIRST_KEPT + f->n - 1;
}

struct bb_op *bb_script_newest_op(struct bb_script *s)
{
    if (s->failed)
        return NULL;
    if (bb_script_is_forked(s))
        return s->fork->n > s->fork->threads[s->fork->now].first ? &s->fork->kept[s->fork->n - 1].op : NULL;
    return s->program->n_ops ? &s->program->ops[s->program->n_ops - 1] : NULL;
}

/* ---- writing ---- */

static void begin_thread(struct bb_script *s, int thread)
{
    struct bb_script_fork *f = s->fork;

    f->now = thread;
    f->threads[thread] = (struct thread){.first = f->n, .at = f->n};
    memcpy(s->after, f->after, sizeof(s->after));
    s->n_after = f->n_after;
    s->newest = BB_NONE;
}

static void end_thread(struct bb_script *s)
{
    struct thread *t = &s->fork->threads[s->fork->now];

    t->end = s->fork->n;
    t->n_after = s->n_after;
    memcpy(t->after, s->after, sizeof(t->after));
}

void bb_script_fork(struct bb_script *s)
{
    if (!s->fork)
        s->fork = calloc(1, sizeof(*s->fork));
    s->failed |= !s->fork;
    if (s->failed)
        return;
    s->fork->open = true;
    memcpy(s->fork->after, s->after, sizeof(s->after));
    s->fork->n_after = s->n_after;
    begin_thread(s, 0);
}

void bb_script_fork_second(struct bb_script *s)
{
    if (s->failed)
        return;
    end_thread(s);
    begin_thread(s, 1);
}

/* ---- joining ---- */

/* Whether a kernel waits for what its own thread started in this turn: then it is the other's. */
static bool would_wait(const struct bb_script_fork *f, const struct kept *k)
{
    for (int w = 0; w < k->n_after && k->op.kind == BB_OP_COMPUTE; w++)
        if (k->after[w] >= FIRST_KEPT) {
            const struct kept *on = &f->kept[k->after[w] - FIRST_KEPT];

            if (on->op.kind != BB_OP_COMPUTE && on->turn == f->threads[k->thread].turns)
                return true;
        }
    return false;
}

/* A kept group call gets the program's number when its first operation comes. */
static int real_call(struct bb_script *s, int call)
{
    struct bb_script_fork *f = s->fork;

    if (call < FIRST_KEPT)
        return call;
    if (call != f->kept_call) {
        f->kept_call = call;
        f->call = (int)s->program->n_ops;
    }
    return f->call;
}

static void start_kept(struct bb_script *s, struct kept *k)
{
    struct bb_op op = k->op;
    int after[BB_MAX_STREAMS], at;

    for (int w = 0; w < k->n_after; w++)
        after[w] = bb_script_fork_resolve(s, k->after[w]);
    op.call = real_call(s, op.call);
    at = bb_program_add_dataflow(s->program, &op, after, k->n_after);
    s->failed |= at < 0;
    k->real = at;
    k->turn = s->fork->threads[k->thread].turns;
}

/* Operations of a thread up to a kernel that would wait; a group call is not left in its middle. */
static void take_turn(struct bb_script *s, int thread)
{
    struct bb_script_fork *f = s->fork;
    struct thread *t = &f->threads[thread], *other = &f->threads[1 - thread];

    while (t->at < t->end && !s->failed) {
        if (would_wait(f, &f->kept[t->at]) && other->at < other->end)
            break;
        start_kept(s, &f->kept[t->at++]);
    }
    t->turns++;
}

void bb_script_join(struct bb_script *s)
{
    struct bb_script_fork *f = s->fork;

    if (s->failed)
        return;
    end_thread(s);
    f->kept_call = BB_NONE;
    for (int thread = 0; (f->threads[0].at < f->threads[0].end || f->threads[1].at < f->threads[1].end) && !s->failed;
         thread = 1 - thread)
        take_turn(s, thread);
    f->open = false;
    memcpy(s->after, f->after, sizeof(s->after));
    s->n_after = f->n_after;
    s->newest = BB_NONE;
    for (int thread = 0; thread < 2; thread++)
        for (int w = 0; w < f->threads[thread].n_after; w++)
            bb_script_wait(s, f->threads[thread].after[w]);
}

void bb_script_release(struct bb_script *s)
{
    if (s->fork)
        free(s->fork->kept);
    free(s->fork);
    s->fork = NULL;
}
