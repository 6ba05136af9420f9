/*
 * test_fabric.c - leaf switches and pods: the switch of each GPU, the traffic of messages and collectives on uplinks,
 * and the time of a single collective. Expected numbers are closed forms for NICs of 1 byte/ns.
 */
#include "tests/check.h"

#include "proxies/simulation/machine/fabric.h"

#include <math.h>
#include <stdlib.h>

static const struct bb_cluster flat = {.gpus_per_node = 1,
                                       .nics_per_node = 1,
                                       .sm_count = 100,
                                       .intra = {.gbps = 1000},
                                       .inter = {.gbps = 1},
                                       .variants = {{BB_NCCL_RING, "Simple", 0, 0, 0, 1000, 1, 0, 0, 0, 0, 0}},
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

static void assert_near(double actual, double expected)
{
    if (fabs(actual - expected) > 1e-6 * fabs(expected) + 0.5)
        fail_msg("%.9g, expected %.9g", actual, expected);
}

/* ---- switches ---- */

/* Nodes of four GPUs with two NICs. Without rails all GPUs of a node are on one leaf. With rails GPUs 0 and 1 are on
 * one leaf, and GPUs 2 and 3 on another. */
static void nics_are_attached_to_leaves_by_rail(void **state)
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
    /* NICs with the same index of two nodes */
    assert_near(1e6 * bb_fabric_uplink_gbps(&c, BB_LEAF), 1e6 * 2 * 1 / 4.0);
    c.fabric.rails = false;
    assert_near(1e6 * bb_fabric_uplink_gbps(&c, BB_LEAF), 1e6 * 2 * 2 / 4.0);
    c.nics_per_node = 8; /* two NICs per GPU, which form one rail */
    c.fabric.rails = true;
    assert_int_equal(bb_fabric_switch(&c, BB_LEAF, 11), 1 * 4 + 3);
    assert_near(1e6 * bb_fabric_uplink_gbps(&c, BB_LEAF), 1e6 * 2 * 2 / 4.0);
}

/* Leaves of four nodes with eight NICs, 4:1. A job with GPUs of some NICs only has the uplinks of all; with rails, unused NICs
 * have leaves of their own. */
static void jobs_on_some_gpus_of_a_node_keep_the_uplinks(void **state)
{
    static const struct {
        int gpus;
        double all, rail;
    } rows[] = {{8, 4 * 8 / 4.0, 1}, {2, 4 * 8 / 4.0, 1}, {1, 4 * 8 / 4.0, 1}, {16, 4 * 16 / 4.0, 1}};
    struct bb_cluster c = with_leaves(4, 4);

    (void)state;
    c.gpus_per_node = c.nics_per_node = 8;
    for (size_t i = 0; i < ROWS(rows); i++) { /* each from the previous one */
        bb_cluster_set_gpus_per_node(&c, rows[i].gpus);
        c.fabric.rails = false;
        assert_near(1e6 * bb_fabric_uplink_gbps(&c, BB_LEAF), 1e6 * rows[i].all);
        c.fabric.rails = true;
        assert_near(1e6 * bb_fabric_uplink_gbps(&c, BB_LEAF), 1e6 * rows[i].rail);
    }
}

