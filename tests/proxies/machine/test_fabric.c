/*
 * test_fabric.c - leaf switches and pods: who hangs on what, what messages and collectives ask of uplinks, and how long
 * that takes alone. Expected numbers are closed forms, for NICs that move a byte in a nanosecond.
 */
#include "tests/check.h"

#include "proxies/machine/fabric.h"

#include <math.h>
#include <stdlib.h>

static const struct bb_cluster flat = {.gpus_per_node = 1,
                                       .nics_per_node = 1,
                                       .sm_count = 100,
                                       .intra = {.gbps = 1000},
                                       .inter = {.gbps = 1},
                                       .variants = {{BB_NCCL_RING, "Simple", 0, 0, 0, 1000, 1, 0, 0}},
                                       .n_variants = 1,
                                       .has_sharing = true,
                                       .sharing = {1, 1, 0}};

static struct bb_cluster with_leaves(int nodes, double oversubscription)
{
    struct bb_cluster c = flat;

    c.fabric.nodes[BB_LEAF] = nodes;
    c.fabric.oversubscription[BB_LEAF] = oversubscription;
    return c;
}

static double collective_ns(const struct bb_cluster *c, enum bb_coll_kind kind, double payload, int n)
{
    const bool sliced = bb_colls[kind].flags & BB_COLL_SLICED;
    const struct bb_collective call = {.kind = kind,
                                       .dtype = BB_INT8,
                                       .count = (size_t)(sliced ? payload / n : payload),
                                       .ranks = n,
                                       .nodes = n / c->gpus_per_node};

    return (double)bb_cluster_collective_ns(c, &call, NULL);
}

static void near(double got, double expected)
{
    if (fabs(got - expected) > 1e-6 * fabs(expected) + 0.5)
        fail_msg("%.9g, expected %.9g", got, expected);
}

/* ---- places ---- */

/* Nodes of four GPUs with two NICs: without rails all on one leaf, with rails GPUs 0 and 1 on one and 2 and 3 on
 * another. */
static void nics_hang_on_leaves_by_their_rail(void **state)
{
    struct bb_cluster c = with_leaves(2, 4);

    (void)state;
    c.gpus_per_node = 4;
    c.nics_per_node = 2;
    for (int rank = 0; rank < 24; rank++) {
        c.fabric.rails = false;
        assert_int_equal(bb_fabric_switch(&c, BB_LEAF, rank), rank / 8);
        c.fabric.rails = true;
        assert_int_equal(bb_fabric_switch(&c, BB_LEAF, rank), rank / 8 * 2 + rank % 4 / 2);
    }
    near(1e6 * bb_fabric_uplink_gbps(&c, BB_LEAF), 1e6 * 2 * 1 / 4.0); /* two nodes' NICs of one number */
    c.fabric.rails = false;
    near(1e6 * bb_fabric_uplink_gbps(&c, BB_LEAF), 1e6 * 2 * 2 / 4.0);
    c.nics_per_node = 8; /* two for each GPU, which are a rail together */
    c.fabric.rails = true;
    assert_int_equal(bb_fabric_switch(&c, BB_LEAF, 11), 1 * 4 + 3);
    near(1e6 * bb_fabric_uplink_gbps(&c, BB_LEAF), 1e6 * 2 * 2 / 4.0);
}

