/*
 * test_concurrent_streams.c - programs whose streams must run concurrently, on two emulated GPUs with eight hardware
 * queues and with first collectives that block the host. Without step_environment.h both programs deadlock.
 */
#include "collectives/session/nccl_memory.h"
#include "cuda/device/device.h"
#include "proxies/runner/run/step_environment.h"
#include "proxies/runner/run/step_measure.h"
#include "tests/check.h"

enum { LANES = 12, COUNT = 1000 };

struct fixture {
    struct bb_layout layout;
    struct bb_program program;
    struct bb_runner runner;
    int comms[LANES], streams[LANES], from, to;
};
static struct bb_world world; /* MPI can be initialized only once per process */

/* Creates n communicators of both ranks, each with a separate stream. */
static void start(struct fixture *f, int n)
{
    const struct bb_axis axis = {.name = "dp", .size = 2};
    static const char *const names[LANES] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
    int group;

    memset(f, 0, sizeof(*f));
    assert_int_equal(bb_layout_init(&f->layout, 2, &axis, 1), 0);
    group = bb_layout_add_group(&f->layout, "dp", 1);
    bb_program_init(&f->program);
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

/* Rank 0 calls a, then b; rank 1 calls b, then a. With blocking first calls each rank would wait in its first call
 * for the second call of the other rank. */
static void first_collectives_in_different_order(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 2);
    all_reduce(&f, world.rank == 0 ? 0 : 1);
    all_reduce(&f, world.rank == 0 ? 1 : 0);
    run_and_finish(&f);
}

/* Twelve communicators have one stream each. Rank 0 uses them from first to last, rank 1 from last to first. With
 * eight hardware queues streams a and i would share a queue: i would wait for a on rank 0, and a for i on rank 1. */
static void twelve_streams_on_eight_hardware_queues(void **state)
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
        cmocka_unit_test(first_collectives_in_different_order),
        cmocka_unit_test(twelve_streams_on_eight_hardware_queues),
    };
    struct bb_device_info device;
    int rc = bb_step_set_environment(1);

    if (rc == 0)
        rc = bb_world_init(&world, 8);
    bb_step_enable(BB_STEP_CONNECT_AT_INIT);
    if (rc == 0)
        rc = bb_device_choose(&world, 0, true, &device);
    if (rc == 0)
        rc = cmocka_run_group_tests(tests, NULL, NULL) ? -BB_EFAIL : 0;
    return bb_exit_code(bb_world_release(&world, rc));
}
