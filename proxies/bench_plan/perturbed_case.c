/* perturbed_case.c - simulates one operation of bench as a training step that contains nothing else (see
 * perturbed_case.h). The step has no launch overhead, because bench measures operations that all ranks begin at the
 * same time. */
#include "proxies/bench_plan/perturbed_case.h"

#include "bootstrap/base/alloc.h"
#include "proxies/simulate/predict.h"

#include <math.h>

enum { STREAM = 1, COMM = 0, OUT = 0, IN = 1, MAX_RANKS_OWN_MESSAGES = 1024, MAX_RANKS_UNIFORM = 1 << 20 };

/* ---- creates a step that contains only the measured operation ---- */

static bool has_own_messages(enum bb_coll_kind kind)
{
    return bb_colls[kind].flags & (BB_COLL_VARIABLE_COUNTS | BB_COLL_ROUNDS);
}

int bb_perturbed_case_max_ranks(enum bb_coll_kind kind)
{
    return has_own_messages(kind) ? MAX_RANKS_OWN_MESSAGES : MAX_RANKS_UNIFORM;
}

static struct bb_op new_op(const struct bb_case *c, enum bb_op_kind kind)
{
    return (struct bb_op){.kind = kind,
                          .coll = c->kind,
                          .dtype = (enum bb_dtype_id)c->dtype,
                          .redop = BB_SUM,
                          .stream = STREAM,
                          .comm = COMM,
                          .call = BB_NONE,
                          .peer = c->root,
                          .count = c->count,
                          .src = OUT,
                          .dst = c->in_place ? OUT : IN,
                          .micro_batch = BB_NONE,
                          .layer = BB_NONE};
}

static void add_op(struct bb_program *p, const struct bb_op *op)
{
    bb_program_add(p, op, NULL, 0);
}

static void add_message(struct bb_program *p, const struct bb_case *c, enum bb_op_kind kind, int peer, size_t count,
                        int call)
{
    struct bb_op op = new_op(c, kind);

    op.peer = peer;
    op.count = count;
    op.call = call;
    if (count > 0)
        add_op(p, &op);
}

/* Adds a sendrecv: in one group call, each rank sends to the next rank and receives from the previous rank. */
static void add_ring(struct bb_program *p, const struct bb_case *c)
{
    struct bb_op send = new_op(c, BB_OP_SEND), recv = new_op(c, BB_OP_RECV);

    send.peer_kind = recv.peer_kind = BB_PEER_OFFSET;
    send.peer = 1;
    recv.peer = -1;
    send.call = recv.call = 0;
    add_op(p, &send);
    add_op(p, &recv);
}

static size_t pair_count(const struct bb_case *c, int from, int to)
{
    return bb_alltoallv_counts_count(c->alltoallv_counts, c->count, bb_dtypes[c->dtype].bytes, c->ranks, from, to);
}

static void add_alltoallv(struct bb_program *p, const struct bb_case *c, int rank)
{
    for (int peer = 0; peer < c->ranks; peer++) {
        add_message(p, c, BB_OP_SEND, peer, pair_count(c, rank, peer), 0);
        add_message(p, c, BB_OP_RECV, peer, pair_count(c, peer, rank), 0);
    }
}

/* Adds a kernel that copies this rank's slice of the data from its send buffer to its receive buffer. */
static void add_copy(struct bb_program *p, const struct bb_cluster *cluster, double bytes)
{
    const struct bb_op copy = {.kind = BB_OP_COMPUTE,
                               .comm = BB_NONE,
                               .call = BB_NONE,
                               .src = BB_NONE,
                               .dst = BB_NONE,
                               .compute_us = cluster->kernel_us + 2 * bytes / cluster->memory_gbps / 1e3,
                               .micro_batch = BB_NONE,
                               .layer = BB_NONE};

    add_op(p, &copy);
}

/* Adds the operations of one rank in a hypercube: the copy of the rank's own slice, then the steps of the algorithm,
 * in each of which the rank exchanges data with one partner. */