static void messages_cross_what_lies_between(void **state)
{
    struct bb_cluster c = with_leaves(2, 2);
    struct bb_link_load load = {0};

    (void)state;
    c.gpus_per_node = c.nics_per_node = 2;
    c.fabric.rails = true;
    c.fabric.nodes[BB_POD] = 4;
    c.fabric.oversubscription[BB_POD] = 7;
    c.intra.latency_us = 3;
    c.inter.latency_us = 6;
    bb_fabric_add_message(&c, &load, 0, 1, 1, true);    /* the node's other GPU          */
    bb_fabric_add_message(&c, &load, 0, 2, 10, true);   /* the leaf's other node         */
    bb_fabric_add_message(&c, &load, 0, 3, 100, true);  /* there on the other rail       */
    bb_fabric_add_message(&c, &load, 0, 4, 1e3, true);  /* another leaf of the pod       */
    bb_fabric_add_message(&c, &load, 0, 9, 1e4, true);  /* another pod, the other rail   */
    bb_fabric_add_message(&c, &load, 0, 8, 1e5, false); /* from there                    */
    near(load.out[0], 11110);
    near(load.out[1], 1 + 100 + 1e4);
    near(load.up[BB_LEAF], 1e3 + 1e4);
    near(load.up[BB_POD], 1e4);
    near(load.in[0] + load.down[BB_LEAF] + load.down[BB_POD], 3e5);
    assert_true(load.in[1] == 0);
    near((double)bb_fabric_message_ns(&c, 0, 2, 10), 6010);
    near((double)bb_fabric_message_ns(&c, 0, 3, 10), 9010);
    near((double)bb_fabric_message_ns(&c, 0, 1, 10), 3010);
    near(bb_cluster_link_load_ns(&c, &load, 1), 1e5); /* its NIC; two rails' pod uplinks carry 8 / 7, a rail's leaf 1 */
    c.fabric.oversubscription[BB_LEAF] = 8;
    near(bb_cluster_link_load_ns(&c, &load, 1), 1e5 / (2 / 8.0));
}

/* ---- collectives alone ---- */

/* A ring leaves a leaf once, with what one node sends. */
static void a_ring_leaves_a_leaf_once(void **state)
{
    static const struct {
        int nodes;
        double oversubscription, times;
    } rows[] = {{4, 1, 1}, {4, 4, 1}, {4, 8, 2}, {1, 3, 3}, {2, 5, 2.5}, {16, 64, 1}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_cluster c = with_leaves(rows[i].nodes, rows[i].oversubscription);

        near(collective_ns(&c, BB_ALL_REDUCE, 16e6, 16), rows[i].times * 2 * 15e6);
        near(collective_ns(&c, BB_ALL_GATHER, 16e6, 16), rows[i].times * 15e6);
    }
}

/* Of n ranks on leaves of k each sends S/n to each of the n - k that are elsewhere; rooted, the root's leaf has all. */
static void an_alltoall_takes_all_uplinks(void **state)
{
    const double n = 16, k = 4, bytes = 16e6;

    (void)state;
    for (double o = 1; o <= 8; o *= 2) {
        struct bb_cluster c = with_leaves((int)k, o);

        near(collective_ns(&c, BB_ALLTOALL, bytes, (int)n),
             fmax((n - 1) / n * bytes, k * (n - k) / n * bytes / (k / o)));
        near(collective_ns(&c, BB_GATHER, bytes, (int)n), fmax((n - 1) / n * bytes, (n - k) / n * bytes / (k / o)));
        c.gpus_per_node = c.nics_per_node = 2; /* two NICs a node on two rails: the same bytes and twice the uplinks */
        c.fabric.rails = true;
        near(collective_ns(&c, BB_ALLTOALL, bytes, (int)n),
             fmax((n - 2) / n * bytes, 2 * k * (n - 2 * k) / n * bytes / (2 * k / o)));
    }
}

/* Half of what goes to other nodes is on the wrong rail and goes through the links within the node first. */
static void other_rails_are_reached_within_the_node(void **state)
{
    struct bb_cluster c = with_leaves(8, 1);

    (void)state;
    c.gpus_per_node = c.nics_per_node = 2;
    c.intra.gbps = 0.25;
    c.intra.latency_us = 3;
    c.inter.latency_us = 6;
    near(collective_ns(&c, BB_ALLTOALL, 16e6, 16), 6e3 + 14e6);
    c.fabric.rails = true;
    near(collective_ns(&c, BB_ALLTOALL, 16e6, 16), 9e3 + 4 * (1e6 + 14e6 / 2));
}

/* Nodes of two GPUs, each its own leaf; of three ranks one is alone on the second node. A root there has two slices to
 * get, one on the first node one. */
static void a_roots_uplinks_carry_what_is_not_on_its_node(void **state)
{
    struct bb_cluster c = with_leaves(1, 10);

    (void)state;
    c.gpus_per_node = c.nics_per_node = 2;
    for (int beside = 1; beside <= 2; beside++) {
        const struct bb_collective call = {
            .kind = BB_GATHER, .dtype = BB_INT8, .count = 1000000, .ranks = 3, .nodes = 2, .members_on_root_node = beside};

        near((double)bb_cluster_collective_ns(&c, &call, NULL), (3 - beside) * 1e6 / (2 / 10.0));
    }
}

