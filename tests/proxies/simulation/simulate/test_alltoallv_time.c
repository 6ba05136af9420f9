/*
 * test_alltoallv_time.c - an alltoallv is checked, counted and predicted exactly like the point-to-point messages that
 * it expands to: equal to the nanosecond, with and without contention. Faults in one rank's alltoallv are found.
 */
#include "tests/proxies/workloads/transformer/lines.h"

#include "proxies/offline/plan/traffic.h"
#include "proxies/simulation/simulate/predict.h"
#include "proxies/simulation/simulate/predicted_path.h"
#include "proxies/simulation/simulate/step_check.h"

static const char *const lines[] = {
    "transformer --model mixtral_8x7b --layers 4 --pp 2 --ep 8 --moe-imbalance 1 --seq-length 512 --micro-batches 4",
    "transformer --model mixtral_8x7b --layers 4 --ep 4 --tp 2 --sequence-parallel --pp 2 --moe-imbalance 1 "
    "--seq-length 64 "
    "--micro-batches 4 --order tp-dp-cp-ep-pp --recompute full",
    "transformer --model mixtral_8x7b --layers 8 --ep 8 --pp 4 --moe-imbalance 2 --seq-length 96 --micro-batches 8 "
    "--schedule zb-h1 --compute gemm",
    "transformer --model deepseek_v3 --layers 8 --ep 16 --pp 2 --moe-imbalance 0.5 --seq-length 32 --micro-batches 4 "
    "--schedule dualpipe --dp-sync zero1 --decoder-first-pipeline-num-layers 4 --fp8-dispatch",
    /* two messages, concurrent with shared experts */
    "transformer --model deepseek_v3 --layers 5 --ep 2 --moe-imbalance 1 --seq-length 4096 --compute gemm",
    /* most experts get nothing from most ranks */
    "transformer --model mixtral_8x7b --layers 2 --ep 8 --moe-imbalance 10 --seq-length 1 --micro-batches 2",
};

/* The step of a line for 32 ranks, as built and expanded to messages. */
static void make_as_alltoallv_and_messages(const char *line, struct bb_step *step, struct bb_step *messages)
{
    assert_int_equal(lines_make(step, 32, line), 0);
    assert_int_equal(lines_make(messages, 32, line), 0);
    assert_int_equal(bb_step_expand(messages), 0);
}

static size_t count_ops(const struct bb_step *step, bool alltoallv_only)
{
    size_t n = 0;

    for (int r = 0; r < step->n_roles; r++)
        for (size_t i = 0; i < step->roles[r].program.n_ops; i++)
            n += !alltoallv_only || step->roles[r].program.ops[i].kind == BB_OP_ALLTOALLV;
    return n;
}

static void assert_same_prediction(const struct bb_prediction *a, const struct bb_prediction *b)
{
    assert_int_equal(a->n_classes, b->n_classes);
    assert_int_equal(a->slowest, b->slowest);
    assert_int_equal(a->compute_alone_ns, b->compute_alone_ns);
    assert_int_equal(a->comm_alone_ns, b->comm_alone_ns);
    assert_memory_equal(&a->bottleneck, &b->bottleneck, sizeof(a->bottleneck));
    assert_true(a->link_busy == b->link_busy && a->nic_busy == b->nic_busy);
    for (int r = 0; r < 32; r++)
        assert_int_equal(a->class_of[r], b->class_of[r]);
    for (int c = 0; c < a->n_classes; c++) {
        const struct bb_predicted_rank *x = &a->classes[c], *y = &b->classes[c];

        assert_memory_equal(&x->all, &y->all, sizeof(x->all));
        assert_memory_equal(&x->exposed, &y->exposed, sizeof(x->exposed));
        assert_int_equal(x->issue_ns, y->issue_ns);
        for (int g = 0; g < BB_MAX_GROUPS; g++) {
            assert_int_equal(x->groups[g].busy_ns, y->groups[g].busy_ns);
            assert_int_equal(x->groups[g].exposed_ns, y->groups[g].exposed_ns);
            assert_true(x->groups[g].bytes == y->groups[g].bytes && x->groups[g].bus_bytes == y->groups[g].bus_bytes);
        }
    }
}

static void assert_same_path(const struct bb_step *step, const struct bb_prediction *a, const struct bb_step *messages,
                             const struct bb_prediction *b)
{
    struct bb_critical_path x, y;

    bb_predict_critical_path(step, a, &x);
    bb_predict_critical_path(messages, b, &y);
    assert_int_equal(x.rank, y.rank);
    assert_int_equal(x.n, y.n);
    assert_memory_equal(x.ns, y.ns, sizeof(x.ns));
    bb_critical_path_release(&x);
    bb_critical_path_release(&y);
}

