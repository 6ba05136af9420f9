/*
 * test_contention_fabric.c - steps on fabrics with oversubscribed uplinks. The expected times are computed by hand for
 * nodes whose NICs move 1 byte per ns, so 250 floats take 1 us. Also: a prediction with rank classes is as long as one
 * with each rank on its own.
 */
#include "tests/proxies/simulation/simulate/predicted.h"

#include <math.h>

enum { US = 250 };

/* One GPU and one NIC per node; `nodes` nodes per leaf. */
static struct bb_cluster with_leaves(int nodes, double oversubscription)
{
    struct bb_cluster c = {.name = "leaves",
                           .gpus_per_node = 1,
                           .nics_per_node = 1,
                           .sm_count = 100,
                           .memory_gbps = 1000,
                           .intra = {.gbps = 1000},
                           .inter = {.gbps = 1},
                           .variants = {{BB_NCCL_RING, "Simple", 0, 0, 0, 1000, 1, 0, 0, 0, 0, 0}},
                           .n_variants = 1,
                           .has_sharing = true,
                           .sharing = {20, 2, 0}};

    c.fabric.nodes[BB_LEAF] = nodes;
    c.fabric.oversubscription[BB_LEAF] = oversubscription;
    return c;
}

static void step_is(double us)
{
    double got = (double)p.step_ns / 1e3;

    if (fabs(got - us) > 2e-3)
        fail_msg("%.6g us, expected %.6g", got, us);
}

/* ---- messages ---- */

/* Each of the first `senders` ranks sends a message of 10 us to the rank `offset` ranks after it. */
static void make_senders(struct bb_step *step, int ranks, int senders, int offset)
{
    made_init(step, ranks, 1);
    for (int r = 0; r < senders; r++) {
        made_send(step, r, 0, r + offset, 10 * US);
        made_recv(step, r + offset, 0, r, 10 * US);
    }
}

/* All ranks have the same program: they send a message of 10 us to the rank `offset` ranks after them and receive
 * one from the rank `offset` ranks before them. */
static void make_shift(struct bb_step *step, int ranks, int offset)
{
    made_init(step, ranks, 1);
    made_share(step);
    for (int receives = 0; receives < 2; receives++) {
        struct bb_op op = made_op(receives ? BB_OP_RECV : BB_OP_SEND, 0);

        op.peer_kind = BB_PEER_OFFSET;
        op.peer = receives ? -offset : offset;
        op.count = 10 * US;
        op.call = 0;
        made_add(step, 0, &op, BB_NONE);
    }
}

static void senders_share_leaf_uplinks(void **state)
{
    const struct bb_cluster c = with_leaves(2, 2);
    struct bb_step step;

    (void)state;
    make_senders(&step, 4, 2, 2);
    predict(&step, &c);
    step_is(20);
    assert_int_equal(bb_bottleneck_of(&p.bottleneck, BB_PHASE_FORWARD), BB_LIMIT_LEAF);
    assert_true(fabs(p.uplink_busy[BB_LEAF] - 1) < 1e-6 && p.uplink_busy[BB_POD] == 0);
    make_senders(&step, 4, 1, 2);
    predict(&step, &c);
    step_is(10);
    assert_int_equal(bb_bottleneck_of(&p.bottleneck, BB_PHASE_FORWARD), BB_LIMIT_NIC);
    make_senders(&step, 4, 1, 1); /* within one leaf */
    predict(&step, &c);
    step_is(10);
    assert_true(p.uplink_busy[BB_LEAF] == 0);
    make_senders(&step, 8, 4, 4); /* two leaves send to two other leaves */
    predict(&step, &c);
    step_is(20);
    make_shift(&step, 64, 2);
    predict(&step, &c);
    step_is(20);
    assert_int_equal(p.n_classes, 1);
    make_shift(&step, 64, 1); /* one of the two nodes of each leaf sends out of its leaf */
    predict(&step, &c);
    step_is(10);
    assert_int_equal(p.n_classes, 2);
}

static void oversubscribed_pod_is_the_bottleneck(void **state)
{
    struct bb_cluster c = with_leaves(2, 1);
    struct bb_step step;

    (void)state;
    c.fabric.nodes[BB_POD] = 4;
    c.fabric.oversubscription[BB_POD] = 7;
    make_shift(&step, 16, 4);
    predict(&step, &c);
    step_is(70);
    assert_int_equal(bb_bottleneck_of(&p.bottleneck, BB_PHASE_FORWARD), BB_LIMIT_POD);
    make_shift(&step, 4, 2); /* between leaves of one pod */
    predict(&step, &c);
    step_is(10);
}

