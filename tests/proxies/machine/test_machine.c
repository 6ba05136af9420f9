/*
 * test_machine.c - durations on machines as they are: collectives by NCCL's ways, products by tiles and waves, fused
 * attention. Expected numbers are closed forms and published measurements, reckoned apart from the model.
 */
#include "tests/check.h"

#include "proxies/machine/cluster.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double collective_us(const struct bb_cluster *c, enum bb_coll_kind kind, double payload, int n, int nodes,
                            const struct bb_nccl_variant **variant)
{
    bool sliced = bb_colls[kind].flags & BB_COLL_SLICED;
    const struct bb_collective call = {
        .kind = kind, .dtype = BB_INT8, .count = (size_t)(sliced ? payload / n : payload), .ranks = n, .nodes = nodes};

    return (double)bb_cluster_collective_ns(c, &call, variant) / 1e3;
}

static void near(double got, double expected, double part)
{
    if (fabs(got / expected - 1) > part)
        fail_msg("%.6g, expected %.6g within %g", got, expected, part);
}

/* LogGP, a ring of 1024: 2(P-1)(L + (S/P - 1) G) with L = 500 ns and G = 1 ns for a byte. */
static void a_ring_is_that_of_loggp(void **state)
{
    const struct bb_cluster c = {.gpus_per_node = 1,
                                 .nics_per_node = 1,
                                 .inter = {.gbps = 1},
                                 .variants = {{BB_NCCL_RING, "Simple", 0, 0.5, 0.5, 1, 1, 0, 0}},
                                 .n_variants = 1};
    struct bb_cluster one_node = c;

    (void)state;
    one_node.gpus_per_node = 1024;
    near(collective_us(&c, BB_ALL_REDUCE, 1 << 28, 1024, 1024, NULL), 537367.578, 1e-4);
    near(collective_us(&one_node, BB_ALL_REDUCE, 1 << 28, 1024, 1, NULL), 537367.578, 1e-4);
    near(collective_us(&c, BB_ALL_REDUCE, 1024, 1024, 1024, NULL), 2 * 1023 * 0.501, 1e-4); /* latency, not its log */
}

/* Sixteen on two nodes of eight, 800 bytes a us through the NICs of a node's members. */
static void ways_have_their_own_steps_and_bytes(void **state)
{
    static const struct {
        enum bb_nccl_algorithm algorithm;
        enum bb_coll_kind kind;
        int n, nodes;
        double us; /* of 16 kB: 10 once, 1 within, 100 between; 1000 bytes a us within */
    } rows[] = {
        {BB_NCCL_RING, BB_ALL_REDUCE, 16, 2, 10 + 28 + 200 + 1.875 * 16000 / 800},
        {BB_NCCL_RING, BB_ALL_GATHER, 16, 2, 10 + 14 + 100 + 0.9375 * 16000 / 800},
        {BB_NCCL_RING, BB_ALL_REDUCE, 8, 1, 10 + 14 + 1.75 * 16000 / 1000},
        {BB_NCCL_TREE, BB_ALL_REDUCE, 16, 2, 10 + 14 + 200 + 2 * 16000.0 / 1000}, /* between: 16000 / 800 */
        {BB_NCCL_TREE, BB_ALL_REDUCE, 64, 8, 10 + 14 + 600 + 2 * 16000.0 / 800},
        {BB_NCCL_NVLS, BB_ALL_REDUCE, 8, 1, 10 + 1 + 1.75 * 16000 / 1000},
        {BB_NCCL_NVLS_TREE, BB_ALL_REDUCE, 32, 4, 10 + 1 + 400 + 2 * 16000.0 / 800},
        {BB_NCCL_PAT, BB_REDUCE_SCATTER, 8, 8, 10 + 300 + 0.875 * 16000 / 100},
        {BB_NCCL_RING, BB_BROADCAST, 8, 1, 10 + 7 + 16000.0 / 1000},
        {BB_NCCL_COLLNET_DIRECT, BB_ALL_REDUCE, 64, 8, 10 + 2 + 100 + 1.96875 * 16000 / 1000}, /* out: 16000 / 800 */
        {BB_NCCL_COLLNET_CHAIN, BB_ALL_REDUCE, 64, 8, 10 + 14 + 100 + 1.96875 * 16000 / 1000},
        {BB_NCCL_COLLNET_DIRECT, BB_ALL_REDUCE, 8, 8, 10 + 100 + 16000.0 / 100}, /* a ring: 1.75 x 16000 / 100 */
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_cluster c = {.gpus_per_node = 8,
                                     .nics_per_node = 4, /* of 0.2 bytes a ns: 0.1 for each GPU */
                                     .inter = {.gbps = 0.2},
                                     .variants = {{rows[i].algorithm, "", 10, 1, 100, 1, 1, 0, 0}},
                                     .n_variants = 1};
        const struct bb_nccl_variant *variant;

        near(collective_us(&c, rows[i].kind, 16000, rows[i].n, rows[i].nodes, &variant), rows[i].us, 1e-6);
        assert_ptr_equal(variant, &c.variants[0]);
    }
}