/* One GPU of four of each node, as in data parallelism beside tensor parallelism: with rails a leaf that is its
 * rail's. */
static void a_rail_has_only_its_own_uplinks(void **state)
{
    struct bb_cluster c = with_leaves(2, 8);
    struct bb_collective call = {.kind = BB_ALL_REDUCE, .dtype = BB_INT8, .count = 8000000, .ranks = 8, .nodes = 8};

    (void)state;
    c.gpus_per_node = c.nics_per_node = 4;
    near((double)bb_cluster_collective_ns(&c, &call, NULL), 2 * 7e6);
    c.fabric.rails = true;
    near((double)bb_cluster_collective_ns(&c, &call, NULL), 2 * 7e6 / (2 / 8.0));
}

/* Of PAT's steps over 8, 4, 2 and 1 of 16 nodes those over 8 and 4 leave a leaf of four with all that four nodes
 * send in them, 1/16 and 2/16 of the data each; of those over 2 and 1 two nodes' and one node's leave it, with 4/16
 * and 8/16. */
static void pat_leaves_a_leaf_with_its_far_steps(void **state)
{
    struct bb_cluster c = with_leaves(4, 16);
    const double away = 4 * (1 + 2) / 16.0 + (2 * 4 + 1 * 8) / 16.0;

    (void)state;
    c.variants[0].algorithm = BB_NCCL_PAT;
    if (fabs(collective_ns(&c, BB_ALL_GATHER, 16e6, 16) / (away * 16e6 / (4 / 16.0)) - 1) >
        0.1) /* the law: 15/16 of 2 */
        fail_msg("%.0f ns", collective_ns(&c, BB_ALL_GATHER, 16e6, 16));
}

/* A leaf's switch adds up what its nodes send: one sum goes up, and one comes, whatever their number. */
static void a_leaf_that_reduces_sends_one_sum(void **state)
{
    struct bb_cluster c = with_leaves(4, 16);

    (void)state;
    c.variants[0].algorithm = BB_NCCL_COLLNET_CHAIN;
    near(collective_ns(&c, BB_ALL_REDUCE, 16e6, 16), 16e6 / (4 / 16.0));
}

/* LLaMA 3's: pods of 1:7, here of four nodes. */
static void pods_have_uplinks_of_their_own(void **state)
{
    struct bb_cluster c = with_leaves(2, 1);

    (void)state;
    c.fabric.nodes[BB_POD] = 4;
    c.fabric.oversubscription[BB_POD] = 7;
    near(collective_ns(&c, BB_ALLTOALL, 16e6, 16), 4 * 12 / 16.0 * 16e6 / (4 / 7.0));
    near(collective_ns(&c, BB_ALLTOALL, 4e6, 4), 3e6);
    near(collective_ns(&c, BB_ALL_REDUCE, 16e6, 16), 2 * 15e6 * 7 / 4.0); /* a ring asks for one node's NIC of four */
}

/* NCCL's two trees of 8 nodes: on leaves of one, two and four nodes four, six and four edges leave one (drawn by
 * hand). */
static void trees_leave_a_leaf_by_their_edges(void **state)
{
    static const struct {
        int nodes, edges;
    } rows[] = {{1, 4}, {2, 6}, {4, 4}, {8, 0}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_cluster c = with_leaves(rows[i].nodes, 100);
        struct bb_node_placement placement;

        c.variants[0].algorithm = BB_NCCL_TREE;
        *c.variants[0].protocol = '\0'; /* none of NCCL's, whose trees are slower at this size */
        bb_fabric_placement_of_nodes(&c, NULL, 8, &placement);
        assert_int_equal(placement.tier[BB_LEAF].max_tree_edges, rows[i].edges);
        assert_int_equal(placement.tier[BB_LEAF].switches, 8 / rows[i].nodes);
        near(collective_ns(&c, BB_ALL_REDUCE, 8e6, 8),
             fmax(2 * 8e6, rows[i].edges / 2.0 * 8e6 / (rows[i].nodes / 100.0)));
    }
}

