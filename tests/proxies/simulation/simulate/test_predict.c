/*
 * test_predict.c - predicted times against times computed by hand. The cluster moves one byte per nanosecond, so 250
 * floats take 1 us, and their all-reduce over two ranks takes 2(n-1)/n * 1000 = 1000 ns. A launch costs nothing unless
 * a test sets its cost.
 */
#include "tests/proxies/simulation/simulate/predicted.h"

#include "bootstrap/base/alloc.h"
#include "cuda/work/kernel_list.h"
#include "proxies/simulation/simulate/engine/op_time.h"

#include <math.h>
#include <stdlib.h>

static const struct bb_cluster round_cluster = {
    .name = "round", .gpus_per_node = 4, .memory_gbps = 4, .intra = {.gbps = 1}, .inter = {.gbps = 0.5}};
enum { US = 250 }; /* floats that take 1 us within a node */

static const struct bb_predicted_rank *rank_of(int rank)
{
    return &p.classes[p.class_of[rank]];
}

/* Checks the exposed time by cause. */
static void causes_are(int rank, int64_t transfer, int64_t bubble, int64_t waiting)
{
    const struct bb_exposure *e = &rank_of(rank)->exposed;

    assert_int_equal(e->transfer_ns, transfer);
    assert_int_equal(e->bubble_ns, bubble);
    assert_int_equal(e->waiting_ns, waiting);
}

static void times_are(int rank, int64_t step, int64_t compute, int64_t comm, int64_t exposed, int64_t idle)
{
    const struct bb_overlap *o = &rank_of(rank)->all;

    assert_int_equal(o->step_ns, step);
    assert_int_equal(o->compute_ns, compute);
    assert_int_equal(o->comm_ns, comm);
    assert_int_equal(o->exposed_ns, exposed);
    assert_int_equal(o->idle_ns, idle);
}

/* Both ranks: 10 us of compute, then an all-reduce of 6 us, then 8 us of compute. waits: the all-reduce waits for
 * the first kernel; awaited: the second kernel waits for the all-reduce. */
static void make_pair(struct bb_step *step, bool waits, bool awaited)
{
    made_init(step, 2, 1);
    for (int r = 0; r < 2; r++) {
        int first = made_compute(step, r, 10, BB_NONE);
        int reduce = made_reduce(step, r, 0, 6 * US, waits ? first : BB_NONE);

        made_compute(step, r, 8, awaited ? reduce : BB_NONE);
    }
}

static void overlap_full_none_and_half(void **state)
{
    struct bb_step step;

    (void)state;
    make_pair(&step, false, false);
    predict_keep_step(&step, &round_cluster, NULL);
    times_are(0, 18000, 18000, 6000, 0, 0);
    assert_true(rank_of(0)->all.overlap_fraction == 1);
    assert_int_equal(p.compute_alone_ns, 18000);
    assert_int_equal(p.comm_alone_ns, 6000);
    bb_step_release(&step);

    make_pair(&step, true, true);
    predict_keep_step(&step, &round_cluster, NULL);
    times_are(1, 24000, 18000, 6000, 6000, 0);
    bb_step_release(&step);

    /* the all-reduce takes 16 us and begins after 10: the second kernel hides 8 of them */
    make_pair(&step, true, false);
    for (int r = 0; r < 2; r++)
        step.roles[r].program.ops[1].count = 16 * US;
    predict_keep_step(&step, &round_cluster, NULL);
    times_are(0, 26000, 18000, 16000, 8000, 0);
    assert_true(rank_of(0)->all.overlap_fraction == 0.5);
    assert_int_equal(rank_of(0)->groups[0].busy_ns, 16000);
    assert_int_equal(rank_of(0)->groups[0].exposed_ns, 8000);
    assert_true(rank_of(0)->groups[0].bytes == 16000);
    assert_true(rank_of(0)->groups[0].bus_bytes == 16000); /* the bus factor 2(n-1)/n is 1 for two ranks */
    bb_step_release(&step);
}

