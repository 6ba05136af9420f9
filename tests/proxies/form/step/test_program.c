/* test_program.c - waits that follow from buffer hazards; the communication and the compute part of a program. */
#include "tests/proxies/made.h"

static struct bb_program program;
static int compute_stream = 0, comm_stream, a, b;

static int start(void **state)
{
    (void)state;
    bb_program_init(&program);
    comm_stream = bb_program_add_stream(&program, "c0", 0);
    a = bb_program_add_buffer(&program, "a", BB_USE_COMMUNICATION, 10, BB_FLOAT);
    b = bb_program_add_buffer(&program, "b", BB_USE_ACTIVATIONS, 7, BB_HALF);
    return 0;
}

static int end(void **state)
{
    (void)state;
    bb_program_release(&program);
    return 0;
}

static int add_dataflow_op(int stream, int src, int dst)
{
    struct bb_op op = made_op(stream == compute_stream ? BB_OP_COMPUTE : BB_OP_SEND, stream - 1);

    op.src = src;
    op.dst = dst;
    return bb_program_add_dataflow(&program, &op, NULL, 0);
}

static void assert_waits(int op, const int *expected, int n)
{
    assert_int_equal(program.ops[op].waits, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(program.wait_list[program.ops[op].first_wait + i], expected[i]);
}

static void buffer_hazards_become_waits(void **state)
{
    int write = add_dataflow_op(compute_stream, BB_NONE, a), send = add_dataflow_op(comm_stream, a, BB_NONE);
    int again = add_dataflow_op(compute_stream, BB_NONE, a), other = add_dataflow_op(compute_stream, BB_NONE, b);
    int read = add_dataflow_op(compute_stream, a, BB_NONE), overwrite = add_dataflow_op(comm_stream, BB_NONE, a);

    (void)state;
    assert_waits(write, NULL, 0);
    assert_waits(send, &write, 1); /* read after write */
    assert_waits(again, &send, 1); /* write after read */
    assert_waits(other, NULL, 0);  /* another buffer */
    assert_waits(read, NULL, 0);   /* written on the same stream */
    assert_waits(overwrite, &read, 1);
}

static void redundant_waits_are_dropped(void **state)
{
    int first = add_dataflow_op(compute_stream, BB_NONE, a), second = add_dataflow_op(comm_stream, BB_NONE, b);
    struct bb_op op = made_op(BB_OP_SEND, 0);
    int many[] = {first, first, BB_NONE, second}, index = bb_program_add(&program, &op, many, 4);

    (void)state;
    assert_waits(index, &first, 1); /* `second` is on the stream of `op` */
}

static void group_call_does_not_wait_for_itself(void **state)
{
    struct bb_op op = made_op(BB_OP_SEND, 0);
    int other_stream = bb_program_add_stream(&program, "c1", 1), first, second;

    (void)state;
    op.call = 5;
    op.src = a;
    first = bb_program_add_dataflow(&program, &op, NULL, 0);
    op.kind = BB_OP_RECV;
    op.stream = other_stream;
    op.comm = 1;
    op.src = BB_NONE;
    op.dst = a;
    second = bb_program_add_dataflow(&program, &op, &first, 1);
    assert_waits(second, NULL, 0);
}

static void counts_buffer_bytes_by_use(void **state)
{
    (void)state;
    assert_int_equal(bb_program_bytes(&program, BB_USE_COMMUNICATION), 40);
    assert_int_equal(bb_program_bytes(&program, BB_USE_ACTIVATIONS), 14);
    assert_int_equal(bb_program_bytes(&program, BB_USE_PARAMETERS), 0);
}

static void resolves_peers_and_payloads(void **state)
{
    struct bb_op op = made_op(BB_OP_SEND, 0);

    (void)state;
    op.count = 6;
    op.peer = 3;
    assert_int_equal(bb_op_peer(&op, 1, 4), 3);
    op.peer_kind = BB_PEER_OFFSET;
    assert_int_equal(bb_op_peer(&op, 2, 4), 1);
    op.peer = -1;
    assert_int_equal(bb_op_peer(&op, 0, 4), 3);
    assert_int_equal(bb_op_payload_bytes(&op, 4), 24);
    op.kind = BB_OP_COLLECTIVE;
    assert_int_equal(bb_op_payload_bytes(&op, 4), 24); /* all_reduce: the array */
    op.coll = BB_ALL_GATHER;
    assert_int_equal(bb_op_payload_bytes(&op, 4), 96); /* all_gather: the full array */
    op.coll = BB_REDUCE_SCATTER;
    op.dtype = BB_HALF;
    assert_int_equal(bb_op_payload_bytes(&op, 4), 48);
    op.coll = BB_BROADCAST;
    assert_int_equal(bb_op_payload_bytes(&op, 4), 12);
    op.kind = BB_OP_COMPUTE;
    assert_int_equal(bb_op_payload_bytes(&op, 4), 0);
}

/* The filter also keeps the waits of a dropped operation on earlier operations of its stream: send -> c0, c1 ->
 * all-reduce. */
static void filter_keeps_waits_through_the_stream(void **state)
{
    struct bb_op op = made_op(BB_OP_COLLECTIVE, 1);
    struct bb_program comm;
    int other = bb_program_add_stream(&program, "c1", 1), send = add_dataflow_op(comm_stream, BB_NONE, a), c1;

    (void)state;
    add_dataflow_op(compute_stream, a, BB_NONE);
    c1 = add_dataflow_op(compute_stream, BB_NONE, b);
    assert_waits(c1, NULL, 0);
    op.stream = other;
    bb_program_add(&program, &op, &c1, 1);
    bb_program_filter(&program, true, &comm);
    assert_int_equal(comm.ops[1].waits, 1);
    assert_int_equal(comm.wait_list[comm.ops[1].first_wait], send);
    bb_program_release(&comm);
}

/* send -> compute -> send -> compute -> all-reduce on another stream: without the compute, the other operations keep
 * their order. */
static void filter_keeps_the_order(void **state)
{
    struct bb_program comm, compute;
    int other = bb_program_add_stream(&program, "c1", 1);
    int s0 = add_dataflow_op(comm_stream, BB_NONE, a), c0 = add_dataflow_op(compute_stream, a, b),
        s1 = add_dataflow_op(comm_stream, b, BB_NONE);
    int c1 = add_dataflow_op(compute_stream, BB_NONE, b);
    struct bb_op op = made_op(BB_OP_COLLECTIVE, 1);

    (void)state;
    op.stream = other;
    bb_program_add(&program, &op, &c1, 1);
    assert_waits(c0, &s0, 1);
    assert_waits(s1, &c0, 1);
    assert_waits(c1, &s1, 1);

    bb_program_filter(&program, true, &comm);
    assert_int_equal(comm.n_ops, 3);
    assert_int_equal(comm.ops[1].waits, 0); /* s0 precedes it on its stream */
    assert_int_equal(comm.ops[2].waits, 1);
    assert_int_equal(comm.wait_list[comm.ops[2].first_wait], 1);
    assert_int_equal(comm.n_buffers, program.n_buffers);
    assert_int_equal(comm.n_streams, program.n_streams);
    for (int i = 0; i < comm.n_streams; i++) {
        assert_string_equal(comm.streams[i].name, program.streams[i].name);
        assert_int_equal(comm.streams[i].comm, program.streams[i].comm);
    }

    bb_program_filter(&program, false, &compute);
    assert_int_equal(compute.n_ops, 2);
    assert_int_equal(compute.ops[0].waits + compute.ops[1].waits, 0);
    bb_program_release(&comm);
    bb_program_release(&compute);
}

/* A program that exceeds 2^24 operations is rejected as invalid input before memory runs out. */
static void rejects_operations_for_a_full_program(void **state)
{
    struct bb_op op = made_op(BB_OP_SEND, 0);
    size_t there = program.n_ops;

    (void)state;
    assert_int_equal(program.rc, 0);
    program.n_ops = (size_t)1 << 24; /* as if the maximum had been added */
    assert_int_equal(bb_program_add(&program, &op, NULL, 0), BB_NONE);
    assert_int_equal(program.rc, -BB_EUSAGE);
    assert_int_equal(bb_program_add_dataflow(&program, &op, NULL, 0), BB_NONE);
    program.n_ops = there;
    program.rc = 0;
    assert_true(bb_program_add(&program, &op, NULL, 0) >= 0);
}

/* A step launches both if its roles together do; a role that is not of the step does not count. */
static void step_launches_both_kinds_of_its_roles(void **state)
{
    struct bb_op compute = made_op(BB_OP_COMPUTE, BB_NONE), send = made_op(BB_OP_SEND, 0);
    struct bb_role roles[] = {{.program = {.ops = &compute, .n_ops = 1}}, {.program = {.ops = &send, .n_ops = 1}}};
    struct bb_step step = {.roles = roles, .n_roles = 2};

    (void)state;
    assert_false(bb_step_has_both(&step)); /* compute of 0 us without kernels launches nothing */
    compute.compute_us = 1;
    assert_true(bb_step_has_both(&step));
    step.n_roles = 1;
    assert_false(bb_step_has_both(&step));
    step.roles = &roles[1];
    assert_false(bb_step_has_both(&step));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(buffer_hazards_become_waits, start, end),
        cmocka_unit_test_setup_teardown(redundant_waits_are_dropped, start, end),
        cmocka_unit_test_setup_teardown(group_call_does_not_wait_for_itself, start, end),
        cmocka_unit_test_setup_teardown(counts_buffer_bytes_by_use, start, end),
        cmocka_unit_test_setup_teardown(resolves_peers_and_payloads, start, end),
        cmocka_unit_test_setup_teardown(filter_keeps_waits_through_the_stream, start, end),
        cmocka_unit_test_setup_teardown(filter_keeps_the_order, start, end),
        cmocka_unit_test_setup_teardown(rejects_operations_for_a_full_program, start, end),
        cmocka_unit_test(step_launches_both_kinds_of_its_roles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