/* Of 2 GPUs 32 chunks are a round: 5 us for each of the rounds, two more fill the pipeline. 1000 bytes a us of eight
 * GPUs' bus bandwidth, whose links carry 9/8 of an array where those of two carry 3/2. */
static void nvls_waits_once_a_round(void **state)
{
    static const struct {
        double bytes, round;
    } rows[] = {{1000, 1000},        {3 << 19, 1 << 19},        {(2 << 20) - 4, 1 << 19},
                {2 << 20, 1 << 20},  {(16 << 20) - 4, 1 << 20}, {16 << 20, 2 << 20},
                {256 << 20, 4 << 20}};
    struct bb_cluster c = {
        .gpus_per_node = 8, .nics_per_node = 8, .variants = {{BB_NCCL_NVLS, "Simple", 10, 1, 0, 1, 1, 5, 0}}, .n_variants = 1};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        near(collective_us(&c, BB_ALL_REDUCE, rows[i].bytes, 2, 1, NULL),
             10 + 1 + 5 * (ceil(rows[i].bytes / rows[i].round) + 2) +
                 7.0 / 3 * (rows[i].bytes + 2 * rows[i].round) / 1000,
             1e-6);
    c.variants[0].channels = 24; /* of Blackwell: 96 MiB are 8 rounds of 64 KiB for each of 8 GPUs, 8 rounds and fill 2 */
    near(collective_us(&c, BB_ALL_REDUCE, 96 << 20, 8, 1, NULL), 11 + 5 * 10 + 1.75 * (120 << 20) / 1000, 1e-6);
    c.gpus_per_node = 72; /* a part of the sum for 32 GPUs at most: 96 MiB are 4 rounds of 32 KiB */
    near(collective_us(&c, BB_ALL_REDUCE, 96 << 20, 72, 1, NULL),
         11 + 5 * 6 + 1.75 * (1 + 1 / 72.0) / 1.125 * (144 << 20) / 1000, 1e-6);
}

/* Two nodes of eight: rounds of 128 KiB from 64 MiB on, of 64 KiB from 8 MiB on; from four nodes on 64 KiB at most. NICs
 * that carry 400 bytes a us, or links that bound it with 1000. */
static void trees_of_nvls_wait_too(void **state)
{
    static const struct {
        double mib, round_mib;
        int nodes;
        double nic_gbps;
    } rows[] = {{64, 16, 2, 100}, {63, 8, 2, 100}, {8, 8, 2, 100}, {7, 4, 2, 100},
                {64, 8, 4, 100},  {16, 8, 4, 100}, {7, 4, 4, 100}, {64, 16, 2, 0.05}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const double bytes = rows[i].mib * (1 << 20), round = rows[i].round_mib * (1 << 20);
        const double within = 1.75 * bytes / 1000,
                     between = (rows[i].nodes > 2 ? 2 : 1) * bytes / (8e3 * rows[i].nic_gbps);
        const double rounds = ceil(bytes / round), level = log2(rows[i].nodes);
        const struct bb_cluster c = {.gpus_per_node = 8,
                                     .nics_per_node = 8,
                                     .inter = {.gbps = rows[i].nic_gbps},
                                     .variants = {{BB_NCCL_NVLS_TREE, "Simple", 10, 1, 20, 1, 1, 5, 16}},
                                     .n_variants = 1};

        near(collective_us(&c, BB_ALL_REDUCE, bytes, 8 * rows[i].nodes, rows[i].nodes, NULL),
             11 + 40 * level + fmax(within + 5 * rounds, between) +
                 2 * fmax(5 + within * round / bytes, between * round / bytes),
             1e-6);
    }
}