static void add_hypercube(struct bb_program *p, const struct bb_cluster *cluster, const struct bb_case *c, int rank)
{
    int round = 0, copy = 0;

    if (!c->in_place && c->count > 0)
        add_copy(p, cluster, (double)c->count * (double)bb_dtypes[c->dtype].bytes);
    for (int width = 1; width < c->ranks; width *= 2, round++) {
        const int partner = rank ^ width, n_waits = round == 0 && p->n_ops > 0;
        struct bb_op send = new_op(c, BB_OP_SEND), recv = new_op(c, BB_OP_RECV);

        send.peer = recv.peer = partner;
        send.count = recv.count = c->count * (size_t)width;
        send.call = recv.call = round;
        bb_program_add(p, &send, &copy, n_waits);
        bb_program_add(p, &recv, &copy, n_waits);
    }
}

static void write_program(struct bb_program *p, const struct bb_cluster *cluster, const struct bb_case *c, int rank)
{
    const unsigned flags = bb_colls[c->kind].flags;
    const struct bb_op call = new_op(c, BB_OP_COLLECTIVE);

    bb_program_add_stream(p, "world", COMM);
    bb_program_add_buffer(p, "send", BB_USE_COMMUNICATION, c->count, call.dtype);
    bb_program_add_buffer(p, "recv", BB_USE_COMMUNICATION, c->count, call.dtype);
    if (flags & BB_COLL_VARIABLE_COUNTS)
        add_alltoallv(p, c, rank);
    else if (flags & BB_COLL_ROUNDS)
        add_hypercube(p, cluster, c, rank);
    else if (c->kind == BB_SENDRECV)
        add_ring(p, c);
    else
        add_op(p, &call);
}

static int build_step(struct bb_step *step, const struct bb_cluster *cluster, const struct bb_case *c)
{
    const struct bb_axis axis = {"rank", c->ranks};
    const int roles = has_own_messages(c->kind) ? c->ranks : 1;
    int rc, group;

    *step = (struct bb_step){.proxy = bb_colls[c->kind].name};
    TRY(bb_layout_init(&step->layout, c->ranks, &axis, 1));
    group = bb_layout_add_group(&step->layout, "world", 1);
    bb_layout_add_comm(&step->layout, "world", group);
    TRY(bb_step_add_roles(step, roles));
    for (int r = 0; r < roles; r++) {
        step->roles[r].name = "rank";
        write_program(&step->roles[r].program, cluster, c, r);
    }
    for (int r = 0; r < c->ranks; r++)
        step->role_of[r] = roles == 1 ? 0 : r;
out:
    return rc;
}

/* ---- predicted times, one per simulated execution with jitter ---- */

static double step_ns(const struct bb_prediction *p)
{
    return (double)p->classes[p->slowest].all.step_ns;
}

static double sample_ns(const struct bb_prediction *p, const struct bb_conditions *conditions, int ranks)
{
    double most_ns = 0;

    if (conditions->jitter == 0)
        return step_ns(p);
    for (int r = 0; r < ranks; r++)
        most_ns = fmax(most_ns, (double)p->classes[p->class_of[r]].all.step_ns * bb_jitter_factor(conditions, r));
    return most_ns;
}

int bb_perturbed_case_us(const struct bb_cluster *cluster, const struct bb_conditions *conditions,
                         const struct bb_case *c, double *us, int samples)
{
    struct bb_conditions sample_conditions = *conditions;
    struct bb_cluster without_launch = *cluster;
    struct bb_prediction p = {0};
    struct bb_step step = {0};
    int rc;

    without_launch.launch_us = without_launch.nccl_launch_us = 0;
    TRY(build_step(&step, cluster, c));
    TRY(bb_predict_step(&step, &without_launch, conditions, &p));
    for (int s = 0; s < samples; s++) {
        sample_conditions.sample = s;
        us[s] = (double)llround(sample_ns(&p, &sample_conditions, c->ranks)) / 1e3;
    }
out:
    bb_prediction_release(&p);
    bb_step_release(&step);
    return rc;
}