/* Rank 1 computes 30 us before its all-reduce; rank 0 waits in the all-reduce from 10 on. */
static void waiting_for_a_late_peer_is_exposed(void **state)
{
    struct bb_step step;

    (void)state;
    make_pair(&step, true, false);
    step.roles[1].program.ops[0].compute_us = 30;
    predict_keep_step(&step, &round_cluster, NULL);
    times_are(0, 36000, 18000, 26000, 18000, 0); /* from 10 to 36; the second kernel hides 8 of them */
    times_are(1, 38000, 38000, 6000, 0, 0);
    causes_are(0, 6000, 0, 12000); /* bytes move from 30 on */
    causes_are(1, 0, 0, 0);
    assert_int_equal(p.classes[p.slowest].rank, 1);
    bb_step_release(&step);
}

/* A message waits for the later side, sender or receiver. */
static void message_waits_for_the_later_side(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        struct bb_step step;

        made_init(&step, 2, 1);
        for (int r = 0; r < 2; r++) {
            struct bb_op op = made_op(r ? BB_OP_RECV : BB_OP_SEND, 0);

            op.peer = !r;
            op.count = US;
            made_add(&step, r, &op, made_compute(&step, r, r == late ? 30 : 5, BB_NONE));
        }
        predict_keep_step(&step, &round_cluster, NULL);
        assert_int_equal(rank_of(0)->all.step_ns, 31000);
        assert_int_equal(rank_of(1)->all.step_ns, 31000);
        assert_int_equal(rank_of(late)->all.comm_ns, 1000);
        assert_int_equal(rank_of(!late)->all.comm_ns, 26000);
        assert_true(rank_of(late)->groups[0].bus_bytes == 1000);
        bb_step_release(&step);
    }
}

/* Pairs with equal programs: these ranks differ only in the peers of their collectives. */
static void peers_distinguish_rank_classes(void **state)
{
    struct bb_step step;
    int pairs;

    (void)state;
    made_init(&step, 8, 1);
    pairs = bb_layout_add_irregular(&step.layout, "pairs", (int[]){0, 1, 2, 3, 4, 7, 5, 6}, 4, 2);
    step.layout.comms[0].group = pairs;
    for (int r = 0; r < 2; r++)
        made_reduce(&step, r, 0, US, r ? made_compute(&step, r, 20, BB_NONE) : BB_NONE);
    for (int r = 0; r < 8; r++)
        step.role_of[r] = r == 3; /* rank 3 arrives late */
    predict_keep_step(&step, &round_cluster, NULL);
    assert_int_equal(rank_of(0)->all.step_ns, 1000);
    assert_int_equal(rank_of(2)->all.step_ns, 21000);
    assert_int_equal(rank_of(5)->all.step_ns, 1000);
    assert_int_equal(p.n_classes, 3);
    bb_step_release(&step);
}

/* The same with one role: a pair within a node and a pair between nodes. */
static void node_distance_distinguishes_rank_classes(void **state)
{
    struct bb_step step;

    (void)state;
    made_init(&step, 8, 1);
    step.layout.comms[0].group = bb_layout_add_irregular(&step.layout, "pairs", (int[]){0, 1, 2, 4, 3, 5, 6, 7}, 4, 2);
    made_reduce(&step, 0, 0, US, BB_NONE);
    made_share(&step);
    predict_keep_step(&step, &round_cluster, NULL);
    assert_int_equal(rank_of(0)->all.step_ns, 1000);
    assert_int_equal(rank_of(2)->all.step_ns, 2000);
    assert_int_equal(rank_of(5)->all.step_ns, 2000);
    assert_int_equal(rank_of(7)->all.step_ns, 1000);
    bb_step_release(&step);
}

static void waiting_for_a_peer_is_communication_not_idle(void **state)
{
    struct bb_step step;
    int late;

    (void)state;
    made_init(&step, 2, 1);
    made_reduce(&step, 0, 0, 2 * US, BB_NONE);
    late = made_compute(&step, 1, 5, BB_NONE);
    made_reduce(&step, 1, 0, 2 * US, late);
    predict_keep_step(&step, &round_cluster, NULL);
    times_are(0, 7000, 0, 7000, 7000, 0); /* waiting for a peer counts as communication */
    times_are(1, 7000, 5000, 2000, 2000, 0);
    bb_step_release(&step);
}

