/* test_slow.c - parsing of --slow (slower ranks and links), and its effect on a cluster. */
#include "tests/check.h"

#include "proxies/simulation/machine/exchanges.h"
#include "proxies/simulation/machine/fabric.h"

#include <math.h>

static void parses_factors_of_ranks_and_links(void **state)
{
    const struct bb_cluster c = {.gpus_per_node = 4, .nics_per_node = 4, .n_variants = 1};
    struct bb_slow slow = {0};

    (void)state;
    assert_int_equal(bb_slow_parse(&slow, "--slow", "rank=5:1.1,link=node3-nic2:0.5"), 0);
    assert_int_equal(bb_slow_parse(&slow, "--slow", "rank=0:2"), 0);
    assert_int_equal(slow.n, 3);
    assert_true(bb_slow_compute_factor(&slow, 5, 1) == 1.1 && bb_slow_compute_factor(&slow, 0, 0) == 2 &&
                bb_slow_compute_factor(&slow, 3, 0) == 1);
    assert_true(bb_slow_nic_factor(&slow, &c, 3, 2) == 0.5 && bb_slow_nic_factor(&slow, &c, 3, 1) == 1);
    assert_true(bb_slow_nic_factor(&slow, &c, 2, 2) == 1);
    assert_int_equal(bb_slow_validate(&slow, "--slow", &c, 16, 4), 0);
}

/* Nodes of four GPUs. Factors of the same GPU or NIC are multiplied. */
static void slow_node_slows_its_gpus_and_nics(void **state)
{
    const struct bb_cluster c = {
        .gpus_per_node = 4, .nics_per_node = 4, .n_variants = 1, .inter = {.gbps = 50}, .has_sharing = true};
    struct bb_slow slow = {0};
    json_t *list;

    (void)state;
    assert_int_equal(bb_slow_parse(&slow, "--slow", "node1:0.5,rank=5:3,link=node1-nic2:0.5"), 0);
    for (int rank = 0; rank < 12; rank++) {
        const bool slowed = rank / 4 == 1;

        assert_true(bb_slow_compute_factor(&slow, rank, rank / 4) == (rank == 5 ? 6 : slowed ? 2 : 1));
        assert_true(bb_slow_nics_gbps(&slow, &c, rank) == (rank == 6 ? 12.5 : slowed ? 25 : 50));
    }
    list = bb_slow_json(&slow);
    assert_string_equal(json_string_value(json_array_get(list, 0)), "node1:0.5");
    assert_string_equal(json_string_value(json_array_get(list, 1)), "rank=5:3");
    assert_string_equal(json_string_value(json_array_get(list, 2)), "link=node1-nic2:0.5");
    json_decref(list);
    assert_int_equal(bb_slow_validate(&slow, "--slow", &c, 8, 2), 0);
    bb_err_mute(1);
    assert_int_equal(bb_slow_validate(&slow, "--slow", &c, 4, 1), -BB_EUSAGE);
    assert_int_equal(bb_slow_parse(&slow, "--slow", "node0:2"), -BB_EUSAGE);
    assert_int_equal(bb_slow_parse(&slow, "--slow", "node1:0.25"), -BB_EUSAGE); /* given twice */
    bb_err_mute(0);
}