/* NCCL's treeCorrectionFactor (src/graph/tuning.cc): 64 bytes, 64 KiB, 512 KiB, 32 MiB, 256 MiB and beyond. */
static void trees_are_slower_in_the_middle(void **state)
{
    static const struct {
        const char *protocol;
        double bytes, part;
    } rows[] = {{"LL", 64, 1},
                {"LL", 64 << 10, 0.6},
                {"LL", 512 << 10, 0.4},
                {"LL", 32 << 20, 1},
                {"LL128", 512 << 10, 0.6},
                {"LL128", 32 << 20, 0.9},
                {"Simple", 64, 0.9},
                {"Simple", 127, 0.9},
                {"Simple", 512 << 10, 0.5},
                {"Simple", 32 << 20, 0.7},
                {"Simple", 256 << 20, 0.9},
                {"Simple", 512 << 20, 1},
                {"Simple", 32, 1},
                {"unknown", 1 << 20, 1}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_cluster c = {
            .gpus_per_node = 8, .nics_per_node = 8, .variants = {{BB_NCCL_TREE, "", 10, 1, 0, 1, 1, 0, 0}}, .n_variants = 1};

        snprintf(c.variants[0].protocol, sizeof(c.variants[0].protocol), "%s", rows[i].protocol);
        near(collective_us(&c, BB_ALL_REDUCE, rows[i].bytes, 8, 1, NULL), 24 + 2 * rows[i].bytes / 1000 / rows[i].part,
             1e-4);
    }
}

/* Ten channels, 1000 bytes a us: a slice is 1 MiB of each at most. Between nodes Simple's latency is 1.4 times as long
 * from 64 bytes for each rank and channel on. */
static void a_ring_ends_with_a_slice(void **state)
{
    const double mib = 1 << 20, slices = 10 * mib / 1000;
    const struct {
        enum bb_coll_kind kind;
        const char *protocol;
        double bytes;
        int n, nodes;
        double us;
    } rows[] = {{BB_ALL_GATHER, "Simple", 16e3, 2, 1, 11 + 8 + 4},
                {BB_ALL_REDUCE, "LL", 16e3, 8, 1, 24 + 28 + 1},
                {BB_REDUCE_SCATTER, "Simple", 1024 * mib, 8, 1, 17 + 896 * mib / 1000 + slices},
                {BB_BROADCAST, "Simple", 16e3, 8, 1, 17 + 16},
                {BB_ALL_REDUCE, "Simple", 4 * 10 * 64, 4, 2, 1.4 * (10 + 4 + 200) + 3.84 + 0.32},
                {BB_ALL_REDUCE, "Simple", 4 * 10 * 63, 4, 2, 10 + 4 + 200 + 3.78 + 0.315},
                {BB_ALL_REDUCE, "LL128", 4 * 10 * 64, 4, 2, 10 + 4 + 200 + 3.84 + 0.32},
                {BB_ALL_GATHER, "Simple", 16e3, 4, 2, 10 + 2 + 100 + 12 + 2},
                {BB_ALL_GATHER, "Simple", 16e3, 8, 8, 10 + 700 + 14}}; /* no links within a node */

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_cluster c = {.gpus_per_node = rows[i].nodes == 1 ? 8 : rows[i].n / rows[i].nodes,
                               .nics_per_node = 8,
                               .inter = {.gbps = rows[i].nodes == 8 ? 0.125 : 100},
                               .variants = {{BB_NCCL_RING, "", 10, 1, 100, 1, 1, 0, 10}},
                               .n_variants = 1};

        snprintf(c.variants[0].protocol, sizeof(c.variants[0].protocol), "%s", rows[i].protocol);
        near(collective_us(&c, rows[i].kind, rows[i].bytes, rows[i].n, rows[i].nodes, NULL), rows[i].us, 2e-5);
    }
}

static void pairs_charge_each_link_its_own_bytes(void **state)
{
    const struct bb_cluster c = {.gpus_per_node = 8,
                                 .nics_per_node = 8,
                                 .intra = {.latency_us = 3, .gbps = 10},
                                 .inter = {.latency_us = 6, .gbps = 1},
                                 .variants = {{0}},
                                 .n_variants = 1};
    const struct bb_link_load load = {.out = {600, 9000}, .in = {500, 100}};

    (void)state;
    near(collective_us(&c, BB_ALLTOALL, 16000, 16, 2, NULL), 6 + 8.0, 1e-6); /* 8 slices of 1000 leave the node */
    near(collective_us(&c, BB_ALLTOALL, 80000, 8, 1, NULL), 3 + 7.0, 1e-6);  /* 7 of 10,000 do not */
    near(bb_cluster_link_load_ns(&c, &load, 8), 900, 1e-9);                       /* NVLink's, side by side with 600 */
}