static void times_equal_those_of_the_messages(void **state)
{
    static const struct {
        const char *name;
        bool has_sharing;
        const char *slow;
    } machines[] = {{"h100-sxm-ib", true, NULL},
                    {"h800-sxm-ib", true, NULL},
                    {"h100-sxm-ib", false, NULL},
                    {"h100-sxm-ib", true, "rank=5:1.3,link=node1-nic2:0.5"}};

    (void)state;
    for (size_t i = 0; i < ROWS(lines); i++)
        for (size_t k = 0; k < ROWS(machines); k++) {
            struct bb_prediction as_alltoallv, as_messages;
            struct bb_conditions conditions = {0};
            struct bb_step step, messages;
            struct bb_cluster cluster;

            if (FEW_INPUTS && i % ROWS(machines) != k)
                continue;
            assert_int_equal(bb_cluster_load(machines[k].name, &cluster), 0);
            cluster.has_sharing = machines[k].has_sharing;
            cluster.sharing.message_sms = 30; /* few SMs left, so that each message affects concurrent kernels */
            cluster.sharing.collective_sms = 60;
            if (machines[k].slow)
                assert_int_equal(bb_slow_parse(&conditions.slow, "--slow", machines[k].slow), 0);
            make_as_alltoallv_and_messages(lines[i], &step, &messages);
            assert_true(count_ops(&step, true) > 0 && count_ops(&messages, true) == 0);
            assert_int_equal(bb_predict_under(&step, &cluster, &conditions, &as_alltoallv), 0);
            assert_int_equal(bb_predict_under(&messages, &cluster, &conditions, &as_messages), 0);
            assert_same_prediction(&as_alltoallv, &as_messages);
            assert_same_path(&step, &as_alltoallv, &messages, &as_messages);
            bb_prediction_release(&as_alltoallv);
            bb_prediction_release(&as_messages);
            bb_step_release(&step);
            bb_step_release(&messages);
        }
}

/* ---- small steps ---- */

/* Two alltoallvs of two ranks each (ranks 0 and 1, ranks 2 and 3), between kernels of 10 us. */
static void make_pairs(struct bb_step *step, int rows)
{
    const struct bb_axis axes[] = {{"ep", 2}, {"dp", 2}};
    struct bb_op op = made_op(BB_OP_ALLTOALLV, 0), kernel = made_op(BB_OP_COMPUTE, BB_NONE);
    struct bb_alltoallv *table;
    int ep;

    *step = (struct bb_step){.proxy = "made"};
    assert_int_equal(bb_layout_init(&step->layout, 4, axes, 2), 0);
    ep = bb_layout_add_group(&step->layout, "ep", 1);
    assert_int_equal(bb_layout_add_comm(&step->layout, "ep", ep), 0);
    assert_int_equal(bb_step_add_roles(step, 2), 0);
    table = bb_step_add_alltoallv_table(step, 2);
    assert_non_null(table);
    for (int i = 0; i < 4; i++)
        table->rows[i] = rows;
    op.table = table;
    op.count = 1000;
    kernel.compute_us = 10;
    for (int r = 0; r < 4; r++)
        step->role_of[r] = r % 2;
    for (int index = 0; index < 2; index++) {
        assert_int_equal(bb_program_add_stream(&step->roles[index].program, "ep", 0), 1);
        step->roles[index].name = "member";
        op.peer = index;
        made_add(step, index, &kernel, made_add(step, index, &op, made_add(step, index, &kernel, BB_NONE)));
    }
}

static const struct bb_cluster plain = {.name = "plain",
                                        .gpus_per_node = 8,
                                        .launch_us = 1,
                                        .nccl_launch_us = 3,
                                        .intra = {.gbps = 1},
                                        .inter = {.gbps = 1},
                                        .sm_count = 100,
                                        .memory_gbps = 1000};

static double step_us(const struct bb_prediction *p, int rank)
{
    return (double)p->classes[p->class_of[rank]].all.step_ns / 1e3;
}

/* A slow rank delays only the ranks that exchange data with it. */
static void slow_rank_delays_only_its_own_alltoallv(void **state)
{
    struct bb_conditions conditions = {0};
    struct bb_prediction p;
    struct bb_step step;

    (void)state;
    make_pairs(&step, 5);
    assert_int_equal(bb_slow_parse(&conditions.slow, "--slow", "rank=0:3"), 0);
    assert_int_equal(bb_predict_under(&step, &plain, &conditions, &p), 0);
    assert_true(step_us(&p, 2) == step_us(&p, 3));
    assert_true(step_us(&p, 1) == step_us(&p, 3) + 20);
    assert_true(step_us(&p, 0) == step_us(&p, 1) + 20);
    bb_prediction_release(&p);
    bb_step_release(&step);
}

