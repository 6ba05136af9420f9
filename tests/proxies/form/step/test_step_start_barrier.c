/* test_step_start_barrier.c - entries that a step enqueues while the start barrier is closed, against counts
 * computed by hand. */
#include "proxies/form/step/step_start_barrier.h"
#include "tests/proxies/made.h"

enum { COMPUTE_STREAM = 0 };

static void add_kernel(struct bb_step *step, int wait)
{
    struct bb_op op = made_op(BB_OP_COMPUTE, BB_NONE);

    op.stream = COMPUTE_STREAM;
    op.compute_us = 5;
    assert_true(bb_program_add(&step->roles[0].program, &op, &wait, wait != BB_NONE) >= 0);
}

static int add_op(struct bb_step *step, enum bb_op_kind kind, enum bb_coll_kind coll, int comm, int call)
{
    struct bb_op op = made_op(kind, comm);
    int rc;

    op.coll = coll;
    op.call = call;
    op.count = 1;
    op.peer = op.kind == BB_OP_COLLECTIVE ? BB_NONE : 1;
    rc = bb_program_add(&step->roles[0].program, &op, NULL, 0);
    assert_true(rc >= 0);
    return rc;
}

/* One entry for each operation, one for the event record at its end, one for each wait, and two for the end of the
 * stream. */
static void counts_entries_of_the_fullest_stream(void **state)
{
    const struct bb_program *p;
    struct bb_step step;
    int reduced;

    (void)state;
    made_init(&step, 2, 1);
    p = &step.roles[0].program;
    reduced = add_op(&step, BB_OP_COLLECTIVE, BB_ALL_REDUCE, 0, BB_NONE);
    assert_int_equal(bb_step_queue_entries(p, &step.layout, 32), 3 + 1 + 2);
    add_kernel(&step, reduced);
    assert_int_equal(bb_step_queue_entries(p, &step.layout, 32), 6); /* this stream has 1 + 1 + 1 + 2 */
    add_kernel(&step, BB_NONE);
    assert_int_equal(bb_step_queue_entries(p, &step.layout, 32), 7);
    /* two streams, the joining stream, and two streams of each of two communicators: seven streams in three hardware
     * queues */
    assert_int_equal(bb_step_queue_entries(p, &step.layout, 3), 7 * 3);
    bb_step_release(&step);
}

static void group_call_is_one_launch(void **state)
{
    struct bb_step step;

    (void)state;
    made_init(&step, 2, 1);
    add_op(&step, BB_OP_SEND, 0, 0, 7);
    add_op(&step, BB_OP_RECV, 0, 0, 7);
    assert_int_equal(bb_step_queue_entries(&step.roles[0].program, &step.layout, 32), 3 + 2 + 2);
    assert_int_equal(bb_step_fifo_bytes(&step.roles[0].program, &step.layout), 2 * 48);
    bb_step_release(&step);
}

static void counts_fifo_bytes_of_the_fullest_communicator(void **state)
{
    struct bb_step step;

    (void)state;
    made_init(&step, 4, 2);
    add_op(&step, BB_OP_COLLECTIVE, BB_ALL_REDUCE, 0, BB_NONE);
    add_op(&step, BB_OP_COLLECTIVE, BB_ALL_REDUCE, 1, BB_NONE);
    assert_int_equal(bb_step_fifo_bytes(&step.roles[0].program, &step.layout), 128);
    add_op(&step, BB_OP_COLLECTIVE, BB_ALLTOALL, 1, BB_NONE); /* one message per rank */
    assert_int_equal(bb_step_fifo_bytes(&step.roles[0].program, &step.layout), 128 + 4 * 48);
    bb_step_release(&step);
}

/* A queue takes 512 entries: 255 kernels with one event record each, and two. */
static void rejects_a_step_that_exceeds_the_queue(void **state)
{
    struct bb_step step;

    (void)state;
    made_init(&step, 1, 0);
    for (int i = 0; i < 255; i++)
        add_kernel(&step, BB_NONE);
    assert_int_equal(bb_step_start_barrier_check(&step, 32, 917504), 0);
    add_kernel(&step, BB_NONE);
    assert_int_equal(bb_step_start_barrier_check(&step, 32, 917504), -BB_EUSAGE);
    bb_step_release(&step);
}

/* A FIFO of 917504 bytes takes 19 all-to-alls of 1000 ranks, but not 20. */
static void rejects_a_step_that_exceeds_the_fifo(void **state)
{
    struct bb_step step;

    (void)state;
    made_init(&step, 1000, 1);
    for (int i = 0; i < 19; i++)
        add_op(&step, BB_OP_COLLECTIVE, BB_ALLTOALL, 0, BB_NONE);
    assert_int_equal(bb_step_start_barrier_check(&step, 32, 917504), 0); /* 912000 bytes */
    add_op(&step, BB_OP_COLLECTIVE, BB_ALLTOALL, 0, BB_NONE);
    assert_int_equal(bb_step_start_barrier_check(&step, 32, 917504), -BB_EUSAGE);
    bb_step_release(&step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_entries_of_the_fullest_stream),
        cmocka_unit_test(group_call_is_one_launch),
        cmocka_unit_test(counts_fifo_bytes_of_the_fullest_communicator),
        cmocka_unit_test(rejects_a_step_that_exceeds_the_queue),
        cmocka_unit_test(rejects_a_step_that_exceeds_the_fifo),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
