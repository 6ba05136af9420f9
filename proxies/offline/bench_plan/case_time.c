/*
 * case_time.c - computes the time of one operation (see case_time.h). NCCL's collectives use the cost model of
 * profiles/clusters/README.md. sendrecv, alltoallv and hypercube are sends and receives, as in bench; their times
 * follow from the bytes of each rank over the links that ranks share (exchanges.h).
 */
#include "proxies/offline/bench_plan/case_time.h"

#include "bootstrap/base/alloc.h"
#include "proxies/simulation/machine/exchanges.h"
#include "proxies/simulation/machine/fabric.h"
#include "proxies/simulation/simulate/predict.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

/* ---- collectives that are one NCCL call ---- */

/* Copies a name in capital letters, as in the output of bench. */
static void name_choice(const char *name, char text[BB_CHOICE_TEXT])
{
    snprintf(text, BB_CHOICE_TEXT, "%s", name);
    for (char *c = text; *c; c++)
        *c = (char)toupper((unsigned char)*c);
}

static int64_t collective_ns(const struct bb_cluster *cl, const struct bb_case *c, struct bb_case_choice *choice)
{
    const int root_node = c->root / cl->gpus_per_node; /* consecutive ranks fill the nodes */
    const int after_root_node = c->ranks - (root_node + 1) * cl->gpus_per_node;
    const struct bb_collective call = {.kind = c->kind,
                                       .dtype = (enum bb_dtype_id)c->dtype,
                                       .redop = c->redop,
                                       .count = c->count,
                                       .in_place = c->in_place,
                                       .ranks = c->ranks,
                                       .nodes = bb_cluster_nodes(cl, c->ranks),
                                       .members_on_root_node =
                                           c->root < 0 ? 0 : cl->gpus_per_node + (int)fmin(after_root_node, 0)};
    const struct bb_nccl_variant *variant = NULL;
    const int64_t ns = bb_cluster_collective_ns(cl, &call, &variant);

    if (variant) {
        name_choice(bb_nccl_algorithms[variant->algorithm], choice->algorithm);
        name_choice(variant->protocol, choice->protocol);
        choice->variant = (int)(variant - cl->variants);
    }
    return ns;
}

/*
 * Computes the time of a collective with degraded NICs or links. The simulator of training steps
 * (proxies/simulation/simulate) runs the collective as a step that contains nothing else, so a slow NIC has the same
 * effect on both. The step has no launch overhead, because bench measures operations that all ranks begin at the same
 * time.
 */
static int slow_collective_ns(const struct bb_cluster *cluster, const struct bb_conditions *conditions,
                              const struct bb_case *c, int64_t *ns)
{
    const struct bb_axis axis = {"rank", c->ranks};
    struct bb_op op = {.kind = BB_OP_COLLECTIVE,
                       .coll = c->kind,
                       .dtype = (enum bb_dtype_id)c->dtype,
                       .redop = c->redop == BB_COPY ? BB_SUM : (enum bb_redop_id)c->redop,
                       .call = BB_NONE,
                       .peer = c->root,
                       .count = c->count,
                       .micro_batch = BB_NONE,
                       .layer = BB_NONE};
    struct bb_cluster without_launch = *cluster;
    struct bb_step step = {.proxy = bb_colls[c->kind].name};
    struct bb_program *p;
    int rc;

    without_launch.launch_us = without_launch.nccl_launch_us = 0;
    TRY(bb_layout_init(&step.layout, c->ranks, &axis, 1));
    op.comm = bb_layout_add_comm(&step.layout, "world", bb_layout_add_group(&step.layout, "world", 1));
    TRY(bb_step_add_roles(&step, 1));
    step.roles[0].name = "rank";
    p = &step.roles[0].program;
    op.stream = bb_program_add_stream(p, "world", op.comm);
    op.src = bb_program_add_buffer(p, "send", BB_USE_COMMUNICATION, c->count, op.dtype);
    op.dst = bb_program_add_buffer(p, "recv", BB_USE_COMMUNICATION, c->count, op.dtype);
    op.dst = c->in_place ? op.src : op.dst;
    bb_program_add(p, &op, NULL, 0);
    TRY(bb_predict_step_ns(&step, &without_launch, conditions, ns));
out:
    bb_step_release(&step);
    return rc;
}

/* ---- sendrecv, alltoallv and hypercube: rounds of sends and receives ---- */

struct rounds {
    struct bb_cluster cluster;
    const struct bb_slow *slow;
    const struct bb_case *c;
    int width;                     /* hypercube: in this round, rank r exchanges data with rank r ^ width */
    int messages_per_rank;         /* number of messages that a rank sends in one round */
    struct bb_exchange *exchanges; /* [ranks] the links' load in this round */
    int64_t *begin_ns, *end_ns;    /* [ranks] begin and end of this round on each rank */
};

/* Returns the receiver of message number `i` that a rank sends in this round. */
static int receiver(const struct rounds *x, int rank, int i)
{
    const unsigned flags = bb_colls[x->c->kind].flags;

    if (flags & BB_COLL_VARIABLE_COUNTS)
        return i;
    return flags & BB_COLL_ROUNDS ? rank ^ x->width : (rank + 1) % x->c->ranks;
}

static double message_bytes(const struct rounds *x, int from, int to)
{
    const struct bb_case *c = x->c;
    const size_t element = bb_dtypes[c->dtype].bytes;

    if (bb_colls[c->kind].flags & BB_COLL_VARIABLE_COUNTS)
        return (double)(bb_alltoallv_counts_count(c->alltoallv_counts, c->count, element, c->ranks, from, to) *
                        element);
    return bb_colls[c->kind].flags & BB_COLL_ROUNDS ? (double)(c->count * element) * x->width
                                                    : (double)bb_case_bytes(c);
}