static void messages_load_the_uplinks_between_ranks(void **state)
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
    bb_fabric_add_message(&c, &load, 0, 1, 1, true);    /* another GPU of the node */
    bb_fabric_add_message(&c, &load, 0, 2, 10, true);   /* another node of the leaf */
    bb_fabric_add_message(&c, &load, 0, 3, 100, true);  /* another node, on the other rail */
    bb_fabric_add_message(&c, &load, 0, 4, 1e3, true);  /* another leaf of the pod */
    bb_fabric_add_message(&c, &load, 0, 9, 1e4, true);  /* another pod, other rail */
    bb_fabric_add_message(&c, &load, 0, 8, 1e5, false); /* received from another pod */
    assert_near(load.out[0], 11110);
    assert_near(load.out[1], 1 + 100 + 1e4);
    assert_near(load.up[BB_LEAF], 1e3 + 1e4);
    assert_near(load.up[BB_POD], 1e4);
    assert_near(load.in[0] + load.down[BB_LEAF] + load.down[BB_POD], 3e5);
    assert_true(load.in[1] == 0);
    assert_near((double)bb_fabric_message_ns(&c, 0, 2, 10), 6010);
    assert_near((double)bb_fabric_message_ns(&c, 0, 3, 10), 9010);
    assert_near((double)bb_fabric_message_ns(&c, 0, 1, 10), 3010);
    /* limited by the NIC; the pod uplinks of two rails carry 8 / 7, the leaf uplinks of a rail 1 */
    assert_near(bb_cluster_link_load_ns(&c, &load, 1), 1e5);
    c.fabric.oversubscription[BB_LEAF] = 8;
    assert_near(bb_cluster_link_load_ns(&c, &load, 1), 1e5 / (2 / 8.0));
}

/* ---- collectives without contention ---- */

/* A ring crosses the uplink of a leaf once in each direction, with the bytes that one node sends. */
static void ring_crosses_a_leaf_uplink_once(void **state)
{
    static const struct {
        int nodes;
        double oversubscription, factor;
    } rows[] = {{4, 1, 1}, {4, 4, 1}, {4, 8, 2}, {1, 3, 3}, {2, 5, 2.5}, {16, 64, 1}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_cluster c = with_leaves(rows[i].nodes, rows[i].oversubscription);

        assert_near(collective_ns(&c, BB_ALL_REDUCE, 16e6, 16), rows[i].factor * 2 * 15e6);
        assert_near(collective_ns(&c, BB_ALL_GATHER, 16e6, 16), rows[i].factor * 15e6);
    }
}

/* n ranks on leaves of k: each rank sends S/n to each of the n - k ranks on other leaves. In a rooted collective the
 * root's leaf carries all of that. */
static void alltoall_uses_all_uplinks(void **state)
{
    const double n = 16, k = 4, bytes = 16e6;

    (void)state;
    for (double o = 1; o <= 8; o *= 2) {
        struct bb_cluster c = with_leaves((int)k, o);

        assert_near(collective_ns(&c, BB_ALLTOALL, bytes, (int)n),
                    fmax((n - 1) / n * bytes, k * (n - k) / n * bytes / (k / o)));
        assert_near(collective_ns(&c, BB_GATHER, bytes, (int)n),
                    fmax((n - 1) / n * bytes, (n - k) / n * bytes / (k / o)));
        /* two NICs per node on two rails: the same bytes with twice the uplinks */
        c.gpus_per_node = c.nics_per_node = 2;
        c.fabric.rails = true;
        assert_near(collective_ns(&c, BB_ALLTOALL, bytes, (int)n),
                    fmax((n - 2) / n * bytes, 2 * k * (n - 2 * k) / n * bytes / (2 * k / o)));
    }
}

/* Half of the inter-node bytes are for the other rail and first cross the links inside the node. */
static void other_rails_are_reached_through_node_links(void **state)
{
    struct bb_cluster c = with_leaves(8, 1);

    (void)state;
    c.gpus_per_node = c.nics_per_node = 2;
    c.intra.gbps = 0.25;
    c.intra.latency_us = 3;
    c.inter.latency_us = 6;
    assert_near(collective_ns(&c, BB_ALLTOALL, 16e6, 16), 6e3 + 14e6);
    c.fabric.rails = true;
    assert_near(collective_ns(&c, BB_ALLTOALL, 16e6, 16), 9e3 + 4 * (1e6 + 14e6 / 2));
}

/* Nodes of two GPUs, one node per leaf, three ranks: the second node has one rank. A root on the second node
 * receives two slices over the uplink, a root on the first node one. */
static void rooted_collective_loads_the_uplink_of_the_root(void **state)
{
    struct bb_cluster c = with_leaves(1, 10);

    (void)state;
    c.gpus_per_node = c.nics_per_node = 2;
    for (int members = 1; members <= 2; members++) {
        const struct bb_collective call = {.kind = BB_GATHER,
                                           .dtype = BB_INT8,
                                           .count = 1000000,
                                           .ranks = 3,
                                           .nodes = 2,
                                           .members_on_root_node = members};

        assert_near((double)bb_cluster_collective_ns(&c, &call, NULL), (3 - members) * 1e6 / (2 / 10.0));
    }
}