/* Nodes of four GPUs on two NICs, six ranks: the second node has two members, on one NIC. Slices of 1000 bytes. */
static void members_have_the_nics_of_their_gpus(void **state)
{
    const struct bb_cluster c = {.gpus_per_node = 4,
                                 .nics_per_node = 2,
                                 .intra = {.gbps = 1000},
                                 .inter = {.gbps = 1},
                                 .variants = {{BB_NCCL_RING, "Simple", 0, 0, 0, 1000, 1, 0, 0}},
                                 .n_variants = 1,
                                 .has_sharing = true};
    const int on_each[] = {0, 2, 4, 6, 8}, beside[] = {1, 2, 3, 5};
    struct bb_node_placement placement = {0};

    (void)state;
    near(collective_us(&c, BB_ALLTOALL, 6000, 6, 2, NULL), 2 * 4 * 1000 / 1e3, 1e-6); /* both send 4 slices over it */
    near(collective_us(&c, BB_GATHER, 6000, 6, 2, NULL), 2 * 1000 / 1e3, 1e-6);       /* the root has its NIC alone  */
    near(collective_us(&c, BB_ALL_GATHER, 6000, 6, 2, NULL), 5 * 1000 / 1e3, 1e-6);   /* a ring comes through it     */
    near(collective_us(&c, BB_ALLTOALL, 8000, 8, 2, NULL), 2 * 4 * 1000 / 1e3, 1e-6);
    near(collective_us(&c, BB_ALLTOALL, 5000, 5, 2, NULL), 4 * 1000 / 1e3, 1e-6);   /* the fifth has its NIC alone */
    near(collective_us(&c, BB_ALL_GATHER, 5000, 5, 2, NULL), 4 * 1000 / 1e3, 1e-6); /* and so has the ring         */
    bb_cluster_placement_of_ranks(&c, on_each, 5, &placement);
    assert_true(placement.min_members == 1 && placement.max_members == 2 && placement.max_members_per_nic == 1);
    bb_cluster_placement_of_ranks(&c, beside, 4, &placement);
    assert_true(placement.min_members == 1 && placement.max_members == 3 && placement.max_members_per_nic == 2);
    near(placement.min_nics, 1, 1e-9); /* the fourth has one, the three have three halves */
    near(placement.max_nic_pairs, 3, 1e-9);
}

/* Four GPUs on two NICs: a GPU that sends alone has one NIC, with its mate half of one; of a machine that does not
 * share always half. */
static void a_load_knows_who_else_sends(void **state)
{
    struct bb_cluster c = {.gpus_per_node = 4,
                           .nics_per_node = 2,
                           .intra = {.gbps = 10},
                           .inter = {.gbps = 1},
                           .variants = {{0}},
                           .n_variants = 1,
                           .has_sharing = true};
    const struct bb_link_load load = {.out = {600}, .in = {500}};

    (void)state;
    near(bb_cluster_link_load_ns(&c, &load, 1), 600, 1e-9);
    near(bb_cluster_link_load_ns(&c, &load, 4), 1200, 1e-9);
    c.has_sharing = false;
    near(bb_cluster_link_load_ns(&c, &load, 1), 1200, 1e-9);
}

/* nccl-tests as published (see tests/cli/reference_data): large ones within 12 %, small and mixed ones within a factor of
 * 2.2, since machines and versions differ. */