/* Adds the bytes of all messages of this round to the load of their senders and receivers. */
static void add_loads(struct rounds *x)
{
    for (int from = 0; from < x->c->ranks; from++)
        x->exchanges[from] = (struct bb_exchange){.rank = from};
    for (int from = 0; from < x->c->ranks; from++)
        for (int i = 0; i < x->messages_per_rank; i++) {
            const int to = receiver(x, from, i);
            const double bytes = to == from ? 0 : message_bytes(x, from, to);

            bb_fabric_add_message(&x->cluster, &x->exchanges[from].load, from, to, bytes, true);
            bb_fabric_add_message(&x->cluster, &x->exchanges[to].load, to, from, bytes, false);
        }
}

/* Returns the duration of a message. A message ends when the links of both of its ranks have transferred all their
 * bytes and one latency, with the time of the group call, has passed. Empty messages of alltoallv are not sent. */
static int64_t message_ns(const struct rounds *x, int from, int to)
{
    const struct bb_exchange *sender = &x->exchanges[from], *receiver = &x->exchanges[to];
    const int messages = MAX(bb_group_messages(&sender->load), bb_group_messages(&receiver->load));
    const double bytes = message_bytes(x, from, to);

    if (bytes <= 0 && bb_colls[x->c->kind].flags & BB_COLL_VARIABLE_COUNTS)
        return 0;
    return from == to ? bb_cluster_self_message_ns(&x->cluster, bytes)
                      : bb_fabric_message_ns(&x->cluster, from, to,
                                             fmax(sender->done_ns, receiver->done_ns) +
                                                 bb_cluster_group_ns(&x->cluster, messages));
}

/* Computes the end of this round on each rank. A message begins when its sender and its receiver have both finished the
 * previous round. */
static void time_round(struct rounds *x)
{
    memcpy(x->begin_ns, x->end_ns, sizeof(*x->end_ns) * (size_t)x->c->ranks);
    add_loads(x);
    bb_exchanges_run(&x->cluster, x->slow, x->exchanges, x->c->ranks);
    for (int from = 0; from < x->c->ranks; from++)
        for (int i = 0; i < x->messages_per_rank; i++) {
            const int to = receiver(x, from, i);
            const int64_t begin_ns = MAX(x->begin_ns[from], x->begin_ns[to]);
            const int64_t end_ns = begin_ns + message_ns(x, from, to);

            x->end_ns[from] = MAX(x->end_ns[from], end_ns);
            x->end_ns[to] = MAX(x->end_ns[to], end_ns);
        }
}

/* Computes the end of the operation on each rank: [ranks] end_ns, zeroed by the caller. */
static void time_messages(const struct bb_cluster *cluster, const struct bb_slow *slow, const struct bb_case *c,
                          int64_t *end_ns)
{
    const unsigned flags = bb_colls[c->kind].flags;
    const double slice = (double)(c->count * bb_dtypes[c->dtype].bytes);
    struct rounds x = {.cluster = *cluster,
                       .slow = slow,
                       .c = c,
                       .messages_per_rank = flags & BB_COLL_VARIABLE_COUNTS ? c->ranks : 1,
                       .end_ns = end_ns};

    bb_slow_degrade_fabric(slow, &x.cluster);
    BB_NEW(x.exchanges, c->ranks);
    BB_NEW(x.begin_ns, c->ranks);
    /* out of place, each rank of a hypercube first copies its own slice of the data to its receive buffer */
    for (int r = 0; r < c->ranks && flags & BB_COLL_ROUNDS && !c->in_place && slice > 0; r++)
        end_ns[r] = llround(cluster->kernel_us * 1e3 + 2 * slice / bb_cluster_memory_gbps(cluster));
    for (x.width = 1; x.width < (flags & BB_COLL_ROUNDS ? c->ranks : 2); x.width *= 2)
        time_round(&x);
    free(x.exchanges);
    free(x.begin_ns);
}

int bb_case_time_us(const struct bb_cluster *cluster, const struct bb_conditions *conditions, const struct bb_case *c,
                    double *us, int samples, struct bb_case_choice *choice)
{
    const unsigned flags = bb_colls[c->kind].flags;
    struct bb_conditions sample = *conditions;
    int64_t *end_ns;
    int rc = 0;

    *choice = (struct bb_case_choice){.variant = -1};
    BB_NEW(end_ns, c->ranks);
    if (flags & (BB_COLL_VARIABLE_COUNTS | BB_COLL_ROUNDS) || bb_colls[c->kind].from == BB_FROM_PREVIOUS) {
        time_messages(cluster, &conditions->slow, c, end_ns);
    } else {
        end_ns[0] = collective_ns(cluster, c, choice);
        if (conditions->slow.n > 0)
            TRY(slow_collective_ns(cluster, conditions, c, &end_ns[0]));
        for (int r = 1; r < c->ranks; r++)
            end_ns[r] = end_ns[0]; /* a collective ends on all ranks at the same time */
    }
    for (int s = 0; s < samples; s++) {
        double last_ns = 0;

        sample.sample = s;
        for (int r = 0; r < c->ranks; r++)
            last_ns = fmax(last_ns, (double)end_ns[r] * (sample.jitter > 0 ? bb_jitter_factor(&sample, r) : 1));
        us[s] = (double)llround(last_ns) / 1e3;
    }
out:
    free(end_ns);
    return rc;
}
