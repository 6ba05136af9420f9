/*
 * test_critical_path.c - critical paths of steps: paths computed by hand, and predicted steps, whose time does not
 * change when operations off the path become shorter.
 */
#include "proxies/simulation/simulate/predicted_path.h"
#include "proxies/simulation/timeline/waiting.h"
#include "tests/proxies/made.h"

#include <stdlib.h>

static void set_time(struct bb_timeline *t, int rank, int op, int64_t begin_ns, int64_t wait_ns, int64_t end_ns)
{
    t->ops[rank][op] = (struct bb_timed_op){begin_ns, end_ns, wait_ns};
}

static void assert_parts(const struct bb_critical_path *path, int64_t compute, int64_t transfer, int64_t waiting,
                         int64_t host)
{
    assert_int_equal(path->ns[BB_CRITICAL_COMPUTE], compute);
    assert_int_equal(path->ns[BB_CRITICAL_TRANSFER], transfer);
    assert_int_equal(path->ns[BB_CRITICAL_WAITING], waiting);
    assert_int_equal(path->ns[BB_CRITICAL_HOST], host);
}

static void assert_path(const struct bb_critical_path *path, const struct bb_critical_op *expected, size_t n)
{
    assert_int_equal(path->n, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(path->ops[i].rank, expected[i].rank);
        assert_int_equal(path->ops[i].op, expected[i].op);
        assert_true(bb_critical_path_has(path, expected[i].rank, expected[i].op));
    }
}

/* Compute, then an all_reduce, then compute; rank 1 arrives late at the all_reduce. */
static void make_late_rank(struct bb_step *step, struct bb_timeline *t)
{
    made_init(step, 2, 1);
    for (int r = 0; r < 2; r++)
        made_compute(step, r, 1, made_reduce(step, r, 0, 1, made_compute(step, r, 1, BB_NONE)));
    bb_timeline_init(t, step, NULL, 0);
    set_time(t, 0, 0, 0, 0, 10);
    set_time(t, 0, 1, 10, 25, 55);
    set_time(t, 0, 2, 55, 0, 60);
    set_time(t, 1, 0, 5, 0, 35);
    set_time(t, 1, 1, 35, 0, 55);
    set_time(t, 1, 2, 55, 0, 58);
    t->step_ns[0] = 62;
    t->step_ns[1] = 58;
}

static void path_follows_the_late_rank(void **state)
{
    static const struct bb_critical_op expected[] = {{0, 2}, {0, 1}, {1, 1}, {1, 0}};
    struct bb_critical_path path;
    struct bb_timeline t;
    struct bb_step step;

    (void)state;
    make_late_rank(&step, &t);
    bb_critical_path_init(&path, &t, NULL);
    assert_path(&path, expected, ROWS(expected));
    assert_parts(&path, 5 + 30, 20, 0, 2 + 5);
    assert_int_equal(path.rank, 0);
    assert_false(bb_critical_path_has(&path, 0, 0));
    assert_false(bb_critical_path_has(&path, 1, 2));
    assert_false(bb_critical_path_has(NULL, 0, 2));
    bb_critical_path_release(&path);
    bb_timeline_release(&t);
    bb_step_release(&step);
}

static double waiting_us(const void *arg, int rank, int group)
{
    (void)group;
    return ((const double *)arg)[rank];
}

/* Rank 0 waits 25 ns in the all_reduce. The median of 25 and 0 is 12.5. */
static void wait_table_has_median_and_longest_wait(void **state)
{
    static const int ranks[] = {0, 1};
    static const double us[] = {0.025, 0};
    struct bb_wait_table w = {0};
    struct bb_program empty = {0};
    struct bb_timeline t;
    struct bb_step step;

    (void)state;
    make_late_rank(&step, &t);
    bb_wait_table_add(&w, &(struct bb_wait_role){&step.layout, &step.roles[0].program, "role", ranks, 2}, waiting_us,
                      us);
    bb_wait_table_add(&w, &(struct bb_wait_role){&step.layout, &empty, "without traffic", ranks, 2}, waiting_us, us);
    assert_int_equal(w.n, 1);
    assert_int_equal(w.rows[0].most_rank, 0);
    assert_true(w.rows[0].median_us == 0.0125 && w.rows[0].most_us == 0.025);
    bb_wait_table_release(&w);
    bb_timeline_release(&t);
    bb_step_release(&step);
}

static void omitted_late_rank_counts_as_waiting(void **state)
{
    static const struct bb_critical_op expected[] = {{0, 2}, {0, 1}, {0, 0}};
    struct bb_critical_path path;
    struct bb_timeline t, one;
    struct bb_step step;

    (void)state;
    make_late_rank(&step, &t);
    bb_timeline_init_ranks(&one, &step, (const bool[]){true, false});
    memcpy(one.ops[0], t.ops[0], 3 * sizeof(*one.ops[0]));
    one.step_ns[0] = t.step_ns[0];
    bb_critical_path_init(&path, &one, NULL);
    assert_path(&path, expected, ROWS(expected));
    assert_parts(&path, 5 + 10, 20, 25, 2);
    assert_false(bb_critical_path_has(&path, 1, 0));
    bb_critical_path_release(&path);
    bb_timeline_release(&one);
    bb_timeline_release(&t);
    bb_step_release(&step);
}