/* An alltoallv without data is not launched and waits for no peer. */
static void empty_alltoallv_takes_no_time(void **state)
{
    struct bb_prediction p;
    struct bb_checks checks;
    struct bb_step step;

    (void)state;
    make_pairs(&step, 0);
    assert_int_equal(bb_step_check(&step, &checks), 0);
    assert_true(checks.matched && checks.deadlock_free && checks.safe_serialised);
    bb_checks_release(&checks);
    for (int has_sharing = 0; has_sharing < 2; has_sharing++) {
        struct bb_cluster cluster = plain;

        cluster.has_sharing = has_sharing;
        assert_int_equal(bb_predict(&step, &cluster, &p), 0);
        assert_true(step_us(&p, 0) == 21);
        assert_int_equal(p.classes[0].issue_ns, 2000);
        bb_prediction_release(&p);
    }
    bb_step_release(&step);
}

/* ---- traffic ---- */

static void assert_same_row(const struct bb_traffic_row *a, const struct bb_traffic_row *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->group, b->group);
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->calls, b->calls);
    assert_int_equal(a->bytes, b->bytes);
    assert_int_equal(a->n_peers, b->n_peers);
    for (int p = 0; p < a->n_peers; p++) {
        assert_int_equal(a->peers[p].offset, b->peers[p].offset);
        assert_int_equal(a->peers[p].calls, b->peers[p].calls);
    }
}

static void traffic_equals_that_of_the_messages(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS(lines); i++) {
        struct bb_step step, messages;
        struct bb_traffic a, b;

        make_as_alltoallv_and_messages(lines[i], &step, &messages);
        bb_traffic_init(&a, &step, false);
        bb_traffic_init(&b, &messages, false);
        assert_int_equal(a.n, b.n);
        for (int r = 0; r < a.n; r++) {
            assert_int_equal(a.roles[r].n_ranks, b.roles[r].n_ranks);
            assert_int_equal(a.roles[r].n_rows, b.roles[r].n_rows);
            for (int row = 0; row < a.roles[r].n_rows; row++)
                assert_same_row(&a.roles[r].rows[row], &b.roles[r].rows[row]);
        }
        bb_traffic_release(&a);
        bb_traffic_release(&b);
        bb_step_release(&step);
        bb_step_release(&messages);
    }
}

/* ---- checks ---- */

static void check_finds(bool (*inject)(struct bb_op *op), const char *expected, bool deadlocks)
{
    struct bb_checks checks;
    struct bb_step step;
    bool done = false;

    assert_int_equal(lines_make(&step, 32, lines[0]), 0);
    for (size_t i = 0; i < step.roles[3].program.n_ops && !done; i++)
        done = step.roles[3].program.ops[i].kind == BB_OP_ALLTOALLV && inject(&step.roles[3].program.ops[i]);
    assert_true(done);
    assert_int_equal(bb_step_check(&step, &checks), 0);
    assert_false(checks.matched);
    assert_non_null(strstr(checks.mismatches.text[0], expected));
    if (deadlocks) {
        assert_false(checks.deadlock_free);
        assert_non_null(strstr(checks.deadlock.text[0], "waits for rank"));
    }
    bb_checks_release(&checks);
    bb_step_release(&step);
}

static bool reverse_direction(struct bb_op *op)
{
    op->reversed = !op->reversed;
    return true;
}

static bool halve_rows(struct bb_op *op)
{
    op->count /= 2;
    return true;
}

static bool change_index(struct bb_op *op)
{
    op->peer = 4;
    return true;
}

static bool drop_call(struct bb_op *op)
{
    op->kind = BB_OP_COMPUTE;
    op->comm = BB_NONE;
    op->stream = 0;
    return true;
}

static void finds_a_wrong_call_of_one_rank(void **state)
{
    (void)state;
    check_finds(reverse_direction, "alltoallv 0 on 'ep': rank 0 has alltoallv by table", false);
    check_finds(halve_rows, "rows of", false);
    check_finds(change_index, "has index 3 but uses the table row of index 4", false);
    check_finds(drop_call, "alltoallv", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_equal_those_of_the_messages), cmocka_unit_test(slow_rank_delays_only_its_own_alltoallv),
        cmocka_unit_test(empty_alltoallv_takes_no_time),     cmocka_unit_test(traffic_equals_that_of_the_messages),
        cmocka_unit_test(finds_a_wrong_call_of_one_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
