/*
 * test_runner.c - hand-made programs on two emulated GPUs with exactly known overlap: fully hidden, fully exposed, half
 * hidden, a late peer, and messages in one group call. In the cluster (round.json) links move 1 byte/ns and all other
 * costs are zero: an all_reduce of 1,000,000 bytes over two ranks takes 2(n-1)/n * 1000 = 1000 us.
 */
#include "collectives/session/nccl_memory.h"
#include "cuda/device/device.h"
#include "proxies/runner/run/data_check.h"
#include "proxies/runner/run/step_measure.h"
#include "tests/check.h"

static const size_t COUNT = 250000; /* floats: 1,000,000 bytes, 1000 us */

struct fixture {
    struct bb_world world;
    struct bb_layout layout;
    struct bb_program program;
    struct bb_runner runner;
    struct bb_measured m;
    int comm, stream, from, to;
};
static struct bb_world world; /* MPI can be initialized only once per process */

/* ---- helpers that build programs ---- */

static int compute(struct fixture *f, double us, int wait)
{
    struct bb_op op = {.kind = BB_OP_COMPUTE,
                       .comm = BB_NONE,
                       .call = BB_NONE,
                       .src = BB_NONE,
                       .dst = BB_NONE,
                       .compute_us = us,
                       .micro_batch = BB_NONE,
                       .layer = BB_NONE,
                       .what = "kernel"};

    return bb_program_add(&f->program, &op, &wait, 1);
}

static int all_reduce(struct fixture *f, int wait)
{
    struct bb_op op = {.kind = BB_OP_COLLECTIVE,
                       .coll = BB_ALL_REDUCE,
                       .dtype = BB_FLOAT,
                       .redop = BB_SUM,
                       .stream = f->stream,
                       .comm = f->comm,
                       .call = BB_NONE,
                       .count = COUNT,
                       .src = f->from,
                       .dst = f->to,
                       .phase = BB_PHASE_GRADIENTS,
                       .micro_batch = BB_NONE,
                       .layer = 0,
                       .what = "gradients"};

    return bb_program_add(&f->program, &op, &wait, 1);
}

static int pair(struct fixture *f, enum bb_op_kind kind, int call, size_t count)
{
    struct bb_op op = {.kind = kind,
                       .dtype = BB_FLOAT,
                       .stream = f->stream,
                       .comm = f->comm,
                       .call = call,
                       .peer = 1,
                       .peer_kind = BB_PEER_OFFSET,
                       .count = count,
                       .src = kind == BB_OP_SEND ? f->from : BB_NONE,
                       .dst = kind == BB_OP_RECV ? f->to : BB_NONE,
                       .micro_batch = 0,
                       .layer = BB_NONE,
                       .what = "activations"};

    return bb_program_add(&f->program, &op, NULL, 0);
}

static void start(struct fixture *f)
{
    const struct bb_axis axis = {.name = "dp", .size = 2};

    memset(f, 0, sizeof(*f));
    assert_int_equal(bb_layout_init(&f->layout, 2, &axis, 1), 0);
    f->comm = bb_layout_add_comm(&f->layout, "dp", bb_layout_add_group(&f->layout, "dp", 1));
    bb_program_init(&f->program);
    f->stream = bb_program_add_stream(&f->program, "dp", f->comm);
    f->from = bb_program_add_buffer(&f->program, "from", BB_USE_GRADIENTS, COUNT, BB_FLOAT);
    f->to = bb_program_add_buffer(&f->program, "to", BB_USE_GRADIENTS, COUNT, BB_FLOAT);
}

static void finish(struct fixture *f)
{
    assert_int_equal(bb_runner_release(&f->runner, 0), 0);
    bb_measured_release(&f->m);
    bb_program_release(&f->program);
    bb_layout_release(&f->layout);
}

/* ---- helpers that check times ---- */

static void assert_us(double actual, double expected, const char *what, int line)
{
    if (!(actual > expected - 0.5 && actual < expected + 0.5))
        fail_msg("line %d: %s is %.3f us, should be %.3f us", line, what, actual, expected);
}

static void measure(struct fixture *f, bool alone)
{
    const struct bb_measure_plan plan = {.warmup = 1, .steps = 3, .traced_steps = 2, .alone = alone, .graph = true};
    struct bb_progress quiet = {0};

    assert_int_equal(bb_runner_init(&f->runner, &world, &f->layout, &f->program, bb_nccl_memory(NULL)), 0);
    assert_int_equal(bb_step_measure(&f->runner, &plan, &quiet, &f->m), 0);
    assert_us(f->m.graph.step.p50, f->m.timed.step.p50, "step as a graph", __LINE__); /* launch costs are zero */
}
#define ASSERT_US(actual, expected) assert_us((actual), (expected), #actual, __LINE__)