static void parses_delays_with_units(void **state)
{
    static const char *const wrong[] = {"rank=1:100", "rank=1:2s", "1:100ns", "rank=1:5min", "link=leaf0:1us"};
    struct bb_slow slow = {0};
    json_t *list;

    (void)state;
    assert_int_equal(bb_slow_parse_delays(&slow, "--delay", "rank=0:0us,rank=1:100us,rank=2:1.5ms,rank=3:1s"), 0);
    assert_int_equal(bb_slow_delay_ns(&slow, 0), 0);
    assert_int_equal(bb_slow_delay_ns(&slow, 1), 100000);
    assert_int_equal(bb_slow_delay_ns(&slow, 2), 1500000);
    assert_int_equal(bb_slow_delay_ns(&slow, 3), 1000000000);
    assert_true(bb_slow_compute_factor(&slow, 1, 0) == 1);
    assert_int_equal(bb_slow_parse_delays(&slow, "--delay", "4:7,5:7us"), 0); /* as in busbar bench */
    assert_int_equal(bb_slow_delay_ns(&slow, 4), 7000);
    assert_int_equal(bb_slow_delay_ns(&slow, 5), 7000);
    assert_int_equal(bb_slow_parse_delays(&slow, "--delay", "rank=6:0.1234567s"), 0);
    list = bb_slow_json(&slow);
    assert_string_equal(json_string_value(json_array_get(list, 3)), "rank=3:1000000us");
    assert_string_equal(json_string_value(json_array_get(list, 6)), "rank=6:123456.7us");
    json_decref(list);
    bb_err_mute(1);
    assert_int_equal(bb_slow_validate(&slow, "--slow", NULL, 3, 0), -BB_EUSAGE);
    assert_int_equal(bb_slow_parse(&slow, "--slow", "rank=1:100us"), -BB_EUSAGE);
    for (size_t i = 0; i < ROWS(wrong); i++)
        if (bb_slow_parse_delays(&slow, "--delay", wrong[i]) != -BB_EUSAGE)
            fail_msg("'%s' is accepted", wrong[i]);
    bb_err_mute(0);
}

/* NIC 1 of node 0 has half of its rate. A node has eight GPUs. With two NICs, NIC 1 serves GPUs 4 to 7. With sixteen
 * NICs, NIC 1 is one of the two NICs of GPU 0. With eight NICs, and without a number of NICs in the profile, NIC 1
 * serves GPU 1. */
static void gpus_are_mapped_to_nics_in_order(void **state)
{
    static const struct {
        int nics, variants;
        double factors[8];
    } rows[] = {{2, 1, {1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5}},
                {16, 1, {0.5, 1, 1, 1, 1, 1, 1, 1}}, /* GPU 0 has NICs 0 and 1, which transfer equal parts */
                {32, 1, {0.5, 1, 1, 1, 1, 1, 1, 1}},
                {8, 1, {1, 0.5, 1, 1, 1, 1, 1, 1}},
                {0, 0, {1, 0.5, 1, 1, 1, 1, 1, 1}}};
    struct bb_slow slow = {0};

    (void)state;
    assert_int_equal(bb_slow_parse(&slow, "--slow", "link=node0-nic1:0.5"), 0);
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_cluster c = {.gpus_per_node = 8,
                                     .nics_per_node = rows[i].nics,
                                     .n_variants = rows[i].variants,
                                     .inter = {.gbps = 50},
                                     .has_sharing = true};
        const double gbps = 50 * fmax(1, rows[i].nics / 8.0);

        for (int gpu = 0; gpu < 8; gpu++) {
            assert_true(bb_slow_nic_factor(&slow, &c, 0, gpu) == rows[i].factors[gpu]);
            assert_true(bb_slow_nics_gbps(&slow, &c, gpu) == gbps * rows[i].factors[gpu]);
        }
        /* ranks beyond the GPUs of a node start again at GPU 0 */
        assert_true(bb_slow_nic_factor(&slow, &c, 0, 8) == rows[i].factors[0]);
    }
}

/* Nodes of four GPUs, two nodes per leaf. With rails each pair of nodes has four leaves, one per NIC. */
static void slow_leaf_is_selected_by_index(void **state)
{
    struct bb_cluster c = {
        .gpus_per_node = 4, .nics_per_node = 4, .n_variants = 1, .fabric = {.nodes = {2}, .oversubscription = {1}}};
    struct bb_slow slow = {0};

    (void)state;
    assert_int_equal(bb_slow_parse(&slow, "--slow", "link=leaf1:0.25"), 0);
    bb_err_mute(1);
    assert_int_equal(bb_slow_validate(&slow, "--slow", &c, 8, 2), -BB_EUSAGE);
    bb_err_mute(0);
    assert_int_equal(bb_slow_validate(&slow, "--slow", &c, 12, 3), 0);
    assert_true(bb_slow_leaf_factor(&slow, &c, 7) == 1 && bb_slow_leaf_factor(&slow, &c, 8) == 0.25);
    c.fabric.rails = true;
    assert_int_equal(bb_slow_validate(&slow, "--slow", &c, 8, 2), 0);
    assert_true(bb_slow_leaf_factor(&slow, &c, 5) == 0.25 && bb_slow_leaf_factor(&slow, &c, 8) == 1);
    assert_false(bb_fabric_has_oversubscribed_tier(&c));
    bb_slow_degrade_fabric(&slow, &c);
    assert_true(bb_fabric_is_oversubscribed(&c, BB_LEAF) && !bb_fabric_is_oversubscribed(&c, BB_POD));
}