static void published_collectives_are_met(void **state)
{
    static const struct {
        const char *cluster;
        int nics; /* 0: as the profile says */
        double nic_gbps;
        enum bb_coll_kind kind;
        double bytes;
        int n, nodes;
        double us, busbw, factor;
    } rows[] = {
        {"a100-sxm-ib", 0, 0, BB_ALL_REDUCE, 64, 8, 1, 32, 0, 2.2},
        {"a100-sxm-ib", 0, 0, BB_ALL_REDUCE, 1 << 20, 8, 1, 76.7, 0, 2.2},
        {"a100-sxm-ib", 0, 0, BB_ALL_REDUCE, 1 << 30, 8, 1, 8167, 0, 1.12},
        {"a100-40gb-sxm-ib", 4, 12.5, BB_ALL_REDUCE, 1 << 30, 16, 2, 35215, 0, 2.2},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 8, 8, 1, 13.7, 0, 1.12},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 1 << 20, 8, 1, 27.4, 0, 1.12},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 2 << 20, 8, 1, 42.2, 0, 1.05}, /* NVLS, of each size of its chunks */
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 4 << 20, 8, 1, 54.2, 0, 1.05},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 8 << 20, 8, 1, 83.0, 0, 1.05},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 32 << 20, 8, 1, 199.3, 0, 1.05},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 64 << 20, 8, 1, 324.7, 0, 1.05},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 512 << 20, 8, 1, 2151, 0, 1.05},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 1 << 30, 8, 1, 4029, 0, 1.05},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 16LL << 30, 8, 1, 62648, 0, 1.05},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 64 << 20, 2, 1, 223.4, 0, 1.2}, /* two GPUs have no NVLS */
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 1 << 30, 2, 1, 2996, 0, 1.05},
        {"h800-sxm-ib", 0, 0, BB_ALL_REDUCE, 16LL << 30, 8, 1, 0, 215, 1.05},
        {"h100-sxm-ib", 0, 0, BB_ALL_GATHER, 16e9, 8, 1, 0, 370, 1.12},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 16e9, 32, 4, 0, 366, 1.12},
        {"h100-sxm-ib", 0, 0, BB_ALL_GATHER, 16e9, 256, 32, 0, 200, 2.2},
        {"h200-sxm-ib", 0, 0, BB_ALL_REDUCE, 16e9, 1984, 248, 0, 350, 1.12},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_cluster c;
        double us, ratio;

        assert_int_equal(bb_cluster_load(rows[i].cluster, &c), 0);
        c.nics_per_node = rows[i].nics ? rows[i].nics : c.nics_per_node;
        c.inter.gbps = rows[i].nics ? rows[i].nic_gbps : c.inter.gbps;
        us = collective_us(&c, rows[i].kind, rows[i].bytes, rows[i].n, rows[i].nodes, NULL);
        ratio = rows[i].us > 0
                    ? us / rows[i].us
                    : bb_colls[rows[i].kind].bus_factor(rows[i].n) * rows[i].bytes / us / 1e3 / rows[i].busbw;
        if (ratio > rows[i].factor || ratio < 1 / rows[i].factor)
            fail_msg("row %zu: %.1f us, %.2f of what was published", i, us, ratio);
    }
}

static void the_choice_changes_with_size(void **state)
{
    const struct bb_nccl_variant *small, *middle, *large, *far;
    struct bb_cluster c;

    (void)state;
    assert_int_equal(bb_cluster_load("h100-sxm-ib", &c), 0);
    collective_us(&c, BB_ALL_REDUCE, 8, 8, 1, &small);
    collective_us(&c, BB_ALL_REDUCE, 4 << 20, 8, 1, &middle);
    collective_us(&c, BB_ALL_GATHER, 1 << 30, 8, 1, &large);
    collective_us(&c, BB_ALL_REDUCE, 8, 1024, 128, &far);
    assert_string_equal(small->protocol, "LL");
    assert_int_equal(middle->algorithm, BB_NCCL_NVLS);
    assert_int_equal(large->algorithm, BB_NCCL_RING);
    assert_string_equal(large->protocol, "Simple");
    assert_int_equal(far->algorithm, BB_NCCL_TREE); /* a ring would wait for 2046 steps */
}

/* ---- products and passes: 100 multiprocessors, 100 FLOP a ns each at the best, half of 2000 bytes a ns ---- */

static const struct bb_cluster even = {
    .sm_count = 100,
    .tflops_bfloat16 = 20,
    .tflops_float8 = 40,
    .memory_gbps = 2000,
    .has_achieved = true,
    .models_training = true,
    .achieved = {.gemm = 0.5, .gemm_float8 = 0.5, .attention_forward = 0.5, .attention_backward = 0.25, .memory = 0.5}};

static struct bb_kernel_list_item gemm(int64_t m, int64_t n, int64_t k, int64_t batch)
{
    return (struct bb_kernel_list_item){.name = "", .gemm = {m, n, k, batch, false, false, BB_BFLOAT16}};
}

static double tile_ns(int waves, int rows, int columns, int k, double rate)
{
    return waves * 2.0 * rows * columns * k / (100 * rate);
}