/* Rank 0 sends twice to rank 1. The second send is late, so the path enters rank 0 from the second receive. */
static void path_matches_messages_in_order(void **state)
{
    static const struct bb_critical_op expected[] = {{1, 1}, {0, 2}, {0, 1}};
    struct bb_op late = made_op(BB_OP_SEND, 0);
    struct bb_critical_path path;
    struct bb_timeline t;
    struct bb_step step;

    (void)state;
    made_init(&step, 2, 1);
    made_send(&step, 0, 0, 1, 1);
    late.peer = 1;
    late.count = 1;
    made_add(&step, 0, &late, made_compute(&step, 0, 1, BB_NONE));
    made_recv(&step, 1, 0, 0, 1);
    made_recv(&step, 1, 0, 0, 1);
    bb_timeline_init(&t, &step, NULL, 0);
    set_time(&t, 0, 0, 0, 0, 8);
    set_time(&t, 0, 1, 0, 0, 40);
    set_time(&t, 0, 2, 40, 0, 50);
    set_time(&t, 1, 0, 0, 0, 8);
    set_time(&t, 1, 1, 8, 32, 50);
    t.step_ns[0] = 50;
    t.step_ns[1] = 51;
    bb_critical_path_init(&path, &t, NULL);
    assert_path(&path, expected, ROWS(expected));
    assert_parts(&path, 40, 10, 0, 1);
    bb_critical_path_release(&path);
    bb_timeline_release(&t);
    bb_step_release(&step);
}

/* One communicator on two streams: its second operation follows its first without a stream or wait that orders them. */
static void path_follows_communicator_order(void **state)
{
    static const struct bb_critical_op expected[] = {{0, 1}, {0, 0}};
    struct bb_op reduce = made_op(BB_OP_COLLECTIVE, 0);
    struct bb_critical_path path;
    struct bb_timeline t;
    struct bb_step step;

    (void)state;
    made_init(&step, 1, 2);
    made_add(&step, 0, &reduce, BB_NONE);
    reduce.stream = 2;
    made_add(&step, 0, &reduce, BB_NONE);
    bb_timeline_init(&t, &step, NULL, 0);
    set_time(&t, 0, 0, 3, 0, 10);
    set_time(&t, 0, 1, 10, 0, 30);
    t.step_ns[0] = 30;
    bb_critical_path_init(&path, &t, NULL);
    assert_path(&path, expected, ROWS(expected));
    assert_parts(&path, 0, 27, 0, 3);
    bb_critical_path_release(&path);
    bb_timeline_release(&t);
    bb_step_release(&step);
}

/* ---- predicted steps ---- */

static void load_machine(struct bb_cluster *cluster)
{
    assert_int_equal(bb_cluster_load("h100-sxm-ib", cluster), 0);
    cluster->has_sharing = false; /* with contention, shortening one operation may speed up the operations on the
                                     path */
}

static int64_t step_ns_of(const struct bb_step *step, const struct bb_cluster *cluster)
{
    struct bb_prediction p;
    int64_t step_ns;

    assert_int_equal(bb_predict_step(step, cluster, NULL, &p), 0);
    step_ns = p.step_ns;
    bb_prediction_release(&p);
    return step_ns;
}

/* Whether any rank of the role has operation op on the path. */
static bool role_is_on_path(const struct bb_step *step, const struct bb_critical_path *path, int role, int op)
{
    for (int r = 0; r < step->layout.ranks; r++)
        if (step->role_of[r] == role && bb_critical_path_has(path, r, op))
            return true;
    return false;
}

static void halve_operations_off_the_path(const struct bb_step *step, const struct bb_cluster *cluster, int64_t step_ns,
                                          const struct bb_critical_path *path, int *tried)
{
    for (int role = 0; role < step->n_roles; role++) {
        const struct bb_program *p = &step->roles[role].program;

        for (int i = 0; i < (int)p->n_ops; i++) {
            const double us = p->ops[i].compute_us;

            if (p->ops[i].kind != BB_OP_COMPUTE || us == 0 || role_is_on_path(step, path, role, i))
                continue;
            p->ops[i].compute_us = us / 2;
            assert_int_equal(step_ns_of(step, cluster), step_ns);
            p->ops[i].compute_us = us;
            (*tried)++;
        }
    }
}

static void operations_off_the_path_do_not_change_the_step(void **state)
{
    static const struct {
        const char *line;
        int ranks;
    } steps[] = {{"gpt2_large 4 4 2", 8}, {"cosmoflow", 8}, {"bert_large 4 4 4", 8}, {"dlrm", 4}, {"gpt3 4 2", 16}};
    struct bb_cluster cluster;
    int tried = 0;

    (void)state;
    load_machine(&cluster);
    for (size_t i = 0; i < ROWS(steps); i++) {
        struct bb_critical_path path;
        struct bb_prediction p;
        struct bb_step step;
        int64_t sum = 0;

        assert_int_equal(MADE_LINE(&step, steps[i].line, .ranks = steps[i].ranks, .compute = "timed"), 0);
        assert_int_equal(bb_predict(&step, &cluster, &p), 0);
        bb_predict_critical_path(&step, &p, &path);
        for (int k = 0; k < BB_CRITICAL_PARTS; k++)
            sum += path.ns[k];
        assert_int_equal(sum, p.step_ns);
        assert_int_equal(path.ns[BB_CRITICAL_WAITING], 0);
        halve_operations_off_the_path(&step, &cluster, sum, &path, &tried);
        bb_critical_path_release(&path);
        bb_prediction_release(&p);
        bb_step_release(&step);
    }
    assert_true(tried > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_follows_the_late_rank),
        cmocka_unit_test(wait_table_has_median_and_longest_wait),
        cmocka_unit_test(omitted_late_rank_counts_as_waiting),
        cmocka_unit_test(path_matches_messages_in_order),
        cmocka_unit_test(path_follows_communicator_order),
        cmocka_unit_test(operations_off_the_path_do_not_change_the_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