/* Host time: 2 us per kernel, 3 us per NCCL launch; a group call is one launch. */
static void host_launch_times_delay_operations(void **state)
{
    struct bb_cluster slow = round_cluster;
    struct bb_step step;

    (void)state;
    slow.launch_us = 2;
    slow.nccl_launch_us = 3;
    made_init(&step, 2, 1);
    for (int r = 0; r < 2; r++) {
        made_compute(&step, r, 1, BB_NONE);    /* issued at 2: 2..3 */
        made_reduce(&step, r, 0, US, BB_NONE); /* issued at 5: 5..6, interval from 2 */
        made_compute(&step, r, 1, BB_NONE);    /* issued at 7: 7..8, interval from 5 */
        made_compute(&step, r, 0, BB_NONE);    /* 0 us: not launched */
        made_message(&step, r, BB_OP_SEND, 0, !r, US, 1);
        made_message(&step, r, BB_OP_RECV, 0, !r, US, 1); /* issued at 10: 10..11, interval from 7 */
    }
    predict_keep_step(&step, &slow, NULL);
    assert_int_equal(rank_of(0)->issue_ns, 10000);
    /* C = compute: 0..3 and 5..8, M = communication: 2..6 and 7..11; M without C: 3..5 and 8..11 */
    times_are(0, 11000, 6000, 8000, 5000, 0);
    bb_step_release(&step);
}

/* Host time: 2 us per kernel, 3 us per NCCL launch. With a framework the host waits for the end of the all-reduce, whose result it
 * reads; each later task is issued as much later as the host then resumed, a second result included. */
static void host_waits_for_results_that_it_reads(void **state)
{
    static const int64_t step_ns[2][2] = {{24000, 24000}, {24000, 40000}}; /* [eager][reads] */
    struct bb_cluster slow = round_cluster;
    struct bb_step step;

    (void)state;
    slow.launch_us = 2;
    slow.nccl_launch_us = 3;
    for (int i = 0; i < 4; i++) {
        const bool eager = i / 2, reads = i % 2;

        slow.eager = eager;
        made_init(&step, 2, 1);
        for (int r = 0; r < 2; r++) {
            for (int half = 0; half < 2; half++) {
                const int first = made_compute(&step, r, 5, BB_NONE);       /* 2..7 and 7..12; reads: 15..20 */
                const int reduce = made_reduce(&step, r, 0, 6 * US, first); /* 7..13 and 13..19; reads: 20..26 */

                step.roles[r].program.ops[reduce].host_reads = reads;
            }
            for (int k = 0; k < 4; k++) /* the last is issued at 18; reads: at 26 + 4 * 2 */
                made_compute(&step, r, k < 3 ? 1 : 6, BB_NONE);
        }
        predict_keep_step(&step, &slow, NULL);
        assert_int_equal(rank_of(1)->all.step_ns, step_ns[eager][reads]);
        bb_step_release(&step);
    }
}

/* The step does not end before the host has issued everything. */
static void step_lasts_until_the_host_has_issued_all(void **state)
{
    struct bb_cluster slow = round_cluster;
    struct bb_step step;

    (void)state;
    slow.nccl_launch_us = 5;
    made_init(&step, 1, 1);
    made_reduce(&step, 0, 0, 1, BB_NONE);
    step.roles[0].program.ops[0].src = step.roles[0].program.ops[0].dst =
        bb_program_add_buffer(&step.roles[0].program, "x", BB_USE_GRADIENTS, 1, BB_FLOAT);
    predict_keep_step(&step, &slow, NULL);
    times_are(0, 5000, 0, 5000, 5000, 0); /* one rank in place: the all-reduce itself takes no time */
    bb_step_release(&step);
}

