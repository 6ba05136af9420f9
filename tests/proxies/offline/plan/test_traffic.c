/* test_traffic.c - traffic of roles, merging of roles, and lists of ranks as text. */
#include "tests/proxies/made.h"

#include "proxies/offline/plan/plan.h"

/* Every rank sends to rank 0 by its absolute index. The programs are equal, but the distance to the peer differs, so
 * each rank is a separate role. */
static void absolute_peers_split_a_role(void **state)
{
    struct bb_traffic t;
    struct bb_step step;

    (void)state;
    made_init(&step, 4, 1);
    for (int i = 0; i < 3; i++)
        made_send(&step, 1, 0, 0, 10);
    for (int r = 1; r < 4; r++)
        step.role_of[r] = 1;
    bb_traffic_init(&t, &step, false);
    assert_int_equal(t.n, 4); /* rank 0 has no operations */
    for (int r = 1; r < 4; r++) {
        const struct bb_traffic_role *role = &t.roles[r];

        assert_int_equal(role->n_ranks, 1);
        assert_int_equal(role->ranks[0], r);
        assert_int_equal(role->n_rows, 1);
        assert_string_equal(bb_op_kind_name(role->rows[0].kind, role->rows[0].coll), "send");
        assert_int_equal(role->rows[0].calls, 3);
        assert_int_equal(role->rows[0].bytes, 120);
        assert_int_equal(role->rows[0].n_peers, 1);
        assert_int_equal(role->rows[0].peers[0].offset, -r);
        assert_int_equal(role->rows[0].peers[0].calls, 3);
    }
    bb_traffic_release(&t);
    bb_step_release(&step);
}

/* Ranks with different roles of the builder but equal traffic form one role. Compute time and memory split roles. */
static void equal_traffic_shares_a_role(void **state)
{
    struct bb_traffic t;
    struct bb_step step;

    (void)state;
    made_init(&step, 5, 1);
    for (int r = 0; r < 5; r++) {
        struct bb_op op = made_op(BB_OP_SEND, 0);

        op.peer_kind = BB_PEER_OFFSET;
        op.peer = 1;
        op.count = 7;
        made_add(&step, r, &op, BB_NONE);
        made_reduce(&step, r, 0, 3, BB_NONE);
        made_add(&step, r, &op, BB_NONE);
    }
    made_compute(&step, 2, 4.5, BB_NONE);
    bb_program_add_buffer(&step.roles[4].program, "x", BB_USE_OPTIMIZER, 5, BB_DOUBLE);
    bb_traffic_init(&t, &step, false);
    assert_int_equal(t.n, 3);
    assert_int_equal(t.roles[0].n_ranks, 3);
    assert_int_equal(t.roles[0].ranks[2], 3);
    assert_int_equal(t.roles[0].n_rows, 2);
    assert_int_equal(t.roles[0].rows[0].calls, 2);
    assert_int_equal(t.roles[0].rows[0].peers[0].offset, 1); /* the last rank of the ring has the same offset */
    assert_int_equal(t.roles[0].rows[1].bytes, 12);
    assert_int_equal(t.roles[0].rows[1].group_size, 5);
    assert_true(t.roles[1].compute_us == 4.5);
    assert_int_equal(t.roles[2].memory_bytes[BB_USE_OPTIMIZER], 40);
    bb_traffic_release(&t);
    bb_step_release(&step);
}

static void prints_rank_lists(void **state)
{
    static const struct {
        int ranks[12], n;
        const char *text;
    } rows[] = {
        {{0}, 1, "0"},
        {{0, 1, 2, 3}, 4, "0-3"},
        {{0, 4, 8}, 3, "0, 4, 8"},
        {{1, 2, 5, 6, 9}, 5, "1-2, 5-6, 9"},
        {{10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110}, 11, "10, 20, 30, 40, ..., 110"},
        {{10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 101, 102}, 12, "10, 20, 30, ..., 100-102"},
        {{0}, 0, ""},
    };
    char text[25];

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        assert_string_equal(bb_ranks_text(rows[i].ranks, rows[i].n, text, sizeof(text)), rows[i].text);
}

/* bb_plan_init fails for a step with unmatched messages, and the plan contains the faults. */
static void rejects_unmatched_steps(void **state)
{
    struct bb_plan plan;
    struct bb_step step;
    json_t *checks;

    (void)state;
    made_init(&step, 2, 1);
    made_send(&step, 0, 0, 1, 10);
    assert_int_equal(bb_plan_init(&plan, &step), -BB_EFAIL);
    checks = bb_plan_checks(&plan);
    assert_true(json_is_false(json_object_get(checks, "matched")));
    assert_true(json_is_false(json_object_get(checks, "deadlock_free")));
    assert_true(json_array_size(json_object_get(checks, "faults")) > 0);
    json_decref(checks);
    bb_plan_release(&plan);
    bb_step_release(&step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absolute_peers_split_a_role),
        cmocka_unit_test(equal_traffic_shares_a_role),
        cmocka_unit_test(prints_rank_lists),
        cmocka_unit_test(rejects_unmatched_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