/* A path at half of the rate of 1 byte/ns: in both directions, or from node 1 to node 2. The load of rank 1 is 8 bytes to
 * node 2 and 4 bytes to node 0. */
static void slow_path_lengthens_its_transfers(void **state)
{
    static const struct {
        const char *slow;
        double sent_ns, received_ns, pair, ring; /* pair, ring: slow.ring of nodes 1 and 2, and of nodes 0, 1 and 3 */
    } rows[] = {{"link=node2-node1:0.5", 16, 16, 2, 0},
                {"link=node1-to-node2:0.5", 16, 12, 2, 0},
                {"link=node0-node3:0.25", 12, 12, 0, 4},
                {"link=node0-node2:0.1", 12, 12, 0, 0}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_cluster c = {
            .gpus_per_node = 1, .n_variants = 1, .nics_per_node = 1, .intra = {.gbps = 1000}, .inter = {.gbps = 1}};
        struct bb_node_placement placement;
        struct bb_link_load load[2] = {{.out = {0}}};
        struct bb_slow slow = {0};

        assert_int_equal(bb_slow_parse(&slow, "--slow", rows[i].slow), 0);
        assert_int_equal(bb_slow_validate(&slow, "--slow", &c, 4, 4), 0);
        bb_slow_degrade_fabric(&slow, &c);
        for (int way = 0; way < 2; way++) {
            bb_fabric_add_message(&c, &load[way], 1, 2, 8, way == 0);
            bb_fabric_add_message(&c, &load[way], 1, 0, 4, way == 0);
        }
        assert_true(bb_cluster_link_load_ns(&c, &load[0], 1) == rows[i].sent_ns);
        assert_true(bb_cluster_link_load_ns(&c, &load[1], 1) == rows[i].received_ns);
        bb_cluster_placement_of_ranks(&c, (const int[]){1, 2}, 2, &placement);
        assert_true(placement.slow.ring == rows[i].pair);
        bb_cluster_placement_of_ranks(&c, (const int[]){0, 1, 3}, 3, &placement);
        assert_true(placement.slow.ring == rows[i].ring);
    }
}

/* Eight nodes of two GPUs with a NIC each, paths at a tenth of the rate. Edges of NCCL's trees (trees.cc, ncclGetDtree): 0-4, 4-2,
 * 4-6, 2-1, 2-3, 6-5, 6-7, and mirrored 7-3, 3-5, 3-1, 5-6, 5-4, 1-2, 1-0. A node's NIC sends four halves of the data of a
 * tree, one per edge; the slices of 14 ranks in an alltoall, two over each path; of 7 nodes with PAT, 4 over distance 1, 2
 * over distance 2, and 1 over distance 4. */