static void collective_times_match_the_formulas(void **state)
{
    static const struct {
        enum bb_coll_kind coll;
        int ranks;
        double steps, factor;
        int slices; /* payload as a multiple of the count */
    } rows[] = {
        {BB_ALL_REDUCE, 2, 2, 1, 1},
        {BB_ALL_REDUCE, 3, 4, 4.0 / 3, 1},
        {BB_ALL_REDUCE, 4, 4, 1.5, 1},
        {BB_ALL_GATHER, 4, 2, 0.75, 4},
        {BB_REDUCE_SCATTER, 3, 2, 2.0 / 3, 3},
        {BB_ALLTOALL, 4, 2, 0.75, 4},
        {BB_BROADCAST, 4, 2, 1, 1},
        {BB_REDUCE, 3, 2, 1, 1},
        {BB_GATHER, 4, 2, 0.75, 4},
        {BB_ALL_REDUCE, 5, 6, 1.6, 1}, /* across two nodes: 10 us latency, half the rate */
    };
    struct bb_cluster c = round_cluster;

    (void)state;
    c.intra.latency_us = 7;
    c.inter.latency_us = 10;
    for (size_t i = 0; i < ROWS(rows); i++) {
        bool inter_node = rows[i].ranks > 4;
        struct bb_op op = made_op(BB_OP_COLLECTIVE, 0);
        struct bb_step step;

        op.coll = rows[i].coll;
        op.count = 10007;
        op.peer = 0;
        made_init(&step, rows[i].ranks, 1);
        made_add(&step, 0, &op, BB_NONE);
        made_share(&step);
        predict_keep_step(&step, &c, NULL);
        assert_int_equal(rank_of(0)->all.step_ns,
                         llround(rows[i].steps * (inter_node ? 10000 : 7000) +
                                 rows[i].factor * 10007.0 * 4 * rows[i].slices / (inter_node ? 0.5 : 1)));
        assert_int_equal(p.n_classes, 1);
        bb_step_release(&step);
    }
}

static void single_rank_collective_is_a_copy(void **state)
{
    struct bb_step step;

    (void)state;
    made_init(&step, 1, 1);
    made_reduce(&step, 0, 0, 1000, BB_NONE); /* out of place: 2 x 4000 B at 4 GB/s */
    predict_keep_step(&step, &round_cluster, NULL);
    assert_int_equal(rank_of(0)->all.step_ns, 2000);
    bb_step_release(&step);
}

/* In one call rank 0 sends to 1 and 2 (same node) and 4 (other node): its links are busy for 2 us, plus 2 us for
 * rank 4 (half the rate). */
static void messages_of_one_call_share_links(void **state)
{
    static const int peers[] = {1, 2, 4};
    struct bb_cluster c = round_cluster;
    struct bb_step step;

    (void)state;
    c.intra.latency_us = 1;
    c.inter.latency_us = 3;
    made_init(&step, 5, 1);
    for (int i = 0; i < 3; i++) {
        made_message(&step, 0, BB_OP_SEND, 0, peers[i], US, 0);
        made_recv(&step, peers[i], 0, 0, US);
    }
    predict_keep_step(&step, &c, NULL);
    assert_int_equal(rank_of(1)->all.step_ns, 1000 + 4000);
    assert_int_equal(rank_of(4)->all.step_ns, 3000 + 4000);
    assert_int_equal(rank_of(0)->all.step_ns, 7000); /* the call ends with its last message */
    bb_step_release(&step);
}

/* The reverse: three ranks send to the last rank, whose links are the bottleneck; the last rank also sends to
 * itself. */
static void receiver_links_can_be_the_bottleneck(void **state)
{
    struct bb_step step;

    (void)state;
    made_init(&step, 4, 1);
    for (int r = 0; r < 3; r++) {
        made_send(&step, r, 0, 3, US);
        made_message(&step, 3, BB_OP_RECV, 0, r, US, 0);
    }
    made_message(&step, 3, BB_OP_SEND, 0, 3, US, 0); /* 0.5 us as a copy, without use of the links */
    made_message(&step, 3, BB_OP_RECV, 0, 3, US, 0);
    predict_keep_step(&step, &round_cluster, NULL);
    for (int r = 0; r < 4; r++)
        assert_int_equal(rank_of(r)->all.step_ns, 3000);
    bb_step_release(&step);
}

