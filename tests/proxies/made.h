/*
 * made.h - steps made by hand for the tests of the pure parts: every rank its own role, operations added one by one to
 * the rank that runs them.
 */
#ifndef BB_TESTS_MADE_H
#define BB_TESTS_MADE_H

#include "proxies/registry/registry.h"
#include "tests/check.h"

/* A step of `ranks` ranks with one group "all" of all of them and `comms` communicators of it, "c0", "c1", ...; every
 * program has a stream for each: stream s belongs to communicator s - 1. */
static inline void made_init(struct bb_step *step, int ranks, int comms)
{
    static const char *const names[] = {"c0", "c1", "c2", "c3", "c4", "c5"};
    const struct bb_axis axis = {"all", ranks};
    int group;

    *step = (struct bb_step){.proxy = "made"};
    assert_int_equal(bb_layout_init(&step->layout, ranks, &axis, 1), 0);
    group = bb_layout_add_group(&step->layout, "all", 1);
    assert_int_equal(bb_step_add_roles(step, ranks), 0);
    for (int c = 0; c < comms; c++)
        bb_layout_add_comm(&step->layout, names[c], group);
    for (int r = 0; r < ranks; r++) {
        step->role_of[r] = r;
        step->roles[r].name = "rank";
        for (int c = 0; c < comms; c++)
            bb_program_add_stream(&step->roles[r].program, names[c], c);
    }
}

/* Puts ranks of equal programs on one role: all ranks use the program of rank 0. */
static inline void made_share(struct bb_step *step)
{
    for (int r = 0; r < step->layout.ranks; r++)
        step->role_of[r] = 0;
}

static inline struct bb_op made_op(enum bb_op_kind kind, int comm)
{
    return (struct bb_op){.kind = kind,
                          .coll = BB_ALL_REDUCE,
                          .dtype = BB_FLOAT,
                          .redop = BB_SUM,
                          .stream = comm + 1,
                          .comm = comm,
                          .call = BB_NONE,
                          .peer = BB_NONE,
                          .src = BB_NONE,
                          .dst = BB_NONE,
                          .micro_batch = BB_NONE,
                          .layer = BB_NONE};
}

static inline int made_add(struct bb_step *step, int rank, const struct bb_op *op, int wait)
{
    return bb_program_add(&step->roles[rank].program, op, &wait, 1);
}

/* The most frequent ones; all return the operation's index. wait: BB_NONE or an earlier operation. */
static inline int made_compute(struct bb_step *step, int rank, double us, int wait)
{
    struct bb_op op = made_op(BB_OP_COMPUTE, BB_NONE);

    op.compute_us = us;
    return made_add(step, rank, &op, wait);
}

static inline int made_reduce(struct bb_step *step, int rank, int comm, size_t count, int wait)
{
    struct bb_op op = made_op(BB_OP_COLLECTIVE, comm);

    op.count = count;
    return made_add(step, rank, &op, wait);
}

static inline int made_message(struct bb_step *step, int rank, enum bb_op_kind kind, int comm, int peer, size_t count,
                               int call)
{
    struct bb_op op = made_op(kind, comm);

    op.peer = peer;
    op.count = count;
    op.call = call;
    return made_add(step, rank, &op, BB_NONE);
}

static inline int made_send(struct bb_step *step, int rank, int comm, int peer, size_t count)
{
    return made_message(step, rank, BB_OP_SEND, comm, peer, count, BB_NONE);
}

static inline int made_recv(struct bb_step *step, int rank, int comm, int peer, size_t count)
{
    return made_message(step, rank, BB_OP_RECV, comm, peer, count, BB_NONE);
}

/* What the command line would say: builds a proxy's step. Returns the builder's code. */
static inline int made_proxy(struct bb_step *step, struct bb_proxy_config config)
{
    struct bb_words words = {.word = {config.proxy}, .n = 1};
    const struct bb_proxy *proxy;
    int rc;

    config.dtype = config.dtype ? config.dtype : "float";
    config.compute = config.compute ? config.compute : "none";
    config.tflops = config.tflops > 0 ? config.tflops : 119.8;
    *step = (struct bb_step){0};
    rc = bb_proxy_configure(&config, &words, &proxy);
    return rc ? rc : bb_step_build(step, proxy, &config);
}

#endif