static void slow_path_lengthens_collectives_by_its_bytes(void **state)
{
    static const struct {
        const char *slow;
        double ring, trees, pat, alltoall;
    } rows[] = {{"link=node0-node4:0.1", 0, 10.0 / 4, 10.0 / 7, 20.0 / 14},
                {"link=node2-node4:0.1", 0, 10.0 / 4, 20.0 / 7, 20.0 / 14},
                {"link=node7-node3:0.1", 0, 10.0 / 4, 10.0 / 7, 20.0 / 14},
                {"link=node3-node4:0.1", 10, 0, 40.0 / 7, 20.0 / 14},
                {"link=node5-node6:0.1", 10, 20.0 / 4, 40.0 / 7, 20.0 / 14}, /* an edge of both trees */
                {"link=node0-node3:0.1", 0, 0, 0, 20.0 / 14},
                {"link=node4-node0:0.1,link=node4-to-node2:0.2", 0, 15.0 / 4, 20.0 / 14, 30.0 / 14},
                {"link=node1-node2:0.1,link=node1-to-node2:0.2", 10, 20.0 / 4, 40.0 / 7, 20.0 / 14},
                {"link=node0-node9:0.1", 0, 0, 0, 0}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_cluster c = {.gpus_per_node = 2, .n_variants = 1, .nics_per_node = 2};
        struct bb_node_placement placement;
        struct bb_slow slow = {0};
        int ranks[16];

        assert_int_equal(bb_slow_parse(&slow, "--slow", rows[i].slow), 0);
        bb_slow_degrade_fabric(&slow, &c);
        for (int r = 0; r < 16; r++)
            ranks[r] = r;
        bb_cluster_placement_of_ranks(&c, ranks, 16, &placement);
        assert_true(fabs(placement.slow.ring - rows[i].ring) < 1e-9);
        assert_true(fabs(placement.slow.trees - rows[i].trees) < 1e-9);
        for (int reduces = 0; reduces < 2; reduces++) /* the paths are slow in both directions */
            assert_true(fabs(placement.slow.pat[reduces] - rows[i].pat) < 1e-9);
        assert_true(fabs(placement.slow.alltoall - rows[i].alltoall) < 1e-9);
    }
}

/* Eight nodes, paths at a tenth of the rate in one direction. In PAT, all_gather sends to the node at distance 1, 2 and 4
 * ahead, and reduce_scatter to the node as far before (ncclTransportPatConnect). */
static void pat_uses_a_path_in_one_direction(void **state)
{
    static const struct {
        const char *slow;
        double gather, reduce;
    } rows[] = {{"link=node2-to-node4:0.1", 20.0 / 7, 0},
                {"link=node4-to-node2:0.1", 0, 20.0 / 7},
                {"link=node7-to-node0:0.1", 40.0 / 7, 0},
                {"link=node0-to-node4:0.1", 10.0 / 7, 10.0 / 7}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_cluster c = {.gpus_per_node = 1, .n_variants = 1, .nics_per_node = 1};
        struct bb_node_placement placement;
        struct bb_slow slow = {0};

        assert_int_equal(bb_slow_parse(&slow, "--slow", rows[i].slow), 0);
        bb_slow_degrade_fabric(&slow, &c);
        bb_cluster_placement_of_ranks(&c, (const int[]){0, 1, 2, 3, 4, 5, 6, 7}, 8, &placement);
        assert_true(fabs(placement.slow.pat[0] - rows[i].gather) < 1e-9);
        assert_true(fabs(placement.slow.pat[1] - rows[i].reduce) < 1e-9);
    }
}

/* Two GPUs share a NIC of 1 byte/ns, and a third GPU is on another node: completion times of their exchanges. */
static void exchanges_share_each_direction_of_a_nic(void **state)
{
    static const struct {
        double out[2], in[2]; /* loads of the first and the second GPU */
        const char *slow;
        double done_ns[3];
    } rows[] = {{{10, 0}, {0, 6}, NULL, {10, 6, 8}},
                {{10, 6}, {0, 0}, NULL, {16, 12, 8}}, /* each flow has half of the NIC until the shorter flow ends */
                {{0, 0}, {10, 6}, NULL, {16, 12, 8}},
                {{10, 6}, {0, 0}, "link=node0-nic0:0.5", {32, 24, 8}},
                {{10, 0}, {0, 0}, "link=node1-nic0:0.5", {10, 0, 16}}};
    const struct bb_cluster c = {.gpus_per_node = 2,
                                 .nics_per_node = 1,
                                 .intra = {.gbps = 1000},
                                 .inter = {.gbps = 1},
                                 .n_variants = 1,
                                 .has_sharing = true};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_exchange exchanges[3] = {{.rank = 0, .load = {.out = {rows[i].out[0]}, .in = {rows[i].in[0]}}},
                                           {.rank = 1, .load = {.out = {rows[i].out[1]}, .in = {rows[i].in[1]}}},
                                           {.rank = 2, .load = {.out = {8}}}};
        struct bb_slow slow = {0};

        if (rows[i].slow)
            assert_int_equal(bb_slow_parse(&slow, "--slow", rows[i].slow), 0);
        bb_exchanges_run(&c, &slow, exchanges, 3);
        for (int x = 0; x < 3; x++)
            assert_true(fabs(exchanges[x].done_ns - rows[i].done_ns[x]) < 1e-9);
    }
    assert_true(bb_exchanges_can_contend(&c, 0, 1) && !bb_exchanges_can_contend(&c, 0, 2));
}