/* Every edge of both trees has two ends: over all leaves of one node each they are 2 (n - 1) edges, each counted
 * twice. */
static void trees_are_trees(void **state)
{
    (void)state;
    for (int n = 2; n < 70; n++) {
        const struct bb_cluster c = with_leaves(1, 2);
        int most = 0, nodes[70];
        struct bb_node_placement placement;

        for (int i = 0; i < n; i++)
            nodes[i] = 3 * i; /* whichever nodes they are */
        bb_fabric_placement_of_nodes(&c, nodes, n, &placement);
        most = placement.tier[BB_LEAF].max_tree_edges;
        assert_int_equal(placement.tier[BB_LEAF].switches, n);
        assert_true(most * n >= 4 * (n - 1) && most <= 6);
    }
}

/* ---- reading ---- */

static void what_is_no_fabric_is_refused(void **state)
{
    static const struct {
        const char *text;
        bool taken;
    } rows[] = {
        {"{'fabric': {'nodes_per_leaf': 4, 'leaf_oversubscription': 2}}", true},
        {"{'fabric': {'rails': true, 'nodes_per_leaf': 4, 'leaf_oversubscription': 1, 'nodes_per_pod': 8, "
         "'pod_oversubscription': 7}}",
         true},
        {"{'fabric': {}}", false},
        {"{'fabric': {'nodes_per_leaf': 4}}", false},
        {"{'fabric': {'nodes_per_leaf': 4, 'leaf_oversubscription': 0.5}}", false},
        {"{'fabric': {'nodes_per_leaf': 0, 'leaf_oversubscription': 2}}", false},
        {"{'fabric': {'nodes_per_leaf': 4, 'leaf_oversubscription': 2, 'rails': 1}}", false},
        {"{'fabric': {'nodes_per_leaf': 4, 'leaf_oversubscription': 2, 'rail': true}}", false},
        {"{'fabric': {'nodes_per_leaf': 4, 'leaf_oversubscription': 2, 'nodes_per_pod': 8}}", false},
        {"{'fabric': {'nodes_per_leaf': 4, 'leaf_oversubscription': 2, 'pod_oversubscription': 8}}", false},
        {"{'fabric': {'nodes_per_leaf': 4, 'leaf_oversubscription': 2, 'nodes_per_pod': 6, 'pod_oversubscription': 8}}",
         false},
    };

    (void)state;
    bb_err_mute(1);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_cluster c = flat;
        char text[200];
        json_t *root;

        snprintf(text, sizeof(text), "%s", rows[i].text);
        for (char *at = text; *at; at++)
            *at = *at == '\'' ? '"' : *at;
        root = json_loads(text, 0, NULL);
        assert_non_null(root);
        if (bb_fabric_read(root, "mine.json", &c) != (rows[i].taken ? 0 : -BB_EUSAGE))
            fail_msg("row %zu: %s", i, text);
        c = flat;
        c.has_sharing = false;
        assert_int_equal(bb_fabric_read(root, "mine.json", &c), -BB_EUSAGE);
        json_decref(root);
    }
    bb_err_mute(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nics_hang_on_leaves_by_their_rail),
        cmocka_unit_test(messages_cross_what_lies_between),
        cmocka_unit_test(a_ring_leaves_a_leaf_once),
        cmocka_unit_test(an_alltoall_takes_all_uplinks),
        cmocka_unit_test(other_rails_are_reached_within_the_node),
        cmocka_unit_test(a_roots_uplinks_carry_what_is_not_on_its_node),
        cmocka_unit_test(a_rail_has_only_its_own_uplinks),
        cmocka_unit_test(pat_leaves_a_leaf_with_its_far_steps),
        cmocka_unit_test(a_leaf_that_reduces_sends_one_sum),
        cmocka_unit_test(pods_have_uplinks_of_their_own),
        cmocka_unit_test(trees_leave_a_leaf_by_their_edges),
        cmocka_unit_test(trees_are_trees),
        cmocka_unit_test(what_is_no_fabric_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