static void assert_breakdown(const struct bb_rank_breakdown *f, double step, double computing, double comm,
                             double exposed, int line)
{
    assert_us(f->step_us, step, "step", line);
    assert_us(f->compute_us, computing, "compute", line);
    assert_us(f->comm_us, comm, "communication", line);
    assert_us(f->exposed_us, exposed, "exposed", line);
    assert_us(f->groups[0].busy_us, comm, "busy of the group", line);
    assert_us(f->groups[0].exposed_us, exposed, "exposed of the group", line);
    assert_us(f->idle_us, step - computing - exposed, "idle", line);
}
#define ASSERT_BREAKDOWN(f, step, computing, comm, exposed)                                                            \
    assert_breakdown((f), (step), (computing), (comm), (exposed), __LINE__)

/* ---- test cases ---- */

static void communication_fully_hidden(void **state)
{
    struct fixture f;

    (void)state;
    start(&f);
    all_reduce(&f, compute(&f, 1000, BB_NONE));
    compute(&f, 2000, BB_NONE);
    measure(&f, true);
    for (int r = 0; r < 2; r++)
        ASSERT_BREAKDOWN(&f.m.traced[r], 3000, 3000, 1000, 0);
    ASSERT_US(f.m.timed.step.p50, 3000);
    ASSERT_US(f.m.timed.step.max, 3000);
    ASSERT_US(f.m.compute_alone_us, 3000);
    ASSERT_US(f.m.comm_alone_us, 1000);
    assert_float_equal(bb_overlap_efficiency(f.m.compute_alone_us, f.m.comm_alone_us, f.m.timed.step.p50), 1.0, 1e-3);
    ASSERT_BREAKDOWN(&f.m.compute_alone[0], 3000, 3000, 0, 0);
    ASSERT_BREAKDOWN(&f.m.comm_alone[0], 1000, 0, 1000, 1000);
    finish(&f);
}

static void communication_fully_exposed(void **state)
{
    struct fixture f;

    (void)state;
    start(&f);
    compute(&f, 1000, all_reduce(&f, compute(&f, 1000, BB_NONE)));
    measure(&f, true);
    for (int r = 0; r < 2; r++)
        ASSERT_BREAKDOWN(&f.m.traced[r], 3000, 2000, 1000, 1000);
    ASSERT_US(f.m.compute_alone_us, 2000);
    ASSERT_US(f.m.comm_alone_us, 1000);
    assert_float_equal(bb_overlap_efficiency(f.m.compute_alone_us, f.m.comm_alone_us, f.m.timed.step.p50), 0.0, 1e-3);
    finish(&f);
}

static void communication_half_hidden(void **state)
{
    struct fixture f;

    (void)state;
    start(&f);
    all_reduce(&f, compute(&f, 1000, BB_NONE));
    compute(&f, 500, BB_NONE);
    measure(&f, false);
    for (int r = 0; r < 2; r++) {
        ASSERT_BREAKDOWN(&f.m.traced[r], 2000, 1500, 1000, 500);
        ASSERT_US(f.m.traced[r].groups[0].transfer_us, 1000);
        ASSERT_US(f.m.traced[r].groups[0].waiting_us, 0);
    }
    finish(&f);
}

/* Rank 1 arrives 2000 us late and rank 0 waits. Only 500 of its 3000 us of communication overlap with a kernel. */
static void late_peer_counts_as_waiting(void **state)
{
    struct fixture f;

    (void)state;
    start(&f);
    all_reduce(&f, compute(&f, world.rank == 0 ? 1000 : 3000, BB_NONE));
    compute(&f, 500, BB_NONE);
    measure(&f, false);
    ASSERT_BREAKDOWN(&f.m.traced[0], 4000, 1500, 3000, 2500);
    ASSERT_BREAKDOWN(&f.m.traced[1], 4000, 3500, 1000, 500);
    for (int r = 0; r < 2; r++) {
        ASSERT_US(f.m.traced[r].groups[0].transfer_us, 1000);
        ASSERT_US(f.m.traced[r].groups[0].waiting_us, r == 0 ? 2000 : 0);
    }
    ASSERT_US(f.m.timed.step.p50, 4000);
    finish(&f);
}

/* A send and a receive of 400,000 bytes in one group call run concurrently: 400 us, of which 300 us overlap with a
 * kernel. */
