/*
 * test_side_by_side.c - programs that need their streams side by side, on two emulated GPUs with eight hardware queues
 * and first collectives that keep the host. Without bb_step_set_environment either of them hangs.
 */
#include "collectives/session/nccl_memory.h"
#include "cuda/device/device.h"
#include "proxies/run/step_environment.h"
#include "proxies/run/step_measure.h"
#include "tests/check.h"

enum { LANES = 12, COUNT = 1000 };

struct fixture {
    struct bb_layout layout;
    struct bb_program program;
    struct bb_runner runner;
    int comms[LANES], streams[LANES], from, to;
};
static struct bb_world world; /* one MPI per process */

/* n communicators of both ranks, each with a stream of its own. */
static void start(struct fixture *f, int n)
{
    const struct bb_axis axis = {.name = "dp", .size = 2};
    static const char *const names[LANES] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
    int group;

    memset(f, 0, sizeof(*f));
    assert_int_equal(bb_layout_init(&f->layout, 2, &axis, 1), 0);
    group = bb_layout_add_group(&f->layout, "dp", 1);
    assert_int_equal(bb_program_init(&f->program), 0);
    for (int i = 0; i < n; i++) {
        f->comms[i] = bb_layout_add_comm(&f->layout, names[i], group);
        f->streams[i] = bb_program_add_stream(&f->program, names[i], f->comms[i]);
    }
    f->from = bb_program_add_buffer(&f->program, "from", BB_USE_GRADIENTS, COUNT, BB_FLOAT);
    f->to = bb_program_add_buffer(&f->program, "to", BB_USE_GRADIENTS, COUNT, BB_FLOAT);
}

static void all_reduce(struct fixture *f, int lane)
{
    const struct bb_op op = {.kind = BB_OP_COLLECTIVE,
                             .coll = BB_ALL_REDUCE,
                             .dtype = BB_FLOAT,
                             .redop = BB_SUM,
                             .stream = f->streams[lane],
                             .comm = f->comms[lane],
                             .call = BB_NONE,
                             .count = COUNT,
                             .src = f->from,
                             .dst = f->to,
                             .micro_batch = BB_NONE,
                             .layer = BB_NONE,
                             .what = "gradients"};

    assert_true(bb_program_add(&f->program, &op, NULL, 0) >= 0);
}

static void run_and_finish(struct fixture *f)
{
    struct bb_step_time t;

    assert_int_equal(bb_runner_init(&f->runner, &world, &f->layout, &f->program, bb_nccl_memory(NULL)), 0);
    assert_int_equal(bb_runner_connect(&f->runner), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(bb_runner_step(&f->runner, "step", BB_ISSUE_ALL, false, &t), 0);
    assert_int_equal(bb_runner_release(&f->runner, 0), 0);
    bb_program_release(&f->program);
    bb_layout_release(&f->layout);
}

/* Rank 0 calls a then b, rank 1 b then a: each would wait inside its first call for the other one's second. */
static void first_collectives_in_another_order(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 2);
    all_reduce(&f, world.rank == 0 ? 0 : 1);
    all_reduce(&f, world.rank == 0 ? 1 : 0);
    run_and_finish(&f);
}

/* One stream for each of twelve communicators, used from the first to the last on rank 0, the other way on rank 1. Of
 * eight queues the first would have a and i: rank 0's i stands behind its a, rank 1's a behind its i. */
static void more_streams_than_eight_queues(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, LANES);
    for (int i = 0; i < LANES; i++)
        all_reduce(&f, world.rank == 0 ? i : LANES - 1 - i);
    run_and_finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_collectives_in_another_order),
        cmocka_unit_test(more_streams_than_eight_queues),
    };
    struct bb_device_info device;
    int rc = bb_world_init(&world, 8);

    if (rc == 0)
        rc = bb_step_set_environment(true);
    if (rc == 0)
        rc = bb_device_choose(&world, 0, true, &device);
    if (rc == 0)
        rc = cmocka_run_group_tests(tests, NULL, NULL) ? -BB_EFAIL : 0;
    return bb_exit_code(bb_world_release(&world, rc));
}