/* Two GPUs and two NICs per node, two nodes per leaf, leaves oversubscribed 2:1. */
static void each_rail_has_its_own_leaf_uplinks(void **state)
{
    struct bb_cluster c = with_leaves(2, 2);
    struct bb_step step;

    (void)state;
    c.gpus_per_node = c.nics_per_node = 2;
    c.intra.latency_us = 1;
    for (int rails = 0; rails < 2; rails++) {
        c.fabric.rails = rails;
        made_init(&step, 8, 1);
        for (int r = 0; r < 4; r += 2) { /* GPU 0 of both nodes of a leaf: all uplinks of one rail, or half of the
                                            uplinks of a leaf shared by all rails */
            made_send(&step, r, 0, r + 4, 10 * US);
            made_recv(&step, r + 4, 0, r, 10 * US);
        }
        predict(&step, &c);
        step_is(rails ? 20 : 10);
        make_shift(&step, 16, 4);
        predict(&step, &c);
        step_is(20);
        make_senders(&step, 4, 2, 2); /* the same rail of the same leaf */
        predict(&step, &c);
        step_is(10);
        make_senders(&step, 4, 1, 3); /* the other rail: one hop within the node */
        predict(&step, &c);
        step_is(rails ? 11 : 10);
    }
}

/* Ranks form pairs at distance `offset`; both ranks of a pair send a message of 10 us to each other. */
static void make_pairs(struct bb_step *step, int ranks, int offset)
{
    const struct bb_axis axes[] = {{"near", offset}, {"pair", 2}, {"far", ranks / 2 / offset}};

    *step = (struct bb_step){.proxy = "made"};
    assert_int_equal(bb_layout_init(&step->layout, ranks, axes, 3), 0);
    assert_int_equal(bb_step_add_roles(step, 1), 0);
    bb_layout_add_comm(&step->layout, "c0", bb_layout_add_group(&step->layout, "pairs", 2));
    step->roles[0].name = "rank";
    bb_program_add_stream(&step->roles[0].program, "c0", 0);
    for (int receives = 0; receives < 2; receives++) {
        struct bb_op op = made_op(receives ? BB_OP_RECV : BB_OP_SEND, 0);

        op.peer_kind = BB_PEER_OFFSET;
        op.peer = 1;
        op.count = 10 * US;
        op.call = 0;
        made_add(step, 0, &op, BB_NONE);
    }
}

/* All ranks have one program and one peer; only the link to the peer differs. A message within a node takes the
 * latency of 1 us and almost no transfer time. A message to another rail takes 1 us more than the inter-node
 * transfer. On uplinks a message gets its share of their bandwidth. */
static void ranks_with_different_links_get_different_classes(void **state)
{
    static const struct {
        int ranks, offset, gpus, nics;
        bool rails;
        int leaf, pod; /* in nodes */
        double leaf_over, pod_over;
        double us[10]; /* expected step of the first ranks; 0 ends the list */
        int classes;   /* expected number of classes; 0: not checked */
    } rows[] = {
        /* peers on the same node, or on another rail of the next node */
        {6, 1, 3, 3, true, 1, 0, 1, 0, {1.01, 1.01, 11, 11, 1.01, 1.01}, 2},
        /* two GPUs share a NIC: the peer is alternately on the same rail and on the other rail */
        {10, 5, 4, 2, true, 1, 0, 1, 0, {20, 21, 20, 21, 20, 20, 21, 20, 21, 20}, 0},
        /* ranks 2 and 3 are in different pods */
        {6, 1, 1, 1, false, 1, 3, 1, 7, {10, 10, 70 / 3.0, 70 / 3.0, 10, 10}, 0},
        /* peers on the same node, or in another leaf and pod, both oversubscribed */
        {6, 1, 3, 3, false, 1, 1, 2, 4, {1.01, 1.01, 40 / 3.0, 40 / 3.0, 1.01, 1.01}, 0},
        /* a leaf that is not oversubscribed: messages that leave it are as fast as messages within it */
        {12, 1, 1, 1, false, 3, 6, 1, 7, {10, 10, 10, 10}, 1},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_cluster c = with_leaves(rows[i].leaf, rows[i].leaf_over);
        struct bb_step step;

        c.gpus_per_node = rows[i].gpus;
        c.nics_per_node = rows[i].nics;
        c.intra.latency_us = 1;
        c.fabric.rails = rows[i].rails;
        c.fabric.nodes[BB_POD] = rows[i].pod;
        c.fabric.oversubscription[BB_POD] = rows[i].pod_over;
        make_pairs(&step, rows[i].ranks, rows[i].offset);
        predict(&step, &c);
        for (int r = 0; r < rows[i].ranks && r < 10 && rows[i].us[r] > 0; r++) {
            const double us = (double)p.classes[p.class_of[r]].all.step_ns / 1e3;

            if (fabs(us - rows[i].us[r]) > 2e-3)
                fail_msg("row %zu, rank %d: %.6g us, expected %.6g", i, r, us, rows[i].us[r]);
        }
        if (rows[i].classes > 0)
            assert_int_equal(p.n_classes, rows[i].classes);
    }
}