static void message_to_the_same_rank_is_a_copy(void **state)
{
    struct bb_step step;

    (void)state;
    made_init(&step, 1, 1);
    made_message(&step, 0, BB_OP_SEND, 0, 0, 1000, 0);
    made_message(&step, 0, BB_OP_RECV, 0, 0, 1000, 0);
    predict_keep_step(&step, &round_cluster, NULL);
    assert_int_equal(rank_of(0)->all.step_ns, 2000);
    bb_step_release(&step);
}

/* Links between nodes are slower, so ranks of one role with different positions in their nodes get different
 * classes. */
static void slower_inter_node_links_split_classes(void **state)
{
    struct bb_op op = made_op(BB_OP_SEND, 0);
    struct bb_step step;

    (void)state;
    made_init(&step, 8, 1);
    op.peer_kind = BB_PEER_OFFSET;
    op.call = 0;
    op.count = US;
    op.peer = 1;
    made_add(&step, 0, &op, BB_NONE);
    op.kind = BB_OP_RECV;
    op.peer = -1;
    made_add(&step, 0, &op, BB_NONE);
    made_share(&step);
    predict_keep_step(&step, &round_cluster, NULL);
    assert_int_equal(rank_of(1)->all.step_ns, 2000); /* peer of rank 0, which receives over the slow link */
    assert_int_equal(rank_of(0)->all.step_ns, 2000);
    assert_true(p.n_classes > 1 && p.n_classes < 8);
    bb_step_release(&step);
}

/* gpt2_large on two stages with one micro-batch: compute, send, ... in the order of the file comment of pipeline.c. */
static void pipeline_step_matches_the_formula(void **state)
{
    struct bb_cluster c = round_cluster;
    struct bb_step step;
    const int64_t message = 808960 * 4, f = 100000, b = 300000; /* two layers of 50 and 150 us */

    (void)state;
    c.intra.latency_us = 1;
    assert_int_equal(MADE_LINE(&step, "gpt2_large", .ranks = 2, .layers = 4, .stages = 2, .micro_batches = 1,
                               .compute = "timed", .forward_us = 50, .backward_us = 150),
                     0);
    predict_keep_step(&step, &c, NULL);
    times_are(1, f + 1000 + message + f + b + 1000 + message, f + b, f + 2 * (1000 + message), f + 2 * (1000 + message),
              0);
    assert_int_equal(rank_of(0)->all.step_ns, f + 1000 + message + f + b + 1000 + message + b);
    bb_step_release(&step);
}

static int64_t compute_end_ns(const struct bb_cluster *c, const struct bb_op *op, int64_t start_ns, int64_t host_ns)
{
    const struct bb_work_time work = bb_op_work_time(c, op);

    return bb_work_end_ns(&work, start_ns, host_ns);
}

/* Reference implementation, kernel by kernel: each kernel is launched after the previous launch and starts after its
 * launch and the previous kernel. An item with experts is one kernel per expert; the last of them starts after its
 * own launch. */
static int64_t kernel_by_kernel_end(const struct bb_cluster *c, const struct bb_op *op, int64_t start, int64_t host)
{
    const int64_t op_ns = llround((c->launch_us + (c->eager ? c->host.op_us : 0)) * 1e3);

    for (int i = 0; i < op->work_times * op->work->n; i++) {
        const struct bb_kernel_list_item *item = &op->work->items[i % op->work->n];
        const int64_t ns = bb_cluster_kernel_ns(c, item), first = host + op_ns;
        const int launches = c->eager && item->experts > 1 ? item->experts : 1;

        start = (start > first ? start : first) + ns;
        host += launches * op_ns;
        if (launches > 1 && host + ns / launches > start)
            start = host + ns / launches;
    }
    return start;
}