/* The group has one GPU of four on each node, as in data parallelism with tensor parallelism of 4. With rails such a
 * group uses only the leaf of its rail. */
static void rail_group_uses_only_the_uplinks_of_its_rail(void **state)
{
    struct bb_cluster c = with_leaves(2, 8);
    struct bb_collective call = {.kind = BB_ALL_REDUCE, .dtype = BB_INT8, .count = 8000000, .ranks = 8, .nodes = 8};

    (void)state;
    c.gpus_per_node = c.nics_per_node = 4;
    assert_near((double)bb_cluster_collective_ns(&c, &call, NULL), 2 * 7e6);
    c.fabric.rails = true;
    assert_near((double)bb_cluster_collective_ns(&c, &call, NULL), 2 * 7e6 / (2 / 8.0));
}

/* PAT over 16 nodes has steps of distance 8, 4, 2 and 1. In the steps of distance 8 and 4 all four nodes of a leaf
 * send over its uplink, 1/16 and 2/16 of the data each. In the steps of distance 2 and 1 two nodes and one node send
 * over the uplink, 4/16 and 8/16 of the data each. */
static void pat_crosses_leaf_uplinks_in_distant_steps(void **state)
{
    struct bb_cluster c = with_leaves(4, 16);
    const double crossing_bytes = 4 * (1 + 2) / 16.0 + (2 * 4 + 1 * 8) / 16.0;

    (void)state;
    c.variants[0].algorithm = BB_NCCL_PAT;
    if (fabs(collective_ns(&c, BB_ALL_GATHER, 16e6, 16) / (crossing_bytes * 16e6 / (4 / 16.0)) - 1) >
        0.1) /* the cost model has 15/16 of 2 */
        fail_msg("%.0f ns", collective_ns(&c, BB_ALL_GATHER, 16e6, 16));
}

/* NCCL does not know the uplinks: PAT, the faster one by the NICs, is its choice although a ring would send half as much
 * over the uplinks. */
static void uplinks_do_not_change_the_choice_of_a_variant(void **state)
{
    struct bb_cluster c = with_leaves(4, 1);
    const struct bb_collective call = {
        .kind = BB_ALL_GATHER, .dtype = BB_INT8, .count = 1000000, .ranks = 16, .nodes = 16};

    (void)state;
    c.variants[1] = c.variants[0];
    c.variants[1].algorithm = BB_NCCL_PAT;
    c.variants[0].inter_us = 1;
    c.n_variants = 2;
    for (int i = 0; i < 3; i++) {
        const struct bb_nccl_variant *chosen = NULL;
        const double factor = i == 0 ? 1 : 4.0;

        c.fabric.oversubscription[BB_LEAF] = i == 1 ? 8 : 1;
        c.fabric.oversubscription[BB_POD] = i == 2 ? 8 : 1;
        c.fabric.nodes[BB_POD] = 4;
        assert_near((double)bb_cluster_collective_ns(&c, &call, &chosen), factor * 15e6);
        assert_ptr_equal(chosen, &c.variants[1]);
    }
}

/* The leaf switch reduces the data of its nodes: one result goes up and one comes down, whatever the number of
 * nodes. */
static void in_network_reduction_sends_one_result_per_leaf(void **state)
{
    struct bb_cluster c = with_leaves(4, 16);

    (void)state;
    c.variants[0].algorithm = BB_NCCL_COLLNET_CHAIN;
    assert_near(collective_ns(&c, BB_ALL_REDUCE, 16e6, 16), 16e6 / (4 / 16.0));
}