/* ---- collectives ---- */

/* All-reduces that take `us` us on two ranks. consecutive: each group is `stride` consecutive ranks; otherwise each
 * group is the ranks with distance `stride` from each other. */
static void make_groups(struct bb_step *step, int ranks, int stride, bool consecutive, double us)
{
    const struct bb_axis axes[] = {{"near", stride}, {"far", ranks / stride}};
    int group;

    *step = (struct bb_step){.proxy = "made"};
    assert_int_equal(bb_layout_init(&step->layout, ranks, axes, 2), 0);
    group = bb_layout_add_group(&step->layout, "group", consecutive ? 1 : 2);
    assert_int_equal(bb_step_add_roles(step, 1), 0);
    bb_layout_add_comm(&step->layout, "c0", group);
    step->roles[0].name = "rank";
    bb_program_add_stream(&step->roles[0].program, "c0", 0);
    made_reduce(step, 0, 0, (size_t)(us * US), BB_NONE);
}

static void rings_load_uplinks_with_bytes_that_leave_the_leaf(void **state)
{
    static const struct {
        int ranks, stride; /* groups of ranks / stride members; leaves of four nodes each contain members of four
                              groups or of one group */
        double oversubscription, us;
    } rows[] = {{8, 4, 1, 10},
                {8, 4, 4, 40},
                {8, 2, 4, 15 * 2},
                {8, 1, 4, 17.5},
                {8, 1, 8, 35},
                {4, 1, 8, 15},
                {64, 4, 2, 2 * 2 * 15 / 16.0 * 10}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_cluster c = with_leaves(4, rows[i].oversubscription);
        struct bb_step step;

        make_groups(&step, rows[i].ranks, rows[i].stride, false, 10);
        predict(&step, &c);
        step_is(rows[i].us);
        assert_int_equal(p.n_classes, 1);
    }
}

/* Two nodes. With three NICs for four GPUs, GPUs 0 and 1 share NIC 0; with seven for eight too. A ring transfers equal
 * bytes through each NIC of its members; the rings of several groups share the NICs. */
static void rings_add_the_rates_of_the_nics_of_their_members(void **state)
{
    static const struct {
        int gpus, nics, stride; /* groups of every stride-th rank */
        double us;
    } rows[] = {
        {4, 3, 1, 17.5 / 3},     {4, 3, 2, 2 * 15 / 2.0}, /* NICs 0 and 1, 0 and 2: NIC 0 has half of the bytes of both */
        {4, 3, 4, 2 * 10},                                /* ranks 0 and 1 each have a ring on NIC 0 */
        {4, 2, 1, 17.5 / 2},     {4, 2, 2, 2 * 15 / 2.0}, {8, 7, 1, 2 * 15 / 16.0 * 10 / 7},
        {8, 7, 2, 2 * 17.5 / 4}, {8, 7, 4, 2 * 15 / 2.0}, {8, 7, 8, 2 * 10}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_cluster c = with_leaves(1, 1);
        struct bb_step step;

        c.gpus_per_node = rows[i].gpus;
        c.nics_per_node = rows[i].nics;
        make_groups(&step, 2 * rows[i].gpus, rows[i].stride, false, 10);
        predict(&step, &c);
        step_is(rows[i].us);
    }
}

