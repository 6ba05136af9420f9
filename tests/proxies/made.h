/*
 * made.h - steps for tests: made by hand (every rank its own role, operations added one by one to the rank that runs
 * them), or of a proxy as its command line names it; and orders of operations as texts, to compare them with.
 */
#ifndef BB_TESTS_MADE_H
#define BB_TESTS_MADE_H

#include "proxies/offline/plan/traffic.h"
#include "proxies/workloads/registry/registry.h"
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

/* ---- steps of proxies ---- */

/* The step of a proxy as the command line names it ("gpt3 3 2"), with what options add; the proxy's code. */
static inline int made_line_with(struct bb_step *step, const char *line, struct bb_proxy_config config)
{
    static char text[200];
    struct bb_positionals positionals = {.n = 0};
    const struct bb_proxy *proxy;
    int rc;

    snprintf(text, sizeof(text), "%s", line);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        positionals.word[positionals.n++] = word;
    config.dtype = config.dtype ? config.dtype : "float";
    *step = (struct bb_step){0};
    rc = bb_proxy_configure(&config, &positionals, &proxy);
    return rc ? rc : bb_step_build(step, proxy, &config);
}

/* MADE_LINE(&step, "gpt3 3 2", .ranks = 24, .compute = "none"), the same in fewer words. */
#define MADE_LINE(step, line, ...) made_line_with(step, line, (struct bb_proxy_config){__VA_ARGS__})

/* The role of a rank in a step's traffic. */
static inline const struct bb_traffic_role *made_role_of(const struct bb_traffic *t, int rank)
{
    for (int r = 0; r < t->n; r++)
        for (int i = 0; i < t->roles[r].n_ranks; i++)
            if (t->roles[r].ranks[i] == rank)
                return &t->roles[r];
    fail();
    return NULL;
}

/* ---- orders ---- */

/* How much of an operation an order names: the kind alone; also communicator, count and microseconds of compute; or the
 * name of compute instead of its time. */
enum made_detail { MADE_KINDS, MADE_TIMES, MADE_NAMES };

/* "& F0 send pp 0 64 +1 <3": '&' in a group call with the operation before, phase and micro-batch, what, communicator,
 * count, peer, '<' each operation that it waits for. */
static inline void made_op_text(FILE *out, const struct bb_step *step, const struct bb_program *p, size_t i,
                                enum made_detail detail)
{
    static const char *const kinds[] = {"compute", "", "send", "recv"};
    const struct bb_op *op = &p->ops[i];
    bool is_collective = op->kind == BB_OP_COLLECTIVE;

    fprintf(out, "%s%c", i > 0 && op->call != BB_NONE && op->call == p->ops[i - 1].call ? "& " : "", "FBGO"[op->phase]);
    if (op->micro_batch != BB_NONE)
        fprintf(out, "%d", op->micro_batch);
    fprintf(out, " %s", is_collective ? bb_colls[op->coll].name : kinds[op->kind]);
    if (op->kind == BB_OP_COMPUTE && detail == MADE_TIMES)
        fprintf(out, " %g", op->compute_us);
    if (op->kind == BB_OP_COMPUTE && detail == MADE_NAMES)
        fprintf(out, " %s", op->what);
    if (bb_op_is_comm(op) && detail != MADE_KINDS)
        fprintf(out, " %s", step->layout.comms[op->comm].name);
    if (is_collective || (bb_op_is_comm(op) && detail != MADE_KINDS))
        fprintf(out, " %zu", op->count);
    if (bb_op_is_comm(op) && !is_collective)
        fprintf(out, " %+d", op->peer);
    if (is_collective && op->redop == BB_MAX)
        fprintf(out, " max");
    for (int w = 0; w < op->waits; w++)
        fprintf(out, " <%d", p->wait_list[op->first_wait + w]);
}

/* The next of "first; second; third" is this one. */
static inline void made_next_is(const char **order, size_t i, const char *text)
{
    size_t n = strcspn(*order, ";");

    if (strlen(text) != n || strncmp(text, *order, n) != 0)
        fail_msg("operation %zu is \"%s\", expected \"%.*s\"", i, text, (int)n, *order);
    *order += n + strspn(*order + n, "; ");
}

/* Asserts a rank's operations: "first; second; third". Anything may follow "...". */
static inline void made_order_is(const struct bb_step *step, int rank, enum made_detail detail, const char *order)
{
    const struct bb_program *p = bb_step_program(step, rank);

    for (size_t i = 0; i < p->n_ops && strcmp(order, "...") != 0; i++) {
        char text[160] = "";
        FILE *out = fmemopen(text, sizeof(text), "w");

        assert_non_null(out);
        made_op_text(out, step, p, i, detail);
        fclose(out);
        made_next_is(&order, i, text);
    }
    if (*order && strcmp(order, "...") != 0)
        fail_msg("no operation is \"%s\"", order);
}

#endif
