/* test_alltoallv.c - an alltoallv of three ranks against sizes computed by hand, and the messages that replace it. */
#include "tests/proxies/made.h"

/* Rows from each rank to each rank. Rank 2 sends only to rank 0 and receives from both others. */
static const int rows[3][3] = {{5, 2, 1}, {0, 7, 4}, {3, 0, 9}};

static struct bb_step step;

/* An alltoallv of three ranks, with one kernel before and one after it on each rank. */
static void make_alltoallv(bool reversed, size_t width)
{
    struct bb_alltoallv *table;

    made_init(&step, 3, 1);
    table = bb_step_add_alltoallv_table(&step, 3);
    assert_non_null(table);
    memcpy(table->rows, rows, sizeof(rows));
    for (int r = 0; r < 3; r++) {
        struct bb_op op = made_op(BB_OP_ALLTOALLV, 0);

        op.table = table;
        op.peer = r;
        op.reversed = reversed;
        op.count = width;
        op.src = bb_program_add_buffer(&step.roles[r].program, "rows", BB_USE_COMMUNICATION, 20 * width, BB_FLOAT);
        op.dst = bb_program_add_buffer(&step.roles[r].program, "received", BB_USE_COMMUNICATION, 20 * width, BB_FLOAT);
        made_compute(&step, r, 3, made_add(&step, r, &op, made_compute(&step, r, 7, BB_NONE)));
    }
}

static int end(void **state)
{
    (void)state;
    bb_step_release(&step);
    return 0;
}

static void counts_rows_of_an_alltoallv(void **state)
{
    const struct bb_op *op;

    (void)state;
    make_alltoallv(false, 10);
    op = &step.roles[0].program.ops[1];
    assert_int_equal(bb_alltoallv_sends(op, 0), 0);
    assert_int_equal(bb_alltoallv_sends(op, 1), 20);
    assert_int_equal(bb_alltoallv_receives(op, 1), 0);
    assert_int_equal(bb_alltoallv_receives(op, 2), 30);
    assert_int_equal(bb_alltoallv_sent(op), 30);
    assert_int_equal(bb_alltoallv_received(op), 30);
    assert_int_equal(bb_op_payload_bytes(op, 3), 30 * 4);
    assert_int_equal(bb_alltoallv_peers(op), 2);
    op = &step.roles[1].program.ops[1];
    assert_int_equal(bb_alltoallv_sent(op), 40);
    assert_int_equal(bb_alltoallv_received(op), 20);
    assert_int_equal(bb_op_payload_bytes(op, 3), 40 * 4);
}

struct message {
    enum bb_op_kind kind;
    int peer;
    size_t count, offset;
};

static void assert_messages(int rank, const struct message *expected, int n)
{
    const struct bb_program *p = &step.roles[rank].program;

    assert_int_equal(p->n_ops, n + 2);
    for (int i = 0; i < n; i++) {
        const struct bb_op *op = &p->ops[1 + i];
        const bool sends = expected[i].kind == BB_OP_SEND;

        assert_int_equal(op->kind, expected[i].kind);
        assert_int_equal(op->peer_kind, BB_PEER_ABSOLUTE);
        assert_int_equal(op->peer, expected[i].peer);
        assert_int_equal(op->count, expected[i].count);
        assert_int_equal(sends ? op->src_offset : op->dst_offset, expected[i].offset);
        assert_int_equal(sends ? op->src : op->dst, sends ? 0 : 1);
        assert_int_equal(sends ? op->dst : op->src, BB_NONE);
        assert_int_equal(op->call, 1);
    }
    assert_int_equal(p->ops[1].waits, 1);
    assert_int_equal(p->wait_list[p->ops[1].first_wait], 0);
    assert_int_equal(p->ops[n + 1].waits, 1);
    assert_int_equal(p->wait_list[p->ops[n + 1].first_wait], n);
}

/* Messages are ordered by peer, the send before the receive. The rows that a rank keeps are between them in the
 * buffer and are not sent. */
static void expands_to_messages(void **state)
{
    static const struct message of_0[] = {{BB_OP_SEND, 1, 2, 5}, {BB_OP_SEND, 2, 1, 7}, {BB_OP_RECV, 2, 3, 5}};
    static const struct message of_2[] = {{BB_OP_SEND, 0, 3, 0}, {BB_OP_RECV, 0, 1, 0}, {BB_OP_RECV, 1, 4, 1}};
    static const struct message back_0[] = {{BB_OP_RECV, 1, 2, 5}, {BB_OP_SEND, 2, 3, 5}, {BB_OP_RECV, 2, 1, 7}};

    (void)state;
    make_alltoallv(false, 1);
    assert_int_equal(bb_step_expand(&step), 0);
    assert_messages(0, of_0, 3);
    assert_messages(2, of_2, 3);
    bb_step_release(&step);
    make_alltoallv(true, 1);
    assert_int_equal(bb_step_expand(&step), 0);
    assert_messages(0, back_0, 3);
}

/* An operation that waits for an empty alltoallv waits for the operations before the alltoallv. */
static void empty_alltoallv_expands_to_nothing(void **state)
{
    const struct bb_program *p;

    (void)state;
    make_alltoallv(false, 1);
    p = &step.roles[1].program;
    memset(step.tables[0]->rows, 0, sizeof(rows));
    assert_int_equal(bb_step_expand(&step), 0);
    assert_int_equal(p->n_ops, 2);
    assert_int_equal(p->ops[1].waits, 0); /* same stream, so ordered without a wait */
    assert_true(p->ops[1].compute_us == 3);
}

/* Operations of a group call stay in one call; its new number is the index of its first operation. */
static void group_calls_are_renumbered(void **state)
{
    struct bb_op op = made_op(BB_OP_SEND, 0);
    const struct bb_program *p;

    (void)state;
    make_alltoallv(false, 1);
    p = &step.roles[0].program;
    op.call = 3;
    op.peer = 1;
    op.count = 8;
    made_add(&step, 0, &op, BB_NONE);
    op.kind = BB_OP_RECV;
    made_add(&step, 0, &op, BB_NONE);
    assert_int_equal(bb_step_expand(&step), 0);
    assert_int_equal(p->n_ops, 7);
    assert_int_equal(p->ops[5].call, 5);
    assert_int_equal(p->ops[6].call, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(counts_rows_of_an_alltoallv, end),
        cmocka_unit_test_teardown(expands_to_messages, end),
        cmocka_unit_test_teardown(empty_alltoallv_expands_to_nothing, end),
        cmocka_unit_test_teardown(group_calls_are_renumbered, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