static void job_uses_the_nics_of_its_gpus(void **state)
{
    static const struct {
        int gpus_per_node, nics_per_node, gpus, nics;
    } rows[] = {{8, 8, 2, 2}, {8, 4, 4, 2}, {8, 4, 3, 2}, {8, 4, 5, 3}, {4, 8, 2, 4}, {8, 4, 16, 8}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bb_cluster c = {
            .n_variants = 1, .gpus_per_node = rows[i].gpus_per_node, .nics_per_node = rows[i].nics_per_node};

        bb_cluster_set_gpus_per_node(&c, rows[i].gpus);
        assert_int_equal(c.gpus_per_node, rows[i].gpus);
        assert_int_equal(c.nics_per_node, rows[i].nics);
    }
}

static void rejects_invalid_values(void **state)
{
    static const char *const wrong[] = {"",
                                        "rank",
                                        "rank=5",
                                        "rank=:2",
                                        "rank=x:1.1",
                                        "rank=5:0",
                                        "rank=5:1e9",
                                        "rank=5:-1",
                                        "rank=5:nan",
                                        "rank=5:1.1,",
                                        "rank=5:1.1x",
                                        "rank=5:1;rank=6:1",
                                        "rank=-1:2",
                                        "link=node3:1",
                                        "link=nic2:0.5",
                                        "link=node3-nic:0.5",
                                        "link=node3-nic2:1.01",
                                        "node=3:2",
                                        "link=leaf:0.5",
                                        "link=leaf3",
                                        "link=leaf3:2",
                                        "link=leaf3-nic1:0.5",
                                        "link=leaf1:0.5,link=leaf1:0.6",
                                        "link=node1-node1:0.5",
                                        "link=node1-node2:0.5,link=node2-node1:0.5",
                                        "link=node1-to-node1:0.5",
                                        "link=node1-node2",
                                        "rank=1:2,rank=1:3"};
    const struct bb_cluster c = {.gpus_per_node = 8, .nics_per_node = 4, .n_variants = 1};
    static const char *const missing[] = {"rank=16:2", "link=node2-nic0:0.5", "link=node1-nic4:0.5", "link=leaf0:0.5",
                                          "link=node0-node2:0.5"};

    (void)state;
    bb_err_mute(1);
    for (size_t i = 0; i < ROWS(wrong); i++) {
        struct bb_slow slow = {0};
        if (bb_slow_parse(&slow, "--slow", wrong[i]) != -BB_EUSAGE)
            fail_msg("'%s' is accepted", wrong[i]);
    }
    for (size_t i = 0; i < ROWS(missing); i++) {
        struct bb_slow slow = {0};
        assert_int_equal(bb_slow_parse(&slow, "--slow", missing[i]), 0);
        assert_int_equal(bb_slow_validate(&slow, "--slow", &c, 16, 2), -BB_EUSAGE);
    }
    bb_err_mute(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_factors_of_ranks_and_links),
        cmocka_unit_test(slow_node_slows_its_gpus_and_nics),
        cmocka_unit_test(parses_delays_with_units),
        cmocka_unit_test(gpus_are_mapped_to_nics_in_order),
        cmocka_unit_test(slow_leaf_is_selected_by_index),
        cmocka_unit_test(exchanges_share_each_direction_of_a_nic),
        cmocka_unit_test(slow_path_lengthens_its_transfers),
        cmocka_unit_test(slow_path_lengthens_collectives_by_its_bytes),
        cmocka_unit_test(pat_uses_a_path_in_one_direction),
        cmocka_unit_test(job_uses_the_nics_of_its_gpus),
        cmocka_unit_test(rejects_invalid_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