static void products_come_in_waves_of_tiles(void **state)
{
    struct bb_kernel_list_item item = gemm(2560, 2560, 1000, 1);

    (void)state;
    near((double)bb_cluster_kernel_ns(&even, &item), tile_ns(2, 256, 128, 1000, 1), 1e-5); /* 10 x 20: two full waves */
    item.gemm.m = 2561; /* 11 x 20 tiles would be three; 21 x 20 of 128 x 128 are five */
    near((double)bb_cluster_kernel_ns(&even, &item), tile_ns(5, 128, 128, 1000, 0.92), 1e-5);
    item = gemm(64, 64, 1000, 1); /* one tile, on one multiprocessor */
    near((double)bb_cluster_kernel_ns(&even, &item), tile_ns(1, 64, 64, 1000, 0.6), 1e-5);
    item = gemm(2560, 2560, 1000, 1);
    item.float8 = true;
    near((double)bb_cluster_kernel_ns(&even, &item), tile_ns(2, 256, 128, 1000, 2), 1e-5);
    item = gemm(64, 1000000, 1, 1); /* 2 bytes for each element of both operands and the result: memory */
    near((double)bb_cluster_kernel_ns(&even, &item), 2 * (64 + 1e6 + 64e6) / 1000, 1e-5);
}

static void attention_is_masked_and_made_again(void **state)
{
    struct bb_kernel_list_item item = gemm(12800, 12800, 64, 1);
    struct bb_cluster proxy = even;

    (void)state;
    item.fusion = BB_KERNEL_IN_ATTENTION;
    item.share = 0.5; /* causal; 100 blocks of 128 positions are one wave */
    near((double)bb_cluster_kernel_ns(&even, &item), 0.5 * 2 * 12800.0 * 12800 * 64 / 10000, 1e-6);
    item.gemm = (struct bb_gemm_shape){12800, 64, 12800, 1, false, false, BB_BFLOAT16};
    item.fusion = BB_KERNEL_IN_ATTENTION_BACKWARD;
    near((double)bb_cluster_kernel_ns(&even, &item), 1.25 * 0.5 * 2 * 12800.0 * 12800 * 64 / 5000, 1e-6);
    item.gemm.m = item.gemm.k = 12801; /* 101 blocks: two waves */
    near((double)bb_cluster_kernel_ns(&even, &item), 1.25 * 0.5 * 2 * 12801.0 * 12801 * 64 / 5000 * 200 / 101, 1e-6);
    proxy.models_training = false; /* a run of the proxy launches the product as any other */
    item.gemm = (struct bb_gemm_shape){2560, 2560, 1000, 1, false, false, BB_BFLOAT16};
    near((double)bb_cluster_kernel_ns(&proxy, &item), tile_ns(2, 256, 128, 1000, 1), 1e-5);
}

static void passes_move_their_bytes(void **state)
{
    struct bb_kernel_list_item item = {
        .name = "", .is_memory_kernel = true, .memory_kernel = {.kind = BB_MEMORY_KERNEL_COPY, .dtype = BB_BFLOAT16, .rows = 1000, .cols = 1000}};
    struct bb_cluster nominal = even, proxy = even;

    (void)state;
    near((double)bb_cluster_kernel_ns(&even, &item), 4e6 / 1000, 1e-6);
    item.fusion = BB_KERNEL_IN_GEMM;
    assert_int_equal(bb_cluster_kernel_ns(&even, &item), 0);
    proxy.models_training = false;
    near((double)bb_cluster_kernel_ns(&proxy, &item), 4e6 / 1000, 1e-6);
    nominal.has_achieved = false;
    near((double)bb_cluster_kernel_ns(&nominal, &item), 4e6 / 2000, 1e-6);
    item = gemm(2561, 2560, 1000, 1);
    near((double)bb_cluster_kernel_ns(&nominal, &item), 2 * 2561.0 * 2560 * 1000 / 20000, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_is_that_of_loggp),
        cmocka_unit_test(ways_have_their_own_steps_and_bytes),
        cmocka_unit_test(pairs_charge_each_link_its_own_bytes),
        cmocka_unit_test(members_have_the_nics_of_their_gpus),
        cmocka_unit_test(a_load_knows_who_else_sends),
        cmocka_unit_test(published_collectives_are_met),
        cmocka_unit_test(nvls_waits_once_a_round),
        cmocka_unit_test(trees_of_nvls_wait_too),
        cmocka_unit_test(trees_are_slower_in_the_middle),
        cmocka_unit_test(a_ring_ends_with_a_slice),
        cmocka_unit_test(the_choice_changes_with_size),
        cmocka_unit_test(products_come_in_waves_of_tiles),
        cmocka_unit_test(attention_is_masked_and_made_again),
        cmocka_unit_test(passes_move_their_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