static void send_and_recv_in_a_group(void **state)
{
    struct bb_group_traffic work[BB_MAX_GROUPS];
    struct bb_data_finding found = {.wrong = 1};
    struct fixture f;

    (void)state;
    start(&f);
    compute(&f, 300, BB_NONE);
    pair(&f, BB_OP_SEND, 7, 100000);
    pair(&f, BB_OP_RECV, 7, 100000);
    measure(&f, false);
    for (int r = 0; r < 2; r++)
        ASSERT_BREAKDOWN(&f.m.traced[r], 400, 300, 400, 100);
    bb_count_group_traffic(&f.layout, &f.program, work);
    assert_int_equal(work[0].calls, 2);
    assert_true(bb_group_traffic_bytes(&work[0]) == 400000 && bb_group_traffic_bus_bytes(&work[0]) == 400000);
    assert_int_equal(bb_data_check(&f.runner, false, &found), 0);
    assert_int_equal(found.wrong, 0);
    assert_true(found.expected > 0 && found.compared == found.expected);
    finish(&f);
}

static int pair_after(struct fixture *f, enum bb_op_kind kind, int wait)
{
    struct bb_op op;
    int last = pair(f, kind, BB_NONE, COUNT);

    op = f->program.ops[last];
    f->program.n_ops--;
    return bb_program_add(&f->program, &op, &wait, 1);
}

/* Rank 0 starts its send of 1,000,000 bytes at 1000 us. Rank 1 receives it from 3000 to 4000 us and sends back at
 * 4500 us. Rank 0 has waited for that message since 4000 us. */
static void late_send_and_recv_count_as_waiting(void **state)
{
    struct fixture f;
    int wait, arrived;

    (void)state;
    start(&f);
    wait = compute(&f, world.rank == 0 ? 1000 : 3000, BB_NONE);
    arrived = pair_after(&f, world.rank == 0 ? BB_OP_SEND : BB_OP_RECV, wait);
    if (world.rank == 0)
        pair_after(&f, BB_OP_RECV, BB_NONE);
    else
        pair_after(&f, BB_OP_SEND, compute(&f, 500, arrived));
    measure(&f, true);
    for (int r = 0; r < 2; r++) {
        ASSERT_US(f.m.traced[r].groups[0].transfer_us, 2000);
        ASSERT_US(f.m.traced[r].groups[0].waiting_us, r == 0 ? 2500 : 0);
        ASSERT_US(f.m.comm_alone[r].groups[0].transfer_us, 2000);
        ASSERT_US(f.m.comm_alone[r].groups[0].waiting_us, 0);
    }
    ASSERT_US(f.m.tracing.step.p50, 5500);
    ASSERT_US(f.m.tracing.step.max, 5500);
    assert_true(f.m.tracing.step.n == 2 && f.m.tracing.issue.n == 2 && f.m.tracing.issue.min > 0);
    finish(&f);
}

static void empty_step(void **state)
{
    struct fixture f;

    (void)state;
    start(&f);
    measure(&f, true);
    ASSERT_BREAKDOWN(&f.m.traced[0], 0, 0, 0, 0);
    finish(&f);
}

/* Adds a collective of `count` elements with separate buffers, or in place if the collective supports it. */
static void add_collective(struct fixture *f, enum bb_coll_kind kind, size_t count, enum bb_dtype_id dtype,
                           bool in_place)
{
    struct bb_op op = {.kind = BB_OP_COLLECTIVE,
                       .coll = kind,
                       .dtype = dtype,
                       .redop = BB_MAX,
                       .stream = f->stream,
                       .comm = f->comm,
                       .call = BB_NONE,
                       .peer = 1,
                       .count = count,
                       .micro_batch = BB_NONE,
                       .layer = BB_NONE,
                       .what = "data"};
    enum bb_coll_inplace rule = bb_colls[kind].inplace;

    op.src =
        bb_program_add_buffer(&f->program, "src", BB_USE_COMMUNICATION, bb_colls[kind].send_count(count, 2), dtype);
    op.dst =
        bb_program_add_buffer(&f->program, "dst", BB_USE_COMMUNICATION, bb_colls[kind].recv_count(count, 2), dtype);
    if (in_place && rule == BB_INPLACE_NONE)
        return;
    if (in_place && rule == BB_INPLACE_RECV_IN_SEND) {
        op.dst = op.src;
        op.dst_offset = (size_t)world.rank * count;
    } else if (in_place) {
        op.src = op.dst;
        op.src_offset = rule == BB_INPLACE_SEND_IN_RECV ? (size_t)world.rank * count : 0;
    }
    assert_true(bb_program_add(&f->program, &op, NULL, 0) >= 0);
}