/* Lists with short and long kernels, long and repeated lists: the host may be late for any of the kernels. */
static void kernel_list_time_matches_kernel_by_kernel(void **state)
{
    static struct bb_kernel_list lists[3];
    struct bb_cluster c = round_cluster;

    (void)state;
    c.kernel_us = 0.1;
    for (int i = 0; i < 9; i++) {
        bb_kernel_list_accumulate(&lists[0], 1, BB_FLOAT); /* short kernels only */
        bb_kernel_list_accumulate(&lists[1], i == 4 ? 40000 : 1, BB_FLOAT);
        bb_kernel_list_accumulate(&lists[2], (uint64_t)(1 + 997 * i * i % 5000), BB_FLOAT);
    }
    lists[2].items[3].experts = 4;
    c.host.op_us = 1.5;
    for (int trial = 0; trial < 3 * 4 * 3 * 3 * 2; trial++) {
        const struct bb_op op = {.kind = BB_OP_COMPUTE, .work = &lists[trial % 3], .work_times = 1 + trial / 3 % 4 * 2};
        const int64_t host = 1000 * (trial / 12 % 3), start = host + 7000 * (trial / 36 % 3);

        c.eager = trial / 108;
        c.launch_us = trial % 2 ? 2.5 : 0.4;
        assert_int_equal(compute_end_ns(&c, &op, start, host), kernel_by_kernel_end(&c, &op, start, host));
    }
}

/* compute_alone_ns equals the step time of the slowest rank when all communication is removed from the programs. */
static void compute_alone_equals_the_step_without_communication(void **state)
{
    const struct bb_conditions slow = {.slow = {.n = 2,
                                                .items = {{.kind = BB_SLOW_RANK, .number = 1, .factor = 1.3},
                                                          {.kind = BB_SLOW_DELAY, .number = 1, .factor = 500}}}};
    struct bb_cluster cluster;
    struct bb_step step, compute_only;
    int64_t ns;

    (void)state;
    assert_int_equal(bb_cluster_load("h100-sxm-ib", &cluster), 0);
    assert_int_equal(MADE_LINE(&step, "gpt2_large", .ranks = 4, .layers = 4, .stages = 2, .micro_batches = 3,
                               .compute = "gemm", .dtype = "bfloat16"),
                     0);
    compute_only = step;
    BB_NEW(compute_only.roles, step.n_roles);
    for (int r = 0; r < step.n_roles; r++)
        bb_program_filter(&step.roles[r].program, false, &compute_only.roles[r].program);
    for (int perturbed = 0; perturbed < 2; perturbed++) {
        bb_prediction_release(&p);
        assert_int_equal(bb_predict_under(&step, &cluster, perturbed ? &slow : NULL, &p), 0);
        assert_int_equal(bb_predict_step_ns(&compute_only, &cluster, perturbed ? &slow : NULL, &ns), 0);
        assert_int_equal(p.compute_alone_ns, ns);
    }
    for (int r = 0; r < step.n_roles; r++)
        bb_program_release(&compute_only.roles[r].program);
    free(compute_only.roles);
    bb_step_release(&step);
}

static void rejects_invalid_steps(void **state)
{
    struct bb_step step;
    struct bb_prediction q;

    (void)state;
    made_init(&step, 2, 1);
    made_send(&step, 0, 0, 1, 5);
    assert_int_equal(bb_predict(&step, &round_cluster, &q), -BB_EFAIL);
    made_recv(&step, 1, 0, 0, 6);
    assert_int_equal(bb_predict(&step, &round_cluster, &q), -BB_EFAIL);
    bb_step_release(&step);
}

/* ---- host overhead of a framework ---- */

/* A list of training: a memory-bound kernel, a kernel that the previous GEMM performs anyway, and a GEMM with four
 * experts. Each item takes 4 us on the GPU. */
static void list_kernels(struct bb_kernel_list *list)
{
    const struct bb_gemm_shape gemm = {.m = 1, .n = 1, .k = 1, .batch = 4, .dtype = BB_FLOAT};
    const struct bb_memory_kernel memory_kernel = {
        .kind = BB_MEMORY_KERNEL_COPY, .dtype = BB_FLOAT, .rows = 1, .cols = 1};

    bb_kernel_list_add_memory_kernel(list, "norm", &memory_kernel);
    bb_kernel_list_add_memory_kernel(list, "sum", &memory_kernel);
    bb_kernel_list_last(list)->fusion = BB_KERNEL_IN_GEMM;
    bb_kernel_list_add_gemm(list, "experts", &gemm);
    bb_kernel_list_last(list)->experts = 4;
}