/* Groups of ranks 0 to 2 and 3 to 5 on leaves of two nodes: both groups cross the uplinks of the middle leaf; each
 * other leaf is crossed by one group. A rank that is the only member of its group on a leaf is not in the class of
 * ranks that share a leaf with another member. */
static void differently_placed_groups_get_different_classes(void **state)
{
    const struct bb_cluster c = with_leaves(2, 2);
    struct bb_step step;

    (void)state;
    make_groups(&step, 6, 3, true, 10);
    predict(&step, &c);
    step_is(2 * 4 / 3.0 * 10);
    assert_int_equal(p.n_classes, 2);
}

/* The closed formula and the contention simulator use one cost model: a step with a single collective is as long as
 * the formula's time. */
static void single_collective_step_matches_the_closed_formula(void **state)
{
    static const enum bb_coll_kind kinds[] = {BB_ALL_REDUCE, BB_ALLTOALL, BB_ALL_GATHER};

    (void)state;
    for (size_t i = 0; i < ROWS(kinds); i++)
        for (int shape = 0; shape < 4; shape++) {
            const int gpus = shape < 2 ? 2 : 4;
            struct bb_cluster c = with_leaves(2, 16);
            struct bb_collective call = {.kind = kinds[i], .dtype = BB_FLOAT, .count = 1000 * US, .ranks = 12 * gpus};
            struct bb_step step;
            struct bb_op op;

            c.gpus_per_node = gpus;
            c.nics_per_node = gpus == 2 ? 2 : 3;
            c.fabric.rails = shape % 2;
            c.fabric.nodes[BB_POD] = 4;
            c.fabric.oversubscription[BB_POD] = 3;
            call.nodes = call.ranks / c.gpus_per_node;
            made_init(&step, call.ranks, 1);
            made_share(&step);
            op = made_op(BB_OP_COLLECTIVE, 0);
            op.coll = kinds[i];
            op.count = call.count;
            made_add(&step, 0, &op, BB_NONE);
            predict(&step, &c);
            step_is((double)bb_cluster_collective_ns(&c, &call, NULL) / 1e3);
            assert_int_equal(bb_bottleneck_of(&p.bottleneck, BB_PHASE_FORWARD), BB_LIMIT_LEAF);
            assert_true(p.uplink_busy[BB_LEAF] > 0.999 && p.uplink_busy[BB_POD] > 0);
        }
}

/* ---- with and without rank classes ---- */

static double step_us_without_classes(const struct bb_step *step, const struct bb_cluster *c)
{
    const struct bb_conditions each = {.jitter = 1e-15, .seed = 1}; /* jitter gives each rank its own class; 1e-15
                                                                       changes no time */
    struct bb_jittered one;
    double us;

    assert_int_equal(bb_predict_jitter(step, c, &each, 1, NULL, &one), 0);
    us = (double)bb_jittered_at(&one, 50) / 1e3;
    bb_jittered_release(&one);
    return us;
}