static void data_check_passes_for_every_collective(void **state)
{
    struct bb_data_finding found = {.wrong = 1};
    struct fixture f;

    (void)state;
    start(&f);
    for (int kind = 0; kind < BB_SENDRECV; kind++) {
        add_collective(&f, kind, 1001, BB_FLOAT, false);
        add_collective(&f, kind, 64, BB_BFLOAT16, true);
    }
    all_reduce(&f, BB_NONE);
    assert_int_equal(bb_runner_init(&f.runner, &world, &f.layout, &f.program, bb_nccl_memory(NULL)), 0);
    assert_int_equal(bb_data_check(&f.runner, false, &found), 0);
    assert_int_equal(found.wrong, 0);
    assert_true(found.expected > 0 && found.compared == found.expected);
    finish(&f);
}

/* The check must be able to fail: two receives, from the other rank and from this rank, write to the same buffer. */
static void data_check_finds_wrong_data(void **state)
{
    struct bb_data_finding found = {0};
    unsigned long long all = 0;
    struct fixture f;

    (void)state;
    start(&f);
    for (int offset = 0; offset < 2; offset++) {
        int send = pair(&f, BB_OP_SEND, 3, 1000), recv = pair(&f, BB_OP_RECV, 3, 1000);

        f.program.ops[send].peer = f.program.ops[recv].peer = offset;
    }
    assert_int_equal(bb_runner_init(&f.runner, &world, &f.layout, &f.program, bb_nccl_memory(NULL)), 0);
    assert_int_equal(bb_data_check(&f.runner, false, &found), 0);
    assert_in_range(found.wrong, 990, 1000); /* random bits: a few elements may be equal by chance */
    for (int i = 0; i < 3; i++) {            /* it is undefined which receive is last when the check reads the buffer */
        assert_int_equal(bb_data_check(&f.runner, true, &found), 0);
        all += found.wrong;
    }
    assert_in_range(all, 990, 3000);
    finish(&f);
}

/* Both ranks receive before they send, use a communicator per direction, and send twice from one buffer. If the
 * operations were serialised, they would deadlock. */
static void concurrent_check_of_steps_that_cannot_be_serialised(void **state)
{
    struct bb_data_finding found = {.wrong = 1};
    struct fixture f;
    int comm, stream, to;

    (void)state;
    start(&f);
    comm = bb_layout_add_comm(&f.layout, "other", f.layout.comms[f.comm].group);
    stream = bb_program_add_stream(&f.program, "other", comm);
    to = bb_program_add_buffer(&f.program, "to", BB_USE_GRADIENTS, COUNT, BB_FLOAT);
    for (int i = 0; i < 2; i++) {
        int send, recv = pair(&f, BB_OP_RECV, BB_NONE, 1000 + (size_t)i);

        send = pair(&f, BB_OP_SEND, BB_NONE, 1000 + (size_t)i);
        f.program.ops[world.rank ? send : recv].comm = comm; /* rank 0 receives on `comm`, rank 1 sends on it */
        f.program.ops[world.rank ? send : recv].stream = stream;
        f.program.ops[recv].dst = i ? to : f.to;
    }
    assert_int_equal(bb_runner_init(&f.runner, &world, &f.layout, &f.program, bb_nccl_memory(NULL)), 0);
    assert_int_equal(bb_runner_connect(&f.runner), 0);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(bb_data_check(&f.runner, true, &found), 0);
        assert_int_equal(found.wrong, 0);
        assert_true(found.expected > 0 && found.compared == found.expected);
    }
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_step),
        cmocka_unit_test(communication_fully_hidden),
        cmocka_unit_test(communication_fully_exposed),
        cmocka_unit_test(communication_half_hidden),
        cmocka_unit_test(late_peer_counts_as_waiting),
        cmocka_unit_test(send_and_recv_in_a_group),
        cmocka_unit_test(late_send_and_recv_count_as_waiting),
        cmocka_unit_test(data_check_passes_for_every_collective),
        cmocka_unit_test(data_check_finds_wrong_data),
        cmocka_unit_test(concurrent_check_of_steps_that_cannot_be_serialised),
    };
    struct bb_device_info device;
    int rc = bb_world_init(&world, 30);

    if (rc == 0)
        rc = bb_device_choose(&world, 0, true, &device);
    if (rc == 0)
        rc = cmocka_run_group_tests(tests, NULL, NULL) ? -BB_EFAIL : 0;
    return bb_exit_code(bb_world_release(&world, rc));
}