static void eager_framework_launches_one_kernel_per_expert(void **state)
{
    static struct bb_kernel_list list;
    const struct bb_op op = {.kind = BB_OP_COMPUTE, .work = &list, .work_times = 1};
    struct bb_cluster c = {.launch_us = 2,
                           .nccl_launch_us = 5,
                           .kernel_us = 4,
                           .memory_gbps = 1000,
                           .tflops_float32 = 1,
                           .has_achieved = true,
                           .models_training = true,
                           .achieved = {.gemm = 1, .memory = 1},
                           .sm_count = 1,
                           .has_host = true,
                           .host = {.op_us = 7, .expert_us = 30}};
    struct bb_work_time work;

    (void)state;
    list_kernels(&list);
    work = bb_op_work_time(&c, &op);
    assert_int_equal(work.issue_ns, 6000);
    assert_int_equal(work.first_ns, 2000);
    assert_int_equal(compute_end_ns(&c, &op, 2000, 0), 10000); /* from 2, and from 6: the sum takes no time */
    c.eager = true;
    work = bb_op_work_time(&c, &op);
    assert_int_equal(work.issue_ns, 9000 + 4 * 32000);
    assert_int_equal(work.first_ns, 9000);
    assert_int_equal(compute_end_ns(&c, &op, 9000, 0), 137000 + 1000); /* only the last expert's quarter remains */
    assert_int_equal(compute_end_ns(&c, &op, 200000, 0), 208000);      /* the GPU is slower than its host */
    assert_int_equal(bb_cluster_issue_ns(&c, false), 12000);
    for (int experts = 8; experts >= 4; experts -= 4) { /* 870 us per GEMM without a capacity factor */
        bb_kernel_list_last(&list)->experts = experts;
        bb_kernel_list_last(&list)->dropless = true;
        assert_int_equal(bb_op_work_time(&c, &op).issue_ns, 9000 + 870000 + experts * 32000);
    }
    bb_kernel_list_last(&list)->dropless = false;
    for (int i = list.n - 1; i >= 0; i--) { /* the experts alone, then all kernels in one graph */
        list.items[i].captured = true;
        work = bb_op_work_time(&c, &op);
        assert_int_equal(work.issue_ns, i > 0 ? 18000 : 9000);
    }
    assert_int_equal(compute_end_ns(&c, &op, 9000, 0), 17000);
    c.eager = false;
    assert_int_equal(bb_op_work_time(&c, &op).issue_ns, 6000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlap_full_none_and_half),
        cmocka_unit_test(waiting_for_a_late_peer_is_exposed),
        cmocka_unit_test(message_waits_for_the_later_side),
        cmocka_unit_test(peers_distinguish_rank_classes),
        cmocka_unit_test(node_distance_distinguishes_rank_classes),
        cmocka_unit_test(receiver_links_can_be_the_bottleneck),
        cmocka_unit_test(waiting_for_a_peer_is_communication_not_idle),
        cmocka_unit_test(host_launch_times_delay_operations),
        cmocka_unit_test(host_waits_for_results_that_it_reads),
        cmocka_unit_test(step_lasts_until_the_host_has_issued_all),
        cmocka_unit_test(collective_times_match_the_formulas),
        cmocka_unit_test(single_rank_collective_is_a_copy),
        cmocka_unit_test(messages_of_one_call_share_links),
        cmocka_unit_test(message_to_the_same_rank_is_a_copy),
        cmocka_unit_test(slower_inter_node_links_split_classes),
        cmocka_unit_test(pipeline_step_matches_the_formula),
        cmocka_unit_test(kernel_list_time_matches_kernel_by_kernel),
        cmocka_unit_test(compute_alone_equals_the_step_without_communication),
        cmocka_unit_test(rejects_invalid_steps),
        cmocka_unit_test(eager_framework_launches_one_kernel_per_expert),
    };

    return cmocka_run_group_tests(tests, NULL, release_prediction);
}