static void rank_classes_do_not_change_the_step_time(void **state)
{
    static const struct {
        const char *line;
        int tp, pp, nodes; /* nodes: nodes per leaf; some values place the groups differently on each leaf */
        bool rails;
        int ep; /* 0: no experts; otherwise with an alltoallv */
    } rows[] = {{"transformer", 2, 1, 3, true, 8},   {"transformer", 8, 2, 2, false, 0},
                {"transformer", 8, 2, 3, false, 0},  {"transformer", 2, 2, 3, true, 0},
                {"transformer", 4, 4, 2, true, 0},   {"gpt3_moe 2", 1, 1, 3, true, 0},
                {"resnet50_ring", 1, 1, 2, false, 0}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        for (int pods = 0; pods < 2; pods++) {
            struct bb_proxy_config config = {.ranks = 64, .compute = "gemm", .model = "llama3_8b"};
            struct bb_cluster c;
            struct bb_step step;
            double unclassed_us;

            if (FEW_INPUTS && pods != (int)i % 2)
                continue;
            assert_int_equal(bb_cluster_load("h100-sxm-ib", &c), 0);
            c.fabric = (struct bb_fabric){.rails = rows[i].rails, .nodes = {rows[i].nodes}, .oversubscription = {2.5}};
            if (pods) {
                c.fabric.nodes[BB_POD] = 2 * rows[i].nodes;
                c.fabric.oversubscription[BB_POD] = 7;
            }
            if (strcmp(rows[i].line, "transformer") != 0)
                config.model = NULL;
            else
                config.transformer =
                    (struct bb_transformer_options){.tp = rows[i].tp, .pp = rows[i].pp, .ep = rows[i].ep};
            if (rows[i].ep > 0) {
                config.model = "mixtral_8x7b";
                config.transformer.sequence_parallel = true;
                config.transformer.imbalance = 1;
            }
            assert_int_equal(made_line_with(&step, rows[i].line, config), 0);
            unclassed_us = step_us_without_classes(&step, &c);
            predict(&step, &c);
            if (fabs((double)p.step_ns / 1e3 / unclassed_us - 1) > 1e-6)
                fail_msg("row %zu: %.6f us folded to %d classes, %.6f not", i, (double)p.step_ns / 1e3, p.n_classes,
                         unclassed_us);
            assert_true(p.n_classes < 64 || rows[i].ep > 0); /* with imbalanced experts no two ranks have equal
                                                                programs */
            assert_true(p.uplink_busy[BB_LEAF] > 0 && (p.uplink_busy[BB_POD] > 0) == (pods > 0));
        }
}

/* A fabric without oversubscription changes neither the number of classes nor the times. */
static void fabric_without_oversubscription_changes_nothing(void **state)
{
    struct bb_cluster c;

    (void)state;
    assert_int_equal(bb_cluster_load("h100-sxm-ib", &c), 0);
    for (int with_fabric = 0; with_fabric < 2; with_fabric++) {
        static int64_t step_ns;
        static int classes;
        struct bb_step step;

        if (with_fabric)
            c.fabric = (struct bb_fabric){.nodes = {3, 6}, .oversubscription = {1, 1}};
        assert_int_equal(MADE_LINE(&step, "resnet50_ring", .ranks = 64), 0);
        predict(&step, &c);
        if (with_fabric) {
            assert_int_equal(p.step_ns, step_ns);
            assert_int_equal(p.n_classes, classes);
        }
        step_ns = p.step_ns;
        classes = p.n_classes;
    }
}

/* Leaves of two nodes, not oversubscribed. The uplinks of leaf 1 are slowed to a tenth of 2 bytes per ns: two
 * senders to leaf 1 get 0.1 bytes per ns each, and senders to other leaves keep their full rate. A ring over four
 * leaves crosses leaf 1 once, with 70 us at the full rate. */
static void slow_leaf_delays_only_traffic_that_crosses_it(void **state)
{
    struct bb_conditions slow = {0};
    const struct bb_cluster c = with_leaves(2, 1);
    struct bb_op gather = made_op(BB_OP_COLLECTIVE, 0);
    struct bb_step step;

    (void)state;
    gather.coll = BB_ALL_GATHER;
    gather.count = 10 * US;
    assert_int_equal(bb_slow_parse(&slow.slow, "--slow", "link=leaf1:0.1"), 0);
    for (int with = 0; with < 2; with++) {
        make_senders(&step, 8, 2, 2);
        predict_under_conditions(&step, &c, with ? &slow : NULL);
        step_is(with ? 100 : 10);
        make_senders(&step, 8, 2, 4); /* from leaf 0 to leaf 2 */
        predict_under_conditions(&step, &c, with ? &slow : NULL);
        step_is(10);
        made_init(&step, 8, 1);
        made_share(&step);
        made_add(&step, 0, &gather, BB_NONE);
        predict_under_conditions(&step, &c, with ? &slow : NULL);
        step_is(with ? 350 : 70);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(senders_share_leaf_uplinks),
        cmocka_unit_test(oversubscribed_pod_is_the_bottleneck),
        cmocka_unit_test(slow_leaf_delays_only_traffic_that_crosses_it),
        cmocka_unit_test(each_rail_has_its_own_leaf_uplinks),
        cmocka_unit_test(ranks_with_different_links_get_different_classes),
        cmocka_unit_test(rings_load_uplinks_with_bytes_that_leave_the_leaf),
        cmocka_unit_test(rings_add_the_rates_of_the_nics_of_their_members),
        cmocka_unit_test(differently_placed_groups_get_different_classes),
        cmocka_unit_test(single_collective_step_matches_the_closed_formula),
        cmocka_unit_test(rank_classes_do_not_change_the_step_time),
        cmocka_unit_test(fabric_without_oversubscription_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, release_prediction);
}