/* As in the Llama 3 cluster: pods with 7:1 oversubscription, here of four nodes. */
static void pods_limit_collectives_by_their_uplinks(void **state)
{
    struct bb_cluster c = with_leaves(2, 1);

    (void)state;
    c.fabric.nodes[BB_POD] = 4;
    c.fabric.oversubscription[BB_POD] = 7;
    assert_near(collective_ns(&c, BB_ALLTOALL, 16e6, 16), 4 * 12 / 16.0 * 16e6 / (4 / 7.0));
    assert_near(collective_ns(&c, BB_ALLTOALL, 4e6, 4), 3e6);
    /* a ring uses the NIC bandwidth of one node of four */
    assert_near(collective_ns(&c, BB_ALL_REDUCE, 16e6, 16), 2 * 15e6 * 7 / 4.0);
}

/* NCCL's two trees of 8 nodes: with leaves of one, two and four nodes at most four, six and four edges cross the
 * uplink of a leaf (counted by hand). */
static void tree_edges_load_the_leaf_uplinks(void **state)
{
    static const struct {
        int nodes, edges;
    } rows[] = {{1, 4}, {2, 6}, {4, 4}, {8, 0}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_cluster c = with_leaves(rows[i].nodes, 100);
        struct bb_node_placement placement;

        c.variants[0].algorithm = BB_NCCL_TREE;
        *c.variants[0].protocol = '\0'; /* no protocol of NCCL, because its trees have a correction factor at this
                                           size */
        bb_fabric_placement_of_nodes(&c, NULL, 8, &placement);
        assert_int_equal(placement.tier[BB_LEAF].max_tree_edges, rows[i].edges);
        assert_int_equal(placement.tier[BB_LEAF].switches, 8 / rows[i].nodes);
        assert_near(collective_ns(&c, BB_ALL_REDUCE, 8e6, 8),
                    fmax(2 * 8e6, rows[i].edges / 2.0 * 8e6 / (rows[i].nodes / 100.0)));
    }
}

/* The two trees have 2 (n - 1) edges, and every edge has two ends. Over all leaves of one node each, every edge is
 * counted twice. */
static void trees_have_n_minus_1_edges(void **state)
{
    (void)state;
    for (int n = 2; n < 70; n++) {
        const struct bb_cluster c = with_leaves(1, 2);
        int max_edges = 0, nodes[70];
        struct bb_node_placement placement;

        for (int i = 0; i < n; i++)
            nodes[i] = 3 * i; /* arbitrary node numbers */
        bb_fabric_placement_of_nodes(&c, nodes, n, &placement);
        max_edges = placement.tier[BB_LEAF].max_tree_edges;
        assert_int_equal(placement.tier[BB_LEAF].switches, n);
        assert_true(max_edges * n >= 4 * (n - 1) && max_edges <= 6);
    }
}

/* ---- reading of 'fabric' ---- */

static void rejects_invalid_fabric(void **state)
{
    static const struct {
        const char *text;
        bool accepted;
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
        if (bb_fabric_read(root, "mine.json", &c) != (rows[i].accepted ? 0 : -BB_EUSAGE))
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
        cmocka_unit_test(nics_are_attached_to_leaves_by_rail),
        cmocka_unit_test(jobs_on_some_gpus_of_a_node_keep_the_uplinks),
        cmocka_unit_test(messages_load_the_uplinks_between_ranks),
        cmocka_unit_test(ring_crosses_a_leaf_uplink_once),
        cmocka_unit_test(alltoall_uses_all_uplinks),
        cmocka_unit_test(other_rails_are_reached_through_node_links),
        cmocka_unit_test(rooted_collective_loads_the_uplink_of_the_root),
        cmocka_unit_test(rail_group_uses_only_the_uplinks_of_its_rail),
        cmocka_unit_test(pat_crosses_leaf_uplinks_in_distant_steps),
        cmocka_unit_test(uplinks_do_not_change_the_choice_of_a_variant),
        cmocka_unit_test(in_network_reduction_sends_one_result_per_leaf),
        cmocka_unit_test(pods_limit_collectives_by_their_uplinks),
        cmocka_unit_test(tree_edges_load_the_leaf_uplinks),
        cmocka_unit_test(trees_have_n_minus_1_edges),
        cmocka_unit_test(rejects_invalid_fabric),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
